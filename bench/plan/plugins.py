"""The classes of methods: registered ones by name, one's own as ``module:Class``. Imports no torch before it has found one."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

import methods
from bench.errors import InputError, unknown, what_to_install

if TYPE_CHECKING:
    from methods.api import Method

PAGE = "docs/contract.md"


def method_class(name: str) -> type[Method]:
    """The class of a registered method, or of ``module:Class``, which may be a file of the current folder.

    Raises:
        InputError: no such method, or it cannot be imported, or it is not written for the contract.
    """
    if not methods.reference(name):
        raise unknown("method", name, methods.names())
    if os.getcwd() not in sys.path:
        sys.path.append(
            os.getcwd()
        )  # `bert-bench` does not look there as `python -m bench` does; workers take the path over
    try:
        kind = methods.get(name)
    except ImportError as error:
        hint = (
            "; name a module as Python imports it, like mine:Mine, not a file" if "/" in name or ".py" in name else ""
        )
        if (error.name or "").startswith("methods."):  # a name of another contract
            hint = f"; it is not written for contract {methods.CONTRACT} ({PAGE})"
        raise InputError(f"the method {name} cannot be imported: {what_to_install(error) or error}{hint}") from None
    except InputError:
        raise
    except (Exception, SystemExit) as error:  # the module of a third party runs as it is imported
        raise InputError(f"the method {name} cannot be imported: {type(error).__name__}: {error}") from None
    refuse_other_classes(name, kind)
    return kind


def refuse_other_classes(name: str, kind: object) -> None:
    """Raises InputError for what is no method of the contract."""
    from methods.api import Method

    if not isinstance(kind, type):
        raise InputError(f"{name} is not a class")
    if not issubclass(kind, Method):
        raise InputError(f"{name} is no method: it should subclass methods.api.Method ({PAGE})")
