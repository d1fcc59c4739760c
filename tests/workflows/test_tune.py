"""Fair search: equal trials, nothing of the development set, and a record that says what was tried."""

from __future__ import annotations

import csv
import itertools
import json
import re
import shlex
from types import SimpleNamespace

import factories
import pytest
import tiny
from transformers import DistilBertConfig, DistilBertModel

from bench.data.own_tasks import expand
from bench.data.sources import held_back, source_for
from bench.data.tasks import GLUE
from bench.errors import CELLS_FAILED, InputError
from bench.make.work import FailedCell
from bench.plan.build import build
from bench.plan.spelling import parse_methods, parse_one
from bench.record.cell import Search, Trial, record_key, train_key
from bench.record.cell_differences import differing_parts
from bench.record.store import Store
from bench.record.task_facts import data_facts, label_suffixes
from bench.report.write import write_reports
from bench.request import Request
from bench.run import Outcome
from bench.workflows import tune
from bench.workflows.tune import PACES, trials_of

FLOOR, KD = f"finetune:{tiny.SHAPE}:start=random", f"kd:{tiny.SHAPE}:start=random"


def test_held_back_rows_are_a_tenth_of_train_and_not_trained_on(glue_folder):
    task, source = held_back(GLUE["rte"], source_for(GLUE["rte"], str(glue_folder), True))
    whole = source_for(GLUE["rte"], str(glue_folder), True).load(GLUE["rte"], "train")
    train, scored = source.load(task, "train"), source.load(task, task.evaluation[0])
    assert len(train) + len(scored) == len(whole)
    assert len(scored) == len(whole) // 10
    assert not set(train.ids) & set(scored.ids)
    assert sorted([*train.ids, *scored.ids]) == sorted(whole.ids)
    assert source.load(task, "train").fingerprint() == train.fingerprint()


def test_other_draws_hold_back_other_rows_and_the_first_is_that_of_older_records(glue_folder):
    plain = source_for(GLUE["rte"], str(glue_folder), True)
    task, first = held_back(GLUE["rte"], plain)
    _, again = held_back(GLUE["rte"], plain, 0)
    _, other = held_back(GLUE["rte"], plain, 2)
    assert again == first
    scored = [source.load(task, task.evaluation[0]).ids for source in (first, other)]
    assert len(scored[0]) == len(scored[1])
    assert set(scored[0]) != set(scored[1])
    facts = [data_facts(source.slug) for source in (first, other)]
    assert [(each.held_back, each.draw) for each in facts] == [(True, 0), (True, 2)]
    assert facts[1].folder == facts[0].folder


def test_trials_begin_with_the_row_as_typed_and_are_all_different():
    found = trials_of(parse_one("kd"), 6)
    assert found[0].spelling == "kd"
    assert len({trial.spelling for trial in found}) == 6
    assert [t.spelling for t in trials_of(parse_one("kd"), 6)] == [t.spelling for t in found]
    assert [t.spelling for t in trials_of(parse_one("kd"), 3)] == [t.spelling for t in found[:3]]


def test_only_the_named_settings_vary():
    rates = trials_of(parse_one("kd:alpha=0.8"), 6, ["pace"])
    assert sorted(trial.pace for trial in rates) == sorted(PACES)
    assert len({tuple(sorted(vars(trial.method).items())) for trial in rates}) == 1
    with pytest.raises(InputError, match="at most 6"):
        trials_of(parse_one("kd"), 7, ["pace"])


def test_all_leaves_out_students_of_several_tasks_and_says_so(monkeypatch):
    def is_asked(request, *_):
        raise InputError(request.methods)

    monkeypatch.setattr(tune, "run", is_asked)
    said: list[str] = []
    progress = SimpleNamespace(say=said.append)
    with pytest.raises(InputError, match=r"^finetune,") as asked:
        tune.tune(Request(methods="all", tasks="rte"), 2, progress=progress)
    assert "mtdnn" not in str(asked.value)
    assert said == [
        "mtdnn is left out of `--methods all`: a student of several tasks is not searched for"
    ]
    with pytest.raises(InputError, match=r"^mtdnn: a student of several tasks"):
        tune.tune(Request(methods="mtdnn", tasks="rte"), 2, progress=progress)


