"""A record with any field changed is used, or set aside in one line; no reader ends in a traceback."""

from __future__ import annotations

import json
import random
import shutil
from pathlib import Path

import changed_records
import hostile_input
import pytest
from changed_records import ABSENT, Change

from bench.record.cell import Cell
from bench.record.set_aside import SET_ASIDE
from bench.record.store import Store

RESULTS = Path(__file__).resolve().parents[2] / "results"
TASKS = {
    "classes": "h200/folder-glue/rte/tinybert",
    "text": "reference/sample-pairs-v1/generated-translation/cmlm",
    "score": "h200/folder-glue/stsb/kd",
    "experts": "untuned/folder-glue-subsets/qqp/moebert",
}
"""Rows of committed records: found by a search, with measured writing, of a regression, with use of experts."""


def first(row: str) -> Path:
    """The file of a committed record."""
    return min((RESULTS / row).glob("*/attempt-1.json"))


def body_of(kind: str) -> dict:
    return json.loads(first(TASKS[kind]).read_text())


def opened(root: Path, body: dict, kind: str) -> tuple[bool, list[str]]:
    """Whether a store uses a record, and what it says."""
    shutil.rmtree(root, ignore_errors=True)
    file = changed_records.put(root, body, first(TASKS[kind]).with_suffix(".npz"))
    store = Store(root)
    found = store.opened(file)
    assert all(note.kind == SET_ASIDE for note in store.notes)
    return found is not None, [note.why for note in store.notes]


@pytest.mark.parametrize("kind", TASKS)
def test_the_committed_record_is_used(tmp_path, kind):
    assert opened(tmp_path / "r", body_of(kind), kind) == (True, [])


REFUSED = [
    *[("classes", f"sizes.{name}", value) for name in ("macs", "parameters", "batch", "macs_closed_form") for value in (0, -5, "7", None)],
    *[("classes", f"sizes.{name}", -5) for name in ("embedding", "pooler_and_head", "file_bytes", "active_parameters", "expected_macs")],
    ("classes", "sizes.embedding", 10**12),
    *[("classes", f"train.{name}", -1) for name in ("steps", "examples", "tokens", "seconds_own", "flops_own", "cpu_seconds")],
    ("classes", "train.flops_own", 1e308),
    *[("classes", "code.computed_by", value) for value in (7, "x", ["x"], {"of": 7}, {"digest": "x"}, {"of": ["x"], "digest": 7}, {"parts": {"teacher": 7}})],
    *[("classes", f"code.{name}", 7) for name in ("version", "commit", "dirty")],
    ("classes", "env.cores", float("nan")),
    ("classes", "usage.further", {"deep": [float("inf")]}),
    *[("classes", "usage.epochs", value) for value in (None, 7, {"scores": 7}, {"scores": ["x"]})],
    *[("classes", "scores.validation", value) for value in ({}, {"f1": 0.5})],
    ("classes", "scores.elsewhere", {"accuracy": 0.5}),
    ("classes", "task.metrics", ["f1"]),
    ("classes", "task.form", "opinion"),
    ("classes", "task.labels", ["one"]),
    ("classes", "task.labels", ["a", "b", "c"]),
    ("classes", "cell.tasks", []),
    ("classes", "cell.tasks", ["rte", "mrpc"]),
    *[("classes", f"cell.recipe.{name}", value) for name in ("epochs", "batch_size", "learning_rate", "max_length") for value in (None, "much", -1, ABSENT)],
    *[("classes", "cell.recipe.name", value) for value in (None, 7, ABSENT)],
    ("classes", "cell.recipe.stage_optimizers", [["x"]]),
    ("classes", "cell.settings.layers", {"deep": 1}),
    ("classes", "cell.settings.temperature", [{}]),
    ("classes", "cell.search.trials", []),
    ("classes", "cell.search.trials.0.score", 1e308),
    ("classes", "cell.numeric.threads", 0),
    ("classes", "cell.seed", -1),
    ("classes", "cell.seed", 2**70),
    ("classes", "cell.label", ""),
    ("classes", "train_key", "0" * 64),
    *[("classes", f"artefacts.general_start.{name}", value) for name in ("train", "key", "text") for value in (7, {}, "")],
    *[("classes", f"artefacts.general_start.{name}", None) for name in ("train", "key", "beginning", "seconds")],
    ("classes", "artefacts.general_start.train.tokens", ABSENT),
    ("classes", "artefacts.general_start.text.files", ABSENT),
    ("classes", "artefacts.teacher.weights", 7),
    ("classes", "artefacts.teacher.code.of", "bench"),
    ("classes", "terms.prediction.pred.0", 1e308),
    ("classes", "gradient_shares.prediction.pred.0", -0.5),
    *[("text", f"usage.writing.{name}", value) for name in ("batch_1", "threads", "bleu", "macs_of_read_token") for value in (ABSENT, None, {})],
    ("text", "usage.writing.batch_32.tokens", "many"),
    ("text", "usage.writing", None),
    *[("text", "cell.settings.rate", value) for value in ("", "fast", None, -1.0, 1e308, [1])],
]  # fmt: skip
"""What readers cannot use: the kind of a record, its field, and its value."""


