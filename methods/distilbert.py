"""DistilBERT, Sanh et al. 2019 (arXiv 1910.01108): its second step of distillation, "(D)" of table 2; table 4's rows.

The paper's: half of the teacher's layers, started from evenly spread ones of the pre-trained teacher (12 -> 6 takes
layers 1, 3, 5, 8, 10, 12, as the authors' script does), no token-type embeddings, no pooler; soft labels at
T = 2 with the factor T^2, the cosine of the last hidden states, and a hard loss.
Ours: the triple loss is used on the task, with the fine-tuned teacher, because the first step (masked-language
distillation on Wikipedia and books) needs a masked-language head and months of text: the labels' loss stands where
the masked-language loss stood. Weights: soft and hard 0.5 each as the authors' task distillation has them; cosine a
fifth of the soft loss, the ratio of the authors' general command (5 : 1). Depths other than 6 of 12 follow the same
even spread (the authors name none).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

from torch import Tensor, nn
from transformers import DistilBertConfig, DistilBertForSequenceClassification, PretrainedConfig

from methods import losses
from methods.api import MethodError, Needs, Setup, Stage, Student, TeacherWeights, Term, Wish
from methods.parts import Settings, encoder_layers, evenly_spread, teacher_depth
from methods.terms import hard, softened

RENAMED = {
    "attention.self.query": "attention.q_lin",
    "attention.self.key": "attention.k_lin",
    "attention.self.value": "attention.v_lin",
    "attention.output.dense": "attention.out_lin",
    "attention.output.LayerNorm": "sa_layer_norm",
    "intermediate.dense": "ffn.lin1",
    "output.dense": "ffn.lin2",
    "output.LayerNorm": "output_layer_norm",
}
"""Modules of a BERT layer -> of a DistilBERT layer."""


@dataclass(frozen=True, kw_only=True)
class DistilBERT(Settings):
    name: ClassVar[str] = "distilbert"
    version: ClassVar[int] = 1
    terms: ClassVar[tuple[str, ...]] = ("soft", "cos", "hard")
    ablations: ClassVar[Mapping[str, str]] = {
        "w/o Lce": ":-soft",
        "w/o Lcos": ":-cos",
        "w/o hard": ":-hard",
        "random weights": ":start=random",
    }
    needs_teacher: ClassVar[bool] = True

    layers: int = 0
    """0: half the teacher's."""
    start: Literal["teacher", "random"] = "teacher"
    temperature: float = 2.0
    soft_weight: float = 0.5
    cosine_weight: float = 0.1
    hard_weight: float = 0.5

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.layers < 0:
            raise MethodError(f"layers={self.layers} should be positive, or 0 for half the teacher's")
        if self.temperature <= 0:
            raise MethodError(f"temperature={self.temperature} should be above 0")

    def prepare(self, teacher: PretrainedConfig) -> Sequence[Wish]:
        teacher_depth(teacher, self.layers, self.name)
        return (TeacherWeights(tuned=False),) if self.start == "teacher" else ()

    def build(self, setup: Setup) -> Student:
        teacher = setup.teacher
        depth = teacher_depth(teacher, self.layers, self.name)
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
        if self.start == "teacher":
            taken = evenly_spread(depth, teacher.num_hidden_layers)
            weights = renamed(encoder_layers(setup.artefacts["teacher_weights"], taken))
            missing, unexpected = model.load_state_dict(weights, strict=False)
            if unexpected or not {name.split(".")[0] for name in missing} <= {"pre_classifier", "classifier"}:
                raise MethodError(f"the teacher's layers do not fit: missing {missing}, unexpected {unexpected}")
        return Student(model)

    def stages(self, setup: Setup) -> Sequence[Stage]:
        depth = teacher_depth(setup.teacher, self.layers, self.name)
        top = setup.teacher.num_hidden_layers
        terms = {
            "soft": softened(self.temperature, self.soft_weight),
            "cos": Term(
                lambda batch, student, teacher, aux: losses.hidden_cosine_tokenmean(
                    student.hidden(depth), teacher.hidden(top)
                ),
                self.cosine_weight,
                Needs(hidden=frozenset({depth})),
                Needs(hidden=frozenset({top})),
            ),
            "hard": hard(self.hard_weight),
        }
        # The paper names no schedule for GLUE; three epochs at 5e-5 is the usual one.
        return (Stage("distil", terms, paper={"epochs": 3.0, "learning_rate": 5e-5}),)

    def deploy(self, student: Student) -> Mapping[str, nn.Module]:
        return {"": student.model}


def renamed(bert: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Weights of a BERT under DistilBERT's names, without token types, pooler and head."""
    made: dict[str, Tensor] = {}
    for name, value in bert.items():
        if name.startswith("bert.embeddings.") and "token_type" not in name and "_ids" not in name:
            made["distilbert." + name.removeprefix("bert.")] = value
        elif name.startswith("bert.encoder.layer."):
            number, _, rest = name.removeprefix("bert.encoder.layer.").partition(".")
            module, _, kind = rest.rpartition(".")
            made[f"distilbert.transformer.layer.{number}.{RENAMED[module]}.{kind}"] = value
    return made
