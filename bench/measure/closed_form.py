"""Multiply-accumulates of a BERT in closed form: the second witness beside fvcore, and the cost of trainings."""

from __future__ import annotations

from typing import Any


def closed_form(config: Any, length: int) -> int:
    """MACs of a BERT classifier for one sequence: L * (4 n W^2 + 2 n^2 W + 2 n W F), pooler and head added."""
    n, width, ffn = length, config.hidden_size, config.intermediate_size
    layer = 4 * n * width**2 + 2 * n**2 * width + 2 * n * width * ffn
    return config.num_hidden_layers * layer + width**2 + width * config.num_labels


def training_macs(config: Any, tokens: int, squared_lengths: int) -> int:
    """MACs of forward passes over sequences of ``tokens`` in all, sum of squared lengths given."""
    width, ffn = config.hidden_size, config.intermediate_size
    return config.num_hidden_layers * (tokens * (4 * width**2 + 2 * width * ffn) + 2 * squared_lengths * width)
