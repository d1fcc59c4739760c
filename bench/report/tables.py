"""The tables of a paper from records: accuracy, reappearance, ablation, sizes, the records behind them. No torch, no clock."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from bench.record.cell import TEACHER
from bench.record.schema import Sizes
from bench.report.groups import Column, Group
from bench.report.reproduce import verifying
from bench.stats.summary import Summary, summarise


def counted(number: int, what: str) -> str:
    """``1 column``, ``3 columns``."""
    return f"{number} {what}{'' if number == 1 else 's'}"


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


def by_row(title: str, header: list[str], group: Group, rows: Sequence[Sequence[str]]) -> Table:
    """A table whose lines begin with the label of a row: printed with what the row lacks, in the CSV as it is typed."""
    return Table(title, header, [[group.called(row[0]), *row[1:]] for row in rows], [list(row) for row in rows])


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
    smallest = min(sized, key=lambda s: s.parameters)
    parameters = [s.parameters for s in sized] if _models_differ(sized) else [smallest.parameters]
    flops = [s.flops for s in sized] if differ(sized) else [smallest.flops]
    return _range(parameters, 1e6), _range(flops, 1e9)


def _range(counts: Sequence[int], unit: float) -> str:
    """``1.20 to 2.40``, or one figure where both ends are printed alike."""
    return " to ".join(dict.fromkeys(f"{end(counts) / unit:.2f}" for end in (min, max)))


CLASSES = 0.01
"""Classification layers of two or three classes differ by a few hundred weights: by less than this part of a model."""


def _models_differ(sized: Sequence[Sizes]) -> bool:
    """Whether these models differ in more than the number of their classes: in their vocabulary, or in a head for pairs."""
    parameters = [s.parameters for s in sized]
    bodies = {s.parameters - s.pooler_and_head for s in sized}
    return len(bodies) > 1 or max(parameters) - min(parameters) > CLASSES * min(parameters)


def differ(sized: Sequence[Sizes]) -> bool:
    """Whether these models need one line each in a table of sizes: other models, or sequences leave them at other layers."""
    return _models_differ(sized) or len({s.expected_macs for s in sized}) > 1


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
        c: max(
            (round(summaries[s, c].mean, 1) for s in students if (s, c) in summaries and not group.lacks_seeds(s, c)),
            default=math.nan,
        )
        for c in columns
    }
    means = {
        label: summarise([summaries[label, c].mean for c in columns]).mean
        for label in group.systems
        if columns and all((label, c) in summaries for c in columns)
    }
    whole = [s for s in students if s in means and not any(group.lacks_seeds(s, c) for c in columns)]
    best_mean = max((round(means[s], 1) for s in whole), default=math.nan)
    rows, values = [], []
    for label in group.systems:
        cells, numbers = [], []
        for c in columns:
            if (label, c) not in summaries:
                cells.append(_missing(group, label, c, notes))
                numbers += ["", "", "0"]
                continue
            summary = summaries[label, c]
            fewer = group.lacks_seeds(label, c)
            text = summary.text() + (f" (n = {summary.n})" if fewer else "")
            text += "".join(f" {notes.mark(gap)}" for gap in _lost_seeds(group, label, c, summary.n))
            text += "".join(f" {notes.mark(line)}" for line in group.suspicions.get((label, c), []))
            leads = label in students and not fewer and round(summary.mean, 1) == best[c]
            cells.append(f"**{text}**" if leads else text)
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
                group.called(label) + "".join(f" {notes.mark(f'{label}: {note}')}" for note in _said(group, label)),
                *size,
                *cells,
                f"**{shown}**" if label in whole and mean is not None and round(mean, 1) == best_mean else shown,
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
            + "). Best student of a column in bold"
            + (", of those with all its seeds; the others have (n = ...) behind them" if len(seeds) > 1 else "")
            + ". FLOPs = 2 x MACs of one sequence of 128 tokens (fvcore, eager attention)."
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


LEFT_OUT = " Columns without a ratio are not in the mean."


def sound_teacher(group: Group, column: Column) -> bool:
    """Whether a share of the teacher's score says anything: it has a score above 0, and nothing is wrong with its answers."""
    values = list(group.values(TEACHER, column).values())
    return bool(values) and summarise(values).mean > 0 and not group.suspicions.get((TEACHER, column))


