"""Numbers that no predictions can give together, whatever the data: bounds, orders and ties between metrics.

With accuracy a, F1 of one class is at most 2a / (1 + a). Of MRPC two thirds of the examples are positive, so there F1 is
above accuracy; of QQP more than half are negative, so there it is below. EM is at most F1, top-1 at most top-5.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence
from decimal import Decimal

from bench.audit.findings import ARITHMETIC, Finding
from bench.audit.names import is_plain
from bench.audit.printed import PrintedNumber
from bench.audit.table import PrintedRow, Sheet
from bench.stats.glue import development_examples

ORDERED = (
    (r"\bem\b|exact[ -_]?match", r"\bf1\b", "EM is at most F1: an exact answer has all words right"),
    (r"\brouge[- ]?2\b", r"\brouge[- ]?1\b", "two words in a row are found at most as often as one"),
    (r"\brouge[- ]?l\b", r"\brouge[- ]?1\b", "a common sequence has at most the words in common"),
    (r"\br-?2\b", r"\br-?1\b", "two words in a row are found at most as often as one"),
    (r"\bbleu-?4\b", r"\bbleu-?[123]\b", "longer sequences are found at most as often"),
    (r"\btop-?1\b", r"\btop-?5\b", "top-1 is at most top-5"),
)
"""Names of two columns alike but for these, the first of which is never above the second."""
AT_K = re.compile(r"\b(pass|recall|r|hits?|hit rate|acc(?:uracy)?|top)\s*@\s*(\d{1,6})\b", re.IGNORECASE)
ACCURACY = re.compile(r"\bacc(?:uracy)?\b\.?", re.IGNORECASE)
F1 = re.compile(r"\bf1\b(?:[- ]score)?", re.IGNORECASE)
POSITIVE = {"mrpc": (True, Decimal(69)), "qqp": (False, Decimal(74))}
"""Task -> whether most examples are positive, and the accuracy from which on F1 has to be on that side of it.

F1 is above accuracy exactly where more positive than negative examples are right. With a share p of positives this is
certain from an accuracy of 2 (1 - p) on: 2 x 0.32 to 0.34 for MRPC. It is impossible from 2 p on: 2 x 0.37 for QQP.
"""
BINARY = re.compile(r"mrpc|qqp|paws|quora", re.IGNORECASE)

Pair = tuple[PrintedRow, str, PrintedNumber, str, PrintedNumber]


def impossible(sheet: Sheet) -> Iterator[Finding]:
    """Cells that cannot be together in one row."""
    rows = [row for row in sheet.rows if is_plain(row)]
    for row in rows:
        yield from _orders(sheet, row)
        yield from _at_k(sheet, row)
    yield from _accuracy_and_f1(sheet, rows)
    for row in rows:
        yield from _accuracy_and_mcc(sheet, row)


def _orders(sheet: Sheet, row: PrintedRow) -> Iterator[Finding]:
    for small, large, why in ORDERED:
        for column, other in _partners(list(row.cells), small, large):
            low, high = row.cells[column], row.cells[other]
            if low.value - low.step / 2 > high.value + high.step / 2 and low.unit == high.unit:
                yield _finding(sheet, row, f"{column}, {other}", low, high, why)


def _partners(columns: Sequence[str], small: str, large: str) -> Iterator[tuple[str, str]]:
    """Pairs of columns whose names are one but for the metric."""
    for column in columns:
        if not re.search(small, column, re.IGNORECASE) or re.search(large, column, re.IGNORECASE):
            continue
        rest = re.sub(small, "", column, flags=re.IGNORECASE)
        for other in columns:
            if re.search(large, other, re.IGNORECASE) and re.sub(large, "", other, flags=re.IGNORECASE) == rest:
                yield column, other


def _at_k(sheet: Sheet, row: PrintedRow) -> Iterator[Finding]:
    """Pass@1 above pass@10, recall@5 above recall@20."""
    found: dict[str, list[tuple[int, str]]] = {}
    for column in row.cells:
        if mark := AT_K.search(column):
            found.setdefault(AT_K.sub(mark[1].lower(), column, count=1), []).append((int(mark[2]), column))
    for columns in found.values():
        ordered = sorted(columns)
        for (_, low), (_, high) in itertools.pairwise(ordered):
            a, b = row.cells[low], row.cells[high]
            if a.value - a.step / 2 > b.value + b.step / 2:
                yield _finding(sheet, row, f"{low}, {high}", a, b, "of more answers at least as many are right")


def accuracy_and_f1(rows: Sequence[PrintedRow]) -> Iterator[Pair]:
    """Accuracy and F1 of one task: in two columns of a row, or of rows whose names say the metrics."""
    for row in rows:
        for column in row.cells:
            for other in row.cells:
                same = ACCURACY.sub("", column) == F1.sub("", other)
                if column != other and same and ACCURACY.search(column) and F1.search(other):
                    yield row, column, row.cells[column], other, row.cells[other]
        yield from _named_in_the_row(row)


def _named_in_the_row(row: PrintedRow) -> Iterator[Pair]:
    """A row named ``MRPC, F1/Accuracy`` with cells of two numbers."""
    named = re.search(r"\b(acc(?:uracy)?\.?|f1)\s*/\s*(acc(?:uracy)?\.?|f1)\b", row.system, re.IGNORECASE)
    if named is None or ACCURACY.fullmatch(named[1]) == ACCURACY.fullmatch(named[2]):
        return
    for column in row.cells:
        other = column.replace("(first)", "(second)")
        if "(first)" in column and other in row.cells:
            accuracy, f1 = (column, other) if ACCURACY.fullmatch(named[1]) else (other, column)
            yield row, accuracy, row.cells[accuracy], f1, row.cells[f1]


def _accuracy_and_f1(sheet: Sheet, rows: Sequence[PrintedRow]) -> Iterator[Finding]:
    for row, column, accuracy, other, f1 in accuracy_and_f1(rows):
        text = f"{row.system} {column}".lower()
        if not BINARY.search(text) or re.search(r"macro|micro|weighted", f"{column} {other}", re.IGNORECASE):
            continue
        whole = Decimal(1) if accuracy.value <= 1 and f1.value <= 1 else Decimal(100)
        slack = accuracy.step + f1.step
        # F1 is greatest where all errors are of one kind and all other examples are positive
        most = 2 * accuracy.value / (whole + accuracy.value) * whole if accuracy.value > 0 else whole
        task = next((name for name in POSITIVE if name in text), "")
        if f1.value > most + slack:
            why = f"with this accuracy F1 is at most {most:.{1 if whole == 100 else 3}f}"
            yield _finding(sheet, row, f"{column}, {other}", accuracy, f1, why)
        elif task:
            positive, least = POSITIVE[task]
            wrong = accuracy.value > f1.value + slack if positive else f1.value > accuracy.value + slack
            if wrong and min(accuracy.value, f1.value) * 100 / whole >= least:
                side = "above" if positive else "below"
                why = f"of {task.upper()} {'most' if positive else 'few'} examples are positive, so F1 is {side} accuracy: the two are exchanged"
                yield _finding(sheet, row, f"{column}, {other}", accuracy, f1, why)


COLA = (development_examples("cola"), 721)
"""Examples of CoLA's development set, and those of them that are acceptable."""
MATTHEWS = re.compile(r"\bmcc\b|matthews?(?:'?s)?(?:[- ]corr\w*\.?)?", re.IGNORECASE)


