"""A BERT classifier with its own number of heads and neurons in every layer, cut out of a whole one by masks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, cast

from torch import Tensor, nn
from transformers import (
    BertConfig,
    BertForQuestionAnswering,
    BertForSequenceClassification,
    PretrainedConfig,
)

from methods.core.models import Cost, PackedModel, closed_form, label_gradients
from methods.core.packed import Batch
from methods.core.parts import load_checked, opened_by_transformers, own_config


class PrunedBertConfig(BertConfig):
    """A BERT with its own number of heads and neurons in every layer; 0: the layer has no attention, or no feed-forward network."""

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


def cut_layers(bert: Any, config: PrunedBertConfig) -> None:
    """Give every layer of a body its own heads and neurons."""
    width, shape = config.hidden_size, cast(Any, config)
    for layer, heads, neurons in zip(
        bert.encoder.layer, shape.layer_heads, shape.layer_neurons, strict=True
    ):
        if heads:
            own = layer.attention.self
            own.num_attention_heads, own.all_head_size = heads, heads * own.attention_head_size
            own.query, own.key, own.value = (nn.Linear(width, own.all_head_size) for _ in range(3))
            layer.attention.output.dense = nn.Linear(own.all_head_size, width)
        else:
            layer.attention = NoHeads()
        if neurons:
            layer.intermediate.dense, layer.output.dense = (
                nn.Linear(width, neurons),
                nn.Linear(neurons, width),
            )
        else:
            layer.intermediate, layer.output = nn.Identity(), NoFeedForward()


@opened_by_transformers
class PrunedBertForQuestionAnswering(BertForQuestionAnswering):
    """The same body with the head that the folder of a student of questions has."""

    config_class = PrunedBertConfig

    def __init__(self, config: PrunedBertConfig) -> None:
        super().__init__(config)
        cut_layers(self.bert, config)


@opened_by_transformers
class PrunedBertForSequenceClassification(PackedModel, BertForSequenceClassification):
    """A BERT classifier whose layers differ in width; saves and loads like any other."""

    config_class = PrunedBertConfig

    def __init__(self, config: PrunedBertConfig) -> None:
        super().__init__(config)
        cut_layers(self.bert, config)

    def cost(self) -> Cost:
        head_width = self.config.hidden_size // self.config.num_attention_heads
        return replace(
            closed_form(self), per_squared_length=2 * head_width * sum(self.config.layer_heads)
        )


def mask_gradients(model: Any, batch: Batch) -> list[Tensor]:
    """dL/dm of each example at m = 1, [B, units] of each layer: heads first, then neurons. A mask multiplies what the next linear
    layer reads, so its gradient is the sum of input x gradient over tokens and places: no pass per example is needed."""
    layers, heads = model.bert.encoder.layer, model.config.num_attention_heads
    masked = [
        *(layer.attention.self for layer in layers),
        *(layer.intermediate for layer in layers),
    ]
    by_unit = []
    for number, (x_TX, gradient_TX) in enumerate(label_gradients(model, batch, masked)):
        x_TX = x_TX * gradient_TX
        by_unit.append(
            batch.layout.sum(
                x_TX if number >= len(layers) else x_TX.unflatten(1, (heads, -1)).sum(-1)
            )
        )
    return by_unit


def pruned_classifier(
    config: PretrainedConfig,
    num_labels: int,
    weights: Mapping[str, Tensor],
    heads_LH: Tensor,
    neurons_LF: Tensor,
) -> PrunedBertForSequenceClassification:
    """A classifier without the heads and neurons whose mask is 0; other values multiply what the unit gives.

    Args:
        config, weights: of the whole BERT classifier.
        heads_LH, neurons_LF: masks of each layer.
    """
    counts = {
        "layer_heads": (heads_LH != 0).sum(1).tolist(),
        "layer_neurons": (neurons_LF != 0).sum(1).tolist(),
    }
    model = PrunedBertForSequenceClassification(
        own_config(PrunedBertConfig, config, num_labels, **counts)
    )
    model.set_attn_implementation("packed")
    weights, size = dict(weights), config.hidden_size // config.num_attention_heads
    for number in range(len(heads_LH)):
        prefix = f"bert.encoder.layer.{number}."
        for mask, readers, writer, whole in (
            (
                heads_LH[number].repeat_interleave(size),
                [f"attention.self.{part}" for part in ("query", "key", "value")],
                "attention.output.dense",
                ("attention.",),
            ),
            (
                neurons_LF[number],
                ["intermediate.dense"],
                "output.dense",
                ("intermediate.", "output."),
            ),
        ):
            kept = mask.nonzero()[:, 0]
            if not len(kept):
                gone = tuple(prefix + part for part in whole)
                weights = {
                    name: value for name, value in weights.items() if not name.startswith(gone)
                }
                continue
            for name in [
                f"{prefix}{reader}.{kind}" for reader in readers for kind in ("weight", "bias")
            ]:
                weights[name] = weights[name][kept]
            name = f"{prefix}{writer}.weight"
            weights[name] = weights[name][:, kept] * mask[kept].to(weights[name].device)
    load_checked(model, weights, "the whole model")
    return model
