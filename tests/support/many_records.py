"""A folder of many records, copied from committed ones with other rows, seeds and predictions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from factories import changed, consistent

from bench.record.schema import Record
from bench.record.store import Store

COMMITTED = Path(__file__).resolve().parents[2] / "results" / "reference"
DATA = "sample-v2"
METHOD = "kd"
OTHERS = ("tinybert", "minilm", "pkd", "mobilebert", "moebert")
"""Methods of the other rows. None of them has a plain row there, which would make variants of its copies."""
TASKS = ("cola", "mrpc", "qnli", "rte", "stsb")
"""Two of shares of right answers, one of F1, one of Matthews' correlation and one of ranks."""


def write_many_records(
    folder: Path, students: int, seeds: int, tasks: Sequence[str] = TASKS
) -> Store:
    """Write ``students * seeds`` records of each task, and one of its teacher.

    Every other student is a system of its own, and the others are one method with a changed setting, so that all tables
    of a report have lines. Their answers are right as often as those of the committed record, or a little less often.
    """
    store = Store(folder)
    for task in tasks:
        teacher, answers = _committed(task, "teacher")
        store.write(*consistent(teacher, dict(answers)))
        student, answers = _committed(task, METHOD)
        for number in range(students):
            for seed in range(seeds):
                copy = changed(student, **_row(student, number), seed=seed)
                noise = np.random.default_rng([number, seed])
                store.write(*consistent(copy, _noisier(answers, noise, number / students)))
    return store


def _committed(task: str, method: str) -> tuple[Record, Mapping[str, np.ndarray]]:
    """The first committed record of a method on a task, and its answers."""
    store = Store(COMMITTED)
    folder = min((COMMITTED / DATA / task / method).iterdir())
    record = store.find_by_key(folder.name)
    return record, store.predictions(record)


def _row(student: Record, number: int) -> dict[str, object]:
    """The fields of a cell that make it the row of this number."""
    if number == 0:
        return {}
    if number % 2:
        method = OTHERS[number // 2 % len(OTHERS)]
        settings = {**student.cell.settings, "copy": number}
        return {"label": f"{method}:copy={number}", "method": method, "settings": settings}
    alpha = number / 1000
    return {
        "label": f"{METHOD}:alpha={alpha}",
        "settings": {**student.cell.settings, "alpha": alpha},
    }


def _noisier(
    answers: Mapping[str, np.ndarray], rng: np.random.Generator, share: float
) -> dict[str, np.ndarray]:
    """The answers, of which up to a fifth are those to other examples; more of them the larger the share is."""
    noisier = dict(answers)
    for name in [name for name in answers if name.startswith("logits.")]:
        logits = answers[name].copy()
        swapped = np.flatnonzero(rng.random(len(logits)) < 0.05 + 0.15 * share)
        logits[swapped] = logits[rng.permutation(swapped)]
        noisier[name] = logits
    return noisier
