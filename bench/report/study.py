"""The study: records that share a table, with all that reports and commands say of them as values.

It is built once, by :func:`bench.report.studies.study_of`, and never changed. Tables, pictures, the
page, LaTeX, CSV files, ``compare``, ``choose`` and ``audit --results`` read the same values.
No torch, no clock.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import MappingProxyType
from typing import Any

from bench.record.cell import FINISHED, TEACHER, Cell, is_one_model
from bench.record.cell_differences import LeftOut
from bench.record.known_tasks import GLUE, KNOWN
from bench.record.recipe import ADAMW
from bench.record.schema import Record
from bench.record.task_facts import (
    FOLDER,
    SAMPLE,
    DataFacts,
    data_facts,
    row_as_typed,
    shown_task,
)
from bench.report.paired_rows import RowDifference
from bench.report.resampled import Resampled
from bench.report.score_column import ScoreColumn, why_no_verdict
from bench.report.table import TableCell
from bench.request.recorded import PretrainingText
from bench.stats.form import CLASSES, FORMS, TEXT
from bench.stats.ratios import Ratio
from bench.stats.seeds import with_seeds_apart
from bench.stats.summary import Summary, summarise

GLUE_FOLDER = "glue"
"""The name of the folder whose files are called GLUE without more words."""
FROM_GLUE = re.compile(rf" from the folder {GLUE_FOLDER}(?=$|,)")
BESIDE: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "spearman": ("pearson",),
        "bleu": ("rouge_l",),
        "rouge_l": ("bleu",),
    }
)
"""A metric of a known task -> others that are printed beside it where they were measured. They have
columns, and are in no mean and no test. Of a user's own task all metrics are printed."""
KEPT = 0.97
"""Share of the teacher's score that counts as kept where no other is asked for."""
ROUNDING = 1e-9
"""More than a mean of scores loses to rounding."""
EMPTY: Mapping[Any, Any] = MappingProxyType({})

Place = tuple[str, ScoreColumn]
"""A row in a column."""


@dataclass(frozen=True)
class Speed:
    """How fast the rows of a study are, from sessions of timing.

    Attributes:
        ratios: row -> how many times faster than the teacher it is.
        latencies: row -> median milliseconds of a batch.
        conditions: under which both were measured, in words; "" where nothing was timed.
        backend: what computed the batches.
        busy_cores: cores that other processes used meanwhile; 0 on an idle machine.
    """

    ratios: Mapping[str, Ratio] = field(default_factory=dict)
    latencies: Mapping[str, float] = field(default_factory=dict)
    conditions: str = ""
    backend: str = ""
    busy_cores: float = 0.0


@dataclass(frozen=True)
class RetainedRow:
    """A student's scores in percent of its teacher's.

    Attributes:
        scores: column -> the share, its interval and its verdict, in each column that the teacher
            has; without a value where there is no share, with its reason as a footnote.
        mean: the mean of the columns of all means, with its interval, and without a verdict.
    """

    scores: Mapping[ScoreColumn, TableCell]
    mean: TableCell


@dataclass(frozen=True)
class Group:
    """Records that share a table: of the same data, teacher, recipe and numerics.

    Attributes:
        cell: of one of its students: its data, teacher, recipe and numerics are those of all.
        identity: what its records have in common, and those of no other group.
        left_out: records under the name of a newer training, each with that training.
    """

    cell: Cell
    identity: tuple[object, ...]
    records: Sequence[Record]
    left_out: LeftOut = field(default_factory=list)

    @property
    def facts(self) -> DataFacts:
        """What its examples are."""
        return data_facts(self.cell.data.slug)


