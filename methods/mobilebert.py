"""MobileBERT, Sun et al. 2020 (ACL): MobileBERT-tiny of table 1 (15.1 M, 3.1 G FLOPs), distilled on the task.

The paper's: thin bottleneck blocks, 24 x 512 outside and 128 inside, two stacked feed-forward networks, trigram
embeddings of 128, no LayerNorm, relu. With an inverted-bottleneck teacher of the same outer width and depth
(IB-BERT): feature-map transfer and attention transfer, layer by layer, weighted as in the authors' code.
Ours: IB-BERT was never released and the tiny weights neither, so beside any other teacher the transfer terms are
absent (widths and layers do not match; a projection would be another method) and the row says so; weights start at
random; transfer happens on the task, either with the predictions (``auxiliary``, the paper's AKT) or before
them (``joint``, JKT). The paper's progressive transfer (PKT) and its 740,000 steps of pre-training are not here.
The mean and variance terms of the code, which compare with the wrong tensors there, are left out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from torch import Tensor, nn
from transformers import MobileBertConfig, MobileBertForSequenceClassification, PretrainedConfig

from methods import losses
from methods.api import Batch, MethodError, Needs, Out, Setup, Stage, Student, Term, Wish
from methods.parts import Settings
from methods.terms import hard, softened


@dataclass(frozen=True, kw_only=True)
class MobileBERT(Settings):
    name: ClassVar[str] = "mobilebert"
    version: ClassVar[int] = 1
    terms: ClassVar[tuple[str, ...]] = ("fmt", "att", "soft", "hard")
    ablations: ClassVar[Mapping[str, str]] = {"w/o soft": ":-soft"}
    needs_teacher: ClassVar[bool] = True
    grid: ClassVar[Mapping[str, Sequence[Any]]] = {"alpha": (0.2, 0.5, 0.8), "temperature": (1.0, 2.0, 5.0)}

    small: ClassVar[Mapping[str, Any]] = {
        "layers": 2,
        "hidden": 16,
        "bottleneck": 8,
        "heads": 2,
        "ffn": 8,
        "embedding": 8,
    }

    layers: int = 24
    hidden: int = 512
    bottleneck: int = 128
    heads: int = 4
    ffn: int = 512
    feedforward_networks: int = 2
    embedding: int = 128
    transfer: Literal["joint", "auxiliary"] = "joint"
    """Of an IB-BERT teacher: a stage of its own first (JKT), or together with the predictions (AKT)."""
    alpha: float = 0.5
    """Weight of the soft loss; the hard loss has 1 - alpha."""
    temperature: float = 1.0
    fmt_weight: float = 100.0
    att_weight: float = 1.0
    """Both over the mean of all layers, as in the authors' code."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("layers", "hidden", "bottleneck", "heads", "ffn", "feedforward_networks", "embedding"):
            if getattr(self, name) < 1:
                raise MethodError(f"{name}={getattr(self, name)} should be at least 1")
        if self.bottleneck % self.heads:
            raise MethodError(f"bottleneck={self.bottleneck} should be a multiple of heads={self.heads}")
        if not 0 <= self.alpha <= 1 or self.temperature <= 0:
            raise MethodError("alpha should lie between 0 and 1, temperature above 0")

    def prepare(self, teacher: PretrainedConfig) -> Sequence[Wish]:
        return ()

    def fits(self, teacher: PretrainedConfig) -> bool:
        """Whether the teacher is an inverted-bottleneck BERT that this student can imitate layer by layer."""
        return (
            teacher.model_type == "mobilebert"
            and teacher.hidden_size == self.hidden
            and teacher.num_hidden_layers == self.layers
            and teacher.num_attention_heads == self.heads
        )

    def notes(self, setup: Setup) -> Sequence[str]:
        if self.fits(setup.teacher):
            return ()
        return (
            "no IB-BERT teacher: feature-map and attention transfer are absent; random start, soft and hard labels only",
        )

    def build(self, setup: Setup) -> Student:
        teacher = setup.teacher
        config = MobileBertConfig(
            vocab_size=teacher.vocab_size,
            max_position_embeddings=teacher.max_position_embeddings,
            type_vocab_size=getattr(teacher, "type_vocab_size", 2),
            pad_token_id=teacher.pad_token_id,
            hidden_size=self.hidden,
            num_hidden_layers=self.layers,
            num_attention_heads=self.heads,
            intermediate_size=self.ffn,
            intra_bottleneck_size=self.bottleneck,
            embedding_size=self.embedding,
            num_feedforward_networks=self.feedforward_networks,
            use_bottleneck_attention=True,
            key_query_shared_bottleneck=False,
            normalization_type="no_norm",
            hidden_act="relu",
            classifier_activation=False,
            trigram_input=True,
        )
        config.num_labels = setup.num_labels
        model = MobileBertForSequenceClassification(config)
        model.set_attn_implementation("packed")
        return Student(model)

    def stages(self, setup: Setup) -> Sequence[Stage]:
        layers = range(1, self.layers + 1)
        states = Needs(hidden=frozenset(layers))
        scores = Needs(scores=frozenset(layers))

        def features(batch: Batch, student: Out, teacher: Out, aux: nn.ModuleDict) -> Tensor:
            parts = (losses.feature_map_transfer(student.hidden(m), teacher.hidden(m)) for m in layers)
            return sum(parts) / self.layers  # type: ignore[return-value]

        def attention(batch: Batch, student: Out, teacher: Out, aux: nn.ModuleDict) -> Tensor:
            parts = (
                losses.attention_transfer_rowmean(student.scores(m), teacher.scores(m), batch.layout) for m in layers
            )
            return sum(parts) / self.layers  # type: ignore[return-value]

        transfer = {
            "fmt": Term(features, self.fmt_weight, states, states),
            "att": Term(attention, self.att_weight, scores, scores),
        }
        prediction = {
            "soft": softened(self.temperature, self.alpha),
            "hard": hard(1 - self.alpha),
        }
        paper = {"epochs": 10.0, "learning_rate": 5e-5}  # section 4.3.1: 2 to 10 epochs, 1e-5 to 1e-4
        if not self.fits(setup.teacher):
            return (Stage("distil", prediction, paper=paper),)
        if self.transfer == "auxiliary":
            return (Stage("distil", {**transfer, **prediction}, paper=paper),)
        return (
            Stage("transfer", transfer, share=2 / 3, paper=paper),
            Stage("distil", prediction, share=1 / 3, paper=paper),
        )

    def deploy(self, student: Student) -> Mapping[str, nn.Module]:
        return {"": student.model}
