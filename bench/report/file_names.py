"""What a report's files are called: readable, and different for different groups. No torch, no clock."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from bench.data.checkpoints import EMBEDDED_NAME, EMBEDDED_SHA256
from bench.record.cell import Numeric
from bench.record.keys import canonical, digest
from bench.record.recipe import ADAMW
from bench.record.store import slug
from bench.report.groups import Group

DIGITS = 8
"""Hex digits of a digest at the end of a name."""
KNOWN = {EMBEDDED_SHA256: EMBEDDED_NAME}
"""Base weights -> the one name of their teacher: a group beside it has a name without a digest."""
ENDS = re.compile(rf"(?:^|-)(?:epochs|\d+-rows|[0-9a-f]{{{DIGITS}}})(?:-|$)")
"""What a group's name ends with: a table's name that holds it could be read as the end of another group's name."""


def name_of(group: Group) -> str:
    """The file name of a group's report: data, teacher, recipe, and what else sets it apart.

    Words alone name a group of a known teacher, fine-tuned here, with AdamW and the default numerics. Every other name ends with
    a digest of all that makes the group: folders of the same name, or names that a file name writes alike, keep their
    own files.
    """
    parts = [group.slug, _short(KNOWN.get(group.base, group.teacher)), group.recipe, f"{group.epochs:g}-epochs"]
    if group.max_train_rows:
        parts.append(f"{group.max_train_rows}-rows")
    if group.optimizer != ADAMW:
        parts.append(group.optimizer)
    if group.precision != "fp32":
        parts.append(group.precision)
    if group.threads != 2:
        parts.append(f"{group.threads}-threads")
    if not _words_suffice(group):
        parts.append(digest(group.identity)[:DIGITS])
    return slug("-".join(parts)).lower()


def _short(teacher: str) -> str:
    return slug(teacher.split("/")[-1].split(" (")[0])


def _words_suffice(group: Group) -> bool:
    """Whether no other group has the same words: its teacher is known, and no part is shortened or written differently."""
    return (
        group.base in KNOWN
        and group.origin == "fine-tuned"
        and group.optimizer == ADAMW
        and group.numeric == canonical(Numeric().identity())
        and slug(group.slug).lower() == group.slug
        and re.fullmatch("[a-z]+", group.recipe) is not None
        and float(f"{group.epochs:g}") == group.epochs
    )


def table_names(titles: Sequence[str]) -> list[str]:
    """The ends of the files of these tables, in their order: different ones, also where titles are written alike."""
    plain = [slug(title).lower() for title in titles]
    often = Counter(plain)
    return [
        f"{name}-{digest([number, title])[:DIGITS]}" if often[name] > 1 or ENDS.search(name) else name
        for number, (name, title) in enumerate(zip(plain, titles, strict=True))
    ]
