"""From the seconds of rounds to ratios with their intervals, and to a table."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from inside import USEFUL, outside
from peer_record import Record, rounds_of

from bench.stats.ratios import ratio

DRAWS, LEVEL = 10_000, 0.95
FEWEST = 6
"""Rounds for an interval of a median by order statistics."""


def figures(record: Record) -> dict[str, Any]:
    """All that the table shows."""
    rounds, contestants = rounds_of(record), record["contestants"]
    seconds = {name: [one["seconds"][name] for one in rounds] for name in contestants}
    peers = [name for name, one in contestants.items() if one["is_peer"]]
    best = min(peers, key=lambda name: statistics.median(seconds[name])) if peers else None
    found: dict[str, Any] = {
        "rounds": len(rounds),
        "best_peer": best,
        "seconds": {name: _spread(values) for name, values in seconds.items()},
        "over": {peer: _over(peer, record, seconds) for peer in peers},
        "utilisation": _utilisation(rounds, contestants),
        "peak_gflops": round(statistics.median(max(one["peak"].values()) for one in rounds) / 1e9, 1),
    }
    if best is not None and "ours" in contestants:
        plain = [one["seconds"] for one in rounds if not one["measures_shares"]]
        found["over_best_without_shares"] = _ratio([s[best] for s in plain], [s["ours"] for s in plain])
        worked = [one["cpu_seconds"] for one in rounds]
        found["over_best_by_cpu"] = _ratio([w[best] for w in worked], [w["ours"] for w in worked])
        found["over_best_by_sums"] = _ratio_of_sums(seconds[best], seconds["ours"])
    if grouped := [name for name, one in contestants.items() if not one["same_batches"]]:
        found["over_by_whole_epochs"] = {peer: _over_epochs(peer, record) for peer in grouped}
    if record.get("inside"):
        found["inside"] = _inside(record["inside"])
    return found


def _spread(values: Sequence[float]) -> dict[str, float]:
    low, middle, high = np.quantile(values, (0.25, 0.5, 0.75))
    return {
        "median": float(middle),
        "quartile_1": float(low),
        "quartile_3": float(high),
        "mean": float(np.mean(values)),
    }


def _over(peer: str, record: Record, seconds: dict[str, list[float]]) -> dict[str, Any]:
    """How many times faster than a peer everybody with the same batches is, round by round."""
    same = [name for name, one in record["contestants"].items() if one["same_batches"] and name != peer]
    return {name: _ratio(seconds[peer], seconds[name]) for name in same}


def _ratio(reference: Sequence[float], own: Sequence[float]) -> dict[str, Any]:
    """Median of the rounds' ratios; without an interval where there are too few."""
    if len(own) >= FEWEST:
        found = ratio(reference, own)
        return {"median": found.median, "low": found.low, "high": found.high, "rounds": found.rounds}
    ratios = [r / o for r, o in zip(reference, own, strict=True)]
    return {"median": statistics.median(ratios), "low": None, "high": None, "rounds": len(own)} if ratios else {}


def interval(drawn: Sequence[float]) -> tuple[float, float]:
    """The percentile interval of something computed from resampled values many times."""
    low, high = np.quantile(drawn, ((1 - LEVEL) / 2, (1 + LEVEL) / 2))
    return float(low), float(high)


def _ratio_of_sums(reference: Sequence[float], own: Sequence[float]) -> dict[str, Any]:
    """All time over all time, with the shares of the gradient; rounds are resampled."""
    theirs_N, ours_N = np.array(reference), np.array(own)
    chosen_RN = np.random.default_rng(0).integers(0, len(own), (DRAWS, len(own)))
    low, high = interval(theirs_N[chosen_RN].sum(1) / ours_N[chosen_RN].sum(1))
    return {"ratio": float(theirs_N.sum() / ours_N.sum()), "low": low, "high": high, "rounds": len(own)}


