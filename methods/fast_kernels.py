"""A frozen teacher's forward pass with faster kernels on a CPU: the same formulas, whose last digits are rounded otherwise.

Linear layers multiply by a weight that oneDNN has reordered once, where torch's own kernel reads the weight as it lies in
memory in every step. Attention is ``scaled_dot_product_attention``, which never writes the scores to memory. Both are open
only to a model without gradients and dropout, so students never use them.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from transformers import AttentionInterface
from transformers.activations import GELUActivation

from methods.batches import Batch
from methods.families import Cost, cost, family_of
from methods.models import PackedModel
from methods.packed import Layout, forward
from methods.taps import Out, Taps

ATTENTION = "packed frozen"
"""Name of :func:`frozen_attention` in a configuration of transformers."""
TOLERANCE = 1e-4
"""How far the operators may be from torch's own linear layer on numbers of size 1; 3e-6 was measured."""


def problem_here() -> str:
    """Why this torch cannot use the kernels on this machine; "" where it can. Tries them on a small layer."""
    try:
        with torch.random.fork_rng(devices=[]), torch.no_grad():
            torch.manual_seed(0)
            linear, x_TX = nn.Linear(64, 32), torch.randn(1, 8, 64)
            wrong = (linear(x_TX) - ReorderedLinear(linear)(x_TX)).abs().max().item()
    except (AttributeError, NotImplementedError, RuntimeError) as error:
        return f"this torch has no linear operators of oneDNN ({str(error).splitlines()[0]})"
    return "" if wrong < TOLERANCE else f"the linear operators of oneDNN are wrong by {wrong:.2g} here"


class ReorderedLinear(nn.Module):
    """A linear layer whose weight cannot change any more.

    The operators are those that ``torch.compile`` uses for a frozen model on a CPU.
    """

    def __init__(self, linear: nn.Linear, activation: str = "none") -> None:
        """
        Args:
            activation: ``none``, or ``gelu`` (exact) on what the layer answers.
        """
        super().__init__()
        self._bias, self._activation = linear.bias, activation
        with torch.no_grad():
            # a plain attribute: a reordered tensor has no place in a state_dict
            self._weight = torch.ops.mkldnn._reorder_linear_weight(linear.weight)

    def forward(self, x: Tensor) -> Tensor:
        """[..., in] -> [..., out]"""
        algorithm = "none" if self._activation == "gelu" else ""  # of gelu: the exact one, not the tanh
        answer: Tensor = torch.ops.mkldnn._linear_pointwise(
            x, self._weight, self._bias, self._activation, [], algorithm
        )
        return answer


def frozen_attention(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    scaling: float | None = None,
    *,
    layout: Layout,
    kept_scores: list[tuple[Tensor, ...]] | None = None,
    kept_vectors: list[tuple[Tensor, Tensor, Tensor]] | None = None,
    **_: object,
) -> tuple[Tensor, None]:
    """:func:`methods.packed.packed_attention` of a frozen model, for one packed row of shape [1, H, T, D].

    Kept scores are computed next to the attention and not for it: asking for them cannot change a result.
    """
    if kept_vectors is not None:
        q_TX, k_TX, v_TX = (x[0].transpose(0, 1).flatten(1) for x in (query, key, value))
        kept_vectors.append((q_TX, k_TX, v_TX))
    scale = scaling or query.size(-1) ** -0.5
    q_NHD, k_NHD, v_NHD = (x[0].transpose(0, 1).index_select(0, layout.gather_N) for x in (query, key, value))
    scores, mixed = [], []
    for chunk in layout.chunks:
        shape = (len(chunk.sequences), chunk.longest)
        q_nHLD, k_nHLD, v_nHLD = (x[chunk.places].unflatten(0, shape).transpose(1, 2) for x in (q_NHD, k_NHD, v_NHD))
        if kept_scores is not None:
            scores.append(torch.matmul(q_nHLD, k_nHLD.transpose(2, 3)) * scale)
        mask = None if chunk.full else chunk.keys_nL[:, None, None, :]
        mixed_nHLD = nn.functional.scaled_dot_product_attention(q_nHLD, k_nHLD, v_nHLD, attn_mask=mask, scale=scale)
        mixed.append(mixed_nHLD.transpose(1, 2).flatten(0, 1))
    if kept_scores is not None:
        kept_scores.append(tuple(scores))
    mixed_NHD = mixed[0] if len(mixed) == 1 else torch.cat(mixed)
    return mixed_NHD.index_select(0, layout.scatter_T)[None], None


def with_fast_kernels(model: Any) -> nn.Module:
    """A copy of a classifier with the fast kernels in its encoder layers. Its other tensors are those of the model itself.

    Raises:
        TypeError: an architecture that ``methods/families.py`` does not know.
    """
    AttentionInterface.register(ATTENTION, frozen_attention)
    # a deep copy copies what it has not seen yet: so it has seen the tensors
    shared = {id(tensor): tensor for tensor in (*model.parameters(), *model.buffers())}
    fast = copy.deepcopy(model, shared)
    for layer in encoder_layers(fast):
        for module in list(layer.modules()):
            _replace_parts(module)
    return fast


def encoder_layers(model: Any) -> Sequence[nn.Module]:
    """Of a classifier, in their order."""
    return family_of(model).layers(getattr(model, model.base_model_prefix))


def reordered_bytes(model: Any) -> int:
    """What :func:`with_fast_kernels` adds to a model: each linear layer of its encoder a second time."""
    parts = (part for layer in encoder_layers(model) for part in layer.modules())
    return sum(part.weight.nbytes for part in parts if isinstance(part, nn.Linear))


def _replace_parts(module: Any) -> None:
    """The linear layers directly in a module, and the attention that it asks its configuration for."""
    if isinstance(getattr(module, "intermediate_act_fn", None), GELUActivation):
        module.dense, module.intermediate_act_fn = ReorderedLinear(module.dense, "gelu"), nn.Identity()
    for name, child in list(module.named_children()):
        if isinstance(child, nn.Linear):
            setattr(module, name, ReorderedLinear(child))
    if hasattr(module, "config"):
        module.config = copy.copy(module.config)  # the model's own says "packed", which its walk looks at
        module.config._attn_implementation = ATTENTION


class FastTeacher(PackedModel):
    """A frozen teacher that answers by fast kernels, and by the usual ones where it trains or its dropout is asked for."""

    def __init__(self, teacher: nn.Module) -> None:
        super().__init__()
        self.teacher, self._fast = teacher, [with_fast_kernels(teacher.eval())]  # in a list: no module of this one

    def packed_forward(self, batch: Batch, taps: Taps) -> Out:
        """One pass over a packed batch: what ``taps`` name."""
        if self.training or torch.is_grad_enabled():
            return forward(self.teacher, batch, taps)
        return forward(self._fast[0], batch, taps)

    def cost(self) -> Cost:
        """Of a forward pass: other kernels do the same multiplications."""
        return cost(self.teacher)
