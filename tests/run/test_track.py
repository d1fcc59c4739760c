"""What a run trains goes to a tracker, if somebody asks for that: its curves and its scores, a run for each record."""

from __future__ import annotations

import sys
from types import ModuleType

import pytest
import tiny

from bench import api
from bench.errors import BAD_INPUT, OK
from bench.progress import Progress
from bench.record.store import Store
from bench.run import carry_out

KD = f"kd:{tiny.SHAPE}:start=random"


def train(request: api.Request) -> None:
    """Without its report."""
    assert carry_out(api.plan(request), Progress()).exit_code == OK


def test_curves_and_scores_of_each_record(request_, monkeypatch):
    runs: list[dict] = []
    module = ModuleType("wandb")
    module.__spec__ = object()  # what find_spec answers
    module.init = lambda **facts: runs.append({"facts": facts, "logged": []})
    module.log = lambda numbers, step: runs[-1]["logged"].append((step, numbers))
    module.finish = lambda: runs[-1].update(ended=True)
    monkeypatch.setitem(sys.modules, "wandb", module)
    request = request_(methods=f"{KD},{KD.replace('kd', 'tinybert')}", tasks="rte", track="wandb")
    train(request)
    by_key = {record.key: record for record in Store(request.results).records()}
    assert {run["facts"]["config"]["key"] for run in runs} == set(by_key)
    for run in runs:
        record = by_key[run["facts"]["config"]["key"]]
        curves: dict[str, list[float]] = {}
        for _, numbers in run["logged"][:-1]:
            for label, value in numbers.items():
                curves.setdefault(label, []).append(value)
        assert curves == {
            f"{stage}/{term}": curve
            for stage, terms in record.terms.items()
            for term, curve in terms.items()
        }
        assert run["logged"][-1][1] == {
            f"validation/{metric}": value for metric, value in record.scores["validation"].items()
        }
        assert [step for step, _ in run["logged"]] == list(range(1, 1 + len(run["logged"]))), (
            "of all stages: W&B takes none twice"
        )
        assert run["ended"]
    train(request)
    assert len(runs) == len(by_key), "what was there is not sent again"


def test_tensorboard_has_a_folder_for_each_record(request_):
    pytest.importorskip("tensorboard")
    request = request_(methods=KD, tasks="rte", track="tensorboard")
    train(request)
    keys = {record.key[:16] for record in Store(request.results).records()}
    assert {
        file.parent.name for file in (request.reports / "tensorboard").rglob("events.*")
    } == keys


@pytest.mark.parametrize("name", ["nothing", "trackio"])
def test_a_tracker_that_is_not_there_is_named_before_anything_starts(
    bench, places, tmp_path, monkeypatch, name
):
    monkeypatch.setattr("importlib.util.find_spec", lambda module: None)
    done = bench("run", "--methods", KD, "--tasks", "rte", *places, "--track", name)
    assert done.returncode == BAD_INPUT
    assert name in done.stderr
    assert not list(Store(tmp_path / "r").records())
