"""What went wrong in a training that ended: terms that exploded, stood still or lost their gradient; answers that are suspect.

Each is one line that says what to try. It is said while the run goes on, and kept in the record.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from bench.stats.guards import Suspicion

EXPLODED = 10.0
"""A term has exploded if its last values are at least so many times its first values."""
STILL = 1e-5
"""A term stands still if, over a whole stage, it changes by no more than this part of its value."""
WINDOWS = 8
"""A curve's first and last eighth are compared; one of fewer values than this says nothing."""
SUSPECT = "suspect answers"

STUDENT_TRIES = "try more epochs, a smaller or a larger learning rate, and look at the terms of this record"
TEACHER_TRIES = "its students learn from it: try more epochs or a smaller learning rate for it, another --teacher, and look at the labels"


def faults_of_training(
    terms: Mapping[str, Mapping[str, Sequence[float]]], shares: Mapping[str, Mapping[str, Sequence[float]]]
) -> list[str]:
    """A line for each thing that went wrong.

    Args:
        terms: stage -> term -> its value over the stage, as a record keeps it.
        shares: stage -> term -> its share of its player's gradient, at some steps from the first on.
    """
    return [line for stage in terms for line in _of_stage(stage, terms[stage], shares.get(stage, {}))]


def _of_stage(stage: str, terms: Mapping[str, Sequence[float]], shares: Mapping[str, Sequence[float]]) -> Iterator[str]:
    for name, curve in terms.items():
        of = f"stage {stage}: the term {name}"
        if lost := _lost_gradient(shares.get(name, ())):
            yield (
                f"{of} had no gradient from measurement {lost} of {len(shares[name])} on: what it reads is dead or saturated; "
                f"try a smaller learning rate, or drop it (:-{name})"
            )
        elif len(curve) >= WINDOWS and max(curve) - min(curve) <= STILL * max(map(abs, curve)):
            yield (
                f"{of} stayed at {curve[0]:.4g}: what it trains is dead, or cannot move it; "
                f"try another learning rate or seed, or drop it (:-{name})"
            )
        elif grown := _grown(curve):
            yield (
                f"{of} grew from {grown[0]:.3g} to {grown[1]:.3g}; "
                "try a smaller learning rate, a smaller weight of the term, or another seed"
            )


def _lost_gradient(shares: Sequence[float]) -> int:
    """The measurement, from 1 on, from which a gradient that was there is exactly 0 to the end; 0 for none."""
    alive = [number for number, share in enumerate(shares, start=1) if share > 0]
    return alive[-1] + 1 if alive and alive[-1] < len(shares) else 0


def _grown(curve: Sequence[float]) -> tuple[float, float] | None:
    """The means of a curve's first and last eighth, if the last is many times the first."""
    part = len(curve) // WINDOWS
    if not part:
        return None
    first, last = (abs(sum(of) / part) for of in (curve[:part], curve[-part:]))
    return (first, last) if first > 0 and last >= EXPLODED * first else None


def faults_of_answers(name: str, suspicions: Iterable[Suspicion], is_teacher: bool) -> list[str]:
    """A line for each thing that is suspect about the answers to an evaluation set, with what to try."""
    what_to_try = TEACHER_TRIES if is_teacher else STUDENT_TRIES
    return [f"{SUSPECT} to {name}: {one}; {what_to_try}" for one in suspicions]
