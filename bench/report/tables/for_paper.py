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
from bench.report.file_names import data_name
from bench.report.latex import FIELD, METRIC, LatexCell, LatexColumn, LatexTable, spelled, tex
from bench.report.paired_rows import BETTER, WORSE
from bench.report.retained_scores import KEEPS, LOSES, scored_by_teacher
from bench.report.score_column import ScoreColumn
from bench.report.study import GLUE_FOLDER, Place, Study
from bench.report.table import Table, TableCell, number
from bench.report.tables.accuracy import (
    ACCURACY,
    accuracy,
    further_columns,
    mean_cells,
    score_cells,
)
from bench.report.tables.cost import FILE
from bench.report.tables.differences import VARIANTS, difference_cell, variants_compared
from bench.report.tables.parts import if_busy, listed
from bench.report.tables.retention import KEPT_OF_THE_TEACHER, retentions
from bench.stats.power import LEVEL

STAR = "$*$"
DAGGER = r"$\dagger$"
SUSPECT = r"$\ddagger$"
FEWER_SEEDS = r"\S"
SIGNS: Mapping[str, str] = {BETTER: STAR, KEEPS: STAR, WORSE: DAGGER, LOSES: DAGGER}
"""Verdict -> its sign. Other verdicts have none."""
TUNED = re.compile(r" \(best of \d+\)")
"""What a search adds to the name of a row."""
MOST_REMARKS = 26
"""Letters of the alphabet."""
INTERVALS = r"[\,]: 95\,\% interval."

Signs = Mapping[tuple[str, ScoreColumn | None], str]
"""(row, column, or None for the mean) -> the sign of its verdict, "" for none."""


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
    if study.variants:
        papers[VARIANTS] = ablations(study, paper)
    if study.retained:
        papers[KEPT_OF_THE_TEACHER] = retention(study, paper)
    if study.systems:
        # variants and ablations have a table of their own
        apart = {difference.row for difference in study.variants}
        by_mean = sorted(study.students, key=lambda row: -study.mean_scores.get(row, -1e9))
        rows = [row for row in by_mean if row not in apart]
        papers[ACCURACY] = main_table(study, rows, paper)
    return papers


def main_table(
    study: Study, rows: Sequence[str], paper: Paper, has_verdicts: bool = True
) -> LatexTable:
    """Each row's scores with their deviations, the average, the size, the speed-up, and verdicts.

    Args:
        rows: the students, in the order in which they are printed.
        has_verdicts: whether the verdicts of differences to the reference are shown.
    """
    signs = _signs(study) if has_verdicts else {}
    remarks = _remarks(study, rows)
    scores = score_cells(study)
    means = mean_cells(study)
    blocks = []
    # the teacher above the students, and the best constant prediction below them
    teacher = [TEACHER] if TEACHER in study.systems else []
    for labels in (teacher, rows):
        block = []
        for label in labels:
            name = _name(study, label, remarks)
            block.append([name, *_main_cells(study, label, scores, means, signs)])
        if block:
            blocks.append(block)
    if study.baselines:
        blocks.append([[_name(study, study.baseline_name), *_constant_cells(study)]])

    columns = [LatexColumn("System", is_left=True), *_tasks(study.columns)]
    if means:
        columns.append(LatexColumn("Avg.", _on_average(study)))
    columns += [_head(title) for title in _further(study)]
    labels_shown = [*teacher, *rows, study.baseline_name]
    return LatexTable(
        columns,
        blocks,
        _caption(study, rows, f"Results on {_data(study)}, in percent"),
        data_name(study),
        [*_notes_on_scores(study, blocks, has_verdicts), *_notes_on_rows(remarks)],
        _comments(paper, accuracy(study), labels_shown),
    )


def _main_cells(
    study: Study,
    label: str,
    scores: Mapping[Place, TableCell],
    means: Mapping[str, TableCell],
    signs: Signs,
) -> list[LatexCell]:
    """The cells of a row of the main table, behind its name."""
    cells = []
    for column in study.columns:
        marks = [signs.get((label, column), "")]
        if study.values(label, column) and study.suspicions.get((label, column)):
            marks.append(SUSPECT)
        if study.lacks_seeds(label, column):
            marks.append(FEWER_SEEDS)
        cells.append(_score(scores[label, column], marks))
    if means:
        cells.append(_score(means[label], [signs.get((label, None), "")]))
    further = further_columns(study)
    for title, (form, unit) in _further(study).items():
        cells.append(_size(further[title](study, label), form, unit))
    return cells


def _constant_cells(study: Study) -> list[LatexCell]:
    """The cells of the best constant prediction, behind its name."""
    cells = [_score(number(study.baselines.get(column)), ()) for column in study.columns]
    if len(study.columns) > 1:
        cells.append(_score(number(study.majority), ()))
    return cells + [LatexCell("")] * len(_further(study))


