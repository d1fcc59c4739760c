"""What labels are, however a file stores them: classes, numbers on a scale, none, or several at once."""

from __future__ import annotations

import json

import numpy as np
import pandas
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.data.columns import described
from bench.data.own_tasks import expand
from bench.data.sources import source_for
from bench.errors import InputError
from bench.plan.build import build
from bench.request import Request

WRITE = {
    "csv": lambda rows, file: rows.to_csv(file, index=False),
    "tsv": lambda rows, file: rows.to_csv(file, index=False, sep="\t"),
    "jsonl": lambda rows, file: rows.to_json(file, orient="records", lines=True),
    "parquet": lambda rows, file: rows.to_parquet(file, index=False),
}
EACH_FORM = pytest.mark.parametrize("form", WRITE)


def file_of(folder, labels, form="jsonl"):
    file = folder / f"mine.{form}"
    texts = [f"the cat number {i}" for i in range(len(labels))]
    WRITE[form](pandas.DataFrame({"text": texts, "label": labels}), file)
    return file


def task_of(typed):
    ((task, _),) = expand(str(typed))
    return task


def labels_of(task):
    """All labels of a file that is both trained on and scored, by their texts' numbers."""
    source = source_for(task, "sample", offline=True)
    found = {}
    for wanted in ("train", task.evaluation[0]):
        split = source.load(task, wanted)
        numbers = [int(text.rpartition(" ")[2]) for text in split.first]
        found |= dict(zip(numbers, split.labels.tolist(), strict=True))
    return found


# --- numbers


SCORES = [round((i * 7 % 26) / 5, 1) for i in range(100)]


@EACH_FORM
@pytest.mark.parametrize("comma", [False, True])
def test_scores_that_are_text_are_asked_for_and_read_as_numbers(tmp_path, form, comma):
    texts = [f"{score:.1f}".replace(".", "," if comma else ".") for score in SCORES]
    if form in ("csv", "tsv") and not comma:
        return  # a file of this form has numbers there
    file = file_of(tmp_path, texts, form)
    with pytest.raises(
        InputError, match=r"is text that is all numbers, 0.*Add :kind=regression or"
    ):
        task_of(file)
    task = task_of(f"{file}:kind=regression")
    assert (task.regression, task.metrics) == (True, ("r2", "spearman", "pearson"))
    assert labels_of(task) == pytest.approx(dict(enumerate(SCORES)))
    assert task_of(f"{file}:kind=classes").labels == tuple(sorted(set(texts)))


def test_a_comma_between_thousands_is_no_decimal_comma(tmp_path):
    file = file_of(tmp_path, ["1,234", "2,500", "12,000", "3"] * 10)
    with pytest.raises(
        InputError, match="row 0: 1,234 may be a number with decimals or with thous"
    ):
        labels_of(task_of(f"{file}:kind=regression"))


@EACH_FORM
def test_whole_numbers_with_a_decimal_point_are_asked_for(tmp_path, form):
    codes = [float(i % 2) for i in range(60)]
    file = file_of(tmp_path, codes, form)
    if form == "jsonl":  # pandas writes 1.0 as it is
        assert '"label":1.0' in file.read_text()
    with pytest.raises(InputError, match=r"all whole: classes, or a scale\? Add :kind=classes or"):
        task_of(file)
    assert task_of(f"{file}:kind=classes").labels == ("0", "1")
    assert labels_of(task_of(f"{file}:kind=classes")) == dict(enumerate(codes))
    assert labels_of(task_of(f"{file}:kind=regression")) == dict(enumerate(codes))


@EACH_FORM
def test_numbers_with_decimals_are_a_scale_and_may_be_classes(tmp_path, form):
    file = file_of(tmp_path, [[1.0, 1.5, 2.5][i % 3] for i in range(30)], form)
    assert task_of(file).regression
    task = task_of(f"{file}:kind=classes")
    assert task.labels == ("1.0", "1.5", "2.5")
    assert labels_of(task) == {i: i % 3 for i in range(30)}


