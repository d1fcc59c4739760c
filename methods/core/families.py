"""The encoder families of transformers that can run packed: how each embeds and answers.

A family is known by the ``model_type`` of its configuration; of a class that is not transformers'
own, by its ``base_model_prefix``. Another architecture joins by an entry in FAMILIES, or as a
:class:`methods.core.models.PackedModel`, with a forward pass of its own; any other runs padded, and
gives logits and hidden states alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from methods.core.packed import AttentionTrace, Batch, Layout, packed_attention


@dataclass(frozen=True)
class AttentionNames:
    """Where a layer has the parts of its attention, by their names in it. The layer's feed-forward
    network is called ``intermediate`` and ``output`` in all families that have these names."""

    own: str
    """the module that knows how many heads it has, and how wide they are"""
    reading: tuple[str, str, str]  # queries, keys and values
    writing: str  # the linear layer that reads all heads
    dropout: str  # of what it writes
    norm: str

    def parts(self, layer: Any) -> list[Any]:
        """The linear layers of a layer's queries, keys and values, the writing one, and the
        norm."""
        return [layer.get_submodule(name) for name in (*self.reading, self.writing, self.norm)]


@dataclass(frozen=True)
class Family:
    """The differences between encoders that are otherwise walked alike."""

    layers: Callable[[Any], Sequence[nn.Module]]
    """the body's encoder layers, in order; each passes keyword arguments on to its attention"""
    embed: Callable[[Any, Batch], Tensor]  # body and batch -> [T, W]
    pool: Callable[[Any, Layout, Tensor], Tensor]
    """classifier, layout and the [T, W] states of the last layer -> what the classification layer
    reads of each sequence"""
    attended: Callable[[Any], int] = lambda config: config.hidden_size
    """configuration -> width of all heads' queries together"""
    embedding: Callable[[Any], Sequence[nn.Module]] = lambda body: [body.embeddings]
    """the body's modules through which every token goes before the first layer"""
    layer_options: Callable[[Any, Tensor, Layout], Callable[[Any], dict[str, Any]]] = (
        lambda body, x_TW, layout: lambda layer: {}
    )
    """body, embedded tokens and layout -> what a layer is told besides: computed once a pass"""
    run_layer: Callable[..., Tensor] | None = None
    """layer, [1, T, W] states, its :class:`AttentionTrace` and options -> [1, T, W], where
    transformers' own layer computes its attention itself and does not ask the
    ``AttentionInterface``"""
    attention: AttentionNames | None = None
    """of a family whose layers students are made of; None: its layers are not described so"""
    context: Callable[..., Tensor] = lambda layer, x_1TW, trace: layer.attention.self(
        x_1TW, trace=trace
    )[0]
    """arguments as of ``run_layer`` -> [1, T, H * D], what the writing layer of its attention
    reads"""
    finish: Callable[[Any, Tensor], Tensor] = lambda body, x_TW: x_TW
    """body and the states of the last layer -> those that heads read"""
    before_span_head: Callable[[Any, Tensor], Tensor] = lambda model, x_TW: x_TW
    """classifier and [T, W] states -> what the last layer of its head reads of each token to choose
    the ends of an answer"""

    def run(
        self,
        layer: Callable[..., Any],
        x_1TW: Tensor,
        trace: AttentionTrace,
        options: Mapping[str, Any],
    ) -> Tensor:
        """[1, T, W] states after a layer, or after a function that stands in the place of one."""
        if self.run_layer is not None and isinstance(layer, nn.Module):
            return self.run_layer(layer, x_1TW, trace, **options)
        out = layer(x_1TW, trace=trace, **options)
        return out[0] if isinstance(out, tuple) else out


def _embed_bert(body: Any, batch: Batch) -> Tensor:
    return body.embeddings(
        input_ids=batch.token_ids[None],
        token_type_ids=batch.segment_ids[None],
        position_ids=batch.layout.positions_T[None],
    )[0]


