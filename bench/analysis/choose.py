"""The best row within limits: what fits, which limit binds, and how surely the best one is the best.

:func:`choose` returns frozen answers; :mod:`bench.analysis.choice_in_words` prints them.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType

import numpy as np

from bench.data.own_tasks import recorded_tasks
from bench.errors import InputError, NothingMeasured
from bench.plan.from_record import is_own, source_options, typed_task
from bench.record.cell import (
    CHECKPOINT,
    FINISHED,
    LINEAR_IN_8_BITS,
    LINEAR_ONLY,
    ONNX_INT8,
    PLUS_INT8,
    POINTS_IN_8_BITS,
    TEACHER,
)
from bench.record.rescored import NO_ANSWERS, scored_alike, scored_first_by
from bench.record.schema import Sizes
from bench.record.speed_sessions import speed_records
from bench.record.store import Store
from bench.record.task_facts import recorded_names
from bench.report.comparison import (
    NOT_SIGNIFICANT,
    TOO_FEW_SEEDS,
    columns_of_noise,
    error_of_p,
    mean_of_rows,
    verdict_of,
    within_margin,
)
from bench.report.frame import nothing_in, teachers_of
from bench.report.groups import ReportGroup, ScoreColumn, groups
from bench.report.resampled import (
    Faults,
    Resampled,
    Stored,
    faults_of,
    faults_of_all,
    resampled,
    rng_for,
    seeds_in_words,
    stored_answers,
)
from bench.report.tables.retention import (
    Share,
    ends_of,
    mean_share,
    recorded_teachers,
    share_of,
)
from bench.report.write import add_speed
from bench.stats.distribution import Distribution
from bench.stats.form import CLASSES
from bench.stats.metrics import metric_of
from bench.stats.own_metrics import named_metrics

PARAMETERS, MEGABYTES, FLOPS = "parameters", "megabytes", "flops"
LATENCY, RETAINED = "latency", "retained"


@dataclass(frozen=True)
class Limit:
    """A limit that may be set.

    Attributes:
        option: how it is typed.
        unit: behind its number.
        field: of :class:`Candidate`, the value that is compared.
        is_least: whether it is the least that a row may have; else it is the most.
    """

    option: str
    unit: str
    field: str
    is_least: bool = False

    def allows(self, cost: float | None, value: float) -> bool:
        """Whether a row of this cost is within the limit; one that was not measured is not."""
        if cost is None:
            return False
        return cost >= value if self.is_least else cost <= value


LIMITS: Mapping[str, Limit] = MappingProxyType(
    {
        PARAMETERS: Limit("--max-params", "M parameters", PARAMETERS),
        MEGABYTES: Limit("--max-mb", "MB", MEGABYTES),
        FLOPS: Limit("--max-flops", "G FLOPs", FLOPS),
        LATENCY: Limit("--max-latency", "ms", LATENCY),
        RETAINED: Limit("--min-retain", "% retention", "retained_low", is_least=True),
    }
)
"""What may have a limit. FLOPs are of one sequence of 128 tokens, latency is the median under a
session's main conditions. Of what is retained the lower end of the 95 % interval is compared."""
EXACT = 9
"""Decimals of a score that tell two rows apart."""
OF_FEWER_BITS = frozenset({MEGABYTES, LATENCY})
"""The limits that a row in 8 bits may meet where the same row in fp32 does not."""


