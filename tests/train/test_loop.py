"""The loop: solo equals together, lengths, guards with planted bugs."""

from __future__ import annotations

from dataclasses import replace

import pytest
import tiny
import torch
from tiny_training import CPU, RECIPE, finished, trainer
from torch import nn
from torch.cuda._utils import _get_device_index

from bench.errors import CellError
from bench.measure.parameters import weights_hash
from bench.optimizers import multiplier
from bench.plan.scheduled_stages import schedule_stages
from bench.plan.spelling import parse_one
from bench.record.recipe import Recipe
from bench.train.loop import LoopOptions, _one_ahead, train_task
from bench.train.numerics import ComputeSettings, RandomState
from bench.train.student_trainer import GRADIENT_WITHIN, StudentTrainer
from methods.api import Setup, Stage, Student, Term
from methods.core.taps import LOGITS

ALL = ["finetune", "kd", "tinybert", "microbert", "microbert:-dis", "microbert:schedule=tinybert"]


@pytest.mark.slow
def test_solo_equals_together_bit_by_bit(teacher_folder):
    """Of a regression; each method's check trains it beside another one on two labels."""
    data = tiny.encoded(teacher_folder, rows=24, num_labels=1)
    together = [trainer(name, data, 1) for name in ALL]
    hashes = finished(together, data, 1)
    for name, expected, other in zip(ALL, hashes, together, strict=True):
        alone = trainer(name, data, 1)
        assert finished([alone], data, 1) == [expected], name
        assert alone.log.terms == other.log.terms, name
    assert len(set(hashes)) == len(hashes)


def test_the_outer_random_state_is_left_alone(teacher_folder):
    data = tiny.encoded(teacher_folder)
    torch.manual_seed(1)
    before = torch.get_rng_state()
    teacher = tiny.classifier(seed=5).eval()
    train_task(
        [trainer("microbert", data)],
        data,
        teacher,
        LoopOptions(0, ComputeSettings(), RECIPE.batch_size),
    )
    assert torch.equal(before, torch.get_rng_state())


def test_counted_examples_are_the_same_for_every_method(teacher_folder):
    data = tiny.encoded(teacher_folder)
    trainers = [trainer(name, data) for name in ALL]
    assert {t.steps("counted") for t in trainers} == {15}
    assert [scheduled.steps for scheduled in trainers[2].schedule["counted"]] == [10, 5]
    assert [scheduled.steps for scheduled in trainers[3].schedule["preparation"]] == [5]


def test_a_stage_without_terms_gives_its_share_to_the_others(teacher_folder):
    data = tiny.encoded(teacher_folder)
    row = parse_one("tinybert:-embd:-hidn:-attn")
    stages = row.method.stages(Setup(tiny.config(), 2, ("tiny",)))
    assert [
        (scheduled.stage.name, scheduled.steps)
        for scheduled in schedule_stages(stages, row.dropped, RECIPE, len(data))[1]
    ] == [("prediction", 15)]
    with pytest.raises(CellError, match="keep at least one"):
        schedule_stages(stages, ("embd", "hidn", "attn", "pred"), RECIPE, len(data))


def planted(fn, **more) -> list[Stage]:
    hard = Term(lambda b, s, t, aux: s.logits.square().mean(), student=LOGITS)
    return [Stage("planted", {"hard": hard, "bug": Term(fn, student=LOGITS, **more)})]


def planted_trainer(stages, data) -> StudentTrainer:
    scheduled = schedule_stages(stages, (), RECIPE, len(data))
    return StudentTrainer(
        "bad", Student(tiny.classifier()), RandomState(0, CPU), *scheduled, ComputeSettings()
    )


def run_planted(stages, teacher_folder):
    data = tiny.encoded(teacher_folder)
    bad = planted_trainer(stages, data)
    good = trainer("finetune", data)
    train_task([bad, good], data, None, LoopOptions(0, ComputeSettings(), RECIPE.batch_size))
    assert good.error is None, "the other cell should go on"
    assert good.log.steps == 15
    return bad.error


def test_planted_nan_names_stage_term_and_step(teacher_folder):
    calls = []

    def bug(batch, student, teacher, aux):
        calls.append(1)
        return student.logits.mean() * (float("nan") if len(calls) == 4 else 1.0)

    error = run_planted(planted(bug), teacher_folder)
    assert isinstance(error, CellError)
    assert "stage planted: the term bug became nan at step 3" in str(error)


