"""Pre-trainings on their own: `run --only pretraining`."""

from __future__ import annotations

import pytest

from bench.errors import CELLS_FAILED, CellError
from bench.plan.request import EMBEDDED, Request
from bench.workflows.pretrain import plan_pretraining


def test_without_a_typed_teacher_the_one_that_auto_chooses_is_pre_trained_from(monkeypatch):
    monkeypatch.delenv("CI", raising=False)
    monkeypatch.setattr("torch.accelerator.is_available", lambda: False)
    request, _, _ = plan_pretraining(Request(methods="tinybert:layers=2:hidden=24:heads=2:ffn=48", offline=True))
    assert request.teacher == EMBEDDED
    assert any("auto chose" in note for note in request.notes)


def test_a_pre_training_that_a_guard_stops_ends_like_cells_that_failed():
    with pytest.raises(CellError) as stopped:
        raise CellError("loss is not a number")
    assert stopped.value.exit_code == CELLS_FAILED
