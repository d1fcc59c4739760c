"""Augmented training rows as an artefact: made once with the un-tuned teacher, kept under a key, with a hash of its content."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from bench.artefacts.teachers import Work, base_model
from bench.cache import keep
from bench.data.augmentation import CANDIDATES, Candidates, augmented, replaceable
from bench.data.checkpoints import Checkpoint, sha256_of, tokenizer_of
from bench.data.encoding import Encoded
from bench.data.table_files import Split
from bench.data.word_vectors import WordVectors, read
from bench.plan.tasks import TaskPlan
from bench.train.loop import OnStep
from bench.train.numerics import ComputeSettings
from bench.train.prediction import predict
from methods import taps
from methods.api import Batch, Setup
from methods.masked import TeacherHead
from methods.packed import Layout, forward

Head = tuple[Mapping[str, Tensor], Mapping[str, Any], Mapping[str, Any]]
"""The un-tuned teacher's masked-language head; how it was made; and from which text."""
TOKENS_A_PASS = 8192
LONGEST = 126
"""Tokens of a sentence and of its copy with a masked word together, without the special ones."""
TEXTS = "texts.parquet"


def augmented_rows(plan: TaskPlan, head: Callable[[], Head], work: Work) -> tuple[Split, np.ndarray, dict[str, Any]]:
    """The rows with their variants, the row each was made of, and what the record says of them: from the cache or made now."""
    import pandas

    split, augmentation, slot = plan.train, plan.augmentation, plan.augmentation_slot
    assert augmentation is not None
    parts: dict[str, Mapping[str, Any]] = {}

    def write(folder: Path) -> dict[str, Any]:
        candidates = None
        if augmentation.kind == "masked":
            vectors = None if augmentation.vectors is None else read(augmentation.vectors)
            tensors, parts["masked head"], _ = head()
            candidates = teacher_candidates(plan.checkpoint, tensors, work.numerics, work.on_step, vectors)
        made, origins = augmented(split, augmentation, candidates)
        columns: dict[str, Any] = {"first": list(made.first), "origin": origins}
        if made.second is not None:
            columns["second"] = list(made.second)
        pandas.DataFrame(columns).to_parquet(folder / TEXTS, index=False)
        return {"weights": sha256_of(folder / TEXTS), "rows": len(made)}

    body = keep(slot, write, parts, TEXTS, work.say)
    table = pandas.read_parquet(slot.folder / TEXTS)
    origins = table["origin"].to_numpy()
    rows = Split(
        table["first"].tolist(),
        table["second"].tolist() if "second" in table else None,
        None if split.labels is None else split.labels[origins],
        list(range(len(table))),
    )
    return rows, origins, body


def relabel_variants(encoded: Encoded, origins: np.ndarray, teacher: nn.Module, numerics: ComputeSettings) -> None:
    """Give every variant the tuned teacher's answer as its label: it may mean something else than its origin.

    Args:
        origins: [n] the row that each row was made of; the first of a run of equal ones is that row itself.
    """
    assert encoded.labels is not None
    new = np.flatnonzero(np.diff(origins, prepend=-1) == 0)
    answers = torch.from_numpy(predict(teacher, encoded, numerics))
    labels = answers[:, 0] if answers.size(1) == 1 else answers.argmax(1)
    encoded.labels[new] = labels[new].to(encoded.labels.dtype)