def test_stars_that_became_numbers_with_a_point_keep_their_names(tmp_path):
    """A class is its name, never a code by accident: 1.0 is the first of 1, 2 and 3."""
    file = file_of(tmp_path, [1 + i % 3 for i in range(30)], "csv")
    dev = tmp_path / "dev.csv"
    dev.write_text("text,label\n" + "".join(f"a dog {i},{1 + i % 3}.0\n" for i in range(9)))
    task = task_of(f"{file}:validation=dev.csv")
    scored = source_for(task, "sample", offline=True).load(task, task.evaluation[0])
    assert scored.labels.tolist() == [i % 3 for i in range(9)]


@pytest.mark.parametrize(
    "values",
    [
        pytest.param([100 + i * 37 % 900 for i in range(90)], id="prices"),
        pytest.param([str(100 + i * 37 % 900) for i in range(90)], id="prices as text"),
        pytest.param([18 + i % 60 for i in range(600)], id="ages"),
        pytest.param(list(range(5, 45, 2)) * 1, id="each once"),
        pytest.param([i * 3 for i in range(400)], id="more than classes"),
    ],
)
def test_many_whole_numbers_may_be_a_scale(tmp_path, values):
    file = file_of(tmp_path, values)
    with pytest.raises(InputError, match=r"a scale, or classes\? Add :kind=regression or"):
        task_of(file)
    assert labels_of(task_of(f"{file}:kind=regression")) == {
        i: float(value) for i, value in enumerate(values)
    }
    assert len(task_of(f"{file}:kind=classes").labels) == len(set(values))


def test_numbers_without_end_are_asked_for_too(tmp_path):
    file = file_of(tmp_path, ["1" * 5000, "2" * 5000] * 10)
    with pytest.raises(
        InputError, match=r"is text that is all numbers, .* Add :kind=regression or"
    ):
        task_of(file)


@given(count=st.integers(2, 200), first=st.sampled_from([0, 1]), as_text=st.booleans())
def test_codes_that_count_are_classes_as_before(tmp_path_factory, count, first, as_text):
    codes = [first + i % count for i in range(2 * count)]
    values = [str(code) for code in codes] if as_text else codes
    task = task_of(file_of(tmp_path_factory.mktemp("codes"), values))
    order = sorted(set(values))
    assert task.labels == tuple(str(code) for code in order)


def test_kind_is_one_of_two(tmp_path):
    file = file_of(tmp_path, ["no", "yes"] * 10)
    with pytest.raises(
        InputError, match=r"no kind of .* is called 'class'; did you mean 'classes'"
    ):
        task_of(f"{file}:kind=class")
    with pytest.raises(InputError, match="row 0: label is 'no', which is no number"):
        task_of(f"{file}:kind=regression")


# --- no label


def with_names(folder, codes):
    """A parquet file that says the names of its classes, as those of the hub do."""
    import datasets

    names = datasets.ClassLabel(names=["entailment", "neutral", "contradiction"])
    features = datasets.Features({"text": datasets.Value("string"), "label": names})
    rows = [{"text": f"the cat number {i}", "label": code} for i, code in enumerate(codes)]
    datasets.Dataset.from_list(rows, features=features).to_parquet(folder / "nli.parquet")
    return folder / "nli.parquet"


CODES = [-1 if i % 20 == 7 else i % 3 for i in range(120)]
KEPT = {i: code for i, code in enumerate(CODES) if code >= 0}


def test_rows_of_a_named_task_without_a_label_are_counted_and_left_out(tmp_path):
    file = with_names(tmp_path, CODES)
    says = (
        "row 7: label is -1, .* in 6 of 120 rows of train; add :unlabelled=drop to leave them out"
    )
    with pytest.raises(InputError, match=says):
        labels_of(task_of(file))
    task = task_of(f"{file}:unlabelled=drop")
    assert task.labels == ("entailment", "neutral", "contradiction")
    assert labels_of(task) == KEPT


