"""MiniLM (Wang et al. 2020, NeurIPS) and MiniLMv2 (Wang et al. 2021, Findings of ACL):
self-attention relations.

The papers': task-agnostic. On unlabelled text, the student's last layer imitates one layer of the
un-tuned teacher; nothing else is compared, so width, depth and (version 2) the number of heads are
free. Version 1: KL divergence of the attention distributions and of the value relation softmax(V
V^T / sqrt(D)), teacher's last layer, equal heads. Version 2: query-query, key-key and value-value
relations, all heads laid side by side and cut into the same number of relation heads on both sides.
Afterwards the student is fine-tuned like any BERT: the labels are its only loss.
As in public code: KL averaged over relation heads and real tokens of each sequence, then over
sequences; relations of weight 1/3 each in version 2.
Ours: no dropout in the student while it imitates, so that its relations are those it will have (a
public code of version 2 leaves the student's dropout of 0.1 on, but for the relations themselves);
the student begins as the teacher cut down to its shape, like the shared general start (at random
where the shape does not fit into the teacher's), and sees the same text (the papers: random weights
and 400,000 steps; ``start=random`` is theirs), so that it differs from the other rows by its
objective alone; ``relation_heads=0`` takes the largest number up to 48 that divides both widths, as
48 does for BERT-base (64 for teachers of width 1024 or more); no teacher assistant for thin
students. With version 1 a teacher of another number of heads is refused. The general stage's rate
is the common one, 1e-3; with ``--recipe paper`` the papers': 5e-4, in version 2 6e-4 for students
up to 384 wide and 4e-4 for wider ones, with 1 % warm-up (4,000 of 400,000 steps). These rates are
at second hand: no code of the authors' gives them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

from torch import Tensor
from transformers import PretrainedConfig

from methods.api import MethodError, Setup, Shape, Stage, Student, Term
from methods.core import losses
from methods.core.artefacts import Artefact, PretrainingStage, TruncatedTeacher
from methods.core.own_shape import OwnShape
from methods.core.parts import bert_config, classifier, encoder_of, without_projection
from methods.core.terms import SCORES, VECTORS, Pair, hard, layerwise, with_layout

MOST_RELATION_HEADS = 48
MOST_OF_LARGE_TEACHERS = 64


@dataclass(frozen=True)
class Relations(PretrainingStage):
    """The general stage: relations of the student's last layer against those of
    one teacher layer."""

    shape: Shape
    start: str
    teacher_layer: int  # 1-based; 0: the last
    # 0: version 1, attention distributions and value relations of the models' own heads
    relation_heads: int
    values: bool

    name: ClassVar = "relations"

    def requires(self, teacher: PretrainedConfig) -> Sequence[Artefact]:
        return (TruncatedTeacher(self.shape),) if self.start == "teacher" else ()

    def build(self, setup: Setup) -> Student:
        config = bert_config(self.shape, setup.teacher)
        config.hidden_dropout_prob = config.attention_probs_dropout_prob = 0.0
        cut = setup.artefacts[TruncatedTeacher.name] if self.start == "teacher" else {}
        return Student(classifier(config, without_projection(cut) or None))

    def stages(self, setup: Setup) -> Sequence[Stage]:
        layers = {self.shape.layers: self.teacher_layer or setup.teacher.num_hidden_layers}
        if self.relation_heads:
            names = ("queries", "keys", "values")[: 2 + self.values]
            terms = {
                name: relations(n, layers, self.relation_heads, 1 / 3)
                for n, name in enumerate(names)
            }
        else:
            terms = {
                "attention": layerwise(
                    SCORES, layers, with_layout(losses.attention_kl_sequencemean)
                )
            }
            if self.values:
                terms["values"] = relations(2, layers, self.shape.heads, 1.0)
        # the papers' peak rate: version 1's, and version 2's by the student's width
        rate = 5e-4 if not self.relation_heads else 6e-4 if self.shape.hidden <= 384 else 4e-4
        return (Stage("relations", terms, paper={"learning_rate": rate, "warmup": 0.01}),)


def relations(which: int, layers: Mapping[int, int], heads: int, weight: float) -> Term:
    """KL of the relations of queries (``which`` 0), keys (1) or values (2), each [T, W] cut
    into so many heads. Version 2, equations 4 to 6 there; of values with the models' own
    heads also version 1."""

    def loss(pair: Pair[tuple[Tensor, Tensor, Tensor]]) -> Tensor:
        return losses.relation_kl(pair.student[which], pair.teacher[which], heads, pair.layout)

    return layerwise(VECTORS, layers, loss, weight)


@dataclass(frozen=True, kw_only=True)
class _RelationsThenLabels(OwnShape):
    """What both versions share: relations on text, then the labels."""

    terms: ClassVar = ("hard",)
    ablations: ClassVar = {"w/o value relation": ":values=false", "random start": ":start=random"}
    needs_teacher: ClassVar = False
    spans: ClassVar = True

    start: Literal["teacher", "random"] = "teacher"  # type: ignore[assignment]
    """Where the general stage begins."""
    # 1-based; 0: the last. The paper of version 2 takes a large teacher's layer 21 or 19 of 24.
    teacher_layer: int = 0
    values: bool = True  # whether value relations are compared

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.teacher_layer < 0:
            raise MethodError(
                f"teacher_layer={self.teacher_layer} should be 1 or more, or 0 for the last"
            )

    def heads_of_relations(self, teacher: PretrainedConfig) -> int:
        raise NotImplementedError

    def requires(self, teacher: PretrainedConfig) -> Sequence[Artefact]:
        if self.teacher_layer > teacher.num_hidden_layers:
            raise MethodError(
                f"teacher_layer={self.teacher_layer}: the teacher has "
                f"{teacher.num_hidden_layers} layers"
            )
        return (
            Relations(
                self.shape,
                self.start,
                self.teacher_layer,
                self.heads_of_relations(teacher),
                self.values,
            ),
        )

    def start_tensors(self, setup: Setup) -> Mapping[str, Tensor]:
        return encoder_of(setup.artefacts[Relations.name])

    def stages(self, setup: Setup) -> Sequence[Stage]:
        # ours: one point of those that a public code of version 2 tries, 3, 5 or 10 epochs at 1e-5
        # to 4e-5
        return (Stage("finetune", {"hard": hard()}, paper={"epochs": 5.0, "learning_rate": 3e-5}),)


@dataclass(frozen=True, kw_only=True)
class MiniLM(_RelationsThenLabels):
    name: ClassVar = "minilm"
    version: ClassVar = 1
    remark: ClassVar = (
        "minilm has its own pre-training on text (relations). It imitates the teacher's "
        "self-attention relations."
    )

    def heads_of_relations(self, teacher: PretrainedConfig) -> int:
        if teacher.num_attention_heads != self.heads:
            wrong = (
                f"heads={self.heads}: version 1 compares head by head, and the teacher has "
                f"{teacher.num_attention_heads}"
            )
            raise MethodError(f"{wrong}; minilmv2 is free of that")
        return 0


@dataclass(frozen=True, kw_only=True)
class MiniLMv2(_RelationsThenLabels):
    name: ClassVar = "minilmv2"
    version: ClassVar = 1
    remark: ClassVar = (
        "minilmv2 has its own pre-training on text (relations). It imitates the teacher's "
        "self-attention relations."
    )

    relation_heads: int = 0
    """0: the largest number up to 48 (64 for a teacher of width 1024 or more) that
    divides both widths."""

    def heads_of_relations(self, teacher: PretrainedConfig) -> int:
        widths = (self.hidden, teacher.hidden_size)
        if self.relation_heads < 0 or (
            self.relation_heads and any(w % self.relation_heads for w in widths)
        ):
            divided = f"{widths[0]} and {widths[1]}"
            raise MethodError(
                f"relation_heads={self.relation_heads} should divide both widths, {divided}"
            )
        most = MOST_OF_LARGE_TEACHERS if teacher.hidden_size >= 1024 else MOST_RELATION_HEADS
        if self.relation_heads:
            return self.relation_heads
        # 1 divides everything
        number = most
        while any(width % number for width in widths):
            number -= 1
        return number
