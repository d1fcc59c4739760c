"""A plan in words: cells, who shares what, time, disk."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from bench.plan.estimate import artefact_cost, needs_live_teacher, rates_of_card, seconds_saved_by_outputs
from bench.plan.plan import STUDENTS_STEP, ArtefactPlan, Plan, Planned, Step
from bench.plan.request import AUTO, TF32
from bench.progress import duration
from bench.record.code import STALE
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
    return "there" if planned.record.status == "ok" else "failed before (--retry-failed runs it again)"


def describe(plan: Plan) -> str:
    """Several lines for a terminal or a log."""
    tasks = plan.tasks
    counts = Counter(state(planned) for planned in plan.cells)
    stale = sum(planned.code_state == STALE and not planned.is_todo for planned in plan.cells)
    lines = [
        f"plan: {len(plan.cells)} cells: "
        + ", ".join(f"{count} {what}" for what, count in counts.items())
        + (f"; {stale} of those there were made by other code than this" if stale else ""),
        f"  data: {', '.join(dict.fromkeys(t.data.name for t in tasks))}",
        f"  teacher: {', '.join(dict.fromkeys(f'{t.teacher.name}, {t.teacher.origin}' for t in tasks))}; one for each task, for all seeds",
        f"  recipe: {', '.join(_recipe(plan))}, {plan.request.threads} thread{'s' if plan.request.threads > 1 else ''}",
    ]
    if plan.jobs_description and plan.todo:
        lines.append(f"  jobs: {plan.jobs_description}")
    lines += [f"  {line}" for line in _describe_artefacts(plan)]
    lines += [f"  {line}" for line in _describe_outputs(plan)]
    for task in tasks:
        todo = [p for p in plan.cells_of(task.name) if p.is_todo]
        names = ", ".join(dict.fromkeys(p.cell.label for p in todo)) or "nothing to do"
        groups = [step.cells for step in plan.todo_steps if step.kind == STUDENTS_STEP and step.tasks == (task,)]
        taught = [sum(map(needs_live_teacher, group)) for group in groups]
        sharing = f"; {max(taught)} share each teacher pass" if max(taught, default=0) > 1 else ""
        lines.append(f"  {task.name:8} {task.data.rows['train']:>7,} examples: {names}{sharing}")
    lines += [f"  note: {note}" for note in plan.notes]
    lines += [f"  code: {line}" for line in plan.code_warnings]
    if plan.todo:
        lines += [f"  {line}" for line in _estimate(plan)]
        lines += [f"  tip: {line}" for line in shorter(plan)]
    return "\n".join(lines)


def _recipe(plan: Plan) -> list[str]:
    """Its name, the optimisers other than AdamW with their rows and stages, and the precision."""
    of_papers = {
        f"{planned.cell.label} {stage} {name}": None
        for planned in plan.cells
        for stage, name in planned.cell.recipe.get("stage_optimizers", ())
    }
    chosen = {task.recipe.optimizer: None for task in plan.tasks if task.recipe.optimizer != ADAMW}
    return [plan.request.recipe, *chosen, *of_papers, plan.request.precision]


def _describe_outputs(plan: Plan) -> list[str]:
    """What is kept of the teachers' outputs, and how many passes over the rows that saves."""
    kept = [task.outputs for task in plan.tasks if task.outputs is not None]
    if not kept:
        return []
    there = sum(plan.is_there(outputs.slot) for outputs in kept)
    size = sum(outputs.disk_bytes for outputs in kept)
    made = f"{there} of {len(kept)} files there" if there else f"{len(kept)} file{'s' if len(kept) > 1 else ''} to make"
    return [
        f"teacher outputs: {kept[0].number_format}, {made}, about {size / 1e6:,.0f} MB; one pass over the examples of each task, "
        f"shared by epochs, seeds and methods"
    ]


def _describe_artefacts(plan: Plan) -> list[str]:
    """What the rows ask for: a line for each thing that all tasks share, and one for those of one name that are a task's own."""
    to_make = {entry.key for entry in _artefacts_to_make(plan)}
    kept = [entry for entry in plan.artefacts if entry.is_kept]
    own: dict[str, dict[str, list[str]]] = {}
    for entry in kept:
        if entry.task is not None:
            states = own.setdefault(entry.artefact.words, {})
            states.setdefault(_state_of(plan, entry, to_make), []).append(entry.task.name)
    lines = [f"{entry.title}: {_state_of(plan, entry, to_make)}" for entry in kept if entry.task is None]
    for name, states in own.items():
        said = "; ".join(f"{state} for {', '.join(dict.fromkeys(tasks))}" for state, tasks in states.items())
        lines.append(f"{name}: {said}; shared by seeds and methods")
    return lines


def _artefacts_to_make(plan: Plan) -> list[ArtefactPlan]:
    return [step.artefact for step in plan.todo_steps if step.artefact is not None]


