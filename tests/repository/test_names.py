"""One name, one meaning: what is called alike is the same thing."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_no_two_classes_share_a_name():
    """Whoever searches for a class finds one. Private classes and names for types are not looked at."""
    places: dict[str, list[str]] = defaultdict(list)
    for path in sorted([*(ROOT / "bench").rglob("*.py"), *(ROOT / "methods").rglob("*.py")]):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].append(str(path.relative_to(ROOT)))
    assert places
    assert {name: found for name, found in places.items() if len(found) > 1} == {}
