"""Loss functions, pure; each says its reduction in its name or its docstring.

Shape legend: see ``methods/core/packed.py``. Reductions differ between papers by factors of C, L or
W; a weight tuned with one is wrong for another, so none is implied.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from methods.core.packed import Chunk, Layout


def hard(logits_BC: Tensor, labels_B: Tensor | None, weights_B: Tensor | None = None) -> Tensor:
    """Mean over B of the cross-entropy with the labels; for C = 1 the mean squared error. Of spans,
    [2 B, L] with [B, 2] places, it is half of what first tokens and last tokens give: BERT's loss.

    Args:
        weights_B: of each example's cross-entropy before the mean over B, so that parts of a batch
            add up to the whole; None where all weigh the same.
    """
    if labels_B is None:
        raise ValueError("a loss on labels met text without labels")
    # one output is a regression
    if logits_BC.size(1) == 1:
        return F.mse_loss(logits_BC[:, 0].float(), labels_B.float())
    if weights_B is None:
        return F.cross_entropy(logits_BC.float(), labels_B.flatten())
    # the weights do not sum to B: the mean is over examples, not over weights
    each_B = F.cross_entropy(logits_BC.float(), labels_B, reduction="none")
    return (weights_B * each_B).mean()


def soft_kl_batchmean(student_BC: Tensor, teacher_BC: Tensor, temperature: float) -> Tensor:
    """T^2 * mean over B of KL(teacher || student), both softened by T (Hinton et al. 2015, section
    2); C = 1: the mean squared error."""
    # a single number has no distribution; so in every loss below
    if student_BC.size(1) == 1:
        return F.mse_loss(student_BC.float(), teacher_BC.float())
    student = F.log_softmax(student_BC.float() / temperature, -1)
    teacher = F.log_softmax(teacher_BC.float() / temperature, -1)
    return temperature**2 * F.kl_div(student, teacher, reduction="batchmean", log_target=True)


def soft_kl_elementmean(student_BC: Tensor, teacher_BC: Tensor, temperature: float) -> Tensor:
    """T^2 * KL(teacher || student), mean over B*C: what PKD's code computes, C times smaller than
    the batchmean."""
    return soft_kl_batchmean(student_BC, teacher_BC, temperature) / student_BC.size(1)


def symmetric_kl_batchmean(student_BC: Tensor, teacher_BC: Tensor) -> Tensor:
    """Mean over B of (KL(p || q) + KL(q || p)) / 2 (MoEBERT, equation 7); C = 1: the mean squared
    error."""
    if student_BC.size(1) == 1:
        return F.mse_loss(student_BC.float(), teacher_BC.float())
    student, teacher = (F.log_softmax(x.float(), -1) for x in (student_BC, teacher_BC))
    return 0.5 * ((student.exp() - teacher.exp()) * (student - teacher)).sum(-1).mean()


def soft_cross_entropy_elementmean(
    student_BC: Tensor, teacher_BC: Tensor, temperature: float
) -> Tensor:
    """-p_teacher * log p_student, mean over B*C: TinyBERT's prediction loss (equation 10; the
    code's mean). C = 1: the mean squared error, as the paper's numbers used."""
    if student_BC.size(1) == 1:
        return F.mse_loss(student_BC.float(), teacher_BC.float())
    teacher = F.softmax(teacher_BC.float() / temperature, -1)
    return (-teacher * F.log_softmax(student_BC.float() / temperature, -1)).mean()


def soft_cross_entropy_batchmean(
    student_BC: Tensor, teacher_BC: Tensor, temperature: float = 1.0
) -> Tensor:
    """-p_teacher * log p_student, summed over C, mean over B (Turc et al. 2019); C = 1: the mean
    squared error."""
    return soft_cross_entropy_elementmean(student_BC, teacher_BC, temperature) * student_BC.size(1)


def target_cross_entropy_batchmean(student_BC: Tensor, target_BC: Tensor) -> Tensor:
    """-target * log p_student, summed over C, mean over B, of given probabilities (MT-DNN-KD,
    section 3); C = 1: the mean squared error."""
    if student_BC.size(1) == 1:
        return F.mse_loss(student_BC.float(), target_BC.float())
    return -(target_BC.float() * F.log_softmax(student_BC.float(), -1)).sum(-1).mean()


def smoothed_tokenmean(logits_NV: Tensor, words_N: Tensor, smoothing: float) -> Tensor:
    """Cross-entropy with the words to write, of which ``smoothing`` is spread evenly over all V
    words, mean over N places."""
    return F.cross_entropy(logits_NV.float(), words_N, label_smoothing=smoothing)


def top_kl_tokenmean(
    logits_NV: Tensor, top_Nk: Tensor, words_Nk: Tensor, temperature: float
) -> Tensor:
    """KL(teacher || student) over the teacher's k best words, mean over N places (C-MLM, equation
    8), less the teacher's entropy, which has no gradient. The teacher's k logits, softened by T,
    sum to 1 over these words; the student's are not softened, over all V."""
    teacher_Nk = F.log_softmax(top_Nk.float() / temperature, -1)
    # over all words first, then those k: they need not sum to 1
    student_Nk = F.log_softmax(logits_NV.float(), -1).gather(1, words_Nk)
    return (teacher_Nk.exp() * (teacher_Nk - student_Nk)).sum(-1).mean()


