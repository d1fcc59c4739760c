"""Who may import whom, read from the source; and what --help really loads."""

from __future__ import annotations

import ast
import functools
import graphlib
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from methods import TABLE

ROOT = Path(__file__).resolve().parents[2]
HEAVY = {"torch", "transformers", "datasets", "evaluate"}
LIGHT = tuple(
    f"bench.{place}"
    for place in (
        "plan",
        "record",
        "request",
        "stats",
        "report",
        "analysis",
        "audit",
        "errors",
        "files",
        "folders",
        "user_files",
        "typed_files",
    )
)
BUILDS_MODELS = "untrained.py"
"""The one file of ``plan`` that builds models; the others import it inside functions."""
LAYERS = (
    "bench",
    "bench.errors",
    "bench.files",
    "bench.folders",
    "bench.user_files",
    "bench.typed_files",
    "bench.terminal",
    "bench.progress",
    "bench.stats",
    "bench.audit",
    "methods",
    "bench.record",
    "bench.request",
    "bench.report",
    "bench.analysis",
    "bench.data",
    "bench.optimizers",
    "bench.cache",
    "bench.measure",
    "bench.run_status",
    "bench.plan",
    "bench.train",
    "bench.interrupts",
    "bench.make",
    "bench.run",
    "bench.conformance",
    "bench.workflows",
    "bench.api",
    "bench.cli",
    "bench.__main__",
)
"""Packages and single files, the lowest first: each imports only from those above it in this list."""


def layer_of(module: str) -> str:
    """The layer that a module belongs to: ``bench.record.cell`` to ``bench.record``, ``methods.api`` to ``methods``."""
    top, *rest = module.split(".")
    return top if top == "methods" or not rest else f"{top}.{rest[0]}"


def modules() -> dict[str, Path]:
    """Every module of ours -> its file."""
    files = [
        file for folder in ("bench", "methods") for file in sorted((ROOT / folder).rglob("*.py"))
    ]
    names = {".".join(file.relative_to(ROOT).with_suffix("").parts): file for file in files}
    return {name.removesuffix(".__init__"): file for name, file in names.items()}


READING = ("bench.record", "bench.stats", "bench.report", "bench.analysis")
"""The half that reads records."""
WRITING = (
    "bench.data",
    "bench.optimizers",
    "bench.cache",
    "bench.measure",
    "bench.run_status",
    "bench.plan",
    "bench.train",
    "bench.interrupts",
    "bench.make",
    "bench.run",
    "bench.conformance",
    "bench.workflows",
    "bench.api",
    "bench.cli",
    "bench.__main__",
)
"""The half that makes them, and what stands above both."""
NEITHER = (
    "bench",
    "bench.errors",
    "bench.files",
    "bench.folders",
    "bench.user_files",
    "bench.typed_files",
    "bench.terminal",
    "bench.progress",
    "bench.request",
    "bench.audit",
    "methods",
)
"""What either half may import."""


def read_by(text: str, known: Mapping[str, object]) -> set[str]:
    """The modules of ours that a file reads, also inside functions and for types.

    ``from package import module`` reads the module alone; of any other name it reads the package's
    own file.
    """
    read: set[str] = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            read |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                full = f"{node.module}.{alias.name}"
                read.add(full if full in known else str(node.module))
    return read & known.keys()


@functools.cache
def files_read() -> dict[str, set[str]]:
    """Each module -> those of ours that it reads."""
    known = modules()
    return {name: read_by(file.read_text(), known) for name, file in known.items()}


def across(graph: Mapping[str, set[str]]) -> list[str]:
    """Each way from the reading half to the writing half, through whatever lies between."""
    found = []
    for name in graph:
        if layer_of(name) not in READING:
            continue
        waiting = [(name,)]
        seen = {name}
        while waiting:
            way = waiting.pop()
            for other in sorted(graph[way[-1]] - seen):
                seen.add(other)
                if layer_of(other) in WRITING:
                    found.append(" -> ".join((*way, other)))
                else:
                    waiting.append((*way, other))
    return found


