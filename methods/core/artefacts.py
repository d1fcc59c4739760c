"""Things that a method may ask for before its student is built: named tensors, each a pure function
of named inputs.

An artefact says what it is made from (:meth:`Artefact.inputs`) and makes itself of that
(:meth:`Artefact.make`). Whoever runs the method plans it, keeps it under a key that is known before
it is made, and puts its tensors into ``Setup.artefacts``. Whether there is one for each task, or
one for all, follows from the inputs. First the protocol, then the artefacts that several methods
ask for.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, is_dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal, Protocol, cast

import torch
from safetensors import safe_open
from torch import Tensor, nn
from transformers import (
    AutoConfig,
    AutoModel,
    AutoModelForSequenceClassification,
    BertModel,
    PretrainedConfig,
)

from methods.core import losses
from methods.core.errors import MethodError
from methods.core.families import LAYERED
from methods.core.packed import Batch
from methods.core.parts import (
    DISTILBERT_NAMES,
    bert_config,
    classifier,
    encoder_of,
    nearest_layers,
    pretrained_tensors,
)
from methods.core.stages import Setup, Shape, Stage, Student, Term
from methods.core.taps import Out, hidden
from methods.core.truncation import collect_activations, init_from_teacher

OBSERVED_TOKENS = 16_384  # text on which the teacher's activations are looked at before it is cut


@dataclass(frozen=True)
class Source:
    """Something that is there before any artefact, or that whoever runs the method tunes: where
    artefacts begin."""

    kind: Literal["base", "fine_tuned", "train", "evaluation", "corpus", "checkpoint"]
    seed: int = 0  # of a fine-tuned teacher: of its head, its dropout and the order of its batches
    path: str = ""  # of a checkpoint that somebody else made: a hub name or a folder
    shape: Shape | None = None  # that such a checkpoint must have; more layers are welcome
    # what its configuration must say besides, its model_type first; (): a BERT
    form: tuple[tuple[str, Any], ...] = ()
    # what records call it among the inputs of an artefact
    label: str = field(default="", compare=False)

    @property
    def is_of_task(self) -> bool:
        """Whether every task has its own."""
        return self.kind in ("fine_tuned", "train", "evaluation")


BASE = Source("base", label="base")  # the teacher's checkpoint before it is tuned on a task
# the rows that students of a task are trained on, in their order
TRAIN = Source("train", label="data")
# the first evaluation set of a task that has labels
EVALUATION = Source("evaluation", label="evaluation")
CORPUS = Source("corpus", label="corpus")  # unlabelled text


def fine_tuned(seed: int = 0, label: str = "teacher") -> Source:
    """The teacher after it was tuned on a task with this seed; 0 is the one that students learn
    from."""
    return Source("fine_tuned", seed=seed, label=label)


def checkpoint(path: str, shape: Shape, **form: Any) -> Source:
    """An encoder that somebody else made. Whoever runs the method refuses another shape, form or
    vocabulary."""
    return Source(
        "checkpoint", path=path, shape=shape, form=tuple(form.items()), label="checkpoint"
    )


class Given(Protocol):
    """The argument of :meth:`Artefact.make`. Whatever :meth:`Artefact.inputs` does not name is
    refused."""

    @property
    def setup(self) -> Setup:
        """The teacher's configuration, the task's form (two labels and no task for what all tasks
        share), and the input artefacts by name in ``artefacts``."""

    @property
    def device(self) -> torch.device:
        """Where batches lie."""

    @property
    def mask_id(self) -> int:
        """The number of [MASK]. Raises InputError: the teacher's tokenizer has none."""

    def __getitem__(self, artefact: Artefact) -> Mapping[str, Tensor]:
        """The tensors of an input."""

    def teacher(self, source: Source) -> nn.Module:
        """``BASE`` (a head that it lacks is drawn from torch's generator) or ``fine_tuned(seed)``
        as a classifier of packed batches, in evaluation mode, on the device."""

    def batches(self, source: Source) -> Iterator[Batch]:
        """``TRAIN``, ``EVALUATION`` or ``CORPUS`` in the order of its examples, not shuffled."""

    def first(self, source: Source, tokens: int) -> Batch:
        """The leading examples up to about so many tokens as one batch on the device."""

    def on_step(self, done: int, total: int) -> Any:
        """Say how far it is. :meth:`batches` and :meth:`train` say it themselves."""

    def answers(self, teacher: Source, rows: Source) -> Tensor:
        """[n, C] float32 logits of a teacher in the order of the examples, on the CPU."""

    def ids(self, rows: Source) -> Sequence[int]:
        """The numbers that ``Batch.example_ids`` has, in the order of the examples."""

    def folder(self, checkpoint: Source) -> Path:
        """Where the files of a ``checkpoint`` lie."""

    def train(
        self,
        student: Student,
        stages: Sequence[Stage],
        teacher: nn.Module | None,
        rows: Source = CORPUS,
    ) -> None:
        """Take a student through stages on ``CORPUS``, once; text shorter than its budget is seen
        several times. On ``TRAIN`` by the recipe of teachers, for ``Artefact.row_epochs``. Raises
        RuntimeError: :meth:`Artefact.stages` names none, so that no plan has counted this."""

    def note(self, beginning: str) -> None:
        """Say where it began, for whoever reads a record."""


