"""Run a record's training again and say how far the answer is the same."""

from __future__ import annotations

import tempfile
from collections.abc import Collection
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from bench.cache import Slot, isolated_cache
from bench.errors import CHECK_FAILED, NOT_COMPARABLE, InputError
from bench.plan.build import build
from bench.plan.from_record import request_from_record
from bench.plan.plan import Plan
from bench.progress import Progress
from bench.record.cell import FINISHED, LINEAR_IN_8_BITS, LINEAR_ONLY, TEACHER, record_key
from bench.record.cell_differences import differences
from bench.record.code import STALE, UNKNOWN, state_of_record
from bench.record.schema import Record
from bench.record.store import Store
from bench.report.paired_rows import compared, sides_of
from bench.report.resampled import resampled
from bench.report.score_column import ScoreColumn
from bench.request import Request
from bench.stats.form import ROUNDED, SCORE, differing
from bench.stats.metrics import metric_of
from bench.stats.power import LEVEL
from bench.workflows.run import run

BITWISE = "bitwise equal"
ROUNDING = "equal within rounding"
STATISTICAL = "statistically equal"
DIFFERENT = "different"
OTHER = "not comparable"
TURNED = 0.5
"""Share of the answers from which on two models are not the same, even where they are right
equally often."""
CURVE = 1e-5
"""Relative difference of a loss from which on two trainings have parted."""

EXIT_CODES = {DIFFERENT: CHECK_FAILED, OTHER: NOT_COMPARABLE}


@dataclass(frozen=True)
class Verification:
    """How far a second training of a record's cell gives the same."""

    verdict: str
    """one of BITWISE, ROUNDING, STATISTICAL, DIFFERENT, OTHER"""
    why: str
    code: str = ""
    """state of the code that made the record; "" where the cell has no second result"""
    from_cache: tuple[str, ...] = ()
    """titles of what was taken from the cache"""
    made_again: tuple[str, ...] = ()
    """titles of what was made for the second training"""


@dataclass(frozen=True)
class CacheUse:
    """What a second training takes from the cache, and what it makes again."""

    taken: list[Slot]
    made_again: list[Slot]

    @classmethod
    def of_plan(cls, plan: Plan, everything_anew: bool) -> CacheUse:
        """What the cache has and today's code made is taken; the rest is made again.

        Args:
            everything_anew: take nothing.
        """
        slots = [step.slot for step in plan.steps.values() if step.slot is not None]
        if everything_anew:
            return cls([], slots)
        other_code = {slot.key for slot in plan.stale}
        taken = [slot for slot in slots if slot.is_made and slot.key not in other_code]
        return cls(taken, [slot for slot in slots if slot not in taken])

    @property
    def replaces_something(self) -> bool:
        """Whether something is made again that is there: the cache has to stay as it is."""
        return any(slot.is_made for slot in self.made_again)


def verify(
    key: str,
    results: Path,
    request: Request,
    progress: Progress | None = None,
    from_scratch: bool = False,
    typed: Collection[str] = (),
) -> Verification:
    """Train the record's cell anew in a separate folder, and compare weights, answers and losses.

    Of a teacher's own record everything is made anew. Of a student's record the teacher and the
    artefacts are taken from the cache, except those that other code than today's made. A record
    that other code made is verified by equal bits alone: nothing less says that the two codes
    compute the same.

    Args:
        typed: names of the request's fields that somebody typed although a record has them:
            ``tasks``, for a task of the user's.
        from_scratch: take nothing from the cache: teacher, starts and all else are made again. The
            cache stays as it is.

    Raises:
        InputError: no such record, or data and teacher that cannot be read.
    """
    # the record
    store = Store(results)
    record = store.find_by_key(key)
    _refuse_untrained(key, record)
    is_teacher = record.cell.method == TEACHER

    with tempfile.TemporaryDirectory() as name:
        # the same cell, planned in a separate folder
        folder = Path(name)
        of_record = request_from_record(record, request, typed)
        again = replace(of_record, results=folder, reports=folder / "reports", yes=True, rerun=True)
        plan = build(again)
        row = (record.cell.method, record.cell.tasks)
        planned = next(
            each.cell for each in plan.cells if (each.cell.method, each.cell.tasks) == row
        )
        cell = planned.model_copy(update={"search": record.cell.search})
        if record_key(cell, record.point) != record.key:
            changes = differences(record.cell, cell, record.point)
            fields = ", ".join(change["field"] for change in changes)
            return Verification(OTHER, f"what was typed gives another cell: {fields}")

        # the second training, and what it left
        use = CacheUse.of_plan(plan, everything_anew=from_scratch or is_teacher)
        is_cache_kept = from_scratch or use.replaces_something
        with isolated_cache(use.taken, folder / "cache") if is_cache_kept else nullcontext():
            run(again, progress)
        second_store = Store(folder)
        second = second_store.find(planned, record.point)
        if second is None or second.status != "ok":
            return Verification(DIFFERENT, f"the second run failed: {_failure_of(second)}")
        verdict, why = compare_runs(record, second, store, second_store)

    code = state_of_record(record)
    verdict, why = _judged_by_code(verdict, why, code)
    from_cache = tuple(slot.title for slot in use.taken)
    made_again = tuple(slot.title for slot in use.made_again)
    return Verification(verdict, why, code, from_cache, made_again)


