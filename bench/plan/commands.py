"""How the options of a finished cell are typed: its data, its tasks, its teacher. No torch."""

from __future__ import annotations

import shlex
from collections.abc import Iterable

from bench.data.checkpoints import EMBEDDED_NAME, EMBEDDED_SHA256
from bench.data.tasks import KNOWN
from bench.plan import request
from bench.record.cell import Cell
from bench.record.task_facts import HUB, OWN, SAMPLE, data_facts


def is_own(slug: str) -> bool:
    """Whether the examples are of a task of one's own."""
    return data_facts(slug).source == OWN


def typed_data(slug: str) -> str:
    """What ``--data`` was; "" for tasks of one's own, whose file names the data."""
    facts = data_facts(slug)
    return {OWN: "", SAMPLE: request.SAMPLE, HUB: request.HUB}.get(facts.source, facts.folder)


def typed_task(slug: str, task: str, cells: Iterable[Cell]) -> str:
    """How a task was typed: one's own by its file, as its records name it, else called like the task."""
    if not is_own(slug) or task in KNOWN:
        return task
    return next((file for cell in cells if task in cell.tasks and (file := cell.data.task_file)), f"{task}.toml")


def scoring_again(cell: Cell) -> str:
    """The command that scores what a cell has trained, kept as a folder; its place is left open."""
    words = ["python", "-m", "bench", "run", "--methods", "checkpoint:THIS-FOLDER"]
    words += ["--tasks", typed_task(cell.data.slug, cell.tasks[0], [cell])]
    return shlex.join([*words, *source_options(cell.data.slug, cell.teacher.name, cell.teacher.base)])


def source_options(slug: str, teacher: str, base: str) -> list[str]:
    """The embedded teacher is known by its weights, since a folder may have any name."""
    named = request.EMBEDDED if (teacher, base) == (EMBEDDED_NAME, EMBEDDED_SHA256) else teacher
    return [*(["--data", data] if (data := typed_data(slug)) else []), "--teacher", named]
