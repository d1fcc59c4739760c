"""Write reports/printed-tables.md: each table of a paper, the command that makes it, how its rows differ, and its hours on a GPU.

    python docs/tools/printed_tables.py --data GLUE_FOLDER --corpus FILE
    python docs/tools/printed_tables.py

The folder has every task of the files in methods/experiments, with the numbers of examples of the real ones: they decide
the hours. Nothing is trained, and no GPU is asked: the rates of one are given here. A task that the folder lacks leaves its
tables without hours. Without a folder, trainings and hours are kept as the page has them, and what was pre-trained too; a
table that is new has dashes. `--files movement,cofi` counts those files alone with the folder and keeps the others.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from unittest import mock

import torch

from bench.errors import InputError
from bench.plan import estimate
from bench.plan.build import build
from bench.plan.estimate import EFFICIENCY, SECONDS_A_KERNEL
from bench.plan.experiment_file import Experiment, TableSpec, read_experiment
from bench.plan.plan import Plan, with_parts
from bench.record.cell import TEACHER
from bench.report.published import Published, published
from bench.request import Request
from bench.workflows.experiment import choose, together

ROOT = Path(__file__).resolve().parents[2]
FILES, PAGE = ROOT / "methods" / "experiments", ROOT / "reports" / "printed-tables.md"
FLOPS_A_SECOND = 6e13
"""Of one NVIDIA H200 in fp32: what a step of TinyBERT with a teacher of BERT-base's shape took there."""
HEAD = f"""# The printed tables

Each table of a paper that a file of `methods/experiments` makes, with the paper's data and teacher from the hub:

    python -m bench run --experiment methods/experiments/FILE --table TABLE --data hub --device cuda

*Printed rows*: of how many rows the printed table has, and how many of them a row of the file is; the others are rows of another
table here, or quoted with their numbers in the report and with a reason below. Where that is empty, the table only has the form
of one in the paper. *Trainings*: of students, on tasks and seeds. *Hours*: one job
on one NVIDIA H200 in fp32, by the estimate of `plan`, right within a factor of two. It has whole steps at
{EFFICIENCY * FLOPS_A_SECOND / 1e12:.0f} TFLOP/s, and
{SECONDS_A_KERNEL * 1e6:.0f} microseconds to start each kernel, as was seen there. Small students leave a card idle most of
the time, so that several `--jobs` take much less. Each table is counted as if it were made alone; what two tables have in
common is trained once. Numbers of examples are those of the real tasks; lengths of MNLI and QQP are those of a part of their
examples, and those of QNLI and SQuAD come from SQuAD's development file.
A dash: the data were not at hand.

**Pre-training** reads 4,000,000 tokens of --corpus where nothing else is typed (`--corpus-tokens`), in batches of 32 sequences of
at most 128 tokens. The papers' pre-training reads Wikipedia, mostly also books, some 3,300 million words, in batches of 256 sequences and more.
Which rows have it here stands below each file's tables.

No file reproduces a paper's numbers. What to expect beside them, and how each row is another system than the printed one,
stands below its tables, and in the report beside each number.
"""
NOT_MADE = {
    "Sanh et al. 2019, Table 3 (seconds of a pass over STS-B)": (
        "seconds on their machine; `python -m bench speed` measures ours, and two of its three sizes are among the printed sizes"
    ),
    "Liu et al. 2020, README of FastBERT (Douban reviews and AG News)": (
        "neither data set is a task of this program; fastbert.toml has the form of the table on tasks of GLUE"
    ),
    "Matsubara 2021, README of torchdistill (GLUE)": (
        "BERT-base from BERT-large, of the test server; `kd:layers=12:hidden=768:heads=12:ffn=3072` is such a row, and no file has it"
    ),
}
"""Printed table that no file makes -> why."""


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", default="")
    parser.add_argument("--corpus", default="")
    parser.add_argument("--files", default="")
    asked = parser.parse_args()
    request = Request(
        data=asked.data, offline=True, outline=True, device="cpu", jobs=1, corpus=(asked.corpus,)
    )
    kept = kept_figures(PAGE.read_text(encoding="utf-8"))
    sections = []
    for file in sorted(FILES.glob("*.toml")):
        is_counted = asked.data and (not asked.files or file.stem in asked.files.split(","))
        known = counted_figures(file, request) if is_counted else kept.get(file.name, Figures())
        sections.append(section(file, known))
    PAGE.write_text("\n".join([HEAD, whole_tables(), *sections]), encoding="utf-8")
    return 0


