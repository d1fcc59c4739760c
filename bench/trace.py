"""Where a printed number comes from: every score, mean, ratio, difference or size of the records that rounds to it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import Path

from bench.audit.printed import Printed, printed
from bench.errors import InputError
from bench.plan.cell import TEACHER
from bench.record.freshness import STALE
from bench.record.schema import Record
from bench.record.store import Store
from bench.report.groups import Column, Group, groups
from bench.stats.summary import summarise


@dataclass(frozen=True)
class Origin:
    """One thing that rounds to the number, and the records it is made of."""

    what: str
    exact: float
    records: tuple[str, ...]
    """their keys, twelve digits each"""


def trace(text: str, results: Path) -> list[Origin]:
    """Everything in a folder of records that is printed as ``text`` with its number of decimals.

    Raises:
        InputError: not a number, or no records.
    """
    number = printed(text)
    if number is None:
        raise InputError(f"{text!r} is not a number, like 86.6")
    store = Store(results)
    records = list(store.records())
    if not records:
        raise InputError(f"no records in {results}")
    found: dict[tuple[str, tuple[str, ...]], Origin] = {}
    for group in groups(records):
        for origin in _origins(group):
            if _prints(number, origin.exact):
                found.setdefault((origin.what, origin.records), origin)
    stale = {r.key[:12] for r in records if store.freshness.of(r) == STALE}
    return [
        replace(one, what=f"{one.what} (made by other code than this)") if stale & set(one.records) else one
        for one in found.values()
    ]


def _prints(number: Printed, exact: float) -> bool:
    return number.is_rounded(Decimal(repr(round(exact, 9))))


def _keys(records: list[Record]) -> tuple[str, ...]:
    return tuple(record.key[:12] for record in records)


def _origins(group: Group) -> Iterator[Origin]:
    for one in group.left_out:
        record = one.record
        for name, metrics in record.scores.items():
            for metric, value in metrics.items():
                what = f"{record.row}, {'+'.join(record.cell.tasks)} {name} {metric}, seed {record.cell.seed}"
                yield Origin(f"{what} (left out: a newer training has that name)", 100 * value, _keys([record]))
    for label in group.systems:
        for column in group.columns:
            where = _where(group, group.row_limit(column.task))
            done = [r for r in group.of(label, column.task) if r.status == "ok" and column.evaluation in r.scores]
            for record in done:
                for metric, value in record.scores[column.evaluation].items():
                    what = f"{label}, {column.task} {column.evaluation} {metric}, seed {record.cell.seed} ({where})"
                    yield Origin(what, 100 * value, _keys([record]))
            if done:
                yield from _summaries(group, label, column, done, where)
        where = _where(group, group.max_train_rows)
        sized = [r for r in group.of(label) if r.sizes]
        if sized and sized[0].sizes:
            yield Origin(
                f"{label}, parameters in millions ({where})", sized[0].sizes.parameters / 1e6, _keys(sized[:1])
            )
            yield Origin(f"{label}, FLOPs in billions ({where})", sized[0].sizes.flops / 1e9, _keys(sized[:1]))
        means = [summarise(list(v.values())).mean for c in group.columns if (v := group.values(label, c))]
        if len(means) == len(group.columns) > 1:
            of_row = [r for r in group.of(label) if r.status == "ok"]
            yield Origin(f"{label}, mean of {len(means)} columns ({where})", summarise(means).mean, _keys(of_row))


def _where(group: Group, limit: int | None) -> str:
    return f"{group.slug}{f', {limit:,} rows' if limit else ''}, {group.recipe}"


def _summaries(group: Group, label: str, column: Column, done: list[Record], where: str) -> Iterator[Origin]:
    own = summarise(list(group.values(label, column).values()))
    if own.n > 1:
        yield Origin(f"{label}, {column.title}, mean over {own.n} seeds ({where})", own.mean, _keys(done))
    teacher = group.values(TEACHER, column)
    if label != TEACHER and teacher:
        score = summarise(list(teacher.values())).mean
        if score > 0:
            beside = _keys([*done, *group.of(TEACHER, column.task)])
            yield Origin(f"{label}, {column.title}, percent of its teacher ({where})", 100 * own.mean / score, beside)


def describe(text: str, origins: list[Origin], results: Path) -> str:
    """One line an origin, and how to see or rebuild the first."""
    if not origins:
        return f"{text}: no score, mean, ratio or size in {results} is printed so"
    lines = [f"{text}: {len(origins)} origins in {results}"]
    lines += [
        f"  {o.what}: {o.exact:.4f}; records {', '.join(o.records[:6])}{' ...' if len(o.records) > 6 else ''}"
        for o in origins
    ]
    key = origins[0].records[0]
    lines.append(
        f"  see one: python -m bench show {key} --results {results}; run it again: python -m bench verify {key} --results {results}"
    )
    return "\n".join(lines)
