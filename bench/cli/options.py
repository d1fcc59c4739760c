"""The options that several verbs share: the type, the default and the words of each, once."""

from __future__ import annotations

import functools
import inspect
import os
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from bench.optimizers import OPTIMIZERS

Methods = Annotated[
    str, typer.Option(help="Rows: name:setting=value:-term:ablate, separated by commas, or all; see `list`.")
]
Tasks = Annotated[str, typer.Option(help="Tasks or groups, separated by commas; a task of your own as FILE.toml.")]
Data = Annotated[str, typer.Option(help="hub, sample, auto, or a folder with <task>/<split>-00000-of-00001.parquet.")]
Teacher = Annotated[str, typer.Option(help="A hub name, a folder, embedded, or auto.")]
Results = Annotated[Path, typer.Option(help="Folder of the records.")]
Reports = Annotated[Path, typer.Option(help="Folder of the reports.")]
Device = Annotated[str, typer.Option(help="auto, cpu, cuda, mps ...")]
Threads = Annotated[int, typer.Option(help="CPU threads; part of a result's identity.")]
ThreadsOfJob = Annotated[
    int | None,
    typer.Option(help="CPU threads of each job; part of a result's identity.", show_default="1, or 2 with --jobs 1"),
]
Offline = Annotated[
    bool | None,
    typer.Option(
        "--offline/--online",
        help="Ask no hub; use what is cached.",
        show_default="--online, and --offline where the variable CI is set",
    ),
]
Latex = Annotated[
    bool, typer.Option("--latex", help="For a paper too: each table as .tex (booktabs), each picture as .pdf.")
]
OnlyTasks = Annotated[str, typer.Option("--tasks", "--task", help="Only these tasks, separated by commas.")]
ExperimentFile = Annotated[
    Path | None,
    typer.Option(
        "--experiment", metavar="FILE", help="A TOML file with a paper's tables; options typed here go before its own."
    ),
]
TableNames = Annotated[str, typer.Option("--table", help="Only these tables of the experiment, separated by commas.")]
Json = Annotated[Path | None, typer.Option("--json", help="Also write the answer as JSON to this file.")]

REQUEST: dict[str, tuple[Any, Any]] = {
    "methods": (Methods, "all"),
    "tasks": (Tasks, "glue"),
    "seeds": (Annotated[str, typer.Option(help="Seeds of the students, like 0,1,2.")], "0"),
    "data": (Data, "auto"),
    "teacher": (Teacher, "auto"),
    "results": (Results, Path("results/runs")),
    "reports": (Reports, Path("reports/runs")),
    "recipe": (
        Annotated[str, typer.Option(help="common (one for all) or paper (each paper's own schedule).")],
        "common",
    ),
    "numbers": (
        Annotated[
            list[str] | None,
            typer.Option(
                "--set",
                metavar="NAME=NUMBER",
                help="A number of the students' recipe: batch_size or max_length. Repeat for both. A row's own schedule is "
                "typed with it: tinybert:intermediate.epochs=50, with --recipe paper.",
            ),
        ],
        None,
    ),
    "optimizer": (
        Annotated[
            str | None,
            typer.Option(
                help=f"Of the students: {', '.join(OPTIMIZERS)}. The rates of the common recipe were chosen with the first; "
                "pace= in a row multiplies them.",
                show_default="adamw",
            ),
        ],
        None,
    ),
    "precision": (Annotated[str, typer.Option(help="fp32 or bf16.")], "fp32"),
    "device": (Device, "auto"),
    "max_train_rows": (Annotated[int | None, typer.Option(help="Train on so many rows, drawn once.")], None),
    "epochs": (
        Annotated[float | None, typer.Option(help="Passes over the training rows, over all stages of a method.")],
        None,
    ),
    "corpus": (
        Annotated[
            list[Path] | None,
            typer.Option(
                metavar="FILE",
                help="Unlabelled text for the general start: one document a line, or parquet with a text column. "
                "Repeat for more files.",
            ),
        ],
        None,
    ),
    "corpus_tokens": (
        Annotated[int | None, typer.Option(help="Tokens of it to train the general start on.")],
        None,
    ),
    "augment": (
        Annotated[
            str,
            typer.Option(
                help="Rules that make further training rows for the students: masked (TinyBERT's) or rules (the BiLSTM's)."
            ),
        ],
        "",
    ),
    "augment_times": (Annotated[int, typer.Option(help="Variants of each training row, at most.")], 10),
    "word_vectors": (
        Annotated[
            Path | None,
            typer.Option(
                metavar="FILE",
                help="Word vectors as text (GloVe's) for masked augmentation; without, the teacher's own embeddings.",
            ),
        ],
        None,
    ),
    "checkpoint": (
        Annotated[
            str,
            typer.Option(
                help="Which epoch of a student is scored: last, best-on-dev (chosen on the rows that are scored, and "
                "labelled so), or best-on-half (chosen on half of them, scored on the other)."
            ),
        ],
        "last",
    ),
    "threads": (ThreadsOfJob, None),
    "jobs": (
        Annotated[
            str,
            typer.Option(
                metavar="N|auto",
                help="Pieces of work at a time, each in a process of its own; auto: as many as cores and memory allow. "
                "Results do not depend on it.",
            ),
        ],
        "auto",
    ),
    "offline": (Offline, None),
    "rerun_stale": (
        Annotated[
            bool,
            typer.Option(
                "--rerun-stale",
                help="Train again what other code than this made: records, and what they are made from in the cache.",
            ),
        ],
        False,
    ),
    "yes": (Annotated[bool, typer.Option("--yes", "-y", help="Start long plans without asking.")], False),
}
"""Field of a request -> its option and default, in the order in which --help shows them."""

AS_RECORDED = (
    "methods",
    "tasks",
    "recipe",
    "numbers",
    "optimizer",
    "precision",
    "max_train_rows",
    "epochs",
    "augment",
    "augment_times",
    "checkpoint",
    "threads",
)
"""Fields of a request that a record answers by itself, for verbs that ask for its cell again."""


def asks_no_hub(typed: bool | None) -> bool:
    """What --offline or --online say; where neither is typed, a continuous integration asks no hub."""
    return bool(os.environ.get("CI")) if typed is None else typed


def takes(*names: str, **defaults: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Give a verb these options of a request, before its own; it gets their values as one mapping, its first argument.

    Args:
        defaults: where a verb's differ; :data:`inspect.Parameter.empty` for an option that has to be typed.
    """

    def decorate(verb: Callable[..., Any]) -> Callable[..., Any]:
        wanted = [name for name in REQUEST if name in names]
        keyword = inspect.Parameter.KEYWORD_ONLY
        shared = [
            inspect.Parameter(name, keyword, annotation=REQUEST[name][0], default=defaults.get(name, REQUEST[name][1]))
            for name in wanted
        ]
        own = list(inspect.signature(verb, eval_str=True).parameters.values())[1:]

        @functools.wraps(verb)
        def called(**values: Any) -> Any:
            return verb({name: values.pop(name) for name in wanted}, **values)

        arguments = [one.replace(kind=keyword) for one in own]
        called.__signature__ = inspect.Signature([*shared, *arguments])  # type: ignore[attr-defined]
        return called

    return decorate
