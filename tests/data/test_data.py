"""Sources: what is read, and one clear message for every way in which data can be wrong."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas
import pytest
import squad_articles
import tiny

from bench.data.corpus import read_corpus
from bench.data.encoding import batches_of_epoch, encode, pieces
from bench.data.inspect import export, inspect
from bench.data.own_tasks import expand
from bench.data.sources import Folder, hub_folder, source_for
from bench.data.table_files import Split, read
from bench.data.tasks import GLUE, from_toml
from bench.errors import InputError

RTE = GLUE["rte"]


def parquet(tmp_path, name="train-00000-of-00001.parquet", **columns):
    file = tmp_path / "rte" / name
    file.parent.mkdir(exist_ok=True)
    pandas.DataFrame(columns).to_parquet(file, index=False)
    return file


GOOD = {"sentence1": ["a", "b"], "sentence2": ["c", "d"], "label": [0, 1]}


@pytest.mark.parametrize(
    "change, message",
    [
        ({"sentence2": None}, "no column 'sentence2' for rte; it has: sentence1, label"),
        ({"label": None}, "no column 'label'"),
        (
            {"label": [0, -1]},
            "row 1: label is -1, which marks rows without a label, in 1 of 2 rows",
        ),
        ({"label": [0, 2]}, "row 1: label 2 of rte should be a whole number from 0 to 1"),
        ({"label": [0, 0.5]}, "row 1: label 0.5 of rte should be a whole number from 0 to 1"),
        (
            {"label": ["entailment", "maybe"]},
            "row 1: the label of rte should be one of 0..1 or entailment",
        ),
        ({"sentence1": ["a", None]}, "row 1: sentence1 should be text, but the cell is empty"),
        ({"idx": ["abc", "def"]}, "row 0: idx should be a whole number, found 'abc'"),
        ({"sentence1": [], "sentence2": [], "label": []}, "has no rows"),
    ],
    ids=lambda x: next(iter(x)) if isinstance(x, dict) else None,
)
def test_bad_tables(tmp_path, change, message):
    columns = {k: v for k, v in {**GOOD, **change}.items() if v is not None}
    with pytest.raises(InputError, match=message):
        read([parquet(tmp_path, **columns)], RTE, True)


def test_what_is_wrong_in_one_file_of_a_split_is_said_of_that_file_and_of_the_row_in_it(tmp_path):
    sound = parquet(tmp_path, "train-00000-of-00002.parquet", **GOOD)
    broken = parquet(tmp_path, "train-00001-of-00002.parquet", **{**GOOD, "label": [0, 7]})
    with pytest.raises(InputError, match=r"train-00001-of-00002\.parquet, row 1: label 7"):
        read([sound, broken], RTE, True)
    broken.write_text("nonsense")
    with pytest.raises(
        InputError, match=r"train-00001-of-00002\.parquet cannot be read as parquet"
    ):
        read([sound, broken], RTE, True)


def test_the_files_of_a_split_are_read_one_after_the_other(tmp_path):
    files = [
        parquet(tmp_path, "train-00000-of-00002.parquet", **GOOD),
        parquet(
            tmp_path, "train-00001-of-00002.parquet", sentence1=["e"], sentence2=["f"], label=[1]
        ),
    ]
    split = read(files, RTE, True)
    assert (split.first, split.second) == (["a", "b", "e"], ["c", "d", "f"])
    assert (split.labels.tolist(), split.labels.dtype) == ([0, 1, 1], np.int64)
    assert split.ids == [0, 1, 2]
    assert read(files, RTE, False).labels is None


def test_a_malformed_csv_names_the_row(tmp_path):
    file = tmp_path / "train.csv"
    file.write_text("sentence1,sentence2,label\na,b,0\na,b,0,extra,fields\n")
    with pytest.raises(InputError, match="line 3"):
        read([file], RTE, True)


@pytest.mark.parametrize(
    "name, content, message",
    [
        ("t.csv", b"a,label\nred cat, more,yes\nblue dog, x,no\n", "row 0: it has 3 fields, the header 2; put a text with"),
        ("t.csv", b"a,label\nred cat,yes,\nblue dog,no,\n", "row 0: it has 3 fields, the header 2"),
        ("t.tsv", b"a\tlabel\nred\tcat\t1\tyes\n", "row 0: it has 4 fields, the header 2; take out"),
        ("t.csv", b"a;label\nred, old cat;yes\nblue dog;no\n", "separated by semicolons; save it with commas"),
        ("t.csv", "a,label\nCafé,yes\n".encode("latin-1"), "not UTF-8 text .* save it as UTF-8"),
        ("t.csv", "a,label\nCafé,yes\n".encode("utf-16"), "not UTF-8 text .* save it as UTF-8"),
        ("t.jsonl", b'{"a": "x", "label": 1}\n{"a": "y", "label": "no"}\n', "row 1: label is 'no', and a number in the rows"),
    ],
)  # fmt: skip
def test_a_file_that_would_be_read_as_something_else(tmp_path, name, content, message):
    """The first field of a row that is longer than the header is the name of a row for pandas, and was lost."""
    task = from_toml(own_task(tmp_path))
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError, match=rf"{name}.*{message}") as refused:
        read([tmp_path / name], task, True)
    assert "\n" not in str(refused.value)


def test_a_text_of_numbers_is_read_as_it_stands_in_a_csv(tmp_path):
    task = from_toml(own_task(tmp_path))
    (tmp_path / "t.csv").write_text("a,label\n007,yes\n1e5,no\n")
    assert read([tmp_path / "t.csv"], task, True).first == ["007", "1e5"]


def test_a_word_among_the_numbers_of_a_regression_is_named_by_its_row(tmp_path):
    task = from_toml(own_task(tmp_path, REGRESSION))
    for word in ("nan", "high"):
        (tmp_path / "t.csv").write_text(f"a,label\nNone,0.5\nNA,{word}\n")
        says = {
            "nan": "row 1: label is nan, which marks rows without a label, in 1 of 2 rows of train",
            "high": "row 1: the label of mine should be a number, found 'high'",
        }
        with pytest.raises(InputError, match=says[word]):
            read([tmp_path / "t.csv"], task, True, "train")
    (tmp_path / "t.csv").write_text("a,label\nNone,0.5\nNA,1.25\n")
    assert read([tmp_path / "t.csv"], task, True).first == ["None", "NA"]


def test_quotes_in_a_tsv_are_text(tmp_path):
    """GLUE's own files are read without quoting; MRPC has stray quotes."""
    file = tmp_path / "train.tsv"
    file.write_text('sentence1\tsentence2\tlabel\n"a stray\tb\t0\nc"\td\t1\n')
    split = read([file], RTE, True)
    assert list(split.first) == ['"a stray', 'c"']


