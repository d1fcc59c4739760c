"""Tracing a number to its records, and running a record again."""

from __future__ import annotations

import json
import shutil

import factories
import numpy as np
import pytest
import tiny

from bench import api
from bench.cache import cache_root
from bench.progress import Progress
from bench.record.store import Store
from bench.run import carry_out
from bench.workflows.verify import compare_runs

ROW = f"kd:{tiny.SHAPE}:start=random"


@pytest.fixture(scope="module")
def first_run(tmp_path_factory, glue_folder, teacher_folder):
    """Records and cache of one small run, for all tests of this file."""
    folder = tmp_path_factory.mktemp("first")
    asked = api.Request(
        methods=f"{ROW},{ROW}:pace=2,{ROW}:-hard",
        tasks="rte",
        data=str(glue_folder),
        teacher=str(teacher_folder),
        epochs=2.0,
        threads=1,  # as all tests have: this fixture comes before the one that says so
        results=folder / "results",
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("BERT_BENCH_CACHE", str(folder / "cache"))
        assert carry_out(api.plan(asked), Progress()).exit_code == 0
    return folder


@pytest.fixture
def place(first_run, glue_folder, teacher_folder, tmp_path):
    """A copy of those records and that cache, and what was typed for data and teacher."""
    for name, copy in (("results", tmp_path / "r"), ("cache", cache_root())):
        shutil.copytree(first_run / name, copy, dirs_exist_ok=True)
    return tmp_path / "r", ("--data", glue_folder, "--teacher", teacher_folder)


def records(root):
    return {r.cell.label: r for r in Store(root).records()}


def spoil(root, record, change, weights="0" * 64):
    """Put an attempt in place that has other weights and changed answers."""
    store = Store(root)
    arrays = store.predictions(record)
    logits = change(arrays["logits.validation"].copy())
    share = float((logits.argmax(1) == arrays["labels.validation"]).mean())
    scores = {"validation": {"accuracy": share}}
    store.write(
        record.model_copy(update={"weights": weights, "scores": scores}),
        {**arrays, "logits.validation": logits},
    )


@pytest.mark.slow
@pytest.mark.long
def test_the_same_machine_gives_the_same_bits_for_every_kind_of_row(bench, place):
    root, typed = place
    for label, record in records(root).items():
        answer = bench("verify", record.key[:10], "--results", root, *typed)
        assert answer.returncode == 0, (label, answer.stderr)
        assert answer.stdout.startswith("bitwise equal"), (label, answer.stdout)
    assert any("pace=2" in label for label in records(root))
    assert any("-hard" in label for label in records(root))


def turned(logits, right):
    """As many right answers as before, on other examples."""
    is_right = logits.argmax(1) == right.argmax(1)
    fewer = min(is_right.sum(), (~is_right).sum())
    assert 2 * fewer > len(logits) / 2
    rows = np.concatenate([np.flatnonzero(is_right)[:fewer], np.flatnonzero(~is_right)[:fewer]])
    logits[rows] *= -1
    return logits


@pytest.mark.slow
@pytest.mark.parametrize(
    ("change", "verdict", "code"),
    [
        (lambda x, right: x + np.float32(1e-5), "equal within rounding", 0),
        (
            lambda x, right: np.where(np.arange(len(x))[:, None] < 2, -x, x),
            "statistically equal",
            0,
        ),
        (
            lambda x, right: right if (x.argmax(1) == right.argmax(1)).mean() < 0.6 else -right,
            "different",
            1,
        ),
        (turned, "different", 1),
    ],
    ids=["rounding", "statistical", "different", "turned"],
)
def test_how_far_two_runs_agree(bench, place, change, verdict, code):
    root, typed = place
    record = next(
        r for label, r in records(root).items() if label.startswith("kd") and "pace" not in label
    )
    labels = Store(root).predictions(record)["labels.validation"]
    right = np.eye(2, dtype=np.float32)[labels] * 2 - 1
    spoil(root, record, lambda x: change(x, right))
    answer = bench("verify", record.key[:10], "--results", root, *typed)
    assert answer.stdout.startswith(verdict), answer.stdout
    assert answer.returncode == code
    assert "losses are the same throughout" in answer.stdout


@pytest.mark.slow
@pytest.mark.long
def test_from_scratch_takes_nothing_from_the_cache_and_leaves_it_alone(bench, place, tmp_path):
    root, typed = place
    record = next(r for label, r in records(root).items() if "pace" in label)
    answer = bench("verify", record.key[:10], "--results", root, *typed)
    assert "from the cache: teacher of rte; --from-scratch makes them again too" in answer.stdout
    cache = cache_root()
    before = {
        file: (file.stat().st_mtime_ns, file.stat().st_size)
        for file in cache.rglob("*")
        if file.is_file()
    }
    answer = bench(
        "verify",
        record.key[:10],
        "--from-scratch",
        "--results",
        root,
        *typed,
        "--json",
        tmp_path / "v.json",
    )
    assert answer.stdout.startswith("bitwise equal"), answer.stdout
    assert "made again: teacher of rte" in answer.stdout
    body = json.loads((tmp_path / "v.json").read_text())
    assert (body["from_cache"], body["made_again"]) == ([], ["teacher of rte"])
    after = {
        file: (file.stat().st_mtime_ns, file.stat().st_size)
        for file in cache.rglob("*")
        if file.is_file()
    }
    assert {k: v for k, v in after.items() if k.suffix in (".safetensors", ".json")} == {
        k: v for k, v in before.items() if k.suffix in (".safetensors", ".json")
    }


@pytest.mark.parametrize(("changed", "said"), [(3, "3 answers differ"), (1, "1 answer differs")])
def test_answers_of_a_regression_that_differ_are_counted_by_examples(tmp_path, changed, said):
    before = np.linspace(0, 5, 40, dtype=np.float32)[:, None]
    arrays = {
        "labels.validation": np.linspace(0, 5, 40, dtype=np.float32),
        "logits.validation": before,
    }
    after = before.copy()
    after[:changed] += 0.5
    stores = [Store(tmp_path / name) for name in ("first", "second")]
    records = []
    for store, logits, weights in zip(stores, (before, after), ("1" * 64, "2" * 64), strict=True):
        made = factories.record("kd", "stsb").model_copy(update={"weights": weights})
        record, kept = factories.consistent(made, arrays | {"logits.validation": logits})
        store.write(record, kept)
        records.append(store.find(record.cell))
    assert compare_runs(*records, *stores)[1].startswith(said)


@pytest.mark.slow
def test_losses_that_part_are_placed(bench, place):
    root, typed = place
    record = next(r for label, r in records(root).items() if "-hard" in label)
    terms = {
        s: {n: [*v[:2], *(x * 1.5 for x in v[2:])] for n, v in t.items()}
        for s, t in record.terms.items()
    }
    store = Store(root)
    store.write(
        record.model_copy(update={"terms": terms, "weights": "0" * 64}), store.predictions(record)
    )
    answer = bench("verify", record.key[:10], "--results", root, *typed)
    assert "The losses part in stage distil at window 3 of" in answer.stdout


def test_other_data_is_not_comparable(bench, place, teacher_folder, tmp_path):
    root, _ = place
    record = next(iter(records(root).values()))
    other = tiny.write_glue(tmp_path / "other", ("rte",), rows=30)
    answer = bench(
        "verify", record.key[:10], "--results", root, "--data", other, "--teacher", teacher_folder
    )
    assert answer.returncode == 5
    assert "gives another cell: data, " in answer.stdout
