"""How a run ends in a terminal, what its plan says of the time, and that rows keep the order in which they were typed."""

from __future__ import annotations

import json
import re
import shlex
from dataclasses import replace

import factories
import pytest
import tiny

from bench.record.store import Store
from bench.report.studies import studies
from bench.report.write import write_reports
from bench.request import Request
from bench.request.text import parse_seeds
from bench.workflows.run_summary import TERMINAL, shown

PLAIN = f"{tiny.SHAPE}:start=random"
SPELLED = "ffn=24:heads=4:hidden=12:layers=2:start=random"


@pytest.fixture
def common(tmp_path, teacher_folder, glue_folder):
    words = [
        "--tasks",
        "rte,sst2",
        "--data",
        glue_folder,
        "--teacher",
        teacher_folder,
        "--epochs",
        "1",
    ]
    return [*words, "--results", tmp_path / "r", "--reports", tmp_path / "p"]


@pytest.mark.slow
def test_a_run_ends_with_its_table_and_a_command_that_works(bench, common, tmp_path):
    done = bench("run", "--methods", f"kd:{PLAIN},finetune:{PLAIN}", *common)
    assert done.returncode == 0, done.stderr
    assert done.stderr.splitlines()[-1].startswith(f"report: {tmp_path / 'p'}")
    assert all(
        len(line) <= TERMINAL for line in done.stdout.splitlines() if not line.startswith("next: ")
    )
    rows = [
        line.split("|")[1].strip() for line in done.stdout.splitlines() if line.startswith("| ")
    ]
    expected = ["teacher", f"kd:{SPELLED}", f"finetune:{SPELLED}"]
    assert list(dict.fromkeys(row for row in rows if row in expected)) == expected
    assert "[1]" not in done.stdout, "its footnotes are in the report"
    (report,) = (tmp_path / "p").glob("*/*/README.md")
    for number in re.findall(
        r"\d+\.\d", report.read_text().split("## Results")[1].split("## ")[0].split("Scores on")[0]
    ):
        assert number in done.stdout
    command = done.stdout.splitlines()[-1].removeprefix("next: python -m bench ")
    compared = bench(*shlex.split(command))
    assert compared.returncode == 0, compared.stderr
    assert f"kd:{SPELLED}" in compared.stdout
    assert "rte" in compared.stdout


def test_a_run_on_generated_data_ends_with_what_to_type_for_a_real_answer():
    records = [
        factories.record(row, data="sample-v2", score=score)
        for row, score in (("teacher", 0.9), ("kd", 0.8), ("tinybert", 0.7))
    ]
    (group,) = studies(records)
    request = Request(methods="kd,tinybert", tasks="rte", data="auto")
    said = shown(group, [record.cell for record in records], request)
    *_, works, again, command = said.splitlines()
    assert f"{works} {again}".startswith(
        "It works: kd and tinybert learned sample-rte from generated sentences. For a real answer"
    )
    assert command == (
        "next: python -m bench plan --methods kd,tinybert --tasks rte --data hub "
        "--teacher bert-base-uncased --seeds 0,1,2"
    )
    assert not re.search(r"Bold|\*\*|\bBest\b|bench compare", said)
    assert all(len(line) <= TERMINAL for line in said.splitlines() if line != command)
    # it is one of this program's commands
    assert len(parse_seeds(shlex.split(command)[-1])) == 3


@pytest.mark.slow
def test_rows_keep_the_order_in_which_they_were_typed(bench, common, tmp_path):
    """In the report of the run, and in the command that it prints. A store alone knows no such order:
    its rows are by mean, as on the leaderboard."""
    rows = ["pkd:layers=2", f"kd:{SPELLED}", f"finetune:{SPELLED}"]
    for typed in (rows, rows[::-1]):
        assert bench("run", "--methods", ",".join(typed), *common).returncode == 0
        text = next((tmp_path / "p").glob("*/*/README.md")).read_text()
        for table in ("accuracy", "cost-of-training", "sizes"):
            named = re.findall(
                r"^[^,]+",
                next((tmp_path / "p").glob(f"*/*/tables/{table}.csv")).read_text(),
                re.MULTILINE,
            )
            assert [name for name in named if name in rows] == typed, table
        assert f"--methods {','.join(typed)}" in text
    (alone,) = write_reports(Store(tmp_path / "r"), tmp_path / "alone")
    named = re.findall(
        r"^\| (\S+)", alone.read_text().split("## Results")[1].split("\n## ")[0], re.MULTILINE
    )
    best_first = re.findall(
        r"^[^,]+", (alone.parent / "tables" / "leaderboard.csv").read_text(), re.MULTILINE
    )
    best_first = [name for name in best_first if name in rows]
    assert [name for name in dict.fromkeys(named) if name in rows] == best_first


def test_an_ablation_that_was_not_typed_stays_with_its_full_row():
    (group,) = studies(factories.paper())
    group = replace(group, order=["wide", "microbert"])
    assert group.systems == ["teacher", "wide", "microbert", "microbert w/o Dis", "kd"]
    group = replace(group, order=["microbert w/o Dis", "kd", "microbert"])
    assert group.systems == ["teacher", "microbert w/o Dis", "kd", "microbert", "wide"]


def planned(bench, tmp_path, common, *words):
    """Lines and JSON of a plan on a machine of a million FLOPs a second."""
    file = tmp_path / "plan.json"
    answer = bench(
        "plan",
        "--methods",
        f"kd:{tiny.SHAPE},finetune:{PLAIN}",
        *common[:-2],
        "--jobs",
        "1",
        "--json",
        file,
        *words,
    )
    assert answer.returncode == 0, answer.stderr
    return answer.stdout.splitlines(), json.loads(file.read_text())


def parts_in(body):
    """What a plan's steps make -> seconds; students and scored models by their task."""
    tasks, taken = {cell["key"]: cell["tasks"][0] for cell in body["cells"]}, {}
    for step in body["steps"]:
        what = f"cells of {tasks[step['cells'][0]]}" if step["cells"] else step["title"]
        taken[what] = taken.get(what, 0.0) + step["seconds"]
    return taken


@pytest.fixture
def slow_machine(monkeypatch):
    monkeypatch.setattr(
        "bench.plan.estimate.flops_per_second", lambda threads, precision="fp32": 1e7
    )


def test_a_plan_says_what_takes_the_time_and_how_to_be_shorter(
    bench, tmp_path, common, slow_machine
):
    lines, body = planned(bench, tmp_path, common)
    parts = parts_in(body)
    assert set(parts) == {
        "general start 2x12",
        "teacher of rte",
        "teacher of sst2",
        "cells of rte",
        "cells of sst2",
    }
    assert sum(parts.values()) == pytest.approx(body["seconds"], abs=1)
    place = next(i for i, line in enumerate(lines) if line.startswith("  estimate: "))
    shares = [
        re.fullmatch(r"    .+ \((\d+)%\): (.+)", line) for line in lines[place + 1 : place + 6]
    ]
    assert [share[2] for share in shares if share] == sorted(parts, key=lambda what: -parts[what])
    assert sum(int(share[1]) for share in shares if share) == pytest.approx(100, abs=3)
    (tip,) = (line for line in lines if line.startswith("  tip: "))
    assert "--corpus-tokens 10000" in tip
    lines, shorter = planned(bench, tmp_path, common, "--corpus-tokens", "10000")
    assert not [line for line in lines if line.startswith("  tip: ")]
    left = parts_in(shorter)["general start 2x12"]
    assert left < parts["general start 2x12"] / 4
    assert shorter["seconds"] == pytest.approx(
        body["seconds"] - parts["general start 2x12"] + left, abs=1
    )
