"""General starts and methods' own general stages: loaded, or trained on unlabelled text when first wanted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torch import Tensor

from bench.data.checkpoints import find, tokenizer_of
from bench.data.encode import Encoded, pieces
from bench.errors import InputError
from bench.plan.cell import Numeric
from bench.plan.request import Request
from bench.plan.spelling import parse_methods, usable
from bench.plan.starts import StartPlan, hash_of_tokenizer, plan_start
from bench.progress import Progress
from bench.train.artefacts import cut_teacher, from_text, general_start, own_weights
from bench.train.loop import Numerics
from methods.api import CutTeacher, FromText, GeneralStart
from methods.masked import TeacherHead


class Starts:
    """What a plan wants from unlabelled text, by key."""

    def __init__(
        self, plans: dict[str, StartPlan], numerics: Numerics, progress: Progress, offline: bool = False
    ) -> None:
        self.plans, self.numerics, self.progress, self.offline = plans, numerics, progress, offline
        self.made: dict[str, tuple[dict[str, Tensor], dict[str, Any]]] = {}

    def get(self, key: str) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """The tensors, and what is known of how they were made.

        Raises:
            CellError: a guard stopped the training.
        """
        if key not in self.made:
            start = self.plans[key]
            parts = {name: self._part(start, part) for name, part in start.parts.items()}
            with self.progress.task(f"{start.title} from {start.corpus.name}") as update:
                self.made[key] = self._make(start, parts, update)
        return self.made[key]

    def masked_head(self) -> dict[str, Tensor]:
        """The un-tuned teacher's masked-language head, which the plan has wished for."""
        return self.get(next(key for key, start in self.plans.items() if isinstance(start.wish, TeacherHead)))[0]

    def _part(self, start: StartPlan, key: str) -> dict[str, Tensor]:
        return self.get(key)[0] if key in self.plans else own_weights(start.checkpoint)

    def _make(self, start: StartPlan, parts: dict[str, dict[str, Tensor]], update: Any) -> Any:
        wish = start.wish

        def text() -> Encoded:
            tokenizer = tokenizer_of(start.checkpoint)
            return pieces(tokenizer, start.corpus.documents, start.recipe.max_length, start.budget)

        if isinstance(wish, CutTeacher):
            return cut_teacher(start.checkpoint, wish.shape, start.key, text)
        common = (text, start.recipe, start.budget, self.numerics, update)
        if isinstance(wish, FromText):
            return from_text(wish, start.key, parts, start.checkpoint, *common)
        return general_start(start.checkpoint, wish.shape, start.key, *common)


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
    checkpoint = find(request.teacher, None, request.offline)
    numeric = Numeric(precision=request.precision, threads=request.threads)
    tokenizer = hash_of_tokenizer(checkpoint)
    known: dict[str, StartPlan] = {}
    rows: dict[str, list[str]] = {}
    for row in usable(parse_methods(request.methods), checkpoint.config)[0]:
        for wish in row.method.prepare(checkpoint.config):
            if isinstance(wish, GeneralStart | CutTeacher | FromText):
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
    from bench.run import device_of
    from bench.train.artefacts import cache_root

    planned = plan_pretraining(request.checked())
    torch.set_num_threads(request.threads)
    starts = Starts(
        {key: start for key, (start, _) in planned.items()},
        Numerics(device_of(request.device), request.precision),
        progress or Progress(),
    )
    made = []
    with training_here(cache_root()):
        for key, (start, rows) in planned.items():
            made.append(Made(start.title, key, rows, start.cached, starts.get(key)[1]))
    return made
