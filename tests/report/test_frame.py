"""Tables are frames: one file a table, one place a column, and the same cells in every form."""

from __future__ import annotations

import csv
import io
import re
import sys

import factories
import pytest

import bench.report.tables
from bench.report import escape
from bench.report.escape import flat
from bench.report.frame import Footnote, Footnotes, Frame, FrameLine, TableCell, TableColumn
from bench.report.groups import groups
from bench.report.render import Paper, to_csv, to_latex, to_markdown, to_terminal
from bench.report.tables import accuracy
from bench.report.tables.registry import KINDS, ReportData, frames, kinds
from bench.report.write import Options, write_reports

NEW_TABLE = """
from bench.report.frame import Frame, TableCell, TableColumn
from bench.report.tables.parts import line_of
from bench.report.tables.registry import table


@table("Results", place=15)
def seeds(data):
    lines = [line_of(data.group, label, [TableCell("4.25", value=4.25)]) for label in data.group.systems]
    return [Frame("Lucky numbers", (TableColumn("System"), TableColumn("number")), tuple(lines))]
"""


@pytest.fixture
def new_file(tmp_path, monkeypatch):
    """A folder that a report looks for tables in too, with one file."""
    folder = tmp_path / "tables"
    folder.mkdir()
    (folder / "lucky.py").write_text(NEW_TABLE)
    monkeypatch.setattr(bench.report.tables, "__path__", [*bench.report.tables.__path__, str(folder)])
    yield
    KINDS.pop("bench.report.tables.lucky.seeds", None)
    sys.modules.pop("bench.report.tables.lucky", None)


@pytest.mark.slow
def test_a_new_table_is_one_new_file(new_file, paper_store, tmp_path):
    """Nothing else knows of it, and Markdown, CSV and LaTeX have it at its place."""
    (path,) = write_reports(paper_store, tmp_path / "p", Options(latex=True))
    titles = re.findall(r"^##+ (.*)", path.read_text(), re.MULTILINE)
    assert "Lucky numbers" in titles
    assert titles.index("Results") < titles.index("Lucky numbers") < titles.index("Reappearance (retention)")
    tables = path.parent / "tables"
    assert path.read_text().count("4.25") == (tables / "lucky-numbers.csv").read_text().count("4.25")
    assert (tables / "lucky-numbers.tex").read_text().count("4.25") == 5
    assert (path.parent / "report.html").read_text().count(">4.25<") == 5


@pytest.mark.slow
def test_a_new_column_is_one_new_entry(monkeypatch, paper_store, tmp_path):
    column = accuracy.Further("lines of code", lambda group, label: TableCell("6.25", value=6.25))
    monkeypatch.setattr(accuracy, "FURTHER", (*accuracy.FURTHER, column))
    (path,) = write_reports(paper_store, tmp_path / "p", Options(latex=True))
    tables = path.parent / "tables"
    for text, rows in (
        (path.read_text(), 5),
        ((tables / "accuracy.csv").read_text(), 5),
        ((tables / "accuracy.tex").read_text(), 3),  # two rows lack a column, and are in a table of their own
    ):
        assert "lines of code" in text
        assert text.count("6.25") == rows


def test_every_table_of_a_report_has_a_file_of_its_own():
    files = [kind.make.__module__ for kind in kinds()]
    assert len(set(files)) == len(files)
    places = [kind.place for kind in kinds()]
    assert len(set(places)) == len(places)


def all_frames() -> list[Frame]:
    (group,) = groups(factories.paper())
    return frames(ReportData(group))


@pytest.mark.parametrize("frame", all_frames(), ids=lambda frame: frame.title)
def test_all_forms_print_the_same_cells(frame):
    """What Markdown prints of a cell is in the terminal's text and in LaTeX too."""
    markdown = to_markdown(frame)
    terminal = to_terminal(frame, 10_000)
    latex = (
        to_latex(frame, frame.title, Paper("made"), "tab:x").replace("--", "–").replace(r"$\pm$", "±").replace("\\", "")
    )
    for line in frame.printed_lines:
        for cell in line.cells:
            assert flat(cell.text) in terminal
            assert escape.cell(cell.text) in markdown
            if re.fullmatch(r"[0-9.,±– ]+", cell.text):
                assert cell.text in latex


@pytest.mark.parametrize("frame", all_frames(), ids=lambda frame: frame.title)
def test_a_csv_file_has_a_whole_line_for_each_row(frame):
    head, *rows = csv.reader(io.StringIO(to_csv(frame)))
    assert head[0] == frame.header[0]
    assert {len(row) for row in rows} == {len(head)}
    assert [row[0] for row in rows] == [line.label for line in frame.lines if line.only != "markdown"]


def test_the_numbers_of_the_main_table_name_their_records():
    records = factories.paper()
    (group,) = groups(records)
    known = {record.key for record in records}
    frame = accuracy.accuracy(group)
    (line,) = (line for line in frame.lines if line.label == "kd")
    kd = line.cells[frame.header.index("rte (acc)") - 1]
    assert kd.n == len(kd.keys) == 2
    assert set(kd.keys) <= known
    assert kd.value == pytest.approx(sum(group.values("kd", group.columns[-1]).values()) / 2)


def test_a_line_with_too_few_cells_is_an_error():
    with pytest.raises(ValueError, match="1 cells for the 2 columns behind the first"):
        Frame("T", (TableColumn("System"), TableColumn("a"), TableColumn("b")), (FrameLine("kd", (TableCell("1"),)),))


def test_footnotes_are_numbered_in_the_order_of_their_use_and_once():
    notes, first, second = Footnotes(), Footnote("lost"), Footnote("see ", (Footnote("other"),), " too")
    lines = (
        FrameLine("a", (TableCell("1", footnotes=(first,)),)),
        FrameLine("b", (TableCell("2", footnotes=(second, first)),)),
    )
    text = to_markdown(Frame("T", (TableColumn("System"), TableColumn("x")), lines), notes)
    assert notes.texts == ["lost", "other", "see [2] too"]
    assert "1 [1]" in text
    assert "2 [3] [1]" in text
