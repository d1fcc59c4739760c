"""Hugging Face Trainer: a subclass with ``compute_loss``, driven by its own ``train``.

A callback tells of each step at ``on_step_end``, so a step has everything that the Trainer does between two of them:
fetching and padding a batch, the pass of the teacher, forward, backward, clipping, the optimiser, its schedule and its
callbacks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from padded import OUTPUTS, Padded, Rows, loader_of, objective, padded_batch, padded_models
from torch import Tensor, nn
from transformers import PrinterCallback, Trainer, TrainerCallback, TrainingArguments
from transformers.trainer_pt_utils import LengthGroupedSampler
from work import BATCH, Work


class _Telling(TrainerCallback):
    def __init__(self, on_step: Callable[[], None]) -> None:
        self._on_step = on_step

    def on_step_end(self, *_: Any, **__: Any) -> None:
        self._on_step()


class _Distilling(Trainer):
    """The Trainer with the objective, and the batches of the work in their order."""

    def __init__(
        self, models: Padded, work: Work, batches: Sequence[Sequence[int]], args: TrainingArguments
    ) -> None:
        learned = nn.ModuleDict({"student": models.student, "projection": models.projection})
        super().__init__(
            model=learned, args=args, train_dataset=Rows(work.data), data_collator=padded_batch
        )
        self.models, self.work, self.batches = models, work, batches

    def get_train_dataloader(self) -> Any:
        return self.accelerator.prepare(loader_of(self.work, self.batches))

    def compute_loss(self, model: Any, inputs: dict[str, Tensor], *_: Any, **__: Any) -> Tensor:
        with torch.no_grad():
            theirs = self.models.teacher(**inputs, **OUTPUTS)
        ours = model["student"](**inputs, **OUTPUTS)
        return objective(self.models, ours, theirs, inputs["attention_mask"])


def train(work: Work, on_step: Callable[[], None]) -> float:
    """The work's batches."""
    return _train(work, on_step, work.batches)


def train_by_length(work: Work, on_step: Callable[[], None]) -> float:
    """The batches of the Trainer's option ``group_by_length``, by its own sampler."""
    lengths = [len(row) for row in work.data.tokens]
    batches: list[list[int]] = []
    for epoch in range(work.epochs):
        generator = torch.Generator().manual_seed(work.seed * 1000 + epoch)
        order = list(LengthGroupedSampler(BATCH, lengths=lengths, generator=generator))
        batches += [order[i : i + BATCH] for i in range(0, len(order), BATCH)]
    return _train(work, on_step, batches)


def _train(work: Work, on_step: Callable[[], None], batches: Sequence[Sequence[int]]) -> float:
    recipe = work.recipe
    args = TrainingArguments(
        output_dir=str(work.folder / "trainer"),
        max_steps=len(batches),
        per_device_train_batch_size=BATCH,
        learning_rate=recipe.learning_rate,
        weight_decay=recipe.weight_decay,
        warmup_steps=round(recipe.warmup * len(batches)),
        max_grad_norm=recipe.clip,
        optim="adamw_torch_fused",
        report_to=[],
        logging_strategy="no",
        logging_nan_inf_filter=False,  # it would look at the loss after each step
        save_strategy="no",
        disable_tqdm=True,
        use_cpu=True,
        dataloader_pin_memory=False,
        remove_unused_columns=False,
        seed=work.seed,
    )
    trainer = _Distilling(padded_models(work), work, batches, args)
    trainer.remove_callback(PrinterCallback)
    trainer.add_callback(_Telling(on_step))
    return float(trainer.train().training_loss)
