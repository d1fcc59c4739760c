"""Find terms that pull the wrong way, and terms that do not use what they declare.

Every term moves what is deployed. A distance is least where the student is like the teacher. A loss
that compares sequences is least where each sequence of the student is like the same sequence of the
teacher.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from bench.conformance.mixing import Finding, RecordedOut, Scene, batch_of
from bench.data.encoding import Encoded
from bench.plan.scheduled_stages import MAIN, kept_terms
from bench.train.student_trainer import weight_at
from bench.train.teacher_outputs import by_example, joined
from methods.api import Batch, Out, Stage, Tap, Taps, Term
from methods.core.models import forward, of_states
from methods.core.taps import LOGITS, hidden, scores, vectors

ROWS = range(6)
"""Examples of the batch that is looked at."""
DISTANCES = (0.1, -0.1, 1.0, -1.0)
"""How far the student is moved away from the teacher, in the size of what is read; to both sides,
because a slope has a lower one."""
ROUNDING = 1e-5
REORDERED = 1e-4
"""Share of a term's value, which sums in another order where its examples come in another one."""
MOVED = 0.1
"""Share of each weight's size, added to the student: one that begins as its teacher would have no
gradient."""
OTHER = 0.1
"""Share of the size of what is read, added to it to see whether a term depends on it."""
OF_LAST_LAYER: dict[str, Callable[[int], Taps]] = {
    "scores": scores,
    "vectors": vectors,
    "logits": lambda layer: LOGITS,
    "exits": lambda layer: LOGITS,
}
"""The tap of one layer that stands for each kind; the states stand for all others."""
COMPARES = "a loss whose formula compares sequences says so: Term(across_batch=True)"
NO_DISTANCE = "one with labels, or that pairs nothing, says so: Term(is_distance=False)"
APART = "a term that is to push the student from its teacher has a negative weight"


@dataclass(frozen=True)
class StageTerm:
    """A term that is to train the student, and where it stands.

    Attributes:
        name: the stage and the term, for messages.
        anew: makes the term, without what it may keep between calls.
    """

    name: str
    stage: Stage
    anew: Callable[[], Term]

    def unseen(self, why: str) -> Finding:
        """The finding that a look at it could not decide."""
        return Finding(f"{self.name}: {why}", is_fault=False)

    def fault(self, why: str) -> Finding:
        """The finding that it does not keep the contract."""
        return Finding(f"{self.name}: {why}")


def _terms_of(scene: Scene) -> Iterator[StageTerm]:
    """Every term that is to train the student."""
    for number, stage in enumerate(scene.stages()):
        for name, term in kept_terms(stage, ()).items():
            if term.player == MAIN and not term.unsupported:
                full_name = f"{scene.name_of(stage)}, term {name}"
                yield StageTerm(full_name, stage, scene.maker(number, name))


# --- signs


def wrong_signs(scene: Scene) -> Iterator[Finding]:
    """Terms of student and teacher that pull away from the teacher, and those of which that cannot
    be decided.

    A distance is least where the student answers like the teacher: every layer of both models is
    given what the teacher's last layer answers, so the map of layers does not matter; then noise is
    added on the student's side. A term that compares sequences need not be least there: a
    contrastive loss falls where sequences move apart. But it is larger where each sequence of the
    student answers like another sequence of the teacher. A projection of ``aux`` is the identity:
    both sides are as wide.
    """
    for stage_term in _terms_of(scene):
        term = stage_term.anew()
        if not (term.student or term.teacher):
            yield stage_term.unseen("it reads no tap of either model")
        if not (term.student and term.teacher):
            continue

        # by what the term says of itself
        try:
            if term.across_batch:
                finding = _by_partner(scene, stage_term)
            elif term.is_distance:
                finding = _by_distance(scene, stage_term)
            else:
                finding = stage_term.unseen("it says that it is no distance (is_distance=False)")
        except Exception as error:
            why = "it cannot be computed where the student answers like the teacher"
            finding = stage_term.unseen(f"{why} ({type(error).__name__}: {error})")
        if finding:
            yield finding


def _by_distance(scene: Scene, stage_term: StageTerm) -> Finding | None:
    """Whether a term is smaller somewhere else than where both models answer alike."""
    batch = batch_of(scene.data, stage_term.stage, ROWS, (), scene.mask)
    term = stage_term.anew()
    alike = _answer(scene.teacher, batch, term.student)
    least = _value(scene, stage_term, batch, alike)
    for far in DISTANCES:
        apart = _value(scene, stage_term, batch, _answer(scene.teacher, batch, term.student, far))
        if apart < least - ROUNDING * max(abs(least), abs(apart)):
            return stage_term.fault(
                f"it is {least:.4g} where the student answers like the teacher and {apart:.4g} "
                f"where it does not: has it the wrong sign? {COMPARES}; {NO_DISTANCE}"
            )
    return None


