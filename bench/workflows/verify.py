"""Run a record's training again and say how far the answer is the same."""

from __future__ import annotations

import tempfile
from collections.abc import Collection, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from bench.analysis.compare import compare_records
from bench.cache import Slot, isolated_cache
from bench.errors import CHECK_FAILED, NOT_COMPARABLE, OK, InputError
from bench.plan.build import build
from bench.plan.from_record import request_from_record
from bench.plan.plan import Plan
from bench.plan.request import Request
from bench.progress import Progress
from bench.record.cell import CHECKPOINT, TEACHER, record_key
from bench.record.code import CURRENT, STALE, UNKNOWN, WHAT_TO_DO, stale_parts, state_of_record
from bench.record.differences import differences
from bench.record.schema import Record
from bench.record.store import Store
from bench.stats.form import SCORE
from bench.stats.metrics import metric_of
from bench.stats.power import LEVEL

BITWISE, ROUNDING, STATISTICAL = "bitwise equal", "equal within rounding", "statistically equal"
DIFFERENT, OTHER = "different", "not comparable"
ROUNDED = 1e-3
"""How far logits may be apart by the order of additions alone."""
CURVE = 1e-5
"""Relative difference of a loss from which on two trainings have parted."""


@dataclass(frozen=True)
class Verification:
    """How a second run compares with the record."""

    verdict: str
    why: str
    code: str = ""
    """whether today's code is the one that made the record: current, stale or unknown; "" where it was not run again"""
    from_cache: tuple[str, ...] = ()
    """what the second run took from the cache: teacher, starts and other things that it was trained from"""
    made_again: tuple[str, ...] = ()
    """what of these it made"""
    source: str = ""
    """where today's source is not the one that the record names; "" where it is"""

    @property
    def exit_code(self) -> int:
        return {DIFFERENT: CHECK_FAILED, OTHER: NOT_COMPARABLE}.get(self.verdict, OK)

    def describe(self) -> str:
        """The verdict, what was taken from the cache and what was made, and what of the source differs."""
        lines = [f"{self.verdict}: {self.why}"]
        if self.from_cache:
            lines.append(f"from the cache: {', '.join(self.from_cache)}; --from-scratch makes them again too")
        if self.made_again:
            lines.append(f"made again: {', '.join(self.made_again)}")
        return "\n".join([*lines, *([f"source: {self.source}"] if self.source else [])])


def find_record(key: str, results: Path) -> Record:
    """The one record whose key begins so.

    Raises:
        InputError: none, several, or one that has no answer to verify.
    """
    found = Store(results).one(key)
    if found.status != "ok":
        state = "failed" if found.status == "failed" else "was interrupted"
        raise InputError(f"the cell of the record {key} {state}, so there is nothing to verify")
    if found.cell.method == CHECKPOINT:
        raise InputError("a finished checkpoint was only scored here, not trained; run it again with --rerun")
    return found


def verify(
    key: str,
    results: Path,
    request: Request,
    progress: Progress | None = None,
    from_scratch: bool = False,
    typed: Collection[str] = (),
) -> Verification:
    """Train the record's cell anew in a folder of its own, and compare weights, answers and losses.

    Of a teacher's own record everything is made anew. Of a student's record the teacher and the artefacts are taken from
    the cache, except those that other code than today's made. A record that other code made is verified by equal bits
    alone: nothing less says that the two codes compute the same.

    Args:
        typed: names of the request's fields that somebody typed although a record has them: ``tasks``, for a task of one's own.
        from_scratch: take nothing from the cache: teacher, starts and all else are made again. The cache stays as it is.

    Raises:
        InputError: no such record, or data and teacher that cannot be read.
    """
    from bench.workflows.run import run

    record = find_record(key, results)
    with tempfile.TemporaryDirectory() as folder:
        asked = request_from_record(record, request, typed)
        again = replace(asked, results=Path(folder), reports=Path(folder) / "reports", yes=True, rerun=True)
        plan = build(again)
        planned = [
            p.cell for p in plan.cells if p.cell.method == record.cell.method and p.cell.tasks == record.cell.tasks
        ]
        cell = planned[0].model_copy(update={"search": record.cell.search})
        if record_key(cell, record.point) != record.key:
            differing = ", ".join(part["what"] for part in differences(record.cell, cell, record.point))
            return Verification(OTHER, f"what was typed gives another cell: {differing}")
        taken, made = _taken_and_made(plan, record, from_scratch)
        apart = from_scratch or any(slot.is_made for slot in made)  # else what is made now may stay in the cache
        with isolated_cache(taken, Path(folder) / "cache") if apart else nullcontext():
            run(again, progress)
        store = Store(Path(folder))
        second = store.find(planned[0], record.point)
        if second is None or second.status != "ok":
            why = second.error.message if second is not None and second.error else "it left no record"
            return Verification(DIFFERENT, f"the second run failed: {why}")
        found = _judged_by_code(_compare(record, second, Store(results), store), record)
        return replace(
            found,
            from_cache=tuple(slot.title for slot in taken),
            made_again=tuple(slot.title for slot in made),
            source=source_of(record, second, found.code),
        )


