"""`audit --results` compares a paper's numbers with the records: what is as measured, what was changed, what has no record."""

from __future__ import annotations

import json
from pathlib import Path

import factories
import pytest

from bench.analysis.check_paper import check_paper
from bench.audit.sheets import read_all
from bench.record.store import Store

ROOT = Path(__file__).parents[2]

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
def place(paper_store, tmp_path):
    file = tmp_path / "paper.tex"
    file.write_text(LATEX)
    return paper_store.root, file


def test_numbers_as_measured_changed_and_without_a_record(bench, place, tmp_path):
    root, file = place
    answer = bench(
        "audit", file, "--results", root, "--row", "Soft labels=kd", "--json", tmp_path / "p.json"
    )
    assert answer.returncode == 1
    assert bench("audit", file, "--row", "Soft labels=kd").returncode == 2, "without records"
    found = {
        (c["row"], c["column"]): (c["verdict"], c["measured"])
        for c in json.loads((tmp_path / "p.json").read_text())["compared"]
    }
    assert found["Soft labels", "RTE"] == ("as measured", "61.0")
    assert found["Soft labels", "MNLI-m"] == ("as measured", "75.0")
    assert found["microbert", "RTE"] == ("as measured", "65.0")
    assert found["microbert", "MNLI-m"] == ("differs", "78.0")
    assert found["Another", "RTE"] == ("no record", "")
    assert "3 as measured, 1 differs, 2 no record" in answer.stdout


def test_generated_sample_data_are_never_compared_with_a_paper_on_real_data(tmp_path):
    file = tmp_path / "paper.md"
    file.write_text("| System | RTE | SST-2 |\n|---|---|---|\n| kd | 60.0 | 99.0 |\n")
    store = Store(tmp_path / "r")
    store.write(factories.record("kd", score=0.60, data="sample-v2"))
    assert [c.verdict for c in check_paper(read_all([file]).sheets, tmp_path / "r")] == [
        "as measured",
        "no record",
    ]
    store.write(factories.record("kd", score=0.55, data="folder-glue"))
    assert next(
        (c.verdict, c.measured) for c in check_paper(read_all([file]).sheets, tmp_path / "r")
    ) == (
        "differs",
        "55.0",
    )


@pytest.mark.parametrize("column", ["RTE (Acc)", "RTE acc.", "RTE Accuracy"])
def test_a_metric_is_part_of_a_columns_name(tmp_path, column):
    store, file = Store(tmp_path / "r"), tmp_path / "paper.md"
    store.write(factories.record("kd", score=0.61))
    file.write_text(f"| System | {column} | RTE F1 |\n|---|---|---|\n| kd | 61.0 | 61.0 |\n")
    assert [c.verdict for c in check_paper(read_all([file]).sheets, tmp_path / "r")] == [
        "as measured",
        "no record",
    ]


def test_an_average_is_compared_with_a_mean_of_the_same_tasks_alone(tmp_path):
    store = Store(tmp_path / "r")
    for task, score in (("rte", 0.61), ("cola", 0.75)):
        store.write(factories.record("kd", task=task, score=score))
    file = tmp_path / "paper.md"
    file.write_text(
        "| System | RTE | CoLA | Avg |\n|---|---|---|---|\n| kd | 61.0 | 75.0 | 68.0 |\n"
    )
    assert [c.verdict for c in check_paper(read_all([file]).sheets, tmp_path / "r")] == [
        "as measured"
    ] * 3
    file.write_text(
        "| System | Layers | RTE | CoLA | Avg |\n|---|---|---|---|---|\n| kd | 4 | 61.0 | 75.0 | 68.0 |\n"
    )
    found = {c.column: c.verdict for c in check_paper(read_all([file]).sheets, tmp_path / "r")}
    assert (found["RTE"], found["CoLA"], found["Avg"]) == ("as measured",) * 3
    file.write_text("| System | RTE | Avg |\n|---|---|---|\n| kd | 61.0 | 68.0 |\n")
    assert [c.verdict for c in check_paper(read_all([file]).sheets, tmp_path / "r")] == [
        "as measured",
        "no record",
    ]


@pytest.mark.slow
def test_the_committed_report_of_the_main_table_agrees_with_its_records():
    """Its means leave out RTE, which the table has too."""
    (report,) = (ROOT / "reports" / "glue-20000-rows").glob("all-minilm-1t-common-3ep-*/README.md")
    compared = check_paper(read_all([report]).sheets, ROOT / "results" / "h200")
    assert [c for c in compared if c.verdict == "differs"] == []
    assert {c.row for c in compared if c.verdict == "as measured" and "mean of 4" in c.column} >= {
        "teacher",
        "kd (best of 6)",
    }


