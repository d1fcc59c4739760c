"""Run a record's training again and say how far the answer is the same."""

from __future__ import annotations

import tempfile
from collections.abc import Collection, Mapping
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from bench.cache import isolated_cache
from bench.errors import CHECK_FAILED, NOT_COMPARABLE, InputError
from bench.plan.build import build
from bench.plan.from_record import request_from_record
from bench.progress import Progress
from bench.record.cell import FINISHED, LINEAR_IN_8_BITS, LINEAR_ONLY, TEACHER, record_key
from bench.record.code import STALE, UNKNOWN, state_of_record
from bench.record.differences import differences
from bench.record.schema import Record
from bench.record.store import Store
from bench.report.comparison import compared, sides_of
from bench.report.groups import ScoreColumn
from bench.report.resampled import resampled
from bench.request import Request
from bench.stats.form import ROUNDED, SCORE, differing
from bench.stats.metrics import metric_of
from bench.stats.power import LEVEL
from bench.workflows.run import run

BITWISE, ROUNDING, STATISTICAL = "bitwise equal", "equal within rounding", "statistically equal"
DIFFERENT, OTHER = "different", "not comparable"
TURNED = 0.5
"""Share of the answers from which on two models are not the same, even where they are right equally often."""
CURVE = 1e-5
"""Relative difference of a loss from which on two trainings have parted."""


EXIT_CODES = {DIFFERENT: CHECK_FAILED, OTHER: NOT_COMPARABLE}


def verify(
    key: str,
    results: Path,
    request: Request,
    progress: Progress | None = None,
    from_scratch: bool = False,
    typed: Collection[str] = (),
) -> dict[str, Any]:
    """Train the record's cell anew in a folder of its own, and compare weights, answers and losses.

    Of a teacher's own record everything is made anew. Of a student's record the teacher and the artefacts are taken from
    the cache, except those that other code than today's made. A record that other code made is verified by equal bits
    alone: nothing less says that the two codes compute the same.

    Args:
        typed: names of the request's fields that somebody typed although a record has them: ``tasks``, for a task of one's own.
        from_scratch: take nothing from the cache: teacher, starts and all else are made again. The cache stays as it is.

    Returns:
        The ``verdict`` and ``why``; the state of the ``code`` that made the record ("" where it was not run again); and what was
        taken ``from_cache`` and ``made_again``.

    Raises:
        InputError: no such record, or data and teacher that cannot be read.
    """
    record = Store(results).find_by_key(key)
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
    answer = {"verdict": "", "why": "", "code": "", "from_cache": [], "made_again": []}
    with tempfile.TemporaryDirectory() as folder:
        asked = request_from_record(record, request, typed)
        again = replace(
            asked, results=Path(folder), reports=Path(folder) / "reports", yes=True, rerun=True
        )
        plan = build(again)
        row = (record.cell.method, record.cell.tasks)
        planned = next(p.cell for p in plan.cells if (p.cell.method, p.cell.tasks) == row)
        cell = planned.model_copy(update={"search": record.cell.search})
        if record_key(cell, record.point) != record.key:
            differing = ", ".join(
                part["field"] for part in differences(record.cell, cell, record.point)
            )
            return answer | {
                "verdict": OTHER,
                "why": f"what was typed gives another cell: {differing}",
            }

        # what the cache has and today's code made is taken; the rest is made, in the cache if all that lies there may stay
        slots = [step.slot for step in plan.steps.values() if step.slot is not None]
        anew = {slot.key for slot in plan.stale}
        if from_scratch or record.cell.method == TEACHER:
            anew |= {slot.key for slot in slots}
        taken = [slot for slot in slots if slot.is_made and slot.key not in anew]
        made_again = [slot for slot in slots if slot not in taken]
        apart = from_scratch or any(slot.is_made for slot in made_again)
        with isolated_cache(taken, Path(folder) / "cache") if apart else nullcontext():
            run(again, progress)
        store = Store(Path(folder))
        second = store.find(planned, record.point)
        if second is None or second.status != "ok":
            why = (
                second.error.message if second is not None and second.error else "it left no record"
            )
            return answer | {"verdict": DIFFERENT, "why": f"the second run failed: {why}"}
        verdict, why = compare_runs(record, second, Store(results), store)

    # of what other code made only equal bits count, and all else is not comparable
    code = state_of_record(record)
    if code == UNKNOWN:
        why += " The record does not name the code that made it."
    elif code == STALE:
        if verdict == BITWISE:
            why += "; made by other code than this"
        else:
            why = f"made by other code than this; trained by this code it is {verdict}: {why} To replace it: `run --rerun-stale`."
            verdict = OTHER
    return {
        "verdict": verdict,
        "why": why,
        "code": code,
        "from_cache": [slot.title for slot in taken],
        "made_again": [slot.title for slot in made_again],
    }


