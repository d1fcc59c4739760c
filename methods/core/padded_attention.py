"""Attention of padded input, for measuring: transformers has no ``scaled_dot_product_attention``
for MPNet."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn
from transformers.models.mpnet.modeling_mpnet import MPNetSelfAttention

from methods.core.families import bias_of_heads


class FusedHeads(MPNetSelfAttention):
    """An MPNet's attention by ``scaled_dot_product_attention``: the bias of positions and the mask
    are added to its scores."""

    def forward(
        self,
        hidden_states: Any,
        attention_mask: Any = None,
        position_bias: Any = None,
        output_attentions: Any = False,
        **kwargs: Any,
    ) -> tuple[Tensor]:
        """[B, L, W] states -> ([B, L, W] of the writing layer,). The mask is what eager attention
        adds: 0, or very little."""
        q_BHLD, k_BHLD, v_BHLD = (
            part(hidden_states).unflatten(-1, (-1, self.attention_head_size)).transpose(1, 2)
            for part in (self.q, self.k, self.v)
        )
        # the kernel takes one tensor that is added to the scores
        added_BHLL = bias_of_heads(self, position_bias)
        if attention_mask is not None:
            added_BHLL = added_BHLL + attention_mask
        mixed_BHLD = nn.functional.scaled_dot_product_attention(
            q_BHLD,
            k_BHLD,
            v_BHLD,
            added_BHLL.to(q_BHLD.dtype),
            self.dropout.p if self.training else 0.0,
        )
        return (self.o(mixed_BHLD.transpose(1, 2).flatten(2)),)


def attend_by(model: Any, kernel: str) -> None:
    """Let a model attend by ``eager`` or ``sdpa`` where its input is padded. An MPNet that is given
    sdpa keeps it: give a copy."""
    parts = [part for part in model.modules() if isinstance(part, MPNetSelfAttention)]
    if not parts:
        model.set_attn_implementation(kernel)
    if kernel == "sdpa":
        for part in parts:
            part.__class__ = FusedHeads
