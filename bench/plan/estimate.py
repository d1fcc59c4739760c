"""How long a plan will take on this machine, and how much disk: closed-form FLOPs over a measured rate."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from bench.plan.extents import training_rows
from bench.plan.jobs import ARTEFACT_JOB, AUGMENTATION_JOB, OUTPUTS_JOB, TEACHER_JOB, Job, jobs_of
from bench.plan.request import EXACT, FAST
from bench.plan.spelling import MethodRow
from bench.record.recipe import PAPER

if TYPE_CHECKING:
    from bench.plan.artefacts import ArtefactPlan
    from bench.plan.build import Plan, Planned
    from bench.plan.request import Request
    from bench.plan.tasks import TaskPlan
    from methods.artefacts import Training
    from methods.families import Cost

EFFICIENCY = 0.6
"""Part of the matrix-multiplication rate that whole training steps were seen to reach."""
RECORD_BYTES = 60_000
"""Of a record with its answers: the largest reference record has 55 kB."""
LINEAR_SHARE = 0.75
"""Part of a training step's time that its linear layers take with the usual kernels: steps of tinybert, microbert and finetune
gained 1.4 to 2.0 times where matrix products gained 2.2 times."""
SQUARED_LENGTHS = 1.3
"""Mean squared length over the squared mean length, chosen by hand."""
MEAN_PIECE_TOKENS, MEAN_SAMPLE_PIECE_TOKENS = 64, 16
"""Mean tokens of a piece of text from --corpus, and of one from the generated corpus; chosen by hand."""
WINDOWS, SECONDS_A_WINDOW = 8, 0.02


@lru_cache
def flops_per_second(device: str, threads: int, kernels: str = EXACT) -> float:
    """Rate of fp32 matrix products of BERT's shapes here: the best of some short windows, as others may be at work."""
    import torch

    from methods.fast_kernels import multiplied

    place = torch.accelerator.current_accelerator() if device != "cpu" and torch.accelerator.is_available() else None
    a, b = torch.randn(512, 384, device=place), torch.randn(1536, 384, device=place)
    products = 2 if place is None else 10  # before the clock is read: an accelerator has to be waited for
    best, before = 0.0, torch.get_num_threads()
    torch.set_num_threads(threads)
    for _ in range(WINDOWS):
        count, begun = 0, time.perf_counter()
        while time.perf_counter() - begun < SECONDS_A_WINDOW:
            for _ in range(products):
                multiplied(a, b, None) if kernels == FAST else a @ b.t()
            if place is not None:
                torch.accelerator.synchronize()
            count += products
        best = max(best, count * 2 * 512 * 384 * 1536 / (time.perf_counter() - begun))
    torch.set_num_threads(before)
    return best


def rate_of(request: Request) -> float:
    """FLOPs a second of whole training steps on this machine."""
    return EFFICIENCY * flops_per_second(request.device, request.threads)


def rate_of_students(request: Request) -> float:
    """FLOPs a second of training students, on tasks and on text: with ``--kernels fast`` more than :func:`rate_of`."""
    rate = rate_of(request)
    if request.kernels != FAST:
        return rate
    gain = flops_per_second(request.device, request.threads, FAST) / flops_per_second(request.device, request.threads)
    return rate / (1 - LINEAR_SHARE + LINEAR_SHARE / gain)


def forward_flops(cost: Cost, examples: float, mean_tokens: float) -> float:
    """FLOPs of forward passes over ``examples``."""
    return 2 * cost.macs(examples * mean_tokens, SQUARED_LENGTHS * examples * mean_tokens**2, examples)


@dataclass(frozen=True)
class PlannedWork:
    """One thing that a plan makes, with what it takes."""

    what: str
    """for people"""
    seconds: float
    disk_bytes: int = 0
    from_text: bool = False
    """whether it is trained on unlabelled text, so that --corpus-tokens sets its length"""


def estimate(plan: Plan) -> list[PlannedWork]:
    """What is still to do, in the order in which it is made: what all tasks share, then task by task."""
    made = [job for job in jobs_of(plan, 1) if not job.students]
    parts = [job_work(plan, job) for job in made if not job.task]
    for task in plan.tasks:
        parts += [job_work(plan, job) for job in made if job.task == task.task.name]
        if todo := [planned for planned in plan.cells_of(task.task.name) if planned.is_todo]:
            parts.append(_of_cells(plan, task, todo))
    return [part for part in parts if part.seconds]  # rules that augment ask no model


