"""How long a plan will take on this machine, and how much disk: closed-form FLOPs over a measured rate."""

from __future__ import annotations

import time
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from bench.plan.recipe import Recipe

if TYPE_CHECKING:
    from bench.plan.build import Plan
    from bench.plan.request import Request
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


def passes(cost: Cost, examples: float, mean_tokens: float) -> float:
    """FLOPs of forward passes over ``examples``; squared lengths taken as 1.3 times the squared mean."""
    return 2 * cost.macs(examples * mean_tokens, 1.3 * examples * mean_tokens**2, examples)


def estimate(plan: Plan) -> tuple[float, int]:
    """Seconds and bytes of what is still to do."""
    import torch

    from bench.measure.students import student_counts, teacher_cost
    from bench.plan.students import members_of
    from methods.api import CutTeacher, FromText, Setup
    from methods.families import cost
    from methods.parts import bert_config, blank_artefacts, classifier

    flops, disk = 0.0, 0
    needed: set[str] = set()
    students: dict[tuple[str, int, str], tuple[Cost, int]] = {}  # built to be counted: once a row, not once a cell
    for task in plan.tasks:
        cells = [planned for planned in plan.of_task(task.task.name) if planned.todo]
        if not cells:
            continue
        config, labels, seen = task.checkpoint.config, task.task.num_labels, _examples(task, task.recipe)
        teacher = teacher_cost(config, labels)
        scored = sum(len(split) for split in task.evaluation.values())
        if task.teacher.origin == "fine-tuned" and not plan.is_there(task.teacher_slot(0)):
            flops += 3 * passes(teacher, len(task.train) * task.teacher_recipe.epochs, task.mean_tokens)
            disk += 4 * (config.vocab_size * config.hidden_size + 12 * config.num_hidden_layers * config.hidden_size**2)
        if task.augmentation and task.augmentation.kind == "masked" and not plan.is_there(task.augmentation_slot):
            # about every second token is a word that is asked for, beside its whole sentence
            questions = 0.5 * len(task.train) * task.mean_tokens
            flops += passes(teacher, questions, 2 * task.mean_tokens)
            needed |= {start.key for start in plan.starts.values() if start.is_teacher_head}
        tuned = max((members_of(p.row, task) for p in cells if p.row), default=0)
        for seed in range(1, tuned):
            if not plan.is_there(task.teacher_slot(seed)):
                flops += 3 * passes(teacher, len(task.train) * task.teacher_recipe.epochs, task.mean_tokens)
        trainings = plan.groups(task.task.name) + [t for t in plan.together() if any(p in cells for p in t)]
        taught = sum(any(p.row.method.needs_teacher for p in training if p.row) for training in trainings)
        flops += taught * passes(teacher, seen, task.mean_tokens)
        for planned in cells:
            disk += RECORD_BYTES
            own = teacher
            if planned.row:
                same = (planned.row.spelling, labels, task.checkpoint.sha256)
                students[same] = students.get(same) or student_counts(planned.row.method, config, labels)
                own, weights = students[same]
                disk += 4 * weights if plan.request.save_students else 0
            flops += passes(own, scored, task.mean_tokens)
            if planned.row:
                filled = max(task.mean_tokens, getattr(planned.row.method, "padding", 0))
                flops += 3 * passes(own, seen, filled)
                needed |= set(planned.cell.artefacts.values())
    needed |= {part for start in plan.starts.values() if start.key in needed for part in start.parts.values()}
    for start in plan.starts.values():
        if start.key in needed and not plan.is_there(start.slot) and not isinstance(start.wish, CutTeacher):
            config, length = start.checkpoint.config, 64 if plan.request.corpus else 16
            with torch.random.fork_rng(devices=[]), torch.device("meta"):
                if isinstance(start.wish, FromText):
                    parts = blank_artefacts(start.wish.prepare(config), config, 2)
                    made = start.wish.build(Setup(config, 2, (), parts))
                    known = hasattr(start.wish, "training_cost")
                    price = start.wish.training_cost(made) if known else cost(made.model)  # type: ignore[attr-defined]
                    student: Any = made.model
                else:
                    student = classifier(bert_config(start.wish.shape, config))
                    price = cost(student)
            flops += passes(teacher_cost(config, 2), start.budget / length, length)
            flops += 3 * passes(price, start.budget / length, length)
            disk += 4 * sum(parameter.numel() for parameter in student.parameters())
    rate = EFFICIENCY * flops_per_second(plan.request.device, plan.request.threads)
    return flops / rate, disk


GLUE_TOKENS = 34e6
"""Training tokens of the nine tasks: official row counts times BERT's mean tokens (mnli 40, qqp 31, qnli 50 ...)."""
BERT_BASE, FOUR_BY_312 = 85e6, 4.6e6
"""Weights of the encoder layers: a forward pass costs two FLOPs each and token."""


def real_glue_seconds(request: Request, rows: int) -> float:
    """What the same rows would take with BERT-base on all of GLUE, three epochs, on this machine."""
    seen = 3 * GLUE_TOKENS
    teacher = 6 * BERT_BASE * seen
    students = len(request.seeds) * (2 * BERT_BASE + rows * 6 * FOUR_BY_312) * seen
    return (teacher + students) / (EFFICIENCY * flops_per_second(request.device, request.threads))


def _examples(task: TaskPlan, recipe: Recipe) -> float:
    epochs = 23.0 if recipe.name == "paper" else recipe.epochs  # the longest paper schedule: 20 + 3
    times = 1 + task.augmentation.times if task.augmentation else 1  # at most: duplicates are dropped
    return len(task.train) * times * epochs
