"""A classifier with its own number of heads and neurons in every layer, cut out of a whole one by
masks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import torch
from torch import Tensor, nn
from transformers import (
    BertConfig,
    BertForQuestionAnswering,
    BertForSequenceClassification,
    PretrainedConfig,
)
from transformers.models.mpnet.modeling_mpnet import MPNetSelfAttention

from methods.core.families import attention_names, bias_of_heads
from methods.core.models import Cost, PackedModel, closed_form, label_gradients
from methods.core.packed import Batch
from methods.core.parts import cut_classifier, in_every_family, load_checked, own_classifier
from methods.core.stages import Setup


class PrunedBertConfig(BertConfig):
    """A BERT with its own number of heads and neurons in every layer; 0: the layer has no
    attention, or no feed-forward network."""

    model_type = "pruned_bert"
    layer_heads: list[int] | None = None
    layer_neurons: list[int] | None = None


class NoHeads(nn.Module):
    """In the place of an attention without heads: the states pass, without LayerNorm."""

    def forward(self, states: Tensor, *args: Any, **kwargs: Any) -> tuple[Tensor, None]:
        return states, None


class NoFeedForward(nn.Module):
    """In the place of the output of a feed-forward network without neurons."""

    def forward(self, inner: Tensor, states: Tensor) -> Tensor:
        return states


class OwnHeads(MPNetSelfAttention):
    """An MPNet's attention with some of the heads, or in another order: ``bias_rows`` [H] says
    which of the rows of the bias that all layers share is each one's."""

    bias_rows: Tensor

    def forward(
        self,
        hidden_states: Any,
        attention_mask: Any = None,
        position_bias: Any = None,
        output_attentions: Any = False,
        **kwargs: Any,
    ) -> Any:
        """As transformers computes it for padded input."""
        own_bias = bias_of_heads(self, position_bias)
        return super().forward(hidden_states, attention_mask, own_bias, output_attentions)


class OwnUnits(nn.Module):
    """Every layer of the body has its own heads and neurons; a mix-in, named first."""

    base_model: Any

    def __init__(self, config: PrunedBertConfig) -> None:
        super().__init__(config)
        width = cast(int, config.hidden_size)
        shape = cast(Any, config)
        names = attention_names(self)
        for layer, heads, neurons in zip(
            self.base_model.encoder.layer, shape.layer_heads, shape.layer_neurons, strict=True
        ):
            # as many rows of queries, keys and values, and columns of what writes, as heads stay
            if heads:
                own = layer.get_submodule(names.own)
                own.num_attention_heads = heads
                own.all_head_size = heads * own.attention_head_size
                for reading in names.reading:
                    layer.set_submodule(reading, nn.Linear(width, own.all_head_size))
                layer.set_submodule(names.writing, nn.Linear(own.all_head_size, width))
                if isinstance(own, MPNetSelfAttention):
                    own.__class__ = OwnHeads
                    own.register_buffer("bias_rows", torch.arange(heads))
            else:
                layer.attention = NoHeads()
            if neurons:
                layer.intermediate.dense = nn.Linear(width, neurons)
                layer.output.dense = nn.Linear(neurons, width)
            else:
                layer.intermediate = nn.Identity()
                layer.output = NoFeedForward()


class PackedUnits(OwnUnits, PackedModel):
    """A mix-in that says the cost of a classifier with its own units in every layer."""

    config: Any

    def cost(self) -> Cost:
        head_width = self.config.hidden_size // self.config.num_attention_heads
        return replace(
            closed_form(self), per_squared_length=2 * head_width * sum(self.config.layer_heads)
        )


@in_every_family
class PrunedBertForQuestionAnswering(OwnUnits, BertForQuestionAnswering):
    """The same body with the head that the folder of a student of questions has."""

    config_class = PrunedBertConfig


@in_every_family
class PrunedBertForSequenceClassification(PackedUnits, BertForSequenceClassification):
    """A classifier whose layers differ in width; saves and loads like any other."""

    config_class = PrunedBertConfig


def mask_gradients(model: Any, batch: Batch) -> list[Tensor]:
    """dL/dm of each example at m = 1, [B, units] of each layer: heads first, then neurons. A mask
    multiplies what the next linear layer reads, so its gradient is the sum of input x gradient over
    tokens and places: no pass per example is needed."""
    layers = model.base_model.encoder.layer
    heads = model.config.num_attention_heads
    writing = attention_names(model).writing
    masked = [
        *(layer.get_submodule(writing) for layer in layers),
        *(layer.output.dense for layer in layers),
    ]
    by_unit: list[Tensor] = []
    for number, (x_TX, gradient_TX) in enumerate(label_gradients(model, batch, masked, read=True)):
        x_TX = x_TX * gradient_TX
        # a head's places lie side by side
        if number < len(layers):
            x_TX = x_TX.unflatten(1, (heads, -1)).sum(-1)
        by_unit.append(batch.layout.sum(x_TX))
    return by_unit


