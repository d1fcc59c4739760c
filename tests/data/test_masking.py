"""Hidden tokens, masked-language heads, and the general stages that need them."""

from __future__ import annotations

import numpy as np
import pytest
import tiny
import torch
from safetensors import safe_open
from safetensors.torch import load_file
from transformers import BertForPreTraining

import methods
from bench.data.encoding import pieces
from bench.data.masking import mask_tokens, pad_batch
from bench.errors import CellError, InputError
from bench.plan.spelling import parse_one
from methods.api import Masking, Setup
from methods.core.masked import MaskedLanguageHead, TeacherHead, masked_tokens

_rng = np.random.default_rng(0)
DOCUMENTS = [
    " ".join(tiny.WORDS[min(int(w), 40)] for w in _rng.geometric(0.2, 40)) for _ in range(60)
]
"""Few words are frequent, as in any language."""


@pytest.fixture
def text(teacher_folder):
    return pieces(tiny.tokenizer(teacher_folder), DOCUMENTS, 32, 2_000)


@pytest.fixture
def corpus(tmp_path):
    file = tmp_path / "corpus.txt"
    file.write_text("\n".join(DOCUMENTS))
    return file


def test_fifteen_percent_are_hidden_and_no_special_token(text):
    batch = text.batch(range(len(text)))
    seen = mask_tokens(batch, text, Masking(), seed=0, step=5)
    special = {text.vocabulary.mask, *text.vocabulary.special}
    ordinary = sum(int(i) not in special for i in batch.token_ids)
    assert len(seen.masked_positions) == round(0.15 * ordinary)
    assert len(set(seen.masked_positions.tolist())) == len(seen.masked_positions)
    assert torch.equal(seen.masked_ids, batch.token_ids[seen.masked_positions])
    assert not special & set(seen.masked_ids.tolist())
    elsewhere = torch.ones(len(batch.token_ids), dtype=torch.bool)
    elsewhere[seen.masked_positions] = False
    assert torch.equal(seen.token_ids[elsewhere], batch.token_ids[elsewhere])
    now = seen.token_ids[seen.masked_positions]
    masked, kept = (
        (now == text.vocabulary.mask).float().mean(),
        (now == seen.masked_ids).float().mean(),
    )
    assert 0.7 < masked < 0.9
    assert 0.04 < kept < 0.2
    assert not (special - {text.vocabulary.mask}) & set(now.tolist())


def test_hiding_is_a_function_of_seed_and_step_and_new_at_every_visit(text):
    batch = text.batch(range(8))
    first = mask_tokens(batch, text, Masking(), 0, 3)
    assert torch.equal(first.token_ids, mask_tokens(batch, text, Masking(), 0, 3).token_ids)
    assert not torch.equal(first.token_ids, mask_tokens(batch, text, Masking(), 0, 4).token_ids)
    assert not torch.equal(first.token_ids, mask_tokens(batch, text, Masking(), 1, 3).token_ids)
    assert not torch.equal(batch.token_ids, first.token_ids)


def test_smoothing_hides_rare_tokens_more_often(text):
    batch = text.batch(range(len(text)))
    chosen = {}
    for smoothing in (0.0, 3.0):
        drawn = [
            mask_tokens(batch, text, Masking(0.05, smoothing), 0, step).masked_ids.numpy()
            for step in range(20)
        ]
        chosen[smoothing] = text.counts[np.concatenate(drawn)].mean()
    assert chosen[3.0] < 0.9 * chosen[0.0]


def test_only_text_is_masked_and_only_examples_of_a_task_are_filled(teacher_folder, text):
    data = tiny.encoded(teacher_folder, rows=4)
    with pytest.raises(CellError, match="only stages on text are masked"):
        mask_tokens(data.batch(range(4)), data, Masking(), 0, 0)
    with pytest.raises(CellError, match="only stages on a task's examples are filled"):
        pad_batch(text.batch(range(4)), text, 64)


def test_the_head_is_tied_and_names_the_matrix_once():
    words = torch.nn.Parameter(torch.randn(11, 6))
    head = MaskedLanguageHead(words)
    assert set(dict(head.named_parameters())) == {
        *("dense.weight", "dense.bias", "LayerNorm.weight", "LayerNorm.bias", "bias")
    }
    states = torch.randn(3, 6)
    head(states).sum().backward()
    assert words.grad is not None


def test_the_head_is_that_of_transformers(tmp_path):
    folder = tiny.save_teacher(tmp_path / "pretrained", BertForPreTraining)
    model = BertForPreTraining.from_pretrained(folder).eval()
    words = model.bert.embeddings.word_embeddings.weight
    with safe_open(folder / "model.safetensors", framework="pt") as file:
        there = set(file.keys())
    made = {
        ours: load_file(folder / "model.safetensors")[next(n for n in names if n in there)]
        for ours, names in TeacherHead.in_checkpoint.items()
    }
    weights = {"bert.embeddings.word_embeddings.weight": words.detach()}
    setup = Setup(model.config, 2, (), {"teacher_weights": weights, "masked_head": made})
    states = torch.randn(5, model.config.hidden_size)
    with torch.no_grad():
        torch.testing.assert_close(
            TeacherHead().filled(setup)(states), model.cls.predictions(states)
        )


