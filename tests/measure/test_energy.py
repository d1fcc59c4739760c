"""Energy: what a counter tells is recorded, what none tells is not measured; nothing is estimated."""

from __future__ import annotations

import functools

import numpy as np
import pytest
import tiny
import torch
from hypothesis import given
from hypothesis import strategies as st

from bench.measure import energy, latency
from bench.measure.energy import TURNS, Counter, NotCounted, counter_of, joules_in_turns, nvml, rapl
from bench.measure.latency import Load, full_length, time_in_turns
from bench.record.speed_sessions import Conditions, SpeedRecord, Timing
from bench.report.render import to_csv, to_markdown
from bench.report.speed_page import latency_tables, write_speed_report

UNDER = Conditions(device="cpu", backend="eager", dtype="fp32", threads=1, batch=2, length="16")


class Meter:
    """A counter that somebody turns."""

    name = "a meter"

    def __init__(self) -> None:
        self.spent = 0.0

    def used(self) -> float:
        spent, self.spent = self.spent, 0.0
        return spent


@pytest.fixture
def powercap(tmp_path):
    """The files of a machine with two processors; the whole board and the cores are counted again by others."""

    def zone(name: str, called: str, microjoules: int, largest: int = 999_999) -> None:
        folder = tmp_path / name
        folder.mkdir()
        for file, content in (
            ("name", called),
            ("energy_uj", microjoules),
            ("max_energy_range_uj", largest),
        ):
            (folder / file).write_text(f"{content}\n")

    (tmp_path / "intel-rapl").mkdir()
    zone("intel-rapl:0", "package-0", 100)
    zone("intel-rapl:0:0", "core", 100)
    zone("intel-rapl:0:1", "dram", 999_000)
    zone("intel-rapl:1", "package-1", 0)
    zone("intel-rapl:2", "psys", 0)
    return tmp_path


def grow(powercap, **by: int) -> None:
    """Let zones of the first processor count on, and begin again after their range."""
    for name, microjoules in by.items():
        file = (
            powercap
            / {"package": "intel-rapl:0", "core": "intel-rapl:0:0", "dram": "intel-rapl:0:1"}[name]
        )
        now = int((file / "energy_uj").read_text())
        (file / "energy_uj").write_text(f"{(now + microjoules) % 1_000_000}\n")


def test_processors_and_their_memory_are_added_and_nothing_is_counted_twice(powercap):
    counter = rapl(powercap)
    # the counter of the memory passes its largest value
    grow(powercap, package=500_000, core=400_000, dram=2_000)
    assert counter.used() == pytest.approx(0.502)
    assert counter.used() == 0
    assert counter.name == "RAPL: package-0, dram, package-1"


@given(st.lists(st.integers(0, 999), min_size=1, max_size=30))
def test_no_joule_is_lost_where_a_counter_begins_again(steps):
    ends = iter([0, *np.cumsum(steps).tolist()])
    counter = Counter("a zone", lambda: [next(ends) % 1000], [999])
    assert sum(counter.used() for _ in steps) == pytest.approx(sum(steps) / 1e6)


def test_a_machine_without_counters_says_so(tmp_path):
    with pytest.raises(NotCounted, match="no energy counter"):
        rapl(tmp_path)
    with pytest.raises(NotCounted, match="no energy counter"):
        rapl(tmp_path / "absent")


@pytest.mark.parametrize("content", ["", "many", "-"])
def test_a_counter_that_holds_no_number_is_not_used(powercap, content):
    (powercap / "intel-rapl:1" / "energy_uj").write_text(content)
    with pytest.raises(NotCounted, match="cannot be read"):
        rapl(powercap)


def test_a_counter_for_the_administrator_alone_is_named_also_to_the_administrator(
    powercap, monkeypatch
):
    def refused(*_):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(energy, "Counter", refused)
    with pytest.raises(NotCounted, match="only the administrator"):
        rapl(powercap)


def test_without_a_driver_nvml_counts_nothing():
    pytest.importorskip("pynvml", reason="needs the extra 'nvml'")
    with pytest.raises(NotCounted, match="does not tell its energy"):
        nvml("no such GPU")


@pytest.mark.cuda
def test_a_gpu_that_works_uses_energy():
    pytest.importorskip("pynvml", reason="needs the extra 'nvml'")
    counter, matrix = counter_of("cuda"), torch.rand(4096, 4096, device="cuda")

    def product() -> None:
        (matrix @ matrix).sum().item()

    found = joules_in_turns({"a": product}, counter)
    assert min(found["a"]) > 0


def test_systems_take_turns_and_each_pays_for_its_own_calls():
    meter, order = Meter(), []

    def system(name: str, cost: float):
        def call() -> None:
            order.append(name)
            meter.spent += cost

        return call

    found = joules_in_turns({"a": system("a", 3.0), "b": system("b", 5.0)}, meter, shortest=0.0005)
    assert found == {"a": pytest.approx([3.0] * TURNS), "b": pytest.approx([5.0] * TURNS)}
    changes = [name for name, before in zip(order, ["", *order], strict=False) if name != before]
    assert changes == ["a", "b"] * TURNS


def test_joules_are_of_a_batch(monkeypatch):
    """A pass over the three batches that were timed costs 6 J."""
    meter, load = Meter(), full_length(2, 16, 40)
    load = Load(load.name, [*load.batches] * 5)

    def seconds(call) -> float:
        if isinstance(answers := call(), list):
            meter.spent += 2.0 * len(answers)
        return 0.001

    monkeypatch.setattr(latency, "joules_in_turns", functools.partial(joules_in_turns, shortest=0))
    (timing,) = time_in_turns({"m": tiny.classifier()}, load, UNDER, 3, energy=meter, timed=seconds)
    assert timing.joules == pytest.approx([2.0] * TURNS)


def session(joules, energy) -> SpeedRecord:
    timings = [
        Timing(
            system=name,
            conditions=UNDER,
            seconds=[0.1] * 6,
            joules=joules and [scale * one for one in joules],
        )
        for name, scale in (("teacher", 4), ("row", 1))
    ]
    return SpeedRecord(
        teacher="t", timings=timings, energy=energy, started="2026-01-01", finished="2026-01-01"
    )


def test_a_report_prints_measured_joules_of_one_sequence(tmp_path):
    record = session([2.0, 2.2, 2.4], "RAPL: package-0")
    (table,) = latency_tables(record)
    assert "| row" in to_markdown(table)
    assert "1.1" in to_markdown(table).splitlines()[-1]
    assert "1 to 1.2" in to_markdown(table).splitlines()[-1]
    assert "J/sequence" in to_csv(table)
    text = write_speed_report(record, tmp_path).read_text()
    assert "as the machine counts it (RAPL: package-0)" in text


@pytest.mark.parametrize(
    ("energy", "words"),
    [
        ("", "Energy was not measured."),
        ("not measured: no counter", "Energy was not measured: no counter."),
    ],
)
def test_a_report_without_joules_prints_none_and_says_why(tmp_path, energy, words):
    record = session([], energy)
    text = write_speed_report(record, tmp_path).read_text()
    assert words in text
    assert "J/sequence" not in text
