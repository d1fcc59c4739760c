"""What the harness makes once and keeps, cached under its key: tuned teachers, general starts, what methods compute."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import torch
from filelock import FileLock
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from transformers import AutoModel, AutoModelForSequenceClassification, BertConfig

from bench.data.checkpoints import Checkpoint, sha256_of
from bench.data.encode import Encoded
from bench.data.tasks import Task
from bench.plan.recipe import Recipe
from bench.train.evaluate import predict
from bench.train.inherit import inherit, observe
from bench.train.loop import Numerics, RandomState, Trainee, TrainLog, legs_of, train
from methods import losses
from methods.api import Batch, FromText, FromTraining, Needs, Setup, Shape, Stage, Student, Term
from methods.parts import bert_config, classifier, nearest_layers, text_tensors
from methods.terms import hard

OnStep = Callable[[int, int], Any]
WEIGHTS = "model.safetensors"
OBSERVED_TOKENS = 16_384
"""Text that a start is fitted on before it is trained."""


def cache_root() -> Path:
    """``BERT_BENCH_CACHE``, or the user's cache folder."""
    given = os.environ.get("BERT_BENCH_CACHE")
    return Path(given) if given else Path.home() / ".cache" / "bert-bench"


def folder_of(kind: str, key: str) -> Path:
    return cache_root() / kind / key[:24]


def is_cached(kind: str, key: str) -> bool:
    return (folder_of(kind, key) / "made.json").is_file()


def keep(kind: str, key: str, write: Callable[[Path], dict[str, Any]]) -> dict[str, Any]:
    """Run ``write`` in a temporary folder and move it into place; other processes wait and find it made."""
    final = folder_of(kind, key)
    final.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(final.with_suffix(".lock")):
        if not (final / "made.json").is_file():
            shutil.rmtree(final, ignore_errors=True)
            with tempfile.TemporaryDirectory(dir=final.parent, prefix=".tmp-") as temporary:
                folder = Path(temporary) / "new"
                folder.mkdir()
                made = {"key": key, **write(folder)}
                (folder / "made.json").write_text(json.dumps(made, indent=1))
                os.replace(folder, final)
        return dict(json.loads((final / "made.json").read_text()))


def base_model(checkpoint: Checkpoint, num_labels: int) -> Any:
    """The checkpoint as a classifier that reads packed batches; a head it lacks comes from torch's generator."""
    return _opened(checkpoint.folder, num_labels)


def own_weights(checkpoint: Checkpoint) -> dict[str, Tensor]:
    """The un-tuned teacher's weights without a head, by name as in its classifier."""
    with torch.random.fork_rng(devices=[]):  # a head that the checkpoint lacks is drawn, and not handed out
        found = base_model(checkpoint, 2).state_dict()
    return {name: value for name, value in found.items() if not name.startswith("classifier.")}


def _opened(folder: Path, num_labels: int) -> Any:
    model = AutoModelForSequenceClassification.from_pretrained(folder, num_labels=num_labels)
    model.set_attn_implementation("packed")
    return model


def finetuned_teacher(
    checkpoint: Checkpoint,
    task: Task,
    key: str,
    data: Callable[[], Encoded],
    recipe: Recipe,
    seed: int,
    numerics: Numerics,
    on_step: OnStep,
) -> tuple[Any, dict[str, Any]]:
    """The teacher of one task: from the cache, or fine-tuned on the labels now.

    Raises:
        CellError: a guard stopped the training.
    """

    def write(folder: Path) -> dict[str, Any]:
        encoded = data()
        random = RandomState(seed, numerics.device)
        with random.current():
            model = base_model(checkpoint, task.num_labels)
        legs = legs_of([Stage("finetune", {"hard": hard()})], (), recipe, len(encoded))[1]
        trainee = Trainee(f"teacher of {task.name}", Student(model), random, [], legs, numerics)
        train([trainee], encoded, seed, None, numerics, recipe.batch_size, on_step)
        if trainee.error:
            raise trainee.error
        if not task.regression:
            model.config.id2label = dict(enumerate(task.labels))
            model.config.label2id = {name: code for code, name in enumerate(task.labels)}
        model.cpu().save_pretrained(folder)
        return {
            "weights": sha256_of(folder / WEIGHTS),
            "train": asdict(trainee.log),
        }

    made = keep("teachers", key, write)
    return _opened(folder_of("teachers", key), task.num_labels), made


def from_training(
    wish: FromTraining,
    key: str,
    teacher: nn.Module,
    data: Encoded,
    batch_size: int,
    numerics: Numerics,
    on_step: OnStep,
) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """What a method computes once from the tuned teacher and the training examples, in their order."""

    def batches() -> Iterator[Batch]:
        starts = range(0, len(data), batch_size)
        for number, start in enumerate(starts, start=1):
            yield data.batch(range(start, min(start + batch_size, len(data))), numerics.device)
            on_step(number, len(starts))

    def write(folder: Path) -> dict[str, Any]:
        begun = time.perf_counter()
        tensors = wish.make(teacher.to(numerics.device).eval(), batches())
        save_file({name: value.detach().cpu().contiguous() for name, value in tensors.items()}, folder / WEIGHTS)
        return {"weights": sha256_of(folder / WEIGHTS), "seconds": round(time.perf_counter() - begun, 3)}

    made = keep("computed", key, write)
    return load_file(folder_of("computed", key) / WEIGHTS), made


