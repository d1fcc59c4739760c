"""What the README and docs/ show works: the method in one file, the task file, the tree, the commands and the tables."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from types import ModuleType

import pages
import pytest
import tiny
import torch

from bench.conformance.checks import check_method
from bench.data.tasks import from_toml
from bench.plan.scheduled_stages import schedule_stages
from bench.record.recipe import START, TEACHER_LEARNING_RATES, Recipe
from bench.train.loop import LoopOptions, train_task
from bench.train.numerics import Numerics, RandomState
from bench.train.student_trainer import StudentTrainer
from methods.api import Batch, Method, PackedModel, RoutedModule, Setup, Stage, Student, Term

ROOT = pages.ROOT
README = (ROOT / "README.md").read_text()
VERBS, CONTRACT, METHODS, RESULTS = (
    (ROOT / "docs" / name).read_text() for name in ("verbs.md", "contract.md", "methods.md", "results.md")
)
EVERY_PAGE = pytest.mark.parametrize("page", pages.PAGES, ids=lambda page: page.name)


def test_the_readme_is_what_a_newcomer_needs():
    assert len(README.splitlines()) <= 200
    assert len(README.encode()) <= 12 * 1024
    for page in pages.PAGES[1:]:
        assert f"](docs/{page.name})" in README, page.name


def test_the_method_in_one_file(teacher_folder, monkeypatch):
    code = re.search(r"```python\n(.*?)```", CONTRACT, re.DOTALL)
    assert code
    module = ModuleType("mine")
    monkeypatch.setitem(sys.modules, "mine", module)
    exec(code.group(1), module.__dict__)  # noqa: S102 the docs' own code
    method = module.Mine(layers=2, hidden=12, heads=4, ffn=24, start="random", temperature=4.0)
    setup = Setup(tiny.config(), 2, ("x",))
    data = tiny.encoded(teacher_folder)
    random = RandomState(0, torch.device("cpu"))
    with random.current():
        student = method.build(setup)
    one = StudentTrainer(
        "mine", student, random, *schedule_stages(method.stages(setup), (), Recipe(epochs=1), len(data)), Numerics()
    )
    train_task([one], data, tiny.classifier(seed=3).eval(), LoopOptions(0, Numerics(), 32))
    assert one.error is None
    assert set(one.log.terms["distil"]) == set(method.terms)
    wrong = [
        check.found for check in check_method(module.Mine, ("contract", "spellings parse", "needs")) if check.found
    ]
    assert not wrong


@pytest.mark.parametrize("kind", [Method, Stage, Term, Setup, Student, Batch, PackedModel, RoutedModule])
def test_the_page_of_the_contract_names_every_member(kind):
    """A member that the page leaves out would be a hidden half."""
    members = {*vars(kind), *vars(kind).get("__annotations__", {})}
    missing = [name for name in members if not name.startswith("_") and not re.search(rf"\b{name}\b", CONTRACT)]
    assert not missing


def test_the_task_file(tmp_path):
    text = re.search(r'(    name = "reviews".*?)\n\n', VERBS, re.DOTALL)
    assert text
    file = tmp_path / "reviews.toml"
    file.write_text(re.sub(r"^    ", "", text.group(1), flags=re.MULTILINE))
    for name in ("train.csv", "dev.csv"):
        (tmp_path / name).write_text("sentence,label\nfine,positive\n")
    assert from_toml(file).labels == ("negative", "positive")


def test_the_tree_names_what_is_there():
    tree = README.split("## The tree")[1]
    for name in re.findall(r"(\w+(?:\.\w+)?/|[\w]+\.py)", tree.split("Apache")[0]):
        assert name == "runs/" or any(
            (ROOT / base / name).exists() for base in ("", "bench", "methods", "results", "docs")
        ), name


def test_every_verb_is_in_the_table():
    from bench.cli import app

    verbs = {command.name or command.callback.__name__ for command in app.registered_commands}
    verbs |= {group.name for group in app.registered_groups}
    table = VERBS.split("# The verbs")[1].split("The same in Python")[0]
    assert verbs == set(re.findall(r"\| `([\w-]+)", table))


@EVERY_PAGE
def test_files_it_links_to_exist(page):
    prose = re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)
    for target in re.findall(r"\]\(([^)#]+)[^)]*\)", prose):
        assert (page.parent / target).exists(), target


def test_tables_are_those_of_committed_reports_and_of_the_command_above_them():
    marked = []
    for page in pages.PAGES:
        text = page.read_text()
        marked += [found["report"] for found in pages.MARKED.finditer(text)]
        assert pages.refreshed(text) == text, f"{page.name}: python tests/pages.py copies the tables anew"
    assert len(marked) == 4
    assert marked.count(None) == 2


@EVERY_PAGE
def test_commands_are_typed_as_they_are_installed(page):
    """`python -m bench VERB` everywhere; options and verbs exist."""
    from typer.main import get_command

    from bench.cli import app

    text = page.read_text()
    assert not re.findall(
        r"(?<!-m )(?<!import )\bbench (?:run|plan|compare|check|audit|tune|speed|list|verify)\b", text
    )
    verbs = get_command(app).commands
    for verb, *words in pages.commands(text):
        known = {name for option in verbs[verb].params for name in option.opts}
        assert {word for word in words if word.startswith("--")} <= known, words


def test_the_audit_of_a_clone_finds_what_the_table_shows(bench, tmp_path):
    section = RESULTS.split("## An audit of printed tables")[1]
    (command,) = pages.commands(section)
    assert bench(*command[:1], *(ROOT / word for word in command[1:]), "--json", tmp_path / "found").returncode == 1
    found = {tuple(f[k] for k in ("row", "column", "printed", "recomputed", "basis", "why", "changes")) for f in read(tmp_path / "found")}  # fmt: skip
    shown = [
        tuple(cell.strip() for cell in row.split("|")[1:-1]) for row in re.findall(r"^\|.*", section, re.MULTILINE)
    ]
    assert len(shown) > 5
    assert set(shown[2:]) <= found


def read(file: Path) -> list[dict[str, str]]:
    return json.loads(file.read_text())


def test_two_rows_are_explained_before_the_first_number():
    """Nobody may take them for the published DistilBERT and MobileBERT."""
    for text in (README.split("<!-- from")[0], RESULTS.split("<!-- from")[0], METHODS):
        said = " ".join(text.replace("**", "").split())
        assert "its second step only" in said
        assert "half of the teacher" in said
        assert "random start, without its pre-training" in said


def test_the_learning_rates_are_those_of_the_recipe():
    table = README.split("### Learning rates")[1].split("##")[0]
    rates = [float(rate) for rate in re.findall(r"^\| [^|]+ \| ([\d.]+e-\d) \|", table, re.MULTILINE)]
    assert rates == [
        Recipe().learning_rate,
        TEACHER_LEARNING_RATES[True],
        TEACHER_LEARNING_RATES[False],
        START.learning_rate,
    ]
    assert "development" in table
