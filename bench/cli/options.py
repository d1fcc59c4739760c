"""The options of the verbs: those of a request from its fields, and some that several verbs
share."""

from __future__ import annotations

import copy
import functools
import inspect
import sys
from collections.abc import Callable, Iterable
from dataclasses import fields
from typing import Any, get_type_hints

import typer

from bench.errors import InputError
from bench.request import Request
from bench.request.text import parse_numbers


def option(default: Any, words: str, *names: str, **more: Any) -> Any:
    return typer.Option(default, *names, help=words, **more)


def argument(default: Any, words: str, **more: Any) -> Any:
    return typer.Argument(default, help=words, **more)


REQUEST: dict[str, tuple[Any, Any]] = {}
"""Field of a request -> type and option, in the order in which --help shows them."""
_types = get_type_hints(Request, localns={"Search": object})  # no option is one
for _field in fields(Request):
    if _facts := _field.metadata:
        _kind, _default = _facts["typed"] or (_types[_field.name], _field.default)
        _names = _facts["names"] or (
            (f"--{_field.name.replace('_', '-')}",) if _kind is bool else ()
        )
        REQUEST[_field.name] = _kind, option(_default, _facts["words"], *_names, **_facts["more"])
OF_RUN = " ".join(field.name for field in fields(Request) if field.metadata.get("run"))
"""Those of `run` alone."""

OFTEN = "methods tasks data teacher seeds epochs device jobs results save_students"
"""Those that ``--help`` shows; ``--help-all`` shows all."""

METHODS, TASKS, METRIC, RESULTS, REPORTS, DEVICE, OFFLINE, LATEX, YES = (
    REQUEST[name][1]
    for name in (
        "methods", "tasks", "metric", "results", "reports", "device", "offline", "latex", "yes"
    )
)  # fmt: skip
THREADS = option(2, "CPU threads. The number is printed with every timing.")
ONLY_TASKS = option("", "Use only these tasks, separated by commas.", "--tasks", "--task")
TUNED = option(
    False,
    "The names are those of tuned rows: tinybert is then the row that tables call (best of 6).",
    "--tuned",
)
EXPERIMENT = option(
    None,
    "A TOML file with a paper's tables. Options that you type replace the options of the file. "
    "--methods is refused: the file names the rows.",
    metavar="FILE",
)
TABLE = option("", "Use only these tables of the experiment, separated by commas.")


def request_from_options(**given: Any) -> Request:
    """The request of options as they were typed.

    Raises:
        InputError: numbers of a recipe that cannot be read, or a name that no record can hold.
    """
    _refuse_bytes_without_characters(given)
    given |= {
        "numbers": parse_numbers(given.get("numbers")),
        "corpus": tuple(given.get("corpus") or ()),
        "metric": tuple(given.get("metric") or ()),
    }
    # several jobs keep the cores busy: threads of one would wait for each other
    if given.get("threads") is None:
        given["threads"] = 2 if given.get("jobs") == 1 else 1
    return Request(**given)


def _refuse_bytes_without_characters(given: dict[str, Any]) -> None:
    """Refuse a name that the system's encoding cannot read: records name things in UTF-8."""
    for name, value in given.items():
        for word in value if isinstance(value, list | tuple) else [value]:
            try:
                str(word).encode()
            except UnicodeEncodeError:
                encoding = sys.getfilesystemencoding()
                raise InputError(
                    f"--{name.replace('_', '-')}: the name has characters that the encoding "
                    f"{encoding} does not have; set PYTHONUTF8=1, or rename the file"
                ) from None


def with_request_options(
    names: str = "",
    without: str = "",
    seldom: str = "",
    as_recorded: Iterable[str] = (),
    **defaults: Any,
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Give a verb these options of a request, before its own; it gets their values as one mapping,
    its first argument.

    Args:
        names: separated by spaces; all of them but those of ``without`` where it names none.
        seldom: names of its own options that only ``--help-all`` shows.
        as_recorded: names of those that have no default, since a record states them.
        defaults: where a verb's differ; ``...`` for an option that has to be typed, None for one
            whose help shows none.
    """
    defaults = {**dict.fromkeys(as_recorded), **defaults}
    wanted = [
        name
        for name in REQUEST
        if name in (names.split() or REQUEST) and name not in without.split()
    ]

    def decorate(verb: Callable[..., Any]) -> Callable[..., Any]:
        keyword = inspect.Parameter.KEYWORD_ONLY
        shared = []
        for name in wanted:
            kind, own = REQUEST[name]
            if name in defaults:
                own = copy.copy(own)
                own.default = defaults[name]
                own.show_default = own.show_default if own.default is not None else False
            shared.append(inspect.Parameter(name, keyword, annotation=kind, default=own))
        further = list(inspect.signature(verb, eval_str=True).parameters.values())[1:]

        @functools.wraps(verb)
        def called(**values: Any) -> Any:
            return verb({name: values.pop(name) for name in wanted}, **values)

        arguments = [parameter.replace(kind=keyword) for parameter in further]
        rare = frozenset(wanted).difference(OFTEN.split()).union(seldom.split())
        signature = inspect.Signature([*shared, *arguments])
        called.seldom = rare  # type: ignore[attr-defined]
        called.__signature__ = signature  # type: ignore[attr-defined]
        return called

    return decorate
