"""A plan in words: cells, who shares what, time, disk."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from bench.data.columns import described
from bench.plan.estimate import passes_of, seconds_of, seconds_saved_by_outputs
from bench.plan.plan import STUDENTS_STEP, ArtefactPlan, Plan, Planned, TaskPlan
from bench.progress import duration
from bench.record.cell import PLUS_INT8
from bench.record.known_teachers import PUBLIC_WEIGHTS
from bench.record.recipe import ADAMW
from bench.record.task_facts import SAMPLE, data_facts
from bench.record.varied import VARIED_START, VARIED_TEACHER
from bench.request.choices import AUTO, TF32

MOST_PARTS = 8
"""Lines that say what takes the time; of more the shortest are summed."""
FIRST_LOOK_TOKENS = 10_000
"""Unlabelled text for a first look: seconds of training on two cores."""
WORTH_SAYING_SECONDS = 10.0
"""Shorter plans need no word on what takes the time."""
WORTH_A_TIP_SECONDS = 60.0
"""Shorter plans need no word on how to be shorter."""
WORTH_SAVING = 0.2
"""Part of the work from which on a tip is worth a line."""


def state(planned: Planned) -> str:
    """``to do``, or what the store says of the cell."""
    if planned.record is None:
        return "to do"
    if planned.is_todo:
        return f"to do again (was {planned.record.status})"
    if planned.record.status == "ok":
        return "there"
    return "failed before (--retry-failed runs it again)"


def describe(plan: Plan) -> str:
    """Several lines for a terminal or a log."""
    lines = ["plan: pre-training on text alone"]
    if plan.cells:
        counts = Counter(map(state, plan.cells))
        states = ", ".join(f"{count} {what}" for what, count in counts.items())
        lines = [f"plan: {len(plan.cells)} cells: {states}"]

    # what is read
    data = dict.fromkeys(_data(task) for task in plan.tasks)
    lines.append(f"  data: {', '.join(data)}")
    lines += [f"  {columns}" for columns in _columns(plan).values()]

    # how it is trained
    teachers = dict.fromkeys(_teacher_said(task) for task in plan.tasks)
    seeds = " and seed" if VARIED_TEACHER in plan.request.vary else ", for all seeds"
    lines.append(f"  teacher: {', '.join(teachers)}; one for each task{seeds}")
    lines.append(f"  recipe: {_recipe(plan)}")
    if plan.jobs_description and plan.todo_steps:
        lines.append(f"  jobs: {plan.jobs_description}")

    # what is shared, and the cells
    lines += [f"  {artefact}" for artefact in _artefacts(plan)]
    lines += _outputs(plan)
    if plan.cells:
        lines += _cells(plan)

    # what a reader should know, time and disk
    lines += [f"  note: {note}" for note in plan.notes]
    if plan.other_code:
        lines.append(f"  code: {plan.other_code}")
    if plan.todo_steps or plan.afterwards:
        lines += _estimate(plan)
    return "\n".join(lines)


def _data(task: TaskPlan) -> str:
    """What the examples of a task are called; of generated ones also that they are no benchmark."""
    if data_facts(task.data.slug).source == SAMPLE:
        return f"{task.data.name} (generated sentences, not GLUE)"
    return task.data.name


def _recipe(plan: Plan) -> str:
    """The recipe of the students, with optimisers other than AdamW, and the machine's part of
    it."""
    request = plan.request
    # one that was chosen for all
    optimizers: dict[str, None] = {}
    for task in plan.tasks:
        if task.recipe.optimizer != ADAMW:
            optimizers[task.recipe.optimizer] = None
    # those of papers, with their rows and stages
    for planned in plan.cells:
        for stage, name in planned.cell.recipe.get("stage_optimizers", ()):
            optimizers[f"{planned.cell.label} {stage} {name}"] = None
    threads = "1 thread" if request.threads == 1 else f"{request.threads} threads"
    return ", ".join([request.recipe, *optimizers, request.precision, threads])


def _teacher_said(task: TaskPlan) -> str:
    """The teacher of a task: its name, the hub's name where its weights are known, its origin."""
    said = task.teacher.name
    base = task.teacher.base
    if base in PUBLIC_WEIGHTS:
        said += f" ({PUBLIC_WEIGHTS[base]}; weights {base[:12]})"
    return f"{said}, {task.teacher.origin}"


