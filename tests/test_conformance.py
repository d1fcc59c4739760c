"""Every shipped method passes the conformance checks; each check finds a planted bug that no other finds."""

from __future__ import annotations

import copy
import itertools
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import pytest
import torch
from transformers import BertConfig

import methods
from bench.train.conformance import CHECKS, check_method
from methods import losses
from methods.api import MethodError, Needs, Student, Term
from methods.finetune import FineTune
from methods.kd import KD

QUICK = ("microbert",)
"""A general start, a discriminator, a router and two stages; the others are checked among the slow tests."""


@pytest.mark.parametrize(
    "name", [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in methods.TABLE]
)
def test_every_method_keeps_the_contract(name):
    found = {check.name: check.found for check in check_method(methods.get(name)) if not check.passed}
    assert not found


@dataclass(frozen=True, kw_only=True)
class SharesDoNotSumToOne(FineTune):
    def stages(self, setup):
        return [replace(stage, share=0.5) for stage in super().stages(setup)]


@dataclass(frozen=True, kw_only=True)
class AlwaysTwoLabels(FineTune):
    def build(self, setup):
        return super().build(replace(setup, num_labels=2))


def with_terms(stages, **terms):
    return [replace(stage, terms={**stage.terms, **terms}) for stage in stages]


@dataclass(frozen=True, kw_only=True)
class ClimbsInsteadOfDescending(FineTune):
    def stages(self, setup):
        def reversed_(batch, student, teacher, aux):
            value = losses.hard(student.logits, batch.labels)
            return 2 * value.detach() - value

        return with_terms(super().stages(setup), hard=Term(reversed_, student=Needs(logits=True)))


@dataclass(frozen=True, kw_only=True)
class TermLostInRounding(FineTune):
    terms: ClassVar[tuple[str, ...]] = ("hard", "decor")

    def stages(self, setup):
        decor = Term(lambda b, student, t, aux: student.logits.square().mean(), 1e-13, Needs(logits=True))
        return with_terms(super().stages(setup), decor=decor)


@dataclass(frozen=True, kw_only=True)
class ReadsWhatOthersDeclared(FineTune):
    terms: ClassVar[tuple[str, ...]] = ("hard", "more", "undeclared")

    def stages(self, setup):
        square = lambda b, student, t, aux: student.logits.square().mean()  # noqa: E731
        return with_terms(
            super().stages(setup), more=Term(square, 0.1, Needs(logits=True)), undeclared=Term(square, 0.1)
        )


@dataclass(frozen=True, kw_only=True)
class ShipsItsProjection(FineTune):
    def build(self, setup):
        student = super().build(setup)
        student.aux["projection"] = student.model.bert.pooler.dense
        return student


@dataclass(frozen=True, kw_only=True)
class SameStartForAllSeeds(FineTune):
    def build(self, setup):
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            return super().build(setup)


@dataclass(frozen=True, kw_only=True)
class CountsItsSteps(FineTune):
    """A schedule that hangs on a counter of its own, not on the progress that it is told."""

    def stages(self, setup):
        steps = itertools.count(1)

        def slower(batch, student, teacher, aux):
            return losses.hard(student.logits, batch.labels) / next(steps)

        return with_terms(super().stages(setup), hard=Term(slower, student=Needs(logits=True)))


@dataclass(frozen=True, kw_only=True)
class LosesSomethingWhenSaved(FineTune):
    def build(self, setup):
        student = super().build(setup)
        student.model.classifier.register_forward_hook(lambda module, inputs, output: output + 1)
        return student


class ConfigNobodyKnows(BertConfig):
    model_type = "nobody_knows"


@dataclass(frozen=True, kw_only=True)
class ShipsWhatTransformersCannotOpen(FineTune):
    def build(self, setup):
        student = super().build(setup)
        student.model.config.__class__ = ConfigNobodyKnows
        return student


@dataclass(frozen=True, kw_only=True)
class ShipsAnotherModel(FineTune):
    def deploy(self, student):
        model = copy.deepcopy(student.model)
        torch.nn.init.zeros_(model.classifier.weight)
        return {"": model}


@dataclass(frozen=True, kw_only=True)
class ChangesWhatOthersSee(FineTune):
    def stages(self, setup):
        def careless(batch, student, teacher, aux):
            loss = losses.hard(student.logits, batch.labels.clone())
            batch.labels.zero_()
            return loss

        return with_terms(super().stages(setup), hard=Term(careless, student=Needs(logits=True)))


@dataclass(frozen=True, kw_only=True)
class ClaimsOtherCosts(FineTune):
    def build(self, setup) -> Student:
        student = super().build(setup)
        student.model.bert.encoder.layer[0].macs_per_token = 10**4
        return student


@dataclass(frozen=True)
class NotAMethod:
    name: ClassVar[str] = "nothing"


def test_what_lacks_half_the_contract_is_told_what():
    (check,) = check_method(NotAMethod, ["contract"])
    assert check.found == "it lacks version, terms, ablations, needs_teacher, prepare, build, stages, deploy"
    with pytest.raises(KeyError):
        check_method(FineTune, ["beauty"])


def test_an_architecture_that_transformers_cannot_open_is_told_what_to_do():
    (check,) = check_method(ShipsWhatTransformersCannotOpen, ["saves"])
    assert "put @opened_by_transformers on" in check.found


@dataclass(frozen=True, kw_only=True)
class HeadThatIsNotSaved(FineTune):
    """Of its default everything is saved; the other head is a module that the configuration does not know of."""

    head: Literal["usual", "relu"] = "usual"

    def build(self, setup):
        student = super().build(setup)
        if self.head == "relu":
            student.model.dropout = torch.nn.ReLU()
        return student


