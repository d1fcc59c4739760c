"""A record's student as a folder that works elsewhere: transformers' files, or ONNX, with the
record's own predictions.

A record keeps no weights. They are those of a folder that ``--save-students`` wrote, or the
training is repeated. Either way they are compared with the record's hash, and the answers of the
exported model with those of the record.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

import methods
from bench.data.checkpoints import Checkpoint, opener, tokenizer_of
from bench.data.tasks import Task
from bench.errors import InputError, one_line
from bench.files import TEMPORARY, folder_in_place_of
from bench.make.saved_student import (
    SCORE_AGAIN,
    export_student,
    lines_for_both,
    lines_for_questions,
    write_page,
)
from bench.plan.build import build
from bench.plan.from_record import request_from_record
from bench.plan.plan import Planned, TaskPlan
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
    Cell,
    record_key,
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
SAFE = "model.safetensors"
INPUTS = ("input_ids", "attention_mask", "token_type_ids")


@dataclass(frozen=True)
class ModelFolder:
    """A folder with the model that a record is of, in fp32."""

    path: Path
    weights: str | None
    """hash of its weights, as records have it; None if the folder is another model's"""


@dataclass(frozen=True)
class Exported:
    """A record's student as a folder, and how its answers compare with the record's."""

    record: str
    """the key of the record"""
    folder: str = ""
    """"" where nothing was written"""
    why: str = ""
    """why nothing was written, or what is wrong with the answers; "" if all is right"""
    sets: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """name of each evaluation set with stored answers -> how many ``examples`` were compared, how
    many ``changed``, the 95 % ``interval`` of their share, and the ``largest_difference`` of
    logits, where the answers are no spans of a text"""
    bytes: int = 0
    """of the model's file"""


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
) -> Exported:
    """Write the student of a record as a folder, and compare its answers with the record's.

    Args:
        key: the beginning of the record's key.
        request: data, teacher and what else the training needs; the record names the rest.
        form: one of :data:`FORMATS`.
        saved: the folder given to ``--save-students``, the one that it has for this record, or that
            of its checkpoint; None to train it again. A teacher that came tuned is its own folder.
        typed: names of the request's fields that somebody typed although a record has them.
        push: OWNER/NAME on the hub, where the folder is sent too if its answers are the record's.

    Raises:
        InputError: no such record, or one of a failed training; a folder that is not its own; a
            training that fails when it is repeated; an ONNX file that cannot be made.
    """
    store = Store(results)
    record = store.find_by_key(key)
    _refuse_target(to, form)
    _refuse_record(key, record, form, saved)
    if form != HF:
        from bench.measure.backends import check_backends

        check_backends([form])
    quiet()
    if record.cell.method not in (TEACHER, *FINISHED):
        methods.get(record.cell.method)  # its module makes its architecture known to transformers
    is_in_8_bits = record.point in POINTS_IN_8_BITS
    to.parent.mkdir(parents=True, exist_ok=True)

    with tempfile.TemporaryDirectory(dir=to.parent, prefix=TEMPORARY) as name:
        # the record's cell, planned in a folder of its own
        above = Path(name)
        of_record = request_from_record(record, request, typed)
        again = replace(of_record, results=above / "r", reports=above / "p", yes=True, rerun=True)
        if record.cell.method == CHECKPOINT:
            again = replace(again, methods=f"{CHECKPOINT}:{saved}")
        planned, task = _planned(key, record, again)

        # its model in fp32, with the record's weights
        if _came_tuned(record, task):
            checkpoint = task.checkpoint
            if isinstance(planned.row, Checkpoint):
                checkpoint = planned.row
            made = _copied(record, store, checkpoint, task, above)
        elif saved is not None:
            made = _found(record, store, saved, above, task)
        else:
            made = _trained_again(record, again, above, progress)
        if made.weights != record.weights:
            why = (
                "these are other weights than the record's; `verify` says how far the two are apart"
            )
            return Exported(record.key, why=why)

        # the form that was asked for, and its answers
        if is_in_8_bits:  # the folder has the page of the model in fp32
            model = opener(task.task.spans).from_pretrained(made.path)
            write_page(made.path, model, record, task.task, _arrays(store, record))
        file = SAFE
        if form != HF:
            _to_onnx(made.path, form == INT8, task.task, int(record.cell.recipe["max_length"]))
            file = MODEL
        sets = _compared(made.path, form, task, store, record)
        with folder_in_place_of(to) as whole:
            shutil.copytree(made.path, whole, dirs_exist_ok=True)

    # in 8 bits a model of a record in fp32 may answer otherwise
    changed = sum(counts["changed"] for counts in sets.values())
    has_to_agree = form != INT8 or is_in_8_bits
    why = ""
    if changed and has_to_agree:
        why = f"{changed} predictions are others than the record's"
    if push and not why:
        _push(to, push)
    return Exported(record.key, str(to), why, sets, (to / file).stat().st_size)


