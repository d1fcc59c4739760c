"""What can be checked in printed tables without any other knowledge than arithmetic and the names of things.

Averages and derived rows are held against the rule that most of their own table follows; a cell is a finding only if no
rounding of the numbers behind it could have given what is printed (with a margin for averages of unrounded scores).
"""

from __future__ import annotations

import re
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import ROUND_HALF_UP, Decimal
from itertools import combinations

from bench.audit.findings import ARITHMETIC, INFERENCE, Finding
from bench.audit.printed import Printed
from bench.audit.sheets import UNKNOWN, Row, Sheet

AVERAGE = re.compile(r"^(avg|average|mean|score|macro|overall|glue$|glue avg)", re.IGNORECASE)
RATIO = re.compile(r"percent|%|reappear|retention|retain|relative|ratio|kept", re.IGNORECASE)
DIFFERENCE = re.compile(r"diff|delta|Δ|gap|gain|improve|minus|drop|\bvs\b", re.IGNORECASE)
TEACHER = re.compile(r"teacher|_tea\b|\btea\b", re.IGNORECASE)
DEVIATIONS = 3.5
"""Standard deviations of the rounding of the scores behind an average that are let pass."""
TOKENS = 128
"""Sequence length of the FLOPs that papers print."""


def audit(sheets: Sequence[Sheet]) -> list[Finding]:
    """Every finding of every check, in the order of the tables."""
    found: list[Finding] = []
    for sheet in sheets:
        for check in (averages, average_rows, derived_rows, derived_columns, mixed_metrics, sizes, speed_ups):
            found += check(sheet)
    for across in (duplicates, quotes, teachers):
        found += across(sheets)
    order = {sheet.where: number for number, sheet in enumerate(sheets)}
    return sorted(dict.fromkeys(found), key=lambda f: order.get(f.where, len(order)))


def is_average(column: str) -> bool:
    return bool(AVERAGE.match(column.strip()))


def score_columns(sheet: Sheet) -> list[str]:
    return [column for column in sheet.columns if not is_average(column)]


def is_plain(row: Row) -> bool:
    """A system's own scores: not an average, a ratio or a difference of others."""
    kinds = {metric for metric, _ in row.kinds.values()}
    if kinds & {"percent_of_teacher", "percentage_points"}:
        return False
    return not (AVERAGE.match(row.system) or RATIO.search(row.system) or DIFFERENCE.search(row.system))


def _shown(value: Decimal, like: Printed) -> str:
    return str(value.quantize(like.unit, ROUND_HALF_UP))


def _rank_change(sheet: Sheet, row: Row, column: str, right: Decimal) -> str:
    """Whether the recomputed value moves the row in its column."""
    others = [r.cells[column].value for r in sheet.rows if r is not row and column in r.cells and is_plain(r)]
    before, after = (sum(other > value for other in others) for value in (row.cells[column].value, right))
    if is_plain(row) and before != after:
        return f"a ranking: {before + 1} becomes {after + 1}"
    return "a headline" if is_average(column) or AVERAGE.match(row.system) else "a digit"


# averages over columns


def _without(columns: Sequence[str], pattern: str) -> list[str]:
    return [column for column in columns if not re.search(pattern, column, re.IGNORECASE)]


def _rules(columns: Sequence[str]) -> dict[str, Callable[[Mapping[str, Decimal]], tuple[Decimal, int] | None]]:
    """Ways in which a table may average: name -> mean and number of parts, or None where a cell is missing."""

    def mean(chosen: Sequence[str]) -> Callable[[Mapping[str, Decimal]], tuple[Decimal, int] | None]:
        def of(cells: Mapping[str, Decimal]) -> tuple[Decimal, int] | None:
            if len(chosen) < 2 or any(column not in cells for column in chosen):
                return None
            return sum((cells[c] for c in chosen), Decimal(0)) / len(chosen), len(chosen)

        return of

    matched = [c for c in columns if re.search(r"mnli", c, re.IGNORECASE)]
    rest = [c for c in columns if c not in matched]

    def merged(cells: Mapping[str, Decimal]) -> tuple[Decimal, int] | None:
        if len(matched) != 2 or any(c not in cells for c in columns):
            return None
        both = (cells[matched[0]] + cells[matched[1]]) / 2
        return (both + sum((cells[c] for c in rest), Decimal(0))) / (len(rest) + 1), len(rest) + 1

    return {
        "the mean of all columns": mean(columns),
        "the mean with the two MNLI columns as one": merged,
        "the mean without WNLI": mean(_without(columns, "wnli")),
        "the mean without MNLI-mm": mean(_without(columns, "mm")),
        "the mean without WNLI and MNLI-mm": mean(_without(columns, "wnli|mm")),
    }


