"""Rows whose students are made of the teacher's layers: from every family with such layers, and as transformers answers."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import tiny
import torch
from safetensors.torch import load_file
from tiny_training import built
from torch.nn.utils.rnn import pad_sequence
from transformers import AutoConfig, AutoModelForMaskedLM, AutoModelForSequenceClassification
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

import methods
from bench.data.masking import pad_batch
from bench.make.given import in_checkpoint
from bench.measure.backends import opened as opened_graph
from bench.measure.backends import runner, write_onnx
from methods import fisher
from methods.api import MethodError, Setup
from methods.core import families, losses, packed
from methods.core.artefacts import blank_artefacts
from methods.core.families import attention_names
from methods.core.masked import TeacherHead
from methods.core.models import cost, forward, inputs_of, label_gradients
from methods.core.pruned import mask_gradients
from methods.core.quantized import quantized_parts
from methods.core.taps import LOGITS, exits, gates, hidden
from methods.fastbert import uncertainty
from methods.moebert import NeuronImportance

OTHERS = [family for family in tiny.OF_FAMILY if family != "bert"]
EQUAL = {"atol": 1e-5, "rtol": 1e-5}


@pytest.fixture
def batch(teacher_folder):
    return tiny.encoded(teacher_folder, rows=12).batch([3, 1, 4, 9])


def student_of(method, family, seed=1, num_labels=2, **shape):
    """A student made of a teacher with random weights; the teacher, and what the student was built from."""
    teacher = tiny.family_classifier(family, num_labels, seed, **{"layers": 4, **shape}).eval()
    config, weights = teacher.config, teacher.state_dict()
    artefacts = blank_artefacts(method.requires(config), config, num_labels)
    plain = {name: value for name, value in weights.items() if not name.startswith("classifier.")}
    given = {"teacher_weights": plain, "tuned_teacher": weights}
    artefacts |= {name: value for name, value in given.items() if name in artefacts}
    setup = Setup(config, num_labels, ("x",), artefacts)
    torch.manual_seed(seed)
    return teacher, setup, method.build(setup)


def padded_logits(model, batch):
    """As somebody asks a model of transformers: with [PAD] behind the shorter sequences."""
    ids = pad_sequence(batch.token_ids.split(batch.layout.lengths), True, model.config.pad_token_id)
    kinds = pad_sequence(batch.segment_ids.split(batch.layout.lengths), True)
    given = {"input_ids": ids, "attention_mask": batch.layout.mask_BL.long()}
    if "token_type_ids" in inputs_of(model):
        given["token_type_ids"] = kinds
    with torch.no_grad():
        return model.eval()(**given).logits


def answers_as_transformers_opens_it(model, batch, folder):
    """The same logits packed, and padded after it was saved and opened without a word of ours."""
    model.eval()
    with torch.no_grad():
        packed = forward(model, batch, LOGITS).logits
    model.save_pretrained(folder)
    opened = AutoModelForSequenceClassification.from_pretrained(folder)
    torch.testing.assert_close(padded_logits(opened, batch), packed, **EQUAL)
    return opened


@pytest.mark.parametrize("family", OTHERS)
def test_distilbert_has_spread_layers_of_the_teachers_own_family(family, batch, tmp_path):
    teacher, _, student = student_of(methods.get("distilbert")(), family)
    assert student.model.config.model_type == family
    theirs, ours = (model.base_model.encoder.layer for model in (teacher, student.model))
    assert len(ours) == 2
    for mine, taken in zip(ours, (theirs[0], theirs[3]), strict=True):
        for name, weight in taken.state_dict().items():
            assert torch.equal(mine.state_dict()[name], weight), name
    answers_as_transformers_opens_it(student.model, batch, tmp_path)


@pytest.mark.parametrize("family", ["bert", *OTHERS])
@pytest.mark.parametrize("name", ["finetune", "kd", "tinybert", "microbert"])
@pytest.mark.parametrize(("start", "chosen"), [("layers", (0, 3)), ("lowest", (0, 1))])
def test_a_student_of_the_teachers_layers_begins_with_whole_ones(
    start, chosen, name, family, batch, tmp_path
):
    """``layers``: the first and last of four layers; ``lowest``: the first two. The teacher's states
    need no projection."""
    config = tiny.family_config(family, layers=4)
    row = methods.get(name)(
        start=start,
        layers=2,
        hidden=config.hidden_size,
        heads=config.num_attention_heads,
        ffn=config.intermediate_size,
    )
    teacher, _, student = student_of(row, family)
    assert student.model.config.model_type == family
    theirs = teacher.base_model.encoder.layer
    ours = student.model.base_model.encoder.layer
    for mine, place in zip(ours, chosen, strict=True):
        for part, weight in theirs[place].state_dict().items():
            assert torch.equal(mine.state_dict()[part], weight), part
    if name == "tinybert":
        states = torch.randn(3, config.hidden_size)
        assert torch.equal(student.aux["projection"](states), states)
    if name != "microbert":  # its experts are one layer only once they are fused
        answers_as_transformers_opens_it(student.model, batch, tmp_path)


@pytest.mark.parametrize("start", ["layers", "lowest"])
def test_layers_of_another_width_are_refused_with_the_settings_that_fit(start):
    wrong = f"start={start} takes whole layers of the teacher: write hidden=24:heads=4:ffn=48"
    with pytest.raises(MethodError, match=f"{wrong} behind kd"):
        methods.get("kd")(start=start).requires(tiny.family_config("mpnet", layers=4))
    with pytest.raises(MethodError, match="layers=5 should be at most the teacher's 4"):
        row = methods.get("kd")(start=start, layers=5, hidden=24, heads=4, ffn=48)
        row.requires(tiny.family_config("mpnet", layers=4))


@pytest.mark.parametrize("family", OTHERS)
def test_distilbert_takes_its_pre_trained_encoder(family):
    """The first step's student is of the teacher's family, and the second step's begins as it ended."""
    setup, student = built(
        methods.get("distilbert")(pretraining="masked"), tiny.family_config(family, layers=4)
    )
    begun = setup.artefacts["triple_loss"]
    for name, weight in student.model.base_model.state_dict().items():
        assert torch.equal(begun[f"{family}.{name}"], weight), name
    assert begun["aux.teacher_head.bias"].shape == (setup.teacher.vocab_size,)


