"""What a record says of what went wrong.

Of an error it has the message with what to try and the traceback, without folders of this machine;
of a training that ended, terms that exploded, stood still or lost their gradient, and answers that
are suspect.
"""

from __future__ import annotations

import os
import re
import sys
import sysconfig
import tempfile
import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path

from pydantic import ValidationError

import methods
from bench.errors import BenchError
from bench.folders import users_cache
from bench.record.schema import Failure, first_fault
from methods.api import MethodError

OUT_OF_MEMORY = re.compile(
    r"out of memory|can't allocate memory|cannot allocate memory", re.IGNORECASE
)
"""What torch says on CUDA, and on a CPU: there it is a plain RuntimeError."""
LESS_MEMORY = (
    "less memory is needed with fewer --jobs, with --set micro_batch=8 (batches of the same size, "
    "in parts), with --set batch_size=16, or with --precision bf16"
)


def method_line(error: BaseException, method: str) -> str:
    """The last line of the method's own package that ran before an error.

    It is "" for an error that says itself what to do.
    """
    if isinstance(error, BenchError | MethodError):
        return ""
    packages = {"methods", methods.reference(method).split(":")[0].split(".")[0]}
    last = ""
    for frame, line in traceback.walk_tb(error.__traceback__):
        module = str(frame.f_globals.get("__name__"))
        if module.split(".")[0] in packages:
            last = f"{module.replace('.', '/')}.py, line {line}, in {frame.f_code.co_name}"
    return last


def failure_of(error: BaseException, method: str) -> Failure:
    """What a record says of an error.

    Args:
        method: the registered name of the row's method, whose line is named.
    """
    line = method_line(error, method)
    # what a method or a machine says of itself may be nothing that a record can hold
    message = first_fault(error) if isinstance(error, ValidationError) else str(error)
    said = f"{message} ({line})" if line else message
    # torch says nothing of what needs less memory
    is_about_memory = isinstance(error, MemoryError) or OUT_OF_MEMORY.search(str(error)) is not None
    if is_about_memory and not isinstance(error, BenchError | MethodError):
        said = "; ".join(filter(None, [said, LESS_MEMORY]))
    return Failure(
        type=type(error).__name__,
        message=redact_paths(said),
        traceback=redact_paths("".join(traceback.format_exception(error))),
    )


IN_A_NAME = r"[^\s/\\'\"<>|:,;()]"
FOLDERS_OF_A_PATH = re.compile(
    rf"(?<![\w./>~-])(?:[A-Za-z]:)?[/\\](?:{IN_A_NAME}+[/\\])+(?={IN_A_NAME})"
)
"""The folders of an absolute path; not of a web address."""
BEGINS = r"(?<![\w.~-])"
"""Before a folder: in the middle of a path or of a web address its name means another folder."""
ENDS = r"(?:(?<=[/\\])|(?!\.?[\w-]))"
"""After a folder: as the beginning of a longer name it means another one, too."""


def redact_paths(text: str) -> str:
    """The text without folders of this machine.

    Records are shared, and should not show where somebody works. A folder whose name has a blank in
    it stays, and what follows it in the path.
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
    # the longest first: one folder may lie in another
    for folder in sorted(named, key=len, reverse=True):
        if folder.strip(os.sep):  # the present folder may be "/"
            # a replacement as text would have its backslashes read
            short = named[folder].replace("\\", r"\\")
            text = re.sub(BEGINS + re.escape(folder) + ENDS, short, text)
    return FOLDERS_OF_A_PATH.sub("<elsewhere>/", text)


# --- trainings that ended

EXPLODED = 10.0
"""A term has exploded if its last values are at least so many times its first values."""
STILL = 1e-5
"""A term stands still if, over a whole stage, it changes by no more than this part of its value."""
WINDOWS = 8
"""A curve's first and last eighth are compared; one of fewer values than this says nothing."""
SUSPECT = "suspect answers"

STUDENT_TRIES = (
    "try more epochs, a smaller or a larger learning rate, and look at the terms of this record"
)
TEACHER_TRIES = (
    "its students learn from it: try more epochs or a smaller learning rate for it, "
    "another --teacher, and look at the labels"
)


def faults_of_training(
    terms: Mapping[str, Mapping[str, Sequence[float]]],
    shares: Mapping[str, Mapping[str, Sequence[float]]],
) -> list[str]:
    """A line for each thing that went wrong.

    Args:
        terms: stage -> term -> its value over the stage, as a record keeps it.
        shares: stage -> term -> its share of its player's gradient, at some steps from the first
            on.
    """
    faults = []
    for stage, curves in terms.items():
        for name, curve in curves.items():
            fault = _fault_of_term(name, curve, shares.get(stage, {}).get(name, ()))
            if fault:
                faults.append(f"stage {stage}: the term {name} {fault}")
    return faults


def _fault_of_term(name: str, curve: Sequence[float], shares: Sequence[float]) -> str:
    """What is wrong with a term of a stage, as the end of a sentence; "" for nothing.

    Args:
        shares: of its player's gradient, at some steps from the first on.
    """
    # it lost its gradient
    alive = [number for number, share in enumerate(shares, start=1) if share > 0]
    if alive and alive[-1] < len(shares):
        return (
            f"had no gradient from measurement {alive[-1] + 1} of {len(shares)} on: what it reads "
            f"is dead or saturated; try a smaller learning rate, or drop it (:-{name})"
        )
    # a short curve says nothing
    part = len(curve) // WINDOWS
    if not part:
        return ""
    if max(curve) - min(curve) <= STILL * max(map(abs, curve)):
        return (
            f"stayed at {curve[0]:.4g}: what it trains is dead, or cannot move it; "
            f"try another learning rate or seed, or drop it (:-{name})"
        )
    first = abs(sum(curve[:part]) / part)
    last = abs(sum(curve[len(curve) - part :]) / part)
    if first > 0 and last >= EXPLODED * first:
        return (
            f"grew from {first:.3g} to {last:.3g}; "
            "try a smaller learning rate, a smaller weight of the term, or another seed"
        )
    return ""
