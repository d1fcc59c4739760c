"""The command that proves that nothing is lost: it ends well on this code, and it finds what is planted."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.long]


def faults(**environment: str) -> subprocess.CompletedProcess:
    words = [sys.executable, str(Path(__file__).parent)]
    return subprocess.run(words, env={**os.environ, **environment}, capture_output=True, text=True)


def test_a_minute_of_the_command_finds_nothing():
    done = faults(FAULTS_SECONDS="60")
    assert done.returncode == 0, done.stdout + done.stderr
    assert " 0 defects" in done.stdout


def test_a_planted_defect_is_found(tmp_path):
    """Records that are written in place, and not moved there, are cut by a kill within their writing."""
    (tmp_path / "sitecustomize.py").write_text(
        "import sys\n"
        "class Plant:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name == 'bench.workflows.run':\n"
        "            sys.meta_path.remove(self)\n"
        "            import bench.record.store as store\n"
        "            store.write_atomically = lambda path, data: (path.parent.mkdir(parents=True, exist_ok=True),"
        " path.write_bytes(data))\n"
        "sys.meta_path.insert(0, Plant())\n"
    )
    path = os.pathsep.join([str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])])
    done = faults(FAULTS_SECONDS="90", FAULTS_POINTS="attempt-1.json", PYTHONPATH=path)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "corrupt" in done.stdout
