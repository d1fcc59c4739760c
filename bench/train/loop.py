"""The one training loop: every student of a group over the same batches and one shared teacher pass.

Students trained together end with weights bit-identical (on a CPU) to training each alone: they see the same
batches in the same order, each keeps its own random state, and asking the teacher for more never changes
what it answers.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from bench.data.encode import Encoded, mixed_batches
from bench.data.masking import hide
from bench.errors import CellError
from bench.plan.recipe import Recipe
from methods.api import Batch, Masking, Needs, Out, Stage, Student, Term
from methods.packed import forward

MAIN = "main"
CHECK_EVERY = 16
"""Steps between looks at the loss: one look a step would make an accelerator wait."""
LIVE_WITHIN = 10
"""Steps within which every term must have shown a gradient."""
CURVE_POINTS = 64
SHARE_POINTS = 4
"""Steps of a stage, evenly spread from its first, at which every term's gradient is measured."""


@dataclass(frozen=True)
class Numerics:
    """Where and in what precision a group trains."""

    device: torch.device = torch.device("cpu")
    precision: str = "fp32"

    def autocast(self) -> torch.autocast:
        return torch.autocast(self.device.type, torch.bfloat16, enabled=self.precision == "bf16")


@dataclass(frozen=True)
class Leg:
    """A stage with its length fixed and its dropped terms gone: what actually runs."""

    stage: Stage
    terms: dict[str, Term]
    recipe: Recipe
    steps: int

    def needs(self, side: str) -> Needs:
        total = Needs()
        for term in self.terms.values():
            total = total | (term.teacher if side == "teacher" else term.student)
        return total


def kept_terms(stage: Stage, dropped: Sequence[str]) -> dict[str, Term]:
    """The stage's terms without those dropped by name or prefix, and without those of constant weight 0."""
    return {
        name: term
        for name, term in stage.terms.items()
        if term.weight != 0 and not any(name == drop or name.startswith(drop + ".") for drop in dropped)
    }


def legs_of(
    stages: Sequence[Stage], dropped: Sequence[str], recipe: Recipe, *examples: int
) -> tuple[list[Leg], list[Leg]]:
    """Preparatory and counted legs. A stage left without terms gives its share to the others.

    Args:
        examples: training examples; of several tasks one number for each.

    Raises:
        CellError: nothing is left that trains the student, or a term that student and teacher cannot have.
    """
    per_epoch = sum(math.ceil(count / recipe.batch_size) for count in examples)
    kept = [(stage, kept_terms(stage, dropped)) for stage in stages]
    kept = [(stage, terms) for stage, terms in kept if terms]
    for name, term in ((name, term) for _, terms in kept for name, term in terms.items()):
        if term.impossible:
            raise CellError(f"the term {name}: {term.impossible}, or drop it (:-{name})")
    counted = [(stage, terms) for stage, terms in kept if not stage.preparatory_steps]
    if not any(term.player == MAIN for _, terms in counted for term in terms.values()):
        raise CellError("every term that trains the student was dropped; keep at least one")
    preparation = [
        Leg(stage, terms, recipe.for_stage(dict(stage.paper)), min(per_epoch, stage.preparatory_steps))
        for stage, terms in kept
        if stage.preparatory_steps
    ]
    if recipe.name == "paper":
        legs = []
        for stage, terms in counted:
            own = recipe.for_stage(dict(stage.paper))
            legs.append(Leg(stage, terms, own, max(1, round(own.epochs * per_epoch))))
        return preparation, legs
    total = max(len(counted), round(recipe.epochs * per_epoch))
    shares = sum(stage.share for stage, _ in counted)
    legs, done, share = [], 0, 0.0
    for stage, terms in counted:
        share += stage.share / shares
        end = max(done + 1, round(share * total))
        legs.append(Leg(stage, terms, recipe, end - done))
        done = end
    return preparation, legs


