"""The command line: strings in, exit code out. Heavy libraries are imported inside the verbs."""

from __future__ import annotations

import inspect
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from bench.errors import BAD_INPUT, CHECK_FAILED, INTERRUPTED, OK, BenchError, InputError, one_line, what_to_install
from bench.options import (
    AS_RECORDED,
    REQUEST,
    Data,
    Device,
    ExperimentFile,
    Json,
    Latex,
    Methods,
    Offline,
    OnlyTasks,
    Reports,
    Results,
    TableNames,
    Tasks,
    Teacher,
    Threads,
    takes,
)
from bench.record.aside import heard_by

if TYPE_CHECKING:
    from bench.run import Outcome
    from bench.upkeep import Survey

app = typer.Typer(
    name="bench",
    help="Compare BERT compression methods: fine-tune the teacher, distil the students, measure, report.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    add_completion=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Start here: python -m bench run --methods microbert,tinybert --tasks glue",
)


def _print_version(wanted: bool) -> None:
    if wanted:
        from bench import __version__

        print(__version__)
        raise typer.Exit


@app.callback()
def _program(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="print the version and end")
    ] = False,
) -> None:
    """Options of the program itself."""


store = typer.Typer(help="Upkeep of a folder of records and of the cache: verify, repair, gc.", no_args_is_help=True)
app.add_typer(store, name="store")


INTERRUPTION = (
    "interrupted; what was finished is kept. Run the same command again: it resumes with what is missing, "
    "a long training at its last saved state"
)


def main() -> NoReturn:
    """Run the command line; never shows a traceback for something a person can mend."""
    with heard_by(lambda note: print(f"bench: {note.said()}", file=sys.stderr)):
        _run()


def _run() -> NoReturn:
    try:
        code = app(standalone_mode=False)
    except BenchError as error:
        fail(str(error), error.exit_code)
    except KeyboardInterrupt:
        code = INTERRUPTED
    except BrokenPipeError:
        sys.exit(1)
    except OSError as error:
        if not error.filename:
            raise
        fail(f"{error.filename}: {error.strerror}; name another file or folder, or mend this one", BAD_INPUT)
    except ModuleNotFoundError as error:
        lacking = what_to_install(error)
        if not lacking:
            raise
        fail(lacking, BAD_INPUT)
    except Exception as error:
        usage = _usage_error(error)
        if usage is None:
            raise
        fail(usage, BAD_INPUT)
    if code == INTERRUPTED:  # the argument parser catches Ctrl-C and returns this
        fail(INTERRUPTION, INTERRUPTED)
    sys.exit(code if isinstance(code, int) else 0)


def _usage_error(error: Exception) -> str | None:
    """One line for what the argument parser found wrong, or None for anything else."""
    if isinstance(error, typer.Abort):
        return "not started"
    # typer carries its own copy of click, so its usage errors are known by what they can do
    show = getattr(error, "format_message", None)
    return str(show()) if show else None


def fail(message: str, code: int) -> NoReturn:
    print(f"bench: {message}", file=sys.stderr)
    sys.exit(code)


def _request(**given: Any) -> Any:
    from bench.plan.request import Request, parse_jobs, parse_numbers, parse_seeds, threads_for

    given["numbers"] = parse_numbers(given.get("numbers") or ())
    if "jobs" in given:
        given["jobs"] = parse_jobs(given["jobs"])
    if given.get("threads") is None:
        given["threads"] = threads_for(given.get("jobs", 0))
    if "seeds" in given:
        given["seeds"] = parse_seeds(given["seeds"])
    given["corpus"] = tuple(str(path) for path in given.get("corpus") or ())
    return Request(**given)


def _ended(outcome: Outcome) -> int:
    """Say how a run ended: its tables, what to type next, what failed. Returns its exit code."""
    from bench.ending import said_of_failures

    for text in outcome.shown:
        print(f"\n{text}")
    for line in said_of_failures(outcome.failures, outcome.plan.request.results):
        print(line, file=sys.stderr)
    return outcome.exit_code


def _typed(ctx: typer.Context, given: dict[str, Any], experiment: Path | None, table: str) -> set[str]:
    """The options that somebody typed for `run` or `plan`: they go before an experiment's own.

    Raises:
        InputError: no row, or options that do not go together.
    """
    if not given["methods"].strip():
        raise InputError("--methods names no row; try --methods all, or `teacher` for the teachers alone")
    typed = {name for name in given if (source := ctx.get_parameter_source(name)) and source.name == "COMMANDLINE"}
    if experiment is not None and "methods" in typed:
        raise InputError("--methods and --experiment do not go together: the file names the rows of each table")
    if experiment is None and "augment_times" in typed and not given["augment"]:
        raise InputError("--augment-times goes with --augment masked or --augment rules")
    if experiment is None and table:
        raise InputError("--table chooses from an experiment; add --experiment FILE.toml")
    return typed


