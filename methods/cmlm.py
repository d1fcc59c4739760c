"""Distill-BERT for text generation, Chen et al. 2020 (arXiv 1911.03829): a conditional masked
language model teaches a writer.

The paper's: BERT is fine-tuned on ``[CLS] source [SEP] target [SEP]`` with 15 % of the target's
tokens, its end among them, replaced by [MASK] (section 3.1); what it says of each target word, of
which it sees both sides, is the soft target of the student's next word: alpha * KL + (1 - alpha) *
cross-entropy (equation 8). The authors' code: each place is masked once, every seventh in one pass;
the k best logits are kept, softened by T = 10; the output layer begins as the word embeddings of
the student's vocabulary and is untied. ``direction=left-to-right`` is the ablation of a teacher
that sees only what stands before a word.
Ours: the student's logits are not softened and there is no T^2 (that part of the authors' code
could not be read); AdamW with the teacher's rate; KL in the place of the cross-entropy (same
gradient); at least one token of each target is masked; a checkpoint without a masked-language head
gets a new one. Dropping ``soft`` leaves the words at their weight.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor, nn
from transformers import AutoModel, BertConfig, PretrainedConfig

from methods.api import Batch, MethodError, Out, Setup, Stage, Student, Term
from methods.core import losses
from methods.core.artefacts import BASE, TRAIN, Artefact, Given, Source
from methods.core.masked import NoStudentModel, TeacherHead
from methods.core.packed import moved
from methods.core.settings import Count, Fraction, Positive
from methods.core.taps import LOGITS
from methods.core.writing import FIRST, WordPieces, WritingMethod, words_of

Direction = Literal["both", "left-to-right"]
SHARE = 0.15
"""Of a target's tokens that are masked in training."""
EVERY = 7
"""When all places of a target are asked, every seventh is masked in one pass."""


class ConditionalMaskedModel(nn.Module):
    """A BERT with its vectors over the pieces [V] of a student's vocabulary. It reads filled pairs:
    the attention of ``left-to-right`` needs a mask of its own for each query."""

    encoder: Any

    def __init__(
        self,
        encoder: Any,
        transform: Mapping[str, Tensor],
        pieces_V: Tensor,
        mask: int,
        direction: Direction,
    ) -> None:
        super().__init__()
        self.encoder = encoder
        self.encoder.set_attn_implementation("sdpa")
        words_VW = self.encoder.get_input_embeddings().weight.detach()[pieces_V]
        width = words_VW.size(1)
        self.transform = nn.Sequential(
            nn.Linear(width, width), nn.GELU(), nn.LayerNorm(width, eps=1e-12)
        )
        with torch.no_grad():
            for name, value in transform.items():
                self.transform.get_parameter(
                    name.replace("dense", "0").replace("LayerNorm", "2")
                ).copy_(value)
        # begins as the encoder's vectors of the pieces, but is a matrix of its own
        self.output = nn.Linear(width, len(pieces_V))
        self.output.weight = nn.Parameter(words_VW.clone())
        nn.init.zeros_(self.output.bias)
        self.pieces = pieces_V
        self.mask = mask
        self.direction = direction

    def answers(self, batch: Batch, hidden_T: Tensor) -> tuple[Tensor, Tensor]:
        """[K, V] logits of target tokens, and the [K] places of these in the packed row.

        Args:
            hidden_T: which tokens are masked, and asked. Left to right nothing is: all of the
                target are asked, each before it is read.
        """
        layout = batch.layout
        target_T = batch.segment_ids == 1
        is_masked = self.direction == "both"
        ids_T = torch.where(hidden_T, self.mask, batch.token_ids) if is_masked else batch.token_ids
        ids_BL, target_BL, real_BL = (
            _filled(x_T, layout.lengths) for x_T in (ids_T, target_T, torch.ones_like(target_T))
        )
        seen_BLL = real_BL[:, None, :].expand(-1, ids_BL.size(1), -1)
        # a source does not see its target, and no word of a target what comes after it
        if not is_masked:
            before_LL = torch.ones_like(seen_BLL[0]).tril()
            seen_BLL = seen_BLL & (~target_BL[:, None, :] | (target_BL[:, :, None] & before_LL))
        config = self.encoder.config
        # a DistilBERT has none
        has_kinds = isinstance(config, BertConfig) and config.type_vocab_size > 1
        segments = {"token_type_ids": target_BL.long()} if has_kinds else {}
        states_BLW = self.encoder(
            input_ids=ids_BL, attention_mask=seen_BLL[:, None], **segments
        ).last_hidden_state
        asked_T = hidden_T if is_masked else target_T
        states_TW = states_BLW[real_BL]
        # the state before a word says it
        states_KW = states_TW[asked_T] if is_masked else states_TW[asked_T.roll(-1)]
        return self.output(self.transform(states_KW)), asked_T.nonzero()[:, 0]

    def loss(self, batch: Batch) -> Tensor:
        """Cross-entropy of some target tokens, drawn anew from torch's generator: at least
        one of each pair."""
        target_T = batch.segment_ids == 1
        # tokens of the source get 2.0, above every draw: they are never masked
        drawn_T = (
            torch.rand(len(target_T), device="cpu").to(target_T.device).masked_fill(~target_T, 2.0)
        )
        least_B = torch.stack([row.min() for row in drawn_T.split(batch.layout.lengths)])
        lengths_B = torch.tensor(batch.layout.lengths, device=target_T.device)
        # the least draw of each pair counts too: else a pair may have none below the share
        hidden_T = (drawn_T < SHARE) | (drawn_T == least_B.repeat_interleave(lengths_B))
        logits_KV, places_K = self.answers(batch, hidden_T)
        return losses.hard(logits_KV, words_of(self.pieces, batch.token_ids[places_K]) - FIRST)


