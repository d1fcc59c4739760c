"""How much memory one worker process holds at its peak for one piece of a plan's work, in closed form.

What is counted: the process with its libraries, texts and their tokens, the weights of the teacher, and of each student its
weights and its optimiser's state. Gradients and activations are counted once, of the largest student: students of a group
take their steps one after another, and the loop frees the gradients after each step. Shapes come from models on the meta
device; nothing is allocated.

:func:`group_bytes`, :func:`teacher_bytes` and :func:`artefact_bytes` state bytes of the whole process on a CPU; the private
functions state a part of it. On an accelerator the tensors lie in its memory: it needs the
stated bytes without :data:`BASE_BYTES`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import chain
from typing import TYPE_CHECKING, Any

from bench.optimizers import OPTIMIZERS
from bench.plan.artefacts import ArtefactPlan, Text, asked_by
from bench.plan.extents import (
    TENSORS_PER_READ_TENSOR,
    Extent,
    batch_extent,
    data_bytes,
    extent,
    lengths_of,
    part_extent,
    scored_batch,
    text_batch_extent,
    text_bytes,
)
from bench.plan.layer_sizes import FLOAT, Layers, layer_sizes
from bench.plan.spelling import MethodRow
from bench.record.recipe import ADAMW, optimizers_of

if TYPE_CHECKING:
    from torch import Tensor, nn

    from bench.data.checkpoints import Checkpoint
    from bench.plan.build import Plan, Planned
    from bench.plan.tasks import TaskPlan
    from methods.api import Stage, Student, Taps
    from methods.artefacts import Artefact, Training

BASE_BYTES = 456_000_000
"""A process with torch, transformers, datasets and the others that has trained and scored a student of two layers and width
12: the peak of its proportional set size, measured alone on Linux with torch 2.13."""


def group_bytes(plan: Plan, task: TaskPlan, group: Sequence[Planned]) -> int:
    """Bytes of training and scoring students of one task and seed in lockstep, or one student of all tasks of the plan.

    The cache is assumed to have the teacher and the artefacts that all tasks share. A task's own artefacts are made by this
    process, unless the cache has them.

    Args:
        group: cells of students, as :meth:`Plan.groups` and :meth:`Plan.multitask_trainings` have them.
    """
    from methods.fast_kernels import reordered_bytes

    tasks = plan.tasks if group[0].cell.together else [task]
    rows = list({planned.spelling: planned for planned in group}.values())  # of several tasks all cells are one student
    students = [_student_of(_row(planned), task, len(tasks) > 1) for planned in rows]
    taught = any(
        _row(planned).method.needs_teacher or _needs_taught_artefact(plan, _row(planned), task) for planned in rows
    )
    teacher = _teacher(task.checkpoint) if taught else None
    common = BASE_BYTES + sum(map(data_bytes, tasks)) + _shared_bytes(plan, task, rows)
    if teacher is not None:
        reordered = any(planned.cell.kernels for planned in rows)
        common += len(tasks) * (_bytes(teacher) + (reordered_bytes(teacher) if reordered else 0))
    weights = sum(map(_bytes, students))
    moments = sum(_state_bytes(student, one.cell.recipe) for one, student in zip(rows, students, strict=True))
    looking = [student for planned, student in zip(rows, students, strict=True) if planned.cell.selection is not None]
    best = sum(map(_bytes, looking))  # the weights of the best epoch so far
    making = max(_making_of_row(plan, _row(planned), one) for planned in rows for one in tasks)
    building = weights + max(_own_bytes(plan, _row(planned), task) for planned in rows)
    read = _taps_of_teacher(rows, task)
    step = max(
        _step_bytes(planned, student, one, teacher, read)
        for planned, student in zip(rows, students, strict=True)
        for one in tasks
    )
    scoring = max(_scoring_bytes(student.model, one) for student in students for one in tasks)
    answering = max((_bytes(student) for student in looking), default=0) + scoring if looking else 0
    training = weights + moments + best + max(step, answering)
    return common + max(making, building, training, weights + best + scoring)


def teacher_bytes(task: TaskPlan) -> int:
    """Bytes of fine-tuning the teacher of one task and scoring it. A teacher that comes tuned is only scored."""
    teacher = _teacher(task.checkpoint)
    common = BASE_BYTES + data_bytes(task) + _bytes(teacher)
    scoring = _scoring_bytes(teacher, task)
    return common + (scoring if task.teacher.origin == "given" else max(scoring, _tuning_bytes(teacher, task)))


def artefact_bytes(plan: Plan, entry: ArtefactPlan) -> int:
    """Bytes of making one artefact, and what it is made from where the cache has it not."""
    parts = plan.artefacts.parts_of(entry)
    missing = [part for part in parts if part.is_kept and not plan.is_there(part.slot)]
    before = max((artefact_bytes(plan, part) for part in missing), default=0)
    data = 0 if entry.task is None else data_bytes(entry.task)
    text = 0 if entry.text is None else text_bytes(entry.text)
    base = BASE_BYTES + data + text + sum(_bytes_of_artefact(part) for part in parts if part.is_kept)
    return max(before, base + _making_bytes(entry))


# models on the meta device


def _student_of(row: MethodRow, task: TaskPlan, several: bool) -> Student:
    """The student of one row with all that is trained with it; of several tasks it is counted with one head, as heads are small."""
    from bench.plan.untrained import meta_student

    return meta_student(row, task.checkpoint, several)


def _row(planned: Planned) -> MethodRow:
    assert isinstance(planned.row, MethodRow), "groups have students alone"
    return planned.row


def _teacher(checkpoint: Checkpoint) -> nn.Module:
    from bench.plan.untrained import meta_teacher

    return meta_teacher(checkpoint)


@lru_cache(maxsize=256)
def _own_tensors(module: nn.Module) -> dict[int, Tensor]:
    """Parameters and buffers by identity; tied ones once. A plan asks for the same model's a hundred times."""
    return {id(tensor): tensor for tensor in chain(module.parameters(), module.buffers())}


