"""What an answer is: a class, a score, a span of a text or a text; and what follows from that.

Letters of shapes: n examples, C outputs, L tokens of a padded sequence. No torch.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from bench.errors import InputError, one_line

Scoring = Callable[[np.ndarray, np.ndarray], float]
"""(predicted, labels) -> a score; more is better."""


@dataclass(frozen=True)
class Form:
    """A kind of answer.

    Attributes:
        name: as records keep it.
        task, answer: what a reader calls a task of this form, and one of its answers.
        baseline: what answers that know nothing are called.
        label: a label, the names of the classes and of the task -> the label as it is kept. It
            raises InputError for what is none.
        constant: labels, outputs and a score -> the one answer that scores most if every example is
            given it, and that score.
        described: labels and the names of the classes -> what they are, in words.
        predicted: what a model gives, [n, C] -> predictions, [n, *shape].
        outputs: of a model, where that is not the number of classes.
        dtype: of labels, in numpy and Arrow.
        loss: the name in torch.nn.functional (a test checks it).
        labels_like_logits: whether labels have the shape of what a model gives; else they are one
            number each.
    """

    name: str
    task: str
    answer: str
    baseline: str
    label: Callable[[Any, Sequence[str], str], Any]
    constant: Callable[[np.ndarray, int, Scoring], tuple[np.ndarray, float]]
    described: Callable[[np.ndarray, Sequence[str]], str]
    predicted: Callable[[np.ndarray], np.ndarray] = np.asarray
    fixed_outputs: int | None = None
    dtype: str = "int64"
    shape: tuple[int, ...] = ()
    loss: str = "cross_entropy"
    labels_like_logits: bool = False

    def outputs(self, names: Sequence[str]) -> int:
        """How many numbers a model gives of each example."""
        return self.fixed_outputs or len(names)

    def arrays(self, examples: int, outputs: int) -> Mapping[str, tuple[int, ...]]:
        """The shapes of the arrays that a record keeps of each evaluation set."""
        logits = examples, self.fixed_outputs or outputs
        return {"logits": logits, "labels": logits if self.labels_like_logits else (examples,)}


def misshapen(form: Form, arrays: Mapping[str, np.ndarray], examples: int, outputs: int) -> str:
    """Which of a record's arrays has another shape than its form says; "" where none has."""
    for name, axes in form.arrays(examples, outputs).items():
        if name in arrays and arrays[name].shape != axes:
            return f"{name} of shape {list(arrays[name].shape)}; {form.task} has {list(axes)}"
    return ""


def _best(candidates: np.ndarray, labels: np.ndarray, score: Scoring) -> tuple[np.ndarray, float]:
    """The first of the candidates that, given to every example, scores most."""
    scores = []
    for answer in candidates:
        given_to_all = np.broadcast_to(answer, labels.shape).copy()
        scores.append(score(given_to_all, labels))
    # argmax is the first of equal ones
    best = int(np.argmax(scores))
    return candidates[best], scores[best]


def _number(value: object, expected: str, task: str) -> float:
    """Raises InputError: no finite number."""
    # True is an int in Python, and no label
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise InputError(
            f"the label of {task} should be {expected}, found {one_line(repr(value))[:80]}"
        )
    return value


def _class(value: object, names: Sequence[str], task: str) -> float:
    """A class by its name or its code."""
    if isinstance(value, str) and value in names:
        return names.index(value)
    # a code: -1 is what public test splits have in its place
    last = len(names) - 1
    number = _number(value, f"one of 0..{last} or {', '.join(names)}", task)
    if number == -1:
        raise InputError(
            "label -1 marks a test split whose labels are not public; scores on it would mean "
            "nothing. Use the validation split"
        )
    if number not in range(len(names)):
        raise InputError(f"label {value!r} of {task} should be a whole number from 0 to {last}")
    return number


def _classes_counted(labels: np.ndarray, names: Sequence[str]) -> str:
    counts = Counter(labels.tolist())
    return ", ".join(f"{name} {counts[code]}" for code, name in enumerate(names))


