"""A table as LaTeX: what our own audit reads from it, what LaTeX makes of it, and what it takes along into a paper."""

from __future__ import annotations

import re
import shutil
import subprocess

import factories
import pytest

from bench.audit.sheets import from_text
from bench.record.store import Store
from bench.report.file_names import place_of
from bench.report.groups import groups
from bench.report.render import Paper, tex, to_latex, to_markdown
from bench.report.table import Column, Line, Table, TableCell
from bench.report.tables.accuracy import accuracy
from bench.report.tables.retention import reappearance
from bench.report.write import Options, paper_of, write_reports


@pytest.mark.parametrize("build", [accuracy, reappearance])
def test_our_audit_reads_the_same_cells_from_latex_as_from_markdown(build):
    (group,) = groups(factories.paper())
    table = build(group)
    assert table is not None
    latex = to_latex(table, table.title, paper_of(group, group.records, place_of(group)), "tab:x")
    numbers = [
        {
            (row.system.split(" [")[0], column): cell
            for sheet in sheets
            for row in sheet.rows
            for column, cell in (row.cells | row.sizes).items()
        }
        for sheets in (from_text(latex, "x.tex"), from_text(to_markdown(table), "x.md"))
    ]
    assert numbers[0] == numbers[1]
    assert len(numbers[0]) > 10


def test_footnotes_are_numbered_anew_and_each_stands_below():
    once, twice = "100 % of a & b", "twice"
    lines = (
        Line("a", (TableCell("1.0", footnotes=(twice,)),)),
        Line("b", (TableCell("-2.0 ± 0.1", footnotes=(twice, once), bold=True),)),
        Line("checkpoint:x[7]", (TableCell("–"),)),
        Line("x[0]", (TableCell("–"),)),
        Line("x[1]", (TableCell("–"),)),
    )
    frame = Table("T", (Column("System"), Column("rte")), lines)
    text = to_latex(frame, "T", Paper("made"), "tab:t")
    assert r"a & 1.0\textsuperscript{1} \\" in text
    assert r"b & \textbf{$-$2.0 $\pm$ 0.1\textsuperscript{1,2}} \\" in text
    for name in ("checkpoint:x[7]", "x[0]", "x[1]"):
        assert rf"{name} & -- \\" in text, "brackets of a row's name are no footnote"
    below = text.split(r"\bottomrule")[1]
    assert re.findall(r"\\textsuperscript\{(\d)\} (.*)\\par", below) == [("1", "twice"), ("2", r"100 \% of a \& b")]


@pytest.mark.parametrize(
    ("ours", "latex"),
    [
        ("a_b & 5 % of $3 #1 {x}", r"a\_b \& 5 \% of \$3 \#1 \{x\}"),
        (r"~^\ < > |", r"\textasciitilde{}\textasciicircum{}\textbackslash{} \textless{} \textgreater{} \textbar{}"),
        ("-3.1 (-0.5 to 2.0), 2021-03, best-on-dev", r"$-$3.1 ($-$0.5 to 2.0), 2021-03, best-on-dev"),
        ("`show KEY_1` is **said**", r"\texttt{show KEY\_1} is \textbf{said}"),
    ],
)
def test_what_latex_would_take_for_commands_is_escaped(ours, latex):
    assert tex(ours) == latex


@pytest.mark.slow
def test_sample_data_says_so_in_each_table_too(tmp_path):
    store = Store(tmp_path / "r")
    store.write(factories.record(data="sample-v1"))
    write_reports(store, tmp_path / "p", Options(latex=True))
    tables = list((tmp_path / "p").glob("*/*/tables/*.tex"))
    assert tables
    assert all("Generated sample data, not GLUE." in path.read_text() for path in tables)


def files_below(folder):
    """Name from the folder -> bytes."""
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


@pytest.mark.slow
def test_latex_is_written_where_it_is_asked_for_and_changes_nothing_else(paper_store, tmp_path, bench):
    write_reports(paper_store, tmp_path / "without")
    done = bench("report", "--results", paper_store.root, "--reports", tmp_path / "with", "--latex")
    assert done.returncode == 0, done.stderr
    before, after = (files_below(tmp_path / name) for name in ("without", "with"))
    assert {name: after[name] for name in before} == before
    more = set(after) - set(before)
    assert more == {re.sub(r"csv$", "tex", name) for name in before if name.endswith(".csv")} | {
        re.sub(r"svg$", "pdf", name) for name in before if name.endswith(".svg")
    }


def test_latex_compiles_what_we_write(paper_store, tmp_path):
    if shutil.which("pdflatex") is None:
        pytest.skip("needs pdflatex")
    folder = tmp_path / "paper"
    write_reports(paper_store, folder, Options(latex=True))
    tables, figures = (sorted(folder.glob(f"*/*/*/*.{end}")) for end in ("tex", "pdf"))
    inputs = [rf"\input{{{path.relative_to(folder)}}}\clearpage" for path in tables]
    inputs += [rf"\noindent\includegraphics[width=\linewidth]{{{path.relative_to(folder)}}}" for path in figures]
    head = r"\documentclass{article}\usepackage{booktabs,graphicx}\setlength{\textwidth}{14cm}\begin{document}"
    (folder / "paper.tex").write_text("\n".join([head, *inputs, r"\end{document}"]))
    done = subprocess.run(
        ["pdflatex", "-halt-on-error", "-interaction=nonstopmode", "paper.tex"],
        cwd=folder, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-2000:]
    assert "Overfull" not in done.stdout
