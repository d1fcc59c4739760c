"""``python tests/benchmarks/card``: what a training step is on this GPU, and how long a run takes by the plan and by the clock.

    python tests/benchmarks/card --data GLUE_FOLDER         # else the sample suite, whose texts are short
    python tests/benchmarks/card --device cpu --size tiny   # whether it works

The teacher has BERT-base's shape and random weights: times do not depend on them. Part of ``tox -e cuda``.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from time import perf_counter
from typing import Any

ROOT = Path(__file__).resolve().parents[3]
SHAPES = {"base": (12, 768, 12), "tiny": (2, 24, 2)}
TINY = "layers=1:hidden=12:heads=2:ffn=24"
STUDENTS = {"base": "tinybert,microbert", "tiny": f"tinybert:{TINY},microbert:{TINY}"}
FIRST = 20
"""Steps that are left out at the beginning."""


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", default="sample")
    parser.add_argument("--task", default="mnli")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--precision", default="fp32")
    parser.add_argument("--size", choices=SHAPES, default="base")
    parser.add_argument(
        "--steps", type=int, default=200, help="to profile; the profiler takes longer than they do"
    )
    parser.add_argument("--out", type=Path, help="by default results/cuda/DATE-COMMIT.json")
    asked = parser.parse_args()
    sys.path[:0] = [str(ROOT)]
    from transformers import BertConfig, BertModel

    from bench import api
    from bench.data.checkpoints import find, tokenizer_of
    from bench.files import write_atomically
    from bench.measure.machine import environment, revision
    from bench.progress import Progress

    layers, hidden, heads = SHAPES[asked.size]
    with tempfile.TemporaryDirectory() as kept:
        folder = Path(kept)
        teacher, tokenizer = folder / "teacher", tokenizer_of(find("embedded"))
        shape = {"hidden_size": hidden, "num_hidden_layers": layers, "num_attention_heads": heads}
        BertModel(
            BertConfig(vocab_size=len(tokenizer), **shape, intermediate_size=4 * hidden)
        ).save_pretrained(teacher)
        tokenizer.save_pretrained(teacher)

        def request(seed: int) -> api.Request:
            return api.Request(
                STUDENTS[asked.size], asked.task, seeds=(seed,), data=asked.data, teacher=str(teacher), epochs=16.0, max_train_rows=640,
                corpus=("sample",), device=asked.device, precision=asked.precision, results=folder / "results", reports=folder / "reports",
            )  # fmt: skip

        planned, begun = api.plan(request(0)).seconds, perf_counter()
        if api.run(request(0), Progress()).exit_code:
            return 1
        taken = perf_counter() - begun
        print(f"planned {planned:.1f} s, taken {taken:.1f} s", flush=True)
        step = profiled(lambda: api.run(request(1), Progress()), asked.device, asked.steps)
    found = {
        "task": asked.task, "data": asked.data, "precision": asked.precision, "size": asked.size, "students": STUDENTS[asked.size],
        "planned_seconds": round(planned, 2), "seconds": round(taken, 2), "step": step, "code": revision(), "env": environment(asked.device),
    }  # fmt: skip
    text = json.dumps(found, indent=1) + "\n"
    print(text)
    commit = str(found["code"]["commit"])[:8]
    out = (
        asked.out
        or ROOT
        / "results"
        / "cuda"
        / f"{datetime.now(UTC):%Y-%m-%d}-{commit}-{asked.precision}.json"
    )
    out.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(out, text.encode())
    return 0


def profiled(run: Any, device: str, steps: int) -> dict[str, Any]:
    """Means over some steps of the loop, each with all its students: kernels, copies, waits of the CPU, seconds of the card and of the clock."""
    import torch
    from torch.autograd import DeviceType
    from torch.profiler import ProfilerActivity, profile

    from bench.train import loop

    on_card = torch.device(device).type == "cuda"
    kinds = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if on_card else [])]
    usual, profiler, number, begun, seconds = (
        loop._train_step,
        profile(activities=kinds),
        0,
        0.0,
        0.0,
    )

    def step(*given: Any) -> None:
        nonlocal number, begun, seconds
        if number == FIRST:
            profiler.start()
            begun = perf_counter()
        usual(*given)
        number += 1
        if number == FIRST + steps:
            if on_card:
                torch.cuda.synchronize()
            seconds = perf_counter() - begun
            profiler.stop()

    loop._train_step = step
    try:
        run()
    finally:
        loop._train_step = usual
    assert seconds, f"there were {number} steps, not {FIRST + steps}"
    counts, worked = Counter[str](), 0.0
    for event in profiler.events():
        if event.device_type == DeviceType.CUDA:
            counts["copies" if "Memcpy" in event.name or "Memset" in event.name else "kernels"] += 1
            worked += event.device_time_total / 1e6
        elif event.name in (
            "cudaStreamSynchronize",
            "cudaDeviceSynchronize",
            "cudaEventSynchronize",
        ):
            counts["waits"] += 1
    per_step = {name: round(counts[name] / steps, 2) for name in ("kernels", "copies", "waits")}
    return {
        "steps": steps,
        **per_step,
        "seconds_of_work": worked / steps,
        "seconds": seconds / steps,
    }


if __name__ == "__main__":
    raise SystemExit(main())
