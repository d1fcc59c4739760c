"""From a file of examples to an answer: train and measure what could be done with a classifier,
choose, export, and say why."""

from __future__ import annotations

import shlex
import shutil
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType

import numpy as np

import methods
from bench.analysis.answer import Answer, Tried, answer, in_megabytes, sheet, with_busy_cores
from bench.analysis.answer_page import Taken, page
from bench.analysis.choose import LIMITS, Candidate, Choice, checked_limits, choose
from bench.data.own_tasks import expand, is_own, typed_tasks
from bench.errors import InputError, NothingMeasured
from bench.files import slug, write_atomically
from bench.make.export import folder_for
from bench.make.linear import FILE as LINEAR_FILE
from bench.make.linear import NAME, LinearModel, lines_that_use_it, load, write_baseline
from bench.measure.backends import INT8, ONNX, check_backends
from bench.plan.build import build
from bench.plan.plan import Plan, TaskPlan
from bench.plan.request import EMBEDDED, SAMPLE, Request
from bench.plan.spelling import parse_methods
from bench.plan.student_cells import check_row
from bench.plan.untrained import graph_problem
from bench.progress import Progress, duration
from bench.record.cell import CHECKPOINT, PLUS_INT8, PREDICTIONS, TEACHER
from bench.record.schema import Record
from bench.record.speed_sessions import BUSY_CORES, SpeedRecord, write_speed
from bench.record.store import Store
from bench.record.task_facts import row_as_typed
from bench.report.groups import ReportGroup
from bench.report.render import to_csv
from bench.report.resampled import resample
from bench.report.tables.registry import draw_means
from bench.report.write import write_groups
from bench.run import Outcome
from bench.stats.metrics import metric_of
from bench.stats.own_metrics import named_metrics
from bench.typed_files import TypedFile, checked
from bench.workflows.export import HF, export
from bench.workflows.run import run

ROWS = "alternatives.toml"
QUICK, USUAL, FULL = "quick", "usual", "full"
SEEDS = MappingProxyType({QUICK: (0,), USUAL: (0,), FULL: (0, 1, 2)})
EXTENT_IN_WORDS = MappingProxyType(
    {
        QUICK: "a first look (without --quick: every row)",
        USUAL: "every row, one seed (--quick: a first look, --full: three seeds)",
        FULL: "every row, three seeds",
    }
)
ROUNDS = 60
"""How often each model is timed: so many for a quantile of 95 %."""
SECONDS_A_MODEL = 10.0
"""Writing two ONNX files of a small model and timing it, on two cores; measured once."""
SECONDS_TO_EXPORT = 30.0
RECORD = "record.txt"
"""The file of an exported folder that names its record."""
LINEAR = f"{PREDICTIONS}:{NAME}"
"""The label of the linear baseline's row."""
QUANTISED = "quantised"
"""What is done to a row in 8 bits, behind what is done besides."""


class AlternativeRow(TypedFile):
    """A row of the file that ships with the methods."""

    row: str
    done: str
    distils: bool = False
    quick: bool = False


class Alternatives(TypedFile):
    """The file: its rows, in the order of the sheet."""

    rows: tuple[AlternativeRow, ...]


