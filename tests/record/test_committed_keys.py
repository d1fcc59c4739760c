"""The committed records keep their keys: each answers to what it says, and a plan of what was typed finds it.

A change of what is hashed (a new field of the recipe, a setting, a rule for the learning rate) would leave the published
numbers behind: nobody's run would find them any more.
"""

from __future__ import annotations

import os
import re
from collections import defaultdict
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
from conftest import SHARED

from bench.plan.build import build
from bench.plan.from_record import spelling_of
from bench.plan.request import CHECKPOINT_OPTION_OF_RULE, Request
from bench.record.cell import TEACHER, record_key, train_key
from bench.record.code import other_version
from bench.record.schema import Record
from bench.record.store import Store

REFERENCE = Path(__file__).resolve().parents[2] / "results" / "reference"
REVIEWS = SHARED / "extra" / "imdb" / "plain_text" / "train-00000-of-00001.parquet"
"""The text of every general start beside real GLUE: 4,000,000 tokens of it (reports/LOG.md)."""
SAMPLE, GLUE, PAIRS, QUESTIONS = "sample-v2", "folder-glue", "sample-pairs-v1", "folder-squad"
ASKED = ("recipe", "checkpoint", "precision", "threads", "max_train_rows", "epochs")
"""Options of Request that a record answers by itself."""


def made_files(*folders: Path) -> list[Path]:
    """Weights and records that a plan has left behind: there should be none."""
    return [file for folder in folders for kind in ("*.safetensors", "attempt-*") for file in folder.rglob(kind)]


@cache
def committed() -> tuple[Record, ...]:
    return tuple(Store(REFERENCE).records())


def typed(record: Record) -> Request:
    """What one command says for this record and others like it; rows, seeds, data and teacher come later.

    Tasks are named here only where one student learns all of them: they are part of its identity.
    """
    cell = record.cell
    return Request(
        tasks=",".join(partner.task for partner in cell.together),
        recipe=cell.recipe["name"],
        checkpoint=CHECKPOINT_OPTION_OF_RULE[cell.selection.rule if cell.selection else ""],
        precision=cell.numeric.precision,
        threads=cell.numeric.threads,
        max_train_rows=cell.row_limit,
        epochs=None if cell.recipe["name"] == "paper" else cell.recipe["epochs"],
    )


def row(record: Record) -> str:
    """How the row was typed; the pace of its learning rate is in no setting, only in its label."""
    pace = re.search(r":pace=([^: ]+)", record.cell.label)
    return spelling_of(record.cell) + (pace[0] if pace else "")


def requests(records: list[Record], given: Request) -> list[tuple[Request, list[Record]]]:
    """One request for each set of records that one command can ask for: all their rows, tasks and seeds."""
    groups: dict[Request, list[Record]] = defaultdict(list)
    for record in records:
        groups[typed(record)].append(record)
    return [
        (
            replace(
                given,
                methods=",".join(dict.fromkeys(row(r) for r in of_group if r.cell.method != TEACHER)),
                tasks=asked.tasks or ",".join(dict.fromkeys(r.cell.tasks[0] for r in of_group)),
                seeds=tuple(sorted({r.cell.seed for r in of_group})),
                **{name: getattr(asked, name) for name in ASKED},
            ),
            of_group,
        )
        for asked, of_group in groups.items()
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
    records = committed()
    assert len(records) >= 280
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
