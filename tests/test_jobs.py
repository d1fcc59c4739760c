"""A plan as a graph of jobs; done in one process or in several it gives the same answers to the bit."""

from __future__ import annotations

import pytest
import tiny
from hypothesis import given
from hypothesis import strategies as st

from bench import api
from bench.plan.jobs import STUDENTS, jobs_of
from bench.train.halfway import Done, Halfway, equally_far

ROWS = f"finetune:{tiny.SHAPE},kd:{tiny.SHAPE},microbert:{tiny.SHAPE},moebert,theseus,mtdnn"


@pytest.fixture
def request_(tmp_path, teacher_folder, glue_folder):
    corpus = tmp_path / "corpus.txt"
    corpus.write_text("the cat runs in the house .\na bird sings on the old tree .\n" * 30)

    def make(results: str = "results", **changes) -> api.Request:
        given = {
            "methods": ROWS,
            "tasks": "rte,sst2",
            "data": str(glue_folder),
            "teacher": str(teacher_folder),
            "results": tmp_path / results,
            "reports": tmp_path / "reports",
            "corpus": (str(corpus),),
            "corpus_tokens": 300,
            "epochs": 2.0,
            "threads": 1,
        }
        return api.Request(**{**given, **changes})

    return make


def ends(request) -> dict[tuple, tuple]:
    """Everything of the records that does not tell the time."""
    found = {}
    store = api.Store(request.results)
    for record in store.records():
        known = record.model_dump(mode="json")
        train = {k: v for k, v in (known["train"] or {}).items() if "seconds" not in k}
        kept = ("weights", "scores", "terms", "gradient_norms", "gradient_shares", "usage", "status", "artefacts")
        arrays = {name: values.tobytes() for name, values in store.predictions(record).items()}
        found[record.cell.label, record.cell.tasks, record.cell.seed] = (train, arrays, *(known[name] for name in kept))
    return found


def test_a_job_comes_after_what_it_needs_and_every_cell_has_one(request_):
    plan = api.plan(request_(seeds=(0, 1)))
    jobs = jobs_of(plan)
    place = {job.key: number for number, job in enumerate(jobs)}
    assert len(place) == len(jobs)
    assert all(place[needed] < place[job.key] for job in jobs for needed in job.needs)
    answered = [cell for job in jobs for cell in job.cells]
    assert len(answered) == len(set(answered)) == len(plan.todo)
    kinds = [job.kind for job in jobs]
    assert kinds.count("teacher") == 2 * 3, "mtdnn wants three teachers of each task"
    assert kinds.count("computed") == 2 * 2, "importance of neurons and answers of the ensemble, of each task"
    assert kinds.count("start") == 1
    alone = jobs_of(plan, most=1)
    assert sum(job.kind == STUDENTS for job in alone) == 2 * 2 * 5 + 2
    assert [job for job in alone if job.kind != STUDENTS] == [job for job in jobs if job.kind != STUDENTS]


def test_what_is_in_the_cache_is_no_job(request_):
    api.run(request_(methods=f"kd:{tiny.SHAPE}", tasks="rte"))
    jobs = jobs_of(api.plan(request_("again", methods=f"kd:{tiny.SHAPE}", tasks="rte")))
    assert [(job.kind, job.needs) for job in jobs] == [("scores", ()), ("students", ())]


@pytest.mark.slow
def test_several_processes_give_the_same_answers_to_the_bit(request_, tmp_path, monkeypatch):
    """Teachers, a start, importance scores, an ensemble and students; each time from an empty cache."""
    whole = request_("one", seeds=(0, 1))
    assert api.run(whole).exit_code == 0
    for jobs in (2, 4):
        monkeypatch.setenv("BERT_BENCH_CACHE", str(tmp_path / f"cache {jobs}"))
        several = request_(f"{jobs} jobs", seeds=(0, 1), jobs=jobs)
        assert api.run(several).exit_code == 0
        assert ends(several) == ends(whole)
        assert {record.env["jobs"] for record in api.Store(several.results).records()} == {jobs}
    assert not list((tmp_path / "cache 4" / "progress").iterdir())


class At:
    """A student that is so far, of so much preparation."""

    def __init__(self, preparation: int, length: int, counted: int) -> None:
        self.length, self.far = length, Done(min(preparation, length), counted if preparation >= length else 0)
        self.label = "student"

    def steps(self, series: str) -> int:
        return self.length if series == "preparation" else 100


class Kept(Halfway):
    """States that say how far their students are."""

    def __init__(self, students: list[At]) -> None:
        super().__init__([])
        self.states = [
            type("State", (), {"done": lambda _, far=one.far: far, "left_by_other_code": False})() for one in students
        ]

    def _forget(self) -> None:
        """There are no files."""

    def restores(self, students: list[At]) -> int:
        for state in self.states:
            state.restore = lambda trainee: None
        return self.take_up(students, 1000)


@given(st.lists(st.builds(At, st.integers(0, 3), st.integers(0, 3), st.integers(0, 2)), min_size=1, max_size=6))
def test_students_that_train_together_are_equally_far(students):
    """Each group can go on at one step of the loop, which is where each of its students was."""
    groups = equally_far(students, Kept(students))
    assert sorted(number for group in groups for number in group) == list(range(len(students)))
    for group in groups:
        some = [students[number] for number in group]
        number = Kept(some).restores(some)
        longest = max(one.length for one in some)
        assert [Done(min(number, one.length), max(0, number - longest)) for one in some] == [one.far for one in some]