@dataclass(frozen=True)
class Question:
    """What somebody asks of his data.

    Attributes:
        tasks: a file of examples, with its settings behind it.
        teacher: as for ``run --teacher``.
        extent: :data:`QUICK`, :data:`USUAL` or :data:`FULL`.
        budget: values of :data:`bench.analysis.choose.LIMITS` by their names.
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


@dataclass(frozen=True)
class Answered:
    """What came of it.

    Attributes:
        outcome: of the run.
        answer: None where no row fits.
        taken: the exported model; None where no row fits.
        page, sheet: files that were written.
    """

    outcome: Outcome
    choice: Choice
    answer: Answer | None
    taken: Taken | None
    page: Path
    sheet: Path


def alternatives() -> tuple[AlternativeRow, ...]:
    """The rows that ship with the methods."""
    file = Path(methods.__file__).with_name(ROWS)
    body = tomllib.loads(file.read_text(encoding="utf-8"))
    return checked(Alternatives, body, ROWS).rows


def answer_question(question: Question, progress: Progress | None = None) -> Answered:
    """Train what is missing, time everything, choose, export the chosen model and check it.

    Raises:
        InputError: bad input, before anything is trained.
        NothingMeasured: every training failed.
    """
    progress = progress or Progress()
    check_backends([ONNX, INT8])
    checked_limits(question.budget)
    if question.to is not None and question.to.exists() and not (question.to / RECORD).is_file():
        raise InputError(f"--to {question.to}: is there already; name a new folder")
    request, task, rows, said = _planned(question)
    linear_folder, linear = _with_linear(question, task, progress)
    request = replace(request, methods=f"{request.methods},{PREDICTIONS}:{linear_folder}")
    seconds = SECONDS_A_MODEL * (len(rows) + 1) + SECONDS_TO_EXPORT
    for line in [EXTENT_IN_WORDS[question.extent], *said]:
        progress.say(f"choose: {line}")
    progress.say(f"choose: behind the plan's time about {duration(seconds)} to time and to export")
    outcome = run(request, progress, question.confirm)
    plan = outcome.plan
    task = plan.tasks[0]
    session = _timed(question, plan, linear, progress)
    choice = _chosen(question, request, plan)
    tried = _tried(choice.group)
    examples = len(next(iter(task.evaluation.values())))
    found = answer(choice, tried, examples)
    taken = None
    if found is not None:
        taken = _taken(question, request, task, choice, found.row, linear_folder, progress)
    return _written(question, outcome, choice, found, taken, session, tried, said)


def _planned(question: Question) -> tuple[Request, TaskPlan, list[str], list[str]]:
    """The request of the rows that this teacher allows, its task, the rows, and what to say first.

    Raises:
        InputError: not one task of the user's own, or one that is neither classes nor numbers.
    """
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
    asked = [each for each in alternatives() if each.quick or question.extent != QUICK]
    rows = []
    left_out = []
    typed = [f"{TEACHER}{PLUS_INT8}"]
    for each in asked:
        (row,) = parse_methods(each.row)
        try:
            check_row(row, [task])
        except (ValueError, InputError) as error:
            left_out.append(f"{each.row} is left out: {error}")
            continue
        rows.append(each.row)
        typed.append(each.row)
        if not graph_problem(row, task.checkpoint):
            typed.append(f"{each.row}{PLUS_INT8}")
    count = len(SEEDS[question.extent])
    trained = f"trained with {count} seeds" if count > 1 else "trained with one seed"
    said = [f"{', '.join(rows)}: {trained}", *left_out]
    return replace(request, methods=",".join(typed)), task, rows, said


def _with_linear(
    question: Question, task: TaskPlan, progress: Progress
) -> tuple[Path, LinearModel]:
    """The folder of the linear baseline, and the model."""
    folder = question.students / slug(task.data.slug) / slug(task.name) / NAME
    # numbers as they come, not as encoders are trained on them
    train = task.source.load(task.task, "train")
    model, seconds = write_baseline(folder, task.task, train, task.evaluation)
    size = (folder / LINEAR_FILE).stat().st_size / 1e6
    progress.say(f"choose: {NAME} is fitted in {seconds:.1f} s, {in_megabytes(size)}")
    return folder, model


def _timed(question: Question, plan: Plan, linear: LinearModel, progress: Progress) -> SpeedRecord:
    """Time the saved models of the first seed; returns the session, which is written."""
    from bench.data.checkpoints import opener, tokenizer_of
    from bench.data.encoding import encode
    from bench.make.record import now
    from bench.measure.busy import OtherWork, busy_facts
    from bench.measure.capacity import usable_cores
    from bench.measure.latency import load_of_task
    from bench.measure.machine import environment, revision
    from bench.measure.serving import TORCH, Served, time_served

    started = now()
    task = plan.tasks[0]
    in_8_bits = {each.cell.label for each in plan.cells if each.in_8_bits}
    served = []
    for record in _first_of_each(Store(plan.request.results), plan):
        folder = _folder_of(question, task, record)
        if folder is None:
            continue
        model = opener(spans=False).from_pretrained(folder).eval()
        has_graph = record.cell.label in in_8_bits
        backends = (TORCH, ONNX, INT8) if has_graph else (TORCH,)
        served.append(Served(row_as_typed(record.cell), model, backends))

    split = next(iter(task.evaluation.values()))
    tokenizer = tokenizer_of(task.checkpoint)
    tokens = encode(tokenizer, split, task.recipe.max_length, task.recipe.truncation).tokens
    load = load_of_task(f"{task.name} of {task.source.slug}", tokens, question.batch)
    texts = split.texts

    def answered(number: int) -> np.ndarray:
        begin = number * question.batch
        return linear.logits(texts[begin : begin + question.batch])

    threads = tuple(dict.fromkeys((1, usable_cores())))
    other_work = OtherWork()
    with progress.task("choose: milliseconds") as update:
        timings = time_served(
            served, {LINEAR: answered}, load, question.batch, threads, ROUNDS, update
        )
    others = other_work.cores()
    if others is not None and others >= BUSY_CORES:
        progress.say(
            f"choose: other processes used {others:.1f} cores meanwhile, so milliseconds mean "
            "little; the page says so"
        )
    session = SpeedRecord(
        teacher=task.teacher.name,
        timings=timings,
        energy="not measured: by this command",
        code=revision(),
        env=environment("cpu") | busy_facts(others),
        started=started,
        finished=now(),
    )
    return write_speed(plan.request.results, session)[0]


def _first_of_each(store: Store, plan: Plan) -> list[Record]:
    """The finished fp32 record of each row's first seed, as the plan has them."""
    records: dict[str, Record] = {}
    for planned in plan.cells:
        record = store.find(planned.cell)
        is_model = planned.cell.method != PREDICTIONS
        if is_model and record is not None and record.status == "ok":
            records.setdefault(planned.cell.label, record)
    return list(records.values())


