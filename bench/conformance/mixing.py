"""Find terms that mix the sequences of a batch, or read padding, by their gradients.

What a term reads of student and teacher becomes leaf tensors. The gradient at the rows of one
sequence is then compared between batches that differ in other sequences alone:

    other texts of the same lengths             the gradient stays
    other lengths, as many tokens and pairs     the gradient stays: all that may divide a mean is
                                                equal, only padding is not
    no other sequences                          the gradient keeps its direction

A term that compares sequences depends on the others by its formula, so these comparisons say
nothing of it. Every term is shown the same examples in a wider padded view too, and in one whose
padding shows another token: value and gradient stay.
"""

from __future__ import annotations

import contextlib
import copy
import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from bench.conformance.wider import other_views
from bench.data.encoding import Encoded
from bench.data.masking import pad_batch
from bench.train.teacher_outputs import by_example, joined
from methods.api import Batch, Out, Stage, Student, Tap, Taps, Term, UndeclaredNeed
from methods.core.models import forward
from methods.core.packed import Layout

KEPT = (7, 9)
"""Tokens of the first and of the last sequence, which stay in every mixed batch."""
OTHERS = (6, 10, 11)
OF_OTHER_LENGTHS = (7, 8, 12)
"""Tokens of the sequences between them: equal sums and equal sums of squares, so that only the
padding differs."""
ALIKE = (9, 9, 9)
"""Tokens of sequences that are also read alone: of one length, so that means over tokens and over
sequences scale alike."""
HIDDEN_ALWAYS = 1
"""The position whose token is hidden where a stage hides some."""
HIDDEN_OF_KEPT = 3
"""A second such position, only of sequences that are compared."""
TOLERANCE = 1e-3
"""Share of the largest gradient (or value) compared: far above rounding, far below one place of
padding among 12."""
SAME_VALUE = 1e-4
"""Share of a term's value: above rounding, below what three more places of padding change in one of
twenty layers."""
NEGLIGIBLE = 1e-6
"""Part of a term's largest gradient below which a reading's own is rounding."""
NONSENSE = {"student": 7.0, "teacher": -5.0}
"""The scores of either model where there is no token."""
NOISE = 0.5
"""Share of the size of what is read, added to every value: a student that begins as its teacher
would have no gradient."""

MESSAGES = {
    "texts": "changes by {} with the texts of other sequences",
    "alone": "has another direction, by {}, than without other sequences",
    "lengths": "changes by {} with the lengths of other sequences, although tokens, pairs of "
    "tokens and sequences are as many: a mean counts padding, or divides by it",
}
"""The difference between two batches -> how a message says that a gradient changes."""
PADDING_ADVICE = (
    "padding reaches it; mask what layout.padded shows (layout.mask_BL) and divide by the lengths, "
    "or pool by layout.mean, layout.max and layout.first"
)
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

    def name_of(self, stage: Stage) -> str:
        """A stage as messages name it."""
        return f"{self.title}, stage {stage.name}" if self.title else f"stage {stage.name}"

    def maker(self, number: int, name: str) -> Callable[[], Term]:
        """A function that makes one term of the stage of this number, each time anew."""
        return lambda: self.stages()[number].terms[name]


@dataclass(frozen=True)
class Finding:
    """The outcome of a look at a term: a fault, or that it could not decide.

    Attributes:
        text: the term, and what is wrong or why it was not looked at.
        is_fault: False where nothing could be decided.
        of_padding: whether places without a token are counted, else sequences are mixed.
    """

    text: str
    is_fault: bool = True
    of_padding: bool = False

    def of(self, term: str) -> Finding:
        """The same, said of a term."""
        return replace(self, text=f"{term}: {self.text}")


