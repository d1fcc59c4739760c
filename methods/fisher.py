"""Post-training pruning of heads and feed-forward neurons, Kwon et al. 2022 (NeurIPS, "A fast post-training pruning framework
for transformers"). Nothing is distilled and, by default, nothing is trained.

The paper's: each head and each neuron of the tuned teacher has a mask variable, 1 at first. The diagonal of the Fisher information
of the masks, mean over examples of (dL/dm)^2, says what each is worth. Mask search (algorithm 1): for every number of
heads the most important ones and as many of the most important neurons as the FLOPs allow; the pair that loses least importance
is taken. Rearrangement (section 4.2): layer by layer, with so many units as the search left it, a greedy exchange lowers
(1 - m)' F (1 - m) with the layer's whole block of the Fisher matrix. Mask tuning (section 4.3): layer after layer, the
masks that stay take the values with which the layer's output, residual included, is nearest to the unpruned model's (least
squares). Masks are folded into the weights; the student has fewer heads and neurons, other numbers in each layer.
As in the authors' code: the tuning solves for the distance to 1 and damps it with weight 1, on the normal equations; at the
first layer with a mask beyond 10 it stops, and the rest stay 1. A head costs 4 W D + 2 S D multiply-accumulates a token, a neuron
2 W, S the mean length.
Ours: gradients of single examples (the code has those of batches of 32); the first ``examples`` training examples in their order, 2,048
of them, where the code draws them; every layer keeps at least one head and one neuron. Latency as a constraint is left
out. ``retrain=true`` fine-tunes the pruned model on the labels, which the paper does without.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import torch
from torch import Tensor, nn
from transformers import PretrainedConfig

from methods.api import Batch, Method, Setup, Stage, Student
from methods.artefacts import Artefact, ComputedArtefact, TeacherWeights, first_examples
from methods.families import FAMILIES
from methods.packed import AttentionTrace
from methods.parts import require_bert
from methods.pruned import mask_gradients, pruned_classifier
from methods.settings import Count, Limit
from methods.terms import hard

LARGEST_MASK = 10.0  # beyond it the tuning stops


@dataclass(frozen=True)
class Masks(ComputedArtefact):
    """Of the tuned teacher ``heads`` [L, H] and ``neurons`` [L, F]: 0 for what is pruned, else what its output is multiplied with."""

    name: ClassVar = "fisher_masks"
    flops: float
    examples: int

    def blank(self, teacher: PretrainedConfig, num_labels: int) -> Mapping[str, Tensor]:
        """Masks of the same FLOPs, spread evenly: a plan counts with them, also where there are only shapes."""
        layers, width, heads = (
            teacher.num_hidden_layers,
            teacher.hidden_size,
            teacher.num_attention_heads,
        )
        even = [
            torch.linspace(1, 2, n, device="cpu").repeat(layers, 1)
            for n in (heads, teacher.intermediate_size)
        ]
        masks = search(even[0], even[1], self.flops, *unit_macs(width, width // heads, 128))
        return dict(zip(("heads", "neurons"), masks, strict=True))

    def compute(self, teacher: nn.Module, batches: Iterable[Batch]) -> Mapping[str, Tensor]:
        model: Any = teacher
        layers, config = model.bert.encoder.layer, model.config
        seen, gradients = [], []
        for batch in first_examples(batches, self.examples):
            seen.append(batch)
            gradients.append(mask_gradients(model, batch))
        # of each layer [examples, units]: first all heads, then all neurons
        by_block = [torch.cat(parts).double().cpu() for parts in zip(*gradients, strict=True)]
        by_heads, by_neurons = by_block[: len(layers)], by_block[len(layers) :]
        length = sum(each.layout.total for each in seen) / sum(
            len(each.layout.lengths) for each in seen
        )
        cost = unit_macs(
            config.hidden_size, config.hidden_size // config.num_attention_heads, length
        )
        worth = [
            torch.stack([g.square().mean(0) for g in block]) for block in (by_heads, by_neurons)
        ]
        heads, neurons = search(worth[0], worth[1], self.flops, *cost)
        for masks, block in ((heads, by_heads), (neurons, by_neurons)):
            for mask, gradient in zip(masks, block, strict=True):
                mask.copy_(rearranged(mask, gradient))
        tune(model, seen, heads, neurons)
        return {"heads": heads, "neurons": neurons}


def unit_macs(width: int, head_width: int, length: float) -> tuple[float, float]:
    """Multiply-accumulates of one head and of one neuron for each token of a sequence of this length."""
    return 4 * width * head_width + 2 * length * head_width, 2 * width


def search(
    heads_LH: Tensor, neurons_LF: Tensor, flops: float, head: float, neuron: float
) -> tuple[Tensor, Tensor]:
    """Masks of 0 and 1 by algorithm 1: of importances and the cost of one unit, the largest sum within ``flops`` of the whole cost."""

    def ranked(worth_LU: Tensor) -> tuple[Tensor, Tensor]:
        """Places from the most important one, the best of each layer before all; what so many of them are worth together."""
        first_LU = worth_LU.clone().scatter_(1, worth_LU.argmax(1, keepdim=True), float("inf"))
        order = first_LU.flatten().argsort(descending=True, stable=True)
        return order, worth_LU.flatten()[order].double().cumsum(0)

    layers = len(heads_LH)
    (by_head, head_sums), (by_neuron, neuron_sums) = ranked(heads_LH), ranked(neurons_LF)
    budget = flops * (len(by_head) * head + len(by_neuron) * neuron)
    best, chosen = float("-inf"), (layers, layers)
    for count in range(layers, len(by_head) + 1):
        others = min(len(by_neuron), int((budget - count * head) / neuron))
        if (
            others >= layers
            and (worth := float(head_sums[count - 1] + neuron_sums[others - 1])) > best
        ):
            best, chosen = worth, (count, others)
    masks = []
    for worth_LU, order, count in (
        (heads_LH, by_head, chosen[0]),
        (neurons_LF, by_neuron, chosen[1]),
    ):
        mask = torch.zeros_like(worth_LU, dtype=torch.float32).flatten()
        mask[order[:count]] = 1.0
        masks.append(mask.view(worth_LU.shape))
    return masks[0], masks[1]


def rearranged(mask_U: Tensor, gradient_NU: Tensor) -> Tensor:
    """A layer's mask with as many zeros, exchanged greedily: beginning with the least important units, each other one joins those
    that are pruned, and then that one leaves them without which the sum of squares of their summed gradients is least."""
    pruned = int((mask_U == 0).sum())
    if pruned in (0, len(mask_U)):
        return mask_U
    gram_UU = gradient_NU.T @ gradient_NU
    order = gram_UU.diagonal().argsort(stable=True)
    inside_U = torch.zeros(len(mask_U), dtype=torch.bool)
    inside_U[order[:pruned]] = True
    with_inside_U = gram_UU[:, inside_U].sum(1)
    for unit in order[pruned:].tolist():
        inside_U[unit] = True
        with_inside_U += gram_UU[unit]
        # |sum - g|^2 = |sum|^2 - 2 sum.g + |g|^2, and |sum|^2 is the same for all
        without_U = gram_UU.diagonal() - 2 * with_inside_U
        leaves = int(without_U.masked_fill(~inside_U, float("inf")).argmin())
        inside_U[leaves] = False
        with_inside_U -= gram_UU[leaves]
    return (~inside_U).to(mask_U.dtype)


@torch.no_grad()
def tune(model: Any, batches: Sequence[Batch], heads_LH: Tensor, neurons_LF: Tensor) -> None:
    """Give the masks that are 1 the values of equation 13, in place: block after block, the pruned model beside the whole one."""
    embed = FAMILIES["bert"].embed
    whole = [embed(model.bert, batch)[None] for batch in batches]
    pruned, is_tuning = list(whole), True
    for number, (layer, part) in enumerate(itertools.product(model.bert.encoder.layer, (0, 1))):
        block = (layer.attention, layer)[part].output
        mask_U = (heads_LH, neurons_LF)[part][number // 2]
        size = block.dense.in_features // len(mask_U)  # columns of one unit
        weight = block.dense.weight

        def inner(state: Tensor, batch: Batch, layer: Any = layer, part: int = part) -> Tensor:
            return (
                layer.intermediate(state)
                if part
                else layer.attention.self(state, trace=AttentionTrace(batch.layout))[0]
            )

        if is_tuning:
            kept = mask_U.repeat_interleave(size).nonzero()[:, 0].to(weight.device)
            products, wanted = (
                torch.zeros(len(kept), len(kept)).double(),
                torch.zeros(len(kept)).double(),
            )
            for x_whole, x_pruned, batch in zip(whole, pruned, batches, strict=True):
                goal = (block.dense(inner(x_whole, batch)) + x_whole - x_pruned - block.dense.bias)[
                    0
                ]
                read = inner(x_pruned, batch)[0][:, kept]
                products += (read.T @ read).double().cpu()
                wanted += (read * (goal @ weight[:, kept])).sum(0).double().cpu()
            # the output of unit u is read_u times its columns: products of outputs are products of both, summed over a unit's columns
            products *= (weight[:, kept].T @ weight[:, kept]).double().cpu()
            products = products.unflatten(1, (-1, size)).sum(2).unflatten(0, (-1, size)).sum(1)
            wanted = wanted.unflatten(0, (-1, size)).sum(1)
            # the distance to 1, damped: min |A d - (b - A 1)|^2 + |d|^2
            distance = torch.linalg.solve(
                products.T @ products + torch.eye(len(products)).double(),
                products.T @ (wanted - products.sum(1)),
            )
            is_tuning = bool((distance + 1).abs().max() <= LARGEST_MASK)
            if is_tuning:
                mask_U[mask_U != 0] = (distance + 1).to(mask_U.dtype)
        scale = mask_U.repeat_interleave(size).to(weight.device)
        for place, batch in enumerate(batches):
            whole[place] = block(inner(whole[place], batch), whole[place])
            pruned[place] = block(inner(pruned[place], batch) * scale, pruned[place])


@dataclass(frozen=True, kw_only=True)
class Fisher(Method):
    name: ClassVar = "fisher"
    version: ClassVar = 1
    terms: ClassVar = ("hard",)
    ablations: ClassVar = {
        "60 % of the FLOPs": ":flops=0.6",
        "fine-tuned after it": ":retrain=true",
    }
    needs_teacher: ClassVar = True
    spans: ClassVar = True
    same_init_across_seeds: ClassVar = True
    remark: ClassVar = (
        "fisher: nothing is trained, so all seeds are one model, unless the row has retrain=true."
    )

    flops: Annotated[
        float, Limit(lambda share: 0 < share < 1, "lie between 0 and 1, both excluded")
    ] = 0.5
    """share of the encoder's multiply-accumulates that stays, at the mean length of the examples"""
    examples: Count = 2048
    retrain: bool = False

    def requires(self, teacher: PretrainedConfig) -> Sequence[Artefact]:
        require_bert(teacher, self.name)
        return (TeacherWeights(tuned=True), Masks(self.flops, self.examples))

    def build(self, setup: Setup) -> Student:
        masks = setup.artefacts[Masks.name]
        weights = setup.artefacts["tuned_teacher"]
        return Student(
            pruned_classifier(
                setup.teacher, setup.num_labels, weights, masks["heads"], masks["neurons"]
            )
        )

    def stages(self, setup: Setup) -> Sequence[Stage]:
        # the paper trains nothing; BERT's own fine-tuning with a small rate where it is asked for
        return (
            (Stage("retrain", {"hard": hard()}, paper={"epochs": 3.0, "learning_rate": 2e-5}),)
            if self.retrain
            else ()
        )
