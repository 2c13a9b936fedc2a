/* SPDX-License-Identifier: Apache-2.0 */
/* story.js - lanes and curves of a job over one axis of time: what one zooms or points at, all of them show */
import { el, put, svg } from "./dom.js";
import { clock, icon, number } from "./figures.js";
import { text } from "./texts.js";
import uPlot from "./uplot.js";

const INCRS = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400, 172800, 604800];
const AXIS = 52, HEIGHTS = { loss: 132 }, HEIGHT = 84, MARK = 14;

/* A colour of the style sheet as canvas takes it. */
export function ink(name) {
  const probe = el("span", {});
  probe.style.color = `var(--${name})`;
  document.body.append(probe);
  const colour = getComputedStyle(probe).color;
  probe.remove();
  return colour;
}

/* Exponential moving average without the bias of its start, as in TensorBoard. */
function smooth(values, weight) {
  let sum = 0, n = 0;
  return values.map((v) => {
    if (!Number.isFinite(v)) return null;
    sum = weight * sum + (1 - weight) * v;
    return sum / (1 - weight ** ++n);
  });
}

/* A few points, or one alone, would be no line. */
const FEW = 30, dots = { size: 4, show: (u, i) => u.data[i].filter(Number.isFinite).length < FEW };

function range([low, high]) {
  if (!Number.isFinite(low)) return [0, 1];
  const pad = (high - low) * 0.06 || Math.abs(low) * 0.1 || 1;
  return [low - pad, high + pad];
}

/* ---- one curve ---- */

function optionsOf(name, width, shared, faint) {
  const grid = { stroke: ink("line"), width: 1 }, font = `11px ${getComputedStyle(document.body).fontFamily}`, stroke = ink("text-3");
  const cut = (u, t) => u.valToPos(t, "x") > u.over.clientWidth - 24;     /* a time that would end beyond the edge */
  const time = (u, s) => s.map((t) => (cut(u, t) ? "" : clock(new Date(t * 1000).toISOString()).slice(0, s[1] - s[0] < 60 ? 8 : 5)));
  const quiet = { space: 70, incrs: INCRS, values: shared.last ? time : (u, s) => s.map(() => "") };
  return {
    width, height: (HEIGHTS[name] ?? HEIGHT) + (shared.last ? 26 : 0), legend: { show: false }, padding: [8, 0, shared.last ? 0 : 6, 0],
    cursor: { sync: { key: shared.key }, drag: { x: true, y: false, setScale: false }, points: { size: 6 }, y: false },
    scales: { x: { time: true }, y: shared.log ? { distr: 3 } : { range: (u, low, high) => range([low, high]) } },
    axes: [{ grid, font, stroke, ticks: { show: false }, size: shared.last ? 26 : 0, gap: 4, ...quiet },
      { grid, font, stroke, ticks: { show: false }, size: AXIS, gap: 4, space: 28, values: (u, s) => s.map((v) => number(v, 4)) }],
    series: [{}, { stroke: faint ? ink("faint") : ink("accent"), width: faint ? 1 : 1.5, spanGaps: false, points: { ...dots, fill: ink("accent") } },
      ...(faint ? [{ stroke: ink("accent"), width: 1.5, spanGaps: false, points: { show: false } }] : [])],
    hooks: {
      setSelect: [(u) => { if (u.select.width > 4) { shared.zoom(u.posToVal(u.select.left, "x"), u.posToVal(u.select.left + u.select.width, "x")); u.setSelect({ left: 0, width: 0, top: 0, height: 0 }, false); } }],
      setCursor: [(u) => shared.point(u.cursor.left < 0 ? null : u.posToVal(u.cursor.left, "x"))],
    },
  };
}