def _by_partner(scene: Scene, stage_term: StageTerm) -> Finding | None:
    """Whether a term is smaller where the student's sequences answer like others of the teacher."""
    # its value with the right partners, and with the partners moved by one, two, ...
    term = stage_term.anew()
    rows = _of_one_length(scene.data)
    batch = batch_of(scene.data, stage_term.stage, rows, (), scene.mask)
    alike = _answer(scene.teacher, batch, term.student)
    own = _value(scene, stage_term, batch, alike)
    others = []
    for by in range(1, len(rows)):
        moved = _in_order(alike, _turned(len(rows), by))
        others.append(_value(scene, stage_term, batch, moved))
    rounding = ROUNDING * max(abs(value) for value in (own, *others))
    lower = [value for value in others if value < own - rounding]
    higher = [value for value in others if value > own + rounding]
    if not lower and not higher:
        return _by_order(scene, stage_term, rows, own)

    # a term with labels may by chance be lower with another partner, but not with every other one
    is_wrong = bool(lower) if term.is_distance else len(lower) == len(others)
    if not is_wrong:
        mixed = stage_term.unseen("it is no distance, and smaller with some other sequences")
        return mixed if lower else None
    if not term.is_distance and _sign(term) < 0:
        return stage_term.unseen("it says that it pushes the student from its teacher")

    advice = NO_DISTANCE if term.is_distance else APART
    return stage_term.fault(
        f"it is {own:.4g} where each sequence of the student answers like the same sequence of "
        f"the teacher and {min(lower):.4g} where it answers like another: has it the wrong sign, "
        f"or the wrong partner? {advice}"
    )


def _by_order(scene: Scene, stage_term: StageTerm, rows: Sequence[int], own: float) -> Finding:
    """Look at a term that is the same whichever sequence the student answers.

    Its value should not change with the order of the examples.
    """
    # the same examples in the other order
    batch = batch_of(scene.data, stage_term.stage, rows[::-1], (), scene.mask)
    turned = _value(
        scene, stage_term, batch, _answer(scene.teacher, batch, stage_term.anew().student)
    )
    if abs(turned - own) <= REORDERED * max(abs(turned), abs(own)):
        return stage_term.unseen("it is the same whichever sequence the student's answers are of")
    return stage_term.fault(
        f"it is the same whichever sequence the student's answers are of, but {own:.4g} and "
        f"{turned:.4g} for two orders of the same examples: has every sequence the same partner?"
    )


def _of_one_length(data: Encoded) -> list[int]:
    """Some examples of the length that most have: their answers can change places."""
    of_length: dict[int, list[int]] = {}
    for row, tokens in enumerate(data.tokens):
        of_length.setdefault(len(tokens), []).append(row)
    return max(of_length.values(), key=len)[: len(ROWS)]


def _turned(count: int, by: int) -> list[int]:
    """The numbers below ``count``, each moved by so many places."""
    return [(number + by) % count for number in range(count)]


def _in_order(said: Out, order: Sequence[int]) -> Out:
    """Answers to sequences of one length, each in the place of another."""
    values = {}
    for tap, value in said.values.items():
        # each answer at the number of another sequence
        examples = by_example(said.layout, tap, value)
        values[tap] = joined(said.layout, tap, [examples[number] for number in order])
    return Out(said.layout, values)


def _sign(term: Term) -> float:
    """The weight of a term in the middle of its stage; 1 where it is 0 there."""
    return weight_at(term, 0.5) or 1.0


def _value(scene: Scene, stage_term: StageTerm, batch: Batch, student: Out) -> float:
    """The term, with its weight, where the student answers this."""
    term = stage_term.anew()
    # both models answer; projections to the same width are the identity
    teacher = _answer(scene.teacher, batch, term.teacher)
    aux = _without_projections(copy.deepcopy(scene.student.aux)).eval()
    with torch.no_grad(), torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return _sign(term) * float(term.fn(batch, student, teacher, aux))


def _without_projections(container: Any) -> Any:
    """Replace projections by the identity, also those in lists and dicts."""
    for name, module in container.named_children():
        if _is_projection(module):
            container[name if isinstance(container, nn.ModuleDict) else int(name)] = nn.Identity()
        elif isinstance(module, nn.ModuleDict | nn.ModuleList):
            _without_projections(module)
    return container


