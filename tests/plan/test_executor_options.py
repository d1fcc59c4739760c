"""--executor, --address and --slurm: what goes together, what has to be installed, and that no key knows of them."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from bench import api
from bench.errors import InputError
from bench.request import Request
from bench.request.choices import PACKAGES
from bench.request.text import parse_slurm


@pytest.fixture
def installed(monkeypatch):
    """As if every package that an executor needs were there."""
    pretend(monkeypatch, object())


def pretend(monkeypatch, found):
    """Packages of executors are found, or not; others as ever."""
    find, asked = importlib.util.find_spec, set(PACKAGES.values())
    monkeypatch.setattr(
        importlib.util,
        "find_spec",
        lambda name, *more: found if name in asked else find(name, *more),
    )


def request(**changes) -> api.Request:
    return api.Request(methods="kd", tasks="rte", data="sample", teacher="embedded", **changes)


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"executor": "dask"}, "--executor dask: choose one of processes, ray, slurm"),
        ({"address": "auto"}, "--address goes with --executor ray"),
        ({"executor": "ray", "slurm": (("time", "5"),)}, "--slurm goes with --executor slurm"),
        ({"executor": "ray", "device": "cuda:1"}, "type --device cuda"),
        ({"executor": "slurm", "slurm": (("time", "soon"),)}, "whole number of minutes"),
        ({"executor": "slurm", "slurm": (("cluster", "here"),)}, "choose slurm or local"),
        ({"executor": "slurm", "slurm": (("setup", "gone.sh"),)}, "no such file"),
    ],
)
def test_what_does_not_go_together_is_refused(installed, changes, message):
    with pytest.raises(InputError, match=message):
        request(**changes).checked()


@pytest.mark.parametrize("executor, package", [("ray", "ray"), ("slurm", "submitit")])
def test_a_missing_extra_is_one_line_that_says_what_to_install(
    monkeypatch, bench, executor, package
):
    pretend(monkeypatch, None)
    words = [
        "run",
        "--methods",
        "kd",
        "--tasks",
        "rte",
        "--data",
        "sample",
        "--teacher",
        "embedded",
    ]
    answer = bench(*words, "--executor", executor)
    assert answer.returncode == 2
    (line,) = answer.stderr.splitlines()
    assert f"--executor {executor} needs the package {package}" in line
    assert f"-m pip install -c constraints.txt -e '.[{executor}]'" in line


@pytest.mark.parametrize(
    "text, message",
    [
        ("gpu", "give NAME=VALUE"),
        ("partitions=gpu", "did you mean 'partition'"),
        ("time=1,time=2", "given twice"),
    ],
)
def test_other_parameters_of_slurm_are_refused(text, message):
    with pytest.raises(InputError, match=message):
        parse_slurm(text)


def test_a_request_takes_what_somebody_types_in_python():
    typed = Request(
        methods=["kd", "finetune"],
        tasks=["rte"],
        seeds=1,
        corpus="a.txt",
        numbers={"batch_size": 8},
    )
    assert (typed.methods, typed.tasks, typed.seeds) == ("kd,finetune", "rte", (1,))
    assert (typed.corpus, typed.numbers) == (("a.txt",), (("batch_size", 8),))
    places = {
        "results/runs": "reports/runs",
        "results/h200": "reports/h200",
        "base": "reports/base",
    }
    assert {name: str(Request(results=name).reports) for name in places} == places
    assert Request(results="gate/results").reports == Path("gate/reports")
    assert (Request(jobs="auto").jobs, Request(seeds=["0", 1]).seeds) == (0, (0, 1))


@pytest.mark.parametrize(
    "typed, message",
    [
        ({"numbers": {"batch_size": 8.5}}, "--set batch_size=8.5: give NAME=NUMBER"),
        ({"seeds": [0.5]}, "--seeds 0.5: give whole numbers"),
        ({"epochs": "1"}, "--epochs '1': give a number"),
        ({"max_train_rows": 64.5}, "--max-train-rows 64.5: give a whole number"),
        ({"threads": "2"}, "--threads '2': give a whole number"),
        ({"methods": []}, "methods=.*: it names no row"),
    ],
)
def test_a_request_in_python_is_checked_like_a_command(typed, message):
    with pytest.raises(InputError, match=message):
        Request(**typed).checked()
