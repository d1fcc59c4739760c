"""The padding-free forward pass equals the padded one, refuses to run wrong, and gives a term what it declares."""

from __future__ import annotations

import copy

import pytest
import tiny
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import (
    AttentionInterface,
    AutoConfig,
    AutoModelForSequenceClassification,
    BertForSequenceClassification,
)

from bench.data.masking import pad_batch
from bench.measure.flops import macs
from methods.api import MethodError, Term, UndeclaredNeed
from methods.core import families, packed, taps
from methods.core.errors import EmptyAttention
from methods.core.models import closed_form, forward, inputs_of, is_packed
from methods.core.packed import POOLS, AttentionTrace, Layout
from methods.core.taps import LOGITS, Out, Tap, hidden, pooled

EVERYTHING = LOGITS | hidden(*range(4)) | taps.scores(1, 2, 3)


def padded_run(model, batch, longest=0):
    """The same examples through transformers' own eager attention, padded to the longest or to so many tokens."""
    other = BertForSequenceClassification(model.config)
    other.load_state_dict(model.state_dict())
    other.set_attn_implementation("eager")
    other.eval()
    real = torch.arange(longest or max(batch.layout.lengths)) < batch.layout.lengths_B[:, None]
    ids, segments = torch.zeros((2, *real.shape), dtype=torch.int64)
    ids[real], segments[real] = batch.token_ids, batch.segment_ids
    inputs = {"input_ids": ids, "token_type_ids": segments, "attention_mask": real.long()}
    with torch.no_grad():
        return other(**inputs, output_hidden_states=True, output_attentions=True)


@pytest.mark.parametrize(
    "tolerated, chunks", [(0, 3), (8192, 1)], ids=["a chunk a length", "one chunk"]
)
def test_packed_equals_padded(teacher_folder, monkeypatch, tolerated, chunks):
    monkeypatch.setattr(packed, "TOLERATED_PADDING", tolerated)
    data = tiny.encoded(teacher_folder)
    model = tiny.classifier().eval()
    batch = data.batch([3, 1, 4, 15, 9])
    ours, theirs = forward(model, batch, EVERYTHING), padded_run(model, batch)
    mask = batch.layout.mask_BL
    assert len(set(batch.layout.lengths)) == 3, "the batch should be ragged"
    assert len(batch.layout.chunks) == chunks
    torch.testing.assert_close(ours.logits, theirs.logits, atol=1e-6, rtol=1e-5)
    for layer in range(4):
        torch.testing.assert_close(
            ours.layout.padded(ours.hidden(layer))[mask],
            theirs.hidden_states[layer][mask],
            atol=1e-6,
            rtol=1e-5,
        )
    for layer in (1, 2, 3):
        for chunk, scores in zip(batch.layout.chunks, ours.scores(layer), strict=True):
            probabilities = scores.masked_fill(
                ~chunk.mask_nL[:, None, None, :], float("-inf")
            ).softmax(-1)
            expected = theirs.attentions[layer - 1][
                list(chunk.sequences), :, : chunk.longest, : chunk.longest
            ]
            torch.testing.assert_close(
                probabilities.transpose(1, 2)[chunk.mask_nL],
                expected.transpose(1, 2)[chunk.mask_nL],
                atol=1e-6,
                rtol=1e-5,
            )


def test_a_filled_batch_is_transformers_padded_one_with_the_states_of_its_padding(teacher_folder):
    """What authors' codes average over: [PAD] attends to the sentence, nothing attends to [PAD]."""
    data = tiny.encoded(teacher_folder)
    model = tiny.classifier().eval()
    plain = data.batch([3, 1, 4, 15, 9])
    ours = forward(model, pad_batch(plain, data, 20), EVERYTHING)
    n, longest = len(plain.layout.lengths), 20
    theirs = padded_run(model, plain, longest)
    assert ours.layout.lengths == (longest,) * n
    torch.testing.assert_close(ours.logits, theirs.logits, atol=1e-6, rtol=1e-5)
    for layer in range(4):
        states = ours.hidden(layer).unflatten(0, (n, longest))
        torch.testing.assert_close(states, theirs.hidden_states[layer], atol=1e-6, rtol=1e-5)
    assert pad_batch(plain, data, 1).layout.lengths == plain.layout.lengths, "longer sequences stay"


SHAPE = {
    "hidden_size": 24, "num_hidden_layers": 3, "num_attention_heads": 4, "intermediate_size": 40, "num_labels": 3, "initializer_range": 0.2,
}  # fmt: skip
WINDOW = {
    "local_attention": 2,
    "cls_token_id": 2,
    "sep_token_id": 3,
    "bos_token_id": 2,
    "eos_token_id": 3,
}
OTHERS = {
    "distilbert": {},
    # trigrams must not see neighbours
    "mobilebert": {"embedding_size": 16, "intra_bottleneck_size": 16},
    "roberta": {"type_vocab_size": 1},
    "electra": {"embedding_size": 16},
    "deberta-v2": {
        "relative_attention": True,
        "pos_att_type": ["p2c", "c2p"],
        "type_vocab_size": 0,
    },
    "modernbert": {**WINDOW, "classifier_pooling": "mean"},
    "mpnet": {},
    "albert": {"embedding_size": 16},
}


