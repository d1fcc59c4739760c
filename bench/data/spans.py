"""Questions that a piece of a text answers, in the form of SQuAD: read, cut into windows, put
together again, and graded.

Long texts are cut as BERT's run_squad.py cuts them: every window is [CLS] question [SEP] part of
the text [SEP], and begins 128 tokens behind the one before. Grading is that of the official
scripts, evaluate-v1.1.py and evaluate-v2.0.py.
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

STRIDE, QUESTION_TOKENS, ANSWER_TOKENS = 128, 64, 30
"""Between the beginnings of two windows; at most of a question; at most of an answer:
run_squad.py's numbers."""
ARTICLES = re.compile(r"\b(a|an|the)\b", re.UNICODE)
WITHOUT_PUNCTUATION = str.maketrans("", "", string.punctuation)


NO_SPAN, NO_MARGIN = -1e6, 1e4
"""A score below that of any span; the largest margin of no answer that is kept."""


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
            if not (isinstance(question, str) and isinstance(context, str)):
                raise InputError(f"{file}, question {number}: question and context should be text")
            for start, text in given:
                if context[start : start + len(text)] != text or not text:
                    raise InputError(
                        f"{file}, question {number}: the answer {text[:40]!r} does not stand at character {start}"
                    )
            if not given and not may_have_none:
                raise InputError(
                    f"{file}, question {number}: it has no answer; the task squad_v2 has such questions"
                )
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


Row = tuple[Any, Any, Any, list[tuple[int, str]]]


def _parquet(file: Path) -> Iterable[Row]:
    import pyarrow.parquet

    columns = ["question", "context", "answers"]
    columns += ["id"] if "id" in pyarrow.parquet.read_schema(file).names else []
    for row in pyarrow.parquet.read_table(file, columns=columns).to_pylist():
        starts, texts = row["answers"]["answer_start"], row["answers"]["text"]
        yield row.get("id"), row["question"], row["context"], list(zip(starts, texts, strict=True))


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
    ours, theirs = normalised(predicted).split(), normalised(right).split()
    if none_counts and not (ours and theirs):
        return float(ours == theirs)
    shared = sum((Counter(ours) & Counter(theirs)).values())
    return 2 * shared / (len(ours) + len(theirs)) if shared else 0.0


def graded(predicted: str, right: Sequence[str], none_counts: bool) -> tuple[float, float]:
    """Exact match and F1 of an answer, "" for none: the most that one of the right answers gives
    it.
    """
    if none_counts:  # answers of nothing but articles and punctuation are none
        right = [text for text in right if normalised(text)] or [""]
    return (
        float(any(normalised(predicted) == normalised(text) for text in right)),
        max(word_f1(predicted, text, none_counts) for text in right),
    )


