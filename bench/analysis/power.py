"""The power of a development set to tell two systems apart, in words and numbers."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from bench.errors import InputError, unknown
from bench.record.known_tasks import GLUE
from bench.request.text import parse_seeds
from bench.stats.metrics import metric_of
from bench.stats.power import (
    POWER,
    development_examples,
    examples_for,
    least_gap,
    least_gap_of_seeds,
    power_of_seeds,
    seeds_for,
)
from bench.stats.power import power as power_of

MANY_EXAMPLES = 10**9
MANY_SEEDS = 100
USUAL = f"{100 * POWER:.0f} of 100 cases"


@dataclass(frozen=True)
class PowerOfGap:
    """How a test of two trainings fares with a true difference.

    Attributes:
        gap: the difference, in points.
        power: how often it is found.
        examples_needed: so that it is found with the usual power.
    """

    gap: float
    power: float
    examples_needed: int


@dataclass(frozen=True)
class PowerOfSeeds:
    """How a test of several seeds fares.

    Attributes:
        seeds: of each method.
        spread: standard deviation of a method's score over its seeds, in points.
        seed_disagreement: percent of the examples that exactly one of two seeds of the same method
            answers correctly.
        least_gap_of_seeds: the minimum detectable difference, in points; None where even the
            largest possible one is not found often enough.
        power_of_seeds: how often the difference in question is found.
        seeds_needed: so that it is found with the usual power; None where a hundred are too few.
    """

    seeds: int
    spread: float
    seed_disagreement: float
    least_gap_of_seeds: float | None
    power_of_seeds: float | None = None
    seeds_needed: int | None = None


@dataclass(frozen=True)
class PowerAnalysis:
    """The differences that a test set can show.

    Attributes:
        task: the task of its development set; "" for a test set of one's own.
        examples: how many it has.
        disagreement: percent of them that exactly one of two systems answers correctly.
        least_gap: the minimum detectable difference of two trainings, in points; None where even
            the largest possible one is not found often enough.
        of_gap: how a test fares with one difference; None where none was asked for.
        of_seeds: how a test of several seeds fares; None for one seed.
    """

    task: str
    examples: int
    disagreement: float
    least_gap: float | None
    of_gap: PowerOfGap | None
    of_seeds: PowerOfSeeds | None

    def to_dict(self) -> dict[str, Any]:
        """Plain values, all beside each other."""
        values = asdict(self)
        del values["of_gap"]
        del values["of_seeds"]
        if self.of_gap is not None:
            values |= asdict(self.of_gap)
        if self.of_seeds is not None:
            values |= asdict(self.of_seeds)
            if self.of_gap is None:
                del values["power_of_seeds"]
                del values["seeds_needed"]
        return values


def number_of_seeds(text: str) -> int:
    """``"0,1,2"`` or ``"3"`` -> 3: other verbs name seeds one by one, and what counts here is how
    many there are.

    Raises:
        InputError: neither.
    """
    if "," in text:
        return len(set(parse_seeds(text)))
    try:
        return int(text)
    except ValueError:
        raise InputError(f"--seeds {text}: give seeds, like 0,1,2, or how many, like 3") from None


def power_analysis(
    task: str,
    examples: int | None,
    gap: float | None,
    disagreement: float,
    seeds: int = 1,
    spread: float | None = None,
    seed_disagreement: float | None = None,
) -> PowerAnalysis:
    """Power of McNemar's test at 5 %, or of a comparison over several seeds.

    Args:
        gap, spread: in points.
        disagreement, seed_disagreement: in percent of the examples; without the second, seeds of
            one method differ on as many examples as two methods do.

    Raises:
        InputError: no or two test sets, an unknown task, shares that cannot be.
    """
    if task and task not in GLUE:
        raise unknown("task", task, list(GLUE))
    why = _refused_test_set(task, examples) or _refused_difference(gap, disagreement)
    why = why or _refused_seeds(seeds, spread, seed_disagreement, disagreement)
    if why:
        raise InputError(why)

    # two trainings
    count = examples or development_examples(task)
    differing = disagreement / 100
    of_gap = None
    if gap is not None:
        of_gap = PowerOfGap(
            gap=gap,
            power=power_of(gap / 100, count, differing),
            examples_needed=examples_for(gap / 100, differing),
        )

    # several seeds of each method
    of_seeds = None
    if spread is not None:
        if seed_disagreement is None:
            seed_disagreement = disagreement
        shares = (spread / 100, differing, seed_disagreement / 100)
        of_seeds = PowerOfSeeds(
            seeds=seeds,
            spread=spread,
            seed_disagreement=seed_disagreement,
            least_gap_of_seeds=_in_points(least_gap_of_seeds(count, seeds, *shares)),
            power_of_seeds=None
            if gap is None
            else power_of_seeds(gap / 100, count, seeds, *shares),
            seeds_needed=None if gap is None else seeds_for(gap / 100, count, *shares),
        )
    least = _in_points(least_gap(count, differing))
    return PowerAnalysis(task, count, disagreement, least, of_gap, of_seeds)


def _in_points(share: float | None) -> float | None:
    return None if share is None else 100 * share


def _refused_test_set(task: str, examples: int | None) -> str:
    """Why a test set is refused; "" where it is not."""
    if bool(task) == (examples is not None):
        return "give --tasks NAME, or --examples NUMBER for a test set of your own"
    if task and not any(metric_of(name).right for name in GLUE[task].metrics):
        return f"{task} has no share of right answers; `bench compare` has its intervals"
    if examples is not None and examples < 1:
        return f"--examples {examples}: should be at least 1"
    return ""


def _refused_difference(gap: float | None, disagreement: float) -> str:
    """Why a difference and a disagreement are refused; "" where they are not."""
    if not 0 < disagreement <= 100:
        return f"--disagreement {disagreement:g}: should lie between 0 and 100 percent"
    if gap is not None and not 0 < gap <= disagreement:
        return (
            f"--gap {gap}: should be above 0 and at most the disagreement, {disagreement:g}: "
            "systems that differ on so many examples cannot be further apart"
        )
    return ""


def _refused_seeds(
    seeds: int, spread: float | None, seed_disagreement: float | None, disagreement: float
) -> str:
    """Why numbers of several seeds are refused; "" where they are not."""
    if seeds < 1 or (spread is not None and not 0 < spread <= 100):
        return "--seeds should be at least 1, --spread above 0 and at most 100 points"
    if (seeds > 1) != (spread is not None):
        return (
            "--seeds of two or more and --spread go together: the points by which one system's "
            "score scatters over its seeds, the number after ± in a report; one seed says nothing "
            "of it"
        )
    if seed_disagreement is None:
        return ""
    if seeds < 2 or not 0 <= seed_disagreement <= disagreement:
        return (
            f"--seed-disagreement {seed_disagreement}: should lie between 0 and --disagreement, "
            "and go with --seeds of two or more"
        )
    return ""


def describe(answer: PowerAnalysis) -> str:
    """The analysis in a few sentences."""
    # two trainings
    largest = answer.disagreement / 100
    lines = [
        f"{answer.task or 'The test set'} has {answer.examples:,} examples. Exactly one of the two "
        f"systems is right on {answer.disagreement:g} % of them.",
        _least("two trainings", answer.least_gap, power_of(largest, answer.examples, largest)),
    ]
    gap = answer.of_gap
    if gap is not None:
        hint = "" if answer.of_seeds else "; --seeds says what several seeds find"
        lines.append(
            f"It finds a true difference of {_points(gap.gap)} in {100 * gap.power:.0f} of 100 "
            f"cases. For {USUAL} it needs {gap.examples_needed:,} examples{hint}."
        )
    seeds = answer.of_seeds
    if seeds is None:
        return "\n".join(lines)

    # several seeds of each method
    shares = (seeds.spread / 100, largest, seeds.seed_disagreement / 100)
    lines.append(
        f"Exactly one of two seeds of the same method is right on {seeds.seed_disagreement:g} % of "
        "the examples (--seed-disagreement; without it as many as two methods differ on, which is "
        "the most that it can be): more seeds average this part out."
    )
    lines.append(
        _least(
            f"two methods with {seeds.seeds} seeds each "
            f"(standard deviation {_points(seeds.spread)})",
            seeds.least_gap_of_seeds,
            power_of_seeds(largest, answer.examples, seeds.seeds, *shares),
        )
    )
    if gap is not None and seeds.power_of_seeds is not None:
        if seeds.seeds_needed:
            needed = f"For {USUAL} it needs {seeds.seeds_needed} seeds of each method."
        else:
            # where the seeds scatter as a whole, a larger test set does not help either
            most = power_of_seeds(gap.gap / 100, MANY_EXAMPLES, MANY_SEEDS, *shares)
            hint = ": it needs more examples" if most >= POWER else ""
            needed = f"A hundred seeds of each method are too few{hint}."
        lines.append(
            f"A test of these seeds finds a true difference of {_points(gap.gap)} in "
            f"{100 * seeds.power_of_seeds:.0f} of 100 cases. {needed}"
        )
    return "\n".join(lines)


def _points(value: float) -> str:
    return f"{value:g} point{'' if value == 1 else 's'}"


def _least(systems: str, least: float | None, largest: float) -> str:
    """The minimum detectable difference in words.

    Args:
        least: in points; None where there is none.
        largest: the power for the largest possible difference.
    """
    begins = f"Minimum detectable difference of {systems}:"
    if least is not None:
        return (
            f"{begins} {least:.1f} points. A test finds a true difference of this size in {USUAL}."
        )
    return (
        f"{begins} none. Even if one system alone is right on all these examples, a test finds the "
        f"difference in {100 * largest:.0f} of 100 cases."
    )
