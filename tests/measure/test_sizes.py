"""Sizes against the published counts, and a counter that refuses to miss attention."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from transformers import (
    AlbertConfig,
    AlbertForSequenceClassification,
    BertConfig,
    BertForSequenceClassification,
)

from bench import api
from bench.errors import BenchError
from bench.measure.flops import macs
from bench.measure.parameters import count
from bench.plan.untrained import counts_of
from bench.report.published import printed_and_ours, printed_sizes, rule_of
from bench.report.render import to_markdown
from methods.core.models import Cost, cost

REPORTS = Path(__file__).resolve().parents[2] / "reports"


def config(layers: int, hidden: int, heads: int = 12, ffn: int | None = None) -> BertConfig:
    return BertConfig(
        num_hidden_layers=layers,
        hidden_size=hidden,
        num_attention_heads=heads,
        intermediate_size=ffn or 4 * hidden,
    )


@pytest.mark.parametrize(
    "shape, millions",
    [
        ((24, 1024, 16), 335.14),
        ((12, 768), 109.48),
        ((6, 768), 66.95),
        ((4, 768), 52.78),
        ((3, 768), 45.69),
        ((4, 312, 12, 1200), 14.35),
        ((4, 512, 8), 28.76),
        ((6, 384), 22.71),
        ((4, 384), 19.16),
    ],
)
def test_published_parameter_counts(shape, millions):
    """Counts of a BertModel with pooler; ours add the head of two classes."""
    with torch.device("meta"):
        found = count(BertForSequenceClassification(config(*shape)))
    head = 2 * shape[1] + 2
    assert (found.total - head) / 1e6 == pytest.approx(millions, abs=0.006)


@pytest.mark.slow
@pytest.mark.long
def test_published_flops():
    rows = dict(api.profile("tinybert,microbert", "bert-base-uncased"))
    teacher = rows["teacher bert-base-uncased"]
    assert teacher.macs / 1e9 == pytest.approx(11.19, rel=0.005)
    assert rows["tinybert"].macs == rows["microbert"].macs
    others = dict(api.profile("distilbert,pkd,mobilebert,moebert", "bert-base-uncased"))
    # F5: MobileBERT-tiny 3.07 GFLOPs; 6 x 768 5.59 G MACs; MoEBERT has 12 layers of half-width feed-forward blocks
    assert others["mobilebert"].flops / 1e9 == pytest.approx(3.07, rel=0.01)
    assert others["distilbert"].macs / 1e9 == pytest.approx(5.59, rel=0.005)
    assert others["pkd"].macs == pytest.approx(others["distilbert"].macs, rel=1e-3)
    assert others["moebert"].macs / 1e9 == pytest.approx(5.74, rel=0.005)
    assert others["moebert"].active_parameters / 1e6 == pytest.approx(67.0, abs=0.5)
    assert all(
        size.macs == pytest.approx(size.macs_closed_form, rel=0.01) for size in others.values()
    )
    assert rows["tinybert"].flops / 1e9 == pytest.approx(1.25, abs=0.01)  # printed as 1.2 B


@pytest.mark.slow
def test_printed_sizes_are_recognised_by_their_rule():
    named = [(size, counts_of(size["row"], size["teacher"])) for size in printed_sizes()]
    table = printed_and_ours(named)
    rules = {(row[0].split(": ")[1], row[2], row[3]): row[-1] for row in table.rows}
    square = "2 x MACs and a square layer over all tokens"
    assert rules["BERT_BASE (Teacher)", "FLOPs", "22.5 G"] == square
    assert rules["BERT4-PKD", "FLOPs", "7.6 G"] == square, "the same rule at another depth"
    assert (
        rules["TinyBERT4", "parameters", "14.5 M"] == "encoder with pooler and pre-training heads"
    )
    assert rules["BERT4-PKD", "parameters", "52.2 M"] == "encoder without pooler"
    assert rules["MobileBERT_TINY", "parameters", "15.1 M"].startswith("none found")
    committed = (REPORTS / "printed-sizes.md").read_text()
    assert to_markdown(table) in committed
    assert table.notes[0] in committed


@given(st.integers(10**6, 10**9), st.integers(0, 3))
def test_a_count_rounded_to_any_digit_is_recognised_and_another_is_not(count, decimals):
    printed = f"{count / 1e6:.{decimals}f}"
    assert rule_of(printed, {"ours": count}, 1e6) == ("ours", count, True)
    off = f"{count / 1e6 + 2 * 10.0**-decimals:.{decimals}f}"
    assert rule_of(off, {"ours": count}, 1e6) == ("ours", count, False)


def test_tied_layers_are_declared_twice_and_counted_once():
    model = BertForSequenceClassification(config(2, 24, 4))
    whole = count(model)
    assert whole.declared == whole.total == whole.active
    assert whole.pooler == 24 * 24 + 24
    assert whole.head == 2 * 24 + 2
    model.bert.encoder.layer[1] = model.bert.encoder.layer[0]
    tied = count(model)
    assert tied.declared == whole.total
    assert tied.total < whole.total


@pytest.mark.parametrize("length", [128, 512])
@pytest.mark.parametrize("kernel", ["eager", "sdpa"])
def test_two_witnesses_agree_under_both_kernels(kernel, length):
    """fvcore alone loses 21.9 % of a 4 x 312 BERT under sdpa at length 512."""
    shape = config(4, 312, ffn=1200)
    shape._attn_implementation = kernel
    model = BertForSequenceClassification(shape)
    assert macs(model, length) == pytest.approx(cost(model).of_length(length), rel=0.002)


class Hidden(torch.nn.Module):
    """Multiplies matrices in an operation that fvcore does not know."""

    def forward(self, input_ids):
        class Answer:
            logits = torch.bilinear(
                *(torch.ones(1, 4) * input_ids.sum(),) * 2, torch.ones(2, 4, 4), None
            )

        return Answer

    def parameters(self, recurse=True):
        yield torch.zeros(1)


def test_planted_uncounted_multiplication_is_refused():
    with pytest.raises(BenchError, match="no count for"):
        macs(Hidden(), 16)


def test_closed_form_of_bert_base():
    """L (4 n W^2 + 2 n^2 W + 2 n W F), pooler and head of two classes added."""
    shape = BertConfig()
    with torch.device("meta"):
        found = cost(BertForSequenceClassification(shape))
    layer = 4 * 128 * 768**2 + 2 * 128**2 * 768 + 2 * 128 * 768 * 3072
    assert found.of_length(128) == 12 * layer + 768**2 + 768 * 2


@given(lengths=st.lists(st.integers(1, 128), min_size=1, max_size=8))
def test_costs_add_up_over_sequences(lengths):
    one = Cost(5, 3, 7)
    assert one.macs(sum(lengths), sum(n * n for n in lengths), len(lengths)) == sum(
        map(one.of_length, lengths)
    )


def test_layers_that_share_their_weights_are_gone_through_again_and_again():
    shape = {
        "vocab_size": 60,
        "embedding_size": 16,
        "hidden_size": 64,
        "intermediate_size": 256,
        "num_attention_heads": 4,
    }
    for groups in (1, 2):
        model = AlbertForSequenceClassification(
            AlbertConfig(**shape, num_hidden_layers=6, num_hidden_groups=groups)
        )
        model.set_attn_implementation("eager")
        assert cost(model).of_length(64) == pytest.approx(macs(model, 64), rel=0.02)
