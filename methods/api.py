"""The contract between a compression method and whatever runs it, on one page.

A method *says* what it minimises (stages of weighted terms); one loop, the same for every method, minimises
it. Nothing here knows the harness, so a method can be lifted out and used alone.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from torch import Tensor, nn

from methods.batches import Batch, Masking
from methods.errors import MethodError, UndeclaredNeed  # noqa: F401  one place to import the contract from
from methods.models import PackedModel, RoutedModule, TaskHead  # noqa: F401
from methods.settings import Settings
from methods.taps import NOTHING, Out, Tap, Taps  # noqa: F401

if TYPE_CHECKING:
    from transformers import PretrainedConfig

    from methods.artefacts import Artefact


TermFunction = Callable[[Batch, Out, Out, nn.ModuleDict], Tensor]


@dataclass(frozen=True)
class Term:
    """One summand of an objective: ``weight * fn(batch, student, teacher, aux)``, a scalar."""

    fn: TermFunction
    weight: float | Callable[[float], float] = 1.0
    """A number, or a function of the stage's progress in [0, 1)."""
    student: Taps = NOTHING
    """What it reads of the student: ``taps.LOGITS | taps.hidden(4)``."""
    teacher: Taps = NOTHING
    """What it reads of the teacher."""
    player: str = "main"
    """Whose optimiser minimises it. Players other than ``main`` see a detached student."""
    across_batch: bool = False
    """Whether its formula compares the sequences of a batch with each other, as contrastive losses and relations between
    examples do. For every other term, the gradient at one sequence depends only on that sequence, apart from a common factor."""
    is_distance: bool = True
    """Of a term that reads both models: whether it is least where the student answers like the teacher. Not so of an adversarial or
    a contrastive loss, or one that the labels are a part of. ``check-method`` tries it."""
    unsupported: str = ""
    """Why these two models cannot have it, and what to type instead: a row that keeps it is refused before it starts."""

    def __post_init__(self) -> None:
        for taps in (self.student, self.teacher):
            if not isinstance(taps, frozenset):
                raise MethodError(f"a term declares taps, like methods.taps.hidden(3), not {taps!r}")


PAPER_OVERRIDES = frozenset(
    {"epochs", "learning_rate", "schedule", "warmup", "weight_decay", "clip", "betas", "optimizer", "eps"}
)
"""What a stage may change in the recipe when each paper's own is asked for. Batches are shared, so their size is not in it."""


@dataclass(frozen=True)
class Stage:
    """Terms that are minimised together, with a fresh optimiser and schedule."""

    name: str
    terms: Mapping[str, Term]
    epoch_fraction: float = 1.0
    """Part of the common recipe's examples (those of a method's stages sum to 1)."""
    extra_steps: int = 0
    """If positive, the stage comes before the counted ones: one epoch, at most so many steps, at its own cost."""
    on_step_begin: Callable[[nn.Module, float], None] | None = None
    """Told the student's model and the stage's progress in [0, 1) before each step, for schedules inside a model."""
    lr_scale: Callable[[float], float] | None = None
    """What the recipe's learning rate is multiplied with at a progress in [0, 1), where a method asks for another one."""
    parameter_lr_scale: Callable[[str], float] | None = None
    """Name of a parameter (``model.`` or ``aux.`` and its own) -> what its learning rate is multiplied with; 0 holds it."""
    teacher_dropout: bool = False
    """Whether the teacher answers with its dropout on, as some authors' codes leave it: its answers then vary by visit."""
    masking: Masking | None = None
    """For masked-language objectives on text: the batch then has ``masked_positions`` and ``masked_ids``."""
    padding: int = 0
    """Above 0, sequences are filled with [PAD] up to so many tokens, as some authors' codes average over them: nothing attends
    to them, but they have states, and means over tokens count them."""
    paper: Mapping[str, Any] = field(default_factory=dict)
    """What ``--recipe paper`` changes in the recipe, of PAPER_OVERRIDES. Without it the method has no row by that recipe.
    A pre-training on text (``PretrainingStage``) is as long as its text: ``epochs`` is not used there."""

    def __post_init__(self) -> None:
        if unknown := sorted(set(self.paper) - PAPER_OVERRIDES):
            raise MethodError(
                f"the stage {self.name}: a paper's recipe cannot change {', '.join(unknown)}; it can: {', '.join(sorted(PAPER_OVERRIDES))}"
            )
        if self.padding and self.masking is not None:
            raise MethodError(f"the stage {self.name} masks tokens and fills sequences: its positions would not fit")


