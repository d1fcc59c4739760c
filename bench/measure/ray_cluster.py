"""A Ray cluster that this process is connected to, and what it has room for.

Ray is imported when it is asked for.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from bench.errors import InputError

OBJECT_STORE_BYTES = 200_000_000
"""Shared memory of a cluster of this machine alone: answers of jobs, megabytes each. Its workers
share the disk."""

KNOCK_SECONDS = 10.0
"""How long a cluster may take to answer at all."""


@contextmanager
def connected(address: str, **resources: Any) -> Iterator[Any]:
    """Inside, this process is connected to a cluster; gives the module ``ray``.

    A connection that was there stays.

    Args:
        address: of the cluster's head, ``host:port``, or ``auto`` for the one that this machine
            belongs to; "" for a new one of this machine alone, which ends with the connection.
        resources: of the new one, as ``ray.init`` takes them.

    Raises:
        InputError: nobody answers at that address, or with another version.
    """
    # a cluster that we start reports to nobody
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    import ray

    if ray.is_initialized():
        yield ray
        return
    _check_reachable(address)
    quiet: dict[str, Any] = {
        "log_to_driver": False,
        "configure_logging": False,
        "include_dashboard": None,
    }
    try:
        if address:
            ray.init(address=address, **quiet)
        else:
            given = {"object_store_memory": OBJECT_STORE_BYTES, **resources}
            ray.init(address="local", **{**quiet, "include_dashboard": False}, **given)
    except (ConnectionError, RuntimeError, ValueError, TimeoutError, AssertionError) as error:
        what = f"--address {address}" if address else "a Ray cluster of this machine"
        raise InputError(
            f"{what}: {(str(error).strip() or type(error).__name__).splitlines()[0]}"
        ) from None
    try:
        yield ray
    finally:
        ray.shutdown()


def _check_reachable(address: str) -> None:
    """Look whether anybody listens at ``host:port``: Ray itself tries it for five minutes.

    Raises:
        InputError: nobody does.
    """
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal() or "/" in host:
        return
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=KNOCK_SECONDS).close()
    except (OSError, OverflowError) as error:
        raise InputError(
            f"--address {address}: nobody answers ({error}); `ray status` shows a cluster's address"
        ) from None


def places(address: str, cores: int, accelerator: bool) -> int:
    """How many jobs a cluster can do at a time now: one an accelerator, or as many as there are
    cores for; at least 1.

    Args:
        cores: of each job.
        accelerator: whether each job needs one.
    """
    with connected(address) as ray:
        nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    return max(1, sum(_room(node, cores, accelerator) for node in nodes))


def _room(node: Mapping[str, float], cores: int, accelerator: bool) -> int:
    """How many jobs one node has room for."""
    room = node.get("CPU", 0) // cores
    return int(min(room, node.get("GPU", 0)) if accelerator else room)


def has_room(ray: Any, cores: int, accelerator: bool, memory: int) -> bool:
    """Whether some node of the cluster can do such a job, were it free.

    Args:
        memory: in bytes.
    """
    return any(
        _room(node["Resources"], cores, accelerator)
        and node["Resources"].get("memory", 0) >= memory
        for node in ray.nodes()
        if node["Alive"]
    )
