"""Write reports/printed-tables.md: each table of a paper, the command that makes it, how its rows differ, and its hours on a GPU.

    python docs/tools/printed_tables.py --data GLUE_FOLDER --corpus FILE

The folder has every task of the files in methods/experiments, with the numbers of examples of the real ones: they decide the hours. Nothing is
trained, and no GPU is asked: the rates of one are given here. A task that the folder lacks leaves its tables without hours.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from unittest import mock

import torch

from bench.errors import InputError
from bench.plan import estimate
from bench.plan.build import build
from bench.plan.estimate import EFFICIENCY
from bench.plan.experiment_file import Experiment, TableSpec
from bench.plan.plan import Plan, with_parts
from bench.plan.request import Request
from bench.record.cell import TEACHER
from bench.workflows.experiment import choose, together

ROOT = Path(__file__).resolve().parents[2]
FILES, PAGE = ROOT / "methods" / "experiments", ROOT / "reports" / "printed-tables.md"
FLOPS_A_SECOND, SECONDS_A_KERNEL = 6e13, 56e-6
"""Of one NVIDIA H200 in fp32: what a step of TinyBERT with a teacher of BERT-base's shape took there, and trainings of both."""
HEAD = f"""# The printed tables

Each table of a paper that a file of `methods/experiments` makes, with the paper's data and teacher from the hub:

    python -m bench run --experiment methods/experiments/FILE --table TABLE --data hub --device cuda

*Printed rows*: how many rows of the printed table are named by a row of the file, of all but means and scores of several tasks;
where that is empty, the table only has the form of one in the paper. *Trainings*: of students, on tasks and seeds. *Hours*: one job
on one NVIDIA H200 in fp32, by the estimate of `plan`; it may be wrong by half. It has whole steps at
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


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", required=True)
    parser.add_argument("--corpus", required=True)
    asked = parser.parse_args()
    request = Request(
        data=asked.data, offline=True, outline=True, device="cpu", jobs=1, corpus=(asked.corpus,)
    )
    PAGE.write_text(
        "\n".join([HEAD, *(section(file, request) for file in sorted(FILES.glob("*.toml")))]),
        encoding="utf-8",
    )
    return 0


def section(file: Path, request: Request) -> str:
    """The tables of one file, and how its rows differ from the printed ones."""
    experiment, tables, _ = choose(file, request, {"data"})
    lines = [f"## {file.name}", "", experiment.title, ""]
    lines += [
        "| Table | Printed in | Printed rows | Tasks | Trainings | Hours |",
        "|---|---|--:|---|--:|--:|",
    ]
    pretrained: dict[str, None] = {}
    for spec, parts, _ in tables:
        try:
            plans = [build(own) for _, own in parts]
            for planned in [planned for plan in plans for planned in plan.cells]:
                if any(part.text and part.stages for part in with_parts(planned.artefacts)):
                    pretrained[planned.cell.method] = None
            trainings = len(
                {p.train_key for plan in plans for p in plan.cells if p.cell.method != TEACHER}
            )
            figures = f"{trainings} | {hours(plans)}"
        except InputError as error:
            print(f"{file.name}, {spec.name}: {error}", file=sys.stderr)
            figures = "– | –"
        named = sum(1 if isinstance(rows, str) else len(rows) for rows in spec.printed.values())
        absent = sum(": " in name for name in spec.absent)  # else it is a column
        rows = f"{named} of {named + absent}" if spec.papers else ""
        lines.append(
            f"| {spec.name} | {'; '.join(spec.papers)} | {rows} | {', '.join(spec.tasks)} | {figures} |"
        )
    said = [f"- Expected: {experiment.expected}"] if experiment.expected else []
    said += (
        [f"- pre-trained on text here: {', '.join(f'`{method}`' for method in pretrained)}"]
        if pretrained
        else []
    )
    said += [*differences(experiment), *(line for spec, _, _ in tables for line in left_out(spec))]
    return "\n".join([*lines, "", *said, ""] if said else [*lines, ""])


def hours(plans: Sequence[Plan]) -> str:
    """Of one job on the GPU of this page."""
    rates = mock.patch.object(
        estimate, "rates_of_card", return_value=(FLOPS_A_SECOND, SECONDS_A_KERNEL)
    )
    with rates, mock.patch.object(torch.accelerator, "is_available", return_value=True):
        for plan in plans:
            usual, plan.request = plan.request, replace(plan.request, device="cuda")
            plan.costs = {step.key: estimate.cost_of(plan, step) for step in plan.todo_steps}
            plan.request = usual
    needed = together(list(plans))[0] / 3600
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
