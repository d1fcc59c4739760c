"""Claims in running text that name a system and a number: does any row of the tables bear them out?"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal

from bench.audit.findings import INFERENCE, Finding
from bench.audit.names import TEACHER, is_average, is_plain, is_score, plain_name, plain_task
from bench.audit.printed import ROOM, printed
from bench.audit.table import PrintedRow, Sheet

NUMBER = r"(?<![\d.])(\d{1,15}(?:\.\d{1,20})?)(?!\d)"
"""A number that somebody claims. One with more digits is no result."""
COMPARED = (
    r"\s+(?:(?P<smaller>smaller|fewer\s+(?:param\w*|weights))|(?P<cheaper>fewer\s+(?:FLOPs|MACs|operations))"
    r"|(?P<faster>faster))"
)
TIMES = re.compile(NUMBER + r"\s*(?:x|×|times)" + COMPARED, re.IGNORECASE)
PERCENT = re.compile(NUMBER + r"\s*%" + COMPARED, re.IGNORECASE)
KEPT = re.compile(
    r"(?:(over|more than|at least)\s*)?" + NUMBER + r"\s*%\s+of\s+([^.;]{0,60}?)performance", re.IGNORECASE
)
POINTS = re.compile(
    NUMBER
    + r"\s*(?:%|points?|percentage points)\s+(?:absolute\s+)?(?:more|less|higher|lower|better|worse|above|below)\b",
    re.IGNORECASE,
)
OF_TASKS = re.compile(
    r"outperforms?\s+all\b[^.;]*?(?<!\d)(\d{1,4})\s*(?:/|of|out of)\s*(\d{1,4})\s+tasks", re.IGNORECASE
)
REFERENCES = ("bert", "bertbase", "bertlarge", "elmo", "gpt", "glue")
TIME = re.compile(r"time|latency|second", re.IGNORECASE)
NAME = re.compile(r"\b[A-Za-z]*[A-Z][A-Za-z]*[A-Z][\w+-]*\b")
"""Names of systems: two capitals, as TinyBERT or PKD."""
LONGEST_SENTENCE = 2000
"""Characters. What is longer is no sentence, and some patterns would take the square of its length."""


def claims(text: str, where: str, sheets: Sequence[Sheet]) -> Iterator[Finding]:
    """Claims of size, speed, kept score, gaps and best places that no rows of the tables give.

    Those that cannot be computed from the tables are left alone.
    """
    rows = [row for sheet in sheets for row in sheet.rows]
    for sentence in re.split(r"(?<=[.!?])\s+|\n", text):
        if "|" in sentence or "\t" in sentence or len(sentence) > LONGEST_SENTENCE:
            continue
        for match, kind in _matches(sentence):
            own = _subject(sentence[: match.start()], rows)
            number = printed(match.group(2 if kind == "kept" else 1))
            references = _references(match.group(3) if kind == "kept" else sentence, own, rows)
            if not own or number is None or not references:
                continue  # a number compared with nothing that the tables have
            what = match.lastgroup or "kept"
            values = [value for row in own for value in _values(row, _alike(row, references), kind, what)]
            at_least = bool(kind == "kept" and match.group(1))
            slack = _slack_of_share(number.text) if kind == "kept" else _slack(number.text)
            yield from _Claim(where, own[0].system, "", match[0], number.text).checked(values, at_least, slack)
        for match in POINTS.finditer(sentence):
            task = _task(sentence, sheets)
            own = _subject(sentence[: match.start()], rows)
            gaps = _gaps(task, sentence, own, [s for s in sheets if s.source == where] or sheets)
            yield from _Claim(where, own[0].system if own else "", task, match[0], match[1]).checked(gaps)
        yield from _of_two_numbers(where, sentence)
        yield from _averages(where, sentence, rows)
        for match in OF_TASKS.finditer(sentence):
            own = _subject(sentence[: match.start()], rows)
            counts = [Decimal(won) for won, of in _best_places(own, sheets) if of == int(match.group(2))]
            yield from _Claim(where, own[0].system if own else "", "", match[0], match[1]).checked(counts)


SHARE = re.compile(r"\b(?:retain|keep|kept|preserv|recover|reach|maintain)\w*\b", re.IGNORECASE)
FROM_TO = re.compile(
    r"\bfrom\s+"
    + NUMBER
    + r"\s*%?\s+to\s+"
    + NUMBER
    + r"\s*%?\s*\(\s*[-+−–]?"
    + NUMBER
    + r"(\s*%)?(?:\s*(?:points?|pp|pts))?\s*\)",
    re.IGNORECASE,
)


def _of_two_numbers(where: str, sentence: str) -> Iterator[Finding]:
    """A share kept, or a change in brackets, beside the two numbers that it is of: 90.0 % kept of 61.5 as 55.6."""
    percents = list(re.finditer(NUMBER + r"\s*%", sentence))
    numbers = [n for n in re.findall(r"(?<![\w.])" + NUMBER + r"(?![\w%]|\.\d|\s*%)", sentence) if "." in n]
    one_clause = not re.search(r",? and |;|,[^,]*performance|\bperformance on\b", sentence)
    if SHARE.search(sentence) and len(percents) == 1 and len(numbers) == 2 and one_clause:
        small, large = sorted((printed(n) for n in numbers if printed(n)), key=lambda p: p.value)  # type: ignore[union-attr]
        kept = printed(percents[0][1])
        if kept and small and large and small.value > large.value / 2 and kept.value > 50:
            exact = 100 * small.value / large.value
            slack = kept.step / 2 + 50 * small.step / large.value + exact * large.step / large.value / 2
            if abs(exact - kept.value) > slack and abs(exact - kept.value) < 5:
                yield _of_text(where, percents[0][0], f"{exact:.{kept.places}f}", f"100 x {small.text} / {large.text}")
    for match in FROM_TO.finditer(sentence):
        first, second, change = (printed(match[n]) for n in (1, 2, 3))
        if first and second and change and first.value:
            gap = abs(second.value - first.value)
            ways = [(gap, (first.step + second.step) / 2)]
            if match[4]:
                share = 100 * gap / abs(first.value)
                ways.append((share, 50 * (first.step + second.step) / abs(first.value) * (1 + gap / abs(first.value))))
            if all(abs(made - change.value) > slack + change.step / 2 for made, slack in ways):
                nearest = min(ways, key=lambda way: abs(way[0] - change.value))[0]
                yield _of_text(
                    where, match[0], f"{nearest:.{change.places}f}", f"the change from {first.text} to {second.text}"
                )


def _of_text(where: str, claim: str, right: str, why: str) -> Finding:
    return Finding(
        where=where,
        row="",
        column="",
        printed=claim,
        recomputed=right,
        basis=INFERENCE,
        check="claim",
        why=why,
        changes="a claim in the text",
    )


AVERAGE_OF = re.compile(r"\baverage\s+(?:\w+\s+)?(?:of|is|was|reaches)\s+" + NUMBER, re.IGNORECASE)
CONTRAST = re.compile(r"\b(?:whereas|while|compared (?:with|to)|against|versus|vs\.?)\b(.*)", re.IGNORECASE)


def _averages(where: str, sentence: str, rows: Sequence[PrintedRow]) -> Iterator[Finding]:
    """``X has an average of A, whereas Y has B``: both have to be in the average cells of the rows so named."""
    if (match := AVERAGE_OF.search(sentence)) is None or (other := CONTRAST.search(sentence, match.end())) is None:
        return
    second = re.search(r"(?<![\w.])" + NUMBER + r"(?!\w|\.\d)", re.sub(NAME, "", other[1]))
    named = [
        (_subject(sentence[: match.start()], rows), match[1]),
        (_subject(other[1], rows), second[1] if second else ""),
    ]
    for own, number in named:
        averages = [cell for row in own for column, cell in row.cells.items() if is_average(column)]
        claimed = printed(number)
        if (
            not averages
            or claimed is None
            or any(cell.value.quantize(claimed.step, context=ROOM) == claimed.value for cell in averages)
        ):
            continue
        nearest = min(averages, key=lambda cell: abs(cell.value - claimed.value))
        if abs(nearest.value - claimed.value) <= 5:
            why = f"no average cell of {own[0].system} has this number; the nearest is shown"
            yield Finding(
                where=where,
                row=own[0].system,
                column="",
                printed=number,
                recomputed=nearest.text,
                basis=INFERENCE,
                check="claim",
                why=why,
                changes="a claim in the text",
            )


@dataclass(frozen=True)
class _Claim:
    """A number in a sentence, and what it is said of."""

    where: str
    system: str
    column: str
    text: str
    number: str

    def checked(
        self, values: Sequence[Decimal], at_least: bool = False, slack: Decimal | None = None
    ) -> Iterator[Finding]:
        """A finding if none of the values that the tables give is the claimed number."""
        claimed, slack = Decimal(self.number), slack or _slack(self.number)
        if not values or any(abs(v - claimed) <= slack or (at_least and v >= claimed - slack) for v in values):
            return
        nearest = min(values, key=lambda v: abs(v - claimed))
        why = "no rows of the tables give this number; the nearest is shown"
        shown = f"{nearest:.1f}" if nearest != nearest.to_integral_value() or "." in self.number else f"{nearest:.0f}"
        text = self.text.strip()
        yield Finding(
            where=self.where,
            row=self.system,
            column=self.column,
            printed=text,
            recomputed=shown,
            basis=INFERENCE,
            check="claim",
            why=why,
            changes="a claim in the text",
        )


def _task(sentence: str, sheets: Sequence[Sheet]) -> str:
    """The one task that a sentence names, as the tables call it; "" where it names none or several."""
    words = {plain_task(word) for word in re.findall(r"[A-Za-z][\w-]+", sentence)}
    columns = {plain_task(c): c for sheet in sheets for c in sheet.columns if is_score(c)}
    found = [re.sub(r"\s*\(.*", "", columns[task]) for task in columns if task in words]
    return found[0] if len(found) == 1 else ""


def _gaps(task: str, sentence: str, named: Sequence[PrintedRow], sheets: Sequence[Sheet]) -> list[Decimal]:
    """Gaps, in points and in percent, between a row's score on a task and other rows' or means of them, in every table.

    The row is the one whose score the sentence prints; else the one it names; else any.
    """
    numbers = set(re.findall(NUMBER, sentence))
    gaps = []
    for sheet, column in ((s, c) for s in sheets for c in s.columns if plain_task(c) == plain_task(task) and task):
        rows = [row for row in sheet.rows if column in row.cells]
        systems = [row for row in rows if is_plain(row)]
        own = [r for r in systems if r.cells[column].text in numbers] or [r for r in systems if r in named] or systems
        for row in own:
            others = [r for r in systems if r is not row]
            students = [r for r in others if not _is_reference(r)]
            sides = [r.cells[column].value for r in rows if r is not row]
            sides += [sum((r.cells[column].value for r in m), Decimal(0)) / len(m) for m in (others, students) if m]
            score = row.cells[column].value
            gaps += [made for other in sides if other for made in (abs(score - other), abs(100 * (score / other - 1)))]
    return gaps


def _best_places(own: Sequence[PrintedRow], sheets: Sequence[Sheet]) -> Iterator[tuple[int, int]]:
    """For each table with one of these rows: tasks in which no other student is above it, and tasks in all."""
    for sheet in sheets:
        for row in [r for r in sheet.rows if any(r is one for one in own)]:
            rivals = [r for r in sheet.rows if r is not row and is_plain(r) and not _is_reference(r)]
            won: dict[str, bool] = {}
            for column in [c for c in row.cells if is_score(c)]:
                best = all(r.cells[column].value <= row.cells[column].value for r in rivals if column in r.cells)
                won[plain_task(column)] = won.get(plain_task(column), True) and best
            yield sum(won.values()), len(won)


def _is_reference(row: PrintedRow) -> bool:
    return bool(TEACHER.search(row.system)) or plain_name(row.system) in REFERENCES


def _matches(sentence: str) -> Iterator[tuple[re.Match[str], str]]:
    for kind, pattern in (("times", TIMES), ("percent", PERCENT), ("kept", KEPT)):
        for match in pattern.finditer(sentence):
            yield match, kind


def _subject(before: str, rows: Sequence[PrintedRow]) -> list[PrintedRow]:
    """The rows of the first system named before the claim; what others are measured against is no subject."""
    for name in NAME.findall(re.sub(r"^\W*[\w -]+:", "", before)) or NAME.findall(before):
        plain = plain_name(name)
        own = [row for row in rows if plain_name(row.system).startswith(plain)]
        if own and plain not in REFERENCES:
            return own
    return []


def _references(sentence: str, own: Sequence[PrintedRow], rows: Sequence[PrintedRow]) -> list[PrintedRow]:
    """The rows of other systems that the sentence names: what the subject is compared with."""
    named = {
        plain_name(name) for name in re.findall(r"`([^`]+)`", sentence) + NAME.findall(re.sub(r"`[^`]*`", "", sentence))
    }
    subjects = {plain_name(row.system) for row in own}
    return [
        row
        for row in rows
        if not any(row is one for one in own)
        and plain_name(row.system) not in subjects
        and any(plain_name(row.system).startswith(name) for name in named)
    ]


def _alike(row: PrintedRow, references: Sequence[PrintedRow]) -> list[PrintedRow]:
    """Of several references those whose names end as the row's does: cased with cased, base with base."""
    last = re.split(r"[\s_-]", row.system.strip())[-1].lower()
    same = [other for other in references if re.split(r"[\s_-]", other.system.strip())[-1].lower() == last]
    return same or list(references)


