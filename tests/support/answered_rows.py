"""A store of rows whose answers are stored: a teacher, plain fine-tuning, and one student that is better than it."""

from __future__ import annotations

from pathlib import Path

import factories
import numpy as np

from bench.record.store import Store

N = 400
LABELS = np.random.default_rng(0).integers(2, size=N)
SHARES = {"teacher": 0.9, "finetune": 0.75, "kd": 0.76, "microbert": 0.88}
"""Row -> share of right answers."""


def store_of(folder: Path) -> Store:
    """Two tasks, three seeds of each student."""
    store, chance = Store(folder), np.random.default_rng(5)
    for task in ("rte", "sst2"):
        for label in SHARES:
            for seed in (0,) if label == "teacher" else (0, 1, 2):
                _write(store, label, task, seed, chance)
    return store


def _write(store: Store, label: str, task: str, seed: int, chance: np.random.Generator) -> None:
    logits = np.eye(2, dtype=np.float32)[np.where(chance.random(N) >= SHARES[label], 1 - LABELS, LABELS)]
    arrays = {
        "logits.validation": logits,
        "labels.validation": LABELS,
        "examples.validation": np.arange(N, dtype=np.uint64),
    }
    score = float((logits.argmax(1) == LABELS).mean())
    macs = 10**9 if label == "teacher" else 10**8
    store.write(factories.record(label, task, seed, score, macs=macs), arrays)
