"""The tables of what training took: its cost, and each loss term's share of the gradient. No torch, no clock."""

from __future__ import annotations

from bench.plan.cell import TEACHER
from bench.record.schema import Record
from bench.report.groups import Group
from bench.report.tables import Table


def start_of(record: Record) -> str:
    """Where a student's weights came from before it saw the task."""
    if record.cell.label == TEACHER:
        return "checkpoint"
    for name, made in record.artefacts.items():
        if "train" in made:
            return f"{name.replace('_', ' ')} {made['key'][:6]}"
        if made.get("beginning", "").startswith("given: "):
            return str(made["beginning"])
    own = {"tuned_teacher": "the tuned teacher", "teacher_weights": "the teacher, un-tuned"}
    return next((text for name, text in own.items() if name in record.artefacts), "random weights")


def cost(group: Group) -> Table | None:
    """What training each row took, summed over tasks, mean over seeds."""
    rows = []
    for label in group.systems:
        # a student of several tasks has a record for each of them, and was trained once
        done = list({r.train_key: r for r in group.of(label) if r.train}.values())
        if not done:
            continue
        seeds = max(1, len({r.cell.seed for r in done}))
        total = lambda field: sum(getattr(r.train, field) for r in done) / seeds  # noqa: B023, E731
        own, taught = total("flops_own"), total("flops_teacher")
        seconds, shared = total("seconds_own"), total("teacher_seconds_shared")
        rows.append(
            [
                label,
                ", ".join(sorted({start_of(r) for r in done})),
                str(len(done)),
                f"{total('examples'):,.0f}",
                f"{own / 1e12:.2f}",
                f"{taught / 1e12:.2f}",
                f"{seconds:,.0f}",
                f"{shared:,.0f}",
                f"{total('teacher_seconds_alone'):,.0f}",
                f"{100 * shared / (seconds + shared):.0f} %" if seconds + shared else "–",
            ]
        )
    if not rows:
        return None
    header = [
        "System",
        "start",
        "cells",
        "examples",
        "own TFLOPs",
        "teacher TFLOPs",
        "own s",
        "teacher s, shared",
        "teacher s, if alone",
        "teacher's share of seconds",
    ]
    table = Table("Cost of training", header, rows, rows)
    table.notes.append(
        "Summed over the tasks, mean over seeds. TFLOPs are closed-form over the tokens seen; seconds are of the machine "
        "named below, with what else ran there."
    )
    starts = {made["key"]: (name, made) for r in group.records for name, made in r.artefacts.items() if "train" in made}
    for key, (name, made) in sorted(starts.items()):
        trained = made["train"]
        beginning = made.get("beginning", "the cut-down teacher" if name == "general_start" else "")
        began = f"; it began as {beginning}" if beginning else ""
        table.notes.append(
            f"{name.replace('_', ' ').capitalize()} {key[:12]}: {trained['tokens']:,} tokens, {trained['seconds_own']:,.0f} s "
            f"of its own, once for all rows that use it{began}."
        )
    return table


IDLE_SHARE = 0.01
"""A term that never moves the weights by more than this part of its stage's gradients does not matter."""


def gradient_shares(group: Group) -> Table | None:
    """How much of the gradient each term gives, by stage; terms that never matter are named."""
    rows, idle = [], []
    for label in group.systems:
        seen: dict[tuple[str, str], list[list[float]]] = {}
        for record in group.of(label):
            for stage, terms in record.gradient_shares.items():
                for term, shares in terms.items():
                    if len(terms) > 1:
                        seen.setdefault((stage, term), []).append(shares)
        for (stage, term), runs in seen.items():
            points = [sum(values) / len(values) for values in zip(*runs, strict=False)]
            rows.append([label, stage, term, *(f"{100 * point:.1f} %" for point in points)])
            if max(max(run, default=0.0) for run in runs) < IDLE_SHARE:
                idle.append(f"{label}: {term} in stage {stage}")
    if not rows:
        return None
    width = max(map(len, rows))
    parts = [f"after {100 * i // (width - 3)} %" for i in range(width - 3)]
    rows = [row + ["–"] * (width - len(row)) for row in rows]
    table = Table("Gradient share of each term", ["System", "stage", "term", *parts], rows, rows)
    table.notes.append(
        "Norm of a weighted term's gradient over the sum of those of its stage and player, at four steps; mean over tasks and seeds."
    )
    if idle:
        table.notes.append(
            f"**Never above {100 * IDLE_SHARE:.0f} %, on any task, seed or step: {'; '.join(idle)}.** Such a term does not matter; "
            "raise its weight or leave it out."
        )
    return table