@dataclass
class Figures:
    """What the page says of one file's tables that has to be counted with data.

    Attributes:
        of_tables: name of a table -> its trainings and hours, as they are printed.
        pretrained: the methods whose rows are pre-trained on text here.
    """

    of_tables: dict[str, str] = field(default_factory=dict)
    pretrained: tuple[str, ...] = ()


PRETRAINED = "- pre-trained on text here: "


def kept_figures(page: str) -> dict[str, Figures]:
    """Name of a file -> the figures that a page has of it."""
    found = {}
    for part in page.split("\n## ")[1:]:
        figures = Figures()
        for line in part.splitlines():
            if line.startswith("| "):
                cells = line.removeprefix("| ").removesuffix(" |").split(" | ")
                figures.of_tables[cells[0]] = " | ".join(cells[-2:])
            if line.startswith(PRETRAINED):
                methods = line.removeprefix(PRETRAINED).split(", ")
                figures.pretrained = tuple(method.strip("`") for method in methods)
        found[part.splitlines()[0]] = figures
    return found


def counted_figures(file: Path, request: Request) -> Figures:
    """The trainings and hours of one file's tables, by plans."""
    figures = Figures()
    pretrained: dict[str, None] = {}
    for table in choose(file, request, {"data"})[1]:
        try:
            plans = [build(own) for _, own in table.parts]
            cells = [planned for plan in plans for planned in plan.cells]
            for planned in cells:
                if any(part.text and part.stages for part in with_parts(planned.artefacts)):
                    pretrained[planned.cell.method] = None
            trainings = {p.train_key for p in cells if p.cell.method != TEACHER}
            figures.of_tables[table.spec.name] = f"{len(trainings)} | {hours(plans)}"
        except InputError as error:
            print(f"{file.name}, {table.spec.name}: {error}", file=sys.stderr)
    figures.pretrained = tuple(pretrained)
    return figures


def section(file: Path, figures: Figures) -> str:
    """The tables of one file, and how its rows differ from the printed ones."""
    experiment = read_experiment(file)
    lines = [f"## {file.name}", "", experiment.title, ""]
    lines += [
        "| Table | Printed in | Printed rows | Tasks | Trainings | Hours |",
        "|---|---|--:|---|--:|--:|",
    ]
    for spec in experiment.table:
        counted = figures.of_tables.get(spec.name, "– | –")
        tasks = ", ".join(spec.tasks)
        lines.append(
            f"| {spec.name} | {'; '.join(spec.papers)} | {rows_made(spec)} | {tasks} | {counted} |"
        )
    said = [f"- Expected: {experiment.expected}"] if experiment.expected else []
    if figures.pretrained:
        said.append(PRETRAINED + ", ".join(f"`{method}`" for method in figures.pretrained))
    said += differences(experiment)
    for spec in experiment.table:
        said += left_out(spec)
    return "\n".join([*lines, "", *said, ""] if said else [*lines, ""])


def named_rows(spec: TableSpec) -> set[str]:
    """The printed rows that the rows of a table are, ``TABLE: ROW``."""
    named: set[str] = set()
    for rows in spec.printed.values():
        named |= {rows} if isinstance(rows, str) else set(rows)
    return named


def rows_made(spec: TableSpec) -> str:
    """How many rows of the printed table a table makes, and how many that has; "" where it is of none."""
    if not spec.paper:
        return ""
    named = named_rows(spec)
    tables = {name.partition(": ")[0] for name in named}
    rows = {row_of(c) for c in published() if c.source == spec.paper and c.table in tables}
    return f"{len(named)} of {len(rows)}"


