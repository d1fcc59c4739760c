"""The registry: every method by name, found without importing it.

Third parties add methods through the entry-point group ``bert_bench.methods``; their names have the form
``package/method``. Listing reads metadata only.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import Any

CONTRACT = 2
"""Number of the contract in methods/api.py. Contract 1 had no base class, and ``requires`` was called ``prepare``."""
GROUP = "bert_bench.methods"
NAME = re.compile(r"[\w.-]+(/[\w.-]+)+")
"""How a third party's method is called. Other signs have a meaning where rows are typed, or in the names of folders."""

TABLE: dict[str, tuple[str, str]] = {
    "finetune": ("methods.finetune:FineTune", "a small BERT on the labels alone, from the shared general start"),
    "kd": ("methods.kd:KD", "soft labels of the teacher (Hinton et al. 2015)"),
    "distilbert": (
        "methods.distilbert:DistilBERT",
        "second step: spread layers; soft labels, cosine, labels (Sanh et al. 2019)",
    ),
    "pkd": ("methods.pkd:PKD", "first layers; soft labels, [CLS] states of several layers (Sun et al. 2019)"),
    "tinybert": ("methods.tinybert:TinyBERT", "embedding, hidden, attention; then prediction (Jiao et al. 2020)"),
    "mobilebert": (
        "methods.mobilebert:MobileBERT",
        "thin bottleneck blocks, tiny; no pre-training by default (Sun et al. 2020)",
    ),
    "moebert": ("methods.moebert:MoEBERT", "experts of important neurons, hash routing (Zuo et al. 2022)"),
    "theseus": ("methods.theseus:Theseus", "teacher's modules replaced at random, at a growing rate (Xu et al. 2020)"),
    "pd": ("methods.pd:PreTrainedDistillation", "pre-trained, then soft labels alone (Turc et al. 2019)"),
    "fastbert": ("methods.fastbert:FastBERT", "branches and early exit: a row for each speed (Liu et al. 2020)"),
    "minilm": ("methods.minilm:MiniLM", "attention and value relations of one layer, on text (Wang et al. 2020)"),
    "minilmv2": ("methods.minilm:MiniLMv2", "query, key and value relations, any number of heads (Wang et al. 2021)"),
    "bilstm": ("methods.bilstm:BiLSTM", "a BiLSTM with its own vocabulary imitates the logits (Tang et al. 2019)"),
    "mtdnn": ("methods.mtdnn:MTDNN", "one student of all tasks, taught by an ensemble of teachers (Liu et al. 2019)"),
    "microbert": ("methods.microbert:MicroBERT", "feature alignment, task experts, discriminator (Zheng et al. 2024)"),
}

LACKS: dict[str, tuple[str, Any, str]] = {
    "distilbert": ("pretraining", "none", "second step only"),
    "mobilebert": ("pretraining", "none", "no pre-training"),
}
"""Method -> a setting, its default, and what a row with this default has less than the paper that it is named after."""

REMARKS: dict[str, str] = {
    "microbert": "microbert is a reconstruction. Its authors released no code, and no public copy of the paper has its equations.",
    "minilm": "minilm has its own pre-training on text (relations). It imitates the teacher's self-attention relations.",
    "minilmv2": "minilmv2 has its own pre-training on text (relations). It imitates the teacher's self-attention relations.",
    "fastbert": "fastbert: speed= is a threshold. A sequence exits at the first layer where the normalised entropy of the prediction "
    "is below this threshold. So with a higher value sequences exit earlier. In the row without speed= all sequences pass all layers.",
}
"""Method -> what a reader of a table has to know of all its rows, in sentences."""

REWORDED: dict[str, str] = {
    "no IB-BERT teacher: feature-map and attention transfer are absent; random start, ": "no IB-BERT (MobileBERT's own teacher), so "
    "no feature-map and attention transfer. Random start, ",
    "word vectors begin at random, over a vocabulary of the task's own training words": "word vectors begin at random. The "
    "vocabulary is that of the task's training texts",
    "the paper's transfer set is made with --augment rules alone": "the paper's transfer set (augmented examples) is made only with "
    "--augment rules",
}
"""What older records note of a row -> how tables print it."""

RATES: dict[str, tuple[str, float]] = {"bilstm": ("rate", 10.0), "fastbert": ("", 10.0)}
"""Method -> what its training on a task multiplies the recipe's learning rate with: a setting and its default, or a number."""


def names() -> dict[str, str]:
    """Every known method and one line about it, in a fixed order. Imports no method, and leaves out what is :func:`refused`."""
    return {name: summary for name, (_, summary) in TABLE.items()} | _offered()[0]


def refused() -> dict[str, str]:
    """Names under which packages offer methods and that nobody can use, each with the reason. They stop no other method."""
    return _offered()[1]


def _offered() -> tuple[dict[str, str], dict[str, str]]:
    """The methods of third parties: those that can be used, and those that are refused. Looking for them takes 15 ms."""
    found: dict[str, str] = {}
    wrong: dict[str, str] = {}
    for point in sorted(entry_points(group=GROUP), key=lambda p: p.name):
        if not NAME.fullmatch(point.name):
            wrong[point.name] = f"the method name {point.name!r} of {point.value} needs the form package/method"
        elif point.name in found or point.name in wrong:
            found.pop(point.name, None)
            wrong[point.name] = f"two packages provide a method called {point.name!r}; uninstall one of them"
        else:
            found[point.name] = f"from {point.value}"
    return found, wrong


def reference(name: str) -> str:
    """Where the method's class is, ``module:Class``, which may be given in the place of a name; "" for a name that nobody has
    registered. Imports no method."""
    if name in TABLE or ":" in name:
        return TABLE[name][0] if name in TABLE else name
    return next((point.value for point in entry_points(group=GROUP) if point.name == name), "")


def shortcoming(name: str, settings: Mapping[str, Any]) -> str:
    """What a table says behind the name of a row with these settings: ``second step only``; "" for most rows.

    Args:
        settings: by name; one that is missing has its default.
    """
    setting, default, words = LACKS.get(name, ("", None, ""))
    return words if settings.get(setting, default) == default else ""


def remark(name: str) -> str:
    """What a table says below itself of all rows of the method; "" for most methods."""
    return REMARKS.get(name, "")


def reworded(note: str) -> str:
    """The note of a record in today's words."""
    for older, today in REWORDED.items():
        note = note.replace(older, today)
    return note


def rate_factor(name: str, settings: Mapping[str, Any]) -> float:
    """What a row's training on its task multiplies the recipe's learning rate with, at the beginning of every stage."""
    setting, factor = RATES.get(name, ("", 1.0))
    return float(settings.get(setting, factor))


def get(name: str) -> type:
    """The method's class, by its name or as ``module:Class``.

    Raises:
        KeyError: no such method; the message offers the nearest name.
    """
    if name not in TABLE and ":" in name:
        module, _, attribute = name.partition(":")
        return getattr(import_module(module), attribute)  # type: ignore[no-any-return]
    if name in TABLE or name in names():
        return EntryPoint(name, reference(name), GROUP).load()  # type: ignore[no-any-return]
    known = list(names())
    near = difflib.get_close_matches(name, known, n=1)
    hint = f"did you mean {near[0]!r}? " if near else ""
    raise KeyError(f"no method is called {name!r}; {hint}known: {', '.join(known)}")