def _tensors(of: nn.Module | Student) -> Iterable[Tensor]:
    """The same of a model, or of a student with what learns with it, whose tensors may be tied to the model's."""
    from methods.api import Student

    found = _own_tensors(of.model) | _own_tensors(of.aux) if isinstance(of, Student) else _own_tensors(of)
    return found.values()


def _bytes(of: nn.Module | Student) -> int:
    return _summed(_tensors(of))


def _trained(of: nn.Module | Student) -> list[Tensor]:
    return [tensor for tensor in _tensors(of) if tensor.requires_grad]


def _state_bytes(of: nn.Module | Student, recipe: Mapping[str, Any]) -> int:
    """Bytes that the recipe's optimiser keeps of all trained parameters; where its stages have several, the largest."""
    shapes = [parameter.shape for parameter in _trained(of)]
    kinds = [OPTIMIZERS[name] for name in (recipe.get("optimizer", ADAMW), *optimizers_of(recipe))]
    return FLOAT * max(sum(map(kind.floats, shapes)) for kind in kinds)


def _summed(tensors: Iterable[Tensor]) -> int:
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)


# phases of the work


def _taps(stages: Sequence[Stage], dropped: Sequence[str]) -> list[tuple[Stage, Taps, Taps]]:
    """Each stage with what its terms read of the student and of the teacher."""
    from bench.plan.scheduled_stages import kept_terms

    found = []
    for stage in stages:
        student: Taps = frozenset()
        teacher: Taps = frozenset()
        for term in kept_terms(stage, dropped).values():
            student, teacher = student | term.student, teacher | term.teacher
        found.append((stage, student, teacher))
    return found


def _taps_of_teacher(rows: Sequence[Planned], task: TaskPlan) -> Taps:
    """All that the students of a group read of the teacher: one pass answers them together."""
    from bench.plan.tasks import setup_of

    total: Taps = frozenset()
    setup = setup_of([task], {})
    for planned in rows:
        for _, _, theirs in _taps(_row(planned).method.stages(setup), planned.cell.dropped):
            total = total | theirs
    return total


