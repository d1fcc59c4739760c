"""List which layers the terms of a method read.

Nobody but its author can say whether they are the paper's.
"""

from __future__ import annotations

from collections.abc import Collection

from transformers import BertConfig

from bench.errors import one_line
from bench.plan.scheduled_stages import kept_terms
from methods.api import Method, Setup, Tap, Term

NO_LAYERS = ("logits",)


def layer_map(method: Method) -> list[str]:
    """A line for each term and what it reads, for a teacher like BERT-base.

    ``distil, states: hidden: student 1 2 3 4 <- teacher 3 6 9 12``
    """
    teacher = BertConfig()
    try:
        stages = method.stages(Setup(teacher, 2, ("tiny",)))
    except Exception as error:
        # it needs another teacher, or cannot be planned without artefacts
        return [f"layers that terms read: not looked at: {one_line(str(error))}"]
    lines = [f"layers that terms read, beside a teacher of {teacher.num_hidden_layers}:"]
    for stage in stages:
        for name, term in kept_terms(stage, ()).items():
            lines += [f"  {stage.name}, {name}: {line}" for line in _of_term(term)]
    return lines if len(lines) > 1 else []


def _of_term(term: Term) -> list[str]:
    """The taps of a term in both models: a line for each kind that both have, else one for all."""
    ours = _by_kind(term.student)
    theirs = _by_kind(term.teacher)
    if ours.keys() != theirs.keys():
        line = f"student {_together(ours)}"
        if theirs:
            line += f" <- teacher {_together(theirs)}"
        return [line]

    # kinds without layers first
    lines = [f"student {kind} <- teacher {kind}" for kind in ours if kind in NO_LAYERS]
    for kind, layers in ours.items():
        if kind not in NO_LAYERS:
            lines.append(f"{kind}: student {layers} <- teacher {theirs[kind]}")
    return lines


def _by_kind(taps: Collection[Tap]) -> dict[str, str]:
    """Kind of tap -> its layers, lowest first."""
    layers: dict[str, list[str]] = {}
    for tap in sorted(taps):
        kind = f"{tap.pool} of hidden" if tap.kind == "pooled" else tap.kind
        several = "+".join(str(layer) for layer, _ in tap.weights)
        layers.setdefault(kind, []).append(several or str(tap.layer))
    return {kind: " ".join(of_kind) for kind, of_kind in layers.items()}


def _together(by_kind: dict[str, str]) -> str:
    """All kinds with their layers."""
    words = []
    for kind, layers in by_kind.items():
        words.append(kind if kind in NO_LAYERS else f"{kind} {layers}")
    return ", ".join(words) or "nothing"
