"""Verbs for methods, data and checkpoints of your own: check-method, data, convert."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from bench.cli.options import OFFLINE, TASKS, argument, option
from bench.cli.program import Answer, verb
from bench.errors import CHECK_FAILED, OK, InputError, one_line
from bench.plan.request import SOURCES
from bench.terminal import say


@verb("check-method tinybert")
def check_method(
    name: str = argument(
        ..., "A method that `list` shows, with or without settings, or module:Class."
    ),
) -> Answer:
    """Check that a method keeps the contract, with a tiny teacher and task. Exit code 1 if it does not."""
    from bench.progress import quiet

    method, settings = _method_and_settings(name)
    quiet()
    from bench.conformance.checks import CHECKS, Check, check_method

    width, first = max(map(len, CHECKS)), dict[str, str]()

    def tell(check: Check) -> None:
        before = first.setdefault(check.found, check.name)
        found = check.found if before == check.name else f"the same as {before}"
        said = found if check.found else "ok"
        say(f"  {check.name:{width}}  {check.seconds:5.1f} s  {said}")

    done = check_method(method, on_check=tell, settings=settings)
    if left := len(CHECKS) - len(done):
        say(f"the other {left} checks were not run: they need what failed")
    wrong = [check for check in done if not check.passed]
    took = sum(check.seconds for check in done)
    how_many = (
        f"{len(wrong)} of {len(done)} checks failed" if wrong else f"{len(done)} checks passed"
    )
    body = [{"check": c.name, "found": c.found, "seconds": c.seconds} for c in done]
    return f"{name}: {how_many} in {took:.0f} s", body, CHECK_FAILED if wrong else OK


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
            f"{name}: a method is checked with settings, not with dropped terms, another pace or numbers of a stage"
        )
    default = defaults(type(row.method))
    return type(row.method), {
        n: value for n in default if (value := vars(row.method)[n]) != default[n]
    }


@verb("data --data sample --tasks rte,mnli --out sample-suite")
def data(
    tasks: str = TASKS,
    data: str = option("sample", SOURCES),
    offline: bool = OFFLINE,
    out: Path | None = option(
        None, "Also write the examples to this folder, as parquet in GLUE's layout."
    ),
) -> Answer:
    """Show and check the examples of a data source: how many there are, their labels, and a hash of their content."""
    from bench.data.inspect import export, inspect

    rows = inspect(tasks, data, offline)
    width = max(len(f"{row['task']}/{row['split']}") for row in rows)
    lines = list[str]()
    for row in rows:
        *texts, answer = row["columns"]
        read = f"{row['task']}: {row['form']}; text {' + '.join(texts)}; answer {answer}"
        lines += [read] if read not in lines else []
        shared = f"; {row['also_in_train']:,} also in train" if row["also_in_train"] else ""
        name, labels = f"{row['task']}/{row['split']}", one_line(row["labels"])
        lines.append(
            f"{name:{width}}  {row['rows']:>8,} examples  {row['fingerprint'][:12]}  {labels}{shared}"
        )
    if out is not None:
        lines.append(f"written: {export(tasks, data, offline, out)} files below {out}")
    return "\n".join(lines), rows, OK


@verb("convert huawei-noah/TinyBERT_General_4L_312D tinybert-general", has_json=False)
def convert(
    source: str = argument(..., "A folder with a pytorch_model.bin, or a name on the hub."),
    target: Path = argument(..., "The new folder."),
    offline: bool = OFFLINE,
) -> None:
    """Convert a pytorch_model.bin to safetensors. The file is opened with weights_only=True, so no code in it runs."""
    from bench.workflows import convert as workflow

    folder, count = workflow.convert(source, target, offline)
    say(f"{folder}: {count} tensors")
