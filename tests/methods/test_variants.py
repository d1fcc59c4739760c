"""Where a paper and its authors' code differ, a setting gives both."""

from __future__ import annotations

from itertools import pairwise

import pytest
import tiny
import torch
from tiny_training import built, finished, trainer

import methods
from bench.plan.spelling import parse_one
from bench.plan.untrained import counts_of
from bench.record.store import Store
from methods.api import MethodError, Setup
from methods.core import losses
from methods.core.artefacts import GivenEncoder
from methods.core.models import forward
from methods.core.taps import LOGITS, gates, hidden
from methods.moebert import (
    Experts,
    MoEBERT,
    MoEBertConfig,
    TokenCounts,
    TokensSeen,
    balanced_routes,
    fill,
)
from methods.tinybert import ReluBertForSequenceClassification


def test_a_variant_gives_another_student_each_time_the_same_and_leaves_those_beside_it_alone(
    teacher_folder,
):
    data = tiny.encoded(teacher_folder)
    rows = ("tinybert", "tinybert:teacher_dropout=true", "tinybert:padding=30")
    alone = [finished([trainer(row, data)], data)[0] for row in rows]
    assert len(set(alone)) == len(rows)
    assert finished([trainer(row, data) for row in rows], data) == alone


def test_padding_is_counted_in_what_a_training_costs(teacher_folder):
    data = tiny.encoded(teacher_folder)
    made = [trainer(f"moebert:padding={length}", data, shape="") for length in (0, 30)]
    finished(made, data)
    plain, filled = (one.log for one in made)
    assert filled.tokens == filled.teacher_tokens == 30 * filled.examples > plain.tokens
    assert filled.squared_lengths == 30**2 * filled.examples


def test_the_relu_head_reads_no_negative_feature(teacher_folder, tmp_path):
    batch = tiny.encoded(teacher_folder, rows=8).batch(range(8))
    model = trainer("tinybert:head=relu", batch.example_ids).student.model.eval()
    assert isinstance(model, ReluBertForSequenceClassification)
    with torch.no_grad():
        out = forward(model, batch, LOGITS | hidden(2))
        pooled = model.bert.pooler(batch.layout.first(out.hidden(2))[:, None])
        torch.testing.assert_close(out.logits, model.classifier(pooled.clamp(min=0)))
    usual = trainer("tinybert", batch.example_ids).student.model
    assert all(
        torch.equal(p, q) for p, q in zip(model.parameters(), usual.parameters(), strict=True)
    )


def _experts(shared):
    config = MoEBertConfig(
        vocab_size=20,
        hidden_size=6,
        intermediate_size=24,
        experts=3,
        expert_size=8,
        shared_size=shared,
    )
    experts = Experts(config, TokensSeen()).eval()
    torch.manual_seed(0)
    ffn = {
        "intermediate.dense.weight": torch.randn(24, 6),
        "intermediate.dense.bias": torch.randn(24),
        "output.dense.weight": torch.randn(6, 24),
        "output.dense.bias": torch.randn(6),
        "output.LayerNorm.weight": torch.rand(6),
        "output.LayerNorm.bias": torch.randn(6),
    }
    fill(experts, ffn, torch.randperm(24, generator=torch.Generator().manual_seed(1)), 4)
    return experts


def test_copied_neurons_compute_what_shared_ones_do_until_they_drift():
    one, copies = _experts(4), _experts(0)
    copies.route_V.copy_(one.route_V)
    ids, x = torch.arange(20), torch.randn(1, 20, 6)
    for experts in (one, copies):
        experts._seen[0](None, (ids,), {})
    with torch.no_grad():
        torch.testing.assert_close(one(None, x), copies(None, x))
        copies.own_in[0, 0] += 1.0  # one expert's copy of a neuron that all have
        changed = (copies(None, x) - one(None, x)).abs().amax(-1)[0] > 1e-6
    assert torch.equal(changed, one.route_V == 0)


def gated(routing: str, balance: float = 0.5):
    """A MoEBERT with this gate on a tiny teacher, its setup, and a batch of five sequences."""
    from bench.conformance.tiny_bench import Bench

    made = Bench(MoEBERT(routing=routing, balance=balance, **MoEBERT.tiny_settings), 2)
    return made, made.build()[0].model.eval(), made.data.batch(range(5))


