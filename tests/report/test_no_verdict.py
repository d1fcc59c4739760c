"""Generated data and one seed rank nothing: no rank, bold, best, p or verdict in any output."""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import asdict

import factories
import numpy as np
import pytest
from studied import studied

from bench.analysis.choice_in_words import in_words
from bench.analysis.choose import choose
from bench.analysis.compare import compare
from bench.analysis.gate import check
from bench.analysis.gate_result import PASSED, REGRESSED
from bench.record.cell import CHECKPOINT
from bench.record.store import Store
from bench.report.score_column import GENERATED, ONE_SEED, why_no_verdict
from bench.report.tables.leaderboard import NO_RANKS, summary
from bench.report.tables.registry import tables_of
from bench.report.write import write_reports

LABELS = np.random.default_rng(0).integers(2, size=400)
ROWS = {"teacher": 0.05, "finetune": 0.3, "kd": 0.2, "tinybert": 0.1}
GLUE, SAMPLE = "folder-glue", "sample-v2"
VERDICTS = re.compile(
    r"\b(best|rank|better|worse|keeps|loses|significant)\b|\bp [<=]|▲|▼|○|◐|\*\*\d"
)


def wrong(share, *noise):
    drawn = np.random.default_rng(noise).permutation(400)
    return np.where(drawn < share * 400, 1 - LABELS, LABELS)


def store_of(folder, data, seeds) -> Store:
    """Rows of which each is clearly better than the one before."""
    store = Store(folder)
    for number, (row, share) in enumerate(ROWS.items()):
        for task in ("rte", "sst2"):
            for seed in (0,) if row == "teacher" else range(seeds):
                macs = 10**9 if row == "teacher" else 10**8
                record = factories.record(row, task, seed, data=data, macs=macs)
                teacher = {"teacher": {"key": "k", "weights": "t" * 64}}
                record = record.model_copy(update={"artefacts": teacher})
                factories.write(store, record, wrong(share, number, seed), LABELS)
    return store


CASES = [(SAMPLE, 3, GENERATED), (SAMPLE, 1, GENERATED), (GLUE, 1, ONE_SEED)]


@pytest.mark.parametrize(("data", "seeds", "why"), [*CASES, (GLUE, 3, ""), (GLUE, None, "")])
def test_why_there_is_no_verdict(data, seeds, why):
    assert why_no_verdict(data, seeds) == why


@pytest.mark.parametrize(("data", "seeds", "why"), CASES)
def test_no_table_ranks_or_tests_anything(tmp_path, data, seeds, why):
    store = store_of(tmp_path / "r", data, seeds)
    group = studied(store)
    tables = tables_of(group)
    cells = [cell for table in tables for line in table.lines for cell in line.all_cells]
    assert not [cell for cell in cells if cell.bold or cell.verdict or cell.p is not None]
    assert not [t for t in tables if "rank" in t.header]
    assert why in summary(group)
    # the leaderboard is in the order of means, and says what that is worth
    (board,) = [table for table in tables if table.file == "leaderboard"]
    assert NO_RANKS in board.notes[0]
    # differences stand, with their intervals
    (compared,) = [table for table in tables if table.file == "paired comparisons"]
    (tinybert,) = [line for line in compared.lines if line.label == "tinybert"]
    assert tinybert.cells[-1].low > 0
    assert why in compared.notes


@pytest.mark.parametrize(("data", "seeds", "why"), CASES)
def test_no_file_of_a_report_says_better_or_best(tmp_path, data, seeds, why):
    store = store_of(tmp_path / "r", data, seeds)
    (page,) = write_reports(store, tmp_path / "p", latex=True)
    text = page.read_text()
    assert text.count(why) >= 1
    # explanations that stand in every report name no row
    for explained in (why, "The row 'majority class' is the best score of a constant prediction."):
        text = text.replace(explained, "")
    text = re.sub(r"(?m)^\*.*\*.*$", "", text)  # captions
    assert not VERDICTS.search(text), VERDICTS.search(text)
    for file in page.parent.glob("tables/*.tex"):
        assert not re.search(r"better|\$\*\$|dagger|bold", file.read_text().replace(why, "")), (
            file.name
        )
        assert r"\textbf{" not in file.read_text().partition(r"\begin{tabular}")[2], file.name


