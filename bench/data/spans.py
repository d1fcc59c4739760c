"""Questions that a piece of a text answers, in the form of SQuAD.

They are read, cut into windows, put together again, and graded. Long texts are cut as BERT's
run_squad.py cuts them: every window is [CLS] question [SEP] part of the text [SEP], and begins 128
tokens behind the one before. Grading is that of the official scripts, evaluate-v1.1.py and
evaluate-v2.0.py.
"""

from __future__ import annotations

import json
import math
import re
import string
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from bench.data.table_files import Answers, Split
from bench.errors import InputError, one_line
from bench.user_files import refuse_lfs_pointer

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

STRIDE = 128
"""Tokens between the beginnings of two windows; this number and the next two are run_squad.py's."""
QUESTION_TOKENS = 64
"""Most tokens of a question."""
ANSWER_TOKENS = 30
"""Most tokens of an answer."""
ARTICLES = re.compile(r"\b(a|an|the)\b", re.UNICODE)
WITHOUT_PUNCTUATION = str.maketrans("", "", string.punctuation)


NO_SPAN = -1e6
"""A score below that of any span."""
NO_MARGIN = 1e4
"""The largest margin of no answer that is kept."""


# --- reading


def read_questions(files: Sequence[Path], may_have_none: bool) -> Split:
    """The questions of parquet files in the hub's form, or of the official JSON files.

    Args:
        may_have_none: whether questions without an answer are allowed, as in version 2.0.

    Raises:
        InputError: a file that cannot be read, a question without its parts, an answer that does
            not stand where it says.
    """
    names: list[str] = []
    questions: list[str] = []
    contexts: list[str] = []
    answers: list[tuple[tuple[int, str], ...]] = []
    for file in files:
        refuse_lfs_pointer(file, str(file))
        try:
            rows = list(_official(file) if file.suffix == ".json" else _parquet(file))
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise InputError(
                f"{file} is not in SQuAD's form: {one_line(repr(error))[:200]}"
            ) from None
        for number, (name, question, context, given) in enumerate(rows):
            fault = _fault(question, context, given, may_have_none)
            if fault:
                raise InputError(f"{file}, question {number}: {fault}")
            names.append(str(len(names) if name is None else name))
            questions.append(question)
            contexts.append(context)
            answers.append(tuple(given))
    if not questions:
        raise InputError(f"{', '.join(map(str, files))}: no questions in it")
    has_answer = np.array([bool(given) for given in answers], dtype=np.int64)
    return Split(
        questions,
        contexts,
        has_answer,
        list(range(len(questions))),
        Answers(answers, may_have_none, names),
    )


def _fault(
    question: Any, context: Any, answers: Sequence[tuple[int, str]], may_have_none: bool
) -> str:
    """The fault of a question of a file; "" if it has none."""
    if not (isinstance(question, str) and isinstance(context, str)):
        return "question and context should be text"
    for start, text in answers:
        if not text or context[start : start + len(text)] != text:
            return f"the answer {text[:40]!r} does not stand at character {start}"
    if not answers and not may_have_none:
        return "it has no answer; the task squad_v2 has such questions"
    return ""


Row = tuple[Any, Any, Any, list[tuple[int, str]]]


def _parquet(file: Path) -> Iterable[Row]:
    import pyarrow.parquet

    columns = ["question", "context", "answers"]
    columns += ["id"] if "id" in pyarrow.parquet.read_schema(file).names else []
    for row in pyarrow.parquet.read_table(file, columns=columns).to_pylist():
        answers = row["answers"]
        given = list(zip(answers["answer_start"], answers["text"], strict=True))
        yield row.get("id"), row["question"], row["context"], given


def _official(file: Path) -> Iterable[Row]:
    """The answers of an impossible question are called plausible_answers there, and are none."""
    for article in json.loads(file.read_text(encoding="utf-8"))["data"]:
        for paragraph in article["paragraphs"]:
            for asked in paragraph["qas"]:
                given = [
                    (int(answer["answer_start"]), answer["text"]) for answer in asked["answers"]
                ]
                yield asked.get("id"), asked["question"], paragraph["context"], given


# --- grading


def normalised(text: str) -> str:
    """Lower case without punctuation, articles and needless blanks, in this order."""
    return " ".join(ARTICLES.sub(" ", text.lower().translate(WITHOUT_PUNCTUATION)).split())


