"""Records sorted into groups that share a table. No torch, no clock."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from bench.record.cell import FINISHED, TEACHER, Cell, is_one_model
from bench.record.differences import LeftOut, newest
from bench.record.keys import canonical
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
from bench.report.table import Table
from bench.request.recorded import PretrainingText
from bench.stats.form import CLASSES, FORMS, TEXT
from bench.stats.metrics import label_of, scored_class
from bench.stats.ratios import Ratio
from bench.stats.seeds import with_seeds_apart
from bench.stats.summary import Summary, summarise

GLUE_FOLDER = "glue"
"""The name of the folder whose files are called GLUE without more words."""
FROM_GLUE = re.compile(rf" from the folder {GLUE_FOLDER}(?=$|,)")
BESIDE: Mapping[str, tuple[str, ...]] = {
    "spearman": ("pearson",),
    "bleu": ("rouge_l",),
    "rouge_l": ("bleu",),
}
"""A metric of a known task -> others that are printed beside it where they were measured. They have
columns, and are in no mean and no test. Of a user's own task all metrics are printed."""
KEPT = 0.97
"""Share of the teacher's score that counts as kept where no other is asked for."""


GENERATED = (
    "Nothing is ranked, tested or called better: these data are generated, and show that the program "
    "works, not which method is better."
)
ONE_SEED = (
    "Nothing is ranked, tested or called better where there is one seed: a difference may be that of "
    "two training runs, not of two methods."
)


def why_no_verdict(data: str, seeds: int | None) -> str:
    """The sentence that says why nothing is ranked, tested or called better; "" where it may be.

    Args:
        data: the short name of the source of the examples.
        seeds: of the row that was trained most often; None where each row is one finished model.
    """
    if data_facts(data).source == SAMPLE:
        return GENERATED
    return ONE_SEED if seeds == 1 else ""


@dataclass(frozen=True)
class ScoreColumn:
    """One evaluation set of one task, shown by one metric."""

    task: str
    evaluation: str
    metric: str
    classes: tuple[str, ...] = field(default=(), compare=False)
    """names of the classes of a user's own task: a metric of one class is printed with it"""
    data: str = field(default="", compare=False)
    """the short name of the source of its examples: generated ones are shown as such"""

    @property
    def shown(self) -> str:
        """The task as people see it."""
        return shown_task(self.task, self.data)

    @property
    def name(self) -> str:
        """The task as people see it, and which of its evaluation sets where it has two."""
        suffixes = {"matched": "-m", "mismatched": "-mm"}
        return f"{self.shown}{suffixes.get(self.evaluation, '')}"

    @property
    def label(self) -> str:
        """The metric as tables print it."""
        if only := scored_class(self.metric, self.classes):
            return f"{label_of('f1')} of {only}"
        return label_of(self.metric)

    @property
    def title(self) -> str:
        return f"{self.name} ({self.label})"


