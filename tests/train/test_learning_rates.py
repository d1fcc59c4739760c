"""Which learning rate a row trains at: by what its encoder begins with and how wide that is, not by how the row is typed."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import Any

import pytest
import tiny
import torch
from torch import Tensor
from transformers import BertConfig

import methods
from bench.plan.build import build
from bench.plan.request import Request
from bench.plan.scheduled_stages import schedule_stages
from bench.plan.spelling import parse_one
from bench.plan.student_cells import tuned_like_the_teacher
from bench.record.keys import canonical, digest
from bench.record.recipe import PAPER_START, START, Recipe
from bench.train.student_trainer import optimizer_of
from methods.api import Setup
from methods.artefacts import TeacherWeights, blank_artefacts

OWN, TEACHER = "students' own", "teacher's"
WIDE_TEACHER = BertConfig()  # BERT-base: 12 x 768
NARROW_TEACHER = BertConfig(num_hidden_layers=6, hidden_size=384, num_attention_heads=12, intermediate_size=1536)
SIX = "layers=6:hidden=768:ffn=3072"

CUT = ["distilbert", "moebert:importance=random", "mtdnn", "fisher"]
"""Out of the teacher, whatever its width."""
NARROW = ["finetune", "pd:start=masked", "minilm", "kd:start_from=some/encoder", "tinybert:hidden=504"]
NARROW += ["mobilebert:pretraining=joint:hidden=256"]
RANDOM = ["bilstm", "mobilebert", "distilbert:start=random", f"kd:{SIX}:start=random"]
WIDE = [f"tinybert:{SIX}", f"pd:{SIX}:start=masked", f"minilm:{SIX}:start=random", f"kd:{SIX}:start_from=some/encoder"]
WIDE += ["mobilebert:pretraining=progressive", "tinybert:hidden=516", "pd:layers=4:hidden=512:heads=8:ffn=2048"]
AS_WIDE_AS_THE_TEACHER = ["distilbert:pretraining=masked:-soft:-cos", "distilbert:pretraining=masked:start=random"]
"""By a general stage: their width is the teacher's."""

EXPECTED = {
    "BERT-base": {
        **dict.fromkeys([*CUT, *WIDE, *AS_WIDE_AS_THE_TEACHER], TEACHER),
        **dict.fromkeys([*NARROW, *RANDOM], OWN),
    },
    "narrow": {
        **dict.fromkeys([*CUT, *WIDE], TEACHER),
        **dict.fromkeys([*NARROW, *RANDOM, *AS_WIDE_AS_THE_TEACHER], OWN),
    },
}
TEACHERS = {"BERT-base": WIDE_TEACHER, "narrow": NARROW_TEACHER}
MATRIX = [(teacher, row, rate) for teacher, rows in EXPECTED.items() for row, rate in rows.items()]


@pytest.mark.parametrize(("teacher", "row", "rate"), MATRIX, ids=[f"{t} {row}" for t, row, _ in MATRIX])
def test_the_rate_goes_by_the_start_and_its_width(teacher: str, row: str, rate: str) -> None:
    config = TEACHERS[teacher]
    wishes = parse_one(row).method.requires(config)
    assert tuned_like_the_teacher(wishes, config) == (rate == TEACHER)


def rows_of_every_method() -> Sequence[str]:
    """Each method at its small size with its defaults, its ablations, and every choice of where it starts."""
    rows = []
    for name in methods.TABLE:
        method = methods.get(name)
        small = "".join(f":{key}={value}" for key, value in getattr(method, "tiny_settings", {}).items())
        rows += [name + small, *(name + small + suffix for suffix in method.ablations.values())]
    shape = ":layers=2:hidden=12:heads=4:ffn=24"
    mobile = ":layers=2:hidden=16:bottleneck=8:heads=2:ffn=8:embedding=8:inverted=16"
    rows += [f"{name}{shape}:start={start}" for name, start in product(("kd", "microbert"), ("general", "random"))]
    rows += [f"pd{shape}:start=masked", f"minilmv2{shape}:start=random", f"tinybert{shape}:start_from=x"]
    rows += ["distilbert:pretraining=masked", "distilbert:pretraining=masked:start=random"]
    rows += [f"mobilebert{mobile}:pretraining={kind}" for kind in ("auxiliary", "joint", "progressive")]
    return list(dict.fromkeys(rows))


MARK = 7.0
"""What every prepared number is, so that a student shows which of its weights came from what was prepared."""


def marked(artefacts: Mapping[str, Mapping[str, Tensor]]) -> dict[str, dict[str, Tensor]]:
    def fill(value: Tensor) -> Tensor:
        return torch.full_like(value, MARK) if value.is_floating_point() else value

    return {name: {key: fill(value) for key, value in made.items()} for name, made in artefacts.items()}


