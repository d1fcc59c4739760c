"""The limits that a row may have to keep within: of size, of time, and of what it keeps of the
teacher's score."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from bench.errors import InputError

PARAMETERS = "parameters"
MEGABYTES = "megabytes"
FLOPS = "flops"
LATENCY = "latency"
RETAINED = "retained"


@dataclass(frozen=True)
class Limit:
    """A limit that may be set.

    Attributes:
        option: how it is typed.
        unit: behind its number.
        field: of :class:`bench.analysis.candidates.Candidate`, the value that is compared.
        is_least: whether it is the least that a row may have; else it is the most.
    """

    option: str
    unit: str
    field: str
    is_least: bool = False

    def allows(self, cost: float | None, value: float) -> bool:
        """Whether a row of this cost is within the limit; one that was not measured is not."""
        if cost is None:
            return False
        return cost >= value if self.is_least else cost <= value


LIMITS: Mapping[str, Limit] = MappingProxyType(
    {
        PARAMETERS: Limit("--max-params", "M parameters", PARAMETERS),
        MEGABYTES: Limit("--max-mb", "MB", MEGABYTES),
        FLOPS: Limit("--max-flops", "G FLOPs", FLOPS),
        LATENCY: Limit("--max-latency", "ms", LATENCY),
        RETAINED: Limit("--min-retain", "% retention", "retained_low", is_least=True),
    }
)
"""What may have a limit. FLOPs are of one sequence of 128 tokens, latency is the median under a
session's main conditions. Of what is retained the lower end of the 95 % interval is compared."""
OF_SIZE = (PARAMETERS, MEGABYTES, FLOPS)
"""The limits that are known to be met or not before anything is trained."""
OF_FEWER_BITS = frozenset({MEGABYTES, LATENCY})
"""The limits that a row in 8 bits may meet where the same row in fp32 does not."""


def checked_limits(budget: Mapping[str, float | None]) -> dict[str, float]:
    """The limits that were set.

    Raises:
        InputError: no such limit, or one out of its range.
    """
    limits: dict[str, float] = {}
    for name, value in budget.items():
        if name not in LIMITS:
            raise InputError(f"no limit {name!r}; there are: {', '.join(LIMITS)}")
        if value is None:
            continue
        option = LIMITS[name].option
        if not value > 0:
            raise InputError(f"{option} {value:g}: should be above 0")
        if name == RETAINED and value <= 1:
            raise InputError(f"{option} {value:g}: is in percent, like 95")
        if name == RETAINED and value > 100:
            raise InputError(f"{option} {value:g}: no row is asked for a retention above 100 %")
        limits[name] = value
    return limits


def stated(name: str, cost: float) -> str:
    """What a row needs or keeps, rounded to a limit that it keeps within.

    Rounded otherwise, a limit that it misses could look met.
    """
    limit = LIMITS[name]
    # 100 * 1.1 is above 110
    hundredths = round(100 * cost, 8)
    if limit.is_least:
        return f"keeps at least {np.floor(hundredths) / 100:.2f} {limit.unit}"
    return f"needs {np.ceil(hundredths) / 100:.2f} {limit.unit}"
