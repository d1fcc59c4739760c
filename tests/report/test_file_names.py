"""Names of reports: different for different groups, the committed ones unchanged, known teachers known by their weights."""

from __future__ import annotations

import re
from pathlib import Path

import factories
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.data.checkpoints import EMBEDDED_NAME, EMBEDDED_SHA256
from bench.record.cell import NumericIdentity, record_key
from bench.record.keys import digest
from bench.record.schema import Record
from bench.record.store import Store
from bench.report.file_names import LONGEST, place_of, table_names
from bench.report.groups import groups
from bench.report.reproduce import commands
from bench.report.sources import warnings
from bench.report.write import write_reports

ROOT = Path(__file__).resolve().parents[2]
OTHER = "b" * 64


def beside(name: str = EMBEDDED_NAME, base: str = EMBEDDED_SHA256, origin: str = "fine-tuned", **changes) -> Record:
    """A record beside this teacher; ``slug``, ``limit``, ``recipe``, ``epochs`` and parts of NumericIdentity as asked for."""
    plain = factories.record("kd", changes.pop("task", "rte"), score=0.7)
    data = {"slug": changes.pop("slug", "folder-x"), "max_train_rows": changes.pop("limit", None)}
    recipe = {key: changes.pop(key) for key in ("recipe", "epochs") if key in changes}
    cell = plain.cell.model_copy(
        update={
            "teacher": plain.cell.teacher.model_copy(
                update={"name": name, "base": base, "origin": origin, "key": digest([base, origin])}
            ),
            "data": plain.cell.data.model_copy(update=data),
            "recipe": plain.cell.recipe | {{"recipe": "name"}.get(key, key): value for key, value in recipe.items()},
            "numeric": NumericIdentity(**changes),
        }
    )
    return plain.model_copy(update={"cell": cell, "key": record_key(cell)})


def test_reports_of_the_committed_records_keep_their_names():
    for group in groups(Store(ROOT / "results" / "reference").records()):
        assert (ROOT / "reports" / place_of(group) / "README.md").is_file()


def test_no_committed_report_has_a_long_name():
    for path in (ROOT / "reports").rglob("*"):
        assert len(path.name) <= LONGEST or "runs" in path.parts, path


SLUGS = st.sampled_from(
    ["folder-x", "folder-X", "folder x", "folder--x", "folder-x-all-minilm-l6-v2-common-3-epochs", "own-x"]
)
GROUPS = st.fixed_dictionaries(
    {
        "name": st.sampled_from([EMBEDDED_NAME, "a/bert", "b/bert", "bert", "Bert", "my-embedded-bert"]),
        "base": st.sampled_from([EMBEDDED_SHA256, OTHER, "c" * 64]),
        "origin": st.sampled_from(["fine-tuned", "given"]),
    },
    optional={
        "slug": SLUGS | st.text(min_size=1, max_size=8),
        "limit": st.sampled_from([4000, 40]),
        "recipe": st.sampled_from(["common", "paper", "common-3-epochs-4000-rows", "Common"]),
        "epochs": st.sampled_from([3, 3.0000001, 1e-05, 40.0]) | st.floats(1e-6, 1e6),
        "precision": st.sampled_from(["fp32", "bf16", "fp32-1-threads"]),
        "attention": st.sampled_from(["packed", "eager"]),
        "threads": st.integers(1, 3),
    },
)


@settings(deadline=None)
@given(st.lists(GROUPS, min_size=2, max_size=6))
def test_different_groups_have_different_names(wanted):
    """Also on a disk that does not distinguish capitals."""
    made_groups = groups([beside(**one) for one in wanted])
    places = [place_of(group) for group in made_groups]
    assert len({str(place).lower() for place in places}) == len(made_groups)
    assert all(len(part) <= LONGEST for place in places for part in place.parts)


@given(st.lists(st.sampled_from(["Accuracy", "accuracy", "x " * 30, "y " * 30]) | st.text(max_size=60), max_size=9))
def test_different_tables_of_a_report_have_different_names(titles):
    names = table_names(titles)
    assert len({name.lower() for name in names}) == len(names)
    assert all(len(f"{name}.csv") <= LONGEST for name in names)


def test_tables_of_fixed_titles_have_no_digest():
    assert table_names(["Accuracy", "Cost of training"]) == ["accuracy", "cost-of-training"]


@pytest.mark.slow
def test_two_folders_of_one_name_keep_their_own_reports(tmp_path):
    store = Store(tmp_path / "r")
    for record in (
        beside("a/bert", OTHER),
        beside("b/bert", "c" * 64),
        beside("a/bert", OTHER, "given"),
        beside("a/bert", OTHER, attention="eager"),
    ):
        store.write(record)
    paths = write_reports(store, tmp_path / "p")
    assert len(paths) == len(set(paths)) == len(list((tmp_path / "p").glob("*/*/README.md"))) == 4
    names = {path.relative_to(tmp_path / "p").parent.as_posix() for path in paths}
    assert all(re.fullmatch(r"folder-x/bert-common-3ep-[0-9a-f]{8}", name) for name in names)


def test_the_embedded_teacher_is_known_by_its_weights_and_not_by_a_name():
    (named,) = groups([beside("my-embedded-bert", OTHER, task="mnli")])
    assert warnings(named) == []
    (called,) = groups([beside(EMBEDDED_NAME, OTHER, task="mnli")])
    assert warnings(called) == []
    assert f"--teacher '{EMBEDDED_NAME}'" in commands(called)[0]
    (embedded,) = groups([beside(task="mnli")])
    assert "trained for sentence similarity" in warnings(embedded)[0]
    assert "--teacher embedded" in commands(embedded)[0]
    (folder,) = groups([beside("anything", EMBEDDED_SHA256, task="mnli")])
    assert "trained for sentence similarity" in warnings(folder)[0]


def test_a_command_sets_the_numbers_that_a_row_has_of_its_own():
    """Batch and length of some tasks: each has its own command, and the teacher's recipe is the plain one."""
    rows = [factories.record("teacher", "rte", score=0.8), factories.record("kd", "mrpc", score=0.7)]
    own = factories.record("kd", "rte", score=0.7)
    recipe = {**own.cell.recipe, "batch_size": 8}
    rows.append(own.model_copy(update={"cell": own.cell.model_copy(update={"recipe": recipe})}))
    (group,) = groups(rows)
    said = commands(group)
    assert len(said) == 2
    (changed,) = [command for command in said if "--set" in command]
    assert "--tasks rte" in changed
    assert "--set batch_size=8" in changed