@dataclass(frozen=True)
class Candidate:
    """A row with its score and costs; those of several tasks are of the dearest one.

    Attributes:
        label: the row, as it is typed.
        score: its mean over the columns, in percent.
        parameters: in millions.
        megabytes: of its file.
        flops: G FLOPs of one sequence of 128 tokens.
        latency: median milliseconds of a batch; None where it was not timed.
        retained, retained_low, retained_high: the mean retention in percent and its 95 % interval,
            as a report has them; None without a sound score of the teacher in every column.
        changed: percent of its predictions that differ from its own teacher's.
        suspect: sentences on what is suspect of some classes alone; such a row stays a candidate.
        stands_in_for: the fp32 row in whose place this row in 8 bits fits; "" for none.
        probability: the share of draws of examples and trainings in which its mean is the highest
            of the rows that fit; None without verdicts.
        low, high: the 95 % interval of its difference to the row of the highest mean, in points.
        p, verdict: of one test of that difference, as in a report and in ``compare``; None and ""
            without verdicts.
        is_within: whether that difference is shown to be within the margin of
            :mod:`bench.stats.equivalence`; never without verdicts.
    """

    label: str
    score: float
    parameters: float | None = None
    megabytes: float | None = None
    flops: float | None = None
    latency: float | None = None
    retained: float | None = None
    retained_low: float | None = None
    retained_high: float | None = None
    changed: float | None = None
    suspect: tuple[str, ...] = ()
    stands_in_for: str = ""
    probability: float | None = 1.0
    low: float = 0.0
    high: float = 0.0
    p: float | None = 1.0
    verdict: str = NOT_SIGNIFICANT
    is_within: bool = True

    def cost(self, name: str) -> float | None:
        """What the limit of this name of :data:`LIMITS` compares."""
        value: float | None = getattr(self, LIMITS[name].field)
        return value


@dataclass(frozen=True)
class BoundLimit:
    """A limit that alone leaves out a row, which scores more than all that fits.

    Attributes:
        name: of :data:`LIMITS`.
        option, unit: how it is typed, and the unit of ``needs``.
        row: the row that it leaves out.
        needs: the limit that would let the row in.
        gain: what the row scores more than the chosen one, in points; None where nothing fits.
        low, high: the 95 % interval of the gain.
    """

    name: str
    option: str
    unit: str
    row: str
    needs: float
    gain: float | None = None
    low: float | None = None
    high: float | None = None

    @property
    def is_gain(self) -> bool:
        """Whether the row is shown to score more."""
        return self.low is not None and self.low > 0


@dataclass(frozen=True)
class Choice:
    """The answer for one table of records.

    Attributes:
        group, columns: the table, and its columns that the mean is of.
        limits: name of :data:`LIMITS` -> its value; those that were set.
        candidates: what fits, the best first.
        reasons: why the chosen row is chosen, in words; empty where nothing fits.
        near: the best candidate and those that are shown to be within the margin of it, the
            cheapest first; none without verdicts.
        all_rows: every row with a score in all columns, whether it fits or not.
        left_out: row -> why it is no candidate.
        bound: the limits that alone leave out a better row: for each the nearest row, and behind
            it the best one where that is another.
        export: commands that export the chosen row, one a task: of its seeds the best there.
        no_verdict: why no row is tested or called the best; "" where one is.
    """

    group: ReportGroup
    columns: tuple[ScoreColumn, ...]
    limits: Mapping[str, float]
    candidates: tuple[Candidate, ...]
    reasons: tuple[str, ...]
    near: tuple[Candidate, ...]
    all_rows: tuple[Candidate, ...]
    left_out: Mapping[str, str]
    bound: tuple[BoundLimit, ...]
    export: tuple[str, ...]
    no_verdict: str = ""

    @property
    def chosen(self) -> Candidate | None:
        """The row with the highest mean of what fits."""
        return self.candidates[0] if self.candidates else None

    @property
    def cheapest(self) -> Candidate | None:
        """The cheapest row of the chosen one and those that are shown to be near it; None without
        verdicts."""
        return self.near[0] if self.near else None

    @property
    def busy_cores(self) -> float:
        """Cores that other processes used while latencies were measured; 0 on an idle machine."""
        return self.group.speed_others


