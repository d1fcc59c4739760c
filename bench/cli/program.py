"""The program and its verbs, which the other files of this folder add."""

from __future__ import annotations

import functools
import inspect
import json
import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from bench.cli.options import REQUEST, option
from bench.errors import InputError
from bench.terminal import say

SECTIONS = {
    "Train": ("run", "plan", "tune", "status"),
    "Look up": ("list", "data"),
    "Read results": ("report", "compare", "choose", "speed", "show"),
    "Use a model elsewhere": ("export",),
    "Audit a paper": ("audit",),
    "Check": ("check", "verify", "check-method"),
}
"""What a person wants -> the verbs for it, as ``--help`` lists them."""

MOVED = {
    "backends": "speed --models FOLDER... --tasks TASK",
    "convert": "export --convert FOLDER --to NEW-FOLDER",
    "power": "compare --power",
    "predictions": "export --predictions ROW --to NEW-FOLDER",
    "profile": "speed --profile",
    "submit": "export --submit FOLDER... --to NEW-FOLDER",
    "trace": "show --trace NUMBER",
    "why": "show --why KEY",
}
"""A verb of earlier versions -> what to type now."""

EVERY_OPTION = "bench: every option"
"""Key in a context's ``meta``: the help that is asked for is that of ``--help-all``."""


def with_form(words: Sequence[str], names: Iterable[str]) -> list[str]:
    """The words of a command line with the name of the verb's form as the first one.

    A form is a verb with an option that makes it answer another question. It has options of its
    own: ``show --why``. The option may stand anywhere behind the verb.

    Args:
        words: a verb and what was typed behind it.
        names: of all verbs, and of their forms.

    Raises:
        InputError: options of two forms.
    """
    verb, *rest = words
    end = rest.index("--") if "--" in rest else len(rest)
    forms = {word: f"{verb} {word}" for word in rest[:end] if f"{verb} {word}" in names}
    if not forms:
        return [verb, *rest]
    if len(forms) > 1:
        raise InputError(f"{' and '.join(forms)} do not go together: type one of them")
    ((typed, name),) = forms.items()
    return [name, *(word for word in rest[:end] if word != typed), *rest[end:]]


class Verb(TyperCommand):
    """Shows in ``--help`` the options that people use, and the forms of the verb; in ``--help-all``
    every option."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        seldom = getattr(self.callback, "seldom", ())
        is_asked_for = ctx.meta.get(EVERY_OPTION, False)
        shown = [
            (param, record)
            for param in self.get_params(ctx)
            if (is_asked_for or param.name not in seldom)
            and (record := param.get_help_record(ctx)) is not None
        ]
        for heading, kind in (("Arguments", "argument"), ("Options", "option")):
            records = [record for param, record in shown if param.param_type_name == kind]
            if records:
                with formatter.section(heading):
                    formatter.write_dl(records)
        forms = [
            (name, first_clause(verb))
            for name, verb in ctx.parent.command.commands.items()
            if name.startswith(f"{self.name} --")
        ]
        if forms:
            with formatter.section("Other forms (each has its own --help)"):
                formatter.write_dl(forms)


class Sections(TyperGroup):
    """Lists the verbs by what a person wants, each with what it does, without the conditions that
    its own ``--help`` has; finds the form of a verb; says what a verb is called now."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        width = max(map(len, self.commands))
        for heading, names in SECTIONS.items():
            with formatter.section(heading):
                formatter.write_dl(
                    [(name.ljust(width), first_clause(self.commands[name])) for name in names]
                )

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args[0] in MOVED:
            raise InputError(f"{args[0]} has moved; type: python -m bench {MOVED[args[0]]}")
        return super().resolve_command(ctx, with_form(args, self.commands))


def first_clause(verb: Any) -> str:
    """What a verb does, without conditions."""
    return re.split(r"[.;:](?:\s|$)", (verb.help or "").strip(), maxsplit=1)[0]


app = typer.Typer(
    name="bench",
    cls=Sections,
    help="Compare BERT compression methods: fine-tune the teacher, distil the students, measure, "
    "report.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    add_completion=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Start here: python -m bench run --methods microbert,tinybert --tasks glue",
)


def _print_version(wanted: bool) -> None:
    if wanted:
        from bench import __version__

        say(__version__)
        raise typer.Exit


@app.callback()
def _program(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version and exit."
        ),
    ] = False,
) -> None:
    """Options of the program itself."""


def _print_every_option(ctx: typer.Context, wanted: bool) -> None:
    if wanted:
        ctx.meta[EVERY_OPTION] = True
        say(ctx.get_help())
        raise typer.Exit


store = typer.Typer(
    help="Check and clean up a folder of records and the cache: verify, repair, gc.",
    no_args_is_help=True,
)
app.add_typer(store, name="store", hidden=True)


Answer = tuple[str, Any, int]
"""What a verb says: a text, the same for programs, and the exit code."""


def verb(
    example: str,
    form: str = "",
    group: typer.Typer = app,
    has_json: bool = True,
    reads_scores: bool = False,
    **more: Any,
) -> Any:
    """Add a verb to the program, or to a group of it: its name and its example are those of the
    command line.

    Args:
        form: the option that chooses this form of the verb, see :func:`with_form`.
        has_json: whether it returns an :data:`Answer`, which ``--json`` writes to a file too.
        reads_scores: whether it reads the scores of records, so that ``--metric`` names those of
            metrics in files of their users.
    """
    name = example.split()[0 if group is app else 1]
    if form:
        name = f"{name} {form}"

    def add(function: Callable[..., Any]) -> Callable[..., Any]:
        seldom = set(getattr(function, "seldom", ()))
        if reads_scores:
            seldom.add("metric")

        @functools.wraps(function)
        def called(json_file: Path | None = None, **given: Any) -> Any:
            given.pop("help_all", None)
            if reads_scores:
                from bench.stats.own_metrics import load_metrics

                load_metrics(given.pop("metric") or ())
            answer = function(**given)
            if not has_json:
                return answer
            text, body, code = answer
            if text:
                say(text)
            if json_file is not None:
                from bench.files import write_atomically

                write_atomically(json_file, (json.dumps(body, indent=1) + "\n").encode())
            return code

        signature = inspect.signature(function, eval_str=True)
        default = option(None, "Also write the answer as JSON to this file.", "--json")
        keyword = inspect.Parameter(
            "json_file", inspect.Parameter.KEYWORD_ONLY, default=default, annotation=Path | None
        )
        options = list(signature.parameters.values())
        if reads_scores:
            kind, named = REQUEST["metric"]
            options.append(keyword.replace(name="metric", default=named, annotation=kind))
        if has_json:
            options.append(keyword)
        if seldom:
            words = f"Show {len(seldom)} more options."
            every = option(False, words, "--help-all", callback=_print_every_option, is_eager=True)
            options.append(keyword.replace(name="help_all", default=every, annotation=bool))
        called.__signature__ = signature.replace(parameters=options)  # type: ignore[attr-defined]
        called.seldom = frozenset(seldom)  # type: ignore[attr-defined]
        epilog = f"Example: python -m bench {example}"
        added = group.command(name, cls=Verb, hidden=bool(form), epilog=epilog, **more)
        return added(called)

    return add
