"""The raw answers of a record: read with care, and compared with what the record says of them. No
torch."""

from __future__ import annotations

import hashlib
import io
import math
import zipfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.files import read_at_most

if TYPE_CHECKING:
    import numpy as np

    from bench.record.schema import Record
    from bench.stats.form import Form

INDEX = "index"
PREDICTION = "prediction"
LABEL = "label"
"""Columns of a file of predictions: an example's number from 0 on, what was predicted, and what is
right. One that is written here is read as ``predictions:FOLDER``."""
SCORED_ALIKE = 1e-6
"""How far a score may be from what its answers give."""
ARRAYS = ("logits", "labels", "examples")
"""The arrays that are kept of each evaluation set: an array ``logits.validation`` and so on."""
LARGEST_ARRAY = 2**28
"""Bytes of an array: 64 numbers for each of a million examples.

No larger one is written, and none is read.
"""
LARGEST_HEADER = 2**16
"""Bytes that stand before the numbers of an array's file."""
LARGEST_FILE = 2**30


class Unreadable(ValueError):
    """Answers that are not there, cannot be read, or are not those of their record; the message
    says what is wrong."""


def pack(arrays: Mapping[str, np.ndarray]) -> tuple[bytes, str]:
    """The bytes of an ``.npz`` file, and their sha256.

    Raises:
        ValueError: an array is larger than :data:`LARGEST_ARRAY`, so that no reader would take it.
    """
    import numpy as np

    for name, array in arrays.items():
        if array.nbytes > LARGEST_ARRAY:
            raise ValueError(f"{name} {_too_large(array.nbytes)}")
    buffer = io.BytesIO()
    np.savez_compressed(buffer, allow_pickle=False, **arrays)
    return buffer.getvalue(), hashlib.sha256(buffer.getvalue()).hexdigest()


def read(file: Path, sets: Iterable[str], sha256: str | None = None) -> dict[str, np.ndarray]:
    """The arrays of some evaluation sets in a file.

    Nothing in the file can run, and nothing else in it is unpacked.

    Args:
        sets: names of evaluation sets; an array that is not there is left out.
        sha256: of the file, where the record says it.

    Raises:
        Unreadable: no such file, other bytes than were written, no arrays, or a larger one than
            is ever written.
    """
    try:
        data = read_at_most(file, LARGEST_FILE)
    except OSError as error:
        raise Unreadable(f"its answers cannot be read: {error.strerror}") from None
    if sha256 is not None and hashlib.sha256(data).hexdigest() != sha256:
        raise Unreadable("its answers are not the bytes that were written (sha256)")
    wanted = [f"{what}.{name}" for name in sets for what in ARRAYS]
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as packed:
            there = {info.filename: info for info in packed.infolist()}
            found: dict[str, np.ndarray] = {}
            for name in wanted:
                info = there.get(f"{name}.npy")
                if info is None:
                    continue
                if info.file_size > LARGEST_ARRAY + LARGEST_HEADER:
                    raise Unreadable(f"its {name} {_too_large(info.file_size)}")
                found[name] = _array(packed.read(info), name)
            return found
    except Unreadable:
        raise
    # numpy, zipfile and what unpacks raise a dozen kinds where a file holds anything else
    except Exception as error:
        why = str(error).strip().partition("\n")[0] or type(error).__name__
        raise Unreadable(f"its answers are no arrays ({why})") from None


def _array(data: bytes, name: str) -> np.ndarray:
    """An array from the bytes of a ``.npy`` file; nobody can write into it.

    Raises:
        Unreadable: it says that it is larger than :data:`LARGEST_ARRAY`.
        ValueError: they are no array of numbers.
    """
    import numpy as np

    # magic and version, the length of the header, the header
    length = np.frombuffer(data, "<u2" if data[6:7] == b"\1" else "<u4", 1, 8)
    begin = 8 + length.nbytes + int(length[0])
    shape, is_fortran, dtype = _header(data[:begin])
    size = math.prod(shape) * dtype.itemsize
    if not 0 <= size <= LARGEST_ARRAY:
        raise Unreadable(f"its {name} {_too_large(size)}")
    array = np.frombuffer(data, dtype, math.prod(shape), begin)
    return array.reshape(shape, order="F" if is_fortran else "C")


