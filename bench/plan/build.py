"""From a request to a plan: every cell with its key, what is there already, who shares what, time and disk.

Heavy libraries are imported where they are needed, so that reading a plan's types costs nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from bench.data.augment import Augmentation
from bench.data.tasks import EvaluationSet, Task, expand
from bench.errors import InputError
from bench.plan.cell import (
    TEACHER,
    Cell,
    DataIdentity,
    Numeric,
    Partner,
    Selection,
    TeacherIdentity,
    record_key,
    train_key,
)
from bench.plan.keys import SCHEMA, digest
from bench.plan.recipe import TEACHER_LEARNING_RATES, Recipe
from bench.plan.request import CHECKPOINTS, SAMPLE, Request, recipe_of, resolve_auto
from bench.plan.spelling import CHECKPOINT, CheckpointRow, MethodRow, parse_rows, usable
from bench.plan.starts import StartPlan, hash_of_tokenizer, plan_start
from bench.record.schema import Record
from bench.record.store import Store

if TYPE_CHECKING:
    from torch import Tensor

    from bench.data.checkpoints import Checkpoint
    from bench.data.sources import Source, Split
    from methods.api import Setup, Wish

TEACHER_VERSION = 1
AUGMENTATION_VERSION = 1
BEST_EPOCH = " (best epoch)"
"""Ends the label of a row whose epoch was chosen."""


@dataclass
class TaskPlan:
    """One task: its examples and its teacher."""

    task: Task
    source: Source
    train: Split
    evaluation: dict[str, Split]
    checkpoint: Checkpoint
    teacher: TeacherIdentity
    teacher_recipe: Recipe
    numeric: Numeric
    recipe: Recipe
    mean_tokens: float
    data: DataIdentity
    """what students are trained on and scored with"""
    given: DataIdentity
    """the same before augmentation: what teachers are tuned on"""
    augmentation: Augmentation | None = None
    choosing: Split | None = None
    """the rows that choose which epoch of a student is shipped; None for the last"""

    def teacher_key(self, seed: int) -> str:
        """Of the teacher tuned with this seed; 0 is the one that students share."""
        return _teacher_key(self.checkpoint, self.task, self.given, self.teacher_recipe, self.numeric, seed)


@dataclass
class Planned:
    """One cell and what the store knows of it."""

    cell: Cell
    row: MethodRow | None
    """None for the teacher's own cell and for a finished checkpoint"""
    record: Record | None
    todo: bool
    checkpoint: Checkpoint | None = None
    """for a row that is a finished checkpoint"""


@dataclass
class Plan:
    request: Request
    tasks: list[TaskPlan]
    starts: dict[str, StartPlan]
    cells: list[Planned]
    notes: list[str] = field(default_factory=list)
    seconds: float = 0.0
    disk_bytes: int = 0

    @property
    def todo(self) -> list[Planned]:
        return [planned for planned in self.cells if planned.todo]

    def of_task(self, task: str) -> list[Planned]:
        return [planned for planned in self.cells if planned.cell.tasks == (task,)]

    def together(self) -> list[list[Planned]]:
        """Trainings of students of several tasks of which something is to do: their cells, one for each task."""
        trainings: dict[str, list[Planned]] = {}
        for planned in self.cells:
            if planned.cell.together:
                trainings.setdefault(train_key(planned.cell), []).append(planned)
        return [cells for cells in trainings.values() if any(planned.todo for planned in cells)]


