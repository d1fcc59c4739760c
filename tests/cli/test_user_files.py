"""Files that a person gives cost at most so much memory, whatever they hold."""

from __future__ import annotations

import os
import tracemalloc
from pathlib import Path

import pytest

from bench.errors import InputError
from bench.user_files import LARGEST_TOML, toml_of

ROOT = Path(__file__).resolve().parents[2]
MEGABYTES_AT_MOST = 300
DEEP = {
    "a key": "a." * 20_000 + "a = 1\n",
    "a table": "[" + "a." * 20_000 + "a]\n",
    "a table of a list": "[[" + "a . " * 20_000 + "a]]\n",
    "quoted": '"=". \'"\'.' * 10_000 + "a = 1\n",
    "in a table": "x = { y = '''it's''', " + "a." * 20_000 + "a = 1 }\n",
    "below others": "[a]\nb = 1\n" + "c." * 300 + "d = 1\n",
}


@pytest.mark.parametrize("text", DEEP.values(), ids=DEEP)
def test_a_long_dotted_key_is_refused_in_one_line(tmp_path, text):
    file = tmp_path / "paper.toml"
    file.write_text(text)
    tracemalloc.start()
    with pytest.raises(InputError, match=r"paper\.toml: more than 256 dots \(at line \d\)"):
        toml_of(file, "--experiment paper.toml")
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 5e6


def test_the_most_expensive_keys_that_are_read_need_little_memory(tmp_path):
    """A file of them alone has some 500."""
    key = "a." * 254 + "a = 1\n"
    text = "".join(f"k{number}.{key}" for number in range(20))
    (tmp_path / "paper.toml").write_text(text)
    tracemalloc.start()
    assert len(toml_of(tmp_path / "paper.toml", "paper.toml")) == 20
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most / len(text) * LARGEST_TOML < MEGABYTES_AT_MOST * 1e6


def test_a_large_file_is_refused_before_it_is_read(tmp_path):
    file = tmp_path / "paper.toml"
    with file.open("wb") as sparse:
        sparse.truncate(50 * 10**9)
    with pytest.raises(InputError, match=r"paper\.toml: larger than 0\.3 MB"):
        toml_of(file, "--experiment paper.toml")


def test_a_pipe_is_read(tmp_path):
    """As ``--experiment <(command)`` of a shell."""
    end, start = os.pipe()
    os.write(start, b"a.b = 1\n")
    os.close(start)
    assert toml_of(Path(f"/dev/fd/{end}"), "--experiment") == {"a": {"b": 1}}
    os.close(end)


def test_the_programs_own_files_are_read():
    files = [*ROOT.glob("methods/experiments/*.toml"), ROOT / "pyproject.toml"]
    for file in files:
        assert toml_of(file, file.name)