def _refuse_untrained(key: str, record: Record) -> None:
    """Raises InputError: the record is of no training that can be repeated."""
    if record.status != "ok":
        state = "failed" if record.status == "failed" else "was interrupted"
        raise InputError(f"the cell of the record {key} {state}, so there is nothing to verify")
    if record.point == LINEAR_IN_8_BITS:
        raise InputError(
            f"the record {key} is of {LINEAR_ONLY}, which is no longer made: run {record.row} again"
        )
    if record.cell.method in FINISHED:
        raise InputError(
            f"{record.cell.label} was only scored here, not trained; run it again with --rerun"
        )


def _failure_of(second: Record | None) -> str:
    """Why a second training has no result."""
    if second is None or second.error is None:
        return "it left no record"
    return second.error.message


def _judged_by_code(verdict: str, why: str, code: str) -> tuple[str, str]:
    """Verdict and reason where other code made the record: only equal bits count, and all else is
    not comparable."""
    if code == UNKNOWN:
        return verdict, f"{why} The record does not name the code that made it."
    if code != STALE:
        return verdict, why
    if verdict == BITWISE:
        return verdict, f"{why}; made by other code than this"
    return OTHER, (
        f"made by other code than this; trained by this code it is {verdict}: {why} "
        "To replace it: `run --rerun-stale`."
    )


def describe(answer: Verification) -> str:
    """The verdict, what was taken from the cache, and what was made."""
    lines = [f"{answer.verdict}: {answer.why}"]
    if answer.from_cache:
        titles = ", ".join(answer.from_cache)
        lines.append(f"from the cache: {titles}; --from-scratch makes them again too")
    if answer.made_again:
        lines.append(f"made again: {', '.join(answer.made_again)}")
    return "\n".join(lines)


def compare_runs(first: Record, second: Record, store: Store, again: Store) -> tuple[str, str]:
    """The verdict on a record and one of the same cell in another store, and why."""
    if first.weights == second.weights and first.scores == second.scores:
        return BITWISE, f"weights {str(first.weights)[:12]} and all scores"
    parted = parting(first, second)
    if not store.has_predictions(first):
        return DIFFERENT, f"other weights; the record keeps no answers to compare. {parted}"

    # of each evaluation set how far the logits are apart, and which answers are others
    before = store.predictions(first)
    after = again.predictions(second)
    gaps = []
    flips = 0
    turned = False
    for name, metrics in first.scores.items():
        logits = before[f"logits.{name}"]
        logits_again = after[f"logits.{name}"]
        gaps.append(float(np.abs(logits - logits_again).max()))
        form = metric_of(next(iter(metrics))).form
        differ = differing(form, logits, logits_again)
        flips += int(differ.sum())
        # numbers of a regression are hardly ever equal
        if form != SCORE and differ.mean() > TURNED:
            turned = True
    if max(gaps) <= ROUNDED and not flips:
        return ROUNDING, f"logits differ by at most {max(gaps):.2g}, no answer does. {parted}"

    # the test of each score: the second run stands as another seed, so that the two can be paired
    cell = second.cell.model_copy(update={"seed": second.cell.seed + 1})
    other = second.model_copy(update={"cell": cell, "key": record_key(cell, second.point)})
    tests = []
    for name, metrics in first.scores.items():
        column = ScoreColumn(first.cell.tasks[0], name, next(iter(metrics)))
        pairs = resampled(column, [(first, before), (other, after)])
        tests.append(compared(pairs, sides_of([first], [other])))
    are_alike = all(test.p > LEVEL for test in tests)
    verdict = STATISTICAL if are_alike and not turned else DIFFERENT
    said = [
        f"{test.metric} {test.first:.1f} and {test.second:.1f}, p {test.p:.3f}" for test in tests
    ]
    if turned:
        said.append("most answers are others, whatever the scores")
    count = "1 answer differs" if flips == 1 else f"{flips} answers differ"
    return verdict, f"{count}; {'; '.join(said)}. {parted}"


def parting(first: Record, second: Record) -> str:
    """From which steps on the losses of the two trainings are not the same."""
    for stage, terms in first.terms.items():
        # the windows of this stage at which some loss is another
        apart = []
        for name, values in terms.items():
            others = second.terms.get(stage, {}).get(name, [])
            if len(values) != len(others):
                return f"stage {stage}: {name} has {len(values)} and {len(others)} points"
            for window, (loss, other) in enumerate(zip(values, others, strict=True), start=1):
                if abs(loss - other) > CURVE * max(abs(loss), abs(other)):
                    apart.append(window)
        if apart:
            windows = len(next(iter(terms.values())))
            return f"The losses part in stage {stage} at window {min(apart)} of {windows}."
    return "The losses are the same throughout."
