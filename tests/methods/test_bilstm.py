"""The distilled BiLSTM: its own words, its features of a pair, what it saves, what it counts."""

from __future__ import annotations

from dataclasses import replace

import pytest
import tiny
import torch

import methods
from bench.measure.flops import macs
from methods.api import Setup, UndeclaredNeed
from methods.bilstm import Vocabulary, words_of
from methods.models import cost, forward
from methods.taps import hidden


@pytest.fixture
def batch(teacher_folder):
    return tiny.encoded(teacher_folder, rows=12).batch(range(12))


def built(batch, **settings):
    kind = methods.get("bilstm")
    method = kind(**{**kind.tiny_settings, **settings})
    vocabulary = Vocabulary(method.words).compute(tiny.classifier(), [batch])
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return method.build(Setup(tiny.config(), 2, ("x",), {"vocabulary": vocabulary})).model.eval()


def test_words_are_lower_case_signs_stand_alone_and_a_mask_is_one_word():
    assert " ".join(words_of("Don't stop, Ann-Marie: 3.5!")) == "don ' t stop , ann - marie : 3 . 5 !"
    assert words_of("a [MASK] b[MASK]. [mask]") == ["a", "[MASK]", "b", "[MASK]", ".", "[", "mask", "]"]


def test_the_vocabulary_is_the_most_frequent_words_ties_by_alphabet(batch):
    texts = [("b b c", None), ("a d", "b d")]
    made = Vocabulary(3).compute(tiny.classifier(), [replace(batch, texts=texts)])
    assert bytes(made["words"].tolist()).decode().split("\n") == ["b", "d", "a"]
    assert made["pairs"].item() == 1


def test_a_pair_is_compared_by_product_and_distance(batch):
    model = built(batch)
    assert model.pre_classifier.in_features == 8 * 8
    a, b = model._read(["the cat"]), model._read(["a dog runs"])
    seen = []
    model.pre_classifier.register_forward_hook(lambda module, given, out: seen.append(given[0]))
    model._answer([a, b])
    torch.testing.assert_close(seen[0], torch.cat([a, b, a * b, (a - b).abs()], -1))


def test_a_term_cannot_read_layers_it_does_not_have(batch):
    with pytest.raises(UndeclaredNeed, match="no encoder layers"):
        forward(built(batch), batch, hidden(1))


def test_the_count_sees_the_recurrent_layer(batch):
    model = built(batch)
    by_hand = 20 * 2 * 4 * 8 * (16 + 8) + 64 * 8 + 8 * 2
    # a row of 20 ids is a pair of 10 and 10
    assert macs(model, 20) == by_hand == cost(model).of_length(20)
