"""Claims in running text: a share kept of another system's score."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from decimal import Decimal

from bench.audit.findings import INFERENCE, Finding
from bench.audit.names import is_average, plain_name
from bench.audit.printed import printed
from bench.audit.table import PrintedRow, Sheet

KEPT = re.compile(
    r"(?:(over|more than|at least)\s*)?(?<![\d.])(\d{1,15}(?:\.\d{1,20})?)\s*%\s+of\s+([^.;]{0,60}?)performance",
    re.IGNORECASE,
)
REFERENCES = ("bert", "bertbase", "bertlarge", "elmo", "gpt", "glue")
"""What others are measured against is no subject."""
NAME = re.compile(r"\b[A-Za-z]*[A-Z][A-Za-z]*[A-Z][\w+-]*\b")
"""Names of systems: two capitals, as TinyBERT or PKD."""
LONGEST_SENTENCE = 2000
"""Characters. What is longer is no sentence, and some patterns would take the square of its length."""


def claims(text: str, where: str, sheets: Sequence[Sheet]) -> Iterator[Finding]:
    """Claims that no rows of the tables give. Those that cannot be computed are left alone."""
    rows = [(plain_name(row.system), row) for sheet in sheets for row in sheet.rows]
    for sentence in re.split(r"(?<=[.!?])\s+|\n", text):
        if "|" in sentence or "\t" in sentence or len(sentence) > LONGEST_SENTENCE:
            continue
        for claim in KEPT.finditer(sentence):
            systems, shares = _shares(sentence[: claim.start()], claim[3], rows)
            kept = printed(claim[2])
            if kept is None or not shares:
                continue
            # a share of a teacher's score is printed to its digit: 99 % is none of 98.4 %
            slack = kept.step / 2 + Decimal("0.1")
            if any(abs(share - kept.value) <= slack or (claim[1] and share > kept.value) for share in shares):
                continue
            yield Finding(
                where=where,
                row=systems[0],
                column="",
                printed=claim[0].strip(),
                recomputed=f"{min(shares, key=lambda share: abs(share - kept.value)):.1f}",
                basis=INFERENCE,
                check="claim",
                why="no rows of the tables give this number; the nearest is shown",
                changes="a claim in the text",
            )


def _shares(before: str, after: str, rows: Sequence[tuple[str, PrintedRow]]) -> tuple[list[str], list[Decimal]]:
    """The system named before a claim, and its averages in percent of those of the systems that the claim names."""
    subject: list[PrintedRow] = []
    for name in map(plain_name, NAME.findall(re.sub(r"^\W*[\w -]+:", "", before)) or NAME.findall(before)):
        subject = [row for plain, row in rows if name not in REFERENCES and plain.startswith(name)]
        if subject:
            break
    in_code = re.findall(r"`([^`]+)`", after)
    references = tuple(map(plain_name, [*in_code, *NAME.findall(re.sub(r"`[^`]*`", "", after))]))
    own = {plain_name(row.system) for row in subject}
    others = [row for plain, row in rows if plain not in own and plain.startswith(references)]
    shares = []
    for row in subject:
        # of several references those whose names end as the row's does: cased with cased, base with base
        alike = [other for other in others if _last_word(other) == _last_word(row)]
        shares += [
            100 * cell.value / other.cells[column].value
            for other in alike or others
            for column, cell in row.cells.items()
            if is_average(column) and column in other.cells and other.cells[column].value
        ]
    return [row.system for row in subject], shares


def _last_word(row: PrintedRow) -> str:
    return re.split(r"[\s_-]", row.system.strip())[-1].lower()
