"""The pictures of a report: what they show, and that they say no more than the tables."""

from __future__ import annotations

import re
from dataclasses import replace

import factories
import pytest
from studied import studied

from bench.report.pictures import (
    PICTURES,
    _ends,
    forest,
    front,
    looks,
    plotted_differences,
    points,
    retention_map,
    setting_curves,
    text_of,
)
from bench.report.studies import studies
from bench.report.study import RetainedRow
from bench.report.sweeps import sweeps
from bench.report.table import TableCell
from bench.report.tables.differences import systems_compared
from bench.report.write import write_reports


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    store = factories.answered_store(tmp_path_factory.mktemp("answered"))
    return studied(store)


def test_the_forest_plot_has_the_numbers_and_verdicts_of_the_table(data):
    table = systems_compared(data)
    means = {line.label: line.cells[-1] for line in table.lines if line.cells[-1].low is not None}
    found = plotted_differences(data)
    assert set(found) == {*means, "teacher"} == {"kd", "microbert", "teacher"}
    for label, cell in means.items():
        one = found[label]
        assert (one.value, one.low, one.high) == (cell.value, cell.low, cell.high)
    assert (found["microbert"].verdict, found["kd"].verdict) == ("better", "not significant")
    assert [one.value for one in found.values()] == sorted(
        (one.value for one in found.values()), reverse=True
    )


def test_the_difference_of_two_rows_is_that_of_the_table_and_turns_with_them(data):
    table = systems_compared(data)
    for line in table.lines[:-1]:
        own, turned = data.pairs[line.label, "finetune"], data.pairs["finetune", line.label]
        cell = line.cells[-1]
        assert (own.value, own.low, own.high) == pytest.approx((cell.value, cell.low, cell.high))
        assert (turned.value, turned.low, turned.high) == pytest.approx(
            (-own.value, -own.high, -own.low)
        )
    assert len(data.pairs) == 4 * 3


@pytest.mark.slow
def test_means_lie_in_their_intervals(data):
    for label, mean in data.mean_intervals.items():
        assert mean.low < mean.value < mean.high
        assert mean.value == pytest.approx(100 * factories.SHARES[label], abs=4)


def difference(value, half):
    return TableCell("", value, value - half, value + half, verdict="better")


def test_a_row_far_away_does_not_hide_the_intervals_of_the_others(data, monkeypatch):
    """With a row at -22 on the axis an interval of two points is shorter than the sign of its row."""
    near = [difference(value, 1.0) for value in (3.3, 3.1, 0.9, 0.1)]
    left, right = _ends([*near, difference(-8.1, 25.0), difference(-22.1, 2.0)])
    assert -1.5 < left < -0.9
    assert 4.3 < right < 5
    left, right = _ends([difference(value, 1.0) for value in (-20.0, -22.0, -25.0)])
    assert left < -26 < 0 < right, "rows that are all far from 0 stay"
    cells = dict(
        zip(("teacher", "kd", "microbert"), [*near[:2], difference(-22.1, 2.0)], strict=True)
    )
    monkeypatch.setattr("bench.report.pictures.plotted_differences", lambda group: cells)
    drawn = texts_of(forest(data))
    assert "-22.1 (-24.1 to -20.1)" in drawn
    assert "−20" not in drawn, "no tick of the axis"


def texts_of(picture) -> str:
    """The words of an SVG."""
    return " ".join(re.findall(r"<text[^>]*>([^<]*)</text>", picture.decode()))


def test_a_long_row_is_cut_behind_a_colon():
    assert text_of("microbert:distance=cosine") == "microbert:\ndistance=cosine"
    assert text_of("distilbert (second step only)") == "distilbert (second step\nonly)"


def test_methods_have_looks_of_their_own_and_the_variants_of_a_method_share_one():
    group = studies(
        [factories.record(label) for label in ("teacher", "kd", "kd:layers=3", *"abcdefghijklmn")]
    )[0]
    look = looks(group)
    assert look["kd"] == look["kd:layers=3"]
    assert len(set(look.values())) == len(look) - 1, (
        "colours and shapes do not begin again together"
    )


@pytest.mark.slow
def test_pictures_fit_a_column_or_a_page_of_a_paper_and_have_no_title_of_the_report(data):
    for _, _, draw in PICTURES.values():
        if (drawn := draw(data, "svg")) is not None:
            width = float(re.search(rb'width="([\d.]+)pt"', drawn)[1])
            assert round(width / 72, 1) in (3.3, 6.9)
            assert data.title not in texts_of(drawn)


