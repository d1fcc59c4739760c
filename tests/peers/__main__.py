"""``python tests/peers``: one step of distillation by us and by what people would use instead, in turns on one thread.

    tox -e peers -- --data GLUE_FOLDER           # 64 rounds, the parts of a grid, and where our step's time goes
    python tests/peers --rounds 6 --size tiny    # whether it works, in a minute
    python tests/peers --compare OLD.json --out NEW.json   # nothing is measured where NEW.json has all rounds

Type the same command again to go on after Ctrl-C. docs/peers.md says what is measured, and how.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
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


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", help="folder with GLUE's mrpc; without it token ids are generated")
    parser.add_argument("--rounds", type=int, default=64)
    parser.add_argument(
        "--rows", type=int, default=256, help="training pairs; an epoch of them is a part of the rounds"
    )
    parser.add_argument("--contestants", default="", help="names separated by commas; by default all of the table")
    parser.add_argument("--size", choices=("base", "tiny"), default="base", help="tiny: whether everything works")
    parser.add_argument("--inside", type=int, default=8, help="steps of ours of which each part is timed; 0: none")
    parser.add_argument("--grid-steps", type=int, default=24, help="steps of the grid's group that are timed; 0: none")
    parser.add_argument("--grid-rows", type=int, default=512)
    parser.add_argument("--grid-epochs", type=int, default=5)
    parser.add_argument("--real-grid", type=int, default=3, help="times that a small grid is really run; 0: none")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, help="by default results/peers/DATE-COMMIT.json")
    parser.add_argument(
        "--compare", type=Path, help="an older file: exit code 1 if ours got slower compared with a peer"
    )
    return parser.parse_args()


def main() -> int:
    asked = arguments()
    import torch

    torch.set_num_threads(1)
    from contestants import OtherWork, chosen
    from peer_record import OtherMeasurement, default_path

    from bench.errors import InputError
    from bench.progress import quiet

    quiet()
    try:
        contestants, notes = chosen([name for name in asked.contestants.split(",") if name])
        for note in notes:
            say(note)
        path = asked.out or default_path(ROOT / "results" / "peers")
        with tempfile.TemporaryDirectory(prefix="bench-peers-") as folder:
            record = _measured(asked, contestants, path, Path(folder))
        return _shown(record, asked.compare, path)
    except (OtherWork, OtherMeasurement, InputError) as error:
        print(error, file=sys.stderr)
        return 2


def _measured(asked: argparse.Namespace, contestants: Any, path: Path, folder: Path) -> Any:
    """The record, with all that was asked for, or with what there was when somebody pressed Ctrl-C."""
    import session
    from peer_record import begun, opened, write
    from work import BATCH, MAX_LENGTH, SIZES, examples

    data, words = examples(asked.data, asked.rows, asked.seed)
    settings = {
        "size": asked.size,
        "teacher": {**SIZES[asked.size].teacher, "weights": "random"},
        "student": SIZES[asked.size].row,
        "data": words,
        "rows": len(data),
        "tokens_an_example": round(data.total_tokens / len(data), 2),
        "batch": BATCH,
        "max_length": MAX_LENGTH,
        "threads": 1,
        "precision": "fp32",
        "seed": asked.seed,
    }
    record = opened(path, begun(settings, contestants))
    todo = session.Session(record, data, folder, lambda: write(path, record), say)
    try:
        todo.rounds(contestants, asked.rounds)
        todo.inside(asked.inside)
        todo.grid(asked)
        todo.real_grid(asked.real_grid)
        todo.memory()
    except KeyboardInterrupt:
        say(f"stopped; the rounds so far are in {path}; the same command goes on")
    return record


def _shown(record: Any, older: Path | None, path: Path) -> int:
    import json

    from figures import comparison, figures, table
    from peer_record import rounds_of, write

    if not rounds_of(record):
        return 1
    record["figures"] = figures(record)
    write(path, record)
    print(table(record, record["figures"]))
    print(f"written to {path}")
    if older is None:
        return 0
    before = json.loads(older.read_text())
    text, slower = comparison(before, record)
    print(f"\nCompared with {older}:\n\n{text}")
    if before["settings"] != record["settings"]:
        print("Their settings differ (size, data or seed), so this says nothing of a change of the code.")
    if slower:
        print(f"slower than before, compared with a peer: {', '.join(slower)}")
    return 1 if slower else 0


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _with_surroundings() -> None:
    """Start again where a library would otherwise be told too late."""
    if any(os.environ.get(name) != value for name, value in SURROUNDINGS.items()):
        os.environ.update(SURROUNDINGS)
        os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])


if __name__ == "__main__":
    _with_surroundings()
    sys.path.insert(0, str(ROOT))
    sys.exit(main())
