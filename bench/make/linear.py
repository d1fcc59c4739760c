"""A linear model on words: the baseline that a compressed encoder has to beat.

TF-IDF of words and of pairs of neighbouring words, with logistic regression on classes and ridge
regression on numbers. scikit-learn fits it; its file is opened by numpy alone.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path

import numpy as np

from bench.data.automatic_split import divided
from bench.data.predictions import (
    ABOUT,
    LONGEST_INPUT,
    About,
    name_of_file,
)
from bench.data.table_files import Split
from bench.data.tasks import BALANCED, Task
from bench.errors import InputError
from bench.record.raw_predictions import INDEX, LABEL, PREDICTION
from bench.stats.metrics import metric_of

NAME = "linear (TF-IDF)"
"""What tables call it."""
FILE = "linear.npz"
MOST_GRAMS = 100_000
"""Words and pairs that it knows; of more the most frequent ones."""
OF_SECOND = "> "
"""What stands before the words of a second text, so that they are features of their own."""
STRENGTHS = (1.0, 10.0, 100.0)
"""Inverses of the L2 penalty, of which a fifth of the training examples chooses. Rows of TF-IDF
have the norm 1, so that scikit-learn's default of 1 often fits them too little."""
USUAL = 10.0
"""The inverse of the penalty where so few examples choose nothing."""
FEWEST = 10
"""Training examples of which a fifth can choose."""
ABSENT = -30.0
"""The logit of a class without a training example."""


@dataclass(frozen=True, eq=False)
class LinearModel:
    """The fitted model.

    Attributes:
        grams: what it knows, sorted: words, and pairs with a blank between.
        idf: [F] float32 inverse document frequency of each.
        weights: [F, C] float32; of a regression C is 1.
        bias: [C] float32.
        labels: names of the classes; none of a regression.
    """

    grams: tuple[str, ...]
    idf: np.ndarray
    weights: np.ndarray
    bias: np.ndarray
    labels: tuple[str, ...]

    @cached_property
    def places(self) -> dict[str, int]:
        """Gram -> its row of ``weights``."""
        return {gram: number for number, gram in enumerate(self.grams)}

    def logits(self, texts: Sequence[tuple[str, str]]) -> np.ndarray:
        """[n, C] float32: logits of classes, or numbers in the labels' units.

        Args:
            texts: pairs; the second one is "" where there is none.
        """
        return np.stack([self._of_one(first, second) for first, second in texts])

    def _of_one(self, first: str, second: str) -> np.ndarray:
        """[C] the answer to one example."""
        # scikit-learn's sublinear TF-IDF, of length 1; a gram that it never saw counts nothing
        known = [self.places[gram] for gram in grams_of(first, second) if gram in self.places]
        there, counts = np.unique(np.array(known, dtype=int), return_counts=True)
        values = (1 + np.log(counts)) * self.idf[there]
        length = max(float(np.linalg.norm(values)), 1e-9)
        answer: np.ndarray = values / length @ self.weights[there] + self.bias
        return answer.astype(np.float32)

    def save(self, file: Path) -> None:
        """Write it as an ``.npz`` file without pickles."""
        np.savez_compressed(
            file,
            grams=_as_bytes(self.grams),
            idf=self.idf,
            weights=self.weights,
            bias=self.bias,
            labels=_as_bytes(self.labels),
        )


@dataclass(frozen=True, eq=False)
class Baseline:
    """A fitted model whose folder is written.

    Attributes:
        seconds: that fitting it took.
        about: its size, as its folder states it.
    """

    model: LinearModel
    seconds: float
    about: About


def load(file: Path) -> LinearModel:
    """The model of a file that :meth:`LinearModel.save` wrote."""
    with np.load(file, allow_pickle=False) as arrays:
        labels = _as_texts(arrays["labels"])
        return LinearModel(
            _as_texts(arrays["grams"]), arrays["idf"], arrays["weights"], arrays["bias"], labels
        )


def _as_bytes(texts: Sequence[str]) -> np.ndarray:
    return np.frombuffer("\n".join(texts).encode(), dtype=np.uint8)