class RandomState:
    """A private copy of torch's random state, current only inside ``with``."""

    def __init__(self, seed: int, device: torch.device) -> None:
        self._device = device
        with self._saved():
            torch.manual_seed(seed)
            self._state = self._read()

    def _read(self) -> tuple[Tensor, Tensor | None]:
        return torch.get_rng_state(), torch.cuda.get_rng_state(self._device) if self._device.type == "cuda" else None

    def _write(self, state: tuple[Tensor, Tensor | None]) -> None:
        torch.set_rng_state(state[0])
        if state[1] is not None:
            torch.cuda.set_rng_state(state[1], self._device)

    @contextmanager
    def _saved(self) -> Iterator[None]:
        outer = self._read()
        try:
            yield
        finally:
            self._write(outer)

    @contextmanager
    def current(self) -> Iterator[None]:
        with self._saved():
            self._write(self._state)
            try:
                yield
            finally:
                self._state = self._read()


@dataclass
class TrainLog:
    """What a training cost and how its terms went."""

    steps: int = 0
    examples: int = 0
    tokens: int = 0
    squared_lengths: int = 0
    teacher_tokens: int = 0
    teacher_squared_lengths: int = 0
    seconds_own: float = 0.0
    teacher_seconds_shared: float = 0.0
    teacher_seconds_alone: float = 0.0
    terms: dict[str, dict[str, list[float]]] = field(default_factory=dict)
    gradient_norms: dict[str, dict[str, float]] = field(default_factory=dict)
    gradient_shares: dict[str, dict[str, list[float]]] = field(default_factory=dict)


def thinned(values: list[float]) -> list[float]:
    """A curve of at most CURVE_POINTS means over equal windows."""
    width = math.ceil(len(values) / CURVE_POINTS)
    return [
        float(f"{sum(values[i : i + width]) / len(values[i : i + width]):.6g}")
        for i in range(0, len(values), width or 1)
    ]