def _step_bytes(
    planned: Planned, student: Student, task: TaskPlan, teacher: nn.Module | None, read_by_all: Taps
) -> int:
    """Gradients and activations of a student's largest step, with the teacher's answer to its whole group."""
    from bench.plan.tasks import setup_of

    stages = _taps(_row(planned).method.stages(setup_of([task], {})), planned.cell.dropped)
    teacher_layers = None if teacher is None else layer_sizes(teacher)
    return _gradient_bytes(student) + max(
        _stage_bytes(
            student,
            teacher_layers,
            ours,
            read_by_all if theirs else theirs,
            part_extent(task, stage.padding),
            batch_extent(task, stage.padding),
        )
        for stage, ours, theirs in stages
    )


def _stage_bytes(
    student: Student, teacher: Layers | None, ours: Taps, theirs: Taps, batch: Extent, whole: Extent | None = None
) -> int:
    """Activations of one step: the teacher's answer stays while the student computes.

    Args:
        batch: what goes through the models at a time.
        whole: the batch of which that is a part: the teacher's answer to all of it is held; None where it is no part.
    """
    own = layer_sizes(student.model)
    read = own.bytes_of_taps(ours, batch)
    answer = passing = 0
    if teacher is not None and theirs:
        answer = teacher.bytes_of_taps(theirs, whole or batch)
        passing = teacher.bytes_forward_only(batch) + teacher.held_for_pooling(theirs, batch)
        # a narrow student's states are compared in the teacher's width, also where the teacher's come pooled
        pooled = any(tap.kind == "pooled" for tap in theirs)
        read = max(
            read,
            teacher.bytes_of_taps(theirs, batch),
            replace(own, width=teacher.width).bytes_of_taps(ours, batch) if pooled else 0,
        )
    step = own.bytes_with_backward(batch) + TENSORS_PER_READ_TENSOR * read
    return answer + max(passing, step)


def _gradient_bytes(of: nn.Module | Student) -> int:
    """The gradients of one model, and the largest once more: it is squared for its norm."""
    sizes = [parameter.numel() for parameter in _trained(of)]
    return FLOAT * (sum(sizes) + max(sizes, default=0))


def _tuning_bytes(teacher: nn.Module, task: TaskPlan) -> int:
    """Of fine-tuning a teacher, besides its weights."""
    recipe = task.teacher_recipe
    batch = extent(lengths_of(task), min(recipe.batch_size, len(task.train)), recipe.max_length)
    state = _state_bytes(teacher, recipe.as_dict())
    return state + _gradient_bytes(teacher) + layer_sizes(teacher).bytes_with_backward(batch)


def _scoring_bytes(model: nn.Module, task: TaskPlan) -> int:
    return layer_sizes(model).bytes_forward_only(scored_batch(task))


def _needs_taught_artefact(plan: Plan, row: MethodRow, task: TaskPlan) -> bool:
    """Whether the row needs an artefact of this task that is computed with a teacher."""
    return any(entry.task is not None and entry.teacher_count for entry in _artefacts_of(plan, row, task))


def _artefacts_of(plan: Plan, row: MethodRow, task: TaskPlan) -> list[ArtefactPlan]:
    return list(asked_by(row.method, task, plan.artefacts))


def _making_of_row(plan: Plan, row: MethodRow, task: TaskPlan) -> int:
    """What is made for a task before a student is built, where the cache has it not; one teacher is held anyway."""
    own = [entry for entry in _artefacts_of(plan, row, task) if entry.task is not None]
    missing = [entry for entry in plan.artefacts.with_inputs(own) if entry.is_kept and not plan.is_there(entry.slot)]
    teacher = _bytes(_teacher(task.checkpoint))
    return max((_making_bytes(entry) - teacher for entry in missing), default=0)


def _own_bytes(plan: Plan, row: MethodRow, task: TaskPlan) -> int:
    """Tensors that one student is built from and that are dropped afterwards. Those that are views of the teacher count too: its
    file is read for them."""
    asked = _artefacts_of(plan, row, task)
    return sum(_bytes_of_artefact(entry) for entry in asked if entry.task is not None or not entry.is_kept)


