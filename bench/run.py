"""Carry out a plan: teachers and general starts once, students in groups, one record a cell.

What fails becomes a failed record and the rest goes on; what is interrupted is taken up by the next run.
"""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

import methods
from bench.data.checkpoints import Checkpoint, given_start, tokenizer_of
from bench.data.encode import Encoded, encode
from bench.errors import CELLS_FAILED, OK, InputError
from bench.measure.busy import training_here
from bench.measure.machine import environment, revision, source_hash
from bench.measure.parameters import weights_hash
from bench.measure.profile import sizes
from bench.plan.build import Plan, Planned, TaskPlan, build, setup_of
from bench.plan.cell import Cell, record_key, train_key
from bench.plan.recipe import Recipe
from bench.plan.request import SAMPLE, Request
from bench.pretrain import Starts
from bench.progress import Progress, duration
from bench.record.schema import Failure, Record, TrainCost
from bench.record.store import Store
from bench.stats.guards import suspicions
from bench.train.artefacts import (
    base_model,
    cache_root,
    ensemble_targets,
    finetuned_teacher,
    from_training,
    given_tensors,
    own_weights,
)
from bench.train.augmentation import augmented_rows
from bench.train.choice import BestEpoch, Exam
from bench.train.evaluate import predict, score
from bench.train.loop import Course, Numerics, RandomState, Trainee, TrainLog, legs_of, train_on
from methods.api import (
    CutTeacher,
    EnsembleTargets,
    FromText,
    FromTraining,
    GeneralStart,
    GivenStart,
    TeacherWeights,
    Wish,
    artefact_name,
)
from methods.families import Cost, cost

TOGETHER = 8
"""Students that train at once on one teacher pass: more would need more memory and share little more."""
NOT_OURS = "a finished checkpoint, scored here; how it was trained is not known to this report"
ASK_ABOVE_SECONDS, ASK_ABOVE_BYTES = 30 * 60, 5 * 10**9
SAMPLE_PATIENCE = 4
"""How many times as long a plan of the sample suite may be: it is minutes of work, and longer only where a machine is slow
or busy; the first command that somebody types should not stop there."""


@dataclass
class Outcome:
    """What a run did. ``exit_code`` is 0, or 6 if some cells failed."""

    plan: Plan
    trained: int = 0
    failed: list[str] = field(default_factory=list)
    reports: list[Path] = field(default_factory=list)

    @property
    def exit_code(self) -> int:
        return CELLS_FAILED if self.failed else OK