def test_of_all_rows_those_that_a_teacher_does_not_allow_are_not_tried(
    monkeypatch, glue_folder, tmp_path
):
    def is_asked(request, *_):
        raise InputError(request.methods)

    monkeypatch.setattr(tune, "run", is_asked)
    teacher = tiny.save_teacher(tmp_path / "teacher")
    shape = {"dim": 24, "hidden_dim": 48, "n_layers": 4, "n_heads": 4}
    config = DistilBertConfig(**shape, vocab_size=tiny.config().vocab_size)
    DistilBertModel(config).save_pretrained(teacher)
    request = Request(
        methods="all",
        tasks="rte",
        data=str(glue_folder),
        teacher=str(teacher),
        results=tmp_path / "r",
    )
    with pytest.raises(InputError) as asked:
        tune.tune(request, 2, progress=SimpleNamespace(say=lambda text: None))
    tried = {text.split(":")[0] for text in str(asked.value).split(",")}
    assert "kd" in tried
    assert "distilbert" not in tried, "it takes no layers of a DistilBERT"


def test_pace_multiplies_the_learning_rate_and_nothing_else(glue_folder, teacher_folder, tmp_path):
    place = {"data": str(glue_folder), "teacher": str(teacher_folder), "results": tmp_path / "r"}
    plan = build(Request(methods=f"{FLOOR},{FLOOR}:pace=2", tasks="sst2", **place))
    _, plain, fast = (planned.cell for planned in plan.cells)
    assert fast.recipe == {**plain.recipe, "learning_rate": 2 * plain.recipe["learning_rate"]}
    assert (fast.settings, fast.data) == (plain.settings, plain.data)
    assert "pace=2" in fast.label


def trial_record(label, task, failed, score, held_out=4):
    """The record of one trial, scored on examples that are held out."""
    made = factories.record(
        label, task, score=None if failed else score, failed="boom" if failed else None
    )
    data = made.cell.data.model_copy(
        update={"evaluation": {"held-back": "0" * 64}, "rows": {"train": 36, "held-back": held_out}}
    )
    cell = made.cell.model_copy(update={"data": data})
    of_sets = [dict.fromkeys(of_set, score) for of_set in made.scores.values()]
    scores = {} if failed else {"held-back": of_sets[0]}
    keys = {"key": record_key(cell), "train_key": train_key(cell)}
    return made.model_copy(update={"cell": cell, "scores": scores, **keys})


@pytest.fixture
def search(monkeypatch, tmp_path):
    """``search(methods, tasks, failing)``: a search whose trainings are made up; its outcome, and the tasks, rows and searches
    that were trained after it."""
    trained = []

    def made_up(
        methods, tasks, failing=(), best="", trials=2, settings="", held_out=4, say=None, **options
    ):
        progress = None if say is None else SimpleNamespace(say=say)

        def run(request, progress, confirm):
            if not request.held_back:
                searches = [search.of for search in dict(request.searches).values()]
                trained.append((request.tasks, request.methods, searches))
                assert request.seeds == options.get("seeds", (0,))
                return Outcome(SimpleNamespace(cells=[]))
            assert request.seeds == (min(options.get("seeds", (0,))),)
            store, cells, failures = Store(request.results), [], []
            for task in (task.name for task, _ in expand(request.tasks)):
                for row in parse_methods(request.methods):
                    label = row.label + "".join(
                        label_suffixes(None, False, request.teacher_outputs, "", {})
                    )
                    score = 0.9 if row.spelling == best else 0.5
                    record = trial_record(label, task, row.method.name in failing, score, held_out)
                    store.write(record)
                    cells.append(SimpleNamespace(cell=record.cell, spelling=row.spelling))
                    failures += (
                        [FailedCell(task, row.label, 0, "boom")]
                        if record.status == "failed"
                        else []
                    )
            return Outcome(SimpleNamespace(cells=cells), failures=failures)

        monkeypatch.setattr(tune, "run", run)
        place = {"data": "sample", "teacher": "embedded", "results": tmp_path / "r"}
        request = Request(methods=methods, tasks=tasks, **place, **options)
        return *tune.tune(request, trials, settings, progress), trained

    return made_up