def _shared_bytes(plan: Plan, task: TaskPlan, rows: Iterable[Planned]) -> int:
    """What all tasks share stays in memory as long as the process works, each once, with what it was made from."""
    asked = [entry for planned in rows for entry in _artefacts_of(plan, _row(planned), task)]
    shared = [entry for entry in asked if entry.task is None]
    return sum(_bytes_of_artefact(entry) for entry in plan.artefacts.with_inputs(shared) if entry.is_kept)


_BYTES: dict[tuple[Artefact, str], int] = {}
"""artefact, sha256 of the teacher's checkpoint -> bytes of its tensors"""


def _bytes_of_artefact(entry: ArtefactPlan) -> int:
    return _blank_bytes(entry.artefact, entry.checkpoint)


def _blank_bytes(artefact: Artefact, checkpoint: Checkpoint) -> int:
    from bench.plan.untrained import LABELS, shapes_only

    same = (artefact, checkpoint.sha256)
    if same not in _BYTES:
        with shapes_only():
            _BYTES[same] = _summed(artefact.blank(checkpoint.config, LABELS).values())
    return _BYTES[same]


def _making_bytes(entry: ArtefactPlan) -> int:
    """What an artefact's making holds, besides texts and the tensors that it is made from: teachers above all."""
    from bench.plan.estimate import training_of

    teacher = _teacher(entry.checkpoint)
    held = [_bytes(teacher)] if entry.text is not None else []
    if entry.text is not None:
        reading = _reading_bytes(entry, entry.text, teacher)
        held = [reading + _bytes(teacher) + _bytes_of_artefact(entry)] if reading else held
        training = training_of(entry)
        if training is not None:
            built_from = sum(_blank_bytes(part, entry.checkpoint) for part in entry.parts)
            held.append(built_from + _training_bytes(training, teacher, entry.text, entry.checkpoint.config.vocab_size))
    if entry.task is not None and entry.teacher_count:
        # a teacher's gradients too, where they are asked for
        held.append(entry.teacher_count * _bytes(teacher) + _tuning_bytes(teacher, entry.task))
    return max(held, default=0)


def _reading_bytes(entry: ArtefactPlan, text: Text, teacher: nn.Module) -> int:
    """What it holds while it reads text by itself: what it says, or as for a step of the teacher."""
    if not entry.own_tokens:
        return 0
    batch, tokens = text_batch_extent(text), entry.own_tokens
    times = tokens / batch.tokens
    whole = Extent(round(times * batch.sequences), tokens, times * batch.squares)
    said = entry.artefact.making_bytes(entry.checkpoint.config, tokens, layer_sizes(teacher).bytes_forward_only(whole))
    return said or layer_sizes(teacher).bytes_with_backward(batch)


def _training_bytes(training: Training, base: nn.Module, text: Text, words: int) -> int:
    """A training on text: its student, its teacher, and the head over the vocabulary where it masks tokens."""
    stages = _taps(training.stages, ())
    share = max((stage.masking.share for stage, _, _ in stages if stage.masking is not None), default=0.0)
    heads = 4 * FLOAT * share * text_batch_extent(text).tokens * words  # logits, their softmax, both gradients
    teacher = base if training.teacher is None else training.teacher
    return round(heads) + _learning_bytes(training.student, teacher, [pair[1:] for pair in stages], text)


def _learning_bytes(student: Student, teacher: nn.Module, taps: Sequence[tuple[Taps, Taps]], text: Text) -> int:
    """A student, its optimiser's state and gradients, its teacher, and its largest step on text."""
    batch, teacher_layers = text_batch_extent(text), layer_sizes(teacher)
    step = max(_stage_bytes(student, teacher_layers, ours, theirs, batch) for ours, theirs in taps)
    held = _bytes(student) + _state_bytes(student, text.recipe.as_dict()) + _gradient_bytes(student)
    return held + _bytes(teacher) + step
