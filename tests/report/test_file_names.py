"""Names of reports: different for different groups, the committed ones unchanged, known teachers known by their weights."""

from __future__ import annotations

from pathlib import Path

import factories
from hypothesis import given
from hypothesis import strategies as st

from bench.record.cell import NumericIdentity
from bench.record.keys import digest
from bench.record.known_teachers import EMBEDDED_NAME, EMBEDDED_SHA256
from bench.record.schema import Record
from bench.record.store import Store
from bench.report.file_names import LONGEST, place_of, table_names
from bench.report.page_sentences import warnings
from bench.report.reproduce import commands
from bench.report.studies import studies

ROOT = Path(__file__).resolve().parents[2]
OTHER = "b" * 64


def beside(
    name: str = EMBEDDED_NAME, base: str = EMBEDDED_SHA256, origin: str = "fine-tuned", **changes
) -> Record:
    """A record beside this teacher; ``slug``, ``limit``, ``recipe``, ``epochs`` and parts of NumericIdentity as asked for."""
    plain = factories.record("kd", changes.pop("task", "rte"), score=0.7)
    data = {"slug": changes.pop("slug", "folder-x"), "max_train_rows": changes.pop("limit", None)}
    recipe = {
        name: changes.pop(asked)
        for asked, name in (("recipe", "name"), ("epochs", "epochs"))
        if asked in changes
    }
    teacher = {"name": name, "base": base, "origin": origin, "key": digest([base, origin])}
    return factories.changed(
        plain, teacher=teacher, data=data, recipe=recipe, numeric=NumericIdentity(**changes)
    )


def test_reports_of_the_committed_records_keep_their_names():
    for group in studies(Store(ROOT / "results" / "reference").records()):
        assert (ROOT / "reports" / place_of(group) / "README.md").is_file()


def test_no_committed_report_has_a_long_name():
    for path in (ROOT / "reports").rglob("*"):
        assert len(path.name) <= LONGEST or "runs" in path.parts, path


SLUGS = st.sampled_from(
    [
        "folder-x",
        "folder-X",
        "folder x",
        "folder--x",
        "folder-x-all-minilm-l6-v2-common-3-epochs",
        "own-x",
    ]
)
GROUPS = st.fixed_dictionaries(
    {
        "name": st.sampled_from(
            [EMBEDDED_NAME, "a/bert", "b/bert", "bert", "Bert", "my-embedded-bert"]
        ),
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


@given(st.lists(GROUPS, min_size=2, max_size=6))
def test_different_groups_have_different_names(wanted):
    """Also on a disk that does not distinguish capitals."""
    made_groups = studies([beside(**one) for one in wanted])
    places = [place_of(group) for group in made_groups]
    assert len({str(place).lower() for place in places}) == len(made_groups)
    assert all(len(part) <= LONGEST for place in places for part in place.parts)


@given(
    st.lists(
        st.sampled_from(["Accuracy", "accuracy", "x " * 30, "y " * 30]) | st.text(max_size=60),
        max_size=9,
    )
)
def test_different_tables_of_a_report_have_different_names(titles):
    names = table_names(titles)
    assert len({name.lower() for name in names}) == len(names)
    assert all(len(f"{name}.csv") <= LONGEST for name in names)


def test_tables_of_fixed_titles_have_no_digest():
    assert table_names(["Accuracy", "Cost of training"]) == ["accuracy", "cost-of-training"]


def test_the_embedded_teacher_is_known_by_its_weights_and_not_by_a_name():
    for name, base, typed in (
        (EMBEDDED_NAME, OTHER, f"'{EMBEDDED_NAME}'"),
        (EMBEDDED_NAME, EMBEDDED_SHA256, "embedded"),
        ("anything", EMBEDDED_SHA256, "anything"),
    ):
        (group,) = studies([beside(name, base, task="mnli")])
        assert ("trained for sentence similarity" in "".join(warnings(group))) == (
            base == EMBEDDED_SHA256
        )
        assert f"--teacher {typed} " in commands(group)[0]


def test_a_command_sets_the_numbers_that_a_row_has_of_its_own():
    """Batch and length of some tasks: each has its own command, and the teacher's recipe is the plain one."""
    rows = [
        factories.record("teacher", "rte", score=0.8),
        factories.record("kd", "mrpc", score=0.7),
    ]
    rows.append(
        factories.changed(factories.record("kd", "rte", score=0.7), recipe={"batch_size": 8})
    )
    (group,) = studies(rows)
    (plain, own) = commands(group)
    assert "--set" not in plain
    assert "--tasks rte" in own
    assert "--set batch_size=8" in own
