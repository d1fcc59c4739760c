"""The padding-free forward pass equals the padded one, and refuses to run wrong."""

from __future__ import annotations

import pytest
import tiny
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import BertForSequenceClassification

from methods.api import EmptyAttention, Needs, UndeclaredNeed
from methods.packed import Layout, forward

EVERYTHING = Needs(True, frozenset(range(4)), frozenset({1, 2, 3}))


def padded_run(model, batch):
    """The same examples through transformers' own eager attention, padded."""
    other = BertForSequenceClassification(model.config)
    other.load_state_dict(model.state_dict())
    other.set_attn_implementation("eager")
    other.eval()
    layout = batch.layout
    ids, segments = (layout.padded(x[:, None])[..., 0] for x in (batch.token_ids, batch.segment_ids))
    with torch.no_grad():
        return other(
            input_ids=ids,
            token_type_ids=segments,
            attention_mask=layout.mask_BL.long(),
            output_hidden_states=True,
            output_attentions=True,
        )


def test_packed_equals_padded(teacher_folder):
    data = tiny.encoded(teacher_folder)
    model = tiny.classifier().eval()
    batch = data.batch([3, 1, 4, 15, 9])
    ours, theirs = forward(model, batch, EVERYTHING), padded_run(model, batch)
    mask = batch.layout.mask_BL
    assert len(set(batch.layout.lengths_B.tolist())) > 1, "the batch should be ragged"
    torch.testing.assert_close(ours.logits, theirs.logits, atol=1e-6, rtol=1e-5)
    for layer in range(4):
        torch.testing.assert_close(
            ours.layout.padded(ours.hidden(layer))[mask], theirs.hidden_states[layer][mask], atol=1e-6, rtol=1e-5
        )
    for layer in (1, 2, 3):
        scores = ours.scores(layer).masked_fill(~mask[:, None, None, :], float("-inf"))
        probabilities = scores.softmax(-1)
        expected = theirs.attentions[layer - 1]
        torch.testing.assert_close(
            probabilities.transpose(1, 2)[mask], expected.transpose(1, 2)[mask], atol=1e-6, rtol=1e-5
        )


def test_an_example_does_not_see_its_neighbours(teacher_folder):
    data = tiny.encoded(teacher_folder)
    model = tiny.classifier().eval()
    alone = forward(model, data.batch([7]), Needs(logits=True)).logits
    together = forward(model, data.batch([2, 7, 30]), Needs(logits=True)).logits[1:2]
    torch.testing.assert_close(alone, together, atol=1e-6, rtol=1e-5)


def test_asking_for_more_changes_no_answer(teacher_folder):
    data = tiny.encoded(teacher_folder)
    model = tiny.classifier().eval()
    little = forward(model, data.batch([1, 2, 3]), Needs(logits=True)).logits
    assert torch.equal(little, forward(model, data.batch([1, 2, 3]), EVERYTHING).logits)


def test_reading_what_nobody_declared_raises(teacher_folder):
    out = forward(tiny.classifier(), tiny.encoded(teacher_folder).batch([0]), Needs(hidden=frozenset({1})))
    out.hidden(1)
    for read in (lambda: out.logits, lambda: out.hidden(2), lambda: out.scores(1)):
        with pytest.raises(UndeclaredNeed):
            read()


@pytest.mark.parametrize("kernel", ["sdpa", "eager"])
def test_another_attention_kernel_is_refused(teacher_folder, kernel):
    """Planted bug: with sdpa the scores of a TinyBERT loss would be empty and the loss silently 0."""
    model = tiny.classifier()
    model.set_attn_implementation(kernel)
    with pytest.raises(EmptyAttention, match=kernel):
        forward(model, tiny.encoded(teacher_folder).batch([0]), EVERYTHING)


def test_a_layer_that_keeps_no_scores_is_refused(teacher_folder, monkeypatch):
    model = tiny.classifier()
    monkeypatch.setattr(model.bert.encoder.layer[1].attention.self, "layer_idx", 99)
    with pytest.raises(EmptyAttention, match="empty"):
        forward(model, tiny.encoded(teacher_folder).batch([0]), EVERYTHING)


@given(lengths=st.lists(st.integers(1, 9), min_size=1, max_size=6), seed=st.integers(0, 99))
@settings(max_examples=40, deadline=None)
def test_pools_are_those_of_each_sequence(lengths, seed):
    layout = Layout.of(lengths)
    x_TW = torch.randn(sum(lengths), 3, generator=torch.Generator().manual_seed(seed))
    parts = x_TW.split(lengths)
    torch.testing.assert_close(layout.first(x_TW), torch.stack([p[0] for p in parts]))
    torch.testing.assert_close(layout.mean(x_TW), torch.stack([p.mean(0) for p in parts]))
    torch.testing.assert_close(layout.max(x_TW), torch.stack([p.amax(0) for p in parts]))
    torch.testing.assert_close(layout.packed(layout.padded(x_TW)), x_TW)
    assert layout.positions_T.tolist() == [i for n in lengths for i in range(n)]


def test_an_empty_sequence_is_refused():
    with pytest.raises(ValueError, match="at least one token"):
        Layout.of([3, 0])
