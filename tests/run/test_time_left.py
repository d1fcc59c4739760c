"""The time that a run says is left: right within a third once something of it is measured."""

from __future__ import annotations

import io

import pytest
from planned_steps import plan_of

from bench.plan.plan import ARTEFACT_STEP
from bench.progress import Pace, Progress
from bench.run.display import Display, FileProgress
from bench.run.time_left import TimeLeft


class Clock:
    """Time that passes when it is told to."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def simulated(planned, took, jobs=1):
    """Make steps one after the other, or so many at a time; returns (truth, said, measured) at every tenth of
    each step.

    Args:
        planned, took: seconds of each step.
    """
    clock = Clock()
    plan = plan_of({f"s{i}": (seconds, ()) for i, seconds in enumerate(planned)}, jobs)
    left = TimeLeft(plan, clock)
    ends: dict[str, float] = {}
    begun: dict[str, float] = {}
    waiting = list(plan.todo_steps)
    seen = []
    free_at = [clock.now] * jobs
    for step, seconds in zip(plan.todo_steps, took, strict=True):
        place = free_at.index(min(free_at))
        begun[step.key] = free_at[place]
        free_at[place] += seconds
        ends[step.key] = free_at[place]
    whole = max(ends.values())
    now = clock.now
    while now < whole:
        clock.now = now
        for step in list(waiting):
            if begun[step.key] <= now:
                left.leave(step)
                left.begin(step.key, step)
                left.start(step.key)
                waiting.remove(step)
        jobs_say = {key: {"left": ends[key] - now} for key in begun if begun[key] < now < ends[key]}
        said, measured = left.left(jobs_say)
        seen.append((whole - now, said, measured))
        now += whole / 997
        clock.now = now
        for key, end in ends.items():
            if end <= now:
                clock.now = end
                left.end(key)
    return seen


@pytest.mark.parametrize("times", [0.3, 1.0, 3.0])
@pytest.mark.parametrize("jobs", [1, 2])
def test_once_measured_it_is_right_within_a_third(times, jobs):
    """Steps of one machine take so many times what was planned, each a fifth more or less."""
    planned = [180.0, 10.0, 20.0, 30.0, 10.0, 20.0, 30.0, 10.0]
    took = [times * s * (0.8, 1.0, 1.2)[i % 3] for i, s in enumerate(planned)]
    seen = simulated(planned, took, jobs)
    assert seen[0][1] == pytest.approx(sum(planned) / jobs, rel=0.35)
    assert not seen[0][2], "before anything is done it is the plan's"
    measured = [(truth, said) for truth, said, is_measured in seen if is_measured]
    assert len(measured) > 0.6 * len(seen)
    # at the very end some seconds are a third
    assert all(abs(said - truth) < max(truth / 3, 0.04 * seen[0][0]) for truth, said in measured)


def test_each_kind_of_step_has_its_own_pace():
    """The long training on text was faster than planned; the short steps are slower."""
    clock = Clock()
    plan = plan_of({"text": (100.0, ()), "a": (10.0, ()), "b": (10.0, ()), "c": (10.0, ())})
    plan.todo_steps[0] = text = type(plan.todo_steps[0])(ARTEFACT_STEP, "text", "text", ())
    left = TimeLeft(plan, clock)
    assert left.left({}) == (130.0, False)
    for step, seconds in ((text, 50.0), (plan.todo_steps[1], 40.0)):
        left.leave(step)
        left.begin(step.key, step)
        left.start(step.key)
        clock.now += seconds
        left.end(step.key)
    assert left.left({}) == (80.0, True)


def test_the_stretch_that_a_training_on_text_begins_with_says_nothing():
    """It reads for some seconds, at its own pace, before it trains: that reading is nearly done is no news."""
    clock = Clock()
    plan = plan_of({"text": (100.0, ())}, kind=ARTEFACT_STEP)
    left = TimeLeft(plan, clock)
    left.leave(plan.todo_steps[0])
    left.begin("1", plan.todo_steps[0])
    clock.now += 50
    assert left.left({}) == (100.0, False), "it waits for its worker"
    left.start("1")
    clock.now += 30
    assert left.left({"1": {"left": 1.0, "total": 6}}) == (70.0, False)
    clock.now += 20
    assert left.left({"1": {"left": 150.0, "total": 196}}) == (150.0, True)


def test_what_waits_for_a_step_is_counted_behind_it():
    plan = plan_of({"teacher": (10.0, ()), "a": (20.0, ("teacher",)), "b": (20.0, ("teacher",))}, 2)
    assert TimeLeft(plan).left({}) == (30.0, False)


def test_a_new_stretch_of_steps_has_a_new_pace():
    """Six slow steps, then 196 fast ones under one title: 3 h 44 min were said to be left of five minutes."""
    pace = Pace()
    assert pace.left(0.0, 1, 6) is None
    assert pace.left(30.0, 4, 6) == pytest.approx(20.0)
    assert pace.left(60.0, 1, 196) is None
    assert pace.left(62.0, 3, 196) == pytest.approx(193.0)


def test_a_training_that_was_resumed_is_measured_from_where_it_went_on():
    pace = Pace()
    assert pace.left(0.0, 900, 1000) is None
    assert pace.left(10.0, 910, 1000) == pytest.approx(90.0)


def test_one_line_says_how_far_the_run_is_and_what_it_does(tmp_path):
    clock, said = Clock(), io.StringIO()
    plan = plan_of({"rte: kd": (60.0, ()), "rte: pkd": (60.0, ())})
    left = TimeLeft(plan, clock)
    display = Display(tmp_path, Progress(said, clock), left)
    worker = FileProgress(write=lambda file, body: display.hear(file.stem, body))
    worker.clock = clock
    step = plan.todo_steps[0]
    left.leave(step)
    left.begin("1", step)
    worker.begin(step.title, tmp_path / "1.json")
    with worker.task("rte: kd, seed 0") as update:
        for done in range(1, 6):
            update(done, 10)
            clock.now += 6
            display.show()
    lines = said.getvalue().splitlines()
    assert "about 1 min 54 s by the plan; now rte: kd, seed 0" in lines[0]
    assert lines[1].endswith("left; now rte: kd, seed 0")
    assert len([line for line in lines if "about" in line]) == 2, (
        "every fifteen seconds, not at each step"
    )
