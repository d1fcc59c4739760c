"""Results that other code made: said in Provenance and in one line of the terminal, and trained again
only where somebody asks."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import factories
import pytest
import small_runs
import tiny

import methods
from bench import api
from bench.analysis.gate import check
from bench.analysis.gate_result import PASSED
from bench.progress import Progress
from bench.record.code import (
    CURRENT,
    STALE,
    UNKNOWN,
    made_by,
    named_code,
    state_of,
    state_of_record,
)
from bench.record.store import Store
from bench.run import carry_out

ROWS = f"tinybert:{tiny.SHAPE},kd:{tiny.SHAPE}"
SAID = "made by other code than this"


USUAL = {"methods": ROWS, "tasks": "rte", "epochs": 1.0}


@pytest.fixture(scope="module")
def first_run(tmp_path_factory, glue_folder, teacher_folder) -> Path:
    """Records and cache of one run, for all tests of this file."""
    place = tmp_path_factory.mktemp("first")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("BERT_BENCH_CACHE", str(place / "cache"))
        request = small_runs.requests(place, teacher_folder, glue_folder)(**USUAL)
        assert carry_out(api.plan(request), Progress()).exit_code == 0
    return place


@pytest.fixture
def small_run(first_run, request_, tmp_path):
    """A copy of those records and that cache, and the words of the command that made them."""
    for name, copy in (
        ("results", tmp_path / "results"),
        ("cache", Path(os.environ["BERT_BENCH_CACHE"])),
    ):
        shutil.copytree(first_run / name, copy, dirs_exist_ok=True)
    return tmp_path / "results", small_runs.words_of(request_(**USUAL))[1:]


def alter(root: Path, row: str, change: Callable[[dict], None]) -> str:
    """Change the JSON of a row's current record; returns its key."""
    store = Store(root)
    record = next(r for r in store.records() if r.cell.method == row)
    file = store.folder(record.cell) / "attempt-1.json"
    body = json.loads(file.read_text())
    change(body)
    file.write_text(json.dumps(body))
    # as if the run itself had written it so: a record that was changed later is set aside
    digest = hashlib.sha256(file.read_bytes()).hexdigest()
    file.with_name("current").write_text(f"{file.name} {digest}\n")
    return record.key


def by_other_code(body: dict) -> None:
    body["code"]["computed_by"]["digest"] = "0" * 64


def by_a_stale_start(body: dict) -> None:
    body["artefacts"]["general_start"]["code"]["digest"] = "0" * 64


def states(bench, words: list[str], tmp_path: Path) -> dict[str, tuple[str, str]]:
    # a plan has no reports and asks nothing
    said = bench("plan", *words[:10], *words[12:-1], "--json", tmp_path / "p")
    assert said.returncode == 0, said.stderr
    return {
        c["row"].split(":")[0]: (c["state"], c["code"])
        for c in json.loads((tmp_path / "p").read_text())["cells"]
    }


@pytest.mark.slow
def test_other_code_is_said_once_and_nothing_is_trained(bench, small_run, tmp_path):
    root, words = small_run
    key = alter(root, "tinybert", by_a_stale_start)
    assert states(bench, words, tmp_path) == {
        "teacher": ("there", CURRENT),
        "tinybert": ("there", STALE),
        "kd": ("there", CURRENT),
    }
    again = bench("run", *words)
    assert again.returncode == 0
    assert "nothing to do" in again.stderr
    assert again.stderr.count(f"code: 1 of 3 records was {SAID} (commit ") == 1
    (report,) = (tmp_path / "reports").glob("*/*/README.md")
    before, _, provenance = report.read_text().partition("## Provenance")
    assert SAID not in before
    assert provenance.count(f"1 of 3 records was {SAID} (commit ") == 1
    page = report.with_name("report.html").read_text()
    before, _, provenance = page.partition(">Provenance<")
    assert SAID not in before
    # behind it are the copies of tables, whose comments say where their numbers come from
    assert provenance.partition("<script")[0].count(SAID) == 1
    labels = {r.cell.method: r.row for r in Store(root).records()}
    compared = bench("compare", labels["tinybert"], labels["kd"], "--results", root)
    assert compared.stderr.count(SAID) == 1
    assert bench("choose", "--results", root).stdout.count(SAID) == 1
    record = next(r for r in Store(root).records() if r.key == key)
    number = f"{100 * record.scores['validation']['accuracy']:.1f}"
    assert SAID not in bench("show", "--trace", number, "--results", root).stdout
    (table,) = (tmp_path / "reports").glob("*/*/tables/accuracy.csv")
    checked = bench("audit", table, "--results", root)
    assert SAID not in checked.stdout
    stale = [f for f in check(root, root) if SAID in f.why]
    assert [(f.verdict, f.what) for f in stale] == [(PASSED, "validation accuracy")]
    assert "commit" in stale[0].why
    assert len(list(Store(root).folder(record.cell).glob("attempt-*.json"))) == 1


