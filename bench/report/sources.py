"""The sentences of a report that say where its numbers come from, and what a reader has to know before them. No torch."""

from __future__ import annotations

from collections.abc import Sequence

from bench.record.code import STALE, WHAT_TO_DO, commit_of, made_by, other_version, state_of_record
from bench.record.differences import left_out_lines
from bench.record.known_teachers import TRAINED_ON_PAIRS
from bench.record.recipe import ADAMW, PAPER
from bench.record.schema import Record
from bench.record.task_facts import SAMPLE, shown_tasks
from bench.report.groups import ReportGroup
from bench.report.reproduce import starts_without_text
from bench.report.tables.parts import counted


def warnings(group: ReportGroup) -> list[str]:
    """What a reader has to know before the first number: a paragraph each."""
    texts = []
    if group.facts.source == SAMPLE and group.writes:
        texts.append(
            "**Generated sample data, no corpus.** No number here can be compared with a paper."
        )
    elif group.facts.source == SAMPLE:
        texts.append(
            "**Generated sample data, not GLUE.** Each task has the form of the GLUE task that it is named after, and generated sentences. "
            "No number here can be compared with a paper."
        )
    elif group.cell.teacher.base in TRAINED_ON_PAIRS and {"mnli", "qqp"} & set(group.tasks):
        texts.append(
            "The teacher was trained for sentence similarity on data that include MultiNLI, SNLI and QQP: its scores on mnli and qqp "
            "may be too high."
        )
    return texts + [
        f"**{text[0].upper()}{text[1:]}.**"
        for text in (*group.aside, *left_out_lines(group.left_out))
    ]


def facts(group: ReportGroup) -> str:
    """By which version the results were made, on which days, from which teacher and by which recipe."""
    versions = sorted({str(r.code["version"]) for r in group.records if "version" in r.code})
    days = sorted({r.finished[:10] for r in group.records})
    epochs = "" if group.recipe == PAPER else f", {group.epochs:g} epoch{'s' * (group.epochs != 1)}"
    return " · ".join(
        [
            f"bert-bench {', '.join(versions)}".strip(),
            f"results of {' to '.join(dict.fromkeys((days[0], days[-1])))}",
            f"teacher {group.cell.teacher.name}, {group.cell.teacher.origin}",
            f"recipe {group.recipe}{epochs}, {group.cell.numeric.precision}, {group.cell.numeric.device}{group.shared_suffix}",
        ]
    )


def environment(group: ReportGroup, settings: Sequence[str] = ()) -> list[str]:
    """Recipe, start and optimisers, how the rates were chosen, libraries and machines; a paragraph each.

    Args:
        settings: what an experiment's file sets for some rows, a line each.
    """
    by_papers = group.recipe == PAPER
    length = "" if by_papers else f", {group.epochs:g} epochs over all stages"
    optimizer = "" if group.optimizer == ADAMW else f", optimizer {group.optimizer}"
    where = counted(group.cell.numeric.threads, "thread") + (
        "" if group.cell.numeric.device == "cpu" else f", {group.cell.numeric.device}"
    )
    where += ", deterministic kernels" if group.cell.numeric.deterministic else ""
    texts = [
        f"Recipe {group.recipe}{length}{optimizer}; {group.cell.numeric.precision}, {where}{group.shared_suffix}."
    ]
    starts = {
        r.artefacts["general_start"]["key"][:12]
        for r in group.records
        if "general_start" in r.artefacts
    }
    texts += [f"General start: {', '.join(sorted(starts))}."] if starts else []
    texts += _training_texts(group)
    others = {
        f"{r.row}, stage {stage}: {name}"
        for r in group.records
        for stage, name in r.cell.recipe.get("stage_optimizers", ())
    }
    texts += (
        ["Each stage has its paper's numbers (`Stage.paper` in the method's file)."]
        if by_papers
        else []
    )
    texts += [f"Not trained with AdamW: {'; '.join(sorted(others))}."] if others else []
    searched = sorted({r.row for r in group.records if r.cell.search is not None})
    if not by_papers and group.students:
        text = "Learning rates were chosen on the sample suite, with AdamW"
        typed = sorted(
            {r.row for r in group.records if ":pace=" in r.row and r.cell.search is None}
        )
        if any("pace " in line for line in settings):
            typed.append("rows with a pace in the settings")
        text += (
            f"; those of {', '.join(searched)} by `tune`, on held-out training examples"
            if searched
            else ""
        )
        text += f"; those of {', '.join(typed)} were typed" if typed else ""
        other = "other " if searched or typed else ""
        texts.append(f"{text}. No {other}rate was tuned on real GLUE (docs/hyperparameters.md).")
    return [" ".join(texts), *made_on(group.records)]


