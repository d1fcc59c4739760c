"""The contract of methods has no half that is found by name, and a class of an older one is told in one line what to change."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import methods
from bench import api
from bench.errors import InputError
from bench.plan.plugins import MEMBERS, method_class, outdated
from methods.api import Method

ROOT = Path(__file__).parents[2]
PLUGIN = Path(__file__).parents[1] / "plugin"
OLD = (
    "change: subclass methods.api.Method, small -> tiny_settings, grid -> search_space, several_tasks -> multitask, "
    "begins_alike -> same_init_across_seeds, prepare -> requires"
)
ALSO = (
    "Stage(share=) -> Stage(epoch_fraction=)",
    "Stage(pace=) -> Stage(lr_scale=)",
    "Term(impossible=) -> Term(unsupported=)",
)


@pytest.fixture(autouse=True)
def _on_the_path(monkeypatch):
    monkeypatch.syspath_prepend(PLUGIN)


@pytest.mark.parametrize(
    "words", [("check-method", "oldbert:OldLogits"), ("check-method", "old/logits"), ("run", "--methods", "old/logits")]
)
def test_a_class_of_the_old_contract_is_told_what_to_change_in_one_line(bench, monkeypatch, words):
    """Its file is read: it could not even be imported."""
    monkeypatch.setitem(methods.TABLE, "old/logits", ("oldbert:OldLogits", "of contract 1"))
    done = bench(*words)
    assert done.returncode == 2
    assert not done.stdout
    (line,) = done.stderr.strip().splitlines()
    assert f"{words[-1]} is not written for contract 2 of methods (docs/contract.md); {OLD}" in line
    assert all(change in line for change in ALSO)
    assert "GeneralStart -> methods.artefacts.GeneralDistillation" in line


def test_list_says_so_too(bench, monkeypatch):
    monkeypatch.setattr(methods, "TABLE", {"old/logits": ("oldbert:OldLogits", "of contract 1")})
    done = bench("list", "--check")
    assert done.returncode == 1
    assert OLD in done.stdout


@pytest.mark.parametrize("member, today", MEMBERS.items())
def test_each_old_member_of_a_class_that_has_the_base_is_found(tmp_path, monkeypatch, member, today):
    """It would be overlooked: the base class has a default for today's name."""
    monkeypatch.syspath_prepend(tmp_path)
    text = (PLUGIN / "shrinkbert.py").read_text()
    for number, line in enumerate((f"{member}: ClassVar = {{}}", f"{member} = ()", f"def {member}(self, x): ...")):
        module = f"half_old_{member}_{number}"
        (tmp_path / f"{module}.py").write_text(text.replace("    def build", f"    {line}\n\n    def build"))
        assert outdated(f"{module}:TeacherLogits") == [f"{member} -> {today}"]
    (tmp_path / f"new_{member}.py").write_text(text.replace("    def build", f"    {member}: int = 1\n\n    def build"))
    assert outdated(f"new_{member}:TeacherLogits") == [], "a setting may have this name"


def test_classes_that_lead_back_to_themselves_are_read_to_an_end(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "one_of_two.py").write_text("from two_of_two import Mine\n")
    (tmp_path / "two_of_two.py").write_text("from one_of_two import Mine\n")
    assert outdated("one_of_two:Mine") == []
    text = "from methods.api import Method\nclass Mine(Method): ...\nclass Mine(Mine):\n    prepare = None\n"
    (tmp_path / "mine_twice.py").write_text(text)
    assert outdated("mine_twice:Mine") == ["prepare -> requires"]


def test_a_class_without_the_base_and_without_old_words_is_told_so(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "bare.py").write_text("class Bare:\n    name = 'bare'\n")
    monkeypatch.setitem(methods.TABLE, "bare/bare", ("bare:Bare", "nothing"))
    with pytest.raises(
        InputError, match=r"bare/bare is not written for contract 2 .*; change: subclass methods\.api\.Method$"
    ):
        method_class("bare/bare")
    with pytest.raises(InputError, match=r"subclass methods\.api\.Method, prepare -> requires"):
        api.check_method(type("Bare", (), {"prepare": None}))


@pytest.mark.parametrize("name", methods.TABLE)
def test_what_is_shipped_is_of_today(name):
    module, _, kind = methods.reference(name).partition(":")
    assert issubclass(method_class(name), Method)
    assert outdated(f"{module}:{kind}") == []
    assert outdated("shrinkbert:TeacherLogits") == []


CONTRACT = {"methods/api.py"}
"""Defines what is declared: it alone may look for members by their names."""
OTHER_THINGS = {
    ("bench/analysis/gate.py", "getattr(old.sizes, name)"): "columns of a record",
    ("bench/analysis/gate.py", "getattr(new.sizes, name)"): "columns of a record",
    ("bench/cli/app.py", "getattr(error, 'format_message', None)"): "an error of the command line library",
    ("bench/measure/machine.py", "hasattr(os, 'sched_getaffinity')"): "a function that some systems lack",
    ("bench/measure/memory.py", "getattr(import_module(module), name)"): "a function by its name in a module",
    ("bench/plan/from_record.py", "getattr(Recipe, name)"): "defaults of a recipe",
    (
        "bench/plan/plugins.py",
        "getattr(importlib.import_module(module), attribute)",
    ): "a class by its name in a module",
    ("bench/record/recipe.py", "getattr(self, part.name)"): "fields of a recipe",
    ("bench/record/python_modules.py", "getattr(statement, part, [])"): "blocks of a syntax node",
    (
        "bench/run/executors.py",
        "getattr(multiprocessing.current_process(), '_inheriting', False)",
    ): "of the standard library",
    ("methods/truncation.py", "getattr(ours, table)"): "modules of transformers' BERT",
    ("methods/truncation.py", "getattr(theirs, table)"): "modules of transformers' BERT",
    ("methods/truncation.py", "getattr(source.attention.self, name)"): "modules of transformers' BERT",
    (
        "methods/families.py",
        "getattr(model, 'base_model_prefix', type(model).__name__)",
    ): "a plain class may be of no family",
    ("methods/families.py", "getattr(model, model.base_model_prefix)"): "the body of a transformers' model",
    ("methods/packed.py", "getattr(model, model.base_model_prefix)"): "the body of a transformers' model",
    ("methods/parts.py", "getattr(teacher, 'type_vocab_size', 2)"): "a configuration; DistilBERT's has none",
    ("methods/mobilebert.py", "getattr(teacher, 'type_vocab_size', 2)"): "a configuration; DistilBERT's has none",
}
"""Neither methods, artefacts, students nor models of ours: what it is."""


def looked_for_by_name(source: str) -> set[str]:
    calls = (node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call))
    return {ast.unparse(call) for call in calls if ast.unparse(call.func) in ("getattr", "hasattr")}


@pytest.mark.slow
def test_no_member_is_found_by_its_name():
    """A member that is found by hasattr has no default, no type and no page that names it."""
    found = {
        (str(file.relative_to(ROOT)), call)
        for folder in ("bench", "methods")
        for file in sorted((ROOT / folder).rglob("*.py"))
        for call in looked_for_by_name(file.read_text())
    }
    found = {(file, call) for file, call in found if file not in CONTRACT}
    assert found - OTHER_THINGS.keys() == set(), "declare the member in methods/ and ask for the attribute"
    assert OTHER_THINGS.keys() - found == set(), "these are gone: take their lines out of this test"


def test_a_planted_search_by_name_is_seen():
    assert looked_for_by_name("x = hasattr(model, 'observed') or getattr(method, 'padding', 0)") == {
        "hasattr(model, 'observed')",
        "getattr(method, 'padding', 0)",
    }
