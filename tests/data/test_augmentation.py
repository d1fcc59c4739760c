"""Augmentation: the rules, the candidates, and augmented rows on their way through a run."""

from __future__ import annotations

import numpy as np
import pytest
import tiny
import torch
from hypothesis import given
from hypothesis import strategies as st
from transformers import BertForPreTraining, BertModel, DistilBertConfig, DistilBertModel

from bench.cache import WEIGHTS
from bench.data import augmentation
from bench.data.augmentation import (
    Augmentation,
    augmented,
    by_candidates,
    by_chance,
    classes_of,
    word_class,
)
from bench.data.checkpoints import find
from bench.data.word_vectors import read
from bench.errors import InputError
from bench.make.augmentation import TeacherCandidates
from bench.make.given import in_checkpoint
from bench.plan.build import build
from bench.record.store import Store
from bench.request import Request
from bench.request.choices import AUGMENTATIONS
from bench.train.numerics import ComputeSettings
from methods.core.artefacts import blank_artefacts
from methods.core.masked import TeacherHead

DOCUMENTS = [
    " ".join(tiny.WORDS[(i * 7 + j * j) % len(tiny.WORDS)] for j in range(40)) for i in range(60)
]


def nobody(sentences):
    return [{0: ["cat", "dog"]} for _ in sentences]


@pytest.mark.parametrize("kind", AUGMENTATIONS)
@pytest.mark.parametrize("pairs", [False, True])
def test_every_row_comes_first_unchanged_and_no_variant_twice(kind, pairs):
    rows = tiny.split(20, pairs=pairs)
    made, origins = augmented(rows, Augmentation(kind, 5), nobody)
    assert len(made) == len(origins) == len(set(made.ids))
    assert sorted(set(origins.tolist())) == list(range(20))
    for row in range(20):
        own = [i for i, origin in enumerate(origins) if origin == row]
        second = made.second or [""] * len(made)
        texts = [(made.first[i], second[i]) for i in own]
        assert texts[0] == (rows.first[row], rows.second[row] if pairs else "")
        assert len(set(texts)) == len(texts) <= 6
        assert {made.labels[i] for i in own} == {rows.labels[row]}
    assert list(origins) == sorted(origins)


def test_one_seed_gives_the_same_rows_another_one_others():
    rows = tiny.split(20)
    first, again, other = (augmented(rows, Augmentation("rules", 5, seed))[0] for seed in (0, 0, 1))
    assert first.fingerprint() == again.fingerprint() != other.fingerprint()


def test_four_of_ten_words_with_candidates_are_replaced():
    rng = np.random.default_rng(0)
    words = ["red", "is", "blue"]
    made = [by_candidates(words, {0: ["old"], 2: ["new", "big"]}, rng) for _ in range(4000)]
    assert {variant[1] for variant in made} == {"is"}
    assert 0.37 < np.mean([variant[0] == "old" for variant in made]) < 0.43
    assert 0.17 < np.mean([variant[2] == "big" for variant in made]) < 0.23


@given(st.lists(st.sampled_from(tiny.WORDS), min_size=1, max_size=12), st.integers(0, 2**31))
def test_the_other_rules_keep_classes_and_never_change_everything(words, seed):
    sentences = [words, tiny.WORDS]
    variant = by_chance(words, classes_of(sentences), np.random.default_rng(seed))
    assert 1 <= len(variant) <= len(words)
    assert set(variant) <= {*tiny.WORDS, augmentation.MASK}
    if len(variant) == len(words):
        for old, new in zip(words, variant, strict=True):
            assert new == augmentation.MASK or word_class(new) == word_class(old)


def test_a_word_is_hidden_as_the_teachers_tokenizer_writes_it():
    rows = tiny.split(20, pairs=False)
    more, _ = augmented(rows, Augmentation("rules", 5), mask="<mask>")
    assert any("<mask>" in text.split() for text in more.first)
    assert not any(augmentation.MASK in text for text in more.first)


