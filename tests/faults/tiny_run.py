"""A run of a few cells on a tiny teacher; how its records are read and compared with those of the unbroken run."""

from __future__ import annotations

import hashlib
import os
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tiny
from forked import Child, Ended, Outcome, bench

LIMIT_SECONDS = float(os.environ.get("FAULTS_LIMIT", "600"))
"""Of a process; what takes longer counts as a hang."""
WITH_START = f"finetune:{tiny.SHAPE}:start=random,microbert:{tiny.SHAPE}"
WITHOUT_START = f"finetune:{tiny.SHAPE}:start=random"
EMBEDDED = "finetune:layers=2:start=random,microbert:layers=2"
STATE_AT_EACH_STEP, STATE_RARELY = 0.0, 300.0
Finished = Mapping[str, str]
"""Path of a finished attempt below the results -> the hash of its bytes and of its answers'."""
Facts = Mapping[str, Any]
"""Folder of a cell below the results -> everything of its record that does not tell the time."""


@dataclass(frozen=True)
class Place:
    """The folders of one run."""

    root: Path

    @property
    def results(self) -> Path:
        return self.root / "results"

    @property
    def reports(self) -> Path:
        return self.root / "reports"

    @property
    def cache(self) -> Path:
        return self.root / "cache"


@dataclass(frozen=True)
class TinyRun:
    """What is run: the rows, the teacher and the data."""

    inputs: Path
    methods: str
    tasks: str = "rte"
    seeds: str = "0"
    state_seconds: float = STATE_AT_EACH_STEP
    is_embedded: bool = False
    """the embedded teacher and a part of the sample data, in the place of the tiny teacher and tasks"""

    def words(self, place: Place, *further: str) -> list[str]:
        """The command line."""
        given = {
            "methods": self.methods, "tasks": self.tasks, "seeds": self.seeds, "data": self.inputs / "tiny-glue",
            "teacher": self.inputs / "tiny-bert", "corpus": self.inputs / "corpus.txt", "corpus-tokens": 300,
            "epochs": 1, "threads": 1, "device": "cpu", "results": place.results, "reports": place.reports,
        }  # fmt: skip
        if self.is_embedded:
            given |= {"data": "sample", "teacher": "embedded", "max-train-rows": 64}
        typed = [str(word) for name, value in given.items() for word in (f"--{name}", value)]
        jobs = () if "--jobs" in further else ("--jobs", "1")
        return ["run", *typed, *jobs, "--offline", "--yes", *further]

    def begun(
        self,
        place: Place,
        name: str,
        before: Callable[[], None] = lambda: None,
        further: Sequence[str] = (),
        after: Callable[[], None] = lambda: None,
    ) -> Child:
        """A process that runs it; ``before`` and ``after`` are called in it right before and after the command."""

        def work() -> int:
            from bench.train import training_state

            training_state.EVERY_SECONDS = self.state_seconds
            code = bench(self.words(place, *further), place.cache, before)
            after()
            return code

        place.root.mkdir(parents=True, exist_ok=True)
        return Child(work, place.root / f"{name}.txt")

    def whole(
        self, place: Place, name: str, before: Callable[[], None] = lambda: None, further: Sequence[str] = ()
    ) -> Ended:
        """Run it to its end."""
        return self.begun(place, name, before, further).ended(LIMIT_SECONDS)


def prepared(folder: Path) -> Path:
    """A tiny teacher, tiny tasks and a tiny corpus, in a folder."""
    tiny.save_teacher(folder / "tiny-bert")
    tiny.write_glue(folder / "tiny-glue", ("rte", "sst2"))
    (folder / "corpus.txt").write_text("the cat runs in the house .\na bird sings on the old tree .\n" * 30)
    return folder


def finished(results: Path) -> Finished:
    """Every finished attempt that can be used."""
    from bench.record.store import Store

    store, found = Store(results), {}
    for folder in store.cells():
        for file in store.attempts_in(folder):
            record, answers = store.opened(file), file.with_suffix(".npz")
            if record is not None and record.status == "ok" and answers.is_file():
                digest = hashlib.sha256(file.read_bytes() + answers.read_bytes()).hexdigest()
                found[str(file.relative_to(results))] = digest
    return found


def facts(results: Path) -> Facts:
    """What a run leaves, without the times."""
    from bench.record.store import Store

    store, found = Store(results), {}
    for record in store.records():
        if record.status != "ok":
            continue
        known = record.model_dump(mode="json")
        train = {name: value for name, value in (known["train"] or {}).items() if "seconds" not in name}
        arrays = {name: hashlib.sha256(one.tobytes()).hexdigest() for name, one in store.predictions(record).items()}
        kept = ("weights", "scores", "terms", "gradient_norms", "gradient_shares", "usage")
        place = str(store.folder(record.cell, record.point).relative_to(results))
        found[place] = [train, arrays, *(known[name] for name in kept)]
    return found


def broken(place: Place) -> list[str]:
    """What cannot be used as it is, of the records and of the cache."""
    from bench.workflows.upkeep import BROKEN, sentence, survey_store

    place.results.mkdir(parents=True, exist_ok=True)
    return [sentence(it) for it in survey_store(place.results, place.cache)["found"] if it["kind"] == BROKEN]


def left(place: Place) -> int:
    """Temporary files and folders."""
    return sum(1 for root in (place.results, place.cache, place.reports) for _ in root.rglob(".tmp-*"))


def judge(outcome: Outcome, place: Place, before: Finished, last: Ended, expected: Facts) -> None:
    """Count what is wrong after the run that came after a fault.

    Args:
        before: the finished attempts that were there after the fault.
        last: how the run after the fault ended.
        expected: what the unbroken run left.
    """
    _judge_end(outcome, last, 0)
    after, found = finished(place.results), facts(place.results)
    for name, digest in before.items():
        if after.get(name) != digest:
            outcome.wrong("lost", name)
    for cell, count in Counter(str(Path(name).parent) for name in after).items():
        if count > 1:
            outcome.wrong("twice", f"{count} finished attempts in {cell}")
    for text in broken(place):
        outcome.wrong("corrupt", text)
    for cell, known in expected.items():
        if cell not in found:
            outcome.wrong("unfinished", cell)
        elif found[cell] != known:
            outcome.wrong("unequal", cell)
    if not any(place.reports.glob("*/*/README.md")):
        outcome.wrong("unfinished", "the report")


def _judge_end(outcome: Outcome, ended: Ended, code: int | None) -> None:
    if ended.hung:
        outcome.wrong("hangs", ended.last_line)
    if ended.has_traceback:
        outcome.wrong("tracebacks", ended.last_line)
    if code is not None and ended.code != code and not ended.hung:
        outcome.wrong("silent", f"exit code {ended.code} instead of {code}: {ended.last_line}")


def judge_fault(outcome: Outcome, place: Place, ended: Ended, codes: Sequence[int], expected: Facts) -> None:
    """Count what is wrong with how a run met a fault that did not kill it: it says so in one line, or has everything.

    Args:
        codes: the exit codes that are right.
    """
    _judge_end(outcome, ended, None)
    if ended.hung:
        return
    if ended.code not in codes:
        outcome.wrong("silent", f"exit code {ended.code}: {ended.last_line}")
    elif ended.code and not any(line.startswith(("bench: ", "failed: ")) for line in ended.said.splitlines()):
        outcome.wrong("silent", f"exit code {ended.code}, and no line that says why")
    elif not ended.code and (lacking := set(expected) - set(facts(place.results))):
        outcome.wrong("silent", f"exit code 0, and no record of {sorted(lacking)[0]}")
