"""The gate: a planted regression of each kind is found, and noise is not called one."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from xml.etree import ElementTree

import factories
import numpy as np
import pytest

from bench.analysis.gate import GateLimits, check
from bench.analysis.gate_acceptances import Acceptance, accept, budgets_of, unmet
from bench.analysis.gate_in_words import junit, summary, workflow_commands
from bench.analysis.gate_result import (
    MISSING,
    OTHER,
    PASSED,
    REGRESSED,
    UNCLEAR,
    GateResult,
    overall,
)
from bench.analysis.gate_scores import chance, verdict
from bench.errors import InputError
from bench.record.cell import IN_8_BITS, record_key
from bench.record.schema import Record
from bench.record.speed_sessions import Conditions, SpeedRecord, Timing, speed_records, write_speed
from bench.record.store import Store
from bench.stats.paired import seed_half_width
from bench.stats.ratios import ratio

N = 1000
SEEDS = {0: 0.80, 1: 0.81, 2: 0.79}
SCORE = "validation accuracy"


def with_predictions(
    record: Record, right: float, seed: int, weights: str
) -> tuple[Record, dict[str, np.ndarray]]:
    """The record with so many of N two-class examples right, and the logits that say so."""
    labels, hit = np.arange(N) % 2, np.zeros(N, bool)
    hit[np.random.default_rng(seed).permutation(N)[: round(right * N)]] = True
    logits = np.eye(2, dtype=np.float32)[np.where(hit, labels, 1 - labels)]
    arrays = {"logits.validation": logits, "labels.validation": labels}
    return factories.consistent(record.model_copy(update={"weights": weights}), arrays)


def store(
    root: Path, scores: dict[int, float], shift: int = 0, less: float = 0.0, **changes
) -> Path:
    """Records of kd on rte: seed -> accuracy."""
    for seed, right in scores.items():
        plain = factories.record("kd", "rte", seed)
        record, arrays = with_predictions(plain, right - less, seed + shift, f"{shift}-{seed}")
        Store(root).write(record.model_copy(update=changes), arrays)
    return root


@pytest.fixture
def base(tmp_path: Path) -> Path:
    return store(tmp_path / "a", SEEDS)


def verdicts(baseline: Path, results: Path, **options) -> dict[str, str]:
    return {finding.what: finding.verdict for finding in check(baseline, results, **options)}


@pytest.mark.parametrize(
    ("less", "limits", "ended"),
    [
        (0.2, GateLimits(), REGRESSED),
        (0.02, GateLimits(), UNCLEAR),
        (0.0, GateLimits(points=20), PASSED),
        (0.0, GateLimits(points=0.1), UNCLEAR),
        (0.0, GateLimits(0.1, budgets={"accuracy": 20}), PASSED),
        (0.0, GateLimits(20, budgets={"accuracy": 0.1}), UNCLEAR),
    ],
)
def test_a_loss_regresses_and_noise_does_not(base, tmp_path, less, limits, ended):
    assert verdicts(base, store(tmp_path / "b", SEEDS, 10, less), limits=limits) == {
        "size": PASSED,
        SCORE: ended,
    }
    assert set(verdicts(base, base, limits=limits).values()) == {PASSED}


@pytest.mark.parametrize("name", ["parameters", "macs"])
def test_planted_growth(base, tmp_path, name):
    sizes = factories.record("kd", "rte").sizes
    grown = sizes.model_copy(update={name: getattr(sizes, name) + 1})
    assert verdicts(base, store(tmp_path / "b", SEEDS, sizes=grown))["size"] == REGRESSED


def test_a_loss_that_went_is_named_though_scores_are_within_the_margin(tmp_path):
    old = store(tmp_path / "a", SEEDS, terms={"joint": {"hard": [1.0], "soft": [1.0]}})
    new = store(tmp_path / "b", SEEDS, 10, terms={"joint": {"hard": [1.0]}})
    (finding,) = (f for f in check(old, new, limits=GateLimits(points=20)) if f.verdict != PASSED)
    assert (finding.what, finding.verdict, finding.why) == (
        "losses",
        REGRESSED,
        "without joint.soft",
    )


def test_exit_codes_and_files(bench, base, tmp_path):
    worse = store(tmp_path / "b", SEEDS, 10, 0.2)
    files = [
        "--summary",
        tmp_path / "s.md",
        "--junit",
        tmp_path / "j.xml",
        "--json",
        tmp_path / "c.json",
    ]
    for results, code in ((base, 0), (tmp_path / "none", 4), (worse, 1)):
        assert bench("check", "--baseline", base, "--results", results, *files).returncode == code
    suite = ElementTree.parse(tmp_path / "j.xml").getroot()
    assert (suite.get("tests"), suite.get("failures"), suite.get("errors")) == ("2", "1", "0")
    assert json.loads((tmp_path / "c.json").read_text())["verdict"] == REGRESSED
    lines = (tmp_path / "s.md").read_text().splitlines()
    assert "regressed" in lines[0]
    assert "regressed" in next(
        line for line in lines if line.startswith("| ") and "verdict" not in line
    ), "worst first"


def test_planted_failure_of_a_cell(base, tmp_path):
    Store(tmp_path / "b").write(
        factories.record("kd", "rte", 0, None, failed="the term soft became nan")
    )
    (finding,) = check(base, tmp_path / "b", seeds=[0])
    assert finding.verdict == REGRESSED
    assert "soft became nan" in finding.why


def test_nothing_measured(base, tmp_path):
    assert verdicts(base, tmp_path / "empty") == {"row": MISSING}
    for findings in (check(base, tmp_path / "empty"), []):
        suite = ElementTree.fromstring(junit(findings))
        assert (suite.get("errors"), suite.get("skipped")) == ("1", "0"), (
            "no viewer shows it as green"
        )
    cases = [
        (tmp_path / "empty", base, (), "is it a folder"),
        (base, base, ["mrpc"], "of the tasks mrpc; it has rte"),
    ]
    for baseline, results, tasks, message in cases:
        with pytest.raises(InputError, match=message):
            check(baseline, results, tasks=tasks)
    for options, name in (({"rows": ["kdd"]}, "kd"), ({"tasks": ["rtee"]}, "rte")):
        with pytest.raises(InputError, match=f"did you mean '{name}'"):
            check(base, base, **options)


@pytest.mark.parametrize(
    ("seeds", "ended"),
    [({0: 0.80, 1: 0.801, 2: 0.799}, REGRESSED), ({0: 0.80, 1: 0.90, 2: 0.70}, UNCLEAR)],
)
def test_seeds_that_are_not_compared_still_tell_the_noise(tmp_path, seeds, ended):
    """One seed 8 points lower is a regression against three alike seeds, and noise beside three that scatter."""
    results = store(tmp_path / "c", {0: 0.72}, 10)
    assert verdicts(store(tmp_path / "b", seeds), results, seeds=[0])[SCORE] == ended


def test_the_folder_of_one_data_set_is_a_baseline_too(base):
    (folder,) = (path for path in base.iterdir() if path.is_dir())
    assert set(verdicts(folder, base).values()) == {PASSED}
    Store(base).write(
        *with_predictions(factories.record("kd", "sst2", 0, data="other"), 0.8, 0, "w")
    )
    assert len(check(folder, base)) == 2
    assert len(check(base, base)) == 4


def test_another_question_is_not_comparable(base, tmp_path):
    record, arrays = with_predictions(
        factories.record("kd", "rte", 0, precision="bf16"), 0.8, 0, "w"
    )
    Store(tmp_path / "b").write(record, arrays)
    (finding,) = check(base, tmp_path / "b")
    assert finding.verdict == OTHER
    assert "precision" in finding.why


def test_the_same_question_on_other_seeds_is_not_measured_yet(base, tmp_path):
    for results, seeds in ((store(tmp_path / "b", {7: 0.8}), ()), (base, [7])):
        (finding,) = check(base, results, seeds=seeds)
        assert (finding.what, finding.verdict) == ("row", MISSING)
        assert "no seed in common" in finding.why


def session(root: Path, speed_up: float, jitter: float = 0.01, batch: int = 1) -> Path:
    """A teacher of 10 ms and a student so many times faster, 30 rounds."""
    rng = np.random.default_rng(1)
    conditions = Conditions(
        device="cpu", backend="sdpa", dtype="fp32", threads=2, batch=batch, length="128"
    )
    times = lambda middle: (middle * (1 + jitter * rng.standard_normal(30))).tolist()  # noqa: E731
    timings = [
        Timing(system="teacher", conditions=conditions, seconds=times(0.01)),
        Timing(system="kd", conditions=conditions, seconds=times(0.01 / speed_up)),
    ]
    write_speed(
        root, SpeedRecord(teacher="t", timings=timings, started="2026-01-01", finished="2026-01-01")
    )
    return root


@pytest.mark.parametrize(
    "now, jitter, expected",
    [(2.0, 0.01, PASSED), (1.5, 0.01, REGRESSED), (1.85, 0.15, UNCLEAR), (2.5, 0.01, PASSED)],
)
def test_planted_loss_of_speed(tmp_path, now, jitter, expected):
    (finding,) = check(session(tmp_path / "a", 2.0), session(tmp_path / "b", now, jitter))
    assert finding.verdict == expected, finding.why


def test_speed_that_was_not_or_otherwise_timed(tmp_path):
    base, now = session(tmp_path / "a", 2.0), session(tmp_path / "b", 1.5)
    assert overall(check(base, tmp_path / "empty")) == MISSING
    assert overall(check(base, session(tmp_path / "c", 2.0, batch=32))) == OTHER
    assert [finding.subject for finding in check(base, now, rows=["kd"])] == ["kd"]
    assert [(f.subject, f.verdict) for f in check(base, now, rows=["tinybert"])] == [
        ("tinybert", MISSING)
    ]


@pytest.mark.parametrize("system", ["teacher", "kd"])
def test_a_timing_that_failed_is_not_measured_and_not_called_one_under_other_conditions(
    tmp_path, system
):
    base = session(tmp_path / "a", 2.0)
    (record,) = speed_records(base)
    failed = {"status": "failed", "seconds": []}
    timings = [t.model_copy(update=failed) if t.system == system else t for t in record.timings]
    write_speed(tmp_path / "c", record.model_copy(update={"timings": timings}))
    (finding,) = check(base, tmp_path / "c")
    assert finding.verdict == MISSING
    assert "failed" in finding.why


def test_the_worst_verdict_counts():
    assert [verdict(d, 1.0, 2.0) for d in (-3.0, -1.5, 0.0, 3.0)] == [
        REGRESSED,
        REGRESSED,
        PASSED,
        PASSED,
    ]
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
    first, second, _ = rng.multinomial(
        examples, [(disagreement - gap) / 2, (disagreement + gap) / 2, 1 - disagreement]
    )
    labels, new, old = np.zeros((3, examples), int)
    old[:first], new[first : first + second] = 1, 1  # 1 is wrong
    difference = 100 * (first - second) / examples
    half, p = chance([new], [old], labels, "accuracy", difference)
    return verdict(difference, half, GateLimits().points, p <= GateLimits().level)


@pytest.mark.slow
def test_the_gate_neither_cries_wolf_nor_sleeps():
    """200 runs without a change, 50 with a loss of 7 points, 200 with 5: on 408 examples, 10 % disagreement."""
    rng = np.random.default_rng(0)
    assert [replay(rng, 0.0) for _ in range(200)].count(REGRESSED) <= 1
    assert [replay(rng, 0.07) for _ in range(50)].count(REGRESSED) >= 45
    assert PASSED not in [replay(rng, 0.05) for _ in range(200)]


def test_a_budget_is_a_metric_and_points():
    assert budgets_of(["matthews=5", "f1=1.5", "macro_f1=3"]) == {
        "matthews": 5.0,
        "f1": 1.5,
        "macro_f1": 3.0,
    }
    for wrong in ("accurracy=2", "f1", "f1=x", "f1=-1"):
        with pytest.raises(InputError):
            budgets_of([wrong])


def test_a_regression_that_was_looked_at_is_accepted_and_a_stale_acceptance_is_said(
    bench, base, tmp_path
):
    worse, file = store(tmp_path / "b", SEEDS, 10, 0.2), tmp_path / "accepted.toml"
    file.write_text(
        f'[[accepted]]\nrow = "rte kd"\nwhat = "{SCORE}"\nreason = "another tokenizer, issue 12"\n'
    )
    answer = bench("check", "--baseline", base, "--results", worse, "--accept", file)
    assert answer.returncode == 0
    assert "accepted: another tokenizer, issue 12" in answer.stdout
    assert bench("check", "--baseline", base, "--results", base, "--accept", file).returncode == 3
    file.write_text(f'[[accepted]]\nrow = "kd rte"\nwhat = "{SCORE}"\nreason = "turned round"\n')
    answer = bench("check", "--baseline", base, "--results", worse, "--accept", file)
    assert answer.returncode == 1
    assert "kd rte, validation accuracy was not compared" in answer.stdout
    file.write_text('[[accepted]]\nrow = "rte kd"\n')
    for wrong in (file, tmp_path / "none.toml"):
        assert (
            bench("check", "--baseline", base, "--results", base, "--accept", wrong).returncode == 2
        )


def test_an_acceptance_holds_for_what_was_compared():
    known = [Acceptance(row="cola kd", what="validation matthews", reason="issue 12")]
    for place, ended in (
        (("rte kd", SCORE), PASSED),
        (("cola kd", "row"), MISSING),
        (("cola kd", known[0].what), OTHER),
    ):
        findings = [GateResult(*place, ended, "")]
        assert accept(findings, known) == findings
    findings = [GateResult("cola kd", "validation matthews", PASSED, "")]
    # a row that has a score did not fail, and its losses are no others any more
    for what in ("row", "losses"):
        gone = [Acceptance(row="cola kd", what=what, reason="issue 12")]
        *same, stale = accept(findings, gone)
        assert same == findings
        assert stale.verdict == UNCLEAR
        assert not unmet(findings, gone)


def test_seed_interval_is_students():
    assert seed_half_width([80.0], 3) is None
    # t of 2 degrees of freedom 4.303; sd 1; two means of three
    assert seed_half_width([79.0, 80.0, 81.0], 3) == pytest.approx(4.303 * np.sqrt(2 / 3), rel=1e-3)
    assert seed_half_width([79.0, 80.0, 81.0], 1) == pytest.approx(4.303 * np.sqrt(2), rel=1e-3), (
        "of one seed before and after"
    )


def test_a_seed_that_is_not_there_does_not_pass(base, tmp_path):
    new = store(tmp_path / "one", {0: SEEDS[0]})
    assert overall(check(base, new, seeds=[0])) == PASSED
    for options in ({}, {"seeds": [0, 1, 2]}):
        findings = check(base, new, **options)
        assert overall(findings) == MISSING
        assert ["no record of seed 1, 2" in f.why for f in findings if f.verdict == MISSING] == [
            True
        ]
    findings = check(base, base, seeds=[0, 9])
    assert ["no record of seed 9" in f.why for f in findings if f.verdict == MISSING] == [True]


def test_a_damaged_record_does_not_pass_on_either_side(base, tmp_path):
    """Planted: a file of three seeds' answers is cut short. The summary says what is wrong."""
    sound = shutil.copytree(base, tmp_path / "sound")
    answers = next(base.rglob("*.npz"))
    answers.write_bytes(answers.read_bytes()[:100])
    for baseline, results in ((base, sound), (sound, base)):
        findings = check(baseline, results)
        assert overall(findings) == MISSING
        assert "answers" in summary(findings)
    assert overall(check(base, sound, rows=["kd"], tasks=["rte"])) == MISSING


