"""Weights of few bits: rounding against its definition, its gradient, and that a saved folder is small and the same model."""

from __future__ import annotations

import numpy as np
import pytest
import tiny
import torch
from hypothesis import given
from hypothesis import strategies as st
from tiny_training import built
from torch import nn
from transformers import (
    AutoModelForQuestionAnswering,
    AutoModelForSequenceClassification,
    BertConfig,
)

from bench.make.teacher import as_question_answering
from bench.measure.parameters import weights_hash
from bench.measure.sizes import sizes
from bench.plan.spelling import parse_one
from bench.plan.untrained import untrained
from methods.core.fast_kernels import with_fast_kernels
from methods.core.models import forward
from methods.core.quantized import (
    QuantizedBertForSequenceClassification,
    codes_and_scale,
    finished,
    packed,
    quantized_parts,
    rounded,
    unpacked,
)
from methods.core.taps import LOGITS

ROWS = ("ternarybert", "ternarybert:weight_bits=4:activation_bits=32", "q8bert")


def shipped(row: str):
    method = parse_one(row).method
    _, student = built(method)
    return student.model.eval(), method.deploy(student)[""].eval()


def ternary(values: np.ndarray) -> np.ndarray:
    """Li and Liu 2016: 0 up to 0.7 of the mean absolute value, the others the mean of their absolute values, with their signs."""
    size = abs(values)
    large = size > 0.7 * size.mean()
    return np.where(large, np.sign(values) * size[large].mean(), 0.0)


def test_two_bits_are_ternary_weight_networks():
    x = torch.randn(6, 40, generator=torch.Generator().manual_seed(0))
    assert rounded(x, 2, None, (0, 1)).numpy() == pytest.approx(
        ternary(x.double().numpy()), abs=1e-6
    )
    by_row = np.stack([ternary(row) for row in x.double().numpy()])
    assert rounded(x, 2, None).numpy() == pytest.approx(by_row, abs=1e-6)


@given(st.integers(3, 8), st.integers(0, 99))
def test_more_bits_are_equal_steps_up_to_the_largest_number(bits, seed):
    x = torch.randn(5, 30, generator=torch.Generator().manual_seed(seed))
    codes, scale = codes_and_scale(x, bits, (0, 1))
    assert codes.abs().max() == 2 ** (bits - 1) - 1
    assert ((codes * scale - x).abs() <= scale / 2 + 1e-6).all()


@pytest.mark.parametrize("bits", [2, 8])
def test_a_row_of_zeros_stays_one(bits):
    assert not rounded(torch.zeros(2, 4), bits, None).any()


def test_the_gradient_passes_the_rounding_but_not_the_cut():
    x = torch.tensor([-3.0, -1.0, 0.2, 2.4, 9.0], requires_grad=True)
    rounded(x, 8, 2.5).sum().backward()
    assert x.grad.tolist() == [0.0, 1.0, 1.0, 1.0, 0.0]


