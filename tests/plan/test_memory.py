"""Stated memory: what it grows with, the part that is exact, and four pieces of work that are measured."""

from __future__ import annotations

from dataclasses import replace

import pytest
import tiny
from hypothesis import given
from hypothesis import strategies as st
from transformers import DistilBertConfig, DistilBertModel

from bench.plan.build import build
from bench.plan.extents import Extent, extent
from bench.plan.layer_sizes import layer_sizes
from bench.plan.memory import (
    BASE_BYTES,
    artefact_bytes,
    group_bytes,
    teacher_bytes,
)
from bench.plan.request import Request

LENGTHS = st.lists(st.integers(1, 200), min_size=1, max_size=40)
MOST = 128


@pytest.fixture
def planned(teacher_folder, glue_folder, tmp_path):
    """``planned("kd,pd")``: a plan of these rows on a tiny task."""

    def plan_of(methods: str, tasks: str = "rte", **options):
        request = Request(
            methods, tasks, data=str(glue_folder), teacher=str(teacher_folder), results=tmp_path, threads=1, **options
        )
        return build(request)

    return plan_of


def stated(plan, task=None, count=None):
    """Bytes of the plan's first group, or of its first students."""
    (group,) = plan.groups("rte")
    return group_bytes(plan, plan.tasks[0] if task is None else task, group[:count])


def with_recipe(task, **numbers):
    return replace(task, recipe=replace(task.recipe, **numbers), teacher_recipe=replace(task.teacher_recipe, **numbers))


def test_micro_batches_state_less_memory_of_a_students_step(planned):
    plan = planned(f"kd,tinybert:{tiny.SHAPE}")
    whole = [stated(plan, with_recipe(plan.tasks[0], batch_size=32, micro_batch=part)) for part in (0, 32, 8, 2)]
    assert whole[0] == whole[1] > whole[2] > whole[3]


@given(LENGTHS, st.integers(1, 64), st.integers(0, MOST))
def test_a_batch_grows_with_its_sequences_and_what_they_are_filled_to(lengths, count, fill):
    plain, more = extent(lengths, count, MOST), extent(lengths, count + 1, MOST)
    assert more.tokens > plain.tokens
    assert more.squares > plain.squares
    filled = extent(lengths, count, MOST, fill)
    assert count * fill - 1e-6 <= filled.tokens <= count * MOST + 1e-6
    assert count * fill**2 - 1e-6 <= filled.squares <= count * MOST**2 + 1e-6


@given(st.integers(1, 127), st.integers(1, 64))
def test_equal_lengths_make_an_exact_batch(length, count):
    assert extent([length] * 5, count, MOST) == Extent(count, count * length, count * length**2)


@given(LENGTHS, st.integers(1, 64))
def test_no_batch_of_these_lengths_is_expected_to_be_larger(lengths, count):
    """The stated extent is at least that of a mean batch."""
    cut = [min(MOST, length) for length in lengths]
    found = extent(lengths, count, MOST)
    assert found.tokens >= count * sum(cut) / len(cut) - 1e-6
    assert found.squares >= count * sum(length**2 for length in cut) / len(cut) - 1e-6


@pytest.mark.parametrize("larger", [{"layers": 4}, {"hidden": 48}])
def test_activations_grow_with_the_model(larger):
    batch = Extent(8, 200, 8000)
    small, large = (layer_sizes(tiny.classifier(**shape)) for shape in ({}, larger))
    assert large.bytes_with_backward(batch) > small.bytes_with_backward(batch)
    assert small.bytes_with_backward(replace(batch, tokens=400)) > small.bytes_with_backward(batch)
    assert small.bytes_with_backward(replace(batch, squares=9000)) > small.bytes_with_backward(batch)
    assert small.bytes_with_backward(batch) > small.bytes_forward_only(batch)