@dataclass(frozen=True, kw_only=True)
class HookThatIsNotSaved(FineTune):
    """The modules are the default's; the answer is not."""

    doubled: bool = False

    def build(self, setup):
        student = super().build(setup)
        if self.doubled:
            student.model.classifier.register_forward_hook(lambda module, inputs, output: 2 * output)
        return student


@dataclass(frozen=True, kw_only=True)
class ChoiceThatIsRefused(FineTune):
    never: bool = False

    def __post_init__(self):
        super().__post_init__()
        if self.never:
            raise MethodError("never")


def found_by(kind, *checks, **settings):
    """What the named checks find, by their names."""
    return {done.name: done.found for done in check_method(kind, checks, settings=settings) if not done.passed}


@pytest.mark.parametrize(
    "kind, choice", [(HeadThatIsNotSaved, "head=relu answers"), (HookThatIsNotSaved, "doubled=true answers")]
)
def test_every_choice_of_a_setting_is_reopened(kind, choice):
    assert choice in found_by(kind, "saves")["saves"]


def test_a_choice_that_a_method_refuses_is_not_its_fault():
    assert not found_by(ChoiceThatIsRefused, "saves")


def test_the_head_of_tinyberts_code_is_reopened_as_itself():
    assert not found_by(methods.get("tinybert"), "saves")


@dataclass(frozen=True, kw_only=True)
class LabelledWrongly(KD):
    """Its full row is whole; what it is asked about is planted by each example below."""


SPELLINGS = {
    "a misspelt term": ({"w/o hard": ":-hrad"}, {}, "did you mean 'hard'"),
    "a misspelt setting": ({"warm": ":temprature=2"}, {}, "did you mean 'temperature'"),
    "a value of another type": ({"warm": ":temperature=hot"}, {}, "a number"),
    "a value that is refused": ({"all soft": ":alpha=2"}, {}, "between 0 and 1"),
    "a term that no stage has": ({"w/o more": ":-more"}, {}, "no term more to drop here; its terms are: hard, soft"),
    "no colon": ({"w/o hard": "-hard"}, {}, "begin with a colon"),
    "nothing": ({"w/o nothing": ""}, {}, "makes the same row as the full row"),
    "the default again": ({"cold": ":temperature=1"}, {}, "makes the same row as the full row"),
    "one row twice": ({"w/o hard": ":-hard", "soft alone": ":-hard"}, {}, "same row as 'w/o hard'"),
    "everything": ({"w/o all": ":-hard:-soft"}, {}, "every term that trains the student was dropped"),
    "a grid without its setting": ({}, {"temprature": (1.0,)}, "grid: temprature is no setting"),
    "a grid without values": ({}, {"temperature": ()}, "grid: temperature has no values"),
    "a whole number in a grid": ({}, {"temperature": (1.0, 2)}, "grid: temperature=2 should be a number"),
    "a refused value in a grid": ({}, {"alpha": (0.5, 1.5)}, "between 0 and 1"),
}


@pytest.mark.parametrize("what", SPELLINGS)
def test_what_a_class_promises_to_be_spelled_is_spelled(monkeypatch, what):
    ablations, grid, expected = SPELLINGS[what]
    monkeypatch.setattr(LabelledWrongly, "terms", (*KD.terms, "more"))
    assert not found_by(LabelledWrongly, "spellings parse")
    monkeypatch.setattr(LabelledWrongly, "ablations", ablations)
    monkeypatch.setattr(LabelledWrongly, "grid", grid)
    assert expected in found_by(LabelledWrongly, "spellings parse")["spellings parse"]


def test_dropping_a_term_of_weight_0_is_no_row_of_its_own(monkeypatch):
    lstm = methods.get("bilstm")  # the labels' loss has weight 0 there
    monkeypatch.setattr(lstm, "ablations", {"w/o labels": ":-hard"})
    assert "makes the same row as the full row" in found_by(lstm, "spellings parse")["spellings parse"]


def test_settings_for_tests_have_the_types_of_the_settings():
    found = found_by(SmallOfAnotherType, "spellings parse")
    assert found == {"spellings parse": "small: layers=2.0 should be of type int"}


@dataclass(frozen=True, kw_only=True)
class SmallOfAnotherType:
    """Not made of ``Settings``, which would refuse the value itself."""

    name: ClassVar[str] = "small"
    terms: ClassVar[tuple[str, ...]] = ("hard",)
    ablations: ClassVar[dict[str, str]] = {}
    small: ClassVar[dict[str, object]] = {"layers": 2.0}
    layers: int = 4

    def stages(self, setup):
        return FineTune().stages(setup)


@pytest.mark.parametrize("name", methods.TABLE)
def test_every_shipped_spelling_parses(name):
    assert not found_by(methods.get(name), "spellings parse")


@dataclass(frozen=True, kw_only=True)
class MisspeltLabel(KD):
    ablations: ClassVar[dict[str, str]] = {"w/o hard": ":-hrad"}


PLANTED = {
    "contract": SharesDoNotSumToOne,
    "spellings parse": MisspeltLabel,
    "forms": AlwaysTwoLabels,
    "loss falls": ClimbsInsteadOfDescending,
    "terms live": TermLostInRounding,
    "needs": ReadsWhatOthersDeclared,
    "aux stays": ShipsItsProjection,
    "seeded": SameStartForAllSeeds,
    "goes on": CountsItsSteps,
    "saves": LosesSomethingWhenSaved,
    "ships what it trained": ShipsAnotherModel,
    "alone or together": ChangesWhatOthersSee,
    "cost": ClaimsOtherCosts,
}


@pytest.mark.slow
@pytest.mark.parametrize("check", CHECKS)
def test_each_check_alone_finds_its_planted_bug(check):
    found = {done.name: done.found for done in check_method(PLANTED[check]) if not done.passed}
    assert set(found) == {check}, found
