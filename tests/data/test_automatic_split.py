"""The automatic split: a fifth of each class, equal texts and groups on one side, the same every time."""

from __future__ import annotations

import numpy as np
import pandas
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from bench.data.automatic_split import TENTH, divided
from bench.data.own_tasks import expand
from bench.data.sources import held_back, source_for
from bench.data.table_files import Split
from bench.data.tasks import EvaluationSet, Task
from bench.errors import InputError
from bench.plan.build import build
from bench.request import Request

CLASSES = ("billing", "refund", "spam", "legal")
TASK = Task(
    "tickets", ("text",), CLASSES, ("macro_f1",), (EvaluationSet("validation", "", "validation"),)
)


def examples(texts, labels, groups=(), dtype=np.int64) -> Split:
    return Split(list(texts), None, np.array(labels, dtype), range(len(texts)), groups=list(groups))


def imbalanced() -> Split:
    """300 rows, 85 % of two classes; the rarest class has 6 rows, 5 rows in a row repeat a text."""
    labels = [0] * 150 + [1] * 105 + [2] * 39 + [3] * 6
    texts = [f"text {row // 5 if 20 <= row < 40 else row}" for row in range(300)]
    order = np.random.default_rng(0).permutation(300)
    return examples([texts[row] for row in order], [labels[row] for row in order])


def test_every_class_gives_a_fifth_of_its_rows():
    rows = imbalanced()
    division = divided(rows, TASK, "tickets.csv")
    assert sorted(division.train + division.scored) == list(range(300))
    counts = np.bincount(rows.labels[division.scored], minlength=4)
    assert counts.tolist() == [30, 21, 8, 1]


@given(
    st.lists(
        st.tuples(st.integers(0, 30), st.integers(0, 3), st.integers(0, 8)),
        min_size=10,
        max_size=80,
    ),
    st.booleans(),
    st.randoms(use_true_random=False),
)
def test_no_text_and_no_group_is_on_both_sides_whatever_the_order_of_the_rows(
    rows, grouped, random
):
    def split(rows):
        texts = [f"text {text}" for text, _, _ in rows]
        groups = [str(group) for _, _, group in rows] if grouped else ()
        task = Task(**{**vars(TASK), "group": "customer" if grouped else ""})
        return divided(examples(texts, [label for _, label, _ in rows], groups), task, "x.csv")

    try:
        division = split(rows)
    except InputError:
        # hardly any unit: which of them could be scored is checked below, on files
        assume(False)
    sides = [[rows[place] for place in side] for side in (division.train, division.scored)]
    assert sides[1]
    for number in (0, 2) if grouped else (0,):
        assert not {row[number] for row in sides[0]} & {row[number] for row in sides[1]}
    assert {row[1] for row in sides[1]} <= {row[1] for row in sides[0]}, "what is scored is learned"
    turned = rows[:]
    random.shuffle(turned)
    again = split(turned)
    assert sorted(turned[place] for place in again.scored) == sorted(sides[1])


def test_a_large_group_is_trained_on_even_if_it_has_rows_of_a_rare_class():
    """150 of 200 rows are one customer's, with one of the six rows of the rarest class."""
    labels = [3] + [0] * 149 + [1] * 45 + [3] * 5
    groups = ["large"] * 150 + [f"c{row}" for row in range(50)]
    task = Task(**{**vars(TASK), "group": "customer"})
    rows = examples([f"text {row}" for row in range(200)], labels, groups)
    division = divided(rows, task, "tickets.csv")
    assert set(range(150)) <= set(division.train)
    assert np.bincount(rows.labels[division.scored], minlength=4).tolist() == [0, 9, 0, 2]
    assert "for lack of rows that training can spare: billing (0 of 149)" in "\n".join(
        division.said
    )


