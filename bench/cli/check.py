"""Verbs that find what is wrong: check, verify, audit, and the upkeep of a folder of records;
export."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.cli.options import (
    DEVICE,
    OFFLINE,
    RESULTS,
    argument,
    option,
    request_from_options,
    with_request_options,
)
from bench.cli.program import Answer, store, verb
from bench.errors import BAD_INPUT, CHECK_FAILED, OK, InputError
from bench.record.set_aside import notes_sent_to

if TYPE_CHECKING:
    from bench.audit.table import Sheet


@verb(
    "check --baseline results/reference/sample-v2 --results results/runs --tasks rte --seeds 0",
    reads_scores=True,
)
def check(
    baseline: Path = option(..., "Folder with the records to compare with."),
    results: Path = RESULTS,
    tasks: str = option("", "Use only these tasks of the baseline, separated by commas."),
    methods: str = option(
        "", "Compare only these rows, separated by commas. The teacher is always included."
    ),
    seeds: str = option(
        "",
        "Compare only these seeds. The other seeds are used only to estimate the variance over "
        "seeds.",
    ),
    margin: float = option(
        2.0,
        "A score passes only if the data exclude a fall of more than this many points. If the "
        "paired test finds a fall, also a smaller one, the verdict is regressed.",
    ),
    speed_margin: float = option(
        0.1, "Which share of a speed-up may be lost: at least 0 and below 1.", "--speed-margin"
    ),
    budget: list[str] | None = option(
        None,
        "Another margin for one metric, in points. Repeat the option for more metrics.",
        metavar="METRIC=POINTS",
    ),
    accept: Path | None = option(
        None, "A TOML file with known regressions, each with a reason. docs/reports.md shows one."
    ),
    summary_file: Path | None = option(
        None, "Also write the summary to this file, as Markdown.", "--summary"
    ),
    junit_file: Path | None = option(
        None, "Also write the results to this file, as JUnit XML.", "--junit"
    ),
) -> Answer:
    """Compare new records with a baseline, as a gate for pull requests.

    Exit code: 0 passed, 1 regressed, 3 inconclusive, 4 nothing measured, 5 not comparable.
    """
    from dataclasses import asdict

    from bench.analysis import gate_in_words
    from bench.analysis.gate import GateLimits
    from bench.analysis.gate import check as compared_with
    from bench.analysis.gate_acceptances import accept as accepting
    from bench.analysis.gate_acceptances import budgets_of, read_acceptances, unmet
    from bench.analysis.gate_result import EXIT_CODES, overall
    from bench.data.own_tasks import names_of_typed
    from bench.files import write_atomically
    from bench.plan.spelling import ALL, parse_methods
    from bench.request.text import parse_seeds
    from bench.user_files import comma_separated

    if not 0 <= margin <= 100 or not 0 <= speed_margin < 1:
        raise InputError(
            "--margin should be from 0 to 100 points, --speed-margin at least 0 and below 1"
        )
    limits = GateLimits(margin, speed_margin, budgets_of(budget or []))
    acceptances = read_acceptances(accept) if accept is not None else []
    chosen = parse_seeds(seeds) if seeds.strip() else ()
    rows = list[str]()
    # rows are typed as for `run`; all are whatever the baseline has
    for row in comma_separated("" if methods == ALL else methods):
        rows += [part.label for part in parse_methods(row)] if row.endswith(":ablate") else [row]
    names = names_of_typed(comma_separated(tasks))
    findings = compared_with(baseline, results, names, rows, chosen, limits)
    not_compared = unmet(findings, acceptances)
    findings = accepting(findings, acceptances)
    text = "\n".join([gate_in_words.summary(findings), *not_compared])
    verdict = overall(findings)
    if summary_file is not None:
        write_atomically(summary_file, text.encode())
    if junit_file is not None:
        write_atomically(junit_file, gate_in_words.junit(findings))
    if os.environ.get("GITHUB_ACTIONS"):
        text = "\n".join([text, *gate_in_words.workflow_commands(findings)])
    body = {"verdict": verdict, "findings": [asdict(finding) for finding in findings]}
    return text, body, EXIT_CODES[verdict]


of_record = with_request_options(
    "tasks metric data teacher results device corpus corpus_tokens word_vectors offline",
    tasks=None,
    data="sample",
    teacher="embedded",
)
"""The options of a verb that trains the cell of a record again."""


def _request_of_record(given: dict[str, Any]) -> tuple[Path, Any, set[str]]:
    """The folder of the record, the request, and which of the fields that a record names were
    typed."""
    results = given.pop("results")
    if given["tasks"] is None:
        del given["tasks"]
    return results, request_from_options(**given), {"tasks"} & set(given)


@verb("verify b8aa0426 --results results/reference --data sample --teacher embedded")
@of_record
def verify(
    given: dict[str, Any],
    key: str = argument(..., "The beginning of a record's key."),
    from_scratch: bool = option(
        False,
        "Read nothing from the cache: train the teacher and the general start again too. The "
        "cache does not change.",
        "--from-scratch",
    ),
) -> Answer:
    """Train the cell of a record again and compare the results.

    Type the data, the teacher, the device, the corpus and the word vectors of the run. Type
    `--tasks` only for a task of your own.

    The verdict is bitwise equal, equal within rounding, statistically equal (no significant
    difference), different (exit code 1), or not comparable (exit code 5).
    """
    from dataclasses import asdict

    from bench.workflows import verify as workflow

    results, request, typed = _request_of_record(given)
    answer = workflow.verify(key, results, request, from_scratch=from_scratch, typed=typed)
    code = workflow.EXIT_CODES.get(answer.verdict, OK)
    return workflow.describe(answer), asdict(answer), code


@verb(
    "export b8aa0426 --to student --format onnx --results results/reference --data sample "
    "--teacher embedded"
)
@of_record
def export(
    given: dict[str, Any],
    key: str = argument(..., "The beginning of a record's key."),
    to: Path = option(..., "The folder to write; it must not exist."),
    form: str = option(
        "hf", "hf (transformers' files), onnx, or onnx-int8 (8-bit weights).", "--format"
    ),
    saved: Path | None = option(
        None,
        "A folder of --save-students, or of the checkpoint; without it the student is trained "
        "again.",
        "--from",
    ),
    push: str = option(
        "", "Send the folder to this private repository of the hub too.", metavar="OWNER/NAME"
    ),
) -> Answer:
    """Write the student of a record as a folder that works elsewhere.

    The student is trained again, unless --from names its folder or it is a teacher that came tuned.
    Type the data, the teacher, the device and the corpus of the run. Weights other than the
    record's are not exported (exit code 1). The answers of the exported model are compared with the
    record's: with hf and onnx all have to be the same (exit code 1), with onnx-int8 the changed
    ones are counted.
    """
    from dataclasses import asdict

    from bench.workflows import export as workflow

    results, request, typed = _request_of_record(given)
    exported = workflow.export(key, results, request, to, form, saved, typed=typed, push=push)
    code = CHECK_FAILED if exported.why else OK
    return workflow.describe(exported), asdict(exported), code


@verb("export --submit students --row tinybert --to submission --data hub", form="--submit")
def submit(
    saved: list[Path] = argument(
        ...,
        "Where --save-students wrote; or an archive.zip, which is only checked.",
        metavar="FOLDER...",
    ),
    to: Path | None = option(None, "The new folder of the files and their archive."),
    row: str = option("", "The row that is meant, where a task has several models."),
    seed: int | None = option(None, "The seed that is meant."),
    data: str = option(
        "hub",
        "Where GLUE's test sets come from: hub; or a folder with "
        "<task>/test-00000-of-00001.parquet.",
    ),
    constant_rest: bool = option(
        False, "Answer tasks without a model with their first class.", "--constant-rest"
    ),
    diagnostics: Path | None = option(
        None,
        "GLUE's diagnostic-full.tsv: also print Matthews' correlation on AX by category.",
        metavar="FILE",
    ),
    device: str = DEVICE,
    offline: bool = OFFLINE,
) -> Answer:
    """Write GLUE's submission: the test sets predicted by saved models, as the server's files and
    their zip archive.

    Every file is checked: its lines, ids and answers. Exit code 1 if an archive that is only
    checked would be refused.
    """
    from dataclasses import asdict

    from bench.progress import quiet
    from bench.workflows import submit as workflow

    if len(saved) == 1 and saved[0].suffix == ".zip":
        wrong = workflow.faults(saved[0])
        text = (
            "\n".join(wrong)
            or f"{saved[0]}: all {len(workflow.FILES)} files are as GLUE's server wants them"
        )
        return text, wrong, CHECK_FAILED if wrong else OK
    if to is None:
        raise InputError("--to names no folder for the submission")
    if diagnostics is not None and not diagnostics.is_file():  # before anything is written
        raise InputError(
            f"--diagnostics {diagnostics}: there is no such file; GLUE's page offers "
            "diagnostic-full.tsv"
        )
    quiet()
    submission = workflow.submit(saved, data, to, row, seed, constant_rest, device, offline)
    body = asdict(submission)
    lines = []
    for name, folder in submission.models.items():
        lines.append(f"{name:12} {folder or 'one class for every example'}")
    lines.append(f"written and checked: {submission.archive}")
    if diagnostics is not None:
        scores = workflow.diagnostics(to / "AX.tsv", diagnostics)
        body["diagnostics"] = [asdict(score) for score in scores]
        lines += [score.in_words() for score in scores]
    return "\n".join(lines), body, OK


@verb("audit paper.tex --results results/reference --row Ours=microbert", reads_scores=True)
def audit(
    files: list[Path] | None = argument(
        None,
        "CSV (a plain table, or one value a line with the columns source, table, system, task, "
        "value), Markdown, LaTeX, HTML, reStructuredText, a notebook, or the text of a page. "
        "Several files are also compared with each other.",
        metavar="FILE...",
    ),
    results: Path | None = option(
        None, "Also compare the printed scores with the records in this folder.", show_default=False
    ),
    row: list[str] | None = option(
        None,
        "A name in the paper and the row of the records that it means. Repeat the option for more "
        "rows.",
        metavar="NAME=ROW",
    ),
    only: str = option(
        "",
        "Show only one kind of findings: arithmetic (they follow from the printed numbers) or "
        "inference (guesses).",
    ),
    unread: bool = option(False, "Also list the numbers in tables that were not read.", "--unread"),
) -> Answer:
    """Find numbers that do not add up in printed tables. With --results, also find scores that
    differ from the records.

    Exit code 1 if there are any.
    """
    from dataclasses import asdict

    from bench.audit.checks import audit as findings_of
    from bench.audit.sheets import read_all
    from bench.audit.summary import shown, unread_lines

    if not files:
        raise InputError("name a file with tables")
    if row and results is None:
        raise InputError("--row names a row of the records; add --results FOLDER")
    pages = read_all(files)
    if not pages.sheets:
        raise InputError(f"no table of numbers in {', '.join(map(str, files))}")
    findings = findings_of(pages.sheets, only)
    texts = [shown(pages, findings), *([unread_lines(pages)] if unread else [])]
    body: Any = [asdict(finding) for finding in findings]
    if results is None:
        return "\n".join(texts), body, CHECK_FAILED if findings else OK
    text, compared, code = _compared(pages.sheets, results, row or [])
    ended = code if code == BAD_INPUT or not findings else CHECK_FAILED
    return "\n".join([*texts, text]), {"findings": body, "compared": compared}, ended


def _compared(sheets: Sequence[Sheet], results: Path, rows: Sequence[str]) -> Answer:
    """How the numbers of some tables compare with the records; bad input where no row and column of
    any table are in them."""
    from dataclasses import asdict

    from bench.analysis.check_paper import ABSENT, DIFFERS, check_paper, describe
    from bench.audit.summary import printable

    compared = check_paper(sheets, results, rows)
    if all(number.verdict == ABSENT for number in compared):
        named = ", ".join(dict.fromkeys(sheet.source for sheet in sheets))
        why = (
            f"{named}: no row and column are in {results}; name rows with --row 'Name in the "
            "paper=row'"
        )
        return f"\n{printable(why)}", [asdict(number) for number in compared], BAD_INPUT
    text = printable(f"\nCompared with the records in {results}:\n\n{describe(compared)}")
    differ = any(number.verdict == DIFFERS for number in compared)
    return text, [asdict(number) for number in compared], CHECK_FAILED if differ else OK


@verb("store verify --results results/reference", group=store)
def store_verify(results: Path = RESULTS) -> Answer:
    """Find broken records, predictions and files of the cache. Exit code 1 if there are any."""
    from dataclasses import asdict

    from bench.workflows import upkeep

    survey = _quietly(upkeep.survey_store, results)
    return upkeep.described(survey), asdict(survey), CHECK_FAILED if survey.found else OK


@verb("store repair --results results/runs", group=store)
def store_repair(results: Path = RESULTS) -> Answer:
    """Write missing `current` files, which name the attempt that counts. Rename broken files to
    NAME.broken. It removes nothing.

    Exit code 1 if something is still broken. Missing predictions do not count here: only
    `run --rerun` makes them again.
    """
    from dataclasses import asdict

    from bench.workflows import upkeep

    survey = _quietly(upkeep.repair, results, print)
    broken = [problem for problem in survey.found if problem.kind != upkeep.NO_ANSWERS]
    return upkeep.described(survey), asdict(survey), CHECK_FAILED if broken else OK


def _quietly(look: Callable[..., Any], results: Path, *more: Any) -> Any:
    """What a look at a folder of records and at the cache finds. The notes of reading are among it,
    and are not printed twice."""
    from bench.folders import users_cache

    with notes_sent_to(lambda note: None):
        return look(results, users_cache(), *more)


@verb("store gc --results results/runs --yes", group=store)
def store_gc(
    results: Path = RESULTS,
    cache: bool = option(
        False,
        "Also look for artefacts in the cache that no record of these results names.",
        "--cache",
    ),
    yes: bool = option(False, "Remove the files. Without it, they are only listed.", "--yes", "-y"),
) -> Answer:
    """List files that nothing needs any more, with their size. With --yes, remove them.

    Exit code 1 if such files were found and not removed.
    """
    from dataclasses import asdict

    from bench.folders import users_cache
    from bench.workflows import upkeep

    unneeded = _quietly(upkeep.unneeded, results)
    listed = [problem for problem in unneeded if cache or problem.kind != upkeep.UNNAMED]
    lines = []
    for problem in listed:
        lines.append(f"{problem.sentence()} ({upkeep.megabytes(problem.bytes)})")
    others = [problem for problem in unneeded if problem not in listed]
    if others:
        size = upkeep.total(others)
        more = f"{len(others)} more things that no record of these results names ({size})"
        lines.append(f"the cache has {more}; --cache names them")
    if listed and yes:
        upkeep.remove(listed, users_cache())
        lines.append(f"removed: {len(listed)}, {upkeep.total(listed)}")
    elif listed:
        lines.append(f"{len(listed)} can go, {upkeep.total(listed)}; --yes removes them")
    else:
        lines.append("nothing to remove")
    body = {
        "found": [asdict(problem) for problem in listed],
        "removed": bool(listed and yes),
    }
    return "\n".join(lines), body, CHECK_FAILED if listed and not yes else OK
