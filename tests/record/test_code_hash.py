"""Which code computes a result: what moves its hash, what does not, and that it misses nothing that runs."""

from __future__ import annotations

import ast
import itertools
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import tiny

import methods
from bench.record import code_hash
from bench.record.code_closure import HASHED_MODULES, Closure
from bench.record.code_hash import KINDS, code_of, student_code
from bench.record.python_modules import Module, file_of_module

ROOT = Path(__file__).resolve().parents[2]
NUMBER = itertools.count()
PACKAGE = {
    "__init__.py": "from .mine import Mine\n",
    "mine.py": '''
"""A method."""
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import torch

from . import losses
from .base import Base
from .losses import scale

if TYPE_CHECKING:
    from .elsewhere import Hint

WEIGHT = 2.0
LOSSES = {"mean": losses.mean, "total": losses.total}


def unused(x):
    return x + 1


@dataclass(frozen=True)
class Mine(Base):
    """What it does."""

    version: ClassVar[int] = 1
    ablations: ClassVar[dict] = {"w/o X": ":-x"}
    layers: int = 4

    def loss(self, ours: "Hint", theirs):
        from .late import shift

        if self.layers < 1:
            raise ValueError(f"layers={self.layers} is too few")
        return WEIGHT * scale(losses.mean(shift(ours), theirs)) + getattr(losses, "by_" + "name")(ours)

    def notes(self, setup):
        return ["read this"]
''',
    "losses.py": '''
from .more import by_sum
from .most import *


def mean(a, b):
    """Mean over everything."""
    return (a - b).square().mean()


def total(a, b):
    return (a - b).abs().sum()


def by_name(a):
    return a.max()


def scale(x):
    return factor() * x


def factor():
    return 3  # a third
''',
    "base.py": "class Base:\n    tiny_settings = {'layers': 1}\n\n    def build(self):\n        return self.layers * 2\n",
    "late.py": "import torch\n\ndef shift(x):\n    return x + 1\n\nREGISTER = {}\nREGISTER.setdefault('shift', shift)\n",
    "more.py": "from . import losses\n\n\ndef by_sum(a):\n    return a.sum()\n",
    "most.py": "def by_size(a):\n    return a.abs()\n",
    "elsewhere.py": "class Hint:\n    size = 1\n",
}


def hashed(folder: Path, monkeypatch: pytest.MonkeyPatch, edits: dict[str, tuple[str, str]], root: str = "") -> str:
    """The hash of the package's method after some edits: file -> (old, new). Each package has a name of its own."""
    name = f"shrink{next(NUMBER)}"
    place = folder / name
    place.mkdir()
    files = dict(PACKAGE)
    for file, (old, new) in edits.items():
        assert old in files[file] or not old, f"{old} is not in {file}"
        files[file] = files[file].replace(old, new) if old else files[file] + new
    for file, text in files.items():
        (place / file).write_text(text)
    monkeypatch.syspath_prepend(folder)
    found = code_of("computed", (f"{name}{root or ':Mine'}",)).hash
    assert name not in sys.modules, "hashing imported the package"
    return found


@pytest.mark.parametrize(
    "edits",
    [
        {"losses.py": (".square().mean()", ".square().mean() * 7")},
        {"losses.py": (".square().mean()", ".square().sum()")},
        {"losses.py": ("return 3", "return 4")},
        {"losses.py": ("a.max()", "a.min()")},
        {"more.py": ("a.sum()", "a.mean()")},
        {"most.py": ("a.abs()", "a.square()")},
        {"losses.py": (".abs()", ".exp()")},
        {"mine.py": ("WEIGHT = 2.0", "WEIGHT = 2.5")},
        {"mine.py": ("layers: int = 4", "layers: int = 5")},
        {"mine.py": ("self.layers < 1", "self.layers < 2")},
        {"mine.py": ("frozen=True", "frozen=False")},
        {"base.py": ("self.layers * 2", "self.layers * 3")},
        {"late.py": ("x + 1", "x + 2")},
        {"late.py": ("'shift', shift", "'shift', None")},
        {"mine.py": ("ValueError(", "TypeError(")},
        {"losses.py": ("return 3", "return 3.0")},
    ],
    ids=lambda edits: " -> ".join(next(iter(edits.values()))),
)
def test_an_edit_that_can_move_a_number_moves_the_hash(tmp_path, monkeypatch, edits):
    assert hashed(tmp_path, monkeypatch, edits) != hashed(tmp_path, monkeypatch, {})


