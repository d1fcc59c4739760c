"""Questions to a session of timing: its conditions, its main conditions, how much faster a system is. No torch."""

from __future__ import annotations

from collections.abc import Sequence

from bench.record.cell import TEACHER
from bench.record.speed_sessions import Conditions, SpeedRecord
from bench.stats.ratios import Ratio, ratio


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


def main_conditions(record: SpeedRecord) -> Conditions | None:
    """The conditions of a report's speed-up column: the first measured at batch 1 and 128 tokens, else at batch 1."""
    single = [c for c in conditions_of(record) if c.batch == 1]
    return next((c for c in single if c.length == "128"), single[0] if single else None)


def latest(records: Sequence[SpeedRecord], teacher: str) -> SpeedRecord | None:
    """The last session with this teacher that has main conditions."""
    fitting = [record for record in records if record.teacher == teacher and main_conditions(record)]
    return fitting[-1] if fitting else None
