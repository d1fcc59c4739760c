"""pytest-benchmark: a report of 1,000 records with all its statistics."""

from __future__ import annotations

import time

import factories
import numpy as np
import pytest

from bench.data.tasks import GLUE
from bench.record.store import Store
from bench.report.write import write_reports

EXAMPLES = 800


def arrays(task, rng, names):
    """Answers of a system that is right on four of five examples, on the evaluation sets of a task."""
    found = {}
    for name in names:
        if GLUE[task].regression:
            labels = np.random.default_rng(7).random(EXAMPLES)
            logits = (labels + rng.normal(0, 0.3, EXAMPLES))[:, None].astype(np.float32)
        else:
            classes = GLUE[task].num_labels
            labels = np.random.default_rng(7).integers(classes, size=EXAMPLES)
            answers = np.where(
                rng.random(EXAMPLES) < 0.8, labels, rng.integers(classes, size=EXAMPLES)
            )
            logits = np.eye(classes, dtype=np.float32)[answers]
        found |= {f"logits.{name}": logits, f"labels.{name}": labels}
        found[f"examples.{name}"] = np.arange(EXAMPLES, dtype=np.uint64)
    return found


@pytest.mark.slow
@pytest.mark.benchmark(timer=time.process_time)  # other work on the machine is not what is tested
def test_report_of_a_thousand_records(benchmark, tmp_path):
    store, rng = Store(tmp_path / "results"), np.random.default_rng(0)
    written = 0
    for task in GLUE:
        names = factories.EVALUATIONS.get(task, ("validation",))
        teacher = factories.record("teacher", task, score=0.8, macs=10**9)
        store.write(*factories.consistent(teacher, arrays(task, rng, names)))
        for label in range(12):
            for seed in range(10):
                if written < 991:
                    row = "finetune" if label == 0 else f"m{label}"
                    store.write(
                        *factories.consistent(
                            factories.record(row, task, seed), arrays(task, rng, names)
                        )
                    )
                    written += 1
    assert len(list(store.records())) == 1000
    begun = time.process_time()
    paths = benchmark.pedantic(
        write_reports, (store, tmp_path / "reports"), rounds=1, warmup_rounds=0
    )
    assert len(paths) == 1
    assert "## Paired comparisons" in paths[0].read_text()
    assert time.process_time() - begun < 60.0  # CPU seconds; about 25 to 30 on two cores of 2021
