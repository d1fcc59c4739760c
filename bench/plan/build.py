"""From a request to a plan: every cell with its key, what is there already, who shares what, time and disk.

Heavy libraries are imported where they are needed, so that reading a plan's types costs nothing.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeGuard

from bench.cache import Slot, cache_root
from bench.data.checkpoints import Checkpoint, hash_of_tokenizer, names_labels, odd_notes
from bench.data.example_files import named
from bench.data.hub import CHANGED
from bench.data.own_tasks import expand, files_line, is_own, typed_tasks
from bench.errors import InputError
from bench.folders import ANOTHER_CACHE, why_not_writable
from bench.plan.artefacts import DEFAULT_CORPUS_BUDGET, ArtefactPlanner
from bench.plan.estimate import choose_jobs, too_large_for_card
from bench.plan.outputs import plan_outputs
from bench.plan.plan import TEACHER_VERSION, ArtefactPlan, Plan, Planned, TaskPlan
from bench.plan.request import AUTO, EMBEDDED, FAST, HUB, HUB_TEACHER, SAMPLE, TF32, Request
from bench.plan.spelling import MethodRow, drop_unusable, parse_rows
from bench.plan.steps import steps_of
from bench.plan.student_cells import check_row, student_cells
from bench.plan.tasks import augment, mean_tokens, plan_tasks, share_cut, with_encoder
from bench.plan.training_texts import training_texts
from bench.record.cell import (
    CHECKPOINT,
    IN_8_BITS,
    PLUS_INT8,
    PREDICTIONS,
    TEACHER,
    Cell,
    NumericIdentity,
)
from bench.record.code import STALE, made_by, state_of, state_of_record
from bench.record.keys import digest
from bench.record.rescored import metrics_of
from bench.record.store import Store
from bench.record.task_facts import shown_tasks
from bench.stats.own_metrics import load_metrics

if TYPE_CHECKING:
    from bench.data.predictions import Predictions
    from bench.data.tasks import Task
    from bench.record.schema import Record


OUTLINE = "{} is a configuration without weights and tokenizer here: no record can be looked for"


def build(request: Request) -> Plan:
    """Resolve everything that identity needs. Trains nothing; a hub teacher or data set is downloaded to its cache.

    Raises:
        InputError: anything wrong with what was asked for, before anything starts.
    """
    request = request.checked()
    own_metrics = load_metrics(request.metric)
    rows, given, in_8_bits, _, by_all = parse_rows(request.methods)
    wanted = expand(request.tasks, request.offline)
    request = without_auto(request, [*given, *_own_methods(rows)])
    numeric = numeric_of(request)
    tasks, absent = plan_tasks(request, wanted, numeric)
    own_texts, why_others = training_texts(request, tasks, DEFAULT_CORPUS_BUDGET)
    if own_texts is None:
        request = replace(request, corpus=request.texts or (SAMPLE,))
    notes = [
        *request.notes,
        *([f"not in {tasks[0].source.name}: {', '.join(absent)}"] if absent else []),
    ]
    if any(task.checkpoint.outline for task in tasks):
        notes.append(OUTLINE.format("the teacher"))
    notes += _data_notes(tasks)
    named = {name for task in tasks for name in task.task.metrics}
    notes += [
        f"the metric {metric.name}: no task names it among its metrics"
        for metric in own_metrics
        if metric.name not in named
    ]
    own_tasks: dict[str, list[TaskPlan]] = {}  # of rows with an encoder of their own

    def tasks_of(row: MethodRow) -> list[TaskPlan]:
        if not (name := row.method.own_encoder):
            return tasks
        if name not in own_tasks:
            own_tasks[name] = [with_encoder(task, name, request) for task in tasks]
        return own_tasks[name]

    rows, left_out = drop_unusable(rows, lambda row: check_row(row, tasks_of(row)))
    notes += left_out
    _check_backends(request, tasks, in_8_bits)

    def check_graph(row: MethodRow) -> None:
        from bench.plan.untrained import graph_problem

        if why := graph_problem(row, tasks_of(row)[0].checkpoint):
            raise InputError(
                f"{row.spelling}{PLUS_INT8}: ONNX has no graph of this student, because {why}"
            )

    graphed = [
        replace(row, from_all=row.spelling in by_all) for row in rows if row.spelling in in_8_bits
    ]
    with_graph, left_out = drop_unusable(graphed, check_graph, PLUS_INT8)
    in_8_bits -= {row.spelling for row in graphed} - {row.spelling for row in with_graph}
    notes += left_out
    store = Store(request.results)
    planner = ArtefactPlanner(request, numeric, own_texts)
    cells: list[Planned] = []

    def enter(
        cell: Cell,
        row: MethodRow | Checkpoint | Predictions | None,
        artefacts: tuple[ArtefactPlan, ...] = (),
        own_task: TaskPlan | None = None,
    ) -> None:
        record = store.find(cell)
        planned = Planned(cell, row, record, True, artefacts=artefacts, own_task=own_task)
        planned.in_8_bits = (planned.spelling or TEACHER) in in_8_bits
        ended = ("ok",) if request.retry_failed else ("ok", "failed")
        records = [record, store.find(cell, IN_8_BITS)] if planned.in_8_bits else [record]
        planned.code_state = (
            state_of_record(record) if record is not None and record.status == "ok" else ""
        )
        again = request.rerun or (request.rerun_stale and planned.code_state == STALE)
        # metrics are not in the key: stored answers are scored again, or the row is trained again
        task = next((task.task for task in tasks if task.name == cell.tasks[0]), None)
        if not again and task is not None and _needs_other_scores(record, task):
            planned.rescored_by = _metrics_from_answers(record, task, store)
            again = not planned.rescored_by
        planned.is_todo = again or not all(
            each is not None and each.status in ended for each in records
        )
        planned.has_full_record = not again and record is not None and record.status == "ok"
        cells.append(planned)

    for number, task in enumerate(tasks):
        augment(task, planner)
        if not task.task.writes:  # what teaches to write is an artefact of its row
            origin = {"origin": task.teacher.origin}
            recipe = task.teacher_recipe.as_dict()
            enter(
                task.cell(
                    label=TEACHER,
                    method=TEACHER,
                    version=TEACHER_VERSION,
                    settings=origin,
                    recipe=recipe,
                ),
                None,
            )
        elif given:
            raise InputError(
                f"{given[0]} on {task.shown}: finished models are classifiers; this task has texts to write"
            )
        for spelling in given:
            if spelling.startswith(f"{CHECKPOINT}:"):
                cell, checkpoint = _checkpoint_cell(spelling, given, task, request)
                notes += _nameless(task, checkpoint)
                enter(cell, checkpoint)
            else:
                for cell, predictions in _prediction_cells(spelling, given, task):
                    enter(cell, predictions)
        for row in rows:
            if not row.method.multitask:
                read = tasks_of(row)[number]
                for cell, asked in student_cells(row, [read], request, planner):
                    enter(cell, row, asked, read if read is not task else None)
    for row in rows:
        if row.method.multitask:
            for cell, asked in student_cells(row, tasks, request, planner):
                enter(cell, row, asked)
    for task in tasks:
        if rows or task.teacher.origin == "fine-tuned":
            _check_labels(task)
    notes += _checkpoint_notes(tasks, own_tasks, cells)
    notes += _text_notes(planner, why_others)
    notes += _random_starts(planner.entries)
    outlined = [name for name, read in own_tasks.items() if read[0].checkpoint.outline]
    notes += [OUTLINE.format(name) for name in (*outlined, *sorted(planner.outlined))]
    plan = Plan(request, tasks, planner.entries, cells, notes)
    if request.teacher_outputs:
        plan_outputs(plan)
    plan.notes += [
        f"{planned.cell.label} on {shown_tasks(planned.cell)}, seed {planned.cell.seed}, is trained again, because its record "
        f"was set aside: {why}"
        for planned in plan.todo
        if planned.record is None and (why := store.set_aside_reason(planned.cell))
    ]
    plan.notes += _rescoring_notes(cells)
    plan.notes += CHANGED.values()
    CHANGED.clear()  # of a later run in this process it is said anew
    plan.steps = steps_of(plan)
    slots = [step.slot for step in plan.steps.values() if step.slot is not None]
    plan.stale = [
        slot for slot in slots if slot.is_made and state_of(slot.read_made().get("code")) == STALE
    ]
    kept = [
        planned.record for planned in cells if planned.record is not None and not planned.is_todo
    ]
    plan.other_code = _other_code(plan.stale, kept)
    choose_jobs(plan)
    plan.notes += too_large_for_card(plan)
    if plan.todo_steps:
        _refuse_cache_that_cannot_be_written()
    return plan


def _other_code(in_cache: Sequence[Slot], kept: Sequence[Record]) -> str:
    """What of the cache and of the records was not made by today's code; "" for nothing."""
    titles = ", ".join(slot.title for slot in in_cache)
    cached = f"{titles}, in the cache: made by other code than this" if in_cache else ""
    return "; ".join(filter(None, (cached, made_by(kept))))


