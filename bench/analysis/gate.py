"""The gate: new records against a baseline's, and an exit code that means something.

A score passes when a loss above the margin is excluded, regresses when a loss is certain, and is inconclusive
between the two: test sets are finite, and so are seeds. Sizes, FLOPs and the names of the losses must be equal: a
method that lost one of its losses may stay within the margin. Speed is compared as the ratio to the teacher timed in
the same session.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, NamedTuple
from xml.etree import ElementTree

import numpy as np
from pydantic import StringConstraints

from bench.errors import (
    CHECK_FAILED,
    INCONCLUSIVE,
    NOT_COMPARABLE,
    NOTHING_MEASURED,
    OK,
    InputError,
    known_row,
    unknown,
)
from bench.files import slug
from bench.record.cell import FINISHED, POINTS_IN_8_BITS, PREDICTIONS, TEACHER, is_one_model
from bench.record.code import made_by
from bench.record.differences import PARTS, comparability_key, differing_parts
from bench.record.known_tasks import recorded_tasks
from bench.record.schema import Record
from bench.record.set_aside import DEPTH, SET_ASIDE
from bench.record.speed_sessions import Conditions, SpeedRecord, idle_if_any, speed_records
from bench.record.store import KEY_DIGITS, Store
from bench.record.task_facts import (
    recorded_names,
    row_as_typed,
    shown_task,
    shown_tasks,
    task_names,
)
from bench.report.escape import flat
from bench.report.render import github
from bench.report.speed import conditions_of, described, speed_up
from bench.stats.metrics import METRICS, metric_of
from bench.stats.paired import (
    RESAMPLES,
    discordant,
    drawn_scores,
    interval,
    mcnemar,
    seed_half_width,
)
from bench.typed_files import TypedFile, checked
from bench.user_files import toml_of

PASSED, REGRESSED, UNCLEAR, MISSING, OTHER = (
    "passed",
    "regressed",
    "inconclusive",
    "nothing measured",
    "not comparable",
)
ACCEPTED = "accepted"
EXIT_CODES = {
    PASSED: OK,
    ACCEPTED: OK,
    REGRESSED: CHECK_FAILED,
    UNCLEAR: INCONCLUSIVE,
    MISSING: NOTHING_MEASURED,
    OTHER: NOT_COMPARABLE,
}
WORST_FIRST = (REGRESSED, OTHER, MISSING, UNCLEAR, ACCEPTED, PASSED)


class GateResult(NamedTuple):
    """One comparison: what was compared, how it ended, and why."""

    subject: str
    what: str
    verdict: str
    why: str


class GateLimits(NamedTuple):
    """How much may be lost: points of a score, of some metrics other ones, and a share of a speed-up."""

    points: float = 2.0
    speed: float = 0.1
    budgets: Mapping[str, float] = {}
    """metric -> points, where it is not ``points``"""
    level: float = 0.002
    """chance that a whole run without any change is called regressed because of the examples that happen to be there"""


LIMITS = GateLimits()
Words = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]


class Acceptance(TypedFile):
    """A regression that somebody has looked at: its row and what, as the gate prints them, and the reason."""

    row: Words
    what: Words
    reason: Words


class AcceptanceFile(TypedFile):
    """``[[accepted]]`` tables."""

    accepted: tuple[Acceptance, ...] = ()


def budgets_of(texts: Sequence[str]) -> dict[str, float]:
    """``["matthews=5"]`` as points by metric.

    Raises:
        InputError: an unknown metric, or no number of points.
    """
    budgets = {}
    for text in texts:
        metric, _, points = text.partition("=")
        if metric not in METRICS:
            raise unknown("metric of --budget", metric, list(METRICS))
        try:
            budgets[metric] = float(points)
        except ValueError:
            raise InputError(
                f"--budget {text}: expected points after the metric, like {metric}=2"
            ) from None
        if not 0 <= budgets[metric] <= 100:  # NaN neither
            raise InputError(f"--budget {text}: should lie between 0 and 100 points")
    return budgets


def read_acceptances(path: Path) -> Sequence[Acceptance]:
    """Of a TOML file.

    Raises:
        InputError: a file that is missing, is not TOML, or lacks a field.
    """
    said = f"--accept {path}"
    return checked(AcceptanceFile, toml_of(path, said), said).accepted


def accept(findings: Sequence[GateResult], acceptances: Sequence[Acceptance]) -> list[GateResult]:
    """Regressions that were looked at become accepted. If something is accepted, was compared and does not regress, that is
    inconclusive: remove the acceptance.
    """
    known = {(a.row, a.what): a for a in acceptances}
    after, used = [], set()
    for finding in findings:
        place = finding.subject, finding.what
        if place in known and finding.verdict == REGRESSED:
            used.add(place)
            finding = finding._replace(
                verdict=ACCEPTED, why=f"{finding.why}; accepted: {known[place].reason}"
            )
        after.append(finding)
    stale = [a for place, a in known.items() if place in _compared(findings) - used]
    return after + [
        GateResult(a.row, a.what, UNCLEAR, "accepted, but it does not regress: remove it")
        for a in stale
    ]


def _compared(findings: Sequence[GateResult]) -> set[tuple[str, str]]:
    """Row and what of it was compared. A row that was scored did not fail, and its losses were looked at, without a line of their own."""
    done = [f for f in findings if f.verdict not in (MISSING, OTHER)]
    return {(f.subject, what) for f in done for what in (f.what, "row", "losses")}


def unmet(findings: Sequence[GateResult], acceptances: Sequence[Acceptance]) -> list[str]:
    """A line for each acceptance of something that was not compared: another name than the table's, or not asked for."""
    compared = {(f.subject, f.what) for f in findings} | _compared(findings)
    return [
        f"--accept: {a.row}, {a.what} was not compared"
        for a in acceptances
        if (a.row, a.what) not in compared
    ]


