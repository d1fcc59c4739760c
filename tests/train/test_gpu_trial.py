"""What is promised of a GPU, tried on one and measured there: `tox -e cuda` writes it into results/cuda. The same runs on a CPU, smaller."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import tiny
import torch
from shipped_methods import tiny_rows
from tiny_training import trainer

import methods
from bench import api
from bench.cache import cache_root
from bench.data.encoding import Encoded
from bench.errors import CELLS_FAILED
from bench.files import write_atomically
from bench.measure.machine import environment, revision
from bench.train.loop import LoopOptions, train_task
from bench.train.numerics import ComputeSettings
from bench.train.student_trainer import StudentTrainer

ROOT = Path(__file__).resolve().parents[2]
pytestmark = [
    pytest.mark.slow,
    pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.cuda)]),
]
BASE = {"layers": 12, "hidden": 768, "heads": 12}
LARGE = "finetune:layers=12:hidden=768:heads=12:ffn=3072:start=random"


@pytest.fixture(scope="module")
def facts():
    """What is measured on a GPU; written at the end."""
    measured: dict = {}
    yield measured
    if measured:
        code = revision()
        name = f"{time.strftime('%Y-%m-%d', time.gmtime())}-{(code['commit'] or 'no-commit')[:9]}.json"
        body = {"what": "gpu trial", "code": code, "env": environment("cuda"), **measured}
        write_atomically(ROOT / "results" / "cuda" / name, (json.dumps(body, indent=1) + "\n").encode())


@pytest.fixture
def request_(tmp_path, device):
    """A run on this device: by default one epoch over 16 examples with a teacher of four tiny layers."""

    def make(results: str = "r", rows: int = 16, shape=None, **options) -> api.Request:
        data, text = tiny.write_glue(tmp_path / f"glue-{rows}", ("rte",), rows), tmp_path / "corpus.txt"
        text.write_text("the cat runs in the house .\nan old bird sings and the fish swims in the river\n" * 40)
        teacher = tiny.save_teacher(tmp_path / f"teacher-{bool(shape)}", **(shape or {"layers": 4}))
        given = {"data": str(data), "teacher": str(teacher), "corpus": (str(text),), "corpus_tokens": 300, "threads": 1}
        given |= {"results": tmp_path / results, "reports": tmp_path / "p", "epochs": 1.0, "device": device}
        return api.Request(tasks="rte", **{**given, **options})

    return make


def records(request: api.Request) -> dict[str, api.Record]:
    return {record.row: record for record in api.Store(request.results).records()}


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_all_methods_train(request_, facts, device, precision):
    request = request_(methods=tiny_rows(), precision=precision)
    begun = time.perf_counter()
    api.run(request)
    done = records(request)
    assert {r.cell.method: r.error and r.error.message for r in done.values()} == dict.fromkeys(
        ["teacher", *methods.names()]
    )
    if device == "cuda":
        own = {row: round(r.train.seconds_own, 4) for row, r in done.items() if r.train}
        facts[f"all methods, {precision}"] = {"seconds": time.perf_counter() - begun, "own_seconds": own}


def counted(device: str, precision: str, steps: int, **shape: int) -> dict[str, float]:
    """Kernels, copies, and copies that the CPU waits for, of a mean step of tinybert's first stage; and its seconds."""
    rng, place = np.random.default_rng(0), torch.device(device)
    rows = [rng.integers(5, 40, int(length)).astype(np.int64) for length in rng.integers(10, 60, 8 * steps)]
    labels, segments = torch.zeros(len(rows), dtype=torch.long), [np.zeros_like(row) for row in rows]
    data = Encoded(rows, segments, labels, list(range(len(rows))), [("", None)] * len(rows), pad=0)
    student = trainer("tinybert", data, numerics=ComputeSettings(place, precision), teacher=tiny.config(**shape))
    options = LoopOptions(0, ComputeSettings(place, precision), 8)
    activities = [torch.profiler.ProfilerActivity.CPU]
    activities += [torch.profiler.ProfilerActivity.CUDA] if device == "cuda" else []
    begun = time.perf_counter()
    with torch.profiler.profile(activities=activities) as profile:
        train_task([student], data, tiny.classifier(seed=5, **shape).to(place).eval(), options)
    assert student.error is None
    kind = torch.profiler.DeviceType.CUDA if device == "cuda" else torch.profiler.DeviceType.CPU
    names = [event.name for event in profile.events() if event.device_type == kind]
    copies = [name for name in names if name.startswith("Memcpy") or name == "aten::_to_copy"]
    taken = student.log.steps
    return {
        "steps": taken,
        "kernels": (len(names) - len(copies)) / taken,
        "copies": len(copies) / taken,
        "pageable_copies": sum("Pageable" in name for name in copies) / taken,
        "seconds": (time.perf_counter() - begun) / taken,
    }


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_kernels_and_copies_of_a_step_are_counted(facts, device, precision):
    counts = counted(device, precision, 200 if device == "cuda" else 4, **(BASE if device == "cuda" else {}))
    assert counts["kernels"] > counts["copies"] >= counts["pageable_copies"]
    if device == "cuda":
        facts[f"a step of tinybert beside BERT-base, {precision}"] = counts


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_the_plan_and_the_clock(request_, facts, device, precision):
    """Of teachers and students alone: the import of libraries and the scoring's own overhead are no part of either."""
    gpu = device == "cuda"
    shape = "layers=4:hidden=312:heads=12:ffn=1200" if gpu else tiny.SHAPE
    request = request_(
        rows=4000 if gpu else 40, shape=BASE if gpu else None, methods=f"kd:{shape}:start=random", precision=precision
    )
    planned = sum(step.seconds for step in api.plan(request).costs.values())
    api.run(request)
    (teacher,) = (cache_root() / "teachers").glob("*/made.json")
    (student,) = (r.train for r in records(request).values() if r.cell.method == "kd")
    clock = json.loads(teacher.read_text())["train"]["seconds_own"]
    clock += student.seconds_own + student.teacher_seconds_shared
    assert min(planned, clock) > 0
    if gpu:
        facts[f"plan and clock, {precision}"] = {"planned": planned, "clock": clock, "ratio": planned / clock}


