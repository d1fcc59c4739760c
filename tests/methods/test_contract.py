"""The contract of methods has no half that is found by name."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest

import methods
from bench import api
from bench.errors import InputError
from bench.plan.plugins import method_class
from methods.api import Method, PackedModel, RoutedModule, Setup, Stage, Student, Term
from methods.artefacts import Artefact

ROOT = Path(__file__).parents[2]


def test_a_class_without_the_base_is_told_so(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "bare.py").write_text("class Bare:\n    name = 'bare'\n")
    monkeypatch.setitem(methods.TABLE, "bare/bare", ("bare:Bare", "nothing"))
    with pytest.raises(InputError, match=r"bare/bare .*subclass methods\.api\.Method"):
        method_class("bare/bare")
    with pytest.raises(InputError, match=r"subclass methods\.api\.Method"):
        api.check_method(type("Bare", (), {}))


@pytest.mark.parametrize(
    "older",
    ["from methods.parts import OwnShape", "import methods.artefacts.protocol", "from methods.packed import forward"],
)
def test_a_package_of_an_older_contract_is_told_so_in_one_line(tmp_path, monkeypatch, older):
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "older.py").write_text(f"{older}\n")
    monkeypatch.delitem(sys.modules, "older", raising=False)
    with pytest.raises(InputError, match=rf"^[^\n]*contract {methods.CONTRACT}[^\n]*$"):
        method_class("older:Mine")


MEMBERS = {
    name
    for kind in (Method, Stage, Term, Setup, Student, Artefact, PackedModel, RoutedModule)
    for name in {*vars(kind), *vars(kind).get("__annotations__", {})}
    if not name.startswith("_")
}


def looked_for_by_name(source: str) -> set[str]:
    """Calls that look for a member of the contract by its name: such a member would have no default, type or page."""
    calls = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call) and len(node.args) > 1]
    named = {ast.unparse(call): call.args[1] for call in calls if ast.unparse(call.func) in ("getattr", "hasattr")}
    return {text for text, name in named.items() if isinstance(name, ast.Constant) and name.value in MEMBERS}


def test_no_member_is_found_by_its_name():
    files = [file for folder in ("bench", "methods") for file in (ROOT / folder).rglob("*.py")]
    assert not {(str(file), call) for file in files for call in looked_for_by_name(file.read_text())}


def test_a_planted_search_by_name_is_seen():
    assert looked_for_by_name(
        "x = hasattr(model, 'observed') or getattr(stage, 'padding', 0) or getattr(os, 'environ')"
    ) == {"hasattr(model, 'observed')", "getattr(stage, 'padding', 0)"}
