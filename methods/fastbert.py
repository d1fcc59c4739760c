"""FastBERT, Liu et al. 2020 (ACL): branches after every layer, self-distillation, early
exit by uncertainty.

The paper's: the teacher's own backbone with a student classifier after every layer but the last.
The branches learn the predictions of the last classifier on the same (or unlabelled) sentences, the
backbone stands still. In use a sequence leaves at the first layer whose prediction is certain
enough: entropy / log C at most the ``speed``; the last layer always answers. One training gives an
operating point for each speed.
As in the authors' code: each branch is Linear(W, 128)-tanh, self-attention of 128 with 2 heads, the
first token, Linear(128, 128)-tanh, Linear(128, C); KL(teacher || branch) summed over branches, mean
over B; a ten times larger learning rate than tuning has.
Ours: the backbone is the tuned teacher as it is (the authors tune it first with a last branch of
the same form; our teacher has been tuned already, with its own head, and all rows share it); the
targets come from the backbone without dropout, and the branches have none (the code leaves both
on, the branches' in their attention); the branches' learning rate falls to 0 at the end of their
training (in the code after three of five epochs, because the first stage's number of steps is
used; its rise takes 6 % of the training, ours 10 %). ``dropout=true`` and ``schedule=authors``
give the code's dropout and its fall of the rate. The code has no clipping, no correction of
Adam's bias, an eps of 1e-6, and a weight decay that never takes effect; ours are the recipe's. A
regression has no entropy: its branches learn by mean squared error, and every sequence goes to
the end at every speed below 1.
Teachers of RoBERTa, ELECTRA and MPNet have the same branches. A ModernBERT's states are normalised
behind its last layer alone: what a branch should read of the others is nowhere said.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, ClassVar, Literal, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers import BertConfig, BertForSequenceClassification, PretrainedConfig
from transformers.modeling_outputs import SequenceClassifierOutput

from methods.api import Batch, Method, MethodError, Out, Setup, Stage, Student, Term
from methods.core import losses
from methods.core.artefacts import Artefact, TeacherWeights
from methods.core.families import family_of
from methods.core.models import Cost, PackedModel, linear_macs, run_layers
from methods.core.packed import AttentionTrace, Layout, packed_attention
from methods.core.parts import in_every_family, load_checked, own_classifier, require_layers
from methods.core.settings import Count
from methods.core.taps import LOGITS, Tap, Taps, exits, hidden, layers_of

BRANCH_DROPOUT = 0.1
"""Of the weights of a branch's attention, with ``dropout=true``: what the authors' configuration
gives all dropouts."""


class FastBertConfig(BertConfig):
    """A BERT with branches; ``speed`` is the uncertainty at which a sequence leaves."""

    model_type = "fastbert"
    branch_width: int = 128
    branch_heads: int = 2
    speed: float = 0.0


class Branch(nn.Module):
    """A classifier after one layer."""

    def __init__(self, config: FastBertConfig) -> None:
        super().__init__()
        width = config.branch_width
        read = cast(int, config.hidden_size)
        classes = cast(int, config.num_labels)
        self.heads = config.branch_heads
        self.dropout = 0.0  # share of attention weights that training leaves out
        self.narrow = nn.Linear(read, width)
        self.query, self.key, self.value, self.mix, self.between = (
            nn.Linear(width, width) for _ in range(5)
        )
        self.answer = nn.Linear(width, classes)

    def _heads(self, x_LX: Tensor) -> list[Tensor]:
        """Queries, keys and values: [..., L, X] -> [..., H, L, D] each."""
        layers = (self.query, self.key, self.value)
        return [layer(x_LX).unflatten(-1, (self.heads, -1)).transpose(-3, -2) for layer in layers]

    def forward(self, states_TW: Tensor, layout: Layout) -> Tensor:
        """[T, W] packed states -> [B, C]."""
        q, k, v = (x_HTD[None] for x_HTD in self._heads(torch.tanh(self.narrow(states_TW))))
        mixed_1THD, _ = packed_attention(
            self, q, k, v, None, trace=AttentionTrace(layout), dropout=self.dropout
        )
        return self._answer(layout.first(mixed_1THD[0].flatten(1)))

    def padded(self, states_BLW: Tensor, mask_BL: Tensor | None) -> Tensor:
        """[B, L, W] padded states -> [B, C]; for use, so without dropout."""
        q, k, v = self._heads(torch.tanh(self.narrow(states_BLW)))
        scores_BHLL = q @ k.transpose(2, 3) * q.size(-1) ** -0.5
        if mask_BL is not None:
            scores_BHLL = scores_BHLL.masked_fill(~mask_BL.bool()[:, None, None, :], float("-inf"))
        return self._answer((scores_BHLL.softmax(-1) @ v).transpose(1, 2).flatten(2)[:, 0])

    def _answer(self, first_BX: Tensor) -> Tensor:
        return self.answer(torch.tanh(self.between(self.mix(first_BX))))

    @staticmethod
    def cost(config: Any) -> Cost:
        width = config.branch_width
        return Cost(
            config.hidden_size * width + 3 * width**2,
            2 * width,
            2 * width**2 + width * config.num_labels,
        )


def uncertainty(logits_BC: Tensor) -> Tensor:
    """Entropy of each prediction over log C, [B] in [0, 1] (section 3.3); of a regression 1:
    certain at speed 1 alone."""
    if logits_BC.size(1) == 1:
        return torch.ones_like(logits_BC[:, 0])
    log_BC = F.log_softmax(logits_BC.float(), -1)
    return -(log_BC.exp() * log_BC).sum(-1) / math.log(logits_BC.size(1))


class LeavesEarly(PackedModel):
    """A classifier that lets sequences leave early; a mix-in, named first."""

    config: Any
    base_model: Any
    classifier: Any
    post_init: Any
    leaves_early = True

    def __init__(self, config: FastBertConfig) -> None:
        super().__init__(config)
        self.branches = nn.ModuleList(Branch(config) for _ in range(config.num_hidden_layers - 1))
        self.dropout_while_training = False  # of the backbone, while the branches train
        # layer -> sequences that left after it, in evaluation
        self.exits_after_layer: dict[int, int] = {}
        self.post_init()

    def train(self, mode: bool = True) -> LeavesEarly:
        super().train(mode)
        # the backbone does not learn: without dropout it answers as it will in use
        if not self.dropout_while_training:
            for name, part in self.named_children():
                part.train(mode and name == "branches")
        return self

    def packed_forward(self, batch: Batch, taps: Taps) -> Out:
        """Trains at full depth; answers by leaving early."""
        if taps == LOGITS and not self.training:
            return Out(batch.layout, {Tap("logits"): self._leaving(batch)})
        leaving = sorted(layers_of(taps, "exits"))  # in order: a branch may draw its dropout
        plain = taps - exits(*leaving)
        out = run_layers(self, batch, plain | hidden(*leaving))
        states = {number: out.hidden(number).detach() for number in leaving}
        answers = {
            Tap("exits", n): self.branches[n - 1](x_TW, batch.layout) for n, x_TW in states.items()
        }
        return Out(batch.layout, {tap: out[tap] for tap in plain} | answers)

    def _leaving(self, batch: Batch) -> Tensor:
        """[B, C]: each sequence goes only as deep as it has to; notes where each one left."""
        family = family_of(self)
        layout = batch.layout
        body = self.base_model
        x_TW = family.embed(body, batch)
        logits_BC = x_TW.new_empty(len(layout.lengths), self.config.num_labels)
        inside = torch.arange(len(layout.lengths), device=x_TW.device)
        depth = len(self.branches) + 1
        for number, layer in enumerate(family.layers(body), start=1):
            options = family.layer_options(body, x_TW, layout)(layer)
            x_TW = family.run(layer, x_TW[None], AttentionTrace(layout), options)[0]
            # who leaves here: the certain ones, and all that are left at the end
            if number == depth:
                answer_BC = self.classifier(family.pool(self, layout, x_TW))
                leaves = torch.ones(len(inside), dtype=torch.bool, device=x_TW.device)
            else:
                answer_BC = self.branches[number - 1](x_TW, layout)
                leaves = uncertainty(answer_BC) <= self.config.speed
            logits_BC[inside[leaves]] = answer_BC[leaves].to(logits_BC.dtype)
            self.exits_after_layer[number] = self.exits_after_layer.get(number, 0) + int(
                leaves.sum()
            )
            stays = ~leaves
            if not stays.any():
                break
            # the others, packed anew, go on to the next layer
            if leaves.any():
                x_TW = x_TW[stays.repeat_interleave(layout.lengths_B, output_size=layout.total)]
                lengths = [
                    n for n, stay in zip(layout.lengths, stays.tolist(), strict=True) if stay
                ]
                layout = Layout(lengths).to(layout.device)
                inside = inside[stays]
        return logits_BC

    def forward(
        self, input_ids: Tensor | None = None, attention_mask: Tensor | None = None, **options: Any
    ) -> SequenceClassifierOutput:
        """Padded input. The same answers, at the cost of full depth: every branch is computed."""
        options["output_hidden_states"] = True
        out = super().forward(input_ids, attention_mask=attention_mask, **options)
        answer_BC = out.logits
        # from the last branch back to the first, so that the earliest certain one counts
        for number in range(len(self.branches), 0, -1):
            branch: Any = self.branches[number - 1]
            branch_BC = branch.padded(out.hidden_states[number], attention_mask)
            certain_B1 = (uncertainty(branch_BC) <= self.config.speed)[:, None]
            answer_BC = torch.where(certain_B1, branch_BC, answer_BC)
        return SequenceClassifierOutput(logits=answer_BC)

    def cost(self) -> Cost:
        return self.cost_to(len(self.branches) + 1)

    def cost_to(self, layer: int) -> Cost:
        """Of a sequence that leaves after ``layer``: so many layers, a branch after each, or
        the last classifier."""
        c: Any = self.config
        branch = Branch.cost(c)
        branches = min(layer, len(self.branches))
        last = c.hidden_size**2 + c.hidden_size * c.num_labels if layer > len(self.branches) else 0
        each = 4 * c.hidden_size**2 + 2 * c.hidden_size * c.intermediate_size
        embedding = sum(map(linear_macs, family_of(self).embedding(self.base_model)))
        squared = layer * 2 * c.hidden_size + branches * branch.per_squared_length
        return Cost(
            embedding + layer * each + branches * branch.per_token,
            squared,
            branches * branch.per_sequence + last,
        )

    def observed(self) -> dict[str, Any]:
        """Share of the sequences answered so far that left after each layer, and the cost
        of an average one."""
        total = sum(self.exits_after_layer.values())
        shares = {layer: count / total for layer, count in sorted(self.exits_after_layer.items())}
        costs = {layer: asdict(self.cost_to(layer)) for layer in shares}
        parts = ("per_token", "per_squared_length", "per_sequence")
        average = dict.fromkeys(parts, 0.0)
        for layer, share in shares.items():
            for part in parts:
                average[part] += share * costs[layer][part]
        return {
            "left after layer": {str(n): round(share, 6) for n, share in shares.items()},
            "cost": average,
        }


@in_every_family
class FastBertForSequenceClassification(LeavesEarly, BertForSequenceClassification):
    """A classifier that lets sequences leave early; saves and loads like any other."""

    config_class = FastBertConfig


@dataclass(frozen=True, kw_only=True)
class FastBERT(Method):
    name: ClassVar = "fastbert"
    version: ClassVar = 1
    terms: ClassVar = ("branches",)
    ablations: ClassVar = {"authors' schedule": ":schedule=authors:dropout=true"}
    needs_teacher: ClassVar = True
    rate_factor: ClassVar = 10.0
    remark: ClassVar = (
        "fastbert: speed= is a threshold. A sequence exits at the first layer where the normalised "
        "entropy of the prediction is below this threshold. So with a higher value sequences exit "
        "earlier. In the row without speed= all sequences pass all layers."
    )
    tiny_settings: ClassVar = {"branch_width": 8}

    # operating points beside full depth, which is the row itself; separated by slashes
    speeds: str = "0.1/0.5/0.8"
    branch_width: Count = 128
    branch_heads: Count = 2
    direction: Literal["teacher", "student"] = "teacher"
    """Whose distribution comes first in the divergence: the code's KL(last || branch), or the
    paper's KL(branch || last)."""
    schedule: Literal["whole", "authors"] = "whole"
    dropout: bool = False
    """Whether the backbone's dropout and that of the branches' attention are on in
    training, as in the code."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.points()
        if self.branch_width % self.branch_heads:
            wrong = f"branch_width={self.branch_width}"
            raise MethodError(f"{wrong} should be a multiple of branch_heads={self.branch_heads}")

    def points(self) -> dict[str, float]:
        try:
            points = {f"speed={text.strip()}": float(text) for text in self.speeds.split("/")}
        except ValueError:
            right = "numbers above 0 and at most 1, between slashes, like 0.1/0.5"
            raise MethodError(f"speeds={self.speeds} should be {right}") from None
        if not all(0 < speed <= 1 for speed in points.values()):
            raise MethodError(f"speeds={self.speeds} should be above 0 and at most 1")
        return points

    def requires(self, teacher: PretrainedConfig) -> Sequence[Artefact]:
        require_layers(teacher, self.name)
        if teacher.num_hidden_layers < 2:
            raise MethodError("a teacher of one layer has nothing to leave before")
        return (TeacherWeights(tuned=True),)

    def build(self, setup: Setup) -> Student:
        sizes = {"branch_width": self.branch_width, "branch_heads": self.branch_heads}
        model = own_classifier(FastBertConfig, setup.teacher, setup.num_labels, **sizes)
        load_checked(model, setup.artefacts["tuned_teacher"], "the teacher", new=("branches.",))
        # the backbone stays as it was tuned; the branches alone learn
        for name, parameter in model.named_parameters():
            parameter.requires_grad = name.startswith("branches.")
        model.dropout_while_training = self.dropout
        for branch in model.branches:
            cast(Branch, branch).dropout = BRANCH_DROPOUT if self.dropout else 0.0
        return Student(model)

    def stages(self, setup: Setup) -> Sequence[Stage]:
        layers = range(1, setup.teacher.num_hidden_layers)

        def branches(batch: Batch, student: Out, teacher: Out, aux: nn.ModuleDict) -> Tensor:
            last = student.logits.detach()
            pairs = ((student.exits(m), last) for m in layers)
            if self.direction == "student":
                pairs = ((last, student.exits(m)) for m in layers)
            each = [losses.soft_kl_batchmean(ours, theirs, 1.0) for ours, theirs in pairs]
            return sum(each)  # type: ignore[return-value]

        def lr_scale(progress: float) -> float:
            """Ten times the tuning's rate; the authors' falls to 0 after three of five epochs."""
            # divided by the recipe's own linear fall, 1 - progress: the product falls to 0 at 0.6
            return (
                10.0
                if self.schedule == "whole"
                else 10.0 * max(0.0, (1 - progress / 0.6) / (1 - progress))
            )

        # the last classifier is the branches' teacher: they do not change it
        term = Term(branches, student=LOGITS | exits(*layers), targets=LOGITS)
        return (
            Stage(
                "branches",
                {"branches": term},
                lr_scale=lr_scale,
                paper={"epochs": 5.0, "learning_rate": 2e-5},
            ),
        )

    def deploy(self, student: Student) -> Mapping[str, nn.Module]:
        """One model for each speed, full depth last (speed 0: a branch answers only if its entropy
        is exactly 0). They share their weights."""
        deployed = {}
        for point, speed in {**self.points(), "": 0.0}.items():
            model: Any = copy.copy(student.model)
            model.config = copy.deepcopy(student.model.config)
            model.config.speed = speed
            model.exits_after_layer = {}
            deployed[point] = model
        return deployed
