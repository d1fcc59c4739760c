"""Which pictures a report has, in their order."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from bench.report.plot.forest import forest
from bench.report.plot.learning_curves import learning_curves
from bench.report.plot.retention_map import retention_map
from bench.report.plot.scatter import score_against_flops, score_against_latency
from bench.report.tables.registry import COST, RESULTS, RETENTION, ReportData


@dataclass(frozen=True)
class Picture:
    """One kind of picture."""

    name: str
    """of its file, without the ending"""
    section: str
    caption: str
    draw: Callable[[ReportData, str], bytes | None]
    """makes it from the records, as ``svg`` or ``pdf``; None where they have nothing for it"""


PICTURES = (
    Picture("differences", RESULTS, "Mean difference to the baseline, with 95 % intervals", forest),
    Picture("score-flops", RESULTS, "Mean score against FLOPs", score_against_flops),
    Picture("score-latency", RESULTS, "Mean score against measured latency", score_against_latency),
    Picture("retention", RETENTION, "Share of the teacher's score", retention_map),
    Picture("learning-curves", COST, "Learning curves of each term", learning_curves),
)
