"""The cells of the students: what a row wants prepared for a task, under which keys, and whether
it can be trained."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from bench.errors import CellError, InputError
from bench.plan.artefacts import ArtefactPlanner
from bench.plan.outputs import row_taps
from bench.plan.plan import ArtefactPlan, TaskPlan
from bench.plan.planned_tasks import TasksOfSeeds, setup_of
from bench.plan.scheduled_stages import kept_terms, schedule_stages
from bench.plan.spelling import MethodRow
from bench.record.cell import Cell, Partner, Selection, Varied, split_row
from bench.record.keys import digest
from bench.record.recipe import PAPER, WIDE, Recipe, optimizers_of_stages
from bench.record.task_facts import label_suffixes
from bench.record.varied import VARIED_START, VARIED_TEACHER
from bench.request import Request
from bench.request.choices import EPOCH_RULES, FAST

if TYPE_CHECKING:
    from methods.api import Stage
    from methods.core.artefacts import Artefact


class StudentCell(NamedTuple):
    """A cell of a row, and what its student is made from."""

    cell: Cell
    artefacts: tuple[ArtefactPlan, ...]
    """what its method asks for on the task"""
    task: TaskPlan
    """as its seed learns it"""


def student_cells(
    row: MethodRow,
    tasks: Sequence[TaskPlan],
    request: Request,
    planner: ArtefactPlanner,
    seeds: TasksOfSeeds,
) -> list[StudentCell]:
    """The cells of one row, one for each seed and task.

    Those of several tasks are one training a seed.

    Raises:
        InputError: a combination that the method cannot do.
    """
    several = bool(row.method.multitask)
    search = dict(request.searches).get(row.spelling)

    # the recipe, which is one of all tasks
    recipe = _recipe(row, tasks, request).as_dict()

    # what the request's choices add to the name of the row
    rule = EPOCH_RULES[request.checkpoint]
    outputs = request.teacher_outputs if row_taps(row, tasks) else ""
    kernels = FAST if request.kernels == FAST else ""
    suffixes = label_suffixes(search, bool(rule), outputs, kernels, recipe)
    label = "".join([search.of if search else row.label, *suffixes])
    ablation_of = None
    if row.ablation_of is not None:
        # an ablation is no row of a search
        of_full = suffixes[1:] if search else suffixes
        ablation_of = "".join([row.ablation_of, *of_full])

    # what is drawn anew with each seed: its keys of seed 0 are said
    varied: list[Varied | None] = [None for _ in tasks]
    if request.vary:
        made = _keys(_artefacts(row, tasks, planner, 0))
        varied = []
        for task in tasks:
            drawn = Varied(sources=request.vary, teacher=task.teacher.key, artefacts=made)
            varied.append(drawn)

    # a cell for each seed and task; those of several tasks name one another
    cells = []
    for seed in request.seeds:
        # what this seed learns from: its teachers, and what its students begin as
        of_seed = [seeds.of(task, seed) for task in tasks]
        artefacts = _artefacts(row, of_seed, planner, seed if VARIED_START in request.vary else 0)
        keys = _keys(artefacts)
        partners = tuple(map(_partner, of_seed)) if several else ()
        for task, of_task, how in zip(of_seed, artefacts, varied, strict=True):
            cell = task.cell(
                label=label,
                method=split_row(row.spelling)[0],
                version=row.method.version,
                settings=row.settings,
                dropped=row.dropped,
                ablation_of=ablation_of,
                artefacts=keys,
                recipe=recipe,
                seed=seed,
                together=partners,
                selection=_selection(rule, of_seed if several else [task]),
                search=search,
                teacher_outputs=outputs,
                kernels=kernels,
                varied=how,
            )
            cells.append(StudentCell(cell, tuple(of_task.values()), task))
    return cells


def _keys(artefacts: Sequence[dict[str, ArtefactPlan]]) -> dict[str, str]:
    """The keys of what a row asks for on its tasks, by name."""
    keys = {}
    for of_task in artefacts:
        for name, entry in of_task.items():
            keys[name] = entry.key
    return keys


def _artefacts(
    row: MethodRow, tasks: Sequence[TaskPlan], planner: ArtefactPlanner, seed: int
) -> list[dict[str, ArtefactPlan]]:
    """The artefacts that a row's method asks for on each task, by the name that the student knows
    it by.

    What several tasks share is the first one's, also where each has a checkpoint of its own.

    Args:
        seed: of what is trained of them.

    Raises:
        InputError: an artefact that the method cannot have with this teacher.
    """
    from methods.core.artefacts import artefact_name

    several = bool(row.method.multitask)
    found: list[dict[str, ArtefactPlan]] = []
    names: set[str] = set()
    for task in tasks:
        config = task.checkpoint.config
        of_task = {}
        try:
            for artefact in tuple(row.method.requires(config)):
                name = artefact_name(artefact, config, task.name, several)
                if name not in names:
                    of_task[name] = planner.add(artefact, task.checkpoint, task, seed)
        except ValueError as error:
            raise InputError(f"{row.spelling}: {error}") from None
        names |= of_task.keys()
        found.append(of_task)
    return found


def _recipe(row: MethodRow, tasks: Sequence[TaskPlan], request: Request) -> Recipe:
    """The recipe of a row's student.

    Raises:
        InputError: its tasks have different ones.
    """
    # the stages to which the row's paper gives another optimiser than AdamW
    by_stages: tuple[tuple[str, str], ...] = ()
    if request.recipe == PAPER:
        stages = row.stages(setup_of(tasks, {}))
        by_stages = optimizers_of_stages((stage.name, stage.paper) for stage in stages)

    # the learning rate follows what the student begins as, and the pace of its row
    recipes = []
    for task in tasks:
        config = task.checkpoint.config
        rate = task.recipe.learning_rate
        if tuned_like_the_teacher(row.method.requires(config), config):
            rate = task.teacher_recipe.learning_rate
        paced = replace(task.recipe, learning_rate=rate * row.pace, stage_optimizers=by_stages)
        recipes.append(paced)
    if len({digest(recipe.as_dict()) for recipe in recipes}) > 1:
        raise InputError(
            f"{row.spelling}: its tasks have different recipes; give --epochs, or one kind of data"
        )
    return recipes[0]


def _partner(task: TaskPlan) -> Partner:
    """A task as one of several that a student learns."""
    return Partner(
        task=task.name,
        train=task.data.train,
        max_train_rows=task.data.max_train_rows,
        teacher=task.teacher.key,
    )


def _selection(rule: str, tasks: Sequence[TaskPlan]) -> Selection | None:
    """By which rows the epoch of a student of these tasks is chosen; None for the last epoch."""
    rows = {}
    for task in tasks:
        if task.selection_split is not None:
            rows[task.name] = task.selection_split.fingerprint()
    return Selection(rule=rule, rows=rows) if rows else None


def tuned_like_the_teacher(artefacts: Sequence[Artefact], teacher: Any) -> bool:
    """Whether a student that starts from these artefacts takes its teacher's learning rate.

    It does where its encoder begins pre-trained (from the teacher, from a given checkpoint or by a
    general stage) and is at least WIDE wide: steps that suit a small encoder would destroy what it
    has learned. A student cut out of a narrow teacher takes that teacher's rate too; random starts
    and other narrow ones keep the students' own.

    Args:
        teacher: the teacher's configuration.
    """
    from methods.core.artefacts import TeacherWeights

    # a student cut out of its teacher, or one that is wide enough
    widths = [artefact.encoder_width(teacher) for artefact in artefacts]
    cut = any(isinstance(artefact, TeacherWeights) for artefact in artefacts)
    return cut or any(width >= WIDE for width in widths if width is not None)


def check_row(row: MethodRow, tasks: Sequence[TaskPlan], vary: Sequence[str] = ()) -> None:
    """Ask a method for what it needs and for its stages now.

    So a combination that it cannot do is bad input, and not a failed cell.

    Args:
        vary: what is drawn anew with each seed.

    Raises:
        ValueError, InputError: these tasks and teachers do not allow the row.
    """
    if row.method.own_encoder and (row.method.needs_teacher or row.method.multitask):
        raise InputError(
            f"{row.spelling}: an encoder of its own goes without a teacher, on one task"
        )
    # what it begins with
    artefacts = row.method.requires(tasks[0].checkpoint.config)
    _check_ensemble(row, tasks, artefacts, vary)
    if row.stage_overrides and tasks[0].recipe.name != PAPER:
        numbers = ", ".join(name for name, _ in row.stage_overrides)
        raise InputError(
            f"{row.spelling}: numbers of a stage ({numbers}) go with --recipe paper; with --recipe "
            "common one schedule serves all rows"
        )
    # what it answers, and how each of its students is trained
    _check_answers(row, tasks)
    students = [tasks] if row.method.multitask else [[task] for task in tasks]
    for together in students:
        try:
            _check_student(row, together, artefacts)
        except (ValueError, CellError) as error:
            shown = ", ".join(task.shown for task in together)
            raise InputError(f"{row.spelling} on {shown}: {error}") from None


def _check_ensemble(
    row: MethodRow,
    tasks: Sequence[TaskPlan],
    artefacts: Sequence[Artefact],
    vary: Sequence[str],
) -> None:
    """Raises InputError where a row asks for an ensemble of teachers, and each seed has one; and
    where one of ``all`` does, and they come tuned.

    A row that was named says the latter itself, with what to do.
    """
    from methods.core.artefacts import sources

    config = tasks[0].checkpoint.config
    is_ensemble = False
    for artefact in artefacts:
        is_ensemble |= any(source.seed for source in sources(artefact, config))
    if is_ensemble and VARIED_TEACHER in vary:
        raise InputError(
            f"{row.spelling}: its teachers are an ensemble of several seeds, so "
            f"--vary {VARIED_TEACHER} is not for it"
        )
    if is_ensemble and row.from_all and any(task.teacher.origin == "given" for task in tasks):
        raise InputError("teachers that come tuned are no ensemble")


def _check_answers(row: MethodRow, tasks: Sequence[TaskPlan]) -> None:
    """Raises InputError where a task asks for other answers than the method gives: texts, or
    spans."""
    for task in tasks:
        if task.task.writes != row.method.writes:
            what = f"gives no texts, which {task.shown} asks for"
            if row.method.writes:
                what = "writes texts"
            raise InputError(
                f"{row.spelling} on {task.shown}: {row.method.name} {what}; choose another task or "
                "method"
            )
    answers_spans = row.method.spans and not row.method.multitask
    if not answers_spans and any(task.task.spans for task in tasks):
        raise InputError(
            f"{row.spelling} does not answer questions by spans of a text; docs/add-a-task.md says "
            "which rows do"
        )


def _check_student(
    row: MethodRow, tasks: Sequence[TaskPlan], artefacts: Sequence[Artefact]
) -> None:
    """Whether one student can be trained on these tasks.

    Raises:
        ValueError, CellError: its stages, or those of what it begins with, do not allow it.
    """
    # its stages have a length and terms to train by
    setup = setup_of(tasks, {})
    stages = row.stages(setup)
    recipe = tasks[0].recipe
    schedule_stages(stages, row.dropped, recipe, *(len(task.train) for task in tasks))
    # a pace that no stage would read
    has_own_rates = all("learning_rate" in stage.paper for stage in stages)
    if recipe.name == PAPER and row.pace != 1 and has_own_rates:
        typed = ", ".join(f":{stage.name}.learning_rate=" for stage in stages)
        raise ValueError(
            "pace= changes nothing with --recipe paper, where stages have their own rates; type "
            f"{typed}"
        )
    # the teacher has what its terms read, and those of the artefacts that it begins with
    earlier = [stage for artefact in artefacts for stage in artefact.stages(setup)]
    for task in tasks:
        config = task.checkpoint.config
        check_layers(stages, row.dropped, config)
        check_what_teacher_gives(stages, row.dropped, config, "drop it (:-{}), or ")
        check_what_teacher_gives(earlier, (), config)


def check_layers(stages: Sequence[Stage], dropped: Sequence[str], teacher: Any) -> None:
    """Terms read layers that the teacher has; those of an artefact may have another teacher.

    Raises:
        ValueError: a term reads a layer beyond.
    """
    depth = teacher.num_hidden_layers
    for stage in stages:
        for name, term in kept_terms(stage, dropped).items():
            taps = [tap for tap in term.teacher if max(tap.layers, default=0) > depth]
            if taps:
                beyond = ", ".join(sorted(map(str, taps)))
                raise ValueError(
                    f"the term {name} reads {beyond}, but the teacher has {depth} layers"
                )


def check_what_teacher_gives(
    stages: Sequence[Stage], dropped: Sequence[str], teacher: Any, hint: str = ""
) -> None:
    """A teacher of a family that is not described runs padded and keeps nothing of its attention.

    Raises:
        ValueError: a term reads it.
    """
    from methods.core.families import FAMILIES, family_of_config
    from methods.core.models import PADDED_KINDS

    if family_of_config(teacher):
        return
    for stage in stages:
        for name, term in kept_terms(stage, dropped).items():
            refused = [str(tap) for tap in term.teacher if tap.kind not in PADDED_KINDS]
            if refused:
                raise ValueError(
                    f"the term {name} reads {min(refused)}, which a {teacher.model_type} as a "
                    f"teacher does not give: {hint.format(name)}take a teacher of "
                    f"{', '.join(FAMILIES)}"
                )
