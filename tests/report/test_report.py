"""What a table of a report may and may not say."""

from __future__ import annotations

import json
import re
import shlex
from dataclasses import replace
from pathlib import Path

import factories
import pytest
import tiny
from hypothesis import given
from hypothesis import strategies as st

from bench.record.cell import Partner
from bench.record.schema import Record
from bench.record.speed_sessions import Conditions, SpeedRecord, Timing
from bench.record.store import Store
from bench.record.task_facts import TaskFacts
from bench.report.page_sentences import environment
from bench.report.pictures import PICTURES
from bench.report.render import to_markdown
from bench.report.speed_ups import speed_of
from bench.report.studies import studies
from bench.report.table import Footnotes, TableCell
from bench.report.tables.accuracy import accuracy
from bench.report.tables.cost import cost, gradient_shares, sizes_of, start_of
from bench.report.tables.leaderboard import leaderboard, summary
from bench.report.write import write_reports
from bench.stats.summary import summarise


@pytest.mark.slow
def test_same_records_same_bytes_and_latex_changes_nothing_else(bench, answered_store, tmp_path):
    write_reports(answered_store, tmp_path / "without")
    done = bench(
        "report", "--results", answered_store.root, "--reports", tmp_path / "with", "--latex"
    )
    assert done.returncode == 0, done.stderr
    before, after = (
        {
            p.relative_to(tmp_path / name): p.read_bytes()
            for p in (tmp_path / name).rglob("*")
            if p.is_file()
        }
        for name in ("without", "with")
    )
    assert {name.suffix for name in before} == {".md", ".html", ".csv", ".svg"}
    stems = {name.stem for name in before}
    assert {"differences", "score-flops", "retention"} <= stems
    assert "curves" not in stems, "no epoch was scored"
    for name in before:
        assert after[name] == before[name], name
    further = {name for name in set(after) - set(before) if name.suffix != ".tex"}
    assert further == {name.with_suffix(".pdf") for name in before if name.suffix == ".svg"}
    tables = {name.name for name in set(after) - set(before) if name.suffix == ".tex"}
    assert tables == {"accuracy.tex", "retention.tex"}


@pytest.mark.parametrize("width", [50, 70, 120])
def test_pearson_stands_beside_spearman_and_no_mean_counts_it(width):
    records = [
        factories.record(row, task, score=0.5)
        for row in ("teacher", "kd")
        for task in ("rte", "stsb", "mrpc")
    ]
    for record in records:
        if record.cell.tasks == ("stsb",):
            record.scores["validation"].update(spearman=0.6, pearson=0.9)
    table = replace(accuracy(studies(records)[0]), width=width)
    place = table.header.index("stsb (Spearman)")
    assert table.header[place + 1] == "stsb (Pearson)"
    (line,) = [line for line in to_markdown(table).splitlines() if "Spearman" in line]
    assert "stsb (Spearman) | stsb (Pearson)" in line, "also where the table is broken into blocks"
    kd = dict(zip(table.values_header, table.values[-1], strict=True))
    assert (kd["stsb (Pearson) mean"], kd["mean of 3"]) == ("90.0000", f"{(50 + 50 + 60) / 3:.4f}")


def test_what_is_measured_beside_accuracy_stands_beside_it_and_says_of_which_class():
    """F1 of a user's own task says the class; that of GLUE's tasks, and files for programs, do not."""
    facts = TaskFacts(
        form="classes", labels=("abusive", "fine"), metrics=("accuracy", "macro_f1", "f1")
    )
    records = [factories.record(row, "abuse", score=0.5) for row in ("teacher", "kd")]
    records = [record.model_copy(update={"task": facts}) for record in records]
    for record in records:
        record.scores["validation"].update(macro_f1=0.4, f1=0.9)
    records += [factories.record(row, "mrpc", score=0.5) for row in ("teacher", "kd")]
    table = accuracy(studies(records)[0])
    own = ["abuse (acc)", "abuse (macro F1)", "abuse (F1 of fine)"]
    assert [title for title in table.header if "(" in title and "FLOPs" not in title][:4] == [
        "mrpc (F1)",
        *own,
    ]
    kd = dict(zip(table.values_header, table.values[-1], strict=True))
    assert [kd[f"{title} mean"] for title in own] == ["50.0000", "40.0000", "90.0000"]
    assert kd["mean of 2"] == "50.0000", "what stands beside is in no mean"


