"""A session of timing: how much faster a system is, its tables with their conditions, and its report. No torch, no clock."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from statistics import median

import numpy as np

from bench.files import slug, write_atomically
from bench.record.cell import TEACHER
from bench.record.code import commit_of
from bench.record.speed_sessions import OWN_RUNTIME, Conditions, SpeedRecord
from bench.report.document import Section, to_page, write_index
from bench.report.file_names import PAGE, TABLES, fitted, named
from bench.report.render import write_tables
from bench.report.table import DASH, INTERVAL, Column, Line, Table, TableCell, number
from bench.stats.ratios import Ratio, enough_rounds_for, ratio

DRIFT = 0.1
"""The share by which times may change during a session without a note: more than rounds vary by on an idle machine."""
FOLDER = "speed"
"""Below the folder of all reports."""


def conditions_of(record: SpeedRecord) -> list[Conditions]:
    """In the order they were measured."""
    return list({repr(timing.conditions): timing.conditions for timing in record.timings}.values())


def described(conditions: Conditions) -> str:
    """``cpu, sdpa, fp32, 2 threads, batch 1, length 128``"""
    c = conditions
    threads = f", {c.threads} thread{'s' if c.threads > 1 else ''}" if c.device == "cpu" else ""
    return f"{c.device}, {c.backend}, {c.dtype}{threads}, batch {c.batch}, length {c.length}"


def speed_up(record: SpeedRecord, system: str, conditions: Conditions) -> Ratio | None:
    """How many times faster than the teacher of the same rounds; None where one of the two has no times."""
    own, teacher = record.timing_of(system, conditions), record.timing_of(TEACHER, conditions)
    if own is None or teacher is None or not own.seconds or not teacher.seconds:
        return None
    return ratio(teacher.seconds, own.seconds)


def shared_speed_up(
    record: SpeedRecord, systems: Sequence[str], conditions: Conditions
) -> Ratio | None:
    """How many times faster systems of one architecture are than the teacher: in each round the
    median of their times, which differ by chance alone. None where nothing was timed."""
    teacher = record.timing_of(TEACHER, conditions)
    timings = [record.timing_of(system, conditions) for system in systems]
    seconds = [timing.seconds for timing in timings if timing is not None and timing.seconds]
    rounds = [median(times) for times in zip(*seconds, strict=False)]
    if teacher is None or not rounds or len(rounds) != len(teacher.seconds):
        return None
    return ratio(teacher.seconds, rounds)


def main_conditions(record: SpeedRecord, backend: str = "", threads: int = 0) -> Conditions | None:
    """The conditions of a report's speed-up column: the first measured at batch 1 and 128 tokens, else at batch 1, else at another batch.

    Args:
        backend, threads: of the conditions, where they are chosen.
    """
    known = [c for c in conditions_of(record) if c.backend != OWN_RUNTIME]
    known = [c for c in known if backend in ("", c.backend) and threads in (0, c.threads)]
    # of a session that timed no single example, its first batch
    known = [c for c in known if c.batch == 1] or known
    return next((c for c in known if c.length == "128"), known[0] if known else None)


def latency_tables(record: SpeedRecord) -> list[Table]:
    """One table for each set of conditions, and one of footprints."""
    tables = [_timings(record, conditions) for conditions in conditions_of(record)]
    if not record.footprints:
        return tables
    lines = [
        Line(
            f.system if f.backend == "sdpa" else f"{f.system} in {f.backend}",
            [number(size / 1e6 if size is not None else None, form) for size, form in sizes],
        )
        for f in record.footprints
        for sizes in [((f.checkpoint_bytes, ".1f"), (f.peak_bytes, ".0f"))]
    ]
    note = (
        "Peak of a fresh process that loads the checkpoint and answers one batch of 32 sequences of 128 tokens, above the "
        "same process before loading."
    )
    columns = list(map(Column, ("System", "checkpoint (MB)", "peak memory (MB)")))
    return [*tables, Table("Memory", columns, lines, (note,))]


def _timings(record: SpeedRecord, c: Conditions) -> Table:
    timings = [timing for timing in record.timings if timing.conditions == c]
    rounds = min((len(t.seconds) for t in timings if t.status == "ok"), default=0)
    shares = {
        f"p{round(100 * share)} (ms)": share
        for share in (0.5, 0.9, 0.99)
        if enough_rounds_for(rounds, share)
    }
    if 0.99 not in shares.values():
        shares["max (ms)"] = 1.0
    columns = [Column("System"), *(Column(name, digits=6) for name in shares)]
    # an interval, printed in a column of its own, is beside its number in a CSV file
    columns += [
        Column("sequences/s"),
        Column("speed-up (busy)" if record.others else "speed-up", csv=INTERVAL),
        Column("95 % interval", csv={}),
        Column("rounds"),
    ]
    with_energy = any(timing.joules for timing in timings)
    if with_energy:
        columns += [Column("J/sequence", csv=INTERVAL, digits=6), Column("min to max", csv={})]

    lines, notes, slowed, empty = [], [], [], TableCell(DASH)
    for timing in timings:
        name, seconds = timing.system, timing.seconds
        if timing.status == "failed":
            lines.append(Line(name, [empty] * (len(columns) - 1)))
            notes.append(f"{name}: not measured: {timing.error}.")
            continue
        latencies = [1000 * float(np.quantile(seconds, share)) for share in shares.values()]
        cells = [number(latency, ".2f") for latency in latencies]
        cells.append(number(c.batch * len(seconds) / sum(seconds), ",.1f"))
        ratio_cells, energy_cells = [empty, empty], [empty, empty]
        if faster := speed_up(record, name, c):
            text, ends = f"{faster.median:.2f}x", f"{faster.low:.2f} to {faster.high:.2f}"
            ratio_cells = [TableCell(text, faster.median, faster.low, faster.high), TableCell(ends)]
        if timing.joules:  # of one sequence, and the turns' smallest and largest
            own = [joules / c.batch for joules in timing.joules]
            low, high = min(own), max(own)
            energy_cells = [
                TableCell(f"{median(own):.3g}", median(own), low, high),
                TableCell(f"{low:.3g} to {high:.3g}"),
            ]
        cells += [*ratio_cells, number(len(seconds), "d"), *(energy_cells if with_energy else [])]
        lines.append(Line(name, cells))
        # how much longer the last third of the rounds took than the first
        third = len(seconds) // 3
        change = median(seconds[-third:]) / median(seconds[:third]) - 1 if third else 0.0
        if abs(change) > DRIFT:
            slowed.append(
                f"{name} became {abs(change):.0%} {'slower' if change > 0 else 'faster'} while it was timed: its milliseconds "
                f"mean little. Speed-ups compare times of the same rounds."
            )
    eager = "those of eager attention in fp32"
    if gaps := [t.largest_difference for t in timings if t.largest_difference is not None]:
        notes.append(f"The largest difference between logits and {eager} is {max(gaps):.2g}.")
    changed = [t for t in timings if t.changed is not None]
    notes += [
        f"{t.system}: {t.changed} of {t.compared} predictions differ from {eager}." for t in changed
    ]
    file = f"{c.device} {c.backend} {c.dtype} {c.threads} threads b{c.batch} l{c.length}"
    return Table(described(c), columns, lines, [*notes, *slowed], file=file)


def write_speed_report(session: SpeedRecord, folder: Path) -> Path:
    """Markdown and CSV of one session of timing; returns the Markdown file."""
    name = slug(f"{session.teacher.split('/')[-1].split(' (')[0]}-{session.key[:8]}").lower()
    own, env = folder / FOLDER / fitted(name, session.key), session.env
    where = ", ".join(str(env[k]) for k in ("accelerator", "processor") if env.get(k))
    libraries = f"torch {env.get('torch')}, transformers {env.get('transformers')}"
    measured_on = f"{where}, {env.get('cores')} cores; {libraries}; code {commit_of(session.code)}."
    if session.others:
        measured_on += f" Other processes used {session.others:.1f} cores when it began."
    reason = session.energy.partition(": ")[2]
    energy = f"Energy was not measured{f': {reason}' if reason else ''}."
    if any(timing.joules for timing in session.timings):
        energy = (
            f"J/sequence is the energy of one sequence, as the machine counts it ({session.energy}). It is the median of several turns, "
            "and includes what the hardware uses when idle."
        )
    explained = (
        "Teacher and students were timed in turns, so that each speed-up compares times of the same moment. It is the median over "
        "rounds, with an interval by order statistics. All models except finished checkpoints have random weights: "
        "the speed of a model without early exit does not depend on them. This is one session: the intervals say nothing of other sessions, "
        "which differ by more, also on the same kind of machine."
    )
    title, tables = f"Speed compared with {session.teacher}", latency_tables(session)
    write_tables(own / TABLES, named(tables))
    sections = [
        Section("", [explained, energy, measured_on]),
        *(Section(t.title, tables=[t]) for t in tables),
    ]
    write_atomically(own / PAGE, to_page(title, sections))
    write_index(folder)
    return own / PAGE
