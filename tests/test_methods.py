"""What every registered method owes the contract, and what is special to one."""

from __future__ import annotations

from dataclasses import FrozenInstanceError

import pytest
import tiny
import torch

import methods
from methods.api import GeneralStart, Method, Needs, Setup
from methods.packed import forward


@pytest.fixture(params=sorted(methods.TABLE))
def method(request):
    return methods.get(request.param)


def test_the_contract(method):
    made = method()
    assert isinstance(made, Method)
    assert methods.TABLE[made.name]
    with pytest.raises(FrozenInstanceError):
        made.layers = 3
    stages = made.stages(Setup(tiny.config(layers=6, heads=12, hidden=24), 2, ("x",)))
    named = {term for stage in stages for term in stage.terms}
    assert named <= set(made.terms)
    assert sum(stage.share for stage in stages if not stage.preparatory_steps) == pytest.approx(1)


def test_published_shape(method):
    made = method()
    assert (made.layers, made.hidden, made.heads, made.ffn) == (4, 312, 12, 1200)


@pytest.mark.parametrize("num_labels", [1, 2, 3])
def test_students_answer_in_the_tasks_form(method, teacher_folder, num_labels):
    made = method(layers=2, hidden=12, heads=4, ffn=24, start="random")
    student = made.build(Setup(tiny.config(num_labels=num_labels), num_labels, ("x",)))
    batch = tiny.encoded(teacher_folder).batch([0, 1, 2])
    for model in (student.model, made.deploy(student)[""]):
        assert forward(model, batch, Needs(logits=True)).logits.shape == (3, num_labels)


def test_what_is_shipped_answers_like_what_was_trained(method, teacher_folder, tmp_path):
    made = method(layers=2, hidden=12, heads=4, ffn=24, start="random")
    student = made.build(Setup(tiny.config(), 2, ("x",)))
    shipped = made.deploy(student)[""].eval()
    shipped.save_pretrained(tmp_path)
    again = type(shipped).from_pretrained(tmp_path)
    again.set_attn_implementation("packed")
    batch = tiny.encoded(teacher_folder).batch([0, 1, 2])
    logits = [forward(m.eval(), batch, Needs(logits=True)).logits for m in (student.model, shipped, again)]
    torch.testing.assert_close(logits[0], logits[1], atol=1e-6, rtol=1e-5)
    assert torch.equal(logits[1], logits[2])
    assert sorted(p.name for p in tmp_path.iterdir()) == ["config.json", "model.safetensors"]


def test_a_general_start_is_asked_for_once_per_shape(method):
    assert method().prepare(tiny.config()) == (GeneralStart(method().shape),)
    assert method(start="random").prepare(tiny.config()) == ()


def test_dropping_terms_makes_the_teacher_do_less():
    from bench.plan.recipe import Recipe
    from bench.train.loop import legs_of

    made = methods.get("microbert")()
    stages = made.stages(Setup(tiny.config(layers=6), 2, ("x",)))
    needs = {
        drop: legs_of(stages, drop, Recipe(), 40)[1][0].needs("teacher") for drop in ((), ("hidn",), ("hidn", "embd"))
    }
    assert needs[()].hidden == frozenset(range(7))
    assert needs["hidn",].hidden == {0}
    assert needs["hidn", "embd"].hidden == frozenset()
    assert needs["hidn", "embd"].logits


@pytest.mark.parametrize(
    "settings",
    [
        {"projection": "teacher"},
        {"projection": "common", "projection_per_layer": True},
        {"order": "pool_then_map"},
        {"features": "cls"},
        {"distance": "kl"},
        {"teacher_layers": "nearest", "attention": True},
        {"discriminator_input": "features"},
        {"discriminator_input": "logits", "gan": "least_squares"},
        {"gan": "saturating", "experts": 1},
        {"schedule": "tinybert", "discriminator_steps": 0},
    ],
    ids=str,
)
def test_every_open_choice_of_microbert_trains(teacher_folder, settings):
    from bench.plan.recipe import Recipe
    from bench.train.loop import Numerics, RandomState, Trainee, legs_of, train

    made = methods.get("microbert")(layers=2, hidden=12, heads=4, ffn=24, start="random", **settings)
    setup = Setup(tiny.config(), 2, ("x",))
    data = tiny.encoded(teacher_folder)
    random = RandomState(0, torch.device("cpu"))
    with random.current():
        student = made.build(setup)
    recipe = Recipe(epochs=1.0, batch_size=8)
    one = Trainee("x", student, random, *legs_of(made.stages(setup), (), recipe, len(data)), Numerics())
    train([one], data, 0, tiny.classifier(seed=3).eval(), Numerics(), 8)
    assert one.error is None


def test_two_packages_may_not_share_a_name(monkeypatch):
    from importlib.metadata import EntryPoint

    def points(names):
        return lambda group: [EntryPoint(name, "some.where:Thing", group) for name in names]

    monkeypatch.setattr("methods.entry_points", points(["mine/new"]))
    assert methods.names()["mine/new"] == "from some.where:Thing"
    monkeypatch.setattr("methods.entry_points", points(["mine/new", "mine/new"]))
    with pytest.raises(ValueError, match="uninstall one"):
        methods.names()
    monkeypatch.setattr("methods.entry_points", points(["new"]))
    with pytest.raises(ValueError, match="package/method"):
        methods.names()
