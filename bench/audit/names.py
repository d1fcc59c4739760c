"""Read the names of rows and columns: averages, ratios, differences, teachers, equal names."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache

from bench.audit.printed import PrintedNumber
from bench.audit.table import PrintedRow, Sheet

AVERAGE = re.compile(
    r"^\W*(avg|average|mean\b|score|macro(?![ -]?f)|overall|glue$|glue avg|aver\.|ave\.|ave$"
    r"|avr\.?$|moyenne|durchschnitt|mittel|media$|promedio"
    r"|gemiddeld|średni|среднее|平均|均值|总分|均分|평균)",
    re.IGNORECASE,
)
AVERAGE_LAST = re.compile(
    r"(?:\b(?:avg|average)|平均|평균)\.?\s*(?:score|acc\w*)?\s*(?:\([^()]*\))?$", re.IGNORECASE
)
TOTAL = re.compile(
    r"^\W*(?:grand |sub)?(?:total|sum|summe|gesamt|somme|合计|总计|总和|합계)\b"
    r"\W*(?:\([^()]*\))?$",
    re.IGNORECASE,
)
RATIO = re.compile(
    r"percent(?!ile)|%\s*of|(?<![\d\s])\s*%\s*(?:\)|$)"
    r"|reappear|reten|retain|\brelative\b|\bratios?\b|\bkept\b",
    re.IGNORECASE,
)
DIFFERENCE = re.compile(
    r"\bdiff|delta|Δ|\bgaps?\b|\bgains?\b|improve|\bminus\b|\bdrop\b(?!\s*\()|\bvs\b"
    r"|\bdegradation|\b(?:in|de)crease|\bchange\b",
    re.IGNORECASE,
)
RATIO_COLUMN = re.compile(
    r"%\s*of|[A-Za-z]%$|percent(?:age)? of|reappear|reten|retain|\brelative\b|\bratios?\b|\bkept\b",
    re.IGNORECASE,
)
"""Narrower than for rows: a percent sign alone is the unit of many columns of scores."""
QUANTITY = re.compile(
    r"^\W*#|\b(?:size|length|lr|learning rate|warm-?up\w*|dropout|seq(?:uence)?|(?:max|min) \w+"
    r"|rank|year|bits?|sparsity|ratio|ppl|perplexity|loss|price|cost|gpus?|threads?|width|depth"
    r"|latenz|zeit|schritte|größe|temps|durée|taille|tiempo|tamaño|download\w*|stars|threshold"
    r"|runs?|count|number|total|sum|\w*shots?|context|window|p(?:-value)?|iter\w*|decay"
    r"|temperature|alpha|beta)\b"
    r"|时间|参数|层数|词表|大小|速度|显存|学习率|步数|句长|시간|파라미터|층|크기|속도|時間|サイズ|パラメータ|層"
    r"|время|слоёв|параметр|размер"
    r"|\b(?:mult-?adds?|macs?|flops?|param\w*|weights|layers|heads|vocab\w*|embeddings?|hidden size"
    r"|dim(?:ension)?s?|tokens|examples|sentences|samples|rows|steps|epochs|cells|seeds|tests"
    r"|trainings|batch(?:es)?(?: size)?|time|latency|throughput|seconds|minutes|hours|memory|speed"
    r"|energy)\b"
    r"|(?<!['’])\bs\b|\b(?:ms|mb|gb|mib|gib)\b|(?:^|(?<!±)\s)(?:n|sd|std)$",
    re.IGNORECASE,
)
UNIT = re.compile(r"(?<![Nn][Ll][Ii] )\((?:K|M|G|B|T|s|h)\)$")
"""Behind the name of a count or a time; MNLI (M) is a half of that task."""
CONDITION = re.compile(
    r"(?<![A-Za-z0-9,.])(\d[\d,]*)[\s-](?:training[\s-])?(rows|examples|samples|shots?|epochs)\b",
    re.IGNORECASE,
)
COMPRESSION_COLUMN = re.compile(r"compress|smaller|reduction", re.IGNORECASE)
NAMES = 20_000
"""Names that are remembered: a table asks for each many times."""
TEACHER = re.compile(r"teacher|_tea\b|\btea\b", re.IGNORECASE)


@lru_cache(NAMES)
def is_average(column: str) -> bool:
    return bool(AVERAGE.match(column.strip()) or AVERAGE_LAST.search(column.strip()))


def _is_called(system: str, *patterns: re.Pattern[str]) -> bool:
    """Whether a name of a row, or the last of its parts, begins so."""
    return any(
        pattern.match(part.strip())
        for pattern in patterns
        for part in (system, system.rpartition(", ")[2])
    )


def is_average_row(row: PrintedRow) -> bool:
    return _is_called(row.system, AVERAGE)


def is_total_row(row: PrintedRow) -> bool:
    return _is_called(row.system, TOTAL)


def is_quantity_row(row: PrintedRow) -> bool:
    """Whether a row is named as a count or a time, in a table of systems in columns."""
    return _is_called(row.system, QUANTITY)


DETECTABLE = re.compile(r"^min(?:imum|\.)? detectable|^p[- ]?values?$|^p$", re.IGNORECASE)
"""Rows and columns that say how sure the others are: each number is of its own cell alone, also
below an average."""
COUNTED = re.compile(r"^(?:n|tests|seeds|examples)$", re.IGNORECASE)
"""Columns of counts, whose totals and not whose means stand below them."""
UNCERTAIN = re.compile(r"interval|\bci\b|\bsd\b|\bstd\b", re.IGNORECASE)
"""Columns of intervals and deviations."""


@lru_cache(NAMES)
def derived_kind(column: str) -> str:
    """How a column is made of others by its name: ratio, difference, compression, or not at all."""
    if re.search(r"\bgeo", column, re.IGNORECASE):
        return ""  # a geometric mean is none of them
    if COMPRESSION_COLUMN.search(column):
        return "compression"
    if RATIO_COLUMN.search(column):
        return "ratio"
    return "difference" if DIFFERENCE.search(column) else ""


def is_quantity(column: str) -> bool:
    """Whether a column counts or times something, or says how far scores scatter.

    Rows of systems of one shape agree in it by themselves.
    """
    return bool(QUANTITY.search(column) or UNIT.search(column.strip()))


@lru_cache(NAMES)
def is_score(column: str) -> bool:
    unnamed = re.fullmatch(r"column \d+(?: \(.*\))?", column)
    return not (unnamed or is_average(column) or derived_kind(column) or is_quantity(column))


def is_plain(row: PrintedRow) -> bool:
    """A system's own scores: not an average, a ratio or a difference of others."""
    kinds = {metric for metric, _ in row.kinds.values()}
    return not kinds & {"percent_of_teacher", "percentage_points"} and _is_plain_name(row.system)