def test_shares_of_the_other_rules():
    rng = np.random.default_rng(0)
    words = [f"word{'x' * n}" for n in range(10)]
    variants = [by_chance(words, classes_of([words]), rng) for _ in range(4000)]
    whole = [variant for variant in variants if len(variant) == 10]
    assert 0.72 < len(whole) / len(variants) < 0.78
    hidden = np.mean([[word == augmentation.MASK for word in variant] for variant in whole])
    assert 0.09 < hidden < 0.11
    assert {len(variant) for variant in variants} == {1, 2, 3, 4, 5, 10}


def test_candidates_are_what_a_padded_masked_model_finds(tmp_path):
    """Against transformers' own masked language model on the same question, asked one by one."""
    folder = tiny.save_teacher(tmp_path / "pretrained", BertForPreTraining)
    sentences = [["the", "cat", "sings"], ["red", "fish", "swims", "?"], ["catdog", "runs"]]
    found = teacher_candidates(folder)(sentences)
    assert [sorted(places) for places in found[:2]] == [[1, 2], [0, 1, 2]]
    tokenizer = tiny.tokenizer(folder)
    model = BertForPreTraining.from_pretrained(folder).eval()
    words = ["the", "[MASK]", "sings"]
    asked = tokenizer(" ".join(words), "the cat sings", return_tensors="pt")
    with torch.no_grad():
        logits = model(**asked).prediction_logits[0, 2]
    likely = [tokenizer.convert_ids_to_tokens(int(i)) for i in logits.topk(30).indices]
    expected = [word for word in likely if word.isalpha() and word != "cat"][:15]
    assert found[0][1] == expected
    assert "cat" not in found[0][1]


def teacher_candidates(folder, **options):
    checkpoint = find(str(folder))
    head = in_checkpoint(checkpoint.folder / WEIGHTS, TeacherHead())
    return TeacherCandidates(
        checkpoint, head, ComputeSettings(), lambda done, total: None, **options
    )


def candidates_of(folder, sentences, **changes):
    """What a pre-trained teacher of such a configuration offers for each word."""
    config = tiny.config()
    config.update(changes)
    BertForPreTraining(config).save_pretrained(tiny.save_teacher(folder))
    return teacher_candidates(folder)(sentences)


def test_a_long_sentence_is_cut_to_what_the_teacher_can_read(tmp_path):
    (found,) = candidates_of(tmp_path / "short", [["cat"] * 30], max_position_embeddings=32)
    assert sorted(found) == list(range(14)), (
        "a sentence, its copy and three special tokens are 31 tokens"
    )


def test_a_vocabulary_that_is_longer_than_the_tokenizers_gives_words_of_the_tokenizer(tmp_path):
    """Some checkpoints fill their matrix up to a multiple of 64."""
    (found,) = candidates_of(tmp_path / "padded", [["cat", "dog"]], vocab_size=64)
    assert sorted(found) == [0, 1]


