"""What of a plan was made by other code than today's: records, and entries of the cache."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bench.cache import Slot
from bench.plan.artefacts import ArtefactPlan
from bench.record.freshness import STALE, WHAT_TO_DO, Freshness, code_warnings

if TYPE_CHECKING:
    from bench.plan.build import Plan


def wanted(plan: Plan) -> list[Slot]:
    """The places in the cache of everything that the cells which are to do are made from, each once.

    What is one task's own comes first: its teachers, its augmented rows, its artefacts; then what all tasks share, each
    before what it is made from.
    """
    found: dict[str, Slot] = {}
    shared: list[ArtefactPlan] = []
    for task in plan.tasks:
        if not any(planned.is_todo for planned in plan.cells_of(task.task.name)):
            continue
        asked = plan.inputs_of_todo(task)
        if task.teacher.origin == "fine-tuned":
            seeds = range(1 + max((seed for entry in asked for seed in entry.seeds), default=0))
            found |= {slot.key: slot for slot in map(task.teacher_slot, seeds)}
        if task.outputs is not None:
            found[task.outputs.slot.key] = task.outputs.slot
        if task.augmentation:
            found[task.augmentation_slot.key] = task.augmentation_slot
            shared += [plan.artefacts.kept[task.masked_head]] if task.masked_head else []
        found |= {entry.key: entry.slot for entry in asked if entry.is_kept and entry.task is not None}
        shared += [entry for entry in asked if entry.is_kept and entry.task is None]
    for entry in reversed(plan.artefacts.with_inputs(shared)):
        found |= {entry.key: entry.slot} if entry.is_kept else {}
    return list(found.values())


def stale_slots(plan: Plan, freshness: Freshness) -> list[Slot]:
    """What the plan would take from the cache although other code made it."""
    return [slot for slot in wanted(plan) if slot.is_made and freshness.state_of_code(slot.made().get("code")) == STALE]


def warnings(plan: Plan, freshness: Freshness) -> list[str]:
    """For a reader of the plan: what is stale, and how many records do not name the code that made them."""
    records = [planned.record for planned in plan.cells if planned.record is not None and not planned.is_todo]
    in_cache = [f"{slot.title}, in the cache, was made by other code than this. {WHAT_TO_DO}." for slot in plan.stale]
    return [*in_cache, *code_warnings(records, freshness)]
