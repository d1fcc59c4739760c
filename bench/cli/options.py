"""The options that several verbs share: the type, the default and the words of each, once."""

from __future__ import annotations

import copy
import functools
import inspect
import os
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, get_args

import typer

from bench.optimizers import OPTIMIZERS
from bench.plan.executor_options import SLURM_MINUTES, SLURM_PARAMETERS

Methods = Annotated[
    str,
    typer.Option(
        help="Rows, separated by commas; or `all`. A row is a method name, with settings (name:setting=value), dropped losses "
        "(name:-term) or its ablation rows (name:ablate). `list` shows the names."
    ),
]
Tasks = Annotated[
    str, typer.Option(help="Tasks or groups of tasks, separated by commas. A task of your own is a FILE.toml.")
]
SOURCES = (
    "Where the examples come from: hub; sample (generated sentences); or a folder with "
    "<task>/<split>-00000-of-00001.parquet."
)
TEACHERS = "The teacher: a name on the hub (also NAME@REVISION); a folder; or embedded (a small model from a package)."
IF_HUB = "if there is an accelerator, and the hub answers or they were downloaded before; else"
Data = Annotated[str, typer.Option(help=SOURCES)]
DataOfLengths = Annotated[str, typer.Option(help=f"Only for `--lengths task`. {SOURCES}")]
Teacher = Annotated[str, typer.Option(help=TEACHERS)]
Results = Annotated[Path, typer.Option(help="Folder of the records.")]
Reports = Annotated[Path, typer.Option(help="Folder of the reports.")]
Device = Annotated[str, typer.Option(help="Device to compute on: auto, cpu, cuda, mps ...")]
Threads = Annotated[int, typer.Option(help="CPU threads. The number is printed with every timing.")]
Offline = Annotated[
    bool | None,
    typer.Option(
        "--offline/--online",
        help="Do not use the network. Read models and data from the local cache.",
        show_default="online; offline if the variable CI is set",
    ),
]
Latex = Annotated[
    bool,
    typer.Option("--latex", help="Also write files for a paper: each table as .tex (booktabs), each picture as .pdf."),
]
OnlyTasks = Annotated[str, typer.Option("--tasks", "--task", help="Use only these tasks, separated by commas.")]
ExperimentFile = Annotated[
    Path | None,
    typer.Option(
        "--experiment",
        metavar="FILE",
        help="A TOML file with a paper's tables. Options that you type replace the options of the file. "
        "--methods is refused: the file names the rows.",
    ),
]
TableNames = Annotated[
    str, typer.Option("--table", help="Use only these tables of the experiment, separated by commas.")
]
Json = Annotated[Path | None, typer.Option("--json", help="Also write the answer as JSON to this file.")]


def _option(kind: Any, default: Any, text: str, *names: str, **more: Any) -> tuple[Any, Any]:
    return Annotated[kind, typer.Option(*names, help=text, **more)], default


