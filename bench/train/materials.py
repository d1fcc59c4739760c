"""What the students of one task are made from: encoded examples, the tuned teacher, and what methods wish for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

from torch import Tensor, nn

from bench.data.checkpoints import given_start, tokenizer_of
from bench.data.encode import Encoded, encode
from bench.plan.students import computed_slot
from bench.plan.tasks import TaskPlan
from bench.progress import Progress
from bench.train.augmentation import augmented_rows, relabelled
from bench.train.choice import Exam
from bench.train.halfway import Halfway
from bench.train.numerics import Numerics
from bench.train.starts import Starts, given_tensors
from bench.train.teachers import base_model, ensemble_targets, finetuned_teacher, from_training, own_weights
from methods.artefacts import (
    Artefact,
    ComputedArtefact,
    EnsembleTargets,
    GeneralDistillation,
    GivenEncoder,
    PretrainingStage,
    TeacherWeights,
    TruncatedTeacher,
)


@dataclass
class Materials:
    """The encoded data and the teacher of one task, made when first needed."""

    task: TaskPlan
    numerics: Numerics
    progress: Progress
    head: Callable[[], tuple[dict[str, Tensor], dict[str, Any]]] = lambda: ({}, {})
    """the un-tuned teacher's masked-language head, for augmentation, and how it was made"""

    @property
    def name(self) -> str:
        return self.task.task.name

    @cached_property
    def tokenizer(self) -> Any:
        return tokenizer_of(self.task.checkpoint)

    @cached_property
    def given(self) -> Encoded:
        """The training rows as they come: what teachers are tuned on."""
        return encode(self.tokenizer, self.task.train, self.task.teacher_recipe.max_length)

    @cached_property
    def train(self) -> Encoded:
        """What students are trained on."""
        if self.task.augmentation is not None:
            return self.augmentation[0]
        length = self.task.recipe.max_length
        if length == self.task.teacher_recipe.max_length:
            return self.given
        return encode(self.tokenizer, self.task.train, length)

    @cached_property
    def augmentation(self) -> tuple[Encoded, dict[str, Any]]:
        """The training rows and their variants, encoded, and what the record says of them."""
        plan = self.task
        assert plan.augmentation is not None
        with self.progress.task(f"{self.name}: augmentation by {plan.augmentation.kind}") as update:
            rows, origins, body = augmented_rows(
                plan.train, plan.augmentation, plan.augmentation_slot, plan.checkpoint, self.head, self.numerics, update
            )
        encoded = encode(self.tokenizer, rows, plan.recipe.max_length)
        if plan.augmentation.kind == "rules" and encoded.labels is not None:
            relabelled(encoded, origins, self.teacher[0], self.numerics)
        return encoded, known(body, "rows")

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
        return self.tuned(0)

    def tuned(self, seed: int) -> tuple[nn.Module, dict[str, Any]]:
        """The teacher that is fine-tuned with this seed, and what is known of how it was made."""
        plan = self.task
        if plan.teacher.origin == "given":
            return base_model(plan.checkpoint, plan.task.num_labels), {
                "key": plan.teacher.key,
                "weights": plan.checkpoint.sha256,
            }
        another = f", seed {seed}" if seed else ""
        slot = plan.teacher_slot(seed)
        halfway = Halfway(
            [["teacher", slot.key]], self.progress.say, code=(slot.code.hash,), is_stopping=self.progress.is_stopping
        )
        with self.progress.task(f"{self.name}: teacher {plan.teacher.name}{another}") as update:
            made = finetuned_teacher(
                plan.checkpoint,
                plan.task,
                slot,
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
            return dict(model.state_dict()), known(made)
        sha256 = self.task.checkpoint.sha256
        return own_weights(self.task.checkpoint), {"key": sha256, "weights": sha256}

    def ensemble(self, wish: EnsembleTargets, key: str) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """The mean answer of so many teachers to the training examples, from the cache or made now."""
        teachers = [partial(self.tuned, seed) for seed in range(wish.members)]
        return ensemble_targets(computed_slot(wish, key, self.name), teachers, self.train, self.numerics)

    def computed(self, wish: ComputedArtefact, key: str) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """What a method wants computed from the tuned teacher and the training examples, from the cache or made now."""
        data = self.train
        if getattr(wish, "rows", "train") == "validation":
            data = next(encoded for encoded in self.evaluation.values() if encoded.labels is not None)
        with self.progress.task(f"{self.name}: {wish.name.replace('_', ' ')}") as update:
            slot = computed_slot(wish, key, self.name)
            return from_training(wish, slot, self.teacher, data, self.task.recipe.batch_size, self.numerics, update)


def known(made: Mapping[str, Any], *further: str) -> dict[str, Any]:
    """For the record: what a thing's key, weights and code are, and other fields where they are there."""
    return {name: made[name] for name in ("key", "weights", "code", *further) if name in made}


def prepared(
    wish: Artefact, key: str, materials: Materials, starts: Starts
) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """The tensors of one wish, and what the record says of them."""
    if isinstance(wish, GeneralDistillation | TruncatedTeacher | PretrainingStage):
        tensors, body = starts.get(key)
        said = known(body, "beginning")
        said["text"] = starts.text_of(key)
        if "train" in body:
            said["train"] = {k: body["train"][k] for k in ("steps", "tokens", "seconds_own")}
        return tensors, said
    if isinstance(wish, GivenEncoder):
        found = given_start(wish.path, wish.shape, materials.task.checkpoint, starts.offline)
        return given_tensors(found), {"key": found.sha256, "weights": found.sha256, "beginning": f"given: {found.name}"}
    if isinstance(wish, TeacherWeights):
        return materials.weights(wish.tuned)
    if isinstance(wish, EnsembleTargets):
        return materials.ensemble(wish, key)
    return materials.computed(wish, key)
