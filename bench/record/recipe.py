"""How long and how fast everything trains: one recipe for all methods, or each paper's own
schedule."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

PAPER = "paper"
"""The name of the recipe of students whose stages say their own numbers."""
PAPER_START = "general start, paper"
"""The name of the recipe of general stages on text that say their own numbers."""

ADAMW = "adamw"
"""The optimiser of every training that names no other."""

LATER: dict[str, Any] = {"later": True}
"""Marks a number that joined after records were published: identity holds it only where it is not
the default."""


@dataclass(frozen=True)
class Recipe:
    """The numbers of a training; all of them are part of a result's identity.

    ``common`` holds everything still but the method: one optimiser (AdamW; betas 0.9, 0.999; eps
    1e-8; no decay on biases and LayerNorm), warm-up then linear decay, clipping of the gradient's
    norm, the last checkpoint. The students' learning rate was chosen on training examples of the
    sample suite that were held back, then checked on development examples; that of narrow teachers
    was chosen on development examples; that of wide teachers is the literature's (reports/LOG.md).
    ``paper`` lets each stage say its own epochs, learning rate and schedule; a general stage says
    everything but its epochs, which its text decides.
    """

    name: str = "common"
    epochs: float = 3.0
    """Over all of a method's counted stages."""
    batch_size: int = 32
    learning_rate: float = 3e-4
    """The learning rate of students; those with a wide pre-trained encoder take the teacher's
    (bench.plan.student_cells). The teacher's and the general start's are in their own recipes."""
    schedule: str = "linear"
    """A name of bench.optimizers.Schedule."""
    warmup: float = 0.1
    weight_decay: float = 0.01
    clip: float = 1.0
    max_length: int = 128
    betas: tuple[float, float] = field(default=(0.9, 0.999), metadata=LATER)
    """Two shares of Adam: how much of the gradient's mean and of its square each step keeps."""
    optimizer: str = field(default=ADAMW, metadata=LATER)
    """A name of bench.record.optimizers."""
    eps: float | None = field(default=None, metadata=LATER)
    """The number that Adam and others add to the root of the squared gradient's mean; None: the
    optimiser's published number."""
    stage_optimizers: tuple[tuple[str, str], ...] = field(default=(), metadata=LATER)
    """Stages whose paper names another optimiser than the recipe, and its name. A stage's other
    numbers follow from the method's version; this one joined later, so keys and reports have it by
    itself."""
    micro_batch: int = field(default=0, metadata=LATER)
    """At most so many examples of a batch go through the models at a time; their gradients are
    added before the step. 0: the whole batch. A mean over tokens becomes the mean of the parts'
    means, weighted by their numbers of examples."""

    truncation: str = field(default="head", metadata=LATER)
    """The part that stays of a text that is too long: its ``head``, its ``tail``, or ``both``, a
    quarter of the room for the head."""
    class_weights: str = field(default="equal", metadata=LATER)
    """``balanced`` where classes weigh more in the loss on labels the fewer training examples they
    have (bench.data.class_weights), else ``equal``."""

    def __post_init__(self) -> None:  # a record's JSON has lists
        object.__setattr__(self, "betas", tuple(self.betas))
        object.__setattr__(
            self, "stage_optimizers", tuple((stage, name) for stage, name in self.stage_optimizers)
        )

    def for_stage(self, paper: Mapping[str, Any]) -> Recipe:
        """This recipe with a stage's own numbers, where the paper's schedule was asked for."""
        if self.name == PAPER:
            return replace(self, **paper)
        return replace(self, **without_epochs(paper)) if self.name == PAPER_START else self

    def as_dict(self) -> dict[str, Any]:
        return {
            part.name: value
            for part in fields(self)
            if (value := getattr(self, part.name)) != part.default or not part.metadata.get("later")
        }


def optimizers_of(recipe: Mapping[str, Any]) -> tuple[str, ...]:
    """The optimisers of a training other than AdamW, from its recipe as a record has it; in
    alphabetical order."""
    named = {
        recipe.get("optimizer", ADAMW),
        *(name for _, name in recipe.get("stage_optimizers", ())),
    }
    return tuple(sorted(named - {ADAMW}))


def optimizers_of_stages(
    stages: Iterable[tuple[str, Mapping[str, Any]]],
) -> tuple[tuple[str, str], ...]:
    """For :attr:`Recipe.stage_optimizers`, from stages' names and their papers' numbers."""
    named = {stage: str(paper.get("optimizer", ADAMW)) for stage, paper in stages}
    return tuple((stage, name) for stage, name in named.items() if name != ADAMW)


def without_epochs(paper: Mapping[str, Any]) -> dict[str, Any]:
    """A stage's own numbers without its epochs: how long a general stage takes is the text's to
    say."""
    return {name: value for name, value in paper.items() if name != "epochs"}


WIDE = 512
"""Encoders of at least this width lose what they have learned if the steps are large."""
TEACHER_LEARNING_RATES = {True: 1.5e-4, False: 3e-5}
"""The rates of teachers below width WIDE (True) and of the others: small encoders need larger
steps."""
START = Recipe(name="general start", epochs=1.0, batch_size=32, learning_rate=1e-3, max_length=128)
"""The recipe of general stages on unlabelled text: general starts and methods' own."""
