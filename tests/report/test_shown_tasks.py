"""Tasks of generated examples never look like GLUE's: not on a page, in a file of a report, or in the
terminal. Keys, records and folders keep their names."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest

from bench.analysis.choose import choose
from bench.analysis.compare import compare
from bench.errors import InputError
from bench.record.store import Store
from bench.record.task_facts import shown_task
from bench.report.write import write_reports

REFERENCE = Path(__file__).resolve().parents[2] / "results" / "reference"
SAMPLE = "sample-v2"
OF_GLUE = re.compile(r"(?<![\w-])(mrpc|rte|MRPC|RTE)(?![\w-])")


@pytest.fixture(scope="module")
def results(tmp_path_factory) -> Path:
    """Generated records of two tasks and rows, as they are committed."""
    folder = tmp_path_factory.mktemp("generated") / "results"
    for task in ("mrpc", "rte"):
        for row in ("teacher", "finetune", "microbert"):
            place = Path(SAMPLE) / task / row
            shutil.copytree(REFERENCE / place, folder / place)
    return folder


@pytest.mark.parametrize(
    ("data", "shown"),
    [
        ("sample-v2", "sample-mrpc"),
        ("sample-v2-held-back", "sample-mrpc"),
        ("sample-v2-half-dev", "sample-mrpc"),
        ("sample-v2-masked-augmented-2", "sample-mrpc"),
        ("glue-hub", "mrpc"),
        ("folder-glue", "mrpc"),
        ("folder-sample", "mrpc"),
        ("own-sample-mrpc", "mrpc"),
    ],
)
def test_only_generated_examples_are_shown_so(data, shown):
    assert shown_task("mrpc", data) == shown


def test_each_of_several_tasks_is_shown_so():
    assert shown_task("mrpc+rte", SAMPLE) == "sample-mrpc+sample-rte"


def test_nothing_of_a_report_looks_like_glue(results, tmp_path):
    (page,) = write_reports(Store(results), tmp_path, latex=True)
    written = [p for p in page.parent.rglob("*") if p.suffix in (".md", ".html", ".csv", ".svg")]
    assert len(written) > 10
    for file in written:
        text = file.read_text()
        # in commands tasks are typed
        text = re.sub(r"python -m bench [^<`\n]*", "", text)
        # bytes of pictures and fonts, and file names
        text = re.sub(r"data:image/[^\"]*|href=\"[^\"]*\"", "", text)
        assert not OF_GLUE.search(text), (file.name, OF_GLUE.search(text))
    latex = "".join(p.read_text() for p in page.parent.rglob("*.tex"))
    latex = re.sub(r"(?m)^%.*$", "", latex)
    assert "sample-mrpc" in latex
    assert not OF_GLUE.search(latex), OF_GLUE.search(latex)


def test_a_command_may_name_a_task_either_way(results):
    for typed in ("mrpc", "sample-mrpc"):
        (lines,) = compare(results, "microbert", "finetune", tasks=[typed]).values()
        assert [line.task for line in lines] == ["sample-mrpc"]
        (choice,) = choose(results, {}, tasks=[typed])
        assert [column.name for column in choice.columns] == ["sample-mrpc"]


def test_the_name_of_a_generated_task_finds_no_real_records(results, tmp_path):
    both = tmp_path / "results"
    shutil.copytree(results, both)
    for row in ("teacher", "finetune", "microbert"):
        place = Path("folder-glue") / "rte" / row
        shutil.copytree(REFERENCE / place, both / place)
    rows = ("microbert", "finetune")
    of_task = {
        name: sorted(line.task for lines in compare(both, *rows, [name]).values() for line in lines)
        for name in ("rte", "sample-rte")
    }
    assert of_task == {"rte": ["rte", "sample-rte"], "sample-rte": ["sample-rte"]}
    shutil.rmtree(both / SAMPLE)
    with pytest.raises(InputError, match="sample-rte"):
        compare(both, *rows, tasks=["sample-rte"])


@pytest.mark.slow
def test_plan_and_check_show_them_so_and_keys_stay(bench, results, tmp_path):
    words = [
        "--methods",
        "finetune",
        "--tasks",
        "mrpc",
        "--data",
        "sample",
        "--teacher",
        "embedded",
    ]
    planned = bench("plan", *words, "--json", tmp_path / "plan.json")
    assert planned.returncode == 0, planned.stderr
    assert "sample-mrpc" in planned.stdout
    assert not OF_GLUE.search(planned.stdout), planned.stdout
    cells = json.loads((tmp_path / "plan.json").read_text())["cells"]
    assert {tuple(cell["tasks"]) for cell in cells} == {("mrpc",)}
    gate = ["--baseline", results, "--results", results, "--tasks", "sample-mrpc"]
    checked = bench("check", *gate)
    assert checked.returncode == 0, checked.stderr
    assert "sample-mrpc finetune" in checked.stdout
    assert not OF_GLUE.search(checked.stdout), checked.stdout
