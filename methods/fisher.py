"""Post-training pruning of heads and feed-forward neurons, Kwon et al. 2022 (NeurIPS, "A fast
post-training pruning framework for transformers"). Nothing is distilled and, by default, nothing is
trained.

The paper's: each head and each neuron of the tuned teacher has a mask variable, 1 at first. The
diagonal of the Fisher information of the masks, mean over examples of (dL/dm)^2, says what each is
worth. Mask search (algorithm 1): for every number of heads the most important ones and as many of
the most important neurons as the FLOPs allow; the pair that loses least importance is taken.
Rearrangement (section 4.2): layer by layer, with so many units as the search left it, a greedy
exchange lowers (1 - m)' F (1 - m) with the layer's whole block of the Fisher matrix. Mask tuning
(section 4.3): layer after layer, the masks that stay take the values with which the layer's output,
residual included, is nearest to that of a target (least squares). Masks are folded into the
weights; the student has fewer heads and neurons, other numbers in each layer.

As in the authors' code, where the paper does not say it or says otherwise:
- The target is not the unpruned model (the paper's). It is the model that the search gives for the
  square root of ``flops``, 0.707 for 0.5, without rearrangement. By the order of the code's hooks
  each feed-forward network of the target is compared with all of its neurons; the states that it
  reads, and those that it hands on, are those of the pruned target.
- The equations of the heads have a further unknown, a constant that is added to all outputs; it is
  dropped when they are solved.
- The heads of the first layer are not tuned.
- The last feed-forward network is fitted on the states of [CLS] alone; of questions, on those of
  every token.
- The tuning solves for the distance to 1 and damps it with weight 1, on the normal equations; at
  the first layer with a mask beyond 10 it stops, and the rest stay 1. Theirs, an iterative solver,
  also stops where it does not converge; ours is exact.
- A head costs 4 W D + 2 S D multiply-accumulates a token, a neuron 2 W, S the mean length.

Teachers of RoBERTa, ELECTRA and MPNet are pruned alike; each head of an MPNet that stays keeps its
row of the bias of relative positions. ModernBERT has gated networks, in which a neuron is two rows
of one matrix.

Ours: gradients of single examples (the code has those of batches of 32); the first ``examples``
training examples in their order, 2,048 of them, where the code draws them; every layer keeps at
least one head and one neuron; S is the mean length of the examples, theirs a number for each task.
Latency as a constraint is left out. ``retrain=true`` fine-tunes the pruned model on the labels,
which the paper does without.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import torch
from torch import Tensor, nn
from transformers import PretrainedConfig

from methods.api import Batch, Method, Setup, Stage, Student
from methods.core.artefacts import Artefact, ComputedArtefact, TeacherWeights, first_examples
from methods.core.families import attention_names, family_of
from methods.core.packed import AttentionTrace
from methods.core.parts import require_layers
from methods.core.pruned import mask_gradients, pruned_classifier
from methods.core.settings import Count, Limit
from methods.core.terms import hard

LARGEST_MASK = 10.0  # beyond it the tuning stops


@dataclass(frozen=True)
class Masks(ComputedArtefact):
    """Of the tuned teacher ``heads`` [L, H] and ``neurons`` [L, F]: 0 for what is pruned, else what
    its output is multiplied with."""

    name: ClassVar = "fisher_masks"
    version: ClassVar = 2  # 1 tuned towards the unpruned model, every head, on all tokens
    flops: float
    examples: int

    def blank(self, teacher: PretrainedConfig, num_labels: int) -> Mapping[str, Tensor]:
        """Masks of the same FLOPs, spread evenly: a plan counts with them, also where
        there are only shapes."""
        layers = teacher.num_hidden_layers
        width = teacher.hidden_size
        heads = teacher.num_attention_heads
        even = [
            torch.linspace(1, 2, n, device="cpu").repeat(layers, 1)
            for n in (heads, teacher.intermediate_size)
        ]
        masks = search(even[0], even[1], self.flops, *unit_macs(width, width // heads, 128))
        return dict(zip(("heads", "neurons"), masks, strict=True))

    def compute(self, teacher: nn.Module, batches: Iterable[Batch]) -> Mapping[str, Tensor]:
        model: Any = teacher
        layers = model.base_model.encoder.layer
        config = model.config
        seen = []
        gradients = []
        for batch in first_examples(batches, self.examples):
            seen.append(batch)
            gradients.append(mask_gradients(model, batch))
        # of each layer [examples, units]: first all heads, then all neurons
        by_block = [torch.cat(parts).double().cpu() for parts in zip(*gradients, strict=True)]
        by_heads = by_block[: len(layers)]
        by_neurons = by_block[len(layers) :]
        # tokens of a mean example, which decide what attention costs
        length = sum(each.layout.total for each in seen) / sum(
            len(each.layout.lengths) for each in seen
        )
        cost = unit_macs(
            config.hidden_size, config.hidden_size // config.num_attention_heads, length
        )
        # what each unit is worth: its mean squared gradient, the diagonal of the Fisher matrix
        worth = []
        for block in (by_heads, by_neurons):
            worth.append(torch.stack([gradient.square().mean(0) for gradient in block]))
        # search, then the exchange within each layer, whose units stand for one another
        heads, neurons = search(worth[0], worth[1], self.flops, *cost)
        for masks, block in ((heads, by_heads), (neurons, by_neurons)):
            for mask, gradient in zip(masks, block, strict=True):
                mask.copy_(rearranged(mask, gradient))
        # tuning, towards the larger model that the authors' code takes as target
        target_heads, target_neurons = search(worth[0], worth[1], math.sqrt(self.flops), *cost)
        tune(model, seen, heads, neurons, target_heads, target_neurons)
        return {"heads": heads, "neurons": neurons}


def unit_macs(width: int, head_width: int, length: float) -> tuple[float, float]:
    """Multiply-accumulates of one head and of one neuron for each token of a
    sequence of this length."""
    return 4 * width * head_width + 2 * length * head_width, 2 * width


def search(
    heads_LH: Tensor, neurons_LF: Tensor, flops: float, head: float, neuron: float
) -> tuple[Tensor, Tensor]:
    """Masks of 0 and 1 by algorithm 1: of importances and the cost of one unit, the largest sum
    within ``flops`` of the whole cost."""

    def ranked(worth_LU: Tensor) -> tuple[Tensor, Tensor]:
        """Places from the most important one, the best of each layer before all; what so many of
        them are worth together."""
        first_LU = worth_LU.clone().scatter_(1, worth_LU.argmax(1, keepdim=True), float("inf"))
        order = first_LU.flatten().argsort(descending=True, stable=True)
        return order, worth_LU.flatten()[order].double().cumsum(0)

    layers = len(heads_LH)
    by_head, head_sums = ranked(heads_LH)
    by_neuron, neuron_sums = ranked(neurons_LF)
    budget = flops * (len(by_head) * head + len(by_neuron) * neuron)
    best = float("-inf")
    chosen = (layers, layers)
    # so many heads, and as many neurons as the rest of the budget pays for
    for count in range(layers, len(by_head) + 1):
        others = min(len(by_neuron), int((budget - count * head) / neuron))
        if (
            others >= layers
            and (worth := float(head_sums[count - 1] + neuron_sums[others - 1])) > best
        ):
            best = worth
            chosen = (count, others)
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
    """A layer's mask with as many zeros, exchanged greedily: beginning with the least important
    units, each other one joins those that are pruned, and then that one leaves them without which
    the sum of squares of their summed gradients is least."""
    pruned = int((mask_U == 0).sum())
    if pruned in (0, len(mask_U)):
        return mask_U
    gram_UU = gradient_NU.T @ gradient_NU
    order = gram_UU.diagonal().argsort(stable=True)
    inside_U = torch.zeros(len(mask_U), dtype=torch.bool)
    inside_U[order[:pruned]] = True
    # each unit's gradient times the sum of those that are pruned, kept up to date below
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


@dataclass(frozen=True)
class Block:
    """The attention or the feed-forward network of one layer: units, whose sum its
    last linear layer makes.

    Attributes:
        dense: that linear layer.
        norm: the LayerNorm of its output and the states that the block was given.
        read: of [1, T, W] states and their batch, the [1, T, X] that the linear layer reads.
    """

    dense: Any
    norm: Any
    read: Callable[[Tensor, Batch], Tensor]

    def masked(self, states: Tensor, batch: Batch, mask_U: Tensor) -> Tensor:
        """What the linear layer reads where each unit is multiplied with its mask."""
        read = self.read(states, batch)
        return read * mask_U.repeat_interleave(read.size(-1) // len(mask_U)).to(read.device)

    def forward(self, states: Tensor, batch: Batch, mask_U: Tensor) -> Tensor:
        """[1, T, W] states after the block."""
        return self.norm(self.dense(self.masked(states, batch, mask_U)) + states)


def blocks_of(model: Any, layer: Any) -> tuple[Block, Block]:
    """A layer's attention and its feed-forward network, of a model in evaluation mode."""
    family = family_of(model)
    *_, writing, norm = attention_names(model).parts(layer)

    def context(states: Tensor, batch: Batch) -> Tensor:
        options = family.layer_options(model.base_model, states[0], batch.layout)(layer)
        return family.context(layer, states, AttentionTrace(batch.layout), **options)

    def inner(states: Tensor, batch: Batch) -> Tensor:
        return layer.intermediate(states)

    network = layer.output
    return Block(writing, norm, context), Block(network.dense, network.LayerNorm, inner)


