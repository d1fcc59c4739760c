"""The tables that people paste into a paper: the main table, retention, and ablations.

They have numbers of the report's own tables (:mod:`bench.report.tables.registry`) in fewer columns:
a score for each task, the average, the size and the speed-up, with a sign for a verdict.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from bench.record.cell import TEACHER, is_one_model
from bench.record.stated import stated
from bench.record.task_facts import FOLDER, HUB
from bench.report.comparison import BETTER, WORSE
from bench.report.file_names import data_name
from bench.report.latex import FIELD, METRIC, LatexCell, LatexColumn, LatexTable, spelled, tex
from bench.report.retained_scores import KEEPS, LOSES
from bench.report.study import GLUE_FOLDER, Study
from bench.report.table import Line, Table, TableCell
from bench.report.tables.accuracy import ACCURACY, accuracy, further_columns
from bench.report.tables.cost import FILE
from bench.report.tables.differences import VARIANTS, systems_compared, variants_compared
from bench.report.tables.parts import if_busy, listed
from bench.report.tables.retention import KEPT_OF_THE_TEACHER, retentions
from bench.stats.power import LEVEL

STAR = "$*$"
DAGGER = r"$\dagger$"
SUSPECT = r"$\ddagger$"
FEWER_SEEDS = r"\S"
SIGNS: Mapping[str, str] = {BETTER: STAR, KEEPS: STAR, WORSE: DAGGER, LOSES: DAGGER}
"""Verdict -> its sign. Other verdicts have none."""
MEAN = ""
"""In place of a column's title: the mean of a row."""
TUNED = re.compile(r" \(best of \d+\)")
"""What a search adds to the name of a row."""
MOST_REMARKS = 26
"""Letters of the alphabet."""
INTERVALS = r"[\,]: 95\,\% interval."

Signs = Mapping[tuple[str, str], str]
"""(row, title of a column) -> the sign of its verdict."""


@dataclass(frozen=True)
class Paper:
    """What a table takes along into a paper as comments, where the rest of the report is missing.

    Attributes:
        warnings: what a reader has to know before the first number, as Markdown.
        sources: where the numbers come from.
    """

    warnings: Sequence[str] = ()
    sources: Sequence[str] = ()


def paper_tables(study: Study, paper: Paper) -> dict[str, LatexTable]:
    """The tables for a paper of a whole report, each by the file name of the report's own table."""
    papers: dict[str, LatexTable] = {}
    variants = variants_compared(study)
    if variants is not None:
        papers[VARIANTS] = ablations(study, variants, paper)
    retained = retentions(study)
    if retained is not None:
        papers[KEPT_OF_THE_TEACHER] = retention(study, retained, paper)
    scores = accuracy(study)
    if scores.lines:
        # variants and ablations have a table of their own
        apart = {difference.row for difference in study.variants}
        by_mean = sorted(study.students, key=lambda row: -study.mean_scores.get(row, -1e9))
        rows = [row for row in by_mean if row not in apart]
        papers[ACCURACY] = main_table(study, scores, systems_compared(study), rows, paper)
    return papers


def main_table(
    study: Study, scores: Table, tested: Table | None, rows: Sequence[str], paper: Paper
) -> LatexTable:
    """Each row's scores with their deviations, the average, the size, the speed-up, and verdicts.

    Args:
        scores: the table of :func:`bench.report.tables.accuracy.accuracy`.
        tested: differences to one row, whose verdicts are shown; None where nothing is compared.
        rows: the students, in the order in which they are printed.
    """
    lines = {line.label: line for line in scores.lines}
    signs = _signs(study, tested)
    remarks = _remarks(study, rows)
    blocks = []
    shown: list[Line] = []
    # the teacher above the students, and the best constant prediction below them
    for labels in ([TEACHER], rows, [study.baseline_name]):
        block = [lines[label] for label in labels if label in lines]
        shown += block
        if block:
            blocks.append([_main_row(study, scores, line, signs, remarks) for line in block])
    columns = [LatexColumn("System", is_left=True), *_tasks(study)]
    if len(study.columns) > 1:
        columns.append(LatexColumn("Avg.", _on_average(study)))
    columns += [_head(title) for title in _further(study)]
    return LatexTable(
        columns,
        blocks,
        _caption(study, rows, f"Results on {_data(study)}, in percent"),
        data_name(study),
        [*_notes_on_scores(study, blocks, tested), *_notes_on_rows(remarks)],
        _comments(paper, scores, shown),
    )


