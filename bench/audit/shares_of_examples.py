"""Scores as shares of whole examples: counts with their percentage, and columns of a test set of known size."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from decimal import Decimal

from bench.audit.findings import ARITHMETIC, INFERENCE, AuditedCell, Finding, of_cell
from bench.audit.names import is_plain, is_quantity
from bench.audit.printed import ROOM, PrintedNumber, numbers_of
from bench.audit.table import PrintedRow, Sheet
from bench.stats.glue import development_examples

SETS = {
    "rte": development_examples("rte"),
    "mrpc": development_examples("mrpc"),
    "wnli": development_examples("wnli"),
    "sst-?2": development_examples("sst2"),
    "copa": 100,
    "cb": 56,
    "boolq": 3270,
    "wic": 638,
    "wsc": 104,
    "qnli": development_examples("qnli"),
}
"""Task -> examples of its development set (GLUE, SuperGLUE)."""
NO_SHARE = re.compile(r"f1|mcc|matt|corr|pearson|spear|em\b|auc|loss|ppl|bleu|rouge|mean|avg|test", re.IGNORECASE)
SEEDS = (2, 3, 4, 5, 10)
"""A mean over so many seeds is a share of as many times the examples."""
EXPECTED = 1e-4
"""How likely a column of other numbers consists of such shares by chance. Only below it, the odd cell is named."""


def counts(sheet: Sheet) -> Iterator[Finding]:
    """Cells like ``20/28 (71.4%)`` whose percentage is not that of the two counts."""
    for row in sheet.rows:
        for column, text in row.texts.items():
            base = re.fullmatch(r"\W*(\d{1,15})\s*/\s*(\d{1,15})\s*\(?\s*=?\s*([\d.]+)\s*%\W*", text)
            if base is None or not int(base[2]) or int(base[1]) > int(base[2]):
                continue
            percent = next((part.number for part in numbers_of(text) if part.number.unit == "%"), None)
            exact = 100 * Decimal(base[1]) / Decimal(base[2])
            if percent is not None and not percent.is_rounded(exact) and not percent.is_cut(exact):
                shown = str(exact.quantize(percent.step, context=ROOM))
                why = f"100 x {base[1]} / {base[2]}"
                yield Finding(
                    where=sheet.where,
                    row=row.system,
                    column=column,
                    printed=percent.text,
                    recomputed=shown,
                    basis=ARITHMETIC,
                    check="count",
                    why=why,
                    changes="a digit",
                )


def shares_of_examples(sheet: Sheet) -> Iterator[Finding]:
    """A column of accuracies that are shares of the development set's examples, all but one."""
    for column in sheet.columns:
        size = examples_of(column)
        if not size:
            continue
        rows = [row for row in sheet.rows if column in row.cells and is_plain(row) and not is_quantity(row.system)]
        cells = [row.cells[column] for row in rows]
        if len({cell.value for cell in cells}) < 4:
            continue
        whole = 1 if all(cell.value <= 1 for cell in cells) else 100
        odd = [row for row in rows if not is_share(row.cells[column], size, whole)]
        if len(odd) != 1 or any(is_share(odd[0].cells[column], seeds * size, whole) for seeds in SEEDS):
            continue
        if _by_chance([c for c in cells if is_share(c, size, whole)], size, whole) < EXPECTED:
            yield _odd_one(sheet, odd[0], column, size, whole)


def examples_of(column: str) -> int:
    """Examples of the development set of a column of shares; 0 for an unknown set, or a metric that is no share."""
    size = next((n for name, n in SETS.items() if re.search(rf"\b{name}\b", column, re.IGNORECASE)), 0)
    return 0 if NO_SHARE.search(column) else size


def is_share(cell: PrintedNumber, size: int, whole: int) -> bool:
    """Whether some count of so many examples gives the printed share, rounded or cut."""
    near = int(cell.value * size / whole)
    shares = [Decimal(whole) * count / size for count in (near - 1, near, near + 1) if 0 <= count <= size]
    return any(cell.is_rounded(share) or cell.is_cut(share) for share in shares)


def _by_chance(cells: Sequence[PrintedNumber], size: int, whole: int) -> float:
    """How likely numbers of these digits are all shares of so many examples."""
    chance = 1.0
    for value in {cell.value: cell for cell in cells}.values():
        # of whole / step numbers that can be printed: each share, rounded or cut
        chance *= min(1.0, 2 * size * float(value.step) / whole)
    return chance


def _odd_one(sheet: Sheet, row: PrintedRow, column: str, size: int, whole: int) -> Finding:
    cell = row.cells[column]
    count = int((cell.value * size / whole).to_integral_value())
    nearest = Decimal(whole) * count / size
    why = f"no count of {size} examples gives it, and all others of the column are such shares; the nearest is {count} of {size}"
    finding = of_cell(AuditedCell(sheet, row, column), nearest, "test set", why, "a digit, or a score of other data")
    return replace(finding, basis=INFERENCE)


def best_and_mean(sheet: Sheet) -> Iterator[Finding]:
    """Cells like ``77.8 (77.4)``, the best run and the mean of all: a mean above its best, where all others are below."""
    pairs = []
    for row in sheet.rows:
        for column in row.cells:
            if not column.endswith(" (first)"):
                continue
            other = column.replace(" (first)", " (second)")
            if other in row.cells and re.fullmatch(
                r"[\s*]*[\d.]+%?[\s*]*\([\s*]*[\d.]+%?[\s*]*\)[\s*]*", row.texts.get(column, "")
            ):
                pairs.append((row, column, row.cells[column], row.cells[other]))
    above = [(row, column, best, mean) for row, column, best, mean in pairs if mean.value > best.value]
    near = all(abs(best.value - mean.value) <= 5 for _, _, best, mean in pairs)
    if len(pairs) >= 10 and near and 0 < len(above) <= len(pairs) / 20:
        for row, column, best, mean in above:
            others = len(pairs) - len(above)
            why = f"in the {others} other cells like this the number in brackets is at most the one before: best run and mean"
            yield Finding(
                where=sheet.where,
                row=row.system,
                column=column.removesuffix(" (first)"),
                printed=f"{best.text} ({mean.text})",
                recomputed="",
                basis=INFERENCE,
                check="best and mean",
                why=why,
                changes="which is which",
            )
