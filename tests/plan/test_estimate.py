"""What the steps of a plan take: positive, additive, the same for any number of jobs, and how many jobs run at a time."""

from __future__ import annotations

from dataclasses import replace

import pytest
import tiny
import torch

from bench.errors import BAD_INPUT
from bench.plan import estimate, show
from bench.plan.build import Plan, build
from bench.plan.estimate import BASE_BYTES, epochs_of, seconds_saved_by_outputs
from bench.plan.plan import ARTEFACT_STEP, STUDENTS_STEP, TEACHER_STEP, Cost, Step
from bench.plan.show import parts_of
from bench.plan.steps import steps_of
from bench.record.cell import record_key
from bench.request import Request
from bench.run import executors
from bench.train.numerics import ComputeSettings

KD, RANDOM = f"kd:{tiny.SHAPE}", f"finetune:{tiny.SHAPE}:start=random"
FOUR = ",".join(
    f"{name}:{tiny.SHAPE}:start=random" for name in ("finetune", "kd", "tinybert", "microbert")
)


@pytest.fixture
def planned(teacher_folder, glue_folder, tmp_path):
    """``planned("kd,pd")``: a plan of these rows on a tiny task."""

    def plan_of(methods: str = FOUR, tasks: str = "rte", **options) -> Plan:
        given = {
            "data": str(glue_folder),
            "teacher": str(teacher_folder),
            "results": tmp_path,
            "threads": 1,
        }
        return build(Request(methods, tasks, **given | options))

    return plan_of


@pytest.fixture
def slow_machine(monkeypatch):
    monkeypatch.setattr(estimate, "flops_per_second", lambda threads, precision="fp32": 1e6)


@pytest.mark.parametrize(
    ("rows", "options"),
    [
        (KD, {"augment": "rules"}),
        (
            f"{KD},tinybert:{tiny.SHAPE}",
            {"augment": "masked", "teacher_outputs": "fp16", "seeds": (0, 1)},
        ),
        ("mtdnn,moebert", {"tasks": "rte,sst2"}),
        pytest.param("all", {"tasks": "rte,sst2"}, marks=pytest.mark.slow),
    ],
)
def test_costs_are_positive_and_add_up_to_what_is_stated(planned, rows, options):
    plan = planned(rows, jobs=1, **options)
    costs = [plan.costs[step.key] for step in plan.todo_steps]
    assert len(costs) == len(plan.costs)
    assert all(cost.memory > BASE_BYTES and cost.disk >= 0 and cost.seconds >= 0 for cost in costs)
    trained = [step for step in plan.todo_steps if step.kind in (TEACHER_STEP, STUDENTS_STEP)]
    assert all(min(plan.costs[step.key].seconds, plan.costs[step.key].disk) > 0 for step in trained)
    whole = sum(cost.seconds for cost in costs)
    assert sum(parts_of(plan).values()) == pytest.approx(whole) == pytest.approx(plan.seconds)
    assert plan.disk_bytes == sum(cost.disk for cost in costs)


@pytest.fixture
def card(monkeypatch):
    """A plan is one for a GPU with these rates (FLOPs, seconds a kernel) and so many free bytes."""
    device = torch.device("cuda")
    monkeypatch.setattr("bench.measure.devices.device_of", lambda name, deterministic: device)
    monkeypatch.setattr(torch.accelerator, "is_available", lambda: True)
    monkeypatch.setattr(torch.accelerator, "device_count", lambda: 1)

    def has(*rates: float, free: float = 80e9) -> None:
        monkeypatch.setattr(estimate, "rates_of_card", lambda device, precision: rates)
        monkeypatch.setattr(estimate, "flops_per_second", lambda threads, precision="fp32": 1e11)
        monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (int(free), 80 * 10**9))

    return has


def test_on_a_card_steps_take_the_time_of_their_work_or_of_starting_it(planned, card):
    """The longer of the two: small batches wait for kernels to be started, large ones for products."""

    def seconds(*rates: float, **options) -> float:
        card(*rates)
        return planned(f"{KD}:start=random", device="cuda", jobs=1, **options).seconds

    started = seconds(1e18, 1e-5)
    assert seconds(1e18, 2e-5) == pytest.approx(2 * started)
    assert seconds(1e18, 1e-5, numbers=(("batch_size", 8),)) > 1.5 * started, "more steps"
    worked = seconds(1e9, 1e-12)
    assert seconds(2e9, 1e-12) == pytest.approx(worked / 2)
    assert seconds(1e9, 1e-5) >= max(worked, started)