@dataclass
class ReportGroup:
    """Records that share a table: same data source, teacher, recipe and numerics; what their folder says of them; and their tables.

    Attributes:
        cell: of one of its students: its data, teacher, recipe and numerics are those of all.
        identity: what its records have in common and those of no other group have.
        speed_ups, latencies: system -> times faster than the teacher, and median milliseconds of a batch, under ``speed_conditions``.
        speed_others: cores that other processes used meanwhile; 0 on an idle machine.
        order: labels of rows in this order, where it is given; other rows come after them.
        names: row -> its name in a paper.
        reference: the row that others are compared with; "" for the one that :func:`bench.report.tables.differences.reference_of` chooses.
        suspicions: (row, column) -> what is suspect about its answers.
        partly_suspect: the (row, column) whose suspicions are of some classes alone.
        baselines: column -> percent that the best single answer to every example scores.
        left_out: records under the name of a newer training.
        aside: files of the folder of records that are not used as they are, a line each.
        results: the folder of its records, as commands name it.
        texts: key of a start made from text -> that text, from all records of the folder.
        answers: column -> its records' stored answers, resampled.
        left_out_of_means: columns in which the teacher is not shown to be better than a constant: what students lose there is noise.
        mean_intervals: complete row -> its mean score, with its interval.
        pairs: two complete rows with stored answers -> their mean difference, first - second.
        kept: share of the teacher's score that counts as kept, tested as non-inferiority.
        tables: of its report, in their order.
    """

    cell: Cell
    identity: tuple[object, ...]
    records: list[Record] = field(default_factory=list)
    speed_ups: dict[str, Ratio] = field(default_factory=dict)
    latencies: dict[str, float] = field(default_factory=dict)
    speed_conditions: str = ""
    speed_backend: str = ""
    speed_others: float = 0.0
    order: list[str] = field(default_factory=list)
    names: Mapping[str, str] = field(default_factory=dict)
    reference: str = ""
    suspicions: dict[tuple[str, ScoreColumn], list[str]] = field(default_factory=dict)
    partly_suspect: Collection[tuple[str, ScoreColumn]] = ()
    baselines: dict[ScoreColumn, float] = field(default_factory=dict)
    left_out: LeftOut = field(default_factory=list)
    aside: Sequence[str] = ()
    results: str = "results/runs"
    texts: dict[str, PretrainingText] = field(default_factory=dict)
    answers: Mapping[ScoreColumn, Any] = field(default_factory=dict)
    left_out_of_means: Collection[ScoreColumn] = ()
    mean_intervals: Mapping[str, Any] = field(default_factory=dict)
    pairs: Mapping[tuple[str, str], Any] = field(default_factory=dict)
    kept: float = KEPT
    tables: Sequence[Table] = ()

    @property
    def optimizer(self) -> str:
        """Of the students, where the recipe is common to all; ``adamw`` unless another was chosen."""
        return str(self.cell.recipe.get("optimizer", ADAMW))

    @property
    def recipe(self) -> str:
        return str(self.cell.recipe["name"])

    @property
    def epochs(self) -> float:
        return float(self.cell.recipe["epochs"])

    @property
    def title(self) -> str:
        tasks, teacher = f" ({', '.join(self.shown_tasks)})", self.cell.teacher
        return f"{self.described_data(tasks)}; teacher {teacher.name}, {teacher.origin}"

    @property
    def heading(self) -> str:
        """The title of a page: its examples and tasks."""
        return f"{self.described_data()}: {', '.join(self.shown_tasks)}"

    def described_data(self, tasks: str = "") -> str:
        """What its examples are, and how many of them were trained on at most; ``tasks``: words between the two."""
        name, limit = self.cell.data.name, self.cell.data.max_train_rows
        # needs no further words
        if self.facts.source == FOLDER and self.facts.folder == GLUE_FOLDER:
            name = FROM_GLUE.sub("", name, count=1)
        generated = ", generated, not GLUE" if self.facts.source == SAMPLE else ""
        return f"{name}{generated}{tasks}" + (
            f", at most {limit:,} training examples" if limit else ""
        )

    @property
    def facts(self) -> DataFacts:
        """What its examples are."""
        return data_facts(self.cell.data.slug)

    def shown(self, task: str) -> str:
        """A task of the group as people see it."""
        return shown_task(task, self.cell.data.slug)

    @property
    def shown_tasks(self) -> list[str]:
        """The tasks as people see them."""
        return list(map(self.shown, self.tasks))

    # What is cached is made at the first look: a group has all its records and its order before anybody looks.

    @cached_property
    def tasks(self) -> list[str]:
        names = {task for record in self.records for task in record.cell.tasks}
        order = {name: i for i, name in enumerate(GLUE)}
        return sorted(names, key=lambda name: (order.get(name, len(order)), name))

    @cached_property
    def columns(self) -> list[ScoreColumn]:
        """Evaluation sets by task; a task on which every cell failed still has its column, for the footnote."""
        columns: list[ScoreColumn] = []
        for task in self.tasks:
            records = [r for r in self.records if task in r.cell.tasks]
            sets = [
                (name, next(iter(scores)))
                for r in records
                for name, scores in r.scores.items()
                if scores
            ]
            for r in records if not sets else ():
                labelled = [
                    name for name in r.cell.data.evaluation if name not in r.task.unlabelled
                ]
                sets += [(name, next(iter(r.task.metrics), "score")) for name in labelled]
            classes: tuple[str, ...] = ()
            if task not in KNOWN:
                classes = next((r.task.labels for r in records if r.task.labels), ())
            data = self.cell.data.slug
            columns += [
                ScoreColumn(task, name, metric, classes, data)
                for name, metric in dict.fromkeys(sets)
            ]
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
        scores = [
            record.scores.get(column.evaluation, {})
            for record in self.records
            if column.task in record.cell.tasks
        ]
        return list(dict.fromkeys(metric for own in scores for metric in own))

    @cached_property
    def systems(self) -> list[str]:
        """Labels of rows: the teacher first, then as ``order`` has them, then by their full rows, each with its ablations."""
        rows = sorted(
            {
                (
                    r.cell.ablation_of or r.cell.label,
                    r.cell.ablation_of is not None,
                    r.cell.label,
                    r.row,
                )
                for r in self.records
            }
        )
        if self.order:
            place = {label: number for number, label in enumerate(self.order)}
            # an ablation that was not named stays with its full row
            rows.sort(key=lambda row: place.get(row[2], place.get(row[0], len(place))))
        return sorted((row for _, _, _, row in rows), key=lambda row: row != TEACHER)

    @cached_property
    def students(self) -> list[str]:
        return [label for label in self.systems if label != TEACHER]

    @cached_property
    def _by_row(self) -> dict[str, list[Record]]:
        rows: dict[str, list[Record]] = {}
        for record in sorted(self.records, key=lambda r: (r.cell.tasks, r.cell.seed, r.key)):
            rows.setdefault(record.row, []).append(record)
        return rows

    @cached_property
    def _by_place(self) -> dict[tuple[str, str], list[Record]]:
        """(row, task) -> its records, in the order of their seeds."""
        places: dict[tuple[str, str], list[Record]] = {}
        for label, records in self._by_row.items():
            for record in records:
                for task in dict.fromkeys(record.cell.tasks):
                    places.setdefault((label, task), []).append(record)
        return places

    def records_of(self, label: str, task: str | None = None) -> list[Record]:
        if task is None:
            return list(self._by_row.get(label, ()))
        return list(self._by_place.get((label, task), ()))

    def finished(self, label: str, column: ScoreColumn) -> list[Record]:
        """The finished records of a row in a column, in the order of their seeds."""
        done = [r for r in self.records_of(label, column.task) if r.status == "ok"]
        return [r for r in done if column.metric in r.scores.get(column.evaluation, ())]

    def called(self, label: str) -> str:
        """The name of a row as tables print it: ``distilbert (second step only)``. CSV files have the label alone."""
        plain = next((record.called for record in self.records_of(label)), label).replace(
            self.shared_suffix, "", 1
        )
        return self.names.get(label) or plain

    @cached_property
    def shared_suffix(self) -> str:
        """What the choices of a run added to the label of every row that was trained, as `` (fast kernels)``: tables leave it out."""
        trained = [r.cell for r in self.records if r.cell.method not in (TEACHER, *FINISHED)]
        suffixes = {
            cell.label.removeprefix(row_as_typed(cell)) for cell in trained if cell.search is None
        }
        return (
            suffixes.pop()
            if len(suffixes) == 1 and all(cell.search is None for cell in trained)
            else ""
        )

    @cached_property
    def _scores(self) -> dict[tuple[str, ScoreColumn], dict[int, float]]:
        """(row, column) -> seed -> score in percent, of all metrics."""
        scores: dict[tuple[str, ScoreColumn], dict[int, float]] = {}
        for record in (r for records in self._by_row.values() for r in records if r.status == "ok"):
            for evaluation, metrics in record.scores.items():
                for metric, score in metrics.items():
                    column = ScoreColumn("+".join(record.cell.tasks), evaluation, metric)
                    scores.setdefault((record.row, column), {})[record.cell.seed] = 100 * score
        return scores

    def values(self, label: str, column: ScoreColumn) -> dict[int, float]:
        """Seed -> score in percent."""
        return self._scores.get((label, column), {})

    @cached_property
    def summaries(self) -> Mapping[tuple[str, ScoreColumn], Summary]:
        """(row, column) -> mean and deviation over seeds, in percent; without rows that have no score there."""
        return {place: summarise(list(values.values())) for place, values in self._scores.items()}

    def has_seeds_apart(self, labels: Iterable[str], columns: Iterable[ScoreColumn]) -> bool:
        """Whether seeds of one of these rows end in results of several kinds in one of these
        columns (:mod:`bench.stats.seeds`)."""
        found = [self._seeds_apart.get(column, frozenset()) for column in columns]
        return any(label in own for own in found for label in labels)

    @cached_property
    def _seeds_apart(self) -> Mapping[ScoreColumn, frozenset[str]]:
        """Column -> its rows whose seeds are far apart."""
        columns: dict[ScoreColumn, dict[str, list[float]]] = {}
        for (label, column), scores in self._scores.items():
            if not any(is_one_model(record.cell) for record in self.records_of(label)):
                columns.setdefault(column, {})[label] = list(scores.values())
        return {column: with_seeds_apart(rows) for column, rows in columns.items()}

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
        places = {label: [(label, column) for column in self.averaged] for label in self.systems}
        whole = {
            label: own
            for label, own in places.items()
            if own and all(place in self.summaries for place in own)
        }
        return {
            label: summarise([self.summaries[place].mean for place in own]).mean
            for label, own in whole.items()
        }

    @property
    def has_small_files(self) -> bool:
        """Whether some model does not hold every parameter in 4 bytes."""
        return any(record.sizes and record.sizes.file_bytes for record in self.records)

    @property
    def writes(self) -> bool:
        """Whether its answers are texts."""
        return all(record.task.form == TEXT.name for record in self.records)

    @property
    def baseline_name(self) -> str:
        """What the answers behind :attr:`baselines` are called."""
        forms = {record.task.form for record in self.records}
        return next(
            (form.baseline for form in FORMS.values() if forms == {form.name}), CLASSES.baseline
        )

    @property
    def majority(self) -> float | None:
        """The mean of :attr:`baselines` over :attr:`averaged`; None where a column has none."""
        known = [self.baselines[column] for column in self.averaged if column in self.baselines]
        return sum(known) / len(known) if known and len(known) == len(self.averaged) else None

    def lacks_seeds(self, label: str, column: ScoreColumn) -> bool:
        """Whether a student's mean is of fewer seeds than others of this column have: luckier or unluckier by that."""
        is_given = any(is_one_model(record.cell) for record in self.records_of(label))
        own = len(self.values(label, column))
        return not is_given and 0 < own < self._most_seeds.get(column, 0)

    @cached_property
    def _most_seeds(self) -> dict[ScoreColumn, int]:
        """Column -> the largest number of seeds that a student has there."""
        most: dict[ScoreColumn, int] = {}
        students = set(self.students)
        for (label, column), scores in self._scores.items():
            if label in students:
                most[column] = max(most.get(column, 0), len(scores))
        return most

    def no_verdict_in(self, columns: Sequence[ScoreColumn]) -> str:
        """Why nothing is ranked, tested or called better in these columns; "" where it may be."""
        trained = [
            label for label in self.students if not is_one_model(self.records_of(label)[0].cell)
        ]
        # a mean has no more seeds than the column with the fewest
        most = [max((len(self.values(label, c)) for label in trained), default=0) for c in columns]
        return why_no_verdict(self.cell.data.slug, min(filter(None, most), default=None))

    @property
    def no_verdict(self) -> str:
        """Why no mean is ranked, tested or called better; "" where it may be."""
        return self.no_verdict_in(self.averaged)

    @cached_property
    def complete(self) -> list[str]:
        """The students with all columns of the mean and, in each, all seeds."""
        whole = [label for label in self.students if label in self.mean_scores]
        return [
            label
            for label in whole
            if not any(self.lacks_seeds(label, column) for column in self.averaged)
        ]

    @property
    def sound(self) -> list[str]:
        """The complete rows without a suspicion in any column of the mean: no other mean is in bold.

        None where there is no verdict.
        """
        if self.no_verdict:
            return []
        return [
            s
            for s in self.complete
            if not any(self.suspicions.get((s, column)) for column in self.averaged)
        ]

    def is_suspect(self, label: str) -> bool:
        """Whether a row's answers are suspect in half of the columns of the mean, and score no more than a constant: no table calls it best."""
        suspect = [column for column in self.averaged if self.suspicions.get((label, column))]
        means = {
            column: self.summaries[label, column].mean
            for column in suspect
            if (label, column) in self.summaries
        }
        constant = [
            column
            for column, mean in means.items()
            if mean <= self.baselines.get(column, mean) + 1e-9
        ]
        return 0 < len(self.averaged) <= 2 * len(constant)


