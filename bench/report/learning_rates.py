"""At which learning rates a report's rows were trained, and how these rates were chosen. No torch, no clock."""

from __future__ import annotations

from collections.abc import Iterable

from bench.record.cell import CHECKPOINT, TEACHER, Cell
from bench.record.recipe import ADAMW, PAPER, START, TEACHER_LEARNING_RATES, WIDE, Recipe
from bench.record.schema import Record
from bench.record.stated import stated
from bench.record.task_facts import SAMPLE
from bench.report.groups import ReportGroup

FINE_TUNED = "fine-tuned"
"""The origin of a teacher that was trained here."""


def written(rate: float) -> str:
    """``3e-4``"""
    digits, _, power = f"{rate:.3e}".partition("e")
    return f"{digits.rstrip('0').rstrip('.')}e{int(power)}"


OF_NARROW, OF_WIDE = (written(TEACHER_LEARNING_RATES[narrow]) for narrow in (True, False))
OF_STUDENTS, ON_TEXT = written(Recipe().learning_rate), written(START.learning_rate)


def rates_line(group: ReportGroup) -> str:
    """Every row's rate, the rule that gives it, and on which data the rates were chosen; "" where nothing was trained."""
    trained = [record for record in group.records if was_trained(record)]
    if not trained:
        return ""
    students = [record for record in trained if record.cell.method != TEACHER]
    by_papers = group.recipe == PAPER and bool(students)
    peaks = rates_of([r for r in trained if r.cell.method == TEACHER] if by_papers else trained)
    parts = [f"{written(rate)} for {', '.join(rows)}" for rate, rows in sorted(peaks.items())]
    if by_papers:
        parts.append("each stage of a student at its paper's own (`Stage.paper` in the method's file)")
    said = [f"Learning rates at their peak: {'; '.join(parts)}."]
    if students and not by_papers:
        said.append(_rule())
    if group.optimizer != ADAMW:
        said.append(f"These rates were chosen with AdamW; the students here have the optimizer {group.optimizer}.")
    if own := optimizers_by_papers(students):
        said.append(f"Not trained with AdamW: {'; '.join(own)}.")
    return " ".join([*said, _choice(group, bool(students) and not by_papers)])


def peak_rate(cell: Cell) -> float:
    """The highest learning rate of a training's schedule, after its row's own factor."""
    factor = stated(cell.method, "rate_factor") or 1.0
    if isinstance(factor, str):  # the name of a setting
        factor = cell.settings.get(factor, stated(cell.method, factor))
    return float(f"{cell.recipe['learning_rate'] * factor:.6g}")


def rates_of(records: list[Record]) -> dict[float, list[str]]:
    """Rate -> the rows trained at it: a method's name where all its rows have one rate, else their labels."""
    of_method: dict[str, dict[str, float]] = {}
    for record in records:
        of_method.setdefault(record.cell.method, {})[record.cell.label] = peak_rate(record.cell)
    found: dict[float, list[str]] = {}
    for method, rates in sorted(of_method.items(), key=lambda one: (one[0] != TEACHER, one[0])):
        named = {method: next(iter(rates.values()))} if len(set(rates.values())) == 1 else rates
        for name, rate in sorted(named.items()):
            found.setdefault(rate, []).append(name)
    return found


def optimizers_by_papers(students: Iterable[Record]) -> list[str]:
    """Each stage whose paper names another optimiser than AdamW: its row, its name, and the optimiser."""
    return sorted(
        {
            f"{record.row}, stage {stage}: {name}"
            for record in students
            for stage, name in record.cell.recipe.get("stage_optimizers", ())
        }
    )


def was_trained(record: Record) -> bool:
    """Whether the harness trained this row: no finished checkpoint, and no teacher that was given as it is."""
    cell = record.cell
    return cell.method != CHECKPOINT and (cell.method != TEACHER or cell.teacher.origin == FINE_TUNED)


def _rule() -> str:
    return (
        f"A student whose layers are copied from its teacher, or that begins with a pre-trained encoder of width {WIDE} or more, has "
        f"the teacher's learning rate: {OF_NARROW} for teachers narrower than {WIDE}, {OF_WIDE} from width {WIDE} on. Every other student "
        f"has {OF_STUDENTS}. A method, or the setting `pace=` of a row, can multiply the rate."
    )


def _choice(group: ReportGroup, of_students: bool) -> str:
    """What reports/LOG.md says of the choice, in short."""
    suite = "the sample suite" + (", this report's own data" if group.facts.source == SAMPLE else "")
    said = [
        f"The teachers' {OF_NARROW} was chosen on the development sets of {suite}; their {OF_WIDE} is the literature's."
    ]
    if of_students:
        said.append(
            f"{OF_STUDENTS} was chosen with plain fine-tuning on held-out training examples of that suite. It was then tried on the "
            f"suite's development sets of mrpc and cola, and kept. Pre-training on text has {ON_TEXT}, chosen by the loss of the "
            "general start on the suite's sentences."
        )
    other = "rate"
    if searched := sorted({record.row for record in group.records if record.cell.search is not None}):
        other = "other rate"
        said.append(
            f"For {', '.join(searched)} `tune` searched the rate, with other settings, on held-out training examples of each task."
        )
    return " ".join([*said, f"No {other} was tuned on real GLUE, or for one row or task (reports/LOG.md)."])
