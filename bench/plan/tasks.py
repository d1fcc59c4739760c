"""The tasks of a plan: their examples, their teachers, and the identity of both."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from bench.cache import Slot
from bench.data.augmentation import Augmentation
from bench.data.checkpoints import hash_of_tokenizer, sha256_of
from bench.data.tasks import EvaluationSet, Task
from bench.errors import InputError
from bench.plan.artefacts import ArtefactContext, ArtefactPlans
from bench.plan.request import EPOCH_RULES, Request, recipe_of
from bench.record.cell import (
    DataIdentity,
    NumericIdentity,
    TeacherIdentity,
)
from bench.record.code import AUGMENTATION, TEACHER
from bench.record.keys import SCHEMA, digest
from bench.record.recipe import TEACHER_LEARNING_RATES, WIDE, Recipe

if TYPE_CHECKING:
    from torch import Tensor

    from bench.data.checkpoints import Checkpoint
    from bench.data.sources import DataSource
    from bench.data.table_files import Split
    from bench.plan.outputs_plan import OutputsPlan
    from methods.api import Setup

TEACHER_VERSION = 1
AUGMENTATION_VERSION = 2


@dataclass
class TaskPlan:
    """One task: its examples and its teacher."""

    task: Task
    source: DataSource
    train: Split
    evaluation: dict[str, Split]
    checkpoint: Checkpoint
    teacher: TeacherIdentity
    teacher_recipe: Recipe
    numeric: NumericIdentity
    recipe: Recipe
    mean_tokens: float
    data: DataIdentity
    """what students are trained on and scored with"""
    unaugmented_data: DataIdentity
    """the same before augmentation: what teachers are tuned on"""
    augmentation: Augmentation | None = None
    selection_split: Split | None = None
    """the rows that choose which epoch of a student is shipped; None for the last"""
    outputs: OutputsPlan | None = None
    """the teacher's outputs that are kept in a file; None where the teacher answers in every step"""
    masked_head: str = ""
    """key of the masked-language head that augmentation asks; "" where it asks none"""

    @property
    def artefact_context(self) -> ArtefactContext:
        """What artefacts are planned for: this task with its teacher's checkpoint."""
        return ArtefactContext(self.checkpoint, self.tokenizer, self.numeric, self)

    @property
    def tokenizer(self) -> str:
        """sha256 of what decides the teacher's token ids."""
        return hash_of_tokenizer(self.checkpoint)

    def teacher_slot(self, seed: int) -> Slot:
        """Where the teacher tuned with this seed is kept; 0 is the one that students share."""
        key = _teacher_key(self.checkpoint, self.task, self.unaugmented_data, self.teacher_recipe, self.numeric, seed)
        title = f"teacher of {self.task.name}" + (f", seed {seed}" if seed else "")
        return Slot("teachers", key, TEACHER, title)

    @property
    def augmentation_slot(self) -> Slot:
        """Where the augmented rows are kept."""
        return Slot("augmented", self.data.train, AUGMENTATION, f"augmented rows of {self.task.name}")


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
    from bench.data.sources import ReportedHalf, held_back, source_for

    planned: list[TaskPlan] = []
    absent: list[str] = []
    for task, by_name in wanted:
        source = source_for(task, request.data, request.offline)
        if request.held_back:
            task, source = held_back(task, source)
        rule = EPOCH_RULES[request.checkpoint]
        whole = source
        if rule == "half":
            source = ReportedHalf(source)
        labelled = [e for e in task.evaluation if e.labelled]
        splits: list[str | EvaluationSet] = ["train", *labelled]
        lacking = [s for s in splits if not source.has(task, s)]
        if lacking and not by_name:
            absent.append(task.name)
            continue
        all_rows = source.load(task, "train")
        train = all_rows.limited(request.max_train_rows)
        evaluation = {e.name: source.load(task, e) for e in task.evaluation if e.labelled or source.has(task, e)}
        selection_split = whole.load(task, labelled[0]) if rule else None
        if selection_split is not None and rule == "half":
            selection_split = selection_split.halves()[0]
        checkpoint = find(request.teacher, task, request.offline)
        recipe = recipe_of(request, source.epochs, checkpoint.config.max_position_embeddings)
        plain = recipe_of(
            replace(request, numbers=(), optimizer=None), source.epochs, checkpoint.config.max_position_embeddings
        )
        tuned = replace(plain, name="common", learning_rate=TEACHER_LEARNING_RATES[checkpoint.width < WIDE])
        data = DataIdentity(
            name=source.name,
            slug=source.slug,
            train=train.fingerprint(),
            max_train_rows=request.max_train_rows if len(train) < len(all_rows) else None,
            evaluation={name: split.fingerprint() for name, split in evaluation.items()},
            rows={"train": len(train), **{name: len(split) for name, split in evaluation.items()}},
            task_file=task.file,
        )
        planned.append(
            TaskPlan(
                task=task,
                source=source,
                train=train,
                evaluation=evaluation,
                checkpoint=checkpoint,
                teacher=_teacher_identity(checkpoint, task, data, tuned, numeric),
                teacher_recipe=tuned,
                numeric=numeric,
                recipe=recipe,
                mean_tokens=mean_tokens(checkpoint, task, train, recipe.max_length),
                data=data,
                unaugmented_data=data,
                augmentation=request.augmentation,
                selection_split=selection_split,
            )
        )
    if not planned:
        raise InputError(
            f"--data {request.data} has none of the tasks {request.tasks}; it needs folders like rte/ with parquet files"
        )
    return planned, absent