@dataclass
class Bench:
    """The encoded data and the teacher of one task, made when first needed."""

    task: TaskPlan
    numerics: Numerics
    progress: Progress
    head: Callable[[], dict[str, Tensor]] = dict
    """the un-tuned teacher's masked-language head, for augmentation"""

    @cached_property
    def tokenizer(self) -> Any:
        return tokenizer_of(self.task.checkpoint)

    @cached_property
    def given(self) -> Encoded:
        """The training rows as they come: what teachers are tuned on."""
        return encode(self.tokenizer, self.task.train, self.task.recipe.max_length)

    @cached_property
    def train(self) -> Encoded:
        """What students are trained on."""
        return self.given if self.task.augmentation is None else self.augmentation[0]

    @cached_property
    def augmentation(self) -> tuple[Encoded, dict[str, Any]]:
        """The training rows and their variants, encoded, and what the record says of them."""
        plan = self.task
        assert plan.augmentation is not None
        with self.progress.task(f"{plan.task.name}: augmentation by {plan.augmentation.kind}") as update:
            rows, origins, body = augmented_rows(
                plan.train, plan.augmentation, plan.data.train, plan.checkpoint, self.head, self.numerics, update
            )
        encoded = encode(self.tokenizer, rows, plan.recipe.max_length)
        if plan.augmentation.kind == "rules" and encoded.labels is not None:
            # a variant may mean something else than its origin: the tuned teacher says what
            new = np.flatnonzero(np.diff(origins, prepend=-1) == 0)
            answers = torch.from_numpy(predict(self.teacher[0], encoded, self.numerics))
            labels = answers[:, 0] if plan.task.regression else answers.argmax(1)
            encoded.labels[new] = labels[new].to(encoded.labels.dtype)
        return encoded, {name: body[name] for name in ("key", "weights", "rows")}

    @cached_property
    def evaluation(self) -> dict[str, Encoded]:
        return {
            name: encode(self.tokenizer, split, self.task.recipe.max_length)
            for name, split in self.task.evaluation.items()
        }

    @cached_property
    def exam(self) -> Exam | None:
        """The rows that choose which epoch of a student is shipped."""
        split = self.task.choosing
        if split is None or split.labels is None:
            return None
        encoded = encode(self.tokenizer, split, self.task.recipe.max_length)
        return Exam(self.task.task.name, encoded, split.labels, self.task.task.metrics[0])

    @cached_property
    def teacher(self) -> tuple[nn.Module, dict[str, Any]]:
        return self._tuned(0)

    def _tuned(self, seed: int) -> tuple[nn.Module, dict[str, Any]]:
        plan = self.task
        if plan.teacher.origin == "given":
            return base_model(plan.checkpoint, plan.task.num_labels), {
                "key": plan.teacher.key,
                "weights": plan.checkpoint.sha256,
            }
        another = f", seed {seed}" if seed else ""
        with self.progress.task(f"{plan.task.name}: teacher {plan.teacher.name}{another}") as update:
            return finetuned_teacher(
                plan.checkpoint,
                plan.task,
                plan.teacher_key(seed),
                lambda: self.given,
                plan.teacher_recipe,
                seed,
                self.numerics,
                update,
            )

    def weights(self, tuned: bool) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """The teacher's own weights, for students made of them."""
        if tuned:
            model, made = self.teacher
            return dict(model.state_dict()), {"key": made["key"], "weights": made["weights"]}
        sha256 = self.task.checkpoint.sha256
        return own_weights(self.task.checkpoint), {"key": sha256, "weights": sha256}

    def ensemble(self, members: int, key: str) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """The mean answer of so many teachers to the training examples, from the cache or made now."""
        return ensemble_targets(
            key, lambda: (self._tuned(seed)[0] for seed in range(members)), self.train, self.numerics
        )

    def computed(self, wish: FromTraining, key: str) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """What a method wants computed from the tuned teacher and the training examples, from the cache or made now."""
        data = self.train
        if getattr(wish, "rows", "train") == "validation":
            data = next(encoded for encoded in self.evaluation.values() if encoded.labels is not None)
        with self.progress.task(f"{self.task.task.name}: {wish.name.replace('_', ' ')}") as update:
            return from_training(wish, key, self.teacher[0], data, self.task.recipe.batch_size, self.numerics, update)


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def quiet() -> None:
    """Silence the progress bars and load reports of transformers: ours is the only progress."""
    from transformers.utils import logging

    logging.set_verbosity_error()
    logging.disable_progress_bar()


def device_of(name: str) -> torch.device:
    """``auto``: whatever accelerate finds; else a device by name.

    Raises:
        InputError: torch does not have that device here.
    """
    if name == "auto":
        from accelerate import PartialState

        return torch.device(PartialState().device)
    try:
        device = torch.device(name)
        torch.zeros(1, device=device)
    except (RuntimeError, AssertionError) as error:
        raise InputError(f"--device {name}: {str(error).splitlines()[0]}; try --device cpu") from None
    return device


