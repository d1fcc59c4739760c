"""Interfaces by which a model or a module of a method's own says how it is run. Plain classes of
transformers need nothing of this.

A model with a forward pass, a cost or statistics of its own is a :class:`PackedModel`; a module
that sends tokens different ways is a :class:`RoutedModule`; a head that is told the task is a
:class:`TaskHead`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from inspect import signature
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

from methods.core import losses
from methods.core.direct_layers import DirectLayer, is_plain
from methods.core.errors import EmptyAttention, UndeclaredNeed
from methods.core.families import FAMILIES, family_name, family_of, last_layer
from methods.core.packed import POOLS, AttentionTrace, Batch, Layout, span_logits
from methods.core.taps import LOGITS, Out, Tap, Taps, layers_of

PADDED_KINDS = frozenset({"logits", "hidden", "pooled"})
"""Kinds of taps that an encoder gives which transformers runs, padded; attention alone is not among
them."""


@dataclass(frozen=True)
class Cost:
    """Multiply-accumulates of a forward pass: for each token, each squared length and each
    sequence."""

    per_token: float
    per_squared_length: float
    per_sequence: float

    def macs(self, tokens: float, squared_lengths: float, sequences: float) -> float:
        return (
            self.per_token * tokens
            + self.per_squared_length * squared_lengths
            + self.per_sequence * sequences
        )

    def of_length(self, length: int) -> int:
        """The cost of one sequence of ``length`` tokens, rounded: the cost of an average sequence
        can be a fraction."""
        return round(self.macs(length, length**2, 1))


class PackedModel(nn.Module):
    """A model that differs from its family in how it runs, costs or is observed; the defaults are
    those of the family. A mix-in, named first: ``class Mine(PackedModel,
    BertForSequenceClassification)``. Saving and opening is the business of the other base."""

    leaves_early: ClassVar[bool] = False
    """Whether sequences may leave it before its last layer. They then cost less than :meth:`cost`,
    and a time measured with random weights means nothing."""
    reads_texts: ClassVar[bool] = False
    """Whether it reads texts by a vocabulary in its weights, by ``of_texts``, and not the
    tokenizer's numbers."""

    rounds_values: ClassVar[bool] = False
    """Whether it rounds what it computes: the last digits of another kernel may then become a step,
    and logits differ by more."""

    def packed_forward(self, batch: Batch, taps: Taps) -> Out:
        """One pass over a packed batch: what ``taps`` name and nothing else. Raises UndeclaredNeed:
        it has no such thing to read."""
        return run_layers(self, batch, taps)

    def cost(self) -> Cost:
        """The cost of a forward pass as it is shipped."""
        return closed_form(self)

    def training_cost(self) -> Cost:
        """The cost of a forward pass while it trains, where that is another one: an upper bound."""
        return self.cost()

    def observed(self) -> Mapping[str, Any]:
        """Statistics of the sequences answered so far in evaluation mode: plain values for the
        record. An entry ``cost``, with the names of :class:`Cost`, is that of an average
        sequence."""
        return {}

    def stored(self) -> Mapping[str, Tensor]:
        """The tensors of a saved folder, if they are not the state dict (for example codes of few
        bits); empty otherwise."""
        return {}

    def of_texts(self, texts: Sequence[tuple[str, str | None]]) -> Tensor:
        """[B, C] logits of texts, or of pairs of texts; of a model with ``reads_texts``."""
        raise TypeError(f"{type(self).__name__} reads token ids, not texts")


class Around(PackedModel):
    """A model that is another one in a way of its own: its configuration and its cost are those of
    ``whole``."""

    def __init__(self, whole: Any) -> None:
        super().__init__()
        self.whole = whole

    @property
    def config(self) -> Any:
        return self.whole.config

    def cost(self) -> Cost:
        return cost(self.whole)


class FrozenTeacher(Around):
    """A frozen teacher that answers in a faster way, and as any model where it trains or its
    dropout is asked for."""

    def __init__(self, teacher: nn.Module, faster: Callable[[Batch, Taps], Out]) -> None:
        super().__init__(teacher.eval())
        self._faster = faster

    def packed_forward(self, batch: Batch, taps: Taps) -> Out:
        if self.training or torch.is_grad_enabled():
            return forward(self.whole, batch, taps)
        return self._faster(batch, taps)


def direct(teacher: Any) -> nn.Module:
    """The teacher, on its device, with layers that are put together once, and not in every pass;
    itself where its layers are others than BERT's."""
    if isinstance(teacher, PackedModel) or not is_packed(teacher):
        return teacher  # type: ignore[no-any-return]
    layers = family_of(teacher.eval()).layers(teacher.base_model)
    # one replaced or observed part, and the layer is run as it is
    if not all(map(is_plain, layers)):
        return teacher  # type: ignore[no-any-return]
    with torch.no_grad():
        return FrozenTeacher(
            teacher, partial(run_layers, teacher, layers=[DirectLayer(layer) for layer in layers])
        )