@pytest.mark.parametrize(("data", "seeds", "why"), CASES)
def test_choose_and_compare_give_differences_alone(tmp_path, data, seeds, why):
    store = store_of(tmp_path / "r", data, seeds)
    (lines,) = compare(store.root, "tinybert", "finetune").values()
    assert [line.no_verdict for line in lines] == [why] * 3
    assert all(line.low > 0 and line.verdict == "" for line in lines)
    (choice,) = choose(store.root, {})
    assert (choice.no_verdict, choice.near, choice.cheapest) == (why, (), None)
    assert choice.chosen.label == "teacher"
    for row in choice.candidates:
        assert (row.probability, row.p, row.verdict) == (None, None, "")
    said = "\n".join(in_words(choice)).replace(why, "")
    assert not re.search(r"probability|best|significant", said)
    json.dumps([asdict(row) for row in choice.candidates], allow_nan=False)


def test_three_seeds_of_real_examples_are_judged(tmp_path):
    store = store_of(tmp_path / "r", GLUE, 3)
    assert any(text.startswith("Best: tinybert") for text in summary(studied(store)))
    (lines,) = compare(store.root, "tinybert", "finetune").values()
    assert [line.verdict for line in lines] == ["better"] * 3


def test_two_finished_models_are_judged_on_their_examples(tmp_path):
    """They have no seeds: what is asked is which of the two models is better."""
    store = Store(tmp_path / "r")
    for number, row in enumerate(("good", "poor")):
        record = factories.changed(factories.record(row, data=GLUE), method=CHECKPOINT)
        factories.write(store, record, wrong((0.1, 0.4)[number], number), LABELS)
    (lines,) = compare(store.root, "good", "poor").values()
    assert [(line.verdict, line.no_verdict) for line in lines] == [("better", "")]


def test_a_column_of_one_seed_is_no_test_beside_one_of_three(tmp_path):
    store = store_of(tmp_path / "r", GLUE, 3)
    for record in list(store.records()):
        if record.cell.tasks == ("sst2",) and record.cell.seed:
            shutil.rmtree(store.folder(record.cell))
    store = Store(store.root)
    (lines,) = compare(store.root, "tinybert", "finetune").values()
    rte, sst2, mean = lines
    assert (rte.family, rte.verdict, rte.p) == (1, "better", rte.adjusted)
    assert (sst2.no_verdict, mean.no_verdict) == (ONE_SEED, ONE_SEED)
    (accuracy,) = [table for table in tables_of(studied(store)) if table.file == "accuracy"]
    bold = {
        column.title
        for line in accuracy.lines
        for column, cell in zip(accuracy.columns, line.all_cells, strict=True)
        if cell.bold
    }
    assert bold == {"rte (acc)"}


@pytest.mark.parametrize(("data", "seeds"), [(SAMPLE, 3), (SAMPLE, 1), (GLUE, 1)])
def test_the_gate_judges_them_as_ever(tmp_path, data, seeds):
    """It compares a method with itself on the same examples, and continuous integration has no other data."""
    before = store_of(tmp_path / "before", data, seeds)
    assert {finding.verdict for finding in check(before.root, before.root)} == {PASSED}
    after = Store(tmp_path / "after")
    for record in before.records():
        share = 0.6 if record.row == "tinybert" else ROWS[record.row]
        number = list(ROWS).index(record.row)
        other = record.model_copy(update={"weights": "f" * 64})
        factories.write(after, other, wrong(share, number, record.cell.seed), LABELS)
    verdicts = {
        finding.subject.split()[-1]: finding.verdict
        for finding in check(before.root, after.root)
        if "accuracy" in finding.what
    }
    assert verdicts["tinybert"] == REGRESSED