def run(request: Request, progress: Progress | None = None, confirm: Any = None) -> Outcome:
    """Do what is missing, then write the report.

    Args:
        confirm: asked with a question when the plan is long; without it, and without ``yes``, that is an error.

    Raises:
        InputError: bad input, or a long plan that nobody agreed to; nothing was started.
    """
    progress = progress or Progress()
    quiet()
    plan = build(request)
    request = plan.request
    from bench.plan.show import describe

    progress.say(describe(plan))
    outcome = Outcome(plan)
    if plan.todo:
        _agree(plan, confirm)
        _check_disk(plan)
        torch.set_num_threads(request.threads)
        numerics = Numerics(device_of(request.device), request.precision)
        with training_here(cache_root()):
            _carry_out(plan, numerics, progress, outcome)
    else:
        progress.say("nothing to do: every cell has its record")
    from bench.report.write import write_reports

    outcome.reports = write_reports(Store(request.results), request.reports, cells=[p.cell for p in plan.cells])
    for path in outcome.reports:
        progress.say(f"report: {path}")
    return outcome


def _agree(plan: Plan, confirm: Any) -> None:
    patience = SAMPLE_PATIENCE if plan.request.data == SAMPLE else 1
    if plan.request.yes or (plan.seconds <= patience * ASK_ABOVE_SECONDS and plan.disk_bytes <= ASK_ABOVE_BYTES):
        return
    what = f"about {duration(plan.seconds)} and {plan.disk_bytes / 1e9:.1f} GB of disk"
    if confirm is None:
        raise InputError(
            f"this plan needs {what}; add --yes to start it, or fewer --tasks, --methods or --max-train-rows"
        )
    if not confirm(f"This plan needs {what}. Start?"):
        raise InputError("not started")


def _check_disk(plan: Plan) -> None:
    import shutil

    for what, folder in (("results", plan.request.results), ("the cache", cache_root())):
        try:
            folder.mkdir(parents=True, exist_ok=True)
            free = shutil.disk_usage(folder).free
        except OSError as error:
            raise InputError(f"{what} cannot be written to {folder}: {error.strerror}; choose another folder") from None
        if free < plan.disk_bytes + 10**8:
            raise InputError(
                f"{what} in {folder} has {free / 1e9:.1f} GB free, this plan needs about {plan.disk_bytes / 1e9:.1f} GB; "
                f"free some, or set --results and BERT_BENCH_CACHE to another disk"
            )


def _carry_out(plan: Plan, numerics: Numerics, progress: Progress, outcome: Outcome) -> None:
    store = Store(plan.request.results)
    starts = Starts(plan.starts, numerics, progress, plan.request.offline)
    for number, task in enumerate(plan.tasks, start=1):
        todo = [planned for planned in plan.of_task(task.task.name) if planned.todo and not planned.cell.together]
        if not todo:
            continue
        progress.say(f"{task.task.name} ({number} of {len(plan.tasks)} tasks), {len(todo)} cells")
        bench = Bench(task, numerics, progress, starts.masked_head)
        for planned in todo:
            if planned.checkpoint is not None:
                _checkpoint_record(planned.cell, planned.checkpoint, bench, store, outcome)
            elif planned.row is None:
                _teacher_record(planned.cell, bench, store, outcome)
        students = [planned for planned in todo if planned.row is not None and not planned.cell.together]
        for seed in dict.fromkeys(planned.cell.seed for planned in students):
            of_seed = [[planned] for planned in students if planned.cell.seed == seed]
            for start in range(0, len(of_seed), TOGETHER):
                _group(of_seed[start : start + TOGETHER], seed, [bench], starts, store, progress, outcome)
    for training in plan.together():
        benches = [Bench(task, numerics, progress, starts.masked_head) for task in plan.tasks]
        _group([training], training[0].cell.seed, benches, starts, store, progress, outcome)


def _teacher_record(cell: Cell, bench: Bench, store: Store, outcome: Outcome) -> None:
    started = now()
    try:
        model, made = bench.teacher
        log = TrainLog(**made["train"]) if "train" in made else None
        record, arrays = _scored(cell, model, bench, started, log, None)
        record = record.model_copy(
            update={
                "terms": log.terms if log else {},
                "gradient_norms": log.gradient_norms if log else {},
                "artefacts": {"teacher": {"key": made["key"], "weights": made["weights"]}},
            }
        )
        store.write(record, arrays)
        outcome.trained += 1
    except Exception as error:
        store.write(_failed(cell, started, error))
        outcome.failed.append(f"{cell.tasks[0]} {cell.label}: {error}")


