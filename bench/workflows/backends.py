"""The same trained weights on several backends: score, changed predictions, latency, size and load time in one table.

Any folder or hub name that transformers opens as a model of the task takes part, packed by this program or not: texts are
tokenised by its own tokenizer and padded, as whoever deploys it does.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from bench.data.checkpoints import OURS, longest_input, trained_model
from bench.data.encoding import encode
from bench.data.own_tasks import expand
from bench.data.spans import SpanQuestions
from bench.errors import InputError, one_line
from bench.progress import Progress, quiet
from bench.record.speed_sessions import BUSY_CORES
from bench.report.render import github
from bench.stats.paired import changed_answers

BATCH = 32
LATENCY_EXAMPLES = 64
EXACT_WITHIN = 1e-2
"""How far logits of a backend that claims fp32 may be from those of eager attention before it counts as wrong, unless the model rounds
as it computes."""


def compare_backends(
    places: Sequence[str],
    task_name: str,
    data: str,
    backends: Sequence[str],
    threads: int = 2,
    rounds: int = 30,
    offline: bool = False,
    progress: Progress | None = None,
    busy: bool = False,
) -> dict[str, Any]:
    """Score and time trained models on backends, all of them in turns.

    Args:
        places: folders or hub names of models of this task.
        backends: of :data:`bench.measure.backends.BACKENDS`; ``eager`` is always measured, as what the others are compared with.
        busy: time them although other processes use the processor; ``env`` says how many cores.

    Returns:
        ``models``: one dict for each place and backend with ``score`` (the task's first metric, 0 to 1), ``changed`` predictions of
        ``examples`` with Wilson's ``interval`` of their share, ``largest_difference`` of logits, ``p50`` and ``p90`` seconds of one
        example, ``per_second`` examples in batches of 32, ``bytes`` of the file, ``load_seconds``; or with ``error``. ``task``,
        ``data``, ``set``, ``metric``, ``threads``, ``rounds``, ``env`` and ``code`` say what was measured where.

    Raises:
        InputError: no such task, data, backend or model; or times would mean little here.
    """
    import torch

    from bench.cache import cache_root
    from bench.data.sources import source_for
    from bench.measure.backends import INT8, check_backends
    from bench.measure.busy import busy_facts, refuse_bad_times
    from bench.measure.latency import stopwatch, warm_up
    from bench.measure.machine import environment, revision
    from bench.train.prediction import score
    from methods.core.models import inputs_of, rounds_values

    progress = progress or Progress()
    check_backends(backends)
    if len(tasks := expand(task_name)) != 1:
        raise InputError(f"--tasks {task_name}: name one task")
    ((task, _),) = tasks
    if task.writes:
        raise InputError(
            f"--tasks {task_name}: backends are not compared on texts that are written"
        )
    source = source_for(task, data, offline)
    split = source.load(task, task.evaluation[0])
    if split.labels is None:
        raise InputError(f"--tasks {task_name}: its examples have no labels here")
    others = refuse_bad_times(cache_root(), threads, busy)
    quiet()
    metric, torch_threads = task.metrics[0], torch.get_num_threads()
    torch.set_num_threads(threads)
    timed = stopwatch(torch.device("cpu"))
    rows: list[dict[str, Any]] = []
    timings: list[tuple[dict[str, Any], Any, list[tuple], list[tuple]]] = []
    try:
        with tempfile.TemporaryDirectory() as work, progress.task("predictions") as update:
            for number, place in enumerate(places):
                model, tokenizer = trained_model(place, task, offline)
                names = [name for name in inputs_of(model) if name in tokenizer.model_input_names]
                # as it was trained, where this program trained it; some architectures, as XLNet, have no limit of their own
                wanted = dict(getattr(model.config, OURS, {})).get("max_length", task.max_length)
                has_limit = hasattr(model.config, "max_position_embeddings")
                longest = min(wanted, longest_input(model.config)) if has_limit else wanted
                batches, questions = batches_of(
                    tokenizer, split, names, BATCH, longest, task.truncation
                )
                # in 8 bits an answer depends on what else is in its batch: each example is scored alone
                most = None if INT8 in backends else LATENCY_EXAMPLES
                singles, _ = batches_of(tokenizer, split, names, 1, longest, task.truncation, most)
                reference = None
                for backend in dict.fromkeys(["eager", *backends]):
                    row: dict[str, Any] = {"model": place, "backend": backend}
                    try:
                        run, row["bytes"], row["load_seconds"] = _opened(
                            model, names, backend, threads, Path(work) / str(number)
                        )
                        scored = singles if backend == INT8 else batches
                        answers, scores = answers_of(run, scored, questions)
                    # exporters and runtimes have errors of their own kinds
                    except Exception as error:
                        row["error"] = one_line(str(error).strip())[:200] or type(error).__name__
                        rows.append(row)
                        continue
                    reference = (answers, scores) if reference is None else reference
                    row |= {
                        "score": score(answers, split.labels, (metric,))[metric],
                        **changed_answers(task.form, reference[0], answers, EXACT_WITHIN),
                        "largest_difference": float(np.abs(reference[1] - scores).max()),
                    }
                    is_rounded = "int8" in backend or rounds_values(model)
                    if not is_rounded and not row["largest_difference"] <= EXACT_WITHIN:
                        row["error"] = (
                            f"wrong: its logits differ from eager attention's by up to {row['largest_difference']:.2g}"
                        )
                    rows.append(row)
                    timings.append((row, run, singles, batches))
                    update(len(rows), len(places) * len({"eager", *backends}))
        # in turns: each round times every model on every backend, so that all times are of the same minutes
        with progress.task("latency") as update:
            for row, run, singles, _ in timings:
                for single in singles:  # every length once: compilers look at each
                    run(*single)
                warm_up(partial(run, *singles[0]), timed)
                row["seconds"], row["batch_seconds"] = [], []
            for number in range(rounds):
                for row, run, singles, batches in timings:
                    single, batch = singles[number % len(singles)], batches[number % len(batches)]
                    row["seconds"].append(timed(partial(run, *single)))
                    row["batch_seconds"].append(timed(partial(run, *batch)) / len(batch[0]))
                update(number + 1, rounds)
    finally:
        torch.set_num_threads(torch_threads)
    for row, *_ in timings:
        row["p50"], row["p90"] = (float(np.quantile(row["seconds"], share)) for share in (0.5, 0.9))
        row["per_second"] = 1 / float(np.median(row["batch_seconds"]))
    return {
        "task": task.name, "data": source.name, "set": task.evaluation[0].name, "metric": metric, "threads": threads, "rounds": rounds,
        "models": rows, "env": environment("cpu") | busy_facts(others), "code": revision(),
    }  # fmt: skip


def batches_of(
    tokenizer: Any,
    split: Any,
    names: Sequence[str],
    size: int,
    longest: int,
    truncation: str,
    most: int | None = None,
) -> tuple[list[tuple], SpanQuestions | None]:
    """The examples in batches of padded tensors [B, L], those of these names in their order; and of questions, whose examples are
    windows of a text, what the windows are of."""
    import torch
    from torch.nn.utils.rnn import pad_sequence

    encoded, batches = encode(tokenizer, split, longest, truncation), []
    for start in range(0, min(len(encoded), most or len(encoded)), size):
        of_batch = (rows[start : start + size] for rows in (encoded.tokens, encoded.segments))
        ids, kinds = (
            [torch.from_numpy(np.asarray(row, np.int64)) for row in rows] for rows in of_batch
        )
        given = {
            "input_ids": pad_sequence(ids, True, tokenizer.pad_token_id),
            "attention_mask": pad_sequence([torch.ones_like(row) for row in ids], True),
            "token_type_ids": pad_sequence(kinds, True),
        }
        batches.append(tuple(given[name] for name in names))
    return batches, encoded.questions


def answers_of(
    run: Any, batches: Sequence[tuple], questions: SpanQuestions | None
) -> tuple[np.ndarray, np.ndarray]:
    """The answers as a record keeps them, and the numbers behind them: logits [n, C]; or of every window the scores of no answer and
    of its best span."""
    rows, begun = [], 0
    for batch in batches:
        logits, place = run(*batch).numpy(), begun
        begun += len(logits)
        rows.append(
            logits if questions is None else questions.best_spans(range(place, begun), logits)
        )
    together = np.concatenate(rows)
    return (
        (together, together)
        if questions is None
        else (questions.answers(together), together[:, :2])
    )


def _opened(
    model: Any, names: list[str], backend: str, threads: int, folder: Path
) -> tuple[Any, int, float]:
    """The model as a function on this backend, the bytes of its file, and the seconds that opening the file takes."""
    import torch

    from bench.measure.backends import INT8, TORCH, opened, runner, write_onnx

    folder.mkdir(parents=True, exist_ok=True)
    if backend in TORCH:
        file = folder / "model.safetensors"
        if not file.exists():
            model.save_pretrained(folder)
        begun = time.perf_counter()
        type(model).from_pretrained(folder)
        seconds = time.perf_counter() - begun
        return (
            runner(model, backend, torch.device("cpu"), torch.float32, threads, names),
            file.stat().st_size,
            seconds,
        )
    file = folder / ("int8.onnx" if backend == INT8 else "model.onnx")
    if not file.exists():
        write_onnx(model, file, names, backend == INT8)
    begun = time.perf_counter()
    run = opened(file, backend, threads, names)
    return run, file.stat().st_size, time.perf_counter() - begun


def describe(answer: Mapping[str, Any]) -> str:
    """The table of an answer, and one line a fault."""
    lines, faults = [], []
    for row in answer["models"]:
        if "error" in row:
            faults.append(f"{row['model']}, {row['backend']}: {row['error']}")
        if "p50" not in row:
            lines.append([row["model"], row["backend"], *["–"] * 7])
            continue
        low, high = (100 * end for end in row["interval"])
        changed = (
            "–" if row["backend"] == "eager" else f"{row['changed']} ({low:.1f} to {high:.1f} %)"
        )
        lines.append([
            row["model"], row["backend"], f"{100 * row['score']:.1f}", changed, f"{1000 * row['p50']:.2f}", f"{1000 * row['p90']:.2f}",
            f"{row['per_second']:.0f}", f"{row['bytes'] / 1e6:.1f}", f"{row['load_seconds']:.2f}",
        ])  # fmt: skip
    others = answer["env"].get("busy_cores") or 0.0
    mark = " (busy)" if others >= BUSY_CORES else ""
    head = ["model", "backend", answer["metric"], "changed predictions"]
    head += [f"p50 (ms){mark}", f"p90 (ms){mark}", f"examples/s{mark}", "MB", f"load (s){mark}"]
    examples = max((row.get("examples", 0) for row in answer["models"]), default=0)
    where = (
        f"{answer['task']} {answer['set']} of {answer['data']}, {examples:,} examples; {answer['env']['processor']}, "
        f"{answer['threads']} threads, fp32; latency of one example, examples/s in batches of {BATCH}, {answer['rounds']} rounds in turns. "
        "Changed predictions are counted against eager attention, with a 95 % interval of their share."
    )
    if mark:
        where += f" Other processes used {others:.1f} cores when it began, so times mean little."
    return "\n".join([github(lines, head, ["left", "left", *["right"] * 7]), "", where, *faults])