class RecordedOut(Out):
    """The outcome of a pass that knows which taps were read, and whether its model was."""

    def __init__(self, said: Out, model: nn.Module | None = None) -> None:
        super().__init__(said.layout, said.values, model)
        self.read: set[Tap] = set()
        self.gave_model = False

    @property
    def model(self) -> nn.Module:
        self.gave_model = True
        return super().model

    def __getitem__(self, tap: Tap) -> Any:
        self.read.add(tap)
        return super().__getitem__(tap)

    def tensors(self) -> list[Tensor]:
        self.read.update(self.values)
        return super().tensors()

    def each(self, change: Callable[[Tensor], Tensor]) -> Out:
        self.read.update(self.values)
        return super().each(change)


@dataclass(frozen=True)
class TermAnswer:
    """The value and gradient of a term on one batch.

    Attributes:
        value: of the term, without its weight.
        slopes: its gradient at everything it reads of the student; of the teacher, if it reads no
            student.
        drew: whether it drew random numbers: what it drew for a sequence then depends on all
            shapes.
        asked_again: whether it asked the student's model itself, beside what was read of it.
    """

    value: float
    slopes: Out
    drew: bool
    asked_again: bool


def batch_of(
    data: Encoded, stage: Stage, rows: Sequence[int], compared: Sequence[int], mask: int
) -> Batch:
    """These examples as the stage sees them; it hides more tokens in the sequences ``compared``."""
    batch = data.batch(rows)
    if stage.masking is not None:
        # where each sequence begins, and which of its tokens are hidden
        starts = [0, *itertools.accumulate(batch.layout.lengths)]
        positions = [start + HIDDEN_ALWAYS for start in starts[:-1]]
        positions += [starts[number] + HIDDEN_OF_KEPT for number in compared]
        hidden = torch.tensor(sorted(positions))
        ids = batch.token_ids.clone()
        ids[hidden] = mask
        batch = replace(
            batch, token_ids=ids, masked_positions=hidden, masked_ids=batch.token_ids[hidden]
        )
    return pad_batch(batch, data, stage.padding) if stage.padding else batch


class Look:
    """One batch, what both models say of it, and the gradients that a stage's terms have there.

    Attributes:
        noisy: what terms are called with: what both models say, with noise, and nonsense where
            there is no token.
    """

    def __init__(
        self, scene: Scene, stage: Stage, rows: Sequence[int], compared: Sequence[int]
    ) -> None:
        self.scene = scene
        self.rows = rows
        self.batch = batch_of(scene.data, stage, rows, compared, scene.mask)
        terms = stage.terms.values()
        student_taps: Taps = frozenset().union(*(term.student for term in terms))
        teacher_taps: Taps = frozenset().union(*(term.teacher for term in terms))
        self.student = self._said_by(scene.student.model, student_taps)
        teacher = self._said_by(scene.teacher, teacher_taps)
        self.noisy = (
            self._with_noise(self.student, "student").of_model(scene.student.model),
            self._with_noise(teacher, "teacher"),
        )

    def _said_by(self, model: nn.Module, taps: Taps) -> Out:
        """The answer of a model to the batch at these taps, without dropout."""
        if not taps:
            return Out(self.batch.layout)
        with torch.no_grad():
            return forward(model.eval(), self.batch, taps)

    def _with_noise(self, said: Out, side: str) -> Out:
        """The answer of a model with noise of each sequence's own."""
        values = {}
        for tap, value in said.values.items():
            examples = by_example(said.layout, tap, value)
            for row, tensors in zip(self.rows, examples, strict=True):
                for number, x in enumerate(tensors):
                    chance = np.random.default_rng([row, *f"{side} {tap} {number}".encode()])
                    size = NOISE * float(x.square().mean().sqrt()) + 1e-3
                    noise = torch.from_numpy(chance.normal(0, size, tuple(x.shape)))
                    tensors[number] = x + noise.to(x.dtype)
            values[tap] = joined(said.layout, tap, examples, NONSENSE[side])
        return Out(said.layout, values)

    def through(self, layout: Layout) -> Look:
        """The same examples and answers in another padded view."""
        # the same answers, laid out anew
        look = copy.copy(self)
        look.batch = replace(self.batch, layout=layout)
        student, teacher = self.noisy
        look.noisy = (
            _laid_out(student, layout, NONSENSE["student"]).of_model(student.model),
            _laid_out(teacher, layout, NONSENSE["teacher"]),
        )
        return look

    def ask(self, term: Term, training: bool) -> TermAnswer:
        """The term's value and gradient on this batch.

        Raises:
            UndeclaredNeed: it reads what it does not declare.
        """
        student, teacher = self.noisy
        ours = RecordedOut(_leaves(student, term.student), self.scene.student.model)
        theirs = _leaves(teacher, term.teacher)
        aux = self.scene.student.aux
        # tensors of its own, because a term may write into them
        batch = replace(
            self.batch,
            token_ids=self.batch.token_ids.clone(),
            segment_ids=self.batch.segment_ids.clone(),
            labels=None if self.batch.labels is None else self.batch.labels.clone(),
        )
        # training may move running means of aux
        before = {name: value.clone() for name, value in aux.state_dict().items()}

        # the value, and whether it drew random numbers
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            begun = torch.get_rng_state()
            value = term.fn(batch, ours, theirs, aux.train(training))
            drew = not torch.equal(begun, torch.get_rng_state())

        # the gradient at what it reads
        looked = ours if term.student else theirs
        slopes: Iterator[Tensor] = iter(())
        if looked.values and value.requires_grad:
            gradients = torch.autograd.grad(
                value, looked.tensors(), allow_unused=True, materialize_grads=True
            )
            slopes = iter(gradients)
        else:
            looked = Out(batch.layout)
        aux.load_state_dict(before)
        asked_again = ours.gave_model
        slopes_of_taps = looked.each(lambda x: next(slopes))
        return TermAnswer(float(value.detach()), slopes_of_taps, drew, asked_again)


