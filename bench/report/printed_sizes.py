"""Sizes and FLOPs that papers print, compared with ours under every convention: which rule gives the printed digit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from bench.report.published import FOLDER, rows_of
from bench.report.table import TEXT, Column, Line, Table, TableCell, number


def printed_sizes() -> list[dict[str, str]]:
    """Every printed line, in the order of the file: ``parameters`` in millions, ``flops`` in billions, empty if not given."""
    return rows_of(FOLDER / "sizes" / "printed.csv")


def rule_of(printed: str, counted: Mapping[str, int], unit: float) -> tuple[str, int, bool]:
    """The first convention that rounds to the printed digits, else the nearest one; its count; whether it fits."""
    decimals = len(printed.partition(".")[2])
    for rule, value in counted.items():
        if f"{value / unit:.{decimals}f}" == printed:
            return rule, value, True
    rule, value = min(counted.items(), key=lambda item: abs(item[1] / unit - float(printed)))
    return rule, value, False


def printed_and_ours(named: Sequence[tuple[Mapping[str, str], Any]]) -> Table:
    """Every printed figure with ours, the difference, and the convention that explains it, if one does.

    Args:
        named: with the ``parameters`` and ``flops`` of the model: convention -> count, the harness's own first.
    """
    lines, fitting = [], 0
    for size, counted in named:
        for quantity, printed, conventions, unit, sign in (
            ("parameters", size["parameters"], counted.parameters, 1e6, "M"),
            ("FLOPs", size["flops"], counted.flops, 1e9, "G"),
        ):
            if not printed:
                continue
            own, (rule, value, fits) = next(iter(conventions.values())), rule_of(printed, conventions, unit)
            off, nearest_off = (100 * (count / unit / float(printed) - 1) for count in (own, value))
            nearest = f"none found; nearest: {rule}, {value / unit:.2f} {sign}, {nearest_off:+.1f} %"
            cells = (
                TableCell(size["row"]),
                TableCell(quantity),
                TableCell(f"{printed} {sign}", value=float(printed), plain=printed),
                number(own / unit, ".2f", f" {sign}"),
                number(off, "+.1f", " %"),
                TableCell(rule if fits else nearest),
            )
            lines.append(Line("{source}, {table}: {system}".format_map(size), cells))
            fitting += fits
    columns = [Column("Printed in"), Column("Row here", words=True), Column("Quantity", words=True)]
    columns += [Column("printed", csv=TEXT), Column("ours"), Column("difference"), Column("rule", words=True)]
    note = (
        "Papers count sizes by different rules. The column `rule` names the rule that gives the printed number to its last digit. "
        "`ours` counts the whole classifier (two labels) and 2 x MACs at length 128. "
        f"{fitting} of {len(lines)} numbers fit a rule. No paper states its rule, so this is a guess."
    )
    return Table("Printed sizes and ours", columns, lines, (note,))
