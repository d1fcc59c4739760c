"""``python tests/faults``: kills, several runs at once and failing file systems; ends with a table for the lab book.

FAULTS_SECONDS says how long it may take (1,500 by default): what there is no time for is left out, and the table says how
much. FAULTS_SEED chooses other points, FAULTS_JOBS how many are tried at a time, FAULTS_PARTS which parts (separated by
commas), FAULTS_POINTS which points (a part of their names, such as "attempt-1").
"""

from __future__ import annotations

import importlib
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))
os.environ["HF_HUB_OFFLINE"] = "1"  # nothing here asks a hub

import fault_library
from forked import each

SECONDS, SEED = float(os.environ.get("FAULTS_SECONDS", "1500")), int(os.environ.get("FAULTS_SEED", "0"))
JOBS = int(os.environ.get("FAULTS_JOBS", str(os.cpu_count() or 1)))
SHARES = {"enumeration": 0.45, "moments": 0.15, "workers": 0.08, "runners": 0.1, "files": 0.18, "vanished": 0.04}
"""Part -> its share of the time. What a part leaves of its time the next ones have."""
IMPORTED = (
    "datasets", "jinja2", "matplotlib.backends.backend_svg", "safetensors.torch", "torch",
    "transformers.models.bert.modeling_bert", "transformers.models.bert.tokenization_bert",
    "bench.cli", "bench.plan.build", "bench.report.write", "bench.workflows.run", "bench.workflows.upkeep",
)  # fmt: skip
"""What a run imports, so that no forked process has to."""


def main() -> int:
    """Do all parts; the exit code is 1 where something was lost, twice, corrupt or not said."""
    for name in IMPORTED:
        importlib.import_module(name)
    from points import PARTS, unbroken
    from tiny_run import BAD, prepared

    import methods

    for name in methods.names():
        methods.get(name)
    print(f"seed {SEED}; {SECONDS:.0f} s; {JOBS} at a time", flush=True)
    wanted = os.environ.get("FAULTS_PARTS", ",".join(SHARES)).split(",")
    shares = {name: share for name, share in SHARES.items() if name in wanted}
    rows, defects = [f"| part | points | faults | {' | '.join(BAD)} | temporary files left | seconds |"], 0
    rows.append("|---|" + "--:|" * (len(BAD) + 4))
    work = Path(tempfile.mkdtemp(prefix="bench-faults-")).resolve()
    try:
        known, rng, begun = unbroken(prepared(work / "inputs"), work), random.Random(SEED), time.monotonic()
        for name in shares:
            if name in ("enumeration", "files") and not fault_library.is_loaded():
                rows.append(f"| {name} | skipped: no C compiler |" + " |" * (len(BAD) + 3))
                continue
            started, rest = time.monotonic(), [*shares.values()][[*shares].index(name) :]
            until = started + (begun + SECONDS - started) * rest[0] / sum(rest)
            points = [one for one in PARTS[name](known, work, rng) if os.environ.get("FAULTS_POINTS", "") in one[0]]
            outcomes = []
            for one in each(points, until, JOBS, work):
                outcomes.append(one)
                if one["why"]:
                    defects += 1
                    print(f"defect: {one['point']}: {'; '.join(one['why'])}", flush=True)
            counts = [sum(one["bad"].get(what, 0) for one in outcomes) for what in BAD]
            left, happened = (sum(one[what] for one in outcomes) for what in ("left", "happened"))
            cells = [f"{len(outcomes):,} of {len(points):,}", f"{happened:,}", *counts, f"{left:,}"]
            rows.append(f"| {name} | {' | '.join(map(str, cells))} | {time.monotonic() - started:.0f} |")
            print(rows[-1], flush=True)
    finally:
        shutil.rmtree(work, ignore_errors=True)
    print("", *rows, sep="\n", flush=True)
    return 1 if defects else 0


if __name__ == "__main__":
    if fault_library.is_loaded() or fault_library.compiler() is None:
        sys.exit(main())
    with tempfile.TemporaryDirectory(prefix="bench-faults-library-") as folder:  # start again with the C library
        library = str(fault_library.compiled(Path(folder)))
        environment = {**os.environ, fault_library.PRELOADED: library, "LD_PRELOAD": library}
        sys.exit(subprocess.run([sys.executable, *sys.argv], env=environment).returncode)
