"""From the seconds of rounds to ratios with their intervals, and to a table."""

from __future__ import annotations

from statistics import median
from typing import Any

from bench.stats.ratios import ratio


def speed(reference: list[float], own: list[float]) -> dict[str, Any]:
    """How many times as fast as the reference: the median of the rounds, with an interval where there are enough."""
    try:
        whole = ratio(reference, own)
    except ValueError:
        return {
            "median": median(r / o for r, o in zip(reference, own, strict=True)),
            "rounds": len(own),
        }
    return {"median": whole.median, "low": whole.low, "high": whole.high, "rounds": len(own)}


def figures(record: dict[str, Any]) -> dict[str, Any]:
    """All that the table shows."""
    contestants = record["contestants"]
    rounds = [each["seconds"] for session in record["sessions"] for each in session["rounds"]]
    seconds = {name: [values[name] for values in rounds] for name in contestants}
    return {
        "rounds": len(rounds),
        "seconds": {name: {"median": median(values)} for name, values in seconds.items()},
        "over": {
            peer: {name: speed(seconds[peer], own) for name, own in seconds.items() if name != peer}
            for peer, one in contestants.items()
            if one["is_peer"]
        },
    }


def table(record: dict[str, Any], made: dict[str, Any]) -> str:
    """Markdown: a row for each contestant."""
    head = ["contestant", "seconds a step", *(f"speed relative to {peer}" for peer in made["over"])]
    lines = [f"| {' | '.join(head)} |", "|---|" + "--:|" * (len(head) - 1)]
    for name, one in record["contestants"].items():
        cells = [f"`{name}` {one['title']}", f"{made['seconds'][name]['median']:.3f}"]
        for over in made["over"].values():
            own = over.get(name, {"median": 1.0})
            interval = f" ({own['low']:.2f} to {own['high']:.2f})" if "low" in own else ""
            cells.append(f"{own['median']:.2f}x{interval}")
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join([*lines, "", f"{made['rounds']} rounds."])
