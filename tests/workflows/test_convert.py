"""Weights of others: .bin files made safe, and finished general starts."""

from __future__ import annotations

import shutil

import pytest
import tiny
import torch
from transformers import BertModel

from bench.files import MODE
from bench.record.store import Store
from methods.parts import bert_config


class Evil:
    def __reduce__(self):
        return (print, ("this ran",))


@pytest.fixture
def binary(tmp_path):
    """A folder as older checkpoints have it: 2 x 12, LayerNorm's weights under their old names, a projection beside."""
    folder = tiny.save_teacher(tmp_path / "old")
    (folder / "model.safetensors").unlink()
    from methods.api import Shape

    config = bert_config(Shape(2, 12, 4, 24), tiny.config())
    torch.manual_seed(5)
    weights = {f"bert.{name}": value for name, value in BertModel(config).state_dict().items()}
    old = {
        name.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta"): value
        for name, value in weights.items()
    }
    old |= {"fit_dense.weight": torch.randn(24, 12), "fit_dense.bias": torch.randn(24)}
    config.architectures = ["BertModel"]
    config.save_pretrained(folder)
    torch.save(old, folder / "pytorch_model.bin")
    return folder, weights, old


def test_a_bin_file_becomes_safetensors_with_the_same_tensors(bench, binary, tmp_path):
    from safetensors.torch import load_file

    folder, _, old = binary
    answer = bench("convert", folder, tmp_path / "new")
    assert answer.returncode == 0, answer.stderr
    again = load_file(tmp_path / "new" / "model.safetensors")
    assert set(again) == set(old)
    assert all(torch.equal(again[name], old[name]) for name in old)
    assert (tmp_path / "new" / "vocab.txt").is_file()
    assert not list((tmp_path / "new").glob("*.bin"))
    assert {file.stat().st_mode & 0o777 for file in (tmp_path / "new").iterdir()} == {MODE}


def test_a_bin_file_that_could_run_code_is_refused_and_nothing_is_written(bench, binary, tmp_path, capsys):
    folder, _, _ = binary
    torch.save({"x": Evil()}, folder / "pytorch_model.bin")
    answer = bench("convert", folder, tmp_path / "new")
    assert answer.returncode == 2
    assert "not a file of plain tensors (it names print)" in answer.stderr
    assert "weights_only" not in answer.stderr
    assert "this ran" not in answer.stdout
    assert not (tmp_path / "new").exists()


def test_what_is_not_there_or_in_the_way_is_said(bench, binary, tmp_path, teacher_folder):
    folder, _, _ = binary
    for source, target, said in (
        (tmp_path / "nowhere", tmp_path / "new", "no such folder"),
        (teacher_folder, tmp_path / "new", "has model.safetensors already"),
        (folder, folder, "exists"),
        ("somebody/something", tmp_path / "new", "the hub did not give it"),
    ):
        answer = bench("convert", source, target)
        assert answer.returncode == 2
        assert said in answer.stderr
        assert len(answer.stderr.splitlines()) == 1


def test_a_given_start_is_what_the_student_begins_with(bench, binary, glue_folder, teacher_folder, tmp_path):
    folder, weights, old = binary
    start = tmp_path / "start"
    assert bench("convert", folder, start).returncode == 0
    from bench.data.checkpoints import find
    from methods.artefacts import given_tensors

    made = given_tensors(start)
    for name, value in weights.items():
        if not name.startswith("bert.pooler."):
            assert torch.equal(made[name.removeprefix("bert.")], value)
    assert torch.equal(made["projection.weight"], old["fit_dense.weight"])
    rows = f"tinybert:{tiny.SHAPE}:start_from={start}"
    options = ("--tasks", "rte", "--data", glue_folder, "--teacher", teacher_folder, "--results", tmp_path / "r")
    answer = bench("run", "--methods", rows, *options, "--epochs", 1, "--reports", tmp_path / "p")
    assert answer.returncode == 0, answer.stderr
    (record,) = (r for r in Store(tmp_path / "r").records() if r.cell.method == "tinybert")
    assert record.cell.artefacts["given_start"] == find(str(start)).sha256
    assert record.artefacts["given_start"]["beginning"] == "given: start"
    assert "given: start" in next((tmp_path / "p").glob("*/*/tables/cost-of-training.csv")).read_text()


def test_a_distilbert_is_a_start_without_segments(bench, glue_folder, teacher_folder, tmp_path):
    from transformers import DistilBertConfig, DistilBertModel

    from methods.api import Shape
    from methods.artefacts import given_tensors

    start, teacher = tmp_path / "distil", tiny.config()
    shutil.copytree(teacher_folder, start)
    sizes = {"vocab_size": teacher.vocab_size, "max_position_embeddings": teacher.max_position_embeddings}
    theirs = DistilBertModel(DistilBertConfig(**sizes, n_layers=2, dim=12, n_heads=4, hidden_dim=24)).eval()
    theirs.save_pretrained(start)
    ours = BertModel(bert_config(Shape(2, 12, 4, 24), teacher), add_pooling_layer=False).eval()
    ours.load_state_dict(given_tensors(start))
    ids, mask = torch.tensor([[2, 5, 6, 3], [2, 7, 3, 0]]), torch.tensor([[1, 1, 1, 1], [1, 1, 1, 0]])
    states = ours(input_ids=ids, attention_mask=mask).last_hidden_state
    assert torch.allclose(states[mask == 1], theirs(ids, mask).last_hidden_state[mask == 1], atol=1e-6)
    rows = f"finetune:{tiny.SHAPE}:start_from={start}"
    options = ("--tasks", "rte", "--data", glue_folder, "--teacher", teacher_folder, "--results", tmp_path / "r")
    answer = bench("run", "--methods", rows, *options, "--epochs", 1, "--reports", tmp_path / "p")
    assert answer.returncode == 0, answer.stderr


def test_a_start_of_another_shape_or_vocabulary_is_refused(bench, binary, glue_folder, teacher_folder, tmp_path):
    start = tmp_path / "start"
    assert bench("convert", binary[0], start).returncode == 0
    options = ("--tasks", "rte", "--data", glue_folder, "--teacher", teacher_folder)
    answer = bench("plan", "--methods", f"kd:start_from={start}", *options)
    assert answer.returncode == 2
    assert "add layers=2:hidden=12:heads=4:ffn=24" in answer.stderr
    other = tmp_path / "other"
    shutil.copytree(start, other)
    words = (other / "vocab.txt").read_text().splitlines()
    (other / "vocab.txt").write_text("\n".join([*words[:-2], words[-1], words[-2]]) + "\n")
    answer = bench("plan", "--methods", f"kd:{tiny.SHAPE}:start_from={other}", *options)
    assert answer.returncode == 2
    assert "another vocabulary" in answer.stderr
