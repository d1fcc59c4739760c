"""Values of options as text: how what is typed is read, and how a value is typed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from bench.errors import InputError, unknown
from bench.record.varied import VARIABLE, Source
from bench.request.choices import AUTO, DIGITS, NUMBERS, SBATCH, SLURM_PARAMETERS
from bench.user_files import comma_separated


def named_values(
    option: str, texts: Iterable[str], known: Iterable[str], example: str
) -> tuple[tuple[str, str], ...]:
    """``["partition=gpu", "time=120"]`` -> (name, value), in alphabetical order.

    Raises:
        InputError: not NAME=VALUE, a name that is not known, or one given twice.
    """
    values: dict[str, str] = {}
    for text in texts:
        name, _, value = (word.strip() for word in text.partition("="))
        if not value:
            raise InputError(f"{option} {text}: give {example}")
        if name not in known:
            raise unknown(f"name of {option}", name, list(known))
        if name in values:
            raise InputError(f"{option} {text}: {name} is given twice")
        values[name] = value
    return tuple(sorted(values.items()))


def parse_slurm(text: str) -> tuple[tuple[str, str], ...]:
    """``"partition=gpu,time=120"`` -> parameters of a request.

    Raises:
        InputError: as :func:`named_values`.
    """
    texts = comma_separated(text)
    names = [text.partition("=")[0].strip() for text in texts]
    further = [name for name in names if name.startswith(SBATCH)]
    example = "NAME=VALUE, like partition=gpu,time=120"
    return named_values("--slurm", texts, (*SLURM_PARAMETERS, *further), example)


def parse_seeds(text: str) -> tuple[int, ...]:
    try:
        return tuple(int(part) for part in text.split(",") if part.strip())
    except ValueError:
        raise InputError(f"--seeds {text}: give whole numbers, like 0,1,2") from None


def read_vary(text: str | None) -> tuple[str, ...] | None:
    """The value of ``--vary`` as the command line has it; None where a record states it, and nobody
    typed it."""
    return None if text is None else parse_vary(text)


def parse_vary(text: str) -> tuple[Source, ...]:
    """``"teacher,start"`` -> what is drawn anew with each seed, in one order.

    Raises:
        InputError: something else than that.
    """
    named = comma_separated(text)
    for name in named:
        if name not in VARIABLE:
            raise InputError(f"--vary {name}: choose {', '.join(VARIABLE)} or both")
    return tuple(name for name in VARIABLE if name in named)


def parse_jobs(text: str) -> int:
    """``auto`` is 0."""
    if text == AUTO:
        return 0
    if not text.isdecimal() or len(text) > DIGITS or int(text) == 0:
        raise InputError(f"--jobs {text}: give a whole number from 1 on, or auto")
    return int(text)


def parse_numbers(texts: Sequence[str] | None) -> tuple[tuple[str, int], ...]:
    """``["batch_size=8"]`` -> numbers of a request, in alphabetical order.

    Raises:
        InputError: not NAME=NUMBER, a name that is not there, or one given twice.
    """
    given = named_values("--set", texts or (), NUMBERS, "NAME=NUMBER, like batch_size=16")
    for name, value in given:
        if not value.isdecimal() or len(value) > DIGITS:
            raise InputError(f"--set {name}={value}: give NAME=NUMBER, like batch_size=16")
    return tuple((name, int(value)) for name, value in given)


def as_typed(value: Any) -> str:
    """A setting's value as it is typed in a row; reading it back gives the same value."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float) and float(short := f"{value:g}") == value:
        return short
    return str(value)