def _as_texts(array: np.ndarray) -> tuple[str, ...]:
    text = bytes(array).decode()
    return tuple(text.split("\n")) if text else ()


def grams_of(first: str, second: str = "") -> list[str]:
    """The words of an example in lower case, and the pairs of neighbours; those of a second text
    are marked."""
    grams = []
    for text, mark in ((first, ""), (second, OF_SECOND)):
        words = re.findall(r"\w+", text.lower())
        pairs = [" ".join(pair) for pair in pairwise(words)]
        grams += [mark + gram for gram in (*words, *pairs)]
    return grams


def fit(task: Task, train: Split) -> LinearModel:
    """Fit the model on training examples with their labels as they come.

    A fifth of them, drawn as an automatic split is, chooses the penalty by the task's first metric,
    of numbers by R2.
    Where macro-F1 scores a task, classes count alike, as they do in that metric.

    Raises:
        InputError: the task has neither classes nor numbers, or there is nothing to learn.
    """
    from threadpoolctl import threadpool_limits

    if task.spans or task.writes or train.labels is None:
        raise InputError(f"{task.name}: the linear baseline is for classes and numbers")
    if len(set(train.labels.tolist())) < 2:
        raise InputError(f"{task.name}: all training examples have one label")
    # the sums are small: threads would wait for each other
    with threadpool_limits(1):
        return _fitted(task, train, _chosen_strength(task, train))


def _chosen_strength(task: Task, train: Split) -> float:
    """The inverse of the penalty with the best score on a fifth of the training examples."""
    if len(train) < FEWEST:
        return USUAL
    try:
        division = divided(train, task, task.name)
    except InputError:  # all texts or groups hang together
        return USUAL
    held_out = train.take(division.scored)
    rest = train.take(division.train)
    assert rest.labels is not None
    assert held_out.labels is not None
    if len(set(rest.labels.tolist())) < 2:
        return USUAL
    # a correlation would not see a scale that is too small
    metric = metric_of("r2" if task.regression else task.metrics[0])
    scores = {}
    for strength in STRENGTHS:
        try:
            logits = _fitted(task, rest, strength).logits(held_out.texts)
        except InputError:  # words are in the other examples alone
            return USUAL
        scores[strength] = metric.score(metric.form.predicted(logits), held_out.labels)
    return max(STRENGTHS, key=lambda strength: scores[strength])


def _fitted(task: Task, train: Split, strength: float) -> LinearModel:
    """The model with this inverse of the penalty."""
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression, Ridge

    assert train.labels is not None
    vectoriser = TfidfVectorizer(
        analyzer=lambda pair: grams_of(*pair), sublinear_tf=True, max_features=MOST_GRAMS
    )
    try:
        features_NF = vectoriser.fit_transform(train.texts)
    except ValueError:
        raise InputError(f"{task.name}: no training text has a word") from None
    if task.regression:
        ridge = Ridge(alpha=USUAL / strength).fit(features_NF, train.labels.astype(np.float64))
        weights_FC = ridge.coef_[:, None]
        bias_C = np.array([ridge.intercept_])
    else:
        # as the other rows where the user asks for it, and where every class counts alike
        is_balanced = task.weights == BALANCED or task.metrics[0] == "macro_f1"
        weight = "balanced" if is_balanced else None
        logistic = LogisticRegression(C=strength, max_iter=1000, class_weight=weight)
        logistic.fit(features_NF, train.labels)
        weights_FC, bias_C = _of_all_classes(logistic, len(task.labels))
    return LinearModel(
        tuple(vectoriser.get_feature_names_out().tolist()),
        vectoriser.idf_.astype(np.float32),
        weights_FC.astype(np.float32),
        bias_C.astype(np.float32),
        task.labels,
    )


