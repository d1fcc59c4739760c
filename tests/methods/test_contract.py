"""The contract of methods has no half that is found by name."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import methods
from bench import api
from bench.errors import InputError
from bench.plan.plugins import method_class

ROOT = Path(__file__).parents[2]


def test_a_class_without_the_base_is_told_so(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "bare.py").write_text("class Bare:\n    name = 'bare'\n")
    monkeypatch.setitem(methods.TABLE, "bare/bare", ("bare:Bare", "nothing"))
    with pytest.raises(InputError, match=r"bare/bare .*subclass methods\.api\.Method"):
        method_class("bare/bare")
    with pytest.raises(InputError, match=r"subclass methods\.api\.Method"):
        api.check_method(type("Bare", (), {}))


CONTRACT = {"methods/api.py"}
"""Defines what is declared: it alone may look for members by their names."""
OTHER_THINGS = {
    ("bench/analysis/gate.py", "getattr(old.sizes, name)"): "columns of a record",
    ("bench/analysis/gate.py", "getattr(new.sizes, name)"): "columns of a record",
    ("bench/cli/app.py", "getattr(error, 'format_message', None)"): "an error of the command line library",
    ("bench/measure/machine.py", "hasattr(os, 'sched_getaffinity')"): "a function that some systems lack",
    ("bench/measure/memory.py", "getattr(import_module(module), name)"): "a function by its name in a module",
    ("bench/plan/from_record.py", "getattr(Recipe, name)"): "defaults of a recipe",
    ("methods/__init__.py", "getattr(import_module(module), attribute)"): "a class by its name in a module",
    ("bench/record/recipe.py", "getattr(self, part.name)"): "fields of a recipe",
    (
        "bench/run/executors.py",
        "getattr(multiprocessing.current_process(), '_inheriting', False)",
    ): "of the standard library",
    ("methods/truncation.py", "getattr(source.attention.self, name)"): "modules of transformers' BERT",
    (
        "methods/families.py",
        "getattr(model, 'base_model_prefix', type(model).__name__)",
    ): "a plain class may be of no family",
    ("bench/workflows/why.py", "getattr(asked, name)"): "fields of a request",
    ("methods/models.py", "getattr(model, model.base_model_prefix)"): "the body of a transformers' model",
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