function curve(name, shared) {
  const value = el("b", {}), note = el("small", {}), host = el("div", { class: "plot", role: "img", tabindex: "-1" });
  const node = el("div", { class: "lane chart", "data-curve": name }, el("div", { class: "tag" }, text(`curve_${name}`), el("small", {}, text(`unit_${name}`))),
    host, el("div", { class: "read" }, value, note));
  let plot = null, data = [[], [], []];
  const weight = () => (name === "loss" ? shared.smoothing() : 0);
  const log = () => name === "loss" && shared.log() && data[1].every((v) => !Number.isFinite(v) || v > 0);
  const series = () => [data[0], data[1], ...(weight() > 0 ? [smooth(data[1], weight())] : [])];

  /* Of the point nearest to the second, or of the last one. */
  function read(second) {
    const i = second !== null && plot ? plot.valToIdx(second) : data[1].findLastIndex((v) => Number.isFinite(v));
    put(value, i >= 0 ? number(data[1][i], 4) : "—");
    const mean = i >= 0 && weight() > 0 && plot ? `${text("smoothedTo", number(plot.data[2][i], 4))} ` : "";
    put(note, mean + (i >= 0 && data[2][i] !== null ? text("atStep", number(data[2][i], 12)) : ""));
  }
  function rescale() {
    const [min, max] = shared.range();
    plot?.batch(() => {
      plot.setData(series(), false);
      plot.setScale("x", { min, max });
    });
  }
  function draw() {
    plot?.destroy();
    host.plot = plot = new uPlot(optionsOf(name, host.clientWidth || 300, { ...shared, log: log() }, weight() > 0), series(), host);
    rescale();
    plot.over.addEventListener("dblclick", () => shared.zoom(null, null));
  }
  function show(next) {
    const was = log();
    data = next;
    const again = !plot || log() !== was;
    const values = data[1].filter(Number.isFinite);
    host.setAttribute("aria-label", values.length ? text("curveSays", text(`curve_${name}`), number(values.at(-1), 4),
      number(values.reduce((a, b) => Math.min(a, b)), 4), number(values.reduce((a, b) => Math.max(a, b)), 4)) : text("noPoints"));
    if (again) draw();
    else rescale();
    read(null);
  }
  return {
    node, show, draw, read, rescale, name,
    fit: () => plot?.setSize({ width: host.clientWidth || 300, height: plot.height }),
    close: () => plot?.destroy(),
  };
}

/* ---- the phases of a step, one above the other ---- */

export const PHASES = ["data", "forward", "backward", "reduce", "optimizer"];

/* Drawn from the highest sum to the lowest, so that each covers what is below it. Values by step: phases have the same ones. */
function stacked(curves) {
  const [times, , steps] = curves.data_ms, at = PHASES.map((p) => new Map(curves[`${p}_ms`][2].map((s, i) => [s, curves[`${p}_ms`][1][i]])));
  const values = at.map((of) => steps.map((s) => (s === null ? null : of.get(s) ?? null))), sums = [];
  let sum = steps.map(() => 0);
  for (const row of values) sums.push(sum = sum.map((v, i) => (row[i] === null ? null : v + row[i])));
  return { data: [times, ...sums.reverse()], values, steps };
}

