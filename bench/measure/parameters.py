"""Count parameters, every tensor once by its storage, and hash weights."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass

from torch import nn

from methods.core.models import routed_modules


@dataclass(frozen=True)
class Parameters:
    """Counts of one deployed model.

    Attributes:
        total: everything that is stored, tied tensors once.
        declared: the same with tied tensors once for each of their names.
        embedding: the embedding block with its LayerNorm (word, position, token type).
        pooler: what stands between the encoder and the classification layer.
        head: the classification layer.
        active: of ``total``, what one token meets; less where tokens are routed to one of several
            experts.
    """

    total: int
    declared: int
    embedding: int
    pooler: int
    head: int
    active: int

    @property
    def pooler_and_head(self) -> int:
        return self.pooler + self.head


def count(model: nn.Module) -> Parameters:
    """Parameters of a sequence classifier, on any device including ``meta``.

    A :class:`methods.core.models.RoutedModule` says how many of its parameters a token does not
    meet.
    """
    # tied tensors have one storage
    seen: set[tuple[object, int]] = set()
    sums = {"embedding": 0, "encoder": 0, "pooler": 0, "head": 0}
    declared = 0
    for name, parameter in model.named_parameters(remove_duplicate=False):
        declared += parameter.numel()
        # On the meta device every storage starts at 0, so identity of the object has to stand in
        # for it.
        identity = (parameter.device, id(parameter) if parameter.is_meta else parameter.data_ptr())
        if identity in seen:
            continue
        seen.add(identity)
        sums[_part(name)] += parameter.numel()

    # what one token meets is less where tokens are routed
    total = sum(sums.values())
    idle = sum(module.inactive_parameters for module in routed_modules(model))
    return Parameters(
        total, declared, sums["embedding"], sums["pooler"], sums["head"], total - idle
    )


def _part(name: str) -> str:
    if ".embeddings." in name or re.search(r"\b(shared|embed_tokens|embed_positions)\.", name):
        return "embedding"
    if re.search(r"\.(encoder|transformer|decoder)\.", name):
        return "encoder"
    return "pooler" if re.search(r"\bpooler\.|\bpre_classifier\.", name) else "head"


def weights_hash(model: nn.Module) -> str:
    """sha256 over names and bytes of all weights, in the order of their names."""
    digest = hashlib.sha256()
    for name, value in sorted(model.state_dict().items()):
        digest.update(name.encode())
        digest.update(value.detach().cpu().contiguous().numpy().tobytes())
    return digest.hexdigest()