def logits_mse_elementmean(student_BC: Tensor, teacher_BC: Tensor) -> Tensor:
    """Squared difference of the logits before the softmax, mean over B*C (Tang et al. 2019,
    equation 6)."""
    return F.mse_loss(student_BC.float(), teacher_BC.float())


def hidden_mse_tokenmean(student_TW: Tensor, teacher_TW: Tensor) -> Tensor:
    """Mean over tokens and width (TinyBERT equations 8 and 9; with the code's [PAD] rows where a
    stage fills sequences)."""
    return F.mse_loss(student_TW.float(), teacher_TW.float())


def hidden_cosine_tokenmean(student_TW: Tensor, teacher_TW: Tensor) -> Tensor:
    """1 - cosine of the two states, mean over tokens (DistilBERT, section 2)."""
    return (1 - F.cosine_similarity(student_TW.float(), teacher_TW.float(), dim=-1)).mean()


def patience_mse_elementmean(student_BKW: Tensor, teacher_BKW: Tensor, normalise: bool) -> Tensor:
    """Squared difference of [CLS] states, mean over B, K layers and W (PKD, equation 7). The paper
    writes a sum over W; its code takes the mean, so a weight means W times less there."""
    ours = student_BKW.float()
    theirs = teacher_BKW.float()
    if normalise:
        ours = F.normalize(ours, dim=-1)
        theirs = F.normalize(theirs, dim=-1)
    return F.mse_loss(ours, theirs)


def feature_map_transfer(student_TW: Tensor, teacher_TW: Tensor) -> Tensor:
    """Squared difference of the states after LayerNorm without parameters, mean over tokens and W:
    MobileBERT equation 1, with the normalisation of its code on both sides."""
    width = (student_TW.size(-1),)
    return F.mse_loss(
        F.layer_norm(student_TW.float(), width), F.layer_norm(teacher_TW.float(), width)
    )


def attention_transfer_rowmean(
    student: Sequence[Tensor], teacher: Sequence[Tensor], layout: Layout
) -> Tensor:
    """KL(teacher || student) of attention distributions, mean over heads and queries (MobileBERT,
    equation 2). Both are scores before the softmax, [n, H, L, L] for each of ``layout.chunks``. The
    authors' code minimises the cross-entropy, which differs by a constant. Of sequences that a
    stage fills with [PAD], [PAD] is no key, but a query."""
    rows = _scores_kl(student, teacher, layout)
    return torch.stack([row.sum() for row in rows]).sum() / (student[0].size(1) * layout.total)


def attention_kl_sequencemean(
    student: Sequence[Tensor], teacher: Sequence[Tensor], layout: Layout
) -> Tensor:
    """KL(teacher || student) of attention distributions, mean over heads and queries of a sequence,
    then over B: MiniLM, equation 3. Scores before the softmax, and [PAD], as in
    :func:`attention_transfer_rowmean`."""
    return _sequence_mean(_scores_kl(student, teacher, layout), layout)


