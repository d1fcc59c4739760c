"""Sessions of timing: where they look for what they time. How they time is tested in tests/measure."""

from __future__ import annotations

from dataclasses import replace

import pytest
import tiny

from bench.data import checkpoints
from bench.errors import InputError
from bench.workflows import speed


@pytest.fixture
def request_of_task(teacher_folder, glue_folder, tmp_path):
    """One length, and the examples of rte; sizes of memory are left out."""
    return speed.SpeedRequest(
        methods=f"kd:{tiny.SHAPE}",
        teacher=str(teacher_folder),
        lengths=("8", "task"),
        batches=(1,),
        rounds=6,
        threads=1,
        device="cpu",
        task="rte",
        data=str(glue_folder),
        memory=False,
        results=tmp_path / "r",
    )


def test_an_offline_session_never_asks_the_hub_for_its_teacher(monkeypatch, teacher_folder, request_of_task, tmp_path):
    asked = []

    def downloaded(name, patterns, offline, *further, revision):
        asked.append(offline)
        return teacher_folder

    monkeypatch.setattr(checkpoints, "downloaded", downloaded)
    checkpoints._from_hub.cache_clear()
    tiny.save_teacher(tmp_path / "finished", tiny.BertForSequenceClassification)
    methods = f"kd:{tiny.SHAPE},checkpoint:{tmp_path / 'finished'}"
    request = replace(request_of_task, methods=methods, teacher="some/one", offline=True)
    record, _ = speed.measure(request)
    assert record.teacher == "some/one"
    assert set(asked) == {True}


def test_what_cannot_be_timed_is_said_before_any_timing(monkeypatch, request_of_task):
    timed = []
    monkeypatch.setattr("bench.measure.latency.time_in_turns", lambda *given: timed.append(given) or [])
    with pytest.raises(InputError, match="5000"):
        speed.measure(replace(request_of_task, batches=(1, 5000)))
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(InputError, match="other packages"):
        speed.measure(replace(request_of_task, backends=("sdpa", "onnx")))
    assert timed == []
