"""``name:setting=6:-term`` <-> a method with its settings and dropped terms."""

from __future__ import annotations

import math
import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, get_args, get_origin, get_type_hints

from pydantic import Field, ValidationError, create_model

import methods
from bench.errors import InputError, nearest, unknown, what_to_install
from bench.optimizers import Schedule
from bench.record.cell import CHECKPOINT, FINISHED, PLUS_INT8, TEACHER, split_row
from bench.record.optimizers import OPTIMIZERS
from bench.record.stated import file_of
from bench.request.choices import PACE
from bench.request.text import as_typed
from bench.typed_files import TypedFile
from bench.user_files import comma_separated

if TYPE_CHECKING:
    from methods.api import Method, Setup, Stage

ALL = "all"
PAGE = "docs/contract.md"
TEACHER_TOO = TEACHER + PLUS_INT8
MOST = 2**31
"""Above every whole number that a setting can mean."""


StageOverrides = tuple[tuple[str, Any], ...]
"""``stage.number`` and its value, in alphabetical order"""
LIMITS: dict[str, dict[str, Any]] = {
    "epochs": {"gt": 0, "lt": 10_000},
    "learning_rate": {"gt": 0, "le": 1},
    "warmup": {"ge": 0, "lt": 1},
    "weight_decay": {"ge": 0, "lt": 1},
    "clip": {"gt": 0, "lt": 1_000_000},
    "eps": {"gt": 0, "lt": 1},
}
"""Number of a stage -> its bounds."""
CHOICES: dict[str, Any] = {"schedule": Schedule, "optimizer": Literal[tuple(OPTIMIZERS)]}
_fields: dict[str, Any] = {
    **{name: (float | None, Field(None, strict=True, **bounds)) for name, bounds in LIMITS.items()},
    **{name: (choices | None, None) for name, choices in CHOICES.items()},
}
StageNumbers: Any = create_model("StageNumbers", __base__=TypedFile, **_fields)
"""A row's own numbers for one of its method's stages, as a spelling (``name:stage.epochs=50``)
and a file have them. They go in the place of those that the method's file takes from its paper
(``Stage.paper``), so they need the recipe ``paper``. They count among the row's settings: they
are in its name and in the key of its records."""


@dataclass(frozen=True)
class MethodRow:
    """One row of a table: a method object, the terms it goes without, and how to type it."""

    spelling: str
    label: str
    method: Any
    dropped: tuple[str, ...] = ()
    ablation_of: str | None = None
    pace: float = 1.0
    """what the recipe's learning rate is multiplied with for this row"""
    from_all: bool = False
    """whether ``all`` named it: then it is left out where the teacher does not suit it"""
    stage_overrides: StageOverrides = ()
    """numbers of the method's stages, in the place of its paper's"""

    @property
    def settings(self) -> dict[str, Any]:
        """All of them; of those that joined the method later only what was changed
        (methods.core.settings.added_setting)."""
        settings = {}
        for field in fields(self.method):
            value = getattr(self.method, field.name)
            if not field.metadata.get("later") or value != field.default:
                settings[field.name] = value
        return settings | dict(self.stage_overrides)

    def stages(self, setup: Setup) -> Sequence[Stage]:
        """The method's stages, with the row's own numbers in the place of those of its paper.

        Raises:
            MethodError: numbers of a stage that the method has not, or a setup that it cannot do.
        """
        from methods.api import MethodError

        # stage -> its own numbers
        stages = self.method.stages(setup)
        own: dict[str, dict[str, Any]] = {}
        for name, value in self.stage_overrides:
            stage, _, number = name.rpartition(".")
            own.setdefault(stage, {})[number] = value
        there = [stage.name for stage in stages]
        for name in own:
            if name not in there:
                raise MethodError(f"there is no stage {name}; its stages are: {', '.join(there)}")
        if not own:
            return stages
        return [
            replace(stage, paper={**stage.paper, **own.get(stage.name, {})}) for stage in stages
        ]


