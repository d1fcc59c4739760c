"""The tables of a paper from records: accuracy, reappearance, ablation, cost of training. No torch, no clock."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from bench.data.tasks import GLUE
from bench.plan.cell import TEACHER
from bench.record.schema import Record, Sizes
from bench.stats.ratios import Ratio
from bench.stats.summary import Summary, summarise


def counted(number: int, what: str) -> str:
    """``1 column``, ``3 columns``."""
    return f"{number} {what}{'' if number == 1 else 's'}"


@dataclass(frozen=True)
class Column:
    """One evaluation set of one task, shown by one metric."""

    task: str
    evaluation: str
    metric: str

    @property
    def title(self) -> str:
        name = {"matched": f"{self.task}-m", "mismatched": f"{self.task}-mm"}.get(self.evaluation, self.task)
        return f"{name} ({METRIC_NAMES.get(self.metric, self.metric)})"


METRIC_NAMES = {"accuracy": "acc", "f1": "F1", "matthews": "Matthews", "pearson": "Pearson", "spearman": "Spearman"}


@dataclass
class Group:
    """Records that may stand in one table: same data source, teacher, recipe and numerics."""

    data: str
    slug: str
    max_train_rows: int | None
    teacher: str
    origin: str
    recipe: str
    epochs: float
    precision: str
    threads: int
    records: list[Record] = field(default_factory=list)
    speed_ups: dict[str, Ratio] = field(default_factory=dict)
    """system -> times faster than the teacher, under ``speed_conditions``"""
    latencies: dict[str, float] = field(default_factory=dict)
    """system -> median milliseconds of a batch under the same conditions"""
    speed_conditions: str = ""
    order: list[str] = field(default_factory=list)
    """rows in this order, where it is given"""
    suspicions: dict[tuple[str, Column], list[str]] = field(default_factory=dict)
    """(row, column) -> what is suspect about its answers"""

    @property
    def title(self) -> str:
        limit = f", at most {self.max_train_rows:,} training rows" if self.max_train_rows else ""
        return f"{self.data}{limit}; teacher {self.teacher}, {self.origin}"

    @property
    def tasks(self) -> list[str]:
        named = {task for record in self.records for task in record.cell.tasks}
        order = {name: i for i, name in enumerate(GLUE)}
        return sorted(named, key=lambda name: (order.get(name, len(order)), name))

    @property
    def columns(self) -> list[Column]:
        """Evaluation sets by task; a task on which every cell failed still has its column, for the footnote."""
        found: list[Column] = []
        for task in self.tasks:
            records = [r for r in self.records if task in r.cell.tasks]
            scored = [(name, next(iter(scores))) for r in records for name, scores in r.scores.items() if scores]
            if not scored:
                metric = GLUE[task].metrics[0] if task in GLUE else "score"
                unscored = GLUE[task].evaluation if task in GLUE else ()
                hidden = {e.name for e in unscored if not e.labelled}
                scored = [(name, metric) for r in records for name in r.cell.data.evaluation if name not in hidden]
            found += [Column(task, name, metric) for name, metric in dict.fromkeys(scored)]
        return found

    @property
    def systems(self) -> list[str]:
        """Labels of rows: the teacher first, then in the order of their full rows, each followed by its ablations."""
        rows = sorted(
            {
                (r.cell.ablation_of or r.cell.label, r.cell.ablation_of is not None, r.cell.label, r.row)
                for r in self.records
            }
        )
        if self.order:
            rows = sorted(rows, key=lambda row: self.order.index(row[2]) if row[2] in self.order else -1)
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

    def values(self, label: str, column: Column) -> dict[int, float]:
        """Seed -> score in percent."""
        return {
            r.cell.seed: 100 * r.scores[column.evaluation][column.metric]
            for r in self.of(label, column.task)
            if r.status == "ok" and column.evaluation in r.scores
        }


def groups(records: Iterable[Record]) -> list[Group]:
    """Records sorted into tables. Those of different data, teachers, recipes or precisions never meet in one."""
    found: dict[tuple, Group] = {}
    records = list(records)
    for record in records:
        cell = record.cell
        if cell.method == TEACHER:
            continue
        _group(found, record, cell.recipe["name"], cell.recipe["epochs"])
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
        if homes:
            for group in homes:
                group.records.append(record)
        else:
            _group(found, record, cell.recipe["name"], cell.recipe["epochs"])
    return [found[key] for key in sorted(found, key=str)]


def _group(found: dict[tuple, Group], record: Record, recipe: str, epochs: float) -> None:
    cell = record.cell
    limit = cell.data.max_train_rows
    key = (
        cell.data.slug,
        limit,
        cell.teacher.base,
        cell.teacher.origin,
        recipe,
        epochs,
        cell.numeric.model_dump_json(),
    )
    group = found.setdefault(
        key,
        Group(
            cell.data.name,
            cell.data.slug,
            limit,
            cell.teacher.name,
            cell.teacher.origin,
            recipe,
            epochs,
            cell.numeric.precision,
            cell.numeric.threads,
        ),
    )
    group.records.append(record)


@dataclass
class Table:
    """A rendered table: ``rows`` hold Markdown text, ``values`` plain numbers for CSV."""

    title: str
    header: list[str]
    rows: list[list[str]]
    values: list[list[str]]
    notes: list[str] = field(default_factory=list)
    values_header: list[str] | None = None
    """where the CSV has other columns than the Markdown"""


class Footnotes:
    """Numbered once each, in the order of their first use."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def mark(self, text: str) -> str:
        if text not in self.texts:
            self.texts.append(text)
        return f"[{self.texts.index(text) + 1}]"


