"""Why the cell behind a record would run again, or why it would not: its code, and field by field its key. Trains nothing."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import methods
from bench.errors import CHECK_FAILED, OK, InputError
from bench.plan.build import build
from bench.plan.from_record import request_from_record, spelling_of
from bench.plan.plan import Plan, Planned
from bench.plan.request import EXACT, Request
from bench.plan.show import state
from bench.plan.spelling import parse_rows
from bench.record.cell import CHECKPOINT, TEACHER, Cell, record_key
from bench.record.code import STALE, codes_of, digest_of, other_version, state_of, state_of_record
from bench.record.differences import DifferingField, differences
from bench.record.schema import Record
from bench.record.store import Store
from bench.record.task_facts import data_facts
from bench.workflows.why_inputs import SHORT, ComparedInputs, inputs_of, shown


class CodePart(NamedTuple):
    """One code behind a record."""

    name: str
    """training, teacher, general start ...; after a / what that was made from"""
    state: str
    record: str
    """digest in the record; "" where it names none"""
    today: str
    """digest of the same files today; "" where one of them is not found"""

    def describe(self) -> str:
        if not self.record:
            return f"{self.name}: {self.state}: the record names no digest of this code"
        return f"{self.name}: {self.state}: digest {self.record[:SHORT]} in the record, today's is {self.today[:SHORT] or 'none'}"


@dataclass(frozen=True)
class Why:
    """The answer to one question: would a run find this record?"""

    record: Record
    code: str
    """current, stale or unknown"""
    version: str
    """of the method, where today's is another one; "" where it is not"""
    parts: tuple[CodePart, ...]
    verdict: str
    """what a run with the typed options does"""
    again: bool
    """whether a run does not find the record, or trains its cell again"""
    key: str = ""
    """of the planned cell; "" where no plan can be made"""
    differing: tuple[tuple[DifferingField, ComparedInputs | None], ...] = ()
    not_compared: tuple[str, ...] = ()
    assumed: tuple[str, ...] = ()
    """options that the plan has from the record, because nobody typed them"""

    @property
    def exit_code(self) -> int:
        return CHECK_FAILED if self.again or self.code == STALE else OK

    def describe(self) -> str:
        """Several lines for a terminal."""
        cell = self.record.cell
        lines = [
            f"record {self.record.key[:SHORT]}: {self.record.row} on {'+'.join(cell.tasks)}, seed {cell.seed}, {self.record.status}",
            f"code: {self.code}",
        ]
        lines += [f"  {self.version}"] if self.version else []
        lines += [f"  {part.describe()}" for part in self.parts]
        commit = self.record.code.get("commit")
        if self.code == STALE and commit:
            changes = " (with local changes)" if self.record.code.get("dirty") else ""
            lines.append(
                f"  made at commit {commit[:SHORT]}{changes}: `git diff {commit[:SHORT]} -- bench methods` shows more"
            )
        lines.append(f"plan: {self.verdict}")
        for one, inputs in self.differing:
            lines.append(
                f"  {one.what} ({one.field}): {shown(one.first)} in the record, {shown(one.second)} in the plan"
            )
            lines += [f"    its inputs: {inputs.describe()}"] if inputs else []
        lines += [f"  not compared: {line}" for line in self.not_compared]
        lines += [f"  as in the record, because not typed: {' '.join(self.assumed)}"] if self.assumed else []
        return "\n".join(lines)

    def as_json(self) -> dict[str, Any]:
        """The same for programs."""
        cell = self.record.cell
        return {
            "key": self.record.key,
            "row": self.record.row,
            "tasks": cell.tasks,
            "seed": cell.seed,
            "status": self.record.status,
            "code": self.code,
            "version": self.version,
            "code_parts": [part._asdict() for part in self.parts],
            "verdict": self.verdict,
            "again": self.again,
            "planned_key": self.key,
            "differences": [
                {
                    "field": one.field,
                    "what": one.what,
                    "record": one.first,
                    "plan": one.second,
                    **({"inputs": {"differ": i.differ, "same": i.same, "unknown": i.unknown}} if i else {}),
                }
                for one, i in self.differing
            ],
            "not_compared": self.not_compared,
            "as_in_the_record": self.assumed,
        }