class Trainee:
    """One student on its way through its legs."""

    def __init__(
        self,
        label: str,
        student: Student,
        random: RandomState,
        preparation: list[Leg],
        legs: list[Leg],
        numerics: Numerics,
    ) -> None:
        self.label, self.student, self.random, self.numerics = label, student, random, numerics
        self.legs = {"preparation": preparation, "counted": legs}
        self.log = TrainLog()
        self.error: Exception | None = None
        self.at_epoch_end: Callable[[Student], None] = lambda student: None
        student.model.to(numerics.device)
        student.aux.to(numerics.device)
        self._leg: Leg | None = None
        self._step_of_leg = 0
        self._optimisers: dict[str, torch.optim.Optimizer] = {}
        self._moving: dict[str, list[nn.Parameter]] = {}
        self._unproven: set[str] = set()
        self._pending: list[Tensor] = []
        self._curves: dict[str, list[float]] = {}

    def steps(self, series: str) -> int:
        return sum(leg.steps for leg in self.legs[series])

    def leg_at(self, series: str, step: int) -> tuple[Leg, int] | None:
        """The leg that step falls into and the step within it."""
        for leg in self.legs[series]:
            if step < leg.steps:
                return leg, step
            step -= leg.steps
        return None

    def parameters(self, player: str) -> list[nn.Parameter]:
        owned = {name for names in self.student.players.values() for name in names}
        mine = (
            [self.student.model] + [module for name, module in self.student.aux.items() if name not in owned]
            if player == MAIN
            else [self.student.aux[name] for name in self.student.players[player]]
        )
        return [p for module in mine for p in module.parameters() if p.requires_grad]

    def _enter(self, leg: Leg) -> None:
        self._leave()
        self._leg = leg
        self._unproven = set(leg.terms)
        self._curves = {name: [] for name in leg.terms}
        self.log.gradient_norms[leg.stage.name] = {}
        players = {term.player for term in leg.terms.values()}
        order = [player for player in self.student.players if player in players] + [MAIN] * (MAIN in players)
        rates = leg.stage.rates or (lambda name: 1.0)
        self._optimisers = {player: optimiser(self._named(player), leg.recipe, rates) for player in order}
        held = {id(p) for player in order for name, p in self._named(player) if rates(name) == 0}
        self._moving = {player: [p for p in self.parameters(player) if id(p) not in held] for player in order}

    def _named(self, player: str) -> list[tuple[str, nn.Parameter]]:
        wanted = {id(p) for p in self.parameters(player)}
        modules = nn.ModuleDict({"model": self.student.model, "aux": self.student.aux})
        return [(name, p) for name, p in modules.named_parameters() if id(p) in wanted]

    def _leave(self) -> None:
        if self._leg is None:
            return
        self._look()
        if self._unproven:
            raise self._dead()
        self.log.terms[self._leg.stage.name] = {name: thinned(values) for name, values in self._curves.items()}
        self._optimisers = {}
        self._leg = None

    def finish(self) -> None:
        try:
            self._leave()
        except CellError as error:
            self.error = error

    def _dead(self) -> CellError:
        assert self._leg is not None
        names = ", ".join(sorted(self._unproven))
        return CellError(
            f"{self.label}, stage {self._leg.stage.name}: the term {names} never had a gradient; "
            f"it adds nothing. Drop it (:-{names.split(', ')[0]}) or mend what it reads"
        )

    def step(self, leg: Leg, step: int, batch: Batch, teacher: Out) -> None:
        """One step of every player of this leg on one batch."""
        if leg is not self._leg:
            self._enter(leg)
        self._step_of_leg = step
        progress = step / leg.steps
        self.student.model.train()
        self.student.aux.train()
        if leg.stage.before_step is not None:
            leg.stage.before_step(self.student.model, progress)
        with self.random.current():
            main_moves = MAIN in self._optimisers
            with torch.set_grad_enabled(main_moves), self.numerics.autocast():
                ours = forward(self.student.model, batch, leg.needs("student"))
            values: dict[str, Tensor] = {}
            for player, optimiser_ in self._optimisers.items():
                seen = ours if player == MAIN else ours.detached()
                self._move(player, optimiser_, leg, progress, batch, seen, teacher, values)
        self._pending.append(torch.stack([values[name] for name in leg.terms]))
        if len(self._pending) >= CHECK_EVERY:
            self._look()

    def _move(
        self,
        player: str,
        optimiser_: torch.optim.Optimizer,
        leg: Leg,
        progress: float,
        batch: Batch,
        seen: Out,
        teacher: Out,
        values: dict[str, Tensor],
    ) -> None:
        parameters = self._moving[player]
        weighted: dict[str, Tensor] = {}
        with self.numerics.autocast():
            for name, term in leg.terms.items():
                if term.player == player:
                    value = term.fn(batch, seen, teacher, self.student.aux)
                    values[name] = value.detach().float()
                    weight = term.weight(progress) if callable(term.weight) else term.weight
                    weighted[name] = weight * value
        measured: dict[str, float] = {}
        if self._step_of_leg in {part * leg.steps // SHARE_POINTS for part in range(SHARE_POINTS)}:
            measured = {name: gradient_norm(value, parameters) for name, value in weighted.items()}
            shares = self.log.gradient_shares.setdefault(leg.stage.name, {})
            for name, norm in measured.items():
                shares.setdefault(name, []).append(float(f"{norm / (sum(measured.values()) or 1.0):.4g}"))
        for name in sorted(self._unproven & set(weighted)):
            norm = measured[name] if name in measured else gradient_norm(weighted[name], parameters)
            self.log.gradient_norms[leg.stage.name].setdefault(name, float(f"{norm:.6g}"))
            if norm > 0 or math.isnan(norm):  # a NaN is the other guard's business
                self.log.gradient_norms[leg.stage.name][name] = float(f"{norm:.6g}")
                self._unproven.discard(name)
        if self._unproven and self._step_of_leg >= LIVE_WITHIN:
            raise self._dead()
        reached = [value for value in weighted.values() if value.requires_grad]
        if not reached:
            return  # this pass went through nothing that this player may move
        torch.stack(reached).sum().backward(inputs=parameters)
        nn.utils.clip_grad_norm_(parameters, leg.recipe.clip)
        rate = leg.recipe.learning_rate * leg.recipe.factor(self._step_of_leg, leg.steps)
        if leg.stage.pace is not None:
            rate *= leg.stage.pace(progress)
        for group in optimiser_.param_groups:
            group["lr"] = rate * group["factor"]
        optimiser_.step()
        optimiser_.zero_grad(set_to_none=True)

    def _look(self) -> None:
        """Fetch the pending loss values; raise at the first that is not a number."""
        if not self._pending or self._leg is None:
            return
        table = torch.stack(self._pending).cpu()
        first = self._step_of_leg + 1 - len(table)
        self._pending = []
        names = list(self._leg.terms)
        bad = (~torch.isfinite(table)).nonzero()  # by step, then by term: one bad step spoils all that follow
        if len(bad):
            row, column = bad[0].tolist()
            raise CellError(
                f"{self.label}, stage {self._leg.stage.name}: the term {names[column]} became "
                f"{float(table[row, column])} at step {first + row}; try a smaller learning rate, "
                f"or --precision fp32 if it was bf16"
            )
        for column, name in enumerate(names):
            self._curves[name] += table[:, column].tolist()


def gradient_norm(loss: Tensor, parameters: Sequence[nn.Parameter]) -> float:
    """Euclidean norm of d loss / d parameters; 0.0 where nothing connects them."""
    if not loss.requires_grad:
        return 0.0
    gradients = torch.autograd.grad(loss, parameters, retain_graph=True, allow_unused=True)
    return math.sqrt(sum(float(g.float().square().sum()) for g in gradients if g is not None))


def optimiser(
    named: Sequence[tuple[str, nn.Parameter]], recipe: Recipe, rates: Callable[[str], float] = lambda name: 1.0
) -> torch.optim.Optimizer:
    """AdamW without decay on biases and LayerNorm, as BERT is tuned; parameters of rate 0 are not in it."""
    groups: dict[tuple[bool, float], list[nn.Parameter]] = {}
    for plain in (False, True):
        for name, p in named:
            if (name.endswith("bias") or "LayerNorm" in name) == plain and rates(name) > 0:
                groups.setdefault((plain, rates(name)), []).append(p)
    return torch.optim.AdamW(
        [
            {"params": parameters, "weight_decay": 0.0 if plain else recipe.weight_decay, "factor": factor}
            for (plain, factor), parameters in groups.items()
        ],
        lr=recipe.learning_rate,
        fused=True,
    )


@dataclass(frozen=True)
class Course:
    """One task's examples and the teacher that knows it."""

    data: Encoded
    teacher: nn.Module | None


def train(
    trainees: Sequence[Trainee],
    data: Encoded,
    seed: int,
    teacher: nn.Module | None,
    numerics: Numerics,
    batch_size: int,
    on_step: Callable[[int, int], Any] = lambda done, total: None,
) -> None:
    """Take every trainee through its legs. A trainee that fails keeps its error; the others go on."""
    train_on([Course(data, teacher)], trainees, seed, numerics, batch_size, on_step)


def train_on(
    courses: Sequence[Course],
    trainees: Sequence[Trainee],
    seed: int,
    numerics: Numerics,
    batch_size: int,
    on_step: Callable[[int, int], Any] = lambda done, total: None,
) -> None:
    """:func:`train` on several tasks: each batch is of one task, an epoch visits all their batches in mixed order.

    Args:
        on_step: told how many steps of students are done and how many there are: what a step costs goes by how many
            students take it, so only theirs can say how long the rest will take.
    """
    sizes = [len(course.data) for course in courses]
    per_epoch = sum(math.ceil(size / batch_size) for size in sizes)
    lengths = {series: max((t.steps(series) for t in trainees), default=0) for series in ("preparation", "counted")}
    total, done = sum(t.steps(series) for t in trainees for series in lengths), 0
    for series, length in lengths.items():
        order: list[tuple[int, list[int]]] = []
        for step in range(length):
            epoch, place = divmod(step, per_epoch)
            if place == 0:
                order = mixed_batches(sizes, batch_size, seed, -1 if series == "preparation" else epoch)
            due = [(t, found) for t in trainees if (found := t.leg_at(series, step))]
            moving = [(t, found) for t, found in due if t.error is None]
            done += len(due)
            if moving:
                task, rows = order[place]
                data, teacher = courses[task].data, courses[task].teacher
                batch = data.batch(rows, numerics.device, task)
                for view in dict.fromkeys(_view(leg) for _, (leg, _) in moving):
                    masking, dropout = view
                    seen = batch if masking is None else hide(batch, data, masking, seed, step)
                    some = [(trainee, found) for trainee, found in moving if _view(found[0]) == view]
                    noise = RandomState(_seed_of(seed, series, step), numerics.device) if dropout else None
                    _lockstep(some, seen, rows, data, teacher, numerics, noise)
            if series == "counted":
                _end_epochs([t for t, _ in moving], step, per_epoch)
            on_step(done, total)
    for trainee in trainees:
        if trainee.error is None:
            trainee.finish()


def _end_epochs(moving: Sequence[Trainee], step: int, per_epoch: int) -> None:
    """Tell the students for whom this was the last step of an epoch, or of all."""
    for trainee in moving:
        if trainee.error is None and ((step + 1) % per_epoch == 0 or step + 1 == trainee.steps("counted")):
            try:
                trainee.at_epoch_end(trainee.student)
            except Exception as error:
                trainee.error = error


def _seed_of(seed: int, series: str, step: int) -> int:
    """A seed of its own for the teacher's dropout at every step."""
    return int(np.random.default_rng([seed, step, series == "preparation"]).integers(2**63))


def _view(leg: Leg) -> tuple[Masking | None, bool]:
    """What has to be alike for students to share a batch and a teacher pass."""
    return leg.stage.masking, leg.stage.teacher_dropout and bool(leg.needs("teacher"))


def _lockstep(
    moving: Sequence[tuple[Trainee, tuple[Leg, int]]],
    batch: Batch,
    rows: list[int],
    data: Encoded,
    teacher: nn.Module | None,
    numerics: Numerics,
    noise: RandomState | None,
) -> None:
    taught = [trainee for trainee, (leg, _) in moving if leg.needs("teacher")]
    needs = Needs()
    for _, (leg, _) in moving:
        needs = needs | leg.needs("teacher")
    answer = Out(batch.layout, None, {}, {})
    seconds = 0.0
    if needs:
        if teacher is None:
            raise CellError("a term reads the teacher, but this training has none")
        begun = time.perf_counter()
        with torch.no_grad(), numerics.autocast():
            if noise is None:
                answer = forward(teacher, batch, needs)
            else:
                with noise.current():
                    answer = forward(teacher.train(), batch, needs)
                teacher.eval()
        seconds = time.perf_counter() - begun
    tokens = sum(len(data.tokens[i]) for i in rows)
    squared = sum(len(data.tokens[i]) ** 2 for i in rows)
    for trainee, (leg, step) in moving:
        begun = time.perf_counter()
        try:
            trainee.step(leg, step, batch, answer)
        except Exception as error:
            trainee.error = error
        log = trainee.log
        log.seconds_own += time.perf_counter() - begun
        log.steps += 1
        log.examples += len(rows)
        log.tokens += tokens
        log.squared_lengths += squared
        if trainee in taught:
            log.teacher_tokens += tokens
            log.teacher_squared_lengths += squared
            log.teacher_seconds_shared += seconds / len(taught)
            log.teacher_seconds_alone += seconds
