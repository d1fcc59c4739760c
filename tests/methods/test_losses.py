"""Losses against numbers worked by hand."""

from __future__ import annotations

import math

import pytest
import torch

from methods import losses
from methods.packed import Layout


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
        losses.scores_mse_realmean((torch.zeros(1, 2, 1, 1),), (torch.zeros(1, 3, 1, 1),), Layout([1]))


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
        ("non_saturating", (math.log(1 + math.exp(-1)) + math.log(1 + math.exp(2)), math.log(1 + math.exp(-2)))),
        ("saturating", (math.log(1 + math.exp(-1)) + math.log(1 + math.exp(2)), -math.log(1 + math.exp(2)))),
        ("least_squares", (0.0 + 4.0, 1.0)),
    ],
)
def test_adversarial_losses_by_hand(kind, expected):
    real, fake = torch.tensor([1.0]), torch.tensor([2.0])
    assert float(losses.discriminator_loss(real, fake, kind)) == pytest.approx(expected[0], rel=1e-6)
    assert float(losses.adversarial_loss(fake, kind)) == pytest.approx(expected[1], rel=1e-6)