def test_the_fingerprint_is_of_the_content(tmp_path):
    split = tiny.split()
    again = Split(list(split.first), list(split.second), split.labels.copy(), list(split.ids))
    assert again.fingerprint() == split.fingerprint()
    other = Split(split.first, split.second, 1 - split.labels, split.ids)
    assert other.fingerprint() != split.fingerprint()


def test_a_row_limit_draws_the_same_rows_every_time():
    split = tiny.split(100)
    assert list(split.limited(10).ids) == list(split.limited(10).ids)
    assert split.limited(10).ids == sorted(split.limited(10).ids)
    assert len(split.limited(None)) == 100


def test_a_folder_lacking_a_named_task(tmp_path):
    with pytest.raises(InputError, match="has no rte/train"):
        Folder("it", "it", root=tmp_path).load(RTE, "train")
    with pytest.raises(InputError, match="no such folder"):
        source_for(RTE, str(tmp_path / "missing"), offline=True)


def test_fake_hub_folder(tmp_path, monkeypatch):
    """The hub's own cache layout, filled beforehand, read through the real hub library without a network."""
    commit = "0" * 40
    repository = tmp_path / "datasets--nyu-mll--glue"
    tiny.write_glue(repository / "snapshots" / commit, ("rte", "mnli"))
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text(commit)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    hub_folder.cache_clear()
    source = source_for(RTE, "hub", offline=True)
    split = source.load(RTE, "train")
    assert split.fingerprint() == tiny.split(seed=0).fingerprint()
    mnli = source_for(GLUE["mnli"], "hub", offline=True)
    assert mnli.load(GLUE["mnli"], GLUE["mnli"].evaluation[2]).labels is None
    with pytest.raises(InputError, match="use --data sample"):
        monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "empty"))
        hub_folder.cache_clear()
        source_for(RTE, "hub", offline=True)
    hub_folder.cache_clear()


