"""A device that is not there: its tensors lie on the CPU, and what mixes them with the CPU's own is refused, as a GPU refuses it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor
from torch._decomp.decompositions import lstm_data_impl, lstm_impl
from torch.overrides import TorchFunctionMode
from torch.utils import _foreach_utils
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.backend_registration import _setup_privateuseone_for_python_backend

NAME = "pretend"
aten = torch.ops.aten
MOVES = (aten._to_copy.default, aten.copy_.default)
LENGTHS_ON_CPU = (aten._pack_padded_sequence.default,)
"""Torch wants their lengths on the CPU, on a GPU too, and answers with batch sizes on the CPU."""


class OnDevice(Tensor):
    """A tensor of the device; ``numbers`` are its values, on the CPU."""

    @staticmethod
    def __new__(cls, numbers: Tensor) -> OnDevice:
        return Tensor._make_wrapper_subclass(  # type: ignore[attr-defined, no-any-return]
            cls,
            numbers.size(),
            strides=numbers.stride(),
            storage_offset=numbers.storage_offset(),
            dtype=numbers.dtype,
            device=torch.device(NAME, 0),
            requires_grad=numbers.requires_grad,
        )

    def __init__(self, numbers: Tensor) -> None:
        self.numbers = numbers

    @classmethod
    def __torch_dispatch__(
        cls, operation: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        return dispatched(operation, args, kwargs or {})


def dispatched(operation: Any, args: Any, kwargs: Any) -> Any:
    """Do it on the CPU; what comes of the device's tensors, or was asked for there, is of the device.

    Raises:
        RuntimeError: tensors of the device and of the CPU are mixed. Numbers (tensors without dimensions) may lie on the CPU.
    """
    tensors: list[Tensor] = []
    mapped(tensors.append, (args, kwargs))
    of_device = [value for value in tensors if isinstance(value, OnDevice)]
    others = [value for value in tensors if not isinstance(value, OnDevice) and value.dim()]
    if of_device and others and operation not in MOVES + LENGTHS_ON_CPU:
        raise RuntimeError(f"{operation} was given tensors of the device and of the CPU")
    asked = kwargs.get("device")
    is_of_device = bool(of_device) if asked is None else torch.device(asked).type == NAME
    if asked is not None and is_of_device:
        kwargs = {**kwargs, "device": torch.device("cpu")}
    answer = operation(*mapped(_numbers, args), **mapped(_numbers, kwargs))
    if operation is aten.copy_.default:
        return args[0]
    if not is_of_device:
        return answer
    if operation in LENGTHS_ON_CPU:
        return OnDevice(answer[0]), answer[1]
    # what an operation changes in place stays the same tensor
    same = {id(value.numbers): value for value in of_device}
    return mapped(lambda value: same[id(value)] if id(value) in same else OnDevice(value), answer)


def mapped(function: Callable[[Tensor], Any], value: Any) -> Any:
    """The same lists, tuples and dicts with every tensor replaced: torch's own ``tree_map`` takes half of all the time here."""
    if isinstance(value, Tensor):
        return function(value)
    if isinstance(value, (tuple, list)):
        return type(value)([mapped(function, part) for part in value])
    if isinstance(value, dict):
        return {name: mapped(function, part) for name, part in value.items()}
    return value


def _numbers(value: Any) -> Any:
    return value.numbers if isinstance(value, OnDevice) else value


class _Everything(TorchDispatchMode):
    """Tensors that are made on the device come from no tensor of it."""

    def __torch_dispatch__(
        self, operation: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        return dispatched(operation, args, kwargs or {})


class _BelowDispatch(TorchFunctionMode):
    """Torch turns lists into tensors, and tensors into lists, below what a dispatcher sees; and an LSTM is one kernel on a GPU, which
    a CPU does not have."""

    def __torch_function__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        kwargs = dict(kwargs or {})
        if function is Tensor.tolist and isinstance(args[0], OnDevice):
            return args[0].numbers.tolist()
        if (
            function in (torch.tensor, torch.as_tensor)
            and (device := kwargs.pop("device", None)) is not None
        ):
            return function(*args, **kwargs).to(device)
        if getattr(function, "__name__", "") == "lstm" and args[0].device.type == NAME:
            return (lstm_data_impl if isinstance(args[1], Tensor) else lstm_impl)(*args, **kwargs)
        return function(*args, **kwargs)


@cache
def _registered() -> tuple[SimpleNamespace, torch.library.Library]:
    """Tell torch of the device, once in a process: its random numbers are the CPU's, and it never has to be waited for."""
    always: Callable[..., Any] = lambda *given: True  # noqa: E731
    module = SimpleNamespace(
        is_available=lambda: False,  # to other tests in this process
        is_initialized=always,
        device_count=lambda: 1,
        current_device=lambda: 0,
        _is_in_bad_fork=lambda: False,
        manual_seed_all=always,
        get_amp_supported_dtype=lambda: [torch.bfloat16],
        get_rng_state=lambda device: torch.get_rng_state(),
        set_rng_state=lambda state, device: torch.set_rng_state(state),
        empty_cache=always,
    )
    _setup_privateuseone_for_python_backend(NAME, module)
    library = torch.library.Library("_", "IMPL")
    # what torch asks for itself, as the buffer of a gradient
    library.fallback(
        lambda operation, *args, **kwargs: dispatched(operation, args, kwargs), "PrivateUse1"
    )
    return module, library


@contextmanager
def pretend_device(monkeypatch: pytest.MonkeyPatch) -> Iterator[torch.device]:
    module, _ = _registered()
    monkeypatch.setattr(module, "is_available", lambda: True)
    monkeypatch.setattr(torch.accelerator, "synchronize", lambda device=None: None)
    # kernels that take many tensors at once are for plain tensors; a GPU's are
    monkeypatch.setattr(
        _foreach_utils,
        "_foreach_supported_types",
        [*_foreach_utils._foreach_supported_types, OnDevice],
    )
    # a process's first backward pass starts threads for the devices of that moment: this one has none
    with torch.autograd.set_multithreading_enabled(False), _Everything(), _BelowDispatch():
        yield torch.device(NAME)
