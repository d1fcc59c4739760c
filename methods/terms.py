"""Terms that many methods share: what the labels ask of the student's logits, and what the teacher's logits ask."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor

from methods import losses
from methods.api import Needs, Term

LOGITS = Needs(logits=True)
Weight = float | Callable[[float], float]


def hard(weight: Weight = 1.0) -> Term:
    """Cross-entropy with the labels; for a regression the mean squared error."""
    return Term(lambda batch, student, teacher, aux: losses.hard(student.logits, batch.labels), weight, LOGITS)


def soft(loss: Callable[[Tensor, Tensor], Tensor], weight: Weight = 1.0) -> Term:
    """``loss`` of the student's and the teacher's logits, both [B, C]."""
    return Term(lambda batch, student, teacher, aux: loss(student.logits, teacher.logits), weight, LOGITS, LOGITS)


def softened(temperature: float, weight: Weight) -> Term:
    """T^2 KL(teacher || student), mean over B (Hinton et al. 2015)."""
    return soft(lambda ours, theirs: losses.soft_kl_batchmean(ours, theirs, temperature), weight)
