"""A run that is interrupted at a chosen step."""

from __future__ import annotations

from collections import Counter

from bench.progress import Progress


class BreaksOff(Progress):
    """Stands in for a person who presses Ctrl-C, or a machine that goes away, at some step of what has this in its title."""

    def __init__(self, title: str, step: int) -> None:
        super().__init__()
        self.title = title
        self.step = step
        self.seen = Counter[str]()

    def counted(self, title: str, done: int, total: int) -> None:
        self.seen[title] += 1
        if self.title in title and self.seen[title] == self.step:
            raise KeyboardInterrupt
