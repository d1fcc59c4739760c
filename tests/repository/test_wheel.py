"""What is installed: the data that reports and experiments read are in the wheel, and are read from there."""

from __future__ import annotations

import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
HOOK = "from setuptools import build_meta; import sys; print(build_meta.build_wheel(sys.argv[1]))"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel that an installer would build of this tree."""
    folder = tmp_path_factory.mktemp("tree")
    for name in ("bench", "methods"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, folder / name)
    (folder / "dist").mkdir()
    done = subprocess.run(
        [sys.executable, "-c", HOOK, "dist"], cwd=folder, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    (made,) = (folder / "dist").glob("*.whl")
    return made


def test_every_file_of_the_packages_is_in_the_wheel(wheel):
    files = [
        path.relative_to(ROOT)
        for name in ("bench", "methods")
        for path in (ROOT / name).rglob("*.*")
    ]
    wanted = {
        path.as_posix()
        for path in files
        if "__pycache__" not in path.parts and (ROOT / path).is_file()
    }
    assert sum(name.endswith(".csv") for name in wanted) > 10
    assert sum(name.endswith(".toml") for name in wanted) > 10
    assert wanted <= set(zipfile.ZipFile(wheel).namelist())


def test_there_is_one_source_of_the_version(wheel):
    from bench import __version__

    assert f"bert_bench-{__version__}-" in wheel.name
    citation = (ROOT / "CITATION.cff").read_text()
    assert f"\nversion: {__version__}\n" in citation
    assert f"\n## {__version__}" in (ROOT / "CHANGELOG.md").read_text()