def _main_row(
    study: Study, scores: Table, line: Line, signs: Signs, remarks: Mapping[str, str]
) -> list[LatexCell]:
    """A line of the report's scores as a row of the main table."""
    cells = dict(zip(scores.header[1:], line.cells, strict=True))
    row = [_name(study, line.label, remarks)]
    for column in study.columns:
        marks = [signs.get((line.label, column.title), "")]
        if study.values(line.label, column) and study.suspicions.get((line.label, column)):
            marks.append(SUSPECT)
        if study.lacks_seeds(line.label, column):
            marks.append(FEWER_SEEDS)
        row.append(_score(cells[column.title], marks))
    if len(study.columns) > 1:
        mean = cells[f"mean of {len(study.averaged)}"]
        row.append(_score(mean, [signs.get((line.label, MEAN), "")]))
    for title, (form, unit) in _further(study).items():
        row.append(_size(cells[title], form, unit))
    return row


def retention(study: Study, table: Table, paper: Paper) -> LatexTable:
    """Shares of the teacher's score with their intervals and verdicts, and the mean of a row.

    Args:
        table: that of :func:`bench.report.tables.retention.retentions`.
    """
    lines = sorted(table.lines, key=lambda line: -(line.cells[-1].value or 0))
    blocks = [_rows_with_intervals(study, table, lines, ".1f")]
    margin = 100 * (table.margin or 0)
    meanings = {
        STAR: rf"keeps {margin:g}\,\% of its teacher's score",
        DAGGER: "loses more than that",
    }
    return LatexTable(
        _columns_with_intervals(study, table),
        blocks,
        _caption(
            study,
            [line.label for line in table.lines],
            f"Retention of the teacher's score on {_data(study)}, in percent",
        ),
        f"{data_name(study)}-retention",
        _notes_on_intervals(study, blocks, meanings, "non-inferiority by the interval"),
        _comments(paper, table, table.lines),
    )


def ablations(study: Study, table: Table, paper: Paper) -> LatexTable:
    """Differences of variants and ablations to their own rows, with intervals and verdicts.

    Args:
        table: one of :mod:`bench.report.tables.differences`.
    """
    # a block has the rows that are compared with the same one
    by_full_row: dict[str, list[Line]] = {}
    for line in table.lines:
        if line.row != "":
            by_full_row.setdefault(str(line.cells[0].plain), []).append(line)
    lines = [line for own in by_full_row.values() for line in own]
    blocks = [_rows_with_intervals(study, table, own, "+.1f") for own in by_full_row.values()]
    full_rows = listed([name_in_paper(study, label) for label in by_full_row])
    return LatexTable(
        _columns_with_intervals(study, table),
        blocks,
        _caption(
            study,
            [line.label for line in lines],
            f"Differences to {full_rows} on {_data(study)}, in points",
        ),
        f"{data_name(study)}-ablations",
        _notes_on_intervals(study, blocks, {STAR: "better", DAGGER: "worse"}, _adjusted(study)),
        _comments(paper, table, lines),
    )


# --- columns and cells


def _tasks(study: Study) -> list[LatexColumn]:
    """A head for each column of scores: the task, and its metric below."""
    return [
        LatexColumn(FIELD.get(column.name, column.name), METRIC.get(column.label, column.label))
        for column in study.columns
    ]


def _on_average(study: Study) -> str:
    """What stands below the head of an average that leaves out tasks."""
    return f"of {len(study.averaged)}" if study.left_out_of_means else ""


def _further(study: Study) -> dict[str, tuple[str, str]]:
    """The columns behind the average -> the form of their numbers and their unit.

    They are the size, and the speed-up or, where nothing was timed, the FLOPs.
    """
    forms = {"Params (M)": (".1f", ""), FILE: (".1f", "")}
    if study.speed.ratios:
        forms[if_busy("speed-up", study)] = (".2f", "×")
    else:
        forms["FLOPs (G)"] = (".2f", "")
    there = further_columns(study)
    return {title: form for title, form in forms.items() if title in there}


def _head(title: str) -> LatexColumn:
    """The head of a column; what its title has in brackets stands below."""
    name, _, below = title.removesuffix(")").partition(" (")
    return LatexColumn(name[:1].upper() + name[1:], below)


def _score(cell: TableCell, marks: Iterable[str]) -> LatexCell:
    """A score with its signs and its deviation; words where there is no number."""
    signs = [mark for mark in marks if mark]
    if cell.value is None:
        return LatexCell(cell.text, marks=signs)
    small = "" if cell.deviation is None else f"±{cell.deviation:.1f}"
    return LatexCell(f"{cell.value:.1f}", small, signs, cell.bold)


