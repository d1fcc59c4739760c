"""Bold cells that are not the best, and ranks that do not follow the scores."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence

from bench.audit.findings import INFERENCE, Finding
from bench.audit.names import has_scores, is_average, is_plain, is_score
from bench.audit.printed import PrintedNumber
from bench.audit.table import PrintedRow, Sheet

RANK = re.compile(r"^\W*(?:rank(?:ing)?|place|position|名次|排名|순위|rang|rank\s*\(.*\))\W*$", re.IGNORECASE)
LOWER = re.compile(
    r"ppl|perplex|loss|error|\bwer\b|\bcer\b|latency|time|memory|↓|\blower\b|\bmae\b|\brmse\b|\bmse\b|bpb|bpc|bits per|nll|params|flops|macs",
    re.IGNORECASE,
)


def bold(sheet: Sheet) -> Iterator[Finding]:
    """Columns whose one bold cell is not the best, where bold is the best in all other columns.

    Where bold marks one row throughout, or several cells of a column, it says something else.
    """
    marked: list[tuple[str, PrintedRow, PrintedRow]] = []
    for column in [c for c in sheet.columns if (has_scores(sheet, c) or is_average(c)) and not LOWER.search(c)]:
        rows = [row for row in sheet.rows if column in row.cells and is_plain(row)]
        emphasised = [row for row in rows if row.cells[column].bold]
        if len(emphasised) == 1 and len(rows) >= 3:
            marked.append((column, emphasised[0], max(rows, key=lambda row: row.cells[column].value)))
    wrong = [(column, row, best) for column, row, best in marked if row.cells[column].value < best.cells[column].value]
    of_rows = {id(row) for column, row, best in marked if row.cells[column].value == best.cells[column].value}
    if len(wrong) == 1 and len(marked) >= 4 and len(of_rows) >= 2:
        column, row, best = wrong[0]
        number, top = row.cells[column], best.cells[column]
        why = f"bold is the best of the column in the {len(marked) - 1} others; here {best.system} has {top.text}"
        yield Finding(
            where=sheet.where,
            row=row.system,
            column=column,
            printed=f"**{number.text}**",
            recomputed=top.text,
            basis=INFERENCE,
            check="bold",
            why=why,
            changes="which system is best",
        )


def bold_in_rows(sheet: Sheet) -> Iterator[Finding]:
    """Rows of one task each, systems in columns: one row whose best number is not bold, where it is in all others.

    Several bold numbers a row are let pass: pages mark what is about as good.
    """
    marked: list[tuple[PrintedRow, str]] = []
    for row in [r for r in sheet.rows if is_plain(r) and not LOWER.search(f"{r.system} {r.group} {sheet.name}")]:
        cells = {c: cell for c, cell in row.cells.items() if is_score(c) and cell.places}
        emphasised = [c for c, cell in cells.items() if cell.bold]
        if len(cells) >= 3 and 0 < len(emphasised) < len(cells) and len({cell.unit for cell in cells.values()}) == 1:
            marked.append((row, max(cells, key=lambda c: (cells[c].value, cells[c].bold))))
    wrong = [(row, best) for row, best in marked if not row.cells[best].bold and not _lowest_is_bold(row)]
    if len(wrong) == 1 and len(marked) >= 8 and len({best for _, best in marked}) >= 2:
        row, best = wrong[0]
        shown = ", ".join(cell.text for cell in row.cells.values() if cell.bold)
        why = f"the best of the row is bold in the {len(marked) - 1} others; here {best} has {row.cells[best].text}"
        yield Finding(
            where=sheet.where,
            row=row.system,
            column=best,
            printed=f"**{shown}**",
            recomputed=row.cells[best].text,
            basis=INFERENCE,
            check="bold",
            why=why,
            changes="which system is best",
        )


def _lowest_is_bold(row: PrintedRow) -> bool:
    """Whether a row's bold number is its least: of a metric that is better the lower it is."""
    return min((cell for c, cell in row.cells.items() if is_score(c)), key=lambda cell: cell.value).bold


def ranks(sheet: Sheet) -> Iterator[Finding]:
    """Two ranks that are exchanged, in a column of ranks that else follows one column of scores."""
    for column in [c for c in sheet.columns if RANK.match(c)]:
        rows = [row for row in sheet.rows if column in row.cells and is_plain(row)]
        places = [int(row.cells[column].value) for row in rows if not row.cells[column].places]
        if len(places) != len(rows) or sorted(places) != list(range(1, len(rows) + 1)) or len(rows) < 5:
            continue
        for scores in [c for c in sheet.columns if c != column and all(c in row.cells for row in rows)]:
            yield from _exchanged(sheet, rows, column, scores)


def _exchanged(sheet: Sheet, rows: Sequence[PrintedRow], column: str, scores: str) -> Iterator[Finding]:
    value: Mapping[int, PrintedNumber] = {int(row.cells[column].value): row.cells[scores] for row in rows}
    ordered = [value[place].value for place in sorted(value)]
    for signed in (1, -1):
        breaks = [a * signed < b * signed for a, b in itertools.pairwise(ordered)]
        if sum(breaks) != 1:
            continue
        place = breaks.index(True)
        swapped = [*ordered[:place], ordered[place + 1], ordered[place], *ordered[place + 2 :]]
        if any(a * signed < b * signed for a, b in itertools.pairwise(swapped)):
            continue
        row = next(r for r in rows if int(r.cells[column].value) == place + 1)
        other = next(r for r in rows if int(r.cells[column].value) == place + 2)
        why = f"all ranks follow {scores} but these two: {row.cells[scores].text} is before {other.cells[scores].text} of {other.system}"
        yield Finding(
            where=sheet.where,
            row=row.system,
            column=column,
            printed=str(place + 1),
            recomputed=str(place + 2),
            basis=INFERENCE,
            check="rank",
            why=why,
            changes="a ranking",
        )
