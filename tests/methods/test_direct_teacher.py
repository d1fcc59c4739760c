"""Layers without their modules: the same answers and gradients up to rounding, whatever is asked, and modules where others are needed."""

from __future__ import annotations

from dataclasses import replace

import pytest
import tiny
import torch
from transformers import AutoConfig, AutoModelForSequenceClassification

from methods.core import models
from methods.core.models import FrozenTeacher, cost, direct, forward
from methods.core.packed import Layout
from methods.core.taps import LOGITS, hidden, pooled, scores, vectors

SIZES = {
    "hidden_size": 24,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "vocab_size": 60,
    "intermediate_size": 48,
}


def model_of(family, **more):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        made = AutoModelForSequenceClassification.from_config(
            AutoConfig.for_model(family, **SIZES, pad_token_id=0, **more)
        )
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
    "taps",
    [LOGITS, LOGITS | hidden(0, 2) | scores(1, 3) | vectors(2) | pooled(3, "mean"), scores(2)],
)
@pytest.mark.parametrize("of", ["batch", "filled"])
def test_answers_are_the_usual_ones_up_to_rounding(family, taps, of, request):
    model, batch = model_of(family), request.getfixturevalue(of)
    faster = direct(model).eval()
    assert isinstance(faster, FrozenTeacher)
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


def test_gradients_and_dropout_are_not_those_of_frozen_layers(batch, monkeypatch):
    faster = direct(model_of("bert")).eval()
    monkeypatch.setattr(faster, "_faster", pytest.fail)
    forward(faster, batch, LOGITS).logits.sum().backward()
    assert faster.whole.classifier.weight.grad is not None
    with torch.no_grad():
        faster.train()
        first, second = (forward(faster, batch, LOGITS).logits for _ in range(2))
    assert not torch.equal(first, second)


@pytest.mark.parametrize("family", ["bert", "roberta", "electra"])
@pytest.mark.parametrize("dropout", [0.0, 0.3])
def test_a_training_step_has_the_gradients_of_the_modules(family, dropout, batch, monkeypatch):
    """Of all parameters, through logits and all taps; the same numbers are drawn for dropout, in the same order."""
    taps = LOGITS | hidden(0, 2) | scores(1, 3) | vectors(2) | pooled(3, "mean")
    gradients = []
    for is_direct in (True, False):
        model = model_of(
            family, hidden_dropout_prob=dropout, attention_probs_dropout_prob=dropout
        ).train()
        if not is_direct:
            monkeypatch.setattr(models, "is_plain", lambda layer: False)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(5)
            answer = forward(model, batch, taps)
            sum(value.square().mean() for tap in taps for value in _tensors(answer[tap])).backward()
        gradients.append(
            {name: p.grad for name, p in model.named_parameters() if p.grad is not None}
        )
    ours, theirs = gradients
    assert ours.keys() == theirs.keys()
    assert len(ours) > 40
    for name in theirs:
        assert torch.allclose(ours[name], theirs[name], atol=2e-6, rtol=2e-4), name


def test_a_layer_that_is_observed_or_changed_goes_through_its_modules(batch, monkeypatch):
    monkeypatch.setattr(models, "DirectLayer", lambda layer: pytest.fail("direct"))
    seen = []
    model = model_of("bert")
    for layer in model.bert.encoder.layer:
        layer.output.dense.register_forward_hook(lambda module, given, answer: seen.append(module))
    forward(model, batch, LOGITS)
    assert len(seen) == 3

    class Mine(torch.nn.Linear):
        pass

    model = model_of("bert")
    for layer in model.bert.encoder.layer:
        layer.output.dense.__class__ = Mine
    forward(model, batch, LOGITS)