def _filled(x_T: Tensor, lengths: Sequence[int]) -> Tensor:
    """[B, L] of a packed row, with zeros behind each sequence."""
    return nn.utils.rnn.pad_sequence(list(x_T.split(lengths)), batch_first=True)


@dataclass(frozen=True)
class HeadTransform(Artefact):
    """The layer of a checkpoint's masked-language head below its vocabulary, or a new one
    where it has none."""

    name: ClassVar = "head_transform"
    in_checkpoint: ClassVar = {  # a DistilBERT has names of its own
        ours: (*TeacherHead.in_checkpoint[f"aux.head.{ours}"], theirs)
        for ours, theirs in {
            "dense.weight": "vocab_transform.weight",
            "dense.bias": "vocab_transform.bias",
            "LayerNorm.weight": "vocab_layer_norm.weight",
            "LayerNorm.bias": "vocab_layer_norm.bias",
        }.items()
    }

    def inputs(self, teacher: PretrainedConfig) -> Sequence[Artefact | Source]:
        return (BASE,)

    def make(self, given: Given) -> Mapping[str, Tensor]:
        given.note("random weights: the checkpoint has no masked-language head")
        return self.blank(given.setup.teacher, 2)

    def blank(self, teacher: PretrainedConfig, num_labels: int) -> Mapping[str, Tensor]:
        width = teacher.hidden_size
        dense = {
            "dense.weight": torch.empty(width, width).normal_(std=0.02),
            "dense.bias": torch.zeros(width),
        }
        return dense | {"LayerNorm.weight": torch.ones(width), "LayerNorm.bias": torch.zeros(width)}


@dataclass(frozen=True)
class SoftTargets(Artefact):
    """What a C-MLM, fine-tuned on the training pairs, says of each of their target tokens: ``top``
    [M, k] logits, ``words`` [M, k] of the student, in the order of the pairs; ``starts`` [n + 1] of
    each pair; ``ids`` [n]."""

    k: int
    direction: Direction
    epochs: float
    name: ClassVar = "soft_targets"

    def inputs(self, teacher: PretrainedConfig) -> Sequence[Artefact | Source]:
        return (BASE, TRAIN, WordPieces(), FineTunedCmlm(self.direction, self.epochs))

    def make(self, given: Given) -> Mapping[str, Tensor]:
        model = _cmlm(given, {}, self.direction).eval()
        model.load_state_dict(given[FineTunedCmlm(self.direction, self.epochs)])
        tops: list[Tensor] = []
        words: list[Tensor] = []
        lengths: list[int] = []
        for batch in given.batches(TRAIN):
            target_T = batch.segment_ids == 1
            number_T = torch.cat(
                [row.cumsum(0) - 1 for row in target_T.split(batch.layout.lengths)]
            )
            logits_TV = torch.zeros(len(target_T), len(model.pieces), device=target_T.device)
            # in both directions each word is asked while most of the others can be read
            for turn in range(EVERY if self.direction == "both" else 1):
                hidden_T = target_T & (number_T % EVERY == turn)
                if hidden_T.any():
                    with torch.no_grad():
                        answers_KV, places_K = model.answers(batch, hidden_T)
                    logits_TV[places_K] = answers_KV.float()
            best = logits_TV[target_T].topk(min(self.k, logits_TV.size(1)))
            tops = [*tops, best.values.cpu()]
            words = [*words, best.indices.cpu() + FIRST]
            lengths += [int(row.sum()) for row in target_T.split(batch.layout.lengths)]
        starts = torch.tensor([0, *lengths]).cumsum(0)
        return {
            "top": torch.cat(tops),
            "words": torch.cat(words),
            "starts": starts,
            "ids": torch.tensor(list(given.ids(TRAIN))),
        }

    def blank(self, teacher: PretrainedConfig, num_labels: int) -> Mapping[str, Tensor]:
        places = {"top": torch.zeros(1, self.k), "words": torch.zeros(1, self.k, dtype=torch.int64)}
        return places | {"starts": torch.tensor([0, 1]), "ids": torch.zeros(1, dtype=torch.int64)}


