"""A model whose weight matrices have few bits: rounded in every training step, shipped as small
whole numbers with their scales.

The forward pass reads the rounded matrices, the backward pass counts the rounding as the identity
(straight-through), so what is trained stays precise. What linear layers read is rounded too, for
each token by its own largest number, so that no answer depends on its neighbours in a batch. A
saved folder holds the whole numbers: four in a byte of 2 bits, two of 3 or 4, one of more. An
opened model has the same matrices in fp32, and they do not learn any more: its file is small, its
answers take BERT's memory and no less than BERT's time.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Annotated, Any

import torch
from safetensors.torch import load_file
from torch import Tensor, nn
from torch.nn import functional as F
from transformers import BertConfig, BertForQuestionAnswering, BertForSequenceClassification
from transformers.utils import SAFE_WEIGHTS_NAME, cached_file

from methods.core.families import attention_names, last_layer
from methods.core.models import PackedModel
from methods.core.parts import in_every_family, load_checked, own_classifier
from methods.core.settings import Limit
from methods.core.stages import Setup

TERNARY = 2  # bits of weights that are -1, 0 or 1 times a scale
PRECISE = 32  # bits that are not rounded
# times the mean absolute weight: below it a ternary weight is 0 (Li and Liu 2016, arXiv 1605.04711)
THRESHOLD = 0.7
TINY = 1e-12  # in the place of the largest number of a matrix, row or token that is all zeros
HUB_OPTIONS = ("cache_dir", "force_download", "local_files_only", "revision", "subfolder", "token")

WeightBits = Annotated[int, Limit(lambda bits: 2 <= bits <= 8, "lie between 2 (ternary) and 8")]
ActivationBits = Annotated[
    int, Limit(lambda bits: 3 <= bits <= 8 or bits == PRECISE, "lie between 3 and 8, or be 32")
]


class QuantizedBertConfig(BertConfig):
    """A BERT with rounded weights. ``rounds_all``: also those of the classification layer, the
    positions and the segments; ``is_rounded``: the weights are the rounded ones already, as in a
    saved folder."""

    model_type = "quantized_bert"
    weight_bits: int = TERNARY
    activation_bits: int = 8
    clip: float | None = None
    rounds_all: bool = False
    is_rounded: bool = False


def largest_code(bits: int) -> int:
    """The whole numbers lie between it and its opposite."""
    return int(2 ** (bits - 1)) - 1


def codes_and_scale(x: Tensor, bits: int, dims: tuple[int, ...]) -> tuple[Tensor, Tensor]:
    """Whole numbers, as floats, and the scale that they are multiplied with: of each row for
    ``dims`` (-1,), of a matrix for (0, 1)."""
    size = x.abs()
    if bits == TERNARY:
        is_kept = size > THRESHOLD * size.mean(dims, keepdim=True)
        scale = (size * is_kept).sum(dims, keepdim=True) / is_kept.sum(dims, keepdim=True).clamp(
            min=1
        )
        return x.sign() * is_kept, scale
    least = max(TINY, torch.finfo(x.dtype).tiny)  # a row of zeros is not divided by 0
    scale = size.amax(dims, keepdim=True).clamp(min=least) / largest_code(bits)
    return (x / scale).round(), scale


def cut(x: Tensor, clip: float | None) -> Tensor:
    return x if clip is None else x.clamp(-clip, clip)


def rounded(x: Tensor, bits: int, clip: float | None, dims: tuple[int, ...] = (-1,)) -> Tensor:
    """``x``, cut at -clip and clip, with so many bits; of 32 bits ``x`` itself. Its gradient is
    that of the cut numbers: none where something was cut off."""
    if bits == PRECISE:
        return x
    clipped = cut(x, clip)
    with torch.no_grad():
        codes, scale = codes_and_scale(clipped, bits, dims)
    # the difference is 0, with the gradient of x; the other way round, x + (near - x), the value
    # would be near up to its last digits
    return codes * scale + (clipped - clipped.detach())


class Quantized(nn.Module):
    """The parts that linear layers and embeddings with rounded weights share."""

    weight: Any
    config: QuantizedBertConfig
    dims: tuple[int, ...]

    def set_up(self, config: QuantizedBertConfig) -> None:
        self.config = config
        if config.is_rounded:
            rows = 1 if self.dims == (0, 1) else len(self.weight)
            self.register_buffer("scale", self.weight.new_zeros(rows, 1))

    def finish(self) -> None:
        """Replace the weights by the rounded ones."""
        clipped = cut(self.weight.detach(), self.config.clip)
        codes, scale = codes_and_scale(clipped, self.config.weight_bits, self.dims)
        self.register_buffer("scale", scale)
        # a negative zero would come back from its code as a positive one
        self.weight.data = codes * scale + 0.0
        self.weight.requires_grad_(False)


class QuantizedLinear(Quantized, nn.Linear):
    """One scale for the matrix; what it reads is rounded too, and what it gives where
    ``rounds_output``: queries, keys and values."""

    dims = (0, 1)
    rounds_output = False

    def forward(self, input: Tensor) -> Tensor:  # noqa: A002  the name that torch gives it
        own = self.config
        weight = (
            self.weight
            if own.is_rounded
            else rounded(self.weight, own.weight_bits, own.clip, self.dims)
        )
        output = F.linear(rounded(input, own.activation_bits, own.clip), weight, self.bias)
        return rounded(output, own.activation_bits, own.clip) if self.rounds_output else output


class QuantizedEmbedding(Quantized, nn.Embedding):
    """One scale for each row, of which only those that are read are rounded."""

    dims = (-1,)

    def forward(self, input: Tensor) -> Tensor:  # noqa: A002  the name that torch gives it
        own = self.config
        rows = super().forward(input)
        return rows if own.is_rounded else rounded(rows, own.weight_bits, own.clip)


def quantize(model: Any, config: QuantizedBertConfig) -> None:
    """Round the linear layers of encoder and pooler and the word embeddings; with ``rounds_all``
    every other matrix too, MPNet's bias of relative positions among them. What BERT has as its
    pooler is the first layer of other families' heads."""
    body = model.base_model
    head = getattr(model, "classifier", None)
    wholes = [
        body.encoder,
        getattr(body, "pooler", None),
        getattr(body, "embeddings_project", None),
        getattr(head, "dense", None),
    ]
    parts = [part for whole in wholes if whole is not None for part in whole.modules()]
    embeddings = [body.embeddings.word_embeddings]
    if config.rounds_all:
        parts += [*model.children(), last_layer(head)]
        embeddings = [part for part in body.modules() if isinstance(part, nn.Embedding)]
    linears: list[Any] = [part for part in parts if isinstance(part, nn.Linear)]
    for kind, layers in ((QuantizedLinear, linears), (QuantizedEmbedding, embeddings)):
        for part in layers:
            part.__class__ = kind
            part.set_up(config)
    reading = attention_names(model).reading
    for layer in body.encoder.layer:
        for name in reading:
            layer.get_submodule(name).rounds_output = True


