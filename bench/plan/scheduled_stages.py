"""A method's stages with their lengths fixed: what actually runs, and for how many steps."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bench.errors import CellError
from bench.optimizers import refusal
from bench.record.recipe import PAPER, Recipe

if TYPE_CHECKING:
    from methods.api import Stage, Taps, Term

MAIN = "main"
"""The player that moves the student itself."""
PREPARATION = "preparation"
COUNTED = "counted"
"""The two series of a training: extra steps that come first, and the epochs that every method
has."""


@dataclass(frozen=True)
class ScheduledStage:
    """A stage with its length fixed and its dropped terms gone: what actually runs."""

    stage: Stage
    terms: dict[str, Term]
    recipe: Recipe
    steps: int

    @property
    def student(self) -> Taps:
        """The outputs of the student that its terms read."""
        return frozenset().union(*(term.student for term in self.terms.values()))

    @property
    def teacher(self) -> Taps:
        """The outputs of the teacher that its terms read; none where it has not to answer."""
        return frozenset().union(*(term.teacher for term in self.terms.values()))


def kept_terms(stage: Stage, dropped: Sequence[str]) -> dict[str, Term]:
    """The stage's terms without those dropped by name or prefix, and without those of constant
    weight 0."""
    return {
        name: term
        for name, term in stage.terms.items()
        if term.weight != 0 and not _is_dropped(name, dropped)
    }


def _is_dropped(term: str, dropped: Sequence[str]) -> bool:
    """Whether a term is one of those that are dropped, or below one."""
    return any(term == drop or term.startswith(drop + ".") for drop in dropped)


def schedule_stages(
    stages: Sequence[Stage], dropped: Sequence[str], recipe: Recipe, *examples: int
) -> tuple[list[ScheduledStage], list[ScheduledStage]]:
    """The preparation, and the counted stages. A stage left without terms gives its share to the
    others.

    Args:
        examples: training examples; of several tasks one number for each.

    Raises:
        CellError: a dropped term is in no stage, nothing is left that trains the student, student
            and teacher cannot have a term, the papers' recipes are asked for and a counted stage
            names none, there is no such optimiser, or a term needs whole batches where
            micro-batches are asked for.
    """
    _check_dropped(stages, dropped)
    for stage in stages:
        if refused := refusal(recipe.for_stage(stage.paper)):
            raise CellError(f"the stage {stage.name}: {refused}")
    if not stages:
        return [], []  # the student is finished as it is built

    # the stages that have something to train by: those before the count, and those in it
    extra: list[tuple[Stage, dict[str, Term]]] = []
    counted: list[tuple[Stage, dict[str, Term]]] = []
    for stage in stages:
        terms = kept_terms(stage, dropped)
        if terms:
            _check_terms(stage, terms, recipe)
            (extra if stage.extra_steps else counted).append((stage, terms))
    if not any(term.player == MAIN for _, terms in counted for term in terms.values()):
        raise CellError("every term that trains the student was dropped; keep at least one")

    # their lengths in steps
    per_epoch = sum(math.ceil(count / recipe.batch_size) for count in examples)
    preparation = []
    for stage, terms in extra:
        steps = min(per_epoch, stage.extra_steps)
        preparation.append(ScheduledStage(stage, terms, recipe.for_stage(stage.paper), steps))
    if recipe.name == PAPER:
        return preparation, _by_papers(counted, recipe, per_epoch)
    return preparation, _by_shares(counted, recipe, per_epoch)


def _check_dropped(stages: Sequence[Stage], dropped: Sequence[str]) -> None:
    """Raises CellError where a dropped term is in no stage."""
    there = {term for stage in stages for term in stage.terms}
    for drop in dropped:
        if not any(_is_dropped(term, [drop]) for term in there):
            raise CellError(
                f"there is no term {drop} to drop here; its terms are: {', '.join(sorted(there))}"
            )


def _check_terms(stage: Stage, terms: dict[str, Term], recipe: Recipe) -> None:
    """Raises CellError where student and teacher cannot have a term, or micro-batches cannot
    serve it."""
    for name, term in terms.items():
        if term.unsupported:
            raise CellError(f"the term {name}: {term.unsupported}, or drop it (:-{name})")
        # a batch in parts gives the gradient of the whole one only where each sequence adds its own
        # share of it
        if recipe.micro_batch and term.across_batch:
            raise CellError(
                f"micro_batch={recipe.micro_batch}: the term {name} compares the sequences of a "
                "whole "
                f"batch; train this row without micro-batches, or drop the term (:-{name})"
            )
    if recipe.micro_batch and stage.masking is not None:
        raise CellError(
            f"micro_batch={recipe.micro_batch}: the stage {stage.name} masks tokens of whole "
            "batches"
        )


def _by_papers(
    counted: Sequence[tuple[Stage, dict[str, Term]]], recipe: Recipe, per_epoch: int
) -> list[ScheduledStage]:
    """Counted stages of the lengths that their papers name.

    Args:
        per_epoch: steps of an epoch.

    Raises:
        CellError: a stage names no recipe of a paper.
    """
    silent = [stage.name for stage, _ in counted if not stage.paper]
    if silent:
        # it would train by the common numbers, and its record would call them the paper's
        raise CellError(
            f"--recipe paper: {', '.join(silent)} names no recipe of a paper (Stage.paper); use "
            "--recipe common"
        )
    scheduled = []
    for stage, terms in counted:
        own = recipe.for_stage(stage.paper)
        steps = max(1, round(own.epochs * per_epoch))
        scheduled.append(ScheduledStage(stage, terms, own, steps))
    return scheduled


def _by_shares(
    counted: Sequence[tuple[Stage, dict[str, Term]]], recipe: Recipe, per_epoch: int
) -> list[ScheduledStage]:
    """Counted stages that divide the recipe's epochs by their shares; each has a step at least.

    Args:
        per_epoch: steps of an epoch.
    """
    # all steps of the recipe, and more only where stages would go without one
    total = max(len(counted), round(recipe.epochs * per_epoch))
    shares = sum(stage.epoch_fraction for stage, _ in counted)
    scheduled = []
    done = 0
    share = 0.0
    for stage, terms in counted:
        # their ends are rounded, not their lengths: so rounding does not change the sum
        share += stage.epoch_fraction / shares
        end = max(done + 1, round(share * total))
        own = recipe.for_stage(stage.paper)
        scheduled.append(ScheduledStage(stage, terms, own, end - done))
        done = end
    return scheduled
