"use strict";
// Sorts, filters and draws a report. All text from data is set as text, never as markup. Nothing is loaded.
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
  const drawn = (parent, tag, attributes, text = "") => {
    const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
    for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
    if (text) element.textContent = text;
    parent.append(element);
    return element;
  };
  const signed = (value) => (value > 0 ? "+" : "") + value.toFixed(1);
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
    draw();
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
    const compare = (...groups) => { // by the first line of each that has a value
      const [a, b] = groups.map((lines) => lines.map((line) => valueOf(line.children[place])).find((value) => value !== null) ?? null);
      if (a === null || b === null) return (a === null) - (b === null); // what is missing is last
      if (typeof a !== typeof b) return typeof a === "number" ? -1 : 1;
      const order = typeof a === "number" ? a - b : a.localeCompare(b);
      return falls ? -order : order;
    };
    const groups = []; // a line that continues the one before it stays below it
    for (const line of body.rows) {
      if ("continues" in line.dataset) groups[groups.length - 1].push(line);
      else groups.push([line]);
    }
    body.append(...groups.sort(compare).flat());
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

  // ---- pictures ----
  const MARGIN = 10, LINE = 24, CHARACTER = 6.8;
  const scale = (from, to, low, high) => (value) => low + ((value - from) / (to - from || 1)) * (high - low);
  function ticks(low, high, count = 7) {
    const raw = (high - low || 1) / count, size = 10 ** Math.floor(Math.log10(raw));
    const step = [1, 2, 2.5, 5, 10].map((times) => times * size).find((one) => one >= raw);
    const found = [];
    for (let value = Math.ceil(low / step) * step; value <= high + 1e-9; value += step) found.push(value);
    return found;
  }
  const trimmed = (value) => String(Number(value.toFixed(2)));

  const SHAPES = { // outlines of matplotlib's markers, of a radius of 1
    D: "M-1 0L0-1L1 0L0 1Z", s: "M-.9-.9H.9V.9H-.9Z", "^": "M0-1L1 .8H-1Z", v: "M0 1L1-.8H-1Z",
    P: "M-.4-1H.4V-.4H1V.4H.4V1H-.4V.4H-1V-.4H-.4Z", X: "M0-.4L.5-1L1-.5L.4 0L1 .5L.5 1L0 .4L-.5 1L-1 .5L-.4 0L-1-.5L-.5-1Z",
    "*": "M0-1L.25-.35H.95L.4.1L.6.8L0 .4L-.6.8L-.4.1L-.95-.35H-.25Z", o: "M-1 0A1 1 0 1 1 1 0A1 1 0 1 1-1 0Z",
  };
  const lookOf = (row) => numbers.rows[row].look;
  const colourOf = (row) => (row === numbers.teacher ? "var(--grey)" : lookOf(row)[0]);
  function mark(svg, row, x, y, isHollow, title) {
    const shape = drawn(svg, "path", {
      d: SHAPES[lookOf(row)[1]], transform: `translate(${x} ${y}) scale(5.5)`, "stroke-width": 1.6, "vector-effect": "non-scaling-stroke",
      stroke: colourOf(row), fill: isHollow ? "var(--ground)" : colourOf(row),
    });
    drawn(shape, "title", {}, title);
  }

  function forest(svg, choice, note) {
    const lines = choice.lines.filter((line) => isShown(line.row));
    const longest = Math.max(8, ...lines.map((line) => nameOf(line.row).length));
    const left = longest * CHARACTER + MARGIN;
    const width = Math.max(left + 160, Math.min(left + 620, svg.parentElement.clientWidth)), narrow = width < left + 460;
    const right = width - (narrow ? 14 : 170); // on a narrow screen the numbers are in the marks' titles alone
    const height = lines.length * LINE + 50;
    svg.replaceChildren();
    svg.setAttribute("width", width);
    svg.setAttribute("height", height);
    const ends = [0, ...lines.flatMap((line) => [line.low, line.high]), ...(choice.majority === null ? [] : [choice.majority])];
    const [low, high] = [Math.min(...ends), Math.max(...ends)];
    const x = scale(low, high, left + 12, right);
    for (const tick of ticks(low, high)) {
      drawn(svg, "line", { class: "axis", x1: x(tick), x2: x(tick), y1: 4, y2: height - 34 });
      drawn(svg, "text", { class: "quiet", x: x(tick), y: height - 18, "text-anchor": "middle" }, trimmed(tick));
    }
    drawn(svg, "text", { class: "quiet", x: (left + right) / 2, y: height - 3, "text-anchor": "middle" },
      `difference to ${numbers.reference} in points, ${choice.title}`);
    drawn(svg, "line", { class: "zero", x1: x(0), x2: x(0), y1: 4, y2: height - 34 });
    if (choice.majority !== null) {
      const at = x(choice.majority);
      drawn(svg, "line", { class: "majority", x1: at, x2: at, y1: 4, y2: height - 34 });
    }
    lines.forEach((line, number) => {
      const y = number * LINE + 18;
      const text = `${signed(line.value)} (${signed(line.low)} to ${signed(line.high)})`;
      drawn(svg, "text", { x: left, y: y + 4, "text-anchor": "end" }, nameOf(line.row));
      drawn(svg, "line", { class: "bar", stroke: colourOf(line.row), x1: x(line.low), x2: x(line.high), y1: y, y2: y });
      mark(svg, line.row, x(line.value), y, line.row !== numbers.teacher && !line.significant, `${nameOf(line.row)}: ${text}`);
      if (!narrow) drawn(svg, "text", { x: right + 14, y: y + 4 }, text);
    });
    note.textContent = "Filled: significant. Diamond: the teacher, not tested. Bars: 95 % intervals."
      + (choice.majority === null ? "" : " Dotted line: the majority class.");
  }

  function scatter(svg, points, title, note) {
    const shown = points.filter((point) => isShown(point.row));
    const textOf = (point) => {
      const interval = point.low === null ? "" : ` (${point.low.toFixed(1)} to ${point.high.toFixed(1)})`;
      return `${nameOf(point.row)}  ${point.value.toFixed(1)}${interval}`;
    };
    const key = Math.max(120, ...shown.map((point) => textOf(point).length * CHARACTER + 30));
    const room = svg.parentElement.clientWidth, beside = room >= 360 + key; // else the key is below
    const right = Math.max(240, Math.min(520, beside ? room - key : room - 8)), plot = 300;
    const width = beside ? right + key : right + 8, height = Math.max(plot, (beside ? 20 : plot) + shown.length * 17 + 10);
    svg.replaceChildren();
    svg.setAttribute("width", width);
    svg.setAttribute("height", height);
    if (!shown.length) return;
    const costs = shown.map((point) => point.cost);
    const ends = shown.flatMap((point) => (point.low === null ? [point.value] : [point.low, point.high]));
    const [least, most] = [Math.min(...costs), Math.max(...costs)];
    const log = scale(Math.log10(least), Math.log10(most), 66, right - 30), x = (cost) => log(Math.log10(cost));
    const y = scale(Math.min(...ends), Math.max(...ends), plot - 54, 14);
    for (const tick of ticks(Math.min(...ends), Math.max(...ends))) {
      drawn(svg, "line", { class: "axis", x1: 46, x2: right, y1: y(tick), y2: y(tick) });
      drawn(svg, "text", { class: "quiet", x: 40, y: y(tick) + 4, "text-anchor": "end" }, trimmed(tick));
    }
    const round = most / least < 8 ? ticks(least, most, 5)
      : [-3, -2, -1, 0, 1, 2, 3, 4].flatMap((power) => [1, 2, 5].map((step) => step * 10 ** power)).filter((tick) => tick >= least && tick <= most);
    for (const tick of round) {
      drawn(svg, "line", { class: "axis", x1: x(tick), x2: x(tick), y1: 8, y2: plot - 44 });
      drawn(svg, "text", { class: "quiet", x: x(tick), y: plot - 28, "text-anchor": "middle" }, trimmed(tick));
    }
    drawn(svg, "text", { class: "quiet", x: (46 + right) / 2, y: plot - 8, "text-anchor": "middle" }, `${title}, log scale`);
    let path = "", best = -Infinity; // the front: nothing that costs no more scores higher
    for (const point of [...shown].sort((a, b) => a.cost - b.cost || b.value - a.value)) {
      if (point.value <= best) continue;
      path += path ? `H${x(point.cost)}V${y(point.value)}` : `M${x(point.cost)} ${y(point.value)}`;
      best = point.value;
    }
    drawn(svg, "path", { class: "front", d: `${path}H${right}` });
    shown.forEach((point, number) => {
      const alike = shown.filter((other) => Math.abs(other.cost / point.cost - 1) < 0.01); // of one cost: side by side
      const apart = Math.min(11, 60 / alike.length);
      const cx = x(point.cost) + apart * (alike.indexOf(point) - (alike.length - 1) / 2), cy = y(point.value);
      if (point.low !== null) {
        drawn(svg, "line", { class: "bar", stroke: colourOf(point.row), "stroke-opacity": .4, x1: cx, x2: cx, y1: y(point.low), y2: y(point.high) });
      }
      mark(svg, point.row, cx, cy, point.beaten, textOf(point));
      const [left, at] = [beside ? right + 16 : 14, (beside ? 16 : plot + 12) + number * 17];
      mark(svg, point.row, left, at, point.beaten, textOf(point));
      drawn(svg, "text", { x: left + 12, y: at + 4 }, textOf(point));
    });
    note.textContent = "Vertical: mean score in percent, with 95 % intervals; rows of one cost side by side. Line: the front, nothing that costs no more scores higher. Hollow: another row costs no more and scores higher (the interval of the difference is above 0, not adjusted). Diamond: the teacher.";
  }

  function matrix(box) {
    const { rows, cells } = numbers.pairs;
    const places = rows.map((row, place) => [row, place]).filter(([row]) => isShown(row));
    const table = box.querySelector("table");
    table.replaceChildren();
    const head = made("tr", "", made("thead", "", table));
    made("th", "", head);
    for (const [row] of places) made("th", nameOf(row), head).scope = "col";
    const body = made("tbody", "", table);
    for (const [row, i] of places) {
      const line = made("tr", "", body);
      const name = made("th", nameOf(row), line);
      name.scope = "row";
      for (const [, j] of places) {
        const one = cells[i][j];
        const cell = made("td", "", line);
        cell.className = "right";
        if (!one) continue;
        const [value, low, high, p] = one;
        made(p <= 0.05 ? "strong" : "span", signed(value), cell);
        made("small", ` (${signed(low)} to ${signed(high)})`, cell);
        cell.title = `${nameOf(row)} - ${nameOf(rows[j])}: p ${p < 0.001 ? "< 0.001" : p.toFixed(3)}`;
        if (p <= 0.05) cell.classList.add(value > 0 ? "better" : "worse");
      }
    }
  }

  function offer(id, choices, drawIt) {
    const figure = by(id);
    if (!figure || !choices.length) return () => {};
    const [select, svg, note] = [figure.querySelector("select"), figure.querySelector("svg"), figure.querySelector("p")];
    choices.forEach((title, place) => { made("option", title, select).value = place; });
    figure.querySelector("img").hidden = true;
    select.hidden = figure.querySelector(".scroll").hidden = false;
    const again = () => drawIt(svg, Number(select.value), note);
    select.addEventListener("change", again);
    return again;
  }
  const points = Object.entries(numbers.scatter).filter(([, found]) => found.length > 1);
  const drawForest = offer("forest", numbers.forest.map((choice) => choice.title), (svg, place, note) => forest(svg, numbers.forest[place], note));
  const drawScatter = offer("scatter", points.map(([title]) => title), (svg, place, note) => scatter(svg, points[place][1], points[place][0], note));
  const onDemand = [["matrix", matrix, numbers.pairs.rows.length > 1]]
    .map(([id, drawIt, has]) => [by(id), drawIt, has]).filter(([box, , has]) => box && has);

  if (by("scatter")) by("scatter").querySelector("span").textContent = "Mean score against";
  if (points.length && by("score-latency")) by("score-latency").hidden = true; // it is a choice of the other one

  addEventListener("resize", () => draw());
  function draw() {
    drawForest();
    drawScatter();
    for (const [box, drawIt] of onDemand) if (box.open) drawIt(box);
  }

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

  // ---- theme ----
  const themes = ["automatic", "light", "dark"];
  let theme = 0;
  by("theme").addEventListener("click", () => {
    theme = (theme + 1) % themes.length;
    if (theme) document.documentElement.dataset.theme = themes[theme];
    else delete document.documentElement.dataset.theme;
    by("theme").textContent = `Theme: ${themes[theme]}`;
  });

  // ---- begin ----
  for (const table of all("table[id]")) { sortable(table); lookable(table); }
  for (const [box, drawIt] of onDemand) {
    box.hidden = false;
    box.addEventListener("toggle", () => { if (box.open) drawIt(box); });
  }
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
  by("theme").hidden = false;
  filter();
})();
