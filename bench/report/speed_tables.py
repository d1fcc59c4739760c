"""Tables of measured speed: latency, throughput and the speed-up of one session, each with its conditions."""

from __future__ import annotations

from collections.abc import Sequence

from bench.record.cell import TEACHER
from bench.record.speed_sessions import Conditions, SpeedRecord, Timing
from bench.report.tables import Table
from bench.stats.ratios import Ratio, percentile, ratio, resolved


def conditions_of(record: SpeedRecord) -> list[Conditions]:
    """In the order they were measured."""
    found: list[Conditions] = []
    for timing in record.timings:
        if timing.conditions not in found:
            found.append(timing.conditions)
    return found


def described(conditions: Conditions) -> str:
    """``cpu, sdpa, fp32, 2 threads, batch 1, length 128``"""
    c = conditions
    threads = f", {c.threads} thread{'s' if c.threads > 1 else ''}" if c.device == "cpu" else ""
    return f"{c.device}, {c.backend}, {c.dtype}{threads}, batch {c.batch}, length {c.length}"


def speed_up(record: SpeedRecord, system: str, conditions: Conditions) -> Ratio | None:
    """How many times faster than the teacher of the same rounds; None where one of the two has no times."""
    own, teacher = record.of(system, conditions), record.of(TEACHER, conditions)
    if own is None or teacher is None or not own.seconds or not teacher.seconds:
        return None
    return ratio(teacher.seconds, own.seconds)


def headline(record: SpeedRecord) -> Conditions | None:
    """The conditions of a report's speed-up column: the first measured at batch 1 and 128 tokens, else at batch 1."""
    single = [c for c in conditions_of(record) if c.batch == 1]
    return next((c for c in single if c.length == "128"), single[0] if single else None)


def latest(records: Sequence[SpeedRecord], teacher: str) -> SpeedRecord | None:
    """The last session with this teacher that has a headline."""
    fitting = [record for record in records if record.teacher == teacher and headline(record)]
    return fitting[-1] if fitting else None


def speed_tables(record: SpeedRecord) -> list[Table]:
    """One table for each set of conditions, and one of footprints."""
    tables = [_timings(record, conditions) for conditions in conditions_of(record)]
    return [*tables, _footprints(record)] if record.footprints else tables


def _timings(record: SpeedRecord, conditions: Conditions) -> Table:
    rounds = min((len(t.seconds) for t in _of(record, conditions) if t.status == "ok"), default=0)
    shares = {f"p{round(100 * share)} (ms)": share for share in (0.5, 0.9, 0.99) if resolved(rounds, share)}
    if 0.99 not in shares.values():
        shares["max (ms)"] = 1.0
    header = ["System", *shares, "sequences/s", "speed-up", "95 % interval", "rounds"]
    rows, values, notes = [], [], []
    for timing in _of(record, conditions):
        if timing.status == "failed":
            rows.append([timing.system, *["–"] * (len(header) - 1)])
            values.append([timing.system, *[""] * (len(header) - 1)])
            notes.append(f"{timing.system}: not measured: {timing.error}.")
            continue
        latencies = [1000 * percentile(timing.seconds, share) for share in shares.values()]
        throughput = conditions.batch * len(timing.seconds) / sum(timing.seconds)
        found = speed_up(record, timing.system, conditions)
        rows.append(
            [
                timing.system,
                *(f"{latency:.2f}" for latency in latencies),
                f"{throughput:,.1f}",
                *(["–", "–"] if found is None else [f"{found.median:.2f}x", f"{found.low:.2f} to {found.high:.2f}"]),
                str(len(timing.seconds)),
            ]
        )
        values.append(
            [
                timing.system,
                *(f"{latency:.6f}" for latency in latencies),
                f"{throughput:.4f}",
                *(["", ""] if found is None else [f"{found.median:.4f}", f"{found.low:.4f} to {found.high:.4f}"]),
                str(len(timing.seconds)),
            ]
        )
    table = Table(described(conditions), header, rows, values, notes)
    gaps = [t.largest_difference for t in _of(record, conditions) if t.largest_difference is not None]
    if gaps:
        table.notes.append(f"Logits within {max(gaps):.1g} of eager attention in fp32.")
    return table


def _of(record: SpeedRecord, conditions: Conditions) -> list[Timing]:
    return [timing for timing in record.timings if timing.conditions == conditions]


def _footprints(record: SpeedRecord) -> Table:
    rows = [
        [f.system, f"{f.checkpoint_bytes / 1e6:.1f}", "–" if f.peak_bytes is None else f"{f.peak_bytes / 1e6:.0f}"]
        for f in record.footprints
    ]
    table = Table("Memory", ["System", "checkpoint (MB)", "peak memory (MB)"], rows, rows)
    table.notes.append(
        "Peak of a fresh process that loads the checkpoint and answers one batch of 32 sequences of 128 tokens, above the "
        "same process before loading."
    )
    return table
