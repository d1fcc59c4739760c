"""Weights of others: .bin files made safe, and finished general starts."""

from __future__ import annotations

import json
import shutil

import pytest
import tiny
import torch
from safetensors.torch import load_file
from shipped_methods import tiny_rows
from transformers import BertModel, DistilBertForMaskedLM, MobileBertForPreTraining

from bench.files import MODE
from bench.plan.spelling import parse_one
from bench.record.store import Store
from methods.api import Setup
from methods.core.parts import bert_config
from methods.distilbert import distilbert


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
        name.replace("LayerNorm.weight", "LayerNorm.gamma").replace(
            "LayerNorm.bias", "LayerNorm.beta"
        ): value
        for name, value in weights.items()
    }
    old |= {"fit_dense.weight": torch.randn(24, 12), "fit_dense.bias": torch.randn(24)}
    config.architectures = ["BertModel"]
    config.save_pretrained(folder)
    torch.save(old, folder / "pytorch_model.bin")
    return folder, weights, old


def test_a_bin_file_becomes_safetensors_with_the_same_tensors(bench, binary, tmp_path):
    folder, _, old = binary
    answer = bench("export", "--convert", folder, "--to", tmp_path / "new")
    assert answer.returncode == 0, answer.stderr
    again = load_file(tmp_path / "new" / "model.safetensors")
    assert set(again) == set(old)
    assert all(torch.equal(again[name], old[name]) for name in old)
    assert (tmp_path / "new" / "vocab.txt").is_file()
    assert not list((tmp_path / "new").glob("*.bin"))
    assert {file.stat().st_mode & 0o777 for file in (tmp_path / "new").iterdir()} == {MODE}


def test_a_bin_file_that_could_run_code_is_refused_and_nothing_is_written(
    bench, binary, tmp_path, capsys
):
    folder, _, _ = binary
    torch.save({"x": Evil()}, folder / "pytorch_model.bin")
    answer = bench("export", "--convert", folder, "--to", tmp_path / "new")
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
        answer = bench("export", "--convert", source, "--to", target)
        assert answer.returncode == 2
        assert said in answer.stderr
        assert len(answer.stderr.splitlines()) == 1


def test_a_given_start_is_what_the_student_begins_with(
    bench, binary, glue_folder, teacher_folder, tmp_path
):
    folder, weights, old = binary
    start = tmp_path / "start"
    assert bench("export", "--convert", folder, "--to", start).returncode == 0
    from bench.data.checkpoints import find
    from methods.core.artefacts import given_tensors

    made = given_tensors(start, 2)
    for name, value in weights.items():
        assert torch.equal(made[name.removeprefix("bert.")], value)
    assert torch.equal(made["projection.weight"], old["fit_dense.weight"])
    rows = f"tinybert:{tiny.SHAPE}:start_from={start}"
    options = (
        "--tasks",
        "rte",
        "--data",
        glue_folder,
        "--teacher",
        teacher_folder,
        "--results",
        tmp_path / "r",
    )
    answer = bench("run", "--methods", rows, *options, "--epochs", 1, "--reports", tmp_path / "p")
    assert answer.returncode == 0, answer.stderr
    (record,) = (r for r in Store(tmp_path / "r").records() if r.cell.method == "tinybert")
    assert record.cell.artefacts["given_start"] == find(str(start)).sha256
    assert record.artefacts["given_start"]["beginning"] == "given: start"
    assert (
        "given: start" in next((tmp_path / "p").glob("*/*/tables/cost-of-training.csv")).read_text()
    )


def test_a_deeper_start_gives_its_lowest_layers(
    bench, binary, glue_folder, teacher_folder, tmp_path
):
    from methods.core.artefacts import given_tensors

    start = tmp_path / "start"
    assert bench("export", "--convert", binary[0], "--to", start).returncode == 0
    whole, lowest = (given_tensors(start, layers) for layers in (2, 1))
    assert {name for name in whole if name not in lowest} == {
        name for name in whole if ".layer.1." in name
    }
    assert all(torch.equal(value, whole[name]) for name, value in lowest.items())
    options = (
        "--tasks",
        "rte",
        "--data",
        glue_folder,
        "--teacher",
        teacher_folder,
        "--results",
        tmp_path / "r",
    )
    row = f"finetune:{tiny.SHAPE.replace('layers=2', 'layers=1')}:start_from={start}"
    answer = bench("run", "--methods", row, *options, "--epochs", 1, "--reports", tmp_path / "p")
    assert answer.returncode == 0, answer.stderr
    (record,) = (r for r in Store(tmp_path / "r").records() if r.cell.method == "finetune")
    assert record.artefacts["given_start"]["beginning"] == "given: start, its lowest 1 of 2 layers"


def of_the_hub(method: str, small: str):
    """A student of this method as its authors released it: with the head of its pre-training, and without a pooler."""
    setup = Setup(tiny.config(), 2, ("rte",))
    if method == "mobilebert":
        return MobileBertForPreTraining(parse_one(small).method.model(setup).config)
    return DistilBertForMaskedLM(distilbert(setup, 1, "random").config)  # half the teacher