def _cmlm(
    given: Given, transform: Mapping[str, Tensor], direction: Direction
) -> ConditionalMaskedModel:
    classifier: Any = given.teacher(BASE)
    pieces_V = given[WordPieces()]["pieces"].to(given.device)
    model = ConditionalMaskedModel(
        classifier.base_model, transform, pieces_V, given.mask_id, direction
    )
    return model.to(given.device)


@dataclass(frozen=True)
class FineTunedCmlm(Artefact):
    """The weights of a C-MLM that was fine-tuned on the training pairs."""

    direction: Direction
    epochs: float
    name: ClassVar = "cmlm"

    @property
    def words(self) -> str:
        return "conditional masked language model" + (
            " from left to right" if self.direction != "both" else ""
        )

    def inputs(self, teacher: PretrainedConfig) -> Sequence[Artefact | Source]:
        return (BASE, TRAIN, WordPieces(), HeadTransform())

    def make(self, given: Given) -> Mapping[str, Tensor]:
        model = _cmlm(given, given[HeadTransform()], self.direction)
        given.train(
            Student(NoStudentModel(), nn.ModuleDict({"cmlm": model})),
            self.stages(given.setup),
            None,
            TRAIN,
        )
        return model.state_dict()

    @property
    def row_epochs(self) -> float:  # type: ignore[override]
        return self.epochs

    def stages(self, setup: Setup) -> Sequence[Stage]:
        def masked(batch: Batch, student: Out, teacher: Out, aux: nn.ModuleDict) -> Tensor:
            return aux["cmlm"].loss(batch)  # type: ignore[operator,no-any-return]

        return (Stage("masked targets", {"masked": Term(masked)}),)

    def blank(self, teacher: PretrainedConfig, num_labels: int) -> Mapping[str, Tensor]:
        pieces = WordPieces().blank(teacher, num_labels)["pieces"]
        return ConditionalMaskedModel(
            AutoModel.from_config(teacher), {}, pieces, 0, self.direction
        ).state_dict()


@dataclass(frozen=True, kw_only=True)
class Cmlm(WritingMethod):
    name: ClassVar = "cmlm"
    version: ClassVar = 1
    terms: ClassVar = ("soft", "hard")
    ablations: ClassVar = {"w/o soft": ":-soft", "left to right": ":direction=left-to-right"}
    search_space: ClassVar = {"alpha": (0.2, 0.5, 0.8), "temperature": (1.0, 5.0, 10.0)}

    alpha: Fraction = 0.5  # weight of the soft loss; the words have 1 - alpha
    temperature: Positive = 10.0
    k: Count = 8  # logits that are kept of each word
    direction: Direction = "both"
    teacher_epochs: Positive = 10.0

    def requires(self, teacher: PretrainedConfig) -> Sequence[Artefact]:
        if teacher.model_type not in ("bert", "distilbert"):
            raise MethodError(
                f"its teacher is a BERT or a DistilBERT; this one is a {teacher.model_type}"
            )
        return (WordPieces(), SoftTargets(self.k, self.direction, self.teacher_epochs))

    def stages(self, setup: Setup) -> Sequence[Stage]:
        rows: dict[int, int] = {}

        def soft(batch: Batch, student: Out, teacher: Out, aux: nn.ModuleDict) -> Tensor:
            targets = setup.artefacts[SoftTargets.name]
            if not rows:
                rows.update({number: row for row, number in enumerate(targets["ids"].tolist())})
            places = [
                torch.arange(*targets["starts"][(row := rows[number]) : row + 2].tolist())
                for number in batch.example_ids
            ]
            places_N = torch.cat(places)
            told = moved(
                {name: targets[name][places_N] for name in ("top", "words")}, student.logits.device
            )
            return losses.top_kl_tokenmean(
                student.logits, told["top"], told["words"], self.temperature
            )

        return (
            self.stage(
                {"soft": Term(soft, self.alpha, LOGITS), "hard": self.hard(setup, 1 - self.alpha)}
            ),
        )
