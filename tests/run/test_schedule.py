"""What becomes of steps: of those that end, fail, are killed, are broken off, or belong to another run. Nothing is trained."""

from __future__ import annotations

import os
import signal
from collections import Counter
from concurrent.futures import BrokenExecutor, Future
from dataclasses import replace
from types import SimpleNamespace

import pytest
import tiny

from bench import api
from bench.errors import InputError
from bench.make.record import empty, now
from bench.make.work import StepResult
from bench.plan.plan import SCORE_STEP, STUDENTS_STEP, TEACHER_STEP, Step
from bench.record.cell import Cell, train_key
from bench.record.cell_locks import CellLocks
from bench.record.schema import Failure, Record
from bench.record.task_facts import TaskFacts
from bench.run import Outcome
from bench.run.schedule import Schedule

WHY = Failure(type="ValueError", message="it cannot be made", traceback="")
ALL = ("teacher", "finetune", "kd", "microbert")


def finished(cell: Cell) -> Record:
    """A record with a score, whose answers nobody kept."""
    return empty(cell, "ok", now()).model_copy(
        update={
            "scores": {"validation": {"accuracy": 0.5}},
            "task": TaskFacts(metrics=("accuracy",)),
        }
    )


def usual(step: Step) -> StepResult:
    """A finished record for each cell."""
    return StepResult([(finished(planned.cell), {}) for planned in step.cells])


class Pretends:
    """An executor that does nothing: what becomes of each step is said by the test."""

    cannot_start = "none can begin here"

    def __init__(self, becomes, starts: bool) -> None:
        self.jobs, self.becomes, self.starts = 2, becomes, starts
        self.submitted: list[Step] = []
        self.open: set[Future[StepResult]] = set()

    @property
    def has_free_worker(self) -> bool:
        return len(self.open) < self.jobs

    def submit(self, step: Step) -> Future[StepResult]:
        self.submitted.append(step)
        future: Future[StepResult] = Future()
        result = self.becomes(step)
        (future.set_exception if isinstance(result, BaseException) else future.set_result)(result)
        self.open.add(future)
        return future

    def leave(self, step):
        """Nobody asks how long it will take."""

    def worker_had_started(self, future):
        return self.starts

    def release(self, future):
        self.open.remove(future)

    def say(self, text):
        """Nobody listens."""

    def show(self):
        """Nobody looks."""

    def stop(self, under_way):
        """Nothing is under way."""


@pytest.fixture
def request_(tmp_path, teacher_folder, glue_folder):
    rows = ",".join(f"{name}:{tiny.SHAPE}:start=random" for name in ALL[1:])
    common = {
        "data": str(glue_folder),
        "teacher": str(teacher_folder),
        "results": tmp_path / "results",
        "threads": 1,
    }
    return api.Request(methods=rows, tasks="rte", **common)


@pytest.fixture
def status(request_):
    """``status()``: the status of each row's record."""
    return lambda: {
        r.cell.label.split(":")[0]: r.status for r in api.Store(request_.results).records()
    }


@pytest.fixture
def run(request_):
    """``run(becomes)`` carries out a plan; the outcome, and the steps that were submitted, of each kind."""

    def carry_out(becomes=usual, starts=True, **changes):
        plan = api.plan(replace(request_, **changes))
        executor, outcome = Pretends(becomes, starts), Outcome(plan)
        with CellLocks(plan.request.results) as locks:
            Schedule(plan, executor, api.Store(plan.request.results), locks, outcome).carry_out()
        submitted = executor.submitted
        students = [step for step in submitted if step.kind == STUDENTS_STEP]
        return SimpleNamespace(outcome=outcome, submitted=submitted, students=students)

    return carry_out


def rows(step: Step) -> set[str]:
    return {planned.cell.method for planned in step.cells}


def test_every_cell_gets_its_record_once_and_locks_are_given_back(run, request_, status):
    done = run()
    assert status() == dict.fromkeys(ALL, "ok")
    assert (done.outcome.trained, done.outcome.failures) == (4, [])
    assert [step.kind for step in done.submitted] == [TEACHER_STEP, SCORE_STEP, STUDENTS_STEP]
    with CellLocks(request_.results) as others:
        assert all(others.take(train_key(planned.cell)) for planned in api.plan(request_).cells)