def overall(findings: Sequence[GateResult]) -> str:
    """The worst verdict; nothing measured where there is none."""
    return next(
        (verdict for verdict in WORST_FIRST if any(f.verdict == verdict for f in findings)), MISSING
    )


def check(
    baseline: Path,
    results: Path,
    tasks: Sequence[str] = (),
    rows: Sequence[str] = (),
    seeds: Sequence[int] = (),
    limits: GateLimits = LIMITS,
) -> list[GateResult]:
    """Compare every baseline row (of the tasks and rows named, if any are) with what was measured on those seeds.

    ``baseline`` is a folder of records, or the folder of one data set in it (then without speeds). A named row that
    the baseline has on none of these tasks is *nothing measured*.

    Raises:
        InputError: the baseline has no record, or none of those named.
    """
    root, data = (
        (baseline.parent, baseline.name)
        if any(baseline.glob("*/*/*/current"))
        else (baseline, None)
    )

    def wanted(record: Record) -> bool:
        cell = record.cell
        return (
            record.status == "ok"
            and (not tasks or bool(task_names(cell).intersection(tasks)))
            and (
                not rows
                or record.row in rows
                # a label names all its operating points, but 8 bits are a row of their own
                or (
                    record.point not in POINTS_IN_8_BITS
                    and (cell.method == TEACHER or cell.label in rows)
                )
            )
        )

    old_store, new_store = Store(root), Store(results)
    there = [r for r in old_store.records() if data in (None, slug(r.cell.data.slug))]
    if there:  # a row or task that nobody has would be left out without a word
        known = {name for record in there for name in (record.cell.label, record.row)}
        # a finished row is typed as a folder, and called by its last part
        folders = {row for row in rows if row.partition(":")[0] in FINISHED and row not in known}
        names = [
            f"{row.partition(':')[0]}:{Path(row).name}" if row in folders else row for row in rows
        ]
        rows = [known_row(name, known, baseline) for name in names]
        recorded = recorded_names(record.cell for record in there)
        tasks = recorded_tasks(tasks, recorded, baseline)
    olds = [record for record in there if wanted(record)]
    if teachers := [r.cell.teacher for r in olds if r.cell.method != TEACHER] if rows else []:
        # not a teacher that only other rows learned from
        olds = [
            r
            for r in olds
            if r.cell.method != TEACHER or r.row in rows or r.cell.teacher in teachers
        ]
    sessions = list(speed_records(root, old_store.note)) if data is None else []
    if not olds and not sessions:
        asked = f"the tasks {', '.join(tasks)}" if there and tasks else "what was asked for"
        has = sorted({shown_tasks(record.cell) for record in there})
        next_move = f"it has {', '.join(has)}" if has else "is it a folder of records?"
        raise InputError(f"--baseline {baseline} has no finished record of {asked}; {next_move}")
    news = list(new_store.records())
    # of one row and task all seeds, in a fixed order
    by_row: dict[tuple[Any, ...], list[Record]] = {}
    for record in sorted(olds, key=lambda r: r.cell.seed):
        cell = record.cell
        place = (
            cell.tasks,
            cell.method != TEACHER,
            cell.label,
            record.point,
            comparability_key(cell),
        )
        by_row.setdefault(place, []).append(record)
    in_order = [by_row[place] for place in sorted(by_row, key=str)]
    # Bonferroni: the level is that of the whole run
    limits = limits._replace(
        level=limits.level / max(1, sum(len(of_row[0].scores) for of_row in in_order))
    )
    findings = [
        f for of_row in in_order for f in _row(of_row, news, seeds, (old_store, new_store), limits)
    ]
    kept = {record.key[:KEY_DIGITS] for record in there}
    for note in old_store.notes:
        parts = note.path.relative_to(root).parts  # data, task, method and dropped terms, key, file
        if (
            note.kind == SET_ASIDE
            and len(parts) == DEPTH
            and data in (None, parts[0])
            and parts[3] not in kept
        ):
            method = parts[2].partition("-no-")[0]
            is_asked = (
                not rows or method == TEACHER or any(slug(row).startswith(method) for row in rows)
            )
            shown = shown_task(parts[1], parts[0])
            if is_asked and (not tasks or {parts[1], shown}.intersection(map(slug, tasks))):
                why = f"the baseline's record {parts[3]} is set aside: {note.why}"
                findings.append(GateResult(f"{shown} {parts[2]}", "row", MISSING, why))
    if sessions:
        # sessions name rows as they are typed: without (fast kernels), and in 8 bits without +int8
        without_name = ("", *POINTS_IN_8_BITS)
        typed = {
            row_as_typed(r.cell) + (f" at {r.point}" if r.point not in without_name else "")
            for r in olds
        }
        findings += _speeds(
            sessions,
            list(speed_records(results, new_store.note)),
            {*rows, *typed} if rows else (),
            limits.speed,
        )
    met = {name for old in olds for name in (old.cell.label, old.row)} | {
        finding.subject for finding in findings
    }
    why = "the baseline has no finished record of it" + (f" on {', '.join(tasks)}" if tasks else "")
    return findings + [
        GateResult(row, "row", MISSING, why) for row in dict.fromkeys(rows) if row not in met
    ]


