/* SPDX-License-Identifier: Apache-2.0 */
/* job.js - the page of one job: why it is as it is, its curves, where its time went, what happened, its log */
import { act, possible } from "./actions.js";
import { get } from "./api.js";
import { chart } from "./chart.js";
import { el, put, putAttribute } from "./dom.js";
import { clock, duration, known, number, percent, shape, wordOf } from "./figures.js";
import { text } from "./texts.js";

const BUCKETS = ["productive", "replayed", "init", "data", "checkpoint", "disk", "hang", "restart", "queued", "paused"];
const CURVES = [["loss", "loss"], ["samples_per_s", "speed"], ["grad_norm", "gradNorm"], ["lr", "lr"]];
const LOG_BYTES = 65536, LOG_KEPT = 400000, EVENTS = 500;

function figure(name, value) { return el("div", {}, el("dt", {}, text(name)), el("dd", {}, value)); }

function figuresOf(job) {
  const step = known(job.step) ? number(job.step, 12) + (job.steps ? ` / ${number(job.steps, 12)}` : "") : "—";
  return el("dl", { class: "figures" }, figure("step", step), figure("loss", number(job.loss)),
    figure("speed", known(job.samples_per_s) ? `${number(job.samples_per_s)}\u00a0/s` : "—"), figure("goodput", percent(job.goodput)),
    figure("left", job.state === "running" ? duration(job.eta_s) : "—"));
}

/* Ten parts that sum to rank_s; a part's length is its share, the numbers stand beside it. */
function timeOf(goodput) {
  const rows = BUCKETS.filter((b) => goodput[b] > 0).map((b) => el("tr", {}, el("th", { scope: "row" }, text(`bucket_${b}`)),
    el("td", {}, el("progress", { class: `b-${b}`, max: goodput.rank_s || 1, value: goodput[b], "aria-hidden": "true" })),
    el("td", { class: "num" }, duration(goodput[b])), el("td", { class: "num" }, percent(goodput.rank_s ? goodput[b] / goodput.rank_s : null))));
  const sum = el("tr", {}, el("th", { scope: "row" }, text("sum")), el("td", {}), el("td", { class: "num" }, duration(goodput.rank_s)), el("td", {}));
  return el("table", { class: "ledger" }, el("tbody", {}, ...rows, sum));
}

function eventRow(event) {
  return el("li", { class: `event k-${event.kind}` }, el("time", { datetime: event.at, title: event.at }, clock(event.at)),
    el("span", { class: "kind" }, event.kind.replaceAll("_", " ")), el("span", {}, event.text ?? ""));
}

/* ---- the log: it is fetched from its end, and followed ---- */

function logPanel(id) {
  const pre = el("pre", { class: "log", tabindex: "0", role: "log", "aria-label": text("logs"), "aria-live": "off" });
  const rank = el("input", { type: "number", min: "0", value: "0", class: "rank", "aria-label": text("rank"), onchange: begin });
  const follow = el("input", { type: "checkbox", checked: true });
  let offset = -LOG_BYTES, attempt = 0, turn = 0;

  function begin() {
    offset = -LOG_BYTES;
    attempt = 0;
    turn++;
    pre.replaceChildren();
  }

  function append(data) {
    pre.append(data);
    while (pre.textContent.length > LOG_KEPT && pre.childNodes.length > 1) pre.firstChild.remove();
    if (follow.checked) pre.scrollTop = pre.scrollHeight;
  }

  async function refresh() {
    const mine = turn;
    for (let i = 0; i < 16; i++) {
      const part = await get(`/v1/jobs/${id}/logs`, { rank: Math.max(0, Number(rank.value) || 0), offset, limit: LOG_BYTES });
      if (mine !== turn) return;
      if (attempt && part.attempt !== attempt) { begin(); return; }
      attempt = part.attempt;
      offset = part.next_offset;
      if (!part.data) return;
      append(part.data);
    }
  }

  const node = el("section", { class: "panel" }, el("header", {}, el("h2", {}, text("logs")),
    el("label", {}, text("rank"), " ", rank), el("label", {}, follow, " ", text("follow"))), pre);
  return { node, refresh };
}

