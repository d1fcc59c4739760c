"""Where a printed number comes from: the numbers of reports that round to it, and their records.

Scores, means, ratios, differences of any two rows of a table, sizes, what training cost, latencies, and speed-ups with
their intervals. Other intervals and p-values are not searched: they would have to be drawn anew. Nor are minimum detectable
differences, standard deviations, energy, gradient shares, CPU times, hyper-parameters, numbers of papers and the numbers in
notes below tables.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from itertools import combinations
from pathlib import Path

from bench.audit.printed import PrintedNumber, printed
from bench.errors import InputError
from bench.record.cell import TEACHER
from bench.record.freshness import STALE
from bench.record.recipe import ADAMW
from bench.record.schema import Record
from bench.record.speed_sessions import SpeedRecord, speed_records
from bench.record.store import Store
from bench.report.groups import ReportGroup, ScoreColumn, groups
from bench.report.resampled import finished, teacher_weights
from bench.report.speed import described, speed_up
from bench.report.suspicions import baselines_of, suspicions_of
from bench.report.tables.accuracy import MAJORITY
from bench.report.tables.parts import counted, sound_teacher, teacher_score
from bench.report.tables.sizes import COUNTS
from bench.report.trainings import costs_of, teacher_share, trainings
from bench.stats.ratios import percentile
from bench.stats.summary import summarise

PLAIN, DIFFERENCE, SPEED_UP = "", "difference", "speed-up"
SHOWN = 20
"""Origins that are printed; of a short number there may be hundreds."""


@dataclass(frozen=True)
class NumberOrigin:
    """One thing that rounds to the number, and the records it is made of."""

    what: str
    exact: float
    records: tuple[str, ...]
    """their keys, twelve digits each"""
    kind: str = PLAIN
    session: str = ""
    """key of the session of timing, for a number that comes from no record"""


def trace(text: str, results: Path) -> list[NumberOrigin]:
    """The numbers of a folder of records that are printed as ``text`` with its number of decimals.

    A number with a plus, ``+4.5``, is a difference; one with an x, ``2.03x``, is a speed-up.

    Raises:
        InputError: not a number, or no records.
    """
    number = printed(text)
    if number is None:
        raise InputError(f"{text!r} is not a number, like 86.6, +4.5 or 2.03x")
    store, kind = Store(results), _kind(text)
    records, sessions = list(store.records()), list(speed_records(results, store.note))
    if not records and not sessions:
        raise InputError(f"no records in {results}")
    found: dict[tuple[str, tuple[str, ...]], NumberOrigin] = {}
    tables = groups(records)
    for group in tables:
        group.suspicions = suspicions_of(group, store)
    for origin in (*_all(tables, sessions, store), *_baselines(tables, store)):
        if kind in (PLAIN, origin.kind) and _prints(number, origin.exact):
            found.setdefault((origin.what, origin.records), origin)
    stale = {r.key[:12] for r in records if store.freshness.of(r) == STALE}
    return [
        replace(one, what=f"{one.what} (made by other code than this)") if stale & set(one.records) else one
        for one in found.values()
    ]


def _kind(text: str) -> str:
    """The kind of number that is written like this: only differences have a plus, only speed-ups an x; PLAIN may be any."""
    if text.strip().startswith("+"):
        return DIFFERENCE
    return SPEED_UP if text.strip().lower().endswith(("x", "×")) else PLAIN


def _all(tables: Sequence[ReportGroup], sessions: Sequence[SpeedRecord], store: Store) -> Iterator[NumberOrigin]:
    """Every number, the plain ones of all tables before their differences."""
    for group in tables:
        yield from _origins(group, store)
    for session in sessions:
        yield from _of_session(session)
    for group in tables:
        yield from _differences(group)


def _baselines(tables: Sequence[ReportGroup], store: Store) -> Iterator[NumberOrigin]:
    """What one answer to every example scores, and the mean of these scores."""
    for group in tables:
        found = baselines_of(group, store)
        for column, value in found.items():
            where = _where(group, group.row_limit(column.task))
            yield NumberOrigin(f"{MAJORITY}, {column.title} ({where})", value, ())
        if len(found) == len(group.columns) > 1:
            where = _where(group, group.max_train_rows)
            yield NumberOrigin(
                f"{MAJORITY}, mean of {len(found)} columns ({where})", summarise(list(found.values())).mean, ()
            )


def _prints(number: PrintedNumber, exact: float) -> bool:
    return number.is_rounded(Decimal(repr(round(exact, 9))))


def _keys(records: list[Record]) -> tuple[str, ...]:
    return tuple(record.key[:12] for record in records)


def _origins(group: ReportGroup, store: Store) -> Iterator[NumberOrigin]:
    """The scores, sizes, means, ratios and costs of a table."""
    yield from _left_out(group)
    sound = {c: teacher_score(group, c) for c in group.columns if sound_teacher(group, c)}
    if 1 < len(sound) < len(group.columns):
        what = f"{TEACHER}, mean of the {len(sound)} columns with ratios ({_where(group, group.max_train_rows)})"
        yield NumberOrigin(what, summarise(list(sound.values())).mean, _keys(group.of(TEACHER)))
    for label in group.systems:
        for column in group.columns:
            yield from _scores(group, label, column)
        where = _where(group, group.max_train_rows)
        yield from _sizes(group, label, where)
        means = group.means(label)
        if len(means) == len(group.columns) > 1:
            of_row = [r for r in group.of(label) if r.status == "ok"]
            yield NumberOrigin(f"{label}, mean of {len(means)} columns ({where})", summarise(means).mean, _keys(of_row))
        if label != TEACHER:
            yield from _ratios(group, label, sound, "its teacher")
            further = {c: score for c in sound if (score := _further_teacher(group, label, c, store)) is not None}
            if further:
                yield from _ratios(group, label, sound | further, "the training of its teacher that it learned from")
        yield from _costs(group, label, where)


def _left_out(group: ReportGroup) -> Iterator[NumberOrigin]:
    """The scores of records that have the name of a newer training."""
    for one in group.left_out:
        record = one.record
        for name, metrics in record.scores.items():
            for metric, value in metrics.items():
                what = f"{record.row}, {'+'.join(record.cell.tasks)} {name} {metric}, seed {record.cell.seed}"
                yield NumberOrigin(f"{what} (left out: a newer training has that name)", 100 * value, _keys([record]))


def _scores(group: ReportGroup, label: str, column: ScoreColumn) -> Iterator[NumberOrigin]:
    """The scores of a row in a column, of each seed and over seeds."""
    where = _where(group, group.row_limit(column.task))
    done = finished(group, label, column)
    for record in done:
        for metric, value in record.scores[column.evaluation].items():
            what = f"{label}, {column.task} {column.evaluation} {metric}, seed {record.cell.seed} ({where})"
            yield NumberOrigin(what, 100 * value, _keys([record]))
    if len(done) > 1:
        mean = group.summaries[label, column].mean
        yield NumberOrigin(f"{label}, {column.title}, mean over {len(done)} seeds ({where})", mean, _keys(done))


def _sizes(group: ReportGroup, label: str, where: str) -> Iterator[NumberOrigin]:
    """Each size of a row's models, with the records of the models that have it."""
    for count in COUNTS:
        sized: dict[float, list[Record]] = {}
        for record in group.of(label):
            if record.sizes and (count.wanted is None or count.wanted(record.sizes)):
                sized.setdefault(count.of(record.sizes) / count.unit, []).append(record)
        for size, records in sized.items():
            yield NumberOrigin(f"{label}, {count.title} ({where})", size, _keys(records))


