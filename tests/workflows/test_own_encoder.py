"""Rows that tune another encoder whole, with a vocabulary of its own."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy
import pytest
import tiny
from transformers import ElectraConfig, ElectraForPreTraining

from bench.record.store import Store


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


def test_another_encoder_is_tuned_whole_with_its_own_vocabulary(bench, electra, glue_folder, teacher_folder, tmp_path):
    data = ("--tasks", "rte", "--data", glue_folder, "--teacher", teacher_folder)
    options = (*data, "--epochs", 1, "--results", tmp_path / "r", "--reports", tmp_path / "p")
    rows = f"finetune:encoder={electra},finetune:encoder=teacher,finetune:{tiny.SHAPE}:start=random"
    answer = bench("run", "--methods", rows, "--seeds", "0,1", *options, "--save-students", tmp_path / "s")
    assert answer.returncode == 0, answer.stderr
    students = [record for record in Store(tmp_path / "r").records() if record.cell.method == "finetune"]
    assert len(students) == 6
    tokenizers = {record.cell.label: record.cell.tokenizer for record in students}
    assert len(set(tokenizers.values())) == 2
    assert len({record.weights for record in students}) == 6
    (own,) = (r for r in students if str(electra) in r.cell.label and r.cell.seed == 0)
    assert own.artefacts["teacher_weights"]["beginning"] == "given: electra"
    # what was saved is a plain model with its own tokenizer, which answers as the record says
    (folder,) = (tmp_path / "s").glob("*/rte/*electra-seed-0*")
    assert json.loads((folder / "config.json").read_text())["architectures"] == ["ElectraForSequenceClassification"]
    answer = bench("run", "--methods", f"checkpoint:{folder}", *options)
    assert answer.returncode == 0, answer.stderr
    store = Store(tmp_path / "r")
    (again,) = (record for record in store.records() if record.cell.method == "checkpoint")
    assert again.weights == own.weights
    logits = [store.predictions(record)["logits.validation"] for record in (own, again)]
    assert numpy.array_equal(*logits)


def test_what_an_own_encoder_cannot_go_with_is_one_line(bench, electra, glue_folder, teacher_folder, tmp_path):
    options = ("--tasks", "rte", "--data", glue_folder, "--teacher", teacher_folder)
    without = tmp_path / "without"
    shutil.copytree(electra, without, ignore=shutil.ignore_patterns("model.safetensors"))
    for row, more, said in (
        ("finetune:encoder=teacher:layers=2", (), "leave layers out"),
        (f"finetune:encoder={electra}:start=random", (), "leave start out"),
        (f"finetune:encoder={electra}", ("--augment", "rules"), "leave one out"),
        (f"finetune:encoder={without}", ("--results", tmp_path / "r"), "no model.safetensors"),
        ("finetune:encoder=/nowhere", (), "there is no such folder"),
    ):
        answer = bench("run" if more[:1] == ("--results",) else "plan", "--methods", row, *options, *more)
        assert answer.returncode == 2, row
        assert said in answer.stderr
        assert len(answer.stderr.splitlines()) == 1
