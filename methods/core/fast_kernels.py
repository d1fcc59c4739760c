"""Faster kernels for training on a CPU: the same formulas, whose last digits are rounded otherwise.

torch multiplies fp32 matrices by MKL, which uses no AVX-512 on an AMD EPYC; oneDNN does, and takes
less than half the time. :class:`FastLinear` lets oneDNN compute the linear layers of students,
forward and backward. :func:`fast_teacher` gives a frozen teacher whose weights oneDNN has reordered
once and whose attention is ``scaled_dot_product_attention``, which never writes the scores to
memory.
"""

from __future__ import annotations

import copy
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from transformers import AttentionInterface
from transformers.activations import GELUActivation

from methods.core.families import family_of
from methods.core.models import FrozenTeacher, forward, is_packed
from methods.core.packed import fused_attention

# name of :func:`methods.core.packed.fused_attention` in a configuration of transformers
ATTENTION = "packed frozen"
# how far the operators may be from torch's own linear layer on numbers of size 1; 3e-6 was measured
TOLERANCE = 1e-4
# tokens from which a linear layer gains: with 32 the two kernels took the same time
LEAST_ROWS = 64


def problem_here() -> str:
    """Why this torch cannot use the kernels on this machine; "" where it can. Tries them on a small
    layer."""
    try:
        with torch.random.fork_rng(devices=[]), torch.no_grad():
            torch.manual_seed(0)
            linear = nn.Linear(64, 32)
            x_TX = torch.randn(1, 8, 64)
            usual = linear(x_TX)
            fast = [ReorderedLinear(linear)(x_TX), multiplied(x_TX, linear.weight, linear.bias)]
            wrong = max((usual - answer).abs().max().item() for answer in fast)
    except (AttributeError, NotImplementedError, RuntimeError) as error:
        return f"this torch has no linear operators of oneDNN ({str(error).splitlines()[0]})"
    if wrong < TOLERANCE:
        return ""
    return f"the linear operators of oneDNN are wrong by {wrong:.2g} here"


def multiplied(x: Tensor, weight: Tensor, bias: Tensor | None, activation: str = "none") -> Tensor:
    """[..., in], [out, in] -> [..., out]: a linear layer by oneDNN, with ``none`` or the exact
    ``gelu`` after it."""
    algorithm = "none" if activation == "gelu" else ""  # of gelu: without the approximation by tanh
    answer: Tensor = torch.ops.mkldnn._linear_pointwise(x, weight, bias, activation, [], algorithm)
    return answer


class ReorderedLinear(nn.Module):
    """A linear layer whose weight cannot change any more. The operators are those that
    ``torch.compile`` uses for a frozen model on a CPU."""

    def __init__(self, linear: nn.Linear, activation: str = "none") -> None:
        super().__init__()
        self._bias = linear.bias
        self._activation = activation
        with torch.no_grad():
            # a plain attribute: a reordered tensor has no place in a state_dict
            self._weight = torch.ops.mkldnn._reorder_linear_weight(linear.weight)

    def forward(self, x: Tensor) -> Tensor:
        """[..., in] -> [..., out]"""
        return multiplied(x, self._weight, self._bias, self._activation)


def with_fast_kernels(model: Any) -> nn.Module:
    """A copy of a classifier with the fast kernels in its encoder layers. Its other tensors are
    those of the model itself. Raises TypeError: an architecture that ``methods/core/families.py``
    does not know."""
    AttentionInterface.register(ATTENTION, fused_attention)
    # a deep copy copies what it has not seen yet: so it has seen the tensors
    shared = {id(tensor): tensor for tensor in (*model.parameters(), *model.buffers())}
    fast = copy.deepcopy(model, shared)
    for layer in family_of(fast).layers(fast.base_model):
        for module in list(layer.modules()):
            _replace_parts(module)
    return fast


def _replace_parts(module: Any) -> None:
    """The linear layers directly in a module, and the attention that it asks its configuration
    for."""
    children = dict(module.named_children())
    # a linear layer of somebody's own class may do more than multiply
    if (
        isinstance(children.get("intermediate_act_fn"), GELUActivation)
        and type(children["dense"]) is nn.Linear
    ):
        module.dense = ReorderedLinear(module.dense, "gelu")
        module.intermediate_act_fn = nn.Identity()
    for name, child in list(module.named_children()):
        if type(child) is nn.Linear:
            setattr(module, name, ReorderedLinear(child))
    if "config" in vars(module):
        # the model's own says "packed", which its run_layers looks at
        module.config = copy.copy(module.config)
        module.config._attn_implementation = ATTENTION


def fast_teacher(teacher: nn.Module) -> FrozenTeacher:
    """The frozen teacher with fast kernels; as it is where its architecture is not known."""
    fast = with_fast_kernels(teacher.eval()) if is_packed(teacher) else teacher
    return FrozenTeacher(teacher, partial(forward, fast))


class FastLinear(TorchFunctionMode):
    """Inside ``with FastLinear():`` oneDNN computes what ``torch.nn.functional.linear`` is asked
    for, and its gradients. So no model has to be changed. What is small, not fp32 or not on the CPU
    keeps torch's own kernel."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is nn.functional.linear and not kwargs and is_worth_it(*args):
            return _Linear.apply(args[0], args[1], args[2] if len(args) > 2 else None)
        return func(*args, **(kwargs or {}))


def is_worth_it(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> bool:
    rows = x.numel() // max(1, x.size(-1))
    plain = all(t.dtype == torch.float32 and t.device.type == "cpu" for t in (x, weight))
    return (
        plain and rows >= LEAST_ROWS and weight.dim() == 2 and not torch.is_autocast_enabled("cpu")
    )


class _Linear(torch.autograd.Function):
    """A linear layer whose forward and backward passes are matrix products by oneDNN."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        ctx.save_for_backward(x, weight)
        return multiplied(x.contiguous(), weight, bias)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        x, weight = ctx.saved_tensors
        x_TI = x.reshape(-1, x.size(-1))
        gradient_TO = gradients[0].reshape(-1, weight.size(0))
        wanted = (
            # oneDNN reads a turned matrix where it lies
            lambda: multiplied(gradient_TO, weight.t(), None).view_as(x),
            lambda: multiplied(gradient_TO.t(), x_TI.t(), None),
            lambda: gradient_TO.sum(0),
        )
        return tuple(
            compute() if asked else None
            for compute, asked in zip(wanted, ctx.needs_input_grad, strict=True)
        )
