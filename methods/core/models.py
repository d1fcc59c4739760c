"""What a model or a module of a method's own tells whoever runs it.

Plain classes of transformers need nothing of this. A model with a forward pass, a cost or
statistics of its own is a :class:`PackedModel`; a module that sends tokens different ways is a
:class:`RoutedModule`; a head that is told the task is a :class:`TaskHead`.
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
from methods.core.families import FAMILIES, Family, family_name, family_of, last_layer
from methods.core.packed import POOLS, AttentionTrace, Batch, Layout, span_logits
from methods.core.taps import LOGITS, Out, Tap, Taps, layers_of

PADDED_KINDS = frozenset({"logits", "hidden", "pooled"})
"""Kinds of taps of an encoder that transformers runs, padded; attention alone is not among them."""


@dataclass(frozen=True)
class Cost:
    """Multiply-accumulates of a forward pass, for each token, squared length and sequence."""

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
        """The cost of one sequence of ``length`` tokens, rounded.

        That of an average sequence can be a fraction.
        """
        return round(self.macs(length, length**2, 1))


class PackedModel(nn.Module):
    """A model that differs from its family in how it runs, costs or is observed.

    The defaults are those of the family. It is a mix-in, named first:
    ``class Mine(PackedModel, BertForSequenceClassification)``. Saving and opening is the business
    of the other base.

    Attributes:
        leaves_early: whether sequences may leave it before its last layer. They then cost less than
            :meth:`cost`, and a time measured with random weights means nothing.
        reads_texts: whether it reads texts by a vocabulary in its weights, by ``of_texts``, and not
            the tokenizer's numbers.
        rounds_values: whether it rounds what it computes: the last digits of another kernel may
            then become a step, and logits differ by more.
    """

    leaves_early: ClassVar[bool] = False
    reads_texts: ClassVar[bool] = False
    rounds_values: ClassVar[bool] = False

    def packed_forward(self, batch: Batch, taps: Taps) -> Out:
        """One pass over a packed batch: what ``taps`` name and nothing else.

        Raises:
            UndeclaredNeed: it has no such thing to read.
        """
        return run_layers(self, batch, taps)

    def cost(self) -> Cost:
        """The cost of a forward pass as it is shipped."""
        return closed_form(self)

    def training_cost(self) -> Cost:
        """The cost of a forward pass while it trains, where that is another one: an upper bound."""
        return self.cost()

    def observed(self) -> Mapping[str, Any]:
        """What became of the sequences answered so far in evaluation mode.

        These are plain values for the record. An entry ``cost``, with the names of :class:`Cost`,
        is that of an average sequence.
        """
        return {}

    def stored(self) -> Mapping[str, Tensor]:
        """The tensors of a saved folder, if they are not the state dict; empty otherwise.

        Codes of few bits are an example.
        """
        return {}

    def of_texts(self, texts: Sequence[tuple[str, str | None]]) -> Tensor:
        """[B, C] logits of texts, or of pairs of texts; of a model with ``reads_texts``."""
        raise TypeError(f"{type(self).__name__} reads token ids, not texts")


class Around(PackedModel):
    """A model that is another one in a way of its own.

    Its configuration and its cost are those of ``whole``.
    """

    def __init__(self, whole: Any) -> None:
        super().__init__()
        self.whole = whole

    @property
    def config(self) -> Any:
        return self.whole.config

    def cost(self) -> Cost:
        return cost(self.whole)


class FrozenTeacher(Around):
    """A frozen teacher that answers in a faster way.

    It answers as any model where it trains or its dropout is asked for.
    """

    def __init__(self, teacher: nn.Module, faster: Callable[[Batch, Taps], Out]) -> None:
        super().__init__(teacher.eval())
        self._faster = faster

    def packed_forward(self, batch: Batch, taps: Taps) -> Out:
        if self.training or torch.is_grad_enabled():
            return forward(self.whole, batch, taps)
        return self._faster(batch, taps)


def direct(teacher: Any) -> nn.Module:
    """The teacher, on its device, with layers that are put together once, and not in every pass.

    It is the teacher itself where its layers are others than BERT's.
    """
    if isinstance(teacher, PackedModel) or not is_packed(teacher):
        return teacher  # type: ignore[no-any-return]
    layers = family_of(teacher.eval()).layers(teacher.base_model)
    if not all(map(is_plain, layers)):
        return teacher  # type: ignore[no-any-return]
    with torch.no_grad():
        direct_layers = [DirectLayer(layer) for layer in layers]
        return FrozenTeacher(teacher, partial(run_layers, teacher, layers=direct_layers))


class DrawnLayers(Around):
    """A classifier to be shipped that trains with further layers beside it.

    Each training batch draws the layers that it goes through (:meth:`drawn`). In evaluation there
    are only those that are shipped.
    """

    def __init__(self, shipped: Any, others: nn.Module, most: int) -> None:
        """
        Args:
            most: layers that a batch goes through at most.
        """
        super().__init__(shipped)
        self.others = others
        self.most = most

    def drawn(self) -> list[nn.Module]:
        """The layers of a training batch."""
        raise NotImplementedError(f"{type(self).__name__} must implement drawn()")

    def packed_forward(self, batch: Batch, taps: Taps) -> Out:
        return run_layers(self.whole, batch, taps, self.drawn() if self.training else None)

    def training_cost(self) -> Cost:
        """The cost of a pass through as many layers as there may be."""
        shipped = cost(self.whole)
        factor = self.most / self.config.num_hidden_layers
        per_token = round(shipped.per_token * factor)
        per_squared_length = round(shipped.per_squared_length * factor)
        return Cost(per_token, per_squared_length, shipped.per_sequence)


class WritingModel(PackedModel):
    """A model that writes a text from the first text of each pair.

    Its logits [N, V] are those of every word to write.
    """

    def written(self, batch: Batch) -> list[list[int]]:
        """Token ids of the text that it writes for each pair, of which it sees the first alone."""
        raise NotImplementedError(f"{type(self).__name__} must implement written()")

    def parts_cost(self) -> tuple[Cost, Cost]:
        """The cost of reading, for each token, and of writing, for each word and each beam."""
        raise NotImplementedError(f"{type(self).__name__} must implement parts_cost()")


class RoutedModule(nn.Module):
    """A module whose tokens do not all take the same way, as through experts.

    Attributes:
        macs_per_token: multiply-accumulates of one token, besides those of the linear layers in it.
        inactive_parameters: parameters that one token does not meet.
    """

    macs_per_token: int = 0
    inactive_parameters: int = 0


class TaskHead(nn.Module):
    """A classification head that is also told the task: ``forward(pooled_BW, task) -> [B, C]``."""


def routed_modules(model: nn.Module) -> list[RoutedModule]:
    """Those modules that send tokens different ways."""
    return [module for module in model.modules() if isinstance(module, RoutedModule)]


def forward(classifier: nn.Module, batch: Batch, taps: Taps) -> Out:
    """One pass of a sequence classifier over a packed batch, returning only what ``taps`` name.

    The head reads the first token of each sequence; of spans it reads every token, as it comes out
    of the last layer. A :class:`PackedModel` answers for itself.

    Raises:
        EmptyAttention: the model uses another attention kernel.
        TypeError: an unknown architecture.
        KeyError: a layer that the model does not have.
        UndeclaredNeed: nothing to exit by.
    """
    if isinstance(classifier, PackedModel):
        return classifier.packed_forward(batch, taps)
    if is_packed(classifier):
        return run_layers(classifier, batch, taps)
    return padded(classifier, batch, taps)


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
    """Why no ONNX graph answers as the model does, as a clause.

    It is "" where nothing is known against one.
    """
    if reads_texts(model):
        return "it reads words"
    return "some sequences leave it early" if leaves_early(model) else ""


def is_packed(classifier: Any) -> bool:
    """Whether somebody described how its architecture runs packed."""
    return isinstance(classifier, PackedModel) or bool(family_name(classifier))


def inputs_of(classifier: Any) -> list[str]:
    """The names of the arrays that a model reads of a padded batch.

    A kind of segment that it has only one of is no input: an exported graph lacks it.
    """
    kinds: Sequence[Any] = type(classifier).__mro__
    # a class of our own that answers in another way reads what transformers' class beneath it does
    theirs = [kind for kind in kinds if str(kind.__module__).startswith("transformers.models.")]
    reader = theirs[0] if theirs else classifier
    names = ["input_ids", "attention_mask"]
    if getattr(classifier.config, "type_vocab_size", 2) > 1:
        names.append("token_type_ids")
    parameters = signature(reader.forward).parameters
    return [name for name in names if name in parameters]


def padded(classifier: Any, batch: Batch, taps: Taps = LOGITS) -> Out:
    """Logits and hidden states of a classifier of another architecture, as transformers runs it.

    [PAD] stands behind the shorter sequences.

    Raises:
        TypeError: its attention cannot be read, and an answer that is a part of a text not be
            given.
    """
    layout = batch.layout
    refused = sorted(str(tap) for tap in taps if tap.kind not in PADDED_KINDS)
    if batch.spans:
        refused = ["spans", *refused]
    if refused:
        raise TypeError(
            f"{type(classifier).__name__} runs padded and gives no {refused[0]}; "
            f"{', '.join(FAMILIES)} run packed and do"
        )
    filler = classifier.config.pad_token_id or 0
    ids_BL = pad_sequence(batch.token_ids.split(layout.lengths), True, filler)
    # of a sequence that was filled, what it is filled with is not attended to
    real_B1 = torch.tensor(layout.real, device=ids_BL.device)[:, None]
    read_BL = torch.arange(ids_BL.size(1), device=ids_BL.device) < real_B1
    given = {"input_ids": ids_BL, "attention_mask": read_BL.long()}
    if "token_type_ids" in inputs_of(classifier):
        given["token_type_ids"] = pad_sequence(batch.segment_ids.split(layout.lengths), True)
    with_states = layers_of(taps, "hidden", "pooled")
    answer = classifier(**given, output_hidden_states=bool(with_states))
    # the states without [PAD], as a packed pass has them
    place_T = layout.owner_T * ids_BL.size(1) + layout.positions_T
    states = {}
    for layer in with_states:
        states_BLW = answer.hidden_states[layer]
        states[layer] = states_BLW.flatten(0, 1).index_select(0, place_T)
    return Out(layout, {Tap("logits"): answer.logits} | of_states(layout, states, taps))


def run_layers(
    classifier: nn.Module,
    batch: Batch,
    taps: Taps,
    layers: Sequence[Callable[..., Any]] | None = None,
) -> Out:
    """:func:`forward` for a class of ``methods/core/families.py``.

    Args:
        layers: the layers that the batch goes through, in the place of the model's own.
    """
    model: Any = classifier
    _refuse_unreadable(model, taps)
    family = family_of(model)
    layout = batch.layout
    body = getattr(model, model.base_model_prefix)
    layers = family.layers(body) if layers is None else layers

    # the embeddings are layer 0
    with_states = layers_of(taps, "hidden", "pooled")
    states: dict[int, Tensor] = {}
    read: dict[Tap, Any] = {}
    x_TW = family.embed(body, batch)
    options = family.layer_options(body, x_TW, layout)
    if 0 in with_states:
        states[0] = x_TW

    # without logits the pass ends at the last layer that something is read of
    wants_logits = taps >= LOGITS
    last = len(layers) if wants_logits else max(layers_of(taps), default=0)
    for number, layer in enumerate(layers[:last], start=1):
        scores = Tap("scores", number)
        vectors = Tap("vectors", number)
        trace = AttentionTrace(layout, keeps_scores=scores in taps, keeps_vectors=vectors in taps)
        # a batch of one chunk needs no attention by parts
        if layout.one_chunk and isinstance(layer, nn.Module) and is_plain(layer):
            x_1TW = DirectLayer(layer)(x_TW[None], trace)
        else:
            x_1TW = family.run(layer, x_TW[None], trace, options(layer))
        x_TW = x_1TW.squeeze(0)
        if number == len(layers):
            x_TW = family.finish(body, x_TW)

        # what is read of this layer
        if number in with_states:
            states[number] = x_TW
        for tap, traced in ((scores, trace.scores), (vectors, trace.vectors)):
            if tap in taps:
                read[tap] = _kept(traced, number)
    if wants_logits:
        read[Tap("logits")] = _logits(model, family, batch, x_TW)
    return Out(layout, read | of_states(layout, states, taps))


def _refuse_unreadable(model: Any, taps: Taps) -> None:
    """Refuse a pass that would read nothing.

    Raises:
        UndeclaredNeed: there is nothing to exit by.
        EmptyAttention: the model uses another attention kernel.
    """
    if layers_of(taps, "exits"):
        raise UndeclaredNeed(
            f"{type(model).__name__} has no classifier before its last layer: nothing to exit by"
        )
    kernel = model.config._attn_implementation
    if family_of(model).run_layer is None and kernel != "packed":
        raise EmptyAttention(
            f"this model's attention is {kernel!r}: attention scores would come back empty. "
            "Call model.set_attn_implementation('packed') after building it"
        )


def _kept(traced: Any, number: int) -> Any:
    """The scores or vectors that a layer kept. Raises EmptyAttention: it kept none."""
    if not traced:
        raise EmptyAttention(
            f"layer {number} did not run through the packed kernel: it kept no scores or vectors"
        )
    return traced


def _logits(model: Any, family: Family, batch: Batch, x_TW: Tensor) -> Tensor:
    """The logits of the last layer's states: of spans for each token, else for each sequence."""
    head = model.classifier
    if batch.spans:
        read_TW = family.before_span_head(model, x_TW)
        return span_logits(batch.layout, last_layer(head)(read_TW))
    pooled_BW = family.pool(model, batch.layout, x_TW)
    logits: Tensor = head(pooled_BW, batch.task) if isinstance(head, TaskHead) else head(pooled_BW)
    return logits


