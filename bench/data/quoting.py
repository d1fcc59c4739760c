"""Whether the quotes of a CSV or TSV file enclose fields, as in RFC 4180, or are part of texts."""

from __future__ import annotations

import csv
import io
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

AS_CSV = "csv"
"""Quotes enclose fields, and a quote in such a field is doubled."""
AS_TEXT = "text"
"""Quotes are signs like others, as in GLUE's files."""
QUOTE = '"'


@contextmanager
def fields_of_any_length() -> Iterator[None]:
    """Inside, Python's reader takes longer texts than its usual 131,072 characters."""
    before = csv.field_size_limit(sys.maxsize)
    try:
        yield
    finally:
        csv.field_size_limit(before)


def rows_of(text: str, separator: str, quotes: str) -> Iterator[tuple[int, list[str]]]:
    """The rows of a file that are not blank, each with the number of its last line, from 1.

    Raises:
        csv.Error: where quotes enclose fields: one is not closed, or closed before its field ends.
    """
    lines = io.StringIO(text, newline="")
    if quotes == AS_CSV:
        reader = csv.reader(lines, delimiter=separator, strict=True)
    else:
        reader = csv.reader(lines, delimiter=separator, quoting=csv.QUOTE_NONE)
    for row in reader:
        is_blank = not row or (len(row) == 1 and not row[0].strip(" \t"))
        if not is_blank:
            yield reader.line_num, row


def _is_regular(text: str, separator: str, quotes: str) -> bool:
    """Whether every row has as many fields as the header, read in this way."""
    try:
        return len({len(row) for _, row in rows_of(text, separator, quotes)}) == 1
    except csv.Error:
        return False


@dataclass(frozen=True)
class Enclosed:
    """Facts of the fields of a file that begin and end with a quote.

    Attributes:
        explain_all: whether no quote is anywhere else.
        have_doubled: whether one has a doubled quote in it.
        have_breaks: whether one has a line break in it.
    """

    explain_all: bool
    have_doubled: bool
    have_breaks: bool


def _enclosed(text: str, separator: str) -> Enclosed:
    # a quote at the beginning of a field, doubled quotes inside, a quote at the end of the field
    ends = f"{separator}\r\n"
    field = rf'(?<![^{ends}])"([^"]*+(?:""[^"]*+)*+)"(?=[{ends}]|\Z)'
    explained = 0
    have_doubled = False
    have_breaks = False
    for match in re.finditer(field, text):
        inside = match[1]
        doubled = inside.count(QUOTE)
        explained += doubled + 2
        have_doubled |= doubled > 0
        have_breaks |= "\n" in inside or "\r" in inside
    return Enclosed(explained == text.count(QUOTE), have_doubled, have_breaks)


def _quotes_whole_columns(text: str, separator: str) -> bool:
    """Whether every column of words has quotes around all its fields, and its name has them too."""
    rows = rows_of(text, separator, AS_TEXT)
    _, header = next(rows, (0, []))
    quoted = [name.startswith(QUOTE) for name in header]
    for _, row in rows:
        for name_is_quoted, field in zip(quoted, row, strict=True):
            # an empty field and a number may stand without quotes
            may_be_bare = not field or _is_number(field)
            if field.startswith(QUOTE) != name_is_quoted and not (name_is_quoted and may_be_bare):
                return False
    return True


def _is_number(field: str) -> bool:
    try:
        float(field)
    except ValueError:
        return False
    return True


def _looks_enclosed(text: str, separator: str) -> bool:
    """Whether a field begins and ends with a quote, blanks aside."""
    for _, row in rows_of(text, separator, AS_TEXT):
        for field in row:
            plain = field.strip()
            if len(plain) > 1 and plain[0] == plain[-1] == QUOTE:
                return True
    return False


@fields_of_any_length()
def quotes_of(text: str, separator: str) -> str:
    """The meaning of a file's quotes: :data:`AS_CSV`, :data:`AS_TEXT`, or "" where both may be.

    The file is read both ways. A reading is sound if every row has the header's number of fields.
    """
    is_tabbed = separator == "\t"
    if QUOTE not in text:
        return AS_TEXT if is_tabbed else AS_CSV
    fields = _enclosed(text, separator)
    as_text = _is_regular(text, separator, AS_TEXT)
    as_csv = _is_regular(text, separator, AS_CSV)
    if is_tabbed:
        return _quotes_of_tabbed(text, fields, as_text, as_csv)
    if as_csv:
        # a text of several lines, or two stray quotes with all between them
        return "" if as_text and fields.have_breaks else AS_CSV
    if as_text:
        # a field like "so \\"so\\"" was meant to be enclosed, and no rule says how
        return "" if _looks_enclosed(text, separator) else AS_TEXT
    # no reading is sound, and this one names the row
    return AS_CSV


def _quotes_of_tabbed(text: str, fields: Enclosed, as_text: bool, as_csv: bool) -> str:
    """The meaning of quotes in a file with tabs.

    GLUE's files have quotes there that are part of the texts. Quotes enclose fields where all
    quotes are around fields, and some are doubled inside or whole columns have them with their
    names: so programs write them.
    """
    if not fields.explain_all:
        return AS_TEXT
    if not as_text:
        has_signs = as_csv or fields.have_doubled or fields.have_breaks
        return AS_CSV if has_signs else AS_TEXT
    # single quotes that happen to stand at the ends of fields
    if not as_csv or fields.have_breaks:
        return AS_TEXT
    is_usual = fields.have_doubled or _quotes_whole_columns(text, "\t")
    return AS_CSV if is_usual else ""