def _refuse_target(to: Path, form: str) -> None:
    """Raises InputError: no such format, or the folder is there."""
    if form not in FORMATS:
        raise InputError(f"--format {form}: choose one of {', '.join(FORMATS)}")
    if to.exists():
        raise InputError(f"--to {to}: is there already; name a new folder")


def _refuse_record(key: str, record: Record, form: str, saved: Path | None) -> None:
    """Raises InputError: the record is of no model that can be exported so."""
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
            f"the record {key} is of a model in 8 bits: add --format {INT8}, or export the row "
            "without +int8"
        )


def _planned(key: str, record: Record, request: Request) -> tuple[Planned, TaskPlan]:
    """The cell of a record in the plan of a request, and its task.

    Raises:
        InputError: the plan has other cells.
    """
    plan = build(request)
    for planned in plan.cells:
        if planned.train_key == record.train_key:
            of_record = [task for task in plan.tasks if (task.name,) == record.cell.tasks]
            return planned, planned.own_task or of_record[0]
    raise InputError(
        f"what was typed trains another cell than the record {key}; `show --why {key}` says what "
        "differs"
    )


def _came_tuned(record: Record, task: TaskPlan) -> bool:
    """Whether the model was not trained here."""
    if record.cell.method == TEACHER:
        return task.teacher.origin == "given"
    return record.cell.method == CHECKPOINT


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


def describe(exported: Exported) -> str:
    """Where the folder is, and how its answers compare."""
    if not exported.folder:
        return f"not exported: {exported.why}"
    lines = [f"exported: {exported.folder}, {exported.bytes / 1e6:.1f} MB"]
    for name, compared in exported.sets.items():
        low, high = (100 * end for end in compared["interval"])
        changed = f"{compared['changed']} of {compared['examples']} predictions changed"
        line = f"  {name}: {changed} ({low:.1f} to {high:.1f} % at 95 %)"
        gap = compared.get("largest_difference")
        if gap is not None:
            line += f"; logits differ by at most {gap:.2g}"
        lines.append(line)
    if not exported.sets:
        lines.append("  not compared: the record keeps no answers")
    if exported.why:
        lines.append(f"wrong: {exported.why}")
    return "\n".join(lines)


def _arrays(store: Store, record: Record) -> Mapping[str, np.ndarray]:
    return store.predictions(record) if store.has_predictions(record) else {}


def _copied(
    record: Record, store: Store, checkpoint: Checkpoint, task: TaskPlan, above: Path
) -> ModelFolder:
    """A model that came tuned, as a folder below ``above``."""
    from bench.make.teacher import base_model
    from bench.measure.parameters import weights_hash

    model = base_model(checkpoint.folder, task.task.num_labels, task.task.spans, checkpoint.labels)
    weights = weights_hash(model)
    full = store.find(record.cell) or record
    tokenizer = tokenizer_of(checkpoint, to_save=True)
    arrays = _arrays(store, full)
    path = export_student(above / "given", model, tokenizer, full, task.task, arrays)
    return ModelFolder(path, weights)


def _key_of_folder(record: Record, cell: Cell) -> str:
    """The key under which a run keeps the model of a cell: once, in fp32."""
    return record_key(cell, "" if record.point in POINTS_IN_8_BITS else record.point)


