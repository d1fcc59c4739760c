"""What a teacher answers to its training examples, computed once and read from a file in every epoch.

The file has the examples one after the other, in the order of the data. Each has its taps in the order of their names, as
plain numbers without padding. What an example has in the file depends on the teacher and on the fixed batches that it was
computed in, and not on the batches that students are trained with.
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from bench.data.encoding import Encoded
from bench.errors import CellError
from bench.plan.outputs import ROWS_A_PASS
from bench.plan.request import OUTPUT_FORMATS
from bench.train.loop import OnStep
from bench.train.numerics import ComputeSettings
from methods.api import Batch, Out, Tap, Taps
from methods.models import Cost, PackedModel, cost, forward
from methods.packed import Layout, moved

FORMATS: dict[str, np.dtype[Any]] = {name: np.dtype(number) for name, number in OUTPUT_FORMATS.items()}
"""What the numbers of a file may be."""


def _powers(tap: Tap) -> int:
    """How the numbers of an example grow with its length n: 0 not at all, 1 with n, 2 with n * n."""
    return {"hidden": 1, "vectors": 1, "scores": 2}.get(tap.kind, 0)


@dataclass(frozen=True)
class StoredTap:
    """One tap of a file."""

    tap: Tap
    widths: tuple[int, ...]
    """numbers for each example, token, or pair of tokens; several where a tap is several tensors"""

    def numbers(self, length: int) -> int:
        """Of an example with so many tokens."""
        return int(sum(self.widths) * length ** _powers(self.tap))

    def as_dict(self) -> dict[str, Any]:
        return {**self.tap._asdict(), "widths": self.widths}

    @classmethod
    def of(cls, body: Mapping[str, Any]) -> StoredTap:
        """From :meth:`as_dict` after JSON."""
        weights = tuple((int(layer), float(weight)) for layer, weight in body["weights"])
        return cls(Tap(body["kind"], body["layer"], body["pool"], weights), tuple(body["widths"]))


def write_outputs(
    file: Path,
    teacher: nn.Module,
    data: Encoded,
    taps: Taps,
    number_format: str,
    numerics: ComputeSettings,
    on_step: OnStep = lambda done, total: None,
) -> list[StoredTap]:
    """Ask a teacher for the taps of all examples, and write them.

    Args:
        number_format: a key of :data:`FORMATS`.

    Raises:
        CellError: a number does not fit into the format, or is none.
    """
    parts: list[StoredTap] = []
    teacher = teacher.to(numerics.device).eval()
    starts = range(0, len(data), ROWS_A_PASS)
    with file.open("wb") as stream, torch.no_grad():
        for number, start in enumerate(starts, start=1):
            batch = data.batch(range(start, min(start + ROWS_A_PASS, len(data))), numerics.device)
            with numerics.autocast():
                answer = forward(teacher, batch, taps)
            values = {tap: _by_example(answer.layout, tap, answer[tap]) for tap in sorted(taps)}
            if not parts:
                length = batch.layout.lengths[0]
                for tap, examples in values.items():
                    widths = tuple(tensor.numel() // length ** _powers(tap) for tensor in examples[0])
                    parts.append(StoredTap(tap, widths))
            for row in range(len(batch.layout.lengths)):
                for tensor in (tensor for examples in values.values() for tensor in examples[row]):
                    with np.errstate(over="ignore"):
                        numbers: np.ndarray = tensor.float().cpu().numpy().astype(FORMATS[number_format])
                    if not np.isfinite(numbers).all():
                        raise CellError(
                            f"the teacher answers numbers that {number_format} cannot hold; keep its outputs in fp32"
                            if torch.isfinite(tensor).all()
                            else "the teacher answers values that are not numbers"
                        )
                    stream.write(numbers.tobytes())
            on_step(number, len(starts))
    return parts


def _by_example(layout: Layout, tap: Tap, value: Any) -> list[list[Tensor]]:
    """What a pass read of one tap, cut into what belongs to each example, without padding."""
    if tap.kind == "scores":
        found: list[list[Tensor]] = [[] for _ in layout.lengths]
        for chunk, scores_nHLL in zip(layout.chunks, value, strict=True):
            for row, i in enumerate(chunk.sequences):
                n = layout.lengths[i]
                found[i] = [scores_nHLL[row, :, :n, :n]]
        return found
    tensors = value if isinstance(value, tuple) else (value,)
    if _powers(tap) == 0:
        return [[tensor[i] for tensor in tensors] for i in range(len(layout.lengths))]
    cut = [tensor.split(list(layout.lengths)) for tensor in tensors]
    return [[pieces[i] for pieces in cut] for i in range(len(layout.lengths))]


class TeacherOutputs:
    """A file of outputs, opened to be read for the batches of a training."""

    def __init__(self, file: Path, parts: Sequence[StoredTap], number_format: str, data: Encoded) -> None:
        """
        Args:
            data: the examples that it is of, in their order.

        Raises:
            CellError: the file is not of these examples.
        """
        self.parts, self.dtype = {part.tap: part for part in parts}, FORMATS[number_format]
        self.lengths = [len(tokens) for tokens in data.tokens]
        sizes = [sum(part.numbers(n) for part in parts) for n in self.lengths]
        self._starts = [0, *accumulate(sizes)]
        self._rows = {number: row for row, number in enumerate(data.ids)}
        if len(self._rows) != len(self.lengths):
            raise CellError("two training examples have the same number, so kept outputs cannot be found by it")
        if file.stat().st_size != self._starts[-1] * self.dtype.itemsize:
            raise CellError(f"{file.name}: these are the outputs of other examples")
        self._file = os.open(file, os.O_RDONLY)
        weakref.finalize(self, os.close, self._file)

    def has(self, batch: Batch, taps: Taps) -> bool:
        """Whether the file has all these taps of this batch; False where its tokens are masked, or its sequences filled with
        [PAD] or cut at another length."""
        layout = batch.layout
        return (
            taps <= self.parts.keys()
            and batch.masked_positions is None
            and layout.real == layout.lengths
            and [self.lengths[self._rows[number]] for number in batch.example_ids] == list(layout.lengths)
        )

    def answer(self, batch: Batch, taps: Taps) -> Out:
        """The same as a pass over the batch, read from the file."""
        rows = [self._rows[number] for number in batch.example_ids]
        values: dict[Tap, tuple[Tensor, ...]] = {}
        for tap in sorted(taps):
            read = [self._read(row, tap) for row in rows]
            values[tap] = tuple(self._assembled(batch.layout, self.parts[tap], read))
        named = {f"{tap} {number}": tensor for tap, tensors in values.items() for number, tensor in enumerate(tensors)}
        there = moved(named, batch.layout.device)
        answer: dict[Tap, Any] = {}
        for tap, tensors in values.items():
            answer[tap] = tuple(there[f"{tap} {number}"] for number in range(len(tensors)))
            if tap.kind not in ("scores", "vectors"):
                (answer[tap],) = answer[tap]
        return Out(batch.layout, answer)

    def _read(self, row: int, tap: Tap) -> np.ndarray:
        """The numbers of one tap of one example, float32."""
        length, before = self.lengths[row], 0
        for other, part in self.parts.items():
            if other == tap:
                break
            before += part.numbers(length)
        size = self.dtype.itemsize
        wanted = self.parts[tap].numbers(length) * size
        found = os.pread(self._file, wanted, (self._starts[row] + before) * size)
        if len(found) != wanted:
            raise CellError("the file of the teacher's outputs was cut off while it was read")
        return np.frombuffer(found, self.dtype).astype(np.float32)

    @staticmethod
    def _assembled(layout: Layout, part: StoredTap, read: Sequence[np.ndarray]) -> list[Tensor]:
        """The tensors of a tap as a pass over the batch has them, on the CPU."""
        if part.tap.kind == "scores":
            (heads,) = part.widths
            chunks = []
            for chunk in layout.chunks:
                scores_nHLL = torch.zeros(len(chunk.sequences), heads, chunk.longest, chunk.longest)
                for row, i in enumerate(chunk.sequences):
                    n = layout.lengths[i]
                    scores_nHLL[row, :, :n, :n] = torch.from_numpy(read[i]).view(heads, n, n)
                chunks.append(scores_nHLL)
            return chunks
        if _powers(part.tap) == 0:
            return [torch.from_numpy(np.stack(read))]
        tensors = []
        before = 0
        for width in part.widths:
            cut = [
                one[before * n : (before + width) * n].reshape(n, width)
                for one, n in zip(read, layout.lengths, strict=True)
            ]
            tensors.append(torch.from_numpy(np.concatenate(cut)))
            before += width
        return tensors


class KeptTeacher(PackedModel):
    """A teacher that reads its outputs from a file where it can, and answers by itself where it cannot."""

    def __init__(self, teacher: nn.Module, outputs: TeacherOutputs) -> None:
        super().__init__()
        self.teacher, self.outputs = teacher, outputs

    def packed_forward(self, batch: Batch, taps: Taps) -> Out:
        if not self.training and self.outputs.has(batch, taps):
            return self.outputs.answer(batch, taps)
        return forward(self.teacher, batch, taps)

    def cost(self) -> Cost:
        return cost(self.teacher)
