"""The sheets of docs/choose.md are the files that `choose FILE` wrote, and nobody's typing."""

from __future__ import annotations

import csv
from importlib import import_module
from pathlib import Path

import pytest

DOCS = Path(__file__).resolve().parents[2] / "docs"
LINE = {
    "System": "teacher+int8",
    "what is done": "quantised",
    "macro F1": "81.2345",
    "macro F1 low": "78.1",
    "macro F1 high": "84.06",
    "acc": "90.1",
    "retention (%)": "99.8",
    "retention (%) low": "99.1",
    "retention (%) high": "100.3",
    "changed (%)": "0.1",
    "MB": "0.04321",
    "torch, 1 thread: p50 / p95 (ms) p50": "",
    "torch, 1 thread: p50 / p95 (ms) p95": "",
    "ONNX Runtime, 1 thread: p50 / p95 (ms) p50": "4.806",
    "ONNX Runtime, 1 thread: p50 / p95 (ms) p95": "5.9",
    "ONNX Runtime, 2 threads: p50 / p95 (ms) p50": "3.1",
    "F1 of spam|ham (12)": "71.25",
    "busy cores": "0.0100",
}


@pytest.fixture
def sheets(monkeypatch):
    monkeypatch.syspath_prepend(DOCS / "tools")
    return import_module("sheets").sheets


def write(folder, line, command="python -m bench choose mine.csv --quick"):
    folder.mkdir(parents=True)
    with (folder / "answer.csv").open("w", newline="", encoding="utf-8") as opened:
        table = csv.DictWriter(opened, line)
        table.writeheader()
        table.writerow(line)
    (folder / "command.txt").write_text(f"{command}\n")
    (folder / "answer.txt").write_text("Int8 keeps 99.8 %.\n")
    (folder / "machine.txt").write_text("Two cores of an AMD EPYC\n")


def test_a_sheet_has_its_command_its_machine_and_one_thread(sheets, tmp_path):
    write(tmp_path / "mine", LINE)
    text = sheets(tmp_path)
    head, command, answer, machine, table, of_classes, by_class = text.split("\n\n")
    assert of_classes.startswith("F1 of each class")
    assert head == "### mine"
    assert command == "    python -m bench choose mine.csv --quick"
    assert answer == "> Int8 keeps 99.8 %."
    assert machine == "Two cores of an AMD EPYC."
    titles, _, row = table.strip().splitlines()
    assert titles == "| row | macro F1 (95 % interval) | changed (%) | MB | ms |"
    assert row == "| `teacher+int8` | 81.2 (78.1 to 84.1) | 0.1 | 0.043 | 4.81 |"
    titles, _, row = by_class.strip().splitlines()
    assert titles == "| row | spam\\|ham (12) |"
    assert row == "| `teacher+int8` | 71.2 |"


def test_of_many_classes_f1_is_left_out_and_a_busy_machine_is_named(sheets, tmp_path):
    classes = {f"F1 of c{code} (9)": "50" for code in range(7)}
    write(tmp_path / "b", {**LINE, **classes, "busy cores": "1.31"})
    write(tmp_path / "a", LINE)
    text = sheets(tmp_path)
    assert text.index("### a") < text.index("### b")
    of_a, of_b = text.split("### b")
    assert "F1 of each class" in of_a
    assert "F1 of each class" not in of_b
    assert "Other processes used 1.3 cores" in of_b
    assert "Other processes" not in of_a


def test_without_sheets_there_is_none(sheets, tmp_path):
    assert sheets(tmp_path / "nowhere") == ""


def test_a_sheet_without_its_command_is_refused(sheets, tmp_path):
    write(tmp_path / "mine", LINE)
    (tmp_path / "mine" / "command.txt").unlink()
    with pytest.raises(FileNotFoundError, match=r"command\.txt"):
        sheets(tmp_path)