def choose(
    results: Path,
    budget: Mapping[str, float | None],
    tasks: Sequence[str] = (),
    backend: str = "",
    threads: int = 0,
    metric: str | Sequence[str] = (),
) -> list[Choice]:
    """A choice for each table that has all the tasks (none named: its columns but those of noise).

    Args:
        budget: values of :data:`LIMITS` by their names; without one, or None: no limit.
        backend, threads: of the latencies; by default those that a session measured first.
        metric: that scores the tasks: its name, or ``MODULE:NAME`` of one in a file of the user's.
            Of several it is the first one that suits a task. By default it is that of each task.

    Raises:
        InputError: no such limit, a limit out of its range, or no such task: neither in the
            records nor in GLUE. Also: a metric that does not suit a task.
        NothingMeasured: no table has all of them.
    """
    limits = checked_limits(budget)
    metrics = named_metrics(metric)
    store = Store(results)
    sessions = list(speed_records(store.root, store.note))
    records = scored_alike(store.records(), store)
    choices: list[Choice] = []
    if not records:
        raise NothingMeasured(nothing_in(store.root))
    recorded = recorded_names(record.cell for record in records)
    tasks = recorded_tasks(tasks, recorded, results)
    records = scored_first_by(records, metrics, store, tasks)
    for group in groups(records):
        # a mean over what nobody named leaves out the columns that a report's does
        group.left_out_of_means = [] if tasks else columns_of_noise(group, store)
        columns = [c for c in group.averaged if not tasks or {c.task, c.shown}.intersection(tasks)]
        met = {name for column in columns for name in (column.task, column.shown)}
        if columns and met.issuperset(tasks):
            add_speed(group, sessions, backend, threads)
            choices.append(choice_of(group, columns, limits, store))
    if not choices:
        wanted = f" with {', '.join(tasks)}" if tasks else ""
        raise NothingMeasured(
            f"no table of records{wanted} in {results}; `report` shows what there is"
        )
    return choices


def checked_limits(budget: Mapping[str, float | None]) -> dict[str, float]:
    """The limits that were set.

    Raises:
        InputError: no such limit, or one out of its range.
    """
    limits: dict[str, float] = {}
    for name, value in budget.items():
        if name not in LIMITS:
            raise InputError(f"no limit {name!r}; there are: {', '.join(LIMITS)}")
        if value is None:
            continue
        option = LIMITS[name].option
        if not value > 0:
            raise InputError(f"{option} {value:g}: should be above 0")
        if name == RETAINED and value <= 1:
            raise InputError(f"{option} {value:g}: is in percent, like 95")
        if name == RETAINED and value > 100:
            raise InputError(f"{option} {value:g}: no row is asked for a retention above 100 %")
        limits[name] = value
    return limits


@dataclass(frozen=True)
class _Evidence:
    """What is known of a table before its rows are judged.

    Attributes:
        answers: of each column, resampled: of the rows whose answers are all stored.
        unsound: the columns in which the teacher has no sound score above 0.
    """

    group: ReportGroup
    columns: tuple[ScoreColumn, ...]
    stored: Stored
    faults: Faults
    answers: Mapping[ScoreColumn, Resampled]
    unsound: tuple[str, ...]

    def score(self, label: str) -> float:
        """The mean of a row over the columns, in percent."""
        return float(np.mean([self.group.summaries[label, c].mean for c in self.columns]))

    def mean(self, *rows: str) -> Distribution | None:
        """As :func:`mean_of_rows`."""
        return mean_of_rows(self.group, self.answers, self.columns, *rows)


@dataclass(frozen=True)
class _Judged:
    """A row before the choice.

    Attributes:
        row: None where it has no score in some column.
        over: names of the limits that leave it out.
        fault: what else speaks against it; "" for nothing.
    """

    label: str
    row: Candidate | None
    over: tuple[str, ...]
    fault: str

    @property
    def fits(self) -> bool:
        return self.row is not None and not self.over and not self.fault


