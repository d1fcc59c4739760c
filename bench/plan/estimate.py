"""How long each step of a plan takes on this machine, how much memory and disk, and how many jobs run at a time.

Work is FLOPs, bytes that are moved beside products of matrices, and kernels that are started: closed forms of the model, the tokens
and the batch. On a CPU its time is the FLOPs over a measured rate; on an accelerator the longer of working and of starting kernels one
by one. Memory is a constant times parameters, tokens and batch. All of it may be wrong by half.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from bench.errors import InputError
from bench.measure.capacity import usable_cores, usable_memory_bytes
from bench.plan.executor_options import SLURM, SLURM_JOBS
from bench.plan.outputs import row_taps
from bench.plan.plan import (
    OUTPUTS_STEP,
    TEACHER_STEP,
    ArtefactPlan,
    Cost,
    Plan,
    Planned,
    Step,
    TaskPlan,
)
from bench.plan.request import EXACT, FAST
from bench.plan.scheduled_stages import kept_terms
from bench.plan.spelling import MethodRow
from bench.plan.steps import steps_of
from bench.plan.tasks import setup_of
from bench.record.recipe import PAPER

if TYPE_CHECKING:
    from bench.data.checkpoints import Checkpoint
    from bench.plan.request import Request
    from bench.plan.untrained import Counted

EFFICIENCY = 0.6
"""Part of the matrix-multiplication rate that whole training steps were seen to reach."""
RECORD_BYTES = 60_000
"""Of a record with its answers: the largest reference record has 55 kB."""
LINEAR_SHARE = 0.75
"""Part of a training step's time that its linear layers take with the usual kernels: steps of three methods gained 1.4 to 2.0 times
where matrix products gained 2.2 times."""
SQUARED_LENGTHS = 1.3
"""Mean squared length over the squared mean length, chosen by hand."""
MEAN_PIECE_TOKENS, MEAN_SAMPLE_PIECE_TOKENS = 64, 16
"""Mean tokens of a piece of text from --corpus, and of one from the generated corpus; chosen by hand."""
BASE_BYTES = 456_000_000
"""A process with torch, transformers and datasets that has trained a tiny student: peak proportional set size, Linux, torch 2.13."""
BYTES_A_TOKEN, BYTES_AN_EXAMPLE = 240, 512
"""Of texts and their tokens in memory, measured with 2,031,986 tokens of 50,000 pairs of sentences."""
LONG_BATCH = 1.5
"""Tokens of a large batch over those of a mean one; chosen by hand."""
SHORT_SECONDS = 60.0
"""A plan that one job does in less time is done in this process: further processes need some seconds to start."""
KERNELS_A_PASS, KERNELS_A_MODULE = 20, 1.5
"""Kernels that a forward pass starts on an accelerator, its losses included, and those of each module without parts: 229 were counted of
BERT's 12 layers, and 85 of 4. A training step starts three times as many."""
OPTIMIZER_BYTES = 28
"""Bytes that a step of AdamW moves for each weight: four tensors read, three written."""
CARD_BYTES = 600_000_000
"""Of a GPU's memory before anything lies on it: the context and the libraries of CUDA."""
WINDOWS, SECONDS_A_WINDOW = 8, 0.02
FIT = 1 / 3
"""Seconds of cutting a teacher to a smaller shape over those of its pass over the text, on one core: 14 over 43 for BERT-base cut to
4 layers of 312."""


@lru_cache
def flops_per_second(threads: int, kernels: str = EXACT) -> float:
    """Rate of fp32 matrix products of BERT's shapes on this CPU: the best of some short windows, as others may be at work."""
    import torch

    from methods.fast_kernels import multiplied

    a, b = torch.randn(512, 384), torch.randn(1536, 384)
    best, before = 0.0, torch.get_num_threads()
    torch.set_num_threads(threads)
    for _ in range(WINDOWS):
        count, begun = 0, time.perf_counter()
        while time.perf_counter() - begun < SECONDS_A_WINDOW:
            multiplied(a, b, None) if kernels == FAST else a @ b.t()
            count += 1
        best = max(best, count * 2 * 512 * 384 * 1536 / (time.perf_counter() - begun))
    torch.set_num_threads(before)
    return best


