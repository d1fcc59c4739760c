"""Reports say what is significant: differences with verdicts, retention with a margin, other teachers refused."""

from __future__ import annotations

import csv
import re

import factories
import numpy as np
import pytest

from bench.record.store import Store
from bench.report.comparison import BETTER, BORDERLINE, UNCLEAR, not_shown_better, verdict_of
from bench.report.groups import groups
from bench.report.resampled import resample
from bench.report.tables.differences import paired_comparisons
from bench.report.tables.retention import KEEPS, LOSES, retention, retentions
from bench.report.write import write_reports

N = 400
LABELS = np.random.default_rng(0).integers(2, size=N)


def answers(accuracy, seed):
    return np.where(np.random.default_rng(seed).random(N) >= accuracy, 1 - LABELS, LABELS)


def write(store, label, task, accuracy, seed=0, noise=0, ablation_of=None, teacher="t" * 64):
    macs = 10**9 if label == "teacher" else None
    record = factories.record(label, task, seed, macs=macs, ablation_of=ablation_of)
    record = record.model_copy(update={"artefacts": {"teacher": {"key": "k", "weights": teacher}}})
    factories.write(store, record, answers(accuracy, 100 * noise + seed), LABELS)


@pytest.fixture
def store(tmp_path):
    found = Store(tmp_path / "r")
    for number, task in enumerate(("rte", "sst2")):
        write(found, "teacher", task, 0.9, noise=1 + 10 * number)
        for seed in (0, 1, 2):
            write(found, "finetune", task, 0.75, seed, 2 + 10 * number)
            write(found, "kd", task, 0.76, seed, 3 + 10 * number)
            write(found, "microbert", task, 0.91, seed, 4 + 10 * number)
            write(found, "microbert w/o Dis", task, 0.70, seed, 5 + 10 * number, ablation_of="microbert")
    return found


def section(text, title):
    return re.split(r"\n##+ ", re.split(rf"\n##+ {re.escape(title)}\n", text)[1])[0]


def lines_of(text, title):
    return {line.split("|")[1].strip(): line for line in section(text, title).splitlines() if "|" in line}


@pytest.mark.slow
def test_differences_end_in_a_verdict_next_to_their_reference(store, tmp_path):
    write(store, "microbert:gamma=2", "rte", 0.70, 0, 6)
    (path,) = write_reports(store, tmp_path / "p")
    systems = lines_of(path.read_text(), "Systems compared with finetune")
    assert systems["microbert"].count("better") == 3, "two columns and their mean"
    assert systems["kd"].count("not significant") == 3
    assert {systems[row].split("|")[2].strip() for row in ("kd", "microbert")} == {"finetune"}
    assert "min. detectable" in systems
    assert not {"finetune", "microbert w/o Dis", "microbert:gamma=2"} & set(systems)
    variants = lines_of(path.read_text(), "Variants and ablations compared with their own row")
    assert variants["microbert w/o Dis"].count("worse") == 3
    assert variants["microbert:gamma=2"].count("worse") == 1
    assert {variants[row].split("|")[2].strip() for row in ("microbert w/o Dis", "microbert:gamma=2")} == {"microbert"}


@pytest.mark.slow
def test_no_verdict_depends_on_what_else_lies_in_the_folder(store):
    def verdicts():
        (group,) = groups(store.records())
        tables = paired_comparisons(group, resample(group, store))
        lines = {line.label: line for table in tables for line in table.lines if line.row != ""}
        return {label: [(c.value, c.p, c.verdict) for c in line.cells] for label, line in lines.items()}

    before = verdicts()
    for number in range(12):
        for place, task in enumerate(("rte", "sst2")):
            write(store, f"tinybert:gamma={number}", task, 0.75, 0, 20 + 2 * number + place)
    write(store, "pkd", "rte", 0.76, 0, 6)
    after = verdicts()
    assert len(after) == len(before) + 13
    assert {label: after[label] for label in before} == before


@pytest.mark.parametrize(("p", "tests"), [(0.05, 1), (0.0125, 4), (0.046, 1), (0.054, 1)])
def test_a_verdict_near_the_limit_is_borderline(p, tests):
    assert verdict_of(1.0, p, tests * p) == BORDERLINE
    assert verdict_of(1.0, p, tests * p, is_drawn=False) in (BETTER, UNCLEAR), "an exact test has no error"