CLASSES = Form(
    "classes",
    "classification",
    "class",
    "majority class",
    label=_class,
    constant=lambda labels, outputs, score: _best(np.arange(outputs), labels, score),
    described=_classes_counted,
    predicted=lambda logits: np.asarray(logits.argmax(1)),
)
"""One of several classes: [n, C] logits, [n] codes."""


SCORE = Form(
    "score",
    "regression",
    "value",
    "one value for every example",
    label=lambda value, _, task: _number(value, "a number", task),
    # the mean of the labels and their median are best by squared and by absolute error
    constant=lambda labels, _, score: _best(
        np.array([labels.mean(), np.median(labels)], labels.dtype), labels, score
    ),
    described=lambda labels, _: f"{labels.min():g} to {labels.max():g}",
    predicted=lambda logits: np.asarray(logits[:, 0]),
    fixed_outputs=1,
    dtype="float32",
    loss="mse_loss",
)
"""A number on a scale, as in a regression: [n, 1] logits, [n] values."""


def _unanswered(labels: np.ndarray, outputs: int, score: Scoring) -> tuple[np.ndarray, float]:
    """No answer to any question."""
    # no match, no F1, and a margin that says "no answer"
    none = np.array([0.0, 0.0, 1.0, 0.0, 0.0])
    return none, score(np.tile(none, (len(labels), 1)), labels)


SPANS = Form(
    "span",
    "question answering",
    "answer",
    "no answer to any question",
    label=lambda value, names, task: int(bool(value)),
    constant=_unanswered,
    described=lambda labels, _: (
        f"with an answer {int(labels.sum())}, without {int((labels == 0).sum())}"
    ),
    fixed_outputs=5,
    shape=(5,),
)
"""A piece of a text that answers a question: [n, 5] of each question, [n] whether it has an answer.

A record keeps no text. So it has, of the best span that the model found: its exact match and its F1
with the right answers, by the official script's rules; by how much no answer scores more than it, 0
where every question has an answer; and where it lies in the text, from one character to another.
"""

TEXT_COUNTS = (
    "words",
    "reference words",
    *(f"right {n}-grams" for n in range(1, 5)),
    *(f"{n}-grams" for n in range(1, 5)),
    "rouge_l",
)
"""The counts that are kept of each text that was written.

Sums over sentences give BLEU; the mean of the last one is ROUGE-L.
"""


def _no_label(value: object, names: Sequence[str], task: str) -> float:
    raise InputError(f"{task} has texts to write, in a column of text, and no labels")


TEXT = Form(
    "text",
    "text generation",
    "text",
    "copying the source",
    label=_no_label,
    constant=lambda labels, _, score: (labels, score(labels, labels)),
    described=lambda labels, _: (
        f"{labels[:, TEXT_COUNTS.index('reference words')].mean():.1f} words in a target"
    ),
    fixed_outputs=len(TEXT_COUNTS),
    dtype="float32",
    shape=(len(TEXT_COUNTS),),
    labels_like_logits=True,
)
"""A text that is written, kept as what its metrics need of it beside its reference.

These are [n, :data:`TEXT_COUNTS`] counts, and the same of the source as it is, which stand in the
place of labels. ``bench/stats/metrics/text.py`` counts them.
"""

ROUNDED = 1e-3
"""How far numbers may be apart and still count as the same answer."""


def differing(
    form: Form, first: np.ndarray, second: np.ndarray, within: float = ROUNDED
) -> np.ndarray:
    """Whether two answers to an example are different, [n].

    They are another class, another piece of the text or none, or a number further off than
    ``within``.
    """
    if form == CLASSES:
        return np.asarray(form.predicted(first) != form.predicted(second))
    # of numbers: whether any is further off
    gaps = np.abs(first - second)
    if form != SPANS:
        return np.asarray(gaps.reshape(len(gaps), -1).max(1) > within)
    # of spans: whether there is an answer, and where it lies
    is_none = first[:, 2] > 0
    was_none = second[:, 2] > 0
    is_elsewhere = (gaps[:, 3:] > 0).any(1)
    return np.asarray((is_none != was_none) | (~is_none & is_elsewhere))


FORMS: Mapping[str, Form] = {form.name: form for form in (CLASSES, SCORE, SPANS, TEXT)}
"""name -> form"""
