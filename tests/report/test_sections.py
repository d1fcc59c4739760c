"""The sections of a report: few, in one order, with every number that reports had before they were regrouped."""

from __future__ import annotations

import ast
import html
import json
import re
from collections import Counter
from pathlib import Path

import pytest

from bench.record.store import Store
from bench.report.file_names import place_of
from bench.report.tables.accuracy import WIDTH
from bench.report.write import write_groups, write_reports

ROOT = Path(__file__).resolve().parents[2]
BEFORE = json.loads((ROOT / "tests" / "golden" / "numbers-before-sections.json").read_text())
"""Report -> the beginnings of its records' keys, and of each table each printed number and how often: of the reports as they
were with twelve sections, without the intervals of mnli in the sample suite, whose two sets share what is drawn for their trainings now."""
NOW = {
    "Accuracy": ("Results", "Rows without all results"),
    "Differences that the data can carry": ("Systems compared with finetune",),
    "Variants and ablations beside their own row": ("Variants and ablations compared with their own row",),
    "Reappearance": ("Share of the teacher's score",),
    "Kept of the teacher": ("Retention with intervals",),
    "Ablation": ("Ablations",),
    "Published beside ours": ("Published numbers and ours",),
    "The records behind each number": ("Records of each number",),
}
"""Title of a table before -> now, where it is another one."""
SECTIONS = (
    "Summary",
    "Results",
    "Paired comparisons",
    "Reappearance (retention)",
    "Ablations",
    "Cost and size",
    "Learning rates and environment",
    "Provenance",
)


def numbers_by_table(text: str) -> dict[str, Counter[str]]:
    """Heading (or the title of what is folded) -> the numbers in the cells of its tables, without marks of footnotes."""
    found: dict[str, Counter[str]] = {}
    heading = ""
    for line in text.splitlines():
        if title := re.match(r"##+ (.*)|<details><summary>(.*) \(\d+ lines\)", line):
            heading = title[1] or title[2]
        elif line.startswith("|"):
            plain = re.sub(r" \[\d+\]", "", line)
            found.setdefault(heading, Counter()).update(re.findall(r"[+-]?\d[\d,]*(?:\.\d+)?", plain))
    return found


def numbers_of_linked(page: Path) -> dict[str, Counter[str]]:
    """Title -> the numbers of the tables that a Markdown page only links to: those that the HTML page prints."""
    whole, found = (page.parent / "report.html").read_text(), {}
    for title, stem in re.findall(
        r"^\*\*(.*)\*\*\n(?:(?!\*\*).*\n)*?All .* lines: \[tables/(.*)\.csv\]", page.read_text(), re.MULTILINE
    ):
        table = whole.split(f'<table id="table-{stem}">')[1].split("</table>")[0]
        cells = html.unescape(re.sub(r'<a class="mark".*?</a>|<[^>]+>', "", table))
        found[title] = Counter(re.findall(r"[+-]?\d[\d,]*(?:\.\d+)?", cells))
    return found


def test_sections_are_few_and_in_one_order(paper_store, tmp_path):
    (path,) = write_reports(paper_store, tmp_path / "p")
    titles = re.findall(r"^## (.*)", path.read_text(), re.MULTILINE)
    assert titles == [title for title in SECTIONS if title in titles]
    assert len(titles) >= 6


@pytest.mark.slow
def test_every_footnote_is_below_the_table_that_has_it_first(paper_store, tmp_path):
    (path,) = write_reports(paper_store, tmp_path / "p")
    explained: set[str] = set()
    marks: set[str] = set()
    for line in path.read_text().splitlines():
        if line.startswith("|"):
            marks |= set(re.findall(r" \[(\d+)\]", line))
        elif text := re.match(r"\[(\d+)\] ", line):
            explained.add(text[1])
        elif line.startswith("#"):
            assert marks <= explained
    assert marks == explained


METAPHORS = re.compile(r"\b(beside|stands?|told from|can carry|floor|claims? nothing|cannot tell|no claim|flatters)\b")


@pytest.mark.parametrize(
    "file",
    sorted((ROOT / "bench" / "report").rglob("*.py")) + sorted((ROOT / "bench" / "analysis").glob("*.py")),
    ids=lambda file: file.name,
)
def test_reports_say_it_in_plain_words(file):
    """No printed text of a report or a reading verb has a metaphor of this project's own."""
    tree = ast.parse(file.read_text())
    documentation = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in documentation:
            assert not METAPHORS.search(node.value), node.value


@pytest.mark.slow
@pytest.mark.long
def test_every_number_from_before_the_sections_is_still_printed(tmp_path):
    """Table by table, as often as before, in the reports of the committed records; and the main table fits its width."""
    written = {
        place_of(one.group).as_posix(): one for one in write_groups(Store(ROOT / "results" / "reference"), tmp_path)
    }
    assert set(BEFORE) <= set(written)
    for report, before in BEFORE.items():
        text, group = written[report].path.read_text(), written[report].group
        main = text.split("\n## Results\n")[1].split("\n## ")[0]
        assert max(len(line) for line in main.splitlines() if line.startswith("|")) <= WIDTH
        if {r.key[:8] for r in group.records if r.status == "ok"} != set(before["keys"]):
            continue  # other records have other numbers
        now = numbers_by_table(text) | numbers_of_linked(written[report].path)
        for title, numbers in before["tables"].items():
            there = sum((now.get(name, Counter()) for name in NOW.get(title, (title,))), Counter[str]())
            lost = Counter(numbers) - there
            assert not lost, (report, title, lost)
