"""Whole training loops, each in a thread of its own, of which one moves at a time and by one step.

So every contestant is timed in its real loop, with all that it does between two steps, and yet each round has
one step of each. A loop calls ``pause`` after each of its steps.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import torch

Pause = Callable[[], None]
Loop = Callable[[Pause], object]
"""A training from its first step to its last; it calls ``pause`` after each."""


class Left(BaseException):
    """Raised inside a loop that is not wanted any more. No Exception: loops catch those of a step."""


class Ended(Exception):
    """A loop came to its end, or failed; the cause is its own exception."""


class Turns:
    """One loop. Nothing of it runs outside :meth:`step` and :meth:`close`."""

    def __init__(self, name: str, loop: Loop) -> None:
        self.name = name
        self._loop, self._threads = loop, torch.get_num_threads()
        self._go, self._done = threading.Semaphore(0), threading.Semaphore(0)
        self.cpu_seconds = 0.0
        """of the last step; on a machine that does something else beside, they say more than its seconds"""
        self._leaving = False
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def step(self) -> float:
        """Let the loop go on by a step; the seconds from one end of a step to the next. The first includes the set-up.

        Raises:
            Ended: it took its last step before, or it failed.
        """
        if not self._thread.is_alive():
            raise Ended(f"{self.name} has no step left")
        begun, worked = time.perf_counter(), time.process_time()
        self._go.release()
        self._done.acquire()
        seconds = time.perf_counter() - begun
        self.cpu_seconds = time.process_time() - worked
        if self._error is not None:
            self._thread.join()
            raise Ended(f"{self.name}: {self._error}") from self._error
        return seconds

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
                raise Ended("its last step was taken before")
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