@pytest.mark.parametrize(
    "bug",
    [
        lambda b, s, t, aux: s.logits.detach().mean(),
        lambda b, s, t, aux: s.logits.mean() * 0,
        lambda b, s, t, aux: sum((x.mean() for x, _ in zip([], [], strict=True)), torch.zeros(())),
    ],
    ids=["detached", "times zero", "empty zip"],
)
def test_planted_dead_term_is_named(teacher_folder, bug):
    error = run_planted(planted(bug), teacher_folder)
    assert isinstance(error, CellError)
    assert "the term bug never had a gradient" in str(error)


@pytest.mark.parametrize("is_alone", [False, True])
def test_a_dead_term_stops_the_training_before_its_end(teacher_folder, is_alone):
    data = tiny.encoded(teacher_folder)
    stages = planted(lambda b, s, t, aux: s.logits.detach().mean())
    if is_alone:
        stages = [replace(stage, terms={"bug": stage.terms["bug"]}) for stage in stages]
    bad = planted_trainer(stages, data)
    train_task([bad], data, None, LoopOptions(0, ComputeSettings(), RECIPE.batch_size))
    assert bad.error is not None
    assert bad.log.steps <= GRADIENT_WITHIN + 1 < bad.steps("counted")


def test_steps_that_reach_no_parameter_do_not_count_against_a_term(teacher_folder):
    """As of `theseus`, while the draws replace no module."""
    data = tiny.encoded(teacher_folder)
    calls = []

    def draw(module, inputs, output):
        calls.append(1)
        return output if len(calls) > GRADIENT_WITHIN + 2 else output.detach()

    term = Term(lambda b, s, t, aux: s.logits.square().mean(), student=LOGITS)
    one = planted_trainer([Stage("planted", {"drawn": term})], data)
    one.student.model.classifier.register_forward_hook(draw)
    train_task([one], data, None, LoopOptions(0, ComputeSettings(), RECIPE.batch_size))
    assert one.error is None
    assert one.log.steps == 15


def test_a_weight_may_be_zero_at_the_beginning_of_a_stage(teacher_folder):
    late = planted(
        lambda b, s, t, aux: s.logits.mean(), weight=lambda progress: float(progress > 0.8)
    )
    assert run_planted(late, teacher_folder) is None


def test_planted_undeclared_read_fails_that_cell_only(teacher_folder):
    error = run_planted(planted(lambda b, s, t, aux: s.hidden(1).mean()), teacher_folder)
    assert "hidden 1" in str(error)


def test_another_player_sees_a_detached_student(teacher_folder):
    data = tiny.encoded(teacher_folder)
    model = tiny.classifier()
    before = weights_hash(model)
    student = Student(model, nn.ModuleDict({"disc": nn.Linear(2, 1)}), {"disc": ("disc",)})
    term = Term(
        lambda b, s, t, aux: aux["disc"](s.logits).square().mean(), student=LOGITS, player="disc"
    )
    hard = Term(lambda b, s, t, aux: s.logits.square().mean(), student=LOGITS)
    stages = [Stage("first", {"disc": term}, extra_steps=99), Stage("then", {"hard": hard})]
    one = StudentTrainer(
        "x",
        student,
        RandomState(0, CPU),
        *schedule_stages(stages, (), RECIPE, len(data)),
        ComputeSettings(),
    )
    one.schedule["counted"] = []
    train_task([one], data, None, LoopOptions(0, ComputeSettings(), RECIPE.batch_size))
    assert one.error is None
    assert weights_hash(model) == before
    assert one.log.steps == 5


@pytest.mark.parametrize(
    "schedule, first, middle, last", [("linear", 0.1, 1.0, 1 / 90), ("constant", 1.0, 1.0, 1.0)]
)
def test_learning_rate_factors(schedule, first, middle, last):
    warmup = Recipe().warmup
    assert multiplier(schedule, warmup, 0, 100) == pytest.approx(first)
    assert multiplier(schedule, warmup, 10, 100) == pytest.approx(middle)
    assert multiplier(schedule, warmup, 99, 100) == pytest.approx(last)


def test_the_thread_that_prepares_batches_works_on_the_gpu_of_the_training(monkeypatch):
    """Torch takes the number of a GPU, and not the device that ``--device cuda`` names. There need not be one."""
    chosen = []
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 3)
    monkeypatch.setattr(
        torch.cuda, "set_device", lambda device: chosen.append(_get_device_index(device))
    )
    assert [
        step for step, _ in _one_ahead(iter([1, 2]), lambda step: {}, torch.device("cuda"))
    ] == [1, 2]
    assert chosen == [3]
