"""Experiments as files: the rows and tasks of a paper's tables, in TOML.

title = "A paper"
teacher = "bert-base-uncased"    # any option of `run`, as it is typed there

[[table]]
name = "ablation"
methods = ["microbert:ablate"]
tasks = ["mrpc"]
show = "differences"             # accuracy, reappearance, or differences to the first row
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from bench.errors import InputError, unknown


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class TableSpec(_Strict):
    """One table of the paper: its rows, its tasks, and what it shows."""

    name: str = Field(min_length=1)
    methods: tuple[str, ...] = Field(min_length=1)
    tasks: tuple[str, ...] = Field(min_length=1)
    show: Literal["accuracy", "reappearance", "differences"] = "accuracy"


class Experiment(_Strict):
    """A paper's tables and how they are run. What is None stays as ``run`` has it."""

    title: str = Field(min_length=1)
    table: tuple[TableSpec, ...] = Field(min_length=1)
    seeds: tuple[int, ...] | None = None
    data: str | None = None
    teacher: str | None = None
    recipe: Literal["common", "paper"] | None = None
    epochs: float | None = None
    max_train_rows: int | None = None
    corpus_tokens: int | None = None

    def options(self) -> dict[str, object]:
        """What the file says besides its tables."""
        return {k: v for k, v in self.model_dump(exclude={"title", "table"}).items() if v is not None}

    def chosen(self, tables: str = "", tasks: str = "") -> list[TableSpec]:
        """The tables named (all, if none is), with only the tasks named; tables left without a task are gone.

        Raises:
            InputError: a table that is not there, or nothing left.
        """
        wanted = [name.strip() for name in tables.split(",") if name.strip()]
        for name in wanted:
            if name not in [table.name for table in self.table]:
                raise unknown("table", name, [table.name for table in self.table])
        named = [task.strip() for task in tasks.split(",") if task.strip()]
        found = []
        for table in self.table:
            if wanted and table.name not in wanted:
                continue
            kept = tuple(task for task in table.tasks if not named or task in named)
            if kept:
                found.append(table.model_copy(update={"tasks": kept}))
        if not found:
            there = sorted({task for table in self.table for task in table.tasks})
            raise InputError(f"no table of {self.title} has the tasks {tasks}; they have: {', '.join(there)}")
        return found


def read_experiment(path: Path) -> Experiment:
    """Raises InputError: no such file, not TOML, or a field that does not fit."""
    try:
        body = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"--experiment {path}: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"--experiment {path} is not TOML: {error}") from None
    try:
        return Experiment.model_validate(body)
    except ValidationError as error:
        first = error.errors()[0]
        raise InputError(f"--experiment {path}: {'.'.join(map(str, first['loc']))}: {first['msg']}") from None