def test_the_half_that_reads_records_needs_nothing_of_the_half_that_makes_them():
    assert sorted((*READING, *WRITING, *NEITHER)) == sorted(LAYERS), "each layer has its half"
    assert across(files_read()) == []


@pytest.mark.parametrize(
    "planted",
    [
        "from bench.data.tasks import GLUE\n",
        "import bench.plan.build\n",
        "def late():\n    from bench.plan import build\n",
        "if TYPE_CHECKING:\n    from bench.make.work import Work\n",
    ],
)
@pytest.mark.parametrize("file", ["bench.stats.summary", "bench.report.studies", "bench.request"])
def test_an_import_from_one_half_into_the_other_is_found(planted, file):
    """Of a file of the reading half, and of one that both halves read."""
    graph = files_read()
    found = across({**graph, file: graph[file] | read_by(planted, modules())})
    assert any(f"{file} -> bench." in way for way in found)


def test_imports_go_from_higher_layers_to_lower_ones():
    assert {layer_of(name) for name in modules()} == set(LAYERS), "every file has a layer"
    for name, read in files_read().items():
        if name != "bench":  # its door: it hands on what is behind
            higher = {
                other
                for other in read
                if LAYERS.index(layer_of(other)) > LAYERS.index(layer_of(name))
            }
            assert not higher, f"{name} imports {higher}"


def test_no_two_files_import_each_other():
    assert list(graphlib.TopologicalSorter(files_read()).static_order())


def test_methods_never_import_the_harness_or_each_other():
    for name, read in files_read().items():
        if name.split(".")[0] != "methods":
            continue
        assert not {other for other in read if other.startswith("bench")}, name
        of_methods = {other for other in read if other.startswith("methods.")}
        shared = {each for each in of_methods if each.startswith("methods.core")}
        if name != "methods":  # the table of all methods
            assert of_methods - shared <= {"methods.api"}, name


def test_plans_records_and_reports_need_no_torch():
    for name, file in modules().items():
        if name.startswith(LIGHT) and file.name != BUILDS_MODELS:
            body = ast.parse(file.read_text()).body  # not inside functions, nor for types
            names = {
                alias.name for node in body if isinstance(node, ast.Import) for alias in node.names
            }
            names |= {node.module or "" for node in body if isinstance(node, ast.ImportFrom)}
            assert not {each.split(".")[0] for each in names} & HEAVY, name


def test_no_method_is_named_in_the_harness():
    for name, file in modules().items():
        for node in ast.walk(ast.parse(file.read_text())) if name.startswith("bench") else ():
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                assert node.value not in set(TABLE) - {"finetune"}, (
                    f"{name}:{node.lineno} names {node.value}"
                )


@pytest.mark.parametrize(
    ("words", "limit"), [(["--help"], 0.5), (["run", "--help"], 0.5), (["list"], 0.8)]
)
@pytest.mark.slow
def test_help_and_list_are_light_and_quick(words, limit):
    code = (
        "import sys; sys.argv = ['bench', *{words}]\n"
        "try:\n    import bench.cli; bench.cli.main()\nexcept SystemExit: pass\n"
        "print(sorted({{m.split('.')[0] for m in sys.modules}} & {heavy}), file=sys.stderr)"
    ).format(words=words, heavy=HEAVY | {"pandas", "scipy", "matplotlib", "numpy"})
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stderr.strip() == "[]"
    assert any(seconds_of(words) < limit for _ in range(3))


def seconds_of(words: list[str]) -> float:
    """Of the processor: other work on the machine is not what is tested."""
    begun = os.times()
    subprocess.run(
        [sys.executable, "-m", "bench", *words], cwd=ROOT, capture_output=True, check=True
    )
    ended = os.times()
    return ended.children_user + ended.children_system - begun.children_user - begun.children_system
