"""Peak memory of loading one model and answering one batch, in a process of its own.

Run as ``python -m bench.measure.memory PLACE KIND DEVICE``, KIND being ``module:class`` of a folder
of transformers, or ``onnx`` of a file: prints bytes as JSON.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench.measure.machine import forget_peak, peak_memory_bytes
from bench.record.speed_sessions import Footprint

BATCH = 32
LENGTH = 128
ONNX_FILE = "onnx"
"""The kind of an ONNX file."""


def footprint(name: str, model: Any, device: str) -> Footprint:
    """Bytes of the saved weights, and peak memory where a folder can give the model's class."""
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        stored = sum(path.stat().st_size for path in Path(folder).glob("*.safetensors"))
        kind = f"{type(model).__module__}:{type(model).__qualname__}"
        peak = _peak_bytes(folder, kind, device)
    return Footprint(system=name, checkpoint_bytes=stored, peak_bytes=peak)


def footprint_of_file(name: str, file: Path, backend: str) -> Footprint:
    """Bytes of an ONNX file, and the peak memory of ONNX Runtime with it.

    Args:
        backend: that opens the file.
    """
    peak = _peak_bytes(str(file), ONNX_FILE, "cpu")
    size = file.stat().st_size
    return Footprint(system=name, backend=backend, checkpoint_bytes=size, peak_bytes=peak)


def _peak_bytes(place: str, kind: str, device: str) -> int | None:
    """What :func:`main` prints in a process of its own; None where it fails."""
    module = "bench.measure.memory"
    words = [sys.executable, "-m", module, place, kind, device]
    done = subprocess.run(words, capture_output=True, text=True)
    if done.returncode != 0 or not done.stdout:
        return None
    peak: int | None = json.loads(done.stdout.splitlines()[-1])["bytes"]
    return peak


def main(place: str, kind: str, device: str) -> None:
    """Load, answer once, print the peak above what the process had before."""
    answer = _in_onnx_runtime(place) if kind == ONNX_FILE else _in_torch(place, kind, device)
    if device.startswith("cuda"):
        import torch

        before: int | None = torch.cuda.memory_allocated(device)
        answer()
        after: int | None = torch.cuda.max_memory_allocated(device)
    else:
        forget_peak()
        before = peak_memory_bytes()
        answer()
        after = peak_memory_bytes()
    more = None
    if before is not None and after is not None:
        more = after - before
    print(json.dumps({"bytes": more}))


def _in_torch(folder: str, kind: str, device: str) -> Callable[[], Any]:
    """What loads a folder and answers one batch by torch; the libraries are loaded already."""
    from importlib import import_module

    import torch

    from methods.core.padded_attention import attend_by

    module, _, name = kind.partition(":")
    loader = getattr(import_module(module), name)
    ids = torch.ones(BATCH, LENGTH, dtype=torch.long, device=device)

    def answer() -> None:
        model = loader.from_pretrained(folder).to(device).eval()
        attend_by(model, "sdpa")
        with torch.inference_mode():
            model(input_ids=ids[:, : model.config.max_position_embeddings])

    return answer


def _in_onnx_runtime(file: str) -> Callable[[], Any]:
    """The same of an ONNX file by ONNX Runtime, with one thread."""
    import numpy
    import onnxruntime

    settings = onnxruntime.SessionOptions()
    settings.intra_op_num_threads = 1

    def answer() -> None:
        session = onnxruntime.InferenceSession(file, settings, providers=["CPUExecutionProvider"])
        read = numpy.ones((BATCH, LENGTH), dtype=numpy.int64)
        session.run(None, {each.name: read for each in session.get_inputs()})

    return answer


if __name__ == "__main__":
    main(*sys.argv[1:])
