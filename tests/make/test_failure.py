"""What a record says of an error shows nothing of this machine, and leaves everything else as it was."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest

from bench.make.failure import redact_paths

ROOT = Path(__file__).parents[2]


@pytest.fixture
def _known_folders(monkeypatch, tmp_path):
    monkeypatch.setattr(tempfile, "tempdir", "/tmp")
    monkeypatch.setenv("HOME", "/home/somebody")
    monkeypatch.setenv("BERT_BENCH_CACHE", "/home/somebody/cache")
    monkeypatch.chdir(tmp_path)


@pytest.mark.usefixtures("_known_folders")
@pytest.mark.parametrize(
    "path, shown",
    [
        ("/tmp/x/y.bin", "<temporary>/x/y.bin"),
        ("/home/somebody/cache/teachers/1", "<cache>/teachers/1"),
        ("/home/somebody/notes/a.txt", "~/notes/a.txt"),
        ("/scratch/alice/model.safetensors", "<elsewhere>/model.safetensors"),
        ("/scratch/tmp/alice/model.safetensors", "<elsewhere>/model.safetensors"),
        ("/tmpfiles/alice/model.safetensors", "<elsewhere>/model.safetensors"),
        ("file:/scratch/alice/model.safetensors", "file:<elsewhere>/model.safetensors"),
        ("file:///home/somebody/notes/a.txt", "file://~/notes/a.txt"),
        ("error:/scratch/alice/x.py", "error:<elsewhere>/x.py"),
        ("PATHS=/scratch/alice/lib:/scratch/bob/lib:/home/somebody/lib", "PATHS=<elsewhere>/lib:<elsewhere>/lib:~/lib"),
        (f"{ROOT}/bench/make/students.py", "bench/make/students.py"),
    ],
)
def test_folders_of_this_machine_are_not_shown(path, shown):
    assert redact_paths(f'cannot open {path}, line 3: "{path}"') == f'cannot open {shown}, line 3: "{shown}"'


@pytest.mark.usefixtures("_known_folders")
@pytest.mark.parametrize("folder", ["/", "/tmp"])
def test_web_addresses_stay(monkeypatch, folder):
    monkeypatch.chdir(folder)
    said = "https://huggingface.co/docs and https://a.b/tmp/x and http://h:80/tmp/x cannot be reached"
    assert redact_paths(said) == said
