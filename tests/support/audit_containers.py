"""One made-up table in every container that the audit reads."""

from __future__ import annotations

import csv
import json
from dataclasses import dataclass

import numpy as np

from bench.audit.layout import sheets_of
from bench.audit.sheets import from_tidy, grids_of
from bench.audit.table import Sheet


def from_text(text: str, name: str) -> list[Sheet]:
    return sheets_of(name, grids_of(text))


def from_csv(text: str) -> list[Sheet]:
    header, *lines = csv.reader(text.splitlines())
    return from_tidy(header, lines)


@dataclass
class Spanned:
    """Systems of two families, tasks of two benchmarks: both labels span what is below or beside them."""

    tasks: list[tuple[str, str]]
    families: list[str]
    systems: list[str]
    values: list[list[str]]

    @property
    def numbers(self) -> list[str]:
        return sorted(value for row in self.values for value in row)


def spanned(seed: int) -> Spanned:
    rng = np.random.default_rng(seed)
    benchmarks = ["GLUE", "SuperGLUE", "CLUE"][: int(rng.integers(2, 4))]
    tasks = [(name, f"T{place}") for name in benchmarks for place in range(int(rng.integers(1, 4)))]
    families = [
        family for family in ("BERT", "ELECTRA", "ALBERT") for _ in range(int(rng.integers(1, 4)))
    ]
    systems = [f"{family}-v{place}" for place, family in enumerate(families)]
    values = [[f"{rng.uniform(40, 95):.2f}" for _ in tasks] for _ in systems]
    return Spanned(tasks, families, systems, values)


def runs(labels: list[str]) -> list[tuple[str, int]]:
    """Each label and how often it follows itself."""
    found: list[tuple[str, int]] = []
    for label in labels:
        found = (
            [*found[:-1], (label, found[-1][1] + 1)]
            if found and found[-1][0] == label
            else [*found, (label, 1)]
        )
    return found


def html(table: Spanned) -> str:
    top = "".join(f'<th colspan="{n}">{name}</th>' for name, n in runs([b for b, _ in table.tasks]))
    lines = [
        "<h2>Results</h2><table><thead>",
        f'<tr><th rowspan=2>Family</th><th rowspan="2">System</th>{top}</tr>',
    ]
    lines += ["<tr>" + "".join(f"<th>{t}</th>" for _, t in table.tasks) + "</tr></thead><tbody>"]
    left = {
        sum(n for _, n in runs(table.families)[:i]): run
        for i, run in enumerate(runs(table.families))
    }
    for place, (system, row) in enumerate(zip(table.systems, table.values, strict=True)):
        label = f'<td rowspan="{left[place][1]}">{left[place][0]}</td>' if place in left else ""
        cells = "".join(
            f"<td><b>{v}</b><sup>1</sup></td>" if v == max(row) else f"<td>{v}</td>" for v in row
        )
        lines.append(f"<tr>{label}<td>{system}</td>{cells}</tr>")
    return "\n".join([*lines, "</tbody></table>"])


def latex(table: Spanned) -> str:
    top = " & ".join(
        rf"\multicolumn{{{n}}}{{c||}}{{\textbf{{{name}}}}}"
        for name, n in runs([b for b, _ in table.tasks])
    )
    lines = [
        r"\begin{table}\caption{Results}\resizebox{\linewidth}{!}{%",
        r"\begin{tabular}{@{}ll|" + "c" * len(table.tasks) + "@{}}",
    ]
    lines += [
        rf"\toprule \multirow{{2}}{{*}}{{Family}} & \multirow{{2}}{{*}}{{System}} & {top} \\ \cmidrule(lr){{3-4}}"
    ]
    lines += ["& & " + " & ".join(t for _, t in table.tasks) + r" \\ \midrule"]
    left = {
        sum(n for _, n in runs(table.families)[:i]): run
        for i, run in enumerate(runs(table.families))
    }
    for place, (system, row) in enumerate(zip(table.systems, table.values, strict=True)):
        label = (
            rf"\multirow{{{left[place][1]}}}{{*}}{{\rotatebox[origin=c]{{90}}{{{left[place][0]}}}}}"
            if place in left
            else ""
        )
        cells = [
            rf"\best{{{v}}}"
            if v == max(row)
            else rf"\cellcolor{{green!15}} {v} \small{{$\pm$0.31}}"
            for v in row
        ]
        lines.append(" & ".join([label, system, *cells]) + r" \\[2pt] % a comment & 1.23")
    definition = r"\newcommand{\best}[1]{\textbf{\underline{#1}}}"
    return "\n".join([definition, *lines, r"\bottomrule\end{tabular}}", r"\end{table}"])