def _needs_other_scores(record: Record | None, task: Task) -> TypeGuard[Record]:
    """Whether a record lacks a metric of its task, or of a user's own task has another order."""
    if record is None or record.status != "ok" or not record.scores:
        return False
    there = metrics_of(record)
    return there != task.metrics if task.files else not set(task.metrics) <= set(there)


def _metrics_from_answers(record: Record, task: Task, store: Store) -> tuple[str, ...]:
    """The metrics that a record gets without training; none where they need answers that are gone.

    A known task's record keeps those that it has besides.
    """
    there = metrics_of(record)
    if not (set(task.metrics) <= set(there) or store.has_predictions(record)):
        return ()
    return task.metrics if task.files else tuple(dict.fromkeys((*task.metrics, *there)))


def _rescoring_notes(cells: Sequence[Planned]) -> list[str]:
    """A line for each task whose stored answers are scored by other metrics."""
    from bench.stats.metrics import label_of

    counts = Counter(
        (shown_tasks(planned.cell), planned.rescored_by) for planned in cells if planned.rescored_by
    )
    return [
        f"{name}: {count} record{'s' * (count > 1)} scored again from stored answers, by "
        f"{', '.join(map(label_of, metrics))}; nothing is trained for it"
        for (name, metrics), count in counts.items()
    ]