class TypedRows(NamedTuple):
    """Rows as somebody types them, without repeats and in order."""

    rows: list[MethodRow]
    """those that are trained"""
    given: list[str]
    """those that are finished: ``checkpoint:PATH``, a folder with a classifier or with one a
    task, and ``predictions:PATH``"""
    in_8_bits: frozenset[str]
    """spellings of those that had ``+int8``; the teacher, which is always scored, may be among
    them"""
    spellings: list[str]
    """those of all rows, trained or finished"""
    by_all: frozenset[str]
    """those of ``in_8_bits`` that only ``all+int8`` asks for"""


def parse_rows(text: str) -> TypedRows:
    """Read what somebody types as rows.

    Raises:
        InputError: as :func:`parse_methods`; a finished row without a path, or predictions in 8
            bits.
    """
    trained: list[str] = []
    given: list[str] = []
    spellings: list[str] = []
    in_8_bits: set[str] = set()
    named: set[str] = set()  # of those, the ones that are asked for without all+int8
    for part in comma_separated(text):
        row = part.removesuffix(PLUS_INT8)
        name, _, path = row.partition(":")
        # the teacher in 8 bits, a finished row, or rows that are trained
        if part == TEACHER_TOO:
            spelled = [TEACHER]
        elif name in FINISHED:
            if not path:
                what = "a finished classifier" if name == CHECKPOINT else "predictions"
                raise InputError(f"{part}: add the folder of {what}: {name}:PATH")
            if row != part and name != CHECKPOINT:
                raise InputError(
                    f"{part}: predictions are no model that could be quantised; leave out "
                    f"{PLUS_INT8}"
                )
            given.append(row)
            spelled = [row]
        else:
            trained.append(row)
            spelled = [each.spelling for each in parse_methods(row)]
        spellings += spelled
        if row != part:
            in_8_bits.update(spelled)
            if row != ALL:
                named.update(spelled)
    # where none is trained, teachers and finished models are scored alone
    rows = parse_methods(",".join(trained)) if trained else []
    return TypedRows(
        rows,
        list(dict.fromkeys(given)),
        frozenset(in_8_bits),
        list(dict.fromkeys(spellings)),
        frozenset(in_8_bits - named),
    )


def parse_methods(text: str) -> list[MethodRow]:
    """``"one,other:ablate"`` -> rows, in order, without repeats.

    Parts are separated by ``:``; ``name=value`` is a setting (``pace=2`` doubles the learning
    rate), ``-term`` drops a term (and all below it, ``-dis`` drops ``dis.adv``), ``ablate`` adds
    every row w/o X of the method, ``stage.epochs=10`` is a number of one of its stages
    (:data:`StageNumbers`). Their order does not matter. ``mine:Mine`` is a class in a file of the
    current folder. ``all`` means every method that ships with the project.

    Raises:
        InputError: naming the nearest thing that exists.
    """
    rows: dict[str, MethodRow] = {}
    for part in comma_separated(text):
        names = list(methods.TABLE) if part == ALL else [part]
        for name in names:
            for row in _rows(name):
                # the first of equal rows stays; one that is also named by itself is not left out
                # as one of `all`
                first = rows.get(row.spelling, replace(row, from_all=part == ALL))
                from_all = first.from_all and part == ALL
                rows[row.spelling] = replace(first, from_all=from_all)
    if not rows:
        examples = list(methods.names())[:2]
        raise InputError(f"no method was named; try --methods {','.join(examples)}")
    return list(rows.values())


def drop_unusable(
    rows: Sequence[MethodRow], check: Callable[[MethodRow], object], point: str = ""
) -> tuple[list[MethodRow], list[str]]:
    """The rows that pass a check, and why others of ``all`` are left out.

    Args:
        point: what stands behind the rows and ``all``: ``+int8``.

    Raises:
        InputError: a row that was named does not.
    """
    kept = []
    left = []
    for row in rows:
        try:
            check(row)
            kept.append(row)
        except (ValueError, InputError) as error:
            if not row.from_all:
                if isinstance(error, InputError):
                    raise InputError(str(error)) from None
                raise InputError(f"{row.spelling}: {error}") from None
            left.append(f"{row.spelling}{point} is left out of `--methods all{point}`: {error}")
    return kept, left