def _size(cell: TableCell, form: str, unit: str) -> LatexCell:
    """A size, or the range of those of several models; two digits of what is less than 1."""
    if cell.value is not None:
        ends = [cell.value]
    elif cell.low is not None and cell.high is not None:
        ends = [cell.low, cell.high]
    else:
        return LatexCell(cell.text)
    return LatexCell("–".join(f"{end:{form if end >= 1 else '.2g'}}" for end in ends) + unit)


def _with_interval(cell: TableCell, form: str) -> LatexCell:
    """A number with the sign of its verdict and its interval; words where there is no number."""
    sign = SIGNS.get(cell.verdict)
    marks = [sign] if sign else []
    if cell.value is None:
        return LatexCell(cell.text)
    small = ""
    if cell.low is not None and cell.high is not None:
        small = f" [{cell.low:.1f}, {cell.high:.1f}]"
    return LatexCell(f"{cell.value:{form}}", small, marks)


def _columns_with_intervals(study: Study, table: Table) -> list[LatexColumn]:
    """System, the tasks that the table has, and its mean, whose interval is the last to go."""
    columns = [LatexColumn("System", is_left=True)]
    for column, head in zip(study.columns, _tasks(study), strict=True):
        if column.title in table.header:
            columns.append(head)
    if _has_mean(study, table):
        columns.append(LatexColumn("Mean", _on_average(study), keeps_small=True))
    return columns


def _has_mean(study: Study, table: Table) -> bool:
    """Whether the last column of a table is a mean of the others."""
    return table.header[-1] not in [column.title for column in study.columns]


def _rows_with_intervals(
    study: Study, table: Table, lines: Iterable[Line], form: str
) -> list[list[LatexCell]]:
    """A row for each line, with a cell for each of :func:`_columns_with_intervals`."""
    titles = [column.title for column in study.columns]
    if _has_mean(study, table):
        titles.append(table.header[-1])
    rows = []
    for line in lines:
        cells = dict(zip(table.header[1:], line.cells, strict=True))
        shown = [_with_interval(cells[title], form) for title in titles if title in cells]
        rows.append([_name(study, line.label), *shown])
    return rows


# --- names of rows


def _name(study: Study, label: str, remarks: Mapping[str, str] | None = None) -> LatexCell:
    """The name of a row, with the letter of its remark."""
    letter = (remarks or {}).get(_remark(study, label), "")
    return LatexCell(name_in_paper(study, label), marks=[letter] if letter else [])


def name_in_paper(study: Study, label: str) -> str:
    """The name of a row in a paper: the caption says that all are tuned, a name that it is."""
    if label in study.names:
        return study.names[label]
    return TUNED.sub("" if _trials(study) else " (tuned)", study.called(label))


def _trials(study: Study) -> int:
    """The trials that each trained row is the best of; 0 where rows differ in that."""
    numbers = set()
    for record in study.records:
        if not is_one_model(record.cell):
            numbers.add(len(record.cell.search.trials) if record.cell.search else 0)
    return numbers.pop() if len(numbers) == 1 else 0


def _remark(study: Study, label: str) -> str:
    """The first sentence of what the method of a row says to readers of tables; "" for none."""
    records = study.records_of(label)
    said = stated(records[0].cell.method, "remark") if records else ""
    return f"{said.split('. ')[0].rstrip('.')}." if said else ""


def _remarks(study: Study, rows: Sequence[str]) -> dict[str, str]:
    """Remark -> the letter that marks its rows."""
    said = dict.fromkeys(_remark(study, label) for label in rows)
    told = [remark for remark in said if remark][:MOST_REMARKS]
    return {remark: chr(ord("a") + number) for number, remark in enumerate(told)}


def _signs(study: Study, tested: Table | None) -> Signs:
    """The signs of a table of differences."""
    signs: dict[tuple[str, str], str] = {}
    if tested is None:
        return signs
    titles = [column.title for column in study.columns]
    for line in tested.lines:
        for title, cell in zip(tested.header[1:], line.cells, strict=True):
            if sign := SIGNS.get(cell.verdict):
                signs[line.label, title if title in titles else MEAN] = sign
    return signs


# --- words around a table


def _caption(study: Study, rows: Sequence[str], what: str) -> str:
    """What a table shows, of how many seeds, with which teacher, and how the rows were tuned."""
    teacher = study.cell.teacher
    name = teacher.name.split("/")[-1].split(" (")[0]
    sentences = [f"{what}{_seeds(study, rows)}.", f"The teacher is {name}, {teacher.origin}."]
    if trials := _trials(study):
        sentences.append(
            f"All students are tuned: the best of {trials} trials on held-out training examples."
        )
    return tex(" ".join(sentences))


