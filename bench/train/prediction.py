"""Predictions of a deployed model, and the metrics as local ``evaluate.Metric`` classes.

Nothing is fetched from the network.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from torch import nn

from bench.data.encoding import TOKENS_A_BATCH, Encoded
from bench.errors import CellError
from bench.stats.metrics import Metric, metric_of
from bench.train.numerics import ComputeSettings
from methods.core.models import WritingModel, forward
from methods.core.taps import LOGITS


def predict(
    model: nn.Module,
    data: Encoded,
    numerics: ComputeSettings,
    on_step: Callable[[int, int], object] = lambda done, total: None,
) -> np.ndarray:
    """[n, C] float32 logits in the order of the examples.

    Of questions they are the [n, 5] answers of :data:`bench.stats.form.SPANS`, of a model that
    writes the counts of its texts. Batches hold examples of similar length.

    Args:
        on_step: told how many examples are done, of how many.
    """
    logits: np.ndarray | None = None
    model.to(numerics.device).eval()
    done = 0
    for examples in _batches_by_length(data):
        batch = data.batch(examples, numerics.device)
        # logits, or counts of the texts that are written
        with torch.no_grad(), numerics.autocast():
            if isinstance(model, WritingModel):
                answer = _counts(model.written(batch), data, batch.texts)
            else:
                answer = forward(model, batch, LOGITS).logits.float().cpu().numpy()
        if not np.isfinite(answer).all():
            raise CellError("the trained model predicts values that are not numbers")
        # of a question the best span of each of its windows
        if data.questions is not None:
            answer = data.questions.best_spans(examples, answer)
        # the first batch says how many numbers there are of an example
        if logits is None:
            logits = np.empty((len(data), answer.shape[1]), dtype=np.float32)
        logits[examples] = answer
        done += len(examples)
        on_step(done, len(data))
    assert logits is not None
    return logits if data.questions is None else data.questions.answers(logits)


def _batches_by_length(data: Encoded) -> Iterator[list[int]]:
    """The examples from the shortest to the longest, as many at once as fit into a pass."""
    order = sorted(range(len(data)), key=lambda example: len(data.tokens[example]))
    batch: list[int] = []
    for example in order:
        # it is the longest so far, and all others are filled up to it
        if batch and len(data.tokens[example]) * (len(batch) + 1) > TOKENS_A_BATCH:
            yield batch
            batch = []
        batch.append(example)
    if batch:
        yield batch


def _counts(
    written: Sequence[Sequence[int]], data: Encoded, texts: Sequence[tuple[str, str | None]]
) -> np.ndarray:
    """What metrics need of texts that were written, beside the second text of each pair."""
    from bench.stats.metrics.text import counts_of

    assert data.decode is not None, "it has what makes texts of token ids"
    return counts_of([data.decode(ids) for ids in written], [target or "" for _, target in texts])


@lru_cache
def evaluate_class_of(metric: Metric) -> Any:
    """The class of an ``evaluate.Metric`` that scores as one of ours.

    It is defined here, so nothing is fetched.
    """
    import datasets
    import evaluate

    # the types of an answer and of a label, as datasets has them
    form = metric.form
    value = datasets.Value(form.dtype)
    answer = datasets.List(datasets.Value("float32"), length=form.shape[0]) if form.shape else value
    label = answer if len(form.arrays(1, 1)["labels"]) > 1 else value

    class Local(evaluate.Metric):
        def _info(self) -> evaluate.MetricInfo:
            features = datasets.Features({"predictions": answer, "references": label})
            return evaluate.MetricInfo(description=metric.name, citation="", features=features)

        def _compute(self, predictions: Sequence, references: Sequence) -> dict[str, float]:
            return {metric.name: metric.score(np.asarray(predictions), np.asarray(references))}

    return Local


def score(logits: np.ndarray, labels: np.ndarray, metrics: Sequence[str]) -> dict[str, float]:
    """Scores between -1 and 1 of these logits against the labels.

    Raises:
        InputError: no such metric.
    """
    # by the library evaluate, which holds them in memory
    scores: dict[str, float] = {}
    for name in metrics:
        metric = metric_of(name)
        measure = evaluate_class_of(metric)(keep_in_memory=True, experiment_id="bench")
        computed = measure.compute(predictions=metric.form.predicted(logits), references=labels)
        scores[name] = float(computed[name])
    return scores
