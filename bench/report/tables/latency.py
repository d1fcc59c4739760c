"""The tables of a session of timing: latency, throughput and speed-up, each with its conditions, and memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median

from bench.record.speed_sessions import Conditions, SpeedRecord, Timing
from bench.report import frame
from bench.report.frame import EXACT, Frame, FrameLine, TableCell, exact
from bench.report.speed import conditions_of, described, speed_up
from bench.report.tables.parts import DASH
from bench.stats.ratios import Ratio, enough_rounds_for, percentile

DRIFT = 0.1
"""The share by which times may change during a session without a note: more than rounds vary by on an idle machine."""


def latency_tables(record: SpeedRecord) -> list[Frame]:
    """One table for each set of conditions, and one of footprints."""
    tables = [_timings(record, conditions) for conditions in conditions_of(record)]
    return [*tables, _footprints(record)] if record.footprints else tables


def _timings(record: SpeedRecord, conditions: Conditions) -> Frame:
    timings = [timing for timing in record.timings if timing.conditions == conditions]
    rounds = min((len(t.seconds) for t in timings if t.status == "ok"), default=0)
    shares = {f"p{round(100 * share)} (ms)": share for share in (0.5, 0.9, 0.99) if enough_rounds_for(rounds, share)}
    if 0.99 not in shares.values():
        shares["max (ms)"] = 1.0
    columns = (
        frame.TableColumn("System"),
        *(frame.TableColumn(name, csv=(("", exact(6)),)) for name in shares),
        frame.TableColumn("sequences/s", csv=EXACT),
        frame.TableColumn("speed-up", csv=EXACT),
        frame.TableColumn("95 % interval"),
        frame.TableColumn("rounds"),
    )
    with_energy = any(timing.joules for timing in timings)
    if with_energy:
        columns += (frame.TableColumn("J/sequence", csv=EXACT), frame.TableColumn("min to max"))
    lines = [_line(timing, shares, speed_up(record, timing.system, conditions), with_energy) for timing in timings]
    notes = [f"{t.system}: not measured: {t.error}." for t in timings if t.status == "failed"]
    gaps = [t.largest_difference for t in timings if t.largest_difference is not None]
    if gaps:
        notes.append(f"The largest difference between logits and those of eager attention in fp32 is {max(gaps):.2g}.")
    notes += [_changed(t) for t in timings if t.changed is not None]
    notes += [_drift(t) for t in timings if abs(drift(t.seconds)) > DRIFT]
    return Frame(described(conditions), columns, tuple(lines), tuple(notes), file=_file(conditions))


def _changed(timing: Timing) -> str:
    return f"{timing.system}: {timing.changed} of {timing.compared} predictions differ from those of eager attention in fp32."


def drift(seconds: Sequence[float]) -> float:
    """How much longer the last third of the rounds took than the first third: 0.1 is 10 %; medians."""
    third = len(seconds) // 3
    return median(seconds[-third:]) / median(seconds[:third]) - 1 if third else 0.0


def _drift(timing: Timing) -> str:
    change = drift(timing.seconds)
    return (
        f"{timing.system} became {abs(change):.0%} {'slower' if change > 0 else 'faster'} while it was timed: its milliseconds "
        f"mean little. Speed-ups compare times of the same rounds."
    )


def _file(c: Conditions) -> str:
    """The name of a table's files: short, since it says all conditions."""
    return f"{c.device} {c.backend} {c.dtype} {c.threads} threads b{c.batch} l{c.length}"


def _line(timing: Timing, shares: Mapping[str, float], found: Ratio | None, with_energy: bool) -> FrameLine:
    if timing.status == "failed":
        empty = len(shares) + (6 if with_energy else 4)
        return FrameLine(timing.system, tuple(TableCell(DASH, plain="") for _ in range(empty)))
    latencies = [1000 * percentile(timing.seconds, share) for share in shares.values()]
    throughput = timing.conditions.batch * len(timing.seconds) / sum(timing.seconds)
    rounds = len(timing.seconds)
    cells = [
        *(TableCell(f"{latency:.2f}", value=latency) for latency in latencies),
        TableCell(f"{throughput:,.1f}", value=throughput),
        *_faster(found),
        TableCell(str(rounds), value=rounds),
        *(_energy(timing) if with_energy else ()),
    ]
    return FrameLine(timing.system, tuple(cells))


def _energy(timing: Timing) -> Sequence[TableCell]:
    """Joules of one sequence, and the turns' smallest and largest."""
    if not timing.joules:
        return TableCell(DASH, plain=""), TableCell(DASH, plain="")
    own = [one / timing.conditions.batch for one in timing.joules]
    middle, low, high = median(own), min(own), max(own)
    return (
        TableCell(f"{middle:.3g}", value=middle, low=low, high=high),
        TableCell(f"{low:.3g} to {high:.3g}", plain=f"{low:.6g} to {high:.6g}"),
    )


def _faster(found: Ratio | None) -> Sequence[TableCell]:
    """The speed-up and its interval."""
    if found is None:
        return TableCell(DASH, plain=""), TableCell(DASH, plain="")
    printed, stored = (f"{found.low:.{digits}f} to {found.high:.{digits}f}" for digits in (2, 4))
    return (
        TableCell(f"{found.median:.2f}x", value=found.median, low=found.low, high=found.high),
        TableCell(printed, plain=stored),
    )


def _footprints(record: SpeedRecord) -> Frame:
    columns = tuple(map(frame.TableColumn, ("System", "checkpoint (MB)", "peak memory (MB)")))
    lines = tuple(
        FrameLine(f.system, (_megabytes(f.checkpoint_bytes, 1), _megabytes(f.peak_bytes, 0))) for f in record.footprints
    )
    note = (
        "Peak of a fresh process that loads the checkpoint and answers one batch of 32 sequences of 128 tokens, above the "
        "same process before loading."
    )
    return Frame("Memory", columns, lines, (note,))


def _megabytes(size: int | None, digits: int) -> TableCell:
    return TableCell(DASH) if size is None else TableCell(f"{size / 1e6:.{digits}f}", value=size / 1e6)
