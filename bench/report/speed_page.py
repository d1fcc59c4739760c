"""A session of timing: how much faster a system is, its tables and its report.

No torch, no clock.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from statistics import median

import numpy as np

from bench.files import slug, write_atomically
from bench.record.cell import TEACHER
from bench.record.code import commit_of
from bench.record.speed_sessions import OWN_RUNTIME, Conditions, SpeedRecord, Timing
from bench.report.document import Section, to_page, write_index
from bench.report.file_names import PAGE, TABLES, fitted, named
from bench.report.render import write_tables
from bench.report.table import BUSY, DASH, INTERVAL, Column, Line, Table, TableCell, number
from bench.stats.ratios import Ratio, enough_rounds_for, ratio

DRIFT = 0.1
"""Times may change by this share during a session without a note.

It is more than rounds vary by on an idle machine.
"""
FOLDER = "speed"
"""Below the folder of all reports."""
EMPTY = TableCell(DASH)
REFERENCE = "those of eager attention in fp32"
"""What logits and predictions are compared with."""


def conditions_of(record: SpeedRecord) -> list[Conditions]:
    """The conditions of a session, in the order they were measured."""
    return list({repr(timing.conditions): timing.conditions for timing in record.timings}.values())


def described(conditions: Conditions) -> str:
    """``cpu, sdpa, fp32, 2 threads, batch 1, length 128``"""
    c = conditions
    words = [c.device, c.backend, c.dtype]
    if c.device == "cpu":
        words.append(f"{c.threads} thread{'s' if c.threads > 1 else ''}")
    return ", ".join([*words, f"batch {c.batch}", f"length {c.length}"])


def speed_up(record: SpeedRecord, system: str, conditions: Conditions) -> Ratio | None:
    """How many times faster than the teacher of the same rounds a system is.

    It is None where one of the two has no times.
    """
    timing = record.timing_of(system, conditions)
    teacher = record.timing_of(TEACHER, conditions)
    if timing is None or teacher is None or not timing.seconds or not teacher.seconds:
        return None
    return ratio(teacher.seconds, timing.seconds)


def shared_speed_up(
    record: SpeedRecord, systems: Sequence[str], conditions: Conditions
) -> Ratio | None:
    """How many times faster systems of one architecture are than the teacher.

    In each round it is the median of their times, which differ by chance alone. It is None where
    nothing was timed.
    """
    teacher = record.timing_of(TEACHER, conditions)
    timings = [record.timing_of(system, conditions) for system in systems]
    seconds = [timing.seconds for timing in timings if timing is not None and timing.seconds]
    rounds = [median(times) for times in zip(*seconds, strict=False)]
    if teacher is None or not rounds or len(rounds) != len(teacher.seconds):
        return None
    return ratio(teacher.seconds, rounds)


def main_conditions(record: SpeedRecord, backend: str = "", threads: int = 0) -> Conditions | None:
    """The conditions of a report's speed-up column.

    They are the first measured at batch 1 and 128 tokens, else at batch 1, else at another batch.

    Args:
        backend, threads: of the conditions, where they are chosen.
    """
    known = [c for c in conditions_of(record) if c.backend != OWN_RUNTIME]
    known = [c for c in known if backend in ("", c.backend) and threads in (0, c.threads)]
    # of a session that timed no single example, its first batch
    known = [c for c in known if c.batch == 1] or known
    if not known:
        return None
    return next((c for c in known if c.length == "128"), known[0])


def latency_tables(record: SpeedRecord) -> list[Table]:
    """One table for each set of conditions, and one of footprints."""
    tables = [_timings(record, conditions) for conditions in conditions_of(record)]
    if record.footprints:
        tables.append(_footprints(record))
    return tables


def _footprints(record: SpeedRecord) -> Table:
    """What each system needs on disk and in memory."""
    lines = []
    for footprint in record.footprints:
        checkpoint = number(_megabytes(footprint.checkpoint_bytes), ".1f")
        peak = number(_megabytes(footprint.peak_bytes), ".0f")
        name = footprint.system
        if footprint.backend != "sdpa":
            name += f" in {footprint.backend}"
        lines.append(Line(name, [checkpoint, peak]))
    note = (
        "Peak of a fresh process that loads the checkpoint and answers one batch of 32 sequences "
        "of 128 tokens, above the same process before loading."
    )
    columns = [Column("System"), Column("checkpoint (MB)"), Column("peak memory (MB)")]
    return Table("Memory", columns, lines, (note,))


def _megabytes(size: int | None) -> float | None:
    return None if size is None else size / 1e6


def _timings(record: SpeedRecord, c: Conditions) -> Table:
    """The times under one set of conditions: a line for each system."""
    timings = [timing for timing in record.timings if timing.conditions == c]
    shares = _quantiles(timings)
    with_energy = any(timing.joules for timing in timings)

    # an interval, printed in a column of its own, is beside its number in a CSV file
    columns = [
        Column("System"),
        *(Column(name, digits=6) for name in shares),
        Column("sequences/s"),
        Column("speed-up" + BUSY if record.others else "speed-up", csv=INTERVAL),
        Column("95 % interval", csv={}),
        Column("rounds"),
    ]
    if with_energy:
        columns += [Column("J/sequence", csv=INTERVAL, digits=6), Column("min to max", csv={})]

    lines = []
    failures = []
    drifts = []
    for timing in timings:
        system = timing.system
        seconds = timing.seconds
        if timing.status == "failed":
            lines.append(Line(system, [EMPTY] * (len(columns) - 1)))
            failures.append(f"{system}: not measured: {timing.error}.")
            continue
        cells = [
            number(1000 * float(np.quantile(seconds, share)), ".2f") for share in shares.values()
        ]
        cells.append(number(c.batch * len(seconds) / sum(seconds), ",.1f"))
        cells += _ratio_cells(speed_up(record, system, c))
        cells.append(number(len(seconds), "d"))
        if with_energy:
            cells += _energy_cells(timing)
        lines.append(Line(system, cells))
        drift = _drift(seconds)
        if abs(drift) > DRIFT:
            drifts.append(
                f"{system} became {abs(drift):.0%} {'slower' if drift > 0 else 'faster'} while it "
                "was timed: its milliseconds mean little. Speed-ups compare times of the same "
                "rounds."
            )
    file = f"{c.device} {c.backend} {c.dtype} {c.threads} threads b{c.batch} l{c.length}"
    notes = [*failures, *_differences(timings), *drifts]
    return Table(described(c), columns, lines, notes, file=file)


def _quantiles(timings: Sequence[Timing]) -> dict[str, float]:
    """Title of a column -> the share of rounds that are faster.

    They are those for which every system has enough rounds, and the slowest round where a tail
    cannot be told.
    """
    rounds = min((len(t.seconds) for t in timings if t.status == "ok"), default=0)
    shares = {
        f"p{round(100 * share)} (ms)": share
        for share in (0.5, 0.9, 0.99)
        if enough_rounds_for(rounds, share)
    }
    if 0.99 not in shares.values():
        shares["max (ms)"] = 1.0
    return shares


def _ratio_cells(faster: Ratio | None) -> list[TableCell]:
    """How many times faster a system is, and the interval of that."""
    if not faster:
        return [EMPTY, EMPTY]
    return [
        TableCell(f"{faster.median:.2f}x", faster.median, faster.low, faster.high),
        TableCell(f"{faster.low:.2f} to {faster.high:.2f}"),
    ]


def _energy_cells(timing: Timing) -> list[TableCell]:
    """The energy of one sequence, and the smallest and largest of the turns."""
    if not timing.joules:
        return [EMPTY, EMPTY]
    joules = [of_batch / timing.conditions.batch for of_batch in timing.joules]
    low = min(joules)
    high = max(joules)
    return [
        TableCell(f"{median(joules):.3g}", median(joules), low, high),
        TableCell(f"{low:.3g} to {high:.3g}"),
    ]


def _drift(seconds: Sequence[float]) -> float:
    """How much longer the last third of the rounds took than the first, as a share of it."""
    third = len(seconds) // 3
    if not third:
        return 0.0
    return median(seconds[-third:]) / median(seconds[:third]) - 1


def _differences(timings: Sequence[Timing]) -> list[str]:
    """Sentences about answers that another way of computing changes."""
    notes = []
    gaps = [t.largest_difference for t in timings if t.largest_difference is not None]
    if gaps:
        notes.append(f"The largest difference between logits and {REFERENCE} is {max(gaps):.2g}.")
    for timing in timings:
        if timing.changed is not None:
            notes.append(
                f"{timing.system}: {timing.changed} of {timing.compared} predictions differ from "
                f"{REFERENCE}."
            )
    return notes


def write_speed_report(session: SpeedRecord, folder: Path) -> Path:
    """Markdown and CSV of one session of timing; returns the Markdown file."""
    teacher = session.teacher.split("/")[-1].split(" (")[0]
    name = slug(f"{teacher}-{session.key[:8]}").lower()
    report = folder / FOLDER / fitted(name, session.key)
    tables = latency_tables(session)
    write_tables(report / TABLES, named(tables))
    explained = (
        "Teacher and students were timed in turns, so that each speed-up compares times of the "
        "same moment. It is the median over rounds, with an interval by order statistics. "
        "All models except finished checkpoints have random weights: the speed of a model without "
        "early exit does not depend on them. This is one session: the intervals say nothing of "
        "other sessions, which differ by more, also on the same kind of machine."
    )
    sections = [
        Section("", [explained, _energy(session), _measured_on(session)]),
        *(Section(table.title, tables=[table]) for table in tables),
    ]
    title = f"Speed compared with {session.teacher}"
    write_atomically(report / PAGE, to_page(title, sections))
    write_index(folder)
    return report / PAGE


def _energy(session: SpeedRecord) -> str:
    """What the numbers of energy are, or why there are none."""
    if any(timing.joules for timing in session.timings):
        return (
            "J/sequence is the energy of one sequence, as the machine counts it "
            f"({session.energy}). It is the median of several turns, and includes what the "
            "hardware uses when idle."
        )
    reason = session.energy.partition(": ")[2]
    return f"Energy was not measured: {reason}." if reason else "Energy was not measured."


def _measured_on(session: SpeedRecord) -> str:
    """The machine, the libraries and the code of a session."""
    env = session.env
    machine = ", ".join(str(env[k]) for k in ("accelerator", "processor") if env.get(k))
    libraries = f"torch {env.get('torch')}, transformers {env.get('transformers')}"
    text = f"{machine}, {env.get('cores')} cores; {libraries}; code {commit_of(session.code)}."
    if session.others:
        text += f" Other processes used {session.others:.1f} cores when it began."
    return text
