"""The kind of device is part of what a result is, and times are of the work, not of its launch."""

from __future__ import annotations

import time
import weakref
from dataclasses import replace

import pytest
import tiny
import torch
from frozen_cell import cell
from shipped_methods import tiny_rows
from tiny_training import RECIPE, trainer

from bench import api
from bench.record.cell import NumericIdentity, train_key
from bench.record.differences import differing_parts
from bench.record.keys import digest
from bench.train.loop import LoopOptions, train_task
from bench.train.numerics import ComputeSettings, RandomState, Stopwatch

CPU, CUDA = torch.device("cpu"), torch.device("cuda")


def test_the_device_is_in_the_key_and_absent_for_the_cpu():
    assert "device" not in NumericIdentity().identity()
    assert NumericIdentity(device="cuda").identity()["device"] == "cuda"
    assert train_key(cell(numeric__device="cpu")) == train_key(cell())
    assert train_key(cell(numeric__device="cuda")) != train_key(cell())
    assert differing_parts(cell(numeric__device="cuda"), cell()) == "precision, threads or device"


@pytest.fixture
def on(monkeypatch, tmp_path, glue_folder, teacher_folder):
    """A plan as on a machine with this kind of device; nothing is trained, so the device itself is not needed."""
    corpus = tmp_path / "corpus.txt"
    corpus.write_text("the cat runs in the house .\n" * 30)

    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (80e9, 80e9))

    def plan(kind: str, deterministic: bool = False):
        monkeypatch.setattr("bench.measure.devices.device_of", lambda name, deterministic: torch.device(kind))
        rows = f"tinybert:{tiny.SHAPE},moebert,mtdnn,minilm:{tiny.SHAPE}"
        given = {"methods": rows, "tasks": "rte", "data": str(glue_folder), "teacher": str(teacher_folder)}
        return api.plan(
            api.Request(
                **given, results=tmp_path / "r", corpus=(str(corpus),), corpus_tokens=100, deterministic=deterministic
            )
        )

    return plan


def test_nothing_made_on_one_kind_of_device_is_taken_on_another(on):
    """Records, teachers and artefacts: no key is shared."""

    def keys(kind: str, deterministic: bool = False) -> set[str]:
        plan = on(kind, deterministic)
        cells = {train_key(planned.cell) for planned in plan.cells}
        made = {key for planned in plan.cells for key in planned.cell.artefacts.values()}
        # the teacher's checkpoint itself comes from outside, and is the same file everywhere
        outside = {plan.tasks[0].checkpoint.sha256}
        return (
            cells
            | made
            | {entry.key for entry in plan.artefacts}
            | {planned.cell.teacher.key for planned in plan.cells}
        ) - outside

    assert keys("cpu") == keys("cpu")
    assert not keys("cpu") & keys("cuda")
    assert not keys("cuda") & keys("mps")
    assert not keys("cuda") & keys("cuda", deterministic=True)
    assert keys("cpu") == keys("cpu", deterministic=True), "a CPU's bits are the same anyway"


def test_reports_of_two_kinds_of_device_have_their_own_tables(paper_store):
    from bench.report.file_names import place_of
    from bench.report.groups import groups

    records = list(paper_store.records())
    moved = [
        r.model_copy(
            update={"cell": r.cell.model_copy(update={"numeric": r.cell.numeric.model_copy(update={"device": "cuda"})})}
        )
        for r in records
    ]
    found = groups([*records, *moved])
    assert len({place_of(group) for group in found}) == 2 * len(groups(records))


def test_a_random_state_of_another_kind_of_device_is_refused():
    state = RandomState(0, CPU)
    kept = state.state()
    with pytest.raises(ValueError, match="cpu and cuda cannot go on on cpu"):
        state.restore({**kept, "cuda": kept["cpu"]})


