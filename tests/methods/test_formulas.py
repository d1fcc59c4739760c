"""Every term of every method against its paper's formula, worked sentence by sentence on padded float64 arrays.

The formulas here are written from the papers (and their codes, where a docstring says so), know nothing of packing and
share nothing with ``methods/``. What stands at [PAD] is large, so that a mean over it would be seen.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np
import pytest
import tiny
import torch
from shipped_methods import has_every_method
from transformers import MobileBertConfig

from bench.plan.spelling import parse_one
from methods.api import Batch, Out, Setup
from methods.core.artefacts import (
    EnsembleTargets,
    GeneralDistillation,
    PretrainingStage,
    blank_artefacts,
)
from methods.core.models import of_states
from methods.core.packed import Layout
from methods.core.taps import Tap, Taps, hidden

CLASSES, VOCABULARY, JUNK = 3, 40, 1e3
LENGTHS = {"padded": (3, 9, 1, 5), "in two chunks": (2, 100, 3, 95)}


@dataclass
class Model:
    """What one model says of a padded batch; layers are 1-based, hidden 0 is the embedding."""

    hidden: list[np.ndarray]  # [B, L, W]
    scores: list[np.ndarray]  # [B, H, L, L]
    vectors: list[list[np.ndarray]]  # queries, keys, values, each [B, L, W]
    logits: np.ndarray  # [B, C]
    exits: list[np.ndarray]

    @classmethod
    def random(cls, rng, lengths, layers, width, heads):
        longest, n = max(lengths), len(lengths)
        real = np.arange(longest)[None] < np.array(lengths)[:, None]

        def states():
            return np.where(real[..., None], rng.normal(size=(n, longest, width)), JUNK).astype(
                np.float32
            )

        def scores():
            pairs = (real[:, :, None] & real[:, None, :])[:, None]
            return np.where(pairs, rng.normal(size=(n, heads, longest, longest)), JUNK).astype(
                np.float32
            )

        logits = [rng.normal(size=(n, CLASSES)).astype(np.float32) for _ in range(layers + 1)]
        return cls(
            [states() for _ in range(layers + 1)],
            [np.empty(0), *(scores() for _ in range(layers))],
            [[], *([states() for _ in range(3)] for _ in range(layers))],
            logits[0],
            logits,
        )

    def out(self, layout: Layout, taps: Taps) -> Out:
        """The same, packed; pooled where ``taps`` say so."""
        longest = max(layout.lengths)
        real = torch.arange(longest)[None] < layout.lengths_B[:, None]
        packed = lambda x: torch.from_numpy(x)[real]  # noqa: E731
        cut = lambda x, c: torch.from_numpy(x)[list(c.sequences)][:, :, : c.longest, : c.longest]  # noqa: E731
        layers = range(1, len(self.hidden))
        read = {Tap("logits"): torch.from_numpy(self.logits)}
        for m in layers:
            read[Tap("scores", m)] = tuple(cut(self.scores[m], chunk) for chunk in layout.chunks)
            read[Tap("vectors", m)] = tuple(packed(x) for x in self.vectors[m])
            read[Tap("exits", m)] = torch.from_numpy(self.exits[m])
        states = {m: packed(self.hidden[m]) for m in (0, *layers)}
        return Out(
            layout,
            read
            | of_states(
                layout, states, hidden(*states) | {tap for tap in taps if tap.kind == "pooled"}
            ),
        )


@dataclass
class Case:
    """A batch, both models, and the learned parts beside the student, by name."""

    lengths: tuple[int, ...]
    student: Model
    teacher: Model
    labels: np.ndarray
    aux: dict[str, np.ndarray] = field(default_factory=dict)
    masked: list[tuple[int, int, int]] = field(default_factory=list)
    """(sequence, place, token that stood there)"""
    targets: np.ndarray = field(default_factory=lambda: np.empty(0))

    def linear(self, name: str, x: np.ndarray) -> np.ndarray:
        return x @ self.aux[f"{name}.weight"].T + self.aux[f"{name}.bias"]

    def real(self, states: np.ndarray) -> np.ndarray:
        """[tokens, W] without padding."""
        return np.concatenate([states[b, :n].astype(float) for b, n in enumerate(self.lengths)])


def log_softmax(x: np.ndarray) -> np.ndarray:
    x = x.astype(float)
    return (
        x
        - x.max(-1, keepdims=True)
        - np.log(np.exp(x - x.max(-1, keepdims=True)).sum(-1, keepdims=True))
    )


def kl(p: np.ndarray, q: np.ndarray) -> np.ndarray:
    """KL(p || q) of each row, from scores."""
    return (np.exp(log_softmax(p)) * (log_softmax(p) - log_softmax(q))).sum(-1)


def mse(a: np.ndarray, b: np.ndarray) -> float:
    return float(((a.astype(float) - b.astype(float)) ** 2).mean())


def labels_loss(c: Case) -> float:
    return float(
        np.mean([-log_softmax(z)[y] for z, y in zip(c.student.logits, c.labels, strict=True)])
    )


def softened(temperature: float) -> Callable[[Case], float]:
    """Hinton et al. 2015: T^2 KL(teacher || student), mean over sentences."""
    return lambda c: (
        temperature**2
        * float(kl(c.teacher.logits / temperature, c.student.logits / temperature).mean())
    )


def cosine(ours: int, theirs: int) -> Callable[[Case], float]:
    def loss(c: Case) -> float:
        a, b = c.real(c.student.hidden[ours]), c.real(c.teacher.hidden[theirs])
        return float(
            np.mean(1 - (a * b).sum(-1) / np.linalg.norm(a, axis=-1) / np.linalg.norm(b, axis=-1))
        )

    return loss


def patience(pairs: dict[int, int], normalise: bool) -> Callable[[Case], float]:
    """PKD: [CLS] states, mean over sentences, layers and width (the code's mean)."""

    def loss(c: Case) -> float:
        found = []
        for b in range(len(c.lengths)):
            for m, n in pairs.items():
                ours, theirs = (
                    c.student.hidden[m][b, 0].astype(float),
                    c.teacher.hidden[n][b, 0].astype(float),
                )
                if normalise:
                    ours, theirs = ours / np.linalg.norm(ours), theirs / np.linalg.norm(theirs)
                found.append(((ours - theirs) ** 2).mean())
        return float(np.mean(found))

    return loss


def tinybert_hidden(layers: list[int], padding: bool = False) -> Callable[[Case], float]:
    """Layer m learns from layer 3m; with ``padding`` as in the code: torch's MSELoss over [B, L, W], [PAD] and all."""

    def loss(c: Case) -> float:
        read = (lambda x: x.astype(float)) if padding else c.real
        pairs = ((read(c.student.hidden[m]), read(c.teacher.hidden[3 * m])) for m in layers)
        return sum(mse(c.linear("projection", ours), theirs) for ours, theirs in pairs)

    return loss


def attention_scores(c: Case, every: int = 3) -> float:
    """TinyBERT: squared difference of scores before the softmax, over real pairs; layer m learns from layer 3m."""
    total = 0.0
    for m in range(1, len(c.student.scores)):
        parts = [
            (
                c.student.scores[m][b, :, :n, :n].astype(float)
                - c.teacher.scores[every * m][b, :, :n, :n]
            )
            ** 2
            for b, n in enumerate(c.lengths)
        ]
        total += sum(p.sum() for p in parts) / sum(p.size for p in parts)
    return total


def attention_scores_with_padding(c: Case) -> float:
    """TinyBERT's code: scores of masked keys are put to 0 on both sides, then MSELoss over [B, H, L, L]."""
    total = 0.0
    for m in (1, 2, 3, 4):
        ours, theirs = c.student.scores[m].astype(float), c.teacher.scores[3 * m].astype(float)
        for b, n in enumerate(c.lengths):
            ours[b, :, :, n:] = theirs[b, :, :, n:] = 0
        total += mse(ours, theirs)
    return total


def soft_cross_entropy(c: Case) -> np.ndarray:
    """[B, C]"""
    return -np.exp(log_softmax(c.teacher.logits)) * log_softmax(c.student.logits)


POOLS = {"cls": lambda x: x[0], "mean": lambda x: x.mean(0), "max": lambda x: x.max(0)}
DISTANCES = {
    "mse": lambda a, b: ((a - b) ** 2).mean(),
    "cosine": lambda a, b: 1 - a @ b / np.linalg.norm(a) / np.linalg.norm(b),
    "kl": lambda a, b: float(kl(b, a)),
}


def alignment(
    layers: list[int], features: str = "cls+mean+max", distance: str = "mse", nearest: bool = False
):
    """MicroBERT's FAL: mapped states, pooled, against the mean of the three teacher layers that a student layer stands for."""

    def loss(c: Case) -> float:
        total = 0.0
        for m in layers:
            if m == 0 or nearest:
                taught = c.teacher.hidden[3 * m].astype(float)
            else:
                taught = np.mean(
                    [c.teacher.hidden[n].astype(float) for n in (3 * m - 2, 3 * m - 1, 3 * m)],
                    axis=0,
                )
            ours = c.linear("student_projection.0", c.student.hidden[m].astype(float))
            if features == "tokens":
                total += mse(c.real(ours), c.real(taught))
                continue
            for b, n in enumerate(c.lengths):
                for feature in features.split("+"):
                    pool = POOLS[feature]
                    total += DISTANCES[distance](pool(ours[b, :n]), pool(taught[b, :n])) / len(
                        c.lengths
                    )
        return float(total)

    return loss


def judged(c: Case, model: Model) -> np.ndarray:
    """[B] probability that the discriminator gives to "teacher", from class probabilities."""
    inner = c.linear("disc.0", np.exp(log_softmax(model.logits)))
    inner = np.where(inner > 0, inner, 0.2 * inner)
    return 1 / (1 + np.exp(-c.linear("disc.2", inner)[:, 0]))


def adversarial(c: Case) -> float:
    return float(-np.log(judged(c, c.student)).mean())


def discriminator(c: Case) -> float:
    return float(-np.log(judged(c, c.teacher)).mean() - np.log(1 - judged(c, c.student)).mean())


def normalised(x: np.ndarray) -> np.ndarray:
    x = x.astype(float)
    return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5)


