"""Fast kernels of a frozen teacher: the same answers up to rounding, whatever is asked, and the usual ones elsewhere."""

from __future__ import annotations

import contextlib

import pytest
import tiny
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from transformers import AutoConfig, AutoModelForSequenceClassification

from bench.data.masking import pad_batch
from methods.core import fast_kernels
from methods.core.families import family_of
from methods.core.fast_kernels import (
    LEAST_ROWS,
    FastLinear,
    ReorderedLinear,
    fast_teacher,
    problem_here,
    with_fast_kernels,
)
from methods.core.models import cost, forward
from methods.core.taps import LOGITS, hidden, pooled, scores, vectors

pytestmark = pytest.mark.skipif(bool(problem_here()), reason=f"no fast kernels: {problem_here()}")

TAPS = LOGITS | hidden(0, 1, 2) | scores(1, 2) | vectors(2) | pooled(2, "mean")
NEAR = {"atol": 2e-6, "rtol": 2e-5}


SIZES = {
    "hidden_size": 24,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "vocab_size": 60,
    "max_position_embeddings": 64,
}
FAMILIES = {
    "bert": {"intermediate_size": 48},
    "distilbert": {"hidden_dim": 48},
    "mobilebert": {"intermediate_size": 48, "embedding_size": 16, "intra_bottleneck_size": 24},
    "modernbert": {"intermediate_size": 48, "local_attention": 8, "pad_token_id": 0},
}


@pytest.fixture(scope="module", params=list(FAMILIES))
def model(request):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        config = AutoConfig.for_model(request.param, **SIZES, **FAMILIES[request.param])
        made = AutoModelForSequenceClassification.from_config(config)
    made.set_attn_implementation("packed")
    return made.eval()


@pytest.fixture(scope="module")
def data(teacher_folder):
    return tiny.encoded(teacher_folder)


def tensors(value):
    return value if isinstance(value, tuple) else (value,)


@settings(max_examples=25, deadline=None)
@given(drawn=st.data())
def test_answers_are_the_usual_ones_up_to_rounding(model, data, drawn):
    rows = drawn.draw(st.lists(st.integers(0, len(data) - 1), min_size=1, max_size=9))
    taps = frozenset(drawn.draw(st.sets(st.sampled_from(sorted(TAPS)), min_size=1)))
    batch = data.batch(rows)
    if drawn.draw(st.booleans()):
        batch = pad_batch(batch, data, 32)
    with torch.no_grad():
        usual, fast = forward(model, batch, taps), forward(fast_teacher(model).eval(), batch, taps)
    assert set(fast.values) == set(usual.values)
    for tap in taps:
        for ours, theirs in zip(tensors(fast[tap]), tensors(usual[tap]), strict=True):
            torch.testing.assert_close(ours, theirs, **NEAR)


def test_dropout_and_gradients_use_the_model_itself(model, data):
    batch, teacher = data.batch([3, 1, 4]), fast_teacher(model)
    with torch.no_grad():
        torch.manual_seed(1)
        noisy = forward(teacher.train(), batch, LOGITS).logits
        torch.manual_seed(1)
        assert torch.equal(noisy, forward(model.train(), batch, LOGITS).logits)
        model.eval()
    assert forward(teacher.eval(), batch, LOGITS).logits.requires_grad
    with torch.no_grad():
        assert torch.equal(
            forward(model, batch, LOGITS).logits, forward(teacher.whole, batch, LOGITS).logits
        )


def test_the_model_keeps_its_tensors_and_its_kernels(model):
    before = {
        name: (tensor.data_ptr(), tensor.clone()) for name, tensor in model.state_dict().items()
    }
    fast = with_fast_kernels(model)
    after = model.state_dict()
    assert {name: tensor.data_ptr() for name, tensor in after.items()} == {
        n: at for n, (at, _) in before.items()
    }
    assert all(torch.equal(after[name], tensor) for name, (_, tensor) in before.items())
    assert model.config._attn_implementation == "packed"
    assert not any(isinstance(part, ReorderedLinear) for part in model.modules())
    replaced = [part for part in fast.modules() if isinstance(part, ReorderedLinear)]
    layers = [
        part for layer in family_of(model).layers(model.base_model) for part in layer.modules()
    ]
    linear = [part for part in layers if isinstance(part, nn.Linear)]
    assert len(replaced) == len(linear) > 0
    assert cost(fast_teacher(model)) == cost(model)


def test_operators_that_are_missing_or_wrong_are_named(monkeypatch):
    monkeypatch.setattr(ReorderedLinear, "forward", lambda self, x: x[..., :32])
    assert "are wrong by" in problem_here()

    def missing(self, linear, activation="none"):
        raise AttributeError(
            "'_OpNamespace' 'mkldnn' object has no attribute '_reorder_linear_weight'"
        )

    monkeypatch.setattr(ReorderedLinear, "__init__", missing)
    assert "no linear operators of oneDNN" in problem_here()


SHAPES = st.tuples(
    st.integers(1, 3),
    st.integers(LEAST_ROWS // 2, 2 * LEAST_ROWS),
    st.integers(1, 40),
    st.integers(1, 40),
)


@settings(max_examples=60, deadline=None)
@given(
    shape=SHAPES,
    has_bias=st.booleans(),
    frozen=st.sampled_from(["", "x", "weight"]),
    apart=st.booleans(),
)
def test_a_linear_layer_and_its_gradients_are_the_usual_ones_up_to_rounding(
    shape, has_bias, frozen, apart
):
    several, rows, width, out = shape
    generator = torch.Generator().manual_seed(sum(shape))
    random = lambda *size: torch.randn(*size, generator=generator)  # noqa: E731
    x, weight, bias = (
        random(several, width, rows).transpose(1, 2),
        random(out, width),
        random(out) if has_bias else None,
    )
    x = x if apart else x.contiguous()
    upper = random(several, rows, out)
    found = []
    for kernels in (contextlib.nullcontext(), FastLinear()):
        own = [t.clone().requires_grad_() for t in (x, weight, *((bias,) if has_bias else ()))]
        for name, tensor in zip(("x", "weight"), own, strict=False):
            tensor.requires_grad_(name != frozen)
        with kernels:
            answer = nn.functional.linear(*own)
        answer.backward(upper)
        found.append([answer.detach(), *(tensor.grad for tensor in own if tensor.requires_grad)])
    for usual, fast in zip(*found, strict=True):
        torch.testing.assert_close(fast, usual, atol=1e-4, rtol=1e-4)


def test_only_large_layers_in_fp32_are_taken(monkeypatch):
    taken = []
    monkeypatch.setattr(
        fast_kernels._Linear, "apply", lambda x, weight, bias: taken.append(x.shape)
    )
    weight, bias = torch.randn(3, 4), torch.randn(3)
    with FastLinear():
        nn.functional.linear(torch.randn(LEAST_ROWS - 1, 4), weight, bias)
        nn.functional.linear(torch.randn(LEAST_ROWS, 4).double(), weight.double())
        nn.functional.linear(torch.randn(LEAST_ROWS, 4).bfloat16(), weight.bfloat16())
        with torch.autocast("cpu", torch.bfloat16):
            nn.functional.linear(torch.randn(LEAST_ROWS, 4), weight)
        assert taken == []
        nn.functional.linear(torch.randn(LEAST_ROWS, 4), weight, bias)
        nn.Linear(4, 3)(torch.randn(2, LEAST_ROWS, 4))
    assert len(taken) == 2
    nn.functional.linear(torch.randn(LEAST_ROWS, 4), weight)
    assert len(taken) == 2, "outside nothing is taken"
