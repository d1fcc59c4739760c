"""The picture at the head of the README: ``python docs/tools/main_picture.py`` draws it anew.

It is drawn from one CSV file of the main report. The SVG file keeps that file's sha256, by which a
test sees whether the picture is that of the table.
"""

from __future__ import annotations

import csv
import hashlib
import re
import sys
from pathlib import Path

import matplotlib as mpl

ROOT = Path(__file__).resolve().parents[2]
REPORT = ROOT / "reports" / "glue-20000-rows" / "all-minilm-1t-common-3ep-15a54441"
TABLE = REPORT / "tables" / "leaderboard.csv"
PICTURE = ROOT / "docs" / "assets" / "main-table.svg"
ENDS = 6.0
"""Points at which the axis is cut: rows that are further off would flatten the others."""
DIFFERENCE = "difference to finetune (best of 6)"
LEFT_OUT = ("teacher", "finetune (best of 6)", "majority class")
WIDTH = 6.2
"""Inches: small enough that the letters can be read where the picture is 360 pixels wide."""
BETTER = "#1b6ca8"
OTHER = "#555555"


def digest(table: Path) -> str:
    """sha256 of the table that the picture is drawn from."""
    return hashlib.sha256(table.read_bytes()).hexdigest()


def rows_of(table: Path) -> list[tuple[str, float, float, float, str]]:
    """Name, difference, its interval and verdict of each row that is compared, best first."""
    found = []
    with table.open(encoding="utf-8", newline="") as stream:
        for row in csv.DictReader(stream):
            if row["System"] in LEFT_OUT or not row[DIFFERENCE]:
                continue
            name = row["System"].replace(" (best of 6)", "")
            low = float(row[f"{DIFFERENCE} low"])
            high = float(row[f"{DIFFERENCE} high"])
            verdict = row[f"{DIFFERENCE} verdict"]
            found.append((name, float(row[DIFFERENCE]), low, high, verdict))
    return sorted(found, key=lambda row: -row[1])


def draw(table: Path, picture: Path) -> None:
    """A forest plot of the differences, cut to a few points around 0."""
    mpl.use("Agg")
    mpl.rcParams["svg.hashsalt"] = "main-table"
    from matplotlib import pyplot

    rows = rows_of(table)
    figure, axes = pyplot.subplots(figsize=(WIDTH, 0.38 * len(rows) + 1.1), layout="constrained")
    axes.axvline(0, color="black", linewidth=1)
    for place, (_, mean, low, high, verdict) in enumerate(rows):
        colour = BETTER if verdict == "better" else OTHER
        said = f"{mean:+.1f} ({low:+.1f} to {high:+.1f})"
        if low < -ENDS or high > ENDS:
            # beyond the axis: an arrow, and the numbers
            axes.annotate(
                f"{said} {verdict.removesuffix(' for a verdict')}",
                (-ENDS, place),
                xytext=(-ENDS + 0.5, place),
                va="center",
                fontsize=11,
                color=colour,
                arrowprops={"arrowstyle": "->", "color": colour},
                bbox={"facecolor": "white", "edgecolor": "none", "pad": 1.5},
            )
            continue
        axes.plot([low, high], [place, place], color=colour, linewidth=2)
        axes.plot(mean, place, "o", color=colour, markersize=7)
    names = [name.replace(":", ":\n") for name, *_ in rows]
    axes.set_yticks(range(len(rows)), names, fontsize=11, linespacing=1.0)
    axes.set_xlim(-ENDS, ENDS)
    axes.set_ylim(len(rows) - 0.4, -0.6)
    axes.tick_params(axis="x", labelsize=11)
    axes.set_xlabel(
        "difference to finetune, points (95 % intervals)",
        fontsize=11,
    )
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="x", color="#dddddd")
    axes.set_axisbelow(True)
    picture.parent.mkdir(exist_ok=True)
    metadata = {"Date": None, "Description": f"sha256 of {table.name}: {digest(table)}"}
    figure.savefig(picture, metadata=metadata, facecolor="white")
    pyplot.close(figure)


def is_current(table: Path, picture: Path) -> bool:
    """Whether a picture was drawn from this table."""
    kept = re.search(r"sha256 of \S+: ([0-9a-f]{64})", picture.read_text(encoding="utf-8"))
    return kept is not None and kept.group(1) == digest(table)


if __name__ == "__main__":
    draw(TABLE, PICTURE)
    sys.exit(0)
