"""Who is compared. A contestant joins by an entry here."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path

import textbrewer_peer
import torch
import trainer_peer
from our_loop import Ours
from work import Train, Work

from bench.train.numerics import ComputeSettings
from methods.fast_kernels import problem_here

AGREE = 1e-5
"""How far a contestant's first loss may be from the first one's, as a part of it."""


@dataclass(frozen=True)
class Contestant:
    """One way to do the work."""

    title: str
    train: Train
    is_peer: bool = False
    """whether it is one of those that we are compared with, on the same batches"""
    same_batches: bool = True
    agree: float = AGREE
    useful: tuple[str, ...] = ("teacher", "student")
    """whose products a step computes in fp32; none where it computes in other numbers, which have another peak"""
    package: str = ""
    """what has to be installed"""
    problem_here: Callable[[], str] = str
    """why it cannot run on this machine; "" where it can"""
    by_default: bool = True

    @property
    def problem(self) -> str:
        """What keeps it from taking part; "" where nothing does."""
        if self.package and find_spec(self.package) is None:
            return f"install {self.package}"
        return self.problem_here()


CONTESTANTS: Mapping[str, Contestant] = {
    "trainer": Contestant("Hugging Face Trainer, dynamic padding", trainer_peer.train, is_peer=True),
    "textbrewer": Contestant(
        "TextBrewer, dynamic padding", textbrewer_peer.train, is_peer=True, package=textbrewer_peer.PACKAGE
    ),
    "trainer-by-length": Contestant(
        "Hugging Face Trainer, group_by_length (other batches)", trainer_peer.train_by_length, same_batches=False
    ),
    "ours": Contestant("bert-bench", Ours().train),
    "ours-fast": Contestant("bert-bench, --kernels fast", Ours(is_fast=True).train, problem_here=problem_here),
    "ours-kept": Contestant("bert-bench, teacher's outputs kept (fp32)", Ours(kept="fp32").train, useful=("student",)),
    "ours-bf16": Contestant(
        "bert-bench, --precision bf16 (other numbers)",
        Ours(ComputeSettings(torch.device("cpu"), "bf16")).train,
        agree=0.05,
        useful=(),
        by_default=False,
    ),
}


class OtherWork(Exception):
    """A contestant minimises something else: its seconds would mean nothing."""


def first_losses(
    contestants: Mapping[str, Contestant], work: Work, done: Callable[[str, float], None] = lambda name, loss: None
) -> dict[str, float]:
    """The loss of everybody's first step, on the same batch without dropout.

    Raises:
        OtherWork: they differ; it names who, and by how much.
    """
    one, losses = work.of_one_batch(), {}
    for name, contestant in contestants.items():
        with tempfile.TemporaryDirectory(dir=work.folder) as folder:
            losses[name] = contestant.train(replace(one, folder=Path(folder)), lambda: None)
        done(name, losses[name])
    refuse_differences(contestants, losses)
    return losses


def refuse_differences(contestants: Mapping[str, Contestant], losses: Mapping[str, float]) -> None:
    """Raises OtherWork for a loss that is too far from that of the first contestant."""
    first, reference = next(iter(losses.items()))
    for name, loss in losses.items():
        off = abs(loss / reference - 1)
        if not off <= max(contestants[name].agree, contestants[first].agree):
            raise OtherWork(
                f"{name}: the loss of its first step is {loss:.8g}, that of {first} {reference:.8g} ({off:.1e} apart, "
                f"allowed {contestants[name].agree:.0e}): it does other work, so it is not timed"
            )


def chosen(names: Sequence[str]) -> tuple[dict[str, Contestant], list[str]]:
    """The contestants of these names, or those by default; and notes on those that cannot take part."""
    wanted = list(names) or [name for name, one in CONTESTANTS.items() if one.by_default]
    if unknown := [name for name in wanted if name not in CONTESTANTS]:
        raise OtherWork(f"there is no contestant {', '.join(unknown)}; choose among {', '.join(CONTESTANTS)}")
    problems = {name: CONTESTANTS[name].problem for name in wanted}
    there = {name: CONTESTANTS[name] for name, problem in problems.items() if not problem}
    return there, [f"{name} is left out: {problem}" for name, problem in problems.items() if problem]
