"""How long each step of a plan takes on this machine, how much memory and disk, and how many jobs run at a time.

A step is a list of passes of models over examples. On a CPU their time is their FLOPs over a measured rate; on an accelerator the longer of
that and of starting its kernels one by one. Memory is a constant times weights, tokens and batch. Nothing is trained for it,
and times are right within a factor of two.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from bench.measure.capacity import usable_cores, usable_memory_bytes
from bench.plan.outputs import SQUARED_LENGTHS, row_taps
from bench.plan.plan import (
    AUGMENTATION_STEP,
    OUTPUTS_STEP,
    TEACHER_STEP,
    Cost,
    Plan,
    Step,
    TaskPlan,
)
from bench.plan.request import SLURM, SLURM_JOBS
from bench.plan.scheduled_stages import kept_terms
from bench.plan.spelling import MethodRow
from bench.plan.steps import steps_of
from bench.plan.tasks import setup_of
from bench.plan.training_texts import TrainingTexts
from bench.record.cell import PREDICTIONS
from bench.record.recipe import PAPER, Recipe

if TYPE_CHECKING:
    from bench.data.corpus import Corpus
    from bench.plan.request import Request
    from bench.plan.untrained import Counted

EFFICIENCY = 0.6
"""Part of the matrix-multiplication rate that whole training steps reach: seen in fp32; in other formats half of it, chosen by hand, because
what is no product of matrices takes as long as before. Fast kernels are not counted: steps of three methods gained 1.4 to 2.0 times."""
RECORD_BYTES = 60_000
"""Of a record with its answers: the largest reference record has 55 kB."""
MEAN_PIECE_TOKENS, MEAN_SAMPLE_PIECE_TOKENS = 107, 16
"""Mean tokens of a piece of text from --corpus (of IMDb's reviews, at most 128), and of one from the generated corpus (chosen by hand)."""
TOKENS_READ_A_SECOND = 330_000
"""Of a text, by BERT's tokenizer on one core (AMD EPYC, family 25, model 1): 918,000 tokens in 2.8 s. An H200 trains on them as fast."""
BASE_BYTES = 456_000_000
"""A process with torch, transformers and datasets that has trained a tiny student: peak proportional set size, Linux, torch 2.13."""
BYTES_A_TOKEN, BYTES_AN_EXAMPLE = 240, 512
"""Of texts and their tokens in memory, measured with 2,031,986 tokens of 50,000 pairs of sentences."""
HELD_BYTES, TRAINED_BYTES = 4, 16
"""Of each weight of a model that answers, and of one that is trained: with its gradient and two moments of the optimiser."""
ACTIVATION_BYTES = 10.0
"""For each MAC of a batch, divided by the width: a layer of BERT keeps some 17 states of a token and 5 attention scores in fp32."""
LONG_BATCH = 1.5
"""Tokens of a large batch over those of a mean one; chosen by hand."""
SHORT_SECONDS = 60.0
"""A plan that one job does in less time is done in this process: further processes need some seconds to start."""
KERNELS_A_PASS, KERNELS_A_FROZEN_MODULE = 20, 0.95
KERNELS_A_STEP, KERNELS_A_TRAINED_MODULE = 24, 3.75
"""Kernels that a pass of a frozen model, or a training step, starts on an accelerator, and those of each module without parts: 164 were
counted of 12 frozen layers of BERT, 599 of a step that trains 12, and 238 of one that trains 4."""
SECONDS_A_KERNEL = 56e-6
"""In which a training starts one kernel: trainings of BERT-base's shape and of its students on an
H200 beside 16 cores of an Intel Xeon took 50 to 56 us a counted kernel. A slower host takes longer."""
MOST_SHARING, SHARING_COSTS = 8, 0.09
"""Jobs on one GPU, and what each further job adds to the time of all: eight took 18 s, each with the work that one did in 11 s (H200)."""
FITTING = 8
"""FLOPs of fitting a truncated teacher, as fp32 ones: 7.6 and 8.7 times those of its regressions, of 6 layers of 384 and of 12 of 768."""
CARD_BYTES = 600_000_000
"""Of a GPU's memory before anything lies on it: the context and the libraries of CUDA."""
WINDOWS = 8


@lru_cache
def flops_per_second(threads: int) -> float:
    """Rate of fp32 matrix products of BERT's shapes on this CPU: the best of some short windows, as others may be at work."""
    import torch
    from torch.utils.benchmark import Timer

    given = {"a": torch.randn(512, 384), "b": torch.randn(1536, 384)}
    timer = Timer("a @ b.t()", globals=given, num_threads=threads)
    return float(2 * 512 * 384 * 1536 / min(timer.timeit(4).mean for _ in range(WINDOWS)))


@lru_cache
def rates_of_card(device: str, precision: str, side: int = 4096) -> tuple[float, float]:
    """FLOPs a second of large products on a device in this precision, and seconds in which a training starts one kernel there.

    The first is measured on the device in less than a second. The second is
    :data:`SECONDS_A_KERNEL` everywhere.
    """
    import torch
    from torch.utils.benchmark import Timer

    from bench.measure.devices import choose_products

    place = torch.device(device)
    choose_products(place, precision)
    a = torch.randn(side, side, device=place)
    b = torch.randn(side, side, device=place)

    def multiply() -> None:
        with torch.autocast(place.type, torch.bfloat16, enabled=precision == "bf16"):
            a @ b

    timer = Timer("multiply()", globals={"multiply": multiply})
    seconds = min(timer.timeit(5).mean for _ in range(4))
    return 2 * side**3 / seconds, SECONDS_A_KERNEL


class Passes(NamedTuple):
    """A model that reads examples, and learns from them where it is trained."""

    model: Counted
    examples: float
    length: float
    """mean tokens of an example"""
    batch: int
    trained: bool = False

    def macs(self, examples: float, length: float) -> float:
        """Of a forward pass."""
        return self.model.cost.macs(
            examples * length, SQUARED_LENGTHS * examples * length**2, examples
        )


def seconds_of(request: Request, passes: Iterable[Passes]) -> float:
    """How long these passes take on this machine."""
    return max(work_and_starts(request, passes))


def work_and_starts(request: Request, passes: Iterable[Passes]) -> tuple[float, float]:
    """Seconds of what these passes compute, and, on an accelerator, of starting their kernels one by one."""
    import torch

    flops = started = 0.0
    for each in passes:
        times = 3 if each.trained else 1  # the backward pass costs twice the forward pass
        flops += times * 2 * each.macs(each.examples, each.length)
        by_pass, by_module = KERNELS_A_PASS, KERNELS_A_FROZEN_MODULE
        if each.trained:
            by_pass, by_module = KERNELS_A_STEP, KERNELS_A_TRAINED_MODULE
        started += each.examples / each.batch * (by_pass + by_module * each.model.modules)
    if request.device != "cpu" and torch.accelerator.is_available():
        device = (
            str(torch.accelerator.current_accelerator())
            if request.device == "auto"
            else request.device
        )
        rate, start = rates_of_card(device, request.precision)
    else:
        rate, start = flops_per_second(request.threads), 0.0
    return flops / (EFFICIENCY / (1 if request.precision == "fp32" else 2) * rate), started * start


def cost_of(plan: Plan, step: Step) -> Cost:
    """What a step takes."""
    from methods.core.artefacts import OBSERVED_TOKENS, TruncatedShape

    entry, passes = step.artefact, passes_of(plan, step)
    config = (step.tasks[0] if entry is None else entry).checkpoint.config
    data: float = sum(
        sum(task.data.rows.values()) * (BYTES_AN_EXAMPLE + BYTES_A_TOKEN * task.mean_tokens)
        for task in step.tasks
    )
    data += BYTES_A_TOKEN * entry.text.budget if entry is not None and entry.text is not None else 0
    seconds = seconds_of(plan.request, passes)
    if entry is not None and entry.text is not None and entry.stages:
        seconds += entry.text.budget / TOKENS_READ_A_SECOND
    if entry is not None and isinstance(entry.artefact, TruncatedShape):
        # what its states are fitted by, in double precision on the CPU
        kept, wide = entry.artefact.shape.hidden, config.hidden_size
        rows = OBSERVED_TOKENS * (config.num_hidden_layers + 1 + 2 * entry.artefact.shape.layers)
        data += 16 * OBSERVED_TOKENS * wide * (2 * config.num_hidden_layers + 1)
        seconds += (
            FITTING * 2 * rows * kept * (kept + wide) / flops_per_second(plan.request.threads)
        )
    trained = sum(each.model.weights for each in passes if each.trained)
    held = {each.model for each in passes} - {each.model for each in passes if each.trained}
    copies = max(1, len(step.tasks if entry is None else entry.teacher_seeds))
    models = TRAINED_BYTES * trained + HELD_BYTES * copies * sum(model.weights for model in held)
    # what is only answered keeps nothing for a backward pass; an artefact may be made from gradients of the teacher
    batches = [
        (1.0 if each.trained or entry is not None else 0.1)
        * each.macs(each.batch, LONG_BATCH * each.length)
        for each in passes
    ]
    on_card = round(models + ACTIVATION_BYTES * max(batches, default=0.0) / config.hidden_size)
    is_kept = step.slot is not None or plan.request.save_students is not None
    disk = RECORD_BYTES * len(step.cells) + 4 * trained * is_kept
    if step.kind == OUTPUTS_STEP and step.tasks[0].outputs is not None:
        disk += step.tasks[0].outputs.disk_bytes
    return Cost(seconds, round(BASE_BYTES + data) + on_card, CARD_BYTES + on_card, disk)


def _piece_tokens(plan: Plan, text: Corpus) -> float:
    """Tokens of a mean piece of the text that something is trained on."""
    if isinstance(text, TrainingTexts):
        return text.mean_piece
    return MEAN_PIECE_TOKENS if plan.request.texts else MEAN_SAMPLE_PIECE_TOKENS


def passes_of(plan: Plan, step: Step) -> list[Passes]:
    """Which models read how many examples in a step, forwards and backwards."""
    from bench.plan.untrained import student_counts, teacher_counts, text_student_counts
    from methods.core.artefacts import OBSERVED_TOKENS, TruncatedShape

    entry, passes = step.artefact, list[Passes]()
    if entry is not None:  # what it trains on text with its teacher, and what it reads
        teacher, batch = teacher_counts(entry.checkpoint), Recipe.batch_size
        if entry.text is not None:
            length = _piece_tokens(plan, entry.text.corpus)
            read = pieces = entry.text.budget / length
            if entry.stages:
                passes.append(
                    Passes(text_student_counts(entry), pieces, length, batch, trained=True)
                )
            else:
                observed = isinstance(entry.artefact, TruncatedShape)
                read = min(OBSERVED_TOKENS / length, pieces) if observed else 3 * pieces
            passes.append(Passes(teacher, read, length, batch))
        if entry.task is not None and entry.reads_rows:
            rows = 3 * max(1.0, entry.artefact.row_epochs) * len(entry.task.train)
            passes.append(Passes(teacher, rows, entry.task.mean_tokens, batch))
        return passes
    task = step.tasks[0]
    teacher, tokens, batch = (
        teacher_counts(task.checkpoint),
        task.mean_tokens,
        task.teacher_recipe.batch_size,
    )
    if step.kind == TEACHER_STEP:
        return [
            Passes(
                teacher, len(task.train) * task.teacher_recipe.epochs, tokens, batch, trained=True
            )
        ]
    if step.kind == OUTPUTS_STEP:
        return [Passes(teacher, task.training_rows, tokens, batch)]
    if step.kind == AUGMENTATION_STEP:
        # about every second token is a word that is asked for, next to its whole sentence
        asked = 0.5 * tokens if task.masked_head is not None else 0.0
        return [Passes(teacher, asked * len(task.train), 2 * tokens, batch)]
    tasks = {task.name: task for task in step.tasks}
    for planned in step.cells:
        if planned.cell.method == PREDICTIONS:
            continue
        task, model = tasks[planned.cell.tasks[0]], teacher
        if isinstance(planned.row, MethodRow):
            model, examples = student_counts(planned.row, task.checkpoint), task.training_rows
            filled = max(
                [task.mean_tokens, *(s.padding for s in planned.row.stages(setup_of([task], {})))]
            )
            passes.append(
                Passes(
                    model,
                    examples * epochs_of(planned.row, task),
                    filled,
                    _batch(task.recipe),
                    True,
                )
            )
        scored = sum(count for name, count in task.data.rows.items() if name != "train")
        passes.append(Passes(model, scored, task.mean_tokens, task.recipe.batch_size))
    return passes + _teaching_passes(
        [planned.row for planned in step.cells if planned.needs_live_teacher], step.tasks
    )


def _teaching_passes(taught: Sequence[object], tasks: Sequence[TaskPlan]) -> list[Passes]:
    """Of the teachers, which answer up to the end of the longest of these students; once where none of them has epochs."""
    from bench.plan.untrained import teacher_counts

    passes = []
    for task in tasks if taught else ():
        epochs = max(
            (epochs_of(row, task) for row in taught if isinstance(row, MethodRow)), default=1.0
        )
        examples, counted = task.training_rows * epochs, teacher_counts(task.checkpoint)
        passes.append(Passes(counted, examples, task.mean_tokens, _batch(task.recipe)))
    return passes


def seconds_saved_by_outputs(plan: Plan) -> float:
    """What ``--teacher-outputs`` would save: the passes of each teacher in every epoch, seed and group, less one that writes the file.
    0 where it was asked for."""
    saved, read = 0.0, dict[str, TaskPlan]()
    for step in plan.todo_steps if not plan.request.teacher_outputs else ():
        reading = [
            p.row
            for p in step.cells
            if isinstance(p.row, MethodRow) and row_taps(p.row, list(step.tasks))
        ]
        live = [p.row for p in step.cells if p.needs_live_teacher and p.row not in reading]
        saved += seconds_of(plan.request, _teaching_passes([*reading, *live], step.tasks))
        saved -= seconds_of(plan.request, _teaching_passes(live, step.tasks))
        read |= {task.name: task for task in step.tasks if reading}
    return saved - seconds_of(plan.request, _teaching_passes(["once"], list(read.values())))


def _batch(recipe: Recipe) -> int:
    """Examples that go through a model at a time."""
    return min(recipe.micro_batch or recipe.batch_size, recipe.batch_size)


def epochs_of(row: MethodRow, task: TaskPlan) -> float:
    """Over all counted stages of a row: the recipe's, or the sum of what the stages take from their paper."""
    if task.recipe.name != PAPER:
        return task.recipe.epochs
    stages = row.stages(setup_of([task], {}))
    counted = [
        stage for stage in stages if not stage.extra_steps and kept_terms(stage, row.dropped)
    ]
    return sum(task.recipe.for_stage(stage.paper).epochs for stage in counted)


def choose_jobs(plan: Plan) -> None:
    """Choose how many jobs there are at a time, where that is left open; divide the students among them, and say what all takes."""

    request, elsewhere, on_cpu = (
        plan.request,
        plan.request.is_elsewhere,
        plan.tasks[0].numeric.device == "cpu",
    )
    if request.jobs == 1 or (elsewhere and request.jobs):
        most = request.jobs
    elif elsewhere and request.executor == SLURM:
        most = SLURM_JOBS
    elif elsewhere:
        from bench.measure.ray_cluster import places

        most = places(request.address, request.threads, not on_cpu)
    elif on_cpu:
        most = max(1, usable_cores() // request.threads)
    else:
        most = 0  # several numbers are tried
    known = dict[str, Cost]()  # of all divisions
    _divide(plan, 1, 1, known)
    if request.jobs == 1 or not plan.costs:
        return
    if not request.jobs and not elsewhere and plan.seconds < SHORT_SECONDS:
        return
    numbers = [request.jobs or most] if elsewhere or on_cpu else _share_cards(plan, request.jobs)

    def seconds(jobs: int, parts: int) -> int:
        _divide(plan, jobs, parts, known)
        return round(plan.seconds)  # of several that take as long, the first

    # smaller groups of students share fewer passes of their teacher, and wait less for the longest of them
    _divide(
        plan,
        *min(
            ((jobs, parts) for jobs in numbers for parts in (jobs, 2 * jobs)),
            key=lambda pair: seconds(*pair),
        ),
        known,
    )
    free = None if elsewhere else usable_memory_bytes()
    at_once = min(plan.request.jobs, len(plan.costs))
    if not request.jobs and free is not None:
        at_once = max(1, next((n for n in range(at_once, 0, -1) if memory_of(plan, n) <= free), 1))
    needed = memory_of(plan, at_once)
    plan.request = replace(request, jobs=max(1, at_once))
    plan.jobs_description = f"{at_once} at a time, {needed / 1e9:.1f} GB of memory"
    if free is not None and needed > free:
        plan.jobs_description += f", of which {free / 1e9:.1f} GB are free: fewer --jobs need less"


def memory_of(plan: Plan, jobs: int) -> int:
    """Bytes of so many jobs at a time, at most."""
    return BASE_BYTES + sum(
        sorted((cost.memory for cost in plan.costs.values()), reverse=True)[:jobs]
    )


def _share_cards(plan: Plan, asked: int) -> list[int]:
    """How many jobs at a time may be tried on this machine's accelerators: as many as were ``asked`` for, or all numbers that cores and memory
    allow. Notes in the plan how much longer steps take then: a job keeps a GPU at work for a part of its time only, while others start
    their kernels."""
    cards, threads = accelerators(plan.request), plan.request.threads
    both = [work_and_starts(plan.request, passes_of(plan, step)) for step in plan.todo_steps]
    at_work = sum(work for work, _ in both) / (sum(map(max, both)) or 1.0)
    free = free_on_card(plan.request) if plan.tasks[0].numeric.device == "cuda" else 0
    largest = max(cost.on_card for cost in plan.costs.values())
    most = max(1, min(MOST_SHARING, usable_cores() // (cards * threads), free // largest))
    numbers = [asked] if asked else [cards * each for each in range(1, most + 1)]
    memory = usable_memory_bytes()
    if not asked and memory is not None:
        numbers = [jobs for jobs in numbers if jobs == cards or memory_of(plan, jobs) <= memory]
    for jobs in range(1, max(numbers) + 1):
        each = math.ceil(jobs / cards)
        plan.slowed[jobs] = max(1 + SHARING_COSTS * (each - 1), each * at_work)
    return numbers


def free_on_card(request: Request) -> int:
    """Bytes of the GPU that the request names, or of the first."""
    import torch

    return torch.cuda.mem_get_info(request.device if ":" in request.device else None)[0]


def accelerators(request: Request) -> int:
    """How many of this machine's the request may use."""
    import torch

    return 1 if ":" in request.device else torch.accelerator.device_count()


def too_large_for_card(plan: Plan) -> list[str]:
    """The steps that need more of the GPU's memory than it has free, a line each; or that the jobs that share a GPU do."""
    if plan.tasks[0].numeric.device != "cuda" or plan.request.is_elsewhere:
        return []
    free = free_on_card(plan.request)
    needed = {step.title: plan.costs[step.key].on_card for step in plan.todo_steps}
    lines = [
        f"{title}: about {needs / 1e9:.1f} GB of the GPU's memory, which has {free / 1e9:.1f} GB free; --set micro_batch=8, fewer rows "
        f"or --precision bf16 need less"
        for title, needs in needed.items()
        if needs > free
    ]
    sharing = math.ceil(plan.request.jobs / accelerators(plan.request))
    together = sum(sorted(needed.values(), reverse=True)[:sharing])
    if together > free and not lines:
        lines = [
            f"{sharing} jobs on a GPU: about {together / 1e9:.1f} GB of its memory, which has {free / 1e9:.1f} GB free; fewer --jobs need less"
        ]
    return lines


def _divide(plan: Plan, jobs: int, parts: int, known: dict[str, Cost]) -> None:
    """Divide the work of a plan into about so many parts, for so many jobs at a time. ``known``: costs of steps, which it adds to."""
    plan.request = replace(plan.request, jobs=jobs)
    plan.steps = steps_of(plan, parts)
    vars(plan).pop("todo_steps", None)
    known |= {step.key: cost_of(plan, step) for step in plan.todo_steps if step.key not in known}
    plan.costs = {step.key: known[step.key] for step in plan.todo_steps}
