"""Numbers that cannot stand together: metrics of one row that no answers give, more FLOPs than the
weights can need, two metrics in one column, and two systems with one row of scores."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from decimal import Decimal
from itertools import pairwise

from bench.audit.findings import ARITHMETIC, INFERENCE, Finding
from bench.audit.names import has_scores, is_plain, plain_name
from bench.audit.printed import PrintedNumber
from bench.audit.table import UNKNOWN, PrintedRow, Sheet

ACCURACY = re.compile(r"\bacc(?:uracy)?\b\.?", re.IGNORECASE)
F1 = re.compile(r"\bf1\b(?:[- ]score)?", re.IGNORECASE)
EXACT_MATCH = re.compile(r"\bem\b|exact[ -_]?match", re.IGNORECASE)
MATTHEWS = re.compile(r"\bmcc\b|matthews?(?:'?s)?(?:[- ]corr\w*\.?)?", re.IGNORECASE)
AVERAGED_F1 = re.compile(r"macro|micro|weighted", re.IGNORECASE)
"""An F1 that is no F1 of one class: the bounds below are not for it."""
BINARY = re.compile(r"mrpc|qqp", re.IGNORECASE)
COLA_EXAMPLES = 1043
COLA_POSITIVE = 721
"""Acceptable sentences among those of CoLA's development set."""
EQUAL_SCORES = 5
"""Different scores that two systems have to share before one row is taken for a copy."""
STRADDLED = 78.0
"""Between what BERTs reach on QQP in F1 on the test server (60 to 75) and in accuracy on the
development set (80 to 92)."""
FAR = 8.0
"""Points between two groups of scores of one column that may be of two metrics."""
TOKENS = 128
"""Sequence length of the FLOPs that papers print."""
SHARED_WEIGHTS = re.compile(
    r"universal|shar|albert|recurren|loop|exit|early|dynamic|adaptive|length|token|seq|prun|sparse"
    r"|layerdrop|resolution|patch|@",
    re.IGNORECASE,
)
"""Systems whose FLOPs do not follow from their parameters."""


def mixed_metrics(sheet: Sheet) -> Iterator[Finding]:
    """Find columns whose cells are said to be of different metrics or splits.

    For MRPC and QQP also those whose scores fall into two groups far apart. There a column that is
    named by its metric is taken at its word.
    """
    for column in sheet.columns:
        rows = [row for row in sheet.rows if column in row.cells and is_plain(row)]
        # what the source itself says of each cell
        for index, what in enumerate(("metric", "split")):
            said = {row.kinds[column][index] for row in rows if column in row.kinds}
            named = sorted(said - set(UNKNOWN))
            if len(named) > 1:
                why = f"one column of more than one {what}"
                yield _finding(sheet, "", column, ", ".join(named), f"mixed {what}", why)
        says_metric = F1.search(column) or ACCURACY.search(column)
        if BINARY.search(column) and not says_metric and has_scores(sheet, column):
            yield from _two_groups(sheet, column, rows)


def _two_groups(sheet: Sheet, column: str, rows: Sequence[PrintedRow]) -> Iterator[Finding]:
    """Find a column whose scores leave one wide gap, with at least two on each side."""
    by_score = sorted((float(row.cells[column].value), row.system) for row in rows)
    if len(by_score) < 4:
        return

    # the widest gap, and the others
    scores = [score for score, _ in by_score]
    gaps = [after - before for before, after in pairwise(scores)]
    last_below = gaps.index(max(gaps))
    widest = gaps.pop(last_below)
    below = scores[last_below]
    above = scores[last_below + 1]

    # is it so wide that two metrics made it?
    straddles = "qqp" in column.lower() and below <= STRADDLED <= above
    times = 2 if straddles else 3
    has_both = 1 <= last_below <= len(scores) - 3
    if not has_both or widest <= FAR or widest <= times * max(gaps, default=0.1):
        return
    yield _finding(
        sheet,
        ", ".join(system for _, system in by_score[last_below + 1 :]),
        column,
        f"{below:g} and below, {above:g} and above",
        "mixed metric",
        "two groups far apart: F1 and accuracy, or two splits, in one column",
        INFERENCE,
    )


