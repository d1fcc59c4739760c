"""The tasks of a plan: their examples, their teachers, and the identity of both."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from bench.data.checkpoints import hash_of_tokenizer, longest_input, sha256_of
from bench.data.corpus import TOKENS_A_WORD
from bench.data.tasks import EvaluationSet, Task
from bench.data.word_vectors import head_of
from bench.errors import InputError
from bench.plan.artefacts import ArtefactPlanner
from bench.plan.plan import TaskPlan
from bench.record.cell import DataIdentity, NumericIdentity, TeacherIdentity
from bench.record.keys import SCHEMA, digest
from bench.record.recipe import TEACHER_LEARNING_RATES, WIDE, Recipe
from bench.record.task_facts import Augmented, augmented_slug
from bench.record.varied import VARIED_TEACHER
from bench.request import Request, recipe_of
from bench.request.choices import EPOCH_RULES

if TYPE_CHECKING:
    from torch import Tensor

    from bench.data.augmentation import Augmentation
    from bench.data.checkpoints import Checkpoint
    from bench.data.sources import DataSource
    from bench.data.table_files import Split
    from bench.data.target_scale import TargetScale
    from methods.api import Setup

AUGMENTATION_VERSION = 2


def plan_tasks(
    request: Request, wanted: list[tuple[Task, bool]], numeric: NumericIdentity
) -> tuple[list[TaskPlan], list[str]]:
    """The tasks of a request with their data and teachers, and the names of those that are left
    out.

    Args:
        wanted: tasks, and whether each was typed by its own name. One of a group is left out where
            its data are absent.

    Raises:
        InputError: the data or the teacher of a task cannot be used.
    """
    planned: list[TaskPlan] = []
    absent: list[str] = []
    for task, by_name in wanted:
        found = _examples_of(task, by_name, request)
        if found is None:
            absent.append(task.name)
        else:
            planned.append(_planned(found, request, numeric))
    if not planned:
        raise InputError(
            f"--data {request.data} has none of the tasks {request.tasks}; it needs folders like "
            "rte/ with parquet files"
        )
    return planned, absent


@dataclass(frozen=True)
class _Examples:
    """A task with the examples that its students are trained on and scored with."""

    task: Task
    source: DataSource
    train: Split
    """with standardised targets where there is a scale"""
    evaluation: dict[str, Split]
    scale: TargetScale | None
    max_train_rows: int | None
    """the limit, where it left examples out"""
    revisions: dict[str, str]
    """the data set on the hub -> its commit"""


def _examples_of(task: Task, by_name: bool, request: Request) -> _Examples | None:
    """Read the examples of a task; None for one of a group whose data are absent.

    Args:
        by_name: whether it was typed by its own name.

    Raises:
        InputError: its data cannot be used, or an option does not suit it.
    """
    from bench.data.sources import Folder, held_back, reported_half, source_for
    from bench.data.target_scale import scale_of

    # where they come from
    source = source_for(task, request.data, request.offline)
    _check_options(task, request)
    revisions = {}
    if isinstance(source, Folder) and source.revision:
        revisions[source.repository] = source.revision
    if request.held_back:
        task, source = held_back(task, source, request.held_back_draw)
    if EPOCH_RULES[request.checkpoint] == "half":
        source = reported_half(source)
    if not by_name and not _has_labelled_splits(source, task):
        return None

    # what students are trained on
    all_rows = source.load(task, "train")
    train = all_rows.limited(request.max_train_rows, task.draws_by_class)
    # a limit that leaves nothing out is no part of what identifies the data
    limit = request.max_train_rows if len(train) < len(all_rows) else None
    # from the rows that are trained on, never from those that are scored
    scale = scale_of(task, train)
    if scale is not None:
        train = scale.of_split(train)

    # what they are scored with; sets without public labels may be absent
    evaluation = {}
    for each in task.evaluation:
        if each.labelled or source.has(task, each):
            evaluation[each.name] = source.load(task, each)
    return _Examples(task, source, train, evaluation, scale, limit, revisions)


def _check_options(task: Task, request: Request) -> None:
    """Raises InputError where an option of the request is not for tasks of this kind."""
    for_classes = (
        request.held_back
        or EPOCH_RULES[request.checkpoint]
        or request.augment
        or request.curves
        or request.save_students
    )
    if task.writes and for_classes:
        raise InputError(
            f"{task.name}: tune, --checkpoint, --augment, --curves and --save-students are not for "
            "tasks whose answers are texts"
        )
    if task.spans and request.augment:
        raise InputError(
            f"--augment is for tasks of classes and scores; leave it out for {task.name}"
        )


def _has_labelled_splits(source: DataSource, task: Task) -> bool:
    """Whether a source has what a task is trained on and scored with."""
    labelled = [each for each in task.evaluation if each.labelled]
    splits: list[str | EvaluationSet] = ["train", *labelled]
    return all(source.has(task, split) for split in splits)


def _planned(examples: _Examples, request: Request, numeric: NumericIdentity) -> TaskPlan:
    """The plan of a task, with its teacher.

    Raises:
        InputError: there is no such teacher, or it cannot read the task.
    """
    from bench.data.checkpoints import find

    # the teacher, and how it and its students are trained
    task = examples.task
    source = examples.source
    checkpoint = find(request.teacher, task, request.offline, outline=request.outline)
    recipe, tuned = _recipes(request, task, source, checkpoint)
    teacher = TeacherIdentity(
        name=checkpoint.name, base=checkpoint.sha256, origin="given", key=checkpoint.sha256
    )

    # what identifies the examples
    sets = {"train": examples.train, **examples.evaluation}
    data = DataIdentity(
        name=source.name,
        slug=source.slug,
        train=examples.train.fingerprint(),
        max_train_rows=examples.max_train_rows,
        evaluation={name: split.fingerprint() for name, split in examples.evaluation.items()},
        rows={name: len(split) for name, split in sets.items()},
        task_file=task.file,
    )
    plan = TaskPlan(
        task=task,
        source=source,
        rule=EPOCH_RULES[request.checkpoint],
        checkpoint=checkpoint,
        tokenizer=hash_of_tokenizer(checkpoint),
        teacher=teacher,
        teacher_recipe=tuned,
        numeric=numeric,
        recipe=recipe,
        mean_tokens=mean_tokens(checkpoint, task, examples.train, recipe.max_length),
        data=data,
        unaugmented_data=data,
        revisions=examples.revisions | _revision(checkpoint),
        scale=examples.scale,
        accepts_suspect_teacher=request.accept_suspect_teacher,
        augmentation=_augmentation(request),
    )
    # a teacher that is fine-tuned here has the key of its folder
    if not checkpoint.finetuned and not task.writes:
        key = plan.teacher_slot(0).key
        plan.teacher = teacher.model_copy(update={"origin": "fine-tuned", "key": key})
    # read already
    plan.train = examples.train
    plan.evaluation = examples.evaluation
    return plan


def _augmentation(request: Request) -> Augmentation | None:
    """How training rows are multiplied; None where they are not.

    Raises:
        InputError: the word vectors cannot be read.
    """
    from bench.data.augmentation import Augmentation

    if not request.augment:
        return None
    if request.word_vectors is not None:
        head_of(request.word_vectors)
    return Augmentation(request.augment, request.augment_times, vectors=request.word_vectors)


def _revision(checkpoint: Checkpoint) -> dict[str, str]:
    """A checkpoint of the hub -> its commit."""
    return {checkpoint.name: checkpoint.revision} if checkpoint.revision else {}


def _recipes(
    request: Request, task: Task, source: DataSource, checkpoint: Checkpoint
) -> tuple[Recipe, Recipe]:
    """The recipe of students that read with this checkpoint's tokenizer, and that of its own
    fine-tuning."""
    # the students': what the request says
    longest = longest_input(checkpoint.config)
    recipe = recipe_of(request, source.epochs, longest, task.max_length)
    # the teacher's: its numbers are no one's choice
    plain = recipe_of(
        replace(request, numbers=(), optimizer=None), source.epochs, longest, task.max_length
    )
    rate = TEACHER_LEARNING_RATES[checkpoint.width < WIDE]
    plain = replace(plain, name="common", learning_rate=rate)
    return _of_task(recipe, task), _of_task(plain, task)


def _of_task(recipe: Recipe, task: Task) -> Recipe:
    """The recipe with what a task says itself of its training."""
    return replace(recipe, truncation=task.truncation, class_weights=task.weights)


def with_encoder(task: TaskPlan, name: str, request: Request) -> TaskPlan:
    """The task as a row reads it that has an encoder of its own: the same examples and teacher,
    other tokens and learning rate.

    Raises:
        InputError: no such encoder, or one that cannot read the task.
    """
    from bench.data.checkpoints import find, refuse_head_of_another_kind

    if request.augment:
        raise InputError(
            f"encoder={name}: --augment makes examples for students with the teacher's "
            "vocabulary; leave one out"
        )
    checkpoint = find(
        name,
        task.task if task.task.spans else None,
        request.offline,
        asked=f"encoder={name}",
        outline=request.outline,
    )
    refuse_head_of_another_kind(checkpoint, task.task.num_labels)
    recipe, tuned = _recipes(request, task.task, task.source, checkpoint)
    own = replace(
        task,
        checkpoint=checkpoint,
        tokenizer=hash_of_tokenizer(checkpoint),
        recipe=recipe,
        teacher_recipe=tuned,
        mean_tokens=mean_tokens(checkpoint, task.task, task.train, recipe.max_length),
        revisions=task.revisions | _revision(checkpoint),
    )
    # read already
    own.train = task.train
    own.evaluation = task.evaluation
    return own


class TasksOfSeeds:
    """The tasks of a plan as each seed learns them: where teachers vary, from one of its own."""

    def __init__(self, request: Request) -> None:
        self._has_teachers = VARIED_TEACHER in request.vary
        self._made: dict[tuple[int, int], TaskPlan] = {}

    def of(self, task: TaskPlan, seed: int) -> TaskPlan:
        """A task as a seed learns it: always the same object.

        Raises:
            InputError: its teacher is not fine-tuned here.
        """
        if not self._has_teachers:
            return task
        if task.teacher.origin == "given":
            raise InputError(
                f"--vary {VARIED_TEACHER}: the teacher of {task.shown} is not fine-tuned here, so "
                "that it is one for all seeds; name a checkpoint without a head as --teacher, or "
                "leave the option out"
            )
        # the teacher of seed 0 is the one that serves all seeds elsewhere
        if seed == 0:
            return task
        place = (id(task), seed)
        if place not in self._made:
            key = task.teacher_slot(seed).key
            teacher = task.teacher.model_copy(update={"key": key})
            own = replace(task, teacher=teacher, teacher_seed=seed)
            # read already
            own.train = task.train
            own.evaluation = task.evaluation
            self._made[place] = own
        return self._made[place]


def share_cut(checkpoint: Checkpoint, split: Split, max_length: int) -> float:
    """The share of training examples, from at most 256 of them, of which a model reads the
    beginning alone."""
    from bench.data.checkpoints import tokenizer_of
    from bench.data.encoding import encode

    tokens = encode(tokenizer_of(checkpoint), split.limited(256), max_length + 1).tokens
    return sum(len(each) > max_length for each in tokens) / len(tokens)


def mean_tokens(checkpoint: Checkpoint, task: Task, split: Split, max_length: int) -> float:
    """Tokens of an average training example, from at most 256 of them.

    Raises:
        InputError: no tokenizer, or one that does not know the words of the text, or marks more
            kinds of segments than the model has; the message names the checkpoint.
    """
    from bench.data.checkpoints import tokenizer_of
    from bench.data.encoding import encode
    from bench.data.vocabulary import refuse_segments_without_rows

    # without a tokenizer words are counted
    some = split.limited(256)
    if checkpoint.outline:
        texts = [*some.first, *(some.second or ())]
        words = sum(len(text.split()) for text in texts)
        return min(TOKENS_A_WORD * words / len(some) + 2, max_length)
    try:
        encoded = encode(tokenizer_of(checkpoint), some, max_length)
        refuse_segments_without_rows(checkpoint.config, encoded.segments, checkpoint.asked)
        return encoded.total_tokens / len(some)
    except InputError as error:
        message = str(error)
        if not message.startswith(checkpoint.asked):
            message = f"{checkpoint.asked} on {task.name}: {message}"
        raise InputError(message) from None


def augment(task: TaskPlan, planner: ArtefactPlanner) -> None:
    """Give a task the identity of its augmented rows: of what they are made from and how, known
    before they are made.

    Raises:
        InputError: the teacher is of a form that cannot be asked.
    """
    from methods.core.masked import TeacherHead

    augmentation = task.augmentation
    if augmentation is None:
        return
    if augmentation.kind == "masked":
        family = task.checkpoint.config.model_type
        # words and pairs of sentences are put together from its pieces
        if family != "bert":
            raise InputError(
                f"--augment masked: a BERT is asked, and this teacher is a {family}; "
                "--augment rules needs none"
            )
        try:
            task.masked_head = planner.add(TeacherHead(), task.checkpoint, task)
        except ValueError as error:
            raise InputError(f"--augment masked: {error}; --augment rules needs none") from None
    # what the rows are made from and how
    identity = {
        "schema": SCHEMA,
        "what": [
            "augmentation",
            AUGMENTATION_VERSION,
            augmentation.kind,
            augmentation.times,
            augmentation.seed,
        ],
        "train": task.unaugmented_data.train,
        "head": task.masked_head.key if task.masked_head else "",
        "teacher": task.teacher.key if augmentation.kind == "rules" else task.checkpoint.sha256,
    }
    name = (
        f"{task.unaugmented_data.name}, augmented {augmentation.times} times by {augmentation.kind}"
    )
    vectors = ""
    if augmentation.vectors is not None:
        identity["vectors"] = sha256_of(augmentation.vectors)
        vectors = augmentation.vectors.name
        name += f" with {vectors}"
    made = Augmented(augmentation.kind, augmentation.times, vectors)
    slug = augmented_slug(task.unaugmented_data.slug, made)
    task.augmentation_identity = identity
    # students are trained on other data than the teacher
    augmented = {"name": name, "slug": slug, "train": digest(identity)}
    task.data = task.unaugmented_data.model_copy(update=augmented)


def setup_of(tasks: Sequence[TaskPlan], artefacts: Mapping[str, Mapping[str, Tensor]]) -> Setup:
    """The setup that a method receives of the task, or the tasks, of one student."""
    from methods.api import Setup

    labels = tuple(task.task.num_labels for task in tasks)
    names = tuple(task.name for task in tasks)
    spans = any(task.task.spans for task in tasks)
    return Setup(tasks[0].checkpoint.config, max(labels), names, artefacts, labels, spans)
