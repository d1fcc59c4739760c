"""Compare BERT compression methods: plan, run, measure, record, report. The Python interface is
``bench.api``."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from pandas import DataFrame

__version__ = "0.1.0"


def load(results: Path | str, everything: bool = False) -> DataFrame:
    """The scores of a folder of records as a DataFrame, a line each; :func:`bench.report.load.load`
    names the columns.

    Args:
        everything: also the trainings that newer ones of the same name replace.

    Raises:
        NothingMeasured: no record there has a score.
    """
    from bench.report.load import load as carry_out  # here: importing the package loads nothing

    return carry_out(results, everything)