def equal_rows(sheet: Sheet) -> Iterator[Finding]:
    """Find two systems of one table with the same scores in every column: one may be a copy.

    Where one name is in the other it is one system in two settings.
    """
    # the scores of a row -> the first row that has them
    columns = [column for column in sheet.columns if has_scores(sheet, column)]
    first: dict[tuple[tuple[str, Decimal], ...], PrintedRow] = {}
    for row in sheet.rows:
        scores = tuple(
            (column, row.cells[column].value) for column in columns if column in row.cells
        )
        distinct = {value for _, value in scores}
        if not is_plain(row) or len(distinct) < EQUAL_SCORES:
            continue

        # the first row of these scores, of another system
        other = first.setdefault(scores, row)
        shorter, longer = sorted((plain_name(other.system), plain_name(row.system)), key=len)
        if other is row or shorter in longer:
            continue
        printed = ", ".join(row.cells[column].text for column, _ in scores)
        why = f"{other.system} has the same {len(scores)} scores"
        yield _finding(
            sheet,
            row.system,
            ", ".join(c for c, _ in scores),
            printed,
            "equal rows",
            why,
            INFERENCE,
        )


def impossible_scores(sheet: Sheet) -> Iterator[Finding]:
    """Find pairs of metrics of one row that no predictions give together.

    EM above F1, and an accuracy that excludes the F1 or the Matthews correlation beside it.
    """
    # columns that are alike but for their metrics
    exact = list(_partners(sheet.columns, EXACT_MATCH, F1))
    accuracy_and_f1 = list(_partners(sheet.columns, ACCURACY, F1))
    accuracy_and_matthews = list(_partners(sheet.columns, ACCURACY, MATTHEWS))
    for row in sheet.rows:
        if not is_plain(row):
            continue
        for low, high in exact:
            if {low, high} <= row.cells.keys() and _is_above(row.cells[low], row.cells[high]):
                why = "EM is at most F1: an exact answer has all words right"
                yield _pair(sheet, row, low, high, why)
        for accuracy, f1 in accuracy_and_f1:
            if {accuracy, f1} <= row.cells.keys():
                why = _why_not_f1(row, accuracy, f1)
                if why:
                    yield _pair(sheet, row, accuracy, f1, why)
        for accuracy, matthews in accuracy_and_matthews:
            if {accuracy, matthews} <= row.cells.keys():
                why = _why_not_matthews(sheet, row, accuracy, matthews)
                if why:
                    yield _pair(sheet, row, accuracy, matthews, why)


def impossible_sizes(sheet: Sheet) -> Iterator[Finding]:
    """Find FLOPs that need more weights than a model has, in a table whose other rows fit."""
    texts = [sheet.name, *(f"{row.system} {row.group}" for row in sheet.rows)]
    if any(SHARED_WEIGHTS.search(text) for text in texts):
        return

    # how many times its weights each row needs
    needed = [(row, _needed(row)) for row in sheet.rows]
    usual = sum(0 < share <= 1.15 for _, share in needed)
    for row, share in needed:
        # units and length are as assumed only where the other rows fit
        if share <= 1.15 or usual <= len(sheet.rows) / 2:
            continue

        # the weights that these FLOPs would need
        parameters = row.sizes["params"]
        printed = f"{row.sizes['flops'].text} G with {parameters.text} M"
        weights = share * float(parameters.value)
        why = (
            f"at {TOKENS} tokens, each weight used once a token, they need {weights:.1f} M weights"
        )
        yield _finding(sheet, row.system, "FLOPs", printed, "sizes", why, INFERENCE)


def _partners(
    columns: Sequence[str], small: re.Pattern[str], large: re.Pattern[str]
) -> Iterator[tuple[str, str]]:
    """Pairs of columns whose names are alike but for the metric."""
    # the columns of the large metric, by what is left of their names
    partner = {}
    for column in columns:
        if large.search(column):
            partner[_without(large, column)] = column

    # the columns of the small one that have such a partner
    for column in columns:
        rest = _without(small, column)
        if small.search(column) and not large.search(column) and rest in partner:
            yield column, partner[rest]


def _without(metric: re.Pattern[str], column: str) -> str:
    """A column's name without its metric, in letters and digits alone."""
    return re.sub(r"\W", "", metric.sub("", column)).casefold()


def _is_above(low: PrintedNumber, high: PrintedNumber) -> bool:
    """Whether the first number is above the second, whatever was rounded."""
    # the least that was rounded to the first is above the most of the second
    least = low.value - low.step / 2
    return low.unit == high.unit and least > high.value + high.step / 2


