"""Pruning: masks of heads, neurons, blocks and single weights, each step against its definition, and that the pruned model is the masked one."""

from __future__ import annotations

import itertools
import re
from dataclasses import replace
from pathlib import Path

import pytest
import tiny
import torch
from tiny_training import built, trainer

import methods
from methods import fisher
from methods.api import MethodError, Setup
from methods.cofi import CoFi, Gates, nearest
from methods.core import losses
from methods.core.artefacts import blank_artefacts
from methods.core.models import cost, forward
from methods.core.taps import LOGITS
from methods.dynabert import WHOLE, DynaBERT, Importance, kept_layers
from methods.movement import Magnitude, Movement, matrices


def cofi(**settings):
    method = CoFi(**settings)
    setup, student = built(method, tiny.config(layers=3))
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
    _, _, gates, _ = cofi(sparsity=sparsity)
    heads, neurons, _, _ = scattered(gates).settled()
    kept = float(
        (heads > 0).sum() * gates.head_weights + (neurons > 0).sum() * gates.neuron_weights
    )
    whole = heads.numel() * gates.head_weights + neurons.numel() * gates.neuron_weights
    assert (1 - sparsity) * whole - gates.head_weights <= kept <= (1 - sparsity) * whole
    chances = gates.chances()[0] * gates.chances()[2]
    if 0 < int((heads > 0).sum()) < heads.numel():
        assert chances[heads > 0].min() >= chances[heads == 0].max()


@pytest.mark.parametrize("empty", ["", "attentions", "networks"])
def test_the_pruned_model_answers_like_the_masked_one(teacher_folder, empty):
    method, student, gates, stages = cofi(sparsity=0.5)
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
        ours, theirs = (
            forward(model, batch, LOGITS).logits for model in (student.model.eval(), shipped)
        )
    assert torch.allclose(ours, theirs, atol=1e-6)


def test_a_trained_student_deploys_its_own_masks_also_where_it_is_restored():
    """The multipliers say nothing of it: without the term of the sparsity they stay 0."""
    method, student, gates, (prune, _) = cofi(sparsity=0.5)
    prune.on_step_begin(student.model, 0.9)
    scattered(gates)
    restored = cofi(sparsity=0.5)[1]
    restored.model.load_state_dict(student.model.state_dict())
    shapes = [method.deploy(each)[""].config.layer_neurons for each in (student, restored)]
    assert shapes == [(gates.settled()[1] > 0).sum(1).tolist()] * 2


def test_layers_are_matched_from_the_top_in_order_and_only_where_they_are():
    distances = [[1.0, 2, 3, 4], [4, 1, 0, 5], [0, 5, 6, 7]]
    assert nearest(distances, [True] * 4) == [0, 0, 0]
    assert nearest([[1.0, 2, 3, 4], [4, 1, 0, 5], [9, 5, 6, 4]], [True] * 4) == [0, 2, 3]
    assert nearest([[1.0, 2, 3, 4], [4, 1, 0, 5], [9, 5, 6, 4]], [True, True, False, False]) == [
        0,
        0,
        1,
    ]
    assert nearest([[1.0, 2], [2, 1]], [False, False]) == [1, 1]


def test_it_distils_alone_then_prunes_towards_a_rising_target():
    _, student, gates, (prune, _) = cofi(sparsity=0.8)
    seen = []
    for progress in (0.0, 0.04, 0.05, 0.15, 0.25, 0.9):
        prune.on_step_begin(student.model, progress)
        seen.append((gates.phase, round(gates.target, 6)))
    assert [phase for phase, _ in seen] == ["whole", "whole", "drawn", "drawn", "drawn", "drawn"]
    assert [target for _, target in seen[2:]] == [0.0, 0.4, 0.8, 0.8]
    assert gates.heads.max() <= torch.log(torch.tensor(100.0))  # log alpha is kept within bounds


def test_masks_rest_while_it_distils_alone():
    _, student, gates, (prune, _) = cofi(whole_until=0.5)
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


def masking(method):
    setup, student = built(method, tiny.config(layers=2))
    return student, method.stages(setup)[0]


