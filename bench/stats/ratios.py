"""How many times faster: a ratio of interleaved rounds, or of several sessions."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from bench.stats.power import LEVEL

FEWEST_ROUNDS = 6
"""So many rounds have a 95 % interval of their median."""


@dataclass(frozen=True)
class Ratio:
    """Median of the rounds' ratios with a 95 % interval.

    Attributes:
        sessions: of timing, that it is of; the interval of one has no variance between sessions.
    """

    median: float
    low: float
    high: float
    sessions: int = 1

    def text(self) -> str:
        return f"{self.median:.2f}x ({self.low:.2f} to {self.high:.2f})"


def ratio(reference: Sequence[float], compared: Sequence[float]) -> Ratio:
    """The reference's times over the others, round by round.

    The interval is that of a median by order statistics.

    It assumes nothing but independent rounds (Conover 1999, section 3.2).

    Raises:
        ValueError: the two have different numbers of rounds, or fewer than 6.
    """
    from scipy.stats import quantile_test

    ratios = [slow / fast for slow, fast in zip(reference, compared, strict=True)]
    if len(ratios) < FEWEST_ROUNDS:
        raise ValueError(
            f"{len(ratios)} rounds are too few for a 95 % interval; at least {FEWEST_ROUNDS} are "
            "needed"
        )
    # two of the ordered ratios, between which the median lies with this confidence
    low, high = quantile_test(ratios, q=1.0, p=0.5).confidence_interval(1 - LEVEL)
    return Ratio(statistics.median(ratios), float(low), float(high))


def pooled(systems: Sequence[Sequence[Ratio]]) -> list[Ratio]:
    """The ratio of each system over its sessions of timing: their geometric mean.

    Its 95 % interval is that of other sessions.

    Sessions on one kind of machine differ by more than rounds of one do: by what the machine's
    owner runs beside, and by where the memory lies. So few sessions tell this badly, so all
    systems are taken to vary alike, and the interval has Student's t with their degrees of freedom
    together. It is never narrower than rounds alone make it. A system of one session stays as it
    is.

    Args:
        systems: of each system its ratio in each of its sessions.
    """
    from scipy.stats import t

    # how far sessions of one system lie from their mean, of all systems together
    means: list[float] = []
    squares = 0.0
    for sessions in systems:
        logs = [math.log(session.median) for session in sessions]
        means.append(statistics.fmean(logs))
        squares += sum((value - means[-1]) ** 2 for value in logs)
    freedom = sum(len(sessions) - 1 for sessions in systems)
    if not freedom:
        return [sessions[0] for sessions in systems]
    deviation = math.sqrt(squares / freedom)
    quantile = float(t.ppf(1 - LEVEL / 2, freedom))

    together = []
    for sessions, mean in zip(systems, means, strict=True):
        count = len(sessions)
        if count == 1:
            together.append(sessions[0])
            continue
        # half of the interval of one session, from the rounds alone
        of_rounds = statistics.fmean(math.log(one.high / one.low) / 2 for one in sessions)
        half = max(quantile * deviation, of_rounds) / math.sqrt(count)
        low = math.exp(mean - half)
        high = math.exp(mean + half)
        together.append(Ratio(math.exp(mean), low, high, sessions=count))
    return together


def enough_rounds_for(rounds: int, share: float) -> bool:
    """Whether at least one of so many values lies above this percentile.

    It takes 10 rounds for a p90, 100 for a p99.
    """
    return round(rounds * (1 - share), 9) >= 1  # 10 * (1 - 0.9) is 0.9999999999999998