def feature_maps(layers: list[int]) -> Callable[[Case], float]:
    """MobileBERT, equation 1, both sides through LayerNorm without parameters as in its code; mean over layers."""
    return lambda c: float(
        np.mean(
            [
                mse(
                    normalised(c.real(c.student.hidden[m])), normalised(c.real(c.teacher.hidden[m]))
                )
                for m in layers
            ]
        )
    )


def attention_kl(pairs: dict[int, int], by_sentence: bool) -> Callable[[Case], float]:
    """KL of attention distributions, mean over layers; ``by_sentence``: MiniLM's 1 / (A |x|) in each, then over sentences."""

    def loss(c: Case) -> float:
        found = []
        for m, n_taught in pairs.items():
            rows = [
                kl(c.teacher.scores[n_taught][b, :, :n, :n], c.student.scores[m][b, :, :n, :n])
                for b, n in enumerate(c.lengths)
            ]
            each = (
                [row.mean() for row in rows]
                if by_sentence
                else np.concatenate([row.ravel() for row in rows])
            )
            found.append(np.mean(each))
        return float(np.mean(found))

    return loss


def relation(which: int, ours: int, theirs: int, heads: int) -> Callable[[Case], float]:
    """MiniLMv2, equations 4 to 6: KL of softmax(X X^T / sqrt(d)), mean over relation heads and tokens of a sentence."""

    def loss(c: Case) -> float:
        found = []
        for b, n in enumerate(c.lengths):
            for a in range(heads):
                both = []
                for model, layer in ((c.teacher, theirs), (c.student, ours)):
                    x = model.vectors[layer][which][b, :n].astype(float)
                    width = x.shape[1] // heads
                    x = x[:, a * width : (a + 1) * width]
                    both.append(x @ x.T / np.sqrt(width))
                found.append(kl(*both).mean())
        return float(np.mean(found))

    return loss


