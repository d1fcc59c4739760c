"""Masks of single weights: how many stay and when, which ones, and the gradient that learned scores get."""

from __future__ import annotations

import pytest
import tiny
import torch

from methods.api import Setup
from methods.artefacts import blank_artefacts
from methods.models import forward
from methods.movement import Magnitude, Movement, matrices
from methods.taps import LOGITS


def built(method):
    config = tiny.config(layers=2)
    setup = Setup(config, 2, ("x",), blank_artefacts(method.requires(config), config, 2))
    return method.build(setup), method.stages(setup)[0]


def test_everything_stays_at_first_and_the_share_at_the_end():
    method = Magnitude(share=0.2)
    shares = [method.share_at(step / 40) for step in range(41)]
    assert shares == sorted(shares, reverse=True)
    assert set(shares[:5]) == {1.0}
    assert set(shares[32:]) == {0.2}
    assert method.share_at(0.45) == pytest.approx(0.2 + 0.8 * 0.5**3)


@pytest.mark.parametrize("kind", [Magnitude, Movement])
def test_the_deployed_model_has_the_share_of_highest_score_in_each_matrix(kind):
    student, _ = built(method := kind(share=0.3))
    for linear in matrices(student.model):
        if linear.scores is not None:
            torch.nn.init.normal_(linear.scores)
    shipped = method.deploy(student)[""]
    for trained, linear in zip(matrices(student.model), matrices(shipped), strict=True):
        scores = trained.weight.abs() if trained.scores is None else trained.scores
        kept = linear.weight != 0
        assert int(kept.sum()) == int(0.3 * scores.numel())
        assert scores[kept].min() >= scores[~kept].max()
        assert torch.equal(linear.weight[kept], trained.weight[kept])
        assert type(linear) is torch.nn.Linear
    assert not [name for name in shipped.state_dict() if "scores" in name]


def test_scores_get_the_gradient_of_the_masked_matrix_times_the_weights(teacher_folder):
    student, stage = built(Movement(share=0.5))
    stage.on_step_begin(student.model, 0.9)
    batch = tiny.encoded(teacher_folder, rows=8).batch(range(8))
    linear = matrices(student.model)[0]
    torch.nn.init.normal_(linear.scores)
    masked = linear.kept_weight().detach().requires_grad_()
    linear.kept_weight = lambda: masked
    forward(student.model.eval(), batch, LOGITS).logits.square().sum().backward()
    expected = masked.grad * linear.weight.detach()
    del linear.kept_weight
    forward(student.model, batch, LOGITS).logits.square().sum().backward()
    assert torch.allclose(linear.scores.grad, expected, atol=1e-7)
    # a pruned weight itself gets no gradient until it comes back
    assert not linear.weight.grad[linear.kept_weight() == 0].any()


def test_embeddings_are_held_and_scores_have_their_own_rate():
    _, stage = built(Movement(score_pace=300.0))
    rates = [
        stage.parameter_lr_scale(f"model.bert.{name}")
        for name in ("embeddings.x", "encoder.y.scores", "encoder.y.weight")
    ]
    assert rates == [0.0, 300.0, 1.0]
