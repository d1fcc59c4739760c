"""TinyBERT, Jiao et al. 2020 (Findings of EMNLP): rows TinyBERT4 of tables 1 to
4, task distillation.

The paper's: two stages. First the embedding, every layer's hidden states (through a learned
projection to the teacher's width) and attention scores before the softmax are matched by mean
squared error; then the teacher's predictions by soft cross-entropy. Uniform layer map, all
weights 1, no label loss.
As in the authors' code: one projection shared by the embedding and all layers; prediction loss
averaged over B*C; scores, not probabilities.
Ours, where the code is another: ``head=relu``, ``teacher_dropout=true`` and ``padding=128`` are the
code's. No [PAD] positions in any mean (the code averages over them, so its balance of the losses
depends on the padding length); the last checkpoint, every batch, AdamW and one clip over all
gradients (the code keeps the second stage's best development checkpoint, skips incomplete batches,
and has BertAdam: ``optimizer=bertadam`` of a stage); the standard BERT head, dropout before it (the
code's relu head would corrupt a teacher that was fine-tuned with the usual one); the teacher in
evaluation mode (the code leaves its dropout on); STS-B learns from the teacher's score, as the
paper's numbers did; augmentation is an option of the run (``--augment masked``), the same for every
row; TinyBERT6 is ``layers=6:hidden=768:ffn=3072``; the general stage is the shared general start
(hidden states only, begun as the teacher cut down; the paper's matches attention too and begins at
random), at the common rate of 1e-3, with ``--recipe paper`` at 1e-4, as BERT's pre-training has it
(the code's default is 5e-5). Teacher depths that do not divide by the student's follow the
nearest-layer rule. The ablations, and ``map=`` of table 4, leave the general start as it is. "w/o
Pred" has the labels' cross-entropy on the examples that the run trains on; the paper's has it on
the original examples, where it augments.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import ClassVar, Literal

from torch import Tensor, nn
from transformers import BertConfig, BertForSequenceClassification, PretrainedConfig

from methods.api import MethodError, Setup, Stage, Student, Term
from methods.core import losses
from methods.core.artefacts import Artefact
from methods.core.own_shape import OwnShape
from methods.core.parts import (
    Padding,
    check_padding,
    nearest_layers,
    opened_by_transformers,
    own_config,
    why_heads_differ,
)
from methods.core.settings import Positive, added_setting
from methods.core.terms import HIDDEN, SCORES, Pair, hard, layerwise, soft, with_layout


class ReluBertConfig(BertConfig):
    """A BERT's configuration under a name of its own: without it transformers would open the
    model as a plain BERT."""

    model_type = "tinybert_relu"


@opened_by_transformers
class ReluBertForSequenceClassification(BertForSequenceClassification):
    """The head of the authors' code: the classification layer reads
    relu(pooled), without dropout."""

    config_class = ReluBertConfig

    def __init__(self, config: ReluBertConfig) -> None:
        super().__init__(config)
        self.dropout = nn.ReLU()  # type: ignore[assignment]


@dataclass(frozen=True, kw_only=True)
class TinyBERT(OwnShape):
    name: ClassVar = "tinybert"
    version: ClassVar = 1
    terms: ClassVar = ("embd", "hidn", "attn", "pred")
    ablations: ClassVar = {
        "w/o Embd": ":-embd",
        "w/o Hidn": ":-hidn",
        "w/o Attn": ":-attn",
        "w/o Pred": ":prediction=labels",
    }
    needs_teacher: ClassVar = True
    spans: ClassVar = True
    search_space: ClassVar = {"temperature": (1.0, 2.0)}

    temperature: Positive = 1.0
    head: Literal["usual", "relu"] = added_setting("usual")
    """``relu``: the code's, a relu in the place of the dropout before the classification layer."""
    # whether the teacher's dropout is on, as the code leaves it
    teacher_dropout: bool = added_setting(False)
    padding: Padding = added_setting(0)
    """128 (the code's; the paper: 64 for single sentences): the first stage fills every sequence
    with [PAD], averages over it."""
    prediction: Literal["soft", "labels"] = "soft"
    """``soft``: the teacher's predictions; ``labels``: cross-entropy with the labels, of weight 1:
    the row "w/o Pred"."""

    map: Literal["uniform", "top", "bottom"] = added_setting("uniform")
    """The teacher's layers that the encoder learns from, table 4: evenly spread, the last
    or the first ones."""

    def layer_map(self, teacher: PretrainedConfig) -> dict[int, int]:
        """Student layer -> teacher layer, 1-based."""
        if self.map == "uniform":
            return {
                m: n
                for m, n in nearest_layers(self.layers, teacher.num_hidden_layers).items()
                if m > 0
            }
        if self.layers > teacher.num_hidden_layers:
            raise MethodError(
                f"map={self.map} needs a teacher of at least {self.layers} layers; it has "
                f"{teacher.num_hidden_layers}"
            )
        above = teacher.num_hidden_layers - self.layers if self.map == "top" else 0
        return {m: m + above for m in range(1, self.layers + 1)}

    def requires(self, teacher: PretrainedConfig) -> Sequence[Artefact]:
        check_padding(self.padding, teacher)
        if self.head == "relu" and self.has_teachers_layers:
            raise MethodError(
                f"head=relu is a head of a BERT of its own shape: leave start={self.start} out"
            )
        self.layer_map(teacher)
        return super().requires(teacher)

    def build(self, setup: Setup) -> Student:
        model = self.student_model(setup)
        if self.head == "relu":
            # the same weights in the class with the other head
            weights = model.state_dict()
            model = ReluBertForSequenceClassification(
                own_config(ReluBertConfig, model.config, setup.num_labels)
            )
            model.set_attn_implementation("packed")
            model.load_state_dict(weights)
        return Student(model, nn.ModuleDict({"projection": self.start_projection(setup)}))

    def stages(self, setup: Setup) -> Sequence[Stage]:
        if setup.spans and self.head == "relu":
            raise MethodError(
                "head=relu is a head that reads the pooled states, which that of questions does not"
            )
        encoder = self.layer_map(setup.teacher)
        unequal = why_heads_differ(self.heads, setup.teacher)
        # what the layers learn from: embedding, hidden states and attention
        intermediate = {
            "embd": hidden_states({0: 0}),
            "hidn": hidden_states(encoder),
            "attn": layerwise(
                SCORES, encoder, with_layout(losses.scores_mse_realmean), unsupported=unequal
            ),
        }
        # of spans a mean over places would depend on the longest sequence of the batch
        loss = (
            losses.soft_cross_entropy_batchmean
            if setup.spans
            else losses.soft_cross_entropy_elementmean
        )
        equation_10 = partial(loss, temperature=self.temperature)
        prediction = {"pred": hard() if self.prediction == "labels" else soft(equation_10)}
        dropout = self.teacher_dropout
        slow = {"epochs": 20.0, "learning_rate": 5e-5, "schedule": "constant"}
        first = Stage(
            "intermediate",
            intermediate,
            2 / 3,
            teacher_dropout=dropout,
            padding=self.padding,
            paper=slow,
        )
        fast = {"epochs": 3.0, "learning_rate": 3e-5}
        return (first, Stage("prediction", prediction, 1 / 3, teacher_dropout=dropout, paper=fast))


def hidden_states(layers: Mapping[int, int]) -> Term:
    """Squared difference of [T, W] states, the student's projected to the teacher's width; summed
    over layers. Equation 9, and equation 8 for ``{0: 0}``, the embedding output. One projection,
    ``aux["projection"]``, serves all."""

    def loss(pair: Pair[Tensor]) -> Tensor:
        return losses.hidden_mse_tokenmean(pair.aux["projection"](pair.student), pair.teacher)

    return layerwise(HIDDEN, layers, loss)
