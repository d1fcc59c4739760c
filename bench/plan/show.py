"""A plan in words: cells, who shares what, time, disk."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from bench.progress import duration
from bench.record.freshness import STALE

if TYPE_CHECKING:
    from bench.plan.build import Plan, Planned


def state(planned: Planned) -> str:
    """``to do``, or what the store says of the cell."""
    if planned.record is None:
        return "to do"
    if planned.todo:
        return f"to do again (was {planned.record.status})"
    return "there" if planned.record.status == "ok" else "failed before (--retry-failed runs it again)"


def describe(plan: Plan) -> str:
    """Several lines for a terminal or a log."""
    tasks = plan.tasks
    counts = Counter(state(planned) for planned in plan.cells)
    stale = sum(planned.code == STALE and not planned.todo for planned in plan.cells)
    lines = [
        f"plan: {len(plan.cells)} cells: "
        + ", ".join(f"{count} {what}" for what, count in counts.items())
        + (f"; {stale} of those there were made by other code than this" if stale else ""),
        f"  data: {', '.join(dict.fromkeys(t.data.name for t in tasks))}",
        f"  teacher: {', '.join(dict.fromkeys(f'{t.teacher.name}, {t.teacher.origin}' for t in tasks))}; one for each task, for all seeds",
        f"  recipe: {plan.request.recipe}, {plan.request.precision}, {plan.request.threads} threads",
    ]
    for start in plan.starts.values():
        what = "there" if plan.is_there(start.slot) else f"to make from {start.budget:,} tokens of {start.corpus.name}"
        lines.append(f"  {start.title}: {what}; shared by tasks, seeds and methods")
    for task in tasks:
        todo = [p for p in plan.of_task(task.task.name) if p.todo]
        names = ", ".join(dict.fromkeys(p.cell.label for p in todo)) or "nothing to do"
        taught = [
            sum(1 for p in group if p.row and p.row.method.needs_teacher) for group in plan.groups(task.task.name)
        ]
        sharing = f"; {max(taught)} share each teacher pass" if max(taught, default=0) > 1 else ""
        lines.append(f"  {task.task.name:8} {task.data.rows['train']:>7,} rows: {names}{sharing}")
    lines += [f"  note: {note}" for note in plan.notes]
    lines += [f"  code: {line}" for line in plan.said_of_code]
    if plan.todo:
        lines.append(f"  estimate: {duration(plan.seconds)}, {plan.disk_bytes / 1e6:,.0f} MB of disk")
    return "\n".join(lines)


def as_json(plan: Plan) -> dict[str, object]:
    """The same for programs."""
    from bench.plan.cell import record_key

    return {
        "cells": [
            {
                "key": record_key(p.cell),
                "row": p.cell.label,
                "tasks": p.cell.tasks,
                "seed": p.cell.seed,
                "state": state(p),
                "code": p.code,
            }
            for p in plan.cells
        ],
        "notes": plan.notes,
        "code": plan.said_of_code,
        "seconds": round(plan.seconds),
        "disk_bytes": plan.disk_bytes,
    }
