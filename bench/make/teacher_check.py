"""Refuses a tuned teacher whose answers fit far better with its labels in another order.

Students would learn from it that negative is positive. Its own row would only show a low score.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from torch import nn

from bench.data.checkpoints import Checkpoint, label_names
from bench.data.encoding import Encoded
from bench.data.tasks import Task
from bench.errors import InputError
from bench.stats.guards import permuted
from bench.train.numerics import ComputeSettings
from bench.train.prediction import predict

EXAMPLES = 1024
"""Training examples by which a teacher is judged, at most."""


def refuse_permuted_labels(
    teacher: nn.Module,
    checkpoint: Checkpoint,
    task: Task,
    train: Encoded,
    numerics: ComputeSettings,
) -> None:
    """Compare a tuned teacher's answers with the labels of training examples.

    Raises:
        InputError: they fit far better in another order of the classes. The message has the
            line of the configuration that mends it.
    """
    # its answers to some training examples
    some = train.leading(EXAMPLES)
    assert some.labels is not None, "training examples have labels"
    labels = some.labels.numpy()
    predicted = predict(teacher, some, numerics).argmax(1)
    order = permuted(predicted, labels, task.num_labels)
    if order is None:
        return
    # how much better it is in the other order, and how to mend it
    now = 100 * float((predicted == labels).mean())
    then = 100 * float((np.array(order)[predicted] == labels).mean())
    moved = ", ".join(
        f"{task.labels[code]} as {task.labels[meant]}"
        for code, meant in enumerate(order)
        if code != meant
    )
    raise InputError(
        f"{checkpoint.asked}: {then:.1f} % of {len(labels):,} training examples of {task.name} "
        f"are right if one reads {moved}, {now:.1f} % as its labels are. "
        f"Mend its config.json: {_mended(checkpoint, task, order)}; "
        "or go on with --accept-suspect-teacher"
    )


def _mended(checkpoint: Checkpoint, task: Task, order: Sequence[int]) -> str:
    """The ``id2label`` that a teacher's configuration should have."""
    config = checkpoint.config
    ours = label_names(task.labels)
    theirs = label_names(config.id2label[code] for code in range(task.num_labels))
    # a head with names was put into the task's order by them; one without was read by its codes
    codes = [ours.index(name) for name in theirs] if set(theirs) == set(ours) else range(len(ours))
    names = [f'"{place}": "{task.labels[order[code]]}"' for place, code in enumerate(codes)]
    return f'"id2label": {{{", ".join(names)}}}'