def choice_of(
    group: ReportGroup, columns: Sequence[ScoreColumn], limits: Mapping[str, float], store: Store
) -> Choice:
    """The choice among the rows of one table, whose latencies are known (:func:`add_speed`)."""
    evidence = _evidence(group, columns, store)
    judged = [_judged(evidence, label, limits) for label in _typed_rows(group)]
    fitting = [_standing_in(each.row, judged) for each in judged if each.row and each.fits]

    # the best first; of equal ones the fp32 row, whose name is the shorter one. Means of equal
    # predictions may differ in their last digits
    fitting.sort(key=lambda row: (-round(row.score, EXACT), row.label))
    candidates = _compared_with_best(evidence, fitting)
    no_verdict = group.no_verdict_in(columns)
    if no_verdict:
        candidates = [
            replace(row, probability=None, p=None, verdict="", is_within=False)
            for row in candidates
        ]
    near = [row for row in candidates if row.is_within]
    export = _exports(group, columns, candidates[0].label, store) if candidates else []
    return Choice(
        group=group,
        columns=tuple(columns),
        limits=MappingProxyType(dict(limits)),
        candidates=tuple(candidates),
        reasons=_reasons(candidates, judged),
        near=tuple(sorted(near, key=cheapness)),
        all_rows=tuple(each.row for each in judged if each.row is not None),
        left_out=MappingProxyType(_left_out(evidence, judged, candidates)),
        bound=tuple(_bound_limits(evidence, candidates, judged, limits)),
        export=tuple(export),
        no_verdict=no_verdict,
    )


def _typed_rows(group: ReportGroup) -> list[str]:
    """The rows but those that ``:ablate`` made; the teacher is one of them."""
    return [
        label
        for label in group.systems
        if not all(record.cell.ablation_of for record in group.records_of(label))
    ]


def _evidence(group: ReportGroup, columns: Sequence[ScoreColumn], store: Store) -> _Evidence:
    stored = stored_answers(group, store)
    faults = faults_of(group, stored)
    unsound = [
        c.name
        for c in columns
        if (TEACHER, c) not in group.summaries
        or faults_of_all(faults, (TEACHER, c))
        or group.summaries[TEACHER, c].mean <= 0
    ]

    # the same drawn examples for every row, so that differences and shares are paired
    answers = {}
    for column in columns:
        done = [r for label in group.systems for r in group.finished(label, column)]
        known = [(record, stored[record.key]) for record in done if record.key in stored]
        if known:
            answers[column] = resampled(column, known)
    return _Evidence(
        group, tuple(columns), stored, faults, MappingProxyType(answers), tuple(unsound)
    )


def _judged(evidence: _Evidence, label: str, limits: Mapping[str, float]) -> _Judged:
    """A row with its costs, the limits that it is over, and what else speaks against it."""
    group = evidence.group
    absent = [c.name for c in evidence.columns if (label, c) not in group.summaries]
    if absent:
        why = f"no score on {', '.join(absent)}{_why_absent(group, label)}"
        return _Judged(label, None, (), why)
    row = _candidate(evidence, label)
    over = [
        name
        for name, limit in LIMITS.items()
        if name in limits and not limit.allows(row.cost(name), limits[name])
    ]
    return _Judged(label, row, tuple(over), _fault(evidence, label))


def _candidate(evidence: _Evidence, label: str) -> Candidate:
    """A row with its score and its costs, before it is compared with others."""
    group = evidence.group
    models = [r.sizes for c in evidence.columns for r in group.records_of(label, c.task) if r.sizes]
    score = evidence.score(label)
    retained, low, high = _retained(evidence, label) or (None, None, None)
    in_8_bits = label.endswith(PLUS_INT8)
    return Candidate(
        label=label,
        score=score,
        parameters=max((s.parameters / 1e6 for s in models), default=None),
        megabytes=_megabytes(models, group.speed_backend, in_8_bits),
        flops=max((s.flops / 1e9 for s in models), default=None),
        latency=group.latencies.get(label),
        retained=retained,
        retained_low=low,
        retained_high=high,
        changed=_changed(evidence, label),
        suspect=_partly_suspect(evidence, label),
    )


def _megabytes(models: Sequence[Sizes], backend: str, in_8_bits: bool) -> float | None:
    """Megabytes of the file that a backend opens.

    An ONNX graph has weights of few bits as fp32, and only a row in 8 bits has a graph in 8 bits.
    """
    if in_8_bits or not backend.startswith("onnx"):
        return max((sizes.megabytes for sizes in models), default=None)
    if backend == "onnx":
        return max((4e-6 * sizes.parameters for sizes in models), default=None)
    return None


