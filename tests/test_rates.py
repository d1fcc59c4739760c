"""Which learning rate a row trains at: by what its encoder begins with and how wide that is, not by how the row is typed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any

import pytest
import tiny
import torch
from torch import Tensor
from transformers import BertConfig

import methods
from bench.plan.build import build
from bench.plan.recipe import TEACHER_LEARNING_RATES, Recipe
from bench.plan.request import Request
from bench.plan.spelling import parse_one
from bench.plan.students import tuned_like_the_teacher
from methods.api import GivesEncoder, Setup
from methods.parts import blank_artefacts

OWN, TEACHER = "students' own", "teacher's"
WIDE_TEACHER = BertConfig()  # BERT-base: 12 x 768
NARROW_TEACHER = BertConfig(num_hidden_layers=6, hidden_size=384, num_attention_heads=12, intermediate_size=1536)
SIX = "layers=6:hidden=768:ffn=3072"

CUT = ["distilbert", "distilbert:-cos", "pkd", "theseus", "fastbert", "moebert", "moebert:importance=random", "mtdnn"]
"""Out of the teacher, whatever its width."""
NARROW = [
    *("finetune", "kd", "tinybert", "microbert", "pd", "pd:start=masked", "minilm", "minilm:start=random", "minilmv2"),
    *("kd:start_from=some/encoder", "tinybert:hidden=504", "mobilebert:pretraining=joint:hidden=256"),
]
RANDOM = [
    *("bilstm", "mobilebert", "distilbert:start=random", "kd:start=random"),
    *(f"{name}:{SIX}:start=random" for name in ("finetune", "kd", "tinybert", "microbert", "pd")),
]
WIDE = [
    *(f"{name}:{SIX}" for name in ("finetune", "kd", "tinybert", "microbert", "pd", "minilm", "minilmv2")),
    *(f"pd:{SIX}:start=masked", f"minilm:{SIX}:start=random", f"kd:{SIX}:start_from=some/encoder"),
    *(f"mobilebert:pretraining={kind}" for kind in ("auxiliary", "joint", "progressive")),
    *("tinybert:hidden=516", "pd:layers=4:hidden=512:heads=8:ffn=2048:start=masked"),
]
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
def test_the_rate_of_every_shipped_method(teacher: str, row: str, rate: str) -> None:
    config = TEACHERS[teacher]
    wishes = parse_one(row).method.prepare(config)
    assert tuned_like_the_teacher(wishes, config) == (rate == TEACHER)


def test_the_matrix_has_every_shipped_method() -> None:
    for rows in EXPECTED.values():
        assert {row.split(":")[0] for row in rows} == set(methods.TABLE)


def rows_of_every_method() -> Sequence[str]:
    """Each method at its small size with its defaults, its ablations, and every choice of where it starts."""
    rows = []
    for name in methods.TABLE:
        method = methods.get(name)
        small = "".join(f":{key}={value}" for key, value in getattr(method, "small", {}).items())
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
        if "layer.0.attention" in name and p.dim() == 2 and "predec" not in name
    ]
    prepared = [bool((p == MARK).all()) for p in attention]
    assert len(set(prepared)) <= 1
    return int(model.config.hidden_size) if any(prepared) else None


@pytest.mark.parametrize("row", rows_of_every_method())
def test_what_a_method_declares_of_its_encoder_is_what_its_student_is_made_of(row: str) -> None:
    teacher = tiny.config(layers=4)
    method = parse_one(row).method
    wishes = method.prepare(teacher)
    several = "x" if getattr(method, "several_tasks", False) else ""
    prepared = marked(blank_artefacts(wishes, teacher, 2, several))
    student = method.build(Setup(teacher, 2, ("x",), prepared))
    declared = [wish.encoder_width(teacher) for wish in wishes if isinstance(wish, GivesEncoder)]
    found = width_of_prepared_encoder(student.model)
    assert declared == ([] if found is None else [found])


def test_two_rows_of_one_experiment_train_at_one_rate(glue_folder, tmp_path) -> None:
    """methods/experiments/distilbert.toml: both are pre-trained and as wide as their teacher."""
    wide = tiny.save_teacher(tmp_path / "wide", hidden=512, heads=8, layers=2)
    rows = "distilbert,distilbert:pretraining=masked:-soft:-cos,distilbert:start=random"
    request = Request(
        *(rows, "rte"), data=str(glue_folder), teacher=str(wide), results=tmp_path / "r", reports=tmp_path / "p"
    )
    cells = [planned.cell for planned in build(request).cells]
    rates = {cell.label: cell.recipe["learning_rate"] for cell in cells}
    of_wide = TEACHER_LEARNING_RATES[False]
    assert rates == {
        "teacher": of_wide,
        "distilbert": of_wide,
        "distilbert:pretraining=masked:-cos:-soft": of_wide,
        "distilbert:start=random": Recipe().learning_rate,
    }
