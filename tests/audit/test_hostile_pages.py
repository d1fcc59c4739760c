"""Pages of any size and content: ordinary ones in time that grows with their cells, others refused in one line."""

from __future__ import annotations

import json

import hostile_input
import numpy as np
import pytest

from bench.audit.checks import audit
from bench.audit.grid import LONGEST_CELL, line_of
from bench.audit.sheets import read_all
from bench.errors import InputError

TABLE = """
| System | MNLI-(m/mm) | SST-2 | Average |
|---|---|---|---|
| BERT-base | 84.6/83.4 | 93.5 | 87.2 |
| TinyBERT | 82.5/81.8 | 92.6 | 85.6 |
| MiniLM | 84.0/83.2 | 92.3 | 86.5 |
| PatientKD | 79.9/79.3 | 9e99 | – |
"""


def findings(tmp_path, text: str, name: str = "page.md"):
    file = tmp_path / name
    file.write_text(text)
    found = []
    # hostile_input gives it five seconds of the processor
    assert not hostile_input.refuses(lambda: found.extend(audit(read_all([file]).sheets)), name)
    return found


def rows_of_scores(rows: int, columns: int, name: str) -> str:
    """Scores with their average, percentages and differences: what the rules compare with each other."""
    rng = np.random.default_rng(0)
    head = ["S", *(f"{'Δ ' if place % 9 == 8 else ''}T{place}" for place in range(columns)), "Avg"]
    lines, percent = [head], r" \% of teacher" if name.endswith(".tex") else " % of teacher"
    for place in range(rows):
        scores = rng.uniform(40, 95, columns).round(1)
        label = f"s{place}{percent if place % 50 == 49 else ''}"
        lines.append([label, *map(str, scores), f"{scores.mean():.1f}"])
    if name.endswith(".tex"):
        return (
            r"\begin{tabular}{l}"
            + "".join(" & ".join(line) + r" \\" for line in lines)
            + r"\end{tabular}"
        )
    lines.insert(1, ["---"] * len(head))
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


@pytest.mark.parametrize(
    ("rows", "columns", "name"), [(200, 62, "page.md"), (2000, 2, "paper.tex")]
)
def test_an_ordinary_table_takes_seconds(tmp_path, rows, columns, name):
    findings(tmp_path, rows_of_scores(rows, columns, name), name)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("nested.html", "<table><tr><td>" * 3000 + "1.5" + "</table>" * 3000),
        ("open.html", "<table " * 30_000),
        ("begins.md", "\\begin{tabular}{lc}\n" * 9000),
        ("nested.tex", r"\begin{tabular}{lc} a & " * 2000 + r"1.5 \end{tabular}" * 2000),
        (
            "braces.tex",
            r"\begin{tabular}{lc} S & A \\ "
            + "{" * 30_000
            + "x"
            + "}" * 30_000
            + r" & 1.5 \end{tabular}",
        ),
        ("lines.md", "a|b\n-|-\n" * 9000),
        ("borders.rst", "+--+--+\n" * 9000),
        ("exponents.md", "| S | A | B |\n|-|-|-|\n| a | 1e9999999 | 2.5 |\n| b | 3.5 | 4.5 |"),
        ("brackets.md", "| a | " + "[" * 90_000 + " |\n|-|-|\n| b | 2.5 |\n"),
        ("blank.md", "\\begin{x}" + "\n" * 90_000),
        ("blank.tex", "\n" * 90_000),
        ("headings.md", "<h1>" * 10_000 + "<table><tr><td>a<td>1.5</table>"),
        ("dashes.md", "-" * 90_000 + "| S | A |\n|---|---|\n| a | 1.5 |\n"),
        ("dashes-and-pipes.md", "|-" * 45_000 + "| S | A |\n|---|---|\n| a | 1.5 |\n"),
        ("captions.tex", "\\caption[" * 4000 + "\\begin{tabular}{l} a & 1.5 \\end{tabular}" * 9),
        ("spans.html", "<table>" + "<tr><td colspan=500 rowspan=500>1.5" * 2000 + "</table>"),
        (
            "spans.tex",
            r"\begin{tabular}{l}" + r"\multicolumn{500}{c}{1} & " * 900 + r"\end{tabular}",
        ),
        ("rows.html", "<table><tr>" + "<td rowspan=500>1" * 2000 + "<tr><td>2" * 500 + "</table>"),
        ("tables.html", "<table><tr><td colspan=500 rowspan=150>1.5<tr><td></table>" * 2000),
        ("columns.rst", "= " * 20_000 + "\n" + "1 2\n" * 9000 + "= " * 20_000 + "\n"),
        ("commas.csv", "System" + "," * 300_000 + "\na,1.5\n"),
        (
            "tables.ipynb",
            json.dumps(
                {
                    "cells": [
                        {"cell_type": "markdown", "source": "<table><tr><td colspan=500>1</table>"}
                    ]
                    * 1000
                }
            ),
        ),
    ],
)
def test_what_never_closes_or_is_nested_without_end_ends_soon(tmp_path, name, text):
    """It has five seconds; whether a table is found in it does not matter."""
    (tmp_path / name).write_text(text)
    hostile_input.refuses(lambda: audit(read_all([tmp_path / name]).sheets), name, name)