def test_the_teachers_damage_counts_whatever_is_named_and_a_lost_pointer_does_not(base):
    Store(base).write(*with_predictions(factories.record("teacher", "rte", 0), 0.9, 0, "w"))
    next(base.glob("*/rte/kd/*/current")).write_text("nonsense")
    assert overall(check(base, base)) == PASSED
    next(base.glob("*/rte/teacher/*/attempt-1.json")).write_text("{")
    assert overall(check(base, base, rows=["kd"], tasks=["rte"])) == MISSING


def test_ratio_interval_by_order_statistics():
    """30 rounds: the 10th smallest and largest, by the table for a median (Conover)."""
    of_rounds = ratio([float(i) for i in range(1, 31)], [1.0] * 30)
    assert (of_rounds.median, of_rounds.low, of_rounds.high) == (15.5, 10.0, 21.0)
    assert ratio([1.0, 2.0, 3.0, 4.0, 5.0, 6.0], [1.0] * 6).low == 1.0
    assert ratio([1.0] * 2000, [1.0] * 2000).low == 1.0


def test_the_gate_does_not_pass_if_a_named_row_was_not_compared(base):
    """The teacher, which is always compared, passed in its place."""
    for row, task in (("teacher", "rte"), ("pkd", "sst2")):
        Store(base).write(*with_predictions(factories.record(row, task, 0), 0.9, 0, "w"))
    findings = check(base, base, tasks=["rte"], rows=["pkd"])
    assert overall(findings) == MISSING
    assert [(f.subject, f.what) for f in findings if f.verdict == MISSING] == [("pkd", "row")]
    assert overall(check(base, base, tasks=["rte"], rows=["kd", "pkd"])) == MISSING
    assert overall(check(base, base, tasks=["rte", "sst2"], rows=["kd", "pkd"])) == PASSED


