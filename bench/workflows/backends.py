"""The same trained weights on several backends: score, changed predictions, latency, size and load
time in one table.

Any folder or hub name that transformers opens as a model of the task takes part, packed by this
program or not: texts are tokenised by its own tokenizer and padded, as whoever deploys it does.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from bench.data.checkpoints import OURS, longest_input, trained_model
from bench.data.encoding import encode
from bench.data.own_tasks import expand
from bench.data.spans import SpanQuestions
from bench.data.tasks import Task
from bench.errors import InputError, one_line
from bench.progress import Progress, quiet
from bench.record.speed_sessions import BUSY_CORES
from bench.report.render import github
from bench.stats.paired import changed_answers

BATCH = 32
LATENCY_EXAMPLES = 64
EXACT_WITHIN = 1e-2
"""How far logits of a backend that claims fp32 may be from those of eager attention before it
counts as wrong, unless the model rounds as it computes."""


Run = Callable[..., Any]
"""A model on a backend: from padded tensors [B, L] to logits."""


@dataclass(frozen=True)
class Inputs:
    """The examples of a task as one model reads them."""

    names: list[str]
    """of the tensors that the model takes, in their order"""
    batches: list[tuple]
    """padded batches of these tensors"""
    singles: list[tuple]
    """single examples: all where they are scored alone, else as many as are timed"""
    questions: SpanQuestions | None
    """the questions behind the windows of their texts; None for other tasks"""


@dataclass(frozen=True)
class OpenedModel:
    """A model that a backend has opened from its file."""

    run: Run
    bytes: int
    """of the file"""
    seconds: float
    """that opening the file takes"""


@dataclass(frozen=True)
class TimedModel:
    """A model on a backend, and where its times are written."""

    row: dict[str, Any]
    run: Run
    inputs: Inputs


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
        backends: of :data:`bench.measure.backends.BACKENDS`; ``eager`` is always measured, as what
            the others are compared with.
        busy: time them although other processes use the processor; ``env`` says how many cores.

    Returns:
        ``models``: one dict for each place and backend with ``score`` (the task's first metric, 0
        to 1), ``changed`` predictions of ``examples`` with Wilson's ``interval`` of their share,
        ``largest_difference`` of logits, ``p50`` and ``p90`` seconds of one example, ``per_second``
        examples in batches of 32, ``bytes`` of the file, ``load_seconds``; or with ``error``.
        ``task``, ``data``, ``set``, ``metric``, ``threads``, ``rounds``, ``env`` and ``code`` say
        what was measured where.

    Raises:
        InputError: no such task, data, backend or model; or times would mean little here.
    """
    import torch

    from bench.cache import cache_root
    from bench.data.sources import source_for
    from bench.measure.backends import INT8, check_backends
    from bench.measure.busy import busy_facts, refuse_bad_times
    from bench.measure.machine import environment, revision
    from bench.train.prediction import score
    from methods.core.models import rounds_values

    # the task and its labelled examples
    progress = progress or Progress()
    check_backends(backends)
    task = _one_task(task_name)
    source = source_for(task, data, offline)
    split = source.load(task, task.evaluation[0])
    if split.labels is None:
        raise InputError(f"--tasks {task_name}: its examples have no labels here")
    metric = task.metrics[0]
    others = refuse_bad_times(cache_root(), threads, busy)
    quiet()

    rows: list[dict[str, Any]] = []
    timed: list[TimedModel] = []
    names = dict.fromkeys(["eager", *backends])
    threads_before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        with tempfile.TemporaryDirectory() as work, progress.task("predictions") as update:
            for number, place in enumerate(places):
                model, tokenizer = trained_model(place, task, offline)
                inputs = _inputs_of(model, tokenizer, task, split, INT8 in backends)
                folder = Path(work) / str(number)
                reference = None
                for backend in names:
                    row: dict[str, Any] = {"model": place, "backend": backend}
                    rows.append(row)
                    try:
                        opened = _opened(model, inputs.names, backend, threads, folder)
                        row["bytes"] = opened.bytes
                        row["load_seconds"] = opened.seconds
                        scored = inputs.singles if backend == INT8 else inputs.batches
                        answers, logits = answers_of(opened.run, scored, inputs.questions)
                    # exporters and runtimes have errors of their own kinds
                    except Exception as error:
                        row["error"] = one_line(str(error).strip())[:200] or type(error).__name__
                        continue

                    # eager attention comes first: the others are compared with it
                    if reference is None:
                        reference = (answers, logits)
                    row["score"] = score(answers, split.labels, (metric,))[metric]
                    row |= changed_answers(task.form, reference[0], answers, EXACT_WITHIN)
                    gap = float(np.abs(reference[1] - logits).max())
                    row["largest_difference"] = gap
                    is_rounded = "int8" in backend or rounds_values(model)
                    is_within = gap <= EXACT_WITHIN  # never where a logit is no number
                    if not is_rounded and not is_within:
                        row["error"] = (
                            f"wrong: its logits differ from eager attention's by up to {gap:.2g}"
                        )
                    timed.append(TimedModel(row, opened.run, inputs))
                    update(len(rows), len(places) * len(names))
        _time_in_turns(timed, rounds, progress)
    finally:
        torch.set_num_threads(threads_before)
    return {
        "task": task.name,
        "data": source.name,
        "set": task.evaluation[0].name,
        "metric": metric,
        "threads": threads,
        "rounds": rounds,
        "models": rows,
        "env": environment("cpu") | busy_facts(others),
        "code": revision(),
    }