@pytest.mark.parametrize(
    "edits",
    [
        {"losses.py": ("  # a third", "  # of three")},
        {"losses.py": ('"""Mean over everything."""', '"""Another text."""')},
        {"mine.py": ('    """What it does."""\n', "")},
        {"mine.py": ("x + 1", "x + 2")},
        {"mine.py": ("is too few", "must be more")},
        {"mine.py": ('ours: "Hint"', "ours")},
        {"elsewhere.py": ("size = 1", "size = 2")},
        {"mine.py": ("read this", "read that")},
        {"mine.py": ('"w/o X": ":-x"', '"without": ":-x"')},
        {"mine.py": ("version: ClassVar[int] = 1", "version: ClassVar[int] = 2")},
        {"base.py": ("'layers': 1", "'layers': 2")},
        {"mine.py": ("    def notes", "\n    # a remark\n\n    def notes")},
        {"late.py": ("import torch", "import torch.nn")},
    ],
    ids=lambda edits: " -> ".join(next(iter(edits.values()))),
)
def test_an_edit_that_cannot_move_a_number_leaves_the_hash(tmp_path, monkeypatch, edits):
    assert hashed(tmp_path, monkeypatch, edits) == hashed(tmp_path, monkeypatch, {})


def test_a_definition_may_move_to_another_file(tmp_path, monkeypatch):
    body = "\n\ndef factor():\n    return 3\n"
    moved = {
        "losses.py": ("\n\ndef factor():\n    return 3  # a third\n", "\nfrom .elsewhere import factor\n"),
        "elsewhere.py": ("", body),
    }
    assert hashed(tmp_path, monkeypatch, moved) == hashed(tmp_path, monkeypatch, {})


def test_a_class_is_found_by_its_file_and_by_its_package(tmp_path, monkeypatch):
    assert hashed(tmp_path, monkeypatch, {}, ".mine:Mine") == hashed(tmp_path, monkeypatch, {}, ":Mine")


@pytest.mark.parametrize("root", [".mine:Nobody", ".nowhere:Mine"])
def test_code_that_cannot_be_found_has_no_hash(tmp_path, monkeypatch, root):
    assert hashed(tmp_path, monkeypatch, {}, root) == ""


@pytest.mark.parametrize("kind", KINDS)
def test_every_definition_that_makes_something_is_there(kind):
    assert code_of(kind).hash


@pytest.mark.slow
def test_every_method_has_a_hash_of_its_own():
    found = {name: student_code(name, ("f1", "accuracy")).hash for name in methods.TABLE}
    assert all(found.values())
    assert len(set(found.values())) == len(found)


def test_a_metric_counts_for_the_tasks_that_are_scored_by_it():
    assert student_code("kd", ("f1",)).hash != student_code("kd", ("accuracy",)).hash
    assert code_of("scoring", ("bench.stats.metrics:FORMULAS[nothing]",)).hash == ""


FILES = {str(file_of_module(module)): module for module in HASHED_MODULES} | {
    str(file): f"methods.{file.stem}" for file in (ROOT / "methods").glob("*.py")
}


@contextmanager
def called() -> Iterator[set[tuple[str, str]]]:
    """Inside, every function of methods/ and of the computing part of bench/ that is called: its file and top-level name."""
    found: set[tuple[str, str]] = set()

    def note(frame, event, argument):
        if event == "call" and (module := FILES.get(frame.f_code.co_filename)):
            found.add((module, frame.f_code.co_qualname.split(".")[0]))

    outer = sys.getprofile()
    sys.setprofile(note)
    try:
        yield found
    finally:
        sys.setprofile(outer)
        found -= {(module, name) for module, name in found if name.startswith("<")}


