"""Two rows on the same examples: the interval covers, the verdict follows it, and unlike things are refused."""

from __future__ import annotations

import json
import re
import shutil

import factories
import numpy as np
import pytest
from differences_drawn import bootstrap

from bench import api
from bench.analysis.choice_in_words import in_words
from bench.analysis.choose import choose
from bench.analysis.compare import compare
from bench.analysis.compare_in_words import table
from bench.analysis.trace import trace
from bench.errors import InputError
from bench.record.cell import Cell, Search, Trial, record_key, train_key
from bench.record.named_rows import row_named
from bench.record.store import Store
from bench.report.file_names import place_of
from bench.report.paired_rows import BETTER, NOT_SIGNIFICANT, TOO_FEW_SEEDS
from bench.report.pictures import plotted_differences
from bench.report.score_column import ONE_SEED
from bench.report.studies import studies
from bench.report.tables.differences import systems_compared
from bench.report.tables.leaderboard import leaderboard, summary
from bench.report.write import write_groups

LABELS = np.random.default_rng(0).integers(2, size=300)


def wrong(share, seed):
    """Answers that are wrong on this share of the examples, drawn with this seed."""
    return np.where(np.random.default_rng(seed).random(300) < share, 1 - LABELS, LABELS)


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    store = Store(tmp_path_factory.mktemp("written"))
    for seed in (0, 1, 2):
        for noise, (row, share) in enumerate(
            {"kd": 0.30, "microbert": 0.10, "tinybert": 0.11}.items(), start=1
        ):
            for task in ("rte", "sst2"):
                factories.write(
                    store,
                    factories.record(row, task, seed),
                    wrong(share, 17 * seed + noise),
                    LABELS,
                )
    return store


@pytest.fixture
def store(written, tmp_path):
    return Store(shutil.copytree(written.root, tmp_path / "r"))


@pytest.fixture
def taught(store):
    """A teacher that is right on rte and sst2, and no better than one class on mrpc, where its students are too."""
    coin = np.random.default_rng(5).integers(2, size=300)
    for task, answers in (("rte", wrong(0.05, 99)), ("sst2", wrong(0.05, 98)), ("mrpc", coin)):
        factories.write(store, factories.record("teacher", task), answers, LABELS)
    for seed in (0, 1, 2):
        for row in ("kd", "microbert"):
            factories.write(
                store,
                factories.record(row, "mrpc", seed),
                wrong(0.5, [seed, *row.encode()]),
                LABELS,
            )
    return store


@pytest.mark.slow
def test_a_mean_of_what_nobody_named_leaves_out_what_a_report_leaves_out(taught, capsys):
    (lines,) = compare(taught.root, "microbert", "kd").values()
    assert [line.task for line in lines] == ["mrpc", "rte", "sst2", "mean"]
    mean = lines[-1]
    assert mean.metric == "2 columns"
    assert mean.difference == pytest.approx((lines[1].difference + lines[2].difference) / 2)
    assert "Means leave out mrpc" in capsys.readouterr().err
    ((*_, named),) = compare(taught.root, "microbert", "kd", ["mrpc", "rte"]).values()
    assert named.metric == "2 columns"
    assert named.difference == pytest.approx((lines[0].difference + lines[1].difference) / 2)
    (choice,) = choose(taught.root, {})
    assert [column.task for column in choice.columns] == ["sst2", "rte"]
    scores = {row.label: row.score for row in choice.candidates}
    assert scores["microbert"] - scores["kd"] == pytest.approx(mean.difference)
    assert "Means leave out mrpc" in " ".join(in_words(choice))
    (choice,) = choose(taught.root, {}, ["mrpc", "rte"])
    assert [column.task for column in choice.columns] == ["mrpc", "rte"]


def of_another_teacher(record, name, base):
    """The same row, taught by another one."""
    teacher = record.cell.teacher.model_copy(update={"name": name, "base": base, "key": base})
    cell = record.cell.model_copy(update={"teacher": teacher})
    return record.model_copy(
        update={"cell": cell, "key": record_key(cell), "train_key": train_key(cell)}
    )


