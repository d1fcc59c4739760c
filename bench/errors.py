"""The errors a person sees, and the exit code of each.

BenchError               exit code
├── InputError           2   bad input or usage; nothing was started or written
├── CellError            6   one cell cannot go on; it becomes a failed record, the others continue
└── NothingMeasured      4   there was nothing to read
"""

from __future__ import annotations

import difflib
import errno
import re
import shlex
import sys
from collections.abc import Iterable

OK, CHECK_FAILED, BAD_INPUT, INCONCLUSIVE, NOTHING_MEASURED, NOT_COMPARABLE, CELLS_FAILED = range(7)
INTERRUPTED = 130


def one_line(text: str) -> str:
    """The text without line ends and control characters: files, and what somebody types, may hold
    anything."""
    return "".join(character if character.isprintable() else " " for character in text)


class BenchError(Exception):
    """Says what happened, what was expected and what to type next."""

    exit_code = 1


class InputError(BenchError):
    exit_code = BAD_INPUT

    def __init__(self, message: str = "") -> None:
        super().__init__(one_line(message))


class NothingMeasured(BenchError):
    exit_code = NOTHING_MEASURED


class CellError(BenchError):
    """A guard stopped one training: loss not a number, a term without gradient, empty attention
    ..."""

    exit_code = CELLS_FAILED


def nearest(given: str, known: Iterable[str], alike: float = 0.6) -> str:
    """The known name that is most like the given one, in capitals or not; "" where none is at least
    so much alike, from 0 to 1."""
    lower = {name.lower(): name for name in known}
    return next(
        (
            lower[near]
            for near in difflib.get_close_matches(given.lower(), lower, n=1, cutoff=alike)
        ),
        "",
    )


def unknown(kind: str, given: str, known: Iterable[str]) -> InputError:
    """The error for a name that does not exist, with the nearest one that does."""
    known = list(known)
    near = nearest(given, known)
    hint = f"did you mean {near!r}? " if near else ""
    return InputError(f"no {kind} is called {given!r}; {hint}known: {', '.join(known)}")


def what_to_install(error: ImportError) -> str:
    """A message that says what to type where a package is missing that the project depends on; ""
    for any other error of an import."""
    from importlib.metadata import PackageNotFoundError, requires

    name = (error.name or "").partition(".")[0].lower()
    try:
        needed = [
            requirement.partition(";")[0].strip() for requirement in requires("bert-bench") or []
        ]
    except PackageNotFoundError:  # it runs from its folder and was never installed
        return ""
    own = [
        each for each in needed if re.split(r"[^\w.-]", each)[0].replace("-", "_").lower() == name
    ]
    if not own or not isinstance(error, ModuleNotFoundError):
        return ""
    command = f"{shlex.quote(sys.executable)} -m pip install {shlex.quote(own[0])}"
    return f"the package {name} is not installed; type: {command}"


OF_A_DISK = (
    errno.ENOSPC,
    errno.EIO,
    errno.EROFS,
    errno.EACCES,
    errno.EPERM,
    errno.EDQUOT,
    errno.ENOLCK,
)
"""A full, broken, read-only or forbidden disk. The system names no file in some of these, as when a
lock is given back."""


def disk_message(error: OSError) -> str:
    """A message that says what to do about a file or a disk that cannot be used; "" for any other
    error of the system."""
    if not error.filename and error.errno not in OF_A_DISK:
        return ""
    where = error.filename or "the disk of the results, the cache or the reports"
    return f"{where}: {error.strerror}; name another file or folder, or mend this one"


LISTED = 8
"""Names that an error lists. Of more it names the nearest, or says where all of them are if none is
near."""


def known_row(row: str, known: Iterable[str], where: object) -> str:
    """The row of some record that was typed, perhaps with its settings in another order.

    Args:
        where: the folder of the records.

    Raises:
        InputError: no record has it; names the nearest one.
    """
    known = sorted(known)
    for name in known:
        if sorted(name.split(":")) == sorted(row.split(":")):
            return name
    near = next((name for name in known if name.startswith(f"{row} (")), nearest(row, known))
    said = [f"did you mean {near!r}?"] if near else []
    if len(known) <= LISTED:
        said.append(f"there are: {', '.join(known)}" if known else "the folder has no records")
    elif not near:
        said.append(f"the reports of `bench report --results {where}` have all {len(known)} rows")
    raise InputError(f"no record of the row {row!r} in {where}; {' '.join(said)}")