def _student_cost_and_weights(row: MethodRow, task: TaskPlan) -> tuple[Cost, int]:
    """Cost and weights of a row's student on a task."""
    from bench.plan.untrained import student_cost_and_weights

    return student_cost_and_weights(row, task.checkpoint)


def job_work(plan: Plan, job: Job) -> PlannedWork:
    """What a job takes that makes one entry of the cache."""
    if job.kind == ARTEFACT_JOB:
        return artefact_work(plan, plan.artefacts.kept[job.key])
    task = next(task for task in plan.tasks if task.task.name == job.task)
    config, disk = task.checkpoint.config, 0
    if job.kind == TEACHER_JOB:
        disk = 4 * (config.vocab_size * config.hidden_size + 12 * config.num_hidden_layers * config.hidden_size**2)
    elif task.outputs is not None and job.kind == OUTPUTS_JOB:
        disk = task.outputs.disk_bytes
    flops = {TEACHER_JOB: teacher_flops, AUGMENTATION_JOB: augmentation_flops, OUTPUTS_JOB: outputs_flops}
    return PlannedWork(job.title, flops[job.kind](task) / rate_of(plan.request), disk)


def teacher_flops(task: TaskPlan) -> float:
    """FLOPs of fine-tuning a teacher of this task."""
    examples = len(task.train) * task.teacher_recipe.epochs
    return 3 * forward_flops(_teacher_cost(task), examples, task.mean_tokens)


def outputs_flops(task: TaskPlan) -> float:
    """FLOPs of one pass of the teacher over the training rows, whose outputs are kept."""
    return forward_flops(_teacher_cost(task), training_rows(task), task.mean_tokens)


def needs_live_teacher(planned: Planned) -> bool:
    """Whether the teacher answers while this cell is trained: not where its outputs are read from a file."""
    row = planned.row
    return isinstance(row, MethodRow) and row.method.needs_teacher and not planned.cell.teacher_outputs


def augmentation_flops(task: TaskPlan) -> float:
    """FLOPs of augmentation. Rules ask no model; of masked augmentation, about every second token is a word that is asked for,
    next to its whole sentence."""
    if task.augmentation is None or task.augmentation.kind != "masked":
        return 0.0
    questions = 0.5 * len(task.train) * task.mean_tokens
    return forward_flops(_teacher_cost(task), questions, 2 * task.mean_tokens)


def _teacher_cost(task: TaskPlan) -> Cost:
    from bench.plan.untrained import teacher_cost

    return teacher_cost(task.checkpoint)


def shared_flops(task: TaskPlan, training: Sequence[Planned]) -> float:
    """FLOPs of the teacher's passes while these students are trained together: they share them, up to the end of the longest."""
    rows = [planned.row for planned in training if needs_live_teacher(planned)]
    epochs = max((epochs_of(row, task) for row in rows if isinstance(row, MethodRow)), default=0.0)
    return forward_flops(_teacher_cost(task), training_rows(task) * epochs, task.mean_tokens)


def epochs_of(row: MethodRow, task: TaskPlan) -> float:
    """Over all counted stages of a row: the recipe's, or the sum of what the stages take from their paper."""
    from bench.plan.scheduled_stages import kept_terms
    from bench.plan.tasks import setup_of

    if task.recipe.name != PAPER:
        return task.recipe.epochs
    stages = row.method.stages(setup_of([task], {}))
    counted = [stage for stage in stages if not stage.extra_steps and kept_terms(stage, row.dropped)]
    return sum(task.recipe.for_stage(stage.paper).epochs for stage in counted)


def own_flops(planned: Planned, task: TaskPlan, waits: float = 0.0) -> float:
    """FLOPs of training and scoring one cell, without its teacher's passes. A teacher's cell is only scored.

    Args:
        waits: share of its epochs that another row trains for both.
    """
    own, flops = _teacher_cost(task), 0.0
    if isinstance(planned.row, MethodRow):
        own, _ = _student_cost_and_weights(planned.row, task)
        filled = max(task.mean_tokens, planned.row.method.padding)
        epochs = (1 - waits) * epochs_of(planned.row, task)
        flops = 3 * forward_flops(own, training_rows(task) * epochs, filled)
    return flops + forward_flops(own, sum(len(split) for split in task.evaluation.values()), task.mean_tokens)