def _one_task(name: str) -> Task:
    """Raises InputError: several tasks, or one whose answers are texts."""
    tasks = expand(name)
    if len(tasks) != 1:
        raise InputError(f"--tasks {name}: name one task")
    ((task, _),) = tasks
    if task.writes:
        raise InputError(f"--tasks {name}: backends are not compared on texts that are written")
    return task


def _inputs_of(model: Any, tokenizer: Any, task: Task, split: Any, scored_alone: bool) -> Inputs:
    """The examples of a task as a model reads them.

    Args:
        scored_alone: whether some backend computes in 8 bits, where an answer depends on what else
            is in its batch: each example is scored alone.
    """
    from methods.core.models import inputs_of

    names = [name for name in inputs_of(model) if name in tokenizer.model_input_names]
    # as it was trained, where this program trained it
    longest = dict(getattr(model.config, OURS, {})).get("max_length", task.max_length)
    # some architectures, as XLNet, have no limit of their own
    if hasattr(model.config, "max_position_embeddings"):
        longest = min(longest, longest_input(model.config))
    batches, questions = batches_of(tokenizer, split, names, BATCH, longest, task.truncation)
    most = None if scored_alone else LATENCY_EXAMPLES
    singles, _ = batches_of(tokenizer, split, names, 1, longest, task.truncation, most)
    return Inputs(names, batches, singles, questions)


def _time_in_turns(models: Sequence[TimedModel], rounds: int, progress: Progress) -> None:
    """Write the times of models into their rows.

    Each round times every model on every backend, so that all times are of the same minutes.
    """
    import torch

    from bench.measure.latency import stopwatch, warm_up

    timed = stopwatch(torch.device("cpu"))
    with progress.task("latency") as update:
        for model in models:
            for single in model.inputs.singles:  # every length once: compilers look at each
                model.run(*single)
            warm_up(partial(model.run, *model.inputs.singles[0]), timed)
            model.row["seconds"] = []
            model.row["batch_seconds"] = []
        for number in range(rounds):
            for model in models:
                single = model.inputs.singles[number % len(model.inputs.singles)]
                batch = model.inputs.batches[number % len(model.inputs.batches)]
                model.row["seconds"].append(timed(partial(model.run, *single)))
                seconds = timed(partial(model.run, *batch))
                model.row["batch_seconds"].append(seconds / len(batch[0]))
            update(number + 1, rounds)
    for model in models:
        model.row["p50"] = float(np.quantile(model.row["seconds"], 0.5))
        model.row["p90"] = float(np.quantile(model.row["seconds"], 0.9))
        model.row["per_second"] = 1 / float(np.median(model.row["batch_seconds"]))


