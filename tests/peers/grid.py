"""A grid of several methods: ours together over one pass of the teacher, peers one after the other.

The parts are measured in the same rounds; the sums are computed from their medians:

- **ours**: the product's loop with all methods as one group, over the same batches. Of each step it gives the seconds
  of each student, of the teacher's pass that they share, and of the rest. A stage counts its plain steps, and the four
  that measure shares of the gradient.
- **ours, kept**: the same with the teacher's outputs in a file: one pass that writes them, then reading.
- **ours, kept, fast**: that with ``--kernels fast``, where the machine has them.
- **peers**: each method alone. A step is a padded pass of the teacher, as fast as transformers does it, and *our*
  student's step without any measurement. No peer has these methods, so their student is taken to be as fast as ours:
  that is in favour of the peers, whose students work on padding.

Stages on unlabelled text, which a grid does once for each shape, are on neither side.
"""

from __future__ import annotations

import functools
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from figures import interval
from our_loop import kept_teacher, run
from padded import OUTPUTS, Rows, body_of, padded_batch
from peer_record import now
from transformers import BertModel
from turns import Turns
from work import BATCH, Work

from bench.plan.outputs_plan import readable_taps
from bench.plan.scheduled_stages import ScheduledStage, schedule_stages
from bench.plan.spelling import MethodRow, parse_one
from bench.train.numerics import ComputeSettings, RandomState
from bench.train.student_trainer import SHARE_POINTS, StudentTrainer
from methods.api import Setup
from methods.fast_kernels import FastLinear, problem_here
from methods.parts import blank_artefacts

METHODS = {
    "base": ("microbert:start=random", "tinybert:start=random", "pkd:layers=4", "minilm"),
    "tiny": (
        "microbert:start=random:layers=2:hidden=32:heads=4:ffn=64",
        "tinybert:start=random:layers=2:hidden=32:heads=4:ffn=64",
        "pkd:layers=2",
        "minilm:layers=2:hidden=32:heads=4:ffn=64",
    ),
}
KEPT = ("kept", "kept, fast")
"""Ways of ours that first write the teacher's outputs."""
DRAWS = 1000
SERIES = ("preparation", "counted")
WITH_SHARES = ", with shares"
"""Ends the name of a student's steps that measure shares of the gradient."""
Seconds = dict[str, list[float]]
"""What was done -> its seconds, each time."""


@dataclass(frozen=True)
class Asked:
    """The grid that is computed from the parts."""

    rows: int
    epochs: int


