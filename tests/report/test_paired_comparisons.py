"""Reports say what is significant: differences with verdicts, retention with a margin, other teachers refused."""

from __future__ import annotations

import re
from collections import Counter

import factories
import numpy as np
import pytest
from studied import studied

from bench.analysis.choose import choose
from bench.analysis.compare import compare
from bench.record.store import Store
from bench.report.means import columns_of_noise
from bench.report.paired_rows import BETTER, BORDERLINE, NOT_SIGNIFICANT, TOO_FEW_SEEDS, verdict_of
from bench.report.retained_scores import KEEPS, LOSES, REFUSED, retention
from bench.report.tables.differences import EACH_OTHER, systems_compared, variants_compared
from bench.report.tables.registry import tables_of
from bench.report.tables.retention import retentions
from bench.report.write import write_groups
from bench.stats.distribution import Distribution

N = 400
LABELS = np.random.default_rng(0).integers(2, size=N)


def test_a_csv_file_of_comparisons_has_their_number_of_seeds(answered_store):
    tables = tables_of(studied(answered_store))
    (compared,) = [own for own in tables if own.file == "paired comparisons"]
    lines = [dict(zip(compared.values_header, row, strict=True)) for row in compared.values]
    places = [name for name in compared.values_header if name.endswith(" n")]
    assert len(places) == 3, "two columns and their mean"
    for line in lines[:-1]:
        assert [line[place] for place in places] == ["3", "3", "3"]
    assert [lines[-1][place] for place in places] == ["", "", ""], "min. detectable"


def answers(accuracy, seed):
    return np.where(np.random.default_rng(seed).random(N) >= accuracy, 1 - LABELS, LABELS)


def write(store, label, task, accuracy, seed=0, noise=0, ablation_of=None, teacher="t" * 64):
    macs = 10**9 if label == "teacher" else None
    record = factories.record(label, task, seed, macs=macs, ablation_of=ablation_of)
    record = record.model_copy(update={"artefacts": {"teacher": {"key": "k", "weights": teacher}}})
    factories.write(store, record, answers(accuracy, 100 * noise + seed), LABELS)


def base_store(folder):
    found = Store(folder)
    for number, task in enumerate(("rte", "sst2")):
        write(found, "teacher", task, 0.9, noise=1 + 10 * number)
        for seed in (0, 1, 2):
            write(found, "finetune", task, 0.75, seed, 2 + 10 * number)
            write(found, "kd", task, 0.76, seed, 3 + 10 * number)
            write(found, "microbert", task, 0.91, seed, 4 + 10 * number)
            write(
                found,
                "microbert w/o Dis",
                task,
                0.70,
                seed,
                5 + 10 * number,
                ablation_of="microbert",
            )
    return found


@pytest.fixture
def store(tmp_path):
    return base_store(tmp_path / "r")


def retained(store):
    """The lines of the table of retention, by their rows."""
    return {line.label: line for line in retentions(studied(store)).lines}


@pytest.fixture(scope="module")
def tables(tmp_path_factory):
    """Title -> row -> the cells of its line; with a variant, a row of another teacher and one of seeds far apart."""
    store = base_store(tmp_path_factory.mktemp("whole"))
    write(store, "microbert:gamma=2", "rte", 0.70, 0, 6)
    write(store, "tinybert", "rte", 0.9, noise=9, teacher="a" * 64)
    for seed, right in ((0, 0.55), (1, 0.95)):
        write(store, "pkd", "rte", right, seed, 8)
        write(store, "pkd", "sst2", right, seed, 9)
    made = tables_of(studied(store))
    return {table.title: {line.label: line.cells for line in table.lines} for table in made}


def test_differences_end_in_a_verdict_next_to_their_reference(tables):
    systems = tables["Systems compared with finetune"]
    assert set(systems) == {"kd", "microbert", "pkd", "tinybert", "min. detectable"}
    variants = tables["Variants and ablations compared with their own row"]
    assert set(variants) >= {"microbert w/o Dis", "microbert:gamma=2"}
    for lines, row, reference, verdict, tests in (
        (systems, "microbert", "finetune", "better", 3),  # two columns and their mean
        (systems, "kd", "finetune", "not significant", 3),
        (variants, "microbert w/o Dis", "microbert", "worse", 3),
        (variants, "microbert:gamma=2", "microbert", "worse", 1),
    ):
        assert lines[row][0].text == reference
        assert Counter(cell.verdict for cell in lines[row])[verdict] == tests


