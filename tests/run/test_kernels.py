"""--kernels fast: rows of their own whose curves are those of the usual kernels up to rounding."""

from __future__ import annotations

import pytest
import tiny

from bench.record.store import Store

SMALL = f"{tiny.SHAPE}:start=random"
ROWS = f"finetune:{SMALL},kd:{SMALL},tinybert:{SMALL}"


@pytest.fixture
def typed(glue_folder, teacher_folder, tmp_path):
    return (
        *("run", "--tasks", "rte", "--data", glue_folder, "--teacher", teacher_folder, "--epochs", 3, "--device", "cpu"),
        *("--results", tmp_path / "r", "--reports", tmp_path / "p", "--threads", 1),
    )  # fmt: skip


def by_row(root):
    return {r.cell.label: r for r in Store(root).records() if r.cell.method != "teacher"}


@pytest.mark.slow
def test_fast_kernels_have_rows_and_keys_of_their_own(bench, typed, tmp_path):
    for words in ((), ("--kernels", "fast")):
        done = bench(*typed, "--methods", ROWS, *words)
        assert done.returncode == 0, done.stderr
    found = by_row(tmp_path / "r")
    fast = {label: record for label, record in found.items() if record.cell.kernels}
    assert {label.split(":")[0] for label in fast} == {"kd", "tinybert"}, "finetune has no teacher"
    assert len(found) == 5
    for label, record in fast.items():
        assert label.endswith(" (fast kernels)")
        plain = found[label.removesuffix(" (fast kernels)")]
        assert record.key != plain.key
        assert record.code["computed_by"]["hash"] != plain.code["computed_by"]["hash"]
        assert record.train.flops_teacher == plain.train.flops_teacher
        for stage, curves in plain.terms.items():
            for term, values in curves.items():
                assert record.terms[stage][term] == pytest.approx(values, rel=2e-3, abs=2e-4), (label, term)
    (report,) = (tmp_path / "p").glob("*/*/README.md")
    assert "--kernels fast" in report.read_text()
    shown = fast[next(iter(fast))]
    why = bench("why", shown.key[:12], "--results", tmp_path / "r", "--data", typed[4], "--teacher", typed[6])
    assert "a run finds this record" in why.stdout, why.stdout + why.stderr
    again = bench("verify", shown.key[:12], "--results", tmp_path / "r", "--data", typed[4], "--teacher", typed[6])
    assert again.returncode == 0, again.stdout + again.stderr


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("--kernels", "quick"), "--kernels quick: choose one of exact, fast"),
        (("--kernels", "fast", "--precision", "bf16"), "goes with --precision fp32"),
        (("--kernels", "fast", "--teacher-outputs", "fp32"), "leave out one of the two"),
    ],
)
def test_what_does_not_go_together_is_bad_input(bench, typed, words, why):
    done = bench(*typed, "--methods", f"kd:{SMALL}", *words)
    assert done.returncode == 2
    assert why in done.stderr


def test_a_machine_without_them_is_said_before_anything_is_trained(bench, typed, monkeypatch):
    from methods import fast_kernels

    monkeypatch.setattr(fast_kernels, "problem_here", lambda: "this torch has no linear operators of oneDNN")
    done = bench(*typed, "--methods", f"kd:{SMALL}", "--kernels", "fast")
    assert done.returncode == 2
    assert "--kernels fast: this torch has no linear operators" in done.stderr


def test_it_is_said_where_no_row_has_a_teacher(bench, typed):
    done = bench("plan", *typed[1:-4], "--methods", f"finetune:{SMALL}", "--kernels", "fast")
    assert done.returncode == 0
    assert "--kernels fast changes nothing here" in done.stdout + done.stderr
