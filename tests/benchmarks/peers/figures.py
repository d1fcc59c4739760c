"""From the seconds of rounds to ratios with their intervals, and to a table."""

from __future__ import annotations

from statistics import median
from typing import Any

from bench.stats.ratios import ratio


def seconds_of(record: dict[str, Any]) -> dict[str, list[float]]:
    """Contestant -> seconds of its step in every round."""
    rounds = [each["seconds"] for session in record["sessions"] for each in session["rounds"]]
    return {name: [seconds[name] for seconds in rounds] for name in record["contestants"]}


def speeds(record: dict[str, Any], reference: str) -> dict[str, dict[str, Any]]:
    """Contestant -> how many times as fast as the reference: the median of the rounds, with an interval where there are enough.

    A reference with other batches is compared by whole epochs: both sides have then seen the same examples. The first round is
    step 1 of an epoch that began before it was timed.
    """
    has_same_batches = {name: one["same_batches"] for name, one in record["contestants"].items()}
    length = 1 if has_same_batches[reference] else record["settings"]["rows"] // record["settings"]["batch"]
    sums = {
        name: [sum(values[i : i + length]) for i in range(length - 1, len(values) - length + 1, length)]
        for name, values in seconds_of(record).items()
        if has_same_batches[name] or not has_same_batches[reference]
    }
    found: dict[str, dict[str, Any]] = {}
    for name, own in sums.items():
        if name == reference or not own:
            continue
        try:
            whole = ratio(sums[reference], own)
            found[name] = {"median": whole.median, "low": whole.low, "high": whole.high, "rounds": whole.rounds}
        except ValueError:  # too few for an interval
            found[name] = {
                "median": median(r / o for r, o in zip(sums[reference], own, strict=True)),
                "rounds": len(own),
            }
    return found


def figures(record: dict[str, Any]) -> dict[str, Any]:
    """All that the table shows."""
    contestants, seconds = record["contestants"], seconds_of(record)
    return {
        "rounds": len(next(iter(seconds.values()))),
        "seconds": {name: {"median": median(values)} for name, values in seconds.items()},
        "over": {name: speeds(record, name) for name, one in contestants.items() if one["is_peer"]},
        "over_by_whole_epochs": {n: speeds(record, n) for n, one in contestants.items() if not one["same_batches"]},
    }


def text_of(speed: dict[str, Any] | None) -> str:
    """A ratio as a table shows it."""
    if not speed:
        return "–"
    return f"{speed['median']:.2f}x" + (f" ({speed['low']:.2f} to {speed['high']:.2f})" if "low" in speed else "")


def table(record: dict[str, Any], made: dict[str, Any]) -> str:
    """Markdown: a row for each contestant."""
    references = made["over"] | made["over_by_whole_epochs"]
    head = ["contestant", "seconds a step", *(f"speed relative to {name}" for name in references)]
    lines = [f"| {' | '.join(head)} |", "|---|" + "--:|" * (len(head) - 1)]
    for name, one in record["contestants"].items():
        cells = [f"`{name}` {one['title']}", f"{made['seconds'][name]['median']:.3f}"]
        cells += ["1.00x" if name == other else text_of(over.get(name)) for other, over in references.items()]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join([*lines, "", f"{made['rounds']} rounds."])
