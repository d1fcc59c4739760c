"""The gate's sentences, and its findings as Markdown, JUnit XML and GitHub's workflow commands."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from xml.etree import ElementTree

from bench.analysis.gate_result import (
    ACCEPTED,
    MISSING,
    OTHER,
    REGRESSED,
    UNCLEAR,
    WORST_FIRST,
    GateResult,
    overall,
)
from bench.analysis.gate_scores import ScoreChange
from bench.record.schema import Record, Sizes
from bench.report.escape import flat
from bench.report.render import github
from bench.stats.ratios import Ratio

RUN_AGAIN = "run the baseline's command"
NO_SIZES = "one of the two records has no sizes"
NOT_TIMED = "not timed"
TIMED_OTHERWISE = "timed under other conditions"
TIMING_FAILED = "a timing of it or of the teacher failed"

# --- why a comparison ended as it did


def nothing_in_baseline(tasks: Sequence[str], recorded: Collection[str]) -> str:
    """That a baseline has nothing of what was asked for, and the next move.

    Args:
        tasks: those that were asked for.
        recorded: the tasks of the baseline; none where it has no record at all.
    """
    if not recorded:
        return "no finished record of what was asked for; is it a folder of records?"
    asked = f"the tasks {', '.join(tasks)}" if tasks else "what was asked for"
    return f"no finished record of {asked}; it has {', '.join(sorted(recorded))}"


def not_in_baseline(tasks: Sequence[str]) -> str:
    """That the baseline has no record of a row that was named."""
    where = f" on {', '.join(tasks)}" if tasks else ""
    return f"the baseline has no finished record of it{where}"


def baseline_set_aside(key: str, why: str) -> str:
    """That a record of the baseline cannot be used."""
    return f"the baseline's record {key} is set aside: {why}"


def no_record(reasons: Sequence[str], has_other_seeds: bool) -> str:
    """That a row has no record on the seeds that are compared.

    Args:
        reasons: why its records were set aside.
        has_other_seeds: whether it has a record of another seed.
    """
    if reasons:
        why = f"its record is set aside: {'; '.join(reasons)}"
    elif has_other_seeds:
        why = "no seed in common"
    else:
        why = "no record"
    return f"{why}; {RUN_AGAIN}"


def no_record_of_seeds(missing: Sequence[Record], reasons: Sequence[str]) -> str:
    """That some of the seeds that are compared have no new record.

    Args:
        missing: the baseline's records of these seeds.
        reasons: why new records of them were set aside.
    """
    seeds = ", ".join(str(record.cell.seed) for record in missing)
    set_aside = f" ({'; '.join(reasons)})" if reasons else ""
    return f"no record of seed {seeds}{set_aside}; {RUN_AGAIN}, or choose with --seeds"


def no_such_seeds(seeds: Iterable[int]) -> str:
    """That seeds were named which the baseline does not have."""
    return f"the baseline has no record of seed {', '.join(map(str, sorted(seeds)))}"


def failed(record: Record) -> str:
    """That a new training did not end with a score."""
    message = f": {record.error.message}" if record.error else ""
    return f"seed {record.cell.seed} {record.status}{message}"


def same_sizes(sizes: Sizes) -> str:
    """The parameters and MACs of a model that did not change."""
    return f"{sizes.parameters:,} parameters, {sizes.macs:,} MACs, as before"


def other_question(parts: str) -> str:
    """That the new records answer another question.

    Args:
        parts: in what it differs.
    """
    return f"measured with other {parts}"


def other_sizes(before: Sizes, after: Sizes) -> str:
    """By how much a model grew or shrank: its parameters, or else its MACs."""
    if before.parameters != after.parameters:
        return f"parameters {after.parameters:,}, were {before.parameters:,}"
    return f"macs {after.macs:,}, were {before.macs:,}"


def other_losses(gone: Collection[str], new: Collection[str]) -> str:
    """Which losses of a method went, and which came."""
    changes: list[str] = []
    if gone:
        changes.append(f"without {', '.join(sorted(gone))}")
    if new:
        changes.append(f"with the new {', '.join(sorted(new))}")
    return ", ".join(changes)


def same_weights(seeds: int) -> str:
    """That a score could not change."""
    return f"identical weights ({seeds} seeds)"


def changed_score(change: ScoreChange) -> str:
    """A score before and now, and the interval of the difference."""
    text = f"{change.after:.1f}, was {change.before:.1f}"
    text += f": {change.difference:+.1f} ± {change.half:.1f} points"
    if not change.has_seed_noise:
        text += " (one seed: its noise is not in the interval)"
    return text


def changed_speed_up(before: Ratio, now: Ratio, least: float, others: float) -> str:
    """A speed-up before and now, and the least that passes.

    Args:
        others: cores that other processes used while one of the two was timed; 0 on an idle
            machine.
    """
    text = f"{now.text()}, was {before.text()}; at least {least:.2f}x is required"
    if others:
        text += f"; one was timed while other processes used {others:.1f} cores"
    return text


# --- all findings


def summary(findings: Sequence[GateResult]) -> str:
    """The findings as Markdown for a pull request: the verdict, the counts, and every comparison,
    the worst first."""
    counts = Counter(finding.verdict for finding in findings)
    counted = [f"{counts[verdict]} {verdict}" for verdict in WORST_FIRST if counts[verdict]]
    ordered = sorted(findings, key=lambda finding: WORST_FIRST.index(finding.verdict))
    rows = [[finding.verdict, finding.subject, finding.what, finding.why] for finding in ordered]
    lines = [
        f"# Check: {overall(findings)}",
        "",
        ", ".join(counted) or "nothing to compare",
        "",
        github(rows, ["verdict", "row", "what", "why"], "left"),
    ]
    return "\n".join(lines) + "\n"


def workflow_commands(findings: Sequence[GateResult]) -> list[str]:
    """The findings that did not pass, as GitHub's workflow commands: it shows them beside a pull
    request."""
    kinds = {REGRESSED: "error", OTHER: "error", UNCLEAR: "notice", MISSING: "warning"}
    commands: list[str] = []
    for finding in findings:
        if finding.verdict in kinds:
            title = f"{flat(finding.subject)} {finding.verdict}"
            message = f"{flat(finding.what)}: {flat(finding.why)}"
            commands.append(f"::{kinds[finding.verdict]} title={title}::{message}")
    return commands


def junit(findings: Sequence[GateResult]) -> bytes:
    """The findings as JUnit XML.

    Regressed and not comparable are failures, nothing measured is an error, inconclusive and
    accepted are skipped.
    """
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
        if finding.verdict in kinds:
            message = flat(f"{finding.verdict}: {finding.why}")
            ElementTree.SubElement(case, kinds[finding.verdict], message=message)
    # no viewer shall show an empty suite as passed
    if not findings:
        case = ElementTree.SubElement(suite, "testcase", name="check")
        ElementTree.SubElement(case, "error", message=MISSING)
    for kind, counter in (("failure", "failures"), ("error", "errors"), ("skipped", "skipped")):
        suite.set(counter, str(len(suite.findall(f"testcase/{kind}"))))
    return ElementTree.tostring(suite, encoding="utf-8", xml_declaration=True)