def _slack(cell: Printed, parts: int, unit: Decimal) -> Decimal:
    """How far an average may lie from that of the printed scores: its own rounding, and that of the scores behind it."""
    spread = float(unit) / (12 * parts) ** 0.5 * DEVIATIONS
    return cell.unit / 2 + min(unit / 2, Decimal(str(round(spread, 6))))


def averages(sheet: Sheet) -> Iterator[Finding]:
    """Average columns against the rule that most rows follow."""
    for column in [c for c in sheet.columns if is_average(c)]:
        columns = score_columns(sheet)
        rows = [r for r in sheet.rows if (column in r.cells and is_plain(r)) or AVERAGE.match(r.system)]
        rows = [r for r in rows if column in r.cells]
        best: tuple[int, str, list[tuple[Row, Decimal, int, Decimal]]] | None = None
        for name, rule in _rules(columns).items():
            judged = []
            for row in rows:
                average = rule({c: row.cells[c].value for c in columns if c in row.cells})
                if average is not None:
                    unit = max(row.cells[c].unit for c in columns if c in row.cells)
                    judged.append((row, *average, unit))
            fitting = sum(abs(r.cells[column].value - m) <= _slack(r.cells[column], n, u) for r, m, n, u in judged)
            if judged and (best is None or fitting > best[0]):
                best = fitting, name, judged
        if best is None or best[0] < max(1, len(best[2]) / 2):
            continue
        _, name, judged = best
        exact = [r.cells[column].is_rounded(m) for r, m, _, _ in judged]
        cut = [r.cells[column].is_cut(m) and not e for (r, m, _, _), e in zip(judged, exact, strict=True)]
        # where an average has no more digits than its scores, chance cuts one now and then; never all of them
        everywhere = sum(cut) >= 2 and all(r.cells[column].is_cut(m) for r, m, _, _ in judged)
        for (row, made, parts, unit), is_exact, is_cut in zip(judged, exact, cut, strict=True):
            cell = row.cells[column]
            others = [e for (r, _, _, _), e in zip(judged, exact, strict=True) if r is not row]
            printed_rule = cell.unit < unit and len(others) >= 2 and sum(others) >= 0.8 * len(others)
            if abs(cell.value - made) > _slack(cell, parts, unit) or (printed_rule and not is_exact and not is_cut):
                yield Finding(
                    sheet.where,
                    row.system,
                    column,
                    cell.text,
                    _shown(made, cell),
                    ARITHMETIC,
                    "average",
                    f"{name} of this row",
                    _rank_change(sheet, row, column, made.quantize(cell.unit, ROUND_HALF_UP)),
                )
            elif is_cut and (everywhere or (cell.unit < unit and (sum(cut) >= 2 or printed_rule))):
                yield Finding(
                    sheet.where,
                    row.system,
                    column,
                    cell.text,
                    _shown(made, cell),
                    ARITHMETIC if cell.unit < unit else INFERENCE,
                    "truncation",
                    f"{name} is cut off here and rounded elsewhere"
                    if any(exact)
                    else f"{name} is cut off, not rounded",
                    "a digit",
                )


def average_rows(sheet: Sheet) -> Iterator[Finding]:
    """Rows that average the rows above them, against the set of rows that most columns follow."""
    for place, row in enumerate(sheet.rows):
        if not AVERAGE.match(row.system) or len(row.cells) < 2:
            continue
        above = [r for r in sheet.rows[:place] if is_plain(r)]
        choices: dict[str, list[Row]] = {
            "all rows above": above,
            "all rows above but the first": above[1:],
            "all rows above but teachers": [r for r in above if not TEACHER.search(r.system)],
            "all rows above but the first two": above[2:],
        }
        best: tuple[int, str, dict[str, Decimal]] | None = None
        for name, chosen in choices.items():
            made = {
                column: sum((r.cells[column].value for r in chosen), Decimal(0)) / len(chosen)
                for column in row.cells
                if len(chosen) >= 2 and all(column in r.cells for r in chosen)
            }
            fitting = sum(
                abs(row.cells[c].value - m) <= _slack(row.cells[c], len(chosen), row.cells[c].unit)
                for c, m in made.items()
            )
            if made and (best is None or fitting > best[0]):
                best = fitting, name, made
        if best is None or best[0] < max(2, len(best[2]) / 2):
            continue
        _, name, made = best
        count = len(choices[name])
        for column, mean in made.items():
            cell = row.cells[column]
            if abs(cell.value - mean) > _slack(cell, count, cell.unit):
                yield Finding(
                    sheet.where,
                    row.system,
                    column,
                    cell.text,
                    _shown(mean, cell),
                    ARITHMETIC,
                    "average",
                    f"the mean of {name} in this column",
                    "a headline",
                )


