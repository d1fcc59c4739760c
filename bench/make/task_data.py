"""What the students of one task learn from: its encoded examples and its tuned teachers.

They are made when first needed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from bench.cache import keep
from bench.data.checkpoints import sha256_of, tokenizer_of
from bench.data.class_weights import balanced
from bench.data.encoding import Encoded, encode
from bench.data.table_files import Split
from bench.data.tasks import BALANCED
from bench.make.augmentation import augmented_rows, relabel_variants
from bench.make.output_scale import answers_to, into_label_units
from bench.make.teacher import tuned_teacher
from bench.make.teacher_check import refuse_permuted_labels
from bench.make.work import MadeArtefact, Work, known
from bench.plan.plan import ArtefactPlan, TaskPlan
from bench.record.recipe import Recipe
from bench.train.best_epoch import SelectionExamples
from bench.train.teacher_outputs import TeacherOutputs, write_outputs

OUTPUTS = "outputs.bin"


@dataclass
class TaskData:
    """The encoded data and the teacher of one task."""

    plan: TaskPlan
    work: Work
    shared_artefact: Callable[[ArtefactPlan], MadeArtefact]
    """makes what all tasks share: augmentation asks the teacher's masked-language head"""
    _is_teacher_checked: bool = False

    @property
    def name(self) -> str:
        return self.plan.name

    def _encoded(self, split: Split, recipe: Recipe | None = None) -> Encoded:
        recipe = recipe or self.plan.recipe
        return encode(
            tokenizer_of(self.plan.checkpoint), split, recipe.max_length, recipe.truncation
        )

    def _weighted(self, examples: Encoded) -> Encoded:
        """Training examples with the weights of their classes, where the recipe has any."""
        labels = self.plan.train.labels
        if self.plan.recipe.class_weights != BALANCED or labels is None:
            return examples
        weights = balanced(labels, self.plan.task.num_labels)
        return replace(examples, class_weights=torch.from_numpy(weights))

    @cached_property
    def given(self) -> Encoded:
        """The training rows as they come: what teachers are tuned on."""
        return self._weighted(self._encoded(self.plan.train, self.plan.teacher_recipe))

    @cached_property
    def train(self) -> Encoded:
        """The training rows of students."""
        if self.plan.augmentation is not None:
            return self.augmentation[0]
        # the teacher's rows where both read as many tokens
        is_alike = self.plan.recipe.max_length == self.plan.teacher_recipe.max_length
        return self.given if is_alike else self._weighted(self._encoded(self.plan.train))

    @cached_property
    def augmentation(self) -> tuple[Encoded, dict[str, Any]]:
        """The training rows and their variants, encoded, and what the record says of them."""
        plan = self.plan
        assert plan.augmentation is not None
        with self.work.progress.task(
            f"{self.plan.shown}: augmentation by {plan.augmentation.kind}"
        ) as on_step:
            rows, origins, body = augmented_rows(plan, self.shared_artefact, self.work, on_step)
        encoded = self._weighted(self._encoded(rows))
        # a word that was moved or hidden may change what a text means: the teacher labels it
        if plan.augmentation.kind == "rules" and encoded.labels is not None:
            relabel_variants(encoded, origins, self.teacher[0], self.work.numerics)
        for_record = known(body, "rows")
        if plan.masked_head is not None and plan.masked_head.text is not None:
            for_record["text"] = plan.masked_head.text.for_record()
        return encoded, for_record

    @cached_property
    def evaluation(self) -> dict[str, Encoded]:
        """The evaluation sets, by name."""
        encoded = {name: self._encoded(split) for name, split in self.plan.evaluation.items()}
        if not self.plan.task.writes:
            return encoded
        # a model that writes is scored by its texts
        decode = partial(
            tokenizer_of(self.plan.checkpoint).decode,
            skip_special_tokens=True,
            clean_up_tokenization_spaces=True,
        )
        return {name: replace(of_set, decode=decode) for name, of_set in encoded.items()}

    @cached_property
    def selection_examples(self) -> SelectionExamples | None:
        """The rows that choose which epoch of a student is shipped."""
        split = self.plan.selection_split
        if split is None or split.labels is None:
            return None
        return self._judging(self._encoded(split), split.labels)

    @cached_property
    def watched_examples(self) -> SelectionExamples | None:
        """The first evaluation set with labels, for a learning curve."""
        # a test split without labels cannot be watched
        for name, encoded in self.evaluation.items():
            if (labels := self.plan.evaluation[name].labels) is not None:
                return self._judging(encoded, labels)
        return None

    def _judging(self, encoded: Encoded, labels: np.ndarray) -> SelectionExamples:
        """Examples that judge a student while it is trained, with labels in its units."""
        scale = self.plan.scale
        if scale is not None:
            labels = scale.standardised(labels)
        return SelectionExamples(self.name, encoded, labels, self.plan.task.metrics[0])

    def in_label_units(self, models: Iterable[nn.Module]) -> None:
        """Let trained models of a regression answer in the units of its labels.

        Models of other tasks stay as they are.

        Raises:
            CellError: the answers of one do not come from a linear head.
        """
        if self.plan.scale is not None:
            answers = answers_to(self.given, self.work.numerics)
            into_label_units(models, self.plan.scale, answers)

    @cached_property
    def teacher(self) -> tuple[nn.Module, dict[str, Any]]:
        """The teacher that students learn from, and what is known of how it was made.

        Where targets are standardised, it answers in their units, not in those of the labels.
        """
        return tuned_teacher(self.plan, self.plan.teacher_seed, lambda: self.given, self.work)

    def refuse_permuted_teacher(self) -> None:
        """Look once at the answers of a tuned teacher from outside.

        Raises:
            InputError: its labels seem to be in another order.
        """
        if not self._is_teacher_checked:
            plan = self.plan
            refuse_permuted_labels(
                self.teacher[0], plan.checkpoint, plan.task, self.given, self.work.numerics
            )
            self._is_teacher_checked = True

    def tuned(self, seed: int) -> tuple[nn.Module, dict[str, Any]]:
        """The teacher that is fine-tuned with this seed; only the students' stays in memory."""
        if seed == self.plan.teacher_seed:
            return self.teacher
        return tuned_teacher(self.plan, seed, lambda: self.given, self.work)

    @cached_property
    def outputs(self) -> tuple[TeacherOutputs, dict[str, Any]]:
        """The outputs of the teacher, to be read, and what is known of their file in the cache.

        The file is there, or computed now in one pass over the training rows.

        Raises:
            CellError: a number of the teacher does not fit into the format.
        """
        plan = self.plan.outputs
        assert plan is not None, "whoever reads outputs is planned with them"
        number_format = plan.number_format

        def write(folder: Path) -> dict[str, Any]:
            teacher, _ = self.teacher
            file = folder / OUTPUTS
            numerics = self.work.numerics
            begun = time.perf_counter()
            title = f"{self.plan.shown}: outputs of the teacher, kept in {number_format}"
            with self.work.progress.task(title) as on_step:
                taps = write_outputs(
                    file, teacher, self.train, plan.taps, number_format, numerics, on_step
                )
            lengths = [len(tokens) for tokens in self.train.tokens]
            return {
                "weights": sha256_of(file),
                "seconds": round(time.perf_counter() - begun, 3),
                "bytes": file.stat().st_size,
                "tokens": sum(lengths),
                "squared_lengths": sum(length**2 for length in lengths),
                "taps": taps,
            }

        # from the cache, or computed now
        if not plan.slot.is_made:
            _ = self.teacher  # it says by itself how far it is
        made_from = {"teacher": self.teacher[1]}
        body = keep(plan.slot, write, made_from, OUTPUTS, self.work.progress.say)
        file = plan.slot.folder / OUTPUTS
        return TeacherOutputs(file, body["taps"], number_format, self.train), body
