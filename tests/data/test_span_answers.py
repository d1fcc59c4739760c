"""Questions answered by a piece of a text: graded as the official scripts grade, cut into windows and put together again."""

from __future__ import annotations

import json

import numpy as np
import pytest
import squad_articles
import tiny
from conftest import SHARED
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.data import spans
from bench.data.encoding import encode
from bench.data.sources import source_for
from bench.data.table_files import Answers, Split
from bench.data.tasks import SQUAD
from bench.errors import InputError
from bench.stats.metrics import metric_of

DEVELOPMENT = SHARED / "extra" / "squad" / "plain_text" / "validation-00000-of-00001.parquet"

# answer, right answers, EM, F1 as a fraction; worked out by hand from the rules: lower case, no punctuation, no articles, blanks
CASES = [
    ("Denver Broncos", ["Denver Broncos"], 1, (1, 1)),
    ("the Denver Broncos", ["Denver Broncos"], 1, (1, 1)),
    ("Denver", ["Denver Broncos"], 0, (2, 3)),
    ("Broncos Denver", ["Denver Broncos"], 0, (1, 1)),
    ("the-cat", ["cat"], 0, (0, 1)),
    ("1,000", ["1000"], 1, (1, 1)),
    ("rock-and-roll", ["rock and roll"], 0, (0, 1)),
    ("  two   blanks ", ["two blanks"], 1, (1, 1)),
    ("two\u00a0blanks", ["two blanks"], 1, (1, 1)),
    ("ÉCOLE", ["école"], 1, (1, 1)),
    ("1990–2000", ["1990-2000"], 0, (0, 1)),
    ("be be", ["be to be"], 0, (4, 5)),
    ("Bernadette", ["Saint Bernadette Soubirous", "Bernadette"], 1, (1, 1)),
    ("year 1066", ["the year 1066", "1066"], 1, (1, 1)),
    ("", ["cat"], 0, (0, 1)),
    ("an apple a day", ["apple day"], 1, (1, 1)),
    ("theatre", ["the atre"], 0, (0, 1)),
    ("O’Brien", ["OBrien"], 0, (0, 1)),
    ("one two three four", ["two three"], 0, (2, 3)),
    ("one", ["one two three", "one two", "two"], 0, (2, 3)),
    ("STRASSE", ["straße"], 0, (0, 1)),
    ("İstanbul", ["istanbul"], 0, (0, 1)),
    ("the 東京", ["東京"], 1, (1, 1)),
]
# where nothing is left of one of the two, the scripts differ: F1 of version 1.1, then EM and F1 of version 2.0
EMPTY = [
    ("", [""], 0.0, 1.0, 1.0),
    ("the", [""], 0.0, 1.0, 1.0),
    ("cat", [""], 0.0, 0.0, 0.0),
    ("The The", ["The"], 0.0, 1.0, 1.0),
    ("", ["the", "cat"], 0.0, 0.0, 0.0),
    ("a", ["the", "a"], 0.0, 1.0, 1.0),
]


@pytest.mark.parametrize("answer, right, exact, f1", CASES)
@pytest.mark.parametrize("none_counts", [False, True])
def test_an_answer_is_graded_as_the_official_scripts_do(answer, right, exact, f1, none_counts):
    assert spans.graded(answer, right, none_counts) == (exact, pytest.approx(f1[0] / f1[1]))


@pytest.mark.parametrize("answer, right, f1, exact_2, f1_2", EMPTY)
def test_an_empty_answer_is_graded_by_its_version(answer, right, f1, exact_2, f1_2):
    assert spans.graded(answer, right, False)[1] == f1
    assert spans.graded(answer, right, True) == (exact_2, f1_2)


def asked(context: str, answers: list[tuple[int, str]], may_be_none: bool = False) -> Split:
    labels = np.array([bool(answers)], dtype=np.int64)
    return Split(
        ["where is the cat ?"],
        [context],
        labels,
        [0],
        Answers([tuple(answers)], may_be_none, ["0"]),
    )


def logits_of(
    encoded, starts: dict[tuple[int, int], float], ends: dict[tuple[int, int], float]
) -> np.ndarray:
    """[2 n, L] of these windows: so much at (window, place), 0 elsewhere."""
    logits = np.zeros((len(encoded), 2, max(map(len, encoded.tokens))), np.float32)
    for which, values in enumerate((starts, ends)):
        for (window, place), value in values.items():
            logits[window, which, place] = value
    return logits.reshape(-1, logits.shape[2])


@settings(deadline=None, max_examples=25)
@given(length=st.integers(0, 90), at=st.integers(0, 89), max_length=st.integers(16, 60))
def test_windows_cover_a_text_and_an_answer_comes_back(teacher_folder, length, at, max_length):
    words = [tiny.WORDS[i * 7 % 20] for i in range(length + 1)]
    at = min(at, length)
    context, start = " ".join(words), sum(len(word) + 1 for word in words[:at])
    encoded = encode(
        tiny.tokenizer(teacher_folder), asked(context, [(start, words[at])]), max_length
    )
    known, windows = encoded.questions, encoded.questions.windows
    assert all(len(tokens) <= max_length for tokens in encoded.tokens)
    assert sum(window.may_begin.sum() for window in windows) == length + 1, (
        "an answer begins in one window alone"
    )
    labelled = [i for i, (first, _) in enumerate(encoded.labels.tolist()) if first]
    assert labelled, "some window has the answer whole"
    starts, ends = ({(i, int(encoded.labels[i, side])): 9.0 for i in labelled} for side in (0, 1))
    row = known.answers(known.best_spans(range(len(encoded)), logits_of(encoded, starts, ends)))[0]
    assert row[3:].tolist() == [start, start + len(words[at])]