@dataclass
class Student:
    """What a method builds. ``aux`` (projections, discriminator) learns with it and is never shipped."""

    model: nn.Module
    aux: nn.ModuleDict = field(default_factory=nn.ModuleDict)
    players: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Other players and the aux modules each owns, in the order they move: ``{"disc": ("disc",)}``."""


@dataclass(frozen=True)
class Shape:
    """Width and depth of a BERT encoder."""

    layers: int
    hidden: int
    heads: int
    ffn: int

    def __str__(self) -> str:
        return f"{self.layers}x{self.hidden}"


@dataclass(frozen=True)
class Setup:
    """What a method may know before it builds: the task's form, the teacher's shape, what was prepared."""

    teacher: PretrainedConfig
    num_labels: int
    """1 for a regression. Of several tasks, the largest."""
    tasks: tuple[str, ...]
    artefacts: Mapping[str, Mapping[str, Tensor]] = field(default_factory=dict)
    labels_of_tasks: tuple[int, ...] = ()
    """Labels of each of ``tasks``; ``num_labels`` for each where none are given."""

    def __post_init__(self) -> None:
        if not self.labels_of_tasks:
            object.__setattr__(self, "labels_of_tasks", (self.num_labels,) * max(1, len(self.tasks)))

    @property
    def regression(self) -> bool:
        return self.num_labels == 1


@dataclass(frozen=True, kw_only=True)
class Method(Settings, ABC):
    """A compression method: a frozen, keyword-only dataclass whose fields are its settings, each with a default.

    A class states ``name``, ``version``, ``terms`` and ``needs_teacher``, and defines ``build`` and ``stages``.
    """

    name: ClassVar[str]
    version: ClassVar[int]
    """Goes up whenever the same settings would train other weights."""
    terms: ClassVar[tuple[str, ...]]
    """Every term that a row may drop."""
    needs_teacher: ClassVar[bool]
    """Whether a term of its full row reads the tuned teacher, or an artefact comes from it."""
    ablations: ClassVar[Mapping[str, str]] = {}
    """Label of a paper's row -> the spelling that makes it: ``{"w/o soft": ":-soft"}``."""
    search_space: ClassVar[Mapping[str, Sequence[Any]]] = {}
    """Setting -> the values that a search may choose from: the paper's, where it names some."""
    tiny_settings: ClassVar[Mapping[str, Any]] = {}
    """Settings with which it trains in a test's time: its shape, shrunken."""
    same_init_across_seeds: ClassVar[bool] = False
    """Whether its students of every seed begin with the same weights, so that seeds differ by their training alone."""

    @property
    def multitask(self) -> bool:
        """Whether one student learns all tasks of a run.

        Batches then come from all of them, mixed, each with its task's position and its task's teacher, and ``deploy``
        gives one model for each task, by its name.
        """
        return False

    def requires(self, teacher: PretrainedConfig) -> Sequence[Artefact]:
        """What must exist before ``build``: it is put into ``Setup.artefacts`` under the artefact's name.

        Raises:
            MethodError: a teacher of this form cannot be used; the message says what can.
        """
        return ()

    @abstractmethod
    def build(self, setup: Setup) -> Student:
        """The student's shape and where it starts. Randomness comes from torch's global generator."""

    @abstractmethod
    def stages(self, setup: Setup) -> Sequence[Stage]:
        """What it minimises, in order."""

    def notes(self, setup: Setup) -> Sequence[str]:
        """What a reader of its row has to know, printed below the table."""
        return ()

    def deploy(self, student: Student) -> Mapping[str, nn.Module]:
        """What is scored and shipped: one model for each operating point, by its name; "" for the usual one."""
        return {"": student.model}


def missing_members(method: type[Method]) -> list[str]:
    """What a class has to state or define and does not."""
    stated = ("name", "version", "terms", "needs_teacher")
    return [name for name in stated if not hasattr(method, name)] + sorted(method.__abstractmethods__)
