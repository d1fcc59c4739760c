"""The sentences of a report that say where its numbers come from, and what a reader has to know
before them. No torch."""

from __future__ import annotations

from collections.abc import Sequence

from bench.record.cell_differences import left_out_lines
from bench.record.code import STALE, WHAT_TO_DO, commit_of, made_by, other_version, state_of_record
from bench.record.known_teachers import TRAINED_ON_PAIRS
from bench.record.recipe import ADAMW, PAPER
from bench.record.schema import Record
from bench.record.task_facts import SAMPLE, shown_tasks
from bench.report.reproduce import starts_without_text
from bench.report.study import Study
from bench.report.tables.parts import counted

GENERATED_TEXTS = (
    "**Generated sample data, no corpus.** No number here can be compared with a paper."
)
GENERATED_TASKS = (
    "**Generated sample data, not GLUE.** Each task has the form of the GLUE task that it is named "
    "after, and generated sentences. No number here can be compared with a paper."
)
TAUGHT_SIMILARITY = (
    "The teacher was trained for sentence similarity on data that include MultiNLI, SNLI and QQP: "
    "its scores on mnli and qqp may be too high."
)
BY_PAPERS = "Each stage has its paper's numbers (`Stage.paper` in the method's file)."


def warnings(study: Study) -> list[str]:
    """What a reader has to know before the first number: a paragraph each."""
    texts = []
    if study.facts.source == SAMPLE:
        texts.append(GENERATED_TEXTS if study.writes else GENERATED_TASKS)
    elif study.cell.teacher.base in TRAINED_ON_PAIRS and {"mnli", "qqp"} & set(study.tasks):
        texts.append(TAUGHT_SIMILARITY)
    for line in (*study.aside, *left_out_lines(study.left_out)):
        texts.append(f"**{line[0].upper()}{line[1:]}.**")
    return texts


def facts(study: Study) -> str:
    """By which version the results were made, on which days, from which teacher and by which
    recipe."""
    versions = sorted({str(r.code["version"]) for r in study.records if "version" in r.code})
    days = sorted({record.finished[:10] for record in study.records})
    first_and_last = dict.fromkeys([days[0], days[-1]])
    recipe = f"recipe {study.recipe}"
    if study.recipe != PAPER:
        recipe += f", {study.epochs:g} epoch{'' if study.epochs == 1 else 's'}"
    numeric = study.cell.numeric
    parts = [
        f"bert-bench {', '.join(versions)}".strip(),
        f"results of {' to '.join(first_and_last)}",
        f"teacher {study.cell.teacher.name}, {study.cell.teacher.origin}",
        f"{recipe}, {numeric.precision}, {numeric.device}{study.shared_suffix}",
    ]
    return " · ".join(parts)


def environment(study: Study, settings: Sequence[str] = ()) -> list[str]:
    """Recipe, start and optimisers, how the rates were chosen, libraries and machines; a paragraph
    each.

    Args:
        settings: what an experiment's file sets for some rows, a line each.
    """
    texts = [_recipe(study)]
    starts = set()
    for record in study.records:
        if "general_start" in record.artefacts:
            starts.add(record.artefacts["general_start"]["key"][:12])
    if starts:
        texts.append(f"General start: {', '.join(sorted(starts))}.")
    texts += _training_texts(study)
    if study.recipe == PAPER:
        texts.append(BY_PAPERS)
    texts += _other_optimizers(study)
    if study.recipe != PAPER and study.students:
        texts.append(_on_rates(study, settings))
    return [" ".join(texts), *made_on(study.records)]


def _recipe(study: Study) -> str:
    """The recipe, and the numerics of all trainings."""
    numeric = study.cell.numeric
    text = f"Recipe {study.recipe}"
    if study.recipe != PAPER:
        text += f", {study.epochs:g} epochs over all stages"
    if study.optimizer != ADAMW:
        text += f", optimizer {study.optimizer}"
    text += f"; {numeric.precision}, {counted(numeric.threads, 'thread')}"
    if numeric.device != "cpu":
        text += f", {numeric.device}"
    if numeric.deterministic:
        text += ", deterministic kernels"
    return f"{text}{study.shared_suffix}."


def _other_optimizers(study: Study) -> list[str]:
    """A sentence that names the stages of other optimisers than their recipe's; none without."""
    stages = set()
    for record in study.records:
        for stage, name in record.cell.recipe.get("stage_optimizers", ()):
            stages.add(f"{record.row}, stage {stage}: {name}")
    return [f"Not trained with AdamW: {'; '.join(sorted(stages))}."] if stages else []