def _behind_padding(body: Any, layout: Layout) -> Tensor:
    """[1, T] positions of RoBERTa and MPNet: a text's first one follows that of [PAD], which all
    [PAD] of filled sequences have."""
    padding = body.embeddings.padding_idx
    positions_T = layout.positions_T + padding + 1
    if layout.real != layout.lengths:
        real_B = torch.tensor(layout.real, device=positions_T.device)
        is_filled_T = layout.positions_T >= real_B[layout.owner_T]
        positions_T = positions_T.masked_fill(is_filled_T, padding)
    return positions_T[None]


def _embed_mobilebert(body: Any, batch: Batch) -> Tensor:
    """Each token with its neighbours; beyond both ends of a sequence there are zeros, not other
    sequences' tokens."""
    own = body.embeddings
    layout = batch.layout
    word_TE = own.word_embeddings(batch.token_ids)
    # each token's neighbours, side by side with it
    if own.trigram_input:
        zero_1E = word_TE.new_zeros(1, word_TE.size(1))
        length_T = layout.lengths_B.repeat_interleave(layout.lengths_B, output_size=layout.total)
        last_T1 = (layout.positions_T + 1 == length_T)[:, None]
        first_T1 = (layout.positions_T == 0)[:, None]
        after_TE = torch.cat([word_TE[1:], zero_1E]).masked_fill(last_T1, 0.0)
        before_TE = torch.cat([zero_1E, word_TE[:-1]]).masked_fill(first_T1, 0.0)
        word_TE = torch.cat([after_TE, word_TE, before_TE], 1)
    if own.trigram_input or own.embedding_size != own.hidden_size:
        word_TE = own.embedding_transformation(word_TE)
    # its LayerNorm may be one that scales and shifts alone
    summed_TW = (
        word_TE
        + own.position_embeddings(layout.positions_T)
        + own.token_type_embeddings(batch.segment_ids)
    )
    return own.dropout(own.LayerNorm(summed_TW))


def _embedding_of_electra(body: Any) -> list[nn.Module]:
    """A narrow embedding is projected to the width of the layers."""
    is_narrow = body.config.embedding_size != body.config.hidden_size
    return [body.embeddings, body.embeddings_project] if is_narrow else [body.embeddings]


def _embed_electra(body: Any, batch: Batch) -> Tensor:
    embedded_TE = _embed_bert(body, batch)
    for projection in _embedding_of_electra(body)[1:]:
        embedded_TE = projection(embedded_TE)
    return embedded_TE


def _alone(model: Any, layout: Layout, x_TW: Tensor) -> Tensor:
    """[B, 1, W]: for heads that take the first token of every sequence themselves."""
    return layout.first(x_TW)[:, None]


def _rotations(body: Any, x_TW: Tensor, layout: Layout) -> Callable[[Any], dict[str, Any]]:
    """Rotary positions of ModernBERT: layers with a window turn by other angles than those that see
    all tokens."""
    positions_1T = layout.positions_T[None]
    of_kind = {
        kind: body.rotary_emb(x_TW[None], positions_1T, kind)
        for kind in set(body.config.layer_types)
    }
    return lambda layer: {"position_embeddings": of_kind[layer.attention_type]}


def _pool_modernbert(model: Any, layout: Layout, x_TW: Tensor) -> Tensor:
    if model.config.classifier_pooling == "cls":
        pooled_BW = layout.first(x_TW)
    elif layout.real == layout.lengths:
        pooled_BW = layout.mean(x_TW)
    else:  # the [PAD] of filled sequences do not count
        real_B = torch.tensor(layout.real, device=x_TW.device)
        is_real_T = layout.positions_T < real_B[layout.owner_T]
        pooled_BW = layout.sum(x_TW.masked_fill(~is_real_T[:, None], 0.0)) / real_B[:, None]
    return model.drop(model.head(pooled_BW))  # type: ignore[no-any-return]


