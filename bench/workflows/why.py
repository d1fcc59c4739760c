"""Why the cell behind a record would run again, or why it would not: its code, and where two
identities differ. Trains nothing."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import methods
from bench.cache import MADE, Slot
from bench.errors import InputError
from bench.plan.build import build
from bench.plan.from_record import request_from_record
from bench.plan.plan import Plan, Planned
from bench.plan.show import state
from bench.plan.spelling import parse_rows
from bench.record.cell import FINISHED, TEACHER, Cell, record_key
from bench.record.cell_differences import ABSENT, differences, field_differences, flat
from bench.record.code import STALE, codes_of, digest_of, other_version, state_of, state_of_record
from bench.record.schema import Record
from bench.record.store import Store
from bench.record.task_facts import data_facts, shown_task, shown_tasks
from bench.request import Request
from bench.request.recorded import row_of

SHORT = 12
"""Digits of a hash that a reader is shown."""


@dataclass(frozen=True)
class CodePart:
    """One code behind a record, and today's."""

    name: str
    state: str
    """current, stale or unknown"""
    record: str
    """the digest in the record; "" where it names none"""
    today: str
    """the digest of the same files now; "" where there is none"""


@dataclass(frozen=True)
class Difference:
    """A field in which a record's cell and the planned one differ."""

    field: str
    record: Any
    plan: Any
    inputs: Sequence[str] = ()
    """of what is prepared, where its identity differs, a line each"""

    def to_dict(self) -> dict[str, Any]:
        """The difference for programs."""
        body = {"field": self.field, "record": self.record, "plan": self.plan}
        return body | {"inputs": list(self.inputs)} if self.inputs else body


@dataclass(frozen=True)
class Explanation:
    """Why a run would find a record, or train its cell again."""

    record: Record
    code_parts: Sequence[CodePart]
    """every code behind the record"""
    verdict: str
    """what a run does, and why"""
    not_compared: Sequence[str]
    """what of the two cells cannot be compared, a line each"""
    again: bool = True
    """whether a run makes the cell"""
    planned_key: str = ""
    """the key of the planned cell's record; "" where no plan has the row"""
    differences: Sequence[Difference] = ()

    @property
    def code(self) -> str:
        """The state of the record's code: current, stale or unknown."""
        return state_of_record(self.record)

    def to_dict(self) -> dict[str, Any]:
        """The explanation for programs."""
        body: dict[str, Any] = {
            "key": self.record.key,
            "row": self.record.row,
            "tasks": self.record.cell.tasks,
            "data": self.record.cell.data.slug,
            "seed": self.record.cell.seed,
            "status": self.record.status,
            "code": self.code,
            "version": other_version(self.record),
            "commit": self.record.code.get("commit"),
            "code_parts": [asdict(part) for part in self.code_parts],
            "again": self.again,
            "differences": [difference.to_dict() for difference in self.differences],
            "not_compared": list(self.not_compared),
            "verdict": self.verdict,
        }
        if self.planned_key:
            body["planned_key"] = self.planned_key
        return body


def why(key: str, results: Path, request: Request, typed: Collection[str] = ()) -> Explanation:
    """Judge a record's code, and compare its cell with the one that a run of these options plans in
    its place.

    Args:
        key: the beginning of the record's key.
        request: what was typed; what was not typed is as the record has it, where it says it.
        typed: names of the fields of ``request`` that somebody typed, of those that a record
            answers too.

    Raises:
        InputError: no such record, or options of which no plan can be made.
    """
    # the record and its code
    store = Store(results)
    record = store.find_by_key(key)
    parts = list(code_parts(record))
    impossible = _no_row_today(record, typed)
    if impossible:
        return Explanation(record, parts, impossible, ["every field of the key"])

    # the cell that a run has in its place
    if record.cell.method == TEACHER and "methods" in typed:
        raise InputError("--methods does not go with a teacher's record: it has no row")
    of_record = replace(request_from_record(record, request, typed), results=results)
    if "augment_times" in typed and not of_record.augment:
        raise InputError("--augment-times goes with --augment masked or --augment rules")
    plan = build(of_record)
    planned, cell, not_compared = _in_its_place(record, plan, typed)

    # field by field
    slots = _slots_of(plan)
    differing = []
    for part in differences(record.cell, cell, record.point):
        inputs = _inputs(part["first"], slots.get(str(part["second"])), store)
        differing.append(Difference(part["field"], part["first"], part["second"], inputs))
    verdict, again = _verdict(record, cell, planned, bool(differing))
    planned_key = record_key(cell, record.point)
    return Explanation(record, parts, verdict, not_compared, again, planned_key, differing)


