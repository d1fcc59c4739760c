"""How a plan's work is divided among jobs that run at the same time."""

from __future__ import annotations

import pytest
import tiny
from hypothesis import given
from hypothesis import strategies as st

from bench import api
from bench.errors import InputError
from bench.plan import parallel
from bench.plan.estimate import epochs_of
from bench.plan.jobs import Job
from bench.plan.parallel import makespan
from bench.plan.request import parse_jobs, threads_for
from bench.plan.show import describe
from bench.progress import duration

seconds = st.integers(0, 9)
works = st.lists(st.tuples(seconds, st.sets(st.integers(0, 5), max_size=3)), min_size=1, max_size=8)
"""length of each, and how many places before it the ones are that it needs"""


def jobs_of(work) -> tuple[list[Job], dict[str, float]]:
    jobs = [
        Job(
            str(number),
            "",
            "teacher",
            made_from=tuple(sorted({str(number - 1 - back) for back in needs if back < number})),
        )
        for number, (_, needs) in enumerate(work)
    ]
    return jobs, {str(number): float(took) for number, (took, _) in enumerate(work)}


@given(works, st.integers(1, 4))
def test_the_last_job_ends_between_the_longest_chain_and_all_in_a_row(work, at_once):
    jobs, took = jobs_of(work)
    ends: dict[str, float] = {}
    for job in jobs:
        ends[job.key] = took[job.key] + max((ends[key] for key in job.needs), default=0.0)
    found, total = makespan(jobs, took, at_once), sum(took.values())
    assert max(max(ends.values()), total / at_once) <= found <= total
    assert makespan(jobs, took, 1) == total
    assert makespan(jobs, took, len(jobs)) == max(ends.values())


@pytest.fixture
def request_(tmp_path, teacher_folder, glue_folder):
    def make(**changes) -> api.Request:
        rows = ",".join(f"{name}:{tiny.SHAPE}:start=random" for name in ("finetune", "kd", "tinybert", "microbert"))
        given = {
            "methods": rows,
            "tasks": "rte",
            "data": str(glue_folder),
            "teacher": str(teacher_folder),
            "results": tmp_path / "results",
            "threads": 1,
            "jobs": 2,
        }
        return api.Request(**{**given, **changes})

    return make


@pytest.fixture
def slow_machine(monkeypatch):
    monkeypatch.setattr("bench.plan.estimate.flops_per_second", lambda device, threads: 1e6)


def test_students_of_one_task_are_divided_where_a_process_would_idle(request_, slow_machine):
    plan = api.plan(request_())
    whole = api.plan(request_(jobs=1))
    assert plan.max_group_size < len(plan.groups("rte", 8)[0])
    assert 0.5 * whole.seconds <= plan.seconds < whole.seconds
    assert "students together" in plan.jobs_description or "one student a job" in plan.jobs_description
    assert whole.max_group_size == 8
    assert not whole.jobs_description


def test_the_parts_of_an_estimate_add_up_to_the_work_that_it_names(request_, slow_machine):
    plan = api.plan(request_())
    work = duration(sum(part.seconds for part in plan.work_items))
    assert plan.seconds < sum(part.seconds for part in plan.work_items)
    said = next(line for line in describe(plan).splitlines() if line.startswith("  estimate: "))
    assert said.startswith(f"  estimate: {duration(plan.seconds)} with 2 jobs at a time, ")
    assert said.endswith(f"; {work} of work:")


def test_more_tasks_than_jobs_are_not_divided(request_, slow_machine):
    plan = api.plan(request_(tasks="rte,sst2", seeds=(0, 1, 2, 3)))
    assert plan.max_group_size == 8
    assert plan.jobs_description.startswith("2 at a time")


def test_auto_is_as_many_as_cores_and_memory_allow_and_one_for_a_short_plan(request_, monkeypatch):
    monkeypatch.setattr(parallel, "usable_cores", lambda: 6)
    monkeypatch.setattr(parallel, "usable_memory_bytes", lambda: 10**12)
    assert api.plan(request_(jobs=0)).request.jobs == 1
    monkeypatch.setattr("bench.plan.estimate.flops_per_second", lambda device, threads: 1e6)
    assert api.plan(request_(jobs=0)).request.jobs == 6
    assert api.plan(request_(jobs=0, threads=2)).request.jobs == 3
    monkeypatch.setattr(parallel, "usable_memory_bytes", lambda: 2 * 10**9)
    limited = api.plan(request_(jobs=0))
    assert 1 <= limited.request.jobs < 6
    assert "are free: fewer --jobs need less" not in limited.jobs_description
    assert "are free: fewer --jobs need less" in api.plan(request_(jobs=8)).jobs_description


@pytest.mark.parametrize(
    ("row", "recipe", "epochs"),
    [
        ("bilstm:hidden=12", "paper", 30),
        ("kd", "paper", 4),
        ("kd", "common", 3),
        ("tinybert:start=random", "paper", 20 + 3),
        ("tinybert:start=random:intermediate.epochs=50", "paper", 50 + 3),
        ("tinybert:start=random:-pred", "paper", 20),
    ],
)
def test_epochs_are_those_of_the_row_s_stages(request_, row, recipe, epochs):
    plan = api.plan(request_(methods=row if "bilstm" in row else f"{row}:{tiny.SHAPE}", recipe=recipe, jobs=1))
    planned = plan.cells_of("rte")[-1]
    assert epochs_of(planned.row, plan.tasks[0]) == epochs


def test_what_can_be_typed():
    assert [parse_jobs(text) for text in ("auto", "1", "12")] == [0, 1, 12]
    for text in ("0", "-1", "two", ""):
        with pytest.raises(InputError, match="give a whole number from 1 on, or auto"):
            parse_jobs(text)
    assert [threads_for(jobs) for jobs in (0, 1, 2)] == [1, 2, 1]


def test_the_number_of_jobs_changes_no_key(request_):
    keys = {
        tuple(sorted(planned.cell.model_dump_json() for planned in api.plan(request_(jobs=n)).cells)) for n in (1, 2, 5)
    }
    assert len(keys) == 1


@pytest.mark.parametrize(
    ("teachers", "pretraining"),
    [(("run", "--only", "teachers"), ("run", "--only", "pretraining")), (("teacher",), ("pretrain",))],
)
def test_what_is_made_alone_is_found_by_a_run(bench, request_, tmp_path, teachers, pretraining):
    """The parts of `run`, and their earlier names, have the threads of `run`, where nobody types a number."""
    request = request_()
    common = ("--teacher", request.teacher, "--corpus-tokens", "300")
    corpus = tmp_path / "corpus.txt"
    corpus.write_text("the cat runs in the house .\na bird sings on the old tree .\n" * 30)
    made = bench(*pretraining, "--methods", f"kd:{tiny.SHAPE}", *common, "--corpus", corpus)
    assert made.returncode == 0, made.stderr
    data = ("--tasks", "rte", "--data", request.data, "--results", tmp_path / "r")
    assert bench(*teachers, "--teacher", request.teacher, *data, "--reports", tmp_path / "p").returncode == 0
    plan = bench("plan", "--methods", f"kd:{tiny.SHAPE}", *common, "--corpus", corpus, *data)
    assert "general start 2x12: there" in plan.stdout
    assert "2 cells: 1 there, 1 to do" in plan.stdout
