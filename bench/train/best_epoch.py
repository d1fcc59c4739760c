"""The scores of a student's epochs, and the best of them where examples may choose one."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from torch import Tensor, nn

from bench.data.encoding import Encoded
from bench.train.numerics import ComputeSettings, RandomState
from bench.train.prediction import predict, score
from methods.api import Student


class SelectionExamples(NamedTuple):
    """The examples of one task that choose, and by which metric."""

    task: str
    examples: Encoded
    labels: np.ndarray
    metric: str


@dataclass
class BestEpoch:
    """Evaluates a student at the end of every epoch, and keeps the weights of the best one.

    Of equal ones it is the first. Evaluating changes nothing: the last epoch's weights are those of
    a training without it.

    Attributes:
        chooses: without it, no weights are kept: the scores are for a learning curve.
        scores: of each epoch, percent, mean over the tasks.
    """

    deploy: Callable[[Student], Mapping[str, nn.Module]]
    selection_examples: Sequence[SelectionExamples]
    numerics: ComputeSettings
    chooses: bool = True
    scores: list[float] = field(default_factory=list)
    _best: dict[str, Tensor] = field(default_factory=dict)

    @property
    def epoch(self) -> int:
        """The best one, counted from 1."""
        return int(np.argmax(self.scores)) + 1

    def evaluate(self, student: Student) -> None:
        """Score the student as it would be deployed now."""
        if not self.selection_examples:
            return
        with RandomState(0, self.numerics.device).current():  # a new module may draw random numbers
            deployed = dict(self.deploy(student))
        percents = []
        for of_task in self.selection_examples:
            # of several operating points the nameless one is at full depth
            shipped = deployed.get(of_task.task) or deployed.get("")
            model = copy.deepcopy(shipped or next(iter(deployed.values())))
            logits = predict(model, of_task.examples, self.numerics)
            scores = score(logits, of_task.labels, (of_task.metric,))
            percents.append(100 * scores[of_task.metric])
        self.scores.append(float(np.mean(percents)))
        # this epoch is the best so far
        if self.chooses and self.epoch == len(self.scores):
            modules = nn.ModuleDict({"model": student.model, "aux": student.aux})
            self._best = {
                name: value.detach().clone() for name, value in modules.state_dict().items()
            }

    def load_best(self, student: Student) -> None:
        """Put the best epoch's weights into the student."""
        nn.ModuleDict({"model": student.model, "aux": student.aux}).load_state_dict(self._best)

    def state(self) -> tuple[dict[str, Tensor], list[float]]:
        """The best weights so far and the scores of all epochs so far."""
        return dict(self._best), list(self.scores)

    def restore(self, best: Mapping[str, Tensor], scores: Sequence[float] | None) -> None:
        """Go on where :meth:`state` was asked."""
        if not self.chooses and scores is None:
            # epochs may be over that nobody scored: half a curve would have wrong epochs
            self.selection_examples = ()
        self._best = {name: value.to(self.numerics.device) for name, value in best.items()}
        self.scores = list(scores or ())

    def as_dict(self) -> dict[str, Any]:
        """For the record."""
        metrics = {of_task.task: of_task.metric for of_task in self.selection_examples}
        return {
            "metric": metrics,
            "scores": [round(s, 3) for s in self.scores],
            "shipped": self.epoch if self.chooses else len(self.scores),
        }