def _asking() -> Callable[[str], bool] | None:
    """How to ask whether a long plan should start; None where nobody sits at a terminal."""
    return typer.confirm if sys.stdin.isatty() else None


def _write_json(path: Path | None, body: Any) -> None:
    if path is not None:
        from bench.record.store import write_atomically

        write_atomically(path, (json.dumps(body, indent=1) + "\n").encode())


@app.command(epilog="Example: python -m bench run --methods finetune,microbert:ablate --tasks rte,mrpc --seeds 0,1,2")
@takes(*REQUEST)
def run(
    given: dict[str, Any],
    ctx: typer.Context,
    retry_failed: Annotated[bool, typer.Option("--retry-failed", help="Run failed cells again.")] = False,
    rerun: Annotated[bool, typer.Option("--rerun", help="Run everything again; old attempts are kept.")] = False,
    experiment: ExperimentFile = None,
    table: TableNames = "",
    save_students: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER", help="Keep each student that this run trains, as a folder that transformers opens."
        ),
    ] = None,
    latex: Latex = False,
) -> int:
    """Train what is missing, score it, and write the report."""
    given |= {"retry_failed": retry_failed, "rerun": rerun, "save_students": save_students, "latex": latex}
    typed = _typed(ctx, given, experiment, table)
    if experiment is not None:
        from bench.experiment import run_experiment

        outcome = run_experiment(
            experiment, _request(**given), typed, table, given["tasks"] if "tasks" in typed else "", _asking()
        )
    else:
        from bench.run import run as carry_out

        outcome = carry_out(_request(**given), confirm=_asking())
    return _ended(outcome)


@app.command(
    epilog="Example: python -m bench plan --methods microbert:ablate --tasks rte --data sample --teacher embedded"
)
@takes(*(name for name in REQUEST if name not in ("reports", "yes")))
def plan(
    given: dict[str, Any],
    ctx: typer.Context,
    experiment: ExperimentFile = None,
    table: TableNames = "",
    json_file: Json = None,
) -> None:
    """Show what run would do: cells, what they share, time and disk; of an experiment also its tasks' settings. Starts nothing."""
    typed = _typed(ctx, given, experiment, table)
    request = _request(**given)
    if experiment is not None:
        from bench.experiment import describe_experiment
        from bench.progress import quiet

        quiet()
        text, body = describe_experiment(experiment, request, typed, table, given["tasks"] if "tasks" in typed else "")
        print(text)
        _write_json(json_file, body)
        return
    from bench.plan.build import build
    from bench.plan.show import as_json, describe
    from bench.progress import quiet

    quiet()
    made = build(request)
    print(describe(made))
    _write_json(json_file, as_json(made))


@app.command(
    epilog="Example: python -m bench pretrain --methods minilmv2,tinybert --corpus books.txt --corpus-tokens 4000000"
)
@takes(
    "methods",
    "teacher",
    "corpus",
    "corpus_tokens",
    "recipe",
    "precision",
    "device",
    "threads",
    "offline",
    "rerun_stale",
    teacher="bert-base-uncased",
)
def pretrain(given: dict[str, Any], json_file: Json = None) -> None:
    """Train the rows' general stages on unlabelled text, each with its own objective; `run` finds them in the cache."""
    from dataclasses import asdict

    from bench.pretrain import pretrain as carry_out
    from bench.progress import quiet

    quiet()
    made = carry_out(_request(**given))
    for one in made:
        print(one.describe())
    _write_json(json_file, [asdict(one) for one in made])


@app.command(
    epilog="Example: python -m bench tune --methods kd,tinybert --tasks mrpc --trials 6 --data sample --teacher embedded"
)
@takes(
    *(
        name
        for name in REQUEST
        if name not in ("recipe", "numbers", "augment", "augment_times", "word_vectors", "checkpoint")
    ),
    methods=inspect.Parameter.empty,
    tasks=inspect.Parameter.empty,
)
def tune(
    given: dict[str, Any],
    trials: Annotated[int, typer.Option(help="Rows that are tried of each method; the same for all.")] = 6,
    json_file: Json = None,
) -> int:
    """Search every method's grid with the same number of trials on training rows held back; then train the best."""
    from dataclasses import asdict

    from bench.tune import tune as carry_out

    chosen, outcome = carry_out(_request(**given), trials, confirm=_asking())
    for found in chosen:
        print(f"{found.task}: {found.search.of} -> {found.row}; {found.search.describe()}")
    _write_json(json_file, [{**asdict(found), "search": found.search.model_dump()} for found in chosen])
    return _ended(outcome)