def test_everything_stays_at_first_and_the_share_at_the_end():
    method = Magnitude(share=0.2)
    shares = [method.share_at(step / 40) for step in range(41)]
    assert shares == sorted(shares, reverse=True)
    assert set(shares[:5]) == {1.0}
    assert set(shares[32:]) == {0.2}
    assert method.share_at(0.45) == pytest.approx(0.2 + 0.8 * 0.5**3)


def test_the_rests_at_both_ends_can_be_a_papers_for_a_task():
    method = Movement(share=0.1, first_rest=0.165, last_rest=0.33)
    assert method.share_at(0.165) == 1.0
    assert method.share_at(0.166) < 1.0
    assert method.share_at(0.67) == pytest.approx(0.1)
    halfway = 0.165 + (1 - 0.165 - 0.33) / 2
    assert method.share_at(halfway) == pytest.approx(0.1 + 0.9 * 0.5**3)
    with pytest.raises(MethodError, match="no time to prune"):
        Magnitude(first_rest=0.5, last_rest=0.5)


@pytest.mark.parametrize("kind", [Magnitude, Movement])
def test_the_deployed_model_has_the_share_of_highest_score_in_each_matrix(kind):
    student, _ = masking(method := kind(share=0.3))
    for linear in matrices(student.model):
        if linear.scores is not None:
            torch.nn.init.normal_(linear.scores)
    shipped = method.deploy(student)[""]
    for trained, linear in zip(matrices(student.model), matrices(shipped), strict=True):
        scores = trained.weight.abs() if trained.scores is None else trained.scores
        kept = linear.weight != 0
        assert int(kept.sum()) == int(0.3 * scores.numel())
        assert scores[kept].min() >= scores[~kept].max()
        assert torch.equal(linear.weight[kept], trained.weight[kept])
        assert type(linear) is torch.nn.Linear
    assert not [name for name in shipped.state_dict() if "scores" in name]


def test_scores_get_the_gradient_of_the_masked_matrix_times_the_weights(teacher_folder):
    student, stage = masking(Movement(share=0.5))
    stage.on_step_begin(student.model, 0.9)
    batch = tiny.encoded(teacher_folder, rows=8).batch(range(8))
    linear = matrices(student.model)[0]
    torch.nn.init.normal_(linear.scores)
    masked = linear.kept_weight().detach().requires_grad_()
    linear.kept_weight = lambda: masked
    forward(student.model.eval(), batch, LOGITS).logits.square().sum().backward()
    expected = masked.grad * linear.weight.detach()
    del linear.kept_weight
    forward(student.model, batch, LOGITS).logits.square().sum().backward()
    assert torch.allclose(linear.scores.grad, expected, atol=1e-7)
    # a pruned weight itself gets no gradient until it comes back
    assert not linear.weight.grad[linear.kept_weight() == 0].any()


def test_embeddings_are_held_and_scores_have_their_own_rate():
    _, stage = masking(Movement(score_pace=300.0))
    rates = [
        stage.parameter_lr_scale(f"model.bert.{name}")
        for name in ("embeddings.x", "encoder.y.scores", "encoder.y.weight")
    ]
    assert rates == [0.0, 300.0, 1.0]
    assert stage.undecayed("model.bert.encoder.y.scores")
    assert not stage.undecayed("model.bert.encoder.y.weight")


