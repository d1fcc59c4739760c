"""Experiment files: every shipped one is sound; one runs to its report; what is typed goes before the file."""

from __future__ import annotations

from pathlib import Path

import pandas
import pytest
import squad_articles
import tiny
from shipped_methods import has_every_method
from transformers import BertConfig

from bench.data.tasks import GLUE
from bench.errors import InputError
from bench.plan.experiment_file import read_experiment
from bench.plan.spelling import parse_methods
from bench.record.store import Store
from bench.request import Request
from bench.workflows.experiment import choose, describe_experiment
from methods import WRITERS

ROOT = Path(__file__).resolve().parents[2]
SHIPPED = sorted((ROOT / "methods" / "experiments").glob("*.toml"))


@pytest.fixture(scope="module")
def all_of_glue(tmp_path_factory) -> Path:
    folder = tiny.write_glue(tmp_path_factory.mktemp("data") / "glue", tuple(GLUE))
    for version in ("1.1", "2.0"):
        squad_articles.write_tiny(folder, version=version)
    pairs = [{"translation": {"de": f"der hund {n}", "en": f"the dog {n}"}} for n in range(20)]
    for split in ("train", "validation", "test"):
        file = folder / "iwslt14-de-en" / f"{split}-00000-of-00001.parquet"
        file.parent.mkdir(exist_ok=True)
        pandas.DataFrame(pairs).to_parquet(file)
    return folder


def a_configuration_alone(folder: Path, **numbers) -> Path:
    BertConfig(architectures=["BertForMaskedLM"], **numbers).save_pretrained(folder)
    return folder


def test_the_page_of_printed_tables_has_every_table_and_how_its_rows_differ():
    sections = (ROOT / "reports" / "printed-tables.md").read_text().split("\n## ")[1:]
    assert [section.splitlines()[0] for section in sections] == [file.name for file in SHIPPED]
    for section, file in zip(sections, SHIPPED, strict=True):
        experiment = read_experiment(file)
        named = [
            line.split(" | ")[0].removeprefix("| ")
            for line in section.splitlines()
            if line.startswith("| ")
        ]
        assert named == ["Table", *(table.name for table in experiment.table)]
        said = [
            experiment.expected,
            *(each.why for each in experiment.differs),
            *(why for table in experiment.table for why in table.absent.values()),
        ]
        assert [why for why in said if why not in section] == []


LARGE = {
    "hidden_size": 1024,
    "num_hidden_layers": 24,
    "num_attention_heads": 16,
    "intermediate_size": 4096,
}


def test_a_table_is_planned_with_a_teacher_s_configuration_alone_and_not_run(
    bench, glue_folder, tmp_path
):
    file = write(tmp_path, "title = 'x'\n" + TABLE.replace("'kd'", "'kd', 'tinybert'"))
    teacher = a_configuration_alone(tmp_path / "bert")
    words = ("--experiment", file, "--data", glue_folder, "--results", tmp_path / "r")
    planned = bench("plan", *words, "--teacher", teacher)
    assert planned.returncode == 0, planned.stderr
    assert "3 cells: 3 to do" in planned.stdout
    assert "configuration without weights" in planned.stdout
    assert bench("plan", *words, "--teacher", "bert-base-uncased", "--offline").returncode == 0
    refused = bench("run", *words, "--teacher", teacher)
    assert refused.returncode == 2
    assert "no model.safetensors" in refused.stderr


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("file", SHIPPED, ids=lambda f: f.stem)
def test_every_table_can_be_planned_with_bert(file, all_of_glue, tmp_path):
    """By its name alone, as ``--table`` takes it. Its rows fit the teacher, and its settings fit
    their rows and each other."""
    large = "large" in (read_experiment(file).teacher or "")
    teacher = a_configuration_alone(tmp_path / "bert", **(LARGE if large else {}))
    request = Request(
        "kd",
        "rte",
        data=str(all_of_glue),
        teacher=str(teacher),
        results=tmp_path / "r",
        outline=True,
    )
    for table in read_experiment(file).table:
        assert "," not in table.name, "--table is split at commas"
        text, body = describe_experiment(file, request, {"data", "teacher"}, table.name)
        assert len(body["tables"]) == 1
        assert "to do" in text


@pytest.mark.parametrize("file", SHIPPED, ids=lambda f: f.stem)
def test_every_table_can_be_chosen_by_its_name(file):
    """As the command in reports/printed-tables.md has it, ``--table NAME``."""
    experiment = read_experiment(file)
    for table in experiment.table:
        assert experiment.chosen(table.name) == [table]
        assert experiment.requests_of(table)


def rows_of_system(part: str) -> set[str]:
    """The rows of all files that are paired with a printed row of whose name this is a part."""
    paired = set()
    for file in SHIPPED:
        for table in read_experiment(file).table:
            for row, printed in table.printed.items():
                names = [printed] if isinstance(printed, str) else printed
                if any(part in name for name in names):
                    paired.add(row)
    return paired


