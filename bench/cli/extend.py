"""Verbs for methods, data and checkpoints of your own: check-method, data, export --convert."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from bench.cli.options import OFFLINE, TASKS, argument, option
from bench.cli.program import Answer, verb
from bench.errors import CHECK_FAILED, OK, InputError, one_line
from bench.request.choices import SOURCES
from bench.terminal import say


@verb("check-method tinybert")
def check_method(
    name: str = argument(
        ..., "A method that `list` shows, with or without settings, or module:Class."
    ),
) -> Answer:
    """Check that a method keeps the contract, with a tiny teacher and task.

    Exit code 1 if it does not. "not looked at" stands for what a check could not decide.
    """
    from bench.progress import quiet

    method, settings = _method_and_settings(name)
    quiet()
    from bench.conformance.checks import CHECKS, Check, check_method
    from bench.conformance.layer_map import layer_map

    width = max(map(len, CHECKS))
    first: dict[str, str] = {}

    def tell(check: Check) -> None:
        # a fault that several checks find is told once
        said = check.said
        before = first.setdefault(check.found, check.name)
        if check.found and before != check.name:
            said = f"the same as {before}"
        say(f"  {check.name:{width}}  {check.seconds:5.1f} s  {said}")

    done = check_method(method, on_check=tell, settings=settings)
    left = len(CHECKS) - len(done)
    if left:
        say(f"the other {left} checks were not run: they need what failed")
    else:
        say("\n".join(layer_map(method(**settings))))
    wrong = sum(not check.passed for check in done)
    unseen = sum(bool(check.unseen) for check in done)
    took = sum(check.seconds for check in done)
    text = f"{name}: {len(done)} checks passed in {took:.0f} s"
    if unseen:
        text += f", {unseen} of them not looked at in every part"
    if wrong:
        text = f"{name}: {wrong} of {len(done)} checks failed in {took:.0f} s"
    body = [check.as_dict() for check in done]
    return text, body, CHECK_FAILED if wrong else OK


def _method_and_settings(name: str) -> tuple[type, dict[str, Any]]:
    """A method's class, and the settings behind it."""
    from bench.plan.spelling import defaults, method_class, method_name, parse_one
    from bench.record.cell import split_row

    if not split_row(name)[1]:
        # half a method cannot be a row, and is told what it lacks
        return method_class(method_name(name)), {}
    row = parse_one(name)
    if row.dropped or row.pace != 1 or row.stage_overrides:
        raise InputError(
            f"{name}: a method is checked with settings, not with dropped terms, another pace or "
            "numbers of a stage"
        )
    default = defaults(type(row.method))
    return type(row.method), {
        n: value for n in default if (value := vars(row.method)[n]) != default[n]
    }


@verb("data --data sample --tasks rte,mnli --out sample-suite", reads_scores=True)
def data(
    tasks: str = TASKS,
    data: str = option("sample", SOURCES),
    offline: bool = OFFLINE,
    out: Path | None = option(
        None, "Also write the examples to this folder, as parquet in GLUE's layout."
    ),
) -> Answer:
    """Show and check the examples of a data source: how many there are, their labels, and a hash of
    their content."""
    from bench.data.inspect import export, inspect

    rows = inspect(tasks, data, offline)
    width = max(len(f"{row['task']}/{row['split']}") for row in rows)
    lines = list[str]()
    for row in rows:
        if row["taken"] not in lines:
            lines.append(row["taken"])
        shared = ""
        if row["also_in_train"]:
            shared = f"; {row['also_in_train']:,} also in train"
        name = f"{row['task']}/{row['split']}"
        labels = one_line(row["labels"])
        short_hash = row["fingerprint"][:12]
        lines.append(f"{name:{width}}  {row['rows']:>8,} examples  {short_hash}  {labels}{shared}")
    for row in rows:
        for note in row["said"]:
            line = f"note: {one_line(note)}"
            if line not in lines:
                lines.append(line)
    if out is not None:
        lines.append(f"written: {export(tasks, data, offline, out)} files below {out}")
    return "\n".join(lines), rows, OK


@verb(
    "export --convert huawei-noah/TinyBERT_General_4L_312D --to tinybert-general",
    form="--convert",
    has_json=False,
)
def convert(
    source: str = argument(
        ...,
        "A folder, or a name on the hub, with a pytorch_model.bin, with weights in shards, or with "
        "names that begin with module. or _orig_mod.",
    ),
    to: Path = option(..., "The new folder."),
    offline: bool = OFFLINE,
) -> None:
    """Convert a pytorch_model.bin or shards to one safetensors file, and take prefixes off the
    names of its tensors. A pytorch_model.bin is opened with weights_only=True, so no code in it
    runs."""
    from bench.workflows import convert as workflow

    made = workflow.convert(source, to, offline)
    taken_off = f"; {made.renamed}, which was taken off" if made.renamed else ""
    say(f"{made.folder}: {made.tensors} tensors{taken_off}")
