/* SPDX-License-Identifier: Apache-2.0 */
/* row.js - a job as a row of the list, and the order of rows */
import { get } from "./api.js";
import { el, put, putAttribute, svg } from "./dom.js";
import { duration, icon, known, number, percent, shape, wordOf } from "./figures.js";
import { text } from "./texts.js";

/* ---- order ---- */

const rank = { recovering: 0, stopping: 1, running: 2, starting: 3, pending: 4, held: 5 };

export function bandOf(job, seen) {
  const word = wordOf(job);
  if (word === "recovering" || (word === "failed" && Date.parse(job.ended_at) > seen)) return "attention";
  if (job.state === "done") return "finished";
  return word === "pending" || word === "held" ? "waiting" : "activeJobs";
}

/* Those that wait in the order in which they will start, those that are done newest first. */
export function order(a, b, band) {
  if (band === "finished" || band === "attention") return b.id - a.id;
  return (rank[wordOf(a)] - rank[wordOf(b)]) || (band === "waiting" ? b.priority - a.priority : 0) || a.id - b.id;
}

/* ---- sparklines: asked for when a row is in sight, two at a time ---- */

const sparks = new Map(), wanted = [];
let asking = 0;

export function forget(id) { sparks.delete(id); }

function sparkLine(points) {
  const values = points.map((p) => p[1]).filter(Number.isFinite);
  const low = Math.min(...values), high = Math.max(...values);
  const at = (v, i) => `${(i / Math.max(1, points.length - 1) * 100).toFixed(1)},${(22 - (v - low) / (high - low || 1) * 20).toFixed(1)}`;
  return points.map(([, v], i) => (Number.isFinite(v) ? at(v, i) : "")).filter(Boolean).join(" ");
}

async function askNext() {
  const row = wanted.pop();
  if (!row || asking >= 2) { if (row) wanted.push(row); return; }
  asking++;
  const { id, stamp } = row.spark;
  try {
    if (row.node.isConnected) {
      const { points } = await get(`/v1/jobs/${id}/metrics`, { name: "loss", limit: 48 });
      sparks.set(id, { stamp, line: points.length > 1 ? sparkLine(points) : "" });
      drawSpark(row, id);
    }
  } catch { /* the next time that the row is filled */ }
  asking--;
  askNext();
}

function drawSpark(row, id) { putAttribute(row.line, "points", sparks.get(id)?.line ?? ""); }

function putSpark(row, job) {
  drawSpark(row, job.id);
  if (!known(job.loss)) return;
  const stamp = job.state === "done" ? job.step : Math.floor((job.step ?? 0) / Math.max(1, (job.steps || 1000) / 50));
  if (sparks.get(job.id)?.stamp === stamp || row.spark?.stamp === stamp) return;
  row.spark = { id: job.id, stamp };
  wanted.push(row);
  setTimeout(askNext);      /* once the row is in the page */
}

/* ---- one row ---- */

export function makeBand(item) {
  const name = text(item.band);
  return { node: el("div", { class: "row band", role: "row" }, el("span", { role: "cell" }, name, " ",
    el("span", { class: "hint" }, text(`${item.band}Hint`, item.count.toLocaleString("en"))))) };
}

