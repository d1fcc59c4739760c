"""Records sorted into groups that share a table. No torch, no clock."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from bench.data.tasks import GLUE
from bench.record.cell import TEACHER
from bench.record.keys import canonical
from bench.record.newest import LeftOut, newest
from bench.record.recipe import ADAMW
from bench.record.schema import Record
from bench.record.task_facts import FOLDER, SAMPLE, DataFacts, data_facts
from bench.stats.metrics import label_of
from bench.stats.ratios import Ratio
from bench.stats.summary import Summary, summarise

GLUE_FOLDER = "glue"
"""The name of the folder whose files are called GLUE without more words."""
FROM_GLUE = re.compile(rf" from the folder {GLUE_FOLDER}(?=$|,)")
GENERATED = ", generated, not GLUE"
"""What follows the name of the sample suite, for people."""


@dataclass(frozen=True)
class ScoreColumn:
    """One evaluation set of one task, shown by one metric."""

    task: str
    evaluation: str
    metric: str

    @property
    def name(self) -> str:
        """The task, and which of its evaluation sets where it has two."""
        return {"matched": f"{self.task}-m", "mismatched": f"{self.task}-mm"}.get(self.evaluation, self.task)

    @property
    def title(self) -> str:
        return f"{self.name} ({label_of(self.metric)})"


@dataclass
class ReportGroup:
    """Records that share a table: same data source, teacher, recipe and numerics."""

    data: str
    """what its examples are, for people"""
    slug: str
    """the same, as folders of records have it"""
    max_train_rows: int | None
    teacher: str
    base: str
    """sha256 of the weights that the teacher was made of"""
    origin: str
    recipe: str
    epochs: float
    precision: str
    threads: int
    device: str
    numeric: str
    """all of what changes the arithmetic, as JSON"""
    optimizer: str
    """of the students, where the recipe is common to all; ``adamw`` unless another was chosen"""
    identity: tuple[object, ...]
    """what its records have in common and those of no other group have"""
    records: list[Record] = field(default_factory=list)
    speed_ups: dict[str, Ratio] = field(default_factory=dict)
    """system -> times faster than the teacher, under ``speed_conditions``"""
    latencies: dict[str, float] = field(default_factory=dict)
    """system -> median milliseconds of a batch under the same conditions"""
    speed_conditions: str = ""
    order: list[str] = field(default_factory=list)
    """labels of rows in this order, where it is given; other rows come after them"""
    names: Mapping[str, str] = field(default_factory=dict)
    """row -> its name in a paper"""
    suspicions: dict[tuple[str, ScoreColumn], list[str]] = field(default_factory=dict)
    """(row, column) -> what is suspect about its answers"""
    baselines: dict[ScoreColumn, float] = field(default_factory=dict)
    """column -> percent that the best single answer to every example scores"""
    left_out: list[LeftOut] = field(default_factory=list)
    """records under the name of a newer training"""
    aside: Sequence[str] = ()
    """files of the folder of records that are not used as they are, a line each"""
    results: str = "results/runs"
    """the folder of its records, as commands name it"""
    texts: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """key of a start made from text -> the options that name that text, from all records of the folder"""

    @property
    def majority(self) -> float | None:
        """The mean of :attr:`baselines` over all columns; None where a column has none."""
        found = [self.baselines[column] for column in self.columns if column in self.baselines]
        return sum(found) / len(found) if found and len(found) == len(self.columns) else None

    @property
    def title(self) -> str:
        return f"{self._examples} ({', '.join(self.tasks)}){self._limit}; teacher {self.teacher}, {self.origin}"

    @property
    def described_data(self) -> str:
        """What its examples are, and how many of them were trained on at most."""
        return f"{self._examples}{self._limit}"

    @property
    def _limit(self) -> str:
        return f", at most {self.max_train_rows:,} training examples" if self.max_train_rows else ""

    @property
    def _examples(self) -> str:
        """What the examples are, for people: a folder that is called glue needs no further words, generated examples do."""
        if self.facts.source == SAMPLE:
            return self.data + GENERATED
        known = self.facts.source == FOLDER and self.facts.folder == GLUE_FOLDER
        return FROM_GLUE.sub("", self.data, count=1) if known else self.data

    @property
    def facts(self) -> DataFacts:
        """What its examples are."""
        return data_facts(self.slug)

    @property
    def tasks(self) -> list[str]:
        named = {task for record in self.records for task in record.cell.tasks}
        order = {name: i for i, name in enumerate(GLUE)}
        return sorted(named, key=lambda name: (order.get(name, len(order)), name))

    @property
    def columns(self) -> list[ScoreColumn]:
        """Evaluation sets by task; a task on which every cell failed still has its column, for the footnote."""
        found: list[ScoreColumn] = []
        for task in self.tasks:
            records = [r for r in self.records if task in r.cell.tasks]
            scored = [(name, next(iter(scores))) for r in records for name, scores in r.scores.items() if scores]
            if not scored:
                scored = [
                    (name, next(iter(r.task.metrics), "score"))
                    for r in records
                    for name in r.cell.data.evaluation
                    if name not in r.task.unlabelled
                ]
            found += [ScoreColumn(task, name, metric) for name, metric in dict.fromkeys(scored)]
        return found

    @property
    def systems(self) -> list[str]:
        """Labels of rows: the teacher first, then as ``order`` has them, then by their full rows, each with its ablations."""
        rows = sorted(
            {
                (r.cell.ablation_of or r.cell.label, r.cell.ablation_of is not None, r.cell.label, r.row)
                for r in self.records
            }
        )
        if self.order:
            place = {label: number for number, label in enumerate(self.order)}
            # an ablation that was not named stays with its full row
            rows.sort(key=lambda row: place.get(row[2], place.get(row[0], len(place))))
        labels = [row for _, _, _, row in rows]
        return [label for label in labels if label == TEACHER] + [label for label in labels if label != TEACHER]

    @cached_property
    def _by_row(self) -> dict[str, list[Record]]:
        """Made at the first look: a group is complete before anybody looks at its rows."""
        rows: dict[str, list[Record]] = {}
        for record in sorted(self.records, key=lambda r: (r.cell.tasks, r.cell.seed, r.key)):
            rows.setdefault(record.row, []).append(record)
        return rows

    def of(self, label: str, task: str | None = None) -> list[Record]:
        return [r for r in self._by_row.get(label, ()) if task is None or task in r.cell.tasks]

    def called(self, label: str) -> str:
        """The name of a row as tables print it: ``distilbert (second step only)``. CSV files have the label alone."""
        return self.names.get(label) or next((record.called for record in self.of(label)), label)

    def values(self, label: str, column: ScoreColumn) -> dict[int, float]:
        """Seed -> score in percent."""
        return {
            r.cell.seed: 100 * r.scores[column.evaluation][column.metric]
            for r in self.of(label, column.task)
            if r.status == "ok" and column.evaluation in r.scores
        }

    @cached_property
    def summaries(self) -> Mapping[tuple[str, ScoreColumn], Summary]:
        """(row, column) -> mean and deviation over seeds, in percent; without rows that have no score there."""
        return {
            (label, column): summarise(list(values.values()))
            for label in self.systems
            for column in self.columns
            if (values := self.values(label, column))
        }

    def means(self, label: str) -> list[float]:
        """The means over seeds of a row, in the columns that it has."""
        return [self.summaries[label, column].mean for column in self.columns if (label, column) in self.summaries]

    @cached_property
    def _most_seeds(self) -> dict[ScoreColumn, int]:
        students = [label for label in self.systems if label != TEACHER]
        return {c: max((len(self.values(label, c)) for label in students), default=0) for c in self.columns}

    def row_limit(self, task: str) -> int | None:
        """How many training rows were drawn for a task; None where all were used."""
        return next(
            (limit for r in self.records if task in r.cell.tasks and (limit := r.cell.data.max_train_rows)), None
        )

    def lacks_seeds(self, label: str, column: ScoreColumn) -> bool:
        """Whether a student's mean is of fewer seeds than others of this column have: luckier or unluckier by that."""
        return label != TEACHER and 0 < len(self.values(label, column)) < self._most_seeds[column]


