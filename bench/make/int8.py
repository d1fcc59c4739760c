"""A model that is scored once more in 8 bits, as ONNX Runtime computes it from its shipped file."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import AutoModelForSequenceClassification

from bench.data.encoding import Encoded
from bench.errors import CellError
from bench.make.failure import SUSPECT, failure_of
from bench.make.record import answered, faults_in, now
from bench.make.saved_student import folder_for
from bench.make.task_data import TaskData
from bench.make.teacher import as_question_answering
from bench.make.work import StepResult, Work
from bench.measure.backends import INT8, opened, write_onnx
from bench.measure.machine import sums_8_bits_exactly
from bench.measure.parameters import weights_hash
from bench.plan.plan import Planned
from bench.record.cell import IN_8_BITS, PLUS_INT8, record_key
from bench.record.schema import Record
from bench.train.loop import OnStep
from methods.core.models import inputs_of, without_graph


def add_in_8_bits(result: StepResult, record: Record, model: Any, task_data: TaskData) -> None:
    """Quantise the model of a finished record dynamically, score it, and add its record.

    Where something goes wrong the record says that. The training, its cost and the hash of the
    weights are those of the given record. Weights are rounded once, activations in every call by
    the range that they have in it: each example is a call of its own, so that no answer depends on
    its neighbours. On a processor without 8-bit dot products (VNNI) weights have 7 bits, and
    ``usage`` says it.
    """
    started = now()
    arrays: dict[str, np.ndarray] = {}
    try:
        # answers and size are those of one file
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "model.onnx"
            logits_of = _quantised(model, file, record, task_data)
            arrays, scores = answered(record.cell, task_data, logits_of)
            file_bytes = file.stat().st_size
        changes = _in_8_bits(record, arrays, scores, file_bytes, task_data)
    except Exception as error:  # the exporter has errors of its own kinds
        arrays = {}
        changes = {
            "status": "failed",
            "scores": {},
            "predicted": (),
            "error": failure_of(error, record.cell.method),
        }
    changes |= {
        "key": record_key(record.cell, IN_8_BITS),
        "point": IN_8_BITS,
        "answers": None,
        "usage": {} if sums_8_bits_exactly() else {"bits of weights": 7},
        "started": started,
        "finished": now(),
    }
    result.records.append((record.model_copy(update=changes), arrays))


def _quantised(
    model: Any, file: Path, record: Record, task_data: TaskData
) -> Callable[[Encoded, OnStep], np.ndarray]:
    """Write a model in 8 bits into a file.

    Returns:
        The function that answers the examples of an evaluation set by it.

    Raises:
        CellError: ONNX has no such graph.
    """
    why = without_graph(model)
    if why:
        raise CellError(f"in 8 bits: ONNX has no such graph, because {why}")
    if task_data.plan.task.spans:
        model = as_question_answering(model)
    # the file has the inputs of the model, in this order
    inputs = inputs_of(model)
    write_onnx(model, file, inputs, in_8_bits=True)
    run = opened(file, INT8, record.cell.numeric.threads, inputs)

    def logits_of(encoded: Encoded, on_step: OnStep) -> np.ndarray:
        # one example a call
        rows = []
        for number, tokens in enumerate(encoded.tokens):
            ids = torch.from_numpy(np.asarray(tokens, np.int64))[None]
            segments = np.asarray(encoded.segments[number], np.int64)
            example = {
                "input_ids": ids,
                "attention_mask": torch.ones_like(ids),
                "token_type_ids": torch.from_numpy(segments)[None],
            }
            logits = run(*(example[name] for name in inputs)).numpy()
            if encoded.questions is not None:
                logits = encoded.questions.best_spans([number], logits)
            rows.append(logits)
            on_step(number + 1, len(encoded))
        together = np.concatenate(rows).astype(np.float32)
        return together if encoded.questions is None else encoded.questions.answers(together)

    return logits_of


def _in_8_bits(
    record: Record,
    arrays: Mapping[str, np.ndarray],
    scores: Mapping[str, Mapping[str, float]],
    file_bytes: int,
    task_data: TaskData,
) -> dict[str, Any]:
    """What the record in 8 bits says otherwise than that of the full model."""
    import onnxruntime

    # faults of the training stay, those of the answers are looked for anew
    of_training = [fault for fault in record.faults if not fault.startswith(SUSPECT)]
    of_answers = faults_in(record.cell, None, arrays, scores, task_data, PLUS_INT8)
    changes: dict[str, Any] = {
        "scores": scores,
        "env": record.env | {"onnxruntime": onnxruntime.__version__},
        "faults": (*of_training, *of_answers),
    }
    if record.sizes is not None:
        changes["sizes"] = record.sizes.model_copy(update={"file_bytes": file_bytes})
    return changes


def score_kept(
    cells: Sequence[Planned], data: Sequence[TaskData], work: Work, result: StepResult
) -> bool:
    """Whether the students' records are finished and their weights still kept by the run.

    Then only the scores in 8 bits are added, and nothing is trained.

    Args:
        cells: of one student, one for each of ``data``.
    """
    # all of its models, or none: a student of several tasks has one for each
    kept = []
    for planned in cells:
        record = planned.record
        if record is None or not (planned.has_full_record and planned.in_8_bits and work.save_to):
            return False
        folder = folder_for(work.save_to, record)
        if not (folder / "config.json").is_file():
            return False
        try:
            model = AutoModelForSequenceClassification.from_pretrained(folder)
        # of transformers or safetensors: the folder is damaged, and its finished record must not
        # become a failed one
        except Exception:
            return False
        if weights_hash(model) != record.weights:
            return False
        kept.append((record, model))
    for (record, model), of_task in zip(kept, data, strict=True):
        add_in_8_bits(result, record, model, of_task)
    return True
