"""Text of records, of files and of others reaches the terminal as words: no escape of theirs colours, moves or renames anything."""

from __future__ import annotations

import ast
import json
from pathlib import Path

import factories
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.record.store import Store
from bench.terminal import shown, shown_json

ROOT = Path(__file__).resolve().parents[2]
ESCAPES = "\x1b[31m\x1b]0;owned\x07\x9b2J\u202egnp\r"
PRINTING = {"bench/terminal.py", "bench/measure/memory.py"}
"""The door, and a program that only another process of ours reads."""


@given(st.text(max_size=60))
def test_what_is_shown_has_no_control_character(text):
    written = shown(text)
    assert all(character.isprintable() or character == "\n" for character in written)
    assert len(written) == len(text)
    for before, after in zip(text, written, strict=True):
        assert before == after or (after == " " and not before.isprintable())


@given(st.dictionaries(st.text(max_size=8), st.text(max_size=20), max_size=4))
def test_json_that_is_shown_says_the_same(body):
    for ascii_only in (True, False):
        written = shown_json(json.dumps(body, indent=1, ensure_ascii=ascii_only))
        assert json.loads(written) == body
        assert all(character.isprintable() or character == "\n" for character in written)


def test_nothing_prints_but_the_door():
    prints = []
    for file in sorted((ROOT / "bench").rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            is_call = isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
            if is_call and node.func.id == "print":
                prints.append(file.relative_to(ROOT).as_posix())
    assert set(prints) <= PRINTING


@pytest.fixture
def hostile_store(tmp_path: Path) -> Store:
    """Records whose every word that is no part of a key holds escapes."""
    store = Store(tmp_path / f"r{'x' * 3}")
    labels = np.arange(60) % 2
    for row, wrong in (("teacher", 2), ("kd", 8), ("finetune", 15)):
        for task in ("rte", "sst2"):
            record = factories.record(row, task, macs=10**9 if row == "teacher" else 10**8)
            label = "teacher" if row == "teacher" else row + ESCAPES
            data = record.cell.data.model_copy(update={"name": f"data{ESCAPES}"})
            teacher = record.cell.teacher.model_copy(update={"name": f"teacher{ESCAPES}"})
            cell = record.cell.model_copy(update={"label": label, "data": data, "teacher": teacher})
            record = record.model_copy(update={"cell": cell, "notes": (f"note{ESCAPES}",)})
            said = np.where(np.arange(60) < wrong, 1 - labels, labels)
            factories.write(store, record, said, labels)
    lost = factories.record("pkd", score=None, failed=f"lost{ESCAPES}")
    store.write(lost.model_copy(update={"notes": (ESCAPES,)}))
    return store


@pytest.mark.parametrize(
    "words",
    [
        ["choose"],
        ["choose", "--max-params", "0.001"],
        ["compare", f"kd{ESCAPES}", f"finetune{ESCAPES}"],
        ["compare", f"kd{ESCAPES}", "nobody"],
        ["show", "--trace", "86.7"],
        ["show", "--trace", "0.0"],
        ["report", "--reports", "{reports}"],
        ["show", "{key}"],
        ["show", f"{ESCAPES}"],
    ],
)
@pytest.mark.slow
def test_no_escape_of_a_record_reaches_the_terminal(bench, hostile_store, tmp_path, words):
    record = next(r for r in hostile_store.records() if r.cell.method == "kd")
    words = [word.replace("{reports}", str(tmp_path / "p")) for word in words]
    words = [word.replace("{key}", record.key[:12]) for word in words]
    answer = bench(*words, "--results", hostile_store.root)
    text = answer.stdout + answer.stderr
    assert text.strip()
    assert [c for c in text if not (c.isprintable() or c == "\n")] == []
    is_record = words[0] == "show" and "--trace" not in words
    if is_record and answer.returncode == 0:
        assert json.loads(answer.stdout)["cell"]["label"] == record.cell.label
