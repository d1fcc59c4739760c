"""The things that a method minimises: weighted terms, in stages; the student that it builds, and
what it may know before."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor, nn
from transformers import PretrainedConfig

from methods.core.errors import MethodError
from methods.core.packed import Batch
from methods.core.taps import NOTHING, Out, Taps

TermFunction = Callable[[Batch, Out, Out, nn.ModuleDict], Tensor]


@dataclass(frozen=True)
class Term:
    """One summand of an objective: ``weight * fn(batch, student, teacher, aux)``, a scalar."""

    fn: TermFunction
    # A number, or a function of the stage's progress in [0, 1)
    weight: float | Callable[[float], float] = 1.0
    student: Taps = NOTHING  # what it reads of the student: taps.LOGITS | taps.hidden(4)
    teacher: Taps = NOTHING  # what it reads of the teacher
    # whose optimiser minimises it. Players other than main see a detached student.
    player: str = "main"
    across_batch: bool = False
    """Whether it compares the sequences of a batch with each other, as contrastive losses do. For
    every other term, the gradient at one sequence depends only on that sequence, apart from a
    common factor."""
    is_distance: bool = True
    """Whether a term that reads both models is least where the student answers like the teacher,
    or, with ``across_batch``, where each sequence answers like the same one of the teacher; not so
    of an adversarial loss, or one with labels."""
    unsupported: str = ""
    """Why these two models cannot have it, and what to type instead: a row that keeps it is refused
    before it starts."""
    targets: Taps = NOTHING
    """Taps of ``student`` that it learns from and not through, as a student that teaches itself:
    it has no gradient there."""

    def __post_init__(self) -> None:
        for taps in (self.student, self.teacher, self.targets):
            if not isinstance(taps, frozenset):
                raise MethodError(
                    f"a term declares taps, like methods.core.taps.hidden(3), not {taps!r}"
                )


@dataclass(frozen=True)
class Masking:
    """Hide some tokens of every batch: of the chosen ones 80 % become [MASK], 10 % another token,
    10 % stay. Devlin et al. 2019, section 3.1; drawn anew at every visit. Student and teacher read
    the same masked text."""

    share: float = 0.15  # of the tokens that are not [CLS], [SEP] or [PAD]
    smoothing: float = 0.0
    """Tokens are chosen with weight count ** -smoothing: above 0, rare ones more often
    (DistilBERT's code: 0.7)."""


PAPER_OVERRIDES = frozenset(
    {
        "epochs",
        "learning_rate",
        "schedule",
        "warmup",
        "weight_decay",
        "clip",
        "betas",
        "optimizer",
        "eps",
    }
)
"""The numbers that a stage may change in the recipe when each paper's own is asked for. Batches are
shared, so their size is not in it."""


@dataclass(frozen=True)
class Stage:
    """Terms that are minimised together, with a fresh optimiser and schedule."""

    name: str
    terms: Mapping[str, Term]
    # part of the common recipe's examples (those of a method's stages sum to 1)
    epoch_fraction: float = 1.0
    extra_steps: int = 0
    """If positive, it comes before the counted ones: one epoch, at most so many steps, at its own
    cost."""
    on_step_begin: Callable[[nn.Module, float], None] | None = None
    """Told the student's model and the stage's progress in [0, 1) before each step, for schedules
    inside a model."""
    lr_scale: Callable[[float], float] | None = None
    """The factor of the recipe's learning rate at a progress in [0, 1), where a method asks for
    another one."""
    parameter_lr_scale: Callable[[str], float] | None = None
    """Name of a parameter (``model.`` or ``aux.`` and its own) -> what its learning rate is
    multiplied with; 0 holds it."""
    undecayed: Callable[[str], bool] | None = None
    """Name of a parameter, as above -> whether it has no weight decay whatever the recipe says.
    Biases and LayerNorms never have any."""
    teacher_dropout: bool = False
    """Whether the teacher answers with its dropout on, as some authors' codes leave it: its answers
    then vary by visit."""
    masking: Masking | None = None
    """For masked-language objectives on text: the batch then has masked_positions and
    masked_ids."""
    padding: int = 0
    """Above 0, sequences are filled with [PAD] up to so many tokens, as some authors' codes average
    over them: nothing attends to them, but they have states, and means over tokens count them."""
    paper: Mapping[str, Any] = field(default_factory=dict)
    """The numbers that ``--recipe paper`` changes in the recipe, of PAPER_OVERRIDES. Without it the
    method has no row by that recipe. A pre-training on text (``PretrainingStage``) is as long as
    its text: ``epochs`` is not used there."""

    def __post_init__(self) -> None:
        if unknown := sorted(set(self.paper) - PAPER_OVERRIDES):
            can = ", ".join(sorted(PAPER_OVERRIDES))
            raise MethodError(
                f"the stage {self.name}: a paper's recipe cannot change {', '.join(unknown)}; "
                f"it can: {can}"
            )
        if self.padding and self.masking is not None:
            raise MethodError(
                f"the stage {self.name} masks tokens and fills sequences: its positions would not "
                "fit"
            )


@dataclass
class Student:
    """The models that a method builds. ``aux`` (projections, discriminator) learns with it and is
    never shipped."""

    model: nn.Module
    aux: nn.ModuleDict = field(default_factory=nn.ModuleDict)
    players: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Other players and the aux modules each owns, in the order they move: ``{"disc":
    ("disc",)}``."""


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
    """The facts that a method may know before it builds: the task's form, the teacher's shape, what
    was prepared."""

    teacher: PretrainedConfig
    num_labels: int  # 1 for a regression. Of several tasks, the largest.
    tasks: tuple[str, ...]
    artefacts: Mapping[str, Mapping[str, Tensor]] = field(default_factory=dict)
    # labels of each of tasks; num_labels for each where none are given
    labels_of_tasks: tuple[int, ...] = ()
    # whether a part of a text is the answer: logits are [2 B, L], over the places of a sequence
    spans: bool = False

    def __post_init__(self) -> None:
        if not self.labels_of_tasks:
            object.__setattr__(
                self, "labels_of_tasks", (self.num_labels,) * max(1, len(self.tasks))
            )

    @property
    def regression(self) -> bool:
        return self.num_labels == 1