def _checkpoint_record(cell: Cell, checkpoint: Checkpoint, bench: Bench, store: Store, outcome: Outcome) -> None:
    """Score a finished classifier, read with its own tokenizer."""
    started = now()
    try:
        own = Bench(replace(bench.task, checkpoint=checkpoint), bench.numerics, bench.progress)
        model = base_model(checkpoint, bench.task.task.num_labels)
        record, arrays = _scored(cell, model, own, started, None, None)
        store.write(record.model_copy(update={"notes": (NOT_OURS,)}), arrays)
        outcome.trained += 1
    except Exception as error:
        _note_failure(cell, started, error, store, outcome)


def _group(
    group: Sequence[Sequence[Planned]],
    seed: int,
    benches: Sequence[Bench],
    starts: Starts,
    store: Store,
    progress: Progress,
    outcome: Outcome,
) -> None:
    """Train some students of the same tasks and seed together; write a record for each student and task.

    Args:
        group: the cells of each student, one for each of ``benches``.
    """
    started = now()
    trainees: list[tuple[Sequence[Planned], Trainee]] = []
    choices: dict[str, BestEpoch] = {}
    made: dict[str, dict[str, dict[str, Any]]] = {}
    numerics, recipe = benches[0].numerics, benches[0].task.recipe
    try:
        needs_teacher = any(cells[0].row.method.needs_teacher for cells in group)  # type: ignore[union-attr]
        courses = [
            Course(bench.train, bench.teacher[0].to(numerics.device).eval() if needs_teacher else None)
            for bench in benches
        ]
        for cells in group:
            try:
                trainee, made[cells[0].cell.label] = _trainee(cells, benches, starts)
                trainees.append((cells, trainee))
                if cells[0].cell.selection is not None:
                    exams = [bench.exam for bench in benches if bench.exam is not None]
                    choices[trainee.label] = BestEpoch(cells[0].row.method.deploy, exams, numerics)  # type: ignore[union-attr]
                    trainee.at_epoch_end = choices[trainee.label].look
            except Exception as error:
                _note_failures(cells, started, error, store, outcome)
        names = "+".join(bench.task.task.name for bench in benches)
        with progress.task(f"{names}: {', '.join(t.label for _, t in trainees)}, seed {seed}") as update:
            train_on(courses, [t for _, t in trainees], seed, numerics, recipe.batch_size, update)
    except KeyboardInterrupt:
        for planned in (planned for cells in group for planned in cells):
            if planned.record is None or planned.record.status != "ok":  # a broken-off rerun leaves what was there
                store.write(_empty(planned.cell, "interrupted", started))
        raise
    except Exception as error:  # a teacher could not be made: no cell of this group can be
        for cells in group:
            _note_failures(cells, started, error, store, outcome)
        return
    for cells, trainee in trainees:
        try:
            if trainee.error is not None:
                raise trainee.error
            choice = choices.get(trainee.label)
            _student_records(cells, trainee, benches, made[cells[0].cell.label], started, store, choice)
            outcome.trained += len(cells)
        except Exception as error:
            _note_failures(cells, started, error, store, outcome)


