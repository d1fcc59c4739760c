"""The encoder families of transformers that can run packed: how each embeds and answers.

A family is known by its models' ``base_model_prefix``. Another architecture joins by an entry in FAMILIES, or
as a :class:`methods.models.PackedModel`, with a forward pass of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from methods.packed import Batch


@dataclass(frozen=True)
class Family:
    """What differs between encoders that are otherwise walked alike."""

    layers: Callable[[Any], Sequence[nn.Module]]
    """the body's encoder layers, in order; each passes keyword arguments on to its attention"""
    embed: Callable[[Any, Batch], Tensor]  # body and batch -> [T, W]
    pool: Callable[[Any, Tensor], Tensor]
    """classifier and the [B, W] states of the first tokens -> what the classification layer reads"""
    attended: Callable[[Any], int]  # configuration -> width of all heads' queries together
    embedding: Callable[[Any], Sequence[nn.Module]] = lambda body: [body.embeddings]
    """the body's modules through which every token goes before the first layer"""


def _embed_bert(body: Any, batch: Batch) -> Tensor:
    return body.embeddings(
        input_ids=batch.token_ids[None],
        token_type_ids=batch.segment_ids[None],
        position_ids=batch.layout.positions_T[None],
    )[0]


def _embed_mobilebert(body: Any, batch: Batch) -> Tensor:
    """Each token with its neighbours; beyond both ends of a sequence there are zeros, not other sequences' tokens."""
    own, layout = body.embeddings, batch.layout
    word_TE = own.word_embeddings(batch.token_ids)
    if own.trigram_input:
        zero_1E = word_TE.new_zeros(1, word_TE.size(1))
        length_T = layout.lengths_B.repeat_interleave(layout.lengths_B, output_size=layout.total)
        last_T1 = (layout.positions_T + 1 == length_T)[:, None]
        first_T1 = (layout.positions_T == 0)[:, None]
        after_TE = torch.cat([word_TE[1:], zero_1E]).masked_fill(last_T1, 0.0)
        before_TE = torch.cat([zero_1E, word_TE[:-1]]).masked_fill(first_T1, 0.0)
        word_TE = torch.cat([after_TE, word_TE, before_TE], 1)
    if own.trigram_input or own.embedding_size != own.hidden_size:
        word_TE = own.embedding_transformation(word_TE)
    summed_TW = word_TE + own.position_embeddings(layout.positions_T) + own.token_type_embeddings(batch.segment_ids)
    return own.dropout(own.LayerNorm(summed_TW))


def _embedding_of_electra(body: Any) -> list[nn.Module]:
    """A narrow embedding is projected to the width of the layers."""
    is_narrow = body.config.embedding_size != body.config.hidden_size
    return [body.embeddings, body.embeddings_project] if is_narrow else [body.embeddings]


def _embed_electra(body: Any, batch: Batch) -> Tensor:
    embedded_TE = _embed_bert(body, batch)
    for projection in _embedding_of_electra(body)[1:]:
        embedded_TE = projection(embedded_TE)
    return embedded_TE


def _alone(model: Any, first_BW: Tensor) -> Tensor:
    """[B, 1, W]: for heads that take the first token of every sequence themselves."""
    return first_BW[:, None]


FAMILIES: dict[str, Family] = {
    "bert": Family(
        lambda body: body.encoder.layer,
        _embed_bert,
        lambda model, first_BW: model.dropout(model.bert.pooler(first_BW[:, None])),
        lambda config: config.hidden_size,
    ),
    "distilbert": Family(
        lambda body: body.transformer.layer,
        lambda body, batch: body.embeddings(batch.token_ids[None], position_ids=batch.layout.positions_T[None])[0],
        lambda model, first_BW: model.dropout(torch.relu(model.pre_classifier(first_BW))),
        lambda config: config.dim,
    ),
    "mobilebert": Family(
        lambda body: body.encoder.layer,
        _embed_mobilebert,
        lambda model, first_BW: model.dropout(model.mobilebert.pooler(first_BW[:, None])),
        lambda config: config.true_hidden_size,
    ),
    "roberta": Family(
        lambda body: body.encoder.layer,
        lambda body, batch: body.embeddings(
            input_ids=batch.token_ids[None],
            token_type_ids=torch.zeros_like(batch.token_ids)[None],  # it knows one kind of segment
            position_ids=batch.layout.positions_T[None] + body.embeddings.padding_idx + 1,
        )[0],
        _alone,
        lambda config: config.hidden_size,
    ),
    "electra": Family(
        lambda body: body.encoder.layer,
        _embed_electra,
        _alone,
        lambda config: config.hidden_size,
        _embedding_of_electra,
    ),
}


def family_of(model: Any) -> Family:
    """Raises TypeError for an architecture that nobody described."""
    prefix = getattr(model, "base_model_prefix", type(model).__name__)
    if prefix not in FAMILIES:
        wrong = f"no packed forward pass for {type(model).__name__}: known are {', '.join(FAMILIES)}"
        raise TypeError(f"{wrong}; make it a methods.models.PackedModel with a packed_forward of its own")
    return FAMILIES[prefix]
