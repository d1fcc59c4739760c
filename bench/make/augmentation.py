"""Augmented training rows as an artefact, made once with the un-tuned teacher.

They are kept under a key, with a hash of their content.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from bench.cache import cache_root, keep
from bench.data.augmentation import CANDIDATES, Candidates, augmented, replaceable
from bench.data.checkpoints import Checkpoint, longest_input, sha256_of, tokenizer_of
from bench.data.encoding import Encoded
from bench.data.table_files import Split
from bench.data.word_vectors import WordVectors, read
from bench.folders import STATES
from bench.make.teacher import base_model
from bench.make.work import MadeArtefact, Work
from bench.plan.plan import ArtefactPlan, TaskPlan
from bench.record.code import AUGMENTATION, digest_of
from bench.record.keys import digest
from bench.train.loop import OnStep
from bench.train.numerics import ComputeSettings
from bench.train.prediction import predict
from methods.api import Batch, Setup
from methods.core import taps
from methods.core.masked import TeacherHead
from methods.core.models import forward
from methods.core.packed import Layout

TOKENS_A_PASS = 8192
LONGEST = 126
"""Tokens of a sentence and of its copy with a masked word together, without the special ones.

They are fewer where the teacher reads fewer.
"""
TEXTS = "texts.parquet"
ANSWERS = 2 * CANDIDATES
"""Pieces that are asked for: ends of words and the word itself fall away."""


class Question(NamedTuple):
    """A word of one piece, whose place is masked.

    Attributes:
        sentence: its number.
        word: the place of the word in it.
        pieces: token ids of the sentence, cut where it is too long.
        piece: the place of the word among them.
    """

    sentence: int
    word: int
    pieces: list[int]
    piece: int


def augmented_rows(
    plan: TaskPlan,
    shared_artefact: Callable[[ArtefactPlan], MadeArtefact],
    work: Work,
    on_step: OnStep,
) -> tuple[Split, np.ndarray, dict[str, Any]]:
    """The rows with their variants, from the cache or made now.

    Args:
        shared_artefact: makes the un-tuned teacher's masked-language head.

    Returns:
        The rows, the row each was made of, and what the record says of them.
    """
    import pandas

    split = plan.train
    augmentation = plan.augmentation
    slot = plan.augmentation_slot
    assert augmentation is not None
    parts: dict[str, Mapping[str, Any]] = {}
    # what the teacher has answered so far, for the same code and software alone
    software = [digest_of(AUGMENTATION), torch.__version__, torch.get_num_threads()]
    kept = cache_root() / STATES / f"augmentation-{digest([slot.key, *software])[:24]}"

    def write(folder: Path) -> dict[str, Any]:
        candidates: Candidates | None = None
        if plan.masked_head is not None:
            vectors = None if augmentation.vectors is None else read(augmentation.vectors)
            head = shared_artefact(plan.masked_head)
            parts["masked head"] = head.body
            candidates = TeacherCandidates(
                plan.checkpoint,
                head.tensors,
                work.numerics,
                on_step,
                vectors,
                kept,
                work.progress.is_stopping,
            )
        tokenizer = tokenizer_of(plan.checkpoint)
        mask = tokenizer.mask_token or tokenizer.unk_token
        variants, origins = augmented(split, augmentation, candidates, mask)
        columns: dict[str, Any] = {"first": list(variants.first), "origin": origins}
        if variants.second is not None:
            columns["second"] = list(variants.second)
        pandas.DataFrame(columns).to_parquet(folder / TEXTS, index=False)
        return {"weights": sha256_of(folder / TEXTS), "rows": len(variants)}

    body = keep(slot, write, parts, TEXTS, work.progress.say)
    kept.unlink(missing_ok=True)
    # the labels of the rows that they were made of
    table = pandas.read_parquet(slot.folder / TEXTS)
    origins = table["origin"].to_numpy()
    first = table["first"].tolist()
    second = table["second"].tolist() if "second" in table else None
    labels = None if split.labels is None else split.labels[origins]
    return Split(first, second, labels, list(range(len(table)))), origins, body


def relabel_variants(
    encoded: Encoded, origins: np.ndarray, teacher: nn.Module, numerics: ComputeSettings
) -> None:
    """Give every variant the tuned teacher's answer as its label.

    It may mean something else than its origin.

    Args:
        origins: [n] the row that each row was made of; the first of a run of equal ones is that row
            itself.
    """
    assert encoded.labels is not None
    # a variant stands behind the row that it was made of
    is_variant = np.diff(origins, prepend=-1) == 0
    variants = np.flatnonzero(is_variant)
    answers = torch.from_numpy(predict(teacher, encoded, numerics))
    labels = answers[:, 0] if answers.size(1) == 1 else answers.argmax(1)
    encoded.labels[variants] = labels[variants].to(encoded.labels.dtype)


class TeacherCandidates:
    """The words that the un-tuned teacher would put in a word's place.

    A word of one piece: its place is masked; of the 30 likeliest pieces there, the first 15 that
    are whole words and another word. (The authors take the words among the 15 likeliest pieces, so
    they get fewer.) The whole sentence follows as the second segment, as the authors' code asks.

    A word of several pieces: its 15 nearest words by the cosine of the given word vectors (the
    authors': GloVe's), none where they lack it; without vectors, by that of the teacher's own
    embeddings. A word that the vocabulary cannot spell is looked up in the word vectors too;
    without them it has no candidates.

    What the teacher has answered is added to the file ``kept``: a run that is interrupted goes on
    there, as the questions always come in the same order.
    """

    def __init__(
        self,
        checkpoint: Checkpoint,
        head: Mapping[str, Tensor],
        numerics: ComputeSettings,
        on_step: OnStep,
        vectors: WordVectors | None = None,
        kept: Path | None = None,
        is_stopping: Callable[[], bool] = lambda: False,
    ) -> None:
        self._numerics = numerics
        self._on_step = on_step
        self._vectors = vectors
        self._kept = kept
        self._is_stopping = is_stopping
        self._earlier = _earlier_answers(kept)
        self._tokenizer = tokenizer_of(checkpoint)
        self._last_layer = checkpoint.config.num_hidden_layers
        # [CLS] and two [SEP]
        self._longest = min(LONGEST, longest_input(checkpoint.config) - 3) // 2

        # the teacher: a head that the checkpoint lacks is drawn, and not asked
        with torch.random.fork_rng(devices=[]):
            model = base_model(checkpoint.folder, checkpoint.config.num_labels)
            self._model = model.to(numerics.device).eval()
        weights = {name: value.cpu() for name, value in self._model.state_dict().items()}
        artefacts = {"teacher_weights": weights, TeacherHead.name: head}
        setup = Setup(checkpoint.config, 2, (), artefacts)
        self._head = TeacherHead().filled(setup).to(numerics.device).eval()

        # its vocabulary: which pieces are words, and what is near to them
        self._pieces = self._tokenizer.convert_ids_to_tokens(list(range(len(self._tokenizer))))
        self._is_word_V = torch.tensor([piece.isalpha() for piece in self._pieces])
        words_VW = weights["bert.embeddings.word_embeddings.weight"][: len(self._pieces)]
        self._nearest = _nearest(
            words_VW, self._is_word_V, self._pieces, self._tokenizer.unk_token_id
        )

    def __call__(self, sentences: Sequence[Sequence[str]]) -> list[dict[int, list[str]]]:
        """For each sentence the candidates of its words, by their places."""
        pieces = [list(map(self._pieces_of, words)) for words in sentences]
        in_vectors = self._in_vectors(sentences, pieces)
        candidates: list[dict[int, list[str]]] = []
        questions: list[Question] = []
        for words, pieces_of_words in zip(sentences, pieces, strict=True):
            # a word that begins beyond what the teacher reads has none
            ids = list(itertools.chain(*pieces_of_words))[: self._longest]
            found: dict[int, list[str]] = {}
            begin = 0
            for place, (word, word_ids) in enumerate(zip(words, pieces_of_words, strict=True)):
                if replaceable(word) and begin < len(ids):
                    if self._is_one_piece(word_ids):
                        questions.append(Question(len(candidates), place, ids, begin))
                    elif self._vectors is None:
                        found[place] = self._nearest(word_ids)
                    else:
                        found[place] = in_vectors.get(word, [])
                begin += len(word_ids)
            candidates.append(found)

        # the words of one piece: what the teacher answers
        for question, likely in self._answered(questions):
            masked = question.pieces[question.piece]
            others = [self._pieces[i] for i in likely if self._is_word_V[i] and i != masked]
            candidates[question.sentence][question.word] = others[:CANDIDATES]
        return candidates

    def _pieces_of(self, word: str) -> list[int]:
        """The token ids of a word."""
        ids: list[int] = self._tokenizer(word, add_special_tokens=False)["input_ids"]
        return ids

    def _is_one_piece(self, ids: Sequence[int]) -> bool:
        """Whether a word is a token by itself."""
        return len(ids) == 1 and ids[0] != self._tokenizer.unk_token_id

    def _in_vectors(
        self, sentences: Sequence[Sequence[str]], pieces: Sequence[Sequence[list[int]]]
    ) -> Mapping[str, list[str]]:
        """The words of several pieces -> their nearest ones in the word vectors."""
        if self._vectors is None:
            return {}
        several: dict[str, None] = {}
        for words, pieces_of_words in zip(sentences, pieces, strict=True):
            for word, ids in zip(words, pieces_of_words, strict=True):
                if replaceable(word) and not self._is_one_piece(ids):
                    several[word] = None
        return self._vectors.nearest(several, CANDIDATES)

    def _answered(self, questions: Sequence[Question]) -> Iterator[tuple[Question, list[int]]]:
        """Each question with the likeliest pieces at its place.

        There are as many questions in a pass as its tokens allow.
        """
        # what an earlier run has asked
        start = min(len(questions), len(self._earlier))
        yield from zip(questions, self._earlier[:start].tolist(), strict=False)
        self._earlier = self._earlier[start:]

        while start < len(questions):
            # as many as a pass holds, one at least
            stop = start
            tokens = 0
            while stop < len(questions) and (stop == start or tokens < TOKENS_A_PASS):
                tokens += 2 * len(questions[stop].pieces) + 3
                stop += 1
            answers = self._likeliest(questions[start:stop])
            yield from zip(questions[start:stop], answers, strict=True)
            start = stop
            # kept before anything else can stop it
            if self._kept is not None:
                self._kept.parent.mkdir(parents=True, exist_ok=True)
                with self._kept.open("ab") as stream:
                    stream.write(np.array(answers, np.int32).tobytes())
            if self._is_stopping():
                raise KeyboardInterrupt
            self._on_step(stop, len(questions))

    @torch.no_grad()
    def _likeliest(self, questions: Sequence[Question]) -> list[list[int]]:
        """The likeliest pieces at the masked place of each question, in one pass."""
        cls = self._tokenizer.cls_token_id
        sep = self._tokenizer.sep_token_id
        mask = self._tokenizer.mask_token_id
        device = self._numerics.device

        # the sentence with the mask, and the whole one behind it
        tokens: list[int] = []
        segments: list[int] = []
        lengths: list[int] = []
        masks: list[int] = []
        for question in questions:
            ids = question.pieces
            masks.append(len(tokens) + 1 + question.piece)
            tokens += [cls, *ids[: question.piece], mask, *ids[question.piece + 1 :], sep]
            tokens += [*ids, sep]
            segments += [0] * (len(ids) + 2) + [1] * (len(ids) + 1)
            lengths.append(2 * len(ids) + 3)
        batch = Batch(
            range(len(questions)),
            torch.tensor(tokens),
            torch.tensor(segments),
            Layout(lengths),
            None,
        ).to(device)
        with self._numerics.autocast():
            answer = forward(self._model, batch, taps.hidden(self._last_layer))
            states_TW = answer.hidden(self._last_layer)
            logits = self._head(states_TW[torch.tensor(masks, device=device)]).float()
        # twice as many as are wanted: ends of words and the word itself fall away
        likeliest = logits[:, : len(self._pieces)].topk(ANSWERS, -1).indices
        return likeliest.cpu().tolist()  # type: ignore[no-any-return]


def _earlier_answers(kept: Path | None) -> np.ndarray:
    """[n, ANSWERS] what an earlier run was answered, in the order of its questions."""
    if kept is None or not kept.is_file():
        return np.empty((0, ANSWERS), np.int32)
    numbers = np.fromfile(kept, np.int32)
    # without the end of a pass that was half-written
    answered = len(numbers) // ANSWERS
    earlier = numbers[: answered * ANSWERS].reshape(-1, ANSWERS)
    os.truncate(kept, earlier.nbytes)
    return earlier


def _nearest(
    words_VW: Tensor, whole_V: Tensor, pieces: Sequence[str], unknown: int | None = None
) -> Callable[[list[int]], list[str]]:
    """Word pieces -> the nearest whole words by the cosine of embeddings.

    Several pieces have their mean; [UNK] is near to none.

    Args:
        words_VW: the embeddings.
        whole_V: whether a piece is a whole word.
        unknown: the id of [UNK].
    """
    unit_VW = nn.functional.normalize(words_VW.float(), dim=-1)
    count = min(CANDIDATES, int(whole_V.sum()))
    known: dict[tuple[int, ...], list[str]] = {}

    def nearest(ids: list[int]) -> list[str]:
        if unknown in ids:
            return []
        key = tuple(ids)
        if key not in known:
            query_W = nn.functional.normalize(words_VW[ids].float().mean(0), dim=0)
            close_V = (unit_VW @ query_W).masked_fill(~whole_V, -2.0)
            known[key] = [pieces[i] for i in close_V.topk(count).indices.tolist()]
        return known[key]

    return nearest
