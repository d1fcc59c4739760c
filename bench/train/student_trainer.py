"""The training of one student through its stages: its steps, and the guards that stop it."""

from __future__ import annotations

import math
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor, nn

from bench.errors import CellError
from bench.optimizers import built, multiplier
from bench.plan.scheduled_stages import COUNTED, MAIN, PREPARATION, ScheduledStage
from bench.record.recipe import Recipe
from bench.train.numerics import ComputeSettings, RandomState
from methods.api import Batch, Out, Student, Term
from methods.core.models import forward
from methods.core.parts import under

if TYPE_CHECKING:
    from bench.train.best_epoch import BestEpoch

CHECK_EVERY = 16
"""Steps between looks at the loss: one look a step would make an accelerator wait."""
GRADIENT_WITHIN = 10
"""Steps that a term may be without a gradient before the training is stopped."""
CURVE_POINTS = 64
SHARE_POINTS = 4
"""Steps of a stage, evenly spread from its first, at which every term's gradient is measured."""


class MicroBatch(NamedTuple):
    """A part of a batch that goes through the models at once.

    Attributes:
        teacher: what the teacher answers to it.
        share: of the batch's examples.
    """

    batch: Batch
    teacher: Out
    share: float = 1.0


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
    """its part of the teacher passes that it shared"""
    teacher_seconds_alone: float = 0.0
    """what the same passes would have cost it alone"""
    terms: dict[str, dict[str, list[float]]] = field(default_factory=dict)
    gradient_norms: dict[str, dict[str, float]] = field(default_factory=dict)
    gradient_shares: dict[str, dict[str, list[float]]] = field(default_factory=dict)

    def add_seconds(self, seconds: float) -> None:
        self.seconds_own += seconds


def thinned(values: list[float]) -> list[float]:
    """A curve of at most CURVE_POINTS means over equal windows."""
    width = math.ceil(len(values) / CURVE_POINTS) or 1
    windows = (values[start : start + width] for start in range(0, len(values), width))
    return [float(f"{sum(window) / len(window):.6g}") for window in windows]