def _retained(evidence: _Evidence, label: str) -> tuple[float, float, float] | None:
    """The mean retention of a row in percent, as a report has it, and its 95 % interval.

    None without a sound teacher, or where answers of one of the two are not stored.
    """
    if evidence.unsound:
        return None
    if label == TEACHER:
        return 100.0, 100.0, 100.0
    shares: list[Share] = []
    for column in evidence.columns:
        data = evidence.answers.get(column)
        teacher, own = (evidence.group.finished(row, column) for row in (TEACHER, label))
        if data is None or not data.has(teacher) or not data.has(own):
            return None
        # another training of the teacher stands for it
        taught_by = teachers_of(own, teacher) or teacher[:1]
        teachers = recorded_teachers(data, taught_by)
        if any(each.score <= 0 for each in teachers):
            return None
        shares.append(share_of(data, own, teachers))
    return mean_share(shares), *ends_of(shares)


def _changed(evidence: _Evidence, label: str) -> float | None:
    """Percent of a row's predictions that differ from its own teacher's, where both are stored."""
    group = evidence.group
    stored = evidence.stored
    shares = []
    for column in evidence.columns:
        theirs = group.finished(TEACHER, column)
        students = group.finished(label, column)
        if metric_of(column.metric).form is not CLASSES or not theirs:
            continue
        if not all(record.key in stored for record in [*theirs, *students]):
            continue
        taught_by = teachers_of(students, theirs)
        if not taught_by:
            continue
        logits = f"logits.{column.evaluation}"
        teachers = [stored[teacher.key][logits].argmax(1) for teacher in taught_by]
        others = [stored[student.key][logits].argmax(1) for student in students]
        shares.append(np.mean(np.stack(teachers) != np.stack(others)))
    return 100 * float(np.mean(shares)) if shares else None


def _fault(evidence: _Evidence, label: str) -> str:
    """Why a row is no candidate whatever the limits are; "" where nothing speaks against it."""
    group = evidence.group
    if any(record.point == LINEAR_IN_8_BITS for record in group.records_of(label)):
        return f"{LINEAR_ONLY}; run it again"
    mute = [
        c.name
        for c in evidence.columns
        if not all(record.key in evidence.stored for record in group.finished(label, c))
    ]
    if mute:
        return f"its answers on {', '.join(mute)} are not stored; run it again with --rerun"
    wrong: list[str] = []
    for column in evidence.columns:
        wrong += _wrong_answers(evidence, label, column)
    return "; ".join(wrong)


def _wrong_answers(evidence: _Evidence, label: str, column: ScoreColumn) -> list[str]:
    """What is wrong with a row's answers to a column.

    One seed with constant or permuted answers is enough. A low score counts where the row's mean
    is no better than a constant predictor: by chance a seed of a sound row may be below it.
    """
    mean = evidence.group.summaries[label, column].mean
    wrong = []
    for what, of_seeds in faults_of_all(evidence.faults, (label, column)).items():
        known = (s.baseline for s in of_seeds.values() if s.baseline is not None)
        if mean <= 100 * next(known, np.inf):
            text = f"{column.name}: {what}, {seeds_in_words(of_seeds)}"
            has_figures = any(s.figure for s in of_seeds.values())
            wrong.append(f"{text}; mean {mean:.1f}" if has_figures else text)
    return wrong


def _partly_suspect(evidence: _Evidence, label: str) -> tuple[str, ...]:
    """What is suspect of some classes alone, which leaves a row a candidate."""
    said = []
    for column in evidence.columns:
        of_all = faults_of_all(evidence.faults, (label, column))
        for what, of_seed in evidence.faults.get((label, column), {}).items():
            if what not in of_all:
                said.append(f"{column.name}: {what}, {seeds_in_words(of_seed)}")
    return tuple(said)


def _why_absent(group: ReportGroup, label: str) -> str:
    """Why a finished row has no score, behind a semicolon; "" where it is not finished."""
    is_lost = any(r.status == "ok" and not r.scores for r in group.records_of(label))
    return f"; {NO_ANSWERS}" if is_lost else ""


