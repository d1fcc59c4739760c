"""Build the optimiser of a recipe, and the schedule of its learning rate.

Which optimisers a recipe can name: :mod:`bench.record.optimizers`.

The loop does what all of them share: it clips the gradient's norm, and sets the learning rate of
each group before each step (the recipe's rate x its schedule x the stage's ``lr_scale`` x the
group's ``factor``). Weight decay is AdamW's, apart from the gradient (Loshchilov & Hutter 2019):
p <- p - rate * decay * p. LAMB's alone is a part of its step and is scaled with it
(bench/optimizers/lamb.py). Torch is imported only where an optimiser is built.
How to add an optimiser: docs/extend.md.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal, get_args

from bench.record.optimizers import OPTIMIZERS
from bench.record.recipe import Recipe

if TYPE_CHECKING:
    from torch.optim import Optimizer

Groups = list[dict[str, Any]]
"""Parameters that are moved alike, as PyTorch has them.

They are ``params``, with their ``weight_decay``, the ``factor`` on their learning rate, and whether
they are ``plain``: biases and parts of LayerNorms, which have no decay.
"""
DECAY = "decay"
"""Key of a group: its weight decay, where the optimiser's own is not AdamW's."""


Schedule = Literal["linear", "constant"]


def refusal(recipe: Recipe) -> str:
    """Why no training can have this recipe's optimiser, in one line; "" where one can."""
    kind = OPTIMIZERS.get(recipe.optimizer)
    if kind is None:
        return f"there is no optimizer {recipe.optimizer}; choose one of {', '.join(OPTIMIZERS)}"

    # a number that its class does not read would be in the key, and move nothing
    if recipe.eps is not None and kind.eps is None:
        readers = ", ".join(name for name, other in OPTIMIZERS.items() if other.eps is not None)
        return (
            f"the optimizer {recipe.optimizer} reads no eps ({recipe.eps:g}); these do: {readers}"
        )
    if recipe.betas != Recipe().betas and not kind.betas:
        readers = ", ".join(name for name, other in OPTIMIZERS.items() if other.betas)
        return (
            f"the optimizer {recipe.optimizer} reads no betas ({recipe.betas}); these do: {readers}"
        )
    return ""


def built(groups: Groups, recipe: Recipe) -> Optimizer:
    """The recipe's optimiser of these groups.

    Raises:
        KeyError: there is no such optimiser; :func:`refusal` says so in words.
    """
    kind = OPTIMIZERS[recipe.optimizer]
    module, _, name = kind.place.partition(":")
    # of the recipe's numbers those that the class reads
    numbers: dict[str, Any] = {"lr": recipe.learning_rate, **kind.fixed}
    if kind.betas:
        numbers["betas"] = recipe.betas
    # the published epsilon, where the recipe names none
    if kind.eps is not None:
        numbers["eps"] = kind.eps if recipe.eps is None else recipe.eps
    # the decay of one that would add it to the gradient is done beside it
    if not kind.decays:
        groups = [{**group, DECAY: group["weight_decay"], "weight_decay": 0.0} for group in groups]
    optimizer: Optimizer = getattr(import_module(module), name)(groups, **numbers)
    if not kind.decays:
        optimizer.register_step_pre_hook(_decay)
    return optimizer


def _decay(optimizer: Optimizer, *_: Any) -> None:
    """AdamW's weight decay, for one that would add it to the gradient."""
    import torch

    with torch.no_grad():
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                if group[DECAY] and parameter.grad is not None:
                    parameter.mul_(1 - group["lr"] * group[DECAY])


def multiplier(schedule: str, warmup: float, step: int, steps: int) -> float:
    """The factor on the learning rate at a step.

    ``linear``: it rises to 1 during the warm-up, then falls to 0; ``constant``: no warm-up, no
    decay.

    Args:
        warmup: share of the steps during which the rate rises.
        step: from 0.

    Raises:
        ValueError: there is no such schedule.
    """
    if schedule not in get_args(Schedule):
        raise ValueError(
            f"no schedule is called {schedule!r}; known: {', '.join(get_args(Schedule))}"
        )
    if schedule == "constant":
        return 1.0

    # up to 1, then down to 0 behind the last step
    rising = max(1, round(warmup * steps))
    if step < rising:
        return (step + 1) / rising
    return max(0.0, (steps - step) / max(1, steps - rising))
