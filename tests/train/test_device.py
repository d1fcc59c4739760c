"""The kind of device is part of what a result is, and times are of the work, not of its launch."""

from __future__ import annotations

import time
import weakref
from dataclasses import replace

import pytest
import tiny
import torch
from interruption import BreaksOff
from shipped_methods import tiny_rows
from tiny_training import CPU, RECIPE, trainer

import methods
from bench import api
from bench.errors import CELLS_FAILED
from bench.record.cell import train_key
from bench.record.keys import digest
from bench.report.file_names import place_of
from bench.report.studies import studies
from bench.train import training_state
from bench.train.loop import LoopOptions, train_task
from bench.train.numerics import ComputeSettings, RandomState, Stopwatch
from bench.workflows.run import run

LARGE = "finetune:layers=12:hidden=768:heads=12:ffn=3072:start=random"


def test_nothing_made_on_one_kind_of_device_is_taken_on_another(request_, monkeypatch):
    """Records, teachers and artefacts: no key is shared. Nothing is trained, so the devices need not be here."""
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (80e9, 80e9))

    def keys(kind: str, deterministic: bool = False) -> set[str]:
        monkeypatch.setattr(
            "bench.measure.devices.device_of", lambda name, deterministic: torch.device(kind)
        )
        rows = f"tinybert:{tiny.SHAPE},moebert,mtdnn,minilm:{tiny.SHAPE}"
        plan = api.plan(request_(methods=rows, tasks="rte", deterministic=deterministic))
        cells = [planned.cell for planned in plan.cells]
        found = {train_key(cell) for cell in cells} | {cell.teacher.key for cell in cells}
        found |= {key for cell in cells for key in cell.artefacts.values()} | {
            entry.key for entry in plan.artefacts
        }
        # it comes from outside, and is the same file everywhere
        return found - {plan.tasks[0].checkpoint.sha256}

    assert keys("cpu") == keys("cpu")
    assert not keys("cpu") & keys("cuda")
    assert not keys("cuda") & keys("mps")
    assert not keys("cuda") & keys("cuda", deterministic=True)
    assert keys("cpu") == keys("cpu", deterministic=True), "a CPU's bits are the same anyway"


def test_reports_of_two_kinds_of_device_have_their_own_tables(paper_store):
    records, moved = list(paper_store.records()), []
    for record in records:
        numeric = record.cell.numeric.model_copy(update={"device": "cuda"})
        moved.append(
            record.model_copy(update={"cell": record.cell.model_copy(update={"numeric": numeric})})
        )
    assert len({place_of(group) for group in studies([*records, *moved])}) == 2 * len(
        studies(records)
    )


def test_a_random_state_of_another_kind_of_device_is_refused():
    state = RandomState(0, CPU)
    kept = state.state()
    with pytest.raises(ValueError, match="cpu and cuda cannot go on on cpu"):
        state.restore({**kept, "cuda": kept["cpu"]})


@pytest.fixture
def on(request_):
    """``on("cuda", "results")``: a run on this device."""
    usual = {"methods": f"kd:{tiny.SHAPE}:start=random", "tasks": "rte", "epochs": 8.0}
    return lambda device, results, **changes: request_(results, device=device, **usual | changes)


def student(request: api.Request) -> api.Record:
    return next(r for r in api.Store(request.results).records() if r.cell.method == "kd")


@pytest.mark.cuda
def test_cuda_and_cpu_share_nothing_and_cuda_repeats_itself(on):
    first, again, cpu = on("cuda", "a"), on("cuda", "b"), on("cpu", "c")
    for request in (first, again, cpu):
        assert api.run(request).exit_code == 0
    assert student(first).key == student(again).key != student(cpu).key
    assert student(first).cell.numeric.device == "cuda"
    assert digest(student(first).scores) == digest(student(again).scores)


@pytest.mark.cuda
def test_deterministic_kernels_train_all_methods_and_give_the_same_bits(on, tmp_path):
    """Also where rows are added up, which a GPU does in another order each time; a method that needs another kernel fails by name."""
    every = {
        "methods": tiny_rows(),
        "epochs": 1.0,
        "teacher": str(tiny.save_teacher(tmp_path / "teacher", layers=4)),
    }
    first, again = (on("cuda", name, deterministic=True, **every) for name in ("a", "b"))
    for request in (first, again):
        assert api.run(request).exit_code == 0
    weights = [
        {r.key: r.weights for r in api.Store(request.results).records()}
        for request in (first, again)
    ]
    assert weights[0] == weights[1]
    assert student(first).env["deterministic"] is True
    half = on("cuda", "c", precision="bf16", **every)
    api.run(half)
    done = {r.cell.method: r.error and r.error.message for r in api.Store(half.results).records()}
    assert done == dict.fromkeys(["teacher", *methods.names()])


