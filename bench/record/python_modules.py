"""Python files read without importing them: what each name at the top of a module is bound by. No torch."""

from __future__ import annotations

import ast
import importlib.util
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path


@dataclass
class Module:
    """The top level of one file: what each name is bound by."""

    name: str
    is_package: bool = False
    bindings: dict[str, list[ast.stmt]] = field(default_factory=dict)
    imports: dict[str, tuple[str, str]] = field(default_factory=dict)
    """name -> module and the name in it; "" for the module itself"""
    stars: list[str] = field(default_factory=list)
    effects: list[ast.stmt] = field(default_factory=list)
    """statements that bind nothing and are run when the module is loaded, like a registration"""

    @property
    def statements(self) -> list[ast.stmt]:
        """All of them but imports, each once."""
        bound = {id(statement): statement for group in self.bindings.values() for statement in group}
        return [*bound.values(), *self.effects]

    def read(self, statements: Iterable[ast.stmt]) -> Module:
        for statement in statements:
            if isinstance(statement, ast.Import | ast.ImportFrom):
                self._import(statement)
            elif isinstance(statement, ast.If) and "TYPE_CHECKING" in ast.dump(statement.test):
                self.read(statement.orelse)
            elif bound := list(bound_names(statement)):
                for name in bound:
                    self.bindings.setdefault(name, []).append(statement)
            elif not is_docstring(statement):
                self.effects.append(statement)
            if not isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                for inner in ast.walk(statement):  # below a try or an if
                    if inner is not statement and isinstance(inner, ast.Import | ast.ImportFrom):
                        self._import(inner)
        return self

    def _import(self, statement: ast.Import | ast.ImportFrom) -> None:
        for name, module, attribute in imported_names(statement, self.name, self.is_package):
            if attribute == "*":
                self.stars.append(module)
            else:
                self.imports[name] = (module, attribute)


def imported_names(
    statement: ast.Import | ast.ImportFrom, within: str, is_package: bool = False
) -> Iterator[tuple[str, str, str]]:
    """(name here, module, name there) of each imported thing; "" there for a module."""
    if isinstance(statement, ast.Import):
        for alias in statement.names:
            first = alias.name.split(".")[0]
            yield (alias.asname, alias.name, "") if alias.asname else (first, first, "")
        return
    module = statement.module or ""
    if statement.level:
        parents = within.split(".")
        up = statement.level - (1 if is_package else 0)
        module = ".".join([*parents[: len(parents) - up], *([module] if module else [])])
    for alias in statement.names:
        yield alias.asname or alias.name, module, alias.name


def bound_names(statement: ast.stmt) -> Iterator[str]:
    """Names that a statement of the top level binds, those below a try or an if too; no targets of `for` and `with`, and none
    of comprehensions, which end with them."""
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        yield statement.name
        return
    inner = [getattr(statement, part, []) for part in ("body", "orelse", "finalbody")]  # syntax nodes differ by kind
    inner += [handler.body for handler in statement.handlers] if isinstance(statement, ast.Try) else []
    for block in inner:
        for below in block:
            yield from bound_names(below)
    found = list(ast.walk(statement)) if not any(inner) else []
    targets = [node.target for node in found if isinstance(node, ast.comprehension)]
    passing = {id(node) for target in targets for node in ast.walk(target)}
    for node in found:
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and id(node) not in passing:
            yield node.id


def is_docstring(statement: ast.AST) -> bool:
    """Whether a statement is a docstring, or a string that describes the name above it."""
    return (
        isinstance(statement, ast.Expr)
        and isinstance(statement.value, ast.Constant)
        and isinstance(statement.value.value, str)
    )


@cache
def read_module(name: str) -> Module | None:
    """The parsed file of a module that is found without importing it; None where it is not Python of ours to read."""
    file = file_of_module(name)
    if file is None:
        return None
    return Module(name, file.name == "__init__.py").read(ast.parse(file.read_text(encoding="utf-8")).body)


@cache
def file_of_module(name: str) -> Path | None:
    top, *rest = name.split(".")
    try:
        spec = importlib.util.find_spec(top)
    except (ImportError, ValueError):
        return None
    if spec is None:
        return None
    if not rest:
        return Path(spec.origin) if spec.origin and spec.origin.endswith(".py") else None
    for folder in spec.submodule_search_locations or ():
        place = Path(folder, *rest)
        for file in (place.with_name(place.name + ".py"), place / "__init__.py"):
            if file.is_file():
                return file
    return None


def argument_of(module: Module, name: str, keyword: str = "") -> ast.expr | None:
    """What a keyword is given in the call that makes a top-level value: in ``A = B(c=D)`` it is ``D`` for ``A`` and ``c``."""
    for statement in module.bindings.get(name, ()):
        made = statement.value if isinstance(statement, ast.Assign | ast.AnnAssign) else None
        for given in made.keywords if isinstance(made, ast.Call) else ():
            if given.arg == keyword:
                return given.value
    return None
