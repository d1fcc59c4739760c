"""Which rows fit limits, which of them is best and how surely, which cheaper ones are as good, and which limit binds."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bench.data.own_tasks import recorded_tasks
from bench.errors import InputError, NothingMeasured
from bench.plan.from_record import is_own, source_options, typed_task
from bench.record.cell import CHECKPOINT, FINISHED, IN_8_BITS, TEACHER
from bench.record.rescored import NO_ANSWERS, scored_alike, scored_first_by
from bench.record.schema import Sizes
from bench.record.speed_sessions import speed_records
from bench.record.store import Store
from bench.report.comparison import (
    NOT_SIGNIFICANT,
    WORSE,
    columns_of_noise,
    error_of_p,
    mean_of_rows,
    p_in_words,
    verdict_of,
)
from bench.report.frame import nothing_in, same_teacher
from bench.report.groups import ReportGroup, ScoreColumn, groups
from bench.report.resampled import (
    Faults,
    Stored,
    faults_of,
    faults_of_all,
    resampled,
    rng_for,
    seeds_in_words,
    stored_answers,
)
from bench.report.sources import warnings
from bench.report.table import Column, Line, Table, TableCell, number
from bench.report.tables.parts import counted, if_busy, left_out_of_means, line_of
from bench.report.write import add_speed
from bench.stats.form import CLASSES
from bench.stats.metrics import metric_of
from bench.stats.own_metrics import named_metrics

RETAINED = "retained"
LIMITS = {
    "parameters": ("--max-params", "M parameters"),
    "megabytes": ("--max-mb", "MB"),
    "flops": ("--max-flops", "G FLOPs"),
    "latency": ("--max-latency", "ms"),
    RETAINED: ("--min-retain", "% of the teacher's mean"),
}
"""What has a limit -> the option, and the unit. FLOPs of one sequence of 128 tokens; the median latency under a session's main
conditions. All are the most that a row may have, but of the teacher's mean the least."""


Choice = dict[str, Any]
"""What one table's rows say, as --json writes it behind its ``group``: the ``columns``; the ``candidates`` that fit, best first; those
``as_good`` as the best, the cheapest first; ``left_out``: row -> why it is no candidate; ``export``: the commands that export the best
row, one for each task: of its seeds the one with the highest score there; and ``binding``: of the best row that one limit alone leaves
out, if it scores more than what fits, its name as ``row``, the ``limit`` as it is typed, what it ``needs`` and in which ``unit``, and
what it would ``gain`` in points with its 95 % ``interval``; None for both where nothing fits.

A candidate has its ``label``, its ``score`` in percent, the costs that :data:`LIMITS` names, of its dearest task (what is ``retained``:
None without a sound score of the teacher in every column), the percentage of its answers that are ``changed``, the ``probability`` of
being the best that fits: the share of the draws of examples and trainings in which its mean is the highest; and of its difference to
the best one ``low`` and ``high`` of the 95 % interval, ``p`` and ``verdict`` of one test, as in a report and in ``compare``.
What is ``suspect`` of some classes alone is a list of sentences: such a row stays a candidate."""


def table(choice: Choice) -> Table:
    """The candidates, best first, with their costs and their differences to the best."""
    group, columns, lines = choice["group"], choice["columns"], list[Line]()
    for c in choice["candidates"]:
        rest = [TableCell(""), TableCell(""), TableCell("best")]
        if lines:
            gap = number(
                c["score"] - choice["candidates"][0]["score"], "+.1f", low=c["low"], high=c["high"]
            )
            rest = [gap, TableCell(p_in_words(c["p"]), c["p"]), TableCell(c["verdict"])]
        cells = [
            *(number(c[name], ".2f") for name in LIMITS),
            number(c["changed"]),
            number(c["score"]),
        ]
        lines.append(
            line_of(group, c["label"], [*cells, number(100 * c["probability"], ".0f", " %"), *rest])
        )
    titles = [
        "System",
        "Params (M)",
        "file (MB)",
        "FLOPs (G)",
        if_busy("latency (ms)", group),
        "% of teacher",
        "changed answers (%)",
    ]
    titles.append(
        columns[0].title if len(columns) == 1 else f"mean of {counted(len(columns), 'column')}"
    )
    titles += ["best with probability", "difference to the best", "p", "verdict"]
    return Table("Choice", list(map(Column, titles)), lines)


