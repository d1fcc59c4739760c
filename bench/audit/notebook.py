"""The texts of a Jupyter notebook: its Markdown cells, and what its code cells printed."""

from __future__ import annotations

import json
from typing import Any

from bench.errors import InputError


def notebook_texts(text: str) -> list[str]:
    """The Markdown cells and outputs in their order; an output in HTML goes before its plain text.

    Raises:
        InputError: no JSON of a notebook.
    """
    texts = []
    try:
        for cell in json.loads(text)["cells"]:
            if cell.get("cell_type") == "markdown":
                texts.append(_joined(cell.get("source", "")))
            texts += [_shown(output) for output in cell.get("outputs", ())]
    except (ValueError, AttributeError, TypeError, KeyError, RecursionError) as error:
        raise InputError(f"not a Jupyter notebook ({error})") from None
    return [text for text in texts if text.strip()]


def _shown(output: dict[str, Any]) -> str:
    data = output.get("data", {})
    for kind in ("text/html", "text/markdown", "text/latex", "text/plain"):
        if kind in data:
            return _joined(data[kind])
    return _joined(output.get("text", ""))


def _joined(source: Any) -> str:
    return "".join(source) if isinstance(source, list) else str(source)