@pytest.mark.parametrize(
    "tasks, name", [(["stsb"], "one value for every example"), (["stsb", "rte"], "majority class")]
)
def test_what_knows_nothing_is_called_by_what_the_answers_are(tasks, name):
    (group,) = studies([factories.record("kd", task) for task in tasks])
    assert group.baseline_name == name


def test_every_gap_has_its_reason():
    records = [
        factories.record("kd", "rte"),
        factories.record("kd", "cola", score=None, failed="out of memory"),
        factories.record("x", "cola"),
    ]
    notes = Footnotes()
    to_markdown(accuracy(studies(records)[0]), notes)
    assert notes.texts == [
        "kd on cola, seed 0: failed: out of memory",
        "not run: there is no record of this row on this task",
    ]


def test_the_sample_suite_is_never_called_glue(tmp_path):
    store = Store(tmp_path / "r")
    store.write(factories.record(data="sample-v2"))
    (path,) = write_reports(store, tmp_path / "p", latex=True)
    for file in (path, *path.parent.glob("tables/*.tex")):
        assert "Generated sample data, not GLUE." in file.read_text()


def test_the_summary_and_the_leaderboard_name_the_best_row_and_never_a_suspect_or_lucky_one():
    scores = {"teacher": 0.9, "finetune": 0.5, "kd": 0.7, "tinybert": 0.6, "pkd": 0.8}
    records = [
        factories.record(label, seed=seed, score=score)
        for label, score in scores.items()
        for seed in range(2)
    ]
    records += [factories.record("minilm", seed=seed, score=0.85) for seed in range(3)]
    group = studies([r for r in records if r.row != "minilm"])[0]
    column = group.columns[0]
    group = replace(
        group,
        suspicions={("pkd", column): ["one answer to every example"]},
        baselines={column: 80.0},
    )
    assert "Best: kd with 70.0" in summary(group)[1]
    board = leaderboard(group)
    assert [line.label for line in board.lines if line.cells[0].bold] == ["kd"]
    assert [line.label for line in board.lines if line.cells[1].text == "best"] == ["kd"]
    assert "Best: minilm" in summary(studies(records)[0])[1], "the others have fewer seeds"


def test_a_score_with_a_suspicion_and_its_mean_are_never_bold():
    """The seed that collapsed makes the interval so wide that it contains 0. Bold is the highest alone."""
    scores = {"kd": (0.7, 0.7), "pkd": (0.7, 0.5), "tinybert": (0.69, 0.69)}
    records = [
        factories.record(row, task, seed, score=score)
        for row, own in scores.items()
        for task, score in zip(("rte", "sst2"), own, strict=True)
        for seed in (0, 1)
    ]
    (group,) = studies(records)
    (sst2,) = [column for column in group.columns if column.task == "sst2"]
    fault = "sst2, predicts negative for all 872 examples: pkd, seed 0"
    group = replace(
        group,
        suspicions={("pkd", sst2): [fault]},
        mean_intervals={row: TableCell("", value=50 * sum(own)) for row, own in scores.items()},
        pairs={
            ("kd", row): TableCell("", low=-20.0, is_within=near)
            for row, near in (("pkd", False), ("tinybert", True))
        },
    )

    def bold(table):
        return {line.label: [cell.text for cell in line.cells if cell.bold] for line in table.lines}

    assert bold(accuracy(group)) == {
        "kd": ["70.0 ± 0.0", "70.0 ± 0.0", "70.0"],
        "pkd": ["70.0 ± 0.0"],
        "tinybert": [],
    }
    # above a constant: the row may be the best
    board = leaderboard(replace(group, baselines={sst2: 40.0}))
    assert board is not None
    assert [line.cells[1].text for line in board.lines] == ["best", "shown", "not shown"]
    assert [label for label, cells in bold(board).items() if cells] == ["kd"]


def test_a_report_of_failed_cells_alone_has_no_empty_table(tmp_path):
    store = Store(tmp_path / "r")
    store.write(factories.record("kd", score=None, failed="out of memory"))
    (path,) = write_reports(store, tmp_path / "p")
    assert "Sizes" not in path.read_text()
    assert not (path.parent / "tables" / "sizes.csv").exists()


