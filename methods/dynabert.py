"""DynaBERT, Hou et al. 2020 (NeurIPS, "DynaBERT: dynamic BERT with adaptive width and depth"): one
training, and a model of every width and depth.

The paper's: the heads and neurons of the tuned teacher are put in the order of their importance,
the first-order estimate of what the loss changes without them, so that a narrow model has the most
important ones of each layer (section 2.1). First the model learns to be narrow: at each width its
logits and hidden states, the embedding output included, learn from the teacher; then to be shallow
too, where of every few layers one is left out (sections 2.1 and 2.2). A deployed model is the
cut-out piece, a usual BERT.
As in the authors' code: soft cross-entropy of the logits, plus 0.1 x the sum over layers of the
mean squared distances of hidden states in the first stage, 1 x in the second; at depth d of N
layers layer floor(i / d) is kept for i = 0, 1, ..., and the states that enter a kept layer, and the
last ones, learn from the teacher's in the same place; numbers of heads and neurons are rounded.
Ours: a step trains one width and depth, drawn at random, where theirs adds up the gradients of all,
at 4 and 12 passes a step; the tuned teacher teaches in both stages, where the paper's second one
learns from the model of the first; importance is that of the first ``examples`` training examples,
one by one (theirs of batches of development examples, with their labels), a neuron's by what it
gives, theirs by its weights before and behind; means over real tokens, theirs over padded ones. The
augmented data of the paper are ``--augment masked``; without them the code's first stage learns
from labels alone, ours from the teacher. No last fine-tuning on labels.
Teachers of RoBERTa, ELECTRA and MPNet are cut alike; each head of an MPNet reads its row of the
bias of relative positions, wherever it is put. ModernBERT's matrices hold queries, keys and values
of all heads, and its layers differ in kind.
Ours too: the last checkpoint counts, theirs the one with the best sum of development scores over
all parts; of a regression (STS-B) the answers learn by squared error, where the code has no loss of
answers at all. A slip of theirs that is not here: gradients are never set to zero while importance
is summed, so each batch counts again with all that follow it.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, cast

import torch
from torch import Tensor, nn
from torch.func import functional_call
from transformers import PretrainedConfig, PreTrainedModel

from methods.api import Batch, Method, MethodError, Out, Setup, Stage, Student, Taps, Term
from methods.core import losses
from methods.core.artefacts import Artefact, ComputedArtefact, TeacherWeights, first_examples
from methods.core.families import (
    FAMILIES,
    SHARED_BIAS,
    AttentionNames,
    Family,
    attention_names,
    family_of,
)
from methods.core.models import Around, run_layers
from methods.core.packed import AttentionTrace
from methods.core.parts import Reach, require_layers, select_layers
from methods.core.pruned import mask_gradients, pruned_classifier, whole_classifier
from methods.core.settings import Count
from methods.core.taps import hidden
from methods.core.terms import soft

WHOLE = 1.0, 1.0
"""Width and depth, shares of the whole model's."""


@dataclass(frozen=True)
class Importance(ComputedArtefact):
    """Of the tuned teacher's ``heads`` [L, H] and ``neurons`` [L, F]: mean over examples of
    |dL/dm|, m a factor 1 of what each gives."""

    name: ClassVar = "importance_of_units"
    examples: int

    def blank(self, teacher: PretrainedConfig, num_labels: int) -> Mapping[str, Tensor]:
        layers = teacher.num_hidden_layers
        units = (teacher.num_attention_heads, teacher.intermediate_size)
        return dict(
            zip(
                ("heads", "neurons"),
                (torch.ones(layers, n, device="cpu") for n in units),
                strict=True,
            )
        )

    def compute(self, teacher: nn.Module, batches: Iterable[Batch]) -> Mapping[str, Tensor]:
        layers = cast(Any, teacher.config).num_hidden_layers
        seen = 0
        parts = []
        for batch in first_examples(batches, self.examples):
            # example by example: in the sum over a batch unlike signs would cancel
            parts.append(
                [
                    gradient_BU.abs().sum(0).double().cpu()
                    for gradient_BU in mask_gradients(teacher, batch)
                ]
            )
            seen += len(batch.example_ids)
        # all heads, then all neurons
        by_layer = [(sum(each) / seen).float() for each in zip(*parts, strict=True)]
        return {"heads": torch.stack(by_layer[:layers]), "neurons": torch.stack(by_layer[layers:])}