@pytest.mark.parametrize("family", OTHERS)
def test_an_example_of_another_family_is_answered_as_transformers_does_alone(
    teacher_folder, family
):
    """Packed where its family is described, padded elsewhere: no example's answer or state depends on those beside it."""
    torch.manual_seed(0)
    config = AutoConfig.for_model(
        family, vocab_size=tiny.config().vocab_size, pad_token_id=0, **SHAPE, **OTHERS[family]
    )
    model = AutoModelForSequenceClassification.from_config(config).eval()
    batch = tiny.encoded(teacher_folder).batch([3, 1, 4, 15, 9])
    rows = zip(
        batch.token_ids.split(batch.layout.lengths),
        batch.segment_ids.split(batch.layout.lengths),
        strict=True,
    )
    with torch.no_grad():
        alone = [
            model(
                input_ids=ids[None],
                output_hidden_states=True,
                **({"token_type_ids": kinds[None]} if "token_type_ids" in inputs_of(model) else {}),
            )
            for ids, kinds in rows
        ]
    if is_packed(model):
        model.set_attn_implementation("packed")
        eager = copy.deepcopy(model)
        eager.set_attn_implementation("eager")
        assert macs(eager, 16) == closed_form(model).of_length(16)
    else:
        with pytest.raises(TypeError, match="run packed"):
            forward(model, batch, taps.scores(1))
    ours = forward(model, batch, LOGITS | hidden(*range(4)))
    expected = torch.cat([each.logits for each in alone])
    torch.testing.assert_close(ours.logits, expected, atol=1e-6, rtol=1e-5)
    # nothing attends to what fills a sequence
    filled = pad_batch(batch, tiny.encoded(teacher_folder), 20)
    torch.testing.assert_close(
        forward(model, filled, LOGITS).logits, expected, atol=1e-6, rtol=1e-5
    )
    near = 1e-5 if family == "mobilebert" else 2e-6  # without LayerNorm states are larger
    for layer in range(4):
        expected = torch.cat([each.hidden_states[layer][0] for each in alone])
        torch.testing.assert_close(ours.hidden(layer), expected, atol=near, rtol=1e-5)
    model.train()
    forward(model, batch, LOGITS).logits.sum().backward()
    gradients = [parameter.grad for parameter in model.parameters() if parameter.grad is not None]
    assert all(gradient.isfinite().all() for gradient in gradients), (
        "places without a token poison nothing"
    )


@given(lengths=st.lists(st.integers(1, 200), min_size=1, max_size=40))
@settings(max_examples=60, deadline=None)
def test_chunks_hold_every_token_once_and_waste_little(lengths):
    layout = Layout(lengths)
    assert sorted(i for chunk in layout.chunks for i in chunk.sequences) == list(
        range(len(lengths))
    )
    places = torch.cat([chunk.mask_nL.flatten() for chunk in layout.chunks]).nonzero().flatten()
    assert torch.equal(layout.scatter_T.sort().values, places)
    assert torch.equal(layout.gather_N[layout.scatter_T], torch.arange(layout.total))
    for chunk in layout.chunks:
        inside = [lengths[i] for i in chunk.sequences]
        assert chunk.longest == max(inside)
        assert sum(chunk.longest**2 - n**2 for n in inside) <= packed.TOLERATED_PADDING


def test_asking_for_more_changes_no_answer(teacher_folder):
    data = tiny.encoded(teacher_folder)
    model = tiny.classifier().eval()
    little = forward(model, data.batch([1, 2, 3]), LOGITS).logits
    assert torch.equal(little, forward(model, data.batch([1, 2, 3]), EVERYTHING).logits)


@pytest.mark.parametrize("kernel", ["sdpa", "eager"])
def test_another_attention_kernel_is_refused(teacher_folder, kernel):
    """Planted bug: with sdpa the scores of a TinyBERT loss would be empty and the loss silently 0."""
    model = tiny.classifier()
    model.set_attn_implementation(kernel)
    with pytest.raises(EmptyAttention, match=kernel):
        forward(model, tiny.encoded(teacher_folder).batch([0]), EVERYTHING)


@pytest.mark.parametrize("what", ["scores", "vectors"])
def test_a_layer_that_keeps_nothing_is_refused(teacher_folder, monkeypatch, what):
    """Planted bug: a layer that swallows what it should hand on to its attention."""
    model = tiny.classifier()
    layer = model.bert.encoder.layer[1]
    whole = layer.forward
    monkeypatch.setattr(
        layer, "forward", lambda x, trace: whole(x, trace=AttentionTrace(trace.layout))
    )
    with pytest.raises(EmptyAttention, match="layer 2"):
        forward(
            model,
            tiny.encoded(teacher_folder).batch([0]),
            {"scores": taps.scores, "vectors": taps.vectors}[what](1, 2),
        )