REQUEST: dict[str, tuple[Any, Any]] = {
    "methods": (Methods, "all"),
    "tasks": (Tasks, "glue"),
    "seeds": _option(str, "0", "Seeds of the students, for example 0,1,2. `tune` takes one."),
    "data": _option(str, "auto", f"{SOURCES} auto: the hub {IF_HUB} sample."),
    "teacher": _option(str, "auto", f"{TEACHERS} auto: bert-base-uncased {IF_HUB} embedded."),
    "results": (Results, Path("results/runs")),
    "reports": (Reports, Path("reports/runs")),
    "recipe": _option(str, "common", "common: the same epochs, batch size and shape of the schedule for all methods. "
        "paper: the numbers of each method's paper."),
    "numbers": _option(list[str] | None, None, "Change a number of the students' recipe: batch_size, max_length, or micro_batch (at most "
        "so many examples of a batch at a time: less memory, the same batch). Repeat the option for several. For one row, write the "
        "number into the row: tinybert:intermediate.epochs=50, with --recipe paper.", "--set", metavar="NAME=NUMBER"),
    "optimizer": _option(str | None, None, f"Optimiser of the students: {', '.join(OPTIMIZERS)}. The learning rates of the common recipe "
        "were chosen with the first one; pace= in a row multiplies them. It goes with the common recipe only: a paper's recipe names its "
        "own optimisers.", show_default="adamw"),
    "precision": _option(str, "fp32", "Number format of the training: fp32, tf32 (on CUDA: fp32 whose products have 10 bits) or bf16."),
    "teacher_outputs": _option(str, "", "Compute the teacher's outputs once, keep them in a file as fp32 or fp16, and read them in every "
        "epoch. Without the option the teacher's forward pass runs in every step.", metavar="FORMAT", show_default=False),
    "teacher_outputs_limit": _option(float, 20.0, "The largest such file, in gigabytes for each task.", metavar="GB"),
    "kernels": _option(str, "exact", "exact: torch's usual kernels. fast: faster CPU kernels for the training of students; the last digits "
        "differ. Results with fast have keys and row names of their own."),
    "device": (Device, "auto"),
    "deterministic": _option(bool, False, "On a GPU, use only kernels that give the same bits each time: slower. It is part of a result's "
        "key. On a CPU the bits are the same without it.", "--deterministic"),
    "max_train_rows": _option(int | None, None, "Train on at most this many examples. They are drawn once, and are the same for every row "
        "and seed."),
    "epochs": _option(float | None, None, "Passes over the training examples, summed over all stages of a method, without preparatory "
        "ones. It goes with the common recipe only: a paper's recipe has its own number of epochs.", show_default="3"),
    "corpus": _option(list[str] | None, None, "Text for pre-training, without labels: a file with one document a line; parquet with a text "
        "column; hub:NAME or hub:NAME/CONFIG, a data set on the hub; or sample (generated sentences). Repeat the option for more files.",
        metavar="FILE", show_default="sample with sample data, else hub:Salesforce/wikitext/wikitext-103-raw-v1"),
    "corpus_tokens": _option(int | None, None, "How many tokens of the corpus the pre-training on text reads; a shorter corpus is repeated.",
        show_default="4,000,000; 200,000 with generated sentences"),
    "augment": _option(str, "", "Make more training examples for the students. masked: TinyBERT's method (a masked language model). rules: "
        "the distilled BiLSTM's method."),
    "augment_times": _option(int, 10, "At most this many new examples for each training example."),
    "word_vectors": _option(Path | None, None, "Word vectors for --augment masked, as a text file in GloVe's format. Without it, the "
        "teacher's own embeddings are used.", metavar="FILE"),
    "checkpoint": _option(str, "last", "Which epoch of a student is scored. last: the last one. best-on-dev: the best one on the examples "
        "that are scored; the report says so. best-on-half: chosen on one half of these examples, scored on the other half."),
    "threads": _option(int | None, None, "CPU threads of each job. Results with different numbers of threads have different keys.",
        show_default="1, or 2 with --jobs 1"),
    "jobs": _option(str, "auto", "How many jobs run at the same time, in separate processes; a single one runs in the main process. auto: as "
        "many as cores and memory allow; one for a plan of less than a minute. With the same --threads, the number of jobs changes no "
        "result.", metavar="N|auto"),
    "executor": _option(str, "processes", "Where the jobs run. processes: in processes of this machine. ray: on a Ray cluster. slurm: as "
        "jobs of Slurm. The results are the same. docs/clusters.md explains it."),
    "address": _option(str, "", "Address of a running Ray cluster, or auto for the cluster that this machine belongs to.",
        metavar="HOST:PORT", show_default="a new cluster of this machine alone"),
    "slurm": _option(str, "", f"Parameters of Slurm's jobs: {', '.join(SLURM_PARAMETERS)} (in minutes), and sbatch.NAME for "
        "any other option of sbatch. setup names a file: lines of shell that each job runs first. cluster=local runs the jobs on this "
        "machine, without Slurm.", metavar="NAME=VALUE,...", show_default=f"time={SLURM_MINUTES}"),
    "offline": (Offline, None),
    "rerun_stale": _option(bool, False, "Train again what another version of the code made: records, and the artefacts in the cache.",
        "--rerun-stale"),
    "yes": _option(bool, False, "Start long plans without asking.", "--yes", "-y"),
}  # fmt: skip
"""Field of a request -> its option and default, in the order in which --help shows them."""

AS_RECORDED: dict[str, Any] = dict.fromkeys(
    ("methods", "tasks", "recipe", "numbers", "optimizer", "precision", "max_train_rows", "epochs", "augment", "augment_times",
     "checkpoint", "teacher_outputs", "kernels", "deterministic", "threads")
)  # fmt: skip
"""Fields of a request whose values `why` takes from the record where nobody types them, which None says."""


def asks_no_hub(typed: bool | None) -> bool:
    """What --offline or --online say; where neither is typed, a continuous integration asks no hub."""
    return bool(os.environ.get("CI")) if typed is None else typed


def _annotation(name: str, defaults: dict[str, Any]) -> Any:
    """The annotation of an option. If a verb's default for it is None, its help shows no default."""
    annotation = REQUEST[name][0]
    if name not in defaults or defaults[name] is not None:
        return annotation
    kind, option = get_args(annotation)
    option = copy.copy(option)
    option.show_default = False
    return Annotated[kind, option]


def with_request_options(
    names: str = "", without: str = "", **defaults: Any
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Give a verb these options of a request, before its own; it gets their values as one mapping, its first argument.

    Args:
        names: separated by spaces; all of them but those of ``without`` where it names none.
        defaults: where a verb's differ; :data:`inspect.Parameter.empty` for an option that has to be typed.
    """

    def decorate(verb: Callable[..., Any]) -> Callable[..., Any]:
        wanted = [
            name for name in REQUEST if name in (names or " ".join(REQUEST)).split() and name not in without.split()
        ]
        keyword = inspect.Parameter.KEYWORD_ONLY
        shared = [
            inspect.Parameter(
                name, keyword, annotation=_annotation(name, defaults), default=defaults.get(name, REQUEST[name][1])
            )
            for name in wanted
        ]
        own = list(inspect.signature(verb, eval_str=True).parameters.values())[1:]

        @functools.wraps(verb)
        def called(**values: Any) -> Any:
            return verb({name: values.pop(name) for name in wanted}, **values)

        arguments = [parameter.replace(kind=keyword) for parameter in own]
        called.__signature__ = inspect.Signature([*shared, *arguments])  # type: ignore[attr-defined]
        return called

    return decorate
