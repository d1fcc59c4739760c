"""How much sooner a grid ends with two jobs than with one: alternating runs of the same cells. Not collected by pytest.

    python tests/speed_of_jobs.py                # three rounds, about 65 minutes on two idle cores
    python tests/speed_of_jobs.py --beside       # two jobs also beside one busy process; about 85 minutes
    python tests/speed_of_jobs.py --rounds 1 --epochs 1

The grid is two methods on four tasks of the sample suite, eight cells in four groups of two students, with the embedded
teacher. Teachers and the general start are made before the first round, so that every run only trains and scores
students. A round does every way once, in an order that turns from round to round. Each run is a command of its own;
its time is that of the whole process, with the import of the libraries and the plan. Do nothing else on the machine
meanwhile. The answers of all runs of one number of threads are compared: they are equal to the bit.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median

ROOT = Path(__file__).resolve().parents[1]
METHODS, TASKS, TOKENS = "kd,microbert", "sst2,qnli,qqp,mnli", 20_000
WAYS = {
    "1 job, 1 thread": ("--jobs", "1", "--threads", "1"),
    "2 jobs, 1 thread": ("--jobs", "2", "--threads", "1"),
    "1 job, 2 threads": ("--jobs", "1", "--threads", "2"),
}
BUSY = "while True: pass"


def bench(cache: Path, words: Sequence[str]) -> float:
    """Run ``python -m bench WORDS`` and return its seconds.

    Raises:
        RuntimeError: the command failed; the message has its output.
    """
    surroundings = {**os.environ, "BERT_BENCH_CACHE": str(cache), "HF_HUB_OFFLINE": "1", "PYTHONPATH": str(ROOT)}
    begun = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-m", "bench", *words], cwd=cache.parent, env=surroundings, capture_output=True, text=True
    )
    if done.returncode:
        raise RuntimeError(f"bench {' '.join(words)}: exit code {done.returncode}\n{done.stderr}")
    return time.perf_counter() - begun


@contextmanager
def beside(busy: bool) -> Iterator[None]:
    """Another process that uses one core, where ``busy``."""
    if not busy:
        yield
        return
    other = subprocess.Popen([sys.executable, "-c", BUSY])
    try:
        yield
    finally:
        other.kill()
        other.wait()


def weights_of(results: Path) -> dict[str, str]:
    """Record key -> hash of the weights that were scored."""
    records = (json.loads(path.read_text()) for path in results.rglob("attempt-1.json"))
    return {record["key"]: record["weights"] for record in records if record["cell"]["method"] != "teacher"}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--epochs", default="4")
    parser.add_argument("--beside", action="store_true", help="two jobs also beside one busy process")
    asked = parser.parse_args()
    load = os.getloadavg()[0]
    if load > 0.3:
        print(f"note: the machine is not idle (load {load:.2f}); these times will be too long", file=sys.stderr)
    common = ("--methods", METHODS, "--tasks", TASKS, "--data", "sample", "--teacher", "embedded", "--yes")
    common += ("--epochs", asked.epochs, "--corpus-tokens", str(TOKENS), "--seeds", "0")
    names = [(name, False) for name in WAYS]
    if asked.beside:
        names.append(("2 jobs, 1 thread", True))
    took: dict[tuple[str, bool], list[float]] = {name: [] for name in names}
    found: dict[str, dict[str, str]] = {}
    with tempfile.TemporaryDirectory() as folder:
        cache = Path(folder) / "cache"
        for threads in ("1", "2"):  # makes the teachers and the start of either number of threads
            words = ("run", *common, "--jobs", "1", "--threads", threads, "--results", f"first-{threads}")
            bench(cache, (*words, "--reports", "reports"))
        for number in range(asked.rounds):
            turn = number % len(names)
            for name, busy in names[turn:] + names[:turn]:
                results = f"{number}-{names.index((name, busy))}"
                words = ("run", *common, *WAYS[name], "--results", results, "--reports", "reports")
                with beside(busy):
                    took[name, busy].append(bench(cache, words))
                own = weights_of(cache.parent / results)
                assert own == found.setdefault(WAYS[name][-1], own), f"{name}: other weights than before"
                shown = f"{name}{' beside a busy process' if busy else ''}"
                print(f"  round {number}: {shown}: {took[name, busy][-1]:.1f} s", file=sys.stderr, flush=True)
    base = median(took["1 job, 1 thread", False])
    print("| way | seconds of each round | median | over 1 job of 1 thread |\n|---|---|---|---|")
    for (name, busy), seconds in took.items():
        listed = ", ".join(f"{one:.1f}" for one in seconds)
        shown = f"{name}{', beside a busy process' if busy else ''}"
        print(f"| {shown} | {listed} | {median(seconds):.1f} | {base / median(seconds):.2f}x |")


if __name__ == "__main__":
    main()