def test_one_student_too_large_for_the_memory_costs_no_other(request_, facts, device, monkeypatch):
    if device == "cpu":  # its memory has no cap: the student fails as it would on a GPU
        whole = StudentTrainer._forward

        def forward(self, *given):
            if self.label.startswith("finetune"):
                raise torch.OutOfMemoryError("CUDA out of memory")
            return whole(self, *given)

        monkeypatch.setattr(StudentTrainer, "_forward", forward)
    large = LARGE if device == "cuda" else f"finetune:{tiny.SHAPE}:start=random"
    small = [f"{name}:{tiny.SHAPE}:start=random" for name in ("kd", "tinybert", "microbert")]
    request = request_(methods=",".join([large, *small]), jobs=1)
    try:
        if device == "cuda":  # its weights fit, its gradients and moments do not
            torch.cuda.empty_cache()
            most = (torch.cuda.memory_reserved() + 700e6) / torch.cuda.get_device_properties(0).total_memory
            torch.cuda.set_per_process_memory_fraction(most)
        assert api.run(request).exit_code == CELLS_FAILED
    finally:
        if device == "cuda":
            torch.cuda.set_per_process_memory_fraction(1.0)
    states = {r.cell.method: r.status for r in records(request).values()}
    assert states == {"teacher": "ok", "finetune": "failed", "kd": "ok", "tinybert": "ok", "microbert": "ok"}
    if device == "cuda":
        facts["memory capped"] = states


KILLED = """
import sys
from pathlib import Path
from bench import api
from bench.train import training_state

training_state.EVERY_SECONDS = 0.0
given = eval(sys.argv[1], {"PosixPath": Path})
api.run(api.Request(**given))
"""


def test_a_killed_run_goes_on_with_the_same_bits(request_, facts, device, capfd):
    options = {"methods": f"kd:{tiny.SHAPE}:start=random", "epochs": 200.0, "deterministic": True, "jobs": 1}
    whole, broken = request_("whole", **options), request_("broken", **options)
    given = {name: getattr(broken, name) for name in (*options, "tasks", "data", "teacher", "corpus", "corpus_tokens")}
    given |= {name: getattr(broken, name) for name in ("threads", "results", "reports", "device")}
    process = subprocess.Popen([sys.executable, "-c", KILLED, repr(given)], stderr=subprocess.DEVNULL)
    end = time.monotonic() + 120
    while time.monotonic() < end and process.poll() is None:
        jobs = [file.read_text() for file in (cache_root() / "progress").glob("*/*/job.json")]
        if any("kd" in job and json.loads(job)["done"] > 40 for job in jobs if job.endswith("}")):
            break
        time.sleep(0.01)
    assert process.poll() is None, "it ended before it was killed"
    process.send_signal(signal.SIGKILL)
    process.wait()
    capfd.readouterr()
    assert api.run(broken).exit_code == 0
    assert "resumes at step" in capfd.readouterr().err
    api.run(whole)
    assert [r.weights for r in records(broken).values()] == [r.weights for r in records(whole).values()]
    if device == "cuda":
        facts["killed and resumed"] = "the same bits, with deterministic kernels"
