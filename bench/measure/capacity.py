"""Find how many cores and how much memory this process may use, in its container's limits."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path("/")
UNIFIED: tuple[str, ...] = ("sys/fs/cgroup", "sys/fs/cgroup/unified")
"""Where cgroup v2 is mounted: alone, and next to v1."""
V1 = "sys/fs/cgroup"


def usable_cores(root: Path = ROOT) -> int:
    """Cores that this process may use: those it may run on, limited by its container's quota of
    time; at least 1.

    A quota of one core and a half gives 1: a second thread would be stopped for half of its time.

    Args:
        root: the folder that has ``proc`` and ``sys``; a test may plant its own.
    """
    return max(1, int(min([allowed_cores(), *_quotas(root)])))


def allowed_cores() -> int:
    """Cores that this process may run on, whatever its quota of time."""
    return len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1


def usable_memory_bytes(root: Path = ROOT) -> int | None:
    """Bytes that new work of this process may fill: what is available, limited by what its
    container has left.

    File contents that the container only caches count as free: the system gives them up when memory
    is wanted.

    Args:
        root: the folder that has ``proc`` and ``sys``; a test may plant its own.

    Returns:
        None where the system does not say it in files (macOS, Windows).
    """
    # what the system has, in kilobytes, and what the container has left
    lines = [line.partition(":") for line in _text(root / "proc/meminfo").splitlines()]
    available = [1024 * int(value.split()[0]) for name, _, value in lines if name == "MemAvailable"]
    return min([*available, *_left(root)], default=None)


def _quotas(root: Path) -> Iterator[float]:
    """Cores by every quota above this process."""
    for folder in _folders(root, "cpu"):
        v1 = [*_numbers(folder / "cpu.cfs_quota_us"), *_numbers(folder / "cpu.cfs_period_us")]
        for both in (v1, _numbers(folder / "cpu.max")):
            # v1 writes -1 and v2 "max" where there is no limit
            if len(both) == 2 and min(both) > 0:
                yield both[0] / both[1]


def _left(root: Path) -> Iterator[int]:
    """Bytes left under every memory limit; v1 writes a number above all memory for none."""
    for folder in _folders(root, "memory"):
        for limit, used, cached in (
            ("memory.max", "memory.current", "inactive_file"),
            ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
        ):
            entries = dict(
                re.findall(r"^(\S+) (\d+)$", _text(folder / "memory.stat"), re.MULTILINE)
            )
            for most, now in zip(_numbers(folder / limit), _numbers(folder / used), strict=False):
                yield max(0, most - now + int(entries.get(cached, 0)))


def _folders(root: Path, controller: str) -> Iterator[Path]:
    """The cgroup of this process and those above it, of v2 and of v1's ``controller``.

    Within a container the path may be one of the machine outside, which is not there: the mount
    itself is then the container's own cgroup, and it comes last of those above.
    """
    for line in _text(root / "proc/self/cgroup").splitlines():
        number, controllers, path = line.split(":", 2)
        if number == "0" and not controllers:
            mounts = UNIFIED
        elif controller in controllers.split(","):
            mounts = tuple(dict.fromkeys(f"{V1}/{name}" for name in (controllers, controller)))
        else:
            continue
        for mount in mounts:
            # from the cgroup of this process up to the mount
            own = root / mount / path.strip("/")
            while own != (root / mount).parent:
                yield own
                own = own.parent


def _text(file: Path) -> str:
    """The content of a file; "" where it cannot be read."""
    try:
        return file.read_text(encoding="utf-8")
    except OSError:
        return ""


def _numbers(file: Path) -> list[int]:
    """The whole numbers in a file: none where it says ``max`` or cannot be read."""
    return [int(word) for word in _text(file).split() if re.fullmatch(r"-?\d+", word)]
