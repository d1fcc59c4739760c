"""Pre-trained distillation, Turc et al. 2019 (arXiv 1908.08962): "Well-read students learn better".

The paper's: a compact BERT is pre-trained on text first, then learns the tuned teacher's
predictions by soft cross-entropy on transfer data, with nothing but the logits; a last step on the
labels is optional (its PD-F). The shapes are those of table 1 of TinyBERT: BERT_TINY (4 x 312, the
default) and BERT_SMALL (``layers=4:hidden=512:heads=8:ffn=2048``).
``start=masked`` pre-trains as the paper does: on masked tokens, from random
weights, without a teacher.
Ours: the default pre-training is the shared general start (hidden states of the un-tuned teacher on
unlabelled text, begun as the teacher cut down), so that rows differ in their task distillation
alone: without ``start=masked`` the row is not the paper's pre-training. No next-sentence loss; the
transfer data are the task's own training sentences, where the paper has millions of unlabelled
ones. Temperature 1. The rate of ``start=masked`` is the common one of general stages, 1e-3, also
with ``--recipe paper``: we know of no number of the authors' for it (the default start then has
1e-4, see ``tinybert``). Of PD-F the last third of the training is on the labels, at the same rate;
the paper's last step is a training of its own, and with ``--recipe paper`` it is so here: four
epochs after the other four.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

from torch import Tensor
from transformers import PretrainedConfig

from methods.api import Setup, Stage
from methods.core import losses
from methods.core.artefacts import Artefact
from methods.core.masked import MaskedPretraining
from methods.core.own_shape import OwnShape
from methods.core.parts import encoder_of
from methods.core.terms import hard, soft


@dataclass(frozen=True, kw_only=True)
class PreTrainedDistillation(OwnShape):
    name: ClassVar = "pd"
    version: ClassVar = 1
    terms: ClassVar = ("soft", "hard")
    ablations: ClassVar = {"w/o pre-training": ":start=random", "PD-F": ":finetune=true"}
    needs_teacher: ClassVar = True
    spans: ClassVar = True

    start: Literal["general", "random", "masked"] = "general"  # type: ignore[assignment]
    """``masked``: the paper's own pre-training, on the same text as the general start."""
    finetune: bool = False
    """Whether the last third of the training is on the labels; by --recipe paper as many
    epochs as before."""

    def requires(self, teacher: PretrainedConfig) -> Sequence[Artefact]:
        return (
            (MaskedPretraining(self.shape),)
            if self.start == "masked"
            else super().requires(teacher)
        )

    def start_tensors(self, setup: Setup) -> Mapping[str, Tensor]:
        masked = self.start == "masked"
        return (
            encoder_of(setup.artefacts[MaskedPretraining.name])
            if masked
            else super().start_tensors(setup)
        )

    def stages(self, setup: Setup) -> Sequence[Stage]:
        terms = {"soft": soft(losses.soft_cross_entropy_batchmean)}
        share = 2 / 3 if self.finetune else 1.0
        # searched over 3e-4 ... 3e-5, as for plain tuning
        distil = Stage(
            "distil", terms, epoch_fraction=share, paper={"epochs": 4.0, "learning_rate": 1e-4}
        )
        if not self.finetune:
            return (distil,)
        return (
            distil,
            Stage("finetune", {"hard": hard()}, epoch_fraction=1 / 3, paper=dict(distil.paper)),
        )
