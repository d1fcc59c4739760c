"""What is promised of a GPU, tried on one and measured there: `tox -e cuda` writes it into results/cuda."""

from __future__ import annotations

import json
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

ROOT = Path(__file__).resolve().parents[2]
pytestmark = [pytest.mark.slow, pytest.mark.cuda]
PRECISIONS = pytest.mark.parametrize("precision", ["fp32", "bf16"])
BASE = {"layers": 12, "hidden": 768, "heads": 12}
LARGE = "finetune:layers=12:hidden=768:heads=12:ffn=3072:start=random"


@pytest.fixture(scope="module")
def facts():
    """What is measured; written at the end."""
    measured: dict = {}
    yield measured
    code = revision()
    name = f"{time.strftime('%Y-%m-%d', time.gmtime())}-{(code['commit'] or 'no-commit')[:9]}.json"
    body = {"what": "gpu trial", "code": code, "env": environment("cuda"), **measured}
    write_atomically(ROOT / "results" / "cuda" / name, (json.dumps(body, indent=1) + "\n").encode())


@pytest.fixture
def request_(tmp_path):
    """A run on the GPU: by default one epoch over 16 examples with a teacher of four tiny layers."""

    def make(rows: int = 16, shape=None, **options) -> api.Request:
        data, text = tiny.write_glue(tmp_path / f"glue-{rows}", ("rte",), rows), tmp_path / "corpus.txt"
        text.write_text("the cat runs in the house .\nan old bird sings and the fish swims in the river\n" * 40)
        teacher = tiny.save_teacher(tmp_path / "teacher", **(shape or {"layers": 4}))
        given = {"data": str(data), "teacher": str(teacher), "corpus": (str(text),), "corpus_tokens": 300, "threads": 1}
        given |= {"results": tmp_path / "r", "reports": tmp_path / "p", "epochs": 1.0, "device": "cuda"}
        return api.Request(tasks="rte", **given, **options)

    return make


def records(request: api.Request) -> dict[str, api.Record]:
    return {record.row: record for record in api.Store(request.results).records()}


@PRECISIONS
def test_all_methods_train(request_, facts, precision):
    request = request_(methods=tiny_rows(), precision=precision)
    begun = time.perf_counter()
    api.run(request)
    done = records(request)
    errors = {r.cell.method: r.error and r.error.message for r in done.values()}
    assert errors == dict.fromkeys(["teacher", *methods.names()])
    own = {row: round(r.train.seconds_own, 4) for row, r in done.items() if r.train}
    facts[f"all methods, {precision}"] = {"seconds": time.perf_counter() - begun, "own_seconds": own}


@PRECISIONS
def test_kernels_and_copies_of_a_step_are_counted(facts, precision):
    """Kernels, copies, and copies that the CPU waits for, of a mean step of tinybert's first stage; and its seconds."""
    rng, numerics = np.random.default_rng(0), ComputeSettings(torch.device("cuda"), precision)
    rows = [rng.integers(5, 40, int(length)).astype(np.int64) for length in rng.integers(10, 60, 1600)]
    labels, segments = torch.zeros(len(rows), dtype=torch.long), [np.zeros_like(row) for row in rows]
    data = Encoded(rows, segments, labels, list(range(len(rows))), [("", None)] * len(rows), pad=0)
    student = trainer("tinybert", data, numerics=numerics, teacher=tiny.config(**BASE))
    teacher = tiny.classifier(seed=5, **BASE).to("cuda").eval()
    begun, activity = time.perf_counter(), torch.profiler.ProfilerActivity
    with torch.profiler.profile(activities=[activity.CPU, activity.CUDA]) as profile:
        train_task([student], data, teacher, LoopOptions(0, numerics, 8))
    assert student.error is None
    names = [e.name for e in profile.events() if e.device_type == torch.profiler.DeviceType.CUDA]
    copies = [name for name in names if name.startswith("Memcpy")]
    steps = student.log.steps
    counts = {
        "steps": steps,
        "kernels": (len(names) - len(copies)) / steps,
        "copies": len(copies) / steps,
        "pageable_copies": sum("Pageable" in name for name in copies) / steps,
        "seconds": (time.perf_counter() - begun) / steps,
    }
    assert counts["kernels"] > counts["copies"] >= counts["pageable_copies"]
    facts[f"a step of tinybert beside BERT-base, {precision}"] = counts


@PRECISIONS
def test_the_plan_and_the_clock(request_, facts, precision):
    """Of teachers and students alone: the import of libraries and the scoring's own overhead are no part of either."""
    row = "kd:layers=4:hidden=312:heads=12:ffn=1200:start=random"
    request = request_(rows=4000, shape=BASE, methods=row, precision=precision)
    planned = sum(step.seconds for step in api.plan(request).costs.values())
    api.run(request)
    (teacher,) = (cache_root() / "teachers").glob("*/made.json")
    (student,) = (r.train for r in records(request).values() if r.cell.method == "kd")
    clock = json.loads(teacher.read_text())["train"]["seconds_own"]
    clock += student.seconds_own + student.teacher_seconds_shared
    assert min(planned, clock) > 0
    facts[f"plan and clock, {precision}"] = {"planned": planned, "clock": clock, "ratio": planned / clock}


def test_one_student_too_large_for_the_memory_costs_no_other(request_, facts):
    """The weights of one fit, its gradients and moments do not."""
    small = [f"{name}:{tiny.SHAPE}:start=random" for name in ("kd", "tinybert", "microbert")]
    request = request_(methods=",".join([LARGE, *small]), jobs=1)
    try:
        torch.cuda.empty_cache()
        most = (torch.cuda.memory_reserved() + 700e6) / torch.cuda.get_device_properties(0).total_memory
        torch.cuda.set_per_process_memory_fraction(most)
        assert api.run(request).exit_code == CELLS_FAILED
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)
    states = {r.cell.method: r.status for r in records(request).values()}
    assert states == {"teacher": "ok", "finetune": "failed", "kd": "ok", "tinybert": "ok", "microbert": "ok"}
    facts["memory capped"] = states
