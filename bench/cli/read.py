"""Verbs that read records and answer questions: list, show, report, compare, choose, power, trace, profile, why."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from bench.cli.options import (
    AS_RECORDED,
    Json,
    Latex,
    Methods,
    Offline,
    OnlyTasks,
    Reports,
    Results,
    Teacher,
    asks_no_hub,
    with_request_options,
)
from bench.cli.program import app
from bench.cli.shared import request_from_options, write_json
from bench.errors import CHECK_FAILED, OK, InputError, one_line


@app.command("list", epilog="Example: python -m bench list --check")
def list_(
    check: Annotated[bool, typer.Option("--check", help="Also import each method and show what fails.")] = False,
    metrics: Annotated[bool, typer.Option("--metrics", help="Show the metrics instead.")] = False,
    json_file: Json = None,
) -> int:
    """List the methods, the tasks and the groups of tasks. With --check it also imports each method and shows errors."""
    if metrics:
        from bench.stats.metrics import METRICS, table

        print(table())
        write_json(json_file, {"metrics": list(METRICS)})
        return 0
    import methods as registry
    from bench.data.tasks import GLUE, GROUPS
    from bench.plan.plugins import method_class

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
    body = {"methods": known, "tasks": list(GLUE), "groups": {name: list(members) for name, members in GROUPS.items()}}
    write_json(json_file, body | {"failing": wrong, "refused": refused})
    return CHECK_FAILED if wrong else OK


@app.command(epilog="Example: python -m bench show 7a8e8b41 --results results/reference")
def show(
    key: Annotated[str, typer.Argument(help="The beginning of a record's key.")],
    results: Results = Path("results/runs"),
) -> None:
    """Print one record as JSON."""
    from bench.record.store import Store

    print(Store(results).one(key, trained=True).model_dump_json(indent=1))


@app.command(epilog="Example: python -m bench report --results results/reference --reports reports")
def report(
    results: Results = Path("results/runs"),
    reports: Reports = Path("reports/runs"),
    kept: Annotated[
        float,
        typer.Option(
            help="A student keeps its teacher's score if the whole 95 % interval of the ratio is above this percentage."
        ),
    ] = 97.0,
    latex: Latex = False,
    names: Annotated[
        Path | None, typer.Option(help="What rows are called in a paper: a TOML file with lines like row = 'Name'.")
    ] = None,
    json_file: Json = None,
) -> None:
    """Write the reports of a folder of records: Markdown, HTML, CSV and pictures. The same records give the same bytes."""
    from bench.record.store import Store
    from bench.report.write import Options, names_in, write_reports

    if not 0 < kept <= 200:
        raise InputError(f"--kept {kept:g}: should be a percentage of the teacher's score, like 97")
    options = Options(kept / 100, latex, names={} if names is None else names_in(names))
    written = write_reports(Store(results), reports, options)
    print(*written, sep="\n")
    write_json(json_file, [str(path) for path in written])


@app.command(epilog="Example: python -m bench compare tinybert finetune:start=random --results results/reference")
def compare(
    first: Annotated[str, typer.Argument(help="A row, with the name that it has in reports.")],
    second: Annotated[str, typer.Argument(help="The row that it is compared with.")],
    results: Results = Path("results/runs"),
    tasks: OnlyTasks = "",
    seeds: Annotated[str, typer.Option(help="Use only these seeds, for example 0,1,2.")] = "",
    exact: Annotated[
        bool, typer.Option("--exact", help="Use the exact McNemar test instead of its mid-p form.")
    ] = False,
    json_file: Json = None,
) -> None:
    """Compare two rows on the same examples: difference, interval, paired test and verdict."""
    from dataclasses import asdict

    from bench.analysis import compare as analysis
    from bench.plan.request import parse_seeds
    from bench.report.comparison import comparison_notes
    from bench.stats.power import POWER
    from bench.user_files import comma_separated

    chosen = parse_seeds(seeds) if seeds.strip() else ()
    comparisons = analysis.compare(results, first, second, comma_separated(tasks), chosen, exact)
    for data, lines in comparisons.items():
        print(f"{analysis.title_of(data)}\n\n{analysis.table(first, second, lines)}\n")
    print(
        "Intervals: paired bootstrap over examples, with Student's t over seeds where there are several. min. detectable: the true "
        f"difference that such a comparison finds in {100 * POWER:.0f} of 100 cases. Verdict: by p after Holm's adjustment over the "
        "tests of these two rows, whose number stands beside it. The mean is one test."
    )
    for note in comparison_notes([line for lines in comparisons.values() for line in lines]):
        print(note)
    body = {
        data: [{**asdict(line), "difference": line.difference, "verdict": line.verdict} for line in lines]
        for data, lines in comparisons.items()
    }
    write_json(json_file, body)


@app.command(
    epilog="Example: python -m bench choose --max-flops 1.5 --tasks cola,mrpc,rte,sst2 --results results/reference"
)
def choose(
    results: Results = Path("results/runs"),
    tasks: OnlyTasks = "",
    max_params: Annotated[float | None, typer.Option(help="At most this many millions of parameters.")] = None,
    max_flops: Annotated[
        float | None, typer.Option(help="At most this many G FLOPs for one sequence of 128 tokens.")
    ] = None,
    max_latency: Annotated[
        float | None,
        typer.Option(
            help="At most this many milliseconds, as the last `speed` session with the same teacher measured."
        ),
    ] = None,
    json_file: Json = None,
) -> int:
    """Find the best row within a budget of parameters, FLOPs or latency.

    It also names all rows that are not significantly different from the best one. If one of them is cheaper, it says which
    row is the cheapest. Rows that `:ablate` made do not take part; rows with a dropped loss that were typed (name:-term) do.
    """
    from bench.analysis import choose as analysis
    from bench.report.render import to_markdown
    from bench.user_files import comma_separated

    for name, value in (("params", max_params), ("flops", max_flops), ("latency", max_latency)):
        if value is not None and not value > 0:
            raise InputError(f"--max-{name} {value:g}: should be above 0")
    budget = {"parameters": max_params, "flops": max_flops, "latency": max_latency}
    choices = analysis.choose(results, budget, comma_separated(tasks))
    for choice in choices:
        print(f"{choice.group.title}\n")
        if choice.candidates:
            print(f"{to_markdown(choice.table())}\n")
        print("\n".join(choice.said()))
        if choice.group.speed_conditions:
            print(f"Latency: {choice.group.speed_conditions}.")
        if choice.left_out:
            print("Left out: " + "; ".join(f"{row} ({why})" for row, why in choice.left_out.items()) + ".")
        print()
    body = [
        {
            "table": choice.group.title,
            "columns": [column.title for column in choice.columns],
            "candidates": [{**c._asdict(), "verdict": c.verdict} for c in choice.candidates],
            "cheapest_as_good": choice.as_good[0].label if choice.as_good else None,
            "left_out": choice.left_out,
        }
        for choice in choices
    ]
    write_json(json_file, body)
    return OK if any(choice.candidates for choice in choices) else CHECK_FAILED


@app.command(epilog="Example: python -m bench power --tasks rte,mrpc --gap 1.0")
def power(
    tasks: Annotated[
        str,
        typer.Option(
            "--tasks",
            "--task",
            help="Tasks of GLUE, separated by commas. Their development sets give the number of examples.",
        ),
    ] = "",
    examples: Annotated[
        int | None, typer.Option(help="The number of examples of your own test set, instead of --tasks.")
    ] = None,
    gap: Annotated[
        float | None, typer.Option(help="The difference that you want to detect, in points of accuracy.")
    ] = None,
    disagreement: Annotated[
        float, typer.Option(help="Percent of the examples that exactly one of the two systems answers correctly.")
    ] = 10.0,
    seeds: Annotated[
        str,
        typer.Option(help="Seeds of each system: a list like 0,1,2 or a number like 3. Two or more need --spread."),
    ] = "1",
    spread: Annotated[
        float | None,
        typer.Option(help="Standard deviation of one system's score over its seeds, in points (after ± in a report)."),
    ] = None,
    json_file: Json = None,
) -> None:
    """Compute which difference a test set can detect, and with which probability it detects a given one."""
    from bench.analysis.power import describe, number_of_seeds, power_analysis
    from bench.user_files import comma_separated

    count, named = number_of_seeds(seeds), comma_separated(tasks) or [""]
    answers = [power_analysis(task, examples, gap, disagreement, count, spread) for task in named]
    print("\n\n".join(map(describe, answers)))
    write_json(json_file, answers[0] if len(answers) == 1 else answers)


@app.command(
    epilog="Example: python -m bench trace +4.5 --results results/reference",
    context_settings={"ignore_unknown_options": True},  # -0.3 is a number
)
def trace(
    number: Annotated[
        str, typer.Argument(help="A number as it is printed: 86.6, a difference +4.5 or a speed-up 2.03x.")
    ],
    results: Results = Path("results/runs"),
    json_file: Json = None,
) -> int:
    """Find the records behind a printed number. Exit code 1 if no number of the records rounds to it."""
    from bench.analysis import trace as analysis

    origins = analysis.trace(number, results)
    print(analysis.describe(number, origins, results))
    write_json(json_file, origins)
    return OK if origins else CHECK_FAILED


@app.command(epilog="Example: python -m bench profile --methods tinybert,microbert --teacher bert-base-uncased")
def profile(
    methods: Methods = "all",
    teacher: Teacher = "bert-base-uncased",
    printed: Annotated[
        bool,
        typer.Option(
            "--printed",
            help="Instead, compare our sizes with the sizes in papers, and name the counting rule that each paper seems to use.",
        ),
    ] = False,
    offline: Offline = None,
    json_file: Json = None,
) -> None:
    """Count parameters, MACs and FLOPs from the configurations alone, without weights. `bert-base-uncased` needs no network."""
    from bench.plan.untrained import counts_of, profile_rows
    from bench.progress import quiet
    from bench.report.printed_sizes import printed_and_ours, printed_sizes
    from bench.report.render import to_markdown
    from bench.report.tables.cost import sizes

    quiet()
    if printed:
        table = printed_and_ours([(size, counts_of(size.row, size.teacher)) for size in printed_sizes()])
        print("\n\n".join([f"# {table.title}", *table.notes, to_markdown(table)]))
        write_json(json_file, [dict(zip(table.header, row, strict=True)) for row in table.values])
        return
    rows = profile_rows(methods, teacher, lambda note: print(note, file=sys.stderr), asks_no_hub(offline))
    print(to_markdown(sizes(rows)))
    print("\nOne sequence of 128 tokens, batch 1, eager attention. FLOPs = 2 x MACs (fvcore); two labels.")
    write_json(json_file, {name: size.model_dump() for name, size in rows})


@app.command(
    epilog="Example: python -m bench why 7a8e8b41 --results results/reference --data sample --teacher embedded --threads 2"
)
@with_request_options(
    without="seeds reports rerun_stale yes jobs executor address slurm",
    **AS_RECORDED,
    data="sample",
    teacher="embedded",
)
def why(
    given: dict[str, Any],
    key: Annotated[str, typer.Argument(help="The beginning of a record's key.")],
    rerun_stale: Annotated[bool, typer.Option("--rerun-stale", help="Ask about a run with --rerun-stale.")] = False,
    retry_failed: Annotated[bool, typer.Option("--retry-failed", help="Ask about a run with --retry-failed.")] = False,
    json_file: Json = None,
) -> int:
    """Explain why a run would find a record, or train its cell again. It trains nothing.

    It compares the code and every field of the key. Type the data, the teacher, the device, the corpus and its tokens
    (`--corpus-tokens`), and the word vectors (`--word-vectors`) of the run; every other option that you leave out has the value
    of the record. Exit code 1 if a run would not find the record, or if another version of the code made it.
    """
    from bench.progress import quiet
    from bench.record.code import STALE
    from bench.workflows import why as workflow

    quiet()
    typed = {name for name in AS_RECORDED if given[name] not in (None, [])}
    asked = {name: value for name, value in given.items() if name not in AS_RECORDED or name in typed}
    results = asked.pop("results")
    request = request_from_options(**asked, rerun_stale=rerun_stale, retry_failed=retry_failed)
    answer = workflow.why(key, results, request, typed)
    print(workflow.describe(answer))
    write_json(json_file, answer)
    return CHECK_FAILED if answer["again"] or answer["code"] == STALE else OK
