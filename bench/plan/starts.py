"""What is to be made from unlabelled text: general starts and methods' own general stages, each with its key."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from bench.errors import InputError
from bench.plan.cell import Numeric
from bench.plan.keys import SCHEMA, digest
from bench.plan.recipe import (
    PAPER,
    PAPER_START,
    START,
    Recipe,
    optimizers_of,
    optimizers_of_stages,
    without_epochs,
)
from bench.plan.request import Request
from bench.record.code import Code, class_code, code_of
from bench.train.cache import Slot
from bench.train.optimizers import refusal

if TYPE_CHECKING:
    from bench.data.checkpoints import Checkpoint
    from bench.data.corpus import Corpus
    from methods.artefacts import GeneralDistillation, PretrainingStage, TruncatedTeacher

Stages = Sequence[tuple[str, Mapping[str, Any]]]
"""Names of stages, each with its numbers by its paper."""
START_VERSION = 1
SAMPLE_TOKENS, CORPUS_TOKENS = 200_000, 4_000_000
"""Length of a general start on the sample suite's sentences and on a corpus, unless --corpus-tokens says else."""


@dataclass
class StartPlan:
    """Something made from unlabelled text once, for every cell that wants it."""

    wish: GeneralDistillation | TruncatedTeacher | PretrainingStage
    key: str
    checkpoint: Checkpoint
    corpus: Corpus
    budget: int
    recipe: Recipe
    code: Code
    parts: dict[str, str] = field(default_factory=dict)
    """what a method's own general stage is built from: name -> key"""

    @property
    def slot(self) -> Slot:
        """Its place in the cache."""
        return Slot("starts", self.key, self.code, self.title)

    @property
    def is_teacher_head(self) -> bool:
        """Whether it is the un-tuned teacher's masked-language head, which augmentation asks."""
        from methods.masked import TeacherHead

        return isinstance(self.wish, TeacherHead)

    @property
    def title(self) -> str:
        shape = getattr(self.wish, "shape", "")
        own = self.key[:6] if hasattr(self.wish, "settings") else ""  # several may have one name
        return " ".join(part for part in (self.wish.name.replace("_", " "), str(shape), own) if part)


def plan_start(
    wish: GeneralDistillation | TruncatedTeacher | PretrainingStage,
    request: Request,
    checkpoint: Checkpoint,
    tokenizer: str,
    numeric: Numeric,
    known: dict[str, StartPlan],
) -> StartPlan:
    """The plan of one wish and of what it is built from, entered into ``known`` under their keys.

    Raises:
        InputError: the corpus cannot be read, or a stage's paper names an optimiser that is not there.
        TypeError: a general stage that wants something which does not come from text or from the un-tuned teacher.
    """
    from bench.data.corpus import read_corpus, sample_corpus
    from methods.artefacts import GeneralDistillation, PretrainingStage, TeacherWeights, TruncatedTeacher

    for start in known.values():
        if start.wish == wish and start.checkpoint == checkpoint:
            return start
    corpus = next((s.corpus for s in known.values()), None)
    if corpus is None:
        corpus = read_corpus(request.corpus) if request.corpus else sample_corpus()
    budget = request.corpus_tokens or (CORPUS_TOKENS if request.corpus else SAMPLE_TOKENS)
    stages = _stages(wish, checkpoint) if request.recipe == PAPER else []
    said = [without_epochs(paper) for _, paper in stages]
    recipe = _by_papers(wish, stages) if any(said) else START
    identity: dict[str, Any] = {
        "schema": SCHEMA,
        "version": START_VERSION,
        "base": checkpoint.sha256,
        "tokenizer": tokenizer,
        "corpus": corpus.fingerprint(),
        "tokens": budget,
        "recipe": recipe.as_dict() | ({"stages": said} if any(said) else {}),
        "seed": 0,
        "numeric": numeric.identity(),
    }
    parts: dict[str, str] = {}
    if isinstance(wish, PretrainingStage):
        for part in wish.requires(checkpoint.config):
            if isinstance(part, TeacherWeights) and not part.tuned:
                parts[part.name] = checkpoint.sha256
            elif isinstance(part, GeneralDistillation | TruncatedTeacher | PretrainingStage):
                parts[part.name] = plan_start(part, request, checkpoint, tokenizer, numeric, known).key
            else:
                raise TypeError(f"{wish.name}: a general stage cannot wish for {part.name}, which needs a task")
        identity |= {"what": [wish.name, wish.version, dict(wish.settings)], "parts": parts}
    else:
        shape = wish.shape
        identity["shape"] = [shape.layers, shape.hidden, shape.heads, shape.ffn]
        if not isinstance(wish, GeneralDistillation):
            identity["what"] = wish.name
    key = digest(identity)
    known[key] = StartPlan(wish, key, checkpoint, corpus, budget, recipe, _code(wish, recipe), parts)
    return known[key]


def _by_papers(wish: GeneralDistillation | TruncatedTeacher | PretrainingStage, stages: Stages) -> Recipe:
    """The recipe by which each stage says its own numbers.

    Raises:
        InputError: a stage names an optimiser that is not there, or that cannot do what the stage asks.
    """
    recipe = replace(START, name=PAPER_START, stage_optimizers=optimizers_of_stages(stages))
    for name, paper in stages:
        if refused := refusal(recipe.for_stage(paper)):
            raise InputError(f"{wish.name}, stage {name}: {refused}")
    return recipe


def _code(wish: GeneralDistillation | TruncatedTeacher | PretrainingStage, recipe: Recipe) -> Code:
    from methods.artefacts import GeneralDistillation, PretrainingStage

    if isinstance(wish, PretrainingStage):
        return class_code("general stage", wish, optimizers_of(recipe.as_dict()))
    return code_of("general start" if isinstance(wish, GeneralDistillation) else "cut teacher")


def _stages(wish: GeneralDistillation | TruncatedTeacher | PretrainingStage, checkpoint: Checkpoint) -> Stages:
    """Each stage of a wish with what it says of its paper's recipe; where none says anything, there is one start for both recipes."""
    from methods.api import Setup
    from methods.artefacts import GeneralDistillation, TruncatedTeacher

    if isinstance(wish, TruncatedTeacher):
        return []
    if isinstance(wish, GeneralDistillation):
        return [(wish.name, wish.paper)]
    return [(stage.name, stage.paper) for stage in wish.stages(Setup(checkpoint.config, 2, ()))]