def test_a_row_may_be_named_with_its_operating_point(tmp_path):
    point = "at speed=0.5"
    for seed in SEEDS:
        record = factories.record("fastbert", "rte", seed)
        record = record.model_copy(update={"point": point, "key": record_key(record.cell, point)})
        Store(tmp_path / "a").write(*with_predictions(record, 0.8, seed, "w"))
    for name in (record.row, "fastbert"):
        assert overall(check(tmp_path / "a", tmp_path / "a", rows=[name])) == PASSED


def test_a_teacher_that_only_other_rows_learned_from_is_not_demanded(tmp_path):
    place, base = tmp_path / "new", tmp_path / "a"
    for name, teacher, roots in (
        ("kd", "a", (base, place)),
        ("teacher", "a", (base, place)),
        ("pkd", "b", (base,)),
        ("teacher", "b", (base,)),
    ):
        record = factories.changed(
            factories.record(name, "rte", 0), teacher={"name": teacher, "key": teacher}
        )
        for root in roots:
            Store(root).write(*with_predictions(record, 0.8, 0, "w"))
    assert overall(check(base, place, rows=["kd"])) == PASSED
    assert PASSED not in {
        overall(check(base, place, rows=["kd", "pkd"])),
        overall(check(base, place)),
    }


def test_a_row_in_8_bits_is_compared_where_it_is_named_and_a_task_or_checkpoint_as_it_is_typed(
    bench, tmp_path
):
    for name, point in (
        ("teacher", ""),
        ("teacher", IN_8_BITS),
        ("kd", ""),
        ("kd", IN_8_BITS),
        ("checkpoint:mine", ""),
    ):
        record = factories.record(name, "rte", 0)
        record = record.model_copy(update={"point": point, "key": record_key(record.cell, point)})
        Store(tmp_path / "a").write(*with_predictions(record, 0.8, 0, "w"))
    base = tmp_path / "a"
    compared = {f.subject for f in check(base, base, rows=["kd"]) if f.what == SCORE}
    assert compared == {"rte kd", "rte teacher"}
    assert "rte kd+int8" in {f.subject for f in check(base, base, rows=["kd+int8"])}
    for words in (
        ("--tasks", "glue"),
        ("--methods", "all"),
        ("--methods", "checkpoint:some/where/mine"),
    ):
        answer = bench("check", "--baseline", base, "--results", base, *words)
        assert answer.returncode == 0, answer.stderr
    assert (
        bench("check", "--baseline", base, "--results", base, "--tasks", "cola,glu").returncode == 2
    )


def test_what_did_not_pass_is_marked_in_a_pull_request_on_one_line_each():
    findings = [
        GateResult("kd", "x", ended, "62.0,\nwas 70.0") for ended in (REGRESSED, PASSED, MISSING)
    ]
    lines = workflow_commands(findings)
    assert [line.split(" ", 1)[0] for line in lines] == ["::error", "::warning"]
    assert all("\n" not in line for line in lines)


def test_other_weights_of_a_checkpoint_are_compared_under_its_name(tmp_path):
    """A gate for a classifier of one's own: the folder keeps its name, and its weights change."""
    for place, right, weights in (("a", 0.8, "w"), ("b", 0.8, "v"), ("c", 0.3, "u")):
        record = factories.record("checkpoint:mine", "rte", 0)
        cell = record.cell.model_copy(update={"settings": {"weights": weights}})
        record = record.model_copy(update={"cell": cell, "key": record_key(cell)})
        Store(tmp_path / place).write(*with_predictions(record, right, 0, weights))
    assert overall(check(tmp_path / "a", tmp_path / "b")) == PASSED
    assert overall(check(tmp_path / "a", tmp_path / "c")) == REGRESSED