function phaseChart(shared) {
  const numbers = PHASES.map((p) => el("b", {})), host = el("div", { class: "plot", role: "img", tabindex: "-1" });
  const key = el("ul", { class: "phases" }, ...PHASES.map((p, i) => el("li", {}, el("i", { class: `ph-${p}` }), text(`phase_${p}`), " ", numbers[i])));
  const node = el("div", { class: "lane chart", "data-curve": "phases" }, el("div", { class: "tag" }, text("curve_phases"), el("small", {}, text("unit_step_ms"))), host, el("div", { class: "read" }, key));
  let plot = null, told = null;
  function read(second) {
    const i = !told ? -1 : second !== null && plot ? plot.valToIdx(second) : told.steps.length - 1;
    numbers.forEach((n, p) => put(n, i >= 0 && Number.isFinite(told.values[p][i]) ? number(told.values[p][i]) : "—"));
  }
  function rescale() {
    const [min, max] = shared.range();
    plot?.batch(() => { plot.setData(told.data, false); plot.setScale("x", { min, max }); });
  }
  function draw() {
    plot?.destroy();
    const options = optionsOf("phases", host.clientWidth || 300, { ...shared, log: false }, false);
    options.scales.y = { range: (u, low, high) => [0, (high || 1) * 1.05] };
    options.series = [{}, ...[...PHASES].reverse().map((p) => ({ stroke: ink(`ph-${p}`), fill: ink(`ph-${p}`), width: 1, spanGaps: false, points: { show: false } }))];
    plot = new uPlot(options, told.data, host);
    rescale();
    plot.over.addEventListener("dblclick", () => shared.zoom(null, null));
  }
  function show(curves) {
    told = stacked(curves);
    host.setAttribute("aria-label", text("phasesSay", PHASES.map((p, i) => `${text(`phase_${p}`)} ${number(told.values[i].findLast(Number.isFinite) ?? null)}`).join(", ")));
    if (plot) rescale();
    else draw();
    read(null);
  }
  return { node, show, draw, read, rescale, name: "phases", fit: () => plot?.setSize({ width: host.clientWidth || 300, height: plot.height }), close: () => plot?.destroy() };
}

/* ---- lanes ---- */

function lane(name) {
  const plot = el("div", { class: "plot marks" });
  return { node: el("div", { class: "lane" }, el("div", { class: "tag" }, text(`lane_${name}`)), plot, el("div", { class: "read" })), plot };
}

function drawBars(plot, bars, x, width) {
  plot.replaceChildren(...bars.filter((b) => x(b.to) > 0 && x(b.from) < width).map((b) => {
    const left = Math.max(0, x(b.from)), node = el("span", { class: `span ${b.look}`, title: b.words }, el("span", { class: "cut" }, b.words));
    node.style.left = `${AXIS + left}px`;
    node.style.width = `${Math.max(2, Math.min(width, x(b.to)) - left - 1)}px`;
    return node;
  }));
}

/* Marks that would lie over each other become one with a number. */
function drawMarks(plot, marks, x, width, say) {
  const groups = [];
  for (const m of marks) {
    const at = x(m.second);
    if (at < -2 || at > width + 2) continue;
    const last = groups.at(-1);
    if (last && at - last.at < MARK && last.marks[0].shape === m.shape) last.marks.push(m);
    else groups.push({ at, marks: [m] });
  }
  plot.replaceChildren(...groups.map(({ at, marks: list }) => {
    const words = list.slice(0, 5).map((m) => m.words).join("\n") + (list.length > 5 ? `\n… ${list.length}` : "");
    const node = el("button", { type: "button", class: `mark ${list[0].shape}`, title: words, "aria-label": words, onclick: () => say(words) },
      icon(list[0].shape), list.length > 1 ? el("i", {}, String(list.length)) : null);
    node.style.left = `${AXIS + Math.min(at, width - 7) - 7}px`;
    return node;
  }));
}

/* ---- all of it ---- */

const CURVES = ["loss", "samples_per_s", "grad_norm", "lr", "step_ms"];

