"""A record's student as a folder that works elsewhere: transformers' files, or ONNX, with the record's own predictions.

A record keeps no weights. They are those of a folder that ``--save-students`` wrote, or the training is repeated; either way
they are compared with the record's hash, and what the exported model answers with what the record answered.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

import methods
from bench.data.checkpoints import Checkpoint, opener, tokenizer_of
from bench.data.tasks import Task
from bench.errors import InputError, one_line
from bench.files import TEMPORARY, folder_in_place_of
from bench.make.export import (
    SCORE_AGAIN,
    export_student,
    lines_for_both,
    lines_for_questions,
    write_page,
)
from bench.plan.build import build
from bench.plan.from_record import request_from_record
from bench.plan.plan import TaskPlan
from bench.progress import Progress, quiet
from bench.record.cell import (
    CHECKPOINT,
    FINISHED,
    LINEAR_IN_8_BITS,
    LINEAR_ONLY,
    ONNX_INT8,
    POINTS_IN_8_BITS,
    PREDICTIONS,
    TEACHER,
    record_key,
    train_key,
)
from bench.record.schema import Record
from bench.record.store import Store
from bench.request import Request
from bench.stats.paired import changed_answers
from bench.workflows.backends import BATCH, answers_of, batches_of
from bench.workflows.run import run

HF = "hf"
ONNX = "onnx"
INT8 = ONNX_INT8
FORMATS = (HF, ONNX, INT8)
MODEL = "model.onnx"
INPUTS = ("input_ids", "attention_mask", "token_type_ids")


def export(
    key: str,
    results: Path,
    request: Request,
    to: Path,
    form: str = HF,
    saved: Path | None = None,
    progress: Progress | None = None,
    typed: Collection[str] = (),
    push: str = "",
) -> dict[str, Any]:
    """Write the student of a record as a folder, and compare its answers with the record's.

    Args:
        key: the beginning of the record's key.
        request: data, teacher and what else the training needs; the record names the rest.
        form: one of :data:`FORMATS`.
        saved: the folder given to ``--save-students``, the one that it has for this record, or that of its checkpoint; None to train
            it again. A teacher that came tuned is its own folder.
        typed: names of the request's fields that somebody typed although a record has them.
        push: OWNER/NAME on the hub, where the folder is sent too if its answers are the record's.

    Returns:
        The ``record``, the ``folder`` ("" where nothing was written) and the ``why``; of each evaluation set with stored answers
        how many ``examples`` were compared, how many ``changed`` with the 95 % ``interval`` of their share, and the
        ``largest_difference`` of logits, where the answers are no spans of a text; the ``bytes`` of the model's file.

    Raises:
        InputError: no such record, or one of a failed training; a folder that is not its own; a training that fails when it is
            repeated; an ONNX file that cannot be made.
    """
    store, record = Store(results), Store(results).find_by_key(key)
    if form not in FORMATS:
        raise InputError(f"--format {form}: choose one of {', '.join(FORMATS)}")
    if to.exists():
        raise InputError(f"--to {to}: is there already; name a new folder")
    if record.status != "ok":
        raise InputError(
            f"the record {key} is of a training that failed, so there is nothing to export"
        )
    if record.cell.method == PREDICTIONS:
        raise InputError(
            f"the record {key} is of predictions; there is no model that could be exported"
        )
    if record.cell.method == CHECKPOINT and saved is None:
        raise InputError(f"the record {key} is of a finished model: add --from with its folder")
    if record.point == LINEAR_IN_8_BITS:
        raise InputError(
            f"the record {key} is of {LINEAR_ONLY}, which is no longer made: run {record.row} again"
        )
    if record.point in POINTS_IN_8_BITS and form != INT8:
        raise InputError(
            f"the record {key} is of a model in 8 bits: add --format {INT8}, or export the row without +int8"
        )
    if form != HF:
        from bench.measure.backends import check_backends

        check_backends([form])
    quiet()
    if record.cell.method not in (TEACHER, *FINISHED):
        methods.get(record.cell.method)  # its module makes its architecture known to transformers
    to.parent.mkdir(parents=True, exist_ok=True)
    answer: dict[str, Any] = {"record": record.key, "folder": "", "why": "", "sets": {}, "bytes": 0}
    with tempfile.TemporaryDirectory(dir=to.parent, prefix=TEMPORARY) as above:
        asked = request_from_record(record, request, typed)
        asked = replace(
            asked, results=Path(above) / "r", reports=Path(above) / "p", yes=True, rerun=True
        )
        if record.cell.method == CHECKPOINT:
            asked = replace(asked, methods=f"{CHECKPOINT}:{saved}")
        plan = build(asked)
        planned = next(
            (each for each in plan.cells if train_key(each.cell) == record.train_key), None
        )
        if planned is None:
            raise InputError(
                f"what was typed trains another cell than the record {key}; `show --why {key}` says what differs"
            )
        task = planned.own_task or next(
            task for task in plan.tasks if (task.name,) == record.cell.tasks
        )
        if record.cell.method == CHECKPOINT or (
            record.cell.method == TEACHER and task.teacher.origin == "given"
        ):
            checkpoint = planned.row if isinstance(planned.row, Checkpoint) else task.checkpoint
            folder, weights = _of_given(record, store, checkpoint, task, Path(above))
        else:
            folder, weights = _weights(record, store, asked, saved, Path(above), task, progress)
        if weights != record.weights:
            return answer | {
                "why": "these are other weights than the record's; `verify` says how far the two are apart"
            }
        if record.point in POINTS_IN_8_BITS:  # the folder has the page of the model in fp32
            model = opener(task.task.spans).from_pretrained(folder)
            write_page(folder, model, record, task.task, _arrays(store, record))
        if form != HF:
            _to_onnx(folder, form == INT8, task.task, int(record.cell.recipe["max_length"]))
        file = folder / (MODEL if form != HF else "model.safetensors")
        answer["sets"] = _compared(folder, form, task, store, record)
        with folder_in_place_of(to) as whole:
            shutil.copytree(folder, whole, dirs_exist_ok=True)
    changed = sum(counts["changed"] for counts in answer["sets"].values())
    why = (
        f"{changed} predictions are others than the record's"
        if changed and (form != INT8 or record.point in POINTS_IN_8_BITS)
        else ""
    )
    if push and not why:
        _push(to, push)
    return answer | {"folder": str(to), "bytes": (to / file.name).stat().st_size, "why": why}


def _push(folder: Path, name: str) -> None:
    """Send a folder to a private repository of the hub, which is made if it is not there.

    Raises:
        InputError: the hub refused it; the folder stays.
    """
    from huggingface_hub import HfApi

    try:
        HfApi().create_repo(name, private=True, exist_ok=True)
        HfApi().upload_folder(repo_id=name, folder_path=folder)
    except Exception as error:  # the hub's own, and those of its network library, whichever it is
        raise InputError(
            f"--push {name}: {one_line(str(error).strip())[:300]}; the folder is {folder}"
        ) from None


def describe(answer: Mapping[str, Any]) -> str:
    """Where the folder is, and how its answers compare."""
    if not answer["folder"]:
        return f"not exported: {answer['why']}"
    lines = [f"exported: {answer['folder']}, {answer['bytes'] / 1e6:.1f} MB"]
    for name, compared in answer["sets"].items():
        low, high = (100 * end for end in compared["interval"])
        line = f"  {name}: {compared['changed']} of {compared['examples']} predictions changed ({low:.1f} to {high:.1f} % at 95 %)"
        gap = compared.get("largest_difference")
        lines.append(line + ("" if gap is None else f"; logits differ by at most {gap:.2g}"))
    lines += [] if answer["sets"] else ["  not compared: the record keeps no answers"]
    return "\n".join([*lines, *([f"wrong: {answer['why']}"] if answer["why"] else [])])


def _of_given(
    record: Record, store: Store, checkpoint: Checkpoint, task: TaskPlan, above: Path
) -> tuple[Path, str | None]:
    """A folder of a model that came tuned, and the hash of its weights."""
    from bench.make.teacher import base_model
    from bench.measure.parameters import weights_hash

    model = base_model(checkpoint.folder, task.task.num_labels, task.task.spans, checkpoint.labels)
    weights, full = weights_hash(model), store.find(record.cell) or record
    tokenizer = tokenizer_of(checkpoint, to_save=True)
    return export_student(
        above / "given", model, tokenizer, full, task.task, _arrays(store, full)
    ), weights


def _arrays(store: Store, record: Record) -> Mapping[str, np.ndarray]:
    return store.predictions(record) if store.has_predictions(record) else {}


def _weights(
    record: Record,
    store: Store,
    asked: Request,
    saved: Path | None,
    above: Path,
    task: TaskPlan,
    progress: Progress | None,
) -> tuple[Path, str | None]:
    """A folder of the student below ``above``, and the hash of its weights; None if a folder is not the record's."""
    # the model is kept once, in fp32; what is trained again here was not searched for
    cell = record.cell if saved is not None else record.cell.model_copy(update={"search": None})
    kept_under = record_key(cell, "" if record.point in POINTS_IN_8_BITS else record.point)
    if saved is None:
        outcome = run(replace(asked, save_students=above / "students"), progress)
        folders = [path.parent for path in (above / "students").rglob("config.json")]
        own = [path for path in folders if path.name.endswith(kept_under[:8])]
        if not own:
            whys = dict.fromkeys(failure.why for failure in outcome.failures)
            raise InputError(f"the student could not be trained again: {'; '.join(whys)}")
        return own[0], Store(asked.results).find_by_key(kept_under).weights
    from bench.measure.parameters import weights_hash

    kept = [
        file.parent
        for file in sorted(saved.rglob("config.json"))
        if (file.parent / "model.safetensors").is_file()
        # transformers' file, in which only we write keys
        and kept_under.encode() in file.read_bytes()
    ]
    if not kept:
        raise InputError(
            f"--from {saved}: neither it nor a folder below it is the student of record {kept_under[:8]}; "
            "name the folder given to --save-students"
        )
    folder = above / "student"
    shutil.copytree(kept[0], folder)
    if not task.task.spans:
        return folder, weights_hash(opener(spans=False).from_pretrained(folder))
    # the file lacks the pooler that the record's hash is of too: the folder is known by its answers, which are kept in fp32
    full = store.find(record.cell)
    sets = _compared(folder, HF, task, store, full) if full is not None else {}
    is_the_same = bool(sets) and not any(compared["changed"] for compared in sets.values())
    return folder, record.weights if is_the_same else None


