"""Method spellings: order does not matter, defaults do not show, mistakes name the nearest right thing."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from transformers import BertConfig

import methods
from bench.errors import InputError
from bench.plan.spelling import drop_unusable, parse_methods, parse_one


def test_defaults_spelled_out_give_the_same_row():
    assert parse_one("microbert:layers=4:experts=4") == parse_one("microbert")
    assert parse_one("microbert:gamma=0.10").spelling == "microbert"


@given(order=st.permutations(["layers=6", "experts=1", "-dis", "-hidn"]))
def test_the_order_of_parts_does_not_matter(order):
    row = parse_one("microbert:" + ":".join(order))
    assert row.spelling == "microbert:experts=1:layers=6:-dis:-hidn"
    assert parse_one(row.spelling) == row


@given(
    temperature=st.floats(min_value=1e-6, max_value=1e9),
    pace=st.floats(min_value=1e-6, max_value=999),
)
def test_a_spelling_gives_back_every_digit_of_its_numbers(temperature, pace):
    row = parse_one(f"kd:temperature={temperature!r}:pace={pace!r}")
    again = parse_one(row.spelling)
    assert (again.method.temperature, again.pace) == (temperature, pace)


def test_what_an_ablation_sets_goes_before_what_was_typed():
    assert [row.spelling for row in parse_methods("bilstm:hard_weight=1:ablate")] == [
        "bilstm:hard_weight=1",
        "bilstm:hard_weight=1:-logits",
    ]
    assert "tinybert:prediction=labels" not in [
        row.spelling for row in parse_methods("tinybert:prediction=labels:ablate")[1:]
    ]


def test_ablate_makes_the_papers_rows():
    rows = parse_methods("microbert:ablate,microbert")
    assert [row.label for row in rows] == [
        "microbert",
        "microbert w/o Dis",
        "microbert w/o Hidn",
        "microbert w/o Pred",
    ]
    assert [row.dropped for row in rows] == [(), ("dis",), ("hidn",), ("pred",)]
    assert all(row.ablation_of == "microbert" for row in rows[1:])


def test_all_is_every_method_that_ships():
    from methods import TABLE

    assert [row.spelling for row in parse_methods("all")] == list(TABLE)
    assert len(parse_methods("all,kd:alpha=0.3,kd")) == len(TABLE) + 1
    for text in ("all,kd", "kd,all"):
        assert [row.spelling for row in parse_methods(text) if not row.from_all] == ["kd"], (
            "it was named too"
        )


@pytest.mark.parametrize(
    "text, message",
    [
        ("tinybrt", "did you mean 'tinybert'"),
        ("tinybert:layer=4", "did you mean 'layers'"),
        ("tinybert:-atn", "did you mean 'attn'"),
        ("tinybert:ablat", "did you mean 'ablate'"),
        ("tinybert:layers=four", "a whole number"),
        ("tinybert:layers=4:layers=6", "layers is given twice"),
        ("kd:temperature=nan", "finite"),
        ("microbert:distance=mae", "known: mse"),
        ("microbert:attention=yes", "true or false"),
        ("finetune:ablate", "names no ablations; leave"),
        ("", "no method was named"),
    ],
)
def test_mistakes(text, message):
    with pytest.raises(InputError, match=message):
        parse_methods(text)


def test_all_leaves_out_what_the_teacher_does_not_suit_and_a_name_does_not():
    """A teacher of 16 heads, like BERT-large: MiniLM compares head by head with its own 12."""
    large = BertConfig(hidden_size=1024, num_attention_heads=16, num_hidden_layers=24)

    def usable(rows, teacher):
        return drop_unusable(parse_methods(rows), lambda row: row.method.requires(teacher))

    kept, left = usable("all", large)
    assert [note.split(" ")[0] for note in left] == ["minilm"]
    assert len(kept) + 1 == len(methods.TABLE)
    with pytest.raises(InputError, match="head by head"):
        usable("minilm", large)
    assert len(usable("all", BertConfig())[0]) == len(methods.TABLE)
