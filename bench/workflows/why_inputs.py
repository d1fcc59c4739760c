"""Why an input of a cell is another one: its teacher, its augmented rows, its text or its artefact, field by field."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from bench.plan.plan import ArtefactPlan, Plan, Planned, TaskPlan
from bench.plan.spelling import MethodRow
from bench.record.cell import TEACHER, Cell
from bench.record.differences import ABSENT, DifferingField, field_differences, identity
from bench.record.schema import Record
from bench.record.store import Store
from bench.record.task_facts import data_facts

SHORT = 12
"""Digits of a hash that a reader is shown."""
OF_THE_TEACHER = ("tasks", "teacher.base", "data", "version", "recipe.", "seed", "numeric.")
"""Fields of a teacher's cell that its tuned weights are made from."""


NUMERICS = {"precision": "precision", "attention": "attention", "threads": "number of threads", "device": "device"}
"""Fields of a cell's numerics -> what they are, for a reader."""
ALL_OF = {"recipe.": "the recipe", "numeric.": "the numerics"}
"""Groups of fields that are named together where they are the same."""


SUITE = "sentences of the sample suite"


@dataclass(frozen=True)
class ComparedInputs:
    """What something is made from, where its key differs: what of it differs, what is the same, and what is not known."""

    differ: tuple[str, ...] = ()
    same: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()

    def describe(self) -> str:
        parts = (("differing", self.differ), ("the same", self.same), ("not known", self.unknown))
        return "; ".join(f"{name}: {', '.join(those)}" for name, those in parts if those)


def shown(value: Any) -> str:
    """A field's value for a reader: the beginning of a hash, a search by what was tried."""
    if isinstance(value, str) and len(value) == 64:
        return value[:SHORT]
    if isinstance(value, Mapping) and "trials" in value:
        return f"{value['of']}, best of {len(value['trials'])}"
    if isinstance(value, list | tuple):
        return ", ".join(map(shown, value)) or "none"
    return "none" if value is None or value == "" else str(value)


def inputs_of(
    one: DifferingField, record: Record, cell: Cell, planned: Planned, plan: Plan, store: Store
) -> ComparedInputs | None:
    """What something prepared is made from, where its key is a difference; None for a field that has no inputs."""
    if ABSENT in (one.first, one.second):
        return None
    task = next(task for task in plan.tasks if (task.name,) == cell.tasks)
    if one.field == "teacher.key":
        return _of_teacher(task.name, one.first, record, plan, store)
    if one.field.startswith("together.") and one.field.endswith(".teacher"):
        return _of_teacher(one.field.split(".")[1], one.first, record, plan, store)
    if one.field == "data" and task.augmentation is not None and data_facts(record.cell.data.slug).augmented:
        return _of_augmented(record, task)
    name = one.field.removeprefix("artefacts.")
    if name == one.field or not isinstance(planned.row, MethodRow):
        return None
    return _of_artefact(name, record, cell, planned, plan, store)


def _of_teacher(task: str, key: str, record: Record, plan: Plan, store: Store) -> ComparedInputs:
    """Of the tuned teacher of a task: its own record says all; without one, the student's cell says some of it.

    Args:
        key: of the teacher that the record's student had.
    """
    ours = _alone(record.cell, task)
    today = next(p.cell for p in plan.cells if p.cell.method == TEACHER and p.cell.tasks == (task,))
    if "given" in (ours.teacher.origin, today.teacher.origin):
        return ComparedInputs(differ=("the checkpoint, since one of the two teachers is used as it came",))
    teachers = (r.cell for r in store.records() if r.cell.method == TEACHER and r.cell.tasks == (task,))
    tuned = next((cell for cell in teachers if cell.teacher.key == key), None)
    of_record, of_plan = identity(tuned or ours), identity(today)
    fields = [name for name in dict.fromkeys([*of_record, *of_plan]) if name.startswith(OF_THE_TEACHER)]
    unknown = []
    if tuned is None:  # a student has a recipe, a version and a seed of its own
        fields = [name for name in fields if not name.startswith(("recipe.", "version", "seed"))]
        unknown.append("its recipe and version, because its own record is not in the folder")
    if data_facts(ours.data.slug).augmented:  # these rows are the students'
        fields.remove("data")
        unknown.append("the training examples before they were augmented")
    return _compared_fields(fields, of_record, of_plan, unknown)


def _alone(cell: Cell, task: str) -> Cell:
    """The cell of a student of several tasks, as that of one of them."""
    partner = next((partner for partner in cell.together if partner.task == task), None)
    if partner is None:
        return cell
    data = cell.data.model_copy(update={"train": partner.train, "max_train_rows": partner.max_train_rows})
    return cell.model_copy(update={"together": (), "tasks": (task,), "data": data})


def _of_augmented(record: Record, task: TaskPlan) -> ComparedInputs:
    """Of augmented rows: rules and number of variants are in the name of the data."""
    ours, today = (data_facts(slug).augmented for slug in (record.cell.data.slug, task.data.slug))
    assert ours is not None
    assert today is not None
    pairs: list[tuple[str, Any, Any]] = [
        ("the rules", ours.kind, today.kind),
        ("the number of variants", ours.times, today.times),
    ]
    if ours.vectors or today.vectors:
        pairs.append(("the name of the word vectors", ours.vectors or None, today.vectors or None))
    pairs.append(("the teacher's checkpoint", record.cell.teacher.base, task.teacher.base))
    unknown = ["the training examples before they were augmented"]
    head = task.masked_head
    if head is None:
        return _compared_pairs(pairs, unknown)
    made = record.artefacts.get(f"augmentation.{task.name}", {})
    return _compared_pairs([*pairs, *_text_pairs(made, head)], [*unknown, *_text_unknown(made, head)])


