"""Which code computes a result, and whether today's code is the same: one digest over the files
that compute it. No torch.

A result names modules: the file of its method, of its metrics, of what makes a teacher ... Their
files count, and so do those of :data:`HARNESS` and all files of ``methods/`` (or of the third
party's package, or beside or below a third party's single file) that any of these import. Nothing
is imported: files are parsed. Comments, docstrings and imports for types alone are left out; every
other change of a file is other code. So a refactoring makes results "made by other code", which
says no more than that.

Records and caches of before (``hash`` in the place of ``digest``) name no such digest: their code
is unknown.
"""

from __future__ import annotations

import ast
import hashlib
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import methods
from bench.record.stated import UNREADABLE, file_of, origins, stated, tree_of

if TYPE_CHECKING:
    from bench.record.schema import Record

HARNESS = (
    "bench.data.encoding",
    "bench.data.masking",
    "bench.data.target_scale",
    "bench.make.output_scale",
    "bench.optimizers",
    "bench.plan.scheduled_stages",
    "bench.record.optimizers",
    "bench.record.recipe",
    "bench.stats.form",
    "bench.train",
)
"""The code that trains and answers, whatever is trained: modules, and packages with all their
files."""
STUDENT = ("bench.make.students",)
TEACHER = ("bench.make.teacher",)
ARTEFACT = ("bench.make.given", "methods.core.fast_kernels")
AUGMENTATION = ("bench.make.augmentation", "bench.data.augmentation", "bench.data.word_vectors")
"""The code that makes each of them besides."""
INSTALLED = {"site-packages", "dist-packages"}
"""Python and its packages may lie below the folder of a method's file."""
CURRENT = "current"
STALE = "stale"
UNKNOWN = "unknown"
COMPUTED_BY = "computed_by"
"""Where ``Record.code`` names the code that trained and scored it; in what is cached the field is
``code``."""
MOST_COMMITS = 2
"""Commits that a line names; of more it says how many there are."""
WHAT_TO_DO = (
    "`verify KEY` trains one again and compares it; `run --rerun-stale` trains all of them again"
)


def student_modules(method: str, metrics: Sequence[str] = ()) -> tuple[str, ...]:
    """The modules that train a student of a registered method; and score it, where its metrics are
    named."""
    return (*STUDENT, methods.reference(method).partition(":")[0], *metric_modules(metrics))


def metric_modules(metrics: Sequence[str]) -> tuple[str, ...]:
    """The modules of the metrics of these names; of a user's own metric the one that it was named
    by."""
    from bench.stats.metrics import metric_of
    from bench.stats.own_metrics import reference_of

    modules = set[str]()
    for name in metrics:
        score = metric_of(name).score
        # a partial's own module is functools
        of_score = score.func if isinstance(score, partial) else score
        modules.add(reference_of(name).partition(":")[0] or of_score.__module__)
    return tuple(sorted(modules))


