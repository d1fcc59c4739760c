"""``python tests/faults``: a small run is killed and its files fail, at every operation; then it is run again, and nothing may be lost.

FAULTS_SECONDS says how long it may take (1,500 by default); what there is no time for is left out. FAULTS_SEED draws other points,
FAULTS_POINTS tries only those with this in their names, such as "attempt-1". The faults are Python's own operations on files, which
its audit events tell of: a process ends before one, or right after a file was opened and before anything was written, or gets an error.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import importlib
import os
import random
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))
os.environ["HF_HUB_OFFLINE"] = "1"  # nothing here asks a hub

import small_runs
import tiny

SECONDS, SEED = (
    float(os.environ.get("FAULTS_SECONDS", "1500")),
    int(os.environ.get("FAULTS_SEED", "0")),
)
IMPORTED = (
    "datasets", "jinja2", "matplotlib.backends.backend_svg", "safetensors.torch", "torch",
    "transformers.models.bert.modeling_bert", "transformers.models.bert.tokenization_bert",
    "bench.cli", "bench.plan.build", "bench.report.write", "bench.workflows.run", "bench.workflows.upkeep",
)  # fmt: skip
"""What a run imports, so that no forked process has to."""
ROWS = f"finetune:{tiny.SHAPE}:start=random,microbert:{tiny.SHAPE}"
EVENTS = {"open", "os.rename", "os.remove", "os.mkdir", "os.chmod"}
ERRORS = (errno.ENOSPC, errno.EIO, errno.EROFS, errno.EACCES)
BEFORE, WITHIN, ONCE, ALWAYS = "killed before", "killed within", "fails once at", "fails from"
LIMIT_SECONDS = 600.0

Fault = Callable[[int, str, Path, bool], None]
"""Is told of each operation: its number, what it is, its file, whether it opens a file for writing."""


def watched(root: Path, fault: Fault) -> None:
    """From now on this process meets the fault at its operations on files below a folder."""
    count, busy = 0, False

    def hook(event: str, given: tuple[Any, ...]) -> None:
        nonlocal count, busy
        if event not in EVENTS or busy or not isinstance(given[0], str | os.PathLike):
            return
        path = Path(os.path.abspath(given[0]))
        if not path.is_relative_to(root):
            return
        writes = event == "open" and bool(given[2] & (os.O_WRONLY | os.O_RDWR))
        count, busy = count + 1, True  # what the fault itself does to files is not counted
        try:
            fault(count, event, path, writes)
        finally:
            busy = False

    sys.addaudithook(hook)


def at(number: int, how: str, error: int = 0) -> Fault:
    """The fault at the n-th operation; where it ``fails from`` there, also at all that follow."""

    def fault(count: int, event: str, path: Path, writes: bool) -> None:
        if count < number or (count > number and how != ALWAYS):
            return
        if how in (ONCE, ALWAYS):
            raise OSError(error, os.strerror(error), str(path))
        if how == WITHIN and writes:
            path.write_bytes(b"")
        os.kill(os.getpid(), signal.SIGKILL)

    return fault


def request_of(inputs: Path, root: Path) -> Any:
    """The run whose results and reports lie below a root."""
    make = small_runs.requests(inputs, inputs / "tiny-bert", inputs / "tiny-glue")
    return make(root / "results", reports=root / "reports", methods=ROWS, tasks="rte", epochs=1.0)


def start(
    inputs: Path, root: Path, name: str, fault: Fault | None = None, retry: bool = False
) -> int:
    """The run in a process that is forked from this one, with its failed cells once more or without; its number."""
    words = [
        *small_runs.words_of(request_of(inputs, root)),
        "--device",
        "cpu",
        "--jobs",
        "1",
        "--offline",
    ]
    root.mkdir(parents=True, exist_ok=True)
    process = os.fork()
    if process:
        return process
    code = 1
    try:
        os.setsid()
        signal.signal(signal.SIGINT, signal.default_int_handler)
        out = os.open(root / f"{name}.txt", os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o644)
        os.dup2(out, 1)
        os.dup2(out, 2)
        from bench.cli import main
        from bench.train import training_state

        training_state.EVERY_SECONDS = 0.0
        os.environ["BERT_BENCH_CACHE"] = str(root / "cache")
        sys.argv = ["bench", *words, *(["--retry-failed"] if retry else [])]
        if fault is not None:
            watched(root, fault)
        main()
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        traceback.print_exc()
    finally:
        with contextlib.suppress(BaseException):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)


def ended(
    process: int, root: Path, name: str, wrong: list[str], codes: tuple[int, ...]
) -> tuple[int, str]:
    """Wait for a run; its exit code and what it said. Wrong: it hangs, breaks, or fails without a line that says why."""
    begun = time.monotonic()
    while not (waited := os.waitpid(process, os.WNOHANG))[0]:
        if time.monotonic() - begun > LIMIT_SECONDS:
            os.killpg(process, signal.SIGKILL)
            wrong.append("hangs")
        time.sleep(0.004)
    code, said = (
        os.waitstatus_to_exitcode(waited[1]),
        (root / f"{name}.txt").read_text(errors="replace"),
    )
    if "Traceback (most recent call last)" in said:
        wrong.append(f"traceback: {said[-300:]}")
    if code not in codes:
        wrong.append(f"silent: exit code {code}: {said[-300:]}")
    elif code > 0 and not any(
        line.startswith(("bench: ", "failed: ")) for line in said.splitlines()
    ):
        wrong.append(f"silent: exit code {code}, and no line that says why")
    return code, said


def finished(root: Path) -> dict[str, str]:
    """Path of every finished attempt that can be used -> the hash of its bytes and of its answers'."""
    from bench.record.store import Store

    store, hashes = Store(root / "results"), {}
    for file in (file for folder in store.cells() for file in store.attempts_in(folder)):
        record, answers = store.opened(file), file.with_suffix(".npz")
        if record is not None and record.status == "ok" and answers.is_file():
            name = str(file.relative_to(store.root))
            hashes[name] = hashlib.sha256(file.read_bytes() + answers.read_bytes()).hexdigest()
    return hashes