def _on_rates(study: Study, settings: Sequence[str]) -> str:
    """How the learning rates of the common recipe were chosen."""
    searched = sorted({r.row for r in study.records if r.cell.search is not None})
    unsearched = [record for record in study.records if record.cell.search is None]
    typed = sorted({record.row for record in unsearched if ":pace=" in record.row})
    if any("pace " in line for line in settings):
        typed.append("rows with a pace in the settings")
    text = "Learning rates were chosen on the sample suite, with AdamW"
    if searched:
        text += f"; those of {', '.join(searched)} by `tune`, on held-out training examples"
    if typed:
        text += f"; those of {', '.join(typed)} were typed"
    other = "other " if searched or typed else ""
    return f"{text}. No {other}rate was tuned on real GLUE (docs/hyperparameters.md)."


def made_on(records: Sequence[Record]) -> list[str]:
    """Libraries and machines of the finished records."""
    libraries = set()
    machines = set()
    for record in records:
        if record.status != "ok":
            continue
        env = record.env
        libraries.add(f"torch {env.get('torch')}, transformers {env.get('transformers')}")
        device = env.get("accelerator") or env.get("device")
        machines.add(f"{env.get('processor')}, {env.get('cores')} cores, device {device}")
    if not machines:
        return []
    named = "; ".join(sorted(libraries))
    return [f"Libraries: {named}. Machines: {'; '.join(sorted(machines))}."]


def _training_texts(study: Study) -> list[str]:
    """A sentence for each text of pre-training that consists of training texts of a user's
    tasks."""
    read: dict[str, None] = {}
    for record in study.records:
        for artefact in record.artefacts.values():
            text = artefact.get("text") or {}
            tasks = text.get("training_texts_of")
            if tasks:
                tokens = f"{text['tokens']:,} tokens"
                read[f"{tokens} of the training texts of {', '.join(tasks)}"] = None
    return [f"Pre-training: {text}, without labels." for text in read]


def on_commands(study: Study, has_commands: bool) -> list[str]:
    """What a reader has to know to type the commands of these records."""
    lines = []
    if has_commands:
        lines.append(
            f"with `--results {study.results}` a command finds these records and trains no "
            "finished cell again; with another folder it trains all of them. Files and folders of "
            "data and text are named without their place"
        )
    for key, rows in starts_without_text(study).items():
        lines.append(
            f"the records of {', '.join(rows)} do not name their pre-training text (pre-training "
            f"{key}): a `--corpus` of a command may not be theirs"
        )
    return lines


def provenance(records: Sequence[Record]) -> list[str]:
    """Keys, code, base weights and examples of these records."""
    done = [r for r in records if r.status == "ok"]
    if not done:
        return ["No finished record."]
    keys = sorted(record.key for record in done)
    commits = sorted({commit_of(record.code) for record in done})
    bases = sorted({record.cell.teacher.base[:12] for record in done})
    lines = [
        f"{counted(len(done), 'record')}; keys {keys[0][:12]} to {keys[-1][:12]}",
        f"commits of the code: {'; '.join(commits)}",
    ]
    outside = _code_outside(done)
    if outside:
        lines.append(f"code outside these commits: {', '.join(outside)}")
    lines += _other_code(done)
    lines.append(f"teacher's base weights: sha256 {', '.join(bases)}")
    lines.append(f"examples: {'; '.join(sorted({_examples_of(record) for record in done}))}")
    return lines


def _examples_of(record: Record) -> str:
    """``rte train 2,490, validation 277``"""
    counts = ", ".join(f"{name} {count:,}" for name, count in record.cell.data.rows.items())
    return f"{shown_tasks(record.cell)} {counts}"


def _code_outside(records: Sequence[Record]) -> list[str]:
    """The methods of one's own (``module:Class``), which no commit of this repository holds.

    Their digest is that of the method's own file: that of all code of a record changes with the
    task's metrics.
    """
    methods = set()
    for record in records:
        if ":" in record.cell.method:
            digest = str(record.code.get("method", "not kept"))[:12]
            methods.add((record.cell.method, digest))
    return [f"{method} (digest {digest})" for method, digest in sorted(methods)]


def _other_code(records: Sequence[Record]) -> list[str]:
    """One sentence where today's code did not make all records: which did, and what to do."""
    said = made_by(records)
    stale = [record for record in records if state_of_record(record) == STALE]
    versions = set()
    for record in stale:
        version = other_version(record)
        if version:
            versions.add(f"{record.row} {version}")
    if versions:
        said += f"; {'; '.join(sorted(versions))}"
    if stale:
        said += f"; {WHAT_TO_DO}"
    return [said] if said else []
