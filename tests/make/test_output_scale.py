"""A regression in the units of its labels: what is trained does not depend on them, what is scored and saved has them."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest
import tiny
import torch
from shipped_methods import tiny_rows
from torch import nn
from transformers import AutoModelForSequenceClassification

import methods
from bench.data.target_scale import TargetScale, scale_of
from bench.data.tasks import GLUE
from bench.errors import OK, CellError
from bench.make.output_scale import into_label_units, into_training_units
from bench.record.store import Store

UNITS = 812.5
ZERO = 4300.0
WRITERS = ("seq2seq", "cmlm")
"""Methods whose students write texts."""
ROWS = f"finetune:{tiny.SHAPE}:pace=50,kd:{tiny.SHAPE}:pace=50"


def write_prices(file: Path, unit: float, zero: float) -> Path:
    """Texts whose value is in their words, in some unit."""
    values = {"cat": -1.5, "dog": -0.25, "bird": 0.5, "fish": 2.0}
    examples = tiny.split(rows=80, num_labels=4, pairs=False)
    with file.open("w", newline="", encoding="utf-8") as stream:
        rows = csv.writer(stream)
        rows.writerow(["text", "label"])
        for text in examples.first:
            value = values[text.split()[1]]
            rows.writerow([text, f"{unit * value + zero:.4f}"])
    return file


def run(
    bench, tmp_path: Path, teacher: object, name: str, file: Path, rows: str, epochs: int = 30
) -> Store:
    """The records of one run on a file."""
    done = bench(
        "run", "--tasks", f"{file}:name=price", "--methods", rows,
        "--teacher", teacher, "--data", "sample", "--corpus", tmp_path / "corpus.txt",
        "--corpus-tokens", 300, "--results", tmp_path / name, "--reports", tmp_path / "p",
        "--threads", 1, "--epochs", epochs, "--save-students", tmp_path / f"s-{name}", "--yes",
    )  # fmt: skip
    assert done.returncode == OK, done.stderr
    return Store(tmp_path / name)


def answers(store: Store) -> dict[str, np.ndarray]:
    """Each row's predicted values."""
    return {
        f"{record.row} {record.point}": store.predictions(record)["logits.validation"]
        for record in store.records()
    }


@pytest.fixture
def corpus(tmp_path: Path) -> None:
    text = "the cat runs in the house .\na bird sings on the old tree .\n" * 30
    (tmp_path / "corpus.txt").write_text(text)


def check_equivariance(bench, tmp_path: Path, teacher: object, rows: str, epochs: int = 30) -> None:
    """The same texts with labels in another unit: every answer is the other one in that unit."""
    units = write_prices(tmp_path / "a.csv", 1.0, 0.0)
    prices = write_prices(tmp_path / "b.csv", UNITS, ZERO)
    plain = answers(run(bench, tmp_path, teacher, "a", units, rows, epochs))
    scaled = answers(run(bench, tmp_path, teacher, "b", prices, rows, epochs))
    assert plain.keys() == scaled.keys()
    for row, values in plain.items():
        assert np.allclose(scaled[row], UNITS * values + ZERO, atol=0.05 * UNITS), row


@pytest.mark.slow
def test_labels_in_another_unit_give_the_same_answers_in_that_unit(
    bench, tmp_path, teacher_folder, corpus
):
    check_equivariance(bench, tmp_path, teacher_folder, ROWS)
    store = Store(tmp_path / "b")
    for record in store.records():
        predicted = store.predictions(record)["logits.validation"]
        assert abs(predicted.mean() - ZERO) < 2 * UNITS
        if record.cell.method != "teacher":
            assert np.ptp(predicted) > 0.1 * UNITS, f"{record.row} is nearly constant"


@pytest.mark.slow
@pytest.mark.long
def test_every_method_answers_in_the_units_of_the_labels(bench, tmp_path, corpus):
    teacher_folder = tiny.save_teacher(tmp_path / "deep-bert", layers=4)
    rows = tiny_rows(*(name for name in methods.names() if name not in WRITERS))
    check_equivariance(bench, tmp_path, teacher_folder, rows, epochs=3)


@pytest.mark.slow
def test_a_saved_student_and_teacher_answer_in_the_units_without_this_program(
    bench, tmp_path, teacher_folder, corpus
):
    file = write_prices(tmp_path / "b.csv", UNITS, ZERO)
    store = run(bench, tmp_path, teacher_folder, "b", file, ROWS)
    tokenizer = tiny.tokenizer(teacher_folder)
    known = {record.key[:8]: store.predictions(record) for record in store.records()}
    folders = [path.parent for path in (tmp_path / "s-b").rglob("config.json")]
    assert len(folders) == 3
    for folder in folders:
        arrays = known[folder.name[-8:]]
        model = AutoModelForSequenceClassification.from_pretrained(folder).eval()
        with torch.no_grad():
            said = model(**tokenizer("the cat runs", return_tensors="pt")).logits
        spread = np.ptp(arrays["logits.validation"])
        center = arrays["logits.validation"].mean()
        assert abs(said.item() - center) < 5 * spread + UNITS
    # a tuned teacher from outside has the units, and is scored as it is
    teacher = next(folder for folder in folders if "teacher" in folder.name)
    again = run(bench, tmp_path, teacher, "c", file, f"kd:{tiny.SHAPE}:pace=50")
    records = {record.cell.method: record for record in again.records()}
    known_teacher = next(record for record in store.records() if record.row == "teacher")
    assert records["teacher"].scores == known_teacher.scores
    taught = again.predictions(records["kd"])["logits.validation"]
    assert abs(taught.mean() - ZERO) < 2 * UNITS


def test_glue_keeps_its_scale_and_own_targets_have_theirs():
    train = tiny.split(num_labels=1)
    assert scale_of(GLUE["stsb"], train) is None
    assert scale_of(GLUE["rte"], train) is None
    scale = TargetScale(10.0, 2.0)
    assert scale.standardised(np.array([8.0, 10.0, 14.0], np.float32)).tolist() == [-1.0, 0.0, 2.0]


class Shared(nn.Module):
    """A head that may be shared, on fixed states."""

    def __init__(self, head: nn.Module) -> None:
        super().__init__()
        self.head = head

    def forward(self, states: torch.Tensor) -> torch.Tensor:
        return self.head(states)


def test_a_shared_head_is_scaled_once_and_back_again():
    states = torch.randn(4, 3)
    head = nn.Linear(3, 1)
    models = [Shared(head), Shared(head)]
    answers = lambda model: model(states).detach().numpy()  # noqa: E731
    before = answers(models[0])
    scale = TargetScale(ZERO, UNITS)
    into_label_units(models, scale, answers)
    for model in models:
        assert np.allclose(answers(model), UNITS * before + ZERO, rtol=1e-4)
    into_training_units(models[0], scale, answers)
    assert np.allclose(answers(models[1]), before, atol=1e-3)


def test_a_model_whose_answer_is_no_linear_layers_is_refused():
    class Squared(Shared):
        def forward(self, states: torch.Tensor) -> torch.Tensor:
            return super().forward(states) ** 2

    states = torch.randn(4, 3)
    answers = lambda model: model(states).detach().numpy()  # noqa: E731
    with pytest.raises(CellError, match="labels' units"):
        into_label_units([Squared(nn.Linear(3, 1))], TargetScale(ZERO, UNITS), answers)
