"""The optimisers that a recipe can name: their formulas, their state, what they refuse, and that records of two never mix."""

from __future__ import annotations
import __future__

import json
from dataclasses import replace

import factories
import pages
import pytest
import tiny
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny_training import RECIPE, finished, trainer
from torch import nn
from transformers import AutoConfig, AutoModelForSequenceClassification

import methods
from bench.conformance import tiny_bench
from bench.conformance.checks import check_method
from bench.conformance.tiny_bench import Bench
from bench.optimizers import refusal
from bench.plan.build import build
from bench.record import optimizers
from bench.record.cell import record_key, train_key
from bench.record.optimizers import OPTIMIZERS
from bench.record.recipe import ADAMW, Recipe
from bench.report.file_names import place_of
from bench.report.reproduce import commands
from bench.report.studies import studies
from bench.train import student_trainer as of_loop
from bench.train.student_trainer import is_not_decayed, optimizer_of
from methods.core.families import FAMILIES

NAMES = list(OPTIMIZERS)
RATE, DECAY, FACTOR = 0.01, 0.1, 0.5


def published(name: str, weight, gradients, decay: float, plain: bool):
    """The weights after some steps, in double precision, as the optimiser's paper writes them."""
    p, rate = weight.double(), RATE * FACTOR
    first, second = torch.zeros_like(p), torch.zeros_like(p)
    for t, g in enumerate((g.double() for g in gradients), start=1):
        if name == "bertadam":
            g = g * min(1.0, 1 / (float(g.norm()) + 1e-6))
        if name != "lamb":
            p = p - rate * decay * p
        if name in (ADAMW, "lamb"):
            first, second = 0.9 * first + 0.1 * g, 0.999 * second + 0.001 * g**2
            step = (first / (1 - 0.9**t)) / (
                (second / (1 - 0.999**t)).sqrt() + (1e-8 if name == ADAMW else 1e-6)
            )
        if name == "bertadam":
            first, second = 0.9 * first + 0.1 * g, 0.999 * second + 0.001 * g**2
            step = first / (second.sqrt() + 1e-6)
        if name == "lamb":
            step = step + decay * p
            step = step if plain else step * p.norm() / step.norm()
        elif name == "adamax":
            first, second = 0.9 * first + 0.1 * g, torch.maximum(0.999 * second, g.abs() + 1e-8)
            step = first / (1 - 0.9**t) / second
        elif name == "adadelta":
            first = 0.95 * first + 0.05 * g**2
            step = ((second + 1e-6) / (first + 1e-6)).sqrt() * g
            second = 0.95 * second + 0.05 * step**2
        elif name == "sgd":
            step = first = 0.9 * first + g
        elif name == "adafactor":
            kept = 1 - t**-0.8
            rows, columns = (
                (g**2, g**2)
                if p.dim() < 2
                else ((g**2).mean(1, keepdim=True), (g**2).mean(0, keepdim=True))
            )
            first, second = (
                kept * old + (1 - kept) * new for old, new in ((first, rows), (second, columns))
            )
            rows, columns = (
                first[..., :1] if p.dim() > 1 else first,
                second[:1] if p.dim() > 1 else second,
            )
            seen = first if p.dim() < 2 else rows * columns / rows.mean()
            unit = g / seen.sqrt()
            step = (
                unit
                / max(1.0, root_mean_square(unit))
                * max(1e-3, root_mean_square(p))
                * min(rate, t**-0.5)
                / rate
            )
        p = p - rate * step
    return p


def root_mean_square(x) -> float:
    return float((x**2).mean().sqrt())


@pytest.mark.parametrize("name", NAMES)
@settings(deadline=None, max_examples=25)
@given(
    st.integers(0, 10**6), st.sampled_from([(3, 4), (5,), (1, 1)]), st.integers(1, 4), st.booleans()
)
def test_a_step_is_that_of_the_optimisers_paper(name, seed, shape, steps, plain):
    """Also with weight decay apart from the gradient, a factor on the rate, and neither on biases and LayerNorms."""
    generator = torch.Generator().manual_seed(seed)
    weight, *gradients = (torch.randn(shape, generator=generator) for _ in range(steps + 1))
    moved = nn.Parameter(weight.clone())
    own = "layer.bias" if plain else "layer.weight"
    stepped = optimizer_of(
        [(own, moved)], Recipe(optimizer=name, weight_decay=DECAY), lambda name: FACTOR
    )
    for gradient in gradients:
        moved.grad = gradient.clone()
        for group in stepped.param_groups:
            group["lr"] = RATE * group["factor"]
        stepped.step()
    expected = published(name, weight, gradients, 0.0 if plain else DECAY, plain)
    # float32 against double
    assert torch.allclose(moved.detach().double(), expected, rtol=2e-4, atol=2e-5)


