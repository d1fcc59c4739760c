"""What each stage of a training depends on: students whose first stages depend on the same train them once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bench.plan.scheduled_stages import COUNTED, PREPARATION, ScheduledStage, first_stages, schedule_stages
from bench.plan.spelling import MethodRow
from bench.record.keys import digest
from bench.record.recipe import Recipe
from methods.settings import values_of

if TYPE_CHECKING:
    from bench.plan.build import Planned
    from bench.plan.tasks import TaskPlan
    from methods.api import Method


def stage_keys(method: Method, schedule: Mapping[str, Sequence[ScheduledStage]]) -> tuple[str, ...]:
    """A key for each stage of a student, in their order, of all that a run does not give to every student alike.

    That is the method, its settings but those that it says the stage does not read, the terms, the recipe and the length.
    """
    return tuple(_key(method, series, scheduled) for series in (PREPARATION, COUNTED) for scheduled in schedule[series])


def _key(method: Method, series: str, scheduled: ScheduledStage) -> str:
    kind, name = type(method), scheduled.stage.name
    read = {
        setting: value
        for setting, value in values_of(method).items()
        if name not in method.independent_stages.get(setting, ())
    }
    what = [kind.__module__, kind.__qualname__, kind.version, read]
    return digest([*what, series, name, sorted(scheduled.terms), scheduled.recipe.as_dict(), scheduled.steps])


def leaders(students: Sequence[Sequence[str]]) -> dict[int, tuple[int, int]]:
    """For each student that has its first stages in common with an earlier one: the place of that one, and how many stages.

    Of several earlier ones, the one with which it has most in common; of those the first.

    Args:
        students: the stage keys of each.
    """
    found = {}
    for place, keys in enumerate(students):
        common = [_in_common(keys, earlier) for earlier in students[:place]]
        if most := max(common, default=0):
            found[place] = common.index(most), most
    return found


def _in_common(one: Sequence[str], other: Sequence[str]) -> int:
    """How many keys both begin with."""
    same = (a == b for a, b in zip(one, other, strict=False))
    return next((number for number, equal in enumerate(same) if not equal), min(len(one), len(other)))


@dataclass(frozen=True)
class SharedStart:
    """The first stages of a row, which another row of its group trains for both."""

    leader: str
    """label of that other row"""
    stages: tuple[str, ...]
    share: float
    """of the steps of its epochs"""


def shared_starts(group: Sequence[Planned], task: TaskPlan) -> dict[str, SharedStart]:
    """Key of a cell -> its shared start, of students of one task that train together."""
    methods = Counter(planned.cell.method for planned in group)
    several = [planned for planned in group if methods[planned.cell.method] > 1]  # another method shares nothing
    schedules = [_schedule(planned, task) for planned in several]
    found = {}
    for place, (leader, count) in leaders([_keys(*one) for one in zip(several, schedules, strict=True)]).items():
        first = first_stages(schedules[place], count)
        names = tuple(scheduled.stage.name for stages in first.values() for scheduled in stages)
        steps, whole = (sum(scheduled.steps for scheduled in one[COUNTED]) for one in (first, schedules[place]))
        found[several[place].key] = SharedStart(several[leader].cell.label, names, steps / whole)
    return found


def next_to_each_other(students: Sequence[Planned], task: TaskPlan) -> list[Planned]:
    """The students of one task in their order, but those that begin with the same stage follow the first of them."""
    methods = Counter(planned.cell.method for planned in students)
    beginnings: dict[str, list[Planned]] = {}
    for planned in students:
        alone = methods[planned.cell.method] == 1
        beginning = planned.key if alone else _keys(planned, _schedule(planned, task))[0]
        beginnings.setdefault(beginning, []).append(planned)
    return [planned for same in beginnings.values() for planned in same]


def _schedule(planned: Planned, task: TaskPlan) -> dict[str, list[ScheduledStage]]:
    from bench.plan.tasks import setup_of

    assert isinstance(planned.row, MethodRow), "groups have students alone"
    stages = planned.row.method.stages(setup_of([task], {}))
    scheduled = schedule_stages(stages, planned.cell.dropped, Recipe(**planned.cell.recipe), len(task.train))
    return dict(zip((PREPARATION, COUNTED), scheduled, strict=True))


def _keys(planned: Planned, schedule: Mapping[str, Sequence[ScheduledStage]]) -> tuple[str, ...]:
    assert isinstance(planned.row, MethodRow), "groups have students alone"
    return stage_keys(planned.row.method, schedule)