def _over_epochs(peer: str, record: Record) -> dict[str, Any]:
    """The same where batches differ: whole epochs alone, because both sides then see the same examples."""
    names = [name for name in record["contestants"] if name != peer]
    sums: dict[str, list[float]] = {name: [] for name in (peer, *names)}
    length = record["settings"]["rows"] // record["settings"]["batch"]
    for session in record["sessions"]:
        by_epoch: dict[int, list[dict[str, float]]] = {}
        for one in session["rounds"]:
            by_epoch.setdefault(one["step"] // length, []).append(one["seconds"])
        for epoch in (rounds for rounds in by_epoch.values() if len(rounds) == length):
            for name, values in sums.items():
                values.append(sum(one[name] for one in epoch))
    return {name: _ratio(sums[peer], sums[name]) for name in names}


def _utilisation(rounds: Sequence[dict[str, Any]], contestants: dict[str, Any]) -> dict[str, float]:
    """Useful FLOPs of a step over what the core could do in its time, by the faster matrix product of its round."""
    found = {}
    for name, one in contestants.items():
        if one["same_batches"] and one["useful"]:
            shares = [
                sum(r["flops"][part] for part in one["useful"]) / r["seconds"][name] / max(r["peak"].values())
                for r in rounds
            ]
            found[name] = statistics.median(shares)
    return found


def _inside(steps: Sequence[dict[str, float]]) -> dict[str, Any]:
    """Medians over the steps that measure no shares of the gradient, where there are any."""
    plain = [step for step in steps if not step["measures_shares"]] or steps
    parts = {part: statistics.median(step.get(part, 0.0) / step["whole"] for step in plain) for part in USEFUL}
    return {"steps": len(plain), "outside": statistics.median(map(outside, plain)), **parts}


def text_of(found: dict[str, Any]) -> str:
    """A ratio as a table shows it."""
    middle = found.get("median", found.get("ratio"))
    if middle is None:
        return "–"
    return f"{middle:.2f}x" + (f" ({found['low']:.2f} to {found['high']:.2f})" if found["low"] is not None else "")


def table(record: Record, found: dict[str, Any]) -> str:
    """Markdown: a row for each contestant, then the other figures."""
    peers = list(found["over"])
    batch, contestants = record["settings"]["batch"], record["contestants"]
    head = [
        "contestant",
        "seconds a step",
        "examples/s",
        *(f"speed relative to {peer}" for peer in peers),
        "share of the peak",
    ]
    lines = [f"| {' | '.join(head)} |", "|---|" + "--:|" * (len(head) - 1)]
    for name, one in contestants.items():
        middle = found["seconds"][name]["median"]
        cells = [f"`{name}` {one['title']}", f"{middle:.3f}", f"{batch / middle:.2f}"]
        cells += ["1.00x" if name == peer else text_of(found["over"][peer].get(name, {})) for peer in peers]
        share = found["utilisation"].get(name)
        lines.append(f"| {' | '.join([*cells, '–' if share is None else f'{share:.0%}'])} |")
    lines += ["", f"{found['rounds']} rounds; peak: {found['peak_gflops']:.0f} GFLOP/s in fp32."]
    if "over_best_by_sums" in found:
        lines.append(
            f"`ours` over `{found['best_peer']}`: {text_of(found['over_best_without_shares'])} without the steps that "
            f"measure shares of the gradient, {text_of(found['over_best_by_sums'])} by sums of time, "
            f"{text_of(found['over_best_by_cpu'])} by the processor's time."
        )
    for peer, over in found.get("over_by_whole_epochs", {}).items():
        each = ", ".join(f"`{name}` {text_of(one)}" for name, one in over.items() if one)
        lines.append(f"Over `{peer}`, by whole epochs of the same examples: {each or 'none was timed whole'}.")
    if "inside" in found:
        parts = ", ".join(f"{part} {found['inside'][part]:.1%}" for part in USEFUL)
        lines.append(f"Inside our step: {parts}; outside these {found['inside']['outside']:.1%}.")
    lines += [about(record[part]) for part, about in GRIDS.items() if part in record]
    return "\n".join(lines)


def _computed(found: Mapping[str, Any]) -> str:
    """The grid that is computed from parts, in a sentence."""
    seconds, over = found["seconds"], found["over_peers"]
    each = "; ".join(f"{name} {seconds[name]:.0f} s, {text_of(over[name])}" for name in over)
    return (
        f"Grid of {found['rows']} rows and {found['epochs']} epochs, computed from parts: "
        f"peers {seconds['peers']:.0f} s; {each}."
    )


def _really_run(found: Mapping[str, Any]) -> str:
    """The small grid that both sides run, in a sentence."""
    seconds = found["seconds"]
    each = "; ".join(
        f"{name} {statistics.median(seconds[name]):.1f} s, {text_of(_ratio(seconds['peers'], seconds[name]))}"
        for name in seconds
        if name != "peers"
    )
    return (
        f"Grid of {len(found['students'])} students, {found['rows']} rows and {found['epochs']} epochs, really run: "
        f"peers {statistics.median(seconds['peers']):.1f} s; {each}."
    )


GRIDS: Mapping[str, Callable[[Mapping[str, Any]], str]] = {"grid": _computed, "real_grid": _really_run}
"""Parts of a record that a table names below its rows."""


def comparison(before: Record, after: Record) -> tuple[str, list[str]]:
    """Markdown of an older record and a newer one, and the names of those that got slower compared with a peer.

    A peer's step is the unit, because a machine's speed changes from day to day. Slower is who has an interval that
    lies below the older one.
    """
    old, new = figures(before), figures(after)
    lines = ["| contestant | seconds before | now | speed relative to a peer before | now |", "|---|--:|--:|--:|--:|"]
    slower = []
    for name in (name for name in new["seconds"] if name in old["seconds"]):
        for peer in (peer for peer in new["over"] if name in old["over"].get(peer, {}) and name in new["over"][peer]):
            then, today = old["over"][peer][name], new["over"][peer][name]
            cells = [f"{one['seconds'][name]['median']:.3f}" for one in (old, new)]
            lines.append(f"| `{name}` | {' | '.join(cells)} | {text_of(then)} over `{peer}` | {text_of(today)} |")
            if name.startswith("ours") and None not in (then["low"], today["high"]) and today["high"] < then["low"]:
                slower.append(name)
    return "\n".join(lines), sorted(set(slower))
