"""The page of an answer: the sentence, the sheet, what each class loses, and the model to take."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.analysis.answer import SHARE, Answer, busy_titles, in_megabytes
from bench.analysis.choice_in_words import bound_lines
from bench.analysis.choose import Choice
from bench.record.speed_sessions import BUSY_CORES, SpeedRecord
from bench.report.document import Section, to_page
from bench.report.page_sentences import warnings
from bench.report.speed_page import conditions_of
from bench.report.table import Table
from bench.report.tables.by_class import f1_by_class

NO_ROW = "No row fits. The nearest ones are named below."


@dataclass(frozen=True)
class Taken:
    """The model that was exported.

    Attributes:
        folder: where its files are.
        megabytes: of its file.
        examples: how many of its predictions were compared with the record's.
        changed: how many of them differ.
        lines: Python that uses it.
    """

    folder: Path
    megabytes: float
    examples: int
    changed: int
    lines: tuple[str, ...]

    def in_words(self) -> str:
        """Where it is, and how its answers compare with the record's."""
        same = self.examples - self.changed
        return (
            f"{self.folder}: {in_megabytes(self.megabytes)}; "
            f"{same:,} of {self.examples:,} predictions "
            "are those of the record"
        )


def page(
    task: str,
    choice: Choice,
    answer: Answer | None,
    sheet: Table,
    session: SpeedRecord,
    taken: Taken | None,
    said: Sequence[str],
    untried: Mapping[str, str],
    command: str,
) -> bytes:
    """The page as Markdown.

    Args:
        choice: its group has the resampled answers.
        said: sentences on the plan: how many seeds, which limits.
        untried: row -> why it was not trained.
        command: what was typed.
    """
    group = choice.group
    left_out = [f"{row}: not trained, because {why}" for row, why in untried.items()]
    for row, why in choice.left_out.items():
        # an earlier run may have trained it
        if row not in untried:
            left_out.append(f"{group.called(row)}: {why}")
    suspects = []
    for candidate in choice.candidates:
        name = group.called(candidate.label)
        suspects += [f"suspect: {name}, {what}" for what in candidate.suspect]
    sections = [
        Section("", [answer.sentence if answer else NO_ROW]),
        Section("Sheet", points=_notes(session), tables=[busy_titles(sheet, group)]),
        Section("Left out", bound_lines(choice), left_out),
        Section("F1 by class", tables=list(f1_by_class(group))),
        Section("How sure", points=[*_how_sure(answer), *said, *suspects, *warnings(group)]),
        Section("Command", commands=[command]),
    ]
    text = to_page(f"What to do with the teacher of {task}", sections).decode()
    if taken is not None:
        code = "\n".join(taken.lines)
        text += f"\n## The model\n\n{taken.in_words()}.\n\n```python\n{code}\n```\n"
    return text.encode()


def _notes(session: SpeedRecord) -> list[str]:
    """What the columns of the sheet are."""
    machine = session.env.get("processor")
    first = next(iter(conditions_of(session)), None)
    notes = [
        "the first score has a 95 % interval: over examples, and over seeds where there are "
        "several",
        "changed: predictions that are not the teacher's",
        f"p50 and p95: the median and the {100 * SHARE:.0f} % quantile of one call",
        "a row in 8 bits is timed in ONNX Runtime",
        "peak memory: of a process that opens the file and answers 32 sequences of 128 tokens, "
        "above the same process before",
    ]
    if first is not None:
        notes.append(f"milliseconds: batch {first.batch}, length {first.length}, on {machine}")
    if session.others >= BUSY_CORES:
        notes.append(
            f"busy: other processes used {session.others:.1f} cores, so milliseconds mean little"
        )
    return notes


def _how_sure(answer: Answer | None) -> list[str]:
    """By which rule the row was taken."""
    if answer is None:
        return []
    if answer.keeps:
        return [
            f"taken: the cheapest row whose whole 95 % interval is at {answer.least:g} % of the "
            "teacher's score or above; cheap is fewer FLOPs, then fewer parameters, then fewer "
            "megabytes"
        ]
    return [
        f"no row is shown to keep {answer.least:g} % of the teacher's score, so the one with the "
        "highest mean is taken"
    ]
