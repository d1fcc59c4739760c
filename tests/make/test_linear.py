"""The linear baseline: it learns, its file answers as its record does with numpy alone, and it is a row with a size."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
import tiny

from bench import api
from bench.data.own_tasks import expand
from bench.data.predictions import ABOUT
from bench.data.table_files import Split
from bench.errors import InputError
from bench.make import linear
from bench.progress import Progress
from bench.run import carry_out


def task_of(folder, rows, header="text\tlabel"):
    """A user's own task of tab-separated rows."""
    file = folder / "mine.tsv"
    file.write_text("\n".join([header, *rows]) + "\n", encoding="utf-8")
    return expand(str(file))[0][0]


def animals(count=40):
    return [f"the {a} is {b}" for a in ("cat", "dog") for b in tiny.WORDS[: count // 2]]


def as_split(texts, labels, second=None):
    return Split(texts, second, np.array(labels), list(range(len(texts))))


@pytest.fixture
def classes(tmp_path):
    task = task_of(tmp_path, [f"{text}\t{text.split()[1]}" for text in animals()])
    return task, as_split(animals(), [0] * 20 + [1] * 20)


def test_it_learns_which_words_a_class_has(classes):
    task, train = classes
    model = linear.fit(task, train)
    answers = model.logits([("the old cat", ""), ("a young DOG .", "")])
    assert answers.argmax(1).tolist() == [0, 1]
    assert "cat is" in model.grams, "pairs of words too"


def test_it_learns_numbers_in_their_units(tmp_path):
    task = task_of(tmp_path, [f"the {w}\t{1000 + 7 * i}.5" for i, w in enumerate(tiny.WORDS)])
    assert task.regression
    labels = np.repeat([2000.0, 9000.0], 20).astype(np.float32)
    model = linear.fit(task, as_split(animals(), labels))
    answers = model.logits(as_split(animals(), labels).texts)[:, 0]
    assert abs(answers - labels).max() < 1500


def test_a_class_without_an_example_is_never_said(tmp_path):
    rows = [f"{text}\t{text.split()[1]}" for text in [*animals(), "a bird sings", "the bird"]]
    task = task_of(tmp_path, rows)
    model = linear.fit(task, as_split(animals(), [1] * 20 + [2] * 20))
    logits = model.logits(as_split(animals(), [0] * 40).texts)
    assert logits.shape == (40, 3)
    assert np.isfinite(logits).all()
    assert set(logits.argmax(1).tolist()) == {1, 2}


def test_a_second_text_has_words_of_its_own(tmp_path):
    rows = [f"{text}\tin {n}\t{text.split()[1]}" for n, text in enumerate(animals())]
    task = task_of(tmp_path, rows, "a\tb\tlabel")
    first = ["red", "blue"] * 20
    second = ["blue", "red"] * 20
    model = linear.fit(task, as_split(first, [0, 1] * 20, second))
    assert model.logits([("red", "blue"), ("blue", "red")]).argmax(1).tolist() == [0, 1]


def test_its_file_answers_the_same(classes, tmp_path):
    task, train = classes
    folder = tmp_path / linear.NAME
    written = linear.write_baseline(folder, task, train, {task.name: train})
    assert written.seconds > 0
    opened = linear.load(folder / linear.FILE)
    assert (opened.logits(train.texts) == written.model.logits(train.texts)).all()
    assert opened.labels == task.labels


@pytest.mark.parametrize("text", ["the old cat", "dog dog dog", "wholly unknown"])
def test_the_lines_that_use_it_need_numpy_alone(classes, tmp_path, text):
    task, train = classes
    model = linear.write_baseline(tmp_path / "m", task, train, {task.name: train}).model
    code = "\n".join(linear.lines_that_use_it(task))
    code = code.replace("THIS-FOLDER", str(tmp_path / "m")).replace("a text", text)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    right = task.labels[int(model.logits([(text, "")])[0].argmax())]
    assert done.stdout.strip() == right


def test_nothing_to_learn_is_bad_input(classes):
    task, train = classes
    with pytest.raises(InputError, match="one label"):
        linear.fit(task, replace(train, labels=np.zeros(40, dtype=np.int64)))
    with pytest.raises(InputError, match="has a word"):
        linear.fit(task, replace(train, first=["...", "!"] * 20))


@pytest.mark.slow
def test_it_is_a_row_with_its_size(request_, tmp_path):
    request = request_(methods="", tasks="rte")
    (task,) = api.plan(request).tasks
    folder = tmp_path / linear.NAME
    model = linear.write_baseline(folder, task.task, task.train, task.evaluation).model
    request = replace(request, methods=f"predictions:{folder}")
    carry_out(api.plan(request), Progress())
    records = {r.cell.method: r for r in api.Store(request.results).records()}
    record = records["predictions"]
    assert record.row == f"predictions:{linear.NAME}"
    assert record.sizes.file_bytes == (folder / linear.FILE).stat().st_size
    assert "scikit-learn" in record.notes[0]
    logits = api.Store(request.results).predictions(record)["logits.validation"]
    assert (logits == model.logits(task.evaluation["validation"].texts)).all()


@pytest.mark.parametrize("line", ["parameters = 0", 'parameters = "3"', "params = 3", "macs ="])
def test_a_wrong_size_is_named(request_, tmp_path, line):
    request = request_(methods="", tasks="rte")
    (task,) = api.plan(request).tasks
    folder = tmp_path / "theirs"
    linear.write_baseline(folder, task.task, task.train, task.evaluation)
    said = (folder / ABOUT).read_text().splitlines()
    (folder / ABOUT).write_text("\n".join([*(x for x in said if x[:4] != line[:4]), line]) + "\n")
    with pytest.raises(InputError, match=ABOUT):
        api.plan(replace(request, methods=f"predictions:{folder}"))
