"""Layer maps, and students cut out of the teacher: which weights go where, and what importance and routing mean."""

from __future__ import annotations

import copy
from types import SimpleNamespace

import pytest
import tiny
import torch
from hypothesis import given
from hypothesis import strategies as st
from tiny_training import built
from torch import nn
from transformers import (
    AutoConfig,
    AutoModelForSequenceClassification,
    BertConfig,
    BertForSequenceClassification,
    DistilBertConfig,
)

import methods
from methods.api import Setup
from methods.core import losses
from methods.core.artefacts import fill_from_teacher
from methods.core.models import forward
from methods.core.parts import averaged_layers, evenly_spread, nearest_layers
from methods.core.taps import LOGITS, hidden
from methods.core.truncation import collect_activations, init_from_teacher, regression
from methods.layerdrop import DropLayers, LayerDrop
from methods.moebert import MoEBERT, NeuronImportance
from methods.pkd import PKD
from methods.theseus import Replacing


def setup_of(teacher, num_labels=2, **artefacts):
    weights = teacher.state_dict()
    plain = {name: value for name, value in weights.items() if not name.startswith("classifier.")}
    return Setup(
        teacher.config,
        num_labels,
        ("x",),
        {"teacher_weights": plain, "tuned_teacher": weights, **artefacts},
    )


def states(model, batch, layers):
    return forward(model.eval(), batch, hidden(*layers))


def test_pkd_maps_are_the_papers():
    twelve = BertConfig()
    assert PKD(layers=6).layer_map(twelve) == {1: 2, 2: 4, 3: 6, 4: 8, 5: 10}
    assert PKD().layer_map(twelve) == PKD(layers=6).layer_map(twelve)
    assert PKD(layers=6, map="last").layer_map(twelve) == {1: 7, 2: 8, 3: 9, 4: 10, 5: 11}
    assert PKD(layers=3).layer_map(twelve) == {1: 4, 2: 8}
    assert PKD(layers=3, map="last").layer_map(twelve) == {1: 10, 2: 11}
    assert PKD(layers=4).layer_map(twelve) == {1: 3, 2: 6, 3: 9}


def test_pkd_starts_as_the_first_layers(teacher_folder):
    teacher = tiny.classifier(layers=4)
    student = PKD(layers=2).build(setup_of(teacher)).model
    batch = tiny.encoded(teacher_folder).batch([0, 1, 2])
    ours, theirs = (states(model, batch, (0, 1, 2)) for model in (student, teacher))
    assert all(torch.equal(ours.hidden(i), theirs.hidden(i)) for i in (0, 1, 2))


def test_distilbert_starts_as_spread_layers():
    teacher = tiny.classifier(layers=6)
    student = methods.get("distilbert")().build(setup_of(teacher)).model
    theirs = [layer.output.dense.weight for layer in teacher.bert.encoder.layer]
    ours = [layer.ffn.lin2.weight for layer in student.distilbert.transformer.layer]
    assert [next(n for n, t in enumerate(theirs, 1) if torch.equal(t, o)) for o in ours] == [
        1,
        4,
        6,
    ]
    assert not any(
        "token_type" in name or "pooler" in name for name, _ in student.named_parameters()
    )


def test_importance_is_that_of_each_example_alone(teacher_folder):
    """Against the formula by a backward pass for each example: |w1 . dL/dw1 + w2 . dL/dw2|, summed."""
    teacher = tiny.classifier(layers=2).eval()
    data = tiny.encoded(teacher_folder)
    found = NeuronImportance(8).compute(teacher, (data.batch(range(s, s + 4)) for s in (0, 4, 8)))
    for number, layer in enumerate(teacher.bert.encoder.layer, start=1):
        w1, w2 = layer.intermediate.dense.weight, layer.output.dense.weight
        expected = torch.zeros(w1.size(0))
        for i in range(8):
            batch = data.batch([i])
            loss = losses.hard(forward(teacher, batch, LOGITS).logits, batch.labels)
            g1, g2 = torch.autograd.grad(loss, (w1, w2))
            expected += ((w1 * g1).sum(1) + (w2 * g2).sum(0)).abs().detach()
        torch.testing.assert_close(found[f"layer.{number}"], expected, atol=1e-6, rtol=1e-4)


def moebert(teacher, seed=0, **settings):
    neurons = teacher.config.intermediate_size
    ranks = {
        f"layer.{i}": torch.rand(neurons) for i in range(1, teacher.config.num_hidden_layers + 1)
    }
    torch.manual_seed(seed)
    return MoEBERT(**settings).build(setup_of(teacher, neuron_importance=ranks)).model.eval(), ranks


