"""Which way does a term pull? A distance is least where the student is like the teacher, and every term moves what is deployed."""

from __future__ import annotations

import copy
from collections.abc import Callable, Collection, Iterator
from typing import Any

import torch
from torch import Tensor, nn

from bench.conformance.mixing import Scene, batch_of
from bench.plan.scheduled_stages import MAIN, kept_terms
from bench.train.student_trainer import weight_at
from methods.api import Batch, Out, Stage, Taps, Term
from methods.models import forward, of_states
from methods.taps import LOGITS, hidden, scores, vectors

ROWS = range(6)
"""Examples of the batch that is looked at."""
DISTANCES = (0.1, -0.1, 1.0, -1.0)
"""How far the student is moved away from the teacher, in the size of what is read; to both sides, because a slope has a lower one."""
ROUNDING = 1e-5
MOVED = 0.1
"""Of each weight's size, added to the student: one that begins as its teacher would have no gradient."""
OF_LAST_LAYER: dict[str, Callable[[int], Taps]] = {
    "scores": scores,
    "vectors": vectors,
    "logits": lambda layer: LOGITS,
    "exits": lambda layer: LOGITS,
}
"""What stands in the place of a tap's kind; of all others the states."""


def distances_of_wrong_sign(scene: Scene) -> Iterator[str]:
    """Terms of student and teacher that are smaller somewhere else than where both answer alike, unless they say that they may.

    Every layer of both models is given what the teacher's last layer answers, so the map of layers does not matter; then noise
    is added on the student's side. A projection of ``aux``, a linear layer there or in a list or dict, is the identity: both
    sides are as wide. A term that cannot be computed so, because its own modules expect the student's shape, is not judged.
    """
    for where, stage, name, anew in _terms_of(scene):
        term = anew()
        if not (term.is_distance and term.student and term.teacher):
            continue
        batch = batch_of(scene.data, stage, ROWS, (), scene.mask)
        aux = _without_projections(copy.deepcopy(scene.student.aux)).eval()
        try:
            alike = _value(anew(), batch, _answer(scene.teacher, batch, term.student), scene, aux)
        except Exception:
            continue
        for far in DISTANCES:
            apart = _value(
                anew(), batch, _answer(scene.teacher, batch, term.student, far), scene, aux
            )
            if apart < alike - ROUNDING * max(abs(alike), abs(apart)):
                yield (
                    f"{where}, term {name}: it is {alike:.4g} where the student answers like the teacher and {apart:.4g} where it does "
                    "not: has it the wrong sign? A term that is no distance to the teacher says so: Term(is_distance=False)"
                )
                break


def terms_that_move_nothing(scene: Scene, deployed: Collection[int] | None) -> Iterator[str]:
    """Terms that give none of these parameters a gradient.

    Args:
        deployed: ids of parameters; None for an artefact, whose ``aux`` is handed on too.
    """
    student, teacher = scene.student, scene.teacher
    parameters = [p for p in student.model.parameters() if p.requires_grad]
    if deployed is None:
        parameters += [p for p in student.aux.parameters() if p.requires_grad]
    elif shared := [p for p in parameters if id(p) in deployed]:
        parameters = shared  # else it deploys a copy: then all of the model counts
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(0)
        for p in parameters:
            p.add_(torch.randn_like(p), alpha=MOVED * float(p.square().mean().sqrt()))
    for where, stage, name, anew in _terms_of(scene):
        if stage.extra_steps:
            continue  # what comes before the counted stages may be for aux alone
        term, batch = anew(), batch_of(scene.data, stage, ROWS, (), scene.mask)
        with torch.no_grad():
            theirs = forward(teacher, batch, term.teacher) if term.teacher else Out(batch.layout)
        moves = False
        for mode in (False, True):  # a loss between two passes is 0 without dropout
            student.model.train(mode), student.aux.train(mode)
            ours = (
                forward(student.model, batch, term.student) if term.student else Out(batch.layout)
            )
            value, gradients = term.fn(batch, ours, theirs, student.aux), list[Tensor | None]()
            if value.requires_grad:
                gradients = list(torch.autograd.grad(value, parameters, allow_unused=True))
            moves = any(gradient is not None and bool(gradient.any()) for gradient in gradients)
            if moves:
                break
        student.model.eval(), student.aux.eval()
        if not moves:
            what = "what is deployed" if deployed is not None else "what it makes"
            yield f"{where}, term {name}: it gives {what} no gradient: is the student's side detached?"


def _terms_of(scene: Scene) -> Iterator[tuple[str, Stage, str, Callable[[], Term]]]:
    """Where it is, the stage, the name and a maker of every term that is to train the student."""
    for number, stage in enumerate(scene.stages()):
        for name, term in kept_terms(stage, ()).items():
            if term.player == MAIN and not term.unsupported:
                yield scene.told(stage), stage, name, scene.maker(number, name)


def _without_projections(container: Any) -> Any:
    for name, module in container.named_children():
        if isinstance(module, nn.Linear):
            container[name if isinstance(container, nn.ModuleDict) else int(name)] = nn.Identity()
        elif isinstance(module, nn.ModuleDict | nn.ModuleList):
            _without_projections(module)
    return container


def _value(term: Term, batch: Batch, student: Out, scene: Scene, aux: nn.ModuleDict) -> float:
    teacher = _answer(scene.teacher, batch, term.teacher)
    with torch.no_grad(), torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return weight_at(term, 0.5) * float(term.fn(batch, student, teacher, aux))


def _answer(teacher: Any, batch: Batch, taps: Taps, far: float = 0.0) -> Out:
    """What a model would answer whose every layer answers like the teacher's last one, but for noise of this size."""
    last, chance = teacher.config.num_hidden_layers, torch.Generator().manual_seed(0)
    of_last = {tap: next(iter(OF_LAST_LAYER.get(tap.kind, hidden)(last))) for tap in sorted(taps)}
    with torch.no_grad():
        read = forward(teacher, batch, frozenset(of_last.values()))

    def noisy(value: Tensor) -> Tensor:
        return value + far * value.square().mean().sqrt() * torch.randn(
            value.shape, generator=chance
        )

    pooled_of = sorted(
        {layer for tap in taps if tap.kind in ("hidden", "pooled") for layer in tap.layers}
    )
    states = {layer: noisy(read.hidden(last)) for layer in pooled_of}
    others = {
        tap: read[source] for tap, source in of_last.items() if tap.kind not in ("hidden", "pooled")
    }
    return Out(
        batch.layout,
        Out(batch.layout, others).each(noisy).values | of_states(batch.layout, states, taps),
    )