def _of_text(name: str, record: Record, cell: Cell, entry: ArtefactPlan) -> ComparedInputs:
    """Of something made from unlabelled text: the record has the names of its files and its budget, not its content."""
    ours, made = record.cell, record.artefacts.get(name, {})
    pairs = [
        ("the teacher's checkpoint", ours.teacher.base, entry.checkpoint.sha256),
        ("the tokenizer", ours.tokenizer, cell.tokenizer),
        *(
            (f"the {field}", value, cell.numeric.model_dump()[field])
            for field, value in ours.numeric.model_dump().items()
        ),
        *_text_pairs(made, entry),
    ]
    return _compared_pairs(pairs, _text_unknown(made, entry))


def _text_pairs(made: Mapping[str, Any], entry: ArtefactPlan) -> list[tuple[str, Any, Any]]:
    """The text as far as a record names it; made from the sample suite's sentences, it names no files."""
    if "text" not in made or entry.text is None:
        return []
    text = made["text"]
    return [
        ("the files of the text", text["files"] or [SUITE], list(entry.text.corpus.files) or [SUITE]),
        ("the tokens of the text", text["tokens"], entry.text.budget),
    ]


def _text_unknown(made: Mapping[str, Any], entry: ArtefactPlan) -> list[str]:
    unknown = ["the content of the text", "its recipe and version"]
    if "text" in made or entry.text is None:
        return unknown
    trained = made.get("train", {}).get("tokens")
    so_many = f" (trained on {trained:,} tokens; the plan's budget is {entry.text.budget:,})" if trained else ""
    return [f"the files and tokens of the text{so_many}", *unknown]


def _of_artefact(name: str, record: Record, cell: Cell, planned: Planned, plan: Plan, store: Store) -> ComparedInputs:
    """What an artefact is made from. One that is not kept is a view of its one input: then what that input is made from."""
    from methods.artefacts import artefact_name

    assert isinstance(planned.row, MethodRow)
    cells = [p for p in plan.cells if p.row is planned.row and p.cell.seed == cell.seed]
    task, entry = next(
        (task, entry)
        for task in plan.tasks
        for of_task in cells
        if of_task.cell.tasks == (task.name,)
        for entry in of_task.artefacts
        if artefact_name(entry.artefact, task.checkpoint.config, task.name, bool(cell.together)) == name
    )
    if not entry.is_kept:
        (source,) = entry.sources
        if source.kind == "fine_tuned":
            return _of_teacher(task.name, record.cell.artefacts[name], record, plan, store)
        if source.kind == "checkpoint":
            return ComparedInputs(differ=(f"the weights that {source.path} holds",))
        return _compared_pairs([("the teacher's checkpoint", record.cell.teacher.base, task.checkpoint.sha256)])
    if entry.task is None:
        return _of_text(name, record, cell, entry)
    return _of_task(record, cell, entry)


def _of_task(record: Record, cell: Cell, entry: ArtefactPlan) -> ComparedInputs:
    """Of something made for a task, from its teachers and rows, as far as cells have it."""
    assert entry.task is not None
    further = ("tokenizer", "recipe.batch_size", "numeric.") if "numeric" in entry.identity else ()
    of_rows = "evaluation." if "evaluation" in {source.kind for source in entry.sources} else "data"
    made_from = ("teacher.key", of_rows, "recipe.max_length", f"together.{entry.task.name}.", *further)
    first, second = identity(record.cell), identity(cell)
    fields = [field for field in dict.fromkeys([*first, *second]) if field.startswith(made_from)]
    unknown = ["its teachers of other seeds"] if any(entry.teacher_seeds) else []
    unknown += ["its own version and settings"] if isinstance(entry.identity["what"], list) else []
    unknown += ["its text"] if entry.text is not None else []
    return _compared_fields(fields, first, second, unknown)


def _compared_fields(
    fields: Iterable[str], first: Mapping[str, Any], second: Mapping[str, Any], unknown: Iterable[str] = ()
) -> ComparedInputs:
    """These fields of two identities; what is the same is named by groups."""
    fields = list(fields)
    differ = [one for one in field_differences(first, second) if one.field in fields]
    found = {one.field for one in differ}
    same: list[str] = []
    for field in (field for field in fields if field not in found):
        group = next((group for group in ALL_OF if field.startswith(group)), "")
        same.append(_group_in_words(group, found) if group else DifferingField(field, None, None).what)
    return ComparedInputs(
        tuple(f"{one.what} ({shown(one.first)} and {shown(one.second)})" for one in differ),
        tuple(dict.fromkeys(same)),
        tuple(unknown),
    )


def _group_in_words(group: str, found: Collection[str]) -> str:
    """``the rest of the numerics (precision, attention, device)``: a group without the fields that were found to differ."""
    rest = "the rest of " if any(other.startswith(group) for other in found) else ""
    alike = [words for name, words in NUMERICS.items() if f"numeric.{name}" not in found]
    return rest + ALL_OF[group] + (f" ({', '.join(alike)})" if group == "numeric." and alike else "")


def _compared_pairs(pairs: Iterable[tuple[str, Any, Any]], unknown: Iterable[str] = ()) -> ComparedInputs:
    """Named pairs of values: of the record and of the plan."""
    pairs = list(pairs)
    return ComparedInputs(
        tuple(f"{name} ({shown(ours)} and {shown(theirs)})" for name, ours, theirs in pairs if ours != theirs),
        tuple(name for name, ours, theirs in pairs if ours == theirs),
        tuple(unknown),
    )