def test_control_characters_of_a_file_do_not_reach_the_terminal(bench, tmp_path):
    escape = "\x1b[31m\x07\x9b2J"
    (tmp_path / "page.md").write_text(
        f"## Title{escape}\n{TABLE.replace('TinyBERT', f'Tiny{escape}BERT').replace('85.6', '75.6')}"
        f"\n| {escape} | 1.5{escape} | 2.5 |\n"
    )
    answer = bench("audit", tmp_path / "page.md", "--unread")
    assert answer.returncode == 1
    assert answer.stdout.replace("\n", "").isprintable()


@pytest.mark.parametrize(
    "escape",
    ["\x1b[31m\x07", "\x1b]0;title\x07", "\x9b2J\x85", "\u202e\u2028", "\x0b\x0c\x1c"],
)
@pytest.mark.parametrize("kind", [".csv", ".tsv", ".tex", ".html", ".rst", ".txt", ".ipynb"])
def test_no_container_brings_a_control_character_to_the_terminal(bench, tmp_path, kind, escape):
    """In a title, a system, a column, a cell, the file's own name, and where there is no table."""
    table = [
        ["System", f"MN{escape}LI", "SST-2", "RTE", "Average"],
        [f"BE{escape}RT", "84.6", "93.5", "66.4", "81.5"],
        [f"Tiny{escape}", "82.5", "92.6", "62.9", "75.3"],
        ["MiniLM", "84.0", "92.3", "71.2", "82.5"],
    ]
    text = written_as(kind, table, f"Title{escape}")
    file = tmp_path / f"pa{escape}ge{kind}"
    file.write_text(text, encoding="utf-8")
    (tmp_path / f"no{escape}ne{kind}").write_text(f"no table {escape}", encoding="utf-8")
    for words in ([file], [file, "--unread"], [tmp_path / f"no{escape}ne{kind}"]):
        answer = bench("audit", *words)
        assert (answer.stdout + answer.stderr).replace("\n", "").isprintable()
    assert bench("audit", file).returncode == 1


def written_as(kind: str, table: list[list[str]], title: str) -> str:
    """A table in a file of this kind."""
    if kind in (".csv", ".tsv"):
        return "\n".join({".csv": ",", ".tsv": "\t"}[kind].join(row) for row in table)
    if kind == ".tex":
        rows = "".join(" & ".join(row) + r" \\ " for row in table)
        return rf"\begin{{table}}\caption{{{title}}}\begin{{tabular}}{{l}}{rows}\end{{tabular}}\end{{table}}"
    if kind == ".html":
        rows = "".join(f"<tr><td>{'<td>'.join(row)}</tr>" for row in table)
        return f"<h1>{title}</h1><table>{rows}</table>"
    pipes = [f"| {' | '.join(row)} |" for row in table]
    pipes.insert(1, "|---" * len(table[0]) + "|")
    page = "\n".join([f"# {title}", "", *pipes, ""])
    cells = [{"cell_type": "markdown", "source": page}]
    return json.dumps({"cells": cells}) if kind == ".ipynb" else page


