"""What every registered method and model owes the contract, and what is special to one."""

from __future__ import annotations

import pytest
import tiny
import torch
from transformers import BertConfig, BertForSequenceClassification, MobileBertConfig

import methods
from bench.errors import InputError
from bench.make.record import training_cost
from bench.measure.parameters import count
from bench.plan.spelling import parse_one
from bench.plan.untrained import untrained
from bench.train.student_trainer import TrainLog
from methods.api import PAPER_OVERRIDES, MethodError, Setup, Stage
from methods.core.models import (
    Cost,
    PackedModel,
    RoutedModule,
    closed_form,
    cost,
    forward,
)
from methods.core.taps import LOGITS


@pytest.fixture(params=sorted(methods.TABLE))
def method(request):
    return methods.get(request.param)


def test_published_shape(method):
    """The deployed students beside BERT-base, in millions of parameters (pooler and two-class head included)."""
    made = method()
    *_, model = untrained(made, BertConfig(), 2, "meta").values()
    counted = count(model)
    millions = {
        "distilbert": 66.96,
        "pkd": 66.96,
        **dict.fromkeys(("theseus", "droplayers", "layerdrop"), 66.96),
        "mobilebert": 15.49,
        "moebert": 81.24,
        "fastbert": 111.48,
        "bilstm": 3.60,  # 3.00 of them 10,000 word vectors
        **dict.fromkeys(("mtdnn", "magnitude", "movement", "q8bert", "ternarybert"), 109.48),
        "dynabert": 35.08,  # a quarter of the width, half of the depth: its smallest part
        "cofi": 58.96,  # 60 % of the weights of heads and neurons gone, evenly
        "fisher": 67.96,  # half of the multiply-accumulates of length 128, evenly
    }
    assert counted.total / 1e6 == pytest.approx(millions.get(made.name, 14.35), abs=0.006), (
        f"{made.name} has {counted.total / 1e6:.2f} million parameters; if its paper's shape has so many, add it to `millions`"
    )
    assert (counted.active < counted.total) == (made.name == "moebert")


def test_a_badly_named_method_is_left_out_and_the_others_stay(monkeypatch):
    from importlib.metadata import EntryPoint

    def points(names):
        return lambda group: [EntryPoint(name, "some.where:Thing", group) for name in names]

    monkeypatch.setattr("methods.entry_points", points(["mine/new"]))
    assert methods.names()["mine/new"] == "from some.where:Thing"
    for name in ("new", "kd", "mine/new:x", "mine/a,b", "/", "mine/", "mine/n\nw"):
        monkeypatch.setattr("methods.entry_points", points([name, "mine/good"]))
        assert list(methods.names()) == [*methods.TABLE, "mine/good"]


def test_what_no_stage_can_change_is_refused_and_not_ignored():
    with pytest.raises(
        ValueError, match="cannot change batch_size, learningrate; it can: betas, clip, epochs"
    ):
        Stage("all", {}, paper={"epochs": 3.0, "batch_size": 8, "learningrate": 1.0})


REFUSED = {
    "minilm:start_from=x": "replaces the general start",
    "pd:start=masked:start_from=x": "replaces the general start",
    "kd:start=random:start_from=x": "replaces the general start",
    "mobilebert:pretraining=joint:start_from=x": "replaces the pre-training",
    "distilbert:pretraining=masked:start_from=x": "is a finished first step",
    "tinybert:padding=-1": "0 for none",
    "tinybert:padding=999": "512 positions; choose at most 512",
    "tinybert:map=top:layers=13": "needs a teacher of at least 13 layers",
    "moebert:balance=0.1": "routing=token",
    "moebert:expert_size=3072": "4 experts of 3072 neurons, 512 of them shared, need 10752 neurons; the teacher has 3072",
    "moebert:shared_size=0": "shared_size=0 should be at least 1 and below expert_size=768",
    "moebert:experts=8": "shared_size=512 should be at least 1 and below expert_size=384",
    "distilbert:positions=frozen": "add pretraining=masked",
    "pkd:layers=1": "layers=2",
    "pkd:layers=13": "at most the teacher's 12",
    "theseus:layers=5": "does not divide",
    "droplayers:dropped=even:layers=4": "drops 8 of 12 layers, and 6 are even",
    "minilmv2:relation_heads=7": "divide both widths",
    "minilmv2:teacher_layer=13": "the teacher has 12 layers",
    "minilm:heads=6": "head by head",
    "mobilebert:pretraining=joint:inverted=9": "inverted=9 should be",
}


@pytest.mark.parametrize("row", REFUSED)
def test_what_a_method_cannot_do_is_refused_before_it_is_planned(row):
    """For BERT-base as the teacher; the message says what can be typed."""
    with pytest.raises((InputError, MethodError), match=REFUSED[row]):
        parse_one(row).method.requires(BertConfig())


@pytest.mark.parametrize(
    "name", ["pkd", "distilbert", "moebert", "cofi", "fisher", "magnitude", "theseus"]
)
def test_only_a_bert_can_be_cut(name):
    with pytest.raises(MethodError, match="this teacher is a mobilebert"):
        methods.get(name)().requires(MobileBertConfig())


def test_the_papers_schedules_are_said_stage_by_stage(method):
    """``--recipe paper``: every counted stage names its own epochs and learning rate, in fields that a recipe has."""
    from dataclasses import fields

    from bench.plan.scheduled_stages import schedule_stages
    from bench.record.recipe import Recipe

    made = method()
    setup = Setup(BertConfig(), 2, ("x",))
    stages = made.stages(setup)
    others = {"name", "batch_size", "max_length", "micro_batch", "stage_optimizers"}
    others |= {"truncation", "class_weights"}
    assert {field.name for field in fields(Recipe)} - others == PAPER_OVERRIDES
    for stage in stages:
        if not stage.extra_steps:
            said = f"{made.name}, stage {stage.name!r}: Stage.paper names no epochs or no learning rate"
            assert {"epochs", "learning_rate"} <= set(stage.paper) <= PAPER_OVERRIDES, said
    scheduled = schedule_stages(stages, (), Recipe(name="paper"), 320)[1]
    assert [stage.steps for stage in scheduled] == [
        round(10 * stage.paper["epochs"]) for stage in stages if not stage.extra_steps
    ]
    assert all(one.recipe.learning_rate == one.stage.paper["learning_rate"] for one in scheduled)


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
    assert (own.observed(), own.leaves_early, own.reads_texts) == ({}, False, False)
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
    assert training_cost(log, shipped, shipped, None).flops_own == 6 * cost(shipped).macs(
        100, 1000, 10
    )
