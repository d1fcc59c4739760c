"""Measure speeds: build the teacher and the students, time them in turns, keep one record of the
session."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.errors import InputError
from bench.progress import Progress
from bench.record.cell import CHECKPOINT
from bench.record.speed_sessions import Conditions, SpeedRecord, write_speed
from bench.request.choices import AUTO
from bench.stats.ratios import FEWEST_ROUNDS

if TYPE_CHECKING:
    from bench.data.tasks import Task
    from bench.measure.latency import Load


@dataclass(frozen=True)
class SpeedRequest:
    """What to time.

    Rows of methods need no trained weights, they are built from configurations;
    ``checkpoint:FOLDER`` has its own.
    """

    methods: str
    teacher: str
    lengths: Sequence[str] = ("32", "128")
    """numbers of tokens; ``task`` for the lengths of ``task``'s development set"""
    batches: Sequence[int] = (1, 32)
    backends: Sequence[str] = ("sdpa",)
    dtype: str = "fp32"
    device: str = "auto"
    threads: int = 2
    rounds: int = 30
    task: str | None = None
    data: str = "sample"
    offline: bool = False
    memory: bool = True
    busy: bool = False
    """time although other processes use the processor; the record says how many cores they used"""
    results: Path = Path("results/runs")

    def checked(self) -> SpeedRequest:
        """The request itself.

        Raises:
            InputError: something should have been typed otherwise; the message says how.
        """
        from bench.data.own_tasks import expand
        from bench.measure.backends import BACKENDS, DTYPES, INT8, check_backends

        if self.rounds < FEWEST_ROUNDS:
            raise InputError(f"--rounds {self.rounds}: an interval needs at least {FEWEST_ROUNDS}")
        if self.dtype not in DTYPES:
            raise InputError(f"--dtype {self.dtype}: choose one of {', '.join(DTYPES)}")
        if self.task is not None and len(expand(self.task)) != 1:
            raise InputError(f"--task {self.task}: name one task, like --task rte")
        if not self.batches or min(self.batches) < 1:
            raise InputError("--batches: give whole numbers from 1, like 1,32")
        if not self.backends:
            raise InputError(f"--backends: choose from {', '.join(BACKENDS)}")
        if INT8 in self.backends and self.dtype != "fp32":
            raise InputError(f"--backends {INT8}: goes with --dtype fp32")
        check_backends(self.backends)
        self._check_lengths()
        return self

    def _check_lengths(self) -> None:
        """Raises InputError: no lengths, or one that is no number of tokens and has no task."""
        if not self.lengths:
            raise InputError("--lengths: give numbers of tokens, like 32,128, or task")
        for length in self.lengths:
            is_number = length.isdecimal() and int(length) >= 1
            if length != "task" and not is_number:
                raise InputError(f"--lengths {length}: give numbers of tokens, or task")
        if "task" in self.lengths:
            if self.task is None:
                raise InputError("the length `task` needs to know which: add --task rte")
            if AUTO in (self.data, self.teacher):
                raise InputError("the length `task` needs --data and --teacher: auto is for run")


def measure(request: SpeedRequest, progress: Progress | None = None) -> tuple[SpeedRecord, Path]:
    """Time everything that was asked for and write the record.

    Raises:
        InputError: bad input, or cells are training on this machine.
    """
    from bench.cache import cache_root
    from bench.data.checkpoints import HUB_CONFIGURED, find
    from bench.make.record import now
    from bench.measure.busy import busy_facts, refuse_bad_times
    from bench.measure.devices import device_of
    from bench.measure.energy import NotCounted, counter_of
    from bench.measure.latency import time_in_turns
    from bench.measure.machine import environment, revision
    from bench.measure.memory import footprint
    from bench.progress import quiet
    from methods.core.models import reads_texts

    progress = progress or Progress()
    request = request.checked()
    started = now()
    device = str(device_of(request.device))
    others = refuse_bad_times(cache_root(), request.threads, request.busy, device)
    quiet()
    systems = _systems(request, progress)
    try:
        counter = counter_of(device)
        energy = counter.name
    except NotCounted as error:
        counter = None
        energy = f"not measured: {error}"

    # all loads before the first timing: one that cannot be made must not cost the minutes of the
    # others
    configs = [model.config for model in systems.values() if not reads_texts(model)]
    loads: dict[tuple[int, str], Load] = {}
    cut: dict[str, str] = {}
    for length, batch in product(request.lengths, request.batches):
        load = _load(request, length, batch, configs)
        # a length that not all models read is cut to the longest that they read; if that is there,
        # it is timed once
        loads[batch, load.name] = load
        if length.isdecimal() and load.name != str(int(length)):
            cut[length] = load.name
    for length, name in cut.items():
        progress.say(f"--lengths {length}: some model reads {name} tokens at most; timed at those")

    # a backend that is named twice is timed once: equal conditions make one table
    timings = []
    for backend, ((batch, _), load) in product(dict.fromkeys(request.backends), loads.items()):
        conditions = Conditions(
            device=device,
            backend=backend,
            dtype=request.dtype,
            threads=request.threads,
            batch=batch,
            length=load.name,
        )
        with progress.task(f"{backend}, batch {batch}, length {load.name}") as update:
            timings += time_in_turns(systems, load, conditions, request.rounds, update, counter)
    footprints = []
    if request.memory:
        with progress.task("memory") as update:
            for number, (name, model) in enumerate(systems.items(), start=1):
                footprints.append(footprint(name, model, device))
                update(number, len(systems))

    # as other records name it, so that a report finds the speeds that belong to it
    teacher = "bert-base-uncased" if request.teacher == AUTO else request.teacher
    if teacher not in HUB_CONFIGURED:
        teacher = find(teacher, offline=request.offline).name
    record = SpeedRecord(
        teacher=teacher,
        timings=timings,
        footprints=footprints,
        energy=energy,
        code=revision(),
        env=environment(device) | busy_facts(others),
        started=started,
        finished=now(),
    )
    return write_speed(request.results, record)


