"""The command line: strings in, exit code out. Heavy libraries are imported inside the verbs."""

from __future__ import annotations

import errno
import sys
from typing import NoReturn

import typer

from bench.cli import check, extend, read, run  # each adds its verbs to the program
from bench.cli.program import app
from bench.errors import BAD_INPUT, INTERRUPTED, BenchError, what_to_install
from bench.record.set_aside import notes_sent_to

__all__ = ["app", "check", "extend", "main", "read", "run"]

OF_A_DISK = (errno.ENOSPC, errno.EIO, errno.EROFS, errno.EACCES, errno.EPERM, errno.EDQUOT)
"""Errors that are told in one line also where the system names no file, as when a lock is given back."""
INTERRUPTION = (
    "interrupted; what was finished is kept. Run the same command again: it resumes with what is missing, "
    "a long training at its last saved state"
)


def main() -> NoReturn:
    """Run the command line; never shows a traceback for something a person can mend."""
    with notes_sent_to(lambda note: print(f"bench: {note.sentence()}", file=sys.stderr)):
        _run()


def _run() -> NoReturn:
    try:
        code = app(standalone_mode=False)
    except BenchError as error:
        fail(str(error), error.exit_code)
    except KeyboardInterrupt:
        code = INTERRUPTED
    except BrokenPipeError:
        sys.exit(1)
    except OSError as error:
        if not error.filename and error.errno not in OF_A_DISK:
            raise
        where = error.filename or "the disk of the results, the cache or the reports"
        fail(f"{where}: {error.strerror}; name another file or folder, or mend this one", BAD_INPUT)
    except ModuleNotFoundError as error:
        lacking = what_to_install(error)
        if not lacking:
            raise
        fail(lacking, BAD_INPUT)
    except Exception as error:
        usage = _usage_error(error)
        if usage is None:
            raise
        fail(usage, BAD_INPUT)
    if code == INTERRUPTED:  # the argument parser catches Ctrl-C and returns this
        fail(INTERRUPTION, INTERRUPTED)
    sys.exit(code if isinstance(code, int) else 0)


def _usage_error(error: Exception) -> str | None:
    """One line for what the argument parser found wrong, or None for anything else."""
    if isinstance(error, typer.Abort):
        return "not started"
    # typer carries its own copy of click, so its usage errors are known by what they can do
    show = getattr(error, "format_message", None)
    return str(show()) if show else None


def fail(message: str, code: int) -> NoReturn:
    print(f"bench: {message}", file=sys.stderr)
    sys.exit(code)
