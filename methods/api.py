"""The contract between a compression method and whatever runs it.

A method *says* what it minimises (stages of weighted terms, ``methods/core/stages.py``); one loop,
the same for every method, minimises it. Nothing here knows the harness, so a method can be lifted
out and used alone.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from torch import nn
from transformers import PretrainedConfig

from methods.core.artefacts import Artefact
from methods.core.errors import MethodError, UndeclaredNeed  # noqa: F401
from methods.core.models import PackedModel, RoutedModule, TaskHead, WritingModel  # noqa: F401
from methods.core.packed import Batch  # noqa: F401
from methods.core.settings import Settings
from methods.core.stages import (  # noqa: F401
    PAPER_OVERRIDES,
    Masking,
    Setup,
    Shape,
    Stage,
    Student,
    Term,
    TermFunction,
)
from methods.core.taps import NOTHING, Out, Tap, Taps  # noqa: F401


@dataclass(frozen=True, kw_only=True)
class Method(Settings, ABC):
    """A compression method: a frozen, keyword-only dataclass whose fields are its settings, each
    with a default. A class states ``name``, ``version``, ``terms`` and ``needs_teacher``, and
    defines ``build`` and ``stages``."""

    name: ClassVar[str]
    version: ClassVar[int]
    """Goes up whenever a row, as it is typed, would train other weights: a changed default too."""
    terms: ClassVar[tuple[str, ...]]  # every term that a row may drop
    needs_teacher: ClassVar[bool]
    """Whether a term of its full row reads the tuned teacher, or an artefact comes from it."""
    ablations: ClassVar[Mapping[str, str]] = {}
    """Label of a paper's row -> the spelling that makes it: {"w/o soft": ":-soft"}."""
    search_space: ClassVar[Mapping[str, Sequence[Any]]] = {}
    """Setting -> the values that a search may choose from: the paper's, where it names some."""
    tiny_settings: ClassVar[Mapping[str, Any]] = {}
    """Settings with which it trains in a test's time: its shape, shrunken."""
    # whether its students write texts: they are for tasks whose answers are such
    writes: ClassVar[bool] = False
    same_init_across_seeds: ClassVar[bool] = False
    """Whether its students of every seed begin with the same weights, so that seeds differ by their
    training alone."""

    baseline: ClassVar[bool] = False
    """Whether others are compared with its row without settings, or with any where no teacher is
    scored: a literal, as the next ones."""
    # whether it also learns to answer questions by spans of a text (``Setup.spans``)
    spans: ClassVar[bool] = False
    lacks: ClassVar[Mapping[str, tuple[Any, str]]] = {}
    """Setting -> its default, and what a row with that has less than the paper that it is named
    after: tables say it behind the name. Tables read this member and the next two in the file,
    without importing it: they are literals."""
    remark: ClassVar[str] = ""  # what a reader of a table has to know of all its rows, in sentences
    rate_factor: ClassVar[float | str] = 1.0
    """The factor of the recipe's learning rate in its training on a task at the beginning of every
    stage: a number, or the name of a setting."""

    @property
    def multitask(self) -> bool:
        """Whether one student learns all tasks of a run. Batches then come from all of them, mixed,
        each with its task's position and its task's teacher, and ``deploy`` gives one model for
        each task, by its name."""
        return False

    @property
    def own_encoder(self) -> str:
        """A hub name or a folder that stands in the teacher's place for this row alone: its
        tokenizer reads the examples, and ``requires``, ``build`` and ``TeacherWeights`` see its
        configuration and weights. Without a tuned teacher; "": the teacher's."""
        return ""

    def requires(self, teacher: PretrainedConfig) -> Sequence[Artefact]:
        """The artefacts that must exist before ``build``: each is put into ``Setup.artefacts``
        under the artefact's name. Raises MethodError: a teacher of this form cannot be used; the
        message says what can."""
        return ()

    @abstractmethod
    def build(self, setup: Setup) -> Student:
        """The student's shape and where it starts. Randomness comes from torch's global
        generator."""

    @abstractmethod
    def stages(self, setup: Setup) -> Sequence[Stage]:
        """The stages in which it trains, in order."""

    def notes(self, setup: Setup) -> Sequence[str]:
        """Sentences that a reader of its row has to know, printed below the table."""
        return ()

    def deploy(self, student: Student) -> Mapping[str, nn.Module]:
        """The models that are scored and shipped: one model for each operating point, by its name;
        "" for the usual one."""
        return {"": student.model}


def missing_members(method: type[Method]) -> list[str]:
    """The faults of a class: what it has to state or define and does not."""
    stated = ("name", "version", "terms", "needs_teacher")
    return [name for name in stated if not hasattr(method, name)] + sorted(
        method.__abstractmethods__
    )