@pytest.mark.parametrize("tasks", ["sst2,rte", "sst2,rte,", "sst2, rte,sst2"])
def test_a_search_takes_each_task_once_however_it_is_typed(search, tasks):
    chosen, _, trained = search("kd", tasks)
    assert [found.task for found in chosen] == ["sst2", "rte"]
    assert [task for task, *_ in trained] == ["sst2", "rte"]


def test_a_row_whose_trials_all_failed_is_left_out_and_the_others_are_trained(search):
    chosen, outcome, trained = search("finetune,kd", "rte", failing=("finetune",))
    assert [found.search.of for found in chosen] == ["kd"]
    assert trained == [("rte", "kd", ["kd"])]
    assert outcome.exit_code == CELLS_FAILED
    chosen, outcome, _ = search("finetune", "rte", failing=("finetune",))
    assert (chosen, outcome.exit_code) == ([], CELLS_FAILED)


def test_two_rows_with_the_same_best_trial_are_both_trained_and_reported(search):
    shared = "kd:alpha=0.8:pace=0.3"
    chosen, _, trained = search("kd,kd:alpha=0.8", "rte", best=shared, trials=6)
    assert [found.row for found in chosen] == [shared, shared]
    assert sorted(of for *_, searches in trained for of in searches) == ["kd", "kd:alpha=0.8"]


def test_the_smallest_seed_is_searched_and_the_record_says_what_could_vary(search):
    chosen, _, trained = search("kd", "rte", settings="pace", trials=6, seeds=(2, 1))
    assert (chosen[0].search.settings, chosen[0].search.seed) == (("pace",), 1)
    assert len(trained) == 1
    chosen, *_ = search("kd,pkd", "rte", settings="beta,pace")
    assert [each.search.settings for each in chosen] == [("pace",), ("beta", "pace")]
    with pytest.raises(
        InputError, match=r"--search speed: no row offers it; .* alpha, pace, temperature"
    ):
        search("kd", "rte", settings="pace,speed")


@pytest.mark.parametrize("held_out", [1, 25, 60])
@pytest.mark.parametrize("task", ["rte", "cola", "stsb"])
def test_too_few_held_out_examples_are_said_on_the_terminal_and_in_the_record(
    search, task, held_out
):
    said: list[str] = []
    ((choice,), *_) = search("kd", task, held_out=held_out, say=said.append)
    assert said == [
        f"{task}: {held_out} examples, too few held-out examples to tell any difference; "
        "the choice between trials may be chance"
    ]
    assert (choice.search.examples, choice.search.too_few) == (held_out, True)
    assert (
        f"held back ({held_out} examples, too few held-out examples to tell any difference): kd 50"
        in choice.search.describe()
    )


def test_enough_held_out_examples_are_said_with_the_least_difference(search):
    said: list[str] = []
    ((choice,), *_) = search("kd", "rte", held_out=400, say=said.append)
    assert said == [
        "rte: the trials' 400 held-out examples hardly tell differences below 4 points from chance"
    ]
    assert (choice.search.examples, choice.search.too_few) == (400, False)
    assert "too few" not in choice.search.describe()


def test_what_is_said_of_the_held_out_examples_changes_no_key():
    """Records of searches before this was said keep their keys."""
    trials = (Trial(row="kd", score=50.0), Trial(row="kd:pace=2", score=60.0))
    plain = Search(of="kd", metric="accuracy", held_back="0" * 64, trials=trials)
    said = plain.model_copy(update={"examples": 25, "too_few": True})
    made = factories.record("kd", "rte", score=0.5)
    cells = [made.cell.model_copy(update={"search": search}) for search in (plain, said)]
    assert len({record_key(cell) for cell in cells}) == 1
    assert differing_parts(*cells) == ""