export function story() {
  const key = `story-${Math.random()}`, lanes = Object.fromEntries(["attempt", "generation", "incidents", "checkpoints"].map((n) => [n, lane(n)]));
  const when = el("b", { class: "when" }), saying = el("p", { class: "saying", role: "status" }), plots = el("div", { class: "story", tabindex: "0", role: "group", "aria-label": text("story"), onkeydown: key1 });
  let all = [0, 1], zoomed = null, facts = null, curves = [], pointed = false;
  const slider = el("input", { type: "range", min: "0", max: "0.99", step: "0.01", value: "0", oninput: redraw });
  const scale = el("input", { type: "checkbox", onchange: redraw });
  const shared = { key, range: () => zoomed ?? all, zoom, point, smoothing: () => Number(slider.value), log: () => scale.checked };
  const spans = [["span15", 900], ["span60", 3600], ["spanAll", 0]].map(([name, s]) => el("button", { type: "button", "aria-pressed": String(!s),
    onclick: (e) => { zoom(s ? all[1] - s : null, all[1]); press(e.currentTarget); } }, text(name)));
  const node = el("section", { class: "panel", id: "story" }, el("header", {}, el("h2", {}, text("story")), when, el("span", { class: "end" },
    el("label", {}, text("smoothing"), " ", slider), el("label", {}, scale, " ", text("logScale")), el("span", { class: "seg" }, ...spans))), plots, saying);
  plots.append(...Object.values(lanes).map((l) => l.node));

  function redraw() { for (const c of curves) if (c.name === "loss") { c.draw(); c.read(null); } }

  function press(button) { for (const b of spans) b.setAttribute("aria-pressed", String(b === button)); }

  function zoom(from, to) {
    zoomed = from === null || !(to > from) ? null : [Math.max(all[0], from), Math.min(all[1], to)];
    press(zoomed ? null : spans.at(-1));
    node.dataset.range = zoomed ? zoomed.join(" ") : "";
    for (const c of curves) c.rescale();
    drawLanes();
  }

  /* One cursor for all: its numbers stand at the right. */
  function point(second) {
    if (pointed) return;
    pointed = true;
    put(when, second === null ? "" : clock(new Date(second * 1000).toISOString()));
    for (const c of curves) c.read(second);
    pointed = false;
  }

  function drawLanes() {
    if (!facts) return;
    const width = lanes.attempt.plot.clientWidth - AXIS, [from, to] = shared.range();
    const x = (t) => (t - from) / (to - from || 1) * width;
    drawBars(lanes.attempt.plot, facts.attempts, x, width);
    drawBars(lanes.generation.plot, facts.generations, x, width);
    const say = (words) => put(saying, words);
    drawMarks(lanes.incidents.plot, facts.incidents, x, width, say);
    drawMarks(lanes.checkpoints.plot, facts.checkpoints, x, width, say);
  }

  /* facts: {from, to, attempts, generations, incidents, checkpoints, curves: {name: [times, values, steps]}} */
  function show(next) {
    facts = next;
    all = [facts.from, Math.max(facts.to, facts.from + 0.2)];
    const names = CURVES.filter((n) => facts.curves[n]?.[0].length);
    if (PHASES.every((p) => facts.curves[`${p}_ms`]?.[0].length)) names.push("phases");
    if (names.join() !== curves.map((c) => c.name).join()) {
      for (const c of curves) { c.close(); c.node.remove(); }
      curves = names.map((n, i) => (n === "phases" ? phaseChart : curve.bind(null, n))({ ...shared, last: i === names.length - 1 }));
      plots.append(...curves.map((c) => c.node));
    }
    for (const c of curves) c.show(c.name === "phases" ? facts.curves : facts.curves[c.name]);
    drawLanes();
    node.dataset.drawn = String(facts.curves.loss?.[0].length ?? 0);
  }

  function key1(e) {
    const [from, to] = shared.range(), span = to - from, by = e.shiftKey ? 0.5 : 0.1;
    if (e.target !== plots) return;
    if (e.key === "+" || e.key === "=") zoom(from + span * 0.25, to - span * 0.25);
    else if (e.key === "-") zoom(from - span * 0.5, to + span * 0.5);
    else if (e.key === "ArrowLeft") zoom(from - span * by, to - span * by);
    else if (e.key === "ArrowRight") zoom(from + span * by, to + span * by);
    else if (e.key === "Escape" && zoomed) zoom(null, null);
    else return;
    e.preventDefault();
    e.stopPropagation();
  }

  const watcher = new ResizeObserver(() => { for (const c of curves) c.fit(); drawLanes(); });
  watcher.observe(plots);
  return { node, show, restyle: () => curves.forEach((c) => c.draw()), close: () => { watcher.disconnect(); curves.forEach((c) => c.close()); } };
}