@dataclass(frozen=True)
class Identity:
    """The facts that a plan knows of an artefact before it is made."""

    generic: Mapping[str, Any]
    """plain values: ``what`` is made, the keys of all inputs, and what of the recipe and the
    numerics they depend on"""
    teachers: tuple[str, ...] = ()  # keys of the fine-tuned ones, in the order of the inputs
    # whether students read sequences of the length that their teacher was tuned on
    reads_as_teacher: bool = True
    family: str = "bert"  # the teacher's model_type


class Artefact:
    """Named tensors that a method asks for: frozen dataclasses, so that equal ones are one. Each
    states ``name``, :meth:`inputs`, :meth:`make`, :meth:`blank`. Its ``version`` goes up whenever
    the same settings and inputs would give other tensors."""

    name: ClassVar[str]  # where it lies in Setup.artefacts
    version: ClassVar[int] = 1
    is_kept: ClassVar[bool] = True
    """False for a view of its one input, which is taken anew each time and has that input's key."""
    in_checkpoint: ClassVar[Mapping[str, Sequence[str]]] = {}
    """its tensors -> the names that they may have in the teacher's file: where all are there,
    nothing is made"""
    row_epochs: ClassVar[float] = 0.0
    """epochs for which :meth:`make` trains on a task's training rows"""

    @property
    def settings(self) -> Mapping[str, Any]:
        """Further values that change the result, plain ones: the fields of the dataclass."""
        return asdict(self) if is_dataclass(self) else {}

    def inputs(self, teacher: PretrainedConfig) -> Sequence[Artefact | Source]:
        """The things that it is made from. Raises MethodError: a teacher of this form cannot be
        used."""
        return ()

    def make(self, given: Given) -> Mapping[str, Tensor]:
        """Compute it. Randomness comes from torch's generator, which always begins at the same
        state."""
        raise NotImplementedError(f"{type(self).__name__} must implement make()")

    def blank(self, teacher: PretrainedConfig, num_labels: int) -> Mapping[str, Tensor]:
        """Tensors of the same names and shapes, for counting a student without making anything;
        where the first dimension depends on the data (one row an example), any length will do."""
        raise NotImplementedError(f"{type(self).__name__} must implement blank()")

    def encoder_width(self, teacher: PretrainedConfig) -> int | None:
        """Width of the states between the layers of the pre-trained encoder that it gives to a
        student, if it gives one: the learning rate depends on it. That of its ``shape``, if it has
        such a field."""
        shape = getattr(self, "shape", None)
        return None if shape is None else shape.hidden

    def stages(self, setup: Setup) -> Sequence[Stage]:
        """The losses that :meth:`make` minimises on the corpus, where it trains
        (:class:`PretrainingStage`)."""
        return ()

    def identity(self, known: Identity) -> Mapping[str, Any]:
        """Plain values whose hash is its key; the generic form, unless it had another one before
        that form was there."""
        return known.generic

    def title(self, key: str) -> str:
        """For people: its words, its shape if it has one, and the beginning of its key, since
        several may have one name."""
        return " ".join(
            [self.words, *([str(self.shape)] if hasattr(self, "shape") else []), key[:6]]
        )

    @property
    def words(self) -> str:
        return self.name.replace("_", " ")