@app.command(epilog="Example: python -m bench convert huawei-noah/TinyBERT_General_4L_312D tinybert-general")
def convert(
    source: Annotated[str, typer.Argument(help="A folder with a pytorch_model.bin, or a hub name.")],
    target: Annotated[Path, typer.Argument(help="The new folder.")],
    offline: Offline = False,
) -> None:
    """Make a pytorch_model.bin into safetensors; it is opened with weights_only=True, so nothing in it can run."""
    from bench.convert import convert as carry_out

    folder, count = carry_out(source, target, offline)
    print(f"{folder}: {count} tensors")


@app.command("list", epilog="Example: python -m bench list --check")
def list_(
    check: Annotated[bool, typer.Option("--check", help="Also import every method and show what fails.")] = False,
    metrics: Annotated[bool, typer.Option("--metrics", help="A table of the metrics instead.")] = False,
    json_file: Json = None,
) -> int:
    """The methods and tasks there are. Imports no method unless asked to."""
    if metrics:
        from bench.stats.metrics import METRICS, table

        print(table())
        _write_json(json_file, {"metrics": list(METRICS)})
        return 0
    import methods as registry
    from bench.data.tasks import GLUE, GROUPS
    from bench.plan.contract import method_class

    known, refused = registry.names(), registry.refused()
    wrong = dict(refused) if check else {}
    print("methods")
    for name, summary in known.items():
        state = ""
        if check:
            try:
                method_class(name)
                state = "  ok"
            except (Exception, SystemExit) as error:
                wrong[name] = f"{type(error).__name__}: {error}"
                state = f"  FAILS: {wrong[name]}"
        print(f"  {name:12} {summary}{state}")
    for why in refused.values():
        print(f"  cannot be used: {one_line(why)}")
    print("tasks")
    for task in GLUE.values():
        kind = "regression" if task.regression else ", ".join(task.labels)
        print(f"  {task.name:12} {' + '.join(task.columns)} -> {kind}; {', '.join(task.metrics)}")
    for group, members in GROUPS.items():
        print(f"  {group:12} {', '.join(members)}")
    _write_json(
        json_file,
        {
            "methods": known,
            "tasks": list(GLUE),
            "groups": {k: list(v) for k, v in GROUPS.items()},
            "failing": wrong,
            "refused": refused,
        },
    )
    return 1 if wrong else 0


@app.command(epilog="Example: python -m bench show e08b4374 --results results/reference")
def show(
    key: Annotated[str, typer.Argument(help="The beginning of a record's key.")],
    results: Results = Path("results/runs"),
) -> None:
    """Print one record as JSON."""
    from bench.record.store import Store

    print(Store(results).one(key, trained=True).model_dump_json(indent=1))


@app.command(epilog="Example: python -m bench profile --methods tinybert,microbert --teacher bert-base-uncased")
def profile(
    methods: Methods = "all",
    teacher: Teacher = "bert-base-uncased",
    printed: Annotated[
        bool, typer.Option("--printed", help="Instead: what papers print beside ours, and the rule that gives it.")
    ] = False,
    json_file: Json = None,
) -> None:
    """Parameters, MACs and FLOPs from configurations alone: no weights, no network."""
    from bench.measure.students import counts_of, profile_rows
    from bench.progress import quiet
    from bench.report.forms import grid
    from bench.report.printed_sizes import beside_counts, printed_sizes
    from bench.report.tables import sizes

    quiet()
    if printed:
        table = beside_counts([(size, counts_of(size.row, size.teacher)) for size in printed_sizes()])
        print("\n\n".join([f"# {table.title}", grid(table), *table.notes]))
        _write_json(json_file, [dict(zip(table.header, row, strict=True)) for row in table.values])
        return
    rows = profile_rows(methods, teacher, lambda note: print(note, file=sys.stderr))
    print(grid(sizes(rows)))
    print("\nOne sequence of 128 tokens, batch 1, eager attention. FLOPs = 2 x MACs (fvcore); two labels.")
    _write_json(json_file, {name: size.model_dump() for name, size in rows})


