"""TextBrewer: its GeneralDistiller with intermediate matches, driven by its own ``train``.

A turn ends where its loop asks for the next batch, so it has everything that the loop does between two steps. Its
losses are its own. Its design has one projection for each match, five in all, which begin with the same numbers here;
that is a million parameters more for the optimiser, less than a thousandth of a step's work.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import torch
from padded import OUTPUTS, loader_of, padded_models
from torch import Tensor
from work import Work

from bench.optimizers.learning_rate import multiplier
from bench.train.student_trainer import is_not_decayed

PACKAGE = "textbrewer"


class _Handing:
    """A loader that ends a turn before it fetches the next batch; the first is fetched in the first turn."""

    def __init__(self, loader: Any, on_step: Callable[[], None]) -> None:
        self._loader, self._on_step = loader, on_step

    def __len__(self) -> int:
        return len(self._loader)

    def __iter__(self) -> Iterator[dict[str, Tensor]]:
        for number, batch in enumerate(self._batches()):
            yield batch
            if number + 1 < len(self):
                self._on_step()

    def _batches(self) -> Iterator[dict[str, Tensor]]:
        yield from self._loader


def _adapted(batch: dict[str, Tensor], outputs: Any) -> dict[str, Any]:
    return {"hidden": outputs.hidden_states, "attention": outputs.attentions, "inputs_mask": batch["attention_mask"]}


def train(work: Work, on_step: Callable[[], None]) -> float:
    """The work's batches."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of its imports
        from textbrewer import DistillationConfig, GeneralDistiller, TrainingConfig

    models, recipe = padded_models(work), work.recipe
    widths = [models.projection.in_features, models.projection.out_features]
    matches = []
    for m, n in models.layers.items():
        hidden = {"layer_T": n, "layer_S": m, "feature": "hidden", "loss": "hidden_mse", "weight": 1.0}
        matches.append({**hidden, "proj": ["linear", *widths, {"lr": recipe.learning_rate}]})
        if m:
            pair = {"layer_T": m - 1, "layer_S": m - 1}  # transformers leaves out the teacher's layers without scores
            matches.append({**pair, "feature": "attention", "loss": "attention_mse", "weight": 1.0})

    losses: list[Tensor] = []

    class Kept(GeneralDistiller):  # type: ignore[misc]
        """With the losses kept, which it writes to a board alone."""

        def train_on_batch(self, batch: Any, args: Any) -> Any:
            found = super().train_on_batch(batch, args)
            losses.append(found[0].detach().clone())  # its loop divides the loss in place
            return found

    config = TrainingConfig(
        device="cpu", output_dir=str(work.folder / "textbrewer"), log_dir=None, ckpt_steps=len(work.batches)
    )
    distilled = DistillationConfig(intermediate_matches=matches, kd_loss_weight=0.0, hard_label_weight=0.0)
    distiller = Kept(config, distilled, models.teacher, models.student, _adapted, _adapted)
    for projection in distiller.projs:
        if projection is not None:
            projection.load_state_dict(models.projection.state_dict())
    loader = _Handing(loader_of(work, work.batches), on_step)
    with distiller:
        distiller.train(
            _optimiser(models.student, work),
            loader,
            num_steps=len(work.batches),
            scheduler_class=torch.optim.lr_scheduler.LambdaLR,
            scheduler_args={
                "lr_lambda": lambda step: multiplier(recipe.schedule, recipe.warmup, step, len(work.batches))
            },
            max_grad_norm=recipe.clip,
            callback=None,
            **OUTPUTS,
        )
    on_step()
    return float(torch.stack(losses).mean())


def _optimiser(student: torch.nn.Module, work: Work) -> torch.optim.Optimizer:
    """AdamW as the others have it: fused, and no decay on biases and LayerNorm."""
    groups = [
        {
            "params": [p for name, p in student.named_parameters() if is_not_decayed(name) == plain],
            "weight_decay": 0.0 if plain else work.recipe.weight_decay,
        }
        for plain in (False, True)
    ]
    return torch.optim.AdamW(groups, lr=work.recipe.learning_rate, fused=True)
