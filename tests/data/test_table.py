"""Columns of files as they stand there: what is read, what is said of it, and what is refused by row."""

from __future__ import annotations

import csv
import io
import json
import random
import warnings
from pathlib import Path

import numpy as np
import pandas
import pyarrow.parquet
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bench.data.inspect import inspect
from bench.data.own_tasks import expand
from bench.data.quoting import AS_CSV, AS_TEXT, quotes_of
from bench.data.sources import source_for
from bench.data.table import MOST_COLUMNS, table_of
from bench.errors import InputError
from bench.user_files import refuse_lfs_pointer


def written(file: Path, text: str) -> Path:
    file.write_bytes(text.encode())
    return file


def texts(file: Path, column: str = "text", quotes: str = "") -> list[str]:
    return table_of(file, [column], ["label"], quotes)[column]


def said(typed: object) -> str:
    return " ".join(line for row in inspect(str(typed), "sample", True) for line in row["said"])


# --- quotes


PLAIN = [f"a cat {i}" for i in range(8)]
DIALOGUE = ['"I am here"', 'He said "no"', '"So", he said', "x", '"', 'a ""b""', "", 'end "']


@pytest.mark.parametrize("quoting", [csv.QUOTE_MINIMAL, csv.QUOTE_ALL, csv.QUOTE_NONNUMERIC])
@pytest.mark.parametrize("ending", ["csv", "tsv"])
@pytest.mark.parametrize("line_end", ["\n", "\r\n"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_what_pandas_quotes_comes_back(tmp_path, quoting, ending, line_end, mark):
    """Also texts with line breaks, tabs, commas and quotes of their own."""
    kept = [*(text for text in DIALOGUE if text), "one\ntwo", "a\tb", "a, b", *PLAIN]
    table = pandas.DataFrame({"text": kept, "label": [i % 2 for i in range(len(kept))]})
    out = io.StringIO()
    table.to_csv(
        out,
        index=False,
        sep="\t" if ending == "tsv" else ",",
        quoting=quoting,
        lineterminator=line_end,
    )
    file = written(tmp_path / f"t.{ending}", mark + out.getvalue())
    read = table_of(file, ["text"], ["label"])
    assert read["text"] == kept
    assert read["label"] == table["label"].tolist()
    assert bool(read.said) == (ending == "tsv"), "what a TSV was taken for is said"


def test_a_tsv_that_only_a_reader_of_quotes_can_read_is_read_so_and_doubled_quotes_too(tmp_path):
    for kept in (["one\ntwo", "x", "y"] * 4, [f'He said "no" {i}' for i in range(12)]):
        table = pandas.DataFrame({"text": kept, "label": ["a", "b"] * 6})
        table.to_csv(tmp_path / "t.tsv", sep="\t", index=False)
        assert texts(tmp_path / "t.tsv") == kept
        assert "t.tsv: its quotes enclose fields" in said(tmp_path / "t.tsv")


@pytest.mark.parametrize(
    "lines",
    [
        ['"a stray', "x", 'c"'],  # both readings have rows of two fields
        ['He said "no"', "x", "y"],
        ['"I am here" , he said', "x", "y"],
        ['a "', '" b', "y"],
        ['"He said ""no"" twice"', 'and "no', "y"],
    ],
)
def test_quotes_of_a_tsv_like_glues_stay_in_the_text_and_that_is_said(tmp_path, lines):
    text = "text\tlabel\n" + "".join(f"{line}\t{i % 2}\n" for i, line in enumerate(lines * 4))
    file = written(tmp_path / "t.tsv", text)
    assert texts(file) == lines * 4
    assert "t.tsv: its quotes are part of the texts; :quotes=csv" in said(file)
    assert texts(file, quotes=AS_TEXT) == lines * 4


def test_quotes_around_some_fields_that_need_none_are_asked_for(tmp_path):
    """Excel writes so where a text has a comma, and a writer of dialogues too."""
    rows = [row for i in range(6) for row in (f'"Yes, I know {i}."', f"Who {i}?")]
    text = "text\tlabel\n" + "".join(f"{row}\t{i % 3}\n" for i, row in enumerate(rows))
    file = written(tmp_path / "t.tsv", text)
    with pytest.raises(InputError, match=r"add :quotes=csv for the one, or :quotes=text"):
        expand(str(file))
    for quotes, first in ((AS_TEXT, '"Yes, I know '), (AS_CSV, "Yes, I know ")):
        ((task, _),) = expand(f"{file}:quotes={quotes}")
        train = source_for(task, "sample", True).load(task, "train")
        assert any(text.startswith(first) for text in train.first)
        assert not any("quotes" in line for line in train.said), "typed, and not inferred"
    (tmp_path / "mine.toml").write_text(
        'name = "mine"\ntrain = "t.tsv"\nvalidation = "v.tsv"\ntext = ["text"]\nquotes = "csv"\n'
        'labels = ["0", "1", "2"]\nmetrics = ["accuracy"]\n'
    )
    written(tmp_path / "v.tsv", "text\tlabel\nx\t1\n")
    ((task, _),) = expand(str(tmp_path / "mine.toml"))
    assert source_for(task, "sample", True).load(task, "train").first[0] == "Yes, I know 0."


def test_a_csv_without_a_convention_of_quotes(tmp_path):
    """pandas would take all between two stray quotes for one text, and drop quotes inside."""
    stray = 'text,label\n"a stray,1\nb,0\nc,1\n'
    file = written(tmp_path / "stray.csv", stray)
    assert texts(file) == ['"a stray', "b", "c"]
    written(tmp_path / "stray.csv", stray + "d,0\nd,1\n" * 5)
    assert "stray.csv: its quotes are part of the texts" in said(f"{file}:text=text")
    balanced = written(tmp_path / "balanced.csv", 'text,label\n"a stray,1\nb,0\nc",1\n')
    with pytest.raises(InputError, match="quotes may enclose fields, or be part of the texts"):
        texts(balanced)
    assert texts(balanced, quotes=AS_TEXT) == ['"a stray', "b", 'c"']
    assert texts(balanced, quotes=AS_CSV) == ["a stray,1\nb,0\nc"]
    escaped = written(tmp_path / "escaped.csv", 'text,label\nx,1\n"so \\"so\\", he",0\n')
    with pytest.raises(InputError, match=r"row 1: ',' expected after '\"', behind line 2"):
        texts(escaped)
    inches = written(tmp_path / "inches.csv", 'text,label\n5" pipe,1\n"a, b",0\n')
    assert texts(inches) == ['5" pipe', "a, b"]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
@given(
    st.lists(st.text(alphabet='ab"\n,\t ', min_size=1, max_size=6), min_size=1, max_size=6),
    st.sampled_from([",", "\t"]),
)
def test_a_file_that_pandas_wrote_is_read_as_it_was_or_asked_for(tmp_path, kept, separator):
    file = tmp_path / ("t.tsv" if separator == "\t" else "t.csv")
    table = pandas.DataFrame({"text": kept, "label": [f"l{i}" for i in range(len(kept))]})
    table.to_csv(file, sep=separator, index=False)
    assert texts(file, quotes=AS_CSV) == kept
    if quotes_of(file.read_text(), separator) == AS_CSV:
        assert texts(file) == kept


def test_a_text_longer_than_pythons_reader_takes(tmp_path):
    before = csv.field_size_limit()
    long = "word " * 40_000
    file = written(tmp_path / "t.csv", f'text,label\n{long},1\n"a",2\n')
    assert texts(file) == [long, "a"]
    file = written(tmp_path / "t.tsv", f'text\tlabel\n{long}\t1\n"a"\t2\n')
    with pytest.raises(InputError, match="add :quotes=csv"):
        texts(file)
    assert csv.field_size_limit() == before


# --- rows and columns


@pytest.mark.parametrize(
    "name, bad, says",
    [
        ("t.tsv", "\tWas it?\t0", "row 30: it has 3 fields, the header 4; write what is missing"),
        ("t.tsv", "1\ta\tb\tc\t0\t0", "row 30: it has 6 fields, the header 4; take out tabs"),
        ("t.tsv", "alone", "row 30: it has 1 field, the header 4"),
        ("t.csv", "1,a,b", "row 30: it has 3 fields, the header 4; write what is missing"),
        ("t.csv", "1,a,b,c,d", "row 30: it has 5 fields, the header 4; put a text with a comma"),
    ],
)
def test_a_row_with_another_number_of_fields_is_named(tmp_path, name, bad, says):
    separator = "\t" if name == "t.tsv" else ","
    good = [separator.join([f"{i}", f"a {i}", f"b {i}", f"{i % 2}"]) for i in range(60)]
    lines = [separator.join(["id", "one", "two", "label"]), *good[:30], bad, *good[30:]]
    file = written(tmp_path / name, "\n".join(lines) + "\n\n")
    with pytest.raises(InputError, match=rf"{name}, {says}.*line 32 of the file"):
        expand(f"{file}:text=one+two")


@pytest.mark.parametrize(
    "name, header, says",
    [
        ("t.csv", "text;label", "separated by semicolons; save it with commas"),
        ("t.csv", "text\tlabel", "separated by tabs; rename it to .tsv"),
        ("t.csv", "text|label", r"separated by signs \|"),
        ("t.tsv", "text,label", "separated by commas; rename it to .csv"),
        ("t.tsv", "text;label", "separated by semicolons"),
    ],
)
def test_another_separator_than_the_ending_says(tmp_path, name, header, says):
    file = written(tmp_path / name, f"{header}\n" + header.replace("label", "1") + "\n")
    with pytest.raises(InputError, match=says):
        expand(str(file))


@pytest.mark.parametrize("ending", ["csv", "tsv", "jsonl", "parquet"])
def test_a_column_that_nobody_reads_stops_nothing(tmp_path, ending):
    """Numbers and words further down, objects and texts, bytes that are no text: all but the task's own columns."""
    file = tmp_path / f"t.{ending}"
    count = 40_000 if ending in ("csv", "tsv") else 60
    mixed = [i if i < count // 2 else f"X-{i}" for i in range(count)]
    own = {"text": [f"t {i}" for i in range(count)], "label": ["ab"[i % 2] for i in range(count)]}
    if ending == "parquet":
        bad = pyarrow.array([b"\xfe"] * count).view(pyarrow.string())
        pyarrow.parquet.write_table(pyarrow.table({**own, "bad": bad}), file)
    elif ending == "jsonl":
        rows = pandas.DataFrame({**own, "mixed": pandas.Series(mixed, dtype=object)})
        rows = rows.to_dict(orient="records")
        rows[5]["meta"] = {"a": 1}
        rows[9]["meta"] = "x"
        written(file, "".join(json.dumps(row) + "\n" for row in rows))
    else:
        wide = {f"f{k}": range(count) for k in range(5)}
        table = pandas.DataFrame({**own, "mixed": mixed, **wide})
        table.to_csv(file, index=False, sep="\t" if ending == "tsv" else ",")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ((task, _),) = expand(f"{file}:text=text")
        source = source_for(task, "sample", True)
        sizes = len(source.load(task, "train")), len(source.load(task, task.evaluation[0]))
    assert sum(sizes) == count
    assert task.labels == ("a", "b")


def test_a_column_of_labels_is_one_kind_however_long_the_file_is(tmp_path):
    """pandas reads long files in parts, and each part had a kind of its own."""
    labels = [i % 3 if i < 39_000 else "other" for i in range(40_000)]
    wide = {f"f{k}": range(40_000) for k in range(8)}
    table = pandas.DataFrame({"text": [f"t {i}" for i in range(40_000)], "label": labels, **wide})
    table.to_csv(tmp_path / "t.csv", index=False)
    ((task, _),) = expand(f"{tmp_path / 't.csv'}:text=text")
    assert task.labels == ("0", "1", "2", "other")


def test_a_mixed_column_that_is_needed_is_refused_by_its_row(tmp_path):
    rows = [{"text": f"t {i}", "label": 1 if i < 7 else "no"} for i in range(9)]
    file = written(tmp_path / "t.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
    with pytest.raises(InputError, match="row 7: label is 'no', and a number in the rows before"):
        expand(str(file))
    rows = [{"text": "half \ud800" if i == 2 else "t", "label": i % 2} for i in range(9)]
    file = written(tmp_path / "t.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
    with pytest.raises(InputError, match="row 2: text has half a character"):
        expand(f"{file}:text=text")
        inspect(f"{file}:text=text", "sample", True)


# --- JSON


def json_lines(file: Path, rows: list[dict[str, object]]) -> Path:
    return written(file, "".join(json.dumps(row) + "\n" for row in rows))


PAIRS = [
    {"premise": f"a dog {i}", "hypothesis": f"an animal {i}", "label": "yn"[i % 2]}
    for i in range(60)
]


@pytest.mark.parametrize("place", [0, 17])
def test_keys_of_all_rows_are_columns(tmp_path, place):
    rows = [*PAIRS[:place], {"premise": "alone", "label": "y"}, *PAIRS[place:]]
    file = json_lines(tmp_path / "t.jsonl", rows)
    assert table_of(file).names[:2] == ("premise", "label" if place == 0 else "hypothesis")
    with pytest.raises(InputError, match=rf"row {place}: hypothesis should be text, but the cell"):
        inspect(f"{file}:text=premise+hypothesis", "sample", True)


@pytest.mark.parametrize("place", [0, 17])
def test_a_row_without_a_label_is_named(tmp_path, place):
    rows = [{"text": f"t {i}", "label": i % 2} for i in range(40)]
    rows[place] = {"text": "no label yet"}
    file = json_lines(tmp_path / "t.jsonl", rows)
    with pytest.raises(InputError, match=rf"t\.jsonl.*, row {place}: .*label"):
        expand(f"{file}:text=text")
    pandas.DataFrame(rows).to_csv(tmp_path / "t.csv", index=False)
    with pytest.raises(InputError, match=rf"t\.csv.*, row {place}: .*label"):
        expand(f"{tmp_path / 't.csv'}:text=text")


def test_the_same_rows_have_one_fingerprint_in_any_form(tmp_path):
    draw = random.Random(3)
    signs = "abc \"',;\t|é "
    kept = ["x" + "".join(draw.choices(signs, k=20)) for _ in range(80)]
    table = pandas.DataFrame({"text": kept, "label": [i % 3 for i in range(80)]})
    files = [tmp_path / f"t.{ending}" for ending in ("csv", "tsv", "jsonl", "json", "parquet")]
    table.to_csv(files[0], index=False)
    table.to_csv(files[1], index=False, sep="\t")
    table.to_json(files[2], orient="records", lines=True)
    table.to_json(files[3], orient="records")
    table.to_parquet(files[4])
    hashes = set()
    for file in files:
        ((task, _),) = expand(f"{file}:text=text")
        hashes.add(source_for(task, "sample", True).load(task, "train").fingerprint())
    assert len(hashes) == 1


# --- pointers and bounds


@pytest.mark.parametrize("name", ["t.parquet", "t.csv", "t.tsv", "t.jsonl", "t.json", "t.arrow"])
def test_a_pointer_of_git_lfs_is_named(tmp_path, name):
    pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:abc\nsize 12\n"
    file = written(tmp_path / name, pointer)
    with pytest.raises(InputError, match=rf"{name} is a pointer of git-lfs.*; type git lfs pull"):
        expand(str(file))
    with pytest.raises(InputError, match="git lfs pull"):
        refuse_lfs_pointer(file, str(file))


def test_a_file_of_many_columns_is_read_for_those_of_the_task_alone(tmp_path):
    count = 100_000
    header = ",".join([*(f"c{k}" for k in range(count)), "text", "label"])
    rows = "\n".join(",".join(["1"] * count + [f"t {i}", "ab"[i % 2]]) for i in range(10))
    file = written(tmp_path / "t.csv", f"{header}\n{rows}\n")
    with pytest.raises(
        InputError,
        match=rf"has 100,002 columns, and at most {MOST_COLUMNS:,} are looked at; .*:text",
    ):
        expand(str(file))
    ((task, _),) = expand(f"{file}:text=text")
    train = source_for(task, "sample", True).load(task, "train")
    assert set(train.first) < {f"t {i}" for i in range(10)}
    row = {f"c{k}": 1 for k in range(MOST_COLUMNS)} | {"text": "t", "label": 1}
    with pytest.raises(InputError, match="at most 1,000 are looked at"):
        expand(str(json_lines(tmp_path / "t.jsonl", [row])))


def test_two_columns_of_one_name_are_refused_where_they_are_needed(tmp_path):
    file = written(tmp_path / "t.csv", "text,text,label,x,x\na,b,1,1,2\nc,d,0,1,2\n")
    with pytest.raises(InputError, match="two columns called 'text'"):
        inspect(f"{file}:text=text", "sample", True)
    rows = "".join(f"a{i},{i % 2},1,2\n" for i in range(10))
    file = written(tmp_path / "u.csv", "text,label,x,x\n" + rows)
    ((task, _),) = expand(f"{file}:text=text")
    assert np.bincount(source_for(task, "sample", True).load(task, "train").labels).sum() == 8
