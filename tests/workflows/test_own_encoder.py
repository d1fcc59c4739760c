"""Rows that tune another encoder whole, with a vocabulary of its own."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy
import pytest
import tiny
import torch
from safetensors.torch import load_file, save_file
from transformers import ElectraConfig, ElectraForPreTraining, FunnelConfig, GPT2Config

from bench.errors import BAD_INPUT
from bench.plan.spelling import parse_one
from bench.record.store import Store
from methods.api import Setup


@pytest.fixture
def electra(teacher_folder, tmp_path) -> Path:
    """Another family with other numbers for the same words: read with the teacher's, its answers would be others."""
    special, words = tiny.SPECIAL, (teacher_folder / "vocab.txt").read_text().splitlines()
    own = [*special, "unread", *reversed([word for word in words if word not in special])]
    config = ElectraConfig(
        vocab_size=len(own),
        embedding_size=8,
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=64,
    )
    folder = tmp_path / "electra"
    ElectraForPreTraining(config).save_pretrained(folder)
    (folder / "vocab.txt").write_text("\n".join(own) + "\n")
    return folder


def test_another_encoder_is_tuned_whole_with_its_own_vocabulary(
    bench, electra, glue_folder, teacher_folder, tmp_path
):
    data = ("--tasks", "rte", "--data", glue_folder, "--teacher", teacher_folder)
    options = (*data, "--epochs", 1, "--results", tmp_path / "r", "--reports", tmp_path / "p")
    # the same weights in half the numbers, with another order of words
    other = shutil.copytree(electra, tmp_path / "other")
    ElectraForPreTraining.from_pretrained(electra).half().save_pretrained(other)
    words = (other / "vocab.txt").read_text().splitlines()
    (other / "vocab.txt").write_text("\n".join([*words[:6], *reversed(words[6:])]) + "\n")
    rows = f"finetune:encoder={electra},finetune:encoder={other},finetune:encoder=teacher,finetune:{tiny.SHAPE}:start=random"
    answer = bench(
        "run", "--methods", rows, "--seeds", "0,1", *options, "--save-students", tmp_path / "s"
    )
    assert answer.returncode == 0, answer.stderr
    students = [
        record for record in Store(tmp_path / "r").records() if record.cell.method == "finetune"
    ]
    assert len(students) == 8
    tokenizers = {record.cell.label: record.cell.tokenizer for record in students}
    assert len(set(tokenizers.values())) == 3
    assert len({record.weights for record in students}) == 8
    (own,) = (r for r in students if str(electra) in r.cell.label and r.cell.seed == 0)
    assert own.artefacts["teacher_weights"]["beginning"] == "given: electra"
    # what was saved is a plain model with its own tokenizer, which answers as the record says
    (half,) = (tmp_path / "s").glob("*/rte/*other-seed-0*")
    assert {tensor.dtype for tensor in load_file(half / "model.safetensors").values()} == {
        torch.float32
    }
    (folder,) = (tmp_path / "s").glob("*/rte/*electra-seed-0*")
    assert json.loads((folder / "config.json").read_text())["architectures"] == [
        "ElectraForSequenceClassification"
    ]
    answer = bench("run", "--methods", f"checkpoint:{folder}", *options)
    assert answer.returncode == 0, answer.stderr
    store = Store(tmp_path / "r")
    (again,) = (record for record in store.records() if record.cell.method == "checkpoint")
    assert again.weights == own.weights
    assert again.cell.tokenizer == own.cell.tokenizer
    logits = [store.predictions(record)["logits.validation"] for record in (own, again)]
    assert numpy.array_equal(*logits)


def test_a_head_is_new_with_every_seed_and_as_large_as_the_task_asks(electra, teacher_folder):
    """Also one that is not named classifier: only the encoder is handed on, which was read with two labels."""
    row = parse_one(f"finetune:encoder={electra}").method
    config = GPT2Config(
        vocab_size=20, n_positions=64, n_embd=16, n_layer=2, n_head=2, pad_token_id=0
    )
    (artefact,) = row.requires(config)
    prepared = {artefact.name: artefact.blank(config, 2)}
    heads = []
    for seed in (0, 1):
        torch.manual_seed(seed)
        model = row.build(Setup(config, 3, ("mnli",), prepared)).model
        heads.append(model.score.weight)
        for name, value in model.base_model.state_dict().items():
            assert torch.equal(value, prepared[artefact.name][f"{model.base_model_prefix}.{name}"])
    assert heads[0].shape == (3, 16)
    assert not torch.equal(*heads)


def test_what_an_own_encoder_cannot_go_with_is_one_line(
    bench, electra, glue_folder, teacher_folder, tmp_path
):
    options = ("--tasks", "rte", "--data", glue_folder, "--teacher", teacher_folder)
    without = tmp_path / "without"
    shutil.copytree(electra, without, ignore=shutil.ignore_patterns("model.safetensors"))
    funnel, lacking = tmp_path / "funnel", tmp_path / "lacking"
    for folder in (funnel, lacking):
        shutil.copytree(electra, folder)
    FunnelConfig().save_pretrained(funnel)
    weights = load_file(electra / "model.safetensors")
    save_file(
        {f"x{name}": value for name, value in weights.items()},
        lacking / "model.safetensors",
        metadata={"format": "pt"},
    )
    for row, more, said in (
        (f"finetune:encoder={funnel}", (), "a funnel is no encoder of texts up to a length"),
        ("finetune:encoder=teacher:layers=2", (), "leave layers out"),
        (f"finetune:encoder={electra}:start=random", (), "leave start out"),
        (f"finetune:encoder={electra}", ("--augment", "rules"), "leave one out"),
        (f"finetune:encoder={without}", ("--results", tmp_path / "r"), "no model.safetensors"),
        ("finetune:encoder=/nowhere", (), "there is no such folder"),
    ):
        answer = bench(
            "run" if more[:1] == ("--results",) else "plan", "--methods", row, *options, *more
        )
        assert answer.returncode == 2, row
        assert said in answer.stderr
        assert len(answer.stderr.splitlines()) == 1
    # a file whose names are of something else: nothing may begin at random in silence
    answer = bench(
        "run",
        "--methods",
        f"finetune:encoder={lacking}",
        *options,
        "--results",
        tmp_path / "r",
        "--reports",
        tmp_path / "p",
    )
    assert answer.returncode == BAD_INPUT
    assert "lacking: its file has no weights for electra." in answer.stderr
