"""MoEBERT, Zuo et al. 2022 (NAACL): every feed-forward block of the fine-tuned teacher becomes
routed experts; table 1.

The paper's: neurons ranked by importance |w1.dL/dw1 + w2.dL/dw2| summed over examples (equation 5);
the top ones go to every expert, the rest is dealt round-robin; each expert has its own dropout,
LayerNorm and residual; tokens are routed by a random hash of their id (``routing=hash``); layer and
prediction losses weighted lambda beside the labels' loss. 12 x 768 x 3072 gives four experts of 768
neurons, 512 of them shared.
Ours, with the code's as a setting: importance from training examples
(``importance_rows=validation``); shared neurons are one set of weights
(``shared=copies``); the teacher in evaluation mode (``teacher_dropout=true``); no [PAD]
positions in any mean (``padding=512``, of MNLI and QQP 128). The routing table is a saved
buffer (there it comes from the global generator and is not in the checkpoint); lambda = 1
for all tasks (the paper searches 1 to 5).
The code's other routings: ``balanced`` deals the tokens of the training examples by their
frequency, each to the expert that has had the fewest; ``token`` and ``sentence`` have a linear gate
without bias in each layer, over a token's state after attention or over the mean of its sequence's
(without [PAD]), the likeliest expert, whose output is multiplied with its probability; ``balance=``
is the weight of their balancing loss, summed over layers (ours: a gate begins as BERT's layers do;
the greedy tables of ``balanced`` differ between layers only in the order of equals, and unseen
tokens are dealt at random). With one sentence in a batch the code of ``sentence`` leaves the gate's
probability out; ours always multiplies with it.
Teachers of RoBERTa, ELECTRA and MPNet have their own networks dealt in the same way. ModernBERT's
networks are gated: a neuron is two rows of one matrix there, and equation 5 does not say what it is
worth.

Importance is summed over the first ``importance_examples`` examples alone, 2,048 of them, in
their order, where the code takes all examples of its set. Variants made by augmentation count too:
with 20 variants of each example the first 2,048 hold some 98 that are not variants.
``importance_rows=validation`` has the same limit, and reads the first evaluation set only (of mnli
the matched one; the code sums over both). Weight decay is 0.01 by every recipe, also by ``--recipe
paper``, which takes epochs, rate and the missing warm-up from the paper's appendix B; its table 7
has a decay of 0 for MRPC and QQP and for all other tasks of GLUE but RTE. Its batches (8 to 64),
its lengths (512 for all but MNLI and QQP) and its lambdas are left out too: those of the run are
shared by all rows. ``methods/experiments/moebert.toml`` has all of these numbers, task by task.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar, Literal, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers import (
    BertConfig,
    BertForQuestionAnswering,
    BertForSequenceClassification,
    PretrainedConfig,
)
from transformers.activations import ACT2FN

from methods.api import (
    Batch,
    Method,
    MethodError,
    Out,
    Setup,
    Stage,
    Student,
    Tap,
    Taps,
    Term,
    UndeclaredNeed,
)
from methods.core import losses
from methods.core.artefacts import Artefact, ComputedArtefact, TeacherWeights, first_examples
from methods.core.models import Cost, PackedModel, RoutedModule, label_gradients
from methods.core.parts import (
    Padding,
    check_padding,
    in_every_family,
    load_checked,
    own_classifier,
    require_layers,
    under,
)
from methods.core.settings import NOT_NEGATIVE, Count, added_setting
from methods.core.taps import gates, hidden, layers_of
from methods.core.terms import HIDDEN, hard, layerwise, plain, soft


@dataclass(frozen=True)
class NeuronImportance(ComputedArtefact):
    """Importance of every feed-forward neuron of the tuned teacher, from the first examples it is
    given: ``layer.<i>``, [F]."""

    name: ClassVar = "neuron_importance"
    examples: int
    rows: str = "train"

    @property
    def settings(self) -> Mapping[str, Any]:
        return {"examples": self.examples} | ({"rows": self.rows} if self.rows != "train" else {})

    def blank(self, teacher: PretrainedConfig, num_labels: int) -> Mapping[str, Tensor]:
        return {
            f"layer.{i}": torch.zeros(teacher.intermediate_size)
            for i in range(1, teacher.num_hidden_layers + 1)
        }

    def compute(self, teacher: nn.Module, batches: Iterable[Batch]) -> Mapping[str, Tensor]:
        """Sum of |w1_j . dL/dw1_j + w2_j . dL/dw2_j| over the first ``examples`` rows, biases
        ignored (section 3.2).

        For a linear layer, w . dL/dw of one example is the sum over its tokens of (output -
        bias) x gradient of the output, and likewise input x gradient of the input: no pass
        per example is needed.
        """
        layers: Any = cast(Any, teacher).base_model.encoder.layer
        totals: dict[str, Tensor] = {}
        for batch in first_examples(batches, self.examples):
            # by layer what each neuron adds up to, and then what it hands on
            modules = [
                *(layer.intermediate.dense for layer in layers),
                *(layer.intermediate for layer in layers),
            ]
            both = list(label_gradients(teacher, batch, modules))
            pairs = zip(both[: len(layers)], both[len(layers) :], strict=True)
            for i, ((read_TF, to_read_TF), (written_TF, to_written_TF)) in enumerate(
                pairs, start=1
            ):
                bias_F = layers[i - 1].intermediate.dense.bias.detach()
                by_token_TF = (read_TF - bias_F) * to_read_TF + written_TF * to_written_TF
                name = f"layer.{i}"
                # absolute value of each example's own sum, added up over the examples
                totals[name] = totals.get(name, torch.zeros(())) + batch.layout.sum(
                    by_token_TF
                ).abs().sum(0)
        return totals


@dataclass(frozen=True)
class TokenCounts(ComputedArtefact):
    """How often each token id stands in the training examples, [V]."""

    name: ClassVar = "token_counts"

    def blank(self, teacher: PretrainedConfig, num_labels: int) -> Mapping[str, Tensor]:
        return {"counts": torch.zeros(teacher.vocab_size, dtype=torch.int64)}

    def compute(self, teacher: nn.Module, batches: Iterable[Batch]) -> Mapping[str, Tensor]:
        size = cast(Any, teacher).config.vocab_size
        counts_V = torch.zeros(size, dtype=torch.int64)
        for batch in batches:
            counts_V += torch.bincount(batch.token_ids.cpu(), minlength=size)
        return {"counts": counts_V}


def balanced_routes(counts_V: Tensor, experts: int) -> Tensor:
    """[V] experts: the most frequent tokens first, each to the expert that has had the fewest; ties
    and unseen tokens at random."""
    # unseen tokens keep this draw
    route_V = torch.randint(experts, counts_V.shape)
    # shuffled, then sorted stably: tokens of one frequency stand in random order
    order_V = torch.randperm(len(counts_V))
    order_V = order_V[counts_V[order_V].argsort(descending=True, stable=True)]
    # tokens dealt so far, a random place that decides between equals, the expert
    heap = [(0, place, expert) for place, expert in enumerate(torch.randperm(experts).tolist())]
    for token in order_V[: int((counts_V > 0).sum())].tolist():
        count, place, expert = heap[0]
        route_V[token] = expert
        heapq.heapreplace(heap, (count + int(counts_V[token]), place, expert))
    return route_V


class MoEBertConfig(BertConfig):
    """A BERT whose feed-forward blocks are experts; sizes in neurons."""

    model_type = "moebert"
    experts: int = 4
    expert_size: int = 768
    shared_size: int = 512
    gate: str = ""
    """``token`` or ``sentence``; "" where a table of token ids routes"""


class Experts(RoutedModule):
    """One layer's feed-forward block: shared neurons for all tokens, own neurons for an
    expert's tokens. Stands in the place of a BERT layer's ``output``; which expert a token
    meets is looked up by its id."""

    def __init__(self, config: MoEBertConfig, seen: TokensSeen) -> None:
        super().__init__()
        width = config.hidden_size
        own = config.expert_size - config.shared_size
        self.count = config.experts
        self.eps = config.layer_norm_eps
        self.activation = ACT2FN[config.hidden_act]
        # in a list, so that it is not a part of every layer
        self._seen = [seen]
        self._number = len(seen.layers)
        seen.layers.append(self)
        self.shared_in: nn.Linear | None = None
        if config.shared_size:
            self.shared_in = nn.Linear(width, config.shared_size)
            self.shared_out = nn.Linear(config.shared_size, width, bias=False)
        self.own_in = nn.Parameter(
            torch.empty(config.experts, own, width).normal_(std=config.initializer_range)
        )
        self.own_in_bias = nn.Parameter(torch.zeros(config.experts, own))
        self.own_out = nn.Parameter(
            torch.empty(config.experts, width, own).normal_(std=config.initializer_range)
        )
        self.out_bias = nn.Parameter(torch.zeros(config.experts, width))
        self.LayerNorm_weight = nn.Parameter(torch.ones(config.experts, width))
        self.LayerNorm_bias = nn.Parameter(torch.zeros(config.experts, width))
        self.dropout = nn.Dropout(config.hidden_dropout_prob)
        self.load = [0] * config.experts
        self.gate_EW: nn.Parameter | None = None
        self.of_sentences = config.gate == "sentence"
        self.gates_NE: Tensor | None = None
        """the gate's logits in the running forward pass"""
        if config.gate:
            self.gate_EW = nn.Parameter(
                torch.empty(config.experts, width).normal_(std=config.initializer_range)
            )
        else:
            self.register_buffer("route_V", torch.randint(config.experts, (config.vocab_size,)))

    @property
    def macs_per_token(self) -> int:  # type: ignore[override]
        """Of one expert's own neurons, and of a gate of tokens; the shared neurons are linear
        layers and counted as such."""
        gate = 0 if self.gate_EW is None or self.of_sentences else self.gate_EW.numel()
        return 2 * self.own_in[0].numel() + gate

    @property
    def inactive_parameters(self) -> int:  # type: ignore[override]
        routed = (
            self.own_in,
            self.own_in_bias,
            self.own_out,
            self.out_bias,
            self.LayerNorm_weight,
            self.LayerNorm_bias,
        )
        return (self.count - 1) * sum(p[0].numel() for p in routed)

    def forward(self, unused: Tensor, x_BTW: Tensor) -> Tensor:
        """[..., W] states after attention -> [..., W]; tokens in the order of the
        ids last embedded."""
        x_NW = x_BTW.reshape(-1, x_BTW.size(-1))
        # the tokens of each expert: by the table of ids, or the one that the gate likes best
        if self.gate_EW is None:
            rows_E, back_N, counts = (of_layers[self._number] for of_layers in self._seen[0].routes)
        else:
            if self.of_sentences:
                means_SW, owner_N = self._seen[0].sentence_means(x_NW)
                self.gates_NE = F.linear(means_SW, self.gate_EW)[owner_N]
            else:
                self.gates_NE = F.linear(x_NW, self.gate_EW)
            rows_E, back_N, counts = (
                of_layers[0] for of_layers in ways(self.gates_NE.argmax(-1)[None], self.count)
            )
        if not self.training:
            self.load = [sum(pair) for pair in zip(self.load, counts, strict=True)]
        # what all tokens meet: computed once, before they are parted
        inner = self.shared_in
        shared_NW = (
            torch.zeros_like(x_NW)
            if inner is None
            else self.shared_out(self.activation(inner(x_NW)))
        )
        # own neurons, dropout, residual and LayerNorm of each expert, on its tokens alone
        pieces = []
        for e, rows in enumerate(rows_E):
            x_RW = x_NW[rows]
            own_RW = F.linear(
                self.activation(F.linear(x_RW, self.own_in[e], self.own_in_bias[e])),
                self.own_out[e],
            )
            out_RW = self.dropout(shared_NW[rows] + own_RW + self.out_bias[e])
            norm = (
                self.LayerNorm_weight.shape[1:],
                self.LayerNorm_weight[e],
                self.LayerNorm_bias[e],
                self.eps,
            )
            pieces.append(F.layer_norm(out_RW + x_RW, *norm))
        out_NW = torch.cat(pieces)[back_N]  # back in the order of the tokens
        # the choice itself has no gradient: by this factor losses on states and answers reach it
        if self.gates_NE is not None:
            out_NW = out_NW * self.gates_NE.softmax(-1).amax(-1, keepdim=True)
        return out_NW.view_as(x_BTW)


