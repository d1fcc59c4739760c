"""BLEU and ROUGE-L of texts, from the counts that a record keeps of each.

They are :data:`bench.stats.form.TEXT_COUNTS`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from bench.errors import InputError
from bench.stats.form import TEXT, TEXT_COUNTS
from bench.stats.metrics import Metric
from bench.stats.resampling import Mean, Sums

LAST = len(TEXT_COUNTS) - 1


def _bleu_of(sums_RK: np.ndarray) -> np.ndarray:
    """[R] corpus BLEU, 0 to 1, of summed counts (Papineni et al. 2002).

    It has sacrebleu's exponential smoothing: of the orders without a right n-gram the first counts
    1/2, the second 1/4 ...
    """
    # words, and right and all n-grams of the orders 1 to 4
    words_R = sums_RK[:, 0]
    reference_R = sums_RK[:, 1]
    right_RO = sums_RK[:, 2:6]
    all_RO = sums_RK[:, 6:10]
    none_RO = (right_RO == 0) & (all_RO > 0)
    smoothed_RO = np.where(none_RO, 0.5 ** none_RO.cumsum(1), right_RO)
    with np.errstate(divide="ignore", invalid="ignore"):
        precision_RO = smoothed_RO / all_RO
        brevity_R = np.exp(np.minimum(0.0, 1 - reference_R / words_R))
        score_R = brevity_R * np.exp(np.log(precision_RO).mean(1))
    return np.where((right_RO.sum(1) > 0) & (all_RO > 0).all(1), score_R, 0.0)


def _bleu(predicted: np.ndarray, copied: np.ndarray) -> float:
    return float(_bleu_of(predicted.sum(0, dtype=float, keepdims=True))[0])


def _rouge_l_each(predicted: np.ndarray, copied: np.ndarray) -> np.ndarray:
    return np.asarray(predicted[:, LAST])


def _rouge_l(predicted: np.ndarray, copied: np.ndarray) -> float:
    return float(predicted[:, LAST].mean(dtype=float))


BLEU = Metric("bleu", "BLEU", TEXT, score=_bleu, resampled_by=Sums(_bleu_of))
ROUGE_L = Metric("rouge_l", "ROUGE-L", TEXT, score=_rouge_l, resampled_by=Mean(_rouge_l_each))


def counts_of(texts: Sequence[str], references: Sequence[str]) -> np.ndarray:
    """[n, K] counts of texts beside their references, as sacrebleu and rouge-score count them.

    Both are in lower case, since many teachers know no other.

    Raises:
        InputError: these libraries are not installed.
    """
    bleu, rouge = _scorers()
    words = zip(texts, references, strict=True)
    rouge_l = [rouge.score(reference, text)["rougeL"].fmeasure for text, reference in words]
    # no public method gives the counts of each sentence; a test holds their sums against
    # corpus_score
    counts = bleu._extract_corpus_statistics(list(texts), [list(references)])
    return np.column_stack(
        [np.array(counts, dtype=np.float32), np.array(rouge_l, dtype=np.float32)]
    )


def signature() -> str:
    """How sacrebleu describes this BLEU: with it, others can compute the same."""
    bleu, _ = _scorers()
    bleu.corpus_score(["a"], [["a"]])  # it knows the number of references only after a score
    return str(bleu.get_signature())


def _scorers() -> tuple[Any, Any]:
    try:
        from rouge_score.rouge_scorer import RougeScorer
        from sacrebleu import metrics
    except ImportError:
        raise InputError(
            "texts are scored by sacrebleu and rouge-score: pip install 'bert-bench[generation]'"
        ) from None
    return metrics.BLEU(lowercase=True), RougeScorer(["rougeL"])
