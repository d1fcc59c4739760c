"""Energy as the machine counts it: RAPL for processors, NVML for NVIDIA GPUs.

What no counter tells is not measured, never estimated.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

POWERCAP = Path("/sys/class/powercap")
COUNTED = ("package", "dram")
"""Zones of RAPL that are added: processors and their memory. Cores and graphics are parts of a
package, ``psys`` is the whole board."""
SHORTEST_SECONDS = 2.0
"""Seconds of one measurement: the counters are written about a thousand times a second (RAPL) or
fifty times (NVML)."""
TURNS = 6
"""The smallest and the largest of six values are a 95 % interval of the median."""


class NotCounted(Exception):
    """This machine does not tell how much energy it uses; the message says why."""


@dataclass
class Counter:
    """Energy of a processor or GPU."""

    name: str
    """what is counted, as a report says it"""
    read: Callable[[], list[int]]
    """the microjoules that each zone has counted"""
    largest: list[int]
    """of each zone, after which it begins again at 0"""

    def __post_init__(self) -> None:
        self._last = self.read()

    def used(self) -> float:
        """Joules since the last call; the first time since it was made."""
        before = self._last
        self._last = self.read()
        # a counter that overflows begins again at 0
        zones = zip(before, self._last, self.largest, strict=True)
        return sum((now - then) % (largest + 1) for then, now, largest in zones) / 1e6


def rapl(folder: Path = POWERCAP) -> Counter:
    """The counters of Intel and AMD processors, as Linux shows them (its documentation: "Power
    Capping Framework").

    Raises:
        NotCounted: there is none, or only the administrator may read it.
    """
    # processors and their memory
    counters: dict[Path, str] = {}
    for zone in sorted(folder.glob("intel-rapl:*")):
        if not all((zone / file).exists() for file in ("name", "energy_uj", "max_energy_range_uj")):
            continue
        name = (zone / "name").read_text(encoding="utf-8").strip()
        if name.startswith(COUNTED):
            counters[zone] = name
    if not any(name.startswith("package") for name in counters.values()):
        raise NotCounted("the system shows no energy counter of the processor (RAPL)")
    try:
        return Counter(
            f"RAPL: {', '.join(counters.values())}",
            lambda: [_number_in(zone / "energy_uj") for zone in counters],
            [_number_in(zone / "max_energy_range_uj") for zone in counters],
        )
    except PermissionError:
        raise NotCounted(f"only the administrator may read {folder}/*/energy_uj") from None
    except (OSError, ValueError) as error:
        raise NotCounted(
            f"the energy counter of the processor (RAPL) cannot be read: {error}"
        ) from None


def _number_in(file: Path) -> int:
    return int(file.read_text(encoding="utf-8"))


def nvml(uuid: str) -> Counter:
    """The counter of one NVIDIA GPU (Volta or newer), as the driver's library tells it.

    Raises:
        NotCounted: the Python package of NVML is not installed, or the GPU has no counter.
    """
    try:
        import pynvml
    except ModuleNotFoundError:
        raise NotCounted("the package nvidia-ml-py is not installed") from None
    try:
        pynvml.nvmlInit()
        gpu = pynvml.nvmlDeviceGetHandleByUUID(f"GPU-{uuid}")
        return Counter(
            "NVML: the GPU",
            lambda: [1000 * pynvml.nvmlDeviceGetTotalEnergyConsumption(gpu)],
            [2**64],
        )
    except pynvml.NVMLError as error:
        raise NotCounted(f"the GPU does not tell its energy: {error}") from None


def counter_of(device: str) -> Counter:
    """The counter of what computes on a device.

    Raises:
        NotCounted: there is none.
    """
    kind = device.partition(":")[0]
    if kind == "cpu":
        return rapl()
    if kind == "cuda":
        import torch

        return nvml(str(torch.cuda.get_device_properties(device).uuid))
    raise NotCounted(f"no energy counter is known for the device {device}")


def joules_in_turns(
    passes: Mapping[str, Callable[[], object]],
    counter: Counter,
    shortest: float = SHORTEST_SECONDS,
    on_turn: Callable[[int], object] = lambda done: None,
) -> dict[str, list[float]]:
    """Joules of one call of each, once a turn.

    Everything that the processor or GPU uses in that time is in them, also what it uses when idle.

    Args:
        passes: each returns when the device has done its work.
        shortest: seconds for which each is called again and again.
    """
    joules: dict[str, list[float]] = {name: [] for name in passes}
    for turn in range(1, TURNS + 1):
        for name, call in passes.items():
            # only what this system uses counts
            counter.used()
            begun = time.perf_counter()
            times = 0
            while not times or time.perf_counter() - begun < shortest:
                call()
                times += 1
            joules[name].append(counter.used() / times)
        on_turn(turn)
    return joules
