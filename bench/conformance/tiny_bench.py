"""A tiny teacher, a tiny task and a method between them: what the checks of a method train on."""

from __future__ import annotations

import copy
import functools
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from transformers import AutoConfig, BertConfig, PreTrainedModel

from bench.conformance.mixing import Scene
from bench.data.encoding import Encoded, MaskingVocabulary
from bench.data.spans import SpanQuestions
from bench.data.table_files import Answers
from bench.errors import CellError
from bench.make.given import Given, tensors_of
from bench.measure.parameters import weights_hash
from bench.plan.scheduled_stages import schedule_stages
from bench.record.recipe import Recipe
from bench.train.loop import LoopOptions, train_task
from bench.train.numerics import ComputeSettings, RandomState
from bench.train.student_trainer import StudentTrainer
from methods import get
from methods.api import Setup, Stage, Student
from methods.core.artefacts import (
    CORPUS,
    Artefact,
    PretrainingStage,
    Source,
    artefact_name,
    is_of_task,
    sources,
)
from methods.core.models import forward
from methods.core.parts import new_classifier
from methods.core.taps import LOGITS
from methods.core.terms import hard

WORDS = 40
SPECIAL = 4
"""Token ids: [PAD], [UNK] (which is also [MASK]), [CLS], [SEP], then words."""
MASK = 1


RECIPE = Recipe(epochs=3.0, batch_size=16, learning_rate=3e-3)
SHORT = replace(RECIPE, epochs=1.0)
"""A recipe for checks that need one step a stage; a term that begins late may need more."""


EXAMPLES = 96


TASK = "tiny"


OTHER_FAMILIES: Mapping[str, Mapping[str, Any]] = {
    "roberta": {"type_vocab_size": 1},
    # narrower than the layers
    "electra": {"embedding_size": 12},
    "mpnet": {},
    "modernbert": {"local_attention": 4}
    | {f"{token}_token_id": 0 for token in ("cls", "sep", "bos", "eos")},
}
"""Families of teachers that run packed, beside BERT -> further fields of their configurations."""


class Broken(Exception):
    """A method does something that the contract does not allow."""


def tiny_task(num_labels: int, spans: bool = False) -> Encoded:
    """Sentences of 5 to 13 tokens whose label is decided by one word among noise, or whose span is
    from that word to the next.
    """
    rng = np.random.default_rng(0)
    classes = max(num_labels, 2)
    tokens = []
    labels: list[Any] = []
    for _ in range(EXAMPLES):
        # a sentence of noise with the word of its label
        label = int(rng.integers(classes))
        words = rng.integers(SPECIAL + classes, SPECIAL + WORDS, size=int(rng.integers(3, 12)))
        place = int(rng.integers(len(words)))
        words[place] = SPECIAL + label
        tokens.append(np.concatenate([[2], words, [3]]).astype(np.int64))
        labels.append([place + 1, min(place + 2, len(words))] if spans else label)

    # the form that encoded data have
    kind = torch.float32 if num_labels == 1 else torch.int64
    segments = [np.zeros_like(row) for row in tokens]
    texts = [(_words(row), None) for row in tokens]
    questions = SpanQuestions((), (), Answers((), False, ()), ()) if spans else None
    return Encoded(
        tokens,
        segments,
        torch.tensor(labels, dtype=kind),
        list(range(EXAMPLES)),
        texts,
        pad=0,
        questions=questions,
    )


def _words(tokens: np.ndarray) -> str:
    """The text of a sentence, without its special tokens."""
    return " ".join(f"word{token}" for token in tokens[1:-1])


def tiny_pairs() -> Encoded:
    """The same sentences, each with itself backwards as the text to write."""
    data = tiny_task(2)
    # the text to write, behind the sentence itself
    backwards = [np.append(row[-2:0:-1], 3) for row in data.tokens]
    tokens = [np.concatenate(pair) for pair in zip(data.tokens, backwards, strict=True)]
    segments = [
        np.repeat([0, 1], [len(a), len(b)]) for a, b in zip(data.tokens, backwards, strict=True)
    ]
    texts = [(text, " ".join(reversed(text.split()))) for text, _ in data.texts]
    return replace(data, tokens=tokens, segments=segments, labels=None, texts=texts)


def tiny_teacher_config(family: str = "bert") -> Any:
    shape: dict[str, Any] = {
        "vocab_size": SPECIAL + WORDS,
        "hidden_size": 24,
        "num_hidden_layers": 4,
        "num_attention_heads": 4,
        "intermediate_size": 48,
    }
    if family == "bert":
        return BertConfig(**shape, max_position_embeddings=32)
    return AutoConfig.for_model(
        family, **shape, **OTHER_FAMILIES[family], pad_token_id=0, max_position_embeddings=48
    )