def _too_large(size: int) -> str:
    return f"has {size / 1e6:,.0f} MB; an array of answers has at most {LARGEST_ARRAY / 1e6:,.0f}"


@lru_cache
def _header(text: bytes) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """The shape, order and type in the header of a ``.npy`` file: there are few, and to parse one
    takes longer than to read its array.

    Raises:
        ValueError: it is none, or of objects, which could run code.
    """
    from numpy.lib import format as npy

    stream = io.BytesIO(text)
    version = npy.read_magic(stream)
    read = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
    shape, is_fortran, dtype = read(stream)
    if dtype.hasobject:
        raise ValueError("objects are not read")
    return shape, is_fortran, dtype


class Kept:
    """Raw answers in memory, as many as fit; whatever comes later is not kept.

    Labels and examples are the same in all records of a task, and are kept once. Nobody can write
    into what is kept.
    """

    def __init__(self, most: int) -> None:
        """``most``: bytes."""
        self._left = most
        self._of: dict[Path, tuple[str | None, dict[str, np.ndarray]]] = {}
        self._shared: dict[tuple[str, str, tuple[int, ...], bytes], np.ndarray] = {}

    def keep(self, file: Path, sha256: str | None, arrays: Mapping[str, np.ndarray]) -> None:
        """Keep the arrays of a file, if there is room for them.

        Args:
            sha256: of the file, as its record says it.
        """
        kept: dict[str, np.ndarray] = {}
        size = 0
        for name, array in arrays.items():
            kept[name] = array
            if not name.startswith("logits."):
                content = hashlib.sha256(array.tobytes()).digest()
                place = (name, str(array.dtype), array.shape, content)
                kept[name] = self._shared.setdefault(place, array)
            if kept[name] is array:
                size += array.nbytes
        if size > self._left:
            return
        self._left -= size
        for array in kept.values():
            array.flags.writeable = False
        self._of[file] = sha256, kept

    def of(self, file: Path, sha256: str | None) -> dict[str, np.ndarray] | None:
        """The arrays of a file with this sha256; None where they are not kept."""
        found = self._of.get(file)
        return dict(found[1]) if found is not None and found[0] == sha256 else None

    def drop(self, file: Path) -> None:
        """Forget the arrays of a file that changed."""
        self._of.pop(file, None)


def fault(record: Record, arrays: Mapping[str, np.ndarray]) -> str:
    """Why these cannot be the answers behind a record; "" where they can.

    Each evaluation set has logits that are numbers, and as many examples; the scores follow from
    logits and labels.
    """
    form = _form_of(record)
    for name in (*record.scores, *record.predicted):
        wrong = _wrong_arrays(arrays, name, form, is_labelled=name in record.scores)
        wrong = wrong or _misshapen(record, form, name, arrays)
        if wrong:
            return wrong
    for name, scores in record.scores.items():
        logits = arrays[f"logits.{name}"]
        labels = arrays[f"labels.{name}"]
        wrong = _wrong_labels(labels, name, form, classes=logits.shape[1])
        wrong = wrong or _wrong_scores(logits, labels, name, scores)
        if wrong:
            return wrong
    return ""


