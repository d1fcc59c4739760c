"""The Adam of BERT's published code, as several methods' authors use it.

google-research/bert, optimization.py; BertAdam in PyTorch.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.optim import Optimizer

LARGEST_NORM = 1.0
"""The largest norm of each parameter's gradient, by itself."""


class BertAdam(Optimizer):
    """p <- p - rate * (m / (sqrt(v) + eps) + decay * p).

    m and v are Adam's means of the gradient and of its square, not corrected for their bias. Each
    parameter's gradient is first cut to a norm of 1, as in PyTorch's BertAdam.
    """

    def __init__(
        self, groups: list[dict[str, Any]], lr: float, betas: tuple[float, float], eps: float
    ) -> None:
        super().__init__(groups, {"lr": lr, "betas": betas, "eps": eps, "weight_decay": 0.0})

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        """Move every parameter that has a gradient."""
        for group in self.param_groups:
            # how slowly the means of the gradient and of its square change
            first, second = group["betas"]
            for parameter in (p for p in group["params"] if p.grad is not None):
                state = self.state[parameter]
                if not state:
                    state["mean"] = torch.zeros_like(parameter)
                    state["square"] = torch.zeros_like(parameter)
                # the gradient, cut
                norm = torch.linalg.vector_norm(parameter.grad)
                gradient = parameter.grad * (LARGEST_NORM / (norm + 1e-6)).clamp(max=1.0)
                # its means, and the step
                mean = state["mean"].mul_(first).add_(gradient, alpha=1 - first)
                square = state["square"].mul_(second).addcmul_(gradient, gradient, value=1 - second)
                update = mean / (square.sqrt() + group["eps"]) + group["weight_decay"] * parameter
                parameter -= group["lr"] * update