def _to_onnx(folder: Path, in_8_bits: bool, task: Task, longest: int) -> None:
    """Put an ONNX file in the place of a folder's weights.

    Raises:
        InputError: the model reads words, or has no form in ONNX.
    """
    from bench.measure.backends import write_onnx
    from methods.core.models import inputs_of, without_graph

    model = opener(task.spans).from_pretrained(folder).eval()
    if why := without_graph(model):
        raise InputError(f"--format onnx: ONNX has no graph of this student, because {why}")
    try:
        write_onnx(model, folder / MODEL, inputs_of(model), in_8_bits)
    except Exception as error:  # the exporter has errors of its own kinds
        first_line = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise InputError(f"--format onnx: this student cannot be exported: {first_line}") from None
    (folder / "model.safetensors").unlink()
    card = folder / "README.md"
    # its indented lines, and the command that scores it again, open the weights that are no longer there
    _, head, body = card.read_text(encoding="utf-8").split("---\n", 2)
    head = head.replace("library_name: transformers", "library_name: onnx")
    lines = [line for line in body.splitlines() if not line.startswith(("    ", SCORE_AGAIN))]
    lines += [
        "",
        "## With ONNX Runtime alone",
        "",
        *(f"    {line}" for line in _code(task, longest)),
    ]
    card.write_text(f"---\n{head}---\n" + "\n".join(lines) + "\n", encoding="utf-8")