def layers_mse(c: Case) -> float:
    """MoEBERT, equation 6: embedding and every layer, means over real tokens and width, summed."""
    return sum(
        mse(c.real(a), c.real(b)) for a, b in zip(c.student.hidden, c.teacher.hidden, strict=True)
    )


def nearest_hidden(c: Case) -> float:
    """Xia et al. 2022: the teacher's layers 3, 6, 9 and 12, from the last one, each with the nearest layer below the one taken before."""
    ours = [c.linear("projection", c.real(state)) for state in c.student.hidden]
    total, last = 0.0, len(ours)
    for n in (12, 9, 6, 3):
        gaps = {m: mse(ours[m], c.real(c.teacher.hidden[n])) for m in range(1, last) or (last,)}
        last = min(gaps, key=gaps.__getitem__)
        total += gaps[last]
    return total


def symmetric_kl(c: Case) -> float:
    """MoEBERT, equation 7."""
    return float(
        (kl(c.teacher.logits, c.student.logits) + kl(c.student.logits, c.teacher.logits)).mean() / 2
    )


def branches(direction: str) -> Callable[[Case], float]:
    """FastBERT: the branches after layers 1 to 11 against the last classifier, summed."""

    def loss(c: Case) -> float:
        last, exits = c.student.logits, c.student.exits[1:12]
        return float(
            sum((kl(last, z) if direction == "teacher" else kl(z, last)).mean() for z in exits)
        )

    return loss


