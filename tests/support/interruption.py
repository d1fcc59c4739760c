"""A run that is interrupted at a chosen step."""

from __future__ import annotations

from contextlib import contextmanager
from itertools import count

from bench.progress import Progress


class BreaksOff(Progress):
    """Stands in for a person who presses Ctrl-C, or a machine that goes away, at some step of what has this in its title."""

    def __init__(self, title: str, step: int) -> None:
        super().__init__()
        self.title, self.step = title, step

    @contextmanager
    def task(self, title, is_short=False):
        seen = count(1)
        with super().task(title, is_short) as update:

            def counted(done: int, total: int) -> None:
                update(done, total)
                if self.title in title and next(seen) == self.step:
                    raise KeyboardInterrupt

            yield counted
