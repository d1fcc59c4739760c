"""Everything that a definition uses, as text: the walk through the syntax trees of our modules. No torch."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from bench.record.python_modules import (
    Module,
    argument_of,
    bound_names,
    file_of_module,
    imported_names,
    is_docstring,
    read_module,
)

HASHED_MODULES = frozenset(
    {
        "bench.data.augmentation",
        "bench.data.encoding",
        "bench.data.masking",
        "bench.data.padding",
        "bench.data.word_vectors",
        "bench.record.recipe",
        "bench.plan.tasks",
        "bench.run.group",
        "bench.stats.form",
        "bench.stats.metrics",
        "bench.stats.resampling",
        "bench.artefacts.augmented_rows",
        "bench.train.best_epoch",
        "bench.train.prediction",
        "bench.artefacts.inputs",
        "bench.train.training_state",
        "bench.plan.scheduled_stages",
        "bench.plan.stage_keys",
        "bench.train.loop",
        "bench.train.shared_stages",
        "bench.train.numerics",
        "bench.optimizers",
        "bench.artefacts.teachers",
        "bench.train.student_trainer",
        "bench.train.teacher_outputs",
    }
)
"""Modules of the harness whose definitions are followed; the others read, keep, show or time what these compute."""


HASHED_PACKAGES = frozenset({"bench.optimizers", "bench.stats.metrics"})
"""Packages of which every file is one of them."""


MOVED: Mapping[str, str] = {
    "bench.stats.metrics:FORMULAS[accuracy]": "bench.stats.metrics.accuracy:ACCURACY.score",
    "bench.stats.metrics:FORMULAS[f1]": "bench.stats.metrics.f1:F1.score",
    "bench.stats.metrics:FORMULAS[macro_f1]": "bench.stats.metrics.f1:MACRO_F1.score",
    "bench.stats.metrics:FORMULAS[weighted_f1]": "bench.stats.metrics.f1:WEIGHTED_F1.score",
    "bench.stats.metrics:FORMULAS[matthews]": "bench.stats.metrics.matthews:MATTHEWS.score",
    "bench.stats.metrics:FORMULAS[pearson]": "bench.stats.metrics.correlation:PEARSON.score",
    "bench.stats.metrics:FORMULAS[spearman]": "bench.stats.metrics.correlation:SPEARMAN.score",
}
"""Names of definitions in older records -> where these definitions are today."""


MOVED_MODULES: Mapping[str, str] = {
    "bench.train.choice": "bench.train.best_epoch",
    "bench.train.kept_outputs": "bench.train.teacher_outputs",
    "bench.train.optimizers": "bench.optimizers",
}
"""Modules in older records -> what they are called today."""


OPTIMIZERS = "bench.optimizers:OPTIMIZERS"


ONE_BY_ONE = frozenset({OPTIMIZERS})
"""Dictionaries of which a training uses some values, each named as ``module:NAME[key]``: another value moves no hash."""


DESCRIBING = frozenset(
    {
        "name",
        "version",
        "terms",
        "ablations",
        "needs_teacher",
        "search_space",
        "tiny_settings",
        "same_init_across_seeds",
        "independent_stages",
        "notes",
    }
)
"""Members of a method's class (and its bases) that say what it is, and compute nothing."""


COUNTING = frozenset(
    {"title", "words", "identity", "encoder_width", "blank", "making_bytes", "training", "training_cost"}
)
"""Members of an artefact's class that name it or count it, and compute nothing of it."""


IN_NO_DUMP = frozenset({"annotation", "returns", "ctx", "type_comment", "type_params", "kind"})
"""Fields of syntax nodes that compute nothing, or that another version of Python writes otherwise."""


@cache
def _is_artefact(module: str, name: str) -> bool:
    """Whether a name is a class of artefacts, by its bases as they are written."""
    if (module, name) == ("methods.artefacts.protocol", "Artefact"):
        return True
    found = read_module(module)
    if found is None:
        return False
    if name in found.imports:
        return _is_artefact(*found.imports[name])
    classes = (s for s in found.bindings.get(name, ()) if isinstance(s, ast.ClassDef))
    return any(_is_artefact(*at) for one in classes for base in one.bases if (at := _place_of(found, base)))