def head(c: Case, name: str, states: np.ndarray) -> np.ndarray:
    """BERT's masked-language head: dense, gelu, LayerNorm, the words' matrix (and MobileBERT's rest), bias."""
    from math import erf, sqrt

    inner = c.linear(f"{name}.dense", states.astype(float))
    inner = inner * 0.5 * (1 + np.vectorize(erf)(inner / sqrt(2)))
    centred = inner - inner.mean(-1, keepdims=True)
    inner = centred / np.sqrt(inner.var(-1, keepdims=True) + 1e-12)
    inner = inner * c.aux[f"{name}.LayerNorm.weight"] + c.aux[f"{name}.LayerNorm.bias"]
    words = c.aux[f"{name}.words"]
    if f"{name}.rest" in c.aux:
        words = np.concatenate([words, c.aux[f"{name}.rest"]], 1)
    return inner @ words.T + c.aux[f"{name}.bias"]


def hidden_tokens(
    layer: int, name: str = "head", of_teacher: bool = False
) -> Callable[[Case], float]:
    """Mean cross-entropy of the tokens that were hidden."""

    def loss(c: Case) -> float:
        model = c.teacher if of_teacher else c.student
        found = [
            -log_softmax(head(c, name, model.hidden[layer][b, p][None]))[0, token]
            for b, p, token in c.masked
        ]
        return float(np.mean(found))

    return loss


def vocabulary_kl(c: Case) -> float:
    """DistilBERT's code: T^2 KL over the vocabulary, mean over all real tokens; T = 2, layers 6 and 12."""
    ours = head(c, "head", c.real(c.student.hidden[6])) / 2
    theirs = head(c, "teacher_head", c.real(c.teacher.hidden[12])) / 2
    return float(4 * kl(theirs, ours).mean())


def vocabulary_cross_entropy(c: Case) -> float:
    """MobileBERT's pre-training distillation at the masked tokens, from its teacher's head."""
    found = []
    for b, p, _ in c.masked:
        ours = log_softmax(head(c, "head", c.student.hidden[2][b, p][None]))
        theirs = np.exp(log_softmax(head(c, "teacher_head", c.teacher.hidden[2][b, p][None])))
        found.append(-(theirs * ours).sum())
    return float(np.mean(found))


