"""The site of docs/: a link to nothing and a page that is out of date stop its build."""

from __future__ import annotations

import os
import subprocess
import sys

import pages
import pytest


@pytest.mark.slow
def test_the_site_builds_without_a_warning(tmp_path):
    pytest.importorskip("mkdocs", reason="needs the extra 'docs' (mkdocs, mkdocs-material)")
    pytest.importorskip("material", reason="needs the extra 'docs' (mkdocs-material)")
    words = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path)]
    env = {**os.environ, "NO_MKDOCS_2_WARNING": "true"}
    done = subprocess.run(words, cwd=pages.ROOT, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "WARNING" not in done.stderr
    assert (tmp_path / "repository" / "reports" / "LOG.html").is_file()
    assert "repository/reports/LOG.html" in (tmp_path / "index.html").read_text()