def build(request: Request) -> Plan:
    """Resolve everything that identity needs. Trains nothing; a hub teacher or data set is downloaded to its cache.

    Raises:
        InputError: anything wrong with what was asked for, before anything starts.
    """
    request = request.checked()
    rows, given = parse_rows(request.methods) if request.methods else ([], [])  # none: teachers only
    wanted = expand(request.tasks)
    request = _without_auto(request)
    notes = list(request.notes)
    numeric = Numeric(precision=request.precision, threads=request.threads)
    tasks, absent = _tasks(request, wanted, numeric)
    if absent:
        notes.append(f"not in {tasks[0].source.name}: {', '.join(absent)}")
    notes += [
        f"{task.task.name}: {shared:,} of {len(split):,} examples of {name} are also in train"
        for task in tasks
        for name, split in task.evaluation.items()
        if (shared := split.shared_with(task.train))
    ]
    real = [t for t in tasks if t.task.name in ("mnli", "qqp") and not t.source.slug.startswith(SAMPLE)]
    notes += sorted({t.checkpoint.note for t in real if t.checkpoint.note})
    store = Store(request.results)
    starts: dict[str, StartPlan] = {}
    cells: list[Planned] = []
    rows, left_out = usable(rows, tasks[0].checkpoint.config)
    notes += left_out
    if any(task.teacher.origin == "given" for task in tasks):
        ensembles = [row.spelling for row in rows if row.by_all and members_of(row, tasks[0])]
        rows = [row for row in rows if row.spelling not in ensembles]
        notes += [f"{name} is left out of all: teachers that come tuned are no ensemble" for name in ensembles]
    rows, left_out = _with_stages(rows, tasks)
    notes += left_out
    for task in tasks:
        tokenizer = hash_of_tokenizer(task.checkpoint)
        if task.augmentation:
            task.data = _augmented(task, task.augmentation, request, tokenizer, numeric, starts)
        cells.append(_teacher_cell(task, tokenizer, numeric, request, store))
        cells += [_checkpoint_cell(row, task, numeric, request, store) for row in given]
        for row in rows:
            if not several_tasks(row):
                made = _student_cells(row, [task], request, numeric, starts)
                cells += [_planned(cell, row, request, store) for cell in made]
    for row in filter(several_tasks, rows):
        cells += [_planned(cell, row, request, store) for cell in _student_cells(row, tasks, request, numeric, starts)]
    plan = Plan(request, tasks, starts, cells, notes)
    from bench.plan.estimate import estimate

    plan.seconds, plan.disk_bytes = estimate(plan)
    return plan


def _augmented(
    task: TaskPlan,
    augmentation: Augmentation,
    request: Request,
    tokenizer: str,
    numeric: Numeric,
    starts: dict[str, StartPlan],
) -> DataIdentity:
    """The identity of the augmented rows: of what they are made from and how, known before they are made."""
    from methods.api import MethodError
    from methods.masked import TeacherHead

    head = ""
    if augmentation.kind == "masked":
        try:
            head = plan_start(TeacherHead(), request, task.checkpoint, tokenizer, numeric, starts).key
        except MethodError as error:
            raise InputError(f"--augment masked: {error}; --augment rules needs none") from None
    made = {
        "what": ["augmentation", AUGMENTATION_VERSION, augmentation.kind, augmentation.times, augmentation.seed],
        "train": task.given.train,
        "head": head,
        "teacher": task.teacher.key if augmentation.kind == "rules" else task.checkpoint.sha256,
    }
    return task.given.model_copy(
        update={
            "name": f"{task.given.name}, augmented {augmentation.times} times by {augmentation.kind}",
            "slug": f"{task.given.slug}-{augmentation.kind}-augmented-{augmentation.times}",
            "train": digest({"schema": SCHEMA, **made}),
        }
    )


def members_of(row: MethodRow, task: TaskPlan) -> int:
    """How many tuned teachers of each task a row wants as an ensemble; 0 for most."""
    from methods.api import EnsembleTargets

    return max((w.members for w in _wishes(row, task) if isinstance(w, EnsembleTargets)), default=0)


def several_tasks(row: MethodRow) -> bool:
    """Whether one student of this row learns all tasks of the run."""
    return bool(getattr(row.method, "several_tasks", False))