@functools.cache
def tiny_teacher(
    num_labels: int, threads: int, spans: bool = False, family: str = "bert"
) -> PreTrainedModel:
    """The teacher of one form of task, tuned once for all methods of a process.

    Args:
        threads: of torch now; with another number its bits would be others.
    """
    # a model of a few numbers, with weights of its own seed
    config = tiny_teacher_config(family)
    config.num_labels = num_labels
    data = tiny_task(num_labels, spans)
    numerics = ComputeSettings()
    random = RandomState(7, numerics.device)
    with random.current():
        model = new_classifier(Setup(config, num_labels, (TASK,)), config.num_hidden_layers)

    # fine-tune it
    scheduled = schedule_stages([Stage("finetune", {"hard": hard()})], (), RECIPE, len(data))[1]
    trainer = StudentTrainer("teacher", Student(model), random, [], scheduled, numerics)
    train_task([trainer], data, None, LoopOptions(7, numerics, RECIPE.batch_size))
    return model.eval()  # type: ignore[no-any-return]


def _forms(tensors: Mapping[str, Tensor]) -> dict[str, tuple[torch.dtype, torch.Size]]:
    """The type and shape of each tensor of an artefact, but for its first dimension.

    That may be the number of examples, which ``blank`` does not know (docs/extend.md).
    """
    return {name: (tensor.dtype, tensor.shape[1:]) for name, tensor in tensors.items()}


class Bench:
    """One form of task with its teacher, and trainings of one method on it."""

    def __init__(
        self, method: Any, num_labels: int, spans: bool = False, family: str = "bert"
    ) -> None:
        self.method = method
        self.num_labels = num_labels
        self.spans = spans
        self.data = tiny_pairs() if method.writes else tiny_task(num_labels, spans)
        self.numerics = ComputeSettings()
        # a method may spoil its own
        tuned = tiny_teacher(num_labels, torch.get_num_threads(), spans, family)
        self.teacher: Any = copy.deepcopy(tuned)
        self._made: dict[Artefact, Mapping[str, Tensor]] = {}
        self._trained_on_rows: dict[Artefact, Scene] = {}

    @functools.cached_property
    def setup(self) -> Setup:
        config = self.teacher.config
        parts = {}
        for artefact in self.method.requires(config):
            name = artefact_name(artefact, config, TASK, self.method.multitask)
            parts[name] = self.artefact(artefact)
        return Setup(config, self.num_labels, (TASK,), parts, spans=self.spans)

    def artefact(self, artefact: Artefact) -> Mapping[str, Tensor]:
        """An artefact, made once of the tiny teacher, the tiny task and its sentences.

        Raises:
            Broken: its training fails, or its tensors are not those that ``blank`` says.
        """
        if artefact not in self._made:
            self._made[artefact] = self._make(artefact)
        return self._made[artefact]

    def _make(self, artefact: Artefact) -> Mapping[str, Tensor]:
        # what it should be
        blank = self._blank(artefact)
        if any(source.kind == "checkpoint" for source in sources(artefact, self.teacher.config)):
            return blank  # a real checkpoint does not fit this teacher
        try:
            tensors, _ = tensors_of(_GivenTinyInputs(self, artefact))
        except CellError as error:
            raise Broken(f"{artefact.name}: {error}") from error

        # has it the tensors that blank says?
        made = _forms(tensors)
        said = _forms(blank)
        if made != said:
            differing = sorted(name for name in {*made, *said} if made.get(name) != said.get(name))
            names = ", ".join(differing)
            raise Broken(f"{artefact.name}: make gives other tensors than blank says: {names}")
        return tensors

    def _blank(self, artefact: Artefact) -> Mapping[str, Tensor]:
        with RandomState(3, self.numerics.device).current():
            return artefact.blank(self.teacher.config, self._setup_of(artefact, {}).num_labels)

    def _setup_of(self, artefact: Artefact, parts: Mapping[str, Mapping[str, Tensor]]) -> Setup:
        if is_of_task(artefact, self.teacher.config):
            return Setup(self.teacher.config, self.num_labels, (TASK,), parts, spans=self.spans)
        return Setup(self.teacher.config, 2, (), parts)

    @property
    def text(self) -> Encoded:
        """The same sentences without their labels."""
        # what masking needs
        vocabulary = MaskingVocabulary(MASK, frozenset(range(SPECIAL)), SPECIAL + WORDS)
        return replace(self.data, labels=None, vocabulary=vocabulary, questions=None)

    def scenes(self) -> list[Scene]:
        """Where terms are looked at: the method's own stages, and those of every artefact behind
        it that is trained, on text or on a task's rows."""
        # the method's own stages
        setup = self.setup
        student, _ = self.build()
        stages = functools.partial(self.method.stages, setup)
        scenes = [Scene("", student, self.teacher, stages, self.data, MASK)]

        # the artefacts that it needs, and those that these are made of
        artefacts = list(self.method.requires(self.teacher.config))
        while artefacts:
            artefact = artefacts.pop(0)
            inputs = artefact.inputs(self.teacher.config)
            parts = [part for part in inputs if not isinstance(part, Source)]
            artefacts += parts
            if isinstance(artefact, PretrainingStage):
                scenes.append(self._scene_of_text(artefact, parts))
            elif artefact in self._trained_on_rows:
                scenes.append(copy.deepcopy(self._trained_on_rows[artefact]))
        return scenes

    def _scene_of_text(self, artefact: PretrainingStage, parts: Sequence[Artefact]) -> Scene:
        """How the training of an artefact on text begins."""
        with RandomState(3, self.numerics.device).current():
            blanks = {part.name: self._blank(part) for part in parts}
            of_text = self._setup_of(artefact, blanks)
            student = artefact.build(of_text)
            own_teacher = artefact.teacher(of_text)
        teacher = self.teacher if own_teacher is None else own_teacher.eval()
        stages = functools.partial(artefact.stages, of_text)
        return Scene(artefact.name, student, teacher, stages, self.text, MASK)

    def keep_scene(
        self, artefact: Artefact, student: Student, stages: Sequence[Stage], teacher: nn.Module
    ) -> None:
        """Remember how the training of an artefact on a task's rows begins."""
        # the training changes the student
        begins = copy.deepcopy(student)
        self._trained_on_rows[artefact] = Scene(
            artefact.name, begins, teacher, lambda: stages, self.data, MASK
        )

    def build(self, seed: int = 0) -> tuple[Student, RandomState]:
        random = RandomState(seed, self.numerics.device)
        with random.current():
            student = self.method.build(self.setup)
        return student, random

    def trainer(
        self, seed: int = 0, dropped: Sequence[str] = (), recipe: Recipe | None = None
    ) -> StudentTrainer:
        # a student, its stages, and what trains it
        student, random = self.build(seed)
        scheduled = schedule_stages(
            self.method.stages(self.setup), dropped, recipe or RECIPE, len(self.data)
        )
        return StudentTrainer(type(self.method).name, student, random, *scheduled, self.numerics)

    def trained(
        self,
        seed: int = 0,
        dropped: Sequence[str] = (),
        beside: Sequence[StudentTrainer] = (),
        recipe: Recipe | None = None,
        **options: Any,
    ) -> StudentTrainer:
        """A trained student.

        Args:
            beside: students that are trained with it.
            options: of the loop.

        Raises:
            Broken: the training fails.
        """

        # train it, and say what failed
        trainer = self.trainer(seed, dropped, recipe)
        loop = LoopOptions(seed, self.numerics, RECIPE.batch_size, **options)
        train_task([trainer, *beside], self.data, self.teacher, loop)
        error = trainer.error
        if isinstance(error, CellError):
            raise Broken(str(error)) from error
        if error is not None:
            raise Broken(f"{type(error).__name__}: {error}") from error
        return trainer

    def trained_briefly(self) -> StudentTrainer:
        """A student after a step of every stage, or all of them where a term begins late."""
        try:
            return self.trained(recipe=SHORT)
        except Broken:
            return self.trained()

    def deployed(self, trainer: StudentTrainer) -> Mapping[str, nn.Module]:
        trainer.student.model.eval()
        with trainer.random.current():
            return self.method.deploy(trainer.student)  # type: ignore[no-any-return]

    def logits(self, model: nn.Module) -> Tensor:
        with torch.no_grad():
            return forward(model.eval(), self.data.batch(range(8)), LOGITS).logits