def graded_texts(given: Mapping[str, str], questions: Split) -> np.ndarray:
    """[n, 5] of :data:`bench.stats.form.SPANS`, from what somebody's system answered: name of a
    question -> text, "" for no answer.

    A text without words is no answer, as in grading; one that does not stand in its context has no
    place there.
    """
    right, rows = questions.answers, np.zeros((len(questions), 5), dtype=np.float32)
    assert right is not None
    for number, (name, (_, context)) in enumerate(zip(right.names, questions.texts, strict=True)):
        text = given[name]
        rows[number, :2] = graded(
            text, [each for _, each in right.of_questions[number]] or [""], right.may_be_none
        )
        if right.may_be_none:  # by how much no answer scores more
            rows[number, 2] = -1 if normalised(text) else 1
        rows[number, 3:] = (
            (place, place + len(text)) if (place := context.find(text)) >= 0 else (-1, -1)
        )
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
    """What the windows of encoded questions are of."""

    windows: Sequence[Window]
    contexts: Sequence[str]
    """of each question"""
    right: Answers
    offsets: Sequence[np.ndarray]
    """of each question: [tokens of its text, 2] where each token begins and ends, in characters"""

    def best_spans(self, examples: Sequence[int], logits: np.ndarray) -> np.ndarray:
        """Of windows, from their [2 B, L] logits of starts and ends: [B, 4] the score of no answer,
        that of the best span, and its first and last token in the whole text. A window without any
        span has :data:`NO_SPAN`.
        """
        rows = []
        for (starts_L, ends_L), example in zip(
            logits.reshape(len(examples), 2, -1), examples, strict=True
        ):
            window = self.windows[example]
            count = len(window.may_begin)
            begins_N = np.where(
                window.may_begin, starts_L[window.first : window.first + count], NO_SPAN
            )
            ends_N = ends_L[window.first : window.first + count]
            best, start, end = NO_SPAN / 2, 0, 0
            for further in range(min(ANSWER_TOKENS, count)):  # all spans of one length at a time
                scores_N = begins_N[: count - further] + ends_N[further:]
                place = int(scores_N.argmax())
                if scores_N[place] > best:
                    best, start, end = scores_N[place], place, place + further
            rows.append([starts_L[0] + ends_L[0], best, window.begins + start, window.begins + end])
        return np.array(rows, dtype=np.float32)

    def answers(self, spans: np.ndarray) -> np.ndarray:
        """[n, 5] of the questions (see :data:`bench.stats.form.SPANS`), from :meth:`best_spans` of
        all windows: the best span of all windows, against the smallest score of no answer.
        """
        rows = np.zeros((len(self.contexts), 5), dtype=np.float32)
        none, best = np.full(len(rows), np.inf), np.full(len(rows), -np.inf)
        at = np.zeros((len(rows), 2), dtype=int)
        for window, (no_answer, score, start, end) in zip(
            self.windows, spans.tolist(), strict=True
        ):
            question = window.question
            none[question] = min(none[question], no_answer)
            if score > best[question]:
                best[question], at[question] = score, (start, end)
        for question, context in enumerate(self.contexts):
            offsets, text = self.offsets[question], ""
            if best[question] > NO_SPAN / 2:
                first, last = int(offsets[at[question][0], 0]), int(offsets[at[question][1], 1])
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
        places of the answer's first and last token, 0 and 0 (which is [CLS]) where the window has
        no answer; and what the windows are of.

    Raises:
        InputError: ``max_length`` leaves no room for a text.
    """
    assert split.second is not None
    assert split.answers is not None
    if max_length < 16:
        raise InputError(
            f"max_length {max_length}: a question and its text need at least 16 tokens"
        )
    cls, sep = tokenizer.cls_token_id, tokenizer.sep_token_id
    # five questions share one text
    asked = cache(
        lambda text: tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"]
    )
    read = cache(
        lambda text: tokenizer(
            text, add_special_tokens=False, return_offsets_mapping=True, verbose=False
        )
    )
    tokens, segments, labels = [], [], []
    windows, offsets = [], []
    for number, (question, context) in enumerate(zip(split.first, split.second, strict=True)):
        words = asked(question)[: min(QUESTION_TOKENS, max_length // 2 - 3)]
        ids: list[int] = read(context)["input_ids"]
        places = np.array(read(context)["offset_mapping"], dtype=np.int64).reshape(-1, 2)
        offsets.append(places)
        room = max_length - 3 - len(words)
        stride = min(STRIDE, max(1, room // 2))
        begun = [stride * n for n in range(1 + max(0, math.ceil((len(ids) - room) / stride)))]
        # the tokens that the answer touches: none for no answer, or for one without a token
        touched = np.empty(0, dtype=np.int64)
        for start, text in split.answers.of_questions[number][:1]:
            touched = np.flatnonzero((places[:, 1] > start) & (places[:, 0] < start + len(text)))
        for begins, may_begin in zip(begun, _with_most_context(begun, room, len(ids)), strict=True):
            part, first = ids[begins : begins + room], len(words) + 2
            tokens.append(np.array([cls, *words, sep, *part, sep], dtype=np.int64))
            segments.append(np.array([0] * first + [1] * (len(part) + 1), dtype=np.int64))
            windows.append(Window(number, first, begins, may_begin))
            is_inside = (
                len(touched) > 0 and begins <= touched[0] and touched[-1] < begins + len(part)
            )
            labels.append(
                [int(place) - begins + first for place in touched[[0, -1]]] if is_inside else [0, 0]
            )
    return (
        tokens,
        segments,
        np.array(labels),
        SpanQuestions(windows, split.second, split.answers, offsets),
    )


def _with_most_context(begun: Sequence[int], room: int, tokens: int) -> list[np.ndarray]:
    """Of each window of a text, which of its tokens have no more text around them in another one:
    an answer begins there alone.
    """
    context = np.full((len(begun), tokens), -np.inf)
    for row, begins in enumerate(begun):
        places = np.arange(min(room, tokens - begins))
        context[row, begins : begins + room] = np.minimum(places, places[::-1]) + 0.01 * len(places)
    most = context.argmax(0)
    return [most[begins : begins + room] == row for row, begins in enumerate(begun)]
