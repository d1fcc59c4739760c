"""Sizes and FLOPs that papers print, compared with ours under every convention: which rule gives the printed digit."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from functools import lru_cache
from pathlib import Path
from typing import Protocol

from bench.errors import InputError
from bench.report.published import FOLDER, rows_of
from bench.report.table import EXACT, TEXT, Column, Line, Table, TableCell

FIGURE = re.compile(r"[0-9]{1,9}(\.[0-9]{1,9})?")
FILE = FOLDER / "sizes" / "printed.csv"


class Counted(Protocol):
    """Convention -> count, for one model; the first convention is the harness's own."""

    @property
    def parameters(self) -> Mapping[str, int]: ...

    @property
    def flops(self) -> Mapping[str, int]: ...


@dataclass(frozen=True)
class PrintedSize:
    """One line of a paper's table, as printed: ``parameters`` in millions, ``flops`` in billions, empty if not given."""

    source: str
    table: str
    system: str
    row: str
    teacher: str
    parameters: str
    flops: str
    note: str


@lru_cache
def printed_sizes(file: Path = FILE) -> tuple[PrintedSize, ...]:
    """Every printed line, in the order of the file.

    Raises:
        InputError: no such file, other columns, or a figure that is not a number.
    """
    if not file.is_file():
        raise InputError(f"{file} is not there; the printed figures come with the package: install it again")
    found, columns = [], [field.name for field in fields(PrintedSize)]
    for line, row in rows_of(file, columns):
        if None in row or None in row.values():
            raise InputError(f"{file}, line {line}: it should have {len(columns)} fields")
        size = PrintedSize(**row)  # type: ignore[arg-type]  # neither names nor values are None
        for text in filter(None, (size.parameters, size.flops)):
            if not FIGURE.fullmatch(text) or float(text) <= 0:
                raise InputError(f"{file}, line {line}: {text!r} should be a number above 0, as it is printed")
        found.append(size)
    return tuple(found)


def rule_of(printed: str, counted: Mapping[str, int], unit: float) -> tuple[str, int, bool]:
    """The first convention that rounds to the printed digits, else the nearest one; its count; whether it fits."""
    decimals = len(printed.partition(".")[2])
    for rule, value in counted.items():
        if f"{value / unit:.{decimals}f}" == printed:
            return rule, value, True
    rule, value = min(counted.items(), key=lambda item: abs(item[1] / unit - float(printed)))
    return rule, value, False


def printed_and_ours(named: Sequence[tuple[PrintedSize, Counted]]) -> Table:
    """Every printed figure with ours, the difference, and the convention that explains it, if one does."""
    found = [
        _line(size, one)
        for size, counted in named
        for one in (
            Figure("parameters", size.parameters, counted.parameters, 1e6, "M"),
            Figure("FLOPs", size.flops, counted.flops, 1e9, "G"),
        )
        if one.printed
    ]
    words = {"Row here", "Quantity", "rule"}
    names = ("Printed in", "Row here", "Quantity", "printed", "ours", "difference", "rule")
    columns = tuple(Column(name, name in words, EXACT if name == "ours" else TEXT) for name in names)
    note = (
        "Papers count sizes by different rules. The column `rule` names the rule that gives the printed number to its last digit. "
        "`ours` counts the whole classifier (two labels) and 2 x MACs at length 128. "
        f"{sum(fits for _, fits in found)} of {len(found)} numbers fit a rule. No paper states its rule, so this is a guess."
    )
    return Table("Printed sizes and ours", columns, tuple(line for line, _ in found), (note,))


@dataclass(frozen=True)
class Figure:
    """One printed figure, and the counts of the same model under every convention."""

    quantity: str
    printed: str
    conventions: Mapping[str, int]
    unit: float
    sign: str

    def off(self, count: int) -> str:
        """How far a count is from the printed figure."""
        return f"{100 * (count / self.unit / float(self.printed) - 1):+.1f} %"


def _line(size: PrintedSize, one: Figure) -> tuple[Line, bool]:
    """The line of a figure, and whether a rule gives its digits."""
    own = next(iter(one.conventions.values()))
    rule, value, fits = rule_of(one.printed, one.conventions, one.unit)
    nearest = f"none found; nearest: {rule}, {value / one.unit:.2f} {one.sign}, {one.off(value)}"
    cells = (
        TableCell(size.row),
        TableCell(one.quantity),
        TableCell(f"{one.printed} {one.sign}", value=float(one.printed), plain=one.printed),
        TableCell(f"{own / one.unit:.2f} {one.sign}", value=own / one.unit),
        TableCell(one.off(own)),
        TableCell(rule if fits else nearest),
    )
    return Line(f"{size.source}, {size.table}: {size.system}", cells), fits