def _teacher_identity(
    checkpoint: Checkpoint, task: Task, data: DataIdentity, recipe: Recipe, numeric: NumericIdentity
) -> TeacherIdentity:
    if checkpoint.finetuned:
        return TeacherIdentity(name=checkpoint.name, base=checkpoint.sha256, origin="given", key=checkpoint.sha256)
    key = _teacher_key(checkpoint, task, data, recipe, numeric, 0)
    return TeacherIdentity(name=checkpoint.name, base=checkpoint.sha256, origin="fine-tuned", key=key)


def _teacher_key(
    checkpoint: Checkpoint, task: Task, data: DataIdentity, recipe: Recipe, numeric: NumericIdentity, seed: int
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
            "numeric": numeric.identity(),
        }
    )


def mean_tokens(checkpoint: Checkpoint, task: Task, split: Split, max_length: int) -> float:
    """Tokens of an average training example, from at most 256 of them.

    Raises:
        InputError: no tokenizer, or one that does not know the words of the text; the message names the checkpoint.
    """
    from bench.data.checkpoints import reading_tokenizer
    from bench.data.encoding import encode

    some = split.limited(256)
    try:
        return encode(reading_tokenizer(checkpoint), some, max_length).total_tokens / len(some)
    except InputError as error:
        asked = checkpoint.asked
        raise InputError(str(error) if str(error).startswith(asked) else f"{asked} on {task.name}: {error}") from None


def augment(task: TaskPlan, plans: ArtefactPlans) -> None:
    """Give a task the identity of its augmented rows: of what they are made from and how, known before they are made.

    Raises:
        InputError: the teacher is of a form that cannot be asked.
    """
    from methods.api import MethodError
    from methods.masked import TeacherHead

    augmentation = task.augmentation
    if augmentation is None:
        return
    head = ""
    if augmentation.kind == "masked":
        try:
            head = plans.add(TeacherHead(), task.artefact_context).key
        except MethodError as error:
            raise InputError(f"--augment masked: {error}; --augment rules needs none") from None
    made = {
        "what": ["augmentation", AUGMENTATION_VERSION, augmentation.kind, augmentation.times, augmentation.seed],
        "train": task.unaugmented_data.train,
        "head": head,
        "teacher": task.teacher.key if augmentation.kind == "rules" else task.checkpoint.sha256,
    }
    words = ""
    if augmentation.vectors is not None:
        made["vectors"] = sha256_of(augmentation.vectors)
        words = f"-with-{augmentation.vectors.name}"
    task.masked_head = head
    task.data = task.unaugmented_data.model_copy(
        update={
            "name": f"{task.unaugmented_data.name}, augmented {augmentation.times} times by {augmentation.kind}"
            + (f" with {augmentation.vectors.name}" if augmentation.vectors else ""),
            "slug": f"{task.unaugmented_data.slug}-{augmentation.kind}-augmented-{augmentation.times}{words}",
            "train": digest({"schema": SCHEMA, **made}),
        }
    )


def setup_of(tasks: Sequence[TaskPlan], artefacts: Mapping[str, Mapping[str, Tensor]]) -> Setup:
    """What a method receives of the task, or the tasks, of one student."""
    from methods.api import Setup

    labels = tuple(task.task.num_labels for task in tasks)
    return Setup(tasks[0].checkpoint.config, max(labels), tuple(t.task.name for t in tasks), artefacts, labels)
