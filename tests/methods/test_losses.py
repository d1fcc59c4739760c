"""Losses against numbers worked by hand."""

from __future__ import annotations

import math

import pytest
import torch

from methods import losses
from methods.packed import Layout


def test_hard_is_the_mean_negative_log_probability():
    logits = torch.tensor([[0.0, math.log(3.0)], [math.log(4.0), 0.0]])
    # probabilities of the labels: 3/4 and 1/5
    expected = -(math.log(3 / 4) + math.log(1 / 5)) / 2
    assert float(losses.hard(logits, torch.tensor([1, 1]))) == pytest.approx(expected, rel=1e-6)


def test_hard_of_a_regression_is_the_mean_squared_error():
    assert float(losses.hard(torch.tensor([[1.0], [4.0]]), torch.tensor([2.0, 2.0]))) == pytest.approx((1 + 4) / 2)


def test_hard_refuses_text_without_labels():
    with pytest.raises(ValueError, match="without labels"):
        losses.hard(torch.zeros(1, 2), None)


def test_soft_kl_of_two_coins():
    # teacher (1/2, 1/2), student (3/4, 1/4): KL = 1/2 ln(2/3) + 1/2 ln 2
    student, teacher = torch.tensor([[math.log(3.0), 0.0]]), torch.zeros(1, 2)
    expected = 0.5 * math.log(2 / 3) + 0.5 * math.log(2)
    assert float(losses.soft_kl_batchmean(student, teacher, 1.0)) == pytest.approx(expected, rel=1e-6)


def test_soft_kl_carries_the_square_of_the_temperature():
    student, teacher = torch.tensor([[2 * math.log(3.0), 0.0]]), torch.zeros(1, 2)
    expected = 4 * (0.5 * math.log(2 / 3) + 0.5 * math.log(2))  # at T = 2 the coins above, times T^2
    assert float(losses.soft_kl_batchmean(student, teacher, 2.0)) == pytest.approx(expected, rel=1e-6)


def test_tinybert_prediction_divides_by_classes_too():
    student, teacher = torch.tensor([[math.log(3.0), 0.0]]), torch.zeros(1, 2)
    expected = -(0.5 * math.log(3 / 4) + 0.5 * math.log(1 / 4)) / 2
    assert float(losses.soft_cross_entropy_elementmean(student, teacher, 1.0)) == pytest.approx(expected, rel=1e-6)


def test_soft_losses_of_a_regression_follow_the_teacher():
    student, teacher = torch.tensor([[1.0], [2.0]]), torch.tensor([[3.0], [2.0]])
    for loss in (losses.soft_kl_batchmean, losses.soft_cross_entropy_elementmean):
        assert float(loss(student, teacher, 1.0)) == pytest.approx(2.0)


def test_attention_scores_count_real_pairs_only():
    layout = Layout([2, 1])
    student = torch.zeros(2, 1, 2, 2)
    teacher = torch.full((2, 1, 2, 2), 100.0)  # at padding: must not count
    teacher[0, 0] = torch.tensor([[1.0, 2.0], [0.0, 1.0]])  # 1 + 4 + 0 + 1
    teacher[1, 0, 0, 0] = 2.0  # 4
    assert float(losses.scores_mse_realmean((student,), (teacher,), layout)) == pytest.approx((6 + 4) / 5)


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


def test_feature_alignment_by_hand():
    layout = Layout([2])
    ours, theirs = torch.tensor([[0.0, 0.0], [2.0, 0.0]]), torch.tensor([[1.0, 0.0], [1.0, 4.0]])
    # cls: (0,0)-(1,0) -> (1+0)/2; mean: (1,0)-(1,2) -> (0+4)/2; max: (2,0)-(1,4) -> (1+16)/2
    expected = {"cls": 0.5, "mean": 2.0, "max": 8.5}
    for feature, value in expected.items():
        assert float(losses.feature_alignment(ours, theirs, layout, (feature,))) == pytest.approx(value)
    whole = losses.feature_alignment(ours, theirs, layout, ("cls", "mean", "max"))
    assert float(whole) == pytest.approx(sum(expected.values()))


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


def test_patience_ignores_lengths_only_when_normalised():
    ours, theirs = torch.tensor([[[3.0, 4.0]]]), torch.tensor([[[0.0, 1.0]]])
    # (0.6, 0.8) - (0, 1): (0.36 + 0.04) / 2; (3, 4) - (0, 1): (9 + 9) / 2
    assert float(losses.patience_mse_elementmean(ours, theirs, True)) == pytest.approx(0.2)
    assert float(losses.patience_mse_elementmean(3 * ours, theirs, True)) == pytest.approx(0.2)
    assert float(losses.patience_mse_elementmean(ours, theirs, False)) == pytest.approx(9.0)


def test_cosine_is_zero_for_positive_multiples():
    ours = torch.tensor([[1.0, 2.0], [0.0, 1.0]])
    assert float(losses.hidden_cosine_tokenmean(ours, 3 * ours)) == pytest.approx(0.0, abs=1e-6)
    assert float(losses.hidden_cosine_tokenmean(ours, -ours)) == pytest.approx(2.0)


def test_symmetric_kl_by_hand():
    ours, theirs = torch.tensor([[0.0, 0.0]]), torch.tensor([[math.log(3.0), 0.0]])  # (1/2, 1/2) and (3/4, 1/4)
    expected = 0.5 * (0.5 * math.log(2 / 3) + 0.5 * math.log(2) + 0.75 * math.log(3 / 2) + 0.25 * math.log(1 / 2))
    assert float(losses.symmetric_kl_batchmean(ours, theirs)) == pytest.approx(expected)
    assert float(losses.symmetric_kl_batchmean(theirs, ours)) == pytest.approx(expected)


@pytest.mark.parametrize("classes", [2, 3])
def test_elementmean_is_smaller_by_the_number_of_classes(classes):
    ours, theirs = torch.randn(4, classes), torch.randn(4, classes)
    whole = losses.soft_kl_batchmean(ours, theirs, 2.0)
    assert float(losses.soft_kl_elementmean(ours, theirs, 2.0)) == pytest.approx(float(whole) / classes)


def test_feature_maps_agree_up_to_shift_and_scale():
    theirs = torch.randn(3, 8)
    assert float(losses.feature_map_transfer(2 * theirs + 1, theirs)) == pytest.approx(0.0, abs=1e-5)
    # LayerNorm of (1, 3) is (-1, 1), of (3, 1) it is (1, -1)
    assert float(losses.feature_map_transfer(torch.tensor([[1.0, 3.0]]), torch.tensor([[3.0, 1.0]]))) == pytest.approx(
        4.0, abs=1e-3
    )


def test_attention_transfer_by_hand():
    layout = Layout([2, 1])
    teacher = torch.full((2, 1, 2, 2), 50.0)  # at padding: must not count
    teacher[0, 0] = torch.tensor([[math.log(3.0), 0.0], [0.0, 0.0]])
    student = torch.zeros(2, 1, 2, 2)
    # only the first query differs: KL((3/4, 1/4) || (1/2, 1/2)), over three real queries of one head
    expected = (0.75 * math.log(1.5) + 0.25 * math.log(0.5)) / 3
    assert float(losses.attention_transfer_rowmean((student,), (teacher,), layout)) == pytest.approx(expected, abs=1e-6)
    assert float(losses.attention_transfer_rowmean((teacher,), (teacher,), layout)) == pytest.approx(0.0, abs=1e-7)
