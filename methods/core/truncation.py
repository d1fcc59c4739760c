"""Where general distillation begins: the teacher itself, cut down to the student's shape.

Learning attention from nothing takes far more text than a small corpus has; a student that begins
with the teacher's attention keeps it. Widths are cut to the coordinates that vary most, what is
lost is regressed on what stays, heads are cut by singular values, feed-forward neurons by how much
they write. Layers follow the nearest map. The teacher has to be of
:data:`methods.core.families.LAYERED`, with as many heads as the student and no smaller dimension;
otherwise the student begins at random. What a BERT has no place for is left out: MPNet's bias of
relative positions. Our choice, measured in reports/LOG.md; ``start=random`` is the row without any
of it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from transformers import BertForSequenceClassification

from methods.core.families import attention_names, family_of
from methods.core.models import forward
from methods.core.packed import Batch
from methods.core.parts import nearest_layers
from methods.core.taps import hidden


@dataclass
class Activations:
    """The numbers that a teacher computes on some text: float64, tokens in rows, on the CPU."""

    hidden: dict[int, Tensor] = field(default_factory=dict)  # layer -> [T, W], 0: embeddings
    middle: dict[int, Tensor] = field(default_factory=dict)
    """Layer -> [T, W], after attention, before the feed-forward block."""
    neuron_activity: dict[int, Tensor] = field(default_factory=dict)
    """layer -> [F], mean absolute activation of each feed-forward neuron"""


@torch.no_grad()
def collect_activations(
    teacher: Any, batch: Batch, on_layer: Callable[[int, int], Any] = lambda done, total: None
) -> Activations:
    """Run the teacher once, where it lies, and keep what :func:`init_from_teacher` fits on.

    Args:
        on_layer: told (done, total) after each layer.
    """
    states = Activations()
    hooks = []
    layers: Any = family_of(teacher).layers(teacher.base_model)
    names = attention_names(teacher)
    for number, layer in enumerate(layers, start=1):

        def middle(module: nn.Module, inputs: Any, output: Tensor, number: int = number) -> None:
            states.middle[number] = output[0].cpu().double()

        def activity(module: nn.Module, inputs: Any, output: Tensor, number: int = number) -> None:
            states.neuron_activity[number] = output[0].abs().cpu().double().mean(0)
            on_layer(number, len(layers))

        hooks += [
            # the last thing that attention does
            layer.get_submodule(names.norm).register_forward_hook(middle),
            layer.intermediate.register_forward_hook(activity),
        ]
    try:
        out = forward(teacher.eval(), batch, hidden(*range(len(layers) + 1)))
    finally:
        for hook in hooks:
            hook.remove()
    states.hidden = {layer: out.hidden(layer).cpu().double() for layer in range(len(layers) + 1)}
    return states


def regression(known: Tensor, wanted: Tensor) -> Tensor:
    """[K + 1, W] least-squares map from [known, 1] to wanted, slightly ridged."""
    x = torch.cat([known, torch.ones(len(known), 1, dtype=known.dtype)], 1)
    gram = x.T @ x
    ridge = 1e-4 * gram.diagonal().mean() * torch.eye(len(gram), dtype=gram.dtype)
    return torch.linalg.solve(gram + ridge, x.T @ wanted)


def _root(x: Tensor) -> tuple[Tensor, Tensor]:
    """Square root of the second moment of [x, 1] and its inverse: what a cut should weigh errors
    by."""
    columns = torch.cat([x, torch.ones(len(x), 1, dtype=x.dtype)], 1)
    values, vectors = torch.linalg.eigh(columns.T @ columns / len(columns))
    # coordinates that hardly vary would get an unbounded inverse
    values = values.clamp_min(1e-6 * float(values.max())).sqrt()
    return vectors * values @ vectors.T, vectors / values @ vectors.T


@torch.no_grad()
def init_from_teacher(
    teacher: Any,
    student: BertForSequenceClassification,
    projection: nn.Linear,
    states: Activations,
) -> bool:
    """Fill the student's encoder (pooler excepted) and the projection back to the teacher's width,
    if the shapes allow it. Returns whether they do; if not, nothing was changed."""
    big = teacher.config
    small = student.config
    heads = small.num_attention_heads
    ours = small.to_dict()
    theirs = big.to_dict()
    sizes = ("hidden_size", "intermediate_size", "num_hidden_layers")
    is_larger = any(ours[size] > theirs[size] for size in sizes)
    tables: Any = dict(teacher.base_model.embeddings.named_children())
    # ELECTRA's may be, and is projected to the width of the layers
    is_narrow = tables["word_embeddings"].weight.size(1) < big.hidden_size
    if heads != big.num_attention_heads or is_narrow or is_larger:
        return False

    # the coordinates that are kept: those that vary most over this text
    layers: Any = family_of(teacher).layers(teacher.base_model)
    names = attention_names(teacher)
    layer_map = nearest_layers(small.num_hidden_layers, big.num_hidden_layers)
    # divided by their standard deviation, so that every layer counts alike
    variance_W = torch.stack(
        [(x / x.std()).var(0) for x in (*states.hidden.values(), *states.middle.values())]
    ).mean(0)
    keep = variance_W.topk(small.hidden_size).indices.sort().values

    # embeddings
    own = student.bert.embeddings
    own.word_embeddings.weight.copy_(tables["word_embeddings"].weight[:, keep])
    first = 0
    # RoBERTa and MPNet number positions from behind that of [PAD]
    if big.model_type in ("roberta", "mpnet"):
        first = teacher.base_model.embeddings.padding_idx + 1
    places_LW = tables["position_embeddings"].weight[first:, keep]
    own.position_embeddings.weight[: len(places_LW)] = places_LW
    kinds_KW = torch.zeros(1, len(keep))
    if "token_type_embeddings" in tables:
        kinds_KW = tables["token_type_embeddings"].weight[:, keep]
    # a teacher that knows one kind of segment, or none, adds the same to both
    if len(kinds_KW) == 1:
        kinds_KW = kinds_KW.expand(len(own.token_type_embeddings.weight), -1)
    own.token_type_embeddings.weight.copy_(kinds_KW)
    _copy_norm(student.bert.embeddings.LayerNorm, tables["LayerNorm"], keep)

    # layers
    for m in range(1, small.num_hidden_layers + 1):
        target: Any = student.bert.encoder.layer[m - 1]
        source: Any = layers[layer_map[m] - 1]
        before = states.hidden[layer_map[m - 1]][:, keep]
        *parts, norm = names.parts(source)
        # the teacher's layer reads all coordinates: they are told from those that are kept
        back = regression(before, states.hidden[layer_map[m] - 1])
        _attention(target, parts, before, back, keep, heads)
        _copy_norm(target.attention.output.LayerNorm, norm, keep)
        middle = states.middle[layer_map[m]]
        activity = states.neuron_activity[layer_map[m]]
        importance = activity * source.output.dense.weight.double().norm(dim=0)
        neurons = importance.topk(small.intermediate_size).indices.sort().values
        # the neurons read what the kept coordinates tell of the full width
        wide = source.intermediate.dense
        back = regression(middle[:, keep], middle)
        weight = wide.weight.double()[neurons]
        target.intermediate.dense.weight.copy_(weight @ back[:-1].T)
        target.intermediate.dense.bias.copy_(wide.bias.double()[neurons] + weight @ back[-1])
        target.output.dense.weight.copy_(source.output.dense.weight[keep][:, neurons])
        target.output.dense.bias.copy_(source.output.dense.bias[keep])
        _copy_norm(target.output.LayerNorm, source.output.LayerNorm, keep)

    # the projection back to the teacher's width
    everything = torch.cat(list(states.hidden.values()))
    back = regression(everything[:, keep], everything)
    projection.weight.copy_(back[:-1].T)
    projection.bias.copy_(back[-1])
    return True


def _copy_norm(target: nn.LayerNorm, source: nn.LayerNorm, keep: Tensor) -> None:
    target.weight.copy_(source.weight[keep])
    target.bias.copy_(source.bias[keep])


def _attention(
    target: Any, parts: Sequence[Any], before: Tensor, back: Tensor, keep: Tensor, heads: int
) -> None:
    """Cut each head to the student's width by the singular values of what it does to this text;
    ``parts`` are the teacher's queries, keys, values and writing layer."""
    root, inverse = _root(before)
    *reading, writing = parts
    width = writing.in_features // heads
    small = target.attention.self.attention_head_size

    def augmented(linear: nn.Linear) -> Tensor:
        """[heads, D, K + 1]: the layer reading [kept, 1]."""
        weight = linear.weight.double() @ back.T
        weight[:, -1] += linear.bias.double()
        return weight.view(heads, width, -1)

    query, key, value = map(augmented, reading)
    out = writing.weight.double()[keep].view(len(keep), heads, width)
    mine = target.attention.self
    for head in range(heads):
        rows = slice(head * small, (head + 1) * small)
        # scores are products of queries and keys: the matrix between them, cut to its largest
        # singular values on this text
        u, s, v = torch.linalg.svd(root @ query[head].T @ key[head] @ root)
        # the student divides by the root of its own head width
        scale = (s[:small] * (small / width) ** 0.5).sqrt()
        _fill_rows(mine.query, rows, (inverse @ u[:, :small] * scale).T)
        _fill_rows(mine.key, rows, (inverse @ v[:small].T * scale).T)
        # what the head writes, from values to output, cut in the same way
        u, s, v = torch.linalg.svd(out[:, head] @ value[head] @ root, full_matrices=False)
        _fill_rows(mine.value, rows, s[:small].sqrt()[:, None] * (v[:small] @ inverse))
        target.attention.output.dense.weight[:, rows] = (u[:, :small] * s[:small].sqrt()).float()
    target.attention.output.dense.bias.copy_(writing.bias[keep])


def _fill_rows(linear: nn.Linear, rows: slice, augmented: Tensor) -> None:
    linear.weight[rows] = augmented[:, :-1].float()
    linear.bias[rows] = augmented[:, -1].float()
