"""Students that write a text from a text: their words, their model, their settings, and the loss on
the words to write."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from transformers import MarianConfig, MarianMTModel, PretrainedConfig

from methods.api import (
    Batch,
    Method,
    MethodError,
    Out,
    Setup,
    Stage,
    Student,
    Tap,
    Taps,
    Term,
    UndeclaredNeed,
)
from methods.core import losses
from methods.core.artefacts import TRAIN, Artefact, Given, Source
from methods.core.models import Cost, WritingModel
from methods.core.settings import Count, Fraction, Positive
from methods.core.taps import LOGITS

PAD = 0
"""A student's own word for filling."""
OTHER = 1
"""A student's own word for a piece that the training pairs have not."""
BEGIN = 2
"""A student's own word before a text that is written."""
FIRST = 3
"""The first of a student's own words that is a word piece."""


def sides(batch: Batch, words_T: Tensor) -> list[Tensor]:
    """``[CLS] source [SEP] target [SEP]`` of every pair in ``words_T``, cut into [B, S] sources
    with their [SEP] and [B, M] targets with their own, filled with PAD."""
    # one wait for the device
    written = batch.layout.sum(batch.segment_ids[:, None])[:, 0].tolist()
    rows = zip(words_T.split(batch.layout.lengths), written, strict=True)
    cut = [row.split([len(row) - second, second]) for row, second in rows]
    sources = [source[1:] for source, _ in cut]
    targets = [target for _, target in cut]
    return [nn.utils.rnn.pad_sequence(side, batch_first=True) for side in (sources, targets)]


@dataclass(frozen=True)
class WordPieces(Artefact):
    """The tokens that occur in the training pairs, in the order of their numbers, and the one that
    ends each of them."""

    name: ClassVar = "word_pieces"

    def inputs(self, teacher: PretrainedConfig) -> Sequence[Artefact | Source]:
        return (TRAIN,)

    def make(self, given: Given) -> Mapping[str, Tensor]:
        seen = torch.zeros(0, dtype=torch.int64)
        end = 0
        for batch in given.batches(TRAIN):
            seen = torch.cat([seen, batch.token_ids.cpu()]).unique()
            end = int(batch.token_ids[-1])
        return {"pieces": seen, "end": torch.tensor(end)}

    def blank(self, teacher: PretrainedConfig, num_labels: int) -> Mapping[str, Tensor]:
        return {
            "pieces": torch.arange(min(8000, teacher.vocab_size), device="cpu"),
            "end": torch.tensor(1, device="cpu"),
        }


def words_of(pieces_V: Tensor, token_ids: Tensor) -> Tensor:
    """Token ids as a student's own words."""
    place = torch.searchsorted(pieces_V, token_ids).clamp(max=len(pieces_V) - 1)
    return torch.where(pieces_V[place] == token_ids, place + FIRST, OTHER)


class Writer(WritingModel, MarianMTModel):
    """Reads and writes its own words; ``pieces`` are the token ids of those from FIRST on."""

    pieces: Tensor

    def __init__(self, config: MarianConfig) -> None:
        super().__init__(config)
        self.register_buffer("pieces", torch.zeros(config.vocab_size - FIRST, dtype=torch.int64))

    def packed_forward(self, batch: Batch, taps: Taps) -> Out:
        """Logits [N, V] of all words to write, each given those before it."""
        if taps - LOGITS:
            raise UndeclaredNeed("of a model that writes, a term can read logits alone")
        # each word to write is given those before it
        source_BS, target_BM = self.sides(batch)
        before_BM = torch.cat(
            [target_BM.new_full((len(target_BM), 1), BEGIN), target_BM[:, :-1]], 1
        )
        # its own forward is not called: it would fill, smooth and average in another way
        states_BMW = self.model(
            input_ids=source_BS,
            attention_mask=source_BS != PAD,
            decoder_input_ids=before_BM,
            use_cache=False,
        ).last_hidden_state
        return Out(batch.layout, {Tap("logits"): self.lm_head(states_BMW[target_BM != PAD])})

    def forward(self, input_ids: Tensor | None = None, **given: Any) -> Any:
        """Ids alone have a target that is like its source: so that the model can be counted."""
        if "encoder_outputs" not in given and "decoder_input_ids" not in given:
            given["decoder_input_ids"] = input_ids
        return super().forward(input_ids, **given)

    def sides(self, batch: Batch) -> list[Tensor]:
        return sides(batch, words_of(self.pieces, batch.token_ids))

    def written(self, batch: Batch) -> list[list[int]]:
        source_BS = self.sides(batch)[0]
        rows: Any = self.generate(source_BS, attention_mask=source_BS != PAD)  # type: ignore[misc]
        texts: list[list[int]] = []
        for row in rows.tolist():
            words = [word for word in row if word >= FIRST and word != self.config.eos_token_id]
            places = torch.tensor(words, dtype=torch.int64) - FIRST
            texts.append(self.pieces[places].tolist())
        return texts

    def cost(self) -> Cost:
        """The cost of a source of so many tokens and a target of as many, which the decoder reads
        at once. Writing reads a target once for each beam; nothing is computed twice."""
        encoder, decoder = self.parts_cost()
        return Cost(
            encoder.per_token + decoder.per_token,
            encoder.per_squared_length + decoder.per_squared_length,
            0,
        )

    def training_cost(self) -> Cost:
        """The cost of each token of a pair, half of which are a source."""
        both = self.cost()
        return Cost(both.per_token / 2, both.per_squared_length / 4, 0)

    def parts_cost(self) -> tuple[Cost, Cost]:
        """A source's keys and values, which the decoder computes once, are counted with its words,
        of which there are about as many."""
        c: Any = self.config
        width = c.d_model
        inner = 2 * width * c.encoder_ffn_dim
        encoder = Cost(c.encoder_layers * (4 * width**2 + inner), c.encoder_layers * 2 * width, 0)
        decoder = c.decoder_layers * (8 * width**2 + inner) + width * c.vocab_size
        return encoder, Cost(decoder, c.decoder_layers * 4 * width, 0)


