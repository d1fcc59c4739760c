"""Losses against numbers worked by hand, and terms of student layers with teacher layers."""

from __future__ import annotations

import math

import pytest
import tiny
import torch
from torch import nn

from methods.api import Batch
from methods.core import losses
from methods.core.models import forward
from methods.core.packed import Layout
from methods.core.terms import HIDDEN, SCORES, VECTORS, layerwise, with_layout


def test_hard_refuses_text_without_labels():
    with pytest.raises(ValueError, match="without labels"):
        losses.hard(torch.zeros(1, 2), None)


def test_soft_losses_of_a_regression_follow_the_teacher():
    student, teacher = torch.tensor([[1.0], [2.0]]), torch.tensor([[3.0], [2.0]])
    for loss in (losses.soft_kl_batchmean, losses.soft_cross_entropy_elementmean):
        assert float(loss(student, teacher, 1.0)) == pytest.approx(2.0)


def test_a_pad_token_of_a_filled_sequence_is_no_key_but_a_query():
    """As in the models' own attention, where nothing attends to it and it has a state."""
    layout = Layout([4], real=[2])
    student, teacher = torch.zeros(1, 1, 4, 4), torch.zeros(1, 1, 4, 4)
    teacher[..., 2:] = 5.0
    for loss in (losses.attention_kl_sequencemean, losses.attention_transfer_rowmean):
        assert float(loss((student,), (teacher,), layout)) == 0
    states = torch.tensor([[1.0, 0.0], [2.0, 0.0], [0.0, 3.0], [0.0, 4.0]])
    assert float(losses.relation_kl(states, states * torch.tensor([1.0, 0.0]), 1, layout)) == 0
    student[0, 0, 3, 0] = math.log(3.0)  # the last query: 3/4 and 1/4 of the two keys
    expected = (math.log(4 / 3) + math.log(4)) / 2 - math.log(2)
    for loss in (losses.attention_kl_sequencemean, losses.attention_transfer_rowmean):
        assert float(loss((student,), (teacher,), layout)) == pytest.approx(expected / 4, rel=1e-6)


def test_attention_needs_equal_heads():
    with pytest.raises(ValueError, match="equal numbers of heads"):
        losses.scores_mse_realmean(
            (torch.zeros(1, 2, 1, 1),), (torch.zeros(1, 3, 1, 1),), Layout([1])
        )


def test_distances_by_hand():
    a, b = torch.tensor([[3.0, 4.0]]), torch.tensor([[4.0, 3.0]])
    assert float(losses.DISTANCES["mse"](a, b)) == pytest.approx(1.0)
    assert float(losses.DISTANCES["cosine"](a, b)) == pytest.approx(1 - 24 / 25)
    assert float(losses.DISTANCES["normalised_mse"](a, b)) == pytest.approx(2 / 25)
    p = 1 / (1 + math.e)
    kl = (1 - p) * math.log((1 - p) / p) + p * math.log(p / (1 - p))
    assert float(losses.DISTANCES["kl"](a, b)) == pytest.approx(kl, rel=1e-5)


@pytest.mark.parametrize(
    "kind, expected",
    [
        (
            "non_saturating",
            (math.log(1 + math.exp(-1)) + math.log(1 + math.exp(2)), math.log(1 + math.exp(-2))),
        ),
        (
            "saturating",
            (math.log(1 + math.exp(-1)) + math.log(1 + math.exp(2)), -math.log(1 + math.exp(2))),
        ),
        ("least_squares", (0.0 + 4.0, 1.0)),
    ],
)
def test_adversarial_losses_by_hand(kind, expected):
    real, fake = torch.tensor([1.0]), torch.tensor([2.0])
    assert float(losses.discriminator_loss(real, fake, kind)) == pytest.approx(
        expected[0], rel=1e-6
    )
    assert float(losses.adversarial_loss(fake, kind)) == pytest.approx(expected[1], rel=1e-6)


LENGTHS = (5, 3, 4)
AVERAGES = {1: {1: 0.75, 2: 0.25}, 2: {3: 0.5, 4: 0.5}}


@pytest.fixture(scope="module")
def batch() -> Batch:
    ids = torch.arange(sum(LENGTHS)) + 5
    return Batch(range(len(LENGTHS)), ids, torch.zeros_like(ids), Layout(LENGTHS), None)


@pytest.fixture(scope="module")
def models():
    return tiny.classifier(layers=3, seed=1).eval(), tiny.classifier(layers=4, seed=2).eval()


@pytest.mark.parametrize("order", [(1, 2, 3), (3, 1, 2), (2, 3, 1)], ids=str)
def test_pairs_are_added_in_the_order_of_the_map(order, batch, models):
    """In single precision 1e8 + 1 - 1e8 depends on the order, and a training's bits with it."""
    value = {1: torch.tensor(1e8), 2: torch.tensor(1.0), 3: torch.tensor(-1e8)}
    term = layerwise(HIDDEN, {m: m for m in order}, lambda pair: value[pair.layer])
    student, teacher = (forward(m, batch, term.student) for m in models)
    expected = value[order[0]] + value[order[1]] + value[order[2]]
    assert torch.equal(term.fn(batch, student, teacher, nn.ModuleDict()), expected)


@pytest.mark.parametrize("kind", [SCORES, VECTORS], ids=["scores", "vectors"])
def test_only_hidden_states_are_averaged(kind):
    with pytest.raises(ValueError, match="only hidden states"):
        layerwise(kind, AVERAGES, with_layout(losses.scores_mse_realmean))
