"""Findings as a text that one could paste into an issue or a review: what is printed, what follows, what it changes."""

from __future__ import annotations

from collections.abc import Sequence

from bench.audit.findings import ARITHMETIC, Finding, causes, printable, several


def prose(findings: Sequence[Finding], reading: str) -> str:
    """Markdown in plain sentences, arithmetic first, guesses below a heading of their own."""
    if not findings:
        return f"I checked the arithmetic of the tables ({reading}). Nothing is wrong that the numbers show.\n"
    certain = [cause for cause in causes(findings) if cause[0].basis == ARITHMETIC]
    guesses = [cause for cause in causes(findings) if cause[0].basis != ARITHMETIC]
    parts = [f"I checked the arithmetic of the tables with a script ({reading}). Some numbers do not fit the others."]
    if certain:
        parts += ["## What the printed numbers show", _list(certain)]
    if guesses:
        parts += [
            "## What may be worth a look",
            "These need a reading of the tables. They may have a good reason.",
            _list(guesses),
        ]
    return printable("\n\n".join(parts) + "\n")


def _list(found: Sequence[Sequence[Finding]]) -> str:
    return "\n".join(f"{number}. {_sentences(cause)}" for number, cause in enumerate(found, start=1))


def _sentences(cause: Sequence[Finding]) -> str:
    first = cause[0]
    rows = several([_quoted(f.row) for f in cause if f.row])
    columns = several([_quoted(f.column) for f in cause if f.column])
    place = f"{first.where}"
    place += f", row {rows}" if rows else ""
    place += f", column {columns}" if columns else ""
    prints = "the text says" if first.check == "claim" else "the table prints"
    said = f"{place}: {prints} {several([f.printed for f in cause], once=False)}."
    follows = [f.recomputed for f in cause if f.recomputed]
    if follows:
        said += f" It should be {several(follows, once=False)}: {first.why}."
    else:
        said += f" {first.why[:1].upper()}{first.why[1:]}."
    return f"{said} This changes {first.changes}." if first.changes else said


def _quoted(text: str) -> str:
    return f'"{text}"'
