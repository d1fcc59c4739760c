"""Every command of the page on GPUs is planned: on a machine with two of them, and a hub that has what the page names."""

from __future__ import annotations

import pages
import pandas
import pytest
import tiny
import torch
from local_hub import served

from bench.data import checkpoints, sources
from bench.plan import estimate

PAGE = pages.commands((pages.ROOT / "docs" / "gpu.md").read_text())
# speed trains nothing that is planned, and --address needs a Ray cluster that is running
COMMANDS = list(
    dict.fromkeys(
        tuple(words) for words in PAGE if words[0] != "speed" and "--address" not in words
    )
)

FEWER = {"all": "kd,microbert", "glue": "rte,stsb"}
"""In the place of all methods and tasks, which test_readme.py plans."""


@pytest.fixture(scope="module")
def everything(tmp_path_factory):
    """All repositories in one: this hub answers for every name."""
    folder = tmp_path_factory.mktemp("hub")
    tiny.write_glue(folder, ("mnli", "rte", "stsb"), rows=12)
    tiny.save_teacher(folder, layers=12, hidden=24, heads=12)
    for config in ("wikitext-103-raw-v1", "plain_text"):
        (folder / config).mkdir()
        texts = pandas.DataFrame(
            {"text": ["the cat runs in the house and the old bird sings"] * 50}
        )
        texts.to_parquet(folder / config / "train-00000-of-00001.parquet", index=False)
    return folder


@pytest.fixture
def two_gpus(monkeypatch):
    monkeypatch.setattr(
        "bench.measure.devices.device_of", lambda name, deterministic: torch.device("cuda")
    )
    monkeypatch.setattr(torch.accelerator, "is_available", lambda: True)
    monkeypatch.setattr(torch.accelerator, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (80e9, 80e9))
    monkeypatch.setattr(estimate, "rates_of_card", lambda device, precision: (1e14, 1e-5))
    monkeypatch.setattr(estimate, "flops_per_second", lambda threads, precision="fp32": 1e11)


@pytest.mark.slow
@pytest.mark.parametrize("words", COMMANDS, ids=lambda words: " ".join(words[-6:]))
def test_a_command_is_planned(words, everything, two_gpus, embedded, bench, tmp_path, monkeypatch):
    for executor, package in (("ray", "ray"), ("slurm", "submitit")):
        if executor in words:
            pytest.importorskip(package, reason=f"needs the extra {executor!r} ({package})")
    monkeypatch.setattr("bench.request.PUBLIC_TEXT", "hub:Salesforce/wikitext/wikitext-103-raw-v1")
    for remembered in (checkpoints._from_hub, sources.hub_folder):
        remembered.cache_clear()
    with served(everything, tmp_path / "hub cache", monkeypatch):
        planned = [
            FEWER.get(word, word) for word in words[1:] if word not in ("--yes", "--offline")
        ]
        for more in ([], ["--offline"]) if "--offline" in words else ([],):
            answer = bench("plan", *planned, "--results", tmp_path / "r", *more)
            assert answer.returncode == 0, answer.stderr
            assert "to do" in answer.stdout
    for remembered in (checkpoints._from_hub, sources.hub_folder):
        remembered.cache_clear()