def test_a_finished_distilbert_is_the_student_of_a_bert():
    with pytest.raises(MethodError, match="this teacher is a mpnet: leave start_from out"):
        methods.get("distilbert")(start_from="x").requires(tiny.family_config("mpnet"))


def with_pad_one(teacher_folder):
    """Tiny rows whose [PAD] is token 1, as RoBERTa and MPNet have it."""
    data = tiny.encoded(teacher_folder, rows=12)
    swapped = [np.where(row == 1, 0, row) for row in data.tokens]
    return replace(data, tokens=swapped, pad=1)


@pytest.mark.parametrize("family", OTHERS)
def test_pad_of_filled_sequences_has_the_states_that_transformers_gives_it(family, teacher_folder):
    """Planted before: packed [PAD] went on counting, where RoBERTa and MPNet give all of them one position. Students that are
    taught by means over 128 places, as some authors' are, would have learned other states than transformers computes."""
    data = with_pad_one(teacher_folder)
    config = tiny.family_config(family)
    config.pad_token_id = 1
    torch.manual_seed(0)
    model = AutoModelForSequenceClassification.from_config(config).eval()
    batch = pad_batch(data.batch([3, 1, 4]), data, 20)
    is_real = torch.arange(20)[None] < torch.tensor(batch.layout.real)[:, None]
    with torch.no_grad():
        padded = model(
            input_ids=batch.token_ids.view(3, 20),
            attention_mask=is_real.long(),
            output_hidden_states=True,
            **(
                {"token_type_ids": batch.segment_ids.view(3, 20)}
                if "token_type_ids" in inputs_of(model)
                else {}
            ),
        )
        model.set_attn_implementation("packed")
        packed = forward(model, batch, LOGITS | hidden(0, 3))
    for layer in (0, 3):
        expected = padded.hidden_states[layer].flatten(0, 1)
        torch.testing.assert_close(packed.hidden(layer), expected, **EQUAL)
    torch.testing.assert_close(packed.logits, padded.logits, **EQUAL)


