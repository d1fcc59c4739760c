"""Rows whose seeds end in results of several kinds: one fails, or one finds what the others miss.

Student's t takes the seeds of a row as draws from one bell curve. Of two kinds of results three
seeds say neither how far the kinds are apart nor how often each comes. A row is judged by the
spread that trainings of the other rows of its column have.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

TIMES = 10.0
"""Standard deviations of other rows that lie between the highest and the lowest seed of such a row,
or more. Of three seeds alike it is above 4.2 in one row of a hundred."""
LEAST_FREEDOM = 6
"""Degrees of freedom of the other rows' standard deviation. With four, one row in two hundred would
be named although all rows of its column are alike; with six, one in a thousand."""


def with_seeds_apart(scores: Mapping[str, Sequence[float]]) -> frozenset[str]:
    """The rows of a column whose seeds are further apart than the other rows would have it.

    Their range over seeds exceeds :data:`TIMES` the pooled standard deviation of the other rows.
    Two such rows in one small column may hide each other, and a row whose few seeds are all of one
    kind is not found. None where the other rows have too few seeds, or agree in all of theirs.

    Args:
        scores: row -> its score with each seed; rows of one seed say nothing.
    """
    # the spread of all rows, from which each row's part is taken away
    several = {row: np.array(seeds) for row, seeds in scores.items() if len(seeds) > 1}
    squares = {row: float(seeds.var() * len(seeds)) for row, seeds in several.items()}
    total_freedom = sum(len(seeds) - 1 for seeds in several.values())
    total_squares = sum(squares.values())
    apart = []
    for row, seeds in several.items():
        # the spread of the other rows
        freedom = total_freedom - (len(seeds) - 1)
        left = total_squares - squares[row]
        if freedom < LEAST_FREEDOM or left <= 0:
            continue
        if np.ptp(seeds) > TIMES * np.sqrt(left / freedom):
            apart.append(row)
    return frozenset(apart)
