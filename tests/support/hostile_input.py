"""Hostile inputs: sound files, mutated; and how a reader has to answer them. The same seed gives the same inputs."""

from __future__ import annotations

import os
import random
import signal
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from bench.errors import BenchError

SEED = int(os.environ.get("FUZZ_SEED", "0"))
LONG = int(os.environ.get("FUZZ_INPUTS", "10000"))
SECONDS = 5
"""Of the processor; what takes longer counts as a hang."""
TOKENS = [
    b"", b"\x00", b"\xff\xfe", b"\xef\xbb\xbf", b"\r", b"\n", b"\r\n\r\n", b'"', b"'", b'"""', b"\\", b"\\u0000", b"\\ud800", b",", b"\t", b"|",
    b"=", b":", b"-", b"[", b"]", b"{", b"}", b"[[", b"[" * 3000, b"{" * 3000, b"[[a]]\n" * 50, b"null", b"true", b"NaN", b"nan", b"inf",
    b"-inf", b"1e999", b"-0", b"9" * 400, b"9" * 5000, b"0x10", b"1_000", "٣".encode(), "²".encode(), "\u2028".encode(), "ü".encode(),
    b"../../etc/passwd", b"/dev/null", b"~", b"%s%n", b"__class__", b"1979-05-27", b"a.b.c = 1\n", b"#", b"x" * 70_000,
]  # fmt: skip


def inputs(sound: Iterable[bytes], count: int, seed: int = SEED) -> Iterator[bytes]:
    """Sound files with a few places cut, doubled, replaced or filled with what readers stumble over; and noise."""
    rng, seeds = random.Random(seed), list(sound)
    for _ in range(count):
        data = bytearray(rng.choice(seeds))
        if rng.random() < 0.03:
            data = bytearray(rng.randbytes(rng.randint(0, 300)))
        for _ in range(rng.randint(1, 4)):
            place = rng.randint(0, len(data))
            end = min(len(data), place + rng.randint(0, 12))
            action = rng.randrange(6)
            if action == 0:
                del data[place:]
            elif action == 1:
                data[place:end] = b""
            elif action == 2:
                data[place:place] = data[place:end] * rng.randint(1, 3)
            elif action == 3 and data:
                data[min(place, len(data) - 1)] = rng.randrange(256)
            else:
                data[place:end] = rng.choice(TOKENS)
        yield bytes(data)


def counts(short: int) -> pytest.MarkDecorator:
    """A short form for every day, and the long one of ``tox -e faults``."""
    return pytest.mark.parametrize(
        "count", [short, pytest.param(LONG, id="long", marks=[pytest.mark.fuzz, pytest.mark.slow])]
    )


class Hang(BaseException):
    """A reader took longer than :data:`SECONDS`."""


@contextmanager
def limited() -> Iterator[None]:
    """Inside, what takes too long is broken off."""

    def stop(*_: object) -> None:
        raise Hang

    before = {number: signal.signal(number, stop) for number in (signal.SIGALRM, signal.SIGVTALRM)}
    # of the processor: other work on the machine is not what is tested
    signal.setitimer(signal.ITIMER_VIRTUAL, SECONDS)
    signal.alarm(20 * SECONDS)  # for what waits
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.alarm(0)
        for number, handler in before.items():
            signal.signal(number, handler)


def refuses(read: Callable[[], object], said: object, what: str = "") -> bool:
    """Whether a reader refuses an input. It may take it or refuse it in one line; nothing else.

    Args:
        said: the input, for the message of the test.
        what: what the line has to name: the file.
    """
    try:
        with limited():
            read()
    except BenchError as error:
        text = str(error)
        if (
            len(text.splitlines()) != 1
            or what not in text
            or not text.replace("\t", " ").isprintable()
        ):
            raise AssertionError(
                f"seed {SEED}: not one line that names {what!r}: {text!r} for {said!r}"
            ) from None
        return True
    except BaseException as error:  # a panic of a library is no Exception
        if isinstance(error, KeyboardInterrupt):
            raise
        raise AssertionError(
            f"seed {SEED}: {type(error).__name__}: {error} for {said!r}"
        ) from error
    return False


def assault(file: Path, read: Callable[[], object], sound: Iterable[bytes], count: int) -> None:
    """Give a reader so many versions of a file; it must answer each, and write nothing beside it."""
    beside = set(file.parent.rglob("*")) | {file}
    refused = 0
    for data in inputs(sound, count):
        file.write_bytes(data)
        refused += refuses(read, data, file.name)
    assert set(file.parent.rglob("*")) == beside, "a reader wrote something"
    print(f"seed {SEED}: {count} inputs, {refused} refused, 0 tracebacks, 0 hangs, 0 writes")
    assert refused, "nothing was wrong with any of them"