def width_of_prepared_encoder(model: Any) -> int | None:
    """Width of the encoder whose first attention was prepared; None where it is random."""
    attention = [
        p
        for name, p in model.named_parameters()
        if "layer.0.attention" in name and p.dim() == 2 and "others" not in name
    ]
    prepared = [bool((p % MARK == 0).all()) for p in attention]  # a mask that was prepared too multiplies
    assert len(set(prepared)) <= 1
    return int(model.config.hidden_size) if any(prepared) else None


@pytest.mark.parametrize("row", rows_of_every_method())
def test_what_a_method_declares_of_its_encoder_is_what_its_student_is_made_of(row: str) -> None:
    teacher = tiny.config(layers=4)
    method = parse_one(row).method
    wishes = method.requires(teacher)
    several = "x" if getattr(method, "multitask", False) else ""
    prepared = marked(blank_artefacts(wishes, teacher, 2, several))
    student = method.build(Setup(teacher, 2, ("x",), prepared))
    widths = [
        teacher.hidden_size if isinstance(wish, TeacherWeights) else wish.encoder_width(teacher) for wish in wishes
    ]
    declared = [width for width in widths if width is not None]
    found = width_of_prepared_encoder(student.model)
    assert declared == ([] if found is None else [found])


def starts_of(rows, recipe, glue_folder, teacher, tmp_path):
    request = Request(
        *(rows, "rte"),
        data=str(glue_folder),
        teacher=str(teacher),
        recipe=recipe,
        results=tmp_path / "r",
        reports=tmp_path / "p",
    )
    return {entry.artefact.name: entry for entry in build(request).artefacts}


ROWS_ON_TEXT = ",".join(
    (
        f"kd:{tiny.SHAPE}",
        "distilbert:layers=2:pretraining=masked",
        f"minilm:{tiny.SHAPE}",
        f"pd:{tiny.SHAPE}:start=masked",
        "mobilebert:layers=2:hidden=16:bottleneck=8:heads=2:ffn=8:embedding=8:inverted=16:pretraining=progressive",
    )
)
SAID = {
    "general_start": [1e-4],
    "triple_loss": [5e-4],
    "relations": [5e-4],
    "ib_bert": [1.5e-3],
    "ib_transfer": [1.5e-3] * 3,
}
"""Peak rates that papers and authors' code name for their stages on text."""


def test_each_papers_rate_of_a_general_stage_is_for_its_recipe_alone(glue_folder, teacher_folder, tmp_path) -> None:
    common, papers = (
        {
            name: start
            for name, start in starts_of(ROWS_ON_TEXT, recipe, glue_folder, teacher_folder, tmp_path).items()
            if start.text
        }
        for recipe in ("common", "paper")
    )
    assert common.keys() == papers.keys() == {*SAID, "masked_head", "cut_teacher", "masked_pretraining"}
    moved = {name for name in common if common[name].key != papers[name].key}
    assert moved == set(SAID)  # what names nothing is one start for both recipes, under its old key
    for name, start in common.items():
        assert start.text.recipe == START
        assert papers[name].text.recipe.name == (PAPER_START if name in SAID else START.name)


def test_a_general_stage_runs_as_its_paper_says_and_as_long_as_its_text(teacher_folder) -> None:
    config = tiny.config(layers=4)
    stages = {
        wish.name: wish.stages(Setup(config, 2, ()))
        for row in (
            "distilbert:pretraining=masked",
            f"minilm:{tiny.SHAPE}",
            "minilmv2:hidden=768:layers=2:ffn=24:heads=4",
        )
        for wish in parse_one(row).method.requires(config)
    }
    on_text = replace(START, epochs=2.0)
    for own in stages.values():
        plain, said = (
            schedule_stages(own, (), on_text, 640)[1],
            schedule_stages(own, (), replace(on_text, name=PAPER_START), 640)[1],
        )
        assert [stage.steps for stage in plain] == [stage.steps for stage in said] == [40]
        assert [stage.recipe for stage in plain] == [on_text]
    triple = schedule_stages(stages["triple_loss"], (), replace(on_text, name=PAPER_START), 640)[1][0].recipe
    assert (triple.learning_rate, triple.warmup, triple.weight_decay, triple.clip) == (5e-4, 0.05, 0.0, 5.0)
    assert triple.betas == (0.9, 0.98)
    assert triple.schedule == "linear"
    layer = torch.nn.Linear(2, 2)
    made = optimizer_of(list(layer.named_parameters()), triple)
    assert {group["betas"] for group in made.param_groups} == {(0.9, 0.98)}


def test_betas_are_in_a_recipes_identity_only_where_they_are_not_the_usual_ones() -> None:
    usual = Recipe()
    assert "betas" not in usual.as_dict()
    assert Recipe(**{**usual.as_dict(), "betas": [0.9, 0.999]}).as_dict() == usual.as_dict()
    other = replace(usual, betas=(0.9, 0.98))
    assert other.as_dict() == {**usual.as_dict(), "betas": (0.9, 0.98)}
    assert Recipe(**json.loads(canonical(other.as_dict()))) == other
    assert digest(other.as_dict()) != digest(usual.as_dict())
