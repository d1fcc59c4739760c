"""What a person asked for, with ``auto`` and defaults resolved and the reasons kept for the title of a report."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from bench.data.augmentation import Augmentation
from bench.errors import InputError, unknown
from bench.optimizers import OPTIMIZERS
from bench.plan.executor_options import CLUSTER, LOCAL, PROCESSES, RAY, SLURM, check_executor, named_values
from bench.record.cell import Search
from bench.record.recipe import ADAMW, Recipe
from bench.user_files import comma_separated

EPOCH_RULES = {"last": "", "best-on-dev": "dev", "best-on-half": "half"}
"""What --checkpoint takes -> the rule of selection in a cell."""
CHECKPOINT_OPTION_OF_RULE = {rule: option for option, rule in EPOCH_RULES.items()}
TF32 = "tf32"
PRECISIONS = ("fp32", TF32, "bf16")
RECIPES = ("common", "paper")
OUTPUT_FORMATS = {"fp32": "<f4", "fp16": "<f2"}
"""What --teacher-outputs takes -> numpy's name of such a number."""
EXACT, FAST = "exact", "fast"
KERNELS = (EXACT, FAST)
NUMBERS = {"batch_size": (1, 4096), "max_length": (8, 4096), "micro_batch": (1, 4096)}
"""Numbers of the students' recipe that a request may set -> the least and the most. A teacher keeps the recipe's."""
DIGITS = 9
"""Of a whole number that somebody types, at most."""
AUTO, EMBEDDED, HUB, SAMPLE = "auto", "embedded", "hub", "sample"
HUB_TEACHER = "bert-base-uncased"
PUBLIC_TEXT = "hub:Salesforce/wikitext/wikitext-103-raw-v1"
"""What pre-training reads where the data are real and nobody names a text."""


