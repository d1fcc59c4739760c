"""The optimisers that a recipe can name; :mod:`bench.optimizers` builds them. No torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class OptimizerKind:
    """One optimiser.

    Attributes:
        place: of its class, ``module:Class``. Its state may hold tensors alone, because a training
            that breaks off keeps it as safetensors.
        source: who published it, and what is fixed here.
        fixed: what its class is given besides the recipe's numbers.
        eps: its published epsilon, which it has unless the recipe names one; None where it reads
            none.
        betas: whether it reads the recipe's.
        decays: whether its own weight decay is apart from the gradient; else AdamW's is put before
            each of its steps.
    """

    place: str
    source: str
    fixed: Mapping[str, Any] = field(default_factory=dict)
    eps: float | None = None
    betas: bool = False
    decays: bool = False


OPTIMIZERS: Mapping[str, OptimizerKind] = {
    "adamw": OptimizerKind(
        "torch.optim:AdamW",
        "Loshchilov & Hutter 2019",
        {"fused": True},
        eps=1e-8,
        betas=True,
        decays=True,
    ),
    "adamax": OptimizerKind(
        "torch.optim:Adamax", "Kingma & Ba 2015, section 7.1", eps=1e-8, betas=True
    ),
    "adadelta": OptimizerKind(
        "torch.optim:Adadelta", "Zeiler 2012, rho 0.95", {"rho": 0.95}, eps=1e-6
    ),
    "sgd": OptimizerKind("torch.optim:SGD", "momentum 0.9", {"momentum": 0.9}),
    "adafactor": OptimizerKind(
        "torch.optim:Adafactor", "Shazeer & Stern 2018, without momentum", decays=True
    ),
    "lamb": OptimizerKind(
        "bench.optimizers.lamb:Lamb",
        "You et al. 2020, algorithm 2",
        eps=1e-6,
        betas=True,
        decays=True,
    ),
    "bertadam": OptimizerKind(
        "bench.optimizers.bert_adam:BertAdam",
        "Devlin et al. 2019, without bias correction, each gradient cut to norm 1",
        eps=1e-6,
        betas=True,
        decays=True,
    ),
}
"""Name -> optimiser, in the order in which a reader is shown them."""