BERT, IB_BERT = "bert", "ib-bert"
SMALL = "layers=4:hidden=12:heads=4:ffn=24"
MOBILE = "mobilebert:layers=2:hidden=16:bottleneck=8:heads=2:ffn=8:embedding=8:inverted=16"
SKIP, LAST = {1: 2, 2: 4, 3: 6, 4: 8, 5: 10}, {1: 7, 2: 8, 3: 9, 4: 10, 5: 11}
MICROBERT = {
    "hidn": (1.0, alignment([1, 2, 3, 4])),
    "embd": (1.0, alignment([0])),
    "pred": (0.5, softened(1.0)),
    "hard": (0.5, labels_loss),
    "dis.adv": (0.1, adversarial),
    "dis.disc": (1.0, discriminator),
}
TINYBERT = {
    "embd": (1.0, tinybert_hidden([0])),
    "hidn": (1.0, tinybert_hidden([1, 2, 3, 4])),
    "attn": (1.0, attention_scores),
    "pred": (1.0, lambda c: float(soft_cross_entropy(c).mean())),
}
DISTILBERT = {"soft": (0.5, softened(2.0)), "cos": (0.1, cosine(6, 12)), "hard": (0.5, labels_loss)}
FIRST_STEP = {
    "triple_loss vocabulary": (5.0, vocabulary_kl),
    "triple_loss masked": (2.0, hidden_tokens(6)),
    "masked_head masked": (1.0, hidden_tokens(12, of_teacher=True)),
}
PKD = {
    "soft": (0.5, lambda c: softened(10.0)(c) / CLASSES),
    "patience": (100.0, patience(SKIP, True)),
    "hard": (0.5, labels_loss),
}
TRANSFER = {"fmt": (100.0, feature_maps([1, 2])), "att": (1.0, attention_kl({1: 1, 2: 2}, False))}
PREDICTION = {"soft": (0.5, softened(1.0)), "hard": (0.5, labels_loss)}
FORMULAS: dict[tuple[str, str], dict[str, tuple[float, Callable[[Case], float]]]] = {
    **{
        (name, BERT): {"hard": (1.0, labels_loss)}
        for name in ("finetune", "theseus", "droplayers", "layerdrop", "q8bert")
    },
    ("ternarybert", BERT): {
        "hidn": (1.0, layers_mse),
        "attn": (1.0, lambda c: attention_scores(c, every=1)),
        "pred": (1.0, lambda c: float(soft_cross_entropy(c).mean())),
    },
    ("kd:temperature=4:alpha=0.3", BERT): {
        "soft": (0.3, softened(4.0)),
        "hard": (0.7, labels_loss),
    },
    ("distilbert", BERT): DISTILBERT,
    ("distilbert:pretraining=masked", BERT): FIRST_STEP
    | DISTILBERT
    | {"triple_loss cos": (1.0, cosine(6, 12))},
    ("distilbert:pretraining=masked:pretraining_without=cos:hard_weight=1", BERT): FIRST_STEP
    | DISTILBERT
    | {"hard": (1.0, labels_loss)},
    ("pkd", BERT): PKD,
    ("pkd:map=last:normalise=false", BERT): PKD | {"patience": (100.0, patience(LAST, False))},
    (f"tinybert:{SMALL}", BERT): TINYBERT,
    (f"tinybert:{SMALL}:prediction=labels", BERT): TINYBERT | {"pred": (1.0, labels_loss)},
    (f"tinybert:{SMALL}:padding=100", BERT): TINYBERT
    | {
        "embd": (1.0, tinybert_hidden([0], padding=True)),
        "hidn": (1.0, tinybert_hidden([1, 2, 3, 4], padding=True)),
        "attn": (1.0, attention_scores_with_padding),
    },
    (f"microbert:{SMALL}", BERT): MICROBERT,
    (
        f"microbert:{SMALL}:attention=true:teacher_layers=nearest:features=cls+max:distance=cosine",
        BERT,
    ): MICROBERT
    | {
        "attn": (1.0, attention_scores),
        "hidn": (1.0, alignment([1, 2, 3, 4], "cls+max", "cosine", nearest=True)),
        "embd": (1.0, alignment([0], "cls+max", "cosine")),
    },
    (f"microbert:{SMALL}:features=mean:distance=kl", BERT): MICROBERT
    | {
        "hidn": (1.0, alignment([1, 2, 3, 4], "mean", "kl")),
        "embd": (1.0, alignment([0], "mean", "kl")),
    },
    (f"microbert:{SMALL}:features=tokens:schedule=tinybert", BERT): MICROBERT
    | {"hidn": (1.0, alignment([1, 2, 3, 4], "tokens")), "embd": (1.0, alignment([0], "tokens"))},
    (MOBILE, BERT): PREDICTION,
    (MOBILE, IB_BERT): TRANSFER | PREDICTION,
    (f"{MOBILE}:transfer=auxiliary", IB_BERT): TRANSFER | PREDICTION,
    (f"{MOBILE}:pretraining=joint", BERT): {
        "ib_bert masked": (1.0, hidden_tokens(2)),
        "ib_transfer fmt": TRANSFER["fmt"],
        "ib_transfer att": TRANSFER["att"],
        "ib_transfer vocabulary": (0.5, vocabulary_cross_entropy),
        "ib_transfer masked": (0.5, hidden_tokens(2)),
        **PREDICTION,
    },
    ("moebert", BERT): {
        "layer": (1.0, layers_mse),
        "pred": (1.0, symmetric_kl),
        "hard": (1.0, labels_loss),
    },
    ("moebert:padding=100", BERT): {
        "layer": (
            1.0,
            lambda c: sum(
                mse(a, b) for a, b in zip(c.student.hidden, c.teacher.hidden, strict=True)
            ),
        ),
        "pred": (1.0, symmetric_kl),
        "hard": (1.0, labels_loss),
    },
    ("fisher:retrain=true", BERT): {"hard": (1.0, labels_loss)},
    ("cofi", BERT): {
        "pred": (0.1, softened(2.0)),
        "layer": (0.9, nearest_hidden),
        # its multipliers begin at 0; tests/methods/test_pruned.py
        "sparsity": (1.0, lambda c: 0.0),
    },
    **{
        (name, BERT): {"hard": (0.1, labels_loss), "soft": (0.9, softened(2.0))}
        for name in ("movement", "magnitude")
    },
    ("dynabert", BERT): {
        "pred": (1.0, lambda c: float(soft_cross_entropy(c).sum(-1).mean())),
        "hidn": ({"width": 0.1, "depth": 1.0}, layers_mse),
    },
    ("fastbert", BERT): {"branches": (1.0, branches("teacher"))},
    ("fastbert:direction=student", BERT): {"branches": (1.0, branches("student"))},
    (f"pd:{SMALL}:start=masked:finetune=true", BERT): {
        "masked_pretraining masked": (1.0, hidden_tokens(4)),
        "soft": (1.0, lambda c: float(soft_cross_entropy(c).sum(-1).mean())),
        "hard": (1.0, labels_loss),
    },
    ("bilstm:hard_weight=1", BERT): {
        "logits": (1.0, lambda c: mse(c.student.logits, c.teacher.logits)),
        "hard": (1.0, labels_loss),
    },
    (f"minilm:{SMALL}", BERT): {
        "relations attention": (1.0, attention_kl({4: 12}, True)),
        "relations values": (1.0, relation(2, 4, 12, 4)),
        "hard": (1.0, labels_loss),
    },
    (f"minilmv2:{SMALL}:teacher_layer=9:relation_heads=6", BERT): {
        "relations queries": (1 / 3, relation(0, 4, 9, 6)),
        "relations keys": (1 / 3, relation(1, 4, 9, 6)),
        "relations values": (1 / 3, relation(2, 4, 9, 6)),
        "hard": (1.0, labels_loss),
    },
    ("mtdnn", BERT): {
        "soft": (0.5, lambda c: float(-(c.targets * log_softmax(c.student.logits)).sum(-1).mean())),
        "hard": (0.5, labels_loss),
    },
    ("mtdnn:loss=code", BERT): {
        "soft": (1.0, lambda c: mse(c.student.logits, c.targets)),
        "hard": (1.0, labels_loss),
    },
}