def ways(
    expert_LN: Tensor, experts: int
) -> tuple[Sequence[Sequence[Tensor]], Sequence[Tensor], list[list[int]]]:
    """Of each layer the tokens of each expert, the way back from there, and how many each has."""
    # a graph looks for the tokens itself: its sizes are open, and it counts none
    if torch.onnx.is_in_onnx_export():
        rows_LE = []
        for expert_N in expert_LN.unbind():
            rows_LE.append([(expert_N == e).nonzero()[:, 0] for e in range(experts)])
        return (
            rows_LE,
            [torch.cat(rows).argsort() for rows in rows_LE],
            [[0] * experts] * len(rows_LE),
        )
    # sorted by expert, tokens of one expert lie together: one split finds them all
    order_LN = torch.argsort(expert_LN, stable=True)
    counts_LE = torch.stack([(expert_LN == e).sum(1) for e in range(experts)], 1).tolist()
    rows_LE = [order_N.split(counts) for order_N, counts in zip(order_LN, counts_LE, strict=True)]
    return rows_LE, torch.argsort(order_LN).unbind(), counts_LE


class TokensSeen:
    """The ways of the running forward pass's tokens through every layer, by their ids: all at once,
    because an accelerator is waited for to know how many each expert has. It is itself the hook of
    the embeddings that sees the ids: so a deep copy of a model has one of its own."""

    def __init__(self, pad: int = 0) -> None:
        self.layers: list[Experts] = []
        self.pad = pad
        self.ids: Any = None
        self.positions: Any = None
        self.routes: Any = ()  # what `ways` gives of all layers

    def __call__(self, embeddings: nn.Module, args: Any, kwargs: Any) -> None:
        ids = kwargs["input_ids"] if "input_ids" in kwargs else args[0]
        self.ids = ids
        self.positions = kwargs.get("position_ids")
        if self.layers[0].gate_EW is None:
            ids_N = ids.reshape(-1)
            routes = [layer.route_V[ids_N] for layer in self.layers]  # type: ignore[index]
            expert_LN = torch.stack(routes)
            self.routes = ways(expert_LN, self.layers[0].count)

    def sentence_means(self, x_NW: Tensor) -> tuple[Tensor, Tensor]:
        """[S, W] means of the sequences' states, without those of [PAD], and [N] whose each token
        is. Packed sequences begin where positions do."""
        real_N1 = (self.ids.reshape(-1, 1) != self.pad).to(x_NW.dtype)
        parts = torch.cat([x_NW * real_N1, real_N1], 1)
        if self.positions is not None and len(self.ids) == 1:
            positions_N = self.positions.reshape(-1)
            # some families number from behind the position of [PAD]
            owner_N = (positions_N == positions_N[0]).cumsum(0) - 1
            sums = parts.new_zeros(int(owner_N[-1]) + 1, parts.size(1)).index_add(0, owner_N, parts)
        else:
            places = torch.arange(self.ids.size(0), device=x_NW.device)[:, None] + torch.zeros_like(
                self.ids
            )
            owner_N = places.reshape(-1)
            sums = parts.view(*self.ids.shape, -1).sum(1)
        return sums[:, :-1] / sums[:, -1:], owner_N