def retention(study: Study, paper: Paper) -> LatexTable:
    """Shares of the teacher's score with their intervals and verdicts, and the mean of a row."""
    scored = scored_by_teacher(study)
    by_mean = sorted(study.retained.items(), key=lambda item: -(item[1].mean.value or 0))
    block = []
    for label, row in by_mean:
        cells = [_with_interval(cell, ".1f") for cell in (*row.scores.values(), row.mean)]
        block.append([_name(study, label), *cells])
    meanings = {
        STAR: rf"keeps {100 * study.kept:g}\,\% of its teacher's score",
        DAGGER: "loses more than that",
    }
    rows = list(study.retained)
    table = retentions(study)
    return LatexTable(
        _columns_with_intervals(study, scored, has_mean=True),
        [block],
        _caption(study, rows, f"Retention of the teacher's score on {_data(study)}, in percent"),
        f"{data_name(study)}-retention",
        _notes_on_intervals(study, [block], meanings, "non-inferiority by the interval"),
        _comments(paper, table, rows),
    )


def ablations(study: Study, paper: Paper) -> LatexTable:
    """Differences of variants and ablations to their own rows, with intervals and verdicts."""
    has_mean = len(study.averaged) > 1
    # a block has the rows that are compared with the same one
    blocks: dict[str, list[list[LatexCell]]] = {}
    rows: dict[str, list[str]] = {}
    for difference in study.variants:
        compared = [difference.columns.get(column) for column in study.columns]
        if has_mean:
            compared.append(difference.mean)
        cells = [_with_interval(difference_cell(line, ()), "+.1f") for line in compared]
        block = blocks.setdefault(difference.other, [])
        block.append([_name(study, difference.row), *cells])
        rows.setdefault(difference.other, []).append(difference.row)
    labels = [label for block_rows in rows.values() for label in block_rows]
    full_rows = listed([name_in_paper(study, label) for label in blocks])
    meanings = {STAR: "better", DAGGER: "worse"}
    return LatexTable(
        _columns_with_intervals(study, study.columns, has_mean),
        list(blocks.values()),
        _caption(study, labels, f"Differences to {full_rows} on {_data(study)}, in points"),
        f"{data_name(study)}-ablations",
        _notes_on_intervals(study, list(blocks.values()), meanings, _adjusted(study)),
        _comments(paper, variants_compared(study), labels),
    )


# --- columns and cells


def _tasks(columns: Iterable[ScoreColumn]) -> list[LatexColumn]:
    """A head for each column of scores: the task, and its metric below."""
    return [
        LatexColumn(FIELD.get(column.name, column.name), METRIC.get(column.label, column.label))
        for column in columns
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


def _columns_with_intervals(
    study: Study, scored: Iterable[ScoreColumn], has_mean: bool
) -> list[LatexColumn]:
    """System, the tasks, and their mean, whose interval is the last to go."""
    columns = [LatexColumn("System", is_left=True), *_tasks(scored)]
    if has_mean:
        columns.append(LatexColumn("Mean", _on_average(study), keeps_small=True))
    return columns


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


def _signs(study: Study) -> Signs:
    """The signs of the verdicts of differences to the reference."""
    signs: dict[tuple[str, ScoreColumn | None], str] = {}
    for difference in study.differences:
        for column, line in difference.columns.items():
            signs[difference.row, column] = SIGNS.get(line.verdict, "")
        if difference.mean is not None:
            signs[difference.row, None] = SIGNS.get(difference.mean.verdict, "")
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
    study: Study, blocks: Iterable[Iterable[Sequence[LatexCell]]], has_verdicts: bool
) -> list[str]:
    """What bold, signs and columns of the main table mean, of those that it has."""
    cells = [cell for block in blocks for row in block for cell in row[1:]]
    printed = {mark for cell in cells for mark in cell.marks}
    notes = []
    if any(cell.small for cell in cells):
        notes.append(r"$\pm$: standard deviation over seeds.")
    if any(cell.bold for cell in cells):
        notes.append("Bold: the best student.")
    if has_verdicts and printed & {STAR, DAGGER}:
        other = tex(name_in_paper(study, study.differences[0].other))
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


def _comments(paper: Paper, table: Table | None, labels: Sequence[str]) -> list[str]:
    """What stands above the LaTeX for its author: sources, warnings, and the notes of the report's
    own table and of these of its lines."""
    comments = [*paper.sources, *paper.warnings]
    if table is None:
        return comments
    lines = {line.label: line for line in table.lines}
    notes: dict[str, None] = {}
    for label in labels:
        cells = lines[label].all_cells if label in lines else []
        for cell in cells:
            notes |= dict.fromkeys(cell.footnotes)
    return [*comments, *table.notes, *notes]
