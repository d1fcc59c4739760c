"""The sample suite keeps its promises: true labels, nothing to learn from words alone, no leaks."""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

from bench.data import sample_suite
from bench.data.tasks import GLUE

TASKS = sorted({config for config, _ in sample_suite.examples()} - {"ax"})
PAIRS = [name for name in TASKS if len(GLUE[name].columns) == 2]


def rows(task: str, split: str):
    is_mnli = split != "train" and task == "mnli"
    return sample_suite.examples()[task, "validation_matched" if is_mnli else split]


@pytest.fixture
def generators(monkeypatch):
    """The two programs that made the suite."""
    monkeypatch.syspath_prepend(Path(__file__).resolve().parents[2] / "docs" / "tools")
    return import_module("sample_suite"), import_module("sample_pairs")


def test_the_text_never_changes_under_one_version():
    """Another text is a new VERSION: results of the old one would no longer compare."""
    text = "\n".join(
        f"{config}/{split}/{row.first}/{row.second}/{row.label}"
        for config, split in sorted(sample_suite.examples())
        for row in sample_suite.examples()[config, split]
    )
    text += "\n".join(sample_suite.corpus())
    text += "\n".join(map("\t".join, sample_suite.pairs()["train"]))
    assert (
        sample_suite.VERSION,
        sample_suite.PAIRS_VERSION,
        hashlib.sha256(text.encode()).hexdigest()[:16],
    ) == ("v2", "v1", "a5f054f8e48bdd8f")


def test_what_ships_is_what_its_generators_write(generators):
    suite, pairs = generators
    assert set(sample_suite.examples()) == suite.SPLITS
    for place, rows in sample_suite.examples().items():
        assert rows == suite.generate(*place)
    assert sample_suite.corpus() == suite.corpus()
    for split, rows in sample_suite.pairs().items():
        assert rows == pairs.generate(split)


@pytest.mark.parametrize("task", TASKS)
def test_sizes_and_floors(task, generators):
    for split, most in (("train", generators[0].TRAIN_ROWS[task]), ("validation", 500)):
        found = rows(task, split)
        assert most - 4 < len(found) <= most
        assert max(Counter(row.label for row in found).values()) <= 0.6 * len(found)
        assert len({(row.first, row.second) for row in found}) == len(found)


@pytest.mark.parametrize("task", TASKS)
def test_no_filled_template_is_in_both_splits(task):
    train = {text for row in rows(task, "train") for text in (row.first, row.second) if text}
    development = {
        text for row in rows(task, "validation") for text in (row.first, row.second) if text
    }
    assert not train & development


@pytest.mark.parametrize("task", PAIRS)
def test_every_second_sentence_meets_every_label_equally_often(task):
    for split in ("train", "validation"):
        counts: dict[str, Counter] = defaultdict(Counter)
        for row in rows(task, split):
            counts[row.second or ""][row.label] += 1
        labels = {row.label for row in rows(task, split)}
        for second, of_one in counts.items():
            assert set(of_one) == labels, second
            assert len(set(of_one.values())) == 1, second


def test_the_corpus_holds_no_development_sentence():
    held_back = {
        text
        for task in TASKS
        for row in rows(task, "validation")
        for text in (row.first, row.second)
        if text
    }
    lines = sample_suite.corpus()
    assert 95_000 < sum(len(line.split()) for line in lines) < 105_000
    assert not held_back & set(lines)


def test_words_of_both_splits_are_in_the_corpus():
    known = {word for line in sample_suite.corpus() for word in line.split()}
    for task in TASKS:
        words = {word for row in rows(task, "validation") for word in row.first.split()}
        assert len(words - known) <= 0.02 * len(words), (task, words - known)


def bag_of_words(task: str) -> float:
    """Logistic regression (STS-B: linear) on word counts of each sentence: what words alone give."""
    import scipy.sparse
    from scipy.stats import spearmanr
    from sklearn.feature_extraction.text import CountVectorizer
    from sklearn.linear_model import LinearRegression, LogisticRegression

    train, development = rows(task, "train"), rows(task, "validation")
    seen, unseen = [], []
    for side in ("first", "second") if task in PAIRS else ("first",):
        words = CountVectorizer(token_pattern=r"\S+").fit([getattr(row, side) for row in train])
        seen.append(words.transform([getattr(row, side) for row in train]))
        unseen.append(words.transform([getattr(row, side) for row in development]))
    labels = np.array([row.label for row in train]), np.array([row.label for row in development])
    model = LinearRegression() if task == "stsb" else LogisticRegression(max_iter=1000)
    predicted = model.fit(scipy.sparse.hstack(seen), labels[0]).predict(scipy.sparse.hstack(unseen))
    if task == "stsb":
        found = spearmanr(predicted, labels[1]).statistic
        return 0.0 if np.isnan(found) else float(found)
    return float((predicted == labels[1]).mean())


@pytest.fixture(scope="module")
def one_cache(tmp_path_factory):
    """The slow tests share their fine-tuned teachers."""
    return tmp_path_factory.mktemp("one-cache")


@pytest.mark.slow
@pytest.mark.long
def test_the_embedded_teacher_knows_what_words_alone_do_not(
    embedded, tmp_path, one_cache, monkeypatch
):
    """At least 85 percent on every task but wnli, ten points above a bag of words."""
    from bench import api

    monkeypatch.setenv("BERT_BENCH_CACHE", str(one_cache))
    api.run(
        api.Request(
            methods="",
            data="sample",
            teacher="embedded",
            results=tmp_path,
            reports=tmp_path / "p",
            yes=True,
        )
    )
    scores, words = {}, {}
    for record in api.Store(tmp_path).records():
        task = record.cell.tasks[0]
        found = next(iter(record.scores.values()))
        scores[task], words[task] = (
            found["spearman" if task == "stsb" else "accuracy"],
            bag_of_words(task),
        )
    assert set(scores) == set(TASKS)
    good = [task for task in TASKS if max(0.85, words[task] + 0.10) <= scores[task]]
    assert {*good, "wnli"} == set(TASKS), {
        task: (round(scores[task], 3), round(words[task], 3)) for task in TASKS
    }


@pytest.mark.slow
@pytest.mark.long
def test_the_readme_run_on_one_task(embedded, tmp_path, one_cache, monkeypatch):
    """The README's command, on one task: both students beat random weights of their shape."""
    from bench import api

    monkeypatch.setenv("BERT_BENCH_CACHE", str(one_cache))
    outcome = api.run(
        api.Request(
            methods="microbert,tinybert,finetune:start=random",
            tasks="mrpc",
            data="sample",
            teacher="embedded",
            results=tmp_path,
            reports=tmp_path / "p",
        )
    )
    assert outcome.exit_code == 0
    scores = {
        r.cell.label: r.scores["validation"]["accuracy"] for r in api.Store(tmp_path).records()
    }
    assert min(scores["microbert"], scores["tinybert"]) > scores["finetune:start=random"] + 0.1, (
        scores
    )