def sources(artefact: Artefact, teacher: PretrainedConfig) -> list[Source]:
    """All that an artefact is made from in the end, each once."""
    inputs = artefact.inputs(teacher)
    each = ([part] if isinstance(part, Source) else sources(part, teacher) for part in inputs)
    return list(dict.fromkeys(source for part in each for source in part))


def is_of_task(artefact: Artefact, teacher: PretrainedConfig) -> bool:
    """Whether there is one for each task; else all tasks, seeds and methods share it."""
    return any(source.is_of_task for source in sources(artefact, teacher))


def artefact_name(artefact: Artefact, teacher: PretrainedConfig, task: str, several: bool) -> str:
    """Where it lies in ``Setup.artefacts``: of a student of several tasks, ``name.task`` for what
    is one task's own."""
    return f"{artefact.name}.{task}" if several and is_of_task(artefact, teacher) else artefact.name


def blank_artefacts(
    artefacts: Sequence[Artefact], teacher: PretrainedConfig, num_labels: int, of_several: str = ""
) -> dict[str, Mapping[str, Tensor]]:
    """The content that ``Setup.artefacts`` would have, with weights that mean nothing: enough to
    build and count a student. A student of several tasks has the one task ``of_several``."""
    names = [artefact_name(each, teacher, of_several, bool(of_several)) for each in artefacts]
    return {
        name: each.blank(teacher, num_labels) for name, each in zip(names, artefacts, strict=True)
    }


@dataclass(frozen=True)
class EnsembleTargets(Artefact):
    """The mean answer of tuned teachers of one task, which differ by their seed, to each training
    example: ``targets`` [n, C], the mean of their class probabilities (of a regression, of their
    scores), and ``ids`` [n]."""

    members: int
    name: ClassVar[str] = "ensemble_targets"

    def inputs(self, teacher: PretrainedConfig) -> Sequence[Artefact | Source]:
        return (*self._teachers, TRAIN)

    @property
    def _teachers(self) -> list[Source]:
        return [fine_tuned(seed, f"teacher {seed}") for seed in range(self.members)]

    def make(self, given: Given) -> Mapping[str, Tensor]:
        logits = [given.answers(teacher, TRAIN) for teacher in self._teachers]
        answers = [x_nC if x_nC.size(1) == 1 else x_nC.softmax(-1) for x_nC in logits]
        return {
            "targets": torch.stack(answers).mean(0),
            "ids": torch.tensor(list(given.ids(TRAIN))),
        }

    def blank(self, teacher: PretrainedConfig, num_labels: int) -> Mapping[str, Tensor]:
        return {"targets": torch.zeros(1, num_labels), "ids": torch.zeros(1, dtype=torch.int64)}

    def identity(self, known: Identity) -> Mapping[str, Any]:
        taken = {name: known.generic[name] for name in ("schema", "data")}
        read = {} if known.reads_as_teacher else {"max_length": known.generic["max_length"]}
        return {**taken, "what": self.name, "teachers": list(known.teachers), **read}


class ComputedArtefact(Artefact):
    """Something that ``compute`` makes of the tuned teacher and a task's training rows, like
    importance scores. With ``rows`` of the value ``validation`` it is given the first evaluation
    set, for reproducing a pipeline that does that."""

    rows: str = "train"

    def compute(self, teacher: nn.Module, batches: Iterable[Batch]) -> Mapping[str, Tensor]:
        """Its tensors; the batches are the examples in their order, not shuffled."""
        raise NotImplementedError(f"{type(self).__name__} must implement compute()")

    @property
    def _rows(self) -> Source:
        return EVALUATION if self.rows == "validation" else TRAIN

    def inputs(self, teacher: PretrainedConfig) -> Sequence[Artefact | Source]:
        return (fine_tuned(), self._rows)

    def make(self, given: Given) -> Mapping[str, Tensor]:
        return self.compute(given.teacher(fine_tuned()), given.batches(self._rows))

    def identity(self, known: Identity) -> Mapping[str, Any]:
        """Rows are called ``data``, whichever they are."""
        return {
            "data" if name == "evaluation" else name: value for name, value in known.generic.items()
        }