# ratios and differences of two rows or two columns


def _ratio(a: Printed, b: Printed) -> tuple[Decimal, Decimal]:
    """100 a / b, and how far rounding of both may move it."""
    value = 100 * a.value / b.value
    return value, abs(value) * (a.unit / 2 / abs(a.value) + b.unit / 2 / abs(b.value)) if a.value else Decimal(0)


def _gap(a: Printed, b: Printed) -> tuple[Decimal, Decimal]:
    return a.value - b.value, (a.unit + b.unit) / 2


def _derived(
    target: Mapping[str, Printed],
    sources: Sequence[tuple[str, Mapping[str, Printed]]],
    kind: str,
    hinted: bool,
) -> tuple[str, dict[str, tuple[Decimal, Decimal]], tuple[str, str]] | None:
    """The pair of sources that most of the target's cells follow, and what it gives; None where no pair convinces."""
    best: tuple[float, str, dict[str, tuple[Decimal, Decimal]], tuple[str, str]] | None = None
    for (first, a), (second, b) in ((x, y) for x in sources for y in sources if x is not y):
        shared = [c for c in target if c in a and c in b and (kind == "difference" or b[c].value)]
        if len(shared) < (2 if hinted else 4):
            continue
        made = {c: (_ratio if kind == "ratio" else _gap)(a[c], b[c]) for c in shared}
        near = [abs(target[c].value - v) <= s + target[c].unit / 2 for c, (v, s) in made.items()]
        share = sum(near) / len(near)
        if share >= (0.5 if hinted else 0.75) and sum(near) >= 2 and (best is None or share > best[0]):
            name = f"100 x {first} / {second}" if kind == "ratio" else f"{first} - {second}"
            best = share, name, made, (first, second)
    return None if best is None else best[1:]


def derived_rows(sheet: Sheet) -> Iterator[Finding]:
    """Rows of percentages or differences against the two rows that they come from."""
    plain = [(row.system, row.cells) for row in sheet.rows if is_plain(row)]
    ratios = [(row.system, row.cells) for row in sheet.rows if not is_plain(row) and RATIO.search(row.system)]
    for row in sheet.rows:
        if is_plain(row) or AVERAGE.match(row.system):
            continue
        metrics = {metric for metric, _ in row.kinds.values()}
        differs = bool(DIFFERENCE.search(row.system)) or "percentage_points" in metrics
        sources = [*plain, *([x for x in ratios if x[0] != row.system] if differs else [])]
        kind = "difference" if differs else "ratio"
        scores = {c: v for c, v in row.cells.items() if not is_average(c)}
        found = _derived(scores, sources, kind, hinted=True)
        turned: list[str] = []
        if found is not None:
            rule, made, (first, second) = found
            yield from _mismatches(sheet, row, scores, kind, rule, made)
            if kind == "difference":
                yield from _label(sheet, row, first, second)
                of_average = list(_average_of_rule(sheet, row, sources, first, second))
                yield from of_average
                turned = [finding.column for finding in of_average]
        yield from _mean_of_own(sheet, row, kind, turned)


def _label(sheet: Sheet, row: Row, first: str, second: str) -> Iterator[Finding]:
    """A label like ``Difference (A-B)`` whose numbers are B - A."""
    named = re.search(r"(\w+)\s*[-−–]\s*(\w+)", re.sub(r".*\(|\).*", "", row.system))
    if not named:
        return
    left, right = (plain_name(part) for part in named.groups())
    if left in plain_name(second) and right in plain_name(first) and left not in plain_name(first):
        yield Finding(
            sheet.where,
            row.system,
            "",
            named.group(0),
            f"{named.group(2)}-{named.group(1)}",
            INFERENCE,
            "sign",
            f"its cells are {first} - {second}: the other way round",
            "the sign of a comparison",
        )


