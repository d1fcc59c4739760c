"""The command that proves that nothing is lost: it ends well on this code, and it finds what is planted."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))  # the command's own modules

import fault_library

COMMAND = Path(__file__).parent
needs_compiler = pytest.mark.skipif(
    fault_library.compiler() is None or not sys.platform.startswith("linux"), reason="needs a C compiler, on Linux"
)


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    return fault_library.compiled(tmp_path_factory.mktemp("library"))


def in_a_process(library: Path, code: str) -> subprocess.CompletedProcess:
    """Some lines of Python in a process that has the library."""
    environment = {**os.environ, fault_library.PRELOADED: str(library), "LD_PRELOAD": str(library)}
    lines = (
        f"import sys\nsys.path.insert(0, {str(COMMAND)!r})\nimport fault_library as f\nfrom pathlib import Path\n{code}"
    )
    return subprocess.run([sys.executable, "-c", lines], env=environment, capture_output=True, text=True)


@needs_compiler
def test_the_library_counts_what_is_below_a_folder_alone(library, tmp_path):
    here = tmp_path / "here"
    here.mkdir()
    done = in_a_process(
        library,
        f"""
here = Path({str(here)!r})
f.arm(here, f.Action.COUNT)
(here.parent / "elsewhere").write_text("x")
assert f.seen() == 0
(here / "a").write_text("x")
assert f.seen() == 2, f.seen()
(here / "a").replace(here / "b")
(here / "b").read_text()
(here / "b").unlink()
assert f.seen() == 4, f.seen()
""",
    )
    assert done.returncode == 0, done.stderr


@needs_compiler
def test_the_library_fails_cuts_and_ends(library, tmp_path):
    failing = f"""
here = Path({str(tmp_path)!r})
f.arm(here, f.Action.FAIL_ONCE, 1, {errno.ENOSPC}, "write")
try:
    (here / "a").write_text("x")
    raise SystemExit(1)
except OSError as error:
    assert error.errno == {errno.ENOSPC} and error.filename is None
(here / "a").write_text("x")
f.arm(here, f.Action.SHORT, 1, 0, "write")
(here / "b").write_text("word" * 1000)
assert (here / "b").read_text() == "word" * 1000
f.arm(here, f.Action.TEAR, 1, 0, "write")
(here / "c").write_bytes(b"word" * 1000)
"""
    assert in_a_process(library, failing).returncode == -9
    assert (tmp_path / "c").read_bytes() == b"word" * 500
    ending = f"f.arm(Path({str(tmp_path)!r}), f.Action.END, 1)\n(Path({str(tmp_path)!r}) / 'd').write_text('x')"
    assert in_a_process(library, ending).returncode == -9
    assert not (tmp_path / "d").exists()


@needs_compiler
@pytest.mark.slow
@pytest.mark.long
def test_a_minute_of_the_command_finds_nothing():
    environment = {**os.environ, "FAULTS_SECONDS": "60", "FAULTS_PARTS": "enumeration,moments,files"}
    done = subprocess.run([sys.executable, str(COMMAND)], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "| part | points |" in done.stdout


@needs_compiler
@pytest.mark.slow
@pytest.mark.long
def test_a_planted_defect_is_found(tmp_path):
    """Records that are written in place, and not moved there, are cut by a kill within their writing."""
    planted = tmp_path / "planted"
    planted.mkdir()
    (planted / "sitecustomize.py").write_text(
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
    asked = {"FAULTS_SECONDS": "90", "FAULTS_PARTS": "enumeration", "FAULTS_POINTS": "attempt-1.json"}
    environment = {**os.environ, **asked, "PYTHONPATH": str(planted)}
    done = subprocess.run([sys.executable, str(COMMAND)], env=environment, capture_output=True, text=True)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "corrupt" in done.stdout
