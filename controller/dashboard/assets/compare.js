/* SPDX-License-Identifier: Apache-2.0 */
/* compare.js - two jobs or more: curves over each other by step, specs side by side with what differs */
import { get } from "./api.js";
import { el } from "./dom.js";
import { duration, known, number, percent, shape, wordOf } from "./figures.js";
import { linesOf } from "./specs.js";
import { ink } from "./story.js";
import { text } from "./texts.js";
import uPlot from "./uplot.js";

const CURVES = ["loss", "samples_per_s", "grad_norm", "lr", "step_ms"], INKS = ["accent", "warn", "violet", "ok", "bad"];
const DASHES = [[], [8, 4], [2, 3], [10, 3, 2, 3], [4, 4]], MOST = 5;

/* The longest common part of two lists of lines, as pairs of indexes (dynamic programming; specs are short). */
export function diff(a, b) {
  const best = Array.from({ length: a.length + 1 }, () => new Uint16Array(b.length + 1));
  for (let i = a.length - 1; i >= 0; i--) for (let j = b.length - 1; j >= 0; j--) best[i][j] = a[i] === b[j] ? best[i + 1][j + 1] + 1 : Math.max(best[i + 1][j], best[i][j + 1]);
  const rows = [];
  let i = 0, j = 0;
  while (i < a.length || j < b.length) {
    if (i < a.length && j < b.length && a[i] === b[j]) rows.push([a[i++], b[j++]]);
    else if (j >= b.length || (i < a.length && best[i + 1][j] >= best[i][j + 1])) rows.push([a[i++], null]);
    else rows.push([null, b[j++]]);
  }
  return rows;
}

function side(job) {
  const r = job.job, took = r.started_at ? ((r.ended_at ? Date.parse(r.ended_at) : Date.now()) - Date.parse(r.started_at)) / 1000 : null;
  return [el("a", { class: "link", href: `#/job/${r.id}` }, `${r.name} ${r.id}`), el("span", { class: `state ${wordOf(r)}` }, shape(wordOf(r)), text(wordOf(r))), known(r.step) ? number(r.step, 12) : "—",
    number(r.loss, 4), known(r.samples_per_s) ? `${number(r.samples_per_s)}/s` : "—", percent(r.goodput), duration(took), String(r.np ?? "—")];
}

function summary(jobs) {
  const heads = ["job", "state", "step", "loss", "speed", "goodput", "took", "ranks"], columns = jobs.map(side);
  return el("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": text("compare") }, el("table", { class: "list" }, el("tbody", {}, ...heads.map((h, i) => el("tr", {}, el("th", { scope: "row" }, text(h)),
    ...columns.map((c, k) => el("td", {}, i === 0 ? el("i", { class: `key k${k}` }) : null, c[i])))))));
}

function curveOf(name, found, width) {
  const steps = [...new Set(found.flatMap((p) => p.map(([s]) => s)))].sort((a, b) => a - b);
  const columns = found.map((p) => { const at = new Map(p); return steps.map((s) => at.get(s) ?? (at.has(s) ? null : undefined)); });
  const axis = { grid: { stroke: ink("line"), width: 1 }, stroke: ink("text-3"), ticks: { show: false }, font: `11px ${getComputedStyle(document.body).fontFamily}` };
  return [{
    width, height: 200, legend: { show: false }, scales: { x: { time: false } }, cursor: { sync: { key: "compare" }, y: false },
    axes: [{ ...axis, size: 28 }, { ...axis, size: 56, values: (u, s) => s.map((v) => number(v, 4)) }],
    series: [{}, ...found.map((_, k) => ({ stroke: ink(INKS[k]), width: 1.5, dash: DASHES[k], spanGaps: true, points: { show: false } }))],
  }, [steps, ...columns]];
}

function specs(jobs) {
  const rows = diff(linesOf(jobs[0].spec), linesOf(jobs[1].spec));
  const part = (words, look) => el("code", { class: words === null ? "none" : look }, words ?? "");
  return el("div", { class: "two-specs", tabindex: "0", role: "group", "aria-label": text("spec") }, ...rows.flatMap(([a, b]) => [part(a, b === null ? "del" : ""), part(b, a === null ? "add" : "")]));
}

export function comparePage(main, names, context) {
  const curves = el("div", { class: "curves" }), table = el("section", { class: "panel" }), spec = el("section", { class: "panel" });
  const plots = [];
  let found = null;
  main.replaceChildren(el("div", { class: "title" }, el("nav", { class: "crumbs", "aria-label": text("path") }, el("a", { href: "#/" }, text("jobs")), ` / ${text("compare")}`), el("div", { class: "head" }, el("h1", {}, text("compareJobs", names.join(", "))))), table, curves, spec);
  document.title = `${text("compare")} · jobctl`;

  function draw() {
    for (const p of plots.splice(0)) p.destroy();
    curves.replaceChildren();
    for (const name of CURVES) {
      const points = found.map((f) => f.curves[name]);
      if (!points.some((p) => p.length)) continue;
      const host = el("div", { class: "plot", role: "img", "aria-label": text("compareCurve", text(`curve_${name}`), names.join(", ")) });
      curves.append(el("figure", { class: "panel chart" }, el("figcaption", {}, text(`curve_${name}`)), host));
      plots.push(new uPlot(...curveOf(name, points, host.clientWidth || 400), host));
    }
  }

  async function read() {
    if (names.length < 2) { context.say(text("compareTwo")); return; }
    found = await Promise.all(names.slice(0, MOST).map(async (n) => {
      const path = `/v1/jobs/${encodeURIComponent(n)}`;
      const [all, { curves: points }] = await Promise.all([get(path), get(`${path}/metrics`, { names: CURVES.join(), limit: POINTS })]);
      return { ...all, curves: points };
    }));
    table.replaceChildren(summary(found));
    draw();
    spec.replaceChildren(el("header", {}, el("h2", {}, text("specs"))), specs(found));
    main.setAttribute("data-ready", "1");
  }

  const resized = () => plots.forEach((p) => p.setSize({ width: p.root.parentElement.clientWidth, height: 200 }));
  addEventListener("resize", resized);
  return { read, restyle: () => found && draw(), key: (e) => { if (e.key === "Escape") location.hash = "#/"; }, close: () => { removeEventListener("resize", resized); plots.forEach((p) => p.destroy()); } };
}

const POINTS = 2000;
