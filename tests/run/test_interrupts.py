"""Ctrl-C ends a run, also where a library makes another error of it or drops it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
import tiny

from bench import interrupts
from bench.make import students
from bench.record.store import Store

ROOT = Path(__file__).resolve().parents[2]
SMALL = f"{tiny.SHAPE}:start=random"
pytestmark = pytest.mark.skipif(
    threading.current_thread() is not threading.main_thread(),
    reason="signals are handled in the main thread",
)


def pressed():
    """Ctrl-C, here and now."""
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(1)


@pytest.fixture
def typed(places):
    return (
        "run",
        "--tasks",
        "rte",
        "--epochs",
        1,
        "--methods",
        f"kd:{SMALL}",
        *places,
        "--jobs",
        1,
        "--seeds",
        "0,1",
    )


@pytest.mark.parametrize("swallowed", [False, True], ids=["another error", "dropped"])
def test_what_a_library_makes_of_ctrl_c_is_no_failed_cell(
    bench, typed, tmp_path, monkeypatch, swallowed
):
    build = students.build

    def built(*given):
        try:
            pressed()
        except KeyboardInterrupt:
            if not swallowed:
                raise SystemError("a library returned a result with an exception set") from None
        return build(*given)

    monkeypatch.setattr(students, "build", built)
    done = bench(*typed)
    assert done.returncode == 130, done.stdout + done.stderr
    there = [r.status for r in Store(tmp_path / "r").records() if r.cell.method == "kd"]
    assert "failed" not in there
    assert there.count("ok") == swallowed, "no job was begun after it"
    monkeypatch.setattr(students, "build", build)
    again = bench(*typed)
    assert again.returncode == 0, again.stderr
    assert [r.status for r in Store(tmp_path / "r").records()] == ["ok"] * 3, (
        "a teacher and two students"
    )


def test_it_is_forgotten_when_the_run_has_ended():
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt), interrupts.interrupts_noticed():
        pressed()
    interrupts.end_if_interrupted()
    assert signal.getsignal(signal.SIGINT) is before


@pytest.mark.parametrize("library", ["typer", "torch"])
@pytest.mark.slow
def test_ctrl_c_while_something_is_imported_is_one_line(tmp_path, library):
    """The library makes another error of it, as some do."""
    (tmp_path / f"{library}.py").write_text(
        "import os, signal, time\ntry:\n    os.kill(os.getpid(), signal.SIGINT)\n    time.sleep(5)\n"
        "except KeyboardInterrupt:\n    raise ImportError('half a library') from None\n"
    )
    words = [
        sys.executable,
        "-m",
        "bench",
        "plan",
        "--methods",
        "kd",
        "--tasks",
        "rte",
        "--data",
        "sample",
    ]
    path = os.pathsep.join([str(tmp_path), str(ROOT)])
    done = subprocess.run(
        [*words, "--teacher", "embedded", "--results", str(tmp_path / "r")],
        env={**os.environ, "PYTHONPATH": path},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    assert (done.returncode, done.stderr.strip()) == (130, "bench: interrupted")