def groups(records: Iterable[Record]) -> list[ReportGroup]:
    """Records sorted into tables. Those of different data, teachers, recipes, optimisers or precisions never meet in one.

    A table with a limit of training examples also has the records that its systems have without a limit, on tasks with no more
    examples than the limit: as if all had been run with that limit. A table that another one holds completely is not made.
    """
    by_key: dict[tuple, ReportGroup] = {}
    records = list(records)

    def home(cell: Cell) -> ReportGroup:
        optimizer = cell.recipe.get("optimizer", ADAMW)
        key = (
            cell.data.slug,
            cell.data.max_train_rows,
            cell.teacher.base,
            cell.teacher.origin,
            cell.recipe["name"],
            cell.recipe["epochs"],
            canonical(cell.numeric.identity()),
            *([optimizer] if optimizer != ADAMW else []),
        )
        return by_key.setdefault(key, ReportGroup(cell, key))

    for record in records:
        if record.cell.method != TEACHER:
            home(record.cell).records.append(record)
    for key, group in by_key.items():
        whole, limit = by_key.get((key[0], None, *key[2:])), group.cell.data.max_train_rows
        if limit and whole:
            rows, tasks = (
                {r.row for r in group.records},
                {task for r in group.records for task in r.cell.tasks},
            )
            fitting = [
                r for r in whole.records if r.row in rows and r.cell.data.rows["train"] <= limit
            ]
            group.records += [r for r in fitting if not tasks & set(r.cell.tasks)]
    # a teacher belongs to every table of its students, whatever their recipe
    for record in records:
        if record.cell.method == TEACHER:
            own = (record.cell.teacher, record.cell.data, record.cell.numeric)
            homes = [
                group
                for group in by_key.values()
                if any((r.cell.teacher, r.cell.data, r.cell.numeric) == own for r in group.records)
            ]
            for group in homes or [home(record.cell)]:
                group.records.append(record)
    # a teacher of a task that no student has would be a column without students, and no mean be whole
    for group in by_key.values():
        if learned := {
            task for r in group.records if r.cell.method != TEACHER for task in r.cell.tasks
        }:
            group.records = [r for r in group.records if learned.intersection(r.cell.tasks)]
    keys = {key: {r.key for r in group.records} for key, group in by_key.items()}
    kept = [
        by_key[key]
        for key in sorted(by_key, key=str)
        if not any(keys[key] < other for other in keys.values())
    ]
    for group in kept:
        group.records, group.left_out = newest(group.records)
    return kept