@app.command(
    epilog="Example: python -m bench speed --methods tinybert,distilbert --teacher embedded --backends sdpa,onnx"
)
def speed(
    methods: Methods = "all",
    teacher: Teacher = "bert-base-uncased",
    lengths: Annotated[
        str, typer.Option(help="Tokens, separated by commas; task for a task's own lengths.")
    ] = "32,128",
    batches: Annotated[str, typer.Option(help="Sequences of a batch, separated by commas.")] = "1,32",
    backends: Annotated[str, typer.Option(help="eager, sdpa, compile, onnx, separated by commas.")] = "sdpa",
    dtype: Annotated[str, typer.Option(help="fp32, bf16 or fp16.")] = "fp32",
    device: Device = "auto",
    threads: Threads = 2,
    rounds: Annotated[int, typer.Option(help="Times that every system is timed, in turns.")] = 30,
    task: Annotated[str | None, typer.Option(help="The task whose lengths `--lengths task` means.")] = None,
    data: Data = "sample",
    offline: Offline = False,
    memory: Annotated[
        bool, typer.Option("--memory/--no-memory", help="Peak memory, in processes of their own.")
    ] = True,
    results: Results = Path("results/runs"),
    reports: Reports = Path("reports/runs"),
    json_file: Json = None,
) -> None:
    """Latency, throughput, memory and speed-up of students beside their teacher, timed in turns."""
    from bench.report.write import write_speed_report
    from bench.speed import SpeedRequest, measure

    parts = [part.strip() for part in batches.split(",") if part.strip()]
    if not all(part.isdecimal() and len(part) < 10 for part in parts):
        raise InputError(f"--batches {batches}: give whole numbers, like 1,32")
    request = SpeedRequest(
        methods=methods,
        teacher=teacher,
        lengths=tuple(part.strip() for part in lengths.split(",") if part.strip()),
        batches=tuple(int(part) for part in parts),
        backends=tuple(part.strip() for part in backends.split(",") if part.strip()),
        dtype=dtype,
        device=device,
        threads=threads,
        rounds=rounds,
        task=task,
        data=data,
        offline=offline,
        memory=memory,
        results=results,
    )
    record, path = measure(request)
    report = write_speed_report(record, reports)
    print(report.read_text(encoding="utf-8"))
    print(f"record: {path}\nreport: {report}")
    _write_json(json_file, record.model_dump(mode="json"))


@app.command(
    epilog="Example: python -m bench check --baseline results/reference --results results/runs --tasks rte --seeds 0"
)
def check(
    baseline: Annotated[Path, typer.Option(help="Folder of the records to compare with.")],
    results: Results = Path("results/runs"),
    tasks: Annotated[str, typer.Option(help="Only these tasks of the baseline, separated by commas.")] = "",
    methods: Annotated[str, typer.Option(help="Only these rows, as they are spelled; and the teacher.")] = "",
    seeds: Annotated[str, typer.Option(help="Compare only these seeds; the others still tell the noise.")] = "",
    margin: Annotated[float, typer.Option(help="Points of a score that may be lost.")] = 2.0,
    speed_margin: Annotated[float, typer.Option("--speed-margin", help="Share of a speed-up that may be lost.")] = 0.1,
    budget: Annotated[
        list[str] | None,
        typer.Option(metavar="METRIC=POINTS", help="Points of one metric that may be lost. Repeat for more."),
    ] = None,
    accept: Annotated[
        Path | None, typer.Option(help="TOML file of regressions that were looked at: row, what, reason.")
    ] = None,
    summary_file: Annotated[
        Path | None, typer.Option("--summary", help="Also write the Markdown to this file.")
    ] = None,
    junit_file: Annotated[Path | None, typer.Option("--junit", help="Also write JUnit XML to this file.")] = None,
    json_file: Json = None,
) -> int:
    """Compare records with a baseline. Exit code: 0 passed, 1 regressed, 3 inconclusive, 4 not measured, 5 not comparable."""
    from dataclasses import asdict

    from bench.check import EXIT_CODES, Limits, budgets_of, junit, overall, read_acceptances, summary
    from bench.check import accept as accept_known
    from bench.check import check as compare
    from bench.plan.request import parse_seeds
    from bench.record.store import write_atomically

    if not 0 <= margin <= 100 or not 0 <= speed_margin < 1:
        raise InputError("--margin should lie between 0 and 100 points, --speed-margin between 0 and 1")
    listed = [[part.strip() for part in text.split(",") if part.strip()] for text in (tasks, methods)]
    chosen = parse_seeds(seeds) if seeds.strip() else ()
    limits = Limits(margin, speed_margin, budgets_of(budget or []))
    acceptances = read_acceptances(accept) if accept is not None else []
    findings = accept_known(compare(baseline, results, listed[0], listed[1], chosen, limits), acceptances)
    print(summary(findings))
    if summary_file is not None:
        write_atomically(summary_file, summary(findings).encode())
    if junit_file is not None:
        write_atomically(junit_file, junit(findings))
    _write_json(json_file, {"verdict": overall(findings), "findings": [asdict(finding) for finding in findings]})
    return EXIT_CODES[overall(findings)]


