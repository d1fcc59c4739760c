"""Starts: general stages on unlabelled text and given encoders, loaded, or trained when first wanted, and cached."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from transformers import AutoModel, BertConfig

from bench.data.checkpoints import Checkpoint, sha256_of, tokenizer_of
from bench.data.encode import Encoded, pieces
from bench.plan.recipe import Recipe
from bench.plan.starts import StartPlan
from bench.progress import Progress
from bench.train.cache import WEIGHTS, Slot, keep
from bench.train.halfway import Halfway
from bench.train.inherit import inherit, observe
from bench.train.legs import legs_of
from bench.train.loop import OnStep, train
from bench.train.numerics import Numerics, RandomState
from bench.train.teachers import base_model, own_weights
from bench.train.trainee import Trainee, TrainLog
from methods import losses
from methods.api import Setup, Shape, Stage, Student, Term
from methods.artefacts import GeneralDistillation, PretrainingStage, TruncatedTeacher
from methods.parts import bert_config, classifier, nearest_layers, text_tensors
from methods.taps import hidden

OBSERVED_TOKENS = 16_384
"""Text that a start is fitted on before it is trained."""


class Starts:
    """What a plan wants from unlabelled text, by key."""

    def __init__(
        self, plans: dict[str, StartPlan], numerics: Numerics, progress: Progress, offline: bool = False
    ) -> None:
        self.plans, self.numerics, self.progress, self.offline = plans, numerics, progress, offline
        self.made: dict[str, tuple[dict[str, Tensor], dict[str, Any]]] = {}

    def get(self, key: str) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """The tensors, and what is known of how they were made.

        Raises:
            CellError: a guard stopped the training.
        """
        if key not in self.made:
            start = self.plans[key]
            parts = {name: self._part(start, part) for name, part in start.parts.items()}
            with self.progress.task(f"{start.title} from {start.corpus.name}") as update:
                self.made[key] = self._make(start, parts, update)
        return self.made[key]

    @property
    def _head(self) -> str:
        return next(key for key, start in self.plans.items() if start.is_teacher_head)

    def masked_head(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """The un-tuned teacher's masked-language head, which the plan has wished for, and how it was made."""
        return self.get(self._head)

    def text_of(self, key: str = "") -> dict[str, Any]:
        """For a record: the files, and how many tokens of them, that a start is made from; without a key, the masked head's."""
        plan = self.plans[key or self._head]
        return {"files": list(plan.corpus.files), "tokens": plan.budget}

    def _part(self, start: StartPlan, key: str) -> tuple[dict[str, Tensor], dict[str, Any]]:
        if key in self.plans:
            return self.get(key)
        return own_weights(start.checkpoint), {"key": key, "weights": key}

    def _make(
        self, start: StartPlan, parts: Mapping[str, tuple[dict[str, Tensor], dict[str, Any]]], update: Any
    ) -> Any:
        wish = start.wish

        def text() -> Encoded:
            tokenizer = tokenizer_of(start.checkpoint)
            return pieces(tokenizer, start.corpus.documents, start.recipe.max_length, start.budget)

        if isinstance(wish, TruncatedTeacher):
            return cut_teacher(start.checkpoint, wish.shape, start.slot, text)
        weights = {name: body.get("weights") for name, (_, body) in parts.items()}
        halfway = Halfway(
            [["start", start.key, weights]],
            self.progress.say,
            code=(start.code.hash,),
            is_stopping=self.progress.is_stopping,
        )
        common = (text, start.recipe, start.budget, self.numerics, update, halfway)
        if isinstance(wish, PretrainingStage):
            made = from_text(wish, start.slot, parts, start.checkpoint, *common)
        else:
            made = general_start(start.checkpoint, wish.shape, start.slot, *common)
        halfway.clear()
        return made


