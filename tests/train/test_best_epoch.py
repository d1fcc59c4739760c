"""The shipped epoch chosen on development rows: on those that are scored, and said so, or on the other half of them."""

from __future__ import annotations

import re
from itertools import count

import numpy as np
import pytest
import tiny

from bench.conformance.tiny_bench import Bench
from bench.record.store import Store
from bench.train.best_epoch import BestEpoch, SelectionExamples
from bench.train.loop import LoopOptions, train_task
from bench.train.training_state import TrainingStates
from methods import get

SMALL = f"{tiny.SHAPE}:start=random"
ROWS = f"kd:{SMALL},fastbert:branch_heads=4:branch_width=12,moebert:experts=2:expert_size=24:shared_size=12,finetune:{SMALL},microbert:{SMALL}:tasks=together"


def records(root):
    return {
        (r.cell.label, r.cell.tasks[0], r.point): r
        for r in Store(root).records()
        if r.status == "ok"
    }


def test_halves_are_two_parts_alike_in_labels_wherever_the_rows_come_from():
    whole = tiny.split(41, 3)
    choose, report = whole.halves()
    assert sorted([*choose.ids, *report.ids]) == list(whole.ids)
    counts = [np.bincount(half.labels, minlength=4) for half in (choose, report)]
    assert (abs(counts[0] - counts[1]) <= 1).all()
    order = np.random.default_rng(0).permutation(41).tolist()
    again = whole.take(order).halves()
    assert [set(half.ids) for half in again] == [set(choose.ids), set(report.ids)]


@pytest.fixture
def typed(places):
    return ("run", "--tasks", "rte", "--epochs", 3, *places)


@pytest.mark.slow
@pytest.mark.long
def test_the_best_epoch_is_shipped_and_looking_for_it_changes_no_training(bench, typed, tmp_path):
    for words in (("--checkpoint", "best-on-dev"), ()):
        done = bench(*typed, "--tasks", "rte,sst2", "--methods", ROWS, *words)
        assert done.returncode == 0, done.stderr
    found = records(tmp_path / "r")
    chosen = {where: r for where, r in found.items() if r.cell.selection}
    assert len({label for label, *_ in chosen}) == 5
    differ = 0
    for (label, task, point), record in chosen.items():
        assert label.endswith(" (best epoch)")
        last = found[label.removesuffix(" (best epoch)"), task, point]
        said = record.usage["epochs"]
        assert len(said["scores"]) == 3
        assert said["shipped"] == 1 + int(np.argmax(said["scores"]))
        if not point and not record.cell.together:
            assert 100 * record.scores["validation"]["accuracy"] == pytest.approx(
                max(said["scores"]), abs=1e-3
            )
        assert record.terms == last.terms
        assert (record.weights == last.weights) == (said["shipped"] == 3)
        assert record.train_key != last.train_key
        assert "on the very rows that are scored" in " ".join(record.notes)
        differ += said["shipped"] != 3
        # what the choice asked is no use
        if record.cell.method == "moebert" and record.weights == last.weights:
            assert record.usage["load of experts"] == last.usage["load of experts"]
    assert differ
    (report,) = (tmp_path / "p").glob("*/*/README.md")
    assert "(best epoch)" in report.read_text()
    assert "too high by what the choice gains" in report.read_text()


@pytest.mark.slow
def test_half_of_the_rows_chooses_and_the_other_half_is_scored(bench, typed, places, tmp_path):
    # `fisher` trains no epoch that could be chosen, and goes its way beside the others
    done = bench(*typed, "--methods", f"kd:{SMALL},fisher", "--checkpoint", "best-on-half")
    assert done.returncode == 0, done.stderr
    found = records(tmp_path / "r")
    assert len(found) == 3
    for record in found.values():
        assert record.cell.data.slug == "folder-tiny-glue-half-dev"
        assert record.cell.data.rows["validation"] == 20
    student, untrained = (
        next(r for r in found.values() if r.cell.method == name) for name in ("kd", "fisher")
    )
    assert "was chosen" not in " ".join(untrained.notes)
    assert student.cell.selection.rule == "half"
    assert set(student.cell.selection.rows.values()).isdisjoint(
        student.cell.data.evaluation.values()
    )
    assert "on the other half of the development rows" in " ".join(student.notes)
    (report,) = (tmp_path / "p").glob("*/*/README.md")
    place = report.parent.relative_to(tmp_path / "p").as_posix()
    assert re.fullmatch("folder-tiny-glue-half-dev/tiny-bert-1t-common-3ep-[0-9a-f]{8}", place)
    # and the record can be made again
    answer = bench("verify", student.key[:10], *places[:6])
    assert answer.stdout.startswith("bitwise equal"), answer.stderr


def test_what_chose_the_epoch_is_in_the_key():
    from factories import record

    from bench.record.cell import Selection, train_key

    cell = record().cell
    chosen = cell.model_copy(update={"selection": Selection(rule="dev", rows={"rte": "x"})})
    other = cell.model_copy(update={"selection": Selection(rule="dev", rows={"rte": "y"})})
    assert len({train_key(c) for c in (cell, chosen, other)}) == 3


@pytest.mark.slow
def test_scores_of_epochs_for_a_curve_change_no_training(bench, typed, tmp_path):
    kept = []
    for words in ((), ("--curves", "--rerun")):
        done = bench(*typed, "--methods", f"kd:{SMALL}", *words)
        assert done.returncode == 0, done.stderr
        kept.append(
            {where: r for where, r in records(tmp_path / "r").items() if r.cell.method == "kd"}
        )
    for where, record in kept[1].items():
        assert (record.key, record.weights) == (kept[0][where].key, kept[0][where].weights)
        (scores,) = record.scores.values()
        assert len(record.usage["epochs"]["scores"]) == 3
        assert record.usage["epochs"]["scores"][-1] == pytest.approx(
            100 * next(iter(scores.values())), abs=0.001
        )
    assert "epochs" not in kept[0][where].usage


@pytest.mark.parametrize("looks", [2, 8])
def test_a_curve_goes_on_where_a_training_was_stopped_in_its_first_epoch_and_later(looks, tmp_path):
    method = get("kd")
    bench = Bench(method(**{**method.tiny_settings, "start": "random"}), 2)

    def curve(stop_at: float = np.inf) -> list[float]:
        trainer, seen = bench.trainer(), count(1)
        selection = [SelectionExamples("tiny", bench.data, bench.data.labels.numpy(), "accuracy")]
        trainer.best_epoch = BestEpoch(
            bench.method.deploy, selection, bench.numerics, chooses=False
        )
        states = TrainingStates(
            [["kd"]],
            print,
            every=1e9,
            folder=tmp_path,
            code=["x"],
            is_stopping=lambda: next(seen) >= stop_at,
        )
        train_task(
            [trainer], bench.data, bench.teacher, LoopOptions(0, bench.numerics, 16, states=states)
        )
        return trainer.best_epoch.scores

    whole = curve()
    with pytest.raises(KeyboardInterrupt):
        curve(looks)
    assert curve() == whole
    assert len(whole) > 1
