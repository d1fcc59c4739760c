"""pytest-benchmark: a report of 1,000 records."""

from __future__ import annotations

import made

from bench.data.tasks import GLUE
from bench.record.store import Store
from bench.report.write import write_reports


def test_report_of_a_thousand_records(benchmark, tmp_path):
    store = Store(tmp_path / "results")
    written = 0
    for task in GLUE:
        store.write(made.record("teacher", task, score=0.8, macs=10**9))
    for label in range(12):
        for task in GLUE:
            for seed in range(10):
                if written < 991:
                    store.write(made.record(f"m{label}", task, seed, 0.6 + 0.001 * seed))
                    written += 1
    assert len(list(store.records())) == 1000
    paths = benchmark.pedantic(write_reports, (store, tmp_path / "reports"), rounds=2, warmup_rounds=0)
    assert len(paths) == 1
    assert benchmark.stats.stats.max < 5.0