class StudentTrainer:
    """One student with its optimisers, trained through its scheduled stages."""

    def __init__(
        self,
        label: str,
        student: Student,
        random: RandomState,
        preparation: list[ScheduledStage],
        counted: list[ScheduledStage],
        numerics: ComputeSettings,
    ) -> None:
        self.label = label
        self.student = student
        self.random = random
        self.numerics = numerics
        self.schedule = {PREPARATION: preparation, COUNTED: counted}
        self.log = TrainLog()
        self.error: Exception | None = None
        self.best_epoch: BestEpoch | None = None
        """looks at every epoch, where one is to be chosen"""
        student.model.to(numerics.device)
        student.aux.to(numerics.device)
        self._current: ScheduledStage | None = None
        self._step_of_stage = 0
        self._optimizers: dict[str, torch.optim.Optimizer] = {}
        self._moving: dict[str, list[nn.Parameter]] = {}
        self._without_gradient: dict[str, int] = {}
        """terms that had no gradient yet -> steps in which they could have had one"""
        self._pending: list[Tensor] = []
        self._curves: dict[str, list[float]] = {}

    def steps(self, series: str) -> int:
        """How many steps a series has for this student."""
        return sum(scheduled.steps for scheduled in self.schedule[series])

    def stage_at(self, series: str, step: int) -> tuple[ScheduledStage, int] | None:
        """The stage that a step falls into, and the number of the step within it."""
        for scheduled in self.schedule[series]:
            if step < scheduled.steps:
                return scheduled, step
            step -= scheduled.steps
        return None

    def _named(self, player: str) -> list[tuple[str, nn.Parameter]]:
        """What a player moves, by its names in :meth:`_modules`.

        They are parts of aux; of the main player all that no other one has.
        """
        owner_of = {}
        for other, names in self.student.players.items():
            for name in names:
                owner_of[f"aux.{name}"] = other
        found = []
        for name, parameter in self._modules().named_parameters():
            module = ".".join(name.split(".")[:2])
            if parameter.requires_grad and owner_of.get(module, MAIN) == player:
                found.append((name, parameter))
        return found

    def _begin_stage(self, scheduled: ScheduledStage) -> None:
        """End the stage before, and begin with new optimisers."""
        self._end_stage()
        self._current = scheduled
        self._without_gradient = dict.fromkeys(scheduled.terms, 0)
        self._curves = {name: [] for name in scheduled.terms}
        self.log.gradient_norms[scheduled.stage.name] = {}
        # the main player is the last one
        players = {term.player for term in scheduled.terms.values()}
        order = [player for player in self.student.players if player in players]
        if MAIN in players:
            order.append(MAIN)
        # each player has an optimiser of its own for the stage
        scale_of = scheduled.stage.parameter_lr_scale or (lambda name: 1.0)
        undecayed = scheduled.stage.undecayed or (lambda name: False)
        self._optimizers = {}
        self._moving = {}
        for player in order:
            named = self._named(player)
            self._optimizers[player] = optimizer_of(named, scheduled.recipe, scale_of, undecayed)
            self._moving[player] = [p for name, p in named if scale_of(name)]

    def state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """All that its next step depends on: tensors by name, and the rest as JSON can hold it."""
        try:
            self._check_losses()
        except CellError as error:
            self.error = error
        # weights, random numbers, optimisers, and the best epoch so far
        tensors = {f"weights.{name}": value for name, value in self._modules().state_dict().items()}
        tensors |= {f"random.{name}": value for name, value in self.random.state().items()}
        for player, optimizer in self._optimizers.items():
            for number, values in optimizer.state_dict()["state"].items():
                for name, value in values.items():
                    tensors[f"optimizer.{player}.{number}.{name}"] = value
        scores: list[float] | None = None
        if self.best_epoch is not None and self.best_epoch.selection_examples:
            best, scores = self.best_epoch.state()
            tensors |= {f"best.{name}": value for name, value in best.items()}
        return tensors, {
            "stage": self._place_of_stage(),
            "step_of_stage": self._step_of_stage,
            "without_gradient": self._without_gradient,
            "curves": self._curves,
            "log": asdict(self.log),
            "scores": scores,
            "error": None if self.error is None else str(self.error),
        }

    def _place_of_stage(self) -> tuple[str, int] | None:
        """The series of the current stage, and its number in it; None between two stages."""
        for series, stages in self.schedule.items():
            for number, stage in enumerate(stages):
                if stage is self._current:
                    return series, number
        return None

    def restore(self, tensors: Mapping[str, Tensor], state: Mapping[str, Any]) -> None:
        """Go back to where :meth:`state` was asked; the student has to be newly built."""
        if state["stage"] is not None:
            series, number = state["stage"]
            self._begin_stage(self.schedule[series][number])
        # the state of an optimiser by the numbers of its parameters
        for player, optimizer in self._optimizers.items():
            values: dict[int, dict[str, Tensor]] = {}
            for name, value in under(f"optimizer.{player}.", tensors).items():
                number_of_parameter, _, what = name.partition(".")
                values.setdefault(int(number_of_parameter), {})[what] = value
            groups = optimizer.state_dict()["param_groups"]
            optimizer.load_state_dict({"state": values, "param_groups": groups})
        self._modules().load_state_dict(under("weights.", tensors))
        self.random.restore(under("random.", tensors))
        if self.best_epoch is not None:
            self.best_epoch.restore(under("best.", tensors), state["scores"])
        self._step_of_stage = state["step_of_stage"]
        self._without_gradient = state["without_gradient"]
        self._curves = state["curves"]
        self.log = TrainLog(**state["log"])
        self.error = None if state["error"] is None else CellError(state["error"])

    def _modules(self) -> nn.ModuleDict:
        return nn.ModuleDict({"model": self.student.model, "aux": self.student.aux})

    def _end_stage(self) -> None:
        """Check and note the last losses of the current stage."""
        if self._current is None:
            return
        self._check_losses()
        if self._without_gradient:
            raise self._no_gradient(self._without_gradient)
        self.log.terms[self._current.stage.name] = {
            name: thinned(values) for name, values in self._curves.items()
        }
        self._optimizers = {}
        self._current = None

    def finish(self) -> None:
        """End the last stage."""
        try:
            self._end_stage()
        except CellError as error:
            self.fail(error)

    def fail(self, error: Exception) -> None:
        """End its training, and let go what it holds.

        The frames of an error hold all activations of the step, and one student that is too large
        must not cost the others.
        """
        # along the chain of causes: each holds the frames in which it was raised
        cause: BaseException | None = error
        while cause is not None:
            traceback.clear_frames(cause.__traceback__)
            cause = cause.__cause__ or cause.__context__
        self.error = error
        self._optimizers = {}
        self._pending = []
        self._modules().zero_grad(set_to_none=True)
        if self.numerics.device.type != "cpu":
            self._modules().to("cpu")
            torch.get_device_module(self.numerics.device.type).empty_cache()

    def _no_gradient(self, terms: Iterable[str]) -> CellError:
        assert self._current is not None
        names = sorted(terms)
        return CellError(
            f"{self.label}, stage {self._current.stage.name}: the term {', '.join(names)} never "
            f"had a gradient; it adds nothing. Drop it (:-{names[0]}) or mend what it reads"
        )

    def step(self, scheduled: ScheduledStage, step: int, parts: Sequence[MicroBatch]) -> None:
        """One step of every player of this stage on one batch, which comes whole or in parts."""
        # a new stage, and what a method does before each step
        if scheduled is not self._current:
            self._begin_stage(scheduled)
        self._step_of_stage = step
        progress = step / scheduled.steps
        self.student.model.train()
        self.student.aux.train()
        if scheduled.stage.on_step_begin is not None:
            scheduled.stage.on_step_begin(self.student.model, progress)
        with self.random.current():
            # one pass serves all players; in parts each has passes of its own: a history can be
            # kept for one part alone
            whole = None
            if len(parts) == 1:
                whole = self._forward(scheduled, parts[0].batch, MAIN in self._optimizers)
            values: dict[str, Tensor] = {}
            for player in self._optimizers:
                values |= self._move(player, scheduled, progress, parts, whole)
        # the values stay where they are until several steps are fetched at once
        self._pending.append(torch.stack([values[name] for name in scheduled.terms]))
        if len(self._pending) >= CHECK_EVERY:
            self._check_losses()

    def _forward(self, scheduled: ScheduledStage, batch: Batch, keeps_history: bool) -> Out:
        with torch.set_grad_enabled(keeps_history), self.numerics.autocast():
            read = forward(self.student.model, batch, scheduled.student)
        # a term may ask the student a second time
        return read.of_model(self.student.model)

    def _move(
        self,
        player: str,
        scheduled: ScheduledStage,
        progress: float,
        parts: Sequence[MicroBatch],
        whole: Out | None,
    ) -> dict[str, Tensor]:
        """Move one player's parameters by the gradients of all parts together.

        Args:
            progress: of the stage, from 0 to 1.
            whole: what the student gives for a batch that comes whole; None for one in parts.

        Returns:
            Its terms' values without their history, weighted means over the parts.
        """
        total: dict[str, Tensor] = {}
        has_gradient = False
        moving = self._moving[player]
        for number, part in enumerate(parts):
            # the student's outputs; only the main player's terms go back through them
            ours = self._forward(scheduled, part.batch, player == MAIN) if whole is None else whole
            seen = ours if player == MAIN else ours.detached()
            values, weighted = self._losses(player, scheduled, progress, part, seen)
            # the guards look at one part: all have the same terms
            if number == 0:
                self._check_first_part(scheduled, progress, ours, weighted, moving)
            for name, value in values.items():
                total[name] = total.get(name, 0.0) + part.share * value
            # a term that goes through none of the player's parameters has no gradient
            reached = [part.share * value for value in weighted.values() if value.requires_grad]
            if reached:
                torch.stack(reached).sum().backward(inputs=moving)
                has_gradient = True
        if not has_gradient:
            return total

        # one step of the optimiser, with the rate of this step
        nn.utils.clip_grad_norm_(moving, scheduled.recipe.clip)
        rate = self._rate(scheduled, progress)
        optimizer = self._optimizers[player]
        for group in optimizer.param_groups:
            group["lr"] = rate * group["factor"]
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return total

    def _losses(
        self,
        player: str,
        scheduled: ScheduledStage,
        progress: float,
        part: MicroBatch,
        seen: Out,
    ) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
        """The terms of a player: their values without history, and with history and weight.

        Args:
            seen: the student's outputs as the player may go back through them.
        """
        values: dict[str, Tensor] = {}
        weighted: dict[str, Tensor] = {}
        with self.numerics.autocast():
            for name, term in scheduled.terms.items():
                if term.player != player:
                    continue
                computed = term.fn(part.batch, seen, part.teacher, self.student.aux)
                loss = as_scalar(name, computed)
                values[name] = loss.detach().float()
                weighted[name] = weight_at(term, progress) * loss
        return values, weighted

    def _rate(self, scheduled: ScheduledStage, progress: float) -> float:
        """The learning rate of a step."""
        recipe = scheduled.recipe
        rate = recipe.learning_rate * multiplier(
            recipe.schedule, recipe.warmup, self._step_of_stage, scheduled.steps
        )
        if scheduled.stage.lr_scale is not None:
            rate *= scheduled.stage.lr_scale(progress)
        return rate

    def _check_first_part(
        self,
        scheduled: ScheduledStage,
        progress: float,
        ours: Out,
        weighted: Mapping[str, Tensor],
        moving: Sequence[nn.Parameter],
    ) -> None:
        """Stop a training whose loss moves too much or too little.

        It goes through parameters that nothing trains, or a term never moves anything.
        """
        if self._step_of_stage == 0:
            self._check_parameters(scheduled, weighted.values())
        # where a model draws what it trains, and draws nothing, what is read of it has no history
        read = ours.tensors()
        can_move = not read or any(x.requires_grad for x in [*read, *weighted.values()])
        self._check_gradients(scheduled, progress, weighted, moving, can_move)

    def _check_gradients(
        self,
        scheduled: ScheduledStage,
        progress: float,
        weighted: Mapping[str, Tensor],
        parameters: Sequence[nn.Parameter],
        can_move: bool,
    ) -> None:
        """Note each term's share of the gradient at some steps.

        A training is stopped of which a term moves nothing. Two kinds of steps say nothing against
        a term: those in which its weight is 0, and those in which the loss reaches no parameter at
        all (not ``can_move``).
        """
        # each term's share, at some steps of the stage
        norms: dict[str, float] = {}
        name_of_stage = scheduled.stage.name
        measured = {part * scheduled.steps // SHARE_POINTS for part in range(SHARE_POINTS)}
        if self._step_of_stage in measured:
            norms = {name: gradient_norm(value, parameters) for name, value in weighted.items()}
            together = sum(norms.values()) or 1.0
            shares = self.log.gradient_shares.setdefault(name_of_stage, {})
            for name, norm in norms.items():
                shares.setdefault(name, []).append(float(f"{norm / together:.4g}"))

        # the terms that had none yet
        for name in sorted(self._without_gradient.keys() & weighted.keys()):
            if not weight_at(scheduled.terms[name], progress):
                continue
            norm = norms[name] if name in norms else gradient_norm(weighted[name], parameters)
            self.log.gradient_norms[name_of_stage][name] = float(f"{norm:.6g}")
            if norm > 0 or math.isnan(norm):  # a NaN is the other guard's business
                del self._without_gradient[name]
            elif can_move:
                self._without_gradient[name] += 1
        dead = [name for name, steps in self._without_gradient.items() if steps > GRADIENT_WITHIN]
        if dead:
            raise self._no_gradient(dead)

    def _check_parameters(self, scheduled: ScheduledStage, losses: Iterable[Tensor]) -> None:
        """Stop a training whose loss goes through parameters that no optimiser has.

        Those of a projection that is made in the term are such.
        """
        held = {id(parameter) for parameter in self._modules().parameters()}
        # the graph of the losses down to its leaves
        waiting: list[Any] = [loss.grad_fn for loss in losses]
        visited: set[Any] = set()
        while waiting:
            node = waiting.pop()
            if node is None or node in visited:
                continue
            visited.add(node)
            waiting += [function for function, _ in node.next_functions]
            # a leaf stands at the end of the graph, in the node that accumulates its gradient
            if node.name() != "torch::autograd::AccumulateGrad":
                continue
            leaf = node.variable
            if isinstance(leaf, nn.Parameter) and id(leaf) not in held:
                raise CellError(
                    f"{self.label}, stage {scheduled.stage.name}: a parameter of shape "
                    f"{list(leaf.shape)} gets a gradient and is neither in the model nor in aux, "
                    "so nothing trains it; put its module into Student.aux"
                )

    def _check_losses(self) -> None:
        """Fetch the pending loss values; raise at the first that is not a number."""
        if not self._pending or self._current is None:
            return
        # [steps, terms], in one copy from the device
        table = torch.stack(self._pending).cpu()
        first = self._step_of_stage + 1 - len(table)
        self._pending = []
        names = list(self._current.terms)
        # by step, then by term: one bad step spoils all that follow
        bad = (~torch.isfinite(table)).nonzero()
        if len(bad):
            row, column = bad[0].tolist()
            step = first + row
            advice = "nothing was trained yet: look at what it computes"
            if step:
                advice = "try a smaller learning rate"
            raise CellError(
                f"{self.label}, stage {self._current.stage.name}: the term {names[column]} became "
                f"{float(table[row, column])} at step {step}; {advice}, "
                "or --precision fp32 if it was bf16"
            )
        for column, name in enumerate(names):
            self._curves[name] += table[:, column].tolist()


def as_scalar(name: str, value: Any) -> Tensor:
    """What a term returned. Raises CellError where that is no scalar tensor."""
    if isinstance(value, Tensor) and value.dim() == 0:
        return value
    what = repr(type(value).__name__)
    if isinstance(value, Tensor):
        what = f"a tensor of shape {list(value.shape)}"
    raise CellError(f"the term {name} returned {what}; it should return a scalar tensor")


def weight_at(term: Term, progress: float) -> float:
    """A term's weight at a stage's progress."""
    return term.weight(progress) if callable(term.weight) else term.weight


def gradient_norm(loss: Tensor, parameters: Sequence[nn.Parameter]) -> float:
    """Euclidean norm of d loss / d parameters; 0.0 where nothing connects them."""
    if not loss.requires_grad:
        return 0.0
    # the graph stays: the step goes back through it once more
    gradients = torch.autograd.grad(loss, parameters, retain_graph=True, allow_unused=True)
    squares = [g.float().square().sum() for g in gradients if g is not None]
    return math.sqrt(sum(torch.stack(squares).tolist())) if squares else 0.0


def is_not_decayed(name: str) -> bool:
    """Whether a parameter is a bias or belongs to a LayerNorm, by its name.

    Examples: ``sa_layer_norm.weight``, ``bias_ih_l0``.
    """
    *modules, last = name.split(".")
    if "bias" in last.split("_"):
        return True
    if any(module.lower().endswith("norm") for module in modules):
        return True
    return any("layernorm" in part.replace("_", "").lower() for part in (*modules, last))


def optimizer_of(
    named: Sequence[tuple[str, nn.Parameter]],
    recipe: Recipe,
    scale_of: Callable[[str], float] = lambda name: 1.0,
    undecayed: Callable[[str], bool] = lambda name: False,
) -> torch.optim.Optimizer:
    """The recipe's optimiser, without decay on biases and LayerNorms, as BERT is tuned.

    Args:
        named: parameters by name. Those of learning rate 0 are not in it.
        scale_of: the name of a parameter -> its factor on the learning rate.
        undecayed: the name of a parameter -> whether it has no decay either.
    """
    # parameters that are moved alike: plain or not, their decay, their factor on the rate
    alike: dict[tuple[bool, float, float], list[nn.Parameter]] = {}
    for plain in (False, True):
        for name, parameter in named:
            factor = scale_of(name)
            if is_not_decayed(name) != plain or factor <= 0:
                continue
            decay = 0.0 if plain or undecayed(name) else recipe.weight_decay
            alike.setdefault((plain, decay, factor), []).append(parameter)
    groups = []
    for (plain, decay, factor), those in alike.items():
        groups.append({"params": those, "weight_decay": decay, "factor": factor, "plain": plain})
    return built(groups, recipe)