def in_words(choice: Choice) -> list[str]:
    """The answer in sentences."""
    group = choice["group"]
    lines, called = [line.replace("*", "") for line in warnings(group)], group.called
    lines += [left_out_of_means(group)] if group.left_out_of_means else []
    if candidates := choice["candidates"]:
        best, cheapest, several = candidates[0], choice["as_good"][0], len(candidates) > 1
        chance = (
            f", the best with a probability of {100 * best['probability']:.0f} %" if several else ""
        )
        lines.append(
            f"Highest mean of what fits: {called(best['label'])} ({best['score']:.1f}){chance}."
        )
        if cheapest is not best:
            row = f"{called(cheapest['label'])} ({cheapest['score']:.1f})"
            lines.append(f"The cheapest row that is not significantly different from it: {row}.")
        if others := [
            called(c["label"]) for c in choice["as_good"] if c is not best and c is not cheapest
        ]:
            too = ", too" if cheapest is not best else ""
            lines.append(f"Not significantly different from it{too}: {', '.join(others)}.")
        if several:
            lines.append(
                "The best row was chosen on the examples that it is scored on, so its score is a little too high."
            )
        lines += _suspicions(group, candidates)
    else:
        lines.append("No row fits.")
    if binding := choice["binding"]:
        limit, unit, needs, gain, ends = (
            binding[key] for key in ("limit", "unit", "needs", "gain", "interval")
        )
        row = called(binding["row"])
        text = f"The limit that binds: {limit} alone leaves out {row}, which {_stated(limit, needs, unit)}"
        text += "" if gain is None else f" and gains {gain:+.1f} points"
        lines.append(text + (f" ({ends[0]:+.1f} to {ends[1]:+.1f})." if ends else "."))
    return [*lines, *(f"To take it away: {command}" for command in choice["export"])]


def _suspicions(group: ReportGroup, candidates: Sequence[Mapping[str, Any]]) -> list[str]:
    """A sentence for each thing that is suspect of some classes."""
    return [
        f"Suspect: {group.called(candidate['label'])}, {what}."
        for candidate in candidates
        for what in candidate["suspect"]
    ]


def _stated(option: str, cost: float, unit: str) -> str:
    """What a row needs or keeps, rounded to a limit that it keeps within: else a limit that it misses could look met."""
    # 100 * 1.1 is above 110
    hundredths, is_kept = round(100 * cost, 8), option == LIMITS[RETAINED][0]
    return f"{'keeps' if is_kept else 'needs'} {(np.floor if is_kept else np.ceil)(hundredths) / 100:.2f} {unit}"