def _row(
    olds: list[Record],
    news: list[Record],
    seeds: Sequence[int],
    stores: tuple[Store, Store],
    limits: GateLimits,
) -> list[GateResult]:
    """One row on one task. All seeds of the baseline tell its noise, also where only some are compared; without ``seeds`` all are."""
    first = olds[0]
    subject = f"{shown_tasks(first.cell)} {first.row}"
    same = {r.key: r for r in news}
    # other weights, or other answers, under one name are what is compared
    if first.cell.method in FINISHED:
        for old in olds:
            alike = [r for r in news if _is_next(r, old)]
            if alike and old.key not in same:
                same[old.key] = max(alike, key=lambda r: r.finished)
    asked = [old for old in olds if not seeds or old.cell.seed in seeds or is_one_model(old.cell)]
    pairs = [(old, same[old.key]) for old in asked if old.key in same]
    if not pairs:
        place = (first.cell.tasks, first.cell.label, first.point)
        near = next((r for r in news if (r.cell.tasks, r.cell.label, r.point) == place), None)
        others = differing_parts(first.cell, near.cell) if near else ""
        if others:
            return [GateResult(subject, "row", OTHER, f"measured with other {others}")]
        wrong = "; ".join(filter(None, (stores[1].set_aside_reason(old.cell) for old in asked)))
        why = (
            f"its record is set aside: {wrong}"
            if wrong
            else f"no {'seed in common' if near else 'record'}"
        )
        return [GateResult(subject, "row", MISSING, f"{why}; run the baseline's command")]
    findings, usable = [], []
    if missing := [old for old in asked if old.key not in same]:
        wrong = "; ".join(filter(None, (stores[1].set_aside_reason(old.cell) for old in missing)))
        why = f"no record of seed {', '.join(str(old.cell.seed) for old in missing)}{f' ({wrong})' if wrong else ''}"
        findings.append(
            GateResult(
                subject,
                "row",
                MISSING,
                f"{why}; run the baseline's command, or choose with --seeds",
            )
        )
    absent = (
        set(seeds).difference(old.cell.seed for old in olds) if not is_one_model(first.cell) else ()
    )
    if absent:
        why = f"the baseline has no record of seed {', '.join(map(str, sorted(absent)))}"
        findings.append(GateResult(subject, "row", MISSING, why))
    for old, new in pairs:
        seed = f"seed {new.cell.seed}"
        if new.status != "ok":
            why = f"{seed} {new.status}" + (f": {new.error.message}" if new.error else "")
            findings.append(GateResult(subject, "row", REGRESSED, why))
        else:
            usable.append((old, new))
    if usable:
        before, after = (record.sizes for record in usable[0])
        if before is None or after is None:
            if first.cell.method != PREDICTIONS:  # these have no model
                findings.append(
                    GateResult(subject, "size", MISSING, "one of the two records has no sizes")
                )
        elif (before.parameters, before.macs) == (after.parameters, after.macs):
            why = f"{after.parameters:,} parameters, {after.macs:,} MACs, as before"
            findings.append(GateResult(subject, "size", PASSED, why))
        else:
            name = "macs" if before.parameters == after.parameters else "parameters"
            why = f"{name} {getattr(after, name):,}, were {getattr(before, name):,}"
            findings.append(GateResult(subject, "size", REGRESSED, why))
        then, now = (
            {f"{stage}.{term}" for stage in r.terms for term in r.terms[stage]} for r in usable[0]
        )
        if then != now:
            changes = ("without", then - now), ("with the new", now - then)
            why = ", ".join(
                f"{word} {', '.join(sorted(names))}" for word, names in changes if names
            )
            findings.append(GateResult(subject, "losses", REGRESSED, why))
        others = made_by(new for _, new in usable)
        for evaluation, scores in first.scores.items():
            metric = next(iter(scores))
            ended, why = _score(olds, usable, stores, evaluation, metric, limits)
            why += f"; {others}" if others else ""
            findings.append(GateResult(subject, f"{evaluation} {metric}", ended, why))
    return findings