def place_of(path: str) -> changed_records.Place:
    return tuple(int(part) if part.isdecimal() else part for part in path.split("."))


@pytest.mark.parametrize(
    ("kind", "path", "value"), REFUSED, ids=[str(Change(place_of(p), v)) for _, p, v in REFUSED]
)
def test_what_no_reader_can_use_is_set_aside_in_one_line(tmp_path, kind, path, value):
    body = changed_records.changed(body_of(kind), Change(place_of(path), value))
    if path != "train_key":
        body = changed_records.with_its_keys(body)
    try:
        Cell.model_validate(body["cell"])
    except ValueError:
        # such a cell has no key: the record lies where it lay
        sound = body_of(kind)
        file = changed_records.put(tmp_path / "r", sound, first(TASKS[kind]).with_suffix(".npz"))
        file.write_text(json.dumps(body))
        store = Store(tmp_path / "r")
        assert store.opened(file) is None
        used, said = False, [note.why for note in store.notes]
    else:
        used, said = opened(tmp_path / "r", body, kind)
    assert not used
    assert len(said) == 1
    assert "\n" not in said[0]


@pytest.mark.parametrize("kind", TASKS)
@hostile_input.counts(60)
def test_any_field_changed_to_anything_is_used_or_set_aside(tmp_path, kind, count):
    """With the keys that follow, so that it is not the key alone that gives the change away."""
    rng = random.Random(hostile_input.SEED)
    body = body_of(kind)
    answers = first(TASKS[kind]).with_suffix(".npz")
    sound = changed_records.put(tmp_path / "sound", body, answers)
    every = changed_records.changes(body)
    for change in rng.sample(every, min(count, len(every))):
        new = changed_records.with_its_keys(changed_records.changed(body, change))
        try:
            with hostile_input.limited():
                used, said = opened(tmp_path / "r", new, kind)
        except (ValueError, TypeError, KeyError, AttributeError, OSError):
            # it has no cell, and so no folder of its own, or no disk has one of such a name
            sound.write_text(json.dumps(new))
            store = Store(tmp_path / "sound")
            assert list(store.records()) == [], change
            used, said = False, [note.why for note in store.notes]
        assert len(said) == (not used), change
        assert all("\n" not in line for line in said), change


def neighbours(kind: str, root: Path) -> None:
    """The other seeds of a row, its teacher's records and those of another row."""
    row = RESULTS / TASKS[kind]
    data, task = row.parts[-3:-1]
    others = [folder for folder in sorted(row.parent.iterdir()) if folder.name != row.name]
    kept = [row, *[folder for folder in others if folder.name == "teacher"], others[0]]
    for folder in dict.fromkeys(kept):
        for cell in sorted(folder.iterdir())[:3]:
            if cell != first(TASKS[kind]).parent:
                shutil.copytree(cell, root / data / task / folder.name / cell.name)


VERBS = (
    "report --reports {reports}", "choose", "compare {row} {other}", "trace 61.2", "show {key}",
    "predictions {row} --to {reports}/given", "store verify",
)  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("kind", [kind for kind in TASKS if kind != "score"])
@pytest.mark.parametrize(
    "rounds", [1, pytest.param(len(changed_records.VALUES), id="long", marks=pytest.mark.fuzz)]
)
def test_no_reader_ends_in_a_traceback_over_a_record_that_is_used(bench, tmp_path, kind, rounds):
    """Of many fields that a store lets pass; each verb answers, or says in one line why it cannot."""
    rng = random.Random(f"{hostile_input.SEED} {kind}")
    results = tmp_path / "results"
    reports = tmp_path / "reports"
    for value in rng.sample(changed_records.VALUES, rounds):
        shutil.rmtree(results, ignore_errors=True)
        shutil.rmtree(reports, ignore_errors=True)
        neighbours(kind, results)
        body, applied = changed_records.many_changes(body_of(kind), value, rng)
        changed_records.put(results, body, first(TASKS[kind]).with_suffix(".npz"))
        row = body["cell"]["label"]
        other = next(r.row for r in Store(results).records() if r.row != row)
        for verb in VERBS:
            named = {"row": row, "other": other, "key": body["key"][:16], "reports": reports}
            words = [word.format(**named) for word in verb.split()]
            answer = bench(*words, "--results", results)
            said = [line for line in answer.stderr.splitlines() if line]
            wrong = f"{words[0]}: {answer.stderr}; changed: {'; '.join(map(str, applied))}"
            assert answer.returncode in (0, 1, 2, 3, 4, 5), wrong
            assert answer.returncode != 2 or said[-1].startswith("bench: "), wrong
