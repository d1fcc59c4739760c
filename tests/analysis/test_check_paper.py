"""A paper's numbers beside the records: what is as measured, what was changed, what has no record."""

from __future__ import annotations

import json

import factories
import pytest

from bench.record.store import Store

LATEX = r"""
\begin{table}\caption{Results}
\begin{tabular}{lcc}
\toprule
System & RTE & MNLI-m \\ \midrule
Soft labels & 61.0 & 75.0 \\
microbert & 65.0 & \textbf{78.1} \\
Another & 50.0 & 50.0 \\
\bottomrule
\end{tabular}\end{table}
"""


@pytest.fixture
def place(tmp_path):
    store = Store(tmp_path / "r")
    for record in factories.paper():
        store.write(record)
    file = tmp_path / "paper.tex"
    file.write_text(LATEX)
    return tmp_path / "r", file


def test_numbers_as_measured_changed_and_without_a_record(bench, place, tmp_path):
    root, file = place
    answer = bench("check-paper", file, "--results", root, "--row", "Soft labels=kd", "--json", tmp_path / "p.json")
    assert answer.returncode == 1
    found = {
        (c["row"], c["column"]): (c["verdict"], c["measured"]) for c in json.loads((tmp_path / "p.json").read_text())
    }
    assert found["Soft labels", "RTE"] == ("as measured", "61.0")
    assert found["Soft labels", "MNLI-m"] == ("as measured", "75.0")
    assert found["microbert", "RTE"] == ("as measured", "65.0")
    assert found["microbert", "MNLI-m"] == ("differs", "78.0")
    assert found["Another", "RTE"] == ("no record", "")
    assert "3 as measured, 1 differs, 2 no record" in answer.stdout


def test_a_paper_that_agrees_is_exit_code_zero(bench, place):
    root, file = place
    file.write_text(LATEX.replace("78.1", "78.0"))
    assert bench("check-paper", file, "--results", root, "--row", "Soft labels=kd").returncode == 0


@pytest.mark.parametrize("row", ["Soft labels", "Soft labels=kdd"])
def test_a_mapping_to_nothing_is_bad_input(bench, place, row):
    root, file = place
    answer = bench("check-paper", file, "--results", root, "--row", row)
    assert answer.returncode == 2
    assert "a row of the records" in answer.stderr or "no record of the row 'kdd'" in answer.stderr


def test_a_paper_of_other_rows_is_bad_input(bench, place):
    root, file = place
    file.write_text(LATEX.replace("microbert", "somebody"))
    assert bench("check-paper", file, "--results", root).returncode == 2


def test_a_row_with_settings_can_be_named(bench, tmp_path):
    store = Store(tmp_path / "r")
    for label in ("teacher", "kd:alpha=1"):
        store.write(factories.record(label, score=0.61))
    (tmp_path / "paper.md").write_text(
        "| System | RTE | SST-2 |\n|---|---|---|\n| a=b | 61.0 | 1.0 |\n| c | 2.0 | 3.0 |\n"
    )
    answer = bench("check-paper", tmp_path / "paper.md", "--results", tmp_path / "r", "--row", "a=b=kd:alpha=1")
    assert "as measured" in answer.stdout, answer.stderr
    wrong = bench("check-paper", tmp_path / "paper.md", "--results", tmp_path / "r", "--row", "a=kd:beta=1")
    assert wrong.returncode == 2
    assert "kd:beta=1" in wrong.stderr
