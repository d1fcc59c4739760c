"""Layer maps: the papers' with twelve layers, one rule for any depth."""

from __future__ import annotations

import pytest
import tiny
import torch
from hypothesis import given
from hypothesis import strategies as st
from transformers import BertConfig

from methods.api import MethodError, Setup
from methods.artefacts import blank_artefacts
from methods.layerdrop import DropLayers, LayerDrop
from methods.parts import averaged_layers, evenly_spread, nearest_layers


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
    [(6, 12, [1, 3, 5, 8, 10, 12]), (4, 12, [1, 5, 8, 12]), (3, 6, [1, 4, 6]), (1, 6, [1]), (6, 6, [1, 2, 3, 4, 5, 6])],
)
def test_spread(student, teacher, expected):
    assert evenly_spread(student, teacher) == expected


def test_averages_of_three_with_twelve_layers():
    weights = averaged_layers(4, 12)
    assert {m: sorted(w) for m, w in weights.items()} == {1: [1, 2, 3], 2: [4, 5, 6], 3: [7, 8, 9], 4: [10, 11, 12]}
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


def test_a_dropped_layer_of_twelve_has_to_be_there():
    with pytest.raises(MethodError, match="drops 8 of 12 layers, and 6 are even"):
        DropLayers(dropped="even", layers=4).kept(BertConfig())


def test_layerdrop_keeps_every_other_layer_and_trains_with_all():
    method, config = LayerDrop(), tiny.config(layers=4)
    setup = Setup(config, 2, ("x",), blank_artefacts(method.requires(config), config, 2))
    student = method.build(setup)
    rows = {n: w for n, w in setup.artefacts["teacher_weights"].items() if n.startswith("bert.encoder.layer.")}
    shipped = method.deploy(student)[""].state_dict()
    for place, layer in enumerate([0, 2]):
        for name, weight in rows.items():
            if name.startswith(f"bert.encoder.layer.{layer}."):
                assert torch.equal(shipped[name.replace(f"layer.{layer}.", f"layer.{place}.")], weight)
    student.model.train().rate = 0.0
    assert len(student.model.drawn()) == 4
    student.model.rate = 1.0
    assert not student.model.drawn()
