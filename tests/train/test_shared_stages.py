"""Students whose first stages are the same train them once, and end with the bits that each would have alone."""

from __future__ import annotations

from dataclasses import replace

import pytest
import tiny
import torch
from interruption import BreaksOff
from small_runs import ends, requests
from tiny_training import RECIPE, finished, trainer

from bench import api
from bench.plan.scheduled_stages import first_stages
from bench.plan.spelling import parse_one
from bench.plan.stage_keys import leaders, stage_keys
from bench.train import loop, training_state
from bench.train.loop import LoopOptions, train_task
from bench.train.numerics import ComputeSettings
from bench.train.shared_stages import SharedStages
from bench.workflows.run import run
from methods.tinybert import TinyBERT

ALIKE = ["tinybert", "tinybert:prediction=labels", "tinybert:temperature=2", "tinybert:-attn", "kd"]
"""The second and the third begin as the first does."""
PLAYERS = [
    "microbert:schedule=tinybert",
    "microbert:schedule=tinybert:alpha=0.2",
    "microbert:gamma=0.5",
    "microbert:-hidn",
]
"""All have the preparation in common, the first two the alignment too."""


def sharing(spelling: str, data, **options):
    made = trainer(spelling, data, **options)
    made.stage_keys = stage_keys(made.method, made.schedule)
    return made


@pytest.fixture
def data(teacher_folder):
    return tiny.encoded(teacher_folder, rows=24)


@pytest.mark.parametrize("rows", [ALIKE, PLAYERS], ids=["later stages", "two players"])
def test_each_ends_as_it_would_alone(data, rows, monkeypatch):
    steps = []
    original = loop._student_step
    monkeypatch.setattr(loop, "_student_step", lambda trainer, *rest: (steps.append(trainer), original(trainer, *rest)))
    together = [sharing(row, data) for row in rows]
    weights = finished(together, data)
    shared, steps[:] = list(steps), []
    for row, expected, one in zip(rows, weights, together, strict=True):
        alone = trainer(row, data)
        assert finished([alone], data) == [expected], row
        for field in ("terms", "gradient_norms", "gradient_shares", "steps", "examples", "tokens", "teacher_tokens"):
            assert getattr(one.log, field) == getattr(alone.log, field), (row, field)
    assert len(set(weights)) == len(weights)
    saved = sum(
        scheduled.steps
        for one in together
        for stages in first_stages(one.schedule, len(one.log.trained_by)).values()
        for scheduled in stages
    )
    assert len(shared) == len(steps) - saved
    assert saved > 0


def test_rows_that_differ_in_their_last_stage_share_by_the_papers_recipes(data):
    """By the common recipe the first stage of pd is shorter where a second one follows, so nothing is shared."""
    rows, paper = ["pd", "pd:finetune=true"], replace(RECIPE, name="paper")
    together = [sharing(row, data, recipe=paper) for row in rows]
    assert finished(together, data) == [finished([trainer(row, data, recipe=paper)], data)[0] for row in rows]
    assert together[1].log.trained_by == {"distil": "pd"}
    assert not leaders([sharing(row, data).stage_keys for row in rows])


def test_who_shares_what(data):
    keys = [sharing(row, data).stage_keys for row in ALIKE]
    assert leaders(keys) == {1: (0, 1), 2: (0, 1)}
    keys = [sharing(row, data).stage_keys for row in PLAYERS]
    assert leaders(keys) == {1: (0, 2), 2: (0, 1), 3: (0, 1)}
    assert leaders([["a", "b"], ["a"], ["a", "b", "c"], ["b", "a"]]) == {1: (0, 1), 2: (0, 2)}


def test_a_student_may_wait_for_one_that_waits(data):
    rows = ["microbert", "microbert:schedule=tinybert", "microbert:schedule=tinybert:alpha=0.2"]
    together = [sharing(row, data) for row in rows]
    weights = finished(together, data)
    assert weights == [finished([trainer(row, data)], data)[0] for row in rows]
    assert together[2].log.trained_by == {"discriminator": rows[0], "alignment": rows[1]}