def _is_next(new: Record, old: Record) -> bool:
    """Whether a record of a finished model, or of predictions, is of the same name, task, seed and question."""
    places = [(r.cell.tasks, r.cell.label, r.point, r.cell.seed) for r in (new, old)]
    return places[0] == places[1] and not differing_parts(
        new.cell, old.cell, PARTS.keys() - {"settings", "tokenizer"}
    )


def _score(
    olds: list[Record],
    pairs: list[tuple[Record, Record]],
    stores: tuple[Store, Store],
    evaluation: str,
    metric: str,
    limits: GateLimits,
) -> tuple[str, str]:
    """Whether one score of a row is as good as before, and why.

    Args:
        olds: all seeds of the baseline.
        pairs: those that are compared, before and now.
    """
    if all(old.weights == new.weights and old.scores == new.scores for old, new in pairs):
        return PASSED, f"identical weights ({len(pairs)} seeds)"
    before, after = (
        [r.scores[evaluation][metric] for r in side] for side in zip(*pairs, strict=True)
    )
    difference = 100 * float(np.mean(after) - np.mean(before))
    arrays = [(stores[0].predictions(old), stores[1].predictions(new)) for old, new in pairs]
    predicted = metric_of(metric).form.predicted
    now = [predicted(b[f"logits.{evaluation}"]) for _, b in arrays]
    then = [predicted(a[f"logits.{evaluation}"]) for a, _ in arrays]
    of_examples, p = chance(now, then, arrays[0][0][f"labels.{evaluation}"], metric, difference)
    of_seeds = seed_half_width([100 * old.scores[evaluation][metric] for old in olds], len(pairs))
    half = math.hypot(of_examples, of_seeds or 0.0)
    text = f"{100 * np.mean(after):.1f}, was {100 * np.mean(before):.1f}: {difference:+.1f} ± {half:.1f} points"
    text += "" if of_seeds is not None else " (one seed: its noise is not in the interval)"
    return verdict(
        difference, half, limits.budgets.get(metric, limits.points), p <= limits.level
    ), text


