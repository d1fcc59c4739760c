"""The command that makes a table's records again, from the records alone; no torch."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence

from bench.data.checkpoints import EMBEDDED_NAME, EMBEDDED_SHA256
from bench.plan.cell import TEACHER
from bench.plan.request import EMBEDDED, OPTION_OF
from bench.record.schema import Record
from bench.report.groups import Group

DEFAULT_THREADS = 2
SUFFIX = re.compile(r" \((best epoch|best of \d+)\)$")
"""What a row's label has behind its spelling when its epoch or its settings were chosen."""
AUGMENTED = re.compile(r"-(masked|rules)-augmented-(\d+)(?:-with-(.+))?$")
"""What a data source's short name ends with when its training rows were augmented."""


def commands(group: Group) -> list[str]:
    """One command for plain rows, one for each way in which others were chosen, and for each set of tasks learned together.

    Folders and files stand in it by their names: where they lie is the reader's to know. The trials of a search have none:
    they are made again by the search whose best row names them.
    """
    if group.slug.endswith("-held-back"):
        return []
    made: dict[tuple[tuple[str, ...], tuple[str, ...], int | None], list[Record]] = {}
    for record in _in_order(group):
        if record.cell.method != TEACHER:
            together = tuple(partner.task for partner in record.cell.together)
            limit = record.cell.row_limit if together else group.max_train_rows
            made.setdefault((_verb(record), together, limit), []).append(record)
    if not made:
        made = {(("run",), (), group.max_train_rows): list(group.records)}
    return [_command(group, *asked, records) for asked, records in made.items()]


def _in_order(group: Group) -> Sequence[Record]:
    """The records; by their rows where those have an order of their own."""
    if not group.order:
        return group.records
    place = {label: number for number, label in enumerate(group.systems)}
    return sorted(group.records, key=lambda record: place[record.row])


def _verb(record: Record) -> tuple[str, ...]:
    cell = record.cell
    if cell.search is not None:
        return "tune", "--trials", str(len(cell.search.trials))
    if cell.selection is not None:
        return "run", "--checkpoint", OPTION_OF[cell.selection.rule]
    return ("run",)


def _command(
    group: Group, verb: tuple[str, ...], together: tuple[str, ...], limit: int | None, records: Sequence[Record]
) -> str:
    rows = dict.fromkeys(_row(record) for record in records if record.cell.method != TEACHER)
    # tasks learned together are one training, in their order
    tasks = together or tuple(task for task in group.tasks if any(task in record.cell.tasks for record in records))
    seeds = sorted({record.cell.seed for record in records})
    words = ["python", "-m", "bench", verb[0], "--methods", ",".join(rows) or TEACHER, "--tasks", ",".join(tasks)]
    words += ["--data", _data(group.slug), "--teacher", _teacher(group), *verb[1:]]
    words += ["--recipe", group.recipe] if verb[0] == "run" else []  # a search knows the common one alone
    words += ["--seeds", ",".join(map(str, seeds))] if seeds != [0] else []
    words += ["--epochs", f"{group.epochs:g}"] if group.recipe != "paper" else []
    words += ["--max-train-rows", str(limit)] if limit else []
    words += ["--precision", group.precision] if group.precision != "fp32" else []
    words += ["--threads", str(group.threads)] if group.threads != DEFAULT_THREADS else []
    if augmented := AUGMENTED.search(group.slug):
        words += ["--augment", augmented.group(1), "--augment-times", augmented.group(2)]
        words += ["--word-vectors", augmented.group(3)] if augmented.group(3) else []
    return shlex.join([*words, *_text(records)])


def _row(record: Record) -> str:
    """How a row was typed; an ablation by its full row."""
    cell = record.cell
    if cell.search is not None:
        return cell.search.of
    return SUFFIX.sub("", cell.label) if cell.ablation_of is None else f"{SUFFIX.sub('', cell.ablation_of)}:ablate"


def _data(slug: str) -> str:
    known = AUGMENTED.sub("", slug).replace("-half-dev", "")
    if known.startswith("sample-"):
        return "sample"
    return "hub" if known == "glue-hub" else re.sub(r"^(folder|own)-", "", known)


def _teacher(group: Group) -> str:
    """What ``--teacher`` was: the embedded one is known by its weights, since a folder may have any name."""
    return EMBEDDED if (group.teacher, group.base) == (EMBEDDED_NAME, EMBEDDED_SHA256) else group.teacher


def _text(records: Sequence[Record]) -> list[str]:
    """The corpus of the general starts, where the records say it; the sample suite's sentences need no option."""
    texts = [artefact["text"] for record in records for artefact in record.artefacts.values() if "text" in artefact]
    given = next((text for text in texts if text["files"]), None)
    if given is None:
        return []
    return [*(word for file in given["files"] for word in ("--corpus", file)), "--corpus-tokens", str(given["tokens"])]


def starts_without_text(records: Sequence[Record]) -> list[str]:
    """General starts of records from before the text was recorded: their keys."""
    keys = {
        artefact["key"][:12]
        for record in records
        for name, artefact in record.artefacts.items()
        if "train" in artefact and "text" not in artefact and name != TEACHER
    }
    return sorted(keys)
