"""A table for a paper: it is one block that fits, our audit reads it back, and LaTeX compiles it."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import factories
import numpy as np
import pytest
from audit_containers import from_text
from studied import studied

from bench.audit.checks import audit
from bench.record.cell import Search, Trial
from bench.record.store import Store
from bench.report.latex import (
    LatexCell,
    LatexColumn,
    LatexTable,
    fitting,
    tex,
    to_latex,
)
from bench.report.study import Study
from bench.report.tables.accuracy import ACCURACY
from bench.report.tables.differences import VARIANTS
from bench.report.tables.for_paper import Paper, paper_tables
from bench.report.tables.registry import tables_of
from bench.report.tables.retention import KEPT_OF_THE_TEACHER
from bench.report.write import write_reports

PDFLATEX = shutil.which("pdflatex")
needs_pdflatex = pytest.mark.skipif(PDFLATEX is None, reason="needs pdflatex")
PAPERS = {
    "NeurIPS": (
        r"\documentclass{article}",
        r"\setlength{\textwidth}{5.5in}\setlength{\textheight}{9in}",
    ),
    "ACL": (
        r"\documentclass[11pt,twocolumn]{article}",
        r"\setlength{\textwidth}{16cm}\setlength{\textheight}{24.7cm}\setlength{\columnsep}{0.6cm}",
    ),
}
"""The class and the sizes of text of two styles; both print in Times."""


TASKS = [
    ("CoLA", "Mcc"),
    ("SST-2", "Acc."),
    ("MRPC", "F1"),
    ("STS-B", "Spearman"),
    ("RTE", "Acc."),
    ("QQP", "F1"),
    ("MNLI-m", "Acc."),
    ("MNLI-mm", "Acc."),
    ("QNLI", "Acc."),
    ("WNLI", "Acc."),
]
"""All columns of GLUE."""


def table_of(rows: int, tasks: int, name: str = "method", small: str = "±1.2") -> LatexTable:
    """A table of a paper: scores with deviations, an average, the size and the speed-up."""
    columns = [LatexColumn("System", is_left=True)]
    columns += [LatexColumn(*TASKS[number % len(TASKS)]) for number in range(tasks)]
    columns += [LatexColumn("Avg.", "of 4"), LatexColumn("Params", "M"), LatexColumn("Speed-up")]
    scores = [LatexCell("86.2", small, [r"$\dagger$"], bold=True) for _ in range(tasks)]
    rest = [LatexCell("85.1", marks=["$*$"]), LatexCell("109.5"), LatexCell("12.06×")]
    block = [[LatexCell(f"{name} {row}"), *scores, *rest] for row in range(rows)]
    return LatexTable(columns, [block], "Results.", "results")


def widths_in(latex: str, style: str, folder: Path) -> list[float]:
    """Points of each ``tabular`` of a table as LaTeX prints it."""
    head, sizes = PAPERS[style]
    # the width of a box is that of the table
    boxed = latex.replace(r"\begin{tabular}", r"\sbox0{\begin{tabular}")
    boxed = boxed.replace(r"\end{tabular}", r"\end{tabular}}\typeout{wide \the\wd0}")
    text = [head, r"\usepackage{times,booktabs}", sizes, r"\begin{document}", boxed]
    printed = compiled("\n".join([*text, r"\end{document}"]), folder)
    return [float(points) for points in re.findall(r"^wide ([\d.]+)pt", printed, re.MULTILINE)]


def compiled(text: str, folder: Path) -> str:
    """What pdflatex prints of a document that it compiles."""
    (folder / "paper.tex").write_text(text)
    done = subprocess.run(
        [str(PDFLATEX), "-halt-on-error", "-interaction=nonstopmode", "paper.tex"],
        cwd=folder, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-2000:]
    return done.stdout


@needs_pdflatex
@pytest.mark.parametrize("style", PAPERS)
@pytest.mark.parametrize(
    "shape", [(15, 4, "distilbert"), (15, 5, "a name of this length"), (3, 10, "x")]
)
def test_a_table_fits_in_the_text_of_papers(shape, style, tmp_path):
    latex = to_latex(table_of(*shape))
    (width,) = widths_in(latex, style, tmp_path)
    assert width <= {"NeurIPS": 397.5, "ACL": 455.2}[style]


@needs_pdflatex
@pytest.mark.parametrize("small", ["", "±1.2"])
def test_the_estimate_of_a_width_is_no_less_than_it_and_near(small, tmp_path):
    for tasks in (1, 3, 5):
        table = table_of(2, tasks, small=small)
        (width,) = widths_in(to_latex(table), "NeurIPS", tmp_path)
        assert 0.85 * fitting(table).width < width <= fitting(table).width


def test_a_main_table_of_fifteen_rows_is_one_block():
    latex = to_latex(table_of(15, 4))
    assert latex.count(r"\begin{tabular}") == latex.count(r"\begin{table*}[t]") == 1
    assert latex.count(r"{\scriptsize $\pm$1.2}") == 15 * 4, "deviations stay"
    assert r"\scriptsize\setlength" not in latex, "the type is no smaller than \\footnotesize"


def test_a_table_that_fits_in_a_column_of_acl_is_in_one():
    assert r"\begin{table}[t]" in to_latex(table_of(3, 1, "kd", small=""))
    assert r"\begin{table*}[t]" in to_latex(table_of(3, 3, "kd", small=""))


def test_what_is_too_wide_loses_its_small_type_first_and_says_so():
    whole = to_latex(table_of(5, 5))
    assert "is in the CSV file" not in whole
    wide = to_latex(table_of(5, 10))
    assert "pm" not in wide
    assert r"\rlap{\textsuperscript{$*$}}" in wide, "signs stay"
    assert "% what does not fit in small type is in the CSV file" in wide
    assert "leave out columns" not in wide
    widest = to_latex(table_of(5, 30))
    assert re.search(r"^% about \d+ pt wide: leave out columns$", widest, re.MULTILINE)


def test_an_interval_of_the_mean_is_the_last_to_go():
    interval = LatexCell("98.1", " [97.0, 99.2]")
    columns = [LatexColumn("System", is_left=True), *[LatexColumn("STS-B")] * 6]
    columns.append(LatexColumn("Mean", keeps_small=True))
    latex = to_latex(LatexTable(columns, [[[LatexCell("kd"), *[interval] * 7]]], "R.", "r"))
    assert latex.count(r"{\scriptsize\, [97.0, 99.2]}") == 1


def test_a_long_table_goes_over_pages_and_repeats_its_head():
    latex = to_latex(table_of(60, 4))
    assert latex.count(r"\begin{longtable}") == 1
    assert r"\begin{table" not in latex
    assert r"\endfirsthead" in latex
    assert latex.count("System & ") == 2
    assert r"% needs \usepackage{longtable}" in latex


def test_a_long_name_is_broken_into_lines_and_not_stretched():
    latex = to_latex(table_of(3, 5, "a row with a long name that nobody can shorten any more"))
    assert re.search(r"begin\{tabular\}\{@\{\}p\{[\d.]+em\}r", latex)
    assert r"\raggedright a row" in latex
    settings = to_latex(table_of(3, 5, "finetune:hidden=256:heads=4:layers=2:start=random:a=1"))
    assert r"heads=4:\hspace{0pt}layers=2" in settings


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
        ("82.1±0.4, 2.1×", r"82.1$\pm$0.4, 2.1$\times$"),
    ],
)
def test_what_latex_would_take_for_commands_is_escaped(ours, latex):
    assert tex(ours) == latex


# --- the tables of a report


def made(store: Store) -> Study:
    """The study of a store."""
    return studied(store)


def lines_of(latex: str) -> dict[str, list[str]]:
    """The name of a row -> the other cells, of what LaTeX prints."""
    rows = [line.removesuffix(r" \\") for line in latex.splitlines() if line.endswith(r" \\")]
    return {name: cells for name, *cells in (row.split(" & ") for row in rows)}


def test_the_main_table_has_rows_by_their_mean_below_the_teacher_with_signs(answered_store):
    latex = to_latex(paper_tables(made(answered_store), Paper())[ACCURACY])
    lines = lines_of(latex)
    assert list(lines)[2:4] == ["teacher", "microbert\\textsuperscript{a}"]
    assert list(lines)[-1] == "majority class"
    system, below = list(lines.values())[:2]
    assert system[:3] == ["SST-2", "RTE", "Avg."]
    assert "Acc." in below[0]
    scores = lines["microbert\\textsuperscript{a}"]
    assert all(r"\rlap{\textsuperscript{$*$}}" in cell for cell in scores[:3])
    assert r"\textbf{" in scores[2]
    printed = latex.partition(r"\begin{table")[2]
    assert r"better, $^{\dagger}$\,worse than finetune ($p<0.05$, Holm" in printed
    assert r"\textsuperscript{a}\,microbert is a reconstruction." in printed


def test_our_audit_reads_the_tables_back_and_finds_nothing(answered_store):
    group = made(answered_store)
    for file in (ACCURACY, KEPT_OF_THE_TEACHER):
        sheets = from_text(to_latex(paper_tables(group, Paper())[file]), "x.tex")
        assert audit(sheets) == []
        (table,) = [table for table in tables_of(group) if table.file == file]
        read = {row.system.split(" [")[0]: row for sheet in sheets for row in sheet.rows}
        for line in table.lines:
            measured = [round(cell.value, 1) for cell in line.cells[:3]]
            row = read[line.label]
            printed = [float(cell.value) for cell in (*row.cells.values(), *row.sizes.values())]
            assert printed[:3] == measured, (file, line.label)


@pytest.mark.parametrize("rows", [(), ("finetune", "kd", "microbert")])
def test_tables_for_a_paper_are_compared_with_the_records(answered_store, rows, bench, tmp_path):
    """Retention is no score; tuned rows are found by their names in the paper."""
    store = tuned_store(answered_store, rows)
    write_reports(store, tmp_path / "p", latex=True)
    files = sorted(tmp_path.glob("p/*/*/tables/*.tex"))
    assert [file.name for file in files] == ["accuracy.tex", "retention.tex"]
    answer = bench("audit", *files, "--results", store.root)
    assert answer.returncode == 0, answer.stdout
    assert "12 as measured, 0 differs" in answer.stdout


def tuned_store(store: Store, rows: tuple[str, ...]) -> Store:
    """A store like this one, in which some rows are the best of two trials."""
    trials = (Trial(row="kd", score=80.0), Trial(row="kd:pace=2", score=70.0))
    search = Search(of="kd", metric="accuracy", held_back="0" * 64, trials=trials)
    other = Store(store.root.with_name("tuned"))
    for record in store.records():
        arrays = store.predictions(record)
        if record.row in rows:
            label = f"{record.row} (best of 2)"
            record = factories.changed(record, label=label, search=search)
        other.write(*factories.consistent(record, arrays))
    return other


def test_that_all_rows_are_tuned_is_said_once_in_the_caption(answered_store):
    group = made(tuned_store(answered_store, ("finetune", "kd", "microbert")))
    latex = to_latex(paper_tables(group, Paper())[ACCURACY])
    printed = latex.partition(r"\begin{table")[2]
    assert printed.count("best of") == 1
    caption = re.search(r"\\caption\{(.*)\}", latex)[1]
    assert "All students are tuned: the best of 2 trials" in caption
    assert "averaged over 3 seeds" in caption
    assert "kd" in lines_of(latex)


def test_where_some_rows_are_tuned_their_names_say_so(answered_store):
    group = made(tuned_store(answered_store, ("kd",)))
    latex = to_latex(paper_tables(group, Paper())[ACCURACY])
    assert "kd (tuned)" in lines_of(latex)
    assert "finetune" in lines_of(latex)
    assert "tuned" not in re.search(r"\\caption\{(.*)\}", latex)[1].replace("fine-tuned", "")


def test_ablations_are_in_a_table_of_their_own(answered_store):
    labels = np.arange(400) % 2
    for task in ("rte", "sst2"):
        for seed in range(3):
            record = factories.record(
                "microbert w/o Dis", task, seed, ablation_of="microbert", macs=10**8
            )
            said = np.where(labels == factories.LABELS, labels, 1 - labels)
            factories.write(answered_store, record, said, factories.LABELS)
    tables = paper_tables(made(answered_store), Paper())
    assert "microbert w/o Dis" not in to_latex(tables[ACCURACY])
    latex = to_latex(tables[VARIANTS])
    ((name, cells),) = list(lines_of(latex).items())[2:]
    assert name == "microbert w/o Dis"
    assert re.match(r"\+\d", cells[-1])
    assert "Differences to microbert on" in latex
    assert r"\label{tab:" in latex
    assert "-ablations}" in latex


@needs_pdflatex
@pytest.mark.slow
@pytest.mark.parametrize("style", PAPERS)
def test_latex_compiles_what_we_write(paper_store, answered_store, style, tmp_path):
    head, sizes = PAPERS[style]
    inputs = []
    for store in (paper_store, answered_store):
        folder = tmp_path / store.root.name
        write_reports(store, folder, latex=True)
        inputs += [rf"\input{{{path.relative_to(tmp_path)}}}" for path in folder.rglob("*.tex")]
        inputs += [
            rf"\noindent\includegraphics[width=\linewidth]{{{path.relative_to(tmp_path)}}}\par"
            for path in folder.rglob("*.pdf")
        ]
    assert len(inputs) > 5
    packages = r"\usepackage{times,booktabs,longtable,graphicx}"
    long = r"\onecolumn" + to_latex(table_of(60, 5))
    text = [head, packages, sizes, r"\begin{document}", *inputs, long, r"\end{document}"]
    assert "Overfull" not in compiled("\n".join(text), tmp_path)
