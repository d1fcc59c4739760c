"""One student on its way through its legs: its steps, the guards that stop it, and what is noted of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from bench.errors import CellError
from bench.optimizers import built
from bench.plan.scheduled_stages import MAIN, Leg
from bench.record.recipe import Recipe
from bench.train.numerics import Numerics, RandomState
from methods.api import Batch, Out, Student
from methods.packed import forward

if TYPE_CHECKING:
    from bench.train.best_epoch import BestEpoch

CHECK_EVERY = 16
"""Steps between looks at the loss: one look a step would make an accelerator wait."""
LIVE_WITHIN = 10
"""Steps within which every term must have shown a gradient."""
CURVE_POINTS = 64
SHARE_POINTS = 4
"""Steps of a stage, evenly spread from its first, at which every term's gradient is measured."""


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

    def took(self, seconds: float) -> None:
        """Add the time of a step of its own."""
        self.seconds_own += seconds


def below(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The tensors whose names begin so, by the rest of their names."""
    return {name.removeprefix(prefix): value for name, value in tensors.items() if name.startswith(prefix)}


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
        self.choice: BestEpoch | None = None
        """looks at every epoch, where one is to be chosen"""
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
        rates = leg.stage.parameter_lr_scale or (lambda name: 1.0)
        self._optimisers = {player: optimiser(self._named(player), leg.recipe, rates) for player in order}
        held = {id(p) for player in order for name, p in self._named(player) if rates(name) == 0}
        self._moving = {player: [p for p in self.parameters(player) if id(p) not in held] for player in order}

    def state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """All that its next step depends on: tensors by name, and the rest as JSON can hold it."""
        try:
            self._look()
        except CellError as error:
            self.error = error
        tensors = {f"weights.{name}": value for name, value in self._modules().state_dict().items()}
        tensors |= {f"random.{name}": value for name, value in self.random.state().items()}
        for player, optimiser_ in self._optimisers.items():
            for number, values in optimiser_.state_dict()["state"].items():
                tensors |= {f"optimiser.{player}.{number}.{name}": value for name, value in values.items()}
        scores: list[float] = []
        if self.choice is not None:
            best, scores = self.choice.state()
            tensors |= {f"best.{name}": value for name, value in best.items()}
        places = ((series, i, leg) for series, legs in self.legs.items() for i, leg in enumerate(legs))
        return tensors, {
            "leg": next(((series, i) for series, i, leg in places if leg is self._leg), None),
            "step_of_leg": self._step_of_leg,
            "unproven": sorted(self._unproven),
            "curves": self._curves,
            "log": asdict(self.log),
            "scores": scores,
            "error": None if self.error is None else str(self.error),
        }

    def restore(self, tensors: Mapping[str, Tensor], state: Mapping[str, Any]) -> None:
        """Stand where :meth:`state` said; the student has to be newly built."""
        if state["leg"] is not None:
            series, number = state["leg"]
            self._enter(self.legs[series][number])
        for player, optimiser_ in self._optimisers.items():
            values: dict[int, dict[str, Tensor]] = {}
            for name, value in below(f"optimiser.{player}.", tensors).items():
                of_parameter, _, what = name.partition(".")
                values.setdefault(int(of_parameter), {})[what] = value
            groups = optimiser_.state_dict()["param_groups"]
            optimiser_.load_state_dict({"state": values, "param_groups": groups})
        self._modules().load_state_dict(below("weights.", tensors))
        self.random.restore(below("random.", tensors))
        if self.choice is not None:
            self.choice.go_on(below("best.", tensors), state["scores"])
        self._step_of_leg, self._unproven = state["step_of_leg"], set(state["unproven"])
        self._curves, self.log = state["curves"], TrainLog(**state["log"])
        self.error = None if state["error"] is None else CellError(state["error"])

    def _modules(self) -> nn.ModuleDict:
        return nn.ModuleDict({"model": self.student.model, "aux": self.student.aux})

    def _named(self, player: str) -> list[tuple[str, nn.Parameter]]:
        wanted = {id(p) for p in self.parameters(player)}
        return [(name, p) for name, p in self._modules().named_parameters() if id(p) in wanted]

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
        if leg.stage.on_step_begin is not None:
            leg.stage.on_step_begin(self.student.model, progress)
        with self.random.current():
            main_moves = MAIN in self._optimisers
            with torch.set_grad_enabled(main_moves), self.numerics.autocast():
                ours = forward(self.student.model, batch, leg.student)
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
        if leg.stage.lr_scale is not None:
            rate *= leg.stage.lr_scale(progress)
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
                f"{float(table[row, column])} at step {first + row}; "
                + (
                    "try a smaller learning rate"
                    if first + row
                    else "nothing was trained yet: look at what it computes"
                )
                + ", or --precision fp32 if it was bf16"
            )
        for column, name in enumerate(names):
            self._curves[name] += table[:, column].tolist()


def gradient_norm(loss: Tensor, parameters: Sequence[nn.Parameter]) -> float:
    """Euclidean norm of d loss / d parameters; 0.0 where nothing connects them."""
    if not loss.requires_grad:
        return 0.0
    gradients = torch.autograd.grad(loss, parameters, retain_graph=True, allow_unused=True)
    return math.sqrt(sum(float(g.float().square().sum()) for g in gradients if g is not None))


def is_not_decayed(name: str) -> bool:
    """Whether a parameter is a bias or belongs to a LayerNorm, by its name: ``sa_layer_norm.weight``, ``bias_ih_l0``."""
    own = name.rpartition(".")[2]
    return "bias" in own.split("_") or "layernorm" in name.replace("_", "").lower()


def optimiser(
    named: Sequence[tuple[str, nn.Parameter]], recipe: Recipe, rates: Callable[[str], float] = lambda name: 1.0
) -> torch.optim.Optimizer:
    """The recipe's, without decay on biases and LayerNorm, as BERT is tuned; parameters of rate 0 are not in it."""
    groups: dict[tuple[bool, float], list[nn.Parameter]] = {}
    for plain in (False, True):
        for name, p in named:
            if is_not_decayed(name) == plain and rates(name) > 0:
                groups.setdefault((plain, rates(name)), []).append(p)
    return built(
        [
            {"params": those, "weight_decay": 0.0 if plain else recipe.weight_decay, "factor": factor, "plain": plain}
            for (plain, factor), those in groups.items()
        ],
        recipe,
    )
