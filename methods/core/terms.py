"""Terms that many methods share: of the labels, of the teacher's logits, and of student layers with
teacher layers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, Literal, TypeVar

from torch import Tensor, nn

from methods.api import Batch, Out, Term
from methods.core import losses
from methods.core.packed import Layout
from methods.core.taps import LOGITS, Source, Taps, hidden, pooled, scores, vectors

Weight = float | Callable[[float], float]
Value = TypeVar("Value")


def hard(weight: Weight = 1.0) -> Term:
    """Cross-entropy with the labels, weighted by class where a task asks for that; for a regression
    the mean squared error."""

    def on_labels(batch: Batch, student: Out, teacher: Out, aux: nn.ModuleDict) -> Tensor:
        return losses.hard(student.logits, batch.labels, batch.label_weights)

    return Term(on_labels, weight, LOGITS)


def soft(loss: Callable[[Tensor, Tensor], Tensor], weight: Weight = 1.0) -> Term:
    """``loss`` of the student's and the teacher's logits, both [B, C]."""
    return Term(
        lambda batch, student, teacher, aux: loss(student.logits, teacher.logits),
        weight,
        LOGITS,
        LOGITS,
    )


def softened(temperature: float, weight: Weight) -> Term:
    """T^2 KL(teacher || student), mean over B (Hinton et al. 2015)."""
    return soft(lambda ours, theirs: losses.soft_kl_batchmean(ours, theirs, temperature), weight)


LayerMap = Mapping[int, Source]
"""Student layer -> the teacher layer that it learns from, or several with weights. 1-based; hidden
0 is the embedding output."""


@dataclass(frozen=True)
class LayerOutput(Generic[Value]):
    """Something that a model gives for each of its layers: how a term reads it, and how it declares
    that."""

    read: Callable[[Out, int], Value]
    declare: Callable[..., Taps]  # layers -> their taps
    pools: tuple[str, ...] = ()
    """of hidden states: the teacher's come pooled so, a tuple of [B, W], in the place of [T, W]"""

    def of_source(self, teacher: Out, source: Source) -> Value:
        """The value that the teacher gives for one layer, or for the weighted sum of its [T, W]
        states after several."""
        given: Any
        if self.pools:
            given = tuple(teacher.pooled(source, pool) for pool in self.pools)
        elif isinstance(source, int):
            given = self.read(teacher, source)
        else:
            given = sum(weight * teacher.hidden(n) for n, weight in source.items())
        return given  # type: ignore[no-any-return]

    def taps(self, layers: LayerMap) -> tuple[Taps, Taps]:
        """The taps that a comparison of these layers reads of the student, and those of the
        teacher."""
        if self.pools:
            theirs = [pooled(source, *self.pools) for source in layers.values()]
        else:
            theirs = [self.declare(*([s] if isinstance(s, int) else s)) for s in layers.values()]
        return self.declare(*layers), frozenset().union(*theirs)


HIDDEN: LayerOutput[Tensor] = LayerOutput(Out.hidden, hidden)  # states after a layer, [T, W]
# before the softmax, [n, H, L, L] a chunk
SCORES: LayerOutput[tuple[Tensor, ...]] = LayerOutput(Out.scores, scores)
# [T, H * D] each
VECTORS: LayerOutput[tuple[Tensor, Tensor, Tensor]] = LayerOutput(Out.vectors, vectors)


def with_pooled_teacher(*pools: str) -> LayerOutput[Any]:
    """The student's [T, W] states with the teacher's pooled ones, a tuple of [B, W] in the order of
    ``pools``."""
    return LayerOutput(Out.hidden, hidden, pools)


@dataclass(frozen=True)
class Pair(Generic[Value]):
    """A student layer and what it learns from: the arguments of a loss of two layers."""

    layer: int  # the student's, 1-based; 0 is the embedding output
    student: Value
    teacher: Value
    layout: Layout
    aux: nn.ModuleDict  # the student's projections and whatever else it learns with


def plain(loss: Callable[[Value, Value], Tensor]) -> Callable[[Pair[Value]], Tensor]:
    """A loss of the student's and the teacher's side, as a loss of a pair."""
    return lambda pair: loss(pair.student, pair.teacher)


def with_layout(loss: Callable[[Value, Value, Layout], Tensor]) -> Callable[[Pair[Value]], Tensor]:
    """The same of a loss that also reads where each sequence lies."""
    return lambda pair: loss(pair.student, pair.teacher, pair.layout)


def layerwise(
    kind: LayerOutput[Value],
    layers: LayerMap,
    loss: Callable[[Pair[Value]], Tensor],
    weight: Weight = 1.0,
    *,
    reduction: Literal["sum", "mean"] = "sum",
    unsupported: str = "",
) -> Term:
    """``loss`` of every student layer and the teacher's layer (or average of layers) that it learns
    from, over all layers. Its taps are those of ``layers``: a loss that reads anything else of a
    model has to be a term of its own.

    Args:
        kind: what is compared: HIDDEN, SCORES or VECTORS, or what :func:`with_pooled_teacher`
            gives.
        layers: the pairs, in the order in which their losses are added.
        loss: a scalar of one pair, projected out of ``pair.aux``; :func:`plain` or
            :func:`with_layout` of ``methods.core.losses``.
        reduction: over layers; reductions over tokens and width are those of ``loss``.
    """
    is_one_to_one = all(isinstance(source, int) for source in layers.values())
    if kind.declare is not hidden and not is_one_to_one:
        raise ValueError(
            "only hidden states have a weighted sum over teacher layers; map each layer to one "
            "number"
        )

    def term(batch: Batch, student: Out, teacher: Out, aux: nn.ModuleDict) -> Tensor:
        values = (
            (m, kind.read(student, m), kind.of_source(teacher, source))
            for m, source in layers.items()
        )
        total = sum(loss(Pair(m, ours, theirs, batch.layout, aux)) for m, ours, theirs in values)
        return total / len(layers) if reduction == "mean" else total  # type: ignore[return-value]

    return Term(term, weight, *kind.taps(layers), unsupported=unsupported)