def rewired(
    family: str, weights: Mapping[str, Tensor], heads_LH: Tensor, neurons_LF: Tensor
) -> dict[str, Tensor]:
    """The weights of a classifier with the heads and neurons of each layer from the most important
    one down: the same function. Of a ``family`` whose layers share a bias of each head, each layer
    says whose row is each head's."""
    weights = dict(weights)
    names = cast(AttentionNames, FAMILIES[family].attention)
    for number, (heads_H, neurons_F) in enumerate(zip(heads_LH, neurons_LF, strict=True)):
        prefix = f"{family}.encoder.layer.{number}."
        written_WX = weights[f"{prefix}{names.writing}.weight"]
        # where each head's outputs stand in what the writing layer reads
        by_head = torch.arange(written_WX.size(1), device="cpu").view(len(heads_H), -1)
        heads = heads_H.cpu().argsort(descending=True, stable=True)
        rows = by_head[heads].flatten()
        order = neurons_F.cpu().argsort(descending=True, stable=True)
        readers = dict.fromkeys(names.reading, rows) | {"intermediate.dense": order}
        if f"{family}.encoder.{SHARED_BIAS}" in weights:
            weights[f"{prefix}{names.own}.bias_rows"] = heads.to(written_WX.device)
        # rows of the layers that make the units and columns of those that read them move
        # together: so the function stays
        for part, place in readers.items():
            for kind in ("weight", "bias"):
                weights[f"{prefix}{part}.{kind}"] = weights[f"{prefix}{part}.{kind}"][place]
        for part, place in ((names.writing, rows), ("output.dense", order)):
            weights[f"{prefix}{part}.weight"] = weights[f"{prefix}{part}.weight"][:, place]
    return weights


def kept_layers(depth: float, layers: int) -> list[int]:
    """The layers, from 0, that a model of this share of the depth has: 0.75 of 12
    leaves out 3, 7 and 11."""
    return [math.floor(i / depth) for i in range(max(1, round(depth * layers)))]


def units(width: float, config: Any) -> tuple[int, int]:
    """Heads and neurons of a layer at this share of the width."""
    return max(1, round(width * config.num_attention_heads)), max(
        1, round(width * config.intermediate_size)
    )


class Running(nn.Module):
    """A layer as its family runs it: so that its weights can be replaced for one pass, also where
    that is not its own ``forward``."""

    def __init__(self, family: Family, layer: nn.Module) -> None:
        super().__init__()
        self.family = family
        self.layer = layer

    def forward(self, x_1TW: Tensor, trace: AttentionTrace, **options: Any) -> Tensor:
        return self.family.run(self.layer, x_1TW, trace, options)


def narrowed(model: Any, layer: Any, heads: int, neurons: int) -> Callable[..., Tensor]:
    """A layer of the model with its first so many heads and neurons alone, as a function of states
    [1, T, W]; gradients reach the layer."""
    names = attention_names(model)
    rows = heads * layer.get_submodule(names.own).attention_head_size
    first = dict.fromkeys(names.reading, rows) | {"intermediate.dense": neurons}
    columns = {f"{names.writing}.weight": rows, "output.dense.weight": neurons}

    def cut(name: str, weight: Tensor) -> Tensor:
        if name == f"{names.own}.bias_rows":
            return weight[:heads]
        if name in columns:
            return weight[:, : columns[name]]
        # None as an end keeps all: what has the width of the states, like LayerNorms
        return weight[: first.get(name.rpartition(".")[0])]

    # buffers too: each head has to keep its row of a shared bias
    every = [*layer.named_parameters(), *layer.named_buffers()]
    weights = {f"layer.{name}": cut(name, weight) for name, weight in every}
    running = Running(family_of(model), layer)
    return lambda x_1TW, trace, **options: functional_call(
        running, weights, (x_1TW, trace), options
    )


class Adaptive(Around):
    """A classifier that trains as one of its parts at a time: ``parts`` are their widths and
    depths, ``part`` that of the last pass."""

    def __init__(self, whole: PreTrainedModel) -> None:
        super().__init__(whole)
        self.parts = [WHOLE]
        self.part = WHOLE

    def packed_forward(self, batch: Batch, taps: Taps) -> Out:
        """A layer that is left out passes its states on, so that layers have the same
        numbers at every depth."""
        # a part drawn for this pass; in evaluation the whole
        self.part = (
            self.parts[int(torch.randint(len(self.parts), (), device="cpu"))]
            if self.training
            else WHOLE
        )
        width, depth = self.part
        every: Any = self.whole.base_model.encoder.layer
        kept = kept_layers(depth, len(every))
        layers = [
            narrowed(self.whole, layer, *units(width, self.config))
            if number in kept
            else (lambda x_1TW, trace, **options: x_1TW)
            for number, layer in enumerate(every)
        ]
        return run_layers(self.whole, batch, taps, layers)  # type: ignore[arg-type]


