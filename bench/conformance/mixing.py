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
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from bench.data.encoding import Encoded
from bench.data.padding import pad_batch
from methods.api import Batch, Out, Stage, Student, Tap, Taps, Term, UndeclaredNeed
from methods.models import forward
from methods.packed import Layout

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


class MixingFault(NamedTuple):
    """Something wrong with a term; ``padding`` where it counts places without a token, else it mixes sequences."""

    padding: bool
    text: str


@dataclass(frozen=True)
class ReadValue:
    """One thing that a term reads: ``tokens`` [T, W], ``sequences`` [B, C] or ``scores``, [n, H, L, L] of each chunk."""

    kind: str
    values: tuple[Tensor, ...]

    def of(self, place: int, layout: Layout) -> Tensor:
        """A view of the part of the sequence at ``place``."""
        if self.kind == "sequences":
            return self.values[0][place]
        length = layout.lengths[place]
        if self.kind == "tokens":
            start = sum(layout.lengths[:place])
            return self.values[0][start : start + length]
        number = next(n for n, chunk in enumerate(layout.chunks) if place in chunk.sequences)
        return self.values[number][layout.chunks[number].sequences.index(place), :, :length, :length]

    def outside(self, layout: Layout) -> list[Tensor]:
        """For scores, True at [n, 1, L, L] places whose query or key is no token of the row."""
        if self.kind != "scores":
            return []
        return [~(chunk.mask_nL[:, :, None] & chunk.mask_nL[:, None, :])[:, None] for chunk in layout.chunks]


def batch_of(data: Encoded, stage: Stage, rows: Sequence[int], compared: Sequence[int], mask: int) -> Batch:
    """These examples as the stage sees them; where it hides tokens, more of them in the sequences ``compared``."""
    batch = data.batch(rows)
    if stage.masking is not None:
        starts = [0, *itertools.accumulate(batch.layout.lengths)]
        places = sorted(
            [start + HIDDEN_ALWAYS for start in starts[:-1]] + [starts[place] + HIDDEN_OF_KEPT for place in compared]
        )
        ids = batch.token_ids.clone()
        ids[places] = mask
        hidden = torch.tensor(places)
        batch = replace(batch, token_ids=ids, masked_positions=hidden, masked_ids=batch.token_ids[hidden])
    return pad_batch(batch, data, stage.padding) if stage.padding else batch


class Look:
    """One batch, what both models say of it, and the gradients that a stage's terms have there."""

    def __init__(self, scene: Scene, stage: Stage, rows: Sequence[int], compared: Sequence[int]) -> None:
        self.scene, self.rows, self.compared = scene, rows, compared
        self.drew = False
        """whether the last term drew random numbers: what it drew for a sequence then depends on all shapes"""
        self.batch = batch_of(scene.data, stage, rows, compared, scene.mask)
        terms = stage.terms.values()
        read = {
            "student": frozenset[Tap]().union(*(term.student for term in terms)),
            "teacher": frozenset[Tap]().union(*(term.teacher for term in terms)),
        }
        self.said = {
            side: _readings(model.eval(), self.batch, read[side]) if read[side] else {}
            for side, model in (("student", scene.student.model), ("teacher", scene.teacher))
        }
        self.noisy = {
            side: {name: self._with_noise(value, name, side) for name, value in said.items()}
            for side, said in self.said.items()
        }
        """what terms are called with: what both models say, with noise, and nonsense where there is no token"""

    def _with_noise(self, reading: ReadValue, name: str, side: str) -> ReadValue:
        """The values with noise of each sequence's own, and with values that mean nothing where there is no token."""
        layout = self.batch.layout
        made = ReadValue(reading.kind, tuple(value.clone() for value in reading.values))
        for number, outside in enumerate(made.outside(layout)):
            made.values[number].masked_fill_(outside, 7.0 if side == "student" else -5.0)
        for place, row in enumerate(self.rows):
            part = made.of(place, layout)
            chance = np.random.default_rng([row, *f"{side} {name}".encode()])
            size = NOISE * float(part.square().mean().sqrt()) + 1e-3
            part += torch.from_numpy(chance.normal(0, size, tuple(part.shape))).to(part.dtype)
        return made

    def gradients(self, term: Term, training: bool) -> dict[str, ReadValue]:
        """What the term's gradient is at everything it reads of the student; of the teacher, if it reads no student.

        Raises:
            UndeclaredNeed: it reads what it does not declare.
        """
        leaves = {
            side: {
                name: ReadValue(reading.kind, tuple(value.clone().requires_grad_() for value in reading.values))
                for name, reading in self.noisy[side].items()
                if name in {name for tap in taps for name in _names(tap)}
            }
            for side, taps in (("student", term.student), ("teacher", term.teacher))
        }
        batch, aux = self.batch, self.scene.student.aux
        ours, theirs = (
            _out(batch.layout, term.student, leaves["student"]),
            _out(batch.layout, term.teacher, leaves["teacher"]),
        )
        # tensors of its own, because a term may write into them; training may move running means of aux
        labels = None if batch.labels is None else batch.labels.clone()
        batch = replace(batch, token_ids=batch.token_ids.clone(), segment_ids=batch.segment_ids.clone(), labels=labels)
        before = {name: value.clone() for name, value in aux.state_dict().items()}
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            begun = torch.get_rng_state()
            value = term.fn(batch, ours, theirs, aux.train(training))
            self.drew = not torch.equal(begun, torch.get_rng_state())
        looked = leaves["student"] if term.student else leaves["teacher"]
        flat = [tensor for reading in looked.values() for tensor in reading.values]
        slopes: Sequence[Tensor] = ()
        if flat and value.requires_grad:
            slopes = torch.autograd.grad(value, flat, allow_unused=True, materialize_grads=True)
        aux.load_state_dict(before)
        left = iter(slopes)
        return {name: ReadValue(r.kind, tuple(next(left) for _ in r.values)) for name, r in looked.items() if slopes}