def test_the_table_of_searches_says_where_the_examples_were_too_few(tmp_path):
    trials = (Trial(row="kd", score=50.0), Trial(row="kd:pace=2", score=60.0))
    store = Store(tmp_path / "r")
    for task, examples in (("rte", 25), ("sst2", 6735)):
        search = Search(
            of="kd",
            metric="accuracy",
            held_back="0" * 64,
            trials=trials,
            examples=examples,
            too_few=examples == 25,
        )
        made = factories.record("kd (best of 2)", task, score=0.5)
        cell = made.cell.model_copy(update={"search": search})
        store.write(made.model_copy(update={"cell": cell, "key": record_key(cell)}))
    (page,) = write_reports(store, tmp_path / "p")
    said = page.read_text(encoding="utf-8")
    assert "rte: 25 examples, too few held-out examples to tell any difference." in said
    assert said.count("too few held-out examples") == 1


@pytest.mark.slow
@pytest.mark.long
def test_a_search_records_what_was_tried_and_trains_the_best_on_all_rows(
    bench, glue_folder, teacher_folder, tmp_path
):
    words = (
        *(
            "tune",
            "--methods",
            f"{FLOOR},{KD}",
            "--tasks",
            "sst2",
            "--trials",
            3,
            "--data",
            glue_folder,
        ),
        *(
            "--teacher",
            teacher_folder,
            "--epochs",
            2,
            "--seeds",
            "0,1",
            "--search",
            "pace",
            "--yes",
        ),
        *(
            "--results",
            tmp_path / "r",
            "--reports",
            tmp_path / "p",
            "--json",
            tmp_path / "chosen.json",
        ),
    )
    done = bench(*words)
    assert done.returncode == 0, done.stderr
    chosen = json.loads((tmp_path / "chosen.json").read_text())
    assert [c["search"]["of"] for c in chosen] == [
        parse_one(FLOOR).spelling,
        parse_one(KD).spelling,
    ]
    records = list(Store(tmp_path / "r").records())
    final = [record for record in records if record.cell.search]
    assert sorted((record.cell.method, record.cell.seed) for record in final) == sorted(
        itertools.product(("finetune", "kd"), (0, 1))
    )
    for record in final:
        search = record.cell.search
        assert len(search.trials) == 3
        assert record.cell.label.endswith("(best of 3)")
        best = max(search.trials, key=lambda trial: trial.score)
        assert parse_one(best.row).settings == record.cell.settings
        assert record.cell.data.rows["train"] == 40
        assert "chosen among 3 by accuracy" in " ".join(record.notes)
        assert list(record.scores) == ["validation"]
        tried = [r for r in records if r.cell.label in {t.row for t in search.trials}]
        assert {tuple(r.scores) for r in tried} == {("held-back",)}
        assert all(
            r.cell.teacher.key != record.cell.teacher.key for r in tried if r.cell.method == "kd"
        )
    (file,) = (tmp_path / "p").glob("folder-tiny-glue/tiny-bert-*-2ep-*/README.md")
    report = file.read_text()
    assert "(best of 3)" in report
    (chosen_settings,) = file.parent.glob("tables/searches.csv")
    lines = csv.DictReader(chosen_settings.read_text().splitlines())
    rows = {row["System"]: row for row in lines}
    for record in final:
        scores = [trial.score for trial in record.cell.search.trials]
        row = rows[record.cell.label]
        assert "(" not in row["sst2"], "numbers have columns of their own"
        assert float(row["sst2 score"]) == pytest.approx(max(scores), abs=1e-4)
        assert float(row["sst2 lowest"]) == pytest.approx(min(scores), abs=1e-4)
        assert int(row["sst2 trials"]) == len(scores)
    assert bench(*words).stderr.count("nothing to do: every cell has its record") == 2
    (command,) = re.findall(r"- command: `python -m bench (.*)`", report)
    again = command.replace("tiny-glue", str(glue_folder)).replace("tiny-bert", str(teacher_folder))
    typed = (*shlex.split(again), "--results", tmp_path / "r", "--reports", tmp_path / "p")
    assert bench(*typed).stderr.count("nothing to do: every cell has its record") == 2, command
    places = ("--data", glue_folder, "--teacher", teacher_folder, "--results", tmp_path / "r")
    assert bench("export", final[0].key[:12], "--to", tmp_path / "chosen", *places).returncode == 0
    assert not list((tmp_path / "p").glob("*held-back*"))  # pages of trials are no result


