"""Masks of heads, neurons and blocks: their distribution, the constraint, what is kept, and that the pruned model is the masked one."""

from __future__ import annotations

import pytest
import tiny
import torch

from methods.api import Setup
from methods.artefacts import blank_artefacts
from methods.cofi import CoFi, Gates, nearest
from methods.models import forward
from methods.taps import LOGITS


def built(**settings):
    method, config = CoFi(**settings), tiny.config(layers=3)
    setup = Setup(config, 2, ("x",), blank_artefacts(method.requires(config), config, 2))
    student = method.build(setup)
    return method, student, student.model.gates, method.stages(setup)


def scattered(gates: Gates, seed: int = 0) -> Gates:
    """Gates that training has moved anywhere."""
    chance = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for kind in Gates.KINDS:
            gate = getattr(gates, kind)
            gate.copy_(2 * torch.randn(gate.shape, generator=chance))
    return gates


def test_masks_are_open_as_often_as_the_sparsity_counts_with():
    gates = Gates(tiny.config(layers=2), 0.5)
    with torch.no_grad():
        gates.neurons.copy_(torch.linspace(-4, 4, gates.neurons.numel()).view_as(gates.neurons))
    torch.manual_seed(0)
    draws = torch.stack([gates.drawn()[1] > 0 for _ in range(4000)]).float().mean(0)
    assert torch.allclose(draws, gates.chances()[1], atol=0.035)
    assert min(mask.min() for mask in gates.drawn()) >= 0
    assert max(mask.max() for mask in gates.drawn()) <= 1


def test_masks_are_moved_to_the_target_and_the_multipliers_up():
    gates = scattered(Gates(tiny.config(layers=2), 0.9))
    gates.target = gates.expected_sparsity().item() + 0.3
    with torch.no_grad():
        gates.multipliers.copy_(torch.tensor([-1.0, 2.0]))
    gates.lagrangian().backward()
    distance = gates.expected_sparsity().item() - gates.target
    # a step down the gradient adds the distance to the first multiplier, and its square to the second
    assert -gates.multipliers.grad == pytest.approx(torch.tensor([distance, distance**2]), abs=1e-6)
    before = gates.expected_sparsity()
    with torch.no_grad():
        gates.neurons -= gates.neurons.grad
    assert gates.expected_sparsity() > before


@pytest.mark.parametrize("sparsity", [0.1, 0.6, 0.95])
def test_exactly_the_target_is_pruned_and_what_stays_has_the_higher_chance(sparsity):
    _, _, gates, _ = built(sparsity=sparsity)
    heads, neurons, _, _ = scattered(gates).settled()
    kept = float((heads > 0).sum() * gates.head_weights + (neurons > 0).sum() * gates.neuron_weights)
    whole = heads.numel() * gates.head_weights + neurons.numel() * gates.neuron_weights
    assert (1 - sparsity) * whole - gates.head_weights <= kept <= (1 - sparsity) * whole
    chances = gates.chances()[0] * gates.chances()[2]
    if 0 < int((heads > 0).sum()) < heads.numel():
        assert chances[heads > 0].min() >= chances[heads == 0].max()


@pytest.mark.parametrize("empty", ["", "attentions", "networks"])
def test_the_pruned_model_answers_like_the_masked_one(teacher_folder, empty):
    method, student, gates, stages = built(sparsity=0.5)
    scattered(gates, seed=1)
    if empty:
        with torch.no_grad():
            getattr(gates, empty)[1] = -20.0  # the second layer's whole block is the first to go
    for stage in stages:
        stage.on_step_begin(student.model, 0.0)
    batch = tiny.encoded(teacher_folder, rows=12).batch(range(12))
    shipped = method.deploy(student)[""].eval()
    counts = (shipped.config.layer_heads, shipped.config.layer_neurons)
    if empty:
        assert counts[empty == "networks"][1] == 0
    with torch.no_grad():
        ours, theirs = (forward(model, batch, LOGITS).logits for model in (student.model.eval(), shipped))
    assert torch.allclose(ours, theirs, atol=1e-6)


def test_a_trained_student_deploys_its_own_masks_also_where_it_is_restored():
    """The multipliers say nothing of it: without the term of the sparsity they stay 0."""
    method, student, gates, (prune, _) = built(sparsity=0.5)
    prune.on_step_begin(student.model, 0.9)
    scattered(gates)
    restored = built(sparsity=0.5)[1]
    restored.model.load_state_dict(student.model.state_dict())
    shapes = [method.deploy(each)[""].config.layer_neurons for each in (student, restored)]
    assert shapes == [(gates.settled()[1] > 0).sum(1).tolist()] * 2


def test_layers_are_matched_from_the_top_in_order_and_only_where_they_are():
    distances = [[1.0, 2, 3, 4], [4, 1, 0, 5], [0, 5, 6, 7]]
    assert nearest(distances, [True] * 4) == [0, 0, 0]
    assert nearest([[1.0, 2, 3, 4], [4, 1, 0, 5], [9, 5, 6, 4]], [True] * 4) == [0, 2, 3]
    assert nearest([[1.0, 2, 3, 4], [4, 1, 0, 5], [9, 5, 6, 4]], [True, True, False, False]) == [0, 0, 1]
    assert nearest([[1.0, 2], [2, 1]], [False, False]) == [1, 1]


def test_it_distils_alone_then_prunes_towards_a_rising_target():
    _, student, gates, (prune, _) = built(sparsity=0.8)
    seen = []
    for progress in (0.0, 0.04, 0.05, 0.15, 0.25, 0.9):
        prune.on_step_begin(student.model, progress)
        seen.append((gates.phase, round(gates.target, 6)))
    assert [phase for phase, _ in seen] == ["whole", "whole", "drawn", "drawn", "drawn", "drawn"]
    assert [target for _, target in seen[2:]] == [0.0, 0.4, 0.8, 0.8]
    assert gates.heads.max() <= torch.log(torch.tensor(100.0))  # log alpha is kept within bounds


def test_masks_rest_while_it_distils_alone():
    _, student, gates, (prune, _) = built(whole_until=0.5)
    optimizer = torch.optim.AdamW(gates.parameters(), lr=0.01, weight_decay=0.0)
    neurons = []
    for step in range(40):
        prune.on_step_begin(student.model, step / 40)
        neurons.append(gates.neurons.detach().clone())
        prune.terms["sparsity"].fn(None, None, None, student.aux).backward()
        optimizer.step()
        optimizer.zero_grad()
    assert all(torch.equal(neurons[0], after) for after in neurons[:21])
    assert not torch.equal(neurons[0], neurons[-1])
