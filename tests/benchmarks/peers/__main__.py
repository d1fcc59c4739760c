"""``python tests/benchmarks/peers``: one step of distillation by us and by what people would use instead, in turns on one thread.

    tox -e peers -- --data GLUE_FOLDER                      # 64 rounds
    python tests/benchmarks/peers --rounds 6 --size tiny    # whether it works, in a minute
    python tests/benchmarks/peers --compare OLD.json        # exit code 1 if ours got slower compared with a peer

Type the same command again to go on after Ctrl-C. docs/peers.md says what is measured, and how.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from contestants import Contestant
    from work import Work

ROOT = Path(__file__).resolve().parents[3]
SURROUNDINGS = {
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "OMP_WAIT_POLICY": "PASSIVE",
    "MALLOC_ARENA_MAX": "1",  # a loop in a thread allocates as one that is alone in a process
    "HF_HUB_OFFLINE": "1",
    "TQDM_DISABLE": "1",
    "TOKENIZERS_PARALLELISM": "false",
}
"""Read by libraries when a process starts: one thread, no hub, no progress bars of others."""
FIRST = 1
"""Turns of a session that are not counted: they also set up."""


class OtherMeasurement(Exception):
    """The file is of another measurement: rounds of the two cannot stand in one table."""


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", help="folder with GLUE's mrpc; without it token ids are generated")
    parser.add_argument("--rounds", type=int, default=64)
    parser.add_argument("--rows", type=int, default=256, help="training pairs of an epoch")
    parser.add_argument("--contestants", default="", help="names separated by commas; by default all")
    parser.add_argument("--size", choices=("base", "tiny"), default="base", help="tiny: whether everything works")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, help="by default results/peers/DATE-COMMIT.json")
    parser.add_argument("--compare", type=Path, help="an older file")
    return parser.parse_args()


def main() -> int:
    asked = arguments()
    import torch

    torch.set_num_threads(1)
    from contestants import OtherWork, chosen
    from figures import comparison, figures, rounds_of, table

    from bench.errors import InputError
    from bench.measure.machine import revision
    from bench.progress import quiet

    quiet()
    try:
        contestants, notes = chosen([name for name in asked.contestants.split(",") if name])
        for note in notes:
            say(note)
        code = revision()
        commit = (code["commit"] or "no-commit")[:9] + ("-changed" if code["dirty"] else "")
        path = asked.out or ROOT / "results" / "peers" / f"{now()[:10]}-{commit}.json"
        with tempfile.TemporaryDirectory(prefix="bench-peers-") as folder:
            record = measured(asked, contestants, path, Path(folder))
    except (OtherWork, OtherMeasurement, InputError) as error:
        print(error, file=sys.stderr)
        return 2
    if not rounds_of(record):
        return 1
    record["figures"] = figures(record)
    write(path, record)
    print(f"{table(record, record['figures'])}\nwritten to {path}")
    if asked.compare is None:
        return 0
    before = json.loads(asked.compare.read_text())
    text, slower = comparison(before, record)
    print(f"\nCompared with {asked.compare}:\n\n{text}")
    if before["settings"] != record["settings"]:
        print("Their settings differ (size, data or seed), so this says nothing of a change of the code.")
    if slower:
        print(f"slower than before, compared with a peer: {', '.join(slower)}")
    return 1 if slower else 0


def measured(asked: argparse.Namespace, contestants: Mapping[str, Contestant], path: Path, folder: Path) -> Any:
    """The record with all rounds, or with what there was when somebody pressed Ctrl-C.

    Raises:
        OtherMeasurement: the file at ``path`` has other settings, contestants, code or versions.
        OtherWork: somebody minimises something else; nobody is timed.
    """
    from bench.run.failure_records import redact_paths
    from contestants import first_losses
    from figures import rounds_of
    from work import BATCH, MAX_LENGTH, SIZES, examples, work_of

    from bench.measure.machine import environment, revision

    data, words = examples(asked.data, asked.rows, asked.seed)
    settings = {
        "size": asked.size,
        "teacher": {**SIZES[asked.size][0], "weights": "random"},
        "student": SIZES[asked.size][1],
        "data": words,
        "rows": len(data),
        "tokens_an_example": round(data.total_tokens / len(data), 2),
        "batch": BATCH,
        "max_length": MAX_LENGTH,
        "threads": 1,
        "precision": "fp32",
        "seed": asked.seed,
    }
    versions = {one.package: version(one.package) for one in contestants.values() if one.package}
    record: dict[str, Any] = {
        "what": "peers",
        "schema": 1,
        "command": redact_paths(shlex.join(["python", *sys.argv])),
        "started": now(),
        "settings": settings,
        "contestants": {
            name: {"title": one.title, "is_peer": one.is_peer, "same_batches": one.same_batches}
            for name, one in contestants.items()
        },
        "code": revision(),
        "env": {**environment("cpu"), **versions},
        "first_losses": {},
        "sessions": [],
    }
    if path.exists():
        there = json.loads(path.read_text())
        for part in ("settings", "contestants", "code", "env"):
            if there.get(part) != json.loads(json.dumps(record[part])):
                raise OtherMeasurement(f"{path} was measured with other {part}; name another file with --out")
        record = there
    left = asked.rounds - len(rounds_of(record))
    if left <= 0:
        return record
    epochs = -(-(left + FIRST) // (len(data) // BATCH))  # so that nobody's training ends before the last round
    # a session that goes on has other batches than those before it
    work = work_of(asked.size, data, epochs, asked.seed + len(record["sessions"]), folder)
    record["first_losses"] = first_losses(contestants, work, lambda name, loss: say(f"{name}: first loss {loss:.7g}"))
    try:
        add_rounds(record, contestants, work, left, path)
    except KeyboardInterrupt:
        say(f"stopped; the rounds so far are in {path}; the same command goes on")
    return record


def add_rounds(record: Any, contestants: Mapping[str, Contestant], work: Work, wanted: int, path: Path) -> None:
    """One step of every contestant a round, in an order that turns from round to round; the file is written after each."""
    from contestants import share_steps
    from turns import Turns

    session: dict[str, Any] = {
        "started": now(),
        "load": os.getloadavg()[0],
        "seed": work.seed,
        "first": {},
        "rounds": [],
    }
    record["sessions"].append(session)
    names, shares, turns = list(contestants), share_steps(len(work.batches)), {}
    for name, one in contestants.items():
        own = work.folder / name
        own.mkdir()
        turns[name] = Turns(name, lambda pause, one=one, own=own: one.train(replace(work, folder=own), pause))
    try:
        for name in names:
            session["first"][name] = turns[name].step()
            say(f"{name}: ready after {session['first'][name]:.1f} s")
        for step in range(FIRST, FIRST + wanted):
            order = names[step % len(names) :] + names[: step % len(names)]
            seconds = {name: turns[name].step() for name in order}
            session["rounds"].append(
                {
                    "step": step,
                    "measures_shares": step in shares,
                    "order": order,
                    "seconds": {name: seconds[name] for name in names},
                    "cpu_seconds": {name: turns[name].cpu_seconds for name in names},
                }
            )
            write(path, record)
            say(f"round {step} of {wanted}: {', '.join(f'{name} {seconds[name]:.2f}' for name in names)} s")
    finally:
        for one in turns.values():
            one.close()


def write(path: Path, record: Any) -> None:
    from bench.files import write_atomically

    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, (json.dumps(record, indent=1) + "\n").encode())


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    if any(os.environ.get(name) != value for name, value in SURROUNDINGS.items()):
        os.environ.update(SURROUNDINGS)  # start again: a library would be told too late
        os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])
    sys.path.insert(0, str(ROOT))
    sys.exit(main())
