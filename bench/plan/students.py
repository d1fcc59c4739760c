"""The cells of the students: what a row wants prepared for a task, under which keys, and whether it can be trained."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from bench.errors import InputError
from bench.plan.cell import Cell, Partner, Selection
from bench.plan.keys import SCHEMA, digest
from bench.plan.recipe import PAPER, WIDE, Recipe, optimizers_of_stages
from bench.plan.request import CHECKPOINTS, Request
from bench.plan.spelling import MethodRow
from bench.plan.starts import StartPlan, plan_start
from bench.plan.tasks import TaskPlan, setup_of
from bench.record.code import class_code, code_of
from bench.train.cache import Slot

if TYPE_CHECKING:
    from methods.artefacts import Artefact, ComputedArtefact, EnsembleTargets

BEST_EPOCH = " (best epoch)"
"""Ends the label of a row whose epoch was chosen."""


def members_of(row: MethodRow, task: TaskPlan) -> int:
    """How many tuned teachers of each task a row wants as an ensemble; 0 for most."""
    from methods.artefacts import EnsembleTargets

    return max((w.members for w in _wishes(row, task) if isinstance(w, EnsembleTargets)), default=0)


def multitask(row: MethodRow) -> bool:
    """Whether one student of this row learns all tasks of the run."""
    return bool(row.method.multitask)


def student_cells(
    row: MethodRow, tasks: Sequence[TaskPlan], request: Request, starts: dict[str, StartPlan]
) -> list[Cell]:
    """The cells of one row, one for each seed and task; of several tasks they are one training a seed.

    Raises:
        InputError: a combination that the method cannot do.
    """
    from methods.artefacts import artefact_name

    several, search = multitask(row), dict(request.searches).get(row.spelling)
    artefacts, recipes = {}, []
    by_stages = _stage_optimizers(row, tasks) if request.recipe == PAPER else ()
    for task in tasks:
        wishes = _wishes(row, task)
        for wish in wishes:
            name = artefact_name(wish, task.task.name, several)
            artefacts[name] = _key_of(wish, request, task, starts)
        recipes.append(replace(_recipe(task, wishes, row.pace), stage_optimizers=by_stages))
    if len({digest(recipe.as_dict()) for recipe in recipes}) > 1:
        raise InputError(f"{row.spelling}: its tasks have different recipes; give --epochs, or one kind of data")
    chosen = BEST_EPOCH if CHECKPOINTS[request.checkpoint] else ""
    partners = [
        Partner(
            task=task.task.name,
            train=task.data.train,
            max_train_rows=task.data.max_train_rows,
            teacher=task.teacher.key,
        )
        for task in tasks
    ]
    return [
        Cell(
            label=(f"{search.of} (best of {len(search.trials)})" if search else row.label) + chosen,
            method=_name(row),
            version=row.method.version,
            settings=row.settings,
            dropped=row.dropped,
            ablation_of=None if row.ablation_of is None else row.ablation_of + chosen,
            tasks=(task.task.name,),
            data=task.data,
            teacher=task.teacher,
            tokenizer=task.tokenizer,
            artefacts=artefacts,
            recipe=recipes[0].as_dict(),
            seed=seed,
            numeric=task.numeric,
            together=tuple(partners) if several else (),
            selection=_selection(request, tasks if several else [task]),
            search=search,
        )
        for seed in request.seeds
        for task in tasks
    ]


def _stage_optimizers(row: MethodRow, tasks: Sequence[TaskPlan]) -> tuple[tuple[str, str], ...]:
    """The stages to which the row's paper gives another optimiser than AdamW, each with its name."""
    return optimizers_of_stages((stage.name, stage.paper) for stage in row.method.stages(setup_of(tasks, {})))


def _selection(request: Request, tasks: Sequence[TaskPlan]) -> Selection | None:
    rows = {task.task.name: task.choosing.fingerprint() for task in tasks if task.choosing is not None}
    return Selection(rule=CHECKPOINTS[request.checkpoint], rows=rows) if rows else None


def _name(row: MethodRow) -> str:
    """The registered name, which for a third party's method has its package before it."""
    return row.spelling.split(":")[0]


def _wishes(row: MethodRow, task: TaskPlan) -> Sequence[Artefact]:
    try:
        return tuple(row.method.requires(task.checkpoint.config))
    except ValueError as error:
        raise InputError(f"{row.spelling}: {error}") from None


def _recipe(task: TaskPlan, wishes: Sequence[Artefact], pace: float) -> Recipe:
    """The students' recipe at a row's own pace, at the teacher's learning rate where its start asks for it."""
    as_teacher = tuned_like_the_teacher(wishes, task.checkpoint.config)
    rate = task.teacher_recipe.learning_rate if as_teacher else task.recipe.learning_rate
    return replace(task.recipe, learning_rate=rate * pace)


