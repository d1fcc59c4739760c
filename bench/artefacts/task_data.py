"""What the students of one task learn from: its encoded examples and its tuned teachers, made when first needed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from torch import nn

from bench.artefacts.augmented_rows import Head, augmented_rows, relabel_variants
from bench.artefacts.teachers import Work, base_model, finetuned_teacher
from bench.data.checkpoints import tokenizer_of
from bench.data.encoding import Encoded, encode
from bench.plan.tasks import TaskPlan
from bench.progress import Progress
from bench.record.code import digest_of
from bench.train.best_epoch import SelectionExamples
from bench.train.numerics import ComputeSettings
from bench.train.training_state import TrainingStates


@dataclass
class TaskData:
    """The encoded data and the teacher of one task, made when first needed."""

    plan: TaskPlan
    numerics: ComputeSettings
    progress: Progress
    masked_head: Callable[[TaskPlan], Head] = lambda task: ({}, {}, {})

    @property
    def name(self) -> str:
        return self.plan.task.name

    @cached_property
    def tokenizer(self) -> Any:
        return tokenizer_of(self.plan.checkpoint)

    @cached_property
    def given(self) -> Encoded:
        """The training rows as they come: what teachers are tuned on."""
        return encode(self.tokenizer, self.plan.train, self.plan.teacher_recipe.max_length)

    @cached_property
    def train(self) -> Encoded:
        """What students are trained on."""
        if self.plan.augmentation is not None:
            return self.augmentation[0]
        length = self.plan.recipe.max_length
        if length == self.plan.teacher_recipe.max_length:
            return self.given
        return encode(self.tokenizer, self.plan.train, length)

    @cached_property
    def augmentation(self) -> tuple[Encoded, dict[str, Any]]:
        """The training rows and their variants, encoded, and what the record says of them."""
        plan = self.plan
        assert plan.augmentation is not None
        with self.progress.task(f"{self.name}: augmentation by {plan.augmentation.kind}") as update:
            work = Work(self.numerics, update, self.progress.say)
            rows, origins, body = augmented_rows(plan, self._head, work)
        encoded = encode(self.tokenizer, rows, plan.recipe.max_length)
        if plan.augmentation.kind == "rules" and encoded.labels is not None:
            relabel_variants(encoded, origins, self.teacher[0], self.numerics)
        text = {"text": self._head()[2]} if plan.masked_head else {}
        return encoded, {**known(body, "rows"), **text}

    def _head(self) -> Head:
        return self.masked_head(self.plan)

    @cached_property
    def evaluation(self) -> dict[str, Encoded]:
        return {
            name: encode(self.tokenizer, split, self.plan.recipe.max_length)
            for name, split in self.plan.evaluation.items()
        }

    @cached_property
    def selection_examples(self) -> SelectionExamples | None:
        """The rows that choose which epoch of a student is shipped."""
        split = self.plan.selection_split
        if split is None or split.labels is None:
            return None
        encoded = encode(self.tokenizer, split, self.plan.recipe.max_length)
        return SelectionExamples(self.plan.task.name, encoded, split.labels, self.plan.task.metrics[0])

    @cached_property
    def teacher(self) -> tuple[nn.Module, dict[str, Any]]:
        return self._tuned(0)

    def tuned(self, seed: int) -> tuple[nn.Module, dict[str, Any]]:
        """The teacher that is fine-tuned with this seed, and what is known of how it was made; only that of seed 0 stays."""
        return self._tuned(seed) if seed else self.teacher

    def _tuned(self, seed: int) -> tuple[nn.Module, dict[str, Any]]:
        plan = self.plan
        if plan.teacher.origin == "given":
            return base_model(plan.checkpoint, plan.task.num_labels), {
                "key": plan.teacher.key,
                "weights": plan.checkpoint.sha256,
            }
        another = f", seed {seed}" if seed else ""
        slot = plan.teacher_slot(seed)
        training_states = TrainingStates(
            [["teacher", slot.key]],
            self.progress.say,
            code=(digest_of(slot.code),),
            is_stopping=self.progress.is_stopping,
        )
        with self.progress.task(f"{self.name}: teacher {plan.teacher.name}{another}") as update:
            work = Work(self.numerics, update, self.progress.say, training_states)
            made = finetuned_teacher(plan, seed, lambda: self.given, work)
        training_states.clear()
        return made


def known(made: Mapping[str, Any], *further: str) -> dict[str, Any]:
    """For the record: what a thing's key, weights and code are, and other fields where they are there."""
    return {name: made[name] for name in ("key", "weights", "code", *further) if name in made}
