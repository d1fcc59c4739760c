"""--kernels fast: rows of their own whose curves are those of the usual kernels up to rounding."""

from __future__ import annotations

import pytest
import tiny

from bench import api
from bench.progress import Progress
from bench.record.store import Store
from bench.run import carry_out
from methods.core import fast_kernels

SMALL = f"{tiny.SHAPE}:start=random"
ROWS = f"finetune:{SMALL},kd:{SMALL},tinybert:{SMALL}"


@pytest.fixture
def typed(places):
    return ("run", "--tasks", "rte", "--epochs", 3, "--device", "cpu", *places)


def by_row(root):
    return {r.cell.label: r for r in Store(root).records() if r.cell.method != "teacher"}


@pytest.mark.slow
def test_fast_kernels_have_rows_and_keys_of_their_own(bench, request_, typed, places, tmp_path):
    usual = request_(methods=ROWS, tasks="rte", epochs=3.0, device="cpu", results=tmp_path / "r")
    assert carry_out(api.plan(usual), Progress()).exit_code == 0
    done = bench(*typed, "--methods", ROWS, "--kernels", "fast")
    assert done.returncode == 0, done.stderr
    found = by_row(tmp_path / "r")
    fast = {label: record for label, record in found.items() if record.cell.kernels}
    assert {label.split(":")[0] for label in fast} == {"finetune", "kd", "tinybert"}
    assert len(found) == 6
    for label, record in fast.items():
        assert label.endswith(" (fast kernels)")
        plain = found[label.removesuffix(" (fast kernels)")]
        assert record.key != plain.key
        assert record.train_key != plain.train_key
        assert record.train.flops_teacher == plain.train.flops_teacher
        for stage, curves in plain.terms.items():
            for term, values in curves.items():
                assert record.terms[stage][term] == pytest.approx(values, rel=2e-3, abs=2e-4), (
                    label,
                    term,
                )
    (report,) = (tmp_path / "p").glob("*/*/README.md")
    assert "--kernels fast" in report.read_text()
    shown = fast[next(iter(fast))]
    why = bench("show", "--why", shown.key[:12], *places[:6])
    assert "a run finds this record" in why.stdout, why.stdout + why.stderr
    again = bench("verify", shown.key[:12], *places[:6])
    assert again.returncode == 0, again.stdout + again.stderr


def test_their_training_on_text_is_another_artefact(request_):
    usual, fast = (
        api.plan(request_(methods=f"tinybert:{tiny.SHAPE}", kernels=kernels))
        for kernels in ("exact", "fast")
    )
    starts = [{entry.key for entry in plan.artefacts} for plan in (usual, fast)]
    assert all(starts)
    assert not set.intersection(*starts)
    assert [p.cell.teacher for p in usual.cells] == [p.cell.teacher for p in fast.cells]


def test_a_machine_without_them_is_said_before_anything_is_trained(bench, typed, monkeypatch):
    monkeypatch.setattr(
        fast_kernels, "problem_here", lambda: "this torch has no linear operators of oneDNN"
    )
    done = bench(*typed, "--methods", f"kd:{SMALL}", "--kernels", "fast")
    assert done.returncode == 2
    assert "--kernels fast: this torch has no linear operators" in done.stderr