def of_states(layout: Layout, states: Mapping[int, Tensor], taps: Taps) -> dict[Tap, Tensor]:
    """The states that taps read of [T, W] states by layer.

    They are the states themselves, or pooled to [B, W], weighted sums first.
    """
    # once for all pools of the same weighted sum
    sums: dict[Any, Any] = {}
    for tap in taps:
        if tap.weights and tap.weights not in sums:
            sums[tap.weights] = sum(weight * states[layer] for layer, weight in tap.weights)
    read: dict[Tap, Tensor] = {}
    for tap in taps:
        if tap.kind == "hidden":
            read[tap] = states[tap.layer]
        elif tap.kind == "pooled":
            states_TW = sums[tap.weights] if tap.weights else states[tap.layer]
            read[tap] = POOLS[tap.pool](layout, states_TW)
    return read


def label_gradients(
    model: nn.Module, batch: Batch, modules: Sequence[nn.Module], read: bool = False
) -> Iterator[tuple[Tensor, Tensor]]:
    """The output of each of the modules, [T, X], and the gradient of the labels' loss by it.

    With ``read`` it is the input. The loss is summed over the examples, so that a token's gradient
    is that of its own example. All examples weigh the same, also where the training weighs classes.

    Raises:
        TypeError: the packed pass does not go through a module, as of an attention that it
            computes itself.
    """
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
            mean_loss = losses.hard(forward(model, batch, LOGITS).logits, batch.labels)
            loss = mean_loss * len(batch.example_ids)
            unseen = [type(module).__name__ for module in modules if module not in given]
            if unseen:
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
    """The cost of a forward pass: as the model says itself, or by the closed form of its family."""
    return model.cost() if isinstance(model, PackedModel) else closed_form(model)