def beginning(
    checkpoint: Checkpoint, shape: Shape, encoded: Encoded, config: BertConfig
) -> tuple[Any, nn.Linear, Any, bool]:
    """A student of this shape as the teacher cut down, its projection, the un-tuned teacher, and whether it fitted."""
    model = classifier(config)
    projection = nn.Linear(shape.hidden, checkpoint.width)
    teacher = base_model(checkpoint, 2).eval()
    cut = checkpoint.config.model_type == "bert" and inherit(
        teacher, model, projection, observe(teacher, encoded.first(OBSERVED_TOKENS))
    )
    return model, projection, teacher, cut


def _said(cut: bool) -> str:
    return "the cut-down teacher" if cut else "random weights: the shape does not fit into the teacher's"


def _encoder(model: Any, projection: nn.Linear) -> dict[str, Tensor]:
    """The tensors of a start: the encoder without its pooler, and the way up to the teacher's width."""
    encoder = {
        name: value.detach().cpu().contiguous()
        for name, value in model.bert.state_dict().items()
        if not name.startswith("pooler.")
    }
    encoder["projection.weight"] = projection.weight.detach().cpu().contiguous()
    encoder["projection.bias"] = projection.bias.detach().cpu().contiguous()
    return encoder


def _train_on_text(
    label: str,
    student: Student,
    random: RandomState,
    stages: Sequence[Stage],
    encoded: Encoded,
    teacher: Any,
    recipe: Recipe,
    budget: int,
    numerics: Numerics,
    on_step: OnStep,
    halfway: Halfway | None = None,
) -> TrainLog:
    """One student through its stages on unlabelled text; text shorter than ``budget`` tokens is seen several times.

    Raises:
        CellError: a guard stopped the training.
    """
    passes = max(1.0, budget / encoded.total_tokens)
    legs = legs_of(stages, (), replace(recipe, epochs=passes), len(encoded))[1]
    trainee = Trainee(label, student, random, [], legs, numerics)
    train([trainee], encoded, 0, teacher.to(numerics.device), numerics, recipe.batch_size, on_step, halfway)
    if trainee.error:
        raise trainee.error
    return trainee.log