def test_masked_cross_entropy_by_hand(text):
    batch = mask_tokens(text.batch(range(4)), text, Masking(), 0, 0)
    table = torch.randn(len(batch.token_ids), 7).requires_grad_()

    class Answer:
        def hidden(self, layer):
            assert layer == 3
            return table

    head = torch.nn.Linear(7, text.vocabulary.size)
    value = masked_tokens("head", 3).fn(batch, Answer(), None, {"head": head})
    log = head(table).log_softmax(-1)
    by_hand = -sum(
        log[place, word]
        for place, word in zip(batch.masked_positions, batch.masked_ids, strict=True)
    )
    torch.testing.assert_close(value, by_hand / len(batch.masked_ids))


def pretrain(bench, places, teacher, corpus, *methods_):
    """The lines that it prints: what the cache has of each pre-training."""
    answer = bench(
        *(
            "run",
            "--only",
            "pretraining",
            "--methods",
            ",".join(methods_),
            "--tasks",
            "rte",
            *places,
        ),
        *("--teacher", teacher, "--corpus", corpus, "--corpus-tokens", 30_000),
    )
    assert answer.returncode == 0, answer.stderr
    return answer.stdout.strip().splitlines()


@pytest.mark.slow
def test_a_teacher_without_a_head_gets_one_trained_on_the_corpus(
    bench, places, teacher_folder, corpus
):
    lines = pretrain(
        bench,
        places,
        teacher_folder,
        corpus,
        "distilbert:pretraining=masked",
        "distilbert:pretraining=masked:vocabulary_loss=masked",
    )
    assert [line.split(" (")[0].rsplit(" ", 1)[0] for line in lines] == [
        "masked head",
        "triple loss",
        "triple loss",
    ]
    for line in lines:
        first, last = line.split("masked ")[-1].split(",")[0].split(";")[0].split(" -> ")
        assert float(last) < float(first), line


def test_a_teacher_with_a_head_keeps_it(bench, places, tmp_path, corpus):
    folder = tiny.save_teacher(tmp_path / "pretrained", BertForPreTraining)
    first, *_ = pretrain(bench, places, folder, corpus, "distilbert:pretraining=masked")
    assert "masked head" in first
    assert "nothing to train" in first


@pytest.mark.slow
def test_pre_training_on_masked_words_alone_reaches_the_student(
    bench, teacher_folder, glue_folder, corpus, tmp_path
):
    rows = (
        "pd:layers=2:hidden=12:heads=4:ffn=24:start=masked,distilbert:pretraining=masked:-soft:-cos"
    )
    answer = bench(
        *(
            "run",
            "--methods",
            rows,
            "--tasks",
            "rte",
            "--data",
            glue_folder,
            "--teacher",
            teacher_folder,
        ),
        *("--corpus", corpus, "--corpus-tokens", 1_500, "--epochs", 1, "--yes"),
        *("--results", tmp_path / "r", "--reports", tmp_path / "p"),
    )
    assert answer.returncode == 0, answer.stderr
    from bench.record.store import Store

    starts = {
        r.cell.method: set(r.artefacts)
        for r in Store(tmp_path / "r").records()
        if r.cell.method != "teacher"
    }
    assert starts == {
        "pd": {"masked_pretraining", "teacher"},
        "distilbert": {"triple_loss", "teacher"},
    }


def test_settings_that_joined_later_are_not_in_a_key():
    assert "pretraining" not in parse_one("distilbert").settings
    assert parse_one("distilbert:pretraining=masked").settings["pretraining"] == "masked"
    assert parse_one("distilbert:pretraining=none").spelling == "distilbert"
    assert methods.get("distilbert")().pretraining == "none"


@pytest.mark.parametrize("without", ["none", "vocabulary", "masked", "cos"])
def test_the_first_step_of_distilbert_can_go_without_each_term(without):
    row = f"distilbert:pretraining=masked:pretraining_without={without}"
    config = tiny.config()
    (wish,) = parse_one(row).method.requires(config)
    (stage,) = wish.stages(Setup(config, 2, ()))
    assert set(stage.terms) == {"vocabulary", "masked", "cos"} - {without}


@pytest.mark.parametrize("setting", ["pretraining_without=cos", "vocabulary_loss=masked"])
def test_settings_of_the_first_step_are_refused_without_it(setting):
    with pytest.raises(
        InputError, match="pretraining_without change the first step: add pretraining=masked"
    ):
        parse_one(f"distilbert:{setting}")


@pytest.mark.parametrize(("start", "copied"), [("teacher", True), ("random", False)])
def test_the_output_bias_of_the_first_step_begins_as_the_teachers(start, copied):
    """As the authors' script copies it with the embeddings; a student of random weights has its own."""
    teacher = tiny.classifier()
    torch.manual_seed(0)
    weights = {
        name: value
        for name, value in teacher.state_dict().items()
        if not name.startswith("classifier.")
    }
    words = weights["bert.embeddings.word_embeddings.weight"]
    head = {
        f"aux.head.{name}": torch.randn_like(value)
        for name, value in MaskedLanguageHead(words).state_dict().items()
    }
    (wish,) = parse_one(f"distilbert:pretraining=masked:start={start}").method.requires(
        teacher.config
    )
    made = wish.build(
        Setup(teacher.config, 2, (), {"teacher_weights": weights, "masked_head": head})
    )
    assert torch.equal(made.aux["head"].bias, made.aux["teacher_head"].bias) == copied
    assert made.aux["head"].bias.requires_grad
