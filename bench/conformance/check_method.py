"""The conformance checks, carried out on one method's class."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bench.conformance.checks import CHECKS, Suite
from bench.conformance.tiny_bench import Broken
from bench.plan.plugins import refuse_other_classes
from methods.api import Method, missing_members


@dataclass(frozen=True)
class Check:
    """The outcome of one check: ``found`` says what is wrong, and is empty where nothing is."""

    name: str
    found: str
    seconds: float

    @property
    def passed(self) -> bool:
        return not self.found


def check_method(
    method: type[Method],
    names: Sequence[str] = (),
    on_check: Callable[[Check], Any] = lambda check: None,
    settings: Mapping[str, Any] | None = None,
) -> list[Check]:
    """Run the checks (all, or those named) on a method's class. Those after ``needs`` are run only if that one passes.

    Args:
        settings: in the place of its defaults, and of those for tests.

    Raises:
        KeyError: a check that does not exist.
        InputError: it is not written for today's contract.
    """

    def none_can_run(found: str) -> list[Check]:
        check = Check("contract", found, 0.0)
        on_check(check)
        return [check]

    wanted = {name: CHECKS[name] for name in names or CHECKS}
    refuse_other_classes(method.__name__, method)
    if missing := missing_members(method):
        return none_can_run(f"it lacks {', '.join(missing)}")
    try:
        suite = Suite(method, settings or {})
    except Exception as error:
        return none_can_run(f"it cannot be made with its settings for tests: {error}")
    done: list[Check] = []
    for name, look in wanted.items():
        begun, found = time.perf_counter(), ""
        try:
            look(suite)
        except Exception as error:
            found = str(error) if isinstance(error, Broken) else f"{type(error).__name__}: {error}"
        done.append(Check(name, found, round(time.perf_counter() - begun, 3)))
        on_check(done[-1])
        if found and name == "needs":
            break  # whatever trains or reads terms would fail for the same reason
    return done