def _wrong_arrays(
    arrays: Mapping[str, np.ndarray], name: str, form: Form | None, is_labelled: bool
) -> str:
    """Why the arrays of an evaluation set are not of the kind that is written; "" where they are.

    Args:
        form: of the answers; None where it is not known.
        is_labelled: whether there have to be labels.
    """
    import numpy as np

    wanted = [KindOfArray("logits", "f", 2), KindOfArray("examples", "iu", 1)]
    if is_labelled:
        axes = 1 if form is None else len(form.arrays(1, 1)["labels"])
        wanted.append(KindOfArray("labels", "iuf", axes))
    logits = arrays.get(f"logits.{name}")
    for kind in wanted:
        array = arrays.get(f"{kind.what}.{name}")
        if array is None or logits is None:
            return f"its answers have no {kind.what} of {name}"
        if not kind.fits(array):
            return f"its {kind.what} of {name} are not of the form that is written"
        if len(array) != len(logits):
            return (
                f"its logits and its {kind.what} of {name} are of {len(logits)} and {len(array)} "
                "examples"
            )
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            return f"its {kind.what} of {name} are not all numbers"
    return ""


@dataclass(frozen=True)
class KindOfArray:
    """How one array of an evaluation set is written.

    Attributes:
        what: logits, labels or examples.
        kinds: those of its numbers, as numpy abbreviates them.
        axes: how many it has.
    """

    what: str
    kinds: str
    axes: int

    def fits(self, array: np.ndarray) -> bool:
        """Whether an array is written so."""
        return array.dtype.kind in self.kinds and array.ndim == self.axes and array.size > 0


def _wrong_labels(labels: np.ndarray, name: str, form: Form | None, classes: int) -> str:
    """Why the labels of an evaluation set are not those of classes; "" where they are, or its
    answers are no classes."""
    from bench.stats.form import CLASSES

    # one output is a number
    if form not in (None, CLASSES) or classes < 2:
        return ""
    if labels.dtype.kind == "f" or labels.min() < 0 or labels.max() >= classes:
        return f"its labels of {name} are not among its {classes} classes"
    return ""


def _wrong_scores(
    logits: np.ndarray, labels: np.ndarray, name: str, scores: Mapping[str, float]
) -> str:
    """Why the scores of an evaluation set do not follow from its answers; "" where they do."""
    from bench.stats.metrics import METRICS

    for metric_name, recorded in scores.items():
        metric = METRICS.get(metric_name)
        # a metric of one's own may be gone
        if metric is None:
            continue
        predicted = metric.form.predicted(logits)
        score = metric.score(predicted, labels)
        if predicted.dtype.kind == "f" and not abs(score - recorded) <= SCORED_ALIKE:
            # float32 may be far from it where all answers are nearly equal; older scores were
            # computed so
            score = metric.score(predicted.astype(float), labels.astype(float))
        if not abs(score - recorded) <= SCORED_ALIKE:
            return (
                f"its {metric_name} of {name}, {recorded:.6g}, does not follow from its answers, "
                f"which give {score:.6g}"
            )
    return ""


def _form_of(record: Record) -> Form | None:
    """The form of a record's answers; an older record says it by its metrics."""
    from bench.stats.form import FORMS
    from bench.stats.metrics import METRICS

    if record.task.form:
        return FORMS.get(record.task.form)
    known = [METRICS[name].form for name in record.task.metrics if name in METRICS]
    return next(iter(known), None)


def _misshapen(
    record: Record, form: Form | None, name: str, arrays: Mapping[str, np.ndarray]
) -> str:
    """Why the arrays of an evaluation set have another shape than the form of the task has.

    Returns:
        "" where they have that shape.
    """
    from bench.stats.form import CLASSES, misshapen

    if form is None:
        return ""
    examples, outputs = arrays[f"logits.{name}"].shape
    if form == CLASSES:
        # an older record of a task of one's own does not name its classes; there are two at least
        outputs = len(record.task.labels or ()) or max(2, outputs)
    own = {what: arrays[f"{what}.{name}"] for what in ARRAYS if f"{what}.{name}" in arrays}
    wrong = misshapen(form, own, examples, outputs)
    return f"its answers to {name} have {wrong}" if wrong else ""
