"""Predictions as a row: what a student of ours answered, written as files and given back, has its scores, and no model is asked of it."""

from __future__ import annotations

from dataclasses import replace

import pandas
import pytest
import tiny

from bench import api
from bench.analysis.compare import compare
from bench.analysis.gate import check
from bench.analysis.gate_result import overall
from bench.analysis.written_predictions import write_predictions
from bench.errors import InputError
from bench.progress import Progress
from bench.run import carry_out
from bench.workflows.experiment import run_experiment

ROW = f"finetune:{tiny.SHAPE}:start=random"


@pytest.fixture
def given_back(request_, tmp_path):
    """A request whose second row is the first one's answers, seed by seed."""
    request = request_(methods=ROW, tasks="sst2,stsb,mnli", seeds=(0, 1))
    carry_out(api.plan(request), Progress())
    (label,) = {r.row for r in api.Store(request.results).records() if r.cell.method == "finetune"}
    files, _ = write_predictions(request.results, label, tmp_path / "theirs")
    assert len(files) == 2 * 5, "two seeds of sst2, stsb and mnli, which has ax too"
    return replace(request, methods=f"{ROW},predictions:{tmp_path / 'theirs'}")


def test_the_same_answers_have_the_same_scores(given_back):
    outcome = api.run(given_back)
    scores, answers, labels, store = {}, {}, {}, api.Store(given_back.results)
    for record in store.records():
        place = record.cell.tasks, record.cell.seed
        scores.setdefault(record.cell.method, {})[place] = record.scores
        answers.setdefault(record.cell.method, {})[place] = {
            n: a.tobytes() for n, a in store.predictions(record).items()
        }
        labels[record.cell.method] = record.row
    assert answers["predictions"] == answers["finetune"], "with ax, to the bit"
    assert len(scores["predictions"]) == 6
    assert scores["predictions"] == scores["finetune"]
    (lines,) = compare(given_back.results, labels["predictions"], labels["finetune"]).values()
    assert [line.difference for line in lines] == [0.0] * 5
    assert api.run(given_back).trained == 0, "they are there"
    findings = check(given_back.results, given_back.results, rows=[labels["predictions"]])
    assert "predictions:theirs" in " ".join(finding.subject for finding in findings)
    assert overall(findings) == "passed", findings
    report = outcome.reports[0].read_text()
    assert "predictions:theirs" in report
    assert "a system that did not run here" in report


def test_seeds_of_two_systems_are_not_mixed(given_back, tmp_path):
    """One file was written again: the answers of all its seeds are another system's."""
    carry_out(api.plan(given_back), Progress())
    file = tmp_path / "theirs" / "seed-0" / "stsb.tsv"
    table = pandas.read_csv(file, sep="\t")
    table["prediction"] += 1
    table.to_csv(file, sep="\t", index=False)
    todo = [planned.cell for planned in api.plan(given_back).todo]
    assert {(cell.tasks, cell.seed) for cell in todo} == {(("stsb",), 0), (("stsb",), 1)}


def test_a_paper_calls_the_row_what_it_likes_and_leaves_it_in_its_place(given_back, tmp_path):
    file, theirs = tmp_path / "e.toml", given_back.methods.partition(",")[2]
    labels = f"labels = {{ '{ROW}' = 'Plain', '{theirs}' = 'Theirs (2019)' }}"
    table = f"[[table]]\nname = 'a'\nmethods = ['{theirs}', '{ROW}']\ntasks = ['stsb']\nshow = 'differences'\n{labels}"
    file.write_text(f"title = 'mine'\n{table}")
    page = run_experiment(file, given_back, {"seeds"}).reports[-1].read_text()
    places = [page.index(f"| {label} ") for label in ("Theirs (2019)", "Plain")]
    assert places == sorted(places)


@pytest.mark.parametrize("row", ["predictions", "predictions:nowhere", "predictions:nowhere+int8"])
def test_what_is_no_row(request_, row):
    with pytest.raises(InputError):
        api.plan(request_(methods=row, tasks="rte"))
