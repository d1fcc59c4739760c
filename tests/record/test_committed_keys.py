"""The committed records keep their keys: each answers to what it says, and a plan of what was typed finds it.

A change of what is hashed (a new field of the recipe, a setting, a rule for the learning rate) would leave the published
numbers behind: nobody's run would find them any more.
"""

from __future__ import annotations

import os
from collections import defaultdict
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
from conftest import SHARED

from bench.plan.build import build
from bench.plan.from_record import request_from_record
from bench.plan.request import Request
from bench.record.cell import record_key, train_key
from bench.record.code import other_version
from bench.record.schema import Record
from bench.record.store import Store

REFERENCE = Path(__file__).resolve().parents[2] / "results" / "reference"
MAIN_TABLE = REFERENCE.with_name("h200")
REVIEWS = SHARED / "extra" / "imdb" / "plain_text" / "train-00000-of-00001.parquet"
"""The text of every general start beside real GLUE: 4,000,000 tokens of it (reports/LOG.md)."""
SAMPLE, GLUE, PAIRS, QUESTIONS = "sample-v2", "folder-glue", "sample-pairs-v1", "folder-squad"


def made_files(*folders: Path) -> list[Path]:
    """Weights and records that a plan has left behind: there should be none."""
    return [file for folder in folders for kind in ("*.safetensors", "attempt-*") for file in folder.rglob(kind)]


@cache
def committed() -> tuple[Record, ...]:
    return tuple(Store(REFERENCE).records())


def requests(records: list[Record], given: Request) -> list[tuple[Request, list[Record]]]:
    """One request for each set of records that one command can ask for: all their rows, tasks and seeds.

    Tasks are named by a record only where one student learns all of them: they are part of its identity.
    """
    groups: dict[Request, list[tuple[str, Record]]] = defaultdict(list)
    for record in records:
        asked = request_from_record(record, given)
        shared = replace(asked, methods="", seeds=(0,), tasks=asked.tasks if record.cell.together else "")
        groups[shared].append((asked.methods, record))
    return [
        (
            replace(
                shared,
                methods=",".join(dict.fromkeys(row for row, _ in those if row)),
                tasks=shared.tasks or ",".join(dict.fromkeys(record.cell.tasks[0] for _, record in those)),
                seeds=tuple(sorted({record.cell.seed for _, record in those})),
            ),
            [record for _, record in those],
        )
        for shared, those in groups.items()
    ]


def lost(slug: str, given: Request) -> list[str]:
    """Committed records of this data that no plan finds: label, task, seed and key.

    Those of an older version of their method are not asked for: a plan is of today's, and reports call them stale.
    """
    missing = []
    for request, records in requests([r for r in committed() if r.cell.data.slug == slug], given):
        cells = [planned.cell for planned in build(request).cells]
        keys = {record_key(cell, point) for cell in cells for point in {record.point for record in records}}
        missing += [
            f"{r.cell.label}, {'+'.join(r.cell.tasks)}, seed {r.cell.seed}: {r.key[:12]}"
            for r in records
            if r.key not in keys and not other_version(r)
        ]
    return missing


def test_every_committed_record_answers_to_its_keys() -> None:
    records = [*committed(), *Store(MAIN_TABLE).records()]
    assert len(records) >= 560
    assert [r.key for r in records if (train_key(r.cell), record_key(r.cell, r.point)) != (r.train_key, r.key)] == []


def test_every_committed_record_is_of_a_known_source() -> None:
    """So that none escapes the tests below."""
    assert {record.cell.data.slug for record in committed()} == {SAMPLE, GLUE, PAIRS, QUESTIONS}


@pytest.mark.slow
def test_a_plan_finds_every_committed_record_of_the_sample_suite(embedded: None, tmp_path: Path) -> None:
    given = Request(data="sample", teacher="embedded", results=tmp_path / "r", reports=tmp_path / "p")
    assert lost(SAMPLE, given) == []
    assert made_files(tmp_path, Path(os.environ["BERT_BENCH_CACHE"])) == []


@pytest.mark.slow
def test_a_plan_finds_every_committed_record_of_text_generation(embedded: None, tmp_path: Path) -> None:
    given = Request(data="sample", teacher="embedded", results=tmp_path / "r", reports=tmp_path / "p")
    assert lost(PAIRS, given) == []
    if not (SHARED / "extra" / "squad").is_dir():
        pytest.skip("needs the questions in ../shared/extra/squad")
    assert lost(QUESTIONS, replace(given, data=str(SHARED / "extra" / "squad"))) == []


@pytest.mark.slow
def test_a_plan_finds_every_committed_record_of_real_glue(embedded: None, shared_glue: Path, tmp_path: Path) -> None:
    if not REVIEWS.is_file():
        pytest.skip("needs the IMDb reviews in ../shared/extra/imdb, of which the general starts were made")
    given = Request(
        data=str(shared_glue),
        teacher="embedded",
        corpus=(str(REVIEWS),),
        corpus_tokens=4_000_000,
        results=tmp_path / "r",
        reports=tmp_path / "p",
    )
    assert lost(GLUE, given) == []
    assert made_files(tmp_path, Path(os.environ["BERT_BENCH_CACHE"])) == []
