"""What a method that ships with the project owes the tests: said by its name and with an example."""

from __future__ import annotations

from collections.abc import Collection

import methods


def has_every_method(
    found: Collection[str], where: str, example: str, besides: Collection[str] = ()
) -> None:
    """Every method of ``methods.TABLE`` is among ``found``, and nothing else is.

    Args:
        where: what has an entry for each method.
        example: such an entry, to write another by.
        besides: methods that need none.

    Raises:
        AssertionError: naming the methods without an entry, or the entries without a method.
    """
    missing = [name for name in methods.TABLE if name not in found and name not in besides]
    assert not missing, (
        f"{where} has nothing for: {', '.join(missing)}. Add it, for example: {example}"
    )
    unknown = sorted(set(found) - set(methods.TABLE))
    assert not unknown, f"{where} names what methods.TABLE does not have: {', '.join(unknown)}"


def tiny_rows(*names: str) -> str:
    """Rows of these methods, by default of all, small enough for a test; for a teacher of four layers."""
    settings = {name: methods.get(name).tiny_settings for name in names or methods.names()}
    return ",".join(
        "".join([name, *(f":{key}={value}" for key, value in own.items())])
        for name, own in settings.items()
    )
