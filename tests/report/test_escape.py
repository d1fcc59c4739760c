"""Text of others reaches reports as words: no HTML, no table cell, no LaTeX line, no formula of theirs."""

from __future__ import annotations

import csv
import io
import json
import re
from pathlib import Path
from urllib.parse import unquote
from xml.etree import ElementTree

import factories
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from bench.analysis.gate_in_words import junit, summary
from bench.analysis.gate_result import REGRESSED, GateResult
from bench.record.store import Store
from bench.report import escape
from bench.report.document import Section, to_page, write_index
from bench.report.latex import LatexCell, LatexColumn, LatexTable, tex, to_latex
from bench.report.render import github, to_csv
from bench.report.table import Column, Line, Table, TableCell
from bench.report.write import write_reports

ROOT = Path(__file__).resolve().parents[2]
NASTY = "x\n\\input{/etc/passwd}\r\u2028| a | </script><script>alert(1)</script> <img src=x> ![i](http://e/x.png) `rm` $\\frac{ **b** [1] % \x1b[31m"
TEXT = st.text(st.characters(codec="utf-8"), max_size=40)


@given(TEXT)
def test_a_cell_stays_one_cell(text):
    lines = github([["a", text]], ["one", text], "left").splitlines()
    assert len(lines) == 3
    for line in (lines[0], lines[2]):
        assert line.replace("\\|", "").count("|") == 3
    for line in lines:
        assert "<script" not in line
        assert "](" not in line


PUNCTUATION = st.text(st.sampled_from("ab \\|`*_[]()<>!#&;:/\n$%~^{}-\"'"), max_size=24)
"""What means something in Markdown, HTML or LaTeX, often."""


def parts_of(text: str) -> list[str]:
    """The elements that Markdown makes of a text, as a reader's program does."""
    made = MarkdownIt("commonmark").enable("table").parse(text)
    inner = [child.type for token in made for child in token.children or ()]
    return [token.type for token in made] + inner


@settings(max_examples=300)
@given(PUNCTUATION, PUNCTUATION)
def test_a_markdown_table_has_the_cells_that_it_was_given(name, text):
    """Planted before: a backslash in front of a line between two cells took the line along."""
    table = github([["a", text], [text, "b"]], [name, "two"], "left")
    kinds = parts_of(table)
    assert kinds.count("th_open") == 2
    assert kinds.count("td_open") == 4
    assert not {"link_open", "image", "html_inline", "html_block", "code_inline"} & set(kinds)


@settings(max_examples=300)
@given(PUNCTUATION)
def test_a_markdown_page_has_no_link_and_no_html_of_somebody_else(text):
    sections = [Section(text, [f"We say {text}"], [f"point {text}"])]
    kinds = parts_of(to_page(text, sections).decode())
    assert not {"link_open", "image", "html_inline", "html_block"} & set(kinds)


def test_the_index_links_to_its_pages_whatever_they_are_called(tmp_path):
    name = "a](http:e) <b> (x)"
    page = tmp_path / name / "own" / "README.md"
    page.parent.mkdir(parents=True)
    page.write_text("# t](http://e) <script>\n")
    text = write_index(tmp_path).read_text().partition("<!-- reports -->")[2]
    tokens = MarkdownIt("commonmark").parse(text)
    inner = [child for token in tokens for child in token.children or ()]
    (link,) = [child for child in inner if child.type == "link_open"]
    assert unquote(link.attrGet("href")) == f"{name}/own/README.md"
    assert not [child for child in inner if child.type == "html_inline"]


COMMAND = re.compile(r"\\([a-zA-Z]+|.)")
OURS = {
    "begin",
    "end",
    "caption",
    "centering",
    "hspace",
    "label",
    "linewidth",
    "medskip",
    "par",
    "parbox",
    "raggedright",
    "rlap",
    "setlength",
    "smallskip",
    "tabcolsep",
}
OURS |= {"small", "footnotesize", "scriptsize", "toprule", "midrule", "bottomrule"}
OURS |= {"textbf", "textsuperscript", "textless", "textgreater", "textbar"}
OURS |= {"textbackslash", "textasciitilde", "textasciicircum"}
OURS |= {"pm", "times", "ldots", "geq", "leq", "rightarrow"} | set("\\&%$#_{},")


@settings(max_examples=300)
@given(PUNCTUATION, PUNCTUATION, PUNCTUATION)
def test_a_latex_table_has_the_cells_that_it_was_given(name, text, title):
    """Planted before: heads of columns kept their line ends."""
    columns = [LatexColumn("System"), LatexColumn(title, text), LatexColumn(name)]
    block = [
        [LatexCell(f"{row} {name}"), LatexCell(text, f" {name}"), LatexCell(f"{row}{text}")]
        for row in ("first", "second")
    ]
    table = LatexTable(columns, [block], tex(title), "x", [tex(text)], [name])
    body = [line for line in to_latex(table).splitlines() if not line.startswith("%")]
    assert set(COMMAND.findall("\n".join(body))) <= OURS
    plain = COMMAND.sub("", "\n".join(body))
    assert plain.count("{") == plain.count("}")
    assert not set("%#_~^") & set(plain)
    # the heads, perhaps with a second line of them, and a line for each row
    rows = [line for line in body if line.endswith(r" \\")]
    assert len(rows) in (3, 4)
    assert {COMMAND.sub("", row).count("&") for row in rows} == {2}


@given(TEXT)
def test_inline_code_ends_where_it_should(text):
    made_ = escape.code(text)
    fence = made_[: len(made_) - len(made_.lstrip("`"))]
    assert made_.endswith(fence)
    assert fence not in made_.removeprefix(fence).removesuffix(fence)
    assert "\n" not in made_


