"""Sessions of timing: where they look for what they time. How they time is tested in tests/measure."""

from __future__ import annotations

from dataclasses import replace

import pytest
import tiny

from bench.data import checkpoints
from bench.errors import InputError
from bench.workflows import speed


def test_an_offline_session_never_asks_the_hub_for_its_teacher(monkeypatch, teacher_folder, glue_folder, tmp_path):
    asked = []

    def downloaded(name, patterns, offline, *further):
        asked.append(offline)
        return teacher_folder

    monkeypatch.setattr(checkpoints, "downloaded", downloaded)
    checkpoints._from_hub.cache_clear()
    tiny.save_teacher(tmp_path / "finished", tiny.BertForSequenceClassification)
    request = speed.SpeedRequest(
        methods=f"kd:{tiny.SHAPE},checkpoint:{tmp_path / 'finished'}",
        teacher="some/one",
        lengths=("8", "task"),
        batches=(1,),
        rounds=6,
        threads=1,
        device="cpu",
        task="rte",
        data=str(glue_folder),
        offline=True,
        memory=False,
        results=tmp_path / "r",
    )
    record, _ = speed.measure(request)
    assert record.teacher == "some/one"
    assert set(asked) == {True}


def test_what_cannot_be_timed_is_said_before_any_timing(monkeypatch, teacher_folder, glue_folder, tmp_path):
    timed = []
    monkeypatch.setattr("bench.measure.latency.time_in_turns", lambda *given: timed.append(given) or [])
    request = speed.SpeedRequest(
        methods=f"kd:{tiny.SHAPE}",
        teacher=str(teacher_folder),
        lengths=("8", "task"),
        batches=(1, 5000),
        rounds=6,
        threads=1,
        device="cpu",
        task="rte",
        data=str(glue_folder),
        memory=False,
        results=tmp_path / "r",
    )
    with pytest.raises(InputError, match="5000"):
        speed.measure(request)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(InputError, match="two packages"):
        speed.measure(replace(request, batches=(1,), backends=("sdpa", "onnx")))
    assert timed == []


def test_lengths_of_a_task_need_data_and_teacher_that_were_typed():
    request = speed.SpeedRequest(methods="kd", lengths=("task",), task="rte", data="auto", teacher="embedded")
    with pytest.raises(InputError, match="auto is for run"):
        request.checked()
