"""What stored answers show: what one answer to every example would score, and answers that are suspect."""

from __future__ import annotations

from collections.abc import Mapping

from bench.record.store import Store
from bench.report.groups import ReportGroup, ScoreColumn
from bench.report.resampled import finished
from bench.stats.guards import Suspicion, suspicions
from bench.stats.metrics import metric_of

Faults = dict[tuple[str, ScoreColumn], dict[str, dict[int, Suspicion]]]
"""(row, column) -> what is wrong with its answers -> seed -> how it shows there"""


def faults_of(group: ReportGroup, store: Store) -> Faults:
    """What is suspect about the stored answers of each row and column, by the column's own metric."""
    found: Faults = {}
    for label in group.systems:
        for column in group.columns:
            for record in finished(group, label, column):
                if not store.has_predictions(record):
                    continue
                arrays = store.predictions(record)
                logits, labels = (arrays[f"{what}.{column.evaluation}"] for what in ("logits", "labels"))
                for suspicion in suspicions(logits, labels, record.task.labels or (), column.metric):
                    faults = found.setdefault((label, column), {})
                    faults.setdefault(suspicion.what, {})[record.cell.seed] = suspicion
    return found


def suspicions_of(group: ReportGroup, store: Store) -> dict[tuple[str, ScoreColumn], list[str]]:
    """What is suspect about the answers of each row and column: one line a column and fault, naming every row and seed."""
    met: dict[tuple[ScoreColumn, str], dict[str, dict[int, Suspicion]]] = {}
    for (label, column), faults in faults_of(group, store).items():
        for what, of_seed in faults.items():
            met.setdefault((column, what), {})[label] = of_seed
    found: dict[tuple[str, ScoreColumn], list[str]] = {}
    for (column, what), rows in met.items():
        listed = "; ".join(f"{label}, {seeds_in_words(of_seed)}" for label, of_seed in rows.items())
        for label in rows:
            found.setdefault((label, column), []).append(f"{column.name}, {what}: {listed}")
    return found


def seeds_in_words(found: Mapping[int, Suspicion]) -> str:
    """``seeds 0 and 2 (50.1, 49.9)``, or without figures where there are none."""
    *most, last = [str(seed) for seed in sorted(found)]
    named = f"seeds {', '.join(most)} and {last}" if most else f"seed {last}"
    shown = ", ".join(found[seed].figure for seed in sorted(found) if found[seed].figure)
    return named + (f" ({shown})" if shown else "")


def baselines_of(group: ReportGroup, store: Store) -> dict[ScoreColumn, float]:
    """Percent that the best single answer to every example scores; without columns that have no stored answers."""
    found = {}
    for column in group.columns:
        done = [record for label in group.systems for record in finished(group, label, column)]
        record = next(filter(store.has_predictions, done), None)
        if record is not None:
            arrays, metric = store.predictions(record), metric_of(column.metric)
            logits, labels = (arrays[f"{what}.{column.evaluation}"] for what in ("logits", "labels"))
            found[column] = 100 * metric.form.constant(labels, logits.shape[1], metric.score)[1]
    return found
