"""LAMB (You et al. 2020, arXiv 1904.00962, algorithm 2).

It is Adam's step, scaled in each matrix to the size of its weights.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer


class Lamb(Optimizer):
    """u = m / (sqrt(v) + eps) + decay * p; p <- p - rate * |p| / |u| * u.

    Norms are Euclidean, over the whole parameter. m and v are Adam's means of the gradient and of
    its square, corrected for their bias as in the paper. The ratio of the norms is 1 where one of
    them is 0, and in ``plain`` groups (biases and LayerNorms), as in the authors' code for BERT.
    """

    def __init__(
        self, groups: list[dict[str, Any]], lr: float, betas: tuple[float, float], eps: float
    ) -> None:
        super().__init__(
            groups, {"lr": lr, "betas": betas, "eps": eps, "weight_decay": 0.0, "plain": False}
        )

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        """Move every parameter that has a gradient."""
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    self._move(parameter, group)

    def _move(self, parameter: Tensor, group: dict[str, Any]) -> None:
        """Move one parameter by its gradient."""
        state = self.state[parameter]
        gradient = parameter.grad
        first, second = group["betas"]
        if not state:
            state["step"] = torch.tensor(0.0)
            state["mean"] = torch.zeros_like(parameter)
            state["square"] = torch.zeros_like(parameter)
        state["step"] += 1
        steps = float(state["step"])

        # Adam's means, corrected for their bias
        mean = state["mean"].mul_(first).add_(gradient, alpha=1 - first)
        square = state["square"].mul_(second).addcmul_(gradient, gradient, value=1 - second)
        unbiased_mean = mean / (1 - first**steps)
        unbiased_square = square / (1 - second**steps)

        # the step, with weight decay in it, as large as the parameter
        update = unbiased_mean / (unbiased_square.sqrt() + group["eps"])
        update += group["weight_decay"] * parameter
        ratio = 1.0 if group["plain"] else _ratio(parameter, update)
        parameter -= group["lr"] * ratio * update


def _ratio(parameter: Tensor, update: Tensor) -> Tensor:
    """|p| / |u|, a scalar; 1 where one of them is 0."""
    size = torch.linalg.vector_norm(parameter)
    step = torch.linalg.vector_norm(update)
    return torch.where((size > 0) & (step > 0), size / step, 1.0)
