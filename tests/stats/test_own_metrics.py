"""A metric in a file of its user: found, refused, scored with, and read again."""

from __future__ import annotations

import csv
import re
import sys
from pathlib import Path

import pytest
import tiny

import bench as installed
from bench.errors import BAD_INPUT, OK, InputError
from bench.record.code import digest_of, metric_modules
from bench.record.store import Store
from bench.request import Request
from bench.stats import own_metrics
from bench.stats.metrics import METRICS, metric_of

KAPPA = '''"""Cohen's kappa: agreement beyond chance."""

import numpy as np

from bench.stats.form import CLASSES
from bench.stats.metrics import Metric

WRONG = 3
TWICE = Metric("accuracy", "again", CLASSES, score=lambda predicted, true: 0.0)


def _kappa(predicted, true):
    classes = np.union1d(predicted, true)
    chance = sum((predicted == c).mean() * (true == c).mean() for c in classes)
    return float(((predicted == true).mean() - chance) / (1 - chance)) if chance < 1 else 0.0


KAPPA = Metric("kappa", "Cohen's kappa", CLASSES, score=_kappa, low=-1.0)
'''
SMALL = "layers=1:hidden=64:heads=4:ffn=64:start=random"


def forget() -> None:
    """As in a new process: nobody has named the metric yet."""
    METRICS.pop("kappa", None)
    own_metrics._references.pop("kappa", None)
    sys.modules.pop("kappa", None)


@pytest.fixture(autouse=True)
def _in_a_folder_with_the_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    Path("kappa.py").write_text(KAPPA)
    forget()
    yield
    forget()


@pytest.mark.parametrize(
    ("reference", "said"),
    [
        ("kappa", "name a module as Python imports it"),
        ("accuracy", "it needs no option here"),
        ("kappa.py:KAPPA", "name a module as Python imports it"),
        ("kapa:KAPPA", "run this in the folder that has kapa.py"),
        ("kappa:KAPA", "kappa has no KAPA"),
        ("kappa:WRONG", "that is no metric"),
        ("kappa:Metric", "that is a class"),
        ("kappa:TWICE", "two metrics are called 'accuracy'"),
    ],
)
def test_what_is_no_metric_of_ones_own_is_refused(reference, said):
    with pytest.raises(InputError, match=said):
        Request(metric=reference)
    assert "kappa" not in METRICS


def test_its_name_and_its_file_are_those_that_count():
    Request(metric=("kappa:KAPPA",))
    assert metric_of("kappa").label == "Cohen's kappa"
    assert metric_modules(["kappa", "accuracy"]) == ("bench.stats.metrics.accuracy", "kappa")
    before = digest_of(("kappa",))
    digest_of.cache_clear()
    forget_parsed()
    Path("kappa.py").write_text(KAPPA.replace("low=-1.0", "low=-0.9"))
    assert digest_of(("kappa",)) != before, "another file is other code"
    assert Request(metric="kappa:KAPPA").metric == ("kappa:KAPPA",), "named twice it is one"


def forget_parsed() -> None:
    """Files are read once a process."""
    from bench.record import code, stated

    code._parsed.cache_clear()
    for function in vars(stated).values():
        if hasattr(function, "cache_clear"):
            function.cache_clear()


@pytest.mark.slow
@pytest.mark.parametrize("jobs", [1, pytest.param(2, marks=pytest.mark.long)])
def test_a_run_scores_with_it_and_readers_ask_for_it(bench, jobs):
    examples = [("the cat is red", "bad"), ("the dog is red", "good"), ("a dog is old", "good")]
    for name, count in (("train", 16), ("dev", 7)):
        with open(f"{name}.csv", "w", newline="") as file:
            rows = [
                (f"{text} {number}", label) for number in range(count) for text, label in examples
            ]
            csv.writer(file).writerows([("sentence", "label"), *rows])
    row = f"finetune:{SMALL}"
    words = ["--methods", row, "--teacher", tiny.save_teacher(Path("teacher"))]
    words += ["--tasks", "train.csv:validation=dev.csv:name=pets:metrics=kappa+accuracy"]
    words += ["--epochs", 1, "--jobs", jobs, "--threads", 1, "--yes"]

    done = bench("run", *words)
    assert done.returncode == BAD_INPUT
    assert "metric 'kappa' is not known" in done.stderr
    assert "--metric MODULE:NAME" in done.stderr
    done = bench("run", *words, "--metric", "kappa:KAPPA")
    assert done.returncode == OK, done.stderr

    for record in Store(Path("results/runs")).records():
        assert list(record.scores["validation"]) == ["kappa", "accuracy"], "stored by its name"
        assert "kappa" in record.code["computed_by"]["of"]
    assert "kappa" in set(installed.load("results/runs")["metric"])
    pages = [page.read_text() for page in Path("reports/runs").rglob("README.md")]
    said = [page for page in pages if "--metric kappa:KAPPA" in page]
    assert said, "the commands that make it again name it"

    # whoever reads the records later has not named the file
    compare = ["compare", row, "teacher"]
    for reading in (["report"], compare):
        forget()
        done = bench(*reading)
        assert done.returncode == BAD_INPUT
        assert "no metric is called 'kappa'" in done.stderr
        assert "--metric MODULE:NAME" in done.stderr
        assert bench(*reading, "--metric", "kappa:KAPPA").returncode == OK

    # a file's metric and a known one are typed with one option: the first that suits scores
    for typed in (["kappa:KAPPA", "accuracy"], ["accuracy", "kappa:KAPPA"]):
        forget()
        options = [word for metric in typed for word in ("--metric", metric)]
        done = bench(*compare, *options)
        assert done.returncode == OK, done.stderr
        shown = typed[0].partition(":")[0]
        assert re.search(rf"\| pets \| +{shown} \|", done.stdout)


def test_a_plan_says_that_no_task_names_it(bench, places):
    done = bench(
        "plan", "--methods", "finetune", "--tasks", "rte", *places[:4], "--metric", "kappa:KAPPA"
    )
    assert "the metric kappa: no task names it" in done.stdout, done.stderr
