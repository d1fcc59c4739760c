"""What a teacher answers to its training examples, computed once and read from a file in every epoch.

The file has the examples one after the other, in the order of the data. Each has its taps in the order of their names, as
plain numbers without padding. What an example has in the file depends on the teacher and on the fixed batches that it was
computed in, and not on the batches that students are trained with.
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
    """Whether a tap has a row for each token, as the logits of ``spans`` have; scores have one for each pair of tokens, and all others
    one for each sequence."""
    return tap.kind in ("hidden", "vectors", "gates") or (spans and tap.kind == "logits")


def by_example(layout: Layout, tap: Tap, value: Any, spans: bool = False) -> list[list[Tensor]]:
    """What a pass read of a tap, cut into the tensors of each example, without padding."""
    if spans and tap.kind == "logits":
        value = logits_of_tokens(layout, value)
    if tap.kind == "scores":
        chunks = zip(layout.chunks, value, strict=True)
        cut = {
            i: x_HLL
            for chunk, x_nHLL in chunks
            for i, x_HLL in zip(chunk.sequences, x_nHLL, strict=True)
        }
        return [[cut[i][:, :n, :n]] for i, n in enumerate(layout.lengths)]
    tensors = value if isinstance(value, tuple) else (value,)
    parts = [x.split(layout.lengths) if of_tokens(tap, spans) else x.unbind() for x in tensors]
    return [list(own) for own in zip(*parts, strict=True)]


def joined(
    layout: Layout,
    tap: Tap,
    examples: Sequence[Sequence[Tensor]],
    outside: float = 0.0,
    spans: bool = False,
) -> Any:
    """The opposite of :func:`by_example`: what a pass over a batch of these examples would have read, with ``outside`` where scores
    have no tokens."""
    if tap.kind != "scores":
        join = torch.cat if of_tokens(tap, spans) else torch.stack
        tensors = tuple(join(own) for own in zip(*examples, strict=True))
        if spans and tap.kind == "logits":
            return span_logits(layout, tensors[0])
        return tensors if tap.kind == "vectors" else tensors[0]
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
    """Of the tensors of a tap of an example of n tokens."""
    return [
        (w, n, n) if tap.kind == "scores" else (n, w) if of_tokens(tap, spans) else (w,)
        for w in widths
    ]


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
        What :class:`TeacherOutputs` reads the file by, as JSON can hold it: the fields of each tap, and the ``widths`` of its tensors,
        numbers for each example, token, or pair of tokens.

    Raises:
        CellError: a number does not fit into the format, or is none.
    """
    widths: dict[Tap, list[int]] = {}
    teacher = teacher.to(numerics.device).eval()
    starts = range(0, len(data), ROWS_A_PASS)
    with file.open("wb") as stream, torch.no_grad():
        for number, start in enumerate(starts, start=1):
            batch = data.batch(range(start, min(start + ROWS_A_PASS, len(data))), numerics.device)
            with numerics.autocast():
                answer = forward(teacher, batch, taps)
            cut = {
                tap: by_example(answer.layout, tap, answer[tap], batch.spans)
                for tap in sorted(taps)
            }
            for tap, examples in cut.items():
                widths[tap] = [x.size(0 if tap.kind == "scores" else -1) for x in examples[0]]
            for row in range(len(batch.layout.lengths)):
                for tensor in (tensor for examples in cut.values() for tensor in examples[row]):
                    with np.errstate(over="ignore"):
                        numbers: np.ndarray = (
                            tensor.float().cpu().numpy().astype(FORMATS[number_format])
                        )
                    if not np.isfinite(numbers).all():
                        raise CellError(
                            f"the teacher answers numbers that {number_format} cannot hold; keep its outputs in fp32"
                            if torch.isfinite(tensor).all()
                            else "the teacher answers values that are not numbers"
                        )
                    stream.write(numbers.tobytes())
            on_step(number, len(starts))
    return [{**tap._asdict(), "widths": own} for tap, own in widths.items()]


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
        self.widths: dict[Tap, list[int]] = {}
        for body in taps:
            weights = tuple((int(layer), float(weight)) for layer, weight in body["weights"])
            self.widths[Tap(body["kind"], body["layer"], body["pool"], weights)] = body["widths"]
        self.lengths, self.spans = (
            [len(tokens) for tokens in data.tokens],
            data.questions is not None,
        )
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
        """Numbers of each tap of an example of n tokens."""
        return {
            tap: sum(map(math.prod, _shapes(tap, own, n, self.spans)))
            for tap, own in self.widths.items()
        }

    def has(self, batch: Batch, taps: Taps) -> bool:
        """Whether the file has all these taps of this batch; False where its tokens are masked, or its sequences filled with
        [PAD] or cut at another length."""
        layout = batch.layout
        return (
            taps <= self.widths.keys()
            and batch.masked_positions is None
            and layout.real == layout.lengths
            and [self.lengths[self._rows[number]] for number in batch.example_ids]
            == list(layout.lengths)
        )

    def answer(self, batch: Batch, taps: Taps) -> Out:
        """The same as a pass over the batch, read from the file."""
        read = [self._read(self._rows[number], taps) for number in batch.example_ids]
        answer = Out(
            batch.layout,
            {
                tap: joined(batch.layout, tap, [each[tap] for each in read], spans=self.spans)
                for tap in sorted(taps)
            },
        )
        # all cross to the device in one copy
        there = moved(
            {str(number): x for number, x in enumerate(answer.tensors())}, batch.layout.device
        )
        left = iter(there.values())
        return answer.each(lambda here: next(left))

    def _read(self, row: int, taps: Taps) -> dict[Tap, list[Tensor]]:
        """The tensors of each tap of one example, float32."""
        start, tensors, n = self._starts[row], dict[Tap, list[Tensor]](), self.lengths[row]
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
    """A teacher that reads its outputs from a file where it can, and answers by itself where it cannot."""

    def __init__(self, teacher: nn.Module, outputs: TeacherOutputs) -> None:
        super().__init__(teacher)
        self.outputs = outputs

    def packed_forward(self, batch: Batch, taps: Taps) -> Out:
        if not self.training and self.outputs.has(batch, taps):
            return self.outputs.answer(batch, taps)
        return forward(self.whole, batch, taps)