def test_a_row_of_two_kinds_of_results_has_no_verdict(tables):
    """pkd has seeds of 55 and 95 %: on both columns and on the mean of them."""
    cells = tables["Systems compared with finetune"]["pkd"]
    assert [cell.verdict for cell in cells[2:]] == [TOO_FEW_SEEDS] * 3
    assert all(cell.text.endswith(TOO_FEW_SEEDS) and cell.p is not None for cell in cells[2:])
    board = tables["Leaderboard"]["pkd"]
    assert board[2].text.endswith("?")
    kept = tables["Retention"].get("pkd", ())
    assert TOO_FEW_SEEDS in {cell.verdict for cell in kept}


@pytest.mark.slow
def test_no_verdict_depends_on_what_else_lies_in_the_folder(store):
    def verdicts():
        group = studied(store)
        tables = (systems_compared(group), variants_compared(group))
        lines = {line.label: line for table in tables for line in table.lines if line.row != ""}
        return {
            label: [(c.value, c.p, c.verdict) for c in line.cells] for label, line in lines.items()
        }

    before = verdicts()
    for number in range(4):
        for place, task in enumerate(("rte", "sst2")):
            write(store, f"tinybert:gamma={number}", task, 0.75, 0, 20 + 2 * number + place)
    write(store, "pkd", "rte", 0.76, 0, 6)
    after = verdicts()
    assert len(after) == len(before) + 5
    assert {label: after[label] for label in before} == before


@pytest.mark.parametrize(
    ("p", "tests", "verdict"),
    [
        *((p, tests, BORDERLINE) for p, tests in ((0.05, 1), (0.0125, 4), (0.046, 1), (0.054, 1))),
        (0.03, 1, BETTER),
        (0.0001, 1, BETTER),
        (0.08, 1, NOT_SIGNIFICANT),
        (1.0, 1, NOT_SIGNIFICANT),
    ],
)
def test_a_verdict_that_other_draws_would_change_is_borderline(p, tests, verdict):
    assert verdict_of(1.0, p, tests * p, error=0.0025) == verdict
    exact = NOT_SIGNIFICANT if tests * p > 0.05 else BETTER
    assert verdict_of(1.0, p, tests * p) == exact, "an exact test has no error"


def test_keeping_the_teacher_is_tested_against_a_margin(tables):
    lines = tables["Retention"]
    assert [cell.verdict for cell in lines["finetune"]] == [LOSES, LOSES, ""]
    assert LOSES not in [cell.verdict for cell in lines["microbert"]]


@pytest.mark.parametrize(
    ("low", "high", "verdict"),
    [(0.98, 1.0, KEEPS), (0.90, 0.96, LOSES), (0.95, 0.99, "inconclusive")],
)
def test_the_margin_decides_by_the_interval(low, high, verdict):
    drawn = Distribution(np.linspace(low, high, 1001))
    assert retention(1.0, drawn).verdict == verdict


def test_a_student_of_another_teacher_is_refused_with_both_hashes(tables):
    (refused,) = (cell for cell in tables["Retention"]["tinybert"] if cell.text == REFUSED)
    assert "trained from another teacher (aaaaaaaaaaaa and tttttttttttt)" in refused.footnotes[0]


@pytest.mark.slow
def test_a_student_of_another_training_of_the_teacher_is_compared_with_that_training(store):
    """A machine with other vector instructions trains the same teacher to other last digits."""
    write(store, "tinybert", "rte", 0.9, noise=9, teacher="a" * 64)
    shown = next(r for r in store.records() if r.cell.method == "teacher" and "rte" in r.cell.tasks)
    pointer = store.folder(shown.cell) / "current"
    before = pointer.read_text()
    write(store, "teacher", "rte", 0.7, noise=11, teacher="a" * 64)
    pointer.write_text(before)  # it is there, and another one counts
    own = answers(0.9, 900) == LABELS, answers(0.7, 1100) == LABELS
    ratios = [cell.value for cell in retained(store)["tinybert"].cells if cell.value is not None]
    assert ratios == [pytest.approx(100 * own[0].mean() / own[1].mean())]
    (pointer.parent / "attempt-2.npz").unlink()
    assert REFUSED in [cell.text for cell in retained(store)["tinybert"].cells]


def test_a_retention_that_two_seeds_do_not_tell_stays_within_what_is_possible(tables):
    """23.6 % (-81.0 to 125.0): below no score, above more than all of it."""
    kept = [cell for cell in tables["Retention"]["pkd"] if cell.verdict]
    assert [cell.verdict for cell in kept] == [TOO_FEW_SEEDS] * 2
    assert all(cell.low >= 0 and cell.high < 100 / 0.85 for cell in kept), (
        "the teacher is right in 90 %"
    )
    differences = [
        cell for cell in tables["Systems compared with finetune"]["pkd"] if cell.low is not None
    ]
    assert len(differences) == 3
    assert all(-100 <= cell.low < cell.high <= 100 for cell in differences)