def test_a_row_that_does_not_fit_the_card_is_named(planned, card):
    card(1e12, 1e-6)
    assert not [note for note in planned(KD, device="cuda", jobs=1).notes if "GPU" in note]
    card(1e12, 1e-6, free=0.5e9)
    (line,) = (
        note
        for note in planned(f"{KD}:start=random", device="cuda", jobs=1).notes
        if note.startswith("rte: kd")
    )
    assert "of the GPU's memory, which has 0.5 GB free; --set micro_batch=8" in line


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_products_are_timed_on_the_device_and_nothing_is_trained(precision, monkeypatch):
    monkeypatch.setattr(torch.Tensor, "backward", lambda *_: pytest.fail("a training"))
    products, start = estimate.rates_of_card("cpu", precision, 64)
    assert products > 1e6
    assert start == estimate.SECONDS_A_KERNEL


def test_the_tip_on_kept_outputs_counts_the_passes_that_a_file_saves(planned):
    row = f"tinybert:{tiny.SHAPE}"
    assert (
        seconds_saved_by_outputs(planned(row, epochs=8.0))
        > seconds_saved_by_outputs(planned(row))
        > 0
    )
    assert seconds_saved_by_outputs(planned(RANDOM, epochs=8.0)) == 0
    assert seconds_saved_by_outputs(planned(row, epochs=8.0, teacher_outputs="fp32")) == 0


@pytest.mark.parametrize(
    ("row", "recipe", "epochs"),
    [
        ("bilstm:hidden=12", "paper", 30),
        (KD, "paper", 4),
        (KD, "common", 3),
        (f"tinybert:{tiny.SHAPE}:start=random", "paper", 20 + 3),
        (f"tinybert:{tiny.SHAPE}:start=random:intermediate.epochs=50", "paper", 50 + 3),
        (f"tinybert:{tiny.SHAPE}:start=random:-pred", "paper", 20),
    ],
)
def test_epochs_are_those_of_the_row_s_stages(planned, row, recipe, epochs):
    plan = planned(row, recipe=recipe, jobs=1)
    assert epochs_of(plan.cells_of("rte")[-1].row, plan.tasks[0]) == epochs


@pytest.fixture
def seconds_of_artefacts(planned, monkeypatch):
    """``seconds("fisher", 1e8)``: kind of step -> its time in bf16, of so many FLOPs a second."""

    def seconds(row: str, rate_of_bf16: float = 1e6) -> dict[str, float]:
        monkeypatch.setattr(
            estimate,
            "flops_per_second",
            lambda threads, precision="fp32": rate_of_bf16 if precision == "bf16" else 1e6,
        )
        plan = planned(row, precision="bf16")
        return {step.kind: estimate.cost_of(plan, step).seconds for step in steps_of(plan).values()}

    return seconds


def test_masks_are_planned_in_fp32_also_under_bf16(seconds_of_artefacts):
    rows = f"fisher,{KD}:start=random"
    slow = seconds_of_artefacts(rows)
    fast = seconds_of_artefacts(rows, 1e8)
    assert fast[ARTEFACT_STEP] == slow[ARTEFACT_STEP]
    assert fast[TEACHER_STEP] < slow[TEACHER_STEP]
    assert fast[STUDENTS_STEP] < slow[STUDENTS_STEP]


def test_the_answers_of_an_ensemble_are_planned_in_bf16(seconds_of_artefacts):
    fast = seconds_of_artefacts("mtdnn", 1e8)
    slow = seconds_of_artefacts("mtdnn")
    assert fast[ARTEFACT_STEP] < slow[ARTEFACT_STEP]


def test_masks_are_planned_for_the_examples_that_they_read(seconds_of_artefacts):
    few = seconds_of_artefacts("fisher:examples=2")
    many = seconds_of_artefacts("fisher:examples=8")
    assert many[ARTEFACT_STEP] == pytest.approx(4 * few[ARTEFACT_STEP])
    # no more than there are
    all_of_them = seconds_of_artefacts("fisher:examples=1000000")
    more = seconds_of_artefacts("fisher:examples=2000000")
    assert more[ARTEFACT_STEP] == all_of_them[ARTEFACT_STEP]