def made_on(records: Sequence[Record]) -> list[str]:
    """Libraries and machines of the finished records."""
    envs = [r.env for r in records if r.status == "ok"]
    libraries = sorted(
        {f"torch {env.get('torch')}, transformers {env.get('transformers')}" for env in envs}
    )
    devices = [(env, env.get("accelerator") or env.get("device")) for env in envs]
    machines = sorted(
        {
            f"{env.get('processor')}, {env.get('cores')} cores, device {device}"
            for env, device in devices
        }
    )
    return [f"Libraries: {'; '.join(libraries)}. Machines: {'; '.join(machines)}."] if envs else []


def _training_texts(group: ReportGroup) -> list[str]:
    """A sentence for each text of pre-training that consists of training texts of a user's tasks."""
    read: dict[str, None] = {}
    for record in group.records:
        for artefact in record.artefacts.values():
            text = artefact.get("text") or {}
            if tasks := text.get("training_texts_of"):
                read[f"{text['tokens']:,} tokens of the training texts of {', '.join(tasks)}"] = (
                    None
                )
    return [f"Pre-training: {text}, without labels." for text in read]


def on_commands(group: ReportGroup, has_commands: bool) -> list[str]:
    """What a reader has to know to type the commands of these records."""
    lines = [
        f"with `--results {group.results}` a command finds these records and trains no finished cell again; with another "
        "folder it trains all of them. Files and folders of data and text are named without their place"
    ] * has_commands
    return lines + [
        f"the records of {', '.join(rows)} do not name their pre-training text (pre-training {key}): a `--corpus` of a command "
        "may not be theirs"
        for key, rows in starts_without_text(group).items()
    ]


def provenance(records: Sequence[Record]) -> list[str]:
    """Keys, code, base weights and examples of these records."""
    done = [r for r in records if r.status == "ok"]
    if not done:
        return ["No finished record."]
    commits = sorted({commit_of(r.code) for r in done})
    rows = sorted(
        {
            f"{shown_tasks(r.cell)} {', '.join(f'{k} {v:,}' for k, v in r.cell.data.rows.items())}"
            for r in done
        }
    )
    bases = sorted({r.cell.teacher.base[:12] for r in done})
    # of a class of one's own (module:Class), which no commit of this repository holds
    # of the method's own file: that of all code of a record changes with the task's metrics
    outside = {
        (r.cell.method, str(r.code.get("method", "not kept"))[:12])
        for r in done
        if ":" in r.cell.method
    }
    named = ", ".join(f"{method} (digest {digest})" for method, digest in sorted(outside))
    return [
        f"{counted(len(done), 'record')}; keys {min(r.key for r in done)[:12]} to {max(r.key for r in done)[:12]}",
        f"commits of the code: {'; '.join(commits)}",
        *([f"code outside these commits: {named}"] if outside else []),
        *_other_code(done),
        f"teacher's base weights: sha256 {', '.join(bases)}",
        f"examples: {'; '.join(rows)}",
    ]


def _other_code(records: Sequence[Record]) -> list[str]:
    """One sentence where today's code did not make all records: which did, and what to do."""
    said = made_by(records)
    stale = [record for record in records if state_of_record(record) == STALE]
    versions = {f"{r.row} {version}" for r in stale if (version := other_version(r))}
    if versions:
        said += f"; {'; '.join(sorted(versions))}"
    if stale:
        said += f"; {WHAT_TO_DO}"
    return [said] if said else []
