"""A frozen teacher without its modules: the same answers up to rounding, whatever is asked, and its modules elsewhere."""

from __future__ import annotations

from dataclasses import replace

import pytest
import tiny
import torch
from transformers import AutoConfig, AutoModelForSequenceClassification

from methods.direct_teacher import DirectTeacher, direct
from methods.models import cost, forward
from methods.packed import Layout
from methods.taps import LOGITS, hidden, pooled, scores, vectors

SIZES = {"hidden_size": 24, "num_hidden_layers": 3, "num_attention_heads": 4, "vocab_size": 60, "intermediate_size": 48}


def model_of(family):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        made = AutoModelForSequenceClassification.from_config(AutoConfig.for_model(family, **SIZES, pad_token_id=0))
    made.set_attn_implementation("packed")
    return made.eval()


@pytest.fixture(scope="module")
def batch(teacher_folder):
    """As on a GPU: in one chunk, in which the shorter sequences are filled up."""
    packed = tiny.encoded(teacher_folder).batch([3, 1, 4, 8, 5])
    assert len(set(packed.layout.lengths)) > 1
    return replace(packed, layout=Layout(packed.layout.lengths, one_chunk=True))


@pytest.fixture(scope="module")
def filled(batch):
    """The same where the last token of each sequence is a [PAD]."""
    real = [length - 1 for length in batch.layout.lengths]
    return replace(batch, layout=Layout(batch.layout.lengths, real, one_chunk=True))


@pytest.mark.parametrize("family", ["bert", "roberta", "electra"])
@pytest.mark.parametrize(
    "taps", [LOGITS, LOGITS | hidden(0, 2) | scores(1, 3) | vectors(2) | pooled(3, "mean"), scores(2)]
)
@pytest.mark.parametrize("of", ["batch", "filled"])
def test_answers_are_the_usual_ones_up_to_rounding(family, taps, of, request):
    model, batch = model_of(family), request.getfixturevalue(of)
    faster = direct(model).eval()
    assert isinstance(faster, DirectTeacher)
    assert cost(faster) == cost(model)
    with torch.no_grad():
        usual, answer = forward(model, batch, taps), forward(faster, batch, taps)
    assert set(answer.values) == set(usual.values) == taps
    for tap in taps:
        for ours, theirs in zip(_tensors(answer[tap]), _tensors(usual[tap]), strict=True):
            assert torch.allclose(ours, theirs, atol=2e-6, rtol=2e-5)


def _tensors(value):
    return value if isinstance(value, tuple) else (value,)


@pytest.mark.parametrize("family", ["distilbert", "modernbert", "deberta-v2"])
def test_layers_of_another_kind_stay_as_they_are(family):
    model = model_of(family)
    assert direct(model) is model


def test_gradients_and_dropout_go_through_the_modules(batch, monkeypatch):
    faster = direct(model_of("bert")).eval()
    monkeypatch.setattr(faster, "_layers", [pytest.fail] * 3)
    forward(faster, batch, LOGITS).logits.sum().backward()
    assert faster.teacher.classifier.weight.grad is not None
    with torch.no_grad():
        faster.train()
        first, second = (forward(faster, batch, LOGITS).logits for _ in range(2))
    assert not torch.equal(first, second)
