"""Parts that several methods build from: students of a given shape, layer maps, shared settings,
checks of settings."""

from __future__ import annotations

import copy
import math
import re
import sys
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, TypeVar, cast

import torch
from torch import Tensor, nn
from transformers import (
    CONFIG_MAPPING,
    MODEL_FOR_QUESTION_ANSWERING_MAPPING,
    MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING,
    AutoConfig,
    AutoModelForQuestionAnswering,
    AutoModelForSequenceClassification,
    BertConfig,
    BertForSequenceClassification,
    PretrainedConfig,
    PreTrainedModel,
)

from methods.core.errors import MethodError
from methods.core.families import LAYERED, family_of_config, last_layer, read_packed
from methods.core.settings import Limit
from methods.core.stages import Setup, Shape, Student

Classifier = TypeVar("Classifier", bound=type[PreTrainedModel])
Config = TypeVar("Config", bound=PretrainedConfig)


def opened_by_transformers(model: Classifier) -> Classifier:
    """Make a model of our own known to ``AutoModelForSequenceClassification``, or to
    ``AutoModelForQuestionAnswering`` if its name says so, by its configuration's model_type."""
    config: Any = model.config_class
    AutoConfig.register(config.model_type, config, exist_ok=True)
    answers_questions = model.__name__.endswith("ForQuestionAnswering")
    opener: Any = (
        AutoModelForQuestionAnswering if answers_questions else AutoModelForSequenceClassification
    )
    opener.register(config, model, exist_ok=True)
    return model


def config_in(kind: type[PretrainedConfig], family: str) -> Any:
    """A configuration of our own, made for BERT; of another family that family's, with the same
    further fields."""
    if family == "bert":
        return kind
    model_type = f"{kind.model_type.removesuffix('bert').removesuffix('_')}_{family}"
    # each is made once: transformers registers no name twice
    if model_type in CONFIG_MAPPING:
        return CONFIG_MAPPING[model_type]
    base = CONFIG_MAPPING[family]
    fields = vars(kind)["__annotations__"]
    name = kind.__name__.replace("Bert", base.__name__.removesuffix("Config"))
    members = {
        "__module__": kind.__module__,
        "__doc__": kind.__doc__,
        "__annotations__": dict(fields),
        "model_type": model_type,
        **{field: vars(kind)[field] for field in fields},
    }
    return type(name, (base,), members)


def in_every_family(model: Classifier) -> Classifier:
    """:func:`opened_by_transformers`, for a class of our own over a BERT and for its like over
    every other family of :data:`methods.core.families.LAYERED`: the same first bases, then
    transformers' own class. What it does stands in the first bases."""
    *own, _ = opened_by_transformers(model).__bases__
    answers_questions = model.__name__.endswith("ForQuestionAnswering")
    heads: Any = (
        MODEL_FOR_QUESTION_ANSWERING_MAPPING
        if answers_questions
        else MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING
    )
    for family in LAYERED:
        if family == "bert":
            continue
        config = config_in(cast(Any, model.config_class), family)
        base = heads[CONFIG_MAPPING[family]]
        name = model.__name__.replace("Bert", base.__name__.partition("For")[0])
        members = {
            "__module__": model.__module__,
            "__doc__": model.__doc__,
            "config_class": config,
            # transformers reads it off the file of a class; the attention is in the file of the
            # class beneath
            "_can_set_attn_implementation": base._can_set_attn_implementation,
        }
        made: Any = opened_by_transformers(type(name, (*own, base), members))
        # whoever opens a saved folder in another process names the class by its module
        for each in (config, made):
            setattr(sys.modules[model.__module__], each.__name__, each)
    return model


def nearest_layers(student_layers: int, teacher_layers: int) -> dict[int, int]:
    """Student layer m of M stands at m*N/M of the teacher's N layers; the nearest one, halves up. 0
    -> 0. 12 -> 4 gives 3, 6, 9, 12, the uniform map of TinyBERT's section 3.2."""
    return {
        m: math.floor(m * teacher_layers / student_layers + 0.5) for m in range(student_layers + 1)
    }


def evenly_spread(student_layers: int, teacher_layers: int) -> list[int]:
    """So many of the teacher's layers (1-based) from its first to its last, evenly, halves up. 12
    -> 6 gives 1, 3, 5, 8, 10, 12: the layers that DistilBERT's authors copy."""
    if student_layers == 1:
        return [1]
    step = (teacher_layers - 1) / (student_layers - 1)
    return [math.floor(m * step + 0.5) + 1 for m in range(student_layers)]