def _state_of(plan: Plan, entry: ArtefactPlan, to_make: set[str]) -> str:
    """Whether an artefact is there, is made, or is left alone because all records made from it are there."""
    shared = "; shared by tasks, seeds and methods" if entry.task is None else ""
    if plan.is_there(entry.slot):
        return f"there{shared}"
    if entry.key not in to_make:
        return "not in the cache, and nothing to do needs it"
    if entry.text is None:
        return f"to make{shared}"
    return f"to make from {entry.text.budget:,} tokens of {entry.text.corpus.name}{shared}"


def _estimate(plan: Plan) -> list[str]:
    """How long the work takes from begin to end, how much work it is where several jobs do it, and its parts."""
    took, disk = duration(plan.seconds), f"{plan.disk_bytes / 1e6:,.0f} MB of disk"
    parts = [f"  {line}" for line in shares(plan)]
    work = ""
    if plan.request.jobs > 1:
        took += f" with {plan.request.jobs} jobs at a time"
        work = f"; {duration(_work_seconds(plan))} of work"
    return [f"estimate: {took}, {disk}{work}{':' if parts else ''}", *parts]


def _work_seconds(plan: Plan) -> float:
    """Of all steps together: of several at a time it is more than the time from begin to end."""
    return sum(cost.seconds for cost in plan.costs.values())


def _what(step: Step) -> str:
    """What a step makes, for people: cells by their task, everything else by its title."""
    if step.slot is not None:
        return step.title
    return f"cells of {'+'.join(task.name for task in step.tasks)}"


def parts_of(plan: Plan) -> dict[str, float]:
    """What takes how many seconds."""
    taken: dict[str, float] = {}
    for step in plan.todo_steps:
        taken[_what(step)] = taken.get(_what(step), 0.0) + plan.costs[step.key].seconds
    return taken


def shares(plan: Plan) -> list[str]:
    """What takes the time, the longest first: each start from text, the teachers, and the cells, with its share."""
    whole = _work_seconds(plan)
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
    saved = seconds_saved_by_outputs(plan)
    kept = [
        f"--teacher-outputs fp32 computes each teacher's outputs once and saves about {duration(saved)} of work "
        f"({saved / _work_seconds(plan):.0%}); its results are other records, which may differ in the last digits"
    ] * (saved > max(WORTH_SAVING * _work_seconds(plan), WORTH_A_TIP_SECONDS))
    budgets = [entry.text.budget for entry in _artefacts_to_make(plan) if entry.text is not None]
    trained = [entry for entry in _artefacts_to_make(plan) if entry.stages]
    on_text = sum(plan.costs[entry.key].seconds for entry in trained)
    whole = _work_seconds(plan)
    if not budgets or max(budgets) <= FIRST_LOOK_TOKENS or on_text < max(0.5 * whole, WORTH_A_TIP_SECONDS):
        return [*kept, *precisions(plan)]
    short = [replace(entry, text=entry.text._replace(budget=FIRST_LOOK_TOKENS)) for entry in trained if entry.text]
    left = plan.seconds * (1 - (on_text - sum(artefact_cost(plan, entry).seconds for entry in short)) / whole)
    return [
        *kept,
        *precisions(plan),
        f"pre-training on text takes {on_text / whole:.0%} of the work; for a first look add "
        f"--corpus-tokens {FIRST_LOOK_TOKENS}, which makes it about {duration(left)} in all. The students then start from "
        f"an encoder that saw {FIRST_LOOK_TOKENS:,} tokens and not {max(budgets):,}: their scores are usually lower, and "
        f"their records are not those of a run without this option",
    ]


def precisions(plan: Plan) -> list[str]:
    """How much faster this card multiplies in bf16 and in tf32, where that saves a fifth: both are asked for, and other records."""
    import torch

    from bench.measure.devices import choose_products

    request = plan.request
    if request.precision != "fp32" or request.device == "cpu" or not torch.cuda.is_available() or request.is_elsewhere:
        return []
    device = "cuda" if request.device == AUTO else request.device
    known = [
        name for name in ("bf16", TF32) if name != "bf16" or torch.cuda.is_bf16_supported(including_emulation=False)
    ]
    rate = rates_of_card(device, "fp32")[0]
    gains = {name: rates_of_card(device, name)[0] / rate for name in known}
    choose_products(torch.device(device), "fp32")
    return [
        f"this card multiplies matrices {gain:.1f} times as fast with --precision {name}; its results are other records"
        for name, gain in gains.items()
        if gain > 1 / (1 - WORTH_SAVING)
    ]


def as_json(plan: Plan) -> dict[str, object]:
    """The same for programs: the cells, and the steps that are to do, in the order in which one process makes them."""
    todo = {step.key for step in plan.todo_steps}
    return {
        "cells": [
            {
                "key": p.key,
                "row": p.cell.label,
                "tasks": p.cell.tasks,
                "seed": p.cell.seed,
                "state": state(p),
                "code": p.code_state,
            }
            for p in plan.cells
        ],
        "steps": [
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
        ],
        "notes": plan.notes,
        "code": plan.code_warnings,
        "jobs": plan.request.jobs,
        "seconds": round(plan.seconds),
        "disk_bytes": plan.disk_bytes,
    }