def _missing(group: Group, label: str, column: Column, notes: Footnotes) -> str:
    """The mark of an empty cell, with the reason behind it."""
    records = group.of(label, column.task)
    failed = [r for r in records if r.status == "failed"]
    if failed:
        message = failed[0].error.message if failed[0].error else "no message"
        return f"– {notes.mark(f'{label} on {column.task}, seed {failed[0].cell.seed}: failed: {message}')}"
    if any(r.status == "interrupted" for r in records):
        return f"– {notes.mark(f'{label} on {column.task}: interrupted; run the same command again')}"
    return f"– {notes.mark('not run: there is no record of this row on this task')}"


def _lost_seeds(group: Group, label: str, column: Column, there: int) -> list[str]:
    """Why a mean has fewer seeds than were asked for."""
    lost = [r for r in group.of(label, column.task) if r.status != "ok"]
    if not lost:
        return []
    reasons = "; ".join(f"seed {r.cell.seed} {r.status}" + (f": {r.error.message}" if r.error else "") for r in lost)
    return [f"{label} on {column.task}: {there} of {there + len(lost)} seeds; {reasons}"]


def _size(group: Group, label: str) -> tuple[str, str]:
    sized = [r.sizes for r in group.of(label) if r.sizes]
    if not sized:
        return "–", "–"
    smallest = min(sized, key=lambda s: s.parameters)  # heads differ by a few hundred weights between tasks
    return f"{smallest.parameters / 1e6:.2f}", f"{smallest.flops / 1e9:.2f}"


def _said(group: Group, label: str) -> list[str]:
    """What the method itself says of its row."""
    return list(dict.fromkeys(note for record in group.of(label) for note in record.notes))


def _numbers(summary: Summary) -> str:
    return f"{summary.mean:.4f}"


