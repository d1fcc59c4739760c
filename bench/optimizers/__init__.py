"""The optimisers that a recipe can name: one entry each. Torch is imported only where one is built.

What all of them share is the loop's: it clips the gradient's norm, and sets the learning rate of each group before each step
(the recipe's rate x its schedule x the stage's ``lr_scale`` x the group's ``factor``). Weight decay is AdamW's, apart from the
gradient (Loshchilov & Hutter 2019): p <- p - rate * decay * p. LAMB's alone is a part of its step and is scaled with it
(bench/optimizers/lamb.py).
How to add an optimiser: docs/optimizers.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from bench.record.recipe import Recipe

if TYPE_CHECKING:
    from torch.optim import Optimizer

Groups = list[dict[str, Any]]
"""Parameters that are moved alike: ``params``, their ``weight_decay``, the ``factor`` on their learning rate, and whether they
are ``plain``: biases and parts of LayerNorms, which have no decay."""
DECAY = "decay"
"""Key of a group: its weight decay, where the optimiser's own is not AdamW's."""


@dataclass(frozen=True)
class OptimizerKind:
    """One optimiser.

    Attributes:
        make: (groups, numbers) -> the optimiser; ``numbers`` has ``lr``, and ``betas`` and ``eps`` where it reads them. Its
            state may hold tensors alone, because a training that breaks off keeps it as safetensors.
        floats: shape of a parameter -> floats of state that the optimiser keeps of it. Memory is stated by it.
        source: who published it, and what is fixed here.
        eps: its published epsilon, which it has unless the recipe names one; None where it reads none.
        betas: whether it reads the recipe's.
    """

    make: Callable[[Groups, Mapping[str, Any]], Optimizer]
    floats: Callable[[Sequence[int]], int]
    source: str
    eps: float | None = None
    betas: bool = False


def refusal(recipe: Recipe) -> str:
    """Why no training can have this recipe's optimiser, in one line; "" where one can."""
    kind = OPTIMIZERS.get(recipe.optimizer)
    if kind is None:
        return f"there is no optimizer {recipe.optimizer}; choose one of {', '.join(OPTIMIZERS)}"
    if recipe.eps is not None and kind.eps is None:
        readers = ", ".join(name for name, other in OPTIMIZERS.items() if other.eps is not None)
        return f"the optimizer {recipe.optimizer} reads no eps ({recipe.eps:g}); these do: {readers}"
    if recipe.betas != Recipe().betas and not kind.betas:
        readers = ", ".join(name for name, other in OPTIMIZERS.items() if other.betas)
        return f"the optimizer {recipe.optimizer} reads no betas ({recipe.betas}); these do: {readers}"
    return ""


def built(groups: Groups, recipe: Recipe) -> Optimizer:
    """The recipe's optimiser of these groups.

    Raises:
        KeyError: there is no such optimiser; :func:`refusal` says so in words.
    """
    kind = OPTIMIZERS[recipe.optimizer]
    numbers: dict[str, Any] = {"lr": recipe.learning_rate}
    if kind.betas:
        numbers["betas"] = recipe.betas
    if kind.eps is not None:
        numbers["eps"] = kind.eps if recipe.eps is None else recipe.eps
    return kind.make(groups, numbers)


def _copies(number: int) -> Callable[[Sequence[int]], int]:
    """So many floats for each number of a parameter."""
    return lambda shape: number * math.prod(shape)


def _rows_and_columns(shape: Sequence[int]) -> int:
    """A mean of each row and of each column of a matrix; of a vector all of it."""
    if len(shape) < 2:
        return math.prod(shape)
    return math.prod(shape) // shape[-1] + math.prod(shape) // shape[-2]


def _with_decay(kind: Callable[..., Optimizer], groups: Groups, **numbers: Any) -> Optimizer:
    """An optimiser that would add weight decay to the gradient, with AdamW's before each of its steps instead."""
    import torch

    made = kind([{**group, DECAY: group["weight_decay"], "weight_decay": 0.0} for group in groups], **numbers)

    @torch.no_grad()
    def decay(optimizer: Optimizer, *_: Any) -> None:
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                if group[DECAY] and parameter.grad is not None:
                    parameter.mul_(1 - group["lr"] * group[DECAY])

    made.register_step_pre_hook(decay)
    return made


def _adamw(groups: Groups, numbers: Mapping[str, Any]) -> Optimizer:
    import torch

    return torch.optim.AdamW(groups, **numbers, fused=True)


def _adamax(groups: Groups, numbers: Mapping[str, Any]) -> Optimizer:
    import torch

    return _with_decay(torch.optim.Adamax, groups, **numbers)


def _adadelta(groups: Groups, numbers: Mapping[str, Any]) -> Optimizer:
    import torch

    return _with_decay(torch.optim.Adadelta, groups, **numbers, rho=0.95)


def _sgd(groups: Groups, numbers: Mapping[str, Any]) -> Optimizer:
    import torch

    return _with_decay(torch.optim.SGD, groups, **numbers, momentum=0.9)


def _adafactor(groups: Groups, numbers: Mapping[str, Any]) -> Optimizer:
    import torch

    return torch.optim.Adafactor(groups, **numbers)  # torch's has AdamW's weight decay already


def _bert_adam(groups: Groups, numbers: Mapping[str, Any]) -> Optimizer:
    from bench.optimizers.bert_adam import BertAdam

    return BertAdam(groups, **numbers)


def _lamb(groups: Groups, numbers: Mapping[str, Any]) -> Optimizer:
    from bench.optimizers.lamb import Lamb

    return Lamb(groups, **numbers)


OPTIMIZERS: Mapping[str, OptimizerKind] = {
    "adamw": OptimizerKind(_adamw, _copies(2), "Loshchilov & Hutter 2019", eps=1e-8, betas=True),
    "adamax": OptimizerKind(_adamax, _copies(2), "Kingma & Ba 2015, section 7.1", eps=1e-8, betas=True),
    "adadelta": OptimizerKind(_adadelta, _copies(2), "Zeiler 2012, rho 0.95", eps=1e-6),
    "sgd": OptimizerKind(_sgd, _copies(1), "momentum 0.9"),
    "adafactor": OptimizerKind(_adafactor, _rows_and_columns, "Shazeer & Stern 2018, without momentum"),
    "lamb": OptimizerKind(_lamb, _copies(2), "You et al. 2020, algorithm 2", eps=1e-6, betas=True),
    "bertadam": OptimizerKind(
        _bert_adam,
        _copies(2),
        "Devlin et al. 2019, without bias correction, each gradient cut to norm 1",
        eps=1e-6,
        betas=True,
    ),
}
"""Name -> optimiser, in the order in which a reader is shown them. A record's code covers the entries that it uses, and no other."""