def test_one_value_has_no_deviation():
    assert summarise([80.0]).text() == "80.0"
    assert summarise([80.0, 82.0]).text() == "81.0 ± 1.4"
    with pytest.raises(ValueError, match="no values"):
        summarise([])


def test_shares_of_a_stage_of_two_steps_are_not_printed_under_those_of_other_stages():
    """Its second step is after half of the stage, and not after a quarter."""

    def with_shares(label, task, *soft):
        shares = {"distil": {"soft": list(soft), "hard": [1 - share for share in soft]}}
        return factories.record(label, task, score=0.7).model_copy(
            update={"gradient_shares": shares}
        )

    (group,) = studies(
        [with_shares("kd", "rte", 0.6, 0.6, 0.6, 0.6), with_shares("pkd", "rte", 0.5, 0.6)]
    )
    lines = {(row[0], row[2]): row[3:] for row in gradient_shares(group).rows}
    assert lines["kd", "soft"] == ["60.0 %"] * 4
    assert lines["pkd", "soft"] == ["–"] * 4
    (group,) = studies(
        [with_shares("kd", "rte", 0.6, 0.6, 0.6, 0.6), with_shares("kd", "mrpc", 0.5, 0.6)]
    )
    assert gradient_shares(group).rows[0][3:] == ["–"] * 4


@pytest.mark.parametrize(
    "typed",
    [
        "microbert:tasks=together --seeds 0,1 --epochs 1.5",
        "kd:temperature=3:ablate --augment masked --augment-times 1 --word-vectors glove.6B.txt",
        "minilm --max-train-rows 30 --recipe paper --checkpoint best-on-half --augment rules --augment-times 2",
    ],
)
@pytest.mark.slow
def test_the_command_in_a_report_makes_the_same_records(
    bench, glue_folder, teacher_folder, tmp_path, monkeypatch, typed
):
    """Typed where the files lie, it finds every record there already."""
    monkeypatch.chdir(tmp_path)
    for place in (glue_folder, teacher_folder):
        Path(place.name).symlink_to(place)
    Path("text.txt").write_text(
        "\n".join(["the cat runs in the old house", "a dog sleeps on the river"] * 20)
    )
    Path("glove.6B.txt").write_text("cat 1 0\ndog 0 1\n")
    row, *options = typed.split()
    shape = tiny.SHAPE if row == "minilm" else f"{tiny.SHAPE}:start=random"
    words = [
        "--methods",
        f"{row}:{shape}",
        "--tasks",
        "rte,sst2" if "together" in row else "rte",
        "--yes",
    ]
    words += ["--data", glue_folder, "--teacher", teacher_folder]
    words += (
        ["--corpus", "text.txt", "--corpus-tokens", 300]
        if row == "minilm" or "masked" in options
        else []
    )
    done = bench("run", *words, *options, "--results", "r", "--reports", "p")
    assert done.returncode == 0, done.stderr
    (report,) = Path("p").glob("*/*/README.md")
    found = re.findall(r"- command: `python -m bench run (.*)`", report.read_text())
    assert found
    for command in found:
        again = bench("plan", *shlex.split(command), "--results", "r", "--json", "plan.json")
        assert again.returncode == 0, (command, again.stderr)
        assert {cell["state"] for cell in json.loads(Path("plan.json").read_text())["cells"]} == {
            "there"
        }, command


def test_a_row_of_fewer_seeds_says_so_and_wins_nothing():
    """One lucky training beside three is no better method."""
    records = [factories.record("teacher", score=0.8, macs=10**9)]
    records += [
        factories.record("kd", seed=seed, score=0.70 + 0.01 * seed, macs=10**6) for seed in range(3)
    ]
    records += [factories.record("pkd", score=0.75, macs=10**6)]
    (group,) = studies(records)
    table = accuracy(group)
    cells = {line.label: (line.cells[0].text, line.cells[0].bold) for line in table.lines}
    assert cells == {
        "teacher": ("80.0", False),
        "kd": ("71.0 ± 1.0", True),
        "pkd": ("75.0 (n = 1)", False),
    }
    assert "75.0 (fewer seeds)" in PICTURES["score-flops"][2](group, "svg").decode()


