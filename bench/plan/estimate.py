"""How long each step of a plan takes on this machine, its memory and disk, and how many jobs run at
a time.

A step is a list of passes of models over examples. On a CPU their time is their FLOPs over a
measured rate; on an accelerator it is the longer of that and of starting its kernels one by one.
Memory is a constant times weights, tokens and batch. Nothing is trained for it, and times are right
within a factor of two.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
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
from bench.plan.planned_tasks import setup_of
from bench.plan.scheduled_stages import kept_terms
from bench.plan.spelling import MethodRow
from bench.plan.steps import steps_of
from bench.plan.training_texts import TrainingTexts
from bench.record.cell import PREDICTIONS
from bench.record.recipe import PAPER, Recipe
from bench.request.choices import SLURM, SLURM_JOBS

if TYPE_CHECKING:
    from bench.data.corpus import Corpus
    from bench.plan.plan import ArtefactPlan, Planned
    from bench.plan.untrained import Counted
    from bench.request import Request

EFFICIENCY = 0.6
"""The part of the matrix-multiplication rate that whole training steps reach, as seen in fp32.

On a GPU half of it is taken in other formats, chosen by hand, because what is no product of
matrices takes as long as before. Fast kernels are not counted: steps of three methods gained 1.4 to
2.0 times."""
BF16_EFFICIENCY = 0.4
"""The same in bf16 on a CPU: steps under a teacher of BERT-base's size reached 0.23 to 0.61, short
sentences the least, long texts the most (AMD EPYC, family 26, model 2; reports/LOG.md)."""
RECORD_BYTES = 60_000
"""The size of a record with its predictions: the largest reference record has 55 kB."""
MEAN_PIECE_TOKENS = 107
"""Mean tokens of a piece of text from --corpus: of IMDb's reviews, at most 128."""
MEAN_SAMPLE_PIECE_TOKENS = 16
"""Mean tokens of a piece of the generated corpus; chosen by hand."""
TOKENS_READ_A_SECOND = 330_000
"""Tokens of a text that BERT's tokenizer reads on one core (AMD EPYC, family 25, model 1):
918,000 in 2.8 s. An H200 trains on them as fast."""
BASE_BYTES = 456_000_000
"""A process with torch, transformers and datasets that has trained a tiny student: peak
proportional set size, Linux, torch 2.13."""
BYTES_A_TOKEN = 240
BYTES_AN_EXAMPLE = 512
"""Texts and their tokens in memory, measured with 2,031,986 tokens of 50,000 pairs of sentences."""
HELD_BYTES = 4
"""Bytes of each weight of a model that answers."""
TRAINED_BYTES = 16
"""Bytes of each weight of a model that is trained: with its gradient and two moments of the
optimiser."""
ACTIVATION_BYTES = 10.0
"""Bytes for each MAC of a batch, divided by the width: a layer of BERT keeps some 17 states of a
token and 5 attention scores in fp32."""
LONG_BATCH = 1.5
"""Tokens of a large batch over those of a mean one; chosen by hand."""
SHORT_SECONDS = 60.0
"""A plan that one job does in less time is done in this process: further processes need some
seconds to start."""
KERNELS_A_PASS = 20
KERNELS_A_FROZEN_MODULE = 0.95
KERNELS_A_STEP = 24
KERNELS_A_TRAINED_MODULE = 3.75
"""Kernels that a pass of a frozen model, or a training step, starts on an accelerator, and those
of each module without parts: 164 were counted of 12 frozen layers of BERT, 599 of a step that
trains 12, and 238 of one that trains 4."""
SECONDS_A_KERNEL = 56e-6
"""In which a training starts one kernel: trainings of BERT-base's shape and of its students on
an H200 beside 16 cores of an Intel Xeon took 50 to 56 us a counted kernel. A slower host takes
longer."""
MOST_SHARING = 8
"""Jobs on one GPU, at most."""
SHARING_COSTS = 0.09
"""What each further job on a GPU adds to the time of all: eight took 18 s, each with the work
that one did in 11 s (H200)."""
FITTING = 8
"""FLOPs of fitting a truncated teacher, as fp32 ones: 7.6 and 8.7 times those of its
regressions, of 6 layers of 384 and of 12 of 768."""
CARD_BYTES = 600_000_000
"""A GPU's memory that is taken before anything lies on it: the context and the libraries of
CUDA."""
WINDOWS = 8