def _outputs(plan: Plan) -> list[str]:
    """A line on the teachers' outputs that are kept in files, where some are."""
    outputs = [task.outputs for task in plan.tasks if task.outputs is not None]
    if not outputs:
        return []
    there = sum(plan.is_there(each.slot) for each in outputs)
    size = sum(each.disk_bytes for each in outputs) / 1e6
    return [
        f"  teacher outputs: {outputs[0].number_format}, {there} of {len(outputs)} files there, "
        f"about {size:,.0f} MB; one pass over the examples of each task, shared by epochs, seeds "
        "and methods"
    ]


def _cells(plan: Plan) -> list[str]:
    """The rows that are to do, and the tasks that they are to do on; the same rows stand once."""
    tasks: dict[str, list[str]] = {}
    for task in plan.tasks:
        named = f"{task.shown} ({task.data.rows['train']:,} examples)"
        tasks.setdefault(_rows_to_do(plan, task), []).append(named)
    lines = []
    for rows, names in tasks.items():
        lines += [f"  rows: {rows}", f"    on {', '.join(names)}"]
    return lines


def _rows_to_do(plan: Plan, task: TaskPlan) -> str:
    """The rows that are to do on a task, and how many share a pass of its teacher."""
    names: dict[str, None] = {}
    for planned in plan.cells_of(task.name):
        if planned.is_todo:
            name = planned.cell.label
            if planned.in_8_bits:
                name += PLUS_INT8
            names[name] = None
    # the largest group that one pass of the teacher serves
    taught = 0
    for step in plan.todo_steps:
        if step.kind == STUDENTS_STEP and step.task == task.name:
            of_step = sum(planned.needs_live_teacher for planned in step.cells)
            taught = max(taught, of_step)
    rows = ", ".join(names) or "nothing to do"
    if taught > 1:
        rows += f"; {taught} share each teacher pass"
    return rows


def _estimate(plan: Plan) -> list[str]:
    """Time and disk, what takes the time, and how to be shorter."""
    # of several jobs also what they do together
    took = duration(plan.seconds)
    work = ""
    if plan.request.jobs > 1:
        took += f" with {plan.request.jobs} jobs at a time"
        work = f"; {duration(plan.work_seconds)} of work"
    disk = f"{plan.disk_bytes / 1e6:,.0f} MB of disk"
    line = f"  estimate: {took}, right within a factor of two; {disk}{work}"

    # the parts of the work
    parts = shares(plan)
    if parts:
        line += ":"
    lines = [line]
    lines += [f"    {part}" for part in parts]
    lines += [f"  tip: {tip}" for tip in (*shorter(plan), *precisions(plan))]
    return lines


def _columns(plan: Plan) -> dict[str, str]:
    """A user's own task -> what its columns were taken for."""
    return {task.name: described(task.task) for task in plan.tasks if task.task.files}


def _artefacts(plan: Plan) -> list[str]:
    """A line for each artefact that the rows ask for, with its state.

    It is there, is made, or is left alone because all records made from it are there. Those of one
    name that are a task's own have one line.
    """
    # a line without its tasks -> its tasks
    tasks: dict[tuple[str, str, str], dict[str, None]] = {}
    for entry in plan.artefacts:
        if not entry.artefact.is_kept:
            continue
        name = entry.title
        # what a teacher of each seed is read for is that seed's own, and so is a start of each
        seeds = "" if VARIED_START in plan.request.vary else ", seeds"
        shared = f"shared by tasks{seeds} and methods"
        if entry.task is not None:
            name = entry.artefact.words
            shared = "shared by methods" if plan.request.vary else "shared by seeds and methods"
        of_line = tasks.setdefault((name, _artefact_state(plan, entry), shared), {})
        if entry.task is not None:
            of_line[entry.task.shown] = None
    lines = []
    for (name, its_state, shared), names in tasks.items():
        of_tasks = f" for {', '.join(names)}" if names else ""
        lines.append(f"{name}: {its_state}{of_tasks}; {shared}")
    return lines


def _artefact_state(plan: Plan, entry: ArtefactPlan) -> str:
    """Whether an artefact is there, is made, or is not needed."""
    if plan.is_there(entry.slot):
        return "there"
    if entry.key not in plan.costs:
        return "not in the cache, and nothing to do needs it"
    if entry.text is None:
        return "to make"
    return f"to make from {entry.text.budget:,} tokens of {entry.text.corpus.name}"


def parts_of(plan: Plan) -> dict[str, float]:
    """Seconds of each part of the work: cells by their task, everything else by its title, and what
    a caller does afterwards."""
    taken: Counter[str] = Counter()
    for step in plan.todo_steps:
        what = step.title
        if step.slot is None:
            what = f"cells of {'+'.join(task.shown for task in step.tasks)}"
        taken[what] += plan.costs[step.key].seconds  # type: ignore[assignment]
    return dict(taken) | plan.afterwards