def _why_not_f1(row: PrintedRow, accuracy_column: str, f1_column: str) -> str:
    """Why this accuracy and this F1 of one class cannot be together; "" where they can."""
    accuracy = row.cells[accuracy_column]
    f1 = row.cells[f1_column]
    names = f"{row.system} {accuracy_column} {f1_column}"
    if not BINARY.search(names) or AVERAGED_F1.search(names) or accuracy.value <= 0:
        return ""
    whole = Decimal(1) if accuracy.value <= 1 and f1.value <= 1 else Decimal(100)
    # F1 is greatest where all errors are of one kind and all other examples are positive
    most = 2 * accuracy.value / (whole + accuracy.value) * whole
    if f1.value <= most + accuracy.step + f1.step:
        return ""
    return f"with this accuracy F1 is at most {most:.{1 if whole == 100 else 3}f}"


def _why_not_matthews(sheet: Sheet, row: PrintedRow, accuracy_column: str, column: str) -> str:
    """Why no answers to CoLA's development set give both numbers; "" where some do."""
    accuracy = row.cells[accuracy_column]
    matthews = row.cells[column]
    names = f"{row.system} {accuracy_column} {column}"
    is_cola = re.search("cola", names, re.IGNORECASE)
    is_test = re.search("test", f"{names} {sheet.name}", re.IGNORECASE)
    is_in_percent = 1 < accuracy.value <= 100 and matthews.value > 1
    if not is_cola or is_test or not is_in_percent:
        return ""

    # a point to spare
    least, most = matthews_range(float(accuracy.value), float(accuracy.step))
    if least - 1 <= float(matthews.value) <= most + 1:
        return ""
    range_of = f"{least:.1f} to {most:.1f}"
    return f"with this accuracy on CoLA's development set the Matthews correlation is {range_of}"


def matthews_range(accuracy: float, step: float) -> tuple[float, float]:
    """Least and greatest Matthews correlation of answers to CoLA's development set.

    Args:
        accuracy, step: of the answers, in percent; it may be off by a step.
    """
    # how many answers may be right
    negative = COLA_EXAMPLES - COLA_POSITIVE
    fewest = max(0, round((accuracy - step) * COLA_EXAMPLES / 100))
    most = min(COLA_EXAMPLES, round((accuracy + step) * COLA_EXAMPLES / 100))
    values = []
    for right in range(fewest, most + 1):
        # of so many right answers, hits are right positives and the others right negatives
        for hits in range(max(0, right - negative), min(COLA_POSITIVE, right) + 1):
            rejected = right - hits
            misses = COLA_POSITIVE - hits
            alarms = negative - rejected
            under = (hits + alarms) * (rejected + misses) * COLA_POSITIVE * negative
            above = hits * rejected - alarms * misses
            values.append(100 * above / math.sqrt(under) if under else 0.0)
    return min(values, default=-100.0), max(values, default=100.0)


def _needed(row: PrintedRow) -> float:
    """The weights that a row's FLOPs need, as a multiple of its own; 0 where it lacks either."""
    parameters = row.sizes.get("params")
    flops = row.sizes.get("flops")
    if parameters is None or flops is None or not parameters.value or not flops.value:
        return 0.0
    # in millions and billions: at 128 tokens every weight of the encoder costs 2 x 128 operations
    return float(flops.value) * 1000 / (2 * TOKENS) / float(parameters.value)


def _pair(sheet: Sheet, row: PrintedRow, first: str, second: str, why: str) -> Finding:
    """Two cells of one row that cannot be together."""
    printed = f"{row.cells[first].text}, {row.cells[second].text}"
    return _finding(sheet, row.system, f"{first}, {second}", printed, "impossible", why)


def _finding(
    sheet: Sheet,
    system: str,
    column: str,
    printed: str,
    check: str,
    why: str,
    basis: str = ARITHMETIC,
) -> Finding:
    changes = {
        "impossible": "which number is which",
        "equal rows": "whose numbers these are",
        "sizes": "a size",
    }
    return Finding(
        where=sheet.where,
        row=system,
        column=column,
        printed=printed,
        recomputed="",
        basis=basis,
        check=check,
        why=why,
        changes=changes.get(check, "a ranking across them"),
    )
