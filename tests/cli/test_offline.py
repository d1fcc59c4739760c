"""No verb opens a socket: with --offline where it has that option, and without it where it has none."""

from __future__ import annotations

import socket
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import tiny
import torch
import typer

from bench import api
from bench.cli import app

ROWS = f"finetune:{tiny.SHAPE}:start=random,kd:{tiny.SHAPE}:start=random"


class Refused(OSError):
    """A connection was asked for."""


@contextmanager
def no_sockets(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Inside, nothing reaches the internet; yields what was asked for. The hub's library is told of no offline mode."""
    asked: list[str] = []

    def refuse(*given: Any, **_: Any) -> Any:
        address = next((one for one in given if not isinstance(one, socket.socket)), "")
        if isinstance(given[0], socket.socket) and given[0].family == socket.AF_UNIX:
            raise Refused("no local sockets here either")
        asked.append(repr(address))
        raise Refused(f"a connection to {address!r} was asked for")

    with monkeypatch.context() as patch:
        for name in ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE", "HF_DATASETS_OFFLINE"):
            patch.delenv(name, raising=False)
        patch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
        patch.setattr("datasets.config.HF_HUB_OFFLINE", False)
        for name in ("connect", "connect_ex", "sendto"):
            patch.setattr(socket.socket, name, refuse)
        for name in ("getaddrinfo", "gethostbyname", "create_connection"):
            patch.setattr(socket, name, refuse)
        yield asked


def verbs() -> dict[str, set[str]]:
    """Each verb and its options."""
    found = {}
    for name, one in typer.main.get_command(app).commands.items():
        below = one.commands if hasattr(one, "commands") else {"": one}
        for further, verb in below.items():
            found[f"{name} {further}".strip()] = {
                option for given in verb.params for option in given.opts
            }
    return found


@pytest.mark.slow
def test_no_verb_opens_a_socket(bench, monkeypatch, tmp_path, teacher_folder, glue_folder):
    results, reports, corpus = tmp_path / "results", tmp_path / "reports", tmp_path / "corpus.txt"
    corpus.write_text("the cat runs in the house .\na bird sings on the old tree .\n" * 30)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    asked_of = ["--data", glue_folder, "--teacher", teacher_folder]
    wanted = ["--methods", ROWS, "--tasks", "rte", *asked_of, "--epochs", 1, "--threads", 1]
    kept = ["--results", results]
    run = [*wanted, *kept, "--reports", reports, "--jobs", 1, "--yes"]
    with no_sockets(monkeypatch) as asked:
        assert bench("run", *run, "--offline").returncode == 0
        records = {record.cell.method: record for record in api.Store(results).records()}
        key, name = records["kd"].key[:16], records["kd"].cell.label
        (tmp_path / "paper.md").write_text("| row | rte |\n|---|---|\n| kd | 50.0 |\n")
        zipfile.ZipFile(tmp_path / "sent.zip", "w").close()
        old = tmp_path / "old"
        tiny.save_teacher(old)
        torch.save({"weight": torch.zeros(2)}, old / "pytorch_model.bin")
        words = {
            "plan": [*wanted, *kept],
            "status": [],
            "report": [*kept, "--reports", reports],  # before there are more of them
            "tune": ["--methods", f"kd:{tiny.SHAPE}:start=random", "--tasks", "rte", "--trials", 2, *asked_of,
                     "--epochs", 1, *kept, "--reports", reports, "--jobs", 1, "--yes"],
            "speed": ["--methods", ROWS, "--teacher", teacher_folder, "--lengths", 8, "--batches", 1, "--rounds", 6,
                      "--no-memory", *kept, "--reports", reports],
            "list": [],
            "show": [key, *kept],
            "compare": [name, records["finetune"].cell.label, *kept],
            "export --predictions": [name, "--to", tmp_path / "answers", *kept],
            "choose": ["--max-params", 5, *kept],
            "compare --power": ["--tasks", "rte", "--gap", 1.0],
            "show --trace": ["50.0", *kept],
            "speed --profile": ["--methods", ROWS],
            "show --why": [key, *kept, *asked_of, "--corpus", corpus],
            "check": ["--baseline", results, *kept],
            "verify": [key, *kept, *asked_of],
            "export": [key, "--to", tmp_path / "student", *kept, *asked_of],
            "speed --models": [tmp_path / "student", "--tasks", "rte", "--data", glue_folder, "--backends", "sdpa", "--rounds", 6],
            "export --submit": [tmp_path / "sent.zip"],
            "audit": [tmp_path / "paper.md"],
            "store verify": kept,
            "store repair": kept,
            "store gc": kept,
            "check-method": ["finetune"],
            "data": ["--data", glue_folder, "--tasks", "rte", "--out", tmp_path / "written"],
            "export --convert": [old, "--to", tmp_path / "converted"],
        }  # fmt: skip
        known = verbs()
        assert {"run", *words} == set(known), "a verb of this program is not tried"
        codes = {}
        for verb, given in words.items():
            offline = ["--offline"] if "--offline" in known[verb] else []
            answer = bench(*verb.split(), *given, *offline)
            assert "Traceback" not in answer.stderr, verb
            codes[verb] = answer.returncode, answer.stderr.strip().rpartition("\n")[2]
            assert not asked, f"{verb} asked for {asked}"
        wrong = {verb: code for verb, code in codes.items() if code[0] not in (0, 1, 3)}
        assert not wrong, wrong
        assert sum("--offline" in options for options in known.values()) >= 9
        # what needs the hub says so, and asks it for nothing
        planned = ["plan", "--methods", ROWS, "--tasks", "rte"]
        for more in (
            [*planned, "--data", "hub", "--teacher", teacher_folder],
            [*planned, "--data", glue_folder, "--teacher", "some/one"],
            ["speed", "--profile", "--methods", ROWS, "--teacher", "some/one"],
        ):
            answer = bench(*more, "--offline")
            assert answer.returncode == 2
            assert "offline nobody asks the hub" in answer.stderr
            assert not asked
