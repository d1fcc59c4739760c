"""A small grid that both sides really run, from the set-up to the last step: students of several depths, one teacher.

Peers have one of our methods, TinyBERT's first stage, so the grid has four of its rows. The teacher is the embedded
one, 6 x 384 with its own weights. Ours: one group of the product's loop, whose students share the teacher's pass; and
the same with the teacher's outputs in a file, the pass that writes it included. Peer: the Trainer, once for each row.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import trainer_peer
from our_loop import kept_teacher, run, trainer_of
from transformers import AutoModelForSequenceClassification
from work import SIZES, Work, some, teacher_of

from bench.data.checkpoints import find
from bench.data.encoding import Encoded
from bench.data.tasks import GLUE
from bench.plan.outputs_plan import readable_taps
from bench.plan.spelling import parse_one
from bench.train.numerics import ComputeSettings

ROWS, EPOCHS = 64, 5
STUDENTS = {
    "base": tuple(f"tinybert:layers={n}:start=random:-pred" for n in (2, 3, 4, 6)),
    "tiny": tuple(f"tinybert:layers={n}:hidden=32:heads=4:ffn=64:start=random:-pred" for n in (1, 2)),
}


def measured(size: str, data: Encoded, folder: Path, times: int, say: Callable[[str], None]) -> dict[str, Any]:
    """Seconds of each side, in turns."""
    if size == "base":
        teacher = AutoModelForSequenceClassification.from_pretrained(find("embedded", GLUE["mrpc"], True).folder)
        teacher.eval().requires_grad_(False).set_attn_implementation("packed")
    else:
        teacher = teacher_of(SIZES[size])
    rows = list(range(min(ROWS, len(data))))
    work = Work(teacher, parse_one(STUDENTS[size][0]), some(data, rows), EPOCHS, 0, folder)
    works = [replace(work, row=parse_one(row)) for row in STUDENTS[size]]
    sides: Mapping[str, Callable[[], None]] = {
        "peers": lambda: _peers(works),
        "ours": lambda: _ours(works, kept=False),
        "ours, kept": lambda: _ours(works, kept=True),
    }
    seconds: dict[str, list[float]] = {name: [] for name in sides}
    for number in range(times):
        for name in [*sides][number % 3 :] + [*sides][: number % 3]:
            begun = time.perf_counter()
            sides[name]()
            seconds[name].append(time.perf_counter() - begun)
            say(f"real grid: {name} {seconds[name][-1]:.1f} s")
    return {"students": list(STUDENTS[size]), "rows": len(rows), "epochs": EPOCHS, "seconds": seconds}


def _peers(works: list[Work]) -> None:
    for work in works:
        trainer_peer.train(work, lambda: None)


def _ours(works: list[Work], kept: bool) -> None:
    numerics, first = ComputeSettings(), works[0]
    teacher: Any = first.teacher
    if kept:
        taps = (readable_taps(work.row.method.stages(work.setup), work.row.dropped) for work in works)
        teacher = kept_teacher(first, frozenset[Any]().union(*taps), "fp32", numerics)
    run([trainer_of(work, numerics) for work in works], first, teacher, lambda: None)
