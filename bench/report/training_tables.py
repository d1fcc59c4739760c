"""The tables of what training took: its cost, and each loss term's share of the gradient. No torch, no clock."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from bench.record.cell import TEACHER
from bench.record.recipe import PAPER
from bench.record.schema import Record, TrainCost
from bench.report.groups import Group
from bench.report.systems import RANDOM, start_kind
from bench.report.tables import Table, by_row


def start_of(record: Record) -> str:
    """Where a student's weights came from before it saw the task."""
    kind = start_kind(record)
    made = record.artefacts.get(kind, {})
    if "train" in made:
        return f"{kind.replace('_', ' ')} {made['key'][:6]}"
    if made.get("beginning", "").startswith("given: "):
        return str(made["beginning"])
    own = {"tuned_teacher": "the tuned teacher", "teacher_weights": "the teacher, un-tuned", RANDOM: "random weights"}
    return own.get(kind, "checkpoint" if record.cell.method == TEACHER else kind.replace("_", " "))


COSTS: Sequence[Callable[[TrainCost], float]] = (
    lambda train: train.examples,
    lambda train: train.flops_own,
    lambda train: train.flops_teacher,
    lambda train: train.seconds_own,
    lambda train: train.teacher_seconds_shared,
    lambda train: train.teacher_seconds_alone,
)
"""What is added up of each training, in the order of the table's columns."""


def trainings(group: Group, label: str) -> list[Record]:
    """One record for each training of a row: a student of several tasks has one a task, and was trained once."""
    return list({r.train_key: r for r in group.of(label) if r.train}.values())


def _learned(record: Record) -> tuple[str, ...]:
    """The tasks of a training: one, or all that a student learned together."""
    return tuple(partner.task for partner in record.cell.together) or record.cell.tasks


def _by_tasks(done: Sequence[Record]) -> list[list[Record]]:
    """Trainings sorted by what they learned: those of one list differ by their seed alone."""
    found: dict[tuple[str, ...], list[Record]] = {}
    for record in done:
        found.setdefault(_learned(record), []).append(record)
    return list(found.values())


def costs_of(done: Sequence[Record]) -> list[float]:
    """What a row's trainings took, as :data:`COSTS`: the mean over the seeds of each task, summed over tasks."""
    costs = [[r.train for r in seeds if r.train] for seeds in _by_tasks(done)]
    # tasks may have different numbers of seeds, so each has its own mean
    return [sum(sum(of(one) for one in seeds) / len(seeds) for seeds in costs) for of in COSTS]


def cpu_seconds_of(done: Sequence[Record]) -> float | None:
    """The processor's seconds of a row's trainings, added up as their other costs; None where one of them does not say it."""
    seconds = [[r.train.cpu_seconds for r in seeds if r.train] for seeds in _by_tasks(done)]
    if any(one is None for seeds in seconds for one in seeds):
        return None
    return sum(sum(one or 0.0 for one in seeds) / len(seeds) for seeds in seconds)