def _student_cells(
    row: MethodRow, tasks: Sequence[TaskPlan], request: Request, numeric: Numeric, starts: dict[str, StartPlan]
) -> list[Cell]:
    """The cells of one row, one for each seed and task; of several tasks they are one training a seed.

    Raises:
        InputError: a combination that the method cannot do.
    """
    several, search = several_tasks(row), dict(request.searches).get(row.spelling)
    artefacts, recipes = {}, []
    for task in tasks:
        wishes = _wishes(row, task)
        tokenizer = hash_of_tokenizer(task.checkpoint)
        for wish in wishes:
            name = artefact_name_of(wish, task, several)
            artefacts[name] = _key_of(wish, request, task, tokenizer, numeric, starts)
        recipes.append(_recipe(task, wishes, row.pace))
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
            tokenizer=tokenizer,
            artefacts=artefacts,
            recipe=recipes[0].as_dict(),
            seed=seed,
            numeric=numeric,
            together=tuple(partners) if several else (),
            selection=_selection(request, tasks if several else [task]),
            search=search,
        )
        for seed in request.seeds
        for task in tasks
    ]


def _selection(request: Request, tasks: Sequence[TaskPlan]) -> Selection | None:
    rows = {task.task.name: task.choosing.fingerprint() for task in tasks if task.choosing is not None}
    return Selection(rule=CHECKPOINTS[request.checkpoint], rows=rows) if rows else None


def artefact_name_of(wish: Wish, task: TaskPlan, several: bool) -> str:
    from methods.api import artefact_name

    return artefact_name(wish, task.task.name, several)


def _name(row: MethodRow) -> str:
    """The registered name, which for a third party's method has its package before it."""
    return row.spelling.split(":")[0]


def _without_auto(request: Request) -> Request:
    if "auto" not in (request.data, request.teacher):
        return request
    import torch

    accelerator = request.device != "cpu" and torch.accelerator.is_available()
    resolved = resolve_auto(request, accelerator, accelerator and not request.offline and _hub_answers())
    if resolved.notes == request.notes:
        return resolved
    from bench.plan.estimate import real_glue_seconds
    from bench.progress import duration

    rows = len(parse_rows(request.methods)[0]) if request.methods else 0
    took = duration(real_glue_seconds(request, rows))
    return replace(
        resolved, notes=(*resolved.notes[:-1], f"{resolved.notes[-1]} (about {took} on this machine, all of GLUE)")
    )


def _hub_answers() -> bool:
    """One small question to the hub, three seconds at most."""
    import urllib.error
    import urllib.request

    from huggingface_hub import constants

    question = urllib.request.Request(constants.ENDPOINT, method="HEAD")
    try:
        with urllib.request.urlopen(question, timeout=3.0) as answer:
            return bool(answer.status < 400)
    except (urllib.error.URLError, OSError, ValueError):
        return False


def _tasks(request: Request, wanted: list[tuple[Task, bool]], numeric: Numeric) -> tuple[list[TaskPlan], list[str]]:
    from bench.data.checkpoints import find
    from bench.data.sources import ReportedHalf, held_back, source_for

    planned: list[TaskPlan] = []
    absent: list[str] = []
    for task, by_name in wanted:
        source = source_for(task, request.data, request.offline)
        if request.held_back:
            task, source = held_back(task, source)
        rule = CHECKPOINTS[request.checkpoint]
        whole = source
        if rule == "half":
            source = ReportedHalf(source)
        labelled = [e for e in task.evaluation if e.labelled]
        splits: list[str | EvaluationSet] = ["train", *labelled]
        lacking = [s for s in splits if not source.has(task, s)]
        if lacking and not by_name:
            absent.append(task.name)
            continue
        train = source.load(task, "train").limited(request.max_train_rows)
        evaluation = {e.name: source.load(task, e) for e in task.evaluation if e.labelled or source.has(task, e)}
        choosing = whole.load(task, labelled[0]) if rule else None
        if choosing is not None and rule == "half":
            choosing = choosing.halves()[0]
        checkpoint = find(request.teacher, task, request.offline)
        recipe = recipe_of(request, source.epochs, checkpoint.config.max_position_embeddings)
        tuned = replace(recipe, name="common", learning_rate=TEACHER_LEARNING_RATES[checkpoint.width < 512])
        data = DataIdentity(
            name=source.name,
            slug=source.slug,
            train=train.fingerprint(),
            max_train_rows=request.max_train_rows,
            evaluation={name: split.fingerprint() for name, split in evaluation.items()},
            rows={"train": len(train), **{name: len(split) for name, split in evaluation.items()}},
        )
        planned.append(
            TaskPlan(
                task,
                source,
                train,
                evaluation,
                checkpoint,
                _teacher_identity(checkpoint, task, data, tuned, numeric),
                tuned,
                numeric,
                recipe,
                _mean_tokens(checkpoint, train, recipe.max_length),
                data,
                data,
                Augmentation(request.augment, request.augment_times) if request.augment else None,
                choosing,
            )
        )
    if not planned:
        raise InputError(
            f"--data {request.data} has none of the tasks {request.tasks}; it needs folders like rte/ with parquet files"
        )
    return planned, absent


