"""Predictions of a deployed model, and GLUE's metrics as local ``evaluate.Metric`` classes (no network)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from torch import nn

from bench.data.encode import Encoded
from bench.data.tasks import VALUE_METRICS
from bench.errors import CellError
from bench.stats.metrics import FORMULAS
from bench.train.numerics import Numerics
from methods.packed import forward
from methods.taps import LOGITS

TOKENS_A_BATCH = 4096


def predict(model: nn.Module, data: Encoded, numerics: Numerics) -> np.ndarray:
    """[n, C] float32 logits in the order of the examples. Batches hold examples of similar length."""
    order = sorted(range(len(data)), key=lambda i: len(data.tokens[i]))
    logits: np.ndarray | None = None
    model.to(numerics.device).eval()
    start = 0
    while start < len(order):
        stop, longest = start, 0
        while stop < len(order) and (
            stop == start or max(longest, len(data.tokens[order[stop]])) * (stop - start + 1) <= TOKENS_A_BATCH
        ):
            longest = max(longest, len(data.tokens[order[stop]]))
            stop += 1
        rows = order[start:stop]
        with torch.no_grad(), numerics.autocast():
            answer = forward(model, data.batch(rows, numerics.device), LOGITS).logits.float().cpu().numpy()
        if logits is None:
            logits = np.empty((len(data), answer.shape[1]), dtype=np.float32)
        logits[rows] = answer
        start = stop
    assert logits is not None
    if not np.isfinite(logits).all():
        raise CellError("the trained model predicts values that are not numbers")
    return logits


@lru_cache
def metric(name: str) -> Any:
    """A local ``evaluate.Metric`` called ``name``: one of :data:`bench.data.tasks.METRICS`."""
    import datasets
    import evaluate

    value = "float32" if name in VALUE_METRICS else "int64"

    class Local(evaluate.Metric):
        def _info(self) -> evaluate.MetricInfo:
            features = datasets.Features({"predictions": datasets.Value(value), "references": datasets.Value(value)})
            return evaluate.MetricInfo(description=name, citation="", features=features)

        def _compute(self, predictions: Sequence, references: Sequence) -> dict[str, float]:
            return {name: FORMULAS[name](np.asarray(predictions), np.asarray(references))}

    return Local


def score(logits: np.ndarray, labels: np.ndarray, metrics: Sequence[str]) -> dict[str, float]:
    """Scores between -1 and 1 of these logits against the labels."""
    predictions = logits[:, 0] if logits.shape[1] == 1 else logits.argmax(1)
    scores: dict[str, float] = {}
    for name in metrics:
        computed = metric(name)(keep_in_memory=True, experiment_id="bench").compute(
            predictions=predictions, references=labels
        )
        scores[name] = float(computed[name])
    return scores
