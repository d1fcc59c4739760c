"""What rows say of themselves: what they lack of their papers, at which rates they train, what an ablation leaves."""

from __future__ import annotations

import csv
import io

import factories
import numpy as np
import pytest
from transformers import BertConfig

import methods
from bench.analysis.compare import compare
from bench.analysis.compare_in_words import table
from bench.audit.checks import audit
from bench.audit.sheets import read_all
from bench.plan.scheduled_stages import schedule_stages
from bench.plan.spelling import parse_one
from bench.record.cell import Search, Trial
from bench.record.recipe import Recipe
from bench.record.stated import stated
from bench.record.store import Store
from bench.report.page_sentences import provenance
from bench.report.studies import studies
from bench.report.tables.parts import sources_of_variance
from bench.report.tables.provenance import hyper_parameters
from bench.report.write import write_reports
from methods.api import Setup

SECOND_STEP = "distilbert (second step only)"


def row(spelling, seed=0, score=0.6, *, rate=3e-4, recipe="common", task="rte"):
    """The record of a row as a run writes it: all its settings, its rate."""
    record = factories.record(spelling, task, seed, score)
    # not what the record of the factory has: all settings of the row
    plain = record.model_copy(
        update={"cell": record.cell.model_copy(update={"settings": parse_one(spelling).settings})}
    )
    return factories.changed(plain, recipe={"learning_rate": rate, "name": recipe})


def scheduled(spelling):
    """The counted stages of a row beside BERT-base, by the common recipe."""
    found = parse_one(spelling)
    return schedule_stages(
        found.method.stages(Setup(BertConfig(), 2, ("x",))), found.dropped, Recipe(), 320
    )[1]


def test_what_a_row_lacks_goes_by_its_settings():
    said = {
        "distilbert": "distilbert (second step only)",
        "distilbert:start=random": "distilbert:start=random (second step only)",
        "distilbert:pretraining=masked": "distilbert:pretraining=masked",
        "mobilebert": "mobilebert (no pre-training)",
        "mobilebert:alpha=0:pretraining=progressive": "mobilebert:alpha=0:pretraining=progressive",
        "kd": "kd",
    }
    assert {spelling: row(spelling).called for spelling in said} == said
    assert factories.record("package/method").called == "package/method"
    assert factories.record("teacher").called == "teacher"


@pytest.mark.parametrize("name", methods.TABLE)
def test_what_a_class_states_is_read_without_importing_it(name):
    kind, found = methods.get(name), parse_one(name)
    for member in ("version", "lacks", "remark", "rate_factor"):
        assert stated(name, member) == getattr(kind, member)
    assert all(vars(found.method)[setting] == value for setting, (value, _) in kind.lacks.items())
    paces = {stage.stage.lr_scale(0.0) for stage in scheduled(name) if stage.stage.lr_scale} or {
        1.0
    }
    assert paces == {found.settings.get(kind.rate_factor, kind.rate_factor)}


