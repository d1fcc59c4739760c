"""Spans of a text: the packed head and its loss are those of transformers, and every method that says so learns them."""

from __future__ import annotations

import numpy as np
import pytest
import squad_articles
import tiny
import torch
from transformers import (
    AutoConfig,
    AutoModelForQuestionAnswering,
    BertConfig,
    BertForQuestionAnswering,
    DistilBertConfig,
    DistilBertForQuestionAnswering,
    ModernBertConfig,
    ModernBertForQuestionAnswering,
)

import methods
from bench.conformance.tiny_bench import Bench, tiny_task
from bench.errors import BAD_INPUT, OK
from bench.make.teacher import as_question_answering, base_model
from bench.plan.spelling import method_class
from bench.record.store import Store
from methods.core import losses
from methods.core.models import forward
from methods.core.taps import LOGITS

LONG = {"max_position_embeddings": 384, "vocab_size": 60, "attn_implementation": "eager"}
SPECIAL = {f"{name}_token_id": 0 for name in ("pad", "cls", "sep", "bos", "eos")}
KINDS = {
    "bert": lambda: BertForQuestionAnswering(
        BertConfig(
            hidden_size=24, num_hidden_layers=3, num_attention_heads=4, intermediate_size=48, **LONG
        )
    ),
    "distilbert": lambda: DistilBertForQuestionAnswering(
        DistilBertConfig(dim=24, n_layers=3, n_heads=4, hidden_dim=48, qa_dropout=0.0, **LONG)
    ),
    "modernbert": lambda: ModernBertForQuestionAnswering(
        ModernBertConfig(
            **LONG,
            hidden_size=24,
            num_hidden_layers=3,
            num_attention_heads=4,
            intermediate_size=48,
            **SPECIAL,
        )
    ),
    "roberta": lambda: of_family("roberta", max_position_embeddings=400),
    "electra": lambda: of_family("electra", embedding_size=12),
    "mpnet": lambda: of_family("mpnet", max_position_embeddings=400),
}


def of_family(family, **own):
    """With a seed of its own: an MPNet's bias makes its attention differ by place."""
    shape = {"hidden_size": 24, "num_hidden_layers": 3, "num_attention_heads": 4}
    config = AutoConfig.for_model(
        family, **{**LONG, **shape, "intermediate_size": 48, "pad_token_id": 0, **own}
    )
    return AutoModelForQuestionAnswering.from_config(config)


@pytest.mark.parametrize("kind", KINDS)
def test_packed_logits_and_loss_are_those_of_padded_sequences_of_384_tokens(tmp_path, kind):
    torch.manual_seed(0)
    padded = KINDS[kind]().eval()
    padded.save_pretrained(tmp_path)
    packed = base_model(tmp_path, 2, spans=True).eval()
    data = tiny_task(2, spans=True)
    rng = np.random.default_rng(0)
    for row, length in enumerate((384, 17, 250, 383)):
        # an MPNet takes token 1 for [PAD], whatever its configuration says
        data.tokens[row] = rng.integers(2, 60, length)
        data.segments[row] = np.zeros(length, dtype=np.int64)
    batch = data.batch(range(4))
    mask = batch.layout.mask_BL
    inputs = {
        "input_ids": batch.layout.padded(batch.token_ids) * mask,
        "attention_mask": mask.long(),
    }
    with torch.no_grad():
        ours, theirs = forward(packed, batch, LOGITS).logits.view(4, 2, -1), padded(**inputs)
    for side, logits in enumerate((theirs.start_logits, theirs.end_logits)):
        assert (ours[:, side] - logits)[mask].abs().max() < 1e-6
    alone = data.batch([0])
    inputs = {"input_ids": alone.token_ids[None]}
    with torch.no_grad():
        loss = padded(
            **inputs, start_positions=alone.labels[:, 0], end_positions=alone.labels[:, 1]
        ).loss
        assert losses.hard(forward(packed, alone, LOGITS).logits, alone.labels) == pytest.approx(
            float(loss), abs=1e-6
        )
    again = as_question_answering(packed)
    assert all(
        torch.equal(value, padded.state_dict()[name]) for name, value in again.state_dict().items()
    )
    # as a teacher's file has it, whose configuration a student made of it copies
    packed.config.dtype = torch.bfloat16
    assert {value.dtype for value in as_question_answering(packed).parameters()} == {torch.float32}


@pytest.mark.parametrize("name", [name for name in methods.names() if method_class(name).spans])
def test_a_loss_of_logits_is_the_mean_over_questions(name):
    """So neither the longest sequence of a batch nor the other ones change what a question teaches."""
    kind = method_class(name)
    bench = Bench(kind(**kind.tiny_settings), 2, spans=True)
    student = bench.build()[0]
    student.model.eval()
    compared, stages = 0, bench.method.stages(bench.setup)
    for stage in stages:
        for term in stage.terms.values():
            if term.student != LOGITS:
                continue
            values = []
            for examples in ([0, 1, 2], [0], [1], [2]):
                batch = bench.data.batch(examples)
                with torch.no_grad():
                    ours, theirs = (
                        forward(student.model, batch, LOGITS),
                        forward(bench.teacher, batch, LOGITS),
                    )
                    values.append(float(term.fn(batch, ours, theirs, student.aux)))
            assert values[0] == pytest.approx(np.mean(values[1:]), rel=1e-4)
            compared += 1
    assert compared or not stages


