"""What becomes of jobs: of those that end, fail, are killed, are broken off, or belong to another run. Nothing is trained."""

from __future__ import annotations

import os
import signal
from concurrent.futures import BrokenExecutor, Future
from dataclasses import replace

import pytest
import tiny

from bench import api
from bench.errors import InputError
from bench.plan.build import Plan
from bench.plan.jobs import SCORES_JOB, STUDENTS_JOB, Job, jobs_of
from bench.record.cell import Cell, record_key, train_key
from bench.record.cell_locks import CellLocks
from bench.record.schema import Failure, Record
from bench.run.job_schedule import JobSchedule
from bench.run.outcome import JobResult, Outcome
from bench.run.recording import empty, now

WHY = Failure(type="ValueError", message="it cannot be made", traceback="")


def finished(cell: Cell) -> Record:
    """A record with a score, whose answers nobody kept."""
    return empty(cell, "ok", now()).model_copy(update={"scores": {"validation": {"accuracy": 0.5}}})


class Pretends:
    """Does jobs without doing them: what becomes of each is said by the test."""

    cannot_start = "none can begin here"

    def __init__(self, plan: Plan, jobs: int = 2) -> None:
        self.jobs, self.plan = jobs, plan
        self.cells = {record_key(planned.cell): planned.cell for planned in plan.cells}
        self.submitted: list[Job] = []
        self.said: list[str] = []
        self.open: set[Future[JobResult]] = set()
        self.starts = True

    @property
    def has_free_worker(self) -> bool:
        return len(self.open) < self.jobs

    def becomes(self, job: Job) -> JobResult | BaseException:
        """A finished record for each cell; a test may say something else."""
        if not job.students:
            return JobResult()
        return JobResult([(finished(self.cells[key]), {}) for key in job.cells])

    def submit(self, job: Job) -> Future[JobResult]:
        self.submitted.append(job)
        future: Future[JobResult] = Future()
        found = self.becomes(job)
        if isinstance(found, BaseException):
            future.set_exception(found)
        else:
            future.set_result(found)
        self.open.add(future)
        return future

    def worker_had_started(self, future):
        return self.starts

    def release(self, future):
        self.open.remove(future)

    def say(self, text):
        self.said.append(text)

    def show(self):
        pass

    def stop(self, under_way):
        pass


@pytest.fixture
def request_(tmp_path, teacher_folder, glue_folder):
    rows = ",".join(f"{name}:{tiny.SHAPE}:start=random" for name in ("finetune", "kd", "microbert"))
    common = {"data": str(glue_folder), "teacher": str(teacher_folder), "results": tmp_path / "results", "threads": 1}
    return api.Request(methods=rows, tasks="rte", **common)


@pytest.fixture
def run(request_):
    """Carries out a plan by an executor that pretends; returns it, the outcome, and the status of each row."""

    def carry_out(becomes=None, **changes):
        plan = api.plan(replace(request_, **changes))
        executor, outcome = Pretends(plan), Outcome(plan)
        if becomes is not None:
            whole = executor.becomes
            executor.becomes = lambda job: becomes(job, whole)
        store = api.Store(plan.request.results)
        with CellLocks(plan.request.results) as claims:
            try:
                JobSchedule(plan, jobs_of(plan), executor, store, claims, outcome).carry_out()
            finally:
                outcome.status = {r.cell.label.split(":")[0]: r.status for r in store.records()}
                outcome.executor = executor
        return outcome

    return carry_out


def rows(job: Job, executor: Pretends) -> set[str]:
    return {executor.cells[key].label.split(":")[0] for key in job.cells}


def test_every_cell_gets_its_record_once(run):
    outcome = run()
    assert outcome.status == dict.fromkeys(("teacher", "finetune", "kd", "microbert"), "ok")
    assert outcome.trained == 4
    assert not outcome.failures
    assert [job.kind for job in outcome.executor.submitted] == ["teacher", SCORES_JOB, STUDENTS_JOB]


def test_groups_are_as_large_as_the_plan_says(run, monkeypatch):
    monkeypatch.setattr("bench.plan.estimate.flops_per_second", lambda device, threads: 1e6)
    outcome = run(jobs=2)
    sizes = [len(job.students) for job in outcome.executor.submitted if job.kind == STUDENTS_JOB]
    assert max(sizes) <= outcome.plan.max_group_size < 3
    assert sum(sizes) == 3


def test_only_the_students_that_need_what_is_lost_fail(run):
    outcome = run(lambda job, whole: JobResult(error=WHY) if job.kind == "teacher" else whole(job))
    assert outcome.status == {"teacher": "failed", "finetune": "ok", "kd": "failed", "microbert": "failed"}
    assert {one.why for one in outcome.failures} == {"it cannot be made"}
    assert len(outcome.failures) == 3


