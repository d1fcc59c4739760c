"""What a model or a module of a method's own tells whoever runs it. Plain classes of transformers need nothing of this.

A model with a forward pass, a cost or statistics of its own is a :class:`PackedModel`; a module that sends tokens different
ways is a :class:`RoutedModule`; a head that is told the task is a :class:`TaskHead`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from torch import Tensor, nn

if TYPE_CHECKING:
    from methods.batches import Batch
    from methods.taps import Out, Taps


@dataclass(frozen=True)
class Cost:
    """Multiply-accumulates of a forward pass: for each token, each squared length and each sequence."""

    per_token: float
    per_squared_length: float
    per_sequence: float

    def macs(self, tokens: float, squared_lengths: float, sequences: float) -> float:
        return self.per_token * tokens + self.per_squared_length * squared_lengths + self.per_sequence * sequences

    def of_length(self, length: int) -> int:
        """Of one sequence of ``length`` tokens, rounded: the cost of an average sequence can be a fraction."""
        return round(self.macs(length, length**2, 1))


class PackedModel(nn.Module):
    """A model that differs from its family in how it runs, costs or is observed; the defaults are those of the family.

    It is a mix-in, named first: ``class Mine(PackedModel, BertForSequenceClassification)``. What a model saves and how
    transformers opens it is the business of its other base.
    """

    leaves_early: ClassVar[bool] = False
    """Whether sequences may leave it before its last layer. They then cost less than :meth:`cost`, and a time measured with
    random weights means nothing."""
    reads_texts: ClassVar[bool] = False
    """Whether it reads texts by a vocabulary in its weights, by ``of_texts``, and not the tokenizer's numbers."""

    def packed_forward(self, batch: Batch, taps: Taps) -> Out:
        """One pass over a packed batch: what ``taps`` name and nothing else.

        Raises:
            UndeclaredNeed: it has no such thing to read.
        """
        from methods.packed import run_layers  # here, because packed.py imports this file

        return run_layers(self, batch, taps)

    def cost(self) -> Cost:
        """Of a forward pass as it is shipped."""
        from methods.families import closed_form  # here, because families.py imports this file

        return closed_form(self)

    def training_cost(self) -> Cost:
        """Of a forward pass while it trains, where that is another one: an upper bound."""
        return self.cost()

    def observed(self) -> Mapping[str, Any]:
        """What became of the sequences answered so far in evaluation mode: plain values for the record.

        An entry ``cost``, with the names of :class:`Cost`, is that of an average sequence.
        """
        return {}

    def of_texts(self, texts: Sequence[tuple[str, str | None]]) -> Tensor:
        """[B, C] logits of texts, or of pairs of texts; of a model with ``reads_texts``."""
        raise TypeError(f"{type(self).__name__} reads token ids, not texts")


class RoutedModule(nn.Module):
    """A module whose tokens do not all take the same way, as through experts."""

    macs_per_token: int = 0
    """Multiply-accumulates of one token, besides those of the linear layers in it."""
    inactive_parameters: int = 0
    """Parameters that one token does not meet."""


class TaskHead(nn.Module):
    """A classification head that is also told the task: ``forward(pooled_BW, task) -> [B, C]``."""


def packed_model(model: nn.Module) -> PackedModel | None:
    """The model as one with hooks of its own; None for a plain one.

    Raises:
        TypeError: its class has some of the hooks but does not say so: they would never be asked.
    """
    if isinstance(model, PackedModel):
        return model
    _refuse(type(model), PackedModel)
    return None


def routed_modules(model: nn.Module) -> list[RoutedModule]:
    """Those modules that send tokens different ways.

    Raises:
        TypeError: as :func:`packed_model`.
    """
    for module in model.modules():
        if not isinstance(module, RoutedModule):
            _refuse(type(module), RoutedModule)
    return [module for module in model.modules() if isinstance(module, RoutedModule)]


def observed(model: nn.Module) -> dict[str, Any]:
    """What the model says of the sequences it answered; empty for most."""
    own = packed_model(model)
    return {} if own is None else dict(own.observed())


def leaves_early(model: nn.Module) -> bool:
    """Whether sequences leave the model before its last layer."""
    own = packed_model(model)
    return own is not None and own.leaves_early


def reads_texts(model: nn.Module) -> bool:
    """Whether the model has a vocabulary of its own."""
    own = packed_model(model)
    return own is not None and own.reads_texts


def _refuse(kind: type, contract: type) -> None:
    hooks = {name for name in vars(contract) if not name.startswith("_")}
    own = sorted({name for base in kind.__mro__ for name in hooks & vars(base).keys()})
    if own:
        raise TypeError(
            f"{kind.__name__} has {', '.join(own)} but is no methods.models.{contract.__name__}: "
            f"write class {kind.__name__}({contract.__name__}, ...)"
        )