def test_one_printed_system_is_paired_with_one_row_in_all_files():
    """MicroBERT's paper quotes MobileBERT_TINY, which is pre-trained, and MiniLMv2, which begins at random."""
    tiny_mobilebert = "mobilebert:pretraining=progressive:alpha=0.0"
    assert rows_of_system("MobileBERT_4") == rows_of_system("MobileBERT_TINY") == {tiny_mobilebert}
    assert all("start=random" in row for row in rows_of_system("inilmV2_4"))
    assert all("start=random" in row for row in rows_of_system("MiniLMv2"))


@pytest.mark.slow
def test_a_table_is_planned_by_its_name(bench, all_of_glue, tmp_path):
    """This one had a comma in its name, at which ``--table`` is split."""
    teacher = a_configuration_alone(tmp_path / "bert")
    file = ROOT / "methods" / "experiments" / "distilbert.toml"
    name = "accuracy by the corrected README"
    words = ("--experiment", file, "--table", name, "--data", all_of_glue, "--teacher", teacher)
    words += ("--corpus", "sample", "--tasks", "mrpc", "--results", tmp_path / "r")
    planned = bench("plan", *words)
    assert planned.returncode == 0, planned.stderr
    assert "to do" in planned.stdout


def test_every_paper_has_one():
    has_every_method(
        {file.stem.split("-")[0] for file in SHIPPED} - {*WRITERS, "released"},
        "methods/experiments/ (a file NAME.toml with the tables of the method's paper)",
        "methods/experiments/pd.toml",
        besides={"finetune", "kd", "magnitude"},  # magnitude is in movement.toml
    )


def write(folder: Path, text: str) -> Path:
    file = folder / "e.toml"
    file.write_text(text)
    return file


TABLE = "[[table]]\nname = 'a'\nmethods = ['kd']\ntasks = ['rte']"


@pytest.mark.parametrize(
    "text, says",
    [
        ("title = 'x'", "the key table is missing"),
        ("title = 'x'\n" + TABLE.replace("'kd'", ""), "table.1.methods"),
        ("title = 'x'\n" + TABLE.replace("'a'", "'a, b'"), "separates names by commas"),
        (
            f"title = 'x'\nteachers = 'y'\n{TABLE}",
            "no key is called 'teachers'; did you mean 'teacher'",
        ),
        (f"title = 'x'\nepochs = '3'\n{TABLE}", "epochs: .*valid number"),
        (f"title = 'x'\nseeds = '0,1'\n{TABLE}", "seeds: .*square brackets"),
        (f"title = 'x'\n{TABLE}\n{TABLE}", "two tables are called 'a'"),
        (f"title = 'x'\n{TABLE}\nprinted = {{ kd = 'Table 1: X' }}", "add the key paper"),
        ("title = ", "is not TOML"),
    ],
)
def test_a_broken_file_is_one_line(tmp_path, text, says):
    with pytest.raises(InputError, match=says):
        read_experiment(write(tmp_path, text))


def test_the_example_of_the_documents_tunes_every_row():
    (table,) = read_experiment(ROOT / "docs" / "examples" / "main-table.toml").table
    assert (table.trials, table.search) == (6, ("pace",))


SETTINGS = """
title = "A paper"
recipe = "paper"
[[table]]
name = "a"
methods = ["moebert:ablate", "finetune"]
tasks = ["rte", "sst2", "stsb"]
labels = { finetune = "Plain (4 x 312)", moebert = "Ours" }
[[settings]]
source = "table 7"
methods = ["moebert"]
tasks = ["rte"]
batch_size = 8
max_length = 32
row = { distil_weight = 3.0 }
stages.distil = { epochs = 1, learning_rate = 1e-5, schedule = "constant", weight_decay = 0.0 }
[[settings]]
source = "table 7"
methods = ["moebert"]
tasks = ["sst2"]
stages.distil.epochs = 2
"""


