"""Which files a typed path means, which are scored, and what is refused with the way out."""

from __future__ import annotations

import json
from pathlib import Path

import datasets
import pandas
import pytest
import tiny

from bench.data.example_files import named, split_of
from bench.data.inspect import inspect
from bench.data.own_tasks import expand, files_line, is_own, typed_tasks
from bench.data.sources import Folder, source_for
from bench.data.tasks import GLUE, from_toml
from bench.errors import InputError
from bench.plan.build import build
from bench.request import Request

LABELS = ["no", "yes"]


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def rows(count: int, begin: int = 0, **more) -> pandas.DataFrame:
    numbers = range(begin, begin + count)
    columns = {"text": [f"the cat {i}" for i in numbers], "label": [LABELS[i % 2] for i in numbers]}
    return pandas.DataFrame({**columns, **more})


def write(path: str, count: int, begin: int = 0, **more) -> Path:
    """Examples in a file; its ending says the form."""
    file = Path(path)
    file.parent.mkdir(parents=True, exist_ok=True)
    table = rows(count, begin, **more)
    if file.suffix == ".parquet":
        table.to_parquet(file)
    elif file.suffix == ".jsonl":
        table.to_json(file, orient="records", lines=True)
    else:
        table.to_csv(file, index=False, sep="\t" if file.suffix == ".tsv" else ",")
    return file


def read(typed: str) -> tuple[list[str], list[str]]:
    """The texts that are trained on and those that are scored."""
    ((task, _),) = expand(typed)
    source = source_for(task, "sample", offline=True)
    return list(source.load(task, "train").first), list(source.load(task, task.evaluation[0]).first)


def counts(typed: str) -> tuple[int, int]:
    train, scored = read(typed)
    assert not set(train) & set(scored)
    return len(train), len(scored)


def note(typed: str) -> str:
    """What ``data`` and a plan say of the files."""
    said = [line for row in inspect(typed, "sample", True) for line in row["said"]]
    return next(line for line in said if "trained on" in line)


def shards(folder: str = "set", validation: str = "validation-00000-of-00001.parquet") -> None:
    """300 rows in two shards, and 200 that are scored."""
    write(f"{folder}/train-00000-of-00002.parquet", 150)
    write(f"{folder}/train-00001-of-00002.parquet", 150, 150)
    write(f"{folder}/{validation}", 200, 1000)


# --- shards


@pytest.mark.parametrize(
    "typed",
    [
        "set/train-00000-of-00002.parquet",
        "set/train-00001-of-00002.parquet",
        "set/train-*.parquet",
        "set/*.parquet",
        "set",
        "set/",
        "set/train-00000-of-00002.parquet+train-00001-of-00002.parquet",
        "set/train-00000-of-00002.parquet:validation=validation-*.parquet",
    ],
)
def test_one_shard_a_pattern_a_list_and_a_folder_are_the_same_data_set(typed):
    shards()
    assert counts(typed) == (300, 200)
    ((task, _),) = expand(typed)
    assert task.name == "set"
    said = note(typed)
    assert "trained on 300 rows of train-00000-of-00002.parquet and train-00001" in said
    assert "scored on 200 rows of validation-00000-of-00001.parquet" in said


def test_the_files_keep_the_order_of_their_numbers_and_all_classes_count():
    """The first shard has one class alone, as of a data set that is sorted."""
    write("set/train-00000-of-00002.parquet", 40, label=["no"] * 40)
    write("set/train-00001-of-00002.parquet", 40, 40, label=["yes"] * 40)
    ((task, _),) = expand("set")
    assert task.labels == ("no", "yes")
    train, scored = read("set")
    assert sorted([*train, *scored]) == sorted(rows(80)["text"])
    write("set/validation.parquet", 10, 500)
    assert read("set")[0] == list(rows(80)["text"])


@pytest.mark.parametrize("typed", ["set/train-00000-of-00003.csv", "set/train-*.csv", "set"])
def test_a_shard_that_is_missing_is_named(typed):
    write("set/train-00000-of-00003.csv", 9)
    write("set/train-00002-of-00003.csv", 9)
    with pytest.raises(
        InputError, match=r"train-00001-of-00003\.csv is missing: .* one of 3 files"
    ):
        expand(typed)


