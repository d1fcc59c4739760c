"""Which code computes a result: a hash of the syntax trees of every definition that its numbers depend on. No torch.

The walk begins at named definitions (a method's class, the loop, ...) and follows the names that they use, through
``methods/``, through the modules of ``bench/`` that compute (:data:`COMPUTING`), and through the package of a third
party's method. Nothing is imported: files are found and parsed.

What cannot change a number is left out: comments, docstrings, annotations, import statements, the messages of raised
errors, the members by which a method describes itself, and the file that a definition is in. So moving a function to
another file changes no hash, and editing a loss changes the hash of the methods that use it and of no other.
"""

from __future__ import annotations

import ast
import hashlib
import importlib.util
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import methods
from bench.record.recipe import ADAMW, optimizers_of

if TYPE_CHECKING:
    from bench.record.cell import Cell

COMPUTING = frozenset(
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
        "bench.optimizers.lamb",
        "bench.plan.scheduled_stages",
        "bench.train.loop",
        "bench.train.numerics",
        "bench.optimizers",
        "bench.artefacts.teachers",
        "bench.train.student_trainer",
    }
)
"""Modules of the harness whose definitions are followed; the others read, keep, show or time what these compute."""
COMPUTING_FOLDERS = frozenset({"bench.stats.metrics"})
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
    "bench.train.optimizers": "bench.optimizers",
}
"""Modules in older records -> what they are called today."""
OPTIMIZERS = "bench.optimizers:OPTIMIZERS"
ONE_BY_ONE = frozenset({OPTIMIZERS})
"""Dictionaries of which a training uses some values, each named as ``module:NAME[key]``: another value moves no hash."""
LOOP = (
    "bench.data.encoding:encode",
    "bench.record.recipe:Recipe",
    "bench.plan.scheduled_stages:schedule_stages",
    "bench.train.loop:train_tasks",
    "bench.train.numerics:Numerics",
    "bench.train.numerics:RandomState",
    "bench.train.student_trainer:StudentTrainer",
    f"{OPTIMIZERS}[{ADAMW}]",
)
ARTEFACT = (
    "bench.data.encoding:encode",
    "bench.data.encoding:pieces",
    "bench.artefacts.inputs:Making",
    "bench.artefacts.inputs:made",
    "bench.artefacts.teachers:base_model",
    "methods.api:Setup",
)
"""What hands an artefact its inputs."""
TRAINED = (*LOOP, *ARTEFACT, "bench.artefacts.inputs:TrainedMaking")
KINDS: Mapping[str, tuple[str, ...]] = {
    "student": (*LOOP, "bench.run.group:build_trainer", "bench.train.prediction:predict"),
    "scoring": ("bench.data.encoding:encode", "bench.train.prediction:predict", "bench.artefacts.teachers:base_model"),
    "teacher": (*LOOP, "bench.artefacts.teachers:finetuned_teacher"),
    "artefact": ARTEFACT,
    "trained artefact": TRAINED,
    "augmentation": (
        "bench.data.encoding:encode",
        "bench.artefacts.augmented_rows:augmented_rows",
        "bench.artefacts.augmented_rows:relabelled",
    ),
    "training state": ("bench.train.training_state:TrainingStates",),
    # what older records and caches call their artefacts
    "general start": (*TRAINED, "methods.artefacts:GeneralDistillation"),
    "cut teacher": (*ARTEFACT, "methods.artefacts:TruncatedTeacher"),
    "general stage": TRAINED,
    "computed": ARTEFACT,
    "ensemble": (*ARTEFACT, "methods.artefacts:EnsembleTargets"),
}
"""What is made -> the definitions of the harness that make it; what it is made of is named apart, in ``Code.of``."""
BEST_EPOCH = ("bench.train.best_epoch:BestEpoch", "bench.stats.form:FORMS")
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


@dataclass(frozen=True)
class Code:
    """The code that computes one thing."""

    kind: str
    """of :data:`KINDS`"""
    of: tuple[str, ...] = ()
    """further definitions, ``module:name``: a method's class, the formulas of a task's metrics"""
    hash: str = ""
    """sha256 of their syntax trees; "" where a definition cannot be found or read"""
    parts: Mapping[str, Any] = field(default_factory=dict)
    """what it was made from -> the code that made that, as a dictionary; None where that is not known"""

    def as_dict(self) -> dict[str, Any]:
        """As records and caches keep it."""
        body: dict[str, Any] = {"kind": self.kind, "of": list(self.of), "hash": self.hash}
        return body | ({"parts": dict(self.parts)} if self.parts else {})


def is_given(made: Mapping[str, Any]) -> bool:
    """Whether something came from outside as it is, so that no code of ours made it: its key is the hash of its content."""
    return made.get("key") == made.get("weights")