def _slack(text: str) -> Decimal:
    """Half a step of the last digit that was meant: 60 may stand for 55 to 65, 7.5 for 7.45 to 7.55; and a two-hundredth of itself."""
    value = Decimal(text)
    step = (
        Decimal(1).scaleb(-len(text.partition(".")[2]))
        if "." in text
        else Decimal(10 if value >= 10 and value % 10 == 0 else 1)
    )
    return step / 2 + value / 200


def _slack_of_share(text: str) -> Decimal:
    """A share of a teacher's score is printed to its digit: 99 % is none of 98.4 %."""
    return Decimal(1).scaleb(-len(text.partition(".")[2])) / 2 + Decimal("0.1")


def _is_time(column: str, rows: Sequence[PrintedRow]) -> bool:
    """Whether a column is of times, by its name or because scores do not go beyond 100."""
    return bool(TIME.search(column)) or any(row.cells[column].value > 100 for row in rows if column in row.cells)


def _values(row: PrintedRow, others: Sequence[PrintedRow], kind: str, what: str) -> list[Decimal]:
    """Every value of this kind that the row has compared with another one."""
    if what == "kept":
        return [
            100 * cell.value / other.cells[column].value
            for other in others
            for column, cell in row.cells.items()
            if is_average(column) and column in other.cells and other.cells[column].value
        ]
    ratios: list[Decimal] = []
    key = "params" if what == "smaller" else "flops"
    for other in others:
        if key in row.sizes and key in other.sizes and row.sizes[key].value:
            ratios.append(other.sizes[key].value / row.sizes[key].value)
        if what == "faster":
            for column, cell in row.cells.items():
                if _is_time(column, [row, *others]) and column in other.cells and cell.value:
                    ratios.append(other.cells[column].value / cell.value)
    if what == "faster" and "speed-up" in row.sizes:
        ratios.append(row.sizes["speed-up"].value)
    if kind == "times":
        return ratios
    # 2x smaller is 50 % smaller, 2x faster is 100 % faster
    return [100 * (r - 1) if what == "faster" else 100 * (1 - 1 / r) for r in ratios if r]
