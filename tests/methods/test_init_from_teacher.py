"""A general start that begins as the teacher cut down."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import tiny
from torch import nn
from transformers import DistilBertConfig

from methods.artefacts import fill_from_teacher
from methods.models import forward
from methods.taps import hidden
from methods.truncation import collect_activations, init_from_teacher, regression


def test_nothing_is_lost_when_nothing_is_cut(teacher_folder):
    """The same shape: the student answers as the teacher does, layer by layer, through the projection."""
    teacher, student = tiny.classifier(seed=1).eval(), tiny.classifier(seed=2).eval()
    batch = tiny.encoded(teacher_folder, rows=60).batch(range(60))
    projection = nn.Linear(24, 24)
    assert init_from_teacher(teacher, student, projection, collect_activations(teacher, batch))
    everything = hidden(*range(4))
    ours, theirs = forward(student, batch, everything), forward(teacher, batch, everything)
    for layer in range(4):
        error = (projection(ours.hidden(layer)) - theirs.hidden(layer)).square().mean() / theirs.hidden(layer).var()
        assert float(error.detach()) < 1e-3, f"layer {layer}"


def test_a_cut_student_is_nearer_than_a_random_one(teacher_folder):
    teacher = tiny.classifier(seed=1).eval()
    batch = tiny.encoded(teacher_folder, rows=200).batch(range(200))
    theirs = forward(teacher, batch, hidden(3)).hidden(3).detach().double()

    def unexplained(student) -> float:
        ours = forward(student.eval(), batch, hidden(2)).hidden(2).detach().double()
        best = regression(ours, theirs)
        return float((ours @ best[:-1] + best[-1] - theirs).square().mean() / theirs.var())

    random, cut = (tiny.classifier(seed=2, layers=2, hidden=16) for _ in range(2))
    assert init_from_teacher(teacher, cut, nn.Linear(16, 24), collect_activations(teacher, batch))
    assert unexplained(cut) < unexplained(random)


@pytest.mark.parametrize(
    ("config", "width", "said"),
    [
        (tiny.config(), 24, "the cut-down teacher"),
        (tiny.config(), 32, "random weights: the shape does not fit into the teacher's"),
        (DistilBertConfig(), 24, "random weights: only a BERT can be truncated, and this teacher is a distilbert"),
    ],
    ids=["truncated", "too wide", "no BERT"],
)
def test_it_is_noted_why_a_start_is_random(teacher_folder, config, width, said):
    notes, told = [], []
    given = SimpleNamespace(
        setup=SimpleNamespace(teacher=config),
        teacher=lambda source: tiny.classifier(),
        first=lambda source, tokens: tiny.encoded(teacher_folder).batch(range(40)),
        note=notes.append,
        on_step=lambda done, total: told.append((done, total)),
    )
    fill_from_teacher(given, tiny.classifier(seed=2, hidden=width), nn.Linear(width, 24))
    assert notes == [said]
    assert told == ([(1, 3), (2, 3), (3, 3)] if config.model_type == "bert" else []), "a layer at a time"