def _average_of_rule(
    sheet: Sheet, row: Row, sources: Sequence[tuple[str, Mapping[str, Printed]]], first: str, second: str
) -> Iterator[Finding]:
    """The average cell of a row of differences: the difference of the two averages."""
    cells = dict(sources)
    for column in [c for c in row.cells if is_average(c) and c in cells[first] and c in cells[second]]:
        value, slack = _gap(cells[first][column], cells[second][column])
        cell = row.cells[column]
        if abs(cell.value - value) > slack + cell.unit / 2:
            turned = abs(cell.value + value) <= slack + cell.unit / 2
            yield Finding(
                sheet.where,
                row.system,
                column,
                cell.text,
                _shown(value, cell),
                ARITHMETIC,
                "sign" if turned else "difference",
                f"{first} - {second}{', as the other cells are: the sign is turned' if turned else ''}",
                "a headline",
            )


def _mean_of_own(sheet: Sheet, row: Row, kind: str, known: Sequence[str]) -> Iterator[Finding]:
    """The average cell of a derived row: the mean of its own cells, unless something else is wrong with it already."""
    for column in [c for c in row.cells if is_average(c) and c not in known]:
        own = [v for c, v in row.cells.items() if not is_average(c)]
        if len(own) < 2:
            continue
        made = sum((v.value for v in own), Decimal(0)) / len(own)
        cell, unit = row.cells[column], max(v.unit for v in own)
        if abs(cell.value - made) > _slack(cell, len(own), unit):
            yield Finding(
                sheet.where,
                row.system,
                column,
                cell.text,
                _shown(made, cell),
                INFERENCE,
                "average",
                f"the mean of this row's own {kind}s",
                "a headline",
            )


def _mismatches(
    sheet: Sheet,
    row: Row,
    cells: Mapping[str, Printed],
    kind: str,
    rule: str,
    made: Mapping[str, tuple[Decimal, Decimal]],
) -> Iterator[Finding]:
    cut = [c for c, (v, _) in made.items() if cells[c].is_cut(v) and not cells[c].is_rounded(v)]
    # by chance some cell is cut where its sources were rounded; all of them are so only if that is how they were made
    if len(cut) < 2 or not all(
        cells[c].is_cut(v) for c, (v, s) in made.items() if abs(cells[c].value - v) <= s + cells[c].unit
    ):
        cut = []
    for column, (value, slack) in made.items():
        cell = cells[column]
        if abs(cell.value - value) <= slack + cell.unit / 2:
            if column in cut:
                yield Finding(
                    sheet.where,
                    row.system,
                    column,
                    cell.text,
                    _shown(value, cell),
                    INFERENCE,
                    "truncation",
                    f"{rule} is cut off, not rounded, here and in {len(cut) - 1} more cells",
                    "a digit",
                )
            continue
        turned = abs(cell.value + value) <= slack + cell.unit / 2
        yield Finding(
            sheet.where,
            row.system,
            column,
            cell.text,
            _shown(value, cell),
            ARITHMETIC,
            "sign" if turned else kind,
            f"{rule}{': the sign is turned' if turned else ''}",
            "the sign of a comparison" if value * cell.value < 0 else _rank_change(sheet, row, column, value),
        )


def derived_columns(sheet: Sheet) -> Iterator[Finding]:
    """Columns of percentages or differences against the two columns that they come from."""
    columns = sheet.columns
    by_column = {c: {str(i): r.cells[c] for i, r in enumerate(sheet.rows) if c in r.cells} for c in columns}
    for column in columns:
        kind = "ratio" if RATIO.search(column) else "difference" if DIFFERENCE.search(column) else ""
        if not kind or is_average(column):
            continue
        sources = [(c, by_column[c]) for c in columns if c != column]
        found = _derived(by_column[column], sources, kind, hinted=True)
        if found is None:
            continue
        rule, made, _ = found
        for place, (value, slack) in made.items():
            row, cell = sheet.rows[int(place)], by_column[column][place]
            if abs(cell.value - value) > slack + cell.unit / 2:
                turned = abs(cell.value + value) <= slack + cell.unit / 2
                yield Finding(
                    sheet.where,
                    row.system,
                    column,
                    cell.text,
                    _shown(value, cell),
                    ARITHMETIC,
                    "sign" if turned else kind,
                    rule,
                    "the sign of a comparison" if turned else "a digit",
                )