def test_who_waits_fails_as_its_leader_does_and_says_its_own_name(data):
    rows = ["tinybert", "tinybert:temperature=2", "kd"]
    together = [sharing(row, data) for row in rows]
    with torch.no_grad():
        for one in together[:2]:
            next(one.student.aux.parameters()).fill_(float("nan"))
    train_task(together, data, tiny.classifier(seed=5).eval(), LoopOptions(0, ComputeSettings(), RECIPE.batch_size))
    first, second, other = (one.error for one in together)
    assert str(first).startswith("tinybert, stage intermediate: the term ")
    assert str(second) == str(first).replace("tinybert,", "tinybert:temperature=2,", 1)
    assert other is None


def test_students_that_do_not_begin_alike_share_nothing(data):
    """A planted wrong declaration: the head is not only read by the last stage, it is built."""
    rows = ["tinybert", "tinybert:head=relu"]
    together = [sharing(row, data) for row in rows]
    together[1].stage_keys = together[0].stage_keys
    with torch.no_grad():
        next(together[1].student.model.parameters()).add_(1)
    assert not SharedStages(together, {"preparation": 0, "counted": 0}).steps_saved()


def test_a_wrong_declaration_is_found_by_check_method(monkeypatch):
    from bench.api import check_method

    monkeypatch.setattr(TinyBERT, "independent_stages", {"teacher_dropout": ("intermediate",)})
    found = {check.name: check for check in check_method(TinyBERT)}
    assert "teacher_dropout=True changes intermediate" in found["shares stages"].found
    assert [check.name for check in found.values() if not check.passed] == ["shares stages"]


ROWS = f"tinybert:{tiny.SHAPE},tinybert:{tiny.SHAPE}:temperature=2,finetune:{tiny.SHAPE}"


@pytest.fixture
def request_(tmp_path, teacher_folder, glue_folder):
    make = requests(tmp_path, teacher_folder, glue_folder)
    return lambda results, **changes: make(results, **{"methods": ROWS, "tasks": "rte", "epochs": 8.0} | changes)


def known(request) -> dict[tuple, list]:
    """What records have in common with those of rows that trained alone: all but the time and who trained a stage."""
    return {
        cell: [{k: v for k, v in one.items() if k != "trained_by"} if isinstance(one, dict) else one for one in found]
        for cell, found in ends(request).items()
    }


@pytest.mark.slow
@pytest.mark.parametrize(
    "changes",
    [{}, {"checkpoint": "best-on-dev"}, {"teacher_outputs": "fp32"}],
    ids=["usual", "best epoch", "outputs kept"],
)
def test_records_are_those_of_each_row_alone_and_say_who_trained(request_, changes):
    api.run(request_("together", **changes))
    for row in ROWS.split(","):
        api.run(request_("alone", methods=row, **changes))
    assert known(request_("together")) == known(request_("alone"))
    by = {
        record.cell.label: record.usage.get("trained_by")
        for record in api.Store(request_("together").results).records()
    }
    ((label, trained_by),) = ((label, who) for label, who in by.items() if who)
    assert "temperature=2" in label
    assert trained_by == {"intermediate": parse_one(ROWS.split(",")[0]).spelling}


@pytest.mark.slow
@pytest.mark.parametrize("step", [3, 11, 14], ids=["in the shared stage", "at its end", "after it"])
def test_a_run_that_breaks_off_goes_on_and_ends_as_in_one_go(request_, monkeypatch, step, capfd):
    monkeypatch.setattr(training_state, "EVERY_SECONDS", 0.0)
    api.run(request_("whole"))
    broken = request_("broken")
    with pytest.raises(KeyboardInterrupt):
        run(broken, BreaksOff("finetune", step))
    capfd.readouterr()
    api.run(broken)
    assert "resumes at step" in capfd.readouterr().err
    assert ends(broken) == ends(request_("whole"))
