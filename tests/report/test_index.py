"""The index of a folder of reports, and the names that rows have in a paper."""

from __future__ import annotations

import re

import factories
import pytest

from bench.record.store import Store
from bench.report.document import LIST, MARK, write_index
from bench.report.write import write_reports


def written(tmp_path):
    store = Store(tmp_path / "r")
    store.write(factories.record("kd", score=0.7))
    store.write(factories.record("kd", data="sample-v2", score=0.7))
    return write_reports(store, tmp_path / "p")


@pytest.mark.slow
def test_the_index_links_to_every_report(tmp_path):
    paths = written(tmp_path)
    text = (tmp_path / "p" / "README.md").read_text()
    targets = re.findall(r"\]\(([^)]+)\)", text)
    assert {tmp_path / "p" / target for target in targets} == set(paths)
    assert MARK in text


def test_a_page_of_somebody_else_stays(tmp_path):
    page = tmp_path / "p" / "README.md"
    page.parent.mkdir()
    page.write_text("# My paper\n")
    written(tmp_path)
    assert page.read_text() == "# My paper\n"
    assert write_index(tmp_path / "p") is None


@pytest.mark.slow
def test_rows_have_the_names_of_a_paper(bench, tmp_path):
    store = Store(tmp_path / "r")
    for label in ("teacher", "kd", "finetune"):
        store.write(factories.record(label, score=0.7, macs=10**9 if label == "teacher" else 10**6))
    names = tmp_path / "names.toml"
    names.write_text('kd = "Vanilla KD"\n')
    words = ("report", "--results", store.root, "--reports", tmp_path / "p", "--names", names)
    assert bench(*words).returncode == 0
    (page,) = (tmp_path / "p").glob("*/*/README.md")
    assert "| Vanilla KD" in page.read_text()
    assert "\nkd," in (page.parent / "tables" / "accuracy.csv").read_text(), (
        "tables for programs keep the row"
    )
    for wrong in ('kdd = "Vanilla KD"', 'kd = "finetune"', "kd = 3", 'kd = ""', "kd = [", "[kd]"):
        names.write_text(wrong)
        answer = bench(*words)
        assert answer.returncode == 2
        assert len(answer.stderr.strip().splitlines()) == 1


def test_what_a_person_wrote_above_the_list_stays(tmp_path):
    place = tmp_path / "glue" / "a-teacher"
    place.mkdir(parents=True)
    (place / "README.md").write_text("# GLUE\n")
    index = write_index(tmp_path)
    assert index is not None
    index.write_text(
        index.read_text().replace("# Reports\n", "# Reports\n\nThe main report is glue.\n")
    )
    (tmp_path / "glue" / "b-teacher").mkdir()
    (tmp_path / "glue" / "b-teacher" / "README.md").write_text("# GLUE too\n")
    write_index(tmp_path)
    text = index.read_text()
    assert text.count("The main report is glue.") == 1
    assert (
        text.index("The main report")
        < text.index(LIST)
        < text.index("a-teacher")
        < text.index("b-teacher")
    )
