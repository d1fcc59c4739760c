"""What an answer is: a class, a score, a span of a text or a text; and what follows from that. No torch.

Letters of shapes: n examples, C outputs, L tokens of a padded sequence.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from bench.errors import InputError, one_line

Scoring = Callable[[np.ndarray, np.ndarray], float]
"""(predicted, labels) -> a score; more is better."""
Axes = tuple[int | None, ...]
"""The shape of an array; None for a length that the data decide."""
TEXT_COUNTS = (
    "words",
    "reference words",
    *(f"right {n}-grams" for n in range(1, 5)),
    *(f"{n}-grams" for n in range(1, 5)),
    "rouge_l",
)
"""What is kept of each text that was written: sums over sentences give BLEU, the mean of the last one is ROUGE-L."""


def misshapen(form: Form, arrays: Mapping[str, np.ndarray], examples: int, outputs: int) -> str:
    """Which of a record's arrays has another shape than its form says; "" where none has."""
    for name, axes in form.arrays(examples, outputs).items():
        found = arrays[name].shape if name in arrays else axes
        if len(found) != len(axes) or any(
            size is not None and size != there for size, there in zip(axes, found, strict=True)
        ):
            wanted = ", ".join("any" if size is None else str(size) for size in axes)
            return f"{name} of shape {list(found)}; {form.task} has [{wanted}]"
    return ""


def _best(candidates: np.ndarray, labels: np.ndarray, score: Scoring) -> tuple[np.ndarray, float]:
    """The first of the candidates that, given to every example, scores most."""
    scores = [score(np.broadcast_to(one, labels.shape).copy(), labels) for one in candidates]
    best = int(np.argmax(scores))
    return candidates[best], scores[best]


@dataclass(frozen=True)
class Classes:
    """One of several classes: [n, C] logits, [n] codes."""

    name: ClassVar[str] = "classes"
    task: ClassVar[str] = "classification"
    answer: ClassVar[str] = "class"
    dtype: ClassVar[str] = "int64"
    shape: ClassVar[tuple[int, ...]] = ()
    loss: ClassVar[str] = "cross_entropy"
    baseline: ClassVar[str] = "majority class"

    def outputs(self, names: Sequence[str]) -> int:
        return len(names)

    def arrays(self, examples: int, outputs: int) -> Mapping[str, Axes]:
        return {"logits": (examples, outputs), "labels": (examples,)}

    def predicted(self, logits: np.ndarray) -> np.ndarray:
        return np.asarray(logits.argmax(1))

    def label(self, value: object, names: Sequence[str], task: str) -> float:
        """A class by its name or its code."""
        if isinstance(value, str) and value in names:
            return names.index(value)
        last = len(names) - 1
        number = _number(value, f"one of 0..{last} or {', '.join(names)}", task)
        if number == -1:
            raise InputError(
                "label -1 marks a test split whose labels are not public; scores on it would mean nothing. "
                "Use the validation split"
            )
        if number not in range(len(names)):
            raise InputError(f"label {value!r} of {task} should be a whole number from 0 to {last}")
        return number

    def constant(self, labels: np.ndarray, outputs: int, score: Scoring) -> tuple[np.ndarray, float]:
        return _best(np.arange(outputs), labels, score)

    def described(self, labels: np.ndarray, names: Sequence[str]) -> str:
        counts = Counter(labels.tolist())
        return ", ".join(f"{name} {counts[code]}" for code, name in enumerate(names))


@dataclass(frozen=True)
class Score:
    """A number on a scale, as in a regression: [n, 1] logits, [n] values."""

    name: ClassVar[str] = "score"
    task: ClassVar[str] = "regression"
    answer: ClassVar[str] = "value"
    dtype: ClassVar[str] = "float32"
    shape: ClassVar[tuple[int, ...]] = ()
    loss: ClassVar[str] = "mse_loss"
    baseline: ClassVar[str] = "one value for every example"

    def outputs(self, names: Sequence[str]) -> int:
        return 1

    def arrays(self, examples: int, outputs: int) -> Mapping[str, Axes]:
        return {"logits": (examples, 1), "labels": (examples,)}

    def predicted(self, logits: np.ndarray) -> np.ndarray:
        return np.asarray(logits[:, 0])

    def label(self, value: object, names: Sequence[str], task: str) -> float:
        return _number(value, "a number", task)

    def constant(self, labels: np.ndarray, outputs: int, score: Scoring) -> tuple[np.ndarray, float]:
        """The mean of the labels or their median, which are best by squared and by absolute error."""
        return _best(np.array([labels.mean(), np.median(labels)], labels.dtype), labels, score)

    def described(self, labels: np.ndarray, names: Sequence[str]) -> str:
        return f"{labels.min():g} to {labels.max():g}"


