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
ACCURACY = r"\bacc(?:uracy)?\b\.?"
F1 = r"\bf1\b(?:[- ]score)?"
POSITIVE = {"mrpc": (True, Decimal(69)), "qqp": (False, Decimal(74))}
"""Task -> whether most examples are positive, and the accuracy from which on F1 has to be on that side of it.

F1 is above accuracy exactly where more positive than negative examples are right. With a share p of positives this is
certain from an accuracy of 2 (1 - p) on: 2 x 0.32 to 0.34 for MRPC. It is impossible from 2 p on: 2 x 0.37 for QQP.
"""
BINARY = re.compile(r"mrpc|qqp|paws|quora", re.IGNORECASE)


def impossible(sheet: Sheet) -> Iterator[Finding]:
    """Cells that cannot be together in one row."""
    rows = [row for row in sheet.rows if is_plain(row)]
    pairs = [(low, high, why) for small, large, why in ORDERED for low, high in _partners(sheet.columns, small, large)]
    pairs += [(low, high, "of more answers at least as many are right") for low, high in _at_k(sheet.columns)]
    accuracy_and_f1 = list(_partners(sheet.columns, ACCURACY, F1))
    matthews = [(low, high) for low, high in _partners(sheet.columns, ACCURACY, MATTHEWS, r"\W")]
    for row in rows:
        for column, other, why in pairs:
            if column in row.cells and other in row.cells:
                low, high = row.cells[column], row.cells[other]
                if low.value - low.step / 2 > high.value + high.step / 2 and low.unit == high.unit:
                    yield _finding(sheet, row, column, other, why)
        for column, other in [*accuracy_and_f1, *_named_in_the_row(row)]:
            if column in row.cells and other in row.cells and (why := _f1_of_accuracy(row, column, other)):
                yield _finding(sheet, row, column, other, why)
        for column, other in matthews:
            if column in row.cells and other in row.cells and (why := _matthews_of_accuracy(sheet, row, column, other)):
                yield _finding(sheet, row, column, other, why)


def _partners(columns: Sequence[str], small: str, large: str, but: str = "(?!)") -> Iterator[tuple[str, str]]:
    """Pairs of columns whose names are one but for the metric, and for what ``but`` matches."""

    def rest(metric: str, column: str) -> str:
        return re.sub(but, "", re.sub(metric, "", column, flags=re.IGNORECASE))

    partner = {rest(large, column): column for column in columns if re.search(large, column, re.IGNORECASE)}
    for column in columns:
        is_small = re.search(small, column, re.IGNORECASE) and not re.search(large, column, re.IGNORECASE)
        if is_small and rest(small, column) in partner:
            yield column, partner[rest(small, column)]


def _at_k(columns: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Pass@1 and pass@10, recall@5 and recall@20."""
    of_metric: dict[str, list[tuple[int, str]]] = {}
    for column in columns:
        if mark := AT_K.search(column):
            of_metric.setdefault(AT_K.sub(mark[1].lower(), column, count=1), []).append((int(mark[2]), column))
    for of_one in of_metric.values():
        yield from ((low, high) for (_, low), (_, high) in itertools.pairwise(sorted(of_one)))


def _named_in_the_row(row: PrintedRow) -> Iterator[tuple[str, str]]:
    """Accuracy and F1 of a row named ``MRPC, F1/Accuracy`` with cells of two numbers."""
    named = re.search(rf"({ACCURACY}|{F1})\s*/\s*({ACCURACY}|{F1})", row.system, re.IGNORECASE)
    is_accuracy = [re.fullmatch(ACCURACY, name, re.IGNORECASE) for name in named.groups()] if named else []
    if any(is_accuracy) and not all(is_accuracy):
        for column in row.cells:
            other = column.replace("(first)", "(second)")
            if other != column:
                yield (column, other) if is_accuracy[0] else (other, column)


def _f1_of_accuracy(row: PrintedRow, column: str, other: str) -> str:
    """Why this accuracy and F1 cannot be together; "" where they can."""
    accuracy, f1 = row.cells[column], row.cells[other]
    text = f"{row.system} {column}".lower()
    if not BINARY.search(text) or re.search(r"macro|micro|weighted", f"{column} {other}", re.IGNORECASE):
        return ""
    whole = Decimal(1) if accuracy.value <= 1 and f1.value <= 1 else Decimal(100)
    slack = accuracy.step + f1.step
    # F1 is greatest where all errors are of one kind and all other examples are positive
    most = 2 * accuracy.value / (whole + accuracy.value) * whole if accuracy.value > 0 else whole
    task = next((name for name in POSITIVE if name in text), "")
    if f1.value > most + slack:
        return f"with this accuracy F1 is at most {most:.{1 if whole == 100 else 3}f}"
    if task:
        positive, least = POSITIVE[task]
        wrong = accuracy.value > f1.value + slack if positive else f1.value > accuracy.value + slack
        if wrong and min(accuracy.value, f1.value) * 100 / whole >= least:
            side = "above" if positive else "below"
            return f"of {task.upper()} {'most' if positive else 'few'} examples are positive, so F1 is {side} accuracy: the two are exchanged"
    return ""


COLA = (development_examples("cola"), 721)
"""Examples of CoLA's development set, and those of them that are acceptable."""
MATTHEWS = r"\bmcc\b|matthews?(?:'?s)?(?:[- ]corr\w*\.?)?"


def _matthews_of_accuracy(sheet: Sheet, row: PrintedRow, column: str, other: str) -> str:
    """Why no answers on CoLA's development set give this accuracy and this Matthews correlation; "" where some do."""
    accuracy, matthews = row.cells[column], row.cells[other]
    is_cola = re.search("cola", f"{row.system} {column}", re.IGNORECASE)
    of_test = re.search("test", f"{column} {sheet.name}", re.IGNORECASE)
    if not is_cola or of_test or not 1 < accuracy.value <= 100 or matthews.value <= 1:
        return ""
    least, most = matthews_range(float(accuracy.value), float(accuracy.step), *COLA)
    if least - 1 <= float(matthews.value) <= most + 1:
        return ""
    return f"with this accuracy on CoLA's development set the Matthews correlation is {least:.1f} to {most:.1f}"


def matthews_range(accuracy: float, step: float, size: int, positive: int) -> tuple[float, float]:
    """Least and greatest Matthews correlation (in percent) of answers with this accuracy (in percent)."""
    import numpy

    low, high = (accuracy - step) * size / 100, (accuracy + step) * size / 100
    right = numpy.arange(max(0, round(low)), min(size, round(high)) + 1)[:, None]
    hits = numpy.arange(positive + 1)[None, :]
    rejected = right - hits
    possible = (rejected >= 0) & (rejected <= size - positive)
    misses, alarms = positive - hits, size - positive - rejected
    under = (hits + alarms) * (rejected + misses) * float(positive * (size - positive))
    with numpy.errstate(all="ignore"):
        values = 100 * (hits * rejected - alarms * misses) / numpy.sqrt(under)
    values = numpy.where(under > 0, values, 0.0)[possible]
    return float(values.min()), float(values.max())


def _finding(sheet: Sheet, row: PrintedRow, column: str, other: str, why: str) -> Finding:
    return Finding(
        where=sheet.where,
        row=row.system,
        column=f"{column}, {other}",
        printed=f"{row.cells[column].text}, {row.cells[other].text}",
        recomputed="",
        basis=ARITHMETIC,
        check="impossible",
        why=why,
        changes="which number is which",
    )
