"""Tracing: what reports print of the records is found, whatever its form."""

from __future__ import annotations

import json
import re

import factories
import numpy as np
import pytest
from studied import studied

from bench.analysis.trace import describe, trace
from bench.record.speed_sessions import Conditions, SpeedRecord, Timing, write_speed
from bench.record.store import Store
from bench.report.speed_page import latency_tables
from bench.report.studies import studies
from bench.report.tables.accuracy import accuracy
from bench.report.tables.cost import cost, sizes_of
from bench.report.tables.retention import retentions

CONDITIONS = Conditions(
    device="cpu", backend="sdpa", dtype="fp32", threads=2, batch=8, length="128"
)
SESSION = SpeedRecord(
    teacher="t",
    timings=[
        Timing(
            system=name, conditions=CONDITIONS, seconds=[unit * (1 + 0.01 * i) for i in range(10)]
        )
        for name, unit in (("teacher", 0.0203), ("kd", 0.0071))
    ],
    started="2026",
    finished="2026",
)


def numbers(cell: str) -> list[str]:
    """The numbers of a printed cell as somebody would copy them, without deviations, footnotes and intervals."""
    plain = re.sub(r"\*\*|\[\d+\]|\(n = \d+\)|± [\d.]+|\([\d.]+ to [\d.]+\)", "", cell)
    return re.findall(r"[+-]?\d[\d,]*\.\d+x?", plain)


@pytest.mark.slow
def test_every_number_of_the_tables_is_found(paper_store):
    (group,) = studies(paper_store.records())
    tables = [table for table in (accuracy(group), cost(group)) if table]
    printed = {
        number
        for table in tables
        for row in table.rows
        for cell in row[1:]
        for number in numbers(cell)
    }
    assert len(printed) >= 15
    assert [number for number in sorted(printed) if not trace(number, paper_store.root)] == []


@pytest.mark.slow
def test_ratios_are_found_where_a_teacher_is_suspect_or_has_another_training(tmp_path, monkeypatch):
    """Means of ratios leave out a teacher that always gives one answer. A row is divided by the training that it names."""
    store, labels, chance = Store(tmp_path), np.arange(400) % 3 % 2, np.random.default_rng(1)

    def write(label, task, right, weights="a"):
        predicted = (
            np.where(chance.random(400) < right, labels, 1 - labels) if right else 0 * labels
        )
        record = factories.record(label, task, macs=10**9 if label == "teacher" else 10**8)
        record = record.model_copy(
            update={"artefacts": {"teacher": {"key": "k", "weights": weights * 64}}}
        )
        return factories.write(store, record, predicted, labels).with_name("current")

    for task, right in (("rte", 0.9), ("sst2", 0.8), ("wnli", 0)):
        current = write("teacher", task, right)
        write("finetune", task, 0.7)
        write("pkd", task, 0.7, "b" if right else "a")
        write("teacher", task, right and right - 0.1, "b")
        current.write_text("attempt-1.json\n")
    group = studied(store)
    monkeypatch.setattr("bench.report.studies.resample", lambda *_: group.answers)
    tables = [retentions(group)]
    printed = {
        number
        for table in tables
        for row in table.rows
        for cell in row[1:]
        for number in numbers(cell)
    }
    assert len(printed) >= 6
    assert [number for number in sorted(printed) if not trace(number, store.root)] == []


def test_every_size_of_a_row_is_found_on_each_of_its_tasks(tmp_path):
    store, sizes = Store(tmp_path), factories.record("bilstm").sizes
    for task, more in (("rte", 0), ("sst2", 10**6)):
        changed = {
            "parameters": sizes.parameters + more,
            "embedding": sizes.embedding + more,
            "active_parameters": 123456,
        }
        store.write(
            factories.record("bilstm", task).model_copy(
                update={"sizes": sizes.model_copy(update=changed)}
            )
        )
    (group,) = studies(store.records())
    table = sizes_of(group)
    assert {row[0] for row in table.rows} == {"bilstm, rte", "bilstm, sst2"}
    for row in table.rows:
        for title, cell in zip(table.header[1:], row[1:], strict=True):
            assert any(
                origin.what.startswith(f"{row[0]}, {title}") for origin in trace(cell, store.root)
            ), (
                row[0],
                title,
            )


def test_every_number_of_a_session_is_found(tmp_path):
    record, _ = write_speed(tmp_path, SESSION)
    for table in latency_tables(record):
        for row in table.rows:
            for title, cell in zip(table.header[1:-1], row[1:-1], strict=True):
                found = [trace(number, tmp_path) for number in re.findall(r"\d[\d,]*\.\d+x?", cell)]
                assert all(found), (row[0], title, cell)
    (faster,) = [one for one in trace("2.86x", tmp_path) if "bound" not in one.what]
    assert faster.kind == "speed-up"
    assert faster.session == record.key
    assert "session" in describe("2.86x", [faster], tmp_path)


def test_a_sign_asks_for_a_difference_and_an_x_for_a_speed_up(tmp_path):
    store = Store(tmp_path)
    for label, score in (("kd", 0.6), ("tinybert", 0.645), ("teacher", 0.045)):
        store.write(factories.record(label, "rte", score=score))
    write_speed(tmp_path, SESSION)
    assert [o.what.split(",")[0] for o in trace("+4.5", tmp_path)] == ["tinybert minus kd"]
    assert [o.what.split(",")[0] for o in trace("-4.5", tmp_path)] == ["kd minus tinybert"]
    plain = {o.kind for o in trace("4.5", tmp_path)}
    assert plain == {"", "difference"}  # the teacher's score too
    assert not trace("4.5x", tmp_path)
    assert not trace("+64.5", tmp_path)


def test_a_number_is_traced_to_its_record_and_a_negative_one_is_no_option(
    bench, paper_store, tmp_path
):
    typed = "--results", paper_store.root, "--json", tmp_path / "t.json"
    answer = bench("show", "--trace", "-3.0", *typed)
    assert answer.stdout.startswith("-3.0:")
    answer = bench("show", "--trace", "70.0", *typed)
    assert answer.returncode == 0
    assert "python -m bench verify" in answer.stdout
    keys = {
        key for origin in json.loads((tmp_path / "t.json").read_text()) for key in origin["records"]
    }
    assert factories.record("teacher", "rte").key[:12] in keys
    assert bench("show", "--trace", "12345.6", *typed).returncode == 1
    assert bench("show", "--trace", "many", *typed).returncode == 2
