"""Messages for a person while something runs: one live line on a terminal, plain lines
elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TextIO

from bench.terminal import say, shown

if TYPE_CHECKING:
    from rich.progress import Progress as Bar

EVERY_SECONDS = 15.0
"""How often a plain line appears where there is no terminal."""
FIRST_SECONDS = 5.0
"""When the first of them appears: a person who has just typed the command waits for it."""


def duration(seconds: float) -> str:
    """``"3 days"``, ``"1 h 05 min"``, ``"3 min 10 s"``, ``"8 s"``."""
    whole = round(seconds)
    if whole >= 48 * 3600:
        return f"{whole / 86400:.0f} days"
    if whole >= 3600:
        return f"{whole // 3600} h {whole % 3600 // 60:02d} min"
    return f"{whole // 60} min {whole % 60:02d} s" if whole >= 60 else f"{whole} s"


def quiet() -> None:
    """Silence the progress bars and load reports of transformers: ours is the only progress."""
    from transformers.utils import logging

    logging.set_verbosity_error()
    logging.disable_progress_bar()


class Pace:
    """How long a stretch of work will still take, by its own steps alone.

    Where the number of steps changes another stretch begins. What was done before, by a run that
    broke off, says nothing of the pace.
    """

    def __init__(self) -> None:
        self._first: tuple[float, int, int] | None = None
        """when the stretch began, how much was done then, and of how many steps"""

    def left(self, now: float, done: int, total: int) -> float | None:
        """Seconds until it is done; None where its first step is still under way."""
        if self._first is None or self._first[2] != total or done < self._first[1]:
            self._first = now, done, total
        begun, before, _ = self._first
        if done <= before:
            return None
        return (now - begun) / (done - before) * (total - done)


class Progress:
    """Says what is running, how far it is and how long it will still take."""

    def __init__(
        self, stream: TextIO | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.stream = stream or sys.stderr
        self.clock = clock

    def say(self, text: str) -> None:
        say(text, self.stream)

    def say_pace(self, text: str) -> None:
        """How far something is, where there is no live line."""
        self.say(text)

    def counted(self, title: str, done: int, total: int) -> None:
        """Told of every step of what this process does; whoever raises here ends it."""

    def is_stopping(self) -> bool:
        """Whether a training should keep its state at its next step, and end."""
        return False

    @contextmanager
    def task(self, title: str, is_short: bool = False) -> Iterator[Callable[[int, int], None]]:
        """A stretch of work; call what this yields with (done, total) as often as you like.

        Args:
            is_short: it leaves no line behind; without a terminal it is named only where it lasts.
        """
        with (self._live if self.stream.isatty() else self._plain)(title, is_short) as update:
            yield update

    @contextmanager
    def _live(self, title: str, is_short: bool) -> Iterator[Callable[[int, int], None]]:
        with self.bar(transient=is_short) as bar:
            job = bar.add_task(shown(title), total=None)
            yield lambda done, total: bar.update(job, completed=done, total=total)

    def bar(self, transient: bool = False, has_pace: bool = True) -> Bar:
        """Live lines of a terminal: what, how far, since when, how long still.

        Args:
            transient: nothing is left of them at the end.
            has_pace: whether how long still follows from how far; else the line's words say it.
        """
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            TaskProgressColumn,
            TextColumn,
            TimeElapsedColumn,
            TimeRemainingColumn,
        )
        from rich.progress import Progress as Bar
        from rich.table import Column

        columns = (
            TextColumn(
                "{task.description}",
                table_column=Column(ratio=1, no_wrap=True, overflow="ellipsis"),
            ),
            BarColumn(bar_width=16),
            TaskProgressColumn(),
            TimeElapsedColumn(),
            *((TimeRemainingColumn(), TextColumn("left")) if has_pace else ()),
        )
        return Bar(*columns, console=Console(file=self.stream), transient=transient, expand=True)

    @contextmanager
    def _plain(self, title: str, is_short: bool) -> Iterator[Callable[[int, int], None]]:
        begun = self.clock()
        spoken = begun - EVERY_SECONDS + FIRST_SECONDS
        pace = Pace()
        is_counted = False

        def update(done: int, total: int) -> None:
            nonlocal spoken, is_counted
            is_counted = True
            now = self.clock()
            left = pace.left(now, done, total)
            if now - spoken >= EVERY_SECONDS and left is not None:
                spoken = now
                self.say_pace(f"  {title}: {done}/{total} steps, about {duration(left)} left")

        yield update
        if is_counted and not is_short:  # nothing was counted: it was there already
            self.say(f"  {title}: done in {duration(self.clock() - begun)}")