def test_differences_and_shares_are_no_scores(tmp_path):
    store, file = Store(tmp_path / "r"), tmp_path / "paper.md"
    for row, score in (("kd", 0.61), ("pkd", 0.63)):
        store.write(factories.record(row, score=score))
    for title, numbers in (
        ("Differences", ("+1.0", "-2.0")),
        ("Differences to KD", ("+0.0", "1.0")),
        ("Share of the teacher's score", ("97.1", "98.2")),
    ):
        rows = "".join(
            f"| {row} | {number} |\n" for row, number in zip(("kd", "pkd"), numbers, strict=True)
        )
        file.write_text(f"# {title}\n\n| System | RTE |\n|---|---|\n{rows}")
        assert "differs" not in {
            c.verdict for c in check_paper(read_all([file]).sheets, tmp_path / "r")
        }


def test_two_rows_whose_names_differ_in_punctuation_alone_are_not_confused(tmp_path):
    store, file = Store(tmp_path / "r"), tmp_path / "paper.md"
    for label, score in (("kd:temperature=1.5", 0.61), ("kd:temperature=15", 0.62), ("pkd", 0.63)):
        store.write(factories.record(label, score=score))
    rows = "| kd:temperature=1.5 | 61.0 | |\n| kd:temperature=15 | 62.0 | |\n| KD temperature 15 | 62.0 | |\n| PKD | 63.0 | |\n"
    file.write_text(f"| System | RTE | SST-2 |\n|---|---|---|\n{rows}")
    verdicts = [c.verdict for c in check_paper(read_all([file]).sheets, tmp_path / "r")]
    assert verdicts == ["as measured", "as measured", "no record", "as measured"], (
        "the third may be either of two"
    )
    named = check_paper(
        read_all([file]).sheets, tmp_path / "r", ["KD temperature 15=kd:temperature=15"]
    )
    assert [c.measured for c in named if c.row == "KD temperature 15"] == ["62.0"]


@pytest.mark.parametrize(
    ("before", "after", "rows", "code"),
    [
        ("78.1", "78.0", ["Soft labels=kd"], 0),
        ("microbert", "microbert", ["Soft labels"], 2),
        ("microbert", "microbert", ["Soft labels=kdd"], 2),
        ("microbert", "somebody", [], 2),
    ],
)
def test_a_paper_that_agrees_passes_and_one_of_other_rows_is_bad_input(
    bench, place, before, after, rows, code
):
    root, file = place
    file.write_text(LATEX.replace(before, after))
    answer = bench(
        "audit", file, "--results", root, *(word for row in rows for word in ("--row", row))
    )
    assert answer.returncode == code, answer.stderr
    if not rows and code:
        assert "nothing found; read" in answer.stdout, "what needs no records is said"


def test_several_files_are_compared_where_one_has_no_table_and_one_no_row_of_the_records(
    bench, place, tmp_path
):
    root, file = place
    text, other = tmp_path / "text.md", tmp_path / "other.tex"
    text.write_text("TinyBERT is 3x smaller.")
    other.write_text(LATEX.replace("microbert", "somebody"))
    answer = bench("audit", file, text, other, "--results", root, "--json", tmp_path / "p.json")
    assert answer.returncode == 1, answer.stderr
    verdicts = [c["verdict"] for c in json.loads((tmp_path / "p.json").read_text())["compared"]]
    assert sorted(set(verdicts)) == ["as measured", "differs", "no record"]
    assert verdicts.count("no record") == 10
    assert bench("audit", text, other, "--results", root).returncode == 2
    assert "no table of numbers" in bench("audit", text, "--results", root).stderr


def test_a_row_with_settings_can_be_named(bench, tmp_path):
    store = Store(tmp_path / "r")
    for label in ("teacher", "kd:alpha=1"):
        store.write(factories.record(label, score=0.61))
    (tmp_path / "paper.md").write_text(
        "| System | RTE | SST-2 |\n|---|---|---|\n| a=b | 61.0 | 1.0 |\n| c | 2.0 | 3.0 |\n"
    )
    answer = bench(
        "audit", tmp_path / "paper.md", "--results", tmp_path / "r", "--row", "a=b=kd:alpha=1"
    )
    assert "as measured" in answer.stdout, answer.stderr
    wrong = bench(
        "audit", tmp_path / "paper.md", "--results", tmp_path / "r", "--row", "a=kd:beta=1"
    )
    assert wrong.returncode == 2
    assert "kd:beta=1" in wrong.stderr
