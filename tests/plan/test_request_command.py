"""A request says the command that asks for it: reading that command back gives the same request."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from pathlib import Path

import factories
import pytest
import typer

from bench.cli import app
from bench.cli.options import REQUEST, request_from_options
from bench.record.cell import TEACHER
from bench.record.store import Store
from bench.request import RECORDED, Request, _option
from bench.request.recorded import PretrainingText, Recorded

REFERENCE = Path(__file__).resolve().parents[2] / "results" / "reference"

PLAIN = Request()
REQUESTS = {
    "nothing but defaults": PLAIN,
    "rows, tasks and seeds": Request("kd,microbert:-dis", "rte,mrpc", seeds=(0, 3)),
    "numbers": Request(numbers=(("batch_size", 8), ("max_length", 64)), epochs=0.5, threads=4),
    "texts and metrics": Request(corpus=("a.txt", "b c.txt"), corpus_tokens=100),
    "another folder": Request(results=Path("here/runs"), reports=Path("there")),
    "flags": Request(offline=True, deterministic=True, curves=True, rerun=True, yes=True),
    "jobs": Request(jobs=0),
    "several jobs": Request(jobs=3, threads=1),
    "a cluster": Request(executor="slurm", slurm=(("partition", "gpu"), ("time", "60"))),
    "outputs": Request(teacher_outputs="fp16", teacher_outputs_limit=2.5, kernels="fast"),
}


def read(words: list[str]) -> Request:
    """The request that the command line makes of these words."""
    run = typer.main.get_command(app).commands["run"]  # type: ignore[attr-defined]
    assert words[:4] == ["python", "-m", "bench", "run"]
    values = run.make_context("run", words[4:]).params
    return request_from_options(**{name: values[name] for name in REQUEST})


@pytest.mark.parametrize("name", REQUESTS)
def test_a_command_reads_as_its_request(name, monkeypatch):
    monkeypatch.delenv("CI", raising=False)
    request = REQUESTS[name]
    assert read(request.command()) == request


def test_what_is_usual_is_not_typed():
    assert Request(jobs=0, threads=1).command() == [
        "python",
        "-m",
        "bench",
        "run",
        "--threads",
        "1",
    ]


def test_teachers_alone_are_asked_for_without_a_row():
    assert Request("", jobs=0, threads=1).command()[4:6] == ["--only", "teachers"]


@pytest.mark.parametrize("field", [field.name for field in fields(Request) if field.metadata])
def test_every_option_is_typed_where_its_value_differs(field):
    """An option that a command left out would ask for something else."""
    others = {
        bool: True,
        int: 7,
        float: 7.0,
        type(None): 7,
        tuple: ("x",),
        str: "x",
    }
    own = {
        "seeds": (5,),
        "reports": Path("x"),
        "results": Path("x"),
        "save_students": Path("x"),
        "word_vectors": Path("x"),
        "metric": (),
        "vary": ("start",),
        "numbers": (("batch_size", 8),),
        "slurm": (("time", "5"),),
    }
    value = own.get(field, others.get(type(getattr(PLAIN, field))))
    if value == getattr(PLAIN, field):
        pytest.skip("it names a module that is loaded")
    assert replace(PLAIN, **{field: value}).command() != PLAIN.command()


def test_what_a_record_states_reads_as_the_command_that_asks_for_it(monkeypatch):
    """One committed record of every third row: by those options that differ, and by all."""
    monkeypatch.delenv("CI", raising=False)
    rows = {record.row: record for record in Store(REFERENCE).records()}
    assert len(rows) > 40
    del rows[TEACHER]  # it is asked for without a row
    for record in list(rows.values())[::3]:
        told = Recorded(record.cell, record.point, text=PretrainingText(("a.txt",), 300))
        stated = Request.of(told)
        assert stated.seeds == (record.cell.seed,)
        assert read(stated.command()) == stated
        whole = ["python", "-m", "bench", "run", *stated.typed(RECORDED)]
        assert read(whole) == replace(stated, jobs=0), "records do not say how many jobs there were"


def test_an_option_is_one_field():
    """Its words, its default and what a record states of it stand together, and nowhere else."""

    @dataclass(frozen=True)
    class Longer(Request):
        attention: str = _option("packed", "How it attends.", recorded=of_attention)

    cell = factories.record("kd").cell
    other = cell.model_copy(
        update={"numeric": cell.numeric.model_copy(update={"attention": "eager"})}
    )
    assert Longer.of(Recorded(cell)).attention == "packed"
    assert "--attention" not in Longer.of(Recorded(cell)).command()
    assert Longer.of(Recorded(other)).command()[-2:] == ["--attention", "eager"]


def of_attention(told: Recorded) -> str:
    """What a record states of the option above."""
    return told.cell.numeric.attention