def describe(answer: Mapping[str, Any]) -> str:
    """The verdict, what was taken from the cache, and what was made."""
    lines = [f"{answer['verdict']}: {answer['why']}"]
    if answer["from_cache"]:
        lines.append(
            f"from the cache: {', '.join(answer['from_cache'])}; --from-scratch makes them again too"
        )
    if answer["made_again"]:
        lines.append(f"made again: {', '.join(answer['made_again'])}")
    return "\n".join(lines)


def compare_runs(first: Record, second: Record, store: Store, again: Store) -> tuple[str, str]:
    """The verdict on a record and one of the same cell in another store, and why."""
    if first.weights == second.weights and first.scores == second.scores:
        return BITWISE, f"weights {str(first.weights)[:12]} and all scores"
    parted = parting(first, second)
    if not store.has_predictions(first):
        return DIFFERENT, f"other weights; the record keeps no answers to compare. {parted}"
    before, after = store.predictions(first), again.predictions(second)
    gaps, flips, turned = [], 0, False
    for name in first.scores:
        a, b = before[f"logits.{name}"], after[f"logits.{name}"]
        gaps.append(float(np.abs(a - b).max()))
        form = metric_of(next(iter(first.scores[name]))).form
        differ = differing(form, a, b)
        flips += int(differ.sum())
        turned |= form != SCORE and bool(differ.mean() > TURNED)
    if max(gaps) <= ROUNDED and not flips:
        return ROUNDING, f"logits differ by at most {max(gaps):.2g}, no answer does. {parted}"
    # as another seed, so that the two can be paired
    cell = second.cell.model_copy(update={"seed": second.cell.seed + 1})
    other = second.model_copy(update={"cell": cell, "key": record_key(cell, second.point)})
    lines = []
    for name, metrics in first.scores.items():
        column = ScoreColumn(first.cell.tasks[0], name, next(iter(metrics)))
        lines.append(
            compared(
                resampled(column, [(first, before), (other, after)]), sides_of([first], [other])
            )
        )
    text = "; ".join(f"{x.metric} {x.first:.1f} and {x.second:.1f}, p {x.p:.3f}" for x in lines)
    verdict = STATISTICAL if all(line.p > LEVEL for line in lines) and not turned else DIFFERENT
    if turned:
        text += "; most answers are others, whatever the scores"
    return (
        verdict,
        f"{flips} {'answer differs' if flips == 1 else 'answers differ'}; {text}. {parted}",
    )


def parting(first: Record, second: Record) -> str:
    """From which steps on the losses of the two trainings are not the same."""
    for stage, terms in first.terms.items():
        apart = list[int]()
        for name, values in terms.items():
            others = second.terms.get(stage, {}).get(name, [])
            if len(values) != len(others):
                return f"stage {stage}: {name} has {len(values)} and {len(others)} points"
            apart += [
                i
                for i, (a, b) in enumerate(zip(values, others, strict=True))
                if abs(a - b) > CURVE * max(abs(a), abs(b))
            ]
        if apart:
            return f"The losses part in stage {stage} at window {min(apart) + 1} of {len(next(iter(terms.values())))}."
    return "The losses are the same throughout."
