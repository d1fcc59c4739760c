"""Fair search: the same number of trials for every method, over its declared grid, on training rows
held back.

The development set is not looked at before the end: trials are scored on a tenth of the training
rows, with a teacher that has not seen those either; then the best of each method is trained on all
of them and scored as usual.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from bench.data.own_tasks import expand, is_own, typed_tasks
from bench.errors import InputError
from bench.plan.build import build
from bench.plan.spelling import MethodRow, defaults, grid_of, parse_methods, parse_one, parse_rows
from bench.progress import Progress
from bench.record.cell import PLUS_INT8, TOO_FEW, Search, Trial
from bench.record.schema import Record
from bench.record.store import Store
from bench.record.task_facts import shown_tasks
from bench.request import Request
from bench.request.choices import PACE
from bench.run import Outcome
from bench.stats.power import least_gap
from bench.user_files import comma_separated
from bench.workflows.run import joined, run

NOT_SEARCHED = "a student of several tasks is not searched for"
PACES = (0.2, 0.3, 0.5, 1.0, 2.0, 3.0)
"""What every method's learning rate may be multiplied with."""


def trials_of(row: MethodRow, count: int, settings: Collection[str] = ()) -> list[MethodRow]:
    """The row as it is typed, then others of its grid, drawn once for each method; settings that
    differ from their defaults stay.

    Args:
        settings: those that may vary, with :data:`PACE` for the learning rate; all of the grid if
            none is named.

    Raises:
        InputError: the grid has fewer points.
    """
    axes = _axes(row, settings)
    points = [dict(zip(axes, values, strict=True)) for values in itertools.product(*axes.values())]
    trials = {row.spelling: row}
    for index in np.random.default_rng(0).permutation(len(points)):
        if len(trials) == count:
            break
        parts = [f"{name}={value}" for name, value in points[index].items()]
        other = parse_one(":".join([row.spelling, *parts]))
        trials.setdefault(other.spelling, other)
    if len(trials) < count:
        what = "offers none of these settings, or has them typed"
        if axes:
            what = f"varies {', '.join(axes)} alone"
        raise InputError(
            f"--trials {count}: {row.spelling} {what}, so that --trials can be at most "
            f"{len(trials)}"
        )
    return list(trials.values())


def _axes(row: MethodRow, settings: Collection[str]) -> dict[str, tuple[Any, ...]]:
    """What a search may vary in a row -> the values."""
    default = defaults(type(row.method))
    free = {
        name: values
        for name, values in grid_of(row.method).items()
        if vars(row.method)[name] == default[name]
    }
    axes = {PACE: PACES, **free} if row.pace == 1.0 else free
    return {name: values for name, values in axes.items() if name in settings or not settings}


Trials = dict[tuple[str, str], Record | None]
"""Task and spelling of each trial -> its record."""


@dataclass(frozen=True)
class SearchOutcome:
    """The outcome of one row's search on one task."""

    task: str
    row: str
    """spelling of the best trial"""
    search: Search

    def of_one_seed(self) -> SearchOutcome:
        """The same, where each seed has a search of its own."""
        return replace(self, search=self.search.model_copy(update={"each_seed": True}))


@dataclass(frozen=True)
class SearchSpace:
    """What a search tries."""

    rows: list[MethodRow]
    settings: tuple[str, ...]
    """the settings that vary; () for all that the rows offer"""
    trials: dict[str, list[MethodRow]]
    """spelling of a row -> its trials"""


def what_to_try(request: Request, trials: int, settings: str, progress: Progress) -> SearchSpace:
    """The rows of a search, the settings that it varies, and the trials of each row.

    Args:
        settings: as they are typed; "" for all.

    Raises:
        InputError: a request, a row or a setting that cannot be searched.
    """
    _refuse_request(request, trials)
    rows = []
    for row in parse_methods(request.methods):
        if not row.method.multitask:
            rows.append(row)
        elif row.from_all:
            progress.say(f"{row.spelling} is left out of `--methods all`: {NOT_SEARCHED}")
        else:
            raise InputError(f"{row.spelling}: {NOT_SEARCHED}; leave it out")
    # trials are named: what a teacher does not allow has to be left out before
    if any(row.from_all for row in rows):
        planned = {cell.spelling for cell in build(replace(request, held_back=True)).cells}
        rows = [row for row in rows if row.spelling in planned or not row.from_all]

    varied = tuple(sorted(set(comma_separated(settings))))
    offered = {PACE}.union(*(grid_of(row.method) for row in rows))
    for name in varied:
        if name not in offered:
            raise InputError(
                f"--search {name}: no row offers it; a search may vary {', '.join(sorted(offered))}"
            )
    return SearchSpace(rows, varied, {row.spelling: trials_of(row, trials, varied) for row in rows})


def _refuse_request(request: Request, trials: int) -> None:
    """Raises InputError: options or rows that do not go with a search."""
    if trials < 2:
        raise InputError(f"--trials {trials}: a search needs at least 2")
    if request.recipe != "common":
        raise InputError(
            "a search goes with --recipe common: each paper's schedule has its own learning rate"
        )
    if request.checkpoint != "last":
        raise InputError(
            "a search goes with --checkpoint last: the held-out examples choose the settings "
            "already"
        )
    named = parse_rows(request.methods)
    if named.given or named.in_8_bits:
        rounded = [row + PLUS_INT8 for row in sorted(named.in_8_bits)]
        left = ", ".join([*named.given, *rounded])
        raise InputError(f"a search is for rows that are trained: leave out {left}")