@pytest.fixture
def under_two_teachers(store):
    """kd under its teacher, and under another one by which it is better."""
    for seed in (0, 1, 2):
        for task in ("rte", "sst2"):
            record = of_another_teacher(factories.record("kd", task, seed), "org/large", "b" * 64)
            factories.write(store, record, wrong(0.05, 500 + seed), LABELS)
    return store


def test_a_row_is_compared_with_itself_under_another_teacher(under_two_teachers, capsys):
    folder = under_two_teachers.root
    own = factories.record("kd").cell.teacher.name
    with pytest.raises(InputError, match=f"add --teacher .*{own}"):
        compare(folder, "kd", "kd")
    tables = compare(folder, "kd", "kd", ["rte", "sst2"], teachers=("large", own))
    (lines,) = tables.values()
    assert [line.task for line in lines] == ["rte", "sst2", "mean"]
    for line in lines[:2]:
        assert line.first == pytest.approx(95, abs=4), "the students of the other teacher"
        assert line.second == pytest.approx(70, abs=4)
        assert line.names == ("kd, teacher large", f"kd, teacher {own}")
    assert lines[-1].verdict == BETTER
    said = capsys.readouterr().err
    assert "differ in: teacher" in said
    ((turned, *_),) = compare(folder, "kd", "kd", ["rte"], teachers=(own, "b" * 12)).values()
    assert turned.difference == pytest.approx(-lines[0].difference)


def test_another_row_of_another_teacher_and_the_teacher_of_both(under_two_teachers):
    folder = under_two_teachers.root
    own = factories.record("kd").cell.teacher.name
    ((line,),) = compare(folder, "kd", "microbert", ["rte"], teachers=("large", own)).values()
    assert line.names == ("kd, teacher large", f"microbert, teacher {own}")
    ((line,),) = compare(folder, "kd", "microbert", ["rte"], teachers=(own,)).values()
    assert line.first == pytest.approx(70, abs=4)


@pytest.mark.parametrize(
    ("teachers", "said"),
    [
        (("large", "small"), "no teacher of kd in .* is called 'small'"),
        (("large", "large"), "two different rows"),
        (("a", "b", "c"), "the teacher of the first row and that of the second"),
    ],
)
def test_teachers_that_a_row_has_not_are_refused(under_two_teachers, teachers, said):
    with pytest.raises(InputError, match=said):
        compare(under_two_teachers.root, "kd", "kd", teachers=teachers)


def test_two_teachers_of_one_name_are_known_by_their_hashes(under_two_teachers):
    record = of_another_teacher(factories.record("kd", "rte", 0), "org/large", "c" * 64)
    factories.write(under_two_teachers, record, wrong(0.2, 9), LABELS)
    with pytest.raises(InputError, match="bbbbbbbbbbbb, cccccccccccc"):
        compare(under_two_teachers.root, "kd", "kd", teachers=("large", "cccccc"))
    pair = ("cccccc", "bbbbbb")
    ((line,),) = compare(under_two_teachers.root, "kd", "kd", ["rte"], [0], teachers=pair).values()
    assert line.first == pytest.approx(80, abs=6)


def test_a_teacher_has_no_seeds_of_its_own(taught):
    (lines,) = compare(taught.root, "kd", "teacher", ["rte"], seeds=[1, 2]).values()
    assert [(line.seeds, line.second_seeds) for line in lines] == [((1, 2), (0,))]