@lru_cache
def rates_of_card(device: str, precision: str, side: int = 4096) -> tuple[float, float, float]:
    """FLOPs a second of large products in this precision, bytes a second that a sum of two tensors moves, and seconds in which one kernel
    of a training is started: by Python, autograd and the driver. Measured on the device in about a second."""
    import torch

    from bench.measure.devices import choose_products

    place = torch.device(device)
    choose_products(place, precision)
    a, b = (torch.randn(side, side, device=place) for _ in range(2))
    x, y = (torch.randn(side**2, device=place) for _ in range(2))
    small = torch.randn(8, 8, device=place, requires_grad=True)

    def multiply() -> None:
        with torch.autocast(place.type, torch.bfloat16, enabled=precision == "bf16"):
            a @ b

    def add() -> None:
        torch.add(x, y, out=x)

    def start() -> None:  # 100 kernels forwards and as many backwards, and some to add gradients up
        value = small
        for _ in range(50):
            value = (value + small).relu()
        value.sum().backward()

    def seconds(work: Callable[[], None], count: int) -> float:
        best = float("inf")
        for _ in range(4):  # the first one also loads kernels
            begun = time.perf_counter()
            for _ in range(count):
                work()
            if place.type != "cpu":
                torch.accelerator.synchronize(place)
            best = min(best, (time.perf_counter() - begun) / count)
        return best

    return 2 * side**3 / seconds(multiply, 5), 12 * side**2 / seconds(add, 20), seconds(start, 10) / 200


def seconds_of(request: Request, work: np.ndarray, kernels: str = EXACT) -> float:
    """How long work takes on this machine."""
    import torch

    flops, moved, started = work.tolist()
    if request.device != "cpu" and torch.accelerator.is_available():
        device = str(torch.accelerator.current_accelerator()) if request.device == "auto" else request.device
        rate, bandwidth, start = rates_of_card(device, request.precision)
        return float(max(flops / (EFFICIENCY * rate) + moved / bandwidth, started * start))
    rate = EFFICIENCY * flops_per_second(request.threads)
    if kernels == FAST:
        gain = flops_per_second(request.threads, FAST) / flops_per_second(request.threads)
        rate /= 1 - LINEAR_SHARE + LINEAR_SHARE / gain
    return float(flops / rate)


def passes(checkpoint: Checkpoint, model: Counted, examples: float, mean_tokens: float, batch: int) -> np.ndarray:
    """FLOPs, bytes moved and kernels started of forward passes over examples; of a training three times as much.

    Args:
        checkpoint: of the teacher, by whose activations those of a model are estimated.
    """
    flops = 2 * model.cost.macs(examples * mean_tokens, SQUARED_LENGTHS * examples * mean_tokens**2, examples)
    moved = 2 * _share(checkpoint, model) * _activations(checkpoint.config, examples * mean_tokens, mean_tokens)
    return np.array([flops, moved, examples / batch * (KERNELS_A_PASS + KERNELS_A_MODULE * model.modules)])


def training(checkpoint: Checkpoint, model: Counted, examples: float, mean_tokens: float, batch: int) -> np.ndarray:
    """Of a training: the backward pass costs twice the forward pass; the optimiser moves all weights in each step."""
    moved = OPTIMIZER_BYTES * model.weights * examples / batch
    return 3 * passes(checkpoint, model, examples, mean_tokens, batch) + np.array([0.0, moved, 0.0])


def _share(checkpoint: Checkpoint, model: Counted) -> float:
    """Part of the teacher's activations that a model has."""
    from bench.plan.untrained import teacher_counts

    return min(1.0, model.cost.of_length(128) / teacher_counts(checkpoint).cost.of_length(128))


