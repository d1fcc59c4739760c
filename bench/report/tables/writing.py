"""What rows that write texts take for it: times, lengths, and the work of their two parts."""

from __future__ import annotations

from dataclasses import replace
from statistics import mean
from typing import Any

from bench.record.schema import Record
from bench.report.groups import ReportGroup
from bench.report.table import Column, Table, number
from bench.report.tables.parts import line_of, listed

BATCHES = {"batch_1": "batch 1", "batch_32": "batch 32"}


def writing(group: ReportGroup) -> Table | None:
    """A line for each row and task; means over seeds."""
    lines = []
    for label in group.systems:
        for task in group.tasks:
            told = [_told(record) for record in group.of(label, task) if _told(record)]
            if told:
                cells = [
                    number(mean(one[batch][what] for one in told), ".1f")
                    for batch in BATCHES
                    for what in ("ms_a_text", "tokens")
                ]
                work = ("macs_of_read_token", "macs_of_written_token")
                cells += [number(mean(one[what] for one in told) / 1e6, ".2f") for what in work]
                line = line_of(group, label, cells)
                lines.append(line if len(group.tasks) == 1 else replace(line, name=f"{line.name}, {task}", row=label))
    if not lines:
        return None
    all_told = [_told(record) for record in group.records if _told(record)]
    notes = [
        "Times of the whole beam search, as the record's machine was when the row was scored: other programs may have run there, so they say "
        f"how large a time is, no more; {listed(sorted({str(one['threads']) for one in all_told}))} thread. Tokens: mean length of what was "
        "written, without its end. MACs (M): of reading one token, and of writing one with one beam, both without attention. BLEU: "
        f"{listed(sorted({one['bleu'] for one in all_told}))} (sacrebleu); ROUGE-L: F of rouge-score, no stemmer.",
    ]
    heads = [Column("System")]
    heads += [Column(f"{batch}, {what}") for batch in BATCHES.values() for what in ("ms a text", "tokens")]
    heads += [Column("read token, MACs (M)"), Column("written token, MACs (M)")]
    return Table("Writing", heads, lines, notes)


def _told(record: Record) -> dict[str, Any]:
    return dict(record.usage.get("writing", {}))