def _data(study: Study) -> str:
    """What the scores are of, as a paper says it."""
    facts = study.facts
    if facts.source == HUB or (facts.source == FOLDER and facts.folder == GLUE_FOLDER):
        limit = study.cell.data.max_train_rows
        few = f" (at most {limit:,} training examples a task)" if limit else ""
        return f"the GLUE development sets{few}"
    return study.described_data()


def _seeds(study: Study, rows: Sequence[str]) -> str:
    """How many trainings the numbers are of; "" where all rows are finished models."""
    trained = [row for row in rows if not is_one_model(study.records_of(row)[0].cell)]
    numbers = {len(study.values(row, column)) for row in trained for column in study.columns}
    numbers.discard(0)
    if not numbers:
        return ""
    if numbers == {1}:
        return ", of one seed"
    least = min(numbers)
    most = max(numbers)
    return f", averaged over {most if least == most else f'{least} to {most}'} seeds"


def _notes_on_scores(
    study: Study, blocks: Iterable[Iterable[Sequence[LatexCell]]], tested: Table | None
) -> list[str]:
    """What bold, signs and columns of the main table mean, of those that it has."""
    cells = [cell for block in blocks for row in block for cell in row[1:]]
    printed = {mark for cell in cells for mark in cell.marks}
    notes = []
    if any(cell.small for cell in cells):
        notes.append(r"$\pm$: standard deviation over seeds.")
    if any(cell.bold for cell in cells):
        notes.append("Bold: the best student.")
    if tested and printed & {STAR, DAGGER}:
        other = tex(name_in_paper(study, str(tested.lines[0].cells[0].plain)))
        notes.append(
            rf"$^{{*}}$\,better, $^{{\dagger}}$\,worse than {other} "
            rf"($p<{LEVEL:g}$, {_adjusted(study)})."
        )
    if SUSPECT in printed:
        notes.append(
            r"$^{\ddagger}$\,a seed is no better than a constant prediction, or suspect otherwise."
        )
    if FEWER_SEEDS in printed:
        notes.append(r"\textsuperscript{\S}\,fewer seeds.")
    return [*notes, *_notes_on_columns(study)]


def _notes_on_columns(study: Study) -> list[str]:
    """Which tasks the average leaves out, and how the speed-up was timed."""
    notes = []
    if study.left_out_of_means:
        left_out = listed([FIELD.get(c.name, c.name) for c in study.left_out_of_means])
        notes.append(
            f"The average leaves out {tex(left_out)}, where the teacher is not shown to beat "
            f"the {study.baseline_name}."
        )
    if study.speed.ratios:
        conditions = study.speed.conditions.partition(";")[0]
        notes.append(f"Speed-up over the teacher: {tex(conditions)}.")
    return notes


def _notes_on_rows(remarks: Mapping[str, str]) -> list[str]:
    """The remarks of rows behind their letters."""
    return [
        rf"\textsuperscript{{{letter}}}\,{tex(spelled(remark))}"
        for remark, letter in remarks.items()
    ]


def _notes_on_intervals(
    study: Study,
    blocks: Iterable[Iterable[Sequence[LatexCell]]],
    meanings: Mapping[str, str],
    how: str,
) -> list[str]:
    """What intervals and signs mean, of those that a table has.

    Args:
        meanings: sign -> its verdict, in LaTeX.
        how: how the verdicts were reached.
    """
    cells = [cell for block in blocks for row in block for cell in row[1:]]
    printed = {mark for cell in cells for mark in cell.marks}
    notes = [INTERVALS] if any(cell.small for cell in cells) else []
    if printed:
        said = [rf"\textsuperscript{{{sign}}}\,{words}" for sign, words in meanings.items()]
        notes.append(f"{', '.join(said)} ({how}).")
    return [*notes, *_notes_on_columns(study)[: bool(study.left_out_of_means)]]


def _adjusted(study: Study) -> str:
    """How the p of the tests were adjusted."""
    if len(study.columns) == 1:
        return "one test a row, not adjusted"
    if len(study.averaged) == 1:
        return "Holm over the tasks of a row"
    return "Holm over the tasks of a row; the average is one test, not adjusted"


def _comments(paper: Paper, table: Table, lines: Iterable[Line]) -> list[str]:
    """What stands above the LaTeX for its author: sources, warnings, and each note of the lines."""
    notes: dict[str, None] = {}
    for line in lines:
        for cell in line.all_cells:
            notes |= dict.fromkeys(cell.footnotes)
    return [*paper.sources, *paper.warnings, *table.notes, *notes]