class DrawnLayers(Around):
    """A classifier to be shipped that trains with further layers beside it: each training batch
    draws the layers that it goes through (:meth:`drawn`). In evaluation there are only those that
    are shipped."""

    def __init__(self, shipped: Any, others: nn.Module, most: int) -> None:
        """``most``: layers that a batch goes through at most."""
        super().__init__(shipped)
        self.others = others
        self.most = most

    def drawn(self) -> list[nn.Module]:
        """The layers of a training batch."""
        raise NotImplementedError(f"{type(self).__name__} must implement drawn()")

    def packed_forward(self, batch: Batch, taps: Taps) -> Out:
        return run_layers(self.whole, batch, taps, self.drawn() if self.training else None)

    def training_cost(self) -> Cost:
        own = cost(self.whole)
        factor = self.most / self.config.num_hidden_layers
        return Cost(
            round(own.per_token * factor), round(own.per_squared_length * factor), own.per_sequence
        )


class WritingModel(PackedModel):
    """A model that writes a text from the first text of each pair: its logits [N, V] are those of
    every word to write."""

    def written(self, batch: Batch) -> list[list[int]]:
        """Token ids of what it writes for each pair, of which it sees the first text alone."""
        raise NotImplementedError(f"{type(self).__name__} must implement written()")

    def parts_cost(self) -> tuple[Cost, Cost]:
        """The cost of what reads, for each token that is read, and of what writes, for each word
        that is written and each beam."""
        raise NotImplementedError(f"{type(self).__name__} must implement parts_cost()")


class RoutedModule(nn.Module):
    """A module whose tokens do not all take the same way, as through experts."""

    # multiply-accumulates of one token, besides those of the linear layers in it
    macs_per_token: int = 0
    inactive_parameters: int = 0  # parameters that one token does not meet


class TaskHead(nn.Module):
    """A classification head that is also told the task: ``forward(pooled_BW, task) -> [B, C]``."""


def routed_modules(model: nn.Module) -> list[RoutedModule]:
    """Those modules that send tokens different ways."""
    return [module for module in model.modules() if isinstance(module, RoutedModule)]


def forward(classifier: nn.Module, batch: Batch, taps: Taps) -> Out:
    """One pass of a sequence classifier over a packed batch, returning only what ``taps`` name. The
    head reads the first token of each sequence; of spans it reads every token, as it comes out of
    the last layer. A :class:`PackedModel` answers for itself. Raises EmptyAttention: the model uses
    another attention kernel; TypeError: an unknown architecture; KeyError: a layer that the model
    does not have; UndeclaredNeed: nothing to exit by."""
    if isinstance(classifier, PackedModel):
        return classifier.packed_forward(batch, taps)
    return (
        run_layers(classifier, batch, taps)
        if is_packed(classifier)
        else padded(classifier, batch, taps)
    )


def reads_texts(model: nn.Module) -> bool:
    """:attr:`PackedModel.reads_texts`; of a plain class of transformers False."""
    return isinstance(model, PackedModel) and model.reads_texts


def leaves_early(model: nn.Module) -> bool:
    """:attr:`PackedModel.leaves_early`; of a plain class of transformers False."""
    return isinstance(model, PackedModel) and model.leaves_early


def rounds_values(model: nn.Module) -> bool:
    """:attr:`PackedModel.rounds_values`; of a plain class of transformers False."""
    return isinstance(model, PackedModel) and model.rounds_values


def without_graph(model: nn.Module) -> str:
    """Why no ONNX graph answers as the model does, as a clause; "" where nothing is known against
    one."""
    if reads_texts(model):
        return "it reads words"
    return "some sequences leave it early" if leaves_early(model) else ""


def is_packed(classifier: Any) -> bool:
    """Whether somebody described how its architecture runs packed."""
    return isinstance(classifier, PackedModel) or bool(family_name(classifier))


def inputs_of(classifier: Any) -> list[str]:
    """The names of what it reads of a padded batch. A kind of segment that it has only one of is no
    input: an exported graph lacks it."""
    kinds: Sequence[Any] = type(classifier).__mro__
    # a class of our own that answers in another way reads what transformers' class beneath it does
    theirs = [kind for kind in kinds if str(kind.__module__).startswith("transformers.models.")]
    there = signature([*theirs, classifier][0].forward).parameters
    several = getattr(classifier.config, "type_vocab_size", 2) > 1
    return [
        name
        for name in ("input_ids", "attention_mask", *["token_type_ids"] * several)
        if name in there
    ]


