"""Stages that several students of a group have in common: one of them trains, the others wait and go on from where it is.

Every student ends with the bits that it would have alone: until they part, their steps are the same arithmetic.
Which stages two students have in common is decided by bench/plan/stage_keys.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch

from bench.plan.scheduled_stages import COUNTED, PREPARATION, first_stages
from bench.plan.stage_keys import leaders
from bench.train.student_trainer import StudentTrainer


class SharedStages:
    """Which students wait, for whom and how long."""

    def __init__(self, trainers: Sequence[StudentTrainer], done: Mapping[str, int]) -> None:
        """
        Args:
            done: steps of each series that they have done already.
        """
        self._leaders: dict[StudentTrainer, StudentTrainer] = {}
        self._waits: dict[StudentTrainer, dict[str, int]] = {}
        for place, (leader, count) in leaders([trainer.stage_keys for trainer in trainers]).items():
            trainer = trainers[place]
            first = first_stages(trainer.schedule, count)
            steps = {series: sum(stage.steps for stage in stages) for series, stages in first.items()}
            is_over = all(done[series] >= steps[series] for series in steps)
            if not is_over and begin_alike(trainers[leader], trainer):
                self._leaders[trainer], self._waits[trainer] = trainers[leader], steps

    def trains(self, trainer: StudentTrainer, series: str, number: int) -> bool:
        """Whether a student takes this step itself, if it has it."""
        return trainer not in self._waits or number >= self._waits[trainer][series]

    def steps_saved(self) -> int:
        """Steps of all students that wait."""
        return sum(sum(steps.values()) for steps in self._waits.values())

    def holder_of_state(self, trainer: StudentTrainer) -> StudentTrainer:
        """The student whose state is this one's now: itself, or the one for which it waits."""
        while trainer in self._leaders:
            trainer = self._leaders[trainer]
        return trainer

    def parting(self, series: str, number: int) -> list[StudentTrainer]:
        """The students whose shared stages end with this step."""
        return [trainer for trainer in self._leaders if self._last(trainer) == (series, number)]

    def part(self, trainers: Sequence[StudentTrainer]) -> None:
        """Let students go on by themselves."""
        for trainer in trainers:
            leader = self.holder_of_state(trainer)
            del self._leaders[trainer]
            trainer.take_over(leader)

    def _last(self, trainer: StudentTrainer) -> tuple[str, int]:
        """Series and number of the last step for which a student waits."""
        steps = self._waits[trainer]
        series = COUNTED if steps[COUNTED] else PREPARATION
        return series, steps[series] - 1


def begin_alike(one: StudentTrainer, other: StudentTrainer) -> bool:
    """Whether two students have equal weights and random states, to the bit; a method may declare a wrong thing."""
    ours, theirs = one.state()[0], other.state()[0]
    return ours.keys() == theirs.keys() and all(torch.equal(value, theirs[name]) for name, value in ours.items())
