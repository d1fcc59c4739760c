"""Does a term keep the sequences of a batch apart, and does it leave padding out? Read off its gradients.

What a term reads of student and teacher becomes leaf tensors; the gradient at the rows of one sequence is then compared
between batches that differ in other sequences alone:

    other texts of the same lengths             the gradient stays
    other lengths, as many tokens and pairs     the gradient stays: all that may divide a mean is equal, only padding is not
    no other sequences                          the gradient keeps its direction
"""

from __future__ import annotations

import contextlib
import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import torch
from torch import nn

from bench.data.encoding import Encoded
from bench.data.masking import pad_batch
from bench.train.teacher_outputs import by_example, joined
from methods.api import Batch, Out, Stage, Student, Taps, Term, UndeclaredNeed
from methods.models import forward

KEPT = (7, 9)
"""Tokens of the first and of the last sequence, which stay in every mixed batch."""
OTHERS, OF_OTHER_LENGTHS = (6, 10, 11), (7, 8, 12)
"""Tokens of the sequences between them: equal sums and equal sums of squares, so that only the padding differs."""
ALIKE = (9, 9, 9)
"""Tokens of sequences that are also read alone: of one length, so that means over tokens and over sequences scale alike."""
HIDDEN_ALWAYS, HIDDEN_OF_KEPT = 1, 3
"""Positions whose token is hidden where a stage hides some; the second one only in sequences that are compared."""
TOLERANCE = 1e-3
"""Of the largest gradient (or value) compared: far above rounding, far below one place of padding among 12."""
NEGLIGIBLE = 1e-6
"""Part of a term's largest gradient below which a reading's own is rounding."""
NOISE = 0.5
"""Of the size of what is read, added to every value: a student that begins as its teacher would have no gradient."""

MESSAGES = {
    "texts": "changes by {} with the texts of other sequences",
    "alone": "has another direction, by {}, than without other sequences",
    "lengths": "changes by {} with the lengths of other sequences, although tokens, pairs of tokens and sequences are as many: "
    "a mean counts padding, or divides by it",
}
"""What differs between two batches -> how a gradient that goes with it is told."""
ADVICE = (
    "; leave out what layout.padded shows at padding (the first token of the batch); "
    "a loss whose formula compares sequences says so: Term(across_batch=True)"
)


@dataclass(frozen=True)
class Scene:
    """A student and its teacher as a training would begin with them.

    Attributes:
        title: what the stages belong to, for messages; "" for the method itself.
        stages: makes them anew, so that no look leaves a trace in the next.
        mask: the token that hides others.
    """

    title: str
    student: Student
    teacher: nn.Module
    stages: Callable[[], Sequence[Stage]]
    data: Encoded
    mask: int

    def told(self, stage: Stage) -> str:
        """A stage as messages name it."""
        return f"{self.title}, stage {stage.name}" if self.title else f"stage {stage.name}"

    def maker(self, number: int, name: str) -> Callable[[], Term]:
        """What makes one term of the stage of this number, each time anew."""
        return lambda: self.stages()[number].terms[name]


class MixingFault(NamedTuple):
    """Something wrong with a term; ``padding`` where it counts places without a token, else it mixes sequences."""

    padding: bool
    text: str


def batch_of(
    data: Encoded, stage: Stage, rows: Sequence[int], compared: Sequence[int], mask: int
) -> Batch:
    """These examples as the stage sees them; where it hides tokens, more of them in the sequences ``compared``."""
    batch = data.batch(rows)
    if stage.masking is not None:
        starts = [0, *itertools.accumulate(batch.layout.lengths)]
        places = sorted(
            [start + HIDDEN_ALWAYS for start in starts[:-1]]
            + [starts[place] + HIDDEN_OF_KEPT for place in compared]
        )
        ids = batch.token_ids.clone()
        ids[places] = mask
        hidden = torch.tensor(places)
        batch = replace(
            batch, token_ids=ids, masked_positions=hidden, masked_ids=batch.token_ids[hidden]
        )
    return pad_batch(batch, data, stage.padding) if stage.padding else batch