@pytest.mark.slow
def test_where_one_column_is_no_noise_the_report_shows_its_difference(store, tmp_path, capsys):
    """rte, the last column, is noise: its differences are no verdict on the rows."""
    coin = np.random.default_rng(5).integers(2, size=300)
    for task, answers in (("sst2", wrong(0.05, 98)), ("rte", coin)):
        factories.write(store, factories.record("teacher", task), answers, LABELS)
    for seed in (0, 1, 2):  # on rte the row that is the better one on sst2 is the worse one
        factories.write(store, factories.record("microbert", "rte", seed), wrong(0.6, seed), LABELS)
        factories.write(
            store, factories.record("finetune", "rte", seed), wrong(0.3, 20 + seed), LABELS
        )
        factories.write(
            store, factories.record("finetune", "sst2", seed), wrong(0.3, 30 + seed), LABELS
        )
    ((_, group),) = write_groups(store, tmp_path / "p")
    assert [column.task for column in group.averaged] == ["sst2"]
    ((sst2, *_),) = compare(store.root, "microbert", "finetune", ["sst2"]).values()
    assert [
        line.task for line in next(iter(compare(store.root, "microbert", "finetune").values()))
    ] == ["rte", "sst2"]
    assert "Means leave out rte" in capsys.readouterr().err
    table = leaderboard(group)
    assert "adjusted (Holm) over 2 columns" in " ".join(table.notes)
    (row,) = (line for line in table.lines if line.label == "microbert")
    assert row.cells[2].value == pytest.approx(sst2.difference)
    assert plotted_differences(group)["microbert"].value == pytest.approx(sst2.difference)
    assert any(
        text.startswith("Best: microbert") and f"{sst2.difference:+.1f}" in text
        for text in summary(group)
    )
    # what the noise does to the leader's mean is said beside it
    (whole,) = compare(store.root, "microbert", "finetune", ["rte", "sst2"]).values()
    mean = f"microbert {whole[-1].difference:+.1f} ({whole[-1].low:+.1f} to {whole[-1].high:+.1f})"
    said = f"Mean difference to finetune with rte in: {mean}, without {sst2.difference:+.1f} "
    assert any(text.startswith(said) for text in summary(group))


@pytest.mark.slow
def test_trace_finds_the_mean_that_reports_print_and_its_difference(taught):
    (lines,) = compare(taught.root, "microbert", "kd").values()
    for text in (f"{lines[-1].first:.1f}", f"{lines[-1].difference:+.1f}"):
        assert any("mean of 2" in origin.what for origin in trace(text, taught.root)), text


@pytest.mark.slow
def test_a_clear_difference_is_better_one_way_and_worse_the_other(store):
    (lines,) = compare(store.root, "microbert", "kd").values()
    (turned,) = compare(store.root, "kd", "microbert").values()
    assert [line.task for line in lines] == ["rte", "sst2", "mean"]
    for line, other in zip(lines, turned, strict=True):
        assert (line.verdict, other.verdict) == (BETTER, "worse")
        assert line.difference == pytest.approx(-other.difference)
        assert line.low < line.difference < line.high
        assert line.seeds == (0, 1, 2)


def test_what_is_too_close_cannot_be_told(store):
    (lines,) = compare(store.root, "microbert", "tinybert", tasks=["rte"]).values()
    assert [line.verdict for line in lines] == [NOT_SIGNIFICANT]


def test_rows_that_are_not_there_or_not_alike_are_refused(store):
    with pytest.raises(InputError, match="there are: kd, microbert, tinybert"):
        compare(store.root, "microbert", "pkd")
    other = factories.record("pkd", "rte", 0, 0.5, data="another")
    unlike = {"train": "1" * 64, "evaluation": {"validation": "2" * 64}}
    factories.write(store, factories.changed(other, data=unlike), wrong(0.1, 0), LABELS)
    with pytest.raises(InputError, match="in common"):
        compare(store.root, "pkd", "kd")


def write_tuned(store: Store, row: str, called: str) -> tuple[Cell, Cell]:
    """The first training of a row once more, as what a search chose: both cells."""
    plain = next(
        r for r in store.records() if (r.row, r.cell.tasks, r.cell.seed) == (row, ("rte",), 0)
    )
    search = Search(
        of=row,
        metric="accuracy",
        held_back="h",
        settings=("pace",),
        seed=0,
        trials=tuple(Trial(row=row, score=50.0) for _ in range(2)),
    )
    cell = plain.cell.model_copy(update={"label": called, "search": search})
    tuned = plain.model_copy(update={"cell": cell, "key": record_key(cell)})
    factories.write(store, tuned, wrong(0.30, 1), LABELS)
    return plain.cell, cell


def test_a_row_that_a_search_chose_and_the_plain_row_of_the_same_training_stay_two_rows(
    store, tmp_path
):
    for typed in write_tuned(store, "kd", "kd (best of 2)"):
        ((_, group),) = write_groups(store, tmp_path / "p", [typed])
        assert {"kd", "kd (best of 2)"} <= set(group.systems)
        assert not group.left_out