def _accuracy_and_mcc(sheet: Sheet, row: PrintedRow) -> Iterator[Finding]:
    """Accuracy and Matthews correlation of CoLA that no answers give together."""
    for column in [
        c for c in row.cells if re.search("cola", f"{row.system} {c}", re.IGNORECASE) and ACCURACY.search(c)
    ]:
        rest = re.sub(r"\W", "", ACCURACY.sub("", column))
        for other in [c for c in row.cells if MATTHEWS.search(c) and re.sub(r"\W", "", MATTHEWS.sub("", c)) == rest]:
            accuracy, mcc = row.cells[column], row.cells[other]
            of_test = re.search("test", f"{column} {sheet.name}", re.IGNORECASE)
            if not 1 < accuracy.value <= 100 or mcc.value <= 1 or of_test:
                continue
            least, most = matthews_range(float(accuracy.value), float(accuracy.step), *COLA)
            if not least - 1 <= float(mcc.value) <= most + 1:
                why = f"with this accuracy on CoLA's development set the Matthews correlation is {least:.1f} to {most:.1f}"
                yield _finding(sheet, row, f"{column}, {other}", accuracy, mcc, why)


def matthews_range(accuracy: float, step: float, size: int, positive: int) -> tuple[float, float]:
    """Least and greatest Matthews correlation (in percent) of answers with this accuracy (in percent)."""
    values = []
    low, high = (accuracy - step) * size / 100, (accuracy + step) * size / 100
    for right in range(max(0, round(low)), min(size, round(high)) + 1):
        for hits in range(max(0, right - (size - positive)), min(positive, right) + 1):
            rejected = right - hits
            misses, alarms = positive - hits, size - positive - rejected
            under = (hits + alarms) * positive * (size - positive) * (rejected + misses)
            values.append(100 * (hits * rejected - alarms * misses) / under**0.5 if under else 0.0)
    return min(values), max(values)


def _finding(sheet: Sheet, row: PrintedRow, column: str, a: PrintedNumber, b: PrintedNumber, why: str) -> Finding:
    return Finding(
        where=sheet.where,
        row=row.system,
        column=column,
        printed=f"{a.text}, {b.text}",
        recomputed="",
        basis=ARITHMETIC,
        check="impossible",
        why=why,
        changes="which number is which",
    )
