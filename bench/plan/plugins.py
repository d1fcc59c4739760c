"""The classes of methods by name; one that was written for an older contract is told what to change. Imports no torch.

An old class may not even be importable, so its file is read before it is imported.
"""

from __future__ import annotations

import ast
import importlib
import itertools
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import methods
from bench.errors import InputError, unknown, what_to_install
from bench.record.python_modules import Module, read_module

if TYPE_CHECKING:
    from methods.api import Method

PAGE = "docs/contract.md"
MEMBERS: Mapping[str, str] = {
    "prepare": "requires",
    "small": "tiny_settings",
    "grid": "search_space",
    "several_tasks": "multitask",
    "begins_alike": "same_init_across_seeds",
}
"""Members of a class of contract 1 -> their names today. As settings, annotated fields, these names are free."""
ARGUMENTS: Mapping[str, Mapping[str, str]] = {
    "Stage": {
        "share": "epoch_fraction",
        "preparatory_steps": "extra_steps",
        "before_step": "on_step_begin",
        "pace": "lr_scale",
        "rates": "parameter_lr_scale",
    },
    "Term": {"impossible": "unsupported"},
}
ATTRIBUTES: Mapping[str, str] = {"masked_places": "masked_positions"}
NAMES: Mapping[str, str] = {
    "Needs": "methods.taps (LOGITS | hidden(3))",
    "PAPER_SAYS": "PAPER_OVERRIDES",
    "Wish": "methods.artefacts.Artefact",
    "GeneralStart": "methods.artefacts.GeneralDistillation",
    "GivenStart": "methods.artefacts.GivenEncoder",
    "CutTeacher": "methods.artefacts.TruncatedTeacher",
    "FromTraining": "methods.artefacts.ComputedArtefact",
    "FromText": "methods.artefacts.PretrainingStage",
    "TeacherWeights": "methods.artefacts.TeacherWeights",
    "EnsembleTargets": "methods.artefacts.EnsembleTargets",
    "artefact_name": "methods.artefacts.artefact_name",
    "Settings": "methods.api.Method",
    "later": "methods.settings.added_setting",
    "FINE_TUNED": "methods.artefacts.fine_tuned",
    "CHECKPOINT": "methods.artefacts.checkpoint",
    "walk": "methods.packed.run_layers",
    "encoder_layers": "methods.parts.select_layers",
    "unequal_heads": "methods.parts.why_heads_differ",
}
"""What was imported from ``methods`` -> where it is today."""


def method_class(name: str) -> type[Method]:
    """The class of a registered method.

    Raises:
        InputError: no such method, or it cannot be imported, or it is not written for today's contract.
    """
    reference = methods.reference(name)
    if not reference:
        raise unknown("method", name, methods.names())
    return _loaded(name, reference, lambda: methods.get(name))


def class_being_written(reference: str) -> type[Method]:
    """The class ``module:Class``, registered or not.

    Raises:
        InputError: it cannot be imported, is no class, or is not written for today's contract.
    """
    module, _, attribute = reference.partition(":")

    def load() -> Any:
        try:
            return getattr(importlib.import_module(module), attribute)
        except AttributeError as error:
            raise ImportError(str(error)) from None

    return _loaded(reference, reference, load)


def _loaded(name: str, reference: str, load: Callable[[], Any]) -> type[Method]:
    if changes := outdated(reference):
        raise InputError(_advice(name, changes))
    try:
        found = load()
    except ImportError as error:
        hint = "; name a module as Python imports it, like mine:Mine, not a file" if "/" in reference else ""
        raise InputError(f"the method {name} cannot be imported: {what_to_install(error) or error}{hint}") from None
    except InputError:
        raise
    except (Exception, SystemExit) as error:  # the module of a third party runs as it is imported
        raise InputError(f"the method {name} cannot be imported: {type(error).__name__}: {error}") from None
    refuse_other_classes(name, found)
    return found  # type: ignore[no-any-return]


