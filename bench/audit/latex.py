"""Read tables of LaTeX sources: environments, spans, macros, and the text of cells."""

from __future__ import annotations

import re
from functools import lru_cache
from pathlib import Path

from bench.audit.grid import (
    LONGEST_SOURCE,
    MOST_TEXT,
    Grid,
    GridLine,
    Spanned,
    cells_with,
    laid_out,
    line_numbers,
    span_of,
)
from bench.audit.macros import LONGEST_ARGUMENT, Macros, braced
from bench.audit.printed import printed
from bench.errors import InputError

MARKS = re.compile(
    r"\\(?:tnote|textsuperscript|footnotemark|footnote|cite\w*|label|ref|cref|Cref|hspace\*?"
    r"|vspace\*?|hskip|vskip|phantom|hphantom|rule|includegraphics|cellcolor|rowcolor"
    r"|columncolor|color|href)(?:\[[^\]]*\])*(?:\{[^{}]*\})+"
    r"|\$\s*\^\s*(?:\{[^{}]*\}|\\?\w+|[*†‡])\s*\$"
    r"|\^\{(?!\s*[-−+]?\d+\s*\})[^{}]*\}|\^\\\w+|\^[*†‡]"
)
"""Colours, footnotes, references and superscripts: nothing of the cell's own."""
ENVIRONMENT = re.compile(
    r"\\(begin|end)\{(tabular[*xy]?|tabulary|longtable|tblr|NiceTabular|array|supertabular)\}"
)
CAPTION = re.compile(r"\\caption(?:of\{\w+\})?\s*(?:\[[^\]]{0,1000}\])?\s*(?=\{)")
COMMENT = re.compile(r"(?<!\\)%.*")
TOKEN = re.compile(r"\\begin(?=\{)|\\end(?=\{)|\\tabularnewline|\\.|[{}&]", re.DOTALL)
SPANS_COLUMNS = re.compile(r"\\multicolumn\s*\{\s*(\d+)\s*\}")
SPANS_ROWS = re.compile(r"\\multirow(?:cell)?\s*(?:\[[^\]]*\])?\s*\{\s*(-?[\d.]+)\s*\}")
SPANS_BOTH = re.compile(
    r"\\(?:SetCell|Block)\s*(?:\[[^\]]*\])?\s*\{(?:r=)?(\d+)?[,-]?(?:c=)?(\d+)?\}"
)
OPENING = re.compile(r"\s*([\[{])")
"""The beginning of an option or an argument."""
DEEPEST = 50
"""Commands within each other."""
SWITCHES = re.compile(
    r"\\(?:tiny|scriptsize|footnotesize|small|normalsize|large|rm|sc|sf|tt|itshape|it|em|centering"
    r"|raggedright|raggedleft|arraybackslash|displaystyle|quad|qquad|enspace|noalign|noindent"
    r"|xspace|hfill|strut|newline|linebreak|left|right|bigstrut)(?![A-Za-z])\s*"
)
RULES = re.compile(
    r"\\(?:toprule|midrule|bottomrule|hline|Xhline|specialrule|addlinespace|hhline|Cline|cmidrule"
    r"|cline|hdashline|cdashline|arrayrulecolor|doublerulesep|cdashlinelr|endhead|endfirsthead"
    r"|endfoot|endlastfoot|noalign|morecmidrules)"
    r"(?:\[[^\]]*\]|\([^)]*\))*(?:\{[^{}]*\})*(?:\([^)]*\))?(?:\{[^{}]*\})*"
)
COMMAND = re.compile(
    r"\\([A-Za-z]++)\*?\s*((?:\[[^\[\]]*\]\s*)*)((?:\{[^{}]*\}(?:\[[^\[\]]*\])?\s*)*)(?!\s*\{)"
)
SYMBOLS = {
    "pm": "±", "times": "×", "approx": "≈", "sim": "~", "uparrow": "↑", "downarrow": "↓",
    "rightarrow": "→", "to": "→", "dagger": "†", "ddagger": "‡", "ast": "*", "star": "*",
    "Delta": "Δ", "delta": "δ", "alpha": "α", "beta": "β", "lambda": "λ", "gamma": "γ",
    "sigma": "σ", "tau": "τ", "rho": "ρ", "epsilon": "ε", "theta": "θ", "mu": "µ",
    "le": "≤", "leq": "≤", "ge": "≥", "geq": "≥", "textless": "<", "textgreater": ">",
    "textpm": "±", "texttimes": "×", "percent": "%", "cdot": "·", "infty": "∞",
    "checkmark": "✓", "xmark": "✗", "cmark": "✓", "ldots": "…", "dots": "…", "textendash": "–",
    "textasciitilde": "~", "textasciicircum": "^", "textuparrow": "↑", "textdownarrow": "↓",
    "textbackslash": "",
}  # fmt: skip
SHOWS_LAST_ARGUMENT = (
    "textcolor", "colorbox", "multicolumn", "multirow", "fontsize", "rotatebox", "resizebox",
    "scalebox", "raisebox", "makebox", "parbox", "adjustbox", "rlap", "llap", "SetCell",
    "Block", "multirowcell",
)  # fmt: skip
"""Commands of which the last argument is shown."""
SHAPES = (
    "textbf", "textit", "emph", "underline", "mathrm", "text", "mathbf", "texttt", "textsc",
    "ensuremath", "mathcal", "boldsymbol", "bm", "bfseries", "bf", "tbf", "best", "fst",
    "first", "B", "b",
)  # fmt: skip
"""Commands that change only the look of an argument: without one they show nothing."""