def ensemble_targets(
    key: str, teachers: Callable[[], Iterable[nn.Module]], data: Encoded, numerics: Numerics
) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """The mean class probabilities (of a regression, scores) of some tuned teachers on the training examples."""

    def write(folder: Path) -> dict[str, Any]:
        begun = time.perf_counter()
        answers = []
        for teacher in teachers():
            logits = torch.from_numpy(predict(teacher, data, numerics))
            answers.append(logits if logits.size(1) == 1 else logits.softmax(-1))
        made = {"targets": torch.stack(answers).mean(0), "ids": torch.tensor(list(data.ids))}
        save_file(made, folder / WEIGHTS)
        return {"weights": sha256_of(folder / WEIGHTS), "seconds": round(time.perf_counter() - begun, 3)}

    made = keep("computed", key, write)
    return load_file(folder_of("computed", key) / WEIGHTS), made


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
) -> TrainLog:
    """One student through its stages on unlabelled text; text shorter than ``budget`` tokens is seen several times.

    Raises:
        CellError: a guard stopped the training.
    """
    passes = max(1.0, budget / encoded.total_tokens)
    legs = legs_of(stages, (), replace(recipe, epochs=passes), len(encoded))[1]
    trainee = Trainee(label, student, random, [], legs, numerics)
    train([trainee], encoded, 0, teacher.to(numerics.device), numerics, recipe.batch_size, on_step)
    if trainee.error:
        raise trainee.error
    return trainee.log


def general_start(
    checkpoint: Checkpoint,
    shape: Shape,
    key: str,
    data: Callable[[], Encoded],
    recipe: Recipe,
    budget: int,
    numerics: Numerics,
    on_step: OnStep,
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
            student=Needs(hidden=frozenset(layer_map)),
            teacher=Needs(hidden=frozenset(layer_map.values())),
        )
        student = Student(model, nn.ModuleDict({"projection": projection}))
        stages = [Stage("general start", {"hidn": term})]
        label = f"general start {shape}"
        log = _train_on_text(label, student, random, stages, encoded, teacher, recipe, budget, numerics, on_step)
        save_file(_encoder(model, projection), folder / WEIGHTS)
        return {"beginning": _said(cut), "weights": sha256_of(folder / WEIGHTS), "train": asdict(log)}

    made = keep("starts", key, write)
    return load_file(folder_of("starts", key) / WEIGHTS), made


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
    checkpoint: Checkpoint, shape: Shape, key: str, data: Callable[[], Encoded]
) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """The un-tuned teacher cut down to this shape, as a general start begins; nothing is trained."""

    def write(folder: Path) -> dict[str, Any]:
        with RandomState(0, torch.device("cpu")).current():
            model, projection, _, cut = beginning(checkpoint, shape, data(), bert_config(shape, checkpoint.config))
        save_file(_encoder(model, projection), folder / WEIGHTS)
        return {"beginning": _said(cut), "weights": sha256_of(folder / WEIGHTS)}

    made = keep("starts", key, write)
    return load_file(folder_of("starts", key) / WEIGHTS), made


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
    wish: FromText,
    key: str,
    artefacts: Mapping[str, Mapping[str, Tensor]],
    checkpoint: Checkpoint,
    data: Callable[[], Encoded],
    recipe: Recipe,
    budget: int,
    numerics: Numerics,
    on_step: OnStep,
) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """What a method's own general stage leaves: the student's tensors, and those of its aux after ``aux.``."""

    def write(folder: Path) -> dict[str, Any]:
        found = _in_checkpoint(checkpoint, getattr(wish, "in_checkpoint", {}))
        if found:
            save_file(found, folder / WEIGHTS)
            return {"weights": sha256_of(folder / WEIGHTS), "beginning": "the teacher's checkpoint has it"}
        encoded = data()
        random = RandomState(0, numerics.device)
        setup = Setup(checkpoint.config, 2, (), artefacts)
        with random.current():
            student = wish.build(setup)
            teacher = wish.teacher(setup) if hasattr(wish, "teacher") else base_model(checkpoint, 2)
            teacher.eval()
        stages = wish.stages(setup)
        log = _train_on_text(wish.name, student, random, stages, encoded, teacher, recipe, budget, numerics, on_step)
        kept = {name: value.cpu().contiguous() for name, value in text_tensors(student).items()}
        save_file(kept, folder / WEIGHTS)
        return {"weights": sha256_of(folder / WEIGHTS), "train": asdict(log)}

    made = keep("starts", key, write)
    return load_file(folder_of("starts", key) / WEIGHTS), made
