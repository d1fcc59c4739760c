"""Whole training loops, each in a thread of its own, of which one moves at a time and by one step.

So every contestant is timed in its real loop, with all that it does between two steps, and yet each round has
one step of each. A loop calls ``pause`` after each of its steps.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import torch


class Left(BaseException):
    """Raised inside a loop that is not wanted any more. No Exception: loops catch those of a step."""


class Turns:
    """One loop, from its first step to its last. Nothing of it runs outside :meth:`step` and :meth:`close`."""

    def __init__(self, name: str, loop: Callable[[Callable[[], None]], object]) -> None:
        self.name = name
        self._loop, self._threads = loop, torch.get_num_threads()
        self._go, self._done = threading.Semaphore(0), threading.Semaphore(0)
        self._leaving = False
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def step(self) -> float:
        """Let the loop go on by a step; the seconds from one end of a step to the next. The first includes the set-up.

        Raises:
            RuntimeError: it took its last step before, or it failed; the cause is its own exception.
        """
        begun = time.perf_counter()
        self._go.release()
        self._done.acquire()
        if self._error is not None:
            raise RuntimeError(f"{self.name}: {self._error}") from self._error
        return time.perf_counter() - begun

    def close(self) -> None:
        """Leave the loop where it is."""
        self._leaving = True
        self._go.release()
        self._thread.join()

    def _run(self) -> None:
        torch.set_num_threads(self._threads)  # a thread's own number, which a new thread does not inherit
        self._go.acquire()
        try:
            if not self._leaving:
                self._loop(self._pause)
                raise RuntimeError("its last step was taken before")
        except Left:
            pass
        except BaseException as error:
            self._error = error
        self._done.release()

    def _pause(self) -> None:
        self._done.release()
        self._go.acquire()
        if self._leaving:
            raise Left
