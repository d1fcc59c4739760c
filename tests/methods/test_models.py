"""What models say of themselves is declared by a base class."""

from __future__ import annotations

import pytest
import tiny
import torch
from transformers import BertForSequenceClassification

import methods
from bench.make.record import training_cost
from bench.measure.parameters import count
from bench.plan.untrained import untrained
from bench.train.student_trainer import TrainLog
from methods.models import (
    Cost,
    PackedModel,
    RoutedModule,
    closed_form,
    cost,
    forward,
    leaves_early,
    observed,
    reads_texts,
)
from methods.terms import LOGITS


class Plus(PackedModel, BertForSequenceClassification):
    """Every default of the mix-in."""


@pytest.fixture(scope="module")
def batch(teacher_folder):
    return tiny.encoded(teacher_folder).batch([3, 1, 4])


def test_the_defaults_are_those_of_the_family(batch):
    plain = tiny.classifier().eval()
    own = Plus(plain.config).eval()
    own.load_state_dict(plain.state_dict())
    own.set_attn_implementation("packed")
    assert torch.equal(forward(own, batch, LOGITS).logits, forward(plain, batch, LOGITS).logits)
    assert cost(own) == own.training_cost() == cost(plain) == closed_form(plain)
    for model in (own, plain):
        assert (observed(model), leaves_early(model), reads_texts(model)) == ({}, False, False)
    with pytest.raises(TypeError, match="Plus reads token ids"):
        own.of_texts([("a", None)])


def test_a_routed_module_is_counted():
    class Claims(RoutedModule):
        macs_per_token = 7
        inactive_parameters = 5

    plain, routed = tiny.classifier(), tiny.classifier()
    routed.bert.encoder.layer[0].experts = Claims()
    assert cost(routed).per_token == cost(plain).per_token + 7
    assert count(routed).active == count(plain).active - 5


def test_what_a_training_costs_is_asked_of_what_was_trained():
    """Theseus trains more than it ships; a plain student costs what it ships."""
    teacher, log = tiny.config(layers=4), TrainLog(tokens=100, squared_lengths=1000, examples=10)
    kind = methods.get("theseus")
    (shipped,) = untrained(kind(), teacher).values()
    trained = PackedModel()
    trained.training_cost = lambda: Cost(1.0, 2.0, 3.0)
    assert training_cost(log, trained, shipped, None).flops_own == 6 * (100 + 2 * 1000 + 3 * 10)
    assert training_cost(log, shipped, shipped, None).flops_own == 6 * cost(shipped).macs(100, 1000, 10)
