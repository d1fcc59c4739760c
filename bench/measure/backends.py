"""Ways to run a trained model at inference: each turns it into a function of padded batches."""

from __future__ import annotations

import copy
import importlib.util
import io
import logging
import os
import sys
import tempfile
import warnings
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from bench.errors import InputError, unknown
from bench.measure.machine import sums_8_bits_exactly

Runner = Callable[..., Tensor]
"""The inputs in the order of their names, [B, L] int64 each -> logits [B, C].

Of questions the logits are [B, 2, L], of starts and ends.
"""

ONNX = "onnx"
INT8 = "onnx-int8"
OPENVINO = "openvino"
DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
TORCH = ("eager", "sdpa", "compile")
BACKENDS = (*TORCH, ONNX, INT8, OPENVINO)
NEEDS = {
    ONNX: ("onnx", "onnxruntime"),
    INT8: ("onnx", "onnxruntime"),
    OPENVINO: ("onnx", "openvino"),
}
INPUTS = ("input_ids", "attention_mask")


def check_backends(backends: Collection[str]) -> None:
    """Refuse backends that cannot run here.

    Raises:
        InputError: one of these is no backend, or needs packages that are not installed.
    """
    for backend in backends:
        if backend not in BACKENDS:
            raise unknown("backend", backend, BACKENDS)
        if any(importlib.util.find_spec(name) is None for name in NEEDS.get(backend, ())):
            extra = "openvino" if backend == OPENVINO else "onnx"
            raise InputError(
                f"the backend {backend} needs other packages; "
                f"type: pip install -c constraints.txt -e '.[{extra}]'"
            )


def outputs_of(model: Any) -> list[str]:
    """The names of a model's logits.

    There is one tensor of classes, or those of starts and ends of a model that answers questions.
    """
    answers_questions = "ForQuestionAnswering" in type(model).__name__
    return ["start_logits", "end_logits"] if answers_questions else ["logits"]


class LogitsOf(nn.Module):
    """A model with tensors in, in the order of ``names``, and its logits out as a tuple.

    Tracing and exporting want that.
    """

    def __init__(self, model: nn.Module, names: Sequence[str]) -> None:
        super().__init__()
        self.model = model
        self.names = tuple(names)

    def forward(self, *inputs: Tensor) -> tuple[Tensor, ...]:
        """The logits of one batch."""
        answer = self.model(**dict(zip(self.names, inputs, strict=True)))
        if outputs_of(self.model) == ["logits"]:
            return (answer.logits,)
        return (answer.start_logits, answer.end_logits)


def runner(
    model: Any,
    backend: str,
    device: torch.device,
    dtype: torch.dtype,
    threads: int,
    names: Sequence[str] = INPUTS,
) -> Runner:
    """The model on this backend, as a function of the inputs in the order of ``names``.

    Args:
        backend: ``eager`` and ``sdpa`` are transformers' attentions, but for MPNet's sdpa, which
            transformers lacks and this program has; ``compile`` is torch.compile over sdpa,
            ``onnx`` is ONNX Runtime, ``onnx-int8`` is ONNX Runtime with weights and activations of
            linear layers and embeddings in 8 bits (dynamic quantization: the ranges of activations
            are found in every call), ``openvino`` runs the file of ``onnx``.
    """
    if backend not in TORCH:
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "model.onnx"
            write_onnx(model, file, names, backend == INT8)
            return opened(file, backend, threads, names)
    from methods.core.padded_attention import attend_by

    copied = copy.deepcopy(model).to(device=device, dtype=dtype).eval()
    attend_by(copied, "eager" if backend == "eager" else "sdpa")
    answer: Any = LogitsOf(copied, names).eval()
    if backend == "compile":
        # it warns of every length that it compiles anew
        logging.getLogger("torch._dynamo").setLevel(logging.ERROR)
        answer = torch.compile(answer)

    def run(*inputs: Tensor) -> Tensor:
        with torch.inference_mode():
            logits = answer(*inputs)
            return logits[0] if len(logits) == 1 else torch.stack(logits, 1)

    return run