def _trainee(
    cells: Sequence[Planned], benches: Sequence[Bench], starts: Starts
) -> tuple[Trainee, dict[str, dict[str, Any]]]:
    row, cell = cells[0].row, cells[0].cell
    assert row is not None
    method, several = row.method, bool(cell.together)
    tensors, made = {}, {}
    for bench in benches:
        for wish in method.prepare(bench.task.checkpoint.config):
            name = artefact_name(wish, bench.task.task.name, several)
            if name not in tensors:
                tensors[name], made[name] = _prepared(wish, cell.artefacts[name], bench, starts)
    setup = setup_of([bench.task for bench in benches], tensors)
    random = RandomState(cell.seed, benches[0].numerics.device)
    with random.current():
        student = method.build(setup)
    examples = [len(bench.train) for bench in benches]
    preparation, legs = legs_of(method.stages(setup), cell.dropped, Recipe(**cell.recipe), *examples)
    for bench in benches:
        if bench.task.augmentation:
            made[f"augmentation.{bench.task.task.name}"] = bench.augmentation[1]
    if method.needs_teacher:
        for bench in benches:
            name = f"teacher.{bench.task.task.name}" if several else "teacher"
            made[name] = {"key": bench.teacher[1]["key"], "weights": bench.teacher[1]["weights"]}
    return Trainee(row.spelling, student, random, preparation, legs, benches[0].numerics), made


def _prepared(wish: Wish, key: str, bench: Bench, starts: Starts) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """The tensors of one wish, and what the record says of them."""
    if isinstance(wish, GeneralStart | CutTeacher | FromText):
        tensors, body = starts.get(key)
        plan = starts.plans[key]
        said: dict[str, Any] = {k: body[k] for k in ("key", "weights", "beginning") if k in body}
        said["text"] = {"files": list(plan.corpus.files), "tokens": plan.budget}
        if "train" in body:
            said["train"] = {k: body["train"][k] for k in ("steps", "tokens", "seconds_own")}
        return tensors, said
    if isinstance(wish, GivenStart):
        found = given_start(wish.path, wish.shape, bench.task.checkpoint, starts.offline)
        return given_tensors(found), {"key": found.sha256, "weights": found.sha256, "beginning": f"given: {found.name}"}
    if isinstance(wish, TeacherWeights):
        return bench.weights(wish.tuned)
    if isinstance(wish, EnsembleTargets):
        return bench.ensemble(wish.members, key)
    return bench.computed(wish, key)


def _student_records(
    cells: Sequence[Planned],
    trainee: Trainee,
    benches: Sequence[Bench],
    made: dict[str, dict[str, Any]],
    started: str,
    store: Store,
    choice: BestEpoch | None,
) -> None:
    row = cells[0].row
    assert row is not None
    method = row.method
    if choice is not None:
        choice.restore(trainee.student)
    trainee.student.model.eval()
    with trainee.random.current():  # a new module draws random numbers, even if it is filled afterwards
        deployed = method.deploy(trainee.student)
    setup = setup_of([bench.task for bench in benches], {})
    notes = tuple(method.notes(setup)) if hasattr(method, "notes") else ()
    notes = (*notes, *(how.describe() for how in (cells[0].cell.search, cells[0].cell.selection) if how is not None))
    for planned, bench in zip(cells, benches, strict=True):
        teacher = bench.teacher[0] if method.needs_teacher else None
        points = deployed
        if planned.cell.together:
            points = {"": deployed[bench.task.task.name]}
            others = f"one student of {', '.join(setup.tasks)}: what its training cost is the cost of all of them"
            notes = (*(note for note in notes if note != others), others)
        for point, model in points.items():
            record, arrays = _scored(
                planned.cell, model, bench, started, trainee.log, teacher, point, trainee.student.model
            )
            record = record.model_copy(
                update={
                    "terms": trainee.log.terms,
                    "gradient_norms": trainee.log.gradient_norms,
                    "gradient_shares": trainee.log.gradient_shares,
                    "artefacts": made,
                    "notes": notes,
                    "usage": record.usage | ({} if choice is None else {"epochs": choice.as_dict()}),
                }
            )
            store.write(record, arrays)