@given(st.integers(2, 8), st.integers(1, 7), st.integers(1, 9))
def test_codes_survive_a_file(bits, rows, columns):
    most = 2 ** (bits - 1) - 1
    codes = torch.randint(-most, most + 1, (rows, columns)).float()
    stored = packed(codes, bits)
    assert stored.dtype == torch.uint8
    assert stored.shape == (rows, -(-columns // (8 // bits)))
    assert unpacked(stored, bits).equal(codes)


@pytest.mark.parametrize("row", ROWS)
def test_every_matrix_of_the_encoder_is_rounded_and_what_is_shipped_answers_like_what_was_trained(
    row, teacher_folder
):
    trained, deployed = shipped(row)
    bits = parse_one(row).method.weight_bits
    parts = quantized_parts(deployed)
    whole = {name for name, part in deployed.named_modules() if isinstance(part, nn.Linear)} - {
        "classifier"
    }
    assert whole <= parts.keys()
    assert (
        ("classifier" in parts)
        == ("bert.embeddings.position_embeddings" in parts)
        == (row == "q8bert")
    )
    assert all(len(part.weight[0].unique()) <= 2**bits - 1 for part in parts.values())
    batch = tiny.encoded(teacher_folder).batch([0, 1, 2])
    answers = [forward(model, batch, LOGITS).logits for model in (trained, deployed)]
    assert torch.allclose(*answers, atol=1e-5)


@pytest.mark.parametrize("answers_questions", [False, True])
@pytest.mark.parametrize("row", ROWS)
def test_a_saved_folder_is_small_and_the_same_model(row, answers_questions, tmp_path):
    _, deployed = shipped(row)
    bits, model = parse_one(row).method.weight_bits, deployed
    opener = AutoModelForSequenceClassification
    if answers_questions:
        model, opener = as_question_answering(deployed), AutoModelForQuestionAnswering
    model.save_pretrained(tmp_path)
    opened = opener.from_pretrained(tmp_path)
    assert weights_hash(opened) == weights_hash(model)
    assert opened.config.weight_bits == bits
    stored = sum(value.nbytes for value in model.stored().values())
    header = (tmp_path / "model.safetensors").stat().st_size - stored
    assert 0 < header < 150 * len(model.stored())
    if not answers_questions:
        assert sizes(deployed).file_bytes == stored


@pytest.mark.parametrize("bits", range(2, 9))
def test_all_bits_come_back_also_where_something_was_cut(bits, tmp_path):
    _, student = built(parse_one(f"ternarybert:weight_bits={bits}:clip=0.03").method)
    model = finished(student.model)
    model.save_pretrained(tmp_path)
    assert weights_hash(
        AutoModelForSequenceClassification.from_pretrained(tmp_path)
    ) == weights_hash(model)


def test_a_folder_opens_with_another_head_and_in_other_formats(tmp_path):
    _, deployed = shipped("q8bert")
    deployed.save_pretrained(tmp_path / "a")
    asking = AutoModelForQuestionAnswering.from_pretrained(tmp_path / "a")
    assert asking.qa_outputs.out_features == 2
    wider = QuantizedBertForSequenceClassification.from_pretrained(
        tmp_path / "a", num_labels=3, ignore_mismatched_sizes=True
    )
    assert wider.classifier.out_features == 3
    coarse = AutoModelForSequenceClassification.from_pretrained(
        tmp_path / "a", dtype=torch.bfloat16
    )
    assert coarse.name_or_path == str(tmp_path / "a")
    coarse.save_pretrained(tmp_path / "b")
    again = AutoModelForSequenceClassification.from_pretrained(tmp_path / "b", dtype=torch.float32)
    for name, part in quantized_parts(deployed).items():
        assert torch.allclose(
            part.weight, again.get_submodule(name).weight, rtol=0.02, atol=1e-6
        ), name


def test_the_matrices_of_an_opened_model_do_not_learn(teacher_folder, tmp_path):
    """Trained on, they would not be codes any more, and the saved model another one."""
    _, deployed = shipped("ternarybert")
    deployed.save_pretrained(tmp_path / "a")
    opened = AutoModelForSequenceClassification.from_pretrained(tmp_path / "a")
    opened.set_attn_implementation("packed")
    batch = tiny.encoded(teacher_folder).batch([0, 1, 2])
    forward(opened, batch, LOGITS).logits.square().sum().backward()
    torch.optim.SGD(opened.parameters(), 0.1).step()
    opened.save_pretrained(tmp_path / "b")
    assert weights_hash(
        AutoModelForSequenceClassification.from_pretrained(tmp_path / "b")
    ) == weights_hash(opened)
    assert weights_hash(opened) != weights_hash(deployed), "other parameters learn"


def test_a_quantised_teacher_is_not_answered_for_by_plain_kernels(teacher_folder):
    _, deployed = shipped("ternarybert")
    batch = tiny.encoded(teacher_folder).batch([0, 1, 2])
    with torch.no_grad():
        answers = [
            forward(model, batch, LOGITS).logits
            for model in (deployed, with_fast_kernels(deployed))
        ]
    assert torch.allclose(*answers, atol=1e-4)


def test_bert_s_file_is_as_much_smaller_as_the_paper_says():
    """TernaryBERT's abstract: 14.9 times."""
    (model,) = untrained(parse_one("ternarybert").method, BertConfig(), 2, "meta").values()
    counted = sizes(model)
    assert 4 * counted.parameters / counted.file_bytes == pytest.approx(14.9, abs=0.05)