def _place_of(module: Module, base: ast.expr) -> tuple[str, str] | None:
    """Module and name of a base that is written ``Base`` or ``module.Base``."""
    if isinstance(base, ast.Name):
        return module.name, base.id
    if isinstance(base, ast.Attribute) and isinstance(base.value, ast.Name):
        there, attribute = module.imports.get(base.value.id, ("", ""))
        return (f"{there}.{attribute}" if attribute else there), base.attr
    return None


class Closure:
    """Everything that some definitions use, as dumps of syntax trees."""

    def __init__(self, packages: set[str]) -> None:
        self.packages = packages | {"methods"}
        self.dumps: set[str] = set()
        self._seen: set[tuple[str, str]] = set()
        self._makers: set[tuple[str, str]] = set()
        """those of them that were taken as what makes the result, and not as what is only used"""

    def enter(self, root: str) -> None:
        """Follow one definition, as :func:`code_of` names it.

        Raises:
            LookupError: there is no such definition.
        """
        module, _, name = MOVED.get(root, root).partition(":")
        module = MOVED_MODULES.get(module, module)
        name, _, key = name.partition("[")
        found = read_module(module)
        if found is None:
            raise LookupError(root)
        if key:
            self._value(found, name, key.removesuffix("]"))
        elif argument := argument_of(found, *name.split(".", 1)):
            self._take(found, argument)
        elif not self._follow(module, name.split(".")[0], as_maker=True):
            raise LookupError(root)

    def _value(self, module: Module, name: str, key: str) -> None:
        """One value of a dictionary that is bound at the top level."""
        for statement in module.bindings.get(name, ()):
            value = statement.value if isinstance(statement, ast.Assign | ast.AnnAssign) else None
            if isinstance(value, ast.Dict):
                for at, item in zip(value.keys, value.values, strict=True):
                    if isinstance(at, ast.Constant) and at.value == key:
                        self._take(module, item)
                        return
        raise LookupError(f"{module.name}:{name}[{key}]")

    def _follows(self, module: str) -> bool:
        top = module.split(".")[0]
        if top == "bench":
            return module in HASHED_MODULES or module.rpartition(".")[0] in HASHED_PACKAGES
        return top in self.packages

    def _follow(self, module: str, name: str, as_maker: bool = False) -> bool:
        """Take the definition of a name and what it uses; whether there is one."""
        if not self._follows(module) or (found := read_module(module)) is None:
            return False
        if (module, name) in (self._makers if as_maker else self._seen) or f"{module}:{name}" in ONE_BY_ONE:
            return True
        # as Python looks a name up: bound here, imported, imported by a star, a module of the package
        if name in found.bindings:
            self._seen.add((module, name))
            if as_maker:
                self._makers.add((module, name))
            self._load(found)
            for statement in found.bindings[name]:
                self._take(found, statement, as_maker)
            return True
        if name in found.imports:
            there, attribute = found.imports[name]
            if not attribute:
                return self._whole(there)
            return self._follow(there, attribute, as_maker) or self._whole(f"{there}.{attribute}")
        if any(self._follow(star, name, as_maker) for star in found.stars):
            return True
        return found.is_package and self._whole(f"{module}.{name}")

    def _load(self, module: Module) -> None:
        """What runs whenever a module is loaded."""
        if (module.name, "") not in self._seen:
            self._seen.add((module.name, ""))
            for statement in module.effects:
                self._take(module, statement)

    def _whole(self, module: str) -> bool:
        """Everything of a module that is used as a value, as by getattr: any of its names may be meant."""
        if not self._follows(module) or (found := read_module(module)) is None:
            return False
        if (module, "*") not in self._seen:  # modules may import each other
            self._seen.add((module, "*"))
            self._load(found)
            for name in found.bindings:
                self._follow(module, name)
            for name in found.imports:
                self._use(found, {}, (name,), as_maker=False)
            for star in found.stars:
                self._whole(star)
        return True

    def _take(self, module: Module, node: ast.AST, as_maker: bool = False) -> None:
        text, used, local = _syntax(node, module.name, as_maker)
        self.dumps.add(text)
        for names, is_base in used:
            self._use(module, local, names, is_base)

    def _use(self, module: Module, local: Mapping[str, tuple[str, str]], names: Sequence[str], as_maker: bool) -> None:
        """Follow ``a`` or ``a.b.c``: through modules to the first name that is none."""
        first, *rest = names
        there, attribute = local.get(first) or module.imports.get(first) or (module.name, first)
        at = f"{there}.{attribute}" if attribute else there
        if there.split(".")[0] not in {*self.packages, "bench"}:
            return
        if (first in local or first in module.imports) and (not attribute or file_of_module(at) is not None):
            while rest and file_of_module(f"{at}.{rest[0]}") is not None:
                at = f"{at}.{rest.pop(0)}"
            if rest:
                self._follow(at, rest[0], as_maker)
            else:
                self._whole(at)
        else:
            self._follow(there, attribute, as_maker)