@pytest.mark.slow
def test_a_run_on_augmented_rows_says_so_and_keeps_its_teacher(
    bench, glue_folder, teacher_folder, tmp_path
):
    (tmp_path / "corpus.txt").write_text("\n".join(DOCUMENTS))
    words = ["run", "--methods", f"kd:{tiny.SHAPE}:start=random", "--tasks", "rte", "--epochs", 1]
    typed = [
        "--data",
        glue_folder,
        "--teacher",
        teacher_folder,
        "--corpus",
        tmp_path / "corpus.txt",
    ]
    typed += ["--corpus-tokens", 600, "--results", tmp_path / "r"]
    words += [*typed, "--reports", tmp_path / "p"]
    assert bench(*words).returncode == 0
    done = bench(*words, "--augment", "masked", "--augment-times", 3)
    assert done.returncode == 0, done.stderr
    plain, more = sorted(
        (r for r in Store(tmp_path / "r").records() if r.cell.method == "kd"),
        key=lambda r: r.train.examples,
    )
    assert plain.train.examples == 40
    assert 80 < more.train.examples <= 160
    assert more.artefacts["augmentation.rte"]["rows"] == more.train.examples
    assert len(more.artefacts["augmentation.rte"]["weights"]) == 64
    assert more.cell.teacher == plain.cell.teacher
    assert more.artefacts["teacher"] == plain.artefacts["teacher"]
    assert more.cell.data.evaluation == plain.cell.data.evaluation
    assert "augmented 3 times" in more.cell.data.name
    titles = [path.read_text().splitlines()[0] for path in (tmp_path / "p").glob("*/*/README.md")]
    assert sum("augmented" in title for title in titles) == 1
    assert len(titles) == 2
    again = bench(*words, "--augment", "masked", "--augment-times", 3)
    assert "nothing to do" in again.stderr
    verified = bench("verify", more.key[:12], *typed)
    assert verified.stdout.startswith("bitwise equal"), verified.stdout


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--augment", "back"), "masked, rules"),
        (("--augment", "rules", "--augment-times", 0), "at least 1"),
        (
            ("--word-vectors", "no.txt", "--augment", "masked"),
            "no.txt: cannot be read: No such file",
        ),
        (("--word-vectors", "README.md", "--augment", "rules"), "goes with --augment masked"),
    ],
)
def test_bad_augmentation_is_bad_input(bench, words, said):
    answer = bench(
        "plan",
        "--methods",
        "kd",
        "--tasks",
        "rte",
        "--data",
        "sample",
        "--teacher",
        "embedded",
        *words,
    )
    assert answer.returncode == 2
    assert said in answer.stderr


def test_a_teacher_without_a_masked_language_form_is_told_so(bench, glue_folder, tmp_path):
    folder = tiny.save_teacher(tmp_path / "teacher")
    small = {
        "vocab_size": tiny.config().vocab_size,
        "dim": 24,
        "hidden_dim": 48,
        "n_layers": 2,
        "n_heads": 4,
    }
    DistilBertModel(DistilBertConfig(**small, max_position_embeddings=128)).save_pretrained(folder)
    common = (
        "--tasks",
        "rte",
        "--data",
        glue_folder,
        "--teacher",
        folder,
        "--results",
        tmp_path / "r",
    )
    answer = bench(
        "plan", "--methods", f"kd:{tiny.SHAPE}:start=random", *common, "--augment", "masked"
    )
    assert answer.returncode == 2
    assert "this teacher is a distilbert" in answer.stderr
    assert (
        bench(
            "plan", "--methods", f"kd:{tiny.SHAPE}:start=random", *common, "--augment", "rules"
        ).returncode
        == 0
    )


VECTORS = "cat 1 0 0\ndog 0.9 0.1 0\nfish 0 1 0\nswims -1 0 0.1\n. . 0 0 1\ncatdog 2 0.1 0\n"


def test_nearest_words_of_a_file_are_by_cosine_and_never_the_word_itself(tmp_path):
    file = tmp_path / "vectors.txt"
    file.write_text(VECTORS)
    found = read(file).nearest(["cat", "Fish", "unheard"], 2)
    assert found == {"cat": ["catdog", "dog"], "Fish": ["dog", "catdog"]}
    file.write_text("6 3\n" + VECTORS)  # word2vec's first line
    assert read(file).nearest(["cat"], 2) == {"cat": ["catdog", "dog"]}
    assert ". ." in read(file).words


@pytest.mark.parametrize(
    ("text", "said"),
    [("", "a word and its numbers"), ("cat dog\n", "a word and its numbers"), ("cat 1 2\ndog 1\n", "line 2"),
     ("cat 1 2\ndog 1 nan\n", "line 2: expected a word and 2 numbers")],
)  # fmt: skip
def test_what_is_no_file_of_word_vectors_is_said(tmp_path, text, said):
    file = tmp_path / "vectors.txt"
    file.write_text(text)
    with pytest.raises(InputError, match=said):
        read(file)