@pytest.mark.parametrize("name", ["adamw", "bertadam", "adadelta"])
def test_what_a_stage_says_has_no_decay_rests_without_a_gradient(name):
    """Beside it a matrix of the same stage shrinks: theirs is the recipe's decay."""
    scores, matrix = (nn.Parameter(torch.ones(2, 2)) for _ in range(2))
    named = [("model.a.scores", scores), ("model.a.weight", matrix)]
    recipe = Recipe(optimizer=name, weight_decay=DECAY)
    stepped = optimizer_of(named, recipe, undecayed=lambda each: each.endswith(".scores"))
    for parameter in (scores, matrix):
        parameter.grad = torch.zeros(2, 2)
    for group in stepped.param_groups:
        group["lr"] = RATE
    stepped.step()
    assert torch.equal(scores.detach(), torch.ones(2, 2))
    assert (matrix < 1).all()


@pytest.mark.parametrize("name", ["lamb", "bertadam", "adamw"])
def test_nothing_moves_weights_of_zero_to_not_a_number(name):
    zero = nn.Parameter(torch.zeros(2, 2))
    stepped = optimizer_of([("a.weight", zero)], Recipe(optimizer=name))
    for gradient in (torch.zeros(2, 2), torch.ones(2, 2)):
        zero.grad = gradient
        stepped.step()
    assert torch.isfinite(zero).all()


def test_the_default_is_plain_torch_bit_by_bit(teacher_folder, monkeypatch):
    """Of every player of a stage: what AdamW of torch does with BERT's two groups."""
    data = tiny.encoded(teacher_folder, rows=24)
    rows = ("kd", "microbert")
    ours = finished([trainer(row, data) for row in rows], data)

    def plain(groups, recipe):
        kept = [
            {name: group[name] for name in ("params", "weight_decay", "factor")} for group in groups
        ]
        return torch.optim.AdamW(kept, lr=recipe.learning_rate, betas=(0.9, 0.999), fused=True)

    monkeypatch.setattr(of_loop, "built", plain)
    assert finished([trainer(row, data) for row in rows], data) == ours


@pytest.mark.parametrize("name", ["lamb", "bertadam", "adafactor"])
@pytest.mark.slow
def test_a_training_that_breaks_off_ends_as_in_one_go(monkeypatch, name):
    """Of two players: the state is safetensors and JSON, read by a student that is newly built."""
    # kept for all tests of a process: by the usual optimiser
    tiny_bench.tiny_teacher(2, torch.get_num_threads())
    monkeypatch.setattr(tiny_bench, "RECIPE", replace(tiny_bench.SHORT, optimizer=name))
    (check,) = check_method(methods.get("microbert"), ["resumes"], settings={"start": "random"})
    assert check.passed, check.found


def test_the_worked_example_of_the_docs(teacher_folder, monkeypatch):
    """Its one entry is enough to train, and to keep what a training needs to go on."""
    code = pages.python_of("extend.md", "OPTIMIZERS")
    names = dict(vars(optimizers))
    exec(compile(code, "docs", "exec", __future__.annotations.compiler_flag), names)  # noqa: S102 the docs' own code
    ((name, kind),) = names["OPTIMIZERS"].items()
    assert name not in OPTIMIZERS
    monkeypatch.setitem(OPTIMIZERS, name, kind)
    recipe = replace(RECIPE, optimizer=name)
    assert refusal(recipe) == ""
    data = tiny.encoded(teacher_folder, rows=24)
    assert finished([trainer("kd", data, recipe=recipe)], data) != finished(
        [trainer("kd", data)], data
    )
    p = nn.Parameter(torch.ones(2, 3))
    stepped = optimizer_of([("a.weight", p)], recipe)
    p.grad = torch.ones(2, 3)
    stepped.step()
    assert all(isinstance(value, torch.Tensor) for value in stepped.state[p].values())


@pytest.mark.parametrize(
    ("recipe", "said"),
    [
        (Recipe(optimizer="adam"), "no optimizer adam; choose one of adamw"),
        (Recipe(optimizer="adadelta", betas=(0.9, 0.98)), "reads no betas"),
    ],
)
def test_what_an_optimiser_cannot_do_is_said(recipe, said):
    assert said in refusal(recipe)


@pytest.fixture
def plan_of(request_):
    return lambda methods=f"kd:{tiny.SHAPE}", **more: build(
        request_(methods=methods, tasks="rte", epochs=None, **more)
    )


def test_students_alone_have_the_chosen_optimiser(plan_of):
    """Rows of two optimisers share their teacher and their start; AdamW typed is the default."""
    usual, typed, other = plan_of(), plan_of(optimizer=ADAMW), plan_of(optimizer="adamax")
    assert [record_key(p.cell) for p in usual.cells] == [record_key(p.cell) for p in typed.cells]
    assert [entry.key for entry in usual.artefacts] == [entry.key for entry in other.artefacts]
    (teacher, student), (same, changed) = ([p.cell for p in plan.cells] for plan in (usual, other))
    assert record_key(teacher) == record_key(same)
    assert changed.recipe == student.recipe | {"optimizer": "adamax"}
    assert train_key(changed) != train_key(student)