def first_examples(batches: Iterable[Batch], count: int) -> Iterator[Batch]:
    """The leading batches with so many examples; the batch in which the last of them lies is
    whole."""
    seen = 0
    for batch in batches:
        yield batch
        seen += len(batch.example_ids)
        if seen >= count:
            return


class PretrainingStage(Artefact):
    """A student trained on unlabelled text beside the un-tuned teacher. Its tensors are those of
    the student's model by name, and those of its aux after ``aux.``. A plan builds the student too,
    for counting its time and memory. If the encoder of the row's student is taken from them,
    override ``encoder_width``, unless it has a field ``shape``."""

    def requires(self, teacher: PretrainedConfig) -> Sequence[Artefact]:
        return ()

    def build(self, setup: Setup) -> Student:
        raise NotImplementedError(f"{type(self).__name__} must implement build()")

    def teacher(self, setup: Setup) -> nn.Module | None:
        """A teacher of its own; None for the un-tuned one."""
        return None

    def inputs(self, teacher: PretrainedConfig) -> Sequence[Artefact | Source]:
        return (BASE, CORPUS, *self.requires(teacher))

    def make(self, given: Given) -> Mapping[str, Tensor]:
        student = self.build(given.setup)
        teacher = self.teacher(given.setup)
        if teacher is None:
            teacher = given.teacher(BASE)
        given.train(student, self.stages(given.setup), teacher)
        return pretrained_tensors(student)

    def blank(self, teacher: PretrainedConfig, num_labels: int) -> Mapping[str, Tensor]:
        parts = blank_artefacts(self.requires(teacher), teacher, num_labels)
        return pretrained_tensors(self.build(Setup(teacher, num_labels, (), parts)))

    def identity(self, known: Identity) -> Mapping[str, Any]:
        return {"parts": {}, **known.generic}


@dataclass(frozen=True)
class TruncatedShape(Artefact):
    """The parts that the artefacts share that begin as the un-tuned teacher truncated to this
    shape, and then go through :meth:`stages`; named first among the bases. Tensors: those of a
    ``BertModel`` without pooler by name, and ``projection.weight``, ``projection.bias`` to the
    teacher's width. Where the teacher is not of :data:`methods.core.families.LAYERED` or the shape
    does not fit into it, they begin at random."""

    shape: Shape

    def inputs(self, teacher: PretrainedConfig) -> Sequence[Artefact | Source]:
        return (BASE, CORPUS)

    def build(self, setup: Setup) -> Student:
        config = bert_config(self.shape, setup.teacher)
        # a regression on plenty of text
        config.hidden_dropout_prob = config.attention_probs_dropout_prob = 0.0
        model = classifier(config)
        return Student(
            model,
            nn.ModuleDict({"projection": nn.Linear(self.shape.hidden, setup.teacher.hidden_size)}),
        )

    def make(self, given: Given) -> Mapping[str, Tensor]:
        student = self.build(given.setup)
        teacher = fill_from_teacher(
            given, student.model, cast(nn.Linear, student.aux["projection"])
        )
        if stages := self.stages(given.setup):
            given.train(student, stages, teacher)
        return encoder_of(student.model.state_dict()) | student.aux.state_dict()

    def blank(self, teacher: PretrainedConfig, num_labels: int) -> Mapping[str, Tensor]:
        return blank_encoder(self.shape, teacher)

    def title(self, key: str) -> str:
        return f"{self.words} {self.shape}"

    def identity(self, known: Identity) -> Mapping[str, Any]:
        """The form of the oldest keys: a shape, and nothing that says what has it."""
        generic = {name: value for name, value in known.generic.items() if name != "what"}
        truncated = (
            {}
            if known.family == "bert" or known.family not in LAYERED
            else {"truncated": known.family}
        )
        return generic | {"shape": list(asdict(self.shape).values())} | truncated


