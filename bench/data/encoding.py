"""From texts to packed batches: tokenise once, draw an epoch's order, cut documents into pieces."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING

import numpy as np
import torch

from bench.data.spans import SpanQuestions, windows_of
from bench.data.table_files import Split
from bench.errors import InputError
from methods.api import Batch
from methods.core.packed import Layout

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

TOKENS_A_BATCH = 4096
"""At most so many tokens in a batch of a prediction; training has the recipe's batch size."""

ROWS_A_CALL = 10_000
"""Examples that the tokenizer reads at a time."""


@dataclass(frozen=True)
class MaskingVocabulary:
    """The facts of a vocabulary that hiding tokens needs."""

    mask: int
    special: frozenset[int]
    """ids that are never hidden and never put in the place of another"""
    size: int

    @cached_property
    def is_special_V(self) -> np.ndarray:
        """By id."""
        return np.isin(np.arange(self.size), sorted(self.special))


@dataclass(frozen=True)
class Encoded:
    """Token and segment ids of every example, without padding; labels as a tensor or None."""

    tokens: list[np.ndarray]
    segments: list[np.ndarray]
    labels: torch.Tensor | None
    ids: Sequence[int]
    texts: Sequence[tuple[str, str | None]]
    vocabulary: MaskingVocabulary | None = None
    """for text that a stage may hide tokens of"""
    pad: int | None = None
    """id of [PAD], for stages that fill sequences with it"""
    decode: Callable[[Sequence[int]], str] | None = None
    """token ids -> the text, for models that write"""
    questions: SpanQuestions | None = None
    """what the windows are of, where a part of a text is the answer; labels are then [n, 2]"""
    class_weights: torch.Tensor | None = None
    """[classes] float32, in the loss on labels; None where all examples weigh the same"""

    def __len__(self) -> int:
        return len(self.tokens)

    @property
    def total_tokens(self) -> int:
        return sum(map(len, self.tokens))

    @cached_property
    def counts(self) -> np.ndarray:
        """How often each token id occurs."""
        return np.bincount(
            np.concatenate(self.tokens), minlength=self.vocabulary.size if self.vocabulary else 0
        )

    def batch(
        self, examples: Sequence[int], device: torch.device | str = "cpu", task: int = 0
    ) -> Batch:
        """These examples, by their places, end to end, on ``device``."""
        labels = None if self.labels is None else self.labels[list(examples)]
        weights = None
        if labels is not None and self.class_weights is not None:
            weights = self.class_weights[labels]
        return Batch(
            [self.ids[i] for i in examples],
            torch.from_numpy(np.concatenate([self.tokens[i] for i in examples])),
            torch.from_numpy(np.concatenate([self.segments[i] for i in examples])),
            Layout([len(self.tokens[i]) for i in examples]),
            labels,
            task,
            [self.texts[i] for i in examples] if self.texts else (),
            spans=self.questions is not None,
            label_weights=weights,
        ).to(device)

    def leading(self, count: int) -> Encoded:
        """The first so many examples; not of questions, whose windows belong together."""
        assert self.questions is None, "windows of one text would be parted"
        return replace(
            self,
            tokens=self.tokens[:count],
            segments=self.segments[:count],
            labels=None if self.labels is None else self.labels[:count],
            ids=self.ids[:count],
            texts=self.texts[:count],
        )

    def first(self, tokens: int, device: torch.device | str = "cpu") -> Batch:
        """The leading examples, up to about so many tokens, as one batch."""
        ends = np.cumsum([len(row) for row in self.tokens])
        return self.batch(range(max(1, int(np.searchsorted(ends, tokens)))), device)