def named_code(modules: Sequence[str], parts: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Today's code as records and caches keep it.

    Args:
        parts: what the result was made from -> the code that made that; None where that is not
            known.
    """
    code: dict[str, Any] = {"of": list(modules), "digest": digest_of(tuple(modules))}
    if parts:
        code["parts"] = dict(parts)
    return code


@cache
def digest_of(modules: tuple[str, ...]) -> str:
    """sha256 of today's files; "" where one of these modules cannot be found or read.

    Each file is read once in a process: the code that was loaded is what counts, even if a file is
    edited later.
    """
    try:
        texts = files_of(modules)
    except UNREADABLE:
        return ""
    whole = "\n".join(texts[module] for module in sorted(texts))
    return hashlib.sha256(whole.encode()).hexdigest()


def files_of(modules: Iterable[str]) -> dict[str, str]:
    """Every module that counts for these, with its text.

    Raises:
        LookupError: one of them is not there; SyntaxError and others: it cannot be read.
    """
    waiting = list(modules)
    counted = _counted_for(waiting)
    for module in HARNESS:
        waiting.append(module)
        waiting += _siblings(module)

    # each file, and what it imports
    texts: dict[str, str] = {}
    while waiting:
        module = waiting.pop()
        if module in texts:
            continue
        texts[module], imported = _parsed(module)
        for name in imported:
            # methods/__init__.py is the table of all methods: a further one changes no result of
            # another
            is_harness = name.split(".")[0] == "bench"
            if name != "methods" and not is_harness and counted.has(name):
                waiting.append(name)
    return texts


@dataclass(frozen=True)
class CountedFiles:
    """Whose files count where a result imports them.

    Attributes:
        packages: ``methods``, and the packages of a third party's method.
        folders: those in which a single file of a third party's method lies.
    """

    packages: frozenset[str]
    folders: frozenset[Path]

    def has(self, module: str) -> bool:
        """Whether the file of a module counts; Python's own and installed packages do not."""
        top = module.split(".")[0]
        if top in self.packages:
            return True
        file = file_of(module)
        if file is None or top in sys.stdlib_module_names:
            return False
        for folder in self.folders:
            # Python and its packages may lie below the folder
            if file.is_relative_to(folder):
                below = file.relative_to(folder).parts
                if INSTALLED.isdisjoint(below):
                    return True
        return False


def _counted_for(modules: Sequence[str]) -> CountedFiles:
    """Whose files count for a result that names these modules."""
    roots = {module.split(".")[0] for module in modules} - {"bench"}
    folders: set[Path] = set()
    for root in roots:
        file = file_of(root)
        if file is not None and file.name != "__init__.py":
            folders.add(file.parent)
    return CountedFiles(frozenset({"methods"} | roots), frozenset(folders))


def _siblings(module: str) -> list[str]:
    """The modules beside the ``__init__.py`` of a package; none for a single file."""
    file = file_of(module)
    if file is None or file.name != "__init__.py":
        return []
    return [f"{module}.{path.stem}" for path in file.parent.glob("*.py") if path != file]


@cache
def _parsed(module: str) -> tuple[str, tuple[str, ...]]:
    """The syntax of a module's file as text, and the modules that it imports."""
    tree = tree_of(module)
    imported: set[str] = set()
    for node in ast.walk(tree):
        imported |= {read for read, _ in origins(node, module).values()}
    return _written(tree), tuple(imported)


def _written(part: Any) -> str:
    """Syntax as text that all versions of Python write alike.

    ``ast.unparse`` quotes f-strings anew from 3.12 on, and ``ast.dump`` names fields that a version
    adds. What is empty is left out.
    """
    if isinstance(part, list):
        return f"[{' '.join(map(_written, part))}]"
    if not isinstance(part, ast.AST):
        return repr(part)
    fields = [
        f"{name}={_written(value)}"
        for name, value in ast.iter_fields(part)
        if value not in (None, [])
    ]
    return f"{type(part).__name__}({' '.join(fields)})"


# --- judging


def is_given(body: Mapping[str, Any]) -> bool:
    """Whether something came from outside as it is, so that no code of ours made it: its key is the
    hash of its content."""
    return body.get("key") == body.get("weights")


def codes_of(record: Record) -> dict[str, Mapping[str, Any] | None]:
    """The code of a record's training and of what was prepared for it, each by its name. None where
    the code is not named."""
    codes: dict[str, Mapping[str, Any] | None] = {"training": record.code.get(COMPUTED_BY)}
    for name, body in record.artefacts.items():
        if not is_given(body):
            codes[name] = body.get("code")
    return codes


def state_of(code: Mapping[str, Any] | None) -> str:
    """Whether one code, as a record or a cache names it, and its parts are current, stale or
    unknown."""
    if not code or not code.get("digest"):
        return UNKNOWN
    today = digest_of(tuple(code["of"]))
    tops = {module.split(".")[0] for module in code["of"]}
    is_ours = tops <= {"bench", "methods"}
    if today == code["digest"]:
        here = CURRENT
    elif not today and not is_ours:
        # the package of a third party is not installed here
        here = UNKNOWN
    else:
        here = STALE
    return _worst([here, *map(state_of, code.get("parts", {}).values())])


def state_of_record(record: Record) -> str:
    """Stale if the version of its method or one of its codes is another one; unknown if a code is
    not named."""
    states = [STALE] if other_version(record) else []
    return _worst([*states, *map(state_of, codes_of(record).values())])


def _worst(states: Sequence[str]) -> str:
    for state in (STALE, UNKNOWN):
        if state in states:
            return state
    return CURRENT


def other_version(record: Record) -> str:
    """Which version of its method trained a record, where today's is another one; "" where it is
    the same or not known."""
    version = record.cell.version
    today = stated(record.cell.method, "version")
    return "" if today in (None, version) else f"version {version}, today's is {today}"


def commit_of(code: Mapping[str, Any]) -> str:
    """The commit that made a record, as the field ``code`` of its body names it."""
    changes = " with local changes" if code.get("dirty") else ""
    return f"{str(code.get('commit'))[:12]}{changes}"


def made_by(records: Iterable[Record]) -> str:
    """How many finished records were not made by today's code, and at which commits.

    ``68 of 70 records were made by other code than this (commit 1a2b3c4d5e6f)``; "" where today's
    code made all of them.
    """
    done = [record for record in records if record.status == "ok"]
    of_state: dict[str, list[Record]] = {STALE: [], UNKNOWN: [], CURRENT: []}
    for record in done:
        of_state[state_of_record(record)].append(record)
    words = {STALE: "other code than this", UNKNOWN: "code that is not known here"}
    parts: list[str] = []
    for state, made in words.items():
        if others := of_state[state]:
            verb = "was" if len(others) == 1 else "were"
            of_all = f" of {len(done)} records {verb} made" if not parts else ""
            parts.append(f"{len(others)}{of_all} by {made} ({_commits(others)})")
    return ", ".join(parts)


def _commits(records: Sequence[Record]) -> str:
    """The commits of some records, or how many there are where a line has no room for them."""
    commits = sorted({commit_of(record.code) for record in records})
    if len(commits) > MOST_COMMITS:
        return f"{len(commits)} commits"
    return f"commit{'s' * (len(commits) > 1)} {', '.join(commits)}"