def _activations(config: Any, tokens: float, length: float) -> float:
    """Bytes that a teacher's forward pass keeps for its backward pass: some 17 states of each token and layer, and five tensors of
    attention scores, each in fp32."""
    states = 17 * config.hidden_size + 5 * config.num_attention_heads * length
    return float(4 * config.num_hidden_layers * tokens * states)


def costs_of(plan: Plan) -> dict[str, Cost]:
    """What each step that is to do takes, by its key."""
    return {
        step.key: _records_cost(plan, step) if step.students else _folder_cost(plan, step) for step in plan.todo_steps
    }


def _folder_cost(plan: Plan, step: Step) -> Cost:
    """Of a step that makes a folder of the cache."""
    from bench.plan.untrained import teacher_counts

    if step.artefact is not None:
        return artefact_cost(plan, step.artefact)
    (task,) = step.tasks
    checkpoint, batch, length = task.checkpoint, task.teacher_recipe.batch_size, task.mean_tokens
    teacher = teacher_counts(checkpoint)
    trained, disk, work = 0, 0, np.zeros(3)
    if step.kind == TEACHER_STEP:
        work = training(checkpoint, teacher, len(task.train) * task.teacher_recipe.epochs, length, batch)
        trained, disk = teacher.weights, 4 * teacher.weights
    elif step.kind == OUTPUTS_STEP:
        assert task.outputs is not None
        work, disk = passes(checkpoint, teacher, task.training_rows, length, batch), task.outputs.disk_bytes
    elif task.augmentation is not None and task.augmentation.kind == "masked":
        # about every second token is a word that is asked for, next to its whole sentence
        work = passes(checkpoint, teacher, 0.5 * len(task.train) * length, 2 * length, batch)
    memory = _memory(task, teacher.weights, trained, trained, 1.0 if trained else 0.1)
    return Cost(seconds_of(plan.request, work), *memory, disk)


def artefact_cost(plan: Plan, entry: ArtefactPlan) -> Cost:
    """What it trains on text with its teacher, and what it reads, forwards and backwards."""
    from bench.plan.untrained import teacher_counts, text_student_counts
    from methods.artefacts import OBSERVED_TOKENS, TruncatedShape

    checkpoint, config = entry.checkpoint, entry.checkpoint.config
    teacher, work, trained, tokens, fit, kept = teacher_counts(checkpoint), np.zeros(3), 0, 0, 0.0, 0
    if entry.text is not None:
        length = MEAN_PIECE_TOKENS if plan.request.texts else MEAN_SAMPLE_PIECE_TOKENS
        tokens = entry.text.budget if entry.stages else 0
        if entry.stages:
            student, batch = text_student_counts(entry), entry.text.recipe.batch_size
            work += passes(checkpoint, teacher, tokens / length, length, batch)
            work += training(checkpoint, student, tokens / length, length, batch)
            trained = student.weights
        looked_at = 0 if entry.stages else entry.text.budget
        if isinstance(entry.artefact, TruncatedShape):
            looked_at = min(OBSERVED_TOKENS, entry.text.budget)
        tokens = max(tokens, looked_at)
        reading = passes(checkpoint, teacher, looked_at / length, length, 32)
        if isinstance(entry.artefact, TruncatedShape):  # its fit is done by the CPU, whatever the device is
            fit = FIT * float(reading[0]) / (EFFICIENCY * flops_per_second(plan.request.threads))
            kept = 2 * 8 * looked_at * config.hidden_size * (2 * config.num_hidden_layers + 1)
            work += reading
        elif not entry.stages:
            work += 3 * reading
    if entry.task is not None and entry.reads_rows:
        work += (
            3
            * max(1.0, entry.artefact.row_epochs)
            * passes(checkpoint, teacher, len(entry.task.train), entry.task.mean_tokens, 32)
        )
    models = 4 * teacher.weights * max(1, len(entry.teacher_seeds)) + 20 * trained
    models += round(_activations(config, 32 * MEAN_PIECE_TOKENS * LONG_BATCH, MEAN_PIECE_TOKENS))
    memory = kept + BASE_BYTES + BYTES_A_TOKEN * tokens + models
    return Cost(seconds_of(plan.request, work, entry.kernels) + fit, memory, CARD_BYTES + models, 4 * trained)