def _slots_of(plan: Plan) -> dict[str, Slot]:
    """Everything that the cells of a plan are made from, whether it is to do or not, by its key."""
    slots: dict[str, Slot] = {}
    own_tasks = [planned.own_task for planned in plan.cells if planned.own_task is not None]
    for task in (*plan.tasks, *own_tasks):
        for slot in (task.teacher_slot(task.teacher_seed), task.augmentation_slot):
            slots[slot.key] = slot
    for entry in plan.artefacts:
        if entry.artefact.is_kept:
            slots[entry.slot.key] = entry.slot
    return slots


def describe(answer: Explanation) -> str:
    """An explanation in several lines for a terminal."""
    record = answer.record
    task = shown_task("+".join(record.cell.tasks), record.cell.data.slug)
    of_cell = f"{record.row} on {task}, seed {record.cell.seed}, {record.status}"
    lines = [f"record {record.key[:SHORT]}: {of_cell}", f"code: {answer.code}"]

    # the code, part by part
    version = other_version(record)
    if version:
        lines.append(f"  another version of the method: {version}")
    for part in answer.code_parts:
        digests = "the record names no digest"
        if part.record:
            today = part.today[:SHORT] or "none"
            digests = f"digest {part.record[:SHORT]} in the record, today's is {today}"
        lines.append(f"  {part.name}: {part.state}: {digests}")
    commit = (record.code.get("commit") or "")[:SHORT]
    if answer.code == STALE and commit:
        lines.append(f"  made at commit {commit}: `git diff {commit} -- bench methods`")

    # what a run would do, and why
    lines.append(f"plan: {answer.verdict}")
    for one in answer.differences:
        recorded = shown(one.record)
        planned = shown(one.plan)
        lines.append(f"  {one.field}: {recorded} in the record, {planned} in the plan")
        lines += [f"    {line}" for line in one.inputs]
    lines += [f"  not compared: {line}" for line in answer.not_compared]
    return "\n".join(lines)


def shown(value: Any) -> str:
    """A field's value for a reader: the beginning of a hash, a search by what was tried."""
    if isinstance(value, str) and len(value) == 64:
        return value[:SHORT]
    if isinstance(value, Mapping) and "trials" in value:
        return f"{value['of']}, best of {len(value['trials'])}"
    if isinstance(value, list | tuple):
        return ", ".join(map(shown, value)) or "none"
    return "none" if value is None or value == "" else str(value)


def code_parts(record: Record) -> Iterator[CodePart]:
    """Every code behind a record: of its training, of what was prepared for it, and of what that
    was made from."""
    for name, code in codes_of(record).items():
        yield from _parts_of_code(name.replace("_", " "), code)


def _parts_of_code(name: str, code: Mapping[str, Any] | None) -> Iterator[CodePart]:
    """One code, without its parts, and then each of these."""
    code = code or {}
    recorded = code.get("digest", "")
    today = digest_of(tuple(code["of"])) if recorded else ""
    yield CodePart(name, state_of({**code, "parts": {}}), recorded, today)
    parts = code.get("parts") or {}
    for inner, part in parts.items():
        yield from _parts_of_code(f"{name} / {inner.replace('_', ' ')}", part)


def _inputs(recorded: Any, today: Slot | None, store: Store) -> list[str]:
    """Where the identity behind a key differs from today's, a line each; none for a field that is
    no key of what is made.

    The identity is in the cache's folder of that key, and of a teacher in its own record; elsewhere
    nobody knows it.

    Args:
        recorded: the key in the record.
        today: what has the place of it in the plan.
    """
    if today is None or recorded == ABSENT:
        return []
    folder = Slot(today.kind, str(recorded), (), "").folder
    try:
        before = json.loads((folder / MADE).read_text(encoding="utf-8")).get("identity")
    except (OSError, ValueError):
        before = None
    before = before or _identity_of_teacher(recorded, today, store)
    if not before:
        return ["its own identity is not known: it is not in this cache"]
    parts = field_differences(dict(flat(before)), dict(flat(today.identity)))
    return [f"{p['field']}: {shown(p['first'])}, today {shown(p['second'])}" for p in parts]