def _standing_in(row: Candidate, judged: Sequence[_Judged]) -> Candidate:
    """A row in 8 bits that fits, with the fp32 row that only its size or time leaves out."""
    full = row.label.removesuffix(PLUS_INT8)
    if full == row.label:
        return row
    for each in judged:
        if each.label == full and each.over and OF_FEWER_BITS.issuperset(each.over):
            return replace(row, stands_in_for=full)
    return row


def _left_out(
    evidence: _Evidence, judged: Sequence[_Judged], candidates: Sequence[Candidate]
) -> dict[str, str]:
    """Row -> why it is no candidate, and which row in 8 bits is in its place."""
    replaced = {row.stands_in_for: row.label for row in candidates if row.stands_in_for}
    left_out = {}
    for each in judged:
        if each.fits:
            continue
        why = each.fault
        if each.row is not None and each.over:
            why = _why_over(evidence, each.row, each.over[0])
        if each.label in replaced:
            why += f"; {evidence.group.called(replaced[each.label])} stands in for it"
        left_out[each.label] = why
    return left_out


def _why_over(evidence: _Evidence, row: Candidate, name: str) -> str:
    """Why a limit leaves out a row."""
    cost = row.cost(name)
    if cost is not None:
        return stated(name, cost)
    if name == RETAINED and evidence.unsound:
        return f"the teacher has no sound score on {', '.join(evidence.unsound)}"
    if name == RETAINED:
        return "its retention is not known: answers are not stored"
    return "not timed" if name == LATENCY else f"{name} not measured"


def stated(name: str, cost: float) -> str:
    """What a row needs or keeps, rounded to a limit that it keeps within.

    Rounded otherwise, a limit that it misses could look met.
    """
    limit = LIMITS[name]
    # 100 * 1.1 is above 110
    hundredths = round(100 * cost, 8)
    if limit.is_least:
        return f"keeps at least {np.floor(hundredths) / 100:.2f} {limit.unit}"
    return f"needs {np.ceil(hundredths) / 100:.2f} {limit.unit}"


def _compared_with_best(evidence: _Evidence, fitting: Sequence[Candidate]) -> list[Candidate]:
    """The rows with their tests against the first one, and their probabilities of being the best."""
    if len(fitting) < 2:
        return list(fitting)
    best = fitting[0].label

    # the share of draws in which a row's mean is the highest: the same drawn examples for all
    # rows, and trainings that are each row's own
    mean_FR = np.stack(
        [
            mean.draws(rng_for(evidence.columns, "score", row.label))
            for row in fitting
            if (mean := evidence.mean(row.label)) is not None
        ]
    )
    # equal means share a draw
    first_FR = np.isclose(mean_FR, mean_FR.max(0), rtol=0, atol=1e-9)
    shares = (first_FR / first_FR.sum(0)).mean(1)

    candidates = []
    for row, share in zip(fitting, shares, strict=True):
        row = replace(row, probability=float(share))
        drawn = None if row.label == best else evidence.mean(row.label, best)
        if drawn is not None:
            low, high = drawn.interval()
            p = drawn.p()
            verdict = verdict_of(-1.0, p, p, error_of_p(drawn))
            if evidence.group.has_seeds_apart((row.label, best), evidence.columns):
                verdict = TOO_FEW_SEEDS
            near = within_margin(evidence.group, evidence.columns, drawn, row.label, best)
            row = replace(row, low=low, high=high, p=p, verdict=verdict, is_within=near)
        candidates.append(row)
    return candidates


def cheapness(row: Candidate) -> tuple[float, ...]:
    """The order of rows that are near the best: the cheapest first, in FLOPs, then in parameters,
    then in megabytes.

    Latency is no part of it: models of one shape differ in it by chance.
    """
    sizes = (row.flops, row.parameters, row.megabytes)
    return (*(round(size or np.inf, 2) for size in sizes), -row.score)


