"""Predictions as a row: what a student of ours answered, given back as files, has its scores, and no model is asked of it."""

from __future__ import annotations

from dataclasses import replace

import pytest
import tiny

from bench import api
from bench.analysis.compare import compare
from bench.data.own_tasks import expand
from bench.errors import InputError
from bench.progress import Progress
from bench.run import carry_out

ROW = f"finetune:{tiny.SHAPE}:start=random"


@pytest.fixture
def given_back(request_, tmp_path):
    """A request whose second row is the first one's answers, seed by seed."""
    request = request_(methods=ROW, tasks="sst2,stsb,mnli", seeds=(0, 1))
    carry_out(api.plan(request), Progress())
    store = api.Store(request.results)
    for record in [r for r in store.records() if r.cell.method == "finetune"]:
        (task,), arrays = record.cell.tasks, store.predictions(record)
        labels = expand(task)[0][0].labels
        folder = tmp_path / "theirs" / str(record.cell.seed)
        folder.mkdir(parents=True, exist_ok=True)
        for name in record.scores:
            logits = arrays[f"logits.{name}"]
            answers = [labels[code] for code in logits.argmax(1)] if labels else [repr(float(v)) for v in logits[:, 0]]
            file = {"matched": "MNLI-m", "mismatched": "MNLI-mm"}.get(name, task)
            (folder / f"{file}.tsv").write_text("prediction\n" + "\n".join(answers) + "\n")
    return replace(request, methods=f"{ROW},predictions:{tmp_path / 'theirs'}")


def test_the_same_answers_have_the_same_scores(given_back):
    outcome = api.run(given_back)
    scores, labels = {}, {}
    for record in api.Store(given_back.results).records():
        scores.setdefault(record.cell.method, {})[record.cell.tasks, record.cell.seed] = record.scores
        labels[record.cell.method] = record.row
    assert len(scores["predictions"]) == 6
    assert scores["predictions"] == scores["finetune"]
    (lines,) = compare(given_back.results, labels["predictions"], labels["finetune"]).values()
    assert [line.difference for line in lines] == [0.0] * 5
    assert api.run(given_back).trained == 0, "they are there"
    report = outcome.reports[0].read_text()
    assert "predictions:theirs" in report
    assert "a system that did not run here" in report


def test_seeds_of_two_systems_are_not_mixed(given_back, tmp_path):
    """One file was written again: the answers of all its seeds are another system's."""
    carry_out(api.plan(given_back), Progress())
    file = tmp_path / "theirs" / "0" / "stsb.tsv"
    lines = file.read_text().splitlines()
    file.write_text("\n".join([lines[0], *reversed(lines[1:])]) + "\n")
    todo = [planned.cell for planned in api.plan(given_back).todo]
    assert {(cell.tasks, cell.seed) for cell in todo} == {(("stsb",), 0), (("stsb",), 1)}


@pytest.mark.parametrize("row", ["predictions", "predictions:nowhere", "predictions:nowhere+int8"])
def test_what_is_no_row(request_, row):
    with pytest.raises(InputError):
        api.plan(request_(methods=row, tasks="rte"))
