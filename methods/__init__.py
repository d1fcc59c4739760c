"""The registry: every method by name, found without importing it.

Third parties add methods through the entry-point group ``bert_bench.methods``; their names have the
form ``package/method``. Listing reads metadata only.
"""

from __future__ import annotations

import difflib
import re
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points

CONTRACT = 3
"""Number of the contract in methods/api.py."""
GROUP = "bert_bench.methods"
NAME = re.compile(r"[\w.-]+(/[\w.-]+)+")
"""How a third party's method is called. Other signs have a meaning where rows are typed, or in the
names of folders."""

TABLE: dict[str, tuple[str, str]] = {
    "finetune": (
        "methods.finetune:FineTune",
        "a small BERT on the labels alone, from the shared general start",
    ),
    "kd": ("methods.kd:KD", "soft labels of the teacher (Hinton et al. 2015)"),
    "distilbert": (
        "methods.distilbert:DistilBERT",
        "second step: spread layers; soft labels, cosine, labels (Sanh et al. 2019)",
    ),
    "pkd": (
        "methods.pkd:PKD",
        "first layers; soft labels, [CLS] states of several layers (Sun et al. 2019)",
    ),
    "tinybert": (
        "methods.tinybert:TinyBERT",
        "embedding, hidden, attention; then prediction (Jiao et al. 2020)",
    ),
    "mobilebert": (
        "methods.mobilebert:MobileBERT",
        "thin bottleneck blocks, tiny; no pre-training by default (Sun et al. 2020)",
    ),
    "moebert": (
        "methods.moebert:MoEBERT",
        "experts of important neurons, hash routing (Zuo et al. 2022)",
    ),
    "theseus": (
        "methods.theseus:Theseus",
        "teacher's modules replaced at random, at a growing rate (Xu et al. 2020)",
    ),
    "pd": (
        "methods.pd:PreTrainedDistillation",
        "pre-trained, then soft labels alone (Turc et al. 2019)",
    ),
    "fastbert": (
        "methods.fastbert:FastBERT",
        "branches and early exit: a row for each speed (Liu et al. 2020)",
    ),
    "minilm": (
        "methods.minilm:MiniLM",
        "attention and value relations of one layer, on text (Wang et al. 2020)",
    ),
    "minilmv2": (
        "methods.minilm:MiniLMv2",
        "query, key and value relations, any number of heads (Wang et al. 2021)",
    ),
    "bilstm": (
        "methods.bilstm:BiLSTM",
        "a BiLSTM with its own vocabulary imitates the logits (Tang et al. 2019)",
    ),
    "mtdnn": (
        "methods.mtdnn:MTDNN",
        "one student of all tasks, taught by an ensemble of teachers (Liu et al. 2019)",
    ),
    "droplayers": (
        "methods.layerdrop:DropLayers",
        "no distillation: layers taken out, the rest fine-tuned (Sajjad et al. 2023)",
    ),
    "layerdrop": (
        "methods.layerdrop:LayerDrop",
        "no distillation: layers left out at random, every other kept (Fan et al. 2020)",
    ),
    "fisher": (
        "methods.fisher:Fisher",
        "no distillation: heads and neurons pruned, nothing trained (Kwon et al. 2022)",
    ),
    "magnitude": (
        "methods.movement:Magnitude",
        "small weights become zero in fine-tuning; not faster (Sanh et al. 2020)",
    ),
    "movement": (
        "methods.movement:Movement",
        "weights that move to zero become zero; not faster (Sanh et al. 2020)",
    ),
    "q8bert": (
        "methods.q8bert:Q8BERT",
        "no distillation: 8-bit weights and activations in fine-tuning (Zafrir et al. 2019)",
    ),
    "ternarybert": (
        "methods.ternarybert:TernaryBERT",
        "2-bit weights, distilled from the model that was rounded (Zhang et al. 2020)",
    ),
    "cofi": (
        "methods.cofi:CoFi",
        "heads, neurons and blocks pruned while it is distilled (Xia et al. 2022)",
    ),
    "dynabert": (
        "methods.dynabert:DynaBERT",
        "parts of every width and depth out of one training (Hou et al. 2020)",
    ),
    "microbert": (
        "methods.microbert:MicroBERT",
        "feature alignment, task experts, discriminator (Zheng et al. 2024)",
    ),
}
WRITERS: dict[str, tuple[str, str]] = {
    "seq2seq": (
        "methods.seq2seq:Seq2Seq",
        "a small Transformer on the pairs alone (Vaswani et al. 2017)",
    ),
    "cmlm": (
        "methods.cmlm:Cmlm",
        "soft targets of a BERT that sees both sides of a word (Chen et al. 2020)",
    ),
}
"""Methods whose students write texts: for tasks whose answers are such. ``all``
does not mean them."""


def names() -> dict[str, str]:
    """Every known method and one line about it, in a fixed order, with those of other
    packages, whose names have the form package/method. Imports no method; looking for
    packages takes 15 ms."""
    points = sorted(entry_points(group=GROUP), key=lambda point: point.name)
    offered = {point.name: f"from {point.value}" for point in points if NAME.fullmatch(point.name)}
    return {name: summary for name, (_, summary) in TABLE.items()} | offered


def reference(name: str) -> str:
    """Where the method's class is, ``module:Class``, which may be given in the place of a name; ""
    for a name that nobody has registered. Imports no method."""
    if name in (shipped := TABLE | WRITERS) or ":" in name:
        return shipped[name][0] if name in shipped else name
    return next((point.value for point in entry_points(group=GROUP) if point.name == name), "")


def get(name: str) -> type:
    """The method's class, by its name or as ``module:Class``. Raises KeyError: no such method; the
    message offers the nearest name."""
    if name not in TABLE and ":" in name:
        module, _, attribute = name.partition(":")
        return getattr(import_module(module), attribute)  # type: ignore[no-any-return]
    if name in TABLE or name in WRITERS or name in names():
        return EntryPoint(name, reference(name), GROUP).load()  # type: ignore[no-any-return]
    known = [*names(), *WRITERS]
    near = difflib.get_close_matches(name, known, n=1)
    hint = f"did you mean {near[0]!r}? " if near else ""
    raise KeyError(f"no method is called {name!r}; {hint}known: {', '.join(known)}")