def _systems(request: SpeedRequest, progress: Progress) -> dict[str, Any]:
    """Name -> model.

    The teacher and the rows have random weights; finished checkpoints have their own. Rows that
    need trained weights to be timed are left out.

    Raises:
        InputError: nothing is left; or a checkpoint cannot be opened, reads another vocabulary than
            the teacher, or ends early.
    """
    from bench.data.checkpoints import config_from_name
    from bench.data.own_tasks import expand
    from bench.plan.spelling import parse_rows
    from bench.plan.untrained import teacher_model, untrained_rows
    from methods.core.models import leaves_early

    config = config_from_name(request.teacher, request.offline)
    systems: dict[str, Any] = {"teacher": teacher_model(config)}
    typed = parse_rows(request.methods)
    if typed.in_8_bits:
        raise InputError(
            "--methods: rows are timed without +int8; --backends onnx-int8 times them in 8 bits"
        )
    for row, models in untrained_rows(typed.rows, config, progress.say):
        if row.method.own_encoder and "task" in request.lengths:
            raise InputError(
                f"{row.spelling}: it has another vocabulary than the teacher, whose examples are "
                "read"
            )
        if row.method.writes:
            why = "records of its runs have the times of writing"
        elif any(leaves_early(model) for model in models.values()):
            why = "sequences leave it early, which trained weights and real text decide"
        else:
            systems |= models
            continue
        progress.say(f"{row.spelling} is not timed: {why}")
    task = expand(request.task)[0][0] if request.task else None
    for name in typed.given:
        systems[name] = _finished_model(name, task, request)
    if len(systems) == 1:
        raise InputError(
            f"--methods {request.methods}: none of these rows can be timed without training; name "
            "another one"
        )
    return systems


def _finished_model(name: str, task: Task | None, request: SpeedRequest) -> Any:
    """The model of a finished checkpoint.

    Args:
        name: ``checkpoint:FOLDER``, as it was typed.

    Raises:
        InputError: no such model, or one that cannot be timed beside the others.
    """
    from bench.data.checkpoints import find, hash_of_tokenizer
    from bench.make.teacher import base_model
    from methods.core.models import leaves_early, reads_texts

    kind, _, path = name.partition(":")
    if kind != CHECKPOINT:
        raise InputError(f"{name}: predictions are no model that could be timed; leave it out")
    checkpoint = find(path, task, request.offline, ours=True, asked=name)
    model = base_model(checkpoint.folder, checkpoint.config.num_labels)
    if leaves_early(model) or reads_texts(model):
        raise InputError(
            f"{name}: only models that read token ids and use all their layers can be timed"
        )
    if "task" in request.lengths:
        teacher = find(request.teacher, offline=request.offline)
        if hash_of_tokenizer(checkpoint) != hash_of_tokenizer(teacher):
            raise InputError(
                f"{name}: it has another vocabulary than {teacher.asked}, whose examples are read"
            )
    return model


def _load(request: SpeedRequest, length: str, batch: int, configs: Sequence[Any]) -> Load:
    """Sequences of one length that models of these configurations can all read, or those of a
    task."""
    from bench.data.checkpoints import find, longest_input, tokenizer_of
    from bench.data.encoding import encode
    from bench.data.own_tasks import expand
    from bench.data.sources import source_for
    from bench.measure.latency import full_length, load_of_task

    longest = min(map(longest_input, configs))
    if length != "task":
        smallest = min(config.vocab_size for config in configs)
        return full_length(batch, min(int(length), longest), smallest)
    ((task, _),) = expand(request.task or "")
    source = source_for(task, request.data, request.offline)
    checkpoint = find(request.teacher, task, request.offline)
    split = source.load(task, task.evaluation[0])
    most = min(longest, task.max_length)
    encoded = encode(tokenizer_of(checkpoint), split, most, task.truncation)
    return load_of_task(f"{task.name} of {source.slug}", encoded.tokens, batch)