class Look:
    """One batch, what both models say of it, and the gradients that a stage's terms have there."""

    def __init__(
        self, scene: Scene, stage: Stage, rows: Sequence[int], compared: Sequence[int]
    ) -> None:
        self.scene, self.rows = scene, rows
        self.drew = False
        """whether the last term drew random numbers: what it drew for a sequence then depends on all shapes"""
        self.batch = batch_of(scene.data, stage, rows, compared, scene.mask)
        taps: list[Taps] = [
            frozenset().union(*of_terms)
            for of_terms in zip(
                *((term.student, term.teacher) for term in stage.terms.values()), strict=True
            )
        ]
        with torch.no_grad():
            self.student, teacher = (
                forward(model.eval(), self.batch, read) if read else Out(self.batch.layout)
                for model, read in zip((scene.student.model, scene.teacher), taps, strict=True)
            )
        self.noisy = (
            self._with_noise(self.student, "student", 7.0),
            self._with_noise(teacher, "teacher", -5.0),
        )
        """what terms are called with: what both models say, with noise, and nonsense where there is no token"""

    def _with_noise(self, said: Out, side: str, nonsense: float) -> Out:
        """What a model says with noise of each sequence's own."""
        values = {}
        for tap, value in said.values.items():
            examples = by_example(said.layout, tap, value)
            for row, tensors in zip(self.rows, examples, strict=True):
                for number, x in enumerate(tensors):
                    chance = np.random.default_rng([row, *f"{side} {tap} {number}".encode()])
                    size = NOISE * float(x.square().mean().sqrt()) + 1e-3
                    tensors[number] = x + torch.from_numpy(
                        chance.normal(0, size, tuple(x.shape))
                    ).to(x.dtype)
            values[tap] = joined(said.layout, tap, examples, nonsense)
        return Out(said.layout, values)

    def gradients(self, term: Term, training: bool) -> Out:
        """What the term's gradient is at everything it reads of the student; of the teacher, if it reads no student.

        Raises:
            UndeclaredNeed: it reads what it does not declare.
        """
        ours, theirs = (
            Out(noisy.layout, {tap: noisy[tap] for tap in taps}).each(
                lambda x: x.clone().requires_grad_()
            )
            for noisy, taps in zip(self.noisy, (term.student, term.teacher), strict=True)
        )
        batch, aux = self.batch, self.scene.student.aux
        # tensors of its own, because a term may write into them; training may move running means of aux
        labels = None if batch.labels is None else batch.labels.clone()
        batch = replace(
            batch,
            token_ids=batch.token_ids.clone(),
            segment_ids=batch.segment_ids.clone(),
            labels=labels,
        )
        before = {name: value.clone() for name, value in aux.state_dict().items()}
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            begun = torch.get_rng_state()
            value = term.fn(batch, ours, theirs, aux.train(training))
            self.drew = not torch.equal(begun, torch.get_rng_state())
        looked = ours if term.student else theirs
        slopes: Iterator[torch.Tensor] = iter(())
        if looked.values and value.requires_grad:
            slopes = iter(
                torch.autograd.grad(
                    value, looked.tensors(), allow_unused=True, materialize_grads=True
                )
            )
        else:
            looked = Out(batch.layout)
        aux.load_state_dict(before)
        return looked.each(lambda x: next(slopes))


class BatchPair(NamedTuple):
    """Two batches with some sequences in common: what a term's gradient at those must have in common."""

    difference: str  # a key of MESSAGES
    first: Look
    second: Look
    places: tuple[Sequence[int], Sequence[int]]
    """of the common sequences, in the first and in the second"""

    def gap(self, ours: Out, theirs: Out, scaled: bool = False) -> tuple[float, str]:
        """The largest difference at the common sequences as a part of the size there, and what it is of; where a factor is free
        (``scaled``: means have other divisors), after the best one above 0."""
        pairs = {}
        for tap in sorted(ours.values.keys() & theirs.values.keys()):
            names = (
                [f"{what} {tap.layer}" for what in ("queries", "keys", "values")]
                if tap.kind == "vectors"
                else [str(tap)]
            )
            cut = [by_example(out.layout, tap, out[tap]) for out in (ours, theirs)]
            for number, name in enumerate(names):
                pairs[name] = [
                    torch.cat([examples[place][number].flatten() for place in places]).double()
                    for examples, places in zip(cut, self.places, strict=True)
                ]
        sizes = {
            name: max(float(side.abs().max()) for side in pair) for name, pair in pairs.items()
        }
        largest, where = 0.0, ""
        for name, (first, second) in pairs.items():
            if sizes[name] <= NEGLIGIBLE * max(sizes.values()):
                continue
            factor = (
                float((first * second).sum() / first.square().sum().clamp(min=1e-300))
                if scaled
                else 1.0
            )
            size = max(float((first * factor).abs().max()), float(second.abs().max()))
            gap = float((first * factor - second).abs().max()) / size if factor > 0 else 1.0
            if gap >= largest:
                largest, where = gap, name
        return largest, where