def accuracy(group: Group, notes: Footnotes) -> Table:
    """System, size and one column an evaluation set; best student in bold; averages by name."""
    columns = group.columns
    average = f"mean of {counted(len(columns), 'column')}"
    timed = ["speed-up"] if group.speed_ups else []
    header = ["System", "Params (M)", "FLOPs (G)", *timed, *(c.title for c in columns), average]
    students = [label for label in group.systems if label != TEACHER]
    summaries = {
        (label, c): summarise(list(v.values()))
        for label in group.systems
        for c in columns
        if (v := group.values(label, c))
    }
    best = {
        c: max((round(summaries[s, c].mean, 1) for s in students if (s, c) in summaries), default=math.nan)
        for c in columns
    }
    means = {
        label: summarise([summaries[label, c].mean for c in columns]).mean
        for label in group.systems
        if columns and all((label, c) in summaries for c in columns)
    }
    best_mean = max((round(means[s], 1) for s in students if s in means), default=math.nan)
    rows, values = [], []
    for label in group.systems:
        cells, numbers = [], []
        for c in columns:
            if (label, c) not in summaries:
                cells.append(_missing(group, label, c, notes))
                numbers += ["", "", "0"]
                continue
            summary = summaries[label, c]
            text = summary.text()
            text += "".join(f" {notes.mark(gap)}" for gap in _lost_seeds(group, label, c, summary.n))
            text += "".join(f" {notes.mark(line)}" for line in group.suspicions.get((label, c), []))
            cells.append(f"**{text}**" if label in students and round(summary.mean, 1) == best[c] else text)
            numbers += [
                _numbers(summary),
                "" if summary.deviation is None else f"{summary.deviation:.4f}",
                str(summary.n),
            ]
        mean = means.get(label)
        shown = "–" if mean is None else f"{mean:.1f}"
        size = (*_size(group, label), *([_faster(group, label)] if timed else []))
        rows.append(
            [
                label + "".join(f" {notes.mark(f'{label}: {note}')}" for note in _said(group, label)),
                *size,
                *cells,
                f"**{shown}**" if label in students and mean is not None and round(mean, 1) == best_mean else shown,
            ]
        )
        values.append([label, *size, *numbers, "" if mean is None else f"{mean:.4f}"])
    spread = [f"{c.title} {what}" for c in columns for what in ("mean", "sd", "n")]
    table = Table("Accuracy", header, rows, values, values_header=[*header[: 3 + len(timed)], *spread, average])
    seeds = sorted({len(group.values(s, c)) for s in students for c in columns} - {0})
    if seeds:
        count = f"n = {seeds[0]}" if len(seeds) == 1 else f"n = {seeds[0]} to {seeds[-1]}"
        table.notes.append(
            f"Development sets, percent. Mean ± sample standard deviation over seeds ({count}"
            + ("; one seed has no deviation and says nothing about noise" if seeds == [1] else "")
            + "). Best student of a column in bold. FLOPs = 2 x MACs of one sequence of 128 tokens (fvcore, eager attention)."
        )
    if timed:
        table.notes.append(
            f"Speed-up: times faster than the teacher, median of rounds in turns with its 95 % interval; {group.speed_conditions}. "
            f"A dash: not timed."
        )
    return table


def _faster(group: Group, label: str) -> str:
    """1x for the teacher; a dash for what was not timed."""
    if label == TEACHER:
        return "1.00x"
    return group.speed_ups[label].text() if label in group.speed_ups else "–"


def cheaper(group: Group, label: str) -> bool:
    """Whether a student's FLOPs are below its teacher's: without that it makes no claim of retention.

    Of one whose sequences leave early, those of an average sequence.
    """
    own = [r.sizes.flops for r in group.of(label) if r.sizes]
    teacher = [r.sizes.flops for r in group.of(TEACHER) if r.sizes]
    return bool(own and teacher and min(own) < min(teacher))


def reappearance(group: Group, notes: Footnotes) -> Table | None:
    """Student / teacher in percent, per column and as the mean of the ratios. Needs the teacher's record."""
    columns = [c for c in group.columns if group.values(TEACHER, c)]
    students = [s for s in group.systems if s != TEACHER and any(r.cell.ablation_of is None for r in group.of(s))]
    if not columns or not students:
        return None
    header = ["System", *(c.title for c in columns), f"mean of {counted(len(columns), 'ratio')}"]
    teacher = {c: summarise(list(group.values(TEACHER, c).values())).mean for c in columns}
    rows = [[TEACHER, *(f"{teacher[c]:.1f}" for c in columns), f"{summarise(list(teacher.values())).mean:.1f}"]]
    values = [[TEACHER, *(f"{teacher[c]:.4f}" for c in columns), f"{summarise(list(teacher.values())).mean:.4f}"]]
    for label in students:
        scores, percents, numbers = [], [], []
        ratios: list[float] = []
        for c in columns:
            got = group.values(label, c)
            if not got:
                mark = _missing(group, label, c, notes)
                scores.append(mark)
                percents.append("–")
                numbers.append("")
                continue
            mean = summarise(list(got.values())).mean
            scores.append(f"{mean:.1f}")
            if teacher[c] <= 0:
                percents.append(
                    f"– {notes.mark(f'{c.title}: the teacher scores {teacher[c]:.1f}; a ratio to it means nothing')}"
                )
                numbers.append("")
                continue
            ratio = 100 * mean / teacher[c]
            ratios.append(ratio)
            percents.append(f"{ratio:.1f} %")
            numbers.append(f"{ratio:.4f}")
        if not cheaper(group, label):
            percents = ["–" for _ in columns]
            ratios = []
            scores[0] += f" {notes.mark(f'{label} is not cheaper than its teacher: no claim of retention')}"
        whole = len(ratios) == len(columns)
        rows.append([label, *scores, ""])
        rows.append([f"{label}, % of teacher", *percents, f"{summarise(ratios).mean:.1f} %" if whole else "–"])
        values.append([f"{label}, % of teacher", *numbers, f"{summarise(ratios).mean:.4f}" if whole else ""])
    table = Table("Reappearance", header, rows, values)
    table.notes.append(
        "Student score over the score of the very teacher it was trained from, same development set and metric. "
        "The last column is the mean of the ratios (in the teacher's row, of its scores)."
    )
    return table