def choose(
    results: Path,
    budget: Mapping[str, float | None],
    tasks: Sequence[str] = (),
    backend: str = "",
    threads: int = 0,
    metric: str | Sequence[str] = (),
) -> list[Choice]:
    """A choice for each table of the records that has all the tasks (none: whatever it has, but for columns of noise).

    Args:
        budget: the most that a row may cost, by the names of :data:`LIMITS`; without one, or None: as much as it likes.
        backend, threads: of the latencies; by default those that a session measured first.
        metric: that scores the tasks: its name, or ``MODULE:NAME`` of one in a file of the user's.
            Of several it is the first one that suits a task. By default it is that of each task.

    Raises:
        InputError: no such limit, one that is not above 0, or no such task: neither in the records nor in GLUE.
            Also: a metric that does not suit a task.
        NothingMeasured: no table has all of them.
    """
    for name, value in budget.items():
        if name not in LIMITS:
            raise InputError(f"no limit {name!r}; there are: {', '.join(LIMITS)}")
        if value is not None and not value > 0:
            raise InputError(f"{LIMITS[name][0]} {value:g}: should be above 0")
        if name == RETAINED and value is not None and value <= 1:
            raise InputError(f"{LIMITS[name][0]} {value:g}: is in percent, like 95")
    metrics = named_metrics(metric)
    store = Store(results)
    sessions = list(speed_records(store.root, store.note))
    records = scored_alike(store.records(), store)
    choices: list[Choice] = []
    if not records:
        raise NothingMeasured(nothing_in(store.root))
    tasks = recorded_tasks(
        tasks, {task for record in records for task in record.cell.tasks}, results
    )
    records = scored_first_by(records, metrics, store, tasks)
    for group in groups(records):
        # a mean over what nobody named leaves out the columns that a report's does
        group.left_out_of_means = [] if tasks else columns_of_noise(group, store)
        columns = [c for c in group.averaged if not tasks or c.task in tasks]
        if columns and set(tasks) <= {c.task for c in columns}:
            add_speed(group, sessions, backend, threads)
            choices.append(_choice(group, columns, budget, store))
    if not choices:
        wanted = f" with {', '.join(tasks)}" if tasks else ""
        raise NothingMeasured(
            f"no table of records{wanted} in {results}; `report` shows what there is"
        )
    return choices