def test_rerun_stale_trains_what_is_stale_and_nothing_else(bench, small_run, tmp_path):
    root, words = small_run
    alter(root, "tinybert", by_other_code)
    done = bench("run", *words, "--rerun-stale")
    assert done.returncode == 0
    assert states(bench, words, tmp_path)["tinybert"] == ("there", CURRENT)
    attempts = {
        r.cell.method: len(list(Store(root).folder(r.cell).glob("attempt-*.json")))
        for r in Store(root).records()
    }
    assert attempts == {"teacher": 1, "tinybert": 2, "kd": 1}


@pytest.mark.slow
def test_a_stale_start_in_the_cache_is_used_and_said_and_made_again_on_demand(
    bench, small_run, tmp_path
):
    _, words = small_run
    (file,) = (Path(os.environ["BERT_BENCH_CACHE"]) / "starts").glob("*/made.json")
    body = json.loads(file.read_text())
    body["code"]["digest"] = "0" * 64
    file.write_text(json.dumps(body))
    more = (*words[:1], f"{ROWS},finetune:{tiny.SHAPE}", *words[2:])
    used = bench("run", *more)
    assert f"code: general start 2x12, in the cache: {SAID}" in used.stderr
    assert json.loads(file.read_text()) == body, "nothing is made again unasked"
    assert states(bench, more, tmp_path)["finetune"] == ("there", STALE)
    renewed = bench("run", *more, "--rerun-stale")
    assert renewed.returncode == 0
    assert json.loads(file.read_text())["code"]["digest"] != "0" * 64
    assert states(bench, more, tmp_path)["finetune"] == ("there", CURRENT)


def test_a_record_of_an_older_version_is_stale_whether_or_not_it_names_its_code():
    cell, today = factories.record("distilbert").cell, methods.get("distilbert").version
    for version, state in ((today - 1, STALE), (today, UNKNOWN)):
        record = factories.record().model_copy(
            update={"cell": cell.model_copy(update={"version": version})}
        )
        assert state_of_record(record) == state


@pytest.mark.parametrize(
    ("code", "state"),
    [
        (None, UNKNOWN),
        # as records of before name it
        ({"kind": "student", "of": ["methods.kd:KD"], "hash": "z"}, UNKNOWN),
        ({"of": ["gone_package"], "digest": "z"}, UNKNOWN),
        ({"of": ["methods.gone"], "digest": "z"}, STALE),
        ({"of": ["methods.kd"], "digest": "z"}, STALE),
        (named_code(["methods.kd"]), CURRENT),
        (named_code(["methods.kd"], {"teacher": None}), UNKNOWN),
        (named_code(["methods.kd"], {"teacher": {"of": [], "digest": "z"}}), STALE),
    ],
)
def test_a_code_is_as_old_as_its_oldest_part(code, state):
    assert state_of(code) == state
    records = [
        factories.record("kd").model_copy(update={"code": {"computed_by": code}, "artefacts": {}})
    ]
    said = made_by(records)
    assert ("code that is not known here (commit " in said) == (state == UNKNOWN)
    assert ("other code than this (commit " in said) == (state == STALE)
    assert (said == "") == (state == CURRENT)
