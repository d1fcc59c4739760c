"""MicroBERT, Zheng et al. 2024: rows of the accuracy, reappearance, loss-comparison
and ablation tables.

The equations of the paper are in no public copy, and no code was released. Stated in the text: a 4
x 312 student; each student layer learns from the average of its share of the teacher layers (three
of 12); feature alignment (FAL) on [CLS], mean and max pooling after mapping the widths, for the
embedding and the encoder layers; a layer of prediction experts routed by task; soft and hard
prediction loss; a discriminator that is trained first and then in turn with the student. What the
text leaves open is a setting, with few exceptions; its default is our reading, with the reason
where there is one. Departures: the teacher is the one shared model, without expert layer of its own
(figure 1 seems to give it one); of section 3.4
the fusion alone is built: its fewer experts in the student than in the teacher need a teacher with
experts, and its optimised sub-graphs are another framework's; optimiser and epochs are the
recipe's; the start is the shared general start; with ``tasks=together`` one student learns all
tasks of a run, with a discriminator for each task. Padding never enters a mean or a maximum,
because packed batches have none. The discriminator has one hidden layer with leaky ReLU: that is no
setting. Ablations drop terms and leave the others at their weights: "w/o Pred" has the labels at
0.5; AdamW hardly sees such a factor, but clipping at norm 1 does. "w/o Hidn" keeps the embeddings'
alignment, and all keep the experts and the general start, which imitated hidden states.

In this file: the experts, the feature alignment, the adversary, and the method
that puts them together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, ClassVar, Literal, cast

import torch
from torch import Tensor, nn

from methods.api import Batch, MethodError, Out, Setup, Stage, Student, Taps, TaskHead, Term
from methods.core import losses
from methods.core.own_shape import OwnShape
from methods.core.packed import POOLS, Layout
from methods.core.parts import averaged_layers, for_task, nearest_layers, why_heads_differ
from methods.core.settings import NOT_NEGATIVE, Count, Fraction, Limit, Positive, added_setting
from methods.core.taps import LOGITS, Source
from methods.core.terms import (
    HIDDEN,
    SCORES,
    LayerOutput,
    Pair,
    hard,
    layerwise,
    softened,
    with_layout,
    with_pooled_teacher,
)


class TaskExperts(TaskHead):
    """E linear prediction layers, mixed by a router that reads a learned embedding of the task.

    Stated: the experts and their routing by task. Ours: linear experts, and a mixture where the
    text could mean a choice. Within one task the mixture z = sum_e g_e (W_e x + b_e) is linear in
    x, so it fuses exactly into one layer. Each expert has its own initialisation and, in training,
    its own dropout: otherwise all would be equal. Every expert answers with as many outputs as the
    task of most labels needs; a task takes the first of them.
    """

    def __init__(self, width: int, tasks: Mapping[str, int], experts: int, dropout: float) -> None:
        super().__init__()
        self.tasks = tuple(tasks)
        self.labels = tuple(tasks.values())
        self.experts = nn.ModuleList(_expert(width, max(self.labels)) for _ in range(experts))
        self.task_embedding = nn.Embedding(len(tasks), 16)
        self.router = nn.Linear(16, experts)
        self.dropout = dropout

    def gates(self, task: int) -> Tensor:
        """[E] weights of the experts for this task; they sum to 1."""
        return self.router(self.task_embedding.weight[task]).softmax(-1)

    def forward(self, pooled_BW: Tensor, task: int) -> Tensor:
        """[B, W] pooled states of a batch of one task -> [B, C] logits."""
        answers = [
            expert(nn.functional.dropout(pooled_BW, self.dropout, self.training))
            for expert in self.experts
        ]
        mixed_BC = torch.einsum(
            "e,ebc->bc", self.gates(task).to(answers[0].dtype), torch.stack(answers)
        )
        return mixed_BC[:, : self.labels[task]]

    @torch.no_grad()
    def fused(self, task: int) -> nn.Linear:
        """The one linear layer equal to this mixture for ``task``."""
        gates = self.gates(task)
        outputs = self.labels[task]
        experts = [cast(nn.Linear, expert) for expert in self.experts]
        layer = nn.Linear(experts[0].in_features, outputs).to(gates.device)
        layer.weight.copy_(
            torch.einsum("e,ecw->cw", gates, torch.stack([e.weight[:outputs] for e in experts]))
        )
        layer.bias.copy_(
            torch.einsum("e,ec->c", gates, torch.stack([e.bias[:outputs] for e in experts]))
        )
        return layer


def _expert(width: int, num_labels: int) -> nn.Linear:
    expert = nn.Linear(width, num_labels)
    nn.init.normal_(expert.weight, std=0.02)  # BERT's own initialisation of a classifier
    nn.init.zeros_(expert.bias)
    return expert


TOKENS = "tokens"  # in the place of pooled features: the squared error of every token's state
# names in aux of the two sides' maps to a common width
STUDENT = "student_projection"
TEACHER = "teacher_projection"


def projected(side: str, layer: int, aux: nn.ModuleDict, x: Tensor) -> Tensor:
    """[..., W] of a student layer's comparison -> [..., common W], by one matrix for all layers or
    its own; x where none is."""
    if side not in aux:
        return x
    maps = cast(nn.ModuleList, aux[side])
    return maps[layer if len(maps) > 1 else 0](x)  # type: ignore[no-any-return]


@dataclass(frozen=True)
class Alignment:
    """Feature alignment (FAL) of a student layer with the average of teacher layers that it learns
    from. Stated: the widths are mapped, then [CLS], mean and max are taken over the tokens and
    compared. Ours: the rest."""

    features: tuple[str, ...]  # of methods.core.packed.POOLS, or TOKENS alone
    distance: str  # of losses.DISTANCES, of two [B, W] features
    order: str
    maps_teacher: bool  # whether the teacher's states have a map too

    @property
    def kind(self) -> LayerOutput[Any]:
        """What is read of both: the teacher's states come pooled, unless they are compared or
        mapped token by token."""
        whole = self.features == (TOKENS,) or (self.order == "map_then_pool" and self.maps_teacher)
        return HIDDEN if whole else with_pooled_teacher(*self.features)

    def __call__(self, pair: Pair[Any]) -> Tensor:
        """A scalar, summed over the features. The orders differ for the maximum alone."""
        ours = partial(projected, STUDENT, pair.layer, pair.aux)
        theirs = partial(projected, TEACHER, pair.layer, pair.aux)
        if self.features == (TOKENS,):
            return losses.hidden_mse_tokenmean(ours(pair.student), theirs(pair.teacher))
        pooled = (
            map(theirs, pair.teacher)
            if self.kind.pools
            else self._features(theirs, pair.teacher, pair.layout)
        )
        pairs = zip(self._features(ours, pair.student, pair.layout), pooled, strict=True)
        return losses.pooled_alignment(pairs, self.distance)

    def _features(
        self, mapped: Callable[[Tensor], Tensor], states_TW: Tensor, layout: Layout
    ) -> Iterator[Tensor]:
        """[B, W] of each feature: of the mapped states, or mapped after pooling."""
        pools = [POOLS[name] for name in self.features]
        if self.order == "pool_then_map":
            return (mapped(pool(layout, states_TW)) for pool in pools)
        wide_TW = mapped(states_TW)
        return (pool(layout, wide_TW) for pool in pools)


def discriminator(seen: int, width: int) -> nn.Sequential:
    """[B, seen] -> [B, 1]: the logit of "this is the teacher's". Ours; nothing is
    stated of its form."""
    return nn.Sequential(nn.Linear(seen, width), nn.LeakyReLU(0.2), nn.Linear(width, 1))


@dataclass(frozen=True)
class Adversary:
    """The adversarial game over outputs of teacher and student (Goodfellow et al. 2014, equation
    1). Stated: a discriminator sees the outputs of both and is trained first; its loss makes the
    student's resemble the teacher's."""

    sees: str  # probabilities, logits or features: the mapped [CLS] state of the last layer
    gan: str
    labels: tuple[int, ...]  # outputs of each task; of a regression, with 1, the logits are seen
    layer: int  # the student's last
    source: Source  # the teacher's layers that it learns from

    @property
    def taps(self) -> tuple[Taps, Taps]:
        """What the discriminator reads of the student, and of the teacher."""
        states = with_pooled_teacher("cls").taps({self.layer: self.source})
        return states if self.sees == "features" else (LOGITS, LOGITS)

    def imitate(self, batch: Batch, student: Out, teacher: Out, aux: nn.ModuleDict) -> Tensor:
        """The student's side: to be taken for the teacher."""
        return losses.adversarial_loss(self._judged(STUDENT, batch, student, aux), self.gan)

    def discriminate(self, batch: Batch, student: Out, teacher: Out, aux: nn.ModuleDict) -> Tensor:
        """The discriminator's side: to know them apart. It sees the student detached, which belongs
        to another player."""
        real = self._judged(TEACHER, batch, teacher, aux)
        fake = self._judged(STUDENT, batch, student, aux)
        return losses.discriminator_loss(real, fake, self.gan)

    def _judged(self, side: str, batch: Batch, out: Out, aux: nn.ModuleDict) -> Tensor:
        """[B] logits of the discriminator of the batch's task about one model."""
        judges = aux["disc"]
        judge = judges[batch.task] if isinstance(judges, nn.ModuleList) else judges
        return judge(self._seen(side, batch, out, aux))[:, 0].float()  # type: ignore[no-any-return]

    def _seen(self, side: str, batch: Batch, out: Out, aux: nn.ModuleDict) -> Tensor:
        """[B, C] probabilities or logits, or [B, W] features at the teacher's width."""
        if self.sees == "features":
            is_ours = side == STUDENT
            first_BW = (
                out.layout.first(out.hidden(self.layer))
                if is_ours
                else out.pooled(self.source, "cls")
            )
            return projected(side, self.layer, aux, first_BW)
        if self.sees == "logits" or self.labels[batch.task] == 1:
            return out.logits
        return out.logits.float().softmax(-1)


