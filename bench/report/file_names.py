"""Where the files of a report are: ``<data>/<teacher>-<recipe>/``, different for different groups. No torch, no clock."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from bench.files import slug
from bench.record.cell import NumericIdentity
from bench.record.keys import digest
from bench.record.known_teachers import EMBEDDED_NAME, EMBEDDED_SHA256
from bench.record.recipe import ADAMW
from bench.record.task_facts import FOLDER, data_facts
from bench.report.groups import GLUE_FOLDER, ReportGroup
from bench.report.table import Table

PAGE, HTML, TABLES, FIGURES = "README.md", "report.html", "tables", "figures"
"""What is in a report's folder: the page that GitHub shows, that for a browser, and folders for tables and pictures."""
LONGEST = 40
"""Characters of the name of a file or folder, with its ending."""
SHORT_TEACHER = 10
"""Characters of the teacher in a name that ends with a digest."""
DIGITS = 8
"""Hex digits of a digest at the end of a name."""
ENDING = 4
"""Characters of ``.csv``, ``.tex`` and ``.svg``."""
KNOWN = {EMBEDDED_SHA256: EMBEDDED_NAME}
"""Base weights -> the one name of their teacher. A group of that teacher has a name without a digest."""


def place_of(group: ReportGroup) -> Path:
    """The folder of a group's report, below the folder of all reports: the data, then the teacher and the recipe."""
    return Path(data_name(group), group_name(group))


def paper_place(title: str, group: ReportGroup) -> Path:
    """The folder of an experiment's report: the paper, then the data, the teacher and the recipe.

    The part of a title behind a colon is not in the name.
    """
    paper = slug(title.partition(":")[0]).lower()
    both = f"{data_name(group)}-{group_name(group)}"
    return Path(
        fitted(paper, [title]), fitted(both, [data_name(group), group_name(group), group.identity])
    )


def data_name(group: ReportGroup) -> str:
    """``glue``, ``glue-20000-rows``, ``sample-v2``: which examples, and how many of the training rows where not all."""
    facts = data_facts(group.cell.data.slug)
    plain = group.cell.data.slug
    if facts.source == FOLDER and facts.folder == GLUE_FOLDER:
        plain = plain.removeprefix("folder-")
    limit = f"-{group.cell.data.max_train_rows}-rows" if group.cell.data.max_train_rows else ""
    return fitted(
        slug(f"{plain}{limit}").lower(), [group.cell.data.slug, group.cell.data.max_train_rows]
    )


def group_name(group: ReportGroup) -> str:
    """The teacher, the recipe, and what else distinguishes the group: ``all-minilm-l6-v2-common-3-epochs``.

    Words alone name a group of a known teacher, fine-tuned here, with AdamW and the default numerics. Every other name ends with
    a digest of all that makes the group: folders of the same name, or names that a file name writes alike, keep their
    own files.
    """
    cell, recipe, epochs = group.cell, group.recipe, f"{group.epochs:g}"
    teacher, numeric, data = cell.teacher, cell.numeric, cell.data.slug
    name = slug(KNOWN.get(teacher.base, teacher.name).split("/")[-1].split(" (")[0])
    parts = [group.optimizer] if group.optimizer != ADAMW else []
    parts += [numeric.precision] if numeric.precision != "fp32" else []
    # in full the name would be too long for many teachers
    parts += [f"{numeric.threads}t"] if numeric.threads != 2 else []

    # no other group has the same words: the teacher is known, and no part is shortened or written differently
    words_suffice = (
        teacher.base in KNOWN
        and teacher.origin == "fine-tuned"
        and group.optimizer == ADAMW
        and numeric == NumericIdentity(threads=numeric.threads)
        and slug(data).lower() == data
        and not re.search(r"-\d+-rows$", data)
        and re.fullmatch("[a-z]+", recipe)
        and float(epochs) == group.epochs
    )
    if words_suffice:
        return fitted(
            slug("-".join([name, recipe, f"{epochs}-epochs", *parts])).lower(), group.identity
        )
    # what is cut off is at the end: the length of the recipe
    words = slug("-".join([name[:SHORT_TEACHER], *parts, recipe, f"{epochs}ep"])).lower()
    return f"{words[: LONGEST - DIGITS - 1].rstrip('-.')}-{digest(group.identity)[:DIGITS]}"


def fitted(name: str, identity: object, longest: int = LONGEST) -> str:
    """The name, or its beginning and a digest of what it stands for where it is too long."""
    if len(name) <= longest:
        return name
    return f"{name[: longest - DIGITS - 1].rstrip('-.')}-{digest(identity)[:DIGITS]}"


def named(tables: Sequence[Table]) -> dict[str, Table]:
    """The tables by the names of their files, without ending."""
    return dict(
        zip(table_names([table.file or table.title for table in tables]), tables, strict=True)
    )


def table_names(titles: Sequence[str]) -> list[str]:
    """The names of the files of these tables, without ending, in their order: different ones, also where titles are written alike."""
    plain = [slug(title).lower() for title in titles]
    often = Counter(plain)
    names = []
    for number, (name, title) in enumerate(zip(plain, titles, strict=True)):
        own = (
            f"{name[: LONGEST - ENDING - DIGITS - 1]}-{digest([number, title])[:DIGITS]}"
            if often[name] > 1
            else name
        )
        names.append(fitted(own, [number, title], LONGEST - ENDING))
    return names