def test_tuned_rows_are_asked_for_without_blanks_and_brackets(store):
    """By the option where the plain row is there too; else by the name that was typed alone."""
    write_tuned(store, "kd", "kd (best of 2)")
    write_tuned(store, "tinybert", "tinybert (best of 2)")
    (plain,) = compare(store.root, "kd", "tinybert", tasks=["rte"]).values()
    (tuned,) = compare(store.root, "kd", "tinybert", tasks=["rte"], tuned=True).values()
    (quoted,) = compare(store.root, "kd (best of 2)", "tinybert (best of 2)", ["rte"]).values()
    assert tuned == quoted
    assert tuned[0].names == ("kd (best of 2)", "tinybert (best of 2)")
    assert plain[0].names == ("kd", "tinybert")
    with pytest.raises(InputError, match="no record of the row 'microbert'"):
        compare(store.root, "kd", "microbert", tuned=True)

    alone = [r for r in store.records() if r.row != "kd"]
    assert row_named("kd", alone, store.root) == "kd (best of 2)"
    with pytest.raises(InputError, match=r"no row in .* was tuned"):
        row_named("kd", [r for r in alone if r.cell.search is None], store.root, tuned=True)


def test_a_name_that_two_rows_were_typed_by_is_refused(store):
    write_tuned(store, "kd", "kd (best of 2)")
    records = [r for r in store.records() if r.row == "kd (best of 2)"]
    cell = records[0].cell.model_copy(
        update={"label": "kd (best of 2) (fp16 outputs)", "teacher_outputs": "fp16"}
    )
    records.append(records[0].model_copy(update={"cell": cell}))
    with pytest.raises(InputError, match=r"may be 'kd \(best of 2\)', 'kd \(best of 2\) \(fp16"):
        row_named("kd", records, store.root)


def test_a_report_compares_with_the_row_that_is_named(store, tmp_path):
    ((_, group),) = write_groups(store, tmp_path / "p", reference="tinybert")
    table = systems_compared(group)
    assert table.title == "Systems compared with tinybert"
    assert [line.label for line in table.lines][:-1] == ["microbert", "kd"], "by mean"
    with pytest.raises(InputError, match="pkd"):
        write_groups(store, tmp_path / "p", reference="pkd")


@pytest.mark.slow
def test_rows_of_two_tables_are_compared_on_the_same_examples_and_it_is_said_in_what_they_differ(
    store, capsys
):
    (lines,) = compare(store.root, "kd", "microbert").values()
    for record in list(store.records()):
        if record.row == "microbert":
            numeric = record.cell.numeric.model_copy(update={"precision": "bf16"})
            other = factories.record("pkd", *record.cell.tasks, record.cell.seed)
            other = other.model_copy(
                update={"cell": other.cell.model_copy(update={"numeric": numeric})}
            )
            arrays = store.predictions(record)
            answers = arrays["logits.validation"].argmax(1)
            if record.cell.tasks == ("sst2",):  # of these examples there are others
                unlike = {"evaluation": {"validation": "2" * 64}}
                other = factories.changed(other, data=unlike)
            factories.write(store, other, answers, LABELS)
    capsys.readouterr()
    (across,) = compare(store.root, "kd", "pkd").values()
    assert "two tables, which differ in: precision, threads or device" in capsys.readouterr().err
    assert [(line.task, line.difference) for line in across] == [
        (line.task, line.difference) for line in lines
    ][:1]


@pytest.mark.slow
def test_a_row_is_found_by_the_name_that_tables_print(store):
    """``distilbert (second step only)`` is what a reader copies from a report."""
    factories.write(store, factories.record("distilbert", "rte", 0), wrong(0.2, 4), LABELS)
    (record,) = (r for r in store.records() if r.row == "distilbert")
    assert record.called != record.row
    (lines,) = compare(store.root, record.called, "kd", tasks=["rte"]).values()
    (same,) = compare(store.root, "distilbert", "kd", tasks=["rte"]).values()
    assert lines == same


def test_a_row_is_not_compared_with_itself(store):
    """Seeds drawn anew for each side would give one training an interval against itself."""
    with pytest.raises(InputError, match="two different rows; both are 'kd'"):
        compare(store.root, "kd", "kd")