def _teacher_identity(
    checkpoint: Checkpoint, task: Task, data: DataIdentity, recipe: Recipe, numeric: Numeric
) -> TeacherIdentity:
    if checkpoint.finetuned:
        return TeacherIdentity(name=checkpoint.name, base=checkpoint.sha256, origin="given", key=checkpoint.sha256)
    key = _teacher_key(checkpoint, task, data, recipe, numeric, 0)
    return TeacherIdentity(name=checkpoint.name, base=checkpoint.sha256, origin="fine-tuned", key=key)


def _teacher_key(
    checkpoint: Checkpoint, task: Task, data: DataIdentity, recipe: Recipe, numeric: Numeric, seed: int
) -> str:
    return digest(
        {
            "schema": SCHEMA,
            "version": TEACHER_VERSION,
            "base": checkpoint.sha256,
            "task": task.name,
            "labels": task.num_labels,
            "data": data.train,
            "recipe": recipe.as_dict(),
            "seed": seed,
            "numeric": numeric.model_dump(),
        }
    )


def _mean_tokens(checkpoint: Checkpoint, split: Split, max_length: int) -> float:
    """Tokens of an average training example, from at most 256 of them."""
    from bench.data.checkpoints import tokenizer_of
    from bench.data.encode import encode

    some = split.limited(256)
    return encode(tokenizer_of(checkpoint), some, max_length).total_tokens / len(some)


def _wishes(row: MethodRow, task: TaskPlan) -> Sequence[Wish]:
    try:
        return tuple(row.method.prepare(task.checkpoint.config))
    except ValueError as error:
        raise InputError(f"{row.spelling}: {error}") from None


def _recipe(task: TaskPlan, wishes: Sequence[Wish], pace: float) -> Recipe:
    """The students' recipe at a row's own pace; a student cut out of the teacher takes the teacher's learning rate.

    Trained weights of a wide teacher are destroyed by steps that suit a small encoder.
    """
    from methods.api import TeacherWeights

    cut = any(isinstance(wish, TeacherWeights) for wish in wishes)
    rate = task.teacher_recipe.learning_rate if cut else task.recipe.learning_rate
    return replace(task.recipe, learning_rate=rate * pace)


def _key_of(
    wish: Wish, request: Request, task: TaskPlan, tokenizer: str, numeric: Numeric, starts: dict[str, StartPlan]
) -> str:
    """The key of what a method wants prepared, known before it is made."""
    from bench.data.checkpoints import given_start
    from methods.api import CutTeacher, EnsembleTargets, FromText, GeneralStart, GivenStart, TeacherWeights

    if isinstance(wish, GivenStart):
        return given_start(wish.path, wish.shape, task.checkpoint, request.offline).sha256
    if isinstance(wish, GeneralStart | CutTeacher | FromText):
        return plan_start(wish, request, task.checkpoint, tokenizer, numeric, starts).key
    if isinstance(wish, TeacherWeights):
        return task.teacher.key if wish.tuned else task.checkpoint.sha256
    if isinstance(wish, EnsembleTargets):
        if task.teacher.origin == "given":
            raise InputError(
                f"{wish.name.replace('_', ' ')}: teachers that come tuned are one a task, no ensemble of {wish.members}; "
                f"name a checkpoint without a head as --teacher"
            )
        members = [task.teacher_key(seed) for seed in range(wish.members)]
        return digest({"schema": SCHEMA, "what": wish.name, "teachers": members, "data": task.data.train})
    return digest(
        {
            "schema": SCHEMA,
            "what": [wish.name, wish.version, dict(wish.settings)],
            "teacher": task.teacher.key,
            "data": task.data.evaluation if getattr(wish, "rows", "train") == "validation" else task.data.train,
            "tokenizer": tokenizer,
            "max_length": task.recipe.max_length,
            "numeric": numeric.model_dump(),
        }
    )


