"""A run of a few cells on a tiny teacher; how its records are read and compared with those of the unbroken run."""

from __future__ import annotations

import hashlib
import shutil
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import tiny
from forked import Child, Ended, bench

ROWS = f"finetune:{tiny.SHAPE}:start=random,microbert:{tiny.SHAPE}"
BAD = ("lost", "twice", "corrupt", "unequal", "unfinished", "tracebacks", "hangs", "silent")
"""Records that were finished before the fault and are gone or changed; cells with several finished attempts; files that
cannot be used as they are; records unlike those of the unbroken run; records that are missing; ...; ends without a clear
line or with a wrong exit code. All should be 0."""
Facts = Mapping[str, Any]
"""Folder of a cell below the results -> everything of its record that does not tell the time."""


@dataclass
class Outcome:
    """What one point gave."""

    point: str
    happened: int = 1
    """0 where the run was over before the fault"""
    left: int = 0
    """temporary files and folders that the fault left; `bench store gc` names them"""
    bad: dict[str, int] = field(default_factory=Counter)
    why: list[str] = field(default_factory=list)

    def wrong(self, what: str, why: str) -> None:
        """Count one thing that is wrong."""
        self.bad[what] += 1
        self.why.append(f"{what}: {why}")


@dataclass(frozen=True)
class Place:
    """The folders of one run."""

    root: Path

    @property
    def results(self) -> Path:
        return self.root / "results"

    @property
    def cache(self) -> Path:
        return self.root / "cache"

    @property
    def reports(self) -> Path:
        return self.root / "reports"


def run(
    inputs: Path,
    place: Place,
    name: str,
    before: Callable[[], None] = lambda: None,
    *further: str,
    after: Callable[[], None] = lambda: None,
    every_seconds: float = 0.0,
) -> Child:
    """A process that does the run; ``before`` and ``after`` are called in it right before and after the command.

    Args:
        further: words that replace its own.
        every_seconds: how often the state of a training is saved; at each step by default.
    """
    given = {
        "--methods": ROWS, "--tasks": "rte", "--seeds": "0", "--data": inputs / "tiny-glue", "--teacher": inputs / "tiny-bert",
        "--corpus": inputs / "corpus.txt", "--corpus-tokens": 300, "--epochs": 1, "--threads": 1, "--device": "cpu",
        "--results": place.results, "--reports": place.reports, "--jobs": 1,
    }  # fmt: skip
    given |= dict(zip(further[::2], further[1::2], strict=True))
    words = ["run", *(word for pair in given.items() for word in pair if word != ""), "--offline", "--yes"]

    def work() -> int:
        from bench.train import training_state

        training_state.EVERY_SECONDS = every_seconds
        code = bench(words, place.cache, before)
        after()
        return code

    place.root.mkdir(parents=True, exist_ok=True)
    return Child(work, place.root / f"{name}.txt")


def prepared(folder: Path) -> Path:
    """A tiny teacher, tiny tasks and a tiny corpus, in a folder."""
    tiny.save_teacher(folder / "tiny-bert")
    tiny.write_glue(folder / "tiny-glue", ("rte", "sst2"))
    (folder / "corpus.txt").write_text("the cat runs in the house .\na bird sings on the old tree .\n" * 30)
    return folder


def finished(results: Path) -> Mapping[str, str]:
    """Path of every finished attempt that can be used -> the hash of its bytes and of its answers'."""
    from bench.record.store import Store

    store, found = Store(results), {}
    for file in (file for folder in store.cells() for file in store.attempts_in(folder)):
        record, answers = store.opened(file), file.with_suffix(".npz")
        if record is not None and record.status == "ok" and answers.is_file():
            digest = hashlib.sha256(file.read_bytes() + answers.read_bytes()).hexdigest()
            found[str(file.relative_to(results))] = digest
    return found


def facts(results: Path) -> Facts:
    """What a run leaves, without the times."""
    from bench.record.store import Store

    store, found = Store(results), {}
    for record in (record for record in store.records() if record.status == "ok"):
        known = record.model_dump(mode="json")
        train = {name: value for name, value in (known["train"] or {}).items() if "seconds" not in name}
        arrays = {name: hashlib.sha256(one.tobytes()).hexdigest() for name, one in store.predictions(record).items()}
        kept = ("weights", "scores", "terms", "gradient_norms", "gradient_shares", "usage")
        place = str(store.folder(record.cell, record.point).relative_to(results))
        found[place] = [train, arrays, *(known[name] for name in kept)]
    return found


def judged(outcome: Outcome, place: Place, before: Mapping[str, str], last: Ended, expected: Facts) -> dict[str, Any]:
    """What is wrong after the run that came after a fault; its folder is removed.

    Args:
        before: the finished attempts that were there after the fault.
        last: how the run after the fault ended.
        expected: what the unbroken run left.
    """
    from bench.workflows.upkeep import BROKEN, sentence, survey_store

    judge_end(outcome, last, (0,))
    after, found = finished(place.results), facts(place.results)
    for name in (name for name, digest in before.items() if after.get(name) != digest):
        outcome.wrong("lost", name)
    for cell, count in Counter(str(Path(name).parent) for name in after).items():
        if count > 1:
            outcome.wrong("twice", f"{count} finished attempts in {cell}")
    for entry in survey_store(place.results, place.cache)["found"]:
        if entry["kind"] == BROKEN:
            outcome.wrong("corrupt", sentence(entry))
    for cell, known in expected.items():
        if found.get(cell) != known:
            outcome.wrong("unequal" if cell in found else "unfinished", cell)
    if not any(place.reports.glob("*/*/README.md")):
        outcome.wrong("unfinished", "the report")
    shutil.rmtree(place.root, ignore_errors=True)
    return asdict(outcome)


def judge_end(outcome: Outcome, ended: Ended, codes: Sequence[int]) -> None:
    """Count what is wrong with how a command ended: it hangs, breaks, or fails without a line that says why."""
    if ended.hung:
        outcome.wrong("hangs", ended.last_line)
        return
    if ended.has_traceback:
        outcome.wrong("tracebacks", ended.last_line)
    if ended.code not in codes:
        outcome.wrong("silent", f"exit code {ended.code}: {ended.last_line}")
    elif ended.code > 0 and not any(line.startswith(("bench: ", "failed: ")) for line in ended.said.splitlines()):
        outcome.wrong("silent", f"exit code {ended.code}, and no line that says why")