def why(key: str, results: Path, request: Request, typed: Collection[str] = ()) -> Why:
    """Judge a record's code, and compare its cell with the one that a run of these options plans in its place.

    Args:
        key: the beginning of the record's key.
        request: what was typed; what was not typed is as the record has it, where it says it.
        typed: names of the fields of ``request`` that somebody typed, of those that a record answers too.

    Raises:
        InputError: no such record, or options of which no plan can be made.
    """
    store = Store(results)
    record = store.one(key)
    known = Why(
        record,
        state_of_record(record),
        _version_note(record),
        tuple(code_parts(record)),
        verdict="",
        again=True,
    )
    if impossible := _no_row_today(record, typed):
        return replace(known, verdict=impossible, not_compared=("every field of the key",))
    if record.cell.method == TEACHER and "methods" in typed:
        raise InputError("--methods does not go with a teacher's record: it has no row")
    asked = replace(request_from_record(record, request, typed), results=results)
    if "augment_times" in typed and not asked.augment:
        raise InputError("--augment-times goes with --augment masked or --augment rules")
    plan = build(asked, estimated=False)
    planned, cell, not_compared = _in_its_place(record, plan, typed)
    found = tuple(
        (one, inputs_of(one, record, cell, planned, plan, store))
        for one in differences(record.cell, cell, record.point)
    )
    verdict, again = _verdict(record, cell, planned, bool(found))
    return replace(
        known,
        verdict=verdict,
        again=again,
        key=record_key(cell, record.point),
        differing=found,
        not_compared=tuple(not_compared),
        assumed=tuple(_assumed(asked, typed)),
    )


def _version_note(record: Record) -> str:
    found = other_version(record)
    return f"another version of the method: {found}" if found else ""


def code_parts(record: Record) -> Iterator[CodePart]:
    """Every code behind a record: of its training, of what was prepared for it, and of what that was made from."""

    def below(name: str, code: Mapping[str, Any] | None) -> Iterator[CodePart]:
        recorded = (code or {}).get("digest", "")
        of = tuple(code["of"]) if code and recorded else ()
        yield CodePart(name, state_of(code and {**code, "parts": {}}), recorded, digest_of(of) if recorded else "")
        for inner, part in ((code or {}).get("parts") or {}).items():
            yield from below(f"{name} / {inner.replace('_', ' ')}", part)

    for name, code in codes_of(record).items():
        yield from below(name.replace("_", " "), code)


def _no_row_today(record: Record, typed: Collection[str]) -> str:
    """Why no plan of today has the record's row; "" where one can have it, or where another row was typed."""
    cell = record.cell
    if cell.method in (TEACHER, CHECKPOINT) or "methods" in typed:
        return ""
    if cell.method not in methods.names():
        return f"the method {cell.method} is not installed here, so no plan can be asked; install its package"
    try:
        parse_rows(spelling_of(cell))
    except (ImportError, InputError) as error:
        return f"today's {cell.method} has no such row, so a run cannot find this record: {error}"
    return ""


def _in_its_place(record: Record, plan: Plan, typed: Collection[str]) -> tuple[Planned, Cell, list[str]]:
    """The planned cell of the record's row, task and seed, and what of it cannot be compared.

    Raises:
        InputError: the plan does not have one such cell.
    """
    cell = record.cell
    of_task = [planned for planned in plan.cells if planned.cell.tasks == cell.tasks]
    if not of_task:
        raise InputError(f"--tasks {plan.request.tasks} does not name {'+'.join(cell.tasks)}, the task of this record")
    if cell.method == CHECKPOINT and "methods" not in typed:
        of_teacher = of_task[0]
        return of_teacher, _with_planned(cell, of_teacher, plan), [*_not_compared(record, plan), _no_folder(cell)]
    rows = [p for p in of_task if (p.cell.method == TEACHER) == (cell.method == TEACHER)]
    if len(rows) != 1:
        raise InputError(f"--methods {plan.request.methods} names {len(rows)} rows of this task; name one row")
    return rows[0], rows[0].cell, _not_compared(record, plan)


