"""What of a plan was made by other code than today's: records, and entries of the cache."""

from __future__ import annotations

from bench.cache import Slot
from bench.plan.plan import Plan
from bench.record.code import STALE, WHAT_TO_DO, code_warnings, state_of


def stale_slots(plan: Plan) -> list[Slot]:
    """What the plan would take from the cache although other code made it."""
    slots = [step.slot for step in plan.steps.values() if step.slot is not None]
    return [slot for slot in slots if slot.is_made and state_of(slot.made().get("code")) == STALE]


def warnings(plan: Plan) -> list[str]:
    """For a reader of the plan: what is stale, and how many records were made by code that is not known here."""
    records = [planned.record for planned in plan.cells if planned.record is not None and not planned.is_todo]
    in_cache = [f"{slot.title}, in the cache, was made by other code than this. {WHAT_TO_DO}." for slot in plan.stale]
    return [*in_cache, *code_warnings(records)]