def _leaves(said: Out, taps: Taps) -> Out:
    """These taps alone, each a tensor that begins its own history."""
    return Out(said.layout, {tap: said[tap] for tap in taps}).each(
        lambda x: x.detach().clone().requires_grad_()
    )


def _laid_out(said: Out, layout: Layout, nonsense: float) -> Out:
    """The same answers in another padded view: scores alone have places of padding."""
    values = dict(said.values)
    for tap, value in said.values.items():
        if tap.kind == "scores":
            values[tap] = joined(layout, tap, by_example(said.layout, tap, value), nonsense)
    return Out(layout, values)


class BatchPair(NamedTuple):
    """Two batches with some sequences in common, at which a term's gradients are compared."""

    difference: str  # a key of MESSAGES
    first: Look
    second: Look
    places: tuple[Sequence[int], Sequence[int]]
    """of the common sequences, in the first and in the second"""

    def gap(self, ours: Out, theirs: Out, scaled: bool = False) -> Gap:
        """The largest difference at the common sequences, as a part of the size there.

        Args:
            scaled: whether a factor is free, as means have other divisors; then the difference is
                that after the best factor above 0.
        """
        # what both have at the common sequences
        pairs: dict[str, list[Tensor]] = {}
        for tap in sorted(ours.values.keys() & theirs.values.keys()):
            first = self._common(ours, tap, self.places[0])
            second = self._common(theirs, tap, self.places[1])
            for name in first:
                pairs[name] = [first[name], second[name]]
        sizes = {name: max(_size(first), _size(second)) for name, (first, second) in pairs.items()}

        largest = Gap(0.0, "")
        for name, (first_values, second_values) in pairs.items():
            if sizes[name] <= NEGLIGIBLE * max(sizes.values()):
                continue
            factor = _best_factor(first_values, second_values) if scaled else 1.0

            # the difference after the best factor, as a part of the size
            size = max(_size(first_values * factor), _size(second_values))
            part = _size(first_values * factor - second_values) / size if factor > 0 else 1.0
            if part >= largest.part:
                largest = Gap(part, name)
        return largest

    def _common(self, said: Out, tap: Tap, places: Sequence[int]) -> dict[str, Tensor]:
        """The values of a tap at some sequences, in one vector for each of its tensors."""
        # a tap has one tensor, or three
        names = [str(tap)]
        if tap.kind == "vectors":
            names = [f"{what} {tap.layer}" for what in ("queries", "keys", "values")]
        examples = by_example(said.layout, tap, said[tap])
        values = {}
        for number, name in enumerate(names):
            parts = [examples[place][number].flatten() for place in places]
            values[name] = torch.cat(parts).double()
        return values


