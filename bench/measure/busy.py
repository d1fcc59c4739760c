"""How busy this machine is: a mark that cells are training, so that nobody takes times beside them
or removes what they write; and the work of other processes. No torch.
"""

from __future__ import annotations

import contextlib
import os
import platform
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.errors import InputError
from bench.folders import MARKS
from bench.measure.capacity import usable_cores

STAT = Path("/proc/stat")


@contextmanager
def training_here(cache: Path) -> Iterator[None]:
    """While inside, :func:`trainings` of the same cache folder names this process."""
    # an empty file that names the machine and the process
    mark = cache / MARKS / f"{platform.node()}-{os.getpid()}"
    mark.parent.mkdir(parents=True, exist_ok=True)
    mark.touch()
    try:
        yield
    finally:
        with contextlib.suppress(OSError):  # one that stays is removed when this process is gone
            mark.unlink(missing_ok=True)


def trainings(cache: Path, here_alone: bool = False) -> list[str]:
    """Runs that are training now; marks of this machine's processes that are gone are removed.

    Nobody can ask here whether a process of another machine runs: its mark counts until that
    machine removes it.

    Args:
        here_alone: leave out the runs of other machines that use the same cache.
    """
    runs = []
    for mark in sorted((cache / MARKS).glob("*")):
        host, _, process = mark.name.rpartition("-")
        is_here = host in ("", platform.node())
        if is_here and not is_alive(process):
            mark.unlink(missing_ok=True)
        elif is_here or not here_alone:
            runs.append(f"process {process} on {host or platform.node()}")
    return runs


def refuse_while_training(cache: Path, advice: str, here_alone: bool = False) -> None:
    """Refuse to go on while a run that uses this cache is training.

    Args:
        advice: how the message ends: why that matters, and what to do.
        here_alone: whether runs of other machines do not matter.

    Raises:
        InputError: a run that uses this cache is training.
    """
    busy = trainings(cache, here_alone)
    if not busy:
        return
    left = ""
    if not here_alone:
        left = f"; if a run of another machine was killed, remove its mark from {cache / MARKS}"
    raise InputError(f"cells are training ({', '.join(busy)}); {advice}{left}")


def is_alive(process: str) -> bool:
    """Whether a process with this number runs on this machine; no for what is not a number."""
    try:
        # signal 0 asks and does nothing
        os.kill(int(process), 0)
    except (ProcessLookupError, ValueError):
        return False
    except PermissionError:  # somebody else's
        return True
    return True


def refuse_bad_times(
    cache: Path, threads: int, in_spite: bool, device: str = "cpu"
) -> float | None:
    """Refuse to take times where they would mean little.

    Args:
        threads: with which the models will be timed.
        in_spite: take them although other processes use the processor.

    Returns:
        How many cores other processes use; None where the machine does not tell.

    Raises:
        InputError: more threads than cores, a run that is training, or other work.
    """
    from bench.record.speed_sessions import BUSY_CORES

    if threads < 1:
        raise InputError(f"--threads {threads}: should be at least 1")

    # threads beyond the cores wait for each other
    cores = usable_cores()
    if device == "cpu" and threads > cores:
        raise InputError(
            f"--threads {threads}: this process may use {cores} "
            f"core{'' if cores == 1 else 's'}, and threads would wait for each other; "
            f"type --threads {cores}"
        )

    # other work on this machine
    refuse_while_training(
        cache, "times taken beside them mean nothing. Wait for them to end", here_alone=True
    )
    others = busy_cores()
    if others is not None and others >= BUSY_CORES and not in_spite:
        raise InputError(
            f"other processes use {others:.1f} cores of this machine, so times mean little. Wait "
            "until they end; or add --busy, and the answer will say how busy it was"
        )
    return others


def busy_facts(others: float | None) -> dict[str, float]:
    """The facts of other processes in a record of times."""
    return {} if others is None else {"busy_cores": round(others, 2)}


def busy_cores(seconds: float = 0.5, file: Path = STAT) -> float | None:
    """How many cores are in use while this process sleeps; None where the machine is not Linux."""
    others = OtherWork(file)
    time.sleep(seconds)
    return others.cores()


class OtherWork:
    """How many cores other processes use from now on, on average, while this one works."""

    def __init__(self, file: Path = STAT) -> None:
        """
        Args:
            file: the kernel's count of what all cores have worked.
        """
        self._file = file
        self._ticks = self._read()
        self._own = time.process_time()
        self._begun = time.perf_counter()

    def cores(self) -> float | None:
        """So far; None where the machine does not tell (it is not Linux)."""
        now = self._read()
        if self._ticks is None or now is None:
            return None
        seconds = time.perf_counter() - self._begun
        worked = (now - self._ticks) / os.sysconf("SC_CLK_TCK")
        own = time.process_time() - self._own
        # what the two clocks round differently is no work of others
        return max(0.0, (worked - own) / seconds) if seconds > 0 else None

    def _read(self) -> int | None:
        """Ticks that all cores together have worked since the machine began."""
        try:
            name, *counts = self._file.read_text(encoding="utf-8").splitlines()[0].split()
            user, nice, system, _, _, interrupts, soft_interrupts = map(int, counts[:7])
        except (OSError, ValueError, IndexError):
            return None
        return user + nice + system + interrupts + soft_interrupts if name == "cpu" else None
