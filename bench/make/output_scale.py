"""Models of a regression between the scale that they are trained in and the units of the labels.

A linear head is multiplied and shifted, so that a saved or exported model needs no program of ours
to answer in the labels' units.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable

import numpy as np
import torch
from torch import nn

from bench.data.encoding import Encoded
from bench.data.target_scale import TargetScale
from bench.errors import CellError
from bench.train.numerics import ComputeSettings
from bench.train.prediction import predict

Answers = Callable[[nn.Module], np.ndarray]
"""A model -> [n, 1] its answers to a few examples."""
WITHIN = 1e-3
"""How far answers may be from the scaled ones, in standard deviations of the labels."""
TRIED = 8
"""Examples by which a model's new scale is checked."""


def answers_to(encoded: Encoded, numerics: ComputeSettings) -> Answers:
    """What models say to the first examples.

    A copy is asked, because some models count what they answered.
    """
    few = encoded.leading(TRIED)
    return lambda model: predict(copy.deepcopy(model), few, numerics)


def into_label_units(models: Iterable[nn.Module], scale: TargetScale, answers: Answers) -> None:
    """Let models that were trained on standardised targets answer in the labels' units.

    Args:
        models: of one training; two that share a head are scaled once.
        answers: what a model says to a few examples, by which the result is checked.

    Raises:
        CellError: a model's answers do not come from linear heads of one output.
    """
    _rescale(list(models), scale.deviation, scale.mean, scale, answers)


def into_training_units(model: nn.Module, scale: TargetScale, answers: Answers) -> None:
    """Let a model that answers in the labels' units answer as if its targets had been standardised.

    A tuned teacher from outside is one.

    Raises:
        CellError: its answers do not come from a linear head of one output.
    """
    _rescale([model], 1 / scale.deviation, -scale.mean / scale.deviation, scale, answers)


@torch.no_grad()
def _rescale(
    models: list[nn.Module], factor: float, shift: float, scale: TargetScale, answers: Answers
) -> None:
    """Replace every answer y by ``factor * y + shift``."""
    # what they say now, to compare with
    before = [answers(model) for model in models]
    # operating points of one training share their head: each is scaled once
    heads: dict[int, nn.Linear] = {}
    for model in models:
        for module in model.modules():
            if isinstance(module, nn.Linear) and module.out_features == 1:
                heads[id(module.weight)] = module
    for head in heads.values():
        head.weight.mul_(factor)
        if head.bias is None:
            raise CellError("its head has no bias, so it cannot answer in the labels' units")
        head.bias.mul_(factor).add_(shift)
    # a layer of one output that is no head would now change what the model says
    unit = WITHIN * (scale.deviation if factor == scale.deviation else 1.0)
    for model, old in zip(models, before, strict=True):
        if not np.allclose(answers(model), factor * old + shift, rtol=WITHIN, atol=unit):
            raise CellError(
                "its answers do not come from one linear layer, so they cannot be given in the "
                "labels' units; scale the labels yourself and name the task's file again"
            )