OF_TAPS: Mapping[str, str] = {
    "logits": "sequences",
    "hidden": "tokens",
    "scores": "scores",
    "vectors": "tokens",
    "exits": "sequences",
    "gates": "tokens",
    "pooled": "sequences",
}
"""Kind of a tap -> kind of its readings."""


def _names(tap: Tap) -> tuple[str, ...]:
    """What a tap gives, by name: three things for vectors, one for every other."""
    if tap.kind == "vectors":
        return tuple(f"{what} {tap.layer}" for what in ("queries", "keys", "values"))
    return (str(tap),)


def _readings(model: nn.Module, batch: Batch, taps: Taps) -> dict[str, ReadValue]:
    with torch.no_grad():
        out = forward(model, batch, taps)
    readings: dict[str, ReadValue] = {}
    for tap in sorted(taps):
        values = out[tap] if tap.kind == "vectors" else (out[tap],)
        for name, value in zip(_names(tap), values, strict=True):
            readings[name] = ReadValue(OF_TAPS[tap.kind], value if isinstance(value, tuple) else (value,))
    return readings


def _out(layout: Layout, taps: Taps, readings: Mapping[str, ReadValue]) -> Out:
    """What a term would be given, of the readings' own tensors."""
    values: dict[Tap, Any] = {}
    for tap in taps:
        parts = [readings[name].values for name in _names(tap) if name in readings]
        if tap.kind == "vectors" and parts:
            values[tap] = tuple(value for (value,) in parts)
        elif parts:
            values[tap] = parts[0] if tap.kind == "scores" else parts[0][0]
    return Out(layout, values)


@dataclass(frozen=True)
class BatchPair:
    """Two batches with some sequences in common: what a term's gradient at those must have in common."""

    one: Look
    other: Look
    places: tuple[tuple[int, int], ...]
    """of the common sequences, in the one and in the other"""
    message: str
    """where the two differ; ``{}`` is by how much"""
    padding: bool = False
    """whether only the padding differs; else the other sequences do"""
    scaled: bool = False
    """whether a common factor of the gradients is free: means have other divisors"""
    same_shapes: bool = False
    """whether draws are the same in both: then aux may train, with its dropout"""

    def gap(self, one: Mapping[str, ReadValue], other: Mapping[str, ReadValue], scaled: bool) -> tuple[float, str]:
        """The largest difference of two sets of readings as a part of their size, and what it is of; where a factor is free, after
        the best one above 0."""
        pairs: dict[str, list[Tensor]] = {}
        for name in one.keys() & other.keys():
            ours = [one[name].of(place, self.one.batch.layout).flatten() for place, _ in self.places]
            theirs = [other[name].of(place, self.other.batch.layout).flatten() for _, place in self.places]
            pairs[name] = [torch.cat(ours).double(), torch.cat(theirs).double()]
        sizes = {name: max(float(side.abs().max()) for side in pair) for name, pair in pairs.items()}
        largest, where = 0.0, ""
        for name, (first, second) in sorted(pairs.items()):
            if sizes[name] <= NEGLIGIBLE * max(sizes.values()):
                continue
            factor = 1.0
            if scaled:
                factor = float((first * second).sum() / first.square().sum().clamp(min=1e-300))
            size = max(float((first * factor).abs().max()), float(second.abs().max()))
            gap = float((first * factor - second).abs().max()) / size if factor > 0 else 1.0
            if gap >= largest:
                largest, where = gap, name
        return largest, where


