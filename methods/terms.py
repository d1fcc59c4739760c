"""Terms that many methods share: of the labels, of the teacher's logits, and of student layers with teacher layers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Generic, Literal, TypeVar

from torch import Tensor, nn

from methods import losses
from methods.api import Batch, Needs, Out, Term
from methods.packed import Layout

LOGITS = Needs(logits=True)
Weight = float | Callable[[float], float]


def hard(weight: Weight = 1.0) -> Term:
    """Cross-entropy with the labels; for a regression the mean squared error."""
    return Term(lambda batch, student, teacher, aux: losses.hard(student.logits, batch.labels), weight, LOGITS)


def soft(loss: Callable[[Tensor, Tensor], Tensor], weight: Weight = 1.0) -> Term:
    """``loss`` of the student's and the teacher's logits, both [B, C]."""
    return Term(lambda batch, student, teacher, aux: loss(student.logits, teacher.logits), weight, LOGITS, LOGITS)


def softened(temperature: float, weight: Weight) -> Term:
    """T^2 KL(teacher || student), mean over B (Hinton et al. 2015)."""
    return soft(lambda ours, theirs: losses.soft_kl_batchmean(ours, theirs, temperature), weight)


Value = TypeVar("Value")


Source = int | Mapping[int, float]
"""The teacher layer that a student layer learns from, or several with their weights, for the weighted sum of their states."""
LayerMap = Mapping[int, Source]
"""Student layer -> its source. Layers are 1-based; hidden 0 is the embedding output."""


@dataclass(frozen=True)
class Kind(Generic[Value]):
    """Something that a model gives for each of its layers: how a term reads it, and how it declares that."""

    read: Callable[[Out, int], Value]
    declare: Callable[[frozenset[int]], Needs]

    def of_source(self, teacher: Out, source: Source) -> Value:
        """What the teacher gives for one layer, or the weighted sum of its [T, W] states after several."""
        if isinstance(source, int):
            return self.read(teacher, source)
        return sum(weight * teacher.hidden(n) for n, weight in source.items())  # type: ignore[return-value]

    def needs(self, layers: LayerMap) -> tuple[Needs, Needs]:
        """What a comparison of these layers reads of the student, and what of the teacher."""
        sources = ({source} if isinstance(source, int) else source for source in layers.values())
        return self.declare(frozenset(layers)), self.declare(frozenset(n for found in sources for n in found))


HIDDEN: Kind[Tensor] = Kind(Out.hidden, lambda layers: Needs(hidden=layers))
"""States after a layer, [T, W]."""
SCORES: Kind[tuple[Tensor, ...]] = Kind(Out.scores, lambda layers: Needs(scores=layers))
"""Attention scores before the softmax, [n, H, L, L] for each chunk of the layout."""
VECTORS: Kind[tuple[Tensor, Tensor, Tensor]] = Kind(Out.vectors, lambda layers: Needs(vectors=layers))
"""Queries, keys and values, each [T, H * D]."""


@dataclass(frozen=True)
class Pair(Generic[Value]):
    """A student layer and what it learns from: the arguments of a loss of two layers."""

    layer: int
    """The student's, 1-based; 0 is the embedding output."""
    student: Value
    teacher: Value
    layout: Layout
    aux: nn.ModuleDict
    """The student's projections and whatever else it learns with."""


def plain(loss: Callable[[Value, Value], Tensor]) -> Callable[[Pair[Value]], Tensor]:
    """A loss of the student's and the teacher's side, as a loss of a pair."""
    return lambda pair: loss(pair.student, pair.teacher)


def with_layout(loss: Callable[[Value, Value, Layout], Tensor]) -> Callable[[Pair[Value]], Tensor]:
    """The same of a loss that also reads where each sequence lies."""
    return lambda pair: loss(pair.student, pair.teacher, pair.layout)


def layerwise(
    kind: Kind[Value],
    layers: LayerMap,
    loss: Callable[[Pair[Value]], Tensor],
    weight: Weight = 1.0,
    *,
    reduction: Literal["sum", "mean"] = "sum",
    unsupported: str = "",
) -> Term:
    """``loss`` of every student layer and the teacher's layer (or average of layers) that it learns from, over all layers.

    The term's needs are the layers of ``layers``: a loss that reads anything else of a model has to be a term of its own.

    Args:
        kind: what is compared: HIDDEN, SCORES or VECTORS.
        layers: the pairs, in the order in which their losses are added.
        loss: a scalar of one pair; :func:`plain` and :func:`with_layout` make it of a function of ``methods.losses``. A
            projection is a part of it, out of ``pair.aux``.
        reduction: over layers; reductions over tokens and width are those of ``loss``.
        unsupported: as in :class:`methods.api.Term`.

    Raises:
        ValueError: averages of something else than hidden states.
    """
    if kind is not HIDDEN and not all(isinstance(source, int) for source in layers.values()):
        raise ValueError("only hidden states have a weighted sum over teacher layers; map each layer to one number")

    def term(batch: Batch, student: Out, teacher: Out, aux: nn.ModuleDict) -> Tensor:
        total = sum(
            loss(Pair(m, kind.read(student, m), kind.of_source(teacher, source), batch.layout, aux))
            for m, source in layers.items()
        )
        return total / len(layers) if reduction == "mean" else total  # type: ignore[return-value]

    return Term(term, weight, *kind.needs(layers), unsupported=unsupported)