def request_of_trials(request: Request, space: SearchSpace, draw: int = 0) -> Request:
    """All trials with the smallest seed, scored on training rows that are held back.

    Args:
        draw: which tenth of them.
    """
    every = dict.fromkeys(trial.spelling for trials in space.trials.values() for trial in trials)
    return replace(
        request,
        methods=",".join(every),
        seeds=(min(request.seeds),),
        held_back=True,
        held_back_draw=draw,
    )


def tune(
    request: Request,
    trials: int,
    settings: str = "",
    progress: Progress | None = None,
    confirm: Any = None,
    searches: int = 1,
) -> tuple[list[SearchOutcome], Outcome]:
    """Search with the smallest seed, then train the best of each row on every training row, with
    all seeds, and report it as the best of so many.

    A row whose trials all failed on a task is left out there; the failures are in the outcome.

    Args:
        settings: those that are searched, as they are typed; "" for all that the methods offer.
        searches: 1, one for all seeds; or as many as there are seeds. Then each seed of the result
            has a search with this seed and another held-out tenth, so that the spread over seeds
            has the chance of the search.

    Raises:
        InputError: bad input; nothing was started.
    """
    progress = progress or Progress()
    request = request.checked()
    if searches not in (1, len(request.seeds)):
        raise InputError(
            f"--searches {searches}: give 1, or {len(request.seeds)}: one for each of --seeds"
        )
    space = what_to_try(request, trials, settings, progress)
    if searches == 1:
        return _searched(request, space, None, progress, confirm)
    chosen: list[SearchOutcome] = []
    outcomes: list[Outcome] = []
    for seed in sorted(request.seeds):
        # of seed 0 it is the search that one search for all seeds is
        of_seed = replace(request, seeds=(seed,))
        found, outcome = _searched(of_seed, space, seed, progress, confirm)
        chosen += found
        outcomes.append(outcome)
    return chosen, joined(outcomes)


def _searched(
    request: Request, space: SearchSpace, draw: int | None, progress: Progress, confirm: Any
) -> tuple[list[SearchOutcome], Outcome]:
    """One search with the smallest seed, and the trainings of what it chose with all seeds.

    Args:
        draw: which tenth is held back, where each seed has a search of its own; else None.
    """
    # the trials, and what their held-out examples can tell
    searching = run(request_of_trials(request, space, draw or 0), progress, confirm)
    store = Store(request.results)
    records: Trials = {}
    scored: dict[str, Record] = {}
    for planned in searching.plan.cells:
        task = planned.cell.tasks[0]
        record = store.find(planned.cell)
        records[task, planned.spelling] = record
        if record is not None:
            scored[task] = record
    for record in scored.values():
        sentence = _what_they_tell(record)
        if sentence:
            progress.say(f"{shown_tasks(record.cell)}: {sentence}")

    # the best trial of each row on each task, trained on all rows
    chosen = []
    outcomes = [searching]
    for task, typed in _tasks_as_typed(request).items():
        best = []
        for row in space.rows:
            choice = _best(task, row, space, records, min(request.seeds))
            # a row without a best trial failed in all of them; a task without a row is not in the
            # source, as the plan said
            if choice is not None:
                best.append(choice if draw is None else choice.of_one_seed())
        chosen += best
        for final in _requests_of_best(replace(request, tasks=typed), best):
            outcomes.append(run(final, progress, confirm))
    return chosen, joined(outcomes)


def _tasks_as_typed(request: Request) -> dict[str, str]:
    """Name of each task -> how to type it: a task of the user's by its file."""
    typed = {}
    for part in typed_tasks(request.tasks):
        for task, _ in expand(part):
            typed[task.name] = part if is_own(part) else task.name
    return typed


def _requests_of_best(request: Request, best: list[SearchOutcome]) -> list[Request]:
    """The requests that train the best trials.

    A run has one search for each row: of searches with the same best trial, each has a run of its
    own.
    """
    requests = []
    left = best
    while left:
        searches = {choice.row: choice.search for choice in left}
        left = [choice for choice in left if searches[choice.row] is not choice.search]
        methods = ",".join(searches)
        requests.append(replace(request, methods=methods, searches=tuple(searches.items())))
    return requests


def _what_they_tell(trial: Record) -> str:
    """Which differences the held-out examples can tell from chance; "" where it is not known."""
    examples = trial.cell.data.rows["held-back"]
    gap = least_gap(examples)
    if gap is None:
        return f"{examples:,} examples, {TOO_FEW}; the choice between trials may be chance"
    if trial.task.metrics[:1] != ("accuracy",):
        return ""  # the least difference is one of accuracies
    return (
        f"the trials' {examples:,} held-out examples hardly tell differences below "
        f"{100 * gap:.0f} points from chance"
    )


def _best(
    task: str, row: MethodRow, space: SearchSpace, records: Trials, seed: int
) -> SearchOutcome | None:
    """The trial of the highest score; of equal ones the first tried. None if none has a score."""
    scored: list[Trial] = []
    metric = ""
    held_back = ""
    examples = 0
    for trial in space.trials[row.spelling]:
        record = records.get((task, trial.spelling))
        scores = record.scores.get("held-back", {}) if record is not None else {}
        if record is not None and scores:
            metric = next(iter(scores))
            held_back = record.cell.data.evaluation["held-back"]
            examples = record.cell.data.rows["held-back"]
        value = round(100 * scores[metric], 4) if scores else None
        scored.append(Trial(row=trial.spelling, score=value))
    if all(trial.score is None for trial in scored):
        return None
    varied = tuple(sorted(_axes(row, space.settings))) if space.settings else ()
    search = Search(
        of=row.spelling,
        metric=metric,
        held_back=held_back,
        trials=tuple(scored),
        settings=varied,
        seed=seed,
        examples=examples,
        too_few=least_gap(examples) is None,
    )
    return SearchOutcome(task, search.best.row, search)