def averaged_layers(student_layers: int, teacher_layers: int) -> dict[int, dict[int, float]]:
    """Student layer m averages the teacher's layers over the interval ((m-1)*N/M, m*N/M], weighted
    by length. 12 -> 4 gives the mean of three consecutive layers (MicroBERT: "the average taken
    every third layer"); 6 -> 4 gives {1: {1: 2/3, 2: 1/3}, 2: {2: 1/3, 3: 2/3}, ...}. The weights
    of each m sum to 1."""
    step = teacher_layers / student_layers
    weights: dict[int, dict[int, float]] = {}
    for m in range(1, student_layers + 1):
        # the part of each of the teacher's layers that lies in the interval
        low = (m - 1) * step
        high = m * step
        overlaps = {n: min(high, n) - max(low, n - 1) for n in range(1, teacher_layers + 1)}
        weights[m] = {n: overlap / step for n, overlap in overlaps.items() if overlap > 1e-9}
    return weights


def bert_config(shape: Shape, teacher: PretrainedConfig, num_labels: int = 2) -> BertConfig:
    """A BERT of this shape that reads the teacher's vocabulary."""
    config = BertConfig(
        vocab_size=teacher.vocab_size,
        hidden_size=shape.hidden,
        num_hidden_layers=shape.layers,
        num_attention_heads=shape.heads,
        intermediate_size=shape.ffn,
        max_position_embeddings=teacher.max_position_embeddings,
        # of pairs; some teachers know one kind
        type_vocab_size=max(2, getattr(teacher, "type_vocab_size", 2)),
        pad_token_id=teacher.pad_token_id,
        hidden_dropout_prob=0.1,
        attention_probs_dropout_prob=0.1,
    )
    config.num_labels = num_labels
    return config


def own_config(
    kind: type[Config], source: PretrainedConfig, num_labels: int, **more: Any
) -> Config:
    """The configuration of a model class of our own: what ``source`` has, under a model_type of its
    own, and ``more``."""
    config = kind(**{**source.to_dict(), **more, "model_type": kind.model_type})
    config.num_labels = num_labels
    return config


def own_classifier(
    kind: type[PretrainedConfig], source: PretrainedConfig, num_labels: int, **more: Any
) -> Any:
    """A classifier of our own with random weights, in the family of ``source``, which is one of
    :data:`methods.core.families.LAYERED`. ``kind`` is the configuration made for BERT."""
    own = config_in(kind, family_of_config(source))
    made: Any = MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING[own]
    model = made(own_config(own, source, num_labels, **more))
    read_packed(model)
    return model


def load_checked(
    module: nn.Module, weights: Mapping[str, Tensor], what: str, new: tuple[str, ...] = ()
) -> None:
    """Fill a module with weights. Only parameters that begin with ``new`` may be missing; ``("",)``
    allows all. Raises MethodError: a weight that has no place, or a parameter that would stay as it
    is."""
    missing, unexpected = module.load_state_dict(dict(weights), strict=False)
    missing = [name for name in missing if not name.startswith(new)]
    if missing or unexpected:
        raise MethodError(
            f"{what} does not fit the student: missing {missing}, unexpected {unexpected}"
        )


def classifier(
    config: BertConfig, encoder: Mapping[str, Tensor] | None = None
) -> BertForSequenceClassification:
    """A classifier of this configuration; ``encoder`` are weights for its BERT (pooler
    excepted)."""
    model = BertForSequenceClassification(config)
    read_packed(model)
    # without them its weights are random
    if encoder is not None:
        load_checked(model.bert, encoder, "the start", new=("pooler.",))
    return model