def test_only_the_students_that_need_what_is_lost_fail(run, status):
    done = run(lambda step: StepResult(error=WHY) if step.kind == TEACHER_STEP else usual(step))
    assert status() == {
        "teacher": "failed",
        "finetune": "ok",
        "kd": "failed",
        "microbert": "failed",
    }
    assert Counter(failure.why for failure in done.outcome.failures) == {"it cannot be made": 3}


def test_a_step_that_is_killed_twice_is_divided_and_one_student_fails_by_name(run, status):
    done = run(
        lambda step: (
            BrokenExecutor() if step.kind == STUDENTS_STEP and "kd" in rows(step) else usual(step)
        )
    )
    assert status() == {"teacher": "ok", "finetune": "ok", "kd": "failed", "microbert": "ok"}
    assert [len(step.students) for step in done.students] == [3, 3, 1, 1, 1]
    (failure,) = done.outcome.failures
    assert "was ended several times" in failure.why


def test_a_step_that_is_killed_once_goes_on_where_it_was(run, status):
    killed = []

    def becomes(step):
        if step.kind == STUDENTS_STEP and not killed:
            killed.append(step)
            return BrokenExecutor()
        return usual(step)

    assert [step.from_scratch for step in run(becomes, rerun=True).students] == [True, False]
    assert status() == dict.fromkeys(ALL, "ok")


def test_workers_that_cannot_start_end_the_run(run):
    with pytest.raises(InputError, match="none can begin here"):
        run(lambda step: BrokenExecutor(), starts=False)


def test_answers_are_written_before_an_error_ends_the_run(run, status):
    """Two steps end in one round: the one that is wrong does not cost the other."""
    with pytest.raises(InputError, match="was edited"):
        run(lambda step: InputError("was edited") if step.kind == STUDENTS_STEP else usual(step))
    assert status() == {"teacher": "ok"} | dict.fromkeys(ALL[1:], "interrupted")


@pytest.mark.parametrize(
    "raised", [True, False], ids=["before a record is written", "right after it was written"]
)
def test_ctrl_c_loses_no_record_and_writes_none_twice(run, request_, status, monkeypatch, raised):
    write, seen = api.Store.write, []

    def interrupted(store, record, arrays=None):
        seen.append(record)
        if len(seen) == 3 and raised:
            raise KeyboardInterrupt
        path = write(store, record, arrays)
        if len(seen) == 3:
            os.kill(os.getpid(), signal.SIGINT)
        return path

    monkeypatch.setattr(api.Store, "write", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run()
    assert status() == dict.fromkeys(ALL, "ok")
    assert len(list(request_.results.rglob("attempt-*.json"))) == 4


@pytest.mark.parametrize("theirs", ["ok", "failed"])
def test_what_another_run_has_ended_meanwhile_is_taken_as_it_is(run, request_, status, theirs):
    """Also where what it needs is lost here."""
    (kd,) = (planned.cell for planned in api.plan(request_).cells if planned.cell.method == "kd")
    record = (
        finished(kd)
        if theirs == "ok"
        else empty(kd, "failed", now()).model_copy(update={"error": WHY})
    )

    def becomes(step):
        if step.kind != TEACHER_STEP:
            return usual(step)
        api.Store(request_.results).write(record)
        return StepResult(error=replace_message(WHY)) if theirs == "ok" else StepResult()

    done = run(becomes)
    assert status()["kd"] == theirs
    assert not any("kd" in rows(step) for step in done.students)
    assert [failure.row for failure in done.outcome.failures if failure.why == WHY.message] == [
        kd.label
    ] * (theirs == "failed")
    if theirs == "failed":
        run(retry_failed=True)
        assert status()["kd"] == "ok"


def test_a_cell_of_another_run_is_left_for_the_end_and_done_when_that_one_ends(
    run, request_, status, monkeypatch
):
    (kd,) = (planned.cell for planned in api.plan(request_).cells if planned.cell.method == "kd")
    others, there = CellLocks(request_.results), []

    def end_when_it_waits(executor, text):
        if "waits for kd" in text:
            there.append(status())
            others.release(train_key(kd))

    monkeypatch.setattr(Pretends, "say", end_when_it_waits)
    assert others.take(train_key(kd))
    done = run()
    assert there == [dict.fromkeys(("teacher", "finetune", "microbert"), "ok")], (
        "what nobody else works on comes first"
    )
    assert rows(done.students[-1]) == {"kd"}
    assert status() == dict.fromkeys(ALL, "ok")


def replace_message(failure: Failure) -> Failure:
    return failure.model_copy(update={"message": "the teacher is lost"})
