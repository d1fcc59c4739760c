"""Counting parameters, each tensor once by its storage."""

from __future__ import annotations

from dataclasses import dataclass

from torch import nn


@dataclass(frozen=True)
class Parameters:
    """Counts of one deployed model.

    Attributes:
        total: everything that is stored, tied tensors once.
        embedding: the embedding block with its LayerNorm (word, position, token type).
        pooler_and_head: what follows the encoder.
    """

    total: int
    embedding: int
    pooler_and_head: int

    @property
    def without_embedding(self) -> int:
        return self.total - self.embedding


def count(model: nn.Module) -> Parameters:
    """Parameters of a BERT sequence classifier, on any device including ``meta``."""
    seen: set[tuple[object, int]] = set()
    sums = {"embeddings": 0, "head": 0, "encoder": 0}
    for name, parameter in model.named_parameters(remove_duplicate=False):
        # On the meta device every storage starts at 0, so identity of the object has to stand in for it.
        identity = (parameter.device, id(parameter) if parameter.is_meta else parameter.data_ptr())
        if identity in seen:
            continue
        seen.add(identity)
        part = "embeddings" if ".embeddings." in name else "encoder" if ".encoder." in name else "head"
        sums[part] += parameter.numel()
    return Parameters(sum(sums.values()), sums["embeddings"], sums["head"])