def _taken_and_made(plan: Plan, record: Record, from_scratch: bool) -> tuple[list[Slot], list[Slot]]:
    """What is taken from the cache, and what is made: what is not there and what other code made; everything for a
    teacher's own record, or with ``from_scratch``."""
    slots = [step.slot for step in plan.steps.values() if step.slot is not None]
    anew = {slot.key for slot in plan.stale}
    if from_scratch or record.cell.method == TEACHER:
        anew |= {slot.key for slot in slots}
    taken = [slot for slot in slots if slot.is_made and slot.key not in anew]
    return taken, [slot for slot in slots if slot not in taken]


def source_of(first: Record, second: Record, code: str) -> str:
    """Where the source of the second run is not the one that the record names; "" where it is."""
    rerun, recorded = second.code, first.code
    found = []
    if rerun.get("commit") != recorded.get("commit") or rerun.get("dirty") or recorded.get("dirty"):
        found.append(f"the record names {_commit(recorded)}, this is {_commit(rerun)}")
    if recorded.get("method") and rerun.get("method") != recorded["method"]:
        found.append("the method's file is not the one that the record names")
    if not found:
        return ""
    said = {
        CURRENT: "the code that computes is the same",
        STALE: "the code that computes is another",
        UNKNOWN: "whether the code that computes is the same is not known",
    }
    return "; ".join([*found, said[code]])


def _commit(code: Mapping[str, Any]) -> str:
    name = f"commit {code['commit'][:12]}" if code.get("commit") else "no commit"
    return name + (" with local changes" if code.get("dirty") else "")


def _judged_by_code(found: Verification, first: Record) -> Verification:
    """The verdict, corrected where other code than today's made the record: then only equal bits count, and all else is
    not comparable."""
    code = state_of_record(first)
    if code == UNKNOWN:
        return replace(found, code=code, why=f"{found.why} The record does not name the code that made it.")
    if code != STALE:
        return replace(found, code=code)
    made = f"made by other code than this ({', '.join(stale_parts(first))})"
    if found.verdict == BITWISE:
        return replace(found, code=code, why=f"{found.why}; {made}")
    why = f"{made}; trained by this code it is {found.verdict}: {found.why} To replace it: {WHAT_TO_DO}."
    return Verification(OTHER, why, code)


def _compare(first: Record, second: Record, store: Store, again: Store) -> Verification:
    if first.weights == second.weights and first.scores == second.scores:
        return Verification(BITWISE, f"weights {str(first.weights)[:12]} and all scores")
    parted = parting(first, second)
    if not store.has_predictions(first):
        return Verification(DIFFERENT, f"other weights; the record keeps no answers to compare. {parted}")
    before, after = store.predictions(first), again.predictions(second)
    gaps, flips = [], 0
    for name in first.scores:
        a, b = before[f"logits.{name}"], after[f"logits.{name}"]
        gaps.append(float(np.abs(a - b).max()))
        form = metric_of(next(iter(first.scores[name]))).form
        if form == SCORE:
            flips += int((np.abs(a - b) > ROUNDED).reshape(len(a), -1).any(1).sum())
        else:
            flips += int((form.predicted(a) != form.predicted(b)).reshape(len(a), -1).any(1).sum())
    if max(gaps) <= ROUNDED and not flips:
        return Verification(ROUNDING, f"logits differ by at most {max(gaps):.2g}, no answer does. {parted}")
    lines = []
    with tempfile.TemporaryDirectory() as folder:  # both answers in one store, so that they can be paired
        both = Store(Path(folder))
        both.write(first, before)
        as_other_seed = second.model_copy(
            update={"cell": second.cell.model_copy(update={"seed": second.cell.seed + 1})}
        )
        as_other_seed = as_other_seed.model_copy(update={"key": record_key(as_other_seed.cell, as_other_seed.point)})
        both.write(as_other_seed, after)
        for name, metrics in first.scores.items():
            metric = next(iter(metrics))
            lines.append(compare_records(both, ([first], [as_other_seed]), name, metric)[0])
    text = "; ".join(f"{x.metric} {x.first:.1f} and {x.second:.1f}, p {x.p:.3f}" for x in lines)
    verdict = STATISTICAL if all(line.p > LEVEL for line in lines) else DIFFERENT
    return Verification(verdict, f"{flips} {'answer differs' if flips == 1 else 'answers differ'}; {text}. {parted}")


def parting(first: Record, second: Record) -> str:
    """From which steps on the losses of the two trainings are not the same."""
    for stage, terms in first.terms.items():
        for name, values in terms.items():
            others = second.terms.get(stage, {}).get(name, [])
            if len(values) != len(others):
                return f"stage {stage}: {name} has {len(values)} and {len(others)} points"
    for stage, terms in first.terms.items():
        apart = [
            i
            for name, values in terms.items()
            for i, (a, b) in enumerate(zip(values, second.terms[stage][name], strict=True))
            if abs(a - b) > CURVE * max(abs(a), abs(b))
        ]
        if apart:
            windows = len(next(iter(terms.values())))
            return f"The losses part in stage {stage} at window {min(apart) + 1} of {windows}."
    return "The losses are the same throughout."
