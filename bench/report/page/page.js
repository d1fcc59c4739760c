"use strict";
// Sorts and filters a report. All text from data is set as text, never as markup. Nothing is loaded.
(() => {
  const numbers = JSON.parse(document.getElementById("numbers").textContent);
  const all = (selector, within = document) => [...within.querySelectorAll(selector)];
  const by = (id) => document.getElementById(id);
  const made = (tag, text = "", parent = null) => {
    const element = document.createElement(tag);
    element.textContent = text;
    if (parent) parent.append(element);
    return element;
  };
  const nameOf = (row) => (numbers.rows[row] ? numbers.rows[row].name : row);

  // ---- what is shown ----
  const state = { find: "", complete: false, methods: null, columns: new Set(numbers.columns) };
  const isShown = (row) => {
    const facts = numbers.rows[row];
    const found = nameOf(row).toLowerCase().includes(state.find) || row.toLowerCase().includes(state.find);
    if (!facts) return found;
    return found && state.methods.has(facts.method) && (!state.complete || facts.complete);
  };

  // one cell of each table is reached with the tabulator, the others with the arrows
  function reachable(table) {
    const cells = all("[data-detail]", table).filter((cell) => cell.tagName === "TD");
    const visible = cells.filter((cell) => !cell.hidden && !cell.parentElement.hidden);
    if (visible.some((cell) => cell.tabIndex === 0)) return;
    for (const cell of cells) cell.tabIndex = -1;
    if (visible.length) visible[0].tabIndex = 0;
  }

  function filter() {
    state.find = by("find").value.trim().toLowerCase();
    state.complete = by("complete").checked;
    const checked = (id) => new Set(all("input:checked", by(id)).map((box) => box.value));
    state.methods = checked("methods");
    state.columns = checked("columns");
    for (const line of all("tr[data-row]")) line.hidden = !isShown(line.dataset.row);
    for (const table of all("table[id]")) {
      all("thead th", table).forEach((head, place) => {
        if (!numbers.columns.includes(head.dataset.column)) return;
        const hidden = !state.columns.has(head.dataset.column);
        for (const line of all("tr", table)) if (line.children[place]) line.children[place].hidden = hidden;
      });
    }
    for (const table of all("table[id]")) reachable(table);
    const rows = Object.keys(numbers.rows);
    const shown = rows.filter(isShown).length;
    by("count").textContent = shown === rows.length ? "" : `${shown} of ${rows.length} rows are shown.`;
  }

  // ---- sorting ----
  function valueOf(cell) {
    if (cell.dataset.value !== undefined) return Number(cell.dataset.value);
    const copy = cell.cloneNode(true);
    for (const note of all(".mark", copy)) note.remove();
    const text = copy.textContent.trim();
    return text === "" || text === "–" ? null : text;
  }

  function sort(table, place, head) {
    const falls = head.getAttribute("aria-sort") !== "descending";
    for (const other of all("thead th", table)) other.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", falls ? "descending" : "ascending");
    const body = table.tBodies[0];
    const compare = (...lines) => {
      const [a, b] = lines.map((line) => valueOf(line.children[place]));
      if (a === null || b === null) return (a === null) - (b === null); // what is missing is last
      if (typeof a !== typeof b) return typeof a === "number" ? -1 : 1;
      const order = typeof a === "number" ? a - b : a.localeCompare(b);
      return falls ? -order : order;
    };
    body.append(...[...body.rows].sort(compare));
  }

  function sortable(table) {
    all("thead th", table).forEach((head, place) => {
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = head.textContent;
      button.addEventListener("click", () => sort(table, place, head));
      head.replaceChildren(button);
    });
  }

  // ---- a closer look at a number ----
  const panel = by("detail");
  let pinned = null;

  function detailLines(cell) {
    const line = cell.closest("tr");
    const detail = numbers.details[Number(cell.dataset.detail)];
    const head = cell.closest("table").tHead.rows[0].children[cell.cellIndex].dataset.column;
    const name = line.dataset.row === undefined ? line.children[0].textContent.trim() : nameOf(line.dataset.row);
    const lines = [["p", `${name}, ${head}`]];
    if (detail.value !== undefined) {
      const parts = [detail.value.toFixed(2)];
      if (detail.low !== undefined) parts.push(`95 % interval ${detail.low.toFixed(2)} to ${detail.high.toFixed(2)}`);
      if (detail.sd !== undefined) parts.push(`standard deviation over seeds ${detail.sd.toFixed(2)}`);
      if (detail.p !== undefined) parts.push(`p (after Holm's adjustment over the row's columns) ${detail.p < 0.001 ? "< 0.001" : detail.p.toFixed(3)}`);
      if (detail.n !== undefined) parts.push(`n = ${detail.n}`);
      lines.push(["p", parts.join("; ")]);
    }
    for (const key of detail.keys || []) {
      const record = numbers.records[key];
      if (!record) continue;
      const scores = Object.entries(record.scores).flatMap(([set, found]) =>
        Object.entries(found).map(([metric, score]) => `${set} ${metric} ${score.toFixed(2)}`));
      lines.push(["p", `${record.row} on ${record.tasks.join("+")}, seed ${record.seed}: ${scores.join(", ")}`]);
      lines.push(["code", `python -m bench show ${key.slice(0, 12)} --results ${numbers.results}`]);
    }
    return lines;
  }

  function look(cell) {
    panel.replaceChildren(...detailLines(cell).map(([tag, text]) => made(tag, text)));
    panel.hidden = false;
    cell.setAttribute("aria-describedby", "detail");
    place(cell.getBoundingClientRect());
  }

  function place(at) {
    const { offsetWidth: width, offsetHeight: height } = panel;
    const below = at.bottom + 6 + height <= innerHeight;
    panel.style.left = `${Math.max(4, Math.min(at.left, innerWidth - width - 8))}px`;
    panel.style.top = `${below ? at.bottom + 6 : Math.max(4, at.top - height - 6)}px`;
  }

  function lookAway() {
    if (pinned) return;
    panel.hidden = true;
    for (const cell of all("[aria-describedby=detail]")) cell.removeAttribute("aria-describedby");
  }

  function move(cell, key) {
    const line = cell.closest("tr");
    const rows = [...line.parentElement.rows].filter((row) => !row.hidden);
    const step = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] }[key];
    let [row, column] = [rows.indexOf(line), cell.cellIndex];
    for (;;) {
      row += step[0];
      column += step[1];
      const next = rows[row] && rows[row].children[column];
      if (!next) return;
      if (next.dataset.detail !== undefined && !next.hidden) {
        cell.tabIndex = -1;
        next.tabIndex = 0;
        next.focus();
        return;
      }
    }
  }

  function lookable(table) {
    const cells = all("td[data-detail]", table);
    for (const cell of cells) cell.tabIndex = -1;
    table.addEventListener("mouseover", (event) => {
      const cell = event.target.closest("td[data-detail]");
      if (cell && !pinned) look(cell);
    });
    table.addEventListener("mouseout", lookAway);
    table.addEventListener("focusin", (event) => {
      const cell = event.target.closest("td[data-detail]");
      if (cell && !pinned) look(cell);
    });
    table.addEventListener("focusout", lookAway);
    table.addEventListener("click", (event) => {
      const cell = event.target.closest("td[data-detail]");
      if (!cell || event.target.closest("a")) return;
      pinned = pinned === cell ? null : cell;
      if (pinned) look(cell); else lookAway();
    });
    table.addEventListener("keydown", (event) => {
      const cell = event.target.closest("td[data-detail]");
      if (!cell || !event.key.startsWith("Arrow")) return;
      event.preventDefault();
      pinned = null;
      move(cell, event.key);
    });
  }
  document.addEventListener("keydown", (event) => {
    if (event.key !== "Escape") return;
    pinned = null;
    lookAway();
  });
  document.addEventListener("click", (event) => {
    if (!pinned || panel.contains(event.target) || event.target.closest("td[data-detail]")) return;
    pinned = null;
    lookAway();
  });

  // ---- copies ----
  async function copy(button) {
    const form = button.dataset.form;
    const text = form === undefined ? button.previousElementSibling.textContent : numbers.files[button.dataset.copy][form];
    try {
      await navigator.clipboard.writeText(text);
    } catch { // a page from a file may not
      const box = made("textarea", text, document.body);
      box.select();
      document.execCommand("copy");
      box.remove();
    }
    const said = button.textContent;
    button.textContent = "copied";
    setTimeout(() => { button.textContent = said; }, 1500);
  }
  for (const button of all("button[data-copy]")) {
    button.hidden = false;
    button.addEventListener("click", () => copy(button));
  }

  // ---- tables wider than the screen ----
  const widths = new ResizeObserver((entries) => {
    for (const { target } of entries) target.classList.toggle("cut", target.scrollWidth > target.clientWidth + 1);
  });
  for (const box of all(".scroll")) widths.observe(box);

  // ---- begin ----
  for (const table of all("table[id]")) { sortable(table); lookable(table); }
  by("find").addEventListener("input", filter);
  by("complete").addEventListener("change", filter);
  for (const box of all("#methods input, #columns input")) box.addEventListener("change", filter);
  for (const button of all("#methods button")) {
    button.addEventListener("click", () => {
      for (const box of all("#methods input")) box.checked = "all" in button.dataset;
      filter();
    });
  }
  by("choice").hidden = false;
  filter();
})();