def test_given_vectors_take_the_place_of_the_teachers_embeddings(
    bench, glue_folder, teacher_folder, tmp_path
):
    """Only for words of several pieces; the rows, their key and the report's title say with which file."""
    file = tmp_path / "glove.txt"
    file.write_text(VECTORS)
    config = tiny.config()
    setup = blank_artefacts((TeacherHead(),), config, 2)[TeacherHead.name]
    made = [
        TeacherCandidates(
            find(str(teacher_folder)), setup, ComputeSettings(), lambda done, total: None, vectors
        )([["catdog", "runs", "fishtree"]])
        for vectors in (None, read(file))
    ]
    assert made[1][0][0] == ["cat", "dog", "fish", ". .", "swims"]
    assert made[0][0][0] == [], "[UNK] has no neighbours"
    assert made[0][0][1] == made[1][0][1], "a word of one piece is asked of the model"
    assert made[1][0][2] == [], "not in the file"
    words = [
        "plan",
        "--methods",
        f"kd:{tiny.SHAPE}:start=random",
        "--tasks",
        "rte",
        "--data",
        glue_folder,
    ]
    words += ["--teacher", teacher_folder, "--augment", "masked", "--json", tmp_path / "plan.json"]
    keys = []
    for more in ([], ["--word-vectors", file]):
        answer = bench(*words, *more)
        assert answer.returncode == 0, answer.stderr
        keys.append((tmp_path / "plan.json").read_text())
    assert keys[0] != keys[1]
    assert "with glove.txt" in answer.stdout


@pytest.mark.parametrize("has_head", [True, False])
def test_a_text_that_no_head_is_trained_on_is_in_no_key(glue_folder, tmp_path, has_head):
    """BERT's own file has its head: another --corpus must not repeat hours of augmentation."""
    teacher = tiny.save_teacher(
        tmp_path / "pretrained", BertForPreTraining if has_head else BertModel
    )
    keys = set()
    for text in ("the cat runs in the house .\n", "a bird sings on the old tree .\n"):
        (tmp_path / "corpus.txt").write_text(text * 30)
        plan = build(
            Request(f"finetune:{tiny.SHAPE}:start=random", "rte", data=str(glue_folder), teacher=str(teacher),
                    corpus=(str(tmp_path / "corpus.txt"),), corpus_tokens=300, augment="masked", results=tmp_path / "r",
                    threads=1)
        )  # fmt: skip
        keys.add(plan.tasks[0].data.train)
    assert (len(keys) == 1) == has_head


def test_augmentation_that_is_interrupted_goes_on_with_the_same_candidates(tmp_path, monkeypatch):
    monkeypatch.setattr("bench.make.augmentation.TOKENS_A_PASS", 30)  # several passes
    asked, likeliest = [], TeacherCandidates._likeliest
    monkeypatch.setattr(
        TeacherCandidates,
        "_likeliest",
        lambda self, some: asked.append(len(some)) or likeliest(self, some),
    )
    sides = [
        [["the", "cat", "sings"], ["red", "fish", "swims", "?"]] * 3,
        [["a", "bird", "runs"]] * 4,
    ]
    # makes the folder; its answers are of one side
    candidates = candidates_of(tmp_path / "teacher", sides[0])
    teacher = lambda **kept: teacher_candidates(tmp_path / "teacher", **kept)  # noqa: E731
    asked.clear()
    uninterrupted = teacher()
    whole = [uninterrupted(side) for side in sides]
    assert whole[0] == candidates
    passes, file = len(asked), tmp_path / "states" / "answers"
    asked.clear()
    with pytest.raises(KeyboardInterrupt):
        for side in map(teacher(kept=file, is_stopping=lambda: len(asked) >= passes - 1), sides):
            assert side
    asked.clear()
    with file.open("ab") as stream:
        stream.write(b"half a pass")
    again = teacher(kept=file)
    assert [again(side) for side in sides] == whole
    assert len(asked) == 1 < passes