def test_a_term_is_called_idle_of_the_trainings_that_measured_it():
    """Records from before shares were measured say nothing about them; one training of two tasks is one."""
    quiet = {"distil": {"soft": [0.99, 0.99], "decor": [0.004, 0.002]}}
    records = [factories.record("kd", "rte", seed, 0.7) for seed in range(3)]
    measured = [r.model_copy(update={"gradient_shares": quiet}) for r in records[:2]]
    (group,) = studies([*measured, records[2]])
    assert "kd: decor in stage distil (2 training runs)" in gradient_shares(group).notes[-1]
    assert gradient_shares(group).rows[1] == ["kd", "distil", "decor", "0.4 %", "0.2 %"]
    loud = {"distil": {"soft": [0.99, 0.98], "decor": [0.004, 0.02]}}
    (group,) = studies([*measured, records[2].model_copy(update={"gradient_shares": loud})])
    assert len(gradient_shares(group).notes) == 1, "it matters in one training"
    empty = records[2].model_copy(update={"gradient_shares": {"distil": {"soft": [], "decor": []}}})
    (group,) = studies([*measured, empty])
    assert "(2 training runs)" in gradient_shares(group).notes[-1]
    (group,) = studies([empty])
    assert gradient_shares(group) is None
    (group,) = studies(
        [r.model_copy(update={"gradient_shares": quiet}) for r in learned_together("rte", "mrpc")]
    )
    assert "(1 training run)" in gradient_shares(group).notes[-1]


def learned_together(*tasks: str, seed: int = 0) -> list[Record]:
    """The records of one training on several tasks: one a task."""
    partners = tuple(Partner(task=task, train="1" * 64, teacher="2" * 64) for task in tasks)
    records = [
        factories.changed(factories.record("kd", task, seed, 0.7), together=partners)
        for task in tasks
    ]
    assert len({record.train_key for record in records}) == 1
    return records


def costing(record: Record, examples: int) -> Record:
    assert record.train
    return record.model_copy(
        update={"train": record.train.model_copy(update={"examples": examples})}
    )


@given(
    st.dictionaries(
        st.sampled_from(("rte", "mrpc", "cola")),
        st.lists(st.integers(0, 10**6), min_size=1, max_size=4),
        min_size=1,
    )
)
def test_cost_is_the_mean_over_the_seeds_of_each_task_summed_over_tasks(examples):
    """However many seeds each task has."""
    records = [
        costing(factories.record("kd", task, seed, 0.7), number)
        for task, numbers in examples.items()
        for seed, number in enumerate(numbers)
    ]
    table = cost(studies(records)[0])
    expected = sum(sum(numbers) / len(numbers) for numbers in examples.values())
    assert float(table.rows[0][3].replace(",", "")) == pytest.approx(expected, abs=0.51)
    assert table.rows[0][2] == str(len(records))


def test_a_training_of_several_tasks_costs_once():
    records = [
        costing(r, 900 + 200 * seed)
        for seed in (0, 1)
        for r in learned_together("rte", "mrpc", seed=seed)
    ]
    table = cost(studies(records)[0])
    assert table.rows[0][2:4] == ["2", "1,000"]


def test_what_is_computed_before_the_trainings_is_named_once():
    """An ensemble's answers take long and are in no column."""
    ensemble = {
        "ensemble_targets.rte": {"key": "1" * 64, "weights": "2" * 64, "seconds": 1300.4},
        "vocabulary": {"key": "3" * 64, "weights": "4" * 64, "seconds": 0.2},
    }
    records = [
        factories.record("mtdnn", "rte", s, 0.7).model_copy(update={"artefacts": ensemble})
        for s in (0, 1)
    ]
    table = cost(studies(records)[0])
    assert [note for note in table.notes if "No column" in note] == [
        "Ensemble targets, for mtdnn: 1,300 s, once for all seeds. No column of this table counts it."
    ]


def sized(task: str, embedding: int, head: int) -> Record:
    plain = factories.record("words", task, 0, 0.7)
    sizes = {
        "parameters": 10**6 + embedding + head,
        "embedding": embedding,
        "pooler_and_head": head,
    }
    return plain.model_copy(update={"sizes": plain.sizes.model_copy(update=sizes)})


