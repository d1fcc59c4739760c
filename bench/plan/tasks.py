"""The tasks of a plan: their examples, their teachers, and the identity of both."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from bench.data.checkpoints import hash_of_tokenizer, longest_input, sha256_of
from bench.data.corpus import TOKENS_A_WORD
from bench.data.tasks import EvaluationSet, Task
from bench.errors import InputError
from bench.plan.artefacts import ArtefactPlanner
from bench.plan.plan import TaskPlan
from bench.plan.request import EPOCH_RULES, Request, recipe_of
from bench.record.cell import DataIdentity, NumericIdentity, TeacherIdentity
from bench.record.keys import SCHEMA, digest
from bench.record.recipe import TEACHER_LEARNING_RATES, WIDE, Recipe

if TYPE_CHECKING:
    from torch import Tensor

    from bench.data.checkpoints import Checkpoint
    from bench.data.sources import DataSource
    from bench.data.table_files import Split
    from methods.api import Setup

AUGMENTATION_VERSION = 2


def plan_tasks(
    request: Request, wanted: list[tuple[Task, bool]], numeric: NumericIdentity
) -> tuple[list[TaskPlan], list[str]]:
    """The tasks of a request with their data and teachers, and the names of those that are left out.

    Args:
        wanted: tasks, and whether each was typed by its own name. One of a group is left out where its data are absent.

    Raises:
        InputError: the data or the teacher of a task cannot be used.
    """
    from bench.data.checkpoints import find
    from bench.data.sources import Folder, held_back, reported_half, source_for
    from bench.data.target_scale import scale_of

    planned: list[TaskPlan] = []
    absent: list[str] = []
    rule = EPOCH_RULES[request.checkpoint]
    for task, by_name in wanted:
        source = source_for(task, request.data, request.offline)
        if task.writes and (
            request.held_back or rule or request.augment or request.curves or request.save_students
        ):
            raise InputError(
                f"{task.name}: tune, --checkpoint, --augment, --curves and --save-students are not for tasks whose answers are texts"
            )
        if task.spans and request.augment:
            raise InputError(
                f"--augment is for tasks of classes and scores; leave it out for {task.name}"
            )
        revisions = (
            {source.repository: source.revision}
            if isinstance(source, Folder) and source.revision
            else {}
        )
        if request.held_back:
            task, source = held_back(task, source, request.held_back_draw)
        if rule == "half":
            source = reported_half(source)
        labelled = [each for each in task.evaluation if each.labelled]
        splits: list[str | EvaluationSet] = ["train", *labelled]
        if not by_name and not all(source.has(task, split) for split in splits):
            absent.append(task.name)
            continue
        all_rows = source.load(task, "train")
        train = all_rows.limited(request.max_train_rows)
        scale = scale_of(task, train)
        if scale is not None:
            train = scale.of_split(train)
        evaluation = {
            e.name: source.load(task, e)
            for e in task.evaluation
            if e.labelled or source.has(task, e)
        }
        checkpoint = find(request.teacher, task, request.offline, outline=request.outline)
        recipe, tuned = _recipes(request, task, source, checkpoint)
        data = DataIdentity(
            name=source.name,
            slug=source.slug,
            train=train.fingerprint(),
            max_train_rows=request.max_train_rows if len(train) < len(all_rows) else None,
            evaluation={name: split.fingerprint() for name, split in evaluation.items()},
            rows={"train": len(train), **{name: len(split) for name, split in evaluation.items()}},
            task_file=task.file,
        )
        given = TeacherIdentity(
            name=checkpoint.name, base=checkpoint.sha256, origin="given", key=checkpoint.sha256
        )
        plan = TaskPlan(
            task=task,
            source=source,
            rule=rule,
            checkpoint=checkpoint,
            tokenizer=hash_of_tokenizer(checkpoint),
            teacher=given,
            teacher_recipe=tuned,
            numeric=numeric,
            recipe=recipe,
            mean_tokens=mean_tokens(checkpoint, task, train, recipe.max_length),
            data=data,
            unaugmented_data=data,
            revisions=revisions
            | ({checkpoint.name: checkpoint.revision} if checkpoint.revision else {}),
            scale=scale,
            accepts_suspect_teacher=request.accept_suspect_teacher,
            augmentation=request.augmentation,
        )
        if not checkpoint.finetuned and not task.writes:
            plan.teacher = given.model_copy(
                update={"origin": "fine-tuned", "key": plan.teacher_slot(0).key}
            )
        plan.train, plan.evaluation = train, evaluation  # read already
        planned.append(plan)
    if not planned:
        raise InputError(
            f"--data {request.data} has none of the tasks {request.tasks}; it needs folders like rte/ with parquet files"
        )
    return planned, absent


def _recipes(
    request: Request, task: Task, source: DataSource, checkpoint: Checkpoint
) -> tuple[Recipe, Recipe]:
    """Of students that read with this checkpoint's tokenizer, and of the checkpoint's own fine-tuning."""
    longest = longest_input(checkpoint.config)
    recipe = recipe_of(request, source.epochs, longest, task.max_length)
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
    """The task as a row reads it that has an encoder of its own: the same examples and teacher, other tokens and learning rate.

    Raises:
        InputError: no such encoder, or one that cannot read the task.
    """
    from bench.data.checkpoints import find, refuse_head_of_another_kind

    if request.augment:
        raise InputError(
            f"encoder={name}: --augment makes examples for students with the teacher's vocabulary; leave one out"
        )
    asked = f"encoder={name}"
    checkpoint = find(
        name,
        task.task if task.task.spans else None,
        request.offline,
        asked=asked,
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
        revisions=task.revisions
        | ({checkpoint.name: checkpoint.revision} if checkpoint.revision else {}),
    )
    own.train, own.evaluation = task.train, task.evaluation  # read already
    return own


def share_cut(checkpoint: Checkpoint, split: Split, max_length: int) -> float:
    """The share of training examples, from at most 256 of them, of which a model reads the beginning alone."""
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

    some = split.limited(256)
    if checkpoint.outline:
        words = sum(
            len(text.split()) for texts in (some.first, some.second or ()) for text in texts
        )
        return min(TOKENS_A_WORD * words / len(some) + 2, max_length)
    try:
        encoded = encode(tokenizer_of(checkpoint), some, max_length)
        refuse_segments_without_rows(checkpoint.config, encoded.segments, checkpoint.asked)
        return encoded.total_tokens / len(some)
    except InputError as error:
        asked = checkpoint.asked
        raise InputError(
            str(error) if str(error).startswith(asked) else f"{asked} on {task.name}: {error}"
        ) from None


def augment(task: TaskPlan, planner: ArtefactPlanner) -> None:
    """Give a task the identity of its augmented rows: of what they are made from and how, known before they are made.

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
    words = ""
    if augmentation.vectors is not None:
        identity["vectors"] = sha256_of(augmentation.vectors)
        words = f"-with-{augmentation.vectors.name}"
    task.augmentation_identity = identity
    task.data = task.unaugmented_data.model_copy(
        update={
            "name": f"{task.unaugmented_data.name}, augmented {augmentation.times} times by {augmentation.kind}"
            + (f" with {augmentation.vectors.name}" if augmentation.vectors else ""),
            "slug": f"{task.unaugmented_data.slug}-{augmentation.kind}-augmented-{augmentation.times}{words}",
            "train": digest(identity),
        }
    )


def setup_of(tasks: Sequence[TaskPlan], artefacts: Mapping[str, Mapping[str, Tensor]]) -> Setup:
    """What a method receives of the task, or the tasks, of one student."""
    from methods.api import Setup

    labels, names = (
        tuple(task.task.num_labels for task in tasks),
        tuple(task.name for task in tasks),
    )
    spans = any(task.task.spans for task in tasks)
    return Setup(tasks[0].checkpoint.config, max(labels), names, artefacts, labels, spans)
