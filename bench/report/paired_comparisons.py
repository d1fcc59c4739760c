"""What the data can carry: differences with intervals and verdicts, and whether a student keeps its teacher's score.

Made from the stored predictions. Every system is compared with plain fine-tuning where there is such a row, else with the
teacher; an ablation with its full row, a row of changed settings with the plain one. Holm's adjustment runs over each of
the two tables.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from bench.record.cell import TEACHER
from bench.record.schema import Record
from bench.record.store import Store
from bench.report.comparison import BETTER, UNCLEAR, WORSE, Comparison, compared, said_of
from bench.report.groups import Column, Group
from bench.report.resampled import Resampled, chance, resampled, teacher_weights, with_further_teachers
from bench.report.tables import LEFT_OUT, Footnotes, Table, cheaper, counted, no_ratio, sound_teacher
from bench.stats.guards import Suspicion, suspicions
from bench.stats.metrics import metric_of
from bench.stats.multiple import holm
from bench.stats.paired import interval, over_seeds

KEPT = 0.97
"""Share of the teacher's score that counts as kept, tested as non-inferiority."""
FLOOR = "finetune"
KEEPS, LOSES = "keeps", "loses"


def reference_of(group: Group) -> str:
    """The row that full rows are compared with: plain fine-tuning with the shared start, else the teacher."""
    return FLOOR if FLOOR in group.systems else TEACHER


def finished(group: Group, label: str, column: Column) -> list[Record]:
    """The finished records of a row in a column, in the order of their seeds."""
    records = [r for r in group.of(label, column.task) if r.status == "ok" and column.evaluation in r.scores]
    return sorted(records, key=lambda r: r.cell.seed)


def resample(group: Group, store: Store) -> dict[Column, Resampled]:
    """The stored answers of the group's records; columns without any are left out."""
    made = {}
    for column in group.columns:
        records = [
            r
            for label in group.systems
            for r in group.of(label, column.task)
            if r.status == "ok" and column.evaluation in r.scores and store.has_predictions(r)
        ]
        if records:
            made[column] = resampled(column, records, store)
        shown = [r for r in records if r.cell.method == TEACHER and made[column].has([r])]
        if len(shown) == 1:
            made[column] = with_further_teachers(made[column], shown[0], records, store)
    return made


def own_row(group: Group, label: str) -> str:
    """The row that a variant belongs to: an ablation's full row, or a method's plain row beside one with changed settings.

    "" for a system of its own.
    """
    cell = group.of(label)[0].cell
    return cell.ablation_of or (cell.method if cell.label != cell.method and cell.method in group.systems else "")


def differences(group: Group, answered: Mapping[Column, Resampled]) -> list[Table]:
    """Systems beside a common reference, and variants beside their own rows: two questions, each adjusted over its table."""
    reference = reference_of(group)
    systems, variants = {}, {}
    for label in group.systems:
        own = own_row(group, label)
        if own and own in group.systems:
            variants[label] = own
        elif not own and label not in (TEACHER, reference) and reference in group.systems:
            systems[label] = reference
    tables = (
        _differences("Differences that the data can carry", group, systems, answered),
        _differences("Variants and ablations beside their own row", group, variants, answered),
    )
    return [table for table in tables if table is not None]


def differences_to(group: Group, full: str, answered: Mapping[Column, Resampled]) -> Table | None:
    """Every row of a group next to one of them, with intervals and verdicts; None where no answers are stored."""
    others = {label: full for label in group.systems if label not in (TEACHER, full)}
    return _differences(f"Differences to {full}, with intervals", group, others, answered)


