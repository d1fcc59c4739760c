"""Ways to run a classifier at inference: each turns a model into a function of padded batches."""

from __future__ import annotations

import copy
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from bench.errors import InputError

Runner = Callable[[Tensor, Tensor], Tensor]
"""token ids and attention mask, [B, L] int64 each -> logits [B, C]"""

BACKENDS = ("eager", "sdpa", "compile", "onnx")


class _Logits(nn.Module):
    """Tensors in, tensor out."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, ids: Tensor, mask: Tensor) -> Tensor:
        return self.model(input_ids=ids, attention_mask=mask).logits  # type: ignore[no-any-return]


def runner(model: Any, backend: str, device: torch.device, dtype: torch.dtype, threads: int) -> Runner:
    """The model on this backend.

    Args:
        backend: ``eager`` and ``sdpa`` are transformers' attentions, ``compile`` is torch.compile over sdpa, ``onnx``
            is ONNX Runtime.

    Raises:
        InputError: an unknown backend, or one whose library is not installed.
    """
    if backend not in BACKENDS:
        raise InputError(f"no backend is called {backend!r}; known: {', '.join(BACKENDS)}")
    own = copy.deepcopy(model).to(device=device, dtype=dtype).eval()
    own.set_attn_implementation("eager" if backend in ("eager", "onnx") else "sdpa")
    whole: Any = _Logits(own)
    if backend == "onnx":
        return _onnx(whole, threads)
    if backend == "compile":
        whole = torch.compile(whole)

    def run(ids: Tensor, mask: Tensor) -> Tensor:
        with torch.inference_mode():
            return whole(ids, mask)  # type: ignore[no-any-return]

    return run


def _onnx(model: nn.Module, threads: int) -> Runner:
    try:
        import onnx  # noqa: F401
        import onnxruntime
    except ImportError:
        raise InputError("the onnx backend needs two packages; type: pip install 'bert-bench[onnx]'") from None
    example = torch.ones(2, 8, dtype=torch.long)
    axes = {"ids": {0: "batch", 1: "length"}, "mask": {0: "batch", 1: "length"}}
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the tracer warns of every shape it reads; the logits are compared instead
        file = str(Path(folder) / "model.onnx")
        torch.onnx.export(
            model,
            (example, example),
            file,
            input_names=["ids", "mask"],
            output_names=["logits"],
            dynamic_axes=axes,
            dynamo=False,
        )
        session = onnxruntime.InferenceSession(file, options, providers=["CPUExecutionProvider"])

    def run(ids: Tensor, mask: Tensor) -> Tensor:
        return torch.from_numpy(session.run(["logits"], {"ids": ids.numpy(), "mask": mask.numpy()})[0])

    return run