def row_of(cell: Published) -> str:
    """As files name a printed row."""
    return f"{cell.table}: {cell.system}"


def whole_tables() -> str:
    """Each printed table, whether files make it as a whole, and those that no file makes."""
    made: set[Published] = set()
    quoted: set[Published] = set()
    files: dict[tuple[str, str], dict[str, None]] = {}
    for file in sorted(FILES.glob("*.toml")):
        for spec in read_experiment(file).table:
            named = named_rows(spec)
            for cell in published():
                if cell.source != spec.paper:
                    continue
                if row_of(cell) in named and cell.task in spec.typed_tasks:
                    made.add(cell)
                    files.setdefault((cell.source, cell.table), {})[file.name] = None
                if row_of(cell) in spec.absent or (
                    row_of(cell) in named and cell.task in spec.absent
                ):
                    quoted.add(cell)
    by_table: dict[tuple[str, str], list[Published]] = {}
    for cell in published():
        by_table.setdefault((cell.source, cell.table), []).append(cell)
    lines = []
    in_full = 0
    for (source, table), cells in by_table.items():
        of_files = [cell for cell in cells if cell in made]
        others = [cell for cell in cells if cell in quoted and cell not in made]
        rows = {cell.system for cell in cells}
        rows_here = {cell.system for cell in of_files}
        is_full = len(of_files) + len(others) == len(cells)
        in_full += is_full
        state = (
            "in full" if is_full else f"in part: {len(cells) - len(of_files)} numbers are not here"
        )
        quotes = f"{len(others)} of {len(cells)}" if others else ""
        where = ", ".join(files.get((source, table), ()))
        lines.append(
            f"| {source}, {table} | {where} | {len(rows_here)} of {len(rows)} | {quotes} | {state} |"
        )
    head = [
        f"**{in_full} of {len(by_table) + len(NOT_MADE)} printed tables stand in a report as a whole**: each number beside a row that is",
        "trained here, or quoted with the reason why no row here makes it. Rows count as far as we could read the table (of TinyBERT's",
        "appendix an excerpt). Means and scores of several tasks are left out, and so are tables of settings and shapes: MoEBERT's table 7",
        "is in moebert.toml, MobileBERT's table 1 in methods/mobilebert.py. MoEBERT's figure of speeds has no numbers.",
        "",
        "| Printed table | File | Rows made here | Numbers quoted | State |",
        "|---|---|--:|--:|---|",
    ]
    not_made = [f"| {name} | none |  |  | not here: {why} |" for name, why in NOT_MADE.items()]
    return "\n".join([*head, *lines, *not_made, ""])


def hours(plans: Sequence[Plan]) -> str:
    """Of one job on the GPU of this page."""
    rates = mock.patch.object(
        estimate, "rates_of_card", return_value=(FLOPS_A_SECOND, SECONDS_A_KERNEL)
    )
    counted = []
    with rates, mock.patch.object(torch.accelerator, "is_available", return_value=True):
        for plan in plans:
            on_card = replace(plan, request=replace(plan.request, device="cuda"))
            costs = {step.key: estimate.cost_of(on_card, step) for step in plan.todo_steps}
            counted.append(replace(plan, costs=costs))
    needed = together(counted)[0] / 3600
    return f"{needed:.1f}" if needed >= 0.1 else "< 0.1"


def differences(experiment: Experiment) -> list[str]:
    """How rows are other systems than the printed ones."""
    lines = []
    for each in experiment.differs:
        who = ", ".join(f"`{row}`" for row in each.methods) or "all rows"
        where = f" in {', '.join(each.tables)}" if each.tables else ""
        lines.append(f"- {who}{where}: {each.why}")
    return lines


def left_out(spec: TableSpec) -> list[str]:
    """The printed rows and columns that a table has not."""
    return [f"- {spec.name}, without {name!r}: {why}" for name, why in spec.absent.items()]


if __name__ == "__main__":
    raise SystemExit(main())
