"""What the site's build does besides: it refuses generated pages that are out of date, and brings in files outside docs/.

A link that leaves docs/, like ``../reports/LOG.md``, works on a code host. In the site the file is copied to
``repository/reports/LOG.md``, with all that it links to, and the link is written anew. A link to nothing stops the build.
"""

from __future__ import annotations

import os
import posixpath
import re
import sys
from pathlib import Path
from typing import Any

from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files

DOCS = Path(__file__).resolve().parents[1]
ROOT = DOCS.parent
MOUNT = "repository"
LINK = re.compile(r"(?P<begin>\]\()(?P<target>[^)#\s]+)(?P<end>(?:#[^)\s]*)?\))")
CODE = re.compile(r"(^```.*?^```$|`[^`\n]+`)", re.MULTILINE | re.DOTALL)


def on_pre_build(config: Any) -> None:
    """Refuse pages that the code has outgrown."""
    sys.path.insert(0, str(DOCS / "tools"))
    from generate import out_of_date

    if stale := out_of_date():
        raise PluginError(f"out of date: {', '.join(stale)}; type: python docs/tools/generate.py")


def source_of(uri: str) -> Path:
    """The file of the repository that a file of the site is."""
    return ROOT / posixpath.relpath(uri, MOUNT) if uri.startswith(f"{MOUNT}/") else DOCS / uri


def site_name(file: Path) -> str:
    """Where a file of the repository lies in the site."""
    return (
        file.relative_to(DOCS).as_posix()
        if file.is_relative_to(DOCS)
        else f"{MOUNT}/{file.relative_to(ROOT).as_posix()}"
    )


def linked(page: Path) -> list[Path]:
    """The files outside docs/ that a page links to.

    Raises:
        PluginError: a link to nothing, or out of the repository.
    """
    found = []
    for part in CODE.split(page.read_text(encoding="utf-8"))[::2]:
        for link in LINK.finditer(part):
            if re.match(r"[a-z]+:", link["target"]):
                continue
            file = Path(os.path.normpath(page.parent / link["target"]))
            if not file.is_relative_to(ROOT) or not file.is_file():
                raise PluginError(
                    f"{page.relative_to(ROOT)} links to {link['target']}, which is no file of the repository"
                )
            if not file.is_relative_to(DOCS):
                found.append(file)
    return found


def on_files(files: Files, config: Any) -> Files:
    """Add the files outside docs/ that pages link to, and those that these link to."""
    waiting = [source_of(file.src_uri) for file in files.documentation_pages()]
    seen: set[Path] = set()
    while waiting:
        for file in linked(waiting.pop()):
            if file in seen:
                continue
            seen.add(file)
            files.append(File.generated(config, site_name(file), abs_src_path=str(file)))
            if file.suffix == ".md":
                waiting.append(file)
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    """Write the links of a page as they are in the site."""
    here = source_of(page.file.src_uri)

    def anew(link: re.Match[str]) -> str:
        if re.match(r"[a-z]+:", link["target"]):
            return link[0]
        file = Path(os.path.normpath(here.parent / link["target"]))
        place = posixpath.relpath(site_name(file), posixpath.dirname(page.file.src_uri) or ".")
        return link["begin"] + place + link["end"]

    parts = CODE.split(markdown)
    parts[::2] = [LINK.sub(anew, part) for part in parts[::2]]
    return "".join(parts)
