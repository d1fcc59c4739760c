"""``python tests/benchmarks/peers``: one step of distillation by us and by what people would use instead, in turns on one thread.

    tox -e peers -- --data GLUE_FOLDER                      # 8 rounds
    python tests/benchmarks/peers --rounds 6 --size tiny    # whether it works, in a minute

docs/measurement.md says what is measured, and how.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import sys
import tempfile
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from time import perf_counter
from typing import Any

ROOT = Path(__file__).resolve().parents[3]
SURROUNDINGS = {
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "OMP_WAIT_POLICY": "PASSIVE",
    "HF_HUB_OFFLINE": "1",
    "TQDM_DISABLE": "1",
    "TOKENIZERS_PARALLELISM": "false",
}
"""Read by libraries when a process starts: one thread, no hub, no progress bars of others."""


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--data", help="folder with GLUE's mrpc; without it token ids are generated"
    )
    parser.add_argument(
        "--rounds",
        type=int,
        default=8,
        help="each trains everybody for two epochs and times the second",
    )
    parser.add_argument("--rows", type=int, default=256, help="training pairs of an epoch")
    parser.add_argument(
        "--size", choices=("base", "tiny"), default="base", help="tiny: whether everything works"
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, help="by default results/peers/DATE-COMMIT.json")
    asked = parser.parse_args()
    import torch

    torch.set_num_threads(1)
    from contestants import CONTESTANTS, OtherWork, first_losses
    from figures import figures, table
    from work import BATCH, MAX_LENGTH, SIZES, examples, work_of

    from bench.errors import InputError
    from bench.files import write_atomically
    from bench.make.failure import redact_paths
    from bench.measure.machine import environment, revision
    from bench.progress import quiet

    quiet()
    contestants = {name: one for name, one in CONTESTANTS.items() if not one.problem()}
    for name in CONTESTANTS.keys() - contestants.keys():
        say(f"{name} is left out: {CONTESTANTS[name].problem()}")
    started, code = now(), revision()
    try:
        data, words = examples(asked.data, asked.rows, asked.seed)
        with tempfile.TemporaryDirectory(prefix="bench-peers-") as folder:
            work = work_of(asked.size, data, 2, asked.seed, Path(folder))
            losses, rounds = (
                first_losses(contestants, work),
                rounds_of(contestants, work, asked.rounds),
            )
    except (OtherWork, InputError) as error:
        print(error, file=sys.stderr)
        return 2
    record: dict[str, Any] = {
        "what": "peers",
        "schema": 2,
        "command": redact_paths(shlex.join(["python", *sys.argv])),
        "started": started,
        "settings": {
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
        },
        "contestants": {
            name: {"title": one.title, "is_peer": one.is_peer} for name, one in contestants.items()
        },
        "code": code,
        "env": environment("cpu"),
        "first_losses": losses,
        "sessions": [{"rounds": rounds}],
    }
    record["figures"] = figures(record)
    commit = (code["commit"] or "no-commit")[:9] + ("-changed" if code["dirty"] else "")
    path = asked.out or ROOT / "results" / "peers" / f"{started[:10]}-{commit}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, (json.dumps(record, indent=1) + "\n").encode())
    print(f"{table(record, record['figures'])}\nwritten to {path}")
    return 0


def rounds_of(contestants: dict[str, Any], work: Any, rounds: int) -> list[dict[str, Any]]:
    """Seconds of a step of everybody's second epoch, in every round; who comes first turns from round to round.

    In an epoch all have seen the same examples, whatever their batches. The first epoch also sets up, and is not counted.
    """
    names, done, steps = list(contestants), [], len(work.batches) // 2
    for number in range(rounds):
        order, seconds = names[number % len(names) :] + names[: number % len(names)], {}
        for name in order:
            ends: list[float] = []
            with tempfile.TemporaryDirectory(dir=work.folder) as own:
                contestants[name].train(
                    replace(work, folder=Path(own)), lambda ends=ends: ends.append(perf_counter())
                )
            seconds[name] = (ends[-1] - ends[steps - 1]) / steps
        done.append({"order": order, "seconds": {name: seconds[name] for name in names}})
        say(
            f"round {number + 1} of {rounds}: {', '.join(f'{name} {seconds[name]:.2f}' for name in names)} s a step"
        )
    return done


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
