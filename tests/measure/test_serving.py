"""Trained models timed as they are served: every runtime and number of threads, in turns, and one that fails stops nothing."""

from __future__ import annotations

import tempfile
from importlib.util import find_spec
from pathlib import Path

import pytest
import tiny
import torch

from bench.measure import serving
from bench.measure.latency import full_length
from bench.measure.serving import Served, footprints, time_served
from bench.record.speed_sessions import OWN_RUNTIME, SpeedRecord
from bench.report.speed_page import main_conditions

with_onnx = pytest.mark.skipif(
    find_spec("onnxruntime") is None or find_spec("onnx") is None, reason="needs the extra 'onnx'"
)

pytestmark = pytest.mark.slow
ALL = ("sdpa", "onnx", "onnx-int8")


def timed(models, others=None, batch=1):
    load = full_length(batch, 8, 40)
    with tempfile.TemporaryDirectory() as folder:
        return time_served(models, others or {}, load, batch, (1, 2), 6, Path(folder))


def session(timings):
    return SpeedRecord(teacher="t", timings=timings, started="1", finished="2")


@with_onnx
def test_every_row_is_timed_on_its_backends_with_each_number_of_threads():
    asked = []
    models = [
        Served("teacher", tiny.classifier(), ALL),
        Served("small", tiny.classifier(layers=1, seed=1), ("sdpa",)),
    ]
    before = torch.get_num_threads()
    timings = timed(models, {"words": asked.append})
    assert torch.get_num_threads() == before
    assert all(timing.status == "ok" and len(timing.seconds) == 6 for timing in timings)
    places = [(t.system, t.conditions.backend, t.conditions.threads) for t in timings]
    wanted = [("teacher", backend, threads) for backend in ALL for threads in (1, 2)]
    wanted += [("small", "sdpa", 1), ("small", "sdpa", 2), ("words", OWN_RUNTIME, 1)]
    assert sorted(places) == sorted(wanted)
    assert len(asked) >= 6

    # torch with one thread is what a report shows; what has no backend of ours is found there too
    record = session(timings)
    main = main_conditions(record)
    assert (main.backend, main.threads) == ("sdpa", 1)
    own = record.timing_of("words", main)
    assert own is not None
    assert own.conditions.backend == OWN_RUNTIME
    assert record.timing_of("small", main.model_copy(update={"backend": "onnx"})) is None


@with_onnx
def test_an_onnx_file_is_written_once_and_a_failure_is_told(monkeypatch):
    written = []
    real = serving.write_onnx

    def counted(model, file, inputs, in_8_bits):
        written.append(file.name)
        if in_8_bits:
            raise RuntimeError("no graph")
        real(model, file, inputs, in_8_bits)

    monkeypatch.setattr(serving, "write_onnx", counted)
    timings = timed([Served("teacher", tiny.classifier(), ALL)])
    assert written.count("0-onnx.onnx") == 1
    failed = [timing for timing in timings if timing.status == "failed"]
    assert {timing.conditions.backend for timing in failed} == {"onnx-int8"}
    assert "no graph" in failed[0].error
    assert all(timing.seconds for timing in timings if timing.status == "ok")


def test_a_busy_machine_is_timed_less_often(monkeypatch):
    monkeypatch.setattr(serving, "PATIENCE_SECONDS", 0.0)
    monkeypatch.setattr(serving, "FEWEST_ROUNDS", 3)
    (one, two) = timed([Served("teacher", tiny.classifier(), ("sdpa",))])
    assert len(one.seconds) == len(two.seconds) == 3


def test_a_batch_of_ones_own_is_the_main_one():
    timings = timed([Served("teacher", tiny.classifier(), ("sdpa",))], batch=4)
    assert main_conditions(session(timings)).batch == 4


@with_onnx
def test_memory_is_measured_in_torch_and_of_each_file(tmp_path):
    load = full_length(1, 8, 40)
    models = [Served("teacher", tiny.classifier(hidden=512), ALL)]
    time_served(models, {}, load, 1, (1,), 3, tmp_path)
    found = footprints(models, tmp_path, lambda done, total: None)
    assert [(each.system, each.backend) for each in found] == [("teacher", name) for name in ALL]
    assert all(each.peak_bytes and each.peak_bytes > 0 for each in found)
    sizes = {each.backend: each.checkpoint_bytes for each in found}
    assert sizes["onnx-int8"] < 0.5 * sizes["onnx"]