def _records_cost(plan: Plan, step: Step) -> Cost:
    """Of students that train together, on shared passes of their teacher, or of a model that is scored."""
    from bench.plan.untrained import student_counts, teacher_counts

    teacher, batch = teacher_counts(step.tasks[0].checkpoint), step.tasks[0].recipe.batch_size
    tasks = {task.name: task for task in step.tasks}
    work, trained, largest, share = np.zeros(3), 0, 0, 0.1
    for planned in step.cells:
        task, model = tasks[planned.cell.tasks[0]], teacher
        if isinstance(planned.row, MethodRow):
            model = student_counts(planned.row, task.checkpoint)
            examples, length = task.training_rows * epochs_of(planned.row, task), task.mean_tokens
            filled = max([length, *(stage.padding for stage in planned.row.stages(setup_of([task], {})))])
            work += training(task.checkpoint, model, examples, filled, batch)
            trained, largest = trained + model.weights, max(largest, model.weights)
            share = max(share, _share(task.checkpoint, model))
        scored = sum(count for name, count in task.data.rows.items() if name != "train")
        work += passes(task.checkpoint, model, scored, task.mean_tokens, batch)
    work += _taught_work([planned for planned in step.cells if planned.needs_live_teacher], step.tasks)
    memory = _memory(step.tasks[0], len(step.tasks) * teacher.weights + trained, trained, largest, share)
    disk = RECORD_BYTES * len(step.cells) + (4 * trained if plan.request.save_students else 0)
    return Cost(seconds_of(plan.request, work, step.cells[0].cell.kernels), *memory, disk)


def _taught_work(taught: Sequence[Planned], tasks: Sequence[TaskPlan]) -> np.ndarray:
    """The teacher's passes in a step, up to the end of the longest of these students."""
    epochs = [
        max((epochs_of(p.row, task) for p in taught if isinstance(p.row, MethodRow)), default=0.0) for task in tasks
    ]
    return sum((_teacher_work(task, count) for task, count in zip(tasks, epochs, strict=True)), np.zeros(3))


def _teacher_work(task: TaskPlan, epochs: float) -> np.ndarray:
    """Its passes over the training rows."""
    from bench.plan.untrained import teacher_counts

    teacher, examples = teacher_counts(task.checkpoint), task.training_rows * epochs
    return passes(task.checkpoint, teacher, examples, task.mean_tokens, task.recipe.batch_size)


def seconds_saved_by_outputs(plan: Plan) -> float:
    """What ``--teacher-outputs`` would save: the passes of each teacher in every epoch, seed and group, less one pass that writes
    the file. 0 where it was asked for."""
    saved, written = np.zeros(3), set[str]()
    for step in plan.todo_steps if not plan.request.teacher_outputs else ():
        tasks = list(step.tasks)
        reading = [p for p in step.cells if isinstance(p.row, MethodRow) and row_taps(p.row, tasks)]
        live = [p for p in step.cells if p.needs_live_teacher and p not in reading]
        saved += _taught_work([*reading, *live], tasks) - _taught_work(live, tasks)
        for task in tasks if reading else ():
            if task.name not in written:
                written.add(task.name)
                saved -= _teacher_work(task, 1.0)
    return seconds_of(plan.request, saved)


def _memory(task: TaskPlan, held: int, trained: int, largest: int, share: float) -> tuple[int, int]:
    """Bytes of a process at its peak, and those of them that lie on an accelerator where there is one.

    Args:
        held: weights in memory; trained: those with two moments of the optimiser; largest: those of the largest model, whose
            gradients are held.
        share: of the teacher's activations that one step keeps.
    """
    texts = sum(task.data.rows.values()) * (BYTES_AN_EXAMPLE + BYTES_A_TOKEN * task.mean_tokens)
    batch = min(task.recipe.micro_batch or task.recipe.batch_size, task.recipe.batch_size)
    length = min(LONG_BATCH * task.mean_tokens, task.recipe.max_length)
    step = share * _activations(task.checkpoint.config, batch * length, length)
    models = round(4 * held + 8 * trained + 4 * largest + step)
    return round(BASE_BYTES + texts) + models, CARD_BYTES + models


