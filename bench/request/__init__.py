"""What a person asks for: each field of a request is an option of ``run``, with its words beside
it."""

from __future__ import annotations

import importlib.util
import os
import shlex
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import Field, dataclass, field, fields, replace
from numbers import Integral, Real
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.errors import InputError
from bench.record.optimizers import OPTIMIZERS
from bench.record.recipe import ADAMW, Recipe
from bench.record.varied import VARIED_TEACHER, Source
from bench.request import recorded
from bench.request.choices import (
    AUGMENTATIONS,
    AUTO,
    CLUSTER,
    EPOCH_RULES,
    EXACT,
    EXECUTORS,
    FAST,
    IF_HUB,
    KERNELS,
    LOCAL,
    MASKED,
    NUMBERS,
    OUTPUT_FORMATS,
    PACKAGES,
    PRECISIONS,
    PROCESSES,
    RAY,
    RECIPES,
    SAMPLE,
    SETUP,
    SLURM,
    SLURM_MINUTES,
    SLURM_PARAMETERS,
    SOURCES,
    TEACHERS,
    WHOLE_NUMBERS,
)
from bench.request.text import (
    as_typed,
    parse_jobs,
    parse_numbers,
    parse_seeds,
    parse_slurm,
    parse_vary,
    read_vary,
)

if TYPE_CHECKING:
    from bench.record.cell import Search
    from bench.request.recorded import Recorded

PUBLIC_TEXT = "hub:Salesforce/wikitext/wikitext-103-raw-v1"
"""What pre-training reads where the data are real and nobody names a text."""


def check_executor(
    executor: str, address: str, slurm: Iterable[tuple[str, str]], device: str
) -> None:
    """Refuse options that do not go together, and an executor whose package is missing.

    Raises:
        InputError: naming the option, or what to install.
    """
    if executor not in EXECUTORS:
        raise InputError(f"--executor {executor}: choose one of {', '.join(EXECUTORS)}")
    if address and executor != RAY:
        raise InputError("--address goes with --executor ray")
    if slurm and executor != SLURM:
        raise InputError("--slurm goes with --executor slurm")
    _check_slurm(dict(slurm))
    if executor == PROCESSES:
        return
    if ":" in device:
        raise InputError(
            f"--device {device}: with --executor {executor} each job has an accelerator of its "
            f"own; type --device {device.partition(':')[0]}"
        )
    if importlib.util.find_spec(PACKAGES[executor]) is None:
        raise InputError(
            f"--executor {executor} needs the package {PACKAGES[executor]}; type in the folder of "
            f"the project: {shlex.quote(sys.executable)} -m pip install -c constraints.txt -e "
            f"'.[{executor}]'"
        )


def _check_slurm(parameters: dict[str, str]) -> None:
    """Raises InputError where a parameter of Slurm's jobs makes no sense."""
    minutes = parameters.get("time", "1")
    if not minutes.isdecimal() or len(minutes) > 7 or int(minutes) == 0:
        raise InputError(f"--slurm time={minutes}: give a whole number of minutes, from 1 on")
    cluster = parameters.get(CLUSTER, SLURM)
    if cluster not in (SLURM, LOCAL):
        raise InputError(f"--slurm {CLUSTER}={cluster}: choose {SLURM} or {LOCAL}")
    setup = parameters.get(SETUP)
    if setup is not None and not os.path.isfile(Path(setup).expanduser()):
        raise InputError(
            f"--slurm {SETUP}={setup}: no such file; it has the lines of shell that each job runs "
            "first"
        )


def asks_no_hub(typed: bool | None) -> bool:
    """The value of --offline or --online; where neither is typed, a continuous integration asks no
    hub."""
    return bool(os.environ.get("CI")) if typed is None else typed


def reports_of(results: Path) -> Path:
    """Where the reports of a folder of records are, if nobody says: folders of other names do
    not write one report."""
    if results.name == "results":
        return results.with_name("reports")
    return Path("reports") / results.resolve().name


