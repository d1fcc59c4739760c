"""Measure speeds: build the teacher and the students, time them in turns, keep one record of the session."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.errors import InputError, unknown
from bench.plan.request import AUTO
from bench.progress import Progress
from bench.record.cell import CHECKPOINT
from bench.record.speed_sessions import BUSY_CORES, Conditions, Footprint, SpeedRecord, Timing, write_speed

if TYPE_CHECKING:
    from bench.measure.energy import Counter
    from bench.measure.latency import Load

FEWEST_ROUNDS = 6


@dataclass(frozen=True)
class SpeedRequest:
    """What to time. Rows of methods need no trained weights, they are built from configurations; ``checkpoint:FOLDER`` has its own."""

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
        """Raises InputError: naming what should have been typed."""
        from bench.data.tasks import expand
        from bench.measure.latency import DTYPES

        if self.rounds < FEWEST_ROUNDS:
            raise InputError(f"--rounds {self.rounds}: an interval needs at least {FEWEST_ROUNDS}")
        if self.threads < 1:
            raise InputError(f"--threads {self.threads}: should be at least 1")
        if self.dtype not in DTYPES:
            raise InputError(f"--dtype {self.dtype}: choose one of {', '.join(DTYPES)}")
        if self.task is not None and len(expand(self.task)) != 1:
            raise InputError(f"--task {self.task}: name one task, like --task rte")
        if not self.batches or min(self.batches) < 1:
            raise InputError("--batches: give whole numbers from 1, like 1,32")
        self._check_backends()
        self._check_lengths()
        return self

    def _check_backends(self) -> None:
        from bench.measure.backends import BACKENDS, INT8, check_installed

        if not self.backends:
            raise InputError(f"--backends: choose from {', '.join(BACKENDS)}")
        for backend in self.backends:
            if backend not in BACKENDS:
                raise unknown("backend", backend, BACKENDS)
        if INT8 in self.backends and self.dtype != "fp32":
            raise InputError(f"--backends {INT8}: goes with --dtype fp32")
        check_installed(self.backends)

    def _check_lengths(self) -> None:
        if not self.lengths:
            raise InputError("--lengths: give numbers of tokens, like 32,128, or task")
        for length in self.lengths:
            if length == "task":
                if self.task is None:
                    raise InputError("the length `task` needs to know which: add --task rte")
                if AUTO in (self.data, self.teacher):
                    raise InputError("the length `task` needs --data and --teacher: auto is for run")
            elif not length.isdecimal() or int(length) < 1:
                raise InputError(f"--lengths {length}: give numbers of tokens, or task")


def measure(request: SpeedRequest, progress: Progress | None = None) -> tuple[SpeedRecord, Path]:
    """Time everything that was asked for and write the record.

    Raises:
        InputError: bad input, or cells are training on this machine.
    """
    from bench.cache import cache_root
    from bench.measure.busy_mark import refuse_while_training
    from bench.measure.devices import device_of
    from bench.measure.machine import environment, revision
    from bench.progress import quiet

    progress = progress or Progress()
    request = request.checked()
    refuse_while_training(cache_root(), "times taken beside them mean nothing. Wait for them to end", here_alone=True)
    others = _cores_of_others(request)
    quiet()
    started = _now()
    device = str(device_of(request.device))
    systems = _systems(request, progress)
    counter, energy = _energy_counter(device)
    record = SpeedRecord(
        teacher="bert-base-uncased" if request.teacher == "auto" else _teacher_name(request),
        timings=_timings(request, systems, device, counter, progress),
        footprints=_footprints(systems, device, progress) if request.memory else [],
        energy=energy,
        code=revision(),
        env=environment(device) | ({} if others is None else {"busy_cores": round(others, 2)}),
        started=started,
        finished=_now(),
    )
    return write_speed(request.results, record)


def _cores_of_others(request: SpeedRequest) -> float | None:
    """How many cores other processes use; None where the machine does not tell.

    Raises:
        InputError: too many, and nobody said that times are wanted all the same.
    """
    from bench.measure.busy_cores import busy_cores

    others = busy_cores()
    if others is not None and others >= BUSY_CORES and not request.busy:
        raise InputError(
            f"other processes use {others:.1f} cores of this machine, so times mean little. Wait until they end; or add "
            f"--busy, and the report will say how busy it was"
        )
    return others


def _energy_counter(device: str) -> tuple[Counter | None, str]:
    """What counts energy on this machine, and its name; or None, and why nothing does."""
    from bench.measure.energy import NotCounted, counter_of

    try:
        counter = counter_of(device)
    except NotCounted as error:
        return None, f"not measured: {error}"
    return counter, counter.name


def _systems(request: SpeedRequest, progress: Progress) -> dict[str, Any]:
    """Name -> model. The teacher and the rows have random weights; finished checkpoints have their own. Rows that need trained weights
    to be timed are left out."""
    from bench.data.checkpoints import config_from_name
    from bench.plan.spelling import parse_rows
    from bench.plan.untrained import teacher_model, untrained_rows
    from methods.models import leaves_early

    config = config_from_name(request.teacher, request.offline)
    systems: dict[str, Any] = {"teacher": teacher_model(config)}
    trained, given = parse_rows(request.methods)
    for row, models in untrained_rows(trained, config, progress.say):
        if any(map(leaves_early, models.values())):
            progress.say(
                f"{row.spelling} is not timed: sequences leave it early, which trained weights and real text decide"
            )
            continue
        systems |= models
    systems |= {f"{CHECKPOINT}:{path}": _finished(path, request) for path in given}
    if len(systems) == 1:
        raise InputError(
            f"--methods {request.methods}: none of these rows can be timed without training; name another one"
        )
    return systems


def _finished(path: str, request: SpeedRequest) -> Any:
    """A finished classifier with its own weights.

    Raises:
        InputError: it cannot be opened, reads another vocabulary than the teacher, or ends early for some sequences.
    """
    from bench.data.checkpoints import find, hash_of_tokenizer
    from bench.data.tasks import expand
    from bench.make.teacher import base_model
    from methods.models import leaves_early, reads_texts

    task = expand(request.task)[0][0] if request.task else None
    found = find(path, task, request.offline, ours=True, asked=f"{CHECKPOINT}:{path}")
    model = base_model(found, found.config.num_labels)
    if leaves_early(model) or reads_texts(model):
        raise InputError(f"{found.asked}: only models that read token ids and use all their layers can be timed")
    if "task" in request.lengths:
        teacher = find(request.teacher, offline=request.offline)
        if hash_of_tokenizer(found) != hash_of_tokenizer(teacher):
            raise InputError(f"{found.asked}: it has another vocabulary than {teacher.asked}, whose examples are read")
    return model


def _timings(
    request: SpeedRequest, systems: Mapping[str, Any], device: str, counter: Counter | None, progress: Progress
) -> list[Timing]:
    """Every system under every combination of backend, length and batch."""
    import torch

    from bench.measure.latency import Instruments, stopwatch, time_in_turns

    instruments = Instruments(stopwatch(torch.device(device)), counter)
    # all loads before the first timing: one that cannot be made must not cost the minutes of the others
    loads = [(batch, _load(request, length, batch)) for length, batch in product(request.lengths, request.batches)]
    timings: list[Timing] = []
    for backend, (batch, load) in product(request.backends, loads):
        conditions = Conditions(
            device=device,
            backend=backend,
            dtype=request.dtype,
            threads=request.threads,
            batch=batch,
            length=load.name,
        )
        with progress.task(f"{backend}, batch {batch}, length {load.name}") as update:
            timings += time_in_turns(systems, load, conditions, request.rounds, update, instruments)
    return timings


def _load(request: SpeedRequest, length: str, batch: int) -> Load:
    """Sequences of one length, or those of a task."""
    from bench.data.checkpoints import config_from_name
    from bench.measure.latency import full_length

    if length == "task":
        return _task_load(request, batch)
    config = config_from_name(request.teacher, request.offline)
    return full_length(batch, min(int(length), config.max_position_embeddings), config.vocab_size)


def _footprints(systems: Mapping[str, Any], device: str, progress: Progress) -> list[Footprint]:
    """Size and memory of each system, in a process of its own."""
    from bench.measure.memory import footprint

    found = []
    with progress.task("memory") as update:
        for number, (name, model) in enumerate(systems.items(), start=1):
            found.append(footprint(name, model, device))
            update(number, len(systems))
    return found


def _teacher_name(request: SpeedRequest) -> str:
    """As records name it, so that a report finds the speeds that belong to it."""
    from bench.data.checkpoints import HUB_CONFIGURED, find

    known = request.teacher in HUB_CONFIGURED
    return request.teacher if known else find(request.teacher, offline=request.offline).name


def _task_load(request: SpeedRequest, batch: int) -> Load:
    from bench.data.checkpoints import find, tokenizer_of
    from bench.data.encoding import encode
    from bench.data.sources import source_for
    from bench.data.tasks import expand
    from bench.measure.latency import load_of_task

    assert request.task is not None
    ((task, _),) = expand(request.task)
    source = source_for(task, request.data, request.offline)
    checkpoint = find(request.teacher, task, request.offline)
    split = source.load(task, task.evaluation[0])
    length = min(128, checkpoint.config.max_position_embeddings)
    name = f"{task.name} of {source.slug}"
    return load_of_task(name, encode(tokenizer_of(checkpoint), split, length).tokens, batch)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