def test_students_are_divided_where_a_job_would_idle_and_no_key_moves(planned, slow_machine):
    plans = {jobs: planned(jobs=jobs) for jobs in (1, 2, 4)}
    sizes = {
        jobs: [len(s.students) for s in plan.todo_steps if s.kind == STUDENTS_STEP]
        for jobs, plan in plans.items()
    }
    assert sizes == {1: [4], 2: [2, 2], 4: [1, 1, 1, 1]}
    assert plans[2].seconds < plans[1].seconds
    assert (
        len({tuple(record_key(planned.cell) for planned in plan.cells) for plan in plans.values()})
        == 1
    )


@pytest.mark.parametrize("needs", ["ab", "ba"])
def test_a_step_begins_when_the_last_of_its_needs_has_ended(needs):
    steps = [Step(TEACHER_STEP, name, name, ()) for name in needs] + [
        Step(TEACHER_STEP, "c", "c", (), needs=tuple("ab"))
    ]
    plan = Plan(Request("kd", "rte", jobs=2), [], [], [], steps={step.key: step for step in steps})
    vars(plan)["todo_steps"] = steps
    plan.costs = {"a": Cost(100.0), "b": Cost(1.0), "c": Cost(10.0)}
    assert plan.seconds == 110
    plan.slowed = {2: 3.0}
    assert plan.seconds == 3 * 1 + 99 + 10, "jobs slow each other down only while both run"
    plan.request = replace(plan.request, jobs=1)
    assert plan.seconds == 111


def test_the_students_of_a_long_task_are_divided_before_those_of_a_short_one(planned, slow_machine):
    """A job should not end long after the others because it has all students of the longest task."""
    plan = planned(tasks="rte,sst2", jobs=2, max_train_rows=8)
    rows = {"rte": 8, "sst2": 24}
    for task in plan.tasks:
        task.data.rows["train"] = rows[task.name]
    assert {task.name: task.training_rows for task in plan.tasks} == rows
    sizes = [
        (s.tasks[0].name, len(s.students))
        for s in steps_of(plan, 2).values()
        if s.kind == STUDENTS_STEP
    ]
    assert sizes == [("rte", 4), ("sst2", 2), ("sst2", 2)]


def test_auto_is_as_many_jobs_as_cores_and_memory_allow_and_one_for_a_short_plan(
    planned, monkeypatch
):
    monkeypatch.setattr(estimate, "usable_cores", lambda: 6)
    monkeypatch.setattr(estimate, "usable_memory_bytes", lambda: 10**12)
    monkeypatch.setattr(estimate, "flops_per_second", lambda threads, precision="fp32": 1e15)
    assert planned(jobs=0).request.jobs == 1
    monkeypatch.setattr(estimate, "flops_per_second", lambda threads, precision="fp32": 1e6)
    assert planned(jobs=0).request.jobs == 6
    assert planned(jobs=0, threads=2).request.jobs == 3
    monkeypatch.setattr(estimate, "usable_memory_bytes", lambda: 2 * 10**9)
    assert 1 <= planned(jobs=0).request.jobs < 6
    assert "fewer --jobs need less" not in planned(jobs=0).jobs_description
    assert "fewer --jobs need less" in planned(jobs=8).jobs_description


def test_what_is_made_alone_is_found_by_a_run(bench, places, tmp_path):
    """The parts of `run` have the threads of `run`, where nobody types a number."""
    (tmp_path / "corpus.txt").write_text(
        "the cat runs in the house .\na bird sings on the old tree .\n" * 30
    )
    text = ("--methods", KD, "--corpus", tmp_path / "corpus.txt", "--corpus-tokens", "300")
    for words in (("pretraining", *text), ("teachers",)):
        made = bench("run", "--only", *words, "--tasks", "rte", *places)
        assert made.returncode == 0, made.stderr
    plan = bench("plan", *text, "--tasks", "rte", *places[:6])
    assert "general start 2x12: there" in plan.stdout
    assert "2 cells: 1 there, 1 to do" in plan.stdout
    again = bench("run", "--only", "pretraining", *text, "--tasks", "rte", *places)
    assert "nothing to do: no cell to do needs more of it" in again.stderr
    none = bench(
        "run", "--only", "pretraining", "--methods", "pkd:layers=2", "--tasks", "rte", *places
    )
    assert none.returncode == BAD_INPUT
    assert "none of these rows has a pre-training on text" in none.stderr


