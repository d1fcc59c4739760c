"""The gate's speeds: a speed-up is the ratio to the teacher that was timed in the same session."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from bench.analysis import gate_in_words as words
from bench.analysis.gate_result import MISSING, OTHER, PASSED, REGRESSED, UNCLEAR, GateResult
from bench.record.cell import TEACHER
from bench.record.speed_sessions import SpeedRecord, Timing, idle_if_any
from bench.report.speed_page import conditions_of, described, speed_up


def compared_speeds(
    olds: Sequence[SpeedRecord], news: Sequence[SpeedRecord], rows: Collection[str], allowed: float
) -> list[GateResult]:
    """The last old session of each teacher against the new ones, system by system, under the same
    conditions.

    Args:
        rows: the systems that are compared; none for all.
        allowed: the share of a speed-up that may be lost.
    """
    findings: list[GateResult] = []
    for teacher in dict.fromkeys(session.teacher for session in olds):
        old = idle_if_any([session for session in olds if session.teacher == teacher])[-1]
        fitting = idle_if_any([session for session in news if session.teacher == teacher])
        conditions = conditions_of(old)
        for timing in sorted(old.timings, key=lambda timing: conditions.index(timing.conditions)):
            is_compared = timing.system != TEACHER and (not rows or timing.system in rows)
            if is_compared and timing.seconds:
                findings.append(_compared_speed(old, fitting, timing, allowed))
    return findings


def _compared_speed(
    old: SpeedRecord, fitting: Sequence[SpeedRecord], timing: Timing, allowed: float
) -> GateResult:
    """One speed-up before and now.

    Args:
        fitting: new sessions of the same teacher; the last one with this speed-up counts.
        timing: of the old session.
    """
    system = timing.system
    conditions = timing.conditions

    def ended(verdict: str, why: str) -> GateResult:
        return GateResult(system, f"speed-up ({described(conditions)})", verdict, why)

    before = speed_up(old, system, conditions)
    now = None
    others = old.others
    for session in fitting:
        found = speed_up(session, system, conditions)
        if found is not None:
            now = found
            others = max(old.others, session.others)

    # there is nothing to compare
    if before is None or now is None:
        every_timing = [new for session in fitting for new in session.timings]
        timed = [new.conditions for new in every_timing if new.system == system]
        if not timed:
            return ended(MISSING, words.NOT_TIMED)
        if conditions in timed:
            return ended(MISSING, words.TIMING_FAILED)
        return ended(OTHER, words.TIMED_OTHERWISE)

    # the interval of the new speed-up against the least that passes
    least = before.median * (1 - allowed)
    why = words.changed_speed_up(before, now, least, others)
    if others:
        return ended(UNCLEAR, why)
    if now.high < least:
        return ended(REGRESSED, why)
    if now.low >= least:
        return ended(PASSED, why)
    return ended(UNCLEAR, why)