@dataclass(frozen=True)
class TruncatedTeacher(TruncatedShape):
    """The un-tuned teacher truncated to its shape: where the general start begins before it is
    trained."""

    name: ClassVar[str] = "cut_teacher"
    words: ClassVar[str] = "truncated teacher"  # type: ignore[misc]

    def identity(self, known: Identity) -> Mapping[str, Any]:
        return {**super().identity(known), "what": self.name}


def blank_encoder(shape: Shape, teacher: PretrainedConfig) -> dict[str, Tensor]:
    encoder = BertModel(bert_config(shape, teacher), add_pooling_layer=False).state_dict()
    projection = nn.Linear(shape.hidden, teacher.hidden_size).state_dict()
    return {**encoder, **{f"projection.{part}": value for part, value in projection.items()}}


@dataclass(frozen=True)
class GivenEncoder(Artefact):
    """Encoder weights that somebody else made: a hub name or a folder with safetensors; of a deeper
    one the lowest layers. Tensors as of :class:`GeneralDistillation`, with the pooler and a
    projection (``fit_dense``, as TinyBERT's have it) where the checkpoint has them."""

    path: str
    shape: Shape
    name: ClassVar[str] = "given_start"
    is_kept: ClassVar[bool] = False

    @property
    def source(self) -> Source:
        return checkpoint(self.path, self.shape)

    def inputs(self, teacher: PretrainedConfig) -> Sequence[Artefact | Source]:
        return (self.source,)

    def make(self, given: Given) -> Mapping[str, Tensor]:
        return given_tensors(given.folder(self.source), self.shape.layers)

    def blank(self, teacher: PretrainedConfig, num_labels: int) -> Mapping[str, Tensor]:
        return blank_encoder(self.shape, teacher)


STARTS = ("bert", "distilbert")
"""Model types that a :class:`GivenEncoder` may be of."""


def given_tensors(folder: Path, layers: int) -> dict[str, Tensor]:
    """The embeddings and lowest layers of a BERT or DistilBERT, as of a BERT; its pooler and
    TinyBERT's ``fit_dense``, as the projection, if it has them. A DistilBERT has no segments: their
    embeddings are 0 here."""
    weights, config = lowest_layers(folder, layers)
    if config.model_type == "distilbert":
        for ours, theirs in {"encoder.layer": "transformer.layer", **DISTILBERT_NAMES}.items():
            weights = {
                name.replace(f"{theirs}.", f"{ours}."): value for name, value in weights.items()
            }
        weights["embeddings.token_type_embeddings.weight"] = torch.zeros(2, config.dim)
    with safe_open(folder / "model.safetensors", framework="pt") as file:
        if {"fit_dense.weight", "fit_dense.bias"} <= set(file.keys()):
            weights["projection.weight"] = file.get_tensor("fit_dense.weight")
            weights["projection.bias"] = file.get_tensor("fit_dense.bias")
    return weights


def lowest_layers(folder: Path, layers: int) -> tuple[dict[str, Tensor], PretrainedConfig]:
    """A checkpoint's embeddings and this many of its layers, by the names of its own encoder, with
    a pooler if it has one."""
    with safe_open(folder / "model.safetensors", framework="pt") as file:
        names = list(file.keys())
    config = AutoConfig.from_pretrained(folder)
    options: dict[str, bool] = {}
    if config.model_type != "distilbert":  # a pooler that the file lacks would be drawn
        options["add_pooling_layer"] = any(name.endswith("pooler.dense.weight") for name in names)
    # read through transformers, which knows the older names of LayerNorm's weights
    model, seen = AutoModel.from_pretrained(folder, **options, output_loading_info=True)
    if seen["missing_keys"]:
        raise MethodError(
            f"{folder.name}: its file has no weights for {sorted(seen['missing_keys'])[0]}"
        )
    state = model.state_dict()
    above = [f".layer.{number}." for number in range(layers, config.num_hidden_layers)]
    kept: list[str] = []
    for name in state:
        if not any(part in name for part in above):
            kept.append(name)
    return {name: state[name].detach().contiguous() for name in kept}, config


