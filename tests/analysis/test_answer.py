"""The answer: the cheapest row that is shown to keep enough, and a sentence that claims no more than the examples can show."""

from __future__ import annotations

from dataclasses import replace

import factories
import numpy as np
import pytest

from bench.analysis.answer import (
    BUSY_TITLE,
    ONE_SEED,
    Tried,
    answer,
    busy_titles,
    for_programs,
    is_borderline,
    sheet,
)
from bench.analysis.candidates import Candidate
from bench.analysis.choose import choose
from bench.record.speed_sessions import (
    OWN_RUNTIME,
    Conditions,
    Footprint,
    SpeedRecord,
    Timing,
)
from bench.record.store import Store
from bench.report.studies import Folder, study_of

LABELS = np.random.default_rng(0).integers(2, size=400)


def wrong_at(first, last):
    """Answers that are wrong in these examples alone."""
    answers = LABELS.copy()
    answers[first:last] = 1 - answers[first:last]
    return answers


TEACHER = wrong_at(0, 40)
ROWS = {
    "same": (TEACHER, 20),
    "near": (wrong_at(0, 42), 9),
    "taught": (wrong_at(5, 42), 30),
    "poor": (wrong_at(0, 140), 1),
}
"""Row -> its answers, and its size in 10^8 multiplications."""
TRIED = {"taught": Tried("distilled", "taught (distilled)", distils=True)}


def asked(folder, rows, limits=None, seeds=(0,), tried=None):
    """The answer among some rows, and the choice that it is made from."""
    store = Store(folder)
    factories.write(store, factories.record("teacher", "rte", 0, macs=5 * 10**9), TEACHER, LABELS)
    for row in rows:
        answers, macs = ROWS[row]
        for seed in seeds:
            record = factories.record(row, "rte", seed, macs=macs * 10**8)
            factories.write(store, record, answers, LABELS)
    (choice,) = choose(store.root, limits or {}, ["rte"])
    choice = replace(choice, group=study_of(choice.group, Folder(store)))
    return answer(choice, TRIED if tried is None else tried, len(LABELS)), choice


def test_the_cheapest_row_that_is_shown_to_keep_97_percent(tmp_path):
    found, _ = asked(tmp_path, ROWS)
    assert found.row.label == "near"
    assert found.keeps
    assert "keeps 99.4 % of the teacher's score" in found.sentence
    assert ONE_SEED in found.sentence


def test_a_lower_bound_of_ones_own_lets_a_cheaper_row_in(tmp_path):
    found, _ = asked(tmp_path, ROWS, {"retained": 60.0})
    assert (found.row.label, found.least) == ("poor", 60.0)


def test_where_no_row_is_shown_to_keep_enough_the_best_one_is_taken_and_it_is_said(tmp_path):
    found, _ = asked(tmp_path, ["poor"], {"flops": 1.0})
    assert found.row.label == "poor"
    assert not found.keeps
    assert "the most of what fits, which is not shown to be 97 %" in found.sentence


def test_nothing_fits(tmp_path):
    found, _ = asked(tmp_path, ROWS, {"flops": 0.001})
    assert found is None


@pytest.mark.parametrize(
    ("rows", "teacher_of", "says"),
    [
        (["same", "taught"], "taught", "distilling adds nothing that 400 examples can show (taught +0.8 points"),
        (["same", "poor"], "poor", "the best distilled row differs by -25.0 points (poor, "),
        (["same"], "taught", "no distilled row is within the limits and sound"),
        (["near", "same"], "near", "int8 of the teacher does not fit"),
    ],
)  # fmt: skip
def test_what_distilling_adds_is_judged_by_its_interval(tmp_path, rows, teacher_of, says):
    tried = {teacher_of: Tried("distilled", teacher_of, distils=True)}
    found, _ = asked(tmp_path, rows, tried=tried)
    assert says in found.sentence


def test_several_seeds_are_no_single_one(tmp_path):
    found, _ = asked(tmp_path, ["same"], seeds=(0, 1, 2))
    assert ONE_SEED not in found.sentence


def test_a_class_that_the_taken_row_never_predicts_is_named(tmp_path):
    (choice,) = choose(factories.ticket_store(tmp_path).root, {})
    choice = replace(choice, group=study_of(choice.group, Folder(Store(tmp_path))))
    dead = next(row for row in choice.candidates if row.label == "dead")
    found = answer(replace(choice, candidates=(dead,)), {}, 332)
    assert "Suspect: " in found.sentence
    assert "never predicts" in found.sentence


