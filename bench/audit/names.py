"""What the names of rows and columns say: averages, ratios, differences, teachers, and when two names are one."""

from __future__ import annotations

import re
from collections.abc import Mapping

from bench.audit.printed import Printed
from bench.audit.sheets import Row, Sheet

AVERAGE = re.compile(r"^(avg|average|mean|score|macro|overall|glue$|glue avg)", re.IGNORECASE)
RATIO = re.compile(r"percent|%\s*(?:of|\)|$)|reappear|reten|retain|\brelative\b|\bratios?\b|\bkept\b", re.IGNORECASE)
DIFFERENCE = re.compile(r"\bdiff|delta|Δ|\bgaps?\b|\bgains?\b|improve|\bminus\b|\bdrop\b|\bvs\b", re.IGNORECASE)
RATIO_COLUMN = re.compile(
    r"%\s*of|percent(?:age)? of|reappear|reten|retain|\brelative\b|\bratios?\b|\bkept\b", re.IGNORECASE
)
"""Narrower than for rows: a percent sign alone is the unit of many columns of scores."""
QUANTITY = re.compile(
    r"\b(?:mult-?adds?|macs?|flops?|param\w*|weights|layers|heads|vocab\w*|embeddings?|hidden size|dim(?:ension)?s?"
    r"|tokens|examples|sentences|samples|rows|steps|epochs|cells|seeds|trainings|batch(?:es)?(?: size)?"
    r"|time|latency|throughput|seconds|minutes|hours|memory|speed|energy)\b"
    r"|(?<!['’])\bs\b|\b(?:ms|mb|gb|mib|gib)\b|(?:^|(?<!±)\s)(?:n|sd|std)$",
    re.IGNORECASE,
)
UNIT = re.compile(r"(?<![Nn][Ll][Ii] )\((?:K|M|G|B|T|s|h)\)$")
"""Behind the name of a count or a time; MNLI (M) is a half of that task."""
COUNT = re.compile(r"(?i:\b(?:mult-?adds?|macs?|flops?)\b)|(?<![Nn][Ll][Ii] )\([MGBT]\)$")
CONDITION = re.compile(r"(?<![A-Za-z0-9,.])(\d[\d,]*)[\s-](rows|examples|samples|shots?|epochs)\b", re.IGNORECASE)
OPERATING_POINT = re.compile(
    r"[\s,(@]+(?:at\s+)?(?:(?:speed|threshold|patience|exit|entropy)\s*=?|@)\s*(\d[\d.]*).*$", re.IGNORECASE
)
COMPRESSION_COLUMN = re.compile(r"compress|smaller|reduction", re.IGNORECASE)
TEACHER = re.compile(r"teacher|_tea\b|\btea\b", re.IGNORECASE)


def is_average(column: str) -> bool:
    return bool(AVERAGE.match(column.strip()))


def derived_kind(column: str) -> str:
    """How a column is made from others by its name: ratio, difference, compression, or not at all."""
    if COMPRESSION_COLUMN.search(column):
        return "compression"
    return "ratio" if RATIO_COLUMN.search(column) else "difference" if DIFFERENCE.search(column) else ""


def is_quantity(column: str) -> bool:
    """Whether it counts or times something, or says how far scores scatter: rows of one shape agree in it by themselves."""
    return bool(QUANTITY.search(column) or UNIT.search(column.strip()))


def is_of_shape(column: str) -> bool:
    """Whether it counts weights or operations, which another shape has more or fewer of."""
    return bool(COUNT.search(column))


def is_score(column: str) -> bool:
    return not (is_average(column) or derived_kind(column) or is_quantity(column))


def score_columns(sheet: Sheet) -> list[str]:
    return [column for column in sheet.columns if is_score(column)]


def is_plain(row: Row) -> bool:
    """A system's own scores: not an average, a ratio or a difference of others."""
    kinds = {metric for metric, _ in row.kinds.values()}
    if kinds & {"percent_of_teacher", "percentage_points"}:
        return False
    return not (AVERAGE.match(row.system) or RATIO.search(row.system) or DIFFERENCE.search(row.system))


def scores_of(cells: Mapping[str, Printed]) -> dict[str, Printed]:
    return {column: cell for column, cell in cells.items() if is_score(column)}


def plain_name(system: str) -> str:
    """Letters and digits alone: BERT-PKD_4 and BERT4-PKD stay apart, BERT_TINY and BERT TINY meet."""
    return re.sub(r"[^a-z0-9]", "", system.lower())


def operating_point(system: str) -> tuple[str, str]:
    """The name of a model and the point at which it runs, "" where none is named: an early exit is one model at all speeds."""
    found = OPERATING_POINT.search(system)
    return (plain_name(system[: found.start()]), found[1]) if found else (plain_name(system), "")


def conditions(where: str) -> dict[str, str]:
    """What a table's name says of how much was trained on: tables of 4,000 and of 20,000 rows are two experiments."""
    return {found[2].lower(): found[1].replace(",", "") for found in CONDITION.finditer(where)}


def plain_task(column: str) -> str:
    return re.sub(r"[^a-z]", "", re.sub(r"\(.*", "", column.lower()))
