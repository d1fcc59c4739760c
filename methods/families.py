"""The encoder families of transformers that can run packed: how each embeds, answers, and what it costs.

A family is known by its models' ``base_model_prefix``. Another architecture joins by an entry in FAMILIES, or
by a model class with a ``packed_forward(batch, needs) -> Out`` of its own (see ``methods/packed.py``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from methods.api import Batch


@dataclass(frozen=True)
class Family:
    """What differs between encoders that are otherwise walked alike.

    Attributes:
        layers: the body's encoder layers, in order; each passes keyword arguments on to its attention.
        embed: body and batch -> [T, W].
        pool: classifier and the [B, W] states of the first tokens -> what the classification layer reads.
        attended: configuration -> width of all heads' queries together.
    """

    layers: Callable[[Any], Sequence[nn.Module]]
    embed: Callable[[Any, Batch], Tensor]
    pool: Callable[[Any, Tensor], Tensor]
    attended: Callable[[Any], int]


def _embed_bert(body: Any, batch: Batch) -> Tensor:
    return body.embeddings(
        input_ids=batch.token_ids[None],
        token_type_ids=batch.segment_ids[None],
        position_ids=batch.layout.positions_T[None],
    )[0]


def _embed_distilbert(body: Any, batch: Batch) -> Tensor:
    return body.embeddings(batch.token_ids[None], position_ids=batch.layout.positions_T[None])[0]


def _embed_mobilebert(body: Any, batch: Batch) -> Tensor:
    """Each token with its neighbours; beyond both ends of a sequence there are zeros, not other sequences' tokens."""
    own, layout = body.embeddings, batch.layout
    word_TE = own.word_embeddings(batch.token_ids)
    if own.trigram_input:
        zero_1E = word_TE.new_zeros(1, word_TE.size(1))
        last_T1 = (layout.positions_T + 1 == layout.lengths_B.repeat_interleave(layout.lengths_B))[:, None]
        first_T1 = (layout.positions_T == 0)[:, None]
        after_TE = torch.cat([word_TE[1:], zero_1E]).masked_fill(last_T1, 0.0)
        before_TE = torch.cat([zero_1E, word_TE[:-1]]).masked_fill(first_T1, 0.0)
        word_TE = torch.cat([after_TE, word_TE, before_TE], 1)
    if own.trigram_input or own.embedding_size != own.hidden_size:
        word_TE = own.embedding_transformation(word_TE)
    summed_TW = word_TE + own.position_embeddings(layout.positions_T) + own.token_type_embeddings(batch.segment_ids)
    return own.dropout(own.LayerNorm(summed_TW))


FAMILIES: dict[str, Family] = {
    "bert": Family(
        lambda body: body.encoder.layer,
        _embed_bert,
        lambda model, first_BW: model.dropout(model.bert.pooler(first_BW[:, None])),
        lambda config: config.hidden_size,
    ),
    "distilbert": Family(
        lambda body: body.transformer.layer,
        _embed_distilbert,
        lambda model, first_BW: model.dropout(torch.relu(model.pre_classifier(first_BW))),
        lambda config: config.dim,
    ),
    "mobilebert": Family(
        lambda body: body.encoder.layer,
        _embed_mobilebert,
        lambda model, first_BW: model.dropout(model.mobilebert.pooler(first_BW[:, None])),
        lambda config: config.true_hidden_size,
    ),
}


def family_of(model: Any) -> Family:
    """Raises TypeError for an architecture that nobody described."""
    prefix = getattr(model, "base_model_prefix", type(model).__name__)
    if prefix not in FAMILIES:
        raise TypeError(
            f"no packed forward pass for {type(model).__name__}: known are {', '.join(FAMILIES)}; "
            f"give the class a packed_forward(batch, needs)"
        )
    return FAMILIES[prefix]


@dataclass(frozen=True)
class Cost:
    """Multiply-accumulates of a forward pass: for each token, each squared length and each sequence."""

    per_token: float
    per_squared_length: float
    per_sequence: float

    def macs(self, tokens: float, squared_lengths: float, sequences: float) -> float:
        return self.per_token * tokens + self.per_squared_length * squared_lengths + self.per_sequence * sequences

    def of_length(self, length: int) -> int:
        """One sequence of ``length`` tokens; of an average model, rounded."""
        exact = self.per_token * length + self.per_squared_length * length**2 + self.per_sequence
        return round(exact)


def cost(model: Any) -> Cost:
    """Closed form, read off the model's own layers: the second witness beside a traced count.

    A linear layer of the embeddings or the encoder costs in x out for each token, attention 2 x width for each
    pair; linear layers elsewhere count once a sequence. A module whose tokens do not all take the same way says
    what one token costs by an attribute ``macs_per_token``. A model may bring a ``cost()`` of its own.
    """
    if hasattr(model, "cost"):
        return model.cost()  # type: ignore[no-any-return]
    family, body = family_of(model), getattr(model, model.base_model_prefix)
    layers = family.layers(body)
    by_token = sum(_linear_macs(part) for part in (body.embeddings, *layers))
    return Cost(by_token, 2 * len(layers) * family.attended(model.config), _linear_macs(model) - by_token)


def _linear_macs(module: nn.Module) -> int:
    return sum(
        part.weight.numel() if isinstance(part, nn.Linear) else int(getattr(part, "macs_per_token", 0))
        for part in module.modules()
    )