def _code(task: Task, longest: int) -> list[str]:
    """The lines that open the folder and answer."""
    lines = [
        "import numpy, onnxruntime, tokenizers",
        'tokenizer = tokenizers.Tokenizer.from_file("THIS-FOLDER/tokenizer.json")',
        'session = onnxruntime.InferenceSession("THIS-FOLDER/model.onnx")',
        "def logits_of(ids, kinds):",
        '    inputs = {"input_ids": ids, "attention_mask": [1] * len(ids), "token_type_ids": kinds}',
        "    given = {each.name: numpy.array([inputs[each.name]]) for each in session.get_inputs()}",
        "    return [scores[0] for scores in session.run(None, given)]",
        "",
    ]
    if task.spans:
        return lines + lines_for_questions(task, longest)
    if task.truncation == "both":
        lines += [*lines_for_both(longest), "(logits,) = logits_of(ids, [0] * len(ids))"]
    else:
        side = ', direction="left"' if task.truncation == "tail" else ""
        texts = '"a text", "a second one"' if len(task.columns) == 2 else '"a text"'
        lines += [
            f"tokenizer.enable_truncation({longest}{side})",
            f"encoded = tokenizer.encode({texts})",
            "(logits,) = logits_of(encoded.ids, encoded.type_ids)",
        ]
    if task.regression:
        return [*lines, "print(logits[0])"]
    return [
        *lines,
        "import json, pathlib",
        'labels = json.loads(pathlib.Path("THIS-FOLDER/config.json").read_text())["id2label"]',
        "print(labels[str(logits.argmax())])",
    ]


