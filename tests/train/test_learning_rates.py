"""Which learning rate a row trains at: by what its encoder begins with and how wide that is, not by how the row is typed."""

from __future__ import annotations

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
from bench.plan.scheduled_stages import schedule_stages
from bench.plan.spelling import parse_one
from bench.plan.student_cells import tuned_like_the_teacher
from bench.record.recipe import PAPER_START, START
from methods.api import Setup
from methods.core.artefacts import TeacherWeights, blank_artefacts

WIDE_TEACHER = BertConfig()  # BERT-base: 12 x 768
NARROW_TEACHER = BertConfig(
    num_hidden_layers=6, hidden_size=384, num_attention_heads=12, intermediate_size=1536
)
SIX = "layers=6:hidden=768:ffn=3072"

WIDE = ["distilbert", "moebert:importance=random", "mtdnn", "fisher", "dynabert"]
"""Out of the teacher, whatever its width, or as wide by themselves."""
WIDE += [
    f"tinybert:{SIX}",
    f"pd:{SIX}:start=masked",
    f"minilm:{SIX}:start=random",
    f"kd:{SIX}:start_from=some/encoder",
]
WIDE += [
    "mobilebert:pretraining=progressive",
    "mobilebert:start_from=some/encoder",
    "tinybert:hidden=516",
    "pd:layers=4:hidden=512:heads=8:ffn=2048",
]
OWN = ["finetune", "pd:start=masked", "minilm", "kd:start_from=some/encoder", "tinybert:hidden=504"]
OWN += ["mobilebert:pretraining=joint:hidden=256"]
OWN += ["bilstm", "mobilebert", "distilbert:start=random", f"kd:{SIX}:start=random"]
"""Narrow, or at random."""
AS_WIDE_AS_THE_TEACHER = [
    "distilbert:start_from=some/encoder",
    "distilbert:pretraining=masked:-soft:-cos",
    "distilbert:pretraining=masked:start=random",
]
"""By a general stage: their width is the teacher's."""


@pytest.mark.parametrize("row", [*WIDE, *OWN, *AS_WIDE_AS_THE_TEACHER])
def test_the_rate_goes_by_the_start_and_its_width(row: str) -> None:
    method = parse_one(row).method
    for config, is_the_teachers in ((WIDE_TEACHER, row not in OWN), (NARROW_TEACHER, row in WIDE)):
        assert tuned_like_the_teacher(method.requires(config), config) == is_the_teachers


def rows_of_every_method() -> Sequence[str]:
    """Each method at its small size with its defaults, its ablations, and every choice of where it starts."""
    rows = []
    for name in methods.TABLE:
        method = methods.get(name)
        small = "".join(
            f":{key}={value}" for key, value in getattr(method, "tiny_settings", {}).items()
        )
        rows += [name + small, *(name + small + suffix for suffix in method.ablations.values())]
    shape = ":layers=2:hidden=12:heads=4:ffn=24"
    mobile = ":layers=2:hidden=16:bottleneck=8:heads=2:ffn=8:embedding=8:inverted=16"
    rows += [
        f"{name}{shape}:start={start}"
        for name, start in product(("kd", "microbert"), ("general", "random"))
    ]
    rows += [
        f"pd{shape}:start=masked",
        f"minilmv2{shape}:start=random",
        f"tinybert{shape}:start_from=x",
    ]
    rows += [
        "distilbert:pretraining=masked",
        "distilbert:pretraining=masked:start=random",
        "distilbert:start_from=x",
    ]
    rows += [
        f"mobilebert{mobile}:pretraining={kind}" for kind in ("auxiliary", "joint", "progressive")
    ]
    rows += [f"mobilebert{mobile}:start_from=x"]
    return list(dict.fromkeys(rows))


MARK = 7.0
"""What every prepared number is, so that a student shows which of its weights came from what was prepared."""


def marked(artefacts: Mapping[str, Mapping[str, Tensor]]) -> dict[str, dict[str, Tensor]]:
    def fill(value: Tensor) -> Tensor:
        return torch.full_like(value, MARK) if value.is_floating_point() else value

    return {
        name: {key: fill(value) for key, value in made.items()} for name, made in artefacts.items()
    }


def width_of_prepared_encoder(model: Any) -> int | None:
    """Width of the encoder whose first attention was prepared; None where it is random."""
    attention = [
        p
        for name, p in model.named_parameters()
        if "layer.0.attention" in name and p.dim() == 2 and "others" not in name
    ]
    # a mask that was prepared too multiplies
    prepared = [bool((p % MARK == 0).all()) for p in attention]
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
        teacher.hidden_size if isinstance(wish, TeacherWeights) else wish.encoder_width(teacher)
        for wish in wishes
    ]
    declared = [width for width in widths if width is not None]
    found = width_of_prepared_encoder(student.model)
    assert declared == ([] if found is None else [found])


ROWS_ON_TEXT = (
    f"kd:{tiny.SHAPE}",
    "distilbert:layers=2:pretraining=masked",
    f"minilm:{tiny.SHAPE}",
    f"pd:{tiny.SHAPE}:start=masked",
    "mobilebert:layers=2:hidden=16:bottleneck=8:heads=2:ffn=8:embedding=8:inverted=16:pretraining=progressive",
)
NAMED = {"general_start", "triple_loss", "relations", "ib_bert", "ib_transfer"}
"""Stages on text whose peak rate a paper or its authors' code names."""


def test_each_papers_rate_of_a_general_stage_is_for_its_recipe_alone(request_) -> None:
    common, papers = (
        {entry.artefact.name: entry for entry in build(asked).artefacts if entry.text}
        for asked in (
            request_(methods=",".join(ROWS_ON_TEXT), epochs=None, recipe=recipe)
            for recipe in ("common", "paper")
        )
    )
    assert (
        common.keys()
        == papers.keys()
        == {*NAMED, "masked_head", "cut_teacher", "masked_pretraining"}
    )
    moved = {name for name in common if common[name].key != papers[name].key}
    assert moved == NAMED  # what names nothing is one start for both recipes, under its old key
    for name, start in common.items():
        assert start.text.recipe == START
        assert papers[name].text.recipe.name == (PAPER_START if name in NAMED else START.name)


def test_a_general_stage_runs_as_its_paper_says_and_as_long_as_its_text() -> None:
    config, on_text = tiny.config(layers=4), replace(START, epochs=2.0)
    for row in ("distilbert:pretraining=masked", f"minilm:{tiny.SHAPE}"):
        for wish in parse_one(row).method.requires(config):
            own = wish.stages(Setup(config, 2, ()))
            plain, said = (
                schedule_stages(own, (), replace(on_text, name=n), 640)[1]
                for n in (START.name, PAPER_START)
            )
            assert [stage.steps for stage in plain] == [stage.steps for stage in said] == [40]
            assert [stage.recipe for stage in plain] == [on_text]
            if wish.name == "triple_loss":
                recipe = said[0].recipe
                assert (recipe.learning_rate, recipe.warmup, recipe.weight_decay) == (
                    5e-4,
                    0.05,
                    0.0,
                )
                assert (recipe.clip, recipe.betas, recipe.schedule) == (5.0, (0.9, 0.98), "linear")
