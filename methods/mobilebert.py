"""MobileBERT, Sun et al. 2020 (ACL): MobileBERT-tiny of table 1 (15.1 M, 3.1 G FLOPs),
distilled on the task.

The paper's: thin bottleneck blocks, 24 x 512 outside and 128 inside, two stacked feed-forward
networks, trigram embeddings of 128, no LayerNorm, relu. With an inverted-bottleneck teacher of the
same outer width and depth (IB-BERT): feature-map transfer and attention transfer, layer by layer,
weighted as in the authors' code. MobileBERT itself is ``feedforward_networks=4:key_query=shared``;
with ``start_from=google/mobilebert-uncased`` it begins as the authors released it.
``pretraining`` is the paper's: an IB-BERT is pre-trained on the text with masked tokens, then
taught layer by layer to the student, whose embeddings and masked-language head begin as the
IB-BERT's: in one phase with the pre-training distillation (``auxiliary``, AKT), in a phase of its
own before it (``joint``, JKT) or in one phase a layer (``progressive``, PKT: the current layer at
three times the rate, earlier ones at 0.3, everything else held; 240 of 740 thousand steps).
Distillation over the vocabulary: half the masked tokens, half the IB-BERT's answers, no next
sentences. The code's mean and variance terms, which compare with the wrong tensors there, are left
out. Schedule on text: the rate rises over the first 10 % of each phase and falls to 0 at its end,
from 1e-3, the rate of every general stage; AdamW with fresh moments for each phase; as many steps
as the text gives. With ``--recipe paper`` LAMB from 1.5e-3, optimiser and rate of the authors'
command, with a rise over 2 % of a pre-training, 4 % of a joint transfer and 10 % of each layer's
phase. That rate goes with the command's batch of 2048, which is the recipe's 32 here. The code
keeps the moments from phase to phase and leaves their bias in; in a layer's phase its rate rises
over 10 % and then falls to 0.9 of it only; it gives no joint phase. In a layer's phase its terms
have their whole weights, in the code a 24th of them (one over the number of layers): Adam hardly
sees such a factor, clipping at norm 1 does. Attention dropout of 0.1 is on in the student while it
is taught on text (the code builds the student without any dropout then). The IB-BERT's own
pre-training has attention dropout of 0.1, as in the code, but not its hidden dropout of 0.1. Both
heads over the vocabulary have gelu (the code: the student's has relu).
Fine-tuning: by default the labels' loss at 0.5 and the tuned teacher's soft labels at 0.5, also
after ``pretraining``. The paper fine-tunes on the labels alone: ``alpha=0``, so its row is
``mobilebert:alpha=0:pretraining=progressive``. ``:-soft`` is not quite the same: it leaves the
labels at 0.5, and clipping at norm 1 then cuts less.
Ours: IB-BERT was never released and the tiny weights neither, so by default there is no
pre-training and, with any other teacher, the transfer terms are absent (widths and layers do not
match; a projection would be another method) and the row says so; weights start at random. With an
IB-BERT teacher, transfer happens on the task, either with the predictions (``transfer=auxiliary``)
or before them (``joint``).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from torch import Tensor, nn
from transformers import MobileBertConfig, MobileBertForSequenceClassification, PretrainedConfig

from methods.api import Batch, Masking, Method, MethodError, Out, Setup, Shape, Stage, Student, Term
from methods.core import losses
from methods.core.artefacts import (
    Artefact,
    Given,
    GivenEncoder,
    PretrainingStage,
    Source,
    checkpoint,
    lowest_layers,
)
from methods.core.masked import MaskedLanguageHead, masked_tokens
from methods.core.parts import load_checked, under
from methods.core.settings import Count, Fraction, Positive, added_setting, values_of
from methods.core.taps import hidden
from methods.core.terms import HIDDEN, SCORES, hard, layerwise, plain, softened, with_layout

WORDS = "mobilebert.embeddings.word_embeddings.weight"


@dataclass(frozen=True, kw_only=True)
class MobileBERT(Method):
    name: ClassVar = "mobilebert"
    version: ClassVar = 1
    terms: ClassVar = ("fmt", "att", "soft", "hard")
    ablations: ClassVar = {"w/o soft": ":-soft"}
    needs_teacher: ClassVar = True
    spans: ClassVar = True
    lacks: ClassVar = {"pretraining": ("none", "no pre-training")}
    search_space: ClassVar = {"alpha": (0.2, 0.5, 0.8), "temperature": (1.0, 2.0, 5.0)}

    tiny_settings: ClassVar = {
        "layers": 2,
        "hidden": 16,
        "bottleneck": 8,
        "heads": 2,
        "ffn": 8,
        "embedding": 8,
    }

    layers: Count = 24
    hidden: Count = 512
    bottleneck: Count = 128
    heads: Count = 4
    ffn: Count = 512
    feedforward_networks: Count = 2
    embedding: Count = 128
    transfer: Literal["joint", "auxiliary"] = "joint"
    """Of an IB-BERT teacher: a stage of its own first (JKT), or together with the
    predictions (AKT)."""
    alpha: Fraction = 0.5  # weight of the soft loss; the hard loss has 1 - alpha
    temperature: Positive = 1.0
    fmt_weight: float = 100.0
    att_weight: float = 1.0
    """Both over the mean of all layers, as in the authors' code; in a layer's own phase over
    that layer alone."""
    key_query: Literal["own", "shared"] = added_setting("own")
    """``own``: all of queries, keys and values from each layer's bottleneck (tiny); ``shared``:
    values from the wide states."""
    pretraining: Literal["none", "auxiliary", "joint", "progressive"] = added_setting("none")
    """On text, from an IB-BERT that is itself pre-trained on it."""
    inverted: Count = added_setting(1024)
    """Inner width of that IB-BERT; its feed-forward networks are four times as wide."""

    norm: Literal["none", "layer"] = added_setting("none")
    """``layer``: LayerNorm and gelu in the place of a scale, a shift and relu: the row w/o OPT."""
    start_from: str = added_setting("")
    """Pre-trained weights in the place of ours: a hub name or a folder, like
    google/mobilebert-uncased, the authors' MobileBERT."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.bottleneck % self.heads:
            raise MethodError(
                f"bottleneck={self.bottleneck} should be a multiple of heads={self.heads}"
            )
        if self.start_from and self.pretraining != "none":
            raise MethodError(
                f"start_from={self.start_from} replaces the pre-training of "
                f"pretraining={self.pretraining}: leave one out"
            )
        if self.pretraining != "none" and self.inverted % self.heads:
            raise MethodError(
                f"inverted={self.inverted} should be a multiple of heads={self.heads}"
            )
        if self.pretraining != "none" and self.embedding > self.hidden:
            wrong = f"embedding={self.embedding} is wider than hidden={self.hidden}"
            raise MethodError(f"{wrong}: the masked-language head cannot be narrower")

    def requires(self, teacher: PretrainedConfig) -> Sequence[Artefact]:
        # only what the start depends on: rows that differ in other settings share it
        student = MobileBERT(
            **{n: value for n, value in values_of(self).items() if n in PRETRAINING_SETTINGS}
        )
        if self.start_from:
            return (
                GivenMobileBERT(
                    self.start_from, Shape(self.layers, self.hidden, self.heads, self.ffn), student
                ),
            )
        if self.pretraining == "none":
            return ()
        return (Transfer(student, self.pretraining),)

    def fits(self, teacher: PretrainedConfig) -> bool:
        """Whether the teacher is an inverted-bottleneck BERT that this student can
        imitate layer by layer."""
        theirs = (teacher.hidden_size, teacher.num_hidden_layers, teacher.num_attention_heads)
        return teacher.model_type == "mobilebert" and theirs == (
            self.hidden,
            self.layers,
            self.heads,
        )

    def notes(self, setup: Setup) -> Sequence[str]:
        if self.pretraining != "none":
            dropout = (
                "attention dropout of 0.1 while the IB-BERT teaches on text, where the authors' "
                "code has none"
            )
            if self.alpha == 0:
                return (dropout,)
            shares = (
                f"{1 - self.alpha:g} for the labels and {self.alpha:g} for soft labels of the "
                "tuned teacher"
            )
            return (
                dropout,
                f"fine-tuned with weights {shares}; the paper fine-tunes on the labels alone "
                "(alpha=0)",
            )
        if self.start_from or self.fits(setup.teacher):
            return ()
        left = {0.0: "labels", 1.0: "soft labels"}.get(self.alpha, "soft and hard labels")
        lacking = "no IB-BERT (MobileBERT's own teacher), so no feature-map and attention transfer"
        return (f"{lacking}. Random start, {left} only",)

    def build(self, setup: Setup) -> Student:
        model = self.model(setup)
        if self.pretraining != "none":
            fill(model, setup.artefacts[Transfer.name])
        if self.start_from:
            load_checked(
                model.mobilebert, setup.artefacts[GivenMobileBERT.name], "the given encoder"
            )
        return Student(model)

    def model(self, setup: Setup) -> MobileBertForSequenceClassification:
        shape = Shape(self.layers, self.hidden, self.heads, self.ffn)
        return classifier(setup, shape, self.bottleneck, self.embedding, **self.form)

    @property
    def form(self) -> dict[str, Any]:
        """What distinguishes it from other models of its family and size."""
        own = self.key_query == "own"
        is_plain = self.norm == "none"
        return {
            "use_bottleneck_attention": own,
            "key_query_shared_bottleneck": not own,
            "num_feedforward_networks": self.feedforward_networks,
            "hidden_act": "relu" if is_plain else "gelu",
            "normalization_type": "no_norm" if is_plain else "layer_norm",
        }

    def stages(self, setup: Setup) -> Sequence[Stage]:
        transfer = transfer_terms(range(1, self.layers + 1), self.fmt_weight, self.att_weight)
        prediction = {"soft": softened(self.temperature, self.alpha), "hard": hard(1 - self.alpha)}
        paper = {"epochs": 10.0, "learning_rate": 5e-5}  # section 4.2: 2 to 10 epochs, 1e-5 to 1e-4
        # layers are compared with an IB-BERT alone
        if not self.fits(setup.teacher):
            return (Stage("distil", prediction, paper=paper),)
        if self.transfer == "auxiliary":
            return (Stage("distil", {**transfer, **prediction}, paper=paper),)
        return (
            Stage("transfer", transfer, 2 / 3, paper=paper),
            Stage("distil", prediction, 1 / 3, paper=paper),
        )


