"""What a term declares of a model is what it gets, and pooled states are those that pooling the states would give."""

from __future__ import annotations

import pytest
import tiny
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import BertConfig

import methods
from methods import taps
from methods.api import MethodError, Setup, Term, UndeclaredNeed
from methods.models import forward, of_states
from methods.packed import POOLS, Layout
from methods.taps import LOGITS, Out, Tap, hidden, layers_of, pooled

BERT_BASE = BertConfig()
SOURCES = {
    "a layer": 2,
    "the embedding": 0,
    "a sum": {1: 0.25, 3: 0.75},
    "a sum against the order": {3: 0.1, 1: 0.2, 2: 0.7},
}


@pytest.fixture(scope="module")
def batch(teacher_folder):
    return tiny.encoded(teacher_folder).batch([3, 1, 4, 15, 9])


@pytest.mark.parametrize("pool", POOLS)
@pytest.mark.parametrize("source", SOURCES.values(), ids=SOURCES)
def test_pooled_states_are_the_pools_of_the_states_to_the_bit(batch, source, pool):
    model = tiny.classifier().eval()
    states = forward(model, batch, hidden(0, 1, 2, 3))
    whole = states.hidden(source) if isinstance(source, int) else sum(w * states.hidden(n) for n, w in source.items())
    out = forward(model, batch, pooled(source, pool))
    assert torch.equal(out.pooled(source, pool), POOLS[pool](batch.layout, whole))
    (tap,) = out.values
    assert out[tap].shape == (5, 24), "and nothing else is handed on"


@given(
    weights=st.dictionaries(st.integers(0, 5), st.floats(-2, 2, width=32), min_size=1, max_size=6),
    lengths=st.lists(st.integers(1, 6), min_size=1, max_size=4),
)
@settings(max_examples=60, deadline=None)
def test_a_weighted_sum_is_added_in_its_own_order(weights, lengths):
    """The order decides the last bit, and so does what is pooled: states, not sums of what was pooled."""
    layout, generator = Layout(lengths), torch.Generator().manual_seed(0)
    states = {n: torch.randn(sum(lengths), 3, generator=generator) for n in range(6)}
    total = 0
    for layer, weight in weights.items():
        total = total + weight * states[layer]
    read = of_states(layout, states, pooled(weights, *POOLS))
    for pool, by_hand in POOLS.items():
        (tap,) = pooled(weights, pool)
        assert torch.equal(read[tap], by_hand(layout, total))


def test_a_student_learns_through_its_pooled_states(batch):
    model = tiny.classifier()
    forward(model, batch, pooled({1: 0.5, 2: 0.5}, "mean")).pooled({1: 0.5, 2: 0.5}, "mean").square().sum().backward()
    assert float(model.bert.encoder.layer[1].output.dense.weight.grad.abs().sum()) > 0
    assert model.bert.encoder.layer[2].output.dense.weight.grad is None, "later layers did not run"


def test_what_was_not_declared_is_named_with_what_was(batch):
    out = forward(tiny.classifier().eval(), batch, hidden(1) | pooled(2, "cls"))
    for read in (
        lambda: out.logits,
        lambda: out.hidden(2),
        lambda: out.pooled(2, "max"),
        lambda: out[Tap("vectors", 1)],
    ):
        with pytest.raises(UndeclaredNeed, match=r"declares cls of hidden 2, hidden 1; add it to the term's taps"):
            read()
    with pytest.raises(UndeclaredNeed, match="a term read logits, but declares nothing"):
        _ = Out(batch.layout).logits


@pytest.mark.parametrize("wrong", [Tap("logits"), {Tap("logits")}, 3, None])
def test_a_term_declares_taps_and_nothing_else(wrong):
    with pytest.raises(MethodError, match="declares taps"):
        Term(lambda *_: None, 1.0, wrong)


def of_teacher(name: str, **given: object) -> taps.Taps:
    made = methods.get(name)(**given)
    terms = [term for stage in made.stages(Setup(BERT_BASE, 2, ("x",))) for term in stage.terms.values()]
    return frozenset().union(*(term.teacher for term in terms))


POOLED = [
    {},
    {"order": "pool_then_map"},
    {"order": "pool_then_map", "projection": "teacher"},
    {"discriminator_input": "features"},
]


@pytest.mark.parametrize("given", POOLED, ids=str)
def test_microberts_teacher_hands_on_pooled_states_alone(given):
    """3 features x 5 sources x 768 floats: 46 KB an example; all states of 128 tokens are 5 MB."""
    read = of_teacher("microbert", **given)
    assert {tap.kind for tap in read} == {"logits", "pooled"} - ({"logits"} if not read >= LOGITS else set())
    assert 4 * 768 * sum(tap.kind == "pooled" for tap in read) == 46_080
    assert layers_of(read) == frozenset(range(13))