def _rows(text: str) -> list[MethodRow]:
    """The row of one part of what was typed; with ``ablate`` its ablations behind it."""
    name, parts = split_row(text)
    typed = [part for part in parts if part != "ablate"]
    full = parse_one(":".join([name, *typed]))
    if "ablate" not in parts:
        return [full]
    method = type(full.method)
    if not method.ablations:
        instead = "leave :ablate out"
        if len(method.terms) > 1:
            instead = f"type which loss a row drops: {name}:-{method.terms[-1]}"
        raise InputError(f"{name} names no ablations; {instead}")
    rows = [full]
    for label, suffix in method.ablations.items():
        # what the ablation sets goes before what was typed
        changed = {part.partition("=")[0] for part in suffix.split(":") if "=" in part}
        kept = [part for part in typed if part.partition("=")[0] not in changed]
        row = parse_one(":".join([name, *kept]) + suffix)
        # one that changes nothing of this row is none
        if row.spelling != full.spelling:
            rows.append(replace(row, label=f"{full.label} {label}", ablation_of=full.spelling))
    return rows


def parse_one(text: str) -> MethodRow:
    """One spelling without ``ablate``, of a registered method or of ``module:Class``."""
    typed, parts = split_row(text)
    name = method_name(text)
    if "ablate" in parts:
        raise InputError(
            f"{text}: ablate means several rows; name one row here, like "
            f"{text.replace(':ablate', '')}"
        )
    return parse_of(method_class(name), name + text.removeprefix(typed))


def method_name(text: str) -> str:
    """The registered name of a row's method, typed in capitals or not; ``module:Class`` as it is.
    Imports no method.

    Raises:
        InputError: no such method, or a row that is not trained here.
    """
    name = split_row(text)[0]
    if name in FINISHED:
        raise InputError(
            f"{text}: a finished model or its predictions have no settings and are not trained; "
            "name a method that is trained here"
        )
    if name == ALL:
        raise InputError(f"{text}: all takes no settings and no :ablate; name the methods")
    if ":" in name or name in methods.TABLE or name in methods.WRITERS:
        return name  # without a look at what other packages offer, which takes 15 ms
    known = [*methods.names(), *methods.WRITERS]
    if name in known:
        return name
    # a name in other letters
    alike = [other for other in known if other.lower() == name.lower()]
    if len(alike) == 1:
        return alike[0]
    # several names with another separator
    words = re.split(r"[;\s]+", name)
    if len(words) > 1 and all(word in known for word in words):
        raise InputError(f"{name!r}: rows are separated by commas: {','.join(words)}")
    # a file without its class
    if text.partition(":")[2] and file_of(name):
        raise InputError(
            f"{text}: {name} is a module; name a class in it, which begins with a capital: "
            f"{name}:{name.capitalize()}"
        )
    raise unknown("method", name, [*known, ALL])


def check_names(text: str) -> None:
    """Raises InputError where :func:`parse_rows` would for the name of a method. Imports classes
    of one's own, after all names are looked at, and no registered method."""
    names = []
    for part in comma_separated(text):
        row = part.removesuffix(PLUS_INT8)
        is_finished = split_row(row)[0] in FINISHED
        if part != TEACHER_TOO and row != ALL and not is_finished:
            names.append(method_name(row))
    for name in names:
        if ":" in name:
            method_class(name)