def test_ternarybert_adds_the_means_of_start_and_end_over_384_places():
    """As its authors' code, which fills every sequence; it does not depend on the batch's longest."""
    bench = Bench(method_class("ternarybert")(), 2, spans=True)
    student = bench.build()[0]
    student.model.eval()
    (stage,) = bench.method.stages(bench.setup)
    batch = bench.data.batch(range(4))
    with torch.no_grad():
        ours = forward(student.model, batch, LOGITS)
        theirs = forward(bench.teacher, batch, LOGITS)
        value = float(stage.terms["pred"].fn(batch, ours, theirs, student.aux))
    # rows are the start of the first question, its end, the start of the second, and so on
    start_end = -(theirs.logits.softmax(-1) * ours.logits.log_softmax(-1)).sum(-1).view(4, 2)
    start = start_end[:, 0].sum() / (4 * 384)
    end = start_end[:, 1].sum() / (4 * 384)
    assert value == pytest.approx(float(start + end), rel=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("family", ["bert", "roberta", "electra", "mpnet"])
@pytest.mark.parametrize("name", [name for name in methods.names() if method_class(name).spans])
def test_the_folder_of_a_student_answers_padded_as_the_student_does_packed(name, family, tmp_path):
    kind = method_class(name)
    rounded = {"activation_bits": 32} if "activation_bits" in vars(kind()) else {}
    settings = {**kind.tiny_settings, **(rounded if family != "bert" else {})}
    bench = Bench(kind(**settings), 2, spans=True, family=family)
    (model,) = bench.deployed(bench.trainer()).values()
    as_question_answering(model).save_pretrained(tmp_path)
    opened = AutoModelForQuestionAnswering.from_pretrained(tmp_path).eval()
    batch = bench.data.batch(range(4))
    mask = batch.layout.mask_BL
    with torch.no_grad():
        ours = forward(model, batch, LOGITS).logits.view(4, 2, -1)
        theirs = opened(
            input_ids=batch.layout.padded(batch.token_ids) * mask, attention_mask=mask.long()
        )
    for side, logits in enumerate((theirs.start_logits, theirs.end_logits)):
        assert (ours[:, side] - logits)[mask].abs().max() < 1e-5


def test_places_without_a_token_get_no_probability_and_no_gradient():
    bench = Bench(
        method_class("kd")(layers=2, hidden=12, heads=4, ffn=24, start="random"), 2, spans=True
    )
    batch = bench.data.batch(range(6))
    logits = forward(bench.teacher, batch, LOGITS).logits.detach().requires_grad_()
    other = forward(bench.build()[0].model.eval(), batch, LOGITS).logits
    outside = ~batch.layout.mask_BL.repeat_interleave(2, 0)
    for value in (
        losses.hard(logits, batch.labels),
        losses.soft_kl_batchmean(logits, other, 10.0),
        losses.soft_cross_entropy_batchmean(logits, other),
        losses.symmetric_kl_batchmean(logits, other),
    ):
        (gradient,) = torch.autograd.grad(value, logits, retain_graph=True)
        assert torch.isfinite(value)
        assert (gradient[outside] == 0).all()
    assert (logits.softmax(-1)[outside] == 0).all()


@pytest.fixture
def asked(tmp_path, teacher_folder) -> list[object]:
    for version in ("1.1", "2.0"):
        squad_articles.write_tiny(tmp_path / "tiny-squad", version=version)
    return [
        "--data",
        tmp_path / "tiny-squad",
        "--teacher",
        teacher_folder,
        "--device",
        "cpu",
        "--set",
        "max_length=40",
    ]


@pytest.mark.slow
def test_a_run_of_questions_is_recorded_reported_and_kept(bench, tmp_path, asked):
    """Two versions, two rows: paired comparisons stand in the report, and a kept student answers as its record says."""
    shape = f"{tiny.SHAPE}:start=random"
    places = ["--results", tmp_path / "r", "--reports", tmp_path / "p"]
    done = bench(
        *(
            "run",
            "--methods",
            f"finetune:{shape},kd:{shape}",
            "--tasks",
            "squad,squad_v2",
            *asked,
            *places,
        ),
        *("--epochs", 1, "--save-students", tmp_path / "s"),
    )
    assert done.returncode == OK, done.stderr
    store = Store(tmp_path / "r")
    records = list(store.records())
    assert all(set(record.scores["validation"]) == set(record.task.metrics) for record in records)
    assert len(records) == 6
    done = bench("compare", f"kd:{shape}", f"finetune:{shape}", "--results", tmp_path / "r")
    assert done.returncode == OK, done.stderr
    folder = next(
        path.parent
        for path in (tmp_path / "s").rglob("config.json")
        if path.parent.name.startswith("kd")
    )
    assert "question-answering" in (folder / "README.md").read_text()
    record = store.find_by_key(folder.name.rpartition("-")[2])
    rows = f"checkpoint:{folder}"
    task = record.cell.tasks[0]
    done = bench(
        "run",
        "--methods",
        rows,
        "--tasks",
        task,
        *asked,
        "--results",
        tmp_path / "q",
        "--reports",
        tmp_path / "p",
    )
    assert done.returncode == OK, done.stderr
    (again,) = (r for r in Store(tmp_path / "q").records() if r.cell.method == "checkpoint")
    assert again.scores == record.scores


def test_what_cannot_be_done_with_questions_is_refused(bench, tmp_path, asked, teacher_folder):
    places = ["--results", tmp_path / "r", "--reports", tmp_path / "p"]
    for words in (
        ("--methods", "fastbert", *asked),
        ("--methods", "mtdnn", *asked),
        ("--methods", "finetune", "--augment", "rules", *asked),
        ("--methods", "finetune", *asked, "--data", "sample"),
    ):
        done = bench("plan", "--tasks", "squad", *words, *places[:2])
        assert (done.returncode, len(done.stderr.splitlines())) == (BAD_INPUT, 1), words
    assert not (tmp_path / "r").exists()