def test_what_bf16_saves_is_said_where_products_take_the_time(planned, card, monkeypatch):
    """Rates are made up. Small batches wait for kernels to be started: faster products save nothing."""
    card(1.0, 1.0)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda including_emulation: True)
    chosen, start = [], 1e-12
    rates = {"fp32": 1e9, "tf32": 2.1e9, "bf16": 8e9}
    monkeypatch.setattr(
        estimate, "rates_of_card", lambda device, precision: (rates[precision], start)
    )
    monkeypatch.setattr(
        "bench.measure.devices.choose_products", lambda device, precision: chosen.append(precision)
    )
    plan = planned(f"{KD}:start=random", device="cuda", jobs=1)
    (line,) = show.precisions(plan)
    assert "bf16 all takes about 25% of that time" in line
    assert chosen == ["fp32"]
    start = 1.0
    assert not show.precisions(plan)


def test_jobs_share_a_card_that_waits_for_the_program_and_none_that_works(
    planned, card, monkeypatch
):
    row, tasks = f"{KD}:start=random", "rte,sst2,stsb"
    monkeypatch.setattr(estimate, "usable_cores", lambda: 3)
    card(1e18, 1e-1)
    alone, shared = (planned(row, tasks, device="cuda", jobs=jobs) for jobs in (1, 0))
    assert shared.request.jobs == 3, "as many as there are cores"
    assert alone.seconds / 3 < shared.seconds < alone.seconds, "sharing costs something"
    card(1e18, 1e-1, free=1.5e9)
    assert planned(row, tasks, device="cuda", jobs=0).request.jobs == 2, (
        "as many as the card has memory for"
    )
    card(1.0, 1e-12)
    working = planned(row, tasks, device="cuda", jobs=0)
    assert working.request.jobs == 1
    for jobs in (3, 9):
        seconds = planned(row, tasks, device="cuda", jobs=jobs).seconds
        assert seconds == pytest.approx(working.seconds, rel=0.3), (
            "a second job would wait for the first"
        )
    card(1e18, 1e-1)
    monkeypatch.setattr(torch.accelerator, "device_count", lambda: 2)
    monkeypatch.setattr(estimate, "usable_cores", lambda: 4)
    both = planned(row, tasks, device="cuda", jobs=0)
    assert both.request.jobs == 4, "two on each"
    assert planned(row, tasks, device="cuda", jobs=0, threads=2).request.jobs == 2


def test_jobs_that_share_a_card_take_turns_on_it_and_its_memory_is_theirs_together(
    planned, card, monkeypatch
):
    monkeypatch.setattr(executors, "device_of", lambda name, deterministic: torch.device(name))
    one, both = (Request(methods="kd", device=device) for device in ("cuda:1", "cuda"))
    assert executors.devices_of(one, 2) == ["cuda:1", "cuda:1"]
    monkeypatch.setattr(torch.accelerator, "device_count", lambda: 2)
    assert executors.devices_of(both, 3) == ["cuda:0", "cuda:1", "cuda:0"]
    monkeypatch.setattr(torch.accelerator, "device_count", lambda: 1)
    options = {"device": "cuda", "tasks": "rte,sst2,stsb", "jobs": 3}
    card(1e12, 1e-6, free=1.5e9)
    (line,) = (
        note for note in planned(f"{KD}:start=random", **options).notes if "fewer --jobs" in note
    )
    assert line.startswith("3 jobs on a GPU: about 1.8 GB of its memory, which has 1.5 GB free")


@pytest.mark.cuda
def test_tf32_rounds_products_and_fp32_does_not():
    device = torch.device("cuda")
    a = torch.randn(512, 512, device=device)
    whole = (a.double() @ a.double()).float()
    ComputeSettings(device, "tf32")
    rounded = (a @ a - whole).abs().max()
    ComputeSettings(device, "fp32")
    assert (a @ a - whole).abs().max() < 1e-3 < rounded
