"""How busy the processor is with the work of others, so that nobody takes times beside it. No torch."""

from __future__ import annotations

import os
import time
from pathlib import Path

WATCHED_SECONDS = 0.5


def busy_cores(seconds: float = WATCHED_SECONDS, file: Path = Path("/proc/stat")) -> float | None:
    """How many cores are in use while this process sleeps; None where the machine does not tell (it is not Linux)."""
    before = _ticks(file)
    time.sleep(seconds if before else 0)
    after = _ticks(file)
    if before is None or after is None:
        return None
    used = after - before
    return used / seconds / os.sysconf("SC_CLK_TCK")


def _ticks(file: Path) -> int | None:
    """Clock ticks that all cores together have worked since the machine began."""
    try:
        name, *counts = file.read_text().splitlines()[0].split()
        user, nice, system, _, _, interrupts, soft_interrupts = map(int, counts[:7])
    except (OSError, ValueError, IndexError):
        return None
    return user + nice + system + interrupts + soft_interrupts if name == "cpu" else None