def chance(
    now: Sequence[np.ndarray],
    then: Sequence[np.ndarray],
    labels: np.ndarray,
    metric: str,
    difference: float,
) -> tuple[float, float]:
    """Half the 95 % interval that the examples give the difference, in points; and the one-sided p-value of a loss.

    Of one seed and accuracies by McNemar's mid-p, else from the bootstrap's spread.

    Args:
        now, then: predicted answers of each seed.
    """
    # of many seeds each resample takes longer: they have more distinct patterns of answers
    resamples = RESAMPLES if len(now) < 4 else RESAMPLES // 4
    drawn_RS = drawn_scores([*now, *then], labels, metric, np.random.default_rng(0), resamples)
    drawn = 100 * (drawn_RS[:, : len(now)] - drawn_RS[:, len(now) :]).mean(1)
    low, high = interval(drawn)
    right = metric_of(metric).right
    if len(now) == 1 and right:
        p = mcnemar(*discordant(right(now[0], labels), right(then[0], labels))) / 2
    else:
        from scipy.stats import norm

        spread = float(np.std(drawn))
        p = float(norm.sf(-difference / spread)) if spread > 0 else float(difference >= 0)
    return (high - low) / 2, p if difference < 0 else 1.0


def verdict(difference: float, half: float, margin: float, certain: bool = True) -> str:
    """Certainly worse, and by a test at the gate's level: regressed. Not worse by more than the margin: passed. Else inconclusive.

    Args:
        certain: whether the test of a loss rejects at the level left to this comparison.
    """
    if difference + half < 0 and certain:
        return REGRESSED
    return PASSED if difference - half >= -margin else UNCLEAR


def _speeds(
    olds: Sequence[SpeedRecord], news: Sequence[SpeedRecord], rows: Collection[str], allowed: float
) -> list[GateResult]:
    """The last session of each teacher, system by system (of the rows named, if any are), under the same conditions."""
    findings = []
    for teacher in dict.fromkeys(session.teacher for session in olds):
        old = idle_if_any([session for session in olds if session.teacher == teacher])[-1]
        fitting = idle_if_any([session for session in news if session.teacher == teacher])
        for timing in sorted(old.timings, key=lambda t: conditions_of(old).index(t.conditions)):
            if timing.system == TEACHER or (rows and timing.system not in rows):
                continue
            if not timing.seconds:
                continue
            verdict, why = _speed(old, fitting, timing.system, timing.conditions, allowed)
            what = f"speed-up ({described(timing.conditions)})"
            findings.append(GateResult(timing.system, what, verdict, why))
    return findings