@lru_cache
def flops_per_second(threads: int, precision: str = "fp32") -> float:
    """The rate of matrix products of BERT's shapes on this CPU, in FLOPs a second.

    It is the best of some short windows, as others may be at work. Some CPUs have instructions for
    bf16, and others are slower in it than in fp32.
    """
    import torch
    from torch.utils.benchmark import Timer

    number = torch.bfloat16 if precision == "bf16" else torch.float32
    matrices = {
        "a": torch.randn(512, 384, dtype=number),
        "b": torch.randn(1536, 384, dtype=number),
    }
    timer = Timer("a @ b.t()", globals=matrices, num_threads=threads)
    return float(2 * 512 * 384 * 1536 / min(timer.timeit(4).mean for _ in range(WINDOWS)))


@lru_cache
def rates_of_card(device: str, precision: str, side: int = 4096) -> tuple[float, float]:
    """FLOPs a second of large products on a device, and seconds in which a training starts one
    kernel there.

    The first is measured on the device, in this precision, in less than a second. The second is
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
    is_never_bf16: bool = False
    """whether it is computed in fp32 where ``--precision bf16`` asks for bf16"""

    def macs(self, examples: float, length: float) -> float:
        """MACs of a forward pass over so many examples of this length."""
        return self.model.cost.macs(
            examples * length, SQUARED_LENGTHS * examples * length**2, examples
        )


def seconds_of(request: Request, passes: Iterable[Passes]) -> float:
    """How long these passes take on this machine."""
    return max(work_and_starts(request, passes))


def work_and_starts(request: Request, passes: Iterable[Passes]) -> tuple[float, float]:
    """Seconds in which these passes compute, and in which an accelerator starts their kernels
    one by one."""
    import torch

    # FLOPs by their precision, and kernels that are started
    flops = {"fp32": 0.0, request.precision: 0.0}
    started = 0.0
    for each in passes:
        forward = 2 * each.macs(each.examples, each.length)
        batches = each.examples / each.batch
        precision = request.precision
        if each.is_never_bf16 and precision == "bf16":
            precision = "fp32"
        if each.trained:
            flops[precision] += 3 * forward  # the backward pass costs twice the forward pass
            started += batches * (KERNELS_A_STEP + KERNELS_A_TRAINED_MODULE * each.model.modules)
        else:
            flops[precision] += forward
            started += batches * (KERNELS_A_PASS + KERNELS_A_FROZEN_MODULE * each.model.modules)

    # at the rates of this machine
    device = request.device
    is_on_card = device != "cpu" and torch.accelerator.is_available()
    if is_on_card and device == "auto":
        device = str(torch.accelerator.current_accelerator())
    seconds = 0.0
    start = 0.0
    for precision, count in flops.items():
        if not count:
            continue
        reached = EFFICIENCY
        if is_on_card:
            rate, start = rates_of_card(device, precision)
            if precision != "fp32":
                reached = EFFICIENCY / 2
        else:
            rate = flops_per_second(request.threads, precision)
            if precision == "bf16":
                reached = BF16_EFFICIENCY
        seconds += count / (reached * rate)
    return seconds, started * start


def cost_of(plan: Plan, step: Step) -> Cost:
    """Estimate the time, memory and disk of a step."""
    entry = step.artefact
    passes = passes_of(plan, step)

    # time, and the data in memory
    seconds = seconds_of(plan.request, passes)
    data = 0.0
    for task in step.tasks:
        an_example = BYTES_AN_EXAMPLE + BYTES_A_TOKEN * task.mean_tokens
        data += sum(task.data.rows.values()) * an_example
    if entry is not None:
        beside = _beside_passes(plan.request, entry)
        seconds += beside.seconds
        data += beside.memory

    # models and activations, which lie on an accelerator where there is one
    trained = sum(each.model.weights for each in passes if each.trained)
    models = _bytes_of_models(step, passes, trained)
    on_card = round(models + _bytes_of_activations(step, passes))

    # what is kept when the step is done
    is_kept = step.slot is not None or plan.request.save_students is not None
    disk = RECORD_BYTES * len(step.cells)
    if is_kept:
        disk += 4 * trained
    if step.kind == OUTPUTS_STEP and step.tasks[0].outputs is not None:
        disk += step.tasks[0].outputs.disk_bytes
    return Cost(seconds, round(BASE_BYTES + data) + on_card, CARD_BYTES + on_card, disk)


def _beside_passes(request: Request, entry: ArtefactPlan) -> Cost:
    """Seconds and memory of an artefact besides the passes of its models: reading text, and
    fitting."""
    from methods.core.artefacts import OBSERVED_TOKENS, TruncatedShape

    seconds = 0.0
    memory = 0
    if entry.text is not None:
        memory += BYTES_A_TOKEN * entry.text.budget
        if entry.stages:
            seconds += entry.text.budget / TOKENS_READ_A_SECOND
    if isinstance(entry.artefact, TruncatedShape):
        # what its states are fitted by, in double precision on the CPU
        layers = entry.checkpoint.config.num_hidden_layers
        wide = entry.checkpoint.config.hidden_size
        kept = entry.artefact.shape.hidden
        rows = OBSERVED_TOKENS * (layers + 1 + 2 * entry.artefact.shape.layers)
        memory += 16 * OBSERVED_TOKENS * wide * (2 * layers + 1)
        flops = FITTING * 2 * rows * kept * (kept + wide)
        seconds += flops / flops_per_second(request.threads)
    return Cost(seconds, memory)


def _bytes_of_models(step: Step, passes: Sequence[Passes], trained: int) -> int:
    """Bytes of the models of a step, of which so many weights are ``trained``."""
    learning = {each.model for each in passes if each.trained}
    held = {each.model for each in passes} - learning
    # an ensemble is several teachers of one form
    copies = len(step.tasks if step.artefact is None else step.artefact.teacher_seeds)
    held_weights = max(1, copies) * sum(model.weights for model in held)
    return TRAINED_BYTES * trained + HELD_BYTES * held_weights


def _bytes_of_activations(step: Step, passes: Sequence[Passes]) -> float:
    """Bytes that the largest batch of a step keeps."""
    source = step.tasks[0] if step.artefact is None else step.artefact
    largest = 0.0
    for each in passes:
        macs = each.macs(each.batch, LONG_BATCH * each.length)
        # what is only answered keeps nothing for a backward pass; an artefact may be made from
        # gradients of the teacher
        if not each.trained and step.artefact is None:
            macs *= 0.1
        largest = max(largest, macs)
    return ACTIVATION_BYTES * largest / source.checkpoint.config.hidden_size


def _piece_tokens(plan: Plan, text: Corpus) -> float:
    """Tokens of a mean piece of the text that something is trained on."""
    if isinstance(text, TrainingTexts):
        return text.mean_piece
    return MEAN_PIECE_TOKENS if plan.request.texts else MEAN_SAMPLE_PIECE_TOKENS


def passes_of(plan: Plan, step: Step) -> list[Passes]:
    """Which models read how many examples in a step, forwards and backwards."""
    from bench.plan.untrained import teacher_counts

    if step.artefact is not None:
        return _artefact_passes(plan, step.artefact)
    task = step.tasks[0]
    teacher = teacher_counts(task.checkpoint)
    tokens = task.mean_tokens
    batch = task.teacher_recipe.batch_size
    # what a teacher does by itself: it is tuned, writes its outputs, or is asked for words
    if step.kind == TEACHER_STEP:
        examples = len(task.train) * task.teacher_recipe.epochs
        return [Passes(teacher, examples, tokens, batch, trained=True)]
    if step.kind == OUTPUTS_STEP:
        return [Passes(teacher, task.training_rows, tokens, batch)]
    if step.kind == AUGMENTATION_STEP:
        # about every second token is a word that is asked for, next to its whole sentence
        words = 0.5 * tokens if task.masked_head is not None else 0.0
        return [Passes(teacher, words * len(task.train), 2 * tokens, batch)]

    # students, or models that are scored
    tasks = {each.name: each for each in step.tasks}
    passes: list[Passes] = []
    for planned in step.cells:
        if planned.cell.method != PREDICTIONS:
            passes += _cell_passes(planned, tasks[planned.cell.tasks[0]], teacher)
    taught = [planned.row for planned in step.cells if planned.needs_live_teacher]
    return passes + _teaching_passes(taught, step.tasks)


def _artefact_passes(plan: Plan, entry: ArtefactPlan) -> list[Passes]:
    """The training of an artefact on text, and the passes in which its teacher reads for it.

    Trainings and answers are in bf16 where that is asked for; what else is computed is in fp32.
    """
    from bench.plan.untrained import teacher_counts, text_student_counts
    from methods.core.artefacts import OBSERVED_TOKENS, ComputedArtefact, TruncatedShape

    passes: list[Passes] = []
    teacher = teacher_counts(entry.checkpoint)
    batch = Recipe.batch_size
    # over text: the training of a student beside its teacher, or the teacher alone
    if entry.text is not None:
        length = _piece_tokens(plan, entry.text.corpus)
        pieces = entry.text.budget / length
        # three times, as it may be made from gradients: a backward pass costs two forward ones
        read = 3 * pieces
        if entry.stages:
            student = text_student_counts(entry)
            passes.append(Passes(student, pieces, length, batch, trained=True))
            read = pieces
        elif isinstance(entry.artefact, TruncatedShape):
            read = min(OBSERVED_TOKENS / length, pieces)
        passes.append(Passes(teacher, read, length, batch, is_never_bf16=not entry.stages))
    # over the examples of a task, counted with a backward pass too
    if entry.task is not None and entry.reads_rows:
        artefact = entry.artefact
        rows = len(entry.task.train)
        is_computed = isinstance(artefact, ComputedArtefact)
        if is_computed:
            # masks and importances are those of the first examples
            rows = min(rows, artefact.settings.get("examples", rows))
        read = 3 * max(1.0, artefact.row_epochs) * rows
        length = entry.task.mean_tokens
        passes.append(Passes(teacher, read, length, batch, is_never_bf16=is_computed))
    return passes


def _cell_passes(planned: Planned, task: TaskPlan, teacher: Counted) -> list[Passes]:
    """The training of a student, and the scoring of it or of a model that is there."""
    from bench.plan.untrained import student_counts

    passes: list[Passes] = []
    model = teacher
    row = planned.row
    if isinstance(row, MethodRow):
        model = student_counts(row, task.checkpoint)
        examples = task.training_rows * epochs_of(row, task)
        stages = row.stages(setup_of([task], {}))
        # [PAD] that fills a sequence is computed like any token
        filled = max([task.mean_tokens, *(stage.padding for stage in stages)])
        passes.append(Passes(model, examples, filled, _batch(task.recipe), trained=True))
    # every evaluation set is answered once, also one without labels
    scored = sum(count for name, count in task.data.rows.items() if name != "train")
    passes.append(Passes(model, scored, task.mean_tokens, task.recipe.batch_size))
    return passes


def _teaching_passes(taught: Sequence[object], tasks: Sequence[TaskPlan]) -> list[Passes]:
    """The passes of the teachers, which answer up to the end of the longest training of these
    students.

    Args:
        taught: rows; once through the examples where none of them has epochs, and no pass without
            one.
    """
    from bench.plan.untrained import teacher_counts

    if not taught:
        return []
    rows = [row for row in taught if isinstance(row, MethodRow)]
    passes = []
    for task in tasks:
        epochs = max((epochs_of(row, task) for row in rows), default=1.0)
        teacher = teacher_counts(task.checkpoint)
        examples = task.training_rows * epochs
        passes.append(Passes(teacher, examples, task.mean_tokens, _batch(task.recipe)))
    return passes


def seconds_saved_by_outputs(plan: Plan) -> float:
    """Estimate the seconds that ``--teacher-outputs`` would save; 0 where it was asked for.

    They are the passes of each teacher in every epoch, seed and group, less one that writes the
    file.
    """
    if plan.request.teacher_outputs:
        return 0.0
    saved = 0.0
    read: dict[str, TaskPlan] = {}
    for step in plan.todo_steps:
        # rows that would read the file, and others that need the teacher itself
        tasks = list(step.tasks)
        rows = [planned.row for planned in step.cells if isinstance(planned.row, MethodRow)]
        reading = [row for row in rows if row_taps(row, tasks)]
        taught = [planned.row for planned in step.cells if planned.needs_live_teacher]
        live = [row for row in taught if row not in reading]
        # the passes of their teachers, less those for the rows that still need one
        saved += seconds_of(plan.request, _teaching_passes([*reading, *live], tasks))
        saved -= seconds_of(plan.request, _teaching_passes(live, tasks))
        if reading:
            read |= {task.name: task for task in tasks}
    # each file is written by one pass
    return saved - seconds_of(plan.request, _teaching_passes(["once"], list(read.values())))


def _batch(recipe: Recipe) -> int:
    """Examples that go through a model at a time."""
    return min(recipe.micro_batch or recipe.batch_size, recipe.batch_size)


def epochs_of(row: MethodRow, task: TaskPlan) -> float:
    """Epochs of all counted stages of a row: the recipe's, or the sum of what the stages take
    from their paper."""
    if task.recipe.name != PAPER:
        return task.recipe.epochs
    epochs = 0.0
    for stage in row.stages(setup_of([task], {})):
        if not stage.extra_steps and kept_terms(stage, row.dropped):
            epochs += task.recipe.for_stage(stage.paper).epochs
    return epochs


def choose_jobs(plan: Plan) -> Plan:
    """The plan with its students divided among as many jobs at a time as were asked for, or as
    suit it."""
    request = plan.request
    known: dict[str, Cost] = {}  # of all divisions
    alone = _divided(plan, 1, 1, known)
    # one job was asked for, or nothing is to do
    if request.jobs == 1 or not alone.costs:
        return alone
    is_open = not request.jobs
    if is_open and not request.is_elsewhere and alone.seconds < SHORT_SECONDS:
        return alone

    # the division that takes the least time; of several that take as long, the first
    sharing = _sharing(alone, request.jobs)
    alone = replace(alone, slowed=sharing.slowed)
    tried = []
    for jobs in sharing.numbers:
        # smaller groups of students share fewer passes of their teacher, and wait less for the
        # longest of them
        for parts in (jobs, 2 * jobs):
            tried.append(_divided(alone, jobs, parts, known))
    best = min(tried, key=lambda division: round(division.seconds))

    # no more jobs than there are steps, and, where the number is open, than fit into memory
    at_once = min(best.request.jobs, len(best.costs))
    free = None if request.is_elsewhere else usable_memory_bytes()
    if is_open and free is not None:
        while at_once > 1 and memory_of(best, at_once) > free:
            at_once -= 1
    needed = memory_of(best, at_once)
    description = f"{at_once} at a time, {needed / 1e9:.1f} GB of memory"
    if free is not None and needed > free:
        description += f", of which {free / 1e9:.1f} GB are free: fewer --jobs need less"
    chosen = replace(request, jobs=max(1, at_once))
    return replace(best, request=chosen, jobs_description=description)


def _divided(plan: Plan, jobs: int, parts: int, known: dict[str, Cost]) -> Plan:
    """The plan with its work in about so many parts, for so many jobs at a time.

    Args:
        known: costs of steps, which it adds to.
    """
    request = replace(plan.request, jobs=jobs)
    divided = replace(plan, request=request, steps=steps_of(plan, parts))
    costs = {}
    # divisions have many steps in common, whose costs are estimated once
    for step in divided.todo_steps:
        if step.key not in known:
            known[step.key] = cost_of(divided, step)
        costs[step.key] = known[step.key]
    return replace(divided, costs=costs)


def memory_of(plan: Plan, jobs: int) -> int:
    """Bytes of so many jobs at a time, at most."""
    largest = sorted((cost.memory for cost in plan.costs.values()), reverse=True)[:jobs]
    return BASE_BYTES + sum(largest)


@dataclass(frozen=True)
class _Sharing:
    """How many jobs at a time may be tried."""

    numbers: list[int]
    slowed: dict[int, float]
    """so many jobs at a time -> how many times longer each of their steps takes"""


def _sharing(plan: Plan, asked: int) -> _Sharing:
    """The number of jobs that was ``asked`` for, or, where that is 0, those that machine or
    cluster allow."""
    request = plan.request
    on_cpu = plan.tasks[0].numeric.device == "cpu"
    if request.is_elsewhere:
        return _Sharing([asked or _jobs_elsewhere(request, on_cpu)], {})
    if on_cpu:
        return _Sharing([asked or max(1, usable_cores() // request.threads)], {})
    return _share_cards(plan, asked)


def _jobs_elsewhere(request: Request, on_cpu: bool) -> int:
    """How many jobs a cluster does at a time."""
    if request.executor == SLURM:
        return SLURM_JOBS
    from bench.measure.ray_cluster import places

    return places(request.address, request.threads, not on_cpu)


def _share_cards(plan: Plan, asked: int) -> _Sharing:
    """How many jobs may share this machine's accelerators: as many as were ``asked`` for, or all
    numbers that cores and memory allow.

    A job keeps a GPU at work for a part of its time only, while others start their kernels.
    """
    cards = accelerators(plan.request)

    # the part of its time in which one job keeps a card at work
    working = 0.0
    taken = 0.0
    for step in plan.todo_steps:
        work, starts = work_and_starts(plan.request, passes_of(plan, step))
        working += work
        taken += max(work, starts)
    at_work = working / (taken or 1.0)

    # the numbers that cores, cards and memory allow
    if asked:
        numbers = [asked]
    else:
        largest = max(cost.on_card for cost in plan.costs.values())
        free = free_on_card(plan.request) if plan.tasks[0].numeric.device == "cuda" else 0
        cores = usable_cores() // (cards * plan.request.threads)
        most = max(1, min(MOST_SHARING, cores, free // largest))
        numbers = [cards * each for each in range(1, most + 1)]
        memory = usable_memory_bytes()
        if memory is not None:
            numbers = [jobs for jobs in numbers if jobs == cards or memory_of(plan, jobs) <= memory]

    # each further job costs all of them a little; jobs with more work than one card has time
    # for wait for one another
    slowed = {}
    for jobs in range(1, max(numbers) + 1):
        each = math.ceil(jobs / cards)
        slowed[jobs] = max(1 + SHARING_COSTS * (each - 1), each * at_work)
    return _Sharing(numbers, slowed)


def free_on_card(request: Request) -> int:
    """Bytes that are free on the GPU that the request names, or on the first."""
    import torch

    return torch.cuda.mem_get_info(request.device if ":" in request.device else None)[0]


def accelerators(request: Request) -> int:
    """How many of this machine's accelerators the request may use."""
    import torch

    return 1 if ":" in request.device else torch.accelerator.device_count()


def too_large_for_card(plan: Plan) -> list[str]:
    """A line for each step that needs more of the GPU's memory than is free; else for jobs that
    do together."""
    if plan.tasks[0].numeric.device != "cuda" or plan.request.is_elsewhere:
        return []
    free = free_on_card(plan.request)
    has_free = f"has {free / 1e9:.1f} GB free"
    needed = {step.title: plan.costs[step.key].on_card for step in plan.todo_steps}
    lines = []
    for title, needs in needed.items():
        if needs > free:
            lines.append(
                f"{title}: about {needs / 1e9:.1f} GB of the GPU's memory, which {has_free}; "
                "--set micro_batch=8, fewer rows or --precision bf16 need less"
            )
    if lines:
        return lines
    # at worst the steps that need most lie on one card at a time
    sharing = math.ceil(plan.request.jobs / max(1, accelerators(plan.request)))
    together = sum(sorted(needed.values(), reverse=True)[:sharing])
    if together > free:
        lines.append(
            f"{sharing} jobs on a GPU: about {together / 1e9:.1f} GB of its memory, which "
            f"{has_free}; fewer --jobs need less"
        )
    return lines