def test_a_third_partys_rows_say_what_they_lack(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    text = "import no_such_package\n\nclass Mine:\n    lacks = {'depth': (0, 'half of it'), 'width': (1, 'narrow')}\n"
    (tmp_path / "lacking.py").write_text(text)
    monkeypatch.setitem(methods.TABLE, "package/lacking", ("lacking:Mine", ""))
    record = factories.record("package/lacking")
    cell = record.cell.model_copy(update={"settings": {"depth": 1}})
    assert record.called == "package/lacking (half of it, narrow)"
    assert record.model_copy(update={"cell": cell}).called == "package/lacking (narrow)"


@pytest.mark.slow
def test_provenance_has_one_digest_for_a_method_whatever_the_metrics_of_its_tasks():
    """Planted before: the digest of all code behind a record, which the metric of its task belongs to."""
    records = []
    for task, digest in (("rte", "a"), ("mrpc", "b")):
        record = factories.changed(factories.record("kd", task), method="rkd:RKD")
        code = {"method": "c" * 64, "computed_by": {"of": ["x"], "digest": digest * 64}}
        records.append(record.model_copy(update={"code": code}))
    lines = [line for line in provenance(records) if line.startswith("code outside")]
    assert lines == ["code outside these commits: rkd:RKD (digest cccccccccccc)"]


def test_tables_say_what_a_row_lacks_and_csv_files_keep_the_label(tmp_path):
    store = Store(tmp_path / "r")
    rng = np.random.default_rng(0)
    labels = rng.integers(2, size=200)
    rows = [
        factories.record("teacher", score=0.7, macs=10**9),
        factories.record("finetune", score=0.6),
    ]
    for record in [*rows, row("distilbert"), row("mobilebert"), row("distilbert:start=random")]:
        factories.write(store, record, np.where(rng.random(200) < 0.8, labels, 1 - labels), labels)
    (path,) = write_reports(store, tmp_path / "p")
    named = [
        line.split("|")[1].strip()
        for line in path.read_text().splitlines()
        if line.startswith("| distilbert")
    ]
    assert len(named) >= 5  # leaderboard, accuracy, differences, variants, kept
    assert all("(second step only)" in name for name in named)
    assert "| mobilebert (no pre-training) " in path.read_text()
    assert audit(read_all([path]).sheets) == []
    for file in (tmp_path / "p").glob("*/*/tables/*.csv"):
        names = [
            cell
            for line in csv.reader(io.StringIO(file.read_text()))
            for cell in line
            if "bert" in cell
        ]
        assert names
        assert not any("step only" in name or "no pre-training" in name for name in names), (
            file.name
        )
    (lines,) = compare(tmp_path / "r", "distilbert", "mobilebert").values()
    assert lines[0].names == (SECOND_STEP, "mobilebert (no pre-training)")
    header = table("distilbert", "mobilebert", lines).splitlines()[0]
    assert f" {SECOND_STEP} |" in header
    assert " mobilebert (no pre-training) |" in header


def test_every_report_has_the_rates_of_its_rows():
    """After each row's own factor; not of what was not trained, nor of students with their papers' numbers for each stage."""
    rows = [
        row("kd"),
        row("finetune"),
        row("pkd", rate=1.5e-4),
        row("fastbert", rate=1.5e-4),
        row("bilstm:rate=4"),
    ]
    (group,) = studies(
        [factories.record("teacher", score=0.7), *rows, factories.record("checkpoint:mine")]
    )
    table = hyper_parameters(group)
    rates = {name: line.label for line in table.lines for name in line.cells[-1].plain.split(", ")}
    assert rates == {"teacher": "1.5e-4", "pkd": "1.5e-4", "finetune": "3e-4", "kd": "3e-4", "bilstm:rate=4": "1.2e-3",
                     "fastbert": "1.5e-3"}  # fmt: skip
    (group,) = studies([row("kd", recipe="paper")])
    assert hyper_parameters(group) is None


@pytest.mark.parametrize(
    "spelling, left",
    [
        ("pd:finetune=true:start=masked:-soft", {"hard": 1.0}),
        ("kd:-hard", {"soft": 0.5}),
        ("kd:alpha=1", {"soft": 1.0}),
        ("pkd:-patience:-soft", {"hard": 0.5}),
        ("mtdnn:-soft", {"hard": 0.5}),
        ("mtdnn:loss=code:-soft", {"hard": 1.0}),
        ("moebert:-layer:-pred", {"hard": 1.0}),
    ],
)
def test_a_dropped_term_leaves_the_others_at_the_weights_that_the_header_says(spelling, left):
    found = scheduled(spelling)
    assert [{name: term.weight for name, term in stage.terms.items()} for stage in found] == [left]
    assert found[0].steps == 30


def searched(seed, of_search, each_seed=False, rates=(50.0, 60.0)):
    """The record of a row whose rate was chosen by trials with this seed."""
    trials = tuple(
        Trial(row=name, score=own) for name, own in zip(("kd", "kd:pace=2"), rates, strict=True)
    )
    search = Search(of="kd", metric="accuracy", held_back="h", trials=trials, seed=of_search)
    search = search.model_copy(update={"each_seed": each_seed})
    record = factories.record("kd", "rte", seed, 0.6)
    return factories.changed(record, label="kd (best of 2)", search=search)


def test_a_table_says_that_one_search_chose_for_all_seeds():
    """Where each seed has a search of its own, the intervals have the chance of the search."""
    (group,) = studies([searched(seed, 0) for seed in (0, 1)])
    said = sources_of_variance(group)[-1]
    assert "the intervals leave out that another search" in said
    (group,) = studies([searched(seed, seed, each_seed=True) for seed in (0, 1)])
    assert "another search" not in " ".join(sources_of_variance(group))
    (group,) = studies([factories.record("kd", "rte", seed) for seed in (0, 1)])
    assert "another search" not in " ".join(sources_of_variance(group))