@dataclass(frozen=True, kw_only=True)
class DynaBERT(Method):
    name: ClassVar = "dynabert"
    version: ClassVar = 1
    terms: ClassVar = ("pred", "hidn")
    ablations: ClassVar = {"w/o L_hidn": ":-hidn"}
    needs_teacher: ClassVar = True
    same_init_across_seeds: ClassVar = True
    remark: ClassVar = (
        "dynabert: width= is the share of each layer's heads and neurons, depth= that of the "
        "layers. All are cut out of one training; the row without them is whole."
    )

    widths: str = "0.25/0.5/0.75"  # beside 1, separated by slashes
    depths: str = "0.5/0.75"
    examples: Count = 2048  # of which importance is computed

    def __post_init__(self) -> None:
        super().__post_init__()
        self.parts()

    def parts(self) -> list[tuple[float, float]]:
        """Widths and depths, the whole first."""
        shares = []
        for name, text in (("widths", self.widths), ("depths", self.depths)):
            try:
                values = [float(part) for part in text.split("/")]
            except ValueError:
                values = [0.0]
            if not all(0 < value < 1 for value in values):
                raise MethodError(
                    f"{name}={text} should be numbers between 0 and 1, between slashes, like "
                    "0.25/0.5"
                )
            shares.append([1.0, *sorted(set(values), reverse=True)])
        return [(width, depth) for depth in shares[1] for width in shares[0]]

    def requires(self, teacher: PretrainedConfig) -> Sequence[Artefact]:
        require_layers(teacher, self.name)
        return (TeacherWeights(tuned=True), Importance(self.examples))

    def build(self, setup: Setup) -> Student:
        importance = setup.artefacts[Importance.name]
        weights = rewired(
            setup.teacher.model_type,
            setup.artefacts["tuned_teacher"],
            importance["heads"],
            importance["neurons"],
        )
        model = Adaptive(whole_classifier(setup, weights))
        return Student(model, nn.ModuleDict({"reach": Reach(model)}))

    def stages(self, setup: Setup) -> Sequence[Stage]:
        layers = setup.teacher.num_hidden_layers

        def hidn(batch: Batch, student: Out, teacher: Out, aux: nn.ModuleDict) -> Tensor:
            _, depth = cast(Any, aux["reach"]).target.part
            # layers count from 0, and states from the embeddings, 0: state n enters layer n
            places = [*kept_layers(depth, layers), layers]
            return torch.stack(
                [losses.hidden_mse_tokenmean(student.hidden(n), teacher.hidden(n)) for n in places]
            ).sum()

        def stage(name: str, parts: list[tuple[float, float]], weight: float) -> Stage:
            def begin(model: Any, progress: float) -> None:
                model.parts = parts

            taps = hidden(*range(layers + 1))
            terms = {
                "pred": soft(losses.soft_cross_entropy_batchmean),
                "hidn": Term(hidn, weight, taps, taps),
            }
            paper = {"epochs": 3.0, "learning_rate": 2e-5, "warmup": 0.0, "weight_decay": 0.0}
            return Stage(name, terms, 0.5, on_step_begin=begin, paper=paper)

        parts = self.parts()
        return (
            stage("width", [part for part in parts if part[1] == 1], 0.1),
            stage("depth", parts, 1.0),
        )

    def deploy(self, student: Student) -> Mapping[str, nn.Module]:
        """A model for each width and depth, the whole one first."""
        model: Any = student.model
        weights = {name: value.detach() for name, value in model.whole.state_dict().items()}
        deployed = {}
        device = model.whole.device
        # shapes alone still have masks of numbers
        place = "cpu" if device.type == "meta" else device
        for width, depth in self.parts():
            kept = kept_layers(depth, model.config.num_hidden_layers)
            config = copy.deepcopy(model.config)
            config.num_hidden_layers = len(kept)
            # units stand in the order of their importance: the first ones stay
            masks = [
                (torch.arange(size, device=place) < count).float().repeat(len(kept), 1)
                for count, size in zip(
                    units(width, config),
                    (config.num_attention_heads, config.intermediate_size),
                    strict=True,
                )
            ]
            cut = select_layers(weights, [number + 1 for number in kept])
            # the weights that a new model draws are all replaced: the generator goes on as before
            with torch.random.fork_rng(devices=[]):
                shipped = pruned_classifier(config, config.num_labels, cut, *masks)
            point = "" if (width, depth) == WHOLE else f"width={width:g} depth={depth:g}"
            deployed[point] = shipped.to(device).train(model.training)
        return deployed