@dataclass(frozen=True, kw_only=True)
class MicroBERT(OwnShape):
    name: ClassVar = "microbert"
    version: ClassVar = 1
    terms: ClassVar = ("hidn", "embd", "attn", "pred", "hard", "dis.adv", "dis.disc")
    ablations: ClassVar = {"w/o Dis": ":-dis", "w/o Hidn": ":-hidn", "w/o Pred": ":-pred"}
    needs_teacher: ClassVar = True
    remark: ClassVar = (
        "microbert is a reconstruction. Its authors released no code, and no public copy of the "
        "paper has its equations."
    )
    search_space: ClassVar = {
        "alpha": (0.2, 0.5, 0.8),
        "gamma": (0.01, 0.1),
        "hidn_weight": (0.5, 1.0, 2.0),
    }

    projection: Literal["student", "teacher", "common"] = "student"
    """Which side is mapped. A trainable teacher-side map could collapse to 0,
    hence the student's."""
    projection_per_layer: bool = False
    """One matrix for the embedding and all layers, as TinyBERT's code has it, or one for each."""
    order: Literal["map_then_pool", "pool_then_map"] = "map_then_pool"
    """Differs for the maximum only; the text maps first."""
    features: str = "cls+mean+max"
    """Joined by +; tokens is the control: the squared error of every token's
    state, as in TinyBERT."""
    distance: Literal["mse", "cosine", "normalised_mse", "kl"] = "mse"
    teacher_layers: Literal["average", "nearest"] = "average"
    attention: bool = False  # adds TinyBERT's attention loss: a control, the paper mentions none
    hidn_weight: float = 1.0
    embd_weight: float = 1.0
    alpha: Fraction = 0.5  # weight of the soft loss; the hard loss has 1 - alpha
    gamma: float = 0.1
    """Weight of the adversarial loss; small, because such terms tend to be unstable at 1
    (not measured here)."""
    temperature: Positive = 1.0
    discriminator_input: Literal["probabilities", "logits", "features"] = "probabilities"
    """``features``: the last layer's [CLS], the student's after projection. Logits would
    give the scale away."""
    discriminator_width: Count = 64
    discriminator_steps: Annotated[int, NOT_NEGATIVE] = 500
    """At most one epoch and so many steps on the discriminator alone ("trained
    first"); 0 for none."""
    gan: Literal["non_saturating", "saturating", "least_squares"] = "non_saturating"
    experts: Count = 4
    expert_dropout: Annotated[
        float, Limit(lambda share: 0 <= share < 1, "be at least 0 and below 1")
    ] = 0.1
    schedule: Literal["joint", "tinybert"] = "joint"
    """Tinybert: features first, for two thirds of the examples, then predictions."""
    tasks: Literal["each", "together"] = added_setting("each")
    """``each``: one student a task. ``together``: one for all tasks of the run, its router really
    choosing by task."""

    def __post_init__(self) -> None:
        super().__post_init__()
        chosen = self.features.split("+")
        if self.features == TOKENS:
            if self.distance != "mse" or self.order != "map_then_pool":
                goes_with = "it goes with distance=mse and order=map_then_pool"
                raise MethodError(f"features={TOKENS} is TinyBERT's hidden loss: {goes_with}")
        elif not set(chosen) <= set(POOLS) or len(set(chosen)) != len(chosen):
            known = ", ".join(POOLS)
            raise MethodError(
                f"features={self.features} should join some of {known} with +, or be {TOKENS}"
            )
        if self.discriminator_input == "features" and self.projection != "student":
            raise MethodError(
                "discriminator_input=features compares at the teacher's width: it needs "
                "projection=student"
            )

    @property
    def multitask(self) -> bool:
        return self.tasks == "together"

    def build(self, setup: Setup) -> Student:
        model = self.student_model(setup)
        model.dropout = nn.Dropout(0.0)  # each expert has a dropout of its own
        tasks = dict(zip(setup.tasks, setup.labels_of_tasks, strict=True))
        head = TaskExperts(self.hidden, tasks, self.experts, self.expert_dropout)
        model.classifier = head  # type: ignore[assignment]
        width = setup.teacher.hidden_size
        mapped = range(self.layers + 1) if self.projection_per_layer else [0]
        aux = nn.ModuleDict()
        if self.projection in ("student", "common"):
            aux[STUDENT] = nn.ModuleList(self.start_projection(setup) for _ in mapped)
        if self.projection in ("teacher", "common"):
            common = width if self.projection == "common" else self.hidden
            aux[TEACHER] = nn.ModuleList(nn.Linear(width, common) for _ in mapped)
        seen = [
            width if self.discriminator_input == "features" else labels
            for labels in setup.labels_of_tasks
        ]
        discriminators = [discriminator(outputs, self.discriminator_width) for outputs in seen]
        aux["disc"] = nn.ModuleList(discriminators) if self.multitask else discriminators[0]
        return Student(model, aux, {"disc": ("disc",)})

    def stages(self, setup: Setup) -> Sequence[Stage]:
        depth = setup.teacher.num_hidden_layers
        nearest = {m: n for m, n in nearest_layers(self.layers, depth).items() if m > 0}
        sources: Mapping[int, Source] = (
            averaged_layers(self.layers, depth) if self.teacher_layers == "average" else nearest
        )
        features = tuple(self.features.split("+"))
        fal = Alignment(
            features, self.distance, self.order, maps_teacher=self.projection != "student"
        )
        alignment = {"hidn": layerwise(fal.kind, sources, fal, self.hidn_weight)}
        alignment["embd"] = layerwise(fal.kind, {0: 0}, fal, self.embd_weight)
        if self.attention:
            unequal = why_heads_differ(self.heads, setup.teacher)
            alignment["attn"] = layerwise(
                SCORES, nearest, with_layout(losses.scores_mse_realmean), unsupported=unequal
            )
        inputs = self.discriminator_input
        last = self.layers
        adversary = Adversary(inputs, self.gan, setup.labels_of_tasks, last, sources[last])
        discriminate = Term(adversary.discriminate, 1.0, *adversary.taps, player="disc")
        prediction = {
            "pred": softened(self.temperature, self.alpha),
            "hard": hard(1 - self.alpha),
            "dis.adv": Term(adversary.imitate, self.gamma, adversary.taps[0]),
            "dis.disc": discriminate,
        }
        # Nothing is stated: these are ours, for small and large tasks alike.
        paper = {"epochs": 10.0, "learning_rate": 5e-5}
        first = Stage(
            "discriminator", {"dis.disc": discriminate}, extra_steps=self.discriminator_steps
        )
        preparation = (first,) if self.discriminator_steps else ()
        if self.schedule == "joint":
            return (*preparation, Stage("joint", {**alignment, **prediction}, paper=paper))
        features_first = Stage(
            "alignment", alignment, epoch_fraction=2 / 3, paper={**paper, "epochs": 20 / 3}
        )
        then = Stage(
            "prediction", prediction, epoch_fraction=1 / 3, paper={**paper, "epochs": 10 / 3}
        )
        return (*preparation, features_first, then)

    def deploy(self, student: Student) -> Mapping[str, nn.Module]:
        """The experts fused into one layer: what is scored has TinyBERT4's size. Of several
        tasks one for each."""
        experts = cast(TaskExperts, student.model.classifier)
        names = experts.tasks if self.multitask else ("",)
        return {
            name: for_task(student.model, experts.fused(task)) for task, name in enumerate(names)
        }