def _of_cells(plan: Plan, task: TaskPlan, todo: Sequence[Planned]) -> PlannedWork:
    """Training and scoring the cells of one task: the teacher's passes, which students share, and their own."""
    from bench.plan.stage_keys import shared_starts

    trainings = plan.groups(task.task.name) + [t for t in plan.multitask_trainings() if any(p in todo for p in t)]
    flops = sum(shared_flops(task, training) for training in trainings)
    starts = [shared_starts(group, task) for group in plan.groups(task.task.name)]
    waits = {key: start.share for of_group in starts for key, start in of_group.items()}
    flops += sum(own_flops(planned, task, waits.get(planned.key, 0.0)) for planned in todo)
    disk = RECORD_BYTES * len(todo)
    if plan.request.save_students:
        disk += sum(4 * _student_cost_and_weights(p.row, task)[1] for p in todo if isinstance(p.row, MethodRow))
    seconds = flops / rate_of_students(plan.request)
    return PlannedWork(f"{len(todo)} {'cell' if len(todo) == 1 else 'cells'} of {task.task.name}", seconds, disk)


def artefact_work(plan: Plan, entry: ArtefactPlan) -> PlannedWork:
    """One artefact: what it trains on text with its teacher, and what it reads, forwards and backwards."""
    from bench.plan.untrained import teacher_cost

    flops, weights = 0.0, 0
    if entry.text is not None:
        training, teacher = training_of(entry), teacher_cost(entry.checkpoint)
        length = MEAN_PIECE_TOKENS if plan.request.texts else MEAN_SAMPLE_PIECE_TOKENS
        if training is not None:
            examples = entry.text.budget / length
            flops += forward_flops(teacher, examples, length) + 3 * forward_flops(training.cost, examples, length)
            weights = sum(parameter.numel() for parameter in training.student.model.parameters())
        else:
            flops += 3 * forward_flops(teacher, entry.own_tokens / length, length)
    if entry.task is not None and entry.reads_rows:
        flops += 3 * forward_flops(_teacher_cost(entry.task), len(entry.task.train), entry.task.mean_tokens)
    rate = rate_of_students(plan.request) if entry.kernels else rate_of(plan.request)
    return PlannedWork(entry.title, flops / rate, 4 * weights, from_text=bool(entry.stages))


def training_of(entry: ArtefactPlan) -> Training | None:
    """What an artefact trains on text, on the meta device: nothing is allocated; None where it trains nothing."""
    if not entry.stages:
        return None
    if entry.key not in _TRAININGS:
        _TRAININGS[entry.key] = _meta_training(entry)
    return _TRAININGS[entry.key]


_TRAININGS: dict[str, Training] = {}
"""Key of an artefact -> its training: a plan asks for its time and for its memory, and building it takes 0.05 s."""


def _meta_training(entry: ArtefactPlan) -> Training:
    from bench.plan.untrained import shapes_only
    from methods.parts import blank_artefacts

    config, labels = entry.checkpoint.config, entry.setup({}).num_labels
    with shapes_only():
        training = entry.artefact.training(entry.setup(blank_artefacts(entry.parts, config, labels)))
    assert training is not None, f"{entry.artefact} has stages, so it has a training"
    return training


GLUE_TOKENS = 34e6
"""Training tokens of the nine tasks: official row counts times BERT's mean tokens (mnli 40, qqp 31, qnli 50 ...)."""
BERT_BASE, FOUR_BY_312 = 85e6, 4.6e6
"""Weights of the encoder layers: a forward pass costs two FLOPs for each weight and token."""


def real_glue_seconds(request: Request, rows: int) -> float:
    """What the same rows would take with BERT-base on all of GLUE, three epochs, on this machine."""
    seen = 3 * GLUE_TOKENS
    teacher = 6 * BERT_BASE * seen
    students = len(request.seeds) * (2 * BERT_BASE + rows * 6 * FOUR_BY_312) * seen
    return (teacher + students) / rate_of(request)
