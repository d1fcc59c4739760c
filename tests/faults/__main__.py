"""``python tests/faults``: kills, many runners and failing file systems; ends with a table for the lab book.

FAULTS_SECONDS says how long it may take (1,500 by default): what there is no time for is left out, and the table says how
much. FAULTS_SEED chooses other points, FAULTS_JOBS how many are tried at a time, FAULTS_PARTS which parts (separated by
commas), FAULTS_POINTS which points (a part of their names, such as "attempt-1"), FAULTS_LIMIT how many seconds a process may
take until it counts as a hang (600). FAULTS_SKIP=325 leaves out so many points of each part, which a run with
the same seed has tried. FAULTS_KEEP=1 keeps the folders of points that show a defect.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))
os.environ["HF_HUB_OFFLINE"] = "1"  # nothing here asks a hub

import fault_library
from forked import BAD, Outcome, each

if TYPE_CHECKING:
    import kills

SECONDS, SEED = float(os.environ.get("FAULTS_SECONDS", "1500")), int(os.environ.get("FAULTS_SEED", "0"))
POINTS = os.environ.get("FAULTS_POINTS", "")
SKIP = int(os.environ.get("FAULTS_SKIP", "0"))
JOBS = int(os.environ.get("FAULTS_JOBS", str(os.cpu_count() or 1)))
PARTS = {
    "enumeration": ("kills before every file operation and within every write", 0.40),
    "phases": ("kills by phase: SIGKILL, SIGTERM, Ctrl-C", 0.15),
    "embedded": ("the same with the embedded teacher", 0.08),
    "workers": ("kills of a driver and its two workers", 0.07),
    "runners": ("four runners on one folder", 0.10),
    "files": ("file systems that fail", 0.17),
    "vanished": ("a folder that is gone for a while", 0.03),
}
"""Name -> what it is, and its share of the time. What a part leaves of its time the next ones have."""
SUBJECTS = dict.fromkeys(PARTS, "with start") | {"files": "without start", "vanished": "without start"}
SUBJECTS |= {"embedded": "embedded"}
"""Part -> which run it is about."""
BY_PHASE, EMBEDDED, OF_WORKERS = 200, 20, 20
IMPORTED = (
    "datasets",
    "jinja2",
    "matplotlib.backends.backend_svg",
    "safetensors.torch",
    "torch",
    "transformers.models.bert.modeling_bert",
    "transformers.models.bert.tokenization_bert",
    "bench.cli",
    "bench.plan.build",
    "bench.report.write",
    "bench.workflows.run",
    "bench.workflows.upkeep",
)


@dataclass
class Part:
    """One row of the table."""

    title: str
    planned: int = 0
    outcomes: list[Outcome] = field(default_factory=list)
    seconds: float = 0.0
    skipped: str = ""

    def row(self) -> str:
        """Of the Markdown table."""
        if self.skipped:
            return f"| {self.title} | skipped: {self.skipped} |" + " |" * (len(BAD) + 3)
        counts = [sum(getattr(one, name) for one in self.outcomes) for name in BAD]
        happened = sum(one.happened for one in self.outcomes)
        cells = [f"{len(self.outcomes):,} of {self.planned:,}", f"{happened:,}", *map(str, counts)]
        cells += [f"{sum(one.left for one in self.outcomes):,}", f"{self.seconds:.0f}"]
        return f"| {self.title} | {' | '.join(cells)} |"


HEAD = f"| part | points | faults | {' | '.join(BAD)} | temporary files left | seconds |"


def main() -> int:
    """Do all parts; the exit code is 1 where something was lost, twice, corrupt or not said."""
    print(f"seed {SEED}; {SECONDS:.0f} s; {JOBS} at a time", flush=True)
    work = Path(tempfile.mkdtemp(prefix="bench-faults-")).resolve()
    try:
        parts = list(_parts(work))
    finally:
        if not os.environ.get("FAULTS_KEEP"):
            shutil.rmtree(work, ignore_errors=True)
    bad = [one for part in parts for one in part.outcomes if one.is_bad]
    for one in bad:
        print(f"defect: {one.point}: {one.why}")
    print("", HEAD, "|---|" + "--:|" * (len(BAD) + 4), *(part.row() for part in parts), sep="\n", flush=True)
    return 1 if bad else 0


def _parts(work: Path) -> Iterable[Part]:
    """Each part, done; the time begins when everything is imported and the unbroken runs are known."""
    import kills
    import many_runners
    import tiny_run

    _import_all()
    wanted = [one for one in os.environ.get("FAULTS_PARTS", ",".join(PARTS)).split(",") if one]
    inputs = tiny_run.prepared(work / "inputs")
    rng = random.Random(SEED)
    subjects = {
        "with start": tiny_run.TinyRun(inputs, tiny_run.WITH_START),
        "without start": tiny_run.TinyRun(inputs, tiny_run.WITHOUT_START),
        "embedded": tiny_run.TinyRun(inputs, tiny_run.EMBEDDED, is_embedded=True),
    }
    known = {}
    for subject in sorted({SUBJECTS[name] for name in wanted} - _not_here()):
        known[subject] = one = kills.unbroken(subjects[subject], work)
        print(f"{subject}: {len(one.facts)} records, {len(one.operations)} operations ({kills.shown_operations(one)})")
    end = time.monotonic() + SECONDS
    shares = sum(share for name, (_, share) in PARTS.items() if name in wanted)
    for name, (title, share) in PARTS.items():
        if name not in wanted:
            continue
        part, begun = Part(title), time.monotonic()
        until = begun + (end - begun) * share / shares
        shares -= share
        if name in ("enumeration", "files") and not fault_library.is_loaded():
            part.skipped = "no C compiler"
        elif SUBJECTS[name] not in known:
            part.skipped = "the package of the embedded teacher is not installed"
        elif name == "runners":
            seeds = many_runners.seeds_for(until - begun, known[SUBJECTS[name]].took)
            kills_ = max(1, many_runners.KILLS * seeds // many_runners.SEEDS)
            run = many_runners.of_cells(inputs, seeds)
            expected, seconds = many_runners.alone(run, work)
            part.title, part.planned = f"four runners, {len(expected)} cells, {kills_} kills", 1
            part.outcomes.append(many_runners.killed(run, expected, seconds, work, rng, kills_))
        else:
            points = [one for one in _points(name, known[SUBJECTS[name]], work, rng) if POINTS in one[0]]
            part.planned = len(points)
            for one in each(points[SKIP:], until, JOBS, work):
                part.outcomes.append(one)
                if one.is_bad:
                    print(f"  {one.point}: {one.why}", flush=True)
        part.seconds = time.monotonic() - begun
        print(part.row(), flush=True)
        yield part


def _not_here() -> set[str]:
    """The subjects that cannot be run on this machine."""
    from bench.data.checkpoints import EMBEDDED_PACKAGE

    return set() if importlib.util.find_spec(EMBEDDED_PACKAGE) else {"embedded"}


def _points(name: str, known: kills.Unbroken, work: Path, rng: random.Random) -> list[kills.Point]:
    import file_faults
    import kills

    if name == "enumeration":
        return kills.by_enumeration(known, work, rng)
    if name == "phases":
        return kills.by_phase(known, work, rng, BY_PHASE)
    if name == "embedded":
        return kills.by_phase(known, work, rng, EMBEDDED, "embedded ")
    if name == "workers":
        return kills.of_workers(known, work, rng, OF_WORKERS)
    if name == "files":
        return file_faults.all_points(known, work, rng)
    return file_faults.vanished(known, work)


def _import_all() -> None:
    """What a run imports, so that no forked process has to: no thread may be started by it."""
    for name in IMPORTED:
        importlib.import_module(name)
    import methods

    for name in methods.names():
        methods.get(name)


def _with_the_library() -> None:
    """Start again with the C library, where there is a compiler."""
    if fault_library.is_loaded() or fault_library.compiler() is None:
        return
    with tempfile.TemporaryDirectory(prefix="bench-faults-library-") as folder:
        library = fault_library.compiled(Path(folder))
        environment = {**os.environ, fault_library.PRELOADED: str(library), "LD_PRELOAD": str(library)}
        import subprocess

        sys.exit(subprocess.run([sys.executable, *sys.argv], env=environment).returncode)


if __name__ == "__main__":
    _with_the_library()
    sys.exit(main())