class Gap(NamedTuple):
    """How much two readings differ, as a part of their size, and in what."""

    part: float
    name: str


def _size(values: Tensor) -> float:
    return float(values.abs().max())


def _best_factor(first: Tensor, second: Tensor) -> float:
    """The factor that brings the first vector nearest to the second."""
    return float((first * second).sum() / first.square().sum().clamp(min=1e-300))


def _comparisons(scene: Scene, stage: Stage) -> list[BatchPair]:
    """The batches that are compared, in the order in which a term is judged."""
    # examples by their length, each used once
    of_length: dict[int, list[int]] = {}
    for row, tokens in enumerate(scene.data.tokens):
        of_length.setdefault(len(tokens), []).append(row)
    left = {length: iter(rows) for length, rows in of_length.items()}
    first, last = (next(left[length]) for length in KEPT)
    ends = (0, 1 + len(OTHERS))

    def between(lengths: Sequence[int]) -> Look:
        return Look(scene, stage, [first, *(next(left[length]) for length in lengths), last], ends)

    # every batch has sequences of its own between the two
    mixed = between(OTHERS)
    other_texts = between(OTHERS)
    other_lengths = between(OF_OTHER_LENGTHS)

    # sequences of one length, together and alone
    rows = [next(left[length]) for length in ALIKE]
    alike = Look(scene, stage, rows, range(len(rows)))
    alone = [Look(scene, stage, [row], (0,)) for row in rows]
    return [
        BatchPair("texts", mixed, other_texts, (ends, ends)),
        *(BatchPair("alone", alike, look, ((place,), (0,))) for place, look in enumerate(alone)),
        BatchPair("lengths", mixed, other_lengths, (ends, ends)),
    ]


def findings(scene: Scene) -> list[Finding]:
    """Faults of the student's own answers and of the stages' terms, at most one of each.

    Findings that are no faults say what could not be decided.
    """
    # each stage: what the student says, then its terms
    found: list[Finding] = []
    for number, stage in enumerate(scene.stages()):
        comparisons = _comparisons(scene, stage)
        where = scene.name_of(stage)
        fault = _fault_of_student(comparisons)
        if fault:
            found.append(fault.of(where))
        for name, term in stage.terms.items():
            if term.unsupported:
                continue  # a row that keeps it is refused
            with contextlib.suppress(UndeclaredNeed):  # the check of needs says so
                of_term = _findings_of(comparisons, scene.maker(number, name))
                found += [finding.of(f"{where}, term {name}") for finding in of_term]
    return found


def _fault_of_student(comparisons: Sequence[BatchPair]) -> Finding | None:
    """Whether what the student says of one sequence depends on the others."""
    for pair in comparisons:
        gap, name = pair.gap(pair.first.student, pair.second.student)
        if gap <= TOLERANCE:
            continue

        # without other sequences its values change, and not only their direction
        message = MESSAGES[pair.difference]
        if pair.difference == "alone":
            message = "changes by {} without other sequences"
        text = f"the student's {name} of one sequence: it {message.format(f'{gap:.1%}')}"
        return Finding(text, of_padding=pair.difference == "lengths")
    return None


