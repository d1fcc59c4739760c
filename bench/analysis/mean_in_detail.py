"""Details of a comparison's mean that a reviewer asks for: made from its columns, and said in
sentences."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from bench.report.paired_rows import Comparison, Pair, Side, contrast_of_mean, mean_difference
from bench.stats.mean_detail import MeanDetail, WithoutColumn, power_at, runs_won, shown_tasks


def in_detail(pairs: Sequence[Pair], lines: Sequence[Comparison]) -> MeanDetail:
    """More of the mean of these columns.

    Args:
        pairs: of each column its answers and what is compared.
        lines: of each column its comparison, in the same order.
    """
    difference = float(np.mean([line.difference for line in lines]))
    won, runs = _runs(pairs)

    # p of a difference of the mean's own sign: half of the two-sided one, or what is left of it
    of_sign: dict[str, list[float]] = {}
    for (data, _), line in zip(pairs, lines, strict=True):
        agrees = line.difference * difference > 0
        p = line.p / 2 if agrees else 1 - line.p / 2
        of_sign.setdefault(data.column.task, []).append(p)
    # the sets of one task have the same trainings: its p is the smallest, times their number
    of_tasks = [min(1.0, len(own) * min(own)) for own in of_sign.values()]

    without: list[WithoutColumn] = []
    for number, line in enumerate(lines):
        others = [pair for place, pair in enumerate(pairs) if place != number]
        rest = [other.difference for place, other in enumerate(lines) if place != number]
        low, high = mean_difference(others).interval()
        without.append(WithoutColumn(line.task, float(np.mean(rest)), low, high))
    mean = contrast_of_mean(pairs)
    return MeanDetail(
        power=power_at(mean, difference / 100),
        power_of_doubt=power_at(mean, difference / 100, doubtful=True),
        won=won,
        runs=runs,
        tasks=shown_tasks(of_tasks),
        of_tasks=len(of_tasks),
        without=tuple(without),
    )


def _runs(pairs: Sequence[Pair]) -> tuple[float | None, int | None]:
    """The number of pairs of runs in which the first row has the higher mean, and of all pairs;
    None where sides are no single rows, or columns have different seeds."""
    sides = [side for _, both in pairs for side in both]
    if any(len(side.rows) > 1 or side.against for side in sides):
        return None, None
    means: list[np.ndarray] = []
    for place in (0, 1):
        scores = [_of_seeds(pair, pair[1][place]) for pair in pairs]
        if len({len(own) for own in scores}) > 1:
            return None, None
        means.append(np.mean(scores, axis=0))
    return runs_won(*means), len(means[0]) * len(means[1])


def _of_seeds(pair: Pair, side: Side) -> list[float]:
    """The score of each seed of a row in one column, in the order of the seeds."""
    column = pair[0].column
    return [record.scores[column.evaluation][column.metric] for record in side.rows[0]]


def sentences(mean: Comparison) -> list[str]:
    """The detail of a mean in words; none where it has none."""
    detail = mean.detail
    if detail is None:
        return []
    said = [
        f"Power: if the true mean difference were {mean.difference:+.1f}, "
        f"{100 * detail.power:.0f} of 100 such comparisons would show it with the variances that "
        f"were seen, and {100 * detail.power_of_doubt:.0f} with variances as doubtful as so few "
        "seeds leave them.",
        f"Partial conjunction: a difference of this sign is shown on at least {detail.tasks} of "
        f"{detail.of_tasks} tasks.",
    ]
    if detail.won is not None:
        said.append(
            f"Runs: in {detail.won:g} of {detail.runs} pairs of a run of each row the first has "
            "the higher mean."
        )
    without = [
        f"{one.column} {one.difference:+.1f} ({one.low:+.1f} to {one.high:+.1f})"
        for one in detail.without
    ]
    return [*said, f"The mean without {', without '.join(without)}."]