class WithExperts(nn.Module):
    """Every layer of the body has experts in the place of its feed-forward network; a mix-in, named
    first."""

    base_model: Any

    def __init__(self, config: MoEBertConfig) -> None:
        super().__init__(config)
        seen = TokensSeen(config.pad_token_id or 0)
        for layer in self.base_model.encoder.layer:
            layer.intermediate = nn.Identity()
            layer.output = Experts(config, seen)
        self.base_model.embeddings.register_forward_pre_hook(seen, with_kwargs=True)


class PackedExperts(WithExperts, PackedModel):
    """How a classifier with experts runs packed, and what it says of them."""

    config: Any

    def packed_forward(self, batch: Batch, taps: Taps) -> Out:
        gated = layers_of(taps, "gates")
        others = frozenset(tap for tap in taps if tap.kind != "gates")
        # the pass goes as far as the last gate
        out = super().packed_forward(batch, others | hidden(*gated))
        experts: Any = [layer.output for layer in self.base_model.encoder.layer]
        if gated and experts[0].gate_EW is None:
            raise UndeclaredNeed("these experts have no gate: their tokens are routed by a table")
        read = {tap: out[tap] for tap in others} | {
            Tap("gates", m): experts[m - 1].gates_NE for m in gated
        }
        for each in experts:
            each.gates_NE = None  # a copy of the model would copy the pass
        return Out(batch.layout, read)

    def cost(self) -> Cost:
        own = super().cost()
        layers = self.base_model.encoder.layer
        if self.config.gate != "sentence":
            return own
        return replace(
            own,
            per_sequence=own.per_sequence + sum(layer.output.gate_EW.numel() for layer in layers),
        )

    def observed(self) -> dict[str, Any]:
        """How the tokens answered so far were routed: shares of each layer's experts, entropy,
        experts never met."""
        layers: Any = self.base_model.encoder.layer
        loads = []
        entropies = []
        dead = 0
        for layer in layers:
            met = max(1, sum(layer.output.load))
            shares = [count / met for count in layer.output.load]
            entropy = -sum(share * math.log(share) for share in shares if share > 0)
            loads.append([round(share, 6) for share in shares])
            entropies.append(round(entropy / math.log(max(2, len(shares))), 6))
            dead += shares.count(0)
        return {"load of experts": loads, "load entropy": entropies, "dead experts": dead}