@EACH_FORM
@pytest.mark.parametrize("marker", ["-", "-1", "nan", "?", None])
def test_what_stands_for_no_label_is_no_class_unasked(tmp_path, form, marker):
    names = ["contradiction", "entailment", "neutral"]
    words = [marker if code < 0 else names[code] for code in CODES]
    file = file_of(tmp_path, words, form)
    with pytest.raises(InputError, match=r"in 6 of 120 rows of train.* add :unlabelled=drop"):
        task_of(file)
    task = task_of(f"{file}:unlabelled=drop")
    assert (task.labels, labels_of(task)) == (tuple(names), KEPT)
    if marker is not None:
        assert task_of(f"{file}:unlabelled=keep").labels == tuple(sorted([marker, *names]))


@EACH_FORM
def test_codes_with_minus_one(tmp_path, form):
    file = file_of(tmp_path, CODES, form)
    with pytest.raises(InputError, match="label is '-1' in 6 of 120 rows of train"):
        task_of(file)
    assert labels_of(task_of(f"{file}:unlabelled=drop")) == KEPT
    assert task_of(f"{file}:unlabelled=keep").labels == ("-1", "0", "1", "2")
    # three opinions are three classes, as before
    opinions = file_of(tmp_path, [-1, 0, 1] * 10, form)
    assert task_of(opinions).labels == ("-1", "0", "1")


@EACH_FORM
def test_an_empty_cell_is_called_so(tmp_path, form):
    codes = [None if i == 3 else float(i % 2) for i in range(60)]
    file = file_of(tmp_path, codes, form)
    says = "row 3: label: the cell is empty, in 1 of 60 rows of train; write a label there, or add"
    with pytest.raises(InputError, match=says):
        task_of(file)
    with pytest.raises(InputError, match="all whole"):
        task_of(f"{file}:unlabelled=drop")
    left = labels_of(task_of(f"{file}:unlabelled=drop:kind=classes"))
    assert left == {i: i % 2 for i in range(60) if i != 3}


def test_whole_numbers_stay_whole_beside_an_empty_cell(tmp_path):
    rows = [{"text": f"the cat number {i}", "label": None if i == 3 else i % 2} for i in range(60)]
    file = tmp_path / "mine.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert task_of(f"{file}:unlabelled=drop").labels == ("0", "1")


def test_minus_one_is_a_score_on_a_scale(tmp_path):
    scores = [-1.0, -0.5, 0.25, 1.0] * 10
    file = file_of(tmp_path, scores)
    assert labels_of(task_of(f"{file}:unlabelled=drop")) == dict(enumerate(scores))


def test_a_second_file_is_told_of_its_own_rows(tmp_path):
    file = file_of(tmp_path, ["no", "yes"] * 20, "csv")
    (tmp_path / "dev.csv").write_text("text,label\na dog,yes\na bird,-\na fish,no\n")
    task = task_of(f"{file}:validation=dev.csv")
    source = source_for(task, "sample", offline=True)
    with pytest.raises(
        InputError, match=r"dev.csv, row 1: label is -, .* 1 of 3 rows of validation"
    ):
        source.load(task, task.evaluation[0])
    task = task_of(f"{file}:validation=dev.csv:unlabelled=drop")
    scored = source.load(task, task.evaluation[0])
    assert (list(scored.first), scored.labels.tolist()) == (["a dog", "a fish"], [1, 0])
    (tmp_path / "dev.csv").write_text("text,label\na dog,-1\na bird,-1\n")
    with pytest.raises(
        InputError, match="is -1 in all 2 rows of validation, which marks a test spl"
    ):
        source.load(task, task.evaluation[0])


def test_a_task_file_leaves_out_rows_too(tmp_path):
    for name in ("t.csv", "v.csv"):
        (tmp_path / name).write_text("text,label\na dog,no\na cat,-\na bird,yes\n")
    toml = tmp_path / "mine.toml"
    text = (
        'name = "mine"\ntrain = "t.csv"\nvalidation = "v.csv"\ntext = ["text"]\n'
        'labels = ["no", "yes"]\nmetrics = ["accuracy"]\n'
    )
    toml.write_text(text)
    task = task_of(toml)
    source = source_for(task, "sample", offline=True)
    with pytest.raises(InputError, match=r'unlabelled = "drop" in mine.toml leaves them out'):
        source.load(task, "train")
    toml.write_text(text + 'unlabelled = "drop"\n')
    assert source.load(task_of(toml), "train").labels.tolist() == [0, 1]