def code_of(kind: str, of: Sequence[str] = ()) -> Code:
    """Today's code of one kind of thing.

    Args:
        of: definitions besides those of the kind: ``module:name``, ``module:NAME[key]`` for one value of a dictionary, or
            ``module:NAME.field`` for one argument of the call that makes a value; or a name of :data:`MOVED`.
    """
    return Code(kind, tuple(of), _hash((*KINDS.get(kind, ()), *of)) if kind in KINDS else "")


def student_code(method: str, metrics: Sequence[str], chosen: bool = False, optimizers: Sequence[str] = ()) -> Code:
    """Of a student of a registered method, trained and scored.

    Args:
        chosen: whether the epoch that is shipped was chosen among several.
        optimizers: those other than AdamW that train it.
    """
    further = (*(BEST_EPOCH if chosen else ()), *_entries(optimizers))
    return code_of("student", (methods.reference(method), *_formulas(metrics), *further))


def training_code(cell: Cell, metrics: Sequence[str] = ()) -> Code:
    """Of the student of one cell; of its scores too, where their metrics are named."""
    return student_code(cell.method, metrics, cell.selection is not None, optimizers_of(cell.recipe))


def scoring_code(metrics: Sequence[str]) -> Code:
    """Of the scores of a model that is trained elsewhere: a teacher, a finished checkpoint."""
    return code_of("scoring", _formulas(metrics))


def class_code(kind: str, made_by: object, optimizers: Sequence[str] = ()) -> Code:
    """Of something that an object of a method's own class makes, with these optimisers besides AdamW."""
    own = type(made_by)
    return code_of(kind, (f"{own.__module__}:{own.__qualname__}", *_entries(optimizers)))


def _entries(optimizers: Sequence[str]) -> tuple[str, ...]:
    return tuple(f"{OPTIMIZERS}[{name}]" for name in sorted(optimizers))


@cache
def version_of(method: str) -> int | None:
    """The version that a registered method states today; None where its class cannot be found or read.

    Asked once a process, like the files: looking for the packages of third parties takes 15 ms.
    """
    module, _, name = methods.reference(method).partition(":")
    try:
        return _stated_version(module, name) if name else None
    except (SyntaxError, ValueError, OSError, RecursionError):  # a third party's file may hold anything
        return None


def _stated_version(module: str, name: str) -> int | None:
    """``version`` in the body of a class, or of the first of its bases that has one."""
    found = read_module(module)
    if found is None:
        return None
    if name in found.imports:
        return _stated_version(*found.imports[name])
    for statement in (s for s in found.bindings.get(name, ()) if isinstance(s, ast.ClassDef)):
        for line in statement.body:
            if isinstance(line, ast.Assign | ast.AnnAssign) and "version" in _bound(line):
                return line.value.value if isinstance(line.value, ast.Constant) else None  # type: ignore[return-value]
        of_bases = (_stated_version(module, base.id) for base in statement.bases if isinstance(base, ast.Name))
        return next((version for version in of_bases if version is not None), None)
    return None


@cache
def _is_artefact(module: str, name: str) -> bool:
    """Whether a name is a class of artefacts, by its bases as they are written."""
    if (module, name) == ("methods.artefacts", "Artefact"):
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


def _formulas(metrics: Sequence[str]) -> tuple[str, ...]:
    from bench.stats.metrics import metric_of

    return tuple(metric_of(name).code for name in sorted(metrics))


@cache
def _hash(roots: tuple[str, ...]) -> str:
    """One reading of a file serves the whole process: what was loaded is what counts, even if a file is edited later."""
    found = Closure({root.split(":")[0].split(".")[0] for root in roots})
    try:
        for root in roots:
            found.enter(root)
    except (LookupError, SyntaxError, ValueError, OSError, RecursionError):
        return ""
    return hashlib.sha256("\n".join(sorted(found.dumps)).encode()).hexdigest()


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
            elif bound := list(_bound(statement)):
                for name in bound:
                    self.bindings.setdefault(name, []).append(statement)
            elif not _is_text(statement):
                self.effects.append(statement)
            if not isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                for inner in ast.walk(statement):  # below a try or an if
                    if inner is not statement and isinstance(inner, ast.Import | ast.ImportFrom):
                        self._import(inner)
        return self

    def _import(self, statement: ast.Import | ast.ImportFrom) -> None:
        for name, module, attribute in _imported(statement, self.name, self.is_package):
            if attribute == "*":
                self.stars.append(module)
            else:
                self.imports[name] = (module, attribute)