def judged(
    inputs: Path, root: Path, expected: dict[str, Any], wrong: list[str], retry: bool
) -> list[str]:
    """Run it again to its end: what is lost, there twice, corrupt, unlike the unbroken run or missing. The folder is removed."""
    from bench.workflows.upkeep import BROKEN, survey_store

    before = finished(root)
    ended(start(inputs, root, "again", retry=retry), root, "again", wrong, (0,))
    after, known = finished(root), small_runs.ends(request_of(inputs, root))
    wrong += [f"lost: {name}" for name, digest in before.items() if after.get(name) != digest]
    counts = Counter(str(Path(name).parent) for name in after)
    wrong += [
        f"twice: {count} finished attempts in {cell}" for cell, count in counts.items() if count > 1
    ]
    found = survey_store(root / "results", root / "cache").found
    wrong += [f"corrupt: {entry.sentence()}" for entry in found if entry.kind == BROKEN]
    wrong += [
        f"unequal or unfinished: {cell}"
        for cell, value in expected.items()
        if known.get(cell) != value
    ]
    wrong += [] if any((root / "reports").glob("*/*/README.md")) else ["unfinished: the report"]
    shutil.rmtree(root, ignore_errors=True)
    return wrong


Point = tuple[str, Callable[[Path], list[str]]]
"""The name of one fault at one place, and what tries it in a folder and says what is wrong."""


def points(
    inputs: Path,
    operations: list[tuple[str, str, bool]],
    expected: dict[str, Any],
    rng: random.Random,
) -> list[Point]:
    """Every operation with a kill before it, within it, and an error, in any order."""

    def of_operation(root: Path, number: int, how: str, error: int) -> list[str]:
        wrong: list[str] = []
        # an error may be one that a run goes on with, one that ends it (4: no record can be read for the report), or one that
        # fails cells; a kill ends it
        codes = (0, 2, 4, 6) if error else (-signal.SIGKILL, 0)
        code, said = ended(
            start(inputs, root, "broken", at(number, how, error)), root, "broken", wrong, codes
        )
        if (
            error
            and not code
            and set(expected)
            - {k for k, parts in small_runs.ends(request_of(inputs, root)).items() if "ok" in parts}
        ):
            wrong.append(f"silent: exit code 0, and a record is missing: {said[-300:]}")
        return judged(inputs, root, expected, wrong, retry=bool(error))

    chosen: list[Point] = []
    for number, (event, name, writes) in enumerate(operations, start=1):
        error = rng.choice(ERRORS)
        for how in (BEFORE, *([WITHIN] if writes else []), rng.choice((ONCE, ALWAYS))):
            code = error if how in (ONCE, ALWAYS) else 0
            said = f"{how} {event} {number} of {name}" + (
                f" ({errno.errorcode[code]})" if code else ""
            )
            chosen.append((said, lambda root, n=number, h=how, c=code: of_operation(root, n, h, c)))
    rng.shuffle(chosen)
    return chosen


def main() -> int:
    """Try the points; the exit code is 1 where something was lost, twice, corrupt or not said."""
    for name in IMPORTED:
        importlib.import_module(name)
    import methods

    for name in methods.names():
        methods.get(name)
    work, begun, rng = (
        Path(tempfile.mkdtemp(prefix="bench-faults-")).resolve(),
        time.monotonic(),
        random.Random(SEED),
    )
    tried, defects = Counter[str](), 0
    try:
        inputs, log = work / "inputs", work / "operations.txt"
        tiny.save_teacher(inputs / "tiny-bert")
        tiny.write_glue(inputs / "tiny-glue", ("rte", "sst2"))
        wrong: list[str] = []
        with log.open("a") as lines:

            def note(count: int, event: str, path: Path, writes: bool) -> None:
                lines.write(f"{event}\t{path.name}\t{int(writes)}\n")
                lines.flush()

            ended(
                start(inputs, work / "unbroken", "run", note), work / "unbroken", "run", wrong, (0,)
            )
        assert not wrong, wrong
        expected = small_runs.ends(request_of(inputs, work / "unbroken"))
        listed = [line.split("\t") for line in log.read_text().splitlines()]
        operations = [(event, name, writes == "1") for event, name, writes in listed]
        print(
            f"seed {SEED}; {len(expected)} records, {len(operations)} operations on files",
            flush=True,
        )
        for name, attempt in points(inputs, operations, expected, rng):
            if time.monotonic() - begun > SECONDS:
                break
            if os.environ.get("FAULTS_POINTS", "") in name:
                tried[name.partition(" ")[0]] += 1
                if wrong := attempt(work / f"point-{sum(tried.values())}"):
                    defects += 1
                    print(f"defect: {name}: {'; '.join(wrong)}", flush=True)
    finally:
        shutil.rmtree(work, ignore_errors=True)
    print(
        f"{sum(tried.values())} points ({', '.join(f'{n} {what}' for what, n in tried.items())}): {defects} defects"
    )
    return 1 if defects else 0


if __name__ == "__main__":
    sys.exit(main())