/* ---- the page ---- */

export function jobPage(main, name, context) {
  const path = `/v1/jobs/${encodeURIComponent(name)}`;
  const title = el("h1", {}), state = el("span", {}), buttons = el("div", { class: "end" });
  const why = el("p", { class: "why-text" }), evidence = el("ol", {}), proof = el("details", { class: "proof" }, el("summary", {}, text("evidence")), evidence);
  const figures = el("div", {}), curves = el("div", { class: "curves" }), time = el("div", { class: "body" }), events = el("ol", { class: "events" });
  const log = logPanel(encodeURIComponent(name));
  let last = 0, drawn = null, word = null;

  main.replaceChildren(
    el("div", { class: "head" }, title, state, buttons),
    el("section", { class: "panel" }, el("div", { class: "body" }, why, proof), figures), curves,
    el("section", { class: "panel" }, el("header", {}, el("h2", {}, text("time"))), time),
    el("section", { class: "panel" }, el("header", {}, el("h2", {}, text("events"))), events), log.node);

  async function run(action, job) {
    const refused = await act(action, [job]);
    if (refused === null) return;
    context.say(refused);
    context.refresh();
  }

  function paintHead(job) {
    put(title, `${job.id} ${job.name}`);
    document.title = `${job.name} · jobctl`;
    const now = `${wordOf(job)} ${possible(job)}`;
    if (now === word) return;
    word = now;
    state.className = `state pill ${wordOf(job)}`;
    state.replaceChildren(shape(wordOf(job)), text(wordOf(job)));
    buttons.replaceChildren(...possible(job).map((a) =>
      el("button", { type: "button", class: a === "cancel" ? "btn stop" : "btn", onclick: () => run(a, job) }, text(a))));
  }

  function paintWhy(answer) {
    put(why, answer.text);
    proof.hidden = !answer.evidence?.length;
    const lines = (answer.evidence ?? []).map((e) => (typeof e === "string" ? e : e.text ?? JSON.stringify(e)));
    if (evidence.dataset.has === lines.join("\n")) return;
    evidence.dataset.has = lines.join("\n");
    evidence.replaceChildren(...lines.map((line) => el("li", {}, line)));
  }

  async function takeEvents() {
    for (;;) {
      const answer = await get(`${path}/events`, { after: last, limit: EVENTS });
      for (const event of answer.events) {
        events.prepend(eventRow(event));
        last = event.seq;
      }
      if (answer.events.length < EVENTS) return;
    }
  }

  /* Curves are drawn again only when there is another step. */
  async function paintCurves(job) {
    const now = `${job.step} ${job.generation}`;
    if (now === drawn) return;
    drawn = now;
    const answers = await Promise.all(CURVES.map(([metric]) => get(`${path}/metrics`, { name: metric, limit: 500 })));
    const shown = CURVES.map(([, key], i) => [key, answers[i].points]).filter(([key, points]) => points.length || key === "loss");
    curves.replaceChildren(...shown.map(([key, points]) => chart(text(key), points)));
  }

  async function refresh() {
    const [all, reason] = await Promise.all([get(path), get(`${path}/why`)]);
    paintHead(all.job);
    paintWhy(reason);
    figures.replaceChildren(figuresOf(all.job));
    time.replaceChildren(timeOf(all.goodput));
    await Promise.all([takeEvents(), paintCurves(all.job), all.job.attempt ? log.refresh() : null]);
    putAttribute(main, "data-ready", "1");
  }

  function key(e) {
    if (e.key !== "Escape" || document.querySelector("dialog[open]")) return;
    location.hash = "#/";
  }

  return { refresh, key, close: () => main.removeAttribute("data-ready") };
}
