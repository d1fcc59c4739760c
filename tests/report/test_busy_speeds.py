"""Speeds of a busy machine: no table, page, file or verdict has one without the word."""

from __future__ import annotations

import csv
import json
import re

import factories
import numpy as np
import pytest

from bench.analysis.gate import check
from bench.analysis.gate_result import PASSED, UNCLEAR
from bench.record.speed_sessions import Conditions, SpeedRecord, Timing, speed_records, write_speed
from bench.record.store import Store
from bench.report.file_names import PAGE
from bench.report.speed_page import write_speed_report
from bench.report.write import write_reports

CONDITIONS = Conditions(
    device="cpu", backend="sdpa", dtype="fp32", threads=1, batch=1, length="128"
)
ANSWERS = np.arange(400) % 2


@pytest.fixture
def store(tmp_path):
    store = Store(tmp_path / "r")
    for row in ("teacher", "kd"):
        factories.write(store, factories.record(row, "rte", 0), ANSWERS, ANSWERS)
    return store


def session(store: Store, day: int, times: float, others: float | None) -> SpeedRecord:
    """A session in which kd is so many times faster than the teacher."""
    seconds = {"teacher": 1.0, "kd": 1 / times}
    timings = [
        Timing(system=row, seconds=[each] * 9, conditions=CONDITIONS)
        for row, each in seconds.items()
    ]
    record = SpeedRecord(
        teacher=next(iter(store.records())).cell.teacher.name,
        timings=timings,
        env={} if others is None else {"busy_cores": others},
        started=f"2026-01-0{day}",
        finished=f"2026-01-0{day}",
    )
    return write_speed(store.root, record)[0]


def everything_written(store: Store, folder, latex=False) -> dict[str, str]:
    """File -> text of all that a report has."""
    write_reports(store, folder, latex)
    kinds = (".md", ".html", ".csv", ".tex")
    return {
        str(file.relative_to(folder)): file.read_text(encoding="utf-8")
        for file in folder.rglob("*")
        if file.suffix in kinds
    }


def test_a_busy_speed_has_the_word_wherever_its_number_is(store, tmp_path, bench):
    session(store, 1, 7.25, 1.3)
    written = everything_written(store, tmp_path / "p", latex=True)
    having = {name: text for name, text in written.items() if "7.25" in text}
    assert {name.rpartition(".")[2] for name in having} >= {"md", "html", "csv", "tex"}
    for name, text in having.items():
        assert "busy" in text, name
    assert "busy: other processes used 1.3 cores" in "".join(written.values())
    for text in (text for name, text in having.items() if name.endswith(".csv")):
        header, *lines = csv.reader(text.splitlines())
        assert "speed-up" in header, "its name is the same on an idle machine"
        assert "(busy)" not in text
        assert {line[header.index("speed-up busy")] for line in lines} == {"yes"}
    file = tmp_path / "choice.json"
    answer = bench("choose", "--results", store.root, "--max-latency", 500, "--json", file)
    assert "latency (ms) (busy)" in answer.stdout
    assert "busy: other processes used 1.3 cores" in answer.stdout
    assert "busy" in json.loads(file.read_text())[0]["latency_conditions"]
    assert "busy" in bench("show", "--trace", "7.25x", "--results", store.root).stdout


@pytest.mark.parametrize("days", [(1, 2), (2, 1)])
def test_an_idle_session_goes_before_a_busy_one_and_the_report_says_so(store, tmp_path, days):
    session(store, days[0], 3.5, 0.0)
    busy = session(store, days[1], 7.25, 1.3)
    written = everything_written(store, tmp_path / "p")
    page = next(text for name, text in written.items() if name.endswith(PAGE) and "kd" in text)
    assert "3.50x" in page
    # the session has a report of its own, with its number
    others = [text for name, text in written.items() if not name.startswith("speed")]
    assert not any("7.25x" in text for text in others)
    left_out = f"session {busy.key[:8]}, of a busy machine, is left out"
    assert (left_out in page) is (days[1] > days[0])
    assert "(busy)" not in page


@pytest.mark.parametrize("others", [0.24, None, "many"])
def test_an_idle_machine_and_older_records_are_not_called_busy(store, tmp_path, others):
    session(store, 1, 7.25, others)
    written = everything_written(store, tmp_path / "p")
    assert any("7.25x" in text for text in written.values())
    assert not any("busy" in text for text in written.values())


def test_the_sessions_own_report_says_it_in_every_table(store, tmp_path):
    for others, is_busy in ((1.3, True), (0.0, False)):
        record = session(store, 1, 7.25, others)
        page = write_speed_report(record, tmp_path / str(is_busy))
        assert ("speed-up (busy)" in page.read_text(encoding="utf-8")) is is_busy
        (table,) = page.parent.rglob("*.csv")
        header = next(csv.reader(table.read_text(encoding="utf-8").splitlines()))
        assert "speed-up" in header
        assert ("speed-up busy" in header) is is_busy


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [(0.0, 0.0, PASSED), (0.0, 1.3, UNCLEAR), (1.3, 0.0, UNCLEAR), (1.3, 1.3, UNCLEAR)],
)
def test_a_gate_tells_nothing_from_the_times_of_a_busy_machine(tmp_path, before, after, expected):
    roots = []
    for name, others in (("a", before), ("b", after)):
        store = Store(tmp_path / name)
        factories.write(store, factories.record("kd", "rte", 0), ANSWERS, ANSWERS)
        session(store, 1, 2.0, others)
        roots.append(store.root)
    (finding,) = (each for each in check(*roots) if each.what.startswith("speed-up"))
    assert finding.verdict == expected
    assert ("other processes used 1.3 cores" in finding.why) is (expected == UNCLEAR)


def test_a_gate_takes_the_idle_session_where_there_is_one(tmp_path):
    roots = []
    for name in ("a", "b"):
        store = Store(tmp_path / name)
        factories.write(store, factories.record("kd", "rte", 0), ANSWERS, ANSWERS)
        session(store, 1, 2.0, 0.0)
        roots.append(store.root)
    session(store, 2, 0.5, 1.3)
    assert len(list(speed_records(store.root))) == 2
    (finding,) = (each for each in check(*roots) if each.what.startswith("speed-up"))
    assert finding.verdict == PASSED


def test_one_session_is_said_to_be_one_and_several_of_one_machine_are_pooled(store, tmp_path):
    """The day decides more than the rounds of a day, so two days give a wider interval than one."""
    session(store, 1, 2.0, 0.0)
    page = _page_of_rows(everything_written(store, tmp_path / "one"))
    assert "one session: " in page
    assert "2.00x (2.00 to 2.00)" in page
    session(store, 2, 2.2, 0.0)
    session(store, 3, 9.0, 1.3)
    page = _page_of_rows(everything_written(store, tmp_path / "two"))
    assert "2 sessions: " in page
    assert "one session" not in page
    (low, high) = re.findall(r"2\.10x \((\d\.\d\d) to (\d\.\d\d)\)", page)[0]
    assert float(low) < 2.0 < 2.2 < float(high)


def _page_of_rows(written: dict[str, str]) -> str:
    return next(text for name, text in written.items() if name.endswith(PAGE) and "kd" in text)
