"""Claims in running text: a share kept of another system's score, and a change beside the two numbers that it is of."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from decimal import Decimal

from bench.audit.findings import INFERENCE, Finding
from bench.audit.names import is_average, plain_name
from bench.audit.printed import printed
from bench.audit.table import PrintedRow, Sheet

NUMBER = r"(?<![\d.])(\d{1,15}(?:\.\d{1,20})?)(?!\d)"
"""A number that somebody claims. One with more digits is no result."""
KEPT = re.compile(
    r"(?:(over|more than|at least)\s*)?" + NUMBER + r"\s*%\s+of\s+([^.;]{0,60}?)performance", re.IGNORECASE
)
FROM_TO = re.compile(
    rf"\bfrom\s+{NUMBER}\s*%?\s+to\s+{NUMBER}\s*%?\s*\(\s*[-+−–]?{NUMBER}(\s*%)?(?:\s*(?:points?|pp|pts))?\s*\)",
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
        if "|" not in sentence and "\t" not in sentence and len(sentence) <= LONGEST_SENTENCE:
            for match in KEPT.finditer(sentence):
                yield from _share_kept(where, sentence[: match.start()], match, rows)
            for match in FROM_TO.finditer(sentence):
                yield from _change(where, match)


def _share_kept(
    where: str, before: str, match: re.Match[str], rows: Sequence[tuple[str, PrintedRow]]
) -> Iterator[Finding]:
    """The averages of the system named before the claim, as shares of those of the systems that it names."""
    subject: list[tuple[str, PrintedRow]] = []
    for name in NAME.findall(re.sub(r"^\W*[\w -]+:", "", before)) or NAME.findall(before):
        subject = [(plain, row) for plain, row in rows if plain.startswith(plain_name(name))]
        if subject and plain_name(name) not in REFERENCES:
            break
        subject = []
    in_code = re.findall(r"`([^`]+)`", match[3])
    named = tuple(map(plain_name, [*in_code, *NAME.findall(re.sub(r"`[^`]*`", "", match[3]))]))
    own = {plain for plain, _ in subject}
    others = [row for plain, row in rows if plain not in own and plain.startswith(named)]
    shares = []
    for _, row in subject:
        # of several references those whose names end as the row's does: cased with cased, base with base
        alike = [other for other in others if _last_word(other) == _last_word(row)]
        shares += [
            100 * cell.value / other.cells[column].value
            for other in alike or others
            for column, cell in row.cells.items()
            if is_average(column) and column in other.cells and other.cells[column].value
        ]
    kept = printed(match[2])
    if kept is None or not shares:
        return
    # a share of a teacher's score is printed to its digit: 99 % is none of 98.4 %
    slack = kept.step / 2 + Decimal("0.1")
    if not any(abs(share - kept.value) <= slack or (match[1] and share >= kept.value - slack) for share in shares):
        nearest = min(shares, key=lambda share: abs(share - kept.value))
        why = "no rows of the tables give this number; the nearest is shown"
        yield _claim(where, subject[0][1].system, match[0].strip(), f"{nearest:.1f}", why)


def _last_word(row: PrintedRow) -> str:
    return re.split(r"[\s_-]", row.system.strip())[-1].lower()


def _change(where: str, match: re.Match[str]) -> Iterator[Finding]:
    """``from 61.5 to 55.6 (-5.9 points)``, or in percent of the first."""
    first, second, change = (printed(match[n]) for n in (1, 2, 3))
    if first is None or second is None or change is None or not first.value:
        return
    gap = abs(second.value - first.value)
    ways = [(gap, (first.step + second.step) / 2)]
    if match[4]:
        share = gap / abs(first.value)
        ways.append((100 * share, 50 * (first.step + second.step) / abs(first.value) * (1 + share)))
    if all(abs(value - change.value) > slack + change.step / 2 for value, slack in ways):
        nearest = min((value for value, _ in ways), key=lambda value: abs(value - change.value))
        why = f"the change from {first.text} to {second.text}"
        yield _claim(where, "", match[0], f"{nearest:.{change.places}f}", why)


def _claim(where: str, system: str, text: str, right: str, why: str) -> Finding:
    return Finding(
        where=where,
        row=system,
        column="",
        printed=text,
        recomputed=right,
        basis=INFERENCE,
        check="claim",
        why=why,
        changes="a claim in the text",
    )