@pytest.fixture
def request_(tmp_path, teacher_folder, glue_folder):
    def make(results: str, device: str, **changes) -> api.Request:
        given = {"methods": f"kd:{tiny.SHAPE}:start=random", "tasks": "rte", "data": str(glue_folder)}
        given |= {"teacher": str(teacher_folder), "results": tmp_path / results, "reports": tmp_path / "reports"}
        return api.Request(**{**given, "device": device, "epochs": 8.0, **changes})

    return make


def student(request: api.Request) -> api.Record:
    return next(r for r in api.Store(request.results).records() if r.cell.method == "kd")


@pytest.mark.cuda
def test_cuda_and_cpu_share_nothing_and_cuda_repeats_itself(request_):
    first, again, cpu = (request_(name, kind) for name, kind in (("a", "cuda"), ("b", "cuda"), ("c", "cpu")))
    for request in (first, again, cpu):
        assert api.run(request).exit_code == 0
    assert student(first).key == student(again).key != student(cpu).key
    assert student(first).cell.numeric.device == "cuda"
    assert digest(student(first).scores) == digest(student(again).scores)


@pytest.mark.cuda
def test_deterministic_kernels_train_all_methods_and_give_the_same_bits(request_):
    """Also where rows are added up, which a GPU does in another order each time; a method that needs another kernel fails by name."""
    first, again = (request_(name, "cuda", deterministic=True, methods=tiny_rows(), epochs=1.0) for name in ("a", "b"))
    for request in (first, again):
        assert api.run(request).exit_code == 0
    weights = [{r.key: r.weights for r in api.Store(request.results).records()} for request in (first, again)]
    assert weights[0] == weights[1]
    assert student(first).env["deterministic"] is True


@pytest.mark.cuda
def test_a_training_that_breaks_off_on_cuda_goes_on_there(request_, monkeypatch, capfd):
    from interruption import BreaksOff

    from bench.train import training_state
    from bench.workflows.run import run

    monkeypatch.setattr(training_state, "EVERY_SECONDS", 0.0)
    whole, broken = request_("whole", "cuda"), request_("broken", "cuda")
    api.run(whole)
    with pytest.raises(KeyboardInterrupt):
        run(broken, BreaksOff("kd", 5))
    assert api.run(request_("cpu", "cpu")).exit_code == 0  # the CPU does not take the state up
    assert "resumes" not in capfd.readouterr().err
    assert api.run(broken).exit_code == 0
    assert "resumes at step" in capfd.readouterr().err
    assert student(broken).scores == student(whole).scores


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


def with_a_term_that_fails(data, device: torch.device, allocate):
    """A student of ``kd`` whose loss fails at its third step, with a tensor in its hands; and that tensor."""
    large, held = trainer("kd", data), []
    for scheduled in large.schedule["counted"]:
        name, term = next(iter(scheduled.terms.items()))

        def fails(batch, student, teacher, aux, term=term):
            activations = allocate(len(held))
            held.append(weakref.ref(activations))
            if len(held) == 3:
                raise torch.OutOfMemoryError("CUDA out of memory")
            return term.fn(batch, student, teacher, aux)

        scheduled.terms[name] = replace(term, fn=fails)
    return large, held


def test_a_student_that_is_too_large_lets_go_of_what_it_held(teacher_folder):
    """The error of a step holds its frames, and they hold all activations: they go before the next student's step."""
    data = tiny.encoded(teacher_folder)
    large, held = with_a_term_that_fails(data, CPU, lambda step: torch.zeros(1000))
    other = trainer("finetune", data)
    alive = []
    options = LoopOptions(
        0, ComputeSettings(), RECIPE.batch_size, lambda done, total: alive.append(held[-1]() is not None)
    )
    train_task([large, other], data, tiny.classifier(seed=5).eval(), options)
    assert isinstance(large.error, torch.OutOfMemoryError)
    assert len(held) == 3
    assert not any(alive[3:])
    assert large.error.__traceback__ is not None, "its record names the line"
    assert other.error is None
    assert all(parameter.grad is None for parameter in large.student.model.parameters())
