"""How long a plan will take on this machine, and how much disk: closed-form FLOPs over a measured rate."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from bench.plan.recipe import Recipe
from bench.plan.spelling import MethodRow

if TYPE_CHECKING:
    from bench.plan.build import Plan, Planned
    from bench.plan.request import Request
    from bench.plan.starts import StartPlan
    from bench.plan.tasks import TaskPlan
    from methods.families import Cost

EFFICIENCY = 0.6
"""Part of the matrix-multiplication rate that whole training steps were seen to reach."""
RECORD_BYTES = 60_000
WINDOWS, SECONDS_A_WINDOW = 8, 0.04


@lru_cache
def flops_per_second(device: str, threads: int) -> float:
    """Rate of fp32 matrix products of BERT's shapes here: the best of some short windows, as others may be at work."""
    import torch

    torch.set_num_threads(threads)
    place = torch.accelerator.current_accelerator() if device != "cpu" and torch.accelerator.is_available() else None
    a, b = torch.randn(512, 384, device=place), torch.randn(384, 1536, device=place)
    best = 0.0
    for _ in range(WINDOWS):
        count, begun = 0, time.perf_counter()
        while time.perf_counter() - begun < SECONDS_A_WINDOW:
            for _ in range(10):
                a @ b
            if place is not None:
                torch.accelerator.synchronize()
            count += 10
        best = max(best, count * 2 * 512 * 384 * 1536 / (time.perf_counter() - begun))
    return best


def rate_of(request: Request) -> float:
    """FLOPs a second of whole training steps on this machine."""
    return EFFICIENCY * flops_per_second(request.device, request.threads)


def passes(cost: Cost, examples: float, mean_tokens: float) -> float:
    """FLOPs of forward passes over ``examples``; squared lengths taken as 1.3 times the squared mean."""
    return 2 * cost.macs(examples * mean_tokens, 1.3 * examples * mean_tokens**2, examples)


@dataclass(frozen=True)
class Part:
    """One thing that a plan makes, with what it takes."""

    what: str
    """for people"""
    seconds: float
    disk_bytes: int = 0
    from_text: bool = False
    """whether it is trained on unlabelled text, so that --corpus-tokens sets its length"""


def estimate(plan: Plan) -> list[Part]:
    """What is still to do, in the order in which it is made: starts from text, teachers, students."""
    rate = rate_of(plan.request)
    parts, students = [], Students()
    for task in plan.tasks:
        if todo := _todo(plan, task):
            parts += _of_task(plan, task, todo, rate, students)
    missing = [start for start in needed_starts(plan) if not plan.is_there(start.slot)]
    return [*(part for start in missing for part in of_start(plan, start, rate)), *parts]


def needed_starts(plan: Plan) -> list[StartPlan]:
    """The starts from text that something to do is made from, there or not."""
    needed: set[str] = set()
    for task in plan.tasks:
        if todo := _todo(plan, task):
            needed |= _from_text(plan, task, todo)
    needed |= {part for start in plan.starts.values() if start.key in needed for part in start.parts.values()}
    return [start for start in plan.starts.values() if start.key in needed]


def _todo(plan: Plan, task: TaskPlan) -> list[Planned]:
    return [planned for planned in plan.of_task(task.task.name) if planned.todo]


class Students:
    """Cost and weights of students, built to be counted: once a row, not once a cell."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, int, str], tuple[Cost, int]] = {}

    def of(self, row: MethodRow, task: TaskPlan) -> tuple[Cost, int]:
        from bench.measure.students import student_counts

        labels = task.task.num_labels
        same = (row.spelling, labels, task.checkpoint.sha256)
        if same not in self._known:
            self._known[same] = student_counts(row.method, task.checkpoint.config, labels)
        return self._known[same]


def _of_task(plan: Plan, task: TaskPlan, todo: Sequence[Planned], rate: float, students: Students) -> list[Part]:
    """The teachers of one task, its augmented rows, and its cells."""
    from bench.plan.students import members_of

    config, name = task.checkpoint.config, task.task.name
    parts = []
    if task.teacher.origin == "fine-tuned" and not plan.is_there(task.teacher_slot(0)):
        weights = config.vocab_size * config.hidden_size + 12 * config.num_hidden_layers * config.hidden_size**2
        parts.append(Part(f"teacher of {name}", teacher_flops(task) / rate, 4 * weights))
    members = max((members_of(p.row, task) for p in todo if isinstance(p.row, MethodRow)), default=0)
    parts += [
        Part(task.teacher_slot(seed).title, teacher_flops(task) / rate)
        for seed in range(1, members)
        if not plan.is_there(task.teacher_slot(seed))
    ]
    if task.augmentation and task.augmentation.kind == "masked" and not plan.is_there(task.augmentation_slot):
        parts.append(Part(task.augmentation_slot.title, augmentation_flops(task) / rate))
    return [*parts, _of_cells(plan, task, todo, rate, students)]


def teacher_flops(task: TaskPlan) -> float:
    """Of fine-tuning a teacher of this task."""
    examples = len(task.train) * task.teacher_recipe.epochs
    return 3 * passes(_teacher_cost(task), examples, task.mean_tokens)


def augmentation_flops(task: TaskPlan) -> float:
    """Of masked augmentation: about every second token is a word that is asked for, next to its whole sentence."""
    questions = 0.5 * len(task.train) * task.mean_tokens
    return passes(_teacher_cost(task), questions, 2 * task.mean_tokens)


def computed_flops(task: TaskPlan) -> float:
    """Of one pass of the teacher over the training examples, backward too."""
    return 3 * passes(_teacher_cost(task), len(task.train), task.mean_tokens)


def _teacher_cost(task: TaskPlan) -> Cost:
    from bench.measure.students import teacher_cost

    return teacher_cost(task.checkpoint.config, task.task.num_labels)


def shared_flops(task: TaskPlan) -> float:
    """Of the teacher's passes while students of this task are trained, which those that train together share."""
    return passes(_teacher_cost(task), _examples(task, task.recipe), task.mean_tokens)