def _findings_of(comparisons: Sequence[BatchPair], anew: Callable[[], Term]) -> list[Finding]:
    """The first thing that is wrong with a term, and what could not be decided of it.

    Args:
        anew: makes the term, without what it may keep between calls.
    """
    # padding, on the first batch
    mixed = comparisons[0].first
    outside = _outside(mixed, anew())
    unseen: list[Finding] = []
    # a term that compares sequences depends on the others by its formula
    if anew().across_batch:
        unseen.append(Finding("it compares sequences (across_batch)", is_fault=False))
        comparisons = ()
    else:
        why = _beside_taps(mixed, anew())
        if why is not None:
            unseen.append(Finding(why, is_fault=False))

    # the first comparison in which its gradients differ
    drew = False
    for pair in comparisons:
        if pair.difference == "lengths" and outside:
            break

        # the term on both batches
        training = pair.difference == "texts"
        first = pair.first.ask(anew(), training)
        second = pair.second.ask(anew(), training)
        if first.drew and not training:
            drew = True
            continue  # what it drew for a sequence depends on all shapes

        # do its gradients at the common sequences agree?
        gap, name = pair.gap(first.slopes, second.slopes, scaled=pair.difference == "alone")
        if gap > TOLERANCE:
            of_padding = pair.difference == "lengths"
            text = MESSAGES[pair.difference].format(f"{gap:.1%}")
            advice = "" if of_padding else ADVICE
            fault = f"its gradient at {name} of one sequence {text}{advice}"
            return [Finding(fault, of_padding=of_padding)]
    if drew:
        why = "it draws random numbers, so batches of other shapes cannot be compared"
        unseen.append(Finding(why, is_fault=False))

    # places without a token
    padding = outside or _by_padding(mixed, anew)
    return [*unseen, padding] if padding else unseen


def _beside_taps(look: Look, term: Term) -> str | None:
    """Why the gradients at its taps do not show all that a term reads; None where they do."""
    if not term.student and not term.teacher:
        return "it reads no tap of either model"
    if look.ask(term, training=False).asked_again:
        return "what the model answers when the term asks it again"
    return None


def _by_padding(look: Look, anew: Callable[[], Term]) -> Finding | None:
    """Whether a term's value or gradient changes with what the view shows at padding."""
    # the term in the view as it is, then in other views
    first = look.ask(anew(), training=False)
    if not math.isfinite(first.value):
        return Finding(f"its value is {first.value}", is_fault=False, of_padding=True)
    for difference, layout in other_views(look.batch.layout).items():
        other = look.through(layout)
        try:
            second = other.ask(anew(), training=False)
        except UndeclaredNeed:
            raise
        except Exception as error:
            why = f"it cannot be computed {difference}: {type(error).__name__}: {error}"
            return Finding(why, is_fault=False, of_padding=True)
        change = abs(second.value - first.value) / max(abs(first.value), abs(second.value), 1e-12)
        ends = range(len(look.rows))
        pair = BatchPair("lengths", look, other, (ends, ends))
        gap, name = pair.gap(first.slopes, second.slopes)
        if change <= SAME_VALUE and gap <= TOLERANCE:
            continue
        if first.drew:
            why = "it draws random numbers for places of padding"
            return Finding(why, is_fault=False, of_padding=True)
        text = f"its gradient at {name} changes by {gap:.1%}"
        if not change <= SAME_VALUE:
            text = f"its value is {first.value:.6g}, and {second.value:.6g}"
        return Finding(f"{text} {difference}: {PADDING_ADVICE}", of_padding=True)
    return None


def _outside(look: Look, term: Term) -> Finding | None:
    """Whether the term's gradient is above 0 where there is no token."""
    gradients = look.ask(term, training=False).slopes
    for tap in gradients.values:
        if tap.kind != "scores":
            continue
        # the gradient where a token is, and where none is
        largest = max(float(x_nHLL.abs().max()) for x_nHLL in gradients[tap])
        for chunk, x_nHLL in zip(look.batch.layout.chunks, gradients[tap], strict=True):
            real_n1LL = (chunk.mask_nL[:, :, None] & chunk.mask_nL[:, None, :])[:, None]
            beyond = float(x_nHLL.masked_fill(real_n1LL, 0.0).abs().max())
            places = f"at places of {tap} that hold no token"
            if not math.isfinite(beyond):
                why = "is not a number: mask before the logarithm or the division, not after"
                return Finding(f"its gradient {places} {why}", of_padding=True)
            if beyond > NEGLIGIBLE * largest:
                return Finding(f"it has a gradient {places}: mask them", of_padding=True)
    return None
