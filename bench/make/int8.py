"""A model that is scored once more in 8 bits, as ONNX Runtime computes it: what its shipped file answers."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
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
    """Quantise the model of a finished record dynamically, score it, and add its record, or that of what went wrong.

    The training, its cost and the hash of the weights are those of the given record. Weights are rounded once, activations in every
    call by the range that they have in it: each example is a call of its own, so that no answer depends on its neighbours. On a
    processor without 8-bit dot products (VNNI) weights have 7 bits, and ``usage`` says it.
    """
    changes: dict[str, Any] = {
        "key": record_key(record.cell, IN_8_BITS),
        "point": IN_8_BITS,
        "started": now(),
        "usage": {} if sums_8_bits_exactly() else {"bits of weights": 7},
    }
    own, arrays = record.model_copy(update={**changes, "answers": None}), dict[str, np.ndarray]()
    try:
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "model.onnx"
            if why := without_graph(model):
                raise CellError(f"in 8 bits: ONNX has no such graph, because {why}")
            if task_data.plan.task.spans:
                model = as_question_answering(model)
            inputs = inputs_of(model)
            write_onnx(model, file, inputs, in_8_bits=True)
            run = opened(file, INT8, record.cell.numeric.threads, inputs)

            def logits_of(encoded: Encoded, on_step: OnStep) -> np.ndarray:
                rows = []
                for number, (tokens, segments) in enumerate(
                    zip(encoded.tokens, encoded.segments, strict=True)
                ):
                    ids, kinds = (
                        torch.from_numpy(np.asarray(row, np.int64))[None]
                        for row in (tokens, segments)
                    )
                    example = {
                        "input_ids": ids,
                        "attention_mask": torch.ones_like(ids),
                        "token_type_ids": kinds,
                    }
                    logits = run(*(example[name] for name in inputs)).numpy()
                    rows.append(
                        logits
                        if encoded.questions is None
                        else encoded.questions.best_spans([number], logits)
                    )
                    on_step(number + 1, len(encoded))
                together = np.concatenate(rows).astype(np.float32)
                return (
                    together if encoded.questions is None else encoded.questions.answers(together)
                )

            arrays, scores = answered(record.cell, task_data, logits_of)
            import onnxruntime

            of_training = [fault for fault in record.faults if not fault.startswith(SUSPECT)]
            changes = {
                "scores": scores,
                "env": record.env | {"onnxruntime": onnxruntime.__version__},
            }
            changes["faults"] = (
                *of_training,
                *faults_in(record.cell, None, arrays, scores, task_data, PLUS_INT8),
            )
            if record.sizes is not None:
                changes["sizes"] = record.sizes.model_copy(
                    update={"file_bytes": file.stat().st_size}
                )
    except Exception as error:  # the exporter has errors of its own kinds
        changes = {
            "status": "failed",
            "scores": {},
            "predicted": (),
            "error": failure_of(error, record.cell.method),
        }
        arrays = {}
    result.records.append((own.model_copy(update={**changes, "finished": now()}), arrays))


def score_kept(
    cells: Sequence[Planned], data: Sequence[TaskData], work: Work, result: StepResult
) -> bool:
    """Whether the students' records are finished and their weights lie where the run keeps students: then only the scores in 8 bits
    are added, and nothing is trained.

    Args:
        cells: of one student, one for each of ``data``.
    """
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
        # of transformers or safetensors: the folder is damaged, and its finished record must not become a failed one
        except Exception:
            return False
        if weights_hash(model) != record.weights:
            return False
        kept.append((record, model))
    for (record, model), of_task in zip(kept, data, strict=True):
        add_in_8_bits(result, record, model, of_task)
    return True
