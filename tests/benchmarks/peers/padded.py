"""What people write with transformers alone: padded models that give their attention scores, and the same objective.

Everything here takes the faster of two ways where both are easy: padding to the longest of a batch, no pooler, scores
kept at the layers that are compared and torch's own attention at the others, hidden states compared without [PAD].
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers import AttentionInterface, BertModel
from transformers.masking_utils import AttentionMaskInterface, eager_mask
from work import BATCH, Work

from bench.data.encoding import Encoded
from methods.core.parts import encoder_of, nearest_layers

SCORES_AT = "layers_with_scores"
"""Attribute of a configuration: layers (1-based) whose attention gives its scores."""


def attention_with_scores(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    **given: Any,
) -> tuple[Tensor, Tensor | None]:
    """As transformers' eager attention, but with the scores before the softmax in the place of the weights."""
    own: Any = module
    dropout = given.get("dropout", 0.0)
    if own.layer_idx + 1 not in getattr(own.config, SCORES_AT):
        mixed = F.scaled_dot_product_attention(
            query, key, value, attn_mask=attention_mask, dropout_p=dropout
        )
        return mixed.transpose(1, 2), None
    scores = torch.matmul(query, key.transpose(2, 3)) * own.scaling
    masked = scores if attention_mask is None else scores + attention_mask
    weights = F.dropout(masked.softmax(-1), p=dropout, training=module.training)
    return torch.matmul(weights, value).transpose(1, 2), scores


AttentionInterface.register("scores", attention_with_scores)
AttentionMaskInterface.register("scores", eager_mask)


def body_of(classifier: Any, with_scores: Sequence[int]) -> BertModel:
    """A padded encoder without pooler that shares the weights of a packed classifier."""
    config = copy.deepcopy(classifier.config)
    setattr(config, SCORES_AT, tuple(with_scores))
    with torch.device("meta"):
        body = BertModel(config, add_pooling_layer=False)
    body.load_state_dict(encoder_of(classifier.state_dict()), strict=True, assign=True)
    # no weights, so not loaded
    body.embeddings.position_ids = torch.arange(config.max_position_embeddings)[None]
    body.embeddings.token_type_ids = torch.zeros_like(body.embeddings.position_ids)
    body.set_attn_implementation("scores")
    body.train(classifier.training)
    return body


@dataclass
class Padded:
    """Teacher, student and projection of a work, for padded batches."""

    teacher: BertModel
    student: BertModel
    projection: nn.Linear
    layers: Mapping[int, int]
    """student layer -> teacher layer, 1-based; 0 is the embedding"""


def padded_models(work: Work) -> Padded:
    """The work's teacher and first weights."""
    student, _ = work.student()
    layers = nearest_layers(
        student.model.config.num_hidden_layers, work.teacher.config.num_hidden_layers
    )
    theirs = [theirs for ours, theirs in layers.items() if ours]
    body = body_of(student.model, [ours for ours in layers if ours])
    for name, module in body.named_modules():  # dropout may be off in the student's modules alone
        if isinstance(module, nn.Dropout):
            module.p = student.model.bert.get_submodule(name).p
    for parameter in body.parameters():
        parameter.requires_grad_(True)
    return Padded(
        body_of(work.teacher, theirs).requires_grad_(False), body, student.aux["projection"], layers
    )


class Rows(torch.utils.data.Dataset[dict[str, np.ndarray]]):
    """Examples for a DataLoader of torch."""

    def __init__(self, data: Encoded) -> None:
        self.data = data

    def __len__(self) -> int:
        return len(self.data)

    def __getitem__(self, row: int) -> dict[str, np.ndarray]:
        return {"input_ids": self.data.tokens[row], "token_type_ids": self.data.segments[row]}


def padded_batch(rows: Sequence[Mapping[str, np.ndarray]]) -> dict[str, Tensor]:
    """[B, L] token ids, segments and mask, padded to the longest of these rows."""
    longest = max(len(row["input_ids"]) for row in rows)
    found = {
        name: torch.zeros(len(rows), longest, dtype=torch.int64)
        for name in ("input_ids", "token_type_ids")
    }
    found["attention_mask"] = torch.zeros(len(rows), longest, dtype=torch.int64)
    for i, row in enumerate(rows):
        length = len(row["input_ids"])
        found["attention_mask"][i, :length] = 1
        for name, values in row.items():
            found[name][i, :length] = torch.from_numpy(values)
    return found


def loader_of(work: Work, batches: Sequence[Sequence[int]]) -> torch.utils.data.DataLoader[Any]:
    """The work's batches in this order, padded each to its longest."""
    order = [row for rows in batches for row in rows]
    assert len(order) == BATCH * len(batches) or len(batches) == 1
    return torch.utils.data.DataLoader(
        Rows(work.data), batch_size=len(batches[0]), sampler=order, collate_fn=padded_batch
    )


OUTPUTS = {"output_hidden_states": True, "output_attentions": True}


def objective(models: Padded, ours: Any, theirs: Any, mask_BL: Tensor) -> Tensor:
    """TinyBERT's first stage: squared differences of the embedding, the states and the scores, without [PAD]."""
    real_BL = mask_BL.bool()
    real_B1LL = (real_BL[:, None, :] & real_BL[:, :, None])[:, None]
    heads = models.student.config.num_attention_heads
    pairs = heads * real_B1LL.sum()
    total = torch.zeros(())
    for m, n in models.layers.items():
        projected = models.projection(ours.hidden_states[m][real_BL])
        total = total + F.mse_loss(projected, theirs.hidden_states[n][real_BL])
        if m:
            # transformers leaves out layers without scores, so both have one entry for each pair
            squared = (ours.attentions[m - 1] - theirs.attentions[m - 1]).square()
            total = total + squared.masked_fill(~real_B1LL, 0.0).sum() / pairs
    return total
