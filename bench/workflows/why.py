"""Why the cell behind a record would run again, or why it would not: its code, and where two
identities differ. Trains nothing."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
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
from bench.record.code import STALE, codes_of, digest_of, other_version, state_of, state_of_record
from bench.record.differences import ABSENT, differences, field_differences, flat
from bench.record.schema import Record
from bench.record.store import Store
from bench.record.task_facts import data_facts, shown_task, shown_tasks
from bench.request import Request
from bench.request.recorded import row_of

SHORT = 12
"""Digits of a hash that a reader is shown."""


def why(key: str, results: Path, request: Request, typed: Collection[str] = ()) -> dict[str, Any]:
    """Judge a record's code, and compare its cell with the one that a run of these options plans in
    its place.

    Args:
        key: the beginning of the record's key.
        request: what was typed; what was not typed is as the record has it, where it says it.
        typed: names of the fields of ``request`` that somebody typed, of those that a record
            answers too.

    Returns:
        The record's ``key``, ``row``, ``tasks``, ``data``, ``seed`` and ``status``; its ``code``
        (current, stale or unknown), another ``version`` of its method, and each of its
        ``code_parts``; the ``verdict`` on what a run does, and whether it makes the cell ``again``;
        ``differences``: each field with its values, and of what is prepared the fields of its own
        identity that differ; and what was ``not_compared``.

    Raises:
        InputError: no such record, or options of which no plan can be made.
    """
    store = Store(results)
    record = store.find_by_key(key)
    answer: dict[str, Any] = {
        "key": record.key,
        "row": record.row,
        "tasks": record.cell.tasks,
        "data": record.cell.data.slug,
        "seed": record.cell.seed,
        "status": record.status,
        "code": state_of_record(record),
        "version": other_version(record),
        "commit": record.code.get("commit"),
        "code_parts": list(code_parts(record)),
        "again": True,
        "differences": [],
        "not_compared": [],
    }
    impossible = _no_row_today(record, typed)
    if impossible:
        return answer | {"verdict": impossible, "not_compared": ["every field of the key"]}
    if record.cell.method == TEACHER and "methods" in typed:
        raise InputError("--methods does not go with a teacher's record: it has no row")
    asked = replace(request_from_record(record, request, typed), results=results)
    if "augment_times" in typed and not asked.augment:
        raise InputError("--augment-times goes with --augment masked or --augment rules")
    plan = build(asked)
    planned, cell, not_compared = _in_its_place(record, plan, typed)
    slots = _slots_of(plan)
    differing = []
    for part in differences(record.cell, cell, record.point):
        difference = {"field": part["field"], "record": part["first"], "plan": part["second"]}
        inputs = _inputs(part["first"], slots.get(str(part["second"])), store)
        if inputs:
            difference["inputs"] = inputs
        differing.append(difference)
    verdict, again = _verdict(record, cell, planned, bool(differing))
    return answer | {
        "verdict": verdict,
        "again": again,
        "planned_key": record_key(cell, record.point),
        "differences": differing,
        "not_compared": not_compared,
    }


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


def describe(answer: Mapping[str, Any]) -> str:
    """An answer of :func:`why` in several lines for a terminal."""
    task = shown_task("+".join(answer["tasks"]), answer["data"])
    key = answer["key"][:SHORT]
    lines = [
        f"record {key}: {answer['row']} on {task}, seed {answer['seed']}, {answer['status']}",
        f"code: {answer['code']}",
    ]

    # the code, part by part
    if answer["version"]:
        lines.append(f"  another version of the method: {answer['version']}")
    for part in answer["code_parts"]:
        digests = "the record names no digest"
        if part["record"]:
            today = part["today"][:SHORT] or "none"
            digests = f"digest {part['record'][:SHORT]} in the record, today's is {today}"
        lines.append(f"  {part['name']}: {part['state']}: {digests}")
    if answer["code"] == STALE and answer["commit"]:
        commit = answer["commit"][:SHORT]
        lines.append(f"  made at commit {commit}: `git diff {commit} -- bench methods`")

    # what a run would do, and why
    lines.append(f"plan: {answer['verdict']}")
    for part in answer["differences"]:
        recorded = shown(part["record"])
        planned = shown(part["plan"])
        lines.append(f"  {part['field']}: {recorded} in the record, {planned} in the plan")
        lines += [f"    {line}" for line in part.get("inputs", ())]
    lines += [f"  not compared: {line}" for line in answer["not_compared"]]
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


def code_parts(record: Record) -> Iterator[dict[str, str]]:
    """Every code behind a record: of its training, of what was prepared for it, and of what that
    was made from.

    ``record`` is the digest in the record, ``today`` that of the same files now; "" where there is
    none.
    """
    for name, code in codes_of(record).items():
        yield from _parts_of_code(name.replace("_", " "), code)


def _parts_of_code(name: str, code: Mapping[str, Any] | None) -> Iterator[dict[str, str]]:
    """One code, without its parts, and then each of these."""
    code = code or {}
    recorded = code.get("digest", "")
    yield {
        "name": name,
        "state": state_of({**code, "parts": {}}),
        "record": recorded,
        "today": digest_of(tuple(code["of"])) if recorded else "",
    }
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