def packed(codes: Tensor, bits: int) -> Tensor:
    """[rows, columns] whole numbers -> uint8, [rows, bytes]: as many in a byte as fit. A row is
    filled up with the number that no code has."""
    per_byte = 8 // bits
    most = largest_code(bits)
    numbers = (codes.clamp(-most, most) + most).to(torch.uint8)
    numbers = F.pad(numbers, (0, -numbers.size(1) % per_byte), value=2**bits - 1)
    numbers = numbers.unflatten(1, (-1, per_byte))
    return (numbers << _shifts(bits, codes.device)).sum(2, dtype=torch.uint8)


def unpacked(stored: Tensor, bits: int) -> Tensor:
    """The opposite of :func:`packed`, as floats."""
    numbers = (stored[..., None] >> _shifts(bits, stored.device) & (2**bits - 1)).flatten(1)
    columns = int((numbers[0] != 2**bits - 1).sum())
    return numbers[:, :columns].float() - largest_code(bits)


def _shifts(bits: int, device: torch.device) -> Tensor:
    return bits * torch.arange(8 // bits, dtype=torch.uint8, device=device)


def quantized_parts(model: nn.Module) -> dict[str, Quantized]:
    return {name: part for name, part in model.named_modules() if isinstance(part, Quantized)}


class StoredAsCodes(PackedModel):
    """Mix-in of a model with rounded weights, named first: its folder holds ``NAME.codes`` in the
    place of each ``NAME.weight``."""

    config: Any
    config_class: Any
    rounds_values = True

    def __init__(self, config: QuantizedBertConfig) -> None:
        super().__init__(config)
        quantize(self, config)

    def stored(self) -> Mapping[str, Tensor]:
        """Empty while it trains: what is trained is precise."""
        if not self.config.is_rounded:
            return {}
        tensors = self.state_dict()
        for name in quantized_parts(self):
            scale = tensors[f"{name}.scale"].float()
            codes = tensors.pop(f"{name}.weight").float() / torch.where(scale == 0, 1.0, scale)
            tensors[f"{name}.codes"] = packed(codes.round(), self.config.weight_bits)
        return tensors

    def save_pretrained(self, folder: Any, **options: Any) -> None:
        written: Any = super()
        written.save_pretrained(folder, **{"state_dict": dict(self.stored()) or None, **options})

    @classmethod
    def from_pretrained(cls, name: Any, *args: Any, config: Any = None, **options: Any) -> Any:
        """As transformers opens a folder or a repository of the hub, of one file of weights; the
        matrices are codes times scales."""
        hub = {option: options.pop(option) for option in HUB_OPTIONS if option in options}
        if not isinstance(config, cls.config_class):
            config, options = cls.config_class.from_pretrained(
                config or name, return_unused_kwargs=True, **hub, **options
            )
        weights = load_file(str(cached_file(name, SAFE_WEIGHTS_NAME, **hub)))
        for coded in [each for each in weights if each.endswith(".codes")]:
            part = coded.removesuffix(".codes")
            codes = unpacked(weights.pop(coded), config.weight_bits)
            weights[f"{part}.weight"] = codes * weights[f"{part}.scale"]
        plain: Any = super()
        opened = plain.from_pretrained(None, *args, config=config, state_dict=weights, **options)
        # a tuple with output_loading_info
        model = opened[0] if isinstance(opened, tuple) else opened
        model.name_or_path = config._name_or_path = str(name)
        if config.is_rounded:
            for matrix in quantized_parts(model).values():
                matrix.weight.requires_grad_(False)
        return opened


@in_every_family
class QuantizedBertForQuestionAnswering(  # type: ignore[misc]
    StoredAsCodes, BertForQuestionAnswering
):
    """The same body with the head that the folder of a student of questions has."""

    config_class = QuantizedBertConfig


@in_every_family
class QuantizedBertForSequenceClassification(  # type: ignore[misc]
    StoredAsCodes, BertForSequenceClassification
):
    """A classifier with rounded weights; saves and opens like any other."""

    config_class = QuantizedBertConfig


def quantized_classifier(setup: Setup, weights: Mapping[str, Tensor], **how: Any) -> Any:
    """A classifier of the teacher's shape with these weights, which are rounded wherever they are
    read.

    Args:
        how: fields of :class:`QuantizedBertConfig`.
    """
    model = own_classifier(QuantizedBertConfig, setup.teacher, setup.num_labels, **how)
    load_checked(model, weights, "what was taken of the teacher", new=("classifier.",))
    return model


def finished(model: nn.Module) -> nn.Module:
    """A copy as it is shipped: its weights are the rounded ones."""
    shipped: Any = copy.deepcopy(model)
    shipped.config.is_rounded = True
    for part in quantized_parts(shipped).values():
        part.finish()
    return shipped  # type: ignore[no-any-return]
