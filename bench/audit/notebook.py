"""The texts of a Jupyter notebook: its Markdown cells, and what its code cells printed."""

from __future__ import annotations

import json
from typing import Any


def notebook_texts(text: str) -> list[str]:
    """The Markdown cells and outputs in their order; an output in HTML goes before its plain text.

    Raises:
        ValueError: no JSON of a notebook.
    """
    body = json.loads(text)
    cells = body.get("cells") if isinstance(body, dict) else None
    if not isinstance(cells, list):
        raise ValueError("no cells")
    texts = []
    for cell in cells:
        if cell.get("cell_type") == "markdown":
            texts.append(_joined(cell.get("source", "")))
        for output in cell.get("outputs", ()):
            texts.append(_shown(output))
    return [text for text in texts if text.strip()]


def _shown(output: dict[str, Any]) -> str:
    data = output.get("data", {})
    for kind in ("text/html", "text/markdown", "text/latex", "text/plain"):
        if kind in data:
            return _joined(data[kind])
    return _joined(output.get("text", ""))


def _joined(source: Any) -> str:
    return "".join(source) if isinstance(source, list) else str(source)
