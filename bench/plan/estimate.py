"""How long a plan will take on this machine, and how much disk: closed-form FLOPs over a measured rate."""

from __future__ import annotations

import time
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from bench.measure.closed_form import training_macs
from bench.plan.recipe import Recipe

if TYPE_CHECKING:
    from bench.plan.build import Plan, TaskPlan
    from bench.plan.request import Request

EFFICIENCY = 0.6
"""Part of the matrix-multiplication rate that whole training steps were seen to reach."""
RECORD_BYTES = 60_000


@lru_cache
def flops_per_second(device: str, threads: int) -> float:
    """Rate of fp32 matrix products of BERT's shapes here and now, measured for a tenth of a second."""
    import torch

    torch.set_num_threads(threads)
    place = torch.accelerator.current_accelerator() if device != "cpu" and torch.accelerator.is_available() else None
    a, b = torch.randn(512, 384, device=place), torch.randn(384, 1536, device=place)
    count, begun = 0, time.perf_counter()
    while time.perf_counter() - begun < 0.1:
        for _ in range(20):
            a @ b
        if place is not None:
            torch.accelerator.synchronize()
        count += 20
    return count * 2 * 512 * 384 * 1536 / (time.perf_counter() - begun)


def passes(config: Any, examples: float, mean_tokens: float) -> float:
    """FLOPs of forward passes over ``examples``; squared lengths taken as 1.3 times the squared mean."""
    return 2 * training_macs(config, int(examples * mean_tokens), int(1.3 * examples * mean_tokens**2))


def estimate(plan: Plan) -> tuple[float, int]:
    """Seconds and bytes of what is still to do."""
    from bench.train.artefacts import is_cached
    from methods.parts import bert_config

    flops, disk = 0.0, 0
    needed: set[str] = set()
    for task in plan.tasks:
        cells = [planned for planned in plan.of_task(task.task.name) if planned.todo]
        if not cells:
            continue
        config, seen = task.checkpoint.config, _examples(task, task.recipe)
        scored = sum(len(split) for split in task.evaluation.values())
        if task.teacher.origin == "fine-tuned" and not is_cached("teachers", task.teacher.key):
            flops += 3 * passes(config, len(task.train) * task.teacher_recipe.epochs, task.mean_tokens)
            disk += 4 * (config.vocab_size * config.hidden_size + 12 * config.num_hidden_layers * config.hidden_size**2)
        taught = {p.cell.seed for p in cells if p.row is not None and p.row.method.needs_teacher}
        flops += len(taught) * passes(config, seen, task.mean_tokens)
        for planned in cells:
            disk += RECORD_BYTES
            shape = getattr(planned.row.method, "shape", None) if planned.row else None
            own = bert_config(shape, config) if shape else config
            flops += passes(own, scored, task.mean_tokens)
            if planned.row:
                flops += 3 * passes(own, seen, task.mean_tokens)
                needed |= set(planned.cell.artefacts.values())
    for start in plan.starts.values():
        if start.key in needed and not start.cached:
            config, own = start.checkpoint.config, bert_config(start.shape, start.checkpoint.config)
            length = 64 if plan.request.corpus else 16
            flops += passes(config, start.budget / length, length) + 3 * passes(own, start.budget / length, length)
            disk += 4 * (own.vocab_size * own.hidden_size + 12 * own.num_hidden_layers * own.hidden_size**2)
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
    return len(task.train) * epochs