def transfer_terms(
    layers: Sequence[int], feature_weight: float, attention_weight: float
) -> dict[str, Term]:
    """Feature-map and attention transfer of these layers, mean over them (equations 1 and 2).
    Student and teacher are equally wide, deep and many-headed, so each layer learns from the one
    of its own number."""
    same = {m: m for m in layers}
    states = losses.feature_map_transfer
    attention = losses.attention_transfer_rowmean
    return {
        "fmt": layerwise(HIDDEN, same, plain(states), feature_weight, reduction="mean"),
        "att": layerwise(SCORES, same, with_layout(attention), attention_weight, reduction="mean"),
    }


def classifier(
    setup: Setup, shape: Shape, inner: int, embedded: int, **form: Any
) -> MobileBertForSequenceClassification:
    """A model of MobileBERT's family over the teacher's vocabulary, with trigram embeddings
    and a raw pooler."""
    teacher = setup.teacher
    config = MobileBertConfig(
        vocab_size=teacher.vocab_size,
        max_position_embeddings=teacher.max_position_embeddings,
        type_vocab_size=max(2, getattr(teacher, "type_vocab_size", 2)),
        pad_token_id=teacher.pad_token_id,
        hidden_size=shape.hidden,
        num_hidden_layers=shape.layers,
        num_attention_heads=shape.heads,
        intermediate_size=shape.ffn,
        intra_bottleneck_size=inner,
        embedding_size=embedded,
        classifier_activation=False,
        trigram_input=True,
        **form,
    )
    config.num_labels = setup.num_labels
    model = MobileBertForSequenceClassification(config)
    model.set_attn_implementation("packed")
    return model


