"""A small Transformer that writes a text from a text: the student alone, without a teacher (Vaswani
et al. 2017; OpenNMT's base).

The vocabulary is the word pieces of the teacher's tokenizer that occur in the training pairs,
source and target together, as the authors of C-MLM have it (``methods/cmlm.py``). The published: 6
+ 6 layers of 512, 8 heads, 2048 inside, dropout and label smoothing 0.1, beam 5, length penalty
0.6, Noam's schedule. Ours: Marian's layers of transformers (LayerNorm behind each part, sinusoidal
positions, one matrix for both embeddings and the output), its generate() with its own form of the
length penalty, and ``rate`` times the rate of the recipe with linear decay. With ``--recipe paper``
the rate is Noam's highest, 2 / sqrt(512 * 8000).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from methods.api import Setup, Stage
from methods.core.writing import WritingMethod


@dataclass(frozen=True, kw_only=True)
class Seq2Seq(WritingMethod):
    name: ClassVar = "seq2seq"
    version: ClassVar = 1
    terms: ClassVar = ("hard",)
    baseline: ClassVar = True

    def stages(self, setup: Setup) -> Sequence[Stage]:
        return (self.stage({"hard": self.hard(setup, 1.0)}),)