def test_the_folder_and_the_hub_agree_with_real_files(shared_glue):
    source = source_for(RTE, str(shared_glue), offline=True)
    split = source.load(RTE, "train")
    assert len(split) == 2490
    assert np.bincount(split.labels).tolist() == [1249, 1241]
    with pytest.raises(
        InputError, match=r"is -1 in all .* rows of the split, which marks a test split"
    ):
        read(source.files("rte", "test"), RTE, True)


TOML = 'name = "mine"\ntrain = "t.csv"\nvalidation = "v.csv"\ntext = ["a"]\nlabels = ["no", "yes"]\nmetrics = ["accuracy"]\n'


REGRESSION = TOML.replace('labels = ["no", "yes"]\n', "").replace("accuracy", "spearman")


def own_task(tmp_path, text=TOML):
    for name in ("t.csv", "v.csv"):
        (tmp_path / name).write_text("a,label\nthe cat runs,yes\nthe dog sleeps,no\n")
    file = tmp_path / "mine.toml"
    file.write_text(text)
    return file


def test_an_export_has_the_columns_of_the_task(tmp_path):
    file = own_task(tmp_path, TOML.replace('["a"]', '["label"]') + 'label = "target"\n')
    for name in ("t.csv", "v.csv"):
        (tmp_path / name).write_text("label,target\nthe cat runs,yes\nthe dog sleeps,no\n")
    assert export(str(file), "sample", True, tmp_path / "out") == 2
    written = pandas.read_parquet(next((tmp_path / "out").glob("*/train-*.parquet")))
    assert written["label"].tolist() == ["the cat runs", "the dog sleeps"]
    assert written["target"].tolist() == [1, 0]


def test_an_export_of_questions_and_of_texts_is_read_again(tmp_path):
    squad_articles.write_tiny(tmp_path / "squad", version="2.0")
    assert export("squad_v2", str(tmp_path / "squad"), True, tmp_path / "out") == 2
    before, after = (inspect("squad_v2", str(tmp_path / place), True) for place in ("squad", "out"))
    assert [row["fingerprint"] for row in after] == [row["fingerprint"] for row in before]
    assert export("generated-translation", "sample", True, tmp_path / "texts") >= 2


@pytest.mark.parametrize(
    "change, message",
    [
        (("name", "nam"), "did you mean 'name'"),
        (('"mine"', '"rte"'), "belongs to"),
        (('"mine"', '"mine-held-back"'), "choose another end"),
        (('"accuracy"', '"spearman"'), "does not fit"),
        (('"accuracy"', '"macrof1"'), "did you mean 'macro_f1'"),
        (('["a"]', '["a", "b", "c"]'), "one or two columns"),
        (('"t.csv"', '"x.csv"'), "there is no file"),
        (('"v.csv"', '"./t.csv"'), "train and validation are the same file; name another"),
        (('["no", "yes"]', '["no"]'), "at least two classes"),
        (('["no", "yes"]', '["no", "yes", "no"]'), "two classes have the same name"),
        (('["a"]', '["a", "a"]'), "the same column twice"),
        (("name =", "name"), "is not TOML"),
    ],
)
def test_a_bad_task_file(tmp_path, change, message):
    with pytest.raises(InputError, match=message):
        from_toml(own_task(tmp_path, TOML.replace(*change)))


def test_a_label_column_that_the_task_file_does_not_name(tmp_path):
    file = own_task(tmp_path, TOML)
    (tmp_path / "t.csv").write_text("a,verdict\nfine,yes\n")
    with pytest.raises(
        InputError, match=r'it has: a, verdict; label = "..." in mine.toml names it'
    ):
        inspect(str(file), "sample", True)


THREE = TOML.replace('["no", "yes"]', '["no", "yes", "maybe"]')


def test_f1_of_one_class_is_refused_for_a_task_of_three_and_the_means_over_classes_are_not(
    tmp_path,
):
    """A model that is right on class 1 alone had an f1 of 100 at an accuracy of 33."""
    with pytest.raises(InputError, match="macro_f1 or weighted_f1"):
        from_toml(own_task(tmp_path, THREE.replace('"accuracy"', '"accuracy", "f1"')))
    for metric in ("macro_f1", "weighted_f1", "matthews"):
        assert from_toml(own_task(tmp_path, THREE.replace("accuracy", metric))).metrics == (metric,)
    assert from_toml(own_task(tmp_path, TOML.replace("accuracy", "f1"))).metrics == ("f1",)