def teacher_of(kind: str):
    if kind == BERT:
        return tiny.config(layers=12, num_labels=CLASSES)
    shape = {
        "hidden_size": 16,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "intra_bottleneck_size": 16,
    }
    return MobileBertConfig(vocab_size=VOCABULARY, embedding_size=8, intermediate_size=64, **shape)


def owners(method, teacher, prefix=""):
    """The method and every general stage that it asks for, with what their terms are called here."""
    for wish in method.requires(teacher):
        if isinstance(wish, PretrainingStage) and not isinstance(wish, GeneralDistillation):
            yield from owners(wish, teacher, f"{wish.name} ")
    yield prefix, method


def dimensions(config) -> tuple[int, int, int]:
    """Layers, width, heads of a configuration of any family; of one without layers, some."""
    names = (
        ("num_hidden_layers", "n_layers"),
        ("hidden_size", "dim"),
        ("num_attention_heads", "n_heads"),
    )
    return tuple(next((v for n in pair if (v := getattr(config, n, 0))), 2) for pair in names)  # type: ignore[return-value]


def learned(student) -> dict[str, np.ndarray]:
    """The aux of a student with random weights, by name; of a head over the vocabulary the words' matrix too."""
    with torch.no_grad():
        for parameter in student.aux.parameters():
            parameter.normal_(std=0.5)
    named = {
        name: value.detach().numpy().astype(float)
        for name, value in student.aux.state_dict().items()
    }
    for name, module in student.aux.named_children():
        if hasattr(module, "_words"):
            named[f"{name}.words"] = module._words[0].detach().numpy().astype(float)
    return named