def test_a_row_without_a_record_of_what_was_asked_says_what_it_has(store):
    factories.write(store, factories.record("pkd", "sst2", 3), wrong(0.1, 0), LABELS)
    with pytest.raises(
        InputError, match=r"'pkd' in .* on these tasks and seeds; it has: sst2, seed 3"
    ):
        compare(store.root, "pkd", "kd", tasks=["rte"])
    with pytest.raises(InputError, match="it has: rte, seed 0 1 2; sst2, seed 0 1 2"):
        compare(store.root, "microbert", "kd", seeds=[7])


def test_the_interval_of_accuracies_is_that_of_paired_outcomes():
    """For one seed the difference is a mean of -1, 0 and 1: its standard error is known."""
    first, second = wrong(0.2, 1), wrong(0.25, 2)
    drawn = bootstrap([first], [second], LABELS, "accuracy", np.random.default_rng(0), 4000)
    outcome = (first == LABELS).astype(float) - (second == LABELS)
    low, high = drawn.interval()
    half = 1.96 * outcome.std() / np.sqrt(len(outcome))
    assert drawn.quantile(0.5) == pytest.approx(outcome.mean(), abs=0.003)
    assert (low, high) == pytest.approx((outcome.mean() - half, outcome.mean() + half), abs=0.006)


def test_seeds_that_disagree_widen_the_interval():
    widths = []
    for shares in ((0.2, 0.2, 0.2), (0.02, 0.2, 0.38)):
        second = [wrong(share, 1) for share in shares]
        drawn = bootstrap([LABELS] * 3, second, LABELS, "accuracy", np.random.default_rng(0), 1000)
        low, high = drawn.interval()
        widths.append(high - low)
    assert widths[1] > 1.5 * widths[0]


def test_the_verb_prints_a_table_and_writes_json(bench, store, tmp_path):
    words = ["compare", "microbert", "kd", "--results", store.root, "--json", tmp_path / "c.json"]
    answer = bench(*words, "--seeds", "0,1")
    assert answer.returncode == 0, answer.stderr
    assert "| better |" in " ".join(answer.stdout.split())
    assert ONE_SEED not in answer.stdout
    (lines,) = json.loads((tmp_path / "c.json").read_text()).values()
    assert [line["verdict"] for line in lines] == ["better"] * 3
    frame = api.compare(store.root, "microbert", "kd", seeds=[0, 1])
    for name in ("task", "difference", "low", "high", "adjusted", "verdict"):
        assert frame[name].tolist() == [line[name] for line in lines]
    # one seed: the differences with their intervals, and no test
    answer = bench(*words, "--seeds", 0)
    assert answer.returncode == 0, answer.stderr
    assert ONE_SEED in answer.stdout
    assert "95 % interval" in answer.stdout
    assert not re.search(r"\bp\b|verdict|better \|", answer.stdout.replace(ONE_SEED, ""))
    (lines,) = json.loads((tmp_path / "c.json").read_text()).values()
    assert [(line["p"], line["adjusted"], line["verdict"]) for line in lines] == [
        (None, None, "")
    ] * 3


@pytest.mark.slow
def test_tasks_trained_on_fewer_rows_have_an_answer_of_their_own(store):
    for row in ("microbert", "kd"):
        for seed in (0, 1):
            other = factories.limited(factories.record(row, "rte", seed), 10, 10)
            factories.write(store, other, wrong(0.4, 5), LABELS)
    whole, fewer = compare(store.root, "microbert", "kd").values()
    assert [line.task for line in whole] == ["rte", "sst2", "mean"]
    assert whole[-1].first == pytest.approx(np.mean([line.first for line in whole[:2]]))
    assert [(line.task, line.family) for line in fewer] == [("rte", 1)]


@pytest.mark.slow
def test_all_seeds_of_both_count_where_one_row_has_fewer(store):
    """A row of one seed stands beside the other's mean, not beside the one training that has its seed."""
    for record in list(store.records()):
        if record.row == "tinybert" and record.cell.seed != 1:
            shutil.rmtree(store.folder(record.cell))
    (lines,) = compare(store.root, "kd", "tinybert").values()
    rte = lines[0]
    scores = {
        (r.row, r.cell.seed): 100 * r.scores["validation"]["accuracy"]
        for r in store.records()
        if r.cell.tasks == ("rte",)
    }
    assert (rte.seeds, rte.second_seeds, rte.test) == ((0, 1, 2), (1,), "bootstrap")
    assert rte.first == pytest.approx(np.mean([scores["kd", seed] for seed in (0, 1, 2)]))
    assert rte.second == pytest.approx(scores["tinybert", 1])
    assert rte.low < rte.difference < rte.high
    assert rte.borrowed
    (lines,) = compare(store.root, "kd", "tinybert", seeds=[1]).values()
    assert (lines[0].seeds, lines[0].second_seeds) == ((1,), (1,))