def tuned_like_the_teacher(wishes: Sequence[Artefact], teacher: Any) -> bool:
    """Whether a student that starts from these wishes takes its teacher's learning rate.

    It does where its encoder begins pre-trained and is WIDE: from the teacher, from a given checkpoint or by a general
    stage, steps that suit a small encoder would destroy what is there. One cut out of a narrow teacher takes that
    teacher's rate too; random starts and other narrow ones keep the students' own.

    Args:
        teacher: the teacher's configuration.
    """
    from methods.artefacts import GivesEncoder, TeacherWeights

    cut = any(isinstance(wish, TeacherWeights) for wish in wishes)
    return cut or any(wish.encoder_width(teacher) >= WIDE for wish in wishes if isinstance(wish, GivesEncoder))


def _key_of(wish: Artefact, request: Request, task: TaskPlan, starts: dict[str, StartPlan]) -> str:
    """The key of what a method wants prepared, known before it is made."""
    from bench.data.checkpoints import given_start
    from methods.artefacts import (
        EnsembleTargets,
        GeneralDistillation,
        GivenEncoder,
        PretrainingStage,
        TeacherWeights,
        TruncatedTeacher,
    )

    if isinstance(wish, GivenEncoder):
        return given_start(wish.path, wish.shape, task.checkpoint, request.offline).sha256
    if isinstance(wish, GeneralDistillation | TruncatedTeacher | PretrainingStage):
        return plan_start(wish, request, task.checkpoint, task.tokenizer, task.numeric, starts).key
    if isinstance(wish, TeacherWeights):
        return task.teacher.key if wish.tuned else task.checkpoint.sha256
    if isinstance(wish, EnsembleTargets):
        if task.teacher.origin == "given":
            raise InputError(
                f"{wish.name.replace('_', ' ')}: teachers that come tuned are one a task, no ensemble of {wish.members}; "
                f"name a checkpoint without a head as --teacher"
            )
        members = [task.teacher_slot(seed).key for seed in range(wish.members)]
        read = {} if _reads_as_the_teacher(task) else {"max_length": task.recipe.max_length}
        return digest({"schema": SCHEMA, "what": wish.name, "teachers": members, "data": task.data.train, **read})
    # sums over batches of another size are rounded differently
    batches = {} if task.recipe.batch_size == Recipe.batch_size else {"batch_size": task.recipe.batch_size}
    return digest(
        {
            "schema": SCHEMA,
            "what": [wish.name, wish.version, dict(wish.settings)],
            "teacher": task.teacher.key,
            "data": task.data.evaluation if reads_validation(wish) else task.data.train,
            "tokenizer": task.tokenizer,
            "max_length": task.recipe.max_length,
            "numeric": task.numeric.identity(),
            **batches,
        }
    )


def reads_validation(wish: Artefact) -> bool:
    """Whether something is computed from the first evaluation set in the place of training rows."""
    return getattr(wish, "rows", "train") == "validation"


def _reads_as_the_teacher(task: TaskPlan) -> bool:
    """Whether students read sequences of the length that their teacher was tuned on."""
    return task.recipe.max_length == task.teacher_recipe.max_length


def computed_slot(wish: EnsembleTargets | ComputedArtefact, key: str, task: str) -> Slot:
    """Where something that is computed from the tuned teacher and training examples is kept."""
    from methods.artefacts import EnsembleTargets

    code = code_of("ensemble") if isinstance(wish, EnsembleTargets) else class_code("computed", wish)
    return Slot("computed", key, code, f"{wish.name.replace('_', ' ')} of {task}")


def computed_slots(row: MethodRow, cell: Cell, task: TaskPlan) -> list[Slot]:
    """Those of one cell's artefacts that are computed from a tuned teacher and training examples."""
    from methods.artefacts import ComputedArtefact, EnsembleTargets, artefact_name

    several = bool(cell.together)
    return [
        computed_slot(wish, cell.artefacts[artefact_name(wish, task.task.name, several)], task.task.name)
        for wish in _wishes(row, task)
        if isinstance(wish, EnsembleTargets | ComputedArtefact)
    ]


def with_stages(rows: Sequence[MethodRow], tasks: Sequence[TaskPlan]) -> tuple[list[MethodRow], list[str]]:
    """The rows whose stages these tasks and teachers allow, and why others of ``all`` are left out.

    Raises:
        InputError: a row that was named cannot be trained.
    """
    kept, left = [], []
    for row in rows:
        try:
            for together in [tasks] if multitask(row) else [[task] for task in tasks]:
                _check_stages(row, together, together[0].recipe)
            kept.append(row)
        except InputError as error:
            if not row.by_all:
                raise
            left.append(f"{row.spelling} is left out of all: {error}")
    return kept, left


def _check_stages(row: MethodRow, tasks: Sequence[TaskPlan], recipe: Recipe) -> None:
    """Ask a method for its stages now, so that a combination it cannot do is bad input and not a failed cell."""
    from bench.errors import CellError
    from bench.train.legs import legs_of

    if row.numbers and recipe.name != PAPER:
        raise InputError(
            f"{row.spelling}: numbers of a stage ({', '.join(name for name, _ in row.numbers)}) go with --recipe paper; "
            f"with --recipe common one schedule serves all rows"
        )
    try:
        stages = row.method.stages(setup_of(tasks, {}))
        legs_of(stages, row.dropped, recipe, *(len(task.train) for task in tasks))
    except (ValueError, CellError) as error:
        raise InputError(f"{row.spelling} on {', '.join(task.task.name for task in tasks)}: {error}") from None
