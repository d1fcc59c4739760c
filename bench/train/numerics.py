"""Where and in what precision a group trains, and the random state that each student keeps for itself."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor

from bench.errors import InputError


@dataclass(frozen=True)
class Numerics:
    """Where and in what precision a group trains."""

    device: torch.device = torch.device("cpu")
    precision: str = "fp32"

    def autocast(self) -> torch.autocast:
        return torch.autocast(self.device.type, torch.bfloat16, enabled=self.precision == "bf16")


def device_of(name: str) -> torch.device:
    """``auto``: whatever accelerate finds; else a device by name.

    Raises:
        InputError: torch does not have that device here.
    """
    if name == "auto":
        from accelerate import PartialState

        return torch.device(PartialState().device)
    try:
        device = torch.device(name)
        torch.zeros(1, device=device)
    except (RuntimeError, AssertionError) as error:
        raise InputError(f"--device {name}: {str(error).splitlines()[0]}; try --device cpu") from None
    return device


class RandomState:
    """A private copy of torch's random state, current only inside ``with``."""

    def __init__(self, seed: int, device: torch.device) -> None:
        self._device = device
        with self._saved():
            torch.manual_seed(seed)
            self._state = self._read()

    def _read(self) -> tuple[Tensor, Tensor | None]:
        return torch.get_rng_state(), torch.cuda.get_rng_state(self._device) if self._device.type == "cuda" else None

    def _write(self, state: tuple[Tensor, Tensor | None]) -> None:
        torch.set_rng_state(state[0])
        if state[1] is not None:
            torch.cuda.set_rng_state(state[1], self._device)

    @contextmanager
    def _saved(self) -> Iterator[None]:
        outer = self._read()
        try:
            yield
        finally:
            self._write(outer)

    def state(self) -> dict[str, Tensor]:
        """Where its numbers stand, by kind of device."""
        return {name: value for name, value in zip(("cpu", "cuda"), self._state, strict=True) if value is not None}

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """Stand where :meth:`state` said."""
        self._state = (state["cpu"], state.get("cuda"))

    @contextmanager
    def current(self) -> Iterator[None]:
        with self._saved():
            self._write(self._state)
            try:
                yield
            finally:
                self._state = self._read()