@dataclass(frozen=True)
class Study(Group):
    """A group of records, how its rows are shown, and what its folder says of it.

    Which of the fields are known is said where it is built (:class:`bench.report.studies.Reads`).

    Attributes:
        order: labels of rows in this order, where it is given; other rows come after them.
        names: row -> its name in a paper.
        reference: the row that others are compared with; "" for the one that
            :func:`bench.report.verdicts.reference_of` chooses.
        kept: share of the teacher's score that counts as kept, tested as non-inferiority.
        results: the folder of its records, as commands name it.
        texts: key of a start made from text -> that text.
        aside: files of the folder of records that are not used as they are, a line each.
        speed: how fast its rows are.
        suspicions: (row, column) -> what is suspect about its predictions.
        partly_suspect: the (row, column) whose suspicions are of some classes alone.
        baselines: column -> percent that the best constant prediction scores.
        answers: column -> its records' stored predictions, scored on the same resampled examples.
        noise: columns in which the teacher is not shown to be better than a constant: what
            students lose there is noise.
        left_out_of_means: columns that no mean has: those of noise, or none.
        mean_intervals: complete row -> its mean score, with its interval.
        pairs: two complete rows with stored predictions -> their mean difference, first - second.
        differences: each row compared with the reference.
        variants: each variant or ablation compared with its own row.
        retained: student -> its scores in percent of its teacher's.
    """

    order: Sequence[str] = ()
    names: Mapping[str, str] = field(default_factory=dict)
    reference: str = ""
    kept: float = KEPT
    results: str = "results/runs"
    texts: Mapping[str, PretrainingText] = field(default_factory=dict)
    aside: Sequence[str] = ()
    speed: Speed = Speed()
    suspicions: Mapping[Place, Sequence[str]] = field(default_factory=dict)
    partly_suspect: Collection[Place] = ()
    baselines: Mapping[ScoreColumn, float] = field(default_factory=dict)
    answers: Mapping[ScoreColumn, Resampled] = field(default_factory=dict)
    noise: Collection[ScoreColumn] = ()
    left_out_of_means: Collection[ScoreColumn] = ()
    mean_intervals: Mapping[str, TableCell] = field(default_factory=dict)
    pairs: Mapping[tuple[str, str], TableCell] = field(default_factory=dict)
    differences: Sequence[RowDifference] = ()
    variants: Sequence[RowDifference] = ()
    retained: Mapping[str, RetainedRow] = field(default_factory=dict)

    # --- what its records have in common

    @property
    def optimizer(self) -> str:
        """That of the students, where the recipe is common to all."""
        return str(self.cell.recipe.get("optimizer", ADAMW))

    @property
    def recipe(self) -> str:
        """The name of the recipe."""
        return str(self.cell.recipe["name"])

    @property
    def epochs(self) -> float:
        """The epochs of the recipe."""
        return float(self.cell.recipe["epochs"])

    @property
    def title(self) -> str:
        """Its examples, tasks and teacher."""
        described = self.described_data(f" ({', '.join(self.shown_tasks)})")
        teacher = self.cell.teacher
        return f"{described}; teacher {teacher.name}, {teacher.origin}"

    @property
    def heading(self) -> str:
        """The title of a page: its examples and tasks."""
        return f"{self.described_data()}: {', '.join(self.shown_tasks)}"

    def described_data(self, tasks: str = "") -> str:
        """What its examples are, and how many of them were trained on at most.

        Args:
            tasks: words between the two.
        """
        name = self.cell.data.name
        # a folder called glue needs no further words
        if self.facts.source == FOLDER and self.facts.folder == GLUE_FOLDER:
            name = FROM_GLUE.sub("", name, count=1)
        generated = ", generated, not GLUE" if self.facts.source == SAMPLE else ""
        limit = self.cell.data.max_train_rows
        most = f", at most {limit:,} training examples" if limit else ""
        return f"{name}{generated}{tasks}{most}"

    def shown(self, task: str) -> str:
        """A task as people see it."""
        return shown_task(task, self.cell.data.slug)

    @property
    def shown_tasks(self) -> list[str]:
        """The tasks as people see them."""
        return [self.shown(task) for task in self.tasks]

    @property
    def has_small_files(self) -> bool:
        """Whether some model does not hold every parameter in 4 bytes."""
        return any(record.sizes and record.sizes.file_bytes for record in self.records)

    @property
    def writes(self) -> bool:
        """Whether its predictions are texts."""
        return all(record.task.form == TEXT.name for record in self.records)

    @property
    def baseline_name(self) -> str:
        """How tables name the constant prediction behind :attr:`baselines`."""
        forms = {record.task.form for record in self.records}
        for form in FORMS.values():
            if forms == {form.name}:
                return form.baseline
        return CLASSES.baseline

    # --- its tasks and columns

    @cached_property
    def tasks(self) -> list[str]:
        """The tasks of its records: those of GLUE in their order, then others by name."""
        names = {task for record in self.records for task in record.cell.tasks}
        order = {name: i for i, name in enumerate(GLUE)}
        return sorted(names, key=lambda name: (order.get(name, len(order)), name))

    @cached_property
    def columns(self) -> list[ScoreColumn]:
        """Evaluation sets by task, each by its first metric.

        A task on which every cell failed still has its columns, for the footnote.
        """
        columns: list[ScoreColumn] = []
        for task in self.tasks:
            records = [r for r in self.records if task in r.cell.tasks]
            classes: tuple[str, ...] = ()
            if task not in KNOWN:
                classes = next((r.task.labels for r in records if r.task.labels), ())
            for evaluation, metric in _scored_sets(records) or _labelled_sets(records):
                column = ScoreColumn(task, evaluation, metric, classes, self.cell.data.slug)
                columns.append(column)
        return columns

    @property
    def averaged(self) -> list[ScoreColumn]:
        """The columns of all means."""
        return [column for column in self.columns if column not in self.left_out_of_means]

    @cached_property
    def printed_columns(self) -> list[ScoreColumn]:
        """The columns, and those of the metrics that papers print beside theirs."""
        measured = {column for _, column in self._scores}
        printed: list[ScoreColumn] = []
        for column in self.columns:
            printed.append(column)
            further: Sequence[str] = BESIDE.get(column.metric, ())
            if column.task not in KNOWN:
                further = self._metrics_as_typed(column)
            for metric in further:
                other = replace(column, metric=metric)
                if other in measured and other not in printed:
                    printed.append(other)
        return printed

    def _metrics_as_typed(self, column: ScoreColumn) -> list[str]:
        """The metrics of a user's own task in the order in which its records have them."""
        metrics: dict[str, None] = {}
        for record in self.records:
            if column.task in record.cell.tasks:
                metrics |= dict.fromkeys(record.scores.get(column.evaluation, {}))
        return list(metrics)

    # --- its rows and their records

    @cached_property
    def systems(self) -> list[str]:
        """Labels of rows: the teacher, then others in their order or by name, each full row with
        its ablations."""
        rows: set[tuple[str, bool, str, str]] = set()
        for record in self.records:
            full = record.cell.ablation_of
            label = record.cell.label
            rows.add((full or label, full is not None, label, record.row))
        ordered = sorted(rows)
        if self.order:
            number = {label: place for place, label in enumerate(self.order)}
            # an ablation that was not named stays with its full row
            ordered.sort(key=lambda row: number.get(row[2], number.get(row[0], len(number))))
        labels = [row for _, _, _, row in ordered]
        return sorted(labels, key=lambda row: row != TEACHER)

    @cached_property
    def students(self) -> list[str]:
        """The rows but the teacher."""
        return [label for label in self.systems if label != TEACHER]

    @cached_property
    def full_students(self) -> list[str]:
        """The students that are no ablations."""
        full = []
        for label in self.students:
            if any(record.cell.ablation_of is None for record in self.records_of(label)):
                full.append(label)
        return full

    @cached_property
    def _by_row(self) -> dict[str, list[Record]]:
        """Row -> its records, by task and seed."""
        rows: dict[str, list[Record]] = {}
        for record in sorted(self.records, key=lambda r: (r.cell.tasks, r.cell.seed, r.key)):
            rows.setdefault(record.row, []).append(record)
        return rows

    @cached_property
    def _by_task(self) -> dict[tuple[str, str], list[Record]]:
        """(row, task) -> its records, in the order of their seeds."""
        by_task: dict[tuple[str, str], list[Record]] = {}
        for label, records in self._by_row.items():
            for record in records:
                for task in dict.fromkeys(record.cell.tasks):
                    by_task.setdefault((label, task), []).append(record)
        return by_task

    def records_of(self, label: str, task: str | None = None) -> list[Record]:
        """The records of a row, on one task or on all, in the order of their seeds."""
        if task is None:
            return list(self._by_row.get(label, ()))
        return list(self._by_task.get((label, task), ()))

    def finished(self, label: str, column: ScoreColumn) -> list[Record]:
        """The finished records of a row in a column, in the order of their seeds."""
        done = [r for r in self.records_of(label, column.task) if r.status == "ok"]
        return [r for r in done if column.metric in r.scores.get(column.evaluation, ())]

    def called(self, label: str) -> str:
        """The name of a row as tables print it: ``distilbert (second step only)``.

        CSV files have the label alone.
        """
        records = self.records_of(label)
        plain = records[0].called if records else label
        return self.names.get(label) or plain.replace(self.shared_suffix, "", 1)

    @cached_property
    def shared_suffix(self) -> str:
        """What the choices of a run added to the label of every trained row; tables leave it out.

        An example is `` (fast kernels)``.
        """
        suffixes: set[str] = set()
        for record in self.records:
            cell = record.cell
            if cell.method in (TEACHER, *FINISHED):
                continue
            if cell.search is not None:
                return ""
            suffixes.add(cell.label.removeprefix(row_as_typed(cell)))
        return suffixes.pop() if len(suffixes) == 1 else ""

    # --- their scores

    @cached_property
    def _scores(self) -> dict[Place, dict[int, float]]:
        """(row, column) -> seed -> score in percent, of all metrics."""
        scores: dict[Place, dict[int, float]] = {}
        for label, records in self._by_row.items():
            for record in records:
                if record.status != "ok":
                    continue
                task = "+".join(record.cell.tasks)
                for evaluation, metrics in record.scores.items():
                    for metric, score in metrics.items():
                        column = ScoreColumn(task, evaluation, metric)
                        scores.setdefault((label, column), {})[record.cell.seed] = 100 * score
        return scores

    def values(self, label: str, column: ScoreColumn) -> dict[int, float]:
        """Seed -> score in percent."""
        return self._scores.get((label, column), {})

    @cached_property
    def summaries(self) -> Mapping[Place, Summary]:
        """(row, column) -> mean and deviation over seeds, in percent, where it has a score."""
        return {place: summarise(list(values.values())) for place, values in self._scores.items()}

    def means(self, label: str) -> list[float]:
        """The means over seeds of a row, in the columns that it has."""
        return [
            self.summaries[label, column].mean
            for column in self.columns
            if (label, column) in self.summaries
        ]

    @cached_property
    def mean_scores(self) -> Mapping[str, float]:
        """Row -> its mean over :attr:`averaged`, where it has all of them."""
        scores: dict[str, float] = {}
        for label in self.systems:
            places = [(label, column) for column in self.averaged]
            if places and all(place in self.summaries for place in places):
                scores[label] = summarise([self.summaries[place].mean for place in places]).mean
        return scores

    @cached_property
    def rows(self) -> list[str]:
        """The rows in the order of a report's tables; its summary has the teacher by mean too.

        They are as they were typed, where they were. Else the teacher comes first, then full rows
        by their mean, each with its ablations. Rows without a mean come last.
        """
        if self.order:
            return self.systems

        # full rows, and the ablations of each, which stand behind it
        ablations: dict[str, list[str]] = {}
        full_rows: list[str] = []
        for label in self.systems:
            full = self.records_of(label)[0].cell.ablation_of
            if full is not None and full in self.systems:
                ablations.setdefault(full, []).append(label)
            elif label != TEACHER:
                full_rows.append(label)

        # the highest mean first; of equal ones as their names are
        full_rows.sort(key=lambda label: -self.mean_scores.get(label, -math.inf))

        # the teacher before all
        rows = [TEACHER] if TEACHER in self.systems else []
        for label in full_rows:
            rows += [label, *ablations.get(label, ())]
        return rows

    @property
    def majority(self) -> float | None:
        """The mean of :attr:`baselines` over :attr:`averaged`; None where a column has none."""
        known = [self.baselines[column] for column in self.averaged if column in self.baselines]
        if not known or len(known) < len(self.averaged):
            return None
        return sum(known) / len(known)

    # --- their seeds

    def has_seeds_apart(self, labels: Iterable[str], columns: Iterable[ScoreColumn]) -> bool:
        """Whether seeds of one of these rows end in results of several kinds in one of these
        columns (:mod:`bench.stats.seeds`)."""
        rows = set(labels)
        return any(rows & self._seeds_apart.get(column, frozenset()) for column in columns)

    @cached_property
    def _seeds_apart(self) -> Mapping[ScoreColumn, frozenset[str]]:
        """Column -> its rows whose seeds are far apart."""
        columns: dict[ScoreColumn, dict[str, list[float]]] = {}
        for (label, column), scores in self._scores.items():
            if not self._has_one_model(label):
                columns.setdefault(column, {})[label] = list(scores.values())
        return {column: with_seeds_apart(rows) for column, rows in columns.items()}

    def _has_one_model(self, label: str) -> bool:
        """Whether a row is a finished model, which no seed trains again."""
        return any(is_one_model(record.cell) for record in self.records_of(label))

    def lacks_seeds(self, label: str, column: ScoreColumn) -> bool:
        """Whether a student's mean is of fewer seeds than others of this column have: it is luckier
        or unluckier by that."""
        seeds = len(self.values(label, column))
        if self._has_one_model(label):
            return False
        return 0 < seeds < self._most_seeds.get(column, 0)

    @cached_property
    def _most_seeds(self) -> dict[ScoreColumn, int]:
        """Column -> the largest number of seeds that a student has there."""
        most: dict[ScoreColumn, int] = {}
        students = set(self.students)
        for (label, column), scores in self._scores.items():
            if label in students:
                most[column] = max(most.get(column, 0), len(scores))
        return most

    # --- what may be said of them

    def no_verdict_in(self, columns: Sequence[ScoreColumn]) -> str:
        """Why nothing is ranked, tested or called better in these columns; "" where it may be."""
        trained = [
            label for label in self.students if not is_one_model(self.records_of(label)[0].cell)
        ]
        # a mean has no more seeds than the column with the fewest
        fewest: int | None = None
        for column in columns:
            seeds = max((len(self.values(label, column)) for label in trained), default=0)
            if seeds and (fewest is None or seeds < fewest):
                fewest = seeds
        return why_no_verdict(self.cell.data.slug, fewest)

    @property
    def no_verdict(self) -> str:
        """Why no mean is ranked, tested or called better; "" where it may be."""
        return self.no_verdict_in(self.averaged)

    @cached_property
    def complete(self) -> list[str]:
        """The students with all columns of the mean and, in each, all seeds."""
        complete = []
        for label in self.students:
            lacks = any(self.lacks_seeds(label, column) for column in self.averaged)
            if label in self.mean_scores and not lacks:
                complete.append(label)
        return complete

    @property
    def sound(self) -> list[str]:
        """The complete rows without a suspicion in any column of the mean: no other mean is in
        bold. There are none where there is no verdict."""
        if self.no_verdict:
            return []
        sound = []
        for label in self.complete:
            if not any(self.suspicions.get((label, column)) for column in self.averaged):
                sound.append(label)
        return sound

    def is_suspect(self, label: str) -> bool:
        """Whether a row is suspect in half of the columns of the mean, and scores no more than a
        constant there: no table calls it best."""
        constant = 0
        for column in self.averaged:
            summary = self.summaries.get((label, column))
            if not self.suspicions.get((label, column)) or summary is None:
                continue
            if summary.mean <= self.baselines.get(column, summary.mean) + ROUNDING:
                constant += 1
        return 0 < len(self.averaged) <= 2 * constant


def _scored_sets(records: Iterable[Record]) -> list[tuple[str, str]]:
    """Evaluation set and first metric of each set that these records were scored on."""
    sets: dict[tuple[str, str], None] = {}
    for record in records:
        for evaluation, scores in record.scores.items():
            if scores:
                sets[evaluation, next(iter(scores))] = None
    return list(sets)


def _labelled_sets(records: Iterable[Record]) -> list[tuple[str, str]]:
    """The sets that these records would have been scored on, and the metric."""
    sets: dict[tuple[str, str], None] = {}
    for record in records:
        metric = next(iter(record.task.metrics), "score")
        for evaluation in record.cell.data.evaluation:
            if evaluation not in record.task.unlabelled:
                sets[evaluation, metric] = None
    return list(sets)
