"""The pictures of a report: what they show, and that they say no more than the tables."""

from __future__ import annotations

import itertools
import re

import answered_rows
import factories
import numpy as np
import pytest

from bench.report.groups import groups
from bench.report.pictures import (
    BEATEN,
    GREY,
    PALE,
    PICTURES,
    forest,
    plotted_differences,
    points,
    scatter,
    spread_labels,
)
from bench.report.resampled import resample
from bench.report.tables.differences import SYSTEMS
from bench.report.tables.registry import report_data
from bench.report.write import write_reports


@pytest.fixture
def data(answered_store):
    (group,) = groups(answered_store.records())
    return report_data(group, resample(group, answered_store))


@pytest.mark.parametrize("seed", range(20))
def test_labels_of_a_picture_keep_their_order_and_their_distance_and_move_as_little_as_they_must(seed):
    heights = np.random.default_rng(seed).normal(90, 3, 12).round(1).tolist()
    places = spread_labels(heights, 0.8)
    order = sorted(range(12), key=lambda i: -heights[i])
    steps = [places[a] - places[b] for a, b in itertools.pairwise(order)]
    assert min(steps) >= 0.8 - 1e-9
    for block in np.split(np.array(order), [i + 1 for i, step in enumerate(steps) if step > 0.8 + 1e-9]):
        assert np.mean([places[i] for i in block]) == pytest.approx(np.mean([heights[i] for i in block]))


def test_the_forest_plot_has_the_numbers_and_verdicts_of_the_table(data):
    table = next(table for table in data.tables if table.file == SYSTEMS)
    means = {line.label: line.cells[-1] for line in table.lines if line.cells[-1].low is not None}
    found = plotted_differences(data)
    assert set(found) == {*means, "teacher"} == {"kd", "microbert", "teacher"}
    for label, cell in means.items():
        one = found[label]
        assert (one.value, one.low, one.high) == (cell.value, cell.low, cell.high)
    assert (found["microbert"].verdict, found["kd"].verdict) == ("better", "inconclusive")
    assert [one.value for one in found.values()] == sorted((one.value for one in found.values()), reverse=True)


def test_the_difference_of_two_rows_is_that_of_the_table_and_turns_with_them(data):
    table = next(table for table in data.tables if table.file == SYSTEMS)
    for line in table.lines[:-1]:
        own, turned = data.pairs[line.label, "finetune"], data.pairs["finetune", line.label]
        cell = line.cells[-1]
        assert (own.value, own.low, own.high) == pytest.approx((cell.value, cell.low, cell.high))
        assert (turned.value, turned.low, turned.high) == pytest.approx((-own.value, -own.high, -own.low))
    assert len(data.pairs) == 4 * 3


@pytest.mark.slow
def test_means_lie_in_their_intervals(data):
    for label, mean in data.means.items():
        assert mean.low < mean.value < mean.high
        assert mean.value == pytest.approx(100 * answered_rows.SHARES[label], abs=4)


def texts_of(picture) -> str:
    """The words of an SVG."""
    return " ".join(re.findall(r"<text[^>]*>([^<]*)</text>", picture.decode()))


@pytest.mark.slow
def test_the_teacher_of_the_forest_plot_is_a_filled_diamond_that_was_not_tested(data):
    drawn = forest(data)
    assert drawn is not None
    assert "filled if significant after Holm's adjustment; diamond: the teacher, not tested" in texts_of(drawn).replace(
        "&#x27;", "'"
    )
    marks = re.findall(rf'style="(fill: #[0-9a-f]+); stroke: {GREY}"/>', drawn.decode())
    assert f"fill: {GREY}" in marks
    assert "fill: #ffffff" not in marks


@pytest.mark.slow
def test_the_legend_of_a_score_picture_names_what_is_drawn(data):
    costs = {"teacher": 10.0, "finetune": 1.0, "kd": 1.0, "microbert": 1.0}
    drawn = scatter(data, costs, "svg", "cost")
    assert drawn is not None
    assert "dotted" not in texts_of(drawn)
    assert BEATEN in texts_of(drawn)
    assert f"fill: {PALE}; stroke: {GREY}" in drawn.decode()
    data.group.baselines = dict.fromkeys(data.group.columns, 74.0)
    again = scatter(data, costs | {"microbert": 2.0}, "svg", "cost")
    assert again is not None
    assert "dotted: majority class" in texts_of(again)
    assert BEATEN not in texts_of(again)


@pytest.mark.slow
def test_a_row_is_grey_only_where_a_significantly_better_one_costs_no_more(data):
    costs = {"teacher": 10.0, "finetune": 1.0, "kd": 1.0, "microbert": 1.0}
    beaten = {point.label: point.is_beaten for point in points(data, costs)}
    assert beaten == {"teacher": False, "microbert": False, "kd": True, "finetune": True}
    dearer = {point.label: point.is_beaten for point in points(data, costs | {"microbert": 2.0})}
    assert dearer == {"teacher": False, "microbert": False, "kd": False, "finetune": False}


@pytest.mark.slow
def test_every_picture_is_drawn_the_same_twice(data):
    for _, draw in PICTURES.values():
        for form in ("svg", "pdf"):
            assert draw(data, form) == draw(data, form)
    assert all(PICTURES[name][1](data, "svg") for name in ("differences", "score-flops"))


def test_pictures_are_in_the_folder_and_on_the_page(paper_store, tmp_path):
    from bench.record.speed_sessions import Conditions, SpeedRecord, Timing, write_speed

    conditions = Conditions(device="cpu", backend="sdpa", dtype="fp32", threads=2, batch=1, length="128")
    timings = [
        Timing(system=name, conditions=conditions, seconds=[seconds] * 10)
        for name, seconds in (("teacher", 0.02), ("kd", 0.004))
    ]
    teacher = factories.record("teacher", "rte").cell.teacher.name
    write_speed(paper_store.root, SpeedRecord(teacher=teacher, timings=timings, started="2026", finished="2026"))
    (path, _) = write_reports(paper_store, tmp_path / "out")
    pictures = {p.name for p in (path.parent / "figures").glob("*.svg")}
    assert {"score-flops.svg", "score-latency.svg"} <= pictures
    shown = re.findall(r"\]\(figures/([\w-]+\.svg)\)", path.read_text())
    assert sorted(shown) == sorted(pictures)