def test_the_sheet_has_every_row_the_best_first(tmp_path):
    _, choice = asked(tmp_path, ROWS, {"flops": 1.0})
    table = sheet(choice, None, TRIED)
    assert [line[0] for line in table.rows] == ["taught", "teacher", "same", "near", "poor"]
    assert len(set(table.values_header)) == len(table.values_header)
    first = dict(zip(table.values_header, table.values[0], strict=True))
    assert float(first["acc low"]) < float(first["acc"]) < float(first["acc high"])
    assert first["what is done"] == "distilled"


def session_of(store, rows, cores):
    """A session of two runtimes, in which the row ``near`` has one of its own."""
    known = {"device": "cpu", "dtype": "fp32", "threads": 1, "batch": 1, "length": "8"}
    timings = []
    for backend in ("sdpa", "onnx"):
        at = Conditions(backend=backend, **known)
        timings += [Timing(system=row, conditions=at, seconds=[0.002] * 20) for row in rows]
    own = Conditions(backend=OWN_RUNTIME, **known)
    timings.append(Timing(system="near", conditions=own, seconds=[0.001] * 20))
    return SpeedRecord(
        teacher=next(iter(store.records())).cell.teacher.name,
        timings=timings,
        footprints=[
            Footprint(system="teacher", checkpoint_bytes=8, peak_bytes=300_000_000),
            Footprint(system="teacher", backend="onnx", checkpoint_bytes=8, peak_bytes=70_000_000),
        ],
        env={} if cores is None else {"busy_cores": cores},
        started="2026-01-01",
        finished="2026-01-01",
    )


@pytest.mark.parametrize(("cores", "said"), [(0.0, "0.0000"), (1.3, "1.3000"), (None, "")])
def test_titles_of_the_sheet_are_the_same_on_a_busy_machine_and_a_column_says_it(
    tmp_path, cores, said
):
    _, choice = asked(tmp_path, ROWS)
    session = session_of(Store(tmp_path), ["teacher", "same"], cores)
    speed = replace(choice.group.speed, busy_cores=session.others)
    choice = replace(choice, group=replace(choice.group, speed=speed))
    table = sheet(choice, session, TRIED)
    header = for_programs(table, choice.group, session).values_header
    assert not any("(busy)" in title for title in header)
    values = for_programs(table, choice.group, session).values
    assert {line[header.index(BUSY_TITLE)] for line in values} == {said}
    # a person's table has the word in the titles of times
    shown = [title for title in busy_titles(table, choice.group).header if title.endswith("(ms)")]
    marked = [title for title in busy_titles(table, choice.group).header if "(busy)" in title]
    assert (len(marked), len(shown)) == ((3, 0) if cores == 1.3 else (0, 3))


def test_a_time_stands_under_its_own_runtime_alone(tmp_path):
    _, choice = asked(tmp_path, ROWS)
    session = session_of(Store(tmp_path), ["teacher", "same"], 0.0)
    table = sheet(choice, session, TRIED)
    lines = {
        line.label: dict(zip(table.header, (cell.text for cell in line.all_cells), strict=True))
        for line in table.lines
    }
    titles = {
        name: f"{name}, 1 thread: p50 / p95 (ms)" for name in ("torch", "ONNX Runtime", "numpy")
    }
    seen = {
        row: [lines[row][title] for title in titles.values()] for row in ("teacher", "near", "poor")
    }
    assert seen["teacher"] == ["2.00 / 2.00", "2.00 / 2.00", "–"]
    assert seen["near"] == ["–", "–", "1.00 / 1.00"]
    assert seen["poor"] == ["–"] * 3
    assert lines["teacher"]["peak memory, torch (MB)"] == "300"
    assert lines["teacher"]["peak memory, ONNX Runtime (MB)"] == "70"
    assert lines["near"]["peak memory, torch (MB)"] == "–"


@pytest.mark.parametrize(
    ("low", "borderline"), [(97.04, True), (97.5, True), (97.6, False), (96.5, True), (96.4, False)]
)
def test_what_lies_within_half_a_point_of_the_bound_is_borderline(low, borderline):
    assert is_borderline(Candidate("kd", 80.0, retained_low=low), 97.0) == borderline
    assert not is_borderline(Candidate("teacher", 80.0, retained_low=100.0), 100.0)
    assert not is_borderline(Candidate("kd", 80.0), 97.0)


def test_a_borderline_answer_says_so_with_the_end_of_its_interval(tmp_path):
    _, choice = asked(tmp_path, ROWS)
    near = next(row for row in choice.candidates if row.label == "near")
    bound = round(near.retained_low, 2) - 0.01
    found, _ = asked(tmp_path, ROWS, {"retained": bound})
    assert found.row.label == "near"
    assert f"the bound is {bound:g} %" in found.sentence
    assert "borderline because the interval begins at" in found.sentence
    far, _ = asked(tmp_path, ROWS, {"retained": near.retained_low - 0.6})
    assert "borderline" not in far.sentence
