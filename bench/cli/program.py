"""The program and its groups of verbs, which the other files of this folder fill."""

from __future__ import annotations

import functools
import inspect
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from bench.cli.options import REQUEST, option
from bench.terminal import say

SECTIONS = {
    "bench.cli.run": "Run",
    "bench.cli.read": "Read results",
    "bench.cli.check": "Check",
    "bench.cli.extend": "Extend",
}
"""Module of a verb -> the heading of its group in ``--help``, in the order of the headings."""


class Sections(TyperGroup):
    """Lists the verbs in groups, in the order in which their files define them; each with what it does, without the conditions that its
    own ``--help`` has."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        sections: dict[str, list[tuple[str, str]]] = {module: [] for module in SECTIONS}
        verbs = {name: self.commands[name] for name in self.list_commands(ctx)}
        for name, verb in verbs.items():
            clause = re.split(r"[.;:](?:\s|$)", (verb.help or "").strip(), maxsplit=1)[0]
            while isinstance(verb, TyperGroup):  # a verb of several words belongs where they are
                verb = next(iter(verb.commands.values()))
            sections[str(verb.callback.__module__)].append(
                (name.ljust(max(map(len, verbs))), clause)
            )
        for module, heading in SECTIONS.items():
            with formatter.section(heading):
                formatter.write_dl(sections[module])


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


store = typer.Typer(
    help="Check and clean up a folder of records and the cache: verify, repair, gc.",
    no_args_is_help=True,
)
app.add_typer(store, name="store")


Answer = tuple[str, Any, int]
"""What a verb says: a text, the same for programs, and the exit code."""


def verb(
    example: str,
    group: typer.Typer = app,
    has_json: bool = True,
    reads_scores: bool = False,
    **more: Any,
) -> Any:
    """Add a verb to the program, or to a group of it: its name and its example are those of the command line.

    Args:
        has_json: whether it returns an :data:`Answer`, which ``--json`` writes to a file too.
        reads_scores: whether it reads the scores of records, so that ``--metric`` names those of
            metrics in files of their users.
    """
    name = example.split()[0 if group is app else 1]

    def add(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def called(json_file: Path | None = None, **given: Any) -> Any:
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
        called.__signature__ = signature.replace(parameters=options)  # type: ignore[attr-defined]
        return group.command(name, epilog=f"Example: python -m bench {example}", **more)(called)

    return add
