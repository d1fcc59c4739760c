"""What of a plan was made by other code than today's: records, and entries of the cache."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bench.cache import Slot
from bench.plan.jobs import jobs_of, slot_of
from bench.record.code import STALE, WHAT_TO_DO, code_warnings, state_of

if TYPE_CHECKING:
    from bench.plan.build import Plan


def wanted(plan: Plan) -> list[Slot]:
    """The places in the cache of everything that the cells which are to do are made from, in the order in which it is made."""
    slots = (slot_of(plan, job) for job in jobs_of(plan, 1, nothing_is_made=True))
    return [slot for slot in slots if slot is not None]


def stale_slots(plan: Plan) -> list[Slot]:
    """What the plan would take from the cache although other code made it."""
    return [slot for slot in wanted(plan) if slot.is_made and state_of(slot.made().get("code")) == STALE]


def warnings(plan: Plan) -> list[str]:
    """For a reader of the plan: what is stale, and how many records were made by code that is not known here."""
    records = [planned.record for planned in plan.cells if planned.record is not None and not planned.is_todo]
    in_cache = [f"{slot.title}, in the cache, was made by other code than this. {WHAT_TO_DO}." for slot in plan.stale]
    return [*in_cache, *code_warnings(records)]
