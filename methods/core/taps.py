"""Taps: what a term reads of a model, named one by one; and the outcome of a forward pass that has
these alone.

Layers are 1-based; hidden 0 is the embedding output. Shape legend: see ``methods/core/packed.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from torch import Tensor

from methods.core.errors import MethodError, UndeclaredNeed

if TYPE_CHECKING:
    from torch import nn

    from methods.core.packed import Layout

Kind = Literal["logits", "hidden", "scores", "vectors", "exits", "gates", "pooled"]
# of methods.core.packed.POOLS: cls the first token's state, mean or max over a sequence's tokens
Pool = str
Source = int | Mapping[int, float]
"""Whose states are read: a layer, or several layers with weights for the sum of their states, in
this order."""


class Tap(NamedTuple):
    """One thing that is read of a model. Made by the functions below, which name what each kind
    gives."""

    kind: Kind
    layer: int = 0
    pool: Pool = ""
    # of pooled states: the layers of a weighted sum, in the place of layer
    weights: tuple[tuple[int, float], ...] = ()

    @property
    def layers(self) -> frozenset[int]:
        """Layers that have to run for it; none for logits, which need all."""
        if self.kind == "logits":
            return frozenset()
        return frozenset(layer for layer, _ in self.weights) or frozenset({self.layer})

    def __str__(self) -> str:
        if self.kind == "logits":
            return "logits"
        if self.kind != "pooled":
            return f"{self.kind} {self.layer}"
        layers = "+".join(str(layer) for layer, _ in self.weights) or str(self.layer)
        return f"{self.pool} of hidden {layers}"


Taps = frozenset[Tap]  # what one or several terms read; their union is |
NOTHING: Taps = frozenset()
# [B, C]; a regression has C = 1, of spans [2 B, L] (methods.core.packed.span_logits)
LOGITS: Taps = frozenset({Tap("logits")})


def hidden(*layers: int) -> Taps:
    """States after these layers, [T, W] each."""
    return frozenset(Tap("hidden", layer) for layer in layers)


def scores(*layers: int) -> Taps:
    """Scaled attention scores before the softmax, [n, H, L, L] for each of ``layout.chunks``.
    Places without a token are not masked: use the chunk's ``mask_nL`` for queries, ``keys_nL`` for
    keys."""
    return frozenset(Tap("scores", layer) for layer in layers)


def vectors(*layers: int) -> Taps:
    """Queries, keys and values, [T, H * D] each: all heads next to each other."""
    return frozenset(Tap("vectors", layer) for layer in layers)


def exits(*layers: int) -> Taps:
    """[B, C] logits of the classifiers that an early-exit model has after these layers."""
    return frozenset(Tap("exits", layer) for layer in layers)


def gates(*layers: int) -> Taps:
    """[T, E] logits of each token's gate over the E experts of these layers; of a gate that sees
    sentences the same for all its tokens."""
    return frozenset(Tap("gates", layer) for layer in layers)


def pooled(source: Source, *pools: Pool) -> Taps:
    """[B, W] of each pool over the states of a layer, or over the weighted sum of several layers'
    states: where a teacher's outputs are kept, one vector for each sequence and not for each
    token."""
    return frozenset(_pooled(source, pool) for pool in pools)


def _pooled(source: Source, pool: Pool) -> Tap:
    if pool not in ("cls", "mean", "max"):
        raise ValueError(f"there is no pool {pool!r}: choose cls, mean or max")
    if isinstance(source, int):
        return Tap("pooled", source, pool)
    return Tap("pooled", 0, pool, tuple(source.items()))


def layers_of(taps: Iterable[Tap], *kinds: Kind) -> frozenset[int]:
    """Layers that taps of these kinds are of; of all kinds where none is named."""
    return frozenset(
        layer for tap in taps if not kinds or tap.kind in kinds for layer in tap.layers
    )


class Out:
    """One forward pass over a packed batch: ``out[tap]``, or by the name of its kind, whose
    function above says the shape. Raises UndeclaredNeed: a term read what it had not declared."""

    def __init__(
        self,
        layout: Layout,
        values: Mapping[Tap, Any] | None = None,
        model: nn.Module | None = None,
    ) -> None:
        self.layout = layout
        self.values = dict(values or {})
        self._model = model

    @property
    def model(self) -> nn.Module:
        """The student that was read, as ``build`` made it:
        ``methods.core.models.forward(student.model, batch, taps)`` asks it a second time. Raises
        MethodError: these are the outputs of a teacher, which may have been kept in a file, or no
        model's."""
        if self._model is None:
            raise MethodError(
                "a term reaches the student's model alone; the teacher's weights are an artefact, "
                "methods.core.artefacts.TeacherWeights(tuned=True)"
            )
        return self._model

    def of_model(self, model: nn.Module) -> Out:
        """The same pass, with the model that :attr:`model` gives."""
        return Out(self.layout, self.values, model)

    def __getitem__(self, tap: Tap) -> Any:
        """A tensor; of scores a tuple with one for each chunk, of vectors queries, keys and
        values."""
        if tap not in self.values:
            declared = ", ".join(sorted(map(str, self.values))) or "nothing"
            raise UndeclaredNeed(
                f"a term read {tap}, but declares {declared}; add it to the term's taps "
                "(methods.core.taps)"
            )
        return self.values[tap]

    @property
    def logits(self) -> Tensor:
        return self[Tap("logits")]  # type: ignore[no-any-return]

    def hidden(self, layer: int) -> Tensor:
        return self[Tap("hidden", layer)]  # type: ignore[no-any-return]

    def scores(self, layer: int) -> tuple[Tensor, ...]:
        return self[Tap("scores", layer)]  # type: ignore[no-any-return]

    def vectors(self, layer: int) -> tuple[Tensor, Tensor, Tensor]:
        return self[Tap("vectors", layer)]  # type: ignore[no-any-return]

    def exits(self, layer: int) -> Tensor:
        return self[Tap("exits", layer)]  # type: ignore[no-any-return]

    def gates(self, layer: int) -> Tensor:
        return self[Tap("gates", layer)]  # type: ignore[no-any-return]

    def pooled(self, source: Source, pool: Pool) -> Tensor:
        return self[_pooled(source, pool)]  # type: ignore[no-any-return]

    def tensors(self) -> list[Tensor]:
        """All that it has, in the order of :meth:`each`."""
        return [
            x
            for value in self.values.values()
            for x in (value if isinstance(value, tuple) else (value,))
        ]

    def each(self, change: Callable[[Tensor], Tensor]) -> Out:
        """The same pass with every tensor changed."""

        def changed(value: Any) -> Any:
            return tuple(map(change, value)) if isinstance(value, tuple) else change(value)

        values = {tap: changed(value) for tap, value in self.values.items()}
        return Out(self.layout, values, self._model)

    def detached(self) -> Out:
        """The same values cut from the graph: what a player other than ``main`` may see of the
        student."""
        return self.each(Tensor.detach)