def refuse_other_classes(name: str, found: object) -> None:
    """Raises InputError for what is no method of today's contract."""
    from methods.api import Method

    if not isinstance(found, type):
        raise InputError(f"{name} is not a class")
    if not issubclass(found, Method):
        old = [f"{member} -> {MEMBERS[member]}" for member in MEMBERS if member in vars(found)]
        raise InputError(_advice(name, ["subclass methods.api.Method", *old]))


def _advice(name: str, changes: list[str]) -> str:
    return f"{name} is not written for contract {methods.CONTRACT} of methods ({PAGE}); change: {', '.join(changes)}"


def outdated(reference: str) -> list[str]:
    """What a class of an older contract has to change, ``old -> new``; nothing for one of today, or one that is not found.

    Args:
        reference: ``module:Class``; it is found and read without being imported.
    """
    module, _, name = reference.partition(":")
    if not name or module.split(".")[0] == "methods":
        return []
    try:
        found = _definition(module, name)
    except (SyntaxError, UnicodeDecodeError):
        return []  # importing it says more
    if found is None:
        return []
    file, own = found
    old = list(dict.fromkeys([*_members(own), *_uses(file)]))
    base = [] if _knows_a_base(file, own) else ["subclass methods.api.Method"]
    return [*base, *old] if old else []


def _definition(module: str, name: str) -> tuple[Module, ast.ClassDef] | None:
    """The class, and the file in which it is defined and not only imported."""
    file, seen = read_module(module), set[tuple[str, str]]()
    while file is not None and name in file.imports and (module, name) not in seen:
        seen.add((module, name))  # two modules may import it from each other: importing them says more
        module, name = file.imports[name]
        file = read_module(module)
    own = [s for s in (file.bindings.get(name, ()) if file else ()) if isinstance(s, ast.ClassDef)]
    return (file, own[-1]) if file is not None and own else None


def _knows_a_base(file: Module, own: ast.ClassDef) -> bool:
    """Whether a base comes from ``methods``, or from a file that only importing can judge."""
    for base in own.bases:
        name = base.id if isinstance(base, ast.Name) else ""
        above = [s for s in file.bindings.get(name, ()) if isinstance(s, ast.ClassDef) and s.lineno < own.lineno]
        if not above or _knows_a_base(file, above[-1]):
            return True
    return False


def _members(own: ast.ClassDef) -> Iterator[str]:
    for statement in own.body:
        names: list[str] = []
        if isinstance(statement, ast.FunctionDef):
            names = [statement.name]
        elif isinstance(statement, ast.Assign):
            names = [target.id for target in statement.targets if isinstance(target, ast.Name)]
        elif isinstance(statement, ast.AnnAssign) and "ClassVar" in ast.unparse(statement.annotation):
            names = [statement.target.id] if isinstance(statement.target, ast.Name) else []
        yield from (f"{name} -> {MEMBERS[name]}" for name in names if name in MEMBERS)


def _uses(file: Module) -> Iterator[str]:
    """Names that are imported from ``methods`` and are not there, and arguments and attributes that have other names."""
    for module, name in file.imports.values():
        if module.split(".")[0] == "methods" and name and not _has(module, name):
            yield f"{name} -> {NAMES[name]}" if name in NAMES else f"{module}.{name} is gone"
    for node in itertools.chain.from_iterable(map(ast.walk, file.statements)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            renamed = ARGUMENTS.get(node.func.id, {})
            for word in node.keywords:
                if word.arg is not None and word.arg in renamed:
                    yield f"{node.func.id}({word.arg}=) -> {node.func.id}({renamed[word.arg]}=)"
        elif isinstance(node, ast.Attribute) and node.attr in ATTRIBUTES:
            yield f".{node.attr} -> .{ATTRIBUTES[node.attr]}"


def _has(module: str, name: str) -> bool:
    there = read_module(module)
    return there is not None and (
        name in there.bindings or name in there.imports or read_module(f"{module}.{name}") is not None
    )
