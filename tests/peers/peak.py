"""How fast one core multiplies matrices, and how much multiplying a step needs."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from work import Work

from methods.families import cost

SIDE = 2048


class MatrixProducts:
    """The product of two square matrices in fp32, by each way that torch has."""

    def __init__(self, side: int = SIDE) -> None:
        generator = torch.Generator().manual_seed(0)
        left, right = (torch.rand(side, side, generator=generator) for _ in range(2))
        self._flops = 2 * side**3
        self._ways: dict[str, Callable[[], Any]] = {"torch.mm": lambda: torch.mm(left, right)}
        if torch.backends.mkldnn.is_available():
            packed = torch.ops.mkldnn._reorder_linear_weight(right, side)
            self._ways["oneDNN"] = lambda: torch.ops.mkldnn._linear_pointwise(left, packed, None, "none", [], "")
        for way in self._ways.values():
            way()  # the first one allocates

    def rates(self) -> dict[str, float]:
        """FLOP/s of one product by each way, now."""
        found = {}
        for name, way in self._ways.items():
            begun = time.perf_counter()
            way()
            found[name] = self._flops / (time.perf_counter() - begun)
        return found


class UsefulFlops:
    """FLOPs of the matrix products that a step cannot do without: real tokens alone, by the product's closed form.

    The backward pass costs twice the forward pass. Heads that the stage does not read, gradient shares and elementwise
    operations are not counted.
    """

    def __init__(self, work: Work) -> None:
        student, _ = work.student()
        self._lengths = [len(row) for row in work.data.tokens]
        self._teacher, self._student = cost(work.teacher), cost(student.model)
        layers = student.model.config.num_hidden_layers
        self._projections = (layers + 1) * student.aux["projection"].weight.numel()

    def of_batch(self, rows: Sequence[int]) -> Mapping[str, float]:
        """Of the teacher's pass, and of the student's forward and backward pass."""
        tokens = sum(self._lengths[i] for i in rows)
        squares = sum(self._lengths[i] ** 2 for i in rows)
        teacher = self._teacher.macs(tokens, squares, 0)
        student = self._student.macs(tokens, squares, 0) + self._projections * tokens
        return {"teacher": 2 * teacher, "student": 2 * 3 * student}
