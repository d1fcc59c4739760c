"""Whether a tokenizer and a model belong together: ids that the embedding has rows for, segments
that it knows, and capitals."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from bench.errors import InputError

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

TOKENS_LOOKED_AT = 4000
"""Tokens of a vocabulary in which capitals are looked for, evenly spread over it."""
CASED_SHARE = 0.01
"""Share of tokens with letters that have capitals, from which on a vocabulary is cased. Those made
of lower-cased text have none, but for a few signs that have no small form; cased ones have a tenth
and more. Chosen by hand."""
FEWEST_WORDS = 100
"""Tokens with letters below which nothing is said of a vocabulary's capitals."""


def refuse_ids_without_rows(tokenizer: PreTrainedTokenizerBase, rows: int, asked: str) -> None:
    """Compare a tokenizer's ids, those of added and special tokens among them, with the rows of the
    embedding.

    Args:
        rows: of the embedding; ids are from 0 to one below.
        asked: what was typed to name the checkpoint, for the message.

    Raises:
        InputError: an id without a row.
    """
    vocabulary = tokenizer.get_vocab()
    token, highest = max(vocabulary.items(), key=lambda item: item[1])
    if highest < rows:
        return
    beyond = sum(number >= rows for number in vocabulary.values())
    raise InputError(
        f"{asked}: the tokenizer has ids up to {highest}, the embedding {rows} rows; "
        f"{beyond} tokens, such as {token!r}, have none. Put the tokenizer of this model into its "
        "folder; or, where tokens were added, save the model after resize_token_embeddings"
    )


def refuse_segments_without_rows(config: Any, segments: Iterable[Any], asked: str) -> None:
    """Compare the kinds of segments in encoded examples with those that the embedding has.

    Args:
        segments: the segment ids of each example, [L].

    Raises:
        InputError: second texts are marked by a kind of segment that the model has not.
    """
    from methods.core.families import SEGMENTED, family_of_config

    if family_of_config(config) not in SEGMENTED:
        return
    highest = max(int(row.max(initial=0)) for row in segments)
    if highest >= config.type_vocab_size:
        raise InputError(
            f"{asked}: its tokenizer marks second texts as segment {highest}, and the embedding of "
            f"segments has {config.type_vocab_size} rows (type_vocab_size); it can read tasks of "
            "single texts alone"
        )


def case_note(tokenizer: PreTrainedTokenizerBase) -> str:
    """A note on a tokenizer whose capitals its vocabulary has not, without a subject; "" if none.

    Byte-level vocabularies are looked at as text, because their spelling of a blank is a capital.
    """
    backend: Any = tokenizer.backend_tokenizer  # type: ignore[attr-defined]
    with_letters = 0
    with_capitals = 0
    special = set(tokenizer.all_special_tokens)
    vocabulary = sorted(set(tokenizer.get_vocab()) - special)
    step = max(1, len(vocabulary) // TOKENS_LOOKED_AT)
    for token in vocabulary[::step]:
        text = backend.decoder.decode([token]) if backend.decoder is not None else token
        with_letters += text.lower() != text.upper()
        with_capitals += text != text.lower()
    if with_letters < FEWEST_WORDS:
        return ""
    normalizer = backend.normalizer
    lowers = normalizer is not None and normalizer.normalize_str("WORD").strip("▁ ") == "word"
    if lowers and with_capitals >= CASED_SHARE * with_letters:
        return (
            "its tokenizer makes every text lower case, and "
            f"{100 * with_capitals / with_letters:.0f} % of the words of its vocabulary have "
            "capitals, which it never reads; a cased model needs do_lower_case false in "
            "tokenizer_config.json"
        )
    if not lowers and with_capitals == 0:
        return (
            "its tokenizer keeps capitals, and no word of its vocabulary has one, so that words "
            "with capitals are read as unknown or as letters; an uncased model needs "
            "do_lower_case true in tokenizer_config.json"
        )
    return ""
