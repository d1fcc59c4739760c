"""What every contestant is given: the same teacher, the same first weights, the same batches."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn
from transformers import AutoConfig, AutoModelForSequenceClassification, PreTrainedModel

from bench.data.checkpoints import find, tokenizer_of
from bench.data.encoding import Encoded, batches_of_epoch, encode
from bench.data.sources import source_for
from bench.data.tasks import GLUE
from bench.plan.spelling import MethodRow, parse_one
from bench.record.recipe import Recipe
from bench.train.numerics import RandomState
from methods.api import Setup, Student

BATCH, MAX_LENGTH = 32, 128
MRPC_LENGTHS = (19, 32, 36, 39, 41, 44, 45, 47, 50, 51, 53, 55, 57, 59, 61, 62, 64, 67, 70, 74, 103)
"""Tokens of MRPC's training pairs at every twentieth: the shortest, 5 %, 10 %, ..., the longest."""


SIZES: Mapping[str, tuple[Mapping[str, int], str]] = {
    "base": (
        {
            "hidden_size": 768,
            "num_hidden_layers": 12,
            "num_attention_heads": 12,
            "intermediate_size": 3072,
        },
        "tinybert:start=random:-pred",
    ),
    "tiny": (
        {
            "hidden_size": 48,
            "num_hidden_layers": 4,
            "num_attention_heads": 4,
            "intermediate_size": 96,
        },
        "tinybert:start=random:layers=2:hidden=32:heads=4:ffn=64:-pred",
    ),
}
"""The teacher's sizes, and the student as ``--methods`` spells it: its first stage alone."""


@dataclass(frozen=True)
class Work:
    """One training that every contestant does, each from the same first weights."""

    teacher: PreTrainedModel
    """in evaluation mode, with packed attention; nobody moves its weights"""
    row: MethodRow
    data: Encoded
    epochs: int
    seed: int
    folder: Path
    """for what a contestant has to write; empty"""
    dropout: bool = True
    """without it the loss of a first step is the same number for everybody"""

    @property
    def recipe(self) -> Recipe:
        return Recipe(epochs=float(self.epochs), batch_size=BATCH, max_length=MAX_LENGTH)

    @property
    def batches(self) -> list[list[int]]:
        """The rows of every step, in the product's order."""
        return [
            rows
            for epoch in range(self.epochs)
            for rows in batches_of_epoch(len(self.data), BATCH, self.seed, epoch)
        ]

    @property
    def setup(self) -> Setup:
        return Setup(self.teacher.config, 2, ("mrpc",))

    def student(self) -> tuple[Student, RandomState]:
        """The student before its first step: for everybody the same."""
        random = RandomState(self.seed, torch.device("cpu"))
        with random.current():
            student: Student = self.row.method.build(self.setup)
        if not self.dropout:
            for module in student.model.modules():
                if isinstance(module, nn.Dropout):
                    module.p = 0.0
        return student, random

    def of_one_batch(self) -> Work:
        """The first step alone, without dropout."""
        data, rows = self.data, self.batches[0]
        parts: dict[str, Any] = {
            name: [getattr(data, name)[i] for i in rows] for name in ("tokens", "segments", "ids")
        }
        labels = None if data.labels is None else data.labels[rows]
        texts = [data.texts[i] for i in rows] if data.texts else ()
        return replace(
            self, data=replace(data, **parts, labels=labels, texts=texts), epochs=1, dropout=False
        )


Train = Callable[[Work, Callable[[], None]], float]
"""A whole training, told what to call after each step; answers the mean of its steps' losses."""


def examples(folder: str | None, rows: int, seed: int) -> tuple[Encoded, str]:
    """So many pairs, and in words where they are from; whole batches alone, so that all steps have as many examples."""
    if folder is None:
        return generated(
            rows - rows % BATCH, seed
        ), "generated token ids, as long as MRPC's training pairs"
    task = GLUE["mrpc"]
    split = source_for(task, folder, True).load(task, "train")
    rows = min(rows, len(split)) - min(rows, len(split)) % BATCH
    chosen = sorted(np.random.default_rng(seed).permutation(len(split))[:rows].tolist())
    data = encode(tokenizer_of(find("embedded", task, True)), split.take(chosen), MAX_LENGTH)
    return replace(
        data, ids=list(range(rows))
    ), f"mrpc, {rows} training rows chosen at random (seed {seed})"


def generated(rows: int, seed: int) -> Encoded:
    """Pairs of random token ids whose lengths follow those of MRPC."""
    rng = np.random.default_rng(seed)
    places = np.linspace(0, 1, len(MRPC_LENGTHS))
    lengths = np.interp(rng.random(rows), places, MRPC_LENGTHS).round().astype(int)
    tokens = [np.array([101, *rng.integers(1000, 30000, n - 2), 102]) for n in lengths]
    for row in tokens:
        row[len(row) // 2] = 102
    segments = [(np.arange(len(row)) > len(row) // 2).astype(np.int64) for row in tokens]
    labels = torch.from_numpy(rng.integers(0, 2, rows))
    return Encoded(tokens, segments, labels, list(range(rows)), (), pad=0)


def work_of(size: str, data: Encoded, epochs: int, seed: int, folder: Path) -> Work:
    """The training of this size on these examples.

    The teacher reads the embedded one's vocabulary. Its weights are random: time is the same.
    """
    shape, row = SIZES[size]
    config = AutoConfig.from_pretrained(find("embedded", GLUE["mrpc"], True).folder, **shape)
    config.num_labels = 2
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        teacher = (
            AutoModelForSequenceClassification.from_config(config).eval().requires_grad_(False)
        )
    teacher.set_attn_implementation("packed")
    return Work(teacher, parse_one(row), data, epochs, seed, folder)