TENSORBOARD = "tensorboard"
TRACKERS = (TENSORBOARD, "wandb", "trackio")


def _option(
    default: Any,
    words: str,
    *names: str,
    typed: Any = None,
    run: bool = False,
    recorded: Callable[[Recorded], Any] | None = None,
    by_name: bool = False,
    **more: Any,
) -> Any:
    """A field with its option.

    Args:
        names: of the option, where it is not called like the field.
        typed: type and default of what is typed, where they are others; the ``callback`` makes the
            field's value of it.
        run: whether the option is of `run` alone.
        recorded: what a record states of it, if records do.
        by_name: whether that is the name of a file or of a machine's part, which the reader of a
            record has elsewhere: a verb about a record has to be told.
        more: of typer.Option.
    """
    facts = {
        "words": words,
        "names": names,
        "typed": typed,
        "run": run,
        "recorded": recorded,
        "by_name": by_name,
        "more": more,
    }
    return field(default=default, metadata=facts)


def _typed_words(option: Field[Any], value: Any) -> list[str]:
    """How the option of a field is typed with this value; no words for one that is off or has
    none."""
    facts = option.metadata
    name = facts["names"][0] if facts["names"] else _typed_option(option.name)
    name = name.partition("/")[0]
    # flags, and options that are left out
    if value is None or value is False or value in ("", ()):
        return []
    if value is True:
        return [name]
    # one value
    if option.name == "jobs":
        return [name, AUTO if value == 0 else str(value)]
    if not isinstance(value, tuple):
        return [name, as_typed(value)]
    # several values: pairs are NAME=VALUE; the option is repeated, or takes them with commas
    texts = ["=".join(map(str, each)) if isinstance(each, tuple) else str(each) for each in value]
    is_repeated = facts["typed"] and facts["typed"][0] == list[str] | None
    if not is_repeated:
        return [name, ",".join(texts)]
    words = []
    for text in texts:
        words += [name, text]
    return words


def _several(values: str | Path | Iterable[object] | None) -> tuple[str, ...]:
    """One name, several or none, as a tuple."""
    if isinstance(values, str | Path):
        return (str(values),)
    return tuple(map(str, values or ()))


def _comma_joined(values: str | Path | Iterable[object]) -> str:
    """One name, or several as they are typed."""
    return str(values) if isinstance(values, str | Path) else ",".join(map(str, values))


