"""What somebody asks of his data, and what is tried to answer it: the rows of the file that ships
with the methods, but for those that his teacher or his limits of size leave out."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType

import methods
from bench.analysis.candidates import megabytes_of
from bench.analysis.limits import FLOPS, LIMITS, MEGABYTES, OF_SIZE, PARAMETERS, stated
from bench.data.own_tasks import expand, is_own, typed_tasks
from bench.errors import InputError
from bench.plan.build import build
from bench.plan.plan import TaskPlan
from bench.plan.spelling import MethodRow, parse_methods
from bench.plan.student_cells import check_row
from bench.plan.untrained import graph_problem, planned_sizes
from bench.record.cell import PLUS_INT8, TEACHER
from bench.record.schema import Sizes
from bench.request import Request
from bench.request.choices import EMBEDDED, SAMPLE
from bench.stats.metrics import metric_of
from bench.stats.own_metrics import named_metrics
from bench.typed_files import TypedFile, checked
from methods.core.artefacts import is_of_task

ROWS = "alternatives.toml"
QUICK = "quick"
USUAL = "usual"
FULL = "full"
SEEDS = MappingProxyType({QUICK: (0,), USUAL: (0,), FULL: (0, 1, 2)})
EXTENT_IN_WORDS = MappingProxyType(
    {
        QUICK: "a first look (without --quick: every row)",
        USUAL: "every row, one seed (--quick: a first look, --full: three seeds)",
        FULL: "every row, three seeds",
    }
)
MAY_SHRINK = 1.1
"""How many times a limit a row may need by its plan, where its shape depends on the examples: a
pruned model is counted as if all layers lost the same share."""


class AlternativeRow(TypedFile):
    """A row of the file that ships with the methods."""

    row: str
    done: str
    distils: bool = False
    quick: bool = False


class Alternatives(TypedFile):
    """The file: its rows, in the order of the sheet."""

    rows: tuple[AlternativeRow, ...]


def alternatives() -> tuple[AlternativeRow, ...]:
    """The rows that ship with the methods."""
    file = Path(methods.__file__).with_name(ROWS)
    body = tomllib.loads(file.read_text(encoding="utf-8"))
    return checked(Alternatives, body, ROWS).rows


@dataclass(frozen=True)
class Question:
    """What somebody asks of his data.

    Attributes:
        tasks: a file of examples, with its settings behind it.
        teacher: as for ``run --teacher``.
        extent: :data:`QUICK`, :data:`USUAL` or :data:`FULL`.
        budget: values of :data:`bench.analysis.limits.LIMITS` by their names.
        backend, threads: of the latencies that a limit is compared with; the session's first.
        metric: as for :func:`bench.analysis.choose.choose`.
        batch: examples of one call that is timed.
        students: folder of the trained models.
        to: folder of the exported model; None for one of its own name in ``chosen``.
        confirm: asked where the plan is long.
    """

    tasks: str
    teacher: str = EMBEDDED
    extent: str = USUAL
    budget: Mapping[str, float | None] = field(default_factory=dict)
    backend: str = ""
    threads: int = 0
    metric: Sequence[str] = ()
    batch: int = 1
    results: Path = Path("results/runs")
    students: Path = Path("students")
    to: Path | None = None
    offline: bool = False
    yes: bool = False
    confirm: Callable[[str], bool] | None = None

    @property
    def limits(self) -> dict[str, float]:
        """The limits that were set."""
        return {name: value for name, value in self.budget.items() if value is not None}


@dataclass(frozen=True)
class Trials:
    """What is tried.

    Attributes:
        request: the run that trains and scores it, but for the linear model.
        task: the one task.
        rows: what is trained beside the teacher.
        left_out: row -> why it is not trained, as a clause.
        least: row, or the teacher -> the least that any form of it needs of each limit of size.
    """

    request: Request
    task: TaskPlan
    rows: tuple[str, ...]
    left_out: Mapping[str, str]
    least: Mapping[str, Mapping[str, float | None]]

    def in_words(self, question: Question) -> list[str]:
        """A line each on how much is tried, the seeds, and the limits."""
        count = len(SEEDS[question.extent])
        seeds = f"{count} seeds" if count > 1 else "one seed"
        rows = ", ".join(self.rows) or "no row"
        lines = [EXTENT_IN_WORDS[question.extent], f"{rows}: trained with {seeds}"]
        if question.limits:
            options = [
                f"{LIMITS[name].option} {value:g}" for name, value in question.limits.items()
            ]
            lines.append(f"limits: {', '.join(options)}")
        return lines


def trials_of(question: Question) -> Trials:
    """What this teacher and these limits allow to try.

    Raises:
        InputError: not one task of the user's own, or one that is neither classes nor numbers.
    """
    _check_task(question)
    request = Request(
        methods="",
        tasks=question.tasks,
        metric=tuple(name for name in question.metric if ":" in name),
        teacher=question.teacher,
        data=SAMPLE,
        seeds=SEEDS[question.extent],
        results=question.results,
        save_students=question.students,
        offline=question.offline,
        yes=question.yes,
        threads=1,
        jobs=0,
    )
    task = build(request).tasks[0]

    # the teacher is a reference, whatever the limits are
    sizes = planned_sizes(None, task.checkpoint, task.task.num_labels)
    least = {TEACHER: least_of(sizes, question.backend, has_8_bits=True)}
    typed = [f"{TEACHER}{PLUS_INT8}"]

    # the rows, each in 8 bits too where it has such a form
    rows = []
    left_out = {}
    for each in alternatives():
        if question.extent == QUICK and not each.quick:
            continue
        (row,) = parse_methods(each.row)
        try:
            check_row(row, [task])
        except (ValueError, InputError) as error:
            left_out[each.row] = str(error)
            continue
        has_8_bits = not graph_problem(row, task.checkpoint)
        sizes = planned_sizes(row, task.checkpoint, task.task.num_labels)
        least[each.row] = least_of(sizes, question.backend, has_8_bits)
        why = _too_large(row, task, least[each.row], question.limits, has_8_bits)
        if why:
            left_out[each.row] = why
            continue
        rows.append(each.row)
        typed.append(each.row)
        if has_8_bits:
            typed.append(f"{each.row}{PLUS_INT8}")
    request = replace(request, methods=",".join(typed))
    return Trials(request, task, tuple(rows), left_out, least)


def _check_task(question: Question) -> None:
    """Raises InputError: not one task of the user's own, one that is neither classes nor numbers,
    or a metric that does not suit it."""
    if not all(map(is_own, typed_tasks(question.tasks))) or len(expand(question.tasks)) != 1:
        raise InputError(f"choose {question.tasks}: name one file of examples, like my.csv")
    ((own, _),) = expand(question.tasks)
    if own.spans or own.writes:
        raise InputError(f"choose {question.tasks}: it is for classes and numbers")
    metrics = [metric_of(name) for name in named_metrics(question.metric)]
    if metrics and all(metric.form is not own.form for metric in metrics):
        raise InputError(
            f"--metric {metrics[0].name}: it does not score such labels as {own.name}'s"
        )


def least_of(sizes: Sequence[Sizes], backend: str, has_8_bits: bool) -> dict[str, float | None]:
    """Name of each limit of size -> the least that a form of a model needs, as
    :class:`bench.analysis.candidates.Candidate` has it; None where nothing is known.

    Args:
        sizes: one for each operating point.
        backend: that opens the file; "" for torch.
        has_8_bits: whether it has a form in 8 bits, whose file has a byte a parameter or more.
    """
    megabytes = []
    for each in sizes:
        megabytes.append(megabytes_of([each], backend, in_8_bits=False))
        if has_8_bits:
            megabytes.append(each.parameters / 1e6)
    return {
        PARAMETERS: min(each.parameters for each in sizes) / 1e6,
        MEGABYTES: min((size for size in megabytes if size is not None), default=None),
        FLOPS: min(each.flops for each in sizes) / 1e9,
    }


def _too_large(
    row: MethodRow,
    task: TaskPlan,
    least: Mapping[str, float | None],
    limits: Mapping[str, float],
    has_8_bits: bool,
) -> str:
    """Why no form of a row can be within a limit of size, as a clause; "" where one may be."""
    artefacts = row.method.requires(task.checkpoint.config)
    depends_on_examples = any(is_of_task(each, task.checkpoint.config) for each in artefacts)
    times = MAY_SHRINK if depends_on_examples else 1.0
    for name in OF_SIZE:
        needs = least[name]
        if name not in limits or needs is None or LIMITS[name].allows(needs / times, limits[name]):
            continue
        form = " in 8 bits" if name == MEGABYTES and has_8_bits else ""
        return f"it {stated(name, needs)}{form}, and {LIMITS[name].option} is {limits[name]:g}"
    return ""


def refuse_if_nothing_fits(
    least: Mapping[str, Mapping[str, float | None]], limits: Mapping[str, float]
) -> None:
    """Refuse limits of size that nothing which is tried can be within.

    Args:
        least: of :class:`Trials`, with the linear model.

    Raises:
        InputError: with the least that any of them needs.
    """
    of_size = {name: limits[name] for name in OF_SIZE if name in limits}
    if any(_may_fit(needs, of_size) for needs in least.values()):
        return
    said = []
    for name, limit in of_size.items():
        # the row that needs the least
        known: dict[str, float] = {}
        for row, needs in least.items():
            cost = needs[name]
            if cost is not None:
                known[row] = cost
        smallest = min(known, key=lambda row: known[row])
        needed = stated(name, known[smallest])
        said.append(f"{LIMITS[name].option} is {limit:g}, and the smallest, {smallest}, {needed}")
    raise InputError(f"nothing that is tried can be within these limits: {'; '.join(said)}")


def _may_fit(needs: Mapping[str, float | None], limits: Mapping[str, float]) -> bool:
    """Whether nothing is known against a form of a row that is within all these limits."""
    for name, limit in limits.items():
        cost = needs[name]
        if cost is not None and not LIMITS[name].allows(cost, limit):
            return False
    return True
