"""Teachers: opened, and fine-tuned once for all that learn from them.

Of the head that reads every token there are two: of our packed models, and of transformers'
question answering. Each becomes the other.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForQuestionAnswering, AutoModelForSequenceClassification

from bench.cache import WEIGHTS, keep
from bench.data.checkpoints import is_tuned_for, put_in_order, sha256_of
from bench.data.encoding import Encoded
from bench.data.weights_header import not_to_be_drawn
from bench.errors import InputError
from bench.make.output_scale import answers_to, into_training_units
from bench.make.work import Work
from bench.plan.plan import TaskPlan
from bench.plan.scheduled_stages import schedule_stages
from bench.record.code import digest_of
from bench.train.loop import LoopOptions, train_task
from bench.train.numerics import RandomState
from bench.train.student_trainer import StudentTrainer
from bench.train.training_state import TrainingStates
from methods.api import Stage, Student
from methods.core.families import last_layer, read_packed
from methods.core.models import is_packed
from methods.core.terms import hard


def base_model(
    folder: Path, num_labels: int, spans: bool = False, labels: Sequence[str] = ()
) -> Any:
    """The checkpoint in a folder as a classifier that reads packed batches.

    A head that an encoder lacks comes from torch's generator. Its weights are fp32 whatever its
    file has: transformers keeps bf16 and fp16, in which small steps of a training are lost.

    Args:
        spans: whether it answers questions: then a checkpoint that was tuned for that brings its
            head.
        labels: of its task, in whose order a finished classifier is to answer.
    """
    model, seen = AutoModelForSequenceClassification.from_pretrained(
        folder, num_labels=num_labels, dtype=torch.float32, output_loading_info=True
    )
    # the plan has refused it; a random head under a key that does not know of it is never scored
    finished = not spans and is_tuned_for(model.config.architectures, spans=False)
    lacking = not_to_be_drawn(seen["missing_keys"], model.base_model_prefix, finished)
    if lacking:
        raise InputError(f"{folder.name}: its file has no weights for {lacking[0]}")
    if spans and is_tuned_for(model.config.architectures, spans):
        tuned = AutoModelForQuestionAnswering.from_pretrained(folder, dtype=torch.float32)
        take_span_head(model, tuned)
    if labels and not spans:
        put_in_order(model, labels, folder.name)
    if is_packed(model):
        read_packed(model)
    return model


@torch.no_grad()
def take_span_head(model: Any, tuned: Any) -> None:
    """Give a sequence classifier the head of a tuned question-answering model.

    Both have the same encoder. What only reads the first token is 0.
    """
    of_tuned = dict(tuned.named_parameters())
    for name, parameter in model.named_parameters():
        if name not in of_tuned:
            parameter.zero_()
    if "qa_outputs" in dict(tuned.named_children()):  # others have one name for both heads
        last_layer(model.classifier).load_state_dict(tuned.qa_outputs.state_dict())


def as_question_answering(model: Any) -> Any:
    """Transformers' question-answering model with the weights of a packed one.

    Raises:
        InputError: transformers has none of its architecture.
    """
    # an empty model of the same shape, without drawing from torch's own generator
    config = copy.deepcopy(model.config)
    config.architectures = None
    try:
        with torch.random.fork_rng(devices=[]):
            shipped = AutoModelForQuestionAnswering.from_config(config, dtype=model.dtype)
    except ValueError:
        raise InputError(
            f"transformers has no question answering by a {config.model_type}"
        ) from None
    # the same weights: only the head has another name
    span_head = last_layer(model.classifier)
    (head,) = (name for name, part in model.named_modules() if part is span_head)
    weights = model.state_dict()
    renamed = {}
    for name in shipped.state_dict():
        renamed[name] = weights[name.replace("qa_outputs.", f"{head}.", 1)]
    shipped.load_state_dict(renamed)
    return shipped


def tuned_teacher(
    plan: TaskPlan, seed: int, data: Callable[[], Encoded], work: Work
) -> tuple[Any, dict[str, Any]]:
    """The teacher of one task, tuned with this seed, and what is known of how it was made.

    It is given, from the cache, or fine-tuned on the labels now. Where targets are standardised,
    its answers are too.

    Args:
        data: the training rows as they come, encoded.

    Raises:
        CellError: a guard stopped the training.
    """
    task = plan.task
    recipe = plan.teacher_recipe
    checkpoint = plan.checkpoint
    numerics = work.numerics
    progress = work.progress
    if plan.teacher.origin == "given":
        body = {"key": plan.teacher.key, "weights": checkpoint.sha256}
        model = base_model(checkpoint.folder, task.num_labels, task.spans, checkpoint.labels)
        # it answers in the labels' units, its students learn standardised targets
        if plan.scale is not None:
            into_training_units(model, plan.scale, answers_to(data(), numerics))
        return model, body

    # from the cache, or tuned now
    slot = plan.teacher_slot(seed)
    states = TrainingStates(
        [["teacher", slot.key]],
        progress.say,
        code=(digest_of(slot.code),),
        is_stopping=progress.is_stopping,
    )
    title = f"{plan.shown}: teacher {plan.teacher.name}{f', seed {seed}' if seed else ''}"
    with progress.task(title) as on_step:

        def write(folder: Path) -> dict[str, Any]:
            encoded = data()
            random = RandomState(seed, numerics.device)
            with random.current():  # a head that the checkpoint lacks is drawn
                model = base_model(checkpoint.folder, task.num_labels)
            stages = [Stage("finetune", {"hard": hard()})]
            _, scheduled = schedule_stages(stages, (), recipe, len(encoded))
            label = f"teacher of {task.name}"
            trainer = StudentTrainer(label, Student(model), random, [], scheduled, numerics)
            options = LoopOptions(seed, numerics, recipe.batch_size, on_step=on_step, states=states)
            train_task([trainer], encoded, None, options)
            if trainer.error:
                raise trainer.error
            if not task.regression:
                model.config.id2label = dict(enumerate(task.labels))
                model.config.label2id = {name: code for code, name in enumerate(task.labels)}
            model.cpu().save_pretrained(folder)
            return {"weights": sha256_of(folder / WEIGHTS), "train": asdict(trainer.log)}

        body = keep(slot, write, say=progress.say)
    states.clear()
    return base_model(slot.folder, task.num_labels), body