def parse_of(method: type, text: str) -> MethodRow:
    """One spelling without ``ablate``, read with this class; the method's name is only used in
    messages and in the row's spelling.

    Raises:
        InputError: as :func:`parse_methods`.
    """
    name, parts = split_row(text)
    if not isinstance(method, type) or not is_dataclass(method):
        raise InputError(
            f"{name}: {getattr(method, '__name__', method)} is no dataclass; write "
            "@dataclass(frozen=True) above the class of the method"
        )
    from methods.api import missing_members

    missing = missing_members(method)  # type: ignore[arg-type]
    if missing:
        raise InputError(f"{name} lacks {', '.join(missing)}; `check-method {name}` checks it")
    # settings, dropped terms, numbers of stages and the pace, in any order
    offered = settings_of(method)
    settings: dict[str, Any] = {}
    dropped: set[str] = set()
    numbers: dict[str, Any] = {}
    pace = 1.0
    given: set[str] = set()
    for part in parts:
        key, equals, value = part.partition("=")
        if not equals:
            dropped.add(_dropped_term(text, method, part))
            continue
        if key in given:
            raise InputError(f"{text}: {key} is given twice")
        given.add(key)
        # a method's own setting of this name comes first
        if key == PACE and PACE not in offered:
            pace = _pace(text, value)
        elif "." in key:
            numbers[key] = _stage_number(name, key, value)
        elif key in offered:
            settings[key] = convert(f"{name}:{key}", value, offered[key])
        else:
            raise unknown(f"setting of {name}", key, sorted({*offered, PACE}))
    # the method with these settings, and the shortest spelling of its row
    try:
        plain = method(**settings)
    except ValueError as error:
        raise InputError(f"{text}: {error}") from None
    of_stages = tuple(sorted(numbers.items()))
    row = MethodRow("", "", plain, tuple(sorted(dropped)), pace=pace, stage_overrides=of_stages)
    spelled = dict(row.settings)
    if pace != 1.0:
        spelled[PACE] = pace
    spelling = spell(name, spelled, defaults(method), row.dropped)
    return replace(row, spelling=spelling, label=spelling)


def _dropped_term(text: str, method: Any, part: str) -> str:
    """The term that ``-term`` drops.

    Raises:
        InputError: the method has no such term, or ``part`` is something else.
    """
    name = split_row(text)[0]
    if not part.startswith("-"):
        near = nearest(part, [*settings_of(method), "ablate"])
        hint = ""
        if near:
            typed = near if near == "ablate" else f"{near}=..."
            hint = f"; did you mean {typed!r}?"
        raise InputError(f"{text}: {part!r} is neither setting=value nor -term nor ablate{hint}")
    # a term, or all below a name
    above = [term.split(".")[0] for term in method.terms]
    known = sorted({*method.terms, *above})
    if part[1:] not in known:
        raise unknown(f"term of {name}", part[1:], known)
    return part[1:]


def _pace(text: str, value: str) -> float:
    """The multiplier of the learning rate that ``pace=`` names.

    Raises:
        InputError: no number, or one that makes no sense.
    """
    pace = float(convert(f"{text}: {PACE}", value, float))
    if not 0 < pace < 1000:
        raise InputError(
            f"{text}: {PACE}={value} multiplies the learning rate; it should be above 0 and below "
            "1000"
        )
    return pace


def _stage_number(where: str, name: str, text: str) -> Any:
    """The value of ``stage.number`` in a spelling.

    Raises:
        InputError: there is no such number, or the value makes no sense.
    """
    number = name.rpartition(".")[2]
    if number not in StageNumbers.model_fields:
        raise unknown(f"number of a stage in {where}", number, list(StageNumbers.model_fields))
    try:
        value = float(text) if number in LIMITS else text
        return getattr(StageNumbers(**{number: value}), number)
    except ValidationError as error:
        raise InputError(f"{where}: {name}={text}: {error.errors()[0]['msg']}") from None
    except ValueError:
        raise InputError(f"{where}: {name}={text}: expected a number") from None