def _is_projection(module: nn.Module) -> bool:
    """Whether a module maps states to states; what ends in one number is a discriminator."""
    if isinstance(module, nn.Linear):
        return True
    if not isinstance(module, nn.Sequential):
        return False

    # a small network that begins and ends with a linear layer
    layers = [part for part in module if isinstance(part, nn.Linear)]
    return bool(layers) and module[0] is layers[0] and layers[-1].out_features > 1


def _answer(teacher: Any, batch: Batch, taps: Taps, far: float = 0.0) -> Out:
    """The answer of a model whose every layer answers like the teacher's last one.

    Args:
        far: size of the noise that is added, as a part of the size of each value.
    """
    last = teacher.config.num_hidden_layers
    chance = torch.Generator().manual_seed(0)

    # what the teacher's last layer answers, for each tap
    of_last = {tap: next(iter(OF_LAST_LAYER.get(tap.kind, hidden)(last))) for tap in sorted(taps)}
    with torch.no_grad():
        read = forward(teacher, batch, frozenset(of_last.values()))

    def noisy(value: Tensor) -> Tensor:
        size = far * value.square().mean().sqrt()
        return value + size * torch.randn(value.shape, generator=chance)

    # states of layers, from which taps may be pooled, and all other taps; each with noise
    layers: set[int] = set()
    others = {}
    for tap, source in of_last.items():
        if tap.kind in ("hidden", "pooled"):
            layers.update(tap.layers)
        else:
            others[tap] = read[source]
    states = {layer: noisy(read.hidden(last)) for layer in sorted(layers)}
    moved = Out(batch.layout, others).each(noisy)
    return Out(batch.layout, moved.values | of_states(batch.layout, states, taps))


# --- gradients


def terms_that_move_nothing(scene: Scene, deployed: Collection[int] | None) -> Iterator[Finding]:
    """Terms that give none of these parameters a gradient, and those that were not looked at.

    Args:
        deployed: ids of parameters; None for an artefact, whose ``aux`` is handed on too.
    """
    student = scene.student
    # the parameters that terms should move
    parameters = [p for p in student.model.parameters() if p.requires_grad]
    if deployed is None:
        parameters += [p for p in student.aux.parameters() if p.requires_grad]
    elif shared := [p for p in parameters if id(p) in deployed]:
        parameters = shared  # else it deploys a copy: then all of the model counts
    move_from_teacher(parameters)
    for stage_term in _terms_of(scene):
        if stage_term.stage.extra_steps:
            yield stage_term.unseen("what comes before the counted stages may be for aux alone")
            continue

        # with dropout too, where it does not move anything without
        moves = _moves(scene, stage_term, parameters, training=False)
        if not moves:
            moves = _moves(scene, stage_term, parameters, training=True)
        if not moves:
            what = "what is deployed" if deployed is not None else "what it makes"
            yield stage_term.fault(f"it gives {what} no gradient: is the student's side detached?")


def move_from_teacher(parameters: Sequence[nn.Parameter]) -> None:
    """Add noise: a student that begins as its teacher would have no gradient."""
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(0)
        for p in parameters:
            p.add_(torch.randn_like(p), alpha=MOVED * float(p.square().mean().sqrt()))


def _moves(
    scene: Scene, stage_term: StageTerm, parameters: Sequence[nn.Parameter], training: bool
) -> bool:
    """Whether a term has a gradient at one of these; with dropout too, because a loss between two
    passes is 0 without."""
    term = stage_term.anew()
    student = scene.student
    batch = batch_of(scene.data, stage_term.stage, ROWS, (), scene.mask)
    ours, theirs = _passes(scene, term, batch, training)
    value = term.fn(batch, ours, theirs, student.aux)
    student.model.eval()
    student.aux.eval()
    if not value.requires_grad:
        return False

    # is any gradient of these parameters not 0?
    gradients = torch.autograd.grad(value, parameters, allow_unused=True)
    return any(gradient is not None and bool(gradient.any()) for gradient in gradients)


def _passes(scene: Scene, term: Term, batch: Batch, training: bool) -> tuple[Out, Out]:
    """The answers of both models to a batch; the student's modules stay in this mode."""
    student = scene.student
    # dropout, or none
    student.model.train(training)
    student.aux.train(training)
    ours = Out(batch.layout)
    theirs = Out(batch.layout)
    if term.student:
        ours = forward(student.model, batch, term.student)
    if term.teacher:
        with torch.no_grad():
            theirs = forward(scene.teacher, batch, term.teacher)
    return ours.of_model(student.model), theirs


@dataclass(frozen=True)
class TapsUsed:
    """The taps that a term used: those it read of either model, and those with a gradient."""

    student: frozenset[Tap]
    teacher: frozenset[Tap]
    sloped: frozenset[Tap]