def opened(file: Path, backend: str, threads: int, names: Sequence[str]) -> Runner:
    """An ONNX file as a function of the inputs in the order of ``names``.

    Those that its graph lacks are not read.
    """
    if backend == OPENVINO:
        import openvino

        options = {"INFERENCE_NUM_THREADS": threads, "INFERENCE_PRECISION_HINT": "f32"}
        compiled = openvino.Core().compile_model(str(file), "CPU", options)
        read = {name for each in compiled.inputs for name in each.names}

        def answers(given: Mapping[str, np.ndarray]) -> Sequence[np.ndarray]:
            return list(compiled(given).values())
    else:
        import onnxruntime

        settings = onnxruntime.SessionOptions()
        settings.intra_op_num_threads = threads
        session = onnxruntime.InferenceSession(
            str(file), settings, providers=["CPUExecutionProvider"]
        )
        read = {each.name for each in session.get_inputs()}
        answers = partial(session.run, None)

    def run(*inputs: Tensor) -> Tensor:
        named = zip(names, inputs, strict=True)
        logits = answers({name: tensor.numpy() for name, tensor in named if name in read})
        return torch.from_numpy(logits[0] if len(logits) == 1 else np.stack(logits, 1))

    return run


@contextmanager
def _silent() -> Iterator[None]:
    """Nothing on standard output, also not from C++.

    Torch prints the whole graph of a model that has no form in ONNX.
    """
    sys.stdout.flush()
    usual = os.dup(1)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    try:
        with redirect_stdout(io.StringIO()):
            yield
    finally:
        os.dup2(usual, 1)
        os.close(usual)
        os.close(nowhere)


def write_onnx(model: Any, file: Path, inputs: Sequence[str], in_8_bits: bool = False) -> None:
    """Write a model as an ONNX file of these inputs, [B, L] int64 each.

    It is in fp32 and with eager attention. Its outputs are those of :func:`outputs_of`.

    Args:
        in_8_bits: dynamic quantization of linear layers, each output with a scale of its own, and
            of embeddings; weights have 7 bits on a processor whose sums of 8 would overflow.
    """
    copied = copy.deepcopy(model).cpu().float().eval()
    copied.set_attn_implementation("eager")
    # a new module is in training mode; torch.onnx.export would restore that mode at its end, for
    # the dropout of `copied` too
    graph = LogitsOf(copied, inputs).eval()
    example = torch.ones(2, 8, dtype=torch.long)
    outputs = outputs_of(model)
    dynamic_axes = {name: {0: "batch", 1: "length"} for name in [*inputs, *outputs]}
    if "logits" in outputs:
        dynamic_axes["logits"] = {0: "batch"}
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings(), _silent():
        # the tracer warns of every shape it reads, and prints what it cannot export; the logits are
        # compared instead
        warnings.simplefilter("ignore")
        exported = Path(folder) / "whole.onnx" if in_8_bits else file
        torch.onnx.export(
            graph,
            (example,) * len(inputs),
            str(exported),
            input_names=list(inputs),
            output_names=outputs,
            dynamic_axes=dynamic_axes,
            dynamo=False,
        )
        if in_8_bits:
            _quantise(str(exported), str(file))


def _quantise(exported: str, file: str) -> None:
    """Write an ONNX file again with weights of 8 bits."""
    from onnxruntime.quantization import QuantType, quantize_dynamic
    from onnxruntime.quantization.shape_inference import quant_pre_process

    prepared = f"{exported}.prepared"
    quant_pre_process(exported, prepared, skip_symbolic_shape=True)
    quantize_dynamic(
        prepared,
        file,
        weight_type=QuantType.QInt8,
        # Gather reads the embeddings, which are most of a small model's weights
        op_types_to_quantize=["MatMul", "Gemm", "Gather"],
        per_channel=True,
        # without VNNI two products are summed in 16 bits, which weights of 8 bits overflow and
        # those of 7 do not
        reduce_range=not sums_8_bits_exactly(),
    )