def _bias_of_mpnet(body: Any, x_TW: Tensor, layout: Layout) -> Callable[[Any], dict[str, Any]]:
    """The bias that MPNet adds to scores by the distance of two tokens, the same in all layers: of
    the longest sequence, whose corner others read."""
    bias_1HLL = body.encoder.compute_position_bias(x_TW.new_empty(1, max(layout.lengths), 0))
    return lambda layer: {"position_bias": bias_1HLL}


def _context_of_mpnet(
    layer: Any, x_1TW: Tensor, trace: AttentionTrace, position_bias: Tensor
) -> Tensor:
    own = layer.attention.attn
    q_1HTD, k_1HTD, v_1HTD = (
        part(x_1TW).unflatten(-1, (-1, own.attention_head_size)).transpose(1, 2)
        for part in (own.q, own.k, own.v)
    )
    mixed_1THD, _ = packed_attention(
        own,
        q_1HTD,
        k_1HTD,
        v_1HTD,
        None,
        trace=trace,
        dropout=own.dropout.p,
        position_bias=bias_of_heads(own, position_bias),
    )
    return mixed_1THD.flatten(2)


def bias_of_heads(own: Any, position_bias: Tensor) -> Tensor:
    """The rows of the bias that all layers of an MPNet share, [B, H, L, L], which are of a layer's
    heads: of one that lost heads, or has them in another order, those that its ``bias_rows``
    name."""
    rows = getattr(own, "bias_rows", None)
    return position_bias if rows is None else position_bias.index_select(1, rows)


def _run_mpnet(layer: Any, x_1TW: Tensor, trace: AttentionTrace, position_bias: Tensor) -> Tensor:
    around = layer.attention
    # an attention without heads has no parts, and hands its states on
    if hasattr(around, "attn"):
        written_1TW = around.attn.o(_context_of_mpnet(layer, x_1TW, trace, position_bias))
        x_1TW = around.LayerNorm(around.dropout(written_1TW) + x_1TW)
    return layer.output(layer.intermediate(x_1TW), x_1TW)  # type: ignore[no-any-return]


SHARED_BIAS = "relative_attention_bias.weight"
"""The name in MPNet's encoder of the bias of relative positions, [buckets, H], that all of its
layers share."""
AS_BERT = AttentionNames(
    "attention.self",
    ("attention.self.query", "attention.self.key", "attention.self.value"),
    "attention.output.dense",
    "attention.output.dropout",
    "attention.output.LayerNorm",
)
OF_MPNET = AttentionNames(
    "attention.attn",
    ("attention.attn.q", "attention.attn.k", "attention.attn.v"),
    "attention.attn.o",
    "attention.dropout",
    "attention.LayerNorm",
)


FAMILIES: dict[str, Family] = {
    "bert": Family(
        lambda body: body.encoder.layer,
        _embed_bert,
        lambda model, layout, x_TW: model.dropout(model.bert.pooler(layout.first(x_TW)[:, None])),
        attention=AS_BERT,
    ),
    "distilbert": Family(
        lambda body: body.transformer.layer,
        lambda body, batch: body.embeddings(
            batch.token_ids[None], position_ids=batch.layout.positions_T[None]
        )[0],
        lambda model, layout, x_TW: model.dropout(
            torch.relu(model.pre_classifier(layout.first(x_TW)))
        ),
    ),
    "mobilebert": Family(
        lambda body: body.encoder.layer,
        _embed_mobilebert,
        lambda model, layout, x_TW: model.dropout(
            model.mobilebert.pooler(layout.first(x_TW)[:, None])
        ),
        lambda config: config.true_hidden_size,
    ),
    "roberta": Family(
        lambda body: body.encoder.layer,
        lambda body, batch: body.embeddings(
            input_ids=batch.token_ids[None],
            token_type_ids=torch.zeros_like(batch.token_ids)[None],  # it knows one kind of segment
            position_ids=_behind_padding(body, batch.layout),
        )[0],
        _alone,
        attention=AS_BERT,
    ),
    "electra": Family(
        lambda body: body.encoder.layer,
        _embed_electra,
        _alone,
        embedding=_embedding_of_electra,
        attention=AS_BERT,
    ),
    "modernbert": Family(
        lambda body: body.layers,
        # it knows no kinds of segments
        lambda body, batch: body.embeddings(batch.token_ids[None])[0],
        _pool_modernbert,
        layer_options=_rotations,
        finish=lambda body, x_TW: body.final_norm(x_TW),
        before_span_head=lambda model, x_TW: model.drop(model.head(x_TW)),
    ),
    "mpnet": Family(
        lambda body: body.encoder.layer,
        lambda body, batch: body.embeddings(
            input_ids=batch.token_ids[None], position_ids=_behind_padding(body, batch.layout)
        )[0],
        _alone,
        layer_options=_bias_of_mpnet,
        run_layer=_run_mpnet,
        attention=OF_MPNET,
        context=_context_of_mpnet,
    ),
}


