"use strict";
/* The time axis of a report. The data is in #axis-data, and its texts come from records and logs: they are only ever
   set as textContent or drawn on a canvas. Times are seconds since the start of the run. */
(() => {
  const RIGHT = 12, LANE = 18, GROUP = 22, PANE = 92, RULER = 26, SHORTEST_S = 0.002;
  const STYLES = {
    "committed": "ok", "aborted on purpose": "abort", "aborted": "abort", "failed": "fail", "unknown": "info", "left open": "info",
    "fault": "band", "fault that did not act": "band", "finding": "info", "finding that does not decide": "abort", "phase": "abort", "owns partitions": "records",
    "changed request": "band", "delivered to a broker": "ink", "a leader epoch": "ok", "new leader": "info", "new coordinator": "info",
    "error": "info", "warning": "fail", "up": "ok", "paused": "info", "killed": "band", "ended": "ink",
  };
  const LABELLED = ["Phases of the run", "Faults", "Processes", "Partitions that group members own", "Leaders and coordinators"];
  const ABOVE = ["Phases of the run", "Faults", "Findings", "Processes"];
  const byId = (id) => document.getElementById(id);
  const { store, axis: data } = JSON.parse(byId("axis-data").textContent);
  let view = data && [data.from_s, data.to_s];
  let searched = null;

  function make(name, className, text = "") {
    const element = document.createElement(name);
    element.className = className;
    element.textContent = text;
    return element;
  }

  const palette = new Map(); // the colours of the current scheme
  function colour(style) {
    if (!palette.has(style)) palette.set(style, getComputedStyle(document.documentElement).getPropertyValue(`--${style}`).trim());
    return palette.get(style);
  }

  const styleOf = (kind) => STYLES[kind] || "abort";
  const clamp = (value, low, high) => Math.min(Math.max(value, low), high);

  /* ---- words ---- */

  const number = (value) => value.toLocaleString("en", Number.isInteger(value) ? {} : { maximumSignificantDigits: 4 });
  const milliseconds = (value) => (value >= 1000 ? `${number(value / 1000)} s` : `${number(value)} ms`);

  function withUnit(value, unit) {
    if (value == null) return "–";
    if (unit === "ms") return milliseconds(value);
    return unit === "/s" ? number(value) : `${number(value)} ${unit}`;
  }

  function seconds(time, span) {
    const digits = span > 100 ? 0 : span > 10 ? 1 : span > 1 ? 2 : 3;
    return time.toFixed(digits);
  }

  function wordsOf(lane, [, , kind, count = 1, text = ""]) {
    if (count > 1) return `${number(count)} ${kind}`;
    if (!text) return kind;
    return lane.group.startsWith("Transactions") ? `${text}: ${kind}` : text;
  }

  function whenOf([from, to]) {
    const begin = (from / 1000).toFixed(3);
    if (to == null) return `from ${begin} s, no end`;
    return to === from ? `at ${begin} s` : `${begin} to ${(to / 1000).toFixed(3)} s (${milliseconds(to - from)})`;
  }

  const describeBar = (lane, bar) => [lane.name || lane.group, wordsOf(lane, bar), whenOf(bar)];

  /* ---- the shown time ---- */

  const full = () => view[0] <= data.from_s && view[1] >= data.to_s;

  function show(from, to, { keepHash = false } = {}) {
    const length = clamp(to - from, SHORTEST_S, data.to_s - data.from_s);
    const start = clamp(from, data.from_s, data.to_s - length);
    view = [start, start + length];
    redraw();
    filterTables();
    if (!keepHash) writeHashSoon();
  }

  const showAll = () => show(data.from_s, data.to_s);

  function zoom(factor, around = (view[0] + view[1]) / 2) {
    show(around - (around - view[0]) * factor, around + (view[1] - around) * factor);
  }

  const pan = (share) => show(view[0] + share * (view[1] - view[0]), view[1] + share * (view[1] - view[0]));

  /* ---- the hash of the address: #t=12.3-14.5 ---- */

  let hashTimer = 0;
  function writeHashSoon() { // browsers limit how often the address may change
    clearTimeout(hashTimer);
    hashTimer = setTimeout(() => {
      const hash = full() ? "" : `#t=${view[0].toFixed(3)}-${view[1].toFixed(3)}`;
      if (hash || /^#t=/.test(location.hash)) history.replaceState(null, "", hash || location.pathname + location.search);
    }, 120);
  }

  function readHash() {
    const match = /^#t=([\d.]+)-([\d.]+)$/.exec(location.hash);
    if (location.hash) clearTimeout(hashTimer); // a link to another place was followed
    if (!match || !(Number(match[1]) < Number(match[2]))) return;
    show(Number(match[1]), Number(match[2]), { keepHash: true });
    byId("axis").scrollIntoView();
  }

  /* ---- tables ---- */

  const filters = [];

  function prepareTables() {
    for (const container of document.querySelectorAll("[data-filtered]")) {
      const rows = [...container.querySelectorAll("[data-from]")];
      if (!rows.length) continue;
      const note = make("p", "filter-note");
      const count = make("span", "");
      const button = make("button", "", "Show all");
      button.type = "button";
      button.addEventListener("click", showAll);
      note.hidden = true;
      note.append(count, " ", button);
      const place = container.closest(".scroll") || container;
      if (place.tagName === "SECTION") place.querySelector("h3").after(note);
      else place.before(note);
      filters.push({ rows, note, count, noun: container.dataset.filtered });
    }
  }

  function isOutside(row) {
    const from = Number(row.dataset.from), to = row.dataset.to === undefined ? Infinity : Number(row.dataset.to);
    return from > view[1] || to < view[0];
  }

  function filterTables() {
    const plot = byId("axis-plot"), before = plot.getBoundingClientRect().top;
    for (const { rows, note, count, noun } of filters) {
      let shown = 0;
      for (const row of rows) {
        const outside = !full() && isOutside(row);
        row.classList.toggle("outside", outside);
        shown += outside ? 0 : 1;
      }
      note.hidden = full();
      count.textContent = `${shown} of ${rows.length} ${noun} shown: those between ${view[0].toFixed(2)} and ${view[1].toFixed(2)} s.`;
    }
    byId("shown-time").hidden = full();
    byId("view").textContent = `${view[0].toFixed(2)} to ${view[1].toFixed(2)} s`;
    const moved = plot.getBoundingClientRect().top - before; // rows above the axis came or went
    if (moved) scrollBy({ top: moved, behavior: "instant" });
  }

  /* ---- geometry ---- */

  let width = 0, gutter = 0, narrow = false;

  function measure() {
    width = byId("axis-plot").clientWidth;
    narrow = width < 560;
    gutter = narrow ? 54 : 165;
    byId("axis-plot").classList.toggle("axis-narrow", narrow);
  }

  const plotWidth = () => width - gutter - RIGHT;
  const toX = (time) => gutter + ((time - view[0]) / (view[1] - view[0])) * plotWidth();
  const toTime = (x) => view[0] + ((x - gutter) / plotWidth()) * (view[1] - view[0]);

  function ticks() {
    const rough = ((view[1] - view[0]) * (narrow ? 60 : 85)) / plotWidth();
    const power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].find((factor) => factor * power >= rough) * power;
    const digits = Math.max(0, -Math.floor(Math.log10(step) + 1e-9));
    const found = [];
    for (let n = Math.ceil(view[0] / step); n * step <= view[1]; n++) found.push([n * step, (n * step).toFixed(digits)]);
    return found;
  }

  function context(canvas, height) {
    const scale = devicePixelRatio || 1;
    canvas.width = Math.round(width * scale);
    canvas.height = Math.round(height * scale);
    canvas.style.width = `${width}px`;
    canvas.style.height = `${height}px`;
    const brush = canvas.getContext("2d");
    brush.scale(scale, scale);
    brush.font = "11px system-ui, 'DejaVu Sans', sans-serif";
    return brush;
  }

  /* ---- bands of faults and lines of findings, behind everything ---- */

  const barsOf = (group) => data.lanes.filter((lane) => lane.group === group).flatMap((lane) => lane.bars);

  function drawBands(brush, height, place = toX) {
    const left = place(view[0]), right = place(view[1]);
    brush.save();
    brush.beginPath();
    brush.rect(left, 0, right - left, height);
    brush.clip();
    for (const [from, to, kind] of barsOf("Faults")) {
      const x = place(from / 1000), end = to == null ? right : place(to / 1000);
      brush.fillStyle = brush.strokeStyle = colour("band");
      brush.globalAlpha = kind === "fault" ? 0.13 : 0.04;
      brush.fillRect(x, 0, Math.max(end - x, 1), height);
      brush.globalAlpha = 0.6;
      brush.fillRect(x, 0, 1, height);
    }
    brush.globalAlpha = 0.5;
    brush.fillStyle = colour("info");
    for (const [from, , kind] of barsOf("Findings")) if (kind === "finding") brush.fillRect(place(from / 1000), 0, 1, height);
    brush.restore();
  }

  /* ---- panes: uPlot draws, and all pointers and keys are handled here ---- */

  const panes = [];

  function paneOptions(pane) {
    const grid = { stroke: () => colour("rule"), width: 1 };
    const font = "11px system-ui, 'DejaVu Sans', sans-serif";
    const series = pane.lines.map((line) => ({
      label: line.name, stroke: () => colour(line.style), width: 1.75,
      fill: pane.steps ? () => `${colour(line.style)}29` : undefined,
      dash: !pane.steps && line.style === "info" ? [4, 3] : undefined,
      paths: pane.steps ? uPlot.paths.stepped({ align: 1 }) : undefined,
      points: { show: !pane.steps, size: 4, fill: () => colour(line.style) },
    }));
    return {
      width, height: PANE, padding: [6, RIGHT, 4, 0], legend: { show: false }, series: [{}, ...series],
      cursor: { show: false, drag: { x: false, y: false } },
      scales: {
        x: { time: false, range: () => view },
        y: pane.log ? { distr: 3 } : { range: (_, low, high) => [0, Math.max((high || 0) * 1.08, pane.unit === "/s" ? 1 : 5)] },
      },
      axes: [
        { size: 0, gap: 0, ticks: { show: false }, grid, splits: () => ticks().map(([time]) => time), values: (_, times) => times.map(() => "") },
        {
          size: gutter, stroke: () => colour("soft"), grid, font, space: 22, ticks: { show: false },
          splits: pane.log ? (_, axis, low, high) => powers(low, high) : undefined,
          values: (_, values) => values.map((value) => (value == null ? "" : pane.unit === "ms" ? milliseconds(value) : number(value))),
        },
      ],
      hooks: { drawClear: [(plot) => drawPaneBands(plot)] },
    };
  }

  function powers(low, high) {
    const found = [];
    for (let power = Math.ceil(Math.log10(low) - 1e-9); 10 ** power <= high * 1.001; power++) found.push(10 ** power);
    return found;
  }

  function drawPaneBands(plot) {
    const scale = devicePixelRatio || 1;
    plot.ctx.save();
    plot.ctx.scale(scale, scale);
    drawBands(plot.ctx, PANE, toX);
    plot.ctx.restore();
  }

  function addPane(pane) {
    const block = make("div", "axis-block axis-pane");
    const title = make("div", "pane-title");
    title.append(make("span", "pane-name", pane.name));
    const values = pane.lines.map((line) => make("span", `value style-${line.style}`));
    title.append(...values);
    const body = make("div", "");
    block.append(title, body);
    byId("axis-plot").append(block);
    const entry = { pane, block, values, body, plot: null };
    entry.plot = new uPlot(paneOptions(pane), [pane.at, ...pane.lines.map((line) => line.values)], body);
    panes.push(entry);
    showValues(entry, null);
  }

  function pointAt(pane, time) {
    let index = pane.at.findLastIndex((at) => at <= time);
    if (!pane.steps && index + 1 < pane.at.length && (index < 0 || pane.at[index + 1] - time < time - pane.at[index])) index += 1;
    return index;
  }

  function showValues({ pane, values }, time) {
    const index = time == null ? -1 : pointAt(pane, time);
    pane.lines.forEach((line, n) => {
      const name = pane.lines.length > 1 ? `${line.name} ` : "";
      values[n].textContent = index < 0 ? name : `${name}${withUnit(line.values[index], pane.unit)}`;
    });
  }

  /* ---- lanes ---- */

  const laneBlocks = [];

  function layOut(lanes) {
    const rows = [];
    const laneHeight = narrow ? LANE + 13 : LANE;
    let top = 0, group = "";
    for (const lane of lanes) {
      const heading = lane.group !== group && (!ABOVE.includes(lane.group) || ["Findings", "Processes"].includes(lane.group));
      if (heading) rows.push({ heading: lane.group, top: (top += 8), height: GROUP });
      if (heading) top += GROUP;
      group = lane.group;
      rows.push({ lane, top, height: laneHeight });
      top += laneHeight;
    }
    return { rows, height: top + 4 };
  }

  function addLanes(lanes) {
    if (!lanes.length) return;
    const block = make("div", "axis-block axis-lanes"), canvas = make("canvas", ""), names = make("div", "axis-names");
    block.append(canvas, names);
    byId("axis-plot").append(block);
    laneBlocks.push({ block, canvas, names, lanes, rows: [], height: 0 });
  }

  function layOutLanes(entry) {
    Object.assign(entry, layOut(entry.lanes));
    entry.names.replaceChildren(...entry.rows.map((row) => {
      const name = make("div", row.heading ? "lane-group" : "lane-name", row.heading || row.lane.name);
      if (row.lane && row.lane.finding && row.lane.group !== "Faults") name.classList.add("of-finding");
      name.title = name.textContent;
      name.style.top = `${row.top + (row.heading || narrow ? 0 : 2)}px`;
      name.style.width = row.heading || narrow ? `${width}px` : `${gutter}px`;
      row.name = name;
      return name;
    }));
  }

  function drawLanes(entry) {
    const brush = context(entry.canvas, entry.height);
    drawBands(brush, entry.height);
    brush.strokeStyle = brush.fillStyle = colour("rule");
    for (const [time] of ticks()) brush.fillRect(Math.round(toX(time)), 0, 1, entry.height);
    for (const row of entry.rows) {
      if (!row.lane) continue;
      row.name.classList.toggle("match", Boolean(searched && searched.lanes.has(row.lane)));
      drawLane(brush, row);
    }
  }

  function drawLane(brush, { lane, top, height }) {
    const base = top + height - 2, inner = LANE - 5;
    brush.globalAlpha = 1;
    brush.fillStyle = colour("rule");
    brush.fillRect(gutter, base, plotWidth(), 1);
    brush.save();
    brush.beginPath();
    brush.rect(gutter, top, plotWidth(), height);
    brush.clip();
    lane.bars.forEach((bar, n) => drawBar(brush, lane, bar, lane.bars[n + 1], base - inner - 1, inner));
    brush.restore();
  }

  function barEnds(bar, following) {
    const begin = toX(bar[0] / 1000);
    const until = bar[1] != null ? bar[1] / 1000 : following ? following[0] / 1000 : data.to_s;
    const mark = bar[1] === bar[0];
    return [mark ? begin - 1 : begin, mark ? begin + 2 : Math.max(toX(until), begin + 2)];
  }

  function drawBar(brush, lane, bar, following, top, height) {
    const [left, right] = barEnds(bar, following);
    if (right < gutter || left > width - RIGHT) return;
    const style = styleOf(bar[2]), hollow = bar[2] === "fault that did not act" || style === "abort";
    brush.fillStyle = brush.strokeStyle = colour(style);
    brush.globalAlpha = opacity(lane, bar);
    const low = style === "ok" ? 3 : 0; // how a transaction ended shows in its height, too
    const gap = right - left > 3 ? 0.5 : 0;
    if (hollow) brush.strokeRect(left + 0.5, top + 0.5, Math.max(right - left - 1, 1), height - 1);
    else brush.fillRect(left, top + low, right - left - gap, height - low);
    brush.globalAlpha = 1;
    if (searched && searched.bars.has(bar)) {
      brush.strokeStyle = colour("ink");
      brush.lineWidth = 2;
      brush.strokeRect(left - 1, top, right - left + 2, height);
      brush.lineWidth = 1;
    }
    if (!LABELLED.includes(lane.group)) return;
    const next = following ? toX(following[0] / 1000) : width - RIGHT;
    const onBar = !hollow && !lane.group.startsWith("Leaders");
    drawLabel(brush, lane, bar, { left: Math.max(left, gutter), right: Math.min(right, width - RIGHT), next, base: top + height - 3, onBar });
  }

  function opacity(lane, bar) {
    if (bar[1] === bar[0]) return 0.9; // a mark
    if (bar[1] == null || lane.group.startsWith("Requests")) return 0.45; // it has no end, or can overlap others
    return lane.group.startsWith("Leaders") ? 0.3 : 0.9;
  }

  function labelOf(lane, bar) {
    const text = bar[4] || "";
    return lane.group.startsWith("Phases") ? text : text.split(/[:(]/)[0].trim();
  }

  function drawLabel(brush, lane, bar, { left, right, next, base, onBar }) {
    const label = labelOf(lane, bar), short = lane.group === "Faults" ? label.split(" ")[0] : "";
    const room = (text) => text && brush.measureText(text).width + 8;
    const inside = [label, short].find((text) => text && room(text) < right - left);
    if (lane.group === "Faults" && inside !== label && room(label) < next - right) {
      brush.fillStyle = colour("band");
      brush.fillText(label, right + 4, base);
    } else if (inside) {
      brush.fillStyle = onBar ? colour("paper") : colour("ink");
      brush.fillText(inside, left + 4, base);
    }
  }

  /* ---- rulers ---- */

  const rulers = [];

  function addRuler() {
    const canvas = make("canvas", "axis-ruler");
    byId("axis-plot").append(canvas);
    rulers.push(canvas);
  }

  function drawRuler(canvas) {
    const brush = context(canvas, RULER);
    drawBands(brush, RULER);
    brush.fillStyle = colour("soft");
    brush.textAlign = "center";
    const edge = brush.measureText("000").width;
    for (const [time, label] of ticks()) {
      brush.fillRect(Math.round(toX(time)), RULER - 6, 1, 6);
      if (toX(time) < width - edge / 2) brush.fillText(label, toX(time), RULER - 10);
    }
    brush.textAlign = "right";
    brush.fillText(narrow ? "s" : "seconds", gutter - (narrow ? 8 : 18), RULER - 10);
    brush.textAlign = "left";
  }

  /* ---- drawing ---- */

  function redraw() {
    for (const { plot } of panes) plot.batch(() => {
      plot.setScale("x", { min: view[0], max: view[1] });
      plot.redraw(true, true);
    });
    laneBlocks.forEach(drawLanes);
    rulers.forEach(drawRuler);
  }

  function resize() {
    const before = width;
    measure();
    if (width === before || !width) return;
    for (const entry of panes) {
      entry.plot.destroy();
      entry.plot = new uPlot(paneOptions(entry.pane), [entry.pane.at, ...entry.pane.lines.map((line) => line.values)], entry.body);
    }
    laneBlocks.forEach(layOutLanes);
    redraw();
  }

  function addLegend() {
    const kinds = [...new Set(data.lanes.filter((lane) => /^(Processes|Transactions|Requests|Warnings)/.test(lane.group)).flatMap((lane) => lane.bars.map((bar) => bar[2])))];
    const legend = make("div", "axis-legend");
    for (const kind of kinds) {
      const entry = make("span", "", kind === "error" || kind === "warning" ? `${kind} in a log` : kind);
      entry.style.setProperty("--swatch", `var(--${styleOf(kind)})`);
      legend.append(entry);
    }
    byId("axis-plot").after(legend);
  }

  function nameLeftOut() {
    const parts = Object.entries(data.left_out).map(([group, count]) => `${count} of ${group.toLowerCase()}`);
    byId("left-out").hidden = !parts.length;
    byId("left-out").textContent = `More lanes are not shown: ${parts.join(", ")}.`;
  }

  /* ---- pointer ---- */

  const overlay = { line: make("div", "axis-line"), brush: make("div", "axis-brush"), tip: make("div", "axis-tip") };
  let pressed = null;

  function inside(event) {
    const frame = byId("axis-plot").getBoundingClientRect();
    return { x: event.clientX - frame.left, y: event.clientY - frame.top };
  }

  function barAt(event) {
    const block = event.target.closest(".axis-lanes"), entry = laneBlocks.find((each) => each.block === block);
    if (!entry) return null;
    const y = event.clientY - block.getBoundingClientRect().top, { x } = inside(event);
    const row = entry.rows.find((each) => each.lane && y >= each.top && y < each.top + each.height);
    if (!row || x < gutter) return null;
    let best = null, least = 5;
    row.lane.bars.forEach((bar, n) => {
      const [left, right] = barEnds(bar, row.lane.bars[n + 1]);
      const off = x < left ? left - x : x > right ? x - right : 0;
      if (off < least || (off === 0 && least === 0)) [best, least] = [bar, off];
    });
    return best && { lane: row.lane, bar: best };
  }

  function showTip(point, lines, anchor = "") {
    overlay.tip.replaceChildren(...lines.map((line) => make("div", "", line)));
    overlay.tip.classList.toggle("pinned", Boolean(anchor));
    if (anchor) {
      const link = make("a", "", "to its place in the report");
      link.href = `#${anchor}`;
      overlay.tip.append(link);
    }
    overlay.tip.hidden = false;
    const tipWidth = overlay.tip.offsetWidth;
    overlay.tip.style.left = `${clamp(point.x + 14 + tipWidth > width ? point.x - tipWidth - 14 : point.x + 14, 0, width - tipWidth)}px`;
    overlay.tip.style.top = `${point.y + 14}px`;
  }

  function hover(event) {
    const point = inside(event), within = point.x >= gutter && point.x <= width - RIGHT;
    overlay.line.hidden = !within;
    overlay.line.style.left = `${point.x}px`;
    const time = within ? toTime(point.x) : null;
    panes.forEach((entry) => showValues(entry, time));
    if (overlay.tip.classList.contains("pinned")) return;
    const at = within && barAt(event);
    const pane = within && panes.find((entry) => entry.block.contains(event.target));
    if (at) showTip(point, describeBar(at.lane, at.bar));
    else if (pane) showTip(point, [`${seconds(time, view[1] - view[0])} s`, ...paneWords(pane.pane, time)]);
    else overlay.tip.hidden = true;
  }

  function paneWords(pane, time) {
    const index = pointAt(pane, time);
    return pane.lines.map((line) => `${pane.name}${pane.lines.length > 1 ? `, ${line.name}` : ""}: ${withUnit(line.values[index], pane.unit)}`);
  }

  function unpin() {
    overlay.tip.classList.remove("pinned");
    overlay.tip.hidden = true;
  }

  function press(event) {
    if (event.button || overlay.tip.contains(event.target)) return;
    unpin();
    pressed = { x: inside(event).x, dragged: false };
  }

  function drag(event) {
    if (!pressed) return hover(event);
    const { x } = inside(event);
    if (!pressed.dragged && Math.abs(x - pressed.x) < 5) return undefined;
    if (!pressed.dragged) byId("axis-plot").setPointerCapture(event.pointerId);
    pressed.dragged = true;
    const [left, right] = [pressed.x, x].map((each) => clamp(each, gutter, width - RIGHT)).sort((a, b) => a - b);
    Object.assign(overlay.brush.style, { left: `${left}px`, width: `${right - left}px` });
    overlay.brush.hidden = false;
    overlay.tip.hidden = true;
    pressed.range = [toTime(left), toTime(right)];
    return undefined;
  }

  function release(event) {
    const before = pressed;
    pressed = null;
    overlay.brush.hidden = true;
    if (!before) return;
    if (before.dragged) {
      if (before.range[1] > before.range[0]) show(...before.range);
    } else clickBar(event);
  }

  function clickBar(event) {
    const at = barAt(event);
    const [from, to, , , , anchor] = at ? at.bar : [];
    if (!anchor) return;
    const point = inside(event);
    const end = to == null ? data.to_s * 1000 : to, margin = Math.max(500, (end - from) / 5);
    show((from - margin) / 1000, (end + margin) / 1000);
    showTip(point, describeBar(at.lane, at.bar), anchor);
  }

  function leave() {
    if (pressed) return;
    overlay.line.hidden = true;
    if (!overlay.tip.classList.contains("pinned")) overlay.tip.hidden = true;
    panes.forEach((entry) => showValues(entry, null));
  }

  function listenToPointer() {
    const plot = byId("axis-plot");
    plot.append(overlay.brush, overlay.line, overlay.tip);
    for (const element of Object.values(overlay)) element.hidden = true;
    plot.addEventListener("pointerdown", press);
    plot.addEventListener("pointermove", drag);
    plot.addEventListener("pointerup", release);
    plot.addEventListener("pointercancel", () => { pressed = null; overlay.brush.hidden = true; });
    plot.addEventListener("pointerleave", leave);
    plot.addEventListener("dblclick", () => { unpin(); showAll(); });
  }

  /* ---- keyboard ---- */

  const KEYS = {
    ArrowLeft: () => pan(-0.2), ArrowRight: () => pan(0.2), "+": () => zoom(0.5), "=": () => zoom(0.5), "-": () => zoom(2),
    Escape: () => { unpin(); showAll(); },
  };

  function pressKey(event) {
    const act = !event.ctrlKey && !event.metaKey && !event.altKey && KEYS[event.key];
    if (!act) return;
    event.preventDefault();
    act();
  }

  /* ---- search ---- */

  const escaped = (text) => text.replace(/[.*+?^${}()|[\]\\/]/g, "\\$&");

  function pattern(query) {
    const record = /^(.+)\/(\d+)\s*(?:@|offset)\s*(\d+)$/.exec(query);
    const text = record ? `${escaped(record[1])}\\/${record[2]}(?:\\s*@\\s*| offset )${record[3]}` : escaped(query).replace(/\s+/g, "\\s+");
    return new RegExp(`(?<![\\p{L}\\p{N}])${text}(?![\\p{L}\\p{N}])`, "iu");
  }

  /** The texts of an element with a space between them: cells and list items that touch are no one word. */
  function spaced(unit) {
    const nodes = document.createTreeWalker(unit, NodeFilter.SHOW_TEXT), texts = [];
    while (nodes.nextNode()) texts.push(nodes.currentNode.data);
    return texts.join(" ");
  }

  function search(query) {
    clearSearch();
    if (!query) return;
    const wanted = pattern(query);
    const parts = "main article, main tbody tr, main .journal .line", texts = "main p, main li, main dl > div, main pre";
    const others = [...document.querySelectorAll(texts)].filter((unit) => !unit.closest(`${parts}, #not-here`));
    const units = [...document.querySelectorAll(parts), ...others].filter((unit) => wanted.test(unit.textContent) || wanted.test(spaced(unit)));
    const lanes = data ? data.lanes.filter((lane) => wanted.test(lane.name) || lane.bars.some((bar) => wanted.test(bar[4] || ""))) : [];
    const bars = lanes.flatMap((lane) => lane.bars.filter((bar) => wanted.test(bar[4] || "")));
    searched = { query, lanes: new Set(lanes), bars: new Set(bars), places: [...units, ...lanes], at: -1 };
    units.forEach((unit) => unit.classList.add("match"));
    highlight(units, wanted);
    laneBlocks.forEach(drawLanes);
    const none = !searched.places.length;
    byId("not-here").hidden = !none;
    for (const id of ["next", "previous"]) byId(id).disabled = none;
    if (none) offerTrace(query);
    countMatches();
  }

  function clearSearch() {
    searched = null;
    for (const unit of document.querySelectorAll(".match")) unit.classList.remove("match", "current");
    if (window.CSS && CSS.highlights) CSS.highlights.delete("search");
    byId("not-here").hidden = true;
    byId("matches").textContent = "";
    for (const id of ["next", "previous"]) byId(id).disabled = true;
    laneBlocks.forEach(drawLanes);
  }

  function highlight(units, wanted) {
    if (!(window.CSS && CSS.highlights && window.Highlight)) return;
    const everywhere = new RegExp(wanted.source, "giu"), ranges = [];
    for (const unit of units) {
      const nodes = document.createTreeWalker(unit, NodeFilter.SHOW_TEXT);
      while (nodes.nextNode() && ranges.length < 2000) {
        for (const match of nodes.currentNode.data.matchAll(everywhere)) {
          const range = new Range();
          range.setStart(nodes.currentNode, match.index);
          range.setEnd(nodes.currentNode, match.index + match[0].length);
          ranges.push(range);
        }
      }
    }
    CSS.highlights.set("search", new Highlight(...ranges));
  }

  function countMatches() {
    const { places, at } = searched;
    byId("matches").textContent = !places.length ? "no match" : at < 0 ? `${places.length} ${places.length === 1 ? "match" : "matches"}` : `${at + 1} of ${places.length}`;
  }

  function offerTrace(query) {
    const place = /^([^/@]+\/\d{1,9})\s*(?:@|offset)\s*(\d{1,18})$/.exec(query);
    const record = place !== null, subject = record ? `${place[1]}@${place[2]}` : query;
    const quoted = /^[\w@%+=:,./-]+$/.test(subject) ? subject : `'${subject.replace(/'/g, "'\\''")}'`;
    byId("trace-line").hidden = !store || query.startsWith("-") || /^\d+$/.test(query);
    byId("trace-of-id").hidden = record;
    byId("trace-command").textContent = `fencepost trace ${store} ${record ? "--record" : "--id"} ${quoted}`;
  }

  function goTo(step) {
    if (!searched || !searched.places.length) return;
    const { places } = searched;
    document.querySelectorAll(".match.current").forEach((unit) => unit.classList.remove("current"));
    searched.at = (searched.at + step + places.length) % places.length;
    if (searched.at < 0) searched.at = places.length - 1;
    const place = places[searched.at];
    if (place instanceof Element) reveal(place);
    else revealLane(place);
    countMatches();
  }

  function reveal(unit) {
    if (unit.classList.contains("outside")) showAll();
    for (let parent = unit.parentElement; parent; parent = parent.parentElement) if (parent.tagName === "DETAILS") parent.open = true;
    unit.classList.add("current");
    unit.scrollIntoView({ block: unit.offsetHeight > innerHeight / 2 ? "start" : "center" });
  }

  function revealLane(lane) {
    const row = laneBlocks.flatMap((entry) => entry.rows).find((each) => each.lane === lane);
    if (row) row.name.scrollIntoView({ block: "center" });
  }

  function listenToSearch() {
    const box = byId("search");
    let timer = 0;
    const again = () => search(box.value.trim());
    box.addEventListener("input", () => { clearTimeout(timer); timer = setTimeout(again, 150); });
    box.addEventListener("keydown", (event) => {
      if (event.key === "Enter") {
        clearTimeout(timer);
        if (!searched || searched.query !== box.value.trim()) again();
        goTo(event.shiftKey ? -1 : 1);
      } else if (event.key === "Escape") {
        box.value = "";
        clearSearch();
      }
    });
    byId("next").addEventListener("click", () => goTo(1));
    byId("previous").addEventListener("click", () => goTo(-1));
    byId("bar").hidden = false;
  }

  /* ---- start ---- */

  function build() {
    byId("axis").hidden = false;
    measure();
    addLanes(data.lanes.filter((lane) => ABOVE.includes(lane.group)));
    addRuler();
    data.panes.forEach(addPane);
    addLanes(data.lanes.filter((lane) => !ABOVE.includes(lane.group)));
    laneBlocks.forEach(layOutLanes);
    addLegend();
    nameLeftOut();
    prepareTables();
    listenToPointer();
    byId("axis-plot").addEventListener("keydown", pressKey);
    byId("show-all").addEventListener("click", showAll);
    addEventListener("hashchange", readHash);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { palette.clear(); redraw(); });
    new ResizeObserver(resize).observe(byId("axis-plot"));
    document.documentElement.classList.add("with-axis");
    redraw();
  }

  function leaveRoomForBar() {
    const height = byId("bar").offsetHeight;
    document.documentElement.style.setProperty("--bar-height", `${height}px`);
    document.documentElement.style.scrollPaddingTop = `${height + 8}px`;
  }

  listenToSearch();
  leaveRoomForBar();
  new ResizeObserver(leaveRoomForBar).observe(byId("bar"));
  if (data && byId("axis")) {
    build();
    readHash();
  }
})();