def teacher_candidates(
    checkpoint: Checkpoint,
    head: Mapping[str, Tensor],
    numerics: ComputeSettings,
    on_step: OnStep,
    vectors: WordVectors | None = None,
) -> Candidates:
    """What the un-tuned teacher would put in a word's place.

    A word of one piece: the 15 likeliest other words of one piece at its place, which is masked, among the 30 likeliest
    pieces (the authors': the words among the 15 likeliest). The whole sentence follows as the second segment, as the
    authors' code asks. A word of several pieces: its 15 nearest words by the cosine of the given
    word vectors (the authors': GloVe's), none where they lack it; without vectors, by that of the teacher's own embeddings.
    A word that the vocabulary cannot spell is treated as one of several pieces.
    """
    tokenizer = tokenizer_of(checkpoint)
    with torch.random.fork_rng(devices=[]):  # a head that the checkpoint lacks is drawn, and not asked
        model = base_model(checkpoint, 2).to(numerics.device).eval()
    weights = {name: value.cpu() for name, value in model.state_dict().items()}
    setup = Setup(checkpoint.config, 2, (), {"teacher_weights": weights, TeacherHead.name: head})
    answer = TeacherHead().filled(setup).to(numerics.device).eval()
    pieces = tokenizer.convert_ids_to_tokens(list(range(len(tokenizer))))
    whole = torch.tensor([piece.isalpha() for piece in pieces])
    words_VW = weights["bert.embeddings.word_embeddings.weight"][: len(pieces)]
    nearest = _nearest(words_VW, whole, pieces, tokenizer.unk_token_id)

    def whole_word(own: list[int]) -> bool:
        return len(own) == 1 and own[0] != tokenizer.unk_token_id

    def candidates(sentences: Sequence[Sequence[str]]) -> list[dict[int, list[str]]]:
        found: list[dict[int, list[str]]] = [{} for _ in sentences]
        questions: list[tuple[int, int, list[int], int]] = []
        in_pieces = [[tokenizer(word, add_special_tokens=False)["input_ids"] for word in words] for words in sentences]
        given: dict[str, list[str]] = {}
        if vectors is not None:
            several = (
                word
                for words, ids in zip(sentences, in_pieces, strict=True)
                for word, own in zip(words, ids, strict=True)
                if not whole_word(own) and replaceable(word)
            )
            given = vectors.nearest(dict.fromkeys(several), CANDIDATES)
        for number, (words, split_ids) in enumerate(zip(sentences, in_pieces, strict=True)):
            ids = [piece for word in split_ids for piece in word][: LONGEST // 2]
            place = 0
            for position, (word, own) in enumerate(zip(words, split_ids, strict=True)):
                if replaceable(word) and place < len(ids):
                    if whole_word(own):
                        questions.append((number, position, ids, place))
                    else:
                        found[number][position] = nearest(own) if vectors is None else given.get(word, [])
                place += len(own)
        _ask(questions, found)
        return found

    def _ask(questions: list[tuple[int, int, list[int], int]], found: list[dict[int, list[str]]]) -> None:
        start = 0
        while start < len(questions):
            stop, tokens = start, 0
            while stop < len(questions) and (stop == start or tokens < TOKENS_A_PASS):
                tokens += 2 * len(questions[stop][2]) + 3
                stop += 1
            some = questions[start:stop]
            for (number, position, ids, place), likely in zip(some, _likeliest(some), strict=True):
                words = (pieces[i] for i in likely if whole[i] and i != ids[place])
                found[number][position] = [word for word, _ in zip(words, range(CANDIDATES), strict=False)]
            start = stop
            on_step(stop, len(questions))

    @torch.no_grad()
    def _likeliest(questions: list[tuple[int, int, list[int], int]]) -> list[list[int]]:
        cls, sep, mask = tokenizer.cls_token_id, tokenizer.sep_token_id, tokenizer.mask_token_id
        rows, segments, places = [], [], []
        total = 0
        for _, _, ids, place in questions:
            masked = [*ids[:place], mask, *ids[place + 1 :]]
            rows.append([cls, *masked, sep, *ids, sep])
            segments += [0] * (len(ids) + 2) + [1] * (len(ids) + 1)
            places.append(total + 1 + place)
            total += len(rows[-1])
        device = numerics.device
        batch = Batch(
            range(len(rows)),
            torch.tensor([token for row in rows for token in row], device=device),
            torch.tensor(segments, device=device),
            Layout([len(row) for row in rows], device),
            None,
        )
        last = checkpoint.config.num_hidden_layers
        with numerics.autocast():
            states = forward(model, batch, taps.hidden(last)).hidden(last)
            logits = answer(states[torch.tensor(places, device=device)]).float()
        return logits.topk(2 * CANDIDATES, -1).indices.cpu().tolist()  # twice as many: word ends and itself fall away

    return candidates


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
            known[tuple(own)] = [pieces[i] for i in close_V.topk(min(CANDIDATES, int(whole_V.sum()))).indices.tolist()]
        return known[tuple(own)]

    return nearest