def _scored(
    cell: Cell,
    model: nn.Module,
    bench: Bench,
    started: str,
    log: TrainLog | None,
    teacher: Any,
    point: str = "",
    trained: nn.Module | None = None,
) -> tuple[Record, dict[str, np.ndarray]]:
    """Predictions on every evaluation set, scores, sizes and cost of one deployed model; and the raw arrays."""
    task = bench.task
    arrays: dict[str, np.ndarray] = {}
    scores: dict[str, dict[str, float]] = {}
    predicted = []
    for name, encoded in bench.evaluation.items():
        logits = predict(model, encoded, bench.numerics)
        split = task.evaluation[name]
        arrays[f"logits.{name}"] = logits
        arrays[f"examples.{name}"] = split.example_hashes()
        if split.labels is None:
            predicted.append(name)
        else:
            arrays[f"labels.{name}"] = split.labels
            scores[name] = score(logits, split.labels, task.task.metrics)
    sized, usage = sizes(model), {}
    if hasattr(model, "observed"):
        usage = dict(model.observed())  # type: ignore[operator]
        if average := usage.pop("cost", None):
            sized = sized.model_copy(update={"expected_macs": round(Cost(**average).of_length(sized.sequence_length))})
    for name, logits in ((name, arrays[f"logits.{name}"]) for name in scores):
        for line in suspicions(logits, arrays[f"labels.{name}"], task.task.labels):
            bench.progress.say(f"suspect: {task.task.name} {name}, {cell.label}, seed {cell.seed}: {line}")
    record = Record(
        key=record_key(cell, point),
        train_key=train_key(cell),
        point=point,
        status="ok",
        cell=cell,
        scores=scores,
        predicted=tuple(predicted),
        sizes=sized,
        usage=usage,
        train=None if log is None else _cost(log, model if trained is None else trained, model, teacher),
        weights=weights_hash(model),
        code=_code(cell),
        env=environment(str(bench.numerics.device)),
        started=started,
        finished=now(),
    )
    return record, arrays


def _cost(log: TrainLog, trained: Any, shipped: nn.Module, teacher: nn.Module | None) -> TrainCost:
    """A model that costs more while it trains than when it is shipped says so by ``training_cost()``."""
    price = trained.training_cost() if hasattr(trained, "training_cost") else cost(shipped)
    own = 3 * 2 * price.macs(log.tokens, log.squared_lengths, log.examples)
    taught = 0.0
    if log.teacher_tokens and teacher is not None:
        examples = log.examples * log.teacher_tokens / log.tokens
        taught = 2 * cost(teacher).macs(log.teacher_tokens, log.teacher_squared_lengths, examples)
    return TrainCost(
        steps=log.steps,
        examples=log.examples,
        tokens=log.tokens,
        seconds_own=round(log.seconds_own, 3),
        teacher_seconds_shared=round(log.teacher_seconds_shared, 3),
        teacher_seconds_alone=round(log.teacher_seconds_alone, 3),
        flops_own=float(own),
        flops_teacher=float(taught),
    )


def _code(cell: Cell) -> dict[str, Any]:
    from bench import __version__

    found = {"version": __version__, **revision()}
    if cell.method in methods.names():
        found["method"] = source_hash(methods.get(cell.method))
    return found


def _empty(cell: Cell, status: Any, started: str) -> Record:
    return Record(
        key=record_key(cell),
        train_key=train_key(cell),
        status=status,
        cell=cell,
        code=_code(cell),
        started=started,
        finished=now(),
    )


def _failed(cell: Cell, started: str, error: Exception) -> Record:
    trace = "".join(traceback.format_exception(error))
    root = str(Path(__file__).resolve().parents[1])
    failure = Failure(
        type=type(error).__name__,
        message=str(error),
        traceback=trace.replace(root + "/", "").replace(sys.prefix, "<python>"),
    )
    return _empty(cell, "failed", started).model_copy(update={"error": failure})


def _note_failures(cells: Sequence[Planned], started: str, error: Exception, store: Store, outcome: Outcome) -> None:
    for planned in cells:
        _note_failure(planned.cell, started, error, store, outcome)


def _note_failure(cell: Cell, started: str, error: Exception, store: Store, outcome: Outcome) -> None:
    store.write(_failed(cell, started, error))
    outcome.failed.append(f"{cell.tasks[0]} {cell.label}: {error}")
