"""The committed records keep their keys: each answers to what it says. That plans find them is with their reports' commands.

A change of what is hashed (a new field of the recipe, a setting, a rule for the learning rate) would leave the published
numbers behind: nobody's run would find them any more.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

from bench.record.cell import record_key, train_key
from bench.record.schema import Record
from bench.record.store import Store

REFERENCE = Path(__file__).resolve().parents[2] / "results" / "reference"
MAIN_TABLE, UNTUNED = REFERENCE.with_name("h200"), REFERENCE.with_name("untuned")
SAMPLE, GLUE, PAIRS, QUESTIONS = "sample-v2", "folder-glue", "sample-pairs-v1", "folder-squad"


@cache
def committed() -> tuple[Record, ...]:
    return tuple(Store(REFERENCE).records())


def test_every_committed_record_answers_to_its_keys() -> None:
    records = [*committed(), *Store(MAIN_TABLE).records(), *Store(UNTUNED).records()]
    assert len(records) >= 700
    assert [
        r.key
        for r in records
        if (train_key(r.cell), record_key(r.cell, r.point)) != (r.train_key, r.key)
    ] == []


def test_every_committed_record_is_of_a_known_source() -> None:
    """So that none escapes the tests of reports' commands."""
    assert {record.cell.data.slug for record in committed()} == {SAMPLE, GLUE, PAIRS, QUESTIONS}
