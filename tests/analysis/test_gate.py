"""The gate: a planted regression of each kind is found, and noise is not called one."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

import factories
import numpy as np
import pytest

from bench.analysis import gate
from bench.analysis.gate import (
    MISSING,
    OTHER,
    PASSED,
    REGRESSED,
    UNCLEAR,
    Acceptance,
    GateLimits,
    GateResult,
    accept,
    budgets_of,
    chance,
    check,
    overall,
    verdict,
)
from bench.errors import InputError
from bench.record.cell import record_key
from bench.record.schema import Record
from bench.record.speed_sessions import Conditions, SpeedRecord, Timing, speed_records, write_speed
from bench.record.store import Store
from bench.stats.paired import seed_half_width
from bench.stats.ratios import ratio

N = 1000


def with_predictions(record: Record, right: float, seed: int, weights: str) -> tuple[Record, dict[str, np.ndarray]]:
    """The record with so many of N two-class examples right, and the logits that say so."""
    rng = np.random.default_rng(seed)
    labels = np.arange(N) % 2
    hit = np.zeros(N, bool)
    hit[rng.permutation(N)[: round(right * N)]] = True
    chosen = np.where(hit, labels, 1 - labels)
    logits = np.eye(2, dtype=np.float32)[chosen]
    scored = record.model_copy(update={"scores": {"validation": {"accuracy": right}}, "weights": weights})
    return scored, {
        "logits.validation": logits,
        "labels.validation": labels,
        "examples.validation": np.arange(N, dtype=np.uint64),
    }


def store(root: Path, scores: dict[int, float], shift: int = 0, **changes) -> Path:
    """Records of kd on rte: seed -> accuracy."""
    for seed, right in scores.items():
        record, arrays = with_predictions(factories.record("kd", "rte", seed), right, seed + shift, f"{shift}-{seed}")
        Store(root).write(record.model_copy(update=changes), arrays)
    return root


def verdicts(baseline: Path, results: Path, **options) -> dict[str, str]:
    return {finding.what: finding.verdict for finding in check(baseline, results, **options)}


SEEDS = {0: 0.80, 1: 0.81, 2: 0.79}


def test_the_same_records_pass(tmp_path):
    base = store(tmp_path / "a", SEEDS)
    assert set(verdicts(base, base).values()) == {PASSED}


def test_planted_loss_of_accuracy(tmp_path):
    base = store(tmp_path / "a", SEEDS)
    new = store(tmp_path / "b", {seed: right - 0.2 for seed, right in SEEDS.items()}, shift=10)
    assert verdicts(base, new) == {"size": PASSED, "validation accuracy": REGRESSED}


def test_noise_is_inconclusive_and_not_a_regression(tmp_path):
    base = store(tmp_path / "a", SEEDS)
    new = store(tmp_path / "b", {seed: right - 0.02 for seed, right in SEEDS.items()}, shift=10)
    assert verdicts(base, new)["validation accuracy"] == UNCLEAR


def test_a_wide_margin_passes_what_a_narrow_one_cannot_tell(tmp_path):
    base = store(tmp_path / "a", SEEDS)
    new = store(tmp_path / "b", SEEDS, shift=10)
    assert verdicts(base, new, limits=GateLimits(points=20))["validation accuracy"] == PASSED
    assert verdicts(base, new, limits=GateLimits(points=0.1))["validation accuracy"] == UNCLEAR


@pytest.mark.parametrize("name", ["parameters", "macs"])
def test_planted_growth(tmp_path, name):
    base = store(tmp_path / "a", SEEDS)
    sizes = factories.record("kd", "rte").sizes
    grown = sizes.model_copy(update={name: getattr(sizes, name) + 1})
    assert verdicts(base, store(tmp_path / "b", SEEDS, sizes=grown))["size"] == REGRESSED


def test_exit_codes_and_files(bench, tmp_path):
    base = store(tmp_path / "a", SEEDS)
    worse = store(tmp_path / "b", {seed: right - 0.2 for seed, right in SEEDS.items()}, shift=10)
    files = ["--summary", tmp_path / "s.md", "--junit", tmp_path / "j.xml", "--json", tmp_path / "c.json"]
    for results, code in ((base, 0), (tmp_path / "none", 4), (worse, 1)):
        assert bench("check", "--baseline", base, "--results", results, *files).returncode == code
    suite = ElementTree.parse(tmp_path / "j.xml").getroot()
    assert (suite.get("tests"), suite.get("failures")) == ("2", "1")
    assert json.loads((tmp_path / "c.json").read_text())["verdict"] == REGRESSED
    lines = (tmp_path / "s.md").read_text().splitlines()
    assert "regressed" in lines[0]
    assert "regressed" in next(line for line in lines if line.startswith("| ") and "verdict" not in line), "worst first"


def test_planted_failure_of_a_cell(tmp_path):
    base = store(tmp_path / "a", {0: 0.8})
    Store(tmp_path / "b").write(factories.record("kd", "rte", 0, None, failed="the term soft became nan"))
    (finding,) = check(base, tmp_path / "b")
    assert finding.verdict == REGRESSED
    assert "soft became nan" in finding.why


def test_nothing_measured(tmp_path):
    base = store(tmp_path / "a", SEEDS)
    assert verdicts(base, tmp_path / "empty") == {"row": MISSING}
    with pytest.raises(InputError, match="no finished record"):
        check(tmp_path / "empty", base)
    with pytest.raises(InputError, match="no finished record"):
        check(base, base, tasks=["mrpc"])


def test_seeds_that_are_not_compared_still_tell_the_noise(tmp_path):
    """One seed 8 points lower is a regression against three alike seeds, and noise beside three that scatter."""
    new = {0: 0.72}
    steady = store(tmp_path / "a", {0: 0.80, 1: 0.801, 2: 0.799})
    restless = store(tmp_path / "b", {0: 0.80, 1: 0.90, 2: 0.70})
    results = store(tmp_path / "c", new, shift=10)
    assert verdicts(steady, results, seeds=[0])["validation accuracy"] == REGRESSED
    assert verdicts(restless, results, seeds=[0])["validation accuracy"] == UNCLEAR


def test_the_folder_of_one_data_set_is_a_baseline_too(tmp_path):
    base = store(tmp_path / "a", SEEDS)
    (folder,) = (path for path in base.iterdir() if path.is_dir())
    assert set(verdicts(folder, base).values()) == {PASSED}
    Store(base).write(*with_predictions(factories.record("kd", "sst2", 0, data="other"), 0.8, 0, "w"))
    assert len(check(folder, base)) == 2
    assert len(check(base, base)) == 4


def test_another_question_is_not_comparable(tmp_path):
    base = store(tmp_path / "a", {0: 0.8})
    record, arrays = with_predictions(factories.record("kd", "rte", 0, precision="bf16"), 0.8, 0, "w")
    Store(tmp_path / "b").write(record, arrays)
    (finding,) = check(base, tmp_path / "b")
    assert finding.verdict == OTHER
    assert "precision" in finding.why


def test_the_same_question_on_other_seeds_is_not_measured_yet(tmp_path):
    base = store(tmp_path / "a", {0: 0.8})
    for found in (check(base, store(tmp_path / "b", {1: 0.8})), check(base, base, seeds=[7])):
        (finding,) = found
        assert (finding.what, finding.verdict) == ("row", MISSING)
        assert finding.why == "no seed in common; run the baseline's command"


def test_other_examples_are_not_comparable(tmp_path):
    base = store(tmp_path / "a", {0: 0.8})
    record, arrays = with_predictions(factories.record("kd", "rte", 0), 0.8, 5, "w")
    arrays["examples.validation"] = arrays["examples.validation"][::-1].copy()
    Store(tmp_path / "b").write(record, arrays)
    assert verdicts(base, tmp_path / "b")["validation accuracy"] == OTHER


def session(root: Path, speed_up: float, jitter: float = 0.01, batch: int = 1) -> Path:
    """A teacher of 10 ms and a student so many times faster, 30 rounds."""
    rng = np.random.default_rng(1)
    conditions = Conditions(device="cpu", backend="sdpa", dtype="fp32", threads=2, batch=batch, length="128")
    times = lambda middle: (middle * (1 + jitter * rng.standard_normal(30))).tolist()  # noqa: E731
    timings = [
        Timing(system="teacher", conditions=conditions, seconds=times(0.01)),
        Timing(system="kd", conditions=conditions, seconds=times(0.01 / speed_up)),
    ]
    write_speed(root, SpeedRecord(teacher="t", timings=timings, started="2026-01-01", finished="2026-01-01"))
    return root


@pytest.mark.parametrize(
    "now, jitter, expected", [(2.0, 0.01, PASSED), (1.5, 0.01, REGRESSED), (1.85, 0.15, UNCLEAR), (2.5, 0.01, PASSED)]
)
def test_planted_loss_of_speed(tmp_path, now, jitter, expected):
    (found,) = check(session(tmp_path / "a", 2.0), session(tmp_path / "b", now, jitter))
    assert found.verdict == expected, found.why


def test_speed_that_was_not_or_otherwise_timed(tmp_path):
    base = session(tmp_path / "a", 2.0)
    assert overall(check(base, tmp_path / "b")) == MISSING
    assert overall(check(base, session(tmp_path / "c", 2.0, batch=32))) == OTHER


def test_only_the_speed_ups_of_the_rows_named_are_compared(tmp_path):
    base, now = session(tmp_path / "a", 2.0), session(tmp_path / "b", 1.5)
    assert [found.subject for found in check(base, now, rows=["kd"])] == ["kd"]
    assert [(found.subject, found.verdict) for found in check(base, now, rows=["tinybert"])] == [("tinybert", MISSING)]


@pytest.mark.parametrize("system", ["teacher", "kd"])
def test_a_timing_that_failed_is_not_measured_and_not_called_one_under_other_conditions(tmp_path, system):
    base, now = session(tmp_path / "a", 2.0), session(tmp_path / "b", 2.0)
    (record,) = speed_records(now)
    failed = {"status": "failed", "seconds": []}
    timings = [t.model_copy(update=failed) if t.system == system else t for t in record.timings]
    write_speed(tmp_path / "c", record.model_copy(update={"timings": timings}))
    (found,) = check(base, tmp_path / "c")
    assert found.verdict == MISSING
    assert "failed" in found.why


def test_the_worst_verdict_counts():
    assert [verdict(d, 1.0, 2.0) for d in (-3.0, -1.5, 0.0, 3.0)] == [REGRESSED, REGRESSED, PASSED, PASSED]
    assert verdict(-0.9, 1.0, 1.5) == UNCLEAR
    assert overall([]) == MISSING


def test_sampling_interval_agrees_with_the_binomial():
    """Two models that disagree on 10 % of 1,000 examples: sd of the difference is sqrt(0.1 / 1000) = 1 point."""
    labels, old, new = np.zeros(N, int), np.zeros(N, int), np.zeros(N, int)
    old[:50], new[50:100] = 1, 1
    half, p = chance([new], [old], labels, "accuracy", 0.0)
    assert half == pytest.approx(196 * np.sqrt(0.1 / N), rel=0.1)
    assert p == 1.0


def replay(rng, gap, examples=408, disagreement=0.1):
    """The verdict on one accuracy, of a model that is truly ``gap`` worse and differs on so many examples."""
    labels = np.zeros(examples, int)
    first, second, _ = rng.multinomial(examples, [(disagreement - gap) / 2, (disagreement + gap) / 2, 1 - disagreement])
    new, old = np.zeros(examples, int), np.zeros(examples, int)
    old[:first], new[first : first + second] = 1, 1  # 1 is wrong
    difference = 100 * (first - second) / examples
    half, p = chance([new], [old], labels, "accuracy", difference)
    limits = GateLimits()
    return verdict(difference, half, limits.points, p <= limits.level)


@pytest.mark.slow
def test_the_gate_neither_cries_wolf_nor_sleeps():
    """400 runs without a change, 100 with a loss of 7 points, 400 with 5: on 408 examples, 10 % disagreement."""
    rng = np.random.default_rng(0)
    noise = [replay(rng, 0.0) for _ in range(400)]
    assert noise.count(REGRESSED) <= 3
    assert [replay(rng, 0.07) for _ in range(100)].count(REGRESSED) >= 90
    assert PASSED not in [replay(rng, 0.05) for _ in range(400)]


def test_a_metric_may_have_a_budget_of_its_own(tmp_path):
    base = store(tmp_path / "a", SEEDS)
    new = store(tmp_path / "b", SEEDS, shift=10)
    assert verdicts(base, new, limits=GateLimits(0.1, budgets={"accuracy": 20}))["validation accuracy"] == PASSED
    assert verdicts(base, new, limits=GateLimits(20, budgets={"accuracy": 0.1}))["validation accuracy"] == UNCLEAR
    assert budgets_of(["matthews=5", "f1=1.5", "macro_f1=3"]) == {"matthews": 5.0, "f1": 1.5, "macro_f1": 3.0}
    for wrong in ("accurracy=2", "f1", "f1=x", "f1=-1"):
        with pytest.raises(InputError):
            budgets_of([wrong])


def test_a_regression_that_was_looked_at_is_accepted_and_a_stale_acceptance_is_said(bench, tmp_path):
    base = store(tmp_path / "a", SEEDS)
    worse = store(tmp_path / "b", {seed: right - 0.2 for seed, right in SEEDS.items()}, shift=10)
    file = tmp_path / "accepted.toml"
    file.write_text(
        '[[accepted]]\nrow = "rte kd"\nwhat = "validation accuracy"\nreason = "another tokenizer, issue 12"\n'
    )
    answer = bench("check", "--baseline", base, "--results", worse, "--accept", file)
    assert answer.returncode == 0
    assert "accepted: another tokenizer, issue 12" in answer.stdout
    stale = bench("check", "--baseline", base, "--results", base, "--accept", file)
    assert stale.returncode == 3
    assert "remove it" in stale.stdout
    file.write_text('[[accepted]]\nrow = "rte kd"\n')
    assert bench("check", "--baseline", base, "--results", base, "--accept", file).returncode == 2
    assert bench("check", "--baseline", base, "--results", base, "--accept", tmp_path / "none.toml").returncode == 2


@pytest.mark.parametrize(
    "findings",
    [
        [GateResult("rte kd", "validation accuracy", PASSED, "")],
        [GateResult("cola kd", "row", MISSING, "")],
        [GateResult("cola kd", "validation matthews", OTHER, "")],
    ],
)
def test_an_acceptance_of_what_was_not_compared_has_no_effect(findings):
    known = [Acceptance(row="cola kd", what="validation matthews", reason="issue 12")]
    assert accept(findings, known) == findings


def test_an_accepted_failure_is_stale_where_the_row_has_a_score():
    findings = [GateResult("cola kd", "validation matthews", PASSED, "")]
    *same, stale = accept(findings, [Acceptance(row="cola kd", what="row", reason="issue 12")])
    assert same == findings
    assert stale.verdict == UNCLEAR
    assert "remove it" in stale.why


def test_seed_interval_is_students():
    assert seed_half_width([80.0], 3) is None
    # t of 2 degrees of freedom 4.303; sd 1; two means of three
    assert seed_half_width([79.0, 80.0, 81.0], 3) == pytest.approx(4.303 * np.sqrt(2 / 3), rel=1e-3)


def test_ratio_interval_by_order_statistics():
    """30 rounds: the 10th smallest and largest, by the table for a median (Conover)."""
    found = ratio([float(i) for i in range(1, 31)], [1.0] * 30)
    assert (found.median, found.low, found.high, found.rounds) == (15.5, 10.0, 21.0, 30)
    assert ratio([1.0, 2.0, 3.0, 4.0, 5.0, 6.0], [1.0] * 6).low == 1.0
    with pytest.raises(ValueError, match="too few"):
        ratio([1.0] * 5, [1.0] * 5)
    with pytest.raises(ValueError, match="rounds"):
        ratio([1.0], [1.0, 2.0])


def test_a_row_or_task_that_the_baseline_has_not_is_bad_input(tmp_path):
    """It was left out without a word, and the rest passed."""
    base = store(tmp_path / "a", SEEDS)
    with pytest.raises(InputError, match="did you mean 'kd'"):
        check(base, base, rows=["kdd"])
    with pytest.raises(InputError, match="did you mean 'rte'"):
        check(base, base, tasks=["rtee"])


def test_the_gate_does_not_pass_if_a_named_row_was_not_compared(tmp_path):
    """The teacher, which is always compared, passed in its place."""
    base = store(tmp_path / "a", SEEDS)
    for row, task in (("teacher", "rte"), ("pkd", "sst2")):
        Store(base).write(*with_predictions(factories.record(row, task, 0), 0.9, 0, "w"))
    found = check(base, base, tasks=["rte"], rows=["pkd"])
    assert overall(found) == MISSING
    assert [(f.subject, f.what) for f in found if f.verdict == MISSING] == [("pkd", "row")]
    assert overall(check(base, base, tasks=["rte"], rows=["kd", "pkd"])) == MISSING
    assert overall(check(base, base, tasks=["rte", "sst2"], rows=["kd", "pkd"])) == PASSED


def test_a_row_may_be_named_with_its_operating_point(tmp_path):
    point = "at speed=0.5"
    records = [factories.record("fastbert", "rte", seed) for seed in SEEDS]
    records = [r.model_copy(update={"point": point, "key": record_key(r.cell, point)}) for r in records]
    for record in records:
        Store(tmp_path / "a").write(*with_predictions(record, 0.8, record.cell.seed, "w"))
    (name,) = {record.row for record in records}
    assert name != "fastbert"
    assert overall(check(tmp_path / "a", tmp_path / "a", rows=[name])) == PASSED
    assert overall(check(tmp_path / "a", tmp_path / "a", rows=["fastbert"])) == PASSED


def test_what_did_not_pass_is_marked_in_a_pull_request_on_one_line_each():
    made = [
        gate.GateResult("kd on rte", "accuracy", gate.REGRESSED, "62.0,\nwas 70.0"),
        gate.GateResult("kd on rte", "parameters", gate.PASSED, "the same"),
        gate.GateResult("kd on sst2", "accuracy", gate.MISSING, "no record"),
    ]
    lines = gate.workflow_commands(made)
    assert [line.split(" ", 1)[0] for line in lines] == ["::error", "::warning"]
    assert all("\n" not in line for line in lines)