def test_a_mean_of_ratios_leaves_out_resamples_in_which_the_teacher_has_no_score_anywhere(tmp_path):
    """Two correlations a little above 0: both are below 0 in some resamples."""
    store, rng, values = (
        Store(tmp_path),
        np.random.default_rng(2),
        np.linspace(0, 1, N, dtype=np.float32),
    )
    for label, right in (("teacher", 0.52), ("kd", 0.7)):
        scores = (right - 0.5) * values + rng.normal(0, 0.2, N)
        for task, logits, labels in (
            ("cola", np.eye(2)[answers(right, 12)], LABELS),
            ("stsb", scores[:, None].astype(np.float32), values),
        ):
            record = factories.record(label, task, macs=10**9 if label == "teacher" else None)
            arrays = {"logits.validation": logits, "labels.validation": labels}
            store.write(*factories.consistent(record, arrays))
    group = studied(store)
    assert all(
        0 < score < 10
        for column in group.columns
        for score in group.values("teacher", column).values()
    )
    (line,) = retentions(group).lines
    mean = line.cells[-1]
    assert mean.low < mean.value < mean.high


@pytest.mark.slow
def test_a_teacher_of_one_answer_makes_no_ratio(store):
    """finetune kept 150 % of such a teacher."""
    teacher = next(r for r in store.records() if r.row == "teacher" and r.cell.tasks == ("rte",))
    factories.write(store, teacher, np.ones(N, int), LABELS)
    group = studied(store)
    assert [column.task for column in group.columns] == ["sst2", "rte"]
    lines = retentions(group).lines
    sst2, rte, *_ = next(line.cells for line in lines if line.label == "finetune")
    assert sst2.value > 0
    assert (rte.value, rte.text) == (None, "–")
    assert "rte (acc): the answers of the teacher are suspect" in rte.footnotes[0]


def test_nobody_keeps_a_teacher_that_is_no_better_than_one_answer_and_one_answer_keeps_nothing(
    tmp_path,
):
    """A constant student kept 99.6 % of such a teacher. On sst2 the teacher is good, and one answer is half of it."""
    store = Store(tmp_path)
    for task, teacher in (("rte", 0.62), ("sst2", 0.95)):
        write(store, "teacher", task, teacher)
        for seed in (0, 1):
            write(store, "kd", task, 0.99, seed, noise=1)
            record = factories.record("constant", task, seed)
            record = record.model_copy(
                update={"artefacts": {"teacher": {"key": "k", "weights": "t" * 64}}}
            )
            factories.write(store, record, np.ones(N, int), LABELS)
    group = studied(store)
    lines = {line.label: line.cells for line in retentions(group).lines}
    places = {column.task: place for place, column in enumerate(group.columns)}
    assert lines["kd"][places["sst2"]].verdict == KEEPS
    assert lines["constant"][places["sst2"]].verdict == LOSES
    for row in ("kd", "constant"):
        cell = lines[row][places["rte"]]
        assert (cell.verdict, cell.text[-1]) == ("", ")"), row
        assert cell.value


def test_a_student_that_costs_as_much_as_its_teacher_claims_nothing(store):
    """One whose sequences leave early is judged by what they cost."""
    for label, expected in (("wide", None), ("early", 4 * 10**8)):
        record = factories.record(label, "rte", macs=2 * 10**9)
        sizes = record.sizes.model_copy(update={"expected_macs": expected})
        teacher = {"teacher": {"key": "k", "weights": "t" * 64}}
        factories.write(
            store,
            record.model_copy(update={"sizes": sizes, "artefacts": teacher}),
            answers(0.8, 1),
            LABELS,
        )
    lines = retained(store)
    assert "wide" not in lines
    assert lines["early"].cells[1].value == pytest.approx(100 * 0.8 / 0.9, abs=5)


def test_records_without_predictions_make_no_verdicts(paper_store):
    made = tables_of(studied(paper_store))
    assert {table.section for table in made} >= {"Results", "Cost and size"}
    assert "Paired comparisons" not in {table.section for table in made}


@pytest.mark.slow
def test_the_margin_is_an_option(bench, store, tmp_path):
    """Of 97 % finetune loses."""
    answer = bench("report", "--results", store.root, "--reports", tmp_path / "p", "--kept", 60)
    assert answer.returncode == 0, answer.stderr
    (path,) = (tmp_path / "p").glob("*/*/README.md")
    section = re.split(
        r"\n##+ ", path.read_text().split("## Retention (reappearance percent)\n")[1]
    )[0]
    assert next(line for line in section.splitlines() if "finetune" in line).count(KEEPS) == 2
    assert bench("report", "--results", store.root, "--kept", 0).returncode == 2


