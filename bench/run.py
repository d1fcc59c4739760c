"""Carry out a plan: teachers and general starts once, students in groups, one record a cell.

What fails becomes a failed record and the rest goes on; what is interrupted is taken up by the next run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from torch import nn

from bench.data.checkpoints import Checkpoint, tokenizer_of
from bench.ending import Failure
from bench.errors import CELLS_FAILED, OK, InputError
from bench.measure.busy import training_here
from bench.measure.records import empty, failed, now, scored
from bench.plan.build import Plan, Planned, build
from bench.plan.cell import Cell, train_key
from bench.plan.recipe import Recipe
from bench.plan.request import SAMPLE, Request
from bench.plan.tasks import setup_of
from bench.progress import Progress, duration, quiet
from bench.record.code import student_code
from bench.record.schema import Record
from bench.record.store import Store
from bench.train.cache import cache_root, users_cache
from bench.train.choice import BestEpoch
from bench.train.halfway import Halfway
from bench.train.legs import legs_of
from bench.train.loop import Course, train_on
from bench.train.materials import Materials, known, prepared
from bench.train.numerics import Numerics, RandomState, device_of
from bench.train.ship import ship
from bench.train.starts import Starts
from bench.train.teachers import base_model
from bench.train.trainee import Trainee, TrainLog
from methods.api import artefact_name

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
    failures: list[Failure] = field(default_factory=list)
    reports: list[Path] = field(default_factory=list)
    shown: list[str] = field(default_factory=list)
    """for a terminal: the main table of each report, and what to type next"""

    @property
    def failed(self) -> list[str]:
        """One line for each cell."""
        return [f"{one.task} {one.row}: {one.why}" for one in self.failures]

    @property
    def exit_code(self) -> int:
        return CELLS_FAILED if self.failures else OK


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
    if request.save_students:
        _can_save(request.save_students, plan, progress)
    outcome = Outcome(plan)
    if plan.todo:
        agree(plan, confirm)
        _check_disk(plan)
        torch.set_num_threads(request.threads)
        numerics = Numerics(device_of(request.device), request.precision)
        with training_here(users_cache()):  # seen by others, wherever this training keeps its things
            _carry_out(plan, numerics, progress, outcome)
    else:
        progress.say("nothing to do: every cell has its record")
    _report(outcome, progress)
    return outcome


def _report(outcome: Outcome, progress: Progress) -> None:
    """Write the reports of the plan's tables, with their rows as they were typed."""
    from bench.ending import shown
    from bench.report.write import write_groups

    request, cells = outcome.plan.request, [planned.cell for planned in outcome.plan.cells]
    written = write_groups(
        Store(request.results), request.reports, cells, latex=request.latex, order=outcome.plan.labels
    )
    outcome.reports = [one.path for one in written]
    outcome.shown = [shown(one, cells, request.results) for one in written]
    for path in outcome.reports:
        progress.say(f"report: {path}")


def agree(plan: Plan, confirm: Any) -> None:
    """Ask whether a long plan should start.

    Raises:
        InputError: nobody is there to ask, or the answer is no.
    """
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


def _can_save(root: Path, plan: Plan, progress: Progress) -> None:
    try:
        root.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"--save-students {root}: {error.strerror}; choose another folder") from None
    gone = [p.cell for p in plan.cells if p.row and not p.todo and p.record and p.record.status == "ok"]
    if gone:
        names = ", ".join(dict.fromkeys(f"{cell.label} on {'+'.join(cell.tasks)}" for cell in gone))
        progress.say(f"not saved, because trained before: {names}; --rerun trains them again")


def _check_disk(plan: Plan) -> None:
    import shutil

    saved = [("--save-students", plan.request.save_students)] if plan.request.save_students else []
    reports = ("reports", plan.request.reports)
    for what, folder in (("results", plan.request.results), reports, ("the cache", cache_root()), *saved):
        try:
            folder.mkdir(parents=True, exist_ok=True)
            free = shutil.disk_usage(folder).free
        except OSError as error:
            raise InputError(f"{what} cannot be written to {folder}: {error.strerror}; choose another folder") from None
        if free < plan.disk_bytes + 10**8:
            raise InputError(
                f"{what} in {folder} has {free / 1e9:.1f} GB free, this plan needs about {plan.disk_bytes / 1e9:.1f} GB; "
                f"free some, or set --results, --reports and BERT_BENCH_CACHE to another disk"
            )


