"""Which code computes a result: what moves its digest, what does not, and that no file that runs is missing."""

from __future__ import annotations

import ast
import itertools
import sys
from pathlib import Path

import pytest

import methods
from bench.record.code import digest_of, files_of, metric_modules, student_modules
from bench.record.stated import stated
from bench.stats.metrics import METRICS

ROOT = Path(__file__).resolve().parents[2]
NUMBER = itertools.count()
PACKAGE = {
    "__init__.py": "from .mine import Mine\n",
    "mine.py": '''
"""A method."""
from typing import TYPE_CHECKING

import torch

from . import losses
from .base import Base

if TYPE_CHECKING:
    from .hints import Hint


class Mine(Base):
    """What it does."""

    def loss(self, ours: "Hint", theirs):
        from .late import shift

        return losses.mean(shift(ours), theirs)
''',
    "losses.py": 'def mean(a, b):\n    """Over everything."""\n    return (a - b).mean()  # a remark\n',
    "base.py": "class Base:\n    version = 3\n",
    "late.py": "def shift(x):\n    return x + 1\n",
    "hints.py": "class Hint:\n    size = 1\n",
    "unused.py": "def nothing():\n    return 1\n",
}


def digest_after(
    folder: Path, monkeypatch: pytest.MonkeyPatch, file: str = "", old: str = "", new: str = ""
) -> str:
    """The digest of the package's method after an edit; each package has a name of its own."""
    name = f"shrink{next(NUMBER)}"
    (folder / name).mkdir()
    for part, text in PACKAGE.items():
        assert part != file or old in text
        (folder / name / part).write_text(text.replace(old, new) if part == file else text)
    monkeypatch.syspath_prepend(folder)
    digest = digest_of((f"{name}.mine",))
    assert digest
    assert digest == digest_of((f"{name}.mine",))
    assert name not in sys.modules, "it was imported"
    return digest


@pytest.mark.parametrize(
    ("file", "old", "new", "moves"),
    [
        ("mine.py", "losses.mean(", "losses.mean(2 * ", True),
        ("losses.py", ".mean()", ".sum()", True),
        ("base.py", "3", "4", True),
        ("late.py", "x + 1", "x + 2", True),
        ("mine.py", '"""What it does."""', '"""Another text."""', False),
        ("losses.py", "# a remark", "# another", False),
        ("losses.py", "(a - b).mean()", "(a - b).mean(\n    )", False),
        ("hints.py", "1", "2", False),
        ("unused.py", "1", "2", False),
    ],
)
def test_an_edit_moves_the_digest_of_what_is_computed_by_it(
    tmp_path, monkeypatch, file, old, new, moves
):
    assert (
        digest_after(tmp_path, monkeypatch, file, old, new) != digest_after(tmp_path, monkeypatch)
    ) == moves


@pytest.mark.parametrize(
    ("file", "moves"),
    [
        ("{name}_helper.py", True),
        ("{name}_parts/losses.py", True),
        ("{name}_unused.py", False),
        ("env/site-packages/{name}_installed.py", False),
    ],
)
def test_what_lies_beside_a_method_of_one_file_counts_too(tmp_path, monkeypatch, file, moves):
    """Planted: a helper beside the method's file was edited, and its records stayed current."""
    digests = []
    for scale in (1, 2):
        name, folder = f"alone{next(NUMBER)}", tmp_path / str(scale)
        text = "from NAME_helper import scale\nfrom NAME_parts import losses\nimport NAME_installed\nclass Mine:\n    of = scale\n"
        files = {
            "NAME.py": text,
            "{name}_helper.py": "",
            "{name}_parts/__init__.py": "",
            "{name}_parts/losses.py": "",
            "{name}_unused.py": "",
        }
        files |= {"env/site-packages/{name}_installed.py": ""} | {file: f"SCALE = {scale}\n"}
        for part, content in files.items():
            path = folder / part.replace("NAME", name).format(name=name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content.replace("NAME", name))
        monkeypatch.syspath_prepend(folder)
        monkeypatch.syspath_prepend(folder / "env" / "site-packages")
        digests.append({text.replace(name, "NAME") for text in files_of((name,)).values()})
    assert (digests[0] != digests[1]) == moves


def test_fields_that_another_version_of_python_adds_move_no_digest(tmp_path, monkeypatch):
    """As 3.12 did with ``type_params``; and no version writes syntax back as source, which each quotes in its own way."""
    today = digest_after(tmp_path, monkeypatch)
    monkeypatch.setattr(ast, "unparse", lambda tree: pytest.fail("source is written back"))
    monkeypatch.setattr(ast.FunctionDef, "_fields", (*ast.FunctionDef._fields, "added"))
    monkeypatch.setattr(ast.FunctionDef, "added", [], raising=False)
    assert digest_after(tmp_path, monkeypatch) == today


def test_a_method_counts_for_itself_alone_and_what_is_not_there_has_no_digest():
    digests = {name: digest_of(student_modules(name, ("f1", "accuracy"))) for name in methods.TABLE}
    assert all(digests.values())
    assert len(set(digests.values())) == len(
        {methods.reference(name).partition(":")[0] for name in digests}
    )
    assert digest_of(student_modules("kd", ("f1",))) != digest_of(
        student_modules("kd", ("pearson",))
    )
    assert digest_of(("methods.gone",)) == ""


@pytest.mark.slow
@pytest.mark.parametrize("name", ["kd", "tinybert", "microbert", "moebert", "bilstm"])
def test_every_file_that_runs_in_a_training_counts(name):
    from bench.conformance.tiny_bench import SHORT, Bench

    kind = methods.get(name)
    small = Bench(kind(**getattr(kind, "tiny_settings", {})), 2)
    assert small.setup.artefacts is not None  # what is prepared has a code of its own
    ran: set[str] = set()
    outer = sys.getprofile()
    sys.setprofile(
        lambda frame, event, argument: (
            ran.add(frame.f_code.co_filename) if event == "call" else None
        )
    )
    try:
        small.logits(next(iter(small.deployed(small.trained(recipe=SHORT)).values())))
    finally:
        sys.setprofile(outer)
    inside = [
        Path(file).relative_to(ROOT)
        for file in ran
        if file.startswith((f"{ROOT}/bench", f"{ROOT}/methods"))
    ]
    modules = {".".join(path.with_suffix("").parts).removesuffix(".__init__") for path in inside}
    computing = {
        name for name in modules if not name.startswith(("bench.conformance", "bench.errors"))
    }
    assert "bench.train.loop" in computing
    assert computing - set(files_of(student_modules(name))) <= {"methods"}


def test_the_version_is_read_without_importing_the_method():
    assert {name: stated(name, "version") for name in methods.TABLE} == {
        name: methods.get(name).version for name in methods.TABLE
    }
    assert stated("teacher", "version") is None
    assert stated("nobody/method", "version") is None


@pytest.mark.parametrize("name", METRICS)
def test_a_metric_is_known_by_a_file_of_its_folder(name):
    """Also where its score is a partial, whose own module is functools."""
    (module,) = metric_modules([name])
    assert module.startswith("bench.stats.metrics.")
