"""From which teacher a student learned, by what its record says. No torch."""

from __future__ import annotations

from collections.abc import Sequence

from bench.record.schema import Record


def teacher_weights(record: Record) -> str | None:
    """sha256 of the weights of the teacher that a record names; None where it names none."""
    teacher = record.artefacts.get("teacher") or record.artefacts.get(
        f"teacher.{record.cell.tasks[0]}"
    )
    return teacher.get("weights") if teacher else None


def same_teacher(student: Record, teacher: Record) -> bool:
    """Whether both records name the same teacher: by its weights where both do, else by its key."""
    named = teacher_weights(student)
    shown = teacher_weights(teacher)
    if named and shown:
        return named == shown
    return student.cell.teacher.key == teacher.cell.teacher.key


def teachers_of(students: Sequence[Record], teachers: Sequence[Record]) -> list[Record]:
    """The teacher of each student; none where that of some student is not there."""
    found = []
    for student in students:
        own = next((teacher for teacher in teachers if same_teacher(student, teacher)), None)
        if own is None:
            return []
        found.append(own)
    return found
