"""What a cell of a LaTeX table shows, without the commands that say how."""

from __future__ import annotations

import re

MARKS = re.compile(
    r"\\(?:cellcolor|rowcolor)(?:\[[^\]]*\])?\{[^}]*\}|\\(?:tnote|textsuperscript|footnotemark|footnote|cite[pt]?)(?:\[[^\]]*\])?\{[^}]*\}"
    r"|\^\{[^}]*\}|\^\\?\w+"
)
"""Colours, footnotes and superscripts: nothing of the cell's own."""
SWITCHES = re.compile(r"\\(?:tiny|scriptsize|footnotesize|small|rm|bfseries|bf|itshape|it|em|centering)\b\s*")
WRAPPED = re.compile(
    r"\\(?:textbf|textit|emph|underline|uline|mathbf|textsc|texttt|text|mathrm|num|mbox|makecell)\{([^{}]*)\}"
    r"|\\textcolor(?:\[[^\]]*\])?\{[^}]*\}\{([^{}]*)\}|\\multi(?:column|row)(?:\[[^\]]*\])?\{[^}]*\}\{[^}]*\}\{([^{}]*)\}"
)


def spanned(cell: str) -> list[str]:
    """A cell over several columns once for each of them."""
    found = re.search(r"\\multicolumn\{(\d+)\}", cell)
    return [unlatex(cell)] * (int(found.group(1)) if found else 1)


def unlatex(text: str) -> str:
    """What a cell shows, without the commands that say how."""
    text = SWITCHES.sub("", MARKS.sub("", text))
    before = ""
    while before != text:
        before, text = text, WRAPPED.sub(lambda found: next(g for g in found.groups() if g is not None), text)
    text = re.sub(r"\$_\{?([^$}]*)\}?\$", r"_\1", text)
    text = re.sub(r"(?<!_)\{([^{}]*)\}", r"\1", text.replace(r"\,", " ").replace(r"\;", " "))
    return re.sub(r"\s+", " ", text.replace(r"\%", "%").replace(r"\_", "_").replace("~", " ").replace("$", "")).strip()