@dataclass(frozen=True)
class Request:
    """The arguments of ``bench run``; also those of ``bench.api.run`` in Python."""

    methods: str = "all"
    tasks: str = "glue"
    seeds: tuple[int, ...] = (0,)
    data: str = AUTO
    teacher: str = AUTO
    results: Path = Path("results/runs")
    reports: Path = Path("reports/runs")
    recipe: str = "common"
    optimizer: str | None = None
    """of the students on their tasks, a name of bench.optimizers; teachers and stages on text keep theirs"""
    precision: str = "fp32"
    device: str = "auto"
    deterministic: bool = False
    """on an accelerator, take only kernels that give the same bits each time"""
    max_train_rows: int | None = None
    epochs: float | None = None
    corpus: tuple[str, ...] = ()
    """text for pre-training: files, or names of the hub like :data:`PUBLIC_TEXT`; ``sample`` alone for generated sentences; nothing for
    what goes with the data"""
    corpus_tokens: int | None = None
    threads: int = 2
    jobs: int = 1
    """pieces of work that are done at the same time, each in a process of its own; 0: as many as cores and memory allow.
    No part of a result's identity."""
    executor: str = PROCESSES
    """where jobs are done, one of :data:`bench.plan.executor_options.EXECUTORS`. No part of a result's identity, as the two
    next ones"""
    address: str = ""
    """of a Ray cluster that is there; "" for one of this machine alone, which the run starts and ends"""
    slurm: tuple[tuple[str, str], ...] = ()
    """parameters of Slurm's jobs"""
    offline: bool = False
    yes: bool = False
    retry_failed: bool = False
    rerun: bool = False
    rerun_stale: bool = False
    """train again what other code than today's made: records, and what they are made from in the cache"""
    save_students: Path | None = None
    """keep each student that this run trains below this folder"""
    curves: bool = False
    """score each student on the development set after every epoch, for the report's learning curves. No part of a result's identity"""
    latex: bool = False
    """write the report's tables for a paper too"""
    augment: str = ""
    augment_times: int = 10
    word_vectors: Path | None = None
    checkpoint: str = "last"
    """which epoch of a student is scored: the last, or the best on the development rows or on half of them"""
    teacher_outputs: str = ""
    """fp32 or fp16: compute the teacher's outputs once, and read them from a file in every epoch; "" for a pass every step"""
    teacher_outputs_limit: float = 20.0
    """gigabytes that such a file may take, for each task"""
    kernels: str = EXACT
    """of the trainings of students on a CPU, on tasks and on text: exact, or fast ones, which round otherwise"""
    numbers: tuple[tuple[str, int], ...] = ()
    """of the students' recipe in the place of its own: those of :data:`NUMBERS`"""
    held_back: bool = False
    """score on a tenth of the training rows, held back, in the place of the evaluation sets"""
    searches: tuple[tuple[str, Search], ...] = ()
    """spelling of a row -> how it was found"""
    notes: tuple[str, ...] = field(default=(), compare=False)

    @property
    def augmentation(self) -> Augmentation | None:
        """How training rows are multiplied; None where they are not."""
        if not self.augment:
            return None
        return Augmentation(self.augment, self.augment_times, vectors=self.word_vectors)

    @property
    def is_elsewhere(self) -> bool:
        """Whether the jobs are done on other machines, so that this one's cores, memory and accelerators set no limit."""
        if self.executor == RAY:
            return bool(self.address)
        return self.executor == SLURM and dict(self.slurm).get(CLUSTER) != LOCAL

    @property
    def texts(self) -> tuple[str, ...]:
        """What pre-training reads, as :func:`bench.data.corpus.read_corpus` takes it; nothing for generated sentences."""
        asked = self.corpus or ((SAMPLE,) if self.data in (SAMPLE, AUTO) else (PUBLIC_TEXT,))
        return () if asked == (SAMPLE,) else asked

    def checked(self) -> Request:
        """This request itself.

        Raises:
            InputError: an option, or two options together, make no sense; the message names them.
        """
        for name, value, known in (
            ("recipe", self.recipe, RECIPES),
            ("precision", self.precision, PRECISIONS),
            ("optimizer", self.optimizer, OPTIMIZERS),
            ("checkpoint", self.checkpoint, EPOCH_RULES),
            ("teacher-outputs", self.teacher_outputs or None, OUTPUT_FORMATS),
            ("kernels", self.kernels, KERNELS),
        ):
            if value is not None and value not in known:
                raise InputError(f"--{name} {value}: choose one of {', '.join(known)}")
        if not self.teacher_outputs_limit > 0:
            raise InputError(f"--teacher-outputs-limit {self.teacher_outputs_limit:g}: should be above 0 gigabytes")
        if self.kernels == FAST and self.precision != "fp32":
            raise InputError(f"--kernels fast: goes with --precision fp32, not {self.precision}")
        different = len(set(self.seeds)) == len(self.seeds) > 0
        if not different or not 0 <= min(self.seeds) <= max(self.seeds) < 2**63:
            raise InputError("--seeds: give different whole numbers from 0 on, like 0,1,2")
        for name, count in (
            ("max-train-rows", self.max_train_rows),
            ("corpus-tokens", self.corpus_tokens),
            ("threads", self.threads),
        ):
            if count is not None and count < 1:
                raise InputError(f"--{name} {count}: should be at least 1")
        if self.jobs < 0:
            raise InputError(f"--jobs {self.jobs}: should be at least 1, or auto")
        for name, number in self.numbers:
            if name not in NUMBERS:
                raise unknown("number of the recipe", name, list(NUMBERS))
            least, most = NUMBERS[name]
            if not least <= number <= most:
                raise InputError(f"{name} {number}: should lie between {least} and {most:,}")
        if self.optimizer is not None and self.recipe == "paper":
            raise InputError(
                "--optimizer goes with --recipe common; each paper's stage has its own, and a row can name another: "
                "ROW:STAGE.optimizer=NAME"
            )
        if self.epochs is not None and not 0 < self.epochs < 10_000:
            raise InputError(f"--epochs {self.epochs:g}: should be above 0 and below 10,000")
        if self.epochs is not None and self.recipe == "paper":
            raise InputError("--epochs goes with --recipe common; each paper's schedule has its own")
        check_executor(self.executor, self.address, self.slurm, self.device)
        if self.augmentation is not None:
            self.augmentation.checked()
        elif self.word_vectors is not None:
            raise InputError("--word-vectors goes with --augment masked")
        for name, folder in (("results", self.results), ("reports", self.reports)):
            if folder.exists() and not folder.is_dir():
                raise InputError(f"--{name} {folder}: that is a file; name a folder")
        return self


