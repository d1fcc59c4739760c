"""The site of docs/: a link to nothing and a page that is out of date stop its build."""

from __future__ import annotations

import os
import subprocess
import sys

import pages
import pytest

TOOLS = pages.ROOT / "docs" / "tools"


@pytest.fixture
def hooks(monkeypatch):
    pytest.importorskip("mkdocs", reason="needs the extra 'docs' (mkdocs, mkdocs-material)")
    monkeypatch.syspath_prepend(str(TOOLS))
    import hooks

    return hooks


def test_a_generated_page_that_the_code_has_outgrown_is_named(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(TOOLS))
    import generate

    page = tmp_path / "hyperparameters.md"
    page.write_text("# Recipes\n\n<!-- generated: common recipe -->\nan old table\n<!-- end -->\n")
    fresh = generate.with_blocks(page.read_text())
    assert "| `batch_size` |" in fresh
    assert "an old table" not in fresh
    assert generate.with_blocks(fresh) == fresh


@pytest.mark.slow
def test_the_site_builds_without_a_warning(hooks, tmp_path):
    pytest.importorskip("material", reason="needs the extra 'docs' (mkdocs-material)")
    words = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path)]
    env = {**os.environ, "NO_MKDOCS_2_WARNING": "true"}
    done = subprocess.run(words, cwd=pages.ROOT, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "WARNING" not in done.stderr
    assert (tmp_path / "repository" / "reports" / "LOG.html").is_file()
    assert "repository/reports/LOG.html" in (tmp_path / "index.html").read_text()