def moebert(family, **settings):
    """A MoEBERT whose neurons have random importance, and its teacher."""
    method = methods.get("moebert")(**settings)
    teacher, setup, _ = student_of(method, family)
    for importance_F in setup.artefacts.get("neuron_importance", {}).values():
        importance_F.copy_(torch.rand(importance_F.shape))
    return teacher, method.build(setup).model.eval()


@pytest.mark.parametrize("routing", ["hash", "token", "sentence"])
@pytest.mark.parametrize("family", OTHERS)
def test_moebert_is_its_teacher_with_experts(family, routing, batch, tmp_path):
    """Where each token's expert has all that matters of the network, the student answers as the teacher."""
    teacher, student = moebert(family, routing=routing, experts=1, shared_size=8)
    with torch.no_grad():
        if routing == "hash":
            logits = [forward(each, batch, LOGITS).logits for each in (teacher, student)]
            torch.testing.assert_close(*logits, **EQUAL)
    student = moebert(family, routing=routing)[1]
    assert student.config.model_type == f"moe_{family}"
    opened = answers_as_transformers_opens_it(student, batch, tmp_path)
    assert type(opened) is type(student)


@pytest.mark.parametrize("family", tiny.OF_FAMILY)
def test_a_gate_of_sentences_reads_the_mean_of_each_sentence(family, batch):
    """Planted before: sequences began where positions are 0, and those of RoBERTa and MPNet begin behind [PAD]'s."""
    _, student = moebert(family, routing="sentence")
    reads = []
    hook = student.base_model.encoder.layer[0].output.register_forward_pre_hook(
        lambda module, args: reads.append(args[1][0])
    )
    with torch.no_grad():
        gates_TE = forward(student, batch, LOGITS | gates(1)).gates(1)
    hook.remove()
    means_BW = batch.layout.mean(reads[0])
    gate_EW = student.base_model.encoder.layer[0].output.gate_EW
    expected_TE = (means_BW @ gate_EW.T)[batch.layout.owner_T]
    torch.testing.assert_close(gates_TE, expected_TE, **EQUAL)


@pytest.mark.parametrize("family", OTHERS)
def test_importance_of_a_neuron_is_that_of_each_example_alone(family, batch, teacher_folder):
    teacher = tiny.family_classifier(family, layers=2).eval()
    found = NeuronImportance(4).compute(teacher, [batch])
    expected = torch.zeros_like(found["layer.2"])
    ffn = teacher.base_model.encoder.layer[1]
    w1, w2 = ffn.intermediate.dense.weight, ffn.output.dense.weight
    for example in batch.example_ids:
        alone = tiny.encoded(teacher_folder, rows=12).batch([example])
        loss = losses.hard(forward(teacher, alone, LOGITS).logits, alone.labels)
        g1, g2 = torch.autograd.grad(loss, (w1, w2))
        expected += ((w1 * g1).sum(1) + (w2 * g2).sum(0)).abs().detach()
    torch.testing.assert_close(found["layer.2"], expected, atol=1e-5, rtol=1e-4)