# what stands together


def mixed_metrics(sheet: Sheet) -> Iterator[Finding]:
    """Columns whose cells are said to be of different metrics or splits, or fall into two groups far apart."""
    for column in score_columns(sheet):
        rows = [r for r in sheet.rows if column in r.cells and is_plain(r)]
        for index, what in enumerate(("metric", "split")):
            kinds = {r.kinds[column][index] for r in rows if column in r.kinds} - set(UNKNOWN)
            if len(kinds) > 1:
                yield Finding(
                    sheet.where,
                    "",
                    column,
                    ", ".join(sorted(kinds)),
                    "",
                    ARITHMETIC,
                    f"mixed {what}",
                    f"one column of more than one {what}",
                    "a ranking across them",
                )
        values = sorted((float(r.cells[column].value), r.system) for r in rows)
        if re.search(r"qqp|mrpc", column, re.IGNORECASE) and len(values) >= 4:
            gaps = [(values[i + 1][0] - values[i][0], i) for i in range(len(values) - 1)]
            widest, place = max(gaps)
            inner = [gap for gap, i in gaps if i != place]
            if widest > 8 and widest > 3 * max(inner, default=0.1) and 2 <= place + 1 <= len(values) - 2:
                yield Finding(
                    sheet.where,
                    ", ".join(s for _, s in values[place + 1 :]),
                    column,
                    f"{values[place][0]:g} and below, {values[place + 1][0]:g} and above",
                    "",
                    INFERENCE,
                    "mixed metric",
                    "two groups far apart: F1 and accuracy, or two splits, in one column",
                    "a ranking across them",
                )


def sizes(sheet: Sheet) -> Iterator[Finding]:
    """FLOPs that need more weights than the model has, and equal sizes with other FLOPs."""
    for row in sheet.rows:
        params, flops = row.sizes.get("params"), row.sizes.get("flops")
        if params is None or flops is None or not params.value or not flops.value:
            continue
        # in millions and billions: at 128 tokens every weight of the encoder costs 2 x 128 operations
        needed = float(flops.value) * 1000 / (2 * TOKENS)
        if needed > 1.15 * float(params.value):
            yield Finding(
                sheet.where,
                row.system,
                "FLOPs",
                f"{flops.text} G with {params.text} M",
                f"{needed:.1f} M at least",
                INFERENCE,
                "sizes",
                f"at {TOKENS} tokens every weight is used once a token: these FLOPs need more weights",
                "a size",
            )
    known = [r for r in sheet.rows if {"params", "flops"} <= set(r.sizes)]
    for a, b in combinations(known, 2):
        same = a.sizes["params"].value == b.sizes["params"].value
        if same and a.sizes["flops"].value != b.sizes["flops"].value:
            yield Finding(
                sheet.where,
                f"{a.system}, {b.system}",
                "FLOPs",
                f"{a.sizes['flops'].text} and {b.sizes['flops'].text}",
                "",
                INFERENCE,
                "sizes",
                f"the same {a.sizes['params'].text} M parameters with other FLOPs",
                "a size",
            )


def speed_ups(sheet: Sheet) -> Iterator[Finding]:
    """Speed-ups that are out of line with the FLOPs of the same table."""
    rows = [r for r in sheet.rows if {"flops", "speed-up"} <= set(r.sizes) and r.sizes["flops"].value]
    reference = next((r for r in rows if r.sizes["speed-up"].value == 1), None)
    others = [r for r in rows if r is not reference and r.sizes["speed-up"].value != 1]
    if reference is None or len(others) < 2:
        return
    by_flops = {id(r): float(reference.sizes["flops"].value / r.sizes["flops"].value) for r in others}
    usual = statistics.median(float(r.sizes["speed-up"].value) / by_flops[id(r)] for r in others)
    for row in others:
        expected = usual * by_flops[id(row)]
        seen = float(row.sizes["speed-up"].value)
        if not 0.75 <= seen / expected <= 1.34:
            yield Finding(
                sheet.where,
                row.system,
                "speed-up",
                row.sizes["speed-up"].text,
                f"{expected:.1f}",
                INFERENCE,
                "speed-up",
                f"FLOPs are 1/{by_flops[id(row)]:.1f} of {reference.system}'s; the other rows' speed-ups follow their FLOPs",
                "a claim of speed",
            )