def own_flops(planned: Planned, task: TaskPlan, students: Students) -> float:
    """Of a cell's own training and of its scoring; of the teacher's cell of its scoring alone."""
    own, flops = _teacher_cost(task), 0.0
    if isinstance(planned.row, MethodRow):
        own, _ = students.of(planned.row, task)
        filled = max(task.mean_tokens, planned.row.method.padding)
        flops = 3 * passes(own, _examples(task, task.recipe), filled)
    return flops + passes(own, sum(len(split) for split in task.evaluation.values()), task.mean_tokens)


def _of_cells(plan: Plan, task: TaskPlan, todo: Sequence[Planned], rate: float, students: Students) -> Part:
    """Training and scoring the cells of one task: the teacher's passes, which students share, and their own."""
    trainings = plan.groups(task.task.name) + [t for t in plan.together() if any(p in todo for p in t)]
    rows = [[p.row for p in training if isinstance(p.row, MethodRow)] for training in trainings]
    taught = sum(any(row.method.needs_teacher for row in of_training) for of_training in rows)
    flops = taught * shared_flops(task) + sum(own_flops(planned, task, students) for planned in todo)
    disk = RECORD_BYTES * len(todo)
    if plan.request.save_students:
        disk += sum(4 * students.of(p.row, task)[1] for p in todo if isinstance(p.row, MethodRow))
    return Part(f"{len(todo)} {'cell' if len(todo) == 1 else 'cells'} of {task.task.name}", flops / rate, disk)


def _from_text(plan: Plan, task: TaskPlan, todo: Sequence[Planned]) -> set[str]:
    """Keys of what the cells of one task are made from; some of them are starts."""
    keys = {key for planned in todo if isinstance(planned.row, MethodRow) for key in planned.cell.artefacts.values()}
    if task.augmentation and task.augmentation.kind == "masked" and not plan.is_there(task.augmentation_slot):
        keys |= {start.key for start in plan.starts.values() if start.is_teacher_head}
    return keys


def of_start(plan: Plan, start: StartPlan, rate: float) -> list[Part]:
    """One start from text, with the teacher's passes over it; nothing where nothing is trained."""
    import torch

    from bench.measure.students import teacher_cost
    from methods.api import Setup
    from methods.artefacts import PretrainingStage, TruncatedTeacher
    from methods.families import cost
    from methods.parts import bert_config, blank_artefacts, classifier

    if isinstance(start.wish, TruncatedTeacher):
        return []
    config, length = start.checkpoint.config, 64 if plan.request.corpus else 16
    with torch.random.fork_rng(devices=[]), torch.device("meta"):
        if isinstance(start.wish, PretrainingStage):
            parts = blank_artefacts(start.wish.requires(config), config, 2)
            made = start.wish.build(Setup(config, 2, (), parts))
            known = hasattr(start.wish, "training_cost")
            price = start.wish.training_cost(made) if known else cost(made.model)  # type: ignore[attr-defined]
            student: Any = made.model
        else:
            student = classifier(bert_config(start.wish.shape, config))
            price = cost(student)
    examples = start.budget / length
    flops = passes(teacher_cost(config, 2), examples, length) + 3 * passes(price, examples, length)
    weights = sum(parameter.numel() for parameter in student.parameters())
    return [Part(start.title, flops / rate, 4 * weights, from_text=True)]


GLUE_TOKENS = 34e6
"""Training tokens of the nine tasks: official row counts times BERT's mean tokens (mnli 40, qqp 31, qnli 50 ...)."""
BERT_BASE, FOUR_BY_312 = 85e6, 4.6e6
"""Weights of the encoder layers: a forward pass costs two FLOPs each and token."""


def real_glue_seconds(request: Request, rows: int) -> float:
    """What the same rows would take with BERT-base on all of GLUE, three epochs, on this machine."""
    seen = 3 * GLUE_TOKENS
    teacher = 6 * BERT_BASE * seen
    students = len(request.seeds) * (2 * BERT_BASE + rows * 6 * FOUR_BY_312) * seen
    return (teacher + students) / rate_of(request)


def _examples(task: TaskPlan, recipe: Recipe) -> float:
    epochs = 23.0 if recipe.name == "paper" else recipe.epochs  # the longest paper schedule: 20 + 3
    times = 1 + task.augmentation.times if task.augmentation else 1  # at most: duplicates are dropped
    return len(task.train) * times * epochs
