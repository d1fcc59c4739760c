"""What of a plan was made by other code than today's: records, and things in the cache."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bench.plan.spelling import MethodRow
from bench.plan.students import computed_slots, members_of
from bench.record.freshness import STALE, WHAT_TO_DO, Freshness, of_code
from bench.train.cache import Slot

if TYPE_CHECKING:
    from bench.plan.build import Plan


def wanted(plan: Plan) -> list[Slot]:
    """The places in the cache of everything that the cells which are to do are made from, each once."""
    found: dict[str, Slot] = {}
    starts: set[str] = set()
    for task in plan.tasks:
        todo = [planned for planned in plan.of_task(task.task.name) if planned.todo]
        rows = {planned.row.spelling: planned.row for planned in todo if isinstance(planned.row, MethodRow)}
        if todo and task.teacher.origin == "fine-tuned":
            teachers = max([1, *(members_of(row, task) for row in rows.values())])
            found |= {slot.key: slot for slot in map(task.teacher_slot, range(teachers))}
        if todo and task.augmentation:
            found[task.augmentation_slot.key] = task.augmentation_slot
            starts |= {key for key, start in plan.starts.items() if start.is_teacher_head}
        for planned in todo:
            if isinstance(planned.row, MethodRow):
                found |= {slot.key: slot for slot in computed_slots(planned.row, planned.cell, task)}
                starts |= set(planned.cell.artefacts.values())
    for start in reversed(plan.starts.values()):  # a start is planned after what it is made from
        if start.key in starts:
            starts |= set(start.parts.values())
            found[start.key] = start.slot
    return list(found.values())


def stale_slots(plan: Plan, freshness: Freshness) -> list[Slot]:
    """What the plan would take from the cache although other code made it."""
    return [slot for slot in wanted(plan) if slot.is_made and freshness.of_code(slot.made().get("code")) == STALE]


def said(plan: Plan, freshness: Freshness) -> list[str]:
    """For a reader of the plan: what is stale, and how many records do not name the code that made them."""
    records = [planned.record for planned in plan.cells if planned.record is not None and not planned.todo]
    in_cache = [f"{slot.title}, in the cache, was made by other code than this. {WHAT_TO_DO}." for slot in plan.stale]
    return [*in_cache, *of_code(records, freshness)]