def test_a_long_name_of_a_column_is_read_at_once(tmp_path):
    findings(tmp_path, TABLE.replace("MNLI-(m/mm)", "x" * 200_000))
    assert len(line_of(["x" * 200_000]).cells[0].text) == LONGEST_CELL


def test_a_field_that_no_reader_takes_is_one_line(tmp_path):
    file = tmp_path / "grid.csv"
    file.write_text(f"System,SST-2\nBERT,{'9' * 200_000}\n")
    with pytest.raises(InputError, match="not comma-separated values"):
        read_all([file])


@pytest.mark.parametrize("text", ['{"cells": ' + "[" * 100_000, "{", "[1]", '{"cells": 3}'])
def test_a_notebook_that_is_none_is_bad_input(tmp_path, text):
    (tmp_path / "run.ipynb").write_text(text)
    with pytest.raises(InputError, match="not a Jupyter notebook"):
        read_all([tmp_path / "run.ipynb"])


def test_a_cell_of_a_notebook_without_a_source(tmp_path):
    cells = [{"cell_type": "markdown"}, {"cell_type": "markdown", "source": [TABLE]}]
    findings(tmp_path, json.dumps({"cells": cells}), "run.ipynb")


@pytest.mark.parametrize("name", ["page.html", "page.md"])
def test_a_cell_that_spans_too_much_is_one_line(tmp_path, name):
    rows = "<tr><td colspan=100000 rowspan=1048576>1.5" * 300
    (tmp_path / name).write_text(f"<table>{rows}</table>")
    with pytest.raises(InputError, match="span more than 100,000 places"):
        read_all([tmp_path / name])


def test_a_wide_span_above_a_table_changes_nothing(tmp_path):
    """Pages are written with any number where all columns are meant."""
    (tmp_path / "page.html").write_text(
        "<table><tr><th colspan=100000>Scores</tr><tr><th>S<th>A</tr><tr><td>a<td>1.5</tr></table>"
    )
    (sheet,) = read_all([tmp_path / "page.html"]).sheets
    (row,) = sheet.rows
    assert row.system == "a"
    assert [number.text for number in row.cells.values()] == ["1.5"]


def test_files_that_input_each_other_many_times_are_read_within_a_bound(tmp_path, bench):
    """Three floors of 300 would be 27 million tables."""
    (tmp_path / "c.tex").write_text(r"\begin{tabular}{lc} S & A \\ a & 1.5 \\ \end{tabular}")
    (tmp_path / "b.tex").write_text(r"\input{c}" * 300)
    (tmp_path / "a.tex").write_text(r"\input{b}" * 300)
    (tmp_path / "main.tex").write_text(r"\input{a}" * 300)
    answer = bench("audit", tmp_path / "main.tex")
    assert answer.returncode == 2
    assert "more than 5,000,000 bytes together" in answer.stderr


def test_a_name_that_no_file_can_have_stays_a_command(tmp_path):
    (tmp_path / "loop.tex").symlink_to(tmp_path / "loop.tex")
    table = r"\begin{tabular}{lc} S & A \\ a & 1.5 \\ \end{tabular}"
    names = ["x" * 5000, "a\0b", "loop", "../outside", "/dev/stdin", "."]
    commands = "".join(rf"\input{{{name}}}" for name in names)
    (tmp_path / "main.tex").write_text(commands + table)
    assert read_all([tmp_path / "main.tex"]).reading == "read 1 of 1 numbers in 1 table"
