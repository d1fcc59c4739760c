"""Question generation, made of SQuAD: a sentence with an answer marked in it -> the question.

SQuAD is of Rajpurkar et al. 2016. It is cut by article, so that no article is in both splits, and
is none of the published cuts.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.data.table_files import Split
from bench.errors import InputError
from bench.user_files import refuse_lfs_pointer

COLUMNS = ("title", "context", "question", "answers")
EVERY = 12
"""Every twelfth of the articles in alphabetical order is for scoring."""
SENTENCE_END = re.compile(r"(?<=[.!?])\s+(?=[A-Z0-9\"'“(])")


def marked_sentence(context: str, answer: str, start: int) -> str:
    """The sentence around an answer, with the answer in brackets.

    They are several sentences where the answer reaches over their ends.
    """
    end = start + len(answer)
    inside = range(start, end)
    breaks = [mark.start() for mark in SENTENCE_END.finditer(context)]
    breaks = [at for at in breaks if at not in inside]
    begin = max((at for at in breaks if at <= start), default=0)
    stop = min((at for at in breaks if at >= end), default=len(context))
    return f"{context[begin:start]}[ {answer} ]{context[end:stop]}".strip()


def pairs_of(rows: Iterable[Mapping[str, Any]], split: str) -> list[tuple[str, str]]:
    """(sentence, question) of the articles of ``train`` or of ``validation``; each pair once."""
    rows = list(rows)
    # every twelfth article is for scoring
    scored = set(sorted({row["title"] for row in rows})[EVERY - 1 :: EVERY])
    chosen = [row for row in rows if (row["title"] in scored) == (split != "train")]

    # the sentence with its answer marked, and the question
    pairs = []
    for row in chosen:
        answers = row["answers"]
        sentence = marked_sentence(row["context"], answers["text"][0], answers["answer_start"][0])
        pairs.append((" ".join(sentence.split()), " ".join(row["question"].split())))
    return list(dict.fromkeys(pairs))


def read_squad(files: Sequence[Path], split: str) -> Split:
    """Sentences and the questions about them.

    Raises:
        InputError: a file that cannot be read, or that has not SQuAD's columns.
    """
    import pyarrow.parquet

    rows: list[Mapping[str, Any]] = []
    for file in files:
        refuse_lfs_pointer(file, str(file))
        try:
            rows += pyarrow.parquet.read_table(file, columns=list(COLUMNS)).to_pylist()
        except Exception as error:  # pyarrow raises many kinds
            why = str(error).partition("\n")[0][:200]
            raise InputError(
                f"{file} cannot be read as SQuAD with the columns {', '.join(COLUMNS)}: {why}"
            ) from None
    pairs = pairs_of(rows, split)
    if not pairs:
        raise InputError(f"{files[0].parent} has too few articles for {split}")
    return Split(
        [sentence for sentence, _ in pairs],
        [question for _, question in pairs],
        None,
        range(len(pairs)),
    )
