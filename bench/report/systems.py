"""What a system is: a printed one's facts against what a record says was done. No torch, no clock.

A method's name and settings, a shape, a start and a text to pre-train on: two systems are the same where all of them are.
What a record does not say is never taken to agree.
"""

from __future__ import annotations

import math

from bench.plan.spelling import as_typed
from bench.record.cell import TEACHER, split_row
from bench.record.schema import Record, Sizes
from bench.record.task_facts import row_as_typed
from bench.report.groups import ReportGroup
from bench.report.published import NONE, UNKNOWN, Published

CHECKPOINT, GIVEN, RANDOM = "checkpoint", "given", "random"
SHAPE = ("layers", "hidden", "heads", "ffn")
"""Settings that say how large a student is: rows of other sizes are still rows of one method."""
START = "start"
WORDS = {
    CHECKPOINT: "the checkpoint itself",
    GIVEN: "weights given as they are",
    RANDOM: "random weights",
    "general_start": "the general start",
    "teacher_weights": "the pre-trained teacher's weights",
    "tuned_teacher": "the fine-tuned teacher's weights",
    "given_start": "weights given from outside",
}
"""How a start is said; any other is a pre-training of the method's own, by its name."""
NO_STARTS = (TEACHER, "augmentation")
"""Artefacts that are trained, or have a text, and no student begins with: augmented rows name their masked head's."""
CLASSES = range(1, 4)
"""Numbers of classes of GLUE's tasks."""


def settings_in(spelling: str) -> dict[str, str]:
    """``name=value`` of a spelling."""
    pairs = (part.partition("=") for part in split_row(spelling)[1] if not part.startswith("-"))
    return {name: value for name, _, value in pairs}


def start_kind(record: Record) -> str:
    """The name of what a student began with: the artefact that holds its first weights, ``random`` where there is none; of a
    teacher ``checkpoint``, or ``given`` where it was not fine-tuned here.
    """
    if record.cell.method == TEACHER:
        return CHECKPOINT if record.cell.teacher.origin == "fine-tuned" else GIVEN
    own = {name.partition(".")[0]: artefact for name, artefact in record.artefacts.items()}
    for name, artefact in own.items():
        if name not in NO_STARTS and (
            "train" in artefact or "text" in artefact or artefact.get("beginning", "").startswith("given: ")
        ):
            return name
    return next((name for name in ("tuned_teacher", "teacher_weights") if name in own), RANDOM)


def start_in_words(kind: str) -> str:
    return WORDS.get(kind, f"a pre-training of its own, {kind.replace('_', ' ')}")


def shape_of(record: Record) -> tuple[int | None, int | None]:
    """Layers and width, by the settings or else by the counts; None where neither says so."""
    counted = counted_shape(record.sizes) if record.sizes else None
    named = [record.cell.settings.get(name) for name in SHAPE[:2]]
    layers, hidden = (
        value if isinstance(value, int) and value > 0 else (counted[i] if counted else None)
        for i, value in enumerate(named)
    )
    return layers, hidden


def counted_shape(sizes: Sizes) -> tuple[int, int] | None:
    """Layers and width of a BERT from the counts of its weights and multiplications; None where they fit no whole number.

    With width h, L layers, F feed-forward neurons in all of them, n classes and sequences of T tokens:

        pooler and head  (h + 1)(h + n)
        body             L (4 h^2 + 9 h) + F (2 h + 1)
        MACs             T (4 h^2 L + 2 h F) + 2 T^2 h L + h^2 + n h

    The first gives h for each n, the other two L and F. Of a model with experts, what one token meets counts.
    """
    for classes in CLASSES:
        h = (math.isqrt((classes - 1) ** 2 + 4 * sizes.pooler_and_head) - classes - 1) // 2
        if h > 0 and (h + 1) * (h + classes) == sizes.pooler_and_head:
            return _depth(sizes, h, classes)
    return None


def _depth(sizes: Sizes, h: int, classes: int) -> tuple[int, int] | None:
    body = (sizes.active_parameters or sizes.parameters) - sizes.embedding - sizes.pooler_and_head
    macs, length = sizes.macs_closed_form - h * h - classes * h, sizes.sequence_length
    numerator = (2 * h + 1) * macs - 2 * h * length * body
    denominator = 2 * h * length * (length * (2 * h + 1) - 7 * h)
    if denominator <= 0 or numerator <= 0 or numerator % denominator:
        return None
    layers = numerator // denominator
    feed_forward = body - layers * (4 * h * h + 9 * h)
    if feed_forward < 0 or feed_forward % (layers * (2 * h + 1)):
        return None
    return layers, h