def _choice(
    group: ReportGroup,
    columns: Sequence[ScoreColumn],
    budget: Mapping[str, float | None],
    store: Store,
) -> Choice:
    fitting: list[dict[str, Any]] = []
    nearly: list[tuple[dict[str, Any], str]] = []  # sound rows over one limit alone, and that limit
    left_out: dict[str, str] = {}
    stored = stored_answers(group, store)
    faults = faults_of(group, stored)
    unsound = [
        c.name
        for c in columns
        if (TEACHER, c) not in group.summaries or faults_of_all(faults, (TEACHER, c))
    ]
    teacher = (
        0.0 if unsound else float(np.mean([group.summaries[TEACHER, c].mean for c in columns]))
    )
    for label in group.students:
        if all(r.cell.ablation_of for r in group.records_of(label)):
            continue
        if absent := [c.name for c in columns if (label, c) not in group.summaries]:
            left_out[label] = f"no score on {', '.join(absent)}{_why_absent(group, label)}"
            continue
        models = [r.sizes for c in columns for r in group.records_of(label, c.task) if r.sizes]
        score = float(np.mean([group.summaries[label, c].mean for c in columns]))
        candidate: dict[str, Any] = {
            "label": label,
            "score": score,
            "parameters": max((s.parameters / 1e6 for s in models), default=None),
            "megabytes": _megabytes(models, group.speed_backend, label.endswith(f"+{IN_8_BITS}")),
            "flops": max((s.flops / 1e9 for s in models), default=None),
            "latency": group.latencies.get(label),
            RETAINED: 100 * score / teacher if teacher > 0 else None,
            "changed": _changed(group, columns, label, stored),
            "suspect": _partly_suspect(faults, columns, label),
        }
        candidate |= {
            "probability": 1.0,
            "low": 0.0,
            "high": 0.0,
            "p": 1.0,
            "verdict": NOT_SIGNIFICANT,
        }
        over = []
        for name in LIMITS:
            cost, most = candidate[name], budget.get(name)
            if most is not None and (
                cost is None or (cost < most if name == RETAINED else cost > most)
            ):
                over.append(name)
        mute = [
            c.name for c in columns if not all(r.key in stored for r in group.finished(label, c))
        ]
        # one seed with constant or permuted answers is enough; a low score counts where the row's mean is no better than one
        # answer to every example: by chance a seed of a sound row may be below it
        wrong = [
            f"{c.name}: {what}, {seeds_in_words(of_seeds)}"
            + (
                f"; mean {group.summaries[label, c].mean:.1f}"
                if any(s.figure for s in of_seeds.values())
                else ""
            )
            for c in columns
            for what, of_seeds in faults_of_all(faults, (label, c)).items()
            if group.summaries[label, c].mean
            <= 100 * next((s.baseline for s in of_seeds.values() if s.baseline is not None), np.inf)
        ]
        if over:
            cost, lacking = candidate[over[0]], f"{over[0]} not measured"
            if over[0] == RETAINED:
                lacking = f"the teacher has no sound score on {', '.join(unsound) or 'average'}"
            elif over[0] == "latency":
                lacking = "not timed"
            option, unit = LIMITS[over[0]]
            left_out[label] = lacking if cost is None else _stated(option, cost, unit)
            if len(over) == 1 and cost is not None and not (mute or wrong):
                nearly.append((candidate, over[0]))
        elif mute:
            left_out[label] = (
                f"its answers on {', '.join(mute)} are not stored; run it again with --rerun"
            )
        elif wrong:
            left_out[label] = "; ".join(wrong)
        else:
            fitting.append(candidate)
    fitting.sort(key=lambda c: (-c["score"], c["label"]))

    def of_interest(pair: tuple[dict[str, Any], str]) -> tuple[float, float, str]:
        """The best first; where nothing fits, the one that needs the least more."""
        (row, name), short = pair, 0.0
        if not fitting:
            most = budget[name] or 1.0
            short = abs(row[name] - most) / most
        return short, -row["score"], row["label"]

    outside, limit = min(nearly, key=of_interest, default=(None, ""))
    if outside and fitting and outside["score"] <= fitting[0]["score"]:
        outside = None
    if outside:
        outside["low"] = None
    _compare_with_best(group, columns, fitting, outside, stored)
    binding: dict[str, Any] | None = None
    if outside:
        option, unit = LIMITS[limit]
        binding = {"row": outside["label"], "limit": option, "needs": outside[limit], "unit": unit}
        binding |= {"gain": outside["score"] - fitting[0]["score"] if fitting else None}
        binding |= {
            "interval": [outside["low"], outside["high"]] if outside["low"] is not None else None
        }
    # not by latency: models of one shape differ in it by chance
    sizes = ("flops", "parameters", "megabytes")
    order = {}
    for candidate in fitting:
        rounded = [round(candidate[size] or np.inf, 2) for size in sizes]
        order[candidate["label"]] = (*rounded, -candidate["score"])
    return {
        "group": group,
        "columns": columns,
        "candidates": fitting,
        "as_good": sorted(
            (c for c in fitting if c["verdict"] != WORSE), key=lambda c: order[c["label"]]
        ),
        "binding": binding,
        "export": _exports(group, columns, fitting[0]["label"], store) if fitting else [],
        "left_out": left_out,
    }


def _megabytes(models: Sequence[Sizes], backend: str, in_8_bits: bool) -> float | None:
    """Of the file that a backend opens: an ONNX graph has weights of few bits as fp32, and only a row in 8 bits has a graph in 8 bits."""
    if in_8_bits or not backend.startswith("onnx"):
        return max((sizes.megabytes for sizes in models), default=None)
    return (
        max((4e-6 * sizes.parameters for sizes in models), default=None)
        if backend == "onnx"
        else None
    )


def _changed(
    group: ReportGroup, columns: Sequence[ScoreColumn], label: str, stored: Stored
) -> float | None:
    """Percent of a row's answers that are others than its own teacher's, where both are stored."""
    shares = []
    for column in columns:
        theirs, students = group.finished(TEACHER, column), group.finished(label, column)
        if (
            metric_of(column.metric).form is not CLASSES
            or not theirs
            or not all(record.key in stored for record in [*theirs, *students])
            or not all(same_teacher(student, theirs[0]) for student in students)
        ):
            continue
        teacher, *others = (stored[record.key] for record in (theirs[0], *students))
        logits = f"logits.{column.evaluation}"
        shares.append(
            np.mean([teacher[logits].argmax(1) != other[logits].argmax(1) for other in others])
        )
    return 100 * float(np.mean(shares)) if shares else None


