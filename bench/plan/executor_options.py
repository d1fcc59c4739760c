"""Where the jobs of a run are done: ``--executor``, ``--address``, ``--slurm``. No part of a result's identity."""

from __future__ import annotations

import importlib.util
import shlex
import sys
from collections.abc import Iterable
from pathlib import Path

from bench.errors import InputError, unknown
from bench.user_files import comma_separated, is_file

PROCESSES, RAY, SLURM = "processes", "ray", "slurm"
EXECUTORS = (PROCESSES, RAY, SLURM)
PACKAGES = {RAY: "ray", SLURM: "submitit"}
"""Executor -> the package that it needs; the extra has the executor's name."""
CLUSTER, LOCAL = "cluster", "local"
"""``--slurm cluster=local`` starts the jobs on this machine, without Slurm."""
SETUP = "setup"
"""``--slurm setup=FILE``: lines of shell that every job of Slurm runs first, as ``module load cuda``."""
SBATCH = "sbatch."
"""``--slurm sbatch.licenses=NAME``: any other option of sbatch."""
SLURM_PARAMETERS = (
    CLUSTER, "account", "constraint", "exclude", "gres", "partition", "qos", "reservation", SETUP, "time"
)  # fmt: skip
"""What ``--slurm`` takes: time in minutes, the file of :data:`SETUP`, the others as sbatch has them."""
SLURM_MINUTES = 24 * 60
"""How long a job of Slurm may take unless ``--slurm time=`` says else; chosen by hand."""
SLURM_JOBS = 100
"""How many jobs are in Slurm's queue at a time where nobody says a number; chosen by hand."""


def named_values(option: str, texts: Iterable[str], known: Iterable[str], example: str) -> tuple[tuple[str, str], ...]:
    """``["partition=gpu", "time=120"]`` -> (name, value), in alphabetical order.

    Raises:
        InputError: not NAME=VALUE, a name that is not known, or one given twice.
    """
    values: dict[str, str] = {}
    for text in texts:
        name, _, value = (word.strip() for word in text.partition("="))
        if not value:
            raise InputError(f"{option} {text}: give {example}")
        if name not in known:
            raise unknown(f"name of {option}", name, list(known))
        if name in values:
            raise InputError(f"{option} {text}: {name} is given twice")
        values[name] = value
    return tuple(sorted(values.items()))


def parse_slurm(text: str) -> tuple[tuple[str, str], ...]:
    """``"partition=gpu,time=120"`` -> parameters of a request.

    Raises:
        InputError: as :func:`named_values`.
    """
    texts = comma_separated(text)
    further = [name for name in (part.partition("=")[0].strip() for part in texts) if name.startswith(SBATCH)]
    return named_values("--slurm", texts, (*SLURM_PARAMETERS, *further), "NAME=VALUE, like partition=gpu,time=120")


def check_executor(executor: str, address: str, slurm: Iterable[tuple[str, str]], device: str) -> None:
    """Refuse options that do not go together, and an executor whose package is missing.

    Raises:
        InputError: naming the option, or what to install.
    """
    if executor not in EXECUTORS:
        raise InputError(f"--executor {executor}: choose one of {', '.join(EXECUTORS)}")
    if address and executor != RAY:
        raise InputError("--address goes with --executor ray")
    if slurm and executor != SLURM:
        raise InputError("--slurm goes with --executor slurm")
    given = dict(slurm)
    minutes = given.get("time", "1")
    if not minutes.isdecimal() or len(minutes) > 7 or int(minutes) == 0:
        raise InputError(f"--slurm time={minutes}: give a whole number of minutes, from 1 on")
    if given.get(CLUSTER, SLURM) not in (SLURM, LOCAL):
        raise InputError(f"--slurm {CLUSTER}={given[CLUSTER]}: choose {SLURM} or {LOCAL}")
    if SETUP in given and not is_file(Path(given[SETUP]).expanduser()):
        raise InputError(
            f"--slurm {SETUP}={given[SETUP]}: no such file; it has the lines of shell that each job runs first"
        )
    if executor == PROCESSES:
        return
    if ":" in device:
        raise InputError(
            f"--device {device}: with --executor {executor} each job has an accelerator of its own; "
            f"type --device {device.partition(':')[0]}"
        )
    if importlib.util.find_spec(PACKAGES[executor]) is None:
        raise InputError(
            f"--executor {executor} needs the package {PACKAGES[executor]}; type in the folder of the project: "
            f"{shlex.quote(sys.executable)} -m pip install -c constraints.txt -e '.[{executor}]'"
        )