def fill(model: MobileBertForSequenceClassification, weights: Mapping[str, Tensor]) -> None:
    load_checked(model.mobilebert, under("mobilebert.", weights), "the pre-trained encoder")


@dataclass(frozen=True)
class GivenMobileBERT(GivenEncoder):
    """A MobileBERT that somebody else pre-trained, by the names of transformers'
    ``MobileBertModel``, without a pooler."""

    student: MobileBERT

    @property
    def source(self) -> Source:
        s = self.student
        sizes = {
            "intra_bottleneck_size": s.bottleneck,
            "embedding_size": s.embedding,
            "trigram_input": True,
        }
        return checkpoint(self.path, self.shape, model_type="mobilebert", **sizes, **s.form)

    def make(self, given: Given) -> Mapping[str, Tensor]:
        weights, _ = lowest_layers(given.folder(self.source), self.shape.layers)
        return {name: value for name, value in weights.items() if not name.startswith("pooler.")}

    def blank(self, teacher: PretrainedConfig, num_labels: int) -> Mapping[str, Tensor]:
        return self.student.model(Setup(teacher, num_labels, ())).mobilebert.state_dict()


@dataclass(frozen=True)
class InvertedBottleneck(PretrainingStage):
    """IB-BERT: as wide outside as the student, wider inside, with LayerNorm and gelu; pre-trained
    on masked tokens."""

    layers: int
    hidden: int
    heads: int
    embedding: int
    inner: int

    name: ClassVar = "ib_bert"

    def model(self, setup: Setup) -> MobileBertForSequenceClassification:
        shape = Shape(self.layers, self.hidden, self.heads, 4 * self.inner)
        form = {
            "use_bottleneck_attention": True,
            "key_query_shared_bottleneck": False,
            "hidden_act": "gelu",
        }
        form |= {"num_feedforward_networks": 1, "normalization_type": "layer_norm"}
        return classifier(setup, shape, self.inner, self.embedding, **form)

    def build(self, setup: Setup) -> Student:
        model = self.model(setup)
        return Student(model, nn.ModuleDict({"head": head_of(model)}))

    def stages(self, setup: Setup) -> Sequence[Stage]:
        terms = {"masked": masked_tokens("head", self.layers)}
        return (Stage("hidden tokens", terms, masking=Masking(), paper=PRETRAINING),)


