"""What a plan says that is still to make: the jobs make exactly that, and it takes the time and the disk that is stated."""

from __future__ import annotations

import pickle

import factories
import pytest
import tiny
import torch

from bench.plan import estimate
from bench.plan.build import Plan, build
from bench.plan.estimate import seconds_saved_by_outputs
from bench.plan.plan import TEACHER_STEP
from bench.plan.request import Request
from bench.plan.show import describe
from bench.record.cell import TEACHER, record_key, train_key
from bench.record.store import Store

KD = f"kd:{tiny.SHAPE}"
RANDOM = f"finetune:{tiny.SHAPE}:start=random"


@pytest.fixture
def planned(teacher_folder, glue_folder, tmp_path):
    """``planned("kd,pd")``: a plan of these rows on a tiny task."""

    def plan_of(methods: str, tasks: str = "rte", **options) -> Plan:
        place = {"data": str(glue_folder), "teacher": str(teacher_folder), "results": tmp_path}
        return build(Request(methods, tasks, **place, threads=1, **options))

    return plan_of


def record_of_the_teacher(plan: Plan) -> None:
    """Write the record of the teacher's cell, as a clone with committed records has it."""
    cell = next(planned.cell for planned in plan.cells if planned.cell.method == TEACHER)
    record = factories.record("teacher", "rte")
    keys = {"key": record_key(cell), "train_key": train_key(cell)}
    Store(plan.request.results).write(record.model_copy(update={"cell": cell, "answers": None, **keys}))


@pytest.mark.parametrize(
    ("rows", "options"),
    [
        (f"{KD},{RANDOM}", {"augment": "rules"}),
        (f"{KD},{RANDOM}", {"augment": "masked"}),
        ("mtdnn", {"tasks": "rte,sst2"}),
        (f"{KD},tinybert:{tiny.SHAPE}", {"teacher_outputs": "fp16", "seeds": (0, 1)}),
    ],
)
def test_every_step_to_do_has_a_cost_and_survives_its_journey(planned, rows, options):
    plan = planned(rows, **options)
    assert [step.key for step in plan.todo_steps] == list(plan.costs)
    assert 0 < plan.seconds == pytest.approx(sum(cost.seconds for cost in plan.costs.values()))
    assert all(cost.memory > estimate.BASE_BYTES / 2 for cost in plan.costs.values())
    for step in plan.todo_steps:
        sent = pickle.dumps(step)
        arrived = pickle.loads(sent)  # noqa: S301
        assert len(sent) < 50_000
        assert (arrived.key, arrived.needs, arrived.code_here) == (step.key, step.needs, step.code_here)
        assert [planned.key for planned in arrived.cells] == [planned.key for planned in step.cells]


def test_a_teacher_that_nothing_to_do_needs_is_not_made(planned):
    record_of_the_teacher(planned(RANDOM))
    for rows, needed in ((RANDOM, False), (f"{RANDOM},{KD}", True)):
        plan = planned(rows)
        assert any(step.kind == TEACHER_STEP for step in plan.todo_steps) == needed


def test_every_teacher_of_an_ensemble_is_made_once(planned):
    plan = planned("mtdnn", "rte,sst2")
    titles = [f"teacher of {task}{seed}" for task in ("rte", "sst2") for seed in ("", ", seed 1", ", seed 2")]
    teachers = [step for step in plan.todo_steps if step.kind == TEACHER_STEP]
    assert sorted(step.title for step in teachers) == sorted(titles)
    assert len({plan.costs[step.key].disk for step in teachers}) == 1


def test_a_plan_leaves_the_threads_of_torch_as_they_were(planned):
    estimate.flops_per_second.cache_clear()
    torch.set_num_threads(2)
    planned(KD)
    assert torch.get_num_threads() == 2


def test_what_only_a_finished_artefact_was_made_from_is_not_to_make(planned, monkeypatch):
    """A cache may have a pre-training and no longer the truncated teacher that it began with: no job makes that one again."""
    rows = f"minilmv2:{tiny.SHAPE}"
    (truncated,) = (e for e in planned(rows).artefacts if e.artefact.words == "truncated teacher")
    monkeypatch.setattr(Plan, "is_there", lambda plan, slot: slot.key != truncated.key)
    plan = planned(rows)
    assert truncated.key not in {step.key for step in plan.todo_steps}
    (line,) = (line for line in describe(plan).splitlines() if "truncated teacher" in line)
    assert line.endswith("not in the cache, and nothing to do needs it")


def test_the_tip_on_kept_outputs_counts_the_passes_that_a_file_saves(glue_folder, teacher_folder):
    def saved(methods: str, **more):
        asked = Request(
            methods=methods, tasks="rte", data=str(glue_folder), teacher=str(teacher_folder), device="cpu", **more
        )
        return seconds_saved_by_outputs(build(asked))

    assert saved(f"tinybert:{tiny.SHAPE}", epochs=8.0) > saved(f"tinybert:{tiny.SHAPE}", epochs=4.0) > 0
    assert saved(f"finetune:{tiny.SHAPE}", epochs=8.0) == 0
    assert saved(f"tinybert:{tiny.SHAPE}", epochs=8.0, teacher_outputs="fp32") == 0
