"""What a method may ask for before its student is built: encoders, a teacher's weights, what is computed from examples.

Whoever runs the method makes each artefact once, keeps it under a key, and puts its tensors into ``Setup.artefacts``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, runtime_checkable

from torch import Tensor, nn

from methods.api import Batch, Setup, Shape, Stage, Student

if TYPE_CHECKING:
    from transformers import PretrainedConfig


@runtime_checkable
class GivesEncoder(Protocol):
    """A wish that fills the student's encoder with pre-trained weights: its learning rate goes by how wide that encoder is.

    Wishes that give none (importance scores, an ensemble's answers, a masked-language head) do not have this.
    """

    def encoder_width(self, teacher: PretrainedConfig) -> int:
        """Width of the states between the layers of the encoder that it gives."""


@dataclass(frozen=True)
class GeneralDistillation:
    """Request for encoder weights of this shape, distilled from the un-tuned teacher on unlabelled text.

    Whoever runs the method makes them once per shape and puts them into ``Setup.artefacts[name]``: the tensors of a
    ``BertModel`` without pooler by name, and ``projection.weight``, ``projection.bias`` from its width to the teacher's.
    """

    shape: Shape
    name: ClassVar[str] = "general_start"
    paper: ClassVar[Mapping[str, Any]] = {"learning_rate": 1e-4}
    """The rate of TinyBERT's general distillation, which takes that of BERT's pre-training (Devlin et al. 2019, A.2)."""

    def encoder_width(self, teacher: PretrainedConfig) -> int:
        return self.shape.hidden


@dataclass(frozen=True)
class GivenEncoder:
    """Request for encoder weights that somebody else made: a hub name or a folder with safetensors.

    Tensors as of :class:`GeneralDistillation`; the projection is there only if the checkpoint has one (``fit_dense``, as
    TinyBERT's do). Whoever runs the method refuses a checkpoint of another shape or vocabulary.
    """

    path: str
    shape: Shape
    name: ClassVar[str] = "given_start"

    def encoder_width(self, teacher: PretrainedConfig) -> int:
        return self.shape.hidden


@dataclass(frozen=True)
class TeacherWeights:
    """Request for the teacher's own weights, by name as in its classifier's state dict.

    ``tuned``: after fine-tuning on the task, with its head; else as the checkpoint came, without a head.
    """

    tuned: bool

    @property
    def name(self) -> str:
        return "tuned_teacher" if self.tuned else "teacher_weights"

    def encoder_width(self, teacher: PretrainedConfig) -> int:
        return int(teacher.hidden_size)


@dataclass(frozen=True)
class EnsembleTargets:
    """Request for the mean answer of several tuned teachers of one task to each of its training examples.

    The teachers differ by their seed: of head, dropout and order of batches. Tensors: ``targets`` [n, C], the
    mean of their class probabilities (of a regression, of their scores), and ``ids`` [n], the examples' ids.
    """

    members: int
    name: ClassVar[str] = "ensemble_targets"


@runtime_checkable
class ComputedArtefact(Protocol):
    """Request for something computed from the tuned teacher and training examples, like importance scores.

    With an attribute ``rows`` of the value ``validation`` it is given the first evaluation set in their place: for
    reproducing a pipeline that does that. ``name``, ``version`` and ``settings`` identify it; whoever runs the method
    keeps what ``make`` returns.
    """

    name: ClassVar[str]
    version: ClassVar[int]

    @property
    def settings(self) -> Mapping[str, Any]:
        """What else changes the result; plain values."""

    def make(self, teacher: nn.Module, batches: Iterable[Batch]) -> Mapping[str, Tensor]:
        """Compute it; the batches are the training examples in their order, not shuffled."""

    def blank(self, teacher: PretrainedConfig) -> Mapping[str, Tensor]:
        """Tensors of the same names and shapes, for counting a student without making anything."""


@dataclass(frozen=True)
class TruncatedTeacher:
    """Request for the un-tuned teacher cut down to this shape: where a general start begins before it is trained.

    Named tensors as of :class:`GeneralDistillation`; where the shape does not fit into the teacher's, random weights.
    """

    shape: Shape
    name: ClassVar[str] = "cut_teacher"

    def encoder_width(self, teacher: PretrainedConfig) -> int:
        return self.shape.hidden


@runtime_checkable
class PretrainingStage(Protocol):
    """Request for a general stage of the method's own: a student trained on unlabelled text beside the un-tuned teacher.

    Whoever runs the method takes what ``build`` gives through ``stages``, once for all tasks and seeds, and puts
    into ``Setup.artefacts[name]`` the tensors of the student's model by name, and those of its aux after ``aux.``.
    It may also have ``teacher(setup) -> nn.Module``, a teacher of its own in the place of the un-tuned one, and
    ``in_checkpoint``, a mapping of the tensors it hands on to the names that they may have in the teacher's file: where
    all of them are there, they are taken and nothing is trained; and ``training_cost(student) -> Cost`` where its
    training costs more than the student's own passes.
    What it gives to the student's encoder it says by ``encoder_width``, as :class:`GivesEncoder` has it.
    """

    name: ClassVar[str]
    version: ClassVar[int]

    @property
    def settings(self) -> Mapping[str, Any]:
        """What changes the result; plain values."""

    def requires(self, teacher: PretrainedConfig) -> Sequence[Artefact]:
        """What must exist before ``build``: cut teachers and the un-tuned teacher's weights."""

    def build(self, setup: Setup) -> Student:
        """The student before its general stage."""

    def stages(self, setup: Setup) -> Sequence[Stage]:
        """What it minimises on text: batches have no labels. A plan asks too, before there are artefacts."""


Artefact = (
    GeneralDistillation
    | GivenEncoder
    | TeacherWeights
    | EnsembleTargets
    | ComputedArtefact
    | TruncatedTeacher
    | PretrainingStage
)


def artefact_name(wish: Artefact, task: str, several: bool) -> str:
    """Where a wish lies in ``Setup.artefacts``: of a student of several tasks, ``name.task`` for what is one task's own."""
    tuned = isinstance(wish, TeacherWeights) and wish.tuned
    own = tuned or isinstance(wish, EnsembleTargets | ComputedArtefact)
    return f"{wish.name}.{task}" if several and own else wish.name
