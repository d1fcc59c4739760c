"""A folder of many records: what readers do grows with the records, not with the pairs of rows."""

from __future__ import annotations

import resource
import subprocess
import sys
from itertools import permutations

import factories
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from many_records import write_many_records

from bench.analysis import trace
from bench.audit.printed import printed
from bench.errors import InputError
from bench.record.store import Store
from bench.report import paired_rows, pictures, resampled
from bench.report.stored_answers import resample
from bench.report.studies import studies
from bench.report.write import write_reports

TASKS = ("rte", "mrpc")
SEEDS = 2
GROWTH = 2.6
"""Of the work for twice the rows: 2 and what is left of a square."""


@pytest.fixture(scope="module")
def stores(tmp_path_factory) -> dict[int, Store]:
    """Students -> a store with them."""
    folder = tmp_path_factory.mktemp("many")
    return {rows: write_many_records(folder / str(rows), rows, SEEDS, TASKS) for rows in (15, 30)}


@pytest.mark.slow
def test_a_report_draws_the_differences_that_it_shows(stores, tmp_path, monkeypatch):
    drawn = []
    real = paired_rows.mean_difference
    monkeypatch.setattr(
        paired_rows, "mean_difference", lambda pairs: drawn.append(pairs) or real(pairs)
    )
    counts = {}
    for rows, store in stores.items():
        drawn.clear()
        write_reports(Store(store.root), tmp_path / str(rows))
        counts[rows] = len(drawn)
    assert counts[30] <= GROWTH * counts[15], "of all pairs it would be four times as many"


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize(
    "words", ["report --reports {reports}", "choose", "trace 84.3", "trace +3.1"]
)
def test_the_time_of_readers_grows_with_the_records(stores, tmp_path, words):
    used = {}
    for rows, store in stores.items():
        command = words.format(reports=tmp_path / str(rows)).split()
        used[rows] = processor_seconds([*command, "--results", str(store.root)])
    # to import libraries takes as long whatever the number of records is
    start = processor_seconds(["--version"])
    assert used[30] - start <= GROWTH * (used[15] - start) + 2.0


def processor_seconds(words: list[str]) -> float:
    """What a command takes of the processor: of a shared machine the wall time says nothing."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-m", "bench", *words], check=False, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


@pytest.mark.slow
def test_scores_in_a_file_are_those_in_memory(stores, monkeypatch):
    (group,) = studies(stores[15].records())
    in_memory = resample(group, stores[15])
    monkeypatch.setattr(resampled, "IN_MEMORY", 0)
    in_file = resample(group, stores[15])
    for column, data in in_memory.items():
        kept = in_file[column].scores_R
        assert isinstance(kept, resampled.ScoresInFile)
        assert list(kept) == list(data.scores_R)
        assert "a" * 64 not in kept
        for key, scores in data.scores_R.items():
            assert np.array_equal(kept[key], scores)


def test_one_record_is_shown_without_reading_the_others(tmp_path):
    """Planted: every other record is damaged, which whoever reads it says."""
    store = Store(tmp_path)
    records = [factories.record("kd", seed=seed) for seed in range(5)]
    for record in records:
        store.write(record)
    wanted = records[3]
    for file in tmp_path.rglob("attempt-1.json"):
        if file.parent.name != wanted.key[:16]:
            file.write_text("{")
    for key in (wanted.key, wanted.key[:16], wanted.key[:8]):
        reader = Store(tmp_path)
        assert reader.find_by_key(key) == wanted
        assert reader.notes == []
    with pytest.raises(InputError, match="no record in"):
        Store(tmp_path).find_by_key(wanted.train_key)
    reader = Store(tmp_path)
    assert reader.find_by_key(wanted.train_key[:10], trained=True) == wanted
    assert reader.notes == []
    mistyped = wanted.key[:14] + ("0" if wanted.key[14] != "0" else "1")
    with pytest.raises(InputError, match=f"did you mean {wanted.key[:15]}"):
        Store(tmp_path).find_by_key(mistyped)
    with pytest.raises(InputError, match="can be used; set aside"):
        Store(tmp_path).find_by_key(records[0].key)


MEANS = st.lists(st.integers(0, 60).map(lambda tenths: tenths / 20), min_size=2, max_size=8)


@given(MEANS, st.sampled_from(["+0.1", "+0.15", "-0.5", "+0.0", "1", "+2", "+3.00"]))
def test_differences_are_those_of_all_pairs(means, text):
    number = printed(text)
    means_of = {f"row{place}": [mean] for place, mean in enumerate(means)}
    near = set(trace._pairs_near(means_of, number))
    for first, second in permutations(means_of, 2):
        gap = means_of[first][0] - means_of[second][0]
        if trace._rounds_to(number, gap):
            assert (first, second) in near


def test_a_picture_of_many_rows_says_which_it_has(answered_store, tmp_path, monkeypatch):
    (group,) = studies(answered_store.records())
    pages = {}
    for most in (pictures.MOST_ROWS, 3):
        monkeypatch.setattr(pictures, "MOST_ROWS", most)
        (report,) = write_reports(answered_store, tmp_path / str(most))
        pages[most] = report.read_text()
    assert "with the highest means are drawn" not in pages[60]
    assert "Of 4 rows the 3 with the highest means are drawn." in pages[3]
    assert len(group.students) == 3


def test_kept_answers_are_read_again_where_the_file_changed(answered_store):
    reader = Store(answered_store.root)
    record = next(iter(reader.records()))
    before = reader.predictions(record)
    assert not before["logits.validation"].flags.writeable
    file = reader.folder(record.cell) / "attempt-1.npz"
    file.write_bytes(b"no longer an archive")
    with pytest.raises(InputError):
        reader.predictions(record)
    assert any(note.path.parent == file.parent for note in reader.notes)
