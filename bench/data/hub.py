"""Files of the hub, downloaded once into the hub's own cache. A hub that stalls, breaks off or refuses is one line. No torch."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
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
    403: "it answered 403: the repository is not open to you; ask for access on its page, then type `hf auth login`",
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
"""Repository -> the line that says that the hub has a newer revision of it than the one that is read here."""


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

    The commit that is read first is kept in the cache and read from then on: what changes on the hub would else be another key,
    and everything would be trained again.

    Args:
        patterns: of the files that are wanted.
        offline: ask no hub; only what was downloaded before.
        said: how the message of an error begins.
        instead: how it ends: what to type in the place of it.
        kind: ``dataset``; a model if None.
        revision: a commit or a branch; if None the commit that was read first. The folder is called like the commit.

    Raises:
        InputError: the hub did not give it, or it was never downloaded.
    """
    from huggingface_hub import get_session, snapshot_download

    hooks = {} if offline else get_session().event_hooks
    if hooks and _limit not in hooks["request"]:
        get_session().event_hooks = {**hooks, "request": [*hooks["request"], _limit]}
    pin = users_cache() / REVISIONS / f"{kind or 'model'}s--{name.replace('/', '--')}"
    pinned = pin.read_text(encoding="utf-8").strip() if revision is None and pin.is_file() else ""
    for wait in (*WAITS, None):
        try:
            asked: dict[str, Any] = {"repo_type": kind, "revision": revision or pinned or None}
            asked |= {"allow_patterns": list(patterns), "local_files_only": offline}
            folder = Path(snapshot_download(name, **asked))
            break
        except Exception as error:  # of the hub's library, of its network library and of the system
            why, may_pass = _fault(error, offline)
            if wait is None or not may_pass:
                raise InputError(f"{said} ({why}); {instead}") from None
            time.sleep(wait)
    if revision is None and not pinned:
        write_atomically(pin, folder.name.encode())
    newest = _newest(name, kind) if pinned and not offline else ""
    if newest not in ("", pinned):
        CHANGED[name] = (
            f"{name} has changed on the hub: its newest revision is {newest[:12]}, and {pinned[:12]}, which was read first, is "
            f"used. To take the new one, remove {pin}"
        )
    return folder


def converted(
    name: str, config: str, offline: bool, instead: str, revision: str | None = None
) -> Path:
    """The folder of ``<split>/*.parquet`` of a configuration, as the hub itself converts every public data set.

    Raises:
        InputError: as :func:`downloaded`.
    """
    revision, said = revision or "refs/convert/parquet", f"{name} could not be read from the hub"
    return (
        downloaded(name, [f"{config}/*/*.parquet"], offline, said, instead, "dataset", revision)
        / config
    )


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


def _fault(error: BaseException, offline: bool) -> tuple[str, bool]:
    """What happened, in some words, and whether it may pass by itself."""
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
    answer = next(
        (int(cause.response.status_code) for cause in causes if isinstance(cause, HfHubHTTPError)),
        0,
    )
    if any(isinstance(cause, HFValidationError) for cause in causes):
        return "that is no name of a repository", False
    if offline or any(isinstance(cause, OfflineModeIsEnabled) for cause in causes):
        return "it was not downloaded before, and offline nobody asks the hub", False
    denied = next((cause for cause in causes if isinstance(cause, PermissionError)), None)
    if denied is not None:
        where = f" to {denied.filename}" if denied.filename else ""
        return f"its cache cannot be written{where}; set HF_HOME to a folder that can", False
    if answer:
        why = f"it answered {answer}" + ("; try again later" if answer in PASSING else "")
        return REFUSED.get(answer, why), answer in PASSING
    if any("Timeout" in name for name in names):
        return f"it did not answer within {ANSWER_SECONDS:.0f} seconds", True
    if any("Connect" in name for name in names):
        return "it cannot be reached", False
    if BROKEN_OFF.intersection(names):
        return "the connection broke off again and again", True
    if isinstance(error, LocalEntryNotFoundError):
        return "it cannot be reached, and it was not downloaded before", False
    return one_line(str(error).strip())[:200] or names[0], False
