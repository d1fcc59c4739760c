"""Batches in parts: the same gradient, with fewer examples in the models at a time."""

from __future__ import annotations

from dataclasses import replace

import pytest
import tiny
import torch
from hypothesis import given
from hypothesis import strategies as st
from tiny_training import RECIPE, trainer
from torch import nn

from bench.errors import CellError
from bench.plan.scheduled_stages import schedule_stages
from bench.record.store import Store
from bench.train.loop import LoopOptions, _cut, train_task
from bench.train.numerics import ComputeSettings
from methods.api import Masking, Stage, Term
from methods.core.models import forward
from methods.core.taps import LOGITS

PLAYERS = "microbert:expert_dropout=0"
"""Its discriminator moves before the student does."""


def trained(spelling: str, data, micro_batch: int):
    """A student without dropout, so that parts and whole batches have nothing random that differs."""
    one = trainer(spelling, data)
    for module in one.student.model.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.0
    teacher = tiny.classifier(2, seed=5).eval()
    train_task(
        [one],
        data,
        teacher,
        LoopOptions(0, ComputeSettings(), RECIPE.batch_size, micro_batch=micro_batch),
    )
    assert one.error is None, one.error
    return one


def weights(one) -> torch.Tensor:
    return torch.cat([p.detach().flatten() for p in one.student.model.parameters()])


@given(st.integers(1, 100), st.integers(1, 100))
def test_parts_hold_every_row_once_and_are_as_equal_as_can_be(rows, most):
    parts = _cut(range(rows), most)
    assert [row for part in parts for row in part] == list(range(rows))
    sizes = [len(part) for part in parts]
    assert max(sizes) <= most
    assert max(sizes) - min(sizes) <= 1


@pytest.mark.parametrize("spelling", ["finetune", "kd", "microbert:-dis:expert_dropout=0", PLAYERS])
def test_parts_give_the_weights_of_whole_batches(teacher_folder, spelling):
    """Of terms that are means over examples; batches of 8 in parts of 2 and 3."""
    data = tiny.encoded(teacher_folder, rows=24)
    whole, parts = trained(spelling, data, 0), trained(spelling, data, 3)
    # Adam divides by the gradient's own size: rounding moves weights whose gradient is almost nothing
    assert (weights(whole) - weights(parts)).abs().max() < 2e-3 * RECIPE.learning_rate / 3e-3
    for stage, curves in whole.log.terms.items():
        for name, values in curves.items():
            assert parts.log.terms[stage][name] == pytest.approx(values, rel=2e-3, abs=2e-5), (
                stage,
                name,
            )
    assert parts.log.examples == whole.log.examples
    assert parts.log.tokens == whole.log.tokens
    assert parts.log.steps == whole.log.steps


@pytest.mark.parametrize("spelling", ["tinybert", PLAYERS])
def test_no_more_examples_than_asked_for_are_in_a_model_at_a_time(
    teacher_folder, monkeypatch, spelling
):
    seen: dict[str, set[int]] = {"teacher": set(), "student": set()}

    def noting(who):
        def noted(model, batch, taps):
            seen[who].add(len(batch.example_ids))
            return forward(model, batch, taps)

        return noted

    monkeypatch.setattr("bench.train.loop.forward", noting("teacher"))
    monkeypatch.setattr("bench.train.student_trainer.forward", noting("student"))
    trained(spelling, tiny.encoded(teacher_folder, rows=22), 3)
    # 8 = 2 + 3 + 3 and, at the epoch's end, 6 = 3 + 3
    assert seen["student"] == seen["teacher"] == {2, 3}


@pytest.mark.parametrize(
    ("across_batch", "masking", "said"),
    [
        (True, None, "micro_batch=4: the term relation compares the sequences"),
        (False, Masking(), "masks tokens"),
    ],
)
def test_what_needs_whole_batches_is_refused(across_batch, masking, said):
    term = Term(lambda *of: None, 1.0, LOGITS, LOGITS, across_batch=across_batch)
    with pytest.raises(CellError, match=said):
        schedule_stages(
            [Stage("distil", {"relation": term}, masking=masking)],
            (),
            replace(RECIPE, micro_batch=4),
            24,
        )


@pytest.mark.slow
def test_a_run_has_rows_and_keys_of_their_own(bench, places, tmp_path):
    row = f"kd:{tiny.SHAPE}:start=random"
    for words in ((), ("--set", "micro_batch=3")):
        done = bench(
            "run",
            "--methods",
            row,
            "--tasks",
            "rte",
            "--epochs",
            2,
            "--device",
            "cpu",
            *places,
            *words,
        )
        assert done.returncode == 0, done.stderr
    found = {r.cell.label: r for r in Store(tmp_path / "r").records() if r.cell.method == "kd"}
    whole, parts = sorted(found.values(), key=lambda record: len(record.cell.label))
    assert parts.cell.label == f"{whole.cell.label} (micro-batches of 3)"
    assert (whole.cell.recipe.get("micro_batch"), parts.cell.recipe["micro_batch"]) == (None, 3)
    assert whole.key != parts.key
    assert whole.cell.teacher.key == parts.cell.teacher.key
    again = bench("verify", parts.key[:12], *places[:6])
    assert again.returncode == 0, again.stdout + again.stderr
    assert "bitwise equal" in again.stdout