@pytest.mark.parametrize("activation", ["gelu", "relu"])
def test_all_tokens_on_one_expert_is_the_truncated_network(teacher_folder, activation):
    config = tiny.config(layers=1)
    config.hidden_act = activation
    teacher = BertForSequenceClassification(config)
    teacher.set_attn_implementation("packed")
    student, ranks = moebert(teacher)
    experts = student.bert.encoder.layer[0].output
    experts.route_V.fill_(2)
    order = ranks["layer.1"].argsort(descending=True)
    kept = torch.cat([order[:8], order[8 + 2 :: 4][:4]])
    ffn = teacher.bert.encoder.layer[0]
    with torch.no_grad():
        gone = torch.ones(48, dtype=torch.bool)
        gone[kept] = False
        ffn.output.dense.weight[:, gone] = 0.0
    batch = tiny.encoded(teacher_folder).batch([0, 1, 2])
    logits = [forward(model.eval(), batch, LOGITS).logits for model in (student, teacher)]
    torch.testing.assert_close(*logits, atol=1e-6, rtol=1e-5)


def test_a_copy_routes_by_its_own_tokens(teacher_folder):
    """Planted before: the copy looked up the tokens that the original saw last."""
    student, _ = moebert(tiny.classifier(layers=2))
    data = tiny.encoded(teacher_folder)
    expected = forward(student, data.batch([3, 4]), LOGITS).logits
    forward(student, data.batch([0]), LOGITS)
    twin = copy.deepcopy(student)
    assert torch.equal(forward(twin, data.batch([3, 4]), LOGITS).logits, expected)


def teacher_of(family):
    """A small teacher whose attention is not the same for all tokens, as with usual random weights."""
    if family == "bert":
        return tiny.classifier(seed=1).eval()
    shape = {
        n: getattr(tiny.config(), n)
        for n in (
            "vocab_size",
            "hidden_size",
            "num_attention_heads",
            "intermediate_size",
            "max_position_embeddings",
        )
    }
    kinds = {"type_vocab_size": 1} if family == "roberta" else {}
    embedding = {"embedding_size": shape["hidden_size"]} if family == "electra" else {}
    torch.manual_seed(1)
    config = AutoConfig.for_model(
        family,
        num_hidden_layers=3,
        pad_token_id=0,
        initializer_range=0.2,
        **shape,
        **kinds,
        **embedding,
    )
    teacher = AutoModelForSequenceClassification.from_config(config).eval()
    if family == "mpnet":
        # a BERT has no place for it
        teacher.mpnet.encoder.relative_attention_bias.weight.data.zero_()
    else:
        teacher.set_attn_implementation("packed")
    return teacher


def test_theseus_holds_what_the_layers_share():
    """The teacher's layers read MPNet's relative positions too: learning them would change the teacher."""
    teacher = teacher_of("mpnet")
    Replacing(teacher, [nn.ModuleList(copy.deepcopy(teacher.mpnet.encoder.layer))])
    learning = {name for name, parameter in teacher.named_parameters() if parameter.requires_grad}
    assert learning == {name for name, _ in teacher.named_parameters() if ".encoder.layer." in name}


@pytest.mark.parametrize("family", ["bert", "roberta", "electra", "mpnet"])
def test_nothing_is_lost_when_nothing_is_cut(teacher_folder, family):
    """The same shape: the student answers as the teacher does, layer by layer, through the projection."""
    teacher, student = teacher_of(family), tiny.classifier(seed=2).eval()
    batch = tiny.encoded(teacher_folder, rows=60).batch(range(60))
    projection = nn.Linear(24, 24)
    assert init_from_teacher(teacher, student, projection, collect_activations(teacher, batch))
    everything = hidden(*range(4))
    ours, theirs = forward(student, batch, everything), forward(teacher, batch, everything)
    for layer in range(4):
        error = (
            projection(ours.hidden(layer)) - theirs.hidden(layer)
        ).square().mean() / theirs.hidden(layer).var()
        assert float(error.detach()) < 1e-3, f"layer {layer}"


def test_a_cut_student_is_nearer_than_a_random_one(teacher_folder):
    teacher = tiny.classifier(seed=1).eval()
    batch = tiny.encoded(teacher_folder, rows=200).batch(range(200))
    theirs = forward(teacher, batch, hidden(3)).hidden(3).detach().double()

    def unexplained(student) -> float:
        ours = forward(student.eval(), batch, hidden(2)).hidden(2).detach().double()
        best = regression(ours, theirs)
        return float((ours @ best[:-1] + best[-1] - theirs).square().mean() / theirs.var())

    random, cut = (tiny.classifier(seed=2, layers=2, hidden=16) for _ in range(2))
    assert init_from_teacher(teacher, cut, nn.Linear(16, 24), collect_activations(teacher, batch))
    assert unexplained(cut) < unexplained(random)


