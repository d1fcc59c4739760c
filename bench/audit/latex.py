"""Tables of LaTeX sources: environments, spans, macros, and what a cell shows without the commands that say how."""

from __future__ import annotations

import re
from pathlib import Path

from bench.audit.grid import Grid, GridLine, Spanned, laid_out, span_of
from bench.audit.printed import printed

MARKS = re.compile(
    r"\\(?:tnote|textsuperscript|footnotemark|footnote|cite\w*|label|ref|cref|Cref|hspace\*?|vspace\*?|hskip|vskip|phantom|hphantom"
    r"|rule|includegraphics|cellcolor|rowcolor|columncolor|color|href)(?:\[[^\]]*\])*(?:\{[^{}]*\})+"
    r"|\$\s*\^\s*(?:\{[^{}]*\}|\\?\w+|[*†‡])\s*\$|\^\{(?!\s*[-−+]?\d+\s*\})[^{}]*\}|\^\\\w+|\^[*†‡]"
)
"""Colours, footnotes, references and superscripts: nothing of the cell's own."""
ENVIRONMENT = re.compile(r"\\begin\{(tabular[*xy]?|tabulary|longtable|tblr|NiceTabular|array|supertabular)\}")
SWITCHES = re.compile(
    r"\\(?:tiny|scriptsize|footnotesize|small|normalsize|large|rm|sc|sf|tt|itshape|it|em|centering|raggedright|raggedleft|arraybackslash"
    r"|displaystyle|quad|qquad|enspace|noalign|noindent|xspace|hfill|strut|newline|linebreak|left|right|bigstrut)(?![A-Za-z])\s*"
)
BOLD = re.compile(r"\\(?:textbf|mathbf|boldsymbol|bm|bfseries|bf|tbf|best|fst|first|B|b)(?![A-Za-z])\s*")
RULES = re.compile(
    r"\\(?:toprule|midrule|bottomrule|hline|Xhline|specialrule|addlinespace|hhline|Cline|cmidrule|cline|hdashline|cdashline"
    r"|arrayrulecolor|doublerulesep|cdashlinelr|endhead|endfirsthead|endfoot|endlastfoot|noalign|morecmidrules)"
    r"(?:\[[^\]]*\]|\([^)]*\))*(?:\{[^{}]*\})*(?:\([^)]*\))?(?:\{[^{}]*\})*"
)
RULED = re.compile(r"\\(?:toprule|midrule|bottomrule|hline|Xhline|specialrule|cmidrule|cline|hdashline)")
COMMAND = re.compile(r"\\([A-Za-z]++)\*?\s*((?:\[[^\[\]]*\]\s*)*)((?:\{[^{}]*\}(?:\[[^\[\]]*\])?\s*)*)(?!\s*\{)")
SYMBOLS = {
    "pm": "±",
    "times": "×",
    "approx": "≈",
    "sim": "~",
    "uparrow": "↑",
    "downarrow": "↓",
    "rightarrow": "→",
    "to": "→",
    "dagger": "†",
    "ddagger": "‡",
    "ast": "*",
    "star": "*",
    "Delta": "Δ",
    "delta": "δ",
    "alpha": "α",
    "beta": "β",
    "lambda": "λ",
    "le": "≤",
    "leq": "≤",
    "ge": "≥",
    "geq": "≥",
    "textpm": "±",
    "texttimes": "×",
    "percent": "%",
    "cdot": "·",
    "checkmark": "✓",
    "xmark": "✗",
    "cmark": "✓",
    "mu": "µ",
    "infty": "∞",
    "textasciitilde": "~",
    "textuparrow": "↑",
    "textdownarrow": "↓",
    "ldots": "…",
    "dots": "…",
    "textendash": "–",
    "textbackslash": "",
    "gamma": "γ",
    "sigma": "σ",
    "tau": "τ",
    "rho": "ρ",
    "epsilon": "ε",
    "theta": "θ",
    "textless": "<",
    "textgreater": ">",
}
SHOWS_LAST_ARGUMENT = {
    "textsubscript": "_",
    **dict.fromkeys(
        ("textcolor", "colorbox", "multicolumn", "multirow", "fontsize", "rotatebox", "resizebox", "scalebox"), ""
    ),
    **dict.fromkeys(
        ("raisebox", "makebox", "parbox", "adjustbox", "rlap", "llap", "SetCell", "Block", "multirowcell"), ""
    ),
}
"""Command of which the last argument is shown -> what is put before that argument."""


def latex_grids(text: str, folder: Path | None = None) -> tuple[list[Grid], str]:
    """Every table of a source, and the text with its tables blanked out.

    Args:
        folder: where files that ``\\input`` names are looked for; None reads none.
    """
    text = without_definitions(inputs(text, folder))
    grids, rest, end = [], [], 0
    for start, stop, body in environments(text):
        if start < end:
            continue  # a table within a cell of another one
        rest.append(text[end:start])
        rest.append("\n" * text.count("\n", start, stop))
        end = stop
        first = text.count("\n", 0, start) + 1
        lines = _lines(body, first)
        grids.append(Grid(_caption(text, start, stop), lines, 0, start))
    return grids, "".join([*rest, text[end:]])


