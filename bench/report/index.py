"""The index of a folder of reports: which there are, by data, teacher and recipe. No torch, no clock."""

from __future__ import annotations

from pathlib import Path

from bench.files import write_atomically
from bench.report.file_names import PAGE

MARK = "<!-- written by bench report -->"
"""The last line of an index. A page without it is somebody else's, and stays."""
LIST = "<!-- reports -->"
"""Before the list of an index. What a person wrote above it stays."""
HEAD = f"""# Reports

Most folders are named by the data, and the folder in each by the teacher and the recipe (`1t`: the jobs had one
thread). The report of an experiment is in a folder named by the paper. A `speed` session is in `speed/`.

{LIST}"""


def write_index(folder: Path) -> Path | None:
    """Write ``README.md`` of the folder: a line for each report below it. None where there is another page of that name."""
    index, head = folder / PAGE, HEAD
    if index.is_file():
        there = index.read_text(encoding="utf-8", errors="replace")
        if MARK not in there:
            return None
        head = there.partition(LIST)[0] + LIST if LIST in there else HEAD
    lines = [head, ""]
    for page in sorted(folder.glob(f"*/*/{PAGE}")):
        place = page.parent.relative_to(folder)
        lines.append(f"- [{place.as_posix()}]({place.as_posix()}/{PAGE}): {_title(page)}")
    write_atomically(index, ("\n".join([*lines, "", MARK]) + "\n").encode())
    return index


def _title(page: Path) -> str:
    """The heading of a report."""
    with page.open(encoding="utf-8", errors="replace") as file:
        return next((line.removeprefix("# ").strip() for line in file if line.startswith("# ")), "")
