"""Who may import whom, read from the source; and what --help really loads."""

from __future__ import annotations

import ast
import functools
import graphlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
HEAVY = {"torch", "transformers", "datasets", "evaluate"}
LIGHT = [
    "plan",
    "record",
    "stats",
    "report",
    "analysis",
    "audit",
    "errors.py",
    "files.py",
    "folders.py",
    "user_files.py",
]
BUILDS_MODELS = "untrained.py"
"""The one file of ``plan`` that builds models; the others import it inside functions."""
LAYERS = (
    "bench",
    "bench.errors",
    "bench.files",
    "bench.folders",
    "bench.user_files",
    "bench.progress",
    "bench.stats",
    "bench.audit",
    "methods",
    "bench.data",
    "bench.record",
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
    "bench.report",
    "bench.analysis",
    "bench.workflows",
    "bench.api",
    "bench.cli",
    "bench.__main__",
)
"""Packages and single files, the lowest first: each imports only from those above it in this list."""


def sources(*places: str) -> list[Path]:
    found: list[Path] = []
    for place in places:
        path = ROOT / place
        found += [path] if path.is_file() else sorted(path.rglob("*.py"))
    return found


@functools.cache
def imported(file: Path, top_level_only: bool) -> set[str]:
    """Modules that a file imports; with ``top_level_only`` not those inside functions or TYPE_CHECKING."""
    names: set[str] = set()
    tree = ast.parse(file.read_text())
    nodes = tree.body if top_level_only else list(ast.walk(tree))
    for node in nodes:
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.add(node.module)
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return names


def layer_of(module: str) -> str:
    """The layer that a module belongs to: ``bench.record.cell`` to ``bench.record``, ``methods.api`` to ``methods``."""
    top, *rest = module.split(".")
    return top if top == "methods" or not rest else f"{top}.{rest[0]}"


def modules() -> dict[str, Path]:
    """Every module of ours -> its file."""
    names = {".".join(f.relative_to(ROOT).with_suffix("").parts): f for f in sources("bench", "methods")}
    return {name.removesuffix(".__init__"): file for name, file in names.items()}


def test_imports_go_from_higher_layers_to_lower_ones():
    known = modules()
    for name, file in known.items():
        if name == "bench":
            continue  # its door: it hands on what is behind
        layer = LAYERS.index(layer_of(name))
        higher = {o for o in imported(file, top_level_only=False) & known.keys() if LAYERS.index(layer_of(o)) > layer}
        assert not higher, f"{name} imports {higher}"


def test_every_file_has_a_layer():
    assert {layer_of(name) for name in modules()} == set(LAYERS)


def files_read(known: dict[str, Path]) -> dict[str, set[str]]:
    """Each module -> those of ``known`` that it reads, also inside functions and for types.

    ``from package import module`` reads the module alone; of any other name it reads the package's own file.
    """
    graph = {}
    for name, file in known.items():
        graph[name] = set()
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Import):
                graph[name] |= {alias.name for alias in node.names} & known.keys()
            elif isinstance(node, ast.ImportFrom):
                inner = {f"{node.module}.{alias.name}": node.module for alias in node.names}
                graph[name] |= {full if full in known else own for full, own in inner.items()} & known.keys()
    return graph


def test_no_two_files_import_each_other():
    assert list(graphlib.TopologicalSorter(files_read(modules())).static_order())


SHARED = {
    "api", "artefacts", "batches", "errors", "families", "losses", "masked", "models",
    "own_shape", "packed", "parts", "pruned", "settings", "stages", "taps", "terms", "truncation", "writing",
}  # fmt: skip
"""Files of ``methods`` that others there import."""


def test_methods_never_import_the_harness_or_each_other():
    for file in sources("methods"):
        names = imported(file, top_level_only=False)
        assert not {n for n in names if n.split(".")[0] == "bench"}, file
        if file.stem not in {*SHARED, "__init__"}:
            others = {n.split(".")[1] for n in names if n.startswith("methods.")} & {p.stem for p in sources("methods")}
            assert others <= SHARED, file


def test_plans_records_and_reports_need_no_torch():
    for file in sources(*(f"bench/{place}" for place in LIGHT)):
        if file.name != BUILDS_MODELS:
            assert not {n.split(".")[0] for n in imported(file, top_level_only=True)} & HEAVY, file


def test_no_method_is_named_in_the_harness():
    from methods import TABLE

    for file in sources("bench"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                assert node.value not in set(TABLE) - {"finetune"}, f"{file}:{node.lineno} names {node.value}"


@pytest.mark.parametrize("words", [["--help"], ["run", "--help"], ["list"]])
@pytest.mark.slow
def test_help_and_list_are_light_and_quick(words):
    code = (
        "import sys; sys.argv = ['bench', *{words}]\n"
        "try:\n    import bench.cli; bench.cli.main()\nexcept SystemExit: pass\n"
        "print(sorted({{m.split('.')[0] for m in sys.modules}} & {heavy}), file=sys.stderr)"
    ).format(words=words, heavy=HEAVY | {"pandas", "scipy", "matplotlib", "numpy"})
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stderr.strip() == "[]"
    fastest = float("inf")
    for _ in range(3):  # the best of three, by the processor's time: other work on the machine is not what is tested
        begun = os.times()
        subprocess.run([sys.executable, "-m", "bench", *words], cwd=ROOT, capture_output=True, check=True)
        ended = os.times()
        spent = ended.children_user + ended.children_system - begun.children_user - begun.children_system
        fastest = min(fastest, spent)
    assert fastest < 0.5