def test_a_teacher_of_all_seeds_is_not_taken_to_scatter(store):
    factories.write(store, factories.record("teacher", "rte", 0), wrong(0.05, 99), LABELS)
    (lines,) = compare(store.root, "kd", "teacher").values()
    assert (lines[0].seeds, lines[0].second_seeds, lines[0].borrowed) == ((0, 1, 2), (0,), False)


def test_a_mean_over_columns_of_other_seeds_names_none(store):
    for record in list(store.records()):
        if record.cell.tasks == ("sst2",) and record.cell.seed != 0:
            shutil.rmtree(store.folder(record.cell))
    (lines,) = compare(store.root, "kd", "microbert").values()
    assert [(line.seeds, line.second_seeds) for line in lines] == [
        ((0, 1, 2), (0, 1, 2)),
        ((0,), (0,)),
        ((), ()),
    ]
    assert [
        row.split("|")[4].strip() for row in table("kd", "microbert", lines).splitlines()[2:]
    ] == [
        "0, 1, 2",
        "0",
        "each its own",
    ]


@pytest.mark.slow
def test_rows_with_two_teachers_or_two_recipes_have_a_comparison_for_each(store):
    (alone,) = compare(store.root, "microbert", "kd", ["rte"]).values()
    records = [(r, store.predictions(r)) for r in store.records() if r.row != "tinybert"]
    teacher = {"name": "another", "key": "2" * 64, "base": "2" * 64}
    for record, arrays in records:
        store.write(*factories.consistent(factories.changed(record, teacher=teacher), arrays))
    found = compare(store.root, "microbert", "kd", ["rte"])
    assert {title.partition(", report ")[2] for title in found} == {
        str(place_of(g)) for g in studies(store.records())
    }
    assert list(found.values()) == [alone, alone], "the same answers"
    for record, arrays in records:
        store.write(
            *factories.consistent(factories.changed(record, recipe={"epochs": 7.0}), arrays)
        )
    found = compare(store.root, "microbert", "kd", ["rte"])
    assert {title.partition(", report ")[2] for title in found} == {
        str(place_of(g)) for g in studies(store.records())
    }
    assert len(found) == 3


def test_trials_of_a_search_are_no_second_table(store):
    titles = list(compare(store.root, "kd", "tinybert"))
    for record in list(store.records()):
        data = {"slug": f"{record.cell.data.slug}-held-back", "evaluation": {"held-back": "5" * 64}}
        trial = factories.changed(record, data=data)
        arrays = {
            name.replace("validation", "held-back"): array
            for name, array in store.predictions(record).items()
        }
        store.write(
            trial.model_copy(update={"scores": {"held-back": record.scores["validation"]}}), arrays
        )
    assert list(compare(store.root, "kd", "tinybert")) == titles


def test_the_second_row_may_be_in_another_folder_by_the_same_name_and_key(store, tmp_path):
    """Two laboratories with one training each of the same row: theirs has other answers."""
    other = Store(tmp_path / "their results")
    for record in [r for r in store.records() if r.row == "kd" and r.cell.tasks == ("rte",)]:
        arrays = store.predictions(record)
        logits = np.vstack(
            [arrays["logits.validation"][:40, ::-1], arrays["logits.validation"][40:]]
        )
        share = float((logits.argmax(1) == arrays["labels.validation"]).mean())
        theirs = record.model_copy(update={"scores": {"validation": {"accuracy": share}}})
        other.write(theirs, {**arrays, "logits.validation": logits})
    ((line, *_),) = compare(store.root, "kd", "kd", ["rte"], theirs=other.root).values()
    means = [
        np.mean(
            [
                r.scores["validation"]["accuracy"]
                for r in place.records()
                if (r.row, r.cell.tasks) == ("kd", ("rte",))
            ]
        )
        for place in (store, other)
    ]
    assert line.difference == pytest.approx(100 * (means[0] - means[1]))
    assert abs(line.difference) > 1
    (lines,) = compare(store.root, "kd", "kd", theirs=store.root).values()
    assert {line.difference for line in lines} == {0.0}
    with pytest.raises(InputError, match="microbert"):
        compare(store.root, "kd", "microbert", theirs=other.root)