@given(lengths=st.lists(st.integers(1, 9), min_size=1, max_size=6), seed=st.integers(0, 99))
@settings(max_examples=40, deadline=None)
def test_pools_are_those_of_each_sequence(lengths, seed):
    layout = Layout(lengths)
    x_TW = torch.randn(sum(lengths), 3, generator=torch.Generator().manual_seed(seed))
    parts = x_TW.split(lengths)
    torch.testing.assert_close(layout.first(x_TW), torch.stack([p[0] for p in parts]))
    torch.testing.assert_close(layout.mean(x_TW), torch.stack([p.mean(0) for p in parts]))
    torch.testing.assert_close(layout.max(x_TW), torch.stack([p.amax(0) for p in parts]))
    assert layout.positions_T.tolist() == [i for n in lengths for i in range(n)]


def test_an_empty_sequence_is_refused():
    with pytest.raises(ValueError, match="at least one token"):
        Layout([3, 0])


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.cuda)])
def test_fused_attention_answers_as_the_usual_one_and_whether_or_not_scores_are_kept(
    teacher_folder, device
):
    """The usual one here, against the one that CUDA takes, there."""
    batch, model = tiny.encoded(teacher_folder).batch([3, 1, 4]), tiny.classifier().eval()
    expected = forward(model, batch, LOGITS | taps.scores(1))
    AttentionInterface.register("fused", packed.fused_attention)
    model.to(device)
    kind = "packed" if device == "cuda" else "fused"
    for layer in model.bert.encoder.layer:
        layer.attention.self.config = copy.copy(model.config)
        layer.attention.self.config._attn_implementation = kind
    there = batch.to(device)
    alone, kept = (
        forward(model, there, LOGITS).logits,
        forward(model, there, LOGITS | taps.scores(1)),
    )
    assert torch.equal(alone, kept.logits)
    torch.testing.assert_close(kept.logits.cpu(), expected.logits, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(kept.scores(1)[0].cpu(), expected.scores(1)[0], rtol=1e-4, atol=1e-5)


def test_the_bias_of_mpnet_is_in_its_scores_and_in_both_attentions(teacher_folder, monkeypatch):
    torch.manual_seed(0)
    config = AutoConfig.for_model(
        "mpnet", vocab_size=tiny.config().vocab_size, pad_token_id=0, **SHAPE
    )
    model = AutoModelForSequenceClassification.from_config(config).eval()
    batch = tiny.encoded(teacher_folder).batch([3, 1, 4, 15, 9])
    usual = forward(model, batch, LOGITS | taps.scores(1, 3))
    (chunk,) = batch.layout.chunks
    for place, ids in enumerate(batch.token_ids.split(batch.layout.lengths)):
        expected = model(input_ids=ids[None], output_attentions=True).attentions
        row, length = chunk.sequences.index(place), len(ids)
        for layer in (1, 3):
            probabilities = usual.scores(layer)[0][row, :, :length, :length].softmax(-1)
            torch.testing.assert_close(probabilities, expected[layer - 1][0], atol=1e-6, rtol=1e-5)
    monkeypatch.setattr(families, "packed_attention", packed.fused_attention)
    fused = forward(model, batch, LOGITS | taps.scores(1, 3))
    torch.testing.assert_close(fused.logits, usual.logits, atol=1e-6, rtol=1e-5)
    torch.testing.assert_close(fused.scores(3)[0], usual.scores(3)[0], atol=1e-6, rtol=1e-5)


@given(lengths=st.lists(st.integers(1, 20), min_size=1, max_size=5))
@settings(max_examples=20, deadline=None)
def test_what_is_added_to_scores_hides_the_places_without_a_token(lengths):
    (chunk,) = Layout(lengths, one_chunk=True).chunks
    added_n11L = chunk.added_n11L
    assert torch.equal(added_n11L[:, 0, 0] == 0, chunk.keys_nL)
    assert added_n11L.isneginf().sum() == (~chunk.keys_nL).sum()
    assert not any(stride % 8 for stride in added_n11L.stride()[:3])


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
    whole = (
        states.hidden(source)
        if isinstance(source, int)
        else sum(w * states.hidden(n) for n, w in source.items())
    )
    out = forward(model, batch, pooled(source, pool))
    assert torch.equal(out.pooled(source, pool), POOLS[pool](batch.layout, whole))
    (tap,) = out.values
    assert out[tap].shape == (5, 24), "and nothing else is handed on"


def test_what_was_not_declared_is_named_with_what_was(batch):
    out = forward(tiny.classifier().eval(), batch, hidden(1) | pooled(2, "cls"))
    for read in (
        lambda: out.logits,
        lambda: out.hidden(2),
        lambda: out.pooled(2, "max"),
        lambda: out[Tap("vectors", 1)],
    ):
        with pytest.raises(
            UndeclaredNeed, match=r"declares cls of hidden 2, hidden 1; add it to the term's taps"
        ):
            read()
    with pytest.raises(UndeclaredNeed, match="a term read logits, but declares nothing"):
        _ = Out(batch.layout).logits


@pytest.mark.parametrize("wrong", [Tap("logits"), {Tap("logits")}, 3, None])
def test_a_term_declares_taps_and_nothing_else(wrong):
    with pytest.raises(MethodError, match="declares taps"):
        Term(lambda *_: None, 1.0, wrong)
