"""How fast the rows of a study are, from the sessions of timing with its teacher. No torch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median

from bench.record.cell import ONNX_INT8, POINTS_IN_8_BITS, TEACHER
from bench.record.code import commit_of
from bench.record.speed_sessions import Conditions, SpeedRecord, idle_if_any
from bench.record.task_facts import row_as_typed
from bench.report.speed_page import conditions_of, described, main_conditions, shared_speed_up
from bench.report.study import Speed, Study
from bench.stats.ratios import Ratio, pooled

NOT_TIMED = Speed()
Architecture = Mapping[str, str]
"""The rows of one architecture -> what sessions call them."""


def speed_of(
    study: Study, sessions: Sequence[SpeedRecord], backend: str = "", threads: int = 0
) -> Speed:
    """The speed-ups of a study's rows by the sessions with its teacher, and the latencies of the
    last one.

    A session of a busy machine counts only where none of an idle one fits, and is said to be busy.
    Sessions on the same kind of machine as the last, under the same conditions, are pooled.

    Rows of one architecture have one speed-up: in each round the median of their times, which
    differ by chance alone. Of rows with weights of few bits each has its own. Rows in 8 bits were
    timed after the teacher's rounds, and have latencies alone.

    Args:
        backend, threads: under which they were timed; by default those that the session measured
            first.
    """
    fitting = []
    for each in sessions:
        has_teacher = each.teacher == study.cell.teacher.name
        if has_teacher and main_conditions(each, backend, threads) is not None:
            fitting.append(each)
    if not fitting:
        return NOT_TIMED
    idle = idle_if_any(fitting)
    session = idle[-1]
    conditions = main_conditions(session, backend, threads)
    if conditions is None:
        return NOT_TIMED
    alike = [s for s in idle if s.machine == session.machine and conditions in conditions_of(s)]

    architectures = _architectures(study)
    machine = session.env.get("accelerator") or session.env.get("processor")
    of_sessions = _sessions_in_words(alike, fitting[-1])
    return Speed(
        ratios=_speed_ups(architectures, alike, conditions),
        latencies=_latencies(study, architectures, alike, conditions),
        conditions=f"{described(conditions)}, on {machine}; {of_sessions}",
        backend=conditions.backend,
        busy_cores=session.others,
    )


def _speed_ups(
    architectures: Sequence[Architecture], sessions: Sequence[SpeedRecord], conditions: Conditions
) -> dict[str, Ratio]:
    """Row -> how many times faster than the teacher it is, over all sessions."""
    timed: list[Architecture] = []
    ratios: list[list[Ratio]] = []
    for names in architectures:
        of_architecture = _ratios(names, sessions, conditions)
        if of_architecture:
            timed.append(names)
            ratios.append(of_architecture)
    speed_ups: dict[str, Ratio] = {}
    for names, together in zip(timed, pooled(ratios), strict=True):
        speed_ups |= {label: together for label in names if label != TEACHER}
    return speed_ups


def _ratios(
    names: Architecture, sessions: Sequence[SpeedRecord], conditions: Conditions
) -> list[Ratio]:
    """The speed-up of an architecture in each of the sessions that timed it."""
    ratios = [shared_speed_up(each, list(names.values()), conditions) for each in sessions]
    return [ratio for ratio in ratios if ratio is not None]


def _latencies(
    study: Study,
    architectures: Sequence[Architecture],
    sessions: Sequence[SpeedRecord],
    conditions: Conditions,
) -> dict[str, float]:
    """Row -> median milliseconds of a batch, in the last of the sessions."""
    session = sessions[-1]
    latencies = _latencies_alone(study, session, conditions)
    # rows of one architecture have one latency: in each round the median of their times
    for names in architectures:
        timings = [session.timing_of(name, conditions) for name in names.values()]
        seconds = [timing.seconds for timing in timings if timing and timing.seconds]
        if seconds and _ratios(names, sessions, conditions):
            rounds = [median(times) for times in zip(*seconds, strict=False)]
            latencies |= dict.fromkeys(names, 1000 * median(rounds))
    return latencies


def _latencies_alone(
    study: Study, session: SpeedRecord, conditions: Conditions
) -> dict[str, float]:
    """Row -> median milliseconds of a batch, each row by its own times."""
    in_8_bits = conditions.model_copy(update={"backend": ONNX_INT8})
    latencies: dict[str, float] = {}
    for label in study.systems:
        point = study.records_of(label)[0].point
        own_conditions = in_8_bits if point in POINTS_IN_8_BITS else conditions
        timing = session.timing_of(_name_in_sessions(study, label), own_conditions)
        if timing and timing.seconds:
            latencies[label] = 1000 * median(timing.seconds)
    return latencies


def _name_in_sessions(study: Study, label: str) -> str:
    """What sessions call a row: as it was typed, with its operating point."""
    first = study.records_of(label)[0]
    name = row_as_typed(first.cell)
    if first.point and first.point not in POINTS_IN_8_BITS:
        name += f" at {first.point}"
    return name


def _architectures(study: Study) -> list[Architecture]:
    """For each architecture its rows -> what sessions call them; without rows in 8 bits.

    Rows of one architecture have as many parameters and MACs. Rounding takes time of its own, so
    each row with weights of few bits is its own.
    """
    architectures: dict[object, dict[str, str]] = {}
    for label in study.systems:
        records = study.records_of(label)
        if records[0].point in POINTS_IN_8_BITS:
            continue
        whole = [r.sizes for r in records if r.sizes and r.sizes.file_bytes is None]
        sizes = [(size.parameters, size.macs_closed_form) for size in whole]
        architecture: object = min(sizes) if sizes else label
        architectures.setdefault(architecture, {})[label] = _name_in_sessions(study, label)
    return list(architectures.values())


def _sessions_in_words(alike: Sequence[SpeedRecord], newest: SpeedRecord) -> str:
    """Which sessions speed-ups are of; and what speaks against the last of them.

    Args:
        alike: those that are pooled, the last of which has the latencies.
        newest: the last session of all that fit, whatever ran beside it.
    """
    session = alike[-1]
    made = [f"{s.key[:8]} of {s.started[:10]}, code {commit_of(s.code)}" for s in alike]
    said = f"one session: {made[0]}"
    if len(alike) > 1:
        said = f"{len(alike)} sessions: {', and '.join(made)}"
    if session.others:
        busy = f"{session.others:.1f} cores, so times mean little"
        return f"{said}; busy: other processes used {busy}"
    if session is not newest:
        return f"{said}; session {newest.key[:8]}, of a busy machine, is left out"
    return said