class Group:
    """The methods in one loop of the product, whose steps tell what each student and the teacher took."""

    def __init__(self, rows: Sequence[MethodRow], work: Work, kept: bool = False, is_fast: bool = False) -> None:
        self._rows, self._work, self._kept, self._is_fast = rows, work, kept, is_fast
        self.seconds: Seconds = {}
        self.writing: float | None = None
        """seconds of the pass that writes the teacher's outputs"""

    def loop(self, pause: Callable[[], None]) -> None:
        """All steps of all students, and a pause after each."""
        trainers = [_trainer(row, self._work) for row in self._rows]
        teacher: Any = self._work.teacher
        if self._kept:
            begun = time.perf_counter()
            taps: Any = frozenset().union(
                *(readable_taps(row.method.stages(_setup(row, self._work)), row.dropped) for row in self._rows)
            )
            teacher = kept_teacher(self._work, taps, "fp32", ComputeSettings())
            self.writing = time.perf_counter() - begun
        lengths = {series: max(trainer.steps(series) for trainer in trainers) for series in SERIES}
        steps = iter([(series, number) for series, length in lengths.items() for number in range(length)])
        before, began = _logged(trainers), time.perf_counter()

        def told() -> None:
            nonlocal before, began
            whole, after = time.perf_counter() - began, _logged(trainers)
            self._note(trainers, *next(steps), whole, [a - b for a, b in zip(after, before, strict=True)])
            pause()
            before, began = after, time.perf_counter()

        kernels: AbstractContextManager[object] = FastLinear() if self._is_fast else nullcontext()
        with kernels:
            run(trainers, self._work, teacher, told)

    def _note(
        self, trainers: Sequence[StudentTrainer], series: str, number: int, whole: float, spent: Sequence[float]
    ) -> None:
        """Add a step's seconds to those of its parts."""
        teacher, students = max(spent[len(trainers) :]), spent[: len(trainers)]
        due = [(t, *at, own) for t, own in zip(trainers, students, strict=True) if (at := t.stage_at(series, number))]
        for trainer, stage, place, own in due:
            shares = place in {part * stage.steps // SHARE_POINTS for part in range(SHARE_POINTS)}
            self._add(f"{_of(trainer.label, stage)}{WITH_SHARES if shares else ''}", own)
        if teacher:
            self._add(_teacher_of([_of(t.label, stage) for t, stage, _, _ in due if stage.teacher]), teacher)
        self._add("rest", whole - teacher - sum(own for *_, own in due))

    def _add(self, what: str, seconds: float) -> None:
        self.seconds.setdefault(what, []).append(seconds)


def _logged(trainers: Sequence[StudentTrainer]) -> list[float]:
    logs = [trainer.log for trainer in trainers]
    return [log.seconds_own for log in logs] + [log.teacher_seconds_alone for log in logs]


def _of(label: str, stage: ScheduledStage) -> str:
    return f"{label}, {stage.stage.name}"


def _teacher_of(stages: Sequence[str]) -> str:
    return f"teacher for {' + '.join(stages)}"


def _setup(row: MethodRow, work: Work) -> Setup:
    """With artefacts of random numbers, which take the same time."""
    with RandomState(0, torch.device("cpu")).current():
        blank = blank_artefacts(row.method.requires(work.teacher.config), work.teacher.config, 2)
    return Setup(work.teacher.config, 2, ("mrpc",), blank)


def _scheduled(row: MethodRow, work: Work, asked: Asked) -> tuple[list[ScheduledStage], list[ScheduledStage]]:
    recipe = replace(work.recipe, epochs=float(asked.epochs))
    return schedule_stages(row.method.stages(_setup(row, work)), row.dropped, recipe, asked.rows)


def _trainer(row: MethodRow, work: Work) -> StudentTrainer:
    random = RandomState(work.seed, torch.device("cpu"))
    with random.current():
        student = row.method.build(_setup(row, work))
    stages = _scheduled(row, work, Asked(len(work.data), work.epochs))
    return StudentTrainer(row.spelling, student, random, *stages, ComputeSettings())


@dataclass
class PeerTeacher:
    """The teacher's padded pass of one step: with attention scores at four layers, and with states alone."""

    work: Work
    seconds: Seconds = field(default_factory=dict)

    def __post_init__(self) -> None:
        depth = self.work.teacher.config.num_hidden_layers
        at = sorted({max(1, depth * part // 4) for part in range(1, 5)})
        self._ways: dict[str, tuple[BertModel, dict[str, bool]]] = {
            "scores": (body_of(self.work.teacher, at), OUTPUTS),
            "states": (body_of(self.work.teacher, ()), {"output_hidden_states": True}),
        }
        self._rows = Rows(self.work.data)

    @torch.no_grad()
    def step(self, rows: Sequence[int]) -> None:
        """Time both on these examples, padding included."""
        for name, (model, wanted) in self._ways.items():
            begun = time.perf_counter()
            model(**padded_batch([self._rows[i] for i in rows]), **wanted)
            self.seconds.setdefault(name, []).append(time.perf_counter() - begun)


def parts_of(size: str, work: Work, say: Callable[[str], None]) -> dict[str, Any]:
    """Seconds of every part, over all steps of a training of the group on the work's rows and epochs."""
    rows = [parse_one(spelling) for spelling in METHODS[size]]
    groups = {"live": Group(rows, work), "kept": Group(rows, work, kept=True)}
    if not problem_here():
        groups["kept, fast"] = Group(rows, work, kept=True, is_fast=True)
    peers = PeerTeacher(work)
    steps = work.batches[: len(work.data) // BATCH] + work.batches
    turns = {name: Turns(name, group.loop) for name, group in groups.items()}
    started, load = now(), os.getloadavg()[0]
    preparing = max(sum(s.steps for s in _scheduled(r, work, Asked(len(work.data), work.epochs))[0]) for r in rows)
    total = preparing + len(work.batches)
    try:
        for number in range(total):
            for one in turns.values():
                one.step()
            peers.step(steps[number % len(steps)])
            say(f"grid: step {number + 1} of {total}")
    finally:
        for one in turns.values():
            one.close()
    return {
        "started": started,
        "load": load,
        "methods": list(METHODS[size]),
        **{name: group.seconds for name, group in groups.items()},
        "peers": peers.seconds,
        "writing": [group.writing / len(work.data) for group in groups.values() if group.writing],
    }


def estimate(parts: Mapping[str, Any], work: Work, asked: Asked) -> dict[str, Any]:
    """Seconds of the grid by each side, with bootstrap intervals of their ratios: the parts' seconds are resampled."""
    plan = {row.spelling: _scheduled(row, work, asked) for row in map(parse_one, parts["methods"])}

    def sums(rng: np.random.Generator | None) -> dict[str, float]:
        @functools.cache
        def of(side: str, what: str) -> float:
            values = np.asarray(_measured(parts, side, what))
            return float(np.median(values if rng is None else rng.choice(values, len(values))))

        writing = asked.rows * of("writing", "")
        kept = {f"ours, {side}": _ours(plan, side, of) + writing for side in KEPT if side in parts}
        return {"peers": _peers(plan, of), "ours": _ours(plan, "live", of), **kept}

    seconds, rng = sums(None), np.random.default_rng(0)
    drawn = [sums(rng) for _ in range(DRAWS)]
    over = {}
    for name in (name for name in seconds if name != "peers"):
        low, high = interval([one["peers"] / one[name] for one in drawn])
        over[name] = {"ratio": seconds["peers"] / seconds[name], "low": low, "high": high}
    return {"rows": asked.rows, "epochs": asked.epochs, "seconds": seconds, "over_peers": over}


def _measured(parts: Mapping[str, Any], side: str, what: str) -> Any:
    """Seconds of a part. A stage of few steps may have measured shares at all of them, or a longer one at none.

    Raises:
        LookupError: the group's training was too short to have this part.
    """
    if side == "writing":
        return parts["writing"]
    for name in (what, f"{what}{WITH_SHARES}", what.removesuffix(WITH_SHARES)):
        if parts[side].get(name):
            return parts[side][name]
    raise LookupError(f"the grid has no part {what!r} ({side}): measure more of it with --grid-steps")


Plan = Mapping[str, tuple[list[ScheduledStage], list[ScheduledStage]]]
Of = Callable[[str, str], float]
"""Side and part -> its seconds."""


def _ours(plan: Plan, side: str, of: Of) -> float:
    total = 0.0
    for label, series in plan.items():
        for stage in (stage for stages in series for stage in stages):
            own = of(side, _of(label, stage))
            more = max(0.0, of(side, f"{_of(label, stage)}{WITH_SHARES}") - own)
            total += stage.steps * own + min(SHARE_POINTS, stage.steps) * more
    for due in _together(plan):
        if readers := [_of(label, stage) for label, stage in due if stage.teacher]:
            total += of(side, _teacher_of(readers))
        total += of(side, "rest")
    return total


def _peers(plan: Plan, of: Of) -> float:
    total = 0.0
    for label, series in plan.items():
        for stage in (stage for stages in series for stage in stages):
            own = of("live", _of(label, stage))
            if stage.teacher:
                own += of("peers", "scores" if any(tap.kind == "scores" for tap in stage.teacher) else "states")
            total += stage.steps * own
    return total


def _together(plan: Plan) -> Iterator[list[tuple[str, ScheduledStage]]]:
    """The stages that are due at each step of the group."""
    for series in range(len(SERIES)):
        places = {label: [s for s in stages[series] for _ in range(s.steps)] for label, stages in plan.items()}
        for number in range(max(map(len, places.values()))):
            yield [(label, of[number]) for label, of in places.items() if number < len(of)]