def cost(group: Group) -> Table | None:
    """What training each row took: the mean over the seeds of each task, summed over tasks."""
    rows = []
    for label in group.systems:
        done = trainings(group, label)
        if not done:
            continue
        examples, own, taught, seconds, shared, alone = costs_of(done)
        rows.append(
            [
                label,
                ", ".join(sorted({start_of(r) for r in done})),
                str(len(done)),
                f"{examples:,.0f}",
                f"{own / 1e12:.2f}",
                f"{taught / 1e12:.2f}",
                f"{seconds:,.0f}",
                f"{shared:,.0f}",
                f"{alone:,.0f}",
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
    students = {label: trainings(group, label) for label in group.systems if label != TEACHER}
    used = {label: cpu_seconds_of(done) for label, done in students.items() if done}
    if used and None not in used.values():
        header.append("CPU s")
        rows = [[*row, f"{used[row[0]]:,.0f}" if row[0] in used else "–"] for row in rows]
    table = by_row("Cost of training", header, group, rows)
    table.notes.append(
        "Mean over the seeds of each task, summed over the tasks. TFLOPs are closed-form over the tokens seen; seconds are of the machine "
        "named below, with what else ran there."
    )
    if header[-1] == "CPU s":
        table.notes.append(
            "CPU s: the processor's seconds of the process, all its threads, with reading and scoring; students that trained "
            "together have their parts of it by their own seconds."
        )
    at_once = sorted({r.env["jobs"] for r in group.records if r.env.get("jobs", 1) > 1})
    if at_once:
        table.notes.append(
            f"Some trainings had others running at the same time (--jobs {', '.join(map(str, at_once))}): their seconds are "
            f"longer than alone."
        )
    table.notes += [*_preparatory(group), *_made_once(group)]
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


AUGMENTED = "augmentation."
"""How the names of artefacts begin that are augmented rows."""


def _preparatory(group: Group) -> list[str]:
    """The rows that saw more examples than the recipe's epochs have: their stages before the counted ones."""
    if group.recipe == PAPER:
        return []
    said = []
    for label in group.systems:
        # as in the table: the mean over the seeds of each task, summed over tasks
        more = sum(sum(_beyond(group, r) for r in seeds) / len(seeds) for seeds in _by_tasks(trainings(group, label)))
        if more >= 1:
            said.append(f"{label}: {more:,.0f}")
    if not said:
        return []
    return [
        f"Examples beyond the {group.epochs:g} epochs of the recipe, seen in preparatory stages before the counted ones (the method's "
        f"file says what learns in them): {'; '.join(said)}. They are in the columns of this table."
    ]


def _beyond(group: Group, record: Record) -> int:
    """Examples that a training saw beyond its recipe's epochs; 0 where the number of its rows is not known.

    That is so where the group has no record of one of its tasks, and where augmentation made further rows.
    """
    rows = {r.cell.tasks: r.cell.data.rows["train"] for r in group.records if r.train_key == record.train_key}
    augmented = any(name.startswith(AUGMENTED) for name in record.artefacts)
    if record.train is None or augmented or len(rows) < len(_learned(record)):
        return 0
    return max(0, record.train.examples - math.ceil(record.cell.recipe["epochs"] * sum(rows.values())))


LEAST_SECONDS = 1.0
"""What is computed sooner, as a vocabulary, needs no word."""


def _made_once(group: Group) -> list[str]:
    """What was computed for some rows before they trained, and is in no column: each thing once, with its seconds."""
    found: dict[str, dict[str, float]] = {}
    users: dict[str, set[str]] = {}
    for record in group.records:
        for name, made in record.artefacts.items():
            if made.get("seconds", 0) >= LEAST_SECONDS:
                kind = name.split(".")[0].replace("_", " ")
                found.setdefault(kind, {})[made["key"]] = made["seconds"]
                users.setdefault(kind, set()).add(record.cell.label)
    return [
        f"{kind.capitalize()}, for {', '.join(sorted(users[kind]))}: {sum(seconds.values()):,.0f} s, once for all seeds; in no "
        f"column of this table."
        for kind, seconds in sorted(found.items())
    ]


IDLE_SHARE = 0.01
"""A term that never moves the weights by more than this part of its stage's gradients does not matter."""


def _measured(runs: int, done: int) -> str:
    """In how many of a row's trainings a term's share was measured: older records have none."""
    if runs == done:
        return "in its one training" if done == 1 else f"in all {done} trainings"
    return f"in the {runs} of {done} trainings that measured it"


def gradient_shares(group: Group) -> Table | None:
    """How much of the gradient each term gives, by stage; terms that never matter are named."""
    rows, idle = [], []
    for label in group.systems:
        done = trainings(group, label)
        seen: dict[tuple[str, str], list[list[float]]] = {}
        for record in done:
            for stage, terms in record.gradient_shares.items():
                for term, shares in terms.items():
                    if len(terms) > 1 and shares:
                        seen.setdefault((stage, term), []).append(shares)
        for (stage, term), runs in seen.items():
            points = [sum(values) / len(values) for values in zip(*runs, strict=False)]
            rows.append([label, stage, term, *(f"{100 * point:.1f} %" for point in points)])
            if max(map(max, runs)) < IDLE_SHARE:
                idle.append(f"{label}: {term} in stage {stage} ({_measured(len(runs), len(done))})")
    if not rows:
        return None
    width = max(map(len, rows))
    parts = [f"after {100 * i // (width - 3)} %" for i in range(width - 3)]
    rows = [row + ["–"] * (width - len(row)) for row in rows]
    table = by_row("Gradient share of each term", ["System", "stage", "term", *parts], group, rows)
    table.notes.append(
        "Norm of a weighted term's gradient over the sum of those of its stage and player, at four steps; mean over tasks and seeds."
    )
    if idle:
        table.notes.append(
            f"**Never above {100 * IDLE_SHARE:.0f} %, on any task, seed or step that was measured: {'; '.join(idle)}.** Such a term "
            "does not matter; raise its weight or leave it out."
        )
    return table
