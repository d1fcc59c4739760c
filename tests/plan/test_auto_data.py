"""`--data auto` never swaps the experiment: beside something of the user's own it asks which data are meant."""

from __future__ import annotations

import pytest
import tiny

from bench.errors import BAD_INPUT
from bench.plan.spelling import parse_rows

OWN_METHOD = """
from dataclasses import dataclass

from methods.kd import KD


@dataclass(frozen=True)
class Mine(KD):
    name = "mine"
"""


@pytest.fixture(autouse=True)
def laptop(monkeypatch, tmp_path):
    """No accelerator, no continuous integration, and a method in a file of the current folder."""
    monkeypatch.delenv("CI", raising=False)
    monkeypatch.setattr("torch.accelerator.is_available", lambda: False)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text(OWN_METHOD)
    monkeypatch.syspath_prepend(tmp_path)


@pytest.fixture
def brought(tmp_path, teacher_folder):
    """What a user brings -> the words that name it."""
    folder = tmp_path / "finished"
    tiny.classifier(layers=2, seed=1).save_pretrained(folder)
    return {
        "checkpoint": ["--methods", f"checkpoint:{folder}"],
        "predictions": ["--methods", f"predictions:{folder}"],
        "method": ["--methods", "kd,mine:Mine"],
        "teacher": ["--methods", "kd", "--teacher", teacher_folder],
    }


@pytest.mark.parametrize("what", ["checkpoint", "predictions", "method", "teacher"])
def test_with_something_of_ones_own_the_data_are_asked_for(bench, brought, what, tmp_path):
    refused = bench("plan", *brought[what], "--tasks", "mrpc", "--results", tmp_path / "r")
    assert refused.returncode == BAD_INPUT
    (line,) = refused.stderr.strip().splitlines()
    assert "--data hub" in line
    assert "--data sample" in line
    assert "there is no accelerator" in line


@pytest.mark.slow
@pytest.mark.parametrize("what", ["method", "teacher"])
def test_with_data_that_are_typed_it_is_planned(bench, brought, glue_folder, what, tmp_path):
    words = ["--tasks", "rte", "--data", glue_folder, "--results", tmp_path / "r"]
    planned = bench("plan", *brought[what], *words)
    assert planned.returncode == 0, planned.stderr


@pytest.mark.slow
def test_a_task_of_ones_own_needs_no_data_and_shipped_methods_are_still_tried(
    bench, brought, tmp_path
):
    file = tmp_path / "reviews.csv"
    rows = [f"sentence {i} of the film,{('good', 'bad')[i % 2]}" for i in range(40)]
    file.write_text("\n".join(["text,label", *rows]) + "\n")
    for words in (
        [*brought["method"], "--tasks", "reviews.csv"],
        ["--methods", "kd", "--tasks", "mrpc"],
    ):
        planned = bench("plan", *words, "--results", tmp_path / "r")
        assert planned.returncode == 0, planned.stderr


def test_the_shipped_methods_are_nobodys_own():
    from bench.plan.build import _own_methods

    assert _own_methods(parse_rows("all").rows) == []
    assert _own_methods(parse_rows("mine:Mine,kd").rows) == ["mine:Mine"]