def hashed_names(*roots: str) -> set[tuple[str, str]]:
    known = Closure({"bench", "methods"})
    for root in roots:
        known.enter(root)
    return known._seen


@pytest.mark.slow
@pytest.mark.parametrize("name", methods.TABLE)
def test_whatever_runs_in_a_training_is_hashed(name):
    from bench.conformance.tiny_bench import Bench

    kind = methods.get(name)
    small = Bench(kind(**getattr(kind, "tiny_settings", {})), 2)
    assert small.setup.artefacts is not None  # what is prepared has a code of its own
    with called() as ran:
        whole = small.trained()
        small.logits(next(iter(small.deployed(whole).values())))
    assert {("bench.train.loop", "train_tasks"), ("methods.packed", "forward")} <= ran
    # what holds the options, and the form for one task that the checks alone call, compute nothing
    assert ran - hashed_names(*KINDS["student"], methods.reference(name)) <= {
        ("bench.train.loop", name) for name in ("LoopOptions", "train_task")
    }


@pytest.mark.slow
def test_whatever_runs_when_something_is_prepared_is_hashed(tmp_path, teacher_folder, glue_folder, monkeypatch):
    from bench import api, cache
    from bench.artefacts import augmented_rows, make, teachers

    missed: dict[str, set[tuple[str, str]]] = {}

    def keep(slot, write, *further, **named):
        def watched(folder):
            with called() as ran:
                body = write(folder)
            inner = set().union(*made.values())  # a teacher that is tuned for an ensemble
            made[slot.title] = hashed_names(*KINDS[slot.code.kind], *slot.code.of)
            missed[slot.title] = ran - made[slot.title] - inner
            kinds.add(slot.code.kind)
            return body

        return cache.keep(slot, watched, *further, **named)

    made: dict[str, set[tuple[str, str]]] = {}
    kinds: set[str] = set()
    for module in (make, augmented_rows, teachers):
        monkeypatch.setattr(module, "keep", keep)
    corpus = tmp_path / "corpus.txt"
    corpus.write_text("the cat runs in the house .\na bird sings on the old tree .\n" * 30)
    common = {
        "tasks": "rte",
        "data": str(glue_folder),
        "teacher": str(teacher_folder),
        "results": tmp_path / "results",
        "reports": tmp_path / "reports",
        "corpus": (str(corpus),),
        "corpus_tokens": 300,
        "epochs": 1.0,
    }
    rows = f"tinybert:{tiny.SHAPE},pd:{tiny.SHAPE}:start=masked,minilm:{tiny.SHAPE},moebert,mtdnn"
    assert api.run(api.Request(methods=rows, **common)).exit_code == 0
    assert api.run(api.Request(methods=f"finetune:{tiny.SHAPE}", augment="masked", **common)).exit_code == 0
    assert kinds == {"teacher", "augmentation", "artefact", "trained artefact"}
    # what keeps states, hands text on and names keys computes none of the numbers
    others = {("bench.train.training_state", name) for name in ("TrainingStates", "StudentState", "_number")}
    others |= {("bench.plan.tasks", "TaskPlan"), ("bench.plan.tasks", "_teacher_key"), ("methods.api", "Shape")}
    assert {title: names - others for title, names in missed.items()} == {title: set() for title in missed}


def test_the_version_is_read_without_importing_the_method() -> None:
    assert {name: code_hash.version_of(name) for name in methods.TABLE} == {
        name: methods.get(name).version for name in methods.TABLE
    }
    assert code_hash.version_of("teacher") is None
    assert code_hash.version_of("nobody/method") is None


def test_a_registration_in_a_comprehension_runs_when_the_module_is_loaded():
    found = Module("m").read(ast.parse("ALL = [n for n in NAMES]\n[register(name) for name in ALL]\n").body)
    assert list(found.bindings) == ["ALL"]
    assert len(found.effects) == 1
