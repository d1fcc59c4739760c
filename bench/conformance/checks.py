"""Check a method against the contract, on a tiny teacher and a tiny task: ours and anyone's.

from bench.api import check_method
assert all(check.passed for check in check_method(MyMethod))
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import math
import tempfile
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import numpy as np
import torch
from transformers import AutoModelForSequenceClassification, BertConfig

from bench.conformance.directions import taps_of_no_use, terms_that_move_nothing, wrong_signs
from bench.conformance.mixing import Finding, findings
from bench.conformance.tiny_bench import (
    EXAMPLES,
    OTHER_FAMILIES,
    RECIPE,
    SHORT,
    TASK,
    Bench,
    Broken,
    learned_weights,
    other_student,
    tiny_teacher_config,
)
from bench.errors import CellError, InputError, one_line
from bench.measure.flops import macs
from bench.measure.parameters import weights_hash
from bench.plan.scheduled_stages import kept_terms, schedule_stages
from bench.plan.spelling import convert, grid_of, parse_of, refuse_other_classes, settings_of
from bench.plan.untrained import untrained
from bench.record.stated import stated_in
from bench.request.text import as_typed
from bench.train.student_trainer import StudentTrainer, as_scalar, weight_at
from bench.train.training_state import TrainingStates
from methods.api import (
    Batch,
    Method,
    MethodError,
    Out,
    Setup,
    Stage,
    Student,
    Term,
    missing_members,
)
from methods.core.artefacts import sources
from methods.core.families import family_name, read_packed
from methods.core.models import cost, forward, padded, reads_texts, rounds_values
from methods.core.settings import check_setting

OF_REGRESSION = "of a regression"
NOT_TRAINED = "nothing is trained"
READ_FROM_FILE = ("version", "lacks", "remark", "rate_factor")
"""Members that tables and records read with no torch."""


def _is_stated(kind: type[Method], member: str) -> bool:
    """Whether the value of a class member can be read in the file that states it."""
    # the class that states it
    owner = next(base for base in kind.__mro__ if member in vars(base))
    try:
        return bool(stated_in(owner.__module__, owner.__name__, member) == vars(owner)[member])
    except (LookupError, SyntaxError, ValueError, OSError):
        return False


def _may_be_setting(name: str, known: Collection[str]) -> bool:
    """Whether a class member without a type is meant as a setting: no constant, nothing private."""
    return name not in known and not name.startswith("_") and not name.isupper()


Unseen = Sequence[str]
"""The questions that a check could not decide, each in words."""


def _refuse(found: Iterable[Finding]) -> Unseen:
    """Raise faults, and give back what could not be decided.

    Raises:
        Broken: there are faults.
    """
    all_found = list(found)
    faults = [finding.text for finding in all_found if finding.is_fault]
    if faults:
        raise Broken("; ".join(faults))
    return [finding.text for finding in all_found]


def _ask_alone(name: str, term: Term, batch: Batch, student: Student, teacher: Any) -> None:
    """Compute a term of nothing but its own taps.

    Raises:
        Broken: it reads something else, or what one of the models has not.
    """
    # layers that the teacher lacks
    depth = teacher.config.num_hidden_layers
    beyond = [str(tap) for tap in sorted(term.teacher) if max(tap.layers, default=0) > depth]
    if beyond:
        raise Broken(
            f"{name} reads {', '.join(beyond)}, but the teacher has {depth} layers; "
            "take their number from setup.teacher.num_hidden_layers"
        )

    # the term on its own taps
    ours = Out(batch.layout)
    theirs = Out(batch.layout)
    try:
        if term.student:
            ours = forward(student.model, batch, term.student)
        if term.teacher:
            theirs = forward(teacher, batch, term.teacher)
        as_scalar(name, term.fn(batch, ours.of_model(student.model), theirs, student.aux))
    except CellError as error:
        raise Broken(str(error)) from error
    except Exception as error:
        what = f"{type(error).__name__}: {error}"
        if isinstance(error, KeyError) and error.args and isinstance(error.args[0], int):
            what = f"the student has no layer {error}; take it from the settings"
        raise Broken(f"the term {name}: {what}") from error


class Trained:
    """One method and what it trains, once for all checks that look at it."""

    def __init__(self, method: type[Method], settings: Mapping[str, Any]) -> None:
        self.kind = method
        self._benches: dict[int, Bench] = {}
        self.tiny_settings: Mapping[str, Any] = method.tiny_settings
        self.method = method(**{**self.tiny_settings, **settings})

    def bench(self, num_labels: int = 2) -> Bench:
        if num_labels not in self._benches:
            self._benches[num_labels] = Bench(self.method, num_labels)
        return self._benches[num_labels]

    @functools.cached_property
    def trainer(self) -> StudentTrainer:
        """Trained with every term, two labels, seed 0."""
        return self.bench().trained()

    @functools.cached_property
    def together(self) -> tuple[str, bool]:
        """A hash of what it learns beside another student, and whether that one ends as alone."""
        # another student that is trained beside this one
        other, alone = other_student(torch.get_num_threads())
        beside = other.trainer()
        learned = learned_weights(self.bench().trained(beside=[beside]))
        return learned, learned_weights(beside) == alone

    @functools.cached_property
    def mixing(self) -> list[Finding]:
        found = [finding for scene in self.bench().scenes() for finding in findings(scene)]

        said = {finding.text for finding in found}
        # a regression has logits of another shape than its labels: a loss may take every pair
        regression = replace(self.bench(1).scenes()[0], title=OF_REGRESSION)
        for finding in findings(regression):
            if finding.text.removeprefix(f"{OF_REGRESSION}, ") not in said:
                found.append(finding)
        return found

    def stages(self) -> Sequence[Stage]:
        return self.method.stages(self.bench().setup)  # type: ignore[no-any-return]


class Suite(Trained):
    """The checks: every public method is one. It raises what is wrong, and returns what it could
    not decide."""

    def needs(self) -> Unseen:
        """Each term finds what it reads when nothing but its own taps were computed."""
        bench = self.bench()
        student, random = bench.build()
        if not isinstance(student.aux, torch.nn.ModuleDict):
            raise Broken(f"aux is {type(student.aux).__name__}; make it a torch.nn.ModuleDict")

        # each term alone, on one batch
        batch = bench.data.batch(range(4))
        unseen = []
        with random.current():
            for stage in self.stages():
                for name, term in stage.terms.items():
                    if term.unsupported:
                        unseen.append(f"stage {stage.name}, term {name}: {term.unsupported}")
                    else:
                        _ask_alone(name, term, batch, student, bench.teacher)
        return unseen

    def contract(self) -> None:
        """A method is a dataclass whose settings have defaults, and declares what it trains with.

        Every term is declared, epoch fractions sum to 1, and a teacher that is read is announced.
        """
        self._settings_are_fields()
        stages = self.stages()
        declared = set(self.method.terms)
        # terms that a stage has and the method does not name
        unknown: set[str] = set()
        for stage in stages:
            unknown |= stage.terms.keys() - declared
        if unknown:
            raise Broken(f"terms that `terms` does not name: {', '.join(sorted(unknown))}")

        # epochs are dealt out to stages
        share = sum(stage.epoch_fraction for stage in stages if not stage.extra_steps)
        if stages and abs(share - 1) > 1e-6:
            raise Broken(f"the epoch fractions of its stages sum to {share:g}, not 1")
        self._teacher_is_announced(stages)

    def _settings_are_fields(self) -> None:
        """Refuse class members that look like settings and are none, and unreadable ones."""
        kind = self.kind
        # annotated without @dataclass
        annotated = {
            name
            for name, hint in vars(kind).get("__annotations__", {}).items()
            if "ClassVar" not in str(hint)
        }
        not_fields = sorted(annotated - {setting.name for setting in fields(kind)})
        if not_fields:
            names = ", ".join(not_fields)
            raise Broken(
                f"{names} would be no setting: "
                "put @dataclass(frozen=True, kw_only=True) before the class"
            )

        # a value without an annotation
        known = {*inspect.get_annotations(kind), *dir(Method), *Method.__annotations__}
        untyped = [
            name
            for name, value in vars(kind).items()
            if type(value) in (bool, int, float, str) and _may_be_setting(name, known)
        ]
        if untyped:
            example = f"{untyped[0]}: float = 0.5"
            names = ", ".join(untyped)
            raise Broken(f"{names} has no type, so it is no setting: write it like {example}")

        # members that tables read without importing the class
        unreadable = [name for name in READ_FROM_FILE if not _is_stated(kind, name)]
        if unreadable:
            names = ", ".join(unreadable)
            raise Broken(
                f"tables read {names} in the class's file, without importing it: "
                "write the value itself there, as a literal"
            )

    def _teacher_is_announced(self, stages: Sequence[Stage]) -> None:
        """Refuse a ``needs_teacher`` that differs from what terms and artefacts read."""
        method = self.method
        reading = []
        for stage in stages:
            reading += [name for name, term in kept_terms(stage, ()).items() if term.teacher]
        if reading and not method.needs_teacher:
            raise Broken(f"needs_teacher is False, but the term {reading[0]} reads the teacher")
        teacher = tiny_teacher_config()
        made_from: set[str] = set()
        for artefact in method.requires(teacher):
            made_from.update(source.kind for source in sources(artefact, teacher))
        if method.needs_teacher and not reading and "fine_tuned" not in made_from:
            raise Broken(
                "needs_teacher is True, but no term reads the teacher and no artefact comes from "
                "the tuned one"
            )

    def settings_can_be_typed(self) -> None:
        """Each of ``ablations`` spells a row of its own, and values are of the settings' types.

        ``search_space`` and ``tiny_settings`` name settings and values of their types.
        """
        # every variant is a row of its own
        rows = [("the full row", self._row(""))]
        for label, suffix in self.kind.ablations.items():  # type: ignore[attr-defined]
            what = f"ablations, {label!r}: {suffix!r}"
            try:
                row = self._row(suffix)
            except (InputError, CellError) as error:
                raise Broken(f"{what}: {error}") from None
            same = [other for other, known in rows if known == row]
            if same:
                raise Broken(f"{what} makes the same row as {same[0]}")
            rows.append((repr(label), row))

        # every setting: its default, its value in tests, and the values that tune tries
        offered = settings_of(self.kind)
        for name, hint in offered.items():
            try:
                convert(name, as_typed(vars(self.method)[name]), hint)
            except InputError as error:
                raise Broken(str(error)) from None
        for name, value in self.tiny_settings.items():
            self._accepts("tiny_settings", name, value, offered)
        for name, values in grid_of(self.kind).items():
            if name not in offered:
                raise Broken(f"search_space: {name} is no setting")
            if not values:
                raise Broken(f"search_space: {name} has no values")
            for value in values:
                self._accepts("search_space", name, value, offered)
                self._reads_as_typed(name, value)

    def _row(self, suffix: str) -> tuple[Mapping[str, Any], list[tuple[str, list[str]]]]:
        """The settings of a row, and its stages with the names of their terms.

        They are those for a teacher like BERT-base.

        Raises:
            InputError: it cannot be spelled.
            CellError: it drops a term that no stage has, or leaves nothing to train.
        """
        if suffix and not suffix.startswith(":"):
            raise InputError("it should begin with a colon")
        row = parse_of(self.kind, f"{self.method.name}{suffix}")
        try:
            stages = row.method.stages(Setup(BertConfig(), 2, (TASK,)))
        except MethodError:
            return row.settings, []  # it needs another teacher, which a plan demands
        preparation, counted = schedule_stages(stages, row.dropped, RECIPE, EXAMPLES)
        named = [
            (scheduled.stage.name, sorted(scheduled.terms))
            for scheduled in (*preparation, *counted)
        ]
        return row.settings, named

    def _accepts(self, where: str, name: str, value: Any, offered: Mapping[str, Any]) -> None:
        """Refuse a value that is none of a setting's type."""
        try:
            check_setting(name, value, offered[name])
        except (InputError, ValueError) as error:
            raise Broken(f"{where}: {error}") from None

    def _reads_as_typed(self, name: str, value: Any) -> None:
        """Refuse a value of ``search_space`` that a row cannot spell, or reads otherwise."""
        try:
            typed = parse_of(self.kind, f"{self.method.name}:{name}={value}")
        except (InputError, ValueError) as error:
            raise Broken(f"search_space: {error}") from None
        read = vars(typed.method)[name]
        if read != value:
            raise Broken(f"search_space: {name}={value} is read as {read}")

    def forms(self) -> None:
        """Every form of task trains, and has logits of its shape.

        They are two labels, three labels, a regression and, where the method says so, spans.
        """
        # each form with the shape of its logits
        forms: dict[str, tuple[Bench, tuple[int, int]]] = {}
        for number in (1, 2, 3):
            forms[f"with {number} outputs"] = (self.bench(number), (8, number))
        if self.kind.spans:
            bench = Bench(self.method, 2, spans=True)
            longest = max(map(len, bench.data.tokens[:8]))
            forms["of spans"] = (bench, (16, longest))
        for name, (bench, expected) in forms.items():
            trainer = self.trainer if bench is self.bench() else bench.trained_briefly()
            models = {"in training": trainer.student.model, **bench.deployed(trainer)}
            for point, model in models.items():
                shape = tuple(bench.logits(model).shape)
                if shape != expected:
                    what = f"{name}, {point or 'deployed'}"
                    raise Broken(f"{what}: logits {shape}, expected {expected}")

    def loss_falls(self) -> Unseen:
        """The loss of the student is smaller at the end of every stage than at its beginning."""
        curves = self.trainer.log.terms
        before = self.trainer.schedule["preparation"]
        unseen = [f"stage {scheduled.stage.name}: it prepares others" for scheduled in before]
        if not self.trainer.schedule["counted"]:
            unseen.append(NOT_TRAINED)
        for scheduled in self.trainer.schedule["counted"]:
            stage = scheduled.stage.name
            # the loss of the student: its terms with their weights, step by step
            total = np.zeros(len(next(iter(curves[stage].values()))))
            for name, term in scheduled.terms.items():
                # a penalty on parameters alone may rise: a constraint with multipliers does
                if term.player == "main" and term.student:
                    total += weight_at(term, 0.5) * np.array(curves[stage][name])
            if len(total) < 2:
                unseen.append(f"stage {stage}: it has one step")
                continue
            # the first quarter of the steps and the last one
            part = max(1, len(total) // 4)
            first = total[:part].mean()
            last = total[-part:].mean()
            if not last < first:
                raise Broken(f"stage {stage}: its loss goes from {first:.4g} to {last:.4g}")
        return unseen

    def terms_have_an_effect(self) -> None:
        """Dropping a term changes what is learned in a short training.

        A term that begins late may change the whole training alone.
        """
        # first the short training, where it is possible
        trainings = [(RECIPE, learned_weights(self.trainer))]
        with contextlib.suppress(Broken):
            trainings.insert(0, (SHORT, learned_weights(self.bench().trained(recipe=SHORT))))

        # every term of every stage
        names: set[str] = set()
        for stages in self.trainer.schedule.values():
            for stage in stages:
                names.update(stage.terms)
        for name in sorted(names):
            try:
                is_without_effect = all(
                    learned_weights(self.bench().trained(dropped=(name,), recipe=recipe)) == learned
                    for recipe, learned in trainings
                )
            except CellError as error:
                if "every term that trains the student was dropped" not in str(error):
                    raise
                # it is the only term: that it has an effect was seen by the loss that falls
                continue
            if is_without_effect:
                raise Broken(f"dropping {name} changes nothing: it adds nothing")

    def taps_are_used(self) -> Unseen:
        """Each term reads all taps that it declares, and has a gradient at all of the student."""
        return _refuse(
            finding for scene in self.bench().scenes() for finding in taps_of_no_use(scene)
        )

    def terms_pull_to_the_teacher(self) -> Unseen:
        """A term that reads both models is least where the student is like the teacher, or, where
        it compares sequences, where each sequence is like the same sequence of the teacher."""
        return _refuse(finding for scene in self.bench().scenes() for finding in wrong_signs(scene))

    def terms_move_the_deployed(self) -> Unseen:
        """Every term gives what is deployed a gradient, and not only ``aux``."""
        # the parameters of what is deployed, and the scenes of artefacts
        methods_own, *artefacts = self.bench().scenes()
        deployed: set[int] = set()
        for model in self.method.deploy(methods_own.student).values():
            deployed.update(id(parameter) for parameter in model.parameters())
        found = list(terms_that_move_nothing(methods_own, deployed))
        for scene in artefacts:
            found += terms_that_move_nothing(scene, None)
        return _refuse(found)

    def sequences_do_not_mix(self) -> Unseen:
        """The gradient of a term at one sequence keeps its direction whatever the others are.

        A term that is ``across_batch`` need not keep it.
        """
        return _refuse(finding for finding in self.mixing if not finding.of_padding)

    def padding_has_no_effect(self) -> Unseen:
        """No term reads a place without a token, or divides by the number of such places."""
        return _refuse(finding for finding in self.mixing if finding.of_padding)

    def aux_is_not_deployed(self) -> None:
        """Nothing of ``aux`` is in what is deployed."""
        # parameters by where they lie: what is shared has one place
        aux = {p.data_ptr(): name for name, p in self.trainer.student.aux.named_parameters()}
        for point, model in self.bench().deployed(self.trainer).items():
            deployed = [name for name, p in model.named_parameters() if p.data_ptr() in aux]
            if deployed:
                where = f" at {point}" if point else ""
                names = ", ".join(deployed)
                raise Broken(f"deployed{where} although it belongs to aux: {names}")

    def seeded(self) -> None:
        """The same seed begins and ends with the same weights, another one with others.

        Where a method says that all seeds begin alike, they have to end differently.
        """
        bench = self.bench()
        learned = learned_weights(self.trainer)
        # beside another student it is trained again: alone only where that ends otherwise, or
        # cannot be (of one that writes)
        again = ""
        with contextlib.suppress(Broken):
            again = "" if self.kind.writes else self.together[0]
        if again != learned and learned_weights(bench.trained(seed=0)) != learned:
            raise Broken(
                "two trainings with the same seed differ: something draws outside of torch's "
                "generator"
            )

        # how students of equal and of different seeds begin
        beginnings = [weights_hash(bench.build(seed)[0].model) for seed in (0, 0, 1)]
        if beginnings[0] != beginnings[1]:
            raise Broken("two students built with the same seed differ")
        if not self.method.same_init_across_seeds:
            if beginnings[0] == beginnings[2]:
                raise Broken("students of two seeds begin alike: the seed decides nothing")
        elif self.stages() and learned_weights(bench.trained(seed=1)) == learned:
            raise Broken("trainings of two seeds end alike: the seed decides nothing")

    def resumes(self) -> Unseen:
        """Interrupted in the middle and resumed by new objects, it ends with the same weights.

        They are equal to the bit.
        """
        if not self.stages():
            return [NOT_TRAINED]
        bench = self.bench()
        before: list[str] = []
        after: list[str] = []
        done = [0]

        # one training that stops in the middle, another that goes on
        middle = sum(self.trainer.steps(series) for series in ("preparation", "counted")) // 2
        with tempfile.TemporaryDirectory() as folder:
            first = TrainingStates(
                ["tiny"], before.append, folder=Path(folder), is_stopping=lambda: done[0] >= middle
            )
            second = TrainingStates(["tiny"], after.append, folder=Path(folder))
            with contextlib.suppress(KeyboardInterrupt):
                bench.trained(states=first, on_step=lambda steps, total: done.__setitem__(0, steps))
            again = bench.trained(states=second)
        if before or not after:
            why = "; ".join(before) or "nothing was written"
            raise Broken(f"its state could not be saved and resumed: {why}")
        is_equal = learned_weights(again) == learned_weights(self.trainer)
        if not is_equal or again.log.terms != self.trainer.log.terms:
            raise Broken(
                f"resumed at step {middle} it ends with other weights or losses than in one go: "
                "it keeps something between steps that is neither a parameter nor a persistent "
                "buffer"
            )
        return ()

    def saves(self) -> Unseen:
        """A shipped model answers the same after it was saved and opened by transformers.

        That holds with every choice of its settings.
        """
        bench = self.bench()
        for point, model in bench.deployed(self.trainer).items():
            self._reopens(point or "the model", model)

        # what it ships with its settings, then with each other choice
        known = {name: self._probe(model) for name, model in self._shipped(self.method).items()}
        unseen = []
        for setting, value in self._choices():
            what = f"{setting}={as_typed(value)}"
            try:
                shipped = self._shipped(replace(self.method, **{setting: value}))
            except MethodError as error:
                # the method refuses this choice with its other settings, or with this teacher
                unseen.append(f"{what}: {error}")
                continue
            except Exception as error:
                raise Broken(f"{what}: {type(error).__name__}: {error}") from error
            for point, model in shipped.items():
                # another module, or another answer of equal weights
                if self._probe(model) != known.get(point):
                    self._reopens(f"{what}{', ' if point else ''}{point}", model)
        return unseen

    def _choices(self) -> Iterator[tuple[str, Any]]:
        """Each other value of the settings that have a few: names and switches."""
        for setting, hint in settings_of(self.kind).items():
            values: tuple[Any, ...] = ()
            if get_origin(hint) is Literal:
                values = get_args(hint)
            elif hint is bool:
                values = (False, True)
            for value in values:
                if value != vars(self.method)[setting]:
                    yield setting, value

    def _shipped(self, method: Any) -> Mapping[str, Any]:
        """The models that a method ships, with weights that nobody trained.

        They have equal values where names and shapes are equal.
        """
        # equal names and shapes get equal values
        models = untrained(method, self.bench().teacher.config, 2)
        for model in models.values():
            for name, parameter in model.named_parameters():
                chance = np.random.default_rng(list(name.encode()))
                values = chance.normal(0, 0.2, parameter.shape).astype(np.float32)
                parameter.data.copy_(torch.from_numpy(values))
        return models

    def _probe(self, model: Any) -> tuple[Any, ...]:
        """The modules and answers of a model, which tell two of equal weights apart."""
        modules = [(name, type(module)) for name, module in model.named_modules()]
        return modules, self.bench().logits(model).tolist()

    def _reopens(self, what: str, model: Any, bench: Bench | None = None) -> Any:
        """The model as transformers opens its saved folder.

        Raises:
            Broken: it is not opened, or answers differently.
        """
        bench = self.bench() if bench is None else bench
        with tempfile.TemporaryDirectory() as folder:
            # its files
            model.save_pretrained(folder)
            files = {path.suffix for path in Path(folder).iterdir()}
            if not {".safetensors"} <= files <= {".safetensors", ".json"}:
                kinds = ", ".join(sorted(files))
                raise Broken(f"{what} is saved as {kinds}; expected .safetensors and .json")
            # what is drawn for weights that the files lack
            torch.manual_seed(11)
            try:
                again = AutoModelForSequenceClassification.from_pretrained(folder)
            except ValueError as error:
                kind = type(model).__name__
                raise Broken(
                    f"{what}: transformers does not open it: put @opened_by_transformers on "
                    f"{kind} ({error})"
                ) from None

        # the same answers from the files
        if family_name(again):
            read_packed(again)
        gap = (bench.logits(model) - bench.logits(again)).abs().max()
        if float(gap) != 0:
            raise Broken(
                f"{what} answers differently after loading, by up to {float(gap):.2g}: something "
                "is not in its weights and its configuration; where the class is its own, it needs "
                "a model_type and @opened_by_transformers"
            )
        return again

    def families(self) -> Unseen:
        """Beside a teacher of another family it trains.

        What it ships is opened by transformers, gives padded sequences the same answers, and costs
        what is said.
        """
        unseen = []
        for family in OTHER_FAMILIES:
            bench = Bench(self.method, 2, family=family)
            try:
                self.method.requires(bench.teacher.config)
            except MethodError as error:
                unseen.append(f"{family}: {error}")
                continue
            try:
                for point, model in bench.deployed(bench.trained_briefly()).items():
                    self._answers_padded(point or "the model", model, bench)
            except Broken as error:
                raise Broken(f"a teacher of {family}: {error}") from error
        return unseen

    def _answers_padded(self, what: str, model: Any, bench: Bench) -> None:
        """Open a model by transformers, and ask it padded sequences.

        Raises:
            Broken: it answers otherwise, or costs something else.
        """
        opened = self._reopens(what, model, bench)
        opened.set_attn_implementation("eager")
        batch = bench.data.batch(range(8))
        if not reads_texts(model):
            with torch.no_grad():
                gap = (padded(opened.eval(), batch).logits - bench.logits(model)).abs().max()
            # where numbers are rounded, their last digits become steps
            if not float(gap) <= (1.0 if rounds_values(model) else 1e-5):
                raise Broken(f"{what}: padded answers differ by up to {float(gap):.2g}")
        traced = macs(opened, 32)
        closed = cost(model).of_length(32)
        if not math.isclose(traced, closed, rel_tol=0.01):
            raise Broken(f"{what}: {traced:,} MACs at length 32 are traced, {closed:,} said")

    def deploys_what_it_trained(self) -> Unseen:
        """The shipped model answers like the trained one (to rounding)."""
        bench = self.bench()
        # several deployed models are pruned or cut, each in its way
        deployed = bench.deployed(self.trainer)
        if len(deployed) > 1:
            return ["it deploys several models, which differ on purpose"]
        (shipped,) = deployed.values()
        differences = bench.logits(shipped) - bench.logits(self.trainer.student.model)
        gap = float(differences.abs().max())
        if not gap < 1e-4:
            raise Broken(
                f"the shipped model's logits differ from the trained one's by up to {gap:.2g}"
            )
        return ()

    def alone_or_together(self) -> None:
        """Beside another student both end with the same weights as alone, to the bit."""
        # each is compared with itself alone
        learned, is_other_the_same = self.together
        if learned != learned_weights(self.trainer):
            raise Broken(
                "trained beside another student it ends with other weights: "
                "the two share some state"
            )
        if not is_other_the_same:
            raise Broken(
                "another student trained beside it ends with other weights: "
                "it changes what others see"
            )

    def cost(self) -> None:
        """Traced multiply-accumulates are within 1 % of the closed form."""
        for model in self.bench().deployed(self.trainer).values():
            # only eager attention is traced
            kernel = model.config._attn_implementation  # type: ignore[union-attr]
            model.set_attn_implementation("eager")  # type: ignore[operator]
            try:
                traced = macs(model, 32)
                closed = cost(model).of_length(32)
            finally:
                model.set_attn_implementation(kernel)  # type: ignore[operator]
            if not math.isclose(traced, closed, rel_tol=0.01):
                counted = f"fvcore counts {traced:,} MACs at length 32"
                raise Broken(f"{counted}, the closed form {closed:,}")


CHECKS: Mapping[str, Callable[[Suite], Unseen | None]] = {
    name.replace("_", " "): check for name, check in vars(Suite).items() if not name.startswith("_")
}
OF_CLASSIFIERS = {
    "forms",
    "sequences do not mix",
    "padding has no effect",
    "saves",
    "alone or together",
    "families",
}
"""Checks that a model which writes is not put to."""


@dataclass(frozen=True)
class Check:
    """The outcome of one check.

    Attributes:
        found: what is wrong; empty where nothing is.
        unseen: what could not be decided, each in words. A check that has found nothing has then
            not looked at everything.
    """

    name: str
    found: str
    seconds: float
    unseen: tuple[str, ...] = ()

    @property
    def passed(self) -> bool:
        return not self.found

    @property
    def said(self) -> str:
        """One line: what is wrong, else what was not looked at, else ``ok``."""
        not_looked_at = f"not looked at: {'; '.join(self.unseen)}" if self.unseen else ""
        return one_line(self.found or not_looked_at or "ok")

    def as_dict(self) -> dict[str, Any]:
        """As ``--json`` prints it."""
        return {
            "check": self.name,
            "found": self.found,
            "not_looked_at": list(self.unseen),
            "seconds": self.seconds,
        }


def check_method(
    method: type[Method],
    names: Sequence[str] = (),
    on_check: Callable[[Check], Any] = lambda check: None,
    settings: Mapping[str, Any] | None = None,
) -> list[Check]:
    """Run the checks (all, or those named) on a method's class.

    Those after ``needs`` are run only if that one passes.

    Args:
        settings: instead of its defaults, and of those for tests.

    Raises:
        KeyError: a check that does not exist.
        InputError: it is not written for today's contract.
    """
    refuse_other_classes(method.__name__, method)
    chosen = {name: CHECKS[name] for name in names or CHECKS}
    try:
        suite = _suite(method, settings or {})
    except Broken as error:  # no check can run
        check = Check("contract", str(error), 0.0)
        on_check(check)
        return [check]
    done: list[Check] = []
    for name, look in chosen.items():
        check = _done(name, look, suite)
        done.append(check)
        on_check(check)
        if name == "needs" and not check.passed:
            break  # whatever trains or reads terms would fail for the same reason
    return done


def _suite(method: type[Method], settings: Mapping[str, Any]) -> Suite:
    """The checks of a method.

    Raises:
        Broken: it has not the members of a method, or cannot be made.
    """
    missing = missing_members(method)
    if missing:
        raise Broken(f"it lacks {', '.join(missing)}")
    try:
        return Suite(method, settings)
    except Exception as error:
        raise Broken(f"it cannot be made with its settings for tests: {error}") from None


def _done(name: str, look: Callable[[Suite], Unseen | None], suite: Suite) -> Check:
    """The outcome of one check of a method."""
    if suite.kind.writes and name in OF_CLASSIFIERS:
        return Check(name, "", 0.0, ("its students write texts",))
    begun = time.perf_counter()
    wrong = ""
    unseen: Unseen = ()
    try:
        unseen = look(suite) or ()
    except Broken as error:
        wrong = str(error)
    except Exception as error:
        wrong = f"{type(error).__name__}: {error}"
    return Check(name, wrong, round(time.perf_counter() - begun, 3), tuple(unseen))
