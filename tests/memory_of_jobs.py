"""Peak memory of four pieces of work, compared with what the plan states for them. Linux only; not collected by pytest.

    python tests/memory_of_jobs.py
    python tests/memory_of_jobs.py --base    # a tiny student alone: what bench.plan.memory.BASE_BYTES says

Each piece of work is one command in a process of its own on the sample suite with the embedded teacher: a teacher is
tuned, a general start is trained on 20,000 tokens, a group of one student and a group of six are trained and scored.
Every 0.2 seconds the memory of the process and of all its descendants is summed as proportional set size (``Pss`` of
``/proc/PID/smaps_rollup``: a page that n processes share counts 1/n for each). The table has the peak, the closed form
of ``bench.plan.memory`` and their ratio.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
EVERY_SECONDS = 0.2
ONE, SIX = "tinybert", "kd,tinybert,finetune,microbert,pkd,pd"
TASK, TOKENS, ROWS = "rte", 20_000, 128
TEACHER = ("--data", "sample", "--teacher", "embedded", "--max-train-rows", str(ROWS), "--epochs", "1")


@dataclass(frozen=True)
class Work:
    """One piece of work: the words of its command, and the bytes that the plan states."""

    name: str
    words: tuple[str, ...]
    stated: int


@dataclass(frozen=True)
class Measured:
    """Peak bytes of a piece of work, and the bytes stated."""

    name: str
    peak: int
    stated: int


def descendants(pid: int) -> Iterator[int]:
    """A process and all that it started, those of them that are still there."""
    yield pid
    for task in Path(f"/proc/{pid}/task").glob("*"):
        try:
            children = (task / "children").read_text().split()
        except OSError:
            continue
        for child in children:
            yield from descendants(int(child))


def pss(pid: int) -> int:
    """Proportional set size of a process in bytes; 0 where it has ended."""
    try:
        found = re.search(r"^Pss:\s+(\d+) kB", Path(f"/proc/{pid}/smaps_rollup").read_text(), re.MULTILINE)
    except OSError:
        return 0
    return 1024 * int(found[1]) if found else 0


def _surroundings(cache: Path) -> dict[str, str]:
    own = {"BERT_BENCH_CACHE": str(cache), "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
    return {**os.environ, **own}


def peak_of(words: tuple[str, ...], cache: Path, folder: Path) -> int:
    """Run ``python -m bench WORDS`` in ``folder`` and return the peak of its summed memory in bytes.

    Raises:
        RuntimeError: the command failed; the message has its output.
    """
    peak, output = 0, folder / "output"
    with output.open("w") as out:
        child = subprocess.Popen(
            [sys.executable, "-m", "bench", *words],
            cwd=folder,
            env=_surroundings(cache),
            stdout=out,
            stderr=subprocess.STDOUT,
        )
        while child.poll() is None:
            peak = max(peak, sum(map(pss, descendants(child.pid))))
            time.sleep(EVERY_SECONDS)
    if child.returncode:
        raise RuntimeError(f"bench {' '.join(words)}: exit code {child.returncode}\n{output.read_text()}")
    return peak


def works(folder: Path) -> list[Work]:
    """The four pieces of work, in an order in which each finds ready what it is made from."""
    from bench.plan.build import build
    from bench.plan.memory import artefact_bytes, group_bytes, teacher_bytes
    from bench.plan.request import Request

    def plan_of(methods: str):
        request = Request(
            methods,
            TASK,
            data="sample",
            teacher="embedded",
            results=folder / "planned",
            max_train_rows=ROWS,
            epochs=1.0,
            corpus_tokens=TOKENS,
            threads=1,
        )
        return build(request)

    one, six = plan_of(ONE), plan_of(SIX)
    (general,) = one.artefacts.kept.values()
    text = ("--corpus-tokens", str(TOKENS))
    few = ("--threads", "1")

    def run(methods: str) -> tuple[str, ...]:
        return ("run", "--methods", methods, "--tasks", TASK, *TEACHER, *text, *few, "--yes")

    def of_group(plan) -> int:
        (group,) = plan.groups(TASK)
        return group_bytes(plan, plan.tasks[0], group)

    return [
        Work("a teacher is tuned", ("teacher", "--tasks", TASK, *TEACHER, *few), teacher_bytes(one.tasks[0])),
        Work(
            f"a general start, {TOKENS:,} tokens",
            ("pretrain", "--methods", ONE, "--teacher", "embedded", *text, *few),
            artefact_bytes(one, general),
        ),
        Work("a group of 1 student", run(ONE), of_group(one)),
        Work("a group of 6 students", run(SIX), of_group(six)),
    ]


def measure(folder: Path) -> list[Measured]:
    """Do the four pieces of work below ``folder``, one after another."""
    made = []
    for number, work in enumerate(works(folder)):
        own = folder / str(number)
        own.mkdir()
        made.append(Measured(work.name, peak_of(work.words, folder / "cache", own), work.stated))
    return made


def base(folder: Path) -> Measured:
    """A run of one student so small that the process is all libraries; nothing of them is loaded in this process."""
    from bench.plan.memory import BASE_BYTES

    making = "import sys, tiny; from pathlib import Path; f = Path(sys.argv[1]); tiny.save_teacher(f / 't'); tiny.write_glue(f, ('rte',))"
    subprocess.run(
        [sys.executable, "-c", making, str(folder)],
        cwd=ROOT / "tests" / "support",
        env=_surroundings(folder),
        check=True,
    )
    words = ("--tasks", "rte", "--data", str(folder), "--teacher", str(folder / "t"), "--epochs", "1", "--threads", "1")
    student = "finetune:start=random:layers=2:hidden=12:heads=4:ffn=24"
    return Measured(
        "the libraries alone", peak_of(("run", "--methods", student, *words), folder / "cache", folder), BASE_BYTES
    )


def main() -> None:
    if sys.platform != "linux":
        sys.exit("memory_of_jobs.py reads /proc/PID/smaps_rollup, which Linux alone has")
    with tempfile.TemporaryDirectory() as folder:
        print(f"{'work':36} {'peak MB':>9} {'stated MB':>10} {'stated/peak':>12}")
        for one in [base(Path(folder))] if sys.argv[1:] == ["--base"] else measure(Path(folder)):
            print(f"{one.name:36} {one.peak / 1e6:9.0f} {one.stated / 1e6:10.0f} {one.stated / one.peak:12.2f}")


if __name__ == "__main__":
    main()