def padded(classifier: Any, batch: Batch, taps: Taps = LOGITS) -> Out:
    """Logits and hidden states of a classifier of another architecture, as transformers runs it:
    with [PAD] behind the shorter sequences. Raises TypeError: its attention cannot be read, and an
    answer that is a part of a text not be given."""
    refused = sorted(str(tap) for tap in taps if tap.kind not in PADDED_KINDS)
    if batch.spans:
        refused.insert(0, "spans")
    if refused:
        raise TypeError(
            f"{type(classifier).__name__} runs padded and gives no {refused[0]}; "
            f"{', '.join(FAMILIES)} run packed and do"
        )

    # the padded batch
    layout = batch.layout
    ids_BL = pad_sequence(
        batch.token_ids.split(layout.lengths), True, classifier.config.pad_token_id or 0
    )
    # of a sequence that was filled, what it is filled with is not attended to
    real_B1 = torch.tensor(layout.real, device=ids_BL.device)[:, None]
    read_BL = torch.arange(ids_BL.size(1), device=ids_BL.device) < real_B1
    given = {"input_ids": ids_BL, "attention_mask": read_BL.long()}
    if "token_type_ids" in inputs_of(classifier):
        given["token_type_ids"] = pad_sequence(batch.segment_ids.split(layout.lengths), True)

    # its states, of the packed tokens
    chosen = layers_of(taps, "hidden", "pooled")
    answer = classifier(**given, output_hidden_states=bool(chosen))
    # where each packed token stands in the padded batch
    place_T = layout.owner_T * ids_BL.size(1) + layout.positions_T
    states = {
        layer: answer.hidden_states[layer].flatten(0, 1).index_select(0, place_T)
        for layer in chosen
    }
    return Out(layout, {Tap("logits"): answer.logits} | of_states(layout, states, taps))


def run_layers(
    classifier: nn.Module,
    batch: Batch,
    taps: Taps,
    layers: Sequence[Callable[..., Any]] | None = None,
) -> Out:
    """:func:`forward` for a class of ``methods/core/families.py``, through these ``layers`` in the
    place of its own."""
    model: Any = classifier
    if layers_of(taps, "exits"):
        raise UndeclaredNeed(
            f"{type(model).__name__} has no classifier before its last layer: nothing to exit by"
        )
    family = family_of(model)
    if family.run_layer is None and model.config._attn_implementation != "packed":
        raise EmptyAttention(
            f"this model's attention is {model.config._attn_implementation!r}: attention scores "
            "would come back empty. Call model.set_attn_implementation('packed') after building it"
        )

    # embeddings
    layout = batch.layout
    body = getattr(model, model.base_model_prefix)
    layers = family.layers(body) if layers is None else layers
    x_TW = family.embed(body, batch)
    options = family.layer_options(body, x_TW, layout)
    states: dict[int, Tensor] = {}
    with_states = layers_of(taps, "hidden", "pooled")
    if 0 in with_states:
        states[0] = x_TW

    # layers; without logits the pass ends at the last one that something is read of
    read: dict[Tap, Any] = {}
    last = len(layers) if taps >= LOGITS else max(layers_of(taps), default=0)
    for number, layer in enumerate(layers[:last], start=1):
        trace = AttentionTrace(
            layout,
            keeps_scores=Tap("scores", number) in taps,
            keeps_vectors=Tap("vectors", number) in taps,
        )
        if layout.one_chunk and isinstance(layer, nn.Module) and is_plain(layer):
            x_1TW = DirectLayer(layer)(x_TW[None], trace)
        else:
            x_1TW = family.run(layer, x_TW[None], trace, options(layer))
        x_TW = x_1TW.squeeze(0)
        if number == len(layers):
            x_TW = family.finish(body, x_TW)
        if number in with_states:
            states[number] = x_TW
        read |= _of_attention(number, trace)

    # head
    if taps >= LOGITS:
        read[Tap("logits")] = _logits(model, batch, x_TW)
    return Out(layout, read | of_states(layout, states, taps))


def _of_attention(number: int, trace: AttentionTrace) -> dict[Tap, Any]:
    """The scores and vectors of one layer that terms read. Raises EmptyAttention: the layer kept
    none."""
    no_scores = trace.keeps_scores and not trace.scores
    no_vectors = trace.keeps_vectors and not trace.vectors
    if no_scores or no_vectors:
        raise EmptyAttention(
            f"layer {number} did not run through the packed kernel: it kept no scores or vectors"
        )
    read: dict[Tap, Any] = {}
    if trace.keeps_scores:
        read[Tap("scores", number)] = trace.scores
    if trace.keeps_vectors:
        read[Tap("vectors", number)] = trace.vectors
    return read