def _compared(
    folder: Path, form: str, task: TaskPlan, store: Store, record: Record
) -> dict[str, Any]:
    """Of each evaluation set whose answers a record keeps, how many of them the folder's model changes."""
    known = _arrays(store, record)
    return {
        name: changed_answers(
            task.task.form, known[f"logits.{name}"], _answers(folder, form, split, task)
        )
        for name, split in task.evaluation.items()
        if f"logits.{name}" in known
    }


def _answers(folder: Path, form: str, split: Any, task: TaskPlan) -> np.ndarray:
    """To the examples, by the folder's model, tokenised by its own tokenizer and padded, as whoever takes the folder does; as records
    keep them."""
    import torch
    from transformers import AutoTokenizer

    from bench.measure.backends import opened, runner
    from methods.core.models import inputs_of, reads_texts

    tokenizer, threads = AutoTokenizer.from_pretrained(folder), torch.get_num_threads()
    names: tuple[str, ...] = INPUTS
    if form != HF:
        run = opened(folder / MODEL, ONNX, threads, names)
    else:
        model = opener(task.task.spans).from_pretrained(folder).eval()
        if reads_texts(model):  # the tokenizer's numbers are not those of its own words
            second = [None] * len(split) if split.second is None else split.second
            texts, of_texts = (
                list(zip(split.first, second, strict=True)),
                torch.inference_mode()(model.of_texts),
            )
            return np.concatenate(
                [of_texts(texts[i : i + BATCH]).numpy() for i in range(0, len(texts), BATCH)]
            )
        names = tuple(inputs_of(model))
        run = runner(model, "sdpa", torch.device("cpu"), torch.float32, threads, names)
    size = 1 if form == INT8 else BATCH  # in 8 bits an answer depends on what else is in its batch
    batches, questions = batches_of(
        tokenizer, split, names, size, task.recipe.max_length, task.recipe.truncation
    )
    return answers_of(run, batches, questions)[0]