def word_f1(predicted: str, right: str, none_counts: bool) -> float:
    """F1 of the words that two answers share.

    Where one of them has no words version 2.0 asks whether both have none (``none_counts``); in
    version 1.1 it is 0.
    """
    ours = normalised(predicted).split()
    theirs = normalised(right).split()
    if none_counts and not (ours and theirs):
        return float(ours == theirs)
    shared = sum((Counter(ours) & Counter(theirs)).values())
    return 2 * shared / (len(ours) + len(theirs)) if shared else 0.0


def graded(predicted: str, right: Sequence[str], none_counts: bool) -> tuple[float, float]:
    """Exact match and F1 of an answer, "" for none: the most that a right answer gives it."""
    if none_counts:  # answers of nothing but articles and punctuation are none
        right = [text for text in right if normalised(text)] or [""]
    # the best of the right answers counts
    is_exact = any(normalised(predicted) == normalised(text) for text in right)
    return float(is_exact), max(word_f1(predicted, text, none_counts) for text in right)


def graded_texts(given: Mapping[str, str], questions: Split) -> np.ndarray:
    """[n, 5] of :data:`bench.stats.form.SPANS`, from the predictions of somebody's system.

    They are: name of a question -> text, "" for no answer.
    A text without words is no answer, as in grading; one that does not stand in its context has no
    place there.
    """
    answers = questions.answers
    assert answers is not None
    rows = np.zeros((len(questions), 5), dtype=np.float32)
    for number, (name, (_, context)) in enumerate(zip(answers.names, questions.texts, strict=True)):
        text = given[name]
        right = [each for _, each in answers.of_questions[number]] or [""]
        rows[number, :2] = graded(text, right, answers.may_be_none)
        if answers.may_be_none:  # by how much no answer scores more
            rows[number, 2] = -1 if normalised(text) else 1
        start = context.find(text)
        rows[number, 3:] = (start, start + len(text)) if start >= 0 else (-1, -1)
    return rows


# --- windows


class Window(NamedTuple):
    """A part of a text beside its question."""

    question: int
    first: int
    """place of the text's first token in the window"""
    begins: int
    """number of that token in the whole text"""
    may_begin: np.ndarray
    """of each of its tokens of the text, whether an answer may begin there"""


@dataclass(frozen=True)
class SpanQuestions:
    """The questions and texts that the windows of encoded questions are of."""

    windows: Sequence[Window]
    contexts: Sequence[str]
    """of each question"""
    right: Answers
    offsets: Sequence[np.ndarray]
    """of each question: [tokens of its text, 2] where each token begins and ends, in characters"""

    def best_spans(self, examples: Sequence[int], logits: np.ndarray) -> np.ndarray:
        """[B, 4] the best span of each window, from their [2 B, L] logits of starts and ends.

        Columns are the score of no answer, that of the best span, and the span's first and last
        token in the whole text. A window without any span has :data:`NO_SPAN`.
        """
        rows = []
        of_windows = logits.reshape(len(examples), 2, -1)
        for (starts_L, ends_L), example in zip(of_windows, examples, strict=True):
            # the scores of the tokens of the text
            window = self.windows[example]
            count = len(window.may_begin)
            text = slice(window.first, window.first + count)
            begins_N = np.where(window.may_begin, starts_L[text], NO_SPAN)
            ends_N = ends_L[text]

            # the best span, all of one length at a time
            best = NO_SPAN / 2
            start = 0
            end = 0
            for further in range(min(ANSWER_TOKENS, count)):  # all spans of one length at a time
                scores_N = begins_N[: count - further] + ends_N[further:]
                first = int(scores_N.argmax())
                if scores_N[first] > best:
                    best = scores_N[first]
                    start = first
                    end = first + further
            rows.append([starts_L[0] + ends_L[0], best, window.begins + start, window.begins + end])
        return np.array(rows, dtype=np.float32)

    def answers(self, spans: np.ndarray) -> np.ndarray:
        """[n, 5] of the questions (see :data:`bench.stats.form.SPANS`), from all windows' spans.

        It is the best span of a question's windows, against the smallest score of no answer.

        Args:
            spans: :meth:`best_spans` of all windows.
        """
        # the best span of each question, and its least score of no answer
        rows = np.zeros((len(self.contexts), 5), dtype=np.float32)
        none = np.full(len(rows), np.inf)
        best = np.full(len(rows), -np.inf)
        at = np.zeros((len(rows), 2), dtype=int)
        for window, span in zip(self.windows, spans.tolist(), strict=True):
            no_answer, score, start, end = span
            question = window.question
            none[question] = min(none[question], no_answer)
            if score > best[question]:
                best[question] = score
                at[question] = (start, end)

        # the words of each, graded
        for question, context in enumerate(self.contexts):
            text = ""
            if best[question] > NO_SPAN / 2:
                offsets = self.offsets[question]
                first = int(offsets[at[question][0], 0])
                last = int(offsets[at[question][1], 1])
                text = context[first:last]
                rows[question, 3:] = first, last
            right = [given for _, given in self.right.of_questions[question]] or [""]
            rows[question, :2] = graded(text, right, self.right.may_be_none)
        if self.right.may_be_none:
            rows[:, 2] = np.clip(none - best, -NO_MARGIN, NO_MARGIN)
        return rows