@dataclass(frozen=True)
class TeacherWeights(Artefact):
    """The teacher's own weights, by name as in its classifier's state dict: ``tuned`` on the task,
    with its head, or as the checkpoint came, without a head."""

    tuned: bool
    is_kept: ClassVar[bool] = False

    @property
    def name(self) -> str:  # type: ignore[override]
        return "tuned_teacher" if self.tuned else "teacher_weights"

    @property
    def _source(self) -> Source:
        return fine_tuned() if self.tuned else BASE

    def inputs(self, teacher: PretrainedConfig) -> Sequence[Artefact | Source]:
        return (self._source,)

    def make(self, given: Given) -> Mapping[str, Tensor]:
        return self._kept(
            {name: value.cpu() for name, value in given.teacher(self._source).state_dict().items()}
        )

    def blank(self, teacher: PretrainedConfig, num_labels: int) -> Mapping[str, Tensor]:
        config = copy.deepcopy(teacher)
        config.num_labels = num_labels
        return self._kept(AutoModelForSequenceClassification.from_config(config).state_dict())

    def _kept(self, weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
        head = () if self.tuned else ("classifier.", "pre_classifier.")
        return {name: value for name, value in weights.items() if not name.startswith(head)}


def why_random(teacher: PretrainedConfig) -> str:
    """Why a :class:`TruncatedShape` begins with random weights beside this teacher, as a clause; ""
    where its family is no reason."""
    kind = teacher.model_type
    return (
        ""
        if kind in LAYERED
        else f"only {', '.join(LAYERED)} can be truncated, and this teacher is a {kind}"
    )


def fill_from_teacher(given: Given, model: Any, projection: nn.Linear) -> nn.Module:
    """Fill a classifier's encoder and the way back to the teacher's width in place, on the CPU; a
    note says why not, where it is not filled. Returns the un-tuned teacher, unchanged, on the
    CPU."""
    teacher: Any = given.teacher(BASE)
    if why := why_random(given.setup.teacher):
        given.note(f"random weights: {why}")
        return teacher.cpu()  # type: ignore[no-any-return]
    # the teacher reads the text on the device; what is fitted are small matrices in float64
    states = collect_activations(teacher, given.first(CORPUS, OBSERVED_TOKENS), given.on_step)
    filled = init_from_teacher(teacher.cpu(), model, projection, states)
    given.note(
        "the cut-down teacher"
        if filled
        else "random weights: the shape does not fit into the teacher's"
    )
    return teacher  # type: ignore[no-any-return]


@dataclass(frozen=True)
class GeneralDistillation(TruncatedShape, PretrainingStage):
    """The truncated teacher after it has imitated the un-tuned one's hidden states on unlabelled
    text: embedding and every layer, through one learned projection, against the nearest teacher
    layers (TinyBERT's hidden loss, the part of its general stage that needs no attention of equal
    head count)."""

    name: ClassVar[str] = "general_start"
    paper: ClassVar[Mapping[str, Any]] = {"learning_rate": 1e-4}
    """The rate of TinyBERT's general distillation, which takes that of BERT's pre-training (Devlin
    et al. 2019, A.2)."""

    def stages(self, setup: Setup) -> Sequence[Stage]:
        layer_map = nearest_layers(self.shape.layers, setup.teacher.num_hidden_layers)

        def imitate(batch: Batch, student: Out, teacher: Out, aux: nn.ModuleDict) -> Tensor:
            states = (
                (aux["projection"](student.hidden(m)), teacher.hidden(n))
                for m, n in layer_map.items()
            )
            return torch.stack(
                [losses.hidden_mse_tokenmean(ours, theirs) for ours, theirs in states]
            ).sum()

        term = Term(imitate, student=hidden(*layer_map), teacher=hidden(*layer_map.values()))
        return (Stage("general start", {"hidn": term}, paper=self.paper),)
