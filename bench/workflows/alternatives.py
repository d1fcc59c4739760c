"""From a file of examples to an answer: train and measure what could be done with a classifier,
choose, export, and say why.

:func:`answer_question` reads from top to bottom: what is tried (:mod:`bench.workflows.question`),
the run, the times (:mod:`bench.workflows.time_trained`), the choice (:mod:`bench.analysis.choose`),
the answer (:mod:`bench.analysis.answer`), the model (:mod:`bench.workflows.take_chosen`), the page.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from bench.analysis.answer import Answer, Tried, answer, for_programs, in_megabytes, sheet
from bench.analysis.answer_page import Taken, page
from bench.analysis.choose import Choice, choose
from bench.analysis.limits import LIMITS, checked_limits
from bench.errors import NothingMeasured
from bench.files import slug, write_atomically
from bench.make.linear import NAME, Baseline, write_baseline
from bench.make.record import stated_sizes
from bench.measure.backends import INT8, ONNX, check_backends
from bench.plan.plan import Plan
from bench.progress import Progress
from bench.record.cell import PREDICTIONS, TEACHER
from bench.record.speed_sessions import SpeedRecord, speed_records
from bench.record.store import Store
from bench.record.task_facts import row_as_typed
from bench.report.render import to_csv
from bench.report.studies import Folder, study_of
from bench.report.study import Study
from bench.report.tables.parts import counted
from bench.report.write import write_groups
from bench.run import Outcome
from bench.workflows.question import (
    USUAL,
    Question,
    Trials,
    alternatives,
    least_of,
    refuse_if_nothing_fits,
    trials_of,
)
from bench.workflows.run import run
from bench.workflows.take_chosen import refuse_folder_of_others, take_chosen
from bench.workflows.time_trained import refuse_untimed, time_trained

SECONDS_A_MODEL = 16.0
"""Writing two ONNX files of a small model and timing it, on two cores, took 10 s, measured once;
three processes that measure memory take some 6 s of one core."""
SECONDS_TO_EXPORT = 30.0
LINEAR = f"{PREDICTIONS}:{NAME}"
"""The label of the linear model's row."""
QUANTISED = "quantised"
"""What is done to a row in 8 bits, behind what is done besides."""


@dataclass(frozen=True)
class Answered:
    """What came of a question.

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


def answer_question(question: Question, progress: Progress | None = None) -> Answered:
    """Train what is missing, time everything, choose, export the chosen model and check it.

    Raises:
        InputError: bad input, or limits that nothing can be within; no encoder was trained.
        NothingMeasured: every training failed.
    """
    progress = progress or Progress()
    check_backends([ONNX, INT8])
    checked_limits(question.budget)
    refuse_untimed(question.backend, question.threads)
    refuse_folder_of_others(question.to)

    # what is tried; the linear model is fitted now, and is a row of predictions
    trials = trials_of(question)
    folder = question.students / slug(trials.task.data.slug) / slug(trials.task.name) / NAME
    baseline = _fitted(trials, folder)
    needs = least_of([stated_sizes(baseline.about)], question.backend, has_8_bits=False)
    refuse_if_nothing_fits({**trials.least, NAME: needs}, question.limits)
    said = trials.in_words(question)
    size = in_megabytes(baseline.about.file_bytes / 1e6)
    left_out = [f"{row} is left out: {why}" for row, why in trials.left_out.items()]
    for line in [*said, *left_out, f"{NAME} is fitted in {baseline.seconds:.1f} s, {size}"]:
        progress.say(f"choose: {line}")

    # everything else, with the time that comes behind it
    methods = f"{trials.request.methods},{PREDICTIONS}:{folder}"
    request = replace(trials.request, methods=methods)
    count = len(trials.rows) + 1
    afterwards = {
        f"time and memory of {counted(count, 'model')}": count * SECONDS_A_MODEL,
        "export of the chosen model": SECONDS_TO_EXPORT,
    }
    outcome = run(request, progress, question.confirm, afterwards=afterwards)
    trials = replace(trials, request=request, task=outcome.plan.tasks[0])
    session = _timed(question, outcome.plan, baseline, progress)

    # the answer, and its model
    choice = _chosen(question, outcome.plan)
    tried = _tried(choice.group)
    examples = len(next(iter(trials.task.evaluation.values())))
    found = answer(choice, tried, examples)
    taken = None
    if found is not None:
        taken = take_chosen(question, trials, choice, found.row.label, folder, progress)

    # the page and the sheet
    name = trials.task.name
    table = sheet(choice, session, tried)
    command = _command(question)
    text = page(name, choice, found, table, session, taken, said, trials.left_out, command)
    reports = outcome.plan.request.reports / slug(name)
    write_atomically(reports / "answer.md", text)
    csv = to_csv(for_programs(table, choice.group, session))
    write_atomically(reports / "answer.csv", csv.encode())
    return Answered(outcome, choice, found, taken, reports / "answer.md", reports / "answer.csv")


def _fitted(trials: Trials, folder: Path) -> Baseline:
    """The linear model, and its folder."""
    task = trials.task
    # numbers as they come, not as encoders are trained on them
    train = task.source.load(task.task, "train")
    return write_baseline(folder, task.task, train, task.evaluation)


def _timed(question: Question, plan: Plan, baseline: Baseline, progress: Progress) -> SpeedRecord:
    """The session in which all models are timed; the linear model reads the same texts."""
    texts = next(iter(plan.tasks[0].evaluation.values())).texts

    def answered(number: int) -> np.ndarray:
        begin = number * question.batch
        return baseline.model.logits(texts[begin : begin + question.batch])

    return time_trained(plan, question.students, question.batch, {LINEAR: answered}, progress)


def _chosen(question: Question, plan: Plan) -> Choice:
    """Write the report once more, now with milliseconds, and choose in its table.

    The choice's group has intervals and the names that the page prints.

    Raises:
        NothingMeasured: no table has the task.
    """
    store = Store(plan.request.results)
    cells = [planned.cell for planned in plan.cells]
    names = {LINEAR: NAME}
    ((_, reported),) = write_groups(store, plan.request.reports, cells, plan.labels, names=names)
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
            sessions = list(speed_records(store.root, store.note))
            study = study_of(
                group,
                Folder(store, group.records, sessions),
                order=plan.labels,
                names=names,
                averages_all=True,
                backend=question.backend,
                threads=question.threads,
            )
            return replace(choice, group=study)
    raise NothingMeasured(f"no table of {task} in {question.results}")


def _tried(group: Study) -> dict[str, Tried]:
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


def _command(question: Question) -> str:
    """What was typed, but for folders of results."""
    words = ["python", "-m", "bench", "choose", question.tasks, "--teacher", question.teacher]
    if question.extent != USUAL:
        words.append(f"--{question.extent}")
    for name, value in question.limits.items():
        words += [LIMITS[name].option, f"{value:g}"]
    for metric in question.metric:
        words += ["--metric", metric]
    if question.backend:
        words += ["--backend", question.backend]
    if question.threads:
        words += ["--threads", str(question.threads)]
    if question.batch != 1:
        words += ["--batch", str(question.batch)]
    return shlex.join(words)
