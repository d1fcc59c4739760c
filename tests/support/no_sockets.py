"""A process that opens no connection: whoever tries is refused, and named."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

ASKING = ("getaddrinfo", "gethostbyname", "create_connection")


class Refused(OSError):
    """A connection was asked for."""


@contextmanager
def no_sockets(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Inside, nothing reaches the internet; yields what was asked for. The hub's library is told of no offline mode."""
    asked: list[str] = []

    def refuse(*given: Any, **_: Any) -> Any:
        address = next((one for one in given if not isinstance(one, socket.socket)), "")
        if isinstance(given[0], socket.socket) and given[0].family == socket.AF_UNIX:
            raise Refused("no local sockets here either")
        asked.append(repr(address))
        raise Refused(f"a connection to {address!r} was asked for")

    with monkeypatch.context() as patch:
        for name in ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE", "HF_DATASETS_OFFLINE"):
            patch.delenv(name, raising=False)
        patch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
        patch.setattr("datasets.config.HF_HUB_OFFLINE", False)
        for name in ("connect", "connect_ex", "sendto"):
            patch.setattr(socket.socket, name, refuse)
        for name in ASKING:
            patch.setattr(socket, name, refuse)
        yield asked