export function makeRow(id, actions) {
  const cells = Object.fromEntries(["state", "name", "id", "why", "steps", "share", "loss", "speed", "goodput", "left", "place"].map((k) => [k, el("span", {})]));
  const meter = el("progress", { max: "1", value: "0", "aria-label": text("progress") });
  const box = el("input", { type: "checkbox", "aria-label": `${text("select")} ${id}`, onchange: () => actions.pick(id, box.checked) });
  const fold = el("button", { type: "button", class: "fold", hidden: true, "aria-label": text("members"), onclick: () => actions.unfold(id) }, icon("chev"));
  const line = svg("polyline", { class: "spark" });
  cells.why.className = "why cut";
  cells.id.className = "id";
  cells.share.className = cells.steps.className = "dim";
  const cell = (name, ...children) => el("div", { class: `cell ${name}`, role: "cell" }, ...children);
  const link = el("a", { class: "name", href: `#/job/${id}` }, cells.name);
  const node = el("div", { class: "row job", role: "row", "data-id": id }, cell("pickbox", box), cell("state", cells.state),
    cell("what", el("span", { class: "cut" }, link, cells.id, fold), cells.why), cell("progress", el("span", { class: "two" }, cells.steps, cells.share), meter),
    cell("losses", svg("svg", { viewBox: "0 0 100 24", preserveAspectRatio: "none", "aria-hidden": "true" }, line), el("span", { class: "num" }, cells.loss)),
    cell("num speed", cells.speed), cell("num goodput", cells.goodput), cell("num left", cells.left), cell("place cut", cells.place));
  return { node, cells, meter, box, fold, line, word: null, spark: null };
}

function putState(row, word) {
  if (row.word === word) return;
  row.word = word;
  row.cells.state.className = `state ${word}`;
  row.cells.state.replaceChildren(shape(word), text(word));
}

function stepsOf(job) {
  if (job.members) return text("membersDone", job.members.succeeded + job.members.failed + job.members.cancelled, job.members.count);
  if (!known(job.step)) return job.state === "running" ? text("noSteps") : "";
  return number(job.step, 12) + (job.steps ? ` / ${number(job.steps, 12)}` : "");
}

function shareOf(job) {
  if (job.members) return (job.members.count - job.members.not_started - job.members.running) / Math.max(1, job.members.count);
  return job.steps && known(job.step) ? Math.min(1, job.step / job.steps) : null;
}

function leftOf(job) {
  if (job.state === "done") return job.started_at ? text("tookFor", duration((Date.parse(job.ended_at) - Date.parse(job.started_at)) / 1000)) : "";
  return job.state === "running" ? duration(job.eta_s) : "";
}

const placeOf = (job) => [job.host, job.gpus ? text("onGpus", job.gpus) : null].filter(Boolean).join(" · ");

const nameOf = (job) => (job.sweep && job.point ? Object.entries(job.point).map(([k, v]) => `${k.split(".").at(-1)} ${v}`).join(" ") : job.name);

export function putRow(row, job, actions) {
  const c = row.cells, word = wordOf(job), share = shareOf(job), lives = job.state === "running";
  putState(row, word);
  put(c.name, nameOf(job));
  put(c.id, ` ${job.sweep ? `${job.sweep}_${job.index}` : job.id}${job.members ? ` · ${text("sweepOf", job.members.count)}` : ""}`);
  put(c.why, job.reason ?? "");
  putAttribute(c.why, "title", job.reason ?? "");
  put(c.steps, stepsOf(job));
  put(c.share, share === null ? "" : percent(share, 0));
  row.meter.hidden = share === null;
  row.meter.value = share ?? 0;
  putAttribute(row.meter, "class", job.state === "done" ? "rest" : word === "recovering" ? "warn" : "");
  put(c.loss, known(job.loss) ? number(job.loss, 4) : lives && known(job.step) ? "—" : "");
  put(c.speed, known(job.samples_per_s) ? `${number(job.samples_per_s)}/s` : lives ? "—" : "");
  put(c.goodput, known(job.goodput) ? percent(job.goodput, 0) : lives ? "—" : "");
  put(c.left, leftOf(job));
  put(c.place, placeOf(job));
  putAttribute(c.place, "title", placeOf(job));
  row.node.classList.toggle("member", Boolean(job.sweep));
  row.node.classList.toggle("ended", job.state === "done");
  row.fold.hidden = !job.members;
  putAttribute(row.fold, "aria-expanded", String(actions.isOpen(job.id)));
  row.box.checked = actions.picked(job.id);
  putAttribute(row.node, "data-word", word);
  row.node.classList.toggle("picked", row.box.checked);
  if (!job.members) putSpark(row, job);
}