@pytest.mark.parametrize(
    ("config", "width", "said"),
    [
        (tiny.config(), 24, "the cut-down teacher"),
        (tiny.config(), 32, "random weights: the shape does not fit into the teacher's"),
        (
            DistilBertConfig(),
            24,
            "random weights: only bert, roberta, electra, mpnet can be truncated, and this teacher is a distilbert",
        ),
    ],
    ids=["truncated", "too wide", "no BERT"],
)
def test_it_is_noted_why_a_start_is_random(teacher_folder, config, width, said):
    notes, told = [], []
    given = SimpleNamespace(
        setup=SimpleNamespace(teacher=config),
        teacher=lambda source: tiny.classifier(),
        first=lambda source, tokens: tiny.encoded(teacher_folder).batch(range(40)),
        note=notes.append,
        on_step=lambda done, total: told.append((done, total)),
    )
    fill_from_teacher(given, tiny.classifier(seed=2, hidden=width), nn.Linear(width, 24))
    assert notes == [said]
    assert told == ([(1, 3), (2, 3), (3, 3)] if config.model_type == "bert" else []), (
        "a layer at a time"
    )


@pytest.mark.parametrize(
    "student, teacher, expected",
    [
        (4, 12, [0, 3, 6, 9, 12]),
        (6, 12, [0, 2, 4, 6, 8, 10, 12]),
        (4, 6, [0, 2, 3, 5, 6]),  # 1.5 and 4.5 go up
        (3, 3, [0, 1, 2, 3]),
    ],
)
def test_nearest(student, teacher, expected):
    assert list(nearest_layers(student, teacher).values()) == expected


@pytest.mark.parametrize(
    "student, teacher, expected",
    [
        (6, 12, [1, 3, 5, 8, 10, 12]),
        (4, 12, [1, 5, 8, 12]),
        (3, 6, [1, 4, 6]),
        (1, 6, [1]),
        (6, 6, [1, 2, 3, 4, 5, 6]),
    ],
)
def test_spread(student, teacher, expected):
    assert evenly_spread(student, teacher) == expected


def test_averages_of_three_with_twelve_layers():
    weights = averaged_layers(4, 12)
    assert {m: sorted(w) for m, w in weights.items()} == {
        1: [1, 2, 3],
        2: [4, 5, 6],
        3: [7, 8, 9],
        4: [10, 11, 12],
    }
    assert weights[2][5] == pytest.approx(1 / 3)


def test_averages_where_depths_do_not_divide():
    weights = averaged_layers(4, 6)
    assert weights[1] == pytest.approx({1: 2 / 3, 2: 1 / 3})
    assert weights[2] == pytest.approx({2: 1 / 3, 3: 2 / 3})


@given(student=st.integers(1, 12), teacher=st.integers(1, 24))
def test_every_average_is_one_and_every_layer_is_used(student, teacher):
    weights = averaged_layers(student, teacher)
    for of_one in weights.values():
        assert sum(of_one.values()) == pytest.approx(1)
    assert {n for of_one in weights.values() for n in of_one} == set(range(1, teacher + 1))
    nearest = nearest_layers(student, teacher)
    assert nearest[0] == 0
    assert nearest[student] == teacher
    assert list(nearest.values()) == sorted(nearest.values())


@pytest.mark.parametrize(
    ("dropped", "layers", "kept"),
    [
        ("top", 8, [1, 2, 3, 4, 5, 6, 7, 8]),
        ("bottom", 8, [5, 6, 7, 8, 9, 10, 11, 12]),
        ("even", 8, [1, 2, 3, 4, 5, 7, 9, 11]),
        ("odd", 8, [1, 2, 3, 4, 6, 8, 10, 12]),
        ("symmetric", 6, [1, 2, 3, 10, 11, 12]),
    ],
)
def test_what_stays_of_twelve_layers(dropped, layers, kept):
    """Sajjad et al. 2023, section 3."""
    assert DropLayers(dropped=dropped, layers=layers).kept(BertConfig()) == kept


def test_layerdrop_keeps_every_other_layer_and_trains_with_all():
    method = LayerDrop()
    setup, student = built(method, tiny.config(layers=4))
    rows = {
        n: w
        for n, w in setup.artefacts["teacher_weights"].items()
        if n.startswith("bert.encoder.layer.")
    }
    shipped = method.deploy(student)[""].state_dict()
    for place, layer in enumerate([0, 2]):
        for name, weight in rows.items():
            if name.startswith(f"bert.encoder.layer.{layer}."):
                assert torch.equal(
                    shipped[name.replace(f"layer.{layer}.", f"layer.{place}.")], weight
                )
    student.model.train().rate = 0.0
    assert len(student.model.drawn()) == 4
    student.model.rate = 1.0
    assert not student.model.drawn()