def _differences(
    title: str, group: Group, beside: Mapping[str, str], answered: Mapping[Column, Resampled]
) -> Table | None:
    """Each row's difference to another, 95 % interval and verdict, by column and on average."""
    columns = group.columns
    found: dict[tuple[str, Column], Comparison] = {}
    drawn: dict[tuple[str, Column], np.ndarray] = {}
    for label, other in beside.items():
        for column, data in answered.items():
            sides = finished(group, label, column), finished(group, other, column)
            if data.has(sides[0]) and data.has(sides[1]):
                found[label, column], drawn[label, column] = compared(data, sides, column.title)
    if not found:
        return None
    adjusted = dict(zip(found, holm([line.p for line in found.values()]), strict=True))
    rows, values = [], []
    for label, other in beside.items():
        if not any((label, column) in found for column in columns):
            continue
        lines = [found.get((label, column)) for column in columns]
        cells = [
            _cell(replace(line, adjusted=adjusted[label, column])) if line else "–"
            for line, column in zip(lines, columns, strict=True)
        ]
        mean = "–"
        if len(columns) > 1 and all(lines):
            low, high = interval(np.mean([drawn[label, column] for column in columns], axis=0))
            mean = f"{np.mean([line.difference for line in lines if line]):+.1f} ({low:+.1f} to {high:+.1f})"
        rows.append([group.called(label), group.called(other), *cells, mean])
        values.append([label, other, *(f"{line.difference:.4f}" if line else "" for line in lines), mean])
    least = ["least detectable gap", "", *(_least(column, found) for column in columns), ""]
    header = ["System", "beside", *(c.title for c in columns), f"mean of {counted(len(columns), 'difference')}"]
    table = Table(title, header, [*rows, least], values)
    tests = ", ".join(sorted({line.test for line in found.values()}))
    table.notes.append(
        f"Points, with 95 % intervals of a paired bootstrap over examples, with Student's t over seeds where there are several. Verdict by "
        f"{tests}, p after Holm's adjustment over the {len(found)} comparisons of this table. Least detectable: the true difference that "
        f"four in five comparisons like these find, the middle of its column. No interval is adjusted so, the mean's included: in a "
        f"table of this length some leave out 0 by chance, and 'cannot tell' behind such an interval is no contradiction."
    )
    table.notes += said_of(found.values())
    return table


Faults = dict[tuple[str, Column], dict[str, dict[int, Suspicion]]]
"""(row, column) -> what is wrong with its answers -> seed -> how it shows there"""


def faults_of(group: Group, store: Store) -> Faults:
    """What is suspect about the stored answers of each row and column, by the column's own metric."""
    found: Faults = {}
    for label in group.systems:
        for column in group.columns:
            for record in finished(group, label, column):
                if not store.has_predictions(record):
                    continue
                arrays = store.predictions(record)
                logits, labels = (arrays[f"{what}.{column.evaluation}"] for what in ("logits", "labels"))
                for suspicion in suspicions(logits, labels, record.task.labels or (), column.metric):
                    faults = found.setdefault((label, column), {})
                    faults.setdefault(suspicion.what, {})[record.cell.seed] = suspicion
    return found


def suspicions_of(group: Group, store: Store) -> dict[tuple[str, Column], list[str]]:
    """What is suspect about the answers of each row and column: one line a column and fault, naming every row and seed."""
    met: dict[tuple[Column, str], dict[str, dict[int, Suspicion]]] = {}
    for (label, column), faults in faults_of(group, store).items():
        for what, of_seed in faults.items():
            met.setdefault((column, what), {})[label] = of_seed
    found: dict[tuple[str, Column], list[str]] = {}
    for (column, what), rows in met.items():
        listed = "; ".join(f"{label}, {seeds(of_seed)}" for label, of_seed in rows.items())
        for label in rows:
            found.setdefault((label, column), []).append(f"{column.name}, {what}: {listed}")
    return found


def seeds(found: Mapping[int, Suspicion]) -> str:
    """``seeds 0 and 2 (50.1, 49.9)``, or without figures where there are none."""
    *most, last = [str(seed) for seed in sorted(found)]
    named = f"seeds {', '.join(most)} and {last}" if most else f"seed {last}"
    shown = ", ".join(found[seed].figure for seed in sorted(found) if found[seed].figure)
    return named + (f" ({shown})" if shown else "")


def _cell(line: Comparison) -> str:
    mark = {BETTER: "better", WORSE: "worse", UNCLEAR: "cannot tell"}[line.verdict]
    return f"{line.difference:+.1f} ({line.low:+.1f} to {line.high:+.1f}) {mark}"


def _least(column: Column, found: dict[tuple[str, Column], Comparison]) -> str:
    values = [line.least for (_, where), line in found.items() if where == column and line.least is not None]
    return f"{np.median(values):.1f}" if values else "–"


@dataclass(frozen=True)
class Retention:
    """Student over teacher in percent, with the 95 % interval and the verdict on a margin."""

    ratio: float
    low: float
    high: float
    verdict: str

    def text(self) -> str:
        return f"{self.ratio:.1f} % ({self.low:.1f} to {self.high:.1f}) {self.verdict}"


def retention(student: Sequence[float], teacher: float, samples: np.ndarray, kept: float = KEPT) -> Retention:
    """Non-inferiority: kept if the 95 % interval lies above the margin, lost if below, else it cannot be told."""
    low, high = interval(samples[~np.isnan(samples)])
    verdict = KEEPS if low >= kept else LOSES if high < kept else UNCLEAR
    return Retention(100 * float(np.mean(student)) / teacher, 100 * low, 100 * high, verdict)