def _carry_out(plan: Plan, numerics: Numerics, progress: Progress, outcome: Outcome) -> None:
    store, again = Store(plan.request.results), plan.request.rerun
    if plan.request.rerun_stale:
        for slot in plan.stale:
            slot.forget()
    starts = Starts(plan.starts, numerics, progress, plan.request.offline)
    for number, task in enumerate(plan.tasks, start=1):
        todo = [planned for planned in plan.of_task(task.task.name) if planned.todo and not planned.cell.together]
        if not todo:
            continue
        progress.say(f"{task.task.name} ({number} of {len(plan.tasks)} tasks), {len(todo)} cells")
        of_task = Materials(task, numerics, progress, starts.masked_head)
        for planned in todo:
            if planned.checkpoint is not None:
                _checkpoint_record(planned.cell, planned.checkpoint, of_task, store, outcome)
            elif planned.row is None:
                _teacher_record(planned.cell, of_task, store, outcome)
        for group in plan.groups(task.task.name):
            cells, seed = [[planned] for planned in group], group[0].cell.seed
            _group(cells, seed, [of_task], starts, store, progress, outcome, again)
    for training in plan.together():
        materials = [Materials(task, numerics, progress, starts.masked_head) for task in plan.tasks]
        _group([training], training[0].cell.seed, materials, starts, store, progress, outcome, again)


def _teacher_record(cell: Cell, of_task: Materials, store: Store, outcome: Outcome) -> None:
    started = now()
    try:
        model, made = of_task.teacher
        log = TrainLog(**made["train"]) if "train" in made else None
        record, arrays = scored(cell, model, _read_as_tuned(of_task), started, log, None)
        record = record.model_copy(
            update={
                "terms": log.terms if log else {},
                "gradient_norms": log.gradient_norms if log else {},
                "artefacts": {"teacher": known(made)},
            }
        )
        store.write(record, arrays)
        outcome.trained += 1
    except Exception as error:
        _note_failure(cell, started, error, store, outcome)


def _read_as_tuned(of_task: Materials) -> Materials:
    """The task with sequences of the length that its teacher was tuned on, where students read others."""
    plan = of_task.task
    length = plan.teacher_recipe.max_length
    if length == plan.recipe.max_length:
        return of_task
    plan = replace(plan, recipe=replace(plan.recipe, max_length=length))
    return Materials(plan, of_task.numerics, of_task.progress, of_task.head)


def _checkpoint_record(cell: Cell, checkpoint: Checkpoint, of_task: Materials, store: Store, outcome: Outcome) -> None:
    """Score a finished classifier, read with its own tokenizer."""
    started = now()
    try:
        own = Materials(replace(of_task.task, checkpoint=checkpoint), of_task.numerics, of_task.progress)
        model = base_model(checkpoint, of_task.task.task.num_labels)
        record, arrays = scored(cell, model, own, started, None, None)
        store.write(record.model_copy(update={"notes": (NOT_OURS,)}), arrays)
        outcome.trained += 1
    except Exception as error:
        _note_failure(cell, started, error, store, outcome)


def _group(
    group: Sequence[Sequence[Planned]],
    seed: int,
    materials: Sequence[Materials],
    starts: Starts,
    store: Store,
    progress: Progress,
    outcome: Outcome,
    again: bool,
) -> None:
    """Train some students of the same tasks and seed together; write a record for each student and task.

    Args:
        group: the cells of each student, one for each of ``materials``.
        again: begin anew even where an earlier run broke off.
    """
    started = now()
    trainees: list[tuple[Sequence[Planned], Trainee]] = []
    made: dict[str, dict[str, dict[str, Any]]] = {}
    numerics, recipe = materials[0].numerics, materials[0].task.recipe
    try:
        needs_teacher = any(cells[0].row.method.needs_teacher for cells in group)  # type: ignore[union-attr]
        courses = [
            Course(of_task.train, of_task.teacher[0].to(numerics.device).eval() if needs_teacher else None)
            for of_task in materials
        ]
        for cells in group:
            try:
                trainee, made[cells[0].cell.label] = _trainee(cells, materials, starts)
                trainees.append((cells, trainee))
                if cells[0].cell.selection is not None:
                    exams = [of_task.exam for of_task in materials if of_task.exam is not None]
                    trainee.choice = BestEpoch(cells[0].row.method.deploy, exams, numerics)  # type: ignore[union-attr]
            except Exception as error:
                _note_failures(cells, started, error, store, outcome)
        halfway = _halfway(group, made, progress, again)
        names = "+".join(of_task.name for of_task in materials)
        with progress.task(f"{names}: {', '.join(t.label for _, t in trainees)}, seed {seed}") as update:
            train_on(courses, [t for _, t in trainees], seed, numerics, recipe.batch_size, update, halfway)
    except KeyboardInterrupt:
        for planned in (planned for cells in group for planned in cells):
            if planned.record is None or planned.record.status != "ok":  # a broken-off rerun leaves what was there
                store.write(empty(planned.cell, "interrupted", started))
        raise
    except Exception as error:  # a teacher could not be made: no cell of this group can be
        for cells in group:
            _note_failures(cells, started, error, store, outcome)
        return
    for cells, trainee in trainees:
        try:
            if trainee.error is not None:
                raise trainee.error
            _student_records(cells, trainee, materials, made[cells[0].cell.label], started, store, outcome)
            outcome.trained += len(cells)
        except Exception as error:
            _note_failures(cells, started, error, store, outcome)
    halfway.clear()