@cache
def _syntax(
    node: ast.AST, module: str, as_maker: bool
) -> tuple[str, Sequence[tuple[Sequence[str], bool]], Mapping[str, tuple[str, str]]]:
    """A definition's dump; the names that it uses, and whether each is a base of the class; what it imports by itself.

    Args:
        as_maker: whether it makes the result (a method's or an artefact's class, or a base of it), and is not only used by
            what makes it.
    """
    reading = Reading(module)
    members = DESCRIBING if as_maker and isinstance(node, ast.ClassDef) else frozenset[str]()
    if isinstance(node, ast.ClassDef) and _is_artefact(module, node.name):
        # of an artefact that is only asked for, how it is made is hashed where it is made
        members |= COUNTING if as_maker else COUNTING | {"make"}
    text = reading.dump(node, members)
    of_bases = Reading(module)
    for base in node.bases if as_maker and isinstance(node, ast.ClassDef) else ():
        of_bases.dump(base)
    used = [(names, True) for names in of_bases.used] + [(names, False) for names in reading.used - of_bases.used]
    return text, sorted(used), reading.imports


@dataclass
class Reading:
    """One pass over a syntax tree."""

    module: str
    used: set[tuple[str, ...]] = field(default_factory=set)
    """every name that is read, with its attributes: ``("losses", "hard")``"""
    imports: dict[str, tuple[str, str]] = field(default_factory=dict)
    """what is imported inside: name -> module and the name in it"""

    def dump(self, node: ast.AST, hidden: frozenset[str] = frozenset()) -> str:
        """The tree as text, the same for every version of Python that parses it.

        Args:
            hidden: members of this class that are left out.
        """
        if isinstance(node, ast.Name):
            self.used.add((node.id,))
        elif isinstance(node, ast.Attribute):
            names, inner = [node.attr], node.value
            while isinstance(inner, ast.Attribute):
                names.append(inner.attr)
                inner = inner.value
            if isinstance(inner, ast.Name):
                self.used.add((inner.id, *reversed(names)))
                return f"(Attribute {inner.id}.{'.'.join(reversed(names))})"
        elif isinstance(node, ast.Raise):  # which error is raised counts, its message does not
            error = node.exc.func if isinstance(node.exc, ast.Call) else node.exc
            return f"(Raise {'' if error is None else self.dump(error)})"
        words = [type(node).__name__]
        for name in node._fields:
            if name in IN_NO_DUMP:
                continue
            value = getattr(node, name, None)  # a field that this version of Python does not fill
            if isinstance(value, list):
                words += [self._part(name, item, hidden) for item in value]
            elif value is not None:
                words.append(self._part(name, value, hidden))
        return f"({' '.join(filter(None, words))})"

    def _part(self, name: str, value: Any, hidden: frozenset[str]) -> str:
        if not isinstance(value, ast.AST):
            return f"{name}={value!r}"
        if isinstance(value, ast.Import | ast.ImportFrom):
            self.imports |= {here: (there, attribute) for here, there, attribute in imported_names(value, self.module)}
            return ""
        if is_docstring(value) or (name == "body" and isinstance(value, ast.stmt) and hidden & set(bound_names(value))):
            return ""
        return f"{name}:{self.dump(value)}"
