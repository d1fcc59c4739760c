"""Rounds: one step of every contestant each, in an order that turns from round to round."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from contestants import Contestant
from our_loop import share_steps
from peak import MatrixProducts, UsefulFlops
from peer_record import Record, now, rounds_of
from turns import Turns
from work import Work

Say = Callable[[str], None]
FIRST = 1
"""Turns of a session that are not counted: they also set up."""


def epochs_for(rounds: int, rows: int, batch: int) -> int:
    """So that nobody's training ends before the last round."""
    return -(-(rounds + FIRST) // (rows // batch))


def measure(
    record: Record, contestants: Mapping[str, Contestant], work: Work, wanted: int, save: Callable[[], None], say: Say
) -> None:
    """Add rounds until the record has ``wanted``; ``save`` is called after each."""
    names, done = list(contestants), len(rounds_of(record))
    session: dict[str, Any] = {
        "started": now(),
        "load": os.getloadavg()[0],
        "seed": work.seed,
        "first": {},
        "rounds": [],
    }
    record["sessions"].append(session)
    products, flops, batches = MatrixProducts(), UsefulFlops(work), work.batches
    shares = share_steps(len(batches))
    turns = {name: _turns(name, contestants[name], work) for name in names}
    try:
        for name in names:
            session["first"][name] = turns[name].step()
            say(f"{name}: ready after {session['first'][name]:.1f} s")
        for step in range(FIRST, FIRST + wanted - done):
            turn = step % len(names)
            order = names[turn:] + names[:turn]
            peak = products.rates()
            seconds = {name: turns[name].step() for name in order}
            session["rounds"].append(
                {
                    "step": step,
                    "measures_shares": step in shares,
                    "order": order,
                    "seconds": {name: seconds[name] for name in names},
                    "cpu_seconds": {name: turns[name].cpu_seconds for name in names},
                    "peak": peak,
                    "flops": dict(flops.of_batch(batches[step])),
                }
            )
            save()
            took = ", ".join(f"{name} {seconds[name]:.2f}" for name in names)
            left = (wanted - done - len(session["rounds"])) * sum(seconds.values()) / 60
            say(f"round {done + len(session['rounds'])} of {wanted}: {took} s; {left:.0f} min left")
    finally:
        for one in turns.values():
            one.close()


def _turns(name: str, contestant: Contestant, work: Work) -> Turns:
    own = Path(work.folder) / name
    own.mkdir()
    return Turns(name, lambda pause: contestant.train(replace(work, folder=own), pause))
