"""A cell of a frozen record, with changes."""

from __future__ import annotations

import json
from pathlib import Path

from bench.record.cell import Cell

FROZEN = Path(__file__).parents[1] / "records" / "v1"


def cell(**changes) -> Cell:
    body = json.loads((FROZEN / "ok.json").read_text())["cell"]
    for path, value in changes.items():
        at, *rest = path.split("__")
        if rest:
            body[at][rest[0]] = value
        else:
            body[at] = value
    return Cell.model_validate(body)
