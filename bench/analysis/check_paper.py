"""The numbers of a paper's tables held against the records: which are printed as measured, which differ, which have no record."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import Path

from bench.audit.names import is_average, plain_name, plain_task
from bench.audit.printed import Printed
from bench.audit.sheets import Row, Sheet, read
from bench.errors import InputError, unknown_row
from bench.record.freshness import STALE, WHAT_TO_DO
from bench.record.store import Store
from bench.report.groups import Group, groups
from bench.report.render import github
from bench.stats.metrics import named_in
from bench.stats.summary import summarise

SAME, DIFFERS, ABSENT = "as measured", "differs", "no record"


@dataclass(frozen=True)
class Checked:
    """One number of the paper."""

    where: str
    row: str
    column: str
    printed: str
    measured: str
    """at the printed number of decimals; "" where there is no record"""
    verdict: str
    records: tuple[str, ...] = ()
    """keys of the records behind the measured number"""
    stale: bool = False
    """whether other code than this made one of them"""


def check_paper(file: Path, results: Path, rows: Sequence[str] = ()) -> list[Checked]:
    """Every cell of the file's tables whose row and column are known to the records, and rows that are not.

    Args:
        rows: ``Name in the paper=row of the records``, where the two are spelled differently.

    Raises:
        InputError: no table, no records, a mapping to a row that is not there, or no row in common.
    """
    sheets = read(file)
    store = Store(results)
    found = groups(store.records())
    if not found:
        raise InputError(f"no records in {results}")
    known = {label for group in found for label in group.systems}
    named = dict(_mapping(text, known, results) for text in rows)
    by_name = {plain_name(label): label for label in known} | named
    checked = [
        c
        for sheet in sheets
        for row in sheet.rows
        for c in _row(sheet, row, by_name.get(plain_name(row.system)), found)
    ]
    stale = {r.key[:12] for group in found for r in group.records if store.freshness.of(r) == STALE}
    checked = [replace(c, stale=bool(stale & set(c.records))) for c in checked]
    if not any(c.verdict != ABSENT for c in checked):
        raise InputError(
            f"{file}: no row and column of it are in {results}; name rows with --row 'Name in the paper=row'"
        )
    return checked


def _mapping(text: str, known: Collection[str], results: Path) -> tuple[str, str]:
    """``Name in the paper=row``, with the name as it is compared. A name and a row may have ``=`` in them themselves."""
    halves = [(text[:place], text[place + 1 :]) for place, sign in enumerate(text) if sign == "=" and place]
    if not halves:
        raise InputError(f"--row {text}: expected Name=row, with the name in the paper and a row of the records")
    for paper, ours in halves:
        if ours in known:
            return plain_name(paper), ours
    raise unknown_row(halves[0][1], known, results)


def _row(sheet: Sheet, row: Row, label: str | None, found: Sequence[Group]) -> Iterator[Checked]:
    for column, cell in row.cells.items():
        candidates = [] if label is None else list(_measured(found, label, column))
        if not candidates:
            yield Checked(sheet.where, row.system, column, cell.text, "", ABSENT)
            continue
        fitting = next((c for c in candidates if cell.is_rounded(Decimal(repr(round(c[0], 9))))), None)
        value, keys = fitting or min(candidates, key=lambda c: abs(Decimal(repr(c[0])) - cell.value))
        yield Checked(sheet.where, row.system, column, cell.text, _at(value, cell), SAME if fitting else DIFFERS, keys)


def _at(value: float, cell: Printed) -> str:
    return f"{value:.{cell.places}f}"


def _measured(found: Sequence[Group], label: str, column: str) -> Iterator[tuple[float, tuple[str, ...]]]:
    """What the records may have printed in a column of this name: any metric of the task that the name does not exclude."""
    wanted = plain_task(column)
    said = named_in(column)
    for group in found:
        if is_average(column):
            means = [summarise(list(v.values())).mean for c in group.columns if (v := group.values(label, c))]
            if len(means) == len(group.columns) > 1:
                yield summarise(means).mean, tuple(r.key[:12] for r in group.of(label))
            continue
        for place in group.columns:
            if wanted not in (plain_task(place.title), plain_task(place.task)):
                continue
            done = [r for r in group.of(label, place.task) if r.status == "ok" and place.evaluation in r.scores]
            for metric in dict.fromkeys(m for r in done for m in r.scores[place.evaluation]):
                if said in ("", metric):
                    mean = summarise([100 * r.scores[place.evaluation][metric] for r in done]).mean
                    yield mean, tuple(r.key[:12] for r in done)


def describe(checked: Sequence[Checked]) -> str:
    """What differs and what has no record, then the counts."""
    counts = Counter(c.verdict for c in checked)
    rows = [[c.where, c.row, c.column, c.printed, c.measured or "–", c.verdict] for c in checked if c.verdict != SAME]
    header = ["where", "row", "column", "printed", "measured", "verdict"]
    shown = github(rows, header, "left") + "\n\n" if rows else ""
    stale = sum(c.stale for c in checked)
    said = f"\n{stale} of them against records that other code than this made. {WHAT_TO_DO}." if stale else ""
    return shown + ", ".join(f"{counts[verdict]} {verdict}" for verdict in (SAME, DIFFERS, ABSENT)) + said
