"""Ways to run a classifier at inference: each turns a model into a function of padded batches."""

from __future__ import annotations

import copy
import importlib.util
import io
import tempfile
import warnings
from collections.abc import Callable, Collection, Sequence
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from bench.errors import InputError
from bench.measure.flops import LogitsOnly

Runner = Callable[[Tensor, Tensor], Tensor]
"""token ids and attention mask, [B, L] int64 each -> logits [B, C]"""

ONNX, INT8 = "onnx", "onnx-int8"
DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
BACKENDS = ("eager", "sdpa", "compile", ONNX, INT8)


def check_installed(backends: Collection[str]) -> None:
    """Raises InputError: one of these backends needs packages that are not installed."""
    lacking = [name for name in ("onnx", "onnxruntime") if importlib.util.find_spec(name) is None]
    if lacking and {ONNX, INT8} & set(backends):
        raise InputError("the onnx backend needs two packages; type: pip install -c constraints.txt -e '.[onnx]'")


def runner(model: Any, backend: str, device: torch.device, dtype: torch.dtype, threads: int) -> Runner:
    """The model on this backend.

    Args:
        backend: ``eager`` and ``sdpa`` are transformers' attentions, ``compile`` is torch.compile over sdpa, ``onnx``
            is ONNX Runtime, ``onnx-int8`` is ONNX Runtime with weights and activations of linear layers in 8 bits
            (dynamic quantization: the ranges of activations are found in every call).
    """
    own = copy.deepcopy(model).to(device=device, dtype=dtype).eval()
    own.set_attn_implementation("sdpa" if backend in ("sdpa", "compile") else "eager")
    # a new module is in training mode; torch.onnx.export would restore that mode at its end, for the dropout of `own` too
    whole: Any = LogitsOnly(own).eval()
    if backend in (ONNX, INT8):
        return _onnx(whole, threads, backend == INT8)
    if backend == "compile":
        whole = torch.compile(whole)

    def run(ids: Tensor, mask: Tensor) -> Tensor:
        with torch.inference_mode():
            return whole(ids, mask)  # type: ignore[no-any-return]

    return run


def write_onnx(model: nn.Module, file: Path, inputs: Sequence[str], in_8_bits: bool = False) -> None:
    """Write a model of these inputs, [B, L] int64 each, as an ONNX file with the output ``logits``.

    Args:
        in_8_bits: dynamic quantization of linear layers, each output with a scale of its own.
    """
    example = torch.ones(2, 8, dtype=torch.long)
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings(), redirect_stdout(io.StringIO()):
        # the tracer warns of every shape it reads, and prints what it cannot export; the logits are compared instead
        warnings.simplefilter("ignore")
        whole = str(Path(folder) / "whole.onnx") if in_8_bits else str(file)
        torch.onnx.export(
            model,
            (example,) * len(inputs),
            whole,
            input_names=list(inputs),
            output_names=["logits"],
            dynamic_axes={name: {0: "batch", 1: "length"} for name in inputs},
            dynamo=False,
        )
        if in_8_bits:
            from onnxruntime.quantization import QuantType, quantize_dynamic
            from onnxruntime.quantization.shape_inference import quant_pre_process

            quant_pre_process(whole, f"{whole}.prepared", skip_symbolic_shape=True)
            layers = {"op_types_to_quantize": ["MatMul", "Gemm"], "per_channel": True}
            quantize_dynamic(f"{whole}.prepared", str(file), weight_type=QuantType.QInt8, **layers)


def _onnx(model: nn.Module, threads: int, in_8_bits: bool) -> Runner:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "model.onnx"
        write_onnx(model, file, ("ids", "mask"), in_8_bits)
        session = onnxruntime.InferenceSession(str(file), options, providers=["CPUExecutionProvider"])

    def run(ids: Tensor, mask: Tensor) -> Tensor:
        return torch.from_numpy(session.run(["logits"], {"ids": ids.numpy(), "mask": mask.numpy()})[0])

    return run
