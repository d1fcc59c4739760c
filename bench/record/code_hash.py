"""Which code computes a result: a hash of the syntax trees of every definition that its numbers depend on. No torch.

The walk begins at named definitions (a method's class, the loop, ...) and follows the names that they use, through
``methods/``, through the modules of ``bench/`` that compute (``HASHED_MODULES`` of ``code_closure``), and through the package of a third
party's method. Nothing is imported: files are found and parsed.

What cannot change a number is left out: comments, docstrings, annotations, import statements, the messages of raised
errors, the members by which a method describes itself, and the file that a definition is in. So moving a function to
another file changes no hash, and editing a loss changes the hash of the methods that use it and of no other.
"""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any

import methods
from bench.record.code_closure import OPTIMIZERS, Closure
from bench.record.python_modules import (
    bound_names,
    read_module,
)
from bench.record.recipe import ADAMW, optimizers_of

if TYPE_CHECKING:
    from bench.record.cell import Cell

LOOP = (
    "bench.data.encoding:encode",
    "bench.record.recipe:Recipe",
    "bench.plan.scheduled_stages:schedule_stages",
    "bench.train.loop:train_tasks",
    "bench.train.numerics:ComputeSettings",
    "bench.train.numerics:RandomState",
    "bench.train.student_trainer:StudentTrainer",
    f"{OPTIMIZERS}[{ADAMW}]",
)
ARTEFACT = (
    "bench.data.encoding:encode",
    "bench.data.encoding:pieces",
    "bench.artefacts.inputs:MakeContext",
    "bench.artefacts.inputs:made",
    "bench.artefacts.teachers:base_model",
    "methods.api:Setup",
)
"""What hands an artefact its inputs."""
TRAINED = (*LOOP, *ARTEFACT, "bench.artefacts.inputs:TrainingMakeContext")
KINDS: Mapping[str, tuple[str, ...]] = {
    "student": (*LOOP, "bench.run.group:build_trainer", "bench.train.prediction:predict"),
    "scoring": ("bench.data.encoding:encode", "bench.train.prediction:predict", "bench.artefacts.teachers:base_model"),
    "teacher": (*LOOP, "bench.artefacts.teachers:finetuned_teacher"),
    "artefact": ARTEFACT,
    "trained artefact": TRAINED,
    "augmentation": (
        "bench.data.encoding:encode",
        "bench.artefacts.augmented_rows:augmented_rows",
        "bench.artefacts.augmented_rows:relabel_variants",
    ),
    "teacher outputs": ("bench.data.encoding:encode", "bench.train.teacher_outputs:write_outputs"),
    "training state": ("bench.train.training_state:TrainingStates",),
    # what older records and caches call their artefacts
    "general start": (*TRAINED, "methods.artefacts:GeneralDistillation"),
    "cut teacher": (*ARTEFACT, "methods.artefacts:TruncatedTeacher"),
    "general stage": TRAINED,
    "computed": ARTEFACT,
    "ensemble": (*ARTEFACT, "methods.artefacts:EnsembleTargets"),
}
"""What is made -> the definitions of the harness that make it. What differs from case to case (a method's class, its metrics) is in
``Code.of``, the code of what it is made from in ``Code.parts``."""
READ_OUTPUTS = ("bench.train.teacher_outputs:KeptTeacher", "bench.train.teacher_outputs:TeacherOutputs")
FAST_LINEAR = ("methods.fast_kernels:FastLinear",)
FAST_KERNELS = (*FAST_LINEAR, "methods.fast_kernels:FastTeacher")
BEST_EPOCH = ("bench.train.best_epoch:BestEpoch", "bench.stats.form:FORMS")


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


def student_code(
    method: str,
    metrics: Sequence[str],
    chosen: bool = False,
    optimizers: Sequence[str] = (),
    others: Sequence[str] = (),
) -> Code:
    """Of a student of a registered method, trained and scored.

    Args:
        chosen: whether the epoch that is shipped was chosen among several.
        optimizers: those other than AdamW that train it.
        others: further definitions of the harness that its numbers depend on.
    """
    further = (*(BEST_EPOCH if chosen else ()), *_entries(optimizers), *others)
    return code_of("student", (methods.reference(method), *_formulas(metrics), *further))


def training_code(cell: Cell, metrics: Sequence[str] = ()) -> Code:
    """Of the student of one cell; of its scores too, where their metrics are named."""
    asked = (*(READ_OUTPUTS if cell.teacher_outputs else ()), *(FAST_KERNELS if cell.kernels else ()))
    return student_code(cell.method, metrics, cell.selection is not None, optimizers_of(cell.recipe), asked)


def scoring_code(metrics: Sequence[str]) -> Code:
    """Of the scores of a model that is trained elsewhere: a teacher, a finished checkpoint."""
    return code_of("scoring", _formulas(metrics))


def class_code(kind: str, made_by: object, optimizers: Sequence[str] = (), others: Sequence[str] = ()) -> Code:
    """Of something that an object of a method's own class makes.

    Args:
        optimizers: those other than AdamW that train it.
        others: further definitions of the harness that its numbers depend on.
    """
    own = type(made_by)
    return code_of(kind, (f"{own.__module__}:{own.__qualname__}", *_entries(optimizers), *others))


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
            if isinstance(line, ast.Assign | ast.AnnAssign) and "version" in bound_names(line):
                return line.value.value if isinstance(line.value, ast.Constant) else None  # type: ignore[return-value]
        of_bases = (_stated_version(module, base.id) for base in statement.bases if isinstance(base, ast.Name))
        return next((version for version in of_bases if version is not None), None)
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