# --- several labels


@pytest.mark.parametrize("form", ["jsonl", "parquet"])
@pytest.mark.parametrize("labels", [[[0, 1]] * 20, [["B", "O"], ["O"]] * 10, [[]] * 20])
def test_a_list_is_several_labels(tmp_path, form, labels):
    file = file_of(tmp_path, labels, form)
    with pytest.raises(
        InputError, match=r"row 0: label is the list .*: several labels for one text"
    ):
        task_of(file)
    toml = tmp_path / "mine.toml"
    WRITE[form](pandas.DataFrame({"text": ["a dog"], "label": labels[:1]}), tmp_path / f"v.{form}")
    toml.write_text(
        f'name = "mine"\ntrain = "mine.{form}"\nvalidation = "v.{form}"\ntext = ["text"]\n'
        'labels = ["0", "1"]\nmetrics = ["accuracy"]\n'
    )
    task = task_of(toml)
    with pytest.raises(InputError, match="several labels for one text"):
        source_for(task, "sample", offline=True).load(task, "train")


def test_a_label_for_each_word_is_said_although_the_text_is_a_list_too(tmp_path):
    rows = [{"tokens": ["the", "cat"], "ner_tags": [0, 1]} for _ in range(20)]
    file = tmp_path / "tags.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    with pytest.raises(
        InputError, match=r"ner_tags is the list \[0, 1\]: .* one for each of its wor"
    ):
        task_of(f"{file}:label=ner_tags")


@pytest.mark.parametrize(
    "names",
    [
        ["drama", "drama,comedy", "comedy", "action,drama,comedy"],
        ["drama|comedy", "comedy|action", "action|drama"],
        ["a; b", "b", "a"],
        ["['drama', 'comedy']", "['drama']"],
        ["0,1,1", "1,0,0"],
        ["0 1 1", "1 0 0", "0 0 0"],
    ],
)
def test_words_may_be_several_labels(tmp_path, names):
    file = file_of(tmp_path, names * 20)
    with pytest.raises(
        InputError, match="several labels for one text are not supported; give each"
    ):
        task_of(file)
    assert task_of(f"{file}:kind=classes").labels == tuple(sorted(names))


def test_a_class_may_have_a_comma_in_its_name(tmp_path):
    names = ["Clothing, men", "Clothing, women", "Portland, OR"]
    assert task_of(file_of(tmp_path, names * 20)).labels == tuple(names)


# --- names and metrics


def test_more_classes_than_are_taken_unasked_have_two_ways_out(tmp_path):
    file = file_of(tmp_path, [f"intent {i % 300}" for i in range(900)])
    with pytest.raises(
        InputError, match=r"300 different values; .* in a TOML file .* :kind=classes"
    ):
        task_of(file)
    assert len(task_of(f"{file}:kind=classes").labels) == 300
    with pytest.raises(InputError, match="has 60 different values in 60 rows, which are hardly"):
        task_of(file_of(tmp_path, [f"answer {i}" for i in range(60)]))
    with pytest.raises(InputError, match="is 'yes' in all rows; a task has two classes"):
        task_of(file_of(tmp_path, ["yes"] * 60))