def _with_stages(rows: Sequence[MethodRow], tasks: Sequence[TaskPlan]) -> tuple[list[MethodRow], list[str]]:
    """The rows whose stages these tasks and teachers allow, and why others of ``all`` are left out.

    Raises:
        InputError: a row that was named cannot be trained.
    """
    kept, left = [], []
    for row in rows:
        try:
            for together in [tasks] if several_tasks(row) else [[task] for task in tasks]:
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

    try:
        stages = row.method.stages(setup_of(tasks, {}))
        there = {term for stage in stages for term in stage.terms}
        for drop in row.dropped:
            if not any(term == drop or term.startswith(drop + ".") for term in there):
                raise ValueError(f"there is no term {drop} to drop here; its terms are: {', '.join(sorted(there))}")
        legs_of(stages, row.dropped, recipe, *(len(task.train) for task in tasks))
    except (ValueError, CellError) as error:
        raise InputError(f"{row.spelling} on {', '.join(task.task.name for task in tasks)}: {error}") from None


def setup_of(tasks: Sequence[TaskPlan], artefacts: Mapping[str, Mapping[str, Tensor]]) -> Setup:
    """What a method is told of the task, or the tasks, of one student."""
    from methods.api import Setup

    labels = tuple(task.task.num_labels for task in tasks)
    return Setup(tasks[0].checkpoint.config, max(labels), tuple(t.task.name for t in tasks), artefacts, labels)


def _teacher_cell(task: TaskPlan, tokenizer: str, numeric: Numeric, request: Request, store: Store) -> Planned:
    settings: dict[str, Any] = {"origin": task.teacher.origin}
    cell = Cell(
        label=TEACHER,
        method=TEACHER,
        version=TEACHER_VERSION,
        settings=settings,
        tasks=(task.task.name,),
        data=task.data,
        teacher=task.teacher,
        tokenizer=tokenizer,
        recipe=task.teacher_recipe.as_dict(),
        seed=0,
        numeric=numeric,
    )
    return _planned(cell, None, request, store)


def _checkpoint_cell(row: CheckpointRow, task: TaskPlan, numeric: Numeric, request: Request, store: Store) -> Planned:
    """A finished classifier beside the others: identified by its weights, read with its own tokenizer."""
    from bench.data.checkpoints import find

    found = find(row.path, task.task, request.offline)
    if not found.finetuned:
        raise InputError(
            f"{row.spelling}: no classification head in it, so it has no answers to {task.task.name}; "
            f"a finished checkpoint is a ...ForSequenceClassification that was tuned on the task"
        )
    cell = Cell(
        label=f"{CHECKPOINT}:{found.name}",
        method=CHECKPOINT,
        version=1,
        settings={"weights": found.sha256},
        tasks=(task.task.name,),
        data=task.data,
        teacher=task.teacher,
        tokenizer=hash_of_tokenizer(found),
        recipe=task.recipe.as_dict(),
        seed=0,
        numeric=numeric,
    )
    return replace(_planned(cell, None, request, store), checkpoint=found)


def _planned(cell: Cell, row: MethodRow | None, request: Request, store: Store) -> Planned:
    record = store.find(cell)
    if record is not None and record.key != record_key(cell):
        raise InputError(f"the record in {store.folder(cell)} belongs to another cell; remove that folder")
    done = record is not None and (record.status == "ok" or (record.status == "failed" and not request.retry_failed))
    return Planned(cell, row, record, todo=request.rerun or not done)