@given(TEXT)
def test_latex_of_any_text_is_one_line_of_words(text):
    written = tex(text)
    assert len(written.splitlines()) <= 1
    words = written.replace("\\textbackslash{}", "")
    assert "\\input" not in words
    for sign in "%&#":
        assert words.count(sign) == words.count(f"\\{sign}")


@given(
    begins=st.sampled_from(["=", "+", "-", "@", "\t=", " =", "\r@", "-1+", "+1;"]),
    rest=st.text(st.characters(codec="utf-8"), min_size=1, max_size=20),
)
def test_a_label_is_no_formula_in_a_csv_file(begins, rest):
    label = f"{begins}{rest}!"  # no number
    lines = (Line(label, (TableCell("-0.5", value=-0.5), TableCell(label))),)
    columns = (Column("System"), Column("difference"), Column(label, words=True))
    header, row = csv.reader(io.StringIO(to_csv(Table("t", columns, lines))))
    for cell in (header[2], row[0], row[2]):
        assert not re.match(r"\s*[=+\-@]", cell)
        assert cell == f"'{escape.flat(label)}"
    assert float(row[1]) == -0.5


@given(st.floats(allow_nan=False, allow_infinity=False) | st.integers())
def test_numbers_of_a_csv_file_stay_numbers(number):
    for text in (str(number), f"{number:+}", f"{number:.9g}", "-", ""):
        assert escape.spreadsheet(text) == text


def test_tables_that_are_committed_have_no_formula():
    """So the guard changes none of them."""
    for file in (ROOT / "reports").rglob("*.csv"):
        with open(file, newline="", encoding="utf-8") as lines:
            for row in csv.reader(lines):
                assert [escape.spreadsheet(cell) for cell in row] == row, file


def test_a_comment_in_latex_cannot_be_ended():
    rows = ((NASTY, "[2pt] 1"), ("[3cm] x", "2"), ("=1", "-2"))
    block = [[LatexCell(name), LatexCell(text)] for name, text in rows]
    columns = [LatexColumn("System"), LatexColumn("a")]
    text = to_latex(LatexTable(columns, [block], "Results.", "x", comments=[NASTY]))
    assert "\\input" not in text.replace("% x \\input", "")
    assert [line for line in text.splitlines() if line.startswith("% x \\input")]
    assert "\x1b" not in text
    assert "\n{}{[}" not in text
    assert "\\raggedright {}[3cm]" in text, "a bracket would belong to the line end before it"


def hostile(root: Path) -> Store:
    """Records whose every word that is no part of a key is somebody else's."""
    store = Store(root)
    labels = np.arange(40) % 2
    for row, share in (("teacher", 2), ("kd", 8), ("finetune", 15)):
        record = factories.record(row, macs=10**9)
        data = record.cell.data.model_copy(update={"name": NASTY})
        teacher = record.cell.teacher.model_copy(update={"name": NASTY})
        label = "teacher" if row == "teacher" else f"{row} {NASTY[:60]}"
        cell = record.cell.model_copy(update={"label": label, "data": data, "teacher": teacher})
        changes = {"cell": cell, "notes": (NASTY,), "env": {**record.env, "processor": NASTY, "torch": NASTY},
                   "code": {"commit": NASTY, "version": NASTY}, "terms": {"s\n$\\frac{": {"<b>|": [3.0, 2.0, 1.0]}}}  # fmt: skip
        said = np.where(np.arange(40) < share, 1 - labels, labels)
        arrays = {
            "logits.validation": np.eye(2, dtype=np.float32)[said],
            "labels.validation": labels,
        }
        store.write(*factories.consistent(record.model_copy(update=changes), arrays))
    lost = factories.record("pkd", score=None, failed=NASTY)
    store.write(
        lost.model_copy(
            update={"cell": lost.cell.model_copy(update={"data": data, "teacher": teacher})}
        )
    )
    return store


@pytest.mark.slow
def test_nothing_of_a_hostile_record_is_code_in_a_report(tmp_path):
    store = hostile(tmp_path / "r")
    (report,) = write_reports(store, tmp_path / "p", latex=True)
    lines = report.read_text().splitlines()
    # code is shown as it is
    text = "\n".join(line for line in lines if not line.startswith("- command: `"))
    assert "<script" not in text
    assert "![i](" not in text
    for line in text.splitlines():
        assert not line.startswith("\\input")
        if line.startswith("|"):
            assert line.endswith("|")
    page = (report.parent / "report.html").read_text()
    assert "alert(1)" in page
    assert "<script>alert" not in page
    assert "<img src=x" not in page
    assert page.count("<script") == 2
    numbers = re.search(
        r'<script type="application/json" id="numbers">(.*?)</script>', page, re.DOTALL
    )[1]
    assert json.loads(numbers)["columns"]
    for file in tmp_path.glob("p/*/*/tables/*.tex"):
        for line in file.read_text().splitlines():
            assert not line.startswith("\\input"), file
            assert "<script" not in line.partition("%")[0]
    for file in tmp_path.glob("p/*/*/tables/*.csv"):
        for row in csv.reader(io.StringIO(file.read_text())):
            assert not any(cell.startswith(("=", "@")) for cell in row)
    for file in tmp_path.glob("p/*/*/figures/*.svg"):
        ElementTree.fromstring(file.read_text())
        assert "<script" not in file.read_text()


def test_the_gate_writes_whole_tables_and_xml():
    findings = [GateResult(NASTY, NASTY, REGRESSED, NASTY)]
    lines = [line for line in summary(findings).splitlines() if line.startswith("|")]
    assert len(lines) == 3
    assert "<script" not in "".join(lines)
    assert ElementTree.fromstring(junit(findings).decode()).get("failures") == "1"