def general_start(
    checkpoint: Checkpoint,
    shape: Shape,
    slot: Slot,
    data: Callable[[], Encoded],
    recipe: Recipe,
    budget: int,
    numerics: Numerics,
    on_step: OnStep,
    halfway: Halfway | None = None,
) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Encoder weights of this shape that imitate the un-tuned teacher's hidden states on unlabelled text.

    Embedding and every layer, through one learned projection, against the nearest teacher layers (TinyBERT's
    hidden loss, the part of its general stage that needs no attention of equal head count). It begins
    as a cut-down teacher where the shapes allow (bench.train.inherit).
    """

    def write(folder: Path) -> dict[str, Any]:
        encoded = data()
        random = RandomState(0, numerics.device)
        layer_map = nearest_layers(shape.layers, checkpoint.config.num_hidden_layers)

        def imitate(batch: Any, student: Any, teacher: Any, aux: nn.ModuleDict) -> Tensor:
            parts = [
                losses.hidden_mse_tokenmean(aux["projection"](student.hidden(m)), teacher.hidden(n))
                for m, n in layer_map.items()
            ]
            return torch.stack(parts).sum()

        with random.current():
            config = bert_config(shape, checkpoint.config)
            config.hidden_dropout_prob = config.attention_probs_dropout_prob = 0.0  # a regression on plenty of text
            model, projection, teacher, cut = beginning(checkpoint, shape, encoded, config)
        term = Term(
            imitate,
            student=hidden(*layer_map),
            teacher=hidden(*layer_map.values()),
        )
        student = Student(model, nn.ModuleDict({"projection": projection}))
        stages = [Stage("general start", {"hidn": term}, paper=GeneralDistillation.paper)]
        label = f"general start {shape}"
        log = _train_on_text(
            label, student, random, stages, encoded, teacher, recipe, budget, numerics, on_step, halfway
        )
        save_file(_encoder(model, projection), folder / WEIGHTS)
        return {"beginning": _said(cut), "weights": sha256_of(folder / WEIGHTS), "train": asdict(log)}

    made = keep(slot, write)
    return load_file(slot.folder / WEIGHTS), made


def given_tensors(found: Checkpoint) -> dict[str, Tensor]:
    """The encoder of somebody's checkpoint without its pooler, and TinyBERT's ``fit_dense`` as the projection.

    Read through transformers, which knows the older names of LayerNorm's weights.
    """
    model: Any = AutoModel.from_pretrained(found.folder, add_pooling_layer=False)
    made = {name: value.detach().contiguous() for name, value in model.state_dict().items()}
    with safe_open(found.folder / WEIGHTS, framework="pt") as file:
        if {"fit_dense.weight", "fit_dense.bias"} <= set(file.keys()):
            made["projection.weight"] = file.get_tensor("fit_dense.weight")
            made["projection.bias"] = file.get_tensor("fit_dense.bias")
    return made


def cut_teacher(
    checkpoint: Checkpoint, shape: Shape, slot: Slot, data: Callable[[], Encoded]
) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """The un-tuned teacher cut down to this shape, as a general start begins; nothing is trained."""

    def write(folder: Path) -> dict[str, Any]:
        with RandomState(0, torch.device("cpu")).current():
            model, projection, _, cut = beginning(checkpoint, shape, data(), bert_config(shape, checkpoint.config))
        save_file(_encoder(model, projection), folder / WEIGHTS)
        return {"beginning": _said(cut), "weights": sha256_of(folder / WEIGHTS)}

    made = keep(slot, write)
    return load_file(slot.folder / WEIGHTS), made


def _in_checkpoint(checkpoint: Checkpoint, wanted: Mapping[str, Sequence[str]]) -> dict[str, Tensor]:
    """Tensors that a checkpoint's file has beside its encoder, under our names; nothing if one of them is missing."""
    found = {}
    with safe_open(checkpoint.folder / WEIGHTS, framework="pt") as file:
        there = set(file.keys())
        for ours, theirs in wanted.items():
            name = next((name for name in theirs if name in there), None)
            if name is None:
                return {}
            found[ours] = file.get_tensor(name)
    return found


def from_text(
    wish: PretrainingStage,
    slot: Slot,
    parts: Mapping[str, tuple[Mapping[str, Tensor], Mapping[str, Any]]],
    checkpoint: Checkpoint,
    data: Callable[[], Encoded],
    recipe: Recipe,
    budget: int,
    numerics: Numerics,
    on_step: OnStep,
    halfway: Halfway | None = None,
) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """What a method's own general stage leaves: the student's tensors, and those of its aux after ``aux.``.

    Args:
        parts: what it is built from by name, and what is known of how that was made.
    """

    def write(folder: Path) -> dict[str, Any]:
        found = _in_checkpoint(checkpoint, getattr(wish, "in_checkpoint", {}))
        if found:
            save_file(found, folder / WEIGHTS)
            return {"weights": sha256_of(folder / WEIGHTS), "beginning": "the teacher's checkpoint has it"}
        encoded = data()
        random = RandomState(0, numerics.device)
        setup = Setup(checkpoint.config, 2, (), {name: tensors for name, (tensors, _) in parts.items()})
        with random.current():
            student = wish.build(setup)
            teacher = wish.teacher(setup) if hasattr(wish, "teacher") else base_model(checkpoint, 2)
            teacher.eval()
        stages = wish.stages(setup)
        log = _train_on_text(
            wish.name, student, random, stages, encoded, teacher, recipe, budget, numerics, on_step, halfway
        )
        kept = {name: value.cpu().contiguous() for name, value in text_tensors(student).items()}
        save_file(kept, folder / WEIGHTS)
        return {"weights": sha256_of(folder / WEIGHTS), "train": asdict(log)}

    made = keep(slot, write, {name: body for name, (_, body) in parts.items()})
    return load_file(slot.folder / WEIGHTS), made