def head_of(model: MobileBertForSequenceClassification) -> MaskedLanguageHead:
    return MaskedLanguageHead(
        model.mobilebert.embeddings.word_embeddings.weight, model.config.hidden_size
    )


# the authors' command: 10,000 steps of warm-up, of 500,000
PRETRAINING = {"learning_rate": 1.5e-3, "warmup": 0.02, "optimizer": "lamb"}
JOINT_RECIPE = {**PRETRAINING, "warmup": 0.04}  # of 240,000
# in the code each layer's rate rises over a tenth of its phase
ONE_LAYER_RECIPE = {**PRETRAINING, "warmup": 0.1}

SHAPE = "layers hidden bottleneck heads ffn feedforward_networks embedding key_query inverted norm"
# of the student, that its general stage depends on
PRETRAINING_SETTINGS = (*SHAPE.split(), "fmt_weight", "att_weight")
# share of the layer-wise phases in the authors' schedule of 240,000 and 500,000 steps
LAYERWISE_SHARE = 240 / 740


@dataclass(frozen=True)
class Transfer(PretrainingStage):
    """The student's general stage on text, taught by the IB-BERT (sections 3.5 and 3.6)."""

    student: MobileBERT
    kind: str

    name: ClassVar = "ib_transfer"

    @property
    def settings(self) -> Mapping[str, Any]:
        kept = {
            name: value
            for name, value in values_of(self.student).items()
            if name in PRETRAINING_SETTINGS
        }
        if kept["norm"] == "none":  # it joined later: keys stay what they were
            del kept["norm"]
        return {**kept, "kind": self.kind}

    @property
    def source(self) -> InvertedBottleneck:
        s = self.student
        return InvertedBottleneck(s.layers, s.hidden, s.heads, s.embedding, s.inverted)

    def encoder_width(self, teacher: PretrainedConfig) -> int:
        return self.student.hidden

    def requires(self, teacher: PretrainedConfig) -> Sequence[Artefact]:
        return (self.source,)

    def teacher(self, setup: Setup) -> MobileBertForSequenceClassification:
        model = self.source.model(setup)
        fill(model, setup.artefacts[self.source.name])
        return model

    def build(self, setup: Setup) -> Student:
        ib_bert = setup.artefacts[self.source.name]
        model: Any = self.student.model(setup)
        kept = under("mobilebert.embeddings.", ib_bert)
        load_checked(model.mobilebert.embeddings, kept, "the embedding of the IB-BERT")
        # both heads begin as the IB-BERT's; the student's learns, over its own word vectors
        own = head_of(model)
        theirs = MaskedLanguageHead(ib_bert[WORDS], self.student.hidden)
        weights = under("aux.head.", ib_bert)
        own.load_state_dict(weights)
        theirs.load_state_dict(weights)
        return Student(
            model, nn.ModuleDict({"head": own, "teacher_head": theirs.requires_grad_(False)})
        )

    def stages(self, setup: Setup) -> Sequence[Stage]:
        s = self.student
        layers = range(1, s.layers + 1)
        last = hidden(s.layers)

        def vocabulary(batch: Batch, student: Out, teacher: Out, aux: nn.ModuleDict) -> Tensor:
            ours = aux["head"](student.hidden(s.layers)[batch.masked_positions])
            theirs = aux["teacher_head"](teacher.hidden(s.layers)[batch.masked_positions])
            return losses.soft_cross_entropy_batchmean(ours, theirs)

        # over the vocabulary: the IB-BERT's answers and the hidden words, half each
        distillation = {
            "vocabulary": Term(vocabulary, 0.5, last, last),
            "masked": masked_tokens("head", s.layers, 0.5),
        }
        whole = transfer_terms(layers, s.fmt_weight, s.att_weight)
        # the layers learn together with that, or before it: all at once, or one after another
        if self.kind == "auxiliary":
            return (
                Stage(
                    "distillation", {**whole, **distillation}, masking=Masking(), paper=PRETRAINING
                ),
            )
        end = Stage(
            "distillation", distillation, 1 - LAYERWISE_SHARE, masking=Masking(), paper=PRETRAINING
        )
        if self.kind == "joint":
            return (
                Stage("transfer", whole, LAYERWISE_SHARE, masking=Masking(), paper=JOINT_RECIPE),
                end,
            )
        return (*(self._phase(layer, LAYERWISE_SHARE / s.layers) for layer in layers), end)

    def _phase(self, layer: int, share: float) -> Stage:
        def scale_of(name: str) -> float:
            # this layer at three times the rate, those below at 0.3; what is above, or is no layer,
            # stands still
            match = re.match(r"model\.mobilebert\.encoder\.layer\.(\d+)\.", name)
            number = int(match[1]) + 1 if match else layer + 1
            return 0.0 if number > layer else 3.0 if number == layer else 0.3

        terms = transfer_terms([layer], self.student.fmt_weight, self.student.att_weight)
        more = {"parameter_lr_scale": scale_of, "masking": Masking(), "paper": ONE_LAYER_RECIPE}
        name = f"layer {layer}"
        return Stage(name, terms, epoch_fraction=share, **more)  # type: ignore[arg-type]
