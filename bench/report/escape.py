"""Text of others in our files reaches Markdown, LaTeX and CSV as words, never as code.

It is in names, labels, notes and environments. What our own reports hold stays as it is to the
byte: numbers, bold, code and footnotes are ours.
"""

from __future__ import annotations

import re

UNSEEN = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\u200e\u200f\u202a-\u202e\u2066-\u2069]+")
"""Line ends, control characters, and those that turn the direction of writing."""
FORMULA = re.compile(r"\s*[=+\-@]")
"""How a cell begins that a spreadsheet would compute."""
NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?|-", re.IGNORECASE)
"""A number, or a dash alone: no spreadsheet computes anything of these."""
TAG = re.compile(r"<(?=[A-Za-z/!?])")


def flat(text: str) -> str:
    """The text on one line, without control characters."""
    return UNSEEN.sub(" ", text)


def spreadsheet(text: str) -> str:
    """A cell of a CSV or TSV file, on one line.

    A label that begins like a formula is shown by a spreadsheet and never computed: the apostrophe
    before it is what spreadsheets themselves write before such a text.
    """
    text = flat(text)
    is_formula = FORMULA.match(text) and not NUMBER.fullmatch(text)
    return f"'{text}" if is_formula else text


def markdown(text: str) -> str:
    """One line of Markdown, without HTML, links and images of somebody else's; our marks stay."""
    return TAG.sub("&lt;", flat(text)).replace("](", "]\\(")


def cell(text: str) -> str:
    """A cell of a Markdown table.

    A backslash of its own stays one, and takes no line between two cells along.
    """
    return markdown(text.replace("\\", "\\\\")).replace("|", "\\|").replace("`", "\\`")


def code(text: str) -> str:
    """Inline code that ends where we end it."""
    text = flat(text)
    # a fence longer than any run of backticks within
    longest = max((len(run) for run in re.findall("`+", text)), default=0)
    fence = "`" * (longest + 1)
    space = " " if longest else ""
    return f"{fence}{space}{text}{space}{fence}"
