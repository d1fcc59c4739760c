"""What Ctrl-C does in a run: noticed for good, ignored while processes start, deferred while records are written.

Only the main thread may say what a signal does.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def interrupts_ignored() -> Iterator[None]:
    """Processes that are started inside ignore Ctrl-C from their first moment."""
    if not _can_handle_signals():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def interrupts_deferred() -> Iterator[None]:
    """Ctrl-C inside takes effect at the end: what is done inside is done as a whole, or not begun."""
    if not _can_handle_signals():
        yield
        return
    received: list[tuple[Any, ...]] = []
    before = signal.signal(signal.SIGINT, lambda *given: received.append(given))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
        if received and callable(before):
            before(*received[0])
        elif received:
            os.kill(os.getpid(), signal.SIGINT)  # ignored, or the end of the process, as it was before


_noticed = False


@contextmanager
def interrupts_noticed() -> Iterator[None]:
    """Ctrl-C inside is remembered: a library that is at work may turn the exception into an error of its own, or drop it."""
    global _noticed
    before = signal.getsignal(signal.SIGINT)
    if not _can_handle_signals() or not callable(before):
        yield
        return

    def remembered(number: int, frame: Any) -> None:
        global _noticed
        _noticed = True
        before(number, None)  # without the frame: bench.__main__ ends no run because something is being imported

    _noticed = False
    signal.signal(signal.SIGINT, remembered)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
        _noticed = False


def end_if_interrupted() -> None:
    """Before an error becomes a failed cell: it may be what a library made of Ctrl-C.

    Raises:
        KeyboardInterrupt: somebody pressed Ctrl-C, whatever has become of it since.
    """
    if _noticed:
        raise KeyboardInterrupt


def _can_handle_signals() -> bool:
    """Whether this is the main thread, and the present handler is one that Python can put back."""
    return threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGINT) is not None