def masked_logits(model, batch, heads_LH, neurons_LF):
    """Of a model whose every writing layer reads its units times their masks."""
    writing = attention_names(model).writing
    hooks = []
    for number, layer in enumerate(model.base_model.encoder.layer):
        for reader, mask in (
            (layer.get_submodule(writing), heads_LH[number]),
            (layer.output.dense, neurons_LF[number]),
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


def masks_of(model, seed=3):
    """Masks that leave other units in each layer, of values that differ; no layer is empty."""
    chance = torch.Generator().manual_seed(seed)
    config = model.config
    masks = []
    for units in (config.num_attention_heads, config.intermediate_size):
        kept = torch.rand(config.num_hidden_layers, units, generator=chance) < 0.5
        # of the first layer the last unit alone stays: not a row that a wrong one could be taken for
        kept[0] = False
        kept[:, -1] = True
        masks.append(kept * torch.linspace(0.5, 1.5, units))
    return masks


@pytest.mark.parametrize("family", OTHERS)
def test_the_gradient_of_a_mask_is_seen_in_a_pass_that_goes_around_attention_modules(family, batch):
    """Planted before: hooks on the attention modules, which the packed pass of MPNet never calls, saw nothing."""
    model = tiny.family_classifier(family, layers=2, seed=3).eval()
    found = mask_gradients(model, batch)
    masks = [torch.ones(2, 4, requires_grad=True), torch.ones(2, 48, requires_grad=True)]
    loss = losses.hard(masked_logits(model, batch, *masks), batch.labels) * len(batch.example_ids)
    expected = torch.autograd.grad(loss, masks)
    for ours, theirs in zip((found[:2], found[2:]), expected, strict=True):
        summed = torch.stack([by_example.sum(0) for by_example in ours])
        torch.testing.assert_close(summed, theirs, atol=1e-5, rtol=1e-3)
        assert theirs.abs().max() > 1e-3
    if family == "mpnet":
        attention = model.mpnet.encoder.layer[0].attention.attn
        with pytest.raises(TypeError, match="does not go through MPNetSelfAttention"):
            list(label_gradients(model, batch, [attention]))


@pytest.mark.parametrize("family", OTHERS)
def test_fisher_cuts_units_out_and_answers_as_the_masked_teacher(family, batch, tmp_path):
    """Planted before: the second of two heads that stay read the bias of the second of all of MPNet's."""
    method = methods.get("fisher")()
    teacher, setup, _ = student_of(method, family)
    masks = setup.artefacts["fisher_masks"] = dict(
        zip(("heads", "neurons"), masks_of(teacher), strict=True)
    )
    student = method.build(setup).model.eval()
    assert student.config.layer_heads == (masks["heads"] != 0).sum(1).tolist()
    with torch.no_grad():
        expected = masked_logits(teacher, batch, masks["heads"], masks["neurons"])
        packed = forward(student, batch, LOGITS).logits
    torch.testing.assert_close(packed, expected, **EQUAL)
    opened = answers_as_transformers_opens_it(student, batch, tmp_path)
    assert cost(student).of_length(32) == cost(opened).of_length(32) < cost(teacher).of_length(32)


@pytest.mark.parametrize("family", OTHERS)
def test_fisher_tunes_nothing_beside_a_model_that_is_its_target(family, batch):
    """Through each family's own attention: with other states than the model's the masks would leave 1."""
    model = tiny.family_classifier(family, layers=3).eval()
    whole = [torch.ones(3, 4), torch.ones(3, 48)]
    fisher.tune(model, [batch], *whole, torch.ones(3, 4), torch.ones(3, 48))
    for mask in whole:
        torch.testing.assert_close(mask, torch.ones_like(mask), rtol=0, atol=2e-2)
    states = forward(model, batch, hidden(0, 3))
    seen = fisher.States(batch, *[states.hidden(0)[None]] * 2)
    with torch.no_grad():
        for layer in model.base_model.encoder.layer:
            for block, units in zip(fisher.blocks_of(model, layer), (4, 48), strict=True):
                seen = seen.after(block, torch.ones(units), torch.ones(units))
    torch.testing.assert_close(seen.pruned[0], states.hidden(3), **EQUAL)


@pytest.mark.parametrize("empty", ["", "attentions", "networks"])
@pytest.mark.parametrize("family", OTHERS)
def test_cofi_deploys_the_masked_model(family, empty, batch, tmp_path):
    method = methods.get("cofi")(sparsity=0.5)
    _, setup, student = student_of(method, family)
    for stage in method.stages(setup):
        stage.on_step_begin(student.model, 0.0)
    gates_ = student.model.gates
    with torch.no_grad():
        for kind in gates_.KINDS:
            gate = getattr(gates_, kind)
            gate.copy_(2 * torch.randn(gate.shape))
        if empty:
            getattr(gates_, empty)[1] = -20.0  # the second layer's whole block is the first to go
    shipped = method.deploy(student)[""].eval()
    counts = (shipped.config.layer_heads, shipped.config.layer_neurons)
    assert sum(counts[0]) < 16
    assert not empty or counts[empty == "networks"][1] == 0
    with torch.no_grad():
        expected = forward(student.model.eval(), batch, LOGITS).logits
    torch.testing.assert_close(forward(shipped, batch, LOGITS).logits, expected, **EQUAL)
    answers_as_transformers_opens_it(shipped, batch, tmp_path)


@pytest.mark.parametrize("family", OTHERS)
def test_cofi_learns_through_its_masks(family, batch):
    *_, student = student_of(methods.get("cofi")(), family)
    student.model.gates.phase = "drawn"
    torch.nn.init.zeros_(student.model.gates.heads)
    out = forward(student.model.train(), batch, LOGITS)
    out.logits.square().sum().backward()
    assert student.model.gates.heads.grad.abs().max() > 0


@pytest.mark.parametrize("family", OTHERS)
def test_dynabert_is_its_teacher_in_another_order(family, batch, tmp_path):
    """Planted before: the heads of a layer, put in their order, read others' rows of the bias that MPNet's layers share."""
    method = methods.get("dynabert")(widths="0.5", depths="0.5")
    teacher, setup, _ = student_of(method, family)
    for units in setup.artefacts["importance_of_units"].values():
        units.copy_(torch.rand(units.shape))
    student = method.build(setup)
    with torch.no_grad():
        logits = [forward(each, batch, LOGITS).logits for each in (teacher, student.model.eval())]
    torch.testing.assert_close(*logits, **EQUAL)
    teacher.config.hidden_dropout_prob = teacher.config.attention_probs_dropout_prob = 0.0
    student = method.build(setup)
    model = student.model
    for number, ((width, depth), shipped) in enumerate(
        zip(method.parts(), method.deploy(student).values(), strict=True)
    ):
        model.parts = [(width, depth)]
        trained = forward(model.train(), batch, LOGITS).logits
        with torch.no_grad():
            packed = forward(shipped.eval(), batch, LOGITS).logits
        torch.testing.assert_close(packed, trained, **EQUAL)
        answers_as_transformers_opens_it(shipped, batch, tmp_path / str(number))


@pytest.mark.parametrize("name", ["q8bert", "ternarybert"])
@pytest.mark.parametrize("family", OTHERS)
def test_rounded_models_round_the_same_parts_in_every_family(family, name, batch, tmp_path):
    """What BERT has as its pooler is a layer of other families' heads; MPNet's bias is rounded with the other tables."""
    # numbers of 32 bits: else the last digits of padded kernels become steps
    method = methods.get(name)(activation_bits=32)
    teacher, _, student = student_of(method, family)
    shipped = method.deploy(student)[""].eval()
    parts = quantized_parts(shipped)
    every = {
        part
        for part, module in teacher.named_modules()
        if isinstance(module, (torch.nn.Linear, torch.nn.Embedding))
    }
    if name == "q8bert":
        assert set(parts) == every
    else:
        kept = {"position_embeddings", "token_type_embeddings", "relative_attention_bias"}
        kept |= {"out_proj"}
        assert {part.rpartition(".")[2] for part in every - set(parts)} <= kept
        assert "classifier.dense" in parts
    values = shipped.base_model.encoder.layer[0].output.dense.weight.unique()
    assert len(values) <= (3 if name == "ternarybert" else 255)
    opened = answers_as_transformers_opens_it(shipped, batch, tmp_path)
    assert set(quantized_parts(opened)) == set(parts)
    stored = load_file(tmp_path / "model.safetensors")
    assert {f"{part}.codes" for part in parts} <= set(stored)


@pytest.mark.parametrize("family", tiny.OF_FAMILY)
def test_fastbert_leaves_as_deep_as_each_sequence_has_to(family, batch, tmp_path):
    """Packed sequences that leave make room for no others: those that stay keep positions, bias and answers."""
    method = methods.get("fastbert")()
    *_, student = student_of(method, family)
    shipped = method.deploy(student)
    model = shipped["speed=0.8"].eval()
    with torch.no_grad():
        first_BC = forward(model, batch, exits(1)).exits(1)
    halfway = float(uncertainty(first_BC).quantile(0.5))
    left = []
    for speed in (0.0, halfway, 1.0):
        model.config.speed = speed
        model.exits_after_layer = {}
        answers_as_transformers_opens_it(model, batch, tmp_path / str(speed))
        left.append(dict(model.exits_after_layer))
    assert left[0] == {1: 0, 2: 0, 3: 0, 4: 4}
    assert left[1][1] == 2, "the others went on without them"
    assert left[2] == {1: 4}
    assert ("token_type_ids" in inputs_of(model)) == (family in ("bert", "electra"))


@pytest.mark.parametrize("family", OTHERS)
def test_mtdnn_ships_a_classifier_of_the_family_for_each_task(family, batch, tmp_path):
    method = methods.get("mtdnn")()
    config = tiny.family_config(family, 3, layers=2)
    artefacts = blank_artefacts(method.requires(config), config, 3, "x")
    setup = Setup(config, 3, ("x", "y"), artefacts, labels_of_tasks=(2, 3))
    student = method.build(setup)
    for task, (name, model) in enumerate(method.deploy(student).items()):
        assert model.config.num_labels == 2 + task
        with torch.no_grad():
            of_task = replace(batch, task=task)
            ours = forward(student.model.eval(), of_task, LOGITS).logits
            torch.testing.assert_close(forward(model.eval(), batch, LOGITS).logits, ours, **EQUAL)
        opened = answers_as_transformers_opens_it(model, batch, tmp_path / name)
        assert opened.config.model_type == family


@pytest.mark.parametrize("name", ["droplayers", "moebert", "fisher", "q8bert", "fastbert"])
def test_sdpa_of_an_mpnet_is_one_and_answers_as_eager(name, batch, monkeypatch):
    """Planted before: transformers' MPNet has no sdpa, so that a speed-up under that name compared an eager teacher with sdpa
    students; a class of our own said that it had it, and read the mask of sdpa as numbers to add."""
    method = methods.get(name)(**({"activation_bits": 32} if name == "q8bert" else {}))
    _, setup, student = student_of(method, "mpnet")
    if "fisher_masks" in setup.artefacts:
        setup.artefacts["fisher_masks"] = dict(
            zip(("heads", "neurons"), masks_of(student.model), strict=True)
        )
        student = method.build(setup)
    model = student.model.eval()
    assert model.config._attn_implementation == "eager", "what it has, whatever it was asked for"
    eager = padded_logits(model, batch)
    calls = []
    plain = torch.nn.functional.scaled_dot_product_attention
    fused = lambda *args, **kwargs: calls.append(1) or plain(*args, **kwargs)  # noqa: E731
    monkeypatch.setattr(torch.nn.functional, "scaled_dot_product_attention", fused)
    ids = pad_sequence(batch.token_ids.split(batch.layout.lengths), True)
    run = runner(model, "sdpa", torch.device("cpu"), torch.float32, 1)
    torch.testing.assert_close(run(ids, batch.layout.mask_BL.long()), eager, **EQUAL)
    assert len(calls) == len(model.base_model.encoder.layer)
    calls.clear()
    torch.testing.assert_close(padded_logits(model, batch), eager, rtol=0, atol=0)
    assert not calls, "a copy was changed"


def test_a_row_that_cannot_take_a_family_says_why():
    modern = AutoConfig.for_model("modernbert", num_hidden_layers=4)
    for name in ("distilbert", "moebert", "fisher", "cofi", "dynabert", "fastbert", "q8bert"):
        with pytest.raises(MethodError, match=rf"{name} takes .*modernbert, whose layers differ"):
            methods.get(name)().requires(modern)
    assert methods.get("mtdnn")().requires(modern), "taken whole"
    with pytest.raises(MethodError, match=r"mtdnn takes .*modernbert, whose layers differ"):
        methods.get("mtdnn")(layers=2).requires(modern)


@pytest.mark.slow
@pytest.mark.parametrize("family", OTHERS)
@pytest.mark.parametrize("name", ["distilbert", "moebert", "fisher", "cofi", "dynabert", "q8bert"])
def test_a_student_of_any_family_is_a_graph_too(family, name, tmp_path):
    pytest.importorskip("onnxruntime")
    method = methods.get(name)(**({"activation_bits": 32} if name == "q8bert" else {}))
    *_, student = student_of(method, family)
    model = list(method.deploy(student).values())[-1].eval()
    names = tuple(inputs_of(model))
    write_onnx(model, tmp_path / "model.onnx", names)
    ids = torch.tensor([[2, 5, 6, 7, 8, 9, 3], [2, 5, 9, 3, 0, 0, 0]])
    given = {
        "input_ids": ids,
        "attention_mask": (ids != 0).long(),
        "token_type_ids": torch.zeros_like(ids),
    }
    answered = opened_graph(tmp_path / "model.onnx", "onnx", 1, names)(*map(given.get, names))
    model.set_attn_implementation("eager")
    with torch.no_grad():
        expected = model(**{name: given[name] for name in names}).logits
    torch.testing.assert_close(answered, expected, **EQUAL)


@pytest.mark.parametrize("family", ["bert", "roberta", "mpnet"])
def test_the_masked_language_head_of_a_checkpoint_is_read(family, batch, tmp_path):
    """As transformers' own model answers, with the eps of its LayerNorm; ELECTRA's discriminators have none."""
    config = tiny.family_config(family)
    config.layer_norm_eps = 0.1  # so large that another one is seen
    torch.manual_seed(0)
    whole = AutoModelForMaskedLM.from_config(config).eval()
    for name, parameter in whole.named_parameters():
        if "norm" in name.lower() or name.endswith("bias"):
            torch.nn.init.normal_(parameter)
    whole.save_pretrained(tmp_path)
    tensors = in_checkpoint(tmp_path / "model.safetensors", TeacherHead())
    assert sorted(tensors) == sorted(TeacherHead.in_checkpoint)
    encoder = {name: value for name, value in whole.state_dict().items() if "embeddings" in name}
    setup = Setup(config, 2, (), {"teacher_weights": encoder, TeacherHead.name: tensors})
    first, _ = batch.token_ids.split(batch.layout.lengths)[:2]
    with torch.no_grad():
        given = whole(input_ids=first[None], output_hidden_states=True)
        ours = TeacherHead().filled(setup)(given.hidden_states[-1][0])
    torch.testing.assert_close(ours, given.logits[0], **EQUAL)


@pytest.mark.parametrize("family", OTHERS)
def test_fused_attention_of_a_pruned_student_answers_as_the_usual_one(family, batch, monkeypatch):
    """What an accelerator takes, here: heads that stay have their rows of the bias there too."""
    method = methods.get("fisher")()
    teacher, setup, _ = student_of(method, family)
    setup.artefacts["fisher_masks"] = dict(
        zip(("heads", "neurons"), masks_of(teacher), strict=True)
    )
    student = method.build(setup).model.eval()
    usual = forward(student, batch, LOGITS).logits
    calls = []
    fused = lambda *args, **given: calls.append(1) or packed.fused_attention(*args, **given)  # noqa: E731
    monkeypatch.setattr(families, "packed_attention", fused)
    monkeypatch.setitem(ALL_ATTENTION_FUNCTIONS, "packed", fused)
    torch.testing.assert_close(forward(student, batch, LOGITS).logits, usual, **EQUAL)
    assert len(calls) == 4
