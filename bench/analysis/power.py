"""What a development set can tell about two systems, in words and numbers."""

from __future__ import annotations

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


def number_of_seeds(text: str) -> int:
    """``"0,1,2"`` or ``"3"`` -> 3: other verbs name seeds one by one, and what counts here is how many there are.

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
) -> dict[str, Any]:
    """Power of McNemar's test at 5 %, or of a comparison over several seeds; gaps, disagreements and spread in percent.

    ``least_gap`` and ``least_gap_of_seeds`` are None where even the largest possible difference is not found often enough.

    Raises:
        InputError: no or two test sets, an unknown task, shares that cannot be.
    """
    if task and task not in GLUE:
        raise unknown("task", task, list(GLUE))
    refusals = {
        "give --tasks NAME, or --examples NUMBER for a test set of your own": bool(task)
        == (examples is not None),
        f"{task} has no share of right answers; `bench compare` has its intervals": bool(task)
        and not any(metric_of(name).right for name in GLUE[task].metrics),
        f"--examples {examples}: should be at least 1": examples is not None and examples < 1,
        f"--disagreement {disagreement:g}: should lie between 0 and 100 percent": not 0
        < disagreement
        <= 100,
        f"--gap {gap}: should be above 0 and at most the disagreement, {disagreement:g}: systems that differ on so many examples "
        "cannot be further apart": gap is not None and not 0 < gap <= disagreement,
        "--seeds should be at least 1, --spread above 0 and at most 100 points": seeds < 1
        or (spread is not None and not 0 < spread <= 100),
        "--seeds of two or more and --spread go together: the points by which one system's score scatters over its seeds, the "
        "number after ± in a report; one seed says nothing of it": (seeds > 1)
        != (spread is not None),
        f"--seed-disagreement {seed_disagreement}: should lie between 0 and --disagreement, and go with --seeds of two or more": (
            seed_disagreement is not None
            and (seeds < 2 or not 0 <= seed_disagreement <= disagreement)
        ),
    }
    for why, is_wrong in refusals.items():
        if is_wrong:
            raise InputError(why)

    n, differing = examples or development_examples(task), disagreement / 100
    least = least_gap(n, differing)
    answer: dict[str, Any] = {"task": task, "examples": n, "disagreement": disagreement}
    answer["least_gap"] = None if least is None else 100 * least
    if gap is not None:
        answer |= {"gap": gap, "power": power_of(gap / 100, n, differing)}
        answer["examples_needed"] = examples_for(gap / 100, differing)
    if spread is not None:
        of_seeds = disagreement if seed_disagreement is None else seed_disagreement
        shares = spread / 100, differing, of_seeds / 100
        least = least_gap_of_seeds(n, seeds, *shares)
        answer |= {"seeds": seeds, "spread": spread, "seed_disagreement": of_seeds}
        answer["least_gap_of_seeds"] = None if least is None else 100 * least
        if gap is not None:
            answer["power_of_seeds"] = power_of_seeds(gap / 100, n, seeds, *shares)
            answer["seeds_needed"] = seeds_for(gap / 100, n, *shares)
    return answer


def describe(answer: dict[str, Any]) -> str:
    """A few sentences."""
    usual = f"{100 * POWER:.0f} of 100 cases"
    name, n, most = (
        answer["task"] or "The test set",
        answer["examples"],
        answer["disagreement"] / 100,
    )
    gap, seeds = answer.get("gap"), answer.get("seeds")

    def points(value: float) -> str:
        return f"{value:g} point{'' if value == 1 else 's'}"

    def least_of(systems: str, least: float | None, largest: float) -> str:
        """The minimum detectable difference in words; ``largest`` is the power for the largest possible difference."""
        begins = f"Minimum detectable difference of {systems}:"
        if least is not None:
            return f"{begins} {least:.1f} points. A test finds a true difference of this size in {usual}."
        return (
            f"{begins} none. Even if one system alone is right on all these examples, a test finds the difference in "
            f"{100 * largest:.0f} of 100 cases."
        )

    lines = [
        f"{name} has {n:,} examples. Exactly one of the two systems is right on {answer['disagreement']:g} % of them.",
        least_of("two trainings", answer["least_gap"], power_of(most, n, most)),
    ]
    if gap is not None:
        lines.append(
            f"It finds a true difference of {points(gap)} in {100 * answer['power']:.0f} of 100 cases. For {usual} it needs "
            f"{answer['examples_needed']:,} examples{'' if seeds else '; --seeds says what several seeds find'}."
        )
    if seeds is None:
        return "\n".join(lines)

    of_seeds = answer["seed_disagreement"]
    shares = answer["spread"] / 100, most, of_seeds / 100
    systems = f"two methods with {seeds} seeds each (standard deviation {points(answer['spread'])})"
    lines += [
        f"Exactly one of two seeds of the same method is right on {of_seeds:g} % of the examples (--seed-disagreement; without "
        "it as many as two methods differ on, which is the most that it can be): more seeds average this part out.",
        least_of(systems, answer["least_gap_of_seeds"], power_of_seeds(most, n, seeds, *shares)),
    ]
    if gap is not None:
        if answer["seeds_needed"]:
            needed = f"For {usual} it needs {answer['seeds_needed']} seeds of each method."
        else:  # where the seeds scatter as a whole, a larger test set does not help either
            helps = power_of_seeds(gap / 100, 10**9, 100, *shares) >= POWER
            needed = f"A hundred seeds of each method are too few{': it needs more examples' if helps else ''}."
        lines.append(
            f"A test of these seeds finds a true difference of {points(gap)} in {100 * answer['power_of_seeds']:.0f} of 100 cases. {needed}"
        )
    return "\n".join(lines)
