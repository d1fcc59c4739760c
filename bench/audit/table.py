"""One form for the tables of all containers: rows of systems with numbers below column names."""

from __future__ import annotations

from dataclasses import dataclass, field
from decimal import Decimal
from functools import cached_property

from bench.audit.printed import PrintedNumber

UNKNOWN = ("", "unknown", "mixed")
"""Metrics and splits that say nothing."""


@dataclass
class PrintedRow:
    """One system of a table."""

    system: str
    cells: dict[str, PrintedNumber]
    """column -> what is printed there"""
    kinds: dict[str, tuple[str, str]] = field(default_factory=dict)
    """column -> metric and split, where the source says them"""
    sizes: dict[str, PrintedNumber] = field(default_factory=dict)
    """params, flops, speed-up"""
    line: int = 0
    """of the file; 0 where it is not known"""
    group: str = ""
    """the line of words above that heads several rows"""
    label: str = ""
    """what its first cell shows, its own or the one above"""


@dataclass
class Sheet:
    """One table of one source."""

    source: str
    name: str
    rows: list[PrintedRow]
    in_order: dict[str, list[Decimal]] = field(default_factory=dict, compare=False, repr=False)
    """column -> the scores of its systems from least to greatest, of the columns in which a place
    was asked for"""

    @cached_property
    def columns(self) -> list[str]:
        return list(dict.fromkeys(column for row in self.rows for column in row.cells))

    @property
    def where(self) -> str:
        return f"{self.source}: {self.name}" if self.name else self.source
