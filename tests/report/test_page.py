"""The HTML page of a report: whole in one file, escaped, and working in a real browser."""

from __future__ import annotations

import json
import re
import shutil
import subprocess

import factories
import pytest
from lxml import html

from bench.record.store import Store
from bench.report.studies import studies
from bench.report.tables.registry import tables_of
from bench.report.write import write_groups, write_reports

BROWSER = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
needs_browser = pytest.mark.skipif(BROWSER is None, reason="needs Chromium")
DRIVER = """
(() => {
  const seen = { errors: window.seenErrors, rows: [] };
  const all = (selector) => [...document.querySelectorAll(selector)];
  const shown = () => all("#table-accuracy tbody tr").filter((row) => !row.hidden).map((row) => row.dataset.row);
  const type = (id, text) => { const box = document.getElementById(id); box.value = text; box.dispatchEvent(new Event("input", { bubbles: true })); };
  seen.rows = shown();
  const head = all("#table-accuracy thead th")[1];
  head.querySelector("button").click();
  seen.falling = shown();
  seen.sorted = head.getAttribute("aria-sort");
  head.querySelector("button").click();
  seen.rising = shown();
  type("find", "microbert");
  seen.found = shown();
  seen.rates = all("#table-hyper-parameters tbody tr").map((row) => row.hidden);
  seen.count = document.getElementById("count").textContent;
  seen.reached = all("#table-accuracy td[tabindex='0']").some((cell) => !cell.hidden && !cell.parentElement.hidden);
  type("find", "");
  const box = document.querySelector("#methods input[value=kd]");
  box.click();
  seen.without = shown();
  box.click();
  const column = document.querySelector("#columns input");
  column.click();
  seen.hiddenColumn = all("#table-accuracy thead th")[1].hidden;
  column.click();
  const cell = all("#table-accuracy tr[data-row=microbert] td[data-detail]")[1];
  cell.focus();
  seen.detail = document.getElementById("detail").hidden ? "" : document.getElementById("detail").textContent;
  cell.dispatchEvent(new KeyboardEvent("keydown", { key: "ArrowDown", bubbles: true }));
  seen.moved = document.activeElement !== cell && document.activeElement.tagName === "TD";
  document.dispatchEvent(new KeyboardEvent("keydown", { key: "Escape" }));
  navigator.clipboard.writeText = (text) => { seen.copied = text; return Promise.resolve(); };
  document.querySelector("button[data-copy=accuracy]").click();
  for (const part of all("details")) part.open = true;
  setTimeout(() => {
    seen.requests = performance.getEntriesByType("resource").map((one) => one.name);
    seen.injected = window.injected === true || all("img:not(figure img), iframe, object, embed").length > 0;
    document.body.replaceChildren();
    document.body.textContent = JSON.stringify(seen);
  }, 50);
})();
"""


def driven(page, folder):
    """What a browser sees when the page is used; and what its console says."""
    text = page.read_text()
    policy = r'<meta http-equiv="Content-Security-Policy"[^>]*>'
    assert len(re.findall(policy, text)) == 1
    first = "<script>window.seenErrors = []; addEventListener('error', (e) => window.seenErrors.push(e.message));</script>"
    changed = folder / "driven.html"
    # the policy would refuse the driver too; the page as it is is opened by another test
    text = re.sub(policy, "", text).replace("<head>", f"<head>{first}")
    changed.write_text(text.replace("</body>", f"<script>{DRIVER}</script></body>"))
    return opened(changed)


def opened(file):
    words = [
        BROWSER,
        "--headless=new",
        "--no-sandbox",
        "--disable-gpu",
        "--enable-logging=stderr",
        "--v=0",
    ]
    words += [
        "--window-size=1200,900",
        "--virtual-time-budget=5000",
        "--host-resolver-rules=MAP * ~NOTFOUND",
    ]
    done = subprocess.run(
        [*words, "--dump-dom", file.as_uri()],
        capture_output=True,
        text=True,
        timeout=90,
        check=True,
    )
    return done.stdout, [line for line in done.stderr.splitlines() if "CONSOLE" in line]


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    """Rows with stored answers; the terms of one training are 0."""
    made = factories.answered_store(tmp_path_factory.mktemp("answered"))
    place = ("kd", ("sst2",), 0)
    record = next(r for r in made.records() if (r.row, r.cell.tasks, r.cell.seed) == place)
    flat = {stage: {name: [0.0, 0.0] for name in terms} for stage, terms in record.terms.items()}
    made.write(record.model_copy(update={"terms": flat}), made.predictions(record))
    return made


@pytest.fixture(scope="module")
def page(store, tmp_path_factory):
    (path,) = write_reports(store, tmp_path_factory.mktemp("reports"))
    return path.parent / "report.html"


@needs_browser
@pytest.mark.slow
def test_the_page_opens_without_an_error_and_asks_nothing(page):
    dom, console = opened(page)
    assert console == []
    assert '<section id="choice" aria-label="What is shown">' in dom, (
        "its script ran under its own policy"
    )


