"""What a report says in two sentences, from its tables. No torch."""

from __future__ import annotations

from bench.record.cell import TEACHER
from bench.report.comparison import NOT_SIGNIFICANT, UNCLEAR, p_in_words
from bench.report.groups import ReportGroup
from bench.report.tables.differences import reference_of
from bench.report.tables.leaderboard import ranks, verdicts_of_means
from bench.report.tables.parts import counted, listed


def summary(group: ReportGroup) -> list[str]:
    """What was measured; and the best row: by how much, how sure, how fast, and which rows may be as good."""
    columns = ", ".join(column.name for column in group.columns)
    seeds = sorted({n for s in group.students for c in group.columns if (n := len(group.values(s, c)))})
    rows, sets = counted(len(group.students), "student row"), counted(len(group.columns), "evaluation set")
    often = "."
    if seeds:
        often = f", {seeds[0]} to {seeds[-1]} seeds each." if len(seeds) > 1 else f", {counted(seeds[0], 'seed')} each."
    texts, rank_of = [f"{rows} on {sets} ({columns}){often}"], ranks(group)
    failed = [(label, r) for label in group.systems for r in group.of(label) if r.status == "failed"]
    if failed:
        whys = [
            f"{label} on {'+'.join(r.cell.tasks)}, seed {r.cell.seed} ({r.error.message if r.error else 'no message'})"
            for label, r in failed[:5]
        ]
        more = f" and {len(failed) - 5} more" if len(failed) > 5 else ""
        texts.append(f"{counted(len(failed), 'training')} failed: {'; '.join(whys)}{more}.")
    if not rank_of:
        return texts

    first = [label for label, rank in rank_of.items() if rank == min(rank_of.values())]
    best, means, reference = first[0], group.mean_intervals, reference_of(group)
    others = {group.called(label): means[label].value for label in (TEACHER, reference) if label in means}
    others |= {group.baseline_name: group.majority} if group.majority is not None else {}
    named = ", ".join(f"{name} {mean:.1f}" for name, mean in others.items() if name != group.called(best))
    text = f"Best: {group.called(best)} with {means[best].value:.1f}" + (f" ({named})" if named else "")
    if tested := verdicts_of_means(group).get(best):
        verdict = NOT_SIGNIFICANT if tested.verdict == UNCLEAR else tested.verdict
        text += (
            f"; {tested.value:+.1f} ({tested.low:+.1f} to {tested.high:+.1f}) to {group.called(reference)}, {verdict}"
        )
        text += f" (p = {p_in_words(tested.p)})".replace("= <", "<") if tested.p is not None else ""
    text += f"; {ratio.text()} as fast as its teacher" if (ratio := group.speed_ups.get(best)) else ""
    texts.append(text + ".")
    if first[1:]:
        texts.append(f"The data do not tell it apart from {listed([group.called(label) for label in first[1:]])}.")
    return texts