def _comparisons(scene: Scene, stage: Stage) -> list[BatchPair]:
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
    common = tuple((place, place) for place in ends)
    return [
        BatchPair(mixed, other_texts, common, "changes by {} with the texts of other sequences", same_shapes=True),
        *(
            BatchPair(
                alike,
                Look(scene, stage, [row], (0,)),
                ((place, 0),),
                "has another direction, by {}, than without other sequences",
                scaled=True,
            )
            for place, row in enumerate(rows)
        ),
        BatchPair(
            mixed,
            other_lengths,
            common,
            "changes by {} with the lengths of other sequences, although tokens, pairs of tokens and sequences are as many: "
            "a mean counts padding, or divides by it",
            padding=True,
        ),
    ]


def findings(scene: Scene) -> list[MixingFault]:
    """What is wrong with the student's own answers and with the stages' terms: at most one finding of each."""
    faults: list[MixingFault] = []
    for number, stage in enumerate(scene.stages()):
        comparisons = _comparisons(scene, stage)
        where = f"{scene.title}, " * bool(scene.title) + f"stage {stage.name}"
        for comparison in comparisons:  # what the student says of one sequence must not depend on the others
            gap, name = comparison.gap(comparison.one.said["student"], comparison.other.said["student"], scaled=False)
            if gap > TOLERANCE:
                message = "changes by {} without other sequences" if comparison.scaled else comparison.message
                text = f"{where}: the student's {name} of one sequence: it {message.format(f'{gap:.1%}')}"
                faults.append(MixingFault(comparison.padding, text))
                break
        for name, term in stage.terms.items():
            if term.unsupported:
                continue  # a row that keeps it is refused

            def anew(number: int = number, name: str = name) -> Term:
                return scene.stages()[number].terms[name]

            with contextlib.suppress(UndeclaredNeed):  # the check of needs says so
                if fault := _fault_of(comparisons, anew):
                    faults.append(fault._replace(text=f"{where}, term {name}: {fault.text}"))
    return faults


def _fault_of(comparisons: Sequence[BatchPair], anew: Callable[[], Term]) -> MixingFault | None:
    """The first thing that is wrong with a term.

    Args:
        anew: makes the term, without what it may keep between calls.
    """
    outside = _outside(comparisons[0].one, anew())
    if anew().across_batch:
        return outside
    for comparison in sorted(comparisons, key=lambda comparison: comparison.padding):
        if comparison.padding and outside:
            return outside
        sides = [look.gradients(anew(), comparison.same_shapes) for look in (comparison.one, comparison.other)]
        if comparison.one.drew and not comparison.same_shapes:
            continue  # a term with noise of its own
        gap, name = comparison.gap(sides[0], sides[1], comparison.scaled)
        if gap > TOLERANCE:
            text = comparison.message.format(f"{gap:.1%}") + ("" if comparison.padding else ADVICE)
            return MixingFault(comparison.padding, f"its gradient at {name} of one sequence {text}")
    return outside


def _outside(look: Look, term: Term) -> MixingFault | None:
    """Whether the term's gradient is above 0 where there is no token."""
    for name, reading in look.gradients(term, training=False).items():
        largest = max(float(value.abs().max()) for value in reading.values)
        for value, outside in zip(reading.values, reading.outside(look.batch.layout), strict=False):
            beyond = float(value.masked_fill(~outside, 0.0).abs().max())
            if not math.isfinite(beyond):
                why = "is not a number: mask before the logarithm or the division, not after"
                return MixingFault(True, f"its gradient at places of {name} that hold no token {why}")
            if beyond > NEGLIGIBLE * largest:
                return MixingFault(True, f"it has a gradient at places of {name} that hold no token: mask them")
    return None