@in_every_family
class MoEBertForQuestionAnswering(WithExperts, BertForQuestionAnswering):
    """The same body with the head that the folder of a student of questions has."""

    config_class = MoEBertConfig


@in_every_family
class MoEBertForSequenceClassification(PackedExperts, BertForSequenceClassification):
    """A classifier with experts in every layer; saves and loads like any other."""

    config_class = MoEBertConfig


@dataclass(frozen=True, kw_only=True)
class MoEBERT(Method):
    name: ClassVar = "moebert"
    version: ClassVar = 1
    terms: ClassVar = ("layer", "pred", "hard", "balance")
    ablations: ClassVar = {
        "w/o distillation": ":-layer:-pred",
        "random neurons": ":importance=random",
    }
    needs_teacher: ClassVar = True
    spans: ClassVar = True
    search_space: ClassVar = {"distil_weight": (1.0, 2.0, 3.0, 4.0, 5.0)}

    experts: Count = 4
    expert_size: Annotated[int, NOT_NEGATIVE] = 0
    """Neurons of one expert; 0: the teacher's divided by the number of experts."""
    # of these, neurons that all experts share; -1: a sixth of the teacher's, 512 of 3072
    shared_size: int = -1
    importance: Literal["gradient", "random"] = "gradient"
    importance_examples: Count = 2048
    """So many examples, the first ones, give the importance; with augmentation variants count."""
    importance_rows: Literal["train", "validation"] = added_setting("train")
    """``validation``: as the released pipeline, whose choice of neurons sees the development set
    and its labels; here the first ``importance_examples`` examples of the first evaluation set."""
    shared: Literal["one", "copies"] = added_setting("one")
    """``copies``: every expert has its own copy of the important neurons, which drift
    apart, as in the code."""
    # whether the teacher's dropout is on, as in the code
    teacher_dropout: bool = added_setting(False)
    padding: Padding = added_setting(0)
    """512 (the code's; 128 for MNLI and QQP): every sequence is filled with [PAD], and the layers'
    losses average over it."""
    distil_weight: float = 1.0  # the paper's lambda
    routing: Literal["hash", "balanced", "token", "sentence"] = added_setting("hash")
    """Who decides which expert a token meets: tables of token ids, or a gate in each layer
    that reads states."""
    # weight of the gates' balancing loss
    balance: Annotated[float, NOT_NEGATIVE] = added_setting(0.0)

    @property
    def gate(self) -> str:
        return self.routing if self.routing in ("token", "sentence") else ""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.balance and not self.gate:
            raise MethodError("balance= is a loss of gates: add routing=token or routing=sentence")
        if self.shared_size < -1:
            raise MethodError(f"shared_size={self.shared_size} should not be below -1")

    def sizes(self, teacher: PretrainedConfig) -> tuple[int, int]:
        """Neurons of one expert, and how many of them are shared. Raises MethodError: the teacher's
        layers are of another form; an expert has no shared neurons, or none of its own; the experts
        would need more neurons than the teacher has."""
        require_layers(teacher, self.name)
        neurons = teacher.intermediate_size
        size = self.expert_size or neurons // self.experts
        shared = neurons // 6 if self.shared_size < 0 else self.shared_size
        if not 0 < shared < size:
            raise MethodError(
                f"shared_size={shared} should be at least 1 and below expert_size={size}"
            )
        if (needed := shared + self.experts * (size - shared)) > neurons:
            wanted = (
                f"{self.experts} experts of {size} neurons, {shared} of them shared, need "
                f"{needed} neurons"
            )
            raise MethodError(f"{wanted}; the teacher has {neurons}: choose a smaller expert_size")
        return size, shared

    def requires(self, teacher: PretrainedConfig) -> Sequence[Artefact]:
        self.sizes(teacher)
        check_padding(self.padding, teacher)
        ranking = NeuronImportance(self.importance_examples, self.importance_rows)
        counts = [TokenCounts()] if self.routing == "balanced" else []
        return (
            TeacherWeights(tuned=True),
            *([ranking] if self.importance == "gradient" else []),
            *counts,
        )

    def notes(self, setup: Setup) -> Sequence[str]:
        decay = (
            "weight decay is 0.01, unless the row sets another one; table 7 of the paper has 0 for "
            "every GLUE task in it except RTE"
        )
        if self.importance == "random":
            return (decay,)
        rows = {
            "train": "the training data, where variants of augmented rows count",
            "validation": (
                "the first development set with its labels, as in the released pipeline (there on "
                "all rows): it leaks"
            ),
        }
        first = f"the first {self.importance_examples:,} rows of {rows[self.importance_rows]}"
        return (f"neurons were chosen on {first}", decay)

    def build(self, setup: Setup) -> Student:
        size, shared = self.sizes(setup.teacher)
        # with copies, the important neurons are among each expert's own
        sizes = {
            "experts": self.experts,
            "expert_size": size,
            "shared_size": 0 if self.shared == "copies" else shared,
        }
        model = own_classifier(
            MoEBertConfig, setup.teacher, setup.num_labels, gate=self.gate, **sizes
        )
        weights = setup.artefacts["tuned_teacher"]
        # all but the feed-forward networks is the teacher's as it is; the attention has an
        # output.dense and a LayerNorm too, which stay
        block = tuple(
            f".{part}." for part in ("intermediate.dense", "output.dense", "output.LayerNorm")
        )
        plain = {}
        for name, weight in weights.items():
            if ".attention." in name or not any(part in name for part in block):
                plain[name] = weight
        load_checked(model, plain, "the teacher", new=("",))
        # the neurons of each feed-forward network, dealt to its experts by their importance
        for number, layer in enumerate(model.base_model.encoder.layer, start=1):
            prefix = f"{model.base_model_prefix}.encoder.layer.{number - 1}."
            if self.importance == "gradient":
                importance_F = setup.artefacts["neuron_importance"][f"layer.{number}"]
                ranked = torch.argsort(importance_F, descending=True, stable=True)
            else:
                ranked = torch.randperm(setup.teacher.intermediate_size)
            experts: Any = layer.output
            fill(experts, under(prefix, weights), ranked, shared)
            if self.routing == "balanced" and not experts.route_V.is_meta:
                experts.route_V.copy_(
                    balanced_routes(setup.artefacts["token_counts"]["counts"], self.experts)
                )
        return Student(model)

    def balancing(self, layers: int) -> Term:
        """Over the tokens of the batch, or over its sequences, whose tokens have one gate;
        summed over layers."""

        def balance(batch: Batch, student: Out, teacher: Out, aux: nn.ModuleDict) -> Tensor:
            each = [student.gates(m) for m in range(1, layers + 1)]
            if self.gate == "sentence":
                each = [batch.layout.first(gates_TE) for gates_TE in each]
            return torch.stack([losses.load_balance(gates_NE) for gates_NE in each]).sum()

        return Term(balance, self.balance, gates(*range(1, layers + 1)), across_batch=True)

    def stages(self, setup: Setup) -> Sequence[Stage]:
        same = {m: m for m in range(setup.teacher.num_hidden_layers + 1)}  # 0: the embedding output
        layers = layerwise(HIDDEN, same, plain(losses.hidden_mse_tokenmean), self.distil_weight)
        terms = {
            "layer": layers,
            "pred": soft(losses.symmetric_kl_batchmean, self.distil_weight),
            "hard": hard(),
        }
        if self.gate and self.balance:
            terms["balance"] = self.balancing(setup.teacher.num_hidden_layers)
        # Of table 7's lines for MRPC and QQP; their weight decay of 0 is not taken over, nor
        # batches and lambdas.
        paper = {"epochs": 5.0, "learning_rate": 3e-5, "warmup": 0.0}
        return (
            Stage(
                "distil",
                terms,
                teacher_dropout=self.teacher_dropout,
                padding=self.padding,
                paper=paper,
            ),
        )


