"""A tiny teacher and tiny tasks, made in code: what tests train on in seconds."""

from __future__ import annotations

import json
from pathlib import Path

import torch
from transformers import (
    AutoConfig,
    AutoModelForSequenceClassification,
    BertConfig,
    BertForSequenceClassification,
    BertModel,
)

from bench.data.encoding import Encoded, encode
from bench.data.table_files import Split
from methods.core.families import read_packed

WORDS = [
    "the", "a", "cat", "dog", "bird", "fish", "runs", "sleeps", "sings", "swims", "red", "blue", "old", "young", "good",
    "bad", "in", "on", "house", "tree", "river", "and", "is", "was", "not", "where", "who", "when", "?", ".",
    ",", "to", "of", "he", "she", "it", "they", "we", "you", "big", "small", "fast", "slow",
]  # fmt: skip
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]


def config(layers: int = 3, hidden: int = 24, heads: int = 4, num_labels: int = 2) -> BertConfig:
    made = BertConfig(
        vocab_size=len(SPECIAL) + len(WORDS),
        hidden_size=hidden,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        intermediate_size=2 * hidden,
        max_position_embeddings=128,
    )
    made.num_labels = num_labels
    return made


OF_FAMILY = {
    "bert": {},
    "roberta": {"type_vocab_size": 1},
    # narrower than the layers
    "electra": {"embedding_size": 12},
    "mpnet": {},
}
"""Families whose layers students are made of, and what their configurations say besides :func:`config`."""


def family_config(family: str, num_labels: int = 2, **shape: int):
    """As :func:`config`, of another family, with weights so large that attention is not the same for all tokens."""
    sizes = (
        "vocab_size",
        "hidden_size",
        "num_hidden_layers",
        "num_attention_heads",
        "intermediate_size",
        "max_position_embeddings",
    )
    given = {name: getattr(config(**shape), name) for name in sizes}
    own = {**OF_FAMILY[family], "pad_token_id": 0, "initializer_range": 0.2}
    made = AutoConfig.for_model(family, **given, **own)
    made.num_labels = num_labels
    return made


def family_classifier(family: str, num_labels: int = 2, seed: int = 0, **shape: int):
    """As :func:`classifier`, of another family."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        made = family_config(family, num_labels, **shape)
        model = AutoModelForSequenceClassification.from_config(made)
    read_packed(model)
    return model


def classifier(num_labels: int = 2, seed: int = 0, **shape: int) -> BertForSequenceClassification:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = BertForSequenceClassification(config(num_labels=num_labels, **shape))
    model.set_attn_implementation("packed")
    return model


def save_teacher(folder: Path, kind: type = BertModel, num_labels: int = 2, **shape: int) -> Path:
    """A checkpoint folder with random weights and a real WordPiece tokenizer."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = kind(config(num_labels=num_labels, **shape))
    model.save_pretrained(folder)
    (folder / "vocab.txt").write_text("\n".join([*SPECIAL, *WORDS]) + "\n")
    (folder / "tokenizer_config.json").write_text(
        json.dumps(
            {"tokenizer_class": "BertTokenizer", "do_lower_case": True, "model_max_length": 128}
        )
    )
    return folder


def tokenizer(folder: Path):
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(folder)


def split(rows: int = 40, num_labels: int = 2, pairs: bool = True, seed: int = 0) -> Split:
    """Sentences whose label is whether (which) animal is named: learnable in a few steps."""
    generator = torch.Generator().manual_seed(seed)
    pick = lambda words: words[int(torch.randint(len(words), (1,), generator=generator))]  # noqa: E731
    animals = ["cat", "dog", "bird", "fish"]
    first, second, labels = [], [], []
    for _ in range(rows):
        animal = pick(animals)
        extra = " ".join(
            pick(WORDS) for _ in range(int(torch.randint(1, 6, (1,), generator=generator)))
        )
        first.append(f"the {animal} {pick(['runs', 'sleeps', 'sings'])} {extra}")
        second.append(f"a {pick(['red', 'blue'])} {pick(['house', 'tree'])}")
        labels.append(animals.index(animal) % max(num_labels, 2))
    import numpy as np

    kind = np.float32 if num_labels == 1 else np.int64
    return Split(first, second if pairs else None, np.array(labels, dtype=kind), list(range(rows)))


def encoded(folder: Path, **options) -> Encoded:
    return encode(tokenizer(folder), split(**options), 64)


SHAPE = "layers=2:hidden=12:heads=4:ffn=24"
"""Settings that shrink any student to a test's size."""


def write_glue(folder: Path, tasks: tuple[str, ...] = ("rte", "sst2"), rows: int = 40) -> Path:
    """A folder in the layout of the hub's glue repository, filled with tiny sentences."""
    import pandas

    from bench.data.tasks import GLUE

    for name in tasks:
        task = GLUE[name]
        for place, config_, name_ in [(0, name, "train")] + [
            (i + 1, e.config, e.split) for i, e in enumerate(task.evaluation)
        ]:
            data = split(rows, task.num_labels, len(task.columns) == 2, seed=place)
            columns = {task.columns[0]: data.first, "label": data.labels, "idx": data.ids}
            if len(task.columns) == 2:
                columns[task.columns[1]] = data.second
            if config_ == "ax":
                columns["label"] = [-1] * rows
            file = folder / config_ / f"{name_}-00000-of-00001.parquet"
            file.parent.mkdir(parents=True, exist_ok=True)
            pandas.DataFrame(columns).to_parquet(file, index=False)
    return folder