def test_a_job_that_is_killed_twice_is_divided_and_one_student_fails_by_name(run):
    def becomes(job, whole):
        with_kd = job.kind == STUDENTS_JOB and "kd" in rows(job, whole.__self__)
        return BrokenExecutor() if with_kd else whole(job)

    outcome = run(becomes)
    assert outcome.status == {"teacher": "ok", "finetune": "ok", "kd": "failed", "microbert": "ok"}
    sizes = [len(job.students) for job in outcome.executor.submitted if job.kind == STUDENTS_JOB]
    assert sizes == [3, 3, 1, 1, 1]
    (failure,) = outcome.failures
    assert "was ended several times" in failure.why


def test_a_job_that_is_killed_once_is_tried_again(run):
    killed = []

    def becomes(job, whole):
        if job.kind == STUDENTS_JOB and not killed:
            killed.append(job)
            return BrokenExecutor()
        return whole(job)

    outcome = run(becomes, rerun=True)
    assert set(outcome.status.values()) == {"ok"}
    first, second = (job for job in outcome.executor.submitted if job.kind == STUDENTS_JOB)
    assert (first.from_scratch, second.from_scratch) == (True, False), (
        "the second attempt goes on where the first one was"
    )


def test_workers_that_cannot_start_end_the_run_with_one_line(run):
    def becomes(job, whole):
        whole.__self__.starts = False
        return BrokenExecutor()

    with pytest.raises(InputError, match="none can begin here"):
        run(becomes)


def test_answers_are_written_before_an_error_ends_the_run(run, request_):
    """Two jobs end in one round: the one that is wrong does not cost the other."""

    def becomes(job, whole):
        return InputError("the code was edited") if job.kind == STUDENTS_JOB else whole(job)

    with pytest.raises(InputError, match="was edited"):
        run(becomes)
    status = {r.cell.label.split(":")[0]: r.status for r in api.Store(request_.results).records()}
    assert status == {"teacher": "ok", "finetune": "interrupted", "kd": "interrupted", "microbert": "interrupted"}


def test_an_interrupt_while_records_are_written_loses_none(run, request_, monkeypatch):
    write, seen = api.Store.write, []

    def interrupted(store, record, arrays=None):
        seen.append(record)
        if len(seen) == 3:
            raise KeyboardInterrupt
        return write(store, record, arrays)

    monkeypatch.setattr(api.Store, "write", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run()
    status = {r.cell.label.split(":")[0]: r.status for r in api.Store(request_.results).records()}
    assert status == dict.fromkeys(("teacher", "finetune", "kd", "microbert"), "ok")


def test_ctrl_c_right_after_a_record_was_written_writes_none_twice(run, request_, monkeypatch):
    write, seen = api.Store.write, []

    def interrupted(store, record, arrays=None):
        path = write(store, record, arrays)
        seen.append(record)
        if len(seen) == 3:
            os.kill(os.getpid(), signal.SIGINT)
        return path

    monkeypatch.setattr(api.Store, "write", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run()
    attempts = [path.parent for path in request_.results.rglob("attempt-*.json")]
    assert len(attempts) == len(set(attempts)) == 4


def test_what_another_run_has_finished_is_not_replaced_by_a_failure(run, request_):
    """Its teacher is lost here, and its students are there by now."""
    plan = api.plan(request_)
    (kd,) = (planned.cell for planned in plan.cells if planned.cell.method == "kd")

    def becomes(job, whole):
        if job.kind != "teacher":
            return whole(job)
        api.Store(request_.results).write(finished(kd))
        return JobResult(error=WHY)

    outcome = run(becomes)
    assert outcome.status == {"teacher": "failed", "finetune": "ok", "kd": "ok", "microbert": "failed"}


def test_what_failed_in_another_run_meanwhile_is_a_failure_here(run, request_):
    plan = api.plan(request_)
    (kd,) = (planned.cell for planned in plan.cells if planned.cell.method == "kd")

    def becomes(job, whole):
        if job.kind == "teacher":
            api.Store(request_.results).write(empty(kd, "failed", now()).model_copy(update={"error": WHY}))
        return whole(job)

    outcome = run(becomes)
    assert outcome.status["kd"] == "failed"
    assert [one.why for one in outcome.failures] == ["it cannot be made"]
    assert all(
        "kd" not in rows(job, outcome.executor) for job in outcome.executor.submitted if job.kind == STUDENTS_JOB
    )
    again = run(becomes, retry_failed=True)
    assert again.status["kd"] == "ok"


def test_claims_are_given_back(run, request_):
    run()
    cells = [planned.cell for planned in api.plan(request_).cells]
    with CellLocks(request_.results) as others:
        assert all(others.take(train_key(cell)) for cell in cells)
