"""A run that is interrupted at a chosen step."""

from __future__ import annotations

from bench.progress import Progress


class BreaksOff(Progress):
    """Stands in for a person who presses Ctrl-C, or a machine that goes away, at some step of what has this in its title."""

    def __init__(self, title: str, step: int) -> None:
        super().__init__()
        self.title, self.step = title, step

    def task(self, title, is_short=False):
        whole = super().task(title, is_short)
        return whole if self.title not in title else self._cut(whole)

    def _cut(self, whole):
        from contextlib import contextmanager

        @contextmanager
        def task():
            with whole as update:
                seen = 0

                def count(done: int, total: int) -> None:
                    nonlocal seen
                    seen += 1
                    update(done, total)
                    if seen == self.step:
                        raise KeyboardInterrupt

                yield count

        return task()
