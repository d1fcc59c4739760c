"""The cells of the students: what a row wants prepared for a task, under which keys, and whether it can be trained."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from bench.errors import CellError, InputError
from bench.plan.artefacts import ArtefactPlanner
from bench.plan.outputs import row_taps
from bench.plan.plan import ArtefactPlan, TaskPlan
from bench.plan.request import EPOCH_RULES, FAST, Request
from bench.plan.scheduled_stages import kept_terms, schedule_stages
from bench.plan.spelling import MethodRow
from bench.plan.tasks import setup_of
from bench.record.cell import Cell, Partner, Selection, split_row
from bench.record.keys import digest
from bench.record.recipe import PAPER, WIDE, optimizers_of_stages
from bench.record.task_facts import label_suffixes

if TYPE_CHECKING:
    from methods.api import Stage
    from methods.core.artefacts import Artefact


def student_cells(
    row: MethodRow, tasks: Sequence[TaskPlan], request: Request, planner: ArtefactPlanner
) -> list[tuple[Cell, tuple[ArtefactPlan, ...]]]:
    """The cells of one row, one for each seed and task, each with what its method asks for on the task; of several tasks they
    are one training a seed.

    Raises:
        InputError: a combination that the method cannot do.
    """
    from methods.core.artefacts import artefact_name

    several, search = bool(row.method.multitask), dict(request.searches).get(row.spelling)
    artefacts: dict[str, str] = {}
    asked: list[tuple[ArtefactPlan, ...]] = []
    recipes = []
    by_stages: tuple[tuple[str, str], ...] = ()
    # the stages to which the row's paper gives another optimiser than AdamW
    if request.recipe == PAPER:
        by_stages = optimizers_of_stages(
            (stage.name, stage.paper) for stage in row.stages(setup_of(tasks, {}))
        )
    for task in tasks:
        config = task.checkpoint.config
        try:
            wanted = tuple(row.method.requires(config))
            # what several tasks share is the first one's, also where each has a checkpoint of its own
            named = {artefact_name(each, config, task.name, several): each for each in wanted}
            own = {
                name: planner.add(each, task.checkpoint, task)
                for name, each in named.items()
                if name not in artefacts
            }
        except ValueError as error:
            raise InputError(f"{row.spelling}: {error}") from None
        artefacts |= {name: entry.key for name, entry in own.items()}
        asked.append(tuple(own.values()))
        rate = (
            task.teacher_recipe if tuned_like_the_teacher(wanted, config) else task.recipe
        ).learning_rate
        recipes.append(
            replace(task.recipe, learning_rate=rate * row.pace, stage_optimizers=by_stages)
        )
    if len({digest(recipe.as_dict()) for recipe in recipes}) > 1:
        raise InputError(
            f"{row.spelling}: its tasks have different recipes; give --epochs, or one kind of data"
        )
    outputs = request.teacher_outputs if row_taps(row, tasks) else ""
    kernels = FAST if request.kernels == FAST else ""
    recipe = recipes[0].as_dict()
    suffixes = label_suffixes(
        search, bool(EPOCH_RULES[request.checkpoint]), outputs, kernels, recipe
    )
    partners = [
        Partner(
            task=task.name,
            train=task.data.train,
            max_train_rows=task.data.max_train_rows,
            teacher=task.teacher.key,
        )
        for task in tasks
    ]
    chosen = {
        task.name: task.selection_split.fingerprint()
        for task in tasks
        if task.selection_split is not None
    }
    cells = [
        task.cell(
            label="".join([search.of if search else row.label, *suffixes]),
            method=split_row(row.spelling)[0],
            version=row.method.version,
            settings=row.settings,
            dropped=row.dropped,
            ablation_of=None
            if row.ablation_of is None
            else "".join([row.ablation_of, *suffixes[bool(search) :]]),
            artefacts=artefacts,
            recipe=recipe,
            seed=seed,
            together=tuple(partners) if several else (),
            selection=Selection(rule=EPOCH_RULES[request.checkpoint], rows=rows) if rows else None,
            search=search,
            teacher_outputs=outputs,
            kernels=kernels,
        )
        for seed in request.seeds
        for task in tasks
        for rows in [
            chosen
            if several
            else {name: rows for name, rows in chosen.items() if name == task.name}
        ]
    ]
    return list(zip(cells, asked * len(request.seeds), strict=True))


def tuned_like_the_teacher(artefacts: Sequence[Artefact], teacher: Any) -> bool:
    """Whether a student that starts from these artefacts takes its teacher's learning rate.

    It does where its encoder begins pre-trained (from the teacher, from a given checkpoint or by a general stage) and is at
    least WIDE wide: steps that suit a small encoder would destroy what it has learned. A student cut out of a narrow
    teacher takes that teacher's rate too; random starts and other narrow ones keep the students' own.

    Args:
        teacher: the teacher's configuration.
    """
    from methods.core.artefacts import TeacherWeights

    widths = [artefact.encoder_width(teacher) for artefact in artefacts]
    cut = any(isinstance(artefact, TeacherWeights) for artefact in artefacts)
    return cut or any(width >= WIDE for width in widths if width is not None)


def check_row(row: MethodRow, tasks: Sequence[TaskPlan]) -> None:
    """Ask a method for what it needs and for its stages now, so that a combination it cannot do is bad input and not a failed cell.

    Raises:
        ValueError, InputError: these tasks and teachers do not allow the row.
    """
    from methods.core.artefacts import sources

    if row.method.own_encoder and (row.method.needs_teacher or row.method.multitask):
        raise InputError(
            f"{row.spelling}: an encoder of its own goes without a teacher, on one task"
        )
    config = tasks[0].checkpoint.config
    wanted = row.method.requires(config)
    given = any(task.teacher.origin == "given" for task in tasks)
    if (
        row.from_all
        and given
        and any(source.seed for artefact in wanted for source in sources(artefact, config))
    ):
        raise InputError("teachers that come tuned are no ensemble")
    if row.stage_overrides and tasks[0].recipe.name != PAPER:
        raise InputError(
            f"{row.spelling}: numbers of a stage ({', '.join(name for name, _ in row.stage_overrides)}) go with --recipe paper; "
            f"with --recipe common one schedule serves all rows"
        )
    for task in tasks:
        if task.task.writes != row.method.writes:
            what = (
                "writes texts"
                if row.method.writes
                else f"gives no texts, which {task.shown} asks for"
            )
            raise InputError(
                f"{row.spelling} on {task.shown}: {row.method.name} {what}; choose another task or method"
            )
    for together in [tasks] if row.method.multitask else [[task] for task in tasks]:
        if any(task.task.spans for task in together) and (
            row.method.multitask or not row.method.spans
        ):
            raise InputError(
                f"{row.spelling} does not answer questions by spans of a text; docs/add-a-task.md says which rows do"
            )
        try:
            stages = row.stages(setup_of(together, {}))
            schedule_stages(
                stages, row.dropped, together[0].recipe, *(len(task.train) for task in together)
            )
            if (
                tasks[0].recipe.name == PAPER
                and row.pace != 1
                and all("learning_rate" in stage.paper for stage in stages)
            ):
                typed = ", ".join(f":{stage.name}.learning_rate=" for stage in stages)
                raise ValueError(
                    f"pace= changes nothing with --recipe paper, where stages have their own rates; type {typed}"
                )
            earlier = [
                stage for artefact in wanted for stage in artefact.stages(setup_of(together, {}))
            ]
            for task in together:
                check_layers(stages, row.dropped, task.checkpoint.config)
                check_what_teacher_gives(
                    stages, row.dropped, task.checkpoint.config, "drop it (:-{}), or "
                )
                check_what_teacher_gives(earlier, (), task.checkpoint.config)
        except (ValueError, CellError) as error:
            raise InputError(
                f"{row.spelling} on {', '.join(task.shown for task in together)}: {error}"
            ) from None


def check_layers(stages: Sequence[Stage], dropped: Sequence[str], teacher: Any) -> None:
    """Terms read layers that the teacher has; those of an artefact may have another teacher.

    Raises:
        ValueError: a term reads a layer beyond.
    """
    depth = teacher.num_hidden_layers
    for stage in stages:
        for name, term in kept_terms(stage, dropped).items():
            if beyond := sorted(
                str(tap) for tap in term.teacher if max(tap.layers, default=0) > depth
            ):
                raise ValueError(
                    f"the term {name} reads {', '.join(beyond)}, but the teacher has {depth} layers"
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

    for stage in stages if not family_of_config(teacher) else ():
        for name, term in kept_terms(stage, dropped).items():
            if refused := sorted(str(tap) for tap in term.teacher if tap.kind not in PADDED_KINDS):
                raise ValueError(
                    f"the term {name} reads {refused[0]}, which a {teacher.model_type} as a teacher does not give: {hint.format(name)}take a "
                    f"teacher of {', '.join(FAMILIES)}"
                )