def under(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The tensors whose names begin so, by the rest of their names."""
    return {
        name.removeprefix(prefix): value
        for name, value in tensors.items()
        if name.startswith(prefix)
    }


def encoder_of(classifier: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The encoder's tensors out of a BERT classifier's, without pooler: what :func:`classifier`
    begins with."""
    return {
        name: value
        for name, value in under("bert.", classifier).items()
        if not name.startswith("pooler.")
    }


def without_projection(start: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The encoder's tensors out of a start's: what :func:`classifier` begins with."""
    return {name: value for name, value in start.items() if not name.startswith("projection.")}


def pretrained_tensors(student: Student) -> dict[str, Tensor]:
    """The tensors that a pre-training on text hands on: the model's tensors by name, those of aux
    after ``aux.``."""
    kept = {
        **student.model.state_dict(),
        **{f"aux.{name}": value for name, value in student.aux.state_dict().items()},
    }
    # copies, which the next training does not change
    return {name: value.detach().clone() for name, value in kept.items()}


def teacher_depth(teacher: PretrainedConfig, layers: int, method: str) -> int:
    """Layers of a student made of a teacher's layers: ``layers``, or half the teacher's where it is
    0. Raises MethodError: the teacher is of another family than :data:`LAYERED`, or has fewer
    layers."""
    require_layers(teacher, method)
    depth = teacher.num_hidden_layers
    if not 0 <= layers <= depth:
        raise MethodError(f"layers={layers} should be at most the teacher's {depth}")
    return layers or max(1, depth // 2)


WHY_NOT_MODERNBERT = (
    ", whose layers differ in kind and have one matrix for queries, keys and values, "
    "and gated networks"
)
"""Layers without the others would see other tokens, and heads or neurons have no rows of their own
in its matrices."""


def require_layers(teacher: PretrainedConfig, method: str) -> None:
    """Raises MethodError: the teacher's layers are none that a student can be made of."""
    if (kind := teacher.model_type) not in LAYERED:
        why = WHY_NOT_MODERNBERT if kind == "modernbert" else ""
        raise MethodError(
            f"{method} takes over layers of {', '.join(LAYERED)}; this teacher is a {kind}{why}"
        )


Depth = Annotated[
    int, Limit(lambda layers: layers >= 0, "be positive, or 0 for half the teacher's")
]
"""Layers of a student made of a teacher's (:func:`teacher_depth`)."""
Padding = Annotated[
    int, Limit(lambda tokens: tokens >= 0, "be 0 for none, or a number of tokens, like 128")
]
"""Tokens that sequences are filled up to with [PAD]."""


def check_padding(padding: int, teacher: PretrainedConfig) -> None:
    most = teacher.max_position_embeddings
    if padding > most:
        raise MethodError(
            f"padding={padding} is longer than the teacher's {most} positions; "
            f"choose at most {most}"
        )


def why_heads_differ(heads: int, teacher: PretrainedConfig) -> str:
    """Why attention cannot be compared head by head (for ``Term.unsupported``); "" where it can."""
    theirs = teacher.num_attention_heads
    if heads == theirs:
        return ""
    return (
        f"attention distillation needs equal numbers of heads; the student has {heads}, the "
        f"teacher {theirs}: choose heads={theirs}"
    )


DISTILBERT_NAMES = {
    "attention.self.query": "attention.q_lin",
    "attention.self.key": "attention.k_lin",
    "attention.self.value": "attention.v_lin",
    "attention.output.dense": "attention.out_lin",
    "attention.output.LayerNorm": "sa_layer_norm",
    "intermediate.dense": "ffn.lin1",
    "output.dense": "ffn.lin2",
    "output.LayerNorm": "output_layer_norm",
}
"""Modules of a BERT layer -> of a DistilBERT layer."""


def select_layers(weights: Mapping[str, Tensor], chosen: Sequence[int]) -> dict[str, Tensor]:
    """Weights of a classifier of :data:`LAYERED` with only the ``chosen`` layers (1-based), in
    their new places."""
    kept: dict[str, Tensor] = {}
    # names count layers from 0
    place = {old - 1: new for new, old in enumerate(chosen)}
    for name, value in weights.items():
        match = re.fullmatch(r"(\w+\.encoder\.layer\.)(\d+)(\..*)", name)
        # embeddings, pooler and head
        if match is None:
            kept[name] = value
        elif int(match[2]) in place:
            kept[f"{match[1]}{place[int(match[2])]}{match[3]}"] = value
    return kept


class Reach(nn.Module):
    """Lets a term read, as ``aux``, a module that the student's model owns, or the model itself."""

    def __init__(self, target: nn.Module) -> None:
        super().__init__()
        # past torch, which would register it, and save and train it, a second time
        self.__dict__["target"] = target


def new_classifier(setup: Setup, layers: int) -> Any:
    """A classifier of the teacher's form with so many layers and random weights."""
    config = copy.deepcopy(setup.teacher)
    config.num_hidden_layers = layers
    config.num_labels = setup.num_labels
    kind: Any = MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING[type(config)]
    model = kind(config)
    read_packed(model)
    return model


def cut_classifier(setup: Setup, layers: int, weights: Mapping[str, Tensor]) -> Any:
    """A classifier of the teacher's form with its first so many layers out of ``weights``; a head
    that they lack is new."""
    model = new_classifier(setup, layers)
    load_checked(
        model,
        select_layers(weights, range(1, layers + 1)),
        "what was taken of the teacher",
        new=("classifier.",),
    )
    return model


def for_task(model: Any, head: nn.Module) -> Any:
    """The classifier of one task: this head alone, over the encoder of ``model``, whose tensors it
    shares."""
    config = copy.deepcopy(model.config)
    config.num_labels = last_layer(head).out_features
    # without memory and random draws: all of its parts are replaced
    with torch.device("meta"):
        shipped = type(model)(config)
    for name, part in model.named_children():
        setattr(shipped, name, head if name == "classifier" else part)
    read_packed(shipped)
    return shipped.train(model.training)