def latex_grids(text: str, folder: Path | None = None) -> tuple[list[Grid], str]:
    """Every table of a text, and the text with its tables blanked out.

    Args:
        folder: of a source of LaTeX: where files that ``\\input`` names are looked for. None for a
            page of another kind, of which only the tables are LaTeX: elsewhere a percent sign
            begins no comment.
    """
    if folder is not None:
        macros = Macros(inputs(text, folder))
        text = macros.put_in(macros.rest)
        searched = text
    else:
        macros = Macros(COMMENT.sub("", text))
        searched = re.sub(
            r"^[^\S\n]*%.*", lambda line: " " * len(line[0]), text, flags=re.MULTILINE
        )

    # every environment that is in no other one, and the text between them
    line_number = line_numbers(text)
    grids = []
    rest = []
    end = 0
    cells = 0
    for start, stop, body_start, body_stop in environments(searched):
        if start < end:
            continue  # a table within a cell of another one
        rest.append(text[end:start] + "\n" * text.count("\n", start, stop))
        end = stop

        # the lines of the environment
        body = searched[body_start:body_stop]
        if folder is None:
            body = macros.put_in(COMMENT.sub("", body))
        grid = Grid(_caption(searched, start, stop), _lines(body, line_number(start)), 0, start)
        cells = cells_with(grid, cells)
        grids.append(grid)
    return grids, "".join([*rest, text[end:]])


INPUT = re.compile(r"\\(?:input|include|subfile)\s*\{([^{}]+)\}")
DEEPEST_INPUT = 3
"""Files that input each other."""


def inputs(text: str, folder: Path) -> str:
    """The source without comments, with the files of its folder that it inputs.

    A file that is not there stays a command.

    Raises:
        InputError: all files together are longer than one may be.
    """
    left = MOST_TEXT - len(text)
    texts: dict[str, str | None] = {}  # name -> what the file has; None where there is none

    def with_files(text: str, depth: int) -> str:
        return INPUT.sub(lambda command: put_in(command, depth), COMMENT.sub("", text))

    def put_in(command: re.Match[str], depth: int) -> str:
        nonlocal left
        name = command[1].strip()
        if name not in texts:
            texts[name] = _text_named(name, folder)
        content = texts[name]
        if depth == DEEPEST_INPUT or content is None:
            return command[0]
        left -= len(content)
        if left < 0:
            raise InputError(
                f"the files that it inputs have more than {MOST_TEXT:,} bytes together; "
                "name the file that has the table"
            )
        return with_files(content, depth + 1)

    return with_files(text, 0)


