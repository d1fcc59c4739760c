"""A table as LaTeX: what our own audit reads from it, what LaTeX makes of it, and what it takes along into a paper."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import factories
import pytest
from audit_containers import from_text

from bench.record.store import Store
from bench.report.file_names import place_of
from bench.report.groups import groups
from bench.report.render import Paper, plain, tex, to_latex, to_markdown
from bench.report.table import Column, Line, Table, TableCell
from bench.report.tables.accuracy import accuracy
from bench.report.tables.cost import sizes_of
from bench.report.write import paper_of, write_reports

MAIN_TABLE = Path(__file__).resolve().parents[2] / "results/h200"


def test_our_audit_reads_the_same_numbers_from_latex_as_from_markdown():
    (group,) = groups(factories.paper())
    table = accuracy(group)
    latex = to_latex(table, paper_of(group, group.records, place_of(group)), "x")

    def numbers(sheets):
        rows = {row.system.split(" [")[0]: row for sheet in sheets for row in sheet.rows}
        return {
            s: sorted(c.value for c in (*row.cells.values(), *row.sizes.values()))
            for s, row in rows.items()
        }

    from_latex, from_markdown = (
        numbers(from_text(latex, "x.tex")),
        numbers(from_text(to_markdown(table), "x.md")),
    )
    assert {system: from_latex.get(system) for system in from_markdown} == from_markdown
    assert sum(map(len, from_markdown.values())) > 10


def test_cells_have_numbers_and_signs_and_no_words():
    remark = "mrpc, no better than always predicting yes (F1 81.2): a, seeds 0 and 1 (80.1, 79.9); b, seed 0 (81.0)"
    better = TableCell("+6.8 (+0.4 to +13.3) better", 6.8, 0.4, 13.3, p=0.01, verdict="better")
    worse = TableCell("-2.0 (-3.0 to -1.0) worse", -2.0, -3.0, -1.0, p=0.01, verdict="worse")
    spread = TableCell("81.2 ± 0.4", 81.2, deviation=0.4, bold=True, footnotes=(remark,))
    lines = [
        Line("a", [TableCell("finetune"), TableCell("2", 2.0), better, spread]),
        Line("x[0]", [TableCell("finetune"), TableCell("2", 2.0), worse, TableCell("–")]),
    ]
    columns = [Column("System"), Column("compared with", words=True), Column("tests", digits=0)]
    columns += [Column("cola (Matthews)"), Column("mrpc (F1)")]
    text = to_latex(Table("T", columns, lines), Paper("made"), "t")
    assert (
        r"a & +6.8{\scriptsize \,[0.4, 13.3]}\textsuperscript{$*$} & \textbf{81.2}{\scriptsize $\pm$0.4}\textsuperscript{a} \\"
        in text
    )
    assert (
        r"x[0] & $-$2.0{\scriptsize \,[$-$3.0, $-$1.0]}\textsuperscript{$\dagger$} & -- \\" in text
    )
    assert r"System & CoLA & MRPC \\" in text, "one word said of all rows is in no column"
    printed = re.sub(r"(?m)^%.*\n", "", text)
    assert "Compared with: finetune. Tests: 2." in printed
    assert r"worse ($p<0.05$, one test a row, not adjusted)." in printed
    assert r"\textsuperscript{a}\,MRPC, no better than always predicting yes (F1 81.2)." in printed
    assert "seeds 0 and 1" in text
    assert "seeds 0 and 1" not in printed


def test_stars_of_several_columns_are_adjusted_and_that_of_the_mean_is_not():
    cells = [
        TableCell(
            "+1.0 (+0.5 to +1.5) better", 1.0, 0.5, 1.5, p=0.01, alone=0.005, verdict="better"
        )
    ] * 3
    columns = map(Column, ("System", "cola (Matthews)", "mrpc (F1)", "mean of 2 differences"))
    text = to_latex(Table("T", list(columns), [Line("a", cells)]), Paper("made"), "t")
    assert "($p<0.05$, Holm over the columns of a row; its mean is one test, not adjusted)." in text


def test_a_tested_number_keeps_its_interval_and_the_margin_is_named():
    """Six columns with intervals are wider than a page: they go into two blocks."""
    cells = [TableCell("98.5 % (97.2 to 99.8) keeps", 98.5, 97.2, 99.8, verdict="keeps")] * 5
    cells.append(TableCell("14.35 to 22.71", None, 14.35, 22.71))
    columns = [
        Column("System"),
        *(Column(f"column{i} (accuracy)") for i in range(5)),
        Column("Params (M)"),
    ]
    table = Table("T", columns, [Line("a row of a long name with settings", cells)], margin=0.97)
    text = to_latex(table, Paper("made"), "t")
    assert text.count(r"98.5{\scriptsize \,[97.2, 99.8]}") == 5
    assert text.count(r"\begin{tabular}") == 2
    assert "14.35 to 22.71" in text
    assert r"loses its teacher's score (non-inferiority, margin 97\,\%)" in text


def test_the_ends_of_a_size_are_no_interval():
    table = Table(
        "T",
        [Column("System"), Column("Params (M)")],
        [Line("a", [TableCell("14.35", 14.35, 14.35, 14.35)])],
    )
    text = to_latex(table, Paper("made"), "t")
    assert r"a & 14.35 \\" in text
    assert "interval" not in text


def test_a_table_is_split_only_where_it_is_longer_than_a_page_and_each_part_has_its_notes():
    def table(rows, across):
        notes = [f"note of row {i}" for i in range(rows)]
        lines = [
            Line(
                f"row {i}",
                [
                    TableCell(
                        "81.2 ± 0.4", 81.2, deviation=0.4, footnotes=(note,) if i % 2 == 0 else ()
                    )
                ]
                * across,
            )
            for i, note in enumerate(notes)
        ]
        return Table(
            "T",
            [Column("System"), *(Column(f"column{i} (accuracy)") for i in range(across))],
            lines,
        )

    whole = to_latex(table(16, 12), Paper("made"), "t")
    assert (whole.count(r"\begin{table*}"), whole.count(r"\begin{tabular}")) == (1, 2), (
        "16 rows in two blocks fit on a page"
    )
    first, second = to_latex(table(50, 3), Paper("made"), "t").split(r"\end{table")[:2]
    assert [
        part.count("row ") - part.count("of row ") for part in (first.split("centering")[1], second)
    ] == [25, 25]
    for part, others in (
        (first.split("centering")[1], second),
        (second, first.split("centering")[1]),
    ):
        printed = set(re.findall(r"textsuperscript\{(\w)\}\\,", part))
        assert printed == set(re.findall(r"textsuperscript\{(\w)\} (?:&|\\\\)", part)) != set()
        assert not printed & set(re.findall(r"textsuperscript\{(\w)\}\\,", others))


def width_in_times(cell, size):
    """Points of a cell as LaTeX prints it in Times, the type of NeurIPS and ACL."""
    small = r"\{\\scriptsize (.*?)\}|\\textsuperscript\{(.*?)\}"
    normal, raised = re.sub(small, "", cell), "".join(a + b for a, b in re.findall(small, cell))
    return sum(
        points * sum(TIMES.get(c, 0.5) for c in plain(text))
        for text, points in ((normal, size), (raised, 7))
    )


TIMES = (
    dict.fromkeys("ijlt.,:;'|/", 0.278)
    | dict.fromkeys("mwMW×±+=", 0.75)
    | dict.fromkeys(" []()-", 0.3)
)
"""The width of characters of Times, in its size, rounded up; a digit and most letters have a half."""
TIMES |= dict.fromkeys("ABCDEFGHKLNOPQRSTUVXYZ", 0.72)


def test_committed_tables_fit_in_the_columns_of_papers():
    (group,) = [
        g for g in groups(Store(MAIN_TABLE).records()) if g.cell.data.max_train_rows == 20_000
    ]
    paper = paper_of(group, group.records, place_of(group))
    for table in (accuracy(group), sizes_of(group)):
        text = to_latex(table, paper, "x")
        size = {"small": 9, "footnotesize": 8, "scriptsize": 7}[
            re.search(r"\\centering\n\\(\w+)", text)[1]
        ]
        space = float(re.search(r"tabcolsep\}\{([\d.]+)pt", text)[1])
        for tabular in re.findall(r"\\begin\{tabular\}(.*?)\\end", text, re.DOTALL):
            rows = [
                row.removesuffix(r" \\").split(" & ")
                for row in tabular.splitlines()
                if row.endswith(r" \\")
            ]
            widths = [
                max(width_in_times(cell, size) for cell in column)
                for column in zip(*rows, strict=True)
            ]
            assert sum(widths) + 2 * space * (len(widths) - 1) <= (
                219 if r"\begin{table}" in text else 397
            )


@pytest.mark.parametrize(
    ("ours", "latex"),
    [
        ("a_b & 5 % of $3 #1 {x}", r"a\_b \& 5 \% of \$3 \#1 \{x\}"),
        (
            r"~^\ < > |",
            r"\textasciitilde{}\textasciicircum{}\textbackslash{} \textless{} \textgreater{} \textbar{}",
        ),
        (
            "-3.1 (-0.5 to 2.0), 2021-03, best-on-dev",
            r"$-$3.1 ($-$0.5 to 2.0), 2021-03, best-on-dev",
        ),
        ("`show KEY_1` is **said**", r"\texttt{show KEY\_1} is \textbf{said}"),
    ],
)
def test_what_latex_would_take_for_commands_is_escaped(ours, latex):
    assert tex(ours) == latex


def test_latex_compiles_what_we_write(paper_store, tmp_path):
    if shutil.which("pdflatex") is None:
        pytest.skip("needs pdflatex")
    folder = tmp_path / "paper"
    write_reports(paper_store, folder, latex=True)
    tables, figures = (sorted(folder.glob(f"*/*/*/*.{end}")) for end in ("tex", "pdf"))
    inputs = [rf"\input{{{path.relative_to(folder)}}}\clearpage" for path in tables]
    inputs += [
        rf"\noindent\includegraphics[width=\linewidth]{{{path.relative_to(folder)}}}"
        for path in figures
    ]
    head = r"\documentclass{article}\usepackage{times,booktabs,graphicx}\setlength{\textwidth}{5.5in}\begin{document}"
    (folder / "paper.tex").write_text("\n".join([head, *inputs, r"\end{document}"]))
    done = subprocess.run(
        ["pdflatex", "-halt-on-error", "-interaction=nonstopmode", "paper.tex"],
        cwd=folder, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-2000:]
    assert "Overfull" not in done.stdout