def epochs_of(row: MethodRow, task: TaskPlan) -> float:
    """Over all counted stages of a row: the recipe's, or the sum of what the stages take from their paper."""
    if task.recipe.name != PAPER:
        return task.recipe.epochs
    stages = row.stages(setup_of([task], {}))
    counted = [stage for stage in stages if not stage.extra_steps and kept_terms(stage, row.dropped)]
    return sum(task.recipe.for_stage(stage.paper).epochs for stage in counted)


def choose_jobs(plan: Plan) -> None:
    """Choose how many jobs there are at a time, where that is left open; divide the students among them, and say what all takes.

    Raises:
        InputError: more jobs than accelerators.
    """
    request, elsewhere = plan.request, plan.request.is_elsewhere
    most = 1 if request.jobs == 1 else _max_parallel_jobs(plan)
    if plan.tasks[0].numeric.device != "cpu" and request.jobs > most and not elsewhere:
        raise InputError(
            f"--jobs {request.jobs}: one job an accelerator, and --device {request.device} has {most} here"
        )
    _divide(plan, 1)
    if request.jobs == 1:
        return
    if not request.jobs and not elsewhere and plan.seconds < SHORT_SECONDS:
        return
    _divide(plan, request.jobs or most)
    free = None if elsewhere else usable_memory_bytes()
    largest = sorted((cost.memory for cost in plan.costs.values()), reverse=True)
    at_once = min(request.jobs or most, len(largest))
    if not request.jobs and free is not None:
        at_once = max(1, next((n for n in range(at_once, 0, -1) if BASE_BYTES + sum(largest[:n]) <= free), 1))
    needed = BASE_BYTES + sum(largest[:at_once])
    plan.request = replace(request, jobs=max(1, at_once))
    plan.jobs_description = f"{at_once} at a time, {needed / 1e9:.1f} GB of memory"
    if free is not None and needed > free:
        plan.jobs_description += f", of which {free / 1e9:.1f} GB are free: fewer --jobs need less"


def too_large_for_card(plan: Plan) -> list[str]:
    """The steps that need more of the GPU's memory than it has free, a line each."""
    if plan.tasks[0].numeric.device != "cuda" or plan.request.is_elsewhere:
        return []
    import torch

    free = torch.cuda.mem_get_info(plan.request.device if ":" in plan.request.device else None)[0]
    needed = {step.title: plan.costs[step.key].on_card for step in plan.todo_steps}
    return [
        f"{title}: about {needs / 1e9:.1f} GB of the GPU's memory, which has {free / 1e9:.1f} GB free; --set micro_batch=8, fewer rows "
        f"or --precision bf16 need less"
        for title, needs in needed.items()
        if needs > free
    ]


def _divide(plan: Plan, jobs: int) -> None:
    """Divide the work of a plan for so many jobs at a time."""
    plan.request = replace(plan.request, jobs=jobs)
    plan.steps = steps_of(plan)
    vars(plan).pop("todo_steps", None)
    plan.costs = costs_of(plan)


def _max_parallel_jobs(plan: Plan) -> int:
    """How many jobs can be done at a time: one an accelerator, or as many as the cores have room for threads."""
    request, on_cpu = plan.request, plan.tasks[0].numeric.device == "cpu"
    if request.is_elsewhere:
        if request.jobs or request.executor == SLURM:
            return request.jobs or SLURM_JOBS
        from bench.measure.ray_cluster import places

        return places(request.address, request.threads, not on_cpu)
    if on_cpu:
        return max(1, usable_cores() // request.threads)
    import torch

    return 1 if ":" in request.device else torch.accelerator.device_count()