def _identity_of_teacher(key: Any, today: Slot, store: Store) -> dict[str, Any]:
    """The identity of the tuned teacher with this key, by its record; nothing where there is
    none."""
    for record in store.records():
        cell = record.cell
        if cell.method == TEACHER and cell.teacher.key == key:
            return {
                **today.identity,
                "version": cell.version,
                "base": cell.teacher.base,
                "task": cell.tasks[0],
                "data": cell.data.train,
                "recipe": cell.recipe,
                "seed": cell.seed,
                "numeric": cell.numeric.identity(),
            }
    return {}


def _no_row_today(record: Record, typed: Collection[str]) -> str:
    """Why no plan of today has the record's row; "" where one can have it, or where another row was
    typed."""
    cell = record.cell
    if cell.method in (TEACHER, *FINISHED) or "methods" in typed:
        return ""
    if not methods.reference(cell.method):
        return (
            f"the method {cell.method} is not installed here, so no plan can be asked; install "
            "its package"
        )
    try:
        parse_rows(row_of(cell))
    except (ImportError, InputError) as error:
        return f"today's {cell.method} has no such row, so a run cannot find this record: {error}"
    return ""


def _in_its_place(
    record: Record, plan: Plan, typed: Collection[str]
) -> tuple[Planned, Cell, list[str]]:
    """The planned cell of the record's row, task and seed, and what of it cannot be compared.

    Raises:
        InputError: the plan does not have one such cell.
    """
    cell = record.cell
    not_compared = []
    augmented = data_facts(cell.data.slug).augmented
    if augmented and augmented.vectors and plan.request.word_vectors is None:
        not_compared.append(
            f"the word vectors {augmented.vectors}: the plan is without them; add --word-vectors "
            "FILE"
        )
    of_task = plan.cells_of(cell.tasks[0])
    if not of_task:
        raise InputError(
            f"--tasks {plan.request.tasks} does not name {shown_tasks(cell)}, the task of this "
            "record"
        )
    if cell.method in FINISHED and "methods" not in typed:
        # the cell as a plan would have it if the folder held the same
        teacher = of_task[0].cell
        task = next(task for task in plan.tasks if (task.name,) == cell.tasks)
        same = {
            "data": teacher.data,
            "teacher": teacher.teacher,
            "numeric": teacher.numeric,
            "recipe": task.recipe.as_dict(),
        }
        not_compared.append(
            f"what the folder of {cell.label} holds: no record says where it is; add --methods "
            f"{cell.method}:FOLDER"
        )
        return of_task[0], cell.model_copy(update=same), not_compared
    rows = [p for p in of_task if (p.cell.method == TEACHER) == (cell.method == TEACHER)]
    if cell.method in FINISHED:
        rows = [p for p in rows if p.cell.seed == cell.seed]
    if len(rows) != 1:
        raise InputError(
            f"--methods {plan.request.methods} names {len(rows)} rows of this task; name one row"
        )
    return rows[0], rows[0].cell, not_compared


def _verdict(record: Record, cell: Cell, planned: Planned, differs: bool) -> tuple[str, bool]:
    """What a run does, and whether it makes this cell again."""
    if differs:
        key = record_key(cell, record.point)[:SHORT]
        said = f"a run has another cell in its place: {key}"
        if cell.search is None and record.cell.search is not None:
            said += "; `tune` finds what a search chose, `run` does not"
        return said, True
    is_trial = data_facts(record.cell.data.slug).held_back

    # it is found
    if not planned.is_todo and is_trial:
        return "`tune` finds this trial; `run` scores no examples that are held out", False
    if record.cell.method in FINISHED and planned.cell.method == TEACHER:
        return "a run finds this record if it is given a folder that holds the same", False
    if not planned.is_todo:
        said = "a run finds this record"
        if record.status != "ok":
            said += f", which {state(planned)}"
        return said, False

    # it is made again
    reason = "--rerun-stale was typed, and other code than today's made it"
    if planned.record is None:
        reason = "of its operating points, the first one has no record"
    elif planned.record.status != "ok":
        reason = f"the record has no result, it was {planned.record.status}"
    what = "`tune` makes this trial" if is_trial else "a run makes it"
    return f"{what} again: {reason}", True