def learned_weights(trainer: StudentTrainer) -> str:
    """A hash of everything that a training moved: the student and what learned with it."""
    return weights_hash(nn.ModuleDict({"model": trainer.student.model, "aux": trainer.student.aux}))


@functools.cache
def other_student(threads: int) -> tuple[Bench, str]:
    """A plain student that others are trained with, and what it learns alone: once for all methods
    of a process.

    Args:
        threads: of torch now; with another number its bits would be others.
    """
    kind: Any = get("finetune")
    bench = Bench(kind(**{**kind.tiny_settings, "start": "random"}), 2)
    return bench, learned_weights(bench.trained())


class _GivenTinyInputs(Given):
    """The inputs of an artefact on a bench: one teacher, tuned, in the place of all."""

    mask_id = MASK

    def __init__(self, bench: Bench, artefact: Artefact) -> None:
        setup_of = functools.partial(bench._setup_of, artefact)
        budget = bench.text.total_tokens
        super().__init__(artefact, setup_of, bench.numerics, 32, RECIPE, budget, RECIPE)
        self._bench = bench

    def tensors(self, artefact: Artefact) -> Mapping[str, Tensor]:
        return self._bench.artefact(artefact)

    def teacher_of(self, source: Source) -> nn.Module:
        return self._bench.teacher

    def train(
        self,
        student: Student,
        stages: Sequence[Stage],
        teacher: nn.Module | None,
        rows: Source = CORPUS,
    ) -> None:
        if rows != CORPUS:
            beside = self._bench.teacher if teacher is None else teacher
            self._bench.keep_scene(self.artefact, student, stages, beside)
        super().train(student, stages, teacher, rows)

    def examples(self, source: Source) -> Encoded:
        return self._bench.text if source.kind == "corpus" else self._bench.data

    def folder_of(self, source: Source) -> Path:
        raise Broken(f"no checkpoint of others fits this teacher: {source.path}")