def _of_all_classes(logistic: object, count: int) -> tuple[np.ndarray, np.ndarray]:
    """[F, C] weights and [C] biases; scikit-learn's have one row for two classes, and none for a
    class without an example."""
    coefficients: np.ndarray = logistic.coef_  # type: ignore[attr-defined]
    intercepts: np.ndarray = logistic.intercept_  # type: ignore[attr-defined]
    if len(coefficients) == 1:
        coefficients = np.concatenate([np.zeros_like(coefficients), coefficients])
        intercepts = np.concatenate([np.zeros_like(intercepts), intercepts])
    weights_FC = np.zeros((coefficients.shape[1], count))
    bias_C = np.full(count, ABSENT)
    known = logistic.classes_  # type: ignore[attr-defined]
    weights_FC[:, known] = coefficients.T
    bias_C[known] = intercepts
    return weights_FC, bias_C


def write_baseline(
    folder: Path, task: Task, train: Split, evaluation: Mapping[str, Split]
) -> Baseline:
    """Fit the model and write its folder: its file, and its answers as ``predictions:FOLDER``
    takes them, with its size.

    Args:
        folder: what it is called is the row's name.
        evaluation: name of each evaluation set -> its examples.
    """
    # loading the library for the first time is no part of the fit
    import sklearn.feature_extraction.text
    import sklearn.linear_model  # noqa: F401

    # the model
    begun = time.perf_counter()
    model = fit(task, train)
    seconds = time.perf_counter() - begun
    folder.mkdir(parents=True, exist_ok=True)
    model.save(folder / FILE)
    # its answers, and what a report says of it
    for each in task.evaluation:
        if each.name in evaluation:
            table = _table(task, model.logits(evaluation[each.name].texts))
            (folder / f"{name_of_file(task, each)}.tsv").write_text(table, encoding="utf-8")
    kind = "ridge" if task.regression else "logistic"
    note = (
        f"TF-IDF of words and pairs of words, with {kind} regression, "
        "fitted on the training examples by scikit-learn"
    )
    rows, outputs = model.weights.shape
    about = About(
        note=note,
        parameters=rows * (outputs + 1) + outputs,
        # each word and each pair of the longest text is weighted, and read by every class
        macs=2 * LONGEST_INPUT * (outputs + 1),
        file_bytes=(folder / FILE).stat().st_size,
    )
    (folder / ABOUT).write_text(about.as_toml(), encoding="utf-8")
    return Baseline(model, seconds, about)


def _table(task: Task, logits_NC: np.ndarray) -> str:
    """The answers as a file of tab-separated values."""
    names = [name.strip().lower() for name in task.labels]
    # columns are known by their names, whatever their capitals
    is_plain = len({*names, INDEX, LABEL, PREDICTION}) == len(names) + 3
    header = [INDEX, *(task.labels if task.labels and is_plain else [PREDICTION])]
    lines = ["\t".join(header)]
    for number, values in enumerate(logits_NC):
        answer = [f"{value:.9g}" for value in values]
        if task.labels and not is_plain:
            answer = [task.labels[int(values.argmax())]]
        lines.append("\t".join([str(number), *answer]))
    return "\n".join(lines) + "\n"


def lines_that_use_it(task: Task) -> list[str]:
    """Python that opens the file with numpy alone and answers one text."""
    is_pair = len(task.columns) == 2
    texts = '(("a text", ""), ("a second one", "> "))' if is_pair else '(("a text", ""),)'
    lines = [
        "import numpy, re",
        f'model = numpy.load("THIS-FOLDER/{FILE}")',
        r'places = {g: n for n, g in enumerate(bytes(model["grams"]).decode().split("\n"))}',
        "grams = []",
        f"for text, mark in {texts}:",
        r'    words = re.findall(r"\w+", text.lower())',
        '    grams += [mark + gram for gram in words + list(map(" ".join, zip(words, words[1:])))]',
        "known = numpy.array([places[gram] for gram in grams if gram in places], dtype=int)",
        "there, counts = numpy.unique(known, return_counts=True)",
        'values = (1 + numpy.log(counts)) * model["idf"][there]',
        "values = values / max(numpy.linalg.norm(values), 1e-9)",
        'logits = values @ model["weights"][there] + model["bias"]',
    ]
    if task.regression:
        return [*lines, "print(logits[0])"]
    return [*lines, r'print(bytes(model["labels"]).decode().split("\n")[logits.argmax()])']