def _check_backends(
    request: Request, tasks: Sequence[TaskPlan], in_8_bits: Collection[str]
) -> None:
    """Whether the fast kernels work here, models can be quantised, and their answers on these tasks be scored.

    Raises:
        InputError: this machine or this torch has no such kernels, ONNX Runtime is not installed, or a task asks for texts.
    """
    if request.kernels == FAST:
        from methods.core.fast_kernels import problem_here

        on_cpu = tasks[0].numeric.device == "cpu"
        if problem := problem_here() if on_cpu else "they are for the CPU; add --device cpu":
            raise InputError(f"--kernels fast: {problem}")
    if in_8_bits:
        from bench.measure.backends import INT8, check_backends

        check_backends([INT8])
    for task in tasks if in_8_bits else ():
        if task.task.writes:
            raise InputError(f"+int8 on {task.shown}: models that write texts are not quantised")


def _text_notes(planner: ArtefactPlanner, why_others: str) -> list[str]:
    """A line that says what the pre-training reads of a user's own tasks, where something does."""
    if all(entry.text is None for entry in planner.entries):
        return []
    if planner.training_texts is not None:
        return [planner.training_texts.line(planner.budget)]
    return [why_others] if why_others else []


def _random_starts(entries: Sequence[ArtefactPlan]) -> list[str]:
    """A note where students begin with a pre-training that has to learn everything from its text."""
    from methods.core.artefacts import TruncatedShape, why_random

    of_shape = [entry for entry in entries if isinstance(entry.artefact, TruncatedShape)]
    return [
        f"the pre-training on text begins with random weights, because {why}; it needs more text than one that begins as its teacher truncated"
        for why in dict.fromkeys(why_random(entry.checkpoint.config) for entry in of_shape)
        if why
    ]