@needs_browser
@pytest.mark.slow
def test_sorting_filtering_and_closer_looks_work_in_a_browser(page, store, tmp_path):
    dom, console = driven(page, tmp_path)
    seen = json.loads(
        re.search(r"<body>(\{.*\})</body>", dom, re.DOTALL)[1]
        .replace("&amp;", "&")
        .replace("&lt;", "<")
        .replace("&gt;", ">")
    )
    assert console == []
    assert seen["errors"] == []
    assert seen["requests"] == []
    assert not seen["injected"]
    (group,) = studies(store.records())
    column = group.columns[0]
    means = {
        label: sum(v.values()) / len(v)
        for label in group.systems
        if (v := group.values(label, column))
    }
    assert set(means) <= set(seen["rows"])
    order = [row for row in seen["falling"] if row in means]
    assert order == sorted(order, key=lambda row: -means[row])
    assert [row for row in seen["rising"] if row in means] == sorted(
        order, key=lambda row: means[row]
    )
    assert seen["sorted"] == "descending"
    # lines of no row, like the majority class, always stay
    found = [row for row in seen["found"] if row is not None]
    assert found
    assert all("microbert" in row for row in found)
    assert seen["rates"]
    assert not any(seen["rates"]), "a line of learning rates is of no row"
    assert seen["count"].endswith("rows are shown.")
    hidden = set(seen["rows"]) - set(seen["without"])
    assert hidden == {
        row for row in seen["rows"] if row is not None and row.partition(":")[0] == "kd"
    }
    assert seen["hiddenColumn"]
    assert "python -m bench show" in seen["detail"]
    assert seen["moved"]
    assert seen["copied"].startswith("System,"), "the CSV file of the table"
    assert seen["reached"], (
        "where the first row is hidden, the table is still reached with the tabulator"
    )


@pytest.mark.slow
def test_the_page_is_whole_in_one_file(page):
    text = page.read_text()
    without_data = re.sub(r'<script type="application/json".*?</script>', "", text, flags=re.DOTALL)
    assert not re.search(
        r"""(?:src|href)=["'](?!#|data:image/svg\+xml;base64,)|url\(|@import|fetch\(|XMLHttpRequest|innerHTML|eval\(""",
        without_data,
    )


def test_the_page_copies_the_latex_that_is_written_and_no_other(store, tmp_path):
    (path,) = write_reports(store, tmp_path, latex=True)
    text = (path.parent / "report.html").read_text()
    written = {file.stem: file.read_text() for file in path.parent.glob("tables/*.tex")}
    assert set(written) >= {"accuracy", "retention"}
    assert set(re.findall(r'data-copy="([^"]+)" data-form="1"', text)) == set(written)
    numbers = re.search(
        r'<script type="application/json" id="numbers">(.*?)</script>', text, re.DOTALL
    )[1]
    copied = json.loads(numbers)["files"]
    assert {stem: latex for stem, (_, latex) in copied.items() if latex} == written


@pytest.fixture(scope="module")
def wide(tmp_path_factory):
    """The page of a report without answers, a row of which has two sizes; and its group."""
    store = Store(tmp_path_factory.mktemp("wide"))
    row = factories.record("wide", "mnli")
    sizes = row.sizes.model_copy(update={"parameters": 2 * row.sizes.parameters})
    for record in [*factories.paper(), row.model_copy(update={"sizes": sizes})]:
        store.write(record)
    ((path, group),) = write_groups(store, tmp_path_factory.mktemp("reports"))
    return (path.parent / "report.html").read_text(), group


@pytest.mark.slow
def test_the_page_has_the_cells_of_the_tables(wide):
    """Every table of the report, each cell as Markdown prints it."""
    text, group = wide
    page = html.fromstring(text)
    for mark in page.xpath("//a[@class='mark']"):
        mark.drop_tree()
    tables = [
        [[cell.text_content() for cell in row] for row in table.iter("tr")]
        for table in page.xpath("//table[@id]")
    ]
    found = {(len(table), *sorted(table[0])): table for table in tables}
    assert len(tables) == len(tables_of(group))
    for table in tables_of(group):
        lines = found[len(table.rows) + 1, *sorted(table.header)]
        for row, line in zip(table.rows, lines[1:], strict=True):
            assert [text.split()[:1] for text in line] == [text.split()[:1] for text in row]


def test_a_line_of_the_page_is_of_a_row_or_of_none(wide):
    """Lines of sizes on one task, of learning rates and of printed numbers too: they are found and filtered by their row."""
    text, _ = wide
    for part in ("wide, mnli", "Hyper-parameters"):
        assert part in text
    numbers = re.search(
        r'<script type="application/json" id="numbers">(.*?)</script>', text, re.DOTALL
    )[1]
    assert set(re.findall(r'<tr data-row="(.*?)"', text)) == set(json.loads(numbers)["rows"])