def _ratios(
    group: ReportGroup, label: str, teacher: Mapping[ScoreColumn, float], called: str
) -> Iterator[NumberOrigin]:
    """What a row keeps of a teacher in each of these columns, and the two ways to average it."""
    own = {c: group.summaries[label, c].mean for c in teacher if (label, c) in group.summaries}
    ratios = {c: 100 * mean / teacher[c] for c, mean in own.items()}
    for column, ratio in ratios.items():
        what = f"{label}, {column.title}, percent of {called} ({_where(group, group.row_limit(column.task))})"
        yield NumberOrigin(what, ratio, _keys([*finished(group, label, column), *group.of(TEACHER, column.task)]))
    if len(ratios) == len(teacher) > 1:
        keys, where = _keys([*group.of(label), *group.of(TEACHER)]), _where(group, group.max_train_rows)
        mean, of_means = summarise(list(ratios.values())).mean, 100 * sum(own.values()) / sum(teacher.values())
        yield NumberOrigin(f"{label}, mean of {len(ratios)} ratios to {called} ({where})", mean, keys)
        yield NumberOrigin(f"{label}, ratio of its mean to that of {called} ({where})", of_means, keys)


def _further_teacher(group: ReportGroup, label: str, column: ScoreColumn, store: Store) -> float | None:
    """What another training of the teacher scores than the one in the table, where all of a row's records name it."""
    shown, named = finished(group, TEACHER, column)[0], set(map(teacher_weights, finished(group, label, column)))
    others = (one for one in store.attempts(shown).values() if teacher_weights(one) != teacher_weights(shown))
    scores = (100 * one.scores[column.evaluation][column.metric] for one in others if {teacher_weights(one)} == named)
    return next((score for score in scores if score > 0), None)


def _costs(group: ReportGroup, label: str, where: str) -> Iterator[NumberOrigin]:
    """What a row's trainings took: each of them, and all as the table of costs has them."""
    done = trainings(group, label)
    for record in done if len(done) > 1 else []:
        what = f"{label}, {'+'.join(record.cell.tasks)}, seed {record.cell.seed}"
        for title, value in costs_of([record]).items():
            yield NumberOrigin(f"{what}: training, {title} ({where})", value, _keys([record]))
    if done:
        costs = costs_of(done)
        for title, value in costs.items():
            yield NumberOrigin(f"{label}, cost of training, {title} ({where})", value, _keys(done))
        if (share := teacher_share(costs)) is not None:
            what = f"{label}, cost of training, percent of its seconds that are the teacher's ({where})"
            yield NumberOrigin(what, share, _keys(done))