def batches_of(
    tokenizer: Any,
    split: Any,
    names: Sequence[str],
    size: int,
    longest: int,
    truncation: str,
    most: int | None = None,
) -> tuple[list[tuple], SpanQuestions | None]:
    """The examples in batches of padded tensors [B, L], those of these names in their order.

    Of questions, whose examples are windows of a text, also what the windows are of.
    """
    import torch
    from torch.nn.utils.rnn import pad_sequence

    encoded = encode(tokenizer, split, longest, truncation)
    count = min(len(encoded), most or len(encoded))
    batches = []
    for start in range(0, count, size):
        rows = slice(start, start + size)
        ids = [torch.from_numpy(np.asarray(row, np.int64)) for row in encoded.tokens[rows]]
        kinds = [torch.from_numpy(np.asarray(row, np.int64)) for row in encoded.segments[rows]]
        mask = [torch.ones_like(row) for row in ids]
        tensors = {
            "input_ids": pad_sequence(ids, True, tokenizer.pad_token_id),
            "attention_mask": pad_sequence(mask, True),
            "token_type_ids": pad_sequence(kinds, True),
        }
        batches.append(tuple(tensors[name] for name in names))
    return batches, encoded.questions


def answers_of(
    run: Run, batches: Sequence[tuple], questions: SpanQuestions | None
) -> tuple[np.ndarray, np.ndarray]:
    """The answers as a record keeps them, and the numbers behind them.

    These are logits [n, C]; of questions, for every window the scores of no answer and of its best
    span.
    """
    rows = []
    begun = 0
    for batch in batches:
        logits = run(*batch).numpy()
        windows = range(begun, begun + len(logits))
        begun = windows.stop
        rows.append(logits if questions is None else questions.best_spans(windows, logits))
    joined = np.concatenate(rows)
    if questions is None:
        return joined, joined
    return questions.answers(joined), joined[:, :2]


def _opened(model: Any, names: list[str], backend: str, threads: int, folder: Path) -> OpenedModel:
    """A model as this backend opens it from a file, which is written first if it is not there."""
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
        run = runner(model, backend, torch.device("cpu"), torch.float32, threads, names)
        return OpenedModel(run, file.stat().st_size, seconds)
    file = folder / ("int8.onnx" if backend == INT8 else "model.onnx")
    if not file.exists():
        write_onnx(model, file, names, backend == INT8)
    begun = time.perf_counter()
    run = opened(file, backend, threads, names)
    return OpenedModel(run, file.stat().st_size, time.perf_counter() - begun)


def describe(answer: Mapping[str, Any]) -> str:
    """The table of an answer, and one line a fault."""
    lines = []
    faults = []
    for row in answer["models"]:
        if "error" in row:
            faults.append(f"{row['model']}, {row['backend']}: {row['error']}")
        if "p50" in row:
            lines.append(_figures(row))
        else:
            lines.append([row["model"], row["backend"], *["–"] * 7])

    # what its columns are called, and what was measured where
    env = answer["env"]
    others = env.get("busy_cores") or 0.0
    is_busy = others >= BUSY_CORES
    mark = " (busy)" if is_busy else ""
    head = ["model", "backend", answer["metric"], "changed predictions"]
    head += [f"p50 (ms){mark}", f"p90 (ms){mark}", f"examples/s{mark}", "MB", f"load (s){mark}"]
    examples = max((row.get("examples", 0) for row in answer["models"]), default=0)
    where = (
        f"{answer['task']} {answer['set']} of {answer['data']}, {examples:,} examples; "
        f"{env['processor']}, {answer['threads']} threads, fp32; latency of one example, "
        f"examples/s in batches of {BATCH}, {answer['rounds']} rounds in turns. Changed "
        "predictions are counted against eager attention, with a 95 % interval of their share."
    )
    if is_busy:
        where += f" Other processes used {others:.1f} cores when it began, so times mean little."
    return "\n".join([github(lines, head, ["left", "left", *["right"] * 7]), "", where, *faults])


def _figures(row: Mapping[str, Any]) -> list[str]:
    """The cells of the table for a model that was timed."""
    low, high = (100 * end for end in row["interval"])
    changed = f"{row['changed']} ({low:.1f} to {high:.1f} %)"
    return [
        row["model"],
        row["backend"],
        f"{100 * row['score']:.1f}",
        "–" if row["backend"] == "eager" else changed,
        f"{1000 * row['p50']:.2f}",
        f"{1000 * row['p90']:.2f}",
        f"{row['per_second']:.0f}",
        f"{row['bytes'] / 1e6:.1f}",
        f"{row['load_seconds']:.2f}",
    ]
