"""Students and teachers without training: built from configurations alone, with weights that
mean nothing."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, NamedTuple

import torch
from torch import nn

from bench.data.checkpoints import Checkpoint, config_from_name
from bench.errors import InputError
from bench.measure.sizes import LENGTH, counts, sizes, sizes_by_formula
from bench.plan.plan import ArtefactPlan
from bench.plan.spelling import MethodRow, drop_unusable, parse_methods
from bench.record.cell import TEACHER
from bench.record.schema import Sizes
from methods.api import Setup, Student
from methods.core.artefacts import blank_artefacts
from methods.core.models import Cost, cost, linear_macs, without_graph

TASK = "x"
"""Name of the one task that an untrained student knows."""
LABELS = 2
"""Labels of the models whose time and memory a plan estimates. Their heads have as many labels as a
task, but one more label is 768 weights of millions: no figure of a plan would change, and every
student would be built for each number of labels."""


@contextmanager
def shapes_only() -> Iterator[None]:
    """Models that are built in here lie on the meta device: no memory is allocated, no random
    number drawn.

    Linear layers are not asked for their first weights either: that is half of the time in which
    BERT is built.
    """
    drawn = nn.Linear.reset_parameters
    nn.Linear.reset_parameters = lambda self: None  # type: ignore[assignment,method-assign]
    try:
        with torch.random.fork_rng(devices=[]), torch.device("meta"):
            yield
    finally:
        nn.Linear.reset_parameters = drawn  # type: ignore[method-assign]


def untrained(
    method: Any, teacher: Any, num_labels: int = 2, device: str = "cpu"
) -> dict[str, Any]:
    """Operating point -> deployed model of a method, with weights that mean nothing.

    Args:
        device: ``meta`` for shapes only: nothing is allocated, nothing can be run.

    Raises:
        MethodError: the method cannot use such a teacher.
    """
    with torch.random.fork_rng(devices=[]), torch.device(device):
        # artefacts of a student of several tasks have the names of theirs
        task = TASK if method.multitask else ""
        blank = blank_artefacts(method.requires(teacher), teacher, num_labels, task)
        deployed = dict(method.deploy(method.build(Setup(teacher, num_labels, (TASK,), blank))))
    return {"": deployed[TASK]} if method.multitask else deployed


def config_read_by(row: MethodRow, teacher: Any) -> Any:
    """The configuration that a row is built by: the teacher's, or that of its own encoder."""
    name = row.method.own_encoder
    return config_from_name(name, asked=f"encoder={name}") if name else teacher


def untrained_rows(
    rows: Sequence[MethodRow], teacher: Any, say: Callable[[str], Any]
) -> Iterator[tuple[MethodRow, dict[str, Any]]]:
    """Each row that suits a teacher of this configuration, with its deployed models by name, one
    for each operating point.

    Args:
        say: is told why other rows of ``all`` are left out.

    Raises:
        InputError: a row that was named cannot use such a teacher.
    """
    # which of them can use this teacher
    kept, left_out = drop_unusable(
        rows, lambda row: row.method.requires(config_read_by(row, teacher))
    )
    for note in left_out:
        say(note)
    for row in kept:
        try:
            deployed = untrained(row.method, config_read_by(row, teacher))
        except ValueError as error:
            raise InputError(f"{row.spelling}: {error}") from None
        # a model for each operating point
        models = {}
        for point, model in deployed.items():
            name = f"{row.label} at {point}" if point else row.label
            models[name] = model
        yield row, models


class Counted(NamedTuple):
    """The counts of a model from which its time and memory are estimated."""

    cost: Cost
    weights: int
    modules: int
    """those without parts: each starts some kernels"""


_COUNTED: dict[Any, Counted] = {}
"""What a model is known by -> what was counted of it on the meta device, once a process."""


def _counted(
    key: Any, build: Callable[[], Sequence[nn.Module]], has_further: bool = False
) -> Counted:
    """Counts of some models: the cost of the first, the weights of all.

    Args:
        has_further: whether the second one is trained beside the first, and costs something too.
    """
    if key not in _COUNTED:
        with shapes_only():
            models = build()
        # the cost of a pass, which what is trained beside the model adds to
        price = cost(models[0])
        if has_further:
            price = replace(price, per_token=price.per_token + linear_macs(models[1]))
        # all weights, and the modules that start kernels: those without parts
        weights = sum(tensor.numel() for model in models for tensor in model.state_dict().values())
        modules = sum(next(part.children(), None) is None for part in models[0].modules())
        _COUNTED[key] = Counted(price, weights, modules)
    return _COUNTED[key]