def _comparisons(scene: Scene, stage: Stage) -> list[BatchPair]:
    """In the order in which a term is judged."""
    of_length: dict[int, list[int]] = {}
    for row, tokens in enumerate(scene.data.tokens):
        of_length.setdefault(len(tokens), []).append(row)
    left = {length: iter(rows) for length, rows in of_length.items()}
    first, last = (next(left[length]) for length in KEPT)
    ends = (0, 1 + len(OTHERS))

    def between(lengths: Sequence[int]) -> Look:
        return Look(scene, stage, [first, *(next(left[length]) for length in lengths), last], ends)

    mixed, other_texts, other_lengths = between(OTHERS), between(OTHERS), between(OF_OTHER_LENGTHS)
    rows = [next(left[length]) for length in ALIKE]
    alike = Look(scene, stage, rows, range(len(rows)))
    alone = [Look(scene, stage, [row], (0,)) for row in rows]
    return [
        BatchPair("texts", mixed, other_texts, (ends, ends)),
        *(BatchPair("alone", alike, look, ((place,), (0,))) for place, look in enumerate(alone)),
        BatchPair("lengths", mixed, other_lengths, (ends, ends)),
    ]


def findings(scene: Scene) -> list[MixingFault]:
    """What is wrong with the student's own answers and with the stages' terms: at most one finding of each."""
    faults: list[MixingFault] = []
    for number, stage in enumerate(scene.stages()):
        comparisons = _comparisons(scene, stage)
        where = scene.told(stage)
        # what the student says of one sequence must not depend on the others
        for pair in comparisons:
            gap, name = pair.gap(pair.first.student, pair.second.student)
            if gap > TOLERANCE:
                message = (
                    "changes by {} without other sequences"
                    if pair.difference == "alone"
                    else MESSAGES[pair.difference]
                )
                text = f"{where}: the student's {name} of one sequence: it {message.format(f'{gap:.1%}')}"
                faults.append(MixingFault(pair.difference == "lengths", text))
                break
        for name, term in stage.terms.items():
            if term.unsupported:
                continue  # a row that keeps it is refused
            with contextlib.suppress(UndeclaredNeed):  # the check of needs says so
                if fault := _fault_of(comparisons, scene.maker(number, name)):
                    faults.append(fault._replace(text=f"{where}, term {name}: {fault.text}"))
    return faults


def _fault_of(comparisons: Sequence[BatchPair], anew: Callable[[], Term]) -> MixingFault | None:
    """The first thing that is wrong with a term.

    Args:
        anew: makes the term, without what it may keep between calls.
    """
    outside = _outside(comparisons[0].first, anew())
    for pair in () if anew().across_batch else comparisons:
        if pair.difference == "lengths" and outside:
            break
        ours, theirs = (
            look.gradients(anew(), pair.difference == "texts") for look in (pair.first, pair.second)
        )
        if pair.first.drew and pair.difference != "texts":
            continue  # a term with noise of its own
        gap, name = pair.gap(ours, theirs, scaled=pair.difference == "alone")
        if gap > TOLERANCE:
            of_padding = pair.difference == "lengths"
            text = MESSAGES[pair.difference].format(f"{gap:.1%}") + ("" if of_padding else ADVICE)
            return MixingFault(of_padding, f"its gradient at {name} of one sequence {text}")
    return outside


def _outside(look: Look, term: Term) -> MixingFault | None:
    """Whether the term's gradient is above 0 where there is no token."""
    gradients = look.gradients(term, training=False)
    for tap in (tap for tap in gradients.values if tap.kind == "scores"):
        largest = max(float(x_nHLL.abs().max()) for x_nHLL in gradients[tap])
        for chunk, x_nHLL in zip(look.batch.layout.chunks, gradients[tap], strict=True):
            real_n1LL = (chunk.mask_nL[:, :, None] & chunk.mask_nL[:, None, :])[:, None]
            beyond = float(x_nHLL.masked_fill(real_n1LL, 0.0).abs().max())
            if not math.isfinite(beyond):
                why = "is not a number: mask before the logarithm or the division, not after"
                return MixingFault(
                    True, f"its gradient at places of {tap} that hold no token {why}"
                )
            if beyond > NEGLIGIBLE * largest:
                return MixingFault(
                    True, f"it has a gradient at places of {tap} that hold no token: mask them"
                )
    return None