@dataclass(frozen=True)
class Text:
    """A text that is written, kept as what its metrics need of it beside its reference: [n, :data:`TEXT_COUNTS`] counts, and the same
    of the source as it is, which stand in the place of labels. Whoever writes them is ``bench/data/text_counts.py``."""

    name: ClassVar[str] = "text"
    task: ClassVar[str] = "text generation"
    answer: ClassVar[str] = "text"
    dtype: ClassVar[str] = "float32"
    shape: ClassVar[tuple[int, ...]] = (len(TEXT_COUNTS),)
    loss: ClassVar[str] = "cross_entropy"
    baseline: ClassVar[str] = "copying the source"

    def outputs(self, names: Sequence[str]) -> int:
        return len(TEXT_COUNTS)

    def arrays(self, examples: int, outputs: int) -> Mapping[str, Axes]:
        return {"logits": (examples, outputs), "labels": (examples, outputs)}

    def predicted(self, logits: np.ndarray) -> np.ndarray:
        return np.asarray(logits)

    def label(self, value: object, names: Sequence[str], task: str) -> Sequence[int]:
        raise InputError(f"{task} has texts to write, in a column of text, and no labels")

    def constant(self, labels: np.ndarray, outputs: int, score: Scoring) -> tuple[np.ndarray, float]:
        """Every source copied, and what that scores."""
        return labels, score(labels, labels)

    def described(self, labels: np.ndarray, names: Sequence[str]) -> str:
        return f"{labels[:, TEXT_COUNTS.index('reference words')].mean():.1f} words in a target"


@dataclass(frozen=True)
class Spans:
    """A piece of a text that answers a question: [n, 5] of each question, [n] whether it has an answer.

    A record keeps no text. So it has, of the best span that the model found: its exact match and its F1 with the right answers, by the
    official script's rules; by how much no answer scores more than it, 0 where every question has an answer; and where it lies in the
    text, from one character to another.
    """

    name: ClassVar[str] = "span"
    task: ClassVar[str] = "question answering"
    answer: ClassVar[str] = "answer"
    dtype: ClassVar[str] = "int64"
    shape: ClassVar[tuple[int, ...]] = (5,)
    loss: ClassVar[str] = "cross_entropy"
    baseline: ClassVar[str] = "no answer to any question"

    def outputs(self, names: Sequence[str]) -> int:
        return 5

    def arrays(self, examples: int, outputs: int) -> Mapping[str, Axes]:
        return {"logits": (examples, outputs), "labels": (examples,)}

    def predicted(self, logits: np.ndarray) -> np.ndarray:
        return logits

    def label(self, value: object, names: Sequence[str], task: str) -> float:
        return int(bool(value))

    def constant(self, labels: np.ndarray, outputs: int, score: Scoring) -> tuple[np.ndarray, float]:
        """No answer to any question."""
        none = np.array([0.0, 0.0, 1.0, 0.0, 0.0])
        return none, score(np.tile(none, (len(labels), 1)), labels)

    def described(self, labels: np.ndarray, names: Sequence[str]) -> str:
        return f"with an answer {int(labels.sum())}, without {int((labels == 0).sum())}"


def _number(value: object, expected: str, task: str) -> float:
    """Raises InputError: no finite number."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise InputError(f"the label of {task} should be {expected}, found {one_line(repr(value))[:80]}")
    return value


Form = Classes | Score | Spans | Text
"""A kind of answer. ``name`` is as records keep it, ``task`` and ``answer`` what a reader calls a task and an answer, ``dtype`` that of
labels in numpy and Arrow, ``shape`` that of one prediction, ``loss`` the name in torch.nn.functional (a test checks it), ``baseline``
what answers that know nothing are called. ``arrays`` are those that a record keeps of each evaluation set, ``constant`` is the one
answer that scores most if every example is given it, and ``label`` raises InputError for what is no label of the task."""
CLASSES, SCORE, SPANS, TEXT = Classes(), Score(), Spans(), Text()
FORMS: Mapping[str, Form] = {form.name: form for form in (CLASSES, SCORE, SPANS, TEXT)}
"""name -> form"""
