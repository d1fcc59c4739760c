"""MobileBERT from an IB-BERT: what moves in which phase, where it begins, what it counts."""

from __future__ import annotations

from dataclasses import replace

import pytest
import tiny
import torch
from tiny_training import CPU, built

import methods
from bench.data.encoding import MaskingVocabulary
from bench.plan.scheduled_stages import schedule_stages
from bench.record.recipe import Recipe
from bench.train.loop import LoopOptions, train_task
from bench.train.numerics import ComputeSettings, RandomState
from bench.train.student_trainer import StudentTrainer


def transfer(kind, **settings):
    mobilebert = methods.get("mobilebert")
    method = mobilebert(**{**mobilebert.tiny_settings, "layers": 3, "inverted": 16, "pretraining": kind, **settings})
    (wish,) = method.requires(tiny.config())
    return method, wish, built(wish, tasks=())[0]


@pytest.fixture
def text(teacher_folder):
    data = tiny.encoded(teacher_folder, rows=48)
    size = len(tiny.SPECIAL) + len(tiny.WORDS)
    return replace(data, labels=None, vocabulary=MaskingVocabulary(4, frozenset(range(5)), size))


def train_phases(wish, setup, text, count):
    random = RandomState(0, CPU)
    with random.current():
        student, teacher = wish.build(setup), wish.teacher(setup).eval()
    scheduled = schedule_stages(wish.stages(setup), (), Recipe(epochs=6, batch_size=8, learning_rate=1e-3), len(text))[
        1
    ]
    before = {name: value.clone() for name, value in student.model.state_dict().items()}
    one = StudentTrainer("x", student, random, [], scheduled[:count], ComputeSettings())
    train_task([one], text, teacher, LoopOptions(0, ComputeSettings(), 8))
    assert one.error is None, one.error
    return {name for name, value in student.model.state_dict().items() if not torch.equal(value, before[name])}, one


def test_a_phase_moves_its_layer_and_earlier_ones_and_holds_the_rest(text):
    _, wish, setup = transfer("progressive")
    moved, one = train_phases(wish, setup, text, 2)
    assert {name.split(".")[3] for name in moved} == {"0", "1"}
    assert all(name.startswith("mobilebert.encoder.layer.") for name in moved)
    assert list(one.log.terms) == ["layer 1", "layer 2"]


def test_the_current_layer_learns_at_ten_times_the_rate_of_earlier_ones():
    _, wish, setup = transfer("progressive")
    rates = wish.stages(setup)[1].parameter_lr_scale
    name = "model.mobilebert.encoder.layer.{}.attention.self.query.weight"
    assert [rates(name.format(number)) for number in range(3)] == [0.3, 3.0, 0.0]
    assert rates("model.mobilebert.embeddings.word_embeddings.weight") == rates("aux.head.bias") == 0.0


def test_embeddings_and_head_begin_as_the_teachers(text):
    _, wish, setup = transfer("joint")
    student, teacher = wish.build(setup), wish.teacher(setup)
    for name, value in student.model.mobilebert.embeddings.state_dict().items():
        assert torch.equal(value, teacher.mobilebert.embeddings.state_dict()[name])
    states = torch.randn(3, 16)
    assert torch.equal(student.aux["head"](states), student.aux["teacher_head"](states))
    assert not any(p.requires_grad for p in student.aux["teacher_head"].parameters())


def test_the_task_does_not_change_what_is_pre_trained():
    _, one, _ = transfer("joint")
    _, other, _ = transfer("joint", alpha=0.2, temperature=4.0, transfer="auxiliary")
    assert one == other, "rows that share it would count its time several times"
    assert one.settings == other.settings
    assert one.settings != transfer("progressive")[1].settings


def test_students_that_differ_inside_their_layers_learn_from_one_ib_bert():
    _, one, _ = transfer("joint")
    _, other, _ = transfer("auxiliary", bottleneck=4, ffn=16, fmt_weight=1.0)
    assert one.requires(tiny.config()) == other.requires(tiny.config())
    assert one.requires(tiny.config()) != transfer("joint", inverted=32)[1].requires(tiny.config())


@pytest.mark.slow
def test_pre_training_is_made_in_order_and_reaches_the_student(bench, places, teacher_folder, tmp_path):
    corpus = tmp_path / "corpus.txt"
    corpus.write_text("\n".join(" ".join(tiny.WORDS[(i * 7 + j * j) % 43] for j in range(40)) for i in range(60)))
    small = methods.get("mobilebert").tiny_settings
    row = "mobilebert:" + ":".join(f"{k}={v}" for k, v in small.items()) + ":pretraining=progressive:inverted=16"
    words = ("--methods", row, "--teacher", teacher_folder, "--corpus", corpus, "--corpus-tokens", 4000)
    made = bench("run", "--only", "pretraining", *words)
    assert made.returncode == 0, made.stderr
    assert [line.split(" (")[0].rsplit(" ", 1)[0] for line in made.stdout.splitlines()] == ["ib bert", "ib transfer"]
    answer = bench("run", "--tasks", "rte", "--epochs", 1, *words, *places)
    assert answer.returncode == 0, answer.stderr
    assert "ib transfer" in next((tmp_path / "p").glob("*/*/README.md")).read_text()
