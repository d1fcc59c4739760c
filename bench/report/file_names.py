"""Where the files of a report are: ``<data>/<teacher>-<recipe>/``, different for different groups.

No torch, no clock.
"""

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
from bench.report.study import GLUE_FOLDER, Study
from bench.report.table import Table

PAGE = "README.md"
"""The page of a report that GitHub shows."""
HTML = "report.html"
"""The page for a browser."""
TABLES = "tables"
FIGURES = "figures"
LONGEST = 40
"""Characters of the name of a file or folder, with its ending."""
SHORT_TEACHER = 10
"""Characters of the teacher in a name that ends with a digest."""
DIGITS = 8
"""Hex digits of a digest at the end of a name."""
ENDING = 4
"""Characters of ``.csv``, ``.tex`` and ``.svg``."""
KNOWN = {EMBEDDED_SHA256: EMBEDDED_NAME}
"""Base weights -> the name of their teacher, whose groups have a name without a digest."""


def place_of(study: Study) -> Path:
    """The folder of a group's report, below the folder of all reports.

    It is named by the data, then by the teacher and the recipe.
    """
    return Path(data_name(study), group_name(study))


def paper_place(title: str, study: Study) -> Path:
    """The folder of an experiment's report: the paper, then the data, the teacher and the recipe.

    The part of a title behind a colon is not in the name.
    """
    paper = slug(title.partition(":")[0]).lower()
    data = data_name(study)
    name = group_name(study)
    return Path(fitted(paper, [title]), fitted(f"{data}-{name}", [data, name, study.identity]))


def data_name(study: Study) -> str:
    """``glue``, ``glue-20000-rows``, ``sample-v2``: the examples, and how many training rows.

    All of them need no number.
    """
    data = study.cell.data
    facts = data_facts(data.slug)
    name = data.slug
    if facts.source == FOLDER and facts.folder == GLUE_FOLDER:
        name = name.removeprefix("folder-")
    if data.max_train_rows:
        name += f"-{data.max_train_rows}-rows"
    return fitted(slug(name).lower(), [data.slug, data.max_train_rows])


def group_name(study: Study) -> str:
    """The teacher, the recipe, and what else distinguishes the group.

    Example: ``all-minilm-l6-v2-common-3-epochs``. Words alone name a group of a known teacher,
    fine-tuned here, with AdamW and the default numerics. Every other name ends with a digest of all
    that makes the group: folders of the same name, or names that a file name writes alike, keep
    their own files.
    """
    recipe = study.recipe
    epochs = f"{study.epochs:g}"
    teacher = study.cell.teacher
    numeric = study.cell.numeric
    data = study.cell.data.slug
    name = slug(KNOWN.get(teacher.base, teacher.name).split("/")[-1].split(" (")[0])
    parts = []
    if study.optimizer != ADAMW:
        parts.append(study.optimizer)
    if numeric.precision != "fp32":
        parts.append(numeric.precision)
    # in full the name would be too long for many teachers
    if numeric.threads != 2:
        parts.append(f"{numeric.threads}t")

    # no other group has the same words: the teacher is known, and no part is shortened or written
    # differently
    words_suffice = (
        teacher.base in KNOWN
        and teacher.origin == "fine-tuned"
        and study.optimizer == ADAMW
        and numeric == NumericIdentity(threads=numeric.threads)
        and slug(data).lower() == data
        and not re.search(r"-\d+-rows$", data)
        and re.fullmatch("[a-z]+", recipe)
        and float(epochs) == study.epochs
    )
    if words_suffice:
        words = slug("-".join([name, recipe, f"{epochs}-epochs", *parts])).lower()
        return fitted(words, study.identity)
    # what is cut off is at the end: the length of the recipe
    words = slug("-".join([name[:SHORT_TEACHER], *parts, recipe, f"{epochs}ep"])).lower()
    return f"{words[: LONGEST - DIGITS - 1].rstrip('-.')}-{digest(study.identity)[:DIGITS]}"


def fitted(name: str, identity: object, longest: int = LONGEST) -> str:
    """The name, or its beginning and a digest of what it stands for where it is too long."""
    if len(name) <= longest:
        return name
    beginning = name[: longest - DIGITS - 1].rstrip("-.")
    return f"{beginning}-{digest(identity)[:DIGITS]}"


def named(tables: Sequence[Table]) -> dict[str, Table]:
    """The tables by the names of their files, without ending."""
    names = table_names([table.file or table.title for table in tables])
    return dict(zip(names, tables, strict=True))


def table_names(titles: Sequence[str]) -> list[str]:
    """The names of the files of these tables, without ending, in their order.

    They are different ones, also where titles are written alike.
    """
    plain = [slug(title).lower() for title in titles]
    often = Counter(plain)
    longest = LONGEST - ENDING
    names = []
    for number, (name, title) in enumerate(zip(plain, titles, strict=True)):
        identity = [number, title]
        # a digest tells apart what a file name writes alike
        if often[name] > 1:
            name = f"{name[: longest - DIGITS - 1]}-{digest(identity)[:DIGITS]}"
        names.append(fitted(name, identity, longest))
    return names
