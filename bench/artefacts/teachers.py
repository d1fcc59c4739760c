"""Teachers: opened, and fine-tuned once for all that learn from them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from transformers import AutoModelForSequenceClassification

from bench.cache import WEIGHTS, keep
from bench.data.checkpoints import Checkpoint, sha256_of
from bench.data.encoding import Encoded
from bench.plan.scheduled_stages import schedule_stages
from bench.plan.tasks import TaskPlan
from bench.train.loop import LoopOptions, OnStep, train_task
from bench.train.numerics import ComputeSettings, RandomState
from bench.train.student_trainer import StudentTrainer
from bench.train.training_state import TrainingStates
from methods.api import Stage, Student
from methods.terms import hard


@dataclass(frozen=True)
class Work:
    """How something is made for the cache: where, who is told how far it is, and where its state is kept."""

    numerics: ComputeSettings
    on_step: OnStep = lambda done, total: None
    say: Callable[[str], Any] = lambda text: None
    training_states: TrainingStates | None = None


def base_model(checkpoint: Checkpoint, num_labels: int) -> Any:
    """The checkpoint as a classifier that reads packed batches; a head it lacks comes from torch's generator."""
    return _opened(checkpoint.folder, num_labels)


def _opened(folder: Path, num_labels: int) -> Any:
    model = AutoModelForSequenceClassification.from_pretrained(folder, num_labels=num_labels)
    model.set_attn_implementation("packed")
    return model


def finetuned_teacher(plan: TaskPlan, seed: int, data: Callable[[], Encoded], work: Work) -> tuple[Any, dict[str, Any]]:
    """The teacher of one task: from the cache, or fine-tuned on the labels now.

    Raises:
        CellError: a guard stopped the training.
    """
    checkpoint, task, recipe, numerics = plan.checkpoint, plan.task, plan.teacher_recipe, work.numerics
    slot = plan.teacher_slot(seed)

    def write(folder: Path) -> dict[str, Any]:
        encoded = data()
        random = RandomState(seed, numerics.device)
        with random.current():
            model = base_model(checkpoint, task.num_labels)
        scheduled = schedule_stages([Stage("finetune", {"hard": hard()})], (), recipe, len(encoded))[1]
        trainer = StudentTrainer(f"teacher of {task.name}", Student(model), random, [], scheduled, numerics)
        train_task(
            [trainer],
            encoded,
            None,
            LoopOptions(seed, numerics, recipe.batch_size, on_step=work.on_step, states=work.training_states),
        )
        if trainer.error:
            raise trainer.error
        if not task.regression:
            model.config.id2label = dict(enumerate(task.labels))
            model.config.label2id = {name: code for code, name in enumerate(task.labels)}
        model.cpu().save_pretrained(folder)
        return {
            "weights": sha256_of(folder / WEIGHTS),
            "train": asdict(trainer.log),
        }

    made = keep(slot, write, say=work.say)
    return _opened(slot.folder, task.num_labels), made