def _folder_of(question: Question, task: TaskPlan, record: Record) -> Path | None:
    """The folder of a record's model; None where it could not be saved."""
    if record.cell.method == TEACHER and task.teacher.origin == "given":
        return task.checkpoint.folder
    folder = folder_for(question.students, record)
    return folder if (folder / "config.json").is_file() else None


def _chosen(question: Question, request: Request, plan: Plan) -> Choice:
    """Write the report once more, now with milliseconds, and choose in its table.

    The choice's group has intervals and the names that the page prints.

    Raises:
        NothingMeasured: no table has the task.
    """
    store = Store(request.results)
    cells = [planned.cell for planned in plan.cells]
    names = {LINEAR: NAME}
    ((_, reported),) = write_groups(store, request.reports, cells, plan.labels, names=names)
    task = plan.tasks[0].name
    choices = choose(
        question.results,
        question.budget,
        [task],
        question.backend,
        question.threads,
        question.metric,
    )
    # one folder of records may have several tables of a task: of other teachers, or other recipes
    for choice in choices:
        group = choice.group
        if group.identity == reported.identity:
            group.names = names
            group.order = plan.labels
            draw_means(group, resample(group, store))
            return choice
    raise NothingMeasured(f"no table of {task} in {question.results}")


def _tried(group: ReportGroup) -> dict[str, Tried]:
    """Label of each row -> what it is."""
    known = {each.row: each for each in alternatives()}
    tried = {}
    for label in group.systems:
        record = group.records_of(label)[0]
        typed = row_as_typed(record.cell)
        name = group.called(label)
        if typed == TEACHER:
            is_full = not record.point
            called = "The teacher as it is" if is_full else "Int8 of the teacher"
            tried[label] = Tried("nothing" if is_full else QUANTISED, called)
        elif typed == LINEAR:
            tried[label] = Tried("no encoder", f"A linear model on words, {name},")
        elif typed in known:
            done = known[typed].done + (f", {QUANTISED}" if record.point else "")
            tried[label] = Tried(done, f"{name} ({done})", known[typed].distils)
    return tried


