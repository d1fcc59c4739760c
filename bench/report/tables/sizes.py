"""Parameters by convention, and the two counts of MACs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from bench.record.schema import Sizes
from bench.report import frame
from bench.report.frame import Frame, FrameLine, TableCell
from bench.report.groups import ReportGroup
from bench.report.tables.registry import COST, ReportData, table

CLASSIFIER_SHARE = 0.01
"""Classification layers of two or three classes differ by a few hundred weights: by less than this part of a model."""


@table(COST, place=80)
def _frames(data: ReportData) -> Iterable[Frame | None]:
    made = sizes_of(data.group)
    return [made if made.lines else None]


@dataclass(frozen=True)
class Count:
    """One column: what is counted of a model, and whether it is always there."""

    title: str
    unit: float
    of: Callable[[Sizes], int]
    wanted: Callable[[Sizes], bool] | None = None
    """whether a model needs the column; None: always there"""


COUNTS = (
    Count("Params (M)", 1e6, lambda s: s.parameters),
    Count(
        "active for a token (M)",
        1e6,
        lambda s: s.active_parameters or s.parameters,
        lambda s: bool(s.active_parameters),
    ),
    Count("embedding (M)", 1e6, lambda s: s.embedding),
    Count("without embedding (M)", 1e6, lambda s: s.without_embedding),
    Count("pooler and head (M)", 1e6, lambda s: s.pooler_and_head),
    Count("MACs (G)", 1e9, lambda s: s.macs),
    Count("MACs, closed form (G)", 1e9, lambda s: s.macs_closed_form),
    Count("MACs, average over exits (G)", 1e9, lambda s: s.expected_macs or s.macs, lambda s: bool(s.expected_macs)),
    Count("FLOPs (G)", 1e9, lambda s: s.flops),
)


def sizes(named: Sequence[tuple[str, Sizes]]) -> Frame:
    """Parameters by convention and the two counts of MACs, for any models by name."""
    counts = [count for count in COUNTS if count.wanted is None or any(count.wanted(s) for _, s in named)]
    lines = [
        FrameLine(name, tuple(TableCell(f"{c.of(s) / c.unit:.2f}", value=c.of(s) / c.unit) for c in counts))
        for name, s in named
    ]
    columns = (frame.TableColumn("System"), *(frame.TableColumn(count.title) for count in counts))
    return Frame("Sizes", columns, tuple(lines))


def sizes_of(group: ReportGroup) -> Frame:
    """The sizes of a group's rows: one line a row; of models that differ in more than their classes, one line a task."""
    named = [(label, one) for label in group.systems for one in _named(group, label)]
    plain = sizes([one for _, one in named])
    lines = (
        replace(line, name=group.called(label) + line.label.removeprefix(label), row=label)
        for line, (label, _) in zip(plain.lines, named, strict=True)
    )
    return replace(plain, lines=tuple(lines))


def _named(group: ReportGroup, label: str) -> list[tuple[str, Sizes]]:
    by_task = {task: [r.sizes for r in group.of(label, task) if r.sizes] for task in group.tasks}
    sized = [s for of_task in by_task.values() for s in of_task]
    if sized and need_own_lines(sized):
        return [(f"{label}, {task}", of_task[0]) for task, of_task in by_task.items() if of_task]
    return [(label, min(sized, key=lambda s: s.parameters))] if sized else []


def sizes_of_row(group: ReportGroup, label: str) -> list[Sizes]:
    """The sizes of a row's models, one for each record that has them."""
    return [r.sizes for r in group.of(label) if r.sizes]


def models_differ(sized: Sequence[Sizes]) -> bool:
    """Whether these models differ in more than the number of their classes: in their vocabulary, or in a head for pairs."""
    parameters = [s.parameters for s in sized]
    bodies = {s.parameters - s.pooler_and_head for s in sized}
    return len(bodies) > 1 or max(parameters) - min(parameters) > CLASSIFIER_SHARE * min(parameters)


def need_own_lines(sized: Sequence[Sizes]) -> bool:
    """Whether these models need one line each in a table of sizes: other models, or sequences leave them at other layers."""
    return models_differ(sized) or len({s.expected_macs for s in sized}) > 1
