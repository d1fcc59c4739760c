"""What the students of one task are made from: encoded examples, the tuned teacher, and what methods wish for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from bench.data.checkpoints import given_start, tokenizer_of
from bench.data.encode import Encoded, encode
from bench.plan.tasks import TaskPlan
from bench.progress import Progress
from bench.train.augmentation import augmented_rows
from bench.train.choice import Exam
from bench.train.evaluate import predict
from bench.train.halfway import Halfway
from bench.train.numerics import Numerics
from bench.train.starts import Starts, given_tensors
from bench.train.teachers import base_model, ensemble_targets, finetuned_teacher, from_training, own_weights
from methods.api import (
    CutTeacher,
    EnsembleTargets,
    FromText,
    FromTraining,
    GeneralStart,
    GivenStart,
    TeacherWeights,
    Wish,
)


@dataclass
class Materials:
    """The encoded data and the teacher of one task, made when first needed."""

    task: TaskPlan
    numerics: Numerics
    progress: Progress
    head: Callable[[], dict[str, Tensor]] = dict
    """the un-tuned teacher's masked-language head, for augmentation"""

    @property
    def name(self) -> str:
        return self.task.task.name

    @cached_property
    def tokenizer(self) -> Any:
        return tokenizer_of(self.task.checkpoint)

    @cached_property
    def given(self) -> Encoded:
        """The training rows as they come: what teachers are tuned on."""
        return encode(self.tokenizer, self.task.train, self.task.recipe.max_length)

    @cached_property
    def train(self) -> Encoded:
        """What students are trained on."""
        return self.given if self.task.augmentation is None else self.augmentation[0]

    @cached_property
    def augmentation(self) -> tuple[Encoded, dict[str, Any]]:
        """The training rows and their variants, encoded, and what the record says of them."""
        plan = self.task
        assert plan.augmentation is not None
        with self.progress.task(f"{self.name}: augmentation by {plan.augmentation.kind}") as update:
            rows, origins, body = augmented_rows(
                plan.train, plan.augmentation, plan.data.train, plan.checkpoint, self.head, self.numerics, update
            )
        encoded = encode(self.tokenizer, rows, plan.recipe.max_length)
        if plan.augmentation.kind == "rules" and encoded.labels is not None:
            # a variant may mean something else than its origin: the tuned teacher says what
            new = np.flatnonzero(np.diff(origins, prepend=-1) == 0)
            answers = torch.from_numpy(predict(self.teacher[0], encoded, self.numerics))
            labels = answers[:, 0] if plan.task.regression else answers.argmax(1)
            encoded.labels[new] = labels[new].to(encoded.labels.dtype)
        return encoded, {name: body[name] for name in ("key", "weights", "rows")}

    @cached_property
    def evaluation(self) -> dict[str, Encoded]:
        return {
            name: encode(self.tokenizer, split, self.task.recipe.max_length)
            for name, split in self.task.evaluation.items()
        }

    @cached_property
    def exam(self) -> Exam | None:
        """The rows that choose which epoch of a student is shipped."""
        split = self.task.choosing
        if split is None or split.labels is None:
            return None
        encoded = encode(self.tokenizer, split, self.task.recipe.max_length)
        return Exam(self.task.task.name, encoded, split.labels, self.task.task.metrics[0])

    @cached_property
    def teacher(self) -> tuple[nn.Module, dict[str, Any]]:
        return self._tuned(0)

    def _tuned(self, seed: int) -> tuple[nn.Module, dict[str, Any]]:
        plan = self.task
        if plan.teacher.origin == "given":
            return base_model(plan.checkpoint, plan.task.num_labels), {
                "key": plan.teacher.key,
                "weights": plan.checkpoint.sha256,
            }
        another = f", seed {seed}" if seed else ""
        halfway = Halfway(["teacher", plan.teacher_key(seed)], self.progress.say)
        with self.progress.task(f"{self.name}: teacher {plan.teacher.name}{another}") as update:
            made = finetuned_teacher(
                plan.checkpoint,
                plan.task,
                plan.teacher_key(seed),
                lambda: self.given,
                plan.teacher_recipe,
                seed,
                self.numerics,
                update,
                halfway,
            )
        halfway.clear()
        return made

    def weights(self, tuned: bool) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """The teacher's own weights, for students made of them."""
        if tuned:
            model, made = self.teacher
            return dict(model.state_dict()), {"key": made["key"], "weights": made["weights"]}
        sha256 = self.task.checkpoint.sha256
        return own_weights(self.task.checkpoint), {"key": sha256, "weights": sha256}

    def ensemble(self, members: int, key: str) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """The mean answer of so many teachers to the training examples, from the cache or made now."""
        return ensemble_targets(
            key, lambda: (self._tuned(seed)[0] for seed in range(members)), self.train, self.numerics
        )

    def computed(self, wish: FromTraining, key: str) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """What a method wants computed from the tuned teacher and the training examples, from the cache or made now."""
        data = self.train
        if getattr(wish, "rows", "train") == "validation":
            data = next(encoded for encoded in self.evaluation.values() if encoded.labels is not None)
        with self.progress.task(f"{self.name}: {wish.name.replace('_', ' ')}") as update:
            return from_training(wish, key, self.teacher[0], data, self.task.recipe.batch_size, self.numerics, update)


def prepared(wish: Wish, key: str, materials: Materials, starts: Starts) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """The tensors of one wish, and what the record says of them."""
    if isinstance(wish, GeneralStart | CutTeacher | FromText):
        tensors, body = starts.get(key)
        said: dict[str, Any] = {k: body[k] for k in ("key", "weights", "beginning") if k in body}
        said["text"] = starts.text_of(key)
        if "train" in body:
            said["train"] = {k: body["train"][k] for k in ("steps", "tokens", "seconds_own")}
        return tensors, said
    if isinstance(wish, GivenStart):
        found = given_start(wish.path, wish.shape, materials.task.checkpoint, starts.offline)
        return given_tensors(found), {"key": found.sha256, "weights": found.sha256, "beginning": f"given: {found.name}"}
    if isinstance(wish, TeacherWeights):
        return materials.weights(wish.tuned)
    if isinstance(wish, EnsembleTargets):
        return materials.ensemble(wish.members, key)
    return materials.computed(wish, key)