def whole_classifier(setup: Setup, weights: Mapping[str, Tensor]) -> Any:
    """A classifier of the teacher's form with all of its units, whose heads may have another order
    in each layer: ``weights`` then have ``bias_rows``, where layers share a bias of each head."""
    teacher = setup.teacher
    layers = teacher.num_hidden_layers
    # in their own order the teacher's own class will do
    if not any(name.endswith(".bias_rows") for name in weights):
        return cut_classifier(setup, layers, weights)
    model = own_classifier(
        PrunedBertConfig,
        teacher,
        setup.num_labels,
        layer_heads=[teacher.num_attention_heads] * layers,
        layer_neurons=[teacher.intermediate_size] * layers,
    )
    load_checked(model, weights, "the teacher", new=("classifier.",))
    return model


@dataclass(frozen=True)
class Units:
    """The heads of a layer, or its neurons.

    Attributes:
        mask: 0 where what a unit gives is left out, [X] of what the writing layer reads.
        readers: the linear layers that make what the units give.
        writer: the linear layer that reads it.
        modules: what is gone where no unit is left.
    """

    mask: Tensor
    readers: Sequence[str]
    writer: str
    modules: Sequence[str]

    def pruned(self, weights: Mapping[str, Tensor], prefix: str) -> dict[str, Tensor]:
        """The weights without the units whose mask is 0.

        Args:
            prefix: what the names of the layer's weights begin with.
        """
        kept = self.mask.nonzero()[:, 0]
        # without a unit there is no layer
        if not len(kept):
            gone = tuple(prefix + module for module in self.modules)
            return {name: value for name, value in weights.items() if not name.startswith(gone)}
        # rows of what makes the units, and columns of what reads them
        pruned = dict(weights)
        for reader in self.readers:
            for kind in ("weight", "bias"):
                name = f"{prefix}{reader}.{kind}"
                pruned[name] = pruned[name][kept]
        name = f"{prefix}{self.writer}.weight"
        # masks that were tuned are folded into the weights
        pruned[name] = pruned[name][:, kept] * self.mask[kept].to(pruned[name].device)
        return pruned


def pruned_classifier(
    config: PretrainedConfig,
    num_labels: int,
    weights: Mapping[str, Tensor],
    heads_LH: Tensor,
    neurons_LF: Tensor,
) -> Any:
    """A classifier without the heads and neurons whose mask is 0; other values multiply what the
    unit gives.

    Args:
        config, weights: of the whole classifier, which is of one of
            :data:`methods.core.families.LAYERED`.
        heads_LH, neurons_LF: masks of each layer.
    """
    # a classifier with as many units as are left
    counts = {
        "layer_heads": (heads_LH != 0).sum(1).tolist(),
        "layer_neurons": (neurons_LF != 0).sum(1).tolist(),
    }
    model = own_classifier(PrunedBertConfig, config, num_labels, **counts)

    # the weights of the units that are left, layer by layer
    names = attention_names(model)
    weights = dict(weights)
    size = config.hidden_size // config.num_attention_heads
    for number in range(len(heads_LH)):
        prefix = f"{model.base_model_prefix}.encoder.layer.{number}."
        rows = f"{prefix}{names.own}.bias_rows"
        # which rows of a bias that all layers share are those of the heads that are left
        if rows in model.state_dict():
            kept = heads_LH[number].nonzero()[:, 0]
            every = torch.arange(heads_LH.size(1), device="cpu")
            # a plan has shapes alone, and no places
            place = weights[f"{prefix}{names.writing}.weight"].device
            weights[rows] = weights.get(rows, every)[kept].to(place)
        units = (
            Units(
                mask=heads_LH[number].repeat_interleave(size),
                readers=names.reading,
                writer=names.writing,
                modules=("attention.",),
            ),
            Units(
                mask=neurons_LF[number],
                readers=("intermediate.dense",),
                writer="output.dense",
                modules=("intermediate.", "output."),
            ),
        )
        for of_kind in units:
            weights = of_kind.pruned(weights, prefix)
    load_checked(model, weights, "the whole model")
    return model