@lru_cache(maxsize=8)  # a plan asks for it once a row and task
def tokenizer_hash(tokenizer: PreTrainedTokenizerBase) -> str:
    """sha256 of what decides token ids: the vocabulary and how text is normalised, not file
    names."""
    # what decides ids: the words, and how texts become words
    backend = json.loads(tokenizer.backend_tokenizer.to_str())
    meaning = {
        "vocabulary": sorted(tokenizer.get_vocab().items()),
        "normalizer": backend["normalizer"],
        "pre_tokenizer": backend["pre_tokenizer"],
    }
    return hashlib.sha256(json.dumps(meaning, sort_keys=True).encode()).hexdigest()


def encode(
    tokenizer: PreTrainedTokenizerBase, split: Split, max_length: int, truncation: str = "head"
) -> Encoded:
    """[CLS] first [SEP] (second [SEP]), cut to ``max_length`` at the longer text's end.

    Questions have every window of their text.

    Args:
        truncation: of single texts, what stays of a longer one: ``head``, ``tail`` or ``both``.

    Raises:
        InputError: more than half of the tokens are unknown to the vocabulary.
    """
    if split.answers is not None:
        return _encoded_windows(tokenizer, split, max_length)
    tokenizer.truncation_side = "right"  # a student of truncation = "tail" is saved with "left"
    tokens: list[np.ndarray] = []
    segments: list[np.ndarray] = []
    # lists of Python's numbers take ten times the room of arrays
    for start in range(0, len(split), ROWS_A_CALL):
        rows = slice(start, start + ROWS_A_CALL)
        out = tokenizer(
            list(split.first[rows]),
            None if split.second is None else list(split.second[rows]),
            truncation="longest_first" if truncation == "head" else False,
            max_length=max_length,
            add_special_tokens=True,
            return_token_type_ids=True,
            return_attention_mask=False,
            verbose=truncation == "head",
        )
        if truncation != "head":
            for name, ids in out.items():
                out[name] = [_without_middle(row, max_length, truncation) for row in ids]
        tokens += [np.asarray(row, dtype=np.int64) for row in out["input_ids"]]
        segments += [np.asarray(row, dtype=np.int64) for row in out["token_type_ids"]]
    guard_unknown(tokens, tokenizer)
    codes = None if split.labels is None else torch.from_numpy(split.labels)
    second: Sequence[str | None] = split.second or [None] * len(split)
    rows_of_text = list(zip(split.first, second, strict=True))
    return Encoded(
        tokens, segments, codes, list(split.ids), rows_of_text, pad=tokenizer.pad_token_id
    )


def _encoded_windows(tokenizer: PreTrainedTokenizerBase, split: Split, max_length: int) -> Encoded:
    """Every window of the texts of questions."""
    tokens, segments, positions, questions = windows_of(tokenizer, split, max_length)
    guard_unknown(tokens, tokenizer)
    texts = []
    for window in questions.windows:
        texts.append((split.first[window.question], questions.contexts[window.question]))
    return Encoded(
        tokens,
        segments,
        torch.from_numpy(positions),
        range(len(texts)),
        texts,
        pad=tokenizer.pad_token_id,
        questions=questions,
    )


