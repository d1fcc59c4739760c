"""What all pictures have in common: colours, a figure that gives the same bytes each time, and text that fits."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from bench.report.escape import flat

GREY, BLUE, PALE = "#444444", "#0072b2", "#bbbbbb"
"""Told apart by people who see colours differently (Okabe and Ito 2008), and by their brightness in print without colour."""
LINES = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000", "#7f7f7f")
"""Of several lines in one picture, in their order."""
DASHES = ("-", "--", "-.", ":")
"""Lines that follow one another differ in these too, for print without colour."""
LONGEST_LABEL = 44


def short(label: str) -> str:
    """A row's name as a picture can hold it: of a long one the beginning and the end."""
    half = LONGEST_LABEL // 2 - 1
    return label if len(label) <= LONGEST_LABEL else f"{label[:half]}…{label[-half:]}"


def escape_mathtext(text: str) -> str:
    """Text of others in a picture: a dollar sign begins no formula."""
    return flat(text).replace("$", r"\$")


@contextmanager
def drawing(width: float, height: float, form: str) -> Iterator[tuple[Any, io.BytesIO]]:
    """A figure with our look; after the block it is in the buffer, as SVG or PDF: the same figure, the same bytes.

    Args:
        width, height: inches.
    """
    import matplotlib

    matplotlib.use("Agg")
    look: Any = {
        "svg.hashsalt": "bert-bench",
        "svg.fonttype": "none",
        "pdf.fonttype": 42,
        "font.size": 9,
        "font.family": "sans-serif",
    }
    with matplotlib.rc_context(look):
        from matplotlib.figure import Figure

        figure, out = Figure(figsize=(width, height), layout="constrained"), io.BytesIO()
        yield figure, out
        engine = figure.get_layout_engine()
        assert engine is not None
        engine.execute(figure)
        figure.set_layout_engine("none")  # savefig would draw everything once more to lay it out
        undated = {"svg": ("Date", "Creator"), "pdf": ("CreationDate", "Creator", "Producer")}[form]
        figure.savefig(out, format=form, metadata=dict.fromkeys(undated))


def spread_labels(heights: Sequence[float], apart: float) -> list[float]:
    """Places for labels in falling order of ``heights``: each as near to its own as a distance between all allows.

    Labels that would touch become a block about the mean of its members' own heights.
    """
    order = sorted(range(len(heights)), key=lambda i: -heights[i])
    blocks: list[list[int]] = []

    def top(block: list[int]) -> float:
        return sum(heights[i] for i in block) / len(block) + apart * (len(block) - 1) / 2

    for index in order:
        blocks.append([index])
        while len(blocks) > 1 and top(blocks[-2]) - apart * len(blocks[-2]) < top(blocks[-1]):
            blocks[-2:] = [blocks[-2] + blocks[-1]]
    places = [0.0] * len(heights)
    for block in blocks:
        for place, index in enumerate(block):
            places[index] = top(block) - apart * place
    return places