def _speed(
    old: SpeedRecord,
    fitting: Sequence[SpeedRecord],
    system: str,
    conditions: Conditions,
    allowed: float,
) -> tuple[str, str]:
    """The verdict on one speed-up, and why; ``fitting`` are new sessions of the same teacher."""
    before = speed_up(old, system, conditions)
    now = None
    others = old.others
    for session in fitting:
        if ratio := speed_up(session, system, conditions):
            now = ratio
            others = max(old.others, session.others)
    timed = [t.conditions for session in fitting for t in session.timings if t.system == system]
    if before is None or now is None:
        if conditions in timed:
            return MISSING, "a timing of it or of the teacher failed"
        return (OTHER, "timed under other conditions") if timed else (MISSING, "not timed")
    least = before.median * (1 - allowed)
    why = f"{now.text()}, was {before.text()}; at least {least:.2f}x is required"
    if others:
        return UNCLEAR, f"{why}; one was timed while other processes used {others:.1f} cores"
    if now.high < least:
        return REGRESSED, why
    return (PASSED if now.low >= least else UNCLEAR), why


def summary(findings: Sequence[GateResult]) -> str:
    """Markdown for a pull request: the verdict, the counts, and every comparison, the worst first."""
    counts = Counter(finding.verdict for finding in findings)
    ordered = sorted(findings, key=lambda f: WORST_FIRST.index(f.verdict))
    rows = [[f.verdict, f.subject, f.what, f.why] for f in ordered]
    lines = [
        f"# Check: {overall(findings)}",
        "",
        ", ".join(f"{counts[verdict]} {verdict}" for verdict in WORST_FIRST if counts[verdict])
        or "nothing to compare",
        "",
        github(rows, ["verdict", "row", "what", "why"], "left"),
    ]
    return "\n".join(lines) + "\n"


def workflow_commands(findings: Sequence[GateResult]) -> list[str]:
    """What did not pass, as GitHub's workflow commands: it shows them beside a pull request."""
    kinds = {REGRESSED: "error", OTHER: "error", UNCLEAR: "notice", MISSING: "warning"}
    return [
        f"::{kinds[f.verdict]} title={flat(f.subject)} {f.verdict}::{flat(f.what)}: {flat(f.why)}"
        for f in findings
        if f.verdict in kinds
    ]


def junit(findings: Sequence[GateResult]) -> bytes:
    """JUnit XML: regressed and not comparable are failures, nothing measured is an error, inconclusive and accepted are skipped."""
    kinds = {
        REGRESSED: "failure",
        OTHER: "failure",
        MISSING: "error",
        UNCLEAR: "skipped",
        ACCEPTED: "skipped",
    }
    suite = ElementTree.Element("testsuite", name="bench check", tests=str(len(findings)))
    for finding in findings:
        case = ElementTree.SubElement(
            suite, "testcase", classname=flat(finding.subject), name=flat(finding.what)
        )
        if kind := kinds.get(finding.verdict):
            ElementTree.SubElement(case, kind, message=flat(f"{finding.verdict}: {finding.why}"))
    if not findings:
        ElementTree.SubElement(
            ElementTree.SubElement(suite, "testcase", name="check"), "error", message=MISSING
        )
    for kind, counter in (("failure", "failures"), ("error", "errors"), ("skipped", "skipped")):
        suite.set(counter, str(len(suite.findall(f"testcase/{kind}"))))
    return ElementTree.tostring(suite, encoding="utf-8", xml_declaration=True)
