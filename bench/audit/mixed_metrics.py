"""Columns in which more than one metric or split stands."""

from __future__ import annotations

import re
from collections.abc import Iterator

from bench.audit.findings import ARITHMETIC, INFERENCE, Finding
from bench.audit.names import is_plain, score_columns
from bench.audit.table import UNKNOWN, Sheet

STRADDLED = 78.0
"""Between what these systems reach in F1 on the test server of QQP (60 to 75) and in accuracy on its dev set (80 to 92)."""


def mixed_metrics(sheet: Sheet) -> Iterator[Finding]:
    """Columns whose cells are said to be of different metrics or splits, or fall into two groups far apart."""
    for column in score_columns(sheet):
        rows = [r for r in sheet.rows if column in r.cells and is_plain(r)]
        for index, what in enumerate(("metric", "split")):
            kinds = {r.kinds[column][index] for r in rows if column in r.kinds} - set(UNKNOWN)
            if len(kinds) > 1:
                yield Finding(
                    where=sheet.where,
                    row="",
                    column=column,
                    printed=", ".join(sorted(kinds)),
                    recomputed="",
                    basis=ARITHMETIC,
                    check=f"mixed {what}",
                    why=f"one column of more than one {what}",
                    changes="a ranking across them",
                )
        values = sorted((float(r.cells[column].value), r.system) for r in rows)
        if re.search(r"qqp|mrpc", column, re.IGNORECASE) and len(values) >= 4:
            gaps = [(values[i + 1][0] - values[i][0], i) for i in range(len(values) - 1)]
            widest, place = max(gaps)
            inner = [gap for gap, i in gaps if i != place]
            straddles = "qqp" in column.lower() and values[place][0] <= STRADDLED <= values[place + 1][0]
            clear = 2 if straddles else 3
            if widest > 8 and widest > clear * max(inner, default=0.1) and 2 <= place + 1 <= len(values) - 2:
                yield Finding(
                    where=sheet.where,
                    row=", ".join(s for _, s in values[place + 1 :]),
                    column=column,
                    printed=f"{values[place][0]:g} and below, {values[place + 1][0]:g} and above",
                    recomputed="",
                    basis=INFERENCE,
                    check="mixed metric",
                    why="two groups far apart: F1 and accuracy, or two splits, in one column",
                    changes="a ranking across them",
                )
