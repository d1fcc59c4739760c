"""What a worker on a node does with a job, without Ray: it refuses what it plans otherwise, and what goes wrong is its answer."""

from __future__ import annotations

import multiprocessing
from concurrent.futures import BrokenExecutor, Future
from dataclasses import replace

import pytest
import tiny
from bench.plan.jobs import TEACHER_JOB, jobs_of, slot_of
from small_runs import requests

from bench import api
from bench.cache import cache_root
from bench.errors import InputError
from bench.run.cluster_common import RunFolder
from bench.run.outcome import JobResult
from bench.run.ray_worker import RayWorker
from bench.run.remote_worker import WorkerReply, enter_run_folder, start_of
from bench.run.transfer import content_of, place_of


@pytest.fixture
def request_(tmp_path, teacher_folder, glue_folder):
    return requests(tmp_path, teacher_folder, glue_folder)(methods=f"kd:{tiny.SHAPE}", tasks="rte")


@pytest.fixture
def teacher_job(request_):
    """The plan of this machine, and its first job."""
    plan = api.plan(request_)
    job = jobs_of(plan)[0]
    assert job.kind == TEACHER_JOB
    return plan, job


def sent(value):
    """What another process would receive."""
    here, there = multiprocessing.Pipe()
    there.send(value)
    return here.recv()


def worker_of(request) -> RayWorker:
    return RayWorker(sent(start_of(request, "cpu", cache_root(), "no mark")))


@pytest.mark.slow
def test_what_a_job_makes_is_in_the_cache_of_the_node(request_, teacher_job):
    plan, job = teacher_job
    worker, place = worker_of(request_), place_of(slot_of(plan, job))
    settled = worker.begin()
    assert not settled.shares_cache
    assert worker.lacking({place: "a hash"}) == [place]
    answer = sent(worker.do(job))
    assert answer.result.error is None
    assert answer.status["title"].startswith("rte: teacher")
    assert any("done in" in line for line in answer.status["said"])
    assert worker.lacking({place: content_of(place)}) == []
    worker.forget(place)
    assert content_of(place) is None


def test_a_node_that_reads_other_data_refuses(request_, teacher_job, tmp_path):
    other = tiny.write_glue(tmp_path / "other" / "tiny-glue", ("rte",), rows=30)
    answer = worker_of(replace(request_, data=str(other))).do(teacher_job[1])
    assert "this process plans another one; did its data or teacher change meanwhile?" in answer.refusal
    assert answer.refusal.startswith("node ")


def test_a_node_with_other_code_refuses(request_, teacher_job):
    answer = worker_of(request_).do(replace(teacher_job[1], code="of another version"))
    assert "the code was edited since this run began" in answer.refusal


def test_a_path_that_a_node_does_not_have_is_named(request_, teacher_job, tmp_path):
    gone = replace(request_, data=str(tmp_path / "not here"), offline=True)
    answer = worker_of(gone).do(teacher_job[1])
    assert "not here" in answer.refusal
    assert answer.refusal.endswith("has to be readable at the same path on every node")


@pytest.mark.slow
def test_a_worker_that_is_told_to_stop_keeps_its_state(request_, teacher_job):
    worker = worker_of(request_)
    worker.stop()
    answer = worker.do(teacher_job[1])
    assert answer.was_stopped
    assert list(cache_root().glob("halfway/*.safetensors"))


def test_a_node_that_sees_the_mark_shares_the_cache(request_, monkeypatch, tmp_path):
    folder = RunFolder()
    start = start_of(request_, "cpu", cache_root(), folder.mark)
    assert enter_run_folder(start)
    monkeypatch.delenv("BERT_BENCH_CACHE")
    assert enter_run_folder(start), "without a cache of its own it takes that of the run, where it sees it"
    monkeypatch.setenv("BERT_BENCH_CACHE", str(tmp_path / "own"))
    assert not enter_run_folder(start)
    folder.remove()
    monkeypatch.delenv("BERT_BENCH_CACHE")
    assert not enter_run_folder(start)


def test_students_are_not_saved_where_nobody_finds_them(request_, tmp_path):
    start = start_of(replace(request_, save_students=tmp_path / "students"), "cpu", cache_root(), "no mark")
    with pytest.raises(InputError, match=r"node .* has no such folder"):
        enter_run_folder(start)


@pytest.mark.parametrize(
    "answer, is_stopping, error",
    [
        (WorkerReply(refusal="no"), False, InputError),
        (WorkerReply(error="OSError: disk"), False, RuntimeError),
        (WorkerReply(was_stopped=True), True, KeyboardInterrupt),
        (WorkerReply(was_stopped=True), False, BrokenExecutor),
    ],
)
def test_an_answer_becomes_what_a_process_of_this_machine_says(answer, is_stopping, error):
    future: Future[JobResult] = Future()
    answer.resolve(future, is_stopping)
    assert isinstance(future.exception(), error)


def test_an_answer_with_records_is_a_result():
    future: Future[JobResult] = Future()
    WorkerReply(JobResult()).resolve(future, False)
    assert future.result() == JobResult()
