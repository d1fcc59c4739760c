"""How much of the gradient each loss term gives, by stage."""

from __future__ import annotations

from collections.abc import Iterable

from bench.report import frame
from bench.report.frame import Frame, FrameLine, TableCell
from bench.report.groups import ReportGroup
from bench.report.tables.parts import DASH, line_of
from bench.report.tables.registry import COST, ReportData, table
from bench.report.trainings import trainings

IDLE_SHARE = 0.01
"""A term that never moves the weights by more than this part of its stage's gradients does not matter."""
Shares = dict[tuple[str, str], list[list[float]]]
"""(stage, term) -> its shares at the measured steps, of each training that has them"""


@table(COST, place=70)
def _frames(data: ReportData) -> Iterable[Frame | None]:
    return [gradient_shares(data.group)]


def gradient_shares(group: ReportGroup) -> Frame | None:
    """How much of the gradient each term gives, by stage; terms that never matter are named."""
    measured = {label: _shares(group, label) for label in group.systems}
    runs_of_all = [runs for of_row in measured.values() for runs in of_row.values()]
    steps = max((len(shares) for runs in runs_of_all for shares in runs), default=0)
    lines = [
        _line(group, label, place, _means(runs), steps)
        for label, of_row in measured.items()
        for place, runs in of_row.items()
    ]
    if not lines:
        return None
    parts = [frame.TableColumn(f"after {100 * i // steps} %") for i in range(steps)]
    columns = (
        frame.TableColumn("System"),
        frame.TableColumn("stage", words=True),
        frame.TableColumn("term", words=True),
        *parts,
    )
    note = (
        "The norm of a weighted term's gradient, divided by the sum of these norms over the terms of the same stage and optimiser, at four "
        "steps; the mean over tasks and seeds. Only stages with several terms are shown. docs/methods.md explains the terms, in its section "
        "'The names of the loss terms'."
    )
    return Frame("Gradient share of each term", columns, tuple(lines), (note, *_idle(group, measured)))


def _shares(group: ReportGroup, label: str) -> Shares:
    """Of stages with several terms: the shares of each one, where they were measured."""
    seen: Shares = {}
    for record in trainings(group, label):
        for stage, terms in record.gradient_shares.items():
            for term, shares in terms.items():
                if len(terms) > 1 and shares:
                    seen.setdefault((stage, term), []).append(shares)
    return seen


def _means(runs: list[list[float]]) -> list[float]:
    """The mean over trainings at each measured step."""
    return [sum(values) / len(values) for values in zip(*runs, strict=False)]


def _line(group: ReportGroup, label: str, place: tuple[str, str], points: list[float], steps: int) -> FrameLine:
    """Dashes where a training had fewer measured steps than the columns: they are at other parts of its stage."""
    cells = [TableCell(f"{100 * point:.1f} %", value=100 * point) for point in points]
    return line_of(
        group, label, [*map(TableCell, place), *(cells if len(cells) == steps else [TableCell(DASH)] * steps)]
    )


def _idle(group: ReportGroup, measured: dict[str, Shares]) -> list[str]:
    """The terms that were never above :data:`IDLE_SHARE`, in one sentence."""
    idle = [
        f"{label}: {term} in stage {stage} ({_in_how_many(len(runs), len(trainings(group, label)))})"
        for label, of_row in measured.items()
        for (stage, term), runs in of_row.items()
        if max(map(max, runs)) < IDLE_SHARE
    ]
    if not idle:
        return []
    return [
        f"**Never above {100 * IDLE_SHARE:.0f} %, on any task, seed or step that was measured: {'; '.join(idle)}.** Such a term "
        "probably has little effect. An ablation without it shows whether that is so."
    ]


def _in_how_many(runs: int, done: int) -> str:
    """In how many of a row's trainings a term's share was measured: older records have none."""
    if runs == done:
        return "measured in its one training run" if done == 1 else f"measured in all {done} training runs"
    return f"measured in {runs} of {done} training runs"
