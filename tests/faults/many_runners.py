"""Four runs on one folder of results, killed again and again: each cell is trained once."""

from __future__ import annotations

import random
import signal
import time
from pathlib import Path

import tiny
from forked import Child, Ended, Outcome
from kills import clear
from tiny_run import LIMIT_SECONDS, STATE_RARELY, Facts, Place, TinyRun, facts, finished, judge, left

RUNNERS, KILLS, SEEDS = 4, 20, 10
SHARE = 0.5
"""Of the unbroken run's time within which the kills fall."""
TIMES = 4
"""How many times the unbroken run's time all of it takes, about: that run, four on as many processors, and the last one."""


def of_cells(inputs: Path, seeds: int = SEEDS) -> TinyRun:
    """Two rows on two tasks with so many seeds: forty cells with ten; and two teachers."""
    rows = f"finetune:{tiny.SHAPE}:start=random,kd:{tiny.SHAPE}:start=random"
    return TinyRun(inputs, rows, "rte,sst2", ",".join(map(str, range(seeds))), STATE_RARELY)


def seeds_for(seconds: float, seconds_of_three: float) -> int:
    """How many seeds there is time for, from 1 to ten.

    Args:
        seconds_of_three: what a run of three records takes.
    """
    of_a_seed = seconds_of_three * 4 / 3
    return max(1, min(SEEDS, int(seconds / (TIMES * of_a_seed))))


def alone(run: TinyRun, work: Path) -> tuple[Facts, float]:
    """What one run leaves, and its seconds.

    Raises:
        RuntimeError: it does not end well.
    """
    place = Place(work / "alone")
    ended = run.whole(place, "run")
    if ended.code:
        raise RuntimeError(f"the run of forty cells failed: {ended.said[-2000:]}")
    return facts(place.results), ended.seconds


def killed(run: TinyRun, expected: Facts, seconds: float, work: Path, rng: random.Random, kills: int) -> Outcome:
    """Start four, kill one of them so many times and start it again; then let all end."""
    place = Place(work / "runners")
    outcome = Outcome(f"{RUNNERS} runners", happened=0)
    children: dict[int, Child] = {}
    ends: list[Ended] = []
    for number in range(RUNNERS):
        children[number] = run.begun(place, f"runner-{number}-0")
    while outcome.happened < kills and not all(child.is_over() for child in children.values()):
        time.sleep(rng.random() * 2 * SHARE * seconds / kills)
        number = rng.choice([number for number in children if not children[number].is_over()] or [0])
        child = children[number]
        if child.is_over():
            continue
        child.send(signal.SIGKILL)
        child.ended(LIMIT_SECONDS)
        outcome.happened += 1
        children[number] = run.begun(place, f"runner-{number}-{outcome.happened}")
    ends += [child.ended(LIMIT_SECONDS + 4 * seconds) for child in children.values()]
    for ended in ends:
        if ended.code or ended.hung or ended.has_traceback:
            kind = "hangs" if ended.hung else "tracebacks" if ended.has_traceback else "silent"
            outcome.wrong(kind, f"a runner that was not killed ended with {ended.code}: {ended.last_line}")
    outcome.left = left(place)
    before = finished(place.results)
    last = run.whole(place, "again")
    if "nothing to do" not in last.said:
        outcome.wrong("unfinished", "all runners ended, and the next run found something to do")
    judge(outcome, place, before, last, expected)
    clear(place, outcome)
    return outcome
