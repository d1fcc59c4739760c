"""The rows of a table before the choice: what each scores, costs and keeps, which limits leave it
out, and what else speaks against it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from bench.analysis.limits import LIMITS
from bench.record.cell import LINEAR_IN_8_BITS, LINEAR_ONLY, PLUS_INT8, TEACHER
from bench.record.rescored import NO_ANSWERS
from bench.record.schema import Sizes
from bench.record.store import Store
from bench.record.varied import VARIED_TEACHER
from bench.report.means import mean_of_rows
from bench.report.paired_rows import NOT_SIGNIFICANT
from bench.report.resampled import Resampled, resampled
from bench.report.retained_scores import Share, ends_of, mean_share, recorded_teachers, share_of
from bench.report.score_column import ScoreColumn
from bench.report.stored_answers import (
    Faults,
    Stored,
    faults_of,
    faults_of_all,
    seeds_in_words,
    stored_answers,
)
from bench.report.study import Study
from bench.report.teachers import teachers_of
from bench.stats.distribution import Distribution
from bench.stats.form import CLASSES
from bench.stats.metrics import metric_of


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
class Evidence:
    """What is known of a table before its rows are judged.

    Attributes:
        answers: of each column, resampled: of the rows whose answers are all stored.
        unsound: the columns in which the teacher has no sound score above 0.
    """

    group: Study
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
class Judged:
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


def evidence_of(group: Study, columns: Sequence[ScoreColumn], store: Store) -> Evidence:
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
    return Evidence(
        group, tuple(columns), stored, faults, MappingProxyType(answers), tuple(unsound)
    )


def judged_row(evidence: Evidence, label: str, limits: Mapping[str, float]) -> Judged:
    """A row with its costs, the limits that it is over, and what else speaks against it."""
    group = evidence.group
    absent = [c.name for c in evidence.columns if (label, c) not in group.summaries]
    if absent:
        why = f"no score on {', '.join(absent)}{_why_absent(group, label)}"
        return Judged(label, None, (), why)
    row = _candidate(evidence, label)
    over = [
        name
        for name, limit in LIMITS.items()
        if name in limits and not limit.allows(row.cost(name), limits[name])
    ]
    return Judged(label, row, tuple(over), _fault(evidence, label))


def _candidate(evidence: Evidence, label: str) -> Candidate:
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
        megabytes=megabytes_of(models, group.speed.backend, in_8_bits),
        flops=max((s.flops / 1e9 for s in models), default=None),
        latency=group.speed.latencies.get(label),
        retained=retained,
        retained_low=low,
        retained_high=high,
        changed=_changed(evidence, label),
        suspect=_partly_suspect(evidence, label),
    )


def megabytes_of(models: Sequence[Sizes], backend: str, in_8_bits: bool) -> float | None:
    """Megabytes of the file that a backend opens.

    An ONNX graph has weights of few bits as fp32, and only a row in 8 bits has a graph in 8 bits.
    """
    if in_8_bits or not backend.startswith("onnx"):
        return max((sizes.megabytes for sizes in models), default=None)
    if backend == "onnx":
        return max((4e-6 * sizes.parameters for sizes in models), default=None)
    return None


def _retained(evidence: Evidence, label: str) -> tuple[float, float, float] | None:
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
        taught_by = teachers_of(own, teacher)
        if not taught_by and any(record.cell.varies(VARIED_TEACHER) for record in own):
            return None
        # another training of the one teacher stands for it
        taught_by = taught_by or teacher[:1]
        teachers = recorded_teachers(data, taught_by)
        if any(each.score <= 0 for each in teachers):
            return None
        shares.append(share_of(data, own, teachers))
    return mean_share(shares), *ends_of(shares)


def _changed(evidence: Evidence, label: str) -> float | None:
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
        # one of all seeds, or one for each
        teachers = [stored[teacher.key][logits].argmax(1) for teacher in taught_by]
        others = [stored[student.key][logits].argmax(1) for student in students]
        shares.append(np.mean(np.stack(teachers) != np.stack(others)))
    return 100 * float(np.mean(shares)) if shares else None


def _fault(evidence: Evidence, label: str) -> str:
    """Why a row is no candidate whatever the limits are; "" where nothing speaks against it."""
    group = evidence.group
    if any(record.point == LINEAR_IN_8_BITS for record in group.records_of(label)):
        return f"{LINEAR_ONLY}; run it again"
    mute = []
    for column in evidence.columns:
        records = group.finished(label, column)
        if not all(record.key in evidence.stored for record in records):
            mute.append(column.name)
    if mute:
        return f"its answers on {', '.join(mute)} are not stored; run it again with --rerun"
    wrong: list[str] = []
    for column in evidence.columns:
        wrong += _wrong_answers(evidence, label, column)
    return "; ".join(wrong)


def _wrong_answers(evidence: Evidence, label: str, column: ScoreColumn) -> list[str]:
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


def _partly_suspect(evidence: Evidence, label: str) -> tuple[str, ...]:
    """What is suspect of some classes alone, which leaves a row a candidate."""
    said = []
    for column in evidence.columns:
        of_all = faults_of_all(evidence.faults, (label, column))
        for what, of_seed in evidence.faults.get((label, column), {}).items():
            if what not in of_all:
                said.append(f"{column.name}: {what}, {seeds_in_words(of_seed)}")
    return tuple(said)


def _why_absent(group: Study, label: str) -> str:
    """Why a finished row has no score, behind a semicolon; "" where it is not finished."""
    is_lost = any(r.status == "ok" and not r.scores for r in group.records_of(label))
    return f"; {NO_ANSWERS}" if is_lost else ""
