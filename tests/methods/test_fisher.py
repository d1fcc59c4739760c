"""Post-training pruning by a Fisher mask: each step against its definition, worked out slowly."""

from __future__ import annotations

import itertools

import pytest
import tiny
import torch

from methods import fisher, losses
from methods.api import Setup
from methods.artefacts import blank_artefacts
from methods.models import cost, forward
from methods.taps import LOGITS


@pytest.fixture
def batch(teacher_folder):
    return tiny.encoded(teacher_folder, rows=6).batch(range(6))


@pytest.fixture
def teacher(teacher_folder):
    return tiny.classifier(layers=2, seed=3).eval()


def masked_logits(model, batch, heads, neurons):
    """Of a model whose next linear layer reads everything times its mask."""
    hooks = []
    for number, layer in enumerate(model.bert.encoder.layer):
        for reader, mask in ((layer.attention.output.dense, heads[number]), (layer.output.dense, neurons[number])):
            scale = mask.repeat_interleave(reader.in_features // len(mask))
            hooks.append(reader.register_forward_pre_hook(lambda module, args, scale=scale: (args[0] * scale,)))
    try:
        return forward(model, batch, LOGITS).logits
    finally:
        for hook in hooks:
            hook.remove()


def ones(model):
    config = model.config
    return (
        torch.ones(config.num_hidden_layers, config.num_attention_heads),
        torch.ones(config.num_hidden_layers, config.intermediate_size),
    )


def test_the_gradient_of_each_mask_is_that_of_each_example_alone(teacher, batch, teacher_folder):
    found = fisher.mask_gradients(teacher, batch)
    for number in range(6):
        alone = tiny.encoded(teacher_folder, rows=6).batch([number])
        masks = [mask.requires_grad_() for mask in ones(teacher)]
        expected = torch.autograd.grad(losses.hard(masked_logits(teacher, alone, *masks), alone.labels), masks)
        ours = torch.stack([block[number] for block in found[:2]]), torch.stack([block[number] for block in found[2:]])
        for a, b in zip(ours, expected, strict=True):
            torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-6)


def test_the_search_is_the_best_of_all_pairs_that_fit():
    torch.manual_seed(0)
    heads, neurons = torch.rand(2, 3), torch.rand(2, 4)
    head, neuron, share = 5.0, 2.0, 0.6
    masks = fisher.search(heads, neurons, share, head, neuron)
    spent = float(masks[0].sum() * head + masks[1].sum() * neuron)
    assert spent <= share * (6 * head + 8 * neuron)
    assert all((mask.sum(1) >= 1).all() for mask in masks)
    fitting = []
    for bits in itertools.product((0.0, 1.0), repeat=14):
        a, b = torch.tensor(bits[:6]).view(2, 3), torch.tensor(bits[6:]).view(2, 4)
        if (
            a.sum() * head + b.sum() * neuron <= share * (6 * head + 8 * neuron)
            and a.sum(1).min() and b.sum(1).min()
        ):  # fmt: skip
            fitting.append(float((a * heads).sum() + (b * neurons).sum()))
    assert float((masks[0] * heads).sum() + (masks[1] * neurons).sum()) == pytest.approx(max(fitting))


def exchanged_slowly(mask, gradients):
    """As the authors' code has it: all norms anew after every unit that joins."""
    order = gradients.square().sum(0).argsort().tolist()
    pruned = int((mask == 0).sum())
    inside = order[:pruned]
    for unit in order[pruned:]:
        inside.append(unit)
        without = [gradients[:, [u for u in inside if u != one]].sum(1).square().sum() for one in inside]
        del inside[int(torch.stack(without).argmin())]
    return [float(unit not in inside) for unit in range(len(mask))]


@pytest.mark.parametrize("pruned", [0, 1, 3, 5, 8])
def test_rearrangement_is_the_greedy_exchange(pruned):
    torch.manual_seed(pruned)
    gradients = torch.randn(20, 3).double() @ torch.randn(3, 8).double() + 0.1 * torch.randn(20, 8).double()
    mask = torch.ones(8)
    mask[gradients.square().sum(0).argsort()[:pruned]] = 0.0
    assert fisher.rearranged(mask, gradients).tolist() == exchanged_slowly(mask, gradients)


def test_tuning_brings_the_layers_nearer_and_leaves_the_whole_model_at_one(teacher, batch):
    whole = ones(teacher)
    fisher.tune(teacher, [batch], *whole)
    for mask in whole:
        torch.testing.assert_close(mask, torch.ones_like(mask), rtol=0, atol=1e-3)
    torch.manual_seed(0)
    plain = tuple((torch.rand_like(mask) < 0.6).float().index_fill(1, torch.tensor(0), 1.0) for mask in ones(teacher))
    tuned = tuple(mask.clone() for mask in plain)
    fisher.tune(teacher, [batch], *tuned)
    assert all(torch.equal(a == 0, b == 0) for a, b in zip(plain, tuned, strict=True))
    assert not all(torch.equal(a, b) for a, b in zip(plain, tuned, strict=True))
    with torch.no_grad():
        states = [first_attention(teacher, batch, heads) for heads in (whole[0][0], plain[0][0], tuned[0][0])]
    assert (states[2] - states[0]).square().sum() < (states[1] - states[0]).square().sum()


def first_attention(model, batch, mask):
    """What the first layer's attention adds to its input, of a mask."""
    read = []
    dense = model.bert.encoder.layer[0].attention.output.dense
    hook = dense.register_forward_pre_hook(lambda module, args: read.append(args[0]))
    forward(model, batch, LOGITS)
    hook.remove()
    return dense(read[0] * mask.repeat_interleave(dense.in_features // len(mask)))


def test_the_smaller_model_answers_as_the_masked_one(teacher, batch):
    method, config = fisher.Fisher(), teacher.config
    setup = Setup(config, 2, ("x",), blank_artefacts(method.requires(config), config, 2))
    setup.artefacts["tuned_teacher"] = teacher.state_dict()
    masks = setup.artefacts["fisher_masks"] = {
        name: mask * torch.linspace(0.5, 1.5, mask.size(1)) for name, mask in setup.artefacts["fisher_masks"].items()
    }
    model = method.build(setup).model.eval()
    with torch.no_grad():
        ours, expected = (
            forward(model, batch, LOGITS).logits,
            masked_logits(teacher, batch, masks["heads"], masks["neurons"]),
        )
    torch.testing.assert_close(ours, expected, rtol=1e-4, atol=1e-5)
    assert cost(model).of_length(128) < 0.55 * cost(teacher).of_length(128)
    assert sum(p.numel() for p in model.parameters()) < sum(p.numel() for p in teacher.parameters())
