"""One thing that does not add up, and how a list of them is shown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

ARITHMETIC, INFERENCE = "arithmetic", "inference"


@dataclass(frozen=True)
class Finding:
    """A cell that the rest of the table contradicts.

    Attributes:
        recomputed: what it should be by the rule in ``why``; "" where there is no number.
        basis: ``arithmetic`` for what follows from the printed numbers alone, ``inference`` for what needs a reading.
        changes: a ranking, a headline, a digit, or a reading.
    """

    where: str
    row: str
    column: str
    printed: str
    recomputed: str
    basis: str
    check: str
    why: str
    changes: str


def table(findings: Sequence[Finding]) -> str:
    """Markdown, in the order of the sources."""
    from tabulate import tabulate

    rows = [[f.where, f.row, f.column, f.printed, f.recomputed or "–", f.basis, f.why, f.changes] for f in findings]
    header = ["where", "row", "column", "printed", "recomputed", "basis", "why", "changes"]
    return tabulate(rows, header, tablefmt="github", disable_numparse=True)
