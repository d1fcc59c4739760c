"""The workflows type commands that exist."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

WORKFLOWS = sorted((Path(__file__).parents[2] / ".github" / "workflows").glob("*.yml"))
ACTION = yaml.safe_load((WORKFLOWS[0].parents[2] / "action.yml").read_text())
JOBS = [job for file in WORKFLOWS for job in yaml.safe_load(file.read_text())["jobs"].values()]
STEPS = [step for job in JOBS for step in job["steps"]]
COMMANDS = [
    command
    for step in [*STEPS, *ACTION["runs"]["steps"]]
    for command in re.findall(r"python -m bench [^|\n]+", step.get("run", ""))
]


@pytest.mark.parametrize("command", COMMANDS, ids=lambda c: c.split()[3])
def test_commands_of_the_workflows_have_these_options(command):
    verb = command.split()[3]
    known = subprocess.run([sys.executable, "-m", "bench", verb, "--help"], capture_output=True, text=True, check=True)
    for option in re.findall(r"--[a-z-]+", command):
        assert option in known.stdout, option


def test_the_gate_uses_the_action_with_inputs_that_it_has_and_a_baseline_that_is_there():
    assert {c.split()[3] for c in COMMANDS} == {"run", "check"}
    (given,) = [step["with"] for step in STEPS if step.get("uses") == "./"]
    assert given.keys() <= ACTION["inputs"].keys()
    assert {name for name, each in ACTION["inputs"].items() if each.get("required")} <= given.keys()
    assert any((WORKFLOWS[0].parents[2] / given["baseline"]).glob("*/*/*/current"))