def markdown(table: Spanned) -> str:
    head = ["Family", "System", *(f"{b}<br>{t}" for b, t in table.tasks)]
    lines = ["## Results", "", f"| {' | '.join(head)} |", "|" + ":-:|" * len(head)]
    before = ""
    for family, system, row in zip(table.families, table.systems, table.values, strict=True):
        shown = [f"**{v}**" if v == max(row) else v for v in row]
        lines.append(
            f"| {'' if family == before else family} | [{system}](https://x.org/a_(b)) | {' | '.join(shown)} |"
        )
        before = family
    return "\n".join(lines) + "\n"


def grid(table: Spanned, head: str = "System") -> list[list[str]]:
    """The header and the rows; with the families where the header has them."""
    labels = zip(*([table.families] if "Family" in head else []), table.systems, strict=True)
    rows = [[*label, *row] for label, row in zip(labels, table.values, strict=True)]
    return [[*head.split(","), *(f"{b} {t}" for b, t in table.tasks)], *rows]


def padded(lines: list[list[str]]) -> tuple[list[int], list[list[str]]]:
    widths = [max(len(line[i]) for line in lines) for i in range(len(lines[0]))]
    return widths, [[c.ljust(w) for c, w in zip(line, widths, strict=True)] for line in lines]


def drawn(table: Spanned) -> str:
    widths, lines = padded(grid(table, "Family,System"))
    border = "+" + "+".join("-" * (w + 2) for w in widths) + "+"
    head, *rows = ["| " + " | ".join(line) + " |" for line in lines]
    below = [part for row in rows for part in (row, border)]
    return "\n".join(["Results", "=======", "", border, head, border.replace("-", "="), *below])


def simple(table: Spanned) -> str:
    widths, lines = padded(grid(table))
    border = "  ".join("=" * w for w in widths)
    head, *rows = ["  ".join(line) for line in lines]
    return "\n".join(["Results", "=======", "", border, head, border, *rows, border, ""])


def notebook(table: Spanned) -> str:
    shown = {"text/html": html(table), "text/plain": "x"}
    cells = [
        {"cell_type": "markdown", "source": ["# Results\n"]},
        {"cell_type": "code", "source": ["show()"], "outputs": [{"data": shown}]},
        {"cell_type": "code", "source": [], "outputs": [{"text": "no table 1.0"}]},
    ]
    return json.dumps({"cells": cells, "nbformat": 4})


CONTAINERS = {
    "page.html": html,
    "paper.tex": latex,
    "README.md": markdown,
    "fenced.md": lambda table: f"Text.\n\n```latex\n{latex(table)}\n```\n",
    "embedded.md": lambda table: f"# Results\n\n{html(table)}\n\nText | of | no table.\n",
    "drawn.rst": drawn,
    "simple.rst": simple,
    "run.ipynb": notebook,
    "aligned.txt": lambda table: simple(table).split("\n", 3)[3].replace("=", " "),
    "tabs.txt": lambda table: "\n".join("\t".join(line) for line in grid(table)),
    "grid.csv": lambda table: "\n".join(",".join(line) for line in grid(table)),
}