@dataclass(frozen=True)
class States:
    """One batch on its way through both models: [1, T, W] each."""

    batch: Batch
    target: Tensor
    pruned: Tensor

    def after(self, block: Block, target_mask_U: Tensor, mask_U: Tensor) -> States:
        target = block.forward(self.target, self.batch, target_mask_U)
        pruned = block.forward(self.pruned, self.batch, mask_U)
        return States(self.batch, target, pruned)


@torch.no_grad()
def tune(
    model: Any,
    batches: Sequence[Batch],
    heads_LH: Tensor,
    neurons_LF: Tensor,
    target_heads_LH: Tensor,
    target_neurons_LF: Tensor,
) -> None:
    """Give the masks that are 1 the values of equation 13, in place: block after block, the pruned
    model beside its target.

    Args:
        model: the tuned teacher, a classifier, or one for questions.
        batches: the examples.
        heads_LH, neurons_LF: masks of the pruned model, of 0 and 1.
        target_heads_LH, target_neurons_LF: masks of the model whose outputs it should have.
    """
    embed = family_of(model).embed
    seen = []
    for batch in batches:
        embedded = embed(model.base_model, batch)[None]
        seen.append(States(batch, embedded, embedded))
    last = len(heads_LH) - 1
    is_tuning = True
    for number, layer in enumerate(model.base_model.encoder.layer):
        attention, network = blocks_of(model, layer)
        # heads: not those of the first layer
        target_mask_H = target_heads_LH[number]
        if is_tuning and number > 0:
            equations = normal_equations(attention, seen, heads_LH[number], target_mask_H, True)
            is_tuning = solved_into(heads_LH[number], *equations)
        seen = [each.after(attention, target_mask_H, heads_LH[number]) for each in seen]
        # neurons: beside the target's whole network
        if is_tuning:
            mask_F = neurons_LF[number]
            whole_F = torch.ones_like(mask_F)
            on_first = number == last and not batches[0].spans
            equations = normal_equations(network, seen, mask_F, whole_F, False, on_first)
            is_tuning = solved_into(mask_F, *equations)
        seen = [each.after(network, target_neurons_LF[number], neurons_LF[number]) for each in seen]