@lru_cache(NAMES)
def _is_plain_name(system: str) -> bool:
    others = RATIO, DIFFERENCE, DETECTABLE
    return not (_is_called(system, AVERAGE, TOTAL) or any(kind.search(system) for kind in others))


def scores_of(cells: Mapping[str, PrintedNumber]) -> dict[str, PrintedNumber]:
    return {column: cell for column, cell in cells.items() if is_score(column)}


@lru_cache(NAMES)
def plain_name(system: str) -> str:
    """A name in letters and digits alone.

    BERT-PKD_4 and BERT4-PKD stay apart, BERT_TINY and BERT TINY meet.
    """
    return re.sub(r"[^a-z0-9]", "", system.lower())


def conditions(where: str) -> dict[str, str]:
    """How much a table's name says that was trained on: its unit -> the number.

    Tables of 4,000 and of 20,000 rows are two experiments.
    """
    return {
        condition[2].lower(): condition[1].replace(",", "")
        for condition in CONDITION.finditer(where)
    }


def plain_task(column: str) -> str:
    """A column's name without what is in brackets, in letters alone: MNLI-m is not MNLI-mm."""
    return re.sub(r"[^a-z]", "", re.sub(r"\(.*", "", column.lower()))


METRIC = re.compile(
    r"\b(?:acc(?:uracy)?|f1|em|mcc|matthews|m(?:atthews)?[ -]?corr|pearson|spearman|p-s corr|corr"
    r"|matched|mismatched|mm?|first|second)\b\.?",
    re.IGNORECASE,
)


def whole_name(text: str) -> str:
    """A name without case and blanks, with every digit, sign and bracket.

    F1 and EM, v1 and v2, B/16 and B/32 are apart.
    """
    return re.sub(r"\s+", "", text).casefold()


def task_of(column: str) -> str:
    """A column's name without its metric: the columns of one task have one."""
    return re.sub(r"[^\w]|_", "", METRIC.sub("", column.lower()))


def has_scores(sheet: Sheet, column: str) -> bool:
    """Whether a column's numbers look like scores, in any language.

    Scores are decimals between 0 and 100, mostly different, without a unit.
    """
    if not is_score(column):
        return False
    # the numbers of systems, of one kind
    cells = [row.cells[column] for row in sheet.rows if column in row.cells and is_plain(row)]
    if not cells or any(_is_of_unit(cell) for cell in cells):
        return False
    decimal = sum(cell.places >= 1 and 0 <= cell.value <= 100 for cell in cells)
    if decimal < 0.7 * len(cells):
        return False

    # a few may be equal
    distinct = len({cell.value for cell in cells})
    return len(cells) < 6 or distinct >= 0.4 * len(cells)


def _is_of_unit(cell: PrintedNumber) -> bool:
    """Whether a number has a unit other than percent, or a power of ten."""
    return "e" in cell.text.lower() or cell.unit not in ("", "%")
