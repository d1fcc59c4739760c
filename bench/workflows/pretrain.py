"""What all tasks share and is made from unlabelled text: loaded, or made when first asked for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from bench.data.checkpoints import find
from bench.errors import InputError
from bench.make.artefact import artefact
from bench.make.work import Work
from bench.plan.artefacts import ArtefactPlanner
from bench.plan.build import numeric_of, without_auto
from bench.plan.plan import ArtefactPlan, with_parts
from bench.plan.request import AUTO, Request
from bench.plan.spelling import drop_incompatible, parse_methods
from bench.progress import Progress
from bench.record.code import STALE, WHAT_TO_DO, state_of
from bench.train.numerics import ComputeSettings

if TYPE_CHECKING:
    from methods.artefacts import Artefact, Source


@dataclass(frozen=True)
class PretrainedArtefact:
    """One artefact: what it is, which rows use it, whether the cache had it, and what is known of how it was made."""

    title: str
    key: str
    rows: tuple[str, ...]
    was_there: bool
    body: dict[str, Any]

    def describe(self) -> str:
        trained = self.body.get("train", {})
        curves = [
            f"{term} {values[0]:.4g} -> {values[-1]:.4g}"
            for terms in trained.get("terms", {}).values()
            for term, values in terms.items()
            if values
        ]
        cost = f"{trained['tokens']:,} tokens, {trained['seconds_own']:,.0f} s" if trained else "nothing to train"
        what = "there" if self.was_there else "made"
        return f"{self.title} ({self.key[:12]}, {what}): {cost}{'; ' if curves else ''}{', '.join(curves)}; for {', '.join(self.rows)}"


def plan_pretraining(request: Request) -> tuple[Request, list[ArtefactPlan], dict[str, tuple[str, ...]]]:
    """The request without ``auto``, every artefact that all tasks share and that the rows ask for, and key -> the rows that ask for it.

    Raises:
        InputError: an unknown row, teacher or corpus, or rows that ask for nothing made from text.
    """
    wanted = parse_methods(request.methods)  # before a teacher is looked for: what was typed wrongly is named first
    if request.teacher == AUTO or not request.corpus:  # the data decide which text is read
        request = without_auto(request)
    checkpoint = find(request.teacher, None, request.offline)
    planner = ArtefactPlanner(request, numeric_of(request))
    rows: dict[str, list[str]] = {}
    for row in drop_incompatible(wanted, checkpoint.config)[0]:
        asked = [
            planner.add(part, checkpoint) for part in _shared(row.method.requires(checkpoint.config), checkpoint.config)
        ]
        for entry in with_parts(asked):
            rows.setdefault(entry.key, []).append(row.spelling)
    kept = [entry for entry in planner.entries if entry.artefact.is_kept]
    if not kept:
        raise InputError(f"--methods {request.methods}: none of these rows has a pre-training on text")
    return request, kept, {key: tuple(dict.fromkeys(spellings)) for key, spellings in rows.items()}


def _shared(artefacts: Iterable[Artefact | Source], teacher: Any) -> Iterator[Artefact]:
    """The artefacts that all tasks share and that the cache keeps. A task's own one is replaced by those it is made from."""
    from methods.artefacts import Source, is_of_task

    for part in artefacts:
        if isinstance(part, Source):
            continue
        if is_of_task(part, teacher):
            yield from _shared(part.inputs(teacher), teacher)
        elif part.is_kept:
            yield part


def pretrain(request: Request, progress: Progress | None = None) -> list[PretrainedArtefact]:
    """Make what is missing and keep it in the cache, where ``run`` finds it.

    Raises:
        InputError: bad input; nothing was started.
        CellError: a guard stopped a training; what was made before is kept.
    """
    import torch

    from bench.cache import cache_root
    from bench.measure.busy import training_here
    from bench.measure.devices import device_of

    request, entries, rows = plan_pretraining(request.checked())
    progress = progress or Progress()
    for note in request.notes:
        progress.say(note)
    torch.set_num_threads(request.threads)
    work = Work(
        ComputeSettings(device_of(request.device, request.deterministic), request.precision), progress, request.offline
    )
    for slot in (entry.slot for entry in entries):
        if slot.is_made and state_of(slot.read_made().get("code")) == STALE:
            progress.say(f"{slot.title}, in the cache, was made by other code than this. {WHAT_TO_DO}.")
            if request.rerun_stale:
                slot.forget()
    there = {entry.key for entry in entries if entry.slot.is_made}
    with training_here(cache_root()):
        return [
            PretrainedArtefact(
                entry.title, entry.key, rows[entry.key], entry.key in there, dict(artefact(entry, None, work).body)
            )
            for entry in entries
        ]