def normal_equations(
    block: Block,
    seen: Sequence[States],
    mask_U: Tensor,
    target_mask_U: Tensor,
    constant: bool,
    on_first: bool = False,
) -> tuple[Tensor, Tensor]:
    """A'A and A'b of min |A m - b|^2: a column of A is the output of one unit that stays, b what
    they have to sum up to.

    Args:
        constant: whether A has a last column of ones.
        on_first: whether only the states of each sequence's first token, [CLS], count.
    """
    dense = block.dense
    size = dense.in_features // len(mask_U)  # columns of one unit
    kept = mask_U.repeat_interleave(size).nonzero()[:, 0].to(dense.weight.device)
    weight_WX = dense.weight[:, kept]
    # sums over tokens, by column of the linear layer
    products_XX = torch.zeros(len(kept), len(kept)).double()
    goals_X = torch.zeros(len(kept)).double()
    read_X = torch.zeros(len(kept)).double()
    goal_sum = 0.0
    rows = 0
    for each in seen:
        # what the units have to add up to: the target's output without the bias, less the states
        # that pass the pruned block by
        target = dense(block.masked(each.target, each.batch, target_mask_U)) + each.target
        goal_TW = (target - dense.bias - each.pruned)[0]
        read_TX = block.read(each.pruned, each.batch)[0][:, kept]
        if on_first:
            goal_TW = each.batch.layout.first(goal_TW)
            read_TX = each.batch.layout.first(read_TX)
        products_XX += (read_TX.T @ read_TX).double().cpu()
        goals_X += (read_TX * (goal_TW @ weight_WX)).sum(0).double().cpu()
        read_X += read_TX.double().sum(0).cpu()
        goal_sum += float(goal_TW.double().sum())
        rows += goal_TW.numel()
    # the output of a unit is what it reads times its columns, so products of outputs are products
    # of both, summed over the columns of a unit
    products_XX *= (weight_WX.T @ weight_WX).double().cpu()
    products_UU = products_XX.unflatten(1, (-1, size)).sum(2).unflatten(0, (-1, size)).sum(1)
    goals_U = goals_X.unflatten(0, (-1, size)).sum(1)
    if not constant:
        return products_UU, goals_U
    # the sum of a unit's outputs over tokens and width is its product with the column of ones
    sums_X = read_X * weight_WX.sum(0).double().cpu()
    sums_U = sums_X.unflatten(0, (-1, size)).sum(1)
    top = torch.cat([products_UU, sums_U[:, None]], 1)
    bottom = torch.cat([sums_U, torch.tensor([float(rows)]).double()])
    return torch.cat([top, bottom[None]]), torch.cat([goals_U, torch.tensor([goal_sum]).double()])


def solved_into(mask_U: Tensor, products: Tensor, goals: Tensor) -> bool:
    """Give the units that stay their solution, in place, and say whether it is usable: False
    leaves the mask as it is.

    The distance d to 1 is damped: min |A'A d - (A'b - A'A 1)|^2 + |d|^2.
    """
    damping = torch.eye(len(products)).double()
    wanted = products.T @ (goals - products.sum(1))
    solution = 1 + torch.linalg.solve(products.T @ products + damping, wanted)
    kept = int((mask_U != 0).sum())
    # what is behind the units, the constant, is dropped
    values = solution[:kept]
    if not bool(values.abs().max() <= LARGEST_MASK):
        return False
    mask_U[mask_U != 0] = values.to(mask_U.dtype)
    return True


@dataclass(frozen=True, kw_only=True)
class Fisher(Method):
    name: ClassVar = "fisher"
    version: ClassVar = 2  # 1 tuned its masks towards the unpruned model
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
        require_layers(teacher, self.name)
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