def test_the_best_span_of_all_windows_stands_against_the_smallest_score_of_none(teacher_folder):
    context = " ".join(tiny.WORDS[:20] * 3)
    encoded = encode(tiny.tokenizer(teacher_folder), asked(context, [], may_be_none=True), 40)
    known = encoded.questions
    assert len(encoded) > 2
    first = [window.first for window in known.windows]
    starts = {(0, first[0] + 1): 5.0, (0, 0): 4.0, (1, 0): 1.0, (2, 0): 8.0}
    ends = {(0, first[0] + 2): 4.0, (0, 0): 3.0, (1, 0): 2.0, (2, 0): 8.0}
    found = known.best_spans(
        range(len(encoded)),
        logits_of(encoded, starts | {(n, 0): 9.0 for n in range(3, len(first))}, ends),
    )
    row = known.answers(found)[0]
    assert context[int(row[3]) : int(row[4])] == "a cat"
    assert row[:3].tolist() == [0, 0, 1 + 2 - (5 + 4)]


def test_an_answer_ends_behind_its_beginning_and_is_not_longer_than_30_tokens(teacher_folder):
    encoded = encode(
        tiny.tokenizer(teacher_folder), asked(" ".join(tiny.WORDS[:40]), [(0, "the")]), 100
    )
    known, first = encoded.questions, encoded.questions.windows[0].first
    for begins, ends, expected in ((9, 4, False), (2, 31, True), (2, 32, False)):
        logits = logits_of(encoded, {(0, first + begins): 9.0}, {(0, first + ends): 9.0})
        _, score, start, end = known.best_spans([0], logits)[0].tolist()
        assert (score == 18, (start, end) == (begins, ends)) == (expected, expected)


def test_the_threshold_decides_between_the_best_span_and_none():
    """Four questions, two of them without an answer; EM and F1 as evaluate-v2.0.py would give them."""
    rows = np.array(
        [[1, 1, -2, 0, 1], [0, 0.5, 0.5, 0, 1], [0, 0, 3, 0, 1], [0, 0, -1, 0, 1]], np.float32
    )
    has_answer = np.array([1, 1, 0, 0])
    scores = {name: metric_of(name).score(rows, has_answer) for name in SQUAD["squad_v2"].metrics}
    assert scores == {
        "answer_f1": 0.5,
        "exact_match": 0.5,
        "best_answer_f1": 0.75,
        "best_exact_match": 0.75,
    }
    every = np.array([[0, 0.25, -9, 0, 1]], np.float32)
    assert metric_of("best_answer_f1").score(every, np.array([0])) == 1, (
        "no answer at all is a threshold too"
    )


@pytest.mark.parametrize("name, version", [("squad", "1.1"), ("squad_v2", "2.0")])
def test_the_official_file_and_the_hubs_are_the_same_questions(tmp_path, name, version):
    import pandas

    task = SQUAD[name]
    squad_articles.write_tiny(tmp_path / "official", version=version)
    official = source_for(task, str(tmp_path / "official"), True).load(task, "train")
    given = [
        list(zip(*answers, strict=True)) or [(), ()] for answers in official.answers.of_questions
    ]
    answers = [{"text": list(texts), "answer_start": list(starts)} for starts, texts in given]
    columns = {
        "id": list(map(str, official.ids)),
        "question": official.first,
        "context": official.second,
    }
    for place in (name, task.evaluation[0].config):
        file = tmp_path / place / place / "train-00000-of-00001.parquet"
        file.parent.mkdir(parents=True, exist_ok=True)
        pandas.DataFrame({**columns, "answers": answers}).to_parquet(file)
        loaded = source_for(task, str(tmp_path / place), True).load(task, "train")
        assert loaded.fingerprint() == official.fingerprint()
    assert bool((official.labels == 0).any()) == (version == "2.0")


def test_questions_that_cannot_be_used_are_refused_in_one_line(tmp_path):
    folder, task = squad_articles.write_tiny(tmp_path), SQUAD["squad"]
    body = json.loads((folder / "dev-v1.1.json").read_text())
    question = body["data"][0]["paragraphs"][3]["qas"][0]
    for change in (
        {"answers": []},
        {"answers": [{"text": "cat", "answer_start": 1}]},
        {"question": 5},
        {"answers": 7},
    ):
        question_now = {**question, **change}
        body["data"][0]["paragraphs"][3]["qas"] = [question_now]
        (folder / "dev-v1.1.json").write_text(json.dumps(body))
        with pytest.raises(InputError, match=r"dev-v1\.1\.json"):
            source_for(task, str(folder), True).load(task, task.evaluation[0])
    with pytest.raises(InputError, match="squad_v2"):
        source_for(SQUAD["squad_v2"], str(folder), True).load(SQUAD["squad_v2"], "train")


@pytest.mark.skipif(not DEVELOPMENT.is_file(), reason="needs the development data of SQuAD v1.1")
@pytest.mark.parametrize("max_length", [128, 384])
def test_every_answer_of_the_development_data_comes_back(max_length):
    from bench.data.checkpoints import find, tokenizer_of

    split = spans.read_questions([DEVELOPMENT], False).limited(300)
    encoded = encode(tokenizer_of(find("embedded")), split, max_length)
    labels = [(i, *places) for i, places in enumerate(encoded.labels.tolist()) if places[0]]
    starts, ends = ({(i, places[side]): 9.0 for i, *places in labels} for side in (0, 1))
    known = encoded.questions
    rows = known.answers(known.best_spans(range(len(encoded)), logits_of(encoded, starts, ends)))
    assert (rows[:, :2].mean(0) >= 0.99).all()