# across tables


def plain_name(system: str) -> str:
    """Letters and digits alone: BERT-PKD_4 and BERT4-PKD stay apart, BERT_TINY and BERT TINY meet."""
    return re.sub(r"[^a-z0-9]", "", system.lower())


def plain_task(column: str) -> str:
    return re.sub(r"[^a-z]", "", re.sub(r"\(.*", "", column.lower()))


def _scores(row: Row) -> dict[str, tuple[str, Printed]]:
    """Task -> column and value, without averages."""
    return {plain_task(c): (c, v) for c, v in row.cells.items() if not is_average(c)}


def _pairs(sheets: Sequence[Sheet]) -> Iterator[tuple[Sheet, Row, Sheet, Row, dict[str, tuple[Printed, Printed]]]]:
    rows = [(sheet, row, _scores(row)) for sheet in sheets for row in sheet.rows if is_plain(row)]
    for (one, a, first), (other, b, second) in combinations(rows, 2):
        shared = {
            first[task][0]: (first[task][1], second[task][1])
            for task in first
            if task in second and _compatible(a, first[task][0], b, second[task][0])
        }
        if len(shared) >= 3:
            yield one, a, other, b, shared


def _compatible(a: Row, own: str, b: Row, other: str) -> bool:
    """Whether two cells may be of one metric and split: unknown goes with everything."""
    return all(
        x == y or x in UNKNOWN or y in UNKNOWN
        for x, y in zip(a.kinds.get(own, ("", "")), b.kinds.get(other, ("", "")), strict=True)
    )


def duplicates(sheets: Sequence[Sheet]) -> Iterator[Finding]:
    """Rows of different systems with all their scores equal."""
    for one, a, other, b, shared in _pairs(sheets):
        if plain_name(a.system) != plain_name(b.system) and all(x.value == y.value for x, y in shared.values()):
            values = ", ".join(x.text for x, _ in shared.values())
            elsewhere = "" if one is other else f" of {other.where}"
            yield Finding(
                one.where,
                a.system,
                ", ".join(shared),
                values,
                "",
                INFERENCE,
                "duplicate row",
                f"equal to {b.system}{elsewhere} in all {len(shared)} shared columns",
                "whose numbers these are",
            )


def _almost_equal(
    sheets: Sequence[Sheet], least: float, alike: Callable[[Sheet, Row, Sheet, Row], bool]
) -> Iterator[tuple[Sheet, Row, Sheet, Row, str, Printed, Printed, str]]:
    """Cells that differ in rows of two tables which otherwise agree, in at least this share of their shared cells."""
    for one, a, other, b, shared in _pairs(sheets):
        equal = sum(x.value == y.value for x, y in shared.values())
        if one is other or not alike(one, a, other, b) or not least * len(shared) <= equal < len(shared):
            continue
        for column, (x, y) in shared.items():
            if x.value != y.value:
                yield one, a, other, b, column, x, y, f"{equal} of {len(shared)} shared cells agree"


def quotes(sheets: Sequence[Sheet]) -> Iterator[Finding]:
    """Rows of one system in two tables that agree in most cells and not in all: one of them was copied wrongly."""

    def alike(one: Sheet, a: Row, other: Sheet, b: Row) -> bool:
        return plain_name(a.system) == plain_name(b.system)

    for one, _, other, b, column, x, y, said in _almost_equal(sheets, 0.6, alike):
        why = f"{one.where} has {x.text}; {said}"
        yield Finding(other.where, b.system, column, y.text, x.text, INFERENCE, "quoted differently", why, "a digit")


def teachers(sheets: Sequence[Sheet]) -> Iterator[Finding]:
    """A teacher of one source whose scores change from table to table, although most stay."""

    def alike(one: Sheet, a: Row, other: Sheet, b: Row) -> bool:
        named = TEACHER.search(a.system) and TEACHER.search(b.system)
        return bool(named) and one.source == other.source and plain_name(a.system) != plain_name(b.system)

    for one, a, other, b, column, x, y, said in _almost_equal(sheets, 0.5, alike):
        why = f"{a.system} of {one.name} has {x.text}; {said}"
        yield Finding(
            other.where, b.system, column, y.text, x.text, INFERENCE, "teacher changes", why, "every ratio to it"
        )
