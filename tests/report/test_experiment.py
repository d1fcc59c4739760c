"""The report of an experiment: each table has the records of its own cells, all of them."""

from __future__ import annotations

import factories
import pandas
import pytest

from bench.record.cell import TEACHER, Partner, record_key
from bench.record.schema import Record
from bench.report.experiment_page import PaperTable, write_experiment
from bench.report.published import PrintedRow, Published
from bench.report.tables.quoted import PERCENT, POINTS, Quotation


def of_two_tasks(task: str) -> Record:
    """A student of rte and sst2 together, as it was scored on one of them."""
    together = tuple(Partner(task=name, train=name, teacher=name) for name in ("rte", "sst2"))
    return factories.changed(factories.record("mtdnn", task), together=together)


def test_a_student_of_several_tasks_is_shown_on_all_of_them():
    records = [of_two_tasks(task) for task in ("rte", "sst2")]
    assert len({record.train_key for record in records}) == 1
    section = PaperTable(
        "one", "accuracy", {r.key: {"label": "together"} for r in records}, ["together"]
    )
    other = factories.record("kd", "rte")
    found = section.records([*records, other])
    assert [(r.row, r.cell.tasks) for r in found] == [
        ("together", ("rte",)),
        ("together", ("sst2",)),
    ]


def test_every_operating_point_of_a_cell_is_shown_with_the_teacher():
    plain, teacher = factories.record("fastbert"), factories.record(TEACHER)
    early = plain.model_copy(
        update={"point": "speed=0.1", "key": record_key(plain.cell, "speed=0.1")}
    )
    section = PaperTable("one", "accuracy", {r.key: {} for r in (teacher, plain)}, ["fastbert"])
    assert [r.row for r in section.records([teacher, plain, early])] == [
        "teacher",
        "fastbert",
        "fastbert at speed=0.1",
    ]


def test_rows_stand_in_the_order_of_the_table_with_and_without_intervals(answered_store, tmp_path):
    records, order = list(answered_store.records()), ["microbert", "kd", "finetune"]
    section = PaperTable("one", "differences", {r.key: {} for r in records}, order)
    typed = (tmp_path / "e.toml", "", "")
    (report,) = write_experiment("A paper", [section], answered_store, tmp_path / "p", False, typed)
    for file, rows in (("one", order), ("one-intervals", order[1:])):
        lines = (report.parent / "tables" / f"{file}.csv").read_text().splitlines()[1:]
        assert [name for line in lines if (name := line.split(",")[0]) in order] == rows


@pytest.mark.parametrize("show", ["differences", "reappearance"])
def test_each_table_is_one_of_a_paper_with_its_name_and_order(show, answered_store, tmp_path):
    records, order = list(answered_store.records()), ["microbert", "kd", "finetune"]
    section = PaperTable("my table", show, {r.key: {} for r in records}, order)
    typed = (tmp_path / "e.toml", "", "")
    (report,) = write_experiment("A paper", [section], answered_store, tmp_path / "p", True, typed)
    (file,) = report.parent.glob("tables/*.tex")
    latex = file.read_text()
    assert r"\label{tab:my-table}" in latex
    assert r"\caption{My table. Re" in latex
    if show == "differences":
        names = [line.split(" & ")[0] for line in latex.splitlines() if line.endswith(r" \\")]
        assert [name for name in names if name.partition("\\")[0] in order][1:] == order[1:]
        assert "worse than microbert" in latex


def test_a_paper_may_call_a_row_what_it_likes_and_its_intervals_stay(answered_store, tmp_path):
    """Planted before: the draws were named by the label, so that another word for a row moved its interval."""
    records, numbers = list(answered_store.records()), set()
    for label in ("kd", "aaa", "zzz"):
        names = {r.key: {"label": label} if r.row == "kd" else {} for r in records}
        for show in ("differences", "reappearance"):
            section = PaperTable(show, show, names, ["microbert", label, "finetune"])
            folder = tmp_path / label / show
            (report,) = write_experiment(
                "A paper", [section], answered_store, folder, False, (tmp_path / "e.toml", "", "")
            )
            files = sorted((report.parent / "tables").glob(f"{show}*.csv"))
            lines = [line for file in files for line in file.read_text().splitlines()]
            # the picture has the paper's names, and the first row as its reference
            if show == "differences":
                drawn = (report.parent / "figures" / "differences-differences.svg").read_text()
                assert f">{label}<" in drawn
                assert ">difference to microbert (points)<" in drawn
            numbers.add(
                (show, tuple(line.partition(",")[2] for line in lines if line.startswith(label)))
            )
    assert len(numbers) == 2


def test_a_report_quotes_what_no_row_makes_and_sets_printed_shares_beside_ours(
    answered_store, tmp_path
):
    records = list(answered_store.records())
    cell = Published("A paper", "Table 2", "share", "rte", "validation", PERCENT, "dev", 98.3, "")
    lead = cell._replace(system="lead", metric=POINTS, value=-0.8)
    other = cell._replace(system="other share", value=99.1)
    printed = {"microbert": PrintedRow([cell, lead]), "kd": PrintedRow([other])}
    quoted = [Quotation(cell._replace(system="ELMo", metric="accuracy", value=53.4), "no BERT")]
    section = PaperTable(
        "one", "reappearance", {r.key: {} for r in records}, ["microbert", "kd"], printed, quoted
    )
    typed = (tmp_path / "e.toml", "", "")
    (report,) = write_experiment("A paper", [section], answered_store, tmp_path / "p", False, typed)
    tables = report.parent / "tables"
    shares = pandas.read_csv(tables / "one-printed-shares.csv").set_index("Printed row")
    main = pandas.read_csv(tables / "one.csv").set_index("System")
    ours = main["rte (acc)"]
    assert shares["ours"]["share"] == ours["microbert"]
    assert shares["ours"]["lead"] == pytest.approx(ours["microbert"] - ours["kd"], abs=1e-3)
    assert list(shares["printed"]) == [98.3, -0.8, 99.1]
    assert "no BERT" in (tables / "one-quoted.csv").read_text()
    assert "53.4 (acc, dev)" in report.read_text()
