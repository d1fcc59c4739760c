"""Knowledge distillation by soft labels, Hinton, Vinyals and Dean 2015 (arXiv
1503.02531), section 2.

The paper's: softened teacher and student outputs, the factor T^2 that keeps the two gradients
comparable, a weighted sum with the labels' loss. Ours: weight 0.5 and T = 1 as defaults (the paper
names no number for text), KL instead of cross-entropy (same gradient), the teacher in evaluation
mode; the encoder begins with the shared general start, like ``finetune``. A regression has no
softmax: there the teacher's prediction is the target of a squared error. The paper names no
schedule for text either: ``--recipe paper`` has that of compact BERTs, as ``finetune`` has it (Turc
et al. 2019). Dropping a term leaves the other at its weight: "w/o hard" has the soft labels at 0.5
(``alpha=1``: at 1).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from methods.api import Setup, Stage
from methods.core.own_shape import OwnShape
from methods.core.settings import Fraction, Positive
from methods.core.terms import hard, softened


@dataclass(frozen=True, kw_only=True)
class KD(OwnShape):
    name: ClassVar = "kd"
    version: ClassVar = 1
    terms: ClassVar = ("soft", "hard")
    ablations: ClassVar = {"w/o hard": ":-hard"}
    needs_teacher: ClassVar = True
    spans: ClassVar = True
    search_space: ClassVar = {"alpha": (0.2, 0.5, 0.8), "temperature": (1.0, 2.0, 5.0, 10.0)}

    alpha: Fraction = 0.5  # weight of the soft loss; the hard loss has 1 - alpha
    temperature: Positive = 1.0

    def stages(self, setup: Setup) -> Sequence[Stage]:
        terms = {"soft": softened(self.temperature, self.alpha), "hard": hard(1 - self.alpha)}
        return (Stage("distil", terms, paper={"epochs": 4.0, "learning_rate": 1e-4}),)
