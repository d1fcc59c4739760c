"""Replacing, leaving early, relations, general stages on text: what is special to the systems beyond the first eight."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
import tiny
import tiny_training
import torch

import methods
from bench.data.encoding import MaskingVocabulary
from bench.measure.flops import macs
from bench.plan.scheduled_stages import schedule_stages
from bench.record.recipe import Recipe
from bench.record.store import Store
from bench.train.loop import LoopOptions, train_task
from bench.train.numerics import ComputeSettings, RandomState
from bench.train.student_trainer import StudentTrainer
from methods.api import Setup, UndeclaredNeed
from methods.bilstm import Vocabulary, words_of
from methods.core import losses
from methods.core.models import cost, forward
from methods.core.packed import Layout
from methods.core.taps import LOGITS, NOTHING, exits, hidden, scores, vectors
from methods.fastbert import uncertainty


def built(name: str, **settings):
    method = methods.get(name)(**{**methods.get(name).tiny_settings, **settings})
    return method, *tiny_training.built(method, tiny.config(layers=4))


@pytest.fixture
def batch(teacher_folder):
    return tiny.encoded(teacher_folder, rows=12).batch(range(12))


def logits(model, batch, also=NOTHING):
    with torch.no_grad():
        return forward(model, batch, LOGITS | also)


# BERT-of-Theseus


def test_without_successors_the_mixed_model_is_the_teacher(batch):
    _, setup, student = built("theseus")
    teacher = tiny.classifier(layers=4)
    teacher.load_state_dict(setup.artefacts["tuned_teacher"])
    model = student.model.train()
    model.rate = 0.0
    for part in model.modules():
        part.training = part is model
    assert torch.equal(logits(model, batch).logits, logits(teacher.eval(), batch).logits)


def test_only_successors_learn(batch):
    _, _, student = built("theseus")
    moving = {
        name for name, parameter in student.model.named_parameters() if parameter.requires_grad
    }
    assert moving
    assert all(name.startswith("whole.bert.encoder.") for name in moving)


def test_the_replacing_rate_rises_to_one_and_stays():
    linear, constant = (
        methods.get("theseus")(rate=0.3, until=0.5),
        methods.get("theseus")(schedule="constant"),
    )
    rates = [linear.replacing_rate(step / 20) for step in range(20)]
    assert rates[0] == 0.3
    assert rates == sorted(rates)
    assert rates[10:] == [1.0] * 10
    assert linear.replacing_rate(0.25) == pytest.approx(0.65)
    assert [constant.replacing_rate(p) for p in (0.0, 0.49, 0.5)] == [0.3, 0.3, 1.0]
    _, setup, student = built("theseus")
    (stage,) = linear.stages(setup)
    stage.on_step_begin(student.model, 0.25)
    assert student.model.rate == pytest.approx(0.65)


# FastBERT


def test_uncertainty_of_what_is_certain_and_what_is_not():
    assert uncertainty(torch.zeros(2, 3)).tolist() == pytest.approx([1.0, 1.0])
    assert uncertainty(torch.tensor([[50.0, 0.0, 0.0]])).tolist() == pytest.approx([0.0], abs=1e-6)
    assert uncertainty(torch.tensor([[3.0], [-1.0]])).tolist() == [1.0, 1.0]


@pytest.mark.parametrize("speed, layer", [(1.0, 1), (0.0, 4)])
def test_every_sequence_leaves_at_the_first_or_the_last_layer(batch, speed, layer):
    _, _, student = built("fastbert")
    model = student.model.eval()
    model.config.speed = speed
    logits(model, batch)
    assert model.exits_after_layer == {**dict.fromkeys(range(1, layer), 0), layer: 12}
    expected = model.observed()["cost"]
    assert expected["per_token"] == model.cost_to(layer).per_token
    assert model.cost_to(4) == cost(model)


def test_leaving_early_changes_no_answer(batch):
    """Sequences that go on among fewer others get what they would have got among all; padded input agrees."""
    _, _, student = built("fastbert")
    model = student.model.eval()
    with torch.no_grad():
        for parameter in model.branches.parameters():
            parameter.normal_()  # fresh branches are all unsure: make some sequences certain
    whole = logits(model.train(), batch, exits(1, 2, 3))
    model.eval()
    unsure = torch.stack([uncertainty(whole.exits(m)) for m in (1, 2, 3)])
    model.config.speed = float(unsure[0].median())  # half leave at the first branch
    expected = whole.logits.clone()
    for m in (3, 2, 1):
        certain = unsure[m - 1] <= model.config.speed
        expected[certain] = whole.exits(m)[certain]
    got = logits(model, batch).logits
    torch.testing.assert_close(got, expected, rtol=0, atol=1e-5)
    assert sum(count > 0 for count in model.exits_after_layer.values()) >= 2
    ids = torch.nn.utils.rnn.pad_sequence(
        batch.token_ids.split(list(batch.layout.lengths)), batch_first=True
    )
    segments = torch.nn.utils.rnn.pad_sequence(
        batch.segment_ids.split(list(batch.layout.lengths)), batch_first=True
    )
    model.set_attn_implementation("eager")
    with torch.no_grad():
        padded = model(
            ids, attention_mask=batch.layout.mask_BL.long(), token_type_ids=segments
        ).logits
    torch.testing.assert_close(padded, expected, rtol=0, atol=1e-5)


def test_branches_learn_and_the_backbone_stands_still(batch):
    method, setup, student = built("fastbert")
    (stage,) = method.stages(setup)
    student.model.train()
    term = stage.terms["branches"]
    term.fn(batch, forward(student.model, batch, term.student), None, student.aux).backward()
    reached = {
        name for name, parameter in student.model.named_parameters() if parameter.grad is not None
    }
    assert reached
    assert all(name.startswith("branches.") for name in reached)
    assert stage.lr_scale(0.99) == 10
    assert methods.get("fastbert")(schedule="authors").stages(setup)[0].lr_scale(0.7) == 0


def test_with_dropout_the_branches_attention_has_it_in_training_alone(batch):
    """As in the authors' code. The states are the same each time, so all that can differ is a branch's own."""
    states_TW = torch.randn(batch.layout.total, 24)
    answers = {}
    for dropout in (True, False):
        _, _, student = built("fastbert", dropout=dropout)
        model = student.model
        assert len({branch.dropout for branch in model.branches}) == 1
        for branch in model.branches:
            for training in (True, False):
                branch.train(training)
                before = torch.get_rng_state()
                with torch.no_grad():
                    first, second = branch(states_TW, batch.layout), branch(states_TW, batch.layout)
                assert torch.equal(first, second) != (dropout and training)
                assert torch.equal(before, torch.get_rng_state()) != (dropout and training)
                answers.setdefault((dropout, training), []).append(second)
    for asked in ((False, True), (True, False)):  # without dropout training computes what use does
        assert all(map(torch.equal, answers[asked], answers[False, False]))


@pytest.mark.slow
def test_a_run_has_a_row_for_each_speed(bench, tmp_path, places):
    words = [
        "run",
        "--methods",
        "fastbert:speeds=0.5/1",
        "--tasks",
        "sst2,stsb",
        "--epochs",
        1,
        *places,
    ]
    done = bench(*words)
    assert done.returncode == 0, done.stderr
    records = [
        r
        for r in Store(tmp_path / "r").records()
        if r.cell.method == "fastbert" and r.cell.tasks == ("sst2",)
    ]
    by_point = {record.point: record for record in records}
    assert set(by_point) == {"", "speed=0.5", "speed=1"}
    assert by_point["speed=1"].usage["left after layer"] == {"1": 1.0}
    assert by_point[""].sizes.expected_macs <= by_point[""].sizes.macs * 1.01
    assert by_point["speed=1"].sizes.expected_macs < 0.6 * by_point[""].sizes.macs
    assert "nothing to do" in bench(*words).stderr
    (report,) = (tmp_path / "p").glob("*/*/README.md")
    for point in ("", " at speed=0.5", " at speed=1"):
        assert f"| fastbert:speeds=0.5/1{point} " in report.read_text()
    assert "MACs, average over exits" in report.with_name("report.html").read_text()


# MiniLM


@pytest.mark.parametrize("lengths", [(5,) * 7, (3, 9, 1, 12, 4, 90)])
def test_divergences_of_a_few_sequences_at_a_time_are_those_of_all(lengths, monkeypatch):
    torch.manual_seed(0)
    layout = Layout(lengths)
    vectors, teacher = torch.randn(sum(lengths), 12), torch.randn(sum(lengths), 24)
    scores, of_teacher = (
        [torch.randn(len(c.sequences), 3, c.longest, c.longest) for c in layout.chunks]
        for _ in range(2)
    )
    found = []
    for at_once in (1, 3 * 12 * 12 * 2, 2**30):
        monkeypatch.setattr(losses, "PLACES_AT_ONCE", at_once)
        x = vectors.clone().requires_grad_()
        own = [s.clone().requires_grad_() for s in scores]
        values = (
            losses.relation_kl(x, teacher, 6, layout),
            losses.attention_kl_sequencemean(own, of_teacher, layout),
            losses.attention_transfer_rowmean(own, of_teacher, layout),
        )
        torch.stack(values).sum().backward()
        found.append([*values, x.grad, *(s.grad for s in own)])
    for others in found[1:]:
        torch.testing.assert_close(others, found[0], rtol=1e-6, atol=1e-8)


def test_vectors_are_the_queries_keys_and_values_that_attention_uses(batch):
    model = tiny.classifier(layers=2).eval()
    out = logits(model, batch, hidden(1) | vectors(2) | scores(2))
    attention = model.bert.encoder.layer[1].attention.self
    for got, layer in zip(
        out.vectors(2), (attention.query, attention.key, attention.value), strict=True
    ):
        torch.testing.assert_close(got, layer(out.hidden(1)))


def test_relation_heads_divide_both_widths():
    method = methods.get("minilmv2")
    base = tiny.config(hidden=768, heads=12)
    assert method().heads_of_relations(base) == 24, "312 and 768 share no 48"
    assert method(hidden=384, heads=12).heads_of_relations(base) == 48


@pytest.mark.slow
def test_a_general_stage_on_text_is_made_once_and_kept(bench, tmp_path, places):
    """Both seeds and both tasks begin with the same weights; another objective has a stage of its own."""
    text = tmp_path / "text.txt"
    text.write_text("\n".join(" ".join(tiny.WORDS[i : i + 12]) for i in range(30)))
    words = [
        "--methods",
        f"minilmv2:{tiny.SHAPE},minilm:{tiny.SHAPE}",
        "--tasks",
        "rte,sst2",
        "--seeds",
        "0,1",
    ]
    words += ["--corpus", text, "--corpus-tokens", "2000", *places[:6]]
    planned = bench("plan", *words)
    assert planned.stdout.count("to make from 2,000 tokens") == 3, (
        "the cut teacher and two objectives"
    )
    done = bench("run", *words, "--reports", tmp_path / "p", "--epochs", "1")
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("relations 2x12") >= 4
    made = [
        r.artefacts["relations"]
        for r in Store(tmp_path / "r").records()
        if "relations" in r.artefacts
    ]
    assert len(made) == 8
    assert len({m["weights"] for m in made}) == len({m["key"] for m in made}) == 2
    assert all(m["train"]["tokens"] >= 2000 for m in made)
    (report,) = (tmp_path / "p").glob("*/*/README.md")
    assert "Pre-training on text, relations " in report.read_text()
    again = bench("plan", *words, "--json", tmp_path / "plan.json")
    assert again.stdout.count(": there; shared") == 3
    assert len(json.loads((tmp_path / "plan.json").read_text())["cells"]) == 10


def test_a_row_whose_time_depends_on_training_is_not_timed(bench, tmp_path, teacher_folder):
    done = bench(
        "speed", "--methods", "fastbert", "--teacher", teacher_folder, "--results", tmp_path / "r"
    )
    assert done.returncode == 2
    assert "is not timed" in done.stderr
    assert "none of these rows can be timed" in done.stderr
    assert not (tmp_path / "r").exists()


# MobileBERT from an IB-BERT


def transfer(kind, **settings):
    mobilebert = methods.get("mobilebert")
    method = mobilebert(
        **{**mobilebert.tiny_settings, "layers": 3, "inverted": 16, "pretraining": kind, **settings}
    )
    (wish,) = method.requires(tiny.config())
    return method, wish, tiny_training.built(wish, tasks=())[0]


@pytest.fixture
def text(teacher_folder):
    data = tiny.encoded(teacher_folder, rows=48)
    size = len(tiny.SPECIAL) + len(tiny.WORDS)
    return replace(data, labels=None, vocabulary=MaskingVocabulary(4, frozenset(range(5)), size))


def train_phases(wish, setup, text, count):
    random = RandomState(0, tiny_training.CPU)
    with random.current():
        student, teacher = wish.build(setup), wish.teacher(setup).eval()
    scheduled = schedule_stages(
        wish.stages(setup), (), Recipe(epochs=6, batch_size=8, learning_rate=1e-3), len(text)
    )[1]
    before = {name: value.clone() for name, value in student.model.state_dict().items()}
    one = StudentTrainer("x", student, random, [], scheduled[:count], ComputeSettings())
    train_task([one], text, teacher, LoopOptions(0, ComputeSettings(), 8))
    assert one.error is None, one.error
    return {
        name
        for name, value in student.model.state_dict().items()
        if not torch.equal(value, before[name])
    }, one


def test_a_phase_moves_its_layer_and_earlier_ones_and_holds_the_rest(text):
    _, wish, setup = transfer("progressive")
    moved, one = train_phases(wish, setup, text, 2)
    assert {name.split(".")[3] for name in moved} == {"0", "1"}
    assert all(name.startswith("mobilebert.encoder.layer.") for name in moved)
    assert list(one.log.terms) == ["layer 1", "layer 2"]


def test_the_current_layer_learns_at_ten_times_the_rate_of_earlier_ones():
    _, wish, setup = transfer("progressive")
    rates = wish.stages(setup)[1].parameter_lr_scale
    name = "model.mobilebert.encoder.layer.{}.attention.self.query.weight"
    assert [rates(name.format(number)) for number in range(3)] == [0.3, 3.0, 0.0]
    assert (
        rates("model.mobilebert.embeddings.word_embeddings.weight") == rates("aux.head.bias") == 0.0
    )


def test_embeddings_and_head_begin_as_the_teachers(text):
    _, wish, setup = transfer("joint")
    student, teacher = wish.build(setup), wish.teacher(setup)
    for name, value in student.model.mobilebert.embeddings.state_dict().items():
        assert torch.equal(value, teacher.mobilebert.embeddings.state_dict()[name])
    states = torch.randn(3, 16)
    assert torch.equal(student.aux["head"](states), student.aux["teacher_head"](states))
    assert not any(p.requires_grad for p in student.aux["teacher_head"].parameters())


def test_the_task_does_not_change_what_is_pre_trained():
    _, one, _ = transfer("joint")
    _, other, _ = transfer("joint", alpha=0.2, temperature=4.0, transfer="auxiliary")
    assert one == other, "rows that share it would count its time several times"
    assert one.settings == other.settings
    assert one.settings != transfer("progressive")[1].settings


def test_students_that_differ_inside_their_layers_learn_from_one_ib_bert():
    _, one, _ = transfer("joint")
    _, other, _ = transfer("auxiliary", bottleneck=4, ffn=16, fmt_weight=1.0)
    assert one.requires(tiny.config()) == other.requires(tiny.config())
    assert one.requires(tiny.config()) != transfer("joint", inverted=32)[1].requires(tiny.config())


@pytest.mark.slow
def test_pre_training_is_made_in_order_and_reaches_the_student(
    bench, places, teacher_folder, tmp_path
):
    corpus = tmp_path / "corpus.txt"
    corpus.write_text(
        "\n".join(" ".join(tiny.WORDS[(i * 7 + j * j) % 43] for j in range(40)) for i in range(60))
    )
    small = methods.get("mobilebert").tiny_settings
    row = (
        "mobilebert:"
        + ":".join(f"{k}={v}" for k, v in small.items())
        + ":pretraining=progressive:inverted=16"
    )
    words = (
        "--methods",
        row,
        "--teacher",
        teacher_folder,
        "--corpus",
        corpus,
        "--corpus-tokens",
        4000,
    )
    words = ("--tasks", "rte", "--epochs", 1, *places, *words)
    made = bench("run", "--only", "pretraining", *words)
    assert made.returncode == 0, made.stderr
    lines = made.stdout.strip().splitlines()
    assert [line.split(" (")[0].rsplit(" ", 1)[0] for line in lines] == ["ib bert", "ib transfer"]
    answer = bench("run", *words)
    assert answer.returncode == 0, answer.stderr
    assert "ib transfer" in next((tmp_path / "p").glob("*/*/README.md")).read_text()


# BiLSTM


def bilstm(batch, **settings):
    kind = methods.get("bilstm")
    method = kind(**{**kind.tiny_settings, **settings})
    vocabulary = Vocabulary(method.words).compute(tiny.classifier(), [batch])
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return method.build(
            Setup(tiny.config(), 2, ("x",), {"vocabulary": vocabulary})
        ).model.eval()


def test_words_are_lower_case_signs_stand_alone_and_a_mask_is_one_word():
    assert (
        " ".join(words_of("Don't stop, Ann-Marie: 3.5!")) == "don ' t stop , ann - marie : 3 . 5 !"
    )
    assert words_of("a [MASK] b[MASK]. [mask]") == [
        "a",
        "[MASK]",
        "b",
        "[MASK]",
        ".",
        "[",
        "mask",
        "]",
    ]


def test_the_vocabulary_is_the_most_frequent_words_ties_by_alphabet(batch):
    texts = [("b b c", None), ("a d", "b d")]
    made = Vocabulary(3).compute(tiny.classifier(), [replace(batch, texts=texts)])
    assert bytes(made["words"].tolist()).decode().split("\n") == ["b", "d", "a"]
    assert made["pairs"].item() == 1


def test_a_pair_is_compared_by_product_and_distance(batch):
    model = bilstm(batch)
    assert model.pre_classifier.in_features == 8 * 8
    a, b = model._read(["the cat"]), model._read(["a dog runs"])
    seen = []
    model.pre_classifier.register_forward_hook(lambda module, given, out: seen.append(given[0]))
    model._answer([a, b])
    torch.testing.assert_close(seen[0], torch.cat([a, b, a * b, (a - b).abs()], -1))


def test_a_term_cannot_read_layers_it_does_not_have(batch):
    with pytest.raises(UndeclaredNeed, match="no encoder layers"):
        forward(bilstm(batch), batch, hidden(1))


def test_the_count_sees_the_recurrent_layer(batch):
    model = bilstm(batch)
    by_hand = 20 * 2 * 4 * 8 * (16 + 8) + 64 * 8 + 8 * 2
    # a row of 20 ids is a pair of 10 and 10
    assert macs(model, 20) == by_hand == cost(model).of_length(20)
