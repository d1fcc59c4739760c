"""The command line: strings in, exit code out. Heavy libraries are imported inside the verbs."""

from __future__ import annotations

import gc
import io
import sys
from pathlib import Path
from typing import NoReturn

import typer

from bench.cli import check, extend, read, run  # each adds its verbs to the program
from bench.cli.program import app
from bench.errors import (
    BAD_INPUT,
    INTERRUPTED,
    OF_A_DISK,
    BenchError,
    disk_message,
    one_line,
    what_to_install,
)
from bench.folders import ANOTHER_CACHE, users_cache
from bench.record.set_aside import notes_sent_to
from bench.terminal import say_error

__all__ = ["app", "check", "extend", "main", "read", "run"]

INTERRUPTION = (
    "interrupted; what was finished is kept. Run the same command again: it resumes with what is "
    "missing, a long training at its last saved state"
)


OBJECTS_BEFORE_COLLECTION = 200_000
"""Instead of Python's 700. Imports and plans make millions of objects that live to the end. The
garbage collector would look at them again and again, for a quarter of the time of a plan. What is
in no reference cycle is freed at once all the same."""


def main() -> NoReturn:
    """Run the command line; never shows a traceback for something a person can mend."""
    print_in_any_encoding()
    gc.set_threshold(OBJECTS_BEFORE_COLLECTION, *gc.get_threshold()[1:])
    try:
        with notes_sent_to(lambda note: say_error(f"bench: {note.sentence()}")):
            _run()
    finally:
        gc.freeze()  # Python would search all objects for cycles before it ends


def print_in_any_encoding() -> None:
    """Write what the console's encoding lacks as ``\\xb1``: no table ends in an error."""
    for stream in (sys.stdout, sys.stderr):
        # without a console there is none, and a program that calls this may have put in another
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _run() -> NoReturn:
    try:
        code = app(standalone_mode=False)
    except BenchError as error:
        fail(str(error), error.exit_code)
    except KeyboardInterrupt:
        code = INTERRUPTED
    except BrokenPipeError:  # the reader of a pipe is gone, like `| head`: nobody is left to tell
        sys.exit(1)
    except Exception as error:
        line = _what_to_mend(error)
        if not line:
            raise
        fail(line, BAD_INPUT)
    if code == INTERRUPTED:  # the argument parser catches Ctrl-C and returns this
        fail(INTERRUPTION, INTERRUPTED)
    sys.exit(code if isinstance(code, int) else 0)


def _what_to_mend(error: Exception) -> str:
    """One line for what a person can mend: a full disk, a missing package, a wrong argument; "" for
    anything else."""
    if isinstance(error, OSError):
        return _what_of_cache(error) or disk_message(error)
    if isinstance(error, ModuleNotFoundError):
        return what_to_install(error)
    if isinstance(error, typer.Abort):
        return "not started"
    # typer carries its own copy of click, so its usage errors are known by what they can do
    show = getattr(error, "format_message", None)
    return str(show()) if show else ""


def _what_of_cache(error: OSError) -> str:
    """One line where it is the cache that cannot be written; "" for anything else."""
    if not isinstance(error.filename, str) or error.errno not in OF_A_DISK:
        return ""
    try:
        in_cache = Path(error.filename).is_relative_to(users_cache())
    except BenchError:  # there is no cache
        return ""
    return f"{error.filename}: {error.strerror}; {ANOTHER_CACHE}" if in_cache else ""


def fail(message: str, code: int) -> NoReturn:
    say_error(f"bench: {one_line(message)}")
    sys.exit(code)
