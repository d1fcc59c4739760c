"""A plan in words: cells, who shares what, time, disk."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from bench.data.columns import described
from bench.plan.estimate import passes_of, seconds_of, seconds_saved_by_outputs
from bench.plan.plan import STUDENTS_STEP, Plan, Planned
from bench.plan.request import AUTO, TF32
from bench.progress import duration
from bench.record.cell import PLUS_INT8
from bench.record.recipe import ADAMW

MOST_PARTS = 8
"""Lines that say what takes the time; of more the shortest are summed."""
FIRST_LOOK_TOKENS = 10_000
"""Unlabelled text for a first look: seconds of training on two cores."""
WORTH_SAYING_SECONDS, WORTH_A_TIP_SECONDS = 10.0, 60.0
"""Shorter plans need no word on what takes the time, or on how to be shorter."""
WORTH_SAVING = 0.2
"""Part of the work from which on a tip is worth a line."""


def state(planned: Planned) -> str:
    """``to do``, or what the store says of the cell."""
    if planned.record is None:
        return "to do"
    if planned.is_todo:
        return f"to do again (was {planned.record.status})"
    return (
        "there" if planned.record.status == "ok" else "failed before (--retry-failed runs it again)"
    )


def describe(plan: Plan) -> str:
    """Several lines for a terminal or a log."""
    tasks, request = plan.tasks, plan.request
    states = ", ".join(f"{count} {what}" for what, count in Counter(map(state, plan.cells)).items())
    # optimisers other than AdamW: chosen for all, or those of papers with their rows and stages
    optimizers = {
        task.recipe.optimizer: None for task in tasks if task.recipe.optimizer != ADAMW
    } | {
        f"{planned.cell.label} {stage} {name}": None
        for planned in plan.cells
        for stage, name in planned.cell.recipe.get("stage_optimizers", ())
    }
    lines = [
        f"plan: {len(plan.cells)} cells: {states}"
        if plan.cells
        else "plan: pre-training on text alone",
        f"  data: {', '.join(dict.fromkeys(t.data.name for t in tasks))}",
        *(f"  {line}" for line in _taken(plan).values()),
        f"  teacher: {', '.join(dict.fromkeys(f'{t.teacher.name}, {t.teacher.origin}' for t in tasks))}; one for each task, for all seeds",
        f"  recipe: {', '.join([request.recipe, *optimizers, request.precision])}, {request.threads} thread{'s' if request.threads > 1 else ''}",
    ]
    if plan.jobs_description and plan.todo_steps:
        lines.append(f"  jobs: {plan.jobs_description}")
    lines += [f"  {line}" for line in _artefacts(plan)]
    if outputs := [task.outputs for task in tasks if task.outputs is not None]:
        there = sum(plan.is_there(each.slot) for each in outputs)
        size = sum(each.disk_bytes for each in outputs) / 1e6
        lines.append(
            f"  teacher outputs: {outputs[0].number_format}, {there} of {len(outputs)} files there, about {size:,.0f} MB; one pass over "
            f"the examples of each task, shared by epochs, seeds and methods"
        )
    for task in tasks if plan.cells else ():
        names = ", ".join(
            dict.fromkeys(
                p.cell.label + PLUS_INT8 * p.in_8_bits
                for p in plan.cells_of(task.name)
                if p.is_todo
            )
        )
        groups = [
            step.cells
            for step in plan.todo_steps
            if step.kind == STUDENTS_STEP and step.tasks == (task,)
        ]
        taught = max(
            (sum(planned.needs_live_teacher for planned in group) for group in groups), default=0
        )
        sharing = f"; {taught} share each teacher pass" if taught > 1 else ""
        lines.append(
            f"  {task.shown:11} {task.data.rows['train']:>7,} examples: {names or 'nothing to do'}{sharing}"
        )
    lines += [f"  note: {note}" for note in plan.notes]
    if plan.other_code:
        lines.append(f"  code: {plan.other_code}")
    if plan.todo_steps:
        took = duration(plan.seconds)
        parts = shares(plan)
        disk = f"{plan.disk_bytes / 1e6:,.0f} MB of disk"
        work = ""
        if request.jobs > 1:
            took += f" with {request.jobs} jobs at a time"
            work = f"; {duration(plan.work_seconds)} of work"
        colon = ":" if parts else ""
        lines.append(f"  estimate: {took}, right within a factor of two; {disk}{work}{colon}")
        lines += [f"    {part}" for part in parts]
        lines += [f"  tip: {line}" for line in (*shorter(plan), *precisions(plan))]
    return "\n".join(lines)


def _taken(plan: Plan) -> dict[str, str]:
    """A user's own task -> what its columns were taken for."""
    return {task.name: described(task.task) for task in plan.tasks if task.task.files}