@app.command(
    epilog="Example: python -m bench choose --max-flops 1.5 --tasks cola,mrpc,rte,sst2 --results results/reference"
)
def choose(
    results: Results = Path("results/runs"),
    tasks: OnlyTasks = "",
    max_params: Annotated[float | None, typer.Option(help="Millions of parameters at most.")] = None,
    max_flops: Annotated[float | None, typer.Option(help="G FLOPs at most, of a sequence of 128 tokens.")] = None,
    max_latency: Annotated[
        float | None,
        typer.Option(help="Milliseconds at most, as the last `speed` session with the same teacher has them."),
    ] = None,
    json_file: Json = None,
) -> int:
    """The rows that fit a budget, the best of them, and the cheapest that these examples cannot separate from it."""
    from dataclasses import asdict

    from bench.choose import Budget
    from bench.choose import choose as carry_out
    from bench.report.forms import grid

    for name, value in (("params", max_params), ("flops", max_flops), ("latency", max_latency)):
        if value is not None and not value > 0:
            raise InputError(f"--max-{name} {value:g}: should be above 0")
    named = [part.strip() for part in tasks.split(",") if part.strip()]
    choices = carry_out(results, Budget(max_params, max_flops, max_latency), named)
    for choice in choices:
        print(f"{choice.group.title}\n")
        if choice.candidates:
            print(f"{grid(choice.table())}\n")
        print("\n".join(choice.said()))
        if choice.group.speed_conditions:
            print(f"Latency: {choice.group.speed_conditions}.")
        if choice.left_out:
            print("Left out: " + "; ".join(f"{row} ({why})" for row, why in choice.left_out.items()) + ".")
        print()
    _write_json(
        json_file,
        [
            {
                "table": choice.group.title,
                "columns": [column.title for column in choice.columns],
                "candidates": [{**asdict(c), "verdict": c.verdict} for c in choice.candidates],
                "cheapest_as_good": choice.as_good[0].label if choice.as_good else None,
                "left_out": choice.left_out,
            }
            for choice in choices
        ],
    )
    return OK if any(choice.candidates for choice in choices) else CHECK_FAILED


@app.command(epilog="Example: python -m bench compare tinybert finetune:start=random --results results/reference")
def compare(
    first: Annotated[str, typer.Argument(help="A row, as reports name it.")],
    second: Annotated[str, typer.Argument(help="The row it is compared with.")],
    results: Results = Path("results/runs"),
    tasks: OnlyTasks = "",
    seeds: Annotated[str, typer.Option(help="Only these seeds, like 0,1,2.")] = "",
    exact: Annotated[
        bool, typer.Option("--exact", help="The exact McNemar test in the place of its mid-p form.")
    ] = False,
    json_file: Json = None,
) -> None:
    """Two rows on the same examples: difference, interval, paired test, and better, worse or cannot tell."""
    from dataclasses import asdict

    from bench.compare import compare as carry_out
    from bench.compare import said_of, table
    from bench.plan.request import parse_seeds

    named = [part.strip() for part in tasks.split(",") if part.strip()]
    found = carry_out(results, first, second, named, parse_seeds(seeds) if seeds.strip() else (), exact)
    for data, lines in found.items():
        print(f"{data}\n\n{table(first, second, lines)}\n")
    print(
        "Intervals by paired bootstrap over examples, with Student's t over seeds where there are several. Least detectable: the "
        "true difference that four in five such comparisons find. Verdicts by p after Holm's adjustment over the tasks; the mean "
        "is not adjusted."
    )
    for said in said_of([line for lines in found.values() for line in lines]):
        print(said)
    _write_json(
        json_file,
        {
            data: [{**asdict(line), "difference": line.difference, "verdict": line.verdict} for line in lines]
            for data, lines in found.items()
        },
    )