def _check_labels(task: TaskPlan) -> None:
    """Raises InputError where all training examples have one label."""
    labels = task.train.labels
    if labels is None or task.task.spans or len(set(labels.tolist())) > 1:
        return
    # standardised labels are around 0, wherever they were
    value = labels[0] if task.scale is None else task.scale.mean
    label = task.task.labels[int(value)] if task.task.labels else f"{value:g}"
    files = [Path(file) for split, file in task.task.files if split == "train"]
    where = f" in {named(files)}" if files else ""
    raise InputError(
        f"{task.shown}: all {len(labels):,} training examples{where} have the label {label}, so there is nothing to learn; add examples "
        "with other labels" + (", or raise --max-train-rows" if task.data.max_train_rows else "")
    )


MANY_CUT = 0.1
"""A share of texts that are cut, of which a plan speaks."""


def _data_notes(tasks: Sequence[TaskPlan]) -> list[str]:
    """Which files were read, and what a reader should know of them before he trains.

    Examples that are scored and were seen, by students in training or by the embedded teacher
    before it; texts that are cut; teachers that come tuned with labels without names.
    """
    read = [line for task in tasks for line in _reading_notes(task)]
    shared = [
        f"{task.shown}: {shared:,} of {len(split):,} examples of {name} are also in train"
        for task in tasks
        for name, split in task.evaluation.items()
        if (shared := split.shared_with(task.train))
    ]
    cut = [
        f"{task.shown}: {100 * share:.0f} % of its texts are longer than {most} tokens and are cut (max_length)"
        for task in tasks
        if not (task.task.spans or task.task.writes or task.checkpoint.outline)
        and (share := share_cut(task.checkpoint, task.train, most := task.recipe.max_length))
        >= MANY_CUT
    ]
    scaled = [
        f"{task.shown}: trained on standardised labels ({task.scale}); "
        "answers are in the labels' units"
        for task in tasks
        if task.scale is not None
    ]
    # the embedded teacher saw texts of these two tasks
    real = [
        t for t in tasks if t.task.name in ("mnli", "qqp") and not t.source.slug.startswith(SAMPLE)
    ]
    nameless = [
        note
        for task in tasks
        if task.checkpoint.finetuned
        for note in _nameless(task, task.checkpoint)
    ]
    return [
        *read,
        *shared,
        *cut,
        *scaled,
        *nameless,
        *sorted({t.checkpoint.note for t in real if t.checkpoint.note}),
    ]


def _reading_notes(task: TaskPlan) -> list[str]:
    """Which files a user's own task was read from, and what was inferred about them."""
    if not task.task.files:
        return []
    splits = [task.train, *task.evaluation.values()]
    said = dict.fromkeys(line for split in splits for line in split.said)
    return [files_line(task.task, task.data.rows), *said]


def _refuse_cache_that_cannot_be_written() -> None:
    """Raises InputError where what the steps of a plan make could not be kept."""
    folder = cache_root()
    if why := why_not_writable(folder):
        raise InputError(f"the cache cannot be written to {folder}: {why}; {ANOTHER_CACHE}")


def _checkpoint_notes(
    tasks: Sequence[TaskPlan],
    own_tasks: Mapping[str, Sequence[TaskPlan]],
    cells: Sequence[Planned],
) -> list[str]:
    """Notes on what is odd about the checkpoints of a plan, each of them once."""
    read: dict[Path, Checkpoint] = {}
    for group in (tasks, *own_tasks.values()):
        read |= {task.checkpoint.folder: task.checkpoint for task in group}
    for cell in cells:
        if isinstance(cell.row, Checkpoint):
            read[cell.row.folder] = cell.row
    notes: list[str] = []
    for checkpoint in read.values():
        notes += odd_notes(checkpoint)
    return notes