def ends_kept(max_length: int, truncation: str) -> tuple[int, int]:
    """How many tokens stay at the two ends of a longer sequence.

    They are [CLS], the text's tail and [SEP]; with ``both`` a quarter of the room is for its head:
    128 and 382 of 510 tokens are 127 and 383 here (Sun et al. 2019, "How to fine-tune BERT for text
    classification", section 5.3.1).
    """
    head = 1 + ((max_length - 2) // 4 if truncation == "both" else 0)
    return head, max_length - head


def _without_middle(row: list[int], max_length: int, truncation: str) -> list[int]:
    if len(row) <= max_length:
        return row
    head, tail = ends_kept(max_length, truncation)
    return row[:head] + row[-tail:]


def guard_unknown(tokens: list[np.ndarray], tokenizer: PreTrainedTokenizerBase) -> None:
    """Refuse texts of unknown words: a vocabulary that did not load yields [UNK] everywhere."""
    # all tokens but special ones
    everything = np.concatenate(tokens)
    special = np.isin(
        everything, [i for i in tokenizer.all_special_ids if i != tokenizer.unk_token_id]
    )
    words = everything[~special]
    if len(words) and (words == tokenizer.unk_token_id).mean() > 0.5:
        raise InputError(
            "more than half of all tokens are [UNK]: the tokenizer of this teacher does not fit "
            "the text. Check that its folder has tokenizer.json or vocab.txt"
        )


def batches_of_epoch(examples: int, batch_size: int, seed: int, epoch: int) -> list[list[int]]:
    """The batches of an epoch in their order: a function of seed and epoch, for every method."""
    order = np.random.default_rng([seed, epoch + 1]).permutation(examples).tolist()
    return [order[i : i + batch_size] for i in range(0, examples, batch_size)]


def mixed_batches(
    sizes: Sequence[int], batch_size: int, seed: int, epoch: int
) -> list[tuple[int, list[int]]]:
    """Every batch of several tasks: (task, numbers of its examples).

    Within a task they are as alone, between tasks in a random order.
    """
    batches = [
        (task, examples)
        for task, size in enumerate(sizes)
        for examples in batches_of_epoch(size, batch_size, seed, epoch)
    ]
    if len(sizes) == 1:
        return batches
    order = np.random.default_rng([seed, epoch + 1, len(sizes)]).permutation(len(batches))
    return [batches[i] for i in order]


def pieces(
    tokenizer: PreTrainedTokenizerBase, documents: Sequence[str], max_length: int, budget: int
) -> Encoded:
    """Cut documents, in a fixed random order, into pieces until ``budget`` tokens.

    A piece has at most ``max_length`` tokens. Every second piece is laid out as a sentence pair, so
    that a student also meets segment 1 and the inner [SEP].
    """
    tokens: list[np.ndarray] = []
    segments: list[np.ndarray] = []
    room = max_length - 3  # [CLS] and two [SEP]

    # documents in a random order, cut into parts
    order = np.random.default_rng(0).permutation(len(documents)).tolist()
    total = 0
    for begun in range(0, len(order), 256):
        # some documents, cut into parts
        texts = [documents[i] for i in order[begun : begun + 256]]
        read = tokenizer(texts, add_special_tokens=False, verbose=False)["input_ids"]
        parts: list[list[int]] = []
        for words in read:
            parts += [words[start : start + room] for start in range(0, len(words), room)]
        for part in parts:
            if len(part) < 4 or total >= budget:
                continue
            piece, segment = _laid_out(part, tokenizer, is_pair=len(tokens) % 2 == 1)
            tokens.append(np.array(piece, dtype=np.int64))
            segments.append(np.array(segment, dtype=np.int64))
            total += len(piece)
        if total >= budget:
            break
    if not tokens:
        raise InputError(
            "the corpus has no text of four tokens or more; "
            "name files with one document a line in --corpus"
        )
    guard_unknown(tokens, tokenizer)

    # masking needs to know [MASK] and the special tokens
    vocabulary = None
    if tokenizer.mask_token_id is not None:
        special = frozenset(tokenizer.all_special_ids)
        vocabulary = MaskingVocabulary(tokenizer.mask_token_id, special, len(tokenizer))
    return Encoded(tokens, segments, None, list(range(len(tokens))), (), vocabulary)


def _laid_out(
    part: list[int], tokenizer: PreTrainedTokenizerBase, is_pair: bool
) -> tuple[list[int], list[int]]:
    """A piece of text with its special tokens, alone or as a pair of its halves; and segments."""
    cls = tokenizer.cls_token_id
    sep = tokenizer.sep_token_id
    if not is_pair:
        return [cls, *part, sep], [0] * (len(part) + 2)
    middle = len(part) // 2
    piece = [cls, *part[:middle], sep, *part[middle:], sep]
    return piece, [0] * (middle + 2) + [1] * (len(part) - middle + 1)
