"""The door to the terminal: text of records and of files leaves as words, never as a command."""

from __future__ import annotations

import json
import sys
from typing import TextIO

from bench.errors import one_line


def shown(text: str) -> str:
    """The text with its line ends, and a blank for every other character that is not printed.

    Such characters are escapes, which colour, move the cursor or rename the window, and those that
    turn the direction of writing.
    """
    return "\n".join(one_line(line) for line in text.split("\n"))


def shown_json(text: str) -> str:
    """JSON that says the same with every such character as its escape, like ``\\u001b``."""
    return "".join(
        character if character.isprintable() or character == "\n" else json.dumps(character)[1:-1]
        for character in text
    )


def say(text: str, stream: TextIO | None = None) -> None:
    """Print text at once.

    Args:
        stream: standard output where none is given.
    """
    print(shown(text), file=stream or sys.stdout, flush=True)


def say_error(text: str) -> None:
    """Print text to standard error at once."""
    say(text, sys.stderr)
