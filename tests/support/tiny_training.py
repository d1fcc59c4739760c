"""Students that train on a tiny task, in one process and without a run."""

from __future__ import annotations

import tiny
import torch

from bench.measure.parameters import weights_hash
from bench.plan.scheduled_stages import schedule_stages
from bench.plan.spelling import parse_one
from bench.record.recipe import Recipe
from bench.train.loop import LoopOptions, train_task
from bench.train.numerics import ComputeSettings, RandomState
from bench.train.student_trainer import StudentTrainer
from methods.api import Setup, Student
from methods.core.artefacts import blank_artefacts

RECIPE = Recipe(epochs=3.0, batch_size=8, learning_rate=3e-3, max_length=64)

CPU = torch.device("cpu")


def built(
    method, teacher=None, num_labels: int = 2, seed: int = 0, tasks=("x",)
) -> tuple[Setup, Student]:
    """What a method, or an artefact that trains, is given, with weights that mean nothing in what it asks for; and what it builds."""
    config = teacher or tiny.config(num_labels=num_labels)
    several = "x" if getattr(method, "multitask", False) else ""
    setup = Setup(
        config,
        num_labels,
        tasks,
        blank_artefacts(method.requires(config), config, num_labels, several),
    )
    with RandomState(seed, CPU).current():
        return setup, method.build(setup)


def trainer(
    spelling: str,
    data,
    num_labels: int = 2,
    seed: int = 0,
    recipe: Recipe = RECIPE,
    shape=f"{tiny.SHAPE}:start=random",
) -> StudentTrainer:
    row, random = parse_one(f"{spelling}:{shape}".removesuffix(":")), RandomState(seed, CPU)
    numerics, config = ComputeSettings(), tiny.config(num_labels=num_labels)
    setup = Setup(
        config,
        num_labels,
        ("tiny",),
        blank_artefacts(row.method.requires(config), config, num_labels),
    )
    with random.current():
        student = row.method.build(setup)
    scheduled = schedule_stages(row.method.stages(setup), row.dropped, recipe, len(data))
    made = StudentTrainer(spelling, student, random, *scheduled, numerics)
    made.method = row.method
    return made


def finished(trainers, data, num_labels: int = 2, seed: int = 0):
    train_task(
        trainers,
        data,
        tiny.classifier(num_labels, seed=5).eval(),
        LoopOptions(seed, ComputeSettings(), RECIPE.batch_size),
    )
    for one in trainers:
        if one.error:
            raise one.error
    return [weights_hash(t.method.deploy(t.student)[""]) for t in trainers]