def _text_named(name: str, folder: Path) -> str | None:
    """The text that a source inputs by this name from its folder; None where there is no such file.

    One that is too long is cut behind :data:`MOST_TEXT` characters.
    """
    # no file outside the folder of the source
    file = name if name.endswith(".tex") else f"{name}.tex"
    try:
        path = (folder / file).resolve()
        is_there = path.is_relative_to(folder.resolve()) and path.is_file()
    except (OSError, RuntimeError, ValueError):
        return None  # no name of a file, or links in a circle
    if not is_there:
        return None
    with path.open(encoding="utf-8", errors="replace") as opened:
        return opened.read(MOST_TEXT + 1)


def environments(text: str) -> list[tuple[int, int, int, int]]:
    """Begin and end of every table environment, then of its body; one cut short is left out.

    They may lie within each other.
    """
    tables = []
    begins: dict[str, list[re.Match[str]]] = {}
    for mark in ENVIRONMENT.finditer(text):
        # each end belongs to the last begin of its name
        name = mark[2]
        if mark[1] == "begin":
            begins.setdefault(name, []).append(mark)
        elif begins.get(name):
            begin = begins[name].pop()
            start = min(_after_arguments(text, begin.end()), mark.start())
            if name != "array" or text.find("&", start, mark.start()) >= 0:
                tables.append((begin.start(), mark.end(), start, mark.start()))
    return sorted(tables)


def _after_arguments(text: str, place: int) -> int:
    """The position behind an environment's options in brackets and arguments in braces."""
    opening = OPENING.match(text, place)
    while opening is not None:
        if opening[1] == "{":
            place = braced(text, opening.end() - 1)[1]
        else:
            closing = text.find("]", opening.end(), opening.end() + LONGEST_ARGUMENT)
            place = closing + 1 if closing >= 0 else len(text)
        opening = OPENING.match(text, place)
    return place


def _caption(text: str, start: int, stop: int) -> str:
    """The caption of the float that an environment is in; "" where there is none."""
    begin = text.rfind(r"\begin{table", max(0, start - LONGEST_ARGUMENT), start)
    end = text.find(r"\end{table", stop, stop + LONGEST_ARGUMENT)
    has_marks = begin >= 0 and end >= 0
    # a float that ends before the environment, or begins behind it, is another one
    ends_before = has_marks and r"\end{table" in text[begin:start]
    begins_behind = has_marks and r"\begin{table" in text[stop:end]
    if not has_marks or ends_before or begins_behind:
        begin = start
        end = stop
    caption = CAPTION.search(text, begin, end)
    return unlatex(braced(text, caption.end())[0]) if caption else ""


def _lines(body: str, first: int) -> list[GridLine]:
    """The lines of an environment's body with their spans; ``first`` is its first line's number."""
    rows: list[list[Spanned]] = []
    numbers: list[int] = []
    line_number = line_numbers(body)
    start = 0
    for piece, stop in _split(body, r"\\"):
        # a line without its rules and the space behind it
        piece = re.sub(r"^\s*\[-?[\d.]+\s*\w+\]", "", piece) if rows else piece
        bare = RULES.sub(lambda m: "\n" * m[0].count("\n"), piece)
        cells = [_spanned(cell) for cell, _ in _split(bare, "&")]
        if any(cell.text for cell in cells):
            # the file's line in which its text begins
            blank = len(bare) - len(bare.lstrip())
            rows.append(cells)
            numbers.append(first - 1 + line_number(start) + bare.count("\n", 0, blank))
        start = stop
    return [GridLine(*line) for line in zip(laid_out(_without_empty(rows)), numbers, strict=True)]


def _without_empty(rows: list[list[Spanned]]) -> list[list[Spanned]]:
    """The rows with the empty places below a cell of several lines left out: LaTeX writes them, the
    layout fills them.
    """
    # column -> lines that a cell above still spans
    below: dict[int, int] = {}
    kept = []
    for row in rows:
        column = 0

        # an empty cell below such a one is left out
        own: list[Spanned] = []
        for cell in row:
            if below.get(column) and not cell.text and cell.columns == 1:
                column += 1
                continue
            own.append(cell)
            below |= dict.fromkeys(range(column, column + cell.columns), cell.rows)
            column += cell.columns
        below = {place: rows_left - 1 for place, rows_left in below.items() if rows_left > 1}
        kept.append(own)
    return kept