def taps_of_no_use(scene: Scene) -> Iterator[Finding]:
    """Taps that a term declares and does not read, and layers of the student at which it has no
    gradient.

    A term that has no gradient at any tap is found by :func:`terms_that_move_nothing`.
    """
    move_from_teacher([p for p in scene.student.model.parameters() if p.requires_grad])
    for stage_term in _terms_of(scene):
        term = stage_term.anew()
        # what it uses without and with dropout
        once = _taps_used(scene, stage_term, training=False)
        again = _taps_used(scene, stage_term, training=True)
        student = once.student | again.student
        teacher = once.teacher | again.teacher
        sloped = once.sloped | again.sloped
        for side, unread in (
            ("student", term.student - student),
            ("teacher", term.teacher - teacher),
        ):
            if unread:
                yield stage_term.fault(
                    f"it declares {names_of_taps(unread)} of the {side} and never reads it: a pass "
                    "that keeps it costs time and memory; leave it out of the term's taps"
                )

        # taps of the student without a gradient
        flat = student - sloped - term.targets
        if stage_term.stage.extra_steps and flat:
            yield stage_term.unseen("what comes before the counted stages may be for aux alone")
        elif flat and sloped:
            yield from _without_gradient(scene, stage_term, flat)


def _without_gradient(
    scene: Scene, stage_term: StageTerm, flat: Collection[Tap]
) -> Iterator[Finding]:
    """Look at taps of the student at which a term has no gradient, though it has one at others.

    A tap on which nothing depends with these examples is no fault.
    """
    # a tap on which nothing depends shows nothing
    constant = {tap for tap in flat if not _depends(scene, stage_term, tap)}
    if constant:
        yield stage_term.unseen(
            f"{names_of_taps(constant)}: nothing depends on it with these examples"
        )

    # on the others it depends without a gradient
    detached = set(flat) - constant
    if detached:
        yield stage_term.fault(
            f"it depends on {names_of_taps(detached)} of the student and has no gradient there: is "
            "that side detached? A target of its own says so: Term(targets=...)"
        )


def _depends(scene: Scene, stage_term: StageTerm, tap: Tap) -> bool:
    """Whether a term has another value where one of its taps answers something else."""
    term = stage_term.anew()
    student = scene.student
    batch = batch_of(scene.data, stage_term.stage, ROWS, (), scene.mask)
    ours, theirs = _passes(scene, term, batch, training=False)

    # this tap with noise
    chance = torch.Generator().manual_seed(0)

    def noisy(value: Tensor) -> Tensor:
        size = value.square().mean().sqrt()
        return value + OTHER * size * torch.randn(value.shape, generator=chance)

    # the value with this tap as it is, and with noise
    moved = Out(batch.layout, {tap: ours[tap]}).each(noisy)
    changed = Out(batch.layout, ours.values | moved.values, student.model)
    values = []
    for said in (ours, changed):
        with torch.no_grad(), torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            values.append(float(stage_term.anew().fn(batch, said, theirs, student.aux)))
    return abs(values[0] - values[1]) > ROUNDING * max(map(abs, values))


def _taps_used(scene: Scene, stage_term: StageTerm, training: bool) -> TapsUsed:
    """The taps that a term reads and those at which it has a gradient, on one batch."""
    term = stage_term.anew()
    student = scene.student
    batch = batch_of(scene.data, stage_term.stage, ROWS, (), scene.mask)
    ours, theirs = _passes(scene, term, batch, training)
    # each tap begins its own history: else a higher layer would give a lower one its gradient
    leaves = ours.each(lambda x: x.detach().requires_grad_())
    read = RecordedOut(leaves, student.model)
    read_of_teacher = RecordedOut(theirs)
    value = term.fn(batch, read, read_of_teacher, student.aux)
    student.model.eval()
    student.aux.eval()

    # the taps at which the value has a gradient
    sloped = set[Tap]()
    for tap, tensors in leaves.values.items():
        parts = tensors if isinstance(tensors, tuple) else (tensors,)
        slopes: Sequence[Tensor | None] = ()
        if value.requires_grad:
            slopes = torch.autograd.grad(value, parts, retain_graph=True, allow_unused=True)
        if any(slope is not None and bool(slope.any()) for slope in slopes):
            sloped.add(tap)
    return TapsUsed(frozenset(read.read), frozenset(read_of_teacher.read), frozenset(sloped))


def names_of_taps(taps: Collection[Tap]) -> str:
    """Taps as messages name them, by layer."""
    return ", ".join(str(tap) for tap in sorted(taps))