@pytest.mark.slow
def test_each_seed_has_a_search_of_its_own(bench, glue_folder, teacher_folder, tmp_path):
    """Other held-out rows, the seed's own trials and teacher; one row, which one command makes again."""
    words = (
        *("tune", "--methods", FLOOR, "--tasks", "sst2", "--trials", 2, "--search", "pace"),
        *("--data", glue_folder, "--teacher", teacher_folder, "--threads", 1, "--device", "cpu"),
        *("--epochs", 2, "--seeds", "0,1", "--searches", 2, "--yes"),
        *("--results", tmp_path / "r", "--reports", tmp_path / "p"),
    )
    done = bench(*words)
    assert done.returncode == 0, done.stderr
    assert all(f"sst2, seed {seed}: " in done.stdout for seed in (0, 1))
    records = list(Store(tmp_path / "r").records())
    final = sorted((r for r in records if r.cell.search), key=lambda r: r.cell.seed)
    searches = [record.cell.search for record in final]
    assert [(r.cell.seed, r.cell.search.seed) for r in final] == [(0, 0), (1, 1)]
    assert len({search.held_back for search in searches}) == 2
    assert len({record.cell.label for record in final}) == 1
    for record in final:
        names = {trial.row for trial in record.cell.search.trials}
        tried = [r for r in records if r.cell.seed == record.cell.seed and r.cell.label in names]
        held_back = {r.cell.data.evaluation["held-back"] for r in tried if "held-back" in r.scores}
        assert held_back == {record.cell.search.held_back}

    (file,) = (tmp_path / "p").glob("folder-tiny-glue/tiny-bert-*-2ep-*/README.md")
    report = file.read_text()
    assert "tuned by one search" not in report
    (chosen,) = csv.DictReader((file.parent / "tables" / "searches.csv").read_text().splitlines())
    assert " / " in chosen["sst2"]
    (command,) = re.findall(r"- command: `python -m bench (.*)`", report)
    assert "--searches 2" in command
    again = command.replace("tiny-glue", str(glue_folder)).replace("tiny-bert", str(teacher_folder))
    typed = (*shlex.split(again), "--results", tmp_path / "r", "--reports", tmp_path / "p")
    assert bench(*typed).stderr.count("nothing to do: every cell has its record") == 4, command

    # a single search has the trials of the first seed's
    one = bench(*words[:-9], "--seeds", "0", "--yes", *words[-4:])
    assert one.stderr.count("nothing to do: every cell has its record") == 1, one.stderr


def test_a_search_refuses_what_it_cannot_do_fairly(bench, glue_folder, teacher_folder, tmp_path):
    common = (
        "--tasks",
        "sst2",
        "--data",
        glue_folder,
        "--teacher",
        teacher_folder,
        "--results",
        tmp_path / "r",
    )
    for words, said in (
        (("--methods", "mtdnn"), "leave it out"),
        (("--methods", "kd:alpha=0.2+int8"), "+int8"),
        (("--methods", "kd", "--trials", 1), "at least 2"),
        (("--methods", "kd", "--search", "beta"), "no row offers it"),
        (("--methods", "kd:alpha=0.8", "--search", "alpha"), "or has them typed"),
        (("--methods", ""), "no method was named"),
        (("--methods", "finetune", "--trials", 99), "at most 6"),
        (("--methods", "kd", "--searches", 2), "one for each of --seeds"),
    ):
        answer = bench("tune", *words, *common)
        assert answer.returncode == 2
        assert said in answer.stderr
    assert not (tmp_path / "r").exists()
