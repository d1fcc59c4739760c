"""The report of one session of timing: a page and a table for each set of conditions. No torch, no clock."""

from __future__ import annotations

from pathlib import Path

from bench.files import slug, write_atomically
from bench.record.speed_sessions import BUSY_CORES, SpeedRecord
from bench.report import escape
from bench.report.file_names import PAGE, TABLES, fitted, table_names
from bench.report.index import write_index
from bench.report.render import Paper, to_markdown, write_table
from bench.report.tables.latency import latency_tables

FOLDER = "speed"
"""Below the folder of all reports."""


def write_speed_report(session: SpeedRecord, folder: Path, latex: bool = False) -> Path:
    """Markdown and CSV of one session of timing, LaTeX where asked for; returns the Markdown file."""
    name = slug(f"{session.teacher.split('/')[-1].split(' (')[0]}-{session.key[:8]}").lower()
    own = folder / FOLDER / fitted(name, session.key)
    env = session.env
    where = ", ".join(str(env[k]) for k in ("accelerator", "processor") if env.get(k))
    commit = str(session.code.get("commit"))[:12] + (" with local changes" if session.code.get("dirty") else "")
    measured_on = f"{where}, {env.get('cores')} cores; torch {env.get('torch')}, transformers {env.get('transformers')}; code {commit}."
    if (others := env.get("busy_cores") or 0) >= BUSY_CORES:
        measured_on += f" Other processes used {others:.1f} cores when it began."
    paper = Paper(f"Compared with {session.teacher}", sources=[measured_on], name=own.name) if latex else None
    lines = [
        f"# Speed compared with {escape.markdown(session.teacher)}",
        "",
        "Teacher and students were timed in turns, so that each speed-up compares times of the same moment. It is the median over "
        "rounds, with an interval by order statistics. All models except finished checkpoints have random weights: "
        "the speed of a model without early exit does not depend on them.",
        "",
    ]
    tables = latency_tables(session)
    for table, stem in zip(tables, table_names([table.file or table.title for table in tables]), strict=True):
        lines += [f"## {escape.markdown(table.title)}", "", to_markdown(table), ""]
        for note in table.notes:
            lines += [escape.markdown(note), ""]
        write_table(own / TABLES, stem, table, paper=paper)
    lines += [escape.markdown(_energy_words(session)), "", escape.markdown(measured_on)]
    write_atomically(own / PAGE, ("\n".join(lines).rstrip() + "\n").encode())
    write_index(folder)
    return own / PAGE


def _energy_words(session: SpeedRecord) -> str:
    """Which counter the joules are of, or why there are none."""
    if any(timing.joules for timing in session.timings):
        return (
            f"J/sequence is the energy of one sequence, as the machine counts it ({session.energy}). It is the median of several turns, "
            "and includes what the hardware uses when idle."
        )
    reason = session.energy.partition(": ")[2]
    return f"Energy was not measured{f': {reason}' if reason else ''}."
