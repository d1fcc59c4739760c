"""Records made in code, for tests of reports: built from the frozen ones, with scores of our choice."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from bench.record.cell import record_key, train_key
from bench.record.known_tasks import facts_of_older_record
from bench.record.schema import Failure, Record, load
from bench.record.store import Store
from bench.record.task_facts import TaskFacts
from bench.stats.metrics import metric_of

FROZEN = Path(__file__).parents[1] / "records" / "v1"
EVALUATIONS = {"mnli": ("matched", "mismatched")}
METRICS = {
    "cola": ("matthews", "accuracy"),
    "mrpc": ("f1", "accuracy"),
    "stsb": ("spearman", "pearson"),
}


def record(
    label: str = "kd",
    task: str = "rte",
    seed: int = 0,
    score: float | None = 0.6,
    *,
    macs: int | None = None,
    ablation_of: str | None = None,
    failed: str | None = None,
    data: str | None = None,
    precision: str = "fp32",
) -> Record:
    """One record; ``score=None`` with ``failed`` gives a failed one."""
    base = load((FROZEN / ("teacher.json" if label == "teacher" else "ok.json")).read_text(), label)
    names = EVALUATIONS.get(task, ("validation",))
    cell = base.cell.model_copy(
        update={
            "label": label,
            "method": label.split(":")[0].split(" ")[0],
            "settings": {"label": label},
            "ablation_of": ablation_of,
            "tasks": (task,),
            "seed": seed,
            "numeric": base.cell.numeric.model_copy(update={"precision": precision}),
            "data": base.cell.data.model_copy(
                update={
                    "evaluation": dict.fromkeys(names, "0" * 64),
                    "rows": {"train": 40, **dict.fromkeys(names, 40)},
                    **({"name": data, "slug": data} if data else {}),
                }
            ),
        }
    )
    sizes = base.sizes.model_copy(update={"macs": macs}) if macs and base.sizes else base.sizes
    done = score is not None
    return base.model_copy(
        update={
            "key": record_key(cell),
            "train_key": train_key(cell),
            "cell": cell,
            "task": facts_of_older_record((task,), {}),
            "status": "ok" if done else "failed",
            "scores": {
                n: dict.fromkeys(METRICS.get(task, ("accuracy",)), score - 0.01 * i)
                for i, n in enumerate(names)
            }
            if done
            else {},
            "sizes": sizes if done else None,
            "train": base.train if done else None,
            "error": Failure(type="CellError", message=failed, traceback="") if failed else None,
        }
    )


def limited(record: Record, limit: int, rows: int) -> Record:
    """The same training on so many rows, drawn from more."""
    drawn = {
        "train": "4" * 64,
        "max_train_rows": limit,
        "rows": {**record.cell.data.rows, "train": rows},
    }
    return changed(record, data=drawn)


def changed(record: Record, **parts: Any) -> Record:
    """The record with other values in its cell, of parts with fields those that are named; and with the keys that follow."""
    updates = {}
    for name, value in parts.items():
        before = getattr(record.cell, name)
        if isinstance(value, dict) and before is not None:
            value = (
                {**before, **value} if isinstance(before, dict) else before.model_copy(update=value)
            )
        updates[name] = value
    cell = record.cell.model_copy(update=updates)
    keys = {"key": record_key(cell, record.point), "train_key": train_key(cell)}
    return record.model_copy(update={"cell": cell, **keys})


def consistent(
    record: Record, arrays: dict[str, np.ndarray]
) -> tuple[Record, dict[str, np.ndarray]]:
    """The record with the keys that follow from its cell and the scores that follow from these answers; and both for a store.

    Examples that are not given are numbered.
    """
    scores = {}
    for name, metrics in record.scores.items():
        logits, labels = arrays[f"logits.{name}"], arrays[f"labels.{name}"]
        found = [metric_of(metric) for metric in metrics]
        scores[name] = {
            metric.name: metric.score(metric.form.predicted(logits), labels) for metric in found
        }
        arrays = {f"examples.{name}": np.arange(len(labels), dtype=np.uint64), **arrays}
    keys = {"key": record_key(record.cell, record.point), "train_key": train_key(record.cell)}
    return record.model_copy(update={**keys, "scores": scores}), arrays


def write(
    store: Store, record: Record, answers: np.ndarray, labels: np.ndarray, classes: int = 2
) -> Path:
    """Write a record of classes with these answers, which give its scores."""
    arrays = {
        "logits.validation": np.eye(classes, dtype=np.float32)[answers],
        "labels.validation": labels,
    }
    return store.write(*consistent(record, arrays))


TICKETS = np.repeat(np.arange(12), [60, 50, 40, 40, 30, 30, 30, 20, 12, 8, 6, 6])
"""Labels of a user's own task whose 12 classes are unequal."""
TICKET_ROWS = {"teacher": (), "sound": (), "dead": (8, 10)}
"""Row -> the classes that it never predicts; all examples of them are given class 0."""


