"""Download files of the hub once, into the hub's own cache.

A hub that stalls, breaks off or refuses is one line. No torch.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from bench.errors import InputError, one_line
from bench.files import write_atomically
from bench.folders import REVISIONS, users_cache

ANSWER_SECONDS = 10.0
"""How long the hub may be silent. Its library waits for ever where it sets no limit of its own."""
WAITS = (1.0, 4.0)
"""Seconds before each further try of what may pass by itself."""
PASSING = frozenset({408, 429, 500, 502, 503, 504})
"""Answers that may be others in a moment."""
REFUSED = {
    401: "it answered 401: no such repository, or a private one; `hf auth login` opens your own",
    403: "it answered 403: the repository is not open to you; ask for access on its page, "
    "then type `hf auth login`",
    404: "it answered 404: it has no such repository, or no such file in it",
    429: "it answered 429: too many questions; try again in some minutes",
}
BROKEN_OFF = frozenset(
    {"RemoteProtocolError", "ReadError", "WriteError", "ProtocolError", "IncompleteRead"}
)
"""Errors of the hub's network library, by name: another version of it has another library."""

DATA_SET = re.compile(r"hub:([\w.-]+/[\w.-]+)(?:/([\w.-]+))?(?:@([\w./-]+))?")
"""How a data set is typed: ``hub:NAME``, ``hub:NAME/CONFIG``, and either with ``@REVISION``."""
CHANGED: dict[str, str] = {}
"""Repository -> the line that says that the hub has a newer revision than is read here."""


def downloaded(
    name: str,
    patterns: Sequence[str],
    offline: bool,
    said: str,
    instead: str,
    kind: str | None = None,
    revision: str | None = None,
) -> Path:
    """The folder of a repository's files. What may pass by itself is tried three times.

    The commit that is read first is kept in the cache and read from then on: what changes on the
    hub would else be another key, and everything would be trained again.

    Args:
        patterns: of the files that are wanted.
        offline: ask no hub; only what was downloaded before.
        said: how the message of an error begins.
        instead: how it ends: what to type in the place of it.
        kind: ``dataset``; a model if None.
        revision: a commit or a branch; if None the commit that was read first. The folder is
            called like the commit.

    Raises:
        InputError: the hub did not give it, or it was never downloaded.
    """
    if not offline:
        _limit_questions()
    # the commit that was read first
    pin = users_cache() / REVISIONS / f"{kind or 'model'}s--{name.replace('/', '--')}"
    pinned = ""
    if revision is None and pin.is_file():
        pinned = pin.read_text(encoding="utf-8").strip()

    options: dict[str, Any] = {
        "repo_type": kind,
        "revision": revision or pinned or None,
        "allow_patterns": list(patterns),
        "local_files_only": offline,
    }
    folder = _tried(name, options, said, instead)
    if revision is None and not pinned:
        write_atomically(pin, folder.name.encode())

    # has the hub a newer one?
    newest = _newest(name, kind) if pinned and not offline else ""
    if newest not in ("", pinned):
        CHANGED[name] = (
            f"{name} has changed on the hub: its newest revision is {newest[:12]}, "
            f"and {pinned[:12]}, which was read first, is used. To take the new one, remove {pin}"
        )
    return folder


def _limit_questions() -> None:
    """Let every question to the hub end within a time."""
    from huggingface_hub import get_session

    hooks = get_session().event_hooks
    if hooks and _limit not in hooks["request"]:
        get_session().event_hooks = {**hooks, "request": [*hooks["request"], _limit]}


def _tried(name: str, options: Mapping[str, Any], said: str, instead: str) -> Path:
    """The folder of a repository's files, tried again where an error may pass by itself.

    Raises:
        InputError: an error does not pass.
    """
    from huggingface_hub import snapshot_download

    for wait in (*WAITS, None):
        try:
            return Path(snapshot_download(name, **options))
        except Exception as error:  # of the hub's library, of its network library and of the system
            fault = _fault(error, options["local_files_only"])
            if wait is None or not fault.may_pass:
                raise InputError(f"{said} ({fault.why}); {instead}") from None
            time.sleep(wait)
    raise AssertionError("the last try returns or raises")


def converted(
    name: str, config: str, offline: bool, instead: str, revision: str | None = None
) -> Path:
    """The folder of ``<split>/*.parquet`` of a configuration.

    The hub itself converts every public data set so.

    Raises:
        InputError: as :func:`downloaded`.
    """
    branch = revision or "refs/convert/parquet"
    said = f"{name} could not be read from the hub"
    patterns = [f"{config}/*/*.parquet"]
    return downloaded(name, patterns, offline, said, instead, "dataset", branch) / config


@lru_cache
def _newest(name: str, kind: str | None) -> str:
    """The commit that the hub has now; "" where it does not say."""
    from huggingface_hub import HfApi

    try:
        return str(HfApi().repo_info(name, repo_type=kind, timeout=ANSWER_SECONDS).sha)
    except Exception:  # what is needed is here; this is for a note
        return ""


def _limit(request: Any) -> None:
    """Give a question to the hub a limit of time where its library sets none."""
    limits = request.extensions.get("timeout") or {}
    parts = ("connect", "read", "write", "pool")
    request.extensions["timeout"] = {part: limits.get(part) or ANSWER_SECONDS for part in parts}


@dataclass(frozen=True)
class _Fault:
    """Why the hub gave nothing, in some words."""

    why: str
    may_pass: bool = False
    """whether it may pass by itself"""


def _fault(error: BaseException, offline: bool) -> _Fault:
    """Read why the hub gave nothing off an error of its library and those behind it."""
    from huggingface_hub.errors import (
        HfHubHTTPError,
        HFValidationError,
        LocalEntryNotFoundError,
        OfflineModeIsEnabled,
    )

    causes = [error]
    while causes[-1].__cause__ is not None:
        causes.append(causes[-1].__cause__)
    names = [type(cause).__name__ for cause in causes]

    def first(kind: type[BaseException]) -> Any:
        return next((cause for cause in causes if isinstance(cause, kind)), None)

    # what was asked for, and what this machine allows
    if first(HFValidationError):
        return _Fault("that is no name of a repository")
    if offline or first(OfflineModeIsEnabled):
        return _Fault("it was not downloaded before, and offline nobody asks the hub")
    denied = first(PermissionError)
    if denied:
        where = f" to {denied.filename}" if denied.filename else ""
        return _Fault(f"its cache cannot be written{where}; set HF_HOME to a folder that can")

    # what the hub answered
    answered = first(HfHubHTTPError)
    status = int(answered.response.status_code) if answered else 0
    if status:
        later = "; try again later" if status in PASSING else ""
        why = REFUSED.get(status, f"it answered {status}{later}")
        return _Fault(why, may_pass=status in PASSING)

    if isinstance(error, LocalEntryNotFoundError):
        not_there = "it cannot be reached, and it was not downloaded before"
    else:
        not_there = one_line(str(error).strip())[:200] or names[0]
    return _silence(names) or _Fault(not_there)


def _silence(names: Sequence[str]) -> _Fault | None:
    """Why the hub did not answer, by names of errors: its library may have another network's."""
    if any("Timeout" in name for name in names):
        return _Fault(f"it did not answer within {ANSWER_SECONDS:.0f} seconds", may_pass=True)
    if any("Connect" in name for name in names):
        return _Fault("it cannot be reached")
    if BROKEN_OFF.intersection(names):
        return _Fault("the connection broke off again and again", may_pass=True)
    return None