def test_a_side_may_be_the_mean_of_several_rows_and_a_lead(store):
    (pair,) = compare(store.root, "microbert", "tinybert", against="kd").values()
    (plain,) = compare(store.root, "microbert", "tinybert").values()
    for line, alone in zip(pair, plain, strict=True):
        # what both sides share is one training for each seed: it moves neither
        assert (line.low, line.high) == pytest.approx((alone.low, alone.high))
        assert line.p == pytest.approx(alone.p)
    assert pair[0].names == ("microbert less kd", "tinybert less kd")
    (several,) = compare(store.root, "microbert, tinybert", "kd").values()
    leads = [compare(store.root, row, "kd") for row in ("microbert", "tinybert")]
    (first,), (second,) = (lead.values() for lead in leads)
    for line, one, other in zip(several, first, second, strict=True):
        assert line.difference == pytest.approx((one.difference + other.difference) / 2)
        assert line.low < line.difference < line.high
    assert several[0].names[0] == "mean of microbert and tinybert"
    assert "first: mean of" not in table("", "", several)
    with pytest.raises(InputError, match="'kd' cannot be subtracted from itself"):
        compare(store.root, "microbert", "kd", against="kd")
    with pytest.raises(InputError, match="names a row of both sides"):
        compare(store.root, "microbert", "tinybert", against="kd,kd,kd")


def test_a_change_of_leads_between_two_folders(store, tmp_path):
    """A difference of differences: four rows, each its own trainings."""
    theirs = Store(shutil.copytree(store.root, tmp_path / "before"))
    (lines,) = compare(
        store.root, "microbert", "microbert", theirs=theirs.root, against="kd"
    ).values()
    assert [line.difference for line in lines] == pytest.approx([0, 0, 0])
    assert lines[0].names[1] == "microbert in before less kd in before"
    (lead,) = compare(store.root, "microbert", "kd").values()
    for line, alone in zip(lines, lead, strict=True):
        assert line.first == pytest.approx(alone.difference)
        assert line.high - line.low > 0


def test_compare_names_seeds_that_are_far_apart_as_a_report_does(store):
    """The two rows alone do not tell: all rows of the table say how far seeds scatter."""
    for seed, share in enumerate((0.05, 0.45, 0.05)):
        record = factories.record("pkd", "rte", seed)
        factories.write(store, record, wrong(share, 70 + seed), LABELS)
    (lines,) = compare(store.root, "pkd", "kd", ["rte"]).values()
    assert [line.verdict for line in lines] == [TOO_FEW_SEEDS]
    (choice,) = choose(store.root, {}, ["rte"])
    verdicts = {row.label: row.verdict for row in choice.candidates}
    assert verdicts["pkd"] == TOO_FEW_SEEDS


def test_the_detail_of_a_mean_is_that_of_its_columns(store, bench):
    """Without one of two columns the mean is the other one."""
    (lines,) = compare(store.root, "microbert", "kd", detail=True).values()
    rte, sst2, mean = lines
    assert mean.detail is not None
    without = {one.column: one.difference for one in mean.detail.without}
    assert without == pytest.approx({"rte": sst2.difference, "sst2": rte.difference})
    assert (mean.detail.won, mean.detail.runs) == (9.0, 9)
    assert (mean.detail.tasks, mean.detail.of_tasks) == (2, 2)
    assert mean.detail.power > 0.99
    (plain,) = compare(store.root, "microbert", "kd").values()
    assert "detail" not in plain[-1].to_dict()
    done = bench("compare", "microbert", "kd", "--results", store.root, "--detail")
    assert "in 9 of 9 pairs of a run of each row" in done.stdout
    assert "at least 2 of 2 tasks" in done.stdout