def _scores_kl(
    student: Sequence[Tensor], teacher: Sequence[Tensor], layout: Layout
) -> list[Tensor]:
    _same_heads(student, teacher)
    return [
        _row_kl(ours, theirs, chunk)
        for chunk, ours, theirs in zip(layout.chunks, student, teacher, strict=True)
    ]


def relation_kl(student_TX: Tensor, teacher_TX: Tensor, heads: int, layout: Layout) -> Tensor:
    """KL(teacher || student) of softmax(X X^T / sqrt(D)) by relation head (MiniLMv2, equations 4 to
    6). X are queries, keys or values, all heads side by side and cut into ``heads`` of width D on
    each side; mean over heads and tokens of a sequence, then over B. [PAD] as in
    :func:`attention_transfer_rowmean`."""
    rows = []
    for chunk in layout.chunks:
        shape = (len(chunk.sequences), chunk.longest)
        places = layout.gather_N[chunk.places]
        # [n, L, X] in the places of the chunk
        both = (x_TX[places].float().unflatten(0, shape) for x_TX in (student_TX, teacher_TX))
        # [n, heads, L, D]
        ours, theirs = (x_nLX.unflatten(2, (heads, -1)).transpose(1, 2) for x_nLX in both)
        rows.append(_row_kl(ours, theirs, chunk, scores=_relation))
    return _sequence_mean(rows, layout)


PLACES_AT_ONCE = 2**21  # places (query x key): a few megabytes, which stay in the processor's cache


def _relation(x_nALD: Tensor) -> Tensor:
    """[n, heads, L, L] scaled products of every place with every other."""
    return x_nALD @ x_nALD.transpose(2, 3) * x_nALD.size(-1) ** -0.5


