"""What a record says of an error: its message with what to try, and its traceback, without folders of this machine."""

from __future__ import annotations

import os
import re
import sys
import sysconfig
import tempfile
import traceback
from pathlib import Path

import methods
from bench.errors import BenchError
from bench.folders import users_cache
from bench.record.schema import Failure
from methods.api import MethodError

OUT_OF_MEMORY = re.compile(r"out of memory|can't allocate memory|cannot allocate memory", re.IGNORECASE)
"""What torch says on CUDA, and on a CPU: there it is a plain RuntimeError."""
LESS_MEMORY = (
    "less memory is needed with fewer --jobs, with --set micro_batch=8 (batches of the same size, in parts), with "
    "--set batch_size=16, or with --precision bf16"
)


def method_line(error: BaseException, method: str) -> str:
    """The last line of the method's own package that ran before an error; "" for an error that says itself what to do."""
    if isinstance(error, BenchError | MethodError):
        return ""
    own = {"methods", methods.reference(method).split(":")[0].split(".")[0]}
    lines = [
        f"{module.replace('.', '/')}.py, line {line}, in {frame.f_code.co_name}"
        for frame, line in traceback.walk_tb(error.__traceback__)
        if (module := str(frame.f_globals.get("__name__"))).split(".")[0] in own
    ]
    return lines[-1] if lines else ""


def failure_of(error: BaseException, method: str) -> Failure:
    """What a record says of an error.

    Args:
        method: the registered name of the row's method, whose line is named.
    """
    line = method_line(error, method)
    said = "; ".join(filter(None, [f"{error} ({line})" if line else str(error), what_to_try(error)]))
    return Failure(
        type=type(error).__name__,
        message=redact_paths(said),
        traceback=redact_paths("".join(traceback.format_exception(error))),
    )


AFTER_A_FLAG = r"(?<=['\"\s]-[A-Za-z])"
"""After a compiler's flag like -I."""
AFTER_A_COLON = r"(?:(?<=file:)|(?<=file://)|(?<=[^/\s:]:)(?=/[^/]))"
"""In a list of paths, or where a program names the file; the ``//`` of a web address does not match."""
IN_A_NAME = r"[^\s/\\'\"<>|:,;()]"
FOLDERS_OF_A_PATH = re.compile(
    rf"(?:(?<![\w.:/>~-])|{AFTER_A_FLAG}|{AFTER_A_COLON})(?:[A-Za-z]:)?[/\\](?:{IN_A_NAME}+[/\\])+(?={IN_A_NAME})"
)
"""The folders of an absolute path; not of a web address."""

BEGINS, ENDS = rf"(?:(?<![\w.~-])|{AFTER_A_FLAG})", r"(?:(?<=[/\\])|(?!\.?[\w-]))"
"""Around a folder. It may come directly after a flag. In the middle of a path or of a web address its name means another
folder, and so it does as the beginning of a longer name."""


def redact_paths(text: str) -> str:
    """The text without folders of this machine: records are shared, and should not show where somebody works.

    A folder whose name has a blank in it stays, and what follows it in the path.
    """
    named = {
        str(Path(__file__).resolve().parents[2]) + os.sep: "",
        str(users_cache()): "<cache>",
        sysconfig.get_paths()["purelib"]: "<packages>",
        sysconfig.get_paths()["stdlib"]: "<python>",
        sys.prefix: "<python>",
        sys.base_prefix: "<python>",
        str(Path.cwd()) + os.sep: "",
        tempfile.gettempdir(): "<temporary>",
        str(Path.home()): "~",
    }
    for folder in sorted(named, key=len, reverse=True):
        if folder.strip(os.sep):  # the present folder may be "/"
            text = re.sub(BEGINS + re.escape(folder) + ENDS, lambda _, short=named[folder]: short, text)  # type: ignore[misc]
    return FOLDERS_OF_A_PATH.sub("<elsewhere>/", text)


def what_to_try(error: BaseException) -> str:
    """What helps against an error that says only what happened; "" where nothing is known."""
    is_about_memory = isinstance(error, MemoryError) or OUT_OF_MEMORY.search(str(error)) is not None
    return LESS_MEMORY if is_about_memory and not isinstance(error, BenchError | MethodError) else ""