def changed(group: ReportGroup, record: Record) -> set[str] | None:
    """Names of the settings in which a row differs from its method's defaults; None where the records do not say.

    A spelling holds what differs. An ablation is named by its paper's words, so it is compared with its full row.
    """
    full = record.cell.ablation_of
    if full is None:
        return set(settings_in(row_as_typed(record.cell)))
    others = [r.cell.settings for r in group.records if r.cell.label == full]
    if not others:
        return None
    own = record.cell.settings
    differing = {name for name in own.keys() | others[0].keys() if own.get(name) != others[0].get(name)}
    return differing | set(settings_in(row_as_typed(record.cell, full)))


def is_shown_with(group: ReportGroup, record: Record, theirs: Published) -> bool:
    """Whether this record is printed in one line with the paper's system: the same method, no term dropped that the paper
    keeps, and no setting changed but shape, start and what the paper changed too.
    """
    method, changes = split_row(theirs.row)
    if record.cell.method != method or not {f"-{term}" for term in record.cell.dropped} <= set(changes):
        return False
    names = changed(group, record)
    return names is None or names <= {*SHAPE, START, *settings_in(theirs.row)}


def differences_of(group: ReportGroup, record: Record, theirs: Published) -> list[str]:
    """Why ours is another system than the printed one; empty only where the record says that it is the same."""
    kind, reasons, explained = start_kind(record), [], set(SHAPE[:2])
    if theirs.start == UNKNOWN:
        reasons.append("start not stated")
    elif kind != theirs.start:
        reasons.append(f"other start (theirs {start_in_words(theirs.start)}, ours {start_in_words(kind)})")
    if reasons:
        explained.add(START)
    elif theirs.text == UNKNOWN:
        reasons.append("pre-training text not stated")
    elif theirs.text != NONE:
        ours = _text_of(group, record, kind)  # a corpus of ours is never known to be the paper's, to the word
        reasons.append(
            f"other pre-training text (theirs {theirs.text}, ours {ours})"
            if ours
            else "pre-training text not known from the record"
        )

    layers, hidden = shape_of(record)
    sizes = (("layers", layers, theirs.layers, f"{layers} layers"), ("width", hidden, theirs.hidden, f"width {hidden}"))
    for name, own, printed, words in sizes if record.cell.method != TEACHER else ():  # a teacher's is its checkpoint's
        if printed is None:
            reasons.append(f"{name} not stated")
        elif own is None:
            reasons.append(f"{name} not known from the record")
        elif own != printed:
            reasons.append(f"{words}, theirs {printed}")
        else:
            continue
        explained |= set(SHAPE)

    reasons += _settings(group, record, theirs, explained)
    choices = {
        "ours has its epoch chosen on development examples": record.cell.selection is not None,
        "ours has its settings searched for": record.cell.search is not None,
        "ours learned several tasks together": bool(record.cell.together),
        "augmentation not stated": theirs.augmented == UNKNOWN,
    }
    reasons += [reason for reason, holds in choices.items() if holds]
    if theirs.augmented != UNKNOWN and group.facts.augmented is not None:
        reasons.append("augmented in another way" if theirs.augmented == "yes" else "ours with augmented training data")
    elif theirs.augmented == "yes":
        reasons.append("theirs with augmented training data")
    return reasons


def _text_of(group: ReportGroup, record: Record, kind: str) -> str:
    """The text of a start, in words; "" where no record says it."""
    key = record.artefacts.get(kind, {}).get("key")
    # older records do not name the text of a start that newer ones share with them
    starts = [r.artefacts[kind] for r in (record, *group.records) if kind in r.artefacts]
    text = next((artefact["text"] for artefact in starts if artefact["key"] == key and "text" in artefact), None)
    if text is None:
        return ""
    return f"{text['tokens']:,} tokens of {', '.join(text['files']) or 'sentences of the sample suite'}"


def _settings(group: ReportGroup, record: Record, theirs: Published, explained: set[str]) -> list[str]:
    """What else was set: what the printed spelling changes, and what ours does; without what is explained already."""
    own, asked = record.cell.settings, settings_in(theirs.row)
    dropped = {part[1:] for part in split_row(theirs.row)[1] if part.startswith("-")}
    unlike = [
        f"{name}={value}"
        for name, value in asked.items()
        if name not in explained and as_typed(own.get(name, "")) != value
    ]
    unlike += [f"without {term}" for term in sorted(dropped - set(record.cell.dropped))]
    reasons = [f"other settings (theirs {', '.join(unlike)})"] if unlike else []
    names = changed(group, record)
    if names is None:
        return [*reasons, "settings not known from the record"]
    ours = [f"{name}={as_typed(own.get(name, ''))}" for name in sorted(names - set(asked) - explained - {START})]
    return [*reasons, f"ours with {', '.join(ours)}"] if ours else reasons


def same_teacher(name: str, theirs: Published) -> bool:
    """Whether a teacher of this name is the printed system's: the hub knows its models by a short name too."""
    return theirs.teacher == NONE or name in (theirs.teacher, theirs.teacher.split("/")[-1])