def inputs(text: str, folder: Path | None, depth: int = 3) -> str:
    """The source without comments, with the files of its folder that it inputs; a file that is not there stays a command."""

    def of(found: re.Match[str]) -> str:
        if folder is None or depth == 0:
            return found[0]
        name = found[1].strip()
        path = (folder / (name if name.endswith(".tex") else f"{name}.tex")).resolve()
        if not path.is_relative_to(folder.resolve()) or not path.is_file():
            return found[0]
        return inputs(path.read_text(encoding="utf-8", errors="replace"), folder, depth - 1)

    return re.sub(r"\\(?:input|include|subfile)\s*\{([^{}]+)\}", of, re.sub(r"(?<!\\)%.*", "", text))


def without_definitions(text: str) -> str:
    """The source with its own macros of no argument or one put in, and their definitions gone."""
    macros: dict[str, tuple[int, str]] = {}
    pattern = re.compile(
        r"\\(?:(?:re)?newcommand|providecommand|DeclareRobustCommand)\*?\s*\{?\s*\\([A-Za-z]+)\s*\}?\s*(?:\[(\d)\])?\s*(?:\[[^\]]*\])?\s*(?=\{)"
        r"|\\def\s*\\([A-Za-z]+)\s*(?:#(\d))?\s*(?=\{)"
    )
    while (found := pattern.search(text)) is not None:
        body, end = braced(text, found.end())
        # the line ends stay where the definition was, so that every row keeps its line of the file
        macros[found[1] or found[3]] = (int(found[2] or found[4] or 0), body.replace("\n", " "))
        text = text[: found.start()] + "\n" * text.count("\n", found.start(), end) + text[end:]
    # a macro may use one that is defined before it, or one that is defined after it
    for name, (arguments, body) in [*reversed(macros.items()), *macros.items()]:
        if re.search(rf"\\{name}(?![A-Za-z])", body):
            continue  # it uses itself
        if arguments == 0:
            text = re.sub(rf"\\{name}(?![A-Za-z])(?:\s*\{{\}})?", body.replace("\\", r"\\"), text)
        elif arguments == 1:
            text = _with_argument(text, name, body)
    return text


def _with_argument(text: str, name: str, body: str) -> str:
    pattern = re.compile(rf"\\{name}\s*(?=\{{)")
    for _ in range(20_000):
        found = pattern.search(text)
        if found is None:
            break
        argument, end = braced(text, found.end())
        text = text[: found.start()] + body.replace("#1", argument) + text[end:]
    return text


def braced(text: str, start: int) -> tuple[str, int]:
    """What is between the brace at ``start`` and its own end, and the place behind it."""
    depth = 0
    for place in range(start, len(text)):
        if text[place] == "{" and text[place - 1 : place] != "\\":
            depth += 1
        elif text[place] == "}" and text[place - 1 : place] != "\\":
            depth -= 1
            if depth == 0:
                return text[start + 1 : place], place + 1
    return text[start + 1 :], len(text)


def environments(text: str) -> list[tuple[int, int, str]]:
    """Begin, end and body of every table environment, one within another as a part of it; one cut short is left out."""
    found = []
    for begin in ENVIRONMENT.finditer(text):
        name = re.escape(begin[1])
        depth = 0
        for mark in re.compile(rf"\\(begin|end)\{{{name}\}}").finditer(text, begin.start()):
            depth += 1 if mark[1] == "begin" else -1
            if depth == 0:
                start = _after_arguments(text, begin.end())
                if begin[1] != "array" or "&" in text[start : mark.start()]:
                    found.append((begin.start(), mark.end(), text[start : mark.start()]))
                break
    return found


def _after_arguments(text: str, place: int) -> int:
    """Behind the column specification of an environment: options in brackets and arguments in braces."""
    while place < len(text):
        blank = re.compile(r"\s*").match(text, place)
        after = blank.end() if blank else place
        if text[after : after + 1] == "[":
            place = text.find("]", after) + 1 or len(text)
        elif text[after : after + 1] == "{":
            place = braced(text, after)[1]
        else:
            return place
    return place


def _caption(text: str, start: int, stop: int) -> str:
    begin, end = text.rfind(r"\begin{table", 0, start), text.find(r"\end{table", stop)
    if begin < 0 or end < 0 or r"\end{table" in text[begin:start] or r"\begin{table" in text[stop:end]:
        begin, end = start, stop
    found = re.compile(r"\\caption(?:of\{\w+\})?\s*(?:\[[^\]]*\])?\s*(?=\{)").search(text, begin, end)
    return unlatex(braced(text, found.end())[0]) if found else ""