@app.command(epilog="Example: python -m bench power --tasks rte,mrpc --gap 1.0")
def power(
    tasks: Annotated[
        str,
        typer.Option(
            "--tasks", "--task", help="Tasks of GLUE, separated by commas: the sizes of their development sets."
        ),
    ] = "",
    examples: Annotated[int | None, typer.Option(help="Or: examples of a test set of your own.")] = None,
    gap: Annotated[float | None, typer.Option(help="Points of accuracy that one wants to find.")] = None,
    disagreement: Annotated[
        float, typer.Option(help="Percent of the examples that only one of the two systems answers rightly.")
    ] = 10.0,
    seeds: Annotated[
        str,
        typer.Option(help="Seeds of each system, like 0,1,2, or how many, like 3; two or more need --spread."),
    ] = "1",
    spread: Annotated[
        float | None,
        typer.Option(help="Points by which one system's score scatters over its seeds (after ± in a report)."),
    ] = None,
    json_file: Json = None,
) -> None:
    """What a test set can tell: the least gap that it finds, and how surely it finds a given one."""
    from bench.power import describe, number_of_seeds, what_it_tells

    count = number_of_seeds(seeds)
    named = [part.strip() for part in tasks.split(",") if part.strip()] or [""]
    answers = [what_it_tells(task, examples, gap, disagreement, count, spread) for task in named]
    print("\n\n".join(map(describe, answers)))
    _write_json(json_file, answers[0] if len(answers) == 1 else answers)


@app.command(epilog="Example: python -m bench audit paper.tex tables.csv")
def audit(
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILE...", help="Tidy CSV, Markdown, LaTeX or the text of a page; several are held together."
        ),
    ],
    json_file: Json = None,
) -> int:
    """Find what does not add up in printed tables; exit code 1 if something does not."""
    from dataclasses import asdict

    from bench.audit.checks import audit as carry_out
    from bench.audit.claims import claims
    from bench.audit.findings import table
    from bench.audit.sheets import read_all

    pages = read_all(files)
    sheets = pages.sheets
    findings = carry_out(sheets) + [f for name, text in pages.texts.items() for f in claims(text, name, sheets)]
    counted = f"{len(sheets)} tables, {sum(len(sheet.rows) for sheet in sheets)} rows"
    if pages.without:
        print(f"no table of numbers in {', '.join(pages.without)}\n")
    print(f"{table(findings)}\n\n{len(findings)} findings in {counted}" if findings else f"nothing found in {counted}")
    _write_json(json_file, [asdict(finding) for finding in findings])
    return CHECK_FAILED if findings else OK


@app.command(
    "check-paper",
    epilog="Example: python -m bench check-paper paper.tex --results results/reference --row Ours=microbert",
)
def check_paper(
    file: Annotated[Path, typer.Argument(help="The paper's tables: LaTeX, Markdown or CSV.")],
    results: Results = Path("results/runs"),
    row: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=ROW", help="Name in the paper and row of the records. Repeat for more."),
    ] = None,
    json_file: Json = None,
) -> int:
    """Hold a paper's numbers against the records; exit code 1 if one differs."""
    from dataclasses import asdict

    from bench.check_paper import DIFFERS, describe
    from bench.check_paper import check_paper as carry_out

    checked = carry_out(file, results, row or [])
    print(describe(checked))
    _write_json(json_file, [asdict(one) for one in checked])
    return CHECK_FAILED if any(one.verdict == DIFFERS for one in checked) else OK


@app.command(
    epilog="Example: python -m bench trace +4.5 --results results/reference",
    context_settings={"ignore_unknown_options": True},  # -0.3 is a number
)
def trace(
    number: Annotated[
        str, typer.Argument(help="A number as it is printed: 86.6, a difference +4.5, a speed-up 2.03x.")
    ],
    results: Results = Path("results/runs"),
    json_file: Json = None,
) -> int:
    """Where a printed number comes from: what in the records rounds to it; exit code 1 if nothing does."""
    from dataclasses import asdict

    from bench.trace import describe
    from bench.trace import trace as carry_out

    origins = carry_out(number, results)
    print(describe(number, origins, results))
    _write_json(json_file, [asdict(origin) for origin in origins])
    return OK if origins else CHECK_FAILED


@app.command(
    epilog="Example: python -m bench verify e08b4374 --results results/reference --data sample --teacher embedded"
)
@takes("data", "teacher", "results", "device", "corpus", "corpus_tokens", "offline", data="sample", teacher="embedded")
def verify(
    given: dict[str, Any],
    key: Annotated[str, typer.Argument(help="The beginning of a record's key.")],
    join: Annotated[
        bool,
        typer.Option(
            "--join",
            help="If other code made the record and the bits are equal: write that both codes are equivalent to a file "
            "of the results, for review. Asked at a terminal.",
        ),
    ] = False,
    from_scratch: Annotated[
        bool,
        typer.Option(
            "--from-scratch",
            help="Take nothing from the cache: the teacher and the starts are made again too. The cache stays as it is.",
        ),
    ] = False,
    json_file: Json = None,
) -> int:
    """Run a record again: bitwise equal, equal within rounding, statistically equal, or different (exit code 1)."""
    from bench.verify import join_codes
    from bench.verify import verify as carry_out

    results = given.pop("results")
    answer = carry_out(key, results, _request(**given), from_scratch=from_scratch)
    print(answer.describe())
    body = {"verdict": answer.verdict, "why": answer.why, "code": answer.code, "source": answer.source}
    _write_json(json_file, body | {"from_cache": answer.from_cache, "made_again": answer.made_again})
    if answer.equivalent:
        ask = _asking()
        if join or (ask is not None and ask("Write that the two codes are equivalent, for review?")):
            print(f"written, for review: {join_codes(answer, results)}")
        else:
            again = f"python -m bench verify {key} --join --results {results}"
            print(
                f"`{again}`, with the other options that you typed, writes that the two codes are equivalent, for review"
            )
    return answer.exit_code


