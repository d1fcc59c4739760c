"""How the gate's comparisons end: verdicts, their exit codes, and one finding."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from bench.errors import CHECK_FAILED, INCONCLUSIVE, NOT_COMPARABLE, NOTHING_MEASURED, OK

PASSED = "passed"
ACCEPTED = "accepted"
"""It regressed, and somebody has looked at it."""
REGRESSED = "regressed"
UNCLEAR = "inconclusive"
MISSING = "nothing measured"
OTHER = "not comparable"
EXIT_CODES = {
    PASSED: OK,
    ACCEPTED: OK,
    REGRESSED: CHECK_FAILED,
    UNCLEAR: INCONCLUSIVE,
    MISSING: NOTHING_MEASURED,
    OTHER: NOT_COMPARABLE,
}
WORST_FIRST = (REGRESSED, OTHER, MISSING, UNCLEAR, ACCEPTED, PASSED)

ROW = "row"
"""The name of a comparison that is of a whole row."""
SIZE = "size"
LOSSES = "losses"


@dataclass(frozen=True)
class GateResult:
    """One comparison.

    Attributes:
        subject: whose: a task and a row, or the system of a timing.
        what: a score, :data:`ROW`, :data:`SIZE`, :data:`LOSSES` or a speed-up.
        verdict: how it ended.
        why: a clause for people.
    """

    subject: str
    what: str
    verdict: str
    why: str


def overall(findings: Sequence[GateResult]) -> str:
    """The worst verdict; nothing measured where there is no finding."""
    verdicts = {finding.verdict for finding in findings}
    for verdict in WORST_FIRST:
        if verdict in verdicts:
            return verdict
    return MISSING