@pytest.mark.parametrize(("p", "verdict"), [(0.03, BETTER), (0.0001, BETTER), (0.08, UNCLEAR), (1.0, UNCLEAR)])
def test_a_verdict_that_other_resamples_would_not_change(p, verdict):
    assert verdict_of(1.0, p, p) == verdict


@pytest.mark.slow
def test_keeping_the_teacher_is_tested_against_a_margin(store, tmp_path):
    (path,) = write_reports(store, tmp_path / "p")
    lines = lines_of(path.read_text(), "Retention with intervals")
    assert lines["finetune"].count(LOSES) == 2
    assert KEEPS not in lines["finetune"]
    assert LOSES not in lines["microbert"]
    assert "mean of ratios" in section(path.read_text(), "Retention with intervals")


@pytest.mark.parametrize(
    ("low", "high", "verdict"), [(0.98, 1.0, KEEPS), (0.90, 0.96, LOSES), (0.95, 0.99, "inconclusive")]
)
def test_the_margin_decides_by_the_interval(low, high, verdict):
    samples = np.linspace(low, high, 1001)
    assert retention([0.8], 0.8, samples).verdict == verdict


@pytest.mark.slow
def test_a_student_of_another_teacher_is_refused_with_both_hashes(store, tmp_path):
    write(store, "tinybert", "rte", 0.9, noise=9, teacher="a" * 64)
    (path,) = write_reports(store, tmp_path / "p")
    text = path.read_text()
    assert "refused" in section(text, "Retention with intervals")
    assert "trained from another teacher (aaaaaaaaaaaa and tttttttttttt)" in text


@pytest.mark.slow
def test_a_student_of_another_training_of_the_teacher_is_compared_with_that_training(store, tmp_path):
    """A machine with other vector instructions trains the same teacher to other last digits."""
    write(store, "tinybert", "rte", 0.9, noise=9, teacher="a" * 64)
    shown = next(r for r in store.records() if r.cell.method == "teacher" and "rte" in r.cell.tasks)
    pointer = store.folder(shown.cell) / "current"
    before = pointer.read_text()
    write(store, "teacher", "rte", 0.7, noise=11, teacher="a" * 64)
    pointer.write_text(before)  # it is there, and another one counts
    (path,) = write_reports(store, tmp_path / "p")
    kept = lines_of(path.read_text(), "Retention with intervals")
    assert "refused" not in kept["tinybert"]
    own = answers(0.9, 900) == LABELS, answers(0.7, 1100) == LABELS
    assert f"{100 * own[0].mean() / own[1].mean():.1f} %" in kept["tinybert"]
    (pointer.parent / "attempt-2.npz").unlink()
    (path,) = write_reports(store, tmp_path / "q")
    assert "refused" in lines_of(path.read_text(), "Retention with intervals")["tinybert"]


@pytest.mark.slow
def test_a_retention_that_two_seeds_do_not_tell_stays_within_what_is_possible(store, tmp_path):
    """23.6 % (-81.0 to 125.0): below no score, above more than all of it."""
    for seed, right in ((0, 0.55), (1, 0.95)):
        write(store, "pkd", "rte", right, seed, 8)
        write(store, "pkd", "sst2", right, seed, 9)
    (path,) = write_reports(store, tmp_path / "p")
    row = lines_of(path.read_text(), "Retention with intervals")["pkd"]
    ends = [tuple(map(float, pair)) for pair in re.findall(r"\((-?[\d.]+) to (-?[\d.]+)\) inconclusive", row)]
    assert len(ends) == 2
    assert all(low >= 0 and high < 100 / 0.85 for low, high in ends), "the teacher is right in 90 %"
    differences = lines_of(path.read_text(), "Systems compared with finetune")["pkd"]
    ends = [tuple(map(float, pair)) for pair in re.findall(r"\((\S+) to (\S+)\)", differences)]
    assert len(ends) == 3
    assert all(-100 <= low < high <= 100 for low, high in ends)


