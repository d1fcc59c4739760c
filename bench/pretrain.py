"""General starts and methods' own general stages: loaded, or trained on unlabelled text when first wanted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from bench.data.checkpoints import find, hash_of_tokenizer
from bench.errors import InputError
from bench.plan.build import numeric_of
from bench.plan.request import Request
from bench.plan.spelling import parse_methods, usable
from bench.plan.starts import StartPlan, plan_start
from bench.progress import Progress
from bench.record.freshness import STALE, WHAT_TO_DO, Freshness
from bench.train.cache import Slot
from bench.train.numerics import Numerics
from bench.train.starts import Starts
from methods.artefacts import GeneralDistillation, PretrainingStage, TruncatedTeacher


@dataclass(frozen=True)
class Made:
    """One general stage: what it is, which rows use it, where it began and how its terms went."""

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


def plan_pretraining(request: Request) -> dict[str, tuple[StartPlan, tuple[str, ...]]]:
    """Every general stage that the rows want from the corpus, with the rows that want it; what it is built from first.

    Raises:
        InputError: an unknown row, teacher or corpus, or rows without a general stage.
    """
    wanted = parse_methods(request.methods)  # before a teacher is looked for: what was typed wrongly is named first
    checkpoint = find(request.teacher, None, request.offline)
    numeric = numeric_of(request)
    tokenizer = hash_of_tokenizer(checkpoint)
    known: dict[str, StartPlan] = {}
    rows: dict[str, list[str]] = {}
    for row in usable(wanted, checkpoint.config)[0]:
        for wish in row.method.requires(checkpoint.config):
            if isinstance(wish, GeneralDistillation | TruncatedTeacher | PretrainingStage):
                start = plan_start(wish, request, checkpoint, tokenizer, numeric, known)
                for key in (*start.parts.values(), start.key):
                    rows.setdefault(key, []).append(row.spelling)
    if not known:
        raise InputError(f"--methods {request.methods}: none of these rows has a general stage on unlabelled text")
    return {key: (start, tuple(dict.fromkeys(rows.get(key, ())))) for key, start in known.items()}


def pretrain(request: Request, progress: Progress | None = None) -> list[Made]:
    """Make what is missing and keep it in the cache, where ``run`` finds it.

    Raises:
        InputError: bad input; nothing was started.
        CellError: a guard stopped a training; what was made before is kept.
    """
    import torch

    from bench.measure.busy import training_here
    from bench.train.cache import cache_root
    from bench.train.numerics import device_of

    planned = plan_pretraining(request.checked())
    progress = progress or Progress()
    torch.set_num_threads(request.threads)
    starts = Starts(
        {key: start for key, (start, _) in planned.items()},
        Numerics(device_of(request.device), request.precision),
        progress,
    )
    _renew([start.slot for start, _ in planned.values()], request, progress)
    there = {key for key, (start, _) in planned.items() if start.slot.is_made}
    with training_here(cache_root()):
        return [
            Made(start.title, key, rows, key in there, starts.get(key)[1]) for key, (start, rows) in planned.items()
        ]


def _renew(slots: Sequence[Slot], request: Request, progress: Progress) -> None:
    """Say what in the cache other code made; remove it where that was asked for."""
    freshness = Freshness(request.results)
    for slot in slots:
        if slot.is_made and freshness.of_code(slot.made().get("code")) == STALE:
            progress.say(f"{slot.title}, in the cache, was made by other code than this. {WHAT_TO_DO}.")
            if request.rerun_stale:
                slot.forget()