def _row_kl(
    student: Tensor,
    teacher: Tensor,
    chunk: Chunk,
    scores: Callable[[Tensor], Tensor] = lambda given: given,
) -> Tensor:
    """[n, H, L] KL(teacher || student) of each query's distribution over the keys; 0 where a place
    holds no token. ``scores`` makes [n, H, L, L] scores before the softmax of some sequences of
    either side."""
    # some sequences at a time, whose scores fit into the cache
    at_once = max(1, PLACES_AT_ONCE // (student.size(1) * chunk.longest**2))
    parts = zip(
        student.split(at_once), teacher.split(at_once), chunk.keys_nL.split(at_once), strict=True
    )
    kl_nHL = torch.cat(
        [_divergence(scores(a), scores(b), None if chunk.full else keys) for a, b, keys in parts]
    )
    # a place without a token is no query
    return kl_nHL if chunk.full else kl_nHL.masked_fill(~chunk.mask_nL[:, None, :], 0.0)


def _divergence(student_nHLL: Tensor, teacher_nHLL: Tensor, keys_nL: Tensor | None) -> Tensor:
    """[n, H, L] of each query; without ``keys_nL`` all places are keys."""
    both = [x.float() for x in (student_nHLL, teacher_nHLL)]
    if keys_nL is not None:
        # a large finite number: with -inf the padding's 0 * (-inf) would be NaN
        both = [x.masked_fill(~keys_nL[:, None, None, :], -1e9) for x in both]
    log_student, log_teacher = (F.log_softmax(x, -1) for x in both)
    return (log_teacher.exp() * (log_teacher - log_student)).sum(-1)


def _sequence_mean(rows: Sequence[Tensor], layout: Layout) -> Tensor:
    """A scalar of [n, H, L] for each chunk: mean over heads and queries of each sequence, then over
    sequences."""
    pairs = zip(layout.chunks, rows, strict=True)
    parts = [(row.mean(1).sum(-1) / chunk.mask_nL.sum(-1)).sum() for chunk, row in pairs]
    return torch.stack(parts).sum() / len(layout.lengths)


def _same_heads(student: Sequence[Tensor], teacher: Sequence[Tensor]) -> None:
    ours = student[0].size(1)
    theirs = teacher[0].size(1)
    if ours != theirs:
        raise ValueError(
            f"attention distillation needs equal numbers of heads; the student has {ours}, the "
            f"teacher {theirs}: choose heads={theirs} or drop the attention term"
        )


def scores_mse_realmean(
    student: Sequence[Tensor], teacher: Sequence[Tensor], layout: Layout
) -> Tensor:
    """Squared difference of pre-softmax attention scores, mean over heads and (query, key) pairs of
    tokens (TinyBERT, equation 7). Both are [n, H, L, L] for each of ``layout.chunks``; where a
    chunk pads, nothing is added and nothing counted. In a stage with ``padding`` it computes what
    the authors' code does: the columns of [PAD] keys count as 0, the rows of [PAD] queries count,
    and the divisor is B*H*L*L."""
    _same_heads(student, teacher)
    parts = []
    for chunk, student_nHLL, teacher_nHLL in zip(layout.chunks, student, teacher, strict=True):
        # pairs of a token and a key that it may attend to
        real_n1LL = (chunk.mask_nL[:, :, None] & chunk.keys_nL[:, None, :])[:, None]
        squared = (student_nHLL.float() - teacher_nHLL.float()).square()
        parts.append(squared.masked_fill(~real_n1LL, 0.0).sum())
    return torch.stack(parts).sum() / (student[0].size(1) * layout.lengths_B.square().sum())


def _normalised_mse(student: Tensor, teacher: Tensor) -> Tensor:
    return (
        F.mse_loss(F.normalize(student, dim=-1), F.normalize(teacher, dim=-1), reduction="none")
        .sum(-1)
        .mean()
    )


DISTANCES: Mapping[str, Callable[[Tensor, Tensor], Tensor]] = {
    "mse": F.mse_loss,
    "cosine": hidden_cosine_tokenmean,
    "normalised_mse": _normalised_mse,
    "kl": partial(soft_kl_batchmean, temperature=1.0),
}
"""Distance of two [B, W] features, mean over B: ``mse`` also over W; ``normalised_mse`` sums W
after scaling each row to length 1; ``kl`` takes softmax over W on both sides; ``cosine`` is 1 -
cos."""


def pooled_alignment(pairs: Iterable[tuple[Tensor, Tensor]], distance: str = "mse") -> Tensor:
    """MicroBERT's FAL: sum over the features (cls, mean, max over tokens) of the two sides'
    distance (:data:`DISTANCES`), mean over B. Of every feature the student's and the teacher's, [B,
    W] each."""
    compare = DISTANCES[distance]
    total: Any = sum(compare(ours_BW.float(), theirs_BW.float()) for ours_BW, theirs_BW in pairs)
    return total  # type: ignore[no-any-return]


def discriminator_loss(real_B: Tensor, fake_B: Tensor, kind: str) -> Tensor:
    """The loss that the discriminator minimises, from its logits on teacher (real) and student
    (fake) outputs: -E[log D(o_T)] - E[log(1 - D(o_S))] (Goodfellow et al. 2014, equation 1);
    ``least_squares``: Mao et al. 2017."""
    if kind == "least_squares":
        return (real_B - 1).square().mean() + fake_B.square().mean()
    # softplus(-x) is -log of the sigmoid of x, without overflow for large logits
    return F.softplus(-real_B).mean() + F.softplus(fake_B).mean()


def adversarial_loss(fake_B: Tensor, kind: str) -> Tensor:
    """The loss that the student minimises to look like the teacher: -E[log D(o_S)], or E[log(1 -
    D(o_S))] if saturating."""
    if kind == "least_squares":
        return (fake_B - 1).square().mean()
    if kind == "saturating":
        return -F.softplus(fake_B).mean()
    return F.softplus(-fake_B).mean()


def load_balance(gates_NE: Tensor) -> Tensor:
    """E * sum over experts of (mean probability) x (share of what is sent there), 1 where all have
    the same (Switch Transformers, equation 4; MoEBERT's code). The shares have no gradient."""
    # an argmax has no gradient, so experts are balanced by the probabilities alone
    shares_E = F.one_hot(gates_NE.argmax(-1), gates_NE.size(-1)).float().mean(0)
    return gates_NE.size(-1) * (gates_NE.float().softmax(-1).mean(0) * shares_E).sum()
