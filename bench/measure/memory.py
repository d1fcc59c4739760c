"""Peak memory of loading one model and answering one batch, in a process of its own.

Run as ``python -m bench.measure.memory FOLDER KIND DEVICE``, KIND being ``module:class``: prints
bytes as JSON.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from bench.measure.machine import forget_peak, peak_memory_bytes
from bench.record.speed_sessions import Footprint

BATCH = 32
LENGTH = 128


def footprint(name: str, model: Any, device: str) -> Footprint:
    """Bytes of the saved weights, and peak memory where a folder can give the model's class."""
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        stored = sum(path.stat().st_size for path in Path(folder).glob("*.safetensors"))
        kind = f"{type(model).__module__}:{type(model).__qualname__}"
        done = subprocess.run(
            [sys.executable, "-m", "bench.measure.memory", folder, kind, device],
            capture_output=True,
            text=True,
        )
    peak = None
    if done.returncode == 0 and done.stdout:
        peak = json.loads(done.stdout.splitlines()[-1])["bytes"]
    return Footprint(system=name, checkpoint_bytes=stored, peak_bytes=peak)


def main(folder: str, kind: str, device: str) -> None:
    """Load, answer once, print the peak above what the process had before."""
    from importlib import import_module

    import torch

    from methods.core.padded_attention import attend_by

    module, _, name = kind.partition(":")
    loader = getattr(import_module(module), name)

    # the peak, less what was there before
    ids = torch.ones(BATCH, LENGTH, dtype=torch.long, device=device)
    on_gpu = torch.device(device).type == "cuda"
    if not on_gpu:
        forget_peak()
    before = torch.cuda.memory_allocated(device) if on_gpu else peak_memory_bytes()
    model = loader.from_pretrained(folder).to(device).eval()
    attend_by(model, "sdpa")
    with torch.inference_mode():
        model(input_ids=ids[:, : model.config.max_position_embeddings])
    after = torch.cuda.max_memory_allocated(device) if on_gpu else peak_memory_bytes()
    print(json.dumps({"bytes": None if before is None or after is None else after - before}))


if __name__ == "__main__":
    main(*sys.argv[1:])