def test_a_missing_shard_of_the_scored_files_and_of_a_folder_like_glues_is_named_too():
    write("set/train.csv", 9)
    write("set/dev-00001-of-00002.csv", 9)
    with pytest.raises(InputError, match=r"dev-00000-of-00002\.csv is missing"):
        expand("set/train.csv")
    file = write("glue/sst2/train-00000-of-00002.parquet", 9)
    with pytest.raises(InputError, match=r"train-00001-of-00002\.parquet is missing"):
        Folder("it", "it", root=file.parents[1]).load(GLUE["sst2"], "train")


def test_shards_that_count_from_one_are_whole_and_two_sets_of_one_name_are_refused():
    write("set/train-1-of-2.csv", 10)
    write("set/train-2-of-2.csv", 10, 10)
    assert counts("set/train-1-of-2.csv") == (16, 4)
    write("set/train-1-of-3.csv", 10)
    with pytest.raises(InputError, match="shards of two data sets of one name"):
        expand("set/train-*.csv")


def test_other_parts_beside_a_numbered_file_are_said():
    write("part-0.csv", 10)
    write("part-1.csv", 10, 10)
    assert counts("part-0.csv") == (8, 2)
    assert "not read, though it lies there: part-1.csv" in note("part-0.csv")
    assert counts("part-*.csv") == (16, 4)
    assert counts("part-0.csv+part-1.csv") == (16, 4)
    write("train_1.csv", 10)
    write("train_2.csv", 10, 10)
    assert "not read, though it lies there: train_2.csv" in note("train_1.csv")


# --- folders


@pytest.mark.parametrize("ending", ["csv", "tsv", "jsonl", "parquet"])
@pytest.mark.parametrize(
    "train, scored",
    [
        ("set/train.{}", "set/dev.{}"),
        ("set/data/train.{}", "set/data/valid.{}"),
        ("set/train/0000.{}", "set/validation/0000.{}"),
        ("set/plain_text/train-00000-of-00001.{}", "set/plain_text/test-00000-of-00001.{}"),
        ("set/reviews_train.{}", "set/reviews_dev.{}"),
        ("set/SNLI.Train.{}", "set/SNLI.Dev.{}"),
    ],
)
def test_a_folder_of_a_data_set(train, scored, ending):
    write(train.format(ending), 30)
    write(scored.format(ending), 7, 100)
    assert counts("set") == (30, 7)


def test_a_folder_as_datasets_saves_it():
    parts = {"train": rows(30), "validation": rows(7, 100)}
    features = datasets.Features(
        {"text": datasets.Value("string"), "label": datasets.ClassLabel(names=["yes", "no"])}
    )
    made = {
        name: datasets.Dataset.from_pandas(part.replace({"yes": 0, "no": 1}), features=features)
        for name, part in parts.items()
    }
    datasets.DatasetDict(made).save_to_disk("saved", num_shards={"train": 3, "validation": 1})
    assert counts("saved") == counts("saved/train") == (30, 7)
    ((task, _),) = expand("saved")
    assert (task.name, task.labels) == ("saved", ("yes", "no"))
    made["train"].save_to_disk("alone")
    assert counts("alone") == (24, 6)
    Path("saved/train/data-00001-of-00003.arrow").unlink()
    with pytest.raises(InputError, match=r"data-00001-of-00003\.arrow is missing"):
        expand("saved")


def test_a_folder_whose_names_leave_open_what_is_meant_is_refused():
    write("set/a.csv", 9)
    write("set/b.csv", 9)
    with pytest.raises(InputError, match=r"none of the files is called train: a.csv, b.csv"):
        expand("set")
    write("set/train.csv", 9)
    write("set/train_small.csv", 9)
    with pytest.raises(InputError, match=r"several are called train: train.csv, train_small.csv"):
        expand("set")
    Path("empty").mkdir()
    with pytest.raises(InputError, match="empty has no files of examples"):
        expand("empty")


def test_several_configurations_are_asked_for():
    for name in ("small", "large"):
        write(f"set/{name}/train.csv", 9)
    with pytest.raises(
        InputError, match="several data sets; name one of them: set/large, set/small"
    ):
        expand("set")


# --- what is scored


def test_a_file_beside_train_is_scored_and_said_so_and_a_fifth_only_where_there_is_none():
    write("train.csv", 30)
    assert counts("train.csv") == (24, 6)
    assert "scored on 6 rows of the same, a fifth that is drawn once" in note("train.csv")
    write("dev.csv", 7, 100)
    write("test.csv", 9, 200)
    typed = "train.csv"
    assert counts(typed) == (30, 7)
    assert "scored on 7 rows of dev.csv; :validation=NAME names another" in note(typed)
    assert "not read, though it lies there: test.csv" in note(typed)
    assert counts("train.csv:validation=test.csv") == (30, 9)


