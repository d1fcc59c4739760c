"""The text of pre-training where every task is a user's own: the texts that the tasks train on.

They have no labels, and no text of a validation or test set is among them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from bench.data.checkpoints import longest_input, tokenizer_of
from bench.data.corpus import TOKENS_A_WORD, Corpus
from bench.errors import InputError
from bench.record.recipe import START

if TYPE_CHECKING:
    from bench.data.checkpoints import Checkpoint
    from bench.plan.plan import TaskPlan
    from bench.request import Request

MOST_PASSES = 3
"""How often the texts are read at most. The usual training of a student reads its examples in
three epochs too, so that a start takes at most half of the tokens that it and one student are
trained on."""
COUNTED = 256
"""Texts whose tokens are counted; the others are taken to be as long."""
ALL = 2**62
"""A number of tokens that no text has."""


@dataclass
class TrainingTexts(Corpus):
    """The training texts of tasks, each text once.

    Attributes:
        task_plans: of the tasks, in the order of their names.
        total: tokens of one pass over the texts, about.
        mean_piece: tokens of a piece of text, about.
    """

    task_plans: tuple[TaskPlan, ...] = ()
    total: int = 0
    mean_piece: float = 0.0

    @cached_property
    def documents(self) -> Sequence[str]:
        """Raises InputError: the examples are not those that were planned."""
        return documents_of(self.task_plans)

    @property
    def tasks(self) -> tuple[str, ...]:
        """Names of the tasks."""
        return tuple(plan.name for plan in self.task_plans)

    @property
    def budget(self) -> int:
        """Tokens that are read unless somebody says a number: of all passes."""
        passes = MOST_PASSES * self.total
        rounded = round(passes, -3) if passes >= 10_000 else passes
        return min(rounded, self.tokens)

    def line(self, budget: int) -> str:
        """Say in a sentence for a plan what is read.

        Args:
            budget: tokens that are read.
        """
        share = budget / (budget + MOST_PASSES * self.total)
        several = ""
        if len(self.tasks) > 1:
            several = "; a run of other files together begins otherwise, and has other records"
        return (
            f"the pre-training reads the {len(self.documents):,} training texts of "
            f"{', '.join(self.tasks)}, without labels and without the texts that are scored: about "
            f"{self.total:,} tokens, {budget / self.total:.1f} times; that is {share:.0%} of the "
            f"tokens that it and one student read in {MOST_PASSES} epochs{several}. --corpus names "
            "another text"
        )


def documents_of(tasks: Sequence[TaskPlan]) -> list[str]:
    """Every text that these tasks train on, once, in the order of their examples."""
    found: dict[str, None] = {}
    for plan in tasks:
        found |= dict.fromkeys(plan.train.first)
        # the second column of texts to write is what is learned: a label
        if plan.train.second is not None and not plan.task.writes:
            found |= dict.fromkeys(plan.train.second)
    return list(found)


def training_texts(
    request: Request, tasks: Sequence[TaskPlan], most: int
) -> tuple[TrainingTexts | None, str]:
    """The text of a request whose tasks are all a user's own and that names none.

    Args:
        most: tokens that are read of it at most.

    Returns:
        None where the pre-training reads another text, with a note that says why where a user might
        expect his own.
    """
    # a text that was typed comes first
    own = sorted((plan for plan in tasks if plan.task.files), key=lambda plan: plan.name)
    if request.corpus or not own:
        return None, ""
    others = [plan.name for plan in tasks if not plan.task.files]
    if others:
        # these tasks share their start with those of earlier runs
        names = ", ".join(plan.name for plan in own)
        return None, (
            f"the pre-training does not read the texts of {names}, because {', '.join(others)} "
            "begins with it too: run your own tasks alone, or name a text with --corpus"
        )
    # how long they are, which needs a tokenizer that reads them
    documents = documents_of(own)
    counted = _count(own[0].checkpoint, documents)
    if counted is None:
        return None, (
            "the pre-training does not read the training texts, because they are shorter than four "
            "tokens: name a text with --corpus"
        )
    total, mean_piece = counted
    names = ", ".join(plan.name for plan in own)
    texts = TrainingTexts(
        f"the training texts of {names}", (), (), most, "", tuple(own), total, mean_piece
    )
    texts.documents = documents
    return texts, ""


def _count(checkpoint: Checkpoint, documents: Sequence[str]) -> tuple[int, float] | None:
    """Tokens of one pass over some texts, and of one of their pieces; None where they have none."""
    from bench.data.encoding import pieces

    # of many texts some are counted, drawn once and for all
    order = np.random.default_rng(0).permutation(len(documents))[:COUNTED].tolist()
    some = [documents[place] for place in sorted(order)]
    # without a tokenizer words are counted
    if checkpoint.outline:
        words = TOKENS_A_WORD * sum(len(text.split()) for text in some)
        return round(words * len(documents) / len(some)), words / len(some)
    longest = min(START.max_length, longest_input(checkpoint.config))
    try:
        read = pieces(tokenizer_of(checkpoint), some, longest, ALL)
    except InputError:
        return None
    mean_piece = read.total_tokens / len(read)
    return round(read.total_tokens * len(documents) / len(some)), mean_piece
