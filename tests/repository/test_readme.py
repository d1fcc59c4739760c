"""What the README and docs/ show works: their commands, their code, their tables, their links, what is generated in them."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import pages
import pytest
import tiny
import torch
import yaml
from typer.main import get_command

from bench.cli import app
from bench.cli.program import with_form
from bench.data.tasks import GLUE, from_toml
from methods.api import Batch, Method, PackedModel, RoutedModule, Setup, Stage, Student, Term
from methods.core.models import forward
from methods.core.packed import Layout
from methods.core.taps import hidden

ROOT = pages.ROOT
DOCS = ROOT / "docs"
README = (ROOT / "README.md").read_text()
CONTRACT = (DOCS / "contract.md").read_text()
EVERY_PAGE = pytest.mark.parametrize("page", pages.PAGES, ids=lambda page: page.name)


COMMANDS = (
    "python3.11 -m venv .venv && .venv/bin/pip install -c constraints.txt -e '.[offline,test]' "
    "&& .venv/bin/python -m bench run --methods microbert,tinybert --tasks glue",
    ".venv/bin/python -m pytest",
)
WORDS = 1000
"""Of the README at most, with the cells of its tables."""
WORDS_OF_DOCS = 15_000


def test_the_readme_begins_with_its_two_commands():
    joined = README.replace(" \\\n      ", " ")
    indented = [line[4:] for line in joined.splitlines() if line.startswith("    ")]
    assert indented[:2] == list(COMMANDS)


def test_the_readme_is_read_in_five_minutes():
    assert len(README.replace("|", " ").split()) <= WORDS
    assert len(README.encode()) <= 8192


def test_the_docs_are_short():
    """Their prose, without code, tables and the page that --help writes."""
    written = [page for page in DOCS.glob("*.md") if page.name != "command-line.md"]
    words = 0
    for page in written:
        prose = re.sub(r"```.*?```|<!--.*?-->", "", page.read_text(), flags=re.DOTALL)
        lines = [line for line in prose.splitlines() if not line.startswith(("|", "    "))]
        words += len(" ".join(lines).split())
    assert words <= WORDS_OF_DOCS


def test_the_picture_of_the_readme_is_that_of_its_table(monkeypatch):
    monkeypatch.syspath_prepend(DOCS / "tools")
    pictures = import_module("main_picture")
    named = README.partition("<!-- summary of ")[2].partition("/README.md")[0]
    assert ROOT / named == pictures.MAIN.report
    for picture in pictures.PICTURES:
        assert pictures.is_current(picture), "type: python docs/tools/main_picture.py"


@pytest.mark.slow
def test_generated_pages_are_current(monkeypatch):
    monkeypatch.syspath_prepend(DOCS / "tools")
    assert import_module("generate").out_of_date() == [], "type: python docs/tools/generate.py"


@pytest.mark.parametrize(
    "kind", [Method, Stage, Term, Setup, Student, Batch, PackedModel, RoutedModule]
)
def test_the_page_of_the_contract_names_every_member(kind):
    """A member that the page leaves out would be a hidden half."""
    members = {*vars(kind), *vars(kind).get("__annotations__", {})}
    missing = [
        name
        for name in members
        if not name.startswith("_") and not re.search(rf"\b{name}\b", CONTRACT)
    ]
    assert not missing


def test_the_page_of_the_contract_explains_kd_as_it_is():
    code = pages.python_of("contract.md", "class KD")
    assert code in (ROOT / "methods" / "kd.py").read_text()


@pytest.mark.slow
def test_the_method_of_the_page_is_planned_as_the_page_types_it(
    bench, embedded, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    # another test may have a module of this name
    monkeypatch.delitem(sys.modules, "mine", raising=False)
    Path("mine.py").write_text(pages.python_of("contract.md", "class Mine"))
    (command,) = (words for words in pages.commands(CONTRACT) if words[0] == "plan")
    answer = bench(*command)
    assert answer.returncode == 0, answer.stderr
    assert "mine:Mine:temperature=4:-cls" in answer.stdout


def test_the_port_of_a_trainers_loss_computes_the_same():
    table = CONTRACT.partition("| a term here")[2].partition("\n\n")[0].splitlines()[2:]
    lines = [re.findall(r"(?<=\| )`([^`]*)`(?= \|)", line) for line in table]
    known: dict[str, Any] = {"F": torch.nn.functional, "torch": torch}
    for column in zip(*lines, strict=True):
        exec(column[0] + "\n    " + "\n    ".join(column[1:]), known)  # noqa: S102 the docs' own code
    layout = Layout((7, 4, 9))
    ids = torch.arange(layout.total)
    batch = Batch(range(3), ids % tiny.config().vocab_size, ids % 2, layout, None)
    student, teacher = (
        tiny.classifier(layers=2, seed=1).eval(),
        tiny.classifier(layers=4, seed=2).eval(),
    )
    aux = torch.nn.ModuleDict(
        {"up": torch.nn.Linear(student.config.hidden_size, teacher.config.hidden_size)}
    )
    inputs = {
        name: layout.padded(row)
        for name, row in (("input_ids", batch.token_ids), ("token_type_ids", batch.segment_ids))
    }
    inputs["attention_mask"] = layout.mask_BL.long()
    packed = known["states"](
        batch, forward(student, batch, hidden(2)), forward(teacher, batch, hidden(4)), aux
    )
    for model in (student, teacher):
        model.set_attn_implementation("eager")
    padded = known["compute_loss"](student, inputs, teacher, aux["up"])
    assert packed.item() == pytest.approx(padded.item(), rel=1e-4)


def run_at(folder: Path, code: str) -> str:
    """What Python prints in a folder."""
    done = subprocess.run([sys.executable, "-c", code], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_task_file(bench, tmp_path, monkeypatch):
    """The file that the page shows, and the command that looks at it."""
    text = re.search(
        r'(    name = "reviews".*?)\n\n', (DOCS / "add-a-task.md").read_text(), re.DOTALL
    )
    assert text
    file = tmp_path / "reviews.toml"
    file.write_text(re.sub(r"^    ", "", text.group(1), flags=re.MULTILINE))
    for name in ("train.csv", "dev.csv"):
        (tmp_path / name).write_text("sentence,label\nfine,positive\nbad,negative\n")
    assert from_toml(file).labels == ("negative", "positive")
    monkeypatch.chdir(tmp_path)
    answer = bench("data", "--tasks", "reviews.toml")
    assert answer.returncode == 0, answer.stderr
    assert "reviews/train" in answer.stdout


@pytest.mark.slow
def test_a_file_of_examples_is_planned_as_the_page_types_it(bench, tmp_path, monkeypatch, embedded):
    (task,) = {
        word for words in pages.commands(README) for word in words if word.startswith("reviews.csv")
    }
    rows = "".join(f"title {i},body {i},{i % 2 + 1}\n" for i in range(40))
    (tmp_path / "reviews.csv").write_text("title,body,stars\n" + rows)
    monkeypatch.chdir(tmp_path)
    offline = ("--data", "sample", "--teacher", "embedded", "--corpus", "sample")
    answer = bench("plan", "--tasks", task, "--methods", "kd", *offline)
    assert answer.returncode == 0, answer.stderr
    assert "32 examples" in answer.stdout


def test_a_folder_in_glues_layout(bench, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    exec(compile(pages.python_of("extend.md", "to_parquet"), "extend.md", "exec"), {})  # noqa: S102 the docs' own code
    answer = bench("data", "--data", "my-data", "--tasks", "rte")
    assert answer.returncode == 0, answer.stderr
    assert "rte/validation" in answer.stdout


def test_a_source_in_code(monkeypatch):
    module = ModuleType("jokes")
    monkeypatch.setitem(sys.modules, "jokes", module)
    code = pages.python_of("extend.md", "class Jokes")
    exec(compile(code, "extend.md", "exec"), module.__dict__)  # noqa: S102 the docs' own code
    source = module.Jokes()
    assert source.has(GLUE["sst2"], "train")
    assert not source.has(GLUE["rte"], "train")
    assert len(source.load(GLUE["sst2"], "train")) == 2
    assert len(source.load(GLUE["sst2"], "train").fingerprint()) == 64


def test_a_table_in_every_report(paper_store):
    """Its function is called as a report calls it."""
    from bench.report.render import to_markdown
    from bench.report.studies import studies

    room: dict[str, Any] = {"__name__": "score_per_million"}
    code = pages.python_of("extend.md", "def score_per_million")
    exec(compile(code, "extend.md", "exec"), room)  # noqa: S102 the docs' own code
    (group,) = studies(paper_store.records())
    table = room["score_per_million"](group)
    assert [line[0] for line in table.values] == group.students
    assert "points per M" in to_markdown(table)


def test_records_are_read_without_this_program():
    code = pages.python_of("internals.md", "current")
    assert "bench" not in code.replace("results/reference", "")
    assert run_at(ROOT, code) == "True\n"


def test_the_commands_as_functions(teacher_folder, glue_folder, tmp_path, monkeypatch):
    """The script of the page, with a small teacher and little data."""
    code = pages.python_of("running.md", "api.Request")
    small = code.replace(
        'data="sample", teacher="embedded"',
        f"data={str(glue_folder)!r}, teacher={str(teacher_folder)!r}",
    )
    small = small.replace(
        'methods="kd"', 'methods="kd:layers=1:hidden=12:heads=2:ffn=24:start=random"'
    )
    assert small.count(str(teacher_folder)) == 1
    assert small != code
    monkeypatch.chdir(tmp_path)
    exec(compile(small, "running.md", "exec"), {"__name__": "__main__"})  # noqa: S102 the docs' own code
    assert list((tmp_path / "reports").rglob("*.md"))


@pytest.mark.slow
@pytest.mark.long
def test_the_notebook_runs_without_a_network(embedded, tmp_path, monkeypatch):
    """Its code, in a folder with the committed records; no outputs are committed."""
    cells = json.loads((ROOT / "notebooks" / "quickstart.ipynb").read_text())["cells"]
    code = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    assert not any(cell.get("outputs") for cell in cells)
    (tmp_path / "results").mkdir()
    (tmp_path / "results" / "reference").symlink_to(ROOT / "results" / "reference")
    monkeypatch.setenv("MPLBACKEND", "Agg")
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    assert "| mrpc |" in run_at(tmp_path, "\n".join(code))
    assert list((tmp_path / "build" / "quickstart" / "reports").rglob("report.html"))


def test_the_experiment_file(bench, embedded, tmp_path, monkeypatch):
    text = re.search(r"```toml\n(.*?)```", (DOCS / "experiments.md").read_text(), re.DOTALL)
    assert text
    monkeypatch.chdir(tmp_path)
    Path("mine.toml").write_text(text.group(1))
    answer = bench("plan", "--experiment", "mine.toml")
    assert answer.returncode == 0, answer.stderr
    assert "tinybert" in answer.stdout


@EVERY_PAGE
def test_files_it_links_to_exist(page):
    prose = re.sub(r"```.*?```|`[^`\n]*`", "", page.read_text(), flags=re.DOTALL)
    for target in re.findall(r"\]\((?!https:)([^)#]+)[^)]*\)", prose):
        assert (page.parent / target).exists(), target


@pytest.mark.slow
def test_tables_are_those_of_committed_reports_and_of_the_command_above_them():
    marked = []
    for page in pages.PAGES:
        text = page.read_text()
        marked += [found["report"] for found in pages.MARKED.finditer(text)]
        assert pages.refreshed(text) == text, (
            f"{page.name}: python tests/pages.py copies the tables anew"
        )
    assert len(marked) == 7
    assert marked.count(None) == 1
    for marker in (pages.SUMMARY, pages.MEANS, pages.DIFFERENCES):
        assert sum(len(marker.findall(page.read_text())) for page in pages.PAGES) >= 1


def known_options(words: list[str]) -> set[str]:
    """The options of the verb that a command begins with."""
    verb = get_command(app)
    while getattr(verb, "commands", None):
        name, *words = with_form(words, verb.commands)
        verb = verb.commands[name]
    return {name for option in verb.params for name in (*option.opts, *option.secondary_opts)}


@EVERY_PAGE
def test_commands_are_typed_as_they_are_installed(page):
    """`python -m bench VERB` everywhere; options and verbs exist."""
    text = page.read_text()
    verbs = "run|plan|compare|check|audit|tune|speed|list|verify"
    assert not re.findall(rf"(?<!-m )(?<!import )\bbench (?:{verbs})\b", text)
    for words in pages.commands(text):
        typed = with_form(words, get_command(app).commands)
        assert {word for word in typed[1:] if word.startswith("--")} <= known_options(words), words


def test_workflows_type_commands_that_exist_and_the_gate_has_a_baseline_that_is_there():
    action = yaml.safe_load((ROOT / "action.yml").read_text())
    files = [
        yaml.safe_load(file.read_text()) for file in (ROOT / ".github" / "workflows").glob("*.yml")
    ]
    steps = [step for file in files for job in file["jobs"].values() for step in job["steps"]]
    runs = [step.get("run", "") for step in [*steps, *action["runs"]["steps"]]]
    commands = [
        command for run in runs for command in re.findall(r"python -m bench ([^|\n]+)", run)
    ]
    assert {command.split()[0] for command in commands} == {"run", "check", "speed"}
    for command in commands:
        assert set(re.findall(r"--[a-z-]+", command)) <= known_options(command.split()), command
    (given,) = [step["with"] for step in steps if step.get("uses") == "./"]
    assert given.keys() <= action["inputs"].keys()
    assert {name for name, each in action["inputs"].items() if each.get("required")} <= given.keys()
    assert any((ROOT / given["baseline"]).glob("*/*/*/current"))


def unique_commands() -> list[str]:
    """Every command of the README and docs/ that is typed as a whole, once; not those that --help has as examples, nor those for a GPU,
    which test_gpu_page.py plans."""
    pages_ = [page for page in pages.PAGES if page.name not in ("command-line.md", "gpu.md")]
    return sorted(
        {shlex.join(words) for page in pages_ for words in pages.commands(page.read_text())}
    )


READING = ("audit", "choose", "list", "show", "store", "compare --power", "speed --profile")
ANSWERS = {"audit": 1}
"""Verb -> its exit code here: it finds something."""
READ = [
    command
    for command in unique_commands()
    if command.startswith(READING) and not re.search(r"FOLDER|:NAME|--why|^choose [^-]", command)
]
"""Those with a folder or a file of the reader's own, or with a row that is named for one, are only parsed. The one of `compare` runs
for the table below it."""
PLANNED = [
    command
    for command in unique_commands()
    if command.split()[0] in ("run", "plan", "tune")
    and not re.search(
        r"FOLDER|reviews\.(toml|csv)|my-data-set|mine\.toml|mine:Mine|--tasks hub:|encoder=google|released\.toml",
        command,
    )
]
"""Not those that read what the hub alone has, beside BERT-base and GLUE."""


@pytest.mark.parametrize("command", READ)
@pytest.mark.slow
def test_a_command_that_reads_runs_as_it_is_printed(bench, command, monkeypatch):
    monkeypatch.chdir(ROOT)
    answer = bench(*shlex.split(command))
    assert answer.returncode == ANSWERS.get(command.split()[0], 0), answer.stderr
    assert answer.stdout


@pytest.mark.parametrize("command", PLANNED)
@pytest.mark.slow
def test_a_command_that_trains_can_be_planned(bench, command, embedded, monkeypatch):
    """With the embedded teacher and the sample data in the place of its own: rows, tasks and options are what a run takes."""
    words = shlex.split(command)[1:]
    for executor, package in (("ray", "ray"), ("slurm", "submitit")):
        if executor in words:
            pytest.importorskip(package, reason=f"needs the extra {executor!r}")
    if any("+int8" in word for word in words):
        pytest.importorskip("onnxruntime", reason="needs the extra 'onnx'")
    if "--address" in words:
        pytest.skip("needs a Ray cluster that is running")
    monkeypatch.chdir(ROOT)
    answer = bench("plan", *as_planned(words))
    assert answer.returncode == 0, answer.stderr
    assert answer.stdout


def as_planned(words: list[str]) -> list[str]:
    """The options of a command that `plan` has too, with what is there offline."""
    known = known_options(["plan"])
    words = [word for word in words if word not in ("--yes", "--offline")]
    pairs = dict(zip(words[::2], words[1::2], strict=True))
    kept = {
        name: value
        for name, value in pairs.items()
        if name in known and name not in ("--corpus", "--results")
    }
    kept |= {"--teacher": "embedded", "--data": "sample", "--device": "cpu"}
    # whole layers of a teacher as wide as BERT-base are as wide as the embedded one's here
    if "--methods" in kept:
        theirs = "hidden=768:ffn=3072"
        kept["--methods"] = kept["--methods"].replace(theirs, "hidden=384:ffn=1536")
    return [part for pair in kept.items() for part in pair]


@pytest.mark.slow
@pytest.mark.long
def test_the_site_builds_without_a_warning(tmp_path):
    pytest.importorskip("mkdocs", reason="needs the extra 'docs' (mkdocs, mkdocs-material)")
    pytest.importorskip("material", reason="needs the extra 'docs' (mkdocs-material)")
    words = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path)]
    env = {**os.environ, "NO_MKDOCS_2_WARNING": "true"}
    done = subprocess.run(words, cwd=pages.ROOT, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "WARNING" not in done.stderr
    assert (tmp_path / "repository" / "reports" / "LOG.html").is_file()
    # the lab book is longer than all pages together: they link to it, and the navigation does not
    assert "repository/reports/LOG.html" not in (tmp_path / "index.html").read_text()