@dataclass(frozen=True)
class Request:
    """The arguments of ``bench run``; also those of ``bench.api.run`` in Python."""

    # which rows on which tasks
    methods: str = _option(
        "all",
        "Rows, separated by commas; or `all`. A row is a method name, with settings "
        "(name:setting=value), dropped losses (name:-term) or its ablation rows (name:ablate); "
        "+int8 behind it scores it in 8 bits too. `list` shows the names. checkpoint:FOLDER and "
        "predictions:FOLDER are finished: they are scored, not trained.",
        recorded=recorded.row,
    )
    tasks: str = _option(
        "glue",
        "Tasks or groups of tasks, separated by commas. Your own: "
        "FILE.csv:text=COLUMN:label=COLUMN (also tsv, jsonl, parquet), hub:OWNER/NAME/CONFIG with "
        "the same, or a FILE.toml.",
        recorded=recorded.tasks,
    )
    metric: tuple[str, ...] = _option(
        (),
        "A metric in a file of your own, as Python imports it, like kappa:KAPPA. Tasks name it "
        "among their metrics. Repeat the option for more metrics. choose and compare score the "
        "tasks by it, from the stored answers, and take a name of `list --metrics` too: where "
        "several are typed, a task is scored by the first one that suits it; where none is, by "
        "its own first one.",
        metavar="MODULE:NAME",
        typed=(list[str] | None, None),
        show_default=False,
        recorded=recorded.metric,
        by_name=True,
    )
    seeds: tuple[int, ...] = _option(
        (0,),
        "Seeds of the students, for example 0,1,2.",
        typed=(str, "0"),
        callback=parse_seeds,
        recorded=recorded.seeds,
    )
    vary: tuple[Source, ...] = _option(
        (),
        "What each seed has of its own besides its students: teacher (one is fine-tuned for each "
        "seed), start (what students begin with is pre-trained for each seed), or both. Without "
        "it one of each serves all seeds, and intervals leave out that others may differ.",
        typed=(str, ""),
        callback=read_vary,
        metavar="teacher,start",
        show_default=False,
        recorded=recorded.vary,
    )
    # examples and teacher, and where results are kept
    data: str = _option(
        AUTO, f"{SOURCES} auto: the hub {IF_HUB} sample.", recorded=recorded.data, by_name=True
    )
    teacher: str = _option(
        AUTO,
        f"{TEACHERS} auto: bert-base-uncased {IF_HUB} embedded.",
        recorded=recorded.teacher,
        by_name=True,
    )
    results: Path = _option(Path("results/runs"), "Folder of the records.")
    reports: Path = _option(
        None,
        "Folder of the reports.",
        typed=(Path | None, None),
        show_default="reports/ and the name of the folder of records",
    )
    # how students are trained
    recipe: str = _option(
        "common",
        "common: the same epochs, batch size and shape of the schedule for all methods. "
        "paper: the numbers of each method's paper.",
        recorded=recorded.recipe,
    )
    numbers: tuple[tuple[str, int], ...] = _option(
        (),
        "Change a number of the students' recipe: batch_size, max_length, or micro_batch (at most "
        "so many examples of a batch at a time: less memory, the same batch). Repeat the option "
        "for several. For one row, write the number into the row: ROW:STAGE.epochs=50, with "
        "--recipe paper.",
        "--set",
        metavar="NAME=NUMBER",
        typed=(list[str] | None, None),
        recorded=recorded.numbers,
    )
    optimizer: str | None = _option(
        None,
        f"Optimiser of the students: {', '.join(OPTIMIZERS)}. The learning rates of the common "
        "recipe were chosen with the first one; pace= in a row multiplies them. It goes with the "
        "common recipe only: a paper's recipe names its own optimisers.",
        show_default="adamw",
        recorded=recorded.optimizer,
    )
    precision: str = _option(
        "fp32",
        "Number format of the training: fp32, tf32 (on CUDA: fp32 whose products have 10 bits) or "
        "bf16.",
        recorded=recorded.precision,
    )
    # how that is computed
    teacher_outputs: str = _option(
        "",
        "Compute the teacher's outputs once, keep them in a file as fp32 or fp16, and read them "
        "in every epoch. Without the option the teacher's forward pass runs in every step.",
        metavar="FORMAT",
        show_default=False,
        recorded=recorded.teacher_outputs,
    )
    teacher_outputs_limit: float = _option(
        20.0, "The largest such file, in gigabytes for each task.", metavar="GB"
    )
    kernels: str = _option(
        EXACT,
        "exact: torch's usual kernels. fast: faster CPU kernels for the training of students; the "
        "last digits differ. Results with fast have keys and row names of their own.",
        recorded=recorded.kernels,
    )
    device: str = _option(
        "auto",
        "Device to compute on: auto, cpu, cuda, mps ...",
        recorded=recorded.device,
        by_name=True,
    )
    deterministic: bool = _option(
        False,
        "On a GPU, use only kernels that give the same bits each time: slower. It is part of a "
        "result's key. On a CPU the bits are the same without it.",
        recorded=recorded.deterministic,
    )
    # how much is trained on
    max_train_rows: int | None = _option(
        None,
        "Train on at most this many examples. They are drawn once, and are the same for every row "
        "and seed.",
        recorded=recorded.max_train_rows,
    )
    epochs: float | None = _option(
        None,
        "Passes over the training examples, summed over all stages of a method, without "
        "preparatory ones. It goes with the common recipe only: a paper's recipe has its own "
        "number of epochs.",
        show_default="3",
        recorded=recorded.epochs,
    )
    corpus: tuple[str, ...] = _option(
        (),
        "Text for pre-training, without labels: a file with one document a line; parquet with a "
        "text column; hub:NAME or hub:NAME/CONFIG, a data set on the hub; or sample (generated "
        "sentences). Repeat the option for more files.",
        metavar="FILE",
        typed=(list[str] | None, None),
        show_default="the training texts of your own tasks; else sample with sample data, or "
        f"{PUBLIC_TEXT}",
        recorded=recorded.corpus,
        by_name=True,
    )
    corpus_tokens: int | None = _option(
        None,
        "How many tokens of the corpus the pre-training on text reads; a shorter corpus is "
        "repeated.",
        show_default="4,000,000; 100,000 with generated sentences, 40,000 where auto chose them; "
        "of your own tasks' texts three passes, at most 4,000,000",
        recorded=recorded.corpus_tokens,
    )
    # further training rows
    augment: str = _option(
        "",
        "Make more training examples for the students. masked: a masked language model replaces "
        "words (Jiao et al. 2020). rules: words are hidden or replaced by rules (Tang et al. "
        "2019).",
        recorded=recorded.augment,
    )
    augment_times: int = _option(
        10,
        "At most this many new examples for each training example.",
        recorded=recorded.augment_times,
    )
    word_vectors: Path | None = _option(
        None,
        "Word vectors for --augment masked, as a text file in GloVe's format. Without it, the "
        "teacher's own embeddings are used.",
        metavar="FILE",
        recorded=recorded.word_vectors,
        by_name=True,
    )
    # which epoch is scored
    checkpoint: str = _option(
        "last",
        "Which epoch of a student is scored. last: the last one. best-on-dev: the best one on the "
        "examples that are scored; the report says so. best-on-half: chosen on one half of these "
        "examples, scored on the other half.",
        recorded=recorded.checkpoint,
    )
    # where and how many at a time
    threads: int = _option(
        2,
        "CPU threads of each job. Results with different numbers of threads have different keys.",
        show_default="1, or 2 with --jobs 1",
        typed=(int | None, None),
        recorded=recorded.threads,
    )
    jobs: int = _option(
        1,
        "How many jobs run at the same time, in separate processes; a single one runs in the main "
        "process. auto: as many as cores and memory allow, on a GPU the number that takes the "
        "least time; one for a plan of less than a minute. With the same --threads, the number of "
        "jobs changes no result.",
        metavar="N|auto",
        typed=(str, AUTO),
        callback=parse_jobs,
    )
    """0 for auto"""
    executor: str = _option(
        PROCESSES,
        "Where the jobs run. processes: in processes of this machine. ray: on a Ray cluster. "
        "slurm: as jobs of Slurm. The results are the same. docs/gpu.md explains it.",
    )
    address: str = _option(
        "",
        "Address of a running Ray cluster, or auto for the cluster that this machine belongs to.",
        metavar="HOST:PORT",
        show_default="a new cluster of this machine alone",
    )
    slurm: tuple[tuple[str, str], ...] = _option(
        (),
        f"Parameters of Slurm's jobs: {', '.join(SLURM_PARAMETERS)} (in minutes), and sbatch.NAME "
        "for any other option of sbatch. setup names a file: lines of shell that each job runs "
        "first. cluster=local runs the jobs on this machine, without Slurm.",
        metavar="NAME=VALUE,...",
        show_default=f"time={SLURM_MINUTES}",
        typed=(str, ""),
        callback=parse_slurm,
    )
    offline: bool = _option(
        False,
        "Do not use the network. Read models and data from the local cache.",
        "--offline/--online",
        show_default="online; offline if the variable CI is set",
        typed=(bool, None),
        callback=asks_no_hub,
    )
    # what is done again although it is there
    rerun_stale: bool = _option(
        False,
        "Train again what another version of the code made: records, and the artefacts in the "
        "cache.",
    )
    yes: bool = _option(False, "Start long plans without asking.", "--yes", "-y")
    retry_failed: bool = _option(False, "Train failed cells again.", run=True)
    rerun: bool = _option(False, "Train everything again. Old attempts are kept.", run=True)
    # what a run writes besides records
    save_students: Path | None = _option(
        None,
        "Save each student that this run trains, and each teacher that it fine-tunes, as a folder "
        "for the library transformers.",
        metavar="FOLDER",
        run=True,
    )
    accept_suspect_teacher: bool = _option(
        False,
        "Learn from a tuned teacher also where its "
        "answers fit far better with its labels in another order.",
        run=True,
    )
    curves: bool = _option(
        False,
        "Score each student that this run trains after every epoch too, for the report's learning "
        "curves. The results stay the same.",
        run=True,
    )
    track: str = _option(
        "",
        "Write losses and scores of what this run trains to a tracker too: "
        f"{', '.join(TRACKERS)}. It has to be installed; tensorboard's files are below the folder "
        "of the reports.",
        metavar="NAME",
        run=True,
    )
    latex: bool = _option(
        False,
        "Also write files for a paper: the main table, retention and ablations as .tex, each "
        "picture as .pdf.",
        run=True,
    )
    # what no option asks for
    outline: bool = False
    """a teacher's configuration is enough, without weights and tokenizer: of `plan` alone"""
    held_back: bool = False
    """score on a tenth of the training rows, held back, in the place of the evaluation sets"""
    held_back_draw: int = 0
    """which tenth that is"""
    searches: tuple[tuple[str, Search], ...] = ()
    """spelling of a row -> how it was found"""
    notes: tuple[str, ...] = field(default=(), compare=False)
    """for the title of a report: why ``auto`` chose what it chose"""

    def __post_init__(self) -> None:
        """Values as somebody types them in Python: lists of names, folders as text, one seed,
        numbers by name."""
        own: dict[str, Any] = {}  # field -> its value in the form that the others expect
        # folders, one of which follows another
        own["results"] = Path(self.results)
        own["reports"] = reports_of(own["results"]) if self.reports is None else Path(self.reports)
        own["save_students"] = None if self.save_students is None else Path(self.save_students)
        # rows and tasks
        methods: Any = self.methods
        if not isinstance(methods, str | Path) and not methods:
            raise InputError(
                f"methods={methods}: it names no row; methods='' scores the teachers alone"
            )
        own["methods"] = _comma_joined(methods)
        own["tasks"] = _comma_joined(self.tasks)
        own["corpus"] = _several(self.corpus)
        own["metric"] = _several(self.metric)
        # numbers
        seeds: Any = self.seeds if isinstance(self.seeds, Iterable) else [self.seeds]
        own["seeds"] = parse_seeds(_comma_joined(seeds))
        own["vary"] = parse_vary(_comma_joined(self.vary))
        own["jobs"] = parse_jobs(self.jobs) if isinstance(self.jobs, str) else self.jobs
        numbers = [f"{name}={number}" for name, number in dict(self.numbers).items()]
        own["numbers"] = parse_numbers(numbers)
        for name, value in own.items():
            object.__setattr__(self, name, value)
        # tasks are read next, and their files may name them
        if self.metric:
            from bench.stats.own_metrics import load_metrics

            load_metrics(self.metric)

    @property
    def is_elsewhere(self) -> bool:
        """Whether the jobs are done on other machines, so that this one's cores, memory and
        accelerators set no limit."""
        if self.executor == RAY:
            return bool(self.address)
        return self.executor == SLURM and dict(self.slurm).get(CLUSTER) != LOCAL

    @property
    def texts(self) -> tuple[str, ...]:
        """The text of pre-training, as :func:`bench.data.corpus.read_corpus` takes it; nothing
        for generated sentences."""
        asked = self.corpus or ((SAMPLE,) if self.data in (SAMPLE, AUTO) else (PUBLIC_TEXT,))
        return () if asked == (SAMPLE,) else asked

    @classmethod
    def of(cls, told: Recorded) -> Request:
        """The request that asks for one cell, as its record states it.

        Files and folders have the names that the record knows, without their place.
        """
        stated = {}
        for option in fields(cls):
            if option.metadata and option.metadata["recorded"]:
                value = option.metadata["recorded"](told)
                if value is not None:
                    stated[option.name] = value
        return cls(**stated)

    def command(self, verb: str = "run", names: Sequence[str] = ()) -> list[str]:
        """The words of the command that asks for this request.

        Args:
            names: of the fields that are typed, in this order; without them all whose values are
                not what the command line takes where nobody types them.
        """
        words = ["python", "-m", "bench", verb]
        if not self.methods:
            words += ["--only", "teachers"]
        options = [each.name for each in fields(self) if each.metadata]
        return words + self.typed(names or [name for name in options if not self.is_usual(name)])

    def typed(self, names: Iterable[str]) -> list[str]:
        """The words of the options of these fields; none of one that is off or has no value."""
        options = {each.name: each for each in fields(self)}
        words = []
        for name in names:
            words += _typed_words(options[name], getattr(self, name))
        return words

    def is_usual(self, name: str) -> bool:
        """Whether the command line takes the same value of a field where nobody types it."""
        if name == "reports":
            return self.reports == reports_of(self.results)
        option = next(each for each in fields(self) if each.name == name)
        usual = option.default
        if option.metadata["typed"]:
            _, usual = option.metadata["typed"]
        return self.typed([name]) == _typed_words(option, usual)

    def checked(self) -> Request:
        """This request itself.

        Raises:
            InputError: an option, or two options together, make no sense; the message names them.
        """
        # each option by itself, then those that belong together
        self._check_choices()
        self._check_kinds()
        self._check_ranges()
        self._check_recipe()
        self._check_variation()
        check_executor(self.executor, self.address, self.slurm, self.device)
        self._check_augmentation()
        # a file in the place of a folder would be found only when something is written
        for name in ("results", "reports"):
            folder = getattr(self, name)
            if folder.exists() and not folder.is_dir():
                raise InputError(f"--{name} {folder}: that is a file; name a folder")
        return self

    def _check_choices(self) -> None:
        """Raises InputError where an option is none of those that are offered."""
        for name, value, known in (
            ("recipe", self.recipe, RECIPES),
            ("precision", self.precision, PRECISIONS),
            ("optimizer", self.optimizer or ADAMW, OPTIMIZERS),
            ("checkpoint", self.checkpoint, EPOCH_RULES),
            ("teacher-outputs", self.teacher_outputs or "fp32", OUTPUT_FORMATS),
            ("kernels", self.kernels, KERNELS),
        ):
            if value not in known:
                raise InputError(f"--{name} {value}: choose one of {', '.join(known)}")

    def _check_kinds(self) -> None:
        """Raises InputError where a number is none, as may be in Python or in a file."""
        for name in WHOLE_NUMBERS:
            value = getattr(self, name)
            if value is not None and (isinstance(value, bool) or not isinstance(value, Integral)):
                raise InputError(f"{_typed_option(name)} {value!r}: give a whole number")
        for name in ("epochs", "teacher_outputs_limit"):
            value = getattr(self, name)
            if value is not None and (isinstance(value, bool) or not isinstance(value, Real)):
                raise InputError(f"{_typed_option(name)} {value!r}: give a number")

    def _check_ranges(self) -> None:
        """Raises InputError where a number is too small or too large."""
        limit = self.teacher_outputs_limit
        if not limit > 0:
            raise InputError(f"--teacher-outputs-limit {limit:g}: should be above 0 gigabytes")
        # seeds that a generator of random numbers takes, each once
        different = len(set(self.seeds)) == len(self.seeds) > 0
        if not different or not 0 <= min(self.seeds) <= max(self.seeds) < 2**63:
            raise InputError("--seeds: give different whole numbers from 0 on, like 0,1,2")
        for name in ("max_train_rows", "corpus_tokens", "threads"):
            count = getattr(self, name)
            if count is not None and count < 1:
                raise InputError(f"{_typed_option(name)} {count}: should be at least 1")
        if self.jobs < 0:
            raise InputError(f"--jobs {self.jobs}: should be at least 1, or auto")
        for name, number in self.numbers:
            least, most = NUMBERS[name]
            if not least <= number <= most:
                raise InputError(f"{name} {number}: should lie between {least} and {most:,}")
        if self.epochs is not None and not 0 < self.epochs < 10_000:
            raise InputError(f"--epochs {self.epochs:g}: should be above 0 and below 10,000")

    def _check_augmentation(self) -> None:
        """Raises InputError where training rows cannot be multiplied as it is asked for."""
        if self.augment and self.augment not in AUGMENTATIONS:
            raise InputError(f"--augment {self.augment}: choose one of {', '.join(AUGMENTATIONS)}")
        if self.word_vectors is not None and self.augment != MASKED:
            raise InputError(
                f"--word-vectors goes with --augment {MASKED}: only its rules ask for the nearest "
                "words"
            )
        if self.augment and self.augment_times < 1:
            raise InputError(f"--augment-times {self.augment_times}: should be at least 1")

    def _check_recipe(self) -> None:
        """Raises InputError where options of the training do not go together."""
        if self.kernels == FAST and self.precision != "fp32":
            raise InputError(f"--kernels fast: goes with --precision fp32, not {self.precision}")
        if self.recipe != "paper":
            return
        if self.optimizer is not None:
            raise InputError(
                "--optimizer goes with --recipe common; each paper's stage has its own, and a row "
                "can name another: ROW:STAGE.optimizer=NAME"
            )
        if self.epochs is not None:
            raise InputError(
                "--epochs goes with --recipe common; each paper's schedule has its own"
            )

    def _check_variation(self) -> None:
        """Raises InputError where each seed has a teacher, and an option asks for one of all."""
        if VARIED_TEACHER not in self.vary:
            return
        if self.augment == "rules":
            raise InputError(
                f"--vary {VARIED_TEACHER}: --augment rules labels examples by one teacher; take "
                "--augment masked, or leave one out"
            )
        if self.teacher_outputs:
            raise InputError(
                f"--vary {VARIED_TEACHER}: --teacher-outputs keeps those of one teacher; leave one "
                "out"
            )


def _typed_option(name: str) -> str:
    """How the option of a field is typed."""
    return f"--{name.replace('_', '-')}"


RECORDED = tuple(each.name for each in fields(Request) if each.metadata.get("recorded"))
"""Options that records state."""
AS_RECORDED = tuple(
    each.name for each in fields(Request) if each.name in RECORDED and not each.metadata["by_name"]
)
"""Those of them that a verb about a record need not be told."""


def recipe_of(
    request: Request, default_epochs: float, longest: int, max_length: int = 128
) -> Recipe:
    """The students' recipe; ``longest`` is what the teacher can read, ``max_length`` what the task
    asks for.

    Raises:
        InputError: sequences were asked for that the teacher cannot read.
    """
    # what the request says; else what the data and the task say
    recipe = Recipe(
        name=request.recipe,
        epochs=request.epochs or default_epochs,
        optimizer=request.optimizer or ADAMW,
    )
    numbers: dict[str, Any] = {"max_length": min(max_length, longest), **dict(request.numbers)}
    if numbers["max_length"] > longest:
        raise InputError(
            f"max_length {numbers['max_length']}: the encoder reads at most {longest} tokens"
        )
    return replace(recipe, **numbers)
