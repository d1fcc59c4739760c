"""What a file of Python states, read without importing it: where a module lies, what it imports, members of a method's class. No torch."""

from __future__ import annotations

import ast
import importlib.util
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import methods


@cache
def file_of(module: str) -> Path | None:
    """Where a module lies, without importing it or its package."""
    top, *rest = module.split(".")
    try:
        spec = importlib.util.find_spec(top)
    except (ImportError, ValueError):
        return None
    if spec is None or not rest:
        origin = spec.origin if spec is not None else None
        return Path(origin) if origin and origin.endswith(".py") else None
    places = [Path(folder, *rest) for folder in spec.submodule_search_locations or ()]
    files = [file for place in places for file in (place.with_suffix(".py"), place / "__init__.py")]
    return next(filter(Path.is_file, files), None)


@cache
def tree_of(module: str) -> ast.Module:
    """Raises LookupError: there is no such file; SyntaxError and others: it is not Python."""
    file = file_of(module)
    if file is None:
        raise LookupError(module)
    return ast.parse(file.read_text(encoding="utf-8"))


def modules_imported(tree: ast.AST, module: str) -> Iterator[str]:
    file = file_of(module)
    package = module if file is not None and file.name == "__init__.py" else module.rpartition(".")[0]
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if file_of(alias.name) is not None)
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            origin = ".".join([*above, *([node.module] if node.module else [])])
            for (
                alias
            ) in node.names:  # `from package import module` reads the module, else what the package itself binds
                inner = f"{origin}.{alias.name}"
                if (name := inner if file_of(inner) is not None else origin) and file_of(name) is not None:
                    yield name


@cache
def stated(method: str, member: str) -> Any:
    """The value of a class member of a registered method, which its file states as a literal; None where it cannot be read.

    So tables name what a row lacks, and records are compared with today's version, without torch and the method's package.
    """
    module, _, name = methods.reference(method).partition(":")
    try:
        return stated_in(module, name, member) if name else None
    except (LookupError, SyntaxError, ValueError, OSError, RecursionError):  # a third party's file may hold anything
        return None


def stated_in(module: str, name: str, member: str) -> Any:
    """Of a class of a module, or of the first of its bases that has it; None where there is none.

    Raises:
        LookupError: there is no such file; SyntaxError, ValueError and others: it, or the value, cannot be read.
    """
    for node in tree_of(module).body:
        if isinstance(node, ast.ImportFrom) and any((alias.asname or alias.name) == name for alias in node.names):
            original = next(alias.name for alias in node.names if (alias.asname or alias.name) == name)
            origins = modules_imported(ast.Module([node], []), module)
            return next((stated_in(origin, original, member) for origin in origins), None)
        if isinstance(node, ast.ClassDef) and node.name == name:
            for line in node.body:
                if isinstance(line, ast.Assign | ast.AnnAssign) and line.value is not None:
                    targets = line.targets if isinstance(line, ast.Assign) else [line.target]
                    if any(isinstance(target, ast.Name) and target.id == member for target in targets):
                        return ast.literal_eval(line.value)
            of_bases = (stated_in(module, base.id, member) for base in node.bases if isinstance(base, ast.Name))
            return next((value for value in of_bases if value is not None), None)
    return None