def groups(records: Iterable[Record]) -> list[ReportGroup]:
    """Records sorted into tables. Those of different data, teachers, recipes, optimisers or precisions never meet in one.

    A table with a limit of training examples also has the records that its systems have without a limit, on tasks with no more
    examples than the limit: as if all had been run with that limit. A table that another one holds completely is not made.
    """
    found: dict[tuple, ReportGroup] = {}
    records = list(records)
    for record in records:
        if record.cell.method != TEACHER:
            _group(found, record).records.append(record)
    for key, group in found.items():
        whole = found.get((key[0], None, *key[2:]))
        if group.max_train_rows and whole:
            group.records += _records_of_small_tasks(group, whole)
    for record in records:  # a teacher belongs to every table of its students, whatever their recipe
        cell = record.cell
        if cell.method != TEACHER:
            continue
        homes = [
            group
            for group in found.values()
            if any(
                r.cell.teacher == cell.teacher and r.cell.data == cell.data and r.cell.numeric == cell.numeric
                for r in group.records
            )
        ]
        for group in homes or [_group(found, record)]:
            group.records.append(record)
    made = [found[key] for key in sorted(found, key=str)]
    keys = {id(group): {r.key for r in group.records} for group in made}
    made = [g for g in made if not any(keys[id(g)] < keys[id(other)] for other in made)]
    for group in made:
        group.records, group.left_out = newest(group.records)
    return made


def _records_of_small_tasks(group: ReportGroup, whole: ReportGroup) -> list[Record]:
    """Of the systems of a table with a limit: their records on tasks that the limit leaves whole."""
    rows, tasks = set(group.systems), set(group.tasks)
    return [
        r
        for r in whole.records
        if r.row in rows and not tasks & set(r.cell.tasks) and r.cell.data.rows["train"] <= (group.max_train_rows or 0)
    ]


def _group(found: dict[tuple, ReportGroup], record: Record) -> ReportGroup:
    """The table to which a record belongs."""
    cell = record.cell
    limit, recipe, epochs = cell.data.max_train_rows, cell.recipe["name"], cell.recipe["epochs"]
    optimizer = cell.recipe.get("optimizer", ADAMW)
    key: tuple[object, ...] = (
        cell.data.slug,
        limit,
        cell.teacher.base,
        cell.teacher.origin,
        recipe,
        epochs,
        canonical(cell.numeric.identity()),
        *([optimizer] if optimizer != ADAMW else []),
    )
    return found.setdefault(
        key,
        ReportGroup(
            cell.data.name,
            cell.data.slug,
            limit,
            cell.teacher.name,
            cell.teacher.base,
            cell.teacher.origin,
            recipe,
            epochs,
            cell.numeric.precision,
            cell.numeric.threads,
            cell.numeric.device,
            canonical(cell.numeric.identity()),
            optimizer,
            key,
        ),
    )
