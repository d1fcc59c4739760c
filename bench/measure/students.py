"""Sizes of the teacher and of what each method would ship, from configurations alone."""

from __future__ import annotations

import torch

from bench.data.checkpoints import config_from_name
from bench.measure.profile import sizes
from bench.plan.spelling import parse_methods
from bench.record.schema import Sizes
from methods.api import GeneralStart, Setup
from methods.parts import bert_config


def profile_rows(methods: str, teacher: str) -> list[tuple[str, Sizes]]:
    """Two labels, length 128. Each method builds its student from empty weights and deploys it.

    Raises:
        InputError: an unknown method or teacher.
    """
    config = config_from_name(teacher)
    name = "bert-base-uncased" if teacher == "auto" else teacher
    rows = [(f"teacher {name}", sizes(config))]
    for row in parse_methods(methods):
        with torch.random.fork_rng(devices=[]):
            artefacts = {wish.name: _random_encoder(wish, config) for wish in row.method.prepare(config)}
            student = row.method.build(Setup(config, 2, ("profile",), artefacts))
            for point, model in row.method.deploy(student).items():
                rows.append((row.label + (f" at {point}" if point else ""), sizes(model.config)))
    return rows


def _random_encoder(wish: GeneralStart, config: object) -> dict[str, torch.Tensor]:
    from transformers import BertModel

    encoder = BertModel(bert_config(wish.shape, config), add_pooling_layer=False)  # type: ignore[arg-type]
    projection = torch.nn.Linear(wish.shape.hidden, config.hidden_size)  # type: ignore[attr-defined]
    named = {f"projection.{name}": value for name, value in projection.state_dict().items()}
    return {**encoder.state_dict(), **named}