@pytest.mark.parametrize("labels", [None, [-1] * 9])
def test_a_test_file_is_scored_if_it_has_labels(labels):
    write("train.csv", 30)
    write("test.csv", 9, 200)
    assert counts("train.csv") == (30, 9)
    write("test.csv", 9, 200, label=labels)
    if labels is None:
        rows(9, 200).drop(columns="label").to_csv("test.csv", index=False)
    typed = "train.csv"
    assert counts(typed) == (24, 6)
    assert "not read, though it lies there: test.csv" in note(typed)


def test_two_files_that_could_be_scored_are_asked_for():
    write("train.tsv", 30)
    write("dev_matched.tsv", 7, 100)
    write("dev_mismatched.tsv", 7, 200)
    with pytest.raises(
        InputError, match=r"several could be scored: dev_matched.tsv, dev_mismatched.tsv; .*:valida"
    ):
        expand("train.tsv")
    assert counts("train.tsv:validation=dev_matched.tsv") == (30, 7)
    with pytest.raises(InputError, match="validation names what is trained on"):
        expand("train.tsv:validation=train.tsv")


def test_files_of_another_name_beside_train_are_not_taken():
    write("reviews_train.csv", 30)
    write("tweets_dev.csv", 7, 100)
    assert counts("reviews_train.csv") == (24, 6)
    assert "not read, though it lies there: tweets_dev.csv" in note("reviews_train.csv")


def test_a_named_validation_is_seen_from_the_training_file_or_from_here():
    write("set/reviews.csv", 30)
    write("set/held.csv", 7, 100)
    write("other/held2.csv", 8, 100)
    assert counts("set/reviews.csv:validation=held.csv") == (30, 7)
    assert counts("set/reviews.csv:validation=other/held2.csv") == (30, 8)
    shards("hub", "validation_matched-00000-of-00001.parquet")
    assert counts("hub/:validation=validation_matched") == (300, 200)


def test_a_plan_names_the_files(teacher_folder):
    shards()
    asked = Request("kd", "set", teacher=str(teacher_folder), data="sample", max_train_rows=64)
    (line,) = [line for line in build(asked).notes if "trained on" in line]
    assert line.startswith(
        "set: trained on 64 rows of train-00000-of-00002.parquet and train-00001"
    )
    assert "scored on 200 rows of validation-00000-of-00001.parquet" in line


# --- TOML


def toml(train: object, validation: object) -> Path:
    file = Path("mine.toml")
    file.write_text(
        f'name = "mine"\ntrain = {json.dumps(train)}\nvalidation = {json.dumps(validation)}\n'
        'text = ["text"]\nlabels = ["no", "yes"]\nmetrics = ["accuracy"]\n'
    )
    return file


@pytest.mark.parametrize(
    "train, validation",
    [
        ("set/train-00000-of-00002.parquet", "set/validation-00000-of-00001.parquet"),
        (["set/train-00000-of-00002.parquet"], "set/validation-*.parquet"),
        ("set/train-*.parquet", ["set/validation-00000-of-00001.parquet"]),
    ],
)
def test_a_task_file_lists_files_in_brackets(train, validation):
    shards()
    toml(train, validation)
    assert counts("mine.toml") == (300, 200)


def test_a_task_file_with_files_of_any_name():
    write("my,file:1.csv", 30)
    write("b.csv", 30, 30)
    write("[dev].csv", 7, 100)
    toml(["my,file:1.csv", "b.csv"], "[dev].csv")
    assert counts("mine.toml") == (60, 7)
    with pytest.raises(InputError, match="train names no file"):
        from_toml(toml([], "b.csv"))
    with pytest.raises(InputError, match="train and validation are the same file"):
        from_toml(toml(["b.csv", "my,file:1.csv"], ["./b.csv"]))
    with pytest.raises(InputError, match=r"train: .*list"):
        from_toml(toml(3, "b.csv"))


# --- paths


@pytest.mark.parametrize(
    "path",
    [
        "my,file.csv",
        "a,b,c.csv",
        "data:v2/reviews.csv",
        "run:lr=3/reviews.csv",
        "C:\\reviews.csv",
        "Reviews.CSV",
        "c++.csv",
        "what?.csv",
        "[1].csv",
        "a folder/my reviews.csv",
        "rte/reviews.csv",
    ],
)
@pytest.mark.parametrize("more", ["", ":label=label", ":text=text:label=label"])
def test_a_path_with_signs_that_mean_something_else(path, more):
    file = write(path, 30)
    assert counts(f"{path}{more}") == (24, 6)
    assert is_own(f"{path}{more}")
    both = [task.name for task, _ in expand(f"rte,{path}{more},mrpc")]
    assert (both[0], both[2], len(both)) == ("rte", "mrpc", 3)
    assert counts(f"{file.absolute()}{more}") == (24, 6)