@pytest.mark.parametrize("count", [3, 4, 12])
def test_the_titles_of_the_retention_map_have_room(count):
    """mnli-m and mnli-mm stood on each other in a picture of four columns."""
    names = [
        "mnli-m",
        "mnli-mm",
        "qqp",
        "question-generation",
        *(f"own-task-{i}" for i in range(8)),
    ][: count - 1]
    # the tasks and their mean
    cell = TableCell("99.0 %", 99.0)
    rows = ("teacher", "kd", "pkd")
    group = studies([factories.record(row, task) for row in rows for task in names])[0]
    row = RetainedRow(dict.fromkeys(group.columns, cell), cell)
    group = replace(group, retained=dict.fromkeys(("kd", "pkd"), row))
    drawn = retention_map(group).decode()
    titles = " ".join(re.findall(r'<g id="xtick_\d+">(.*?)<g id="[xy]tick', drawn, flags=re.DOTALL))
    longest = max(map(len, re.findall(r">([\w-]+)</t", titles)))
    width = float(re.search(r'width="([\d.]+)pt"', drawn)[1])
    # 130 points for the names of the rows and the bar of colours; no character of 7 points is wider than 0.6 of that on average
    assert 3 <= longest <= (width - 130) / count / (7 * 0.6)


def test_a_setting_of_three_values_has_a_curve_and_what_else_differs_parts_it(tmp_path):
    """Planted: one row has another alpha too, one another teacher's outputs, and one is an ablation."""
    settings = {
        f"kd:temperature={t}" if t != 2 else "kd": {"temperature": float(t), "alpha": 0.5}
        for t in (1, 2, 4, 8)
    }
    settings |= {
        "kd:temperature=9:alpha=1": {"temperature": 9.0, "alpha": 1.0},
        "kd:temperature=16": {"temperature": 16.0, "alpha": 0.5},
    }
    records = []
    for row, own in settings.items():
        for task in ("rte", "sst2"):
            made = factories.record(row, task)
            outputs = "fp16" if row.endswith("16") else ""
            cell = made.cell.model_copy(
                update={"method": "kd", "settings": own, "teacher_outputs": outputs}
            )
            records.append(made.model_copy(update={"cell": cell}))
    (group,) = studies([factories.record("teacher"), factories.record("teacher", "sst2"), *records])
    group = replace(
        group,
        mean_intervals={row: TableCell("", 70.0) for row in settings},
        pairs={(row, "kd"): difference(float(i), 1.0) for i, row in enumerate(settings)},
    )
    (sweep,) = sweeps(group)
    assert (sweep.setting, sweep.reference) == ("temperature", "kd")
    assert list(sweep.rows) == [1.0, 2.0, 4.0, 8.0]
    assert "temperature" in texts_of(setting_curves(group))


def test_pictures_of_a_paper_have_the_same_bytes_each_time(data):
    drawn = {PICTURES["score-flops"][2](data, "pdf") for _ in range(2)}
    assert len(drawn) == 1
    assert b"CreationDate" not in drawn.pop()


def test_the_front_is_what_no_cheaper_row_surpasses(data):
    costs = {"teacher": 10.0, "finetune": 1.0, "kd": 1.0, "microbert": 2.0}
    shown = points(data, costs)
    best = front(shown)
    for point in shown:
        is_surpassed = any(p.cost <= point.cost and p.value > point.value for p in shown)
        assert (point in best) != is_surpassed


@pytest.mark.slow
def test_a_row_is_beaten_only_where_a_significantly_better_one_costs_no_more(data):
    costs = {"teacher": 10.0, "finetune": 1.0, "kd": 1.0, "microbert": 1.0}
    beaten = {point.label: point.is_beaten for point in points(data, costs)}
    assert beaten == {"teacher": False, "microbert": False, "kd": True, "finetune": True}
    dearer = {point.label: point.is_beaten for point in points(data, costs | {"microbert": 2.0})}
    assert dearer == {"teacher": False, "microbert": False, "kd": False, "finetune": False}


def test_pictures_are_in_the_folder_and_on_the_page(paper_store, tmp_path):
    from bench.record.speed_sessions import Conditions, SpeedRecord, Timing, write_speed

    conditions = Conditions(
        device="cpu", backend="sdpa", dtype="fp32", threads=2, batch=1, length="128"
    )
    timings = [
        Timing(system=name, conditions=conditions, seconds=[seconds] * 10)
        for name, seconds in (("teacher", 0.02), ("kd", 0.004))
    ]
    teacher = factories.record("teacher", "rte").cell.teacher.name
    write_speed(
        paper_store.root,
        SpeedRecord(teacher=teacher, timings=timings, started="2026", finished="2026"),
    )
    (path, _) = write_reports(paper_store, tmp_path / "out")
    pictures = {p.name for p in (path.parent / "figures").glob("*.svg")}
    assert {"score-flops.svg", "score-latency.svg"} <= pictures
    shown = re.findall(r"\]\(figures/([\w-]+\.svg)\)", path.read_text())
    assert sorted(shown) == sorted(pictures)