def test_scores_have_no_weight_decay_by_the_common_recipe(teacher_folder):
    """They move at 300 times the rate, and would shrink at 300 times the rate too."""
    data = tiny.encoded(teacher_folder, rows=8)
    groups = []
    for spelling in ("movement", "magnitude"):
        made = trainer(spelling, data, shape="")
        scheduled, _ = made.stage_at("counted", 0)
        made._begin_stage(scheduled)
        (optimizer,) = made._optimizers.values()
        groups.append({(g["factor"], g["weight_decay"]) for g in optimizer.param_groups})
    assert groups == [{(300.0, 0.0), (1.0, 0.01), (1.0, 0.0)}, {(1.0, 0.01), (1.0, 0.0)}]


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
        for reader, mask in (
            (layer.attention.output.dense, heads[number]),
            (layer.output.dense, neurons[number]),
        ):
            scale = mask.repeat_interleave(reader.in_features // len(mask))
            hooks.append(
                reader.register_forward_pre_hook(
                    lambda module, args, scale=scale: (args[0] * scale,)
                )
            )
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
        expected = torch.autograd.grad(
            losses.hard(masked_logits(teacher, alone, *masks), alone.labels), masks
        )
        ours = (
            torch.stack([block[number] for block in found[:2]]),
            torch.stack([block[number] for block in found[2:]]),
        )
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
    assert float((masks[0] * heads).sum() + (masks[1] * neurons).sum()) == pytest.approx(
        max(fitting)
    )


def exchanged_slowly(mask, gradients):
    """As the authors' code has it: all norms anew after every unit that joins."""
    order = gradients.square().sum(0).argsort().tolist()
    pruned = int((mask == 0).sum())
    inside = order[:pruned]
    for unit in order[pruned:]:
        inside.append(unit)
        without = [
            gradients[:, [u for u in inside if u != one]].sum(1).square().sum() for one in inside
        ]
        del inside[int(torch.stack(without).argmin())]
    return [float(unit not in inside) for unit in range(len(mask))]


@pytest.mark.parametrize("pruned", [0, 1, 3, 5, 8])
def test_rearrangement_is_the_greedy_exchange(pruned):
    torch.manual_seed(pruned)
    gradients = (
        torch.randn(20, 3).double() @ torch.randn(3, 8).double() + 0.1 * torch.randn(20, 8).double()
    )
    mask = torch.ones(8)
    mask[gradients.square().sum(0).argsort()[:pruned]] = 0.0
    assert fisher.rearranged(mask, gradients).tolist() == exchanged_slowly(mask, gradients)


def random_masks(model, share, seed):
    """Masks of 0 and 1; in each layer the first head and neuron, and further ones, stay."""
    generator = torch.Generator().manual_seed(seed)
    masks = []
    for mask in ones(model):
        kept = torch.rand(mask.shape, generator=generator) < share
        masks.append(kept.float().index_fill(1, torch.tensor([0, 1]), 1.0))
    return masks


def read_and_residuals(model, batch, masks):
    """What each block's last linear layer reads, before its mask, and the states that are added to what it gives:
    of the attention and of the network of every layer, [T, X] and [T, W]."""
    caught = []
    hooks = []
    for layer in model.bert.encoder.layer:
        for output in (layer.attention.output, layer.output):
            hooks.append(
                output.register_forward_pre_hook(
                    lambda module, args: caught.append((args[0][0], args[1][0]))
                )
            )
    try:
        with torch.no_grad():
            masked_logits(model, batch, *masks)
    finally:
        for hook in hooks:
            hook.remove()
    return caught


def solved_slowly(dense, ours, theirs, mask, target_mask, constant, rows):
    """Values of a mask, from one equation for each token and feature, by lstsq with the damping as further rows."""
    (read, residual), (target_read, target_residual) = ours, theirs
    size = dense.in_features // len(mask)
    whole = dense(target_read * target_mask.repeat_interleave(size)) - dense.bias
    goal = (whole + target_residual - residual)[rows].double().flatten()
    columns = []
    for unit in mask.nonzero()[:, 0].tolist():
        own = slice(unit * size, (unit + 1) * size)
        columns.append((read[rows, own] @ dense.weight[:, own].T).double().flatten())
    if constant:
        columns.append(torch.ones_like(columns[0]))
    a = torch.stack(columns, 1)
    normal = a.T @ a
    left = torch.cat([normal, torch.eye(len(normal)).double()])
    right = torch.cat([a.T @ goal - normal.sum(1), torch.zeros(len(normal)).double()])
    return 1 + torch.linalg.lstsq(left, right[:, None]).solution[: len(mask.nonzero()), 0]


@pytest.mark.parametrize("spans", [False, True])
def test_tuning_solves_the_equations_of_the_authors_code(teacher_folder, spans, monkeypatch):
    """Heads from the second layer on, with a constant; neurons beside the target's whole network; the last network on
    [CLS] alone, unless it answers questions."""
    monkeypatch.setattr(fisher, "LARGEST_MASK", float("inf"))
    model = tiny.classifier(layers=3, seed=3).eval()
    with torch.no_grad():
        for name, weight in model.bert.encoder.named_parameters():
            if "dense" in name:
                weight.mul_(20)  # with its small first weights the damping is all that counts
    batch = tiny.encoded(teacher_folder, rows=6).batch(range(6))
    every = slice(None)
    last_rows = every if spans else batch.layout.starts_B
    target = random_masks(model, 0.8, seed=1)
    plain = random_masks(model, 0.6, seed=2)
    tuned = [mask.clone() for mask in plain]
    with torch.no_grad():
        fisher.tune(model, [replace(batch, spans=spans)], *tuned, *target)
    assert torch.equal(tuned[0][0], plain[0][0])
    theirs = read_and_residuals(model, batch, target)
    expected = [mask.clone() for mask in plain]
    for number, layer in enumerate(model.bert.encoder.layer):
        for part, output in enumerate((layer.attention.output, layer.output)):
            if (number, part) == (0, 0):
                continue
            mask = expected[part][number]
            target_mask = torch.ones_like(mask) if part else target[0][number]
            rows = last_rows if (number, part) == (2, 1) else every
            block = 2 * number + part
            ours = read_and_residuals(model, batch, expected)[block]
            solution = solved_slowly(
                output.dense, ours, theirs[block], mask, target_mask, part == 0, rows
            )
            mask[mask != 0] = solution.float()
    for ours, slowly, before in zip(tuned, expected, plain, strict=True):
        torch.testing.assert_close(ours, slowly, rtol=1e-2, atol=1e-3)
        # of every layer that is tuned
        assert ((ours - before).abs().amax(1) > 0.05).sum() >= 2


def test_tuning_leaves_a_model_that_is_its_target_at_one(teacher, batch):
    whole = ones(teacher)
    fisher.tune(teacher, [batch], *whole, *ones(teacher))
    for mask in whole:
        torch.testing.assert_close(mask, torch.ones_like(mask), rtol=0, atol=2e-2)


def test_tuning_stops_at_the_first_layer_with_a_mask_beyond_ten(teacher, batch, monkeypatch):
    monkeypatch.setattr(fisher, "LARGEST_MASK", 0.0)
    plain = random_masks(teacher, 0.6, seed=2)
    tuned = [mask.clone() for mask in plain]
    fisher.tune(teacher, [batch], *tuned, *random_masks(teacher, 0.8, seed=1))
    assert all(torch.equal(a, b) for a, b in zip(plain, tuned, strict=True))


def test_the_target_is_pruned_to_the_square_root_of_what_stays(teacher, batch, monkeypatch):
    """Not the unpruned model, which the paper names: 0.7 of the operations for 0.49."""
    given = []
    monkeypatch.setattr(fisher, "tune", lambda *args: given.extend(args))
    fisher.Masks(0.49, 6).compute(teacher, [batch])
    _, _, heads, neurons, target_heads, target_neurons = given
    config = teacher.config
    length = batch.layout.total / len(batch.layout.lengths)
    head_width = config.hidden_size // config.num_attention_heads
    head, neuron = fisher.unit_macs(config.hidden_size, head_width, length)
    whole = heads.numel() * head + neurons.numel() * neuron

    def share(heads_LH, neurons_LF):
        kept = (heads_LH != 0).sum() * head + (neurons_LF != 0).sum() * neuron
        return float(kept) / whole

    assert share(heads, neurons) == pytest.approx(0.49, abs=neuron / whole)
    assert share(target_heads, target_neurons) == pytest.approx(0.7, abs=neuron / whole)
    # what is left out of the target is left out of the pruned model too, but for the rearrangement
    assert (target_heads.sum(1) >= 1).all()


def test_the_smaller_model_answers_as_the_masked_one(teacher, batch):
    method = fisher.Fisher()
    setup, _ = built(method, teacher.config)
    setup.artefacts["tuned_teacher"] = teacher.state_dict()
    masks = setup.artefacts["fisher_masks"] = {
        name: mask * torch.linspace(0.5, 1.5, mask.size(1))
        for name, mask in setup.artefacts["fisher_masks"].items()
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


def adaptive(widths="0.25/0.5/0.75", depths="0.5/0.75"):
    """A model of four layers, its teacher's weights and a batch; the teacher's units have random importance, and no dropout."""
    method, config = DynaBERT(widths=widths, depths=depths), tiny.config(layers=4)
    config.hidden_dropout_prob = config.attention_probs_dropout_prob = 0.0
    artefacts = blank_artefacts(method.requires(config), config, 2)
    torch.manual_seed(3)
    for units in artefacts["importance_of_units"].values():
        units.copy_(torch.rand(units.shape))
    setup = Setup(config, 2, ("x",), artefacts)
    return method, setup, method.build(setup)


def test_units_in_the_order_of_importance_are_the_same_model(batch):
    _, setup, student = adaptive()
    importance = setup.artefacts["importance_of_units"]
    whole = tiny.classifier(layers=4).eval()
    whole.load_state_dict(setup.artefacts["tuned_teacher"])
    logits = [forward(model, batch, LOGITS).logits for model in (whole, student.model.eval())]
    assert torch.allclose(*logits, atol=1e-6)
    one = student.model.whole.bert.encoder.layer[1].intermediate.dense.weight[0]
    best = int(importance["neurons"][1].argmax())
    assert torch.equal(
        one,
        setup.artefacts["tuned_teacher"]["bert.encoder.layer.1.intermediate.dense.weight"][best],
    )


def test_the_part_that_trains_is_the_model_that_is_deployed(batch):
    method, _, student = adaptive()
    deployed = method.deploy(student)
    assert len(deployed) == 12
    model = student.model
    for (width, depth), shipped in zip(method.parts(), deployed.values(), strict=True):
        model.parts = [(width, depth)]
        logits = forward(model.train(), batch, LOGITS).logits
        assert model.part == (width, depth)
        assert torch.allclose(logits, forward(shipped.eval(), batch, LOGITS).logits, atol=1e-6)
        assert shipped.config.num_hidden_layers == len(kept_layers(depth, 4))
    assert forward(model.eval(), batch, LOGITS) is not None
    assert model.part == WHOLE


def test_each_stage_draws_its_widths_and_depths(batch):
    method, setup, student = adaptive("0.5", "0.5")
    for stage, expected in zip(
        method.stages(setup), ({(1, 1), (0.5, 1)}, set(method.parts())), strict=True
    ):
        stage.on_step_begin(student.model, 0.0)
        drawn = set()
        for _ in range(40):
            forward(student.model.train(), batch, LOGITS)
            drawn.add(student.model.part)
        assert drawn == expected


def test_layers_are_left_out_evenly_and_states_match_where_they_enter():
    assert sorted(set(range(12)) - set(kept_layers(0.75, 12))) == [3, 7, 11]
    assert kept_layers(0.5, 12) == [0, 2, 4, 6, 8, 10]
    assert kept_layers(1.0, 5) == [0, 1, 2, 3, 4]
    assert kept_layers(0.1, 3) == [0]


def test_a_shallow_part_learns_where_its_layers_begin_and_at_the_end(batch):
    method, setup, student = adaptive()
    hidn = method.stages(setup)[1].terms["hidn"]
    teacher = forward(tiny.classifier(layers=4, seed=9), batch, hidn.teacher)
    student.model.parts = [(0.5, 0.5)]
    ours = forward(student.model.train(), batch, hidn.student)
    expected = sum((ours.hidden(n) - teacher.hidden(n)).square().mean() for n in (0, 2, 4))
    torch.testing.assert_close(hidn.fn(batch, ours, teacher, student.aux), expected)


def test_importance_is_the_mean_size_of_each_examples_gradient(teacher, batch):
    importance = Importance(6).compute(teacher, [batch])
    layers = teacher.config.num_hidden_layers
    by_mask = [gradient.abs().mean(0) for gradient in fisher.mask_gradients(teacher, batch)]
    torch.testing.assert_close(importance["heads"], torch.stack(by_mask[:layers]))
    torch.testing.assert_close(importance["neurons"], torch.stack(by_mask[layers:]))


def test_transformers_lets_our_models_choose_their_attention():
    """It looks for ``class ...Attention...(nn.Module)`` in a model's file, which would be an attention of its own kind."""
    for file in Path(methods.__file__).parent.glob("*.py"):
        assert not re.search(
            r"^class \w*Attention\w*\(nn\.Module\)", file.read_text(), re.MULTILINE
        ), file.name