def terms_of(spelling: str, kind: str, lengths: tuple[int, ...]):
    """(name, weight, value, case) of every term of a row and of its general stages, on one random batch."""
    method, teacher = parse_one(spelling).method, teacher_of(kind)
    several = "x" if getattr(method, "multitask", False) else ""
    rng = np.random.default_rng(len(lengths) + sum(lengths))
    for prefix, owner in owners(method, teacher):
        artefacts = blank_artefacts(owner.requires(teacher), teacher, CLASSES, several)
        targets = np.exp(log_softmax(rng.normal(size=(len(lengths), CLASSES)))).astype(np.float32)
        if several:
            ids = torch.arange(len(lengths))
            artefacts[f"{EnsembleTargets.name}.x"] = {
                "targets": torch.from_numpy(targets),
                "ids": ids,
            }
        setup = Setup(teacher, CLASSES, ("x",), artefacts)
        student = owner.build(setup)
        own = owner.teacher(setup) if isinstance(owner, PretrainingStage) else None
        taught_by = teacher if own is None else own.config
        layout = Layout(lengths)
        masked = [(b, n - 1, int(rng.integers(VOCABULARY))) for b, n in enumerate(lengths)]
        case = Case(
            lengths,
            Model.random(rng, lengths, *dimensions(getattr(student.model, "config", teacher))),
            Model.random(rng, lengths, *dimensions(taught_by)),
            rng.integers(CLASSES, size=len(lengths)),
            learned(student),
            masked,
            targets,
        )
        batch = Batch(
            list(range(len(lengths))),
            torch.zeros(sum(lengths), dtype=torch.int64),
            torch.zeros(sum(lengths), dtype=torch.int64),
            layout,
            torch.from_numpy(case.labels),
            masked_positions=torch.tensor([int(layout.starts_B[b]) + p for b, p, _ in masked]),
            masked_ids=torch.tensor([token for _, _, token in masked]),
        )
        for stage in owner.stages(setup):
            if stage.padding:
                layout = Layout([max(lengths)] * len(lengths), real=lengths)
            for name, term in stage.terms.items():
                ours, theirs = (
                    case.student.out(layout, term.student),
                    case.teacher.out(layout, term.teacher),
                )
                yield (
                    stage.name,
                    prefix + name,
                    term.weight,
                    float(
                        term.fn(replace(batch, layout=layout), ours, theirs, student.aux).detach()
                    ),
                    case,
                )


def agree(row: tuple[str, str], lengths: tuple[int, ...]) -> None:
    """Every term of a row and its weight, to 1e-6; a loss that multiplies single precision's last digit by T^2 to as much."""
    tolerance = 1e-4 if row[0].startswith("pkd") else 1e-6
    met = set()
    for stage, name, weight, value, case in terms_of(*row, lengths):
        assert name in FORMULAS[row], (
            f"{row[0]}: FORMULAS has no formula of the term {name!r}; add its weight and formula"
        )
        expected_weight, formula = FORMULAS[row][name]
        if isinstance(expected_weight, dict):  # by stage
            expected_weight = expected_weight[stage]
        assert weight == pytest.approx(expected_weight), name
        close = tolerance if name == "soft" else 1e-6
        assert value == pytest.approx(formula(case), rel=1e-6, abs=close), name
        met.add(name)
    assert not set(FORMULAS[row]) - met, (
        f"{row[0]} has no term {', '.join(set(FORMULAS[row]) - met)}; FORMULAS names it"
    )


@pytest.mark.parametrize("lengths", LENGTHS.values(), ids=LENGTHS)
@pytest.mark.parametrize("row", FORMULAS, ids=" beside ".join)
@pytest.mark.slow
def test_a_term_is_its_papers_formula(row, lengths):
    agree(row, lengths)


def test_no_method_is_left_out():
    """A method's formula is written here from its paper, without a look at its file."""
    has_every_method(
        {spelling.split(":")[0] for spelling, _ in FORMULAS},
        "FORMULAS in tests/methods/test_formulas.py (each term's weight and its paper's formula)",
        '("mine", BERT): {"soft": (0.5, softened(2.0)), "hard": (0.5, labels_loss)}',
    )