def no_ratio(group: Group, column: Column, notes: Footnotes) -> str:
    """The mark of a ratio to a teacher that is not sound, with the reason behind it."""
    if wrong := group.suspicions.get((TEACHER, column)):
        seen = " ".join(notes.mark(line) for line in wrong)
        return f"– {notes.mark(f'{column.title}: the answers of the teacher are suspect, see {seen}; a ratio to it means nothing')}"
    mean = summarise(list(group.values(TEACHER, column).values())).mean
    return f"– {notes.mark(f'{column.title}: the teacher scores {mean:.1f}; a ratio to it means nothing')}"


def reappearance(group: Group, notes: Footnotes) -> Table | None:
    """Student / teacher in percent, per column and as the mean of the ratios. Needs the teacher's record."""
    columns = [c for c in group.columns if group.values(TEACHER, c)]
    students = [s for s in group.systems if s != TEACHER and any(r.cell.ablation_of is None for r in group.of(s))]
    if not columns or not students:
        return None
    sound = [c for c in columns if sound_teacher(group, c)]
    header = ["System", *(c.title for c in columns), f"mean of {counted(len(sound), 'ratio')}"]
    teacher = {c: summarise(list(group.values(TEACHER, c).values())).mean for c in columns}
    whole = [summarise([teacher[c] for c in sound]).mean] if sound else []
    rows = [[TEACHER, *(f"{teacher[c]:.1f}" for c in columns), "".join(f"{mean:.1f}" for mean in whole) or "–"]]
    values = [[TEACHER, *(f"{teacher[c]:.4f}" for c in columns), "".join(f"{mean:.4f}" for mean in whole)]]
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
            if c not in sound:
                percents.append(no_ratio(group, c, notes))
                numbers.append("")
                continue
            ratio = 100 * mean / teacher[c]
            ratios.append(ratio)
            percents.append(f"{ratio:.1f} %")
            numbers.append(f"{ratio:.4f}")
        of_teacher = f"{group.called(label)}, % of teacher"
        if ratios and not cheaper(group, label):
            percents, numbers, ratios = ["–" for _ in columns], ["" for _ in columns], []
            of_teacher += f" {notes.mark(f'{label} is not cheaper than its teacher: no claim of retention')}"
        complete = len(ratios) == len(sound) > 0
        rows.append([group.called(label), *scores, ""])
        rows.append([of_teacher, *percents, f"{summarise(ratios).mean:.1f} %" if complete else "–"])
        values.append([f"{label}, % of teacher", *numbers, f"{summarise(ratios).mean:.4f}" if complete else ""])
    table = Table("Reappearance", header, rows, values)
    table.notes.append(
        "Student score over the score of the very teacher it was trained from, same development set and metric. "
        "The last column is the mean of the ratios (in the teacher's row, of its scores)."
        + (LEFT_OUT if len(sound) < len(columns) else "")
    )
    return table


def ablation(group: Group, notes: Footnotes) -> Table | None:
    """Every ``w/o X`` row under its full row, with the difference to it."""
    full_of = {r.row: r.cell.ablation_of for r in group.records if r.cell.ablation_of}
    fulls = [label for label in group.systems if label in full_of.values()]
    fulls += sorted(set(full_of.values()) - set(fulls))  # a full row that is not there
    parts = [
        differences(
            "Ablation",
            group,
            full,
            [full, *(label for label in group.systems if full_of.get(label) == full)],
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
        rows.append([group.called(label), *cells, mean])
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
    table = by_row("The records behind each number", ["System", *(c.title for c in columns)], group, rows)
    again = verifying(group)
    table.notes.append(
        f"One key a seed. `python -m bench show KEY --results {group.results}` prints a record, "
        f"`python -m bench trace NUMBER --results {group.results}` finds a number's records"
        + (f", `{again}` trains a record again and says how far it is the same." if again else ".")
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
    """The sizes of a group's rows: one line a row; of models that differ in more than their classes, one line a task."""
    named: list[tuple[str, Sizes]] = []
    called: list[str] = []
    for label in group.systems:
        before, shown = len(named), group.called(label)
        by_task = {task: [r.sizes for r in group.of(label, task) if r.sizes] for task in group.tasks}
        sized = [s for of_task in by_task.values() for s in of_task]
        if sized and differ(sized):
            named += [(f"{label}, {task}", of_task[0]) for task, of_task in by_task.items() if of_task]
        elif sized:
            named.append((label, min(sized, key=lambda s: s.parameters)))
        called += [shown + name.removeprefix(label) for name, _ in named[before:]]
    plain = sizes(named)
    rows = [[name, *row[1:]] for name, row in zip(called, plain.rows, strict=True)]
    return replace(plain, rows=rows)
