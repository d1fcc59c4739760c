"""Where a score, difference or ratio lies, as other examples and other trainings would move it: its
quantiles, computed and not drawn.

Two things move it. The examples do as the bootstrap found, whose resamples are kept. The trainings
of a few seeds do as a normal variable, whose variance is known from those seeds alone: the sum is
divided by the square root of a chi-square variable, as Student's t is. All but the resampled
examples is integrated numerically, so ends of intervals do not hang on which numbers a generator
gives.

Letters of shapes: R resamples, K points of a grid.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from bench.stats.power import LEVEL, POWER

CONFIDENCE = 1 - LEVEL
"""Of every interval."""
GRID = 1024
"""Points at which the sum of both chances is computed."""
SCALES = 400
"""Equally probable values of the chi-square variable over which it is averaged."""
REACH = 6.0
"""Standard deviations of the trainings that the grid reaches beyond the resamples."""
BATCHES = 20
"""Parts of the resamples whose p-values tell how far p hangs on them."""
AS_GOOD_AS_KNOWN = 1e6
"""Degrees of freedom of a variance that is known."""
EQUAL = 1e-12
"""Two numbers that are nearer to each other than this are one number, but for rounding."""


@dataclass(frozen=True, eq=False)
class Distribution:
    """A value on resampled examples, and how far other trainings would move it.

    Attributes:
        examples_R: the value on each resample, without NaN.
        shrunk: factor of the resamples' deviations from their mean: below 1 where a part of their
            spread belongs to the trainings.
        added: variance that the trainings add.
        freedom: degrees of freedom of the whole variance.
        low, high: what the value cannot be below or above.
    """

    examples_R: np.ndarray
    shrunk: float = 1.0
    added: float = 0.0
    freedom: float = AS_GOOD_AS_KNOWN
    low: float = -np.inf
    high: float = np.inf

    def within(self, low: float, high: float) -> Distribution:
        """The same, cut where no value can be. The truth lies within, so intervals that are cut
        there cover it as often."""
        return replace(self, low=low, high=high)

    def times(self, factor: float) -> Distribution:
        """The distribution of a multiple, which may be negative."""
        ends = sorted((factor * self.low, factor * self.high))
        return replace(
            self,
            examples_R=factor * self.examples_R,
            added=factor**2 * self.added,
            low=ends[0],
            high=ends[1],
        )

    @property
    def is_constant(self) -> bool:
        """Whether nothing that was drawn moves it."""
        return self.added <= 0 and float(np.ptp(self.examples_R)) <= EQUAL

    def below(self, value: float) -> float:
        """The probability of less than a value; what equals it counts half."""
        # beyond where any value can be
        if value < self.low or value > self.high:
            return float(value > self.high)
        if self.added > 0:
            return float(self._sum_below((value - self._centre) * self._scales_K).mean())
        # the resamples alone, ties at half
        equal = np.isclose(self.examples_R, value, rtol=0, atol=EQUAL)
        return float((((self.examples_R < value) & ~equal) + 0.5 * equal).mean())

    def quantile(self, share: float) -> float:
        """The value below which it lies with this probability."""
        is_exact = self.added > 0
        found = self._root(share) if is_exact else np.quantile(self.examples_R, share)
        return float(np.clip(found, self.low, self.high))

    def interval(self) -> tuple[float, float]:
        """The two ends that leave out the same probability on both sides."""
        return self.quantile((1 - CONFIDENCE) / 2), self.quantile((1 + CONFIDENCE) / 2)

    def least_detectable(self) -> float:
        """The smallest true difference that such a comparison finds with the usual level and power.

        How far chance reaches at the level, and from there at the power; 2.8 standard errors where
        chance is normal.
        """
        low, high = self.interval()
        return (high - low + self.quantile(POWER) - self.quantile(1 - POWER)) / 2

    def p(self) -> float:
        """Two-sided p-value of no difference: twice the smaller tail beyond 0."""
        below = self.below(0.0)
        tail = min(below, 1 - below)
        if self.added <= 0:
            # the examples as they are count as one of the resamples
            resamples = len(self.examples_R)
            tail = (resamples * tail + 0.5) / (resamples + 1)
        return min(1.0, 2 * tail)

    def error_of(self, measured: Callable[[Distribution], float]) -> float:
        """The standard error that the drawn examples leave in a number of this distribution, from
        parts of the resamples."""
        parts = np.array_split(self.examples_R, BATCHES)
        values = [measured(replace(self, examples_R=part)) for part in parts]
        return float(np.std(values, ddof=1) / np.sqrt(BATCHES))

    def draws(self, rng: np.random.Generator) -> np.ndarray:
        """[R] values, each on the resample of its place: for questions about several rows on the
        same examples."""
        # the examples, then the trainings, then Student's t
        moved_R = self.shrunk * (self.examples_R - self._centre)
        if self.added > 0:
            moved_R = moved_R + rng.normal(0, np.sqrt(self.added), len(moved_R))
            moved_R = moved_R * np.sqrt(self.freedom / rng.chisquare(self.freedom, len(moved_R)))
        return np.clip(self._centre + moved_R, self.low, self.high)

    @cached_property
    def _centre(self) -> float:
        return float(self.examples_R.mean())

    @cached_property
    def _scales_K(self) -> np.ndarray:
        """[SCALES] equally probable values of the square root of chi-square over its degrees of
        freedom."""
        from scipy.stats import chi2

        if self.freedom >= AS_GOOD_AS_KNOWN:
            return np.ones(1)
        # the middles of so many equal shares
        shares_K = (np.arange(SCALES) + 0.5) / SCALES
        return np.sqrt(chi2.ppf(shares_K, self.freedom) / self.freedom)

    @cached_property
    def _sum_below(self) -> Callable[[np.ndarray], np.ndarray]:
        """Deviations from the centre -> the probability of less, of examples and trainings without
        the chi-square variable."""
        from scipy.special import ndtr

        deviation = np.sqrt(self.added)
        moved_R = self.shrunk * (self.examples_R - self._centre)
        # a grid that holds the resamples, and what the trainings may add to the outermost
        ends = moved_R.min() - REACH * deviation, moved_R.max() + REACH * deviation
        edges_K = np.linspace(*ends, GRID + 1)
        step = edges_K[1] - edges_K[0]
        # each resample's weight is shared by the two middles of steps beside it: its mean stays
        place_R = (moved_R - edges_K[0]) / step - 0.5
        left_R = np.clip(np.floor(place_R).astype(int), 0, GRID - 2)
        right_share_R = place_R - left_R
        weight_K = np.bincount(left_R, 1 - right_share_R, GRID)
        weight_K += np.bincount(left_R + 1, right_share_R, GRID)
        # the chance of the trainings in steps of the same size, and the sum of both
        reach = int(np.ceil(REACH * deviation / step))
        kernel = np.diff(ndtr((np.arange(-reach - 0.5, reach + 1) * step) / deviation))
        together_K = np.convolve(weight_K, kernel)[reach : reach + GRID] / len(moved_R)
        below_K = np.concatenate([[0.0], np.cumsum(together_K)])
        return lambda moved_K: np.interp(moved_K, edges_K, below_K / below_K[-1])

    def _root(self, share: float) -> float:
        """The quantile, between two values that are moved apart until it lies between them."""
        from scipy.optimize import brentq

        def beyond(moved: float) -> float:
            return float(self._sum_below(moved * self._scales_K).mean()) - share

        # one standard deviation, doubled until it is far enough
        reach = float(np.sqrt(self.added + self.shrunk**2 * self.examples_R.var()))
        while beyond(-reach) > 0 or beyond(reach) < 0:
            reach *= 2
        return self._centre + float(brentq(beyond, -reach, reach, xtol=1e-9 * reach))