def closed_form(model: Any) -> Cost:
    """The cost that is read off the model's own layers.

    A linear layer of the embeddings or the encoder costs in x out for each token, attention
    2 x width for each pair; linear layers elsewhere count once a sequence. A :class:`RoutedModule`
    says what one token costs.
    """
    config = model.config
    body = getattr(model, model.base_model_prefix)
    # another architecture: attention as wide as the states in every layer, and a head that reads
    # one token
    if not is_packed(model):
        per_token = linear_macs(body)
        # ALBERT's layers share their weights, which are gone through again and again
        if config.model_type == "albert":
            shared = linear_macs(body.encoder.albert_layer_groups)
            per_token += shared * config.num_hidden_layers // config.num_hidden_groups - shared
        per_pair = 2 * config.num_hidden_layers * config.hidden_size
        return Cost(per_token, per_pair, linear_macs(model) - per_token)

    family = family_of(model)
    layers = family.layers(body)
    per_token = sum(linear_macs(part) for part in (*family.embedding(body), *layers))
    per_pair = 2 * len(layers) * family.attended(config)
    return Cost(per_token, per_pair, linear_macs(model) - per_token)


def linear_macs(module: nn.Module) -> int:
    """The MACs of one token: of all linear layers in a module, and as its routed modules say."""
    linear = sum(part.weight.numel() for part in module.modules() if isinstance(part, nn.Linear))
    return linear + sum(part.macs_per_token for part in routed_modules(module))