def test_a_validation_with_colons():
    write("a.csv", 30)
    write("b:1.csv", 7, 100)
    assert counts("a.csv:validation=b:1.csv:label=label") == (30, 7)


def test_a_file_that_has_changed_is_read_again(tmp_path, monkeypatch):
    write("a.csv", 30)
    assert expand("a.csv")[0][0].labels == ("no", "yes")
    write("a.csv", 30, label=["x", "y", "z"] * 10)
    assert expand("a.csv")[0][0].labels == ("x", "y", "z")
    (tmp_path / "other").mkdir()
    monkeypatch.chdir(tmp_path / "other")
    write("a.csv", 30)
    assert expand("a.csv")[0][0].labels == ("no", "yes")


@pytest.mark.parametrize(
    "typed, says",
    [
        ("x.csv:lable=stars", "did you mean 'label'"),
        ("x.csv:label", "no setting of x.csv:label is called 'label'|write label once"),
        ("C:\\gone.csv:text=text", r"there is no file C:\\gone\.csv"),
        ("gone/x.csv", "there is no file gone/x.csv"),
        ("gone/x", "there is no file gone/x"),
        ("gone-*.csv", "none matches it as a pattern"),
        ("x.csv+gone.csv", "there is no file gone.csv"),
        ("x.csv+x.csv", "names the same file twice"),
        ("x.xlsx", "no ending that can be read; known: .parquet"),
        ("nothing", "no task is called 'nothing'"),
        ("x.csv:quotes=maybe", "quotes=csv .* or quotes=text"),
        ("x.toml:label=y", "takes no settings; write them into x.toml"),
    ],
)
def test_what_names_nothing_is_one_line(typed, says):
    write("x.csv", 9)
    Path("x.xlsx").write_text("x")
    Path("x.toml").write_text("x")
    with pytest.raises(InputError, match=says) as refused:
        expand(typed)
    assert "\n" not in str(refused.value)


def test_names_of_tasks_are_no_folders():
    write("rte/train.csv", 9)
    write("glue/train.csv", 9)
    assert not is_own("rte")
    assert len(expand("glue")) == 9
    assert expand("./rte")[0][0].name == "own-rte"


def test_commas_separate_tasks_as_before():
    write("a.csv", 9)
    assert typed_tasks(" rte, mrpc,,a.csv:label=x ,gone.csv,") == [
        "rte",
        "mrpc",
        "a.csv:label=x",
        "gone.csv",
    ]


@pytest.mark.parametrize(
    "name, split",
    [
        ("train", "train"),
        ("train2", "train"),
        ("SNLI.Dev", "validation"),
        ("in_domain_train", "train"),
        ("eval", "test"),
        ("trainer", ""),
        ("contest", ""),
        ("train_test", ""),
        ("2019", ""),
    ],
)
def test_the_split_that_a_name_says(name, split):
    assert split_of(name) == split


def test_many_files_are_named_by_the_first_and_the_last():
    files = [Path(f"{name}.csv") for name in "abcde"]
    assert named(files) == "5 files, a.csv to e.csv"
    assert named(files[:2]) == "a.csv and b.csv"
    assert named([Path("a/0.csv"), Path("b/0.csv")]) == "a/0.csv and b/0.csv"


def test_files_that_are_held_back_from_training_are_said():
    write("a.csv", 30)
    ((task, _),) = expand("a.csv")
    held = {"held-back": 3, "train": 27}
    from bench.data.sources import held_back

    task, _ = held_back(task, source_for(task, "sample", True))
    assert files_line(task, held).endswith("scored on 3 rows of the same files that are held back")


@pytest.mark.slow
def test_a_folder_is_trained_on(bench, teacher_folder, tmp_path):
    shards()
    words = ["--methods", f"finetune:{tiny.SHAPE}:start=random", "--tasks", "set"]
    words += ["--teacher", teacher_folder, "--epochs", 1, "--max-train-rows", 64, "--yes"]
    done = bench("run", *words, "--results", tmp_path / "r", "--reports", tmp_path / "p")
    assert done.returncode == 0, done.stderr
    assert "scored on 200 rows of validation-00000-of-00001.parquet" in done.stdout + done.stderr