def test_a_papers_optimiser_is_in_the_key_and_in_the_plan(plan_of):
    plan = plan_of("mtdnn:members=1,bilstm,kd", recipe="paper")
    found = {p.cell.label: p.cell.recipe.get("stage_optimizers") for p in plan.cells}
    assert found == {
        "teacher": None,
        "kd": None,
        "mtdnn:members=1": (("distil", "adamax"),),
        "bilstm": (("distil", "adadelta"),),
    }
    typed = plan_of("bilstm:distil.optimizer=adamw,kd:distil.optimizer=sgd", recipe="paper")
    assert [p.cell.recipe.get("stage_optimizers") for p in typed.cells] == [
        None,
        None,
        (("distil", "sgd"),),
    ]


def test_a_start_by_its_papers_optimiser(plan_of):
    mobile = "mobilebert:layers=2:hidden=16:bottleneck=8:heads=2:ffn=8:embedding=8:inverted=16:pretraining=joint"
    for recipe, optimizer in (("common", None), ("paper", "lamb")):
        identities = [entry.identity for entry in plan_of(mobile, recipe=recipe).artefacts]
        assert identities
        assert all((optimizer or "lamb") in json.dumps(each) for each in identities) == (
            optimizer is not None
        )


def test_records_of_two_optimisers_never_meet_in_one_table():
    teacher, kd = factories.record("teacher"), factories.record("kd")
    cell = kd.cell.model_copy(update={"recipe": kd.cell.recipe | {"optimizer": "sgd"}})
    other = kd.model_copy(
        update={"cell": cell, "key": record_key(cell), "train_key": train_key(cell)}
    )
    found = {group.optimizer: group for group in studies([other, kd, teacher])}
    assert found.keys() == {ADAMW, "sgd"}
    assert len({place_of(group) for group in found.values()}) == 2
    for name, group in found.items():
        assert {r.row for r in group.records} == {"kd", "teacher"}, "the teacher belongs to both"
        assert ("--optimizer sgd" in commands(group)[0]) == (name == "sgd")


SETTINGS = {
    "distilbert": ({}, {"pretraining": "masked"}),
    "microbert": ({}, {"tasks": "together"}),
    "mobilebert": ({}, {"pretraining": "progressive"}),
}


def described(module: nn.Module, name: str) -> bool:
    """Whether torch's own types and names of parameters call it a bias or a part of a normalisation."""
    return "bias" in name or "Norm" in type(module).__name__ or "norm" in name.lower()


@pytest.mark.parametrize("name", methods.TABLE)
@pytest.mark.slow
def test_no_bias_and_no_layer_norm_of_any_method_is_decayed(name: str, monkeypatch) -> None:
    # names of parameters do not depend on what is prepared
    monkeypatch.setattr(Bench, "artefact", Bench._blank)
    kind = methods.get(name)
    for chosen in SETTINGS.get(name, ({},)):
        bench = Bench(kind(**{**getattr(kind, "tiny_settings", {}), **chosen}), 2)
        students = [scene.student for scene in bench.scenes()]
        for part in (part for student in students for part in (student.model, student.aux)):
            for where, module in part.named_modules():
                for own, _ in module.named_parameters(recurse=False):
                    assert is_not_decayed(f"{where}.{own}") == described(module, own), (
                        f"{where}.{own}"
                    )


def test_the_decayed_group_has_the_rest() -> None:
    model = nn.ModuleDict(
        {"lstm": nn.LSTM(2, 2), "sa_layer_norm": nn.LayerNorm(2), "lin": nn.Linear(2, 2)}
    )
    made = optimizer_of(list(model.named_parameters()), Recipe())
    decayed = {
        group["weight_decay"]: {id(p) for p in group["params"]} for group in made.param_groups
    }
    matrices = {id(p) for p in model.parameters() if p.dim() == 2}
    assert decayed == {0.01: matrices, 0.0: {id(p) for p in model.parameters()} - matrices}


def test_no_normalisation_of_another_family_is_decayed() -> None:
    shape = {
        "hidden_size": 8,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "intermediate_size": 8,
        "vocab_size": 20,
    }
    for family in FAMILIES:
        config = AutoConfig.for_model(
            family, **shape, **({} if family == "bert" else {"pad_token_id": 0})
        )
        model = AutoModelForSequenceClassification.from_config(config)
        norms = [
            f"{where}.{own}"
            for where, m in model.named_modules()
            if isinstance(m, nn.LayerNorm)
            for own, _ in m.named_parameters()
        ]
        assert norms or family == "mobilebert"
        assert all(map(is_not_decayed, norms)), family