@app.command(
    epilog="Example: python -m bench why e08b4374 --results results/reference --data sample --teacher embedded --threads 1"
)
@takes(
    *(name for name in REQUEST if name not in ("seeds", "reports", "yes")),
    **dict.fromkeys(AS_RECORDED),
    data="sample",
    teacher="embedded",
)
def why(
    given: dict[str, Any],
    key: Annotated[str, typer.Argument(help="The beginning of a record's key.")],
    retry_failed: Annotated[
        bool, typer.Option("--retry-failed", help="As of `run`: it runs failed cells again.")
    ] = False,
    json_file: Json = None,
) -> int:
    """Why a run with these options would find a record, or train its cell again; what is not typed is as in the record.

    It compares the code and every field of the key, and trains nothing. Exit code 1 if a run would not find the record
    or other code made it.
    """
    from bench.progress import quiet
    from bench.why import why as carry_out

    quiet()
    typed = {name for name in AS_RECORDED if given[name] not in (None, [])}
    asked = {name: value for name, value in given.items() if name not in AS_RECORDED or name in typed}
    results = asked.pop("results")
    answer = carry_out(key, results, _request(**asked, retry_failed=retry_failed), typed)
    print(answer.describe())
    _write_json(json_file, answer.as_json())
    return answer.exit_code


@app.command("check-method", epilog="Example: python -m bench check-method tinybert")
def check_method(
    name: Annotated[str, typer.Argument(help="A method of `list`, with settings if you like, or module:Class.")],
    json_file: Json = None,
) -> int:
    """Check a method against the contract on a tiny teacher and task; exit code 1 if something is found."""
    from bench.progress import quiet

    method, settings = _method_and_settings(name)
    quiet()
    from bench.train.conformance import CHECKS, check_method

    width = max(map(len, CHECKS))
    done = check_method(
        method,
        on_check=lambda c: print(f"  {c.name:{width}}  {c.seconds:5.1f} s  {c.found or 'ok'}", flush=True),
        settings=settings,
    )
    wrong = [check for check in done if not check.passed]
    took = sum(check.seconds for check in done)
    print(
        f"{name}: {f'{len(wrong)} of ' if wrong else ''}{len(done)} checks {'failed' if wrong else 'passed'} in {took:.0f} s"
    )
    _write_json(json_file, [{"check": c.name, "found": c.found, "seconds": c.seconds} for c in done])
    return CHECK_FAILED if wrong else OK


def _method_and_settings(name: str) -> tuple[type, dict[str, Any]]:
    """A method's class by its registered name, with settings behind it, or as module:Class while it is being written."""
    import methods as registry
    from bench.plan.contract import class_being_written
    from bench.plan.spelling import defaults, parse_one

    module, colon, _ = name.partition(":")
    if not colon or module in registry.names():
        row = parse_one(name)
        if row.dropped or row.pace != 1 or row.numbers:
            raise InputError(
                f"{name}: a method is checked with settings, not with dropped terms, another pace or numbers of a stage"
            )
        default = defaults(type(row.method))
        return type(row.method), {n: value for n in default if (value := vars(row.method)[n]) != default[n]}
    return class_being_written(name), {}


@app.command(epilog="Example: python -m bench report --results results/reference --reports reports")
def report(
    results: Results = Path("results/runs"),
    reports: Reports = Path("reports/runs"),
    kept: Annotated[float, typer.Option(help="Percent of the teacher's score that counts as kept.")] = 97.0,
    latex: Latex = False,
    json_file: Json = None,
) -> None:
    """Write the reports of a folder of records: Markdown, CSV and a picture. Same records, same bytes."""
    from bench.record.store import Store
    from bench.report.write import write_reports

    if not 0 < kept <= 200:
        raise InputError(f"--kept {kept:g}: should be a percentage of the teacher's score, like 97")
    written = write_reports(Store(results), reports, kept=kept / 100, latex=latex)
    for path in written:
        print(path)
    _write_json(json_file, [str(path) for path in written])