def test_groups_keep_their_order_and_names_win():
    assert [task.name for task, _ in expand("glue")] == list(GLUE)
    assert {by_name for task, by_name in expand("glue,rte") if task.name == "rte"} == {True}


def test_an_epoch_visits_every_example_once():
    batches = batches_of_epoch(21, 8, seed=3, epoch=2)
    assert [len(b) for b in batches] == [8, 8, 5]
    assert sorted(i for b in batches for i in b) == list(range(21))
    assert batches != batches_of_epoch(21, 8, seed=3, epoch=1)
    assert batches == batches_of_epoch(21, 8, seed=3, epoch=2)


def test_a_tokenizer_that_knows_no_word_is_an_error(teacher_folder):
    with pytest.raises(InputError, match="are \\[UNK\\]"):
        encode(tiny.tokenizer(teacher_folder), Split(["xyz qqq zzz"], None, np.array([0]), [0]), 16)


def test_a_document_is_a_line_whatever_else_divides_pages(tmp_path):
    text = tmp_path / "book.txt"
    text.write_bytes("one \f page\u2028 of it\r\nsecond\n".encode())
    assert len(read_corpus([str(text)], 1).documents) == 2


def test_corpus_files(tmp_path, teacher_folder):
    text, table = tmp_path / "c.txt", tmp_path / "c.parquet"
    text.write_text("the cat runs in the house\n\nthe dog sleeps on the tree\n")
    pandas.DataFrame({"text": ["a bird sings in the tree ."]}).to_parquet(table)
    corpus = read_corpus([str(text), str(table)], 1)
    assert len(corpus.documents) == 3
    made = pieces(tiny.tokenizer(teacher_folder), corpus.documents * 20, 16, budget=100)
    assert 100 <= made.total_tokens < 120
    assert {int(s.max()) for s in made.segments} == {0, 1}
    assert max(map(len, made.tokens)) <= 16


@pytest.mark.parametrize(
    "name, content, message",
    [
        ("none.txt", None, "no such file"),
        ("empty.txt", b"\n", "no text in it"),
        ("bad.txt", b"\xff\xfe\x00", "not UTF-8"),
        ("bad.parquet", b"x", "not a parquet file"),
        (
            "c.parquet",
            pandas.DataFrame({"body": ["x"]}).to_parquet(),
            "no column 'text'; it has: body",
        ),
    ],
)
def test_bad_corpora(tmp_path, name, content, message):
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError, match=message):
        read_corpus([str(tmp_path / name)], 1)


def test_bytes_that_parquet_calls_a_text_are_refused(tmp_path):
    """The file is whole; only the bytes of one text are no UTF-8. Found by the long form of the fuzzer."""
    import pyarrow
    import pyarrow.parquet

    text = pyarrow.array([b"fine words", b"f\xfene words"], pyarrow.binary()).view(pyarrow.string())
    file = tmp_path / "t.parquet"
    pyarrow.parquet.write_table(pyarrow.table({"a": text, "label": [0, 1]}), file)
    task = from_toml(own_task(tmp_path))
    with pytest.raises(InputError, match=r"t\.parquet: column 'a' is not UTF-8 text"):
        read([file], task, True)


def test_examples_are_encoded_alike_in_calls_of_any_size(teacher_folder, monkeypatch):
    whole = tiny.encoded(teacher_folder)
    monkeypatch.setattr("bench.data.encoding.ROWS_A_CALL", 3)
    parts = tiny.encoded(teacher_folder)
    assert len(whole) > 3
    for name in ("tokens", "segments"):
        assert [row.tolist() for row in getattr(whole, name)] == [
            row.tolist() for row in getattr(parts, name)
        ]


def test_a_checkpoint_that_was_replaced_is_read_again(tmp_path, monkeypatch):
    """Also where it has the same path, as seen from another folder: a session in Python lives long."""
    from bench.data.checkpoints import find

    hashes = set()
    for number, folder in enumerate(("a", "a", "b")):
        (tmp_path / folder).mkdir(exist_ok=True)
        monkeypatch.chdir(tmp_path / folder)
        tiny.save_teacher(Path("teacher"), layers=1 + number)
        hashes.add(find("teacher").sha256)
    assert len(hashes) == 3
