"""The effect of Ctrl-C on a run: it is noticed for good, ignored while processes start, deferred
while records are written.

Only the main thread may say what a signal does.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, cast


@contextmanager
def _handled_by(handler: Any) -> Iterator[None]:
    """Inside, Ctrl-C goes to this handler, if this is the main thread and the present one can be
    put back."""
    before = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or before is None:
        yield
        return
    signal.signal(signal.SIGINT, handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def interrupts_ignored() -> AbstractContextManager[None]:
    """Processes that are started inside ignore Ctrl-C from their first moment."""
    return _handled_by(signal.SIG_IGN)


@contextmanager
def interrupts_deferred() -> Iterator[None]:
    """Ctrl-C inside takes effect at the end: what is done inside is done as a whole, or not
    begun."""
    received: list[int] = []
    try:
        with _handled_by(lambda number, frame: received.append(number)):
            yield
    finally:
        if received:
            signal.raise_signal(signal.SIGINT)  # to whatever handled it before


_noticed = False


@contextmanager
def interrupts_noticed() -> Iterator[None]:
    """Ctrl-C inside is remembered: a library that is at work may turn the exception into an error
    of its own, or drop it."""
    global _noticed
    before = signal.getsignal(signal.SIGINT)

    def remembered(number: int, frame: Any) -> None:
        global _noticed
        _noticed = True
        # without the frame: bench.__main__ ends no run because something is being imported
        cast(Callable[[int, None], None], before)(number, None)

    _noticed = False
    try:
        with _handled_by(remembered if callable(before) else before):
            yield
    finally:
        _noticed = False


def end_if_interrupted() -> None:
    """Before an error becomes a failed cell: it may be what a library made of Ctrl-C.

    Raises:
        KeyboardInterrupt: somebody pressed Ctrl-C, whatever has become of it since.
    """
    if _noticed:
        raise KeyboardInterrupt