@pytest.mark.parametrize(
    "old, new, says",
    [
        (
            "batch_size",
            "batchsize",
            "no key of settings.1 is called 'batchsize'; did you mean 'batch_size'",
        ),
        ("batch_size = 8", "batch_size = 0", "settings.1.batch_size: .*greater"),
        ("epochs = 1,", "epochs = 0,", "settings.1.stages.distil.epochs: .*greater"),
        ('tasks = ["rte"]', 'tasks = ["rtee"]', "settings.1 is called 'rtee'; did you mean 'rte'"),
        (
            'methods = ["moebert"]',
            'methods = ["tinybert"]',
            "row in the tables for settings.1 is called 'tinybert'",
        ),
        (
            'recipe = "paper"',
            'recipe = "common"',
            'stages: numbers of a stage go with recipe = "paper"',
        ),
        (
            "distil_weight = 3.0",
            "distil_wait = 3.0",
            "setting of moebert is called 'distil_wait'; did you mean",
        ),
        ("finetune =", "kd =", "row of table a that a label is of is called 'kd'"),
        ('moebert = "Ours"', 'moebert = "Plain (4 x 312)"', "two rows are called"),
        ('"finetune"]', '"all"]', "`all` names no row"),
        (
            '"finetune"]',
            '"finetune", "moebert:distil.epochs=2"]',
            "Ours on sst2 is its other row moebert:distil.epochs=2",
        ),
    ],
)
def test_settings_that_cannot_be_are_one_line(tmp_path, old, new, says):
    assert old in SETTINGS
    with pytest.raises(InputError, match=says) as raised:
        read_experiment(write(tmp_path, SETTINGS.replace(old, new, 1)))
    assert "\n" not in str(raised.value)


def test_one_request_for_each_setting_and_every_row_on_every_task_once(tmp_path):
    experiment = read_experiment(write(tmp_path, SETTINGS))
    (table,) = experiment.table
    parts = experiment.requests_of(table)
    assert len(parts) == 4  # moebert on rte, on sst2, on stsb, which has no entry; finetune on all
    own = {part.tasks: part for part in parts}
    assert own["rte"].request_options() == {"numbers": (("batch_size", 8), ("max_length", 32))}
    assert own["sst2"].request_options() == {}
    assert own["rte,sst2,stsb"].methods == "finetune"
    made = [
        (part.labels[row.spelling][0], task)
        for part in parts
        for row in parse_methods(part.methods)
        for task in part.tasks.split(",")
    ]
    names = ["Ours", "Ours w/o distillation", "Ours random neurons", "Plain (4 x 312)"]
    assert sorted(made) == sorted((name, task) for name in names for task in table.tasks)
    (full, *_) = parse_methods(own["rte"].methods)
    assert full.settings["distil_weight"] == 3.0
    assert full.stage_overrides == (
        ("distil.epochs", 1.0),
        ("distil.learning_rate", 1e-5),
        ("distil.schedule", "constant"),
        ("distil.weight_decay", 0.0),
    )


@pytest.mark.slow
def test_settings_make_one_table(bench, tmp_path, places):
    shape = f"{tiny.SHAPE}:start=random"
    file = write(
        tmp_path,
        f"""
title = "A small paper: its own settings"
recipe = "paper"
[[table]]
name = "scores"
methods = ["kd:{shape}", "finetune:{shape}"]
tasks = ["rte", "sst2"]
labels = {{ "kd:{shape}" = "Student (2 x 12)" }}
[[settings]]
source = "table 7"
methods = ["kd"]
tasks = ["rte"]
batch_size = 8
max_length = 16
augment = "rules"
augment_times = 2
stages.distil.epochs = 1
[[settings]]
source = "table 7"
tasks = ["sst2"]
methods = ["kd"]
stages.distil.epochs = 2
""",
    )
    done = bench("run", "--experiment", file, *places, "--yes")
    assert done.returncode == 0, done.stderr
    (report,) = (tmp_path / "p").glob("a-small-paper/*/README.md")
    line, *_ = [
        line for line in report.read_text().splitlines() if line.startswith("| Student (2 x 12)")
    ]
    assert "–" not in line.split("|")[4:6]  # both tasks are in one table
    made = {(r.cell.method, r.cell.tasks[0]): r for r in Store(tmp_path / "r").records()}
    own, plain = made["kd", "rte"], made["finetune", "rte"]
    assert (own.cell.recipe["batch_size"], own.cell.recipe["max_length"]) == (8, 16)
    assert (plain.cell.recipe["batch_size"], plain.cell.recipe["max_length"]) == (
        32,
        plain.cell.recipe["max_length"],
    )
    answer = bench("verify", made["kd", "sst2"].key[:12], *places[:6])
    assert answer.stdout.startswith("bitwise equal"), answer.stdout


def test_a_number_that_is_typed_leaves_the_files_others(tmp_path):
    file = tmp_path / "e.toml"
    file.write_text(
        'title = "T"\n[[table]]\nname = "scores"\nmethods = ["kd"]\ntasks = ["rte"]\n'
        '[[settings]]\nsource = "table 7"\nbatch_size = 16\nmax_length = 64\n'
    )
    asked = Request(
        data="sample", teacher="embedded", numbers=(("batch_size", 8), ("micro_batch", 4))
    )
    ((_, (table,), _)) = choose(file, asked, {"numbers"})
    assert [dict(part.numbers) for _, part in table.parts] == [
        {"batch_size": 8, "max_length": 64, "micro_batch": 4}
    ]