def _halfway(
    group: Sequence[Sequence[Planned]],
    made: Mapping[str, Mapping[str, Mapping[str, Any]]],
    progress: Progress,
    again: bool,
) -> Halfway:
    """Where the state of this group is kept.

    Args:
        made: row -> name -> what it is trained from. Made again with other weights under its key, it makes another training.
        again: what an earlier run left is not taken up.
    """
    weights = {row: {name: body.get("weights") for name, body in parts.items()} for row, parts in made.items()}
    cells = [planned.cell for of_student in group for planned in of_student]
    code = [student_code(cell.method, (), cell.selection is not None).hash for cell in cells]
    halfway = Halfway([[train_key(cell) for cell in cells], weights], progress.say, code=code)
    if again:
        halfway.clear()
    return halfway


def _trainee(
    cells: Sequence[Planned], materials: Sequence[Materials], starts: Starts
) -> tuple[Trainee, dict[str, dict[str, Any]]]:
    row, cell = cells[0].row, cells[0].cell
    assert row is not None
    method, several = row.method, bool(cell.together)
    tensors, made = {}, {}
    for of_task in materials:
        for wish in method.prepare(of_task.task.checkpoint.config):
            name = artefact_name(wish, of_task.name, several)
            if name not in tensors:
                tensors[name], made[name] = prepared(wish, cell.artefacts[name], of_task, starts)
    setup = setup_of([of_task.task for of_task in materials], tensors)
    random = RandomState(cell.seed, materials[0].numerics.device)
    with random.current():
        student = method.build(setup)
    examples = [len(of_task.train) for of_task in materials]
    preparation, legs = legs_of(method.stages(setup), cell.dropped, Recipe(**cell.recipe), *examples)
    for of_task in materials:
        if of_task.task.augmentation:
            text = {"text": starts.text_of()} if of_task.task.augmentation.kind == "masked" else {}
            made[f"augmentation.{of_task.name}"] = {**of_task.augmentation[1], **text}
    if method.needs_teacher:
        for of_task in materials:
            name = f"teacher.{of_task.name}" if several else "teacher"
            made[name] = known(of_task.teacher[1])
    return Trainee(row.spelling, student, random, preparation, legs, materials[0].numerics), made


def _student_records(
    cells: Sequence[Planned],
    trainee: Trainee,
    materials: Sequence[Materials],
    made: dict[str, dict[str, Any]],
    started: str,
    store: Store,
    outcome: Outcome,
) -> None:
    row, choice = cells[0].row, trainee.choice
    assert row is not None
    method = row.method
    if choice is not None:
        choice.restore(trainee.student)
    trainee.student.model.eval()
    with trainee.random.current():  # a new module draws random numbers, even if it is filled afterwards
        deployed = method.deploy(trainee.student)
    setup = setup_of([of_task.task for of_task in materials], {})
    notes = tuple(method.notes(setup)) if hasattr(method, "notes") else ()
    notes = (*notes, *(how.describe() for how in (cells[0].cell.search, cells[0].cell.selection) if how is not None))
    for planned, of_task in zip(cells, materials, strict=True):
        teacher = of_task.teacher[0] if method.needs_teacher else None
        points = deployed
        if planned.cell.together:
            points = {"": deployed[of_task.name]}
            others = f"one student of {', '.join(setup.tasks)}: what its training cost is the cost of all of them"
            notes = (*(note for note in notes if note != others), others)
        for point, model in points.items():
            record, arrays = scored(
                planned.cell, model, of_task, started, trainee.log, teacher, point, trainee.student.model
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
            if root := outcome.plan.request.save_students:
                _save(root, model, record, of_task, outcome)


def _save(root: Path, model: nn.Module, record: Record, of_task: Materials, outcome: Outcome) -> None:
    """Keep a student; its record stays even where the student cannot be kept."""
    try:
        folder = ship(root, model, tokenizer_of(of_task.task.checkpoint), record, of_task.task.task)
        of_task.progress.say(f"saved: {folder}")
    except Exception as error:  # a full disk, a model that cannot be saved: neither may cost what was trained
        why = f"trained and recorded, but not saved in {root}: {error}"
        outcome.failures.append(Failure(of_task.name, record.row, record.cell.seed, why))


def _note_failures(cells: Sequence[Planned], started: str, error: Exception, store: Store, outcome: Outcome) -> None:
    for planned in cells:
        _note_failure(planned.cell, started, error, store, outcome)


def _note_failure(cell: Cell, started: str, error: Exception, store: Store, outcome: Outcome) -> None:
    record = failed(cell, started, error)
    store.write(record)
    message = record.error.message if record.error else str(error)
    outcome.failures.append(Failure(cell.tasks[0], cell.label, cell.seed, message, record.key))