def test_a_student_more_is_its_weights_and_adams_moments(planned):
    """To the byte: gradients and activations count once, as students move one after another."""
    rows = f"kd:{tiny.SHAPE},kd:alpha=0.2:{tiny.SHAPE},kd:alpha=0.8:{tiny.SHAPE}"
    plan = planned(rows)
    config = tiny.config(layers=2, hidden=12)
    config.intermediate_size = 24
    from transformers import BertForSequenceClassification

    model = BertForSequenceClassification(config)
    floats = sum(p.numel() for p in model.parameters())
    buffers = sum(b.numel() * b.element_size() for b in model.buffers())
    one, two, three = (stated(plan, count=count) for count in (1, 2, 3))
    assert two - one == three - two == 4 * floats + buffers + 2 * 4 * floats


def test_a_group_grows_with_width_batch_and_length(planned):
    plan = planned(f"tinybert:{tiny.SHAPE}")
    task = plan.tasks[0]
    assert stated(planned("tinybert:layers=2:hidden=24:heads=4:ffn=24")) > stated(plan) > BASE_BYTES
    short, long = (with_recipe(task, max_length=length) for length in (8, 64))
    few, many = (with_recipe(task, batch_size=size) for size in (4, 16))
    assert stated(plan, long) > stated(plan, short)
    assert stated(plan, many) > stated(plan, few)
    assert teacher_bytes(long) > teacher_bytes(short)
    assert teacher_bytes(many) > teacher_bytes(few)


def test_filled_sequences_count_as_long_as_they_are_filled(planned):
    assert stated(planned(f"tinybert:padding=128:{tiny.SHAPE}")) > stated(planned(f"tinybert:{tiny.SHAPE}"))


def test_a_chosen_epoch_keeps_the_weights_once_more(planned):
    last, best = planned(f"kd:{tiny.SHAPE}"), planned(f"kd:{tiny.SHAPE}", checkpoint="best-on-dev")
    assert stated(best) > stated(last)


def test_a_start_grows_with_its_text_until_it_was_looked_at(planned):
    def bytes_of(tokens):
        plan = planned(f"kd:{tiny.SHAPE}", corpus_tokens=tokens)
        (general,) = plan.artefacts.kept.values()
        return artefact_bytes(plan, general)

    assert BASE_BYTES < bytes_of(1_000) < bytes_of(10_000) < bytes_of(100_000)


@pytest.mark.slow
def test_every_method_has_a_statement(planned):
    """Of all students, alone and of several tasks, and of what they start from."""
    plan = planned("all", "rte,sst2")
    for task in plan.tasks:
        assert teacher_bytes(task) > BASE_BYTES
        for group in plan.groups(task.task.name):
            assert group_bytes(plan, task, group) >= max(group_bytes(plan, task, [one]) for one in group) > BASE_BYTES
    for training in plan.multitask_trainings():
        assert group_bytes(plan, plan.tasks[0], training) > BASE_BYTES
    for entry in plan.artefacts.kept.values():
        assert artefact_bytes(plan, entry) > BASE_BYTES
    assert plan.multitask_trainings()
    assert len(plan.artefacts.kept) > 2


def test_a_distilbert_teacher_is_planned_for_rows_that_would_truncate_a_bert(glue_folder, tmp_path):
    """Its configuration names the sizes of its layers otherwise."""
    shape = {
        "dim": 24,
        "n_layers": 4,
        "n_heads": 12,
        "hidden_dim": 48,
        "vocab_size": len(tiny.SPECIAL) + len(tiny.WORDS),
    }
    folder = tiny.save_teacher(tmp_path / "distilbert")
    DistilBertModel(DistilBertConfig(**shape)).save_pretrained(folder)
    request = Request(
        "kd:layers=2:hidden=12:heads=12:ffn=24,minilmv2:layers=2:hidden=12:heads=12:ffn=24",
        "rte",
        data=str(glue_folder),
        teacher=str(folder),
        results=tmp_path / "r",
    )
    plan = build(request)
    assert [planned.cell.method for planned in plan.cells] == ["teacher", "kd", "minilmv2"]
    assert all(artefact_bytes(plan, entry) > BASE_BYTES for entry in plan.artefacts.kept.values())