@pytest.mark.parametrize("routing", ["token", "sentence"])
def test_a_gate_multiplies_the_likeliest_experts_output_with_its_probability(routing):
    _, model, batch = gated(routing)
    experts = model.bert.encoder.layer[0].output
    seen = {}
    hook = experts.register_forward_hook(
        lambda module, args, output: seen.update(x=args[1][0], out=output[0])
    )
    with torch.no_grad():
        forward(model, batch, LOGITS)
        first, second = (
            seen["x"][a:b].mean(0)
            for a, b in list(pairwise([*batch.layout.starts_B.tolist(), 0]))[:2]
        )
        apart, both = second - first, second + first
        # these two sequences lie on its two sides
        split = apart - both * (apart @ both) / (both @ both)
        experts.gate_EW[0], experts.gate_EW[1], experts.gate_EW[2:] = 50 * split, -50 * split, 0.0
        gates_TE = forward(model, batch, LOGITS | gates(1)).gates(1)
    hook.remove()
    x_TW, starts = seen["x"], [*batch.layout.starts_B.tolist(), batch.layout.total]
    read = (
        x_TW
        if routing == "token"
        else torch.cat([x_TW[a:b].mean(0).expand(b - a, -1) for a, b in pairwise(starts)])
    )
    torch.testing.assert_close(gates_TE, read @ experts.gate_EW.T)
    probability, chosen = gates_TE.softmax(-1).max(-1)
    assert len(set(chosen.tolist())) > 1
    for t in (0, 3, batch.layout.total - 1):
        x, e = x_TW[t], int(chosen[t])
        inner = torch.nn.functional.gelu(x @ experts.own_in[e].T + experts.own_in_bias[e])
        shared = experts.shared_out(torch.nn.functional.gelu(experts.shared_in(x)))
        summed = shared + inner @ experts.own_out[e].T + experts.out_bias[e] + x
        norm = torch.nn.functional.layer_norm(
            summed, x.shape, experts.LayerNorm_weight[e], experts.LayerNorm_bias[e], experts.eps
        )
        torch.testing.assert_close(seen["out"][t], norm * probability[t], atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize("routing", ["token", "sentence"])
def test_a_gate_of_padded_sequences_sees_what_that_of_packed_ones_does(routing):
    _, model, batch = gated(routing)
    mask = batch.layout.mask_BL
    with torch.no_grad():
        packed = forward(model, batch, LOGITS).logits
        model.set_attn_implementation("eager")
        padded = model(
            input_ids=batch.layout.padded(batch.token_ids) * mask, attention_mask=mask.long()
        ).logits
    torch.testing.assert_close(packed, padded, atol=1e-6, rtol=1e-5)


def test_the_balancing_loss_is_experts_times_probability_times_share():
    """Four tokens, two experts: three go to the first, with these probabilities."""
    p = torch.tensor([[0.9, 0.1], [0.6, 0.4], [0.7, 0.3], [0.2, 0.8]])
    assert losses.load_balance(p.log()) == pytest.approx(2 * (0.6 * 0.75 + 0.4 * 0.25))
    assert losses.load_balance(torch.eye(3)) == pytest.approx(1.0)
    made, model, batch = gated("sentence")
    term = made.method.stages(made.setup)[0].terms["balance"]
    with torch.no_grad():
        out = forward(model, batch, term.student)
        layers = model.config.num_hidden_layers
        by_hand = sum(
            losses.load_balance(batch.layout.first(out.gates(m))) for m in range(1, layers + 1)
        )
        assert term.fn(batch, out, None, None) == pytest.approx(float(by_hand))


def test_a_balanced_table_gives_each_expert_as_many_tokens_as_can_be():
    torch.manual_seed(0)
    counts = torch.randint(0, 50, (200,))
    route = balanced_routes(counts, 4)
    had = torch.zeros(4, dtype=torch.int64).index_add(0, route, counts)
    assert int(had.max() - had.min()) <= 2
    assert set(route[counts == 0].tolist()) <= {0, 1, 2, 3}
    twice = TokenCounts().compute(tiny.classifier(), [gated("token")[2]] * 2)["counts"]
    assert int(twice.sum()) == 2 * gated("token")[2].layout.total


def test_every_routing_is_counted_without_weights():
    by_hash, balanced, token, sentence = (
        counts_of(f"moebert:routing={routing}", "bert-base-uncased")["parameters"][
            "whole classifier"
        ]
        for routing in ("hash", "balanced", "token", "sentence")
    )
    assert balanced == by_hash
    assert token == sentence == by_hash + 12 * 4 * 768


@pytest.mark.slow
def test_importance_of_the_development_set_is_another_artefact_and_is_said(bench, places, tmp_path):
    rows = "moebert,moebert:importance_rows=validation"
    answer = bench("run", "--methods", rows, "--tasks", "rte", "--epochs", 1, *places)
    assert answer.returncode == 0, answer.stderr
    found = (r for r in Store(tmp_path / "r").records() if r.cell.method == "moebert")
    train, dev = sorted(found, key=lambda r: len(r.cell.label))
    assert train.cell.artefacts["neuron_importance"] != dev.cell.artefacts["neuron_importance"]
    assert (
        train.artefacts["neuron_importance"]["weights"]
        != dev.artefacts["neuron_importance"]["weights"]
    )
    assert "it leaks" in dev.notes[0]


def test_the_layer_maps_of_tinyberts_table_4():
    """12 layers to 4: evenly spread, the last four, the first four."""
    maps = {
        name: methods.get("tinybert")(map=name).layer_map(tiny.config(layers=12))
        for name in ("uniform", "top", "bottom")
    }
    assert {name: list(layers.values()) for name, layers in maps.items()} == {
        "uniform": [3, 6, 9, 12],
        "top": [9, 10, 11, 12],
        "bottom": [1, 2, 3, 4],
    }


def test_frozen_positions_stay_the_teachers():
    wish = methods.get("distilbert")(pretraining="masked", positions="frozen").requires(
        tiny.config()
    )[0]
    plain = methods.get("distilbert")(pretraining="masked").requires(tiny.config())[0]
    assert dict(wish.settings) == {**plain.settings, "positions": "frozen"}
    learned, usual = (
        {name for name, p in built(each)[1].model.named_parameters() if p.requires_grad}
        for each in (wish, plain)
    )
    assert usual - learned == {"distilbert.embeddings.position_embeddings.weight"}


def test_a_head_of_pooled_states_is_refused_for_questions():
    with pytest.raises(MethodError, match="head=relu"):
        parse_one("tinybert:head=relu").method.stages(
            Setup(tiny.config(), 2, ("squad",), spans=True)
        )


def test_a_projection_to_another_width_is_no_start_of_this_one():
    row = parse_one(f"tinybert:{tiny.SHAPE}:start_from=somewhere").method
    begun = {"projection.weight": torch.ones(48, 12), "projection.bias": torch.ones(48)}
    setup = Setup(tiny.config(), 2, ("rte",), {GivenEncoder.name: begun})
    assert row.start_projection(setup).weight.shape == (tiny.config().hidden_size, row.hidden)
