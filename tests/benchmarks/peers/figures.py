"""From the seconds of rounds to ratios with their intervals, and to a table."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any

from bench.stats.ratios import ratio

Record = dict[str, Any]
FEWEST = 6
"""Rounds for an interval of a median by order statistics."""


def figures(record: Record) -> dict[str, Any]:
    """All that the table shows."""
    contestants = record["contestants"]
    rounds = [one for session in record["sessions"] for one in session["rounds"]]
    seconds = {name: [one["seconds"][name] for one in rounds] for name in contestants}
    same = [name for name, one in contestants.items() if one["same_batches"]]
    peers = [name for name, one in contestants.items() if one["is_peer"]]
    best = min(peers, key=lambda name: statistics.median(seconds[name]))
    plain = [one["seconds"] for one in rounds if not one["measures_shares"]]
    worked = [one["cpu_seconds"] for one in rounds]
    return {
        "rounds": len(rounds),
        "seconds": {name: {"median": statistics.median(values)} for name, values in seconds.items()},
        "over": {p: {name: _ratio(seconds[p], seconds[name]) for name in same if name != p} for p in peers},
        "best_peer": best,
        "over_best_without_shares": _ratio([s[best] for s in plain], [s["ours"] for s in plain]),
        "over_best_by_cpu": _ratio([w[best] for w in worked], [w["ours"] for w in worked]),
        "over_by_whole_epochs": {peer: _over_epochs(peer, record) for peer in contestants if peer not in same},
    }


def _ratio(reference: Sequence[float], own: Sequence[float]) -> dict[str, Any]:
    """Median of the rounds' ratios; without an interval where there are too few."""
    if len(own) >= FEWEST:
        whole = ratio(reference, own)
        return {"median": whole.median, "low": whole.low, "high": whole.high, "rounds": whole.rounds}
    ratios = [r / o for r, o in zip(reference, own, strict=True)]
    return {"median": statistics.median(ratios), "low": None, "high": None, "rounds": len(own)} if ratios else {}


def _over_epochs(peer: str, record: Record) -> dict[str, Any]:
    """The same where batches differ: whole epochs alone, because both sides then see the same examples."""
    sums: dict[str, list[float]] = {name: [] for name in record["contestants"]}
    length = record["settings"]["rows"] // record["settings"]["batch"]
    for session in record["sessions"]:
        by_epoch: dict[int, list[dict[str, float]]] = {}
        for one in session["rounds"]:
            by_epoch.setdefault(one["step"] // length, []).append(one["seconds"])
        for epoch in (rounds for rounds in by_epoch.values() if len(rounds) == length):
            for name, values in sums.items():
                values.append(sum(one[name] for one in epoch))
    return {name: _ratio(sums[peer], own) for name, own in sums.items() if name != peer}


def text_of(one: dict[str, Any]) -> str:
    """A ratio as a table shows it."""
    if "median" not in one:
        return "–"
    return f"{one['median']:.2f}x" + (f" ({one['low']:.2f} to {one['high']:.2f})" if one["low"] is not None else "")


def table(record: Record, made: dict[str, Any]) -> str:
    """Markdown: a row for each contestant, then the other figures."""
    peers, batch = list(made["over"]), record["settings"]["batch"]
    head = ["contestant", "seconds a step", "examples/s", *(f"speed relative to {peer}" for peer in peers)]
    lines = [f"| {' | '.join(head)} |", "|---|" + "--:|" * (len(head) - 1)]
    for name, one in record["contestants"].items():
        middle = made["seconds"][name]["median"]
        cells = [f"`{name}` {one['title']}", f"{middle:.3f}", f"{batch / middle:.2f}"]
        cells += ["1.00x" if name == peer else text_of(made["over"][peer].get(name, {})) for peer in peers]
        lines.append(f"| {' | '.join(cells)} |")
    lines += ["", f"{made['rounds']} rounds."]
    lines.append(
        f"`ours` over `{made['best_peer']}`: {text_of(made['over_best_without_shares'])} without the steps that measure "
        f"shares of the gradient, {text_of(made['over_best_by_cpu'])} by the processor's time."
    )
    for peer, over in made["over_by_whole_epochs"].items():
        each = ", ".join(f"`{name}` {text_of(one)}" for name, one in over.items() if one)
        lines.append(f"Over `{peer}`, by whole epochs of the same examples: {each or 'none was timed whole'}.")
    return "\n".join(lines)