@pytest.mark.cuda
def test_a_training_that_breaks_off_on_cuda_goes_on_there(on, monkeypatch, capfd):
    monkeypatch.setattr(training_state, "EVERY_SECONDS", 0.0)
    whole, broken = on("cuda", "whole"), on("cuda", "broken")
    api.run(whole)
    with pytest.raises(KeyboardInterrupt):
        run(broken, BreaksOff("kd", 5))
    assert api.run(on("cpu", "cpu")).exit_code == 0  # the CPU does not take the state up
    assert "resumes" not in capfd.readouterr().err
    assert api.run(broken).exit_code == 0
    assert "resumes at step" in capfd.readouterr().err
    assert student(broken).scores == student(whole).scores


@pytest.mark.cuda
def test_two_jobs_share_a_gpu_and_their_records_have_the_keys_of_one(on):
    runs = [on("cuda", f"{jobs} jobs", tasks="rte,sst2", epochs=1.0, jobs=jobs) for jobs in (1, 2)]
    assert [api.run(request).exit_code for request in runs] == [0, 0]
    one, two = ({record.key for record in api.Store(request.results).records()} for request in runs)
    assert one == two


@pytest.mark.cuda
def test_the_seconds_of_a_step_on_cuda_are_those_of_its_work():
    a = torch.randn(8192, 8192, device="cuda")
    a @ a
    torch.cuda.synchronize()
    begun, told, watch = time.perf_counter(), [], Stopwatch(torch.device("cuda"))
    with watch.timing(told.append):
        for _ in range(20):
            a @ a
    launched = time.perf_counter() - begun
    watch.settle()
    worked = time.perf_counter() - begun
    assert launched < told[0] <= worked


@pytest.mark.cuda
def test_one_student_too_large_for_the_memory_costs_no_other(on):
    """Its weights fit, its gradients and moments do not."""
    small = [f"{name}:{tiny.SHAPE}:start=random" for name in ("kd", "tinybert", "microbert")]
    request = on("cuda", "r", methods=",".join([LARGE, *small]), jobs=1)
    try:
        torch.cuda.empty_cache()
        most = (torch.cuda.memory_reserved() + 700e6) / torch.cuda.get_device_properties(
            0
        ).total_memory
        torch.cuda.set_per_process_memory_fraction(most)
        assert api.run(request).exit_code == CELLS_FAILED
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)
    states = {r.cell.method: r.status for r in api.Store(request.results).records()}
    assert states == {
        "teacher": "ok",
        "finetune": "failed",
        "kd": "ok",
        "tinybert": "ok",
        "microbert": "ok",
    }


def test_a_student_that_is_too_large_lets_go_of_what_it_held(teacher_folder):
    """The error of a step holds its frames, and they hold all activations: they go before the next student's step."""
    data = tiny.encoded(teacher_folder)
    large, other, held, alive = trainer("kd", data), trainer("finetune", data), [], []
    (scheduled,) = large.schedule["counted"]
    name, term = next(iter(scheduled.terms.items()))

    def fails(batch, student, teacher, aux):
        """At its third step, with a tensor in its hands."""
        activations = torch.zeros(1000)
        held.append(weakref.ref(activations))
        if len(held) == 3:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return term.fn(batch, student, teacher, aux)

    scheduled.terms[name] = replace(term, fn=fails)
    on_step = lambda done, total: alive.append(held[-1]() is not None)  # noqa: E731
    options = LoopOptions(0, ComputeSettings(), RECIPE.batch_size, on_step)
    train_task([large, other], data, tiny.classifier(seed=5).eval(), options)
    assert isinstance(large.error, torch.OutOfMemoryError)
    assert len(held) == 3
    assert not any(alive[3:])
    assert large.error.__traceback__ is not None, "its record names the line"
    assert other.error is None
    assert all(parameter.grad is None for parameter in large.student.model.parameters())