@app.command(epilog="Example: python -m bench data --data sample --tasks rte,mnli --out sample-suite")
def data(
    tasks: Tasks = "glue",
    data: Data = "sample",
    offline: Offline = False,
    out: Annotated[Path | None, typer.Option(help="Also write the splits there, as parquet in GLUE's layout.")] = None,
    json_file: Json = None,
) -> None:
    """Show and check what a source has: rows, labels, fingerprints."""
    from bench.data.inspect import export, inspect

    rows = inspect(tasks, data, offline)
    width = max(len(f"{row['task']}/{row['split']}") for row in rows)
    for row in rows:
        shared = f"; {row['also_in_train']:,} also in train" if row["also_in_train"] else ""
        print(
            f"{row['task'] + '/' + row['split']:{width}}  {row['rows']:>8,} rows  {row['fingerprint'][:12]}  {row['labels']}{shared}"
        )
    if out is not None:
        print(f"written: {export(tasks, data, offline, out)} files below {out}")
    _write_json(json_file, rows)


@app.command(epilog="Example: python -m bench teacher --tasks rte --data sample --teacher embedded")
@takes(
    "tasks",
    "data",
    "teacher",
    "results",
    "reports",
    "recipe",
    "precision",
    "device",
    "max_train_rows",
    "epochs",
    "threads",
    "jobs",
    "offline",
    "rerun_stale",
    "yes",
)
def teacher(given: dict[str, Any]) -> int:
    """Fine-tune the teachers of some tasks (or take them as given) and score them; no student."""
    from bench.run import run as carry_out

    outcome = carry_out(_request(methods="", **given), confirm=_asking())
    return _ended(outcome)


@store.command("verify", epilog="Example: python -m bench store verify --results results/reference")
def store_verify(results: Results = Path("results/runs"), json_file: Json = None) -> int:
    """Read every record, its answers and the cache, and name what is broken; exit code 1 if something is."""
    from bench.train.cache import users_cache
    from bench.upkeep import verify as carry_out

    with heard_by(lambda note: None):  # said below
        survey = carry_out(results, users_cache())
    return _surveyed(survey, json_file)


@store.command("repair", epilog="Example: python -m bench store repair --results results/runs")
def store_repair(results: Results = Path("results/runs"), json_file: Json = None) -> int:
    """Write the pointers that are missing, and rename what is broken to NAME.broken; removes nothing. Exit code 1 if something is left."""
    from bench.train.cache import users_cache
    from bench.upkeep import repair as carry_out

    with heard_by(lambda note: None):
        survey = carry_out(results, users_cache(), print)
    return _surveyed(survey, json_file)


def _surveyed(survey: Survey, json_file: Path | None) -> int:
    from bench.upkeep import counted

    print(f"holds\n{survey.describe()}" if survey.holds else "holds nothing")
    for one in survey.found:
        print(one.said())
    print(counted(survey.found) if survey.found else "nothing is broken")
    body = {"holds": survey.holds, "bytes": survey.sizes, "found": [one.as_json() for one in survey.found]}
    _write_json(json_file, body)
    return CHECK_FAILED if survey.found else OK


@store.command("gc", epilog="Example: python -m bench store gc --results results/runs --yes")
def store_gc(
    results: Results = Path("results/runs"),
    cache: Annotated[
        bool, typer.Option("--cache", help="Also what is made and kept, and that no record of these results names.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Remove it; without, it is only named.")] = False,
    json_file: Json = None,
) -> int:
    """Name what nothing needs any more and how much it frees; removes it with --yes. Exit code 1 if something is there and stays."""
    from bench.train.cache import users_cache
    from bench.upkeep import UNNAMED, megabytes, remove, unneeded

    with heard_by(lambda note: None):
        found = unneeded(results, users_cache())
    asked = [one for one in found if cache or one.kind != UNNAMED]
    for one in asked:
        print(f"{one.said()} ({megabytes(one.size)})")
    if others := [one for one in found if one not in asked]:
        size = megabytes(sum(one.size for one in others))
        print(
            f"the cache has {len(others)} more things that no record of these results names ({size}); --cache names them"
        )
    if asked and yes:
        print(f"removed: {len(asked)}, {megabytes(remove(asked, users_cache()))}")
    elif asked:
        print(f"{len(asked)} can go, {megabytes(sum(one.size for one in asked))}; --yes removes them")
    else:
        print("nothing to remove")
    _write_json(json_file, {"found": [one.as_json() for one in asked], "removed": bool(asked and yes)})
    return CHECK_FAILED if asked and not yes else OK
