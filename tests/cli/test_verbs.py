"""Which verbs there are: at most 16 in ``--help``, each with its forms; earlier ones say what to type now."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from typer.main import get_command

from bench.cli import app
from bench.cli.program import MOVED, SECTIONS, with_form
from bench.errors import InputError

ROOT = Path(__file__).resolve().parents[2]
COMMANDS = get_command(app).commands
MOST_VERBS = 16


def test_help_lists_at_most_16_verbs_each_once():
    listed = [name for names in SECTIONS.values() for name in names]
    visible = [name for name, verb in COMMANDS.items() if not verb.hidden]
    assert sorted(listed) == sorted(visible)
    assert len(visible) <= MOST_VERBS
    hidden = {name for name in COMMANDS if name not in visible}
    assert hidden == {"store", *(name for name in hidden if " --" in name)}


def test_help_names_every_verb_under_what_a_person_wants(bench):
    answer = bench("--help")
    assert answer.returncode == 0
    places = []
    for heading, names in SECTIONS.items():
        places.append(answer.stdout.index(f"\n{heading}:\n"))
        for name in names:
            found = re.search(rf"^  {name}  ", answer.stdout, re.MULTILINE)
            assert found, name
            places.append(found.start())
    assert places == sorted(places)
    assert "store" not in answer.stdout


@pytest.mark.parametrize("verb", MOVED)
def test_an_earlier_verb_says_in_one_line_what_to_type_now(bench, verb):
    answer = bench(verb, "b8aa0426", "--results", "nowhere")
    assert answer.returncode == 2
    (line,) = answer.stderr.splitlines()
    assert line == f"bench: {verb} has moved; type: python -m bench {MOVED[verb]}"
    words = MOVED[verb].replace("...", "").split()
    name, *_ = with_form(words, COMMANDS)
    assert name in COMMANDS
    known = {option for param in COMMANDS[name].params for option in param.opts}
    form = name.partition(" ")[2]
    assert {word for word in words if word.startswith("--")} <= {*known, form}
    assert COMMANDS[name].callback.__name__ == verb


@pytest.mark.parametrize("form", [name for name in COMMANDS if " --" in name])
def test_the_help_of_a_verb_names_its_forms_and_each_has_its_own(bench, form):
    verb, option = form.split()
    assert f"  {form}  " in bench(verb, "--help").stdout
    own = bench(verb, option, "--help")
    assert own.returncode == 0
    assert f"python -m bench {form} " in own.stdout


def test_the_option_of_a_form_stands_anywhere():
    names = COMMANDS.keys()
    for words in (["show", "--why", "b8", "--json", "f"], ["show", "b8", "--json", "f", "--why"]):
        assert with_form(words, names) == ["show --why", "b8", "--json", "f"]
    assert with_form(["show", "b8"], names) == ["show", "b8"]
    # behind -- nothing is an option
    assert with_form(["show", "--", "--why"], names) == ["show", "--", "--why"]
    with pytest.raises(InputError, match="--why and --trace do not go together"):
        with_form(["show", "--why", "--trace", "3.1"], names)


def test_an_option_of_another_form_is_refused(bench):
    for words in (
        ["show", "b8aa0426", "--epochs", 3],
        ["compare", "--power", "--exact"],
        ["export", "--convert", "here", "--row", "kd"],
    ):
        answer = bench(*words)
        assert answer.returncode == 2
        assert "No such option" in answer.stderr


def test_help_of_run_shows_what_people_use_and_help_all_the_rest(bench):
    def options(*words: str) -> set[str]:
        return set(re.findall(r"^  (?:-\w, )?(--[a-z-]+)", bench("run", *words).stdout, re.M))

    shown = options("--help") - {"--help", "--help-all"}
    assert 8 <= len(shown) <= 12
    assert {"--methods", "--tasks", "--data", "--teacher", "--seeds", "--jobs"} <= shown
    every = options("--help-all") - {"--help", "--help-all"}
    assert shown < every
    assert {"--optimizer", "--slurm", "--only", "--table"} <= every
    hidden = len(every - shown)
    assert f"Show {hidden} more options." in bench("run", "--help").stdout


def test_no_page_or_message_names_an_earlier_verb():
    """But for the history of changes, and the lab book."""
    earlier = re.compile(rf"\bbench ({'|'.join(MOVED)})\b|`({'|'.join(MOVED)}) [A-Z+<{{]")
    files = [
        file
        for pattern in ("*.md", "bench/**/*.py", "methods/**/*", "docs/**/*.md", "notebooks/*", ".github/**/*")
        for file in ROOT.glob(pattern)
        if file.is_file() and file.suffix != ".pyc" and file.name != "CHANGELOG.md"
    ]  # fmt: skip
    assert len(files) > 200
    for file in files:
        found = earlier.search(file.read_text(encoding="utf-8"))
        assert not found, f"{file}: {found}"
