"""Which tables a report has: every file of this folder registers its own, so that a new table is one new file."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from bench.report.frame import Frame
from bench.report.groups import ReportGroup, ScoreColumn
from bench.report.mean_of_columns import MeanOfColumns, all_pairs, mean_scores
from bench.report.resampled import Resampled

RESULTS, PAIRED, RETENTION = "Results", "Paired comparisons", "Reappearance (retention)"
ABLATIONS, COST = "Ablations", "Cost and size"
ENVIRONMENT, PROVENANCE = "Learning rates and environment", "Provenance"
"""The sections of a report that have tables, in their order; before them is a summary."""
KEPT = 0.97
"""Share of the teacher's score that counts as kept, tested as non-inferiority."""


@dataclass(frozen=True)
class ReportData:
    """What tables are made of: the records of a group, their stored answers, and the share of a score that counts as kept."""

    group: ReportGroup
    answered: Mapping[ScoreColumn, Resampled] = field(default_factory=dict)
    kept: float = KEPT

    @cached_property
    def means(self) -> Mapping[str, MeanOfColumns]:
        """Complete row -> its mean score, with its interval."""
        return mean_scores(self.group, self.answered)

    @cached_property
    def pairs(self) -> Mapping[tuple[str, str], MeanOfColumns]:
        """Two complete rows with stored answers -> their mean difference, first - second."""
        return all_pairs(self.group, self.answered, list(self.means))

    @cached_property
    def tables(self) -> Sequence[Frame]:
        """All tables of the report, in its order."""
        return frames(self)


Make = Callable[[ReportData], Iterable[Frame | None]]
"""Makes the frames of one kind of table; None, or no frame, where the records have nothing for it."""


@dataclass(frozen=True)
class TableKind:
    """One kind of table of a report."""

    section: str
    place: int
    """tables are printed in the order of their places; those of a section follow one another"""
    make: Make


KINDS: dict[str, TableKind] = {}
"""Name of the function that makes them -> kind of table; filled when the files of this folder are imported."""


def table(section: str, place: int) -> Callable[[Make], Make]:
    """Register a function as a table of every report, in one of its sections."""

    def register(make: Make) -> Make:
        KINDS[f"{make.__module__}.{make.__qualname__}"] = TableKind(section, place, make)
        return make

    return register


def kinds() -> list[TableKind]:
    """All kinds of tables in the order of a report."""
    package = __name__.rpartition(".")[0]
    for module in pkgutil.iter_modules(importlib.import_module(package).__path__):
        importlib.import_module(f"{package}.{module.name}")
    return sorted(KINDS.values(), key=lambda kind: kind.place)


def frames(data: ReportData) -> list[Frame]:
    """All tables of a report, in its order."""
    made = [(kind, frame) for kind in kinds() for frame in kind.make(data)]
    return [replace(frame, section=kind.section) for kind, frame in made if frame is not None]
