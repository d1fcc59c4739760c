"""Macros that a source of LaTeX defines, written out where it calls them, within a bound."""

from __future__ import annotations

import re
from typing import NamedTuple

from bench.errors import InputError

LONGEST_ARGUMENT = 20_000
"""Characters between two braces, or from a table to its caption."""
MOST_GROWTH = 50
"""How many times a text its macros may write. Short calls of long macros write some ten times."""
DEEPEST_MACRO = 200
"""Macros within each other."""
WAY_OUT = "name a file that has its tables without these macros"
BRACE = re.compile(r"(?<!\\)[{}]")
DEFINITION = re.compile(
    r"\\(?:(?:re)?newcommand|providecommand|DeclareRobustCommand)\*?\s*+\{?\s*+\\([A-Za-z]+)\s*+\}?"
    r"\s*+(?:\[(\d)\])?\s*+(?:\[[^\]]{0,1000}\])?\s*+(?=\{)"
    r"|\\[egx]?def\s*+\\([A-Za-z]+)\s*+(?:#(\d))?\s*+(?=\{)"
)
COMMAND = re.compile(r"\\(?:([A-Za-z]+)|.)", re.DOTALL)
AFTER_BARE = re.compile(r"\s*\{\}|")
"""Empty braces end a command without an argument."""
BEFORE_ARGUMENT = re.compile(r"\s*(?=\{)")


class Macro(NamedTuple):
    """One definition."""

    arguments: int
    body: str


class Macros:
    """The macros that a text defines.

    Attributes:
        rest: the text without its definitions. Their line ends stay, so that every row keeps its
            line of the file.
    """

    def __init__(self, text: str) -> None:
        # what its macros may still write
        self._left = MOST_GROWTH * len(text)
        self._macros: dict[str, Macro] = {}
        rest = []
        end = 0
        while (definition := DEFINITION.search(text, end)) is not None:
            rest.append(text[end : definition.start()])

            # the definition itself, whose line ends stay
            body, end = braced(text, definition.end())
            name = definition[1] or definition[3]
            arguments = int(definition[2] or definition[4] or 0)
            self._macros[name] = Macro(arguments, body.replace("\n", " "))
            rest.append("\n" * text.count("\n", definition.start(), end))
        self.rest = "".join([*rest, text[end:]])

    def put_in(self, text: str) -> str:
        """The text with its macros of no argument or one written out.

        A macro that calls itself stays a command there.

        Raises:
            InputError: all calls together write more than :data:`MOST_GROWTH` times the text.
        """
        return self._put_in(text, frozenset(), 0) if self._macros else text

    def _put_in(self, text: str, open_macros: frozenset[str], depth: int) -> str:
        if depth > DEEPEST_MACRO:
            raise InputError(f"more than {DEEPEST_MACRO} macros within each other; {WAY_OUT}")
        parts = []
        end = 0
        for command in COMMAND.finditer(text):
            name = command[1]
            macro = self._macros.get(name)
            if macro is None or macro.arguments > 1 or name in open_macros:
                continue
            if command.start() < end:
                continue  # within the argument of the one before

            # the call: its argument, and where it ends
            after = (BEFORE_ARGUMENT if macro.arguments else AFTER_BARE).match(text, command.end())
            if after is None:
                continue

            # its argument with its own macros written out
            argument = ""
            stop = after.end()
            if macro.arguments:
                argument, stop = braced(text, stop)
                self._count(len(argument))
                argument = self._put_in(argument, open_macros, depth + 1)
            # counted before it is made: a body may name its argument any number of times
            self._count(len(macro.body) + macro.body.count("#1") * len(argument) + len(command[0]))
            shown = macro.body.replace("#1", argument)
            parts.append(text[end : command.start()])
            parts.append(self._put_in(shown, open_macros | {name}, depth + 1))
            end = stop
        return "".join([*parts, text[end:]])

    def _count(self, characters: int) -> None:
        self._left -= characters
        if self._left < 0:
            raise InputError(
                f"its macros write more than {MOST_GROWTH} times the text of the file; {WAY_OUT}"
            )


def braced(text: str, start: int) -> tuple[str, int]:
    """The text between the brace at ``start`` and its own end, and the position behind that.

    It is cut at :data:`LONGEST_ARGUMENT` characters.
    """
    depth = 0
    limit = min(len(text), start + LONGEST_ARGUMENT)
    for mark in BRACE.finditer(text, start, limit):
        depth += 1 if mark[0] == "{" else -1
        if depth == 0:
            return text[start + 1 : mark.start()], mark.end()
    return text[start + 1 : limit], limit
