"""Energy as the machine counts it: RAPL for processors, NVML for NVIDIA GPUs. What no counter tells is not measured, never estimated."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

POWERCAP = Path("/sys/class/powercap")
COUNTED = ("package", "dram")
"""Zones of RAPL that are added: processors and their memory. Cores and graphics are parts of a package, ``psys`` is the whole board."""
SHORTEST_SECONDS = 2.0
"""Of one measurement: the counters are written about a thousand times a second (RAPL) or fifty times (NVML)."""
TURNS = 6
"""The smallest and the largest of six values are a 95 % interval of the median."""


class NotCounted(Exception):
    """This machine does not tell how much energy it uses; the message says why."""


class Counter(Protocol):
    """Energy of a processor or GPU since some moment."""

    name: str
    """what is counted, as a report says it"""

    def used(self) -> float:
        """Joules since the last call; the first time since it was made."""


@dataclass
class Zone:
    """One counter file of RAPL. It begins again at 0 after ``largest`` microjoules."""

    file: Path
    largest: int
    last: int | None = None

    def used(self) -> int:
        """Microjoules since the last call."""
        now = int(self.file.read_text())
        before, self.last = self.last, now
        return 0 if before is None else (now - before) % (self.largest + 1)


class Rapl:
    """The counters of Intel and AMD processors, as Linux shows them (its documentation: "Power Capping Framework").

    Raises:
        NotCounted: there is none, or only the administrator may read it.
    """

    def __init__(self, folder: Path = POWERCAP) -> None:
        files = ("name", "energy_uj", "max_energy_range_uj")
        zones = [z for z in sorted(folder.glob("intel-rapl:*")) if all((z / file).exists() for file in files)]
        found = {z: name for z in zones if (name := (z / "name").read_text().strip()).startswith(COUNTED)}
        if not any(name.startswith("package") for name in found.values()):
            raise NotCounted("the system shows no energy counter of the processor (RAPL)")
        try:
            self._zones = [Zone(zone / "energy_uj", int((zone / "max_energy_range_uj").read_text())) for zone in found]
            self.used()
        except PermissionError:
            raise NotCounted(f"only the administrator may read {folder}/*/energy_uj") from None
        except (OSError, ValueError) as error:
            raise NotCounted(f"the energy counter of the processor (RAPL) cannot be read: {error}") from None
        self.name = f"RAPL: {', '.join(found.values())}"

    def used(self) -> float:
        return sum(zone.used() for zone in self._zones) / 1e6


class Nvml:
    """The counter of one NVIDIA GPU (Volta or newer), as the driver's library tells it.

    Raises:
        NotCounted: the Python package of NVML is not installed, or the GPU has no counter.
    """

    def __init__(self, uuid: str) -> None:
        try:
            import pynvml
        except ModuleNotFoundError:
            raise NotCounted("the package nvidia-ml-py is not installed") from None
        try:
            pynvml.nvmlInit()
            gpu = pynvml.nvmlDeviceGetHandleByUUID(f"GPU-{uuid}")
            self._millijoules: Callable[[], int] = lambda: pynvml.nvmlDeviceGetTotalEnergyConsumption(gpu)
            self._last = self._millijoules()
        except pynvml.NVMLError as error:
            raise NotCounted(f"the GPU does not tell its energy: {error}") from None
        self.name = "NVML: the GPU"

    def used(self) -> float:
        before, self._last = self._last, self._millijoules()
        return (self._last - before) / 1000


def counter_of(device: str) -> Counter:
    """The counter of what computes on a device.

    Raises:
        NotCounted: there is none.
    """
    kind = device.partition(":")[0]
    if kind == "cpu":
        return Rapl()
    if kind == "cuda":
        import torch

        return Nvml(str(torch.cuda.get_device_properties(device).uuid))
    raise NotCounted(f"no energy counter is known for the device {device}")


def joules_in_turns(
    passes: Mapping[str, Callable[[], object]], counter: Counter, shortest: float = SHORTEST_SECONDS
) -> dict[str, list[float]]:
    """Joules of one call of each, once a turn.

    Everything that the processor or GPU uses in that time is in them, also what it uses when idle.

    Args:
        passes: each returns when the device has done its work.
        shortest: seconds for which each is called again and again.
    """
    found: dict[str, list[float]] = {name: [] for name in passes}
    for _ in range(TURNS):
        for name, call in passes.items():
            counter.used()
            begun, times = time.perf_counter(), 0
            while not times or time.perf_counter() - begun < shortest:
                call()
                times += 1
            found[name].append(counter.used() / times)
    return found