def retentions(
    group: Group, answered: Mapping[Column, Resampled], notes: Footnotes, kept: float = KEPT
) -> Table | None:
    """Reappearance with intervals, one cell a student and column; the mean of ratios and the ratio of means by name.

    ``kept`` is the share of the teacher's score that counts as kept. A student whose record names another teacher than
    the one in the table is refused, with the two hashes.
    """
    columns = [c for c in group.columns if group.values(TEACHER, c)]
    sound = [c for c in columns if sound_teacher(group, c)]
    students = [s for s in group.systems if s != TEACHER and any(r.cell.ablation_of is None for r in group.of(s))]
    rows, values = [], []
    for label in students:
        cells, numbers, samples, scores = [], [], [], []
        for column in columns:
            own, theirs = finished(group, label, column), finished(group, TEACHER, column)
            refused = _refusal(label, column, own, theirs, answered.get(column))
            if refused:
                cells.append(f"refused {notes.mark(refused)}")
                numbers.append("")
                continue
            if own and cheaper(group, label) and column not in sound:
                cells.append(no_ratio(group, column, notes))
                numbers.append("")
                continue
            data = answered.get(column)
            stored = data is not None and data.has(own) and data.has(theirs)
            if data is None or not stored or not cheaper(group, label):
                cells.append("–")
                numbers.append("")
                continue
            teacher, below_R = _teacher_seen(own, theirs[0], column, data)
            below_R = np.where(below_R > 0, below_R, np.nan)
            ratio_RS = data.stacked(own) / below_R[:, None]
            spread = over_seeds(ratio_RS, (ratio_RS,), chance(column, "ratio", label, TEACHER))
            drawn = metric_of(column.metric).possible_ratios(spread, below_R)
            students_own = [record.scores[column.evaluation][column.metric] for record in own]
            found = retention(students_own, teacher, drawn, kept)
            samples.append(drawn)
            scores.append((float(np.mean(students_own)), teacher))
            cells.append(found.text())
            numbers.append(f"{found.ratio:.4f}")
        if set(cells) <= {"–"}:
            continue
        means = ["–", "–"]
        if len(samples) == len(sound) > 1:
            ratios = [100 * student / teacher for student, teacher in scores]
            low, high = (100 * bound for bound in interval(np.nanmean(samples, axis=0)))
            means[0] = f"{np.mean(ratios):.1f} % ({low:.1f} to {high:.1f})"
            means[1] = f"{100 * sum(s for s, _ in scores) / sum(t for _, t in scores):.1f} %"
        rows.append([group.called(label), *cells, *means])
        values.append([label, *numbers, *means])
    if not rows:
        return None
    header = ["System", *(c.title for c in columns), "mean of ratios", "ratio of means"]
    table = Table("Kept of the teacher", header, rows, values)
    table.notes.append(
        f"Student score over that of its own teacher, percent, with 95 % intervals of a paired bootstrap. keeps: at least "
        f"{100 * kept:g} % of the teacher's score (the interval lies above it); loses: less; else it cannot be told from these examples."
        + (LEFT_OUT if len(sound) < len(columns) else "")
    )
    return table


def _refusal(
    label: str, column: Column, own: Sequence[Record], theirs: Sequence[Record], data: Resampled | None
) -> str:
    """Why a ratio would mean nothing: another teacher, or other examples; "" where it means something."""
    other = next(((record, teacher) for record in own for teacher in theirs if not same_teacher(record, teacher)), None)
    if other is not None and not _further_teacher(own, data):
        hashes = " and ".join(str(teacher_weights(record))[:12] for record in other)
        return f"{label}, {column.title}: trained from another teacher ({hashes})"
    if data is not None and any(record.key in data.others for record in (*own, *theirs)):
        return f"{label}, {column.title}: scored on other examples than the rest of the column"
    return ""


def _further_teacher(own: Sequence[Record], data: Resampled | None) -> str:
    """The weights that all these students name, where they are of a further training of the teacher; else ""."""
    named = {teacher_weights(record) for record in own}
    weights = named.pop() if len(named) == 1 else None
    return weights if weights and data is not None and weights in data.teachers else ""


def _teacher_seen(own: Sequence[Record], shown: Record, column: Column, data: Resampled) -> tuple[float, np.ndarray]:
    """Score and [resamples] scores of the teacher that these students learned from."""
    if further := _further_teacher(own, data):
        return data.teachers[further]
    return shown.scores[column.evaluation][column.metric], data.scores_R[shown.key]


def same_teacher(student: Record, teacher: Record) -> bool:
    """Whether both records name the same teacher: by its weights where both do, else by its key."""
    own, theirs = teacher_weights(student), teacher_weights(teacher)
    if own and theirs:
        return own == theirs
    return student.cell.teacher.key == teacher.cell.teacher.key
