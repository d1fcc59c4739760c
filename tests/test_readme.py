"""What the README shows works: the method in one file, the task file, the tree."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from types import ModuleType

import tiny
import torch

from bench.data.tasks import from_toml
from bench.plan.recipe import Recipe
from bench.train.legs import legs_of
from bench.train.loop import train
from bench.train.numerics import Numerics, RandomState
from bench.train.trainee import Trainee

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text()
IMPORTS = """
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar
from torch import nn
from methods import losses
from methods.api import Needs, Setup, Stage, Student, Term
from methods.parts import OwnShape
"""


def test_the_method_in_one_file(teacher_folder, monkeypatch):
    code = re.search(r"```python\n(.*?)```", README, re.DOTALL)
    assert code
    module = ModuleType("mine")
    monkeypatch.setitem(sys.modules, "mine", module)
    exec(IMPORTS + code.group(1), module.__dict__)  # noqa: S102 the README's own code
    method = module.Mine(layers=2, hidden=12, heads=4, ffn=24, start="random", temperature=4.0)
    from methods.api import Setup

    setup = Setup(tiny.config(), 2, ("x",))
    data = tiny.encoded(teacher_folder)
    random = RandomState(0, torch.device("cpu"))
    with random.current():
        student = method.build(setup)
    one = Trainee("mine", student, random, *legs_of(method.stages(setup), (), Recipe(epochs=1), len(data)), Numerics())
    train([one], data, 0, tiny.classifier(seed=3).eval(), Numerics(), 32)
    assert one.error is None
    assert set(one.log.terms["distil"]) == set(method.terms)


def test_the_task_file(tmp_path):
    text = re.search(r'(    name = "reviews".*?)\n\n', README, re.DOTALL)
    assert text
    file = tmp_path / "reviews.toml"
    file.write_text(re.sub(r"^    ", "", text.group(1), flags=re.MULTILINE))
    for name in ("train.csv", "dev.csv"):
        (tmp_path / name).write_text("sentence,label\nfine,positive\n")
    assert from_toml(file).labels == ("negative", "positive")


def test_the_tree_names_what_is_there():
    tree = README.split("## The tree")[1]
    for name in re.findall(r"(\w+(?:\.\w+)?/|[\w]+\.py)", tree.split("Apache")[0]):
        assert name == "runs/" or any((ROOT / base / name).exists() for base in ("", "bench", "methods", "results")), (
            name
        )


def test_every_verb_is_in_the_table():
    from bench.cli import app

    verbs = {command.name or command.callback.__name__ for command in app.registered_commands}
    table = README.split("## The verbs")[1].split("The same in Python")[0]
    assert verbs == set(re.findall(r"\| `([\w-]+)", table))


def test_files_it_links_to_exist():
    prose = re.sub(r"```.*?```", "", README, flags=re.DOTALL)
    for target in re.findall(r"\]\(([^)#]+)\)", prose):
        assert (ROOT / target).exists(), target


def test_its_tables_and_pictures_are_those_of_committed_reports():
    """A marker names the report; every row of the table after it stands there too."""
    marked = re.findall(r"<!-- from (\S+) -->\n((?:\|.*\n)+)", README)
    assert marked
    for name, table in marked:
        report = (ROOT / name).read_text()
        for row in table.splitlines():
            assert row in report, row
