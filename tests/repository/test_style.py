"""How densely each package is written, as a ratchet: `style.toml` has the figures, and they may only fall.

Ruff cannot check these: decisions of a function with its comprehensions, `a, b = x, y`, a comprehension
inside a comprehension, lines over 100 characters that cannot be formatted, syntax nodes a line.
`python tests/repository/test_style.py` writes lower figures into `style.toml` and refuses higher ones.
"""

from __future__ import annotations

import ast
import sys
import tomllib
from dataclasses import asdict, dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FIGURES = Path(__file__).with_name("style.toml")
MOST_BRANCHES = 15
LONGEST_LINE = 100
COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
BRANCHES = (
    ast.If,
    ast.For,
    ast.AsyncFor,
    ast.While,
    ast.ExceptHandler,
    ast.IfExp,
    ast.comprehension,
    ast.match_case,
    ast.Assert,
)
COUNTED = (
    ast.expr,
    ast.stmt,
    ast.excepthandler,
    ast.comprehension,
    ast.arg,
    ast.keyword,
    ast.alias,
)
"""What counts as a syntax node: what a reader has to read, not how Python groups it."""


@dataclass(frozen=True)
class Density:
    """How a package is written."""

    crowded_functions: int
    """functions with more than :data:`MOST_BRANCHES` decisions"""
    packed_assignments: int
    """``a, b = x, y`` that is no swap"""
    nested_comprehensions: int
    long_lines: int
    nodes_a_line: float


def decisions(function: ast.AST) -> int:
    """Branches, loops, handlers, comprehensions with their conditions, and each further ``and``."""
    count = 0
    for node in ast.walk(function):
        if isinstance(node, BRANCHES):
            count += 1
        if isinstance(node, ast.BoolOp):
            count += len(node.values) - 1
        if isinstance(node, ast.comprehension):
            count += len(node.ifs)
    return count


def is_packed(node: ast.AST) -> bool:
    """Whether a statement assigns several values to several names, and is no swap."""
    if not isinstance(node, ast.Assign) or not isinstance(node.value, ast.Tuple):
        return False
    target = node.targets[0]
    if not isinstance(target, ast.Tuple):
        return False
    names = sorted(ast.unparse(each) for each in target.elts)
    values = sorted(ast.unparse(each) for each in node.value.elts)
    return names != values


def is_nested(node: ast.AST) -> bool:
    """Whether a comprehension has another one inside."""
    if not isinstance(node, COMPREHENSIONS):
        return False
    return any(isinstance(inner, COMPREHENSIONS) for inner in ast.walk(node) if inner is not node)


def docstring_nodes(tree: ast.AST) -> int:
    """How many nodes are strings that stand alone: each is a statement and a constant."""
    count = 0
    for node in ast.walk(tree):
        stands_alone = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        if stands_alone and isinstance(node.value.value, str):
            count += 2
    return count


def density(texts: list[str]) -> Density:
    """The figures of the files of one package."""
    crowded = 0
    packed = 0
    nested = 0
    long_lines = 0
    lines = 0
    nodes = 0
    for text in texts:
        tree = ast.parse(text)
        lines += text.count("\n")
        long_lines += sum(len(line) > LONGEST_LINE for line in text.splitlines())
        nodes -= docstring_nodes(tree)
        for node in ast.walk(tree):
            nodes += isinstance(node, COUNTED)
            packed += is_packed(node)
            nested += is_nested(node)
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                crowded += decisions(node) > MOST_BRANCHES
    return Density(crowded, packed, nested, long_lines, round(nodes / max(1, lines), 2))


def packages() -> dict[str, list[str]]:
    """Each package's name and the texts of its files; the single files of ``bench`` are one."""
    found: dict[str, list[str]] = {}
    for top in ("bench", "methods"):
        for file in sorted((ROOT / top).rglob("*.py")):
            place = file.relative_to(ROOT).parts
            package = "/".join(place[:2]) if top == "bench" and len(place) > 2 else top
            found.setdefault(package, []).append(file.read_text())
    return found


def recorded() -> dict[str, Density]:
    """The figures that are kept."""
    return {name: Density(**row) for name, row in tomllib.loads(FIGURES.read_text()).items()}


def higher(new: Density, old: Density) -> list[str]:
    """Which figures rose, each in words."""
    before = asdict(old)
    return [
        f"{name} {before[name]} -> {value}"
        for name, value in asdict(new).items()
        if value > before[name]
    ]


@pytest.mark.parametrize("package", packages())
def test_no_package_gets_denser(package):
    kept = recorded()
    assert package in kept, "type: python tests/repository/test_style.py"
    rose = higher(density(packages()[package]), kept[package])
    assert not rose, f"{package}: {'; '.join(rose)}; write one decision a line"


def test_what_is_counted():
    plain = "def f(x):\n    y = x\n    return y\n"
    assert density([plain]) == Density(0, 0, 0, 0, round(7 / 3, 2))
    assert density(["a, b = b, a\n"]).packed_assignments == 0
    assert density(["a, b = 1, 2\n"]).packed_assignments == 1
    assert density(["x = [y for y in [z for z in a]]\n"]).nested_comprehensions == 1
    assert density([f"x = '{'a' * 100}'\n"]).long_lines == 1
    crowded = "def f(x):\n" + "    if x:\n        pass\n" * 16
    assert density([crowded]).crowded_functions == 1
    assert density([crowded.replace("if x", "if x and x", 1)]).crowded_functions == 1
    assert density([plain.replace("y = x", "'Said.'")]).nodes_a_line == round(4 / 3, 2)


def main() -> int:
    """Write what fell; say what rose."""
    before = recorded() if FIGURES.exists() else {}
    rows = []
    rose = []
    for name, texts in packages().items():
        new = density(texts)
        if name in before:
            rose += [f"{name}: {change}" for change in higher(new, before[name])]
        rows.append(f'["{name}"]')
        rows += [f"{key} = {value}" for key, value in asdict(new).items()]
        rows.append("")
    if rose:
        print("\n".join(rose), file=sys.stderr)
        return 1
    FIGURES.write_text("\n".join(rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
