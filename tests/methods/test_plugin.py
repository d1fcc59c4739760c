"""A package of a third party adds a method: listed, checked, run and reported like ours."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
import tiny

import methods
from bench.conformance.checks import CHECKS
from bench.plan.spelling import parse_methods

PLUGIN = Path(__file__).parents[1] / "plugin"
NAME = "shrinkbert/teacherlogits"


@pytest.mark.slow
def test_a_third_party_method_is_listed_passes_the_checks_and_runs_to_a_report(
    bench, monkeypatch, tmp_path, places
):
    monkeypatch.syspath_prepend(PLUGIN)
    assert f"{NAME} from shrinkbert:TeacherLogits  ok" in bench("list", "--check").stdout
    checked = bench("check-method", "shrinkbert/prototypes:start=text")  # with artefacts of its own
    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert f"{len(CHECKS)} checks passed" in checked.stdout
    done = bench(
        "run",
        "--methods",
        f"{NAME}:{tiny.SHAPE}:start=random",
        "--tasks",
        "rte",
        "--epochs",
        1,
        *places,
    )
    assert done.returncode == 0, done.stderr
    assert NAME in next((tmp_path / "p").glob("*/*/README.md")).read_text()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("row", "code", "said"),
    [
        ("tinybert:padding=99", 1, "the teacher's 32 positions"),
        ("shrinkbert:Teacher", 2, "cannot be imported"),
        ("tinybird", 2, "did you mean 'tinybert'"),
        ("tinybert:-attn", 2, "not with dropped terms"),
    ],
)
def test_a_method_is_checked_by_its_class_and_with_settings(bench, monkeypatch, row, code, said):
    monkeypatch.syspath_prepend(PLUGIN)
    done = bench("check-method", row)
    assert done.returncode == code, done.stdout + done.stderr
    assert said in done.stdout + done.stderr


def test_a_method_without_a_paper_has_no_row_by_the_papers_recipe(
    bench, monkeypatch, tmp_path, teacher_folder
):
    """It would train by the common recipe, and its record would say ``paper``."""
    monkeypatch.setitem(methods.TABLE, "mine", ("shrinkbert:TeacherLogits", "names no recipe"))
    monkeypatch.setattr(
        methods, "TABLE", {name: methods.TABLE[name] for name in ("finetune", "kd", "mine")}
    )
    monkeypatch.syspath_prepend(PLUGIN)
    words = [
        "--tasks",
        "rte",
        "--data",
        tiny.write_glue(tmp_path / "glue", ("rte",)),
        "--teacher",
        teacher_folder,
    ]
    for verb in ("plan", "run"):
        named = bench(
            verb, "--methods", "kd,mine", *words, "--recipe", "paper", "--results", tmp_path / "r"
        )
        assert named.returncode == 2
        assert (
            "mine on rte: --recipe paper: distil names no recipe of a paper (Stage.paper)"
            in named.stderr
        )
        assert "use --recipe common" in named.stderr
    file = tmp_path / "plan.json"
    everything = bench("plan", "--methods", "all", *words, "--recipe", "paper", "--json", file)
    assert everything.returncode == 0, everything.stderr
    assert "mine is left out of `--methods all`: mine on rte: --recipe paper" in everything.stdout
    rows = [cell["row"] for cell in json.loads(file.read_text())["cells"]]
    assert rows == ["teacher", "finetune", "kd"], "the baselines name theirs"
    common = bench("plan", "--methods", "kd,mine", *words)
    assert common.returncode == 0, common.stderr


BAD = {
    "class Plain:\n    terms, ablations = (), {}\n": "subclass methods.api.Method",
    "Plain = 3\n": "bad/plain is not a class",
    "import sys\nsys.exit(3)\n": "cannot be imported: SystemExit: 3",
    "1 / 0\n": "cannot be imported: ZeroDivisionError",
    "def (\n": "cannot be imported: SyntaxError",
    "from nowhere_at_all import Plain\n": "cannot be imported",
    "": "cannot be imported: AttributeError",
    **dict.fromkeys(
        (
            "from methods.core.parts import OwnShape\n",
            "import methods.core.artefacts.protocol\n",
            "from methods.core.packed import forward\n",
        ),
        f"contract {methods.CONTRACT}",  # they are of an older one
    ),
}


@pytest.mark.parametrize("text", BAD)
@pytest.mark.slow
def test_a_method_that_cannot_be_used_is_told_in_one_line_and_stops_no_other(
    text, bench, monkeypatch, tmp_path
):
    from importlib.metadata import EntryPoint

    offered = [
        EntryPoint(name, "badplain:Plain", methods.GROUP) for name in ("bad/plain", "nameless")
    ]
    monkeypatch.setattr("methods.entry_points", lambda group: offered)
    (tmp_path / "badplain.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    sys.modules.pop("badplain", None)
    for rows, said in (("bad/plain", BAD[text]), ("kd,nameless", "no method is called 'nameless'")):
        planned = bench(
            "plan", "--methods", rows, "--tasks", "rte", "--data", "sample", "--teacher", "embedded"
        )
        assert planned.returncode == 2
        assert said in planned.stderr
        assert len(planned.stderr.splitlines()) == 1
    assert parse_methods("kd")[0].spelling == "kd"
    listed = bench("list")
    assert listed.returncode == 0
    assert "  bad/plain    from badplain:Plain" in listed.stdout
    assert "nameless" not in listed.stdout
    monkeypatch.setattr(methods, "TABLE", {"kd": methods.TABLE["kd"]})
    checked = bench("list", "--check")
    assert checked.returncode == 1
    assert any(
        line.startswith("  kd ") and line.endswith("  ok") for line in checked.stdout.splitlines()
    )