def ablation(group: Group, notes: Footnotes) -> Table | None:
    """Every ``w/o X`` row under its full row, with the difference to it."""
    fulls = sorted({r.cell.ablation_of for r in group.records if r.cell.ablation_of})
    parts = [
        differences(
            "Ablation",
            group,
            full,
            [full, *sorted({r.row for r in group.records if r.cell.ablation_of == full})],
            notes,
        )
        for full in fulls
    ]
    if not parts:
        return None
    whole = parts[0]
    for part in parts[1:]:
        whole.rows += part.rows
        whole.values += part.values
    return whole


def differences(title: str, group: Group, full: str, labels: Sequence[str], notes: Footnotes) -> Table:
    """Rows with their difference to the row ``full``, column by column and on average."""
    columns = group.columns
    rows, values = [], []
    for label in labels:
        cells, numbers, gaps = [], [], []
        for c in columns:
            got, reference = group.values(label, c), group.values(full, c)
            if not got:
                cells.append(_missing(group, label, c, notes))
                numbers.append("")
                continue
            text = summarise(list(got.values())).text()
            shared = sorted(set(got) & set(reference))
            if label != full and shared:
                gaps.append(summarise([got[seed] - reference[seed] for seed in shared]).mean)
                text += f" ({gaps[-1]:+.1f})"
            cells.append(text)
            numbers.append(f"{summarise(list(got.values())).mean:.4f}")
        mean = f"{summarise(gaps).mean:+.1f}" if gaps and len(gaps) == len(columns) else ""
        rows.append([label, *cells, mean])
        values.append([label, *numbers, mean])
    table = Table(title, ["System", *(c.title for c in columns), "mean difference"], rows, values)
    table.notes.append("In brackets the difference to the full row, over the seeds that both have.")
    return table


def behind(group: Group) -> Table | None:
    """The records behind every cell: the beginning of each one's key, in the order of seeds."""
    columns = group.columns
    rows = []
    for label in group.systems:
        cells = [
            ", ".join(r.key[:8] for r in group.of(label, c.task) if r.status == "ok" and c.evaluation in r.scores)
            or "–"
            for c in columns
        ]
        rows.append([label, *cells])
    if not rows:
        return None
    table = Table("The records behind each number", ["System", *(c.title for c in columns)], rows, rows)
    table.notes.append(
        "One key a seed. `python -m bench show KEY` prints a record, `python -m bench verify KEY` trains it again and says how far "
        "it is the same, `python -m bench trace NUMBER` finds a number's records."
    )
    return table


def start_of(record: Record) -> str:
    """Where a student's weights came from before it saw the task."""
    if record.cell.label == TEACHER:
        return "checkpoint"
    for name, made in record.artefacts.items():
        if "train" in made:
            return f"{name.replace('_', ' ')} {made['key'][:6]}"
        if made.get("beginning", "").startswith("given: "):
            return str(made["beginning"])
    own = {"tuned_teacher": "the tuned teacher", "teacher_weights": "the teacher, un-tuned"}
    return next((text for name, text in own.items() if name in record.artefacts), "random weights")


