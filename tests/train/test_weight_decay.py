"""Weight decay: of matrices and vectors of embeddings, never of a bias or a LayerNorm, whatever they are called."""

from __future__ import annotations

import pytest
from torch import nn

import methods
from bench.conformance.tiny_bench import Bench
from bench.record.recipe import Recipe
from bench.train.student_trainer import is_not_decayed, optimizer_of

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
def test_no_bias_and_no_layer_norm_of_any_method_is_decayed(name: str) -> None:
    kind = methods.get(name)
    for settings in SETTINGS.get(name, ({},)):
        bench = Bench(kind(**{**getattr(kind, "tiny_settings", {}), **settings}), 2)
        students = [scene.student for scene in bench.scenes()]
        for part in (part for student in students for part in (student.model, student.aux)):
            for where, module in part.named_modules():
                for own, _ in module.named_parameters(recurse=False):
                    assert is_not_decayed(f"{where}.{own}") == described(module, own), f"{where}.{own}"


def test_the_decayed_group_has_the_rest() -> None:
    model = nn.ModuleDict({"lstm": nn.LSTM(2, 2), "sa_layer_norm": nn.LayerNorm(2), "lin": nn.Linear(2, 2)})
    made = optimizer_of(list(model.named_parameters()), Recipe())
    decayed = {group["weight_decay"]: {id(p) for p in group["params"]} for group in made.param_groups}
    matrices = {id(p) for p in model.parameters() if p.dim() == 2}
    assert decayed == {0.01: matrices, 0.0: {id(p) for p in model.parameters()} - matrices}
