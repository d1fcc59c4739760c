"""Consoles of any encoding: nothing that is printed ends in an error of its characters."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from pathlib import Path

import pytest

from bench.cli.app import print_in_any_encoding
from bench.errors import BAD_INPUT, OK

ROOT = Path(__file__).resolve().parents[2]


def in_a_console_of(encoding: str, *words: str | Path) -> subprocess.CompletedProcess[bytes]:
    """The program as a person starts it, under a console of this encoding."""
    console = {"PYTHONIOENCODING": encoding, "PYTHONUTF8": "0", "LC_ALL": "C"}
    return subprocess.run(
        [sys.executable, "-m", "bench", *map(str, words)],
        capture_output=True,
        cwd=ROOT,
        env=os.environ | console,
        timeout=300,
    )


@pytest.mark.parametrize("encoding", ["ascii", "cp1252", "cp437", "shift_jis", "utf-8"])
def test_what_the_encoding_lacks_is_escaped_on_both_streams(encoding, monkeypatch):
    said = "81.2 ± 0.4, позитив, 否定, – ≤ … 😀 \udcd0"
    streams = {}
    for name in ("stdout", "stderr"):
        streams[name] = io.TextIOWrapper(io.BytesIO(), encoding=encoding, errors="strict")
        monkeypatch.setattr(sys, name, streams[name])
    print_in_any_encoding()
    for stream in streams.values():
        print(said, file=stream, end="")
        stream.flush()
        assert stream.buffer.getvalue() == said.encode(encoding, "backslashreplace")


@pytest.mark.parametrize("stream", [None, io.StringIO()])
def test_streams_that_are_no_files_stay_as_they_are(stream, monkeypatch):
    monkeypatch.setattr(sys, "stdout", stream)
    print_in_any_encoding()
    assert sys.stdout is stream


@pytest.fixture
def classes(tmp_path):
    rows = [f"good text {place},{('позитив', '否定')[place % 2]}" for place in range(60)]
    file = tmp_path / "reviews.csv"
    file.write_text("\n".join(["text,label", *rows]), encoding="utf-8")
    return file


@pytest.mark.slow
@pytest.mark.parametrize("encoding", ["cp1252", "ascii"])
def test_classes_in_other_scripts_are_shown_on_any_console(classes, encoding):
    shown = [
        in_a_console_of(own, "data", "--tasks", classes, "--data", "sample", "--offline")
        for own in (encoding, "utf-8")
    ]
    assert [answer.returncode for answer in shown] == [OK, OK]
    assert "позитив" in shown[1].stdout.decode()
    assert shown[0].stdout == shown[1].stdout.decode().encode(encoding, "backslashreplace")


@pytest.mark.slow
def test_a_name_that_the_system_cannot_read_is_refused_before_anything_is_trained(tmp_path):
    file = tmp_path / "отзывы.csv"
    file.write_text("text,label\na,1\n", encoding="utf-8")
    answer = in_a_console_of("ascii", "run", "--methods", "kd", "--tasks", file)
    assert answer.returncode == BAD_INPUT
    assert len(answer.stderr.splitlines()) == 1
    assert b"--tasks: the name has characters" in answer.stderr
    assert b"PYTHONUTF8=1" in answer.stderr
