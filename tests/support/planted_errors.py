"""Results tables made up for the audit: correct ones, rounded as papers round, and the same with one planted error."""

from __future__ import annotations

from decimal import ROUND_DOWN, ROUND_HALF_UP, Decimal

import numpy as np

TASKS = ["CoLA", "SST-2", "MRPC", "STS-B", "QQP", "MNLI-m", "MNLI-mm", "QNLI", "RTE"]
SYSTEMS = [
    "BERT-base (Teacher)",
    "DistilBERT",
    "PKD",
    "TinyBERT",
    "MobileBERT",
    "MiniLM",
    "Ours",
    "Theseus",
    "PD",
]
KINDS = ("average", "ratio", "sign", "digits", "truncation")


def rounded(value: Decimal | float, places: int = 1, rule: str = ROUND_HALF_UP) -> Decimal:
    return Decimal(str(value)).quantize(Decimal(1).scaleb(-places), rule)


class Table:
    """Scores of some systems, their averages, percentages of the teacher and differences to a baseline."""

    def __init__(self, rng: np.random.Generator, from_printed: bool) -> None:
        self.rng = rng
        self.tasks = list(rng.permutation(TASKS)[: rng.integers(4, 9)])
        self.systems = [SYSTEMS[0], *rng.permutation(SYSTEMS[1:])[: rng.integers(3, 7)]]
        base = rng.uniform(55, 93, len(self.tasks))
        exact = {
            s: base
            - (0 if s == SYSTEMS[0] else rng.uniform(0.3, 7))
            + rng.normal(0, 1, len(self.tasks))
            for s in self.systems
        }
        self.cells = {s: [rounded(v) for v in values] for s, values in exact.items()}
        source = (
            {s: [float(v) for v in values] for s, values in self.cells.items()}
            if from_printed
            else exact
        )
        self.average = {
            s: rounded(Decimal(str(round(float(np.mean(v)), 9)))) for s, v in source.items()
        }
        self.student = self.systems[-1]
        self.baseline = self.systems[1]
        teacher, student, other = (
            source[s] for s in (self.systems[0], self.student, self.baseline)
        )
        self.kept = [rounded(100 * a / b) for a, b in zip(student, teacher, strict=True)]
        self.gap = [rounded(a - b) for a, b in zip(student, other, strict=True)]
        # the average cells of the derived rows: none, of their own cells, or of the averages
        ratios, gaps = (
            [100 * a / b for a, b in zip(student, teacher, strict=True)],
            [a - b for a, b in zip(student, other, strict=True)],
        )
        way = int(rng.integers(3))
        whole = (
            float(np.mean(ratios))
            if way == 1
            else 100 * float(np.mean(student)) / float(np.mean(teacher))
        )
        self.kept_average = rounded(whole) if way else None
        self.gap_average = rounded(float(np.mean(gaps))) if way else None

    def plant(self, kind: str) -> None:
        """One error of this kind that changes a printed digit."""
        rng, size = self.rng, len(self.tasks)
        system = self.systems[rng.integers(len(self.systems))]
        place = int(rng.integers(size))
        if kind == "average":
            self.average[system] += rounded(rng.choice([-1, 1]) * rng.uniform(0.2, 3))
        elif kind == "ratio":
            self.kept[place] += rounded(rng.choice([-1, 1]) * rng.uniform(0.3, 5))
        elif kind == "sign":
            place = int(np.argmax([abs(v) for v in self.gap]))
            self.gap[place] = -self.gap[place]
        elif kind == "digits":
            choices = [
                i for i, v in enumerate(self.cells[system]) if abs(int(v) // 10 - int(v) % 10) > 1
            ]
            if not choices:
                self.average[system] += Decimal("0.7")
                return
            place = choices[int(rng.integers(len(choices)))]
            value = self.cells[system][place]
            whole = int(value)
            self.cells[system][place] = value - whole + (whole % 10) * 10 + whole // 10
        elif kind == "truncation":
            cut = {
                s: rounded(sum(values) / size, 2, ROUND_DOWN) for s, values in self.cells.items()
            }
            if all(value == rounded(sum(self.cells[s]) / size, 2) for s, value in cut.items()):
                self.plant("average")  # nothing would change
                return
            self.average = cut

    def csv(self) -> str:
        lines = ["source,table,system,params_m,flops_b,speedup,task,metric,split,value,note"]

        def add(system: str, task: str, metric: str, value: Decimal) -> None:
            lines.append(f"a paper,Table 1,{system},,,,{task},{metric},dev,{value},")

        for system in self.systems:
            for task, value in zip(self.tasks, self.cells[system], strict=True):
                add(system, task, "accuracy", value)
            add(system, "Avg", "mean", self.average[system])
        for label, metric, values, average in (
            (f"{self.student} % of teacher", "percent_of_teacher", self.kept, self.kept_average),
            (
                f"Difference ({self.student} to {self.baseline})",
                "percentage_points",
                self.gap,
                self.gap_average,
            ),
        ):
            for task, value in zip(self.tasks, values, strict=True):
                add(label, task, metric, value)
            if average is not None:
                add(label, "Avg", metric, average)
        return "\n".join(lines) + "\n"