@torch.no_grad()
def fill(experts: Experts, ffn: Mapping[str, Tensor], ranked: Tensor, shared: int) -> None:
    """Deal the teacher's neurons, most important first: the top ones to all, the others one
    expert after another."""
    own = experts.own_in.size(1)
    # the most important ones: one set of weights that all experts read, or copies in each
    top = ranked[:shared]
    copied = top if experts.shared_in is None else top[:0]
    if experts.shared_in is not None:
        experts.shared_in.weight.copy_(ffn["intermediate.dense.weight"][top])
        experts.shared_in.bias.copy_(ffn["intermediate.dense.bias"][top])
        experts.shared_out.weight.copy_(ffn["output.dense.weight"][:, top])
    # with n experts each gets every n-th of the rest, so that all are about equally good
    for e in range(experts.count):
        mine = torch.cat([copied, ranked[shared + e :: experts.count][: own - len(copied)]])
        experts.own_in[e].copy_(ffn["intermediate.dense.weight"][mine])
        experts.own_in_bias[e].copy_(ffn["intermediate.dense.bias"][mine])
        experts.own_out[e].copy_(ffn["output.dense.weight"][:, mine])
        experts.out_bias[e].copy_(ffn["output.dense.bias"])
        experts.LayerNorm_weight[e].copy_(ffn["output.LayerNorm.weight"])
        experts.LayerNorm_bias[e].copy_(ffn["output.LayerNorm.bias"])
