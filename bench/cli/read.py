"""Verbs that read records and answer questions: list, show, report, compare, choose; and what reads
them to export."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from bench.cli.options import (
    LATEX,
    METHODS,
    METRIC,
    OF_RUN,
    OFFLINE,
    ONLY_TASKS,
    REPORTS,
    RESULTS,
    TUNED,
    YES,
    argument,
    option,
    request_from_options,
    with_request_options,
)
from bench.cli.program import Answer, verb
from bench.errors import CHECK_FAILED, OK, InputError
from bench.request import AS_RECORDED
from bench.request.choices import EMBEDDED, TEACHERS
from bench.terminal import say, say_error, shown_json

if TYPE_CHECKING:
    from bench.analysis.choose import Choice


@verb("list --check")
def list_(
    check: bool = option(False, "Also import each method and show what fails.", "--check"),
    metrics: bool = option(False, "Show the metrics instead.", "--metrics"),
) -> Answer:
    """List the methods, the tasks and the groups of tasks. With --check it also imports each method
    and shows errors."""
    if metrics:
        from bench.stats.metrics import METRICS, table

        return table(), {"metrics": list(METRICS)}, OK
    import methods as registry
    from bench.data.tasks import KNOWN
    from bench.plan.spelling import method_class
    from bench.record.known_tasks import GROUPS

    known = registry.names() | {name: summary for name, (_, summary) in registry.WRITERS.items()}
    wrong: dict[str, str] = {}
    lines = ["methods"]
    for name, summary in known.items():
        state = ""
        if check:
            try:
                method_class(name)
                state = "  ok"
            except (Exception, SystemExit) as error:
                wrong[name] = f"{type(error).__name__}: {error}"
                state = f"  FAILS: {wrong[name]}"
        lines.append(f"  {name:12} {summary}{state}")
    lines.append("tasks")
    for task in KNOWN.values():
        if task.writes:
            lines.append(f"  {task.name}: {' -> '.join(task.columns)}; {', '.join(task.metrics)}")
            continue
        kind = "regression" if task.regression else ", ".join(task.labels)
        kind = "a part of the context" if task.spans else kind
        lines.append(
            f"  {task.name:12} {' + '.join(task.columns)} -> {kind}; {', '.join(task.metrics)}"
        )
    for group, members in GROUPS.items():
        lines.append(f"  {group:12} {', '.join(members)}")
    body = {
        "methods": known,
        "tasks": list(KNOWN),
        "groups": {name: list(members) for name, members in GROUPS.items()},
    }
    return "\n".join(lines), body | {"failing": wrong}, CHECK_FAILED if wrong else OK


@verb("show b8aa0426 --results results/reference", has_json=False)
def show(
    key: str = argument(..., "The beginning of a record's key."), results: Path = RESULTS
) -> None:
    """Print one record as JSON."""
    from bench.record.store import Store

    record = Store(results).find_by_key(key, trained=True)
    # a blank in the place of a character would change what a program reads
    say(shown_json(record.model_dump_json(indent=1)))


@verb("report --results results/reference --reports reports", reads_scores=True)
def report(
    results: Path = RESULTS,
    reports: Path | None = REPORTS,
    kept: float = option(
        97.0,
        "A student keeps its teacher's score if the whole 95 % interval of the ratio is above "
        "this percentage.",
    ),
    latex: bool = LATEX,
    names: Path | None = option(
        None, "What rows are called in a paper: a TOML file with lines like row = 'Name'."
    ),
    baseline: str = option(
        "",
        "The row that the others are compared with, with the name that it has in reports.",
        metavar="ROW",
        show_default="finetune, or the teacher",
    ),
) -> Answer:
    """Write the reports of a folder of records: Markdown, HTML, CSV and pictures. The same records
    give the same bytes."""
    from bench.record.store import Store
    from bench.report.write import names_in, write_reports
    from bench.request import reports_of

    if not 0 < kept <= 200:
        raise InputError(f"--kept {kept:g}: should be a percentage of the teacher's score, like 97")
    written = write_reports(
        Store(results),
        reports or reports_of(results),
        latex,
        kept / 100,
        {} if names is None else names_in(names),
        baseline,
    )
    paths = [str(path) for path in written]
    return "\n".join(paths), paths, OK


@verb("compare tinybert finetune:start=random --results results/reference")
def compare(
    first: str = argument(
        ...,
        "A row, as it was typed for `run` or as reports print it; or several, separated by commas, "
        "whose mean is compared.",
    ),
    second: str = argument(..., "The row that it is compared with, or the mean of several."),
    tuned: bool = TUNED,
    results: Path = RESULTS,
    tasks: str = ONLY_TASKS,
    against: str = option(
        "",
        "Compare leads: subtract this row from both sides, or from the first side the one before "
        "the comma and from the second side the other. With `--theirs` that of the second side is "
        "in the other folder.",
        metavar="ROW[,ROW]",
    ),
    seeds: str = option("", "Use only these seeds, for example 0,1,2."),
    exact: bool = option(False, "Use the exact McNemar test instead of its mid-p form.", "--exact"),
    theirs: Path | None = option(
        None, "The folder of results that has the second side's rows, if it is another one."
    ),
    teacher: str = option(
        "",
        "The teacher of the first row and that of the second one, separated by a comma, where a "
        "row has several; one name is that of both. So a row is compared with itself under "
        "another teacher.",
        metavar="NAME,NAME",
    ),
    detail: bool = option(
        False,
        "Also say of the mean: the power at this difference, on how many tasks it is shown, pairs "
        "of runs, and the mean without each task.",
        "--detail",
    ),
    metric: list[str] | None = METRIC,
) -> Answer:
    """Compare two rows on the same examples: difference, interval, paired test and verdict."""
    from bench.analysis.compare import compare as carry_out
    from bench.analysis.compare_in_words import table
    from bench.analysis.mean_in_detail import sentences
    from bench.data.own_tasks import names_of_typed
    from bench.report.paired_rows import comparison_notes
    from bench.request.text import parse_seeds
    from bench.stats.power import POWER
    from bench.user_files import comma_separated

    chosen = parse_seeds(seeds) if seeds.strip() else ()
    comparisons = carry_out(
        results,
        first,
        second,
        names_of_typed(comma_separated(tasks)),
        chosen,
        exact,
        theirs,
        comma_separated(teacher),
        metric or (),
        against,
        detail,
        tuned,
    )
    texts: list[str] = []
    every_line = []
    body = {}
    for data, lines in comparisons.items():
        texts.append(f"{data}\n\n{table(first, second, lines)}\n")
        texts += [f"{sentence}\n" for sentence in sentences(lines[-1])]
        every_line += lines
        body[data] = [line.to_dict() for line in lines]
    explained = (
        "Intervals: paired bootstrap over examples, with Student's t over seeds where there are "
        "several. min. detectable: the true difference that such a comparison finds in "
        f"{100 * POWER:.0f} of 100 cases."
    )
    if any(not line.no_verdict for line in every_line):
        explained += (
            " Verdict: by p after Holm's adjustment over the tests of these two rows, whose "
            "number stands beside it. The mean is one test."
        )
    texts += [explained, *comparison_notes(every_line)]
    return "\n".join(texts), body, OK


@verb(
    "export --predictions tinybert --to predictions-of-tinybert --results results/reference",
    form="--predictions",
    reads_scores=True,
)
def predictions(
    row: str = argument(..., "A row, as it was typed for `run` or as reports print it."),
    to: Path = option(..., "A new folder."),
    tuned: bool = TUNED,
    results: Path = RESULTS,
    tasks: str = ONLY_TASKS,
) -> Answer:
    """Write what a row answered, one file for each task and seed, for others to compare with:
    `--methods predictions:FOLDER`."""
    from bench.analysis.written_predictions import write_predictions
    from bench.data.own_tasks import names_of_typed
    from bench.user_files import comma_separated

    names = names_of_typed(comma_separated(tasks))
    files, notes = write_predictions(results, row, to, names, tuned)
    lines = [f"{len(files)} files in {to}, the first is {files[0]}", *notes]
    return "\n".join(lines), {"folder": str(to), "files": files, "notes": notes}, OK


@verb("choose my.csv --quick")
def choose(
    ctx: typer.Context,
    file: str = argument(
        "",
        "A file of your examples, like my.csv, with `:text=COLUMN:label=COLUMN` behind it where "
        "that is not clear: train and measure first. Without it, records that are there are read.",
        metavar="FILE",
        show_default=False,
    ),
    teacher: str = option(EMBEDDED, f"With FILE: {TEACHERS}"),
    quick: bool = option(
        False, "With FILE: the teacher, its int8 form and three cheap rows alone.", "--quick"
    ),
    full: bool = option(False, "With FILE: three seeds of every row.", "--full"),
    batch: int = option(1, "With FILE: examples of one call that is timed.", min=1),
    students: Path = option(Path("students"), "With FILE: folder of the trained models."),
    to: Path | None = option(
        None, "With FILE: folder of the chosen model.", show_default="one in chosen/"
    ),
    yes: bool = YES,
    offline: bool = OFFLINE,
    results: Path = RESULTS,
    tasks: str = ONLY_TASKS,
    max_params: float | None = option(None, "At most this many millions of parameters."),
    max_mb: float | None = option(
        None,
        "At most this many megabytes of the file: 4 bytes a parameter, fewer where the row has "
        "weights of few bits.",
    ),
    max_flops: float | None = option(
        None, "At most this many G FLOPs for one sequence of 128 tokens."
    ),
    max_latency: float | None = option(
        None,
        "At most this many milliseconds, as the last `speed` session with the same teacher "
        "measured.",
        "--max-latency",
        "--max-ms",
    ),
    backend: str = option(
        "",
        "Latencies under this backend; a row in 8 bits has those of onnx-int8.",
        show_default="the session's first",
    ),
    threads: int | None = option(
        None, "Latencies with so many threads.", show_default="the session's first"
    ),
    min_retain: float | None = option(
        None,
        "At least this mean retention: the lower end of its interval, in percent of the teacher.",
    ),
    metric: list[str] | None = METRIC,
) -> Answer:
    """Find the best row within limits of parameters, megabytes, FLOPs, latency and what is kept of
    the teacher's score.

    With FILE it trains and measures first: the teacher, its int8 form, a linear model on words,
    and small, distilled, pruned and quantised models. It writes one page and one sheet, and
    exports the model that it recommends. Without FILE it reads records that are there.

    It says how probable it is that the row is the best of what fits, which limit binds and what
    relaxing it would gain, and how to export the row. It also names the rows that are shown to be
    within 1 point of the best one. If one of them is cheaper, it says which row is the cheapest.
    Rows that `:ablate` made do not take part; rows with a dropped loss that were typed (name:-term)
    do.
    """
    from bench.analysis.choice_in_words import in_words, latency_lines, table
    from bench.analysis.choose import choose as carry_out
    from bench.data.own_tasks import names_of_typed
    from bench.report.render import to_markdown
    from bench.user_files import comma_separated

    budget = {
        "parameters": max_params,
        "megabytes": max_mb,
        "flops": max_flops,
        "latency": max_latency,
        "retained": min_retain,
    }
    if file:
        typed = {"results": results, "students": students, "to": to, "offline": offline, "yes": yes}
        extent = _extent(quick, full, tasks)
        return _answer_question(
            tasks=file, teacher=teacher, extent=extent, budget=budget, backend=backend,
            threads=threads or 0, metric=metric or (), batch=batch, **typed,
        )  # fmt: skip
    _refuse_without_file(ctx)
    names = names_of_typed(comma_separated(tasks))
    choices = carry_out(results, budget, names, backend, threads or 0, metric or ())
    lines: list[str] = []
    for choice in choices:
        group = choice.group
        lines.append(f"{group.title}\n")
        if choice.candidates:
            lines.append(f"{to_markdown(table(choice))}\n")
        lines += in_words(choice)
        lines += latency_lines(choice, results, is_typed=bool(backend or threads))
        if choice.left_out:
            rows = [f"{group.called(row)} ({why})" for row, why in choice.left_out.items()]
            lines.append(f"Left out: {'; '.join(rows)}.")
        lines.append("")
    body = [_choice_body(choice) for choice in choices]
    is_answered = any(choice.candidates for choice in choices)
    return "\n".join(lines), body, OK if is_answered else CHECK_FAILED


def _choice_body(choice: Choice) -> dict[str, Any]:
    """A choice for programs."""
    from dataclasses import asdict

    return {
        "table": choice.group.title,
        "columns": [column.title for column in choice.columns],
        "latency_conditions": choice.group.speed.conditions,
        "busy_cores": choice.busy_cores,
        "candidates": [asdict(row) for row in choice.candidates],
        "chosen": choice.chosen.label if choice.chosen else None,
        "no_verdict": choice.no_verdict,
        "reasons": choice.reasons,
        "cheapest_within_margin": choice.cheapest.label if choice.cheapest else None,
        "bound": [asdict(bound) for bound in choice.bound],
        "export": choice.export,
        "left_out": dict(choice.left_out),
    }


WITH_FILE = (
    "batch",
    "full",
    "quick",
    "students",
    "teacher",
    "to",
    "yes",
)
"""Options of ``choose`` that need a file of examples."""


def _refuse_without_file(ctx: typer.Context) -> None:
    """Raises InputError: options of the training, and nothing to train on."""
    sources = {name: ctx.get_parameter_source(name) for name in WITH_FILE}
    typed = [name for name, source in sources.items() if source and source.name == "COMMANDLINE"]
    if typed:
        value = " VALUE" if typed[0] in ("teacher", "batch", "students", "to") else ""
        raise InputError(
            f"--{typed[0]} goes with a file of examples: choose my.csv --{typed[0]}{value}"
        )


def _extent(quick: bool, full: bool, tasks: str) -> str:
    """How much is tried. Raises InputError: options that do not go together."""
    if quick and full:
        raise InputError("--quick and --full do not go together")
    if tasks:
        raise InputError("--tasks chooses among records: leave it out with a file of examples")
    if quick:
        return "quick"
    return "full" if full else "usual"


def _answer_question(**typed: Any) -> Answer:
    """Train, measure and choose; the sentence, the model and the lines that use it."""
    from dataclasses import asdict

    from bench.analysis.answer import name_of
    from bench.analysis.choice_in_words import bound_lines
    from bench.cli.run import asking, say_planning
    from bench.workflows.alternatives import answer_question
    from bench.workflows.question import Question
    from bench.workflows.run_summary import failure_lines

    say_planning()
    found = answer_question(Question(**typed, confirm=asking()))
    for line in failure_lines(found.outcome.failures, typed["results"]):
        say_error(line)
    lines = ["No row fits.", *bound_lines(found.choice)]
    if found.answer is not None:
        lines = [found.answer.sentence]
    lines += ["", f"page: {found.page}", f"sheet: {found.sheet}"]
    if found.taken is not None:
        lines += [f"model: {found.taken.in_words()}", "", *found.taken.lines]
    group = found.choice.group
    body = {
        "sentence": found.answer and found.answer.sentence,
        "row": found.answer and name_of(group, found.answer.row.label),
        "no_verdict": found.choice.no_verdict,
        "busy_cores": found.choice.busy_cores,
        "candidates": [
            {**asdict(row), "label": name_of(group, row.label)} for row in found.choice.candidates
        ],
        "left_out": {name_of(group, row): why for row, why in found.choice.left_out.items()},
        "page": str(found.page),
        "sheet": str(found.sheet),
        "model": found.taken and {**asdict(found.taken), "folder": str(found.taken.folder)},
    }
    is_right = found.taken is not None and not found.taken.changed
    code = OK if is_right else CHECK_FAILED
    return "\n".join(lines), body, found.outcome.exit_code or code


@verb("compare --power --tasks rte,mrpc --gap 1.0", form="--power")
def power(
    tasks: str = option(
        "",
        "Tasks of GLUE, separated by commas. Their development sets give the number of examples.",
        "--tasks",
        "--task",
    ),
    examples: int | None = option(
        None, "The number of examples of your own test set, instead of --tasks."
    ),
    gap: float | None = option(
        None, "The difference that you want to detect, in points of accuracy."
    ),
    disagreement: float = option(
        10.0, "Percent of the examples that exactly one of the two systems answers correctly."
    ),
    seeds: str = option(
        "1",
        "Seeds of each system: a list like 0,1,2 or a number like 3. Two or more need --spread.",
    ),
    spread: float | None = option(
        None,
        "Standard deviation of one system's score over its seeds, in points (after ± in a report).",
    ),
    seed_disagreement: float | None = option(
        None,
        "Percent of the examples that exactly one of two seeds of the same method answers "
        "correctly. Without it as many as --disagreement says; two methods of very different "
        "kinds need a number.",
    ),
) -> Answer:
    """Compute which difference a test set can detect, and with which probability it detects a given
    one."""
    from bench.analysis.power import describe, number_of_seeds, power_analysis
    from bench.user_files import comma_separated

    count = number_of_seeds(seeds)
    answers = []
    for task in comma_separated(tasks) or [""]:
        answers.append(
            power_analysis(task, examples, gap, disagreement, count, spread, seed_disagreement)
        )
    bodies = [answer.to_dict() for answer in answers]
    text = "\n\n".join(map(describe, answers))
    return text, bodies[0] if len(bodies) == 1 else bodies, OK


@verb(
    "show --trace +3.1 --results results/h200",
    form="--trace",
    reads_scores=True,
    context_settings={"ignore_unknown_options": True},  # -0.3 is a number
)
def trace(
    number: str = argument(
        ..., "A number as it is printed: 86.6, a difference +4.5 or a speed-up 2.03x."
    ),
    results: Path = RESULTS,
) -> Answer:
    """Find the records behind a printed number. Exit code 1 if no number of the records rounds to
    it."""
    from dataclasses import asdict

    from bench.analysis import trace as analysis

    origins = analysis.trace(number, results)
    text = analysis.describe(number, origins, results)
    body = [asdict(origin) for origin in origins]
    return text, body, OK if origins else CHECK_FAILED


@verb("speed --profile --methods tinybert,microbert --teacher bert-base-uncased", form="--profile")
def profile(
    methods: str = METHODS,
    teacher: str = option("bert-base-uncased", TEACHERS),
    printed: bool = option(
        False,
        "Instead, compare our sizes with the sizes in papers, and name the counting rule that "
        "each paper seems to use.",
        "--printed",
    ),
    offline: bool = OFFLINE,
) -> Answer:
    """Count parameters, MACs and FLOPs from the configurations alone, without weights.
    `bert-base-uncased` needs no network."""
    from bench.plan.untrained import counts_of, profile_rows
    from bench.progress import quiet
    from bench.report.published import printed_and_ours, printed_sizes
    from bench.report.render import to_markdown
    from bench.report.tables.cost import sizes

    quiet()
    if printed:
        table = printed_and_ours(
            [(size, counts_of(size["row"], size["teacher"])) for size in printed_sizes()]
        )
        text = "\n\n".join([f"# {table.title}", *table.notes, to_markdown(table)])
        return text, [dict(zip(table.header, row, strict=True)) for row in table.values], OK
    rows = profile_rows(methods, teacher, say_error, offline)
    how = (
        "One sequence of 128 tokens, batch 1, eager attention. FLOPs = 2 x MACs (fvcore); two "
        "labels."
    )
    body = {name: size.model_dump() for name, size in rows}
    return f"{to_markdown(sizes(rows))}\n\n{how}", body, OK


@verb(
    "show --why b8aa0426 --results results/reference --data sample --teacher embedded --threads 2",
    form="--why",
)
@with_request_options(
    without=f"seeds reports rerun_stale yes jobs executor address slurm {OF_RUN}",
    as_recorded=AS_RECORDED,
    data="sample",
    teacher="embedded",
)
def why(
    given: dict[str, Any],
    key: str = argument(..., "The beginning of a record's key."),
    rerun_stale: bool = option(False, "Ask about a run with --rerun-stale.", "--rerun-stale"),
    retry_failed: bool = option(False, "Ask about a run with --retry-failed.", "--retry-failed"),
) -> Answer:
    """Explain why a run would find a record, or train its cell again. It trains nothing.

    It compares the code and every field of the key. Type the data, the teacher, the device, the
    corpus and the word vectors (`--word-vectors`) of the run; every other option that you leave out
    has the value of the record. Exit code 1 if a run would not find the record, or if another
    version of the code made it.
    """
    from bench.progress import quiet
    from bench.record.code import STALE
    from bench.workflows import why as workflow

    quiet()
    typed = {name for name in AS_RECORDED if given.get(name) not in (None, [])}
    asked = {
        name: value for name, value in given.items() if name not in AS_RECORDED or name in typed
    }
    results = asked.pop("results")
    request = request_from_options(**asked, rerun_stale=rerun_stale, retry_failed=retry_failed)
    answer = workflow.why(key, results, request, typed)
    is_found = not answer.again and answer.code != STALE
    return workflow.describe(answer), answer.to_dict(), OK if is_found else CHECK_FAILED
