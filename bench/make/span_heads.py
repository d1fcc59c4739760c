"""The head that reads every token, of our packed models and of transformers' question answering: each becomes the other."""

from __future__ import annotations

import copy
from typing import Any

import torch
from transformers import AutoModelForQuestionAnswering

from bench.errors import InputError


@torch.no_grad()
def take_span_head(model: Any, tuned: Any) -> None:
    """Give a sequence classifier the head of a tuned question-answering model of the same encoder; what only reads the first token is 0."""
    for name, parameter in model.named_parameters():
        if name not in dict(tuned.named_parameters()):
            parameter.zero_()
    if "qa_outputs" in dict(tuned.named_children()):  # others have one name for both heads
        model.classifier.load_state_dict(tuned.qa_outputs.state_dict())


def as_question_answering(model: Any) -> Any:
    """Transformers' question-answering model with the weights of a packed one.

    Raises:
        InputError: transformers has none of its architecture.
    """
    config = copy.deepcopy(model.config)
    config.architectures = None
    try:
        with torch.random.fork_rng(devices=[]):
            shipped = AutoModelForQuestionAnswering.from_config(config)
    except ValueError:
        raise InputError(f"transformers has no question answering by a {config.model_type}") from None
    weights = model.state_dict()
    names = {name: name.replace("qa_outputs.", "classifier.", 1) for name in shipped.state_dict()}
    shipped.load_state_dict({name: weights[names[name]] for name in names})
    return shipped