def _imported(
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


def _bound(statement: ast.stmt) -> Iterator[str]:
    """Names that a statement of the top level binds, those below a try or an if too."""
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        yield statement.name
        return
    inner = [getattr(statement, part, []) for part in ("body", "orelse", "finalbody")]  # syntax nodes differ by kind
    inner += [handler.body for handler in statement.handlers] if isinstance(statement, ast.Try) else []
    for block in inner:
        for below in block:
            yield from _bound(below)
    for node in ast.walk(statement) if not any(inner) else ():
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id


def _is_text(statement: ast.AST) -> bool:
    """Whether a statement is a docstring, or a string that describes the name above it."""
    return (
        isinstance(statement, ast.Expr)
        and isinstance(statement.value, ast.Constant)
        and isinstance(statement.value.value, str)
    )


@cache
def read_module(name: str) -> Module | None:
    """The parsed file of a module that is found without importing it; None where it is not Python of ours to read."""
    file = _file(name)
    if file is None:
        return None
    return Module(name, file.name == "__init__.py").read(ast.parse(file.read_text(encoding="utf-8")).body)


@cache
def _file(name: str) -> Path | None:
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


def _argument(module: Module, name: str, keyword: str = "") -> ast.expr | None:
    """What a keyword is given in the call that makes a top-level value: in ``A = B(c=D)`` it is ``D`` for ``A`` and ``c``."""
    for statement in module.bindings.get(name, ()):
        made = statement.value if isinstance(statement, ast.Assign | ast.AnnAssign) else None
        for given in made.keywords if isinstance(made, ast.Call) else ():
            if given.arg == keyword:
                return given.value
    return None


class Closure:
    """Everything that some definitions use, as dumps of syntax trees."""

    def __init__(self, packages: set[str]) -> None:
        self.packages = packages | {"methods"}
        self.dumps: set[str] = set()
        self._seen: set[tuple[str, str]] = set()
        self._described: set[tuple[str, str]] = set()
        """those of them that were taken as what makes something, and not as what is only used"""

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
        elif argument := _argument(found, *name.split(".", 1)):
            self._take(found, argument)
        elif not self._follow(module, name.split(".")[0], described=True):
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
            return module in COMPUTING or module.rpartition(".")[0] in COMPUTING_FOLDERS
        return top in self.packages

    def _follow(self, module: str, name: str, described: bool = False) -> bool:
        """Take the definition of a name and what it uses; whether there is one."""
        if not self._follows(module) or (found := read_module(module)) is None:
            return False
        if (module, name) in (self._described if described else self._seen) or f"{module}:{name}" in ONE_BY_ONE:
            return True
        if name in found.bindings:
            self._seen.add((module, name))
            if described:
                self._described.add((module, name))
            self._load(found)
            for statement in found.bindings[name]:
                self._take(found, statement, described)
            return True
        if name in found.imports:
            there, attribute = found.imports[name]
            if not attribute:
                return self._whole(there)
            return self._follow(there, attribute, described) or self._whole(f"{there}.{attribute}")
        if any(self._follow(star, name, described) for star in found.stars):
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
        self._load(found)
        for name in found.bindings:
            self._follow(module, name)
        return True

    def _take(self, module: Module, node: ast.AST, described: bool = False) -> None:
        text, used, local = _syntax(node, module.name, described)
        self.dumps.add(text)
        for names, is_base in used:
            self._use(module, local, names, is_base)

    def _use(self, module: Module, local: Mapping[str, tuple[str, str]], names: Sequence[str], described: bool) -> None:
        """Follow ``a`` or ``a.b.c``: through modules to the first name that is none."""
        first, *rest = names
        there, attribute = local.get(first) or module.imports.get(first) or (module.name, first)
        at = f"{there}.{attribute}" if attribute else there
        if there.split(".")[0] not in {*self.packages, "bench"}:
            return
        if (first in local or first in module.imports) and (not attribute or _file(at) is not None):
            while rest and _file(f"{at}.{rest[0]}") is not None:
                at = f"{at}.{rest.pop(0)}"
            if rest:
                self._follow(at, rest[0], described)
            else:
                self._whole(at)
        else:
            self._follow(there, attribute, described)


@cache
def _syntax(
    node: ast.AST, module: str, described: bool
) -> tuple[str, Sequence[tuple[Sequence[str], bool]], Mapping[str, tuple[str, str]]]:
    """A definition's dump; the names that it uses, and whether each is a base of the class; what it imports by itself.

    Args:
        described: whether it is a method's class, or one of its bases.
    """
    reading = Reading(module)
    members = DESCRIBING if described and isinstance(node, ast.ClassDef) else frozenset[str]()
    if isinstance(node, ast.ClassDef) and _is_artefact(module, node.name):
        # of an artefact that is only asked for, how it is made is hashed where it is made
        members |= COUNTING if described else COUNTING | {"make"}
    text = reading.dump(node, members)
    of_bases = Reading(module)
    for base in node.bases if described and isinstance(node, ast.ClassDef) else ():
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
            self.imports |= {here: (there, attribute) for here, there, attribute in _imported(value, self.module)}
            return ""
        if _is_text(value) or (name == "body" and isinstance(value, ast.stmt) and hidden & set(_bound(value))):
            return ""
        return f"{name}:{self.dump(value)}"