@pytest.mark.parametrize(
    ("models", "printed", "lines"),
    [
        # two vocabularies
        (
            (("rte", 200_000, 300), ("mrpc", 1_400_000, 300)),
            "1.20 to 2.40",
            ["words, mrpc", "words, rte"],
        ),
        # four times as wide a head is another model; a class more is not
        (
            (("rte", 200_000, 240_000), ("sst2", 200_000, 60_000)),
            "1.26 to 1.44",
            ["words, sst2", "words, rte"],
        ),
        ((("rte", 204_900, 50), ("mrpc", 204_900, 300)), "1.20", ["words"]),
    ],
)
def test_a_row_of_two_models_has_two_sizes(models, printed, lines):
    (group,) = studies([sized(*model) for model in models])
    assert accuracy(group).rows[0][4] == printed
    assert [row[0] for row in sizes_of(group).rows] == lines


def test_the_size_of_files_is_told_where_some_model_has_fewer_bits():
    teacher, kd = factories.record("teacher"), factories.record("kd")
    small = kd.model_copy(update={"sizes": kd.sizes.model_copy(update={"file_bytes": 7_000_000})})
    for made in (accuracy, sizes_of):
        assert "file (MB)" not in made(studies([teacher, kd])[0]).header
        table = made(studies([teacher, small])[0])
        told = {row[0]: row[table.header.index("file (MB)")] for row in table.rows}
        assert (told["teacher"], told["kd"]) == (
            f"{4 * teacher.sizes.parameters / 1e6:.2f}",
            "7.00",
        )


def test_a_typed_learning_rate_is_not_said_to_be_chosen_for_the_reader():
    for row, is_typed in (("kd", False), ("kd:pace=0.5", True)):
        (group,) = studies([factories.record("teacher"), factories.record(row)])
        assert (
            "those of kd:pace=0.5 were typed. No other rate" in environment(group)[0]
        ) == is_typed


def test_rows_of_one_architecture_share_a_time_and_weights_of_few_bits_have_their_own():
    records = [factories.record(row) for row in ("teacher", "kd", "pkd", "rounded")]
    rounded = records[-1]
    records[-1] = rounded.model_copy(
        update={"sizes": rounded.sizes.model_copy(update={"file_bytes": 7_000_000})}
    )
    conditions = Conditions(
        device="cpu", backend="sdpa", dtype="fp32", threads=1, batch=1, length="128"
    )
    seconds = {"teacher": 8.0, "kd": 4.0, "pkd": 2.0, "rounded": 16.0}
    timings = [
        Timing(system=row, seconds=[each] * 9, conditions=conditions)
        for row, each in seconds.items()
    ]
    (group,) = studies(records)
    session = SpeedRecord(
        teacher=group.cell.teacher.name, timings=timings, started="2026", finished="2026"
    )
    times = {row: ratio.median for row, ratio in speed_of(group, [session]).ratios.items()}
    assert times == {"kd": 8 / 3, "pkd": 8 / 3, "rounded": 0.5}


@pytest.mark.parametrize(
    ("label", "artefacts", "start"),
    [
        ("pkd", {"tuned_teacher": {"key": "1"}}, "the fine-tuned teacher"),
        ("kd", {"given_start": {"key": "1", "beginning": "given: x"}}, "given: x"),
        ("bilstm", {"vocabulary": {"key": "1", "seconds": 1.0}}, "random weights"),
        ("kd", {"general_start": {"key": "1234567", "train": {}}}, "general start 123456"),
        (
            "kd",
            {"augmentation.rte": {"key": "1", "text": {}}, "teacher_weights": {"key": "2"}},
            "the pre-trained teacher",
        ),
        ("teacher", {}, "pre-trained weights"),
    ],
)
def test_the_start_of_a_row_is_the_artefact_of_its_first_weights(label, artefacts, start):
    assert start_of(factories.record(label).model_copy(update={"artefacts": artefacts})) == start


def test_what_a_run_added_to_every_label_is_said_once(tmp_path):
    """Rows that share a suffix are called without it, and the page names it; where some lack it, it stays."""
    fast = [
        factories.changed(
            factories.record(row, "rte", 0, 0.7), kernels="fast", label=f"{row} (fast kernels)"
        )
        for row in ("kd", "finetune")
    ]
    (group,) = studies([*fast, factories.record("teacher", "rte", 0, 0.8)])
    assert [group.called(label) for label in group.systems] == ["teacher", "finetune", "kd"]
    assert group.shared_suffix == " (fast kernels)"
    (mixed,) = studies([*fast, factories.record("pkd", "rte", 0, 0.8)])
    assert [mixed.called(label) for label in mixed.systems] == [
        "finetune (fast kernels)",
        "kd (fast kernels)",
        "pkd",
    ]
