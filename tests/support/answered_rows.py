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
        for label, share in SHARES.items():
            for seed in (0,) if label == "teacher" else (0, 1, 2):
                record = factories.record(label, task, seed, macs=10**9 if label == "teacher" else 10**8)
                factories.write(store, record, np.where(chance.random(N) >= share, 1 - LABELS, LABELS), LABELS)
    return store