@pytest.mark.parametrize("method", ["mobilebert", "distilbert"])
def test_what_authors_released_is_where_their_method_begins(
    method, bench, glue_folder, teacher_folder, tmp_path
):
    row, start = tiny_rows(method), tmp_path / "released"
    released = of_the_hub(method, row)
    shutil.copytree(teacher_folder, start)
    released.save_pretrained(start)
    options = (
        "--tasks",
        "rte",
        "--data",
        glue_folder,
        "--teacher",
        teacher_folder,
        "--results",
        tmp_path / "r",
    )
    kept = ("--save-students", tmp_path / "s", "--reports", tmp_path / "p")
    answer = bench(
        "run", "--methods", f"{row}:start_from={start}", *options, "--epochs", 0.05, *kept
    )
    assert answer.returncode == 0, answer.stderr
    assert "no pre-training" not in answer.stdout
    assert "second step only" not in answer.stdout
    (record,) = (r for r in Store(tmp_path / "r").records() if r.cell.method == method)
    assert record.artefacts["given_start"]["beginning"] == "given: released"
    trained = load_file(next((tmp_path / "s").rglob(f"{method}*/model.safetensors")))
    begun = released.base_model.state_dict()
    # a step away
    assert (
        max((trained[f"{method}.{name}"] - value).abs().max() for name, value in begun.items())
        < 0.01
    )
    # another form of the family, and another family
    other = f"{row}:key_query=shared" if method == "mobilebert" else f"kd:{tiny.SHAPE}"
    said = (
        "its use_bottleneck_attention is True, the row's is False"
        if method == "mobilebert"
        else "its shape is not the row's"
    )
    for wrong, why in (
        (other, said),
        (
            "kd" if method == "mobilebert" else tiny_rows("mobilebert"),
            "a start of this row has to be",
        ),
    ):
        answer = bench("plan", "--methods", f"{wrong}:start_from={start}", *options)
        assert answer.returncode == 2
        assert why in answer.stderr


def test_the_first_berts_name_no_model_type(bench, binary, tmp_path):
    folder = binary[0]
    config = json.loads((folder / "config.json").read_text())
    del config["model_type"]
    (folder / "config.json").write_text(json.dumps(config))
    assert bench("export", "--convert", folder, "--to", tmp_path / "new").returncode == 0
    assert json.loads((tmp_path / "new" / "config.json").read_text()) == {
        **config,
        "model_type": "bert",
    }


def test_a_distilbert_is_a_start_without_segments(teacher_folder, tmp_path):
    from transformers import DistilBertConfig, DistilBertModel

    from methods.api import Shape
    from methods.core.artefacts import given_tensors

    start, teacher = tmp_path / "distil", tiny.config()
    shutil.copytree(teacher_folder, start)
    sizes = {
        "vocab_size": teacher.vocab_size,
        "max_position_embeddings": teacher.max_position_embeddings,
    }
    theirs = DistilBertModel(
        DistilBertConfig(**sizes, n_layers=2, dim=12, n_heads=4, hidden_dim=24)
    ).eval()
    theirs.save_pretrained(start)
    ours = BertModel(bert_config(Shape(2, 12, 4, 24), teacher), add_pooling_layer=False).eval()
    ours.load_state_dict(given_tensors(start, 2))
    ids, mask = (
        torch.tensor([[2, 5, 6, 3], [2, 7, 3, 0]]),
        torch.tensor([[1, 1, 1, 1], [1, 1, 1, 0]]),
    )
    states = ours(input_ids=ids, attention_mask=mask).last_hidden_state
    assert torch.allclose(
        states[mask == 1], theirs(ids, mask).last_hidden_state[mask == 1], atol=1e-6
    )


def test_a_start_of_another_shape_or_vocabulary_is_refused(
    bench, binary, glue_folder, teacher_folder, tmp_path
):
    start = tmp_path / "start"
    assert bench("export", "--convert", binary[0], "--to", start).returncode == 0
    options = ("--tasks", "rte", "--data", glue_folder, "--teacher", teacher_folder)
    answer = bench("plan", "--methods", f"kd:start_from={start}", *options)
    assert answer.returncode == 2
    assert "add layers=2:hidden=12:heads=4:ffn=24" in answer.stderr
    assert (
        bench(
            "plan",
            "--methods",
            f"kd:{tiny.SHAPE.replace('layers=2', 'layers=3')}:start_from={start}",
            *options,
        ).returncode
        == 2
    )
    other = tmp_path / "other"
    shutil.copytree(start, other)
    words = (other / "vocab.txt").read_text().splitlines()
    (other / "vocab.txt").write_text("\n".join([*words[:-2], words[-1], words[-2]]) + "\n")
    answer = bench("plan", "--methods", f"kd:{tiny.SHAPE}:start_from={other}", *options)
    assert answer.returncode == 2
    assert "another vocabulary" in answer.stderr
