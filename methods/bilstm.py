"""Distilled BiLSTM, Tang et al. 2019 (arXiv 1903.12136): a task's knowledge in a
one-layer recurrent network.

The paper's: words in vectors of 300, one bidirectional LSTM of 150 a direction, the two last states
through a layer of 200 with relu (it also tries 300 and 400); pairs through the same LSTM each,
compared as [a, b, a * b, |a - b|]. The loss is the mean squared error of the logits alone (equation
7 with alpha 0). The authors' code adds the labels' loss with weight 1: ``hard_weight=1``; of pairs
it compares softened answers at T = 3 in the place of the logits, which is not here.
Their transfer set, 20 changed copies of a text (10 of a pair) that the teacher labels, is off by
default: ``--augment rules`` makes it, and its ``[MASK]`` is one word.
Ours: word vectors begin at random, because none are shipped: mode "rand" of the authors' code, not
the paper's word2vec ones, and the row says so. The vocabulary is the most frequent words of the
task's training examples, in lower case; the teacher's word pieces are not used. Batches are the
recipe's, as for every row, in the place of 50 (of pairs 16). By the common recipe so is the
optimiser, and the rate is ten times the recipe's, because steps that suit a pre-trained encoder
leave random vectors where they are (``rate``). ``--recipe paper`` takes Adadelta at a constant rate
of 1.0 and rho 0.95 from the paper, and 30 epochs without weight decay from the authors' settings
for SST-2; those have a rate of 5e-4, as all of their files. Dropout is on in pairs too (their
siamese model applies none). The
last epoch is kept, there the best on development examples. It reads the first 128 words of each
text, whatever ``max_length`` the run has. Clipping at norm 1 is the recipe's, as is the weight
decay of 0.01 by the common one: the code has neither in effect.
The paper's teacher is BERT-large: its retention is not to be compared with rows of another one.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from transformers import PretrainedConfig, PreTrainedModel
from transformers.modeling_outputs import SequenceClassifierOutput

from methods.api import Batch, Method, Out, Setup, Stage, Student, Tap, Taps, Term, UndeclaredNeed
from methods.core import losses
from methods.core.artefacts import Artefact, ComputedArtefact
from methods.core.models import Cost, PackedModel
from methods.core.packed import moved
from methods.core.parts import opened_by_transformers
from methods.core.settings import Count, Positive
from methods.core.terms import LOGITS, hard

PAD = 0
UNKNOWN = 1
MASK = "[MASK]"  # what the rules of the transfer set put in the place of a word


def words_of(text: str) -> list[str]:
    """Lower case; letters and digits together, every other sign alone; ``[MASK]`` is one word."""
    first, *further = (re.findall(r"\w+|[^\w\s]", piece.lower()) for piece in text.split(MASK))
    return first + [word for piece in further for word in (MASK, *piece)]


@dataclass(frozen=True)
class Vocabulary(ComputedArtefact):
    """The most frequent words of the training examples, ties in alphabetical order, as text in
    a tensor of bytes."""

    size: int

    name: ClassVar = "vocabulary"
    version: ClassVar = 2  # 1 read [MASK] as three words

    def compute(self, teacher: nn.Module, batches: Iterable[Batch]) -> Mapping[str, Tensor]:
        counts: Counter[str] = Counter()
        pairs = False
        for batch in batches:
            for first, second in batch.texts:
                pairs |= second is not None
                counts.update(words_of(first) + words_of(second or ""))
        common = sorted(counts, key=lambda word: (-counts[word], word))[: self.size]
        return {"words": _as_bytes(common), "pairs": torch.tensor([int(pairs)])}

    def blank(self, teacher: PretrainedConfig, num_labels: int) -> Mapping[str, Tensor]:
        words = _as_bytes([f"w{number}" for number in range(self.size)])
        return {"words": words, "pairs": torch.tensor([0], device="cpu")}


def _as_bytes(words: Sequence[str]) -> Tensor:
    # on the CPU by name: it is read as text, also where shapes are counted on the meta device
    return torch.tensor(list("\n".join(words).encode()), dtype=torch.uint8, device="cpu")


class BiLstmConfig(PretrainedConfig):
    """Sizes of the network, and how many bytes the text of its vocabulary has."""

    model_type = "bert_bench_bilstm"
    vocab_size: int = 2
    word_bytes: int = 0
    word_width: int = 300
    hidden_size: int = 150
    inner: int = 200
    pairs: bool = False
    dropout: float = 0.1
    max_position_embeddings: int = 128


@opened_by_transformers
class BiLstmForSequenceClassification(PackedModel, PreTrainedModel):
    """Reads texts with a vocabulary of its own, which is saved with the weights."""

    config_class = BiLstmConfig
    reads_texts = True
    base_model_prefix = "bilstm"
    config: Any
    words: Tensor

    def __init__(self, config: BiLstmConfig) -> None:
        super().__init__(config)
        embeddings = nn.ModuleDict({"word": nn.Embedding(config.vocab_size, config.word_width)})
        encoder = nn.LSTM(
            config.word_width, config.hidden_size, batch_first=True, bidirectional=True
        )
        self.bilstm = nn.ModuleDict({"embeddings": embeddings, "encoder": encoder})
        self.pre_classifier = nn.Linear(
            (8 if config.pairs else 2) * config.hidden_size, config.inner
        )
        self.classifier = nn.Linear(config.inner, int(config.num_labels or 2))
        self.register_buffer("words", torch.zeros(config.word_bytes, dtype=torch.uint8))
        self._ids: dict[str, int] | None = None
        self.post_init()

    def _init_weights(self, module: nn.Module) -> None:
        """torch's own beginnings, with word vectors as small as word2vec's."""
        if isinstance(module, nn.Embedding):
            nn.init.uniform_(module.weight, -0.25, 0.25)

    def set_attn_implementation(self, attn_implementation: Any, *args: Any, **kwargs: Any) -> None:
        # there is no attention; callers need not know
        self.config._attn_implementation = attn_implementation

    @property
    def ids(self) -> dict[str, int]:
        """Word -> id; 0 is padding, 1 any other word."""
        if self._ids is None:
            listed = bytes(self.words.cpu().tolist()).decode().split("\n")
            self._ids = {word: number for number, word in enumerate(listed, start=2)}
        return self._ids

    def packed_forward(self, batch: Batch, taps: Taps) -> Out:
        if taps - LOGITS:
            raise UndeclaredNeed(
                "a BiLSTM has no encoder layers that a term could read; only logits"
            )
        return Out(batch.layout, {Tap("logits"): self.of_texts(batch.texts)})

    def of_texts(self, texts: Sequence[tuple[str, str | None]]) -> Tensor:
        """[B, C] logits of texts, or of pairs of texts, read with the vocabulary that
        is in the weights."""
        sides = [[first for first, _ in texts], [second or "" for _, second in texts]]
        return self._answer([self._read(side) for side in sides[: 1 + self.config.pairs]])

    def _read(self, texts: Sequence[str]) -> Tensor:
        most = self.config.max_position_embeddings
        rows = []
        for text in texts:
            ids = [self.ids.get(word, UNKNOWN) for word in words_of(text)[:most]]
            rows.append(ids or [UNKNOWN])
        ids_BL = nn.utils.rnn.pad_sequence([torch.tensor(row) for row in rows], batch_first=True)
        ids_BL = moved({"ids": ids_BL}, self.words.device)["ids"]
        return self._states(ids_BL, [len(row) for row in rows])

    def _states(self, ids_BL: Tensor, lengths: Sequence[int] | None) -> Tensor:
        """[B, 2H]: the last state of each direction."""
        parts: Any = self.bilstm
        x = parts["embeddings"]["word"](ids_BL)
        if lengths is not None:
            x = nn.utils.rnn.pack_padded_sequence(
                x, list(lengths), batch_first=True, enforce_sorted=False
            )
        _, (last_2BH, _) = parts["encoder"](x)
        return torch.cat([last_2BH[0], last_2BH[1]], -1)

    def _answer(self, sides: Sequence[Tensor]) -> Tensor:
        x_BF = sides[0]
        if self.config.pairs:
            a, b = sides
            x_BF = torch.cat([a, b, a * b, (a - b).abs()], -1)
        inner_BF = nn.functional.dropout(
            torch.relu(self.pre_classifier(x_BF)), self.config.dropout, self.training
        )
        return self.classifier(inner_BF)  # type: ignore[no-any-return]

    def forward(
        self, input_ids: Tensor | None = None, attention_mask: Tensor | None = None, **_: Any
    ) -> SequenceClassifierOutput:
        """[B, L] word ids of its own vocabulary, one text a row; of a model for pairs the two
        halves of a row are the pair. An id beyond the vocabulary stands for its last word:
        timings feed random ids."""
        assert input_ids is not None
        ids_BL = input_ids.clamp(max=self.config.vocab_size - 1)
        if self.config.pairs:
            sides = [self._states(half, None) for half in ids_BL.chunk(2, 1)]
        else:
            padded = attention_mask is not None and not bool(attention_mask.all())
            lengths = attention_mask.sum(1).tolist() if padded else None  # type: ignore[union-attr]
            sides = [self._states(ids_BL, lengths)]
        return SequenceClassifierOutput(logits=self._answer(sides))

    def cost(self) -> Cost:
        """Of a sequence of words: two directions of four gates; nothing is squared."""
        c = self.config
        once = self.pre_classifier.weight.numel() + c.inner * c.num_labels
        return Cost(2 * 4 * c.hidden_size * (c.word_width + c.hidden_size), 0, once)


@dataclass(frozen=True, kw_only=True)
class BiLSTM(Method):
    name: ClassVar = "bilstm"
    version: ClassVar = 2  # 1 decayed the biases of the LSTM, and read [MASK] as three words
    terms: ClassVar = ("logits", "hard")
    ablations: ClassVar = {
        "labels alone": ":-logits:hard_weight=1",
        "with labels": ":hard_weight=1",
    }
    needs_teacher: ClassVar = True
    rate_factor: ClassVar = "rate"
    search_space: ClassVar = {"hard_weight": (0.0, 1.0), "hidden": (150, 300)}
    tiny_settings: ClassVar = {"words": 40, "word_width": 16, "hidden": 8, "inner": 8}

    words: Count = 10_000  # at most so many of the training examples' words
    word_width: Count = 300
    hidden: Count = 150  # of one direction
    inner: Count = 200
    hard_weight: float = 0.0  # of the labels' loss; the paper's 0, the code's 1
    rate: Positive = 10.0  # what the recipe's learning rate is multiplied with

    def requires(self, teacher: PretrainedConfig) -> Sequence[Artefact]:
        return (Vocabulary(self.words),)

    def notes(self, setup: Setup) -> Sequence[str]:
        return (
            "word vectors begin at random. The vocabulary is that of the task's training texts",
            "the paper's transfer set (augmented examples) is made only with --augment rules",
        )

    def build(self, setup: Setup) -> Student:
        vocabulary = setup.artefacts[Vocabulary.name]
        words = vocabulary["words"]
        # transformers takes num_labels, and declares it nowhere
        config = BiLstmConfig(  # type: ignore[call-arg]
            vocab_size=2 + bytes(words.tolist()).count(b"\n") + 1,
            word_bytes=words.numel(),
            word_width=self.word_width,
            hidden_size=self.hidden,
            inner=self.inner,
            pairs=bool(vocabulary["pairs"].item()),
            num_labels=setup.num_labels,
        )
        model: Any = BiLstmForSequenceClassification(config)
        if not model.words.is_meta:
            model.words.copy_(words)
        return Student(model)

    def stages(self, setup: Setup) -> Sequence[Stage]:
        def logits(batch: Batch, student: Out, teacher: Out, aux: nn.ModuleDict) -> Tensor:
            return losses.logits_mse_elementmean(student.logits, teacher.logits)

        terms = {"logits": Term(logits, 1.0, LOGITS, LOGITS), "hard": hard(self.hard_weight)}
        paper = {"epochs": 30.0, "learning_rate": 1.0 / self.rate, "schedule": "constant"}
        paper |= {"weight_decay": 0.0, "optimizer": "adadelta"}
        return (Stage("distil", terms, lr_scale=lambda progress: self.rate, paper=paper),)
