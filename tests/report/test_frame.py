"""Tables are frames: one file a table, one place a column, and the same cells in every form."""

from __future__ import annotations

import csv
import io
import re

import factories
import pytest

from bench.report import escape
from bench.report.render import to_csv, to_markdown
from bench.report.studies import studies
from bench.report.table import Column, Footnotes, Line, Table, TableCell
from bench.report.tables import registry
from bench.report.tables.accuracy import accuracy
from bench.report.tables.parts import line_of
from bench.report.write import write_reports


def test_a_new_table_is_a_line_of_the_list(monkeypatch, paper_store, tmp_path):
    """Markdown, CSV and the page have it at its place. LaTeX is for the tables of papers alone."""

    def lucky(group):
        lines = [line_of(group, label, [TableCell("4.25", value=4.25)]) for label in group.systems]
        return Table("Lucky numbers", [Column("System"), Column("number")], lines)

    monkeypatch.setattr(
        registry, "TABLES", (*registry.TABLES[:2], ("Results", lucky), *registry.TABLES[2:])
    )
    (path,) = write_reports(paper_store, tmp_path / "p", latex=True)
    titles = re.findall(r"^##+ (.*)", path.read_text(), re.MULTILINE)
    assert titles.index("Results") < titles.index("Lucky numbers") < titles.index("Cost and size")
    tables = path.parent / "tables"
    assert (
        path.read_text().count("4.25")
        == (tables / "lucky-numbers.csv").read_text().count("4.25")
        == 5
    )
    assert {file.name for file in tables.glob("*.tex")} == {"accuracy.tex"}
    assert (path.parent / "report.html").read_text().count(">4.25<") == 5


def all_tables() -> list[Table]:
    (group,) = studies(factories.paper())
    return registry.tables_of(group)


@pytest.mark.parametrize("frame", all_tables(), ids=lambda frame: frame.title)
def test_markdown_has_the_text_of_all_cells(frame):
    markdown = to_markdown(frame)
    for line in frame.lines:
        for cell in line.cells:
            assert escape.cell(cell.text) in markdown


@pytest.mark.parametrize("frame", all_tables(), ids=lambda frame: frame.title)
def test_a_csv_file_has_a_whole_line_for_each_row(frame):
    head, *rows = csv.reader(io.StringIO(to_csv(frame)))
    assert head[0] == frame.header[0]
    assert {len(row) for row in rows} == {len(head)}
    assert [row[0] for row in rows] == [line.label for line in frame.lines]


def test_the_numbers_of_the_main_table_name_their_records():
    records = factories.paper()
    (group,) = studies(records)
    known = {record.key for record in records}
    frame = accuracy(group)
    (line,) = (line for line in frame.lines if line.label == "kd")
    kd = line.cells[frame.header.index("rte (acc)") - 1]
    assert kd.n == len(kd.keys) == 2
    assert set(kd.keys) <= known
    assert kd.value == pytest.approx(sum(group.values("kd", group.columns[-1]).values()) / 2)


def test_footnotes_are_numbered_in_the_order_of_their_use_and_once():
    notes, first, second = Footnotes(), "lost", "other"
    lines = (
        Line("a", (TableCell("1", footnotes=(first,)),)),
        Line("b", (TableCell("2", footnotes=(second, first)),)),
    )
    text = to_markdown(Table("T", (Column("System"), Column("x")), lines), notes)
    assert notes.texts == ["lost", "other"]
    assert "1 [1]" in text
    assert "2 [2] [1]" in text