def _taken(
    question: Question,
    request: Request,
    task: TaskPlan,
    choice: Choice,
    row: Candidate,
    linear_folder: Path,
    progress: Progress,
) -> Taken:
    """Export the row's best seed, or find it exported, and compare its answers with the record's.

    Raises:
        InputError: the folder is there and is another model's.
    """
    group = choice.group
    column = choice.columns[0]
    record = max(
        group.finished(row.label, column), key=lambda r: r.scores[column.evaluation][column.metric]
    )
    name = f"{task.name}-{slug(group.called(row.label))}-{record.key[:8]}"
    to = question.to or Path("chosen") / name
    if to.exists():
        shutil.rmtree(_own_folder(to, record))
    if record.cell.method == PREDICTIONS:
        return _linear_taken(task, record, linear_folder, to, Store(question.results))
    form = INT8 if record.point else (ONNX if question.backend == ONNX else HF)
    saved = None if record.cell.method == CHECKPOINT else question.students
    asked = replace(request, save_students=None, yes=True)
    found = export(record.key, question.results, asked, to, form, saved, progress, typed={"tasks"})
    if not found["folder"]:
        raise InputError(f"{group.called(row.label)} cannot be exported: {found['why']}")
    (to / RECORD).write_text(f"{record.key}\n", encoding="utf-8")
    sets = found["sets"].values()
    return Taken(
        folder=to,
        megabytes=found["bytes"] / 1e6,
        examples=sum(each["examples"] for each in sets),
        changed=sum(each["changed"] for each in sets),
        lines=_lines_of_card(to, form, task),
    )


def _own_folder(to: Path, record: Record) -> Path:
    """A folder that an earlier answer wrote for the same record.

    Raises:
        InputError: it is another one.
    """
    file = to / RECORD
    if not file.is_file() or file.read_text(encoding="utf-8").strip() != record.key:
        raise InputError(f"--to {to}: is there already; name a new folder")
    return to


def _linear_taken(task: TaskPlan, record: Record, folder: Path, to: Path, store: Store) -> Taken:
    """The linear baseline as a folder of its own."""
    to.mkdir(parents=True)
    shutil.copy(folder / LINEAR_FILE, to / LINEAR_FILE)
    (to / RECORD).write_text(f"{record.key}\n", encoding="utf-8")
    model = load(to / LINEAR_FILE)
    stored = store.predictions(record)
    examples = 0
    changed = 0
    for name, split in task.evaluation.items():
        logits = model.logits(split.texts)
        known = stored[f"logits.{name}"]
        examples += len(logits)
        is_other = logits.argmax(1) != known.argmax(1) if task.task.labels else logits != known
        changed += int(is_other.sum())
    lines = [line.replace("THIS-FOLDER", str(to)) for line in lines_that_use_it(task.task)]
    size = (to / LINEAR_FILE).stat().st_size / 1e6
    return Taken(to, size, examples, changed, tuple(lines))


def _lines_of_card(folder: Path, form: str, task: TaskPlan) -> tuple[str, ...]:
    """The indented lines of an exported folder's page: Python that uses it and prints an answer."""
    text = (folder / "README.md").read_text(encoding="utf-8").split("---\n", 2)[2]
    lines = [line[4:] for line in text.splitlines() if line.startswith("    ")]
    if form == HF and task.task.labels:
        lines.append("print(model.config.id2label[int(logits.argmax())])")
    elif form == HF:
        lines.append("print(float(logits))")
    return tuple(line.replace("THIS-FOLDER", str(folder)) for line in lines)


def _written(
    question: Question,
    outcome: Outcome,
    choice: Choice,
    found: Answer | None,
    taken: Taken | None,
    session: SpeedRecord,
    tried: Mapping[str, Tried],
    said: Sequence[str],
) -> Answered:
    """Write the page and the sheet."""
    task = outcome.plan.tasks[0].name
    table = sheet(choice, session, tried)
    folder = outcome.plan.request.reports / slug(task)
    body = page(task, choice, found, table, session, taken, said, [_command(question)])
    write_atomically(folder / "answer.md", body)
    write_atomically(folder / "answer.csv", to_csv(with_busy_cores(table, session)).encode())
    return Answered(outcome, choice, found, taken, folder / "answer.md", folder / "answer.csv")


def _command(question: Question) -> str:
    """What was typed, but for folders of results."""
    words = ["python", "-m", "bench", "choose", question.tasks, "--teacher", question.teacher]
    if question.extent != USUAL:
        words.append(f"--{question.extent}")
    for name, value in question.budget.items():
        if value is not None:
            words += [LIMITS[name].option, f"{value:g}"]
    for name in question.metric:
        words += ["--metric", name]
    if question.backend:
        words += ["--backend", question.backend]
    if question.threads:
        words += ["--threads", str(question.threads)]
    if question.batch != 1:
        words += ["--batch", str(question.batch)]
    return shlex.join(words)
