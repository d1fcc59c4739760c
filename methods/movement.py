"""Single weights pruned while the pre-trained model is fine-tuned, Sanh, Wolf and Rush 2020
(NeurIPS, "Movement pruning: adaptive sparsity by fine-tuning", arXiv 2005.07683). Two rows:
``movement``, and ``magnitude``, the older rule that they compare it with.

The paper's: every weight matrix of the encoder is multiplied with a mask that keeps a share v of
its entries, those of the highest score. ``magnitude`` scores an entry by its absolute value.
``movement`` learns the scores S from 0 on, with a learning rate of their own: in the backward pass
the mask counts as S itself, dL/dS = dL/dW' * W (straight-through), so entries that move away from 0
are kept. v falls from 1 along a cubic (Zhu and Gupta 2017) and rests at both ends. The model's
answers are distilled from the tuned teacher with T = 2 (their tables with distillation; ``:-soft``
is the one without).
As in the authors' code: the share is taken of each matrix by itself, embeddings are frozen, pooler
and classifier stay whole, scores have no weight decay. The command of their README for SQuAD has
ten epochs, of which v rests for the first and the last two: ``first_rest=0.1:last_rest=0.2``, and
those are the defaults on every task. The paper says 6 to 10 epochs without the task; the numbers of
MNLI and QQP are in a spreadsheet that we could not read. ``methods/experiments/movement.toml`` has
those of other people's commands for the same code.
Ours: weight 0.9 of the soft loss (theirs varies by task). Soft movement pruning, whose penalty
leads to a sparsity that nobody chooses, is left out. Zeros are stored and multiplied like other
numbers: nothing here is faster or smaller than the teacher.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from transformers import PretrainedConfig

from methods.api import Method, MethodError, Setup, Stage, Student
from methods.core.artefacts import Artefact, TeacherWeights
from methods.core.parts import cut_classifier, require_layers
from methods.core.settings import Fraction, Limit, Positive, added_setting
from methods.core.terms import hard, softened


class Masked(nn.Linear):
    """A linear layer of whose matrix the ``share`` of highest score is kept; the rest counts as 0.
    Scores are absolute values, or learned."""

    share: float
    scores: nn.Parameter | None

    def kept_weight(self) -> Tensor:
        if self.share == 1 and self.scores is None:
            return self.weight
        scores = self.weight.detach().abs() if self.scores is None else self.scores
        kept = scores.detach().flatten().topk(int(self.share * scores.numel())).indices
        mask = torch.zeros_like(scores).flatten().index_fill_(0, kept, 1.0).view_as(scores)
        if self.scores is not None:
            # the value of the mask with the gradient of the scores
            mask = mask + (self.scores - self.scores.detach())
        return self.weight * mask

    def forward(self, input: Tensor) -> Tensor:  # noqa: A002  the name that torch gives it
        return F.linear(input, self.kept_weight(), self.bias)


def matrices(model: Any) -> list[Any]:
    """The linear layers of the encoder: six in each layer."""
    return [
        module for module in model.base_model.encoder.modules() if isinstance(module, nn.Linear)
    ]


@dataclass(frozen=True, kw_only=True)
class Magnitude(Method):
    name: ClassVar = "magnitude"
    version: ClassVar = 1
    terms: ClassVar = ("hard", "soft")
    needs_teacher: ClassVar = True
    spans: ClassVar = True
    ablations: ClassVar = {"w/o distillation": ":-soft"}
    search_space: ClassVar = {"share": (0.03, 0.1, 0.15, 0.3)}
    remark: ClassVar = (
        "magnitude: the zeros are stored and multiplied, so it has the size and the speed of its "
        "teacher."
    )
    learned: ClassVar = False  # whether scores are learned

    share: Annotated[float, Limit(lambda share: 0 < share <= 1, "lie above 0 and be at most 1")] = (
        0.15
    )
    """of the encoder's weights that stay at the end"""
    alpha: Fraction = 0.9  # weight of the soft loss; the hard loss has 1 - alpha
    temperature: Positive = 2.0
    # share of the training at whose beginning everything is kept
    first_rest: Fraction = added_setting(0.1)
    # share of the training at whose end nothing more is pruned
    last_rest: Fraction = added_setting(0.2)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.first_rest + self.last_rest >= 1:
            both = f"first_rest={self.first_rest} and last_rest={self.last_rest}"
            raise MethodError(f"{both} leave no time to prune in; together they should be below 1")

    def requires(self, teacher: PretrainedConfig) -> Sequence[Artefact]:
        require_layers(teacher, self.name)
        return (TeacherWeights(tuned=False),)

    def build(self, setup: Setup) -> Student:
        model = cut_classifier(
            setup, setup.teacher.num_hidden_layers, setup.artefacts["teacher_weights"]
        )
        # each matrix is masked where it is: its parameter stays the same, scores come beside it
        for linear in matrices(model):
            linear.__class__ = Masked
            linear.share = 1.0
            linear.register_parameter(
                "scores", nn.Parameter(torch.zeros_like(linear.weight)) if self.learned else None
            )
        return Student(model)

    def share_at(self, progress: float) -> float:
        """What is kept at a progress in [0, 1): their equation 4, at rest at both ends."""
        pruning = 1 - self.first_rest - self.last_rest
        passed = min(1.0, max(0.0, (progress - self.first_rest) / pruning))
        return self.share + (1 - self.share) * (1 - passed) ** 3

    def set_share(self, model: nn.Module, progress: float) -> None:
        for linear in matrices(model):
            linear.share = self.share_at(progress)

    def rate_of(self, parameter: str) -> float:
        return 0.0 if ".embeddings." in parameter else 1.0

    def is_undecayed(self, parameter: str) -> bool:
        return parameter.endswith(".scores")

    def stages(self, setup: Setup) -> Sequence[Stage]:
        terms = {"hard": hard(1 - self.alpha), "soft": softened(self.temperature, self.alpha)}
        paper = {"epochs": 10.0, "learning_rate": 3e-5, "warmup": 0.1, "weight_decay": 0.0}
        prune = Stage(
            "prune",
            terms,
            paper=paper,
            on_step_begin=self.set_share,
            parameter_lr_scale=self.rate_of,
            undecayed=self.is_undecayed,
        )
        return (prune,)

    def deploy(self, student: Student) -> Mapping[str, nn.Module]:
        """A usual BERT with the masks in its weights, at the final share."""
        shipped = copy.deepcopy(student.model)
        self.set_share(shipped, 1.0)
        for linear in matrices(shipped):
            linear.weight.data = linear.kept_weight().detach()
            del linear.scores, linear.share
            linear.__class__ = nn.Linear
        return {"": shipped}


@dataclass(frozen=True, kw_only=True)
class Movement(Magnitude):
    name: ClassVar = "movement"
    version: ClassVar = 2  # 1 decayed the scores by the recipe's weight decay
    remark: ClassVar = (
        "movement: the zeros are stored and multiplied, so it has the size and the speed of its "
        "teacher."
    )
    learned: ClassVar = True

    # the scores' learning rate in those of the weights: 1e-2 beside 3e-5
    score_pace: Positive = 300.0

    def rate_of(self, parameter: str) -> float:
        return self.score_pace if parameter.endswith(".scores") else super().rate_of(parameter)