def _nameless(task: TaskPlan, checkpoint: Checkpoint) -> list[str]:
    """A note where the labels of a classifier have no names that could be compared with the task's."""
    if not task.task.labels or task.task.spans or names_labels(checkpoint.config):
        return []
    order = ", ".join(task.task.labels)
    return [
        f"{task.shown}: the labels of {checkpoint.asked} have no names; they are taken in the task's order: {order}"
    ]


def numeric_of(request: Request) -> NumericIdentity:
    """What of a request changes the arithmetic.

    Raises:
        InputError: there is no such device here.
    """
    if request.is_elsewhere and request.device != AUTO:  # it need not be on this machine
        device = request.device
    else:
        from bench.measure.devices import device_of

        device = device_of(request.device, request.deterministic).type
    if request.precision == TF32 and device != "cuda":
        raise InputError(
            f"--precision {TF32}: only CUDA has it, and the device is {device}; choose fp32 or bf16"
        )
    deterministic = request.deterministic and device != "cpu"
    return NumericIdentity(
        precision=request.precision,
        threads=request.threads,
        device=device,
        deterministic=deterministic,
    )


def without_auto(request: Request, own: Sequence[str] = ()) -> Request:
    """The request with the real data and teacher in the place of ``auto`` where there is an accelerator, and they were downloaded before
    or the hub answers; else with the offline pair, and a note that says why.

    Args:
        own: what the user brings besides the teacher, as it was typed: finished models,
            predictions, methods.

    Raises:
        InputError: under CI (the variable CI is set), where one types what one means. Also without
            real data where the user brings something: generated data would make it another
            experiment.
    """
    if AUTO not in (request.data, request.teacher):
        return request
    import torch

    accelerator = request.device != "cpu" and torch.accelerator.is_available()
    is_real = accelerator and (_is_cached(request) or (not request.offline and _hub_answers()))
    # where every task is a file, the data decide alone what is read where its texts are too short
    if request.data == AUTO and all(map(is_own, typed_tasks(request.tasks))):
        request = replace(request, data=HUB if is_real else SAMPLE)
    real, chosen = {"data": HUB, "teacher": HUB_TEACHER}, {"data": SAMPLE, "teacher": EMBEDDED}
    asked = [name for name in real if getattr(request, name) == AUTO]
    if not asked:
        return request
    if os.environ.get("CI"):
        raise InputError(
            "under CI --data and --teacher are typed, not chosen: add --data sample --teacher embedded"
        )
    if is_real:
        return replace(request, **{name: real[name] for name in asked})  # type: ignore[arg-type]
    why = "the hub does not answer, and the real thing was not downloaded before"
    if request.device == "cpu":
        why = "--device cpu was typed"
    elif not accelerator:
        why = "there is no accelerator"
    elif request.offline:
        why = "--offline was typed"
    if request.data == AUTO:
        _refuse_generated_data(request, own, why)
    note = f"{why}, so auto chose {' and '.join(f'{name} {chosen[name]}' for name in asked)}. For the real thing type "
    note += " ".join(f"--{name} {real[name]}" for name in asked)
    return replace(request, **{name: chosen[name] for name in asked}, notes=(*request.notes, note))  # type: ignore[arg-type]


def _own_methods(rows: Sequence[MethodRow]) -> list[str]:
    """The spellings of rows whose methods do not come with this program."""
    return [row.spelling for row in rows if type(row.method).__module__.split(".")[0] != "methods"]


def _refuse_generated_data(request: Request, own: Sequence[str], why: str) -> None:
    """Whether ``auto`` may choose generated data.

    Args:
        own: what the user brings besides the teacher.
        why: ``auto`` does not choose the real ones.

    Raises:
        InputError: the user brings something of his own.
    """
    brought = list(own)
    if Path(request.teacher).expanduser().is_dir():
        brought.append(f"--teacher {request.teacher}")
    if brought:
        raise InputError(
            f"{brought[0]}: {why}, so --data auto would mean generated sentences; add --data hub "
            "(GLUE) or --data sample (the generated ones)"
        )


