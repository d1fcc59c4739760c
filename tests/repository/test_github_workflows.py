"""The workflows type commands that exist."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

WORKFLOWS = sorted((Path(__file__).parents[2] / ".github" / "workflows").glob("*.yml"))
COMMANDS = [
    command
    for file in WORKFLOWS
    for job in yaml.safe_load(file.read_text())["jobs"].values()
    for step in job["steps"]
    for command in re.findall(r"python -m bench [^|\n]+", step.get("run", ""))
]


@pytest.mark.parametrize("command", COMMANDS, ids=lambda c: c.split()[3])
def test_commands_of_the_workflows_have_these_options(command):
    verb = command.split()[3]
    known = subprocess.run([sys.executable, "-m", "bench", verb, "--help"], capture_output=True, text=True, check=True)
    for option in re.findall(r"--[a-z-]+", command):
        assert option in known.stdout, option
    if "--baseline" in command:
        (baseline,) = re.findall(r"--baseline (\S+)", command)
        assert any((WORKFLOWS[0].parents[2] / baseline).glob("*/*/*/current"))


def test_there_is_a_gate():
    assert {c.split()[3] for c in COMMANDS} == {"run", "check"}