def cost(group: Group) -> Table | None:
    """What training each row took, summed over tasks, mean over seeds."""
    rows = []
    for label in group.systems:
        # a student of several tasks has a record for each of them, and was trained once
        done = list({r.train_key: r for r in group.of(label) if r.train}.values())
        if not done:
            continue
        seeds = max(1, len({r.cell.seed for r in done}))
        total = lambda field: sum(getattr(r.train, field) for r in done) / seeds  # noqa: B023, E731
        own, taught = total("flops_own"), total("flops_teacher")
        seconds, shared = total("seconds_own"), total("teacher_seconds_shared")
        rows.append(
            [
                label,
                ", ".join(sorted({start_of(r) for r in done})),
                str(len(done)),
                f"{total('examples'):,.0f}",
                f"{own / 1e12:.2f}",
                f"{taught / 1e12:.2f}",
                f"{seconds:,.0f}",
                f"{shared:,.0f}",
                f"{total('teacher_seconds_alone'):,.0f}",
                f"{100 * shared / (seconds + shared):.0f} %" if seconds + shared else "–",
            ]
        )
    if not rows:
        return None
    header = [
        "System",
        "start",
        "cells",
        "examples",
        "own TFLOPs",
        "teacher TFLOPs",
        "own s",
        "teacher s, shared",
        "teacher s, if alone",
        "teacher's share of seconds",
    ]
    table = Table("Cost of training", header, rows, rows)
    table.notes.append(
        "Summed over the tasks, mean over seeds. TFLOPs are closed-form over the tokens seen; seconds are of the machine "
        "named below, with what else ran there."
    )
    starts = {made["key"]: (name, made) for r in group.records for name, made in r.artefacts.items() if "train" in made}
    for key, (name, made) in sorted(starts.items()):
        trained = made["train"]
        beginning = made.get("beginning", "the cut-down teacher" if name == "general_start" else "")
        began = f"; it began as {beginning}" if beginning else ""
        table.notes.append(
            f"{name.replace('_', ' ').capitalize()} {key[:12]}: {trained['tokens']:,} tokens, {trained['seconds_own']:,.0f} s "
            f"of its own, once for all rows that use it{began}."
        )
    return table


IDLE_SHARE = 0.01
"""A term that never moves the weights by more than this part of its stage's gradients does not matter."""


def gradient_shares(group: Group) -> Table | None:
    """How much of the gradient each term gives, by stage; terms that never matter are named."""
    rows, idle = [], []
    for label in group.systems:
        seen: dict[tuple[str, str], list[list[float]]] = {}
        for record in group.of(label):
            for stage, terms in record.gradient_shares.items():
                for term, shares in terms.items():
                    if len(terms) > 1:
                        seen.setdefault((stage, term), []).append(shares)
        for (stage, term), runs in seen.items():
            points = [sum(values) / len(values) for values in zip(*runs, strict=False)]
            rows.append([label, stage, term, *(f"{100 * point:.1f} %" for point in points)])
            if max(max(run, default=0.0) for run in runs) < IDLE_SHARE:
                idle.append(f"{label}: {term} in stage {stage}")
    if not rows:
        return None
    width = max(map(len, rows))
    parts = [f"after {100 * i // (width - 3)} %" for i in range(width - 3)]
    rows = [row + ["–"] * (width - len(row)) for row in rows]
    table = Table("Gradient share of each term", ["System", "stage", "term", *parts], rows, rows)
    table.notes.append(
        "Norm of a weighted term's gradient over the sum of those of its stage and player, at four steps; mean over tasks and seeds."
    )
    if idle:
        table.notes.append(
            f"**Never above {100 * IDLE_SHARE:.0f} %, on any task, seed or step: {'; '.join(idle)}.** Such a term does not matter; "
            "raise its weight or leave it out."
        )
    return table


def sizes(named: Sequence[tuple[str, Sizes]]) -> Table:
    """Parameters by convention and the two counts of MACs, for any models by name."""
    routed = any(s.active_parameters for _, s in named)
    leaving = any(s.expected_macs for _, s in named)
    rows = [
        [
            name,
            f"{s.parameters / 1e6:.2f}",
            *([f"{(s.active_parameters or s.parameters) / 1e6:.2f}"] if routed else []),
            f"{s.embedding / 1e6:.2f}",
            f"{s.without_embedding / 1e6:.2f}",
            f"{s.pooler_and_head / 1e6:.2f}",
            f"{s.macs / 1e9:.2f}",
            f"{s.macs_closed_form / 1e9:.2f}",
            *([f"{(s.expected_macs or s.macs) / 1e9:.2f}"] if leaving else []),
            f"{s.flops / 1e9:.2f}",
        ]
        for name, s in named
    ]
    header = [
        "System",
        "Params (M)",
        *(["active for a token (M)"] if routed else []),
        "embedding (M)",
        "without embedding (M)",
        "pooler and head (M)",
        "MACs (G)",
        "MACs, closed form (G)",
        *(["MACs of an average sequence (G)"] if leaving else []),
        "FLOPs (G)",
    ]
    return Table("Sizes", header, rows, rows)


def sizes_of(group: Group) -> Table:
    """The sizes of a group's rows; where heads differ between tasks, the smallest."""
    named = []
    for label in group.systems:
        sized = [r.sizes for r in group.of(label) if r.sizes]
        if sized:
            named.append((label, min(sized, key=lambda s: s.parameters)))
    return sizes(named)
