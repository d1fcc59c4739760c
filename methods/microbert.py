"""MicroBERT, Zheng et al. 2024: rows of the accuracy, reappearance, loss-comparison and ablation tables.

The equations of the paper are in no public copy, and no code was released. Stated in the text: a 4 x 312
student; each student layer learns from the average of the teacher layers it stands for; feature alignment
(FAL) on [CLS], mean and max pooling after mapping the widths, for the embedding and the encoder layers; a
layer of prediction experts routed by task; soft and hard prediction loss; a discriminator that is trained
first and then plays against the student. What the text leaves open is a setting, with few exceptions; its default
is our reading, with the reason where there is one. Departures: the teacher is the one shared model, without expert
layer of its own (figure 1 seems to give it one); optimiser and epochs are the recipe's; the start is the
shared general start; with ``tasks=together`` one student learns all tasks of a run, with a discriminator for each
task. Padding never enters a mean or a maximum, because packed batches have none. The discriminator has one hidden layer
with leaky ReLU: that is no setting. Ablations drop terms and leave the others at their weights: "w/o Pred" has the labels
at 0.5; AdamW hardly sees such a factor, but clipping at norm 1 does. "w/o Hidn" keeps the embeddings' alignment, and all
keep the experts and the general start, which imitated hidden states.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, cast

import torch
from torch import Tensor, nn
from transformers import BertForSequenceClassification

from methods import losses
from methods.api import Batch, MethodError, Needs, Out, Setup, Stage, Student, TaskHead, Term
from methods.parts import OwnShape, averaged_layers, later, nearest_layers, unequal_heads
from methods.terms import hard, softened


class TaskExperts(TaskHead):
    """E linear prediction layers, mixed by a router that reads a learned embedding of the task.

    Within one task the mixture z = sum_e g_e (W_e x + b_e) is linear in x, so it fuses exactly into one layer.
    Each expert has its own initialisation and, in training, its own dropout: otherwise all would be equal.
    Every expert answers with as many outputs as the task of most labels needs; a task takes the first of them.
    """

    def __init__(self, width: int, tasks: Mapping[str, int], experts: int, dropout: float) -> None:
        super().__init__()
        self.tasks, self.labels = tuple(tasks), tuple(tasks.values())
        self.experts = nn.ModuleList(_expert(width, max(self.labels)) for _ in range(experts))
        self.task_embedding = nn.Embedding(len(tasks), 16)
        self.router = nn.Linear(16, experts)
        self.dropout = dropout

    def gates(self, task: int) -> Tensor:
        """[E] weights of the experts for this task; they sum to 1."""
        return self.router(self.task_embedding.weight[task]).softmax(-1)

    def forward(self, pooled_BW: Tensor, task: int) -> Tensor:
        answers = [expert(nn.functional.dropout(pooled_BW, self.dropout, self.training)) for expert in self.experts]
        mixed_BC = torch.einsum("e,ebc->bc", self.gates(task).to(answers[0].dtype), torch.stack(answers))
        return mixed_BC[:, : self.labels[task]]

    @torch.no_grad()
    def fused(self, task: int) -> nn.Linear:
        """The one linear layer equal to this mixture for ``task``."""
        gates = self.gates(task)
        experts = [cast(nn.Linear, expert) for expert in self.experts]
        outputs = self.labels[task]
        layer = nn.Linear(experts[0].in_features, outputs).to(gates.device)
        layer.weight.copy_(torch.einsum("e,ecw->cw", gates, torch.stack([e.weight[:outputs] for e in experts])))
        layer.bias.copy_(torch.einsum("e,ec->c", gates, torch.stack([e.bias[:outputs] for e in experts])))
        return layer


def _expert(width: int, num_labels: int) -> nn.Linear:
    expert = nn.Linear(width, num_labels)
    nn.init.normal_(expert.weight, std=0.02)  # BERT's own initialisation of a classifier
    nn.init.zeros_(expert.bias)
    return expert


TOKENS = "tokens"


@dataclass(frozen=True, kw_only=True)
class MicroBERT(OwnShape):
    name: ClassVar[str] = "microbert"
    version: ClassVar[int] = 1
    terms: ClassVar[tuple[str, ...]] = ("hidn", "embd", "attn", "pred", "hard", "dis.adv", "dis.disc")
    ablations: ClassVar[Mapping[str, str]] = {"w/o Dis": ":-dis", "w/o Hidn": ":-hidn", "w/o Pred": ":-pred"}
    needs_teacher: ClassVar[bool] = True
    grid: ClassVar[Mapping[str, Sequence[Any]]] = {
        "alpha": (0.2, 0.5, 0.8),
        "gamma": (0.01, 0.1),
        "hidn_weight": (0.5, 1.0, 2.0),
    }

    projection: Literal["student", "teacher", "common"] = "student"
    """Which side is mapped. A trainable teacher-side map could collapse to 0, hence the student's."""
    projection_per_layer: bool = False
    """One matrix for the embedding and all layers, as TinyBERT's code has it, or one for each."""
    order: Literal["map_then_pool", "pool_then_map"] = "map_then_pool"
    """Differs for the maximum only; the text maps first."""
    features: str = "cls+mean+max"
    """Joined by +; ``tokens`` is the control: the squared error of every token's state, as in TinyBERT."""
    distance: Literal["mse", "cosine", "normalised_mse", "kl"] = "mse"
    teacher_layers: Literal["average", "nearest"] = "average"
    attention: bool = False
    """Adds TinyBERT's attention loss: a control, the paper mentions none."""
    hidn_weight: float = 1.0
    embd_weight: float = 1.0
    alpha: float = 0.5
    """Weight of the soft loss; the hard loss has 1 - alpha."""
    gamma: float = 0.1
    """Weight of the adversarial loss; small, because such terms tend to be unstable at 1 (not measured here)."""
    temperature: float = 1.0
    discriminator_input: Literal["probabilities", "logits", "features"] = "probabilities"
    """``features``: the last layer's [CLS], the student's after projection. Logits would give the scale away."""
    discriminator_width: int = 64
    discriminator_steps: int = 500
    """At most one epoch and so many steps on the discriminator alone ("trained first"); 0 for none."""
    gan: Literal["non_saturating", "saturating", "least_squares"] = "non_saturating"
    experts: int = 4
    expert_dropout: float = 0.1
    schedule: Literal["joint", "tinybert"] = "joint"
    """``tinybert``: features first, for two thirds of the examples, then predictions."""
    tasks: Literal["each", "together"] = later("each")
    """``each``: one student a task. ``together``: one for all tasks of the run, its router really choosing by task."""

    def __post_init__(self) -> None:
        super().__post_init__()
        chosen = self.features.split("+")
        if self.features == TOKENS:
            if self.distance != "mse" or self.order != "map_then_pool":
                raise MethodError(
                    f"features={TOKENS} is TinyBERT's hidden loss: it goes with distance=mse and order=map_then_pool"
                )
        elif not set(chosen) <= set(losses.POOLS) or len(set(chosen)) != len(chosen):
            raise MethodError(
                f"features={self.features} should join some of {', '.join(losses.POOLS)} with +, or be {TOKENS}"
            )
        if not 0 <= self.alpha <= 1:
            raise MethodError(f"alpha={self.alpha} should lie between 0 and 1")
        if self.temperature <= 0:
            raise MethodError(f"temperature={self.temperature} should be above 0")
        if self.experts < 1 or self.discriminator_width < 1:
            raise MethodError("experts and discriminator_width should be at least 1")
        if not 0 <= self.expert_dropout < 1:
            raise MethodError(f"expert_dropout={self.expert_dropout} should lie in [0, 1)")
        if self.discriminator_input == "features" and self.projection != "student":
            raise MethodError(
                "discriminator_input=features compares at the teacher's width: it needs projection=student"
            )
        if self.discriminator_steps < 0:
            raise MethodError(f"discriminator_steps={self.discriminator_steps} should not be negative")

    @property
    def several_tasks(self) -> bool:
        return self.tasks == "together"

    def build(self, setup: Setup) -> Student:
        model = self.student_model(setup)
        model.dropout = nn.Dropout(0.0)  # each expert has a dropout of its own
        model.classifier = TaskExperts(  # type: ignore[assignment]
            self.hidden, dict(zip(setup.tasks, setup.labels_of_tasks, strict=True)), self.experts, self.expert_dropout
        )
        width = setup.teacher.hidden_size
        mapped = range(self.layers + 1) if self.projection_per_layer else [0]
        aux = nn.ModuleDict()
        if self.projection in ("student", "common"):
            aux["student_projection"] = nn.ModuleList(self.start_projection(setup) for _ in mapped)
        if self.projection in ("teacher", "common"):
            common = width if self.projection == "common" else self.hidden
            aux["teacher_projection"] = nn.ModuleList(nn.Linear(width, common) for _ in mapped)
        discriminators = [
            self._discriminator(width if self.discriminator_input == "features" else labels)
            for labels in setup.labels_of_tasks
        ]
        aux["disc"] = nn.ModuleList(discriminators) if self.several_tasks else discriminators[0]
        return Student(model, aux, {"disc": ("disc",)})

    def _discriminator(self, seen: int) -> nn.Sequential:
        return nn.Sequential(
            nn.Linear(seen, self.discriminator_width), nn.LeakyReLU(0.2), nn.Linear(self.discriminator_width, 1)
        )

    def stages(self, setup: Setup) -> Sequence[Stage]:
        depth = setup.teacher.num_hidden_layers
        nearest = nearest_layers(self.layers, depth)
        layer_weights = (
            averaged_layers(self.layers, depth)
            if self.teacher_layers == "average"
            else {m: {nearest[m]: 1.0} for m in range(1, self.layers + 1)}
        )
        layer_weights[0] = {0: 1.0}
        features = tuple(self.features.split("+"))

        def mapped(side: str, x: Tensor, m: int, aux: nn.ModuleDict) -> Tensor:
            if side not in aux:
                return x
            maps = cast(nn.ModuleList, aux[side])
            return maps[m if len(maps) > 1 else 0](x)

        def teacher_states(teacher: Out, m: int) -> Tensor:
            parts = (weight * teacher.hidden(n) for n, weight in layer_weights[m].items())
            return sum(parts)  # type: ignore[return-value]

        def align(m: int, batch: Batch, student: Out, teacher: Out, aux: nn.ModuleDict) -> Tensor:
            ours, theirs, layout = student.hidden(m), teacher_states(teacher, m), batch.layout
            if self.order == "map_then_pool":
                ours, theirs = mapped("student_projection", ours, m, aux), mapped("teacher_projection", theirs, m, aux)
                if self.features == TOKENS:
                    return losses.hidden_mse_tokenmean(ours, theirs)
                return losses.feature_alignment(ours, theirs, layout, features, self.distance)
            compare = losses.DISTANCES[self.distance]
            parts = (
                compare(
                    mapped("student_projection", losses.POOLS[f](layout, ours), m, aux).float(),
                    mapped("teacher_projection", losses.POOLS[f](layout, theirs), m, aux).float(),
                )
                for f in features
            )
            return sum(parts)  # type: ignore[return-value]

        def hidn(batch: Batch, student: Out, teacher: Out, aux: nn.ModuleDict) -> Tensor:
            return sum(align(m, batch, student, teacher, aux) for m in range(1, self.layers + 1))  # type: ignore[return-value]

        def attn(batch: Batch, student: Out, teacher: Out, aux: nn.ModuleDict) -> Tensor:
            parts = (
                losses.scores_mse_realmean(student.scores(m), teacher.scores(nearest[m]), batch.layout)
                for m in range(1, self.layers + 1)
            )
            return sum(parts)  # type: ignore[return-value]

        def judged(side: str, batch: Batch, out: Out, aux: nn.ModuleDict) -> Tensor:
            """[B] what the discriminator of the batch's task says of one model."""
            found = aux["disc"]
            discriminator = found[batch.task] if isinstance(found, nn.ModuleList) else found
            return discriminator(shown(side, batch, out, aux))[:, 0].float()  # type: ignore[no-any-return]

        def shown(side: str, batch: Batch, out: Out, aux: nn.ModuleDict) -> Tensor:
            """What the discriminator sees of one model."""
            if self.discriminator_input == "features":
                if side == "teacher":
                    return out.layout.first(teacher_states(out, self.layers))
                return mapped("student_projection", out.layout.first(out.hidden(self.layers)), self.layers, aux)
            if self.discriminator_input == "logits" or setup.labels_of_tasks[batch.task] == 1:
                return out.logits
            return out.logits.float().softmax(-1)

        def adversarial(batch: Batch, student: Out, teacher: Out, aux: nn.ModuleDict) -> Tensor:
            return losses.adversarial_loss(judged("student", batch, student, aux), self.gan)

        def discriminate(batch: Batch, student: Out, teacher: Out, aux: nn.ModuleDict) -> Tensor:
            # the student is seen detached: it belongs to another player
            real, fake = judged("teacher", batch, teacher, aux), judged("student", batch, student, aux)
            return losses.discriminator_loss(real, fake, self.gan)

        logits = Needs(logits=True)
        of_last_teacher = Needs(hidden=frozenset(layer_weights[self.layers]))
        of_last_student = Needs(hidden=frozenset({self.layers}))
        student_seen = of_last_student if self.discriminator_input == "features" else logits
        teacher_seen = of_last_teacher if self.discriminator_input == "features" else logits
        encoder_layers = frozenset(range(1, self.layers + 1))
        of_teacher = frozenset(n for m in encoder_layers for n in layer_weights[m])
        disc = Term(discriminate, student=student_seen, teacher=teacher_seen, player="disc")
        embedding_only = Needs(hidden=frozenset({0}))
        alignment = {
            "hidn": Term(hidn, self.hidn_weight, Needs(hidden=encoder_layers), Needs(hidden=of_teacher)),
            "embd": Term(
                lambda batch, student, teacher, aux: align(0, batch, student, teacher, aux),
                self.embd_weight,
                embedding_only,
                embedding_only,
            ),
        }
        if self.attention:
            of_heads = frozenset(nearest[m] for m in encoder_layers)
            alignment["attn"] = Term(
                attn,
                1.0,
                Needs(scores=encoder_layers),
                Needs(scores=of_heads),
                impossible=unequal_heads(self.heads, setup.teacher),
            )
        prediction = {
            "pred": softened(self.temperature, self.alpha),
            "hard": hard(1 - self.alpha),
            "dis.adv": Term(adversarial, self.gamma, student_seen, Needs()),
            "dis.disc": disc,
        }
        # Nothing is stated: these are ours, for small and large tasks alike.
        paper = {"epochs": 10.0, "learning_rate": 5e-5}
        first = (
            (Stage("discriminator", {"dis.disc": disc}, preparatory_steps=self.discriminator_steps),)
            if self.discriminator_steps
            else ()
        )
        if self.schedule == "tinybert":
            return (
                *first,
                Stage("alignment", alignment, share=2 / 3, paper={**paper, "epochs": 20 / 3}),
                Stage("prediction", prediction, share=1 / 3, paper={**paper, "epochs": 10 / 3}),
            )
        return (*first, Stage("joint", {**alignment, **prediction}, paper=paper))

    def deploy(self, student: Student) -> Mapping[str, nn.Module]:
        """The experts fused into one layer: what is scored has TinyBERT4's size. Of several tasks one for each."""
        trained = cast(BertForSequenceClassification, student.model)
        if self.several_tasks:
            tasks = cast(TaskExperts, trained.classifier).tasks
            return {task: self._fused(trained, number) for number, task in enumerate(tasks)}
        return {"": self._fused(trained, 0)}

    @staticmethod
    def _fused(trained: BertForSequenceClassification, task: int) -> nn.Module:
        experts = cast(TaskExperts, trained.classifier)
        weights = {name: value for name, value in trained.state_dict().items() if not name.startswith("classifier.")}
        head = experts.fused(task)
        config = copy.deepcopy(trained.config)
        config.num_labels = head.out_features
        shipped = BertForSequenceClassification(config)
        shipped.load_state_dict({**weights, "classifier.weight": head.weight, "classifier.bias": head.bias})
        shipped.set_attn_implementation("packed")
        return nn.Module.to(shipped, head.weight.device)