def _is_cached(request: Request) -> bool:
    """Whether what ``auto`` stands for was downloaded before: a compute node without a network has the real thing too."""
    from bench.data.checkpoints import find
    from bench.data.sources import source_for

    try:
        if request.teacher == AUTO:
            find(HUB_TEACHER, None, offline=True)
        if request.data == AUTO:
            return all(
                source_for(task, HUB, offline=True).has(task, "train")
                for task, _ in expand(request.tasks)
            )
    except InputError:
        return False
    return True


def _hub_answers() -> bool:
    """One small question to the hub, three seconds at most, by its own client: it knows proxies and certificates."""
    from huggingface_hub import constants, get_session

    if constants.HF_HUB_OFFLINE:
        return False
    try:
        return bool(get_session().head(constants.ENDPOINT, timeout=3.0).status_code < 500)
    except Exception:  # of its network library, whichever it is
        return False


def _called(spelling: str, name: str, given: Sequence[str]) -> str:
    """The label of a finished row: the last part of its path, with those above it where another one has the same name."""
    kind = spelling.partition(":")[0]
    own, *others = (
        Path(each.partition(":")[2]).expanduser().resolve().parts
        for each in (spelling, *given)
        if each.startswith(f"{kind}:")
    )
    alike = [parts for parts in others if parts != own and parts[-1:] == own[-1:] == (name,)]
    count = next(
        number
        for number in range(1, len(own) + 1)
        if all(parts[-number:] != own[-number:] for parts in alike)
    )
    return f"{kind}:{'/'.join(own[-count:]) if alike else name}"


def _prediction_cells(
    spelling: str, given: Sequence[str], task: TaskPlan
) -> list[tuple[Cell, Predictions]]:
    """The cells of somebody else's answers, one for each seed: identified by what was answered, and by their name."""
    from bench.data.predictions import read_predictions

    folder = Path(spelling.partition(":")[2]).expanduser()
    cells = []
    for answers in read_predictions(folder, task.task, task.evaluation, spelling):
        label = _called(spelling, folder.resolve().name, given)
        cell = task.cell(
            label=label,
            method=PREDICTIONS,
            version=1,
            # with its name: nothing is saved by finding the same answers under another one
            settings={"answers": answers.sha256, "seeded": answers.seed is not None, "name": label},
            recipe=task.recipe.as_dict(),
            seed=answers.seed or 0,
        )
        cells.append((cell, answers))
    return cells


def _checkpoint_cell(
    spelling: str, given: Sequence[str], task: TaskPlan, request: Request
) -> tuple[Cell, Checkpoint]:
    """The cell of a finished classifier: identified by weights and configuration, read with its own tokenizer."""
    from bench.data.checkpoints import OURS, find

    checkpoint = find(
        spelling.partition(":")[2], task.task, request.offline, ours=True, asked=spelling
    )
    if not checkpoint.finetuned:
        raise InputError(
            f"{spelling}: no classification head in it, so it has no answers to {task.shown}; "
            f"a finished checkpoint is a ...ForSequenceClassification that was tuned on the task"
        )
    # its tokenizer has to read the task's text
    mean_tokens(checkpoint, task.task, task.train, task.recipe.max_length)
    told = checkpoint.config.to_dict()
    telling = {
        name: told[name]
        for name in told
        if name not in (OURS, "transformers_version", "_name_or_path")
    }
    cell = task.cell(
        label=_called(spelling, checkpoint.name, given),
        method=CHECKPOINT,
        # 1 took other configurations of the same weights (speeds of an early exit) for one
        version=2,
        settings={"weights": checkpoint.sha256, "config": digest(telling)},
        tokenizer=hash_of_tokenizer(checkpoint),
        recipe=task.recipe.as_dict(),
    )
    return cell, checkpoint