def _split(text: str, mark: str) -> list[tuple[str, int]]:
    """Parts between marks outside braces and inner environments, each with its mark's end."""
    # LaTeX has two commands that end a line
    marks = (mark, r"\tabularnewline") if mark == r"\\" else (mark,)
    parts = []
    braces = 0
    environments_open = 0
    start = 0
    for token in TOKEN.finditer(text):
        sign = token[0]
        if braces <= 0 and environments_open <= 0 and sign in marks:
            parts.append((text[start : token.start()], token.end()))
            start = token.end()
        braces += {"{": 1, "}": -1}.get(sign, 0)
        environments_open += {r"\begin": 1, r"\end": -1}.get(sign, 0)
    return [*parts, (text[start:], len(text))]


def _spanned(cell: str) -> Spanned:
    """A cell with how many columns and lines its commands say that it spans."""
    cell = cell[:LONGEST_SOURCE]
    wide = SPANS_COLUMNS.search(cell)
    high = SPANS_ROWS.search(cell)
    columns = span_of(wide[1]) if wide else 1
    rows = span_of(high[1]) if high else 1
    both = SPANS_BOTH.search(cell)
    if both:
        rows = span_of(both[1])
        columns = span_of(both[2])
    return Spanned(unlatex(cell), columns, rows)


@lru_cache(4096)
def unlatex(text: str) -> str:
    """The text that a cell shows, without the commands that say how."""
    # marks and switches of fonts, then commands with their arguments
    text = re.sub(r"\s+", " ", MARKS.sub("", text[:LONGEST_SOURCE]))
    text = SWITCHES.sub("", text)
    text = re.sub(r"\\(?:\\|newline)", " ", text)
    for _ in range(DEEPEST):  # from the innermost command outwards
        before = text
        text = re.sub(r"\\begin\{\w+\}(?:\[[^\]]*\])?(?:\{[^{}]*\})?|\\end\{\w+\}", " ", text)
        text = re.sub(r"_\s*\{([^{}]*)\}", r"_\1", text)
        text = COMMAND.sub(_shown, text)
        # braces that are no argument
        text = re.sub(r"(?<![\\_^A-Za-z\]}*])\s*\{([^{}]*)\}", r"\1", text)
        text = MARKS.sub("", text)
        if before == text:
            break

    # what is left of braces, blanks and escapes
    text = re.sub(r"(?<!\\)[{}]", "", text)
    for blank in (r"\,", r"\;", r"\:", r"\ "):
        text = text.replace(blank, " ")
    for nothing in (r"\!", r"\/", r"\-"):
        text = text.replace(nothing, "")
    text = re.sub(r"\$\s*(-)\s*\$", "-", text)
    text = re.sub(r"\\([%_&#{}$])", r"\1", text)
    text = re.sub(r"(?<=\d)\s*\^\s*\w(?=\s*\$|\s*$)", "", text) if "10" not in text else text
    return re.sub(r"\s+", " ", text.replace("~", " ").replace("$", "")).strip()


def _shown(command: re.Match[str]) -> str:
    """The text that a command shows: a number among several arguments, else the last."""
    name = command[1]
    arguments = re.findall(r"\{([^{}]*)\}", command[3])

    # signs, and names without an argument
    if name in SYMBOLS:
        return SYMBOLS[name] + "".join(arguments)
    if not arguments:
        return "" if name in SHAPES else name
    if name in SHOWS_LAST_ARGUMENT:
        return arguments[-1]
    if arguments == [""]:
        return name

    # one of the arguments
    if name == "textsubscript":
        return f"_{arguments[-1]}"
    if name in ("num", "SI", "qty"):
        return arguments[0]
    return next(filter(printed, arguments), arguments[-1])