def _trained_again(
    record: Record, request: Request, above: Path, progress: Progress | None
) -> ModelFolder:
    """The student of a record, trained again and kept below ``above``.

    Raises:
        InputError: the training failed.
    """
    # what is trained again here was not searched for
    key = _key_of_folder(record, record.cell.model_copy(update={"search": None}))
    students = above / "students"
    outcome = run(replace(request, save_students=students), progress)
    for config in students.rglob("config.json"):
        if config.parent.name.endswith(key[:8]):
            return ModelFolder(config.parent, Store(request.results).find_by_key(key).weights)
    whys = dict.fromkeys(failure.why for failure in outcome.failures)
    raise InputError(f"the student could not be trained again: {'; '.join(whys)}")


def _found(record: Record, store: Store, saved: Path, above: Path, task: TaskPlan) -> ModelFolder:
    """The student of a record among the folders of an earlier run, copied below ``above``.

    Raises:
        InputError: it is not there.
    """
    from bench.measure.parameters import weights_hash

    # the first folder with weights whose configuration names the record's key; the file is
    # transformers', and only this program writes keys in it
    key = _key_of_folder(record, record.cell)
    folder = above / "student"
    for config in sorted(saved.rglob("config.json")):
        has_weights = (config.parent / SAFE).is_file()
        if has_weights and key.encode() in config.read_bytes():
            shutil.copytree(config.parent, folder)
            break
    else:
        raise InputError(
            f"--from {saved}: neither it nor a folder below it is the student of record {key[:8]}; "
            "name the folder given to --save-students"
        )
    if not task.task.spans:
        return ModelFolder(folder, weights_hash(opener(spans=False).from_pretrained(folder)))

    # the file lacks the pooler that the record's hash is of too: the folder is known by its
    # answers, which are kept in fp32
    full = store.find(record.cell)
    sets = _compared(folder, HF, task, store, full) if full is not None else {}
    is_the_same = bool(sets) and not any(compared["changed"] for compared in sets.values())
    return ModelFolder(folder, record.weights if is_the_same else None)


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
    (folder / SAFE).unlink()

    # the page: its indented lines, and the command that scores it again, open the weights that are
    # no longer there
    card = folder / "README.md"
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
        '    inputs = {"input_ids": ids, "attention_mask": [1] * len(ids), '
        '"token_type_ids": kinds}',
        "    given = {each.name: numpy.array([inputs[each.name]]) "
        "for each in session.get_inputs()}",
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
    """How many answers of each evaluation set the folder's model changes, where a record keeps
    them."""
    known = _arrays(store, record)
    compared = {}
    for name, split in task.evaluation.items():
        stored = known.get(f"logits.{name}")
        if stored is not None:
            answers = _answers(folder, form, split, task)
            compared[name] = changed_answers(task.task.form, stored, answers)
    return compared


def _answers(folder: Path, form: str, split: Any, task: TaskPlan) -> np.ndarray:
    """The answers of a folder's model to the examples, as records keep them.

    Texts are tokenised by the folder's own tokenizer and padded, as whoever takes the folder does.
    """
    import torch
    from transformers import AutoTokenizer

    from bench.measure.backends import opened, runner
    from methods.core.models import inputs_of, reads_texts

    tokenizer = AutoTokenizer.from_pretrained(folder)
    threads = torch.get_num_threads()
    names: tuple[str, ...] = INPUTS
    if form != HF:
        run = opened(folder / MODEL, ONNX, threads, names)
    else:
        model = opener(task.task.spans).from_pretrained(folder).eval()
        if reads_texts(model):  # the tokenizer's numbers are not those of its own words
            return _answers_to_texts(model, split)
        names = tuple(inputs_of(model))
        run = runner(model, "sdpa", torch.device("cpu"), torch.float32, threads, names)
    size = 1 if form == INT8 else BATCH  # in 8 bits an answer depends on what else is in its batch
    batches, questions = batches_of(
        tokenizer, split, names, size, task.recipe.max_length, task.recipe.truncation
    )
    return answers_of(run, batches, questions)[0]


def _answers_to_texts(model: Any, split: Any) -> np.ndarray:
    """The answers [n, C] of a model that splits texts itself."""
    import torch

    second = [None] * len(split) if split.second is None else split.second
    texts = list(zip(split.first, second, strict=True))
    batches = [texts[begin : begin + BATCH] for begin in range(0, len(texts), BATCH)]
    with torch.inference_mode():
        return np.concatenate([model.of_texts(batch).numpy() for batch in batches])
