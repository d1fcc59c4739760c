"""Counting parameters, each tensor once by its storage; and their hash."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass

from torch import nn


@dataclass(frozen=True)
class Parameters:
    """Counts of one deployed model.

    Attributes:
        total: everything that is stored, tied tensors once.
        embedding: the embedding block with its LayerNorm (word, position, token type).
        pooler_and_head: what follows the encoder.
        active: of ``total``, what one token meets; less where tokens are routed to one of several experts.
    """

    total: int
    embedding: int
    pooler_and_head: int
    active: int


def count(model: nn.Module) -> Parameters:
    """Parameters of a sequence classifier, on any device including ``meta``.

    A module that routes tokens says how many of its parameters a token does not meet: ``inactive_parameters``.
    """
    seen: set[tuple[object, int]] = set()
    sums = {"embeddings": 0, "head": 0, "encoder": 0}
    for name, parameter in model.named_parameters(remove_duplicate=False):
        # On the meta device every storage starts at 0, so identity of the object has to stand in for it.
        identity = (parameter.device, id(parameter) if parameter.is_meta else parameter.data_ptr())
        if identity in seen:
            continue
        seen.add(identity)
        part = (
            "embeddings"
            if ".embeddings." in name
            else "encoder"
            if re.search(r"\.(encoder|transformer)\.", name)
            else "head"
        )
        sums[part] += parameter.numel()
    total = sum(sums.values())
    idle = sum(int(getattr(module, "inactive_parameters", 0)) for module in model.modules())
    return Parameters(total, sums["embeddings"], sums["head"], total - idle)


def weights_hash(model: nn.Module) -> str:
    """sha256 over names and bytes of all weights, in the order of their names."""
    digest = hashlib.sha256()
    for name, value in sorted(model.state_dict().items()):
        digest.update(name.encode())
        digest.update(value.detach().cpu().contiguous().numpy().tobytes())
    return digest.hexdigest()
