"""Where and in what precision a group trains, and the random state of each student."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from bench.measure.devices import choose_products
from methods.core.models import direct


@dataclass(frozen=True)
class ComputeSettings:
    """Where and in what precision a group trains."""

    device: torch.device = torch.device("cpu")
    precision: str = "fp32"

    def __post_init__(self) -> None:
        choose_products(self.device, self.precision)

    def frozen(self, teacher: nn.Module) -> nn.Module:
        """The teacher on this device, in evaluation mode.

        It has direct layers where starting kernels takes the time.
        """
        teacher = teacher.to(self.device)
        if self.device.type != "cpu":
            teacher = direct(teacher)
        return teacher.eval()

    def autocast(self) -> torch.autocast:
        return torch.autocast(self.device.type, torch.bfloat16, enabled=self.precision == "bf16")


class Stopwatch:
    """Tells how many seconds work took where it ran.

    On a CPU by the wall clock. CUDA is given work to do later, so its own events say when it began
    and ended; they are asked for only by :meth:`settle`, because asking makes the CPU wait. Other
    accelerators are waited for at both ends.
    """

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._open: list[tuple[torch.Event, torch.Event, Callable[[float], None]]] = []

    @contextmanager
    def timing(self, add: Callable[[float], None]) -> Iterator[None]:
        """Tell ``add`` the seconds of what is done inside: at once, or with :meth:`settle`."""
        # CUDA: two events in its own queue, read by settle
        if self._device.type == "cuda":
            begin = torch.Event(self._device, enable_timing=True)
            end = torch.Event(self._device, enable_timing=True)
            begin.record()
            yield
            end.record()
            self._open.append((begin, end, add))
            return
        # every other device: the clock, when its work is done
        begun = self._now()
        yield
        add(self._now() - begun)

    def settle(self) -> None:
        """Wait for what was timed, and tell its seconds."""
        # events of a GPU know their time when its work is done
        for begin, end, add in self._open:
            end.synchronize()
            add(begin.elapsed_time(end) / 1000)
        self._open = []

    def _now(self) -> float:
        if self._device.type != "cpu":
            torch.accelerator.synchronize(self._device)
        return time.perf_counter()


class RandomState:
    """A private copy of torch's random state, current only inside ``with``."""

    def __init__(self, seed: int, device: torch.device) -> None:
        self._device = device
        # seeding torch is the only way to such a state; what others draw stays as it was
        with self._saved():
            torch.manual_seed(seed)
            self._state = self._read()

    def _read(self) -> dict[str, Tensor]:
        """By kind of device: the CPU's numbers are drawn on every device (batches, new modules)."""
        state = {"cpu": torch.get_rng_state()}
        kind = self._device.type
        if kind == "mps":  # there is one, and its functions take no device
            state[kind] = torch.mps.get_rng_state()
        elif kind != "cpu":
            state[kind] = torch.get_device_module(kind).get_rng_state(self._device)
        return state

    def _write(self, state: Mapping[str, Tensor]) -> None:
        torch.set_rng_state(state["cpu"])
        kind = self._device.type
        if kind == "mps":
            torch.mps.set_rng_state(state[kind])
        elif kind != "cpu":
            torch.get_device_module(kind).set_rng_state(state[kind], self._device)

    @contextmanager
    def _saved(self) -> Iterator[None]:
        outer = self._read()
        try:
            yield
        finally:
            self._write(outer)

    def state(self) -> dict[str, Tensor]:
        """Where its numbers stand, by kind of device."""
        return dict(self._state)

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """Stand where :meth:`state` said.

        Raises:
            ValueError: it was kept on another kind of device, whose numbers are not these.
        """
        if set(state) != {"cpu", self._device.type}:
            kinds = " and ".join(sorted(state))
            raise ValueError(f"a random state of {kinds} cannot go on on {self._device.type}")
        self._state = dict(state)

    def begin_here(self) -> None:
        """Stand where torch's own state stands now."""
        self._state = self._read()

    def hand_over(self) -> None:
        """Let torch's own state stand where this one does."""
        self._write(self._state)

    @contextmanager
    def current(self) -> Iterator[None]:
        """Let torch draw from this state inside ``with``; afterwards it draws as it did before."""
        with self._saved():
            # this state, and where it stands afterwards, also after an error
            self._write(self._state)
            try:
                yield
            finally:
                self._state = self._read()