def test_a_regression_is_scored_on_a_fifth_of_every_range_of_targets():
    prices = np.random.default_rng(0).lognormal(8, 1, 500)
    task = Task("prices", ("text",), (), ("r2",), TASK.evaluation)
    rows = examples([f"house {row}" for row in range(500)], prices, dtype=np.float32)
    scored = np.sort(prices)[::1].searchsorted(prices[divided(rows, task, "p.csv").scored])
    assert np.bincount(scored // 50).tolist() == [10] * 10


def test_what_a_class_lost_and_which_texts_repeat_is_said():
    texts = [f"text {row}" for row in range(40)] + ["same"] * 3 + ["one", "two"]
    labels = [0] * 20 + [1] * 20 + [0, 1, 1] + [2, 3]
    division = divided(examples(texts, labels), TASK, "tickets.csv")
    said = "\n".join(division.said)
    assert (
        "not scored, for lack of rows that training can spare: spam (0 of 1), legal (0 of 1)"
        in said
    )
    assert "scored on fewer than 5 rows" in said
    assert "3 rows have a text of another row" in said
    assert "texts with different labels: 1 of 1" in said


def tickets(folder, **columns) -> str:
    rows = {
        "text": [f"the cat runs {row}" for row in range(60)],
        "label": ["no", "yes"] * 30,
        "customer": [f"c{row // 10}" for row in range(60)],
    }
    pandas.DataFrame({**rows, **columns}).to_csv(folder / "tickets.csv", index=False)
    return str(folder / "tickets.csv")


def sides(typed):
    ((task, _),) = expand(typed)
    source = source_for(task, "hub", offline=True)
    return source.load(task, "train"), source.load(task, task.evaluation[0])


@pytest.mark.parametrize("settings", ["", ":text=text:label=label"])
def test_a_group_of_a_file_is_on_one_side_and_no_text(tmp_path, settings):
    train, scored = sides(f"{tickets(tmp_path)}{settings}:group=customer")
    assert train.second is None
    assert (len(train), len(scored)) == (50, 10)
    assert len({text.split()[-1][:-1] for text in scored.first}) == 1, "ten rows of one customer"


def test_the_plan_says_what_the_split_keeps_together(tmp_path, teacher_folder):
    typed = tickets(tmp_path, text=["same text"] * 2 + [f"the cat {row}" for row in range(58)])
    plan = build(
        Request(
            tasks=f"{typed}:text=text:group=customer", methods="finetune:start=random:layers=1",
            teacher=str(teacher_folder), results=tmp_path / "r", reports=tmp_path / "p",
        )
    )  # fmt: skip
    notes = "\n".join(plan.notes)
    assert "2 rows have a text of another row" in notes
    assert "each customer is on one side of the split: 6 parts that share none, nor a text" in notes


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        (":text=text:group=client", "no column 'client'"),
        (":text=text:group=label", "group=label is also the text or the label"),
        (":text=text:group=text", "group=text is also the text or the label"),
        (":text=text:group=customer:validation=dev.csv", "leave group out"),
        (":text=text:group=empty", "empty is empty, so that the row has no group"),
        (":text=text:group=one", "rows with the same text or one stay together"),
    ],
)
def test_a_group_that_cannot_be_kept_is_one_line(tmp_path, settings, says):
    typed = tickets(tmp_path, empty=[None, *["x"] * 59], one=["x"] * 60)
    pandas.DataFrame({"text": ["a b"], "label": ["no"]}).to_csv(tmp_path / "dev.csv", index=False)
    with pytest.raises(InputError, match=says):
        sides(f"{typed}{settings}")


def test_a_tenth_has_every_classs_share_and_each_draw_is_another_one():
    rows = imbalanced()
    drawn = [divided(rows, TASK, "tickets.csv", TENTH, draw) for draw in range(3)]
    for division in drawn:
        assert sorted(division.train + division.scored) == list(range(300))
        counts = np.bincount(rows.labels[division.scored], minlength=4)
        assert counts.tolist() == [15, 10, 4, 1]
        texts = [
            {rows.first[place] for place in side} for side in (division.train, division.scored)
        ]
        assert not texts[0] & texts[1]
    assert len({tuple(division.scored) for division in drawn}) == 3


def test_a_search_on_own_classes_holds_out_every_classs_share_and_no_part_of_a_group(tmp_path):
    typed = tickets(
        tmp_path,
        label=["legal" if row % 10 == 0 else "no" for row in range(60)],
        customer=[f"c{row // 2}" for row in range(60)],
    )
    ((task, _),) = expand(f"{typed}:text=text:group=customer")
    trial, part = held_back(task, source_for(task, "sample", offline=True))
    train = part.load(trial, "train")
    scored = part.load(trial, trial.evaluation[0])
    assert len(train) + len(scored) == 48, "what the automatic split trains on"
    legal = task.labels.index("legal")
    assert 0 < (scored.labels == legal).sum() < 3
    assert (train.labels == legal).any()
    assert not set(train.groups) & set(scored.groups)
    again = held_back(task, source_for(task, "sample", offline=True), draw=1)[1]
    assert again.load(trial, trial.evaluation[0]).first != scored.first


def test_fewer_training_rows_have_every_classs_share():
    rows = imbalanced()
    fewer = rows.limited(60, by_class=True)
    assert np.bincount(fewer.labels, minlength=4).tolist() == [30, 21, 8, 1]
    assert list(fewer.ids) == sorted(fewer.ids), "in their order"
    # of few rows each class has one, and of fewer than there are classes not all
    assert np.bincount(rows.limited(5, by_class=True).labels, minlength=4).tolist() == [2, 1, 1, 1]
    assert len(rows.limited(2, by_class=True)) == 2
    assert len(rows.limited(300, by_class=True)) == len(rows.limited(None, by_class=True)) == 300
    plain = rows.limited(60)
    assert list(plain.ids) == sorted(np.random.default_rng(0).permutation(300)[:60].tolist())