@pytest.mark.parametrize(
    "sizes, metrics",
    [
        # of two classes the border is a fifth of the rows: 12 of 60
        ((11, 49), ("macro_f1", "accuracy", "f1")),
        ((12, 48), ("accuracy", "f1")),
        ((30, 30), ("accuracy", "f1")),
        # of four it is a tenth
        ((5, 18, 18, 19), ("macro_f1", "accuracy")),
        ((6, 18, 18, 18), ("accuracy", "macro_f1")),
        # as in the tickets of an engineer: 12 classes, one of 8 rows
        ((8, 30, 32, *[140] * 9), ("macro_f1", "accuracy")),
        ([140] * 12, ("accuracy", "macro_f1")),
    ],
)
def test_macro_f1_comes_first_where_a_class_is_rare(tmp_path, sizes, metrics):
    labels = [f"class {code:02}" for code, size in enumerate(sizes) for _ in range(size)]
    file = file_of(tmp_path, labels)
    task = task_of(file)
    assert task.metrics == metrics
    if metrics[0] == "macro_f1":
        why = f"class 00 has {sizes[0]} of {sum(sizes):,} rows"
        assert described(task).endswith(f", macro F1 first because the classes are unequal: {why}")
    else:
        assert "unequal" not in described(task)
    # what is typed goes before, and needs no reason
    assert task_of(f"{file}:metrics=accuracy").metrics == ("accuracy",)
    assert "unequal" not in described(task_of(f"{file}:metrics=macro_f1"))


def test_a_rare_class_of_numbers_is_named_as_the_task_calls_it(tmp_path):
    task = task_of(file_of(tmp_path, [0] * 50 + [1] * 4 + [2] * 46))
    assert task.metrics == ("macro_f1", "accuracy")
    assert task.why_macro_f1 == "1 has 4 of 100 rows"


def test_a_task_chooses_the_class_of_f1(tmp_path):
    file = file_of(tmp_path, ["abusive", "fine", "fine"] * 20)
    assert task_of(f"{file}:positive=fine").metrics == ("accuracy", "f1")
    assert task_of(f"{file}:positive=abusive").metrics == ("accuracy", "f1_of_class_0")
    assert task_of(f"{file}:positive=abusive:metrics=f1").metrics == ("f1_of_class_0",)
    # which class is scored is no other data
    first, second = (task_of(f"{file}:positive={name}") for name in ("abusive", "fine"))
    assert first.labels == second.labels
    with pytest.raises(
        InputError, match=r"no class of .* is called 'abusiv'; did you mean 'abusive'"
    ):
        task_of(f"{file}:positive=abusiv")
    with pytest.raises(
        InputError, match="positive=fine goes with the metric f1; add it to metrics"
    ):
        task_of(f"{file}:positive=fine:metrics=accuracy")
    more = file_of(tmp_path, ["a", "b", "c"] * 20)
    with pytest.raises(InputError, match="this task has 3 classes; leave it out, and choose macro"):
        task_of(f"{more}:positive=a")


def test_a_task_file_chooses_the_class_of_f1(tmp_path):
    for name in ("t.csv", "v.csv"):
        (tmp_path / name).write_text("text,label\na dog,no\na bird,yes\n")
    (tmp_path / "mine.toml").write_text(
        'name = "mine"\ntrain = "t.csv"\nvalidation = "v.csv"\ntext = ["text"]\n'
        'labels = ["yes", "no"]\nmetrics = ["accuracy", "f1"]\npositive = "yes"\n'
    )
    assert task_of(tmp_path / "mine.toml").metrics == ("accuracy", "f1_of_class_0")


def test_the_f1_of_the_first_class_is_that_of_the_second_with_the_codes_exchanged():
    from bench.stats.metrics import METRICS

    true = np.array([0] * 10 + [1] * 90)
    none_found = np.ones(100, dtype=int)
    assert METRICS["f1"].score(none_found, true) == pytest.approx(2 * 90 / 190)
    assert METRICS["f1_of_class_0"].score(none_found, true) == 0
    half_found = np.where(np.arange(100) < 5, 0, 1)
    assert METRICS["f1_of_class_0"].score(half_found, true) == pytest.approx(2 * 5 / 15)


def test_metric_kind_and_class_change_no_key(tmp_path, teacher_folder):
    """A key says what determines the weights: how the same labels are scored does not."""
    file = file_of(tmp_path, ["abusive", "fine", "fine"] * 20)
    keys = set()
    for settings in ("", ":positive=abusive", ":metrics=macro_f1", ":kind=classes:text=text"):
        asked = Request(
            "kd", f"{file}{settings}", teacher=str(teacher_folder), data="sample", results=tmp_path
        )
        keys.add(tuple(planned.key for planned in build(asked).cells))
    assert len(keys) == 1