def windows_of(
    tokenizer: PreTrainedTokenizerBase, split: Split, max_length: int
) -> tuple[list[np.ndarray], list[np.ndarray], np.ndarray, SpanQuestions]:
    """Every question with every part of its text.

    Returns:
        Tokens and segments of the windows, as they are trained on and answered; labels, [n, 2]
        positions of the answer's first and last token, 0 and 0 (which is [CLS]) where the window
        has no answer; and what the windows are of.

    Raises:
        InputError: ``max_length`` leaves no room for a text.
    """
    assert split.second is not None
    assert split.answers is not None
    if max_length < 16:
        raise InputError(
            f"max_length {max_length}: a question and its text need at least 16 tokens"
        )
    cls = tokenizer.cls_token_id
    sep = tokenizer.sep_token_id
    bare: dict[str, Any] = {"add_special_tokens": False, "verbose": False}
    # five questions share one text
    read_question = cache(lambda text: tokenizer(text, **bare)["input_ids"])
    read_text = cache(lambda text: tokenizer(text, return_offsets_mapping=True, **bare))
    tokens: list[np.ndarray] = []
    segments: list[np.ndarray] = []
    labels: list[list[int]] = []
    windows: list[Window] = []
    offsets: list[np.ndarray] = []
    for number, (question, context) in enumerate(zip(split.first, split.second, strict=True)):
        words = read_question(question)[: min(QUESTION_TOKENS, max_length // 2 - 3)]
        ids: list[int] = read_text(context)["input_ids"]
        ends = np.array(read_text(context)["offset_mapping"], dtype=np.int64).reshape(-1, 2)
        offsets.append(ends)

        # where the windows begin
        room = max_length - 3 - len(words)
        stride = min(STRIDE, max(1, room // 2))
        further = max(0, math.ceil((len(ids) - room) / stride))
        begun = [stride * n for n in range(1 + further)]

        # the tokens that the answer touches: none for no answer, or for one without a token
        touched = np.empty(0, dtype=np.int64)
        for start, text in split.answers.of_questions[number][:1]:
            touched = np.flatnonzero((ends[:, 1] > start) & (ends[:, 0] < start + len(text)))

        first = len(words) + 2
        for begins, may_begin in zip(begun, _with_most_context(begun, room, len(ids)), strict=True):
            part = ids[begins : begins + room]
            tokens.append(np.array([cls, *words, sep, *part, sep], dtype=np.int64))
            segments.append(np.array([0] * first + [1] * (len(part) + 1), dtype=np.int64))
            windows.append(Window(number, first, begins, may_begin))
            label = [0, 0]
            if len(touched) and begins <= touched[0] and touched[-1] < begins + len(part):
                label = [int(token) - begins + first for token in touched[[0, -1]]]
            labels.append(label)
    questions = SpanQuestions(windows, split.second, split.answers, offsets)
    return tokens, segments, np.array(labels), questions


def _with_most_context(begun: Sequence[int], room: int, tokens: int) -> list[np.ndarray]:
    """For each window of a text, which of its tokens have no more text around them in another.

    An answer begins there alone.
    """
    # [windows, tokens]: how much text a window has on the shorter side of a token
    context = np.full((len(begun), tokens), -np.inf)
    for row, begins in enumerate(begun):
        places = np.arange(min(room, tokens - begins))
        context[row, begins : begins + room] = np.minimum(places, places[::-1]) + 0.01 * len(places)
    most = context.argmax(0)
    return [most[begins : begins + room] == row for row, begins in enumerate(begun)]