def _reasons(candidates: Sequence[Candidate], judged: Sequence[_Judged]) -> tuple[str, ...]:
    """Why the first candidate is chosen."""
    if not candidates:
        return ()
    best = candidates[0]
    several = f"the highest mean of {len(candidates)} rows that fit"
    reasons = [several if len(candidates) > 1 else "the one row that fits"]
    for each in judged:
        if each.row is not None and each.label == best.stands_in_for:
            needs = [
                stated(name, cost)
                for name in each.over
                if (cost := each.row.cost(name)) is not None
            ]
            which = f", which {' and '.join(needs)}" if needs else ""
            reasons.append(f"it stands in for {best.stands_in_for}{which}")
    return tuple(reasons)


def _bound_limits(
    evidence: _Evidence,
    candidates: Sequence[Candidate],
    judged: Sequence[_Judged],
    limits: Mapping[str, float],
) -> list[BoundLimit]:
    """The limits that alone leave out a row which scores more than all that fits.

    Each limit has its nearest such row, which needs the least more; of equal ones that of the
    higher score. Behind it stands the best such row, if that scores more. Where nothing fits,
    each limit has the nearest row. An fp32 row in whose place its row in 8 bits fits is named
    only if it is shown to score more.
    """
    best = candidates[0] if candidates else None
    replaced = {row.stands_in_for for row in candidates if row.stands_in_for}
    bound = []
    is_judged = not evidence.group.no_verdict_in(evidence.columns)
    for name, limit in limits.items():
        outside = _left_out_by(name, limit, judged, best)
        rows = [_bound_limit(evidence, name, row, best) for row in outside]
        rows = [row for row in rows if row.row not in replaced or (is_judged and row.is_gain)]
        nearest = rows[:1]
        highest = max(rows, key=lambda r: r.gain or 0.0, default=None)
        if best is not None and highest is not None and highest.gain != nearest[0].gain:
            nearest.append(highest)
        bound += nearest
    return bound


def _left_out_by(
    name: str, limit: float, judged: Sequence[_Judged], best: Candidate | None
) -> list[Candidate]:
    """The rows that one limit alone leaves out and that score more than the best of what fits, the
    nearest first."""
    outside: list[tuple[float, Candidate]] = []
    for each in judged:
        row = each.row
        cost = row.cost(name) if row is not None else None
        if row is None or cost is None or each.over != (name,) or each.fault:
            continue
        if best is None or round(row.score - best.score, EXACT) > 0:
            outside.append((abs(cost - limit), row))
    outside.sort(key=lambda pair: (pair[0], -pair[1].score, pair[1].label))
    return [row for _, row in outside]


def _bound_limit(
    evidence: _Evidence, name: str, row: Candidate, best: Candidate | None
) -> BoundLimit:
    """A limit, with a row that it alone leaves out and what that row would gain."""
    limit = LIMITS[name]
    known = BoundLimit(name, limit.option, limit.unit, row.label, row.cost(name) or 0.0)
    if best is None:
        return known
    known = replace(known, gain=row.score - best.score)
    drawn = evidence.mean(row.label, best.label)
    if drawn is None:
        return known
    low, high = drawn.interval()
    return replace(known, low=low, high=high)


def _exports(
    group: ReportGroup, columns: Sequence[ScoreColumn], label: str, store: Store
) -> list[str]:
    """One command for each task; a finished checkpoint is a folder already, and has one in 8 bits
    alone; predictions have none."""
    commands = list[str]()
    # of two sets of a task the first
    for column in {c.task: c for c in reversed(columns)}.values():
        record = max(
            group.finished(label, column), key=lambda r: r.scores[column.evaluation][column.metric]
        )
        cell = record.cell
        if cell.method not in FINISHED or record.point in POINTS_IN_8_BITS:
            words = ["export", record.key[:16], "--to", f"{cell.method}-{column.task}"]
            words += ["--results", str(store.root)]
            if is_own(cell.data.slug):
                words += ["--tasks", typed_task(cell.data.slug, column.task, [cell])]
            words += ["--format", ONNX_INT8] if record.point in POINTS_IN_8_BITS else []
            words += ["--from", "FOLDER"] if cell.method == CHECKPOINT else []
            words += source_options(cell.data.slug, cell.teacher.name, cell.teacher.base)
            commands.insert(0, f"python -m bench {shlex.join(words)}")
    return commands