def _logits(model: Any, batch: Batch, x_TW: Tensor) -> Tensor:
    """The logits that the head of a classifier makes of the last layer's states: [B, C], or of
    spans [2 B, L]."""
    family = family_of(model)
    head = model.classifier
    if batch.spans:
        read_TW = family.before_span_head(model, x_TW)
        return span_logits(batch.layout, last_layer(head)(read_TW))
    pooled_BW = family.pool(model, batch.layout, x_TW)
    logits: Tensor = head(pooled_BW, batch.task) if isinstance(head, TaskHead) else head(pooled_BW)
    return logits


def of_states(layout: Layout, states: Mapping[int, Tensor], taps: Taps) -> dict[Tap, Tensor]:
    """The values that taps read of [T, W] states by layer: the states themselves, or pooled to [B,
    W], weighted sums first."""
    # once for all pools of the same weighted sum
    sums: dict[Any, Any] = {}
    for weights in {tap.weights for tap in taps if tap.weights}:
        sums[weights] = sum(weight * states[layer] for layer, weight in weights)
    read: dict[Tap, Tensor] = {}
    for tap in taps:
        if tap.kind == "hidden":
            read[tap] = states[tap.layer]
        elif tap.kind == "pooled":
            state_TW = sums[tap.weights] if tap.weights else states[tap.layer]
            read[tap] = POOLS[tap.pool](layout, state_TW)
    return read


def label_gradients(
    model: nn.Module, batch: Batch, modules: Sequence[nn.Module], read: bool = False
) -> Iterator[tuple[Tensor, Tensor]]:
    """The values that each of the modules gives, [T, X], or with ``read`` those that it reads, and
    the gradient of the labels' loss with respect to it.

    The loss is summed over the examples, so that a token's gradient is that of its own example. All
    examples weigh the same, also where the training weighs classes.

    Raises:
        TypeError: the packed pass does not go through a module, as of an attention that it
            computes itself.
    """
    # hooks keep the tensors while the pass runs
    given: dict[nn.Module, Tensor] = {}

    def keep_read(module: nn.Module, inputs: Any) -> None:
        given[module] = inputs[0]

    def keep(module: nn.Module, inputs: Any, output: Any) -> None:
        given[module] = output[0] if isinstance(output, tuple) else output

    hooks = [
        module.register_forward_pre_hook(keep_read) if read else module.register_forward_hook(keep)
        for module in modules
    ]
    try:
        with torch.enable_grad():
            # the loss is a mean over examples: their sum gives each its own gradient
            mean = losses.hard(forward(model, batch, LOGITS).logits, batch.labels)
            loss = mean * len(batch.example_ids)
            if unseen := [type(module).__name__ for module in modules if module not in given]:
                raise TypeError(f"the packed pass does not go through {unseen[0]}")
            gradients = torch.autograd.grad(loss, [given[module] for module in modules])
    finally:
        for hook in hooks:
            hook.remove()
    return (
        (given[module].detach()[0], gradient[0])
        for module, gradient in zip(modules, gradients, strict=True)
    )


def cost(model: Any) -> Cost:
    """The cost of a forward pass: what the model says itself, or the closed form of its family."""
    return model.cost() if isinstance(model, PackedModel) else closed_form(model)


def closed_form(model: Any) -> Cost:
    """Read off the model's own layers: a linear layer of the embeddings or the encoder costs in x
    out for each token, attention 2 x width for each pair; linear layers elsewhere count once a
    sequence. A :class:`RoutedModule` says what one token costs."""
    # attention as wide as the states in every layer, and a head that reads one token
    if not is_packed(model):
        body = getattr(model, model.base_model_prefix)
        config = model.config
        by_token = linear_macs(body)
        # its layers share their weights, which are gone through again and again
        if config.model_type == "albert":
            own = linear_macs(body.encoder.albert_layer_groups)
            by_token += own * config.num_hidden_layers // config.num_hidden_groups - own
        return Cost(
            by_token,
            2 * config.num_hidden_layers * config.hidden_size,
            linear_macs(model) - by_token,
        )
    family = family_of(model)
    body = getattr(model, model.base_model_prefix)
    # what stands before the layers and in them is paid for each token, the rest once a sequence
    layers = family.layers(body)
    by_token = sum(linear_macs(part) for part in (*family.embedding(body), *layers))
    return Cost(
        by_token, 2 * len(layers) * family.attended(model.config), linear_macs(model) - by_token
    )


def linear_macs(module: nn.Module) -> int:
    """The multiply-accumulates of one token: of all linear layers in a module, and of what its
    routed modules say."""
    linear = sum(part.weight.numel() for part in module.modules() if isinstance(part, nn.Linear))
    return linear + sum(part.macs_per_token for part in routed_modules(module))
