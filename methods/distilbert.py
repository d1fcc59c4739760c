"""DistilBERT, Sanh et al. 2019 (arXiv 1910.01108): pre-training with the triple loss; the second
step, "(D)" of table 2.

The paper's: half of the teacher's layers, started from evenly spread ones of the pre-trained
teacher (12 -> 6 takes layers 1, 3, 5, 8, 10, 12, as the authors' script does), no token-type
embeddings, no pooler; soft labels at T = 2 with the factor T^2, the cosine of the last hidden
states, and a hard loss.
``pretraining=masked`` is its first step, on unlabelled text with the un-tuned teacher: soft labels
over the vocabulary for every real token (``vocabulary_loss=masked``: for the hidden ones, an option
of the code), cross-entropy of the masked tokens, cosine of the last states, with the weights 5, 2
and 1 of the authors' command, rare tokens masked more often (count ** -0.7), the output matrix
tied. The teacher's masked-language head is its checkpoint's; where there is none it is trained
first on the same text with the encoder fixed, and the record says so. The student's output bias
begins as the teacher's, as the authors' script copies it. Fine-tuning after it is plain, as in the
paper's table 1: ``distilbert:pretraining=masked:-soft:-cos:hard_weight=1``. Table 4 leaves one term
out of the first step: ``pretraining_without=vocabulary``, ``masked`` or ``cos`` in such a row.
``start_from=distilbert/distilbert-base-uncased`` is the authors' own first step.
A teacher of another family than BERT (RoBERTa, ELECTRA, MPNet) has a student of its own family:
half of its layers, the rest as the teacher has it. So the authors made DistilRoBERTa; a DistilBERT
has no place for MPNet's bias of relative positions. Of a ModernBERT
every third layer sees all tokens and the others near ones: half of them would see other tokens.
Ours: by default the triple loss is used on the task alone, with the fine-tuned teacher: the
labels' loss stands where the masked-language loss stood. Weights: soft and hard 0.5 each as
the authors' task distillation has them; cosine a fifth of the soft loss, the ratio of the
authors' general command (5 : 1). Depths other than 6 of 12 follow the same even spread (the
authors name none). Pre-training takes the text, the steps and the rate (1e-3) of the shared
general start; with ``--recipe paper`` the numbers of the authors' code: 5e-4, betas 0.9 and
0.98, eps 1e-6, warm-up over 5 %, no decay, gradients clipped at 5. Batches stay at 32
sequences of 128 tokens (there 5 x 50 sequences for each process). Their position embeddings
get no gradient in that step: ``positions=frozen``. They hide 15 % of all tokens, [CLS] and
[SEP] counted, ours 15 % of the others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from torch import Tensor, nn
from transformers import DistilBertConfig, DistilBertForSequenceClassification, PretrainedConfig

from methods.api import Batch, Masking, Method, MethodError, Out, Setup, Shape, Stage, Student, Term
from methods.core import losses
from methods.core.artefacts import (
    Artefact,
    Given,
    GivenEncoder,
    PretrainingStage,
    Source,
    TeacherWeights,
    checkpoint,
    lowest_layers,
)
from methods.core.masked import TeacherHead, head_like, masked_tokens
from methods.core.parts import (
    DISTILBERT_NAMES,
    Depth,
    cut_classifier,
    evenly_spread,
    load_checked,
    new_classifier,
    select_layers,
    teacher_depth,
    under,
)
from methods.core.settings import Positive, added_setting
from methods.core.taps import hidden
from methods.core.terms import HIDDEN, hard, layerwise, plain, softened

TAKEN = "what was taken of the teacher"

AUTHORS_PRETRAINING: Mapping[str, Any] = {  # in their code
    "learning_rate": 5e-4,
    "betas": (0.9, 0.98),
    "eps": 1e-6,
    "warmup": 0.05,
    "weight_decay": 0.0,
    "clip": 5.0,
}


@dataclass(frozen=True)
class TripleLoss(PretrainingStage):
    """The first step: a general stage on text beside the un-tuned teacher (section 3; weights of
    the authors' command)."""

    layers: int
    start: str
    vocabulary_loss: str
    without: str  # A term that is left out, or none
    positions: str = "learned"

    name: ClassVar = "triple_loss"
    version: ClassVar = 2  # 1 began the student's output bias at 0
    masking: ClassVar = Masking(smoothing=0.7)

    @property
    def settings(self) -> Mapping[str, Any]:
        """Without the positions where they are learned: that setting joined later, and keys
        stay what they were."""
        return {
            name: value
            for name, value in super().settings.items()
            if (name, value) != ("positions", "learned")
        }

    def encoder_width(self, teacher: PretrainedConfig) -> int:
        return int(teacher.hidden_size)

    def requires(self, teacher: PretrainedConfig) -> Sequence[Artefact]:
        return (TeacherWeights(tuned=False), TeacherHead())

    def build(self, setup: Setup) -> Student:
        model = shallower(setup, self.layers, self.start)
        embeddings = model.base_model.embeddings
        embeddings.position_embeddings.weight.requires_grad = self.positions == "learned"
        head = head_like(setup.teacher, embeddings.word_embeddings.weight)
        theirs = TeacherHead().filled(setup)
        # of the rest of the teacher's head the bias alone is taken over
        if self.start == "teacher":
            head.bias.data.copy_(theirs.bias)
        return Student(model, nn.ModuleDict({"head": head, "teacher_head": theirs}))

    def stages(self, setup: Setup) -> Sequence[Stage]:
        last = self.layers
        top = setup.teacher.num_hidden_layers
        ours = hidden(last)
        theirs = hidden(top)

        def vocabulary(batch: Batch, student: Out, teacher: Out, aux: nn.ModuleDict) -> Tensor:
            states = student.hidden(last), teacher.hidden(top)
            if self.vocabulary_loss == "masked":
                states = states[0][batch.masked_positions], states[1][batch.masked_positions]
            answers = aux["head"](states[0]), aux["teacher_head"](states[1])
            return losses.soft_kl_batchmean(*answers, temperature=2.0)

        # each side has a head of its own, so equal states are not equal answers
        terms = {"vocabulary": Term(vocabulary, 5.0, ours, theirs, is_distance=False)}
        terms |= {"masked": masked_tokens("head", last, 2.0), "cos": last_states(last, top, 1.0)}
        terms.pop(self.without, None)
        return (Stage("triple loss", terms, masking=self.masking, paper=AUTHORS_PRETRAINING),)


@dataclass(frozen=True)
class GivenDistilBERT(GivenEncoder):
    """A DistilBERT that somebody else pre-trained, by the names of transformers'
    ``DistilBertModel``."""

    @property
    def source(self) -> Source:
        return checkpoint(self.path, self.shape, model_type="distilbert")

    def make(self, given: Given) -> Mapping[str, Tensor]:
        return lowest_layers(given.folder(self.source), self.shape.layers)[0]

    def blank(self, teacher: PretrainedConfig, num_labels: int) -> Mapping[str, Tensor]:
        return distilbert(
            Setup(teacher, num_labels, ()), self.shape.layers, "random"
        ).distilbert.state_dict()


def last_states(ours: int, theirs: int, weight: float) -> Term:
    """1 - cosine of the student's and the teacher's last states, mean over real tokens."""
    return layerwise(HIDDEN, {ours: theirs}, plain(losses.hidden_cosine_tokenmean), weight)


def shallower(setup: Setup, depth: int, start: str) -> Any:
    """The student: of a BERT a DistilBERT, of another teacher one of its own family, with ``depth``
    layers."""
    if setup.teacher.model_type == "bert":
        return distilbert(setup, depth, start)
    if start == "random":
        return new_classifier(setup, depth)
    taken = evenly_spread(depth, setup.teacher.num_hidden_layers)
    return cut_classifier(setup, depth, select_layers(setup.artefacts["teacher_weights"], taken))


def distilbert(setup: Setup, depth: int, start: str) -> DistilBertForSequenceClassification:
    """A DistilBERT as wide as the teacher: random, or with evenly spread layers of the un-tuned
    ``teacher``, but for the head."""
    teacher = setup.teacher
    config = DistilBertConfig(
        vocab_size=teacher.vocab_size,
        max_position_embeddings=teacher.max_position_embeddings,
        dim=teacher.hidden_size,
        hidden_dim=teacher.intermediate_size,
        n_layers=depth,
        n_heads=teacher.num_attention_heads,
        activation=teacher.hidden_act,
        pad_token_id=teacher.pad_token_id,
    )
    config.num_labels = setup.num_labels
    model = DistilBertForSequenceClassification(config)
    model.set_attn_implementation("packed")
    if start == "teacher":
        taken = evenly_spread(depth, teacher.num_hidden_layers)
        load_checked(
            model.distilbert,
            renamed(select_layers(setup.artefacts["teacher_weights"], taken)),
            TAKEN,
        )
    return model


@dataclass(frozen=True, kw_only=True)
class DistilBERT(Method):
    name: ClassVar = "distilbert"
    version: ClassVar = 2  # 1 decayed the weights of sa_layer_norm and output_layer_norm
    terms: ClassVar = ("soft", "cos", "hard")
    ablations: ClassVar = {
        "w/o Lce": ":-soft",
        "w/o Lcos": ":-cos",
        "w/o hard": ":-hard",
        "random weights": ":start=random",
    }
    needs_teacher: ClassVar = True
    spans: ClassVar = True
    lacks: ClassVar = {"pretraining": ("none", "second step only")}
    search_space: ClassVar = {"temperature": (1.0, 2.0, 4.0), "cosine_weight": (0.1, 0.5)}

    layers: Depth = 0  # 0: half the teacher's
    start: Literal["teacher", "random"] = "teacher"
    temperature: Positive = 2.0
    soft_weight: float = 0.5
    cosine_weight: float = 0.1
    hard_weight: float = 0.5
    pretraining: Literal["none", "masked"] = added_setting("none")
    """Masked: the paper's first step, on the general start's text."""
    vocabulary_loss: Literal["all", "masked"] = added_setting("all")
    """Tokens whose soft labels over the vocabulary that step compares."""
    pretraining_without: Literal["none", "vocabulary", "masked", "cos"] = added_setting("none")
    """A term that the first step leaves out (table 4)."""
    positions: Literal["learned", "frozen"] = added_setting("learned")
    """``frozen``: the teacher's position embeddings stay as they are in that step, as in
    the authors' code."""
    start_from: str = added_setting("")
    """Somebody's finished first step: a hub name or a folder, like
    distilbert/distilbert-base-uncased, the authors' own."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.pretraining == "none" and (self.vocabulary_loss, self.pretraining_without) != (
            "all",
            "none",
        ):
            raise MethodError(
                "vocabulary_loss and pretraining_without change the first step: add "
                "pretraining=masked"
            )
        if self.start_from and (self.pretraining, self.start) != ("none", "teacher"):
            raise MethodError(
                f"start_from={self.start_from} is a finished first step: leave pretraining= and "
                "start= out"
            )
        if self.positions == "frozen" and (self.pretraining, self.start) != ("masked", "teacher"):
            raise MethodError(
                "positions=frozen keeps the teacher's in the first step: add pretraining=masked, "
                "and leave start=random out"
            )

    def requires(self, teacher: PretrainedConfig) -> Sequence[Artefact]:
        depth = teacher_depth(teacher, self.layers, self.name)
        if self.start_from:
            if teacher.model_type != "bert":
                raise MethodError(
                    f"start_from={self.start_from} is a DistilBERT, the student of a BERT; this "
                    f"teacher is a {teacher.model_type}: leave start_from out"
                )
            shape = Shape(
                depth, teacher.hidden_size, teacher.num_attention_heads, teacher.intermediate_size
            )
            return (GivenDistilBERT(self.start_from, shape),)
        if self.pretraining == "masked":
            return (
                TripleLoss(
                    depth,
                    self.start,
                    self.vocabulary_loss,
                    self.pretraining_without,
                    self.positions,
                ),
            )
        return (TeacherWeights(tuned=False),) if self.start == "teacher" else ()

    def build(self, setup: Setup) -> Student:
        depth = teacher_depth(setup.teacher, self.layers, self.name)
        if self.start_from:
            model = distilbert(setup, depth, "random")
            load_checked(
                model.distilbert, setup.artefacts[GivenDistilBERT.name], "the given encoder"
            )
            return Student(model)
        if self.pretraining == "none":
            return Student(shallower(setup, depth, self.start))
        model = shallower(setup, depth, "random")
        begun = under(f"{model.base_model_prefix}.", setup.artefacts[TripleLoss.name])
        load_checked(model.base_model, begun, TAKEN)
        return Student(model)

    def stages(self, setup: Setup) -> Sequence[Stage]:
        depth = teacher_depth(setup.teacher, self.layers, self.name)
        top = setup.teacher.num_hidden_layers
        terms = {
            "soft": softened(self.temperature, self.soft_weight),
            "cos": last_states(depth, top, self.cosine_weight),
            "hard": hard(self.hard_weight),
        }
        # The paper names no schedule for GLUE; three epochs at 5e-5 is the usual one.
        return (Stage("distil", terms, paper={"epochs": 3.0, "learning_rate": 5e-5}),)


def renamed(bert: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The encoder of a BERT under the names of DistilBERT's, without token
    types, pooler and head."""
    weights: dict[str, Tensor] = {}
    for name, value in bert.items():
        if name.startswith("bert.embeddings.") and "token_type" not in name and "_ids" not in name:
            weights[name.removeprefix("bert.")] = value
        elif name.startswith("bert.encoder.layer."):
            number, _, rest = name.removeprefix("bert.encoder.layer.").partition(".")
            module, _, kind = rest.rpartition(".")
            weights[f"transformer.layer.{number}.{DISTILBERT_NAMES[module]}.{kind}"] = value
    return weights