def test_a_mean_of_ratios_leaves_out_resamples_in_which_the_teacher_has_no_score_anywhere(tmp_path):
    """Two correlations a little above 0: both are below 0 in some resamples."""
    store, rng, values = Store(tmp_path), np.random.default_rng(2), np.linspace(0, 1, N, dtype=np.float32)
    for label, right in (("teacher", 0.52), ("kd", 0.7)):
        scores = (right - 0.5) * values + rng.normal(0, 0.2, N)
        for task, logits, labels in (
            ("cola", np.eye(2)[answers(right, 12)], LABELS),
            ("stsb", scores[:, None].astype(np.float32), values),
        ):
            record = factories.record(label, task, macs=10**9 if label == "teacher" else None)
            arrays = {"logits.validation": logits, "labels.validation": labels}
            store.write(*factories.consistent(record, arrays))
    (group,) = groups(store.records())
    assert all(0 < score < 10 for column in group.columns for score in group.values("teacher", column).values())
    (line,) = retentions(group, resample(group, store)).lines
    mean = line.cells[-2]
    assert mean.low < mean.value < mean.high


@pytest.mark.slow
def test_a_teacher_of_one_answer_makes_no_ratio(store, tmp_path):
    """finetune kept 150 % of such a teacher."""
    teacher = next(r for r in store.records() if r.row == "teacher" and r.cell.tasks == ("rte",))
    factories.write(store, teacher, np.ones(N, int), LABELS)
    (path,) = write_reports(store, tmp_path / "p")
    text = path.read_text()
    mark = int(text.split("] rte (acc): the answers of the teacher are suspect")[0].rsplit("[", 1)[1])
    row = lines_of(text, "Retention with intervals")["finetune"]
    assert row.split("|")[3].strip() == f"– [{mark}]"
    assert "%" in row.split("|")[2], "sst2"
    with (path.parent / "tables" / "reappearance.csv").open() as file:
        ratios = next(line for line in csv.DictReader(file) if line["System"] == "finetune, % of teacher")
    assert float(ratios["sst2 (acc)"]) > 0
    assert ratios["rte (acc)"] == ""


def test_records_without_predictions_make_no_verdicts(tmp_path):
    store = Store(tmp_path / "r")
    for record in factories.paper():
        store.write(record)
    for path in write_reports(store, tmp_path / "p"):
        assert "Paired comparisons" not in path.read_text()


@pytest.mark.slow
def test_the_margin_is_an_option(bench, store, tmp_path):
    for kept, said in ((97, LOSES), (60, KEEPS)):
        answer = bench("report", "--results", store.root, "--reports", tmp_path / str(kept), "--kept", kept)
        assert answer.returncode == 0, answer.stderr
        (path,) = (tmp_path / str(kept)).glob("*/*/README.md")
        line = next(x for x in section(path.read_text(), "Retention with intervals").splitlines() if "finetune" in x)
        assert line.count(said) == 2
    assert bench("report", "--results", store.root, "--kept", 0).returncode == 2


def test_a_column_in_which_the_teacher_may_be_at_chance_is_in_no_mean(store, tmp_path):
    """It is printed and tested all the same; and where every column is so, all are in the mean."""
    for seed in (0, 1, 2):
        write(store, "finetune", "mrpc", 0.5, seed, 42)
        write(store, "kd", "mrpc", 0.75, seed, 43)
    write(store, "teacher", "mrpc", 0.52, noise=41)
    (group,) = groups(store.records())
    group.baselines = dict.fromkeys(group.columns, 51.0)
    answers = resample(group, store)
    left_out = not_shown_better(group, answers)
    assert [column.task for column in left_out] == ["mrpc"]
    group.left_out_of_means = left_out
    two = np.mean([group.summaries["kd", column].mean for column in group.columns if column.task != "mrpc"])
    assert group.mean_scores["kd"] == pytest.approx(two)
    assert set(group.mean_scores) == set(group.systems), "a row that lacks this column alone has a mean"
    table = next(iter(paired_comparisons(group, answers)))
    (line,) = (line for line in table.lines if line.label == "kd")
    assert [cell.value for cell in line.cells][1] == 3
    differences = [cell.value for cell in line.cells[2:-1]]
    assert line.cells[-1].value == pytest.approx(sum(differences[i] for i in (0, 2)) / 2)
    group.baselines = dict.fromkeys(group.columns, 99.0)
    assert not_shown_better(group, answers) == []
