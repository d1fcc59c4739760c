"""The parts of docs/ that follow from the code: `python docs/tools/generate.py` writes them, the site's build checks them.

docs/command-line.md is made of the program's options, docs/record.schema.json of the record's model, two tables of
docs/hyperparameters.md of the recipes, those of docs/choose.md of the sheets in results/alternatives/sheets, and in docs/results.md the
rank correlations and the curve of a start of stored answers and reports.
"""

from __future__ import annotations

import json
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from order_of_rows import table as order_of_rows
from sheets import sheets
from start_curve import changes as changes_of_start
from start_curve import table as start_curve

DOCS = Path(__file__).resolve().parents[1]
BLOCK = re.compile(
    r"(?P<begin><!-- generated: (?P<name>[\w ]+) -->\n)(?:.*?\n)??(?P<end><!-- end -->)", re.DOTALL
)
HEAD = """# The command line

On this page you find every verb and option; it is generated from the program's own `--help`. Verbs are typed after `python -m bench` or,
shorter, `bert-bench`. [Run](running.md) shows [how rows are written](running.md#row-and-cell), and the [exit codes](running.md#exit-codes).
"""


UPKEEP = "Keep a folder of records in order"
"""Heading of the verb that ``--help`` does not list."""


def table(head: list[str], rows: list[list[str]]) -> str:
    """A Markdown table; cells may hold any text."""
    shown = [
        [cell.replace("|", "\\|").replace("<", "&lt;").replace("\n", " ") for cell in row]
        for row in rows
    ]
    lines = [head, ["---"] * len(head), *shown]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def command_line() -> str:
    """Every verb and each of its forms with its arguments and options, in the order of ``--help``.

    What several verbs have is said once.
    """
    from typer.main import get_command

    from bench.cli.app import app
    from bench.cli.program import SECTIONS

    verbs: Mapping[str, Any] = get_command(app).commands  # type: ignore[attr-defined]
    leaves = dict[str, Any]()
    for name, verb in verbs.items():
        leaves |= _leaves(name, verb)
    uses = Counter(row for verb in leaves.values() for row in _option_rows(verb))
    texts = Counter(row[:2] for row in uses.elements())
    # an option that several verbs have: in its most usual form, and with its most usual default
    form = {
        row[0]: row for row, _ in sorted(uses.items(), key=lambda use: (texts[use[0][:2]], use[1]))
    }
    shared = {row[:2]: row[2] for row in uses if form[row[0]] == row and texts[row[:2]] > 1}
    parts = [HEAD]
    for heading, names in {**SECTIONS, UPKEEP: ("store",)}.items():
        parts.append(f"## {heading}\n")
        for name in names:
            # a verb, and its forms or the verbs that it groups
            own = [name] if name in leaves else []
            own += [words for words in leaves if words.startswith(f"{name} ")]
            parts += [_described(words, leaves[words], shared) for words in own]
    parts.append(
        f"## Shared options\n\n{table(['option', 'meaning', 'default'], [[*row, default] for row, default in shared.items()])}"
    )
    return "\n".join(parts)


def _leaves(name: str, verb: Any) -> Iterator[tuple[str, Any]]:
    """The verb, or the verbs of which it is a group."""
    if not hasattr(verb, "commands"):
        yield name, verb
    for part, one in getattr(verb, "commands", {}).items():
        yield from _leaves(f"{name} {part}", one)


def _option_rows(verb: Any) -> list[tuple[str, str, str]]:
    options = [
        option
        for option in verb.params
        if option.param_type_name == "option" and option.name != "help_all"
    ]
    return [(f"`{_spelled(option)}`", option.help or "", _default(option)) for option in options]


def _described(words: str, verb: Any, shared: Mapping[tuple[str, str], str]) -> str:
    arguments = [argument for argument in verb.params if argument.param_type_name == "argument"]
    typed = "".join(f" {_placeholder(argument)}" for argument in arguments)
    said = "\n\n".join(" ".join(part.split()) for part in (verb.help or "").split("\n\n"))
    call = f"`python -m bench {words}{typed}`\n\n" if typed else ""
    text = f"### {words}\n\n{call}{said}\n"
    rows = [[f"`{_placeholder(argument)}`", argument.help or "", ""] for argument in arguments]
    options = _option_rows(verb)
    rows += [list(row) for row in options if row[:2] not in shared]
    if rows:
        text += f"\n{table(['option', 'meaning', 'default'], rows)}"
    flags = {row[0].split()[0].strip("`,"): row for row in options}
    names = {
        flag: f"`{flag}`" + (f" ({row[2]})" if row[2] not in ("", shared[row[:2]]) else "")
        for flag, row in flags.items()
        if row[:2] in shared
    }
    lacking = sorted({row[0].split()[0].strip("`,") for row in shared} - flags.keys())
    if len(lacking) < len(names):  # a verb that trains has nearly all of them
        other = "".join(f"; {name}" for name in names.values() if "(" in name)
        text += f"\nAll [shared options](#shared-options) but {', '.join(f'`{flag}`' for flag in lacking)}{other}.\n"
    elif names:
        text += f"\n[Shared options](#shared-options): {', '.join(names.values())}.\n"
    if verb.epilog:
        text += f"\n    {verb.epilog.removeprefix('Example: ')}\n"
    return text


def _placeholder(argument: Any) -> str:
    return str(argument.metavar or argument.name).strip("{}[]").upper()


