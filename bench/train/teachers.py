"""Teachers: opened, fine-tuned, asked for what methods compute from them; each made once and cached."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from transformers import AutoModelForSequenceClassification

from bench.data.checkpoints import Checkpoint, sha256_of
from bench.data.encode import Encoded
from bench.data.tasks import Task
from bench.plan.recipe import Recipe
from bench.train.cache import WEIGHTS, Slot, keep
from bench.train.evaluate import predict
from bench.train.halfway import Halfway
from bench.train.legs import legs_of
from bench.train.loop import OnStep, train
from bench.train.numerics import Numerics, RandomState
from bench.train.trainee import Trainee
from methods.api import Batch, Stage, Student
from methods.artefacts import ComputedArtefact
from methods.terms import hard


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
    slot: Slot,
    data: Callable[[], Encoded],
    recipe: Recipe,
    seed: int,
    numerics: Numerics,
    on_step: OnStep,
    halfway: Halfway | None = None,
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
        train([trainee], encoded, seed, None, numerics, recipe.batch_size, on_step, halfway)
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

    made = keep(slot, write)
    return _opened(slot.folder, task.num_labels), made


def from_training(
    wish: ComputedArtefact,
    slot: Slot,
    taught: tuple[nn.Module, Mapping[str, Any]],
    data: Encoded,
    batch_size: int,
    numerics: Numerics,
    on_step: OnStep,
) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """What a method computes once from the tuned teacher and the training examples, in their order.

    Args:
        taught: the teacher, and what is known of how it was made.
    """
    teacher, of_teacher = taught

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

    made = keep(slot, write, {"teacher": of_teacher})
    return load_file(slot.folder / WEIGHTS), made


def ensemble_targets(
    slot: Slot,
    teachers: Sequence[Callable[[], tuple[nn.Module, Mapping[str, Any]]]],
    data: Encoded,
    numerics: Numerics,
) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """The mean class probabilities (of a regression, scores) of some tuned teachers on the training examples.

    Args:
        teachers: each gives a teacher, and what is known of how it was made.
    """
    parts: dict[str, Mapping[str, Any]] = {}

    def write(folder: Path) -> dict[str, Any]:
        begun = time.perf_counter()
        answers = []
        for number, opened in enumerate(teachers):
            teacher, parts[f"teacher {number}"] = opened()
            logits = torch.from_numpy(predict(teacher, data, numerics))
            answers.append(logits if logits.size(1) == 1 else logits.softmax(-1))
        made = {"targets": torch.stack(answers).mean(0), "ids": torch.tensor(list(data.ids))}
        save_file(made, folder / WEIGHTS)
        return {"weights": sha256_of(folder / WEIGHTS), "seconds": round(time.perf_counter() - begun, 3)}

    made = keep(slot, write, parts)
    return load_file(slot.folder / WEIGHTS), made
