"""Collect what a record says of the machine, the libraries and the code that made it."""

from __future__ import annotations

import contextlib
import hashlib
import os
import platform
import subprocess
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from bench.measure.capacity import allowed_cores

LIBRARIES = (
    "torch",
    "transformers",
    "tokenizers",
    "datasets",
    "evaluate",
    "numpy",
    "scipy",
    "accelerate",
    "fvcore",
)


@lru_cache
def environment(device: str, deterministic: bool = False) -> dict[str, Any]:
    """Python, system, processor, device, instructions and libraries; no host and no user."""
    import torch

    env: dict[str, Any] = {
        "python": platform.python_version(),
        "system": platform.system(),
        "processor": _processor(),
        "cores": allowed_cores(),
        "device": device,
    }
    # other vector instructions add in another order, and last digits differ
    env["instructions"] = torch.backends.cpu.get_cpu_capability()
    if device.startswith("cuda"):
        env["accelerator"] = torch.cuda.get_device_name(device)
    if deterministic:
        env["deterministic"] = True
        env["cublas_workspace"] = os.environ.get("CUBLAS_WORKSPACE_CONFIG")
    for library in LIBRARIES:
        try:
            env[library] = version(library)
        except PackageNotFoundError:
            env[library] = None
    return env


def _processor() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def sums_8_bits_exactly() -> bool:
    """Whether this processor sums products of two 8-bit numbers without overflow: of x86 those with
    VNNI; where it cannot be read, no.
    """
    if platform.machine() not in ("x86_64", "AMD64"):
        return True
    try:
        return "vnni" in Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        return False


@lru_cache
def revision() -> dict[str, Any]:
    """Commit of the checkout that runs, and whether its files were changed; None outside git."""
    root = Path(__file__).resolve().parents[2]

    def git(*words: str) -> str | None:
        try:
            done = subprocess.run(
                ["git", "-C", str(root), *words],
                capture_output=True,
                timeout=10,
                check=True,
            )
        except (OSError, subprocess.SubprocessError):
            return None
        return os.fsdecode(done.stdout).strip()

    # an installed package may lie in a checkout of something else
    if git("rev-parse", "--show-toplevel") != str(root):
        return {"commit": None, "dirty": None}
    changed = git("status", "--porcelain", "--", "bench", "methods", "pyproject.toml")
    return {"commit": git("rev-parse", "HEAD"), "dirty": bool(changed)}


def source_hash(cls: type) -> str:
    """sha256 of the file that defines a method."""
    import inspect

    return hashlib.sha256(Path(inspect.getfile(cls)).read_bytes()).hexdigest()


def peak_memory_bytes() -> int | None:
    """The largest resident size of this process so far; None where the system does not tell."""
    try:
        status = Path("/proc/self/status").read_text(encoding="utf-8")
        return 1024 * int(status.split("VmHWM:")[1].split()[0])
    except (OSError, IndexError, ValueError):
        pass
    try:
        import resource
    except ImportError:
        return None

    # macOS counts bytes, other systems kilobytes
    scale = 1 if platform.system() == "Darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * scale


def forget_peak() -> None:
    """Let :func:`peak_memory_bytes` begin again at the present size; on Linux alone."""
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5", encoding="utf-8")
