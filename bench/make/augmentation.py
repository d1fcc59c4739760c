"""Augmented training rows as an artefact: made once with the un-tuned teacher, kept under a key, with a hash of its content."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

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
"""Tokens of a sentence and of its copy with a masked word together, without the special ones; fewer where the teacher reads
fewer."""
TEXTS = "texts.parquet"
Question = tuple[int, int, list[int], int]


def augmented_rows(
    plan: TaskPlan,
    shared_artefact: Callable[[ArtefactPlan], MadeArtefact],
    work: Work,
    on_step: OnStep,
) -> tuple[Split, np.ndarray, dict[str, Any]]:
    """The rows with their variants, the row each was made of, and what the record says of them: from the cache or made now.

    Args:
        shared_artefact: makes the un-tuned teacher's masked-language head.
    """
    import pandas

    split, augmentation, slot = plan.train, plan.augmentation, plan.augmentation_slot
    assert augmentation is not None
    parts: dict[str, Mapping[str, Any]] = {}
    made_by = digest(
        [slot.key, digest_of(AUGMENTATION), torch.__version__, torch.get_num_threads()]
    )[:24]
    kept = cache_root() / STATES / f"augmentation-{made_by}"

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
        variants, origins = augmented(
            split, augmentation, candidates, tokenizer.mask_token or tokenizer.unk_token
        )
        columns: dict[str, Any] = {"first": list(variants.first), "origin": origins}
        if variants.second is not None:
            columns["second"] = list(variants.second)
        pandas.DataFrame(columns).to_parquet(folder / TEXTS, index=False)
        return {"weights": sha256_of(folder / TEXTS), "rows": len(variants)}

    body = keep(slot, write, parts, TEXTS, work.progress.say)
    kept.unlink(missing_ok=True)
    table = pandas.read_parquet(slot.folder / TEXTS)
    origins = table["origin"].to_numpy()
    rows = Split(
        table["first"].tolist(),
        table["second"].tolist() if "second" in table else None,
        None if split.labels is None else split.labels[origins],
        list(range(len(table))),
    )
    return rows, origins, body


def relabel_variants(
    encoded: Encoded, origins: np.ndarray, teacher: nn.Module, numerics: ComputeSettings
) -> None:
    """Give every variant the tuned teacher's answer as its label: it may mean something else than its origin.

    Args:
        origins: [n] the row that each row was made of; the first of a run of equal ones is that row itself.
    """
    assert encoded.labels is not None
    new = np.flatnonzero(np.diff(origins, prepend=-1) == 0)
    answers = torch.from_numpy(predict(teacher, encoded, numerics))
    labels = answers[:, 0] if answers.size(1) == 1 else answers.argmax(1)
    encoded.labels[new] = labels[new].to(encoded.labels.dtype)


class TeacherCandidates:
    """What the un-tuned teacher would put in a word's place.

    A word of one piece: its place is masked; of the 30 likeliest pieces there, the first 15 that are whole words and another
    word. (The authors take the words among the 15 likeliest pieces, so they get fewer.) The whole sentence follows as the
    second segment, as the authors' code asks. A word of several pieces: its 15 nearest words by the cosine of the given
    word vectors (the authors': GloVe's), none where they lack it; without vectors, by that of the teacher's own embeddings.
    A word that the vocabulary cannot spell is looked up in the word vectors too; without them it has no candidates.

    What the teacher has answered is added to the file ``kept``: a run that is interrupted goes on there, as the questions always come in
    the same order.
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
        self._numerics, self._on_step, self._vectors = numerics, on_step, vectors
        self._kept, self._is_stopping, self._earlier = (
            kept,
            is_stopping,
            np.empty((0, 2 * CANDIDATES), np.int32),
        )
        if kept is not None and kept.is_file():
            numbers = np.fromfile(kept, np.int32)
            self._earlier = numbers[: len(numbers) // (2 * CANDIDATES) * 2 * CANDIDATES].reshape(
                -1, 2 * CANDIDATES
            )
            # without the end of a pass that was half-written
            os.truncate(kept, self._earlier.nbytes)
        self._tokenizer = tokenizer_of(checkpoint)
        self._last_layer = checkpoint.config.num_hidden_layers
        # [CLS] and two [SEP]
        self._longest = min(LONGEST, longest_input(checkpoint.config) - 3) // 2
        # a head that the checkpoint lacks is drawn, and not asked
        with torch.random.fork_rng(devices=[]):
            self._model = (
                base_model(checkpoint.folder, checkpoint.config.num_labels)
                .to(numerics.device)
                .eval()
            )
        weights = {name: value.cpu() for name, value in self._model.state_dict().items()}
        setup = Setup(
            checkpoint.config, 2, (), {"teacher_weights": weights, TeacherHead.name: head}
        )
        self._head = TeacherHead().filled(setup).to(numerics.device).eval()
        self._pieces = self._tokenizer.convert_ids_to_tokens(list(range(len(self._tokenizer))))
        self._is_word_V = torch.tensor([piece.isalpha() for piece in self._pieces])
        words_VW = weights["bert.embeddings.word_embeddings.weight"][: len(self._pieces)]
        self._nearest = _nearest(
            words_VW, self._is_word_V, self._pieces, self._tokenizer.unk_token_id
        )

    def __call__(self, sentences: Sequence[Sequence[str]]) -> list[dict[int, list[str]]]:
        """For each sentence the candidates of its words, by their places."""
        candidates: list[dict[int, list[str]]] = [{} for _ in sentences]
        # (number of the sentence, place of the word in it, pieces of the sentence, place of the word among them) of words of one piece
        questions: list[Question] = []
        in_pieces = [
            [self._tokenizer(word, add_special_tokens=False)["input_ids"] for word in words]
            for words in sentences
        ]
        given: Mapping[str, list[str]] = {}
        if self._vectors is not None:
            words_with_pieces = (
                pair
                for words, ids in zip(sentences, in_pieces, strict=True)
                for pair in zip(words, ids, strict=True)
            )
            several = (
                word
                for word, own in words_with_pieces
                if replaceable(word) and not self._is_one_piece(own)
            )
            given = self._vectors.nearest(dict.fromkeys(several), CANDIDATES)
        for number, (words, split_ids) in enumerate(zip(sentences, in_pieces, strict=True)):
            ids = [piece for word in split_ids for piece in word][: self._longest]
            place = 0
            for position, (word, own) in enumerate(zip(words, split_ids, strict=True)):
                if replaceable(word) and place < len(ids):
                    if self._is_one_piece(own):
                        questions.append((number, position, ids, place))
                    else:
                        candidates[number][position] = (
                            self._nearest(own) if self._vectors is None else given.get(word, [])
                        )
                place += len(own)
        for (sentence, place, ids, among), likely in self._answered(questions):
            others = (self._pieces[i] for i in likely if self._is_word_V[i] and i != ids[among])
            candidates[sentence][place] = list(itertools.islice(others, CANDIDATES))
        return candidates

    def _is_one_piece(self, own: Sequence[int]) -> bool:
        return len(own) == 1 and own[0] != self._tokenizer.unk_token_id

    def _answered(self, questions: Sequence[Question]) -> Iterator[tuple[Question, list[int]]]:
        """Each question with the likeliest pieces at its place; as many questions in a pass as its tokens allow."""
        start = min(len(questions), len(self._earlier))
        yield from zip(questions, self._earlier[:start].tolist(), strict=False)
        self._earlier = self._earlier[start:]
        while start < len(questions):
            stop, tokens = start, 0
            while stop < len(questions) and (stop == start or tokens < TOKENS_A_PASS):
                tokens += 2 * len(questions[stop][2]) + 3
                stop += 1
            answers = self._likeliest(questions[start:stop])
            yield from zip(questions[start:stop], answers, strict=True)
            start = stop
            if self._kept is not None:
                self._kept.parent.mkdir(parents=True, exist_ok=True)
                with self._kept.open("ab") as stream:
                    stream.write(np.array(answers, np.int32).tobytes())
            if self._is_stopping():
                raise KeyboardInterrupt
            self._on_step(stop, len(questions))

    @torch.no_grad()
    def _likeliest(self, questions: Sequence[Question]) -> list[list[int]]:
        tokenizer, device = self._tokenizer, self._numerics.device
        cls, sep, mask = tokenizer.cls_token_id, tokenizer.sep_token_id, tokenizer.mask_token_id
        rows, segments, places = [], [], []
        total = 0
        for _, _, ids, place in questions:
            masked = [*ids[:place], mask, *ids[place + 1 :]]
            rows.append([cls, *masked, sep, *ids, sep])
            segments += [0] * (len(ids) + 2) + [1] * (len(ids) + 1)
            places.append(total + 1 + place)
            total += len(rows[-1])
        batch = Batch(
            range(len(rows)),
            torch.tensor([token for row in rows for token in row]),
            torch.tensor(segments),
            Layout([len(row) for row in rows]),
            None,
        ).to(device)
        with self._numerics.autocast():
            states = forward(self._model, batch, taps.hidden(self._last_layer)).hidden(
                self._last_layer
            )
            logits = self._head(states[torch.tensor(places, device=device)]).float()
        # twice as many as are wanted: ends of words and the word itself fall away
        return logits[:, : len(self._pieces)].topk(2 * CANDIDATES, -1).indices.cpu().tolist()  # type: ignore[no-any-return]


def _nearest(
    words_VW: Tensor, whole_V: Tensor, pieces: Sequence[str], unknown: int | None = None
) -> Callable[[list[int]], list[str]]:
    """Word pieces -> the nearest whole words by the cosine of embeddings, of several pieces of their mean; none of [UNK]."""
    unit_VW = nn.functional.normalize(words_VW.float(), dim=-1)
    known: dict[tuple[int, ...], list[str]] = {}

    def nearest(own: list[int]) -> list[str]:
        if unknown in own:
            return []
        if tuple(own) not in known:
            query_W = nn.functional.normalize(words_VW[own].float().mean(0), dim=0)
            close_V = (unit_VW @ query_W).masked_fill(~whole_V, -2.0)
            known[tuple(own)] = [
                pieces[i]
                for i in close_V.topk(min(CANDIDATES, int(whole_V.sum()))).indices.tolist()
            ]
        return known[tuple(own)]

    return nearest