def _spelled(option: Any) -> str:
    names = ", ".join([*option.opts, *option.secondary_opts])
    kind = option.bare_type().upper()
    return names if option.is_flag else f"{names} {option.metavar or kind.replace('STR', 'TEXT')}"


def _default(option: Any) -> str:
    if option.required:
        return "must be given"
    if isinstance(option.show_default, str):
        return option.show_default
    if option.default in (None, "", False, ()) or callable(option.default):
        return ""
    return "on" if option.default is True else f"`{option.default}`"


def record_schema() -> dict[str, Any]:
    """The JSON schema of a record, with the docstrings of its fields."""
    from bench.record.schema import Record

    schema = unwrapped(Record.model_json_schema(mode="serialization"))
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}


def unwrapped(part: Any) -> Any:
    """A schema whose descriptions have a line for each paragraph: where a docstring is wrapped does
    not matter."""
    if isinstance(part, list):
        return [unwrapped(each) for each in part]
    if not isinstance(part, dict):
        return part
    whole = {name: unwrapped(value) for name, value in part.items()}
    if isinstance(whole.get("description"), str):
        whole["description"] = re.sub(r"(?<!\n)\n(?!\n)", " ", whole["description"])
    return whole


BY_WIDTH = {"learning_rate": " (teachers: see below)"}
"""What follows a number that is not the same for teachers."""


def common_recipe() -> str:
    """The numbers of the common recipe and of pre-training on text."""
    from bench.record.recipe import START, TEACHER_LEARNING_RATES, Recipe

    students = Recipe()
    rows = [
        [f"`{name}`", _shown(value) + BY_WIDTH.get(name, ""), _shown(getattr(START, name))]
        for name, value in vars(students).items()
        if name not in ("name", "eps", "stage_optimizers")
    ]
    narrow, wide = (_shown(TEACHER_LEARNING_RATES[key]) for key in (True, False))
    return (
        f"\n{table(['number', 'students and teachers', 'pre-training on text'], rows)}\n"
        f"Teachers have their own `learning_rate`: {narrow} where they are narrower than 512, {wide} "
        "from 512 on. `epochs` are those of all stages together, without preparatory stages. "
        "Weight decay is not for biases and LayerNorms. `clip` is the largest norm of the gradient, `warmup` a share of the steps. "
        "`micro_batch` 0: a batch is not split.\n\n"
    )


def _shown(value: Any) -> str:
    """Numbers as papers write them: 1.5e-4, 0.01, 3."""
    if isinstance(value, float) and 0 < abs(value) < 0.01:
        digits, _, exponent = f"{value:.3e}".partition("e")
        return f"{float(digits):g}e{int(exponent)}"
    if isinstance(value, float):
        return f"{round(value, 3):g}"
    return ", ".join(map(str, value)) if isinstance(value, tuple) else str(value)


def paper_recipes() -> str:
    """The numbers of each stage of each method, with its default settings and BERT-base as the teacher."""
    import logging

    from transformers import BertConfig

    import methods
    from methods.api import Setup

    logging.disable(logging.WARNING)
    teacher, rows = BertConfig(), {}
    for name in methods.TABLE:
        method = methods.get(name)()
        setup = Setup(teacher, 2, ("x",))
        kinds = [("", stage) for stage in method.stages(setup)]
        before = [
            ("on text: ", stage) for one in method.requires(teacher) for stage in one.stages(setup)
        ]
        for where, stage in (*before, *kinds):
            paper = dict(stage.paper)
            rate, epochs = paper.pop("learning_rate", None), paper.pop("epochs", None)
            others = ", ".join(f"{key} {_shown(value)}" for key, value in sorted(paper.items()))
            if rate is not None and stage.lr_scale is not None:
                rate *= stage.lr_scale(0.0)
            shown = ["" if value is None else _shown(value) for value in (epochs, rate)]
            if others or any(shown):
                rows.setdefault((where + stage.name, *shown, others), []).append(f"`{name}`")
    head = ["method", "stage", "epochs", "learning rate", "other numbers"]
    return f"\n{table(head, [[', '.join(names), *numbers] for numbers, names in rows.items()])}\n"


BLOCKS: Mapping[str, Callable[[], str]] = {
    "common recipe": common_recipe,
    "paper recipes": paper_recipes,
    "sheets": sheets,
    "order of rows": order_of_rows,
    "start curve": start_curve,
    "changes of the start": changes_of_start,
}
"""Name of a marked block -> what is in it."""


def with_blocks(text: str) -> str:
    """A page with its marked blocks as the code has them now."""
    return BLOCK.sub(lambda found: found["begin"] + BLOCKS[found["name"]]() + found["end"], text)


def generated() -> dict[Path, str]:
    """Every file that is generated, or has a generated part -> its text."""
    pages = {page: page.read_text(encoding="utf-8") for page in sorted(DOCS.glob("*.md"))}
    made = {page: with_blocks(text) for page, text in pages.items() if BLOCK.search(text)}
    made[DOCS / "command-line.md"] = command_line()
    made[DOCS / "record.schema.json"] = json.dumps(record_schema(), indent=1) + "\n"
    return made


def out_of_date() -> list[str]:
    """The files whose committed text is not what the code gives."""
    return [
        file.name
        for file, text in generated().items()
        if not file.is_file() or file.read_text(encoding="utf-8") != text
    ]


if __name__ == "__main__":
    for file, text in generated().items():
        file.write_text(text, encoding="utf-8")
    print("written", file=sys.stderr)