def _why_absent(group: ReportGroup, label: str) -> str:
    """Why a finished row has no score, behind a semicolon; "" where it is not finished."""
    is_lost = any(r.status == "ok" and not r.scores for r in group.records_of(label))
    return f"; {NO_ANSWERS}" if is_lost else ""


def _partly_suspect(faults: Faults, columns: Sequence[ScoreColumn], label: str) -> list[str]:
    """What is suspect of some classes alone, which leaves a row a candidate."""
    said = []
    for column in columns:
        of_all = faults_of_all(faults, (label, column))
        for what, of_seed in faults.get((label, column), {}).items():
            if what not in of_all:
                said.append(f"{column.name}: {what}, {seeds_in_words(of_seed)}")
    return said


def _exports(
    group: ReportGroup, columns: Sequence[ScoreColumn], label: str, store: Store
) -> list[str]:
    """One command for each task; a finished checkpoint is a folder already, and has one in 8 bits alone; predictions have none."""
    commands = list[str]()
    # of two sets of a task the first
    for column in {c.task: c for c in reversed(columns)}.values():
        record = max(
            group.finished(label, column), key=lambda r: r.scores[column.evaluation][column.metric]
        )
        cell = record.cell
        if cell.method not in FINISHED or record.point == IN_8_BITS:
            words = [
                "export",
                record.key[:16],
                "--to",
                f"{cell.method}-{column.task}",
                "--results",
                str(store.root),
            ]
            words += (
                ["--tasks", typed_task(cell.data.slug, column.task, [cell])]
                if is_own(cell.data.slug)
                else []
            )
            words += ["--format", f"onnx-{IN_8_BITS}"] if record.point == IN_8_BITS else []
            words += ["--from", "FOLDER"] if cell.method == CHECKPOINT else []
            words += source_options(cell.data.slug, cell.teacher.name, cell.teacher.base)
            commands.insert(0, f"python -m bench {shlex.join(words)}")
    return commands


def _compare_with_best(
    group: ReportGroup,
    columns: Sequence[ScoreColumn],
    fitting: Sequence[dict[str, Any]],
    outside: dict[str, Any] | None,
    stored: Stored,
) -> None:
    """Give the rows their intervals and tests against the first of those that fit, and those their probabilities of being the best."""
    rows = [*fitting, *([outside] if outside else [])]
    if not fitting or len(rows) < 2:
        return
    answers = {}
    for column in columns:
        records = [r for row in rows for r in group.finished(row["label"], column)]
        answers[column] = resampled(column, [(r, stored[r.key]) for r in records])
    means = [mean_of_rows(group, answers, columns, row["label"]) for row in fitting]
    # the same resamples for all rows, and trainings that are each row's own
    mean_FR = np.stack(
        [
            drawn.draws(rng_for(columns, "score", row["label"]))
            for row, drawn in zip(fitting, means, strict=True)
            if drawn is not None
        ]
    )
    first_FR = np.isclose(mean_FR, mean_FR.max(0), rtol=0, atol=1e-9)
    # equal means share a draw
    for row, share in zip(fitting, (first_FR / first_FR.sum(0)).mean(1), strict=True):
        row["probability"] = float(share)
    for row in rows[1:]:
        drawn = mean_of_rows(group, answers, columns, row["label"], rows[0]["label"])
        if drawn is not None:
            row["low"], row["high"] = drawn.interval()
            row["p"] = drawn.p()
            row["verdict"] = verdict_of(-1.0, row["p"], row["p"], error_of_p(drawn))