LAYERED = tuple(name for name, family in FAMILIES.items() if family.attention is not None)
"""Families whose models are built alike, ``FAMILY.encoder.layer.N``: layers can be taken out of
them."""
SEGMENTED = ("bert", "mobilebert", "electra")
"""Families that are told of the first and the second text of a pair by another row of an embedding;
others are told of one kind of segment, or of none."""
SAME_LAYERS = {"camembert": "roberta", "xlm-roberta": "roberta"}
"""Other model types of transformers -> the family whose layers they have. Their prefix does not say
it: BigBird's is ``bert`` too."""


def family_name(model: Any) -> str:
    """The key of a model's family; "" for an architecture that nobody described."""
    if not isinstance(model, PreTrainedModel):
        return ""
    if type(model).__module__.startswith("transformers."):
        # its own configuration may have another name
        return family_of_config(type(model).config_class)
    return model.base_model_prefix if model.base_model_prefix in FAMILIES else ""


def family_of_config(config: Any) -> str:
    """As :func:`family_name`, of the classifier that transformers makes of a configuration."""
    kind = SAME_LAYERS.get(config.model_type, config.model_type)
    if kind in FAMILIES:
        return kind
    made = config if isinstance(config, type) else type(config)
    if made.__module__.startswith("transformers."):
        return ""
    # a configuration of our own adds fields to one of transformers'
    kinds = [getattr(base, "model_type", "") for base in made.__mro__]
    return next((kind for kind in kinds if kind in FAMILIES), "")


def last_layer(head: Any) -> Any:
    """The linear layer that gives the logits: a head itself, or the last layer of one that reads
    the first token. It reads every token where spans are chosen, as transformers' models of
    questions do."""
    return getattr(head, "out_proj", head)


def read_packed(model: Any) -> None:
    """Let transformers' attention read packed rows. A family whose attention is computed here needs
    nothing, and its configuration goes on to name the attention that padded input has."""
    name = family_name(model)
    # a class of its own may have attention of transformers too
    if not name or FAMILIES[name].run_layer is None:
        model.set_attn_implementation("packed")


def attention_names(model: Any) -> AttentionNames:
    """Those of a model's family. Raises TypeError: it is none of :data:`LAYERED`."""
    if (names := family_of(model).attention) is None:
        raise TypeError(
            f"the layers of a {type(model).__name__} are others than those of {', '.join(LAYERED)}"
        )
    return names


def family_of(model: Any) -> Family:
    """Raises TypeError for an architecture that nobody described."""
    if name := family_name(model):
        return FAMILIES[name]
    wrong = f"no packed forward pass for {type(model).__name__}: known are {', '.join(FAMILIES)}"
    raise TypeError(
        f"{wrong}; make it a methods.core.models.PackedModel with a packed_forward of its own"
    )