def _lines(body: str, first: int) -> list[GridLine]:
    """The lines of an environment's body with their spans; ``first`` is the number of its first line in the file."""
    rows: list[list[Spanned]] = []
    starts: list[tuple[int, bool]] = []
    ruled = False
    start = 0
    for piece, stop in _split(body, r"\\"):
        piece = re.sub(r"^\s*\[-?[\d.]+\s*\w+\]", "", piece) if rows else piece
        has_rule = bool(RULED.search(piece))
        bare = RULES.sub(lambda m: "\n" * m[0].count("\n"), piece)
        cells = [_spanned(cell) for cell, _ in _split(bare, "&")]
        if any(cell.text for cell in cells):
            shift = len(bare) - len(bare.lstrip())
            rows.append(cells)
            starts.append((first + body.count("\n", 0, start) + bare.count("\n", 0, shift), ruled or has_rule))
            ruled = False
        else:
            ruled = ruled or has_rule
        start = stop
    return [
        GridLine(cells, number, rule)
        for cells, (number, rule) in zip(laid_out(_without_empty(rows)), starts, strict=True)
    ]


def _without_empty(rows: list[list[Spanned]]) -> list[list[Spanned]]:
    """The rows with the empty places below a cell of several lines left out: LaTeX writes them, the layout fills them."""
    below: dict[int, int] = {}
    kept = []
    for row in rows:
        column = 0
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
    """Parts between marks that are outside braces, each with the place behind its mark."""
    marks = (mark, r"\tabularnewline") if mark == r"\\" else (mark,)
    parts, depth, start, place = [], 0, 0, 0
    nested = 0
    while place < len(text):
        if text.startswith((r"\begin{", r"\end{"), place):
            nested += 1 if text.startswith(r"\begin{", place) else -1
        found = next((one for one in marks if text.startswith(one, place)), "")
        if found and depth <= 0 and nested <= 0:
            parts.append((text[start:place], place + len(found)))
            place += len(found)
            start = place
            continue
        if text[place] == "\\":
            place += 2
            continue
        depth += {"{": 1, "}": -1}.get(text[place], 0)
        place += 1
    return [*parts, (text[start:], len(text))]


def _spanned(cell: str) -> Spanned:
    columns, rows = 1, 1
    if wide := re.search(r"\\multicolumn\s*\{\s*(\d+)\s*\}", cell):
        columns = span_of(wide[1])
    if high := re.search(r"\\multirow(?:cell)?\s*(?:\[[^\]]*\])?\s*\{\s*(-?[\d.]+)\s*\}", cell):
        rows = span_of(high[1])
    if both := re.search(r"\\(?:SetCell|Block)\s*(?:\[[^\]]*\])?\s*\{(?:r=)?(\d+)?[,-]?(?:c=)?(\d+)?\}", cell):
        rows, columns = span_of(both[1]), span_of(both[2])
    return Spanned(unlatex(cell), columns, rows)


def unlatex(text: str) -> str:
    """What a cell shows, without the commands that say how; bold as ``**...**``."""
    text = MARKS.sub("", text)
    is_bold = bool(BOLD.search(text))
    text = SWITCHES.sub("", text)
    text = re.sub(r"\\(?:\\|newline)", " ", text)
    before = ""
    while before != text:
        before = text
        text = re.sub(r"\\begin\{\w+\}(?:\[[^\]]*\])?(?:\{[^{}]*\})?|\\end\{\w+\}", " ", text)
        text = re.sub(r"_\s*\{([^{}]*)\}", r"_\1", text)
        text = COMMAND.sub(_shown, text)
        # braces that are no argument
        text = re.sub(r"(?<![\\_^A-Za-z\]}*])\s*\{([^{}]*)\}", r"\1", text)
        text = MARKS.sub("", text)
    text = re.sub(r"(?<!\\)[{}]", "", text)
    for mark, shown in ((r"\,", " "), (r"\;", " "), (r"\!", ""), (r"\:", " "), (r"\ ", " "), (r"\/", ""), (r"\-", "")):
        text = text.replace(mark, shown)
    text = re.sub(r"\$\s*(-)\s*\$", "-", text)
    text = re.sub(r"\\([%_&#{}$])", r"\1", text)
    text = re.sub(r"(?<=\d)\s*\^\s*\w(?=\s*\$|\s*$)", "", text) if "10" not in text else text
    shown = re.sub(r"\s+", " ", text.replace("~", " ").replace("$", "")).strip()
    return f"**{shown}**" if is_bold and printed(shown) else shown


def _shown(found: re.Match[str]) -> str:
    """What one command with its arguments shows: a number among several arguments, else the last of them."""
    name = found[1]
    arguments = re.findall(r"\{([^{}]*)\}", found[3])
    if name in SYMBOLS:
        return SYMBOLS[name] + "".join(arguments)
    if not arguments:
        return "" if BOLD.match(f"\\{name}") or name in SHAPES else name
    if arguments == [""]:
        return name
    if name in SHOWS_LAST_ARGUMENT:
        return SHOWS_LAST_ARGUMENT[name] + arguments[-1]
    if name in ("num", "SI", "qty"):
        return arguments[0]
    return next((one for one in arguments if printed(one)), arguments[-1])


SHAPES = (
    "textbf",
    "textit",
    "emph",
    "underline",
    "mathrm",
    "text",
    "mathbf",
    "texttt",
    "textsc",
    "ensuremath",
    "mathcal",
)
"""Commands that change only the look of an argument: without one they show nothing."""
