"""The same weights on several backends: equal answers are seen to be equal, a fast wrong export is named, any classifier takes part."""

from __future__ import annotations

import json
import shutil

import pytest
import tiny
import torch
from transformers import (
    AutoTokenizer,
    BertModel,
    DistilBertConfig,
    DistilBertForSequenceClassification,
)

from bench.cache import cache_root
from bench.measure.busy import training_here


@pytest.fixture(scope="module")
def places(tmp_path_factory, teacher_folder):
    """Two classifiers of rte: a BERT of this program's kind, and a DistilBERT, which has no segments."""
    root = tmp_path_factory.mktemp("classifiers")
    tokenizer = AutoTokenizer.from_pretrained(teacher_folder)
    labels = {0: "entailment", 1: "not_entailment"}
    bert = tiny.classifier(layers=2, seed=1)
    shape = {
        "dim": 12,
        "n_layers": 2,
        "n_heads": 2,
        "hidden_dim": 24,
        "vocab_size": tiny.config().vocab_size,
    }
    torch.manual_seed(0)
    distilbert = DistilBertForSequenceClassification(DistilBertConfig(**shape, num_labels=2))
    for name, model in {"bert": bert, "distilbert": distilbert}.items():
        model.config.id2label, model.config.label2id = (
            labels,
            {label: code for code, label in labels.items()},
        )
        with torch.no_grad():  # weights as large as trained ones, so that a wrong one shows
            for weight in model.parameters():
                if weight.dim() == 2:
                    weight.normal_(std=0.5)
        model.save_pretrained(root / name)
        tokenizer.save_pretrained(root / name)
    return root


def typed(glue_folder, *backends):
    return (
        "--tasks",
        "rte",
        "--data",
        glue_folder,
        "--backends",
        ",".join(backends),
        "--rounds",
        6,
        "--threads",
        1,
    )


def test_torchs_own_attentions_agree(bench, places, glue_folder, tmp_path):
    file = tmp_path / "answer.json"
    done = bench(
        "speed",
        "--models",
        places / "bert",
        places / "distilbert",
        *typed(glue_folder, "sdpa"),
        "--json",
        file,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    answer = json.loads(file.read_text())
    rows = answer["models"]
    assert [(row["model"].split("/")[-1], row["backend"]) for row in rows] == [
        (name, backend) for name in ("bert", "distilbert") for backend in ("eager", "sdpa")
    ]
    for row in rows:
        assert (row["changed"], row["examples"], len(row["seconds"])) == (0, 40, 6)
        assert 0 < row["p50"] <= row["p90"]
        assert row["bytes"] > 1000
    assert rows[0]["score"] == rows[1]["score"]
    assert {"commit", "dirty"} <= set(answer["code"])


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["onnx", "onnx-int8", "openvino"])
def test_an_exported_graph_answers_the_same(bench, places, glue_folder, tmp_path, backend):
    for package in ("onnx", "openvino" if backend == "openvino" else "onnxruntime"):
        pytest.importorskip(package)
    file = tmp_path / "answer.json"
    done = bench(
        "speed",
        "--models",
        places / "bert",
        places / "distilbert",
        *typed(glue_folder, backend),
        "--json",
        file,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    for row in json.loads(file.read_text())["models"]:
        assert row["largest_difference"] < (1.0 if backend == "onnx-int8" else 1e-4)
        assert backend == "onnx-int8" or row["changed"] == 0


@pytest.mark.slow
def test_an_export_with_a_transposed_weight_is_wrong(bench, places, glue_folder, monkeypatch):
    pytest.importorskip("onnxruntime")
    pytest.importorskip("onnx")
    from bench.measure import backends

    right = backends.write_onnx

    def transposed(model, file, *rest):
        dense = model.bert.encoder.layer[1].attention.output.dense
        with torch.no_grad():
            dense.weight.copy_(dense.weight.T.clone())
        right(model, file, *rest)

    monkeypatch.setattr(backends, "write_onnx", transposed)
    done = bench("speed", "--models", places / "bert", *typed(glue_folder, "onnx"))
    assert done.returncode == 1
    assert "onnx: wrong: its logits differ" in done.stdout


def test_what_is_no_classifier_of_the_task_is_refused(bench, places, glue_folder, tmp_path):
    headless = tmp_path / "headless"
    shutil.copytree(places / "bert", headless)
    BertModel.from_pretrained(places / "bert").save_pretrained(headless)
    for place, reason in {
        tmp_path / "nowhere": "there is no such folder",
        headless: "is it a trained model of rte?",
        glue_folder: "config.json",
    }.items():
        done = bench("speed", "--models", place, *typed(glue_folder, "sdpa"))
        assert done.returncode == 2
        assert str(place) in done.stderr
        assert reason in done.stderr
    done = bench("speed", "--models", places / "bert", *typed(glue_folder, "tensorrt"))
    assert done.returncode == 2
    assert "tensorrt" in done.stderr


@pytest.mark.parametrize("threads", [0, -1, 100_000])
def test_threads_that_a_machine_does_not_have_are_refused(bench, places, glue_folder, threads):
    done = bench("speed", "--models", places / "bert", *typed(glue_folder, "sdpa")[:-1], threads)
    assert done.returncode == 2
    assert f"--threads {threads}: " in done.stderr


def test_times_beside_other_work_are_refused_or_called_busy(
    bench, places, glue_folder, tmp_path, monkeypatch
):
    """As `speed` does it: the same guards."""
    monkeypatch.setattr("bench.measure.busy.busy_cores", lambda: 1.26)
    done = bench("speed", "--models", places / "bert", *typed(glue_folder, "sdpa"))
    assert done.returncode == 2
    assert "other processes use 1.3 cores" in done.stderr
    assert "--busy" in done.stderr
    file = tmp_path / "answer.json"
    done = bench(
        "speed", "--models", places / "bert", *typed(glue_folder, "sdpa"), "--busy", "--json", file
    )
    assert done.returncode == 0
    assert "p50 (ms) (busy)" in done.stdout
    assert "Other processes used 1.3 cores when it began" in done.stdout
    assert json.loads(file.read_text())["env"]["busy_cores"] == 1.26


def test_times_beside_a_training_are_refused(bench, places, glue_folder):
    with training_here(cache_root()):
        done = bench("speed", "--models", places / "bert", *typed(glue_folder, "sdpa"))
    assert done.returncode == 2
    assert "cells are training" in done.stderr