def student_counts(row: MethodRow, checkpoint: Checkpoint) -> Counted:
    """Counts of a row's student, with the weights of all its operating points."""

    def build() -> list[nn.Module]:
        return list(untrained(row.method, checkpoint.config, LABELS, "meta").values())

    # known by its class, its row and the teacher that it is made from
    key = (type(row.method), row.spelling, checkpoint.sha256)
    return _counted(key, build)


def graph_problem(row: MethodRow, checkpoint: Checkpoint) -> str:
    """Why a row's student cannot be quantised, which ONNX Runtime does; "" where nothing is
    known against it."""
    with shapes_only():
        deployed = untrained(row.method, checkpoint.config, LABELS, "meta")
    return next(filter(None, map(without_graph, deployed.values())), "")


def planned_sizes(row: MethodRow | None, checkpoint: Checkpoint, num_labels: int) -> list[Sizes]:
    """Sizes of a row's deployed models, one for each operating point, or of its teacher for None:
    as a record has them, with FLOPs by their formula, before anything is trained."""
    with shapes_only():
        if row is None:
            models = [teacher_model(checkpoint.config, num_labels, "meta")]
        else:
            models = list(untrained(row.method, checkpoint.config, num_labels, "meta").values())
    return [sizes_by_formula(model) for model in models]


def teacher_counts(checkpoint: Checkpoint) -> Counted:
    """Counts of a teacher of this checkpoint's configuration."""
    return _counted(checkpoint.sha256, lambda: [teacher_model(checkpoint.config, LABELS, "meta")])


def text_student_counts(entry: ArtefactPlan) -> Counted:
    """Counts of the student that an artefact trains on text, with what is trained beside it."""

    def build() -> list[nn.Module]:
        # it begins with tensors of the shapes that its parts would have
        parts = [part.artefact for part in entry.parts.values()]
        blank = blank_artefacts(parts, entry.checkpoint.config, entry.setup({}).num_labels)
        student: Student = entry.artefact.build(entry.setup(blank))  # type: ignore[attr-defined]
        return [student.model, student.aux]

    return _counted(entry.key, build, has_further=True)


def teacher_model(config: Any, num_labels: int = 2, device: str = "cpu") -> Any:
    """A teacher of this configuration with weights that mean nothing."""
    from transformers import AutoModelForSequenceClassification

    config = copy.deepcopy(config)
    config.num_labels = num_labels
    with torch.random.fork_rng(devices=[]), torch.device(device):
        return AutoModelForSequenceClassification.from_config(config, dtype=torch.float32)


def counts_of(row: str, teacher: str) -> dict[str, dict[str, int]]:
    """A row (or ``teacher``) by every convention of counting, on the meta device: two labels,
    length 128.

    Raises:
        InputError: a row that cannot be spelled, or a teacher whose configuration is not known
            offline.
    """
    config = config_from_name(teacher)
    if row == TEACHER:
        return counts(teacher_model(config, device="meta"), LENGTH)
    # the first of its operating points
    (only,) = parse_methods(row)
    models = untrained(only.method, config_read_by(only, config), device="meta")
    return counts(next(iter(models.values())), LENGTH)


def profile_rows(
    methods: str, teacher: str, say: Callable[[str], Any] = lambda note: None, offline: bool = False
) -> list[tuple[str, Sizes]]:
    """Name and sizes of the teacher and of each row's deployed model, one for each operating point:
    two labels, length 128.

    Raises:
        InputError: an unknown method or teacher, or a method that cannot use it.
    """
    config = config_from_name(teacher, offline)
    name = "bert-base-uncased" if teacher == "auto" else teacher
    rows = [(f"teacher {name}", sizes(teacher_model(config)))]
    for _, models in untrained_rows(parse_methods(methods), config, say):
        rows += [(name, sizes(model)) for name, model in models.items()]
    return rows