def method_class(name: str) -> type[Method]:
    """The class of a registered method, or of ``module:Class``, which may be a file of the current
    folder.

    Raises:
        InputError: no such method, or it cannot be imported, or it is not written for the contract.
    """
    if not methods.reference(name):
        raise unknown("method", name, methods.names())
    if ":" in name and ("/" in name or name.partition(":")[0].endswith(".py")):
        raise InputError(f"{name}: name a module as Python imports it, like mine:Mine, not a file")
    if os.getcwd() not in sys.path:
        # `bert-bench` does not look there as `python -m bench` does; workers take the path over
        sys.path.append(os.getcwd())
    # what goes wrong in the import is the user's to mend, and is said as such
    try:
        kind = methods.get(name)
    except ImportError as error:
        module = name.partition(":")[0]
        hint = ""
        if error.name == module:
            hint = f"; run this in the folder that has {module}.py, or install its package"
        elif (error.name or "").startswith("methods."):  # a name of another contract
            hint = f"; it is not written for contract {methods.CONTRACT} ({PAGE})"
        raise InputError(
            f"the method {name} cannot be imported: {what_to_install(error) or error}{hint}"
        ) from None
    except InputError:
        raise
    except (Exception, SystemExit) as error:  # the module of a third party runs as it is imported
        raise InputError(
            f"the method {name} cannot be imported: {type(error).__name__}: {error}"
        ) from None
    refuse_other_classes(name, kind)
    return kind


def refuse_other_classes(name: str, kind: object) -> None:
    """Raises InputError for what is no method of the contract."""
    from methods.api import Method

    if not isinstance(kind, type):
        raise InputError(f"{name} is not a class")
    if not issubclass(kind, Method):
        raise InputError(f"{name} is no method: it should subclass methods.api.Method ({PAGE})")


def settings_of(method: Any) -> dict[str, Any]:
    """Name of each setting -> its declared type."""
    hints = get_type_hints(method)
    return {field.name: hints[field.name] for field in fields(method)}


def grid_of(method: Any) -> dict[str, tuple[Any, ...]]:
    """Setting -> the values that a search may choose from; empty where a method names none."""
    return {name: tuple(values) for name, values in method.search_space.items()}


def defaults(method: Any) -> dict[str, Any]:
    """Name of each setting -> its value where nobody types it."""
    return {field.name: field.default for field in fields(method)}


def spell(
    name: str, settings: Mapping[str, Any], default: Mapping[str, Any], dropped: tuple[str, ...]
) -> str:
    """The shortest spelling: what differs from the defaults, in alphabetical order."""
    parts = [name]
    for setting, value in sorted(settings.items()):
        if setting not in default or value != default[setting]:
            parts.append(f"{setting}={as_typed(value)}")
    parts += [f"-{term}" for term in sorted(dropped)]
    return ":".join(parts)


def convert(name: str, text: str, hint: Any) -> Any:
    """A setting's text as a value of its declared type.

    Raises:
        InputError: it cannot be one; the message says what is offered.
    """
    # one of several values
    if get_origin(hint) is Literal:
        for choice in get_args(hint):
            if str(choice) == text:
                return choice
        choices = [str(choice) for choice in get_args(hint)]
        raise unknown(f"value of {name}", text, choices)
    # yes or no
    if hint is bool:
        if text.lower() in ("true", "false"):
            return text.lower() == "true"
        raise InputError(f"{name}={text}: expected true or false")
    if hint not in (int, float, str):
        raise InputError(
            f"{name}: nobody can type a value of {hint}; a setting is a bool, int, float, str or "
            "Literal"
        )
    # a number or a text
    try:
        value = hint(text)
        if isinstance(value, int) and abs(value) >= MOST:
            raise ValueError
    except (ValueError, OverflowError):
        kind = "a whole number" if hint is int else "a number"
        raise InputError(f"{name}={text}: expected {kind}") from None
    if isinstance(value, float) and not math.isfinite(value):
        raise InputError(f"{name}={text}: expected a finite number")
    return value
