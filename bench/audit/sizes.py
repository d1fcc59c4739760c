"""Parameters, FLOPs and speed-ups of one table that cannot belong together."""

from __future__ import annotations

import re
import statistics
from collections.abc import Iterator
from itertools import combinations

from bench.audit.findings import INFERENCE, Finding
from bench.audit.names import is_of_shape, operating_point
from bench.audit.table import PrintedRow, Sheet

TOKENS = 128
"""Sequence length of the FLOPs that papers print."""
SHARED = re.compile(
    r"universal|shar|albert|recurren|loop|exit|early|dynamic|adaptive|length|token|seq|prun|sparse|layerdrop|resolution|patch|@",
    re.IGNORECASE,
)
"""Systems whose FLOPs do not follow from their parameters."""


def sizes(sheet: Sheet) -> Iterator[Finding]:
    """FLOPs that need more weights than the model has, equal sizes with other FLOPs, and other sizes with equal counts."""
    named = " ".join([sheet.name, *(f"{row.system} {row.group}" for row in sheet.rows)])
    if not SHARED.search(named):
        yield from _operations(sheet)
    for a, b in combinations([r for r in sheet.rows if "params" in r.sizes], 2):
        yield from _counts_of_another(sheet, a, b)


def _operations(sheet: Sheet) -> Iterator[Finding]:
    """FLOPs that do not go with the parameters, in a table whose other rows fit."""
    needs = {id(row): _needed(row) for row in sheet.rows}
    usual = sum(0 < need <= 1.15 for need in needs.values())
    for row in sheet.rows:
        params, flops = row.sizes.get("params"), row.sizes.get("flops")
        # units and length are as assumed only if the other rows fit
        if params is not None and flops is not None and needs[id(row)] > 1.15 and usual > len(sheet.rows) / 4:
            needed = needs[id(row)] * float(params.value)
            yield Finding(
                where=sheet.where,
                row=row.system,
                column="FLOPs",
                printed=f"{flops.text} G with {params.text} M",
                recomputed=f"{needed:.1f} M at least",
                basis=INFERENCE,
                check="sizes",
                why=f"at {TOKENS} tokens every weight is used once a token: these FLOPs need more weights",
                changes="a size",
            )
    known = [r for r in sheet.rows if {"params", "flops"} <= set(r.sizes)]
    for a, b in combinations(known, 2):
        same = a.sizes["params"].value == b.sizes["params"].value
        if operating_point(a.system)[0] == operating_point(b.system)[0]:
            continue  # one set of weights, whose sequences leave early
        if same and a.sizes["flops"].value != b.sizes["flops"].value:
            yield Finding(
                where=sheet.where,
                row=f"{a.system}, {b.system}",
                column="FLOPs",
                printed=f"{a.sizes['flops'].text} and {b.sizes['flops'].text}",
                recomputed="",
                basis=INFERENCE,
                check="sizes",
                why=f"the same {a.sizes['params'].text} M parameters with other FLOPs",
                changes="a size",
            )


def _needed(row: PrintedRow) -> float:
    """The weights that a row's FLOPs need, as a multiple of those that it has; 0 where it does not say both."""
    params, flops = row.sizes.get("params"), row.sizes.get("flops")
    if params is None or flops is None or not params.value or not flops.value:
        return 0.0
    # in millions and billions: at 128 tokens every weight of the encoder costs 2 x 128 operations
    return float(flops.value) * 1000 / (2 * TOKENS) / float(params.value)


def _counts_of_another(sheet: Sheet, a: PrintedRow, b: PrintedRow) -> Iterator[Finding]:
    """Rows of other sizes whose counts of weights and operations are all equal: one was copied from the other."""
    if a.sizes["params"].value == b.sizes["params"].value:
        return  # one shape: its counts are equal by themselves
    shared = [column for column in a.cells if column in b.cells and is_of_shape(column)]
    if len(shared) >= 3 and all(a.cells[column].value == b.cells[column].value for column in shared):
        yield Finding(
            where=sheet.where,
            row=b.system,
            column=", ".join(shared),
            printed=", ".join(b.cells[column].text for column in shared),
            recomputed="",
            basis=INFERENCE,
            check="duplicate row",
            why=f"equal to {a.system} in all {len(shared)}, with {b.sizes['params'].text} M parameters and not {a.sizes['params'].text}",
            changes="whose numbers these are",
        )


def speed_ups(sheet: Sheet) -> Iterator[Finding]:
    """Speed-ups that are out of line with the FLOPs of the same table."""
    rows = [r for r in sheet.rows if {"flops", "speed-up"} <= set(r.sizes) and r.sizes["flops"].value]
    reference = next((r for r in rows if r.sizes["speed-up"].value == 1), None)
    others = [r for r in rows if r is not reference and r.sizes["speed-up"].value != 1]
    if reference is None or len(others) < 3:
        return
    by_flops = {id(r): float(reference.sizes["flops"].value / r.sizes["flops"].value) for r in others}
    shares = {id(r): float(r.sizes["speed-up"].value) / by_flops[id(r)] for r in others}
    following = [r for r in others if abs(shares[id(r)] - 1) <= 0.05]
    if len(following) < max(2, len(others) / 2):
        return  # measured ones, which do not follow operations
    usual = statistics.median(shares[id(r)] for r in following)
    for row in (r for r in others if r not in following):
        expected = usual * by_flops[id(row)]
        seen = float(row.sizes["speed-up"].value)
        if not 0.75 <= seen / expected <= 1.34:
            yield Finding(
                where=sheet.where,
                row=row.system,
                column="speed-up",
                printed=row.sizes["speed-up"].text,
                recomputed=f"{expected:.1f}",
                basis=INFERENCE,
                check="speed-up",
                why=f"FLOPs are 1/{by_flops[id(row)]:.1f} of {reference.system}'s; the other rows' speed-ups follow their FLOPs",
                changes="a claim of speed",
            )