@dataclass(frozen=True, kw_only=True)
class WritingMethod(Method):
    """Settings of a student that writes (default: the base size of Vaswani et al. 2017), and how it
    is built."""

    needs_teacher: ClassVar = False
    writes: ClassVar = True
    rate_factor: ClassVar = "rate"
    tiny_settings: ClassVar = {
        "layers": 1,
        "hidden": 16,
        "heads": 2,
        "ffn": 32,
        "beams": 2,
        "longest": 12,
    }

    layers: Count = 6  # of the encoder, and of the decoder
    hidden: Count = 512
    heads: Count = 8
    ffn: Count = 2048
    dropout: Fraction = 0.1
    smoothing: Fraction = 0.1  # of the words to write
    # what the recipe's learning rate is multiplied with: nothing begins pre-trained
    rate: Positive = 3.0
    beams: Count = 5
    length_penalty: Positive = 0.6
    longest: Count = 128  # words that it writes at most

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.hidden % self.heads:
            raise MethodError(f"hidden={self.hidden} should be a multiple of heads={self.heads}")

    def requires(self, teacher: PretrainedConfig) -> Sequence[Artefact]:
        return (WordPieces(),)

    def build(self, setup: Setup) -> Student:
        # its words are the pieces of the training pairs
        known = setup.artefacts[WordPieces.name]
        end = int(words_of(known["pieces"], known["end"]))
        parts = {"layers": self.layers, "attention_heads": self.heads, "ffn_dim": self.ffn}
        sizes: dict[str, Any] = {
            f"{side}_{part}": size
            for side in ("encoder", "decoder")
            for part, size in parts.items()
        }
        config = MarianConfig(  # type: ignore[call-arg]
            vocab_size=len(known["pieces"]) + FIRST,
            d_model=self.hidden,
            max_position_embeddings=max(512, self.longest),
            dropout=self.dropout,
            activation_function="relu",
            scale_embedding=True,
            init_std=self.hidden**-0.5 / 2,
            pad_token_id=PAD,
            eos_token_id=end,
            forced_eos_token_id=None,
            decoder_start_token_id=BEGIN,
            **sizes,
        )
        model: Any = Writer(config)
        # a plan has shapes alone
        if not model.pieces.is_meta:
            model.pieces.copy_(known["pieces"])
        # how it writes
        asked = {
            "num_beams": self.beams,
            "length_penalty": self.length_penalty,
            "max_new_tokens": self.longest,
        }
        model.generation_config.update(
            **asked, max_length=None, suppress_tokens=[PAD, OTHER, BEGIN], do_sample=False
        )
        return Student(model)

    def words(self, batch: Batch, pieces: Tensor) -> Tensor:
        """[N] words to write, in the order of the logits."""
        _, target_BM = sides(batch, words_of(pieces.to(batch.token_ids.device), batch.token_ids))
        return target_BM[target_BM != PAD]

    def hard(self, setup: Setup, weight: float) -> Term:
        def term(batch: Batch, student: Out, teacher: Out, aux: nn.ModuleDict) -> Tensor:
            words_N = self.words(batch, setup.artefacts[WordPieces.name]["pieces"])
            return losses.smoothed_tokenmean(student.logits, words_N, self.smoothing)

        return Term(term, weight, LOGITS)

    def stage(self, terms: Mapping[str, Term]) -> Stage:
        # Noam: 2 / sqrt(512) / sqrt(8000) at most; 100,000 steps of 4,096 words are about 100
        # epochs of IWSLT's 160,000 pairs
        paper = {
            "epochs": 100.0,
            "learning_rate": 9.9e-4 / self.rate,
            "warmup": 0.08,
            "weight_decay": 0.0,
            "betas": (0.9, 0.998),
        }
        return Stage("write", terms, lr_scale=lambda progress: self.rate, paper=paper)

    def notes(self, setup: Setup) -> Sequence[str]:
        return (f"writes with beam {self.beams}, length penalty {self.length_penalty:g}",)
