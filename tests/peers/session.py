"""One run of the command: what its record lacks is measured, in the order of a reader's interest."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grid
import real_grid
import rounds
from contestants import Contestant, first_losses
from inside import steps_by_part
from our_loop import share_steps
from peer_record import Record, rounds_of
from work import BATCH, Work, work_of

from bench.data.encoding import Encoded
from bench.measure.machine import peak_memory_bytes

LONG = 64
"""Steps of a training of which few measure shares of the gradient."""


@dataclass(frozen=True)
class Session:
    """A record, what it is measured on, and how it is kept."""

    record: Record
    data: Encoded
    folder: Path
    save: Callable[[], None]
    say: Callable[[str], None]

    def work(self, epochs: int, name: str) -> Work:
        """The work with a folder of its own. A session that goes on has other batches than those before it."""
        folder = self.folder / name
        folder.mkdir()
        settings = self.record["settings"]
        return work_of(settings["size"], self.data, epochs, settings["seed"] + len(self.record["sessions"]), folder)

    def rounds(self, contestants: Mapping[str, Contestant], wanted: int) -> None:
        """Check that everybody does the same work, then time it until there are ``wanted`` rounds.

        Raises:
            OtherWork: somebody minimises something else; nobody is timed.
        """
        left = wanted - len(rounds_of(self.record))
        if left <= 0:
            return
        work = self.work(rounds.epochs_for(left, len(self.data), BATCH), "rounds")
        told = lambda name, loss: self.say(f"{name}: loss of the first step {loss:.7g}")  # noqa: E731
        self.record["first_losses"] = first_losses(contestants, work, told)
        rounds.measure(self.record, contestants, work, wanted, self.save, self.say)

    def inside(self, steps: int) -> None:
        """Time the parts of some of our steps."""
        if not steps or self.record.get("inside"):
            return
        work = self.work(rounds.epochs_for(max(steps, LONG), len(self.data), BATCH), "inside")
        shares = share_steps(len(work.batches))
        found = steps_by_part(work, steps, lambda number, total: self.say(f"inside our step: {number} of {total}"))
        self.record["inside"] = [
            {**step, "measures_shares": number + rounds.FIRST in shares} for number, step in enumerate(found)
        ]
        self.save()

    def memory(self) -> None:
        """Note how much memory all of it took at its peak."""
        self.record["peak_memory_bytes"] = max(self.record.get("peak_memory_bytes") or 0, peak_memory_bytes() or 0)
        self.save()

    def grid(self, asked: Any) -> None:
        """Measure the parts of the grid, and compute it."""
        if not asked.grid_steps:
            return
        epochs = max(3, -(-asked.grid_steps * BATCH // len(self.data)))
        work = self.work(epochs, "grid")
        if "grid_parts" not in self.record:
            self.record["grid_parts"] = grid.parts_of(self.record["settings"]["size"], work, self.say)
            self.save()
        whole = grid.Asked(asked.grid_rows, asked.grid_epochs)
        self.record["grid"] = grid.estimate(self.record["grid_parts"], work, whole)
        self.save()

    def real_grid(self, times: int) -> None:
        """Run a small grid by both sides."""
        if not times or "real_grid" in self.record:
            return
        folder = self.folder / "real-grid"
        folder.mkdir()
        size = self.record["settings"]["size"]
        self.record["real_grid"] = real_grid.measured(size, self.data, folder, times, self.say)
        self.save()
