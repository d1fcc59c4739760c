"""Find the device that a name means on this machine."""

from __future__ import annotations

import os

import torch

from bench.errors import InputError


def device_of(name: str, deterministic: bool = False) -> torch.device:
    """``auto``: whatever accelerate finds; else a device by name.

    From then on it is this process's current one: an event is recorded on the current device, and a
    context on another GPU takes hundreds of megabytes of it.

    Args:
        deterministic: from then on torch takes only kernels that give the same bits each time, and
            fails where it has none.

    Raises:
        InputError: torch does not have that device here.
    """
    if name == "auto":
        if not torch.accelerator.is_available():
            return torch.device("cpu")
        from accelerate import PartialState

        device = torch.device(PartialState().device)
    else:
        try:
            device = torch.device(name)
            if device.index is not None and device.type != "cpu":
                torch.accelerator.set_device_index(device.index)
            torch.zeros(1, device=device)
        except (RuntimeError, AssertionError) as error:
            raise InputError(
                f"--device {name}: {str(error).splitlines()[0]}; try --device cpu"
            ) from None
    if device.type != "cpu":
        # cuBLAS reads it with the first product of matrices of a process, and never again
        if deterministic:
            os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
        torch.use_deterministic_algorithms(deterministic)
    return device


def choose_products(device: torch.device, precision: str) -> None:
    """From then on this process multiplies fp32 matrices on CUDA in this precision, ``tf32`` or
    whole: torch knows one way at a time.
    """
    if device.type == "cuda":
        torch.backends.cuda.matmul.fp32_precision = "tf32" if precision == "tf32" else "ieee"
