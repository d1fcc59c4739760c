"""How much sooner a grid ends with two jobs, or on two nodes, than with one: runs of the same cells in turns. Not collected by pytest.

    tox -e scaling                               # six rounds of four ways, about 30 minutes on two idle cores
    python tests/benchmarks/scaling.py --rounds 1 --out FILE.json --ways '1 job, 2 jobs'

The grid is two methods on six tasks of the sample suite: twelve cells in six groups of two students, with the embedded
teacher. Teachers and the general start are made before the first round, so every run only trains and scores students.
A round does every way once, in an order that turns from round to round. Each run is a command of its own. Its time is
that of the whole process, with the import of the libraries and the plan. A Ray cluster runs already when its command
begins; its nodes have one core each, share no disk, and begin with an empty cache, so their time includes what travels.
The answers of all runs with one number of threads are compared: they are equal to the bit.
Do nothing else on the machine meanwhile. The answer is a table, and a file in ``results/scaling``.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
METHODS, TASKS, TOKENS = "kd,microbert", "cola,sst2,mrpc,qnli,rte,qqp", 20_000
ONE_JOB = "1 job"


WAYS: dict[str, tuple[Sequence[str], int]] = {
    ONE_JOB: (("--jobs", "1", "--threads", "1"), 0),
    "2 jobs": (("--jobs", "2", "--threads", "1"), 0),
    "1 job of 2 threads": (("--jobs", "1", "--threads", "2"), 0),
    "1 Ray node": (("--jobs", "auto", "--threads", "1"), 1),
    "2 Ray nodes": (("--jobs", "auto", "--threads", "1"), 2),
}
"""Options of ``bench run``, and how many nodes of a Ray cluster, with one core each, have to run meanwhile."""
RATIOS = (("2 jobs", ONE_JOB), ("1 job of 2 threads", ONE_JOB), ("2 Ray nodes", "1 Ray node"), ("1 Ray node", ONE_JOB))
USUAL = "1 job,2 jobs,1 Ray node,2 Ray nodes"


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
def ray_cluster(nodes: int, folder: Path) -> Iterator[Sequence[str]]:
    """A head that does no jobs, and nodes of one core with an empty cache each; gives the options that name it, none without nodes."""
    if not nodes:
        yield ()
        return
    from ray.cluster_utils import Cluster

    store = {"object_store_memory": 200_000_000}
    with tempfile.TemporaryDirectory(dir=folder) as caches:
        cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False, **store})
        try:
            for number in range(nodes):
                own = {"BERT_BENCH_CACHE": f"{caches}/{number}", "PYTHONPATH": str(ROOT)}
                cluster.add_node(num_cpus=1, env_vars=own, **store)
            yield "--executor", "ray", "--address", cluster.address
        finally:
            cluster.shutdown()


def weights_of(results: Path) -> dict[str, str]:
    """Record key -> hash of the weights that were scored."""
    records = (json.loads(path.read_text()) for path in results.rglob("attempt-1.json"))
    return {record["key"]: record["weights"] for record in records if record["cell"]["method"] != "teacher"}


def measured(ways: Sequence[str], rounds: int, common: Sequence[str], folder: Path) -> dict[str, list[float]]:
    """Seconds of every way, once a round.

    Raises:
        AssertionError: two ways gave different weights.
    """
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    weights: dict[str, dict[str, str]] = {}
    cache = folder / "cache"
    for threads in {WAYS[name][0][-1] for name in ways}:  # the teachers and the start of this number of threads
        first = ("--jobs", "1", "--threads", threads, "--results", f"first-{threads}", "--reports", "reports")
        bench(cache, ("run", *common, *first))
    for number in range(rounds):
        turn = number % len(ways)
        for name in [*ways[turn:], *ways[:turn]]:
            results = f"{number}-{ways.index(name)}"
            options, nodes = WAYS[name]
            with ray_cluster(nodes, folder) as more:
                words = ("run", *common, *options, *more, "--results", results, "--reports", "reports")
                seconds[name].append(bench(cache, words))
            own = weights_of(folder / results)
            assert own == weights.setdefault(options[-1], own), f"{name}: other weights than before"
            say(f"round {number + 1} of {rounds}: {name}: {seconds[name][-1]:.1f} s")
    return seconds


def ratio_of(slow: Sequence[float], fast: Sequence[float]) -> str:
    """With an interval where there are rounds enough for one."""
    from bench.stats.ratios import ratio

    try:
        return ratio(slow, fast).text()
    except ValueError:
        return f"{median(a / b for a, b in zip(slow, fast, strict=True)):.2f}x"


def table(record: dict[str, Any]) -> str:
    """Seconds of every way, and how many times faster each is than what it is compared with."""
    seconds = record["seconds"]
    lines = ["| way | seconds of each round | speed |", "|---|---|---|"]
    for name, own in seconds.items():
        against = next((b for a, b in RATIOS if a == name and b in seconds), "")
        speed = f"{ratio_of(seconds[against], own)} {against}" if against else ""
        lines.append(f"| {name} | {', '.join(f'{one:.1f}' for one in own)} | {speed} |")
    return "\n".join(lines)


def main() -> None:
    sys.path.insert(0, str(ROOT))
    from bench.files import write_atomically
    from bench.make.failure import redact_paths
    from bench.measure.busy import busy_cores
    from bench.measure.machine import environment, revision

    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--epochs", default="2")
    parser.add_argument("--ways", default=USUAL, help=f"separated by commas: {', '.join(WAYS)}")
    parser.add_argument("--out", type=Path, help="by default results/scaling/DATE-COMMIT.json")
    asked = parser.parse_args()
    ways = [name.strip() for name in asked.ways.split(",") if name.strip()]
    if unknown := [name for name in ways if name not in WAYS]:
        parser.error(f"no way is called {unknown[0]!r}; there are: {', '.join(WAYS)}")
    busy = busy_cores() or 0.0
    if busy > 0.1:
        say(f"note: other processes use {busy:.2f} cores; these times will be too long")
    common = ("--methods", METHODS, "--tasks", TASKS, "--data", "sample", "--teacher", "embedded", "--yes")
    common += ("--epochs", asked.epochs, "--corpus-tokens", str(TOKENS), "--seeds", "0")
    started = time.strftime("%Y-%m-%dT%H:%M:%S+00:00", time.gmtime())
    with tempfile.TemporaryDirectory() as folder:
        seconds = measured(ways, asked.rounds, common, Path(folder))
    code = revision()
    record = {
        "what": "scaling",
        "command": redact_paths(shlex.join(["python", *sys.argv])),
        "grid": shlex.join(common),
        "started": started,
        "seconds": seconds,
        "busy_cores": round(busy, 2),
        "code": code,
        "env": environment("cpu"),
    }
    commit = (code["commit"] or "no-commit")[:9] + ("-changed" if code["dirty"] else "")
    path = asked.out or ROOT / "results" / "scaling" / f"{started[:10]}-{commit}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, (json.dumps(record, indent=1) + "\n").encode())
    print(table(record))
    print(f"written to {path}")


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