def shares(plan: Plan) -> list[str]:
    """The shares of the time, the longest first: each start from text, the teachers, and the cells,
    with its share."""
    work = plan.work_seconds
    if work < WORTH_SAYING_SECONDS:
        return []
    # the longest by their names, the others as one
    named = sorted(parts_of(plan).items(), key=lambda item: -item[1])
    if len(named) > MOST_PARTS:
        rest = named[MOST_PARTS - 1 :]
        named = named[: MOST_PARTS - 1]
        seconds_of_rest = sum(seconds for _, seconds in rest)
        named.append((f"{len(rest)} more", seconds_of_rest))
    return [f"{duration(seconds)} ({seconds / work:.0%}): {what}" for what, seconds in named]


def shorter(plan: Plan) -> list[str]:
    """How the same or a first look is had sooner.

    Kept outputs of the teachers, where they save more than a fifth of the work; less unlabelled
    text, where training on it takes most of the time.
    """
    tips = []
    work = plan.work_seconds
    # kept outputs of the teachers
    saved = seconds_saved_by_outputs(plan)
    if saved > max(WORTH_SAVING * work, WORTH_A_TIP_SECONDS):
        tips.append(
            "--teacher-outputs fp32 computes each teacher's outputs once and saves about "
            f"{duration(saved)} of work ({saved / work:.0%}); its results are other records, which "
            "may differ in the last digits"
        )
    # less text
    budget = 0
    on_text = 0.0
    for entry in plan.artefacts:
        if entry.key in plan.costs and entry.stages:
            on_text += plan.costs[entry.key].seconds
            if entry.text is not None:
                budget = max(budget, entry.text.budget)
    if budget > FIRST_LOOK_TOKENS and on_text > max(0.5 * work, WORTH_A_TIP_SECONDS):
        tips.append(
            f"pre-training on text takes {on_text / work:.0%} of the work; for a first look add "
            f"--corpus-tokens {FIRST_LOOK_TOKENS} (not {budget:,}): scores are usually lower, and "
            "the records are not those of a run without this option"
        )
    return tips


def precisions(plan: Plan) -> list[str]:
    """The time of the plan in bf16 and in tf32, where that saves a fifth: both are asked
    for, and other records."""
    import torch

    from bench.measure.devices import choose_products

    request = plan.request
    if request.precision != "fp32" or request.device == "cpu" or request.is_elsewhere:
        return []
    if not torch.cuda.is_available():
        return []
    known = [TF32]
    if torch.cuda.is_bf16_supported(including_emulation=False):
        known = ["bf16", TF32]

    # the seconds of all steps in each format
    passes = [passes_of(plan, step) for step in plan.todo_steps]
    seconds = {}
    for name in ("fp32", *known):
        in_format = replace(request, precision=name)
        seconds[name] = sum(seconds_of(in_format, each) for each in passes)
    # measuring a format has switched it on
    device = "cuda" if request.device == AUTO else request.device
    choose_products(torch.device(device), "fp32")

    usual = seconds["fp32"]
    tips = []
    for name in known:
        if seconds[name] < (1 - WORTH_SAVING) * usual:
            tips.append(
                f"with --precision {name} all takes about {seconds[name] / usual:.0%} of that "
                "time; its results are other records"
            )
    return tips


def as_json(plan: Plan) -> dict[str, object]:
    """The same for programs: the cells, and the steps that are to do, in the order in which one
    process makes them."""
    todo = {step.key for step in plan.todo_steps}
    # the cells, each with its state
    cells = []
    for planned in plan.cells:
        cells.append(
            {
                "key": planned.key,
                "row": planned.cell.label,
                "in_8_bits": planned.in_8_bits,
                "tasks": planned.cell.tasks,
                "seed": planned.cell.seed,
                "state": state(planned),
                "code": planned.code_state,
            }
        )
    # the steps, each with what it takes and those that it waits for
    steps = []
    for step in plan.todo_steps:
        cost = plan.costs[step.key]
        steps.append(
            {
                "key": step.key,
                "kind": step.kind,
                "title": step.title,
                "needs": [key for key in step.needs if key in todo],
                "cells": [planned.key for planned in step.cells],
                "seconds": round(cost.seconds, 1),
                "memory_bytes": cost.memory,
                "disk_bytes": cost.disk,
            }
        )
    return {
        "cells": cells,
        "steps": steps,
        "taken": _columns(plan),
        "notes": plan.notes,
        "code": plan.other_code,
        "jobs": plan.request.jobs,
        "seconds": round(plan.seconds),
        "disk_bytes": plan.disk_bytes,
    }