def _artefacts(plan: Plan) -> list[str]:
    """What the rows ask for: a line for each thing that all tasks share, and one for those of one name that are a task's own; whether it
    is there, is made, or is left alone because all records made from it are there."""
    tasks: dict[tuple[str, str, str], list[str]] = {}
    for entry in plan.artefacts:
        if not entry.artefact.is_kept:
            continue
        state_of = (
            "to make" if entry.key in plan.costs else "not in the cache, and nothing to do needs it"
        )
        if plan.is_there(entry.slot):
            state_of = "there"
        elif entry.key in plan.costs and entry.text is not None:
            state_of += f" from {entry.text.budget:,} tokens of {entry.text.corpus.name}"
        named = entry.title if entry.task is None else entry.artefact.words
        shared = (
            "shared by tasks, seeds and methods"
            if entry.task is None
            else "shared by seeds and methods"
        )
        of_task = tasks.setdefault((named, state_of, shared), [])
        of_task += [] if entry.task is None else [entry.task.shown]
    return [
        f"{named}: {its_state}{' for ' * bool(names)}{', '.join(dict.fromkeys(names))}; {shared}"
        for (named, its_state, shared), names in tasks.items()
    ]


def parts_of(plan: Plan) -> dict[str, float]:
    """What takes how many seconds: cells by their task, everything else by its title."""
    taken: Counter[str] = Counter()
    for step in plan.todo_steps:
        what = (
            step.title
            if step.slot is not None
            else f"cells of {'+'.join(task.shown for task in step.tasks)}"
        )
        taken[what] += plan.costs[step.key].seconds  # type: ignore[assignment]
    return dict(taken)


def shares(plan: Plan) -> list[str]:
    """What takes the time, the longest first: each start from text, the teachers, and the cells, with its share."""
    whole = plan.work_seconds
    if whole < WORTH_SAYING_SECONDS:
        return []
    listed = sorted(parts_of(plan).items(), key=lambda item: -item[1])
    named = listed if len(listed) <= MOST_PARTS else listed[: MOST_PARTS - 1]
    rest = sum(seconds for _, seconds in listed[len(named) :])
    named += [(f"{len(listed) - len(named)} more", rest)] * (len(named) < len(listed))
    return [f"{duration(seconds)} ({seconds / whole:.0%}): {what}" for what, seconds in named]


def shorter(plan: Plan) -> list[str]:
    """How the same or a first look is had sooner: kept outputs of the teachers, where they save more than a fifth of the work, and less
    unlabelled text, where training on it takes most of the time."""
    tips, whole, saved = [], plan.work_seconds, seconds_saved_by_outputs(plan)
    if saved > max(WORTH_SAVING * whole, WORTH_A_TIP_SECONDS):
        tips.append(
            f"--teacher-outputs fp32 computes each teacher's outputs once and saves about {duration(saved)} of work "
            f"({saved / whole:.0%}); its results are other records, which may differ in the last digits"
        )
    trained = [entry for entry in plan.artefacts if entry.key in plan.costs and entry.stages]
    budget = max((entry.text.budget for entry in trained if entry.text is not None), default=0)
    on_text = sum(plan.costs[entry.key].seconds for entry in trained)
    if budget > FIRST_LOOK_TOKENS and on_text > max(0.5 * whole, WORTH_A_TIP_SECONDS):
        tips.append(
            f"pre-training on text takes {on_text / whole:.0%} of the work; for a first look add --corpus-tokens {FIRST_LOOK_TOKENS} (not "
            f"{budget:,}): scores are usually lower, and the records are not those of a run without this option"
        )
    return tips


def precisions(plan: Plan) -> list[str]:
    """What the plan would take in bf16 and in tf32, where that saves a fifth: both are asked for, and other records."""
    import torch

    from bench.measure.devices import choose_products

    request = plan.request
    if (
        request.precision != "fp32"
        or request.device == "cpu"
        or not torch.cuda.is_available()
        or request.is_elsewhere
    ):
        return []
    known = ["bf16", TF32] if torch.cuda.is_bf16_supported(including_emulation=False) else [TF32]
    passes = [passes_of(plan, step) for step in plan.todo_steps]
    usual, *others = (
        sum(seconds_of(replace(request, precision=name), each) for each in passes)
        for name in ("fp32", *known)
    )
    choose_products(torch.device("cuda" if request.device == AUTO else request.device), "fp32")
    return [
        f"with --precision {name} all takes about {seconds / usual:.0%} of that time; its results are other records"
        for name, seconds in zip(known, others, strict=True)
        if seconds < (1 - WORTH_SAVING) * usual
    ]


def as_json(plan: Plan) -> dict[str, object]:
    """The same for programs: the cells, and the steps that are to do, in the order in which one process makes them."""
    todo = {step.key for step in plan.todo_steps}
    cells = [
        {
            "key": planned.key,
            "row": planned.cell.label,
            "in_8_bits": planned.in_8_bits,
            "tasks": planned.cell.tasks,
            "seed": planned.cell.seed,
            "state": state(planned),
            "code": planned.code_state,
        }
        for planned in plan.cells
    ]
    steps = [
        {
            "key": step.key,
            "kind": step.kind,
            "title": step.title,
            "needs": [key for key in step.needs if key in todo],
            "cells": [planned.key for planned in step.cells],
            "seconds": round(plan.costs[step.key].seconds, 1),
            "memory_bytes": plan.costs[step.key].memory,
            "disk_bytes": plan.costs[step.key].disk,
        }
        for step in plan.todo_steps
    ]
    return {
        "cells": cells,
        "steps": steps,
        "taken": _taken(plan),
        "notes": plan.notes,
        "code": plan.other_code,
        "jobs": plan.request.jobs,
        "seconds": round(plan.seconds),
        "disk_bytes": plan.disk_bytes,
    }
