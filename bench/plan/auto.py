"""What ``auto`` stands for: the real data and teacher where they are within reach, else the
offline pair."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from bench.data.own_tasks import expand, is_own, typed_tasks
from bench.errors import InputError
from bench.request import Request
from bench.request.choices import AUTO, EMBEDDED, HUB, HUB_TEACHER, SAMPLE

REAL = {"data": HUB, "teacher": HUB_TEACHER}
OFFLINE = {"data": SAMPLE, "teacher": EMBEDDED}
"""Field of a request -> what ``auto`` means where the hub is within reach, and where it is not."""
FEWER_ROWS = 200
FEWER_TOKENS = 40_000
"""Training examples of a task, and tokens of text, of generated data that nobody asked for: a first
look is over in minutes. ``--data sample`` has all of them."""


def without_auto(request: Request, brought: Sequence[str] = ()) -> Request:
    """The request with data and teacher in the place of ``auto``.

    The real ones are chosen where there is an accelerator, and they were downloaded before or the
    hub answers; else the offline pair, with a note that says why.

    Args:
        brought: what the user brings besides the teacher, as it was typed: finished models,
            predictions, methods.

    Raises:
        InputError: under CI (the variable CI is set), where one types what one means. Also without
            real data where the user brings something of his own: generated data would make it
            another experiment.
    """
    if AUTO not in (request.data, request.teacher):
        return request
    import torch

    # whether the real pair is within reach
    accelerator = request.device != "cpu" and torch.accelerator.is_available()
    is_real = accelerator and _is_within_reach(request)
    # where every task is a file, the data decide alone what is read where its texts are too short
    if request.data == AUTO and all(map(is_own, typed_tasks(request.tasks))):
        request = replace(request, data=HUB if is_real else SAMPLE)
    open_fields = [name for name in REAL if getattr(request, name) == AUTO]
    if not open_fields:
        return request
    if os.environ.get("CI"):
        raise InputError(
            "under CI --data and --teacher are typed, not chosen: add --data sample "
            "--teacher embedded"
        )
    if is_real:
        return replace(request, **_of_fields(REAL, open_fields))

    # else the offline pair, and why
    why = _why_offline(request, accelerator)
    if request.data == AUTO:
        _refuse_generated_data(request, brought, why)
    return _with_offline_pair(request, open_fields, why)


def _with_offline_pair(request: Request, open_fields: Sequence[str], why: str) -> Request:
    """The request with the offline pair in the place of ``auto``, and a note that says it.

    Args:
        open_fields: those that are ``auto``.
        why: ``auto`` does not choose the real ones.
    """
    chosen = " and ".join(f"{name} {OFFLINE[name]}" for name in open_fields)
    options = " ".join(f"--{name} {REAL[name]}" for name in open_fields)
    note = f"{why}, so auto chose {chosen}. For the real thing type {options}"
    request = replace(request, **_of_fields(OFFLINE, open_fields))
    # a first look at generated data takes few of them
    if "data" in open_fields:
        fewer = _fewer(request)
        request = replace(request, **fewer)
        amounts = [f"--{name.replace('_', '-')} {number}" for name, number in fewer.items()]
        if amounts:
            note += f". To be quick it adds {' '.join(amounts)}; --data sample has all there is"
    return replace(request, notes=(*request.notes, note))


def _fewer(request: Request) -> dict[str, Any]:
    """Limits of a first look at generated data, where the user typed none; none where a task is
    the user's own, whose examples are not generated."""
    if any(map(is_own, typed_tasks(request.tasks))):
        return {}
    fewer: dict[str, Any] = {}
    if request.max_train_rows is None:
        fewer["max_train_rows"] = FEWER_ROWS
    if request.corpus_tokens is None and not request.texts:
        fewer["corpus_tokens"] = FEWER_TOKENS
    return fewer


def _why_offline(request: Request, accelerator: bool) -> str:
    """Why the real data and teacher are not chosen."""
    if request.device == "cpu":
        return "--device cpu was typed"
    if not accelerator:
        return "there is no accelerator"
    if request.offline:
        return "--offline was typed"
    return "the hub does not answer, and the real thing was not downloaded before"


def _of_fields(values: dict[str, str], names: Sequence[str]) -> dict[str, Any]:
    """The values of these fields alone."""
    return {name: values[name] for name in names}


def _refuse_generated_data(request: Request, brought: Sequence[str], why: str) -> None:
    """Whether ``auto`` may choose generated data.

    Args:
        brought: what the user brings besides the teacher.
        why: ``auto`` does not choose the real ones.

    Raises:
        InputError: the user brings something of his own.
    """
    # a folder with a teacher is the user's too
    if Path(request.teacher).expanduser().is_dir():
        brought = [*brought, f"--teacher {request.teacher}"]
    if brought:
        raise InputError(
            f"{brought[0]}: {why}, so --data auto would mean generated sentences; add --data hub "
            "(GLUE) or --data sample (the generated ones)"
        )


def _is_within_reach(request: Request) -> bool:
    """Whether the real data and teacher can be read: they are here, or the hub answers."""
    return _is_cached(request) or (not request.offline and _hub_answers())


def _is_cached(request: Request) -> bool:
    """Whether what ``auto`` stands for was downloaded before: a compute node has no network, and
    may have it."""
    from bench.data.checkpoints import find
    from bench.data.sources import source_for

    try:
        if request.teacher == AUTO:
            find(HUB_TEACHER, None, offline=True)
        if request.data == AUTO:
            return all(
                source_for(task, HUB, offline=True).has(task, "train")
                for task, _ in expand(request.tasks)
            )
    except InputError:
        return False
    return True


def _hub_answers() -> bool:
    """Whether the hub answers one small question within three seconds.

    Its own client asks, which knows proxies and certificates.
    """
    from huggingface_hub import constants, get_session

    if constants.HF_HUB_OFFLINE:
        return False
    try:
        return bool(get_session().head(constants.ENDPOINT, timeout=3.0).status_code < 500)
    except Exception:  # of its network library, whichever it is
        return False