def test_a_column_in_which_the_teacher_may_be_at_chance_is_in_no_mean(store, tmp_path):
    """It is printed and tested all the same; and where every column is so, all are in the mean."""
    for seed in (0, 1, 2):
        write(store, "finetune", "mrpc", 0.5, seed, 42)
        write(store, "kd", "mrpc", 0.75, seed, 43)
    write(store, "teacher", "mrpc", 0.52, noise=41)
    group = studied(store)
    constant = dict.fromkeys(group.columns, 51.0)
    assert columns_of_noise(group, group.answers, constant) == group.noise
    assert [column.task for column in group.left_out_of_means] == ["mrpc"]
    two = np.mean(
        [group.summaries["kd", column].mean for column in group.columns if column.task != "mrpc"]
    )
    assert group.mean_scores["kd"] == pytest.approx(two)
    assert set(group.mean_scores) == set(group.systems), (
        "a row that lacks this column alone has a mean"
    )
    table = systems_compared(group)
    (line,) = (line for line in table.lines if line.label == "kd")
    assert [cell.value for cell in line.cells][1] == 3
    differences = [cell.value for cell in line.cells[2:-1]]
    assert line.cells[-1].value == pytest.approx(sum(differences[i] for i in (0, 2)) / 2)
    constant = dict.fromkeys(group.columns, 99.0)
    assert columns_of_noise(group, group.answers, constant) == []


def test_accuracy_retention_and_ablations_stand_together_in_this_order(store, tmp_path):
    """What a paper prints of its methods is not looked for in three places."""
    ((path, _),) = write_groups(store, tmp_path / "p")
    heads = [line[3:] for line in path.read_text().splitlines() if line.startswith("## ")]
    place = heads.index("Results")
    wanted = ["Results", "Retention (reappearance percent)", "Variants and ablations"]
    assert heads[place : place + 3] == wanted
    assert heads[place + 3] == "Paired comparisons"


def test_retention_is_one_number_in_a_report_and_in_choose(store):
    """The mean of the columns' shares of the teacher's score, with one interval."""
    kept = {line.label: line.cells[-1] for line in retentions(studied(store)).lines}
    (choice,) = choose(store.root, {})
    known = {row.label: row for row in choice.candidates}
    for label in ("kd", "microbert"):
        row = known[label]
        assert row.retained == pytest.approx(kept[label].value)
        ends = (kept[label].low, kept[label].high)
        assert (row.retained_low, row.retained_high) == pytest.approx(ends)


def each_other(store, order=()):
    """Pairs of the table of systems that were asked for together -> its cells; None without a table."""
    tables = tables_of(studied(store, order=order))
    found = [table for table in tables if table.file == EACH_OTHER]
    if not found:
        return None
    lines = [line for line in found[0].lines if line.row != ""]
    return {(line.label, line.cells[0].plain): line.cells for line in lines}


@pytest.mark.slow
def test_two_systems_that_were_typed_together_are_compared_with_each_other(store):
    """Besides the differences to the baseline; with the numbers that ``compare`` has."""
    pairs = each_other(store, ["microbert", "kd"])
    assert list(pairs) == [("microbert", "kd")]
    (lines,) = compare(store.root, "microbert", "kd").values()
    sst2, rte, mean = pairs["microbert", "kd"][2:]
    for cell, line in zip((rte, sst2, mean), lines, strict=True):
        assert cell.value == pytest.approx(line.difference)
        assert (cell.low, cell.high) == pytest.approx((line.low, line.high))
        assert cell.verdict == line.verdict
    # the other way round as it was typed
    assert list(each_other(store, ["kd", "microbert"])) == [("kd", "microbert")]
    # the baseline stands in the other table, and an ablation with its full row
    assert list(each_other(store, ["finetune", "kd", "microbert"])) == [("kd", "microbert")]
    assert each_other(store, ["finetune", "kd"]) is None


@pytest.mark.slow
def test_of_many_systems_the_one_of_the_highest_mean_is_compared_with_the_others(store):
    assert list(each_other(store)) == [("microbert", "kd")], "few enough without an order"
    for number, row in enumerate(("pkd", "minilm"), start=60):
        for task in ("rte", "sst2"):
            for seed in (0, 1, 2):
                write(store, row, task, 0.8, seed, number)
    assert each_other(store) is None, "nobody asked for one of them"
    asked = ["kd", "pkd", "microbert"]
    assert list(each_other(store, asked)) == [
        ("kd", "pkd"),
        ("kd", "microbert"),
        ("pkd", "microbert"),
    ]
    assert list(each_other(store, [*asked, "minilm"])) == [
        ("microbert", row) for row in ("kd", "pkd", "minilm")
    ]