def threads_for(jobs: int) -> int:
    """The threads of a job where nobody says a number: one, because threads wait for each other where cores are busy; two
    where only one job at a time was asked for."""
    return 2 if jobs == 1 else 1


def parse_jobs(text: str) -> int:
    """``auto`` is 0."""
    if text == "auto":
        return 0
    if not text.isdecimal() or len(text) > DIGITS or int(text) == 0:
        raise InputError(f"--jobs {text}: give a whole number from 1 on, or auto")
    return int(text)


def parse_seeds(text: str) -> tuple[int, ...]:
    try:
        return tuple(int(part) for part in text.split(",") if part.strip())
    except ValueError:
        raise InputError(f"--seeds {text}: give whole numbers, like 0,1,2") from None


def parse_numbers(texts: Sequence[str]) -> tuple[tuple[str, int], ...]:
    """``["batch_size=8"]`` -> numbers of a request, in alphabetical order.

    Raises:
        InputError: not NAME=NUMBER, a name that is not there, or one given twice.
    """
    given = named_values("--set", texts, NUMBERS, "NAME=NUMBER, like batch_size=16")
    for name, value in given:
        if not value.isdecimal() or len(value) > DIGITS:
            raise InputError(f"--set {name}={value}: give NAME=NUMBER, like batch_size=16")
    return tuple((name, int(value)) for name, value in given)


def resolve_auto(request: Request, accelerator: bool, is_real: bool) -> Request:
    """Replace ``auto`` for data and teacher: the real thing where it is there, else the offline pair; say which.

    Args:
        is_real: whether there is an accelerator, and the real thing was downloaded before or the hub answers.

    Raises:
        InputError: under CI (the variable CI is set), where one types what one means.
    """
    if request.data == AUTO and brings_all_data(request):  # it decides the default corpus, and nobody asked for it
        request = replace(request, data=HUB if is_real else SAMPLE)
    options = {"data": (request.data, HUB, SAMPLE), "teacher": (request.teacher, HUB_TEACHER, EMBEDDED)}
    values = {name: there if is_real else here for name, (given, there, here) in options.items() if given == AUTO}
    if not values:
        return request
    if os.environ.get("CI"):
        raise InputError("under CI --data and --teacher are typed, not chosen: add --data sample --teacher embedded")
    notes = request.notes if is_real else (*request.notes, _auto_note(request, values, accelerator))
    return replace(request, **values, notes=notes)  # type: ignore[arg-type]


def brings_all_data(request: Request) -> bool:
    """Whether every task is a file of one's own, which names its examples: --data is of no interest then."""
    return all(name.endswith(".toml") for name in comma_separated(request.tasks))


def _auto_note(request: Request, values: Mapping[str, str], accelerator: bool) -> str:
    """Why ``auto`` chose what it chose, what was typed, and what to type for the real thing."""
    if request.device == "cpu":
        why = "--device cpu was typed"
    elif not accelerator:
        why = "there is no accelerator"
    else:
        why = (
            "--offline was typed"
            if request.offline
            else "the hub does not answer, and the real thing was not downloaded before"
        )
    given = {} if brings_all_data(request) else {"data": request.data}
    typed = [
        f"{name} {value} was typed"
        for name, value in {**given, "teacher": request.teacher}.items()
        if name not in values
    ]
    chosen = " and ".join(f"{name} {value}" for name, value in values.items())
    real = {"data": HUB, "teacher": HUB_TEACHER}
    words = " ".join(f"--{name} {real[name]}" for name in values)
    return f"{'; '.join([*typed, why])}, so auto chose {chosen}. For the real thing type {words}"


def recipe_of(request: Request, default_epochs: float, longest: int) -> Recipe:
    """The students' recipe; ``longest`` is what the teacher can read.

    Raises:
        InputError: sequences were asked for that the teacher cannot read.
    """
    recipe = Recipe(name=request.recipe, epochs=request.epochs or default_epochs, optimizer=request.optimizer or ADAMW)
    own = dict(request.numbers)
    if own.get("max_length", 0) > longest:
        raise InputError(f"max_length {own['max_length']}: the teacher reads at most {longest} tokens")
    return replace(recipe, **{"max_length": min(recipe.max_length, longest), **own})  # type: ignore[arg-type]
