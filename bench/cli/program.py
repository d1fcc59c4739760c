"""The program and its groups of verbs, which the other files of this folder fill."""

from __future__ import annotations

import re
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

SECTIONS = {
    "bench.cli.run": "Run",
    "bench.cli.read": "Read results",
    "bench.cli.check": "Check",
    "bench.cli.extend": "Extend",
}
"""Module of a verb -> the heading of its group in ``--help``, in the order of the headings."""


VALUES = {"Path": "PATH", "int": "NUMBER", "float": "NUMBER"}
"""Type of an option's value -> how ``--help`` and docs/command-line.md call it; any other is a text."""
BRACKETED = re.compile(r"\[default: \((.*?)\)(?=[;\]])")
"""How typer prints a default that is told in words."""
TYPE = re.compile(r" <[\w\[\]|, ]+>$")
"""What typer prints behind the name of an argument."""


class Verbs(TyperGroup):
    """A group whose verbs say ``TEXT``, ``NUMBER`` or ``PATH`` for the values of their options."""

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        verb = super().get_command(ctx, cmd_name)
        for parameter in verb.params if verb is not None else ():
            _name_value(parameter)
        return verb


def _name_value(parameter: Any) -> None:
    """Set how an option or an argument calls its value; a type of Python and brackets around a default are left out."""
    is_argument = parameter.param_type_name == "argument"
    if parameter.metavar is None and is_argument:
        parameter.metavar = parameter.name.upper()
    elif parameter.metavar is None and not parameter.is_flag:
        parameter.metavar = value_word(parameter)
    if (is_argument or isinstance(parameter.show_default, str)) and "get_help_record" not in vars(parameter):
        told = parameter.get_help_record
        parameter.get_help_record = lambda ctx: (
            None if (pair := told(ctx)) is None else (TYPE.sub("", pair[0]), BRACKETED.sub(r"[default: \1", pair[1]))
        )


def value_word(option: Any) -> str:
    """``NUMBER``: what an option calls its value, if it has no word of its own."""
    return str(option.metavar or VALUES.get(option.bare_type(), "TEXT"))


class Sections(Verbs):
    """Lists the verbs in groups, in the order in which their files define them."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        verbs = {name: self.commands[name] for name in self.list_commands(ctx)}
        widest = max(map(len, verbs))
        for module, heading in SECTIONS.items():
            own = [(name, verb) for name, verb in verbs.items() if _section(verb) == module]
            with formatter.section(heading):
                formatter.write_dl([(name.ljust(widest), _first_clause(verb.help or "")) for name, verb in own])


def _first_clause(text: str) -> str:
    """What a verb does, without the conditions that its own ``--help`` has."""
    return re.split(r"[.;:](?:\s|$)", text.strip(), maxsplit=1)[0]


def _section(verb: Any) -> str:
    """The module of a verb; a verb of several words belongs where they are."""
    while isinstance(verb, TyperGroup):
        verb = next(iter(verb.commands.values()))
    return str(verb.callback.__module__)


app = typer.Typer(
    name="bench",
    cls=Sections,
    help="Compare BERT compression methods: fine-tune the teacher, distil the students, measure, report.",
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

        print(__version__)
        raise typer.Exit


@app.callback()
def _program(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Options of the program itself."""


store = typer.Typer(
    cls=Verbs,
    help="Check and clean up a folder of records and the cache: verify, repair, gc.",
    no_args_is_help=True,
)
app.add_typer(store, name="store")


def verb(example: str, of: typer.Typer = app, **more: Any) -> Any:
    """Add a verb to the program, or to a group of it: its name and its example are those of the command line."""
    name = example.split()[0 if of is app else 1]
    return of.command(name, epilog=f"Example: python -m bench {example}", **more)
