"""The outputs of a teacher for its training examples, computed once and read in every epoch.

The file has the examples one after the other, in the order of the data. Each has its taps in the
order of their names, as plain numbers without padding. What an example has in the file depends on
the teacher and on the fixed batches that it was computed in, and not on the batches that students
are trained with.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from bench.data.encoding import Encoded
from bench.errors import CellError
from bench.plan.outputs import ROWS_A_PASS
from bench.request.choices import OUTPUT_FORMATS
from bench.train.loop import OnStep
from bench.train.numerics import ComputeSettings
from methods.api import Batch, Out, Tap, Taps
from methods.core.models import Around, forward
from methods.core.packed import Layout, logits_of_tokens, moved, span_logits

FORMATS: dict[str, np.dtype[Any]] = {
    name: np.dtype(number) for name, number in OUTPUT_FORMATS.items()
}
"""What the numbers of a file may be."""


def of_tokens(tap: Tap, spans: bool) -> bool:
    """Whether a tap has a row for each token, as the logits of ``spans`` have.

    Scores have one for each pair of tokens, and all others one for each sequence.
    """
    return tap.kind in ("hidden", "vectors", "gates") or (spans and tap.kind == "logits")


def by_example(layout: Layout, tap: Tap, value: Any, spans: bool = False) -> list[list[Tensor]]:
    """What a pass read of a tap, cut into the tensors of each example, without padding."""
    # the logits of a span are cut token by token
    if spans and tap.kind == "logits":
        value = logits_of_tokens(layout, value)
    # scores are padded to the longest sequence of their chunk
    if tap.kind == "scores":
        padded: dict[int, Tensor] = {}
        for chunk, x_nHLL in zip(layout.chunks, value, strict=True):
            padded |= zip(chunk.sequences, x_nHLL, strict=True)
        return [[padded[i][:, :n, :n]] for i, n in enumerate(layout.lengths)]
    # of each tensor its part for each example, and then of each example its tensors
    tensors = value if isinstance(value, tuple) else (value,)
    parts = [x.split(layout.lengths) if of_tokens(tap, spans) else x.unbind() for x in tensors]
    return [list(of_example) for of_example in zip(*parts, strict=True)]


def joined(
    layout: Layout,
    tap: Tap,
    examples: Sequence[Sequence[Tensor]],
    outside: float = 0.0,
    spans: bool = False,
) -> Any:
    """The opposite of :func:`by_example`: what a pass over a batch of these examples would read.

    Args:
        outside: the value of scores where there are no tokens.
    """
    if tap.kind != "scores":
        join = torch.cat if of_tokens(tap, spans) else torch.stack
        tensors = tuple(join(of_examples) for of_examples in zip(*examples, strict=True))
        if spans and tap.kind == "logits":
            return span_logits(layout, tensors[0])
        return tensors if tap.kind == "vectors" else tensors[0]
    # scores are padded again, chunk by chunk, each with as many heads as an example has
    chunks = []
    for chunk in layout.chunks:
        (x_Hnn,) = examples[chunk.sequences[0]]
        x_nHLL = x_Hnn.new_full(
            (len(chunk.sequences), x_Hnn.size(0), chunk.longest, chunk.longest), outside
        )
        for row, i in enumerate(chunk.sequences):
            x_nHLL[row, :, : layout.lengths[i], : layout.lengths[i]] = examples[i][0]
        chunks.append(x_nHLL)
    return tuple(chunks)


def _shapes(tap: Tap, widths: Sequence[int], n: int, spans: bool) -> list[tuple[int, ...]]:
    """The shapes of the tensors of a tap of an example of n tokens."""
    if tap.kind == "scores":
        return [(width, n, n) for width in widths]
    if of_tokens(tap, spans):
        return [(n, width) for width in widths]
    return [(width,) for width in widths]


def write_outputs(
    file: Path,
    teacher: nn.Module,
    data: Encoded,
    taps: Taps,
    number_format: str,
    numerics: ComputeSettings,
    on_step: OnStep = lambda done, total: None,
) -> list[dict[str, Any]]:
    """Ask a teacher for the taps of all examples, and write them.

    Args:
        number_format: a key of :data:`FORMATS`.

    Returns:
        What :class:`TeacherOutputs` reads the file by, as JSON can hold it: the fields of each tap,
        and the ``widths`` of its tensors, numbers for each example, token, or pair of tokens.

    Raises:
        CellError: a number does not fit into the format, or is none.
    """
    # fixed batches: the last digits of an answer depend on its neighbours
    widths: dict[Tap, list[int]] = {}
    teacher = teacher.to(numerics.device).eval()
    starts = range(0, len(data), ROWS_A_PASS)
    with file.open("wb") as stream, torch.no_grad():
        for number, start in enumerate(starts, start=1):
            rows = range(start, min(start + ROWS_A_PASS, len(data)))
            batch = data.batch(rows, numerics.device)
            with numerics.autocast():
                answer = forward(teacher, batch, taps)
            # tap -> the tensors of each example
            cut: dict[Tap, list[list[Tensor]]] = {}
            for tap in sorted(taps):
                cut[tap] = by_example(answer.layout, tap, answer[tap], batch.spans)
                axis = 0 if tap.kind == "scores" else -1
                widths[tap] = [tensor.size(axis) for tensor in cut[tap][0]]
            # example by example, tap by tap
            for of_taps in zip(*cut.values(), strict=True):
                for tensors in of_taps:
                    for tensor in tensors:
                        stream.write(_numbers(tensor, number_format).tobytes())
            on_step(number, len(starts))
    return [{**tap._asdict(), "widths": of_tap} for tap, of_tap in widths.items()]


def _numbers(tensor: Tensor, number_format: str) -> np.ndarray:
    """The numbers of a tensor in a format. Raises CellError: one does not fit, or is none."""
    with np.errstate(over="ignore"):
        numbers: np.ndarray = tensor.float().cpu().numpy().astype(FORMATS[number_format])
    if np.isfinite(numbers).all():
        return numbers
    if not torch.isfinite(tensor).all():
        raise CellError("the teacher answers values that are not numbers")
    raise CellError(
        f"the teacher answers numbers that {number_format} cannot hold; keep its outputs in fp32"
    )


class TeacherOutputs:
    """A file of outputs, opened to be read for the batches of a training."""

    def __init__(
        self, file: Path, taps: Sequence[Mapping[str, Any]], number_format: str, data: Encoded
    ) -> None:
        """
        Args:
            taps: what :func:`write_outputs` returned.
            data: the examples that it is of, in their order.

        Raises:
            CellError: the file is not of these examples.
        """
        # the taps of the file, and the widths of their tensors
        self.widths: dict[Tap, list[int]] = {}
        for body in taps:
            weights = tuple((int(layer), float(weight)) for layer, weight in body["weights"])
            self.widths[Tap(body["kind"], body["layer"], body["pool"], weights)] = body["widths"]
        self.lengths = [len(tokens) for tokens in data.tokens]
        self.spans = data.questions is not None
        # where each example begins in the file, and its row by the number it has in the data
        self._starts = [0, *accumulate(sum(self._sizes(n).values()) for n in self.lengths)]
        self._rows = {number: row for row, number in enumerate(data.ids)}
        if len(self._rows) != len(self.lengths):
            raise CellError(
                "two training examples have the same number, so kept outputs cannot be found by it"
            )
        if file.stat().st_size != self._starts[-1] * FORMATS[number_format].itemsize:
            raise CellError(f"{file.name}: these are the outputs of other examples")
        self._numbers = np.memmap(file, FORMATS[number_format], mode="r")

    def _sizes(self, n: int) -> dict[Tap, int]:
        """How many numbers each tap of an example of n tokens has."""
        sizes = {}
        for tap, widths in self.widths.items():
            sizes[tap] = sum(map(math.prod, _shapes(tap, widths, n, self.spans)))
        return sizes

    def has(self, batch: Batch, taps: Taps) -> bool:
        """Whether the file has all these taps of this batch.

        It has not where tokens are masked, or sequences are filled with [PAD] or cut at another
        length.
        """
        layout = batch.layout
        if not taps <= self.widths.keys() or batch.masked_positions is not None:
            return False
        if layout.real != layout.lengths:
            return False
        lengths = [self.lengths[self._rows[number]] for number in batch.example_ids]
        return lengths == list(layout.lengths)

    def answer(self, batch: Batch, taps: Taps) -> Out:
        """The same as a pass over the batch, read from the file."""
        read = [self._read(self._rows[number], taps) for number in batch.example_ids]
        values = {}
        for tap in sorted(taps):
            of_examples = [of_taps[tap] for of_taps in read]
            values[tap] = joined(batch.layout, tap, of_examples, spans=self.spans)
        answer = Out(batch.layout, values)
        # all cross to the device in one copy
        by_number = {str(number): tensor for number, tensor in enumerate(answer.tensors())}
        there = iter(moved(by_number, batch.layout.device).values())
        return answer.each(lambda here: next(there))

    def _read(self, row: int, taps: Taps) -> dict[Tap, list[Tensor]]:
        """The tensors of each tap of one example, float32."""
        tensors: dict[Tap, list[Tensor]] = {}
        n = self.lengths[row]
        start = self._starts[row]
        # tap behind tap, each with its tensors one after the other
        for tap, size in self._sizes(n).items():
            stop = start + size
            if tap in taps:
                shapes = _shapes(tap, self.widths[tap], n, self.spans)
                numbers = torch.from_numpy(self._numbers[start:stop].astype(np.float32))
                parts = numbers.split([math.prod(shape) for shape in shapes])
                tensors[tap] = [part.view(shape) for part, shape in zip(parts, shapes, strict=True)]
            start = stop
        return tensors


class KeptTeacher(Around):
    """A teacher that reads its outputs from a file where it can, else answers by itself."""

    def __init__(self, teacher: nn.Module, outputs: TeacherOutputs) -> None:
        super().__init__(teacher)
        self.outputs = outputs

    def packed_forward(self, batch: Batch, taps: Taps) -> Out:
        if not self.training and self.outputs.has(batch, taps):
            return self.outputs.answer(batch, taps)
        return forward(self.whole, batch, taps)
