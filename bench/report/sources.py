"""The sentences of a report that say where its numbers come from, and what a reader has to know before them. No torch."""

from __future__ import annotations

from collections.abc import Sequence

from bench.data.checkpoints import EMBEDDED_SHA256
from bench.record.cell import TEACHER
from bench.record.code import stale_lines, unknown_line
from bench.record.differences import left_out_lines
from bench.record.recipe import ADAMW
from bench.record.schema import Record
from bench.record.task_facts import SAMPLE
from bench.report import escape
from bench.report.groups import ReportGroup
from bench.report.learning_rates import rates_line
from bench.report.reproduce import named_files, starts_without_text
from bench.report.systems import RANDOM, start_kind
from bench.report.tables.parts import counted, listed


def warnings(group: ReportGroup) -> list[str]:
    """What a reader has to know before the first number: a paragraph each."""
    said = []
    if group.facts.source == SAMPLE:
        said.append(
            "**Generated sample data, not GLUE.** Each task has the form of the GLUE task of the same name. No number here can be "
            "compared with a paper."
        )
    elif group.base == EMBEDDED_SHA256 and {"mnli", "qqp"} & set(group.tasks):
        said.append(
            "The teacher was trained for sentence similarity on data that include MultiNLI, SNLI and QQP: its scores on mnli and qqp "
            "may be too high."
        )
    said += [f"**{text[0].upper()}{text[1:]}.**" for text in (*group.aside, *left_out_lines(group.left_out))]
    return said + [f"**{text}**" for text in stale_lines(group.records)]


def environment(group: ReportGroup) -> list[str]:
    """Recipe, learning rates, libraries and machines, a paragraph each."""
    length = "" if group.recipe == "paper" else f", {group.epochs:g} epochs over all stages"
    optimizer = "" if group.optimizer == ADAMW else f", optimizer {group.optimizer}"
    where = counted(group.threads, "thread") + ("" if group.device == "cpu" else f", {group.device}")
    recipe = f"Recipe {group.recipe}{length}{optimizer}; {group.precision}, {where}. {_start_line(group)}"
    return [text for text in (recipe, rates_line(group), *made_on(group.records)) if text]


def made_on(records: Sequence[Record]) -> list[str]:
    """Libraries and machines of the finished records."""
    envs = [r.env for r in records if r.status == "ok"]
    libraries = sorted({f"torch {env.get('torch')}, transformers {env.get('transformers')}" for env in envs})
    machines = sorted({f"{env.get('processor')}, {env.get('cores')} cores, device {env.get('device')}" for env in envs})
    return [f"Libraries: {'; '.join(libraries)}. Machines: {'; '.join(machines)}."] if envs else []


def _start_line(group: ReportGroup) -> str:
    """Which general start the students share; each row's own start is in the table of costs."""
    general = sorted(
        {r.artefacts["general_start"]["key"][:12] for r in group.records if "general_start" in r.artefacts}
    )
    students = [r for r in group.records if r.train and r.cell.method != TEACHER]
    random = sorted({r.row for r in students if start_kind(r) == RANDOM})
    other = sorted({r.row for r in students if "general_start" not in r.artefacts} - set(random))
    text = "No student begins with a general start"
    if general:
        text = f"Students begin with the general start {' or '.join(general)}"
    elsewhere = "the teacher or another pre-training (see the cost of training)"
    others = [
        f"{listed(rows)} begin{'s' if len(rows) == 1 else ''} with {what}"
        for rows, what in ((random, "random weights"), (other, elsewhere))
        if rows
    ]
    if general and others:
        return f"{text}, with these exceptions: {'; '.join(others)}."
    return " ".join(f"{sentence}." for sentence in (text, *others))


def made_again(made: Sequence[str], group: ReportGroup) -> list[str]:
    """The commands of these records, and what a reader has to know to type them."""
    lines = [f"- command: {escape.code(command)}" for command in made]
    if made:
        lines.append(
            f"- with `--results {escape.markdown(group.results)}` a command finds these records and trains no finished cell "
            "again; with another folder it trains all of them"
        )
    if named := named_files(made):
        lines.append(
            f"- replace {listed(list(map(escape.code, named)))} by your paths. Records keep file names without folders"
        )
    for key, rows in starts_without_text(group).items():
        named_rows = escape.markdown(", ".join(rows))
        line = f"- the records of {named_rows} do not name their pre-training text (pre-training {key})"
        if any(" --corpus " in command for command in made):
            line += f". A `--corpus` above is that of other rows. It may not be the right one for {named_rows}"
        lines.append(line)
    return lines


def provenance(records: Sequence[Record]) -> list[str]:
    """Keys, code, base weights and examples of these records."""
    done = [r for r in records if r.status == "ok"]
    if not done:
        return ["No finished record."]
    commits = sorted({commit_of(r.code) for r in done})
    rows = sorted(
        {f"{'+'.join(r.cell.tasks)} {', '.join(f'{k} {v:,}' for k, v in r.cell.data.rows.items())}" for r in done}
    )
    bases = sorted({r.cell.teacher.base[:12] for r in done})
    return [
        f"- {counted(len(done), 'record')}; keys {min(r.key for r in done)[:12]} to {max(r.key for r in done)[:12]}",
        f"- commits of the code: {'; '.join(commits)}",
        *([f"- {unknown}"] if (unknown := unknown_line(done)) else []),
        f"- teacher's base weights: sha256 {', '.join(bases)}",
        f"- examples: {'; '.join(rows)}",
    ]


def commit_of(code: dict[str, object]) -> str:
    """The commit that made a record."""
    return f"{str(code.get('commit'))[:12]}{' with local changes' if code.get('dirty') else ''}"
