"""FLOPs that need more weights than a model has."""

from __future__ import annotations

import re
from collections.abc import Iterator

from bench.audit.findings import INFERENCE, Finding
from bench.audit.table import PrintedRow, Sheet

TOKENS = 128
"""Sequence length of the FLOPs that papers print."""
SHARED = re.compile(
    r"universal|shar|albert|recurren|loop|exit|early|dynamic|adaptive|length|token|seq|prun|sparse|layerdrop|resolution|patch|@",
    re.IGNORECASE,
)
"""Systems whose FLOPs do not follow from their parameters."""


def sizes(sheet: Sheet) -> Iterator[Finding]:
    """FLOPs that do not go with the parameters, in a table whose other rows fit."""
    if any(SHARED.search(name) for name in (sheet.name, *(f"{row.system} {row.group}" for row in sheet.rows))):
        return
    needs = [(row, _needed(row)) for row in sheet.rows]
    usual = sum(0 < need <= 1.15 for _, need in needs)
    for row, need in needs:
        # units and length are as assumed only if the other rows fit
        if need > 1.15 and usual > len(sheet.rows) / 4:
            params, flops = row.sizes["params"], row.sizes["flops"]
            yield Finding(
                where=sheet.where,
                row=row.system,
                column="FLOPs",
                printed=f"{flops.text} G with {params.text} M",
                recomputed=f"{need * float(params.value):.1f} M at least",
                basis=INFERENCE,
                check="sizes",
                why=f"at {TOKENS} tokens every weight is used once a token: these FLOPs need more weights",
                changes="a size",
            )


def _needed(row: PrintedRow) -> float:
    """The weights that a row's FLOPs need, as a multiple of those that it has; 0 where it does not say both."""
    params, flops = row.sizes.get("params"), row.sizes.get("flops")
    if params is None or flops is None or not params.value or not flops.value:
        return 0.0
    # in millions and billions: at 128 tokens every weight of the encoder costs 2 x 128 operations
    return float(flops.value) * 1000 / (2 * TOKENS) / float(params.value)
