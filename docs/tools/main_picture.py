"""The pictures of main tables: ``python docs/tools/main_picture.py`` draws them anew.

Each is drawn from one CSV file of a report. The SVG file keeps that file's sha256, by which a test
sees whether the picture is that of the table.
"""

from __future__ import annotations

import csv
import hashlib
import re
import sys
from dataclasses import dataclass
from pathlib import Path

import matplotlib as mpl

ROOT = Path(__file__).resolve().parents[2]
ASSETS = ROOT / "docs" / "assets"
WIDTH = 6.2
"""Inches: small enough that the letters can be read where the picture is 360 pixels wide."""
BETTER = "#1b6ca8"
OTHER = "#555555"


@dataclass(frozen=True)
class Picture:
    """One picture and the report that it is drawn from.

    Attributes:
        baseline: the row that others are compared with, as the report has it.
        shown: what the axis calls it.
        ends: points at which the axis is cut: rows that are further off would flatten the others.
        shared: what the names of rows have in common, and are shown without.
    """

    file: Path
    report: Path
    baseline: str
    shown: str
    ends: tuple[float, float]
    shared: str

    @property
    def table(self) -> Path:
        return self.report / "tables" / "leaderboard.csv"


MAIN = Picture(
    ASSETS / "main-table.svg",
    ROOT / "reports" / "glue-20000-rows" / "all-minilm-1t-common-3ep-15a54441",
    "finetune (best of 6)",
    "finetune",
    (-6.0, 6.0),
    " (best of 6)",
)
STRONG = Picture(
    ASSETS / "strong-teacher.svg",
    ROOT / "reports" / "glue" / "all-mpnet--bf16-1t-common-3ep-a5c1c343",
    "kd:ffn=3072:hidden=768:layers=6:start=lowest",
    "kd:start=lowest",
    (-30.0, 5.0),
    ":ffn=3072:hidden=768:layers=6",
)
PICTURES = (MAIN, STRONG)


def digest(table: Path) -> str:
    """sha256 of the table that the picture is drawn from."""
    return hashlib.sha256(table.read_bytes()).hexdigest()


def rows_of(picture: Picture) -> list[tuple[str, float, float, float, str]]:
    """Name, difference, its interval and verdict of each row that is compared, best first."""
    found = []
    difference = f"difference to {picture.baseline}"
    with picture.table.open(encoding="utf-8", newline="") as stream:
        for row in csv.DictReader(stream):
            is_left_out = row["System"] in ("teacher", picture.baseline, "majority class")
            if is_left_out or not row[difference]:
                continue
            name = row["System"].replace(picture.shared, "")
            low = float(row[f"{difference} low"])
            high = float(row[f"{difference} high"])
            verdict = row[f"{difference} verdict"]
            found.append((name, float(row[difference]), low, high, verdict))
    return sorted(found, key=lambda row: -row[1])


def draw(picture: Picture) -> None:
    """A forest plot of the differences, cut to a few points around 0."""
    mpl.use("Agg")
    mpl.rcParams["svg.hashsalt"] = "main-table"
    from matplotlib import pyplot

    least, most = picture.ends
    rows = rows_of(picture)
    figure, axes = pyplot.subplots(figsize=(WIDTH, 0.38 * len(rows) + 1.1), layout="constrained")
    axes.axvline(0, color="black", linewidth=1)
    for place, (_, mean, low, high, verdict) in enumerate(rows):
        colour = BETTER if verdict == "better" else OTHER
        said = f"{mean:+.1f} ({low:+.1f} to {high:+.1f})"
        if low < least or high > most:
            # beyond the axis: an arrow, and the numbers
            axes.annotate(
                f"{said} {verdict.removesuffix(' for a verdict')}",
                (least, place),
                xytext=(least + (most - least) / 24, place),
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
    axes.set_xlim(least, most)
    axes.set_ylim(len(rows) - 0.4, -0.6)
    axes.tick_params(axis="x", labelsize=11)
    axes.set_xlabel(
        f"difference to {picture.shown}, points (95 % intervals)",
        fontsize=11,
    )
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="x", color="#dddddd")
    axes.set_axisbelow(True)
    picture.file.parent.mkdir(exist_ok=True)
    said = f"sha256 of {picture.table.name}: {digest(picture.table)}"
    metadata = {"Date": None, "Description": said}
    figure.savefig(picture.file, metadata=metadata, facecolor="white")
    pyplot.close(figure)


def is_current(picture: Picture) -> bool:
    """Whether a picture was drawn from its table as it is now."""
    text = picture.file.read_text(encoding="utf-8")
    kept = re.search(r"sha256 of \S+: ([0-9a-f]{64})", text)
    return kept is not None and kept.group(1) == digest(picture.table)


if __name__ == "__main__":
    for each in PICTURES:
        draw(each)
    sys.exit(0)
