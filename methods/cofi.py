"""Structured pruning while the model learns, Xia, Zhong and Chen 2022 (ACL, "Structured pruning
learns compact and accurate models").

The paper's: masks of four sizes, each of the hard concrete distribution (Louizos et al. 2018): of
every attention and every feed-forward network as a whole, of every head, of every neuron. A unit is
there if its own mask and its block's are. The share s of the encoder's weights that is expected to
be pruned is led to a target t, which rises linearly, by l1 (s - t) + l2 (s - t)^2, whose factors l1
and l2 ascend (section 3.1). Answers and hidden states are distilled (section 3.2): four of the
teacher's layers, evenly spread, each into that layer of the student that is nearest now, through
one matrix that begins as the identity. Training begins with distillation alone, then prunes; the
pruned model is trained on with the same losses.
As in the authors' code: only layers that have an attention are matched, from the top, in order; a
block that is pruned leaves out its LayerNorm as well; embeddings are held; no loss on the labels;
weights 0.1 and 0.9, T = 2; masks that stay keep their value.
Ours: no masks of hidden dimensions, so the width stays the teacher's; in the end exactly the target
is pruned, the units of lowest chance, where theirs prunes as much as the training arrived at, which
a short one misses; means over real tokens, theirs over padded ones; masks have the schedule, the
weight decay and the clipping of the recipe, theirs a constant rate and none of these; the last
epoch counts, theirs the best one on development examples.
Ours in the second stage, where the pruned model is trained on: the run's batches and a linear
schedule, theirs batches of 64 and a constant rate; and only layers with an attention are matched,
where theirs, which folds the masks into the weights before it, may match every layer.
Teachers of RoBERTa, ELECTRA and MPNet are pruned alike; each head of an MPNet that stays keeps its
row of the bias of relative positions. ModernBERT's LayerNorms stand before its blocks, which leave
the states as they are when they are pruned: no choice of the authors says what becomes of them.
Ours at the beginning: ``whole_until`` of the first stage distils alone. Their script has a number
of epochs for it that their code does not read: it distils alone for 100 steps.
A slip of theirs that is not here: the mask of the layers that have an attention is laid over the
sorted places of their matches, not over the layers (trainer.py, line 619 of commit da855a8).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, cast

import torch
from torch import Tensor, nn
from transformers import PretrainedConfig, PreTrainedModel

from methods.api import Batch, Method, Out, Setup, Stage, Student, Taps, Term
from methods.core import losses
from methods.core.artefacts import Artefact, TeacherWeights
from methods.core.families import attention_names, family_of
from methods.core.models import Around, run_layers
from methods.core.parts import Reach, cut_classifier, nearest_layers, require_layers
from methods.core.pruned import pruned_classifier
from methods.core.settings import Fraction, Limit, Positive
from methods.core.taps import hidden
from methods.core.terms import softened

# the interval that the concrete distribution is stretched to, before it is cut to [0, 1]
STRETCHED = (-0.1, 1.1)
TEMPERATURE = 2 / 3
SOFTER = 0.8  # log alpha of settled masks counts so much
# log alpha at first: of heads and blocks, of neurons
OPEN = 10.0
EVEN = 0.0
BOUND = math.log(100.0)  # log alpha stays within it
# a stretched value is below 0 where the logit of the concrete one is below this
CLOSED = math.log(-STRETCHED[0] / STRETCHED[1])


class Gates(nn.Module):
    """log alpha of the masks, and the two multipliers. Letters: L layers, H heads, F neurons."""

    KINDS: ClassVar = ("heads", "neurons", "attentions", "networks")

    def __init__(self, config: PretrainedConfig, sparsity: float) -> None:
        super().__init__()
        layers = config.num_hidden_layers
        self.sparsity = sparsity
        self.heads = nn.Parameter(torch.normal(OPEN, 0.01, (layers, config.num_attention_heads)))
        self.neurons = nn.Parameter(torch.normal(EVEN, 0.01, (layers, config.intermediate_size)))
        self.attentions = nn.Parameter(torch.normal(OPEN, 0.01, (layers, 1)))
        self.networks = nn.Parameter(torch.normal(OPEN, 0.01, (layers, 1)))
        self.multipliers = nn.Parameter(torch.zeros(2))
        # weights of a head: four matrices of its rows; of a neuron: a column and a row
        self.head_weights = (
            4 * config.hidden_size * config.hidden_size // config.num_attention_heads
        )
        self.neuron_weights = 2 * config.hidden_size
        self.target = 0.0
        self.phase = "whole"  # then "drawn", then "settled"
        # whether a training has begun; kept with the weights
        self.register_buffer("is_begun", torch.tensor(False))
        self.there = [True] * layers  # which layers had an attention in the last pass

    def chances(self) -> list[Tensor]:
        """The probability of each mask of not being 0, in the order of KINDS."""
        return [torch.sigmoid(getattr(self, kind) - TEMPERATURE * CLOSED) for kind in self.KINDS]

    def expected_sparsity(self) -> Tensor:
        """The share of the weights of heads and networks that is expected to be pruned."""
        heads, neurons, attentions, networks = self.chances()
        kept = (attentions * heads).sum() * self.head_weights + (
            networks * neurons
        ).sum() * self.neuron_weights
        return 1 - kept / (
            heads.numel() * self.head_weights + neurons.numel() * self.neuron_weights
        )

    def lagrangian(self) -> Tensor:
        # the multipliers ascend: their gradient is turned round, their value is not
        first, second = 2 * self.multipliers.detach() - self.multipliers
        distance = self.expected_sparsity() - self.target
        return first * distance + second * distance**2

    def drawn(self) -> list[Tensor]:
        """Masks of one batch, in the order of KINDS; gradients flow to log alpha."""
        low, high = STRETCHED
        masks = []
        for kind in self.KINDS:
            log_alpha = getattr(self, kind)
            u = torch.rand(log_alpha.shape, device=log_alpha.device).clamp(1e-6, 1 - 1e-6)
            concrete = torch.sigmoid((torch.logit(u) + log_alpha) / TEMPERATURE)
            masks.append((concrete * (high - low) + low).clamp(0, 1))
        return masks

    @torch.no_grad()
    def settled(self) -> list[Tensor]:
        """The masks after training: units in the order of their chance, their block's included, as
        many as the target leaves."""
        heads, neurons, attentions, networks = self.chances()
        chance_U = torch.cat([(attentions * heads).flatten(), (networks * neurons).flatten()])
        # whole numbers: exact, and a CUDA device has no deterministic cumsum of others
        weights_U = torch.full_like(chance_U, self.neuron_weights, dtype=torch.int64)
        weights_U[: heads.numel()] = self.head_weights
        budget = int(
            (1 - self.sparsity)
            * (heads.numel() * self.head_weights + neurons.numel() * self.neuron_weights)
        )
        order_U = chance_U.argsort(descending=True, stable=True)
        is_kept_U = torch.zeros_like(chance_U, dtype=torch.bool)
        is_kept_U[order_U] = weights_U[order_U].cumsum(0) <= budget
        kept = is_kept_U.split([heads.numel(), neurons.numel()])
        values = [torch.sigmoid(getattr(self, kind) / TEMPERATURE * SOFTER) for kind in self.KINDS]
        units = [value * part.view_as(value) for value, part in zip(values, kept, strict=False)]
        return [*units, *values[2:]]

    @torch.no_grad()
    def evenly(self) -> list[Tensor]:
        """Masks of the target sparsity, alike in each layer: the shape that an untrained
        student is given."""
        masks = []
        for kind in self.KINDS:
            layers, units = getattr(self, kind).shape
            kept = units if units == 1 else max(1, round((1 - self.sparsity) * units))
            masks.append((torch.arange(units, device="cpu") < kept).float().repeat(layers, 1))
        return masks


class Gated(Around):
    """A classifier whose heads, neurons and blocks are multiplied with masks."""

    def __init__(self, whole: PreTrainedModel, gates: Gates) -> None:
        super().__init__(whole)
        self.gates = gates

    def packed_forward(self, batch: Batch, taps: Taps) -> Out:
        gates = self.gates
        if gates.phase == "whole":
            return run_layers(self.whole, batch, taps)
        masks = gates.drawn() if gates.phase == "drawn" and self.training else gates.settled()
        heads, neurons, attentions, networks = masks
        # one wait for the device: which blocks have anything left
        left_2L = torch.stack([(attentions * heads).any(1), (networks * neurons).any(1)]).tolist()
        gates.there = left_2L[0]
        every: Any = self.whole.base_model.encoder.layer
        layers = [
            masked_layer(self.whole, layer, *parts)
            for layer, *parts in zip(
                every, heads, neurons, attentions, networks, *left_2L, strict=True
            )
        ]
        return run_layers(self.whole, batch, taps, layers)  # type: ignore[arg-type]


def masked_layer(
    model: Any,
    layer: Any,
    heads_H: Tensor,
    neurons_F: Tensor,
    attention_1: Tensor,
    network_1: Tensor,
    attends: bool,
    feeds: bool,
) -> Callable[..., Tensor]:
    """A layer of the model with its masks as a function of states [1, T, W]; without attention, or
    network, the states pass."""
    context = family_of(model).context
    names = attention_names(model)
    *_, writing, norm = names.parts(layer)
    dropout = layer.get_submodule(names.dropout)

    def run(x_1TW: Tensor, trace: Any, **options: Any) -> Tensor:
        if attends:
            mixed = context(layer, x_1TW, trace, **options)
            mixed = mixed * heads_H.repeat_interleave(mixed.size(-1) // len(heads_H))
            x_1TW = norm(dropout(writing(mixed) * attention_1) + x_1TW)
        if feeds:
            block = layer.output
            inner = layer.intermediate(x_1TW) * neurons_F
            x_1TW = block.LayerNorm(block.dropout(block.dense(inner) * network_1) + x_1TW)
        return x_1TW

    return run


def nearest(distances: Sequence[Sequence[float]], there: Sequence[bool]) -> list[int]:
    """For each of the teacher's layers, in order, the place of the student's layer nearest to
    it: from the top, each below the one before, of those that are there; where none is left,
    the one before again."""
    last = len(there)
    chosen = []
    for row in reversed(distances):
        below = [place for place in range(last) if there[place]]
        last = min(below, key=row.__getitem__) if below else min(last, len(there) - 1)
        chosen.append(last)
    return chosen[::-1]


@dataclass(frozen=True, kw_only=True)
class CoFi(Method):
    name: ClassVar = "cofi"
    version: ClassVar = 2  # 1 moved the masks while it distilled alone
    terms: ClassVar = ("pred", "layer", "sparsity")
    needs_teacher: ClassVar = True
    tiny_settings: ClassVar = {"whole_until": 0.3}  # few steps prune little before the masks settle
    ablations: ClassVar = {"95 % pruned": ":sparsity=0.95", "w/o L_layer": ":-layer"}
    search_space: ClassVar = {"layer_weight": (0.1, 0.3, 0.5, 0.9)}
    remark: ClassVar = (
        "cofi: without masks of hidden dimensions. Its layers differ in width, which training "
        "decides; until it is trained, plans and "
        "speeds take the same share out of each layer."
    )

    sparsity: Annotated[
        float, Limit(lambda share: 0 < share < 1, "lie between 0 and 1, both excluded")
    ] = 0.6
    """the share of the encoder's weights to prune"""
    layer_weight: Fraction = 0.9  # of the layers' loss; that of the answers has the rest
    temperature: Positive = 2.0
    whole_until: Fraction = 0.05  # share of the pruning stage that distils alone
    ramp: Fraction = 0.2  # share of it in which the target rises
    # the masks' learning rate in those of the weights: 1e-2 beside 2e-5
    gate_pace: Positive = 500.0

    def requires(self, teacher: PretrainedConfig) -> Sequence[Artefact]:
        require_layers(teacher, self.name)
        return (TeacherWeights(tuned=False),)

    def build(self, setup: Setup) -> Student:
        whole = cut_classifier(
            setup, setup.teacher.num_hidden_layers, setup.artefacts["teacher_weights"]
        )
        gates = Gates(setup.teacher, self.sparsity)
        width = setup.teacher.hidden_size
        projection = nn.Linear(width, width)
        nn.init.eye_(projection.weight)
        nn.init.zeros_(projection.bias)
        return Student(
            Gated(whole, gates), nn.ModuleDict({"reach": Reach(gates), "projection": projection})
        )

    def stages(self, setup: Setup) -> Sequence[Stage]:
        layers = setup.teacher.num_hidden_layers
        taught = list(nearest_layers(min(4, layers), layers).values())[1:]
        every = range(1, layers + 1)

        def layer(batch: Batch, student: Out, teacher: Out, aux: nn.ModuleDict) -> Tensor:
            ours = [aux["projection"](student.hidden(m)) for m in every]
            pairs = []
            for n in taught:
                target = teacher.hidden(n)
                pairs.append([losses.hidden_mse_tokenmean(state, target) for state in ours])
            distances = torch.stack([torch.stack(row) for row in pairs]).detach().tolist()
            places = nearest(distances, cast(Any, aux["reach"]).target.there)
            return torch.stack([row[place] for row, place in zip(pairs, places, strict=True)]).sum()

        def sparsity(batch: Batch, student: Out, teacher: Out, aux: nn.ModuleDict) -> Tensor:
            return cast(Tensor, cast(Any, aux["reach"]).target.lagrangian())

        distilled = {
            "pred": softened(self.temperature, 1 - self.layer_weight),
            "layer": Term(
                layer, self.layer_weight, hidden(*every), hidden(*taught), across_batch=True
            ),
        }

        def prune(model: Any, progress: float) -> None:
            gates = model.gates
            gates.is_begun.fill_(True)
            gates.phase = "whole" if progress < self.whole_until else "drawn"
            gates.target = self.sparsity * min(
                1.0, (progress - self.whole_until) / self.ramp if self.ramp else 1.0
            )
            with torch.no_grad():
                if gates.phase == "whole":  # without multipliers the constraint moves no mask
                    gates.multipliers.zero_()
                for kind in Gates.KINDS:
                    getattr(gates, kind).clamp_(-BOUND, BOUND)

        def settle(model: Any, progress: float) -> None:
            model.gates.phase = "settled"

        def rates(of_gates: float) -> Callable[[str], float]:
            return lambda name: (
                of_gates
                if name.startswith("model.gates.")
                else 0.0
                if ".embeddings." in name
                else 1.0
            )

        return (
            Stage(
                "prune",
                distilled | {"sparsity": Term(sparsity)},
                0.5,
                on_step_begin=prune,
                parameter_lr_scale=rates(self.gate_pace),
                paper={"epochs": 20.0, "learning_rate": 2e-5, "warmup": 0.0, "weight_decay": 0.0},
            ),
            Stage(
                "finetune",
                distilled,
                0.5,
                on_step_begin=settle,
                parameter_lr_scale=rates(0.0),
                # theirs is the best of 1e-5, 2e-5 and 3e-5
                paper={"epochs": 20.0, "learning_rate": 2e-5, "warmup": 0.0, "weight_decay": 0.0},
            ),
        )

    def deploy(self, student: Student) -> Mapping[str, nn.Module]:
        """The model without what is pruned; the values of the other masks are in its weights."""
        model: Any = student.model
        gates = model.gates
        whole = model.whole
        is_untrained = gates.is_begun.is_meta or not gates.is_begun
        heads, neurons, attentions, networks = gates.evenly() if is_untrained else gates.settled()
        weights = {name: value.detach() for name, value in whole.state_dict().items()}
        writing = attention_names(whole).writing
        for number in range(len(heads)):
            prefix = f"{whole.base_model_prefix}.encoder.layer.{number}."
            for name, mask in ((writing, attentions), ("output.dense", networks)):
                for kind in ("weight", "bias"):
                    tensor = weights[f"{prefix}{name}.{kind}"]
                    weights[f"{prefix}{name}.{kind}"] = tensor * mask[number].to(tensor.device)
        with torch.random.fork_rng(devices=[]):
            shipped = pruned_classifier(
                whole.config,
                whole.config.num_labels,
                weights,
                (heads * (attentions != 0)),
                (neurons * (networks != 0)),
            )
        return {"": shipped.to(whole.device).train(model.training)}
