"""The index of a folder of reports: which there are, by data, teacher and recipe. No torch, no clock."""

from __future__ import annotations

from pathlib import Path

from bench.files import write_atomically
from bench.report.file_names import PAGE

MARK = "<!-- written by bench report -->"
"""The last line of an index. A page without it is somebody else's, and stays."""


def write_index(folder: Path) -> Path | None:
    """Write ``README.md`` of the folder: a line for each report below it. None where there is another page of that name."""
    index = folder / PAGE
    if index.is_file() and MARK not in index.read_text(encoding="utf-8", errors="replace"):
        return None
    lines = ["# Reports", ""]
    for page in sorted(folder.glob(f"*/*/{PAGE}")):
        place = page.parent.relative_to(folder)
        lines.append(f"- [{place.as_posix()}]({place.as_posix()}/{PAGE}): {_title(page)}")
    write_atomically(index, ("\n".join([*lines, "", MARK]) + "\n").encode())
    return index


def _title(page: Path) -> str:
    """The heading of a report."""
    with page.open(encoding="utf-8", errors="replace") as file:
        return next((line.removeprefix("# ").strip() for line in file if line.startswith("# ")), "")