SHARED_SEEDS = "over the seeds that both have"


def _differences(group: ReportGroup) -> Iterator[NumberOrigin]:
    """Of any two rows, column by column and on the mean of the columns."""
    for one, other in combinations(group.systems, 2):
        both = [c for c in group.columns if (one, c) in group.summaries and (other, c) in group.summaries]
        shared_gaps, unequal = [], False
        for column in both:
            where = _where(group, group.row_limit(column.task))
            values = group.values(one, column), group.values(other, column)
            gap = group.summaries[one, column].mean - group.summaries[other, column].mean
            keys = _keys([*group.of(one, column.task), *group.of(other, column.task)])
            yield from _difference(one, other, column.title, gap, keys, where)
            shared = sorted(set(values[0]) & set(values[1]))
            if not shared:
                continue
            shared_gaps.append(summarise([values[0][seed] - values[1][seed] for seed in shared]).mean)
            if len(shared) < max(map(len, values)):
                unequal = True
                what = f"{column.title}, {SHARED_SEEDS}"
                yield from _difference(one, other, what, shared_gaps[-1], keys, where)
        if len(both) == len(group.columns) > 1:
            where = _where(group, group.max_train_rows)
            gap = summarise(group.means(one)).mean - summarise(group.means(other)).mean
            keys = _keys([*group.of(one), *group.of(other)])
            yield from _difference(one, other, f"mean of {len(both)} columns", gap, keys, where)
            if unequal and len(shared_gaps) == len(both):
                what = f"mean of {len(both)} columns, {SHARED_SEEDS}"
                yield from _difference(one, other, what, summarise(shared_gaps).mean, keys, where)


def _difference(
    one: str, other: str, what: str, gap: float, keys: tuple[str, ...], where: str
) -> Iterator[NumberOrigin]:
    """Either way round: a report may print both."""
    yield NumberOrigin(f"{one} minus {other}, {what} ({where})", gap, keys, DIFFERENCE)
    yield NumberOrigin(f"{other} minus {one}, {what} ({where})", -gap, keys, DIFFERENCE)


def _of_session(session: SpeedRecord) -> Iterator[NumberOrigin]:
    """Latencies, throughput, speed-ups and footprints of one session of timing."""
    where = f"session {session.key[:12]}, teacher {session.teacher}"

    def origin(what: str, exact: float, kind: str = PLAIN) -> NumberOrigin:
        return NumberOrigin(f"{what} ({where})", exact, (), kind, session.key)

    for timing in session.timings:
        if timing.status != "ok" or not timing.seconds:
            continue
        conditions = timing.conditions
        row = f"{timing.system}, {described(conditions)}"
        for name, share in (("median", 0.5), ("p90", 0.9), ("p99", 0.99), ("longest", 1.0)):
            yield origin(f"{row}: {name} latency in ms", 1000 * percentile(timing.seconds, share))
        throughput = conditions.batch * len(timing.seconds) / sum(timing.seconds)
        yield origin(f"{row}: sequences per second", throughput)
        faster = speed_up(session, timing.system, conditions)
        if faster is not None:
            for name, value in (("", faster.median), (", lower bound", faster.low), (", upper bound", faster.high)):
                yield origin(f"{row}: speed-up{name}", value, SPEED_UP)
    for one in session.footprints:
        yield origin(f"{one.system}: checkpoint in MB", one.checkpoint_bytes / 1e6)
        if one.peak_bytes is not None:
            yield origin(f"{one.system}: peak memory in MB", one.peak_bytes / 1e6)


def _where(group: ReportGroup, limit: int | None) -> str:
    return f"{group.slug}{f', {limit:,} examples' if limit else ''}, {group.recipe}{'' if group.optimizer == ADAMW else f', {group.optimizer}'}"


def describe(text: str, origins: list[NumberOrigin], results: Path) -> str:
    """One line an origin, the first of many, and how to see or rebuild the first record."""
    if not origins:
        return (
            f"{text}: no number of the reports of {results} rounds to it. Not searched: intervals (except of speed-ups), "
            "p-values, minimum detectable differences, standard deviations, energy, gradient shares, CPU times, "
            "hyper-parameters, numbers of papers, and the numbers in notes below tables"
        )
    lines = [f"{text}: {counted(len(origins), 'place')} in {results}"]
    for o in origins[:SHOWN]:
        behind = f"; records {', '.join(o.records[:6])}{' ...' if len(o.records) > 6 else ''}" if o.records else ""
        lines.append(f"  {o.what}: {o.exact:.4f}{behind}")
    if len(origins) > SHOWN:
        lines.append(
            f"  ... and {len(origins) - SHOWN} more. --json FILE has all of them; if you type more digits of the number, "
            "fewer places fit"
        )
    key = next((o.records[0] for o in origins if o.records), None)
    if key is not None:
        lines.append(
            f"  see one: python -m bench show {key} --results {results}; run it again: python -m bench verify {key} --results {results}"
        )
    return "\n".join(lines)
