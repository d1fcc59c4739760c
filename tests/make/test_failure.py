"""What a record says of an error, and of a training that went wrong."""

from __future__ import annotations

import json
import math
import random
import tempfile
from pathlib import Path

import pandas
import pytest
import tiny
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.make.failure import EXPLODED, faults_of_training, method_line, redact_paths
from bench.record.store import Store
from methods.core.losses import hidden_cosine_tokenmean

ROOT = Path(__file__).parents[2]


@pytest.fixture
def _known_folders(monkeypatch, tmp_path):
    monkeypatch.setattr(tempfile, "tempdir", "/tmp")
    monkeypatch.setenv("HOME", "/home/somebody")
    monkeypatch.setenv("BERT_BENCH_CACHE", "/home/somebody/cache")
    monkeypatch.chdir(tmp_path)


@pytest.mark.usefixtures("_known_folders")
@pytest.mark.parametrize(
    "path, shown",
    [
        ("/tmp/x/y.bin", "<temporary>/x/y.bin"),
        ("/home/somebody/cache/teachers/1", "<cache>/teachers/1"),
        ("/scratch/alice/model.safetensors", "<elsewhere>/model.safetensors"),
        ("/tmpfiles/alice/model.safetensors", "<elsewhere>/model.safetensors"),
        ("file:///home/somebody/notes/a.txt", "file://~/notes/a.txt"),
        (
            "PATHS=/scratch/alice/lib:/scratch/bob/lib:/home/somebody/lib",
            "PATHS=<elsewhere>/lib:<elsewhere>/lib:~/lib",
        ),
        (f"{ROOT}/bench/make/students.py", "bench/make/students.py"),
    ],
)
def test_folders_of_this_machine_are_not_shown(path, shown):
    assert (
        redact_paths(f'cannot open {path}, line 3: "{path}"')
        == f'cannot open {shown}, line 3: "{shown}"'
    )


@pytest.mark.usefixtures("_known_folders")
@pytest.mark.parametrize("folder", ["/", "/tmp"])
def test_web_addresses_stay(monkeypatch, folder):
    monkeypatch.chdir(folder)
    said = (
        "https://huggingface.co/docs and https://a.b/tmp/x and http://h:80/tmp/x cannot be reached"
    )
    assert redact_paths(said) == said


SHARES = {"joint": {"hard": [1.0, 0.9, 0.8, 0.9]}}


def curves(**terms: list[float]) -> dict[str, dict[str, list[float]]]:
    return {"joint": terms}


def falling(rng: random.Random, length: int = 64) -> list[float]:
    """As a loss goes: down, with the noise of batches."""
    return [0.2 + math.exp(-i / 20) + 0.05 * rng.random() for i in range(length)]


@settings(deadline=None)
@given(st.integers(0, 10_000))
def test_a_sound_training_has_no_fault(seed):
    rng = random.Random(seed)
    assert faults_of_training(curves(hard=falling(rng), soft=falling(rng)), SHARES) == []


@settings(deadline=None)
@given(st.integers(0, 10_000), st.floats(1.5 * EXPLODED, 1e6))
def test_a_term_that_explodes_is_named(seed, times):
    rng = random.Random(seed)
    curve = [1.0 + rng.random() * 0.1 for _ in range(32)] + [
        times * 1.2 * (1 + rng.random()) for _ in range(32)
    ]
    (line,) = faults_of_training(curves(hard=falling(rng), hidn=curve), SHARES)
    assert line.startswith("stage joint: the term hidn grew from 1.0")
    assert "try a smaller learning rate" in line


@pytest.mark.parametrize("value", [math.log(2), 0.0, -3.0])
def test_a_dead_discriminator_stands_still(value):
    (line,) = faults_of_training(curves(**{"dis.disc": [value] * 64}), {})
    assert "the term dis.disc stayed at" in line


def test_an_error_names_the_line_of_the_method():
    """The lines of torch below it are not its author's to mend."""
    with pytest.raises(RuntimeError) as caught:
        hidden_cosine_tokenmean(torch.zeros(2, 3), torch.zeros(2, 4))
    assert method_line(caught.value, "kd").startswith("methods/core/losses.py, line ")


def test_a_term_that_lost_its_gradient_is_named():
    shares = {"joint": {"dis.adv": [0.4, 0.1, 0.0, 0.0], "hard": [0.6, 0.9, 1.0, 1.0]}}
    (line,) = faults_of_training(
        curves(**{"dis.adv": [0.7, 0.8] * 30, "hard": falling(random.Random(0))}), shares
    )
    assert "the term dis.adv had no gradient from measurement 3 of 4 on" in line
    back = {"joint": {"dis.adv": [0.4, 0.0, 0.0, 0.1]}}
    assert faults_of_training(curves(**{"dis.adv": [0.7, 0.8] * 30}), back) == []


def test_a_student_and_a_teacher_no_better_than_one_answer_are_recorded_with_what_to_try(
    bench, teacher_folder, tmp_path
):
    glue = tiny.write_glue(tmp_path / "glue", ("rte",))
    file = glue / "rte" / "train-00000-of-00001.parquet"
    table = pandas.read_parquet(file)
    table["label"] = [0, *[1] * (len(table) - 1)]  # next to nothing to learn but one answer
    table.to_parquet(file, index=False)
    done = bench(
        *(
            "run",
            "--methods",
            f"finetune:{tiny.SHAPE}:start=random:pace=10",
            "--tasks",
            "rte",
            "--data",
            glue,
        ),
        *(
            "--teacher",
            teacher_folder,
            "--epochs",
            5,
            "--results",
            tmp_path / "r",
            "--reports",
            tmp_path / "p",
        ),
    )
    assert done.returncode == 0, done.stderr
    found = {record.cell.method: record for record in Store(tmp_path / "r").records()}
    (student,) = [
        line
        for line in found["finetune"].faults
        if line.startswith("suspect answers to validation")
    ]
    assert "predicts not_entailment for all 40 examples; try more epochs" in student
    assert done.stderr.index("suspect: rte validation, teacher") < done.stderr.index(
        "suspect: rte validation, finetune"
    )
    teacher = found["teacher"]
    assert any("its students learn from it: try" in line for line in teacher.faults)
    shown = json.loads(bench("show", teacher.key[:16], "--results", tmp_path / "r").stdout)
    assert tuple(shown["faults"]) == teacher.faults
