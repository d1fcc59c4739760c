"""A class that is no method of this contract is told so."""

from __future__ import annotations

import sys
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
