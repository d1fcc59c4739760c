"""Statements of a file of Python, read without importing it: where a module lies, what it imports,
members of a method's class. No torch."""

from __future__ import annotations

import ast
import importlib.util
from functools import cache
from pathlib import Path
from typing import Any

import methods

UNREADABLE = (LookupError, SyntaxError, ValueError, OSError, RecursionError)
"""Errors that a module that is not there, or a third party's file, which may hold anything, raises
here."""


@cache
def file_of(module: str) -> Path | None:
    """Where a module lies, without importing it or its package."""
    top, *rest = module.split(".")
    try:
        spec = importlib.util.find_spec(top)
    except (ImportError, ValueError):
        return None
    if spec is None or not rest:
        files = [Path(spec.origin or "")] if spec is not None else []
    else:
        places = [Path(folder, *rest) for folder in spec.submodule_search_locations or ()]
        files = [
            file for place in places for file in (place.with_suffix(".py"), place / "__init__.py")
        ]
    return next((file for file in files if file.suffix == ".py" and file.is_file()), None)


@cache
def tree_of(module: str) -> ast.Module:
    """The syntax of a file without what computes nothing: docstrings, and imports for types alone.

    Raises:
        LookupError: there is no such file; SyntaxError and others: it is not Python.
    """
    file = file_of(module)
    if file is None:
        raise LookupError(module)

    class Computing(ast.NodeTransformer):
        def visit_Expr(self, node: ast.Expr) -> ast.AST | None:
            is_text = isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
            return None if is_text else self.generic_visit(node)

        def visit_If(self, node: ast.If) -> ast.AST | None:
            match node.test:
                case ast.Name("TYPE_CHECKING") | ast.Attribute(attr="TYPE_CHECKING"):
                    return None
            return self.generic_visit(node)

    return Computing().visit(ast.parse(file.read_text(encoding="utf-8")))


def origins(node: ast.AST, module: str) -> dict[str, tuple[str, str]]:
    """The names that an import binds in a module: each -> the module that it reads, of those that
    are files, and the name there."""
    if isinstance(node, ast.Import):
        return {alias.name: (alias.name, "") for alias in node.names if file_of(alias.name)}
    if not isinstance(node, ast.ImportFrom):
        return {}
    # the package that is imported from
    names: list[str] = []
    if node.level:
        names = module.split(".")
        file = file_of(module)
        # a package's own file stands one level higher than a module in it
        up = node.level - (file is not None and file.name == "__init__.py")
        names = names[: len(names) - up]
    if node.module:
        names.append(node.module)
    package = ".".join(names)

    # `from package import module` reads the module, else what the package itself binds
    read: dict[str, tuple[str, str]] = {}
    for alias in node.names:
        inner = f"{package}.{alias.name}"
        origin = inner if file_of(inner) else package
        if file_of(origin):
            read[alias.asname or alias.name] = (origin, alias.name)
    return read


@cache
def stated(method: str, member: str) -> Any:
    """The value of a class member of a registered method, which its file states as a literal; None
    where it cannot be read.

    So tables name what a row lacks, and records are compared with today's version, without torch
    and the method's package.
    """
    module, _, name = methods.reference(method).partition(":")
    try:
        return stated_in(module, name, member) if name else None
    except UNREADABLE:
        return None


def stated_in(module: str, name: str, member: str) -> Any:
    """The value of a member of a class, or of the first of its bases that has it; None where there
    is none.

    Raises:
        LookupError: there is no such file; SyntaxError, ValueError and others: it, or the value,
            cannot be read.
    """
    for node in tree_of(module).body:
        if isinstance(node, ast.ClassDef) and node.name == name:
            for line in node.body:
                if isinstance(line, ast.Assign | ast.AnnAssign) and line.value is not None:
                    targets = line.targets if isinstance(line, ast.Assign) else [line.target]
                    if member in [target.id for target in targets if isinstance(target, ast.Name)]:
                        return ast.literal_eval(line.value)
            bases = (
                stated_in(module, base.id, member)
                for base in node.bases
                if isinstance(base, ast.Name)
            )
            return next((value for value in bases if value is not None), None)
        if name in (read := origins(node, module)):
            return stated_in(*read[name], member)
    return None
