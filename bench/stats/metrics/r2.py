"""The coefficient of determination: how much of the labels' variance predicted values explain.

Correlations do not see answers on a wrong scale; this does. It is 1 for exact predictions, 0 for
the mean of the labels, and below 0 for worse ones.
"""

from __future__ import annotations

import numpy as np

from bench.stats.form import SCORE
from bench.stats.metrics import Metric
from bench.stats.resampling import Determination

LOWEST = -1.0
"""Records hold scores from -1 on: all that is worse counts as this."""


def _r2(predicted: np.ndarray, true: np.ndarray) -> float:
    """[n] values each; labels without variance have no score but 0."""
    # the squared errors, as a share of those of the labels' mean
    target = true.astype(np.float64)
    total = float(((target - target.mean()) ** 2).sum())
    if total == 0:
        return 0.0
    missed = float(((target - predicted.astype(np.float64)) ** 2).sum())
    return max(LOWEST, 1 - missed / total)


R2 = Metric("r2", "R2", SCORE, score=_r2, low=LOWEST, resampled_by=Determination(LOWEST))