def _with_planned(cell: Cell, of_teacher: Planned, plan: Plan) -> Cell:
    """A finished checkpoint's cell as a plan would have it if its folder held the same weights."""
    task = next(task for task in plan.tasks if (task.task.name,) == cell.tasks)
    planned = of_teacher.cell
    return cell.model_copy(
        update={
            "data": planned.data,
            "teacher": planned.teacher,
            "numeric": planned.numeric,
            "recipe": task.recipe.as_dict(),
        }
    )


def _no_folder(cell: Cell) -> str:
    return (
        f"weights, configuration and tokenizer of {cell.label}: no record says where its folder is; "
        f"add --methods {CHECKPOINT}:FOLDER"
    )


def _not_compared(record: Record, plan: Plan) -> list[str]:
    """What the plan cannot be asked without further options."""
    augmented = data_facts(record.cell.data.slug).augmented
    if augmented and augmented.vectors and plan.request.word_vectors is None:
        return [f"the word vectors {augmented.vectors}: the plan is without them; add --word-vectors FILE"]
    return []


def _verdict(record: Record, cell: Cell, planned: Planned, differs: bool) -> tuple[str, bool]:
    """What a run does, and whether it trains this cell again."""
    only_tune = cell.search is None and record.cell.search is not None
    by_tune = "; `tune` finds what a search chose, `run` does not" if only_tune else ""
    if differs:
        return f"a run has another cell in its place: {record_key(cell, record.point)[:SHORT]}{by_tune}", True
    is_trial = data_facts(record.cell.data.slug).held_back
    if is_trial and not planned.is_todo:
        return "`tune` finds this trial; `run` scores no examples that are held out", False
    if record.cell.method == CHECKPOINT and planned.cell.method == TEACHER:
        return (
            "a run finds this record if it is given a folder with the same weights, configuration and tokenizer",
            False,
        )
    if not planned.is_todo:
        what = "a run finds this record"
        return (what if record.status == "ok" else f"{what}, which {state(planned)}"), False
    return f"{'`tune` makes this trial' if is_trial else 'a run makes it'} again: {_why_todo(planned)}", True


def _why_todo(planned: Planned) -> str:
    """Why the plan has a cell to do although a record has its key."""
    if planned.record is None:
        return "of its operating points, the first one has no record"
    if planned.record.status == "ok":
        return "--rerun-stale was typed, and other code than today's made it"
    return f"the record has no result, it was {planned.record.status}"


def _assumed(asked: Request, typed: Collection[str]) -> Iterator[str]:
    """The options that come from the record, as they are typed."""
    options = {
        "recipe": asked.recipe,
        "numbers": asked.numbers,
        "optimizer": asked.optimizer,
        "precision": asked.precision,
        "max_train_rows": asked.max_train_rows,
        "epochs": asked.epochs,
        "augment": asked.augment,
        "augment_times": asked.augment_times if asked.augment else None,
        "checkpoint": asked.checkpoint,
        "teacher_outputs": asked.teacher_outputs,
        "kernels": asked.kernels if asked.kernels != EXACT else None,
        "threads": asked.threads,
    }
    for name, value in options.items():
        if name in typed or not value:
            continue
        if name == "numbers":
            yield from (f"--set {number}={set_to}" for number, set_to in asked.numbers)
        else:
            yield f"--{name.replace('_', '-')} {f'{value:g}' if isinstance(value, float) else value}"
