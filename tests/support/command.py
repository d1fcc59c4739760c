"""The command line within the test's process: what `python -m bench WORDS` answers, without importing torch again."""

from __future__ import annotations

import sys
from dataclasses import dataclass

import pytest

from bench.cli import main


@dataclass(frozen=True)
class Answer:
    returncode: int
    stdout: str
    stderr: str


class Command:
    """Call it with the words of a command line."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        self._monkeypatch, self._capsys = monkeypatch, capsys

    def __call__(self, *words: object) -> Answer:
        self._monkeypatch.setattr(sys, "argv", ["bench", *map(str, words)])
        self._capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            main()
        seen = self._capsys.readouterr()
        code = ended.value.code
        assert isinstance(code, int)
        return Answer(code, seen.out, seen.err)