def ticket(
    label: str, metrics: tuple[str, ...] = ("accuracy", "macro_f1"), classes: int = 12
) -> Record:
    """A record of the tickets without answers."""
    facts = TaskFacts(
        form="classes", labels=tuple(f"c{code}" for code in range(classes)), metrics=metrics
    )
    made = record(label, "tickets", data="own-tickets", macs=10**9 if label == "teacher" else 10**8)
    scores = {"validation": dict.fromkeys(metrics, 0.5)}
    return made.model_copy(update={"task": facts, "scores": scores})


def ticket_answers(label: str) -> np.ndarray:
    """What a row answers to the tickets: mostly right, and its dead classes never."""
    chance = np.random.default_rng([len(label), 3])
    is_wrong = (chance.random(len(TICKETS)) < 0.1) & (TICKETS < 8)
    answers = np.where(is_wrong, (TICKETS + 1) % 8, TICKETS)
    return np.where(np.isin(answers, TICKET_ROWS[label]), 0, answers)


def ticket_store(folder: Path, metrics: tuple[str, ...] = ("accuracy", "macro_f1")) -> Store:
    """A teacher, a sound row and one of two dead classes, with stored answers."""
    store = Store(folder)
    for label in TICKET_ROWS:
        write(store, ticket(label, metrics), ticket_answers(label), TICKETS, 12)
    return store


PRICES = np.random.default_rng(2).lognormal(8.5, 0.4, 300).astype(np.float32)
"""Labels of a user's own regression."""
PRICE_ERRORS = {"teacher": 300.0, "near": 400.0, "far": 1500.0}
"""Row -> the standard deviation of its errors."""


def price_store(folder: Path, task: str = "prices") -> Store:
    """A teacher and two rows of a regression, with stored answers."""
    store = Store(folder)
    chance = np.random.default_rng(3)
    metrics = ("r2", "spearman", "pearson")
    for label, deviation in PRICE_ERRORS.items():
        answers = PRICES + chance.normal(0, deviation, len(PRICES)).astype(np.float32)
        made = record(label, task, data=f"own-{task}")
        made = made.model_copy(
            update={
                "task": TaskFacts(form="score", metrics=metrics),
                "scores": {"validation": dict.fromkeys(metrics, 0.5)},
            }
        )
        arrays = {"logits.validation": answers[:, None], "labels.validation": PRICES}
        store.write(*consistent(made, arrays))
    return store


def paper() -> list[Record]:
    """Two tasks, a teacher, three students, an ablation row, two seeds, one failure and one gap."""
    found = [
        record("teacher", task, score=value, macs=10**9)
        for task, value in (("rte", 0.7), ("mnli", 0.8))
    ]
    for seed in (0, 1):
        found += [
            record("kd", "rte", seed, 0.60 + 0.02 * seed),
            record("kd", "mnli", seed, 0.75),
            record("microbert", "rte", seed, 0.66 - 0.02 * seed),
            record("microbert w/o Dis", "rte", seed, 0.64, ablation_of="microbert"),
        ]
    found += [
        record("microbert", "mnli", 0, 0.78),
        record("microbert", "mnli", 1, None, failed="the term dis.adv became nan at step 3"),
        record("wide", "rte", 0, 0.69, macs=2 * 10**9),
    ]
    return found


EXAMPLES = 400
LABELS = np.random.default_rng(0).integers(2, size=EXAMPLES)
SHARES = {"teacher": 0.9, "finetune": 0.75, "kd": 0.76, "microbert": 0.88}
"""Row -> share of right answers."""


def answered_store(folder: Path) -> Store:
    """Rows whose answers are stored, of two tasks: a teacher, and three seeds of plain fine-tuning and of two students, one of which is better."""
    store, chance = Store(folder), np.random.default_rng(5)
    for task in ("rte", "sst2"):
        for label, share in SHARES.items():
            for seed in (0,) if label == "teacher" else (0, 1, 2):
                made = record(label, task, seed, macs=10**9 if label == "teacher" else 10**8)
                write(
                    store,
                    made,
                    np.where(chance.random(EXAMPLES) >= share, 1 - LABELS, LABELS),
                    LABELS,
                )
    return store
